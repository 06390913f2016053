"""Python's integers do not wrap: what is made of integer arguments is what Python makes of it, or is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, RangeError
from tests.table import GENTLY

X = np.array([1.0, 2.0, 3.0])
NONE = sg.Options(compiler="none")
BIG = 2**62
FUNCTIONS: dict[str, Any] = {
    "n * n": lambda x, n, _: x * (n * n), "n * m + 1": lambda x, n, m: x * (n * m + 1), "-n": lambda x, n, _: x * -n,
    "n**3": lambda x, n, _: x * n**3, "1 << m": lambda x, _, m: x * (1 << abs(m) % 70),
    "n // m": lambda x, n, m: x * (n // m),
    "a remainder": lambda x, n, _: x * ((n * 1103 + 12345) % 2**31), "an index": lambda x, n, m: x[(n * m) % 3] + x,
    "a condition": lambda x, n, _: x if n * n > 5 else -x, "a loop": lambda x, n, _: _powers(x, n),
    "a long loop": lambda x, n, _: x * _tripled(n), "remainders in a loop": lambda x, n, _: x * _congruent(n),
    "single precision": lambda x, n, _: (x.astype(np.float32) * n).astype(np.float64),
}
ARGUMENTS = [
    (3, 5), (-7, 2), (2**31, 2**31), (2**32, -3), (3037000500, 1), (BIG, 2), (-BIG, 4), (2**63 - 1, -1),
    (-(2**63), -1), (0, 69),
]


def _powers(x: Any, n: Any) -> Any:
    for _ in range(3):
        n = n * n
    return x * n


def _tripled(n: Any) -> Any:
    for _ in range(35):
        n = n * 3
    return n


def _congruent(n: Any) -> Any:
    for _ in range(40):
        n = (n * 1103515245 + 12345) % 2**31
    return n


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_in_python_or_refused(name: str) -> None:
    fun = FUNCTIONS[name]
    f = sg.jit(fun, options=NONE)
    seen = {_found(f, fun, n, m) for n, m in ARGUMENTS}
    assert seen == ({"computed"} if name == "single precision" else {"computed", "refused"})


def _found(f: Any, fun: Any, n: int, m: int) -> str:
    try:
        np.testing.assert_allclose(f(X, n, m), fun(X, n, m), rtol=1e-6)
    except ArgumentError as error:
        said = r"argument [nm] is the integer -?\d+: of it is made a number,( -?\d+,)? that int64 .*"
        return "refused" if re.match(said, str(error)) and __file__ in str(error) else str(error)
    return "computed"


def _power(n: Any, m: Any) -> Any:
    p = 1
    for _ in range(m):
        p = p * n
    return p


def _grown(n: Any, m: Any) -> Any:
    p, k = 1, 0
    while k < m:
        p, k = p * n, k + 1
    return p


def _beyond(_: Any, m: Any) -> Any:
    p = 1
    while p < m:
        p = p * 3
    return p


def _fibonacci(n: int, m: int) -> int:
    a, b = n, n
    for _ in range(m):
        a, b = b, a + b
    return a


def _shifted(n: int, m: int) -> int:
    """Counted within and between, and doubled by what is counted, below a bound at first."""
    p, k = 1, n
    for _ in range(m):
        for _ in range(3):
            k = k + 1
        p = max(1000, 1 << k)
    return p


def _nested(inner: Any) -> Any:
    return lambda n, m: sg.fori_loop(0, m, lambda _, p: inner(p, n), 1)


ROUNDS: dict[str, tuple[Any, Any]] = {
    "in a loop": (_nested(lambda p, n: sg.fori_loop(0, 2, lambda _, q: q * n, p)), lambda n, m: n ** (2 * m)),
    "what is counted": (_shifted, _shifted),
    "for": (_power, _power), "while": (_grown, _grown), "a bound": (_beyond, _beyond),
    "a sum": (_fibonacci, _fibonacci),
    "fori_loop": (lambda n, m: sg.fori_loop(0, m, lambda _, p: p * n, 1), _power),
    "while_loop": (lambda n, m: sg.while_loop(lambda s: s[0] < m, lambda s: (s[0] + 1, s[1] * n), (0, 1))[1], _power),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_loops_whose_rounds_an_argument_says(name: str) -> None:
    fun, plain = ROUNDS[name]
    f, seen = sg.jit(fun, options=NONE), set()
    for n, m in ((2, 3), (3, 39), (7, 22), (3, 95), (5, 28), (2, 62), *[(1, 2**62)] * (name == "a bound")):
        want = plain(n, m)
        try:
            assert f(n, m) == want
        except (ArgumentError, RangeError) as error:  # at a call, or while it is traced at these
            assert want >= 2**63
            assert __file__ in str(error)  # noqa: PT017
            seen.add("refused")
        else:
            seen.add("computed")
    assert seen == {"computed", "refused"}


@pytest.mark.parametrize("fun", [
    lambda n: sg.fori_loop(0, 200, lambda _, s: s + 2**56, n),
    lambda n: sg.fori_loop(0, 250, lambda _, s: (*s[1:], s[0] + s[-1]), (n,) * 5)[-1],
], ids=["large steps", "a delay"])
def test_what_counts_for_long_is_looked_at_to_its_end(fun: Any) -> None:
    with pytest.raises((ArgumentError, RangeError)):
        sg.jit(fun, options=NONE)(3)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint64"])
def test_arrays_of_integers_take_what_they_hold(dtype: str) -> None:
    a, f = np.arange(3, dtype=dtype), sg.jit(lambda a, n: a * n, options=NONE)
    info = np.iinfo(dtype)
    for n in (0, 1, info.min, min(info.max, 2**63 - 1)):
        np.testing.assert_array_equal(f(a, int(n)), a * n)
    for n in (info.min - 1, info.max + 1):
        with pytest.raises(OverflowError):
            a * n
        with pytest.raises(ArgumentError, match="argument n is the integer"):
            f(a, int(n))


def test_in_c_small_numbers_take_the_short_way() -> None:
    f = sg.grad(lambda x, n: np.sum(x) * (n * n), options=GENTLY)
    for n in (3, 4, 2**31, 3037000499, -5):
        np.testing.assert_array_equal(f(X, n), np.full(3, float(n * n)))
    with pytest.raises(ArgumentError, match=r"argument n is the integer 3037000500: .* 9223372037000250000, "):
        f(X, 3037000500)
    assert f.cache_info().compilations == 1
    with pytest.raises(ArgumentError, match="argument n is the integer 4294967296"):
        f.bind(X, 2**32)


def test_loops_in_loops_are_looked_at_for_a_bounded_number_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three loops in each other had 256 rounds each, for every power of two."""
    from symgrad.build import integers

    def total(x: Any, n: Any) -> Any:
        s = 0
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    s = s + i * j + k
        return x * s

    looked, of = [0], integers._largest_value

    def counted(*given: Any) -> int:
        looked[0] += 1
        return of(*given)

    monkeypatch.setattr(integers, "_largest_value", counted)
    assert sg.jit(total)(1.0, 7) == total(1.0, 7)
    assert 0 < looked[0] < 200_000

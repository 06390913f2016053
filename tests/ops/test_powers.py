"""Powers of special numbers: zeros, infinities, NaN, halves; constants, which passes rewrite, and unknown exponents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

INTERPRETED = sg.Options(compiler="none")
BASES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e300, 5e-324)
EXPONENTS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 4.0, 7.0, 1.5, -1.5, 0.25, 1 / 3, 64.0, -64.0, 65.0, 256.0,
    1e10, 1e10 + 1, 2.0**31, 2.0**53 + 2, np.inf, -np.inf, np.nan,
)
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "power": np.power, "float_power": np.float_power, "**": lambda x, e: x**e,
}


def agree(got: Any, want: Any, words: Any) -> None:
    """Compare to 8 ULP, zeros with their sign; beyond 2.3e-308 only zero and infinity are left of an inverse."""
    assert got.dtype == want.dtype, words
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= 8 * np.spacing(np.abs(want))
    same = (got == want) & (np.signbit(got) == np.signbit(want))
    assert (same | (np.isnan(got) & np.isnan(want)) | (near & (want != 0))).all(), (words, got, want)


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["C", "interpreted"])
@pytest.mark.parametrize("form", FORMS)
def test_special_numbers(form: str, options: sg.Options) -> None:
    """Arrays and numbers to known exponents, known bases to arrays, arrays to arrays."""
    power = FORMS[form]
    known = [c for c in EXPONENTS if form != "power" or c != 0.5]  # of which NumPy's versions take a root or a power

    def program(x: Any, e: Any, every: Any, numbers: Any) -> Any:
        return (
            [power(x, c) for c in known], [power(x, int(c)) for c in known if c.is_integer() and abs(c) < 1e9],
            [power(b, e) for b in BASES], power(every[0], every[1]),
            [np.array([power(v, c) for v in numbers]) for c in known],
            [power(x, np.full(len(BASES), c)) for c in EXPONENTS],
        )

    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):
            x, e = np.array(BASES, dtype), np.array(EXPONENTS, dtype)
            args = (x, e, np.stack(np.meshgrid(x, e)), tuple([dtype(b) for b in BASES]))
            expected = program(*args)
        with np.errstate(over="ignore"):  # 1e300 in single precision, of which NumPy warns, too
            found = sg.jit(program, options=options)(*args)
        for part, (got, want) in enumerate(zip(found, expected, strict=True)):
            pairs = zip(got, want, strict=True) if isinstance(got, list) else [(got, want)]
            for k, (one, two) in enumerate(pairs):
                agree(one, np.asarray(two), (form, dtype.__name__, part, k))


def test_a_root_by_a_power_of_a_number_is_a_power() -> None:
    """NumPy takes the root of an array for x ** 0.5, and the power of a number, of which -infinity has one."""
    root = sg.jit(lambda x: x**0.5)
    assert root(-np.inf) == np.inf
    assert not np.signbit(root(-0.0))
    assert np.isnan(root(np.array([-np.inf]))[0])
    assert np.signbit(root(np.array([-0.0]))[0])
    assert sg.grad(lambda x: x**0.5)(4.0) == 0.25
    assert sg.grad(lambda x: x**-0.5)(4.0) == -0.0625
    assert "where" not in sg.jit(lambda x: (x @ x) ** 0.5).lower(np.ones(3)).as_text("stable")


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["C", "interpreted"])
def test_large_integer_exponents(options: sg.Options) -> None:
    """An exponent of 64 bits is not cut to 32."""
    places = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62 + 3, 2**63 - 1]
    for dtype in (np.int64, np.uint64):
        x = np.array([0, 1, 2, 3, 5, 7], dtype)
        found = sg.jit(lambda x: [x**n for n in places], options=options)(x)
        for n, got in zip(places, found, strict=True):
            np.testing.assert_array_equal(got, x**n, err_msg=str(n))
    y = np.array([-3, -1, 0, 3], np.int64)
    np.testing.assert_array_equal(sg.jit(lambda y: y ** (2**32 + 1), options=options)(y), y ** (2**32 + 1))
    big = np.array([1, 3], np.uint64)
    np.testing.assert_array_equal(sg.jit(lambda y: y ** (2**64 - 1), options=options)(big), big ** np.uint64(2**64 - 1))

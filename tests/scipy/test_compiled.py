"""Functions that SciPy's compiled code computes: C against SciPy, derivatives against differences, in few modules."""

from __future__ import annotations

import pickle
import re
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.errors import NoGradient, ToolchainError, UnsupportedError
from symgrad.ops import LIBRARY, load
from symgrad.ops.scipy.compiled import INTEGERS
from tests import surface
from tests.scipy.along import VERSION

load()
PLAIN = sg.Options(compiler="none")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 7.25, 30.0, np.inf, -np.inf, np.nan])
UNTAME = (
    "hyp1f1", "mathieu", "pro_", "obl_", "nbdtri", "bdtri", "ncfdtri", "nctdtri", "chndtri", "btdtri", "pdtrik",
    "fdtridfd", "gdtrib", "stdtridf", "chdtriv",
)
"""What searches for its result, or is a series with no end: far outside of its domain SciPy itself may not return."""


def call_of(name: str) -> str:
    """Return the call of the page of functions, or one that is searched for as there."""
    return next((call for room, own, call, _ in surface.written(surface.PAGE.read_text(encoding="utf-8"))
                 if room == "scipy.special" and own == name), "")


@cache
def table() -> dict[str, tuple[Any, list[Any]]]:
    """Return a call of each function that SciPy computes with arguments that are floats, by its name."""
    found = {}
    for name in sorted({op.library.partition(":")[0] for op in LIBRARY.values()}):
        if not hasattr(scipy.special, name) or (VERSION < (1, 14) and name.startswith(("obl_", "pro_"))):
            continue  # this SciPy is older than the function, or writes where it must not (free(): invalid size)
        words = re.fullmatch(r"scipy\.special\.\w+\((.*)\)", call_of(name))
        assert words is not None, name
        values = eval(f"[{words[1]}]", {**surface.KNOWN, **surface.ARRAYS})  # noqa: S307 - this project's own
        whole = INTEGERS.get(name, ())
        found[name] = (getattr(scipy.special, name), [
            np.asarray(v, int if k in whole else float) for k, v in enumerate(values)])
    return found


def every(names: Any) -> Any:
    """Return a function of all arguments that calls every function of SciPy's by its name."""
    functions = [table()[name][0] for name in names]
    return lambda given: [f(*args) for f, args in zip(functions, given, strict=True)]


def flat(values: Any) -> list[Any]:
    return [np.asarray(x) for value in values for x in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.parametrize("name", ["kv", "kve", "iv", "ive"])
def test_derivatives_by_the_order(name: str) -> None:
    """To second order, against mpmath."""
    function, of = getattr(scipy.special, name), mp.besselk if name[0] == "k" else mp.besseli
    sign = {"kve": 1, "ive": -1}.get(name, 0)
    slope = sg.grad(lambda v, x: np.sum(function(v, x)), options=PLAIN)
    bend = sg.grad(lambda v, x: np.sum(slope(v, x)), options=PLAIN)
    v = np.array([0.0, 0.3, 2.5, -1.3, 40.0, 0.25, 100.0, -0.4])
    x = np.array([1.0, 0.7, 1e-8, 4.0, 3.0, 200.0, 100.0, 0.01])
    with mp.workdps(40):
        def exact(order: int) -> list[float]:
            return [float(mp.diff(lambda u, b=b: of(u, mp.mpf(b)) * mp.exp(sign * b), a, order))
                    for a, b in zip(v, x, strict=True)]

        np.testing.assert_allclose(slope(v, x), exact(1), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(bend(v, x), exact(2), rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_in_c_are_scipys(dtype: Any) -> None:
    names = [*table()]
    given = [[x.astype(dtype) if x.dtype.kind == "f" else x for x in table()[name][1]] for name in names]
    wide = [[x.astype(np.float64) if x.dtype.kind == "f" else x for x in args] for args in given]  # as SciPy's C has it
    found, expected = sg.jit(every(names))(given), every(names)(wide)
    for name, got, wanted in zip(names, found, expected, strict=True):
        for x, y in zip(flat([got]), flat([wanted]), strict=True):
            assert x.dtype == dtype, name
            with np.errstate(over="ignore"):
                want = y.astype(dtype)
            np.testing.assert_allclose(x, want, rtol=1e-13 if dtype is np.float64 else 1e-6, err_msg=name)


def test_special_numbers_are_scipys() -> None:
    names = [name for name in table() if not name.startswith(UNTAME)]
    given = []
    for name in names:
        before = table()[name][1][:-1]
        given.append([*[np.full(SPECIAL.shape, np.ravel(x)[0]) for x in before], SPECIAL])
    with np.errstate(all="ignore"):
        found, expected = sg.jit(every(names))(given), every(names)(given)
    for name, got, want in zip(names, found, expected, strict=True):
        for x, y in zip(flat([got]), flat([want]), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13, err_msg=name)


def test_derivatives_in_c_are_those_of_the_interpreter() -> None:
    """First derivatives by the arguments that have one, of strided arguments."""
    names, places = [], []
    for name in table():
        by = [k for k in range(len(table()[name][1])) if table()[name][1][k].dtype.kind == "f" and slopes(name, k)]
        names += [name] * bool(by)
        places += [by] * bool(by)

    functions = [table()[name][0] for name in names]

    def gradients(given: Any) -> Any:
        found = []
        for function, by, args in zip(functions, places, given, strict=True):
            def loss(chosen: Any, function: Any = function, by: Any = by, args: Any = args) -> Any:
                whole = [*args]
                for k, value in zip(by, chosen, strict=True):
                    whole[k] = value
                return sum(np.sum(y) for y in traced(function(*whole)))

            found.append(sg.grad(loss)([args[k] for k in by]))  # one program of all
        return found

    given = [table()[name][1] for name in names]
    wide = [[np.stack([x, x], -1)[..., 0] for x in args] for args in given]
    plain = sg.jit(gradients, options=PLAIN)(given)
    for name, one, other in zip(names, sg.jit(gradients)(wide), plain, strict=True):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13, err_msg=name)


def traced(value: Any) -> Any:
    return value if isinstance(value, tuple) else (value,)


@cache
def slopes(name: str, k: int, order: int = 1) -> Any:
    """Return derivatives of a function by an argument as symgrad finds them, without C; nothing where it refuses."""
    function, args = table()[name]

    def line(t: Any) -> Any:
        found = traced(function(*[x + t if j == k else x for j, x in enumerate(args)]))
        weights = np.cos(np.arange(1.0, found[0].size + 1)).reshape(found[0].shape)
        return sum((j + 1.5) * np.sum(weights * y) for j, y in enumerate(found))

    of: Any = line
    for _ in range(order):
        of = sg.grad(of)
    try:
        with np.errstate(all="ignore"):
            return float(sg.jit(of, options=PLAIN)(0.0)), line
    except NoGradient:
        return None


FURTHER = {
    "ncfdtrinc": 1e-4, "pbwa": 1e-3, "besselpoly": 1e-4, "obl_ang1": 1e-3, "obl_rad1": 1e-3, "pro_ang1": 1e-3,
    "pro_rad1": 1e-3,
}
"""Where SciPy's own numbers have fewer digits."""
if VERSION < (1, 15):
    FURTHER |= {"ncfdtr": 1e-4, "ncfdtri": 1e-2}


@pytest.mark.parametrize("name", [*table()])
def test_derivatives_to_second_order(name: str) -> None:
    tried = 0
    for k in range(len(table()[name][1])):
        first = slopes(name, k)
        if first is None or table()[name][1][k].dtype.kind != "f":
            continue
        _, line = first
        with np.errstate(all="ignore"):
            at = {h: float(line(h * 1e-3)) for h in (-4, -2, -1, 0, 1, 2, 4)}
        one = [(at[h] - at[-h]) / (2e-3 * h) for h in (1, 2, 4)]
        want = (16 * (4 * one[0] - one[1]) / 3 - (4 * one[1] - one[2]) / 3) / 15
        close = FURTHER.get(name.removesuffix("_cv"), 2e-6)
        if not np.isfinite(want):
            continue
        np.testing.assert_allclose(first[0], want, rtol=close, atol=close, err_msg=f"{name} by {k}")
        tried += 1
        second = slopes(name, k, 2)
        if second is not None and name not in FURTHER:
            two = [(at[h] - 2 * at[0] + at[-h]) / (1e-3 * h) ** 2 for h in (1, 2, 4)]
            want = (16 * (4 * two[0] - two[1]) / 3 - (4 * two[1] - two[2]) / 3) / 15
            scale = 1e-5 * max(abs(value) for value in at.values()) + 1e-5
            np.testing.assert_allclose(second[0], want, rtol=1e-4, atol=scale * 100, err_msg=f"{name} by {k} twice")
    assert tried or all(slopes(name, k) is None for k in range(len(table()[name][1])))


def test_open_extents_batches_and_pickles() -> None:
    specs = sg.spec("f64[n]"), sg.spec("f64[n]")
    f = sg.jit(lambda v, x: scipy.special.jv(v, x) + scipy.special.airy(x)[2], specs=specs)
    for n in (1, 3, 8):
        v, x = np.arange(n) / 2, np.linspace(0.5, 4, n)
        np.testing.assert_allclose(f(v, x), scipy.special.jv(v, x) + scipy.special.airy(x)[2], rtol=1e-13)
    many = sg.vmap(lambda x: scipy.special.ellipk(x[0]) * x)(np.array([[0.1, 2.0], [0.5, 3.0]]))
    np.testing.assert_allclose(many, scipy.special.ellipk([[0.1], [0.5]]) * [[0.1, 2.0], [0.5, 3.0]])
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_allclose(again(np.ones(2), np.ones(2)), f(np.ones(2), np.ones(2)))


def test_a_package_has_no_scipy(tmp_path: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"scipy\.special\.jv in a package of C(?s:.*)instead: "):
        sg.emit(lambda x: np.sum(scipy.special.jv(0.5, x)), ("f64[n]",), tmp_path / "out")


def test_another_type_in_scipy_is_refused() -> None:
    from symgrad.build.pointers import address

    with pytest.raises(ToolchainError, match=r"no scipy\.special\.cython_special\.jv of the type double \(int\)"):
        address("jv:double (int)")

"""Reductions of arrays for which a wrong start shows: all of one sign, all the least, all infinite, all true or false.

The functions are those that are answered and have ``axis=`` and ``keepdims=``, and the running totals.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import optree
import pytest
import scipy.special  # noqa: F401 - its reductions are answered once it is imported

import symgrad as sg
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS, answer_scipy
from symgrad.trace.numpy.replaced import installed
from symgrad.trace.signature import Signature, leaf_spec
from symgrad.trace.trace import trace
from tests.ops.calls import quiet

load()
answer_scipy()
INTERPRETED = sg.Options(compiler="none")
RUNNING = {"cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod"}
LANES, TAIL, PLACES = (64,), (67,), (3, 5, 16)
LONG = 1 << 19
"""So many elements are shared by threads."""


def is_reduction(function: Any) -> bool:
    """Whether a function reduces along an axis, by its signature."""
    if isinstance(function, np.ufunc) or not callable(function):
        return False
    names = set(inspect.signature(function).parameters)
    required = [p for p in list(inspect.signature(function).parameters.values())[1:] if p.default is p.empty
                and p.kind is p.POSITIONAL_OR_KEYWORD]
    return not required and ({"axis", "keepdims"} <= names or function.__name__ in RUNNING)


REFUSES_NAN = {"nanargmax", "nanargmin"}
"""NumPy refuses an array in which there is nothing but NaN, which is a value."""

REDUCTIONS = {
    f"{f.__module__}.{f.__name__}": f for f in ANSWERS if is_reduction(f) and f.__name__ not in REFUSES_NAN
}


def fills(dtype: np.dtype[Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return numbers, without zero among them unless all are, that arrays of a dtype are filled with."""
    if dtype.kind == "b":
        return {"all false": np.zeros(4, bool), "all true": np.ones(4, bool), "mixed": np.array([False, True, False])}
    some = np.array([3, 1, 4, 2, 5, 1, 3], dtype)
    found = {"positive": some, "zeros": some * 0, "ones": some * 0 + 1}
    if dtype.kind != "u":
        found["negative"] = -some
    if dtype.kind == "f":
        found |= {f"all {v}": np.full(3, v, dtype) for v in (np.inf, -np.inf, np.nan)}
        found["NaN among negative ones"] = np.array([-3, np.nan, -1, -2, -5], dtype)
    else:
        limits = np.iinfo(dtype)
        found |= {"least": np.full(3, limits.min, dtype), "greatest": np.full(3, limits.max, dtype)}
    return found


def forms(name: str, function: Any, x: Any, lanes: Any, tail: Any, mask: Any) -> list[Any]:
    """Return the ways a function is called."""
    if function.__name__ in RUNNING:
        return [lambda k=k: function(x, axis=k) for k in (0, 1, 2)] + [lambda v=v: function(v) for v in (lanes, tail)]
    calls: list[Any] = [
        lambda: function(x), lambda: function(lanes), lambda: function(tail), lambda: function(x, keepdims=True),
        *[lambda k=k: function(x, axis=k) for k in (0, 1, 2, -1)], lambda: function(x, axis=1, keepdims=True),
        lambda: function(x[:, :0], axis=0), lambda: function(x[:, :0], axis=1), lambda: function(tail[:0]),
    ]
    if not name.endswith("matrix_norm"):
        calls += [lambda: function(x, axis=(0, 2)), lambda: function(x, axis=(1, 2))]
    names = set(inspect.signature(function).parameters)
    if "where" in names:
        calls += [lambda: function(x, where=mask), lambda: function(x, axis=1, where=mask)]
    if "initial" in names:
        calls += [lambda: function(x, axis=1, initial=1), lambda: function(x, initial=1, where=mask)]
        calls += [lambda: function(x[:, :0], axis=1, initial=1)]
    return calls


def attempted(call: Callable[[], Any]) -> Any:
    """Return what a call gives, None where it raises."""
    try:
        return quiet(call)
    except Exception:  # noqa: BLE001 - the table of all kinds of arguments looks at errors
        return None


def alone(name: str, k: int, mask: Any, *arrays: Any) -> Any:
    """Trace one call by itself."""

    def call(*a: Any) -> Any:
        return forms(name, REDUCTIONS[name], a[0], a[1], a[2], mask)[k]()

    names = "x", "lanes", "tail"
    specs = tuple(map(leaf_spec, arrays, names))
    return trace(call, Signature(None, specs, names, names, (), (0, 1, 2)), lambda leaves: call(*leaves), name="alone")


BY_DAY, BY_NIGHT = "?Hd", "bBhiIlLf"


@pytest.mark.parametrize("char", [*BY_DAY, *[pytest.param(char, marks=pytest.mark.nightly) for char in BY_NIGHT]])
def test_reductions_start_right(char: str) -> None:
    """Every reduction, over first, middle and last axes, in lanes and tail, of nothing, from a start, under a mask.

    In C and interpreted; what is asked of both is found out once.
    """
    dtype = np.dtype(char)
    mask = np.arange(15).reshape(3, 5, 1) % 3 > 0
    example = [np.resize(fills(dtype)["ones" if dtype.kind != "b" else "mixed"], s) for s in (PLACES, LANES, TAIL)]
    numpys = [(name, k) for name, function in REDUCTIONS.items()
              for k, call in enumerate(forms(name, function, example[0], example[1], example[2], mask))
              if attempted(call) is not None]
    with installed():  # once for all traces
        asked = [(name, k) for name, k in numpys if attempted(partial(alone, name, k, mask, *example)) is not None]
    assert len(asked) > 15 * len(REDUCTIONS) // 2

    def program(x: Any, lanes: Any, tail: Any) -> list[Any]:
        made = [forms(name, REDUCTIONS[name], x, lanes, tail, mask)[k]() for name, k in asked]
        found = [[np.ravel(part) for part in optree.tree_leaves(parts)] for parts in made]
        groups: dict[Any, list[Any]] = {}
        for part in [part for parts in found for part in parts]:
            groups.setdefault(part.dtype, []).append(part)
        return [np.concatenate(parts) for parts in groups.values()]

    functions = {"C": sg.jit(program, options=sg.Options(flags=("-O1",))),
                 "interpreted": sg.jit(program, options=INTERPRETED)}
    for words, numbers in fills(dtype).items():
        arrays = [np.resize(numbers, shape) for shape in (PLACES, LANES, TAIL)]
        wanted = quiet(program, *arrays)
        for way, function in functions.items():
            for got, want in zip(function(*arrays), wanted, strict=True):
                assert got.dtype == want.dtype
                tolerance = 1e-5 if got.dtype == np.float32 or char == "f" else 1e-12
                message = f"{way}: {char} {words}"
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=message)


def test_the_list_is_derived() -> None:
    """What NumPy reduces by is among them."""
    names = {f.__name__ for f in REDUCTIONS.values()}
    assert {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean", "ptp", "norm", "logsumexp", "nanmax",
            "count_nonzero", "cumsum", "average"} <= names


def test_infinite_totals_of_tiles() -> None:
    """A compensated sum that is infinite, or becomes so, has lost no digits that could be NaN."""
    both = sg.jit(lambda x: (np.sum(x), np.sum(x * x), np.max(x)))
    for value in (np.inf, -np.inf, 3e38):
        x = np.resize(np.array([1, value, 2], np.float32), 200_000)
        with np.errstate(over="ignore"):
            for got, want in zip(both(x), (np.sum(x), np.sum(x * x), np.max(x)), strict=True):
                assert got == want, value


PARTED: list[Callable[..., Any]] = [
    np.sum, np.prod, np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.nanmax, np.nanmin, np.count_nonzero,
]


@pytest.mark.parametrize("chars", ["?bBhH", "iIlL", "fd"])
def test_threads_start_right(chars: str) -> None:
    """So many elements that threads take parts, each from a start of its own."""

    def program(arrays: Any) -> Any:
        return [[f(x) for f in PARTED] + [np.max(x.reshape(4, -1), axis=1), np.min(x.reshape(4, -1), axis=0)[:3]]
                for x in arrays]

    compiled = sg.jit(program)
    for words in ("negative", "positive", "least", "greatest", "all -inf", "all inf", "all false", "all true"):
        rows = [fills(np.dtype(c)) for c in chars]
        arrays = [np.resize(row.get(words, next(iter(row.values()))), LONG + 12) for row in rows]
        for char, got, want in zip(chars, compiled(arrays), quiet(program, arrays), strict=True):
            for k, (one, two) in enumerate(zip(got, want, strict=True)):
                np.testing.assert_allclose(one, two, rtol=1e-4 if char == "f" else 1e-12, err_msg=f"{char} {words} {k}")

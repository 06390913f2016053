"""NumPy's functions of vectors of unknown length: calls of `open_surface.txt`, compiled once, at several lengths."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from tests.surface import INTERPRETED, agree, floats

LINES = Path(__file__).with_name("open_surface.txt").read_text(encoding="utf-8").splitlines()[1:]
CALLS = [line.partition(" : ") for line in LINES]
IN_C = (
    "reduceat", "vectorize", "apply_along", "insert", "delete", "resize", "pad", "poly", "block", "histogram2d",
    "hypot", "accumulate", "arange",
)
"""What is compiled to C as well."""
SIZES = (1, 2, 5, 17, 64)


def of_vector(call: str) -> Any:
    return eval(f"lambda x: {call}", {"np": np})  # noqa: S307 - this project's own


def vector(size: int) -> Any:
    return np.random.default_rng(size).uniform(0.1, 2, size)


def weighted(fun: Any) -> Any:
    """Return a number that depends on every floating-point number of a result, each in its way."""
    def total(x: Any) -> Any:
        parts = [y for y in optree.tree_leaves(fun(x)) if getattr(y, "dtype", np.dtype(int)).kind == "f"]
        return sum([x[0] * 0, *[np.ravel(y) @ np.cos(np.cumsum(np.ravel(np.ones_like(y)))) for y in parts]])

    return total


@pytest.mark.parametrize("call", [call for call, _, refused in CALLS if not refused])
def test_calls(call: str) -> None:
    """One compilation gives NumPy's results at each length, its error where NumPy has one, and the gradient."""
    fun = of_vector(call)
    compiled = [sg.jit(fun, specs="f64[n]", options=INTERPRETED)]
    compiled += [sg.jit(fun, specs="f64[n]")] if any(word in call for word in IN_C) else []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for each in compiled:
            for size in SIZES:
                x = vector(size)
                try:
                    wanted = fun(x)
                except (ValueError, IndexError):
                    with pytest.raises(SymgradError):
                        each(x)
                    continue
                assert agree(each(x), wanted), f"{call} of {size}"
        x = vector(5)
        if len(floats(fun(x))):
            slope, fixed = [sg.grad(weighted(fun), specs=specs, options=INTERPRETED)(x) for specs in ("f64[n]", None)]
            np.testing.assert_allclose(slope, fixed, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("call", "why"), [(call, refused) for call, _, refused in CALLS if refused])
def test_what_is_refused_says_why(call: str, why: str) -> None:
    with pytest.raises(SymgradError) as caught:
        sg.jit(of_vector(call), specs="f64[n]", options=INTERPRETED)(vector(5))
    assert why in str(caught.value)

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
        return sum([np.ravel(x)[0] * 0, *[np.ravel(y) @ np.cos(np.cumsum(np.ravel(np.ones_like(y)))) for y in parts]])

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


def halved(x: Any) -> Any:
    half = x.shape[0] // 2
    return x[:half] * x[half : 2 * half]


def between(x: Any) -> Any:
    out = np.zeros(2 * x.shape[0] - 1)
    out[::2] = x
    out[1::2] = (x[1:] + x[:-1]) / 2
    return out


FITS: dict[str, tuple[Any, str, tuple[int, ...]]] = {
    "np.ones(n - 1)": (lambda x: np.diff(x) + np.ones(x.shape[0] - 1), "f64[n]", (0,)),
    "a valid convolution": (lambda x: np.convolve(x, np.ones(3), "valid") * np.full(x.shape[0] - 2, 2.0), "f64[n]", ()),
    "as wide again": (lambda x: np.pad(np.diff(x), (0, 1)) + x, "f64[n]", (0,)),
    "a window's middle": (
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).mean(1) + x[1:-1], "f64[n]", ()),
    "even and odd": (lambda x: np.concatenate([x[::2], x[1::2]]) * x, "f64[n]", ()),
    "two rows of them": (lambda x: np.stack([x[::2], x[1::2]]) ** 2, "f64[n]", ()),
    "two rows in two columns": (lambda x: np.stack([x[::2], x[1::2]], 1) * x.reshape(-1, 2), "f64[n]", ()),
    "pairs": (lambda x: x.reshape(-1, 2).sum(1), "f64[n]", ()),
    "pairs, F": (lambda x: x.reshape(-1, 2, order="F").sum(1), "f64[n]", ()),
    "triples": (lambda x: x.reshape(x.shape[0] // 3, 3) @ np.arange(3.0), "f64[n]", ()),
    "halves": (halved, "f64[n]", ()),
    "joined halves": (lambda x: np.concatenate([x[: len(x) // 2], x[len(x) // 2 :]]) - 2 * x, "f64[n]", ()),
    "between": (between, "f64[n]", (0,)),
    "a column": (lambda x: x[1:].reshape(x.shape[0] - 1, 1) * np.ones((x.shape[0] - 1, 3)), "f64[n]", (0,)),
    "n * (n + 1)": (
        lambda x: np.concatenate([np.outer(x, x).ravel(), x]) * np.outer(x, np.append(x, 1.0)).ravel(), "f64[n]", ()),
    "the inside": (lambda a: a[1:-1, 1:-1] * np.ones((a.shape[0] - 2, a.shape[1] - 2)), "f64[n,m]", ()),
    "the inside, flat": (
        lambda a: a[1:-1, 1:-1].ravel() * np.ones((a.shape[0] - 2) * (a.shape[1] - 2)), "f64[n,m]", (0, 1)),
    "a row more": (
        lambda a: np.concatenate([a.ravel(), a[0]]) * np.concatenate([a, a[:1]]).ravel(), "f64[n,m]", ()),
    "products of what fits": (lambda a: np.ones(a.shape[0] - 1) @ a[1:] @ np.ones((a.shape[1], 2)), "f64[n,m]", (0,)),
}
"""Shapes that fit for all sizes but some. Of those where NumPy has a result, the ones that are refused stand behind."""


@pytest.mark.parametrize("name", FITS)
def test_shapes_that_fit_for_all_sizes_but_some(name: str) -> None:
    """One compilation gives NumPy's results and gradients; sizes that do not fit are refused, as by NumPy."""
    fun, specs, apart = FITS[name]
    each = sg.jit(fun, specs=specs)
    slope = sg.grad(weighted(fun), specs=specs, options=INTERPRETED)
    for size in (0, 1, 2, 3, 4, 5, 6, 9, 12):
        x = np.random.default_rng(size).uniform(0.1, 2, size if specs == "f64[n]" else (size, size + 1))
        try:
            wanted = fun(x)
        except (ValueError, IndexError, ZeroDivisionError):
            wanted = None
        if wanted is None or size in apart:
            with pytest.raises(SymgradError):
                each(x)
            continue
        np.testing.assert_allclose(each(x), wanted, rtol=1e-13)
        if size > 2:
            np.testing.assert_allclose(slope(x), sg.grad(weighted(fun), options=INTERPRETED)(x), rtol=1e-11)


def test_shapes_that_fit_for_some_sizes_say_for_which() -> None:
    for fun, size, why in (
        (lambda x: x.reshape(-1, 2), 5, "the extents n and 2*floor(n/2) differ unless n % 2 == 0"),
        (lambda x: np.pad(np.diff(x), (0, 1)) + x, 0, "the extents Max(1, n) and n differ unless n >= 1"),
    ):
        with pytest.raises(SymgradError, match="it needs a compilation of its own") as caught:
            sg.jit(fun, specs="f64[n]")(np.ones(size))
        assert why in str(caught.value)
    with pytest.raises(SymgradError, match="negative dimensions are not allowed: 1 - n"):
        sg.jit(lambda x: np.ones(1 - x.shape[0]), specs="f64[n]")(np.ones(3))
    with pytest.raises(SymgradError, match=r"shapes \(n,\), \(m,\) do not broadcast together"):
        sg.jit(lambda x, y: x + y, specs=("f64[n]", "f64[m]"))(np.ones(2), np.ones(3))

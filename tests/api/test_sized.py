"""`sg.unique`, `nonzero`, `flatnonzero` and `argwhere` of a known size: NumPy's elements, cut or filled up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

PLAIN = sg.Options(compiler="none")
ARRAYS = {
    "floats": np.array([3.0, 1.0, 3.0, np.nan, 2.0, np.nan, -0.0, 0.0]), "matrix": np.array([[0, 2, 0], [5, 0, 5]]),
    "truths": np.array([True, False, True]), "zeros": np.zeros((2, 3)), "single": np.array([2, 2, 1], np.float32),
    "none": np.zeros(0),
}


def filled(found: Any, size: int, fill: Any) -> Any:
    """Cut an array, or fill it up."""
    return np.concatenate([found, np.full((max(size - len(found), 0), *found.shape[1:]), fill, found.dtype)])[:size]


def agree(found: Any, expected: Any) -> None:
    for x, y in zip(found, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("size", [0, 2, 9])
def test_numpys_elements_cut_or_filled(name: str, size: int) -> None:
    """Of plain arrays, of traced ones and of those of open extents; sets are filled with their smallest element."""
    x = ARRAYS[name]
    values, index, inverse, counts = np.unique(x, True, True, True)
    index, least = index.astype(np.int64), values[0] if len(values) else 0
    expected = [
        filled(values, size, least), filled(values, size, 7), filled(index, size, index[0] if len(index) else 0),
        inverse.reshape(x.shape), filled(counts, size, 0), filled(np.unique(x, equal_nan=False), size, least),
        *[filled(k, size, 0) for k in np.nonzero(x)], filled(np.flatnonzero(x), size, -1),
        filled(np.argwhere(x), size, 5),
    ]

    def found(a: Any) -> list[Any]:
        return [
            sg.unique(a, size=size), *sg.unique(a, True, True, True, size=size, fill_value=7),
            sg.unique(a, size=size, equal_nan=False), *sg.nonzero(a, size=size),
            sg.flatnonzero(a, size=size, fill_value=-1), sg.argwhere(a, size=size, fill_value=(5,) * a.ndim),
        ]

    agree(found(x), expected)
    agree(sg.jit(found, options=PLAIN)(x), expected)
    if x.size:
        kind, axes = {"f": "f32", "d": "f64", "l": "i64", "?": "bool"}[x.dtype.char], ",".join("nm"[: x.ndim])
        agree(sg.jit(found, specs=(sg.spec(f"{kind}[{axes}]"),), options=PLAIN)(x), expected)


def test_compiled_with_derivatives_in_batches_and_of_open_sizes() -> None:
    """The first of equal elements has the derivative of all of them; what fills has its own."""

    def f(x: Any, fill: Any) -> Any:
        values, counts = sg.unique(x, return_counts=True, size=5, fill_value=fill)
        (places,) = sg.nonzero(x > 1.5, size=3)
        return np.sum(values**2 * np.arange(5.0)) + np.sum(x[places] ** 2 * counts[:3])

    x = np.array([3.0, 1.0, 3.0, 2.0])
    slopes = sg.grad(f, argnums=(0, 1))(x, 0.5)
    agree(slopes, [np.array([12.0 + 6, 0, 6, 4 + 8]), np.asarray(7.0)])
    rows = np.stack([x, x[::-1], [1.0, 1, 1, 2]])
    agree([sg.vmap(lambda r: sg.unique(r, size=3))(rows)], [np.array([[1.0, 2, 3], [1, 2, 3], [1, 2, 1]])])
    same: Any = sg.jit(lambda a: sg.unique(a, size=a.shape[0], fill_value=0), specs=(sg.spec("f64[n]"),), options=PLAIN)
    agree([same(x), same(x[1:])], [np.array([1.0, 2, 3, 0]), np.array([1.0, 2, 3])])


def test_what_is_refused_says_why() -> None:
    with pytest.raises(sg.SymgradError, match="size is traced"):
        sg.jit(lambda x, n: sg.unique(x, size=n), options=PLAIN)(np.ones(3), 2)
    with pytest.raises(ValueError, match="negative"):
        sg.nonzero(np.ones(3), size=-1)
    with pytest.raises(ValueError, match=r"0 axes(?s:.*)np\.atleast_1d"):
        sg.nonzero(3.0, size=1)
    with pytest.raises(ValueError, match="2 axes with 1 numbers"):
        sg.argwhere(np.ones((2, 2)), size=1, fill_value=(0,))

"""Places of what is not zero, and sets: as many elements as values say, so that each is a selection ``x[mask]``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, UnsupportedError
from symgrad.ops.arrays.copies import filled
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import INT, OPS, answers, dims, is_traced, normal_axes, shape_of
from symgrad.ops.numpy.manipulation import static


def places_of(a: Any) -> tuple[list[Any], Any]:
    """Return the places of all elements along each axis, and which elements are not 0, both in a row."""
    a = lift(a)
    none = np.zeros_like(a, dtype=np.int64)
    along = [np.expand_dims(count_up(a, d), tuple(range(1, a.ndim - k))) for k, d in enumerate(shape_of(a))]
    return [np.ravel(none + places) for places in along], np.ravel(a) != 0


def count_up(like: Any, length: Any) -> Any:
    return OPS["arange"](filled(like, 0, (), INT), count=length, step=1)


def _entries(i: Any, extent: Any, mode: str, error: str) -> Any:
    """Bring integers below an extent by a mode; the mode ``raise`` refuses others, also at the call."""
    i = lift(i)
    if i.dtype.kind not in "iub":
        raise ArgumentError(f"{error}: only int indices permitted, not {i.dtype}")
    i = i.astype(INT)
    if mode not in {"raise", "wrap", "clip"}:
        raise ArgumentValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if mode != "raise":
        return np.remainder(i, extent) if mode == "wrap" else np.minimum(np.maximum(i, 0), extent - 1)
    if is_traced(i) or is_traced(extent):  # by a lookup, for which a negative one is beyond the end
        (count,) = dims(extent)
        return gather(count_up(i if is_traced(i) else extent, count), np.where(i < 0, extent, i), axes=(0,))
    if np.any((i < 0) | (i >= extent)):
        raise ArgumentValueError(f"{error}: an index is out of bounds for an axis with size {extent}")
    return i


def _extents(function: str, shape: Any, order: str) -> list[Any]:
    """Return the extents of a shape, from the one along which indices are next to each other."""
    if order not in {"C", "F"}:
        raise ArgumentValueError(f"only 'C' or 'F' order is permitted in np.{function}")
    given = static(function, "the shape", shape)
    extents = list(given) if isinstance(given, (tuple, list, np.ndarray)) else [given]
    return extents[::-1] if order == "C" else extents


@answers(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """As `numpy.unravel_index`; an index out of bounds is refused at the call."""
    extents = _extents("unravel_index", shape, order)
    rest = _entries(indices, math.prod(extents), "raise", "np.unravel_index")
    found = []
    for extent in extents:
        found.append(np.remainder(rest, extent))
        rest = np.floor_divide(rest, extent)
    return tuple(found[::-1] if order == "C" else found)


@answers(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """As `numpy.ravel_multi_index`; an index out of bounds is refused at the call."""
    extents = _extents("ravel_multi_index", dims, order)
    modes = list(mode) if isinstance(mode, (tuple, list)) else [mode] * len(extents)
    if not len(multi_index) == len(extents) == len(modes):
        raise ArgumentValueError(f"parameter multi_index must be a sequence of length {len(extents)}")
    steps = [*zip(multi_index, modes, strict=True)]
    total: Any = None
    for extent, (i, how) in reversed([*zip(extents, steps[::-1] if order == "C" else steps, strict=True)]):
        entry = _entries(i, extent, how, "np.ravel_multi_index")
        total = entry if total is None else total * extent + entry
    return total


@answers(np.nonzero)
def nonzero(a: Any) -> tuple[Any, ...]:
    """As `numpy.nonzero`: places along each axis, all selected by one mask."""
    if not lift(a).ndim:
        raise ArgumentValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    places, there = places_of(a)
    return tuple([place[there] for place in places])


@answers(np.argwhere)
def argwhere(a: Any) -> Any:
    places, there = places_of(a)
    return (np.stack(places, -1) if places else filled(there, 0, (1, 0), INT))[there]


def in_order(x: Any, *, equal_nan: bool = True) -> tuple[Any, Any, Any]:
    """Return elements in order, where each comes from, and whether it is the first of those that equal it."""
    x = np.ravel(lift(x))
    order = np.argsort(x, stable=True)
    values = x[order]
    return values, order, first_of_equal(values, equal_nan=equal_nan)


def first_of_equal(values: Any, *, equal_nan: bool = True) -> Any:
    """Return which of the elements in order differ from the one before."""
    places = count_up(values, shape_of(values)[0])
    before = values[np.maximum(places - 1, 0)]
    other = values != before
    if equal_nan and values.dtype.kind == "f":
        other = other & ~(np.isnan(values) & np.isnan(before))
    return (places == 0) | other


@answers(np.unique)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:
    """As `numpy.unique` of all elements."""
    x = lift(ar)
    if axis is not None:
        raise UnsupportedError("np.unique(..., axis=) on traced arrays", instead="leave axis= away")
    values, order, first = in_order(x, equal_nan=equal_nan)
    run = np.cumsum(first) - 1
    found = [values[first]]
    if return_index:
        found.append(order[first])
    if return_inverse:
        found.append(np.reshape(run[np.argsort(order)], x.shape))
    if return_counts:
        found.append(np.bincount(run, minlength=x.size)[run][first])
    return tuple(found) if len(found) > 1 else found[0]


def _twice(ar1: Any, ar2: Any) -> tuple[Any, Any]:
    """Return the elements of both in order, and whether each equals the one before it."""
    values, _, first = in_order(np.concatenate([np.ravel(lift(ar1)), np.ravel(lift(ar2))]), equal_nan=False)
    return values, ~first


@answers(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """As `numpy.intersect1d`."""
    if return_indices:
        raise UnsupportedError("np.intersect1d(..., return_indices=True) on traced arrays", instead="np.isin")
    if static("intersect1d", "assume_unique", assume_unique):
        values, again = _twice(ar1, ar2)
        return values[again]
    values, _, first = in_order(ar1)
    return values[first & np.isin(values, lift(ar2))]


@answers(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """As `numpy.setdiff1d`."""
    if static("setdiff1d", "assume_unique", assume_unique):
        values = np.ravel(lift(ar1))
        return values[~np.isin(values, lift(ar2))]
    values, _, first = in_order(ar1)
    return values[first & ~np.isin(values, lift(ar2))]


@answers(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """As `numpy.setxor1d`."""
    if static("setxor1d", "assume_unique", assume_unique):
        values, again = _twice(ar1, ar2)
        return values[~again & ~np.concatenate([again[1:], np.zeros_like(again[:1])])]
    one, other = np.ravel(lift(ar1)), np.ravel(lift(ar2))
    values, _, first = in_order(np.concatenate([one, other]))
    return values[first & ~(np.isin(values, one) & np.isin(values, other))]


@answers(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """As `numpy.trim_zeros` of a vector."""
    x = lift(filt)
    if not isinstance(trim, str):
        raise ArgumentError("np.trim_zeros(..., trim=) takes a text")
    if trim.lower() not in {"fb", "bf", "f", "b"}:
        raise ArgumentValueError(f"unexpected character(s) in `trim`: {trim!r}")
    if not x.ndim and axis is None:
        return x
    if x.ndim != 1 or (axis is not None and normal_axes(axis, 1) != (0,)):
        raise UnsupportedError("np.trim_zeros of a traced array of several axes", instead="one of a vector")
    there, ends = x != 0, trim.lower()
    inside = np.ones_like(there)
    if "f" in ends:
        inside = inside & (np.cumsum(there) > 0)
    if "b" in ends:
        inside = inside & (np.cumsum(there[::-1])[::-1] > 0)
    return x[inside]

"""`reduce`, `accumulate` and `reduceat` of ufuncs that have no operation of their own for it.

They are what NumPy's manual says, from the front. NumPy's loops with AVX-512 give the first element to the power of the
last one for `np.power.reduce` of neighbours in memory, and the like for `np.arctan2`; `accumulate` is right there, too.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, UnsupportedError
from symgrad.ops.arrays.copies import filled
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import sliced
from symgrad.ops.declare.forms import LOOPS, UNSET, is_unset, normal_axes, normal_axis, shape_of
from symgrad.ops.numpy.reductions import require_some

ASSOCIATIVE = frozenset({np.fmax, np.fmin, np.maximum, np.minimum})
"""Beside those that have an identity."""


def _reorderable(ufunc: np.ufunc) -> bool:
    return ufunc.identity is not None or ufunc in ASSOCIATIVE


def part_dtype(ufunc: np.ufunc, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return in what ``ufunc.reduceat`` computes: sums and products of small integers are long, as in `np.sum`."""
    return np.add.reduce(np.zeros(0, dtype)).dtype if ufunc in {np.add, np.multiply} else dtype


def _fold_elements(name: str, ufunc: np.ufunc, a: Any, axis: Any) -> tuple[Any, int, Any]:
    """Return an array of the loop's dtype with the axis in front, the axis, and its extent."""
    a = lift(a)
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise ArgumentValueError(f"{name} only supported for binary functions")
    if not a.ndim:
        raise UnsupportedError(f"np.{ufunc.__name__}.{name} of a number")
    if name == "reduceat":
        a = a.astype(part_dtype(ufunc, a.dtype))
    kind = ufunc.resolve_dtypes((a.dtype, a.dtype, None))
    if kind[0] != kind[2]:
        raise UnsupportedError(f"np.{ufunc.__name__}.{name} has no answer for traced arrays", instead="a loop")
    k = normal_axis(axis, a.ndim)
    n = shape_of(a)[k]
    if type(n) is not int:
        require_some(a, k, f"{ufunc.__name__}.{name}")
    return np.moveaxis(a.astype(kind[0]), k, 0), k, n


def _folded_rounds(ufunc: np.ufunc, a: Any, n: Any) -> Any:
    """Fold at least one element: neighbours in rounds where the function is associative, else one after the other."""
    if type(n) is not int:
        return LOOPS["scan"](lambda total, x: (ufunc(total, x), None), a[0], a[1:])[0]
    if not _reorderable(ufunc):
        total = a[0]
        for k in range(1, n):
            total = ufunc(total, a[k])
        return total
    while n > 1:
        half = n // 2
        paired = ufunc(a[: 2 * half : 2], a[1 : 2 * half : 2])
        a = paired if n == 2 * half else np.concatenate([paired, a[n - 1 :]])
        n -= half
    return a[0]


def reduced(ufunc: np.ufunc, a: Any, axis: Any = 0, *, keepdims: Any = False, initial: Any = UNSET) -> Any:
    """As ``ufunc.reduce`` along one axis, or all of them where the order does not count."""
    if not np.ndim(a) and not isinstance(axis, tuple):  # which ufuncs take for an array of one
        a, keepdims = lift(a)[None], False
    if axis is None or isinstance(axis, tuple):
        axes = normal_axes(axis, np.ndim(a))
        if not axes:
            raise UnsupportedError(f"np.{ufunc.__name__}.reduce along no axis")
        *others, axis = axes
        if others and not _reorderable(ufunc):
            raise ArgumentValueError(
                f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified")
        if others:
            a = reduced(ufunc, a, axis, keepdims=keepdims)
            return reduced(ufunc, a, tuple(others), keepdims=keepdims, initial=initial)
    elements, k, n = _fold_elements("reduce", ufunc, a, axis)
    if not is_unset(initial):
        start = filled(elements, initial, (1, *shape_of(elements)[1:]), elements.dtype)
        elements, n = np.concatenate([start, elements]), n + 1
    if not n:
        raise UnsupportedError(f"np.{ufunc.__name__}.reduce of no elements")
    total = _folded_rounds(ufunc, elements, n)
    return np.expand_dims(total, k) if operator.truth(keepdims) else total


def accumulated(ufunc: np.ufunc, a: Any, axis: Any = 0) -> Any:
    """As ``ufunc.accumulate``: where the function is associative in as many rounds as the extent has bits."""
    elements, k, n = _fold_elements("accumulate", ufunc, a, axis)
    if type(n) is not int:
        rest = LOOPS["scan"](lambda total, x: (ufunc(total, x),) * 2, elements[0], elements[1:])[1]
        return np.moveaxis(np.concatenate([elements[:1], rest]), 0, k)
    if not _reorderable(ufunc):
        found = [elements[0]] if n else []
        for j in range(1, n):
            found.append(ufunc(found[-1], elements[j]))
        return np.moveaxis(np.stack(found), 0, k) if found else np.moveaxis(elements, 0, k)
    step = 1
    while step < n:
        elements = np.concatenate([elements[:step], ufunc(elements[:-step], elements[step:])])
        step *= 2
    return np.moveaxis(elements, 0, k)


def reduced_at(ufunc: np.ufunc, a: Any, indices: Any, axis: Any = 0) -> Any:
    """As ``ufunc.reduceat``, between known places."""
    elements, k, n = _fold_elements("reduceat", ufunc, a, axis)
    places = [operator.index(place) for place in np.atleast_1d(np.asarray(indices))]
    for place in places:
        outside = f"index {place} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})"
        if place < 0 or (type(n) is int and place >= n):
            raise IndexError(outside)
        if type(n) is not int:
            elements.owner.require(place, n, outside)
    ends = [after if after > start else start + 1 for start, after in itertools.pairwise(places)] + [n]
    parts = [_folded_rounds(ufunc, sliced(elements, 0, start, end - start), end - start)
             for start, end in zip(places, ends, strict=True)]
    return np.moveaxis(np.stack(parts), 0, k)

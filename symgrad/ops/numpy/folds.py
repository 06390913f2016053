"""`reduce`, `accumulate` and `reduceat` of ufuncs that have no operation of their own for it.

They are what NumPy's manual says, from the front. NumPy's loops with AVX-512 give the first element to the power of the
last one for `np.power.reduce` of neighbours in memory, and the like for `np.arctan2`; `accumulate` is right there, too.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import UNSET, is_unset, normal_axes, normal_axis, shape_of

ASSOCIATIVE = frozenset({np.fmax, np.fmin, np.maximum, np.minimum})
"""Beside those that have an identity."""


def _reorderable(ufunc: np.ufunc) -> bool:
    return ufunc.identity is not None or ufunc in ASSOCIATIVE


def _fold_elements(name: str, ufunc: np.ufunc, a: Any, axis: Any) -> tuple[Any, int, int]:
    """Return an array of the loop's dtype with the axis in front, the axis, and its known extent."""
    a = lift(a)
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise ArgumentValueError(f"{name} only supported for binary functions")
    if not a.ndim:
        raise UnsupportedError(f"np.{ufunc.__name__}.{name} of a number")
    kind = ufunc.resolve_dtypes((a.dtype, a.dtype, None))
    if kind[0] != kind[2]:
        raise UnsupportedError(f"np.{ufunc.__name__}.{name} has no answer for traced arrays", instead="a loop")
    k = normal_axis(axis, a.ndim)
    n = shape_of(a)[k]
    if type(n) is not int:
        raise UnsupportedError(
            f"np.{ufunc.__name__}.{name} along an unknown extent", instead="sg.scan, or an extent that is known")
    return np.moveaxis(a.astype(kind[0]), k, 0), k, n


def _folded_rounds(ufunc: np.ufunc, a: Any, n: int) -> Any:
    """Fold at least one element: neighbours in rounds where the function is associative, else one after the other."""
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
        start = np.broadcast_to(lift(initial).astype(elements.dtype), (1, *elements.shape[1:]))
        elements, n = np.concatenate([start, elements]), n + 1
    if not n:
        raise UnsupportedError(f"np.{ufunc.__name__}.reduce of no elements")
    total = _folded_rounds(ufunc, elements, n)
    return np.expand_dims(total, k) if operator.truth(keepdims) else total


def accumulated(ufunc: np.ufunc, a: Any, axis: Any = 0) -> Any:
    """As ``ufunc.accumulate``: where the function is associative in as many rounds as the extent has bits."""
    elements, k, n = _fold_elements("accumulate", ufunc, a, axis)
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
    if any(not 0 <= place < n for place in places):
        raise IndexError(f"index out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    ends = [after if after > start else start + 1 for start, after in zip(places, [*places[1:], n], strict=True)]
    parts = [_folded_rounds(ufunc, elements[start:end], end - start) for start, end in zip(places, ends, strict=True)]
    return np.moveaxis(np.stack(parts), 0, k)

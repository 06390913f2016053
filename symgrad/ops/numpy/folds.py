"""`reduce`, `accumulate` and `reduceat` of ufuncs that have no operation of their own for it.

They are what NumPy's manual says, from the front. NumPy's loops with AVX-512 give the first element to the power of the
last one for `np.power.reduce` of neighbours in memory, and the like for `np.arctan2`; `accumulate` is right there, too.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, UnsupportedError
from symgrad.ops.arrays.copies import filled
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import sliced
from symgrad.ops.declare.forms import LOOPS, UNSET, normal_axis, shape_of
from symgrad.ops.numpy.reductions import require_some, ufunc_axes

ASSOCIATIVE = frozenset({
    np.add, np.multiply, np.fmax, np.fmin, np.maximum, np.minimum, np.logical_and, np.logical_or, np.logical_xor,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.hypot, np.logaddexp, np.logaddexp2, np.gcd,
})
"""What may be folded in pairs. An identity does not tell: SciPy's ufuncs have a 0 for one, whatever they compute."""


def loop_dtype(name: str, ufunc: np.ufunc, dtype: Any, wanted: Any = None) -> np.dtype[Any]:
    """Return in what a method of a ufunc computes: sums and products of small integers are long, as in `np.sum`."""
    asked: dict[str, Any] = {} if wanted is None else {"signature": (np.dtype(wanted), None, None)}
    try:
        kinds = ufunc.resolve_dtypes((None, np.dtype(dtype), None), reduction=True, **asked)
    except TypeError as error:
        raise ArgumentError(str(error)) from None
    if kinds[0] != kinds[1]:
        raise UnsupportedError(f"np.{ufunc.__name__}.{name} has no answer for traced arrays", instead="a loop")
    return kinds[0]


def _in_front(name: str, ufunc: np.ufunc, a: Any, axis: Any, dtype: Any) -> tuple[Any, int, Any]:
    """Return an array of the loop's dtype with the axis in front, the axis, and its extent."""
    a = lift(a)
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise ArgumentValueError(f"{name} only supported for binary functions")
    if not a.ndim:
        raise UnsupportedError(f"np.{ufunc.__name__}.{name} of a number")
    k = normal_axis(axis, a.ndim)
    n = shape_of(a)[k]
    if type(n) is not int:
        require_some(a, k, f"{ufunc.__name__}.{name}")
    return np.moveaxis(a.astype(loop_dtype(name, ufunc, a.dtype, dtype)), k, 0), k, n


def _folded(ufunc: np.ufunc, a: Any, n: Any, start: Any = None, where: Any = None) -> Any:
    """Fold elements, after `start` if there is one: in pairs where that is the same, else one after the other."""
    if where is not None:
        def each(total: Any, item: Any) -> Any:
            return np.where(item[1], ufunc(total, item[0]), total)

        if type(n) is not int:
            return LOOPS["scan"](lambda total, item: (each(total, item), None), start, (a, where))[0]
        return functools.reduce(each, [(a[k], where[k]) for k in range(n)], start)
    if type(n) is not int:
        rest = (a[0], a[1:]) if start is None else (start, a)
        return LOOPS["scan"](lambda total, x: (ufunc(total, x), None), *rest)[0]
    if ufunc not in ASSOCIATIVE or not n:
        return functools.reduce(ufunc, [*([] if start is None else [start]), *[a[k] for k in range(n)]])
    while n > 1:
        half = n // 2
        paired = ufunc(a[: 2 * half : 2], a[1 : 2 * half : 2])
        a = paired if n == 2 * half else np.concatenate([paired, a[n - 1 :]])
        n -= half
    return a[0] if start is None else ufunc(start, a[0])


def reduced(
    ufunc: np.ufunc, a: Any, axis: Any = 0, *, dtype: Any = None, keepdims: Any = False, initial: Any = UNSET,
    where: Any = True,
) -> Any:
    """As ``ufunc.reduce``: from the identity, where there is one, so that one negative number has a `np.hypot`."""
    a, name = lift(a), ufunc.__name__
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise ArgumentValueError("reduce only supported for binary functions")
    a = a.astype(loop_dtype("reduce", ufunc, a.dtype, dtype))
    axes = ufunc_axes(axis, a.ndim)
    if len(axes) > 1 and ufunc.identity is None and ufunc not in ASSOCIATIVE:
        raise ArgumentValueError(
            f"reduction operation '{name}' is not reorderable, so at most one axis may be specified")
    front = tuple(range(len(axes)))
    laid = (math.prod([a.shape[k] for k in axes]), *[extent for k, extent in enumerate(a.shape) if k not in axes])
    elements = np.reshape(np.moveaxis(a, axes, front), laid)
    n, *rest = shape_of(elements)
    chosen = None
    if where is not True:
        chosen = np.reshape(np.moveaxis(np.broadcast_to(lift(where).astype(bool), a.shape), axes, front), laid)
    start = initial
    if initial is UNSET:
        start = None if ufunc.identity is None else np.array(ufunc.identity).astype(elements.dtype)  # -1 is all bits
    if start is None and chosen is not None:
        raise ArgumentValueError(
            f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify "
            "'initial'")
    if initial is UNSET and ufunc in ASSOCIATIVE and chosen is None and type(n) is int and n > 1:
        start = None  # which changes nothing
    elif start is not None:
        start = filled(elements, start, tuple(rest), elements.dtype)
    elif n == 0 and 0 not in rest:
        raise ArgumentValueError(f"zero-size array to reduction operation {name} which has no identity")
    elif type(n) is not int:
        require_some(elements, 0, f"{name}.reduce")
    elif n == 0:
        start = filled(elements, 0, tuple(rest), elements.dtype)
    total = _folded(ufunc, elements, n, start, chosen)
    return np.expand_dims(total, axes) if operator.truth(keepdims) else total


def accumulated(ufunc: np.ufunc, a: Any, axis: Any = 0, *, dtype: Any = None) -> Any:
    """As ``ufunc.accumulate``: where the function is associative in as many rounds as the extent has bits."""
    elements, k, n = _in_front("accumulate", ufunc, a, axis, dtype)
    if type(n) is not int:
        rest = LOOPS["scan"](lambda total, x: (ufunc(total, x),) * 2, elements[0], elements[1:])[1]
        return np.moveaxis(np.concatenate([elements[:1], rest]), 0, k)
    if ufunc not in ASSOCIATIVE:
        found = [elements[0]] if n else []
        for j in range(1, n):
            found.append(ufunc(found[-1], elements[j]))
        return np.moveaxis(np.stack(found), 0, k) if found else np.moveaxis(elements, 0, k)
    step = 1
    while step < n:
        elements = np.concatenate([elements[:step], ufunc(elements[:-step], elements[step:])])
        step *= 2
    return np.moveaxis(elements, 0, k)


def reduced_at(ufunc: np.ufunc, a: Any, indices: Any, axis: Any = 0, *, dtype: Any = None) -> Any:
    """As ``ufunc.reduceat``, between known places."""
    elements, k, n = _in_front("reduceat", ufunc, a, axis, dtype)
    places = [operator.index(place) for place in np.atleast_1d(np.asarray(indices))]
    for place in places:
        outside = f"index {place} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})"
        if place < 0 or (type(n) is int and place >= n):
            raise IndexError(outside)
        if type(n) is not int:
            elements.owner.require(place, n, outside)
    ends = [after if after > start else start + 1 for start, after in itertools.pairwise(places)] + [n]
    parts = [_folded(ufunc, sliced(elements, 0, start, end - start), end - start)
             for start, end in zip(places, ends, strict=True)]
    return np.moveaxis(np.stack(parts), 0, k)

"""NumPy's reductions: what its functions' arguments mean in terms of the ops."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.reduce import along, first_value
from symgrad.ops.declare.forms import (
    OPS,
    UNSET,
    answers,
    is_traced,
    is_unset,
    normal_axes,
    normal_axis,
    refuse,
    shape_of,
    summed_dtype,
)


def kept(y: Any, axes: tuple[int, ...], keepdims: Any) -> Any:
    """Give reduced axes back when ``keepdims`` asks for it."""
    return along(y, axes) if keepdims is not UNSET and operator.index(keepdims) else y


def _reduce(name: str, neutral: Any, combine: Any) -> Any:
    def reduce(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = UNSET,
        where: Any = True,
    ) -> Any:
        a = lift(a)
        axes = reduced_axes(axis, a.ndim)
        if name in {"sum", "prod"}:
            a = a.astype(summed_dtype(a, dtype))
        if name in {"any", "all"} and a.dtype.kind != "b":
            a = np.not_equal(a, 0)
        refuse(name, out=out)
        if where is not True and not is_unset(where):
            where = lift(where)
            if where.ndim > a.ndim:
                raise ShapeError(f"where= of {where.ndim} axes for an array of {a.ndim}")
            if name in {"max", "min"} and is_unset(initial):
                raise ArgumentValueError(f"np.{name} has no identity: with where= it needs initial=")
            a = np.where(where, a, np.asarray(neutral(a.dtype), a.dtype))
        needed = name in {"max", "min"} or (initial is None and name in {"sum", "prod"})
        if needed and is_unset(initial) and any(shape_of(a)[k] == 0 for k in axes):
            raise ArgumentValueError(f"zero-size array to reduction operation np.{name}, which has no identity")
        if name in {"max", "min"} and is_unset(initial):
            for k in axes:
                require_some(a, k, name)
        y = kept(OPS[name](a, axes=axes), axes, keepdims)
        return y if is_unset(initial) else combine(y, started(initial, y.dtype))

    return reduce


def refuse_whole(name: str, dtype: Any) -> None:
    """Refuse to take deviations in integers."""
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise ArgumentError(f"np.{name}(..., dtype={np.dtype(dtype)})", instead="np.float64 or np.float32")


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Turn the ``axis=`` of a reduction into axes; NumPy's ufuncs let 0 and -1 pass where there are no axes."""
    return () if ndim == 0 and type(axis) is not tuple and axis in (0, -1) else normal_axes(axis, ndim)


def started(initial: Any, dtype: np.dtype[Any]) -> Any:
    """Convert what a reduction starts from to the dtype it reduces in; a Python integer must fit."""
    if is_traced(initial) or type(initial) is not int:
        return lift(initial).astype(dtype)
    return np.asarray(initial, dtype) if dtype.kind != "b" else np.asarray(initial != 0)


sum_answer = answers(np.sum)(_reduce("sum", lambda d: 0, np.add))  # noqa: ARG005
answers(np.prod)(_reduce("prod", lambda d: 1, np.multiply))  # noqa: ARG005
_max = _reduce("max", lambda d: first_value("max=", d), np.maximum)
_min = _reduce("min", lambda d: first_value("min=", d), np.minimum)
_any = _reduce("any", lambda d: False, np.logical_or)  # noqa: ARG005
_all = _reduce("all", lambda d: True, np.logical_and)  # noqa: ARG005


@answers(np.max, np.amax)
def max_answer(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True,
) -> Any:
    return _max(a, axis, None, out, keepdims, initial, where)


@answers(np.min, np.amin)
def min_answer(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True,
) -> Any:
    return _min(a, axis, None, out, keepdims, initial, where)


@answers(np.any)
def any_answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return _any(a, axis, None, out, keepdims, None, where)


@answers(np.all)
def all_answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return _all(a, axis, None, out, keepdims, None, where)


@answers(np.mean)
def mean_answer(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True,
) -> Any:
    a = lift(a)
    kind = np.dtype(dtype) if dtype is not None else (a.dtype if a.dtype.kind == "f" else np.dtype(np.float64))
    total = sum_answer(a.astype(kind), axis, kind, out, keepdims, UNSET, where)
    if where is not True and not is_unset(where):
        counted = np.broadcast_to(where, a.shape)
        mean = total / sum_answer(counted.astype(kind), axis, None, None, keepdims)
    else:
        mean = total / count(a, normal_axes(axis, a.ndim))
    return mean if kind.kind == "f" else mean.astype(kind)


def require_some(a: Any, axis: int, name: str) -> None:
    """Note that an unknown extent must not be 0 when the program is called: there would be no result."""
    extent = shape_of(a)[axis]
    if is_traced(a) and type(extent) is not int:
        a.owner.require(0, extent, f"np.{name} along axis {axis} of no elements, which has no result")


def count(a: Any, axes: tuple[int, ...]) -> Any:
    """Return how many elements a reduction takes: an integer or an extent."""
    number: Any = 1
    for k in axes:
        number = number * a.shape[k]
    return number


@answers(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:
    """As `numpy.var`: the mean of squared distances from the mean."""
    refuse("var", out=out)
    refuse_whole("var", dtype)
    a = lift(a)
    kind = np.dtype(dtype) if dtype is not None else (a.dtype if a.dtype.kind == "f" else np.dtype(np.float64))
    a = a.astype(kind)
    axes = normal_axes(axis, a.ndim)
    masked = where is not True and not is_unset(where)
    center = mean_answer(a, axes, None, None, keepdims=True, where=where) if is_unset(mean) else mean
    deviation = a - center
    fewer_by = ddof if is_unset(correction) else correction
    keep = keepdims is not UNSET and bool(operator.index(keepdims))
    total = sum_answer(deviation * deviation, axes, None, None, keep, UNSET, where)
    if masked:
        number = sum_answer(np.broadcast_to(where, a.shape).astype(kind), axes, None, None, keep)
        return total / np.maximum(number - fewer_by, 0)
    rest = count(a, axes) - fewer_by
    return total / (max(rest, 0) if issubclass(type(rest), (int, float, np.number)) else np.maximum(rest, 0))


@answers(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:
    """As `numpy.std`, with gradient 0 where all elements are equal."""
    return root(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def root(square: Any) -> Any:
    """Take the square root of a sum of squares; its derivative is 0 at 0, as the norm's is."""
    return np.where(np.equal(square, 0), np.zeros((), square.dtype), np.sqrt(square))


def _positions(name: str) -> Any:
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        refuse(name, out=out)
        a = lift(a)
        whole = axis is None
        ndim = a.ndim
        if whole:
            a, axis = np.ravel(a), 0
        k = normal_axis(axis, a.ndim)
        if shape_of(a)[k] == 0:
            raise ArgumentValueError(f"attempt to get np.{name} of an empty sequence")
        require_some(a, k, name)
        y = OPS[name](a, axis=k)
        if keepdims is UNSET or not keepdims:
            return y
        return along(y, tuple(range(ndim)) if whole else (k,))

    return position


answers(np.argmax)(_positions("argmax"))
answers(np.argmin)(_positions("argmin"))

"""NumPy's reductions: what its functions' arguments mean in terms of the ops."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ops.arrays.copies import size
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


def masks(where: Any) -> bool:
    """Whether a ``where=`` leaves something out."""
    return where is not True and not is_unset(where)


def refuse_whole(name: str, dtype: Any) -> None:
    """Refuse to take deviations in integers."""
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise ArgumentError(f"np.{name}(..., dtype={np.dtype(dtype)})", instead="np.float64 or np.float32")


def require_some(a: Any, axis: int, name: str) -> None:
    """Note that an unknown extent must not be 0 when the program is called: there would be no result."""
    extent = shape_of(a)[axis]
    if is_traced(a) and type(extent) is not int:
        a.owner.require(0, extent, f"np.{name} along axis {axis} of no elements, which has no result")


def floating(x: Any, dtype: Any = None) -> Any:
    """Convert integers and Booleans to float64, or everything to a dtype that is given."""
    x = lift(x)
    return x.astype(np.dtype(dtype) if dtype is not None else x.dtype if x.dtype.kind == "f" else np.float64)


def _reduce(name: str, how: str, combine: Any) -> Any:
    totals, extrema = name in {"sum", "prod"}, name in {"max", "min"}

    def reduce(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = UNSET,
        where: Any = True,
    ) -> Any:
        a = lift(a)
        # NumPy's ufuncs let 0 and -1 pass where there are no axes
        axes = () if a.ndim == 0 and type(axis) is not tuple and axis in (0, -1) else normal_axes(axis, a.ndim)
        if totals:
            a = a.astype(summed_dtype(a, dtype))
        elif not extrema and a.dtype.kind != "b":
            a = np.not_equal(a, 0)
        refuse(name, out=out)
        if masks(where):
            where = lift(where)
            if where.ndim > a.ndim:
                raise ShapeError(f"where= of {where.ndim} axes for an array of {a.ndim}")
            if extrema and is_unset(initial):
                raise ArgumentValueError(f"np.{name} has no identity: with where= it needs initial=")
            a = np.where(where, a, np.asarray(first_value(how, a.dtype), a.dtype))
        needed = extrema or (initial is None and totals)
        if needed and is_unset(initial) and any(shape_of(a)[k] == 0 for k in axes):
            raise ArgumentValueError(f"zero-size array to reduction operation np.{name}, which has no identity")
        if extrema and is_unset(initial):
            for k in axes:
                require_some(a, k, name)
        y = kept(OPS[name](a, axes=axes), axes, keepdims)
        if is_unset(initial):
            return y
        if is_traced(initial) or type(initial) is not int:
            return combine(y, lift(initial).astype(y.dtype))
        return combine(y, np.asarray(initial, y.dtype) if y.dtype.kind != "b" else np.asarray(initial != 0))

    return reduce


def _extremum(name: str, how: str, combine: Any) -> Any:
    reduce = _reduce(name, how, combine)

    def extremum(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True,
    ) -> Any:
        return reduce(a, axis, None, out, keepdims, initial, where)

    return extremum


def _truth(name: str, how: str, combine: Any) -> Any:
    reduce = _reduce(name, how, combine)

    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        return reduce(a, axis, None, out, keepdims, None, where)

    return truth


sum_answer = answers(np.sum)(_reduce("sum", "+=", np.add))
answers(np.prod)(_reduce("prod", "*=", np.multiply))
answers(np.max, np.amax)(_extremum("max", "max=", np.maximum))
answers(np.min, np.amin)(_extremum("min", "min=", np.minimum))
answers(np.any)(_truth("any", "|=", np.logical_or))
answers(np.all)(_truth("all", "&=", np.logical_and))


@answers(np.mean)
def mean_answer(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True,
) -> Any:
    a = floating(a, dtype)
    total = sum_answer(a, axis, a.dtype, out, keepdims, UNSET, where)
    if masks(where):
        mean = total / sum_answer(np.broadcast_to(where, a.shape).astype(a.dtype), axis, None, None, keepdims)
    else:
        mean = total / size(a, axis)
    return mean if a.dtype.kind == "f" else mean.astype(a.dtype)


@answers(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:
    """As `numpy.var`: the mean of squared distances from the mean."""
    refuse("var", out=out)
    refuse_whole("var", dtype)
    a = floating(a, dtype)
    axes = normal_axes(axis, a.ndim)
    deviation = a - (mean_answer(a, axes, None, None, keepdims=True, where=where) if is_unset(mean) else mean)
    total = sum_answer(deviation * deviation, axes, None, None, keepdims, UNSET, where)
    fewer = ddof if is_unset(correction) else correction
    if masks(where):
        rest = sum_answer(np.broadcast_to(where, a.shape).astype(a.dtype), axes, None, None, keepdims) - fewer
    else:
        rest = size(a, axes) - fewer
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
        every, whole = tuple(range(a.ndim)), axis is None
        if whole:
            a, axis = np.ravel(a), 0
        k = normal_axis(axis, a.ndim)
        if shape_of(a)[k] == 0:
            raise ArgumentValueError(f"attempt to get np.{name} of an empty sequence")
        require_some(a, k, name)
        return kept(OPS[name](a, axis=k), every if whole else (k,), keepdims)

    return position


answers(np.argmax)(_positions("argmax"))
answers(np.argmin)(_positions("argmin"))

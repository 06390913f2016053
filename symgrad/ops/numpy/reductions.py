"""NumPy's reductions and statistics: what its functions' arguments mean in terms of the ops."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ir.index.notation import How
from symgrad.ops.arrays.copies import promoted, size
from symgrad.ops.arrays.joining import along_axis, lift
from symgrad.ops.arrays.reduce import along, first_value
from symgrad.ops.declare.forms import (
    INT,
    OPS,
    UNSET,
    answers,
    is_traced,
    is_unset,
    normal_axes,
    refuse,
    shape_of,
    summed_dtype,
)


def keep_dims(y: Any, axes: tuple[int, ...], keepdims: Any) -> Any:
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


def ufunc_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as NumPy's ufuncs count them, which let 0 and -1 pass where there are none."""
    return () if not ndim and type(axis) is not tuple and axis in (0, -1) else normal_axes(axis, ndim)


def _reduce(name: str, how: How, combine: Any) -> Any:
    totals, extrema = name in {"sum", "prod"}, name in {"max", "min"}

    def reduce(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = UNSET,
        where: Any = True,
    ) -> Any:
        a = lift(a)
        axes = ufunc_axes(axis, a.ndim)
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
        y = keep_dims(OPS[name](a, axes=axes), axes, keepdims)
        if is_unset(initial):
            return y
        if is_traced(initial) or type(initial) is not int:
            return combine(y, lift(initial).astype(y.dtype))
        return combine(y, np.asarray(initial, y.dtype) if y.dtype.kind != "b" else np.asarray(initial != 0))

    return reduce


def _extremum(name: str, how: How, combine: Any) -> Any:
    reduce = _reduce(name, how, combine)
    return lambda a, axis=None, out=None, keepdims=False, initial=None, where=True: reduce(
        a, axis, None, out, keepdims, initial, where)


def _logical(name: str, how: How, combine: Any) -> Any:
    reduce = _reduce(name, how, combine)
    return lambda a, axis=None, out=None, keepdims=False, *, where=True: reduce(
        a, axis, None, out, keepdims, None, where)


sum_answer = answers(np.sum)(_reduce("sum", How.ADD, np.add))
answers(np.prod)(_reduce("prod", How.MULTIPLY, np.multiply))
answers(np.max, np.amax, neutral={"a": partial(first_value, How.MAXIMUM)})(_extremum("max", How.MAXIMUM, np.maximum))
answers(np.min, np.amin, neutral={"a": partial(first_value, How.MINIMUM)})(_extremum("min", How.MINIMUM, np.minimum))
answers(np.any)(_logical("any", How.OR, np.logical_or))
answers(np.all)(_logical("all", How.AND, np.logical_and))


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


def root(square: Any) -> Any:
    """Take the square root of a sum of squares; its derivative is 0 at 0, as the norm's is."""
    return np.where(np.equal(square, 0), np.zeros((), square.dtype), np.sqrt(square))


def _positions(name: str) -> Any:
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        refuse(name, out=out)
        every = tuple(range(lift(a).ndim))
        a, k = along_axis(a, axis)
        if shape_of(a)[k] == 0:
            raise ArgumentValueError(f"attempt to get np.{name} of an empty sequence")
        require_some(a, k, name)
        return keep_dims(OPS[name](a, axis=k), (k,) if axis is not None and every else every, keepdims)

    return position


answers(np.argmax, neutral={"a": partial(first_value, How.MAXIMUM)})(_positions("argmax"))
answers(np.argmin, neutral={"a": partial(first_value, How.MINIMUM)})(_positions("argmin"))


@answers(np.count_nonzero, neutral={"a": 0})
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    a = lift(a)
    counted = a if a.dtype.kind == "b" else np.not_equal(a, 0)
    axes = ufunc_axes(axis, a.ndim)
    return keep_dims(OPS["sum"](counted.astype(INT), axes=axes), axes, keepdims or False)


# -- covariance


@answers(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:
    if ddof is not None and ddof != int(ddof):
        raise ArgumentValueError("ddof must be integer")
    refuse_whole("cov", dtype)
    variables = [lift(v) for v in ((m,) if y is None else (m, y))]
    for name, v in zip("my", variables, strict=False):
        if v.ndim > 2:
            raise ShapeError(f"{name} has more than 2 dimensions")
    kind = np.dtype(dtype) if dtype is not None else promoted(*variables, np.float64)
    rows = [np.atleast_2d(v.astype(kind)) for v in variables]
    rows = [r.T if not rowvar and v.ndim != 1 else r for r, v in zip(rows, variables, strict=True)]
    x = np.concatenate(rows) if y is not None else rows[0]
    if fweights is not None and lift(fweights).dtype.kind not in "iu":
        raise ArgumentError("fweights must be integer")
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None and not is_traced(lift(given)) and np.any(np.less(given, 0)):
            raise ArgumentValueError(f"{name} cannot be negative")
    fewer = int(ddof) if ddof is not None else (0 if bias else 1)
    weights = None if fweights is None else np.asarray(lift(fweights), float) if not is_traced(fweights) else fweights
    if aweights is not None:
        aweights = lift(aweights)
        weights = aweights if weights is None else np.multiply(weights, aweights)
    if weights is None:
        center, fact = np.mean(x, axis=1), x.shape[1] - fewer
    else:
        total = np.sum(weights)
        center, fact = np.sum(x * weights, axis=1) / total, total
        if fewer:
            fact = total - (fewer if aweights is None else fewer * np.sum(np.multiply(weights, aweights)) / total)
    scaled = x - center[:, None]
    products = np.matmul(scaled, (scaled if weights is None else scaled * weights).T)
    if issubclass(type(fact), (int, float, np.number)):
        return np.squeeze(products / (float(fact) if fact > 0 else np.zeros((), products.dtype)))
    return np.squeeze(products / np.maximum(fact, 0))


def _deviation(variance: Callable[..., Any]) -> Callable[..., Any]:
    """Answer by the root of a variance, with gradient 0 where all elements are equal."""

    def deviation(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = UNSET, mean: Any = UNSET, correction: Any = UNSET,
    ) -> Any:
        return root(variance(lift(a), axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))

    return deviation


answers(np.std)(_deviation(var))
answers(np.nanstd)(_deviation(np.nanvar))

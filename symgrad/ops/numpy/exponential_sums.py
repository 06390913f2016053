"""logsumexp, softmax and log_softmax: what no exponential may overflow, with derivatives of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DtypeError
from symgrad.ir.index import shapes
from symgrad.ir.node import Node
from symgrad.ir.op import Composite
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.reduce import along
from symgrad.ops.declare.domains import between, case, inf, nan
from symgrad.ops.declare.forms import INT, OPS, Late, answers, composite, normal_axes
from symgrad.ops.numpy.reductions import floating, keep_dims

Axes = tuple[int, ...]


def _float_dtype(name: str, x: Node) -> Any:
    if x.dtype.kind != "f":
        raise DtypeError(f"{name} of {x.dtype}", instead="x.astype(np.float64)")
    return x.dtype


def _sum_along(x: Any, axes: Axes) -> Any:
    """Sum over axes, which stay with extent 1."""
    return along(OPS["sum"](x, axes=axes), axes)


def _finite_max(x: Any, axes: Axes) -> Any:
    """Return the maximum along axes, which stay with extent 1; 0 where it is not finite."""
    m = along(OPS["max"](x, axes=axes), axes)
    return np.where(np.isfinite(m), m, np.zeros((), x.dtype))


_SPREAD = between(-700, 700)


def _row_case(call: Any, *entries: float) -> Any:
    """Write a case of one row with special values in it."""
    return case(lambda a: call(a * 0 + np.array(entries)), (len(entries),))


@composite(
    name="logsumexp", params=("axes",), regular=True,
    infer=lambda x, axes: (shapes.without(x.shape, axes), _float_dtype("logsumexp", x)),
    sample=(case(lambda a: OPS["logsumexp"](a, axes=(1,)) ** 2, (3, 4)),
            case(lambda a: OPS["logsumexp"](a, axes=(0, 2)), (2, 3, 2), domain=_SPREAD)),
    edges=tuple([_row_case(lambda x: OPS["logsumexp"](x, axes=(0,)), *row) for row in (
        (-inf, -inf), (inf, 0.0), (inf, inf), (nan, 1.0), (-inf, 3.0), (1000.0, 1000.0), (-1000.0, -1000.0), (5.0,))]),
)
def logsumexp(x: Any, axes: Axes) -> Any:
    """Take the logarithm of a sum of exponentials."""
    m = _finite_max(x, axes)  # the shift cannot overflow, and cancels in the value
    total = np.log(OPS["sum"](np.exp(x - m), axes=axes))
    return total + (OPS["squeeze"](m, axes=axes) if axes else m)


@logsumexp.rule
def _(g: Any, y: Any, x: Any, axes: Axes) -> Any:
    """Share the cotangent by softmax; inf - inf is 0 where both are infinite, and a finite tie keeps its derivative."""
    y = along(y, axes)
    both = np.isinf(y) & np.equal(x, y)
    return along(g, axes) * np.exp(np.where(both, np.zeros((), x.dtype), x - y))


def _rowwise(name: str) -> Callable[[Callable[..., Any]], Composite]:
    """Declare a function of rows that gives rows."""
    return composite(
        name=name, params=("axes",), regular=True, infer=lambda x, axes: (x.shape, _float_dtype(name, x)),
        sample=(case(lambda a: OPS[name](a, axes=(1,)) ** 2, (3, 4)),
                case(lambda a: OPS[name](a, axes=(0, 1)) * a, (2, 3), domain=_SPREAD)),
        edges=tuple([_row_case(lambda x: OPS[name](x, axes=(0,)), *row) for row in (
            (-inf, 0.0), (1000.0, 0.0), (-1000.0, 0.0, 0.0), (nan, 1.0), (5.0,))]),
    )


@_rowwise("softmax")
def softmax(x: Any, axes: Axes) -> Any:
    """Divide exponentials by their sum."""
    e = np.exp(x - along(OPS["max"](x, axes=axes), axes))
    return e / _sum_along(e, axes)


softmax.vjp = lambda g, y, x, axes: y * (g - _sum_along(g * y, axes))


softmax.log = lambda x, axes: OPS["log_softmax"](x, axes=axes)


@_rowwise("log_softmax")
def log_softmax(x: Any, axes: Axes) -> Any:
    """Take the logarithm of softmax without taking the softmax."""
    shifted = x - _finite_max(x, axes)
    return shifted - np.log(_sum_along(np.exp(shifted), axes))


log_softmax.vjp = lambda g, y, x, axes: g - np.exp(y) * _sum_along(g, axes)


# -- SciPy's functions


@answers(Late("logsumexp"), neutral={"a": -inf, "b": 0})
def logsumexp_answer(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    a = np.atleast_1d(floating(a))  # so that keepdims gives a number an axis, as SciPy does
    if b is None:
        axes = normal_axes(axis, a.ndim)
        y = keep_dims(logsumexp(a, axes=axes), axes, keepdims)
        return (y, np.where(np.isnan(y), y, np.ones_like(y))) if return_sign else y
    b = floating(b)
    a, b = np.broadcast_arrays(a + b * 0, b)
    axes = normal_axes(axis, a.ndim)
    a = np.where(np.equal(b, 0), np.asarray(-np.inf, a.dtype), a)
    m = _finite_max(a, axes)
    total = _sum_along(b * np.exp(a - m), axes)
    sign, y = np.sign(total), np.log(np.abs(total) if return_sign else total) + m
    if not keepdims and axes:
        sign, y = [OPS["squeeze"](v, axes=axes) for v in (sign, y)]
    return (y, sign) if return_sign else y


def _rowwise_answer(op: Any) -> Any:
    def answer(x: Any, axis: Any = None) -> Any:
        x = lift(x)
        if x.dtype.kind != "f":  # SciPy, too, shifts integers in a type that does not wrap, and gives float64
            if x.dtype.kind != "i" or x.dtype.itemsize < INT.itemsize // 2:
                raise DtypeError(f"scipy.special.{op.name} of {x.dtype}", instead="x.astype(np.float64)")
            x = x.astype(np.float64)
        return op(x, axes=normal_axes(axis, x.ndim))

    return answer


for _op in (softmax, log_softmax):
    answers(Late(_op.name))(_rowwise_answer(_op))

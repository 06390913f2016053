"""Sums, products, extrema over axes, and where extrema are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, How, IndexValue, Number, Statement, Temporary, axes_of
from symgrad.ir.node import Node
from symgrad.ops.arrays.running import exclusive_product, reverse
from symgrad.ops.declare.domains import booleans, case, distinct, inf, nan
from symgrad.ops.declare.forms import BOOL, INT, OPS, apply, shape_of, structured

X, OUT = 0, -1


def first_value(how: How, dtype: np.dtype[Any]) -> Any:
    """Return what an accumulation starts from."""
    if how in {How.ADD, How.OR}:
        return 0
    if how in {How.MULTIPLY, How.AND}:
        return 1
    if dtype.kind == "f":
        return -inf if how == How.MAXIMUM else inf
    if dtype.kind == "b":
        return how == How.MINIMUM
    return np.iinfo(dtype).min if how == How.MAXIMUM else np.iinfo(dtype).max


def nan_or_first(how: How) -> Callable[[np.dtype[Any]], Any]:
    """Return what gives NaN, which comes last in every order, for floating point, else what reductions start from."""
    return lambda dtype: np.nan if dtype.kind == "f" else first_value(how, dtype)


def reduction_body(node: Node, how: How) -> Body:
    """Start, then ``T[i] how A[i, k]`` along the reduced axes k."""
    axes = axes_of(node.inputs[0].shape)
    kept = tuple([a for k, a in enumerate(axes) if k not in node.param("axes")])
    start = axes_of(node.shape)
    first = Number(first_value(how, node.dtype), node.dtype)
    return Body((
        Statement(Access(OUT, start), How.SET, first, start, node.line),
        Statement(Access(OUT, kept), how, Access(X, axes), axes, node.line),
    ))


def _reduction(name: str, how: How, evaluate: Any, *, dtype: Any = None, **fields: Any) -> Any:
    return structured(
        name=name, params=("axes",), regular=True, body=lambda node: reduction_body(node, how),
        infer=lambda x, axes: (shapes.without(x.shape, axes), dtype or x.dtype),
        evaluate=lambda x, axes: evaluate(x, axis=axes),
        text=lambda node, names: f"np.{name}({names[0]}, axis={node.params[0]})", **fields,
    )


def along(g: Any, axes: tuple[int, ...]) -> Any:
    """Give a reduced value its axes back with extent 1, to broadcast against x."""
    return OPS["expand_dims"](g, axes=axes) if axes else g


def _extremum_vjp(g: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Share the cotangent evenly among ties, as JAX does."""
    at = np.equal(x, along(y, axes))
    count = OPS["sum"](at.astype(g.dtype), axes=axes)
    return np.where(at, along(g / count, axes), np.zeros((), g.dtype))


def _prod_vjp(g: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Multiply, for each factor, all the others: exact where factors are zero."""
    last = tuple(range(-len(axes), 0))
    moved = np.moveaxis(x, axes, last)
    shape = shape_of(moved)
    lead = len(shape) - len(axes)
    flat = OPS["reshape"](moved, shape=(*shape[:lead], shapes.size(shape[lead:])))
    others = exclusive_product(flat) * reverse(exclusive_product(reverse(flat)))
    return along(g, axes) * np.moveaxis(OPS["reshape"](others, shape=shape), last, axes)


_AXES = (case(lambda a: np.sum(a, axis=0) ** 2, (3, 4)), case(lambda a: np.sum(a) ** 2, (2, 3)),
         case(lambda a: a.sum(axis=(0, -1), keepdims=True) * a, (2, 3, 2)))
_EMPTY = (case(lambda a: np.sum(a, axis=1), (3, 0)), case(np.sum, ()), case(lambda a: np.sum(a, 0), (0, 2)))

sum_ = _reduction(
    "sum", How.ADD, np.sum, moves=True, whole=True, sample=_AXES, edges=_EMPTY,
    vjp=lambda g, y, x, axes: OPS["broadcast_to"](along(g, axes), shape=shape_of(x)) if axes else g,
)
prod = _reduction(
    "prod", How.MULTIPLY, np.prod, vjp=_prod_vjp,
    sample=(case(lambda a: np.prod(a, axis=1), (3, 4)), case(lambda a: np.prod(a, axis=(0, 2)) ** 2, (2, 3, 2))),
    edges=(case(lambda a: np.prod(a, 0), (0, 2)),),
)


def _extremum_op(name: str, how: How, extremum: Any, beyond: Any) -> Any:
    """Declare a maximum or a minimum, which starts as its body does: there may be no elements."""
    return _reduction(
        name, how, lambda x, axis: extremum(x, axis=axis, initial=first_value(how, x.dtype)), vjp=_extremum_vjp,
        used=lambda y, x, axes: np.logical_not(beyond(x, along(y, axes))),  # where it is NaN, all are
        sample=(case(lambda a: extremum(a, axis=1) ** 2, (3, 4), domain=distinct()),
                case(extremum, (5,), domain=distinct())),
        edges=(case(lambda a: extremum(a, 0), (3, 0)), case(lambda a: extremum(a * np.array([1.0, nan])), (2,))),
    )


def _test_op(name: str, how: How, test: Any) -> Any:
    return _reduction(
        name, how, test, nondiff=True, dtype=BOOL, edges=(case(lambda a: test(a > 0), (0,)),),
        sample=(case(lambda a: test(a, axis=0), (3, 4), domain=booleans()),),
    )


max_, min_ = _extremum_op("max", How.MAXIMUM, np.max, np.less), _extremum_op("min", How.MINIMUM, np.min, np.greater)
any_, all_ = _test_op("any", How.OR, np.any), _test_op("all", How.AND, np.all)


sum_.logs = lambda x, axes: OPS["logsumexp"](x, axes=axes)
prod.logs = lambda x, axes: sum_(x, axes=axes)
max_.logs, min_.logs = max_, min_  # the larger one has the larger logarithm


# -- positions of extrema


def _arg_body(node: Node, how: How) -> Body:
    """Find the extremum, then the first place that holds it (or the first NaN)."""
    x = node.inputs[0]
    axis = node.param("axis")
    outer, first, axes = axes_of(node.shape), axes_of(node.shape), axes_of(x.shape)
    again, start = axes_of(x.shape), axes_of(node.shape)

    def kept(of: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple([a for k, a in enumerate(of) if k != axis])

    best, here = -2, Access(X, again)
    hit = apply("equal", x.dtype, here, Access(best, kept(again)), dtype=BOOL)
    if x.dtype.kind == "f":
        hit = apply("logical_or", BOOL, hit, apply("not_equal", x.dtype, here, here, dtype=BOOL))
    far = Number(np.iinfo(np.int64).max, INT)
    place = apply("where", INT, hit, IndexValue(again[axis], INT), far)
    return Body((
        Statement(Access(best, outer), How.SET, Number(first_value(how, x.dtype), x.dtype), outer, node.line),
        Statement(Access(best, kept(axes)), how, Access(X, axes), axes, node.line),
        Statement(Access(OUT, start), How.SET, far, start, node.line),
        Statement(Access(OUT, kept(again)), How.MINIMUM, place, again, node.line),
    ), (Temporary(tuple([a.extent for a in first]), x.dtype),))


def _arg_extremum(name: str, how: How, evaluate: Any) -> Any:
    return structured(
        name=name, params=("axis",), nondiff=True, infer=lambda x, axis: (shapes.without(x.shape, (axis,)), INT),
        evaluate=lambda x, axis: evaluate(x, axis=axis), body=lambda node: _arg_body(node, how),
        text=lambda node, names: f"np.{name}({names[0]}, axis={node.params[0]})",
        sample=(case(lambda a: evaluate(a, axis=1), (3, 4), domain=distinct()), case(evaluate, (2, 3))),
        edges=(case(lambda a: evaluate(a * np.array([1.0, nan, nan])), (3,)), case(lambda a: evaluate(a * 0), (3,))),
    )


argmax = _arg_extremum("argmax", How.MAXIMUM, np.argmax)
argmin = _arg_extremum("argmin", How.MINIMUM, np.argmin)

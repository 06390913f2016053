"""Array creation: what depends on a traced value or on an unknown extent; diagonals, triangles and unit matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from symgrad.errors import DtypeError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Body, How, IndexValue, Statement, axes_of
from symgrad.ir.index.shapes import Dim, Shape, simplified
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import filled, promoted
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import INT, OPS, answers, apply, normal_axis, shape_of, structured
from symgrad.ops.numpy.manipulation import static


def _arange_infer(start: Node, count: Any, step: int) -> tuple[Shape, Any]:
    if start.shape != () or start.dtype != INT:
        raise DtypeError(f"arange counts from an integer, not from {start.dtype} of shape {shapes.show(start.shape)}")
    return (count,), INT


def _arange_body(node: Node) -> Body:
    (axis,) = axes = axes_of(node.shape)
    offset = IndexValue(axis * node.param("step"), INT)
    return Body((Statement(Access(-1, axes), How.SET, apply("add", INT, Access(0, ()), offset), axes, node.line),))


def _whole_sum(x: Any) -> Any:
    return np.floor(np.sum(x)).astype(np.int64)


arange = structured(
    name="arange", params=("count", "step"), infer=_arange_infer, body=_arange_body, nondiff=True, batched=None,
    evaluate=lambda start, count, step: start + np.arange(count) * step,
    sample=(case(lambda a: a * OPS["arange"](_whole_sum(a), count=3, step=2), (3,)),
            case(lambda a: a / (OPS["arange"](_whole_sum(a) * 0 + 9, count=4, step=-1)), (2, 4))),
    edges=(case(lambda a: OPS["arange"](_whole_sum(a), count=0, step=1), (2,)),),
    doc="Integers from a start, as many as an extent.",
)


def spaced(
    start: Any, stop: Any, places: Any, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: Any = 0,
) -> Any:
    """As `numpy.linspace`, of as many points as there are `places`: integers from 0 to an open extent."""
    kind = promoted(start, stop, 1.0)  # Python's numbers are weak
    start, stop = [lift(end).astype(kind) for end in (start, stop)]
    span, gaps = np.subtract(stop, start), places.shape[0] - 1 if endpoint else places.shape[0]
    some, place = np.greater(gaps, 0), np.reshape(places, (-1,) + (1,) * np.ndim(span))
    step = np.divide(span, np.where(some, gaps, 1).astype(span.dtype))
    points = np.add(np.multiply(place.astype(span.dtype), step), start)
    points = np.where(np.logical_and(np.equal(place, gaps), some), stop, points)
    points = np.moveaxis(points, 0, normal_axis(axis, points.ndim))
    if dtype is not None:
        points = (np.floor(points) if np.dtype(dtype).kind in "iu" else points).astype(dtype)
    return (points, np.where(some, step, np.nan)) if retstep else points


# -- diagonals


@answers(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a = lift(a)
    if a.ndim < 2:
        raise ShapeError("diag requires an array of at least two dimensions")
    i, j = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    if i == j:
        raise ShapeError("axis1 and axis2 cannot be the same")
    order = (*[k for k in range(a.ndim) if k not in {i, j}], i, j)
    moved = a if order == tuple(range(a.ndim)) else OPS["transpose"](a, axes=order)
    return OPS["diagonal"](moved, offset=operator.index(static("diagonal", "offset", offset)))


@answers(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return np.sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@answers(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    v = lift(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError("Input must be 1- or 2-d.")
    k = operator.index(static("diag", "k", k))
    extent = simplified(shape_of(v)[0] + abs(k))
    return OPS["embed_diagonal"](v, offset=k, shape=(extent, extent))


def _triangle(m: Any, k: Any, *, upper: bool) -> Any:
    m = lift(m)
    if m.ndim == 0:
        raise UnsupportedError("np.tril and np.triu need at least one axis")
    if m.ndim == 1:
        m = OPS["broadcast_to"](m, shape=shape_of(m) * 2)
    return OPS["triangle"](m, upper=upper, k=operator.index(static("tril", "k", k)))


answers(np.tril)(lambda m, k=0: _triangle(m, k, upper=False))
answers(np.triu)(lambda m, k=0: _triangle(m, k, upper=True))


def ones_diagonal(like: Any, extent: Dim, shape: Shape, dtype: Any) -> Any:
    """Return unit matrices of a shape, in the trace of `like`."""
    eye = OPS["embed_diagonal"](filled(like, 1, (extent,), dtype), offset=0, shape=(extent, extent))
    return OPS["broadcast_to"](eye, shape=(*shape, extent, extent)) if shape else eye

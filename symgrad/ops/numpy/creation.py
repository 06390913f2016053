"""Array creation: what depends on a traced value or on an unknown extent."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DtypeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Body, How, IndexValue, Statement, axes_of
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import promoted
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import INT, OPS, apply, normal_axis, structured


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


def _ends(start: Any, stop: Any) -> tuple[Any, Any]:
    """Convert both ends to the type of the points; Python's numbers are weak."""
    kind = promoted(start, stop, 1.0)
    return lift(start).astype(kind), lift(stop).astype(kind)


def spaced(
    start: Any, stop: Any, places: Any, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: Any = 0,
) -> Any:
    """As `numpy.linspace`, of as many points as there are `places`: integers from 0 to an open extent."""
    start, stop = _ends(start, stop)
    span, gaps = np.subtract(stop, start), places.shape[0] - 1 if endpoint else places.shape[0]
    some, place = np.greater(gaps, 0), np.reshape(places, (-1,) + (1,) * np.ndim(span))
    step = np.divide(span, np.where(some, gaps, 1).astype(span.dtype))
    points = np.add(np.multiply(place.astype(span.dtype), step), start)
    points = np.where(np.logical_and(np.equal(place, gaps), some), stop, points)
    return _finished(points, np.where(some, step, np.nan), axis, dtype, retstep=retstep)


def _finished(points: Any, step: Any, axis: Any, dtype: Any, *, retstep: bool) -> Any:
    points = np.moveaxis(points, 0, normal_axis(axis, points.ndim))
    if dtype is not None:
        points = (np.floor(points) if np.dtype(dtype).kind in "iu" else points).astype(dtype)
    return (points, step) if retstep else points

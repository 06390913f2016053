"""Rules of `simplify` for conditions on places: comparisons of indices instead of arrays of Booleans.

Guards say with the ops of their adjoints which elements are used: ``True`` placed in a slice of zeros. That is written
as a comparison here, which costs no memory; where only numbers decide it and it would be long, as a table.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.shapes import is_static, simplified
from symgrad.ops.arrays.indexing import scatter_add
from symgrad.ops.arrays.views import diagonal_length, embed_diagonal, place
from symgrad.ops.declare import leaves
from symgrad.ops.elementwise.comparison import not_equal
from symgrad.ops.numpy.creation import arange
from symgrad.trace.state import active_on, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import constant, is_number, literal, make, scalar, shaped

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.shapes import Dim, Shape
    from symgrad.trace.state import Trace

FEW = 4
"""So many slices are compared with; where there are more, a table says which elements they have."""

INT = np.dtype(np.int64)


def _is_true(node: Node) -> bool:
    return node.dtype.kind == "b" and bool(scalar(node))


def _place(graph: Graph, node: Node) -> Node | None:
    if not all(_is_true(i) for i in node.inputs):
        return None
    regions = node.param("indices")
    if len(regions) > FEW:
        return _table(graph, node)
    with passing(active_on(graph, "places")) as trace:
        return shaped(graph, reduce(np.logical_or, [_inside(trace, r, node.shape) for r in regions]).node, node.shape)


def _embed_diagonal(graph: Graph, node: Node) -> Node | None:
    rows, columns = node.shape[-2:]
    offset = node.param("offset")
    if not _is_true(node.inputs[0]) or node.inputs[0].shape[-1] != diagonal_length(rows, columns, offset):
        return None
    with passing(active_on(graph, "places")) as trace:
        row, column = _places(trace, rows, 1), _places(trace, columns, 0)
        found: Any = np.equal(row + offset if offset else row, column)
        return shaped(graph, found.node, node.shape)


def _not_equal(graph: Graph, node: Node) -> Node | None:
    """Say where something is on a diagonal, instead of comparing what stands there with zero."""
    x, zero = node.inputs
    number = scalar(x.inputs[0]) if x.op is embed_diagonal else None
    if number is None or number == 0 or not is_number(zero, 0):
        return None
    there = shaped(graph, literal(graph, True, bool), x.inputs[0].shape)
    return shaped(graph, make(graph, x.op, there, offset=x.param("offset"), shape=x.param("shape")), node.shape)


def _table(graph: Graph, node: Node) -> Node | None:
    """Compute which elements there are, where numbers decide it."""
    value, *indices = node.inputs
    numbers = node.op is place or all(i.op is leaves.constant for i in indices)
    if not _is_true(value) or not numbers or not is_static(node.shape):
        return None
    read = [i.params[0].array if i.op is leaves.constant else np.ones(i.shape, bool) for i in node.inputs]
    return constant(graph, node.op.evaluate(*read, **dict(zip(node.op.params, node.params, strict=True))))


def _inside(trace: Trace, region: Any, shape: Shape) -> Any:
    """Say which places a region has."""
    found = [
        condition for axis, (entry, dim) in enumerate(zip(region, shape, strict=True))
        if entry not in {(0, dim, 1), (dim - 1, dim, -1)}
        for condition in _along(trace, _places(trace, dim, len(shape) - axis - 1), entry, dim)
    ]
    return reduce(np.logical_and, found) if found else Tracer(literal(trace.graph, True, bool), trace)


def _along(trace: Trace, place: Any, entry: Any, dim: Dim) -> list[Any]:
    """Say which places a region has along one axis: from one to another one, and how far apart."""
    if len(entry) == 1:
        return [place == _number(trace, entry[0])]
    start, count, step = entry
    ends = start, simplified(start + (count - 1) * step)
    (first, last), step = ends if step > 0 else ends[::-1], abs(step)
    found = [] if first == 0 else [place >= _number(trace, first)]
    beyond = simplified(dim - 1 - last)
    if type(beyond) is not int or not 0 <= beyond < step:
        found.append(place <= _number(trace, last))
    if step > 1:
        found.append((place - _number(trace, first) if first != 0 else place) % step == 0)
    return found


def _places(trace: Trace, dim: Dim, after: int) -> Any:
    """Count along an axis that has so many others after it."""
    counted = arange(Tracer(literal(trace.graph, 0, INT), trace), count=dim, step=1)
    return np.expand_dims(counted, tuple(range(1, after + 1)))


def _number(trace: Trace, value: Dim) -> Any:
    return value if type(value) is int else Tracer(make(trace.graph, leaves.extent, dim=value), trace)


PLACE_RULES: dict[str, Any] = {
    place.name: _place, embed_diagonal.name: _embed_diagonal, scatter_add.name: _table, not_equal.name: _not_equal,
}

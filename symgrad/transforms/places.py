"""Rules of `simplify` for conditions on places: comparisons of indices instead of arrays of Booleans.

Guards say with the ops of their adjoints which elements are used: ``True`` placed in a slice of zeros. That is written
as a comparison here, which costs no memory; where only numbers decide it and it would be long, as a table.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.shapes import is_static, simplified
from symgrad.ops import leaves
from symgrad.ops.views import diagonal_length
from symgrad.transforms.build import is_number, literal, make, scalar, shaped
from symgrad.transforms.matching import constant

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.shapes import Dim, Shape

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
    inside = [_inside(graph, region, node.shape) for region in regions]
    return shaped(graph, reduce(lambda a, b: make(graph, "logical_or", a, b), inside), node.shape)


def _embed_diagonal(graph: Graph, node: Node) -> Node | None:
    rows, columns = node.shape[-2:]
    offset = node.param("offset")
    if not _is_true(node.inputs[0]) or node.inputs[0].shape[-1] != diagonal_length(rows, columns, offset):
        return None
    row, column = [_places(graph, dim, after) for dim, after in ((rows, 1), (columns, 0))]
    moved = make(graph, "add", row, literal(graph, offset, INT)) if offset else row
    return shaped(graph, make(graph, "equal", moved, column), node.shape)


def _not_equal(graph: Graph, node: Node) -> Node | None:
    """Tell where something is on a diagonal, instead of comparing what stands there with zero."""
    x, zero = node.inputs
    number = scalar(x.inputs[0]) if x.op.name == "embed_diagonal" else None
    if number is None or number == 0 or not is_number(zero, 0):
        return None
    there = shaped(graph, literal(graph, True, bool), x.inputs[0].shape)
    return shaped(graph, make(graph, x.op, there, offset=x.param("offset"), shape=x.param("shape")), node.shape)


def _table(graph: Graph, node: Node) -> Node | None:
    """Compute which elements there are, where numbers decide it."""
    value, *indices = node.inputs
    numbers = node.op.name == "place" or all(i.op is leaves.constant for i in indices)
    if not _is_true(value) or not numbers or not is_static(node.shape):
        return None
    read = [i.params[0].array if i.op is leaves.constant else np.ones(i.shape, bool) for i in node.inputs]
    return constant(graph, node.op.evaluate(*read, **dict(zip(node.op.params, node.params, strict=True))))


def _inside(graph: Graph, region: Any, shape: Shape) -> Node:
    """Tell the places that a region has."""
    found = literal(graph, True, bool)
    for axis, (entry, dim) in enumerate(zip(region, shape, strict=True)):
        if entry in {(0, dim, 1), (dim - 1, dim, -1)}:
            continue
        place = _places(graph, dim, len(shape) - axis - 1)
        for part in _along(graph, place, entry, dim):
            found = part if _is_true(found) else make(graph, "logical_and", found, part)
    return found


def _along(graph: Graph, place: Node, entry: Any, dim: Dim) -> list[Node]:
    """Tell the places that a region has along one axis: from one to another one, and how far apart."""
    if len(entry) == 1:
        return [make(graph, "equal", place, _number(graph, entry[0]))]
    start, count, step = entry
    ends = start, simplified(start + (count - 1) * step)
    (first, last), step = ends if step > 0 else ends[::-1], abs(step)
    found = [] if first == 0 else [make(graph, "greater_equal", place, _number(graph, first))]
    beyond = simplified(dim - 1 - last)
    if type(beyond) is not int or not 0 <= beyond < step:
        found.append(make(graph, "less_equal", place, _number(graph, last)))
    if step > 1:
        off = make(graph, "subtract", place, _number(graph, first)) if first != 0 else place
        rest = make(graph, "remainder", off, literal(graph, step, INT))
        found.append(make(graph, "equal", rest, literal(graph, 0, INT)))
    return found


def _places(graph: Graph, dim: Dim, after: int) -> Node:
    """Count along an axis that has so many others after it."""
    counted = make(graph, "arange", literal(graph, 0, INT), count=dim, step=1)
    return make(graph, "expand_dims", counted, axes=tuple(range(1, after + 1))) if after else counted


def _number(graph: Graph, value: Dim) -> Node:
    return literal(graph, value, INT) if type(value) is int else make(graph, leaves.extent, dim=value)


PLACE_RULES: dict[str, Any] = {
    "place": _place, "embed_diagonal": _embed_diagonal, "scatter_add": _table, "not_equal": _not_equal,
}

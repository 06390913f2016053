"""Rules of `cheaper` for conditions on places: comparisons of indices instead of arrays of Booleans.

Guards say with the ops of their adjoints which elements are used: ``True`` placed in a slice of zeros. That is written
as a comparison here, which costs no memory; where only numbers decide it and it would be long, as a table.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.index.shapes import Dim, Shape, is_static, simplified
from symgrad.ir.node import Node
from symgrad.ops.arrays.views import diagonal_length, place
from symgrad.ops.declare import leaves
from symgrad.ops.numpy.creation import arange
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import array, is_number, literal, make, scalar, shaped, written
from symgrad.transforms.tuned import DIAGONALS, MASK, SLICES_COMPARED, TABLE

if TYPE_CHECKING:
    from symgrad.transforms.rewrite.engine import Run

INT = np.dtype(np.int64)


def placed(run: Run, node: Node) -> Node | None:
    """Compare indices with the bounds of slices; many slices, and known indices, are a table."""
    sliced = node.op is place
    pieces = node.inputs if sliced else node.inputs[:1]
    if node.dtype.kind != "b" or not all(scalar(i) for i in pieces):
        return None
    if sliced and len(node.inputs) <= SLICES_COMPARED:
        regions = node.param("indices")

        def somewhere(zero: Any) -> Any:
            return reduce(np.logical_or, [_is_within(zero, region, node.shape) for region in regions])

        return shaped(run.graph, written(run.graph, somewhere, literal(run.graph, 0, INT)), node.shape)
    if not is_static(node.shape) or any(array(i) is None for i in node.inputs[len(pieces) :]):
        return None
    read = [np.ones(i.shape, bool) if array(i) is None else array(i) for i in node.inputs]
    return literal(run.graph, node.op.evaluate(*read, **node.named))


def on_diagonal(run: Run, node: Node) -> Node | None:
    """Compare the indices of a diagonal that is True all along."""
    value, offset, (rows, columns) = node.inputs[0], node.param("offset"), node.shape[-2:]
    if node.dtype.kind != "b" or not scalar(value) or value.shape[-1] != diagonal_length(rows, columns, offset):
        return None

    def compared(zero: Any) -> Any:
        row = _counted_along(zero, rows, 1)
        return np.equal(row + offset if offset else row, _counted_along(zero, columns, 0))

    return shaped(run.graph, written(run.graph, compared, literal(run.graph, 0, INT)), node.shape)


def not_zero(run: Run, node: Node) -> Node | None:
    """Say where something is on a diagonal, instead of comparing what stands there with zero."""
    x, zero = node.inputs
    if not scalar(x.inputs[0]) or not is_number(zero, 0):
        return None
    there = shaped(run.graph, literal(run.graph, True, bool), x.inputs[0].shape)
    return shaped(run.graph, make(run.graph, x.op, there, **x.named), node.shape)


def by_places(run: Run, node: Node) -> Node | None:
    """Compare indices in the place of a matrix of numbers that are the same along diagonals, with few changes.

    ``1 - np.eye(n)`` and ``np.tri(n)`` would be read from memory.
    """
    inputs = tuple([_comparison_region(run, i) or i for i in node.inputs])
    return None if inputs == node.inputs else make(run.graph, node.op, *inputs, **node.named)


def _comparison_region(run: Run, node: Node) -> Node | None:
    values = array(node)
    if values is None or values.ndim != 2 or min(values.shape) < 2:
        return None
    if values.size < (MASK if values.dtype.kind == "b" else TABLE):
        return None
    rows, columns = values.shape
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")  # zeros have signs
    below, along = [np.concatenate([x[:0:-1, 0], x[0]]) for x in (bits, values)]  # from the lowest diagonal on
    changes = np.flatnonzero(below[1:] != below[:-1])[:DIAGONALS + 1] + 1
    if not 0 < len(changes) <= DIAGONALS or not np.array_equal(bits[1:, 1:], bits[:-1, :-1]):
        return None
    numbers = [literal(run.graph, along[k], node.dtype) for k in (0, *changes)]

    def chosen(zero: Any, *numbers: Any) -> Any:
        row, column = _counted_along(zero, rows, 1), _counted_along(zero, columns, 0)
        first, last = [row + k if k else row for k in (int(changes[0]) - rows + 1, int(changes[-1]) - rows)]
        if len(changes) == 1:
            return np.where(column < first, *numbers)
        if below[0] != below[-1]:
            return np.where(column < first, numbers[0], np.where(column <= last, *numbers[1:]))
        within: Any = column == first if changes[1] - changes[0] == 1 else (column >= first) & (column <= last)
        if node.dtype.kind == "b":
            return within if along[changes[0]] else np.logical_not(within)
        return np.where(within, numbers[1], numbers[0])

    return shaped(run.graph, written(run.graph, chosen, literal(run.graph, 0, INT), *numbers), node.shape)


def _is_within(zero: Any, region: Any, shape: Shape) -> Any:
    """Say which places a region has."""
    found = [
        condition for axis, (entry, dim) in enumerate(zip(region, shape, strict=True))
        if entry not in {(0, dim, 1), (dim - 1, dim, -1)}
        for condition in _region_axis(zero, _counted_along(zero, dim, len(shape) - axis - 1), entry, dim)
    ]
    return reduce(np.logical_and, found) if found else Tracer(literal(zero.owner.graph, True, bool), zero.owner)


def _region_axis(zero: Any, at: Any, entry: Any, dim: Dim) -> list[Any]:
    """Say which places a region has along one axis: from one to another one, and how far apart."""
    if len(entry) == 1:
        return [at == _index_number(zero, entry[0])]
    start, count, step = entry
    ends = start, simplified(start + (count - 1) * step)
    (first, last), step = ends if step > 0 else ends[::-1], abs(step)
    found = [] if first == 0 else [at >= _index_number(zero, first)]
    beyond = simplified(dim - 1 - last)
    if type(beyond) is not int or not 0 <= beyond < step:
        found.append(at <= _index_number(zero, last))
    if step > 1:
        found.append((at - _index_number(zero, first) if first != 0 else at) % step == 0)
    return found


def _counted_along(zero: Any, dim: Dim, after: int) -> Any:
    """Count along an axis that has so many others after it."""
    return np.expand_dims(arange(zero, count=dim, step=1), tuple(range(1, after + 1)))


def _index_number(zero: Any, value: Dim) -> Any:
    return value if type(value) is int else Tracer(make(zero.owner.graph, leaves.extent, dim=value), zero.owner)

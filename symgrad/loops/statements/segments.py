"""Sums over elements in segments: a loop over segments, and in each one over its elements, which follow each other.

``T[segment[e]] += data[e] * x[column[e]]`` needs no array of segments then, and what is added up in one of them is so
in a register: the rows of a sparse matrix, bags of words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.index.notation import (
    SURE,
    Access,
    Apply,
    Axis,
    How,
    IndexValue,
    Lookup,
    Number,
    Statement,
    axes_of,
    rebuilt,
)
from symgrad.ir.node import Node
from symgrad.loops.held import Segments, counted_on
from symgrad.loops.machine import TILE_ROWS
from symgrad.loops.program import Array, Kind, Loop, Tile, While, accesses_in, in_loops, temporary
from symgrad.ops.declare.forms import INT
from symgrad.ops.elementwise.logical import less


def by_segment(statement: Statement, node: Node) -> tuple[Statement, Axis, Axis, Node] | None:
    """Let a sum of an op's body have an axis of segments in the place of their numbers.

    Returns:
        The sum, the axis of its elements, that of segments, and what says where they begin; None where nothing is
        looked up by numbers of segments, or by several.
    """
    if statement.how is not How.ADD or statement.prefix or statement.ranges or statement.routine is not None:
        return None
    every = [p for access in statement.touched for p in access.parts if isinstance(p, Lookup)]
    found = [p for p in every if p.access.array >= 0 and node.inputs[p.access.array].op.segments is not None]
    elements, numbers = {p.access.indices for p in every}, {node.inputs[p.access.array] for p in found}
    if len(elements) != 1 or len(numbers) != 1 or elements.isdisjoint({(axis,) for axis in statement.axes}):
        return None
    if 0 in [axis.extent for axis in statement.axes] or 1 in [x.shape[0] for one in numbers for x in one.inputs]:
        return None  # there is nothing to do
    (number,), ((element,),) = numbers, elements
    bounds = number.inputs[number.op.segments]
    segment = Axis("i", bounds.shape[0] - 1)

    def index(i: Any) -> Any:
        return rebuilt(i, lambda p: segment if p in found else p)

    def access(a: Access) -> Access:
        return a.moved(tuple(map(index, a.indices)))

    return statement.mapped(access, index), element, segment, bounds


def has_own_sums(s: Statement, element: Axis, segment: Axis) -> bool:
    """Whether each segment adds to sums of its own."""
    rest = [axis for axis in s.axes if axis is not element]
    return s.target.indices.count(segment) == 1 and all(i is segment or i == 0 or i in rest for i in s.target.indices)


def segment_sum(
    s: Statement, element: Axis, segment: Axis, limits: tuple[Lookup, Lookup], *, begun: bool,
) -> Segments:
    """Make the loops of a sum over elements in segments.

    Args:
        s: the sum, with `segment` in its indices, but not among its axes.
        element: the axis of the elements.
        segment: the axis of the segments.
        limits: where the elements of a segment begin and end.
        begun: each sum is set to its total; else it is added to what is there.
    """
    own = has_own_sums(s, element, segment)
    number, end = [Array(name, (), INT, Kind.TEMPORARY, s.line) for name in ("element", "end")]
    s = s.at({element: Lookup(Access(number, ()), element.extent, SURE)})
    s, looked = looked_up_once(s, segment)
    rest, target, line = s.axes, s.target, s.line
    new, before, after = [number, end, *[one.target.array for one in looked]], list[Statement](), list[Statement]()
    for array, limit in zip((number, end), limits, strict=True):
        before.append(Statement(Access(array, ()), How.SET, IndexValue(limit, INT), (segment,), line))
    if own:
        total = temporary("total", tuple([axis.extent for axis in rest]), target.array)
        first, last = axes_of(total.shape), axes_of(total.shape)
        before.append(Statement(Access(total, first), How.SET, Number(0, total.dtype), (segment, *first), line))
        store = target.at(dict(zip(rest, last, strict=True)))
        how = How.SET if begun else How.ADD
        after.append(Statement(store, how, Access(total, last), (segment, *last), line))
        s, new = s.with_(target=Access(total, rest)), [*new, total]
    here, stop = Access(number, ()), Access(end, ())
    step = counted_on(here, axes=(segment,), line=line)
    each = (*looked, *in_loops([s.with_(axes=(segment, *rest))], rest), step)
    items = (
        *[item for one in before for item in in_loops([one], one.axes[1:])],
        While(Apply(less, (here, stop), np.dtype(bool), INT), each, total=element.extent),
        *[item for one in after for item in in_loops([one], one.axes[1:])],
    )
    members, loop = frozenset([segment]), Loop(segment, frozenset([segment]), items)
    if type(segment.extent) is not int or segment.extent > TILE_ROWS:  # threads may share tiles out
        tile = Tile(Axis(segment.name, segment.extent), TILE_ROWS)
        loop = Loop(segment, members, (loop.with_(window=tile),), tile=tile)
    every = dict.fromkeys([access.array for access in accesses_in([loop])])
    reads = tuple([array for array in every if array not in {*new, target.array}])
    return Segments((), (), (loop,), reads, target.array, tuple(new), element.extent, s)


def looked_up_once(s: Statement, segment: Axis) -> tuple[Statement, list[Statement]]:
    """Let what a statement looks up be looked up before it, and checked, once for all of its axes.

    Returns:
        The statement, and what looks up.
    """
    first: list[Statement] = []
    known: dict[Array, Lookup] = {}

    def part(p: Any) -> Any:
        if not isinstance(p, Lookup) or p.check <= 0:
            return p
        if p.access.array not in known:
            place = Access(Array("place", (), INT, Kind.TEMPORARY, s.line), ())
            first.append(Statement(place, How.SET, IndexValue(p, INT), (segment,), s.line))
            known[p.access.array] = Lookup(place, p.extent, SURE)
        return known[p.access.array]

    def index(i: Any) -> Any:
        return rebuilt(i, part)

    return s.mapped(lambda a: a.moved(tuple(map(index, a.indices))), index), first

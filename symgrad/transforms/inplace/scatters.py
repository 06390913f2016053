"""`gather_scatters`: n writes in a row through traced indices, of one place or several, become one write of n values.

``for k in range(n): out[i[k]] += x[k]`` is traced as n arrays, each a copy of the one before with one place changed.
Where nothing reads an array in between, one write does the same, in the same order: of values for one place the last
stays, and each is added. Reading a place only to add to it is no reading. ``out[i] += x`` for a few places, i a vector
that may name one twice, adds the last value of each place alone. It is no rule of a table, for it collects writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.index import regions, shapes
from symgrad.ir.index.shapes import Shape, is_static
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Op
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.arrays.indexing import first_axis, gather, gathered_shape
from symgrad.ops.arrays.updates import add_at, assemble, scatter_set
from symgrad.ops.arrays.views import broadcast_to, reshape, slice_
from symgrad.trace.state import Trace, active_on, passing
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.build import array, scalar
from symgrad.transforms.tuned import PLACES_COMPARED

WRITES = (scatter_set, add_at)


class _Write(NamedTuple):
    """One write through traced numbers.

    Attributes:
        op: `scatter_set` or `add_at`.
        before: the array that is written into.
        value: what is written, or added.
        indices: the place.
        axes: of the array, which the indices are for.
        passing: nodes that are needed for nothing but this write: the reading of the place, and the sum.
        part: the shape of what was read of several known places, where that is not the shape they are written in.
        once: of values for one place the last is added alone.
    """

    op: Op
    before: Node
    value: Node
    indices: tuple[Node, ...]
    axes: tuple[int, ...]
    negative: bool = False
    passing: tuple[Node, ...] = ()
    part: Shape | None = None
    once: bool = False


def gather_scatters(program: Program) -> Program:
    """Join writes through traced numbers that follow each other.

    >>> import numpy as np, symgrad as sg
    >>> def f(x, i):
    ...     out = np.zeros(9)
    ...     for k in range(5):
    ...         out[i[k]] += x
    ...     return out
    >>> sg.jit(f).lower(1.0, np.arange(5)).as_text("stable").count("add_at")
    1
    """
    if program.ops.isdisjoint(WRITES):
        return program
    nodes = program.nodes()
    uses = Counter([i for node in nodes for i in node.inputs] + [*program.outputs])
    writes = {node: found for node in nodes if (found := _read_write(node, uses)) is not None}
    if not writes:
        return program
    runs = _Runs(writes, uses)
    return rebuild(program, runs.rewritten, new=runs.new)


def _read_write(node: Node, uses: Counter[Node]) -> _Write | None:
    """Read one write through traced numbers; ``out[i] = out[i] + x`` is an addition."""
    if node.op not in WRITES:
        return None
    before, value, *indices = node.inputs
    axes, places = node.param("axes"), {i.shape for i in indices} - {()}
    if len(places) > 1 or not all(is_static(place) and len(place) == 1 for place in places):
        return None
    plain = _Write(node.op, before, value, tuple(indices), axes)
    if node.op is add_at or (0,) in places:
        return plain
    if any(place > (PLACES_COMPARED,) and not node.param("unique") for place in places):
        return plain
    once = bool(places) and not node.param("unique")
    whole = (value,) if value.op is reshape and uses[value] == 1 else ()
    value = value.inputs[0] if whole else value
    if value.op.numpy not in {np.add, np.subtract} or uses[value] != 1:
        return plain
    for place, other in ((0, 1), (1, 0))[: 2 if value.op.numpy is np.add else 1]:
        read = value.inputs[place]
        own = read.op is gather and read.params == (axes,) and _one_place(read.inputs[1:], tuple(indices))
        if own and _is_one_array(read.inputs[0], before) and uses[read] == 1 and read is not value.inputs[other]:
            passing, part = (read, value, *whole), value.shape if places else None
            negative = value.op.numpy is np.subtract
            return _Write(add_at, before, value.inputs[other], tuple(indices), axes, negative, passing, part, once)
    return plain


def _one_place(one: tuple[Node, ...], other: tuple[Node, ...]) -> bool:
    """Whether indices are the same, or name the same places in the same order: numbers, or those laid flat."""
    together = shapes.broadcast(*[i.shape for i in one])

    def is_flat(index: Node, of: Node) -> bool:
        if index.op is not reshape or len(index.shape) != 1:
            return False
        source = index.inputs[0]
        return source.shape == together and of in ((source, source.inputs[0]) if source.op.aligned else (source,))

    if all(a is b or is_flat(b, a) for a, b in zip(one, other, strict=True)):
        return True
    if any(not index.is_constant for index in (*one, *other)):
        return False
    first, second = [np.broadcast_arrays(*map(array, indices)) for indices in (one, other)]
    return all(np.array_equal(a.ravel(), b.ravel()) for a, b in zip(first, second, strict=True))


def _is_one_array(one: Node, other: Node) -> bool:
    """Whether two arrays are one, or of one shape and filled with one number."""
    if one is other or one.shape != other.shape:
        return one is other
    filled = []
    for node in (one, other):
        while node.op is slice_:
            node = node.inputs[0]  # noqa: PLW2901 - what it is a part of
        filled.append(scalar(node))
    first, second = filled
    return first is not None and second is not None and first.tobytes() == second.tobytes()


class _Runs:
    """The writes of a program while it is made anew; those that wait for the next one have no node yet."""

    def __init__(self, writes: dict[Node, _Write], uses: Counter[Node]) -> None:
        self.writes = writes
        self.passing = {node for write in writes.values() for node in write.passing}
        self.next: dict[Node, Node] = {}
        for node, write in writes.items():
            before = writes.get(write.before)
            if before is None or uses[write.before] != 1 + bool(write.passing):  # something else reads what that left
                continue
            alike = (before.op, before.axes, before.once) == (write.op, write.axes, write.once)
            if alike and [i.shape for i in before.indices] == [i.shape for i in write.indices]:
                self.next[write.before] = node
        self.new: dict[Node, Node] = {}
        self.waiting: dict[Node, list[_Write]] = {}

    def rewritten(self, graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Make a node anew; a write waits for those that follow it."""
        if node in self.passing:
            return inputs[0]  # nobody reads it
        if node not in self.writes:
            return copied(graph, node, inputs)
        write = self.writes[node]
        run = self.waiting.pop(write.before, [])
        run.append(write)
        if node not in self.next:
            return self.joined(graph, node, run)
        self.waiting[node] = run
        return inputs[0]

    def joined(self, graph: Graph, node: Node, run: list[_Write]) -> Node:
        """Write all at once."""
        first = run[0]
        with passing(active_on(graph, "scatters")) as trace:
            x = self.traced(trace, first.before)
            part = max(i.shape for i in first.indices)
            values = [self.value(trace, write, gathered_shape(node.shape, part, first.axes)) for write in run]
            columns = zip(*[write.indices for write in run], strict=True)
            indices: list[list[Any]] = [[self.traced(trace, i) for i in column] for column in columns]
            if len(run) > 1 or first.once:  # they stand beside others: of one dtype, and of the shape that all have
                indices = [[i if i.dtype == np.int64 else i.astype(np.int64) for i in column] for column in indices]
                indices = [[i if i.node.shape == part else broadcast_to(i, shape=part) for i in c] for c in indices]
            start = first_axis(first.axes)
            whole, *places = [
                _one_scatter(trace, values, axis, along=bool(part)) if len(run) > 1 else values[0]
                for values, axis in [(values, start), *[(column, 0) for column in indices]]
            ]
            if first.once:
                whole = _all_but_last(whole, places, [x.shape[axis] for axis in first.axes], part[0], start)
            params: dict[str, Any] = {"axes": first.axes}
            if first.op is scatter_set:
                params["unique"] = len(run) == 1 and node.op is first.op and node.param("unique")
            made: Tracer = first.op(x, whole, *places, **params)
            return made.node

    def traced(self, trace: Trace, node: Node) -> Any:
        """Return what stands for a node; one from outside of the program stands for itself."""
        return Tracer(self.new.get(node, node), trace)

    def value(self, trace: Trace, write: _Write, shape: Shape) -> Any:
        """Return what is written or added, of the place's shape."""
        value: Any = self.traced(trace, write.value)
        value = -value if write.negative else value
        value = value if write.part is None or value.node.shape == write.part else broadcast_to(value, shape=write.part)
        have = value.node.shape
        if have == shape:
            return value
        same = is_static(have) and is_static(shape) and shapes.size(have) == shapes.size(shape)  # read in another shape
        return (reshape if same else broadcast_to)(value, shape=shape)


def _all_but_last(values: Any, places: list[Any], extents: list[Any], each: int, start: int) -> Any:
    """Add -0.0, which changes nothing, for all but the last value of a place among `each` places that follow."""
    again: Any = None
    for place, extent in zip(places, extents, strict=True):
        table = np.reshape(np.where(place < 0, place + extent, place), (-1, each))
        same = np.expand_dims(table, 2) == np.expand_dims(table, 1)
        again = same if again is None else again & same
    dropped = np.reshape(np.any(np.triu(again, 1), axis=2), -1)
    dropped = np.expand_dims(dropped, tuple([k for k in range(values.ndim) if k != start]))
    return np.where(dropped, values.dtype.type(-0.0), values)


def _one_scatter(trace: Trace, values: Sequence[Any], axis: int, *, along: bool) -> Any:
    """Put values of one shape one behind the other, along an axis they have or along a new one."""
    nodes, shape = [v.node for v in values], values[0].node.shape
    if not along:
        shape = (*shape[:axis], 1, *shape[axis:])
    read = [array(node) if along else scalar(node) for node in nodes]
    if (along or len(shape) == 1) and all(value is not None for value in read):
        return Tracer(as_node(trace, np.concatenate([np.reshape(value, shape) for value in read], axis)), trace)
    source = nodes[0].inputs[0] if not along and all(node.op is slice_ for node in nodes) else None
    if source is not None and source.shape == (len(values),) and all(
        node.inputs[0] is source and node.params[0] == ((k,),) for k, node in enumerate(nodes)
    ):
        return Tracer(source, trace)  # all elements of a vector, in order
    full, count = regions.whole(shape), shape[axis]
    places = [(k * count, count, 1) if along else (k,) for k in range(len(values))]
    base = broadcast_to(values[0].dtype.type(0), shape=(*shape[:axis], count * len(values), *shape[axis + 1 :]))
    return assemble(base, *values, indices=tuple([(*full[:axis], place, *full[axis + 1 :]) for place in places]))

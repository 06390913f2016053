"""`gather_scatters`: n writes in a row through traced indices, of one place or several, become one write of n values.

``for k in range(n): out[i[k]] += x[k]`` is traced as n arrays, each a copy of the one before with one place changed.
Where nothing reads an array in between, one write does the same, in the same order: of values for one place the last
stays, and each is added. Reading a place only to add to it is no reading. ``out[i] += x`` for a few places, i a vector
that may name one twice, adds the last value of each place alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.ir import shapes
from symgrad.ir.node import Constant, Graph
from symgrad.ir.program import copied, rebuild
from symgrad.ir.shapes import is_static
from symgrad.ops import leaves
from symgrad.ops.indexing import first_axis, gathered_shape
from symgrad.transforms.build import literal, make, scalar, shaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Shape

INT = np.dtype(np.int64)

FEW = 64
"""So many places are compared, each with each, for one that is named twice."""


class _Write(NamedTuple):
    """One write through traced numbers.

    Attributes:
        kind: ``scatter_set`` or ``add_at``.
        before: the array that is written into.
        value: what is written, or added.
        indices: the place.
        axes: of the array, which the indices are for.
        passing: nodes that are needed for nothing but this write: the reading of the place, and the sum.
        part: the shape of what was read of several known places, where that is not the shape they are written in.
        once: of values for one place the last is added alone.
    """

    kind: str
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
    nodes = program.nodes()
    if not any(node.op.name in {"scatter_set", "add_at"} for node in nodes):
        return program
    uses = Counter([i for node in nodes for i in node.inputs] + [*program.outputs])
    writes = {node: found for node in nodes if (found := _write(node, uses)) is not None}
    if not writes:
        return program
    return rebuild(program, _Joined(writes, uses).rewritten)


def _write(node: Node, uses: Counter[Node]) -> _Write | None:
    """Read one write through traced numbers; ``out[i] = out[i] + x`` is an addition."""
    if node.op.name not in {"scatter_set", "add_at"}:
        return None
    before, value, *indices = node.inputs
    axes, places = node.param("axes"), {i.shape for i in indices} - {()}
    if len(places) > 1 or not all(is_static(place) and len(place) == 1 for place in places):
        return None
    plain = _Write(node.op.name, before, value, tuple(indices), axes)
    if node.op.name == "add_at" or any(place > (FEW,) and not node.param("unique") for place in places):
        return plain
    once = bool(places) and not node.param("unique")
    whole = (value,) if value.op.name == "reshape" and uses[value] == 1 else ()
    value = value.inputs[0] if whole else value
    if value.op.name not in {"add", "subtract"} or uses[value] != 1:
        return plain
    for place, other in ((0, 1), (1, 0))[: 2 if value.op.name == "add" else 1]:
        read = value.inputs[place]
        own = read.op.name == "gather" and read.params == (axes,) and _one_place(read.inputs[1:], tuple(indices))
        if own and _same(read.inputs[0], before) and uses[read] == 1 and read is not value.inputs[other]:
            passing, part = (read, value, *whole), value.shape if places else None
            negative = value.op.name == "subtract"
            return _Write("add_at", before, value.inputs[other], tuple(indices), axes, negative, passing, part, once)
    return plain


def _one_place(one: tuple[Node, ...], other: tuple[Node, ...]) -> bool:
    """Tell indices that are the same ones, or name the same places in the same order: numbers, or those laid flat."""
    if one == other or all(a is b or _is_flat(b, a, one) for a, b in zip(one, other, strict=True)):
        return True
    if any(index.op is not leaves.constant for index in (*one, *other)):
        return False
    first, second = [np.broadcast_arrays(*[i.params[0].array for i in indices]) for indices in (one, other)]
    return all(np.array_equal(a.ravel(), b.ravel()) for a, b in zip(first, second, strict=True))


def _is_flat(index: Node, of: Node, together: tuple[Node, ...]) -> bool:
    """Tell an index array that is another one, broadcast to the shape of all that it stands with and laid flat."""
    if index.op.name != "reshape" or len(index.shape) != 1:
        return False
    source = index.inputs[0]
    whole = source.shape == shapes.broadcast(*[i.shape for i in together])
    return whole and of in ((source, source.inputs[0]) if source.op.name == "broadcast_to" else (source,))


def _same(one: Node, other: Node) -> bool:
    """Tell two arrays that are one, or of one shape and filled with one number."""
    if one is other:
        return True
    numbers = []
    for node in (one, other):
        source = node
        while source.op.name == "slice":
            source = source.inputs[0]
        numbers.append(scalar(source))
    first, second = numbers
    return one.shape == other.shape and first is not None and second is not None and first.tobytes() == second.tobytes()


class _Joined:
    """The writes of a program while it is made anew; those that wait for the next one have no node yet."""

    def __init__(self, writes: dict[Node, _Write], uses: Counter[Node]) -> None:
        self.writes, self.uses = writes, uses
        self.passing = {node for write in writes.values() for node in write.passing}
        self.next: dict[Node, Node] = {}
        for node, write in writes.items():
            if write.before in writes and self._follows(write):
                self.next[write.before] = node
        self.new: dict[Node, Node] = {}
        self.waiting: dict[Node, list[_Write]] = {}

    def _follows(self, write: _Write) -> bool:
        """Tell whether a write can be joined to the one before: nothing else reads what that left."""
        before = self.writes[write.before]
        alike = (before.kind, before.axes, before.once) == (write.kind, write.axes, write.once)
        alike = alike and [i.shape for i in before.indices] == [i.shape for i in write.indices]
        return alike and self.uses[write.before] == 1 + bool(write.passing)

    def rewritten(self, graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Make a node anew; a write waits for those that follow it."""
        for old, new in zip(node.inputs, inputs, strict=True):
            self.new.setdefault(old, new)  # the program's inputs, which nobody makes anew here
        if node in self.passing:
            made = inputs[0]  # nobody reads it
        elif node in self.writes:
            write = self.writes[node]
            run = self.waiting.pop(write.before, [])
            run.append(write)
            if node in self.next:
                self.waiting[node] = run
                made = inputs[0]
            else:
                made = self.joined(graph, node, run)
        else:
            made = copied(graph, node, inputs)
        self.new[node] = made
        return made

    def joined(self, graph: Graph, node: Node, run: list[_Write]) -> Node:
        """Write all at once."""
        first = run[0]
        x = self.new[first.before]
        part = max(i.shape for i in first.indices)
        shape = gathered_shape(node.shape, part, first.axes)
        values = [self.value(graph, write, shape) for write in run]
        indices = [[self.new[w.indices[k]] for w in run] for k in range(len(first.axes))]
        params: dict[str, Any] = {"axes": first.axes}
        if first.kind == "scatter_set":
            params["unique"] = len(run) == 1 and node.param("unique") if node.op.name == "scatter_set" else False
        start = first_axis(first.axes)
        if len(run) > 1 or first.once:
            indices = [[shaped(graph, _int64(graph, i), part) for i in column] for column in indices]
        put = _lined_up if part else stacked
        whole = put(graph, values, start) if len(run) > 1 else values[0]
        places = [put(graph, column, 0) if len(run) > 1 else column[0] for column in indices]
        if first.once:
            whole = _last(graph, whole, places, [x.shape[axis] for axis in first.axes], part[0], start)
        return make(graph, first.kind, x, whole, *places, **params)

    def value(self, graph: Graph, write: _Write, shape: tuple[Any, ...]) -> Node:
        """Return what is written or added, of the place's shape."""
        value = self.new[write.value]
        value = make(graph, "negative", value) if write.negative else value
        value = value if write.part is None else shaped(graph, value, write.part)
        return value if value.shape == shape else _in_shape(graph, value, shape)


def _last(graph: Graph, values: Node, places: list[Node], extents: list[Any], each: int, start: int) -> Node:
    """Add -0.0, which changes nothing, for all but the last value of a place among `each` places that follow."""
    (count,) = places[0].shape
    groups = count // each
    again: Any = None
    for place, extent in zip(places, extents, strict=True):
        size = literal(graph, extent, INT) if type(extent) is int else make(graph, leaves.extent, dim=extent)
        behind = make(graph, "less", place, literal(graph, 0, INT))
        whole = make(graph, "where", behind, make(graph, "add", place, size), place)
        table = make(graph, "reshape", whole, shape=(groups, each))
        same = make(graph, "equal", *[make(graph, "expand_dims", table, axes=(axis,)) for axis in (2, 1)])
        again = same if again is None else make(graph, "logical_and", again, same)
    later = make(graph, "triangle", again, upper=True, k=1)
    dropped = make(graph, "reshape", make(graph, "any", later, axes=(2,)), shape=(count,))
    beside = tuple([k for k in range(len(values.shape)) if k != start])
    dropped = make(graph, "expand_dims", dropped, axes=beside) if beside else dropped
    return make(graph, "where", dropped, literal(graph, -0.0, values.dtype), values)


def _in_shape(graph: Graph, value: Node, shape: Shape) -> Node:
    """Broadcast a value to the places it is written to; what was read of them in another shape has as many elements."""
    if is_static(value.shape) and is_static(shape) and shapes.size(value.shape) == shapes.size(shape):
        return make(graph, "reshape", value, shape=shape)
    return shaped(graph, value, shape)


def _int64(graph: Graph, index: Node) -> Node:
    return index if index.dtype == INT else make(graph, "astype", index, dtype=INT)


def stacked(graph: Graph, values: Sequence[Node], axis: int) -> Node:
    """Put values of one shape along a new axis."""
    first, count = values[0], len(values)
    numbers = [scalar(v) for v in values]
    if first.shape == () and all(n is not None for n in numbers):
        params, shape, dtype = leaves.constant_args(Constant(np.array(numbers, first.dtype)))
        return graph.node(leaves.constant, (), params, shape, dtype)
    whole = _elements(values)
    if whole is not None:
        return whole
    shape = (*first.shape[:axis], count, *first.shape[axis:])
    base = shaped(graph, literal(graph, 0, first.dtype), shape)
    full = [(0, d, 1) for d in first.shape]
    indices = tuple([(*full[:axis], (k,), *full[axis:]) for k in range(count)])
    return make(graph, "assemble", base, *values, indices=indices)


def _lined_up(graph: Graph, values: Sequence[Node], axis: int) -> Node:
    """Put values of one shape one behind the other along an axis they have."""
    if all(v.op is leaves.constant for v in values):
        whole = np.concatenate([v.params[0].array for v in values], axis)
        params, shape, dtype = leaves.constant_args(Constant(whole))
        return graph.node(leaves.constant, (), params, shape, dtype)
    first, count = values[0].shape, values[0].shape[axis]
    shape = (*first[:axis], count * len(values), *first[axis + 1 :])
    full = [(0, d, 1) for d in first]
    places = [(*full[:axis], (k * count, count, 1), *full[axis + 1 :]) for k in range(len(values))]
    base = shaped(graph, literal(graph, 0, values[0].dtype), shape)
    return make(graph, "assemble", base, *values, indices=tuple(places))


def _elements(values: Sequence[Node]) -> Node | None:
    """Return the vector that values are all elements of, in order."""
    if any(v.op.name != "slice" for v in values):
        return None
    source = values[0].inputs[0]
    in_order = all(v.inputs[0] is source and v.params[0] == ((k,),) for k, v in enumerate(values))
    return source if in_order and source.shape == (len(values),) else None

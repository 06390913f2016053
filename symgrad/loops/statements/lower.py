"""`lower`: every node that is not a pure view becomes statements in index notation; views become indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from weakref import proxy

import numpy as np

from symgrad.errors import ArgumentError, Derived, Line
from symgrad.ir.index.notation import (
    SURE,
    Access,
    Apply,
    Axis,
    Body,
    How,
    IndexValue,
    Lookup,
    Number,
    Role,
    Statement,
    Value,
    as_index,
    axes_of,
    mapped,
    parts,
    substitute,
)
from symgrad.ir.index.shapes import Dim, simplified
from symgrad.ir.names import identifier
from symgrad.ir.node import Node
from symgrad.ir.op import Elementwise, Result
from symgrad.ir.program import Program
from symgrad.loops.held import COUNTS, Again, Counter, HeldBranch, Repeat, stand_for
from symgrad.loops.machine import SPREAD_BYTES
from symgrad.loops.program import Array, Check, Kind, LoopProgram
from symgrad.loops.statements.segments import by_segment, has_own_sums, segment_sum
from symgrad.ops.arrays.views import broadcast_index
from symgrad.ops.control import call, cond, scan, while_
from symgrad.ops.control import counted as counted_
from symgrad.ops.declare import leaves
from symgrad.ops.numpy.creation import arange

EVEN = 1 << 31
"""Integers up to this size are counted where they are evenly spaced."""

_DEFINED = re.compile(r"\b\w+[\s*]+([A-Za-z_]\w*)\s*\([^(){};]*\)\s*\{")


class Element(NamedTuple):
    """How a node's element at some indices is read: ``array[indices]`` with `axes` in the place of the indices.

    Without an array it is `literal`: the same number everywhere, or (with axes) a number that is counted, which is
    no less than the first of `limits` and no more than the second.
    """

    array: Array | None
    axes: tuple[Axis, ...]
    indices: tuple[Any, ...]
    flat: bool
    literal: Any = None
    limits: tuple[Any, Any] | None = None

    def at(self, indices: tuple[Any, ...]) -> Value:
        """Read the element at these indices."""
        if self.array is None and not self.axes:
            return self.literal  # type: ignore[no-any-return]
        by = dict(zip(self.axes, indices, strict=True))
        if self.array is None:
            return IndexValue(substitute(self.literal.index, by), self.literal.dtype)
        return Access(self.array, tuple([substitute(i, by) for i in self.indices]), self.flat)


def lower(program: Program) -> LoopProgram:
    """Lower a program (without composites) to statements over arrays.

    Returns:
        Statements in program order; each output has an array of its own.
    """
    texts: dict[str, str] = {}  # of `extern`
    for node in program.nodes():
        if not isinstance(node.op, Elementwise) or not node.op.source:
            continue
        for name in set(_DEFINED.findall(node.op.source)) - {"if"}:  # as in `else if (...) {`
            if texts.setdefault(name, node.op.source) != node.op.source:
                raise ArgumentError(
                    f"two different C texts define {name}(), and {program.name}() calls both", line=node.line,
                    instead="another name in one of them, in its text and for sg.extern",
                )
    return _Lowering(program).run()


@dataclass(slots=True)
class _Binding:
    """What an op's body means where it stands: what is read and written of its operands, and indices of that."""

    lowering: _Lowering
    node: Node
    arrays: dict[int, Array]
    inside: bool = False  # indices are checked where they are used

    def read(self, a: Access) -> Any:
        if a.array < 0:
            return self.at(a)
        indices = tuple([self.index(i) for i in a.indices])
        return self.lowering.read(self.node.inputs[a.array], indices, a.flat)

    def at(self, a: Access) -> Access:
        return Access(self.arrays[a.array], tuple([self.index(i) for i in a.indices]), a.flat)

    def index(self, i: Any) -> Any:
        return self.lowering.place(self.node, i, self.read, inside=self.inside) if isinstance(i, Lookup) else i


class _Sources(dict[Node, Element]):
    """What stands where; numbers of segments stand nowhere until somebody asks."""

    def __init__(self, lowering: _Lowering) -> None:
        self.lowering = proxy(lowering)  # which holds this: both are freed at once

    def __missing__(self, node: Node) -> Element:
        self[node] = self.lowering.lowered(node)
        return self[node]


class _Lowering:
    """The state of one lowering: where each node's value stands, and the statements so far."""

    def __init__(self, program: Program, around: _Lowering | None = None) -> None:
        self.program = program
        self.sources: dict[Node, Element] = _Sources(self)
        self.statements: list[Statement] = []
        self.arrays: list[Array] = []
        self.checks: list[Check] = [] if around is None else around.checks
        self.places: dict[tuple[Node, Any], Array] = {}
        self.names: set[str] = set() if around is None else around.names
        self.several: dict[Node, list[Element]] = {}
        self.stands: dict[tuple[Array, bool], Array] = {}  # of arrays around this program, or of rows of them
        self.labels: Sequence[str] = program.labels  # names of outputs; one that is empty has none
        self.results: frozenset[str] = frozenset(program.labels) if around is None else around.results
        self.counts: set[Node] = set()  # next values of what counts a loop's steps
        self.before: int = 0 if around is None else around.before + len(around.arrays)

    def run(self) -> LoopProgram:
        inputs = []
        for node in self.program.inputs:
            name, axes = node.param("name"), axes_of(node.shape)
            step = -1 if name in self.program.fortran else 1  # where an array lies column by column
            inputs.append(self.array(name, node, Kind.INPUT, node.shape[::step]))
            self.sources[node] = Element(inputs[-1], axes, axes[::step], flat=False)
        outputs, done = self.body()
        return LoopProgram(
            self.program.name, tuple(inputs), outputs, tuple(self.arrays), done, tuple(self.checks),
            rules=self.program.rules, requirements=self.program.requirements, again=self.program.again,
            donated=tuple([(inputs[k], outputs[place]) for k, place in self.program.donated]),
        )

    def body(self) -> tuple[tuple[Array, ...], tuple[Statement, ...]]:
        """Lower all nodes; return the outputs and the statements."""
        self.nodes()
        outputs = tuple([self.stored(node, k) for k, node in enumerate(self.program.outputs) if not node.op.decides])
        return outputs, tuple([without_ones(s) for s in self.statements if all(axis.extent != 0 for axis in s.axes)])

    def nodes(self) -> None:
        """Lower all nodes."""
        for node in self.program.nodes():
            if isinstance(node.op, Result):
                self.sources[node] = self.several[node.inputs[0]][node.param("number")]
            elif node.op in self.lowers:
                self.several[node] = self.lowers[node.op](self, node)
            elif node not in self.sources and node.op.segments is None:
                self.sources[node] = self.lowered(node)

    def repeated(self, node: Node) -> list[Element]:
        """Lower a scan: its body is a program of its own, which the loop's statements stand for."""
        program, length, fixed, carried, reverse = node.params[:5]
        inputs, count = node.inputs, None
        if node.op is counted_:
            inputs, steps = inputs[1:], self.sources[inputs[0]]
            total = self.copied(node.inputs[0], steps) if steps.array is None or steps.indices else steps.array
            count = Counter(total, length, reverse)
        axis = Axis("t", 1 if length is None else length)
        inside = _Lowering(program, self)
        states, rows = [], set()
        for k, (own, read) in enumerate(zip(program.inputs, inputs, strict=True)):
            source = self.sources[read]
            if k < fixed:
                inside.reading(own, source)
            elif k < fixed + carried:
                after = program.outputs[k - fixed]
                states.append(self.carried(own, read, node.line, after))
                inside.reading(own, _all_of(states[-1]))
                inside.counts |= {after} if counts_steps(own, read, after, length) else set()
            elif source.array is None and not count:
                index = substitute(source.literal.index, {source.axes[0]: axis}) if source.axes else None
                literal = source.literal if index is None else IndexValue(index, read.dtype)
                inside.sources[own] = source._replace(axes=source.axes[1:], literal=literal)
            else:
                array: Any = source.array
                alike = array is not None and array.shape[1:] == read.shape[1:]  # it may have more rows
                if not alike or source.flat or source.indices != source.axes:
                    array = self.copied(read, source)
                rows.add(inside.stand_in(array, own.shape, row=True))
                inside.sources[own] = _all_of(inside.stand_in(array, own.shape, row=True))
        stands = [inside.stands[state, False] for state in states]
        one, inplace = updated(inside.held(self, program.inputs[fixed : fixed + carried]), stands)
        repeat = Repeat(
            (one,), (tuple(range(len(one.inputs))),), axis, reverse, frozenset([*rows, *one.outputs[carried:]]),
            tuple(stands), inplace, count,
        )
        stacked = [self.temporary((length, *y.shape), y.dtype, y.line) for y in program.outputs[carried:]]
        if length != 0:
            reads = [*[array for array, _ in inside.stands], *([count.total] if count else [])]
            self.statements += stand_for(repeat, reads, [*states, *stacked], node.line)
        return [_all_of(array) for array in (*states, *stacked)]

    def again(self, node: Node) -> list[Element]:
        """Lower a loop that goes on while a condition holds: that is a program of its own as well."""
        fixed, most, _ = node.params[2:]
        body = node.params[1]
        carried = [*zip(body.inputs[fixed:], node.inputs[fixed:], body.outputs, strict=False)]
        states = [self.carried(own, read, node.line, after) for own, read, after in carried]
        sources = [*[self.sources[read] for read in node.inputs[:fixed]], *map(_all_of, states)]
        reads: dict[Array, int] = {}
        programs, places = [], []
        for program in node.params[:2]:
            inside = _Lowering(program, self)
            for own, source in zip(program.inputs, sources, strict=True):
                inside.reading(own, source)
            stands = [inside.stands[state, False] for state in states]
            inside.counts = {after for own, read, after in carried if counts_steps(own, read, after, most)}
            programs.append(inside.held(self, program.inputs[fixed:] if program is body else ()))
            places.append(tuple([reads.setdefault(array, len(reads)) for array, _ in inside.stands]))
        programs[1], inplace = updated(programs[1], stands)
        loop = Again(tuple(programs), tuple(places), tuple(stands), inplace, most)
        count = self.temporary((), np.dtype(np.int64), Line("", 0, "steps = ..."))
        stacked = [self.temporary((most, *y.shape), y.dtype, y.line) for y in body.outputs[len(states) :]]
        made = [count, *states, *stacked]
        self.statements += stand_for(loop, [*reads], made, node.line)
        return [*map(_all_of, made)]

    def called(self, node: Node) -> list[Element]:
        """Lower a program where it stands."""
        (program,) = node.params
        inside = _Lowering(program, self)
        inside.before, inside.arrays, inside.statements = self.before, self.arrays, self.statements
        inside.sources = {own: self.sources[read] for own, read in zip(program.inputs, node.inputs, strict=True)}
        inside.nodes()
        return [inside.sources[y] for y in program.outputs]

    def branched(self, node: Node) -> list[Element]:
        """Lower a branch: each side is a program of its own."""
        test, *operands = node.inputs
        reads = {self.copied(test, self.sources[test]): 0}
        programs, places = [], []
        for program in node.params:
            inside = _Lowering(program, self)
            for own, read in zip(program.inputs, operands, strict=True):
                inside.reading(own, self.sources[read])
            programs.append(inside.held(self))
            places.append(tuple([reads.setdefault(array, len(reads)) for array, _ in inside.stands]))
        made = [self.temporary(y.shape, y.dtype, y.line) for y in node.params[0].outputs]
        branch = HeldBranch(tuple(programs), tuple(places), 0)
        self.statements += stand_for(branch, [*reads], made, node.line)
        return [_all_of(array) for array in made]

    def reading(self, own: Node, source: Element) -> None:
        """Let an input of a program that is held be a value around it."""
        stands = None if source.array is None else self.stand_in(source.array, source.array.shape)
        self.sources[own] = source._replace(array=stands)

    def stand_in(self, array: Array, shape: Any, *, row: bool = False) -> Array:
        """Return what stands for an array, or a row of it, in a program that is held."""
        if (array, row) not in self.stands:
            name = identifier(array.name, self.names)
            self.names.add(name)
            self.stands[array, row] = Array(name, shape, array.dtype, Kind.INPUT, array.line)
        return self.stands[array, row]

    def held(self, around: _Lowering, states: Sequence[Node] = ()) -> LoopProgram:
        """Lower a program that is held, whose first outputs are the next values of some inputs."""
        names = [state.param("name") for state in states]
        self.labels = [f"next{self.before + k}" if is_made(x) else f"{x}_next" for k, x in enumerate(names)]
        self.labels += [""] * (len(self.program.outputs) - len(states))
        outputs, done = self.body()
        around.before += len(self.arrays)
        inputs = tuple(self.stands.values())
        return LoopProgram(self.program.name, inputs, outputs, (*inputs, *self.arrays), done)

    def array(
        self, name: str, node: Any, kind: Kind, shape: Any = None, data: Any = None, path: str = "",
    ) -> Array:
        name = identifier(name, self.names) if name in self.names else name
        self.names.add(name)
        shape = node.shape if shape is None else shape
        self.arrays.append(Array(name, shape, node.dtype, kind, node.line, data, path))
        return self.arrays[-1]

    def temporary(self, shape: Any, dtype: Any, line: Line | None, name: str = "t") -> Array:
        self.arrays.append(Array(f"{name}{self.before + len(self.arrays)}", shape, dtype, Kind.TEMPORARY, line))
        return self.arrays[-1]

    def lowered(self, node: Node) -> Element:
        op = node.op
        if node.is_constant:
            return self.constant(node)
        if op is leaves.extent:
            return Element(None, (), (), flat=False, literal=IndexValue(node.params[0], node.dtype))
        if op is arange and node.inputs[0].is_constant:  # it is counted from a known start: no array is needed
            (axis,) = axes = axes_of(node.shape)
            start, step = int(node.inputs[0].params[0].array), node.param("step")
            ends = (start, start + step * (node.shape[0] - 1))
            limits = ends if step >= 0 else ends[::-1]
            counted = IndexValue(axis * step + start, node.dtype)
            return Element(None, axes, (), flat=False, literal=counted, limits=limits)
        if isinstance(op, Elementwise):
            axes = axes_of(node.shape)
            target = self.temporary(node.shape, node.dtype, node.line)
            args = tuple([self.sources[i].at(tuple(broadcast_index(i.shape, node.shape, axes))) for i in node.inputs])
            kind = node.inputs[-1].dtype
            op = COUNTS[op.numpy] if node in self.counts else op
            value = Apply(op, args, node.dtype, kind, node.params)
            self.statements.append(Statement(Access(target, axes), How.SET, value, axes, node.line))
            return _all_of(target)
        body = op.body(node)  # type: ignore[attr-defined]  # what is neither leaf nor elementwise is structured here
        if op.view:
            return self.view(node, body)
        arrays = {-1: self.temporary(node.shape, node.dtype, node.line)}
        arrays |= {-2 - k: self.temporary(one.shape, one.dtype, node.line) for k, one in enumerate(body.temporaries)}
        for statement in body.statements:
            segment = by_segment(statement, node)
            if segment is None:
                self.statements.append(self.bound(statement, node, arrays))
            else:
                self.in_segments(*segment, node, arrays)
        found = _all_of(arrays[-1])
        return found if op.limits is None else found._replace(limits=op.limits(node))

    def constant(self, node: Node) -> Element:
        data = node.params[0].array
        if data.ndim == 0:
            return Element(None, (), (), flat=False, literal=Number(data.item(), node.dtype))
        steps = evenly_spaced(data)
        limits = (int(data.min()), int(data.max())) if data.size and data.dtype.kind in "iu" else None
        if steps is not None:
            axes = axes_of(node.shape)
            index = sum([axis * step for axis, step in zip(axes, steps, strict=True) if step], int(data.flat[0]))
            return Element(None, axes, (), flat=False, literal=IndexValue(as_index(index), node.dtype), limits=limits)
        number, value = sum(a.kind is Kind.CONSTANT for a in self.arrays), node.params[0]
        name = value.name or f"c{number}"
        name = identifier(name, self.names | self.results) if name in self.results else name
        return _all_of(self.array(name, node, Kind.CONSTANT, data=data, path=value.path))._replace(limits=limits)

    def view(self, node: Node, body: Body) -> Element:
        statement = body.statements[0]
        axes = statement.axes
        read: Any = statement.value  # a view's value is an access
        inner = self.sources[node.inputs[0]]
        if inner.array is None and not inner.axes:
            return inner
        if not read.flat and inner.array is None:
            return Element(None, axes, (), flat=False, literal=inner.at(read.indices), limits=inner.limits)
        if not read.flat:
            found: Any = inner.at(read.indices)
            return Element(inner.array, axes, found.indices, inner.flat, limits=inner.limits)
        begin = _begin(inner)
        if begin is None:
            begin, inner = 0, _all_of(self.copied(node.inputs[0], inner))
        return Element(inner.array, axes, (_counted_from(begin, read.indices[0]),), flat=True, limits=inner.limits)

    def carried(self, own: Node, read: Node, line: Line | None, after: Node) -> Array:
        """Make an array for what a loop carries; it has the name of the variable."""
        name = own.param("name")
        named = Derived.of(line or Line("", 0, ""), Line("", 0, f"{name} = ..."))
        named.suffix = ""
        return self.copied(read, self.sources[read], after.line if is_made(name) else named)

    def copied(self, node: Node, source: Element, line: Line | None = None) -> Array:
        target = self.temporary(node.shape, node.dtype, line or node.line)
        axes = axes_of(node.shape)
        self.statements.append(Statement(Access(target, axes), How.SET, source.at(axes), axes, node.line))
        return target

    def in_segments(
        self, statement: Statement, element: Axis, segment: Axis, bounds: Node, node: Node, arrays: dict[int, Array],
    ) -> None:
        """Lower a sum over elements in segments, whose indices are checked inside of its loops."""
        s = without_ones(self.bound(statement, node, arrays, inside=True))
        count = simplified(element.extent + 1)
        if not isinstance(self.sources[bounds].at((segment,)), Access):
            self.sources[bounds] = _all_of(self.copied(bounds, self.sources[bounds]))
        self.checks.append(Check(len(self.checks) + 1, count, node.line))
        begin, end = [Lookup(self.sources[bounds].at((segment + k,)), count, len(self.checks)) for k in range(2)]
        array, indices = s.target.array, s.target.indices
        begun = has_own_sums(s, element, segment) and array.shape[indices.index(segment)] == segment.extent
        if begun and self.statements[-1].target.array is array:
            self.statements.pop()  # a body begins its sums with zeros
        held = segment_sum(s, element, segment, (begin, end), begun=begun)
        self.statements += stand_for(held, held.given, [held.target], node.line)

    def bound(
        self, statement: Statement, node: Node, arrays: dict[int, Array], *, inside: bool = False,
    ) -> Statement:
        here = _Binding(self, node, arrays, inside)
        if statement.routine is not None and (read := statement.value.array) >= 0:  # type: ignore[union-attr]  # an access
            operand = node.inputs[read]  # it stands in an array, its elements at even distances along each axis
            source = self.sources[operand]
            if source.array is None or source.flat or any(type(p) is Lookup for i in source.indices for p in parts(i)):
                self.sources[operand] = _all_of(self.copied(operand, source))
        if statement.how == How.CHECK:
            self.checks.append(Check(len(self.checks) + 1, 0, node.line, statement.failure))
            statement = statement.with_(check=len(self.checks))
        prefix, target = frozenset([arrays[k] for k in statement.prefix]), here.at(statement.target)
        return statement.with_(target=target, value=mapped(statement.value, here.read, here.index), prefix=prefix)

    def place(self, node: Node, lookup: Lookup, found: Callable[[Access], Any], *, inside: bool = False) -> Any:
        """Bind an index that is looked up; what is counted and certain to lie on the axis is no lookup."""
        read = found(lookup.access)
        if isinstance(read, Number):  # one known place; it was checked while tracing
            known = int(read.value)
            return known if known >= 0 else lookup.extent + known
        if isinstance(read, IndexValue):
            numbers = node.inputs[lookup.access.array]
            if surely_within(self.sources[numbers].limits, lookup.extent):
                return read.index
            self.sources[numbers] = _all_of(self.copied(numbers, self.sources[numbers]))
            read = found(lookup.access)
        if lookup.check == SURE:
            return lookup.by(read)
        key = numbers, extent = node.inputs[lookup.access.array], lookup.extent
        if surely_within(self.sources[numbers].limits, extent):
            return Lookup(read, extent, SURE)
        source = self.sources[numbers].array
        if source is not None and source.kind is Kind.CONSTANT and type(extent) is int:
            return Lookup(read, extent, 0)  # constants were checked while tracing
        if inside:
            self.checks.append(Check(len(self.checks) + 1, extent, node.line))
            return Lookup(read, extent, len(self.checks))
        if key not in self.places:
            self.places[key] = self.checked_places(node, numbers, extent)
        return Lookup(lookup.access.of(self.places[key]), extent, SURE)

    def read(self, node: Node, indices: tuple[Any, ...], flat: bool) -> Value:
        """Read a node's element, by one flat index where that is asked for."""
        source = self.sources[node]
        if flat and (source.array is not None or source.axes):
            begin = _begin(source)
            if begin is None:
                begin, source = 0, _all_of(self.copied(node, source))
                self.sources[node] = source
            return Access(source.array, (_counted_from(begin, indices[0]),), flat=True)
        return source.at(indices)

    def checked_places(self, node: Node, numbers: Node, extent: Any) -> Array:
        """Check integers, once for all that is looked up by them, and count negative ones from the end.

        What uses them then has neither checks nor exits, so that it runs as lanes.
        """
        self.checks.append(Check(len(self.checks) + 1, extent, node.line))
        target = self.temporary(numbers.shape, np.dtype(np.int64), node.line, "n")
        axes = axes_of(numbers.shape)
        index = Lookup(self.sources[numbers].at(axes), extent, len(self.checks))
        value = IndexValue(index, target.dtype)
        self.statements.append(Statement(Access(target, axes), How.SET, value, axes, node.line, Role.PLACES))
        return target

    def stored(self, node: Node, position: int) -> Array:
        """Copy an output into an array of its own; storage planning makes them one where it can."""
        label = self.labels[position] if self.labels else f"out{position}"
        target = self.array(label or f"t{self.before + len(self.arrays)}", node, Kind.OUTPUT)
        axes = axes_of(node.shape)
        value = self.sources[node].at(axes)
        near = SPREAD_BYTES[0] <= target.elements * target.dtype.itemsize <= SPREAD_BYTES[1]
        all_of_it = position in self.program.spread and isinstance(node.op, Elementwise)
        role = Role.SPREAD if near and all_of_it else Role.VALUE
        self.statements.append(Statement(Access(target, axes), How.SET, value, axes, node.line, role))
        return target


    lowers: ClassVar = {scan: repeated, counted_: repeated, cond: branched, while_: again, call: called}


def is_made(name: str) -> bool:
    """Whether a name is none of the user's: that of a value which a loop carries that was found."""
    return re.fullmatch(r"[a-z]\d+_?", name) is not None


def counts_steps(x: Node, begin: Node, after: Node, most: Dim | None) -> bool:
    """Whether what a loop carries counts its steps from a number on, by a number, so that it cannot overflow.

    A loop without a bound has fewer steps than 64 bits count one by one.
    """
    if after.op.numpy not in COUNTS or after.shape or after.dtype != np.int64 or x not in after.inputs:
        return False
    by = after.inputs[after.inputs[0] is x]
    if not (begin.is_constant and by.is_constant) or (after.op.numpy is np.subtract and after.inputs[0] is not x):
        return False
    first, pace = [abs(int(node.params[0].array)) for node in (begin, by)]
    return first + pace * (most + 1) < 1 << 63 if type(most) is int else first < 1 << 32 and pace == 1


def evenly_spaced(data: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """Return by how much integers grow along each axis, where that is even: ``np.arange(n)[:, None]`` is counted.

    >>> evenly_spaced(np.arange(12).reshape(3, 4)), evenly_spaced(np.array([0, 1, 3])), evenly_spaced(np.zeros(3, int))
    ((4, 1), None, None)
    """
    if data.dtype.kind != "i" or data.size < 2 or max(-int(data.min()), int(data.max())) > EVEN:
        return None
    first = int(data.flat[0])
    ones = [tuple([int(k == d) for k in range(data.ndim)]) for d in range(data.ndim)]
    steps = tuple([int(data[one]) - first if dim > 1 else 0 for one, dim in zip(ones, data.shape, strict=True)])
    walked = [np.arange(dim).reshape(-1, *[1] * (data.ndim - d - 1)) * s
              for d, (dim, s) in enumerate(zip(data.shape, steps, strict=True))]
    return steps if any(steps) and np.array_equal(sum(walked, first) + np.zeros_like(data), data) else None


def surely_within(limits: tuple[Any, Any] | None, extent: Any) -> bool:
    """Whether an index is certain to lie on an axis."""
    if limits is None:
        return False
    least, space = limits[0], extent - 1 - limits[1]
    return all(d >= 0 if type(d) is int else bool(d.is_nonnegative) for d in (least, space))


def updated(program: LoopProgram, states: Sequence[Array]) -> tuple[LoopProgram, frozenset[Array]]:
    """Let next values that are copies of what is carried, with some elements changed, be without the copies.

    Returns:
        The program of a step, and those of its outputs.
    """
    writers: dict[Array, list[Statement]] = {}
    readers: dict[Array, int] = {}
    for s in program.statements:
        writers.setdefault(s.target.array, []).append(s)
        for array in {a.array for a in s.touched} - {s.target.array}:
            readers[array] = readers.get(array, 0) + 1
    copies: set[Statement] = set()
    named: dict[Array, Array] = {}
    changed: list[Array] = []
    for state, output in zip(states, program.outputs, strict=False):
        chain = [output]
        while chain[-1] is not state and chain[-1] in writers and _is_copy(writers[chain[-1]][0]):
            source: Any = writers[chain[-1]][0].value.array  # type: ignore[union-attr]  # it is one
            if source is not state and (readers[source] > 1 or not source.is_temporary):
                break
            chain.append(source)
        if chain[-1] is state and any(len(writers[array]) > 1 for array in chain[:-1]):
            changed.append(output)
            copies.update([writers[array][0] for array in chain[:-1]])
            named.update(dict.fromkeys(chain[1:-1], output))
    body = tuple([s for s in program.statements if s not in copies])
    arrays = tuple([array for array in program.arrays if array not in named])
    made = program.with_(arrays=arrays).with_body(body).renamed(named) if changed else program
    return made, frozenset(changed)


def _is_copy(s: Statement) -> bool:
    """Whether a statement copies all of an array to another one."""
    value = s.value
    if not isinstance(value, Access) or s.how != How.SET or s.target.flat or value.flat or s.ranges:
        return False
    return s.target.indices == s.axes and value.indices == s.axes and value.array.shape == s.target.array.shape


def without_ones(statement: Statement) -> Statement:
    """Put 0 in the place of axes with one iteration."""
    ones: dict[Axis, Any] = {axis: 0 for axis in statement.axes if type(axis.extent) is int and axis.extent == 1}
    return statement.at(ones) if ones else statement


def _all_of(array: Array) -> Element:
    axes = axes_of(array.shape)
    return Element(array, axes, axes, flat=False)


def _begin(source: Element) -> Any | None:
    """Return at which element of its array a source begins whose elements stand one after the other; None for others.

    That is an array as it stands, or places next to each other of its first axis, or of one further in.
    """
    if source.array is None or source.flat:
        return None
    begin: Any = 0
    size: Any = 1
    walk = list(source.axes)
    whole = True
    for index, dim in zip(reversed(source.indices), reversed(source.array.shape), strict=True):
        found = parts(index)
        if found and not (whole and found == walk[-1:]):
            return None
        first: Any = 0 if index is (found and walk.pop()) else index - (found[0] if found else 0)
        if parts(as_index(first)):
            return None
        whole = bool(found) and whole and found[0].extent == dim
        begin, size = begin + first * size, size * dim
    return None if walk else as_index(begin)


def _counted_from(begin: Any, index: Any) -> Any:
    return index if type(begin) is int and begin == 0 else as_index(index + begin)


"""`lower`: every node that is not a pure view becomes statements in index notation; views become indices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir import shapes
from symgrad.ir.names import identifier
from symgrad.ir.notation import Access, Apply, IndexValue, Lookup, Number, Statement, axes_of, parts, substitute
from symgrad.ir.op import Elementwise
from symgrad.loops.program import Array, Check, Lowered

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Node
    from symgrad.ir.notation import Axis, Body, Value
    from symgrad.ir.program import Program

SMALL = 1 << 10
"""Array constants up to so many bytes are text in the C; larger ones are data passed to it."""


class Source(NamedTuple):
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


def lower(program: Program) -> Lowered:
    """Lower a program (without composites) to statements over arrays.

    Returns:
        Statements in program order; each output has an array of its own.
    """
    return _Lowering(program).run()


class _Lowering:
    """The state of one lowering: where each node's value stands, and the statements so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sources: dict[Node, Source] = {}
        self.statements: list[Statement] = []
        self.arrays: list[Array] = []
        self.checks: list[Check] = []
        self.names: set[str] = set()

    def run(self) -> Lowered:
        """Lower every node, then store every output."""
        inputs = [self.array(node.param("name"), node, "input") for node in self.program.inputs]
        for node, array in zip(self.program.inputs, inputs, strict=True):
            self.sources[node] = _whole(array)
            if node.param("name") in self.program.fortran:
                array.shape = array.shape[::-1]
                self.sources[node] = _columns(array)
        for node in self.program.nodes():
            if node not in self.sources:
                self.sources[node] = self.lowered(node)
        outputs = [self.stored(node, k) for k, node in enumerate(self.program.outputs)]
        return Lowered(
            self.program.name, inputs, outputs, self.arrays, [without_ones(s) for s in self.statements], self.checks,
            self.program.requirements,
        )

    def array(self, name: str, node: Any, kind: str, shape: Any = None) -> Array:
        """Make an array with a name of its own."""
        if kind == "temporary":
            name = f"{name}{len(self.arrays)}"
        else:
            name = identifier(name, self.names) if name in self.names else name
            self.names.add(name)
        made = Array(name, node.shape if shape is None else shape, node.dtype, kind, getattr(node, "line", None))
        self.arrays.append(made)
        return made

    def lowered(self, node: Node) -> Source:
        """Lower one node."""
        op = node.op
        if op.name == "constant":
            return self.constant(node)
        if op.name == "extent":
            return Source(None, (), (), flat=False, literal=IndexValue(node.params[0], node.dtype))
        if op.name == "arange" and node.inputs[0].op.name == "constant":
            return counted(node)
        if isinstance(op, Elementwise):
            axes = axes_of(node.shape)
            target = self.array("t", node, "temporary")
            args = tuple([self.sources[i].at(aligned(i, node.shape, axes)) for i in node.inputs])
            kind = node.inputs[-1].dtype
            value = Apply(op, args, node.dtype, kind, node.params)
            self.statements.append(Statement(Access(target, axes), "=", value, axes, node.line))
            return _whole(target)
        body = op.body(node)  # type: ignore[attr-defined]  # what is neither leaf nor elementwise is structured here
        if getattr(op, "view", False):
            return self.view(node, body)
        return self.instantiated(node, body)

    def constant(self, node: Node) -> Source:
        """Lower a constant: a literal when it is a scalar, data otherwise."""
        data = node.params[0].array
        if data.ndim == 0:
            return Source(None, (), (), flat=False, literal=Number(data.item(), node.dtype))
        made = self.array(f"c{sum(a.kind == 'constant' for a in self.arrays)}", node, "constant")
        made.data = data
        return _whole(made)

    def view(self, node: Node, body: Body) -> Source:
        """Compose a view with what it views."""
        statement = body.statements[0]
        axes = statement.axes
        read: Any = statement.value  # a view's value is an access
        inner = self.sources[node.inputs[0]]
        if inner.array is None and not inner.axes:
            return inner
        if not read.flat and inner.array is None:
            return Source(None, axes, (), flat=False, literal=inner.at(read.indices), limits=inner.limits)
        if not read.flat:
            found: Any = inner.at(read.indices)
            return Source(inner.array, axes, found.indices, inner.flat)
        if not _is_whole(inner):
            inner = _whole(self.copied(node.inputs[0], inner))
        return Source(inner.array, axes, read.indices, flat=True)

    def copied(self, node: Node, source: Source) -> Array:
        """Write a value that is only a view into an array of its own."""
        target = self.array("t", node, "temporary")
        axes = axes_of(node.shape)
        self.statements.append(Statement(Access(target, axes), "=", source.at(axes), axes, node.line))
        return target

    def instantiated(self, node: Node, body: Body) -> Source:
        """Put arrays in the place of a body's numbers."""
        arrays = {-1: self.array("t", node, "temporary")}
        for k, temporary in enumerate(body.temporaries):
            made = self.array("t", temporary, "temporary")
            made.line = node.line
            arrays[-2 - k] = made
        for statement in body.statements:
            self.statements.append(self.bound(statement, node, arrays))
        return _whole(arrays[-1])

    def bound(self, statement: Statement, node: Node, arrays: dict[int, Array]) -> Statement:
        """Bind one statement's operands."""

        def value(v: Any) -> Any:
            if isinstance(v, Access):
                indices = tuple([index(i) for i in v.indices])
                if v.array < 0:
                    return Access(arrays[v.array], indices, v.flat)
                return self.read(node.inputs[v.array], indices, v.flat)
            if isinstance(v, Apply):
                return replace(v, args=tuple([value(a) for a in v.args]))
            if isinstance(v, IndexValue):
                return IndexValue(index(v.index), v.dtype)
            return v

        def index(i: Any) -> Any:
            return self.place(node, i, value) if isinstance(i, Lookup) else i

        if statement.routine is not None:
            self.strided(node, statement.value)
        if statement.how == "check":
            self.checks.append(Check(len(self.checks) + 1, -1, 0, node.line, statement.note))
            statement = replace(statement, check=len(self.checks))
        target = Access(arrays[statement.target.array], tuple([index(i) for i in statement.target.indices]))
        prefix = frozenset([arrays[k] for k in statement.prefix])
        return replace(statement, target=target, value=value(statement.value), prefix=prefix)

    def place(self, node: Node, lookup: Lookup, value: Callable[[Any], Any]) -> Any:
        """Bind an index that is looked up; what is counted and certain to lie on the axis is no lookup."""
        read = value(lookup.access)
        if isinstance(read, Number):  # one known place; it was checked while tracing
            known = int(read.value)
            return known if known >= 0 else lookup.extent + known
        if isinstance(read, IndexValue):
            numbers = node.inputs[lookup.access.array]
            if within(self.sources[numbers].limits, lookup.extent):
                return read.index
            self.sources[numbers] = _whole(self.copied(numbers, self.sources[numbers]))
            read = value(lookup.access)
        return Lookup(read, lookup.extent, self.check(node, lookup))

    def read(self, node: Node, indices: tuple[Any, ...], flat: bool) -> Value:
        """Read a node's element, by one flat index where that is asked for."""
        source = self.sources[node]
        if flat and (source.array is not None or source.axes):
            if not _is_whole(source):
                source = self.sources[node] = _whole(self.copied(node, source))
            return Access(source.array, indices, flat=True)
        return source.at(indices)

    def strided(self, node: Node, read: Any) -> None:
        """See that an operand stands in an array, its elements at even distances along each axis."""
        if read.array >= 0:
            operand = node.inputs[read.array]
            source = self.sources[operand]
            if source.array is None or source.flat or any(type(p) is Lookup for i in source.indices for p in parts(i)):
                self.sources[operand] = _whole(self.copied(operand, source))

    def check(self, node: Node, lookup: Lookup) -> int:
        """Number a runtime check; constant indices were checked while tracing (0: no check)."""
        source = self.sources[node.inputs[lookup.access.array]]
        if source.array is not None and source.array.kind == "constant" and type(lookup.extent) is int:
            return 0
        self.checks.append(Check(len(self.checks) + 1, -1, lookup.extent, node.line))
        return len(self.checks)

    def stored(self, node: Node, position: int) -> Array:
        """Copy an output into an array of its own; storage planning makes them one where it can."""
        labels = self.program.labels
        target = self.array(labels[position] if labels else f"out{position}", node, "output")
        axes = axes_of(node.shape)
        value = self.sources[node].at(axes)
        self.statements.append(Statement(Access(target, axes), "=", value, axes, node.line))
        return target


def counted(node: Node) -> Source:
    """Count from a known start: no array is needed."""
    (axis,) = axes = axes_of(node.shape)
    start, step = int(node.inputs[0].params[0].array), node.param("step")
    ends = (start, start + step * (node.shape[0] - 1))
    limits = ends if step >= 0 else ends[::-1]
    return Source(None, axes, (), flat=False, literal=IndexValue(axis * step + start, node.dtype), limits=limits)


def within(limits: tuple[Any, Any] | None, extent: Any) -> bool:
    """Tell whether an index is certain to lie on an axis."""
    if limits is None:
        return False
    least, space = limits[0], extent - 1 - limits[1]
    return all(d >= 0 if type(d) is int else bool(d.is_nonnegative) for d in (least, space))


def without_ones(statement: Statement) -> Statement:
    """Put 0 in the place of axes with one iteration."""
    ones: dict[Axis, Any] = {axis: 0 for axis in statement.axes if type(axis.extent) is int and axis.extent == 1}
    if not ones:
        return statement

    def value(v: Any) -> Any:
        if isinstance(v, Access):
            return v.at(ones)
        if isinstance(v, Apply):
            return replace(v, args=tuple([value(a) for a in v.args]))
        return IndexValue(substitute(v.index, ones), v.dtype) if isinstance(v, IndexValue) else v

    return replace(
        statement, target=statement.target.at(ones), value=value(statement.value),
        axes=tuple([axis for axis in statement.axes if axis not in ones]),
    )


def _whole(array: Array) -> Source:
    axes = axes_of(array.shape)
    return Source(array, axes, axes, flat=False)


def _columns(array: Array) -> Source:
    """Read an array that lies column by column."""
    axes = axes_of(array.shape[::-1])
    return Source(array, axes, axes[::-1], flat=False)


def _is_whole(source: Source) -> bool:
    """Tell an array read as it stands; a slice from the first element on has other extents."""
    if source.array is None or source.flat or source.axes != source.indices:
        return False
    return tuple([axis.extent for axis in source.axes]) == tuple(source.array.shape)


def aligned(node: Node, shape: Any, axes: tuple[Axis, ...]) -> tuple[Any, ...]:
    """Return a broadcast operand's indices: the last axes, 0 where it is stretched."""
    lead = len(shape) - len(node.shape)
    return tuple([0 if d == 1 and shape[k + lead] != 1 else axes[k + lead] for k, d in enumerate(node.shape)])


def elements(shape: Any) -> int:
    """Estimate how many elements a shape has."""
    total = 1
    for dim in shape:
        total *= shapes.upper(dim)
    return total

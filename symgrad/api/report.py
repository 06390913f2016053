"""What a compilation became, from what its stages kept: `Cost` and `Memory` in numbers, `report` in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentError, Line
from symgrad.ir.index.notation import Access, Axis, How, Statement
from symgrad.ir.index.shapes import Dim, Shape, simplified, symbol, symbols
from symgrad.ir.node import Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program
from symgrad.ir.requirements import require
from symgrad.loops import cost as counting
from symgrad.loops import machine
from symgrad.loops.fusion import parallelize
from symgrad.loops.program import Array, Loop, LoopProgram, Place, Team, Walk, paths, walk
from symgrad.loops.storage.allocate import bytes_of, lives
from symgrad.ops.declare.traits import chooses
from symgrad.transforms.control.roll import unrolled
from symgrad.transforms.derive.poles import Ranges
from symgrad.transforms.inplace.writes import gather_writes

if TYPE_CHECKING:
    from symgrad.pipeline import Stages

Counts = Mapping[str, Dim]

SHOWN = 6
"""So many lines or reasons are named, the others counted."""

TOTALS = {
    How.ADD: "sum", How.FMA: "sum", How.MULTIPLY: "product", How.OR: "disjunction", How.AND: "conjunction",
    **{how: how.name.lower() for how in (How.MAXIMUM, How.MINIMUM)},
}


# -- in numbers


@dataclass(frozen=True)
class Cost:
    """What one call of a compiled function does, counted from its loops; numbers, or expressions of open extents.

    Attributes:
        flops: floating-point operations: `operations`, a multiply-add as two, and each of `calls` as one.
        operations: by kind: add, multiply, fma (a product that is added to a sum), divide, sqrt, and select
            (comparisons, choices, extrema, signs, roundings).
        calls: calls of other functions of math.h, and of symgrad's own, by name.
        vectorized_calls: those of them in loops whose iterations run as lanes.
        read: bytes of the inputs and constants that are used, each counted once.
        written: bytes of the outputs.
        loaded: bytes that go from memory (or a cache) to registers: a load counts once in a loop's body, and once
            for all iterations of inner loops that do not change its place.
        stored: bytes that go from registers to memory (or a cache).
        loops: how many there are; `vectorized_loops`, `tiled_loops` and `shared_loops` (among threads) of them.
        statements: assignments in the loops.
        c_lines: lines of C.
        compile_seconds: what the C compiler is expected to take, by a model that is off by a factor of 1.5 in the mean
            and 4 at most (docs/reports.md).
    """

    flops: Dim
    operations: Counts
    calls: Counts
    vectorized_calls: Counts
    read: Dim
    written: Dim
    loaded: Dim
    stored: Dim
    loops: int
    vectorized_loops: int
    tiled_loops: int
    shared_loops: int
    statements: int
    c_lines: int
    compile_seconds: float

    def __add__(self, other: Cost) -> Cost:
        """Count what two functions do."""
        def both(one: Any, more: Any) -> Any:
            if isinstance(one, Mapping):
                return MappingProxyType({name: one.get(name, 0) + more.get(name, 0) for name in {**one, **more}})
            return one + more

        return Cost(*[both(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__])

    def __str__(self) -> str:
        rows = [("flops", self.flops)]
        rows += [(f"  {kind}", number) for kind, number in (*self.operations.items(), *self.calls.items())]
        rows += [(f"  {name} in lanes", number) for name, number in self.vectorized_calls.items()]
        rows += [(f"bytes {name}", getattr(self, name)) for name in ("read", "written", "loaded", "stored")]
        rest = ("loops", "vectorized_loops", "tiled_loops", "shared_loops", "statements", "c_lines", "compile_seconds")
        rows += [(name.replace("_", " "), getattr(self, name)) for name in rest]
        return in_columns([("cost of a call", ""), *[(name, str(value)) for name, value in rows]])


@dataclass(frozen=True)
class Buffer:
    """Memory that an array takes.

    Attributes:
        name: in C; arrays that are never needed together have the same.
        place: ``input``, ``output``, ``constant``, ``stack`` or ``workspace``.
        first, last: the numbers of the statements between which it holds something; 0 and the last for what is passed.
        line: the user's line that makes it.
    """

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    bytes: Dim
    place: str
    first: int
    last: int
    line: Line | None


@dataclass(frozen=True)
class Memory:
    """What a call needs besides its inputs and outputs, and for what.

    Attributes:
        peak: bytes of workspace and stack together.
        workspace: bytes of scratch memory that the caller gives, an expression of open extents and of ``threads``.
        stack: bytes of arrays on the stack (of one thread).
        buffers: every array that is no register.
        recomputation: how often steps are computed of loops whose derivatives keep little: 1 where all is kept.
    """

    peak: Dim
    workspace: Dim
    stack: int
    buffers: tuple[Buffer, ...]
    recomputation: int = 1

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [("buffer", "dtype", "shape", "bytes", "place", "statements", "line")]
        for b in self.buffers:
            shape = f"[{', '.join(map(str, b.shape))}]"
            line = "" if b.line is None else f"{b.line}  {b.line.text}"
            rows.append((b.name, b.dtype.name, shape, str(b.bytes), b.place, f"{b.first}-{b.last}", line))
        head = f"peak {self.peak} bytes: workspace {self.workspace}, stack {self.stack}"
        head += f"; steps are computed {self.recomputation} times" if self.recomputation > 1 else ""
        return f"{head}\n{in_columns(rows)}"


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Print rows in columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def cost_of(stages: Stages) -> Cost:
    """Count what the loops of a compilation do."""
    program: LoopProgram = stages.of("loops")
    found, size = counting.tally(program), counting.program_sizes(program)
    lines = stages.as_text("c").count("\n")
    seconds = round(counting.expected(size).seconds, 2)
    by_name = [MappingProxyType(counts) for counts in (found.operations, found.calls, found.in_lanes)]
    return Cost(
        found.flops, by_name[0], by_name[1], by_name[2], found.read, found.written, *counting.bytes_moved(program),
        size.loops, size.lanes, size.tiles, size.threads, size.statements, lines, seconds,
    )


def memory_of(stages: Stages) -> Memory:
    """List what the loops of a compilation keep in memory."""
    program: LoopProgram = stages.of("loops")
    storage = program.storage
    stored = {a: slot for a in program.temporaries if (slot := storage[a].slot) is not None}
    found = lives(program, stored)
    end = max([life.last for life in found.values()], default=0)
    buffers = [
        Buffer(a.name, a.shape, a.dtype, bytes_of(a.shape, a.dtype), a.kind.value, 0, end, a.line)
        for a in (*program.inputs, *program.outputs, *program.constants)
    ]
    names = stages.of("c").memory
    for a, slot in stored.items():
        shape, life = storage[a].shape, found[a]
        size = simplified(bytes_of(shape, a.dtype) * (symbol("threads") if slot.private else 1))
        buffers.append(Buffer(names[slot], shape, a.dtype, size, slot.place.value, life.first, life.last, a.line))
    stack = sum(slot.size for slot in names if slot.place is Place.STACK)
    peak = simplified(program.workspace + stack)
    return Memory(peak, program.workspace, stack, tuple(buffers), 1 + program.again)


def with_extents(report: Any, program: Program, arrays: Sequence[Any], sizes: Mapping[str, int], threads: int) -> Any:
    """Put numbers in the place of open extents, those of arrays or of `sizes`, everywhere in a report."""
    if not arrays and not sizes:
        return report
    known = symbols(node.shape for node in program.inputs)
    for name in sizes:
        if symbol(name) not in known and name != "threads":
            named = ", ".join(sorted(map(str, known))) or "none"
            raise ArgumentError(f"there is no open extent {name!r}", instead=f"the open extents: {named}")
    extents = {symbol("threads"): threads, **(require(program, arrays) if arrays else {})}
    return _in_numbers(report, {**extents, **{symbol(name): size for name, size in sizes.items()}})


def _in_numbers(report: Any, extents: Mapping[Any, int]) -> Any:
    def number(value: Any) -> Any:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple([number(v) for v in value])
        if isinstance(value, MappingProxyType):
            return MappingProxyType({name: number(v) for name, v in value.items()})
        if isinstance(value, Buffer):
            return _in_numbers(value, extents)
        if not hasattr(value, "free_symbols"):
            return value
        missing = sorted(str(s) for s in value.free_symbols if s not in extents)
        if missing:
            raise ArgumentError(f"the extent {missing[0]} has no number", instead=f"give it, as in {missing[0]}=1000")
        return int(value.subs(extents))

    return replace(report, **{name: number(getattr(report, name)) for name in report.__dataclass_fields__})


# -- in words


def report(stages: Stages, refusals: Sequence[str] = ()) -> str:
    """Say in words what a compilation made of a program, and why sizes are compiled for one by one (`refusals`)."""
    program: LoopProgram = stages.of("loops")
    outermost = [item for item, around in walk(program.body)
                 if isinstance(item, Loop) and not any(isinstance(one, Loop) for one in around)]
    derived = stages.kept["derived"] is not stages.kept["stable"]
    least = 0 if "roll" in stages.options.without else stages.options.roll
    broken = unrolled(gather_writes(stages.kept["traced"]), least) if least else []
    broken = [*broken[:SHOWN], *[f"and {len(broken) - SHOWN} more"] * (len(broken) > SHOWN)]
    sections = [
        ("Loops", _loop_lines(outermost)), ("Python loops that stay unrolled", broken),
        ("Computed again", list(program.notes)), ("Memory", _memory_lines(stages)),
        ("Threads", _thread_lines(outermost)), ("Math functions", _vector_functions(program, stages)),
        ("Slopes", _steep_lines(stages.kept["stable"]) if derived else []),
        ("Rules of yours", list(program.rules)), ("Extents that are not left open", list(refusals)),
    ]
    found = counting.program_sizes(program)
    text = f"{program.name}: {found.statements} statements in {found.loops} loops, {len(outermost)} of them outermost\n"
    for title, lines in sections:
        text += "".join(["\n", title, "\n", *[f"  {line}\n" for line in lines]]) if lines else ""
    return text


def _line_shown(line: Line | None) -> str:
    return "the program" if line is None else str(line)


def _loop_lines(outermost: list[Loop]) -> list[str]:
    """Say what each outermost loop computes and why it could not be part of the one before."""
    said: list[str] = []
    written: dict[Array, tuple[int, Statement]] = {}
    for number, item in enumerate(outermost, 1):
        inside = paths([item])
        names = list(dict.fromkeys(str(s.line) for s, _ in inside if s.line is not None))
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        said.append(f"{number}. {_loop_said(item)}: {', '.join(names[:SHOWN]) or 'sums of tiles and threads'}{rest}")
        reasons: dict[str, None] = {}
        for statement, around in inside:
            for access in statement.reads if statement.line is not None else ():
                if access.array.is_temporary and access.array in written:
                    reasons.setdefault(_why_apart(access, statement, around, *written[access.array]))
        more = len(reasons) - SHOWN
        said += [f"     {reason}" for reason in [*reasons][:SHOWN]] + [f"     and {more} more"] * (more > 0)
        written |= {statement.target.array: (number, statement) for statement, _ in inside}
    return said


def _loop_said(item: Loop) -> str:
    """Describe an outermost loop: what it runs over, in tiles, shared, as lanes."""
    inner = next((i for i in item.body if isinstance(i, Loop) and i.team is item.axis), item)
    words = f"over {inner.axis.extent}"
    words += f" in tiles of {inner.rows}" if inner.tile else ""
    words += ", shared among threads" if item.walk is Walk.THREADS else ""
    if any(loop.product is not None for _, around in paths([item]) for loop in around):
        words += ", a matrix product in register blocks"
    elif any(loop.walk is Walk.LANES for _, around in paths([item]) for loop in around):
        words += ", as lanes"
    return words


def _why_apart(access: Access, reader: Statement, around: tuple[Loop, ...], number: int, writer: Statement) -> str:
    made, here = _line_shown(writer.line or access.array.line), _line_shown(reader.line)
    if writer.prefix:
        return f"after loop {number}: {here} reads the running total of {made}"
    if writer.how in TOTALS:
        return f"after loop {number}: {here} needs the whole {TOTALS[writer.how]} of {made}"
    own = {axis for loop in around for axis in loop.members}
    if access.flat or any(not isinstance(i, Axis) or i not in own for i in access.indices if i != 0):
        return f"after loop {number}: {here} reads the values of {made} at other places than they are made at"
    return f"after loop {number}: {here} reads what {made} stored"


def _memory_lines(stages: Stages) -> list[str]:
    found = memory_of(stages)
    said = [f"peak {found.peak} bytes: workspace {found.workspace}, stack {found.stack}"]
    for b in found.buffers:
        if b.place in {Place.STACK.value, Place.WORKSPACE.value}:
            what = f"[{', '.join(map(str, b.shape))}] {b.dtype.name}"
            said.append(f"{b.name} ({b.place}): {what}, {_line_shown(b.line)}, from statement {b.first} to {b.last}")
    return said


def _thread_lines(outermost: list[Loop]) -> list[str]:
    """Say which loops are shared among threads, and why others are not."""
    said = []
    for number, item in enumerate(outermost, 1):
        if isinstance(item.axis.extent, Team) and item.walk is not Walk.THREADS:
            continue
        if item.walk is Walk.THREADS:
            count, least, _ = item.enough
            enough = "" if type(count) is int else f" where {count} >= {least}"
            said.append(f"loop {number} is shared among threads{enough}")
        elif not parallelize.pays(item):
            said.append(f"loop {number} is serial: fewer than {machine.PAYS} operations")
        elif not item.tile:
            said.append(f"loop {number} is serial: it does not walk in tiles")
        else:
            said.append(f"loop {number} is serial: its iterations write what others write or read, or threads are off")
    return said


def _vector_functions(program: LoopProgram, stages: Stages) -> list[str]:
    """Say which functions of math.h run for many lanes at once."""
    vector: dict[str, None] = {}
    scalar: dict[str, None] = {}
    for statement, around in program.paths:
        for name in counting.operations(statement)[1]:
            (vector if around and around[-1].walk is Walk.LANES else scalar).setdefault(name)
    able = stages.target.simd_math if not stages.options.precise else frozenset()
    known = {True: "by the vector library", False: "in lanes where the compiler can"}
    said = [f"{name}: {known[name in able]}" for name in sorted(vector)]
    return said + [f"{name}: one at a time, where its loop has no lanes" for name in sorted(scalar)]


def _steep_lines(program: Program) -> list[str]:
    """Name each operation whose slope is infinite or missing somewhere, and what guards it there."""
    users: dict[Node, list[tuple[Node, int]]] = {}
    nodes = program.nodes()
    for node in nodes:
        for position, source in enumerate(node.inputs):
            users.setdefault(source, []).append((node, position))
    signs = Ranges({}, near=True)
    said: dict[str, None] = {}
    for node in nodes:
        steep = node.op.steep if isinstance(node.op, Elementwise) else None
        if steep is None or node.dtype.kind != "f":
            continue
        argument, words, at_zero = steep
        x = node.inputs[argument]
        fixed = not x.inputs and not x.is_input
        if fixed or (at_zero and signs.of(x) <= {"+", "!"}):
            continue
        guards: set[str] = set()
        free = False  # some way to a result avoids every `where`
        seen, stack = {node}, [node]
        while stack:
            one = stack.pop()
            free |= one in program.outputs
            for user, position in users.get(one, []):
                if chooses(user.op) and position > 0:
                    guards.add(str(user.line))
                elif not user.op.nondiff and user.dtype.kind == "f" and user not in seen:
                    seen.add(user)
                    stack.append(user)
        place = f"{node.op.name} at {node.line}" if node.line is not None else node.op.name
        if free:
            said.setdefault(f"{place} has {words}, and nothing guards it")
        elif guards:
            said.setdefault(f"{place} has {words}, guarded by where at {' and '.join(sorted(guards))}")
    return list(said)

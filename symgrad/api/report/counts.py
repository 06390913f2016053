"""What a compiled function does and needs: `Cost` and `Memory`, counted from its loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from symgrad.errors import ArgumentError
from symgrad.ir.requirements import require
from symgrad.ir.shapes import simplified, symbol
from symgrad.loops import cost as counting
from symgrad.loops.program import LoopProgram, Place
from symgrad.loops.storage.allocate import bytes_of, lives

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from symgrad.errors import Line
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Dim, Shape
    from symgrad.loops.program import Array
    from symgrad.pipeline import Stages

    Counts = Mapping[str, Dim]


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

    def __str__(self) -> str:
        """Print a table."""
        rows = [("flops", self.flops)]
        rows += [(f"  {kind}", number) for kind, number in (*self.operations.items(), *self.calls.items())]
        rows += [(f"  {name} in lanes", number) for name, number in self.vectorized_calls.items()]
        rows += [(f"bytes {name}", getattr(self, name)) for name in ("read", "written", "loaded", "stored")]
        rest = ("loops", "vectorized_loops", "tiled_loops", "shared_loops", "statements", "c_lines", "compile_seconds")
        rows += [(name.replace("_", " "), getattr(self, name)) for name in rest]
        return table([("cost of a call", ""), *[(name, str(value)) for name, value in rows]])


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
    """

    peak: Dim
    workspace: Dim
    stack: int
    buffers: tuple[Buffer, ...]

    def __str__(self) -> str:
        """Print a table."""
        rows: list[Sequence[str]] = [("buffer", "dtype", "shape", "bytes", "place", "statements", "line")]
        for b in self.buffers:
            shape = f"[{', '.join(map(str, b.shape))}]"
            line = "" if b.line is None else f"{b.line}  {b.line.text}"
            rows.append((b.name, b.dtype.name, shape, str(b.bytes), b.place, f"{b.first}-{b.last}", line))
        head = f"peak {self.peak} bytes: workspace {self.workspace}, stack {self.stack}"
        return f"{head}\n{table(rows)}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Print rows in columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


# -- from the stages of a compilation


def cost_of(stages: Stages) -> Cost:
    """Count what the loops of a compilation do."""
    program: LoopProgram = stages.of("loops")
    found, size = counting.count(program), counting.sizes(program)
    lines = stages.as_text("c").count("\n")
    weights = {kind: 2 if kind == "fma" else 1 for kind in found.operations}
    flops: Any = sum((weights[kind] * number for kind, number in found.operations.items()), 0)
    flops = flops + sum(found.calls.values(), 0)
    seconds = round(counting.expected(size).seconds, 2)
    by_name = [MappingProxyType(counts) for counts in (found.operations, found.calls, found.in_lanes)]
    return Cost(
        flops, by_name[0], by_name[1], by_name[2], found.read, found.written, found.loaded, found.stored,
        size.loops, size.lanes, size.tiles, size.threads, size.statements, lines, seconds,
    )


def memory_of(stages: Stages) -> Memory:
    """List what the loops of a compilation keep in memory."""
    program: LoopProgram = stages.of("loops")
    stored = [a for a in program.temporaries if a.slot is not None]
    found = lives(program.body, stored, {a for a in stored if a.private})
    end = max([life.last for life in found.values()], default=0)
    buffers = [_passed(a, a.kind.value, end) for a in (*program.inputs, *program.outputs, *program.constants)]
    names: dict[Any, str] = {}
    for a in stored:
        name = names.setdefault(a.slot, f"w{len(names) + 1}")
        size = bytes_of(a) * (symbol("threads") if a.private else 1)
        life = found[a]
        buffers.append(Buffer(name, a.stored, a.dtype, simplified(size), a.place.value, life.first, life.last, a.line))
    stack = sum(slot.size for slot in names if slot.place is Place.STACK)
    return Memory(simplified(program.workspace + stack), program.workspace, stack, tuple(buffers))


def _passed(array: Array, place: str, end: int) -> Buffer:
    return Buffer(array.name, array.shape, array.dtype, bytes_of(array), place, 0, end, array.line)


# -- numbers


def numbered(report: Any, program: Program, arrays: Sequence[Any], sizes: Mapping[str, int], threads: int) -> Any:
    """Put numbers in the place of open extents, those of arrays or of `sizes`, everywhere in a report.

    Raises:
        ArgumentError: an extent has no number, or there is no such extent.
    """
    if not arrays and not sizes:
        return report
    known = {s for node in program.inputs for d in node.shape for s in getattr(d, "free_symbols", ())}
    for name in sizes:
        if symbol(name) not in known and name != "threads":
            named = ", ".join(sorted(map(str, known))) or "none"
            raise ArgumentError(f"there is no open extent {name!r}", instead=f"the open extents: {named}")
    extents = {symbol("threads"): threads, **(require(program, arrays) if arrays else {})}
    return _with_numbers(report, {**extents, **{symbol(name): size for name, size in sizes.items()}})


def _with_numbers(report: Any, extents: Mapping[Any, int]) -> Any:
    def number(value: Any) -> Any:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple([number(v) for v in value])
        if isinstance(value, MappingProxyType):
            return MappingProxyType({name: number(v) for name, v in value.items()})
        if isinstance(value, Buffer):
            return _with_numbers(value, extents)
        return _number(value, extents) if hasattr(value, "free_symbols") else value

    return replace(report, **{name: number(getattr(report, name)) for name in report.__dataclass_fields__})


def _number(value: Any, extents: Mapping[Any, int]) -> int:
    missing = sorted(str(s) for s in value.free_symbols if s not in extents)
    if missing:
        raise ArgumentError(f"the extent {missing[0]} has no number", instead=f"give it, as in {missing[0]}=1000")
    return int(value.subs(extents))

"""`report`: in words what became of a program: its loops, what stands between them, memory, threads, lanes, slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.api.report.counts import memory_of
from symgrad.api.report.slopes import slopes
from symgrad.ir.notation import Axis
from symgrad.loops import cost as counting
from symgrad.loops import machine
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.program import Loop, LoopProgram, Place, Team, Walk, paths, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.errors import Line
    from symgrad.ir.notation import Access, Statement
    from symgrad.loops.program import Array
    from symgrad.pipeline import Stages

    Written = dict[Array, tuple[int, Statement]]

SHOWN = 6
"""So many lines or reasons are named, the others counted."""

TOTALS = {"+=": "sum", "*=": "product", "max=": "maximum", "min=": "minimum", "|=": "disjunction", "&=": "conjunction"}


def report(stages: Stages, refusals: Sequence[str] = ()) -> str:
    """Say in words what a compilation made of a program; the same words for the same program.

    Args:
        stages: of the compilation; its loops are made when they are not there yet.
        refusals: why sizes are compiled for one by one.
    """
    program: LoopProgram = stages.of("loops")
    items = pieces(program)
    derived = stages.kept["derived"] is not stages.kept["stable"]
    sections = [
        ("Loops", loops(items)), ("Computed again", list(program.notes)), ("Memory", memory(stages)),
        ("Threads", shared(items)), ("Math functions", lanes(program, stages)),
        ("Slopes", slopes(stages.kept["stable"]) if derived else []),
        ("Rules of yours", list(program.rules)), ("Extents that are not left open", list(refusals)),
    ]
    found = counting.sizes(program)
    text = f"{program.name}: {found.statements} statements in {found.loops} loops, {len(items)} of them outermost\n"
    for title, lines in sections:
        text += "".join(["\n", title, "\n", *[f"  {line}\n" for line in lines]]) if lines else ""
    return text


def pieces(program: LoopProgram) -> list[Loop]:
    """List the outermost loops in order, those of parts too."""
    return [item for item, around in walk(program.body)
            if isinstance(item, Loop) and not any(isinstance(one, Loop) for one in around)]


# -- loops, and what stands between them


def loops(items: list[Loop]) -> list[str]:
    """Say what each outermost loop computes and why it could not be part of the one before."""
    said: list[str] = []
    written: Written = {}
    for number, item in enumerate(items, 1):
        said.append(f"{number}. {described(item)}: {_listed(_lines(item))}")
        said += [f"     {reason}" for reason in reasons(item, written)]
        for statement, _ in paths([item]):
            written[statement.target.array] = number, statement
    return said


def described(item: Loop) -> str:
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


def reasons(item: Loop, written: Written) -> list[str]:
    """Say what a loop reads of earlier ones that had to be complete first."""
    found: dict[str, None] = {}
    for statement, around in paths([item]):
        for access in statement.reads if statement.line is not None else ():
            if access.array.is_temporary and access.array in written:
                found.setdefault(_reason(access, statement, around, *written[access.array]))
    more = len(found) - SHOWN
    return [*list(found)[:SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _reason(access: Access, reader: Statement, around: tuple[Loop, ...], number: int, writer: Statement) -> str:
    made, here = _place(writer.line or access.array.line), _place(reader.line)
    if writer.prefix:
        return f"after loop {number}: {here} reads the running total of {made}"
    if writer.how in TOTALS:
        return f"after loop {number}: {here} needs the whole {TOTALS[writer.how]} of {made}"
    own = {axis for loop in around for axis in loop.members}
    if access.flat or any(not isinstance(i, Axis) or i not in own for i in access.indices if i != 0):
        return f"after loop {number}: {here} reads the values of {made} at other places than they are made at"
    return f"after loop {number}: {here} reads what {made} stored"


def _place(line: Line | None) -> str:
    return "the program" if line is None else str(line)


def _lines(item: Loop) -> list[str]:
    return list(dict.fromkeys(str(s.line) for s, _ in paths([item]) if s.line is not None))


def _listed(names: list[str]) -> str:
    if not names:
        return "sums of tiles and threads"
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


# -- memory, threads, lanes


def memory(stages: Stages) -> list[str]:
    """Say what each piece of memory holds."""
    found = memory_of(stages)
    own = [b for b in found.buffers if b.place in {Place.STACK.value, Place.WORKSPACE.value}]
    said = [f"peak {found.peak} bytes: workspace {found.workspace}, stack {found.stack}"]
    for b in own:
        what = f"[{', '.join(map(str, b.shape))}] {b.dtype.name}"
        said.append(f"{b.name} ({b.place}): {what}, {_place(b.line)}, from statement {b.first} to {b.last}")
    return said


def shared(items: list[Loop]) -> list[str]:
    """Say which loops are shared among threads, and why others are not."""
    said = []
    for number, item in enumerate(items, 1):
        if isinstance(item.axis.extent, Team) and item.walk is not Walk.THREADS:
            continue
        if item.walk is Walk.THREADS:
            count, least = item.enough
            enough = "" if type(count) is int else f" where {count} >= {least}"
            said.append(f"loop {number} is shared among threads{enough}")
        elif not threads.pays(item):
            said.append(f"loop {number} is serial: fewer than {machine.PAYS} operations")
        elif not item.tile:
            said.append(f"loop {number} is serial: it does not walk in tiles")
        else:
            said.append(f"loop {number} is serial: its iterations write what others write or read, or threads are off")
    return said


def lanes(program: LoopProgram, stages: Stages) -> list[str]:
    """Say which functions of math.h run for many lanes at once."""
    vector: dict[str, None] = {}
    scalar: dict[str, None] = {}
    for statement, around in program.paths:
        for name in counting.operations(statement)[1]:
            (vector if around and around[-1].walk is Walk.LANES else scalar).setdefault(name)
    able = stages.target.simd_math if not stages.options.precise else frozenset()
    said = []
    for name in sorted(vector):
        known = "by the vector library" if name in able else "in lanes where the compiler can"
        said.append(f"{name}: {known}")
    said += [f"{name}: one at a time, where its loop has no lanes" for name in sorted(scalar)]
    return said

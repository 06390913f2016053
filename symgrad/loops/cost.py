"""`count`: what a loop program does, counted by walking its statements and the loops around them.

Nothing is estimated: how often a statement runs is the product of its loops' extents (of its range, where it runs over
a part of one; of the number of tiles, where it stands beside the loops over a tile), an expression of unknown extents.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.ir import shapes
from symgrad.ir.notation import Access, Apply, Axis, looked_up, parts
from symgrad.loops.machine import COMPILE_BYTES, COMPILE_SECONDS, SCHEDULED
from symgrad.loops.program import Kind, Loop, Piece, Walk
from symgrad.loops.statements.products import nest_of
from symgrad.ops.declare.spelling import KINDS, cost, pattern

if TYPE_CHECKING:
    from symgrad.ir.notation import Statement
    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import Around, Array, LoopProgram


class Tally(NamedTuple):
    """What a program does in one call.

    Attributes:
        operations: how often each of `KINDS` is done.
        calls: how often each function of math.h or helper is called.
        in_lanes: how often of these in loops whose iterations run as lanes.
        read, written: bytes of the inputs and constants, and of the outputs, each counted once.
        loaded, stored: bytes that pass between memory and registers.
    """

    operations: dict[str, Dim]
    calls: dict[str, Dim]
    in_lanes: dict[str, Dim]
    read: Dim
    written: Dim
    loaded: Dim
    stored: Dim


class Sizes(NamedTuple):
    """How large a program is: statements, of them in loops, calls; loops, in lanes, in tiles, shared among threads."""

    statements: int
    looped: int
    calls: int
    loops: int
    lanes: int
    tiles: int
    threads: int


class Expected(NamedTuple):
    """What compiling a program is expected to take: seconds, and bytes of memory."""

    seconds: float
    bytes: int


def sizes(program: LoopProgram) -> Sizes:
    """Count statements, places where functions are called, and loops by kind."""
    found = program.paths
    loops = list({loop: None for _, around in found for loop in around})
    calls = sum(sum(operations(s)[1].values()) for s, _ in found)
    return Sizes(
        len(found), sum(bool(around) for _, around in found), calls,
        sum(loop.walk is not Walk.THREADS for loop in loops),
        sum(loop.walk is Walk.LANES or loop.product is not None for loop in loops),
        sum(loop.rows > 0 for loop in loops),
        sum(loop.walk is Walk.THREADS for loop in loops),
    )


def expected(size: Sizes) -> Expected:
    """Return what the C compiler is expected to take for a program of a size."""
    counts = (1, size.statements, size.looped, size.lanes)
    seconds, memory = [
        sum([each * count for each, count in zip(by, counts, strict=True)]) for by in (COMPILE_SECONDS, COMPILE_BYTES)
    ]
    return Expected(seconds, int(memory))


def at_least(nodes: int) -> Expected:
    """Return what scheduling and compiling takes at least for so many nodes, each a statement outside of loops."""
    compiled = expected(Sizes(nodes, 0, 0, 0, 0, 0, 0))
    return Expected(compiled.seconds + SCHEDULED * nodes, compiled.bytes)


def count(program: LoopProgram) -> Tally:
    """Count the operations, calls and bytes of one call."""
    done: defaultdict[str, Any] = defaultdict(int)
    calls: defaultdict[str, Any] = defaultdict(int)
    in_lanes: defaultdict[str, Any] = defaultdict(int)
    moved = {"loaded": 0, "stored": 0}
    seen: set[Any] = set()
    times: dict[Around, Any] = {}
    for statement, around in program.paths:
        if around not in times:
            times[around] = runs(around)
        often = runs(around, statement) if statement.ranges else times[around]
        kinds, called = operations(statement)
        for kind, number in kinds.items():
            done[kind] += number * often
        for name, number in called.items():
            calls[name] += number * often
            if around and around[-1].walk is Walk.LANES:
                in_lanes[name] += number * often
        _move(statement, around, often, moved, seen)
    used = {a.array: None for s, _ in program.paths for a in (*s.reads, s.target)}
    inputs = sum((_bytes(a) for a in used if a.is_given), 0)
    outputs = sum((_bytes(a) for a in used if a.kind is Kind.OUTPUT), 0)
    return Tally(
        {kind: shapes.simplified(done[kind]) for kind in KINDS if kind in done},
        {name: shapes.simplified(calls[name]) for name in sorted(calls)},
        {name: shapes.simplified(in_lanes[name]) for name in sorted(in_lanes)},
        shapes.simplified(inputs), shapes.simplified(outputs), shapes.simplified(moved["loaded"]),
        shapes.simplified(moved["stored"]),
    )


# -- how often


def runs(around: Around, statement: Statement | None = None) -> Any:
    """Count how often what stands inside of some loops runs."""
    windows = {loop.window for loop in around}
    teams = {loop.team for loop in around}
    total: Any = 1
    for loop in around:
        if loop.tile is not None:
            total = total * (1 if loop.tile in windows else (loop.extent + loop.rows - 1) // loop.rows)
        elif loop.walk is Walk.THREADS:
            total = total * (1 if loop.axis in teams else loop.extent)
        else:
            total = total * _iterations(loop, statement)
    return total


def _iterations(loop: Loop, statement: Statement | None) -> Any:
    """Count the iterations of a loop, of its borders or interior, in which a statement runs."""
    low, high = loop.ends if loop.piece is not Piece.ALL else (0, loop.extent)
    ranges = [r for r in statement.ranges if r[0] in loop.members] if statement is not None else []
    first, end = ranges[0][1:] if ranges else (0, loop.extent)
    if loop.piece is Piece.INTERIOR:
        return high - low
    if loop.piece is Piece.BORDERS:
        return (end - first) - overlap(first, end, low, high)
    return end - first


def overlap(first: Any, end: Any, low: Any, high: Any) -> Any:
    """Count what two ranges share."""
    if all(type(x) is int for x in (first, end, low, high)):
        return max(0, min(end, high) - max(first, low))
    import sympy

    return sympy.Max(0, sympy.Min(end, high) - sympy.Max(first, low))


# -- how much


def operations(statement: Statement) -> tuple[dict[str, int], dict[str, int]]:
    """Count the floating-point operations of one run of a statement, by kind, and its calls, by name."""
    kinds: defaultdict[str, int] = defaultdict(int)
    calls: defaultdict[str, int] = defaultdict(int)
    stack: list[Any] = [statement.value]
    while stack:
        value = stack.pop()
        if isinstance(value, Apply):
            stack.extend(value.args)
            if value.kind.kind == "f":
                spelled = pattern(value.op.c, (value.kind,) * len(value.args), value.dtype) or ""
                for name, number in cost(spelled):
                    (kinds if name in KINDS else calls)[name] += number
    if statement.routine is not None:
        kinds["fma"] += statement.routine.work
    elif statement.target.array.dtype.kind == "f" and statement.how not in {"=", "check"}:
        _accumulate(statement, kinds)
    return kinds, calls


def _accumulate(statement: Statement, kinds: dict[str, int]) -> None:
    value = statement.value
    if statement.how == "+=" and isinstance(value, Apply) and value.op.numpy is np.multiply:
        kinds["multiply"] -= 1
        kinds["fma"] = kinds.get("fma", 0) + 1
        if not kinds["multiply"]:
            del kinds["multiply"]
        return
    kind = {"+=": "add", "*=": "multiply"}.get(statement.how, "select")
    kinds[kind] = kinds.get(kind, 0) + 1


# -- bytes


def _move(
    statement: Statement, around: Around, often: Any, moved: dict[str, Any], seen: set[Any],
) -> None:
    """Add what a statement loads and stores.

    A load counts once in a loop's body, and once for all iterations of inner loops that do not change its place.
    """
    inner = around[-1] if around else None
    loops = {axis: loop for loop in around for axis in loop.members}

    def place(access: Access) -> Any:
        return inner, access.array, tuple([loops.get(i, i) if isinstance(i, Axis) else i for i in access.indices])

    for access in statement.reads:
        key = place(access)
        if access.array.is_memory and key not in seen:
            seen.add(key)
            size = access.array.dtype.itemsize * _walked(access, statement)
            moved["loaded"] += size * _distinct(access, around, often, statement)
    target = statement.target
    if target.array.is_memory:
        size = target.array.dtype.itemsize * _walked(target, statement)
        depth = next((nest_of(loop).depth for loop in around if loop.product is not None), None)
        written = runs(tuple([loop for loop in around if loop is not depth])) if depth is not None else often
        seen.add(place(target))
        moved["stored"] += size * written
        if statement.how != "=":
            moved["loaded"] += size * written


def _walked(access: Access, statement: Statement) -> Any:
    """Count the elements that a routine touches at one point of its statement's axes."""
    axes = statement.routine.axes if statement.routine is not None else ()
    return prod([axis.extent for axis in axes if axis in access.indices])


def _distinct(access: Access, around: Around, often: Any, statement: Statement) -> Any:
    """Count how often an element is loaded anew: not by inner loops that do not change its place."""
    used = {p for i in access.indices for p in parts(i)}
    used |= {p for a in looked_up(access.indices) for i in a.indices for p in parts(i)}
    nest = next((nest_of(loop) for loop in around if loop.product is not None), None)
    if nest is not None:  # blocks are held in registers
        return runs(tuple([loop for loop in around if loop not in nest.loops or loop.members & used]))
    depth = len(around)
    while depth and not around[depth - 1].members & used and not around[depth - 1].tile:
        depth -= 1
    return often if depth == len(around) else runs(around[:depth], statement)


def _bytes(array: Array) -> Any:
    return shapes.size(array.shape) * array.dtype.itemsize

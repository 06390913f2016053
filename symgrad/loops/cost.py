"""The page of costs: what a loop program does, counted; and what passes compare, estimated.

`tally` walks the statements and the loops around them, and estimates nothing: how often a statement runs is the product
of its loops' extents (of its range, where it runs over a part of one; of the number of tiles, where it stands beside
the loops over a tile), an expression of unknown extents. What passes compare is one number: operations that take the
time of an addition, where unknown extents are guessed and each constant stands in `machine.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import ceil, prod
from typing import Any, NamedTuple

from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Apply, Axis, How, IndexValue, Statement, Value, looked_up
from symgrad.ir.index.shapes import Dim, Shape
from symgrad.loops.machine import (
    ACROSS,
    ADDED,
    ADDED_APART,
    ALONE,
    BESIDE,
    BLOCK_VECTOR,
    BLOCKED,
    CALL,
    CALL_AGAIN,
    COMPILE_BYTES,
    COMPILE_SECONDS,
    DIVISION_AGAIN,
    FAR_BYTES,
    INNER,
    MATRIX,
    NARROW_COLUMNS,
    NARROW_GAIN,
    NARROW_MOST,
    NARROW_ROWS,
    OUTER,
    PACKED,
    PACKED_APART,
    PANEL,
    SCHEDULED,
    TRIANGLE,
)
from symgrad.loops.program import (
    Around,
    Items,
    Kind,
    Loop,
    LoopProgram,
    Nest,
    Piece,
    Team,
    Walk,
    While,
    paths,
    walk,
)
from symgrad.ops.declare.spelling import KINDS, cost, pattern


class Tally(NamedTuple):
    """What a program does in one call.

    Attributes:
        operations: how often each of `KINDS` is done.
        calls: how often each function of math.h or helper is called.
        in_lanes: how often of these in loops whose iterations run as lanes.
        read, written: bytes of the inputs and constants, and of the outputs, each counted once.
    """

    operations: dict[str, Dim]
    calls: dict[str, Dim]
    in_lanes: dict[str, Dim]
    read: Dim
    written: Dim

    @property
    def flops(self) -> Dim:
        """All operations, a multiply-add as two, and all calls."""
        total: Any = sum([number * (1 + (kind == "fma")) for kind, number in self.operations.items()])
        return shapes.simplified(total + sum(self.calls.values()))


class ProgramSizes(NamedTuple):
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


def program_sizes(program: LoopProgram) -> ProgramSizes:
    """Count statements, places where functions are called, and loops by kind."""
    found = program.paths
    loops = program.loops
    calls = sum(sum(operations(s)[1].values()) for s, _ in found)
    return ProgramSizes(
        len(found), sum(bool(around) for _, around in found), calls,
        sum(loop.walk is not Walk.THREADS for loop in loops),
        sum(loop.walk is Walk.LANES or loop.product is not None for loop in loops),
        sum(loop.rows > 0 for loop in loops),
        sum(loop.walk is Walk.THREADS for loop in loops),
    )


def expected(size: ProgramSizes) -> Expected:
    """Return what the C compiler is expected to take for a program of a size."""
    counts = (1, size.statements, size.looped, size.lanes)
    seconds, memory = [
        sum([each * count for each, count in zip(by, counts, strict=True)]) for by in (COMPILE_SECONDS, COMPILE_BYTES)
    ]
    return Expected(seconds, int(memory))


def at_least(nodes: int) -> Expected:
    """Return what scheduling and compiling takes at least for so many nodes, each a statement outside of loops."""
    compiled = expected(ProgramSizes(nodes, 0, 0, 0, 0, 0, 0))
    return Expected(compiled.seconds + SCHEDULED * nodes, compiled.bytes)


def tally(program: LoopProgram) -> Tally:
    """Count the operations and calls of one call, and the bytes of what it reads and writes."""
    done, calls, in_lanes = Counter[str](), Counter[str](), Counter[str]()
    for statement, around, often in _often(program):
        kinds, called = operations(statement)
        for kind, number in kinds.items():
            done[kind] += number * often
        for name, number in called.items():
            calls[name] += number * often
            if around and around[-1].walk is Walk.LANES:
                in_lanes[name] += number * often
    used = {a.array: None for s, _ in program.paths for a in (*s.reads, s.target)}
    inputs = sum((a.bytes for a in used if a.is_given or a.kind is Kind.DONATED), 0)
    outputs = sum((a.bytes for a in used if a.kind is Kind.OUTPUT), 0)
    return Tally(
        {kind: shapes.simplified(done[kind]) for kind in KINDS if kind in done},
        {name: shapes.simplified(calls[name]) for name in sorted(calls)},
        {name: shapes.simplified(in_lanes[name]) for name in sorted(in_lanes)},
        shapes.simplified(inputs), shapes.simplified(outputs),
    )


def bytes_moved(program: LoopProgram) -> tuple[Dim, Dim]:
    """Count the bytes that pass in one call from memory to registers, and from registers to memory."""
    loaded: Any = 0
    stored: Any = 0
    seen: set[Any] = set()  # a load counts once in a loop's body, and once for inner loops that do not change its place
    for statement, around, often in _often(program):
        inner = around[-1] if around else None
        loops = {axis: loop for loop in around for axis in loop.members}
        walked = statement.routine.axes if statement.routine is not None else ()
        for access, how in (*[(read, None) for read in statement.reads], (statement.target, statement.how)):
            if not program.storage[access.array].is_memory:
                continue
            key = inner, access.array, *[loops.get(i, i) if isinstance(i, Axis) else i for i in access.indices]
            size = access.array.dtype.itemsize * prod([axis.extent for axis in walked if axis in access.indices])
            if how is not None:
                depth = next((loop.nest.depth for loop in around if loop.product is not None), None)
                written = often if depth is None else run_count(tuple([loop for loop in around if loop is not depth]))
                stored += size * written
                loaded += size * written if how != How.SET else 0
            elif key not in seen:
                loaded += size * _loads_of(access, around, often, statement)
            seen.add(key)
    return shapes.simplified(loaded), shapes.simplified(stored)


# -- how often


def _often(program: LoopProgram) -> Iterator[tuple[Statement, Around, Any]]:
    """Yield the statements, each with the loops around it and how often it runs."""
    times: dict[Around, Any] = {}
    known = _in_known_loops(program.body)
    for statement, around in program.paths:
        if statement in known:
            often, inner = known[statement]
            yield statement, around, often * run_count(inner, statement)
            continue
        if around not in times:
            times[around] = run_count(around)
        yield statement, around, run_count(around, statement) if statement.ranges else times[around]


def _in_known_loops(items: Items) -> dict[Statement, tuple[Dim, Around]]:
    """Find what stands in loops of which is known how often they go round: how often, and the loops inside of these."""
    found: dict[Statement, tuple[Dim, Around]] = {}
    for loop, _ in walk(items):
        if isinstance(loop, While) and loop.total:
            found |= {statement: (loop.total, around) for statement, around in paths(loop.body)}
    return found


def run_count(around: Around, statement: Statement | None = None) -> Any:
    """Count how often what stands inside of some loops runs."""
    windows = {loop.window for loop in around}
    teams = {loop.team for loop in around}
    total: Any = 1
    for loop in around:
        if loop.tile is not None:
            total = total * (1 if loop.tile in windows else (loop.extent + loop.rows - 1) // loop.rows)
        elif loop.walk is Walk.THREADS:
            total = total * (1 if loop.axis in teams else loop.extent)
        elif loop.piece is Piece.INTERIOR:
            total = total * (loop.ends[1] - loop.ends[0])
        else:  # all of it, or its borders: where a statement runs
            ranges = [r for r in statement.ranges if r[0] in loop.members] if statement is not None else []
            first, end = ranges[0][1:] if ranges else (0, loop.extent)
            total = total * (end - first - (overlap(first, end, *loop.ends) if loop.piece is Piece.BORDERS else 0))
    return total


def overlap(first: Any, end: Any, low: Any, high: Any) -> Any:
    """Count what two ranges share."""
    if all(type(x) is int for x in (first, end, low, high)):
        return max(0, min(end, high) - max(first, low))
    import sympy

    return sympy.Max(0, sympy.Min(end, high) - sympy.Max(first, low))


# -- how much


def operations(statement: Statement) -> tuple[dict[str, int], dict[str, int]]:
    """Count the floating-point operations of one run of a statement, by kind, and its calls, by name."""
    kinds, calls = Counter[str](), Counter[str]()
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
    elif statement.target.array.dtype.kind == "f" and statement.how not in {How.SET, How.CHECK}:
        value, how = statement.value, statement.how
        if how in {How.ADD, How.FMA} and isinstance(value, Apply) and value.is_product:
            kinds.update({"multiply": -1, "fma": 1})
            kinds = +kinds
        else:
            kinds[{How.ADD: "add", How.MULTIPLY: "multiply"}.get(how, "select")] += 1
    return kinds, calls


def _loads_of(access: Access, around: Around, often: Any, statement: Statement) -> Any:
    """Count how often an element is loaded anew: not by inner loops that do not change its place."""
    used = {p for a in (access, *looked_up(access.indices)) for p in a.parts}
    nest = next((loop.nest for loop in around if loop.product is not None), None)
    if nest is not None:  # blocks are held in registers
        return run_count(tuple([loop for loop in around if loop not in nest.loops or loop.members & used]))
    depth = len(around)
    while depth and not around[depth - 1].members & used and not around[depth - 1].tile:
        depth -= 1
    return often if depth == len(around) else run_count(around[:depth], statement)


# -- estimates: what passes compare


def element_count(shape: Iterable[Dim]) -> int:
    """Estimate how many elements a shape has."""
    return prod(map(shapes.upper, shape))


def recomputed(value: Value) -> int:
    """Count the operations of a value where it is computed again, one after the other."""
    if isinstance(value, Apply):
        calls, divisions, others, indices = value.counts
        return CALL_AGAIN * calls + DIVISION_AGAIN * divisions + others + indices
    return int(isinstance(value, IndexValue))


def estimate(statement: Statement) -> int:
    """Count the operations of a statement: what its value applies or its routine does, its store, and far loads."""
    made = 1 if statement.routine is None else shapes.upper(statement.routine.work, MATRIX)
    sizes = [access.array.bytes for access in statement.reads]
    made += 4 * sum([type(size) is int and size > FAR_BYTES for size in sizes])
    if isinstance(statement.value, Apply):
        calls, divisions, others, _ = statement.value.counts
        made += CALL * calls + divisions + others
    return made


def effort(statement: Statement, unit: int = BLOCKED) -> int:
    """Count the operations of a statement, each as `unit`, those that register blocks do as one."""
    return estimate(statement) * (1 if statement.is_contraction else unit)


def walked(around: Around) -> Shape:
    """List how often the loops around a statement run, a loop over tiles and the loop over one together."""
    windows = {loop.window for loop in around}
    return tuple([outer.extent for outer in around if outer.tile is None or outer.tile not in windows])


def operations_of(loop: Loop) -> int:
    """Count the operations of a loop, as many as take the time of what it does; unknown extents are guessed."""
    known = _in_known_loops((loop,))
    runs = [(s, *known.get(s, (1, around))) for s, around in loop.paths]
    each = [effort(s) * shapes.upper(often) * element_count(walked(around)) for s, often, around in runs]
    return sum(each) // BLOCKED


def trips(loop: Loop) -> Dim:
    """How often a loop runs; threads share what they do, so a loop over them counts once."""
    return 1 if isinstance(loop.extent, Team) else loop.extent


def all_operations(items: Items) -> Dim:
    """Count the operations of a tree of loops, a number or an expression of the extents."""
    terms: Counter[tuple[Dim, ...]] = Counter()
    stack: list[tuple[Any, float, tuple[Dim, ...], int]] = [(item, 1.0, (), OUTER) for item in items]
    while stack:
        item, times, named, unknown = stack.pop()
        if isinstance(item, Statement):
            terms[named] += max(1, ceil(estimate(item) * times))
            continue
        if isinstance(item, Loop):
            extent = trips(item) if item.window is None else item.window.rows
            times = times / (item.rows or 1) / (BLOCKED if item.product else 1)
            if isinstance(extent, int):
                times *= extent
            else:
                named = tuple(sorted((*named, extent), key=str))
        elif isinstance(item, While):
            times *= unknown
        stack.extend((inner, times, named, INNER) for block in item.blocks for inner in block)
    found: Any = sum(count for dims, count in terms.items() if not dims)
    for dims, count in terms.items():
        if dims:
            found = found + count * prod(dims)
    return found


def extent(loop: Loop) -> int:
    """Estimate the iterations of a loop, over a tile at most those of the tile."""
    found = shapes.upper(loop.extent)
    return min(found, loop.window.rows) if loop.window is not None else found


def register_blocks(nest: Nest, s: Statement) -> float:
    """Estimate what a sum of products takes in register blocks: padded work, packing, and adding to the sums."""
    rows, depth, lanes = [extent(loop) for loop in nest.loops]

    def padded(extent: int) -> int:
        return -(-extent // BLOCK_VECTOR) * BLOCK_VECTOR

    def by_ones(access: Any) -> bool:
        return bool(access.steps(nest.lanes.members) == {len(access.indices) - 1: 1})

    factors: Any = s.value
    packed = depth * padded(lanes) * (PACKED if by_ones(factors.args[1 - nest.product.left]) else PACKED_APART)
    added = rows * lanes * -(-depth // PANEL) * (ADDED if by_ones(s.target) else ADDED_APART)
    done = padded(rows) * depth * padded(lanes) / (2 * BLOCK_VECTOR)
    return (done if nest.product.part is None else TRIANGLE * done) + packed + added


def is_narrow(nest: Nest, rows: Loop, few: Loop, lanes: int, *, along: bool) -> bool:
    """Whether a sum of products with a few columns is faster with lanes along its depth, or else along its rows.

    Counted are vectors that are multiplied and added, in blocks whose lanes are the nest's own and in the others, and
    elements that are packed.
    """
    whole = [type(loop.extent) is int and loop.window is None for loop in (few, rows)]
    if not whole[0] or not (along or (whole[1] and shapes.upper(rows.extent) >= lanes * NARROW_ROWS)):
        return False
    many, deep, width = extent(rows), extent(nest.depth), extent(few)
    as_rows, as_lanes = (many, width) if few is nest.lanes else (width, many)
    vectors = -(-as_lanes // lanes) if as_lanes > lanes else ALONE
    blocked = (-(-as_rows // BLOCK_VECTOR) * BLOCK_VECTOR + lanes) * deep * vectors
    block = NARROW_ROWS if along else NARROW_ROWS * lanes
    done = -(-many // block) * block * deep * -(-width // NARROW_COLUMNS) * NARROW_COLUMNS / lanes
    ended = (ACROSS * many + deep) * width if along else BESIDE * many * width
    return lanes > 1 and width <= NARROW_MOST and done + ended < NARROW_GAIN * blocked

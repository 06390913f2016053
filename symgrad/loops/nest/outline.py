"""`outline`: what is too long for one C function becomes several; `distribute`: a long loop does, inside of a tile.

A compiler's time grows faster than a function's length. Cuts are made where the fewest values cross.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from symgrad.ir.index.notation import Axis, Statement
from symgrad.loops.machine import CUT_SUM, CUT_TILE_ROWS, LONG, SHORT
from symgrad.loops.nest.vectorize import innermost
from symgrad.loops.program import Loop, Outlined, Tile, Walk, kept, rebuild, touched, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.loops.program import Array, Item, Items, LoopProgram, Storages


def distribute(program: LoopProgram) -> LoopProgram:
    """Cut innermost loops with long bodies into several loops over a tile; what crosses the cuts lives for a tile.

    The order of the statements of one iteration stays as it was, and no iteration reads what another one makes.
    """

    def change(_: Loop, loop: Loop) -> Item | Items:
        if len(loop.body) <= LONG or not innermost(loop) or loop.tile or loop.walk is not Walk.FREE:
            return loop
        if any(s.prefix for s in loop.body):  # type: ignore[union-attr]  # statements, all of them
            return loop
        loops = tuple([loop.with_(body=piece) for piece in cut(loop.body, program.storage)])
        if loop.window is not None or (type(loop.extent) is int and loop.extent <= CUT_TILE_ROWS):
            return loops
        tile = Tile(Axis(loop.axis.name, loop.axis.extent), CUT_TILE_ROWS)
        return Loop(loop.axis, loop.members, tuple([one.with_(window=tile) for one in loops]), tile=tile)

    return program.with_body(rebuild(program.body, change, Loop))


def outline(program: LoopProgram) -> LoopProgram:
    """Cut long blocks into `Outlined` ones, inner ones first; registers that cross the cuts become memory."""
    storage = program.storage
    body, _ = _divided(program.body, storage)
    if body is program.body:
        return program
    crossing = {array for array, parts in functions_touching(body).items() if len(parts) > 1}

    def change(_: Loop, loop: Loop) -> Item:
        return loop.with_(walk=Walk.FREE, sums=()) if any(array in crossing for _, array in loop.sums) else loop

    return program.with_body(rebuild(body, change, Loop)).with_storage({
        array: storage[array]._replace(is_memory=True) for array in crossing if not storage[array].is_memory
    })


def _divided(items: Items, storage: Storages) -> tuple[Items, int]:
    """Cut a block where it is long; return it and how many statements it has then."""
    made: list[Item] = []
    sizes = []
    for item in items:
        size, now = 1, item
        if isinstance(item, Loop) and item.walk is Walk.LANES:
            size += len(item.body)
        elif not isinstance(item, Statement):
            divided = [_divided(block, storage) for block in item.blocks]
            size += sum(inner for _, inner in divided)
            if any(block is not old for (block, _), old in zip(divided, item.blocks, strict=True)):
                now = item.with_blocks(*[block for block, _ in divided])
        sizes.append(size)
        made.append(now)
    items, total = kept(items, made), sum(sizes)
    # a loop over threads has the loop that it shares out right inside
    if total <= LONG or len(items) == 1 or any(isinstance(item, Loop) and item.team for item in items):
        return items, total
    parts = tuple([Outlined(piece) for piece in cut(items, storage, sizes)])
    return parts, len(parts)


def cut(items: Items, storage: Storages, sizes: Sequence[int] | None = None) -> list[Items]:
    """Cut a block into runs of `SHORT` to `LONG` statements, each cut where the fewest values cross.

    Args:
        items: loops and statements.
        storage: where arrays live, as far as that is known: an array in memory may cross.
        sizes: how many statements each has; one where left out.
    """
    ends = list(accumulate(sizes or [1] * len(items)))
    crossing = _crossing(items, storage)
    pieces: list[Items] = []
    start = done = 0
    while ends[-1] - done > LONG:
        furthest = max(start + 1, bisect_right(ends, done + LONG))
        nearest = min(max(start + 1, bisect_left(ends, done + SHORT) + 1), furthest)
        best = min(range(nearest, furthest + 1), key=lambda place: (crossing[place], -place))
        pieces.append(items[start:best])
        start, done = best, ends[best - 1]
    return [*pieces, items[start:]] if start < len(items) else pieces


def _crossing(items: Items, storage: Storages) -> list[int]:
    """Count, for the place before each item and for the end, the scalars that are touched before it and after it."""
    first: dict[Array, int] = {}
    last: dict[Array, int] = {}
    sums: set[Array] = set()
    for place, item in enumerate(items):
        for one, _ in ((item, ()),) if isinstance(item, Statement) else walk([item]):
            sums.update([array for _, array in one.sums] if isinstance(one, Loop) else ())
            for access in touched(one):
                array = access.array
                if array.is_temporary and not (array in storage and storage[array].is_memory):
                    first.setdefault(array, place)
                    last[array] = place
    change = [0] * (len(items) + 2)
    for array, begin in first.items():
        weight = CUT_SUM if array in sums else 1
        change[begin + 1] += weight
        change[last[array] + 1] -= weight
    return [*accumulate(change)]


def functions_touching(items: Items) -> dict[Array, set[Outlined | None]]:
    """Return the C functions that touch each array: the innermost outlined block, and None for the entry."""
    found: dict[Array, set[Outlined | None]] = {}
    stack: list[tuple[Item, Outlined | None]] = [(item, None) for item in items]
    while stack:
        item, home = stack.pop()
        for access in touched(item):
            found.setdefault(access.array, set()).add(home)
        if not isinstance(item, Statement):
            inside = item if isinstance(item, Outlined) else home
            stack.extend([(inner, inside) for block in item.blocks for inner in block])
    return found

"""`split`: what is too long for one C function becomes several, and a loop too long for one becomes several in a tile.

A compiler's time grows faster than a function's length. Cuts are made where the fewest values cross.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Statement
from symgrad.loops.program import Array, Loop, Part
from symgrad.loops.store import paths, touched

if TYPE_CHECKING:
    from symgrad.loops.program import Item

LONG = 1000
"""A C function, or the body of an innermost loop, has at most so many statements."""

SHORT = LONG // 2
"""Where a body is cut, a piece has at least so many."""

ROWS = 64
"""The tile of a loop that is cut; less where much crosses the cuts (see `tile.fit`)."""

SUM = 1000
"""Cutting between a scalar sum's loop and its uses costs as much as so many values: the loop would lose its lanes."""


def distribute(items: list[Item]) -> list[Item]:
    """Cut innermost loops with long bodies into several loops over a tile; what crosses the cuts lives for a tile.

    The order of the statements of one iteration stays as it was, and no iteration reads what another one makes.
    """
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            made.append(item)
            continue
        if any(isinstance(inner, Loop) for inner in item.body):
            item.body = distribute(item.body)
            made.append(item)
        else:
            made.extend(_distributed(item))
    return made


def _distributed(loop: Loop) -> list[Item]:
    body = [item for item in loop.body if isinstance(item, Statement)]
    if len(body) <= LONG or any(s.prefix for s in body) or loop.tile or loop.threads:
        return [loop]
    loops: list[Item] = [Loop(loop.axis, loop.members, piece, window=loop.window) for piece in cut(loop.body)]
    if loop.window is not None or (type(loop.extent) is int and loop.extent <= ROWS):
        return loops
    outer = Loop(loop.axis, loop.members, loops, tile=ROWS)
    for one in loops:
        one.window = outer  # type: ignore[union-attr]  # loops, all of them
    return [outer]


def split(items: list[Item]) -> list[Item]:
    """Cut long blocks into `Part`s, inner ones first; registers that cross the cuts become memory."""
    body, _ = _divided(items)
    crossing = {array for array, parts in functions(body).items() if len(parts) > 1}
    for array in crossing:
        if array.place == "register":
            array.place = "workspace"
    for loop in {loop: None for _, around in paths(body) for loop in around}:
        if any(array in crossing for _, array in loop.sums):
            loop.simd, loop.sums = False, ()
    return body


def _divided(items: list[Item]) -> tuple[list[Item], int]:
    """Cut a block where it is long; return it and how many statements it has then."""
    total = 0
    sizes = []
    for item in items:
        size = 1
        if isinstance(item, Loop):
            item.body, inner = (item.body, len(item.body)) if item.simd else _divided(item.body)
            size += inner
        sizes.append(size)
        total += size
    # a loop over threads has the loop that it shares out right inside
    if total <= LONG or len(items) == 1 or any(isinstance(item, Loop) and item.shared for item in items):
        return items, total
    parts: list[Any] = [Part(piece) for piece in cut(items, sizes)]
    return parts, len(parts)


def cut(items: list[Item], sizes: list[int] | None = None) -> list[list[Item]]:
    """Cut a block into runs of `SHORT` to `LONG` statements, each cut where the fewest values cross.

    Args:
        items: loops and statements.
        sizes: how many statements each has; one where left out.
    """
    ends = list(accumulate(sizes or [1] * len(items)))
    crossing = _crossing(items)
    pieces: list[list[Item]] = []
    start = done = 0
    while ends[-1] - done > LONG:
        furthest = max(start + 1, bisect_right(ends, done + LONG))
        nearest = min(max(start + 1, bisect_left(ends, done + SHORT) + 1), furthest)
        best = min(range(nearest, furthest + 1), key=lambda place: (crossing[place], -place))
        pieces.append(items[start:best])
        start, done = best, ends[best - 1]
    return [*pieces, items[start:]] if start < len(items) else pieces


def _crossing(items: list[Item]) -> list[int]:
    """Count, for the place before each item and for the end, the scalars that are touched before it and after it."""
    first: dict[Array, int] = {}
    last: dict[Array, int] = {}
    sums: set[Array] = set()
    for place, item in enumerate(items):
        for statement, around in paths([item]):
            sums.update(array for loop in around for _, array in loop.sums)
            for access in touched(statement):
                array = access.array
                if array.kind == "temporary" and (array.place == "register" or array.kept is None):
                    first.setdefault(array, place)
                    last[array] = place
    change = [0] * (len(items) + 2)
    for array, begin in first.items():
        weight = SUM if array in sums else 1
        change[begin + 1] += weight
        change[last[array] + 1] -= weight
    for place in range(1, len(change)):
        change[place] += change[place - 1]
    return change


def functions(items: list[Item]) -> dict[Array, set[Part | None]]:
    """Tell the C functions that touch each array: its parts, and None for the entry."""
    found: dict[Array, set[Part | None]] = {}
    stack: list[tuple[Part | None, Item]] = [(None, item) for item in items]
    while stack:
        part, item = stack.pop()
        if isinstance(item, Statement):
            for access in touched(item):
                found.setdefault(access.array, set()).add(part)
        else:
            inside = item if isinstance(item, Part) else part
            stack.extend((inside, inner) for inner in item.body)
    return found

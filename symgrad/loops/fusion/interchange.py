"""`interchange`: a loop whose steps follow each other goes inside of one over rows that never meet.

What a recurrence carries for one example of a batch is made of what it carries for that example: so threads take
examples, and each takes all steps for its own (loop interchange; R. Allen, K. Kennedy, 1984).
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.index.notation import Access, Axis, How, Statement
from symgrad.loops.fusion.parallelize import pays
from symgrad.loops.machine import SHARED_ROWS, TILE_BLOCKS, TILE_LEAST
from symgrad.loops.program import Array, Item, Items, Loop, LoopProgram, Tile, Walk, walk


def interchange(program: LoopProgram) -> LoopProgram:
    """Put outermost loops whose steps follow each other into loops over tiles of rows, where that is right and pays."""
    body = tuple([_put_within(item) for item in program.body])
    return program.with_body(body) if body != program.body else program


def _put_within(loop: Item) -> Item:
    """Put a loop into one over rows that all of its nests begin with."""
    if not isinstance(loop, Loop) or loop.walk is not Walk.SEQUENTIAL or not pays(loop):
        return loop
    nests = loop.body
    extent: Any = nests[0].extent if isinstance(nests[0], Loop) else 0
    if type(extent) is not int or extent < 2 * SHARED_ROWS or not all(
        isinstance(nest, Loop) and nest.extent == extent and nest.walk is Walk.FREE and not (nest.tile or nest.window)
        for nest in nests
    ) or not _by_rows(nests):
        return loop
    members = frozenset([axis for nest in nests if isinstance(nest, Loop) for axis in nest.members])
    rows = min(TILE_BLOCKS, max(SHARED_ROWS, -(-extent // 2 // TILE_LEAST) * TILE_LEAST))
    tile = Tile(Axis(loop.axis.name, extent), rows)
    inside = loop.with_(body=tuple([nest.with_(window=tile) for nest in nests]))
    return Loop(tile.start, members, (inside,), tile=tile)


def _by_rows(nests: Items) -> bool:
    """Whether what is written is written and read in rows of one dimension alone, each by its own iteration."""
    places: dict[Array, int] = {}
    touches: list[tuple[Access, frozenset[Axis]]] = []
    for nest in nests:
        members: frozenset[Axis] = nest.members  # type: ignore[union-attr]  # all are loops
        for item, _ in walk([nest]):
            if isinstance(item, Loop):
                continue
            if not isinstance(item, Statement) or item.how not in {How.SET, How.ADD} or item.prefix or item.may_fail:
                return False
            touches += [(access, members) for access in item.touched]
            own = [d for d, index in enumerate(item.target.indices) if index in members]
            if item.target.flat or len(own) != 1 or places.setdefault(item.target.array, own[0]) != own[0]:
                return False
    return all(
        not access.flat and access.indices[places[access.array]] in members
        for access, members in touches if access.array in places
    )

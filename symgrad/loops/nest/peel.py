"""`peel`: a loop whose statements run over different ranges becomes its borders, with conditions, and its interior.

The interior is what all ranges that reach from one end to the other have in common: there every statement runs or
none of it does, and the iterations are lanes again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from symgrad.ir.index.notation import How, Statement
from symgrad.ir.index.shapes import simplified
from symgrad.loops.program import Loop, Piece, StorageMap, Walk, accesses_in, paths, renamed
from symgrad.loops.storage.allocate import larger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from symgrad.ir.index.notation import Axis
    from symgrad.loops.program import Array, Item, Items, LoopProgram


def peel(program: LoopProgram) -> LoopProgram:
    """Cut the loops of a tree at the ends of their statements' ranges; `least` says how large extents are."""
    if not any(statement.ranges for statement, _ in program.paths):
        return program
    storage = StorageMap(program.storage)
    body = _peeled(program.body, access_counts(program.body), program.least, storage)
    return program.with_body(body, [array for array in storage if array not in program.storage]).with_(storage=storage)


def _peeled(items: Items, uses: Counter[Array], least: Mapping[Any, int], storage: StorageMap) -> Items:
    made: list[Item] = []
    for item in items:
        if isinstance(item, Statement):
            made.append(item)
            continue
        ends = interior(item) if isinstance(item, Loop) else None
        if not isinstance(item, Loop) or ends is None:
            made.append(item.with_blocks(*[_peeled(block, uses, least, storage) for block in item.blocks]))
            continue
        body, here = interior_of(item.body, item.members, ends), access_counts([item])
        found = access_counts(body)  # the copy has registers of its own in the place of the loop's
        own = [a for a in found if uses[a] == here[a] and a.is_temporary and not storage[a].is_memory]
        named = {array: array.with_() for array in own}
        uses.update({fresh: found[array] for array, fresh in named.items()})
        storage.update({fresh: storage[array] for array, fresh in named.items()})
        body = renamed(body, named)
        outer = _peeled(item.body, uses, least, storage)
        made.append(item.with_(body=outer, piece=Piece.BORDERS, ends=beyond(*ends, least)))
        if body:
            made.append(item.with_(body=_peeled(body, uses, least, storage), piece=Piece.INTERIOR, ends=ends))
    return tuple(made)


def interior(loop: Loop) -> tuple[Any, Any] | None:
    """Return where the interior of a loop begins and ends, None where all of its statements run everywhere."""
    low, high = 0, loop.extent
    found = False
    if loop.tile or loop.walk is Walk.THREADS:
        return None
    for statement, around in paths([loop]):
        if statement.runs_in_order(loop.members) or any(one.tile for one in around):  # a tile's windows are of one loop
            return None
        for axis, *bounds in statement.ranges:
            if axis in loop.members:
                found = True
                for bound in bounds:
                    if left(bound, loop.extent):
                        low = max(low, bound)
                    elif simplified(bound - high) < 0:
                        high = bound
    return (low, high) if found else None


def beyond(low: int, high: Any, least: Mapping[Any, int]) -> tuple[Any, Any]:
    """Return where borders leave off and go on: an interior that ends before it begins is no step back."""
    size: Any = simplified(high - low)
    sure = size >= 0 if type(size) is int else size.subs({s: s + k for s, k in least.items()}).is_nonnegative
    return low, high if sure else larger([low, high])


def left(bound: Any, extent: Any) -> bool:
    """Whether it is a bound that belongs to the beginning; with unknown extents that is a number."""
    return type(bound) is int and (type(extent) is not int or 2 * bound < extent)


def interior_of(items: Items, members: frozenset[Axis], ends: tuple[Any, Any]) -> Items:
    """Keep what runs in the interior, where its range along the axis says nothing more."""
    low, high = ends
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Statement):
            blocks = [interior_of(block, members, ends) for block in item.blocks]
            if any(blocks):
                made.append(item.with_blocks(*blocks))
            continue
        here = [r for r in item.ranges if r[0] in members]
        if all(  # a range that does not hold the interior is outside of it
            type(first) is int and first <= low and not (type(end) is int and end <= low)
            and simplified(end - high) >= 0 for _, first, end in here
        ):
            made.append(item.with_(ranges=tuple([r for r in item.ranges if r[0] not in members])))
    return tuple(overwritten(made))


def overwritten(items: list[Item]) -> list[Item]:
    """Leave out a value that the next statement of the same place replaces, unread."""
    made: list[Item] = []
    replaced: list[Any] = []
    for item in reversed(items):
        if isinstance(item, Statement):
            place = (item.target.array, item.target.indices, item.ranges)
            if item.how == How.SET and not item.ranges and place in replaced:
                continue
            read = {access.array for access in item.reads}
            replaced = [p for p in replaced if p[0] not in read]
            if item.how == How.SET and not item.ranges:
                replaced.append(place)
            else:
                replaced = [p for p in replaced if p[0] is not item.target.array]
        else:
            replaced = []
        made.append(item)
    return made[::-1]


def access_counts(items: Iterable[Item]) -> Counter[Array]:
    """Count the accesses of each array."""
    return Counter([access.array for access in accesses_in(items)])

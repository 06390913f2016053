"""`plan`: which memory every array has, by liveness: arrays that are never alive together hold one slot in turn.

An array is alive from the statement that starts it to the last one that reads it. A loop in which an array is
touched, but around which it lives, keeps it alive from its first iteration to its last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir import shapes
from symgrad.ir.notation import Access, Lookup, Statement, parts
from symgrad.loops.program import Array, Loop, Slot
from symgrad.loops.split import functions
from symgrad.loops.store import common_loops, paths, teams, touched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import Item

STACK = 4096
"""Arrays of up to so many bytes stand on the stack."""

STACK_TOTAL = 65536
"""All arrays on the stack together."""

LINE = 64
"""What is larger starts at a cache line of its own; what is smaller at a multiple of `WORD`."""

WORD = 8

TRIES = 4
"""So many free slots of the sizes next to the wanted one are compared with it."""


class Life(NamedTuple):
    """The statements, by their number in the program's order, from and to which an array is alive.

    `threads` is the loop over threads inside of which each thread has its own.
    """

    first: int
    last: int
    threads: Loop | None


class Touch(NamedTuple):
    """One access of an array, its statement's number, and the loops around."""

    number: int
    statement: Statement
    access: Access
    around: tuple[Loop, ...]


def plan(items: list[Item], arrays: Iterable[Array]) -> Dim:
    """Give every temporary that is no register its slot; return the bytes of workspace.

    Arrays of one dtype share a slot when their lives do not meet and the one's size is known to be no less than the
    other's. What each thread has for itself is planned for one thread, and stands there once for each.
    """
    wanted = [a for a in arrays if a.kind == "temporary" and a.place != "register"]
    found = lives(items, wanted)
    homes = functions(items)
    stacks: dict[Any, Pool] = {}
    pools: dict[Loop | None, Pool] = {None: Pool("workspace")}
    for array in sorted(wanted, key=lambda a: found[a].first):
        life, size = found[array], bytes_of(array)
        slot = None
        if type(size) is int and size <= STACK and len(homes[array]) == 1:
            frame = (life.threads, *homes[array])
            slot = stacks.setdefault(frame, Pool("stack", STACK_TOTAL)).take(size, array.dtype, life)
        array.slot = slot or pools.setdefault(life.threads, Pool("workspace")).take(size, array.dtype, life)
        array.place = array.slot.place  # type: ignore[union-attr]  # a pool without limit gives one
    total = _laid_out(pools)
    _named(items, [array.slot for array in wanted if array.slot is not None])
    return total


def _named(items: list[Item], slots: list[Slot]) -> None:
    """Let places depend on the names of teams in the place of what they are counted by."""
    counts = {team.count: shapes.symbol(str(team)) for team in teams(items)}
    for slot in slots if counts else ():
        offset: Any = slot.offset
        slot.offset = offset if type(offset) is int else offset.xreplace(counts)


def _laid_out(pools: dict[Loop | None, Pool]) -> Dim:
    """Put what is shared first, and behind it what every thread has for itself; loops over threads take turns."""
    total = aligned(pools.pop(None).layout(), LINE)
    steps = []
    for pool in pools.values():
        step = aligned(pool.layout(), LINE)
        steps.append(step)
        for slot in pool.slots:
            slot.offset, slot.step = shapes.simplified(total + slot.offset), step
    return shapes.simplified(total + larger(steps) * shapes.symbol("threads")) if steps else total


def larger(sizes: list[Dim]) -> Any:
    """Return the largest of sizes, an expression where that depends on extents."""
    if all(type(size) is int for size in sizes):
        return max(sizes)
    import sympy

    return sympy.Max(*sizes)


def bytes_of(array: Array) -> Dim:
    """Return how much memory what is stored of an array takes."""
    return shapes.simplified(shapes.size(array.stored) * array.dtype.itemsize)


def aligned(size: Any, unit: int) -> Any:
    """Round up to a multiple."""
    if type(size) is not int and size.as_coeff_Mul()[0] % unit == 0:
        return size
    return shapes.simplified((size + unit - 1) // unit * unit)


# -- lives


def lives(items: list[Item], arrays: Iterable[Array]) -> dict[Array, Life]:
    """Tell when each array is alive."""
    touches: dict[Array, list[Touch]] = {array: [] for array in arrays}
    spans: dict[Loop, tuple[int, int]] = {}
    for number, (statement, around) in enumerate(paths(items)):
        for loop in around:
            spans[loop] = (spans.get(loop, (number, number))[0], number)
        for access in touched(statement):
            if access.array in touches:
                touches[access.array].append(Touch(number, statement, access, around))
    return {array: _life(array, found, spans) for array, found in touches.items()}


def _life(array: Array, touches: list[Touch], spans: dict[Loop, tuple[int, int]]) -> Life:
    common = common_loops([touch.around for touch in touches])
    depth = next((k for k, loop in enumerate(common) if carries(loop, array, touches)), len(common))
    ends = [spans[t.around[depth]] if len(t.around) > depth else (t.number, t.number) for t in touches]
    threads = common[0] if array.private and common and common[0].threads else None
    return Life(min(first for first, _ in ends), max(last for _, last in ends), threads)


def carries(loop: Loop, array: Array, touches: list[Touch]) -> bool:
    """Tell whether what one iteration leaves in an array may be read by a later one, or is there for another thread.

    It may not where each iteration starts the array anew, and where its elements do not belong to iterations.
    """
    if loop.threads:
        return not array.private
    start = touches[0].statement
    if (
        start.target.array is not array or start.how != "=" or start.prefix or start.ranges
        or sum(touch.statement is start for touch in touches) > 1
        or any(isinstance(part, Lookup) for i in start.target.indices for part in parts(i))
    ):
        return True
    return any(p in loop.members for touch in touches for i in _kept(touch.access) for p in parts(i))


def _kept(access: Access) -> Iterator[Any]:
    """List the indices that tell one stored element from another, those within a tile's window left out."""
    array = access.array
    kept = range(len(access.indices)) if access.flat or array.kept is None else array.kept
    return (access.indices[d] for d in kept if d not in array.windows)


# -- slots


class Pool:
    """Slots of one place, given out by first fit in the order of the program."""

    def __init__(self, place: str, limit: int | None = None) -> None:
        """Start without memory; all slots together take no more than `limit` bytes."""
        self.place, self.limit = place, limit
        self.slots: list[Slot] = []
        self.bytes = 0
        self.free: dict[np.dtype[Any], list[tuple[int, int]]] = {}
        self.busy: list[tuple[int, int]] = []

    def take(self, size: Dim, dtype: np.dtype[Any], life: Life) -> Slot | None:
        """Return a slot that is free for a life, a new one where none fits; None where the limit forbids that."""
        while self.busy and self.busy[0][0] < life.first:
            ended = self.slots[heappop(self.busy)[1]]
            insort(self.free.setdefault(ended.dtype, []), (shapes.upper(ended.size), ended.number))
        slot = self._fitting(size, self.free.get(dtype, []))
        if slot is None:
            if self.limit is not None and self.bytes + size > self.limit:
                return None
            slot = Slot(len(self.slots), self.place, dtype, size)
            self.slots.append(slot)
            self.bytes += size if self.limit is not None else 0
        heappush(self.busy, (life.last, slot.number))
        return slot

    def _fitting(self, size: Dim, free: list[tuple[int, int]]) -> Slot | None:
        """Take the smallest free slot that is large enough; else, in the workspace, let the largest one grow."""
        at = bisect_left(free, (shapes.upper(size), -1))
        for k in range(at, min(at + TRIES, len(free))):
            if no_less(self.slots[free[k][1]].size, size):
                return self.slots[free.pop(k)[1]]
        for k in range(at - 1, max(at - 1 - TRIES, -1), -1) if self.limit is None else ():
            if no_less(size, self.slots[free[k][1]].size):
                slot = self.slots[free.pop(k)[1]]
                slot.size = size
                return slot
        return None

    def layout(self) -> Dim:
        """Give every slot its first byte, those of known size first; return the bytes of all."""
        large = [slot for slot in self.slots if type(slot.size) is int and slot.size >= LINE]
        small = [slot for slot in self.slots if type(slot.size) is int and slot.size < LINE]
        open_ = [slot for slot in self.slots if type(slot.size) is not int]
        offset: Any = 0
        for slots, unit in ((large, LINE), (small, WORD), (open_, LINE)):
            offset = aligned(offset, unit)
            for slot in slots:
                slot.offset = shapes.simplified(offset)
                offset = offset + aligned(slot.size, unit)
        return shapes.simplified(offset)


def no_less(one: Dim, other: Dim) -> bool:
    """Tell whether a size is certain to be at least another one."""
    if type(one) is int and type(other) is int:
        return one >= other
    difference: Any = one - other
    return bool(difference == 0 or difference.is_nonnegative)

"""`allocate`: which memory every array has, by liveness: arrays that are never alive together hold one slot in turn.

An array is alive from the statement that starts it to the last one that reads it. A loop in which an array is
touched, but around which it lives, keeps it alive from its first iteration to its last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir.index import shapes
from symgrad.ir.index.notation import How, Index, Statement, parts, reckoned, start_and_terms, symbolic
from symgrad.loops.machine import LINE, SLOTS_TRIED, STACK, STACK_TOTAL, WORD
from symgrad.loops.program import COUNT, Cond, Loop, Outlined, Place, Slot, Walk, accesses_in, common, touched, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from symgrad.ir.index.notation import Access
    from symgrad.ir.index.shapes import Dim, Shape
    from symgrad.loops.program import Array, Item, LoopProgram, Storage


class Life(NamedTuple):
    """From and to which statement, by their numbers in the program's order, an array is alive.

    Attributes:
        team: the loop over threads inside of which each thread has its own.
        homes: the C functions that touch it, None for the entry.
    """

    first: int
    last: int
    team: Loop | None = None
    homes: frozenset[Outlined | None] = frozenset([None])


class ArrayTouch(NamedTuple):
    """One access of an array: its item, the item's number, and what is around the item."""

    number: int
    item: Item
    access: Access
    around: tuple[Item, ...]
    team: Loop | None
    home: Outlined | None


def allocate(program: LoopProgram) -> LoopProgram:
    """Give every temporary that is no register its slot, and count the bytes of workspace.

    Arrays of one dtype share a slot when their lives do not meet and the one's size is known to be no less than the
    other's. What each thread has for itself is planned for one thread, and stands there once for each. An array that
    nobody touches is left out.
    """
    used = {access.array for access in accesses_in(program.body)}
    program = program.with_(arrays=tuple([a for a in program.arrays if a in used or a in program.inputs]))
    storage = program.storage
    wanted = [a for a in program.arrays if a.is_temporary and storage[a].is_memory]
    found = lives(program, wanted)
    stacks: dict[Any, SlotPool] = {}
    pools: dict[Item | None, SlotPool] = {None: SlotPool(Place.WORKSPACE)}
    chosen: dict[Array, GrowingSlot] = {}
    for array in sorted(wanted, key=lambda a: found[a].first):
        life, size = found[array], bytes_of(storage[array].shape, array.dtype)
        taken = None
        if type(size) is int and size <= STACK and len(life.homes) == 1:
            frame = (life.team, *life.homes)
            taken = stacks.setdefault(frame, SlotPool(Place.STACK, STACK_TOTAL)).take(size, array.dtype, life)
        pool = pools.setdefault(life.team, SlotPool(Place.WORKSPACE))
        chosen[array] = taken or pool.take(size, array.dtype, life)  # type: ignore[assignment]  # it has no limit
    workspace: Any = rounded_up(pools.pop(None).layout(), LINE)  # what is shared; behind it each thread's own
    steps = [rounded_up(pool.layout(), LINE) for pool in pools.values()]
    for pool, step in zip(pools.values(), steps, strict=True):  # loops over threads take turns
        for piece in pool.pieces:
            piece.offset, piece.step = shapes.simplified(workspace + piece.offset), step
    workspace = shapes.simplified(workspace + larger(steps) * COUNT) if steps else workspace
    counts = {team.count: shapes.symbol(str(team)) for team in program.teams if not isinstance(team.count, Index)}
    slots = {piece: piece.slot(counts, found[array].team is not None) for array, piece in chosen.items()}
    placed = {array: storage[array]._replace(slot=slots[piece]) for array, piece in chosen.items()}
    return program.with_storage(placed).with_(workspace=workspace)


def larger(sizes: list[Dim]) -> Any:
    """Return the largest of sizes, an expression where that depends on extents."""
    if all(type(size) is int for size in sizes):
        return max(sizes)
    import sympy

    return sympy.Max(*map(symbolic, sizes))


def bytes_of(shape: Shape, dtype: np.dtype[Any]) -> Dim:
    """Return how much memory elements take."""
    return shapes.simplified(shapes.size(shape) * dtype.itemsize)


def rounded_up(size: Any, unit: int) -> Any:
    """Round up to a multiple."""
    if isinstance(size, Index):  # for each thread
        start, terms = start_and_terms(size)
        return reckoned(rounded_up(start, unit), {part: rounded_up(step, unit) for part, step in terms.items()})
    if type(size) is not int and size.as_coeff_Mul()[0] % unit == 0:
        return size
    return shapes.simplified((size + unit - 1) // unit * unit)


# -- lives


def lives(program: LoopProgram, arrays: Iterable[Array]) -> dict[Array, Life]:
    """Return when each array is alive, and for whom."""
    touches: dict[Array, list[ArrayTouch]] = {array: [] for array in arrays}
    spans: dict[Item, tuple[int, int]] = {}
    previous: tuple[Item, ...] | None = None
    around: tuple[Item, ...] = ()
    team: Loop | None = None
    home: Outlined | None = None
    number = -1
    for item, outer in walk(program.body):
        accesses = touched(item)
        if not accesses:
            continue
        number += 1
        if outer is not previous:  # what stands in one block has the same around it
            previous, around = outer, tuple([one for one in outer if not isinstance(one, Outlined)])
            team = next((one for one in around if isinstance(one, Loop) and one.walk is Walk.THREADS), None)
            home = next((one for one in reversed(outer) if isinstance(one, Outlined)), None)
        inside = around if isinstance(item, Statement) else (*around, item)
        for one in inside:
            spans[one] = (spans[one][0] if one in spans else number, number)
        for access in accesses:
            if access.array in touches:
                touches[access.array].append(ArrayTouch(number, item, access, inside, team, home))
    return {array: _life(array, program.storage[array], found, spans) for array, found in touches.items()}


def _life(array: Array, storage: Storage, touches: list[ArrayTouch], spans: dict[Item, tuple[int, int]]) -> Life:
    team = touches[0].team
    for touch in touches:
        if team is not None and (touch.team is not team or team.axis in touch.access.indices):
            team = None
    shared = common([touch.around for touch in touches])
    depth = next((k for k, item in enumerate(shared) if carries(item, array, storage, touches, team)), len(shared))
    ends = [spans[t.around[depth]] if len(t.around) > depth else (t.number, t.number) for t in touches]
    homes = frozenset([touch.home for touch in touches])
    return Life(min([first for first, _ in ends]), max([last for _, last in ends]), team, homes)


def carries(item: Item, array: Array, storage: Storage, touches: list[ArrayTouch], team: Loop | None) -> bool:
    """Whether what one iteration leaves in an array may be read by a later one, or is there for another thread.

    It may not where each iteration starts the array anew, and where its elements do not belong to iterations.
    """
    if isinstance(item, Cond):
        return False
    if isinstance(item, Loop) and item.walk is Walk.THREADS:
        return team is None
    start = touches[0].item
    if (
        not isinstance(start, Statement) or start.target.array is not array or start.how != How.SET or start.prefix
        or start.ranges or sum([touch.item is start for touch in touches]) > 1 or start.target.is_indirect
        or any(isinstance(one, Cond) for one in touches[0].around)
    ):
        return True
    if not isinstance(item, Loop):
        return False
    stored = [d for d, tile in storage.kept.items() if tile is None]  # in a tile elements belong to no iteration
    for touch in touches:
        indices = touch.access.indices
        for index in indices if touch.access.flat else [indices[d] for d in stored]:
            if not item.members.isdisjoint(parts(index)):
                return True
    return False


# -- slots



@dataclass(eq=False)
class GrowingSlot:
    """A slot while it grows."""

    number: int
    place: Place
    dtype: np.dtype[Any]
    size: Dim
    offset: Any = 0
    step: Dim = 0

    def slot(self, counts: dict[Any, Any], private: bool) -> Slot:
        """Return it for good, its place depending on the names of teams instead of what they are counted by."""
        offset = self.offset if type(self.offset) is int or not counts else symbolic(self.offset).xreplace(counts)
        return Slot(self.place, self.dtype, self.size, offset, self.step, private)


class SlotPool:
    """Slots of one place, given out by first fit in the order of the program."""

    def __init__(self, place: Place, limit: int | None = None) -> None:
        """Start without memory; all slots together take no more than `limit` bytes."""
        self.place, self.limit = place, limit
        self.pieces: list[GrowingSlot] = []
        self.bytes = 0
        self.free: dict[np.dtype[Any], list[tuple[int, int]]] = {}
        self.busy: list[tuple[int, int]] = []

    def take(self, size: Dim, dtype: np.dtype[Any], life: Life) -> GrowingSlot | None:
        """Return a piece that is free for a life, a new one where none fits; None where the limit forbids that."""
        while self.busy and self.busy[0][0] < life.first:
            ended = self.pieces[heappop(self.busy)[1]]
            insort(self.free.setdefault(ended.dtype, []), (shapes.upper(ended.size), ended.number))
        piece = self._fitting(size, self.free.get(dtype, []))
        if piece is None:
            if self.limit is not None and self.bytes + size > self.limit:
                return None
            piece = GrowingSlot(len(self.pieces), self.place, dtype, size)
            self.pieces.append(piece)
            self.bytes += size if self.limit is not None else 0
        heappush(self.busy, (life.last, piece.number))
        return piece

    def _fitting(self, size: Dim, free: list[tuple[int, int]]) -> GrowingSlot | None:
        """Take the smallest free piece that is large enough; else, in the workspace, let the largest one grow."""
        at = bisect_left(free, (shapes.upper(size), -1))
        for k in range(at, min(at + SLOTS_TRIED, len(free))):
            if no_less(self.pieces[free[k][1]].size, size):
                return self.pieces[free.pop(k)[1]]
        for k in range(at - 1, max(at - 1 - SLOTS_TRIED, -1), -1) if self.limit is None else ():
            if no_less(size, self.pieces[free[k][1]].size):
                piece = self.pieces[free.pop(k)[1]]
                piece.size = size
                return piece
        return None

    def layout(self) -> Dim:
        """Give every piece its first byte, those of known size first; return the bytes of all."""
        large = [piece for piece in self.pieces if type(piece.size) is int and piece.size >= LINE]
        small = [piece for piece in self.pieces if type(piece.size) is int and piece.size < LINE]
        open_ = [piece for piece in self.pieces if type(piece.size) is not int]
        offset: Any = 0
        for pieces, unit in ((large, LINE), (small, WORD), (open_, LINE)):
            offset = rounded_up(offset, unit)
            for piece in pieces:
                piece.offset = shapes.simplified(offset)
                offset = offset + rounded_up(piece.size, unit)
        return shapes.simplified(offset)


def no_less(one: Dim, other: Dim) -> bool:
    """Whether a size is certain to be at least another one."""
    difference: Any = one - other
    return difference >= 0 if type(difference) is int else bool(difference == 0 or difference.is_nonnegative)

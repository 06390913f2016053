"""`plan`: which memory every array has, by liveness: arrays that are never alive together hold one slot in turn.

An array is alive from the statement that starts it to the last one that reads it. A loop in which an array is
touched, but around which it lives, keeps it alive from its first iteration to its last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir import shapes
from symgrad.ir.notation import Lookup, Statement, parts
from symgrad.loops.machine import LINE, SLOTS_TRIED, STACK, STACK_TOTAL, WORD
from symgrad.loops.nest.outline import functions
from symgrad.loops.program import Cond, Loop, Outlined, Place, Slot, Walk, common, touched, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from symgrad.ir.notation import Access
    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import Array, Item, Items, LoopProgram


class Life(NamedTuple):
    """The statements, by their number in the program's order, from and to which an array is alive.

    `threads` is the loop over threads inside of which each thread has its own.
    """

    first: int
    last: int
    threads: Loop | None


class Touch(NamedTuple):
    """One access of an array, its item's number, and what is around the item."""

    number: int
    item: Item
    access: Access
    around: tuple[Item, ...]


def plan(program: LoopProgram) -> LoopProgram:
    """Give every temporary that is no register its slot, and count the bytes of workspace.

    Arrays of one dtype share a slot when their lives do not meet and the one's size is known to be no less than the
    other's. What each thread has for itself is planned for one thread, and stands there once for each.
    """
    wanted = [a for a in program.arrays if a.is_temporary and a.is_memory]
    own = private(program.body)
    found = lives(program.body, wanted, own)
    homes = functions(program.body)
    stacks: dict[Any, Pool] = {}
    pools: dict[Item | None, Pool] = {None: Pool(Place.WORKSPACE)}
    chosen: dict[Array, Piece] = {}
    for array in sorted(wanted, key=lambda a: found[a].first):
        life, size = found[array], bytes_of(array)
        piece = None
        if type(size) is int and size <= STACK and len(homes[array]) == 1:
            frame = (life.threads, *homes[array])
            piece = stacks.setdefault(frame, Pool(Place.STACK, STACK_TOTAL)).take(size, array.dtype, life)
        pool = pools.setdefault(life.threads, Pool(Place.WORKSPACE))
        chosen[array] = piece or pool.take(size, array.dtype, life)  # type: ignore[assignment]  # it has no limit
    workspace = _laid_out(pools)
    counts = {team.count: shapes.symbol(str(team)) for team in program.teams}
    slots: dict[int, Slot] = {}
    for piece in chosen.values():
        if id(piece) not in slots:
            slots[id(piece)] = piece.slot(counts)
    named = {a: replace(a, slot=slots[id(p)], place=slots[id(p)].place, private=a in own) for a, p in chosen.items()}
    return replace(program.renamed(named), workspace=workspace)


def _laid_out(pools: dict[Item | None, Pool]) -> Dim:
    """Put what is shared first, and behind it what every thread has for itself; loops over threads take turns."""
    total = aligned(pools.pop(None).layout(), LINE)
    steps = []
    for pool in pools.values():
        step = aligned(pool.layout(), LINE)
        steps.append(step)
        for piece in pool.pieces:
            piece.offset, piece.step = shapes.simplified(total + piece.offset), step
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


def private(items: Items) -> set[Array]:
    """Collect the arrays that live inside of one loop over threads, where each thread has its own."""
    if not any(isinstance(item, Loop) and item.walk is Walk.THREADS for item, _ in walk(items)):
        return set()
    inside: dict[Array, set[Loop | None]] = {}
    kept: set[Array] = set()
    previous: tuple[Item, ...] = ()
    team: Loop | None = None
    for item, around in walk(items):
        if around is not previous:  # what stands in one block has the same around it
            previous, team = around, _team(around)
        for access in touched(item):
            inside.setdefault(access.array, set()).add(team)
            if team is not None and team.axis in access.indices:
                kept.add(access.array)
    return {array for array, teams in inside.items() if None not in teams and len(teams) == 1} - kept


def _team(around: tuple[Item, ...]) -> Loop | None:
    """Return the loop over threads around a place."""
    return next((one for one in around if isinstance(one, Loop) and one.walk is Walk.THREADS), None)


def lives(items: Items, arrays: Iterable[Array], own: set[Array]) -> dict[Array, Life]:
    """Return when each array is alive; each thread has those that are its `own`."""
    touches: dict[Array, list[Touch]] = {array: [] for array in arrays}
    spans: dict[Item, tuple[int, int]] = {}
    previous: tuple[Item, ...] = ()
    inside: tuple[Item, ...] = ()
    number = -1
    for item, outer in walk(items):
        accesses = touched(item)
        if not accesses:
            continue
        number += 1
        if outer is not previous:  # what stands in one block has the same around it
            previous, inside = outer, tuple([one for one in outer if not isinstance(one, Outlined)])
        around = inside if isinstance(item, Statement) else (*inside, item)
        for one in around:
            spans[one] = (spans.get(one, (number, number))[0], number)
        for access in accesses:
            if access.array in touches:
                touches[access.array].append(Touch(number, item, access, around))
    return {array: _life(array, found, spans, array in own) for array, found in touches.items()}


def _life(array: Array, touches: list[Touch], spans: dict[Item, tuple[int, int]], own: bool) -> Life:
    shared = common([touch.around for touch in touches])
    depth = next((k for k, item in enumerate(shared) if carries(item, array, touches, own)), len(shared))
    ends = [spans[t.around[depth]] if len(t.around) > depth else (t.number, t.number) for t in touches]
    return Life(min(first for first, _ in ends), max(last for _, last in ends), _team(shared) if own else None)


def carries(item: Item, array: Array, touches: list[Touch], own: bool) -> bool:
    """Whether what one iteration leaves in an array may be read by a later one, or is there for another thread.

    It may not where each iteration starts the array anew, and where its elements do not belong to iterations.
    """
    if isinstance(item, Cond):
        return False
    if isinstance(item, Loop) and item.walk is Walk.THREADS:
        return not own
    start = touches[0].item
    if (
        not isinstance(start, Statement) or start.target.array is not array or start.how != "=" or start.prefix
        or start.ranges or sum(touch.item is start for touch in touches) > 1
        or any(isinstance(part, Lookup) for i in start.target.indices for part in parts(i))
        or any(isinstance(one, Cond) for one in touches[0].around)
    ):
        return True
    members = item.members if isinstance(item, Loop) else ()
    return any(p in members for touch in touches for i in _kept(touch.access) for p in parts(i))


def _kept(access: Access) -> Iterator[Any]:
    """List the indices that tell one stored element from another, those within a tile's window left out."""
    array = access.array
    kept = range(len(access.indices)) if access.flat or array.kept is None else array.kept
    windows = dict(array.windows)
    return (access.indices[d] for d in kept if d not in windows)


# -- slots


@dataclass(eq=False)
class Piece:
    """A slot while it grows."""

    number: int
    place: Place
    dtype: np.dtype[Any]
    size: Dim
    offset: Any = 0
    step: Dim = 0

    def slot(self, counts: dict[Any, Any]) -> Slot:
        """Return it for good, its place depending on the names of teams instead of what they are counted by."""
        offset = self.offset if type(self.offset) is int or not counts else self.offset.xreplace(counts)
        return Slot(self.place, self.dtype, self.size, offset, self.step)


class Pool:
    """Slots of one place, given out by first fit in the order of the program."""

    def __init__(self, place: Place, limit: int | None = None) -> None:
        """Start without memory; all slots together take no more than `limit` bytes."""
        self.place, self.limit = place, limit
        self.pieces: list[Piece] = []
        self.bytes = 0
        self.free: dict[np.dtype[Any], list[tuple[int, int]]] = {}
        self.busy: list[tuple[int, int]] = []

    def take(self, size: Dim, dtype: np.dtype[Any], life: Life) -> Piece | None:
        """Return a piece that is free for a life, a new one where none fits; None where the limit forbids that."""
        while self.busy and self.busy[0][0] < life.first:
            ended = self.pieces[heappop(self.busy)[1]]
            insort(self.free.setdefault(ended.dtype, []), (shapes.upper(ended.size), ended.number))
        piece = self._fitting(size, self.free.get(dtype, []))
        if piece is None:
            if self.limit is not None and self.bytes + size > self.limit:
                return None
            piece = Piece(len(self.pieces), self.place, dtype, size)
            self.pieces.append(piece)
            self.bytes += size if self.limit is not None else 0
        heappush(self.busy, (life.last, piece.number))
        return piece

    def _fitting(self, size: Dim, free: list[tuple[int, int]]) -> Piece | None:
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
            offset = aligned(offset, unit)
            for piece in pieces:
                piece.offset = shapes.simplified(offset)
                offset = offset + aligned(piece.size, unit)
        return shapes.simplified(offset)


def no_less(one: Dim, other: Dim) -> bool:
    """Whether a size is certain to be at least another one."""
    if type(one) is int and type(other) is int:
        return one >= other
    difference: Any = one - other
    return bool(difference == 0 or difference.is_nonnegative)

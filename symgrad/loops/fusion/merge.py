"""`merge`: in a loop whose steps follow each other, nests over equal extents become one where no value stands between.

`fuse` joins what arrays link. What a step keeps for later, and what it carries on, is copied by nests of their own, of
equal extents: merged with the nest that makes it, a value that is carried on is written where it is read (typed
fusion; K. Kennedy, K. McKinley, 1993).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from symgrad.ir.index.notation import Access, Axis, How, Statement, linear
from symgrad.loops.machine import LONG, NESTS_TRIED
from symgrad.loops.program import Array, Cond, Item, Items, Loop, LoopProgram, Tile, Walk, While, rebuild, touched, walk


def merge(program: LoopProgram) -> LoopProgram:
    """Merge nests in the bodies of loops whose steps follow each other."""

    def change(_: Item, item: Any) -> Item:
        if isinstance(item, Loop) and item.walk is not Walk.SEQUENTIAL:
            return item
        body = _beside_earlier(rebuild(item.body, _untiled, Loop))
        body = rebuild(body, lambda _, one: one if isinstance(one, Loop) and one.tile is None else one.with_blocks(
            *map(_beside_earlier, one.blocks)), (Loop, Cond))
        return item.with_(body=body)  # type: ignore[no-any-return]

    return program.with_body(rebuild(program.body, change, (Loop, While)))


def _untiled(_: Item, loop: Loop) -> Items:
    """Leave a loop over a tile that is all there is without it: what is carried stands beside its nests."""
    if loop.tile is None or not loop.tile.is_whole:
        return (loop,)
    return rebuild(loop.body, lambda _, one: one.with_(window=None) if one.window is loop.tile else one, Loop)


Touches = dict["Array", list[tuple["Access", bool]]]
"""What is touched of each array, each with whether it is written."""


class PerfectNest(NamedTuple):
    """A perfect nest of statements that set elements, or add to sums."""

    loops: tuple[Loop, ...]
    body: Items
    touches: Touches

    @property
    def kind(self) -> tuple[tuple[Any, Tile | None], ...]:
        """What two nests must have in common."""
        return tuple([(loop.extent, loop.window) for loop in self.loops])


def _beside_earlier(items: Items) -> Items:
    """Let nests move to the earliest ones of equal extents that they can move to, then to later ones."""
    return _moved_nests(_moved_nests(items, 1), -1)


def _moved_nests(items: Items, way: int) -> Items:
    """Let nests move to earlier ones; the other way round, to later ones."""
    made: list[Item] = []
    used: dict[Array, int] = {}  # the last places that do, of those so far
    written: dict[Array, int] = {}
    nests: dict[Any, dict[int, PerfectNest]] = {}
    for item in items[::way]:
        touches = touches_of(item)
        writes = writes_of(touches)
        after = max([*[written.get(a, 0) for a in touches], *[used.get(a, 0) for a in writes]], default=0)
        mine = nest_of(item, touches)
        place = len(made)
        if mine is not None:
            beside = nests.setdefault(mine.kind, {})
            able = [k for k in reversed([*beside][-NESTS_TRIED:]) if k >= after and _may_merge(beside[k], mine)]
            place = min(able, default=place)
            if able:
                made[place] = _one_nest(*(beside[place], mine)[::way])
                mine = nest_of(made[place], touches_of(made[place]))
            beside[place] = mine  # type: ignore[assignment]  # it is one
        if place == len(made):
            made.append(item)
        used.update({array: max(place, used.get(array, 0)) for array in touches})
        written.update({array: max(place, written.get(array, 0)) for array in writes})
    return items if len(made) == len(items) else tuple(made[::way])


def touches_of(item: Item) -> Touches:
    """Collect what an item touches."""
    found: Touches = {}
    for one, _ in walk([item]):
        for k, access in enumerate(touched(one)):
            found.setdefault(access.array, []).append((access, k == 0 and isinstance(one, Statement)))
    return found


def writes_of(touches: Touches) -> set[Array]:
    """Return what is written."""
    return {array for array, own in touches.items() if any(also for _, also in own)}


def nest_of(item: Item, touches: Touches) -> PerfectNest | None:
    """Return an item as a nest; None where it is none."""
    loops: list[Loop] = []
    body: Items = (item,)
    while len(body) == 1 and isinstance(body[0], Loop):
        loops.append(body[0])
        body = body[0].body
    plain = loops and all(one.walk is Walk.FREE and one.tile is None for one in loops) and all(
        isinstance(s, Statement) and s.how in {How.SET, How.ADD} and not s.is_contraction
        and not (s.ranges or s.prefix or s.may_fail) for s in body
    )
    return PerfectNest(tuple(loops), body, touches) if plain else None


def _one_nest(first: PerfectNest, second: PerfectNest) -> Loop:
    body: Items = (*first.body, *second.body)
    for one, other in zip(reversed(first.loops), reversed(second.loops), strict=True):
        body = (one.with_(body=body, members=one.members | other.members),)
    return body[0]  # type: ignore[return-value]  # a nest has a loop


def _may_merge(one: PerfectNest, other: PerfectNest) -> bool:
    """Whether iterations of two nests may take turns: what one writes, the other touches in the same one, or never."""
    if len(one.body) + len(other.body) > LONG:
        return False
    places = {(axis, k) for nest in (one, other) for k, loop in enumerate(nest.loops) for axis in loop.members}
    number = dict(places)
    return len(number) == len(places) and all(  # a class that is outer here and inner there is not one loop
        not (writes or also) or walk_together(a, b, number, len(one.loops)) or _never_meet(a, b)
        for array in one.touches.keys() & other.touches.keys()
        for a, writes in one.touches[array] for b, also in other.touches[array]
    )


def walk_together(a: Access, b: Access, number: dict[Axis, int], loops: int) -> bool:
    """Whether two accesses walk along each other with every loop: what one iteration touches, no other one does."""
    if a.flat or b.flat:
        return False
    pairs = zip(a.indices, b.indices, strict=True)
    return len({number[i] for i, j in pairs if i in number and j in number and number[i] == number[j]}) == loops


def _never_meet(a: Access, b: Access) -> bool:
    """Whether two accesses touch no common element, by the ends of an index."""
    for i, j in zip(a.indices, b.indices, strict=True) if a.flat is b.flat else ():
        one, other = _index_ends(i), _index_ends(j)
        if one and other and (one[1] < other[0] or other[1] < one[0]):
            return True
    return False


def _index_ends(index: Any) -> tuple[int, int] | None:
    form = linear(index)
    if form is None or any((type(p), type(p.extent), type(n)) != (Axis, int, int) for p, n in form.terms):
        return None
    low = sum([min(0, step * (p.extent - 1)) for p, step in form.terms])
    high = sum([max(0, step * (p.extent - 1)) for p, step in form.terms])
    return (form.start + low, form.start + high) if type(form.start) is int else None


# -- what is written in place


def sunk(items: Items, array: Array) -> Items:
    """Move what touches an array, and what that is needed for, behind all the rest."""
    early: list[Item] = []
    late: list[Item] = []
    written: set[Array] = {array}
    used: set[Array] = {array}
    for item in items:
        touches = touches_of(item)
        writes = writes_of(touches)
        if written.isdisjoint(touches) and used.isdisjoint(writes):
            early.append(item)
        else:
            late.append(item)
            written |= writes
            used.update(touches)
    return (*early, *late)


def overwrites(items: Items, old: Array, new: Array) -> bool:
    """Whether one array may be another one's memory: where it is written, the other has been read."""
    begun = False
    for item in items:
        touches = touches_of(item)
        if begun and old in touches:
            return False
        begun = begun or new in touches
        if old in touches and new in touches and not isinstance(item, Statement):
            nest = nest_of(item, touches)
            if nest is None or not _reads_first(nest, old, new):
                return False
    return True


def _reads_first(nest: PerfectNest, old: Array, new: Array) -> bool:
    number = {axis: k for k, loop in enumerate(nest.loops) for axis in loop.members}
    arrays = [{a.array for a in s.touched} for s in nest.body]  # type: ignore[union-attr]  # statements
    last = max(k for k, own in enumerate(arrays) if old in own)
    return last <= min(k for k, own in enumerate(arrays) if new in own) and all(
        walk_together(a, b, number, len(nest.loops)) for a, _ in nest.touches[old] for b, _ in nest.touches[new]
    )

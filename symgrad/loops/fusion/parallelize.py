"""`parallelize`: the tiles of an outermost loop are shared out among threads, where the work pays for it.

Every thread takes a run of neighbouring tiles and sums for itself; the sums are added in the threads' order. So a
result depends on how many threads there are, and on nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

from symgrad.ir.index.notation import Access, Axis, How, Number, Statement, axes_of, linear
from symgrad.ir.index.shapes import size, symbol, upper
from symgrad.loops.cost import effort, operations_of, walked
from symgrad.loops.machine import BLOCKED, COPIES_BYTES, COPY_BYTES, COPYING, LINE, PAYS, STACK
from symgrad.loops.program import (
    COUNT,
    THREADS,
    Array,
    Item,
    Items,
    Kind,
    Loop,
    LoopProgram,
    Share,
    Team,
    Walk,
    accesses_in,
    in_loops,
    over_all,
    rebuild,
    temporary,
)
from symgrad.ops.arrays.reduce import first_value
from symgrad.options import TEAM


def parallelize(program: LoopProgram, sooner: int = 1) -> LoopProgram:
    """Share out the tiles of every outermost loop where that is right and pays, if need be with a part of the work."""
    users: dict[Array, set[int]] = {}
    for number, item in enumerate(program.body):
        for access in accesses_in([item]):
            users.setdefault(access.array, set()).add(number)
    body: list[Item] = []
    new: list[Array] = []
    order = {array: place for place, array in enumerate(program.arrays)}
    teams = count(1)
    for number, item in enumerate(program.body):
        if isinstance(item, Loop) and item.tile and not item.tile.is_whole and pays(item, sooner):
            own = {a for a, numbers in users.items() if numbers == {number} and a.is_temporary}
            if independent(item, own):
                body += shared(item, own, order, new, teams, sooner)
                continue
        body.append(item)
    return program.with_body(tuple(body), new)


def when_shared(loop: Loop, sooner: int) -> tuple[Any, int, int]:
    """Say when a loop is worth sharing out, as `Loop.enough` does: an extent, or a count of operations.

    Where each iteration is known work, the loop's own extent tells; else the unknown extents together do.
    """
    every: Any = 0
    least = PAYS // sooner
    unit = BLOCKED if any(statement.is_contraction for statement, _ in loop.paths) else 1
    for statement, around in loop.paths:
        every = every + effort(statement, unit) * size(walked(around))
    rest = every - loop.extent * (unit * operations_of(loop) // max(1, upper(loop.extent)))
    if rest == 0 or type(every) is int:
        return loop.extent, max(1, least * upper(loop.extent) // max(1, operations_of(loop))), sooner
    return every, unit * least, sooner


def pays(loop: Loop, sooner: int = 1) -> bool:
    """Whether a loop has work enough."""
    return operations_of(loop) >= PAYS // sooner


def independent(loop: Loop, own: set[Array]) -> bool:
    """Whether iterations touch only what is theirs: their own elements, and sums that copies can be made of."""
    flat = [statement for statement, _ in loop.paths]
    uses = Counter([access.array for access in accesses_in([loop])])
    sums = Counter([(statement.target.array, statement.how) for statement in flat])
    pay = operations_of(loop) // COPYING
    for statement in flat:
        if statement.prefix:
            return False
        target = statement.target
        if target.array in own or writes_own(target, loop):
            continue
        alone = uses[target.array] == sums[target.array, statement.how]
        if not is_total(statement, own, loop) and not (alone and grows(statement, loop, pay)):
            return False
    return True


def writes_own(target: Access, loop: Loop) -> bool:
    """Whether each iteration writes elements of its own."""
    if not target.flat:
        return any(i in loop.members for i in target.indices)
    form = linear(target.indices[0])
    if form is None or any(type(n) is not int for axis, step in form.terms for n in (step, axis.extent)):
        return False
    mine = sum([step for axis, step in form.terms if axis in loop.members])
    return bool(mine > sum([abs(step) * (axis.extent - 1) for axis, step in form.terms if axis not in loop.members]))


def grows(statement: Statement, loop: Loop, most: int) -> bool:
    """Whether this is a sum, or the like, over the loop, of so few elements that a thread's own copy pays."""
    array = statement.target.array
    if statement.how == How.SET or statement.target.is_indirect or statement.target.along(loop.members):
        return False
    if has_open_size(array):
        return upper(repaid(loop, array)) > 0
    size = array.elements
    return bool(size * array.dtype.itemsize <= COPY_BYTES and size <= most)


def has_open_size(array: Array) -> bool:
    """Whether an array is of unknown size."""
    return type(size(array.shape)) is not int


def repaid(loop: Loop, array: Array) -> Any:
    """Count the copies of a sum of open extents that the work of a loop pays for: operations for each element."""
    total: Any = 0
    for statement, around in loop.paths:
        done = effort(statement) * size(walked(around)) / size(array.shape)
        total = total + (done if getattr(done, "is_polynomial", bool)() else 0)
    return total // (BLOCKED * COPYING)


def copying_threads(loop: Loop, sums: list[Array]) -> Any:
    """Count the threads that get copies of sums: of open extents as many as the work pays for, and memory allows."""
    wide = [array for array in sums if has_open_size(array)]
    if not wide:
        return COUNT - 1
    import sympy

    room = COPIES_BYTES // sum(size(array.shape) * array.dtype.itemsize + LINE for array in wide)
    return sympy.Min(symbol("threads") - 1, room, *[repaid(loop, array) for array in wide])


def is_total(statement: Statement, own: set[Array], loop: Loop) -> bool:
    """Whether a tile's sum is added to the whole sum; what has an element for each iteration is none."""
    if statement.how != How.ADD or not isinstance(statement.value, Access) or statement.value.array not in own:
        return False
    target = statement.target
    return not (has_open_size(target.array) or target.is_indirect or target.along(loop.members))


def shared(
    loop: Loop, own: set[Array], order: dict[Array, int], new: list[Array], teams: Iterator[int], sooner: int,
) -> list[Item]:
    """Put a loop over threads around a loop over tiles; new arrays go to `new`."""
    flat = [statement for statement, _ in loop.paths if statement.target.array not in own]
    # A number, and what a tile's sum is added to, are a thread's own; of other sums it has a copy.
    totals = {s.target.array: s.how for s in flat if is_total(s, own, loop) or not s.target.array.shape}
    grown = {s.target.array: s.how for s in flat if s.target.array not in totals and not writes_own(s.target, loop)}
    sums = sorted(grown, key=order.__getitem__)
    copies = Team(f"copies{next(teams)}", copying_threads(loop, sums)) if sums else THREADS
    team = Team(f"{copies.name} + 1", copies.count + 1) if any(map(has_open_size, sums)) else THREADS
    thread, again = Axis("t", team), Axis("t", team)
    first: list[Item] = []
    before: list[Item] = []
    after: list[Item] = []
    combined: list[Item] = []
    last: list[Item] = []
    mine: dict[Array, Array] = {}
    seen: dict[Array, Share] = {}
    for array in sums:
        share, start, end = spread(array, grown[array], copies)
        seen[array] = share
        new.extend((share.seen, share.rest))
        first += start
        last += end
    for array in sorted(totals, key=order.__getitem__):
        mine[array], kept, start, store, add = totalled(array, totals[array], thread, again)
        new.extend((mine[array], kept))
        before += start
        after += store
        combined += add

    def change(_: Item, item: Item) -> Item:
        """Let totals go into a thread's own sums, and other sums into what a thread sees as them."""
        if not isinstance(item, Statement):
            return item
        target = item.target
        if target.array in mine and (is_total(item, own, loop) or not target.array.shape):
            target = Access(mine[target.array], target.indices)
        if target.array in seen:
            target = Access(seen[target.array].seen, target.indices)
        return item if target is item.target else item.with_(target=target)

    tiles = loop.with_(body=rebuild(loop.body, change), team=thread)
    outer = Loop(
        thread, frozenset([thread]), (*before, tiles, *after), Walk.THREADS, shares=tuple(seen.values()),
        enough=when_shared(loop, sooner),
    )
    added = [Loop(again, frozenset([again]), tuple(combined), Walk.SEQUENTIAL)] if combined else []
    return [*first, outer, *added, *last]


def spread(array: Array, how: How, copies: Team) -> tuple[Share, Items, Items]:
    """Give threads copies of a sum, all but the first, which works in the sum itself.

    Returns:
        The sum as a thread sees it, what starts the copies, and what adds them to the sum.
    """
    every = size(array.shape)
    rest = temporary("copies", (copies.count, every + LINE // array.dtype.itemsize), array)
    seen = Array(array.name, array.shape, array.dtype, Kind.SHARE, array.line)
    begun, added = [(Axis("t", copies), Axis("i", every)) for _ in range(2)]
    start = Number(first_value(how, array.dtype), array.dtype)
    zero = Statement(Access(rest, begun), How.SET, start, begun)
    add = Statement(Access(array, added[1:], flat=True), how, Access(rest, added), added)
    return Share(seen, array, rest), in_loops([zero], begun), in_loops([add], added, Walk.SEQUENTIAL)


def totalled(array: Array, how: How, thread: Axis, again: Axis) -> tuple[Array, Array, Items, Items, Items]:
    """Let each thread add up a total, and keep it when it is done.

    Returns:
        A thread's own total, where they are kept, what starts one, what keeps it, and what adds it to the others.
    """
    mine = temporary("own", array.shape, array)
    bytes_ = TEAM * size(array.shape) * array.dtype.itemsize
    threads = TEAM if type(bytes_) is int and bytes_ <= STACK else COUNT  # as many as there may be, on the stack
    kept = temporary("copies", (threads, *array.shape), array)
    store, last = axes_of(array.shape), axes_of(array.shape)
    zero = over_all(mine, How.SET, Number(first_value(how, array.dtype), array.dtype))
    keep = Statement(Access(kept, (thread, *store)), How.SET, Access(mine, store), store)
    add = Statement(Access(array, last), how, Access(kept, (again, *last)), (again, *last))
    return mine, kept, zero, in_loops([keep], store), in_loops([add], last)

"""`share`: the tiles of an outermost loop are shared out among threads, where the work pays for it.

Every thread takes a run of neighbouring tiles and sums for itself; the sums are added in the threads' order. So a
result depends on how many threads there are, and on nothing else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Access, Apply, Axis, Lookup, Number, Statement, axes_of, parts
from symgrad.ir.shapes import size, symbol, upper
from symgrad.loops.lower import elements
from symgrad.loops.memory import STACK
from symgrad.loops.products import is_product
from symgrad.loops.program import Array, Loop
from symgrad.loops.store import paths, touched
from symgrad.ops.reduce import first_value
from symgrad.options import TEAM

if TYPE_CHECKING:
    import numpy as np

    from symgrad.ir.shapes import Shape
    from symgrad.loops.program import Item

PAYS = 3_200_000
"""Operations of a loop that are worth waking threads for: about a tenth of a millisecond, so that a thread which
another program keeps from running does not cost more than it brings."""

MOST = 1 << 23
"""A thread's own copy of a sum has at most so many bytes."""

COPYING = 32
"""A thread's own copy of a sum pays when there is so much work for each of its elements."""

FAR = 1 << 20
"""What is read from an array known to have more bytes counts as two operations."""

LINE = 64
"""Bytes of a cache line."""

MATRIX = 64
"""A guess at unknown extents of a matrix that a routine works on."""

BLOCKED = 4
"""So many operations of products in register blocks take the time of one elsewhere."""

CALL = 8
"""A function of math.h counts as so many operations."""


class Team(int):
    """The extent of a loop over threads: at most `TEAM`, and in C the parameter ``threads``."""

    is_Symbol = True  # noqa: N815 - what SymPy calls it, for the printer
    is_Integer = False  # noqa: N815
    name = "threads"

    def __str__(self) -> str:
        """Print the parameter."""
        return self.name


THREADS = Team(TEAM)


def share(items: list[Item], arrays: list[Array]) -> list[Item]:
    """Share out the tiles of every outermost loop where that is right and pays; new arrays go to `arrays`."""
    users: dict[Array, set[int]] = {}
    for number, item in enumerate(items):
        for statement, _ in paths([item]):
            for access in touched(statement):
                users.setdefault(access.array, set()).add(number)
    made: list[Item] = []
    for number, item in enumerate(items):
        if isinstance(item, Loop) and item.tile and pays(item):
            own = {a for a, numbers in users.items() if numbers == {number} and a.kind == "temporary"}
            if independent(item, own):
                made.extend(shared(item, own, arrays))
                continue
        made.append(item)
    return made


def work(loop: Loop) -> int:
    """Count the operations of a loop, as many as take the time of what it does."""
    total = 0
    for statement, around in paths([loop]):
        walked = [outer for outer in around if not (outer.tile and any(x.window is outer for x in around))]
        total += effort(statement) * elements([outer.extent for outer in walked])
    return total // BLOCKED


def effort(statement: Statement, unit: int = BLOCKED) -> int:
    """Count the operations of a statement, each as `unit`, those of products as one."""
    return operations(statement) * (1 if is_product(statement) else unit)


def operations(statement: Statement) -> int:
    """Count the operations of a statement: what its value applies or its routine does, its store, and far loads."""
    count = 1 if statement.routine is None else upper(statement.routine.work, MATRIX)
    sizes = [size(a.array.shape) * a.array.dtype.itemsize for a in statement.reads]
    count += 2 * sum(type(size) is int and size > FAR for size in sizes)
    stack: list[Any] = [statement.value]
    while stack:
        value = stack.pop()
        if isinstance(value, Apply):
            spelled = value.op.c.get(value.kind.kind, "")
            count += CALL if spelled.isidentifier() or "sg_" in spelled else 1
            stack.extend(value.args)
    return count


def condition(loop: Loop) -> tuple[Any, int]:
    """Say when a loop is worth sharing out: an extent, or a count of operations, and the least it must be.

    Where each iteration is known work, the loop's own extent tells; else the unknown extents together do.
    """
    every: Any = 0
    unit = BLOCKED if any(is_product(statement) for statement, _ in paths([loop])) else 1
    for statement, around in paths([loop]):
        walked = [outer.extent for outer in around if not (outer.tile and any(x.window is outer for x in around))]
        every = every + effort(statement, unit) * size(tuple(walked))
    rest = every - loop.extent * (unit * work(loop) // max(1, upper(loop.extent)))
    if rest == 0 or type(every) is int:
        return loop.extent, max(1, PAYS * upper(loop.extent) // max(1, work(loop)))
    return every, unit * PAYS


def pays(loop: Loop) -> bool:
    """Tell a loop with work enough."""
    return work(loop) >= PAYS


def independent(loop: Loop, own: set[Array]) -> bool:
    """Tell whether iterations touch only what is theirs: their own elements, and sums that copies can be made of."""
    flat = _flat(loop)
    uses = Counter([access.array for statement in flat for access in touched(statement)])
    pay = work(loop) // COPYING
    for statement in flat:
        if statement.prefix:
            return False
        target = statement.target
        if target.array in own or any(i in loop.members for i in target.indices):
            continue
        if not is_total(statement, own, loop) and not (uses[target.array] == 1 and grows(statement, loop, pay)):
            return False
    return True


def grows(statement: Statement, loop: Loop, most: int) -> bool:
    """Tell a sum, or another accumulation over the loop, of so few elements that a thread's own copy pays."""
    array = statement.target.array
    if statement.how == "=" or any(
        not isinstance(i, int) and any(p in loop.members or isinstance(p, Lookup) for p in parts(i))
        for i in statement.target.indices
    ):
        return False
    size = elements(array.shape)
    return size * array.dtype.itemsize <= MOST and size <= most


def _flat(item: Item) -> list[Statement]:
    return [s for s, _ in paths([item])]


def is_total(statement: Statement, own: set[Array], loop: Loop) -> bool:
    """Tell the addition of a tile's sum to the whole sum; what has an element for each iteration is none."""
    if statement.how != "+=" or not isinstance(statement.value, Access) or statement.value.array not in own:
        return False
    return not any(p in loop.members or isinstance(p, Lookup) for i in statement.target.indices for p in parts(i))


def shared(loop: Loop, own: set[Array], arrays: list[Array]) -> list[Item]:
    """Put a loop over threads around a loop over tiles."""
    thread, again = Axis("t", THREADS), Axis("t", THREADS)
    before: list[Item] = []
    after: list[Item] = []
    combined: list[Item] = []
    flat = _flat(loop)
    totals = {s.target.array for s in flat if s.target.array not in own and is_total(s, own, loop)}
    grown = {s.target.array: s.how for s in flat if s.target.array not in own and s.target.array not in totals
             and not any(i in loop.members for i in s.target.indices)}
    named: dict[Array, Array] = {}
    slices: dict[Array, Array] = {}
    for array in sorted(grown, key=arrays.index):
        apart = LINE // array.dtype.itemsize  # two threads never write to one cache line
        shape = (*array.shape[:-1], array.shape[-1] + apart) if array.shape else (apart,)
        kept = Array("s", (places(shape, array.dtype), *shape), array.dtype, "temporary", array.line)
        arrays.append(kept)
        slices[array] = kept
        first, last = axes_of(array.shape), axes_of(array.shape)
        start = Number(first_value(grown[array], array.dtype), array.dtype)
        place = first or (0,)
        before.append(_nest(Statement(Access(kept, (thread, *place)), "=", start, first), first))
        add = Statement(Access(array, last), grown[array], Access(kept, (again, *(last or (0,)))), (again, *last))
        combined.append(_nest(add, last))
    for array in sorted(totals, key=arrays.index):
        mine = Array("q", array.shape, array.dtype, "temporary", array.line)
        kept = Array("s", (places(array.shape, array.dtype), *array.shape), array.dtype, "temporary", array.line)
        arrays.extend((mine, kept))
        named[array] = mine
        first, store, last = axes_of(array.shape), axes_of(array.shape), axes_of(array.shape)
        before.append(_nest(Statement(Access(mine, first), "=", Number(0, array.dtype), first), first))
        after.append(_nest(Statement(Access(kept, (thread, *store)), "=", Access(mine, store), store), store))
        add = Statement(Access(array, last), "+=", Access(kept, (again, *last)), (again, *last))
        combined.append(_nest(add, last))
    loop.body = [_into(item, named, own, loop) for item in loop.body]
    loop.body = [_sliced(item, slices, thread) for item in loop.body]
    outer = Loop(thread, frozenset([thread]), [*before, loop, *after], threads=True)
    outer.enough = condition(loop)
    loop.shared = outer
    return [outer, *([Loop(again, frozenset([again]), combined)] if combined else [])]


def places(shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Say for how many threads a sum has places: for as many as there may be where that fits on the stack."""
    bytes_ = TEAM * size(shape) * dtype.itemsize
    return TEAM if type(bytes_) is int and bytes_ <= STACK else symbol("threads")


def _nest(statement: Statement, axes: tuple[Axis, ...]) -> Item:
    item: Item = statement
    for axis in reversed(axes):
        item = Loop(axis, frozenset([axis]), [item])
    return item


def _into(item: Item, named: dict[Array, Array], own: set[Array], loop: Loop) -> Item:
    """Let totals go into a thread's own sums."""
    if isinstance(item, Loop):
        item.body = [_into(inner, named, own, loop) for inner in item.body]
        return item
    if item.target.array in named and is_total(item, own, loop):
        return replace(item, target=Access(named[item.target.array], item.target.indices))
    return item


def _sliced(item: Item, slices: dict[Array, Array], thread: Axis) -> Item:
    """Let large sums go into a thread's own part of an array that has one for each."""
    if isinstance(item, Loop):
        item.body = [_sliced(inner, slices, thread) for inner in item.body]
        return item
    kept = slices.get(item.target.array)
    return item if kept is None else replace(item, target=Access(kept, (thread, *(item.target.indices or (0,)))))


def private(items: list[Item]) -> None:
    """Note the temporaries that live inside of one loop over threads: each thread has its own."""
    inside: dict[Array, set[Loop | None]] = {}
    kept: set[Array] = set()
    for statement, around in paths(items):
        loop = around[0] if around and around[0].threads else None
        for access in touched(statement):
            inside.setdefault(access.array, set()).add(loop)
            if loop is not None and loop.axis in access.indices:
                kept.add(access.array)
    for array, loops in inside.items():
        array.private = array.kind == "temporary" and len(loops) == 1 and None not in loops and array not in kept

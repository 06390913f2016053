"""`tile`: an outer loop walks in tiles, and inside of a tile its body falls into loops of one kind each.

So what has no inner loop runs as lanes, values between the parts live for a tile, and sums are taken tile by
tile: the error of a long sum grows with the number of tiles, not with the number of terms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Access, Axis, Lookup, Number, Statement, accesses, axes_of, parts
from symgrad.loops.lower import elements
from symgrad.loops.program import Array, Loop
from symgrad.loops.store import paths, touched

if TYPE_CHECKING:
    from symgrad.loops.program import Item

ROWS = 64
"""The tile of a loop with loops inside: what lives for a tile fits the first cache."""

TERMS = 1024
"""The tile of a plain sum."""

LEAST = 2
"""A loop is tiled when it has at least so many tiles."""

COPIES = 4096
"""Sums of arrays up to so many elements are taken tile by tile too."""


def tile(items: list[Item], arrays: list[Array]) -> list[Item]:
    """Tile the outermost loops that are long enough; new arrays are appended to `arrays`."""
    return [tiled(item, arrays) if isinstance(item, Loop) else item for item in items]


def tiled(loop: Loop, arrays: list[Array]) -> Loop:
    """Tile one loop, or leave it as it is: where it is short, or its iterations depend on each other."""
    inside = [s for s, _ in paths([loop])]
    nested = any(isinstance(item, Loop) for item in loop.body)
    sums = [s for s in inside if adds_up(s, loop)]
    if any(s.prefix for s in inside) or not (nested or sums):
        return loop
    size = ROWS if nested else TERMS
    if type(loop.extent) is int and loop.extent < LEAST * size:
        return loop
    split = [s for s in sums if shares(s, inside)]
    before, after, named = partial_sums(split, arrays)
    body: list[Item] = [renamed(item, named) for item in loop.body]
    outer = Loop(loop.axis, loop.members, [], tile=size)
    outer.body = [*before, *[Loop(loop.axis, loop.members, g, window=outer) for g in groups(body)], *after]
    return outer


def adds_up(statement: Statement, loop: Loop) -> bool:
    """Tell a sum that goes on over a loop's iterations."""
    indices = statement.target.indices
    return statement.how == "+=" and not any(p in loop.members for i in indices for p in parts(i))


def shares(statement: Statement, inside: list[Statement]) -> bool:
    """Tell a sum that may be taken in a copy first: small, at plain places, and read by nothing in the loop."""
    target = statement.target
    array = target.array
    readers = [a for s in inside for a in touched(s)[1:] if a.array is array]
    writers = [s for s in inside if s.target.array is array]
    return (
        array.dtype.kind == "f" and elements(array.shape) <= COPIES and not readers and len(writers) == 1
        and not any(isinstance(p, Lookup) for i in target.indices for p in parts(i))
    )


def partial_sums(sums: list[Statement], arrays: list[Array]) -> tuple[list[Item], list[Item], dict[Array, Array]]:
    """Make, for each sum, a copy that starts at zero with each tile and is added to the sum after it."""
    before: list[Item] = []
    after: list[Item] = []
    named: dict[Array, Array] = {}
    for s in sums:
        array = s.target.array
        copy = Array("p", array.shape, array.dtype, "temporary", array.line)
        arrays.append(copy)
        named[array] = copy
        first, last = axes_of(array.shape), axes_of(array.shape)
        zero = Statement(Access(copy, first), "=", Number(0, array.dtype), first, s.line)
        add = Statement(Access(array, last), "+=", Access(copy, last), last, s.line)
        before.append(_nest(zero, first))
        after.append(_nest(add, last))
    return before, after, named


def _nest(statement: Statement, axes: tuple[Axis, ...]) -> Item:
    item: Item = statement
    for axis in reversed(axes):
        item = Loop(axis, frozenset([axis]), [item])
    return item


def renamed(item: Item, named: dict[Array, Array]) -> Item:
    """Let sums go into their copies."""
    if isinstance(item, Loop):
        item.body = [renamed(inner, named) for inner in item.body]
        return item
    if item.how == "+=" and item.target.array in named:
        return replace(item, target=Access(named[item.target.array], item.target.indices))
    return item


def groups(body: list[Item]) -> list[list[Item]]:
    """Cut a body into loops, each of its own, and runs of statements between them.

    A statement moves up to the run before a loop when it needs nothing the loop makes, so that runs are few.
    """
    runs: list[list[Item]] = [[]]
    written: list[set[Any]] = [set()]
    for item in body:
        if isinstance(item, Loop):
            runs.extend(([item], []))
            written.extend(({s.target.array for s, _ in paths([item])}, set()))
            continue
        needs = {a.array for a in touched(item)}
        place = len(runs) - 1
        while place >= 2 and not needs & (written[place] | written[place - 1]):  # noqa: PLR2004 - a run, its loop before
            place -= 2
        runs[place].append(item)
        written[place].add(item.target.array)
    return [run for run in runs if run]


def promote(items: list[Item], arrays: list[Array]) -> list[Item]:
    """Let an innermost loop accumulate in a register what it would accumulate in one place of memory."""
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            made.append(item)
            continue
        if any(isinstance(inner, Loop) for inner in item.body):
            item.body = promote(item.body, arrays)
            made.append(item)
            continue
        made.extend(_promoted(item, arrays))
    return made


def _promoted(loop: Loop, arrays: list[Array]) -> list[Item]:
    before: list[Item] = []
    after: list[Item] = []
    body: list[Item] = []
    statements = [s for s in loop.body if isinstance(s, Statement)]
    for s in statements:
        array = s.target.array
        fixed = not any(isinstance(p, Lookup) or p in loop.members for i in s.target.indices for p in parts(i))
        users = [a for other in statements for a in touched(other) if a.array is array]
        if s.how == "=" or array.place == "register" or not fixed or len(users) != 1 or not s.target.indices:
            body.append(s)
            continue
        register = Array("r", (), array.dtype, "temporary", s.line, place="register")
        arrays.append(register)
        here = Access(register, ())
        before.append(Statement(here, "=", s.target, (), s.line))
        body.append(replace(s, target=here))
        after.append(Statement(s.target, "=", here, (), s.line))
    loop.body = body
    return [*before, loop, *after]


__all__ = ["accesses", "promote", "tile"]

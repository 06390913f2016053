"""`layout`: what lives for a tile, and is of unknown or ragged extent otherwise, is stored with the tile's rows last.

A loop over ten elements makes poor lanes: two of them are left over in each row, and so may be those of an extent that
is 3 or 3,000. The rows of a tile are many and of a known number, so they are the lanes, and the loop over the other
extent is outside of them. What is read of an input again and again is copied once for a tile.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from symgrad.ir.index.notation import Access, Apply, How, Statement, axes_of, varies
from symgrad.loops.machine import RAGGED, TINY, TURNED_ROWS
from symgrad.loops.program import Array, Item, Loop, LoopProgram, in_loops, rebuild, temporary
from symgrad.options import UNKNOWN, Target

Use: TypeAlias = "tuple[Statement, tuple[Loop, ...], Access]"
Places: TypeAlias = "dict[Array, tuple[Array, int]]"


def layout(program: LoopProgram, target: Target = UNKNOWN) -> LoopProgram:
    """Store temporaries of tiles with the rows last, where that pays."""
    uses: dict[Array, list[Use]] = {}
    tiles: dict[Loop, list[Statement]] = {}
    for s, around in program.paths:
        for loop in around:
            if loop.rows >= TURNED_ROWS:
                tiles.setdefault(loop, []).append(s)
        for access in s.touched:
            uses.setdefault(access.array, []).append((s, around, access))
    plans = {loop: planned for loop, inside in tiles.items() if (planned := _planned(loop, inside, uses, target))}
    if not plans:
        return program
    new = [into for turned, copies in plans.values() for into, _ in (*turned.values(), *copies.values())]

    def change(old: Item, item: Item) -> Item:
        return _reorder(item, *plans[old]) if isinstance(item, Loop) and old in plans else item

    return program.with_body(rebuild(program.body, change), new)


def row_dimension(array: Array, loop: Loop, uses: list[Use]) -> int | None:
    """Return the dimension along which a temporary has the rows of a tile, None where it has more or fewer than one."""
    if not array.is_temporary or array.dtype.kind not in "fb" or sum(dim != 1 for dim in array.shape) < 2:
        return None
    if any(a.flat or s.routine is not None or s.prefix or loop not in around for s, around, a in uses):
        return None
    found = [d for d in range(len(array.shape)) if all(a.indices[d] in loop.members for _, _, a in uses)]
    return found[0] if len(found) == 1 else None


def _planned(
    loop: Loop, inside: list[Statement], uses: dict[Array, list[Use]], target: Target,
) -> tuple[Places, Places] | None:
    """Choose what is stored with the rows last, and what is copied so; None where it is not worth it."""
    able: dict[Array, int] = {}
    for array in dict.fromkeys([access.array for s in inside for access in s.touched]):
        d = row_dimension(array, loop, uses[array])
        if d is not None:
            able[array] = d
    if not any(is_ragged(array, rows, target) for array, rows in able.items()):
        return None
    written = {s.target.array for s in inside}
    alone = [s for s in inside if not s.is_contraction]
    turned: Places = {}
    copies: Places = {}
    for group in groups(alone, able):
        mine = [s for s in alone if any(a.array in group for a in s.touched) and not loop.members.issuperset(s.axes)]
        across = [(s, access) for s in mine for access in s.touched if crosses(access, loop, able)]
        lasts = any(len({around for _, around, _ in uses[array]}) > 1 for array in group)
        if lasts and gains(group, mine, able, loop, target) and all(is_again(*each, loop, written) for each in across):
            turned.update({array: (with_rows_last(array, able[array], array.name), able[array]) for array in group})
            for d, array in sorted({(rows_along(a, loop), a.array): None for _, a in across}, key=lambda each: each[0]):
                copies.setdefault(array, (with_rows_last(array, d, "c"), d))
    return (turned, copies) if turned or copies else None


def _reorder(loop: Loop, turned: Places, copies: Places) -> Loop:
    """Let statements find what has been reordered, and copies where they read the rows of the tile."""

    def moved(access: Access) -> Access:
        into, d = turned.get(access.array) or copies.get(access.array) or (access.array, -1)
        walks = access.is_bare and rows_along(access, loop) == d
        return Access(into, last(access.indices, d)) if access.array in turned or (d >= 0 and walks) else access

    def change(_: Item, item: Item) -> Item:
        return item.mapped(moved, lambda index: index) if isinstance(item, Statement) else item

    start: list[Item] = []
    for array, (into, d) in copies.items():
        others = axes_of(last(array.shape, d)[:-1])
        axes = (*others[:d], loop.axis, *others[d:])
        copy = Statement(Access(into, (*others, loop.axis)), How.SET, Access(array, axes), axes, array.line)
        start += in_loops([Loop(loop.axis, loop.members, (copy,), window=loop.tile)], others)
    return loop.with_(body=(*start, *rebuild(loop.body, change)))


def groups(statements: list[Statement], able: dict[Array, int]) -> list[list[Array]]:
    """Put arrays together that some statement touches together."""
    found: dict[Array, list[Array]] = {array: [array] for array in able}
    for s in statements:
        first, *rest = [a.array for a in s.touched if a.array in able] or [None]
        for array in rest:
            small, large = sorted((found[first], found[array]), key=len)
            if small is not large:
                large += small
                found.update(dict.fromkeys(small, large))
    return list({id(group): group for group in found.values()}.values())


def gains(
    group: list[Array], statements: list[Statement], able: dict[Array, int], loop: Loop, target: Target,
) -> bool:
    """Whether arrays are of unknown or ragged extents, and reckoned with; what has the rows twice is long itself."""
    others = [dim for array in group for d, dim in enumerate(array.shape) if d != able[array]]
    reckons = any(s.how != How.SET or isinstance(s.value, Apply) for s in statements)
    return reckons and any(is_ragged(array, able[array], target) for array in group) and loop.extent not in others


def is_ragged(array: Array, rows: int, target: Target) -> bool:
    """Whether an extent beside the rows is unknown, or makes poor lanes: what is left over is done one by one."""
    lanes = target.lanes(array.dtype)
    others = [dim for d, dim in enumerate(array.shape) if d != rows]
    return any(type(dim) is not int for dim in others) or (array.dtype.kind == "f" and any(
        dim > TINY and (dim // lanes + dim % lanes) * lanes > RAGGED * dim for dim in others[-1:]
    ))


def rows_along(access: Access, loop: Loop) -> int:
    """Return the first dimension along which an access walks with the rows, -1 where there is none."""
    for d, index in enumerate(access.indices):
        if varies(index, loop.members):
            return d
    return -1


def crosses(access: Access, loop: Loop, able: dict[Array, int]) -> bool:
    """Whether it is an access that leaps from row to row, of an array that stays as it is."""
    d = rows_along(access, loop)
    return access.array not in able and d >= 0 and (access.flat or any(dim != 1 for dim in access.array.shape[d + 1 :]))


def is_again(s: Statement, access: Access, loop: Loop, written: set[Array]) -> bool:
    """Whether it is the reading of elements that a statement reads again along a further axis."""
    if not access.is_bare or access.array in written or sum(p in loop.members for p in access.indices) > 1:
        return False
    return any(axis not in loop.members and axis not in access.indices for axis in s.axes)


def with_rows_last(array: Array, rows: int, name: str) -> Array:
    """Make a temporary with the rows last."""
    return temporary(name, last(array.shape, rows), array)


def last(items: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    """Move one of some items to their end."""
    return (*items[:place], *items[place + 1 :], items[place])


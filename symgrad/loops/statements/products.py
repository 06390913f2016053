"""`products`: which nests are sums of products that register blocks do, and in what order of their loops.

A nest around one statement ``c[i, j] += a[i, k] * b[k, j]`` becomes one call: rows are what only the left operand and
the sum have, lanes what only the right one and the sum have, the depth is summed over. Any other axis stays a loop
around the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from symgrad.ir.index import shapes
from symgrad.ir.index.notation import (
    SURE,
    Access,
    Axis,
    How,
    LinearIndex,
    Lookup,
    Statement,
    accesses,
    as_index,
    linear,
    substitute,
)
from symgrad.ir.index.shapes import simplified, upper
from symgrad.loops.cost import extent, is_narrow, register_blocks
from symgrad.loops.machine import BLOCK_FEWEST, BLOCK_WORTH, TILE_BLOCKS
from symgrad.loops.program import (
    Array,
    Item,
    Loop,
    LoopProgram,
    Nest,
    Product,
    ProductPart,
    Storage,
    Walk,
    pruned,
    rebuild,
)
from symgrad.options import UNKNOWN, Target


def find_product(loops: Sequence[Loop], statements: Sequence[Statement]) -> Nest | None:
    """Find the loops of a perfect nest that are a product's rows, depth and lanes.

    Returns:
        The cheapest choice, None where the nest is no sum of products or too small to be worth a call.
    """
    if len(statements) != 1 or len(loops) < 3 or not statements[0].is_contraction:
        return None
    s = statements[0]
    value: Any = s.value
    found: list[tuple[float, int, Nest]] = []
    for left in (0, 1):
        kinds = [_product_role(loop, s.target, value.args[left], value.args[1 - left]) for loop in loops]
        able = [[loop for loop, kind in zip(loops, kinds, strict=True) if kind == k] for k in ("row", "depth", "lane")]
        for rows, depth, lanes in product(*able):
            extents = [extent(loop) for loop in (rows, depth, lanes)]
            if min(extents) >= BLOCK_FEWEST and prod(extents) >= BLOCK_WORTH:
                made = Nest(rows, depth, lanes, Product(left, part_of(s, rows, depth, lanes)))
                times = prod([extent(loop) for loop in loops if loop not in made.loops])
                found.append((times * register_blocks(made, s), len(found), made))
    return min(found, key=lambda each: each[:2])[2] if found else None


def is_block(s: Statement, tiny: Sequence[Axis]) -> bool:
    """Whether it is a sum of products that register blocks do faster: tiny in one axis, but not the tiniest."""
    if len(s.axes) < 3 or len(tiny) != 1 or not s.is_contraction:
        return False
    extents = [upper(axis.extent) for axis in s.axes]
    return min(extents) >= BLOCK_FEWEST and prod(extents) >= BLOCK_WORTH


def batch_axes(s: Statement) -> tuple[Axis, ...]:
    """List the axes along which a statement does one product after the other, each worth a block for itself."""
    if not s.is_contraction:
        return ()
    places = [set(a.parts) for a in (s.target, *accesses(s.value))]
    batch = tuple([axis for axis in s.axes if all(axis in found for found in places)])
    extents = [upper(axis.extent) for axis in s.axes if axis not in batch]
    return batch if len(extents) > 2 and min(extents) >= BLOCK_FEWEST and prod(extents) >= BLOCK_WORTH else ()


def stays_product(s: Statement, axis: Axis) -> bool:
    """Whether a sum of products is long enough still where a loop around it has taken an axis.

    Where that are some of several rows, each iteration packs the other operand again: for as many rows as a tile has.
    """
    places = [set(a.parts) for a in (s.target, *accesses(s.value))]
    roles: dict[Axis, Any] = {one: tuple([one in found for found in places]) for one in s.axes}
    longest = dict.fromkeys(((True, True, False), (False, True, True), (True, False, True)), 0)  # rows, depth, lanes
    for one, role in roles.items():
        if one is not axis and role in longest:
            longest[role] = max(longest[role], upper(one.extent))
    return min(longest.values()) >= BLOCK_FEWEST and longest.get(roles[axis], TILE_BLOCKS) >= TILE_BLOCKS


def part_of(s: Statement, rows: Loop, depth: Loop, lanes: Loop) -> ProductPart | None:
    """Say which terms of a product count, where that is a matter of lanes, and of loops that walk all of their axis."""
    if s.triangle is None or not _is_whole(lanes):
        return None
    larger, smaller, least = s.triangle
    for other, is_rows in ((rows, True), (depth, False)):
        if _is_whole(other) and {larger, smaller} <= other.members | lanes.members:
            if larger in other.members and smaller in lanes.members:
                return ProductPart(is_rows, True, least)
            if larger in lanes.members and smaller in other.members:
                return ProductPart(is_rows, False, least)
    return None


def _is_whole(loop: Loop) -> bool:
    return loop.window is None or loop.window.is_whole


def _product_role(loop: Loop, target: Access, left: Any, right: Any) -> str:
    """Return what a loop is to a product; nothing where an index is no multiple of its variable."""
    steps = [access.steps(loop.members) for access in (target, left, right)]
    if None in steps:
        return ""
    summed, first, second = [bool(each) for each in steps]
    kinds = {(True, True, False): "row", (False, True, True): "depth", (True, False, True): "lane"}
    return kinds.get((summed, first, second), "")


# -- axes side by side


def collapse(program: LoopProgram) -> LoopProgram:
    """Let the loop around a product be one with its rows, depth or lanes: ``x[t, b] @ W`` for all t is one product.

    So it is where both walk axes that are side by side in every array that has them, which is there as a whole.
    """

    def change(_: Loop, loop: Loop) -> Loop:
        inner, *more = loop.body
        if more or not isinstance(inner, Loop) or inner.product is None:
            return loop
        nest, s = inner.nest, inner.nest.statement
        looks_up = any(access.is_indirect for access in s.touched)
        walks = [(one.tile, one.window, one.walk) for one in (loop, *nest.loops)]
        if s.ranges or s.triangle is not None or looks_up or {*walks} != {(None, None, Walk.FREE)}:
            return loop
        places = [_whole_place(access, program.storage[access.array]) for access in s.touched]
        for one in nest.loops:
            for far, near in ((loop, one), (one, loop)):
                if all(each is not None and _follow(each, far, near) for each in places):
                    return _joined(far, near, one, nest)
        return loop

    return program.with_body(rebuild(program.body, change, Loop))


def _whole_place(access: Access, stored: Storage) -> LinearIndex | None:
    """Return where in an array an access is; None where only a part of it is there."""
    whole = stored.is_memory and len(stored.kept) == len(access.array.shape) and not any(stored.kept.values())
    return linear(_place(access)) if whole or access.array.is_given else None


def _place(access: Access) -> Any:
    if access.flat:
        return access.indices[0]
    steps = shapes.strides(access.array.shape)
    return as_index(sum([index * step for index, step in zip(access.indices, steps, strict=True)]))


def _follow(place: LinearIndex, far: Loop, near: Loop) -> bool:
    """Whether an iteration of one loop begins in memory where all of the other ends, if either walks there at all."""
    steps = [sum([step for axis, step in place.terms if axis in loop.members]) for loop in (far, near)]
    return bool(simplified(steps[0] - steps[1] * near.extent) == 0)


def _joined(far: Loop, near: Loop, inner: Loop, nest: Nest) -> Loop:
    """Let one loop of a nest, the inner of two, walk what both do."""
    axis = Axis(inner.axis.name, simplified(far.extent * near.extent))
    by: dict[Axis, Any] = {**dict.fromkeys(far.members, 0), **dict.fromkeys(near.members, axis)}

    def change(access: Access) -> Access:
        here = access.along({*by})
        return Access(access.array, (substitute(_place(access), by),), flat=True) if here else access

    s = nest.statement
    joined: Any = s.mapped(change, lambda i: i, axes=(axis, *[a for a in s.axes if a not in by]))
    for loop in reversed(nest.loops):
        made = {"axis": axis, "members": frozenset([axis])} if loop is inner else {}
        joined = loop.with_(body=(joined,), **made)
    return joined  # type: ignore[no-any-return]  # the outermost


# -- rows that are looked up


def ungather(program: LoopProgram, target: Target = UNKNOWN) -> LoopProgram:
    """Let products with a few columns read rows that are looked up where they lie: ``X[ids] @ W`` copies nothing.

    So it is where such products are all that reads the copy, and walk the rows themselves by ones.
    """
    nests = {loop.nest.statement: loop.nest for loop in program.loops if loop.product is not None}
    writers = Counter([s.target.array for s, _ in program.paths])
    copies = {s.target.array: s for s, _ in program.paths if _is_copy_of_rows(s) and writers[s.target.array] == 1}
    read = [(access, s) for s, _ in program.paths for access in s.reads if access.array in copies]
    stay = {access.array for access, s in read if s not in nests or not _is_direct(access, nests[s], copies, target)}
    gone: dict[Item, Array] = {s: array for array, s in copies.items() if array not in stay}
    if not gone:
        return program

    def direct(access: Access) -> Access:
        return access if access.array not in copies or access.array in stay else _original(access, copies[access.array])

    def change(_: Item, item: Item) -> Item:
        return item.mapped(direct, lambda index: index) if isinstance(item, Statement) else item

    arrays = tuple([array for array in program.arrays if array not in {*gone.values()}])
    return program.with_(body=rebuild(pruned(program.body, gone), change), arrays=arrays)


def _original(access: Access, copy: Statement) -> Access:
    """Return what stands in an element of a copy."""
    return copy.value.at(dict(zip(copy.axes, access.indices, strict=True)))  # type: ignore[union-attr]  # an access


def _is_copy_of_rows(s: Statement) -> bool:
    """Whether a statement copies rows of what is given, looked up by numbers that are places as they stand."""
    value = s.value
    if not isinstance(value, Access) or not value.array.is_given or value.flat or s.how != How.SET or s.ranges:
        return False
    lookups = [i for i in value.indices if not isinstance(i, (int, Axis))]
    return bool(
        s.target.array.is_temporary and s.target.indices == s.axes and len(lookups) == 1
        and type(one := lookups[0]) is Lookup and one.check == SURE and one.access.is_bare
        and one.access.indices and one.access.array.dtype == np.int64 and isinstance(value.indices[-1], Axis)
    )


def _is_direct(access: Access, nest: Nest, copies: dict[Array, Statement], target: Target) -> bool:
    """Whether a product can read rows where they lie in the place of a copy of them, and is one with a few columns."""
    copy: Any = copies[access.array]
    factors = nest.statement.value.args  # type: ignore[union-attr]  # of a sum of products
    if not access.is_bare or access not in factors or nest.product.part is not None:
        return False
    rows, few = (nest.rows, nest.lanes)[:: 1 if access is factors[nest.product.left] else -1]
    by = dict(zip(copy.axes, access.indices, strict=True))
    (lookup,) = [i for i in copy.value.indices if type(i) is Lookup]
    numbered, near = by[lookup.access.indices[-1]], by[copy.value.indices[-1]]
    fixed = [by[axis] for axis in lookup.access.indices[:-1]]
    along = near in nest.depth.members and numbered in rows.members
    if any(axis in loop.members for axis in fixed for loop in nest.loops):
        return False
    if not along and not (near in rows.members and numbered in nest.depth.members):
        return False
    return is_narrow(nest, rows, few, target.lanes(access.array.dtype), along=along)

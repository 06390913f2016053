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
    Apply,
    Axis,
    How,
    IndexValue,
    LinearIndex,
    Lookup,
    Number,
    Statement,
    accesses,
    as_index,
    linear,
    looked_up,
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
    kept,
    pruned,
    rebuild,
)
from symgrad.loops.statements.align import shifted
from symgrad.ops.declare.traits import traits
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


# -- triangles

COMPARISONS = {np.greater_equal: (0, 0), np.greater: (0, 1), np.less_equal: (1, 0), np.less: (1, 1)}
"""Of each comparison of two places which is the larger one, and by how much at least."""

TERMS = frozenset({np.multiply, np.bitwise_and, np.logical_and})
"""What is zero, or false, where one operand is."""

Region = dict[tuple[Any, Any], Any]
"""Where something is: of two dimensions, or axes, by how much the first index is larger, at least; {}: anywhere."""


def triangles(program: LoopProgram) -> LoopProgram:
    """Let products of triangular matrices, and products of which only a triangle is wanted, do half of the work.

    ``np.tril(L) @ x`` multiplies zeros: a matrix that is made by a choice between an element and 0, on a comparison of
    its places, is zero beyond, and so is ``np.tril(L, -1) + np.diag(d)``. Likewise the gradient of L is read in the
    triangle only. Such products say which of their terms may be left out; where 0 would meet infinity there, that is
    the one exception to what IEEE says.
    """
    if not any(s.is_contraction for s in program.statements):
        return program
    written = _nonzero_places(program)
    wanted = _wanted_places(program.statements, written)
    body = [*program.statements]
    for place, s in enumerate(body):
        known = [(access, written.get(access.array)) for access in accesses(s.value)]
        every = [*known, (s.target, wanted.get(s.target.array))] if s.is_contraction else []
        for (larger, smaller), least in [pair for access, own in every for pair in _of_axes(access, own or {}).items()]:
            if type(least) is int:
                body[place] = s.with_(triangle=(larger, smaller, least))
                break
    return program.with_body(kept(program.body, body))


def _of_axes(access: Access, region: Region) -> Region:
    """Say a region of an array's dimensions of the axes by which it is accessed."""
    pairs = {(access.indices[a], access.indices[b]): least for (a, b), least in region.items() if not access.flat}
    return {
        (a, b): least for (a, b), least in pairs.items()
        if isinstance(a, Axis) and isinstance(b, Axis) and a is not b
    }


def _of_dimensions(target: Access, region: Region) -> Region:
    """Say a region of axes of the dimensions of an array; what is put along a diagonal is there alone."""
    if target.flat:
        return {}
    place = {axis: d for d, axis in enumerate(target.indices)}
    found: Region = {
        (place[a], place[b]): least for (a, b), least in region.items() if a in place and b in place
    }
    for d, axis in enumerate(target.indices):
        if isinstance(axis, Axis) and place[axis] != d:
            found |= {(d, place[axis]): 0, (place[axis], d): 0}
    return found


def _both(*regions: Region | None) -> Region | None:
    """Return the places in all of some regions; None is nowhere."""
    found: Region = {}
    for region in regions:
        if region is None:
            return None
        for pair, least in region.items():
            known = found.get(pair, least)
            found[pair] = max(known, least) if type(known) is type(least) is int else known
    return found


def _either(*regions: Region | None) -> Region | None:
    """Return a region that holds each of some; None is nowhere."""
    somewhere = [region for region in regions if region is not None]
    if not somewhere:
        return None
    first, *rest = somewhere
    for region in rest:
        first = {
            pair: least if known == least else min(known, least) for pair, known in first.items()
            if (least := region.get(pair)) is not None and (known == least or type(known) is type(least) is int)
        }
    return first


def _nonzero_places(program: LoopProgram) -> dict[Array, Region | None]:
    """Find where what is computed, and what is constant, may be other than zero."""
    found: dict[Array, Region | None] = {}
    for array in program.constants:
        found[array] = _of_data(array.data) if len(array.shape) > 1 else {}
    for s in program.statements:
        array, plain = s.target.array, s.how in {How.SET, How.ADD} and not s.ranges and not s.prefix
        own = not plain or s.target.is_indirect or any(access.array is array for access in s.reads)
        here = {} if own else _nonzero(s.value, found)
        if here is not None:
            here = _of_dimensions(s.target, here)
        found[array] = _either(found[array], here) if array in found else here
    return {array: region for array, region in found.items() if array.is_temporary or array.is_given}


def _of_data(data: np.ndarray[Any, Any]) -> Region | None:
    """Return in which triangles elements of an array are other than zero."""
    places = np.nonzero(data)
    if not len(places[0]):
        return None
    pairs = [(a, b, int(np.min(places[a] - places[b]))) for a in range(data.ndim) for b in range(data.ndim) if a != b]
    return {(a, b): least for a, b, least in pairs if least > 1 - data.shape[b]}


def _nonzero(value: Any, known: dict[Array, Region | None]) -> Region | None:
    """Say of a value for which axes it may be other than zero."""
    if isinstance(value, Number):
        return None if value.value == 0 else {}
    if isinstance(value, Access):
        region = known.get(value.array, {})
        return None if region is None else _of_axes(value, region)
    if not isinstance(value, Apply):
        return {}
    function = value.op.numpy
    if function in COMPARISONS or function is np.equal:
        return _compared(value)
    if function not in TERMS and function is not np.where and (
        value.dtype.kind != "f" or not traits(value.op, value.params).linear
    ):
        return {}
    parts = [_nonzero(arg, known) for arg in value.args]
    if function in TERMS:
        return _both(*parts)
    return _either(_both(*parts[:2]), *parts[2:]) if function is np.where else _either(*parts)


def _compared(value: Apply) -> Region:
    """Say where a comparison of two places holds."""
    places = [shifted(a.index) if isinstance(a, IndexValue) else None for a in value.args]
    if None in places or not all(isinstance(place[0], Axis) for place in places):  # type: ignore[index]  # none is None
        return {}
    (one, a), (other, b) = places  # type: ignore[misc]  # likewise
    if value.op.numpy is np.equal:
        return {(one, other): simplified(b - a), (other, one): simplified(a - b)}
    first, more = COMPARISONS[value.op.numpy]
    return {(one, other): simplified(b - a + more)} if first == 0 else {(other, one): simplified(a - b + more)}


def _wanted_places(statements: Sequence[Statement], nonzero: dict[Array, Region | None]) -> dict[Array, Region | None]:
    """Find where temporaries are read; what reads them is looked at first.

    A choice reads where it chooses, and so does what only choices read, whatever it makes of what is left out. Products
    by zeros read all, for 0 times that may be NaN, or -0.0; so do calls, checks, and what is an index.
    """
    found: dict[Array, Region | None] = {}
    for s in reversed(statements):
        if s.how == How.CALL:  # it works in its target
            found[s.target.array] = {}
        own = found.get(s.target.array, {}) if s.target.array.is_temporary else {}
        around = _of_axes(s.target, own) if own and s.how == How.SET and not s.ranges and not s.prefix else {}
        value, here = s.value, Region()
        is_choice = isinstance(value, Apply) and value.op.numpy is np.where
        if is_choice and s.how == How.SET and not s.prefix:
            here = _nonzero(value.args[0], nonzero) or {}  # type: ignore[union-attr]  # an application
        looked = {id(access) for one in s.touched for access in looked_up(one.indices)}
        for access in s.reads:
            chosen = here if is_choice and access is value.args[1] else {}  # type: ignore[union-attr]  # likewise
            region = {} if id(access) in looked else _of_dimensions(access, _both(around, chosen) or {})
            found[access.array] = _either(found[access.array], region) if access.array in found else region
    return found

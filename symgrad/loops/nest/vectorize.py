"""Innermost loops: products for a BLAS, sums in registers and in one rounding, and which loops run as lanes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.index.notation import (
    Access,
    Apply,
    Axis,
    How,
    Lookup,
    Number,
    Statement,
    as_index,
    everywhere,
    linear,
    parts,
    substitute,
    symbolic,
)
from symgrad.loops.machine import FEW_LANES, ROWS_AT_ONCE, SHORT_MAXIMUM
from symgrad.loops.program import Loop, Piece, Walk, paths, rebuild, temporary
from symgrad.ops.elementwise.logical import not_equal
from symgrad.ops.elementwise.selection import where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from symgrad.loops.program import Array, Item, Items, LoopProgram, Storages

SUMS = {How.ADD: "+", How.FMA: "+", How.MAXIMUM: "maximum", How.MINIMUM: "minimum"}
"""What lanes accumulate apart, each by the name of its reduction."""


def blas(program: LoopProgram) -> LoopProgram:
    """Take the loops over tiles and threads away from products of which nothing lives for a tile, for a BLAS to do."""
    held = {tile for stored in program.storage.values() for tile in stored.kept.values()}
    body: list[Item] = []
    for item in program.body:
        outer = isinstance(item, Loop) and item.walk is Walk.THREADS and len(item.body) == 1
        tiles = item.body[0] if outer else item  # type: ignore[union-attr]  # a loop
        if isinstance(tiles, Loop) and tiles.rows > 1 and tiles.tile not in held and _alone(tiles):
            tile = tiles.tile
            body += rebuild(tiles.body, lambda _, loop: loop.with_(window=None) if loop.window == tile else loop, Loop)  # noqa: B023 - at once
        else:
            body.append(item)
    return program.with_body(tuple([
        item.with_(product=item.product._replace(whole=True)) if isinstance(item, Loop) and item.product else item
        for item in body
    ]))


def _alone(tiles: Loop) -> bool:
    """Whether a loop does products, and sets their sums to zero, and nothing else."""
    products = any(isinstance(item, Loop) and item.product for item in tiles.body)
    others = [s for s, around in paths(tiles.body) if not around or around[0].product is None]
    return products and not any(s.reads for s in others)


def promote(program: LoopProgram) -> LoopProgram:
    """Let an innermost loop accumulate in a register what it would accumulate in one place of memory."""
    new: list[Array] = []
    blocks = _within_products(program)

    def change(old: Loop, loop: Loop) -> Item | Items:
        return loop if old in blocks or not innermost(loop) else _with_registers(loop, program.storage, new)

    return program.with_body(rebuild(program.body, change, Loop), new)


def _within_products(program: LoopProgram) -> set[Loop]:
    return {loop for start in program.loops if start.product for loop in start.nest.loops}


def innermost(loop: Loop) -> bool:
    """Whether a loop has nothing but statements inside."""
    return all(isinstance(item, Statement) for item in loop.body)


def _with_registers(loop: Loop, storage: Storages, new: list[Array]) -> Items:
    before: list[Item] = []
    after: list[Item] = []
    body: list[Item] = []
    statements: list[Statement] = [*loop.body]  # type: ignore[list-item]  # statements, all of them
    if {s.how for s in statements} <= {How.SET, How.CALL, How.CHECK}:
        return (loop,)
    uses = Counter([access.array for s in statements for access in s.touched])
    for s in statements:
        array = s.target.array
        fixed = not s.target.is_indirect and not s.target.along(loop.members)
        partly = any(axis not in loop.members for axis, _, _ in s.ranges)  # what it begins with may be nobody's
        other = partly or not storage[array].is_memory or not fixed or uses[array] != 1 or not s.target.indices
        if other or s.how in {How.SET, How.CALL}:
            body.append(s)
            continue
        register = temporary("acc", (), array).with_(line=s.line)
        new.append(register)
        here = Access(register, ())
        before.append(Statement(here, How.SET, s.target, (), s.line))
        body.append(s.with_(target=here))
        after.append(Statement(s.target, How.SET, here, (), s.line))
    return (*before, loop.with_(body=tuple(body)), *after) if before else (loop,)


def vectorize(program: LoopProgram) -> LoopProgram:
    """Mark the innermost loops whose iterations may run as lanes."""
    blocks = _within_products(program)
    named = {axis: loop.axis for loop in program.loops for axis in (loop.axis, *loop.members)}
    new: list[Array] = []

    def change(old: Loop, loop: Loop) -> Item | Items:
        if old in blocks or loop.walk is not Walk.FREE or not innermost(loop):
            return loop
        if loop.piece is Piece.BORDERS or (type(loop.extent) is int and loop.extent <= FEW_LANES):
            return loop
        before, counted, after = numbers_of_truths(loop, program.storage)
        sums = lane_sums(counted, program.storage, named)
        if sums is None:
            return loop
        if sums:
            looked, counted = _looked_up_before(counted)
            before += looked
        counted, kept = _truths_in_registers(counted, program.storage, named)
        new.extend([*kept, *[s.target.array for s in before]])
        return (*before, counted.with_(walk=Walk.LANES, sums=sums), *after)

    return program.with_body(rebuild(program.body, change, Loop), new)


def numbers_of_truths(loop: Loop, storage: Storages) -> tuple[list[Statement], Loop, list[Statement]]:
    """Let a loop take the maximum of 0 and 1 where it asks whether something holds anywhere, and likewise everywhere.

    Compilers make no lanes of Booleans that stand beside numbers, but they do of integers as long as those are.
    """
    body: list[Statement] = [*loop.body]  # type: ignore[list-item]  # statements, all of them
    size = max([a.array.dtype.itemsize for s in body for a in s.touched], default=1)
    kind = np.dtype(f"i{size}")
    one, zero = Number(1, kind), Number(0, kind)
    before, after = [], []
    for k, s in enumerate(body):
        array = s.target.array
        if s.how not in {How.OR, How.AND} or storage[array].is_memory or not loop.members.isdisjoint(s.target.indices):
            continue
        if any(other is not s and array in [a.array for a in other.touched] for other in body):
            continue
        register = Access(replace(temporary("acc", (), array), dtype=kind), ())
        before.append(Statement(register, How.SET, one if s.how == How.AND else zero, (), s.line))
        value = Apply(where, (s.value, one, zero), kind, kind)
        body[k] = s.with_(target=register, how=How.MINIMUM if s.how == How.AND else How.MAXIMUM, value=value)
        rest = tuple([axis for axis in s.axes if axis not in loop.members])
        after.append(Statement(s.target, s.how, Apply(not_equal, (register, zero), array.dtype, kind), rest, s.line))
    return before, loop.with_(body=tuple(body)) if before else loop, after


def _truths_in_registers(loop: Loop, storage: Storages, named: dict[Axis, Axis]) -> tuple[Loop, list[Array]]:
    """Read a truth that an iteration stores from a register: from its byte in memory compilers make no lanes then."""
    body: list[Statement] = [*loop.body]  # type: ignore[list-item]  # statements, all of them
    written = Counter([s.target.array for s in body])
    last = {access.array: k for k, s in enumerate(body) for access in s.reads}  # reads it
    registers: dict[Array, tuple[Any, Access]] = {}

    def place(access: Access) -> tuple[Any, ...]:
        return access.array, access.flat, *[substitute(index, named) for index in access.indices]

    def read(access: Access) -> Access:
        found = registers.get(access.array)
        return found[1] if found is not None and found[0] == place(access) else access

    made: list[Statement] = []
    for k, s in enumerate(body):
        array, now = s.target.array, s.mapped(read, lambda index: index)
        stored = s.how == How.SET and array.dtype.kind == "b" and storage[array].is_memory and written[array] == 1
        if stored and not s.ranges and last.get(array, 0) > k:
            register = Access(temporary("truth", (), array).with_(line=s.line), ())
            registers[array] = place(s.target), register
            made += [now.with_(target=register), Statement(s.target, How.SET, register, s.axes, s.line)]
        else:
            made.append(now)
    return (loop.with_(body=tuple(made)) if registers else loop), [found[1].array for found in registers.values()]


def _looked_up_before(loop: Loop) -> tuple[list[Statement], Loop]:
    """Read the integers that no lane has for itself before the loop, ``table[row[i], j]`` for each j: its row.

    gcc 12 gathers the elements of a sum one by one where such an integer is read inside, though they lie in a row.
    """
    body: list[Statement] = [*loop.body]  # type: ignore[list-item]  # statements, all of them
    written = {s.target.array for s in body}
    rows: dict[tuple[Any, ...], Access] = {}
    before: list[Statement] = []
    for s in body:
        looked = [p.access for a in s.touched for p in a.parts if isinstance(p, Lookup)]
        for access in looked if not s.ranges else ():
            array, place = access.array, (access.array, access.indices)
            certain = all(
                type(i) is Axis or type(i) is type(d) is int for i, d in zip(access.indices, array.shape, strict=True)
            )
            if place in rows or array in written or not certain or access.along(loop.members) or not access.indices:
                continue
            rows[place] = Access(temporary("row", (), array).with_(line=s.line), ())
            before.append(Statement(rows[place], How.SET, access, (), s.line))
    change = everywhere(lambda a: rows.get((a.array, a.indices), a))
    return before, loop.with_(body=tuple([s.mapped(*change) for s in body])) if before else loop


def lane_sums(loop: Loop, storage: Storages, named: dict[Axis, Axis]) -> tuple[tuple[str, Array], ...] | None:
    """Return the scalar sums of a loop whose iterations are otherwise independent, None when they are not.

    `named` has for each axis that of the loop which walks it.
    """
    body: list[Statement] = [*loop.body]  # type: ignore[list-item]  # statements, all of them
    inside = {s.target.array for s in body if s.how == How.SET and not storage[s.target.array].is_memory}
    short = type(loop.extent) is int and loop.extent < SHORT_MAXIMUM
    sums: dict[Array, str] = {}
    for statement in body:
        target = statement.target
        if statement.prefix or target.steps(loop.members) is None or statement.routine is not None:
            return None
        partly = any(axis in loop.members for axis, _, _ in statement.ranges)
        if partly or statement.may_fail:
            return None
        if not storage[target.array].is_memory and loop.members.isdisjoint(target.indices):
            if target.array in inside:
                continue
            alone = statement.how not in SUMS or (statement.how != How.ADD and short)
            if alone or target.array.dtype.kind == "b":
                return None
            sums[target.array] = SUMS[statement.how]
        elif not target.along(loop.members):
            return None
    read = {access.array for s in body for access in s.reads}
    if any(array in read for array in sums) or iterations_meet(loop, body, storage, named):
        return None
    return tuple((how, array) for array, how in sums.items())


def iterations_meet(loop: Loop, body: list[Statement], storage: Storages, named: dict[Axis, Axis]) -> bool:
    """Whether iterations may touch what others write: an array that is written at `i + 1` and, say, at `i + 2`.

    Two accesses do not meet where the same index walks both, or where others of theirs never are the same.
    """
    written = {s.target.array for s in body if storage[s.target.array].is_memory}
    places: dict[Array, dict[tuple[Any, ...], None]] = {}
    for access in [access for s in body for access in s.touched if access.array in written]:
        place = tuple([substitute(index, named) for index in access.indices])
        places.setdefault(access.array, {})[place] = None
    walked = named[loop.axis]
    for found in places.values():
        if not all(any(walked in parts(index) for index in place) for place in found):
            return True
        if any(_may_meet(one, other, walked) for one, other in combinations(found, 2)):
            return True
    return False


def _may_meet(one: tuple[Any, ...], other: tuple[Any, ...], walked: Axis) -> bool:
    for a, b in zip(one, other, strict=True):
        if walked in parts(a) or walked in parts(b):
            distance = as_index(a - b)
            form = linear(a, (walked,)) if type(distance) is int and type(walked.extent) is int else None
            goes = None if form is None else abs(sum([step for _, step in form.terms])) * (walked.extent - 1)
            if a == b or (goes is not None and abs(distance) > goes):  # no iteration comes to where another one was
                return False
        elif a != b and getattr(symbolic(a - b), "is_nonzero", True):
            return False
    return True


# -- unroll and jam


def jam(program: LoopProgram) -> LoopProgram:
    """Let loops that add rows to one add several at once, so that what they are added to is read and written once.

    ``for i: for j: s[j] += a[i] * X[i, j]`` reads and writes all of s for each i. Where the compiler sees how many j
    there are, it keeps s in registers; where the extent is open it cannot. By four rows at once, in the same order for
    each j, the sums are the same to the last bit.
    """
    jammed = {loop for loop, around in program.loops.items() if adds_rows(loop, around, program.storage)}

    def change(old: Loop, loop: Loop) -> Item:
        return loop.with_(jam=ROWS_AT_ONCE) if old in jammed else loop

    return program.with_body(rebuild(program.body, change, Loop)) if jammed else program


def adds_rows(loop: Loop, around: tuple[Loop, ...], storage: Storages) -> bool:
    """Whether the iterations of a loop each add a row, of an open extent, to the same elements."""
    inner = loop.body[0]
    if len(loop.body) != 1 or not isinstance(inner, Loop) or inner.walk is not Walk.LANES or inner.sums:
        return False
    if loop.tile is not None or loop.walk is Walk.THREADS or loop.product is not None:
        return False
    if loop.piece is not Piece.ALL or inner.piece is not Piece.ALL or loop.poll or inner.poll:
        return False
    few = type(loop.extent) is int and loop.extent < 2 * ROWS_AT_ONCE
    if few or (type(loop.extent) is int and (type(inner.extent) is int or len(inner.body) != 1)):
        return False  # compilers unroll what is known, and better by themselves
    if type(inner.extent) is int and inner.window is None:
        return False
    body: list[Statement] = [*inner.body]  # type: ignore[list-item]  # lanes have nothing else
    names = {axis: one for one in (*around, inner) for axis in one.members}
    memory = {s.target.array for s in body if storage[s.target.array].is_memory}
    sums = [_adds_a_row(s, loop, body, memory) for s in body]
    return any(sums) and all(sums[k] or _belongs(s, loop, body, memory, names) for k, s in enumerate(body))


def _adds_a_row(s: Statement, loop: Loop, body: list[Statement], memory: set[Array]) -> bool:
    """Whether a statement adds to elements that no iteration of a loop has for itself, and nothing else looks at."""
    array = s.target.array
    alone = not s.target.along(loop.members)
    touched = [a for other in body for a in other.touched if a.array is array]
    return s.how == How.ADD and not s.prefix and not s.ranges and array in memory and alone and len(touched) == 1


def _belongs(s: Statement, loop: Loop, body: list[Statement], memory: set[Array], names: Mapping[Any, Loop]) -> bool:
    """Whether an element, or a register, that is written belongs to one iteration of a loop, as all that reads it."""
    array = s.target.array
    if s.how != How.SET or s.prefix or s.ranges or s.routine is not None:
        return False
    own = array not in memory or any(index in loop.members for index in s.target.indices)
    reads = [a for other in body for a in other.reads if a.array is array]
    place = [names.get(index, index) for index in s.target.indices]
    return own and all([names.get(index, index) for index in a.indices] == place and not a.flat for a in reads)


# -- the machine's operations


def fp_contract(program: LoopProgram) -> LoopProgram:
    """Add products of floating-point numbers in one rounding; nothing else is contracted, here or by compilers."""

    def change(_: Item, item: Item) -> Item:
        if not isinstance(item, Statement) or item.how != How.ADD:
            return item
        return item.with_(how=How.FMA) if isinstance(item.value, Apply) and item.value.is_product else item

    return program.with_body(rebuild(program.body, change))

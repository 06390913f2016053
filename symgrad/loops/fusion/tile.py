"""`tile`: an outer loop walks in tiles, and inside of a tile its body falls into loops of one kind each.

So what has no inner loop runs as lanes, values between the parts live for a tile, and sums are taken tile by
tile: the error of a long sum grows with the number of tiles, not with the number of terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.index.notation import Access, Apply, Axis, How, Lookup, Number, Role, Statement, axes_of, varies
from symgrad.ir.op import Elementwise
from symgrad.loops.cost import element_count
from symgrad.loops.fusion.parallelize import pays
from symgrad.loops.machine import (
    CACHE,
    FAR_BYTES,
    FEW_GRAINS,
    GRAIN,
    TILE_BLOCKS,
    TILE_LEAST,
    TILE_PIECES,
    TILE_ROWS,
    TILE_SUMS,
    TILE_TERMS,
    TILE_WHOLE,
    WHOLE_BYTES,
)
from symgrad.loops.program import Kind, Loop, Tile, in_loops, kept, over_all, paths, rebuild, temporary
from symgrad.loops.statements.products import find_product
from symgrad.ops.elementwise.arithmetic import add, subtract
from symgrad.ops.elementwise.logical import equal
from symgrad.ops.elementwise.selection import where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.loops.program import Array, Item, Items, LoopProgram


def swept_loops(axis: Axis, nests: Sequence[Loop], body: Items, new: list[Array], *, heavy: bool) -> Items:
    """Make an outermost loop over tiles, or its nests alone.

    Args:
        axis: what it walks.
        nests: its loops over a tile of the axis, in order.
        body: the same nests, some of them inside of loops over a second axis.
        new: takes copies of sums.
        heavy: an iteration does products of its own, and much work: no other shares its tile.
    """
    members = frozenset([axis for nest in nests for axis in nest.members])
    inside = [s for s, _ in paths(nests)]
    sums = [s for s in inside if s.how == How.ADD and not s.target.along(members)]
    running = any(s.prefix for s in inside)
    if len(nests) == 1 and (running or (not sums and not pays(nests[0]))):
        return body
    if axis.extent == 1:
        return body
    inner = any(isinstance(item, Loop) for nest in nests for item in nest.body)
    spread = any(s.role is Role.SPREAD for s in inside)
    size = 1 if heavy else tile_rows(inside, members) if inner or (len(nests) > 1 and not spread) else TILE_TERMS
    whole = type(axis.extent) is int and axis.extent <= size  # its sums have few terms, and need no parts
    apart = [] if whole else [s for s in sums if may_be_partial(s.target.array, inside, frozenset(sums))]
    before, after, named = partial_sums(apart)
    new.extend(named.values())
    tile, outer = Tile(Axis(axis.name, axis.extent), axis.extent if whole else size), frozenset(nests)

    def change(old: Item, item: Item) -> Item:
        if isinstance(item, Loop) and old in outer:
            return item.with_(window=tile)
        if not isinstance(item, Statement) or item.how != How.ADD or item.target.array not in named:
            return item
        return item.with_(target=Access(named[item.target.array], item.target.indices))

    body = rebuild(body, change)
    if heavy:  # whose body is its nests
        body = tuple([item for nest in body if isinstance(nest, Loop) for item in nest.body])
    return (Loop(axis, members, (*before, *body, *after), tile=tile),)


def tile_rows(inside: list[Statement], members: frozenset[Axis]) -> int:
    """Choose the tile of loops with loops inside: longer where it walks pieces of the rows of matrices, not rows."""
    read = [a for s in inside for a in s.reads if a.array.kind is Kind.INPUT]
    ends = [a.indices[-1] in members for a in read if len(a.indices) > 1]
    return TILE_PIECES if 2 * sum(ends) > len(ends) else TILE_ROWS


def may_be_partial(array: Array, inside: list[Statement], sums: frozenset[Statement]) -> bool:
    """Whether sums may be taken in a copy first: small, at plain places, and touched by nothing else in the loop."""
    if array.dtype.kind != "f" or array.elements > TILE_SUMS:
        return False
    for s in inside:
        if s.target.array is array and (s not in sums or s.target.is_indirect):
            return False
        if any(a.array is array for a in s.reads):
            return False
    return True


def partial_sums(sums: list[Statement]) -> tuple[Items, Items, dict[Array, Array]]:
    """Make, for each sum, a copy that starts at zero with each tile and is added to the sum after it."""
    before: Items = ()
    after: Items = ()
    named: dict[Array, Array] = {}
    for s in sums:
        array = s.target.array
        if array in named:
            continue
        copy = named[array] = temporary("tile", array.shape, array)
        axes, ranges = axes_of(array.shape), list[Any]()
        for d, axis in enumerate(axes):  # where all walk one part of it, nothing may have been written elsewhere
            here = [(one.target.indices[d], one.ranges) for one in sums if one.target.array is array]
            parts = {next((tuple(part) for at, *part in walked if at is index), None) for index, walked in here}
            ranges += [(axis, *part) for part in parts if part is not None and len(parts) == 1]
        add = Statement(
            Access(array, axes), How.ADD, Access(copy, axes), axes, s.line, Role.TOTAL, ranges=tuple(ranges),
        )
        before += over_all(copy, How.SET, Number(0, array.dtype), s.line)
        after += in_loops([add], axes)
    return before, after, named


# -- the order of loops


def arrange(program: LoopProgram) -> LoopProgram:
    """Put, in every perfect nest, the loop innermost that walks memory by ones."""
    return program.with_body(_arranged(program.body))


def _arranged(items: Items) -> Items:
    made: list[Item] = []
    for item in items:
        if isinstance(item, (Loop, Statement)):
            made.append(_order_nest(item) if isinstance(item, Loop) else item)
        else:
            made.append(item.with_blocks(*map(_arranged, item.blocks)))
    return kept(items, made)


def _order_nest(loop: Loop) -> Loop:
    chain = [loop]
    while not chain[-1].tile and len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    body = chain[-1].body
    statements = [item for item in body if isinstance(item, Statement)]
    if len(statements) < len(body):
        return around(chain, _arranged(body))
    free = [one for one in chain if not one.tile]
    if len(free) < 2 or any(s.prefix for s in statements):
        return loop
    found = find_product(free, statements)
    if found is None:
        last = [max(free, key=lambda one: (unit_stride(one, statements), free.index(one)))]
    else:
        last = [found.rows, found.depth, found.lanes]
    order = [one for one in chain if one not in last]
    if found is not None:
        last[0] = found.rows.with_(product=found.product)
    return around([*order, *last], body)


def around(chain: Sequence[Loop], body: Items) -> Loop:
    """Put loops around a body, the first outermost."""
    for loop in reversed(chain):
        inside = kept(loop.body, body)
        body = (loop if inside is loop.body else loop.with_(body=inside),)
    return body[0]  # type: ignore[return-value]  # the outermost


def unit_stride(loop: Loop, statements: list[Statement]) -> int:
    """Count the accesses that walk memory by ones along a loop, less those that leap."""
    score = 0
    for s in statements:
        for access in s.touched:
            last = len(access.indices) - 1
            for position, index in enumerate(access.indices):
                if index in loop.members:
                    score += 1 if position == last else -1
                elif not isinstance(index, (int, Axis)) and varies(index, loop.members):
                    score -= 1 if position < last or isinstance(index, Lookup) else 0
    return score


# -- how long tiles are


def fit(program: LoopProgram) -> LoopProgram:
    """Choose how many rows each tile has, by the bytes that live for one: what fits the first cache, or 8 rows.

    Around register blocks, which pack an operand for each tile, it is 32 rows at least, and a sweep that is one tile
    stays one while what lives for it is no more than `WHOLE_BYTES`, or while the shares of shorter ones would leave the
    near caches. Tiles that need not be shorter become longer where products are all there is and nothing lives for one,
    and a sweep of up to `TILE_WHOLE` rows that no threads share is one tile. The loop over a tile that is a whole sweep
    goes.
    """
    blocks = {outer.tile for loop, around in program.loops.items() if loop.product for outer in around if outer.tile}
    parts = {one.window for loop in program.loops if loop.product and loop.product.part for one in loop.nest.loops}
    lanes = {  # rows that are last in an array of unknown extent otherwise
        tile for stored in program.storage.values() if any(type(dim) is not int for dim in stored.shape)
        for tile in [*stored.kept.values()][-1:]
    }
    alive: dict[Tile, int] = {}
    for array, stored in program.storage.items():
        for tile in filter(None, stored.kept.values()):
            alive[tile] = alive.get(tile, 0) + element_count(stored.shape) * array.dtype.itemsize // tile.rows
    new: dict[Any, Tile | None] = {}
    long: dict[Any, int] = {}  # in pieces of so many rows threads share them
    for tile, team in [(loop.tile, loop.team) for loop in program.loops if loop.tile is not None]:
        extent = tile.start.extent
        least, size = TILE_BLOCKS if tile in blocks else TILE_LEAST, alive.get(tile, 0)
        room = WHOLE_BYTES if tile.is_whole and tile in blocks else CACHE
        rows = 1 << (tile.rows - 1).bit_length() if tile.is_whole else tile.rows
        while tile not in lanes and rows > least and min(rows, tile.rows) * size > room:
            rows //= 2
        far = tile in blocks and 2 * rows * size > FAR_BYTES
        if tile.is_whole and (tile in parts or rows >= tile.rows or -tile.rows % rows > rows // 2 or far):
            rows = tile.rows
        elif tile in blocks and rows == TILE_ROWS:
            short = team is None and type(extent) is int and extent <= TILE_WHOLE
            longer = tile not in alive and (type(extent) is not int or 2 * rows < extent)  # threads share tiles
            rows = extent if short else 2 * rows if longer else rows
        if rows != tile.rows or tile.is_whole:
            new[tile] = Tile(tile.start, rows) if rows not in {tile.rows, extent} else None
        grain = GRAIN if type(extent) is not int or extent > FEW_GRAINS * GRAIN else TILE_LEAST
        if tile in blocks and team is not None and rows > grain:
            long[tile] = grain
    if not new and not long:
        return program

    def change(_: Loop, item: Loop) -> Loop | Items:
        tile, window = new.get(item.tile, item.tile), new.get(item.window, item.window)
        if item.tile is not None and tile is None:
            return item.body
        grain = long.get(item.tile, 0)
        if tile is item.tile and window is item.window and not grain:
            return item
        return item.with_(tile=tile, window=window, grain=grain)

    return program.with_body(rebuild(program.body, change, Loop)).with_storage({
        array: array.stored({d: new.get(tile, tile) for d, tile in stored.kept.items()}, stored.is_memory)
        for array, stored in program.storage.items() if any(tile in new for tile in stored.kept.values())
    })


# -- sums in single precision

SINGLE = np.dtype(np.float32)
BOOLEAN = np.dtype(bool)


def compensate(program: LoopProgram) -> LoopProgram:
    """Let the totals of loops over tiles, in single precision, keep the digits that each addition would lose.

    A sum of ten million terms is ten thousand tiles, and as many roundings at 24 bits would show. In double precision
    they do not. (W. Kahan, Further remarks on reducing truncation errors, Communications of the ACM, 1965.)
    """
    new: list[Array] = []

    def change(_: Loop, item: Loop) -> Item | Items:
        if not item.tile:
            return item
        pairs = [_compensated(inner, new) for inner in item.body]
        body = kept(item.body, [inner for _, then in pairs for inner in then])
        return item if body is item.body else (*[one for first, _ in pairs for one in first], item.with_(body=body))

    return program.with_body(rebuild(program.body, change, Loop), new)


def _compensated(item: Item, new: list[Array]) -> tuple[Items, Items]:
    """Return what starts the lost digits at zero, and the addition that keeps them."""
    total = item
    while isinstance(total, Loop) and len(total.body) == 1:
        total = total.body[0]
    if not isinstance(total, Statement) or total.role is not Role.TOTAL or total.target.array.dtype != SINGLE:
        return (), (item,)
    array, axes = total.target.array, total.axes
    lost, term, grown = [temporary(name, array.shape, array) for name in ("lost", "term", "grown")]
    new.extend((lost, term, grown))
    zero = over_all(lost, How.SET, Number(0, SINGLE), total.line)

    def apply(op: Elementwise, *args: Any) -> Apply:
        return Apply(op, args, SINGLE, SINGLE)

    def step(target: Access, value: Any) -> Statement:
        return total.with_(target=target, how=How.SET, value=value, role=Role.VALUE)

    here, t, c, g = [Access(a, axes) for a in (array, term, lost, grown)]
    finite = Apply(equal, (c, c), BOOLEAN, SINGLE)  # an infinite total loses no digits
    steps = [
        step(t, apply(subtract, total.value, c)), step(g, apply(add, here, t)),
        step(c, apply(subtract, apply(subtract, g, here), t)),
        step(c, apply(where, finite, c, Number(0, SINGLE))), step(here, g),
    ]
    return zero, in_loops(steps, axes)

"""`tile`: an outer loop walks in tiles, and inside of a tile its body falls into loops of one kind each.

So what has no inner loop runs as lanes, values between the parts live for a tile, and sums are taken tile by
tile: the error of a long sum grows with the number of tiles, not with the number of terms.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from symgrad.ir.notation import Access, Axis, Lookup, Number, Statement, axes_of, parts
from symgrad.loops.fuse import Sweep
from symgrad.loops.lower import elements
from symgrad.loops.products import find
from symgrad.loops.program import Array, Loop
from symgrad.loops.store import paths, touched
from symgrad.loops.threads import pays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.loops.program import Item

ROWS = 64
"""The tile of a loop with loops inside: what lives for a tile fits the first cache."""

TERMS = 1024
"""The tile of a plain sum."""

TOTAL = "total"
"""What notes the addition of a tile's sum to the whole one."""

COPIES = 4096
"""Sums of arrays up to so many elements are taken tile by tile too."""


def tile(items: list[Item | Sweep], arrays: list[Array]) -> list[Item]:
    """Turn sweeps into loops, in tiles where they are long; new arrays are appended to `arrays`."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Sweep):
            made.extend(swept(item, arrays))
        else:
            made.append(item)
    return made


def swept(sweep: Sweep, arrays: list[Array]) -> list[Item]:
    """Turn one sweep into a loop over tiles around its nests, or into the nests alone."""
    nests: list[Item] = list(sweep.nests)
    members = frozenset([axis for nest in sweep.nests for axis in nest.members])
    inside = [s for s, _ in paths(nests)]
    sums = [s for s in inside if adds_up(s, members)]
    running = any(s.prefix for s in inside)
    if len(nests) == 1 and (running or (not sums and not pays(sweep.nests[0]))):
        return sweep.body
    inner = any(isinstance(item, Loop) for nest in sweep.nests for item in nest.body)
    size = 1 if sweep.heavy else rows(inside, members) if inner or len(sweep.nests) > 1 else TERMS
    if type(sweep.axis.extent) is int and sweep.axis.extent <= size:
        return sweep.body
    before, after, named = partial_sums([s for s in sums if shares(s.target.array, inside, frozenset(sums))], arrays)
    outer = Loop(sweep.axis, members, [], tile=size)
    for nest in sweep.nests:
        nest.window = outer
    body = [item for nest in sweep.nests for item in nest.body] if sweep.heavy else sweep.body
    outer.body = [*before, *[renamed(item, named) for item in body], *after]
    return [outer]


def rows(inside: list[Statement], members: frozenset[Axis]) -> int:
    """Choose the tile of loops with loops inside: longer where it walks pieces of the rows of matrices, not rows."""
    ends = [a.indices[-1] in members for s in inside for a in s.reads if len(a.indices) > 1 and a.array.kind == "input"]
    return 4 * ROWS if 2 * sum(ends) > len(ends) else ROWS


def adds_up(statement: Statement, members: frozenset[Axis]) -> bool:
    """Tell a sum that goes on over a loop's iterations."""
    indices = statement.target.indices
    return statement.how == "+=" and not any(p in members for i in indices for p in parts(i))


def shares(array: Array, inside: list[Statement], sums: frozenset[Statement]) -> bool:
    """Tell sums that may be taken in a copy first: small, at plain places, and touched by nothing else in the loop."""
    if array.dtype.kind != "f" or elements(array.shape) > COPIES:
        return False
    for s in inside:
        looked_up = any(isinstance(p, Lookup) for i in s.target.indices for p in parts(i))
        if s.target.array is array and (s not in sums or looked_up):
            return False
        if any(a.array is array for a in touched(s)[1:]):
            return False
    return True


def partial_sums(sums: list[Statement], arrays: list[Array]) -> tuple[list[Item], list[Item], dict[Array, Array]]:
    """Make, for each sum, a copy that starts at zero with each tile and is added to the sum after it."""
    before: list[Item] = []
    after: list[Item] = []
    named: dict[Array, Array] = {}
    for s in sums:
        array = s.target.array
        if array in named:
            continue
        copy = Array("p", array.shape, array.dtype, "temporary", array.line)
        arrays.append(copy)
        named[array] = copy
        first, last = axes_of(array.shape), axes_of(array.shape)
        zero = Statement(Access(copy, first), "=", Number(0, array.dtype), first, s.line)
        add = Statement(Access(array, last), "+=", Access(copy, last), last, s.line, note=TOTAL)
        before += nested([zero], first)
        after += nested([add], last)
    return before, after, named


def nested(statements: Sequence[Item], axes: tuple[Axis, ...]) -> list[Item]:
    """Put loops over axes around statements."""
    body: list[Item] = list(statements)
    for axis in reversed(axes):
        body = [Loop(axis, frozenset([axis]), body)]
    return body


def renamed(item: Item, named: dict[Array, Array]) -> Item:
    """Let sums go into their copies."""
    if isinstance(item, Loop):
        item.body = [renamed(inner, named) for inner in item.body]
        return item
    if item.how == "+=" and item.target.array in named:
        return replace(item, target=Access(named[item.target.array], item.target.indices))
    return item


def arrange(items: list[Item]) -> list[Item]:
    """Put, in every perfect nest, the loop innermost that walks memory by ones."""
    return [_arranged(item) if isinstance(item, Loop) else item for item in items]


def _arranged(loop: Loop) -> Loop:
    chain = [loop]
    while not chain[-1].tile and len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    body = chain[-1].body
    if any(isinstance(item, Loop) for item in body):
        chain[-1].body = arrange(body)
        return loop
    statements = [item for item in body if isinstance(item, Statement)]
    free = [one for one in chain if not one.tile]
    if len(free) < 2 or any(s.prefix for s in statements):
        return loop
    made = find(free, statements)
    if made is not None:
        last = [made.rows, made.depth, made.lanes]
        made.rows.product = made
    else:
        last = [max(free, key=lambda one: (unit_stride(one, statements), free.index(one)))]
    order = [one for one in chain if one not in last] + last
    for outer, inside in pairwise(order):
        outer.body = [inside]
    order[-1].body = body
    return order[0]


def unit_stride(loop: Loop, statements: list[Statement]) -> int:
    """Count the accesses that walk memory by ones along a loop, less those that leap."""
    score = 0
    for s in statements:
        for access in touched(s):
            last = len(access.indices) - 1
            for position, index in enumerate(access.indices):
                if index in loop.members:
                    score += 1 if position == last else -1
                elif not isinstance(index, (int, Axis)) and any(p in loop.members for p in parts(index)):
                    score -= 1 if position < last or isinstance(index, Lookup) else 0
    return score


CACHE = 3 << 14
"""What lives for a tile has at most so many bytes: the first cache, where there is one of 48 kB."""


FEWEST, BLOCKS = 8, 32
"""The shortest tile; and where sums of products are done in register blocks, which pack an operand for each tile.
Where rows are lanes, tiles stay as long as they are: what is read anew for each row of lanes costs more than what
leaves the first cache."""


def fit(items: list[Item], arrays: list[Array]) -> None:
    """Make tiles smaller where much lives for one: down to 8 rows, or 32 where register blocks want them.

    Where products are all there is, and nothing lives for a tile, they become longer: the right operand is packed once
    for each.
    """
    blocks = {loop for _, around in paths(items) if any(one.product for one in around) for loop in around if loop.tile}
    lanes = {loop for array in arrays for d, loop in array.windows.items() if rows_last(array, d)}
    rows: dict[Loop, int] = {}
    for array in arrays:
        for loop in array.windows.values():
            whole = elements(array.stored) * array.dtype.itemsize
            rows[loop] = rows.get(loop, 0) + whole // loop.tile
    for loop in blocks - rows.keys():
        loop.tile = 2 * ROWS if loop.tile == ROWS else loop.tile
    for loop, size in rows.items():
        least = BLOCKS if loop in blocks else FEWEST
        while loop not in lanes and loop.tile > least and loop.tile * size > CACHE:
            loop.tile //= 2


def rows_last(array: Array, rows: int) -> bool:
    """Tell an array of a tile that is of unknown extent otherwise and has the rows last, as lanes."""
    return array.kept is not None and array.kept[-1] == rows and any(type(dim) is not int for dim in array.stored)


def promote(items: list[Item], arrays: list[Array]) -> list[Item]:
    """Let an innermost loop accumulate in a register what it would accumulate in one place of memory."""
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            made.append(item)
            continue
        if item.product is not None:
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
    uses = Counter([access.array for s in statements for access in touched(s)])
    for s in statements:
        array = s.target.array
        fixed = not any(isinstance(p, Lookup) or p in loop.members for i in s.target.indices for p in parts(i))
        if s.how in {"=", "call"} or array.place == "register" or not fixed or uses[array] != 1 or not s.target.indices:
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

"""`products`: which nests are sums of products that register blocks do, and in what order of their loops.

A nest around one statement ``c[i, j] += a[i, k] * b[k, j]`` becomes one call: rows are what only the left operand and
the sum have, lanes what only the right one and the sum have, the depth is summed over. Any other axis stays a loop
around the call.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.ir.notation import Access, Apply, Axis, IndexValue, Lookup, Number, accesses, parts
from symgrad.ir.shapes import simplified, upper
from symgrad.loops.machine import ADDED, ADDED_APART, BLOCK_FEWEST, BLOCK_VECTOR, BLOCK_WORTH, PANEL, TRIANGLE
from symgrad.loops.statements.align import shifted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.ir.notation import Statement
    from symgrad.loops.program import Array, Loop, LoopProgram


class Part(NamedTuple):
    """The terms of a product that count, lane by lane.

    Attributes:
        rows: those of some rows, else those of some depths.
        after: from `least` places after the lane on, else up to `least` places before it.
    """

    rows: bool
    after: bool
    least: int


class Product(NamedTuple):
    """What a sum of products is: which factor has the rows (0 or 1), and what counts; its loops are the nest's.

    One that is `whole` is all there is to do at its place: a BLAS may do it.
    """

    left: int
    part: Part | None = None
    whole: bool = False


class Nest(NamedTuple):
    """The three loops of a sum of products, the outermost first."""

    rows: Loop
    depth: Loop
    lanes: Loop
    product: Product

    @property
    def loops(self) -> tuple[Loop, Loop, Loop]:
        """The three."""
        return self[:3]

    @property
    def statement(self) -> Statement:
        """The one statement inside."""
        return self.lanes.body[0]  # type: ignore[return-value]  # a product is one statement


def nest_of(loop: Loop) -> Nest:
    """Return the loops of the product that begins at a loop."""
    depth: Any = loop.body[0]
    return Nest(loop, depth, depth.body[0], loop.product)  # type: ignore[arg-type]  # it has one


def find(loops: Sequence[Loop], statements: Sequence[Statement]) -> Nest | None:
    """Find the loops of a perfect nest that are a product's rows, depth and lanes.

    Returns:
        The cheapest choice, None where the nest is no sum of products or too small to be worth a call.
    """
    if len(statements) != 1 or len(loops) < 3 or not is_product(statements[0]):
        return None
    s = statements[0]
    value: Any = s.value
    found: list[tuple[float, int, Nest]] = []
    for left in (0, 1):
        kinds = [_kind(loop, s.target, value.args[left], value.args[1 - left]) for loop in loops]
        able = [[loop for loop, kind in zip(loops, kinds, strict=True) if kind == k] for k in ("row", "depth", "lane")]
        for rows, depth, lanes in product(*able):
            made = Nest(rows, depth, lanes, Product(left, part_of(s, rows, depth, lanes)))
            if _worth(made):
                found.append((_cost(made, s), len(found), made))
    return min(found, key=lambda each: each[:2])[2] if found else None


def is_product(s: Statement) -> bool:
    """Tell a sum of products of floating-point elements: each factor has an axis that the other has not."""
    value = s.value
    if s.how != "+=" or s.prefix or s.ranges or not isinstance(value, Apply) or value.op.name != "multiply":
        return False
    if value.dtype.kind != "f" or any(not isinstance(a, Access) for a in value.args):
        return False
    left, right = [{part for i in a.indices for part in parts(i)} for a in value.args]  # type: ignore[union-attr]
    arrays = {a.array for a in value.args}  # type: ignore[union-attr]  # accesses, all of them
    return bool(left - right and right - left and left & right) and s.target.array not in arrays


def batch_axes(s: Statement) -> tuple[Axis, ...]:
    """List the axes along which a statement does one product after the other, each worth a block for itself."""
    if not is_product(s):
        return ()
    places = [{part for i in a.indices for part in parts(i)} for a in (s.target, *accesses(s.value))]
    batch = tuple([axis for axis in s.axes if all(axis in found for found in places)])
    extents = [upper(axis.extent) for axis in s.axes if axis not in batch]
    return batch if len(extents) > 2 and min(extents) >= BLOCK_FEWEST and prod(extents) >= BLOCK_WORTH else ()


def part_of(s: Statement, rows: Loop, depth: Loop, lanes: Loop) -> Part | None:
    """Say which terms of a product count, where that is a matter of lanes, and of loops that walk all of their axis."""
    if s.triangle is None or lanes.window is not None:
        return None
    larger, smaller, least = s.triangle
    for other, is_rows in ((rows, True), (depth, False)):
        if other.window is None and {larger, smaller} <= other.members | lanes.members:
            if larger in other.members and smaller in lanes.members:
                return Part(is_rows, True, least)
            if larger in lanes.members and smaller in other.members:
                return Part(is_rows, False, least)
    return None


def _kind(loop: Loop, target: Access, left: Any, right: Any) -> str:
    """Tell what a loop is to a product; nothing where an index is no multiple of its variable."""
    steps = [step(access, loop.members) for access in (target, left, right)]
    if None in steps:
        return ""
    summed, first, second = [bool(each) for each in steps]
    kinds = {(True, True, False): "row", (False, True, True): "depth", (True, False, True): "lane"}
    return kinds.get((summed, first, second), "")


def step(access: Access, members: frozenset[Axis]) -> dict[int, Any] | None:
    """Return by how much each index grows with a loop's variable; None where it does not grow evenly."""
    found: dict[int, Any] = {}
    for d, index in enumerate(access.indices):
        if isinstance(index, Axis):
            if index in members:
                found[d] = 1
        elif any(looked_up_along(part, members) for part in parts(index)):
            return None
        elif not isinstance(index, (int, Lookup)):
            symbols = [part.symbol for part in parts(index) if part in members]
            grown = sum(index.coeff(symbol) for symbol in symbols)
            if any((index - grown * symbol).has(symbol) for symbol in symbols):
                return None
            if symbols:
                found[d] = int(grown) if getattr(grown, "is_Integer", True) else grown
    return found


def looked_up_along(part: Any, members: frozenset[Axis]) -> bool:
    """Tell a looked-up integer that depends on a loop."""
    stack = [part] if isinstance(part, Lookup) else []
    while stack:
        for index in stack.pop().access.indices:
            for inner in parts(index):
                if isinstance(inner, Lookup):
                    stack.append(inner)
                elif inner in members:
                    return True
    return False


def _extent(loop: Loop) -> int:
    extent = upper(loop.extent)
    return min(extent, loop.window.rows) if loop.window is not None else extent


def _worth(made: Nest) -> bool:
    extents = [_extent(loop) for loop in made.loops]
    return min(extents) >= BLOCK_FEWEST and extents[0] * extents[1] * extents[2] >= BLOCK_WORTH


def _cost(made: Nest, s: Statement) -> float:
    """Estimate the cost of a choice: padded work, packing the right operand, adding to the sums."""
    rows, depth, lanes = [_extent(loop) for loop in made.loops]

    def padded(extent: int) -> int:
        return -(-extent // BLOCK_VECTOR) * BLOCK_VECTOR

    factors: Any = s.value
    packed = depth * padded(lanes) * (0.2 if _by_ones(factors.args[1 - made.product.left], made.lanes) else 1.5)
    added = rows * lanes * -(-depth // PANEL) * (ADDED if _by_ones(s.target, made.lanes) else ADDED_APART)
    done = padded(rows) * depth * padded(lanes) / (2 * BLOCK_VECTOR)
    return (done if made.product.part is None else TRIANGLE * done) + packed + added


def _by_ones(access: Access, loop: Loop) -> bool:
    return step(access, loop.members) == {len(access.indices) - 1: 1}


# -- triangles

COMPARISONS = {np.greater_equal: (0, 0), np.greater: (0, 1), np.less_equal: (1, 0), np.less: (1, 1)}
"""Of each comparison of two places which is the larger one, and by how much at least."""

Triangle = tuple[int, int, int]
"""Two dimensions of an array, and by how much the first index is larger than the second, at least, in the triangle."""


def triangles(program: LoopProgram) -> LoopProgram:
    """Let products of triangular matrices, and products of which only a triangle is wanted, do half of the work.

    ``np.tril(L) @ x`` multiplies zeros: a matrix that is made by a choice between an element and 0, on a comparison of
    its places, is zero beyond. Likewise the gradient of L is read in the triangle only. Such products say which of
    their terms may be left out; where 0 would meet infinity there, that is the one exception to what IEEE says.
    """
    written, wanted = _written(program.statements), _wanted(program.statements)
    if not written and not wanted:
        return program
    return program.with_body(tuple([_noted(s, written, wanted) if is_product(s) else s for s in program.statements]))


def _noted(s: Statement, written: dict[Array, Triangle], wanted: dict[Array, Triangle]) -> Statement:
    known = [(access, written.get(access.array)) for access in accesses(s.value)]
    for access, triangle in [*known, (s.target, wanted.get(s.target.array))]:
        if triangle is not None and not access.flat:
            larger, smaller, least = access.indices[triangle[0]], access.indices[triangle[1]], triangle[2]
            if type(least) is int and isinstance(larger, Axis) and isinstance(smaller, Axis) and larger is not smaller:
                return s.with_(triangle=(larger, smaller, least))
    return s


def _written(statements: Sequence[Statement]) -> dict[Array, Triangle]:
    """Find the temporaries that are zero beyond a triangle."""
    found: dict[Array, Triangle | None] = {}
    for s in statements:
        chosen = _choice(s)
        array = s.target.array
        whole = chosen is not None and array not in found and s.how == "=" and not s.ranges
        found[array] = chosen[1] if chosen is not None and whole and s.target.indices == s.axes else None
    return {array: t for array, t in found.items() if t is not None and array.is_temporary}


def _wanted(statements: Sequence[Statement]) -> dict[Array, Triangle]:
    """Find the temporaries that are read in a triangle only."""
    found: dict[Array, set[Triangle | None]] = {}
    for s in statements:
        chosen = _choice(s)
        for access in s.reads:
            inside = chosen is not None and access is chosen[0] and access.indices == s.axes and not access.flat
            found.setdefault(access.array, set()).add(chosen[1] if chosen is not None and inside else None)
    every = {array: next(iter(ts)) for array, ts in found.items() if len(ts) == 1 and array.is_temporary}
    return {array: t for array, t in every.items() if t is not None}


def _choice(s: Statement) -> tuple[Access, Triangle] | None:
    """Take a statement apart that chooses between an element and 0 on a comparison of two of its places."""
    value = s.value
    if not isinstance(value, Apply) or value.op.name != "where":
        return None
    condition, kept, other = value.args
    if not isinstance(kept, Access) or not isinstance(other, Number) or other.value != 0:
        return None
    if not isinstance(condition, Apply) or condition.op.numpy not in COMPARISONS:
        return None
    places = [shifted(a.index) if isinstance(a, IndexValue) else None for a in condition.args]
    if None in places or any(place[0] not in s.axes for place in places):  # type: ignore[index]  # none is None
        return None
    first, more = COMPARISONS[condition.op.numpy]
    (larger, a), (smaller, b) = places[first], places[1 - first]  # type: ignore[misc]  # likewise
    least: Any = simplified(b - a + more)
    return kept, (s.axes.index(larger), s.axes.index(smaller), least)

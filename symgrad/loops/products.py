"""`products`: which nests are sums of products that register blocks do, and in what order of their loops.

A nest around one statement ``c[i, j] += a[i, k] * b[k, j]`` becomes one call: rows are what only the left operand and
the sum have, lanes what only the right one and the sum have, the depth is summed over. Any other axis stays a loop
around the call.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir.notation import Access, Apply, Axis, Lookup, accesses, parts
from symgrad.ir.shapes import upper

if TYPE_CHECKING:
    from symgrad.ir.notation import Statement
    from symgrad.loops.program import Loop

FEWEST = 4
"""Fewer rows, lanes or terms are no block."""

WORTH = 512
"""So many products pay for a call."""

PANEL = 128
"""So many terms are added in registers before they are added to the sums."""

VECTOR = 8
"""About so many lanes and rows are done at once: what is not a multiple is padded."""


HALF = 0.6
"""So much of a product is done where a triangle of it counts."""


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
    """A sum of products: its three loops, the outermost first, which factor has the rows (0 or 1), and what counts.

    One that is `whole` is all there is to do at its place: a BLAS may do it.
    """

    rows: Loop
    depth: Loop
    lanes: Loop
    left: int
    part: Part | None = None
    whole: bool = False

    @property
    def statement(self) -> Statement:
        """The one statement of the nest."""
        return self.lanes.body[0]  # type: ignore[return-value]  # a product is one statement


def find(loops: list[Loop], statements: list[Statement]) -> Product | None:
    """Find the loops of a perfect nest that are a product's rows, depth and lanes.

    Returns:
        The cheapest choice, None where the nest is no sum of products or too small to be worth a call.
    """
    if len(statements) != 1 or len(loops) < 3 or not is_product(statements[0]):
        return None
    s = statements[0]
    value: Any = s.value
    found: list[tuple[float, int, Product]] = []
    for left in (0, 1):
        kinds = [_kind(loop, s.target, value.args[left], value.args[1 - left]) for loop in loops]
        able = [[loop for loop, kind in zip(loops, kinds, strict=True) if kind == k] for k in ("row", "depth", "lane")]
        for rows, depth, lanes in product(*able):
            made = Product(rows, depth, lanes, left, part_of(s, rows, depth, lanes))
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
    return batch if len(extents) > 2 and min(extents) >= FEWEST and prod(extents) >= WORTH else ()


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
    steps = [step(access, loop) for access in (target, left, right)]
    if None in steps:
        return ""
    summed, first, second = [bool(each) for each in steps]
    kinds = {(True, True, False): "row", (False, True, True): "depth", (True, False, True): "lane"}
    return kinds.get((summed, first, second), "")


def step(access: Access, loop: Loop) -> dict[int, Any] | None:
    """Return by how much each index grows with a loop's variable; None where it does not grow evenly."""
    found: dict[int, Any] = {}
    for d, index in enumerate(access.indices):
        if isinstance(index, Axis):
            if index in loop.members:
                found[d] = 1
        elif any(looked_up_along(part, loop) for part in parts(index)):
            return None
        elif not isinstance(index, (int, Lookup)):
            symbols = [part.symbol for part in parts(index) if part in loop.members]
            grown = sum(index.coeff(symbol) for symbol in symbols)
            if any((index - grown * symbol).has(symbol) for symbol in symbols):
                return None
            if symbols:
                found[d] = int(grown) if getattr(grown, "is_Integer", True) else grown
    return found


def looked_up_along(part: Any, loop: Loop) -> bool:
    """Tell a looked-up integer that depends on a loop."""
    stack = [part] if isinstance(part, Lookup) else []
    while stack:
        for index in stack.pop().access.indices:
            for inner in parts(index):
                if isinstance(inner, Lookup):
                    stack.append(inner)
                elif inner in loop.members:
                    return True
    return False


def _extent(loop: Loop) -> int:
    extent = upper(loop.extent)
    return min(extent, loop.window.tile) if loop.window is not None else extent


def _worth(made: Product) -> bool:
    extents = [_extent(loop) for loop in made[:3]]
    return min(extents) >= FEWEST and extents[0] * extents[1] * extents[2] >= WORTH


def _cost(made: Product, s: Statement) -> float:
    """Estimate the cost of a choice: padded work, packing the right operand, adding to the sums."""
    rows, depth, lanes = [_extent(loop) for loop in made[:3]]

    def padded(extent: int) -> int:
        return -(-extent // VECTOR) * VECTOR

    factors: Any = s.value
    packed = depth * padded(lanes) * (0.2 if _by_ones(factors.args[1 - made.left], made.lanes) else 1.5)
    added = rows * lanes * -(-depth // PANEL) * (0.3 if _by_ones(s.target, made.lanes) else 4.0)
    done = padded(rows) * depth * padded(lanes) / (2 * VECTOR)
    return (done if made.part is None else HALF * done) + packed + added


def _by_ones(access: Access, loop: Loop) -> bool:
    return step(access, loop) == {len(access.indices) - 1: 1}

"""`unroll`: statements over tiny axes become one statement for each of their elements, at integer indices.

So what surrounds the tiny loops has no loop inside of it and runs as lanes, and what is tiny altogether becomes
straight-line code. Temporaries that are then read and written at integers only fall apart into registers (`scalars`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.notation import (
    Access,
    Apply,
    Axis,
    IndexValue,
    Lookup,
    Number,
    Statement,
    parts,
    substitute,
)
from symgrad.ir.shapes import upper
from symgrad.loops.fuse import TINY
from symgrad.loops.products import FEWEST, WORTH, batch_axes, is_product
from symgrad.loops.scalars import Splitting, simplified
from symgrad.loops.store import touched

if TYPE_CHECKING:
    from symgrad.loops.program import Array, LoopProgram

POINTS = 64
"""One statement becomes at most so many."""

WIDE = 32
"""Further axes of more points than this are worth running as lanes."""

BUDGET = 40_000
"""All that is unrolled in a program makes at most so many statements; what has fewer elements goes first."""


def unroll(lowered: LoopProgram) -> LoopProgram:
    """Expand the statements over tiny axes, and split the arrays that only they had in common.

    Returns:
        The same results to the last bit: each sum adds its terms in the order it had.
    """
    chosen = within(choose(lowered.statements))
    if not any(chosen):
        return lowered
    made = [expanded(s, axes) for s, axes in zip(lowered.statements, chosen, strict=True)]
    whole = still_whole(made)
    for k, s in enumerate(lowered.statements):
        if chosen[k] and s.target.array in whole and moves(s.value, whole):
            made[k] = [resolved(s, {})]
    return simplified(lowered, [s for group in made for s in group])


def expanded(s: Statement, axes: tuple[Axis, ...]) -> list[Statement]:
    """Make a statement for each point of some axes, in the order a loop would have."""
    points = product(*[range(axis.extent) for axis in axes])
    return [resolved(s, dict(zip(axes, point, strict=True))) for point in points]


def still_whole(made: list[list[Statement]]) -> set[Array]:
    """Collect the arrays that do not fall apart."""
    statements = [s for group in made for s in group]
    taken = Splitting(statements).taken
    return {access.array for s in statements for access in touched(s)} - set(taken)


def moves(value: Any, whole: set[Array]) -> bool:
    """Tell a number, or an element of an array that stays whole: the loop that copies it is good as it is."""
    return isinstance(value, Number) or (
        isinstance(value, Access) and value.array in whole and value.array.kind == "temporary"
    )


# -- which axes


def tiny(s: Statement) -> tuple[Axis, ...]:
    """List the axes of few elements, known now; none where there are many of them or something runs along them."""
    axes = tuple([axis for axis in s.axes if type(axis.extent) is int and axis.extent <= TINY])
    return () if s.prefix or not 0 < elements(axes) <= POINTS else axes


def choose(statements: list[Statement]) -> list[tuple[Axis, ...]]:
    """Choose the axes of each statement that are worth unrolling."""
    running = {array for s in statements for array in s.prefix}
    apart = Apart(statements)
    chosen: list[tuple[Axis, ...]] = []
    for s in statements:
        axes = tiny(s)
        if not axes or s.routine is not None or s.target.array in running or looks_up(s):
            chosen.append(())
            continue
        axes = apart.without_batches(axes)
        worth = (is_wide(s, axes) and reckons(s)) or any(apart.has(axis) for axis in axes)
        chosen.append(axes if axes and worth and not is_block(s, axes) else ())
    return chosen


def is_wide(s: Statement, axes: tuple[Axis, ...]) -> bool:
    """Tell a statement whose other axes are worth running as lanes."""
    return prod([upper(axis.extent) for axis in s.axes if axis not in axes]) > WIDE


def reckons(s: Statement) -> bool:
    """Tell a statement that does more than move or start something."""
    return s.how != "=" or isinstance(s.value, Apply)


def is_block(s: Statement, axes: tuple[Axis, ...]) -> bool:
    """Tell a sum of products that register blocks do faster: tiny in one axis, but not the tiniest."""
    if len(s.axes) < 3 or len(axes) != 1 or axes[0].extent < FEWEST or not is_product(s):
        return False
    extents = [upper(axis.extent) for axis in s.axes]
    return min(extents) >= FEWEST and prod(extents) >= WORTH


def elements(axes: tuple[Axis, ...]) -> int:
    """Count the points of tiny axes."""
    return prod([axis.extent for axis in axes])


def looks_up(s: Statement) -> bool:
    """Tell whether an index is looked up in what is not known now: no lanes, and rows are touched as a whole."""
    return any(
        isinstance(part, Lookup) and part.access.array.kind != "constant"
        for access in touched(s) for index in access.indices for part in parts(index)
    )


def within(chosen: list[tuple[Axis, ...]]) -> list[tuple[Axis, ...]]:
    """Keep to the budget: leave the loops of the statements with the most elements."""
    counts = [elements(axes) for axes in chosen]
    total = 0
    most = 1
    for size in sorted({c for c in counts if c > 1}):
        total += size * counts.count(size)
        if total > BUDGET:
            break
        most = size
    return [axes if count <= most else () for axes, count in zip(chosen, counts, strict=True)]


class Apart:
    """The axes along which arrays would better be scalars.

    They are those along which an array is taken apart (read or written at one place), those along which a temporary
    is read again and again, and those that are unrolled beside a wide axis.
    """

    def __init__(self, statements: list[Statement]) -> None:
        """Join the axes and the dimensions they walk; note what is indexed in another way."""
        self.parent: dict[Any, Any] = {}
        odd: list[Any] = []
        for s in statements:
            for access in touched(s):
                if access.array.kind != "temporary":
                    continue
                for d, index in enumerate(access.indices):
                    place = (access.array, d)
                    if isinstance(index, Axis) and not access.flat:
                        self.parent[self.find(place)] = self.find(index)
                    else:
                        odd.append(place)
        self.batches = {self.find(axis) for s in statements for axis in batch_axes(s)}
        for s in statements:
            few = self.without_batches(tiny(s))
            if few and is_wide(s, few) and reckons(s) and not looks_up(s) and not is_block(s, few):
                odd += few
            for access in s.reads if len(s.axes) == len(few) > 1 else ():
                if access.array.kind == "temporary" and len(set(access.indices).intersection(few)) < len(few):
                    odd += [axis for axis in few if axis in access.indices]
        self.odd = {self.find(place) for place in odd}

    def find(self, item: Any) -> Any:
        """Return what stands for an axis's or a dimension's class."""
        self.parent.setdefault(item, item)
        while self.parent[item] is not item:
            self.parent[item] = item = self.parent[self.parent[item]]
        return item

    def without_batches(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Leave out the axes along which products are done, one after the other, with all that is made of them."""
        return tuple([axis for axis in axes if self.find(axis) not in self.batches])

    def has(self, axis: Axis) -> bool:
        """Tell whether an axis is taken apart somewhere."""
        return self.find(axis) in self.odd


# -- one point of a statement


def resolved(s: Statement, by: dict[Axis, int]) -> Statement:
    """Put integers in the place of axes, and numbers in the place of what is known then."""
    target = Access(s.target.array, tuple([at(i, by) for i in s.target.indices]))
    axes = tuple([axis for axis in s.axes if axis not in by])
    return replace(s, target=target, value=value_at(s.value, by), axes=axes)


def value_at(value: Any, by: dict[Axis, int]) -> Any:
    """Put integers in the place of axes in a value."""
    if isinstance(value, Access):
        return element(value.array, tuple([at(i, by) for i in value.indices]), value.flat)
    if isinstance(value, Apply):
        return folded(replace(value, args=tuple([value_at(a, by) for a in value.args])))
    if isinstance(value, IndexValue):
        index = at(value.index, by)
        return number(index, value.dtype) if type(index) is int else IndexValue(index, value.dtype)
    return value


def number(value: Any, dtype: np.dtype[Any]) -> Number:
    """Make a literal of a dtype."""
    return Number(np.asarray(value).astype(dtype).item(), dtype)


def folded(value: Apply) -> Any:
    """Compute what is known now, as `simplify` does."""
    if value.op.name == "where" and isinstance(value.args[0], Number):
        kept = value.args[1 if value.args[0].value else 2]
        if (kept.array if isinstance(kept, Access) else kept).dtype == value.dtype:
            return kept
    if not all(isinstance(a, Number) for a in value.args):
        return value
    known: Any = [np.asarray(a.value, a.dtype) for a in value.args]  # type: ignore[union-attr]  # numbers, all of them
    with np.errstate(all="ignore"):
        return number(value.op.evaluate(*known, **dict(zip(value.op.params, value.params, strict=True))), value.dtype)


def element(array: Array, indices: tuple[Any, ...], flat: bool) -> Any:
    """Read an element: a constant's is a number."""
    if flat:
        indices, flat = unraveled(array, indices)
    if array.kind == "constant" and not flat and within_bounds(array, indices):
        return number(array.data[indices], array.dtype)
    return Access(array, indices, flat)


def within_bounds(array: Array, indices: tuple[Any, ...]) -> bool:
    """Tell integers that are right for an array."""
    pairs = zip(indices, array.shape, strict=True)
    return all(type(i) is int and type(dim) is int and 0 <= i < dim for i, dim in pairs)


def unraveled(array: Array, indices: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """Turn a flat index into one for each dimension, where all but the first are integers."""
    (index,) = indices
    tail = 1
    for dim in array.shape[1:]:
        if type(dim) is not int or dim == 0:
            return indices, True
        tail *= dim
    linear = affine(index)
    if not array.shape or linear is None or any(step % tail for _, step in linear[1]) or linear[0] < 0:
        return indices, True
    first = combined(linear[0] // tail, [(part, step // tail) for part, step in linear[1]])
    rest: list[int] = []
    left = linear[0] % tail
    for dim in reversed(array.shape[1:]):
        left, here = divmod(left, dim)
        rest.append(here)
    return (first, *reversed(rest)), False


# -- indices


def at(index: Any, by: dict[Axis, int]) -> Any:
    """Put integers in the place of axes in an index."""
    if type(index) is int:
        return index
    if isinstance(index, Axis):
        return by.get(index, index)
    if isinstance(index, Lookup):
        return looked_up_at(index, by)
    if not by:
        return index
    linear = affine(index)
    if linear is None or any(isinstance(part, Lookup) for part, _ in linear[1]):
        return substitute(index, by)
    constant = linear[0] + sum(step * by[part] for part, step in linear[1] if part in by)
    return combined(constant, [(part, step) for part, step in linear[1] if part not in by])


def looked_up_at(lookup: Lookup, by: dict[Axis, int]) -> Any:
    """Look up an index at a place: what stands in a constant is known now."""
    access = lookup.access
    found = element(access.array, tuple([at(i, by) for i in access.indices]), access.flat)
    if isinstance(found, Number) and type(lookup.extent) is int:
        known = int(found.value) + (lookup.extent if found.value < 0 else 0)
        if 0 <= known < lookup.extent:
            return known
    return substitute(lookup, by)


def affine(index: Any) -> tuple[int, list[tuple[Any, int]]] | None:
    """Take an index apart into an integer and integer steps along axes; None where it is something else."""
    if type(index) is int:
        return index, []
    if isinstance(index, (Axis, Lookup)):
        return 0, [(index, 1)]
    constant = 0
    steps: list[tuple[Any, int]] = []
    for term in index.args if index.is_Add else (index,):
        if term.is_Integer:
            constant += int(term)
            continue
        step, rest = term.as_coeff_Mul()
        if not step.is_Integer or not hasattr(rest, "index"):
            return None
        steps.append((rest.index, int(step)))
    return constant, steps


def combined(constant: int, steps: list[tuple[Any, int]]) -> Any:
    """Put an index together again."""
    total: Any = constant
    for part, step in steps:
        total = part * step + total if isinstance(part, Axis) else part.symbol * step + total
    return total

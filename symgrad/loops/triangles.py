"""`triangles`: products of triangular matrices, and products of which only a triangle is wanted, do half of the work.

``np.tril(L) @ x`` multiplies zeros: a matrix that is made by a choice between an element and 0, on a comparison of its
places, is zero beyond. Likewise the gradient of L is read in the triangle only. Such products say which of their terms
may be left out; where 0 would meet infinity there, that is the one exception to what IEEE says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.notation import Access, Apply, Axis, IndexValue, Number, accesses
from symgrad.ir.shapes import simplified
from symgrad.loops.align import shifted
from symgrad.loops.products import is_product

if TYPE_CHECKING:
    from symgrad.ir.notation import Statement
    from symgrad.loops.program import Array

COMPARISONS = {np.greater_equal: (0, 0), np.greater: (0, 1), np.less_equal: (1, 0), np.less: (1, 1)}
"""Of each comparison of two places which is the larger one, and by how much at least."""

Triangle = tuple[int, int, int]
"""Two dimensions of an array, and by how much the first index is larger than the second, at least, in the triangle."""


def triangles(statements: list[Statement]) -> list[Statement]:
    """Note, on sums of products, two axes and by how much the first is larger, at least, in the terms that count."""
    written = _written(statements)
    wanted = _wanted(statements)
    if not written and not wanted:
        return statements
    return [_noted(s, written, wanted) if is_product(s) else s for s in statements]


def _noted(s: Statement, written: dict[Array, Triangle], wanted: dict[Array, Triangle]) -> Statement:
    known = [(access, written.get(access.array)) for access in accesses(s.value)]
    for access, triangle in [*known, (s.target, wanted.get(s.target.array))]:
        if triangle is not None and not access.flat:
            larger, smaller, least = access.indices[triangle[0]], access.indices[triangle[1]], triangle[2]
            if type(least) is int and isinstance(larger, Axis) and isinstance(smaller, Axis) and larger is not smaller:
                return replace(s, triangle=(larger, smaller, least))
    return s


def _written(statements: list[Statement]) -> dict[Array, Triangle]:
    """Find the temporaries that are zero beyond a triangle."""
    found: dict[Array, Triangle | None] = {}
    for s in statements:
        chosen = _choice(s)
        array = s.target.array
        whole = chosen is not None and array not in found and s.how == "=" and not s.ranges
        found[array] = chosen[1] if chosen is not None and whole and s.target.indices == s.axes else None
    return {array: t for array, t in found.items() if t is not None and array.kind == "temporary"}


def _wanted(statements: list[Statement]) -> dict[Array, Triangle]:
    """Find the temporaries that are read in a triangle only."""
    found: dict[Array, set[Triangle | None]] = {}
    for s in statements:
        chosen = _choice(s)
        for access in s.reads:
            inside = chosen is not None and access is chosen[0] and access.indices == s.axes and not access.flat
            found.setdefault(access.array, set()).add(chosen[1] if chosen is not None and inside else None)
    every = {array: next(iter(ts)) for array, ts in found.items() if len(ts) == 1 and array.kind == "temporary"}
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

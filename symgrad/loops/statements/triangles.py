"""`triangles`: products of triangular matrices, and products that are read in a triangle, leave out the other terms.

Where an array may be other than zero is followed through sums, products, choices, constants and diagonals; where it is
read is followed backwards through choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.ir.index.notation import Access, Apply, Axis, How, IndexValue, Number, Statement, accesses, looked_up
from symgrad.ir.index.shapes import simplified
from symgrad.loops.program import Array, LoopProgram, kept
from symgrad.loops.statements.align import shifted
from symgrad.ops.declare.traits import traits

COMPARISONS = {np.greater_equal: (0, 0), np.greater: (0, 1), np.less_equal: (1, 0), np.less: (1, 1)}
"""Of each comparison of two places which is the larger one, and by how much at least."""

ABSORBING = frozenset({np.multiply, np.bitwise_and, np.logical_and})
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
    found: dict[Array, Region | None] = {
        array: _of_data(array.data) if len(array.shape) > 1 else {} for array in program.constants
    }
    for s in program.statements:
        array = s.target.array
        if not array.is_temporary:
            continue
        is_plain = s.how in {How.SET, How.ADD} and not (s.ranges or s.prefix or s.target.is_indirect)
        is_begun = array in found or (s.how == How.SET and s.target.indices == s.axes)
        here: Region | None = {}
        if is_plain and is_begun and not any(access.array is array for access in s.reads):
            here = _nonzero(s.value, found)
        if here is not None and is_begun:
            here = _of_dimensions(s.target, here)
        found[array] = _either(found[array], here) if array in found else here
    return found


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
    if function not in ABSORBING and function is not np.where and (
        value.dtype.kind != "f" or not traits(value.op, value.params).linear
    ):
        return {}
    parts = [_nonzero(arg, known) for arg in value.args]
    if function in ABSORBING:
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

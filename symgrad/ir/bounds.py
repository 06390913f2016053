"""Bounds of index notation: what a structured op's body touches, and which conditions keep it inside its arrays.

Programs that symgrad traced are inside by construction; one that comes from a file is asked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from symgrad.errors import ShapeError
from symgrad.ir import shapes
from symgrad.ir.node import Node, Requirement
from symgrad.ir.notation import Access, Axis, Body, Lookup, Statement, accesses, looked_up, parts, symbolic
from symgrad.ir.shapes import Shape

RANGE = 3
"""A slice's entry for one axis is a range ``(start, count, step)`` or a position ``(place,)``."""


def obligations(node: Node, body: Body) -> list[Requirement]:
    """List what must hold when a structured node is computed, beyond what is certain for all extents.

    Raises:
        ShapeError: it reads or writes outside of an array, or with another number of indices.
    """
    if not body.temporaries and _plain_slice(node):
        return []
    arrays: dict[int, Shape] = dict(enumerate([x.shape for x in node.inputs]))
    arrays[-1] = node.shape
    arrays.update({-2 - k: t.shape for k, t in enumerate(body.temporaries)})
    found: dict[Requirement, None] = {}
    for statement in body.statements:
        if any(axis.extent == 0 for axis in statement.axes):
            continue
        least = _least_extents(statement)
        for access in (*looked_up(statement.target.indices), statement.target, *accesses(statement.value)):
            for low, high, extent, axis in _ranges(access, arrays[access.array]):
                if not _surely_nonnegative(low, least):
                    found.setdefault(_when_run(statement, low, extent, axis, node))
                if not _surely_nonnegative(extent - 1 - high, least):
                    found.setdefault(_when_run(statement, high, extent, axis, node))
    return list(found)


def _plain_slice(node: Node) -> bool:
    """Check a slice of known extents without SymPy; False where the body must be asked.

    Raises:
        ShapeError: it reaches outside.
    """
    if node.op.name != "slice" or not shapes.is_static(node.inputs[0].shape) or not shapes.is_static(node.shape):
        return False
    for entry, extent in zip(node.params[0], node.inputs[0].shape, strict=True):
        start, count, step = entry if len(entry) == RANGE else (entry[0], 1, 1)
        if type(start) is not int:
            return False
        if count > 0 and not (0 <= start < extent and 0 <= start + (count - 1) * step < extent):
            last = start + (count - 1) * step
            raise ShapeError(f"the places {start} to {last} are out of bounds for an axis with size {extent}")
    return True


def _ranges(access: Access, shape: Shape) -> Iterator[tuple[Any, Any, Any, int]]:
    """Yield lowest and highest index and the extent for each axis of an access; lookups are checked when they run."""
    shape = (shapes.size(shape),) if access.flat else shape
    if len(access.indices) != len(shape):
        raise ShapeError(f"{len(access.indices)} indices for an array of shape {shapes.show(shape)}")
    for axis, (index, extent) in enumerate(zip(access.indices, shape, strict=True)):
        if isinstance(index, Axis) and index.extent == extent:
            continue
        if isinstance(index, Lookup):
            if index.extent != extent:
                raise ShapeError(f"a lookup checked against {index.extent} in an axis of extent {extent}")
            continue
        yield (*_extremes(index), extent, axis)


def _extremes(index: Any) -> tuple[Any, Any]:
    """Return the lowest and the highest value of an index that is linear in its axes."""
    if type(index) is int:
        return index, index
    if isinstance(index, Axis):
        return 0, _last_index(index)
    low = high = symbolic(index).expand()
    for axis in parts(index):
        if isinstance(axis, Lookup):
            raise ShapeError("an index computed from a looked-up one")
        slope, end = symbolic(index).expand().coeff(axis.symbol), _last_index(axis)
        rising = slope.is_nonnegative
        if not rising and not slope.is_nonpositive:
            raise ShapeError(f"an index {index} of unknown direction")
        low, high = low.subs(axis.symbol, 0 if rising else end), high.subs(axis.symbol, end if rising else 0)
    return shapes.simplified(low.expand()), shapes.simplified(high.expand())


def _last_index(axis: Axis) -> Any:
    """Return an axis's last index. The statement runs only where the axis is not empty: ``Max(e, 0)`` is e there."""
    extent = axis.extent
    if type(extent).__name__ == "Max" and len(extent.args) == 2 and 0 in extent.args:  # type: ignore[union-attr]
        extent = next(e for e in extent.args if e != 0)  # type: ignore[union-attr]
    return extent - 1


def _least_extents(statement: Statement) -> dict[Any, Any]:
    """Return what unknown extents are at least where no axis is empty: ``{n: n + 2}`` for n - 1 > 0."""
    from_one: dict[Any, int] = {}
    for axis in statement.axes:
        last = _last_index(axis)  # >= 0
        symbols: set[Any] = getattr(last, "free_symbols", set())
        if len(symbols) == 1:
            (symbol,) = symbols
            offset = last - symbol
            if offset.is_Integer:
                from_one[symbol] = max(from_one.get(symbol, 0), -int(offset))
    return {symbol: symbol + least for symbol, least in from_one.items() if least > 0}


def _surely_nonnegative(margin: Any, least: dict[Any, Any]) -> bool:
    """Whether a number is nonnegative for all extents that are no less than `least`.

    Raises:
        ShapeError: when it is negative for all.
    """
    if type(margin) is not int:
        margin = shapes.simplified(margin.subs(least, simultaneous=True) if least else margin)
    if type(margin) is int or margin.is_negative:
        if margin < 0:
            raise ShapeError("an index is out of bounds")
        return True
    return nonnegative(margin.expand())


def nonnegative(margin: Any, steps: int = 4) -> bool:
    """Replace one minimum, maximum or floor after the other by what bounds it from below."""
    import sympy

    if margin.is_nonnegative:
        return True
    atoms = sorted(margin.atoms(sympy.Min, sympy.Max, sympy.floor), key=sympy.default_sort_key)
    if not atoms or not steps:
        return False
    atom = atoms[-1]
    slope = margin.coeff(atom)
    if atom in (margin - slope * atom).expand().atoms(type(atom)) or not (slope.is_nonnegative or slope.is_nonpositive):
        return False
    if isinstance(atom, sympy.floor):
        return bool(slope.is_nonpositive) and nonnegative(margin.subs(atom, atom.args[0]).expand(), steps - 1)
    lowest = any if isinstance(atom, sympy.Max) == bool(slope.is_nonnegative) else all
    return lowest([nonnegative(margin.subs(atom, one).expand(), steps - 1) for one in atom.args])


def _when_run(statement: Statement, place: Any, extent: Any, axis: int, node: Node) -> Requirement:
    """Require a bound where the statement's axes are not empty: ``0 <= 0 < 1`` elsewhere."""
    import sympy

    runs: Any = sympy.Integer(1)
    for one in statement.axes:
        if type(one.extent) is not int:
            runs *= sympy.Min(1, sympy.Max(0, one.extent))
    return Requirement(runs * place, runs * extent + 1 - runs, axis, node.line)

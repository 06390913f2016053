"""Bounds of index notation: what a structured op's body touches, and which conditions keep it inside its arrays.

Programs that symgrad traced are inside by construction; one that comes from a file is asked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from symgrad.errors import ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, Lookup, Statement, accesses, linear, looked_up
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node, Requirement


def obligations(node: Node, body: Body) -> list[Requirement]:
    """List what must hold when a structured node is computed, beyond what is certain for all extents."""
    arrays: dict[int, Shape] = dict(enumerate([x.shape for x in node.inputs]))
    arrays[-1] = node.shape
    arrays.update({-2 - k: t.shape for k, t in enumerate(body.temporaries)})
    found: dict[Requirement, None] = {}
    for statement in body.statements:
        if any(axis.extent == 0 for axis in statement.axes):
            continue
        least, runs = _least_extents(statement), 1
        for one in statement.axes:
            if type(one.extent) is not int:
                import sympy

                runs *= sympy.Min(1, sympy.Max(0, one.extent))
        for access in (*looked_up(statement.target.indices), statement.target, *accesses(statement.value)):
            for low, high, extent, axis in _ranges(access, arrays[access.array]):
                for place, margin in ((low, low), (high, extent - 1 - high)):
                    sure = _surely_nonnegative(margin, least)
                    if sure is None:
                        raise ShapeError(f"the places {low} to {high} are out of bounds for an axis with size {extent}")
                    if not sure:  # where the statement's axes are empty, 0 <= 0 < 1
                        found.setdefault(Requirement(runs * place, runs * extent + 1 - runs, axis, node.line))
    return list(found)


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
    form = linear(index)
    if form is None or any(isinstance(part, Lookup) for part, _ in form.terms):
        raise ShapeError(f"an index {index} that is not linear, or computed from a looked-up one")
    low = high = form.start
    for axis, step in form.terms:
        rising = step >= 0 if type(step) is int else step.is_nonnegative
        if not rising and not (type(step) is int or step.is_nonpositive):
            raise ShapeError(f"an index {index} of unknown direction")
        reach = step * _last_index(axis)
        low, high = low + (0 if rising else reach), high + (reach if rising else 0)
    return [shapes.simplified(end if type(end) is int else end.expand()) for end in (low, high)]  # type: ignore[return-value]


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


def _surely_nonnegative(margin: Any, least: dict[Any, Any]) -> bool | None:
    """Whether a number is nonnegative for all extents that are no less than `least`; None where it is for none."""
    if type(margin) is not int:
        margin = shapes.simplified(margin.subs(least, simultaneous=True) if least else margin)
    if type(margin) is int or margin.is_negative:
        return None if margin < 0 else True
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

"""Extents and shapes: Python integers where they are known, SymPy expressions where they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from symgrad.errors import ShapeError
from symgrad.ir.index.extents import canonical
from symgrad.ir.index.notation import Index, start_and_terms

if TYPE_CHECKING:
    from collections.abc import Iterable

    import sympy

    Dim: TypeAlias = int | sympy.Expr
    Shape: TypeAlias = tuple[Dim, ...]
else:
    Dim = Any
    Shape = tuple


def is_static(shape: Shape) -> bool:
    """Whether every extent of a shape is a known integer."""
    return all(type(dim) is int for dim in shape)


def symbol(name: str) -> sympy.Symbol:
    """Make the symbol of an unknown extent, a nonnegative integer."""
    import sympy

    return sympy.Symbol(name, integer=True, nonnegative=True)


def symbols(shapes: Iterable[Shape]) -> set[Any]:
    """Return the symbols of the unknown extents that shapes are made of."""
    return {symbol for shape in shapes for dim in shape for symbol in getattr(dim, "free_symbols", ())}


def bare(shapes: Iterable[Shape]) -> dict[Any, tuple[int, int]]:
    """Find the symbols of unknown extents that stand alone: of each the first shape and axis that has it, in order."""
    found: dict[Any, tuple[int, int]] = {}
    for k, shape in enumerate(shapes):
        for axis, dim in enumerate(shape):
            if not isinstance(dim, int) and dim.is_Symbol:
                found.setdefault(dim, (k, axis))
    return found


def simplified(dim: Any) -> Dim:
    """Turn a SymPy integer into a Python one, and what is equal for every extent into one form."""
    if type(dim) is int or isinstance(dim, Index):
        return dim
    if isinstance(dim, bool):
        return int(dim)
    return int(dim) if getattr(dim, "is_Integer", True) else canonical(dim)


def not_negative(dim: Any) -> Dim:
    """Write an extent so that it is at least 0 whatever the unknown ones are."""
    if isinstance(dim, int) or not hasattr(dim, "is_nonnegative") or dim.is_nonnegative:
        return dim
    import sympy

    return simplified(sympy.Max(0, dim))


def smaller(one: Any, other: Any) -> Dim:
    """Return the smaller one of two extents."""
    if type(one) is type(other) is int:
        return min(one, other)
    import sympy

    return simplified(sympy.Min(one, other))


def size(shape: Shape) -> Dim:
    """Multiply the extents of a shape; the empty product is 1."""
    total: Any = 1
    for dim in shape:
        total = total * dim
    return simplified(total)


def strides(shape: Shape) -> Shape:
    """Count the elements between neighbours along each axis of a C-contiguous array."""
    steps: list[Dim] = []
    step: Any = 1
    for dim in reversed(shape):
        steps.append(simplified(step))
        step = step * dim
    return tuple(reversed(steps))


def broadcast(*shapes: Shape) -> Shape:
    """Broadcast shapes by NumPy's rule; an unknown extent equals only itself and stretches only ones.

    >>> broadcast((2, 1), (3,))
    (2, 3)
    """
    wide = {shape for shape in shapes if shape}
    if len(wide) < 2:
        return next(iter(wide), ())
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for axis, dim in enumerate(shape, offset):
            if dim == 1 or dim == result[axis]:
                continue
            if result[axis] != 1:
                joined = ", ".join(map(show, shapes))
                raise ShapeError(
                    f"shapes {joined} do not broadcast together: {result[axis]} against {dim} on axis {axis}"
                )
            result[axis] = dim
    return tuple(result)


def without(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """Leave axes out of a shape."""
    return tuple([d for k, d in enumerate(shape) if k not in axes])


def show(shape: Shape) -> str:
    """Print a shape as NumPy does: ``(2, n)``, ``(3,)``."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def upper(dim: Dim, unknown: int = 1 << 20) -> int:
    """Guess an extent for cost estimates: itself when known, `unknown` for each symbol in it."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Index):
        start, terms = start_and_terms(dim)
        return max(0, int(start + unknown * sum(terms.values())))
    return max(0, int(dim.subs(dict.fromkeys(dim.free_symbols, unknown))))

"""Extents with minima and maxima in them: what they are where the unknown ones are large, and one form for equal ones.

``u = np.concatenate([u[:1], u[1:-1], u[-1:]])`` has ``Min(1, n) + Max(0, n - 2) + Max(0, n - Max(0, n - 1))`` elements:
n, or 2 where n is 1. After ten such steps nobody could write that down, though it is the same number still. From some
n on such an extent is linear, so it is a linear one and a few corrections for small n, in the one way there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import ceil, floor, prod
from typing import Any

from symgrad.ir.index.notation import Index, start_and_terms

FIRST = 32
"""Extents that are not linear from here on stay as they are, and so do those that would not get shorter."""


class Large:
    """Extents where each symbol is at least so large."""

    def __init__(self, symbols: set[Any], least: int) -> None:
        self.symbols, self.least = symbols, least
        self.known: dict[Any, Any] = {}

    def simpler(self, e: Any) -> Any:
        """Choose in minima and maxima, the inner ones first; each is looked at once.

        >>> import sympy
        >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
        >>> Large({n}, 32).simpler(sympy.Max(0, n - 2) + sympy.Min(1, n))
        n - 1
        """
        if not e.args:
            return e
        if e not in self.known:
            args = [self.simpler(a) for a in e.args]
            kind = type(e).__name__
            if kind in {"Max", "Min"}:
                most = kind == "Max"
                made = [a for a in args if all(self._before(*((b, a) if most else (a, b))) for b in args)]
                self.known[e] = made[0] if made else e.func(*args)
            elif kind == "Mod" and args[0].is_nonnegative and self._before(args[0] + 1, args[1]):
                self.known[e] = args[0]
            elif kind == "Mod" and args[0].is_negative and self._before(-args[0], args[1]):
                self.known[e] = args[0] + args[1]
            else:
                self.known[e] = e.func(*args) if any(a is not b for a, b in zip(args, e.args, strict=True)) else e
        return self.known[e]

    def _before(self, one: Any, other: Any) -> bool:
        """Whether one is at most the other for all large extents."""
        if one is other:
            return True
        more = (other - one).subs({s: s + self.least for s in self.symbols})
        return bool(more.expand().is_nonnegative)


def has_choice(dim: Any) -> bool:
    """Whether there is a minimum, a maximum or a remainder in an extent."""
    if not hasattr(dim, "has"):  # it is none of SymPy's
        return False
    import sympy

    return bool(dim.has(sympy.Min, sympy.Max, sympy.Mod))


@lru_cache(maxsize=4096)
def canonical(dim: Any) -> Any:
    """Write an extent of one unknown in its one form: linear, and corrections where that is small.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> canonical(sympy.Max(0, n - 1) + sympy.Min(1, n))
    n
    >>> canonical(sympy.Max(0, sympy.Max(0, n - 1) - 1))
    Max(0, n - 2)
    """
    import sympy

    choices = dim.atoms(sympy.Min, sympy.Max, sympy.Mod)
    if len(choices) < 2 or len(dim.free_symbols) != 1:
        return dim
    (n,) = dim.free_symbols
    if hasattr(n, "index") or not n.is_nonnegative or dim.has(sympy.floor, sympy.ceiling):
        return dim
    line = Large({n}, FIRST).simpler(dim).expand()
    slope, start = line.coeff(n, 1), line.coeff(n, 0)
    if not (slope.is_Integer and start.is_Integer and line == slope * n + start):
        return dim
    bends: dict[int, int] = {}  # what is left of the line at k is the sum of bend * max(0, place - k)
    for k in reversed(range(FIRST)):
        rest = at(dim, {n: k}) - int(slope) * k - int(start)
        if bend := rest - sum(b * (place - k) for place, b in bends.items()):
            bends[k + 1] = bend
    if len(bends) >= len(choices):
        return dim
    if len(bends) == 1:  # written as the maximum or minimum it is
        ((place, bend),) = bends.items()
        if bend == slope:
            return sympy.Max(slope * place + start, line)
        if slope == 0 and bend == -1:
            return sympy.Min(start, n + start - place)
    return line + sum(bend * sympy.Max(0, place - n) for place, bend in bends.items())


def fraction(*parts: int) -> Any:
    """Make a fraction, of a module that few programs need."""
    from fractions import Fraction

    return Fraction(*parts)


def at(e: Any, numbers: Mapping[Any, int]) -> Any:
    """Evaluate an extent, or an index, where each of its symbols is a number."""
    if type(e) is int:
        return e
    if isinstance(e, Index):
        start, terms = start_and_terms(e)
        return start + sum([step * numbers[part.symbol] for part, step in terms.items()])
    if e.is_Symbol:
        return numbers[e]
    if not e.args:
        return fraction(int(e.p), int(e.q)) if not e.is_Integer else int(e)
    args = [at(a, numbers) for a in e.args]
    return EVALUATE[type(e).__name__](args)


EVALUATE: dict[str, Callable[[list[Any]], Any]] = {
    "Add": sum, "Mul": prod, "Pow": lambda a: fraction(a[0]) ** a[1] if a[0] or a[1] >= 0 else 0,
    "Max": max, "Min": min,
    "Mod": lambda a: a[0] % a[1] if a[1] else 0, "floor": lambda a: floor(a[0]), "ceiling": lambda a: ceil(a[0]),
}
"""What SymPy's functions in extents make of numbers; 0 where they divide by 0, as no call does that is served."""

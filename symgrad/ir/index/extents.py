"""Extents with minima and maxima in them: what they are where the unknown ones are large, and one form for equal ones.

``u = np.concatenate([u[:1], u[1:-1], u[-1:]])`` has ``Min(1, n) + Max(0, n - 2) + Max(0, n - Max(0, n - 1))`` elements:
n, or 2 where n is 1. After ten such steps nobody could write that down, though it is the same number still. From some
n on such an extent is linear, so it is a linear one and a few corrections for small n, in the one way there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import combinations, product
from math import ceil, floor, lcm, prod
from typing import Any, NamedTuple

from symgrad.ir.index.notation import Index, start_and_terms

FURTHEST = 512
"""Extents that are not linear from here on stay as they are. Chosen: most are from 2 or 3 on."""

LEAST = (0, 1, 2, 3, 4, 8, 16, 32)
"""From where on extents of several unknown ones are compared."""

LINES = 16
"""So are those of more lines."""


class Large:
    """Extents where each symbol is at least so large."""

    def __init__(self, least: Mapping[Any, int]) -> None:
        self.least, self.known = least, dict[Any, Any]()

    def simpler(self, e: Any) -> Any:
        """Choose in minima and maxima, the inner ones first; each is looked at once.

        >>> import sympy
        >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
        >>> Large({n: 32}).simpler(sympy.Max(0, n - 2) + sympy.Min(1, n))
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
        more = (other - one).subs({s: s + least for s, least in self.least.items()})
        return bool(more.expand().is_nonnegative)


def has_choice(dim: Any) -> bool:
    """Whether there is a minimum, a maximum or a remainder in an extent."""
    if not hasattr(dim, "has"):  # it is none of SymPy's
        return False
    import sympy

    return bool(dim.has(sympy.Min, sympy.Max, sympy.Mod))


@lru_cache(maxsize=4096)
def canonical(dim: Any) -> Any:
    """Write an extent in its one form: products multiplied out, and of one unknown a line, or a line rounded down.

    Where the unknown is small, corrections stand beside the line; an extent that this makes longer stays as it is.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> canonical(sympy.Max(0, n - 1) + sympy.Min(1, n))
    n
    >>> canonical(sympy.Max(0, sympy.Max(0, n - 1) - 1))
    Max(0, n - 2)
    >>> canonical(n // 2 + (n + 1) // 2)
    n
    >>> canonical(n * (n + 1))
    n**2 + n
    """
    import sympy

    choices = dim.atoms(sympy.Min, sympy.Max, sympy.Mod, sympy.floor, sympy.ceiling)
    if not choices:
        return dim.expand() if any(part.is_Add for each in dim.atoms(sympy.Mul) for part in each.args) else dim
    sampled = _sampled(dim)
    if sampled is None:
        return dim
    n, least, period, values = sampled
    for part in dim.args if isinstance(dim, (sympy.Min, sympy.Max)) else ():
        if all(at(part, {n: k}) == value for k, value in enumerate(values)):
            return canonical(part)
    slope = fraction(values[-1] - values[least], period)
    p, q = slope.numerator, slope.denominator
    # floor((p * k + b) / q) is the value at k for b from q * value - p * k on, and for q numbers in all.
    firsts = [q * values[k] - p * k for k in range(least, least + period)]
    b = max(firsts)
    if b >= min(firsts) + q:
        return dim
    line = p * n + b if q == 1 else sympy.floor((p * n + b) / sympy.Integer(q))
    on_line = [(p * k + b) // q for k in range(len(values))]
    if p != 0 and on_line != values:
        chosen, bound = (max, sympy.Max) if p > 0 else (min, sympy.Min)
        if values == [chosen(values[0], each) for each in on_line]:
            return bound(values[0], line)
    bends: dict[int, int] = {}  # what is left of the line at k is the sum of bend * max(0, place - k)
    for k in reversed(range(least)):
        if bend := values[k] - on_line[k] - sum(more * (place - k) for place, more in bends.items()):
            bends[k + 1] = bend
    parts = len(bends) + (q > 1)
    if parts > 1 and parts >= len(choices):
        return dim
    if q == 1 and len(bends) == 1:  # written as the maximum or minimum it is
        ((place, bend),) = bends.items()
        if p == 0 and bend == -1:
            return sympy.Min(b, n + b - place)
    return line + sum(bend * sympy.Max(0, place - n) for place, bend in bends.items())


class Meeting(NamedTuple):
    """Where two extents are equal.

    Attributes:
        least: from there on each of these unknown extents has to be.
        rest: of one unknown extent what has to be 0, its remainder by some number; None where nothing has to be.
    """

    least: dict[Any, int]
    rest: Any = None


def meeting(one: Any, other: Any) -> Meeting | None:
    """Find where two extents are equal; None if that is nowhere, or not for all large ones, nor for every k-th.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> meeting(sympy.Max(1, n), n), meeting(n // 2, (n + 1) // 2), meeting(n, sympy.Integer(5))
    (Meeting(least={n: 1}, rest=None), Meeting(least={n: 0}, rest=Mod(n, 2)), None)
    """
    import sympy

    gap = one - other
    if not hasattr(gap, "free_symbols"):
        return None
    gap = canonical(gap)
    symbols = sorted(gap.free_symbols, key=str)
    sampled = _sampled(gap)
    if sampled is not None:
        n, least, period, values = sampled
        zeros = [k % period for k in range(least, least + period) if values[k] == 0]
        if values[-1] != values[least] or not zeros:
            return None
        every = period // len(zeros)
        if period % len(zeros) or any((k - zeros[0]) % every for k in zeros):
            return None
        first = zeros[0] % every
        start = max([k + 1 for k in range(least) if values[k] != 0 and (k - first) % every == 0], default=0)
        return Meeting({n: start}, sympy.Mod(n - first, every) if every > 1 else None)
    if not symbols:
        return Meeting({}) if gap == 0 else None
    found = next((k for k in LEAST if _is_zero(gap, dict.fromkeys(symbols, k))), None)
    if found is None:
        return None
    each = dict.fromkeys(symbols, found)
    for s in symbols:
        each[s] = next(k for k in LEAST if k == found or _is_zero(gap, {**each, s: k}))
    return Meeting(each)


def _is_zero(gap: Any, least: Mapping[Any, int]) -> bool:
    """Whether a difference of extents is 0 from these on."""
    return bool(Large(least).simpler(gap).expand() == 0)


class _Sampled(NamedTuple):
    """What an extent of one unknown comes to: from `least` on it follows a line, with a period."""

    symbol: Any
    least: int
    period: int
    values: list[Any]


def _sampled(dim: Any) -> _Sampled | None:
    """Evaluate an extent until a period after it follows its line; None where it follows none that is known."""
    if len(dim.free_symbols) != 1:
        return None
    (n,) = dim.free_symbols
    growth = None if hasattr(n, "index") or not n.is_nonnegative else _growth(dim)
    if growth is None or growth.least + growth.period > FURTHEST:
        return None
    values = [at(dim, {n: k}) for k in range(growth.least + growth.period + 1)]
    return _Sampled(n, growth.least, growth.period, values)


class _Growth(NamedTuple):
    """How an extent of one unknown grows: along lines, each of which it may follow, rounded and with remainders.

    Attributes:
        slopes: those of the lines.
        off: how far it is from its line, at most.
        least: from there on it follows one of them.
        period: each so many steps it is as far from the line as before.
    """

    slopes: frozenset[Any]
    off: Any
    least: int = 0
    period: int = 1


def _growth(e: Any) -> _Growth | None:
    """Find how an extent grows; None where it has products of the unknown, or too many lines."""
    import sympy

    if e.is_Symbol:
        return _Growth(frozenset({fraction(1)}), 0)
    if e.is_Rational:
        return _Growth(frozenset({fraction(0)}), abs(fraction(int(e.p), int(e.q))))
    kind, parts = type(e).__name__, [_growth(a) for a in e.args]
    if kind == "Mul" and e.args[0].is_Rational and len(parts) == 2:
        _, whole = parts
        by = fraction(int(e.args[0].p), int(e.args[0].q))
        return whole and whole._replace(slopes=frozenset([by * s for s in whole.slopes]), off=abs(by) * whole.off)
    known, rounds = [part for part in parts if part is not None], isinstance(e, (sympy.floor, sympy.ceiling))
    if len(known) < len(parts) or not (rounds or kind in {"Add", "Max", "Min", "Mod"}):
        return None
    first = known[0]
    least, period = max([part.least for part in known]), lcm(*[part.period for part in known])
    if rounds:
        steps = lcm(period, *[s.denominator * period for s in first.slopes])
        return first._replace(off=first.off + 1, period=steps)
    if kind == "Mod":
        by = e.args[1]
        if not (by.is_Integer and by > 0):
            return None
        steps = lcm(*[(s * period / int(by)).denominator * period for s in first.slopes])
        return _Growth(frozenset({fraction(0)}), int(by), least, steps)
    if kind == "Add":
        slopes = first.slopes
        for part in known[1:]:  # one by one: all sums of 20 pairs are a million, most of which are equal
            slopes = frozenset([s + t for s, t in product(slopes, part.slopes)])
            if len(slopes) > LINES:
                return None
        off = sum([part.off for part in known])
    else:
        slopes = frozenset().union(*[part.slopes for part in known])
        off = max([part.off for part in known])
        gaps = [abs(s - t) for s, t in combinations(slopes, 2)]
        least = max(least, ceil(2 * off / min(gaps)) if gaps else 0)
    return _Growth(slopes, off, least, period) if len(slopes) <= LINES else None


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

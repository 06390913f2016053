"""Quantiles, moments and entropies of SciPy's distributions, where its own formulas do not trace.

A quantile is the root of the distribution function, in the tail that it is in; its derivatives, of any order, are those
of the implicit function. What SciPy integrates numerically is a sum over quantiles: with x(q) the quantile, the mean
of g is the integral of g(x(q)) from 0 to 1. Either half of it is taken by the double exponential formula (H. Takahasi,
M. Mori, Double exponential formulas for numerical integration, Publ. RIMS 9 (1974)), which no singularity at 0 spoils.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symgrad.api.modes.control import while_loop
from symgrad.api.modes.gradients import stop_gradient
from symgrad.api.modes.linearize import vjp
from symgrad.api.rules.custom import custom_jvp, outer_input
from symgrad.errors import SymgradError, UnsupportedError, heard
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, is_traced
from symgrad.ops.numpy.reductions import floating
from symgrad.ops.scipy.integrals import INHERITED
from symgrad.ops.scipy.stats import TAILS
from symgrad.trace.lines import raised_in_library
from symgrad.trace.numpy.replaced import in_python
from symgrad.trace.remedies import OTHERWISE
from symgrad.trace.state import current

INFRASTRUCTURE = "stats._distn_infrastructure"
EPS = np.finfo(float).eps

MOST_STEPS = 200
"""Of a search: a root takes about 12, and some more where it is huge or next to 0."""


def floats(*arrays: Any) -> list[Any]:
    """Return arrays of one shape, in double."""
    return [x.astype(np.float64) for x in np.broadcast_arrays(*map(lift, arrays))]


def _has(dist: Any, name: str) -> bool:
    """Whether a distribution has a formula of its own."""
    owner = next(kind for kind in type(dist).__mro__ if name in vars(kind))
    return not owner.__module__.endswith(INFRASTRUCTURE)


def _tried(formula: Callable[..., Any], *args: Any, for_all: bool = True, **keywords: Any) -> Any:
    """Call what SciPy wrote in Python; None where it cannot be traced, `for_all` values at once.

    What a user's own formula raises is the user's.
    """
    trace: Any = current()
    branches, before = trace.branches, len(heard.refusals or ())
    trace.branches = None if for_all else branches
    try:
        return formula(*args, **keywords)
    except (SymgradError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        if not isinstance(error, SymgradError) and not raised_in_library(error):
            raise
        del (heard.refusals or [])[before:]
        return None
    finally:
        trace.branches = branches


def _own(dist: Any, name: str, *args: Any, **keywords: Any) -> Any:
    """Call a distribution's own formula, where there is one that can be traced."""
    key = type(dist).__name__, name
    known = key in INHERITED or (_has(dist, name) and key not in ROOTS)
    formula = partial(INHERITED[key], dist) if key in INHERITED else getattr(dist, name)
    return _tried(formula, *args, **keywords) if known else None


ROOTS = frozenset([("ksone_gen", "_isf"), *[(f"{name}_gen", "_ppf") for name in ("ksone", "nct", "ncx2", "ncf")]])
"""Quantiles that SciPy computes: the root of the distribution function has more derivatives."""


CLIFF = 1e-6
"""How far off, in proportion, a chance may be where it is found: a distribution function that rounds has steps."""

LEAST = 1e-7
"""So small a chance is known to 1e-9 as 1 less another."""


def _chance(dist: Any, x: Any, above: Any, *shapes: Any) -> Any:
    """Return the chance to be above, or below; a small one above is 0 where only 1 less the other is known."""
    below = dist._cdf(x, *shapes)  # noqa: SLF001
    over = _tried(dist._sf, x, *shapes)  # noqa: SLF001
    return np.where(above, np.where(below < 1 - LEAST, 1 - below, 0) if over is None else over, below)


def _support(dist: Any, like: Any, *shapes: Any) -> list[Any]:
    """Return the ends of the support, of an array's shape."""
    return [np.broadcast_arrays(lift(end) * 1.0, like)[0] for end in dist._get_support(*shapes)]  # noqa: SLF001


# -- quantiles of continuous distributions


def _between(x: Any, y: Any) -> Any:
    """Return a number between two others that may be infinite, far ones halved by their exponents."""
    low, high = np.minimum(x, y), np.maximum(x, y)
    small, big = np.minimum(np.abs(low), np.abs(high)), np.maximum(np.abs(low), np.abs(high))
    far = np.where(small > 0, np.sqrt(small) * np.sqrt(big), 1e-3 * big)
    inside = np.where(small > big / 8, 0.5 * low + 0.5 * high, np.where(low < 0, -far, far))
    inside = np.where((low < 0) & (high > 0), 0, inside)
    inside = np.where(np.isinf(high), np.maximum(1, 10 * low), inside)
    inside = np.where(np.isinf(low), np.minimum(-1, 10 * high), inside)
    return np.where(np.isinf(low) & np.isinf(high), 0, inside)


def _root(rising: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Find where a rising function is 0 by T. R. Chandrupatla's method, Adv. Eng. Softw. 28 (1997).

    It is the inverse quadratic interpolation of three values where that is safe, and halving elsewhere. Elements that
    are found wait for the others; where nothing is found it is NaN.
    """

    def is_done(x: Any, f: Any, y: Any) -> Any:
        near = np.minimum(np.minimum(np.abs(x), np.abs(y)), 1e300)
        return (np.abs(f) <= EPS) | np.isnan(f) | np.isnan(y) | (np.abs(x - y) <= 2 * EPS * near)

    def step(state: Any) -> Any:
        count, x, f, y, g, z, h = state
        place, share = (x - y) / (z - y), (f - g) / (h - g)
        safe = (share * share < place) & (np.square(1 - share) < 1 - place)
        t = f / (g - f) * (h / (g - h)) + (z - x) / (y - x) * (f / (h - f)) * (g / (h - g))
        least = 2 * EPS * np.abs(x) / np.abs(y - x)
        t = np.where(safe & np.isfinite(t), np.clip(t, least, 1 - least), 0.5)
        new = np.where(safe, x + t * (y - x), _between(x, y))
        found = rising(new)
        same = (found > 0) == (f > 0)
        after = new, found, np.where(same, y, x), np.where(same, g, f), np.where(same, x, y), np.where(same, f, g)
        done = is_done(x, f, y)
        kept = [np.where(done, old, new) for old, new in zip((x, f, y, g, z, h), after, strict=True)]
        return (count + 1, *kept)

    def goes_on(state: Any) -> Any:
        count, x, f, y, *_ = state
        return (count < MOST_STEPS) & np.logical_not(np.all(is_done(x, f, y)))

    one = np.ones_like(low)
    start = np.int64(0), low, -np.inf * one, high, np.inf * one, low, -np.inf * one
    _, x, f, y, g, *_ = while_loop(goes_on, step, start)
    nearest = np.minimum(np.abs(f), np.abs(g))
    found = (is_done(x, f, y) | (nearest < 1e-12)) & ~np.isnan(f) & ~np.isnan(g)
    return np.where(found, np.where(np.abs(f) == nearest, x, y), np.nan)


def _found(dist: Any, chance: Any, above: Any, *shapes: Any) -> Any:
    """Return where the chance to be below, or `above`, is this, as a constant."""
    _check_shapes_alone(dist, shapes)
    chance, *shapes = stop_gradient([chance, *shapes])

    def rising(x: Any) -> Any:
        with in_python():
            ratio = np.log(np.maximum(_chance(dist, x, above, *shapes), 0)) - np.log(chance)
        return np.where(above, -ratio, ratio)

    ends = _support(dist, chance, *shapes)
    return stop_gradient(_root(rising, *ends))


def _check_shapes_alone(dist: Any, shapes: tuple[Any, ...]) -> None:
    """Refuse a distribution that holds traced values: what is found has derivatives by its shape parameters alone."""
    with in_python(), np.errstate(all="ignore"):
        probe = _tried(dist._cdf, np.float64(0.5), *[np.float64(1.0)] * len(shapes))  # noqa: SLF001
    if is_traced(probe) and outer_input([probe.node]) is not None:
        raise UnsupportedError(
            f"scipy.stats.{dist.name}: quantiles and moments of a distribution that holds traced values, which are to "
            "be shape parameters, _cdf(self, x, k), given where it is called",
        )


def _implicit(dist: Any, found: Any, chance: Any, above: Any, *shapes: Any) -> Any:
    """Return what was found, with its derivatives by the chance and by shapes: those of the implicit function."""
    moved = [k for k, shape in enumerate(shapes) if is_traced(shape) and outer_input([shape.node]) is not None]

    def tail(x: Any, above: Any, *given: Any) -> Any:
        every = [*shapes]
        for k, shape in zip(moved, given, strict=True):
            every[k] = shape
        with in_python():
            return _chance(dist, x, above, *every)

    def quantile(found: Any, chance: Any, above: Any, *given: Any) -> Any:
        del chance, above, given
        return found * 1.0

    implicit = custom_jvp(quantile)

    @implicit.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        _, _, above, *given = primals
        x = implicit(*primals)
        _, pull = vjp(lambda x, *given: tail(x, above, *given), x, *given)
        slope, *slopes = pull(np.ones_like(x))
        rest = [own * tangent for own, tangent in zip(slopes, tangents[3:], strict=True)]
        return x, (tangents[1] - sum(rest, 0.0)) / slope

    del rule
    return implicit(found, chance, above, *[shapes[k] for k in moved])


def _root_quantile(dist: Any, chance: Any, above: bool, *shapes: Any) -> Any:
    """Return a quantile, found in the tail that it is in."""
    chance, *shapes = floats(chance, *shapes)  # type: ignore[assignment]
    other = chance > 0.5  # where 1 - chance is exact
    side, chance = other if not above else ~other, np.where(other, 1 - chance, chance)
    found = _found(dist, chance, side, *shapes)
    if _own(dist, "_sf", chance, *shapes) is None:  # SciPy's is 1 less the other one
        found = np.where(side & (chance < LEAST), np.nan, found)
    there = stop_gradient(_chance(dist, found, side, *shapes) / chance)
    found = np.where(np.abs(there - 1) > CLIFF, np.nan, found)
    return _implicit(dist, found, chance, side, *shapes)


# -- moments and entropies of continuous distributions

_PLACES = np.arange(-82, 50) / 16
_RISES, _ABOVE = 1 / (1 + np.exp(-math.pi * np.sinh(_PLACES))), np.array([[False], [True]])
_SUM_WEIGHTS = math.pi / 16 * np.cosh(_PLACES) * _RISES / (1 + np.exp(math.pi * np.sinh(_PLACES)))
_LEVELS = [every * (np.arange(len(_PLACES)) % every == 0) for every in (1.0, 2.0, 4.0, 8.0)]
"""Parts of a chance, their weights, and which are of a sum of all, of every second, fourth and eighth."""

CLOSE, LOOSE = 1e-9, 0.1
"""How far off a sum may be in proportion to that of its terms' sizes, and one chance to the one that is asked for."""


def _expected(dist: Any, function: Callable[..., Any], *shapes: Any) -> Any:
    """Return the mean of a function of a variable: infinite where it grows as the inverse of a chance, or faster.

    It is NaN where it is not known to be `CLOSE`: that is told by how fast the sums of every eighth, fourth, second and
    of all terms come together, by how well SciPy's function knows the chances, and by what is lost of a tail where it
    does not, as it is 1 less the other one.
    """
    columns = [shape[..., None, None] for shape in floats(*shapes)]
    above, *columns = np.broadcast_arrays(_ABOVE & (_RISES > 0), *columns)
    half = _half(dist, above, *columns)
    chance, weights = half * _RISES, half * _SUM_WEIGHTS
    x = _found(dist, chance, above, *columns)
    wrong = np.abs(_chance(dist, x, above, *columns) / chance - 1)
    y = function(np.where(wrong < LOOSE, x, 1), *columns)
    known = (wrong < LOOSE) & np.isfinite(y)
    known = np.cumprod(known[..., ::-1], axis=-1)[..., ::-1] > 0  # with all of larger chances
    sizes = np.where(known, np.abs(y) * weights, 0)
    size = np.sum(sizes, axis=(-2, -1))
    counts = known & (sizes > 1e-20 * size[..., None, None])
    used = [np.where(counts, value, value[..., -1:]) for value in (x, chance)]  # derivatives of others overflow
    y = np.where(counts, function(_implicit(dist, *used, above, *columns), *columns), 0)
    fine, *others = [np.sum(y * weights * level, axis=(-2, -1)) for level in _LEVELS]
    step, before, first = [np.abs(a - b) for a, b in zip([fine, *others], others, strict=False)]
    pairs = (before, first), (step, before)
    rate, last = [np.minimum(1, _bounded_quotient(*pair)) for pair in pairs]  # of a kink about 1 / 4
    off = np.maximum(step * np.maximum(rate, last), before * rate**3)  # one of them may be small by chance
    gone = np.max(np.abs(y), axis=-1) * np.sum(np.where(known, 0, weights), axis=-1) + sizes[..., 0]
    off = 30 * off + np.sum(np.where(known, wrong, 0) * sizes, axis=(-2, -1)) + 4 * np.sum(gone, axis=-1)
    end, fifth = [sizes[..., k] / _SUM_WEIGHTS[k] * _RISES[k] for k in (0, 4)]
    grows = known[..., 0] & (end >= fifth) & (end > 0)
    endless = np.sum(np.where(grows, np.copysign(np.inf, y[..., 0]), 0), axis=-1)
    close = np.all(known | (chance < 1e-6), axis=(-2, -1)) & (off <= CLOSE * size)
    return np.where(np.any(grows, axis=-1), endless, fine * np.where(close, 1, np.nan))  # NaN its derivative, too


def _bounded_quotient(a: Any, b: Any) -> Any:
    """Return a quotient, or 0 where both are."""
    return np.where(b > 0, a / np.where(b > 0, b, 1), np.where(a > 0, 1, 0))


KINKS: dict[str, Callable[..., Any]] = {"crystalball_gen": lambda beta, _m: -beta}
"""Where densities have a kink elsewhere than at 0."""


def _half(dist: Any, above: Any, *shapes: Any) -> Any:
    """Return the chances to be below and above a number: a kink of the density, as at 0, or else the median."""
    if (kink := KINKS.get(type(dist).__name__)) is not None:
        below = dist._cdf(kink(*shapes), *shapes)  # noqa: SLF001 - of which sums have second derivatives
        return np.where(above, 1 - below, below)
    low, high = _support(dist, above, *shapes)
    inside = (low < 0) & (high > 0)
    if not is_traced(inside) and not np.any(inside):
        return np.full(np.shape(above), 0.5)
    below = stop_gradient(dist._cdf(np.where(inside, 0.0, np.where(np.isfinite(low), low, high)), *shapes))  # noqa: SLF001
    below = np.where(inside & (below > 0.05) & (below < 0.95), below, 0.5)
    return np.where(above, 1 - below, below)


# -- quantiles and sums of discrete distributions


ROUNDED = 2.0**-50
"""How far a chance may be from that of an integer that it is of: one that SciPy has computed is rounded otherwise."""


def _least(dist: Any, chance: Any, above: bool, *shapes: Any) -> Any:
    """Return the least integer with so large a chance below it, or so small a one `above`; it has no derivative."""
    chance, *given = floats(*stop_gradient([lift(chance), *map(lift, shapes)]))
    shapes = tuple(given)
    rounded = 1e-12 if _adds_up(dist) else ROUNDED  # terms by logarithms of gamma functions have so many digits

    def is_reached(k: Any) -> Any:
        if above:
            return dist._sf(k, *shapes) <= chance * (1 + rounded)  # noqa: SLF001
        return dist._cdf(k, *shapes) >= chance * (1 - rounded)  # noqa: SLF001

    def middle(low: Any, high: Any) -> Any:
        inside = np.where(np.isinf(high), np.maximum(0, 2 * low + 1), np.floor(0.5 * (low + high)))
        return np.where(np.isinf(low), np.minimum(-1, np.where(np.isinf(high), -1, 2 * high)), inside)

    def halved(state: Any) -> Any:
        low, high, count = state
        k = middle(low, high)
        reached = is_reached(k)
        done = high - low <= 1
        return np.where(done | reached, low, k), np.where(done | ~reached, high, k), count + 1

    def goes_on(state: Any) -> Any:
        return np.any(state[1] - state[0] > 1) & (state[2] < MOST_STEPS)

    low, high = _support(dist, chance, *shapes)
    valid = (chance > 0) & (chance < 1) & (low <= high)
    start = np.where(valid, low - 1, 0), np.where(valid, high, 1), np.int64(0)
    low, high, _ = while_loop(goes_on, halved, start)
    found = np.where(high - low <= 1, high, np.nan)  # beyond 2^53 there are no integers between
    return stop_gradient(np.where(valid, found, np.nan))


_BLOCK, MOST_BLOCKS = 32, 4000


def series_between(
    term: Callable[..., Any], middle: Any, low: Any, high: Any, *given: Any, directions: tuple[int, ...] = (1, -1),
) -> Any:
    """Add up ``term(k, *given)`` of all k from one integer to another, from one between on in either direction.

    It ends where the largest terms of halves of a block fall so that what follows has no digit; NaN where that takes
    too long. Its derivatives are the sums of the terms' derivatives.
    """
    return _sums(lambda k, *given: (term(k, *given),), middle, low, high, *given, directions=directions)[0]


def _sums(
    terms: Callable[..., tuple[Any, ...]], middle: Any, low: Any, high: Any, *given: Any, directions: tuple[int, ...],
) -> tuple[Any, ...]:
    """Add up several at once: what follows the sums' derivatives by all that is given."""
    moved = [k for k, x in enumerate(given) if is_traced(x) and outer_input([x.node]) is not None]
    if len(moved) < len(given):
        columns = [x[..., None] for x in given]

        def of_moved(k: Any, *some: Any) -> tuple[Any, ...]:
            every = [*columns]
            for place, x in zip(moved, some, strict=True):
                every[place] = x
            return terms(k, *every)

        return _sums(of_moved, middle, low, high, *[given[k] for k in moved], directions=directions)

    def side(direction: int, first: Any, low: Any, high: Any, *given: Any) -> Any:
        places, columns = direction * np.arange(_BLOCK), [x[..., None] for x in given]

        def step(state: Any) -> Any:
            count, first, totals, sizes, done = state
            k = first[..., None] + places
            inside = (k >= low[..., None]) & (k <= high[..., None]) & ~done[..., None]
            found = [np.where(inside, value, 0) for value in terms(np.where(inside, k, first[..., None]), *columns)]
            totals = tuple([total + np.sum(value, axis=-1) for total, value in zip(totals, found, strict=True)])
            sizes = tuple([size + np.sum(np.abs(value), axis=-1) for size, value in zip(sizes, found, strict=True)])
            ends = [_falls(np.abs(value), size) for value, size in zip(found, sizes, strict=True)]
            next_ = first + direction * _BLOCK
            done = done | np.isnan(sum(sizes)) | (next_ < low) | (next_ > high)
            return count + 1, next_, totals, sizes, done | (np.all(np.stack(ends), axis=0) & (sum(sizes) > 0))

        def goes_on(state: Any) -> Any:
            return (state[0] < MOST_BLOCKS) & np.logical_not(np.all(state[-1]))

        zeros = tuple([np.zeros_like(first) for _ in terms(first[..., None], *columns)])
        start = np.int64(0), first, zeros, zeros, (first < low) | (first > high) | np.isnan(first)
        _, _, totals, _, done = while_loop(goes_on, step, start)
        return [np.where(done & ~np.isnan(first), total, np.nan) for total in totals]

    def series(middle: Any, low: Any, high: Any, *given: Any) -> tuple[Any, ...]:
        with in_python():
            starts = {1: middle, -1: middle - 1 if 1 in directions else middle}
            sides = [side(direction, starts[direction], low, high, *given) for direction in directions]
            return tuple([sum(parts[1:], parts[0]) for parts in zip(*sides, strict=True)])

    def slopes(k: Any, *given: Any) -> tuple[Any, ...]:
        k, *given = np.broadcast_arrays(k, *given)  # type: ignore[assignment]
        values, pull = vjp(lambda *given: terms(k, *given), *given)
        ones = [[np.ones_like(k) if j == i else np.zeros_like(k) for j in range(len(values))]
                for i in range(len(values))]
        return tuple([slope for one in ones for slope in pull(tuple(one))])

    implicit = custom_jvp(series)

    @implicit.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        found = _sums(slopes, *primals, directions=directions)
        rows = [found[i : i + len(given)] for i in range(0, len(found), len(given))]
        return implicit(*primals), tuple([
            sum([slope * tangent for slope, tangent in zip(row, tangents[3:], strict=True)], 0.0) for row in rows])

    del rule
    return (implicit if given else series)(middle, low, high, *given)


def _falls(sizes: Any, total: Any) -> Any:
    """Whether what follows a block of terms has no digit: by the largest of its halves."""
    before, after = np.max(sizes[..., : _BLOCK // 2], axis=-1), np.max(sizes[..., _BLOCK // 2 :], axis=-1)
    share = _BLOCK * after / np.where(total > 0, total, 1)  # a square of them may be 0
    return (total == 0) | ((after < before) & (share * after <= 1e-13 * (before - after)))


def _sum_over_integers(dist: Any, function: Callable[..., Any], *shapes: Any) -> Any:
    """Return the sum of a function of integers and their chances."""
    shapes = tuple(floats(*shapes))
    half = np.zeros(()) + 0.5 + (0 * shapes[0] if shapes else 0)
    middle = _least(dist, half, False, *shapes)
    ends = stop_gradient(_support(dist, half, *shapes))

    def term(k: Any, *given: Any) -> Any:
        with in_python():
            return function(k, dist._pmf(k, *given))  # noqa: SLF001

    return series_between(term, middle, *ends, *shapes)


def _adds_up(dist: Any) -> bool:
    """Whether the distribution function of integers is the sum of what a formula says of each."""
    name = type(dist).__name__
    return name in ADDED_UP or not (_has(dist, "_cdf") or _has(dist, "_sf") or name in TAILS)


ADDED_UP = frozenset({"hypergeom_gen", "skellam_gen"})
"""Those for which SciPy has another formula, in compiled code."""


def _added_up(dist: Any, above: bool, x: Any, *shapes: Any) -> Any:
    """Return the chance to be no larger than a number, or above it; NaN where too many terms count."""
    x, *shapes = floats(x, *shapes)  # type: ignore[assignment]
    low, high = stop_gradient(_support(dist, x, *shapes))
    k = stop_gradient(np.where(np.isfinite(x), np.floor(x), np.nan))
    ends = (np.maximum(k + 1, low), high) if above else (low, np.minimum(k, high))

    def term(k: Any, *given: Any) -> Any:
        with in_python():
            return dist._pmf(k, *given)  # noqa: SLF001

    found = series_between(term, ends[0] if above else ends[1], *ends, *shapes, directions=(1 if above else -1,))
    found = found + stop_gradient(np.clip(found, 0, 1) - found)  # what is rounded beyond 1 keeps its slope
    if above and dist.b == np.inf and not _has(dist, "_get_support"):  # of a tail without an end
        return np.where(np.isnan(found), 1 - dist._cdf(x, *shapes), found)  # noqa: SLF001
    return found


@answers(Late(f"{INFRASTRUCTURE}:rv_discrete._cdf"))
def discrete_cdf(self: Any, x: Any, *args: Any) -> Any:
    """Return 1 less the chance to be above, where that is known, or the sum of all up to a number."""
    return _added_up(self, False, x, *args) if _adds_up(self) else 1 - self._sf(np.floor(x), *args)


@answers(Late(f"{INFRASTRUCTURE}:rv_generic._sf"))
def chance_above(self: Any, x: Any, *args: Any) -> Any:
    """Return the chance to be above by its own formula, or by its sum, or else 1 less the other one."""
    name = type(self).__name__
    if (name, "_sf") in INHERITED:
        return INHERITED[name, "_sf"](self, x, *args)
    if name in TAILS:
        return TAILS[name](np.floor(x), *map(floating, args))
    return _added_up(self, True, x, *args) if hasattr(self, "pmf") and _adds_up(self) else 1 - self._cdf(x, *args)


for _name in ("hypergeom_gen", "skellam_gen"):
    answers(Late(f"stats._discrete_distns:{_name}._cdf"))(discrete_cdf)
for _name, _of in (("_sf", chance_above), ("_logcdf", lambda *given: np.log(discrete_cdf(*given))),
                   ("_logsf", lambda *given: np.log(chance_above(*given)))):
    answers(Late(f"stats._discrete_distns:hypergeom_gen.{_name}"))(_of)


def _entropy_term(_k: Any, p: Any) -> Any:
    return np.where(p > 0, -p * np.log(np.where(p > 0, p, 1)), 0)


# -- SciPy's methods, of what is computed so


def _central_moments(dist: Any, asked: str, *shapes: Any) -> tuple[Any, ...]:
    """Return mean, variance, skewness and excess kurtosis, about the mean: so nothing cancels."""
    mean = _expected(dist, lambda x, *_: x, *shapes)

    def about(power: int) -> Any:
        return _expected(dist, lambda x, *_: (x - mean[..., None, None]) ** power, *shapes)

    variance: Any = about(2) if not {"v", "s", "k"}.isdisjoint(asked) else None
    skewness = about(3) / variance**1.5 if "s" in asked else None
    return mean, variance, skewness, about(4) / np.square(variance) - 3 if "k" in asked else None


class _General:
    """A distribution as SciPy's methods see it, with the general formulas where its own do not trace."""

    def __init__(self, dist: Any) -> None:
        self.dist, self.discrete = dist, hasattr(dist, "pmf")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dist, name)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        found = _own(self.dist, "_ppf", q, *shapes)
        return (_least if self.discrete else _root_quantile)(self.dist, q, False, *shapes) if found is None else found

    def _isf(self, q: Any, *shapes: Any) -> Any:
        found = _own(self.dist, "_isf", q, *shapes)
        lower = None if found is not None or _has(self.dist, "_isf") else _own(self.dist, "_ppf", 1 - q, *shapes)
        if lower is not None and not _has(self.dist, "_sf"):
            return lower  # as SciPy: it has no better one
        if found is None:
            found = (_least if self.discrete else _root_quantile)(self.dist, q, True, *shapes)
        return found if lower is None else np.where(lift(q) > 0.5, lower, found)  # where 1 - q is exact

    def _stats(self, *shapes: Any, **moments: Any) -> Any:
        found = _own(self.dist, "_stats", *shapes, **moments)
        if found is None:
            found = _own(self.dist, "_stats", *shapes, for_all=False, **moments)
        if found is None and not self.discrete and not _has(self.dist, "_munp"):
            return _central_moments(self.dist, moments.get("moments", "mv"), *shapes)
        return (None,) * 4 if found is None else found

    def _munp(self, n: int, *shapes: Any) -> Any:
        found = _own(self.dist, "_munp", n, *shapes)
        if found is not None:
            return found
        if self.discrete:
            return _sum_over_integers(self.dist, lambda k, p: k**n * p, *shapes)
        return _expected(self.dist, lambda x, *_: x**n, *shapes)

    def vecentropy(self, *shapes: Any) -> Any:
        found = _own(self.dist, "_entropy", *shapes)
        if found is not None:
            return found
        if self.discrete:
            return _sum_over_integers(self.dist, _entropy_term, *shapes)
        return _expected(self.dist, lambda x, *own: -self.dist._logpdf(x, *own), *shapes)  # noqa: SLF001


def _generally(kind: str, name: str) -> None:
    """Let one of SciPy's methods run of the general distribution."""
    method = Late(f"{INFRASTRUCTURE}:{kind}.{name}")

    @answers(method)
    def run(self: Any, *args: Any, **keywords: Any) -> Any:
        return method.function.run((_General(self), *args), keywords, traced=True)


@answers(Late(f"{INFRASTRUCTURE}:rv_continuous.fit"))
def fit(self: Any, *_: Any, **__: Any) -> Any:
    """Refuse it: what a search finds is no function of the steps that it takes."""
    raise UnsupportedError(f"scipy.stats.{self.name}.fit of traced values: a search", instead=OTHERWISE["fit"])


def _expect(self: Any, func: Any, ends: tuple[Any, Any], *args: Any, **keywords: Any) -> Any:
    """Return the mean; of a function nobody knows how smooth it is, or how many terms count."""
    if func is None and ends == (None, None):
        return self.mean(*args, **keywords)
    raise UnsupportedError(
        f"scipy.stats.{self.name}.expect of a function or within bounds, with traced values",
        instead=OTHERWISE["expect"],
    )


@answers(Late(f"{INFRASTRUCTURE}:rv_continuous.expect"))
def expectation(
    self: Any, func: Any = None, args: Any = (), loc: Any = 0, scale: Any = 1, lb: Any = None, ub: Any = None,
    *_: Any, **__: Any,
) -> Any:
    """Return the mean, if nothing else is asked for."""
    return _expect(self, func, (lb, ub), *args, loc=loc, scale=scale)


@answers(Late(f"{INFRASTRUCTURE}:rv_discrete.expect"))
def expect_of_integers(
    self: Any, func: Any = None, args: Any = (), loc: Any = 0, lb: Any = None, ub: Any = None, *_: Any, **__: Any,
) -> Any:
    """Return the mean, if nothing else is asked for."""
    return _expect(self, func, (lb, ub), *args, loc=loc)


CDF = Late(f"{INFRASTRUCTURE}:rv_continuous._cdf")


@answers(CDF)
def continuous_cdf(self: Any, x: Any, *args: Any) -> Any:
    """Return an integral of the density, where it is known how to take it."""
    found = INHERITED.get((type(self).__name__, "_cdf"))
    return CDF.function.run((self, x, *args), {}, traced=True) if found is None else found(self, x, *args)


for _kind, _names in (
    ("rv_continuous", ("ppf", "isf")), ("rv_discrete", ("ppf", "isf")), ("rv_generic", ("stats", "moment", "entropy")),
):
    for _name in _names:
        _generally(_kind, _name)

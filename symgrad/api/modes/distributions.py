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
from symgrad.api.rules.custom import custom_jvp
from symgrad.errors import SymgradError, UnsupportedError, heard
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, is_traced
from symgrad.trace.numpy.replaced import in_python
from symgrad.trace.state import active, current

INFRASTRUCTURE = "stats._distn_infrastructure"
EPS = np.finfo(float).eps

MOST_STEPS = 400
"""Of a search: a root takes about 12, and as many again as its size has digits."""


def _floats(*arrays: Any) -> list[Any]:
    """Return arrays of one shape, in double."""
    return [x.astype(np.float64) for x in np.broadcast_arrays(*map(lift, arrays))]


def _own(dist: Any, name: str, *args: Any, **keywords: Any) -> Any:
    """Call a distribution's own formula; None where it has none, or none that can be traced for all values at once."""
    owner = next(kind for kind in type(dist).__mro__ if name in vars(kind))
    if owner.__module__.endswith(INFRASTRUCTURE):
        return None
    trace: Any = current()
    branches, before = trace.branches, len(heard.refusals or ())
    trace.branches = None
    try:
        return getattr(dist, name)(*args, **keywords)
    except (SymgradError, TypeError, ValueError, AttributeError, IndexError, NotImplementedError):
        del (heard.refusals or [])[before:]
        return None
    finally:
        trace.branches = branches


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
        return (f == 0) | np.isnan(f) | np.isnan(y) | (np.abs(x - y) <= 2 * EPS * near)

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
    found = is_done(x, f, y) & (nearest < np.inf)
    return np.where(found, np.where(np.abs(f) == nearest, x, y), np.nan)


def _quantile(dist: Any, chance: Any, above: Any, *shapes: Any) -> Any:
    """Return where the chance to be below, or `above`, is this."""
    chance, above, *shapes = np.broadcast_arrays(lift(chance), lift(above), *map(lift, shapes))
    chance, *shapes = _floats(chance, *shapes)
    other = chance > 0.5  # where 1 - chance is exact
    above, chance = above != other, np.where(other, 1 - chance, chance)
    moved = [k for k, shape in enumerate(shapes) if is_traced(shape)]

    def tail(x: Any, above: Any, *given: Any) -> Any:
        every = [*shapes]
        for k, shape in zip(moved, given, strict=True):
            every[k] = shape
        with in_python():
            return np.where(above, dist._sf(x, *every), dist._cdf(x, *every)), dist._get_support(*every)  # noqa: SLF001

    def quantile(chance: Any, above: Any, *given: Any) -> Any:
        def rising(x: Any) -> Any:
            ratio = np.log(np.maximum(tail(x, above, *given)[0], 0)) - np.log(chance)
            return np.where(above, -ratio, ratio)

        low, high = [np.broadcast_to(lift(end) * 1.0, chance.shape) for end in tail(chance, above, *given)[1]]
        return _root(rising, low, high)

    implicit = custom_jvp(quantile)

    @implicit.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        chance, above, *given = primals
        x = implicit(*primals)
        _, pull = vjp(lambda x, *given: tail(x, above, *given)[0], x, *given)
        slope, *slopes = pull(np.ones_like(x))
        rest = [own * tangent for own, tangent in zip(slopes, tangents[2:], strict=True)]
        return x, (tangents[0] - sum(rest, 0.0)) / slope

    del rule
    return implicit(chance, above, *[shapes[k] for k in moved])


# -- moments and entropies of continuous distributions

_PLACES = np.arange(-52, 32) / 10
_RISES = 1 / (1 + np.exp(-math.pi * np.sinh(_PLACES)))
_CHANCES, _ABOVE = np.tile(0.5 * _RISES, (2, 1)), np.array([[False], [True]])
_WEIGHTS = 0.05 * math.pi * np.cosh(_PLACES) * _RISES / (1 + np.exp(math.pi * np.sinh(_PLACES)))
_LEVELS = np.array([[1.0] * 84, [2, 0] * 42, [4, 0, 0, 0] * 21])
"""Chances up to a half in either tail, their weights, and which are of a sum of all, of every second and fourth."""

CLOSE = 1e-10
"""How far off a sum may be in proportion to that of its terms' sizes."""


def _expected(dist: Any, function: Callable[..., Any], *shapes: Any) -> Any:
    """Return the mean of a function of a variable: infinite where it grows as the inverse of a chance, or faster.

    It is NaN where it is not known to be `CLOSE`: that is told by how fast the sums of every fourth, every second and
    all terms come together, by how well SciPy's function knows the chances, and by what is lost of a tail where it does
    not, as it is 1 less the other one.
    """
    columns = [shape[..., None, None] for shape in _floats(*shapes)]
    chance = (columns[0] * 0 if columns else np.zeros((1, 1))) + _CHANCES
    x = _quantile(dist, chance, _ABOVE, *columns)
    wrong = np.abs(np.where(_ABOVE, dist._sf(x, *columns), dist._cdf(x, *columns)) / chance - 1)  # noqa: SLF001
    known = wrong < 1e-3
    y = np.where(known, function(np.where(known, x, 1), *columns), 0)
    fine, middle, coarse = [np.sum(y * _WEIGHTS * level, axis=(-2, -1)) for level in _LEVELS]
    step, before = np.abs(fine - middle), np.abs(middle - coarse)
    sizes = np.abs(y)
    gone = np.max(sizes, axis=-1) * np.sum(np.where(known, 0, _WEIGHTS), axis=-1) + sizes[..., 0] * _WEIGHTS[0]
    off = step * np.where(before > step, step / np.where(before > 0, before, 1), 1)
    off = off + np.sum(np.where(known, wrong, 0) * sizes * _WEIGHTS, axis=(-2, -1)) + 4 * np.sum(gone, axis=-1)
    close = off <= CLOSE * np.sum(sizes * _WEIGHTS, axis=(-2, -1))
    grows = known[..., 0] & (sizes[..., 0] * _CHANCES[0, 0] >= sizes[..., 4] * _CHANCES[0, 4]) & (sizes[..., 0] > 1)
    endless = np.sum(np.where(grows, np.copysign(np.inf, y[..., 0]), 0), axis=-1)
    return np.where(np.any(grows, axis=-1), endless, np.where(close, fine, np.nan))


# -- SciPy's methods, of what is computed so


class _General:
    """A distribution as SciPy's methods see it, with the general formulas where its own do not trace."""

    def __init__(self, dist: Any) -> None:
        self.dist = dist

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dist, name)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        found = _own(self.dist, "_ppf", q, *shapes)
        return _quantile(self.dist, q, False, *shapes) if found is None else found

    def _isf(self, q: Any, *shapes: Any) -> Any:
        found = _own(self.dist, "_isf", q, *shapes)
        return _quantile(self.dist, q, True, *shapes) if found is None else found

    def _stats(self, *shapes: Any, **moments: Any) -> Any:
        found = _own(self.dist, "_stats", *shapes, **moments)
        return (None,) * 4 if found is None else found

    def _munp(self, n: int, *shapes: Any) -> Any:
        found = _own(self.dist, "_munp", n, *shapes)
        return _expected(self.dist, lambda x, *_: x**n, *shapes) if found is None else found

    def vecentropy(self, *shapes: Any) -> Any:
        found = _own(self.dist, "_entropy", *shapes)
        return _expected(self.dist, lambda x, *own: -self.dist._logpdf(x, *own), *shapes) if found is None else found


def _generally(kind: str, name: str) -> None:
    """Let one of SciPy's methods run of the general distribution."""
    method = Late(f"{INFRASTRUCTURE}:{kind}.{name}")

    @answers(method)
    def run(self: Any, *args: Any, **keywords: Any) -> Any:
        with in_python():
            return method.function.original(_General(self), *args, **keywords)


for _kind, _names in (("rv_continuous", ("ppf", "isf")), ("rv_generic", ("stats", "moment", "entropy"))):
    for _name in _names:
        _generally(_kind, _name)

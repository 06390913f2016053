"""SciPy's distributions whose functions are sums of as many terms as their parameters say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.api.answers.distributions import floats, series_between
from symgrad.api.modes.control import while_loop
from symgrad.api.modes.gradients import stop_gradient
from symgrad.api.modes.linearize import vjp
from symgrad.api.rules.custom import custom_jvp
from symgrad.ops.declare.forms import Late, answers
from symgrad.ops.elementwise.incomplete import beta_slope
from symgrad.ops.elementwise.quadrature import log_integral
from symgrad.ops.elementwise.special import betainc, gammainc, gammaincc, gammaln, log1mexp

# -- mixtures by the weights of Poisson


def _poisson_mixture(term: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of a noncentral distribution: the sum of a central one's by the weights of Poisson.

    A term is given the integer, the variable and the degrees of freedom.
    """

    def weighted(j: Any, nc: Any, *given: Any) -> Any:
        near, half = nc < 1, 0.5 * nc
        small, large = np.where(near, half, 0), np.where(near, 1, half)
        weight = np.where(near, np.power(small, j) * np.exp(-small - gammaln(j + 1)),
                          np.exp(j * np.log(large) - large - gammaln(j + 1)))
        return weight * term(j, *given)

    def mixture(_self: Any, x: Any, *shapes: Any) -> Any:
        x, *degrees, nc = floats(x, *shapes)
        middle, most = stop_gradient((0.5 * nc, 0.5 * nc + np.sqrt(nc * x * np.maximum(1, degrees[0]))))
        middle = np.where((x > 0) & (x < np.inf), np.floor(middle), np.nan)
        found = series_between(weighted, middle, 0 * nc, np.floor(most + 40 * np.sqrt(most) + 300), nc, x, *degrees)
        return np.where(x == 0, 0, found)  # as SciPy: the density of ncf may be asked for at the end of its support

    return mixture


_CENTRAL: dict[str, Callable[..., Any]] = {
    "ncx2_gen._cdf": lambda j, x, df: gammainc(0.5 * df + j, 0.5 * x),
    "ncx2_gen._sf": lambda j, x, df: gammaincc(0.5 * df + j, 0.5 * x),
    "ncf_gen._pdf": lambda j, x, n, d: beta_slope(0.5 * n + j, 0.5 * d, n * x, d) / x,
    "ncf_gen._cdf": lambda j, x, n, d: betainc(0.5 * n + j, 0.5 * d, n * x / (n * x + d)),
    "ncf_gen._sf": lambda j, x, n, d: betainc(0.5 * d, 0.5 * n + j, d / (n * x + d)),
}
for _name, _central in _CENTRAL.items():
    answers(Late(f"stats._continuous_distns:{_name}"))(_poisson_mixture(_central))


# -- the sum of uniform variables

MOST = 128
"""Of so many."""


def _splines(x: Any, n: Any) -> Any:
    """Return the densities of n uniform variables' sum at x, x - 1, x - 2, ... by Cox's and de Boor's recurrence."""
    place = x[..., None] - np.arange(MOST + 2.0)
    last = np.zeros_like(place[..., :1])

    def step(state: Any) -> Any:
        m, value = state
        beside = np.concatenate([value[..., 1:], last], axis=-1)
        after = (place * value + (m - place) * beside) / (m - 1)
        return m + 1, np.where(m <= n[..., None], after, value)

    start = np.float64(2), np.where((place >= 0) & (place < 1) & (n[..., None] >= 1), 1.0, 0.0)
    found = while_loop(lambda state: state[0] <= np.minimum(np.max(n), MOST + 1), step, start)[1]
    return np.where(n[..., None] <= MOST + 1, found, np.nan)


@custom_jvp
def _uniform_density(x: Any, n: Any) -> Any:
    return _splines(x, n)[..., 0]


@_uniform_density.defjvp
def _uniform_slope(primals: Any, tangents: Any) -> Any:
    x, n = primals
    return _uniform_density(x, n), (_uniform_density(x, n - 1) - _uniform_density(x - 1, n - 1)) * tangents[0]


@custom_jvp
def _uniform_chance(x: Any, n: Any) -> Any:
    return np.sum(_splines(x, n + 1), axis=-1)


@_uniform_chance.defjvp
def _uniform_chance_slope(primals: Any, tangents: Any) -> Any:
    return _uniform_chance(*primals), _uniform_density(*primals) * tangents[0]


# -- Smirnov's statistic


def _smirnov(_self: Any, x: Any, n: Any) -> Any:
    """Return the chance of a larger one by positive terms: Z. Birnbaum, F. Tingey, Ann. Math. Stat. 22 (1951)."""
    x, n = floats(x, n)

    def term(j: Any, x: Any, n: Any) -> Any:
        log = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
        return x * np.exp(log + (j - 1) * np.log(x + j / n) + (n - j) * np.log1p(-x - j / n))

    last = stop_gradient(np.where((x > 0) & (x < 1), np.ceil(n * (1 - x)) - 1, np.nan))
    return series_between(term, np.floor(0.5 * last), 0 * last, last, x, n)


def _smirnov_density(self: Any, x: Any, n: Any) -> Any:
    x, n = floats(x, n)
    _, pull = vjp(lambda x: _smirnov(self, x, n), x)
    return np.where(x == 0, 1, np.where(x == 1, 0, -pull(np.ones_like(x))[0]))


# -- the noncentral hypergeometric distributions: A. Fog, Commun. Stat. Simul. Comput. 37 (2008)


def _nchypergeom(self: Any, *given: Any) -> Any:
    return (_fisher if type(self).__name__ == "nchypergeom_fisher_gen" else _wallenius)(*floats(*given))


def _wallenius(k: Any, total: Any, good: Any, drawn: Any, odds: Any) -> Any:
    """Return the integral from 0 to 1 over ``exp(-d exp(s))``, which falls as a power of exp(s) on the left."""
    bad, rest = total - good, drawn - k
    d = odds * (good - k) + bad - rest
    inside = (k >= 0) & (k <= good) & (rest >= 0) & (rest <= bad) & (d > 0)
    k, good, rest, bad, d = [np.where(inside, one, 1) for one in (k, good, rest, bad, d)]
    columns = [one[..., None] for one in (k, rest, d, odds)]

    def logarithm(s: Any) -> Any:
        k, rest, d, odds = columns
        return s - d * np.exp(s) + k * log1mexp(-odds * np.exp(s)) + rest * log1mexp(-np.exp(s))

    ways = sum([gammaln(a + 1) - gammaln(b + 1) - gammaln(a - b + 1) for a, b in ((good, k), (bad, rest))])
    found = np.exp(ways + np.log(d) + log_integral(logarithm, -60 - np.log1p(d), 10 + np.log((60 + k + rest) / d)))
    return np.where(inside, found, np.where(drawn == total, 1.0, 0.0))


def _fisher(k: Any, total: Any, good: Any, drawn: Any, odds: Any) -> Any:
    """Return a term over the sum of all, each over the largest."""
    def log(k: Any, total: Any, good: Any, drawn: Any, odds: Any) -> Any:
        ends = k, good - k, drawn - k, total - good - drawn + k
        return k * np.log(odds) - sum([gammaln(end + 1) for end in ends], 0.0)

    given = total, good, drawn, odds
    a, b = odds - 1, good + drawn - total - (good + drawn + 2) * odds
    c = (good + 1) * (drawn + 1) * odds
    middle = stop_gradient(np.floor(2 * c / (np.sqrt(b * b - 4 * a * c) - b)))
    most = stop_gradient(log(middle, *given))
    ends = np.maximum(0, drawn - total + good), np.minimum(drawn, good)
    whole = series_between(lambda k, most, *given: np.exp(log(k, *given) - most), middle, *ends, most, *given)
    return np.exp(log(k, *given) - most) / whole


_OF: dict[str, Callable[..., Any]] = {
    "_continuous_distns:irwinhall_gen._pdf": lambda _self, x, n: _uniform_density(*floats(x, n)),
    "_continuous_distns:irwinhall_gen._cdf": lambda _self, x, n: _uniform_chance(*floats(x, n)),
    "_continuous_distns:irwinhall_gen._sf": lambda _self, x, n: _uniform_chance(*floats(n - x, n)),
    "_continuous_distns:ksone_gen._sf": _smirnov, "_continuous_distns:ksone_gen._pdf": _smirnov_density,
    "_continuous_distns:ksone_gen._cdf": lambda *given: 1 - _smirnov(*given),
    "_discrete_distns:_nchypergeom_gen._pmf": _nchypergeom,
}
for _name, _formula in _OF.items():
    answers(Late(f"stats.{_name}"))(_formula)

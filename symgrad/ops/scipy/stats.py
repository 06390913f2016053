"""What SciPy's distributions compute otherwise than by NumPy's functions: tails, intervals, covariances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers
from symgrad.ops.elementwise.incomplete import tail_integral
from symgrad.ops.elementwise.selection import piecewise, stop
from symgrad.ops.elementwise.special import (
    gammaln,
    i0,
    i0e,
    i1,
    i1e,
    log1mexp,
    log_ndtr,
    ndtr,
    power_less_one,
    root_of_one_more,
    zeta,
)
from symgrad.ops.numpy.reductions import floating
from symgrad.ops.scipy.compiled import log_noncentral_chi2, owens_t


def _log_chance(side: str, other: str) -> Any:
    """Answer as SciPy, that asks on which side of the median x is, without the median."""

    def log_chance(self: Any, x: Any, *args: Any) -> Any:
        chance = lift(getattr(self, side)(x, *args))
        return np.where(chance < 0.5, np.log(chance), np.log1p(-getattr(self, other)(x, *args)))

    return log_chance


answers(Late("stats._distn_infrastructure:rv_continuous._logcdf"))(_log_chance("_cdf", "_sf"))
answers(Late("stats._distn_infrastructure:rv_continuous._logsf"))(_log_chance("_sf", "_cdf"))


@answers(Late("stats._distn_infrastructure:rv_generic.interval"))
def interval(self: Any, confidence: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return the quantiles with equal chances outside; for no probability they are NaN, where SciPy raises."""
    chance = lift(confidence)
    low, high = [self.ppf((1 + side * chance) / 2, *args, **kwargs) for side in (-1, 1)]
    return low, high


@answers(Late("stats._distn_infrastructure:rv_generic.nnlf"))
def nnlf(self: Any, theta: Any, x: Any) -> Any:
    """Return the negative logarithm of a sample's density: infinite outside of the support, and of no distribution."""
    loc, scale, shapes = self._unpack_loc_scale(theta)
    x = lift(x)
    density = self.logpdf if hasattr(self, "logpdf") else self.logpmf
    total = x.shape[0] * np.log(lift(scale)) - np.sum(density((x - loc) / scale, *shapes), axis=0)
    return np.where(np.isnan(total) | (lift(scale) <= 0), np.inf, total)


@answers(Late("stats._continuous_distns._log_diff"))
def log_diff(log_p: Any, log_q: Any) -> Any:
    """Take log(exp(p) - exp(q)), where SciPy adds complex numbers."""
    return log_p + log1mexp(log_q - log_p)


@answers(Late("stats._continuous_distns._log_gauss_mass"))
def log_gauss_mass(a: Any, b: Any) -> Any:
    """Return the logarithm of a normal variable's chance to lie between two numbers, from the side of the tail."""
    a, b = np.broadcast_arrays(lift(a), lift(b))
    tail = log_diff(log_ndtr(np.where(a > 0, -a, b)), log_ndtr(np.where(a > 0, -b, a)))
    return np.where((b <= 0) | (a > 0), tail, np.log1p(-ndtr(a) - ndtr(-b)))


def _truncated(side: str) -> Any:
    """Answer a side of the truncated normal distribution, near 1 by the other side."""

    def log_chance(_self: Any, x: Any, a: Any, b: Any) -> Any:
        below, above, whole = log_gauss_mass(a, x), log_gauss_mass(x, b), log_gauss_mass(a, b)
        own, other = [part - whole for part in ((below, above) if side == "cdf" else (above, below))]
        return np.where(own > -0.1, log1mexp(np.minimum(other, -1e-300)), own)

    return log_chance


for _side in ("cdf", "sf"):
    answers(Late(f"stats._continuous_distns:truncnorm_gen._log{_side}"))(_truncated(_side))


# -- shape parameters at 0, where SciPy has the limit alone, which has no slope by the parameter


def _scaled(parameter: Any, x: Any) -> Any:
    """Return a product, which is 0 where the parameter is 0 and x is infinite."""
    return parameter * np.where((parameter == 0) & np.isinf(x), 0, x)


@answers(Late("stats._continuous_distns:genextreme_gen._logpdf"))
def extreme_log_density(_self: Any, x: Any, c: Any) -> Any:
    x, c = np.broadcast_arrays(floating(x), floating(c))
    product, root = _scaled(c, x), root_of_one_more(-x, c)
    value = -np.exp(root) + np.where((c == 0) & (x == -np.inf), 0, root) - np.log1p(-product)
    return np.where((c == 1) & (x == 1), 0, np.where((product == 1) | (product == -np.inf), -np.inf, value))


@answers(Late("stats._continuous_distns:genpareto_gen._logpdf"))
def pareto_log_density(_self: Any, x: Any, c: Any) -> Any:
    x, c = np.broadcast_arrays(floating(x), floating(c))
    return -(c + 1) * root_of_one_more(np.where((c == -1) & (x == 1), 0, x), c)


@answers(Late("stats._continuous_distns:genpareto_gen._munp"))
def pareto_moment(_self: Any, n: Any, c: Any) -> Any:
    c = floating(c)
    orders = range(1, int(n) + 1)
    return np.where(c * n < 1, math.prod([k / (1 - k * c) for k in orders]), np.inf)


def _triangular(low: Callable[..., Any], high: Callable[..., Any]) -> Callable[..., Any]:
    """Answer by the formulas of either side, of which one has a limit where the peak is at an end."""
    return lambda _self, x, c: np.where((x < c) | (c == 1), low(x, c), high(x, c))


_FORMULAS: dict[str, Callable[..., Any]] = {
    "genextreme_gen._loglogcdf": lambda _self, x, c: root_of_one_more(-x, c),
    "genextreme_gen._ppf": lambda _self, q, c: -power_less_one(np.log(-np.log(q)), c),
    "genextreme_gen._isf": lambda _self, q, c: -power_less_one(np.log(-np.log1p(-q)), c),
    "genpareto_gen._logsf": lambda _self, x, c: -root_of_one_more(x, c),
    "skewnorm_gen._logpdf": lambda _self, x, a: math.log(math.sqrt(2 / math.pi)) - 0.5 * x * x + log_ndtr(
        _scaled(a, x)),
    "skewnorm_gen._pdf": lambda _self, x, a: math.sqrt(2 / math.pi) * np.exp(-0.5 * x * x) * ndtr(_scaled(a, x)),
    "triang_gen._pdf": _triangular(lambda x, c: 2 * x / c, lambda x, c: 2 * (1 - x) / (1 - c)),
    "triang_gen._cdf": _triangular(lambda x, c: x * x / c, lambda x, c: (x * x - 2 * x + c) / (c - 1)),
    "ncx2_gen._logpdf": lambda _self, x, df, nc: log_noncentral_chi2(x, df, nc),
    "ncx2_gen._pdf": lambda _self, x, df, nc: np.exp(log_noncentral_chi2(x, df, nc)),
}
for _name, _formula in _FORMULAS.items():
    answers(Late(f"stats._continuous_distns:{_name}"))(_formula)


def _log_gamma_series(weight: Callable[[int], float], first: int, c: Any) -> Any:
    """Return the terms from c^first on of ``log(gamma(1 + c))``, DLMF 5.7.3, each by its weight, over ``c^first``."""
    from scipy.special import zeta as known

    total: Any = 0.0
    for k in range(first + 30, first - 1, -1):
        own = -np.euler_gamma if k == 1 else (-1) ** k * known(k) / k
        total = weight(k) * own + c * total
    return total


def _log_gamma_combined(weights: dict[int, int], first: int, c: Any) -> Any:
    """Return a sum of ``log(gamma(1 + n c))`` by their weights, where what is below c^first cancels, over c^first."""
    near = np.abs(c) < 0.0625
    small, large = np.where(near, c, 0), np.where(near, 1, c)
    series = _log_gamma_series(lambda k: float(sum(weight * n**k for n, weight in weights.items())), first, small)
    return np.where(near, series, sum(w * gammaln(1 + n * large) for n, w in weights.items()) / large**first)


def _exprel(x: Any) -> Any:
    return power_less_one(1.0, x)


@answers(Late("stats._continuous_distns:genextreme_gen._stats"))
def extreme_moments(_self: Any, c: Any) -> tuple[Any, ...]:
    """Return those of ``(1 - W^c) / c``, W exponential, by ratios of gamma functions 1 + c^2 e, 1 + c^3 f, 1 + c^4 g.

    These are E[W^2c] / E[W^c]^2, what E[W^3c] has beside its cube, and E[W^4c] beside both: so nothing cancels at 0.
    """
    c = floating(c)
    first = _log_gamma_combined({1: 1}, 1, c)
    two = _log_gamma_combined({2: 1, 1: -2}, 2, c)
    three = _log_gamma_combined({3: 1, 2: -3, 1: 3}, 3, c)
    four = _log_gamma_combined({4: 1, 3: -4, 2: 6, 1: -4}, 4, c)
    e, f, g = [rate * _exprel(c**n * rate) for n, rate in ((2, two), (3, three), (4, four))]
    square = c * c
    cubed = (1 + square * e) ** 3
    third = e * e * c * (3 + square * e) + cubed * f
    fourth = e * e * (3 + square * e * (16 + square * e * (15 + square * e * (6 + square * e))))
    fourth = fourth + 4 * c * f * cubed * e * (3 + square * e * (3 + square * e))
    fourth = fourth + square * np.square(cubed * f) * (6 + c**3 * f * (4 + c**3 * f))
    fourth = fourth + np.square(cubed) * (1 + c**3 * f) ** 4 * g
    found = (
        (-1.0, -first * _exprel(c * first)), (-0.5, np.exp(2 * c * first) * e), (-1 / 3, -third / e**1.5),
        (-0.25, fourth / np.square(e) - 3),
    )
    mean, variance, skewness, kurtosis = [np.where(c < least, np.nan, value) for least, value in found]
    return mean, variance, skewness, kurtosis


@answers(Late("stats._continuous_distns:trapezoid_gen._munp"))
def trapezoid_moment(_self: Any, n: Any, c: Any, d: Any) -> Any:
    c, d = floating(c), floating(d)
    rest = sum([d**j for j in range(1, int(n) + 2)], 1.0)
    return 2 / (1 + d - c) * (rest - c ** (int(n) + 1)) / ((n + 1) * (n + 2))


@answers(Late("stats._continuous_distns:skewnorm_gen._cdf"))
def skew_normal(_self: Any, x: Any, a: Any) -> Any:
    """Take the normal chance less twice Owen's T, A. Azzalini (1985); where that cancels, the integral of the tail."""
    x, a = np.broadcast_arrays(floating(x), floating(a))
    left = (x < 0) & (a > 0)
    at, slope = np.where(left, x, -1), np.where(left, a, 1)
    ratio = np.exp(-0.5 * np.square(slope * at) - log_ndtr(slope * at)) * (slope / math.sqrt(2 * math.pi))
    start = -0.5 * at * at + log_ndtr(slope * at)

    def logarithm(u: Any) -> tuple[Any, Any]:
        t = at[..., None] - u
        return -0.5 * t * t + log_ndtr(slope[..., None] * t) - start[..., None], 1.0

    rate = ratio - at
    part = tail_integral(rate, 1 + ratio * (ratio + slope * slope * at), logarithm)
    tail = np.exp(start) * part * math.sqrt(2 / math.pi)
    return np.where(left, tail, ndtr(x) - 2 * owens_t(np.where(left, 1, x), np.where(left, -1, a)))


def _log_mises_density(_self: Any, x: Any, kappa: Any) -> Any:
    """As SciPy, and of small concentrations by I0, which has the slope 0 there: its scaled form has a kink at 0."""
    x, kappa = np.broadcast_arrays(floating(x), floating(kappa))
    return piecewise(
        kappa < 1, kappa, 1.0, lambda kappa: kappa * np.cos(x) - np.log(2 * math.pi * i0(kappa)),
        lambda kappa: -2 * kappa * np.square(np.sin(0.5 * x)) - np.log(2 * math.pi * i0e(kappa)))


def _mises_entropy(_self: Any, kappa: Any) -> Any:
    return piecewise(
        kappa < 1, floating(kappa), 1.0,
        lambda kappa: np.log(2 * math.pi * i0(kappa)) - kappa * i1(kappa) / i0(kappa),
        lambda kappa: np.log(2 * math.pi * i0e(kappa)) + kappa * (1 - i1e(kappa) / i0e(kappa)))


def _log_rice(x: Any, b: Any) -> Any:
    """Return the logarithm of the density over x, likewise by I0 where its argument is small."""
    x, b = np.broadcast_arrays(floating(x), floating(b))
    near = x * b < 1
    small, large = np.where(near, b, 0), np.where(near, 1, b)
    return np.where(
        near, np.log(i0(np.where(near, x, 1) * small)) - 0.5 * (x * x + small * small),
        np.log(i0e(x * large)) - 0.5 * np.square(x - large))


answers(Late("stats._continuous_distns:rice_gen._pdf"))(lambda _self, x, b: x * np.exp(_log_rice(x, b)))
answers(Late("stats._continuous_distns:vonmises_gen._logpdf"))(_log_mises_density)
answers(Late("stats._continuous_distns:vonmises_gen._pdf"))(lambda *given: np.exp(_log_mises_density(*given)))
answers(Late("stats._continuous_distns:vonmises_gen._entropy"))(_mises_entropy)


@answers(Late("stats._stats.von_mises_cdf"))
def von_mises_cdf(kappa: Any, x: Any) -> Any:
    """As SciPy: the Fourier series by backward recurrence, and of large concentrations a normal approximation."""
    kappa, x = np.broadcast_arrays(floating(kappa), floating(x))
    turns = np.rint(x / (2 * math.pi))
    x = x - 2 * math.pi * turns
    small = np.where(kappa < 50, kappa, 1)
    ratio, total = 0 * small, 0 * small
    for n in range(54, 0, -1):
        ratio = small / (2 * n + small * ratio)
        total = ratio * (np.sin(n * x) / n + total)
    series = 0.5 + x / (2 * math.pi) + total / math.pi
    series = series + stop(np.clip(series, 0, 1) - series)  # what is rounded beyond 0 and 1 keeps its slope
    normal = ndtr(math.sqrt(2 / math.pi) / i0e(kappa) * np.sin(0.5 * x))
    return np.where(kappa < 50, series, normal) + turns


@answers(Late("stats._continuous_distns:kappa3_gen._sf"))
def kappa3_sf(self: Any, x: Any, a: Any) -> Any:
    """As SciPy: by another formula where a chance is small, and small by that one."""
    plain = 1 - self._cdf(x, a)
    small = -np.expm1(-np.log1p(a * x**-a) / a)
    return np.where((plain < 0.01) & (small <= 0.01), small, plain)


def _kappa3_quantile(a: Any, log: Any) -> Any:
    """Return ``(a / expm1(-a log))^(1 / a)`` by logarithms: its derivative by a overflows else."""
    rest = -a * log
    return np.exp((np.log(a) - rest - log1mexp(-rest)) / a)


answers(Late("stats._continuous_distns:kappa3_gen._ppf"))(lambda _self, q, a: _kappa3_quantile(a, np.log(q)))
answers(Late("stats._continuous_distns:kappa3_gen._isf"))(lambda _self, q, a: _kappa3_quantile(a, np.log1p(-q)))


@answers(Late("stats._continuous_distns:rel_breitwigner_gen._cdf"))
def rel_breitwigner_cdf(_self: Any, x: Any, rho: Any) -> Any:
    """Take SciPy's formula in its real and imaginary parts: with v the root of -rho (rho + i), Im(v* arctan(x / v))."""
    root = np.sqrt(1 + rho * rho)
    p, q = np.sqrt(0.5 * rho / (root + rho)), np.sqrt(0.5 * rho * (root + rho))
    z, y = x * p / (p * p + q * q), x * q / (p * p + q * q)
    angle = 0.5 * np.arctan2(2 * z, 1 - z * z - y * y)
    growth = 0.25 * (np.log(z * z + np.square(y + 1)) - np.log(z * z + np.square(y - 1)))
    scale = np.sqrt(2 * rho / (rho + root)) / math.pi
    return np.minimum(2 * scale * (p * growth + q * angle) / rho, 1)


def _sum_of_powers(a: Any, first: Any, last: Any) -> Any:
    """Return the sum of ``k^-a`` from one integer to another: of 16 terms, and of others by Euler and Maclaurin.

    DLMF 2.10.1; the terms with Bernoulli's numbers fall as fast as those of the zeta function.
    """
    a, first, last = np.broadcast_arrays(floating(a), floating(first), floating(last))
    total = sum([np.where(first + k <= last, (first + k) ** -a, 0) for k in range(16)], 0 * a)
    far = last >= first + 16
    low, high = np.where(far, first + 16, 1), np.where(far, last, 1)
    ends = low**-a, high**-a
    whole = low * ends[0] * power_less_one(np.log(high / low), 1 - a) + 0.5 * (ends[0] + ends[1])
    parts = [end / place for end, place in zip(ends, (low, high), strict=True)]
    for k, number in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000), 1):
        factor = math.prod([a + j for j in range(2 * k - 1)])
        whole = whole + number * factor * (parts[0] - parts[1])
        parts = [part / (place * place) for part, place in zip(parts, (low, high), strict=True)]
    return total + np.where(far, whole, 0)


answers(Late("special._ufuncs._gen_harmonic", 2))(lambda n, a: _sum_of_powers(a, np.ones_like(floating(a)), n))
answers(Late("special._ufuncs._normalized_gen_harmonic", 4))(lambda first, last, n, a: (
    _sum_of_powers(a, first, last) / _sum_of_powers(a, np.ones_like(floating(a)), n)))


@answers(Late("stats._stats_pythran._poisson_binom"))
def poisson_binomial(k: Any, p: Any, kind: str) -> Any:
    """Return the coefficients of the product of ``1 - p + p z``, or their sums: SciPy takes a Fourier transform."""
    terms = [np.ones_like(p[0])]
    for one in p:
        terms = [(1 - one) * low + one * high for low, high in zip((*terms, 0), (0, *terms), strict=True)]
    found: Any = 0
    for j, term in enumerate(terms):
        found = found + np.where((k == j) if kind == "pmf" else (k >= j), term, 0)
    return found


@answers(Late("stats._discrete_distns:skellam_gen._pmf"))
def skellam(_self: Any, x: Any, mu1: Any, mu2: Any) -> Any:
    """Take it as SciPy by the noncentral chi-squared density."""
    x, mu1, mu2 = np.broadcast_arrays(floating(x), floating(mu1), floating(mu2))
    one, other = np.where(x < 0, mu2, mu1), np.where(x < 0, mu1, mu2)
    return 2 * np.exp(log_noncentral_chi2(2 * one, 2 * (1 + np.abs(x)), 2 * other))


@answers(Late("stats._continuous_distns:rel_breitwigner_gen._munp"))
def rel_breitwigner_moment(_self: Any, n: Any, rho: Any) -> Any:
    """Take SciPy's formulas in their real part, of the square by ``r = sqrt(1 + 1 / rho^2)`` without what cancels."""
    rho = floating(rho)
    r = np.sqrt(1 + 1 / np.square(rho))
    first = np.sqrt(2 * r * r / (1 + r)) / math.pi * rho * (0.5 * math.pi + np.arctan(rho))
    second = (1 / (rho * (r + 1)) + rho) * rho
    return (np.ones_like(rho), first, second, np.full_like(rho, np.inf))[min(int(n), 3)]


TAILS: dict[str, Any] = {"zipf_gen": lambda k, a: zeta(a, k + 1) / zeta(a, np.ones_like(a))}
"""Chances to be above an integer, of distributions for which SciPy adds up what is below."""


@answers(Late("stats._multivariate._PSD"))
class PositiveDefinite:
    """A covariance as SciPy's distributions ask for it, by its Cholesky factor: it must not be singular."""

    def __init__(self, M: Any, *_: Any, allow_singular: bool = False, **__: Any) -> None:
        if allow_singular:
            raise ArgumentValueError(
                "allow_singular=True of a traced covariance: which eigenvalues are zero depends on its values",
                instead="a covariance of full rank, with allow_singular=False",
            )
        self._M = lift(M)
        factor = np.linalg.cholesky(self._M)
        self.U = np.swapaxes(np.linalg.inv(factor), -1, -2)
        self.rank = self._M.shape[-1]
        self.log_pdet = 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)

    @property
    def pinv(self) -> Any:
        """Its inverse."""
        return self.U @ np.swapaxes(self.U, -1, -2)

    def _support_mask(self, x: Any) -> Any:
        return np.ones(np.shape(x)[:-1], bool)


@answers(Late("stats._multivariate:multivariate_normal_gen.entropy"))
def normal_entropy(self: Any, mean: Any = None, cov: Any = 1) -> Any:
    """Return the entropy of a normal distribution, whose covariance must not be singular."""
    return self(mean, cov).entropy()


def _valid(value: Any, condition: Any) -> Any:
    """Return NaN where SciPy raises an error of the values."""
    return np.where(condition, value, np.nan)


@answers(Late("stats._multivariate._dirichlet_check_parameters"))
def dirichlet_parameters(alpha: Any) -> Any:
    alpha = lift(alpha)
    return _valid(alpha, np.all(alpha > 0))


@answers(Late("stats._multivariate._dirichlet_check_input"))
def dirichlet_input(alpha: Any, x: Any) -> Any:
    x, alpha = lift(x), lift(alpha)
    if x.shape[0] + 1 == alpha.shape[0]:
        x = np.concatenate([x, 1 - np.sum(x, 0, keepdims=True)])
    alpha = np.reshape(alpha, (-1,) + (1,) * (np.ndim(x) - 1))
    inside = (x >= 0) & (x <= 1) & ((x > 0) | (alpha >= 1))
    return _valid(x, np.all(inside) & np.all(np.abs(np.sum(x, 0) - 1) <= 1e-9))


@answers(Late("stats._multivariate:multinomial_gen._process_parameters"))
def multinomial_parameters(_self: Any, n: Any, p: Any) -> Any:
    n, p = lift(n), lift(p).astype(np.float64)
    rest = 1 - np.sum(p[..., :-1], axis=-1, keepdims=True)
    close = np.abs(1 - np.sum(p, axis=-1, keepdims=True)) <= 10 * np.finfo(np.float64).eps
    p = np.concatenate([p[..., :-1], np.where(close, p[..., -1:], rest)], axis=-1)
    return n, p, np.any((p < 0) | (p > 1), axis=-1) | (n < 0)


@answers(Late("stats._multivariate:multinomial_gen._checkresult"))
def multinomial_result(_self: Any, result: Any, cond: Any, bad_value: Any) -> Any:
    return np.where(cond, bad_value, result)


@answers(Late("stats.boxcox_llf"))
def boxcox_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False, nan_policy: str = "propagate") -> Any:
    """Return the likelihood of a Box-Cox transform, whose slope by the parameter is there also where that is 0.

    The transform is that of data divided by their largest, or their smallest where the parameter is negative, so that
    nothing overflows.
    """
    if nan_policy != "propagate":
        raise UnsupportedError(
            f"scipy.stats.boxcox_llf(..., nan_policy={nan_policy!r}) on traced arrays",
            instead="leave nan_policy= away")
    power, logs = floating(lmb), np.log(floating(data))
    kept = {"axis": axis, "keepdims": True}
    most = stop(np.where(power > 0, np.max(logs, **kept), np.min(logs, **kept)))
    spread = np.var(power_less_one(logs - most, power), **kept)
    found = np.sum((power - 1) * logs, **kept) - logs.size / spread.size * (0.5 * np.log(spread) + power * most)
    return found if keepdims else np.reshape(found, ()) if axis is None else np.squeeze(found, axis)

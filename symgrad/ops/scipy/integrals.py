"""SciPy's distributions that are integrals over a line: of a density, or over the width of a normal distribution.

Pearson's and Hosking's are here as well, whose shape parameters may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops.declare.forms import Late, answers
from symgrad.ops.elementwise.quadrature import chance, log_integral, mean
from symgrad.ops.elementwise.special import (
    gammainc,
    gammaincc,
    gammaln,
    log_cosh,
    log_expit,
    log_ndtr,
    power_less_one,
    root_of_one_more,
)
from symgrad.ops.numpy.reductions import floating
from symgrad.ops.scipy.special import LARGE, stirling_rest

ROOT = math.log(2 * math.pi) / 2


def _arrays(*given: Any) -> list[Any]:
    return list(np.broadcast_arrays(*map(floating, given)))


# -- densities of a logarithm or of log(x / (1 - x))


def _inverse_gaussian(p: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return the density of the logarithm, and where it counts."""
    p, b = p[..., None], b[..., None]
    end = np.log1p((1500 + 2 * np.abs(p)) / b)[..., 0]
    return lambda t: p * t - b * (np.cosh(t) - 1), -end, end


def _inverse_gaussian_density(_self: Any, x: Any, p: Any, b: Any) -> Any:
    x, p, b = _arrays(x, p, b)
    inside = (x > 0) & (x < np.inf)
    at = np.where(inside, x, 1)
    value = (p - 1) * np.log(at) - 0.5 * b * np.square(at - 1) / at - log_integral(*_inverse_gaussian(p, b))
    return np.where(inside, value, -np.inf)


def _hypergeometric(a: Any, b: Any, c: Any, z: Any) -> tuple[Any, Any, Any]:
    """Return the density of ``log(x / (1 - x))``."""
    ends = -100 - 100 / a, 100 + 100 / b
    a, b, c, z = [one[..., None] for one in (a, b, c, z)]
    return lambda t: a * log_expit(t) + b * log_expit(-t) - c * np.log1p(z * np.exp(log_expit(t))), *ends


def _hypergeometric_density(_self: Any, x: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
    x, a, b, c, z = _arrays(x, a, b, c, z)
    value = (a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - c * np.log1p(z * x)
    return value - log_integral(*_hypergeometric(a, b, c, z))


def _hypergeometric_moment(_self: Any, n: Any, *given: Any) -> Any:
    a, *rest = _arrays(*given)
    return np.exp(log_integral(*_hypergeometric(a + n, *rest)) - log_integral(*_hypergeometric(a, *rest)))


def _of(density: Callable[..., Any], place: Callable[[Any], Any], sign: int) -> Callable[..., Any]:
    """Make a distribution function of the density of a place."""

    def function(_self: Any, *given: Any) -> Any:
        x, *shapes = _arrays(*given)
        return chance(density(*shapes)[0], place(x), sign)

    return function


# -- mixtures of normal distributions, by the logarithm of a scale


def _mixed(weight: Callable[[Any], Any], part: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return the logarithm of the mean of a part, of which a weight and the part give the logarithms."""
    return log_integral(lambda t: weight(t) + part(t), low, high) - log_integral(weight, low, high)


def _hyperbolic(x: Any, p: Any, a: Any, b: Any) -> tuple[Any, ...]:
    """Return it as ``b v + sqrt(v) z``, z normal and v inverse Gaussian: O. Barndorff-Nielsen (1977).

    It is the weight of ``log(v)``, where it counts, and the deviation ``z`` of x.
    """
    large = 1500 + 2 * np.abs(p)
    least = np.maximum((a - b) * (a + b), 1e-30)
    ends = -np.log(large), np.log(large / least) + 0.5 * np.log1p(x * x)
    x, p, a, b = [one[..., None] for one in (x, p, a, b)]
    return (lambda t: p * t - 0.5 * ((a - b) * (a + b) * np.exp(t) + np.exp(-t)),
            lambda t: (x - b * np.exp(t)) * np.exp(-0.5 * t), *ends)


def _student(x: Any, df: Any, nc: Any) -> tuple[Any, ...]:
    """Return it as a normal variable over ``exp(s)``, whose square is of chi-squared over its degrees of freedom."""
    size = np.log1p(np.abs(nc)) + np.log1p(np.abs(x)) + 10
    ends = -100 - 100 / df - size, size
    x, df, nc = [one[..., None] for one in (x, df, nc)]
    return lambda s: df * (s - 0.5 * np.expm1(2 * s)), lambda s: x * np.exp(s) - nc, *ends


def _mixture(parts: Callable[..., Any], turn: float, kind: str) -> Callable[..., Any]:
    """Make a function of a mixture of normal distributions, whose deviation is divided by ``exp(-turn t)``."""
    part: Callable[[Any, Any], Any] = {
        "pdf": lambda t, z: turn * t - 0.5 * z * z - ROOT, "cdf": lambda _, z: log_ndtr(z),
        "sf": lambda _, z: log_ndtr(-z)}[kind[-3:].strip("_")]

    def function(_self: Any, *given: Any) -> Any:
        weight, deviation, low, high = parts(*_arrays(*given))
        log = _mixed(weight, lambda t: part(t, deviation(t)), low, high)
        return log if "log" in kind else np.exp(log)

    return function


def _landau(kind: str) -> Callable[..., Any]:
    """Make a function of the stable distribution of index 1 that is skewed to the right, by V. Zolotarev's integral.

    With ``g = 2 / pi exp(-pi x / 2) phi / sin(phi) exp(-phi cot(phi))`` the chance to be below is the mean of exp(-g)
    for phi from 0 to pi; by parts it is an integral of ``exp(-g) dg``, which has one maximum. The sum is over s, with
    ``phi / (pi - phi) = log(1 + exp(s))``, as log(g) grows no faster than that.
    """

    def function(_self: Any, x: Any) -> Any:
        x = floating(x)
        start = math.log(2 / math.pi) - 0.5 * math.pi * x
        column = start[..., None]

        def logarithm(s: Any) -> Any:
            ratio = -log_expit(-s)
            rest = math.pi / (1 + ratio)
            phi = ratio * rest
            sine = np.sin(np.minimum(phi, rest))
            turn = phi * np.cos(phi) / sine
            log_g = np.minimum(column + np.log(phi / sine) - turn, 600)
            found = log_g - np.exp(log_g) + log_expit(s) - 2 * np.log1p(ratio)
            if kind == "pdf":
                return found + math.log(math.pi / 2)
            return found + np.log((np.square(1 - turn) + phi * phi) * (1 / ratio if kind == "sf" else 1))

        low, high = np.maximum(-start, -0.5 * start) - 60, np.maximum(-start, 0) + 30
        part = np.exp(log_integral(logarithm, low, high))
        return part - np.expm1(-np.exp(start - 1)) if kind == "sf" else part

    return function


# -- Pearson's distribution, of gamma's and smooth where its skewness is 0; Hosking's, of powers with limits there


def _log_beyond_line(z: Any) -> Any:
    """Return ``(log1p(z) - z) / z^2``, for small z by the series of DLMF 4.6.4."""
    near = np.abs(z) < 0.5
    small, large = np.where(near, z, 0), np.where(near, 1, z)
    inverse = 1 / (2 + small)
    square: Any = np.square(small * inverse)
    total: Any = 0.0
    for k in range(41, 1, -2):
        total = 1 / k + square * total
    return np.where(near, 2 * small * inverse**3 * total - inverse, (np.log1p(large) - large) / np.square(large))


def _pearson_log_density(_self: Any, x: Any, skew: Any) -> Any:
    """Take gamma's, of ``a = 4 / skew^2`` at ``a (1 + z)``, without what cancels for large a."""
    x, skew = _arrays(x, skew)
    half = 0.5 * skew
    z, inverse = half * x, half * half
    inside = z > -1
    z = np.where(inside, z, 0)
    far = inverse * LARGE < 1
    a = 1 / np.where(far, 1, inverse)
    rest = np.where(far, stirling_rest(inverse), gammaln(a) - (a - 0.5) * np.log(a) + a - ROOT)
    return np.where(inside, x * x * _log_beyond_line(z) - np.log1p(z) - ROOT - rest, -np.inf)


def _pearson(sign: int) -> Callable[..., Any]:
    """Make its distribution function, of gamma's where that knows the slope by the skewness."""

    def function(self: Any, x: Any, skew: Any) -> Any:
        x, skew = _arrays(x, skew)
        near = np.abs(skew) < 0.3
        small, large = np.where(near, skew, 0), np.where(near, 1, skew)
        a = 4 / np.square(large)
        end = np.maximum(a * (1 + 0.5 * large * x), 0)
        apart = np.where(large * sign > 0, gammainc(a, end), gammaincc(a, end))
        inside = 0.5 * small * x > -1
        place = np.where(inside, x, 0)
        part = chance(lambda t: _pearson_log_density(self, t, small[..., None]), place, sign)
        outside = 0.0 if sign > 0 else 1.0
        return np.where(near, np.where(inside, part, np.where(small > 0, outside, 1 - outside)), apart)

    return function


def _hosking_log(_self: Any, x: Any, h: Any, k: Any) -> Any:
    return root_of_one_more(-np.exp(root_of_one_more(-x, k)), h)


def _hosking_quantile(_self: Any, q: Any, h: Any, k: Any) -> Any:
    return -power_less_one(np.log(-power_less_one(np.log(q), h)), k)


def _hosking_ends(_self: Any, h: Any, k: Any) -> tuple[Any, Any]:
    h, k = _arrays(h, k)
    low = np.where(h > 0, -power_less_one(-np.log(np.where(h > 0, h, 1)), k), np.where(k < 0, 1 / k, -np.inf))
    return low, np.where(k > 0, 1 / k, np.inf)


def _mises_moments(_self: Any, kappa: Any, **_: Any) -> tuple[Any, ...]:
    """Return them by means of x^2 and x^4 from 0 to pi, over t with ``x / (pi - x) = exp(pi sinh(t))``."""
    kappa = floating(kappa)

    def logarithm(t: Any) -> Any:
        place = math.pi * np.sinh(t)
        turn = np.sin(0.5 * math.pi * np.exp(log_expit(place)))
        return log_expit(place) + log_expit(-place) + log_cosh(t) - 2 * kappa[..., None] * np.square(turn)

    def moment(n: int) -> Any:
        return mean(lambda t: np.exp(n * log_expit(math.pi * np.sinh(t))), logarithm, -5 + 0 * kappa, 5 + 0 * kappa)

    second, fourth = moment(2), moment(4)
    return 0.0, math.pi**2 * second, 0.0, fourth / np.square(second) - 3


_FORMULAS: dict[str, dict[str, Callable[..., Any]]] = {
    "geninvgauss": {
        "_logpdf": _inverse_gaussian_density, "_cdf": _of(_inverse_gaussian, np.log, 1),
        "_sf": _of(_inverse_gaussian, np.log, -1)},
    "gausshyper": {
        "_munp": _hypergeometric_moment,
        "_pdf": lambda *given: np.exp(_hypergeometric_density(*given)),
        "_cdf": _of(_hypergeometric, lambda x: np.log(x) - np.log1p(-x), 1),
        "_sf": _of(_hypergeometric, lambda x: np.log(x) - np.log1p(-x), -1)},
    "genhyperbolic": {kind: _mixture(_hyperbolic, -0.5, kind) for kind in ("_logpdf", "_pdf", "_cdf", "_sf")},
    "norminvgauss": {kind: _mixture(lambda x, a, b: _hyperbolic(x, np.full_like(x, -0.5), a, b), -0.5, kind)
                     for kind in ("_cdf", "_sf")},
    "nct": {kind: _mixture(_student, 1, kind) for kind in ("_pdf", "_cdf", "_sf")},
    "landau": {f"_{kind}": _landau(kind) for kind in ("pdf", "cdf", "sf")},
    "pearson3": {
        "_logpdf": _pearson_log_density, "_pdf": lambda *given: np.exp(_pearson_log_density(*given)),
        "_cdf": _pearson(1), "_sf": _pearson(-1)},
    "kappa4": {
        "_logcdf": _hosking_log, "_ppf": _hosking_quantile, "_get_support": _hosking_ends,
        "_logpdf": lambda self, x, h, k: (1 - k) * root_of_one_more(-x, k) + (1 - h) * _hosking_log(self, x, h, k)},
}
INHERITED: dict[tuple[str, str], Callable[..., Any]] = {("vonmises_gen", "_stats"): _mises_moments, **{
    (f"{name}_gen", method): _FORMULAS[name].pop(method)
    for name, method in (
        ("gausshyper", "_cdf"), ("gausshyper", "_sf"), ("geninvgauss", "_sf"), ("norminvgauss", "_cdf"))}}
"""Of which SciPy has what is true of every distribution: an integral of the density, or 1 less the other one."""

for _name, _formulas in _FORMULAS.items():
    for _method, _formula in _formulas.items():
        answers(Late(f"stats._continuous_distns:{_name}_gen.{_method}"))(_formula)

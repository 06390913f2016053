"""Functions of scipy.special in terms of others, as SciPy's distributions call them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, UnsupportedError
from symgrad.ops.arrays.copies import kinds_of
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.domains import nan, normal, positive
from symgrad.ops.declare.forms import Late, answers, elementwise, is_traced, loop_dtypes
from symgrad.ops.elementwise import special
from symgrad.ops.elementwise.incomplete import student_slopes
from symgrad.ops.elementwise.selection import piecewise, stop
from symgrad.ops.elementwise.special import cosine_of_pi, exprel_series, power_less_one, root_of_one_more, sine_of_pi
from symgrad.ops.numpy.reductions import floating
from symgrad.ops.scipy import compiled


def _one_dtype(op: Any) -> Callable[..., Any]:
    """Return an op that casts its arguments to one floating type, as SciPy's ufuncs do."""

    def call(*xs: Any) -> Any:
        kinds = [x.dtype for x in xs if hasattr(x, "dtype")]
        kind = np.result_type(*kinds, np.float32) if kinds else np.dtype(np.float64)
        return op(*[x if getattr(x, "dtype", None) == kind else lift(x).astype(kind) for x in xs])

    return call


gamma, gammaln, rgamma = [_one_dtype(op) for op in (special.gamma, special.gammaln, special.rgamma)]
gammainc, gammaincc = _one_dtype(special.gammainc), _one_dtype(special.gammaincc)
betainc, betaincc = _one_dtype(special.betainc), _one_dtype(special.betaincc)
ndtri, erfinv = _one_dtype(special.ndtri), _one_dtype(special.erfinv)
xlogy, xlog1py = _one_dtype(special.xlogy), _one_dtype(special.xlog1py)


for _ufunc in (np.log1p, np.expm1, np.cbrt, np.exp2):  # SciPy's of the same name are others
    answers(Late(_ufunc.__name__))(partial(_ufunc.__call__))


def _in_double(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Compute single precision in double, as SciPy does: differences of logarithms of gamma functions cancel."""

    def answer(*xs: Any) -> Any:
        single = all(getattr(x, "dtype", None) == np.float32 for x in xs)
        return formula(*[x.astype(np.float64) for x in xs]).astype(np.float32) if single else formula(*xs)

    return answer


MOST = np.finfo(np.float64).max

LARGE = 12.0
"""Where differences of Stirling's series have all digits that a double has."""


def betaln(a: Any, b: Any) -> Any:
    """As `scipy.special.betaln`: where one argument is large, what is large cancels before it is computed."""
    small, large = np.where(a < b, a, b), np.where(a < b, b, a)  # not extrema, whose slopes are halves where a == b
    return gammaln(small) + _log_gammas(large, a + b, small)


def _log_gammas(x: Any, end: Any, step: Any) -> Any:
    """Return log(gamma(x) / gamma(end)) of positive numbers, where ``end = x + step``."""
    far = (x >= LARGE) & (end >= LARGE)
    apart = gammaln(np.where(far, 1, x)) - gammaln(np.where(far, 1, end))
    return np.where(far, _log_quotient(np.where(far, step, 1), np.where(far, x, LARGE)), apart)


def _log_quotient(a: Any, b: Any) -> Any:
    """Return log(gamma(b) / gamma(a + b)), both from `LARGE` on, by Stirling's series (DLMF 5.11.1)."""
    end = a + b
    return a - a * np.log(b) - (end - 0.5) * np.log1p(a / b) + stirling_rest(1 / b) - stirling_rest(1 / end)


def stirling_rest(inverse: Any) -> Any:
    """Return what ``log(gamma(x))`` has beside ``(x - 1/2) log(x) - x + log(2 pi) / 2``, by 1 / x, from `LARGE` on."""
    square = inverse * inverse
    total = 0.0
    for over in (-360360 / 691, 1188, -1680, 1260, -360, 12):
        total = total * square + 1 / over
    return total * inverse


def beta(a: Any, b: Any) -> Any:
    """As `scipy.special.beta`, which is finite where an integer below 1 meets a smaller one."""
    a, b = floating(a), floating(b)
    size, sign = _betaln_at_pole(a, b)
    small, large = np.where(a < b, a, b), np.where(a < b, b, a)
    beside = (small > -150) & (large >= LARGE) & (a + b >= LARGE)
    quotient = np.exp(_log_gammas(np.where(beside, large, 1), np.where(beside, a + b, 1), small))
    return np.where(small > 0, np.exp(betaln(a, b)), np.where(
        _is_pole(a) | _is_pole(b), sign * np.exp(size), np.where(
            _is_pole(a + b) & (a + b < -170), 0, np.where(
                beside, gamma(np.where(beside, small, 1)) * quotient, _gammas(a, b, a + b)))))


def _betaln(a: Any, b: Any) -> Any:
    """As `scipy.special.betaln`, which is finite where that is."""
    a, b = floating(a), floating(b)
    pole = _is_pole(a) | _is_pole(b)
    return np.where(pole, _betaln_at_pole(a, b)[0], betaln(np.where(pole, 1, a), np.where(pole, 1, b)))


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == np.floor(x)) & np.isfinite(x)


def _betaln_at_pole(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the beta function's logarithm and its sign where one argument is an integer below 1."""
    other, rest = np.where(_is_pole(a), b, a), 1 - a - b
    finite = (other == np.floor(other)) & (rest > 0)
    size = betaln(np.where(finite, rest, 1), np.where(finite, other, 1))
    return np.where(finite, size, np.inf), np.where(finite & (other % 2 != 0), -1, 1)


def _poch(z: Any, m: Any) -> Any:
    """Return gamma(z + m) / gamma(z), of which those left of 0.5 by their reflections.

    At poles of gamma(z) the sine of z is 0: so is the value, and its slope is finite. The sine of the end is made of
    those of z and m, as a rounded sum would lose the digits near its zeros.
    """
    z, m = floating(z), floating(m)
    end = z + m
    low, left = z < 0.5, end < 0.5
    sine = sine_of_pi(z)
    across = sine * cosine_of_pi(m) + cosine_of_pi(z) * sine_of_pi(m)
    below = np.where(across == 0, 1, across)
    # both on one side: a quotient of gamma functions, and of sines, which is a sign where both are 0
    both, mixed = low & left, low ^ left
    first, last = np.where(mixed, 1, np.where(both, 1 - end, z)), np.where(mixed, 1, np.where(both, 1 - z, end))
    sines = np.where((sine == 0) & (across == 0), 1 - 2 * (np.rint(m) % 2), sine / below)
    quotient = np.where(both, sines, 1) * np.exp(-_log_gammas(first, last, m))
    # one on either side: a product, or 1 over one, of which far out the square in its slope would be 0
    one, other = np.where(mixed, np.where(low, end, z), 1), np.where(mixed, np.where(low, 1 - z, 1 - end), 1)
    size = gammaln(one) + gammaln(other)
    far = size > 300
    product = gamma(np.where(far, 1, one)) * gamma(np.where(far, 1, other))
    size = np.where(far, np.exp(np.where(low, 1, -1) * size), np.where(low, product, 1 / product))
    size = np.where(sine == 0, np.minimum(size, MOST), size)
    apart = np.where(low, sine / math.pi, math.pi / below) * size
    infinite = _is_pole(end) & ~_is_pole(z) & ((sine == 0) | (m != np.rint(m)))  # and not by rounding
    return np.where(infinite, np.inf, np.where(mixed, apart, quotient))


def _binom(n: Any, k: Any) -> Any:
    """Return gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1), of which those left of 0.5 by their reflections.

    What is left is a beta function of numbers that are not small, or 1 over one, times sines of pi. Those of n - k are
    made of those of n and k: a rounded difference would lose the digits near zeros.
    """
    n, k = floating(n), floating(k)
    low, left, right = n < -0.5, k < -0.5, n - k < -0.5
    both, none = left & right, ~(left | right)
    sine, cosine = sine_of_pi(k), cosine_of_pi(k)
    below = np.where(low, sine_of_pi(n), 1)
    across = np.where(
        low, cosine - sine * (cosine_of_pi(n) / below), (cosine_of_pi(n) * sine - sine_of_pi(n) * cosine) / math.pi)
    factor = np.where(both, -sine * across / math.pi, np.where(
        left, np.where(low, sine / below, -sine / math.pi), np.where(right, across, 1)))
    first = np.where(both, -k, np.where(none, n - k + 1, np.where(low, -n, n + 1)))
    second = np.where(both, k - n, np.where(
        left, np.where(low, n - k + 1, -k), np.where(right & ~low, k - n, k + 1)))
    over = none | (low & ~both)
    size = np.where(over, np.where(left, -k, np.where(right, k - n, n + 1)), 1)
    found = factor * np.exp(np.where(over, -1, 1) * betaln(first, second) - np.log(size))
    return np.where((n < 0) & _is_pole(n), np.nan, found)


def _gammas(a: Any, b: Any, end: Any) -> Any:
    """Return gamma(a) gamma(b) / gamma(end): by their logarithms where one is too large or too small."""
    every = a, b, end
    far = reduce(np.logical_or, [np.abs(x) > 170 for x in every])
    sign = math.prod([np.where((x < 0) & (np.floor(x) % 2 != 0), -1.0, 1.0) for x in every])
    return np.where(
        far, sign * np.exp(gammaln(a) + gammaln(b) - gammaln(end)), gamma(a) * gamma(b) * rgamma(end))


@answers(Late("multigammaln"))
def multigammaln(a: Any, d: int) -> Any:
    a, places = lift(a), 0.5 * np.arange(d)
    terms = gammaln(a[..., None] - places)
    total = np.sum(terms, axis=-1) + 0.25 * d * (d - 1) * math.log(math.pi)
    return np.where(a > 0.5 * (d - 1), total, np.nan)  # where SciPy raises an error


def _kl_div(x: Any, y: Any) -> Any:
    """Return x log(x / y) - x + y; where they are close by the logarithm's series in their ratio, DLMF 4.6.4."""
    apart = x - y
    near = (np.minimum(x, y) > 0) & (np.abs(apart) < 0.25 * (x + y))
    ratio = np.where(near, apart, 0) / np.where(near, x + y, 1)
    square = ratio * ratio
    total: Any = 0.0
    for k in range(27, 1, -2):
        total = (1 / k + total) * square
    return np.where(near, apart * (ratio + (1 + ratio) * total), rel_entr(x, y) - x + y)


def rel_entr(x: Any, y: Any) -> Any:
    inside = (x > 0) & (y > 0)
    outside = np.where(np.isnan(x) | np.isnan(y), x + y, np.inf)
    return np.where(inside, x * np.log(x / y), np.where((x == 0) & (y >= 0), 0, outside))


_TAIL = "0.5{f} * sg_betainc{f}(0.5{f} * {0}, 0.5{f}, (double){0}, (double){1} * (double){1}, 0)"

stdtr = elementwise(
    numpy=Late("stdtr", 2), ddx=lambda df, t, _y: student_slopes(df, t), sample=(positive(), normal()),
    c=f"!({{0}} > 0.0{{f}}) ? ({{t}})NAN : {{1}} < 0.0{{f}} ? {_TAIL} : 1.0{{f}} - {_TAIL}",
    edges=((1.0, 0.0), (2.0, 1e-9), (5.0, -40.0), (5.0, 40.0), (30.0, 1.5), (nan, 1.0), (1.0, nan)))


def _cosine_cdf(x: Any) -> Any:
    """Return (y - sin(y)) / (2 pi) with y = x + pi, by its series where that cancels."""

    def near(y: Any) -> Any:
        square, total = y * y, 1.0
        for k in range(10, 0, -1):
            total = 1 - square / ((2 * k + 2) * (2 * k + 3)) * total
        return y * square * total / 6

    y = np.maximum(math.pi + np.where(x > 0, -x, x), 0)
    left = piecewise(y < 2, y, 2, near, lambda y: y - np.sin(y)) / (2 * math.pi)
    return np.where(x > 0, 1 - left, left)


def _choose(n: Any, k: Any) -> Any:
    """Return the logarithm of a binomial coefficient."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _lambertw(z: Any, k: Any, tol: Any) -> Any:
    """As `scipy.special.lambertw` of real numbers, and real itself."""
    if is_traced(k) or np.ndim(k) or int(k) not in {0, -1}:
        raise ArgumentError(
            "scipy.special.lambertw of another branch than 0 and -1 on traced arrays", instead="the branch 0 or -1")
    return (_lower_branch if int(k) else special.lambertw)(floating(z, np.float64))  # SciPy's of single is double


_REST = -1.2428753672788363e-17
"""What 1 / e is more than the double next to it."""


def _lower_branch(x: Any) -> Any:
    """Return W by its series at -1 / e, DLMF 4.13.6, and elsewhere by Halley's steps from that one and 4.13.11.

    Two of Newton's have the derivatives.
    """
    inside = (x > -1 / math.e) & (x < 0)
    at = np.where(inside, x, -0.2)
    root = np.sqrt(2 * math.e * (at + 1 / math.e + _REST))
    series: Any = 0.0
    for coefficient in (1963 / 204120, 680863 / 43545600, 221 / 8505, 769 / 17280, 43 / 540, 11 / 72, 1 / 3, 1):
        series = (series + coefficient) * root
    near = -1 - series
    log = np.log(-at)
    far = log - np.log(-np.minimum(log, -1)) * (1 - 1 / np.minimum(log, -1))
    w = np.where(at < -0.2, near, far)
    for _ in range(4):
        rest = w - at * np.exp(-w)
        w = w - rest / (1 + w - (w + 2) * rest / (2 * w + 2))
    w = stop(w)
    for _ in range(2):
        w = w - (w - at * np.exp(-w)) / (1 + w)
    w = np.where(root < 0.01, near, w)
    return np.where(inside, w, np.where(x == 0, -np.inf, np.where(x == -1 / math.e, -1.0, np.nan)))


def _scaled_exp1(x: Any) -> Any:
    """Return x exp(x) E1(x), from 4 on by its continued fraction, DLMF 6.9.1."""

    def far(x: Any) -> Any:
        fraction: Any = x + 81
        for k in range(40, 0, -1):
            fraction = x + 2 * k - 1 - k * k / fraction
        return x / fraction

    at = np.where(x > 0, x, 4)
    value = piecewise(at > 4, at, 4, far, lambda x: x * np.exp(x) * special.exp1(x))
    return np.where(x > 0, value, np.where(x == 0, 0.0, np.nan))


# -- moments of distributions


def _central(raw: Callable[..., Any], *given: Any) -> tuple[Any, Any, Any, Any]:
    """Return mean, variance, skewness and excess kurtosis by the moments about 0, NaN where there are none.

    They are NaN, too, where of what cancels nine digits are not left.
    """
    m1, m2, m3, m4 = [raw(k, *map(floating, given)) for k in (1, 2, 3, 4)]
    variance = m2 - m1 * m1
    third = m3 - m1 * (3 * m2 - 2 * m1 * m1)
    fourth = m4 - m1 * (4 * m3 - m1 * (6 * m2 - 3 * m1 * m1))
    size = np.abs(m1)
    sizes = m2 + size**2, np.abs(m3) + size * (3 * m2 + 2 * size**2), m4 + size * (
        4 * np.abs(m3) + size * (6 * m2 + 3 * size**2))
    known = [np.where(1e-15 * own < 1e-9 * variance ** (0.5 * k), 1.0, np.nan) for k, own in enumerate(sizes, 2)]
    skewness, kurtosis = third / variance**1.5, fourth / np.square(variance) - 3
    return m1, *[value * own for value, own in zip((variance, skewness, kurtosis), known, strict=True)]


def _noncentral_t(k: int, df: Any, nc: Any) -> Any:
    """Return a moment of the noncentral t distribution: D. Hogben et al., Ann. Math. Stat. 32 (1961)."""
    square = nc * nc
    normal = (nc, 1 + square, nc * (3 + square), 3 + square * (6 + square))[k - 1]
    there = df > k
    half = np.where(there, 0.5 * df, k)
    return np.where(there, half ** (0.5 * k) * _poch(half, -0.5 * k) * normal, np.nan)


def _noncentral_f(k: int, dfn: Any, dfd: Any, nc: Any) -> Any:
    """Return a moment of the noncentral F distribution by those of chi-squared, noncentral, and of its inverse."""
    once, twice, thrice = dfn + nc, dfn + 2 * nc, dfn + 3 * nc
    above = (once, once**2 + 2 * twice, once**3 + 6 * once * twice + 8 * thrice,
             once**4 + 12 * once**2 * twice + 4 * (11 * dfn * dfn + 44 * dfn * nc + 36 * nc * nc) + 48 * (
                 dfn + 4 * nc))[k - 1]
    below: Any = 1.0
    for j in range(1, k + 1):
        below = below * (dfd - 2 * j)
    return np.where(dfd > 2 * k, (dfd / dfn) ** k * above / below, np.nan)


def _hypergeometric_skewness(n: Any, m: Any, total: Any) -> Any:
    n, m, total = floating(n), floating(m), floating(total)
    spread = np.sqrt((total - 1) / (n * m * (total - n) * (total - m)))
    return (total - 2 * n) * (total - 2 * m) * spread / (total - 2)


_MOMENTS: dict[str, Callable[..., Any]] = {
    "nbinom_mean": lambda n, p: n * (1 - p) / p, "nbinom_variance": lambda n, p: n * (1 - p) / (p * p),
    "nbinom_skewness": lambda n, p: (2 - p) / np.sqrt(n * (1 - p)),
    "nbinom_kurtosis_excess": lambda n, p: (6 + p * p / (1 - p)) / n,
    "hypergeom_mean": lambda n, m, total: floating(n) * m / total,
    "hypergeom_variance": lambda n, m, total: floating(n) * m * (total - n) * (total - m) / (
        floating(total) * total * (total - 1)),
    "hypergeom_skewness": _hypergeometric_skewness,
    **{f"{name}_{what}": (lambda *given, k=k, raw=raw: _central(raw, *given)[k])
       for name, raw in (("nct", _noncentral_t), ("ncf", _noncentral_f))
       for k, what in enumerate(("mean", "variance", "skewness", "kurtosis_excess"))},
    "ncf_kurtosis_excess": lambda *given: 3 + _central(_noncentral_f, *given)[3],  # which SciPy subtracts from it
    # of which newer versions have formulas in Python
    "beta_mean": lambda a, b: a / (a + b), "beta_variance": lambda a, b: a * b / (np.square(a + b) * (a + b + 1)),
    "beta_skewness": lambda a, b: 2 * (b - a) * np.sqrt((a + b + 1) / (a * b)) / (a + b + 2),
    "beta_kurtosis_excess": lambda a, b: 6 * (np.square(a - b) * (a + b + 1) / (a * b) - a - b - 2) / (
        (a + b + 2) * (a + b + 3)),
    "binom_mean": lambda n, p: n * p, "binom_variance": lambda n, p: n * p * (1 - p),
    "binom_skewness": lambda n, p: (1 - 2 * p) / np.sqrt(n * p * (1 - p)),
    "binom_kurtosis_excess": lambda n, p: 1 / (n * p * (1 - p)) - 6 / n,
    "ncx2_mean": lambda df, nc: df + nc, "ncx2_variance": lambda df, nc: 2 * (df + 2 * nc),
    "ncx2_skewness": lambda df, nc: 2**1.5 * (df + 3 * nc) / (df + 2 * nc) ** 1.5,
    "ncx2_kurtosis_excess": lambda df, nc: 12 * (df + 4 * nc) / np.square(df + 2 * nc),
}

def _boxcox(x: Any, lmbda: Any) -> Any:
    """Return (x^lmbda - 1) / lmbda by the logarithm, where there is one."""
    if not is_traced(x) and np.all(x):
        return power_less_one(np.log(x), lmbda)
    with np.errstate(divide="ignore"):  # of a number that is 0
        return np.where(
            (x == 0) & (lmbda > 0), (np.power(x, lmbda) - 1) / lmbda, power_less_one(np.log(x), lmbda))


def _powm1(x: Any, y: Any) -> Any:
    """Return x^y - 1 by the logarithm of x, or to an even power by that of -x, with the slopes that the power has."""
    power = np.power(x, y)
    even = (x < 0) & (y % 2 == 0) & (power < np.inf)
    value = np.expm1(xlogy(y, np.where(x > 0, x, np.where(even, -x, 1))))
    return np.where(x > 0, value, np.where(even, stop(value) + (power - stop(power)), power - 1))


def _riemann_zeta(s: Any) -> Any:
    """Return Riemann's zeta, left of 0 by its reflection, DLMF 25.4.1, whose sine has its digits near the zeros."""

    def reflected(s: Any) -> Any:
        root = np.exp(0.5 * ((s - 1) * math.log(2 * math.pi) + gammaln(1 - s)))  # its square alone may overflow
        return root * (2 * sine_of_pi(0.5 * s) * (1 + compiled.zetac(1 - s))) * root

    return piecewise(s < -0.25, s, -0.25, reflected, lambda s: 1 + compiled.zetac(s))


def _fisher(first: Any, second: Any) -> Callable[..., Any]:
    """Make the F distribution of one of both incomplete beta functions and the other, each where its place is small."""

    def chance(dfn: Any, dfd: Any, x: Any) -> Any:
        above, below = dfn * x, dfd + 0 * x
        inside = (dfn > 0) & (dfd > 0) & (x >= 0)
        near = above < below
        left, right = np.where(near, above / (above + below), 0.5), np.where(near, 0.5, below / (above + below))
        value = np.where(near, first(0.5 * dfn, 0.5 * dfd, left), second(0.5 * dfd, 0.5 * dfn, right))
        return np.where(inside, value, np.nan)

    return chance


def _binomial(k: Any, n: Any, p: Any, *, upper: bool) -> Any:
    """Return the chance of at most k of n, or of more."""
    k, n = np.floor(k), np.trunc(n)
    inside, left = (k >= 0) & (k < n), np.where(k < 0, int(upper), int(not upper))
    one, two = np.where(inside, k + 1, 1), np.where(inside, n - k, 1)
    value = np.where(inside, (betainc if upper else betaincc)(one, two, p), left)
    return np.where((k <= n) & (p >= 0) & (p <= 1) & (upper | (k >= 0)), value, np.nan)


def _negative_binomial(of: Any) -> Callable[..., Any]:
    """Make the chance of at most k, or of more, of one of both incomplete beta functions."""

    def chance(k: Any, n: Any, p: Any) -> Any:
        k, n = np.trunc(k), np.trunc(n)
        return np.where((k >= 0) & (n > 0), of(n, k + 1, p), np.nan)

    return chance


_FORMULAS: dict[str, Callable[..., Any]] = {
    "beta": _in_double(beta),
    "betaln": _in_double(_betaln),
    "poch": _in_double(_poch),
    "binom": _in_double(_binom),
    "loggamma": lambda z: np.where(z >= 0, gammaln(z), np.nan),  # of real numbers below 0 it would be complex
    "boxcox": _boxcox,
    "boxcox1p": lambda x, lmbda: power_less_one(np.log1p(x), lmbda),
    "inv_boxcox": lambda y, lmbda: np.exp(root_of_one_more(y, lmbda)),
    "inv_boxcox1p": lambda y, lmbda: np.expm1(root_of_one_more(y, lmbda)),
    "powm1": _powm1,
    "exp10": lambda x: np.power(10.0, floating(x)),
    "cosm1": lambda x: -2 * np.square(np.sin(0.5 * x)),
    "erfcinv": lambda q: np.where(
        q < 0.5, -ndtri(0.5 * q), np.where(q > 1.5, ndtri(1 - 0.5 * q), math.sqrt(2) * erfinv(1 - q))) / math.sqrt(2),
    "gammasgn": lambda x: np.where(
        x == 0, np.copysign(1, x), np.where(
            x < 0, np.where(x == np.floor(x), np.nan, 1 - 2 * (np.floor(x) % 2)), np.where(x > 0, 1.0, x))),
    "exprel": lambda x: piecewise(np.abs(x) < 1, x, 1, exprel_series, lambda x: np.where(
        x == np.inf, x, np.expm1(x) / x)),
    "huber": lambda delta, r: np.where(
        delta < 0, np.inf, np.where(np.abs(r) <= delta, 0.5 * r * r, delta * (np.abs(r) - 0.5 * delta))),
    "pseudo_huber": lambda delta, r: np.where(delta < 0, np.inf, np.where(
        delta == 0, 0, r * (delta * (r / (np.where(delta == 0, 1, delta) + np.hypot(delta, r)))))),
    "special._ufuncs._lambertw": _lambertw,
    "special._ufuncs._riemann_zeta": _riemann_zeta,
    "radian": lambda d, m, s: np.deg2rad(floating(d) + floating(m) / 60 + floating(s) / 3600),
    "round": lambda x: np.rint(floating(x)),
    "agm": lambda a, b: np.where(np.sign(a) * np.sign(b) < 0, np.nan, np.where((a == 0) & (b == 0), 0, (a + b) * (
        math.pi / 4) / compiled.ellipkm1(4 * (a / (a + b)) * (b / (a + b))))),
    "entr": lambda x: np.where(x < 0, -np.inf, -xlogy(x, x)),
    "rel_entr": rel_entr, "kl_div": _kl_div,
    # distributions
    "chdtr": lambda v, x: np.where(x < 0, np.nan, gammainc(0.5 * v, 0.5 * x)),
    "chdtrc": lambda v, x: np.where(x < 0, np.nan, gammaincc(0.5 * v, 0.5 * x)),
    "gdtr": lambda a, b, x: np.where(x >= 0, gammainc(b, a * x), np.nan),
    "gdtrc": lambda a, b, x: np.where(x >= 0, gammaincc(b, a * x), np.nan),
    "gdtria": lambda p, b, x: compiled.gammaincinv(b, p) / np.where(x == 0, np.nan, x),
    "gdtrix": lambda a, b, p: compiled.gammaincinv(b, p) / a,
    "nrdtrimn": lambda p, std, x: np.where((p > 0) & (p < 1) & (std > 0), x - std * ndtri(p), np.nan),
    "nrdtrisd": lambda mn, p, x: np.where((p > 0) & (p < 1), (x - mn) / ndtri(p), np.nan),
    "bdtr": partial(_binomial, upper=False), "bdtrc": partial(_binomial, upper=True),
    "nbdtr": _negative_binomial(betainc), "nbdtrc": _negative_binomial(betaincc),
    "pdtr": lambda k, m: np.where(k < 0, np.nan, gammaincc(np.floor(k) + 1.0, m)),
    "pdtrc": lambda k, m: np.where(k < 0, np.nan, gammainc(np.floor(k) + 1.0, m)),
    "fdtr": _fisher(betainc, betaincc), "fdtrc": _fisher(betaincc, betainc),
    "special._ufuncs._beta_pdf": _in_double(
        lambda x, a, b: np.exp(xlog1py(b - 1, -x) + xlogy(a - 1, x) - betaln(a, b))),
    "special._ufuncs._binom_pmf": _in_double(
        lambda x, n, p: np.exp(_choose(n, x) + xlogy(x, p) + xlog1py(n - x, -p))),
    "special._ufuncs._binom_cdf": lambda x, n, p: np.where(
        x >= n, 1, betaincc(x + 1, np.where(x < n, n - x, 1), p)),
    "special._ufuncs._binom_sf": lambda x, n, p: np.where(
        x >= n, 0, betainc(x + 1, np.where(x < n, n - x, 1), p)),
    "special._ufuncs._hypergeom_pmf": _in_double(lambda k, n, m, total: np.exp(
        _choose(n, k) + _choose(total - n, m - k) - _choose(total, m))),
    "special._ufuncs._kolmogp": compiled.kolmogorov_slope,
    "special._ufuncs._kolmogc": compiled.kolmogorov_chance,
    "special._ufuncs._beta_ppf": lambda q, a, b: compiled.betaincinv(a, b, q),
    "special._ufuncs._cosine_cdf": _cosine_cdf,
    "special._ufuncs._log1mexp": lambda x: special.log1mexp(floating(x)),
    "special._ufuncs._nbinom_pmf": _in_double(lambda x, n, p: np.exp(
        gammaln(n + x) - gammaln(x + 1) - gammaln(n) + xlogy(n, p) + xlog1py(x, -p))),
    **{f"special._ufuncs._{name}": formula for name, formula in _MOMENTS.items()},
    "special._ufuncs._cauchy_ppf": lambda p, loc, scale: loc - scale / np.tan(math.pi * np.where(p < 0.5, p, p - 1)),
    "special._ufuncs._cauchy_isf": lambda p, loc, scale: loc + scale / np.tan(math.pi * np.where(p < 0.5, p, p - 1)),
    "special._ufuncs._scaled_exp1": lambda x: _scaled_exp1(floating(x)),
    "special._ufuncs._nbinom_cdf": lambda x, n, p: betainc(n, x + 1, p),
    "special._ufuncs._nbinom_sf": lambda x, n, p: betaincc(n, x + 1, p),
    "special._ufuncs._beta_cdf": lambda x, a, b: betainc(a, b, x),
    "special._ufuncs._beta_sf": lambda x, a, b: betaincc(a, b, x),
    "special._ufuncs._nct_cdf": lambda x, df, nc: compiled.nctdtr(df, nc, x),
    "special._ufuncs._ncx2_cdf": compiled.chndtr,
}

_OLDER = {
    f"stats._boost._{distribution}_{'pdf' if what == 'pmf' else what}": name for name in (*_FORMULAS,)
    for distribution, _, what in [name.rpartition("._")[2].partition("_")]
    if distribution in {"beta", "binom", "nbinom", "hypergeom", "nct", "ncf", "ncx2"}
}
"""The names in SciPy 1.13 of what distributions ask of Boost, by those that newer versions have for it."""


# -- orthogonal polynomials of a known degree, by their recurrences: DLMF 18.9.1 and 18.9.2


def _degree(name: str, n: Any) -> int:
    if is_traced(n) or np.ndim(n) or float(n) != (degree := int(n)) or degree < 0:
        raise UnsupportedError(
            f"scipy.special.{name} of traced arrays takes one known degree",
            instead="a Python integer, and a Python loop over several",
        )
    return degree


def _degrees(name: str, n: Any) -> Any:
    if is_traced(n) or np.any(np.asarray(n) != (degrees := np.asarray(n).astype(int))) or np.any(degrees < 0):
        raise UnsupportedError(
            f"scipy.special.{name} of traced arrays takes known degrees, which are whole",
            instead="a Python integer, or an array of them that is made outside",
        )
    return degrees


def _polynomial(name: str, step: Any, shift: Any = floating) -> Callable[..., Any]:
    """Make a polynomial of ``step(k, x, one, before, *parameters)``: the next of degrees k and k - 1."""

    def polynomial(n: Any, *given: Any) -> Any:
        *parameters, x = [floating(v) for v in given]
        degrees, x = _degrees(name, n), shift(x)
        one: Any = np.ones_like(sum(parameters, x))
        before: Any = 0 * one
        values = [one]
        for k in range(np.max(degrees, initial=0)):
            one, before = step(k, x, one, before, *parameters), one
            values.append(one)
        if degrees.ndim == 0:
            return one
        asked = np.unique(degrees)
        return np.select([degrees == k for k in asked], [values[k] for k in asked]) if asked.size else degrees * one

    return polynomial


def _legendre_step(k: int, x: Any, one: Any, before: Any) -> Any:
    return ((2 * k + 1) * x * one - k * before) / (k + 1)


def _chebyshev_step(k: int, x: Any, one: Any, before: Any, first: int = 1) -> Any:
    return (2 if k else first) * x * one - before


def _laguerre_step(k: int, x: Any, one: Any, before: Any, alpha: Any = 0.0) -> Any:
    return ((2 * k + 1 + alpha - x) * one - (k + alpha) * before) / (k + 1)


def _jacobi_step(k: int, x: Any, one: Any, before: Any, a: Any, b: Any) -> Any:
    if k == 0:
        return (a + 1) + (a + b + 2) * (x - 1) / 2
    c = 2 * k + a + b
    return ((c + 1) * ((c + 2) * c * x + a * a - b * b) * one - 2 * (k + a) * (k + b) * (c + 2) * before) / (
        2 * (k + 1) * (k + a + b + 1) * c)


_second_kind = partial(_chebyshev_step, first=2)
_FORMULAS |= {f"eval_{_name}": _polynomial(f"eval_{_name}", *_step) for _name, _step in {
    "legendre": (_legendre_step,), "sh_legendre": (_legendre_step, lambda x: 2 * x - 1),
    "chebyt": (_chebyshev_step,), "chebyu": (_second_kind,), "chebys": (_second_kind, lambda x: 0.5 * x),
    "sh_chebyt": (_chebyshev_step, lambda x: 2 * x - 1), "sh_chebyu": (_second_kind, lambda x: 2 * x - 1),
    "laguerre": (_laguerre_step,), "genlaguerre": (_laguerre_step,), "jacobi": (_jacobi_step,),
    "hermite": (lambda k, x, one, before: 2 * (x * one - k * before),),
    "hermitenorm": (lambda k, x, one, before: x * one - k * before,),
    "gegenbauer": (lambda k, x, one, before, a: (2 * (k + a) * x * one - (k + 2 * a - 1) * before) / (k + 1),),
}.items()}
_FORMULAS |= {
    "eval_chebyc": lambda n, x: 2 * _FORMULAS["eval_chebyt"](n, 0.5 * x),
    "eval_sh_jacobi": lambda n, p, q, x: _FORMULAS["eval_jacobi"](n, p - q, q - 1, 2 * x - 1) / _binom(
        2 * n + p - 1, n),
}

# -- spherical Bessel functions, DLMF 10.47 and 10.51.2


def _spherical(of: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """Make a spherical function of the first kind of its cylindrical one; near 0 by its series, 10.53.1 and 10.53.3."""

    def series(n: Any, x: Any) -> Any:
        total: Any = 1.0
        for k in range(9, 0, -1):
            total = 1 + sign * x * x / (2 * k * (2 * n + 2 * k + 1)) * total
        return math.sqrt(0.25 * math.pi) * np.power(0.5 * x, n) / gamma(n + 1.5) * total

    def spherical(n: Any, x: Any) -> Any:
        n, x = floating(n), floating(x)
        near = np.abs(x) < 1
        size = np.where(near, 1, np.abs(x))
        value = np.sqrt(math.pi / (2 * size)) * of(n + 0.5, size)
        return np.where(near, series(n, np.where(near, x, 0)), np.where((x < 0) & (n % 2 != 0), -value, value))

    return spherical


def _singular(of: Callable[..., Any]) -> Callable[..., Any]:
    """Make a spherical function of the second kind, which is infinite at 0, of its cylindrical one; DLMF 10.47.14."""

    def singular(n: Any, x: Any) -> Any:
        n, x = floating(n), floating(x)
        size = np.abs(x)
        value = np.sqrt(math.pi / (2 * size)) * of(n + 0.5, size)
        return np.where((x < 0) & (n % 2 == 0), -value, value)

    return singular


def _spherical_slope(of: Callable[..., Any], sign: int) -> Callable[..., Any]:
    return lambda n, x: (n * of(np.abs(n - 1), x) + sign * (n + 1) * of(n + 1, x)) / (2 * n + 1)


_SPHERICAL: dict[str, tuple[Any, Any]] = {
    letter: (_function := _spherical(of, sign), _spherical_slope(_function, sign))
    for letter, of, sign in (("j", compiled.jv, -1), ("i", compiled.iv, 1))
} | {
    letter: (_function := _singular(of), lambda n, x, of=_function: n / x * of(n, x) - of(n + 1, x))
    for letter, of in (("y", compiled.yv), ("k", compiled.kv))
}
for _letter, (_value, _slope) in _SPHERICAL.items():
    _FORMULAS[f"special._ufuncs._spherical_{_letter}n"] = _value
    _FORMULAS[f"special._ufuncs._spherical_{_letter}n_d"] = _slope


@answers(Late("spherical_kn"))
def spherical_kn(n: Any, z: Any, derivative: bool = False) -> Any:
    """As `scipy.special.spherical_kn`, left of 0 the real part of its continuation, DLMF 10.47.17."""
    n, z, end = floating(n), floating(z), "_d" * bool(derivative)
    size = np.where(z == 0, 1, np.abs(z))
    of, beside = [_FORMULAS[f"special._ufuncs._spherical_{letter}n{end}"](n, size) for letter in "ki"]
    side = -1 if derivative else 1
    left = -side * (np.where(n % 2 != 0, -of, of) + math.pi * beside)
    return np.where(z > 0, of, np.where(z < 0, left, np.where(z == 0, side * np.inf, z)))


# -- Legendre functions of a known degree and order on [-1, 1], DLMF 14.10.3


def _legendre(n: int, m: int, z: Any, root: Any) -> Any:
    """Return the functions of the degrees up to n of an order that is not negative, without a norm."""
    one = (-1) ** m * math.prod(range(1, 2 * m, 2)) * root**m if m else np.ones_like(z)
    found, before = [0 * z] * min(m, n + 1), 0 * z
    for degree in range(m, n + 1):
        found.append(one)
        one, before = ((2 * degree + 1) * z * one - (degree + m) * before) / (degree - m + 1), one
    return found


def _factor(n: int, m: int, norm: float | None) -> float:
    """Return what a function of the order |m| is multiplied with for one of the order m, or of norm 1."""
    if n < abs(m):
        return 0.0
    ratio = math.factorial(n - abs(m)) / math.factorial(n + abs(m))
    sign = (-1) ** m if m < 0 else 1
    return sign * (math.sqrt(norm * (2 * n + 1) * ratio) if norm is not None else ratio if m < 0 else 1.0)


def _legendre_functions(name: str, *, all_: bool) -> Any:
    """Answer functions of degree, order and place; with a first axis for the value and its derivatives."""
    sphere, plain = name.startswith("sph"), name.startswith("legendre")

    def functions(n: Any, *given: Any, norm: bool = False, diff_n: int = 0, branch_cut: int = 2) -> Any:
        *order, z = given
        degree = _degree(name, n)
        m = int(order[0]) if order else 0
        if diff_n or any(is_traced(v) or np.ndim(v) for v in order):
            raise UnsupportedError(
                f"scipy.special.{name} of traced arrays takes one known order, and no diff_n=", instead="sg.jacfwd")
        z = floating(z)
        place, root = (np.cos(z), np.abs(np.sin(z))) if sphere else (z, np.sqrt(1 - z * z) if m or all_ else z)
        scale = 1 / (4 * math.pi) if sphere else 0.5 if norm else None
        if not all_:
            return (_legendre(degree, abs(m), place, root)[degree] * _factor(degree, m, scale))[None]
        if plain:
            return np.stack(_legendre(degree, 0, place, root))[None]
        columns = [_legendre(degree, abs(k), place, root) for k in (*range(abs(m) + 1), *range(-abs(m), 0))]
        orders = (*range(abs(m) + 1), *range(-abs(m), 0))
        return np.stack([np.stack([column[k] * _factor(k, own, scale) for own, column in zip(
            orders, columns, strict=True)]) for k in range(degree + 1)])[None]

    return functions


for _name in ("legendre_p", "assoc_legendre_p", "sph_legendre_p"):
    for _end in ("", "_all"):
        answers(Late(_name + _end))(_legendre_functions(_name + _end, all_=bool(_end)))


# -- SciPy's Python that chooses by indices


def _refuse_options(name: str, exact: Any, extend: Any) -> None:
    if exact or extend != "zero":
        raise UnsupportedError(
            f"scipy.special.{name}(..., exact=, extend=) on traced arrays: values say of which dtype the result is",
            instead="leave them away")


@answers(Late("factorial"))
def factorial(n: Any, exact: Any = False, extend: str = "zero") -> Any:
    """As `scipy.special.factorial` of numbers that are no integers: exactness and complex numbers are refused."""
    _refuse_options("factorial", exact, extend)
    n = lift(n)
    value = np.where(n < 0, 0, gamma(floating(np.where(n < 0, 0, n)) + 1))
    return value.astype(np.float64) if n.ndim else value


@answers(Late("factorial2"))
def factorial2(n: Any, exact: Any = False, extend: str = "zero") -> Any:
    _refuse_options("factorial2", exact, extend)
    return _multifactorial("factorial2", n, 2)


@answers(Late("factorialk"))
def factorialk(n: Any, k: Any, exact: Any = False, extend: str = "zero") -> Any:
    _refuse_options("factorialk", exact, extend)
    if is_traced(k) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ArgumentValueError(
            "scipy.special.factorialk of traced numbers takes a known k, which is positive", instead="a Python integer")
    return factorial(n) if k == 1 else _multifactorial("factorialk", n, int(k))


def _multifactorial(name: str, n: Any, k: int) -> Any:
    """Return n (n - k) (n - 2 k) ... of integers, by the formula in SciPy's documentation of factorialk."""
    n = lift(n)
    if n.dtype.kind not in "iu":
        raise ArgumentValueError(
            f"scipy.special.{name} of {n.dtype.name}: it is of integers",
            instead="n.astype(int), or its formula of gamma functions")
    size = np.maximum(n, 0).astype(np.float64)
    left = size % k
    value = np.power(float(k), (size - left) / k) * gamma(size / k + 1) / gamma(left / k + 1) * np.maximum(left, 1)
    return np.where(n < 0, 0, value)


@answers(Late("stirling2"))
def stirling2(N: Any, K: Any, *, exact: Any = False) -> Any:
    raise UnsupportedError(
        "scipy.special.stirling2 of traced numbers: they say whether SciPy takes a table or an approximation",
        instead="np.take(table, n * N + K) with table = scipy.special.stirling2(*np.ogrid[:n, :n]) made outside, of N "
        "and K from 0 to n - 1")


@answers(Late("diric"))
def diric(x: Any, n: Any) -> Any:
    """As `scipy.special.diric`: a ratio of sines, of which a factor is taken out that is 0 in both."""
    x, n = floating(x), floating(n)
    turns = np.rint(x / (2 * math.pi))
    rest = x / (2 * math.pi) - turns
    value = np.where((turns * (n - 1)) % 2 == 0, 1, -1) * np.sinc(n * rest) / np.sinc(rest)
    return np.where((n <= 0) | (n != np.floor(n)), np.nan, value)


def _in_its_loop(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    """Convert Python's numbers and the result as SciPy's ufunc does: formulas of such numbers alone are double."""

    def answer(*given: Any, **keywords: Any) -> Any:
        ufunc = Late(name).function
        if keywords or not isinstance(ufunc, np.ufunc) or len(given) != ufunc.nin:
            return formula(*given, **keywords)
        if all(loop[-1] in "FD" for loop in ufunc.types):  # Lambert's W is a real function here
            return formula(*given)
        kinds = kinds_of(*given)
        loop = loop_dtypes(ufunc, tuple(kinds))
        each = zip(given, kinds, loop, strict=False)
        made = formula(*[lift(v).astype(dtype) if isinstance(kind, type) else v for v, kind, dtype in each])
        return made.astype(loop[-1]) if ufunc.nout == 1 else made

    return answer


for _name, _formula in (*_FORMULAS.items(), *[(older, _FORMULAS[newer]) for older, newer in _OLDER.items()]):
    answers(Late(_name))(_in_its_loop(_name, _formula))

"""Functions of `scipy.special`: error functions, the logistic function and its kin, the gamma function's logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import NoGradient
from symgrad.ir.op import Elementwise
from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import PAIRS, SPECIAL, between, inf, nan, normal, positive
from symgrad.ops.declare.forms import Late, elementwise
from symgrad.ops.elementwise.incomplete import beta_by_shapes, beta_density, gamma_by_shape, gamma_density
from symgrad.ops.elementwise.selection import piecewise
from symgrad.ops.elementwise.trigonometric import cosh

# -- error functions

erf = elementwise(
    numpy=Late("erf"), value=sp.erf, ddx=lambda x, _y: 2 / math.sqrt(math.pi) * np.exp(-x * x), c="erf")

erfc = elementwise(
    numpy=Late("erfc"), value=sp.erfc, ddx=lambda x, _y: -2 / math.sqrt(math.pi) * np.exp(-x * x),
    c="erfc", edges=(*SPECIAL, 26.0))

ndtr = elementwise(
    numpy=Late("ndtr"), value=lambda x: sp.erfc(-x / sp.sqrt(2)) / 2,
    ddx=lambda x, _y: 1 / math.sqrt(2 * math.pi) * np.exp(x * x * -0.5),
    c="0.5{f} * erfc{f}({0} * -0.7071067811865476{f})", edges=(*SPECIAL, -37.0))


def _log_ndtr_slope(x: Any, y: Any) -> Any:
    """Return the normal density over ndtr; far left by the series of its inverse, A&S 26.2.12, as y itself cancels."""

    def far(x: Any) -> Any:
        z = 1 / np.square(x)
        return -x / (1 + z * (-1 + z * (3 + z * (-15 + z * (105 + z * (-945 + z * (10395 - 135135 * z)))))))

    return piecewise(x < -20, x, -20, far, lambda x: np.exp(-0.5 * np.square(x) - y) / math.sqrt(2 * math.pi))


log_ndtr = elementwise(
    numpy=Late("log_ndtr"), value=lambda x: sp.log(sp.erfc(-x / sp.sqrt(2)) / 2), ddx=_log_ndtr_slope,
    c="sg_log_ndtr{f}({0})", edges=(*SPECIAL, -37.0, -20.5, -15.0, -1e3, 8.0))

ndtr.log = log_ndtr

ndtri = elementwise(
    numpy=Late("ndtri"), ddx=lambda _x, y: math.sqrt(2 * math.pi) * np.exp(0.5 * y * y), c="sg_ndtri{f}({0})",
    sample=between(0.05, 0.95), edges=(0.0, 1.0, 0.5, 1e-300, 1e-8, 0.02425, 0.97, -0.5, 1.5, nan))


erfinv = elementwise(
    numpy=Late("erfinv"), ddx=lambda _x, y: 0.5 * math.sqrt(math.pi) * np.exp(y * y), c="sg_erfinv{f}({0})",
    sample=between(-0.9, 0.9), edges=(0.0, -0.0, 1.0, -1.0, 1e-300, 0.5, 0.49, -0.999, 1 - 1e-15, 1.5, nan, 5e-324))


def _tail(x: Any, sign: int) -> Any:
    """Return the sum of (2k - 1)!! (sign / 2 x x)^k from k = 1 on, for x beyond 8: DLMF 7.12.1."""
    z: Any = 0.5 * sign / np.square(np.where(np.abs(x) > 8, x, 8))
    total: Any = 0.0
    for k in range(29, 0, -2):
        total = k * z * (1 + total)
    return total


def _erfcx_slope(x: Any, y: Any) -> Any:
    """Return 2 x y - 2 / sqrt(pi); far right, where that cancels, by the series of y."""
    return 2 / math.sqrt(math.pi) * np.where(x > 8, _tail(x, -1), math.sqrt(math.pi) * np.where(x > 8, 0, x) * y - 1)


erfcx = elementwise(
    numpy=Late("erfcx"), ddx=_erfcx_slope, c="sg_erfcx{f}({0})",
    edges=(*SPECIAL, 9.999, 10.0, 26.0, 1e10, -5.0))

dawsn = elementwise(
    numpy=Late("dawsn"), c="sg_dawsn{f}({0})", edges=(*SPECIAL, 0.499, -5.0, 9.0, 1e7),
    ddx=lambda x, y: np.where(np.abs(x) > 8, -_tail(x, 1), 1 - 2 * np.where(np.abs(x) > 8, 0, x) * y))


# -- the logistic function

def _expit_slope(x: Any) -> Any:
    """Return expit(x) * expit(-x), the derivative of expit, to the last digit at either end."""
    small = np.exp(-np.abs(x))
    return small / np.square(1 + small)


expit_slope = elementwise(
    name="expit_slope", numpy=_expit_slope, result=lambda x: x,
    value=lambda x: sp.exp(-x) / (1 + sp.exp(-x)) ** 2, ddx=lambda x, y: -y * np.tanh(0.5 * x),
    c="sg_expit_slope{f}({0})", edges=(*SPECIAL, 745.0, -745.0))

expit = elementwise(
    numpy=Late("expit", formula=lambda x: 1 / (1 + np.exp(-x))),
    value=lambda x: 1 / (1 + sp.exp(-x)), ddx=lambda x, _y: expit_slope(x),
    c="sg_expit{f}({0})", edges=(*SPECIAL, 745.0, -745.0))

logit_slope = elementwise(
    name="logit_slope", doc="Return 1 / (x * (1 - x)), the derivative of logit.", numpy=lambda x: 1 / (x * (1 - x)),
    result=lambda x: x, value=lambda x: 1 / (x * (1 - x)),
    ddx=lambda x, y: (2 * x - 1) * y * y,  # taken factor by factor it would be inf - inf near 0
    c="1.0{f} / ({0} * (1.0{f} - {0}))", sample=between(0.05, 0.95))

logit = elementwise(
    numpy=Late("logit"), value=lambda x: sp.log(x / (1 - x)), ddx=lambda x, _y: logit_slope(x),
    c="sg_logit{f}({0})", sample=between(0.05, 0.95), edges=(*SPECIAL, 0.31, 0.64))

log_expit = elementwise(
    numpy=Late("log_expit", formula=lambda x: -np.logaddexp(0, -x)),
    value=lambda x: -sp.log(1 + sp.exp(-x)), ddx=lambda x, _y: expit(-x),
    c="sg_log_expit{f}({0})", edges=(*SPECIAL, 745.0, -1000.0))


# -- logarithms of 1 - exp(x) and of cosh(x), which cancel near 0 and overflow far from it

def _log1mexp(x: Any) -> Any:
    """Return log(1 - exp(x)), for x < 0."""
    with np.errstate(all="ignore"):
        return np.where(np.greater(x, -math.log(2)), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


log1mexp = elementwise(
    name="log1mexp", numpy=_log1mexp, result=lambda x: x, value=lambda x: sp.log(1 - sp.exp(x)),
    ddx=lambda x, _y: np.exp(x) / np.expm1(x),  # -1 / expm1(-x) has no second derivative far from 0
    c="{0} > -0.6931471805599453{f} ? log{f}(-expm1{f}({0})) : log1p{f}(-exp{f}({0}))",
    sample=between(-4.0, -0.1), edges=(0.0, -1.0, -1e-8, -1e-160, -37.0, -745.0, -1e3, -inf, 1.0, nan))


def _log_cosh(x: Any) -> Any:
    """Return log(cosh(x))."""
    size, half = np.abs(x), np.sinh(np.minimum(np.abs(x), 1) / 2)
    far = size + (np.log1p(np.exp(-2 * size)) - np.asarray(math.log(2), size.dtype))
    return np.where(size < 1, np.log1p(2 * half * half), far)


log_cosh = elementwise(
    name="log_cosh", numpy=_log_cosh, result=lambda x: x, value=lambda x: sp.log(sp.cosh(x)),
    ddx=lambda x, _y: np.tanh(x), c="sg_log_cosh{f}({0})", edges=(*SPECIAL, 745.0, -1e3))

expit.log, cosh.log = log_expit, log_cosh


# -- products with a logarithm: 0 where the factor is 0, and so is their gradient at (0, 0)

def _product_vjp(g: Any, a: Any, at_zero: Any, logarithm: Any, argument: Any) -> Any:
    corner = (a == 0) & at_zero
    return np.where(corner, 0, g * logarithm), np.where(corner, 0, g * (a / argument))


xlogy = elementwise(
    numpy=Late("xlogy", 2), value=lambda a, b: a * sp.log(b),
    vjp=lambda g, _y, a, b: _product_vjp(g, a, b == 0, np.log(b), b),
    c="{0} == 0.0{f} && {1} == {1} ? 0.0{f} : {0} * log{f}({1})", sample=(normal(), positive()))

xlog1py = elementwise(
    numpy=Late("xlog1py", 2), value=lambda a, b: a * sp.log(1 + b),
    vjp=lambda g, _y, a, b: _product_vjp(g, a, b == -1, np.log1p(b), 1 + b),
    c="{0} == 0.0{f} && {1} == {1} ? 0.0{f} : {0} * log1p{f}({1})", sample=(normal(), positive()),
    edges=(*PAIRS, (0.0, -1.0), (2.0, 1e-300)))


# -- quotients by what may be 0

def power_less_one(log: Any, lmbda: Any) -> Any:
    """Return expm1(lmbda * log) / lmbda; far out by factors, the product of which alone may overflow."""

    def quotient(product: Any, lmbda: Any) -> Any:
        half = np.expm1(0.5 * product)
        return half / lmbda * (half + 2)

    return _near_zero(lmbda, log, exprel_series, quotient)


def root_of_one_more(y: Any, lmbda: Any) -> Any:
    """Return log1p(lmbda * y) / lmbda."""
    return _near_zero(lmbda, y, _log1prel_series, lambda product, lmbda: np.log1p(product) / lmbda)


def _near_zero(k: Any, x: Any, series: Callable[[Any], Any], quotient: Callable[[Any, Any], Any]) -> Any:
    """Return quotient(k x, k): where k x is small as x times a series, whose slopes by k do not cancel."""
    product = k * x
    small = np.abs(product) < 0.5
    near = small | (k == 0)  # where x may be infinite
    apart = quotient(np.where(near, 1, product), np.where(near, 1, k))
    return np.where(near, x * series(np.where(small, product, 0)), apart)


def exprel_series(x: Any) -> Any:
    """Return expm1(x) / x for small x as a polynomial: its derivatives do not cancel."""
    total: Any = 1.0
    for k in range(21, 1, -1):
        total = 1 + x / k * total
    return total


def _log1prel_series(x: Any) -> Any:
    """Return log1p(x) / x for small x as a series of x / (2 + x), DLMF 4.6.4: its derivatives do not cancel."""
    inverse = 1 / (2 + x)
    square, total = np.square(x * inverse), 0.0
    for k in range(41, 0, -2):
        total = 1 / k + square * total
    return 2 * inverse * total


# -- the logarithm of gamma and its derivatives

def _polygamma(x: Any, order: int) -> Any:
    """Return the derivative of digamma of this order, at least 1."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        return np.asarray(Late("polygamma")(order, np.asarray(x, np.float64)), x.dtype)


POLES = (0.5, 1.0, 1e-8, 1e-100, 1e3, 1e160, 745.0, inf, nan, -0.5, -2.5, -37.25)

polygamma: Elementwise = elementwise(
    name="polygamma", params=("order",), numpy=_polygamma, result=lambda x, order: x,
    ddx=lambda x, _y, order: polygamma(x, order=order + 1), c="sg_polygamma{f}({0}, {order})",
    sample=positive(), edges=POLES)

trigamma = elementwise(
    name="trigamma", numpy=lambda x: _polygamma(x, 1), result=lambda x: x, value=lambda x: sp.polygamma(1, x),
    ddx=lambda x, _y: polygamma(x, order=2), c="sg_trigamma{f}({0})", sample=positive(), edges=POLES,
    doc="Return the second derivative of the logarithm of gamma.")

digamma = elementwise(
    name="digamma", numpy=Late("digamma"), value=sp.digamma, ddx=lambda x, _y: trigamma(x),
    c="sg_digamma{f}({0})", sample=positive(), edges=(*POLES, 0.0, -0.0, -1.0, 1.4616321449683622))

gammaln = elementwise(
    numpy=Late("gammaln"), value=sp.loggamma, ddx=lambda x, _y: digamma(x), c="sg_gammaln{f}({0})", sample=positive(),
    edges=(*POLES, 0.0, -1.0, -inf))

gamma = elementwise(
    numpy=Late("gamma"), ddx=lambda x, y: y * digamma(x), c="tgamma", sample=positive(),
    edges=(0.5, 1.0, 1e-8, 1e-100, 5.0, 170.0, inf, nan, -0.5, -2.5))


def sine_of_pi(x: Any) -> Any:
    """Return sin(pi x), to the last digit near its zeros."""
    near = np.rint(x)
    return np.sin(math.pi * (x - near)) * (1 - 2 * (near % 2))


def cosine_of_pi(x: Any) -> Any:
    """Return cos(pi x), to the last digit near its zeros."""
    near = np.rint(x)
    rest = x - near
    far = np.abs(rest) > 0.25
    return np.where(far, np.sin(math.pi * (0.5 - np.abs(rest))), np.cos(math.pi * rest)) * (1 - 2 * (near % 2))


def _rgamma_slope(x: Any, y: Any) -> Any:
    """Return -y digamma(x); left of 0.5 the slope of the reflection, of which y is 0 at the poles."""
    def left(x: Any) -> Any:
        far = x < -1  # where gamma(1 - x) may overflow before its product with a cosine
        steep = gamma(np.where(far, -x, 1 - x)) * (np.where(far, -x, 1) * cosine_of_pi(x))
        return steep - y * digamma(1 - x)

    return piecewise(x < 0.5, x, 0.5, left, lambda x: -y * digamma(np.where(y == 0, 1, x)))


rgamma = elementwise(
    numpy=Late("rgamma"), ddx=_rgamma_slope, c="sg_rgamma{f}({0})", sample=positive(),
    edges=(0.0, -0.0, 0.5, 1.0, 1e-8, 5.0, 150.0, 171.0, 200.0, inf, nan, -0.5, -2.0, -2.5, -400.0))


# -- incomplete gamma and beta functions

def no_slope(name: str, parameter: str) -> NoGradient:
    """Return, in the place of a slope, that there is none by this parameter."""
    return NoGradient(f"{name} has no derivative by its parameter {parameter}")


def _gamma_slopes(sign: int) -> Any:
    return lambda a, x, _y: (sign * gamma_by_shape(a, x), sign * gamma_density(a, x))


_SHAPES = ((1.0, 1.0), (0.5, 3.0), (3.0, 0.5), (30.0, 20.0), (200.0, 210.0), (2.0, 0.0), (0.0, 1.0), (2.0, inf),
           (2.0, 700.0), (-1.0, 1.0), (1.0, -1.0), (nan, 1.0), (1.0, nan))

gammainc = elementwise(
    numpy=Late("gammainc", 2), ddx=_gamma_slopes(1), c="sg_gammainc{f}({0}, {1}, 0)",
    sample=positive(), edges=_SHAPES)

gammaincc = elementwise(
    numpy=Late("gammaincc", 2), ddx=_gamma_slopes(-1), c="sg_gammainc{f}({0}, {1}, 1)",
    sample=positive(), edges=_SHAPES)


def _beta_slopes(sign: int) -> Any:
    def slopes(a: Any, b: Any, x: Any, _y: Any) -> Any:
        by_a, by_b = beta_by_shapes(a, b, x, 1 - x)
        return sign * by_a, sign * by_b, sign * beta_density(a, b, x)

    return slopes


_PLACES = ((1.0, 1.0, 0.3), (0.5, 2.0, 0.9), (20.0, 30.0, 0.4), (2.0, 3.0, 0.0), (2.0, 3.0, 1.0), (2.0, 3.0, -0.5),
           (2.0, 3.0, 1.5), (nan, 1.0, 0.5), (1.0, 1.0, nan), (0.0, 2.0, 0.0), (0.0, 2.0, 0.3), (2.0, 0.0, 0.3),
           (2.0, 0.0, 1.0), (0.0, 0.0, 0.5))
_BETA_SAMPLE = (positive(), positive(), between(0.05, 0.95))

betainc = elementwise(
    numpy=Late("betainc", 3), ddx=_beta_slopes(1), sample=_BETA_SAMPLE, edges=_PLACES, moderate=True,
    c="sg_betainc{f}({0}, {1}, (double){2}, 1.0 - (double){2}, 0)")

betaincc = elementwise(
    numpy=Late("betaincc", 3), ddx=_beta_slopes(-1), sample=_BETA_SAMPLE, edges=_PLACES, moderate=True,
    c="sg_betainc{f}({0}, {1}, (double){2}, 1.0 - (double){2}, 1)")


# -- modified Bessel functions of the first kind, DLMF 10.29.2

def _ratio(value: Any, x: Any, sign: int = 1, scale: Any = 1) -> Any:
    """Return a scaled I1(x) / x, or J1(x) / x; near 0 by the series, DLMF 10.25.2, whose slopes do not cancel."""
    small = np.abs(x) < 1
    square: Any = np.square(np.where(small, x, 0)) * (0.25 * sign)
    series: Any = 1.0
    for k in range(9, 0, -1):
        series = 1 + square / (k * (k + 1)) * series
    return np.where(small, 0.5 * scale * series, value / np.where(small, 1, x))


def far_slope(x: Any, order: int, *, sign: int = 1) -> Any:
    """Return the slope of exp(-x) times I0 or I1 beyond 30, where it cancels: that of the series DLMF 10.40.1.

    With the other sign it is that of exp(x) times K0 or K1, divided by pi, DLMF 10.40.2.
    """
    coefficients = [1.0]
    for k in range(1, 19):
        coefficients.append(coefficients[-1] * sign * ((2 * k - 1) ** 2 - 4 * order) / (8 * k))
    inverse, total = 1 / x, 0.0
    for k in range(18, -1, -1):
        total = total * inverse + (k + 0.5) * coefficients[k]
    return -total * inverse * np.sqrt(inverse / (2 * math.pi))


i0e = elementwise(
    numpy=Late("i0e"), ddx=lambda x, y: piecewise(
        np.abs(x) > 30, x, 30, lambda x: np.sign(x) * far_slope(np.abs(x), 0), lambda x: i1e(x) - np.sign(x) * y),
    c="sg_bessel_i{f}({0}, 0)", edges=(*SPECIAL, 19.9, 20.1, -700.0))

i1e: Elementwise = elementwise(
    numpy=Late("i1e"), ddx=lambda x, y: piecewise(
        np.abs(x) > 30, x, 30, lambda x: far_slope(np.abs(x), 1),
        lambda x: i0e(x) - _ratio(y, x, scale=np.exp(-np.abs(x))) - np.sign(x) * y),
    c="sg_bessel_i{f}({0}, 1)", edges=(*SPECIAL, 19.9, 20.1, -700.0))

i0 = elementwise(
    numpy=Late("i0"), ddx=lambda x, _y: i1(x), c="sg_bessel_i{f}({0}, 0) * exp{f}(fabs{f}({0}))",
    edges=(0.0, -0.0, 1.0, -2.5, nan, 1e-8, 19.9, 20.1, 100.0))

i1: Elementwise = elementwise(
    numpy=Late("i1"), ddx=lambda x, y: i0(x) - _ratio(y, x), c="sg_bessel_i{f}({0}, 1) * exp{f}(fabs{f}({0}))",
    edges=(0.0, -0.0, 1.0, -2.5, nan, 1e-8, 19.9, 20.1, 100.0))


# -- Bessel functions of the first kind, DLMF 10.6.2

j0 = elementwise(
    numpy=Late("j0"), ddx=lambda x, _y: -j1(x), c="sg_bessel_j{f}({0}, 0)",
    edges=(0.0, -0.0, 1.0, -2.5, 1e-8, 37.0, inf, nan))

j1: Elementwise = elementwise(
    numpy=Late("j1"), ddx=lambda x, y: j0(x) - _ratio(y, x, sign=-1), c="sg_bessel_j{f}({0}, 1)",
    edges=(0.0, -0.0, 1.0, -2.5, 1e-8, 37.0, inf, nan))


# -- Hurwitz's zeta


def zeta_by_s(s: Any, q: Any) -> Any:
    """Return the slope of Hurwitz's zeta by its exponent: that of Euler and Maclaurin's sum, DLMF 25.11.28."""
    total: Any = 0.0
    for k in range(14):
        total = total - np.log(q + k) * (q + k) ** -s
    a = q + 14
    log, tail, rising, slope = np.log(a), a**-s, s / a, 1 / a
    total = total - tail * (a * (log + 1 / (s - 1)) / (s - 1) + 0.5 * log)
    for k, number in enumerate(BERNOULLI):
        total = total + number * tail * (slope - log * rising)
        one, two = (s + 2 * k + 1) / a, (s + 2 * k + 2) / a
        rising, slope = rising * one * two, (slope * one + rising / a) * two + rising * one / a
    return total


BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
"""B(2k) / (2k)!, from k = 1 on."""


zeta: Elementwise = elementwise(
    numpy=Late("special._ufuncs._zeta", 2), ddx=lambda s, q, _y: tuple([
        np.where(s >= 1, slope, np.nan) for slope in (zeta_by_s(s, q), -s * zeta(s + 1, q))]),
    name="zeta", moderate=True, c="sg_zeta{f}({0}, {1})", sample=(between(1.2, 6.0), positive()),
    edges=((2.0, 1.0), (1.5, 0.25), (30.0, 2.0), (2.0, 1e8), (1.0, 1.0), (0.5, 1.0), (2.0, 0.0), (2.0, -1.5),
           (2.5, -1.5), (nan, 1.0), (2.0, nan)))


# -- exponential integral

expi = elementwise(
    numpy=Late("expi"), ddx=lambda x, _y: np.exp(x) / x, c="sg_expi{f}({0})", sample=positive(),
    edges=(0.0, -0.0, -1.0, -0.5, 0.5, 30.0, 45.0, 700.0, -30.0, inf, -inf, nan, 1e-300))

exp1 = elementwise(
    numpy=Late("exp1"), ddx=lambda x, _y: -np.exp(-x) / x, sample=positive(),
    c="{0} < 0.0{f} ? ({t})NAN : 0.0{f} - sg_expi{f}(-{0})",
    edges=(0.0, 1.0, 0.5, 1e-300, 1e-8, 5.0, 30.0, 700.0, inf, -1.0, nan))


# -- Lambert's W on the reals

def _real_lambertw(x: Any) -> Any:
    """Return the real branch 0, and NaN where it is complex."""
    with np.errstate(all="ignore"):
        found = Late("lambertw")(np.asarray(x, np.float64))
    return np.asarray(np.where(np.abs(found.imag) < 1e-7, found.real, np.nan), np.asarray(x).dtype)


lambertw = elementwise(
    name="lambertw", numpy=_real_lambertw, result=lambda x: x, ddx=lambda _x, y: np.exp(-y) / (1 + y),
    c="sg_lambertw{f}({0})", sample=positive(), doc="Return the real branch 0 of Lambert's W.",
    edges=(0.0, -0.0, 1.0, -0.3, -0.25, -0.2, 0.25, 1e-300, 1e-8, 37.0, 1e160, inf, -0.5, nan))

"""Functions at hard points: in NumPy, as a scientist writes them, and in mpmath with two derivatives by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import scipy.special
from mpmath import exp, mpf

SIZES = (1e3, 745.0, 37.0, 20.0, 1.0, 0.5, 1e-8, 1e-160)
ALL = (*SIZES, 0.0, *[-v for v in SIZES])
POSITIVE = (*SIZES, 1e160)
NONZERO = tuple([v for v in ALL if v])
LARGE = (*ALL, 1e160)
MODERATE = (700.0, -700.0, *[v for v in ALL if abs(v) < 700])
INSIDE = (1 - 2**-40, -1 + 2**-40, *[v for v in ALL if abs(v) < 1])
ABOVE = (-1 + 2**-40, 1e300, 1e-17, *[v for v in ALL if v > -1])
NEAR = (1.25, 1.0, 0.75, 0.5, 0.25, 1e-2, 1e-4, 1e-8, 1e-160, 0.0, -1e-160, -1e-8, -1e-4, -0.25, -0.5, -0.75, -1.25)
GAMMA = (1e3, 745.0, 37.0, 20.0, 1.5, 0.5, 1e-8, 1e-100, -0.5, -2.5, -36.5)

ULPS = (6, 10, 14)
"""How many units in the last place value, first and second derivative may be off."""


class Row(NamedTuple):
    """One function.

    Attributes:
        written: in NumPy, elementwise.
        exact: value, first and second derivative, in mpmath.
        points: where.
        ulps: how many ULP each may be off.
        absolute: how much more, where one part of a sum is lost beside another: in units of 2**-53.
        digits: mpmath's precision: tanh(1000) needs 900.
    """

    written: Callable[[Any], Any]
    exact: tuple[Callable[[Any], Any], ...]
    points: tuple[float, ...]
    ulps: tuple[int, ...] = ULPS
    absolute: int = 0
    digits: int = 1000


def row(written: Any, value: Any, first: Any, second: Any, points: tuple[float, ...] = ALL, **more: Any) -> Row:
    return Row(written, (value, first, second), points, **more)


def near_zero(written: Any, exact: Any, points: tuple[float, ...] = NEAR, **more: Any) -> Row:
    """A row of a function that gives value and derivatives by their order."""
    return Row(written, tuple([partial(exact, order=k) for k in range(3)]), points, **more)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + exp(-x))


def slope(x: Any) -> Any:
    """The derivative of sigmoid."""
    small = exp(-abs(x))
    return small / (1 + small) ** 2


def bend(x: Any) -> Any:
    """The second derivative of sigmoid."""
    return -slope(x) * mp.tanh(x / 2)


def sech2(x: Any) -> Any:
    """The derivative of tanh."""
    return 4 * slope(2 * x)


def gauss(x: Any) -> Any:
    """The derivative of erf."""
    return 2 / mp.sqrt(mp.pi) * exp(-x * x)


def with_zero(x: Any) -> Any:
    """Two logits: x and 0."""
    return np.stack([x, 0 * x])


def softmax(x: Any) -> Any:
    e = np.exp(x)
    return e / e.sum(axis=0)


def polygamma(order: int) -> Callable[[Any], Any]:
    return lambda x: mp.polygamma(order, x)


def relative(x: Any, order: int) -> Any:
    """(exp(x) - 1) / x and its derivatives."""
    parts = (lambda: mp.expm1(x) / x, lambda: (exp(x) * (x - 1) + 1) / x**2,
             lambda: (exp(x) * (x * x - 2 * x + 2) - 2) / x**3)
    return parts[order]() if x else mpf(1) / (order + 1)


def boxed(x: Any, order: int, log: Any) -> Any:
    """(exp(log * x) - 1) / x and its derivatives."""
    return log ** (order + 1) * relative(log * x, order)


def unboxed(x: Any, order: int) -> Any:
    """(1 + x y) ** (1 / x) = exp(y r(x y)) and its derivatives, where r(z) is log(1 + z) / z and y is 0.7."""
    y = mpf(0.7)
    z = x * y
    r = mp.log1p(z) / z if x else mpf(1)
    slope = (1 / (1 + z) - r) / z if x else mpf(-1) / 2
    second = (-1 / (1 + z) ** 2 - 2 * slope) / z if x else mpf(2) / 3
    return exp(y * r) * (1, y**2 * slope, y**4 * slope**2 + y**3 * second)[order]


def bessel(x: Any, order: int, kind: Any, sign: int) -> Any:
    """J1 or I1 and its derivatives."""
    value = kind(1, x)
    first = kind(0, x) - value / x if x else mpf(1) / 2
    return (value, first, sign * value - (first - value / x) / x if x else mpf(0))[order]


TINY = mpf(2) ** -60

ROWS: dict[str, Row] = {
    # logarithms and exponentials of what is near 1
    "log1p(x)": row(np.log1p, mp.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, ABOVE),
    "log(1 + x)": row(lambda x: np.log(1 + x), mp.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, ABOVE),
    "expm1(x)": row(np.expm1, mp.expm1, exp, exp),
    "exp(x) - 1": row(lambda x: np.exp(x) - 1, mp.expm1, exp, exp),
    "1 - exp(x)": row(lambda x: 1 - np.exp(x), lambda x: -mp.expm1(x), lambda x: -exp(x), lambda x: -exp(x)),
    "log(1 - exp(x))": row(
        lambda x: np.log(1 - np.exp(x)), lambda x: mp.log(-mp.expm1(x)), lambda x: exp(x) / mp.expm1(x),
        lambda x: -exp(x) / mp.expm1(x) ** 2, tuple([v for v in ALL if v < 0])),
    "log(x)": row(np.log, mp.log, lambda x: 1 / x, lambda x: -1 / x**2, POSITIVE),
    "log(x**2)": row(
        lambda x: np.log(x**2), lambda x: 2 * mp.log(abs(x)), lambda x: 2 / x, lambda x: -2 / x**2, (*NONZERO, 1e160)),
    "exp2(x)": row(
        np.exp2, lambda x: mpf(2) ** x,
        lambda x: mp.log(2) * mpf(2) ** x, lambda x: mp.log(2) ** 2 * mpf(2) ** x),
    # the logistic function
    "expit(x)": row(scipy.special.expit, sigmoid, slope, bend),
    "1 / (1 + exp(-x))": row(lambda x: 1 / (1 + np.exp(-x)), sigmoid, slope, bend),
    "exp(x) / (1 + exp(x))": row(lambda x: np.exp(x) / (1 + np.exp(x)), sigmoid, slope, bend),
    "1 - expit(x)": row(
        lambda x: 1 - scipy.special.expit(x), lambda x: sigmoid(-x), lambda x: -slope(x), lambda x: -bend(x)),
    "log_expit(x)": row(
        scipy.special.log_expit,
        lambda x: -mp.log1p(exp(-x)), lambda x: sigmoid(-x), lambda x: -slope(x)),
    "log(1 / (1 + exp(-x)))": row(
        lambda x: np.log(1 / (1 + np.exp(-x))), lambda x: -mp.log1p(exp(-x)), lambda x: sigmoid(-x),
        lambda x: -slope(x)),
    "log(1 - expit(x))": row(
        lambda x: np.log(1 - scipy.special.expit(x)), lambda x: -mp.log1p(exp(x)), lambda x: -sigmoid(x),
        lambda x: -slope(x)),
    "logit(x)": row(
        scipy.special.logit, lambda x: mp.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)),
        lambda x: (2 * x - 1) / (x * (1 - x)) ** 2, (0.5, 0.3, 0.9, 1e-8, 1e-100, 1 - 2**-40, 0.5 + 2**-40)),
    # softplus and sums of exponentials
    "log(1 + exp(x))": row(lambda x: np.log(1 + np.exp(x)), lambda x: mp.log1p(exp(x)), sigmoid, slope),
    "logaddexp(x, 0.5)": row(
        lambda x: np.logaddexp(x, 0.5), lambda x: mp.log(exp(x) + exp(mpf(0.5))), lambda x: sigmoid(x - mpf(0.5)),
        lambda x: slope(x - mpf(0.5))),
    "log(sum(exp))": row(
        lambda x: np.log(np.sum(np.exp(with_zero(x)), axis=0)), lambda x: mp.log1p(exp(x)), sigmoid, slope, absolute=2),
    "softmax": row(lambda x: softmax(with_zero(x))[0], sigmoid, slope, bend, absolute=2),
    "log(softmax)": row(
        lambda x: np.log(softmax(with_zero(x)))[0], lambda x: -mp.log1p(exp(-x)), lambda x: sigmoid(-x),
        lambda x: -slope(x), absolute=2),
    # hyperbolic functions and their inverses
    "tanh(x)": row(np.tanh, mp.tanh, sech2, lambda x: -2 * sech2(x) * mp.tanh(x)),
    "1 - tanh(x)**2": row(
        lambda x: 1 - np.tanh(x) ** 2, sech2, lambda x: -2 * sech2(x) * mp.tanh(x),
        lambda x: sech2(x) * (4 * mp.tanh(x) ** 2 - 2 * sech2(x))),
    "sinh(x)": row(np.sinh, mp.sinh, mp.cosh, mp.sinh, MODERATE),
    "(exp(x) - exp(-x)) / 2": row(lambda x: (np.exp(x) - np.exp(-x)) / 2, mp.sinh, mp.cosh, mp.sinh, MODERATE),
    "cosh(x)": row(np.cosh, mp.cosh, mp.sinh, mp.cosh, MODERATE),
    "log(cosh(x))": row(lambda x: np.log(np.cosh(x)), lambda x: mp.log(mp.cosh(x)), mp.tanh, sech2),
    "arctanh(x)": row(
        np.arctanh, mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)), lambda x: 2 * x / ((1 - x) * (1 + x)) ** 2, INSIDE),
    "log((1 + x) / (1 - x))": row(
        lambda x: np.log((1 + x) / (1 - x)), lambda x: 2 * mp.atanh(x), lambda x: 2 / ((1 - x) * (1 + x)),
        lambda x: 4 * x / ((1 - x) * (1 + x)) ** 2, INSIDE),
    "arcsinh(x)": row(
        np.arcsinh, mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), lambda x: -x / mp.sqrt(1 + x * x) ** 3, LARGE),
    "arccosh(x)": row(
        np.arccosh, mp.acosh, lambda x: 1 / mp.sqrt((x - 1) * (x + 1)), lambda x: -x / mp.sqrt((x - 1) * (x + 1)) ** 3,
        (1 + 2**-40, 2.0, 37.0, 1e3, 1e160)),
    # trigonometric functions and their inverses
    "tan(x)": row(
        np.tan, mp.tan, lambda x: 1 + mp.tan(x) ** 2, lambda x: 2 * mp.tan(x) * (1 + mp.tan(x) ** 2),
        (0.5, 1.0, 1.5, -1.5, 1e-8, 1e-160, 0.0)),
    "arcsin(x)": row(
        np.arcsin, mp.asin, lambda x: 1 / mp.sqrt((1 - x) * (1 + x)),
        lambda x: x / mp.sqrt((1 - x) * (1 + x)) ** 3, INSIDE),
    "arctan(x)": row(np.arctan, mp.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2, LARGE),
    "arctan2(x, 2)": row(
        lambda x: np.arctan2(x, 2.0), lambda x: mp.atan2(x, 2), lambda x: 2 / (x * x + 4),
        lambda x: -4 * x / (x * x + 4) ** 2, LARGE),
    "arctan2(2, x)": row(
        lambda x: np.arctan2(2.0, x), lambda x: mp.atan2(2, x), lambda x: -2 / (x * x + 4),
        lambda x: 4 * x / (x * x + 4) ** 2, LARGE),
    # error functions; (one ULP of x is x**2 ULP of ndtr(x))
    "erf(x)": row(scipy.special.erf, mp.erf, gauss, lambda x: -2 * x * gauss(x)),
    "erfc(x)": row(scipy.special.erfc, mp.erfc, lambda x: -gauss(x), lambda x: 2 * x * gauss(x)),
    "1 - erf(x)": row(lambda x: 1 - scipy.special.erf(x), mp.erfc, lambda x: -gauss(x), lambda x: 2 * x * gauss(x)),
    "ndtr(x)": row(scipy.special.ndtr, mp.ncdf, mp.npdf, lambda x: -x * mp.npdf(x), ulps=(1400, 10, 14)),
    # roots and powers
    "sqrt(x)": row(np.sqrt, mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * x * mp.sqrt(x)), POSITIVE),
    "x**0.5": row(
        lambda x: x**0.5, mp.sqrt,
        lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * x * mp.sqrt(x)), POSITIVE),
    "x**-0.5": row(
        lambda x: x**-0.5, lambda x: 1 / mp.sqrt(x), lambda x: -1 / (2 * x * mp.sqrt(x)),
        lambda x: 3 / (4 * x * x * mp.sqrt(x)), POSITIVE),
    "x**1.5": row(
        lambda x: x**1.5, lambda x: x * mp.sqrt(x),
        lambda x: 1.5 * mp.sqrt(x), lambda x: 0.75 / mp.sqrt(x), POSITIVE),
    "x**2": row(lambda x: x**2, lambda x: x * x, lambda x: 2 * x, lambda _: mpf(2)),
    "x**3": row(lambda x: x**3, lambda x: x**3, lambda x: 3 * x * x, lambda x: 6 * x),
    "x**-2": row(lambda x: x**-2, lambda x: x**-2, lambda x: -2 * x**-3, lambda x: 6 * x**-4, NONZERO),
    "cbrt(x)": row(
        np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x)), lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),
        lambda x: -2 / (9 * x * mp.cbrt(abs(x)) ** 2), NONZERO),
    "sqrt(x * x)": row(lambda x: np.sqrt(x * x), abs, mp.sign, lambda _: mpf(0), LARGE),
    "hypot(x, 3)": row(
        lambda x: np.hypot(x, 3.0), lambda x: mp.sqrt(x * x + 9), lambda x: x / mp.sqrt(x * x + 9),
        lambda x: 9 / mp.sqrt(x * x + 9) ** 3, LARGE),
    "hypot(x, 2**-60)": row(
        lambda x: np.hypot(x, 2**-60), lambda x: mp.sqrt(x * x + TINY**2), lambda x: x / mp.sqrt(x * x + TINY**2),
        lambda x: TINY**2 / mp.sqrt(x * x + TINY**2) ** 3, LARGE),
    # products with a logarithm, the gamma function
    "xlogy(2, x)": row(
        lambda x: scipy.special.xlogy(2.0, x), lambda x: 2 * mp.log(x), lambda x: 2 / x, lambda x: -2 / x**2,
        POSITIVE),
    "xlogy(x, x)": row(
        lambda x: scipy.special.xlogy(x, x), lambda x: x * mp.log(x), lambda x: mp.log(x) + 1, lambda x: 1 / x,
        POSITIVE),
    "xlog1py(2, x)": row(
        lambda x: scipy.special.xlog1py(2.0, x), lambda x: 2 * mp.log1p(x), lambda x: 2 / (1 + x),
        lambda x: -2 / (1 + x) ** 2, ABOVE),
    # quotients whose slopes would cancel near 0
    "exprel(x)": near_zero(scipy.special.exprel, relative, (*NEAR, 37.0, -37.0, -700.0)),
    "boxcox(1.7, x)": near_zero(lambda x: scipy.special.boxcox(1.7, x), partial(boxed, log=mp.log(mpf(1.7)))),
    "boxcox1p(0.7, x)": near_zero(lambda x: scipy.special.boxcox1p(0.7, x), partial(boxed, log=mp.log1p(mpf(0.7)))),
    "inv_boxcox(0.7, x)": near_zero(lambda x: scipy.special.inv_boxcox(0.7, x), unboxed, ulps=(6, 30, 80)),
    "j1(x)": near_zero(scipy.special.j1, partial(bessel, kind=mp.besselj, sign=-1)),
    "i1(x)": near_zero(scipy.special.i1, partial(bessel, kind=mp.besseli, sign=1)),
    "gammaln(x)": row(
        scipy.special.gammaln, lambda x: mp.log(abs(mp.gamma(x))), polygamma(0), polygamma(1), GAMMA, digits=60),
    "digamma(x)": row(scipy.special.digamma, polygamma(0), polygamma(1), polygamma(2), GAMMA, digits=60),
}

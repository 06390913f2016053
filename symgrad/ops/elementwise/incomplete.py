"""Derivatives of the incomplete gamma and beta functions by their parameters, of any order.

They are taken under the integral, of a density times a complete Bell polynomial of its logarithm's derivatives. The
first such polynomial has another sign on either side of one place; the integral is taken over the side where its end
is, so that nothing cancels, far out in a tail either. It is a trapezoidal sum over ``u = L exp(v - exp(-v))`` (H.
Takahasi, M. Mori, Double exponential formulas for numerical integration, Publ. RIMS 9 (1974)), with L where the
density has fallen to its e-th part: in these variables its logarithm is concave, and falls on at least as fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops.declare.domains import between, case, inf, nan, positive
from symgrad.ops.declare.forms import OPS, composite

Orders = tuple[int, int]
Slopes = Callable[[int, int], Any]
"""The derivatives of a logarithm, by how many times by either parameter."""

_PLACES = np.linspace(-3.6, 3.9, 96)
_NODES = np.exp(_PLACES - np.exp(-_PLACES))
_WEIGHTS = (_PLACES[1] - _PLACES[0]) * (1 + np.exp(-_PLACES)) * _NODES


def tail_integral(rate: Any, curvature: Any, logarithm: Callable[[Any], tuple[Any, Any]]) -> Any:
    """Integrate from 0 on ``factor * exp(exponent)``, given by u, where the exponent begins with this slope."""
    length = 2 / (rate + np.sqrt(rate * rate + 2 * curvature))
    exponent, factor = logarithm(length[..., None] * _NODES)
    return length * np.sum(np.exp(exponent) * factor * _WEIGHTS, axis=-1)


def _bell(orders: Orders, slopes: Slopes) -> Any:
    """Return a derivative of the exponential of a function over itself, of the function's derivatives."""
    i, j = orders
    if not i:
        return _bell((j, 0), lambda n, _: slopes(0, n)) if j else 1.0
    terms = [math.comb(i - 1, k) * math.comb(j, m) * slopes(k + 1, m) * _bell((i - 1 - k, j - m), slopes)
             for k in range(i) for m in range(j + 1)]
    return sum(terms[1:], terms[0])


def _psi(order: int, x: Any) -> Any:
    return OPS["polygamma"](x, order=order) if order else OPS["digamma"](x)


def _gamma_slopes(a: Any, log: Any) -> Slopes:
    """Return the derivatives of ``a log - gammaln(a)`` by a."""
    return lambda i, _: log - _psi(0, a) if i == 1 else -_psi(i - 1, a)


def _beta_slopes(a: Any, b: Any, both: Any, log: Any, log_rest: Any) -> Slopes:
    """Return the derivatives of ``a log + b log_rest - gammaln(a) - gammaln(b) + gammaln(both)`` by a and b."""

    def slopes(i: int, j: int) -> Any:
        joint = _psi(i + j - 1, both)
        if i and j:
            return joint
        found = joint - _psi(i + j - 1, a if i else b)
        return found + (log if i else log_rest) if i + j == 1 else found

    return slopes


def gamma_density(a: Any, x: Any, order: int = 0) -> Any:
    """Return the density of the gamma distribution, or a derivative of it by the shape; at 0 by a power."""
    inside = x != 0
    away = np.where(inside, x, 1)
    value = np.where(
        inside, np.exp(OPS["xlogy"](a - 1, away) - x - OPS["gammaln"](a)),
        np.power(np.where(inside, 1, x), a - 1) * np.exp(-x - OPS["gammaln"](a)))
    return value * _bell((order, 0), _gamma_slopes(a, np.log(x)))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return the density of the beta distribution; at its ends by powers, whose slopes are finite there."""
    log_beta = OPS["gammaln"](a) + OPS["gammaln"](b) - OPS["gammaln"](a + b)
    inside = (x != 0) & (x != 1)
    away, end = np.where(inside, x, 0.5), np.where(inside, 0.5, x)
    return np.where(
        inside, np.exp(OPS["xlogy"](a - 1, away) + OPS["xlog1py"](b - 1, -away) - log_beta),
        np.power(end, a - 1) * np.power(1 - end, b - 1) * np.exp(np.minimum(-log_beta, 700)))


def beta_slope(a: Any, b: Any, x: Any, y: Any, orders: Orders = (0, 0)) -> Any:
    """Return the slope of `scipy.special.betainc` at x / (x + y) by log(x / y), or a derivative of it by the shapes."""
    log, log_rest = -np.log1p(y / x), -np.log1p(x / y)
    value = np.exp(a * log + b * log_rest - OPS["gammaln"](a) - OPS["gammaln"](b) + OPS["gammaln"](a + b))
    return value * _bell(orders, _beta_slopes(a, b, a + b, log, log_rest))


def _where_valid(valid: Any, *xs: Any) -> list[Any]:
    """Return arrays in double, with some number where they are not valid."""
    return [np.where(valid, x.astype(np.float64), 0.5) for x in xs]


_EDGES = np.array([1.0, 0.1, 30.0, 2.0, 2.0, 0.0, -1.0, nan, 1.0, 1e3, 0.01])
_ENDS = np.array([0.9, 0.05, 0.3, 0.0, 1.0, 0.5, 0.5, 0.5, nan, 1 - 1e-9, 1e-5])


@composite(
    name="gammainc_by_shape", params=("order",), infer=lambda a, x, order: (x.shape, x.dtype),
    sample=tuple([case(lambda a, x, order=order: OPS["gammainc_by_shape"](a, x, order=order), (9,), (9,),
                       domain=positive()) for order in (1, 2)]),
    edges=(case(lambda a, x: OPS["gammainc_by_shape"](
        a * 0 + _EDGES, x * 0 + np.array([1.0, 1e-5, 20.0, 0.0, inf, 1.0, 1.0, 1.0, nan, 1050.0, 0.57]), order=1),
        (11,), (11,)),),
)
def gammainc_by_shape(a: Any, x: Any, order: int) -> Any:
    """Take a derivative of `scipy.special.gammainc` by its first argument."""
    valid = (a > 0) & (x > 0) & (a < inf) & (x < inf)
    own, end = _where_valid(valid, a, x)
    log = np.log(end)
    lifted = (own < 1) & (log < _psi(0, own + 1))  # P(a, x) = P(a + 1, x) + x^a exp(-x) / gamma(a + 1)
    step = np.exp(own * log - end - OPS["gammaln"](own + 1)) * _bell((order, 0), _gamma_slopes(own + 1, log))
    own = np.where(lifted, own + 1, own)
    upper = log > _psi(0, own)
    column, place, above = own[..., None], end[..., None], upper[..., None]

    def logarithm(u: Any) -> tuple[Any, Any]:
        turn = np.where(above, np.log1p(u), -u)  # log(t / x): t = x (1 + u) above, t = x exp(-u) below
        exponent = np.where(above, (column - 1) * turn - place * u, -column * u - place * np.expm1(-u))
        return exponent, _bell((order, 0), _gamma_slopes(column, log[..., None] + turn))

    few = (own < 100) & (end < 500)  # where no factor overflows: a logarithm's rounding would be that of all digits
    product = np.where(few, end, 1) ** np.where(few, own, 1) * np.exp(-end) / OPS["gamma"](np.where(few, own, 1))
    front = np.where(few, product, np.exp(own * log - end - OPS["gammaln"](own)))
    found = front * tail_integral(
        np.where(upper, end - own + 1, own - end), np.where(upper, np.maximum(own - 1, 0), end), logarithm)
    outside = np.where((a > 0) & ((x == 0) | (x == inf)), 0, nan)
    return np.where(valid, np.where(lifted, step, 0) + np.where(upper, -found, found), outside).astype(x.dtype)


gammainc_by_shape.vjp = lambda g, _y, a, x, order: (
    g * gammainc_by_shape(a, x, order=order + 1), g * np.where(x > 0, gamma_density(a, x, order), 0))


@composite(
    name="betainc_by_shapes", params=("orders",), infer=lambda a, b, x, y, orders: (x.shape, x.dtype),
    sample=tuple([case(lambda a, b, x, orders=orders: OPS["betainc_by_shapes"](a, b, x, 1 - x, orders=orders),
                       (9,), (9,), (9,), domain=(positive(), positive(), between(0.05, 0.95)))
                  for orders in ((1, 0), (0, 1), (1, 1))]),
    edges=(case(lambda a, b, x: OPS["betainc_by_shapes"](
        a * 0 + _EDGES, b * 0 + _EDGES[::-1].copy(), x * 0 + _ENDS, x * 0 + (1 - _ENDS), orders=(1, 0)),
        (11,), (11,), (11,)),),
)
def betainc_by_shapes(a: Any, b: Any, x: Any, y: Any, orders: Orders) -> Any:
    """Take a derivative of `scipy.special.betainc` by its first two arguments, at x / (x + y)."""
    valid = (a > 0) & (b > 0) & (a < inf) & (b < inf) & (x > 0) & (y > 0) & (x < inf) & (y < inf)
    first, second, end, left = _where_valid(valid, a, b, x, y)
    end, left = end / (end + left), left / (end + left)
    log, log_rest = np.log(end), np.log(left)
    both = first + second
    asked = first if orders[0] else second  # I(a, b) = I(a + 1, b) + x^a (1 - x)^b / (a B(a, b)), from either end
    lift = np.where(asked < 1, 1.0, 0.0)
    turns = _psi(0, asked + lift) - _psi(0, both + lift)  # where what is integrated has another sign
    upper = log > turns if orders[0] else log_rest < turns
    own, near, away = np.where(upper, second, first), np.where(upper, left, end), np.where(upper, end, left)
    lift = np.where(own < 1, 1.0, 0.0)
    one, two = first + np.where(upper, 0, lift), second + np.where(upper, lift, 0)
    powers = first * log + second * log_rest - OPS["gammaln"](one) - OPS["gammaln"](two)
    step = np.exp(powers + OPS["gammaln"](both)) * _bell(orders, _beta_slopes(one, two, both, log, log_rest))
    excess = np.where(upper, first, second) - 1
    own, both, ratio = own + lift, both + lift, near / away
    columns = [x[..., None] for x in (one, two, both, log, log_rest, own, excess, ratio, upper)]
    one_, two_, both_, log_, log_rest_, own_, excess_, ratio_, upper_ = columns

    def logarithm(u: Any) -> tuple[Any, Any]:
        rise = np.log1p(-ratio_ * np.expm1(-u))  # t = x exp(-u), and 1 - t = exp(rise) (1 - x)
        ends = log_ + np.where(upper_, rise, -u), log_rest_ + np.where(upper_, -u, rise)
        return excess_ * rise - own_ * u, _bell(orders, _beta_slopes(one_, two_, both_, *ends))

    bent = np.maximum(excess, 0) * ratio
    found = np.exp(powers + lift * np.log(near) + OPS["gammaln"](both)) / away * tail_integral(
        own - bent, bent / away, logarithm)
    found = found + np.where(lift > 0, step, 0)
    outside = np.where((a > 0) & (b > 0) & ((x == 0) | (y == 0)), 0, nan)
    return np.where(valid, np.where(upper, -found, found), outside).astype(x.dtype)


@betainc_by_shapes.rule
def _(g: Any, _y: Any, a: Any, b: Any, x: Any, y: Any, orders: Orders) -> Any:
    i, j = orders
    inside = (x > 0) & (y > 0)
    x, y = np.where(inside, x, 1), np.where(inside, y, 1)
    slope = np.where(inside, g * beta_slope(a, b, x, y, orders), 0)
    return (g * betainc_by_shapes(a, b, x, y, orders=(i + 1, j)), g * betainc_by_shapes(a, b, x, y, orders=(i, j + 1)),
            slope / x, -slope / y)


def gamma_by_shape(a: Any, x: Any) -> Any:
    """Return the derivative of `scipy.special.gammainc` by its first argument."""
    return gammainc_by_shape(*np.broadcast_arrays(a, x), order=1)


def beta_by_shapes(a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return the derivatives of `scipy.special.betainc` at x / (x + y) by its first and second argument."""
    every = np.broadcast_arrays(a, b, x, y)
    return betainc_by_shapes(*every, orders=(1, 0)), betainc_by_shapes(*every, orders=(0, 1))


def student_slopes(df: Any, t: Any) -> tuple[Any, Any]:
    """Return the derivatives of `scipy.special.stdtr`: I(df / 2, 1 / 2) at df / (df + t t), on either side."""
    t = np.where(np.abs(t) < 1e-18, t + 2e-18, t)  # the beta function's slope by the square of 0 is infinite
    half, square = 0.5 * df, t * t
    log = OPS["gammaln"](half) - OPS["gammaln"](half + 0.5) + 0.5 * np.log(math.pi * df)
    density = np.exp(-log - 0.5 * (df + 1) * np.log1p(square / df))
    by_half, _ = beta_by_shapes(half, np.full_like(half, 0.5), df, square)
    return -0.25 * np.sign(t) * by_half - 0.5 * t / df * density, density

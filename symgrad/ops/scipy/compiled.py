"""Functions of scipy.special that SciPy's own compiled code computes: C calls it by its address.

A row names the parameters, and gives the slope of each result by each of them, None where there is none. Those slopes
are made of functions again, so that second derivatives follow. Formulas are DLMF's, by their numbers there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from symgrad.ir.index import shapes
from symgrad.ir.op import Elementwise
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.domains import positive
from symgrad.ops.declare.forms import LIBRARY, Late, answers
from symgrad.ops.elementwise import special
from symgrad.ops.elementwise.incomplete import (
    beta_by_shapes,
    beta_density,
    beta_slope,
    gamma_by_shape,
    gamma_density,
    student_slopes,
)
from symgrad.ops.elementwise.quadrature import mean
from symgrad.ops.elementwise.selection import piecewise, stop
from symgrad.ops.elementwise.special import no_slope
from symgrad.ops.numpy.reductions import floating

INTEGERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("kn", "yn", "expn", "smirnov", "smirnovi", "pdtri"), (0,)), "bdtri": (1,), "nbdtri": (0, 1)}
"""Which parameters are integers in C: SciPy's functions of floats warn of others, for which they ask Python."""


def signature(name: str, arity: int, outputs: int) -> str:
    """Write the type of such a function as SciPy's modules say it."""
    given = ["Py_ssize_t" if k in INTEGERS.get(name, ()) else "double" for k in range(arity)]
    rest = ["double *"] * outputs or ["int __pyx_skip_dispatch"]
    return f"{'void' if outputs else 'double'} ({', '.join(given + rest)})"


def _op(name: str, parameters: str, slopes: Callable[..., Any], arity: int, k: int, outputs: int) -> Elementwise:
    """Declare one result of a function."""
    function = Late(name, arity)
    own = f"scipy_{name}" + (f"_{k}" if outputs else "")

    def evaluate(*xs: Any) -> Any:
        kind = np.result_type(*xs)
        with np.errstate(all="ignore"):
            whole = [xs[i] for i in INTEGERS.get(name, ())]
            types = [np.int64 if i in INTEGERS.get(name, ()) else np.float64 for i in range(arity)]
            given = [np.asarray(x).astype(of) for x, of in zip(xs, types, strict=True)]  # as in C, also of float32
            found = function(*given)
            return np.asarray(np.where(sum(whole) == sum(whole), found[k] if outputs else found, np.nan), kind)

    def partials(*given: Any) -> Any:
        found = slopes(*[np.trunc(x) if i in INTEGERS.get(name, ()) else x for i, x in enumerate(given)])
        every = found if isinstance(found, tuple) else (*[None] * (arity - 1), found)
        return tuple([
            no_slope(f"scipy.special.{name}", parameter) if slope is None else slope
            for parameter, slope in zip(parameters.split(), every, strict=True)])

    places = ", ".join([f"{{{i}}}" for i in range(arity)])
    shown = f"[{k}]" if outputs else ""
    op = Elementwise(
        own, evaluate=evaluate, numpy=evaluate, arity=arity, sample=positive(), edges=(), partials=partials,
        c={"f": f"sg_{own}{{f}}({places})"}, library=f"{name}:{signature(name, arity, outputs)}", moderate=True,
        doc=f"scipy.special.{name}, computed by SciPy.", infer=lambda *xs: (
            shapes.broadcast(*[x.shape for x in xs]), xs[0].dtype),
        text=lambda _, names: f"scipy.special.{name}({', '.join(names)}){shown}",
    )
    LIBRARY[own] = op
    return op


def _declare(name: str, parameters: str, *slopes: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a function of one result, or of several; slopes are given the arguments and the result."""
    arity = len(parameters.split())
    ops = [_op(name, parameters, of, arity, k, len(slopes) * (len(slopes) > 1)) for k, of in enumerate(slopes)]

    def call(*given: Any) -> Any:
        xs = [lift(x) for x in given]
        kinds = [x.dtype for x in xs if x.dtype.kind == "f" and (x.ndim or hasattr(x, "node"))]
        kind = np.result_type(*kinds, np.float32) if kinds else np.dtype(np.float64)
        found = tuple([op(*[x if x.dtype == kind else x.astype(kind) for x in xs]) for op in ops])
        return found if len(found) > 1 else found[0]

    call.__name__ = name
    return answers(Late(name, arity))(call)


def _over_less_one(value: Any, x: Any, sign: int) -> Any:
    """Return (J0(x) - 1) / x, or with I0; near 0 by the series, DLMF 10.2.2, whose slopes do not cancel."""
    near = np.abs(x) < 1
    at = np.where(near, x, 0)
    square = at * at * (0.25 * sign)
    total: Any = 1.0
    for k in range(9, 1, -1):
        total = 1 + square / (k * k) * total
    return np.where(near, 0.25 * sign * at * total, (value - 1) / np.where(near, 1, x))


def _over(value: Any, x: Any, limit: float = 0.0) -> Any:
    """Return a quotient by a variable, or its limit where that is 0."""
    zero = np.equal(x, 0)
    return np.where(zero, limit, value / np.where(zero, 1, x))


def _unknown(*given: Any) -> tuple[None, ...]:
    """Return the slopes of a function of which none is known."""
    return (None,) * (len(given) - 1)


PI = math.pi

# -- Bessel functions, DLMF 10.6, 10.29; by the order under an integral


def _langevin(z: Any) -> Any:
    """Return ``1 / tanh(z) - 1 / z``, where that cancels by the continued fraction, DLMF 4.39.1."""

    def fraction(z: Any) -> Any:
        rest: Any = 25.0
        for k in range(23, 1, -2):
            rest = k + z * z / rest
        return z / rest

    return piecewise(np.abs(z) < 2, z, 2.0, fraction, lambda z: 1 / np.tanh(z) - 1 / z)


def _k_by_order(v: Any, x: Any) -> Any:
    """Return the derivative of log(K) by the order: with DLMF 10.32.9 by parts, of ``sinh(v t) / v sinh(t)``."""
    v, x = np.broadcast_arrays(v, x)
    order, column = (v * np.where(v < 0, -1, 1))[..., None], x[..., None]

    def logarithm(t: Any) -> Any:
        rest = -special.power_less_one(-2 * t, order)
        return (order + 1) * t + np.log(rest) + np.log(-np.expm1(-2 * t)) - 2 * column * np.square(np.sinh(0.5 * t))

    high = np.arcsinh((np.abs(v) + 60) / x) + np.arcsinh(np.sqrt(100 / x))
    return mean(lambda t: t * _langevin(v[..., None] * t), logarithm, 0 * x, high).astype(x.dtype)


def _i_by_order(v: Any, x: Any, i: Callable[..., Any], k: Callable[..., Any]) -> Any:
    """Return the derivative of I by the order: by those of the next two orders, and of negative ones by DLMF 10.27.2.

    These are means in Poisson's integral, DLMF 10.32.2, which falls the faster the larger the order.
    """
    v, x = np.broadcast_arrays(v, x)
    order, end, column = v * np.where(v < 0, -1, 1), 60 + np.log1p(np.abs(x)), x[..., None]

    def slope(order: Any) -> Any:
        part = mean(lambda t: -2 * special.log_cosh(t), lambda t: column * (np.tanh(t) - 1) - (
            2 * order[..., None] + 1) * special.log_cosh(t), -end, end)
        return i(order, x) * (np.log(0.5 * x) - special.digamma(order + 0.5) + part)

    there = x > 0
    over = 2 / np.where(there, x, 1)
    found = slope(order + 2) + over * (i(order + 1, x) + (order + 1) * slope(order + 1))
    sine, cosine = special.sine_of_pi(order), special.cosine_of_pi(order)
    turned = -found - 2 * k(order, x) * (cosine + sine / PI * _k_by_order(order, x))
    return np.where(there, np.where(v < 0, turned, found), np.where((x == 0) & (v > 0), 0, np.nan)).astype(x.dtype)


jv: Any = _declare("jv", "v x", lambda v, x, _y: (jv(v - 1, x) - jv(v + 1, x)) / 2)
yv: Any = _declare("yv", "v x", lambda v, x, _y: (yv(v - 1, x) - yv(v + 1, x)) / 2)
iv: Any = _declare("iv", "v x", lambda v, x, _y: (
    _i_by_order(v, x, iv, kv), (iv(v - 1, x) + iv(v + 1, x)) / 2))
kv: Any = _declare("kv", "v x", lambda v, x, y: (y * _k_by_order(v, x), -(kv(v - 1, x) + kv(v + 1, x)) / 2))
jve: Any = _declare("jve", "v x", lambda v, x, _y: (jve(v - 1, x) - jve(v + 1, x)) / 2)
yve: Any = _declare("yve", "v x", lambda v, x, _y: (yve(v - 1, x) - yve(v + 1, x)) / 2)
ive: Any = _declare("ive", "v x", lambda v, x, y: (
    _i_by_order(v, x, ive, lambda v, x: kve(v, x) * np.exp(-2 * x)),
    (ive(v - 1, x) + ive(v + 1, x)) / 2 - np.sign(x) * y))
kve: Any = _declare("kve", "v x", lambda v, x, y: (y * _k_by_order(v, x), y - (kve(v - 1, x) + kve(v + 1, x)) / 2))
yn: Any = _declare("yn", "n x", lambda n, x, _y: (yn(n - 1, x) - yn(n + 1, x)) / 2)
kn: Any = _declare("kn", "n x", lambda n, x, _y: -(kn(np.abs(n - 1), x) + kn(n + 1, x)) / 2)
y0: Any = _declare("y0", "x", lambda x, _y: -y1(x))
y1: Any = _declare("y1", "x", lambda x, y: y0(x) - y / x)
k0: Any = _declare("k0", "x", lambda x, _y: -k1(x))
k1: Any = _declare("k1", "x", lambda x, y: -k0(x) - y / x)
k0e: Any = _declare("k0e", "x", lambda x, y: piecewise(
    x > 30, x, 30, lambda x: PI * special.far_slope(x, 0, sign=-1), lambda x: y - k1e(x)))
k1e: Any = _declare("k1e", "x", lambda x, y: piecewise(
    x > 30, x, 30, lambda x: PI * special.far_slope(x, 1, sign=-1), lambda x: y - k0e(x) - y / x))
struve: Any = _declare("struve", "v x", lambda v, x, y: struve(v - 1, x) - v * y / x)
modstruve: Any = _declare("modstruve", "v x", lambda v, x, y: modstruve(v - 1, x) - v * y / x)
besselpoly: Any = _declare(
    "besselpoly", "a lmb nu",
    lambda a, m, nu, _y: (besselpoly(a, m + 1, nu - 1) - besselpoly(a, m + 1, nu + 1), None, None))
wright_bessel: Any = _declare("wright_bessel", "a b x", lambda a, b, x, _y: wright_bessel(a, a + b, x))
log_wright_bessel: Any = _declare(
    "log_wright_bessel", "a b x", lambda a, b, x, y: np.exp(log_wright_bessel(a, a + b, x) - y))

# -- integrals of Bessel functions

itj0y0: Any = _declare("itj0y0", "x", lambda x, _y: special.j0(x), lambda x, _y: y0(x))
iti0k0: Any = _declare("iti0k0", "x", lambda x, _y: special.i0(x), lambda x, _y: k0(x))
it2j0y0: Any = _declare("it2j0y0", "x", lambda x, _y: -_over_less_one(special.j0(x), x, -1), lambda x, _y: -y0(x) / x)
it2i0k0: Any = _declare("it2i0k0", "x", lambda x, _y: _over_less_one(special.i0(x), x, 1), lambda x, _y: -k0(x) / x)
itstruve0: Any = _declare("itstruve0", "x", lambda x, _y: struve(np.zeros_like(x), x))
it2struve0: Any = _declare("it2struve0", "x", lambda x, _y: -struve(np.zeros_like(x), x) / x)
itmodstruve0: Any = _declare("itmodstruve0", "x", lambda x, _y: modstruve(np.zeros_like(x), x))

# -- Airy functions, DLMF 9.2.1; Kelvin functions, 10.63; parabolic cylinder functions, 12.2

airy: Any = _declare("airy", "x", lambda x, _y: airy(x)[1], lambda x, _y: x * airy(x)[0],
                lambda x, _y: airy(x)[3], lambda x, _y: x * airy(x)[2])
airye: Any = _declare(
    "airye", "x", lambda x, y: airye(x)[1] + np.sqrt(x) * y, lambda x, y: x * airye(x)[0] + np.sqrt(x) * y,
    lambda x, y: airye(x)[3] - np.sqrt(np.maximum(x, 0)) * y,
    lambda x, y: x * airye(x)[2] - np.sqrt(np.maximum(x, 0)) * y)
itairy: Any = _declare("itairy", "x", lambda x, _y: airy(x)[0], lambda x, _y: airy(x)[2],
                  lambda x, _y: airy(-x)[0], lambda x, _y: airy(-x)[2])
ber: Any = _declare("ber", "x", lambda x, _y: berp(x))
bei: Any = _declare("bei", "x", lambda x, _y: beip(x))
berp: Any = _declare("berp", "x", lambda x, y: -bei(x) - _over(y, x))
beip: Any = _declare("beip", "x", lambda x, y: ber(x) - _over(y, x, 0.5))
ker: Any = _declare("ker", "x", lambda x, _y: kerp(x))
kei: Any = _declare("kei", "x", lambda x, _y: keip(x))
kerp: Any = _declare("kerp", "x", lambda x, y: -kei(x) - y / x)
keip: Any = _declare("keip", "x", lambda x, y: ker(x) - y / x)


def _pair(name: str, parameters: str, second: Callable[..., Any], unit: float = 1.0) -> Callable[..., Any]:
    """Declare a function with its derivative by the last parameter, of which ``second(*x, y, slope)`` is the next."""
    pair = _declare(
        name, parameters, lambda *given: unit * pair(*given[:-1])[1],
        lambda *given: unit * second(*given[:-1], pair(*given[:-1])[0], given[-1]))
    return pair


pbdv: Any = _pair("pbdv", "v x", lambda v, x, y, _s: (0.25 * x * x - v - 0.5) * y)
pbvv: Any = _pair("pbvv", "v x", lambda v, x, y, _s: (0.25 * x * x - v - 0.5) * y)
pbwa: Any = _pair("pbwa", "a x", lambda a, x, y, _s: (a - 0.25 * x * x) * y)

# -- Mathieu functions, DLMF 28.2.1 and 28.20.1, of degrees the first; spheroidal wave functions, 30.2.1


_WAVES: dict[str, Callable[..., Any]] = {}
_TURNS = np.arange(64) * (360 / 64)
_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(96)


def _mathieu_slope(name: str) -> Callable[..., Any]:
    """Make the slope of a characteristic value: the mean of what q multiplies, in a trapezoidal sum over a period."""

    def slope(m: Any, q: Any, _y: Any) -> Any:
        m, q = np.broadcast_arrays(m, q)
        wave = _WAVES[name](*np.broadcast_arrays(m[..., None], q[..., None], _TURNS.astype(q.dtype)))[0]
        return None, 4 * np.mean(np.cos(_TURNS * (PI / 90)) * wave * wave, axis=-1).astype(q.dtype)

    return slope


def _spheroidal_slope(name: str, sign: int) -> Callable[..., Any]:
    """Make the slope of a characteristic value, likewise, by Gauss's formula."""

    def slope(m: Any, n: Any, c: Any, y: Any) -> Any:
        places = [x[..., None] for x in np.broadcast_arrays(m, n, c, y)]
        square = np.square(_WAVES[name](*np.broadcast_arrays(*places, _PLACES.astype(c.dtype)))[0]) * _WEIGHTS
        mean = np.sum(square * _PLACES * _PLACES, axis=-1) / np.sum(square, axis=-1)
        return None, None, (sign * 2 * c * mean).astype(c.dtype)

    return slope


mathieu_a: Any = _declare("mathieu_a", "m q", _mathieu_slope("mathieu_cem"))
mathieu_b: Any = _declare("mathieu_b", "m q", _mathieu_slope("mathieu_sem"))
pro_cv: Any = _declare("pro_cv", "m n c", _spheroidal_slope("pro_ang1_cv", 1))
obl_cv: Any = _declare("obl_cv", "m n c", _spheroidal_slope("obl_ang1_cv", -1))
for _name, _value in (("cem", mathieu_a), ("sem", mathieu_b)):
    _WAVES[f"mathieu_{_name}"] = _pair(f"mathieu_{_name}", "m q x", lambda m, q, x, y, _s, value=_value: -(
        value(m, q) - 2 * q * np.cos(x * (PI / 90))) * y, PI / 180)
    for _kind in "12":
        _pair(f"mathieu_mod{_name}{_kind}", "m q x", lambda m, q, x, y, _s, value=_value: (
            value(m, q) - 2 * q * np.cosh(2 * x)) * y)


def _spheroidal(m: Any, value: Any, c: Any, x: Any, y: Any, s: Any, sign: int, turn: int) -> Any:
    """Return the second derivative of a wave function of x, or with ``turn=-1`` of an imaginary one."""
    rest = 1 - turn * x * x
    return turn * (2 * x * s - (value - sign * turn * np.square(c * x) - np.square(m) / rest) * y) / rest


for _name, _value, _sign in (("pro", pro_cv, 1), ("obl", obl_cv, -1)):
    for _parameters in ("m n c x", "m n c cv x"):  # SciPy's own derivatives of this one are off
        _declare(f"{_name}_rad2{'_cv' * ('cv' in _parameters)}", _parameters, _unknown, _unknown)
    for _kind in ("ang1", "rad1"):
        _turn = -1 if (_name, _kind[:3]) == ("obl", "rad") else 1
        _pair(f"{_name}_{_kind}", "m n c x",
              lambda m, n, c, x, y, s, value=_value, sign=_sign, turn=_turn: _spheroidal(
                  m, value(m, n, c), c, x, y, s, sign, turn))
        _WAVES[f"{_name}_{_kind}_cv"] = _pair(f"{_name}_{_kind}_cv", "m n c cv x",
              lambda m, n, c, cv, x, y, s, sign=_sign, turn=_turn: _spheroidal(m, cv, c, x, y, s, sign, turn))

# -- hypergeometric functions, DLMF 13.3.15, 13.3.22, 15.5.1; Legendre functions, 14.10.5

hyp0f1: Any = _declare("hyp0f1", "v x", lambda v, x, _y: hyp0f1(v + 1, x) / v)
hyp1f1: Any = _declare("hyp1f1", "a b x", lambda a, b, x, _y: a / b * hyp1f1(a + 1, b + 1, x))
hyperu: Any = _declare("hyperu", "a b x", lambda a, b, x, _y: -a * hyperu(a + 1, b + 1, x))
hyp2f1: Any = _declare("hyp2f1", "a b c x", lambda a, b, c, x, _y: a * b / c * hyp2f1(a + 1, b + 1, c + 1, x))
lpmv: Any = _declare("lpmv", "m v x", lambda m, v, x, y: (v * x * y - (v + m) * lpmv(m, v - 1, x)) / (x * x - 1))

# -- elliptic integrals, DLMF 19.4 and 19.25, by Carlson's functions where the others cancel, and Jacobi's functions


def _hypergeometric(a: float, x: Any) -> Any:
    return hyp2f1(*[np.full_like(x, v) for v in (a, 1.5, 2)], x)


ellipk: Any = _declare("ellipk", "m", lambda m, y: piecewise(
    np.abs(m) < 0.5, m, 0.5, lambda m: PI / 8 * _hypergeometric(1.5, m),
    lambda m: (ellipe(m) / (1 - m) - y) / (2 * m)))
ellipe: Any = _declare("ellipe", "m", lambda m, y: piecewise(
    np.abs(m) < 0.5, m, 0.5, lambda m: -PI / 8 * _hypergeometric(0.5, m), lambda m: (y - ellipk(m)) / (2 * m)))


def _ellipkm1_slope(p: Any, y: Any) -> Any:
    return piecewise(
        (p < 0.5) | (p > 1.5), p, 0.25,  # between, 1 - p has lost nothing that counts
        lambda p: -(ellipe(1 - p) / p - y) / (2 * (1 - p)), lambda p: -PI / 8 * _hypergeometric(1.5, 1 - p))


_STEPS = np.linspace(0, 1, 160)


def _symmetric_slopes(places: tuple[Any, ...], powers: tuple[float, ...]) -> tuple[Any, ...]:
    """Return the slopes of ``3 / 2`` times the integral of ``prod (t + x)^-power``, DLMF 19.16.

    It is a trapezoidal sum over log(t), which converges exponentially: from 36 below the smallest place, or 72 where
    that is 0, to 18 above the largest.
    """
    columns = np.broadcast_arrays(*places)
    least, most = reduce(np.minimum, columns), reduce(np.maximum, columns)
    above = reduce(np.minimum, [np.where(x > 0, x, np.inf) for x in columns])
    first = np.log(above) - np.where(least > 0, 36, 72)
    span = np.log(most) + 18 - first
    t = np.exp(stop(first)[..., None] + stop(span)[..., None] * _STEPS)
    logs = [np.log(t + x[..., None]) for x in columns]
    whole = np.exp(sum([-power * log for power, log in zip(powers, logs, strict=True)], np.log(t)))
    scale = -1.5 / (len(_STEPS) - 1) * stop(span)
    found = [power * np.sum(whole / (t + x[..., None]), axis=-1) for power, x in zip(powers, columns, strict=True)]
    return tuple([np.where(least >= 0, np.where(x > 0, scale * slope, -np.inf), np.nan).astype(x.dtype)
                  for x, slope in zip(columns, found, strict=True)])


ellipkm1: Any = _declare("ellipkm1", "p", _ellipkm1_slope)


def _elliprc_slopes(x: Any, y: Any, c: Any) -> tuple[Any, Any]:
    """Return them by DLMF 19.18.4; of Cauchy's principal value, where y is negative, by parts of the integral."""
    beyond, between = y < 0, 2 * np.where(y < 0, x - y, 1)
    above, root = np.where(beyond, 1, y), np.sqrt(np.where(beyond, x, 1))
    by_x, by_y = -elliprd(above, above, x) / 6, -elliprd(x, above, above) / 3
    below = np.where(beyond, y, -1)
    return (np.where(beyond, (1 / root - c) / between, by_x),
            np.where(beyond, (c - root / below) / between, by_y))


elliprc: Any = _declare("elliprc", "x y", _elliprc_slopes)
elliprd: Any = _declare("elliprd", "x y z", lambda x, y, z, _d: _symmetric_slopes((x, y, z), (0.5, 0.5, 1.5)))
elliprf: Any = _declare("elliprf", "x y z", lambda x, y, z, _f: (
    -elliprd(y, z, x) / 6, -elliprd(z, x, y) / 6, -elliprd(x, y, z) / 6))
elliprg: Any = _declare("elliprg", "x y z", lambda x, y, z, _g: tuple([
    (elliprf(x, y, z) - own * elliprd(*others, own) / 3) / 4
    for own, others in ((x, (y, z)), (y, (z, x)), (z, (x, y)))]))


def _elliprj_slopes(x: Any, y: Any, z: Any, p: Any, j: Any) -> tuple[Any, ...]:
    """Return them by the integral; of Cauchy's principal value, where p is negative, by its parts and its degree."""
    beyond = p < 0
    near = _symmetric_slopes((x, y, z, np.where(beyond, 1, p)), (0.5, 0.5, 0.5, 1.0))
    below, places = np.where(beyond, p, -1), ((x, (y, z)), (y, (z, x)), (z, (x, y)))
    far = [(j - elliprd(*others, own)) / (2 * (below - own)) for own, others in places]
    moved = sum([np.where(own > 0, own * slope, 0) for own, slope in zip((x, y, z), far, strict=True)])
    return tuple([np.where(beyond, one, other) for one, other in zip(
        (*far, (-1.5 * j - moved) / below), near, strict=True)])


elliprj: Any = _declare("elliprj", "x y z p", _elliprj_slopes)


def _d(phi: Any, m: Any) -> Any:
    """Return D(phi, m) = (F - E) / m, DLMF 19.25.13, which does not cancel at m = 0."""
    turns = np.rint(phi / PI)
    s, c = np.sin(phi - PI * turns), np.cos(phi - PI * turns)
    one = np.ones_like(s)
    part = s * s * s * elliprd(c * c, 1 - m * s * s, one) / 3
    return part + 2 * turns * elliprd(np.zeros_like(one * m), (1 - m) * one, one) / 3


def _f_by_m(phi: Any, m: Any, f: Any) -> Any:
    delta = np.sqrt(1 - m * np.square(np.sin(phi)))
    return (f - _d(phi, m) - np.sin(phi) * np.cos(phi) / delta) / (2 * (1 - m))


ellipkinc: Any = _declare("ellipkinc", "phi m", lambda phi, m, f: (
    1 / np.sqrt(1 - m * np.square(np.sin(phi))), _f_by_m(phi, m, f)))
ellipeinc: Any = _declare("ellipeinc", "phi m", lambda phi, m, _e: (
    np.sqrt(1 - m * np.square(np.sin(phi))), -_d(phi, m) / 2))


def _jacobi_slopes(u: Any, m: Any) -> tuple[Any, ...]:
    """Return the slopes of sn, cn, dn and the amplitude, each by both."""
    s, c, d, phi = ellipj(u, m)
    by_m = -d * _f_by_m(phi, m, u)
    return (c * d, c * by_m), (-s * d, -s * by_m), (
        -m * s * c, -(s * s + 2 * m * s * c * by_m) / (2 * d)), (d, by_m)


ellipj: Any = _declare("ellipj", "u m", *[lambda u, m, _y, k=k: _jacobi_slopes(u, m)[k] for k in range(4)])

# -- error function's kin, integrals of sines, zeta and other functions of one argument

erfi: Any = _declare("erfi", "x", lambda x, _y: 2 / math.sqrt(PI) * np.exp(x * x))
fresnel: Any = _declare("fresnel", "x", lambda x, _y: np.sin(PI / 2 * x * x), lambda x, _y: np.cos(PI / 2 * x * x))
sici: Any = _declare("sici", "x", lambda x, _y: np.sinc(x / PI), lambda x, _y: np.cos(x) / x)
shichi: Any = _declare("shichi", "x", lambda x, _y: _over(np.sinh(x), x, 1.0), lambda x, _y: np.cosh(x) / x)
spence: Any = _declare("spence", "x", lambda x, _y: piecewise(
    x < 0.5, x, 0.5, lambda x: np.log(x) / (1 - x), lambda x: -special.root_of_one_more(np.ones_like(x), x - 1)))
wrightomega: Any = _declare("wrightomega", "x", lambda _x, y: y / (1 + y))
sindg: Any = _declare("sindg", "x", lambda x, _y: PI / 180 * cosdg(x))
cosdg: Any = _declare("cosdg", "x", lambda x, _y: -PI / 180 * sindg(x))
tandg: Any = _declare("tandg", "x", lambda _x, y: PI / 180 * (1 + y * y))
cotdg: Any = _declare("cotdg", "x", lambda _x, y: -PI / 180 * (1 + y * y))
expn: Any = _declare("expn", "n x", lambda n, x, _y: np.where(
    n == 0, -np.exp(-x) / x * (1 + 1 / x), -expn(np.maximum(n - 1, 0), x)))
owens_t: Any = _declare("owens_t", "h a", lambda h, a, _y: (
    -np.exp(-0.5 * h * h) * special.erf(a * h / math.sqrt(2)) / math.sqrt(8 * PI),
    np.exp(-0.5 * h * h * (1 + a * a)) / (2 * PI * (1 + a * a))))
tklmbda: Any = _declare("tklmbda", "x lmbda", lambda _x, m, y: (
    np.where((y > 0) & (y < 1), 1 / (y ** (m - 1) + (1 - y) ** (m - 1)), 0), None))
ndtri_exp: Any = _declare("ndtri_exp", "y", lambda y, x: piecewise(
    x < 0, x, -1, lambda x: math.sqrt(0.5 * PI) * special.erfcx(-x / math.sqrt(2)),
    lambda x: np.exp(y + 0.5 * x * x) * math.sqrt(2 * PI)))

# -- inverse functions: of what a cumulative function is made of, one by the others and the probability


_WHERE = frozenset("xtfpm")
"""What names the place of a distribution, and none of its parameters."""


def _inverse(
    name: str, parameters: str, names: str, slopes: Callable[..., Any], chance: str, sign: int = 1,
) -> Callable[..., Any]:
    """Declare the inverse of a function of these names, or of 1 minus it, by the slopes of that function."""
    order, every = parameters.split(), names.split()
    unknown = next(own for own in every if own not in order)

    def quotients(*given: Any) -> Any:
        values = dict(zip([*order, unknown], given, strict=True))
        parts = dict(zip(every, slopes(*[values[own] for own in every]), strict=True))
        below = parts.pop(unknown)
        if below is None:
            return (None,) * len(order)
        found, above = values[unknown], {**parts, chance: -sign}
        inside = unknown in _WHERE or (found > 1e-99) & (found < 1e99)  # SciPy ends a search at 0 and at 1e100
        return tuple([None if above[own] is None else np.where(inside, -above[own] / below, 0) for own in order])

    return _declare(name, parameters, quotients)


def _gamma(a: Any, x: Any) -> Any:
    return gamma_by_shape(a, x), gamma_density(a, x)


def _chi2(v: Any, x: Any) -> Any:
    return tuple([slope / 2 for slope in _gamma(v / 2, x / 2)])


def _rated(a: Any, b: Any, x: Any) -> Any:
    by_shape, density = _gamma(b, a * x)
    return x * density, by_shape, a * density


def _poisson(k: Any, m: Any) -> Any:
    return tuple([-slope for slope in _gamma(k + 1, m)])


def _beta(a: Any, b: Any, x: Any) -> Any:
    return (*beta_by_shapes(a, b, x, 1 - x), beta_density(a, b, x))


def _binomial(k: Any, n: Any, p: Any) -> Any:
    by_a, by_b, density = _beta(k + 1, n - k, p)
    return by_b - by_a, -by_b, -density


def _negative_binomial(k: Any, n: Any, p: Any) -> Any:
    by_a, by_b, density = _beta(n, k + 1, p)
    return by_b, by_a, density


def _fisher(n: Any, d: Any, x: Any) -> Any:
    given = n / 2, d / 2, n * x, d
    by_a, by_b = beta_by_shapes(*given)
    slope = beta_slope(*given)  # by the logarithms of x, n and 1 / d
    return by_a / 2 + slope / n, by_b / 2 - slope / d, slope / x


gammaincinv: Any = _inverse("gammaincinv", "a y", "a x", _gamma, "y")
betaincinv: Any = _inverse("betaincinv", "a b y", "a b x", _beta, "y")
for _row in (
    ("gammainccinv", "a y", "a x", _gamma, "y", -1), ("chdtri", "v p", "v x", _chi2, "p", -1),
    ("chdtriv", "p x", "v x", _chi2, "p", 1), ("gdtrib", "a p x", "a b x", _rated, "p", 1),
    ("pdtri", "k y", "k m", lambda k, m: (None, _poisson(k, m)[1]), "y", 1),
    ("pdtrik", "p m", "k m", _poisson, "p", 1),
    ("betainccinv", "a b y", "a b x", _beta, "y", -1),
    ("btdtria", "p b x", "a b x", _beta, "p", 1), ("btdtrib", "a p x", "a b x", _beta, "p", 1),
    ("bdtri", "k n y", "k n p", lambda k, n, p: (None, None, _binomial(np.floor(k), n, p)[2]), "y", 1),
    ("bdtrik", "y n p", "k n p", _binomial, "y", 1), ("bdtrin", "k y p", "k n p", _binomial, "y", 1),
    ("nbdtri", "k n y", "k n p", _negative_binomial, "y", 1), ("nbdtrik", "y n p", "k n p", _negative_binomial, "y", 1),
    ("nbdtrin", "k y p", "k n p", _negative_binomial, "y", 1), ("fdtri", "dfn dfd p", "dfn dfd x", _fisher, "p", 1),
    ("fdtridfd", "dfn p x", "dfn dfd x", _fisher, "p", 1), ("stdtrit", "df p", "df t", student_slopes, "p", 1),
    ("stdtridf", "p t", "df t", student_slopes, "p", 1),
):
    _inverse(*_row)


def log_noncentral_chi2(x: Any, df: Any, nc: Any) -> Any:
    """Return the logarithm of the noncentral chi-squared density, which is smooth where the noncentrality is 0.

    With b = df / 2 and w = nc x / 4 it is that of the central one, ``-nc / 2``, and the logarithm of 0F1(; b; w), DLMF
    10.39.9: a series of few terms where w is no larger than b, elsewhere a Bessel function.
    """
    x, df, nc = np.broadcast_arrays(floating(x), floating(df), floating(nc))
    b, w = 0.5 * df, 0.25 * nc * x
    near = (w <= np.maximum(1, b)) | (x == np.inf)
    term = np.where(near & (x < np.inf), w, 0)
    series: Any = 1.0
    for k in range(24, 0, -1):
        series = 1 + term / (k * (b + (k - 1))) * series
    small = special.xlogy(b - 1, x) - b * math.log(2) - special.gammaln(b) - 0.5 * (x + nc) + np.log(series)
    x, nc = np.where(near, 4 * b, x), np.where(near, 1, nc)
    scaled = ive(b - 1, np.sqrt(x * nc))
    apart = -0.5 * np.square(np.sqrt(x) - np.sqrt(nc)) + (0.5 * b - 0.5) * np.log(x / nc)
    large = np.where(scaled > 0, apart + np.log(0.5 * scaled), -np.inf)
    return np.where(near, small, large)


def _chi2_density(x: Any, df: Any, nc: Any) -> Any:
    return np.exp(log_noncentral_chi2(x, df, nc))


def _noncentral_chi2(x: Any, df: Any, nc: Any) -> Any:
    return _chi2_density(x, df, nc), None, -_chi2_density(x, df + 2, nc)


def _noncentral_student(df: Any, nc: Any, t: Any) -> Any:
    """Return the slope by t, the density; near 0, where the difference has no digits, by its series there."""
    near = np.abs(t) < 1e-4 * np.sqrt(np.minimum(df, 1))
    place, half = np.where(near, t, 0), special.gammaln(0.5 * df + 0.5)
    first = nc * np.exp(special.gammaln(0.5 * df + 1) - half) * np.sqrt(2 / df)
    second = 0.5 * (nc * nc - 1) * (1 + 1 / df)
    at_zero = np.exp(half - special.gammaln(0.5 * df) - 0.5 * nc * nc) / np.sqrt(PI * df)
    t = np.where(near, 1, t)
    far = df / t * (nctdtr(df + 2, nc, t * np.sqrt(1 + 2 / df)) - nctdtr(df, nc, t))
    return None, None, np.where(near, at_zero * (1 + place * (first + place * second)), far)


def _noncentral_fisher(n: Any, d: Any, nc: Any, f: Any) -> Any:
    """Return the slopes by nc and by f: mixtures by Poisson's weights of I_y(n/2 + j, d/2), DLMF 8.17.20."""
    of = [ncfdtr(n + 2 * k, d, nc, f * n / (n + 2 * k)) for k in range(3)]
    return None, None, (of[1] - of[0]) / 2, (n * (of[0] - of[1]) + nc * (of[1] - of[2])) / (2 * f)


chndtr: Any = _declare("chndtr", "x df nc", lambda x, df, nc, _p: _noncentral_chi2(x, df, nc))
chndtrix: Any = _inverse("chndtrix", "p df nc", "x df nc", _noncentral_chi2, "p")
nctdtr: Any = _declare("nctdtr", "df nc t", lambda df, nc, t, _p: _noncentral_student(df, nc, t))
ncfdtr: Any = _declare("ncfdtr", "dfn dfd nc f", lambda n, d, nc, f, _p: _noncentral_fisher(n, d, nc, f))
_slopes: Any
for _name, _parameters, _names, _slopes in (
    ("chndtrinc", "x df p", "x df nc", _noncentral_chi2),
    ("chndtridf", "x p nc", "x df nc", _noncentral_chi2), ("nctdtrit", "df nc p", "df nc t", _noncentral_student),
    ("nctdtridf", "p nc t", "df nc t", _noncentral_student), ("nctdtrinc", "df p t", "df nc t", _noncentral_student),
    ("ncfdtri", "dfn dfd nc p", "dfn dfd nc f", _noncentral_fisher),
    ("ncfdtrinc", "dfn dfd p f", "dfn dfd nc f", _noncentral_fisher),
    ("ncfdtridfd", "dfn p nc f", "dfn dfd nc f", _noncentral_fisher),
    ("ncfdtridfn", "p dfd nc f", "dfn dfd nc f", _noncentral_fisher),
):
    _inverse(_name, _parameters, _names, _slopes, "p")


def kolmogorov_slope(x: Any) -> Any:
    """Return the slope of the Kolmogorov distribution by the series of either side, DLMF 20.2.1 and 20.7.32."""
    def high(x: Any) -> Any:
        return sum([(-1) ** k * k * k * np.exp(-2 * np.square(k * x)) for k in range(1, 8)], 0.0) * 8 * x

    def low(x: Any) -> Any:
        exponents = [(2 * k - 1) ** 2 * PI**2 / (8 * x * x) for k in range(1, 5)]
        return math.sqrt(2 * PI) / (x * x) * sum([np.exp(-t) * (1 - 2 * t) for t in exponents], 0.0)

    inside = x > 1e-2
    at = np.where(inside, x, 0.7)
    return np.where(inside, piecewise(at > 0.7, at, 0.7, high, low), 0.0)


kolmogorov: Any = _declare("kolmogorov", "x", lambda x, _y: kolmogorov_slope(x))


def kolmogorov_chance(x: Any) -> Any:
    """Return the Kolmogorov distribution's cumulative function, which is 1 less the other one to the right alone."""
    def low(x: Any) -> Any:
        return math.sqrt(2 * PI) / x * sum([np.exp(-((2 * k - 1) * PI / x) ** 2 / 8) for k in range(1, 5)], 0.0)

    inside = x > 1e-2
    at = np.where(inside, x, 0.7)
    return np.where(inside, piecewise(at > 0.7, at, 0.7, lambda x: 1 - kolmogorov(x), low), 0.0)


kolmogi: Any = _declare("kolmogi", "p", lambda _p, x: 1 / kolmogorov_slope(x))

# -- whose slopes are not known in such functions

for _name, _parameters in (("voigt_profile", "x sigma gamma"), ("smirnov", "n d"), ("smirnovi", "n p")):
    _declare(_name, _parameters, _unknown)

# -- zeta, of which SciPy has one more than it


def _zeta_slope(s: Any) -> Any:
    """Return the slope of Riemann's zeta, left of the pole's reflection at 0 by its own, DLMF 25.4.1."""
    one = np.ones_like(s)

    def reflected(s: Any) -> Any:
        far = s < -150  # where gamma(1 - s) may overflow before the product
        power = np.where(far, np.exp((s - 1) * math.log(2 * PI) + special.gammaln(1 - s)),
                         (2 * PI) ** (s - 1) * special.gamma(1 - np.where(far, -1, s)))
        turned = 2 * power * (1 + zetac(1 - s))
        logarithmic = math.log(2 * PI) - special.digamma(1 - s) - special.zeta_by_s(1 - s, one) / (1 + zetac(1 - s))
        return turned * (np.sin(PI / 2 * s) * logarithmic + PI / 2 * np.cos(PI / 2 * s))

    return piecewise(s < -0.25, s, -0.25, reflected, lambda s: special.zeta_by_s(np.minimum(s, 1e4), one))


zetac: Any = _declare("zetac", "x", lambda s, _y: _zeta_slope(s))

"""Arithmetic, extrema of two, powers and roots, rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import NEGATIVE_POWER, ArgumentValueError
from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import PAIRS, SPECIAL, between, distinct, inf, nan, normal, pairs, positive
from symgrad.ops.declare.forms import elementwise

# Signed integers wrap as NumPy's do; C leaves their overflow undefined, so they compute as unsigned ones.
add = elementwise(
    numpy=np.add, value=lambda a, b: a + b, logs=np.logaddexp, infix="+",
    c={"f": "{0} + {1}", "iu": "({t})((uint64_t){0} + (uint64_t){1})", "b": "{0} || {1}"})

subtract = elementwise(
    numpy=np.subtract, value=lambda a, b: a - b, infix="-",
    c={"f": "{0} - {1}", "iu": "({t})((uint64_t){0} - (uint64_t){1})"})

multiply = elementwise(
    numpy=np.multiply, value=lambda a, b: a * b, ddx=lambda a, b, _y: (b, a), logs=np.add, infix="*",
    c={"f": "{0} * {1}", "iu": "({t})((uint64_t){0} * (uint64_t){1})", "b": "{0} && {1}"})


def _divide_vjp(g: Any, y: Any, _a: Any, b: Any) -> tuple[Any, Any]:
    """Divide once: both cotangents share the inverse, with whatever else is divided by the same.

    That of a constant is a constant, that of a row's sum is found once a row. b * b may overflow where a / b does not.
    """
    inverse = np.reciprocal(b)
    return g * inverse, -g * (y * inverse)


divide = elementwise(
    numpy=np.divide, steep=(1, "no slope where the divisor is 0", True),
    value=lambda a, b: a / b, logs=np.subtract, infix="/", vjp=_divide_vjp,
    c="{0} / {1}", sample=(normal(), positive()))

floor_divide = elementwise(
    numpy=np.floor_divide, value=lambda a, b: sp.floor(a / b), nondiff=True, infix="//",
    c={"fi": "sg_floor_divide{f}({0}, {1})", "u": "({t})({1} == 0 ? 0 : {0} / {1})"},
    sample=(distinct(), positive()))

# The quotient is taken from the result: a / b may round up to the next integer.
remainder = elementwise(
    numpy=np.remainder, value=lambda a, b: a - b * sp.floor(a / b), infix="%",
    vjp=lambda g, y, a, b: (g, -g * np.rint((a - y) / b)),
    c={"fi": "sg_remainder{f}({0}, {1})", "u": "({t})({1} == 0 ? 0 : {0} % {1})"},
    sample=(distinct(), positive()))

fmod = elementwise(
    numpy=np.fmod, vjp=lambda g, y, a, b: (g, -g * np.rint((a - y) / b)),
    c={"f": "fmod", "i": "({t})({1} == 0 || {1} == -1 ? 0 : {0} % {1})", "u": "({t})({1} == 0 ? 0 : {0} % {1})"},
    sample=(distinct(), positive()))

negative = elementwise(
    numpy=np.negative, value=lambda x: -x, infix="-", c={"f": "-{0}", "iu": "({t})(0 - (uint64_t){0})"})

positive_ = elementwise(numpy=np.positive, value=lambda x: x, infix="+", c={"fiu": "{0}"})

# Of the integer 0 it is what x86-64 makes of infinity.
LEAST = "({t})((uint64_t)(sizeof({t}) > 2) << (8 * sizeof({t}) - 1))"

reciprocal = elementwise(
    numpy=np.reciprocal, steep=(0, "no slope at 0", True),
    value=lambda x: 1 / x, vjp=lambda g, y, _x: -(g * y) * y,  # y * y may overflow
    logs=np.negative, sample=positive(),
    c={"f": "1.0{f} / {0}", "u": "{0} == 1", "i": f"{{0}} == 0 ? {LEAST} : ({{t}})(({{0}} == 1) - ({{0}} == -1))"})

square = elementwise(
    numpy=np.square, value=lambda x: x**2, ddx=lambda x, _y: 2 * x, logs=lambda x: 2 * x,
    c={"f": "{0} * {0}", "iu": "({t})((uint64_t){0} * (uint64_t){0})"})

sqrt = elementwise(
    numpy=np.sqrt, steep=(0, "infinite slope at 0", True),
    value=sp.sqrt, ddx=lambda _x, y: 0.5 * np.reciprocal(y), logs=lambda x: 0.5 * x,
    c="sqrt", sample=positive(), edges=(*SPECIAL, 1e-308, 1e300))

cbrt = elementwise(
    numpy=np.cbrt, steep=(0, "infinite slope at 0", True),
    value=lambda x: sp.sign(x) * sp.Abs(x) ** sp.Rational(1, 3),
    ddx=lambda _x, y: 1 / (3 * np.square(y)),  # y / (3 * x) is NaN at 0
    c="cbrt", sample=positive(), edges=(*SPECIAL, -8.0, 27.0))


# -- sign and magnitude: the derivative of |x| at 0 is 0

def _absolute_vjp(g: Any, _y: Any, x: Any) -> Any:
    return np.where(x == 0, 0, g * np.sign(x))


absolute = elementwise(
    numpy=np.absolute, value=sp.Abs, vjp=_absolute_vjp,
    c={"f": "fabs", "i": "({t})({0} < 0 ? 0 - (uint64_t){0} : (uint64_t){0})", "ub": "{0}"})

fabs = elementwise(numpy=np.fabs, value=sp.Abs, vjp=_absolute_vjp, c="fabs")

sign = elementwise(
    numpy=np.sign, value=sp.sign, nondiff=True,
    c={"f": "{0} > 0.0{f} ? 1.0{f} : {0} < 0.0{f} ? -1.0{f} : {0} == 0.0{f} ? 0.0{f} : {0}",
       "i": "({t})(({0} > 0) - ({0} < 0))", "u": "({t})({0} > 0)"})

copysign = elementwise(
    numpy=np.copysign,
    vjp=lambda g, _y, a, b: (np.where(np.signbit(a) == np.signbit(b), g, -g), None), c="copysign")

# Its derivative is that of its first argument, which it differs from by a rounding.
nextafter = elementwise(
    numpy=np.nextafter, vjp=lambda g, _y, _a, _b: (g, None), c="nextafter", sample=distinct(),
    edges=(*PAIRS, (5e-324, 0.0), (-5e-324, 1.0), (1.7976931348623157e308, inf), (1.0, 0.0), (2.0, 2.0)))

heaviside = elementwise(
    numpy=np.heaviside, vjp=lambda g, _y, x, _h: (None, np.where(x == 0, g, 0)),
    c="{0} > 0.0{f} ? 1.0{f} : {0} < 0.0{f} ? 0.0{f} : {0} == 0.0{f} ? {1} : {0}")


# -- length of a vector: the gradient at the origin is 0

def _direction(a: Any, b: Any, h: Any) -> Any:
    """Return a / hypot(a, b), 0 at the origin; h is hypot(a, b), handed over so that it is computed once."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(h == 0, 0, a / h).astype(np.result_type(a, h))


def _direction_vjp(g: Any, y: Any, a: Any, b: Any, h: Any) -> Any:
    # As a function of (a, b): h has no share of its own. 1 - y * y would lose all digits where b is small.
    other = direction(b, a, h)
    along = other / h
    return np.where(h == 0, 0, g * (other * along)), np.where(h == 0, 0, -g * (y * along)), None


direction = elementwise(
    name="direction", numpy=_direction, arity=3, result=lambda a, _b, _h: a,
    vjp=_direction_vjp, c="{2} == 0.0{f} ? 0.0{f} : {0} / {2}", sample=(normal(), normal(), positive()),
    edges=((0.0, 0.0, 0.0), (3.0, 4.0, 5.0), (1.0, inf, inf), (nan, 1.0, nan), (-1e160, 0.0, 1e160)))

hypot = elementwise(
    numpy=np.hypot, value=lambda a, b: sp.sqrt(a**2 + b**2),
    ddx=lambda a, b, y: (direction(a, b, y), direction(b, a, y)), c="hypot",
    commutes=False)  # in lanes the last bit differs


# -- the larger and the smaller: a tie gives half to each, and NaN is picked where there is one

def _share(g: Any, a: Any, b: Any) -> Any:
    """Return the share of g that goes to a, when the larger one of a and b was taken."""
    return np.where(a > b, g, np.where(a == b, g * 0.5, 0))


def _not_nan(g: Any, a: Any, b: Any, *, larger: bool) -> Any:
    ahead = a > b if larger else a < b
    return np.where(ahead | (np.isnan(b) & ~np.isnan(a)), g, np.where(a == b, g * 0.5, 0))


def _picked_by_clip(_y: Any, x: Any, low: Any, high: Any) -> Any:
    raised = np.maximum(x, low)
    return ~((x < low) | (raised > high)), ~((low < x) | (raised > high)), ~(high > raised)


def _clip_vjp(g: Any, _y: Any, x: Any, low: Any, high: Any) -> Any:
    raised = np.maximum(x, low)
    inner = _share(g, high, raised)
    return _share(inner, x, low), _share(inner, low, x), _share(g, raised, high)


maximum = elementwise(
    numpy=np.maximum, value=sp.Max,
    vjp=lambda g, _y, a, b: (_share(g, a, b), _share(g, b, a)), used=lambda _y, a, b: (~(a < b), ~(b < a)),
    c={"f": "{0} > {1} || {0} != {0} ? {0} : {1}", "iu": "({t})({0} > {1} ? {0} : {1})", "b": "{0} || {1}"},
    sample=distinct(), edges=pairs(0.0, 1.0, -1.0, 2.5, inf, -inf, nan, 5e-324))

# An op of its own, for maximum(x, 0), because there a tie gives nothing to x: the derivative at 0 is 0.
relu = elementwise(
    name="relu", numpy=lambda x: np.maximum(x, 0), result=lambda x: x, value=lambda x: sp.Max(x, 0),
    vjp=lambda g, _y, x: np.where(x > 0, g, 0), used=lambda _y, x: ~(x <= 0),
    c="{0} > 0.0{f} || {0} != {0} ? {0} : 0.0{f}", sample=distinct(), doc="Return the larger one of x and 0.")

minimum = elementwise(
    numpy=np.minimum, value=sp.Min,
    vjp=lambda g, _y, a, b: (_share(g, b, a), _share(g, a, b)), used=lambda _y, a, b: (~(a > b), ~(b > a)),
    c={"f": "{0} < {1} || {0} != {0} ? {0} : {1}", "iu": "({t})({0} < {1} ? {0} : {1})", "b": "{0} && {1}"},
    sample=distinct(), edges=pairs(0.0, 1.0, -1.0, 2.5, inf, -inf, nan, 5e-324))

fmax = elementwise(
    numpy=np.fmax,
    vjp=lambda g, _y, a, b: (_not_nan(g, a, b, larger=True), _not_nan(g, b, a, larger=True)),
    used=lambda _y, a, b: ((a >= b) | np.isnan(b), (b >= a) | np.isnan(a)),
    c={"f": "{0} >= {1} || {1} != {1} ? {0} : {1}", "iu": "({t})({0} > {1} ? {0} : {1})", "b": "{0} || {1}"},
    sample=distinct(), edges=pairs(0.0, 1.0, -1.0, 2.5, inf, -inf, nan, 5e-324))

fmin = elementwise(
    numpy=np.fmin,
    vjp=lambda g, _y, a, b: (_not_nan(g, a, b, larger=False), _not_nan(g, b, a, larger=False)),
    used=lambda _y, a, b: ((a <= b) | np.isnan(b), (b <= a) | np.isnan(a)),
    c={"f": "{0} <= {1} || {1} != {1} ? {0} : {1}", "iu": "({t})({0} < {1} ? {0} : {1})", "b": "{0} && {1}"},
    sample=distinct(), edges=pairs(0.0, 1.0, -1.0, 2.5, inf, -inf, nan, 5e-324))

clip = elementwise(
    numpy=np._core.umath.clip,  # type: ignore[attr-defined]  # noqa: SLF001 - the ufunc that np.clip calls
    value=lambda x, low, high: sp.Min(sp.Max(x, low), high), vjp=_clip_vjp, used=_picked_by_clip,
    c={"fiu": "sg_clip{f}({0}, {1}, {2})", "b": "({0} || {1}) && {2}"},
    sample=(distinct(), between(-1.0, -0.5), between(0.5, 1.0)),
    edges=((0.5, 0.0, 1.0), (-1.0, 0.0, 1.0), (2.0, 0.0, 1.0), (nan, 0.0, 1.0), (0.5, nan, 1.0), (0.5, 0.0, nan),
           (0.5, 1.0, 0.0), (inf, -inf, 3.0), (-inf, -inf, inf)))


# -- powers

def _power_partials(x: Any, b: Any, y: Any) -> Any:
    less = np.power(x, b - 1)
    # Only where 0 * inf would make a NaN: everywhere else b = 0 must keep its mixed second derivative, 1 / x.
    slope = np.where((b == 0) & np.isinf(less), 0, b * less)
    return slope, np.log(np.where(x == 0, 1, x)) * y


power = elementwise(
    numpy=np.power, steep=(0, "infinite slope at base 0 where the exponent is below 1", True),
    value=lambda x, b: x**b, ddx=_power_partials, infix="**",
    c={"f": "pow", "iu": "sg_power{f}({0}, {1})"}, sample=(positive(), normal()))

float_power = elementwise(
    numpy=np.float_power, steep=(0, "infinite slope at base 0 where the exponent is below 1", True),
    value=lambda x, b: x**b, ddx=_power_partials, c="pow", sample=(positive(), normal()))


def _power_int(x: Any, exponent: int) -> Any:
    """Return x to a known integer power, by squaring, in the same order as in C."""
    x = np.asarray(x)
    result, left = None, abs(exponent)
    while left:
        if left & 1:
            result = x if result is None else result * x
        left >>= 1
        x = x * x if left else x
    result = np.ones_like(x) if result is None else np.asarray(result)
    return 1 / result if exponent < 0 else result


def _power_int_vjp(g: Any, _y: Any, x: Any, exponent: int) -> Any:
    if exponent == 0:
        return None
    if exponent == 1:
        return g
    return g * (exponent * (x if exponent == 2 else power_int(x, exponent=exponent - 1)))


def _power_int_dtype(dtype: np.dtype[Any], exponent: int) -> np.dtype[Any]:
    if dtype.kind != "f" and exponent < 0:
        raise ArgumentValueError(
            f"an array of {dtype.name} to the power {exponent}: {NEGATIVE_POWER}",
            instead=f"x.astype(np.float64) ** {exponent}",
        )
    return dtype


power_int = elementwise(
    name="power_int", params=("exponent",), numpy=_power_int, result=_power_int_dtype, vjp=_power_int_vjp,
    logs=lambda x, exponent: exponent * x, c={"fiu": "sg_power_int{f}({0}, {exponent})"}, sample=positive())


HALVES = (*SPECIAL, 1.5, 2.5, -0.5, -1.5, -0.49999999999999994, 0.49999999999999994, 4503599627370497.5)

floor = elementwise(
    numpy=np.floor, value=sp.floor, nondiff=True, c={"f": "floor", "iub": "{0}"}, edges=HALVES)

ceil = elementwise(
    numpy=np.ceil, value=sp.ceiling, nondiff=True, c={"f": "ceil", "iub": "{0}"}, edges=HALVES)

trunc = elementwise(numpy=np.trunc, nondiff=True, c={"f": "trunc", "iub": "{0}"}, edges=HALVES)

rint = elementwise(numpy=np.rint, nondiff=True, c="rint", edges=HALVES)

signbit = elementwise(numpy=np.signbit, nondiff=True, c="signbit({0}) != 0")

isnan = elementwise(numpy=np.isnan, nondiff=True, c={"f": "{0} != {0}", "iub": "0"})

isinf = elementwise(numpy=np.isinf, nondiff=True, c={"f": "isinf({0}) != 0", "iub": "0"})

isfinite = elementwise(numpy=np.isfinite, nondiff=True, c={"f": "isfinite({0}) != 0", "iub": "1"})

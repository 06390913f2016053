"""Trigonometric and hyperbolic functions and their inverses, degrees and radians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ir.op import Elementwise
from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import SPECIAL, between, inf, nan, normal, positive
from symgrad.ops.declare.forms import OPS, elementwise
from symgrad.ops.elementwise.arithmetic import direction

sin = elementwise(numpy=np.sin, value=sp.sin, ddx=lambda x, _y: np.cos(x), c="sin")

cos = elementwise(numpy=np.cos, value=sp.cos, ddx=lambda x, _y: -np.sin(x), c="cos", lanes="sg_cos{f}({0})")

tan = elementwise(
    numpy=np.tan, value=sp.tan, ddx=lambda _x, y: 1 + y * y, c="tan", sample=between(-1.4, 1.4),
    mirrors=False)  # in lanes of 256 bits the last bit differs, of one large argument in a thousand


# An op of its own for its derivative: that of the product, taken factor by factor, is (1 - x) - (1 + x),
# which has no digits left where x is small.
one_minus_square = elementwise(
    name="one_minus_square", doc="Return 1 - x**2 with all digits near 1.", numpy=lambda x: (1 - x) * (1 + x),
    result=lambda x: x, value=lambda x: 1 - x**2,
    c="(1.0{f} - {0}) * (1.0{f} + {0})", edges=(0.0, 1.0, -1.0, nan, 1e-8))

arcsin = elementwise(
    numpy=np.arcsin, steep=(0, "infinite slope at -1 and 1", False),
    value=sp.asin, vjp=lambda g, _y, x: g / np.sqrt(one_minus_square(x)), c="asin", sample=between(-0.95, 0.95))

arccos = elementwise(
    numpy=np.arccos, steep=(0, "infinite slope at -1 and 1", False),
    value=sp.acos, vjp=lambda g, _y, x: -g / np.sqrt(one_minus_square(x)),
    c="acos", sample=between(-0.95, 0.95))

# Likewise: differentiated as it stands, the square of the result would underflow long before the derivative does.
arctan_slope = elementwise(
    name="arctan_slope", doc="Return 1 / (1 + x**2).", numpy=lambda x: 1 / (1 + x * x),
    result=lambda x: x, value=lambda x: 1 / (1 + x**2),
    ddx=lambda x, y: -2 * (x * y) * y, c="1.0{f} / (1.0{f} + {0} * {0})")

arctan = elementwise(numpy=np.arctan, value=sp.atan, ddx=lambda x, _y: arctan_slope(x), c="atan")


# -- the angle of a vector: at the origin its gradient is 0

def _inversion(a: Any, _b: Any, h: Any) -> Any:
    """Return a / (a**2 + b**2) without overflow, 0 at the origin; h is hypot(a, b)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(h == 0, 0, a / h / h).astype(np.result_type(a, h))


def _inversion_vjp(g: Any, _y: Any, a: Any, b: Any, h: Any) -> Any:
    # As a function of (a, b), as in `direction`: quotients of h alone overflow before the derivative does.
    u, v = direction(a, b, h), direction(b, a, h)
    return np.where(h == 0, 0, g * ((v - u) * (v + u) / h / h)), np.where(h == 0, 0, -2 * g * (u * v / h / h)), None


inversion = elementwise(
    name="inversion", numpy=_inversion, arity=3, result=lambda a, _b, _h: a, vjp=_inversion_vjp,
    c="{2} == 0.0{f} ? 0.0{f} : {0} / {2} / {2}", sample=(normal(), normal(), positive()),
    edges=((0.0, 0.0, 0.0), (3.0, 4.0, 5.0), (1.0, inf, inf), (nan, 1.0, nan), (-1e160, 0.0, 1e160)))


arctan2 = elementwise(
    numpy=np.arctan2, value=sp.atan2, c="atan2",
    ddx=lambda a, b, _y: (inversion(b, a, h := np.hypot(a, b)), -inversion(a, b, h)),
    sample=(normal(), positive()))

def _angle(ufunc: np.ufunc, one: float, other: float, value: Callable[[Any], Any]) -> Elementwise:
    return elementwise(
        numpy=ufunc, value=value, c=f"{{0}} * ({one}{{f}} / {other}{{f}})",
        edges=(0.0, -0.0, 1.0, 180.0, inf, nan))


deg2rad, radians = [_angle(f, math.pi, 180.0, lambda x: x * sp.pi / 180) for f in (np.deg2rad, np.radians)]
rad2deg, degrees = [_angle(f, 180.0, math.pi, lambda x: x * 180 / sp.pi) for f in (np.rad2deg, np.degrees)]


sinh = elementwise(
    numpy=np.sinh, value=sp.sinh, ddx=lambda x, _y: np.cosh(x), c="sinh", edges=(*SPECIAL, 710.0, -745.0))

cosh = elementwise(
    numpy=np.cosh, value=sp.cosh, ddx=lambda x, _y: np.sinh(x), c="cosh", edges=(*SPECIAL, 710.0, -745.0))

# 1 - tanh(x)**2 has no digits left at 20; 1 / cosh(x)**2 overflows, and its derivative earlier than itself.
tanh = elementwise(
    numpy=np.tanh, value=sp.tanh, ddx=lambda x, _y: 4 * OPS["expit_slope"](2 * x), c="tanh",
    lanes="sg_tanh{f}({0})", edges=(*SPECIAL, 20.0, -40.0))

arcsinh = elementwise(
    numpy=np.arcsinh, value=sp.asinh, vjp=lambda g, _y, x: g / np.hypot(1, x), c="asinh", edges=(*SPECIAL, 1e300))

arccosh = elementwise(
    numpy=np.arccosh, steep=(0, "infinite slope at 1", False),
    value=sp.acosh, vjp=lambda g, _y, x: g / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    c="acosh", sample=between(1.1, 5.0), edges=(*SPECIAL, 1 + 2**-40, 1e300))

arctanh = elementwise(
    numpy=np.arctanh, steep=(0, "infinite slope at -1 and 1", False),
    value=sp.atanh, vjp=lambda g, _y, x: g / one_minus_square(x), c="atanh",
    sample=between(-0.95, 0.95), edges=(*SPECIAL, 1 - 2**-40))

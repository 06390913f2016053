"""Trigonometric functions and their inverses, degrees and radians."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import PAIRS, SPECIAL, between, inf, nan, normal, positive
from symgrad.ops.declare.forms import elementwise
from symgrad.ops.elementwise.arithmetic import direction

sin = elementwise(
    numpy=np.sin, value=sp.sin, ddx=lambda x, _y: np.cos(x), c="sin", sample=normal(), edges=SPECIAL)

cos = elementwise(
    numpy=np.cos, value=sp.cos, ddx=lambda x, _y: -np.sin(x), c="cos", lanes="sg_cos{f}({0})", sample=normal(),
    edges=SPECIAL)

tan = elementwise(
    numpy=np.tan, value=sp.tan, c="tan", sample=between(-1.4, 1.4),
    edges=SPECIAL)


def _one_minus_square(x: Any) -> Any:
    """Return 1 - x**2 with all digits near 1."""
    return (1 - x) * (1 + x)


def _arctan_slope(x: Any) -> Any:
    """Return 1 / (1 + x**2)."""
    return 1 / (1 + x * x)


# An op of its own for its derivative: that of the product, taken factor by factor, is (1 - x) - (1 + x),
# which has no digits left where x is small.
one_minus_square = elementwise(
    name="one_minus_square", numpy=_one_minus_square, result=lambda x: x, value=lambda x: 1 - x**2,
    c="(1.0{f} - {0}) * (1.0{f} + {0})", sample=normal(), edges=(0.0, 1.0, -1.0, nan, 1e-8))

arcsin = elementwise(
    numpy=np.arcsin, steep=(0, "infinite slope at -1 and 1", False),
    value=sp.asin, vjp=lambda g, _y, x: g / np.sqrt(one_minus_square(x)),
    c="asin", sample=between(-0.95, 0.95), edges=SPECIAL)

arccos = elementwise(
    numpy=np.arccos, steep=(0, "infinite slope at -1 and 1", False),
    value=sp.acos, vjp=lambda g, _y, x: -g / np.sqrt(one_minus_square(x)),
    c="acos", sample=between(-0.95, 0.95), edges=SPECIAL)

# Likewise: differentiated as it stands, the square of the result would underflow long before the derivative does.
arctan_slope = elementwise(
    name="arctan_slope", numpy=_arctan_slope, result=lambda x: x, value=lambda x: 1 / (1 + x**2),
    ddx=lambda x, y: -2 * (x * y) * y, c="1.0{f} / (1.0{f} + {0} * {0})", sample=normal(), edges=SPECIAL)

arctan = elementwise(
    numpy=np.arctan, value=sp.atan, ddx=lambda x, _y: arctan_slope(x),
    c="atan", sample=normal(), edges=SPECIAL)


# -- the angle of a vector: at the origin its gradient is 0

def _inversion(a: Any, _b: Any, h: Any) -> Any:
    """Return a / (a**2 + b**2) without overflow, 0 at the origin; h is hypot(a, b)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(h == 0, 0, a / h / h).astype(np.result_type(a, h))


def _inversion_vjp(g: Any, _y: Any, a: Any, b: Any, h: Any) -> Any:
    # As a function of (a, b), as in `direction`: quotients of h alone overflow before the derivative does.
    u, v = direction(a, b, h), direction(b, a, h)
    return np.where(h == 0, 0, g * ((v - u) * (v + u) / h / h)), np.where(h == 0, 0, -2 * g * (u * v / h / h)), None


def _arctan2_partials(a: Any, b: Any, _y: Any) -> Any:
    h = np.hypot(a, b)
    return inversion(b, a, h), -inversion(a, b, h)


inversion = elementwise(
    name="inversion", numpy=_inversion, arity=3, result=lambda a, _b, _h: a, vjp=_inversion_vjp,
    c="{2} == 0.0{f} ? 0.0{f} : {0} / {2} / {2}", sample=(normal(), normal(), positive()),
    edges=((0.0, 0.0, 0.0), (3.0, 4.0, 5.0), (1.0, inf, inf), (nan, 1.0, nan), (-1e160, 0.0, 1e160)))


arctan2 = elementwise(
    numpy=np.arctan2, value=sp.atan2, ddx=_arctan2_partials, c="atan2",
    sample=(normal(), positive()), edges=PAIRS)

deg2rad = elementwise(
    numpy=np.deg2rad, value=lambda x: x * sp.pi / 180,
    c="{0} * (3.141592653589793{f} / 180.0{f})", sample=normal(), edges=(0.0, -0.0, 180.0, inf, nan))

radians = elementwise(
    numpy=np.radians, value=lambda x: x * sp.pi / 180,
    c="{0} * (3.141592653589793{f} / 180.0{f})", sample=normal(), edges=(0.0, -0.0, 180.0, inf, nan))

rad2deg = elementwise(
    numpy=np.rad2deg, value=lambda x: x * 180 / sp.pi,
    c="{0} * (180.0{f} / 3.141592653589793{f})", sample=normal(), edges=(0.0, -0.0, 1.0, inf, nan))

degrees = elementwise(
    numpy=np.degrees, value=lambda x: x * 180 / sp.pi,
    c="{0} * (180.0{f} / 3.141592653589793{f})", sample=normal(), edges=(0.0, -0.0, 1.0, inf, nan))

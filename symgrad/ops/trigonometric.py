"""Trigonometric functions and their inverses, degrees and radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.arithmetic import direction
from symgrad.ops.calculus import sp
from symgrad.ops.declare import elementwise
from symgrad.ops.domains import PAIRS, SPECIAL, between, inf, nan, normal, positive

sin = elementwise(
    numpy=np.sin, value=sp.sin, ddx=lambda x, _y: np.cos(x), c="sin", sample=normal(), edges=SPECIAL)

cos = elementwise(
    numpy=np.cos, value=sp.cos, ddx=lambda x, _y: -np.sin(x), c="cos", sample=normal(), edges=SPECIAL)

tan = elementwise(
    numpy=np.tan, value=sp.tan, ddx=lambda _x, y: 1 + y * y, c="tan", sample=between(-1.4, 1.4),
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
    ddx=lambda x, _y: -2 * x, c="(1.0{f} - {0}) * (1.0{f} + {0})", sample=normal(), edges=(0.0, 1.0, -1.0, nan, 1e-8))

arcsin = elementwise(
    numpy=np.arcsin, value=sp.asin, vjp=lambda g, _y, x: g / np.sqrt(one_minus_square(x)),
    c="asin", sample=between(-0.95, 0.95), edges=SPECIAL)

arccos = elementwise(
    numpy=np.arccos, value=sp.acos, vjp=lambda g, _y, x: -g / np.sqrt(one_minus_square(x)),
    c="acos", sample=between(-0.95, 0.95), edges=SPECIAL)

# Likewise: differentiated as it stands, the square of the result would underflow long before the derivative does.
arctan_slope = elementwise(
    name="arctan_slope", numpy=_arctan_slope, result=lambda x: x, value=lambda x: 1 / (1 + x**2),
    ddx=lambda x, y: -2 * (x * y) * y, c="1.0{f} / (1.0{f} + {0} * {0})", sample=normal(), edges=SPECIAL)

arctan = elementwise(
    numpy=np.arctan, value=sp.atan, ddx=lambda x, _y: arctan_slope(x),
    c="atan", sample=normal(), edges=SPECIAL)


def _arctan2_vjp(g: Any, _y: Any, a: Any, b: Any) -> Any:
    # a * a + b * b would overflow; at the origin the gradient is 0.
    h = np.hypot(a, b)
    return np.where(h == 0, 0, g * (direction(b, a, h) / h)), np.where(h == 0, 0, -g * (direction(a, b, h) / h))


arctan2 = elementwise(
    numpy=np.arctan2, value=sp.atan2, vjp=_arctan2_vjp, c="atan2",
    sample=(normal(), positive()), edges=PAIRS)

RADIANS, DEGREES = math.pi / 180, 180 / math.pi

deg2rad = elementwise(
    numpy=np.deg2rad, value=lambda x: x * sp.pi / 180, vjp=lambda g, _y, _x: g * RADIANS, linear=True,
    c="{0} * (3.141592653589793{f} / 180.0{f})", sample=normal(), edges=(0.0, -0.0, 180.0, inf, nan))

radians = elementwise(
    numpy=np.radians, value=lambda x: x * sp.pi / 180, vjp=lambda g, _y, _x: g * RADIANS, linear=True,
    c="{0} * (3.141592653589793{f} / 180.0{f})", sample=normal(), edges=(0.0, -0.0, 180.0, inf, nan))

rad2deg = elementwise(
    numpy=np.rad2deg, value=lambda x: x * 180 / sp.pi, vjp=lambda g, _y, _x: g * DEGREES, linear=True,
    c="{0} * (180.0{f} / 3.141592653589793{f})", sample=normal(), edges=(0.0, -0.0, 1.0, inf, nan))

degrees = elementwise(
    numpy=np.degrees, value=lambda x: x * 180 / sp.pi, vjp=lambda g, _y, _x: g * DEGREES, linear=True,
    c="{0} * (180.0{f} / 3.141592653589793{f})", sample=normal(), edges=(0.0, -0.0, 1.0, inf, nan))

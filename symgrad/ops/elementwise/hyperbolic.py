"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import SPECIAL, between, normal
from symgrad.ops.declare.forms import OPS, elementwise
from symgrad.ops.elementwise.trigonometric import one_minus_square

sinh = elementwise(
    numpy=np.sinh, value=sp.sinh, ddx=lambda x, _y: np.cosh(x), c="sinh", sample=normal(),
    edges=(*SPECIAL, 710.0, -745.0))

cosh = elementwise(
    numpy=np.cosh, value=sp.cosh, ddx=lambda x, _y: np.sinh(x), c="cosh", sample=normal(),
    edges=(*SPECIAL, 710.0, -745.0))

# 1 - tanh(x)**2 has no digits left at 20; 1 / cosh(x)**2 overflows, and its derivative earlier than itself.
tanh = elementwise(
    numpy=np.tanh, value=sp.tanh, ddx=lambda x, _y: 4 * OPS["expit_slope"](2 * x), c="tanh",
    lanes="sg_tanh{f}({0})", sample=normal(), edges=(*SPECIAL, 20.0, -40.0))

arcsinh = elementwise(
    numpy=np.arcsinh, value=sp.asinh, vjp=lambda g, _y, x: g / np.hypot(1, x), c="asinh",
    sample=normal(), edges=(*SPECIAL, 1e300))

arccosh = elementwise(
    numpy=np.arccosh, steep=(0, "infinite slope at 1", False),
    value=sp.acosh, vjp=lambda g, _y, x: g / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    c="acosh", sample=between(1.1, 5.0), edges=(*SPECIAL, 1 + 2**-40, 1e300))

arctanh = elementwise(
    numpy=np.arctanh, steep=(0, "infinite slope at -1 and 1", False),
    value=sp.atanh, vjp=lambda g, _y, x: g / one_minus_square(x), c="atanh",
    sample=between(-0.95, 0.95), edges=(*SPECIAL, 1 - 2**-40))

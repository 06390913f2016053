"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import PAIRS, SPECIAL, between, positive
from symgrad.ops.declare.forms import OPS, elementwise

exp = elementwise(
    numpy=np.exp, value=sp.exp, ddx=lambda _x, y: y, log=lambda x: x, c="exp", edges=(*SPECIAL, 709.0, -745.0))

exp2 = elementwise(
    numpy=np.exp2, value=lambda x: 2**x, ddx=lambda _x, y: y * math.log(2), log=lambda x: math.log(2) * x,
    c="exp2", edges=(*SPECIAL, 1023.0, -1074.0))

expm1 = elementwise(
    numpy=np.expm1, value=lambda x: sp.exp(x) - 1, ddx=lambda x, _y: np.exp(x), c="expm1",
    edges=(*SPECIAL, 709.0, -37.0))

log = elementwise(
    numpy=np.log, steep=(0, "infinite slope at 0", True),
    value=sp.log, vjp=lambda g, _y, x: g / x, c="log", sample=positive(), edges=(*SPECIAL, 1e300))

log2 = elementwise(
    numpy=np.log2, steep=(0, "infinite slope at 0", True),
    value=lambda x: sp.log(x) / sp.log(2), vjp=lambda g, _y, x: g / x * (1 / math.log(2)),
    c="log2", sample=positive(), edges=(*SPECIAL, 8.0))

log10 = elementwise(
    numpy=np.log10, steep=(0, "infinite slope at 0", True),
    value=lambda x: sp.log(x) / sp.log(10), vjp=lambda g, _y, x: g / x * (1 / math.log(10)),
    c="log10", sample=positive(), edges=(*SPECIAL, 1000.0))

log1p = elementwise(
    numpy=np.log1p, steep=(0, "infinite slope at -1", False),
    value=lambda x: sp.log(1 + x), vjp=lambda g, _y, x: g / (1 + x),
    c="log1p", sample=between(-0.9, 1e3), edges=(*SPECIAL, 1e-300, -1 + 2**-40))


# -- log(exp(a) + exp(b))

def _difference(a: Any, b: Any) -> Any:
    """Return a - b, and 0 where both are the same infinity (a finite tie must keep its second derivative)."""
    return np.where(np.isinf(a) & (a == b), 0, a - b)


def _logaddexp2_partials(a: Any, b: Any, _y: Any) -> Any:
    apart = _difference(a, b)
    larger = apart > 0
    small = np.exp2(np.where(larger, -apart, apart))
    total = 1 + small
    return np.where(larger, 1, small) / total, np.where(larger, small, 1) / total


logaddexp = elementwise(
    numpy=np.logaddexp, value=lambda a, b: sp.log(sp.exp(a) + sp.exp(b)),
    ddx=lambda a, b, _y: (OPS["expit"](apart := _difference(a, b)), OPS["expit"](-apart)),
    c="sg_logaddexp{f}({0}, {1})", edges=(*PAIRS, (1e3, -1e3), (0.0, -745.0), (37.0, 0.0)))

logaddexp2 = elementwise(
    numpy=np.logaddexp2, value=lambda a, b: sp.log(2**a + 2**b) / sp.log(2), ddx=_logaddexp2_partials,
    c="sg_logaddexp2{f}({0}, {1})", edges=(*PAIRS, (1e3, -1e3), (0.0, -1074.0), (37.0, 0.0)))

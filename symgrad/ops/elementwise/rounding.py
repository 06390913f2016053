"""Rounding, and questions about floating-point numbers; their derivative is zero wherever there is one."""

from __future__ import annotations

import numpy as np

from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import SPECIAL, distinct
from symgrad.ops.declare.forms import elementwise

HALVES = (*SPECIAL, 1.5, 2.5, -0.5, -1.5, -0.49999999999999994, 0.49999999999999994, 4503599627370497.5)

floor = elementwise(
    numpy=np.floor, value=sp.floor, nondiff=True, c={"f": "floor", "iub": "{0}"},
    sample=distinct(), edges=HALVES)

ceil = elementwise(
    numpy=np.ceil, value=sp.ceiling, nondiff=True, c={"f": "ceil", "iub": "{0}"},
    sample=distinct(), edges=HALVES)

trunc = elementwise(numpy=np.trunc, nondiff=True, c={"f": "trunc", "iub": "{0}"}, sample=distinct(), edges=HALVES)

rint = elementwise(numpy=np.rint, nondiff=True, c="rint", sample=distinct(), edges=HALVES)

signbit = elementwise(numpy=np.signbit, nondiff=True, c="signbit({0}) != 0", sample=distinct(), edges=SPECIAL)

isnan = elementwise(
    numpy=np.isnan, nondiff=True, c={"f": "{0} != {0}", "iub": "0"}, sample=distinct(), edges=SPECIAL)

isinf = elementwise(
    numpy=np.isinf, nondiff=True, c={"f": "isinf({0}) != 0", "iub": "0"}, sample=distinct(), edges=SPECIAL)

isfinite = elementwise(
    numpy=np.isfinite, nondiff=True, c={"f": "isfinite({0}) != 0", "iub": "1"}, sample=distinct(), edges=SPECIAL)

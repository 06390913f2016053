"""Comparisons; their derivative is zero wherever there is one."""

from __future__ import annotations

import numpy as np

from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import PAIRS, distinct
from symgrad.ops.declare.forms import elementwise

# A signed integer meets an unsigned one of 64 bits in a loop of its own: C would turn the negative ones positive.
less = elementwise(
    numpy=np.less, value=sp.Lt, nondiff=True, exact=True, infix="<",
    c={"fiub": "{0} < {1}", "i,u": "{0} < 0 || (uint64_t){0} < {1}", "u,i": "{1} >= 0 && {0} < (uint64_t){1}"},
    sample=distinct(), edges=PAIRS)

less_equal = elementwise(
    numpy=np.less_equal, value=sp.Le, nondiff=True, exact=True, infix="<=",
    c={"fiub": "{0} <= {1}", "i,u": "{0} < 0 || (uint64_t){0} <= {1}", "u,i": "{1} >= 0 && {0} <= (uint64_t){1}"},
    sample=distinct(), edges=PAIRS)

greater = elementwise(
    numpy=np.greater, value=sp.Gt, nondiff=True, exact=True, infix=">",
    c={"fiub": "{0} > {1}", "i,u": "{0} >= 0 && (uint64_t){0} > {1}", "u,i": "{1} < 0 || {0} > (uint64_t){1}"},
    sample=distinct(), edges=PAIRS)

greater_equal = elementwise(
    numpy=np.greater_equal, value=sp.Ge, nondiff=True, exact=True, infix=">=",
    c={"fiub": "{0} >= {1}", "i,u": "{0} >= 0 && (uint64_t){0} >= {1}", "u,i": "{1} < 0 || {0} >= (uint64_t){1}"},
    sample=distinct(), edges=PAIRS)

equal = elementwise(
    numpy=np.equal, value=sp.Eq, nondiff=True, exact=True, infix="==",
    c={"fiub": "{0} == {1}", "i,u": "{0} >= 0 && (uint64_t){0} == {1}", "u,i": "{1} >= 0 && {0} == (uint64_t){1}"},
    sample=distinct(), edges=PAIRS)

not_equal = elementwise(
    numpy=np.not_equal, value=sp.Ne, nondiff=True, exact=True, infix="!=",
    c={"fiub": "{0} != {1}", "i,u": "{0} < 0 || (uint64_t){0} != {1}", "u,i": "{1} < 0 || {0} != (uint64_t){1}"},
    sample=distinct(), edges=PAIRS)

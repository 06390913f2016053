"""Comparisons; their derivative is zero wherever there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import PAIRS, distinct
from symgrad.ops.declare.forms import elementwise

if TYPE_CHECKING:
    from symgrad.ir.op import Elementwise


def _comparison(ufunc: np.ufunc, value: Any, infix: str, below: str, above: str) -> Elementwise:
    """Declare one; `below` and `above` say what becomes of a negative number on the left, and on the right.

    A signed integer meets an unsigned one of 64 bits in a loop of its own: C would turn it positive.
    """
    return elementwise(
        numpy=ufunc, value=value, nondiff=True, exact=True, infix=infix, sample=distinct(), edges=PAIRS,
        c={"fiub": f"{{0}} {infix} {{1}}", "i,u": f"{{0}} {below} (uint64_t){{0}} {infix} {{1}}",
           "u,i": f"{{1}} {above} {{0}} {infix} (uint64_t){{1}}"})


NEVER, ALWAYS = ">= 0 &&", "< 0 ||"

less = _comparison(np.less, sp.Lt, "<", ALWAYS, NEVER)
less_equal = _comparison(np.less_equal, sp.Le, "<=", ALWAYS, NEVER)
greater = _comparison(np.greater, sp.Gt, ">", NEVER, ALWAYS)
greater_equal = _comparison(np.greater_equal, sp.Ge, ">=", NEVER, ALWAYS)
equal = _comparison(np.equal, sp.Eq, "==", NEVER, NEVER)
not_equal = _comparison(np.not_equal, sp.Ne, "!=", ALWAYS, ALWAYS)

"""Comparisons, truth values, and the bits of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.op import Elementwise
from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import booleans, integers, pairs
from symgrad.ops.declare.forms import elementwise

BITS = pairs(0, 1, -1, 5, 127, -128)
SHIFTS = tuple((a, b) for a in (0, 1, -1, 5, -128) for b in (0, 1, 7, 8, 31, 32, 63, 64, -1))

logical_and = elementwise(
    numpy=np.logical_and, nondiff=True, c={"fiu": "{0} != 0 && {1} != 0", "b": "{0} && {1}"})

logical_or = elementwise(
    numpy=np.logical_or, nondiff=True, c={"fiu": "{0} != 0 || {1} != 0", "b": "{0} || {1}"})

logical_xor = elementwise(
    numpy=np.logical_xor, nondiff=True, c={"fiu": "({0} != 0) != ({1} != 0)", "b": "{0} != {1}"})

logical_not = elementwise(numpy=np.logical_not, nondiff=True, c={"fiu": "{0} == 0", "b": "!{0}"})

bitwise_and = elementwise(
    numpy=np.bitwise_and, nondiff=True, infix="&", c={"iu": "({t})({0} & {1})", "b": "{0} && {1}"},
    sample=booleans(), edges=BITS)

bitwise_or = elementwise(
    numpy=np.bitwise_or, nondiff=True, infix="|", c={"iu": "({t})({0} | {1})", "b": "{0} || {1}"},
    sample=booleans(), edges=BITS)

bitwise_xor = elementwise(
    numpy=np.bitwise_xor, nondiff=True, infix="^", c={"iu": "({t})({0} ^ {1})", "b": "{0} != {1}"},
    sample=booleans(), edges=BITS)

invert = elementwise(
    numpy=np.invert, nondiff=True, infix="~", c={"iu": "({t})~{0}", "b": "!{0}"},
    sample=booleans(), edges=(0, 1, -1, 5, 127, -128))

# A shift by the number of bits or more, or by a negative number, is undefined in C; NumPy shifts everything out.
left_shift = elementwise(
    numpy=np.left_shift, nondiff=True, infix="<<",
    c={"iu": "({t})((uint64_t){1} < 8 * sizeof({t}) ? (uint64_t){0} << {1} : 0)"},
    sample=integers(0, 20), edges=SHIFTS)

right_shift = elementwise(
    numpy=np.right_shift, nondiff=True, infix=">>",
    c={"i": "({t})((uint64_t){1} < 8 * sizeof({t}) ? {0} >> {1} : {0} < 0 ? -1 : 0)",
       "u": "({t})((uint64_t){1} < 8 * sizeof({t}) ? {0} >> {1} : 0)"}, sample=integers(0, 20), edges=SHIFTS)

# Of what is negative its size, which wraps for the least of all.
bitwise_count = elementwise(
    numpy=np.bitwise_count, nondiff=True, c={"iu": "sg_bitwise_count{f}({0})", "b": "({t}){0}"},
    sample=integers(-30, 30), edges=(0, 1, -1, 5, 127, -128))

gcd = elementwise(numpy=np.gcd, nondiff=True, c={"iu": "sg_gcd{f}({0}, {1})"}, sample=integers(-30, 30), edges=BITS)

lcm = elementwise(numpy=np.lcm, nondiff=True, c={"iu": "sg_lcm{f}({0}, {1})"}, sample=integers(-30, 30), edges=BITS)


def _compare_op(ufunc: np.ufunc, value: Any, infix: str, below: str, above: str) -> Elementwise:
    """Declare one; `below` and `above` say what becomes of a negative number on the left, and on the right.

    A signed integer meets an unsigned one of 64 bits in a loop of its own: C would turn it positive.
    """
    return elementwise(
        numpy=ufunc, value=value, nondiff=True, exact=True, infix=infix,
        c={"fiub": f"{{0}} {infix} {{1}}", "i,u": f"{{0}} {below} (uint64_t){{0}} {infix} {{1}}",
           "u,i": f"{{1}} {above} {{0}} {infix} (uint64_t){{1}}"})


NEVER, ALWAYS = ">= 0 &&", "< 0 ||"

less = _compare_op(np.less, sp.Lt, "<", ALWAYS, NEVER)
less_equal = _compare_op(np.less_equal, sp.Le, "<=", ALWAYS, NEVER)
greater = _compare_op(np.greater, sp.Gt, ">", NEVER, ALWAYS)
greater_equal = _compare_op(np.greater_equal, sp.Ge, ">=", NEVER, ALWAYS)
equal = _compare_op(np.equal, sp.Eq, "==", NEVER, NEVER)
not_equal = _compare_op(np.not_equal, sp.Ne, "!=", ALWAYS, ALWAYS)

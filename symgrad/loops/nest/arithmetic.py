"""Operations that take fewer of the machine's where it multiplies and adds in one rounding (FMA).

Two passes: products that are added (`fp_contract`), and divisions by constants (`reduce_strength`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.notation import Apply, How, Number, Statement
from symgrad.ir.op import Elementwise
from symgrad.loops.program import Loop, Walk, rebuild

if TYPE_CHECKING:
    from symgrad.ir.notation import Value
    from symgrad.loops.program import LoopProgram

NEAR = 8
"""How near a midpoint of two doubles a quotient may be for its rounding to be in doubt, in steps of 2**-k / y."""


quotient = Elementwise(
    "quotient", arity=4, c={"f": "sg_quotient({0}, {1}, {2}, {3})"},
    text=lambda _, arguments: f"quotient({', '.join(arguments)})",
)
"""A division by a constant, with the two parts of the inverse of that (`inverse_of`)."""


def fp_contract(program: LoopProgram) -> LoopProgram:
    """Add products of floating-point numbers in one rounding; nothing else is contracted, here or by compilers."""

    def change(_: Any, item: Any) -> Any:
        if not isinstance(item, Statement) or item.how != How.ADD:
            return item
        return item.with_(how=How.FMA) if isinstance(item.value, Apply) and item.value.is_product else item

    return program.with_body(rebuild(program.body, change))


def reduce_strength(program: LoopProgram) -> LoopProgram:
    """Multiply by inverses of constants in lanes, where divisions take long, if no quotient is rounded otherwise."""

    def divide(value: Any) -> Value:
        divisor: Any = value.args[-1] if isinstance(value, Apply) and value.op.numpy is np.divide else None
        inverse = inverse_of(divisor.value) if type(divisor) is Number and value.dtype == np.float64 else None
        if inverse is None:
            return value  # type: ignore[no-any-return]
        parts = [Number(part, value.dtype) for part in inverse]
        return Apply(quotient, (*value.args, *parts), value.dtype, value.kind)

    def change(_: Any, loop: Loop) -> Loop:
        if loop.walk is not Walk.LANES or not any(isinstance(s.value, Apply) and s.value.counts[1] for s in loop.body):  # type: ignore[union-attr]  # lanes have statements inside
            return loop
        return loop.with_(body=tuple([s.mapped(lambda a: a, lambda i: i, divide) for s in loop.body]))  # type: ignore[union-attr]

    return program.with_body(rebuild(program.body, change, Loop))


@cache
def inverse_of(y: float) -> tuple[float, float] | None:
    """Split 1 / y into a double and a rest, so that ``fma(x, inverse, x * rest)`` is x / y as it is rounded.

    Args:
        y: the divisor.

    Returns:
        The two parts, of one sign, so that an infinite x gives no infinity less infinity; None where some x's quotient
        would be rounded otherwise, where y is a power of two, or where it is so large or small that the parts might
        underflow. Quotients below 2**-967 may still be a unit in the last place off, as x * rest underflows.

    The sum's error is below 2**-104 of the quotient, so that only quotients so near a midpoint of two doubles are in
    doubt. With y an integer Y of 53 bits and x one X, ``X 2**k - M Y`` is a whole number of at most 8 then, and that
    congruence has few solutions M: each is tried. (The form is that of N. Brisebarre, J.-M. Muller, S. K. Raina,
    Accelerating correctly rounded floating-point division when the divisor is known in advance, IEEE Transactions on
    Computers 53, 2004.)

    >>> inverse_of(3.0)
    (0.3333333333333333, 1.850371707708594e-17)
    >>> inverse_of(4.0)
    """
    fraction, exponent = math.frexp(abs(y)) if math.isfinite(y) else (0.5, 0)
    if fraction == 0.5 or y == 0 or abs(exponent) > 400:
        return None
    exact = 1 / Fraction(abs(y))
    inverse = float(exact)
    if inverse > exact:
        inverse = math.nextafter(inverse, 0.0)
    rest = float(exact - Fraction(inverse))
    whole = int(fraction * 2**53)
    parts = inverse * 2.0 ** (exponent - 53), rest * 2.0 ** (exponent - 53)
    if not all(_same(x, whole, *parts) for x in doubtful(whole)):
        return None
    return math.copysign(inverse, y), math.copysign(rest, y)


def doubtful(y: int) -> list[int]:
    """List the integers x of 53 bits whose quotient by an integer y of 53 bits is nearest to midpoints of doubles."""
    found = []
    zeros = (y & -y).bit_length() - 1
    for k, least, most in ((53, y, 2**53), (54, 2**52, y)):  # quotients from 1 to 2, and from 1/2 to 1
        period = 2 ** (k - zeros)
        back = pow(y >> zeros, -1, period)
        for j in range(-NEAR, NEAR + 1):
            if j == 0 or j % 2**zeros:
                continue  # no quotient is a midpoint itself
            first = -(j >> zeros) * back % period
            start = first + -(-(2**53 - first) // period) * period
            for m in range(start, 2**54, period):
                x, none = divmod(j + m * y, 2**k)
                if m % 2 and not none and least <= x < most:
                    found.append(x)
    return found


def _same(x: int, y: int, inverse: float, rest: float) -> bool:
    """Tell whether a quotient is rounded as it should be."""
    correction = float(Fraction(x) * Fraction(rest))
    return float(Fraction(x) * Fraction(inverse) + Fraction(correction)) == float(Fraction(x, y))

"""Statements that store or accumulate, to views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.notation import Apply, Statement
from symgrad.ops.declare import ANSWERS
from symgrad.ops.spelling import BEYOND, NOT_A_NUMBER, UNLESS, ctype, expression, pattern
from symgrad.render.printer import literal
from symgrad.render.views import LetView, LocalView, StoreView

if TYPE_CHECKING:
    from symgrad.loops.program import Array, Loop
    from symgrad.render.block import Block
    from symgrad.render.views import ItemView

ACCUMULATIONS = {
    "max=": np.maximum, "min=": np.minimum, "|=": np.logical_or, "&=": np.logical_and, "*=": np.multiply, "+=": np.add,
}


NAMES = frozenset({"maximum", "minimum"})


def store(block: Block, s: Statement, target: str, text: str, made: list[ItemView]) -> StoreView:
    """Write or accumulate a value; a Boolean in memory is a byte, and `-Wconversion` wants to see that it is meant."""
    dtype = s.target.array.dtype
    byte = dtype.kind == "b" and s.target.array.place != "register"
    if s.how == "=":
        return StoreView(target, "=", f"(uint8_t)({text})" if byte else text)
    if s.how in {"+=", "*="} and dtype.kind == "f":
        return StoreView(target, s.how, text)
    op: Any = ANSWERS[ACCUMULATIONS[s.how]]
    name = block.bound(text, dtype, made)
    if s.target.array in block.apart_from:
        made.append(StoreView(target, "=", expression(BEYOND[s.how], (name, target), (dtype,) * 2, dtype)))
        return StoreView(block.apart_from[s.target.array], "+=", expression(NOT_A_NUMBER, (name,), (dtype,), dtype))
    whole = block.call(pattern(op.c, (dtype, dtype), dtype), (name, target), (dtype, dtype), dtype, {})
    return StoreView(target, "=", f"(uint8_t)({whole})" if byte else whole)


def nans_apart(block: Block, loop: Loop, made: list[ItemView]) -> list[Array]:
    """Declare, for each maximum and minimum that lanes take of floating-point numbers, a sum of the NaNs among them.

    To let NaN win costs each step of the maximum itself a comparison more, and what joins lanes a branch.
    """
    found = [array for how, array in loop.sums if how in NAMES and array.dtype.kind == "f"]
    for array in found if loop.simd and not block.target.plain else ():
        block.apart_from[array] = block.fresh(None)
        made.append(LetView(ctype(array.dtype), block.apart_from[array], literal(0.0, array.dtype)))
    return [array for array in found if array in block.apart_from]


def join_nans(block: Block, arrays: list[Array], made: list[ItemView]) -> None:
    """Let the NaNs that a loop found win."""
    for array in arrays:
        names = (block.names[array], block.apart_from.pop(array))
        made.append(StoreView(names[0], "=", expression(UNLESS, names, (array.dtype,) * 2, array.dtype)))


def fuses(block: Block, s: Statement) -> bool:
    """Tell a sum of products, which the machine adds in one rounding."""
    return (
        s.how == "+=" and block.target.fma and isinstance(s.value, Apply) and s.value.op.name == "multiply"
        and s.value.dtype.kind == "f"
    )


def multiply_add(block: Block, s: Statement, made: list[ItemView], loads: dict[str, str]) -> None:
    """Accumulate a product: only here is a contraction printed, and it is printed as one."""
    product: Any = s.value
    pair = [block.value(a, made, loads)[0] for a in product.args]
    if s.target.array.place == "register" and s.target.array not in block.names:
        made.append(LocalView(ctype(s.target.array.dtype), block.fresh(s.target.array)))
    target = block.place(s.target, made, loads)
    dtype = product.dtype
    spelled = "SG_FMA" if block.target.package else "fma"  # a call, where the machine has no such instruction
    made.append(StoreView(target, "=", expression(spelled, (*pair, target), (dtype,) * 3, dtype)))

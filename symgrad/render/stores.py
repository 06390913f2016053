"""Statements that store or accumulate, to views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Apply, Statement
from symgrad.ops.declare import OPS
from symgrad.ops.spelling import ctype, expression, pattern
from symgrad.render.views import LocalView, StoreView

if TYPE_CHECKING:
    from symgrad.render.block import Block
    from symgrad.render.views import ItemView

ACCUMULATIONS = {
    "max=": "maximum", "min=": "minimum", "|=": "logical_or", "&=": "logical_and", "*=": "multiply", "+=": "add",
}


def store(block: Block, s: Statement, target: str, text: str, made: list[ItemView]) -> StoreView:
    """Write or accumulate a value; a Boolean in memory is a byte, and `-Wconversion` wants to see that it is meant."""
    dtype = s.target.array.dtype
    byte = dtype.kind == "b" and s.target.array.place != "register"
    if s.how == "=":
        return StoreView(target, "=", f"(uint8_t)({text})" if byte else text)
    if s.how in {"+=", "*="} and dtype.kind == "f":
        return StoreView(target, s.how, text)
    op: Any = OPS[ACCUMULATIONS[s.how]]
    name = block.bound(text, dtype, made)
    whole = block.call(pattern(op.c, (dtype, dtype)), (name, target), (dtype, dtype), dtype, {})
    return StoreView(target, "=", f"(uint8_t)({whole})" if byte else whole)


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

"""What is zero because of what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.op import Elementwise, Structured
from symgrad.ir.program import BY_NUMBER
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.transforms.build import is_number
from symgrad.transforms.derive.poles import meant, tried_at_zero

if TYPE_CHECKING:
    from collections.abc import Iterable

    from symgrad.ir.node import Node


def behind(outputs: Iterable[Node], stop: int) -> list[Node]:
    """Return what outputs are made of, down to a number, each after its inputs."""
    seen = {node for node in outputs if node.number >= stop}
    stack = list(seen)
    while stack:
        for node in stack.pop().inputs:
            if node not in seen and node.number >= stop:
                seen.add(node)
                stack.append(node)
    return sorted(seen, key=BY_NUMBER)


def is_zero_constant(node: Node) -> bool:
    """Tell a number or an array of zeros."""
    if node.op is leaves.constant:
        return not node.params[0].array.any()
    return is_number(node, 0.0) or is_number(node, -0.0)


def is_zero(node: Node, zero: list[bool]) -> bool:
    """Whether a value is zero, given which of its operands are, for finite values of the others."""
    op, floats = meant(node), [z for z, i in zip(zero, node.inputs, strict=True) if i.dtype.kind == "f"]
    if isinstance(op, Elementwise):
        return any(floats) and (all(zero) or OPS.get(op.name) is op) and tried_at_zero(node, zero)
    if not isinstance(op, Structured):
        return False
    return any(z for k, z in enumerate(zero) if k in op.linear) or (not op.linear and bool(floats) and all(floats))

"""What is zero because of what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symgrad.ir.op import Composite, Elementwise
from symgrad.ops import leaves
from symgrad.transforms.build import applied, is_number

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
    return sorted(seen, key=lambda node: node.number)


def is_zero_constant(node: Node) -> bool:
    """Tell a number or an array of zeros."""
    if node.op is leaves.constant:
        return not node.params[0].array.any()
    return is_number(node, 0.0) or is_number(node, -0.0)


LINEAR_IN = {
    "divide": 0, "recurrence": 1, "solve_triangular": 1, "lu_solve": 2, "adjoint": 0,
    "cholesky_pullback": 1, "cholesky_pushforward": 1,
}
"""Which operand makes the result of an op zero."""


def is_zero(node: Node, zero: list[bool]) -> bool:
    """Tell whether a value is zero, given which of its operands are."""
    op, name = node.op, applied(node)
    if name in {"multiply", "einsum", "convolve", "slide", "symmetric_product"}:
        return any(zero)
    if name in LINEAR_IN:
        return zero[LINEAR_IN[name]]
    if name == "where":
        return all(zero[1:])
    of_floats = [z for z, i in zip(zero, node.inputs, strict=True) if i.dtype.kind == "f"]
    if isinstance(op, Composite) or not of_floats or not all(of_floats):
        return False
    if not isinstance(op, Elementwise):
        return True  # sums, products, extrema, views and moves of zeros
    params = dict(zip(op.params, node.params, strict=True))
    with np.errstate(all="ignore"):
        return bool(op.evaluate(*[np.zeros((), i.dtype) for i in node.inputs], **params) == 0)

"""Python's integers do not wrap: what a program computes of such arguments alone is looked at before a call.

C and NumPy compute in the dtype that was traced. Up to `Integers.most` nothing that is computed of arguments leaves its
dtype's range; beyond, the same operations are done with Python's integers, and what does not fit is refused.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.ir.node import SEVERAL
from symgrad.ir.op import Elementwise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.trace.signature import Signature

MOST = (1 << 63) - 1
_TRIED = (3, 7, 15, 31, 46, 62)
"""Powers of two that are tried as arguments."""
_SHOWN = 10**40
"""Up to which a number is shown."""


class Integers:
    """What a program computes of the Python integers among its arguments.

    Attributes:
        most: arguments up to this number, of either sign, make nothing that does not fit.
    """

    def __init__(self, program: Program, signature: Signature) -> None:
        """Find the scalar nodes that are made of such arguments and constants alone, by elementwise operations."""
        self.paths = {
            node: (k, path) for k, (node, spec, path) in enumerate(
                zip(program.inputs, signature.specs, signature.paths, strict=False)
            ) if spec.weak is int
        }
        self.constants: dict[Node, int] = {}
        self.nodes: list[Node] = []
        self.most = MOST
        if not self.paths:
            return
        found: set[Node] = {*self.paths}
        for node in program.nodes():
            if node.shape != () or node.dtype is SEVERAL or node.dtype.kind not in "iu":
                continue
            if node.is_constant:
                self.constants[node] = int(node.op.evaluate(**node.named))
            elif isinstance(node.op, Elementwise) and not found.isdisjoint(node.inputs) and all(
                i in found or i in self.constants for i in node.inputs
            ):
                found.add(node)
                self.nodes.append(node)
        if self.nodes:
            powers = [k for k in _TRIED if self._within(2**k)] if all(map(_is_monotone, self.nodes)) else []
            self.most = 2 ** powers[-1] if powers else 0

    def _within(self, most: int) -> bool:
        """Whether arguments up to a number make nothing that does not fit."""
        ends: dict[Node, set[int]] = {node: {value} for node, value in self.constants.items()}
        ends |= {node: {-most, -1, 0, 1, most} for node in self.paths}
        for node in self.nodes:
            values = [_applied(node, operands) for operands in itertools.product(*[ends[i] for i in node.inputs])]
            made = {one for one in values if one is not None and _holds(node.dtype, one)}
            if len(made) < len({*values}):
                return False
            low, high = min(made), max(made)
            ends[node] = {low, high, *[k for k in (-1, 0, 1) if low < k < high]}
        return True

    def _beyond(self, values: dict[Node, Any]) -> tuple[Node, int | None] | None:
        """Return the first node whose number does not fit its dtype, and the number, None where that is not known."""
        for node in self.nodes:
            operands = [values.get(i, self.constants.get(i)) for i in node.inputs]
            if any(one is None for one in operands):
                continue
            try:
                value = _applied(node, operands)
            except (ArithmeticError, ValueError):  # a division by zero: none that does not fit
                continue
            if value is None or not _holds(node.dtype, value):
                return node, value
            values[node] = value
        return None

    def check(self, leaves: Sequence[Any]) -> None:
        """Refuse arguments of which a number is made that does not fit.

        Raises:
            ArgumentError: names the argument, the line, the number and the dtype.
        """
        given: dict[Node, Any] = {node: int(leaves[k]) for node, (k, _) in self.paths.items()}
        if max(map(abs, given.values()), default=0) <= self.most:
            return
        if (found := self._beyond({**given})) is None:
            return
        node, value = found
        largest = max(given, key=lambda one: abs(given[one]))
        made = "" if value is None or abs(value) > _SHOWN else f" {value},"
        raise ArgumentError(
            f"argument {self.paths[largest][1]} is the integer {given[largest]}: of it is made a number,{made} that "
            f"{node.dtype} does not hold",
            line=node.line, instead="a float as the argument, or 1.0 * n in the function",
        )


def _is_monotone(node: Node) -> bool:
    """Whether the largest results are at the ends of the operands' ranges, or at zero or one."""
    return len(node.inputs) == 1 or getattr(node.op, "infix", None) in {"+", "-", "*"}


def _applied(node: Node, operands: Sequence[Any]) -> int | None:
    """Apply a node's operation to Python's integers; None where the operation itself finds that it does not fit."""
    try:
        return int(node.op.evaluate(*[np.array(one, object) for one in operands], **node.named))
    except OverflowError:
        return None


def _holds(dtype: np.dtype[Any], value: int) -> bool:
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)

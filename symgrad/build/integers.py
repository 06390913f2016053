"""Python's integers do not wrap: what a program computes of such arguments alone is looked at before a call.

C and NumPy compute in the dtype that was traced. Up to `Integers.most` nothing that is computed of arguments leaves its
dtype's range; beyond, the same operations are done with Python's integers, and what does not fit is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.ir.node import Node
from symgrad.ir.op import Control, Elementwise, Result
from symgrad.ir.program import Program
from symgrad.ops.declare.traits import growth
from symgrad.trace.signature import Signature

Applied = Callable[[Node, Sequence[int]], int | None]

MOST = (1 << 63) - 1
_TRIED = (3, 7, 15, 31, 46, 62)
"""Powers of two that are tried as arguments."""
ROUNDS = 1 << 8
"""So many rounds of a loop are looked at: what grows by a factor leaves 64 bits before, what is counted never does."""
BUDGET, FEWER = 1 << 12, 4
"""Rounds in all, of loops in loops, behind which a loop is looked at for fewer: what grows in one of their rounds has
grown in the first ones, or does so in the rounds of the loop around."""
_SHOWN = 10**40
"""Up to which a number is shown."""
_LARGEST = {np.dtype(code): int(np.iinfo(code).max) for code in np.typecodes["AllInteger"]}
_SIZES: dict[str, Callable[[list[int]], int]] = {"last": itemgetter(-1), "most": max, "sum": sum, "product": math.prod}


class Integers:
    """What a program computes of the Python integers among its arguments.

    Attributes:
        least, most: arguments from and up to these numbers make nothing that does not fit.
    """

    def __init__(self, program: Program, signature: Signature) -> None:
        """Find the scalar nodes that are made of such arguments and constants alone, also step by step in loops."""
        self.paths = {
            node: (k, path) for k, (node, spec, path) in enumerate(
                zip(program.inputs, signature.specs, signature.paths, strict=False)
            ) if spec.weak is int
        }
        self.constants: dict[Node, int] = {}
        self.bodies: dict[Node, list[list[Node]]] = {}
        self.most = MOST
        self.nodes = self._found(program.nodes(), {*self.paths}) if self.paths else []
        if self.nodes:
            self.most = 0
            for power in reversed(_TRIED):
                if self._beyond(dict.fromkeys(self.paths, 2**power), _largest_value) is None:
                    self.most = 2**power
                    break
        self.least = -self.most if self.nodes else -self.most - 1

    def _found(self, nodes: Sequence[Node], known: set[Node]) -> list[Node]:
        found = []
        for node in nodes:
            if node.is_constant and node.shape == () and node.dtype.kind in "iu":
                self.constants[node] = int(node.op.evaluate(**node.named))
            if not known.isdisjoint(node.inputs) and self._is_made(node, known):
                known.add(node)
                found.append(node)
        return found

    def _is_made(self, node: Node, known: set[Node]) -> bool:
        """Whether a node is a number made of what is known and constants, or a loop in which such are made."""
        if isinstance(node.op, Control):
            named, first = node.named, _first_operand(node)
            if "fixed" not in named or (first and not (node.inputs[0] in known or node.inputs[0] in self.constants)):
                return False
            if not first and "test" not in named and type(named["length"]) is not int:
                return False
            parts: list[list[Node]] = []
            there: set[Node] = set()
            for part in (named["body"], named["test"]) if "test" in named else (named["body"],):
                given = zip(part.inputs, node.inputs[first:], strict=False)
                there = {own for own, of in given if of in known or of in self.constants}
                parts.append(self._found(part.nodes(), there))
            if parts[0] and ("test" not in named or named["test"].outputs[0] in there):
                self.bodies[node] = parts
            return node in self.bodies
        made = all(i in known or i in self.constants for i in node.inputs)
        number = node.shape == () and node.dtype.kind in "iub"
        return number and made and isinstance(node.op, (Elementwise, Result))

    def _beyond(self, values: dict[Node, Any], apply: Applied) -> tuple[Node, int | None] | None:
        """Return the first node whose number does not fit its dtype, and the number, None where that is not known."""
        try:
            self._run(self.nodes, values, apply, [BUDGET])
        except _Beyond as beyond:
            return beyond.args
        return None

    def _run(self, nodes: Sequence[Node], values: dict[Node, Any], apply: Applied, left: list[int]) -> None:
        for node in nodes:
            if node in self.bodies:
                values[node] = self._looped(node, values, apply, left)
            elif isinstance(node.op, Result):
                number, states = node.param("number"), values[node.inputs[0]]
                values[node] = states[number] if number < len(states) else None
            else:
                operands: list[Any] = [values[i] if i in values else self.constants.get(i) for i in node.inputs]
                values[node] = None if None in operands else apply(node, operands)

    def _looped(self, node: Node, values: dict[Node, Any], apply: Applied, left: list[int]) -> list[Any]:
        """Return what a loop carries to its end, None of what is not known; `left` counts rounds in all."""
        named, first = node.named, _first_operand(node)
        body, fixed, carried, test = named["body"], named["fixed"], named.get("carried"), named.get("test")
        count, *given = [values.get(i, self.constants.get(i)) for i in node.inputs] if first else [
            named.get("length"), *[values.get(i, self.constants.get(i)) for i in node.inputs]
        ]
        given = given[: None if carried is None else fixed + carried]
        for k in range(ROUNDS):
            if k >= FEWER and left[0] <= 0:
                break
            left[0] -= 1
            if test is not None:
                here = dict(zip(test.inputs, given, strict=False))
                self._run(self.bodies[node][1], here, apply, left)
                if here[test.outputs[0]] in {0, None}:
                    break
            elif count is None or k >= abs(count):
                break
            here = dict(zip(body.inputs, given, strict=False))
            self._run(self.bodies[node][0], here, apply, left)
            after = [here.get(y, self.constants.get(y)) for y in body.outputs[: len(given) - fixed]]
            if after == given[fixed:]:
                break
            given[fixed:] = after
        return [None] * (test is not None) + given[fixed:]

    def check(self, leaves: Sequence[Any]) -> None:
        """Refuse arguments of which a number is made that does not fit.

        Raises:
            ArgumentError: names the argument, the line, the number and the dtype.
        """
        given: dict[Node, Any] = {node: int(leaves[k]) for node, (k, _) in self.paths.items()}
        if max(map(abs, given.values()), default=0) <= self.most:
            return
        if (found := self._beyond({**given}, _exact_value)) is None:
            return
        node, value = found
        largest = max(given, key=lambda one: abs(given[one]))
        made = "" if value is None or abs(value) > _SHOWN else f" {value},"
        raise ArgumentError(
            f"argument {self.paths[largest][1]} is the integer {given[largest]}: of it is made a number,{made} that "
            f"{node.dtype} does not hold",
            line=node.line, instead="a float as the argument, or 1.0 * n in the function",
        )


def _first_operand(node: Node) -> int:
    """Return where the operands of a loop's body begin, behind the number of its rounds if that is one of them."""
    return int("runs" in node.named and "test" not in node.named)


class _Beyond(Exception):  # noqa: N818 - it is no error
    """A number does not fit: its node, and the number."""


def _exact_value(node: Node, operands: Sequence[int]) -> int | None:
    """Apply a node's operation to Python's integers; nothing is known of a division by zero."""
    try:
        value = int(node.op.evaluate(*[np.array(one, object) for one in operands], **node.named))
    except OverflowError:
        raise _Beyond(node, None) from None
    except (ArithmeticError, ValueError):
        return None
    if node.dtype.kind == "b":
        return value
    info = np.iinfo(node.dtype)
    if not info.min <= value <= info.max:
        raise _Beyond(node, value)
    return value


def _largest_value(node: Node, sizes: Sequence[int]) -> int:
    """Return how large a node's integer is at most, of operands of such sizes."""
    if node.dtype.kind == "b":
        return 1
    sizes = [*map(abs, sizes)]
    kind = growth(node.op, node.params) if len(sizes) > 1 or "dtype" not in node.named else "most"  # a cast
    size = _SIZES[kind](sizes) if kind in _SIZES else sizes[0] ** int(kind) if kind else MOST + 1
    if node.dtype.kind == "u" or size > _LARGEST[node.dtype]:
        raise _Beyond(node, size)
    return size

"""The verifier of programs: a broken one of each kind is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from symgrad.errors import VerifyError
from symgrad.ir.node import SEVERAL, Graph, Node
from symgrad.ir.program import Program
from symgrad.ir.verify import verify
from symgrad.ops import OPS, load

load()
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)


class Made:
    """``sin(x) + y`` of vectors of three, and what it is made of."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.x, self.y = [self.node("input", (), (name, (3,), DOUBLE)) for name in "xy"]
        self.sine = self.node("sin", (self.x,))
        self.sum = self.node("add", (self.sine, self.y))
        self.program = Program((self.x, self.y), (self.sum,))

    def node(self, op: str, inputs: tuple[Node, ...], params: Any = (), shape: Any = (3,), dtype: Any = DOUBLE) -> Node:
        return self.graph.node(OPS[op], inputs, params, shape, dtype)

    def of(self, output: Node) -> Program:
        return replace(self.program, outputs=(output,))


def later(made: Made) -> Program:
    """A node that is numbered after the one that reads it."""
    made.sum.inputs = (made.node("cos", (made.x,)), made.y)
    return made.of(made.sum)


BROKEN: dict[str, tuple[Callable[[Made], Program], str]] = {
    "an input that is none": (
        lambda m: replace(m.program, inputs=(m.x, m.sine)), "sin .* among the inputs and is no input",
    ),
    "an input of several results": (
        lambda m: replace(m.program, inputs=(m.x, m.y, m.node("input", (), ("z", (), SEVERAL), (), SEVERAL))),
        "the input .* has several results",
    ),
    "two inputs of a name": (
        lambda m: replace(m.program, inputs=(m.x, m.node("input", (), m.x.params))),
        "two inputs have one name, of x, x",
    ),
    "a node that is no argument": (
        lambda m: replace(m.program, inputs=(m.x,)), "input .* is no argument of the program",
    ),
    "columns of no input": (
        lambda m: replace(m.program, fortran=frozenset({"z"})), "z lies by columns and is no input",
    ),
    "labels too few": (lambda m: replace(m.program, outputs=(m.sum, m.sine), labels=("a",)), "1 names for 2 outputs"),
    "a use before its definition": (later, "add .* reads .*cos.*, which is not defined before it"),
    "parameters too many": (lambda m: m.of(m.node("sin", (m.x,), (1,))), r"sin .* has 1 parameters for \(\)"),
    "operands that do not fit": (
        lambda m: m.of(m.node("add", (m.x, m.node("reshape", (m.y,), ((2,),), (2,))))), "cannot be",
    ),
    "a shape of its own": (lambda m: m.of(m.node("sin", (m.x,), (), (4,))), r"sin .* should be float64\[3\]"),
    "a dtype of its own": (lambda m: m.of(m.node("sin", (m.x,), (), (3,), SINGLE)), r"sin .* should be float64\[3\]"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_program_is_found(kind: str) -> None:
    make, message = BROKEN[kind]
    with pytest.raises(VerifyError, match=f"^pass: .*{message}"):
        verify(make(Made()), "pass")


def test_a_right_one_is_returned() -> None:
    made = Made()
    assert verify(made.program) is made.program

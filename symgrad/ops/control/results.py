"""What an op of several results gives: each of them is a value of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from symgrad.errors import ShapeError
from symgrad.ir.graphs import reachable
from symgrad.ir.node import SEVERAL, Node
from symgrad.ir.op import Control, Result
from symgrad.ir.program import Program
from symgrad.ir.shapes import Shape
from symgrad.ops.declare.forms import enter


def _infer(several: Node, *, number: int) -> tuple[Shape, Any]:
    if not isinstance(several.op, Control):
        raise ShapeError(f"a result of {several.op.name}, which has one")
    found = several.op.results(*several.inputs, **several.named)
    if not 0 <= number < len(found):
        raise ShapeError(f"result {number} of {several.op.name}, which has {len(found)}")
    return found[number]


result = enter(Result(
    "result", ("number",), evaluate=lambda several, number: several[number], infer=_infer, sample=(), edges=(),
))


def needed(node: Node) -> Sequence[Node]:
    """Return what a node is made of: of one of several results, what that one is."""
    if not isinstance(node.op, Result):
        return node.inputs
    several: Any = node.inputs[0]
    flags = several.op.needs(node.param("number"), **several.named)
    return [i for i, flag in zip(several.inputs, flags, strict=True) if flag]


def read_by(program: Program, outputs: Iterable[Node]) -> set[Node]:
    """Return the inputs of a program that some of its outputs are made of."""
    return reachable(outputs, needed).keys() & {*program.inputs}


def closure(body: Program, wanted: Iterable[int], fixed: int, carried: int) -> set[int]:
    """Return the outputs of a loop's body that some of them are made of, in any number of steps."""
    found = {*wanted}
    while True:
        read = read_by(body, [body.outputs[k] for k in found])
        more = {k for k in range(carried) if body.inputs[fixed + k] in read} - found
        if not more:
            return found
        found |= more


def control(*, name: str, params: tuple[str, ...], results: Any, evaluate: Any, **fields: Any) -> Control:
    """Declare an op of several results."""

    def infer(*inputs: Node, **named: Any) -> tuple[Shape, Any]:
        results(*inputs, **named)
        return (), SEVERAL

    op = Control(name, params, evaluate=evaluate, infer=infer, results=results, sample=(), edges=(), **fields)
    enter(op)
    return op


def fits(body: Program, inputs: list[tuple[Any, Any]], what: str) -> None:
    """Check what a body is given.

    Raises:
        ShapeError: it takes something else.
    """
    taken = [(i.shape, i.dtype) for i in body.inputs]
    if taken != inputs:
        raise ShapeError(f"the body of {what} takes {taken} and is given {inputs}")

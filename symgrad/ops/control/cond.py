"""`cond`: one of two programs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from symgrad.errors import ShapeError
from symgrad.ops.control.results import control, fits, read_by

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Shape


def _results(test: Node, *inputs: Node, then: Program, other: Program) -> list[tuple[Shape, Any]]:
    """Return the results of either."""
    if test.shape != () or test.dtype.kind != "b":
        raise ShapeError(f"a branch by {test.dtype.name} of shape {test.shape}")
    made = []
    for body in (then, other):
        fits(body, [(x.shape, x.dtype) for x in inputs], "a branch")
        made.append([(y.shape, y.dtype) for y in body.outputs])
    if made[0] != made[1]:
        raise ShapeError(f"a branch gives {made[0]} or {made[1]}")
    return made[0]


@lru_cache(maxsize=64)
def _needs(index: int, *, then: Program, other: Program) -> tuple[bool, ...]:
    """Return of what a result is made on either side."""
    first, second = [read_by(body, [body.outputs[index]]) for body in (then, other)]
    return (True, *[x in first or y in second for x, y in zip(then.inputs, other.inputs, strict=True)])


cond = control(
    name="cond", params=("then", "other"), results=_results, needs=_needs,
    evaluate=lambda test, *arrays, then, other: (then if test else other)(*arrays),
)

"""`while_`: a program applied again and again, as long as another one says so."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ops.control.results import closure, control, fits, read_by
from symgrad.ops.declare.forms import INT

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Dim, Shape


def _results(
    *inputs: Node, test: Program, body: Program, fixed: int, most: Dim, runs: tuple[int, ...],
) -> list[tuple[Shape, Any]]:
    """Return how many steps there were, and the last values that are carried."""
    del most, runs
    given = [(x.shape, x.dtype) for x in inputs]
    if len(inputs) < fixed:
        raise ShapeError(f"a loop with {fixed} values that stay, of {len(inputs)}")
    fits(test, given, "a loop's condition")
    fits(body, given, "a loop")
    if [(y.shape, y.dtype.kind) for y in test.outputs] != [((), "b")]:
        raise ShapeError("a loop's condition is one Boolean")
    made = [(y.shape, y.dtype) for y in body.outputs]
    if made != given[fixed:]:
        raise ShapeError(f"a loop carries {given[fixed:]}, and its body gives {made}")
    return [((), INT), *made]


def _evaluate(
    *arrays: Any, test: Any, body: Any, fixed: int, most: int | None, runs: tuple[int, ...],
) -> list[Any]:
    del runs
    constants, state, steps = arrays[:fixed], arrays[fixed:], 0
    while (most is None or steps < most) and test(*constants, *state)[0]:
        state, steps = body(*constants, *state), steps + 1
    return [np.int64(steps), *state]


@lru_cache(maxsize=64)
def _needs(
    index: int, *, test: Program, body: Program, fixed: int, most: Dim, runs: tuple[int, ...],
) -> tuple[bool, ...]:
    """Return of what a result is made in all steps, and what says how many there are."""
    del most, runs
    carried = len(body.inputs) - fixed
    asked = read_by(test, test.outputs)
    wanted = {k for k in range(carried) if test.inputs[fixed + k] in asked} | ({index - 1} if index else set())
    outputs = closure(body, wanted, fixed, carried)
    read = read_by(body, [body.outputs[k] for k in outputs])
    flags = zip(test.inputs, body.inputs, strict=True)
    return tuple([x in asked or y in read or k - fixed in outputs for k, (x, y) in enumerate(flags)])


while_ = control(
    name="while_", params=("test", "body", "fixed", "most", "runs"), results=_results, evaluate=_evaluate, needs=_needs,
)
"""After `most` steps it ends, if that is not None; `runs` are those of `counted`, which its derivative is made of."""

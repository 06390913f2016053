"""`while_`: a program applied again and again, as long as another one says so."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.ir.shapes import Dim, Shape
from symgrad.ops.control.results import closure, control, fits, read_by
from symgrad.ops.declare.forms import INT


def _results(
    *inputs: Node, test: Program, body: Program, fixed: int, most: Dim, runs: tuple[int, ...],
) -> list[tuple[Shape, Any]]:
    """Return how many steps there were, the last values that are carried, and what is stacked of each step."""
    given = [(x.shape, x.dtype) for x in inputs]
    carried = len(inputs) - fixed
    if carried < 0:
        raise ShapeError(f"a loop with {fixed} values that stay, of {len(inputs)}")
    if len(body.outputs) > carried and (most is None or runs):
        raise ShapeError("a loop in runs, or of any number of steps, stacks nothing")
    fits(test, given, "a loop's condition")
    fits(body, given, "a loop")
    if [(y.shape, y.dtype.kind) for y in test.outputs] != [((), "b")]:
        raise ShapeError("a loop's condition is one Boolean")
    made = [(y.shape, y.dtype) for y in body.outputs]
    if made[:carried] != given[fixed:]:
        raise ShapeError(f"a loop carries {given[fixed:]}, and its body gives {made[:carried]}")
    return [((), INT), *made[:carried], *[((most, *shape), dtype) for shape, dtype in made[carried:]]]


def _evaluate(*arrays: Any, test: Any, body: Any, fixed: int, most: int | None, runs: tuple[int, ...]) -> list[Any]:
    del runs
    constants, state, steps = arrays[:fixed], arrays[fixed:], 0
    stacked: list[Any] = []
    while (most is None or steps < most) and test(*constants, *state)[0]:
        found = body(*constants, *state)
        state = found[: len(state)]
        stacked = stacked or [np.zeros((most, *np.shape(y)), np.asarray(y).dtype) for y in found[len(state) :]]
        for rows, y in zip(stacked, found[len(state) :], strict=True):
            rows[steps] = y
        steps += 1
    if not steps and most is not None:
        stacked = [np.zeros((most, *shape), dtype) for shape, dtype in getattr(body, "results", ())[len(state) :]]
    return [np.int64(steps), *state, *stacked]


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
"""After `most` steps it ends, if that is not None, and its body may give more than what is carried: that is stacked, a
row a step, and rows of no step hold nothing. `runs` are those of `counted`, which its derivative is made of."""

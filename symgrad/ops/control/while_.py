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


def _results(*inputs: Node, test: Program, body: Program, fixed: int, most: Dim) -> list[tuple[Shape, Any]]:
    """Return how many steps there were, the last values that are carried, and what is stacked of each step."""
    given = [(x.shape, x.dtype) for x in inputs]
    carried = len(inputs) - fixed
    if carried < 0:
        raise ShapeError(f"a loop with {fixed} values that stay, of {len(inputs)}")
    fits(test, given, "a loop's condition")
    fits(body, given, "a loop")
    if [(y.shape, y.dtype.kind) for y in test.outputs] != [((), "b")]:
        raise ShapeError("a loop's condition is one Boolean")
    made = [(y.shape, y.dtype) for y in body.outputs]
    if made[:carried] != given[fixed:] or (most is None and len(made) > carried):
        raise ShapeError(f"a loop carries {given[fixed:]}, and its body gives {made}")
    return [((), INT), *made[:carried], *[((most, *shape), dtype) for shape, dtype in made[carried:]]]


def _evaluate(*arrays: Any, test: Any, body: Any, fixed: int, most: int | None) -> list[Any]:
    constants, state = arrays[:fixed], [*arrays[fixed:]]
    carried = len(state)
    rows: list[Any] = []
    while (most is None or len(rows) < most) and test(*constants, *state)[0]:
        found = body(*constants, *state)
        state = [*found[:carried]]
        rows.append(found[carried:])
    stacked = []
    kinds = [(np.shape(y), np.asarray(y).dtype) for y in rows[0]] if rows else []
    if not rows and most is not None:
        kinds = body.results[carried:]  # of an interpreted program
    for k, (shape, dtype) in enumerate(kinds):
        stacked.append(np.zeros((most, *shape), dtype))
        for t, row in enumerate(rows):
            stacked[k][t] = row[k]
    return [np.int64(len(rows)), *state, *stacked]


@lru_cache(maxsize=64)
def _needs(index: int, *, test: Program, body: Program, fixed: int, most: Dim) -> tuple[bool, ...]:
    """Return of what a result is made in all steps, and what says how many there are."""
    del most
    carried = len(body.inputs) - fixed
    asked = read_by(test, test.outputs)
    wanted = {k for k in range(carried) if test.inputs[fixed + k] in asked} | ({index - 1} if index else set())
    outputs = closure(body, wanted, fixed, carried)
    read = read_by(body, [body.outputs[k] for k in outputs])
    flags = zip(test.inputs, body.inputs, strict=True)
    return tuple([x in asked or y in read or k - fixed in outputs for k, (x, y) in enumerate(flags)])


while_ = control(
    name="while_", params=("test", "body", "fixed", "most"), results=_results, evaluate=_evaluate, needs=_needs,
)

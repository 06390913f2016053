"""`scan`: a program applied again and again, to what it gave the time before and to the next rows of arrays.

`counted` is a scan whose first operand says how many of the rows there are steps for.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    *inputs: Node, body: Program, length: Dim, fixed: int, carried: int, reverse: bool, rowless: bool = False,
) -> list[tuple[Shape, Any]]:
    """Return the last values that are carried, and what is stacked of each step."""
    del reverse
    if (length is None or rowless) and (not rowless or len(inputs) > fixed + carried or len(body.outputs) > carried):
        raise ShapeError("a loop in runs, or of any number of steps, has no rows")
    if len(inputs) < fixed + carried or len(body.outputs) < carried:
        raise ShapeError(f"a scan that carries {carried} of {len(inputs)} values, and gives {len(body.outputs)}")
    rows = inputs[fixed + carried :]
    if any(x.shape[:1] != (length,) for x in rows):
        raise ShapeError(f"a scan of {length} steps over rows of {[x.shape for x in rows]}")
    given = [(x.shape, x.dtype) for x in inputs[: fixed + carried]] + [(x.shape[1:], x.dtype) for x in rows]
    fits(body, given, "a scan")
    made = [(y.shape, y.dtype) for y in body.outputs]
    if made[:carried] != given[fixed : fixed + carried]:
        raise ShapeError(f"a scan carries {given[fixed : fixed + carried]}, and its body gives {made[:carried]}")
    return [*made[:carried], *[((length, *shape), dtype) for shape, dtype in made[carried:]]]


def _evaluate(
    *arrays: Any, body: Any, length: int | None, fixed: int, carried: int, reverse: bool, count: int | None = None,
) -> list[Any]:
    """Run the body once for each step; what is stacked has the rows' order, whichever way the steps go."""
    constants, state, rows = arrays[:fixed], [*arrays[fixed : fixed + carried]], arrays[fixed + carried :]
    stacked: list[Any] = []
    steps: Any = length if count is None else count
    for t in range(steps)[:: -1 if reverse else 1]:
        found: Sequence[Any] = body(*constants, *state, *[x[t] for x in rows])
        state = [*found[:carried]]
        stacked = stacked or [np.zeros((length, *np.shape(y)), np.asarray(y).dtype) for y in found[carried:]]
        for all_, y in zip(stacked, found[carried:], strict=True):
            all_[t] = y
    if not steps and length is not None:
        stacked = [np.zeros((length, *shape), dtype) for shape, dtype in body.results[carried:]]  # of an interpreted
    return [*state, *stacked]


@lru_cache(maxsize=64)
def _needs(index: int, *, body: Program, length: Dim, fixed: int, carried: int, reverse: bool) -> tuple[bool, ...]:
    """Return of what a result is made, in all steps; what is carried is where it begins, too."""
    del length, reverse
    outputs = closure(body, [index], fixed, carried)
    read = read_by(body, [body.outputs[k] for k in outputs])
    return tuple([x in read or k - fixed in outputs & {*range(carried)} for k, x in enumerate(body.inputs)])


scan = control(
    name="scan", params=("body", "length", "fixed", "carried", "reverse"), results=_results, evaluate=_evaluate,
    needs=_needs,
)


def _counted(count: Node, *inputs: Node, runs: tuple[int, ...], **named: Any) -> list[tuple[Shape, Any]]:
    """Return the results of a scan."""
    if (count.shape, count.dtype) != ((), INT):
        raise ShapeError(f"a number of steps of {count.dtype.name} and shape {count.shape}")
    return _results(*inputs, **named, rowless=bool(runs) or named["length"] is None)


counted = control(
    name="counted", params=(*scan.params, "runs"), results=_counted,
    evaluate=lambda count, *arrays, runs, **named: _evaluate(*arrays, count=int(count), **named),
    needs=lambda index, *, runs, **named: (True, *_needs(index, **named)),
)
"""With `runs`, reverse mode keeps only what is carried into each run of ``runs[0]`` steps, and of these in the same
way by the others; without, the rows of `length` steps, or, where there is no length, it begins again for each."""

"""`guard`: what a condition came to where Python branched on it; where it comes to something else, the call leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import Missed, ShapeError
from symgrad.ir.node import Node
from symgrad.ir.notation import Access, Body, How, Number, Role, Statement
from symgrad.ir.shapes import Shape
from symgrad.ops.declare.forms import apply, structured

OUT = Access(-1, ())
UNTOLD = 1 << 20
"""From here on number the guards of loops: which of Python's conditions came to something else there, nobody knows."""


def _infer(x: Node, *, outcome: Any, number: int) -> tuple[Shape, Any]:
    if x.shape != () or x.dtype.kind not in "biu" or number < 0:
        raise ShapeError(f"guard {number} of {x.dtype.name}{list(x.shape)}, which can not come to {outcome!r}")
    return (), np.dtype(bool)


def _evaluate(x: Any, *, outcome: Any, number: int) -> Any:
    if x != outcome:
        raise Missed(number)
    return np.True_


def _body(node: Node) -> Body:
    outcome, number = node.params
    kind, read = node.inputs[0].dtype, Access(0, ())
    other: Any = read
    if outcome is True:
        other = apply("logical_not", kind, read, dtype=node.dtype)
    elif outcome is not False:
        other = apply("not_equal", kind, read, Number(outcome, kind), dtype=node.dtype)
    return Body((Statement(OUT, How.CHECK, other, (), node.line, Role.GUARD, failure=number),))


guard = structured(
    name="guard", params=("outcome", "number"), infer=_infer, evaluate=_evaluate, body=_body, nondiff=True,
    sample=(), edges=(), decides=True,
)

"""`call`: a program that is run where it stands; its derivative runs it again, and keeps nothing but its arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from symgrad.ops.control.results import control, fits, read_by

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Shape


def _results(*inputs: Node, body: Program) -> list[tuple[Shape, Any]]:
    fits(body, [(x.shape, x.dtype) for x in inputs], "a call")
    return [(y.shape, y.dtype) for y in body.outputs]


@lru_cache(maxsize=64)
def _needs(index: int, *, body: Program) -> tuple[bool, ...]:
    """Return of what a result is made."""
    read = read_by(body, [body.outputs[index]])
    return tuple([x in read for x in body.inputs])


call = control(
    name="call", params=("body",), results=_results, evaluate=lambda *arrays, body: body(*arrays), needs=_needs,
)

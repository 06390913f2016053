"""`cond`: one of two programs; `call`: a program where it stands, whose derivative runs it again and keeps nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from symgrad.errors import ShapeError
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.ir.shapes import Shape
from symgrad.ops.control.results import control, fits, read_by


def _results(inputs: Sequence[Node], what: str, *held: Program) -> list[tuple[Shape, Any]]:
    """Return the results of either."""
    for body in held:
        fits(body, [(x.shape, x.dtype) for x in inputs], what)
    made = [[(y.shape, y.dtype) for y in body.outputs] for body in held]
    if made[0] != made[-1]:
        raise ShapeError(f"a branch gives {made[0]} or {made[-1]}")
    return made[0]


def _cond_results(test: Node, *inputs: Node, then: Program, other: Program) -> list[tuple[Shape, Any]]:
    if test.shape != () or test.dtype.kind != "b":
        raise ShapeError(f"a branch by {test.dtype.name} of shape {test.shape}")
    return _results(inputs, "a branch", then, other)


@lru_cache(maxsize=64)
def _needs(index: int, **held: Program) -> tuple[bool, ...]:
    """Return of what a result is made on either side."""
    flags = []
    for body in held.values():
        read = read_by(body, [body.outputs[index]])
        flags.append([x in read for x in body.inputs])
    return tuple(map(any, zip(*flags, strict=True)))


call = control(
    name="call", params=("body",), results=lambda *inputs, body: _results(inputs, "a call", body),
    evaluate=lambda *arrays, body: body(*arrays), needs=_needs,
)

cond = control(
    name="cond", params=("then", "other"), results=_cond_results,
    evaluate=lambda test, *arrays, then, other: (then if test else other)(*arrays),
    needs=lambda index, **held: (True, *_needs(index, **held)),
)

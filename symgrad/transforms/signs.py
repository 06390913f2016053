"""`signs`: a negation is carried to a sum, where it costs nothing: ``x + (-a) * b`` is ``x - a * b``, to the last bit.

Rules of differences leave many of them. A product that others read too stays as it is.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from symgrad.ir.program import copied, rebuild
from symgrad.transforms.build import literal, make, scalar, shaped

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program

FACTORS = 4
"""So many factors deep a sign is looked for."""


def signs(program: Program) -> Program:
    """Leave out negations that sums and numbers can take over.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x, y: x + (-y) * x)
    >>> f.lower(1.0, 2.0).as_text().count("x - v0")
    1
    """
    nodes = program.nodes()
    if not any(node.op.name == "negative" for node in nodes):
        return program
    uses = Counter([i for node in nodes for i in node.inputs] + [*program.outputs])

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        made = _rewritten(graph, old, inputs, uses) if old.dtype.kind == "f" else None
        return copied(graph, old, inputs) if made is None else shaped(graph, made, old.shape)

    return rebuild(program, rewrite)


def _rewritten(graph: Graph, old: Node, inputs: tuple[Node, ...], uses: Counter[Node]) -> Node | None:
    """Return a node without the sign of an operand; None where there is none to leave out."""
    name = old.op.name
    if name == "negative":
        return _scaled(graph, old.inputs[0], inputs[0], uses) or _opposite(graph, old.inputs[0], inputs[0], uses)
    if name == "multiply":
        for k, other in ((0, 1), (1, 0)):
            number = scalar(inputs[other])
            if number is not None and inputs[k].op.name == "negative":
                return make(graph, "multiply", inputs[k].inputs[0], literal(graph, -number, old.dtype))
        return None
    if name not in {"add", "subtract"}:
        return None
    for k in (1, 0) if name == "add" else (1,):
        opposite = _opposite(graph, old.inputs[k], inputs[k], uses)
        if opposite is not None:
            return make(graph, "subtract" if name == "add" else "add", inputs[1 - k], opposite)
    return None


def _scaled(graph: Graph, old: Node, new: Node, uses: Counter[Node]) -> Node | None:
    """Return the negative of a number's product: the number takes the sign."""
    if new.op is not old.op or new.op.name != "multiply" or uses[old] != 1:
        return None
    for k in (0, 1):
        number = scalar(new.inputs[k])
        if number is not None:
            return make(graph, "multiply", literal(graph, -number, new.dtype), new.inputs[1 - k])
    return None


def _opposite(graph: Graph, old: Node, new: Node, uses: Counter[Node], depth: int = FACTORS) -> Node | None:
    """Return what a value is the negative of, where that is no more work: ``-x``, ``(-x) * y``, ``(-x) / y``."""
    if new.op.name == "negative":
        return new.inputs[0]
    if new.op is not old.op or old.op.name not in {"multiply", "divide"} or uses[old] != 1 or not depth:
        return None
    for k in (0, 1):
        opposite = _opposite(graph, old.inputs[k], new.inputs[k], uses, depth - 1)
        if opposite is not None:
            return make(graph, old.op, *((opposite, new.inputs[1]) if k == 0 else (new.inputs[0], opposite)))
    return None

"""A compiled function called with traced values: derived on the caller's table and put in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.program import copied
from symgrad.trace.tracer import Tracer, as_node, cast
from symgrad.transforms.stabilize import stabilize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.trace.state import Trace


def inlined(
    outer: Trace, program: Program, derive: Callable[[Program], Program], leaves: Sequence[Any],
) -> list[Tracer]:
    """Derive a nested program, then replace its inputs by the caller's values.

    The inputs were fresh ones, so that what the function closes over is constant to its derivative even where it
    is the same value as an argument: ``d/dx (x * d/dy (x + y))`` is 1.
    """
    derived = derive(stabilize(program))
    graph = outer.graph
    new: dict[Node, Node] = {}
    for node, leaf in zip(derived.inputs, leaves, strict=True):
        value = as_node(outer, leaf)
        new[node] = value if value.dtype == node.dtype else cast(outer, value, node.dtype)
    before = graph.line
    for node in derived.nodes():
        if node not in new:
            graph.line = node.line
            new[node] = copied(graph, node, tuple([new.get(i, i) for i in node.inputs]))
    graph.line = before
    return [Tracer(new.get(o, o), outer) for o in derived.outputs]

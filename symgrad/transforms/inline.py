"""Composites to their bodies, after derivation: what has a rule of its own needs it no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.op import Composite
from symgrad.ir.program import Program, copied, rebuild
from symgrad.trace.state import active_on, passing
from symgrad.trace.tracer import Tracer, as_node

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node


def inline(program: Program) -> Program:
    """Put the body of every composite in its place; a body may hold composites again."""
    while any(isinstance(node.op, Composite) for node in program.nodes()):
        program = rebuild(program, _inlined)
    return program


def _inlined(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    if not isinstance(node.op, Composite):
        return copied(graph, node, inputs)
    with passing(active_on(graph, node.op.name)) as trace:
        params = dict(zip(node.op.params, node.params, strict=True))
        return as_node(trace, node.op.body(*[Tracer(i, trace) for i in inputs], **params))

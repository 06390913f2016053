"""`sink`: a choice between two calls of one function becomes one call of the function of a choice.

``where(y > 0, log1p(exp(-z)), log1p(exp(z)))`` is ``log1p(exp(where(y > 0, -z, z)))``: the same bits, half of the work,
and a formulation that other rules know. It is no rule of a table, for it compares the calls of both branches.
"""

from __future__ import annotations

from collections import Counter

from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.declare.spelling import has_call
from symgrad.ops.declare.traits import chooses
from symgrad.ops.elementwise.selection import where
from symgrad.transforms.build import make


def sink(program: Program) -> Program:
    """Let choices happen before the functions that both branches call, where nothing else uses the branches.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x, y: np.where(y > 0, np.sin(x), np.sin(y)))
    >>> f.lower(1.0, 2.0).as_text("stable").count("np.sin")
    1
    """
    choices = [node for node in program.nodes() if chooses(node.op)] if any(map(chooses, program.ops)) else []
    if all(_differing(*node.inputs[1:]) is None for node in choices):
        return program
    uses = Counter([read for node in program.nodes() for read in node.inputs] + list(program.outputs))

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        if not chooses(old.op):
            return copied(graph, old, inputs)
        condition, *branches = inputs
        before = list(old.inputs[1:])
        peeled: list[tuple[Node, int]] = []
        while (place := _differing(*branches)) is not None and all(uses[node] == 1 for node in before):
            peeled.append((branches[0], place))
            branches, before = [[node.inputs[place] for node in nodes] for nodes in (branches, before)]
        if not peeled:
            return copied(graph, old, inputs)
        node = make(graph, where, condition, *branches)
        for call, place in reversed(peeled):
            given = (*call.inputs[:place], node, *call.inputs[place + 1 :])
            node = make(graph, call.op, *given, **call.named)
        return node

    return rebuild(program, rewrite)


def _differing(first: Node, second: Node) -> int | None:
    """Return which one operand of the same costly function differs; None where it is not so."""
    op = first.op
    if op is not second.op or first.params != second.params or first is second or not isinstance(op, Elementwise):
        return None
    if not has_call(op.c.get("f", "")) or first.shape != second.shape:
        return None
    places = [k for k, (a, b) in enumerate(zip(first.inputs, second.inputs, strict=True)) if a is not b]
    if len(places) != 1:
        return None
    (a, b) = first.inputs[places[0]], second.inputs[places[0]]
    return places[0] if a.shape == b.shape == first.shape and a.dtype == b.dtype else None

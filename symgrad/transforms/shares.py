"""`shares`: the exponential of a log-softmax is a quotient of exponentials that are there anyway.

``exp(x - log(sum(exp(x))))``, which gradients of log-softmax are made of, becomes ``exp(x) / sum(exp(x))``: half of the
exponentials, and more digits, for x - log(s) is rounded before it is magnified. It is done last, when all derivatives
are taken: those of the first form are the simpler ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.program import copied, rebuild
from symgrad.transforms.build import make
from symgrad.transforms.matching import again, argument, core

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program

VIEWS = frozenset({"expand_dims", "reshape", "broadcast_to"})


def shares(program: Program) -> Program:
    """Divide exponentials by their sum where the logarithm of the sum is subtracted in another exponential.

    >>> import numpy as np, symgrad as sg
    >>> from scipy import special
    >>> f = sg.grad(lambda x: special.log_softmax(x)[0])
    >>> f.lower(np.ones(3)).as_text("optimized").count("np.exp")
    1
    """
    if not any(_total(node) is not None for node in program.nodes()):
        return program

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        new = copied(graph, old, inputs)
        found = _total(new)
        if found is None:
            return new
        return make(graph, "divide", make(graph, "exp", new.inputs[0].inputs[0]), _sum(graph, *found))

    return rebuild(program, rewrite)


def _total(node: Node) -> tuple[Node, list[Node]] | None:
    """Return s and the views of its logarithm where the node is exp(x - log(s)), with s = sum(exp(x)) and x <= 0."""
    logarithm = argument(node, "exp")
    if logarithm is None or logarithm.op.name != "subtract":
        return None
    x, total = logarithm.inputs
    views: list[Node] = []
    while total.op.name in VIEWS:
        views.append(total)
        total = total.inputs[0]
    sums = argument(total, "log")
    if sums is None or x.shape != node.shape or not _is_shifted(x):
        return None
    inner = core(sums)
    return (sums, views) if inner.op.name == "sum" and argument(inner.inputs[0], "exp") is x else None


def _is_shifted(x: Node) -> bool:
    """Tell x - max(x), by which no exponential is too large; where the maximum is not finite it is left out."""
    if x.op.name != "subtract":
        return False
    shift = core(x.inputs[1])
    if shift.op.name == "where":
        shift = core(shift.inputs[1])
    return shift.op.name == "max" and shift.inputs[0] is x.inputs[0]


def _sum(graph: Graph, sums: Node, views: list[Node]) -> Node:
    for view in reversed(views):
        sums = again(graph, view, sums)
    return sums

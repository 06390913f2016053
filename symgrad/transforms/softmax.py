"""`divide_exponentials`: the exponential of a log-softmax is a quotient of exponentials that are there anyway.

``exp(x - log(sum(exp(x))))``, which gradients of log-softmax and logsumexp are made of, becomes
``exp(x) * (1 / sum(exp(x)))``: half of the exponentials, and more digits, for x - log(s) is rounded before it is
magnified. It is done last, when all derivatives are taken: those of the first form are the simpler ones. It is no
pair, for the sum is found behind views, a shift and a choice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from symgrad import ops
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.declare.traits import chooses
from symgrad.ops.elementwise.arithmetic import add, multiply
from symgrad.ops.elementwise.selection import where
from symgrad.transforms.build import again, behind_spread, core, is_along, is_number, literal, make, written
from symgrad.transforms.rewrite.cheaper import is_shifted_by_largest
from symgrad.transforms.rewrite.engine import PARAM, Form, viewed


def divide_exponentials(program: Program) -> Program:
    """Divide exponentials by their sum where the logarithm of the sum is subtracted in another exponential.

    >>> import numpy as np, symgrad as sg
    >>> from scipy import special
    >>> f = sg.grad(lambda x: special.log_softmax(x)[0])
    >>> f.lower(np.ones(3)).as_text("optimized").count("np.exp")
    1
    """
    exp = ops.exp
    if exp not in program.ops or all(_parts_of_softmax(node) is None for node in program.nodes() if node.op is exp):
        return program

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        new = copied(graph, old, inputs)
        found = _parts_of_softmax(new) if new.op is exp else None
        if found is None:
            return new
        inverse = written(graph, np.reciprocal, found.total)
        for view in reversed(found.views):
            inverse = again(graph, view, inverse)
        quotient = make(graph, multiply, written(graph, np.exp, found.x), inverse)
        return quotient if found.tie is None else make(graph, where, found.tie, literal(graph, 1, new.dtype), quotient)

    return rebuild(program, rewrite)


class _Quotient(NamedTuple):
    """An exponential that is exp(x) / sum(exp(x)).

    Attributes:
        x: at most 0.
        total: the sum.
        views: what stands between the sum's logarithm and x, the last one first.
        tie: where the quotient is 1 whatever the sum is: one of two infinities.
    """

    x: Node
    total: Node
    views: list[Node]
    tie: Node | None


def _parts_of_softmax(node: Node) -> _Quotient | None:
    """Return the parts of exp(x - log(s)), with s = sum(exp(x)), or of exp(x - (log(s) + m)), with s of x - m.

    None for any other exponential.
    """
    (logarithm,), tie = node.inputs, None
    if chooses(logarithm.op) and is_number(logarithm.inputs[1], 0.0):
        tie, _, logarithm = logarithm.inputs
    if not _DIFFERENCE(logarithm):
        return None
    x, total = logarithm.inputs
    views: list[Node] = []
    while total.op.ordered or total.op.aligned:
        views.append(total)
        total = total.inputs[0]
    if x.shape != node.shape:
        return None
    if total.op is not add:
        if _shifted_logarithm(total) is not x:
            return None
        asked = _INFINITE(tie) if tie is not None and not chooses(core(x.inputs[1]).op) else None
        finite = asked is not None and core(asked["s"]) is core(total.inputs[0])  # the sum is 1 and a few more, or NaN
        return _Quotient(x, total.inputs[0], views, None if finite else tie)
    for summed, shift in (total.inputs, total.inputs[::-1]):
        shifted = _shifted_logarithm(summed)
        if shifted is None or shifted.inputs[0] is not x or not summed.shape == shift.shape == total.shape:
            continue
        sums = summed.inputs[0]
        spread = is_along(logarithm.inputs[1].shape, x.shape, core(sums).param("axes"))  # along the same axes
        if spread and behind_spread(shift) is behind_spread(shifted.inputs[1]):
            return _Quotient(shifted, sums, views, tie)
    return None


def _shifted_logarithm(node: Node) -> Node | None:
    """Return x - max(x) where the node is log(sum(exp(x - max(x)))) along the same axes.

    The sum is 1 at least, or NaN, but where a choice stands for a maximum that is not finite.
    """
    found = _SUMMED(node)
    return found["x"] if found is not None and is_shifted_by_largest(**found) else None


_DIFFERENCE = Form(lambda x, y: x - y)
_SUMMED = Form(lambda x, axes: np.log(viewed(ops.sum(np.exp(x), axes=axes))), axes=PARAM)
_INFINITE = Form(lambda s, q: np.isinf(viewed(np.log(s))) & q)

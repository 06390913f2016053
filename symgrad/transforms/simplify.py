"""`simplify`: rewrites that change no bit of any result.

So there is no ``0 * x -> 0`` (x may be infinite), no ``x + 0 -> x`` (x may be -0.0), no re-association.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir import shapes
from symgrad.ir.op import Elementwise
from symgrad.ir.program import rebuild
from symgrad.ops import leaves
from symgrad.transforms.build import is_number, literal, make, scalar, shaped
from symgrad.transforms.matching import constant, core, number
from symgrad.transforms.places import PLACE_RULES
from symgrad.transforms.views import VIEW_RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program

    Rule = Callable[[Graph, Node], Node | None]

ROUNDS = 16
"""A node is rewritten at most so often; every rule makes it smaller or moves a view towards its source."""


def simplify(program: Program) -> Program:
    """Rewrite a program to a smaller one with the same results, bit for bit."""
    return rebuild(program, simplified)


def simplified(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
    """Make a node anew and rewrite it until no rule fires."""
    return _rewritten(graph, graph.node(old.op, inputs, old.params, old.shape, old.dtype, old.line))


def _rewritten(graph: Graph, node: Node) -> Node:
    for _ in range(ROUNDS):
        new = _step(graph, node)
        if new is None or new is node:
            break
        node = new
    return node


def _step(graph: Graph, node: Node) -> Node | None:
    op = node.op
    if isinstance(op, Elementwise):
        found = fold(graph, node) or narrow(graph, node)
        if found is not None:
            return found
    rule = RULES.get(op.name)
    return rule(graph, node) if rule is not None else None


# -- elementwise ops in general


def fold(graph: Graph, node: Node) -> Node | None:
    """Compute an op of scalar constants now."""
    for read in node.inputs:
        if read.op is not leaves.constant:
            return None
    if node.shape != ():
        return None
    params = dict(zip(node.op.params, node.params, strict=True))
    with np.errstate(all="ignore"):
        value = node.op.evaluate(*[i.params[0].array for i in node.inputs], **params)
    return literal(graph, value, node.dtype)


def narrow(graph: Graph, node: Node) -> Node | None:
    """Compute on the axes the operands depend on, and broadcast the result: ``exp(broadcast(a))``."""
    inputs = tuple([bare(i) for i in node.inputs])
    if inputs == node.inputs:
        return None
    shape = shapes.broadcast(*[i.shape for i in inputs])
    made = graph.node(node.op, inputs, node.params, shape, node.dtype, node.line)
    return shaped(graph, _rewritten(graph, made), node.shape)


def bare(node: Node) -> Node:
    """Strip what broadcasting does by itself: stretched axes, and new axes in front."""
    while True:
        if node.op.name == "broadcast_to" or (
            node.op.name == "expand_dims" and node.params[0] == tuple(range(len(node.params[0])))
        ):
            node = node.inputs[0]
        else:
            return node


# -- arithmetic


def _same(graph: Graph, node: Node, kept: Node) -> Node | None:
    return shaped(graph, kept, node.shape) if kept.dtype == node.dtype else None


def _multiply(graph: Graph, node: Node) -> Node | None:
    a, b = node.inputs
    for x, y in ((a, b), (b, a)):
        if is_number(y, 1):
            return _same(graph, node, x)
        if is_number(y, -1) and node.dtype.kind == "f":
            return shaped(graph, make(graph, "negative", x), node.shape)
    if a.op.name == b.op.name == "negative" and node.dtype.kind == "f":
        return make(graph, node.op, a.inputs[0], b.inputs[0])
    return _joined(graph, node) if node.dtype.kind == "f" else None


def _joined(graph: Graph, node: Node) -> Node | None:
    """Join numbers: ``100 * (2 * x)`` is ``200 * x``, bit for bit, where the inner one is a power of two.

    By it a product is exact, but for overflow and what is subnormal; with both at least 1 either form overflows where
    the other does, and nothing gets smaller.
    """
    for outer, product in ((0, 1), (1, 0)):
        c, inner = scalar(node.inputs[outer]), bare(node.inputs[product])
        if c is None or inner.op is not node.op or not 1 <= abs(c) < 2.0**60:
            continue
        for k, other in ((0, 1), (1, 0)):
            d = scalar(inner.inputs[k])
            if d is not None and 1 <= abs(d) < 2.0**60 and np.frexp(abs(d))[0] == 0.5:
                joined = make(graph, node.op, literal(graph, c * d, node.dtype), inner.inputs[other])
                return shaped(graph, joined, node.shape)
    return None


def _divide(graph: Graph, node: Node) -> Node | None:
    return _same(graph, node, node.inputs[0]) if is_number(node.inputs[1], 1) else None


def _add(graph: Graph, node: Node) -> Node | None:
    a, b = node.inputs
    if node.dtype.kind != "f":
        return None
    for x, y in ((a, b), (b, a)):
        if is_number(y, -0.0):
            return _same(graph, node, x)
        if y.op.name == "negative":
            return make(graph, "subtract", x, y.inputs[0])
    return None


def _subtract(graph: Graph, node: Node) -> Node | None:
    a, b = node.inputs
    if node.dtype.kind != "f":
        return None
    if is_number(b, 0.0):
        return _same(graph, node, a)
    return make(graph, "add", a, b.inputs[0]) if b.op.name == "negative" else None


def _negative(graph: Graph, node: Node) -> Node | None:  # noqa: ARG001 - a rule's signature
    x = node.inputs[0]
    return x.inputs[0] if x.op.name == "negative" else None


def _power_int(graph: Graph, node: Node) -> Node | None:
    exponent, x = node.params[0], node.inputs[0]
    if exponent == 1:
        return x
    return make(graph, "multiply", x, x) if exponent == 2 else None


def _astype(graph: Graph, node: Node) -> Node | None:  # noqa: ARG001 - a rule's signature
    return node.inputs[0] if node.inputs[0].dtype == node.dtype else None


def _stop_gradient(graph: Graph, node: Node) -> Node:  # noqa: ARG001 - a rule's signature
    return node.inputs[0]  # everything is derived by now


# -- choices


def _where(graph: Graph, node: Node) -> Node | None:
    condition, a, b = node.inputs
    known = number(core(condition))
    if known is not None:
        return shaped(graph, a if known else b, node.shape)
    if a is b:
        return shaped(graph, a, node.shape)
    if condition.op.name == "logical_not":
        return make(graph, node.op, condition.inputs[0], b, a)
    if a.op.name == "where" and a.inputs[0] is condition:
        return _fitting(graph, node, condition, a.inputs[1], b)
    if b.op.name == "where" and b.inputs[0] is condition:
        return _fitting(graph, node, condition, a, b.inputs[2])
    return None


def _fitting(graph: Graph, node: Node, *inputs: Node) -> Node:
    return shaped(graph, make(graph, node.op, *inputs), node.shape)


def _logical(absorbing: bool) -> Rule:
    def rule(graph: Graph, node: Node) -> Node | None:
        a, b = node.inputs
        if a.dtype.kind != "b" or b.dtype.kind != "b":
            return None
        if a is b:
            return a
        for x, y in ((a, b), (b, a)):
            known = scalar(y)
            if known is not None:
                kept = literal(graph, absorbing, node.dtype) if bool(known) == absorbing else x
                return _same(graph, node, kept)
        return None

    return rule


def _logical_not(graph: Graph, node: Node) -> Node | None:  # noqa: ARG001 - a rule's signature
    x = node.inputs[0]
    again = x.op.name in {"logical_not", "invert"} and x.inputs[0].dtype.kind == x.dtype.kind == "b"
    return x.inputs[0] if again else None


# -- reductions


def _reduction(graph: Graph, node: Node) -> Node | None:
    x, axes = node.inputs[0], node.param("axes")
    if x.op is leaves.constant and node.op.name in EXACT and x.params[0].array.size:
        return constant(graph, node.op.evaluate(x.params[0].array, axes=axes))
    if x.dtype != node.dtype:
        return None
    if all(x.shape[k] == 1 for k in axes):
        return make(graph, "squeeze", x, axes=axes) if axes else x
    if x.op.name == "reshape" and len(axes) == len(x.shape) and node.op.name != "prod":
        source = x.inputs[0]
        return make(graph, node.op, source, axes=tuple(range(len(source.shape))))
    return None


EXACT = frozenset({"any", "all", "max", "min"})
"""Reductions that do not round: those of constants are known."""

RULES: dict[str, Any] = {
    "multiply": _multiply, "divide": _divide, "add": _add, "subtract": _subtract, "negative": _negative,
    "power_int": _power_int, "astype": _astype, "where": _where,
    "stop_gradient": _stop_gradient, "logical_and": _logical(absorbing=False),
    "logical_or": _logical(absorbing=True), "logical_not": _logical_not, "bitwise_and": _logical(absorbing=False),
    "bitwise_or": _logical(absorbing=True), "invert": _logical_not,
    **dict.fromkeys(("sum", "prod", *sorted(EXACT)), _reduction), **VIEW_RULES, **PLACE_RULES,
}

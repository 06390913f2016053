"""Rules of `stabilize` for sums and differences: what would cancel, and the shifts of a logsumexp written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.transforms.build import literal, make
from symgrad.transforms.matching import argument, core, is_along, is_filled, minus, one_minus, one_plus, scaled, squared

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Graph, Node
    from symgrad.transforms.logarithms import Logarithms


# -- 1 + y and 1 - y for functions with limits -1, 0 or 1


def one_less(graph: Graph, y: Node) -> Node | None:
    """Return 1 - y in a form that does not cancel, None where there is none."""
    square = squared(y)
    if square is not None:
        return _one_less_square(graph, square)
    form = _ONE_LESS.get(y.op.name)
    return None if form is None else form(graph, y.inputs[0])


def _one_less_square(graph: Graph, x: Node) -> Node:
    u = argument(x, "tanh")
    if u is not None:
        return scaled(graph, 4, make(graph, "expit_slope", scaled(graph, 2, u)))
    for one, other in (("sin", "cos"), ("cos", "sin")):
        u = argument(x, one)
        if u is not None:
            return make(graph, "square", make(graph, other, u))
    return make(graph, "one_minus_square", x)


_ONE_LESS: dict[str, Callable[[Graph, Node], Node]] = {
    "exp": lambda graph, x: make(graph, "negative", make(graph, "expm1", x)),
    "expit": lambda graph, x: make(graph, "expit", minus(graph, x)),
    "tanh": lambda graph, x: scaled(graph, 2, make(graph, "expit", scaled(graph, -2, x))),
    "erf": lambda graph, x: make(graph, "erfc", x),
    "erfc": lambda graph, x: make(graph, "erf", x),
    "ndtr": lambda graph, x: make(graph, "ndtr", minus(graph, x)),
}

_ONE_MORE: dict[str, Callable[[Graph, Node], Node]] = {
    "tanh": lambda graph, x: scaled(graph, 2, make(graph, "expit", scaled(graph, 2, x))),
    "erf": lambda graph, x: make(graph, "erfc", minus(graph, x)),
}


def _one_more(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Take 1 + tanh(x), 1 + erf(x)."""
    y = one_plus(node)
    form = None if y is None else _ONE_MORE.get(y.op.name)
    return None if y is None or form is None else form(graph, y.inputs[0])


def _less_one(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Take 1 - y, y - 1 and y + -1."""
    y = one_minus(node)
    if y is not None:
        return one_less(graph, y)
    a, b = node.inputs
    if node.op.name == "subtract":
        y = a if is_filled(b, 1) else None
    else:
        y = a if is_filled(b, -1) else b if is_filled(a, -1) else None
    found = None if y is None else one_less(graph, y)
    return None if found is None else minus(graph, found)


# -- hyperbolic functions written as exponentials


def _sinh(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Take exp(x) - exp(-x)."""
    x, y = [argument(i, "exp") for i in node.inputs]
    if x is None or y is None:
        return None
    if argument(y, "negative") is x:
        return scaled(graph, 2, make(graph, "sinh", x))
    return scaled(graph, -2, make(graph, "sinh", y)) if argument(x, "negative") is y else None


# -- logsumexp and softplus written by hand with their shifts


def _log_softmax(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Take x - logsumexp(x)."""
    x, total = node.inputs
    inner = core(total)
    if inner.op.name != "logsumexp" or inner.inputs[0] is not x:
        return None
    axes = inner.param("axes")
    return make(graph, "log_softmax", x, axes=axes) if is_along(total.shape, x.shape, axes) else None


def _unshifted(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Take m + logsumexp(x - m): it is logsumexp(x), which needs no derivative of m."""
    for shift, total in (node.inputs, node.inputs[::-1]):
        inner = core(total)
        if inner.op.name != "logsumexp" or not (shift.shape == total.shape == node.shape):
            continue
        shifted, axes = inner.inputs[0], inner.param("axes")
        if shifted.op.name != "subtract" or shifted.inputs[0].shape != shifted.shape:
            continue
        x, m = shifted.inputs
        if core(m) is core(shift) and is_along(m.shape, x.shape, axes):
            found = make(graph, "logsumexp", x, axes=axes)
            return found if found.shape == node.shape else make(graph, "reshape", found, shape=node.shape)
    return None


def _softplus(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Take max(x, 0) + log1p(exp(-|x|)), which has kinks where softplus has none."""
    for part, rest in (node.inputs, node.inputs[::-1]):
        x = argument(part, "relu")
        if x is not None and _size_in_softplus(rest) is x:
            return make(graph, "logaddexp", literal(graph, 0, node.dtype), x)
    return None


def _size_in_softplus(node: Node) -> Node | None:
    """Return x where the node is log1p(exp(-|x|))."""
    for op in ("log1p", "exp", "negative", "absolute"):
        inner = argument(node, op)
        if inner is None:
            return None
        node = inner
    return node


ADD = (_less_one, _one_more, _unshifted, _softplus)
SUBTRACT = (_less_one, _sinh, _log_softmax)

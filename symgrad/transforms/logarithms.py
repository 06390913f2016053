"""Logarithms of values made of exponentials, without the exponentials.

``log(sum(exp(x)) / n)`` is ``logsumexp(x) - log(n)``, which no large x can make overflow.

A value has a logarithm of this kind when it is nonnegative by its form: exp, expit, softmax, and products, quotients,
sums, roots, choices, reductions, views and gathers of such values and of constants.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir import shapes
from symgrad.ops import leaves
from symgrad.transforms.build import literal, make
from symgrad.transforms.matching import again, constant, is_selection, scaled

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Graph, Node

    Forms = dict[Node, Node]
    Form = Callable[[Graph, Node, Forms], Node]

NONE, NUMBER, BOUNDED, GROWS = range(4)
"""Kinds: no logarithm by form; a nonnegative constant; about 1 at most (a probability); an exponential."""


class Logarithms:
    """The logarithms of one pass: each value is looked at once, so that the pass stays linear."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._kinds: dict[Node, int] = {}
        self._stretched: set[Node] = set()
        self._forms: Forms = {}

    def kind(self, node: Node) -> int:
        """Classify a value (by an explicit stack: sums of exponentials may be long)."""
        kinds = self._kinds
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [i for i in _factors(top) if i not in kinds] if top not in kinds else []
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in kinds:
                kinds[top] = self._of_factors(top)
        return kinds[node]

    def _of_factors(self, node: Node) -> int:
        """Classify a value whose factors are known.

        A sum of few exponentials, each stretched over many terms, stays: its logsumexp would take one for each term.
        """
        factors = _factors(node)
        if node.op.name in _STRETCHING:
            kept = [f for f in factors if self._kinds[f] >= BOUNDED and shapes.size(f.shape) == shapes.size(node.shape)]
            if all(f in self._stretched for f in kept):
                self._stretched.add(node)
        elif node.op.name == "sum" and factors[0] in self._stretched:
            return NONE
        elif factors and factors[0] in self._stretched:
            self._stretched.add(node)
        return _KINDS.get(node.op.name, _moved)(node, [self._kinds[f] for f in factors])

    def of(self, graph: Graph, node: Node) -> Node | None:
        """Return the logarithm of a value without exponentials of large numbers, None if there is none."""
        if self.kind(node) < BOUNDED:
            return None
        needed, stack = {node}, [node]
        while stack:
            for factor in _factors(stack.pop()):
                if factor not in needed and factor not in self._forms:
                    needed.add(factor)
                    stack.append(factor)
        for value in sorted(needed, key=lambda n: n.number):
            if value not in self._forms:
                self._forms[value] = _FORMS.get(value.op.name, _move)(graph, value, self._forms)
        return self._forms[node]


def _factors(node: Node) -> tuple[Node, ...]:
    """Return the inputs whose logarithms make up the value's."""
    name = node.op.name
    if name in _THROUGH_ALL:
        return node.inputs
    if name == "where":
        return node.inputs[1:]
    return node.inputs[:1] if name in _THROUGH_FIRST or is_selection(node) else ()


_THROUGH_ALL = frozenset({"add", "multiply", "divide"})
_STRETCHING = frozenset({*_THROUGH_ALL, "where", "broadcast_to"})
_THROUGH_FIRST = frozenset({"sum", "prod", "max", "min", "square", "sqrt", "reciprocal", "power_int"})


# -- kinds


def _moved(_node: Node, kinds: list[int]) -> int:
    """Classify a view, a gather, the largest element: what holds of all elements holds of these."""
    return kinds[0] if kinds else NONE


def _product(_node: Node, kinds: list[int]) -> int:
    return NONE if NONE in kinds else max(kinds)


def _added(_node: Node, kinds: list[int]) -> int:
    """Classify a sum: that of probabilities and constants is best taken as it stands."""
    return GROWS if NONE not in kinds and GROWS in kinds else NONE


def _summed(_node: Node, kinds: list[int]) -> int:
    return GROWS if kinds[0] == GROWS else NONE


def _counted(node: Node, _kinds: list[int]) -> int:
    """Classify a conversion: a mask is 0 or 1."""
    return NUMBER if node.inputs[0].dtype.kind == "b" and node.dtype.kind == "f" else NONE


def _known(node: Node, _kinds: list[int]) -> int:
    return NUMBER if node.dtype.kind == "f" and bool(np.all(node.params[0].array >= 0)) else NONE


_KINDS: dict[str, Callable[[Node, list[int]], int]] = {
    **dict.fromkeys(("exp", "exp2", "cosh"), lambda _node, _kinds: GROWS),
    **dict.fromkeys(("expit", "softmax"), lambda _node, _kinds: BOUNDED),
    **dict.fromkeys(("multiply", "divide", "where"), _product),
    "add": _added, "sum": _summed, "constant": _known, "astype": _counted,
}


# -- forms: each has its value's shape and dtype


def _move(graph: Graph, node: Node, forms: Forms) -> Node:
    """Take the same elements of the logarithm; the largest has the largest logarithm."""
    return again(graph, node, forms[node.inputs[0]])


def _of_sum(graph: Graph, node: Node, forms: Forms) -> Node:
    a, b = node.inputs
    for zero, other in ((a, b), (b, a)):  # Python's sum() starts with 0
        if zero.op is leaves.constant and zero.shape == () and zero.params[0].array == 0:
            return forms[other]
    return make(graph, "logaddexp", forms[a], forms[b])


def _of_constant(graph: Graph, node: Node, _forms: Forms) -> Node:
    with np.errstate(divide="ignore"):
        return constant(graph, np.log(node.params[0].array))


def _of_mask(graph: Graph, node: Node, _forms: Forms) -> Node:
    zero, nothing = literal(graph, 0, node.dtype), literal(graph, -math.inf, node.dtype)
    return make(graph, "where", node.inputs[0], zero, nothing)


def _joined(op: str) -> Form:
    return lambda graph, node, forms: make(graph, op, *[forms[i] for i in node.inputs])


def _times(factor: float) -> Form:
    return lambda graph, node, forms: scaled(graph, factor, forms[node.inputs[0]])


def _reduced(op: str) -> Form:
    return lambda graph, node, forms: make(graph, op, forms[node.inputs[0]], axes=node.param("axes"))


def _named(op: str) -> Form:
    """Write the logarithm of a function by the op that is it, with the same parameters."""

    def form(graph: Graph, node: Node, _forms: Forms) -> Node:
        return make(graph, op, node.inputs[0], **dict(zip(node.op.params, node.params, strict=True)))

    return form


_FORMS: dict[str, Any] = {
    "exp": lambda _graph, node, _forms: node.inputs[0],
    "exp2": lambda graph, node, _forms: scaled(graph, math.log(2), node.inputs[0]),
    "cosh": _named("log_cosh"), "expit": _named("log_expit"), "softmax": _named("log_softmax"),
    "constant": _of_constant, "astype": _of_mask,
    "add": _of_sum, "multiply": _joined("add"), "divide": _joined("subtract"),
    "sum": _reduced("logsumexp"), "prod": _reduced("sum"),
    "where": lambda graph, node, forms: make(graph, "where", node.inputs[0], *[forms[i] for i in node.inputs[1:]]),
    "square": _times(2), "sqrt": _times(0.5),
    "reciprocal": lambda graph, node, forms: make(graph, "negative", forms[node.inputs[0]]),
    "power_int": lambda graph, node, forms: scaled(graph, node.params[0], forms[node.inputs[0]]),
}

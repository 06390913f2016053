"""Logarithms of values made of exponentials, without the exponentials.

``log(sum(exp(x)) / n)`` is ``logsumexp(x) - log(n)``, which no large x can make overflow.

A value has a logarithm of this kind when it is nonnegative by its form: exp, expit, softmax, and products, quotients,
sums, roots, choices, reductions, views and gathers of such values and of constants.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.ir.graphs import in_turn
from symgrad.ir.index import shapes
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise
from symgrad.ops.arrays.reduce import sum_
from symgrad.transforms.build import array, is_selection, literal, written

NONE, NUMBER, BOUNDED, GROWS = range(4)
"""Kinds: no logarithm by form; a nonnegative constant; about 1 at most (a probability); an exponential."""


class Logarithms:
    """The logarithms of one pass: each value is looked at once, so that the pass stays linear."""

    def __init__(self) -> None:
        self._kinds: dict[Node, int] = {}
        self._stretched: set[Node] = set()
        self._forms: dict[Node, Node] = {}

    def kind(self, node: Node) -> int:
        """Classify a value."""
        for one in in_turn(node, _log_parts, self._kinds):
            self._kinds[one] = self._of_factors(one)
        return self._kinds[node]

    def _of_factors(self, node: Node) -> int:
        """Classify a value whose factors are known.

        A sum of few exponentials, each stretched over many terms, stays: its logsumexp would take one for each term.
        """
        op, factors = node.op, _log_parts(node)
        kinds = [self._kinds[f] for f in factors]
        if len(factors) > 1 or op.aligned:
            kept = [f for f in factors if self._kinds[f] >= BOUNDED and shapes.size(f.shape) == shapes.size(node.shape)]
            if all(f in self._stretched for f in kept):
                self._stretched.add(node)
        elif op is sum_ and factors[0] in self._stretched:
            return NONE
        elif factors and factors[0] in self._stretched:
            self._stretched.add(node)
        if not factors:
            return _own_kind(node)
        if NONE in kinds or ((op is sum_ or op.numpy is np.add) and GROWS not in kinds):
            return NONE  # a sum of probabilities and constants is best taken as it stands
        return max(kinds)

    def of(self, graph: Graph, node: Node) -> Node | None:
        """Return the logarithm of a value without exponentials of large numbers, None if there is none."""
        if self.kind(node) < BOUNDED:
            return None
        for value in in_turn(node, _log_parts, self._forms):
            self._forms[value] = self._form(graph, value)
        return self._forms[node]

    def _form(self, graph: Graph, node: Node) -> Node:
        """Write the logarithm of a value by those of its factors; it has the value's shape and dtype."""
        op, factors, known = node.op, _log_parts(node), array(node)
        if known is not None:
            with np.errstate(divide="ignore"):
                return literal(graph, np.log(known))
        x = [self._forms.get(i, i) if i in factors else i for i in node.inputs]
        if not factors and op.log is None:
            return written(graph, np.where, x[0], *np.array([0, -math.inf], node.dtype))
        zeros = [i.shape == () and array(i) == 0 for i in factors] if op.numpy is np.add else []
        if any(zeros):
            return x[1 if zeros[0] else 0]  # Python's sum() starts with 0
        return written(graph, (op.logs if factors else op.log) or op, *x, **node.named)


def _log_parts(node: Node) -> tuple[Node, ...]:
    """Return the inputs whose logarithms make up the value's."""
    if is_selection(node):
        return node.inputs[:1]
    return tuple([i for i in node.inputs if i.dtype.kind == "f"]) if node.op.logs else ()


def _own_kind(node: Node) -> int:
    """Classify a value that has no factors: an exponential, a probability, a constant, or a mask of 0 and 1."""
    op, known = node.op, array(node)
    if op.log is not None:
        large = np.full((2,) * len(node.shape), 1000.0)
        with np.errstate(over="ignore"):
            return GROWS if np.any(op.evaluate(large, **node.named) > 1) else BOUNDED
    if node.dtype.kind != "f":
        return NONE
    if known is not None:
        return NUMBER if bool(np.all(known >= 0)) else NONE
    is_mask = isinstance(op, Elementwise) and [i.dtype.kind for i in node.inputs] == ["b"]
    return NUMBER if is_mask and [*op.evaluate(np.array([False, True]), **node.named)] == [0, 1] else NONE

"""`symmetric_sums`: sums along either axis of an array of pairs are taken once, where they are sums of the same terms.

Forces between bodies are opposite, ``F[j, i] = -F[i, j]``. The gradient of an energy of all pairs adds them up for the
first and for the second body of each, ``np.sum(F, axis=1) - np.sum(F, axis=0)``: two sums of the same terms, which
`equality` finds. It is as good for what no array of pairs has of itself: the gradient by masses,
``np.sum(m / r, axis=1) + np.sum(m[:, None] / r, axis=0)``, and the products of a symmetric matrix, ``a @ x + a.T @ x``.

A sum along rows is kept rather than one along columns: it is one number for an iteration of the outer loop.

It is no rule of a table, for it compares sums all over the program.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.arrays.views import inverse_order, transpose
from symgrad.transforms.build import in_order, written
from symgrad.transforms.equality import Equality, form
from symgrad.transforms.rewrite.cheaper import rewritten_cheaper
from symgrad.transforms.tuned import PERMUTED_AXES


def symmetric_sums(program: Program) -> Program:
    """Take sums of equal or opposite terms once.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.grad(lambda x: np.sum(np.exp(-np.square(x[:, None] - x))))
    >>> f.lower(np.ones(9)).as_text("derived").count("= np.sum")
    2
    >>> f.lower(np.ones(9)).as_text("optimized").count("= np.sum")
    1
    """
    kept = _found(program)
    if not kept:
        return program
    new: dict[Node, Node] = {}

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in kept:
            return written(graph, kept[node].of, new[kept[node].source])
        return (rewritten_cheaper if node.op is transpose else copied)(graph, node, inputs)  # two in a row are one

    order = in_order(program, lambda node: (kept[node].source,) if node in kept else node.inputs)
    return rebuild(program, rewrite, order=order, new=new)


class _Sum(NamedTuple):
    """What a sum is of another one: ``scale * np.transpose(source, axes)``."""

    source: Node
    axes: tuple[int, ...]
    scale: float

    def of(self, x: Any) -> Any:
        """Make it of the other one."""
        x = x if self.axes == tuple(range(len(self.axes))) else np.transpose(x, self.axes)
        return x if self.scale == 1 else -x if self.scale == -1 else x * x.dtype.type(self.scale)


def _found(program: Program) -> dict[Node, _Sum]:
    """Find the sums that need not be taken, and what they are of others."""
    alike: dict[Any, list[Node]] = defaultdict(list)
    every = {node.shape: [dim for dim in node.shape if dim != 1] for node in program.nodes()}
    shapes = {shape for shape, dims in every.items() if len({*dims}) < len(dims)}  # with two axes of one extent
    square = [
        node for node in (program.nodes() if shapes else ())
        if node.op.regular and any(i.shape in shapes for i in node.inputs)
    ]
    outlines = _outlines(program) if len(square) > 1 else {}
    for node in square if outlines else ():
        alike[outlines[node], frozenset(Counter(node.shape).items()), node.dtype].append(node)
    equality = Equality()
    return {
        node: found for nodes in alike.values() if len(nodes) > 1 and len(sums := [*filter(_is_of_pairs, nodes)]) > 1
        for equal in _equal_parts(equality, sums) for node, found in _of_the_best(equal)
    }


def _outlines(program: Program) -> dict[Node, int]:
    """Number nodes by the ops behind them, in whatever order: equal values have one number, and others seldom have."""
    found: dict[Node, int] = {}
    for node in program.nodes():
        if not node.inputs:
            found[node] = 0 if node.is_constant else node.number
            continue
        parts = [part for i in node.inputs if (part := found.get(i, i.number))]
        kind = np.multiply if node.op.labels else node.op.numpy or node.op
        kind = np.add if kind is np.subtract else kind
        is_plain = node.op.view or kind is np.negative or (kind is np.multiply and len(parts) == 1)
        found[node] = sum(parts) if is_plain or not parts else hash((kind, sum(parts)))
    return found


def _equal_parts(equality: Equality, nodes: list[Node]) -> list[list[_Sum]]:
    """Part sums into those that are equal up to a factor and the order of axes, which are said by the first of them."""
    parts: dict[int, list[_Sum]] = {}
    shapes: set[Shape] = set()
    for node in nodes:
        order = tuple(range(len(node.shape)))
        orders = permutations(order) if len(order) <= PERMUTED_AXES else (order,)
        known = [o for o in orders if tuple([node.shape[k] for k in inverse_order(o)]) in shapes]
        values = [(order, equality.value(node, order)) for order in known]
        found = [(order, value) for order, value in values if value.number in parts]
        if found:
            order, value = found[0]
            parts[value.number].append(_Sum(node, order, value.scale))
            continue
        value = equality.value(node, order)
        parts[value.number] = [_Sum(node, order, value.scale)]
        shapes.add(node.shape)
    return [sums for sums in parts.values() if len(sums) > 1]


def _of_the_best(sums: list[_Sum]) -> list[tuple[Node, _Sum]]:
    """Take the sum with the smallest terms, which does not overflow before others, and of such the one along rows."""
    right = {one: sum(k - len(x.shape) for x, gone in _sums_of(one.source) for k in gone) for one in sums}
    best = max(sums, key=lambda one: (-abs(one.scale), right[one]))  # whose axes that are gone stand to the right
    back = inverse_order(best.axes)
    return [
        (found.source, _Sum(best.source, tuple([back[a] for a in found.axes]), found.scale / best.scale))
        for found in sums if found is not best
    ]


def _is_of_pairs(node: Node) -> bool:
    """Whether a node is a reduction of an array that keeps another axis of the same extent."""
    return any(
        any(x.shape[k] in [dim for d, dim in enumerate(x.shape) if d not in gone and dim != 1] for k in gone)
        for x, gone in _sums_of(node)
    )


def _sums_of(node: Node) -> list[tuple[Node, list[int]]]:
    """List what a node adds up, and along which axes."""
    found = form(node) if node.op.regular else None
    factors = [] if found is None else found.factors
    return [(x, [k for k, i in enumerate(indices) if found and i in found.gone]) for x, indices in factors]

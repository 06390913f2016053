"""`pairs`: sums along either axis of an array of pairs are taken once, where they are sums of the same terms.

Forces between bodies are opposite, ``F[j, i] = -F[i, j]``. The gradient of an energy of all pairs adds them up for the
first and for the second body of each, ``np.sum(F, axis=1) - np.sum(F, axis=0)``: two sums of the same terms, which
`equality` finds. It is as good for what no array of pairs has of itself: the gradient by masses,
``np.sum(m / r, axis=1) + np.sum(m[:, None] / r, axis=0)``, and the products of a symmetric matrix, ``a @ x + a.T @ x``.

A sum along rows is kept rather than one along columns: it is one number for an iteration of the outer loop.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.ir.node import Graph
from symgrad.ir.program import copied
from symgrad.ops.contract import parse
from symgrad.transforms.build import make
from symgrad.transforms.equality import REDUCTIONS, Equality

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program


def pairs(program: Program) -> Program:
    """Take sums of equal or opposite terms once.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.grad(lambda x: np.sum(np.exp(-np.square(x[:, None] - x))))
    >>> f.lower(np.ones(9)).as_text("derived").count("np.sum")
    3
    >>> f.lower(np.ones(9)).as_text("optimized").count("np.sum")
    1
    """
    kept = _kept(program)
    return _rebuilt(program, kept) if kept else program


def _kept(program: Program) -> dict[Node, tuple[Node, float]]:
    """Find what stands for each sum that need not be taken, and the sign it gets."""
    alike: dict[Any, list[Node]] = defaultdict(list)
    for node in program.nodes():
        if _is_of_pairs(node):
            alike[node.op.name, node.shape, node.dtype].append(node)
    equality, found = Equality(), {}
    for nodes in alike.values():
        equal: dict[Any, list[tuple[Node, float]]] = defaultdict(list)
        for node in nodes if len(nodes) > 1 else ():
            value = equality.value(node)
            equal[value.size].append((node, value.sign))
        for sums in equal.values():
            best, sign = max(sums, key=lambda found: _place(found[0]))
            found.update({node: (best, sign * other) for node, other in sums if node is not best})
    return found


def _is_of_pairs(node: Node) -> bool:
    """Tell a reduction of an array that keeps another axis of the same extent."""
    for x, gone in _summed(node):
        left = [dim for k, dim in enumerate(x.shape) if k not in gone and dim != 1]
        if left and any(x.shape[k] in left for k in gone):
            return True
    return False


def _summed(node: Node) -> list[tuple[Node, list[int]]]:
    """List what a node adds up, and along which axes."""
    if node.op.name in REDUCTIONS:
        return [(node.inputs[0], list(node.param("axes")))]
    if node.op.name != "einsum":
        return []
    terms, result = parse(node.param("subscripts"))
    gone = [[k for k, label in enumerate(term) if label not in result] for term in terms]
    return list(zip(node.inputs, gone, strict=True))


def _place(node: Node) -> int:
    """Say how far to the right the axes stand that are gone."""
    return sum(k - len(x.shape) for x, gone in _summed(node) for k in gone)


def _rebuilt(program: Program, kept: dict[Node, tuple[Node, float]]) -> Program:
    """Copy a program with sums in the place of others; what stands for a sum is made before it, in any order."""
    graph = program.scope if program.scope is not None else Graph()
    start = len(graph) + 1
    inputs = tuple([copied(graph, i, ()) for i in program.inputs])
    new = dict(zip(program.inputs, inputs, strict=True))
    before = graph.line
    for node in program.nodes():
        stack = [node]
        while stack:
            top = stack[-1]
            source, sign = kept.get(top, (None, 1.0))
            needed = top.inputs if source is None else (source,)
            missing = [i for i in needed if i not in new and i.number >= program.start]
            if missing and top not in new:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in new:
                graph.line = top.line
                made = [new.get(i, i) for i in needed]
                new[top] = copied(graph, top, tuple(made)) if source is None else made[0]
                if sign < 0:
                    new[top] = make(graph, "negative", made[0])
    graph.line = before
    outputs = tuple([new.get(o, o) for o in program.outputs])
    return replace(program, inputs=inputs, outputs=outputs, start=start if program.scope is not None else 0)

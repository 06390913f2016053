"""`residuals`: what the linear half of a derived program keeps of its forward half.

A pullback (or a pushforward) is a program of a point x and of a vector w, linear in w. What does not depend on w is
computed once, by whoever computes the function at x; the values among it that the linear half reads are residuals.
What costs little to compute from arguments, or from other residuals, is not kept: memory costs more than arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.ir.index import shapes
from symgrad.ir.node import Node
from symgrad.ir.op import Elementwise, Leaf
from symgrad.ir.program import Program
from symgrad.transforms.tuned import AGAIN_FOR_TAPE


def residuals(program: Program, vectors: Sequence[Node]) -> list[Node]:
    """Choose what is kept of a program that is linear in some of its inputs.

    Args:
        program: inputs are the point's and the vectors.
        vectors: the inputs it is linear in.

    Returns:
        Values that depend on no vector, in the order of the program; with them and the point's inputs the outputs
        can be computed.
    """
    nodes = replace(program, start=0).nodes()  # the caller's constants too
    moving = set(vectors)
    for node in nodes:
        if not moving.isdisjoint(node.inputs):
            moving.add(node)
    read = {i for node in nodes if node in moving for i in node.inputs} | {*program.outputs}
    work, _ = _recomputing_costs(nodes, set())
    kept: set[Node] = set()
    stack = [node for node in read if node not in moving]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node in work:
            continue
        missing = [i for i in dict.fromkeys(node.inputs) if i not in work]
        if not _cheap(node) or len(missing) != 1 or _value_bytes(missing[0]) > _value_bytes(node):
            kept.add(node)
        elif missing[0] not in seen:  # the one value that it needs beside what is known, and no larger
            seen.add(missing[0])
            stack.append(missing[0])
    return _recomputing_costs(nodes, kept)[1]


def _cheap(node: Node) -> bool:
    """Whether a node is arithmetic, a comparison, a choice or a view: no function is called, nothing summed."""
    if not isinstance(node.op, Elementwise):
        return bool(node.op.view)
    spelled = node.op.c.get("f", "")
    return not (spelled.isidentifier() or "sg_" in spelled or node.op.source)


def _recomputing_costs(nodes: Sequence[Node], kept: set[Node]) -> tuple[dict[Node, int], list[Node]]:
    """Count, for what is cheap to compute from inputs and kept values, the operations that takes.

    Also return the kept values that are not cheap to compute from those before them.
    """
    work: dict[Node, int] = {}
    left = []
    for node in nodes:
        if isinstance(node.op, Leaf):
            work[node] = 0
        elif _cheap(node) and all(i in work for i in node.inputs):
            total = sum(work[i] for i in node.inputs) + isinstance(node.op, Elementwise)
            if total <= AGAIN_FOR_TAPE:
                work[node] = total
        if node in kept and node not in work:
            work[node] = 0
            left.append(node)
    return work, left


def _value_bytes(node: Node) -> int:
    """Return how large a value is; unknown extents are taken to be equal and large."""
    return shapes.upper(shapes.size(node.shape), 1 << 16) * node.dtype.itemsize

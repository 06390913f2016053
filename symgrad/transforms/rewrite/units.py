"""Products with unit matrices: what a derivative along every unit vector begins with."""

from __future__ import annotations

from symgrad.ir.node import Graph, Node
from symgrad.ir.program import copied
from symgrad.ops.arrays.contract import einsum
from symgrad.ops.arrays.views import embed_diagonal
from symgrad.transforms.build import make, scalar


def without_units(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Copy a node; of a sum of products with a unit matrix, the other factors: ``einsum("bk,mk->bm", I, A)`` is A.T.

    A column of a Jacobian is then A's own, also beside an infinity: 0 * inf is not in it.
    """
    if node.op.labels and len(inputs) > 1:
        terms, result = node.op.labels(**node.named)
        for k, x in enumerate(inputs):
            if x.op is not embed_diagonal or x.param("offset") != 0 or len(x.shape) != 2 or scalar(x.inputs[0]) != 1:
                continue
            if not x.shape[0] == x.shape[1] == x.inputs[0].shape[0]:
                continue
            rest = [t for j, t in enumerate(terms) if j != k]
            for axis in (0, 1):
                kept, gone = terms[k][axis], terms[k][1 - axis]
                if gone not in result and any(gone in t for t in rest) and not any(kept in t for t in rest):
                    left = ",".join(t.replace(gone, kept) for t in rest)
                    return make(graph, einsum, *inputs[:k], *inputs[k + 1 :], subscripts=f"{left}->{result}")
    return copied(graph, node, inputs)

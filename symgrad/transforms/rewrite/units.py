"""Products with unit matrices: what a derivative along every unit vector begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.program import copied
from symgrad.ops.arrays.contract import parse
from symgrad.transforms.build import make, scalar

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node


def without_units(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Copy a node; of a sum of products with a unit matrix, the other factors: ``einsum("bk,mk->bm", I, A)`` is A.T.

    A column of a Jacobian is then A's own, also beside an infinity: 0 * inf is not in it.
    """
    if node.op.name == "einsum":
        terms, result = parse(node.param("subscripts"))
        for k, x in enumerate(inputs):
            if _is_unit(x) and len(inputs) > 1:
                rest = [t for j, t in enumerate(terms) if j != k]
                for axis in (0, 1):
                    kept, gone = terms[k][axis], terms[k][1 - axis]
                    if gone not in result and any(gone in t for t in rest) and not any(kept in t for t in rest):
                        left = ",".join(t.replace(gone, kept) for t in rest)
                        others = [i for j, i in enumerate(inputs) if j != k]
                        return make(graph, "einsum", *others, subscripts=f"{left}->{result}")
    return copied(graph, node, inputs)


def _is_unit(node: Node) -> bool:
    """Tell a unit matrix as `jacfwd` and `jacrev` make it."""
    if node.op.name != "embed_diagonal" or len(node.shape) != 2 or node.param("offset") != 0:
        return False
    return node.shape[0] == node.shape[1] == node.inputs[0].shape[0] and scalar(node.inputs[0]) == 1

"""`diagonals`: a write along a matrix's diagonal is a choice by the places, which fuses with what makes and reads it.

``np.fill_diagonal(k, 0)``, ``k[i, i] = 0`` and ``k[i, i] += 1``, with ``i = np.arange(n)``, are traced as writes at
places into a copy, which therefore has to be an array. ``np.where(i[:, None] == i, 0, k)`` is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symgrad.ir.program import copied, rebuild
from symgrad.ops import leaves
from symgrad.transforms.build import literal, make, scalar

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Dim


def diagonals(program: Program) -> Program:
    """Write and read diagonals of square matrices without index arrays.

    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     k = np.exp(x[:, None] - x)
    ...     np.fill_diagonal(k, 0.0)
    ...     return np.sum(k)
    >>> sg.jit(f).lower(np.ones(5)).as_text("stable").count("np.where")
    1
    """
    if not any(node.op.name in {"assemble", "scatter_set", "add_at", "gather"} for node in program.nodes()):
        return program
    return rebuild(program, _rewritten)


def _rewritten(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    if node.op.name == "reshape":
        flat = inputs[0]
        if flat.op.name == "assemble" and len(flat.inputs) == 2 and flat.inputs[0].op.name == "reshape":
            x, value = flat.inputs[0].inputs[0], flat.inputs[1]
            n = _extent(x)
            if n is not None and x.shape == node.shape and flat.params[0] == (((0, n, n + 1),),):
                return _written(graph, x, value)
    elif node.op.name in {"scatter_set", "add_at", "gather"} and _is_along(inputs[0], inputs, node.param("axes")):
        x = inputs[0]
        if node.op.name == "gather":
            return make(graph, "diagonal", x, offset=0)
        return _written(graph, x, inputs[1], add=node.op.name == "add_at")
    return copied(graph, node, inputs)


def _extent(x: Node) -> Dim | None:
    """Return the extent of a square matrix, None for any other array."""
    return x.shape[0] if len(x.shape) == 2 and x.shape[0] == x.shape[1] else None


def _is_along(x: Node, inputs: tuple[Node, ...], axes: tuple[int, ...]) -> bool:
    """Tell a square matrix that is read or written at (0, 0), (1, 1), ... to its end."""
    n, index = _extent(x), inputs[-1]
    if n is None or axes != (0, 1) or inputs[-2] is not index or index.shape != (n,):
        return False
    if index.op.name == "arange":
        return bool(index.param("step") == 1 and scalar(index.inputs[0]) == 0)
    return index.op is leaves.constant and bool(np.array_equal(index.params[0].array, np.arange(n)))


def _written(graph: Graph, x: Node, value: Node, *, add: bool = False) -> Node:
    """Choose the value, or the sum with it, on the diagonal, and the matrix elsewhere."""
    places = make(graph, "arange", literal(graph, 0, np.int64), count=x.shape[0], step=1)
    column, rows = [make(graph, "expand_dims", node, axes=(1,)) for node in (value, places)]
    return make(
        graph, "where", make(graph, "equal", rows, places), make(graph, "add", x, column) if add else column, x,
    )

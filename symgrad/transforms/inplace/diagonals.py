"""`diagonals`: a write along a matrix's diagonal is a choice by the places, which fuses with what makes and reads it.

``np.fill_diagonal(k, 0)``, ``k[i, i] = 0`` and ``k[i, i] += 1``, with ``i = np.arange(n)``, are traced as writes at
places into a copy, which therefore has to be an array. ``np.where(i[:, None] == i, 0, k)`` is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.index.shapes import Dim
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.updates import add_at, assemble, scatter_set
from symgrad.ops.arrays.views import reshape
from symgrad.ops.numpy.creation import arange
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.build import array, scalar, written

AT_PLACES = (gather, scatter_set, add_at)


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
    if program.ops.isdisjoint({*AT_PLACES, assemble}):
        return program
    if not any(_is_at_places(node, node.inputs) or _is_laid_flat(node, node.inputs) for node in program.nodes()):
        return program

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if _is_at_places(node, inputs):
            if node.op.put:
                return written(graph, np.diagonal, inputs[0])
            return written(graph, _reads_diagonal, *inputs[:2], add=node.op is add_at)
        if _is_laid_flat(node, inputs):
            flat, value = inputs[0].inputs
            return written(graph, _reads_diagonal, flat.inputs[0], value)
        return copied(graph, node, inputs)

    return rebuild(program, rewrite)


def _is_laid_flat(node: Node, inputs: tuple[Node, ...]) -> bool:
    """Whether a square matrix was laid flat, written along its diagonal, and laid back."""
    if node.op is not reshape or inputs[0].op is not assemble or len(inputs[0].inputs) != 2:
        return False
    flat, n = inputs[0].inputs[0], _square_extent(node)
    if n is None or flat.op is not reshape or flat.inputs[0].shape != node.shape:
        return False
    return bool(inputs[0].params[0] == (((0, n, n + 1),),))


def _square_extent(x: Node) -> Dim | None:
    return x.shape[0] if len(x.shape) == 2 and x.shape[0] == x.shape[1] else None


def _is_at_places(node: Node, inputs: tuple[Node, ...]) -> bool:
    """Whether a square matrix is read or written at (0, 0), (1, 1), ... to its end."""
    if node.op not in AT_PLACES:
        return False
    n, index = _square_extent(inputs[0]), inputs[-1]
    if n is None or node.param("axes") != (0, 1) or inputs[-2] is not index or index.shape != (n,):
        return False
    if index.op is arange:
        return bool(index.param("step") == 1 and scalar(index.inputs[0]) == 0)
    return np.array_equal(array(index), np.arange(n)) if index.is_constant else False


def _reads_diagonal(x: Any, value: Any, *, add: bool = False) -> Any:
    """Choose the value, or the sum with it, on the diagonal, and the matrix elsewhere."""
    rows = arange(Tracer(as_node(x.owner, np.int64(0)), x.owner), count=x.node.shape[0], step=1)
    column = value[:, None]
    return np.where(rows[:, None] == rows, x + column if add else column, x)

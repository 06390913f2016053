"""`diagonals`: a write along a matrix's diagonal is a choice by the places, which fuses with what makes and reads it.

``np.fill_diagonal(k, 0)``, ``k[i, i] = 0`` and ``k[i, i] += 1``, with ``i = np.arange(n)``, are traced as writes at
places into a copy, which therefore has to be an array. ``np.where(i[:, None] == i, 0, k)`` is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.program import copied, rebuild
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.updates import add_at, assemble, scatter_set
from symgrad.ops.arrays.views import reshape
from symgrad.ops.declare import leaves
from symgrad.ops.numpy.creation import arange
from symgrad.trace.state import active_on, passing
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.build import scalar

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Dim


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
    return rebuild(program, _rewritten)


def _rewritten(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    op = node.op
    if op in AT_PLACES and _is_along(inputs, node.param("axes")):
        given = inputs[:2]
    else:
        given = _flat_write(node, inputs[0]) if op is reshape else ()
    if not given:
        return copied(graph, node, inputs)
    with passing(active_on(graph, "diagonals")) as trace:
        x, value = [Tracer(i, trace) for i in given]
        found: Any = np.diagonal(x) if op.put else _written(x, value, add=op is add_at)
        return found.node  # type: ignore[no-any-return]


def _flat_write(node: Node, written: Node) -> tuple[Node, ...]:
    """Return the matrix and the value where a reshape is a matrix laid flat, written along its diagonal."""
    if written.op is not assemble or len(written.inputs) != 2:
        return ()
    flat, value = written.inputs
    n = _extent(node) if flat.op is reshape and flat.inputs[0].shape == node.shape else None
    return (flat.inputs[0], value) if n is not None and written.params[0] == (((0, n, n + 1),),) else ()


def _extent(x: Node) -> Dim | None:
    """Return the extent of a square matrix, None for any other array."""
    return x.shape[0] if len(x.shape) == 2 and x.shape[0] == x.shape[1] else None


def _is_along(inputs: tuple[Node, ...], axes: tuple[int, ...]) -> bool:
    """Whether a square matrix is read or written at (0, 0), (1, 1), ... to its end."""
    n, index = _extent(inputs[0]), inputs[-1]
    if n is None or axes != (0, 1) or inputs[-2] is not index or index.shape != (n,):
        return False
    if index.op is arange:
        return bool(index.param("step") == 1 and scalar(index.inputs[0]) == 0)
    return index.op is leaves.constant and bool(np.array_equal(index.params[0].array, np.arange(n)))


def _written(x: Any, value: Any, *, add: bool = False) -> Any:
    """Choose the value, or the sum with it, on the diagonal, and the matrix elsewhere."""
    rows = arange(Tracer(as_node(x.owner, np.int64(0)), x.owner), count=x.node.shape[0], step=1)
    column = value[:, None]
    return np.where(rows[:, None] == rows, x + column if add else column, x)

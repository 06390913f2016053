"""Making nodes in passes: by op and params, with shape and dtype from the op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.node import Constant, Graph, Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops import leaves
from symgrad.ops.declare import OPS
from symgrad.trace.state import Trace, current

if TYPE_CHECKING:
    from symgrad.ir.op import Op


def make(graph: Graph, op: Op | str, *inputs: Node, **params: Any) -> Node:
    """Make the node of an op; shape and dtype are the op's to say."""
    found = OPS[op] if isinstance(op, str) else op
    shape, dtype = found.infer(*inputs, **params)
    return graph.node(found, inputs, tuple([params[name] for name in found.params]), tuple(shape), dtype)


def literal(graph: Graph, value: Any, dtype: Any) -> Node:
    """Make a scalar constant."""
    params, shape, kind = leaves.constant_args(Constant(np.asarray(value, dtype)))
    return graph.node(leaves.constant, (), params, shape, kind)


def scalar(node: Node) -> Any:
    """Return a scalar constant's number (also behind views of it), None for anything else."""
    while getattr(node.op, "view", False) and node.op.name in {"broadcast_to", "expand_dims", "reshape", "squeeze"}:
        node = node.inputs[0]
    if node.op is leaves.constant and node.shape == ():
        return node.params[0].array[()]
    return None


def is_number(node: Node, value: float) -> bool:
    """Tell a scalar constant of exactly this value, the sign of zero included."""
    found = scalar(node)
    return found is not None and found == value and bool(np.signbit(found) == np.signbit(value))


def shaped(graph: Graph, node: Node, shape: Any) -> Node:
    """Broadcast a node to a shape, unless it has it."""
    return node if node.shape == shape else make(graph, "broadcast_to", node, shape=shape)


DEPTH = 6
"""So many ops of constants are computed to find out a condition."""


def known(condition: Node, depth: int = DEPTH) -> bool | None:
    """Return what a condition always is, when scalar constants decide it; None for any other."""
    op, value = condition.op, scalar(condition)
    if value is not None or not depth or not isinstance(op, Elementwise):
        return None if value is None else bool(value)
    if op.name in _JOINED and all(i.dtype.kind == "b" for i in condition.inputs):
        parts = {known(i, depth - 1) for i in condition.inputs}
        absorbing = _JOINED[op.name]
        return absorbing if absorbing in parts else None if None in parts else not absorbing
    values = [scalar(i) for i in condition.inputs]
    if any(v is None for v in values):
        return None
    with np.errstate(all="ignore"):
        return bool(op.evaluate(*values, **dict(zip(op.params, condition.params, strict=True))))


_JOINED = {"logical_and": False, "bitwise_and": False, "logical_or": True, "bitwise_or": True}


def opened(program: Program) -> tuple[Program, Trace]:
    """Copy a program into a table that can take more nodes, and open a trace on it."""
    outer = current()
    if program.scope is not None and outer is not None:
        return program, outer
    fresh = Trace(Graph(), program.name)
    return rebuild(program, copied, into=fresh.graph), fresh

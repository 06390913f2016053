"""Making nodes in passes, by op and params, and asking what a node is: a number, a view, an op of something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.node import Constant, Graph, Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.trace.state import Trace, current

if TYPE_CHECKING:
    from symgrad.ir.op import Op
    from symgrad.ir.shapes import Shape


def make(graph: Graph, op: Op | str, *inputs: Node, **params: Any) -> Node:
    """Make the node of an op; shape and dtype are the op's to say."""
    found = OPS[op] if isinstance(op, str) else op
    shape, dtype = found.infer(*inputs, **params)
    return graph.node(found, inputs, tuple([params[name] for name in found.params]), tuple(shape), dtype)


def literal(graph: Graph, value: Any, dtype: Any) -> Node:
    """Make a scalar constant."""
    params, shape, kind = leaves.constant_args(Constant(np.asarray(value, dtype)))
    return graph.node(leaves.constant, (), params, shape, kind)


def constant(graph: Graph, array: Any) -> Node:
    """Make a constant of an array, with its dtype."""
    params, shape, dtype = leaves.constant_args(Constant(np.asarray(array)))
    return graph.node(leaves.constant, (), params, shape, dtype)


def scaled(graph: Graph, factor: float, x: Node) -> Node:
    """Multiply by a number, in x's dtype."""
    return make(graph, "multiply", literal(graph, factor, x.dtype), x)


def minus(graph: Graph, node: Node) -> Node:
    """Make -x, and x of -x; a factor that is a number takes the sign."""
    if node.op.name == "negative":
        return node.inputs[0]
    if node.op.name == "multiply" and node.inputs[0].op is leaves.constant:
        factor, x = node.inputs
        return make(graph, "multiply", constant(graph, -factor.params[0].array), x)
    return make(graph, "negative", node)


def again(graph: Graph, node: Node, source: Node) -> Node:
    """Make the same node with another first operand: the same selection of other elements."""
    params = dict(zip(node.op.params, node.params, strict=True))
    return make(graph, node.op, source, *node.inputs[1:], **params)


# -- what a node is

def scalar(node: Node) -> Any:
    """Return a scalar constant's number (also behind views of it), None for anything else."""
    while node.op.ordered or node.op.aligned:  # views that have nothing but one element, if that is all there is
        node = node.inputs[0]
    if node.op is leaves.constant and node.shape == ():
        return node.params[0].array[()]
    return None


def number(node: Node) -> Any:
    """Return the value of a constant that has the same value everywhere, None for anything else."""
    found = scalar(node)
    if found is not None or node.op is not leaves.constant:
        return found
    flat = node.params[0].array.reshape(-1)
    if flat.size == 0 or flat[0] != flat[-1] or not np.all(flat == flat[0]):
        return None
    return flat[0]


def is_number(node: Node, value: float) -> bool:
    """Whether a node is a scalar constant of exactly this value, the sign of zero included."""
    return same_number(scalar(node), value)


def same_number(found: Any, value: Any) -> bool:
    """Whether a constant's number is this value, the sign of zero included."""
    if found is None or found != value:
        return False
    return bool(found) or bool(np.copysign(1.0, found) == np.copysign(1.0, value))


def is_selection(node: Node) -> bool:
    """Whether a node holds elements of its first input: an elementwise function may as well come before it."""
    return getattr(node.op, "view", False) or node.op.name in {"gather", "take_along"}


DEEP = 8
"""How many views in a row are looked behind."""


def core(node: Node) -> Node:
    """Look behind views that keep all elements in their order: new axes of extent 1, reshapes, ``[:, 0]`` of them."""
    for _ in range(DEEP):
        if node.op.name not in {"expand_dims", "squeeze", "reshape"} and not _drops_ones(node):
            break
        node = node.inputs[0]
    return node


def _drops_ones(node: Node) -> bool:
    """Whether a slice only takes the one place of axes of extent 1."""
    return node.op.name == "slice" and all(
        entry in {(0, d, 1), (0,)} and (len(entry) > 1 or d == 1)
        for entry, d in zip(node.params[0], node.inputs[0].shape, strict=True)
    )


def is_along(shape: Shape, full: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a shape is, or broadcasts as, `full` with extent 1 on the axes."""
    lead = len(full) - len(shape)
    kept = tuple([1 if k in axes else d for k, d in enumerate(full)])
    return lead >= 0 and (1,) * lead + shape == kept


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

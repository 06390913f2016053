"""What rules on nodes ask: is this the number 1, is that 1 + x, which array stands behind these views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.node import Constant
from symgrad.ops import leaves
from symgrad.transforms.build import literal, make, scalar

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.shapes import Shape

DEEP = 8
"""How many views in a row are looked behind."""


def number(node: Node) -> Any:
    """Return the value of a constant that has the same value everywhere, None for anything else."""
    found = scalar(node)
    if found is not None or node.op is not leaves.constant:
        return found
    flat = node.params[0].array.reshape(-1)
    if flat.size == 0 or flat[0] != flat[-1] or not np.all(flat == flat[0]):
        return None
    return flat[0]


def is_filled(node: Node, value: float) -> bool:
    """Tell a constant that is this value everywhere."""
    found = number(node)
    return found is not None and bool(found == value)


def argument(node: Node, op: str) -> Node | None:
    """Return x where the node is op(x)."""
    return node.inputs[0] if node.op.name == op else None


def one_plus(node: Node) -> Node | None:
    """Return x where the node is 1 + x or x + 1."""
    if node.op.name != "add":
        return None
    a, b = node.inputs
    return b if is_filled(a, 1) else a if is_filled(b, 1) else None


def one_minus(node: Node) -> Node | None:
    """Return x where the node is 1 - x."""
    return node.inputs[1] if node.op.name == "subtract" and is_filled(node.inputs[0], 1) else None


def one_plus_exp(node: Node) -> Node | None:
    """Return u where the node is 1 + exp(u)."""
    x = one_plus(node)
    return None if x is None else argument(x, "exp")


def squared(node: Node) -> Node | None:
    """Return x where the node is x * x, np.square(x) or x ** 2."""
    name = node.op.name
    if name == "square" or (name == "power_int" and node.params[0] == 2):
        return node.inputs[0]
    return node.inputs[0] if name == "multiply" and node.inputs[0] is node.inputs[1] else None


def minus(graph: Graph, node: Node) -> Node:
    """Make -x, and x of -x; a factor that is a number takes the sign."""
    if node.op.name == "negative":
        return node.inputs[0]
    if node.op.name == "multiply" and node.inputs[0].op is leaves.constant:
        factor, x = node.inputs
        return make(graph, "multiply", constant(graph, -factor.params[0].array), x)
    return make(graph, "negative", node)


def scaled(graph: Graph, factor: float, x: Node) -> Node:
    """Multiply by a number, in x's dtype."""
    return make(graph, "multiply", literal(graph, factor, x.dtype), x)


def constant(graph: Graph, array: Any) -> Node:
    """Make a constant of an array, with its dtype."""
    params, shape, dtype = leaves.constant_args(Constant(np.asarray(array)))
    return graph.node(leaves.constant, (), params, shape, dtype)


# -- views


def is_selection(node: Node) -> bool:
    """Tell a node that holds elements of its first input: an elementwise function may as well come before it."""
    return getattr(node.op, "view", False) or node.op.name in {"gather", "take_along"}


def again(graph: Graph, node: Node, source: Node) -> Node:
    """Make the same selection of elements from another source."""
    params = dict(zip(node.op.params, node.params, strict=True))
    return make(graph, node.op, source, *node.inputs[1:], **params)


def exponent(graph: Graph, node: Node) -> Node | None:
    """Return u where the node is exp(u), or views and gathers of it."""
    selections: list[Node] = []
    while is_selection(node) and len(selections) < DEEP:
        selections.append(node)
        node = node.inputs[0]
    u = argument(node, "exp")
    if u is not None:
        for selection in reversed(selections):
            u = again(graph, selection, u)
    return u


def core(node: Node) -> Node:
    """Look behind views that keep all elements in their order: new axes of extent 1, reshapes, ``[:, 0]`` of them."""
    for _ in range(DEEP):
        if node.op.name not in {"expand_dims", "squeeze", "reshape"} and not _drops_ones(node):
            break
        node = node.inputs[0]
    return node


def _drops_ones(node: Node) -> bool:
    """Tell a slice that only takes the one place of axes of extent 1."""
    return node.op.name == "slice" and all(
        entry in {(0, d, 1), (0,)} and (len(entry) > 1 or d == 1)
        for entry, d in zip(node.params[0], node.inputs[0].shape, strict=True)
    )


def is_along(shape: Shape, full: Shape, axes: tuple[int, ...]) -> bool:
    """Tell whether a shape is, or broadcasts as, `full` with extent 1 on the axes."""
    lead = len(full) - len(shape)
    kept = tuple([1 if k in axes else d for k, d in enumerate(full)])
    return lead >= 0 and (1,) * lead + shape == kept


def is_constant_along(node: Node, full: Shape, axes: tuple[int, ...]) -> bool:
    """Tell whether a value that broadcasts to `full` is the same all along the axes, by its shape."""
    lead = len(full) - len(node.shape)
    return all(k < lead or node.shape[k - lead] == 1 for k in axes)

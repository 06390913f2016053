"""What passes are made of: nodes made by op and params, or written in NumPy, and questions of what a node is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from symgrad.ir.graphs import in_turn
from symgrad.ir.index.regions import whole
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Composite, Elementwise, Op
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.reduce import sum_
from symgrad.ops.arrays.views import broadcast_to, slice_
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.ops.declare.traits import AND, OR, truth
from symgrad.ops.elementwise.arithmetic import multiply, negative
from symgrad.trace.state import Trace, active_on, current, passing
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.tuned import CONDITIONS_DEEP, VIEWS_BEHIND


def make(graph: Graph, op: Op | str, *inputs: Node, **params: Any) -> Node:
    """Make the node of an op; shape and dtype are the op's to say."""
    found = OPS[op] if isinstance(op, str) else op
    shape, dtype = found.infer(*inputs, **params)
    return graph.node(found, inputs, tuple([params[name] for name in found.params]), tuple(shape), dtype)


def written(graph: Graph, function: Callable[..., Any], *given: Any, **params: Any) -> Node:
    """Make what a function in NumPy's words gives for nodes, and for what else it is given."""
    with passing(active_on(graph, "a pass")) as trace:
        return as_node(trace, function(*[Tracer(x, trace) if isinstance(x, Node) else x for x in given], **params))


def literal(graph: Graph, value: Any, dtype: Any = None) -> Node:
    """Make a constant."""
    return leaves.make_constant(graph, np.asarray(value, dtype))


def input_like(graph: Graph, name: str, like: Node) -> Node:
    """Make an input of the shape and dtype of a value."""
    return leaves.make_input(graph, name, like.shape, like.dtype, like.line)


def minus(graph: Graph, node: Node) -> Node:
    """Make -x, and x of -x; a factor that is a number takes the sign."""
    if node.op is negative:
        return node.inputs[0]
    if node.op is multiply and node.inputs[0].is_constant:
        factor, x = node.inputs
        return make(graph, multiply, literal(graph, -factor.params[0].array), x)
    return make(graph, negative, node)


def again(graph: Graph, node: Node, source: Node) -> Node:
    """Make the same node with another first operand: the same selection of other elements."""
    return make(graph, node.op, source, *node.inputs[1:], **node.named)


# -- what a node is

def array(node: Node) -> Any:
    """Return a constant's array, None for anything else."""
    return node.params[0].array if node.is_constant else None


def behind_spread(node: Node) -> Node:
    """Look behind views that have all elements in order, or those again and again."""
    while node.op.ordered or node.op.aligned:
        node = node.inputs[0]
    return node


def scalar(node: Node) -> Any:
    """Return a scalar constant's number (also behind views of it), None for anything else."""
    source = behind_spread(node)
    return source.params[0].array[()] if source.shape == () and source.is_constant else None


def number(node: Node) -> Any:
    """Return the value of a constant that has the same value everywhere, None for anything else."""
    found = scalar(node)
    if found is not None or not node.is_constant:
        return found
    flat = array(node).reshape(-1)
    return flat[0] if flat.size and flat[0] == flat[-1] and np.all(flat == flat[0]) else None


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
    return may_select(node.op)


def may_select(op: Any) -> bool:
    """Whether an op, or what stands for one, picks elements of its first operand and does nothing else."""
    return getattr(op, "view", False) or op is gather



def taken_region(node: Node) -> Any:
    """Return the index by which a view takes a slice, None for any other node."""
    return node.param("index") if node.op.view and "index" in node.op.params else None


def is_sum(node: Node) -> bool:
    """Whether a node is a sum of real numbers along axes."""
    return node.op is sum_ and node.dtype.kind == "f"


def core(node: Node) -> Node:
    """Look behind views that keep all elements in their order: new axes of extent 1, reshapes, ``[:, 0]`` of them."""
    for _ in range(VIEWS_BEHIND):
        drops_ones = node.op is slice_ and all(
            entry == (0, d, 1) or (entry == (0,) and d == 1)
            for entry, d in zip(node.params[0], node.inputs[0].shape, strict=True)
        )
        if not (node.op.ordered or drops_ones):
            break
        node = node.inputs[0]
    return node


def is_along(shape: Shape, full: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a shape is, or broadcasts as, `full` with extent 1 on the axes."""
    lead = len(full) - len(shape)
    kept = tuple([1 if k in axes else d for k, d in enumerate(full)])
    return lead >= 0 and (1,) * lead + shape == kept


def rows_from(graph: Graph, node: Node, first: int, count: int) -> Node:
    """Take so many rows of a node, unless it has no others."""
    if count == node.shape[0]:
        return node
    return make(graph, slice_, node, index=((first, count, 1), *whole(node.shape[1:])))


def shaped(graph: Graph, node: Node, shape: Any) -> Node:
    """Broadcast a node to a shape, unless it has it."""
    return node if node.shape == shape else make(graph, broadcast_to, node, shape=shape)



def known(condition: Node, depth: int = CONDITIONS_DEEP) -> bool | None:
    """Return what a condition always is, when scalar constants decide it; None for any other."""
    op, value = condition.op, scalar(condition)
    if value is not None or not depth or not isinstance(op, Elementwise):
        return None if value is None else bool(value)
    table = truth_table(condition)
    if table in {AND, OR}:
        parts, absorbing = {known(i, depth - 1) for i in condition.inputs}, table == OR
        return absorbing if absorbing in parts else None if None in parts else not absorbing
    values = [scalar(i) for i in condition.inputs]
    if any(v is None for v in values):
        return None
    with np.errstate(all="ignore"):
        return bool(op.evaluate(*values, **condition.named))


def truth_table(node: Node) -> tuple[bool, ...]:
    """Return the truth table of a node of Booleans, nothing of any other."""
    return truth(node.op) if all(i.dtype.kind == "b" for i in node.inputs) else ()


# -- programs

def opened_program(program: Program) -> tuple[Program, Trace]:
    """Copy a program into a table that can take more nodes, and open a trace on it."""
    outer = current()
    if program.scope is not None and outer is not None:
        return program, outer
    fresh = Trace(Graph(), program.name)
    return rebuild(program, copied, into=fresh.graph), fresh


def in_order(program: Program, needed: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """List a program's nodes, each after those that are `needed` for it, which may come later in the program."""
    order = dict.fromkeys(program.inputs)
    for node in program.nodes():
        for one in in_turn(node, lambda one: [i for i in needed(one) if i.number >= program.start], order):
            order[one] = None
    return [*order]


def inline(program: Program) -> Program:
    """Put the body of every composite in its place, after derivation: what has a rule of its own needs it no longer."""

    def inlined(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if not isinstance(node.op, Composite):
            return copied(graph, node, inputs)
        return written(graph, node.op.body, *inputs, **node.named)

    while any(isinstance(op, Composite) for op in program.ops):  # a body may hold composites again
        program = rebuild(program, inlined)
    return program

"""`batch`: a program for one example becomes the program for many, with one more axis in front.

Elementwise ops broadcast. The body of a structured op gets one more index on every access of a batched array (`each`);
for ops whose meaning lies in their axes alone the parameters say the same, so that views stay views and sums sums.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.errors import UnsupportedError, VerifyError
from symgrad.ir.op import Composite, Elementwise
from symgrad.ir.program import Program, copied, replaced
from symgrad.ops import leaves
from symgrad.ops.contract import LETTERS, parse
from symgrad.ops.declare import OPS
from symgrad.trace.state import tracing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import make, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.ir.node import Graph, Node
    from symgrad.ir.shapes import Dim
    from symgrad.trace.state import Trace


def batch(program: Program, mapped: Sequence[bool], size: Dim) -> tuple[Program, list[bool]]:
    """Compute a program for each index of an axis in front of some of its inputs.

    Args:
        program: for one example.
        mapped: which inputs have the axis.
        size: its extent.

    Returns:
        The program for all, and which of its outputs have the axis.
    """
    program, trace = opened(program)
    graph = trace.graph
    start = len(graph) + 1
    new: dict[Node, Node] = {}
    many: set[Node] = set()
    for node, has in zip(program.inputs, mapped, strict=True):
        shape = (size, *node.shape) if has else node.shape
        new[node] = graph.node(leaves.input_, (), (node.param("name"), shape, node.dtype), shape, node.dtype, node.line)
        many.update([node] if has else [])
    before = graph.line
    for node in program.nodes():
        if node in new:
            continue
        graph.line = node.line
        inputs = tuple([new.get(i, i) for i in node.inputs])
        if many.isdisjoint(node.inputs):
            new[node] = copied(graph, node, inputs)
            continue
        new[node] = _batched(trace, node, inputs, tuple([i in many for i in node.inputs]), size)
        many.add(node)
    graph.line = before
    inputs, outputs = tuple([new[i] for i in program.inputs]), tuple([new.get(o, o) for o in program.outputs])
    made = replace(program, inputs=inputs, outputs=outputs, start=start if program.scope is not None else 0)
    return made, [o in many for o in program.outputs]


def _batched(trace: Trace, node: Node, xs: tuple[Node, ...], mapped: tuple[bool, ...], size: Dim) -> Node:
    """Make a node for all examples from its operands for all."""
    op, graph = node.op, trace.graph
    if isinstance(op, Elementwise):
        found = graph.node(op, _aligned(graph, node, xs, mapped), node.params, (size, *node.shape), node.dtype)
    elif op.name == "einsum":
        found = _einsum(graph, node, xs, mapped)
    elif isinstance(op, Composite) or op.name in BY_PARAMS:
        found = _by_params(graph, node, _filled(graph, node, xs, mapped, size), size)
    else:
        found = make(graph, "each", *xs, of=op.name, mapped=mapped, params=node.params)
    if found.shape != (size, *node.shape) or found.dtype != node.dtype:
        raise VerifyError(f"{found!r} is no batch of {size} of {node!r}")
    return found


def _aligned(graph: Graph, node: Node, xs: tuple[Node, ...], mapped: tuple[bool, ...]) -> tuple[Node, ...]:
    """Put the axes of extent 1 that broadcasting adds behind the batch's axis, where an operand has fewer."""
    rank = len(node.shape)
    return tuple([_deeper(graph, x, rank - len(x.shape) + 1) if m else x for x, m in zip(xs, mapped, strict=True)])


def _deeper(graph: Graph, x: Node, count: int) -> Node:
    return make(graph, "expand_dims", x, axes=tuple(range(1, count + 1))) if count else x


def _filled(graph: Graph, node: Node, xs: tuple[Node, ...], mapped: tuple[bool, ...], size: Dim) -> list[Node]:
    """Give every operand the batch's axis; it costs nothing, for a broadcast is a view."""
    if node.op.name == "broadcast_to":
        return [_deeper(graph, xs[0], len(node.shape) - len(xs[0].shape) + 1)]
    return [_all(graph, x, m, size) for x, m in zip(xs, mapped, strict=True)]


# -- ops whose parameters say which axes they mean


def _after(axes: tuple[int, ...], size: Dim) -> tuple[int, ...]:  # noqa: ARG001 - a parameter's rule
    return tuple([axis + 1 for axis in axes])


def _whole(index: tuple[Any, ...], size: Dim) -> tuple[Any, ...]:
    return ((0, size, 1), *index)


_MOVED: dict[str, Callable[[Any, Dim], Any]] = {
    "axes": _after, "axis": lambda axis, size: axis + 1, "index": _whole,  # noqa: ARG005 - likewise
    "indices": lambda indices, size: tuple([_whole(index, size) for index in indices]),
    "shape": lambda shape, size: (size, *shape),
}

BY_PARAMS = frozenset({
    "reshape", "transpose", "broadcast_to", "expand_dims", "squeeze", "slice", "place", "set_slice", "diagonal",
    "embed_diagonal", "triangle", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod",
    "recurrence", "concatenate", "take_along", "add_along",
})
"""Ops of which `vmap` makes the same op, with its axes one further; every other structured op goes through `each`."""


def _by_params(graph: Graph, node: Node, xs: list[Node], size: Dim) -> Node:
    params = dict(zip(node.op.params, node.params, strict=True))
    if node.op.name == "transpose":
        moved = {"axes": (0, *_after(params["axes"], size))}
    elif node.op.name == "embed_diagonal":  # its shape is that of the last two axes
        moved = params
    else:
        moved = {name: _MOVED[name](value, size) if name in _MOVED else value for name, value in params.items()}
    return make(graph, node.op, *xs, **moved)


def _einsum(graph: Graph, node: Node, xs: tuple[Node, ...], mapped: tuple[bool, ...]) -> Node:
    """Give the batched operands and the result one more label."""
    subscripts = node.param("subscripts")
    terms, result = parse(subscripts)
    new = next((label for label in LETTERS if label not in subscripts), None)
    if new is None:
        raise UnsupportedError(f"vmap of a sum of products over {len(LETTERS)} labels", line=node.line)
    left = ",".join([new + t if m else t for t, m in zip(terms, mapped, strict=True)])
    return make(graph, "einsum", *xs, subscripts=f"{left}->{new}{result}")


# -- the derivative of `each`


def each_rule(
    g: Any, y: Any, *xs: Any, of: str, mapped: tuple[bool, ...], params: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Pull a cotangent through an op for each index: by the op's own rule, batched.

    Args:
        g: the cotangent (or a guard, which goes the same way).
        y: the result, None for a guard.
        xs: the operands.
        of: the op's name.
        mapped: which operands have the batch's axis.
        params: the op's parameters.
    """
    from symgrad.transforms.vjp import rule

    trace, graph = g.owner, g.owner.graph
    given = [v for v in (g, y, *xs) if v is not None]
    flags = [True] * (len(given) - len(xs)) + list(mapped)
    shapes = [v.node.shape[1:] if m else v.node.shape for v, m in zip(given, flags, strict=True)]
    inner = [graph.node(leaves.input_, (), ("x", s, v.dtype), s, v.dtype) for v, s in zip(given, shapes, strict=True)]
    one = [Tracer(i, trace) for i in inner]
    ones = one[len(one) - len(xs) :]
    stand_in = graph.node(OPS[of], tuple([x.node for x in ones]), params, shapes[0], given[0].dtype)
    named = dict(zip(OPS[of].params, params, strict=True))
    with tracing(trace):
        found = rule(OPS[of], stand_in)(one[0], None if y is None else one[1], *ones, **named)
        parts = found if isinstance(found, tuple) else (found,)
        there = tuple([p.node for p in parts if p is not None])
        program, many = batch(Program(tuple(inner), there, "each", (), graph, inner[0].number), flags, g.node.shape[0])
    made = iter(zip(replaced(graph, program, [v.node for v in given]), many, strict=True))
    back = [None if p is None else _all(graph, *next(made), size=g.node.shape[0]) for p in parts]
    add = "any" if g.dtype.kind == "b" else "sum"
    summed = [p if p is None or m else make(graph, add, p, axes=(0,)) for p, m in zip(back, mapped, strict=True)]
    return tuple([None if p is None else Tracer(p, trace) for p in summed])


def _all(graph: Graph, x: Node, many: bool, size: Dim) -> Node:
    return x if many else make(graph, "broadcast_to", x, shape=(size, *x.shape))

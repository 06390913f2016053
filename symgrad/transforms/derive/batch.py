"""`batch`: a program for one example becomes the program for many, with one more axis in front.

Elementwise ops broadcast. The body of a structured op gets one more index on every access of a batched array (`each`);
for ops whose meaning lies in their axes alone the parameters say the same, so that views stay views and sums sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError, VerifyError
from symgrad.ir.index.shapes import Dim, simplified
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Composite, Control, Elementwise, Result
from symgrad.ir.program import Program, copied, replaced
from symgrad.ops.arrays.contract import LETTERS
from symgrad.ops.arrays.views import broadcast_to, expand_dims, reshape
from symgrad.ops.batched import each, evaluated_for_each, stand_in
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.trace.state import Trace, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import make, opened_program


def batch(program: Program, mapped: Sequence[bool], size: Dim) -> tuple[Program, list[bool]]:
    """Compute a program for each index of an axis in front of some of its inputs.

    Args:
        program: for one example.
        mapped: which inputs have the axis.
        size: its extent.

    Returns:
        The program for all, and which of its outputs have the axis.
    """
    program, trace = opened_program(program)
    graph = trace.graph
    start = len(graph) + 1
    many = {node for node, has in zip(program.inputs, mapped, strict=True) if has}
    several: dict[Node, list[tuple[Node, bool]]] = {}

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if many.isdisjoint(node.inputs):
            return copied(graph, node, inputs)
        if isinstance(node.op, Result):
            of_all: tuple[Node, bool] = several[node.inputs[0]][node.param("number")]
            many.update([node] if of_all[1] else [])
            return of_all[0]
        many.add(node)
        flags = [i in many for i in node.inputs]
        with passing(trace):
            if not isinstance(node.op, Control):
                return _batched(trace, node, inputs, tuple(flags), size)
            several[node] = node.op.batch(trace, node, inputs, flags, size)
        return node  # nothing but its results is read

    given = tuple([
        leaves.make_input(graph, i.param("name"), (size, *i.shape) if i in many else i.shape, i.dtype, i.line)
        for i in program.inputs
    ])
    outputs = tuple(replaced(graph, program, given, rewrite))
    made = replace(program, inputs=given, outputs=outputs, start=start if program.scope is not None else 0)
    return made, [o in many for o in program.outputs]


def _batched(trace: Trace, node: Node, xs: tuple[Node, ...], mapped: tuple[bool, ...], size: Dim) -> Node:
    """Make a node for all examples from its operands for all."""
    op, graph, params = node.op, trace.graph, node.named
    if isinstance(op, Elementwise):
        found = graph.node(op, _with_ones(trace, node, xs, mapped), node.params, (size, *node.shape), node.dtype)
    elif op.labels:
        found = make(graph, op, *xs, subscripts=_with_batch_label(node, mapped))
    elif isinstance(op, Composite) and OPS.get(op.name) is not op:  # one of the user's
        found = make(graph, for_all(op, mapped), *xs, **params)
    elif op.columns and not any(mapped[:-1]):
        found = _columns_together(trace, node, xs, size)
    elif op.many is not None and (of_all := op.many(mapped, *[Tracer(x, trace) for x in xs], **params)) is not None:
        found = of_all.node
    elif op.batched is None:
        found = make(graph, each, *xs, of=op.name, mapped=mapped, params=node.params)
    else:
        filled = [_all(graph, x, m, size) for x, m in zip(_with_ones(trace, node, xs, mapped), mapped, strict=True)]
        found = make(graph, op, *filled, **op.batched(size, **params))
    if found.shape != (size, *node.shape) or found.dtype != node.dtype:
        raise VerifyError(f"{found!r} is no batch of {size} of {node!r}")
    return found


def _with_ones(trace: Trace, node: Node, xs: tuple[Node, ...], mapped: tuple[bool, ...]) -> tuple[Node, ...]:
    """Put the axes of extent 1 that broadcasting adds behind the batch's axis, where an operand has fewer."""
    if not (isinstance(node.op, Elementwise) or node.op.aligned):
        return xs
    new = [tuple(range(1, len(node.shape) - len(x.shape) + 2)) if m else () for x, m in zip(xs, mapped, strict=True)]
    return tuple([make(trace.graph, expand_dims, x, axes=m) if m else x for x, m in zip(xs, new, strict=True)])


def _with_batch_label(node: Node, mapped: tuple[bool, ...]) -> str:
    """Give the batched operands of a sum of products and its result one more label."""
    terms, result = node.op.labels(**node.named)
    new = next((label for label in LETTERS if all(label not in term for term in terms)), None)
    if new is None:
        raise UnsupportedError(f"vmap of a sum of products over {len(LETTERS)} labels", line=node.line)
    return f"{','.join([new + t if m else t for t, m in zip(terms, mapped, strict=True)])}->{new}{result}"


def _columns_together(trace: Trace, node: Node, xs: tuple[Node, ...], size: Dim) -> Node:
    """Put the right-hand sides of all examples beside each other, where they have the matrix in common."""
    others: list[Any] = [Tracer(x, trace) for x in xs]
    wide = np.moveaxis(others.pop(), 0, -2)
    flat = reshape(wide, shape=(*wide.node.shape[:-2], simplified(size * node.shape[-1])))
    x = node.op(*others, flat, **node.named)
    found: Any = np.moveaxis(reshape(x, shape=(*x.node.shape[:-1], size, node.shape[-1])), -2, 0)
    return found.node  # type: ignore[no-any-return]


# -- functions for each example, and the rules of what is made of them


def each_of(fun: Callable[..., Any], given: Sequence[Any], mapped: Sequence[bool]) -> list[Any]:
    """Call a function of traced values for each index of the first axis of some of them.

    Returns:
        Its results (None stays None), each with the axis in front.
    """
    trace = given[0].owner
    graph = trace.graph
    size = next(v.node.shape[0] for v, m in zip(given, mapped, strict=True) if m)
    shapes = [v.node.shape[1:] if m else v.node.shape for v, m in zip(given, mapped, strict=True)]
    inner = [leaves.make_input(graph, "x", s, v.dtype) for v, s in zip(given, shapes, strict=True)]
    with passing(trace):
        found = fun(*[Tracer(i, trace) for i in inner])
        parts = found if isinstance(found, tuple) else (found,)
        there = tuple([p.node for p in parts if p is not None])
        program, many = batch(Program(tuple(inner), there, "each", (), graph, inner[0].number), mapped, size)
    made = iter(zip(replaced(graph, program, [v.node for v in given]), many, strict=True))
    return [None if p is None else Tracer(_all(graph, *next(made), size=size), trace) for p in parts]


def _all(graph: Graph, x: Node, many: bool, size: Dim) -> Node:
    return x if many else make(graph, broadcast_to, x, shape=(size, *x.shape))


def summed_over_batch(parts: list[Any], mapped: Sequence[bool], g: Any) -> tuple[Any, ...]:
    """Add the cotangents of what is the same for all examples; of guards, that one of them holds."""
    add = np.any if g.dtype.kind == "b" else np.sum
    return tuple([p if p is None or m else add(p, axis=0) for p, m in zip(parts, mapped, strict=True)])


def for_all(op: Composite, mapped: tuple[bool, ...]) -> Composite:
    """Return a composite for each index: its body and its rule are called for one, and batched."""

    def infer(*xs: Node, **params: Any) -> Any:
        (size, *_), *_ = [x.shape for x, m in zip(xs, mapped, strict=True) if m]
        shape, dtype = op.infer(*[stand_in(x, batched=m) for x, m in zip(xs, mapped, strict=True)], **params)
        return (size, *shape), dtype

    def evaluate(*xs: Any, **params: Any) -> Any:
        return evaluated_for_each(op, xs, mapped, params, np.empty(*infer(*xs, **params)))

    def body(*xs: Any, **params: Any) -> Any:
        return each_of(lambda *one: op.body(*one, **params), xs, mapped)[0]

    def pull(g: Any, y: Any, *xs: Any, **params: Any) -> tuple[Any, ...]:
        def one(*ones: Any) -> Any:
            return op.vjp(*ones, **params)  # type: ignore[misc]  # what has no rule is not asked

        return summed_over_batch(each_of(one, (g, y, *xs), (True, True, *mapped)), mapped, g)

    rule = None if op.vjp is None else pull
    return Composite(op.name, op.params, evaluate=evaluate, infer=infer, body=body, vjp=rule, doc=op.doc)

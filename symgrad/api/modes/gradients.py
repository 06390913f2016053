"""gradients, stop_gradient: derivatives of traced values by traced values, inside of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.api.modes.mode import matched
from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ir.index.shapes import show
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program, copied, replaced
from symgrad.ops.arrays.views import broadcast_to
from symgrad.ops.declare.forms import is_traced
from symgrad.ops.elementwise.selection import astype, stop
from symgrad.trace import optree
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.signature import flatten
from symgrad.trace.state import Trace, current
from symgrad.trace.structures import NAMESPACE
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.build import make
from symgrad.transforms.derive.jvp import fresh, pullback
from symgrad.transforms.derive.vjp import depends


def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, stop_gradients: Any = None, unconnected_gradients: str = "error",
) -> Any:
    """Derive the sum of traced values by other ones, intermediate ones too, inside of a traced function.

    Equal expressions are one value: the gradient by ``np.sin(x)`` is that by every ``np.sin(x)`` of the function.

    Args:
        ys: what is derived: a traced value, or a tree of them; arrays are summed.
        xs: by what: a traced value, or a tree of them.
        grad_ys: where the sweep starts: a cotangent for each of `ys`, in the same structure; None for ones.
        stop_gradients: values that are constants here: nothing goes through them (what arrives at them counts, where
            they are among `xs`). So partial derivatives are made of total ones.
        unconnected_gradients: what an x gets that no y depends on: ``"error"`` names it, ``"none"`` gives None,
            ``"zero"`` zeros. A dependence without a derivative, as of ``np.floor(x)``, is none.

    Returns:
        The gradients, in the structure of `xs`, each of its x's shape and dtype.

    Raises:
        ArgumentError: it is called outside of a traced function, or an x or a y is not floating point, naming it.
        ArgumentValueError: an x is not connected and must be, or `unconnected_gradients` is something else.
        ShapeError: a cotangent has another shape than its y.
        NoGradient: a value on the way has no derivative.

    >>> import numpy as np, symgrad as sg
    >>> @sg.jit
    ... def f(a):
    ...     b = 2 * a
    ...     return sg.gradients(a + b, [a, b]), sg.gradients(a + b, [a, b], stop_gradients=[a, b])
    >>> [[float(g) for g in total] for total in f(1.0)]
    [[3.0, 1.0], [1.0, 1.0]]
    """
    outer = current()
    if outer is None:
        raise ArgumentError(
            "sg.gradients derives traced values, and no function is traced here", line=user_line(),
            instead="call it inside of a function that sg.jit compiles, or use sg.grad, sg.vjp of a function",
        )
    if unconnected_gradients not in {"none", "zero", "error"}:
        raise ArgumentValueError(
            f"unconnected_gradients={unconnected_gradients!r}", line=user_line(), instead='"none", "zero" or "error"'
        )
    (targets, y_tree), (sources, x_tree) = flatten(ys), flatten(xs)
    y_nodes = [_differentiable(outer, y, "derive", k) for k, y in enumerate(targets)]
    x_nodes = [_differentiable(outer, x, "derive by", k) for k, x in enumerate(sources)]
    starts = [None] * len(targets) if grad_ys is None else matched(y_tree, grad_ys, "grad_ys")
    bars = []
    for y, start in zip(y_nodes, starts, strict=True):
        bar = as_node(outer, np.ones((), y.dtype) if start is None else start)
        if bar.shape != y.shape and start is not None:
            raise ShapeError(f"grad_ys has shape {show(bar.shape)} for a y of shape {show(y.shape)}", line=user_line())
        bar = bar if bar.dtype == y.dtype else make(outer.graph, astype, bar, dtype=y.dtype)
        bars.append(bar if bar.shape == y.shape else make(outer.graph, broadcast_to, bar, shape=y.shape))
    stops = {as_node(outer, s) for s in flatten(stop_gradients)[0] if is_traced(s)}
    found: dict[Node, Node | None] = {}
    for group in _source_groups(outer.graph, y_nodes, x_nodes, stops):
        found |= _cut_and_derived(outer, y_nodes, group, stops, bars)
    results: list[Any] = []
    for k, x in enumerate(x_nodes):
        result = found[x]
        if result is None and unconnected_gradients == "error":
            raise ArgumentValueError(
                f"no y depends on {_name(sources[k], k)} of the xs in a way that has a derivative", line=user_line(),
                instead='unconnected_gradients="zero" for zeros, "none" for None',
            )
        if result is None and unconnected_gradients == "zero":
            zero = as_node(outer, np.zeros((), x.dtype))
            result = make(outer.graph, broadcast_to, zero, shape=x.shape) if x.shape else zero
        results.append(None if result is None else Tracer(result, outer))
    return optree.tree_unflatten(x_tree, results)


def stop_gradient(x: Any) -> Any:
    """Return a value that is a constant of every derivative, forward and reverse.

    Args:
        x: an array, a number, or a tree of them; what is not traced comes back as it is.

    >>> import numpy as np, symgrad as sg
    >>> float(sg.grad(lambda x: x * sg.stop_gradient(x))(3.0))
    3.0
    """

    def stopped(x: Any) -> Any:
        value = settled(x)
        return stop(value) if is_traced(value) else x

    return optree.tree_map(stopped, x, namespace=NAMESPACE)


def _differentiable(outer: Trace, value: Any, doing: str, number: int) -> Node:
    if not is_traced(value):
        kind = type(value).__name__
        raise ArgumentError(f"sg.gradients is to {doing} number {number}, which is a {kind} and not a traced value")
    node = as_node(outer, value)
    if node.dtype.kind != "f":
        raise ArgumentError(
            f"sg.gradients is to {doing} {_name(value, number)}, which is {node.dtype.name}: "
            "a derivative needs floating point",
            line=user_line(), instead="x.astype(np.float64), before it is used",
        )
    return node


def _name(value: Any, number: int) -> str:
    return getattr(value, "origin", "") or f"number {number}"


def _part_between(graph: Graph, ys: Sequence[Node], xs: Sequence[Node]) -> Program:
    return Program((), tuple(ys), "gradients", (), graph, min(x.number for x in xs))


def _source_groups(graph: Graph, ys: Sequence[Node], xs: Sequence[Node], stops: set[Node]) -> list[list[Node]]:
    """Group sources: all at once where none depends on another one, else one by one."""
    every = list(dict.fromkeys(xs))
    if not every:
        return []
    reached = set(every)
    for node in _part_between(graph, [*ys, *every], every).nodes():
        if not reached.isdisjoint(node.inputs):
            reached.add(node)
    if any(x not in stops and not reached.isdisjoint(x.inputs) for x in every):
        return [[x] for x in every]
    return [every]


def _cut_and_derived(
    outer: Trace, ys: Sequence[Node], xs: Sequence[Node], stops: set[Node], bars: Sequence[Node],
) -> dict[Node, Node | None]:
    """Cut what is between ys and xs out as a program, derive it, put the derivative in its place."""
    from symgrad.transforms.passes import stabilize

    graph = outer.graph
    with graph.apart():
        new = {x: fresh(outer, "x", x) for x in xs}
        for node in _part_between(graph, ys, xs).nodes():
            if node not in stops and not new.keys().isdisjoint(node.inputs):  # another argument's copy nobody passes
                new[node] = copied(graph, node, tuple([new.get(i, i) for i in node.inputs]))
        outputs, inputs = tuple([new.get(y, y) for y in ys]), tuple([new[x] for x in xs])
        program = stabilize(Program(inputs, outputs, "gradients", (), graph, inputs[0].number), outer.options)
        connected = [not {*program.outputs}.isdisjoint(depends(program.nodes(), [i])) for i in program.inputs]
        derived = pullback(program, range(len(xs)), range(len(ys)))
    results = replaced(graph, derived, [*xs, *bars])
    return {x: r if c else None for x, r, c in zip(xs, results, connected, strict=True)}

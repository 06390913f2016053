"""Reverse mode: one sweep over a program, from its outputs to the inputs that are asked for.

A cotangent carries its guard: boolean values of the program outside of which it is zero. `where` adds to
it; rules whose slope may be infinite are followed by a select, so that ``where(x > 0, sqrt(x), 0)`` has
gradient 0 at 0 and not 0 * inf. It holds all along the sweep that a cotangent *is* 0 where its guard is false.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.errors import ArgumentError, NoGradient
from symgrad.ir.node import Graph
from symgrad.ir.op import Composite, Elementwise
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.declare import OPS
from symgrad.ops.views import unbroadcast
from symgrad.trace.constants import constant
from symgrad.trace.state import Trace, current, tracing
from symgrad.trace.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from symgrad.ir.node import Node

    Guard = tuple[Node, ...]


class Cotangent(NamedTuple):
    """What arrives at a value: a traced array of its shape, and the guard outside of which it is zero."""

    value: Any
    guard: Guard


def value_and_grad(program: Program, wrt: Sequence[int], output: int = 0) -> Program:
    """Extend a program by the gradient of one scalar output with respect to some inputs.

    Args:
        program: at least one output; the chosen one is a floating-point scalar.
        wrt: positions of inputs.
        output: position of the output.

    Returns:
        A program with the old outputs, then one gradient for each input of `wrt`, of its shape and dtype.

    Raises:
        ArgumentError: an input or the output is no floating-point array, or the output is no scalar.
        NoGradient: a value on the way has an op without a derivative.
    """
    for position in wrt:
        node = program.inputs[position]
        if node.dtype.kind != "f":
            name = node.param("name")
            raise ArgumentError(
                f"the gradient with respect to {name!r}, which is {node.dtype.name}: a derivative needs floating point",
                instead=f"{name}.astype(np.float64), or leave it out of argnums",
            )
    loss = program.outputs[output]
    if loss.shape != () or loss.dtype.kind != "f":
        raise ArgumentError(
            f"grad needs a function that returns one floating-point number; {program.name}() returns "
            f"{loss.dtype.name}[{','.join(map(str, loss.shape))}]",
            line=loss.line, instead="np.sum or np.mean of it",
        )
    program, trace = opened(program)
    with tracing(trace):
        one = Tracer(constant(trace, 1, program.outputs[output].dtype), trace)
        grads = sweep(trace, program, {program.outputs[output]: one}, [program.inputs[k] for k in wrt])
    trace.graph.line = None
    return replace(program, outputs=(*program.outputs, *grads))


def opened(program: Program) -> tuple[Program, Trace]:
    """Copy a program into a table that can take more nodes, and open a trace on it."""
    outer = current()
    if program.scope is not None and outer is not None:
        return program, outer
    fresh = Trace(Graph(), program.name)
    return rebuild(program, copied, into=fresh.graph), fresh


def sweep(trace: Trace, program: Program, seeds: dict[Node, Any], wrt: Sequence[Node]) -> list[Node]:
    """Push cotangents from seeded nodes back to inputs.

    Returns:
        One node for each of `wrt`: its gradient, zeros where nothing arrives.
    """
    nodes = program.nodes()
    active = depends(nodes, wrt)
    arrived: dict[Node, list[Cotangent]] = {node: [Cotangent(seed, ())] for node, seed in seeds.items()}
    wanted: dict[Node, Any] = dict.fromkeys(wrt)
    graph = trace.graph
    for node in reversed(nodes):
        if node not in active or node not in arrived:
            continue
        graph.line = node.line or graph.line
        total = meet(arrived.pop(node))
        if node in wanted:
            wanted[node] = total.value.node
        if node.inputs:
            for read, part in pulled(trace, node, total, active):
                arrived.setdefault(read, []).append(part)
    graph.line = None
    return [found if found is not None else _zeros(trace, node) for node, found in wanted.items()]


def depends(nodes: Sequence[Node], wrt: Sequence[Node]) -> set[Node]:
    """Return the floating-point nodes that a change of `wrt` could change smoothly."""
    active = set(wrt)
    for node in nodes:
        if node.dtype.kind == "f" and not node.op.nondiff and not active.isdisjoint(node.inputs):
            active.add(node)
    return active


def _zeros(trace: Trace, node: Node) -> Node:
    zero = Tracer(constant(trace, 0, node.dtype), trace)
    return zero.node if node.shape == () else OPS["broadcast_to"](zero, shape=node.shape).node  # type: ignore[no-any-return]


def meet(parts: list[Cotangent]) -> Cotangent:
    """Add cotangents in the order they came; the sum is zero outside of what all guards share."""
    if len(parts) == 1:
        return parts[0]
    values = placed([part.value for part in parts])
    total = values[0]
    for value in values[1:]:
        total = total + value
    shared = [g for g in parts[0].guard if all(g in part.guard for part in parts[1:])]
    return Cotangent(total, tuple(shared))


def placed(values: list[Any]) -> list[Any]:
    """Join what was placed into zeros to one array of zeros: n slices of a vector cost n, not n squared."""
    slots = [v for v in values if v.node.op.name == "place"]
    if len(slots) < 2:
        return values
    pieces = [Tracer(piece, v.owner) for v in slots for piece in v.node.inputs]
    indices = tuple([index for v in slots for index in v.node.param("indices")])
    joined = OPS["place"](*pieces, indices=indices, shape=slots[0].node.param("shape"))
    return [*[v for v in values if v.node.op.name != "place"], joined]


def pulled(trace: Trace, node: Node, total: Cotangent, active: set[Node]) -> Iterator[tuple[Node, Cotangent]]:
    """Apply a node's rule: the cotangents of its inputs."""
    op = node.op
    inputs = [Tracer(i, trace) for i in node.inputs]
    y = Tracer(node, trace)
    params = dict(zip(op.params, node.params, strict=True))
    parts = rule(op, node)(total.value, y, *inputs, **params)
    parts = parts if isinstance(parts, tuple) else (parts,)
    if len(parts) != len(inputs):
        raise NoGradient(f"the rule of {op.name} gives {len(parts)} cotangents for {len(inputs)} inputs", line=node.line)
    guards = passed(trace, node, total.guard)
    for k, (read, part) in enumerate(zip(node.inputs, parts, strict=True)):
        if read not in active or part is None:
            continue
        guard = guards[k]
        if guard and not getattr(op, "linear", getattr(op, "view", False)):
            part = selected(trace, guard, part)
        value = unbroadcast(part, read.shape)
        yield read, Cotangent(value, fitting(trace, guard, read.shape, part.node.shape))


def rule(op: Any, node: Node) -> Any:
    """Return an op's derivative as a function ``(g, y, *x, **params)``.

    Raises:
        NoGradient: when it has none.
    """
    if op.vjp is not None:
        return op.vjp
    if isinstance(op, Elementwise):
        from symgrad.ops.calculus import partials

        slopes = op.partials or partials(op)

        def chain(g: Any, y: Any, *x: Any, **params: Any) -> tuple[Any, ...]:
            found = slopes(*x, y, **params)
            found = found if isinstance(found, tuple) else (found,)
            return tuple([None if d is None else g if _is_one(d) else g * d for d in found])

        return chain
    if isinstance(op, Composite):
        raise NoGradient(f"the composite {op.name} has no rule and was not inlined", line=node.line)
    raise NoGradient(
        f"{op.name} has no derivative, and the gradient's path goes through it", line=node.line,
        instead="a formulation without it, or keep it off the path (its argument a constant)",
    )


def _is_one(d: Any) -> bool:
    return isinstance(d, (int, float)) and d == 1


# -- guards


def passed(trace: Trace, node: Node, guard: Guard) -> list[Guard]:
    """Carry a guard from a node's result to each of its inputs (in the result's shape, for elementwise ops)."""
    op, count = node.op, len(node.inputs)
    if op.name == "where":
        condition = node.inputs[0]
        opposite = trace.graph.node(OPS["logical_not"], (condition,), (), condition.shape, condition.dtype)
        return [(), _with(guard, condition), _with(guard, opposite)]
    if not guard or isinstance(op, Elementwise):
        return [guard] * count
    kept: list[list[Node]] = [[] for _ in range(count)]
    for g in guard:
        for k, carried in enumerate(_carried(trace, node, g)):
            if carried is not None:
                kept[k].append(carried)
    return [tuple(k) for k in kept]


def _with(guard: Guard, condition: Node) -> Guard:
    return guard if condition in guard else (*guard, condition)


def _carried(trace: Trace, node: Node, g: Node) -> list[Node | None]:
    """Carry one condition through a structured op: as its cotangents go, where they are only moved."""
    op, count = node.op, len(node.inputs)
    if all(d == 1 for d in g.shape):
        scalar = g if g.shape == () else OPS["reshape"](Tracer(g, trace), shape=()).node
        return [scalar] * count
    if op.name == "broadcast_to":
        return [_reduced(trace, g, node.inputs[0].shape, node.shape)]
    if getattr(op, "view", False) or op.name in {"concatenate", "expand_dims"}:
        whole = OPS["broadcast_to"](Tracer(g, trace), shape=node.shape)
        inputs = [Tracer(i, trace) for i in node.inputs]
        params = dict(zip(op.params, node.params, strict=True))
        parts = op.vjp(whole, None, *inputs, **params)  # type: ignore[misc]  # views have rules
        return [p.node for p in (parts if isinstance(parts, tuple) else (parts,))]
    if "axes" in op.params and count == 1 and len(node.shape) + len(node.param("axes")) == len(node.inputs[0].shape):
        lead = len(node.shape) - len(g.shape)
        whole = OPS["expand_dims"](Tracer(g, trace), axes=tuple(range(lead))) if lead else Tracer(g, trace)
        return [OPS["expand_dims"](whole, axes=node.param("axes")).node]
    return [None] * count


def selected(trace: Trace, guard: Guard, part: Any) -> Any:
    """Set a cotangent to zero outside of its guard; what it is there (0 * inf) does not matter."""
    condition: Any = Tracer(guard[0], trace)
    for g in guard[1:]:
        condition = np.logical_and(condition, Tracer(g, trace))
    return np.where(condition, part, np.zeros((), part.dtype))


def fitting(trace: Trace, guard: Guard, shape: Any, full: Any) -> Guard:
    """Keep the part of a guard that does not vary over the axes a cotangent was just summed over."""
    if shape == full:
        return guard
    reduced = [_reduced(trace, g, shape, full) for g in guard]
    return tuple([g for g in reduced if g is not None])


def _reduced(trace: Trace, g: Node, shape: Any, full: Any) -> Node | None:
    """Take a condition of a stretched shape back to the shape before, None where it varies along the stretch."""
    lead, own = len(full) - len(shape), len(full) - len(g.shape)
    for axis, dim in enumerate(g.shape, own):
        stretched = axis < lead or (shape[axis - lead] == 1 and full[axis] != 1)
        if stretched and dim != 1:
            return None
    extra = tuple([axis - own for axis in range(own, lead)])
    return OPS["squeeze"](Tracer(g, trace), axes=extra).node if extra else g  # type: ignore[no-any-return]

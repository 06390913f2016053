"""Reverse mode: one sweep over a program, from its outputs to the inputs that are asked for.

A cotangent carries its guard: boolean values of the program outside of which it is zero. `where` adds to
it, and what uses only some elements of an array; rules whose slope may be infinite are followed by a select, so that
``where(x > 0, sqrt(x), 0)`` and ``sqrt(x)[1:]`` have gradient 0 at 0 and not 0 * inf. It holds all along the sweep that
a cotangent *is* 0 where its guard is false.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import ArgumentError, Derived, Line, NoGradient
from symgrad.ir.graphs import reachable
from symgrad.ir.node import Node
from symgrad.ir.op import Composite, Elementwise, Op, Result
from symgrad.ir.program import Program, replaced
from symgrad.ops.arrays.updates import assemble, is_most
from symgrad.ops.arrays.views import place, unbroadcast
from symgrad.ops.control import differentiated, result
from symgrad.ops.declare import leaves
from symgrad.ops.declare.traits import chooses
from symgrad.ops.elementwise.selection import slope_of
from symgrad.trace.constants import constant
from symgrad.trace.state import Trace, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import make, opened_program, shaped
from symgrad.transforms.derive.guards import (
    Guard,
    both,
    conditions,
    either,
    fitting,
    followed,
    joined,
    keeps_zeros,
    kept,
    one_condition,
    passed,
    selected,
    unselected,
    use_of,
)
from symgrad.transforms.derive.poles import Poles, leaves_out, meant, moves
from symgrad.transforms.derive.rules import rule


class Cotangent(NamedTuple):
    """What arrives at a value.

    Attributes:
        value: a traced array of its shape.
        guard: outside of which it is zero.
        chosen: it came through a `where`, which may stand against whatever the program's inputs hold: then every rule
            is guarded. Otherwise those are that may be infinite or NaN for finite inputs.
        partial: it came out of a program, or into one, where some of it may be 0 because nobody uses that. Its guard is
            that it is not 0, and is made where one is asked for: what moves elements moves no condition beside them.
        soft: its guard is such a one. What is 0 may have a derivative all the same: it is selected only where a slope
            is not finite, and what is derived of it likewise.
        unit: what is 0 in it is so of a unit vector, which is a constant.
    """

    value: Any
    guard: Guard = ()
    chosen: bool = False
    partial: bool = False
    soft: bool = False
    unit: bool = False

    def beyond(self, value: Any) -> Cotangent:
        """Go on with it on the other side of a program's border, where the conditions of its guard are not known."""
        return Cotangent(
            value, (), self.chosen, self.partial or self.chosen or bool(self.guard), unit=self.unit and not self.guard)


def gradient(
    program: Program, wrt: Sequence[int], output: int = 0, by: Mapping[int, Sequence[Node]] | None = None,
) -> Program:
    """Derive one scalar output of a program with respect to some inputs.

    Args:
        program: at least one output; the chosen one is one floating-point number.
        wrt: positions of inputs.
        output: position of the output.
        by: of some of these inputs, the nodes to derive by in their places.

    Returns:
        A program with one gradient for each of these, of its shape and dtype.

    Raises:
        ArgumentError: an input or the output is no floating-point array, or the output is not one number.
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
    if any(extent != 1 for extent in loss.shape) or loss.dtype.kind != "f":
        raise ArgumentError(
            f"grad needs a function that returns one floating-point number; {program.name}() returns "
            f"{loss.dtype.name}[{','.join(map(str, loss.shape))}]",
            line=loss.line, instead="np.sum or np.mean of it" if loss.dtype.kind == "f" else
            "a smooth function in place of what counts or compares; has_aux=True for what is not to be derived",
        )
    program, trace = opened_program(program)
    nodes = [node for k in wrt for node in (by or {}).get(k, [program.inputs[k]])]
    with passing(trace):
        one = Tracer(constant(trace, 1, program.outputs[output].dtype), trace).reshape(loss.shape)
        grads = sweep(trace, program, {program.outputs[output]: one}, nodes)
    trace.graph.line = None
    bars = () if by else tuple([f"{program.inputs[k].param('name')}_bar" for k in wrt])
    rules = tuple(dict.fromkeys([*program.rules, *trace.graph.rules]))
    return replace(program, outputs=tuple(grads), labels=bars, rules=rules)


def sweep(trace: Trace, program: Program, seeds: Mapping[Node, Any], wrt: Sequence[Node]) -> list[Node]:
    """Push cotangents from seeded nodes back to inputs.

    Args:
        trace: where they are made.
        program: what is differentiated.
        seeds: the cotangents of some of its nodes.
        wrt: the inputs.

    Returns:
        One node for each of `wrt`: its gradient, zeros where nothing arrives.
    """
    own = {node: Cotangent(seed) for node, seed in seeds.items()}
    return [found.value.node for found in cotangents(trace, program, own, wrt)]


def cotangents(
    trace: Trace, program: Program, seeds: Mapping[Node, Cotangent], wrt: Sequence[Node], *,
    ahead: Collection[Node] | None = (), held: Op | None = None, slopes: bool = True, within: bool = False,
) -> list[Cotangent]:
    """Push cotangents from seeded nodes back to inputs, with their guards.

    Args:
        trace, program, seeds, wrt: as `sweep`'s, of seeds with what is known of them.
        ahead: the inputs for whose sake guards are kept: before them, outside of the program, there may be poles. None:
            the sweep is a linear map that will be transposed, and no guard may ask what a cotangent is.
        held: what stands for the rules of ops that hold programs, where only their transposes are wanted.
        slopes: rules that divide by differences have the limit where these are 0, which would be NaN without.
        within: what becomes of the program's results is not known here: a limit that depends on it is NaN.

    Returns:
        One cotangent for each of `wrt`, zeros where nothing arrives.
    """
    nodes, given = program.nodes(), {*program.inputs}
    active = depends([node for node in nodes if node not in given], wrt)
    poles = Poles(trace, nodes, active, ahead or ())
    arrived: dict[Node, list[Cotangent]] = {}
    several: dict[Node, list[tuple[int, Cotangent]]] = {}  # what arrives at results of ops that have many
    wanted: dict[Node, Cotangent | None] = dict.fromkeys(wrt)
    graph, results = trace.graph, tuple(seeds) if within else ()
    with passing(trace):
        for node, seed in seeds.items():
            arrived[node] = [seed]
        for node in reversed(nodes):
            if node not in active or (node not in arrived and node not in several):
                continue
            graph.line = graph.line if node.line is None else Derived.of(node.line)
            if node in several:
                for read, part in _pulled_all(
                    trace, node, several.pop(node), poles, held, linear=ahead is None,
                ):
                    arrived.setdefault(read, []).append(part)
                continue
            if node.op is assemble:
                _gathered_cotangents(trace, node, arrived, poles)
            total = meet(trace, arrived.pop(node), poles, node)
            _own_rule(total.value.node, node)
            if node in wanted:
                wanted[node] = total
            if isinstance(node.op, Result):
                several.setdefault(node.inputs[0], []).append((node.param("number"), total))
            elif node.inputs:
                for read, part in pulled(
                    trace, node, total, poles, slopes=slopes, results=results, linear=ahead is None,
                ):
                    arrived.setdefault(read, []).append(part)
        graph.line = None
        return [
            Cotangent(Tracer(zeros(trace, node), trace)) if found is None else found for node, found in wanted.items()
        ]


def zeros(trace: Trace, like: Node) -> Node:
    """Make zeros of a value's shape and dtype."""
    return shaped(trace.graph, constant(trace, 0, like.dtype), like.shape)


def _nonzero(part: Cotangent) -> Cotangent:
    """Make the guard of a cotangent that is partial."""
    if not part.partial or part.guard:
        return part
    return Cotangent(part.value, (np.not_equal(part.value, 0).node,), part.chosen, soft=not part.unit)


def _gathered_cotangents(trace: Trace, node: Node, arrived: dict[Node, list[Cotangent]], poles: Poles) -> None:
    """Let what arrived at the value that is most of an array arrive there, where slices of it are added up anyway."""
    value, index = node.inputs[1], node.param("indices")[0]
    parts, own = arrived.get(value, []), arrived[node]
    if len(node.inputs) > 2 or not parts or value in node.inputs[:1] or not is_most(index, node.shape):
        return
    if any(part.guard or part.partial for part in (*parts, *own)):
        return
    if all(part.value.node.op is not place for part in own):
        return
    total = meet(trace, arrived.pop(value), poles, value)
    own.append(Cotangent(place(total.value, indices=(index,), shape=node.shape), (), total.chosen))


def _own_rule(cotangent: Node, node: Node) -> None:
    """Say whose cotangent it is that has just been made, for its name in C."""
    made, owner = cotangent.line, node.line
    if node.is_input:
        owner = Line("", 0, f"{node.param('name')} = ...")  # as if a line assigned it
    elif isinstance(owner, Derived):
        owner = owner.owner
    if isinstance(made, Derived) and made.owner is None and owner is not None:
        cotangent.line = Derived.of(made, owner)
        cotangent.line.suffix = made.suffix


def depends(nodes: Sequence[Node], wrt: Sequence[Node]) -> set[Node]:
    """Return the floating-point nodes that a change of `wrt` could change smoothly."""
    active = set(wrt)
    for node in nodes:
        if not active.isdisjoint(differentiated(node)):
            active.add(node)
            active.update(node.inputs[:1] if isinstance(node.op, Result) else ())  # what gives it is on the path, too
    return active


def meet(trace: Trace, parts: list[Cotangent], poles: Poles, node: Node) -> Cotangent:
    """Add cotangents in the order they came; the sum is zero where all guards are false."""
    if len(parts) == 1:
        return parts[0]
    total, *others = joined([part.value for part in parts])
    for value in others:
        total = total + value
    chosen = any(part.chosen for part in parts)
    if all(part.partial and not part.guard for part in parts):
        return Cotangent(total, (), chosen, True, unit=all(part.unit for part in parts))
    if not all(part.guard or part.partial for part in parts):
        return Cotangent(total)
    parts = [_nonzero(part) for part in parts]
    guard = either(trace, [part.guard for part in parts], many=node in poles.behind)
    return Cotangent(total, guard, chosen, soft=any(part.soft for part in parts))


def pulled(
    trace: Trace, node: Node, total: Cotangent, poles: Poles, *, slopes: bool = True, results: tuple[Node, ...] = (),
    linear: bool = False,
) -> Iterator[tuple[Node, Cotangent]]:
    """Apply a node's rule: the cotangents of its inputs."""
    op, active = node.op, poles.active
    if not (total.guard or total.partial or total.chosen) and _is_unguarded(op):
        parts = _applied(node, total.value, Tracer(node, trace), [Tracer(i, trace) for i in node.inputs], active)
        for read, part in zip(node.inputs, parts, strict=True):
            if part is not None and read in active:
                yield read, Cotangent(unbroadcast(part, read.shape))
        return
    lazy = total.partial and not total.guard and moves(meant(node))
    if total.partial and not lazy and node in poles.behind:
        total = _nonzero(total)
    picks = chooses(op)
    chosen = total.chosen or picks
    guarded = bool(total.guard) or op.used is not None or (moves(meant(node)) and leaves_out(node))
    wanted = [picks or (guarded and i in poles.behind) for i in node.inputs]
    use = use_of(node)
    steep, soft = bool(total.guard) and poles.at(node), total.soft or use is not None
    selects = steep or (chosen and not keeps_zeros(node) and use is None)
    inputs = [Tracer(i, trace) for i in node.inputs]
    y = Tracer(node, trace)
    if steep and meant(node).regular:
        own = passed(trace, node, total.guard, wanted)
        factors = poles.factors(node)
        for k, (x, guard) in enumerate(zip(inputs, own, strict=True)):
            if guard and x.node in factors and x.dtype.kind == "f" and poles.is_wild(x.node):
                # 0 where it is not used, before it is multiplied and added
                inputs[k] = kept(trace, guard, np.isfinite(x), x) if soft else selected(trace, guard, x)
        y = op(*inputs, **node.named)
    if isinstance(op, Composite) and op.override:
        trace.graph.rules[op.override if node.line is None else f"{op.override} at {node.line}"] = None
    g, named = total.value, dict[str, Any]()
    if selects and isinstance(op, Elementwise) and not soft:
        g = unselected(trace, g, total.guard)  # what is made of it is selected by all of the guard again
    if op.equals is not None:
        named["slope"] = tangent(trace, g.node, *op.equals(*inputs)) if slopes else g * np.nan
        if results and slopes:
            named["probe"] = probe(trace, node, results)
    parts = _applied(node, g, y, inputs, active, **named)
    fine: Any = None
    if soft and selects and (isinstance(op, Elementwise) or not meant(node).regular):
        fine = _fine(trace, node, parts, lambda one: rule(op)(one, y, *inputs, **node.named, **named), linear=linear)
    guards = passed(trace, node, total.guard if chosen or any(wanted) or steep else (), wanted)
    if use is not None:  # its own condition says more than when a derivative is used
        guards = [both(total.guard, conditions(trace.graph, use))] * len(guards)
    for k, (read, part) in enumerate(zip(node.inputs, parts, strict=True)):
        if read not in active or part is None:
            continue
        guard = guards[k]
        if total.guard and isinstance(op, Composite):
            guard = both(guard, followed(trace, part.node, total.value.node, total.guard))
        if guard and selects and fine is not None:
            part = kept(trace, guard, fine[k], part)  # noqa: PLW2901 - the same cotangent, guarded
        elif guard and selects and not soft:
            part = selected(trace, guard, part)  # noqa: PLW2901
        guard = guard if not lazy and (chosen or wanted[k]) else ()  # in front of no pole it is not needed
        if wanted[k] and part.node.shape != read.shape:
            guard = one_condition(trace, guard)
        guard = fitting(trace, guard, read.shape, part.node)
        part = unbroadcast(part, read.shape)  # noqa: PLW2901 - of a stretched operand the sum
        yield read, Cotangent(part, guard, chosen, lazy, soft and bool(guard), lazy and total.unit)


@lru_cache(maxsize=4096)  # a user's op need not live for ever
def _is_unguarded(op: Op) -> bool:
    """Whether it takes each element to one, by the same formula: no guard begins there."""
    return type(op) is Elementwise and op.used is None and op.equals is None and not chooses(op)


def _applied(
    node: Node, g: Any, y: Tracer, inputs: list[Any], active: set[Node], **more: Any,
) -> tuple[Any, ...]:
    """Apply a node's rule to the cotangent `g` of its result `y`: one cotangent for each input, None where none is."""
    try:
        parts = rule(node.op)(g, y, *inputs, **node.named, **more)
    except NoGradient as error:
        raise _on_the_path(error, node, active) from None
    parts = parts if isinstance(parts, tuple) else (parts,)
    if len(parts) != len(inputs):
        raise NoGradient(f"the rule of {node.op.name} gives {len(parts)} cotangents, not {len(inputs)}", line=node.line)
    for read, part in zip(node.inputs, parts, strict=True):
        if isinstance(part, NoGradient) and read in active:  # of this argument there is none, of others there may be
            raise _on_the_path(part, node, {read})
    return parts


def _fine(
    trace: Trace, node: Node, parts: Sequence[Any], of: Callable[[Any], Any], *, linear: bool,
) -> list[Any]:
    """Say of each cotangent of an op's inputs where it may stay although what arrives is 0: where slopes are finite.

    Those of a `linear` map's may be tangents that are not finite, of which no condition may be made: there slopes of 0
    are left out, too.
    """
    if not isinstance(node.op, Elementwise) and not linear:
        return [None if not isinstance(part, Tracer) else np.isfinite(part) for part in parts]
    one: Any = Tracer(constant(trace, 1, node.dtype), trace)
    slopes = of(one if isinstance(node.op, Elementwise) else np.ones_like(Tracer(node, trace)))
    found: list[Any] = []
    for slope in slopes if isinstance(slopes, tuple) else (slopes,):
        if not isinstance(slope, Tracer):
            found.append(None)
        elif isinstance(node.op, Elementwise):
            fine = np.isfinite(slope)
            found.append(np.logical_and(fine, np.not_equal(slope, 0)) if linear else fine)
        else:
            found.append(np.all(np.isfinite(slope)))
    return found


def tangent(trace: Trace, value: Node, of: Any, along: Any) -> Any:
    """Push a direction forward to a cotangent from values that it is made of; None where it is not made of them.

    Where values of another op are equal too, on the way, it is NaN: a limit's own derivative is no limit.
    """
    at, line = of.node, trace.graph.line
    cut = Program((at,), (value,), scope=trace.graph, start=at.number)
    cut = replace(cut, inputs=(at, *[node for node in cut.nodes() if node.op is slope_of]))
    if value not in depends(cut.nodes(), [at]):
        return None
    w = leaves.make_input(trace.graph, "w", value.shape, value.dtype)
    (back,) = cotangents(trace, cut, {value: Cotangent(Tracer(w, trace))}, [at], ahead=None, slopes=False)
    turned = Program((w,), (back.value.node,), scope=trace.graph, start=w.number)
    (found,) = cotangents(trace, turned, {back.value.node: Cotangent(along)}, [w], ahead=None)
    trace.graph.line = line
    (slope,) = unread(trace, [w], [found.value.node])
    return slope_of(Tracer(slope, trace))


def probe(trace: Trace, node: Node, results: tuple[Node, ...]) -> Any:
    """Pull numbers of no pattern back to a node: what of it the results depend on at all, they depend on so."""
    line = trace.graph.line
    cut = Program((node,), results, scope=trace.graph, start=node.number)
    seeds = {}
    for number, y in enumerate(map(Tracer, results, repeat(trace))):
        one: Any = np.ones_like(y)
        places = sum([(0.7 + axis) * np.cumsum(one, axis) for axis in range(y.ndim)], (1.3 + number) * one)
        seeds[y.node] = Cotangent(np.cos(places * places))
    (found,) = cotangents(trace, cut, seeds, [node], slopes=False)
    trace.graph.line = line
    return found.value


def unread(trace: Trace, inputs: Sequence[Node], outputs: Sequence[Node]) -> tuple[Node, ...]:
    """Put zeros in the place of inputs that outputs do not depend on: loops read what nobody needs."""
    start = min([node.number for node in inputs], default=0)
    there = Program(tuple(inputs), tuple(outputs), scope=trace.graph, start=start)
    if not any(node in inputs for one in there.nodes() for node in one.inputs):
        return there.outputs
    others = [node for node in there.nodes() if node.is_input and node not in inputs]
    values = [*[zeros(trace, node) for node in inputs], *others]
    return tuple(replaced(trace.graph, replace(there, inputs=(*inputs, *others)), values))


def _pulled_all(
    trace: Trace, node: Node, arrived: list[tuple[int, Cotangent]], poles: Poles, held: Op | None, *, linear: bool,
) -> Iterator[tuple[Node, Cotangent]]:
    """Apply the rule of an op of several results; a guard goes through it as that what is 0 is not used."""
    active = poles.active
    if held is not None:
        of, several = tuple([k for k, _ in arrived]), node.op
        each = [several.needs(k, differentiated, **node.named) for k in of]  # type: ignore[attr-defined]  # a Control
        wrt = tuple([k for k, i in enumerate(node.inputs) if i in active and any(flags[k] for flags in each)])
        made = make(trace.graph, held, *[g.value.node for _, g in arrived], primal=node, wrt=wrt, of=of)
        for number, k in enumerate(wrt):
            yield node.inputs[k], Cotangent(Tracer(make(trace.graph, result, made, number=number), trace))
        return
    op: Any = node.op
    given = {index: Cotangent(total.value) if linear else total for index, total in arrived}
    gs = [given.get(k) for k in range(len(op.results(*node.inputs, **node.named)))]
    xs = [Tracer(i, trace) for i in node.inputs]
    ahead = None if linear else [i in poles.behind for i in node.inputs]
    parts = op.vjp(gs, [i in active for i in node.inputs], *xs, ahead=ahead, **node.named)
    for read, part in zip(node.inputs, parts, strict=True):
        if read in active and part is not None:
            yield read, Cotangent(part.value) if linear else part


def _on_the_path(error: NoGradient, node: Node, active: set[Node]) -> NoGradient:
    """Say of which argument of the op there is no derivative, by what that depends on, and where the user wrote it."""
    if error.line is not None:
        return error  # of a rule's own ops
    place, through = next((k, i) for k, i in enumerate(node.inputs) if i in active)
    behind = reachable([through], lambda read: [i for i in read.inputs if i in active])
    names = " and ".join(map(repr, sorted({read.param("name") for read in behind if read.is_input}))) or "a value"
    return NoGradient(
        f"{error.what}, and the gradient by {names} goes through its argument {place}, "
        f"{through.dtype.name}[{','.join(map(str, through.shape))}]", line=node.line,
        instead=error.instead or "a formulation without it, or keep it off the path: sg.stop_gradient(its argument)",
    )

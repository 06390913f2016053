"""Forward mode, which is reverse mode twice.

The derivative of a program at x is a linear map J, and reverse mode computes J' w. That is a program in w, linear in
it; reverse mode of *that*, with respect to w, is its transpose J'' = J: forward mode, without one more rule.
The cotangent w itself comes out dead, for the transpose of a linear map does not depend on where it is taken.
Only what holds programs has a rule of its own (`push`), which pushes these forward: a loop keeps nothing of its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.errors import NoGradient, VerifyError
from symgrad.ir.node import SEVERAL, Node
from symgrad.ir.op import Composite, Control, Elementwise, Op, Result
from symgrad.ir.program import Program, bodies
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.trace.state import Trace, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import opened_program, written
from symgrad.transforms.derive.control import nested, seeded
from symgrad.transforms.derive.poles import is_zero_constant, nodes_behind, zeros_among
from symgrad.transforms.derive.rules import rule
from symgrad.transforms.derive.vjp import Cotangent, cotangents, depends, sweep, unread


def pullback(
    program: Program, wrt: Sequence[int], of: Sequence[int], names: Sequence[str] = (), *, units: bool = False,
    linear: bool = False, held: Op | None = None, within: bool = False,
) -> Program:
    """Reverse mode as a linear map: w to J' w.

    Args:
        program: any.
        wrt: positions of inputs, floating-point arrays.
        of: positions of outputs, floating-point arrays.
        names: of the new inputs.
        units: it will be applied to unit vectors alone; the map is linear where it is not.
        linear: it will be transposed: what is 0 in a cotangent is used like anything else.
        held: what stands for the rules of ops that hold programs, if only the transpose is wanted.
        within: the program is held by an op, so that what becomes of its results is not known.

    Returns:
        A program with one more input for each of `of`, its cotangent; one output for each of `wrt`.

    Raises:
        NoGradient: a value on the way has an op without a derivative.
    """
    program, trace = opened_program(program)
    names = names or [f"y{k}_bar" for k in of]
    bars = [fresh(trace, name, program.outputs[k]) for name, k in zip(names, of, strict=True)]
    apart = [units and bar.shape != () for bar in bars]
    known = [Cotangent(None, partial=one, unit=one) for one in apart]
    seeds = seeded(trace, [program.outputs[k] for k in of], bars, known)
    inputs = [program.inputs[k] for k in wrt]
    with passing(trace):
        swept = cotangents(trace, program, seeds, inputs, ahead=None if linear else (), held=held, within=within)
    labels = tuple([f"{program.inputs[k].param('name')}_bar" for k in wrt])
    found = tuple([one.value.node for one in swept])
    return replace(program, inputs=(*program.inputs, *bars), outputs=found, labels=labels)


def pushforward(program: Program, wrt: Sequence[int], of: Sequence[int], *, within: bool = False) -> Program:
    """Forward mode as a linear map: v to J v; the transpose of `pullback`.

    Args:
        program: any.
        wrt: positions of inputs, floating-point arrays.
        of: positions of outputs, floating-point arrays.
        within: as `pullback`'s.

    Returns:
        A program with one more input for each of `wrt`, its tangent; one output for each of `of`.

    Raises:
        NoGradient: a value on the way has an op without a derivative, or one whose rule is not linear.
    """
    scope = program.scope
    program, trace = opened_program(program)
    with passing(trace):
        _check_paths(trace, program, [program.inputs[k] for k in wrt])
        primals, program = program.inputs, replace(program, scope=trace.graph)
        whole = any(node.op.equals is not None for node in program.nodes())  # its rule pushes cotangents forward
        reverse = pullback(program, wrt, of, linear=True, held=None if whole else _TRANSPOSED, within=within)
        bars = range(len(primals), len(reverse.inputs))
        names = [f"{primals[k].param('name')}_dot" for k in wrt]
        forward = pullback(reverse, bars, range(len(wrt)), names, linear=True)
        w = [reverse.inputs[k] for k in bars]
        if not outputs_are_linear(forward.outputs, w, reverse.outputs):
            _refuse_rule(trace, program, [primals[k] for k in wrt])
        outputs = unread(trace, w, forward.outputs)
    tangents = forward.inputs[len(reverse.inputs) :]
    labels = tuple([f"y{k}_dot" for k in of])
    return replace(forward, inputs=(*primals, *tangents), outputs=outputs, labels=labels, scope=scope)


def _push_transposed(
    tangents: Sequence[Any], _: Sequence[bool], *gs: Tracer, ahead: Sequence[bool] | None, primal: Node,
    wrt: tuple[int, ...], of: tuple[int, ...],
) -> list[Any]:
    """Transpose what stands for the pullback of an op that holds programs: push tangents through it."""
    del gs, ahead
    given = {k: None if dot is None else dot.value for k, dot in zip(wrt, tangents, strict=True)}
    dots = [given.get(k) for k in range(len(primal.inputs))]
    found = primal.op.push(primal, dots, of, pushforward)  # type: ignore[attr-defined]  # a Control
    return [None if found[k] is None else Cotangent(found[k]) for k in of]


_TRANSPOSED = Control(
    "transposed", ("primal", "wrt", "of"), infer=lambda *_, **__: ((), SEVERAL), vjp=_push_transposed,
    results=lambda *_, primal, wrt, of: [(primal.inputs[k].shape, primal.inputs[k].dtype) for k in wrt],  # noqa: ARG005 - which
    zeros=lambda zero, *, wrt, **_: [all(zero)] * len(wrt), needs=lambda *_, of, **__: (True,) * len(of),
)
"""Stands for a pullback that nobody computes."""


def fresh(trace: Trace, name: str, like: Node) -> Node:
    """Make an input of the shape and dtype of a value."""
    return leaves.make_input(trace.graph, name, like.shape, like.dtype)


# -- rules that are not linear in the cotangent


def outputs_are_linear(transposed: Iterable[Node], w: Sequence[Node], outputs: Iterable[Node]) -> bool:
    """Whether outputs are linear in w: affine, for w is dead in the transpose, and zero where w is."""
    stop = min([node.number for node in w], default=0)
    if any(node in w for node in nodes_behind(transposed, stop)):
        return False
    outputs = tuple(outputs)
    zero = zeros_among(nodes_behind(outputs, stop), {*w})
    return all(node in zero or is_zero_constant(node) for node in outputs)


def _on_paths(trace: Trace, program: Program, wrt: Sequence[Node]) -> Iterator[tuple[Node, set[Node]]]:
    """Yield the ops on paths from inputs, those of programs that are held among them, with all that is on a path."""
    active = depends(program.nodes(), wrt)
    for node in program.nodes():
        if node in active and isinstance(node.op, Control):
            for body in bodies(node):
                inner = nested(trace.graph, body)
                yield from _on_paths(trace, inner, [i for i in inner.inputs if i.dtype.kind == "f"])
        elif node in active and node.inputs and not isinstance(node.op, Result):
            yield node, active


def _refuse_rule(trace: Trace, program: Program, wrt: Sequence[Node]) -> None:
    """Find the op whose rule is not linear in the cotangent."""
    for node, active in _on_paths(trace, program, wrt):
        g, outputs = _apply_rule(trace, node, active)
        seeds = {o: Tracer(fresh(trace, "t", o), trace) for o in outputs}
        cut = Program((*node.inputs, g), tuple(outputs), scope=trace.graph, start=g.number)
        if not outputs_are_linear(sweep(trace, cut, seeds, [g]), [g], outputs):
            raise NoGradient(
                f"the rule of {node.op.name} is not linear in the cotangent, so that it has no forward mode",
                line=node.line, instead="reverse mode (grad, vjp, jacrev)",
            )
    raise VerifyError(f"{program.name}: its transposed program is not linear, though the rule of each op is")


def _apply_rule(trace: Trace, node: Node, active: set[Node]) -> tuple[Node, list[Node]]:
    """Apply one rule to a fresh cotangent."""
    g = fresh(trace, "g", node)
    trace.graph.line = node.line
    found = rule(node.op)(*[Tracer(x, trace) for x in (g, node, *node.inputs)], **node.named)
    trace.graph.line = None
    parts = found if isinstance(found, tuple) else (found,)
    own = [p for p, i in zip(parts, node.inputs, strict=True) if p is not None and i in active]
    if any(isinstance(p, NoGradient) for p in own):
        raise next(p for p in own if isinstance(p, NoGradient))
    return g, [p.node for p in own]


# -- rules that are linear piece by piece: transposing them would lose the pieces


def _check_paths(trace: Trace, program: Program, wrt: Sequence[Node]) -> None:
    """Check that the user's rules on a path have a derivative by the cotangent: the slope of `np.sign(g)` is not its.

    symgrad's own are linear by test.
    """
    for node, active in _on_paths(trace, program, wrt):
        if OPS.get(node.op.name) is not node.op:
            try:
                g, outputs = _apply_rule(trace, node, active)
            except NoGradient:
                continue  # the sweep says where
            op = broken(trace, outputs, [g])
            if op is not None:
                raise NoGradient(
                    f"the rule of {node.op.name} is not linear in the cotangent, which goes through {op.name} in it, "
                    "so that it has no forward mode", line=node.line, instead="reverse mode (grad, vjp, jacrev)",
                )


def broken(trace: Trace, outputs: Iterable[Node], w: Iterable[Node]) -> Op | None:
    """Find an op on a path from w to outputs that has no derivative, or is linear only piece by piece (a remainder)."""
    reached = {*w}
    for node in nodes_behind(outputs, min([node.number for node in reached], default=0)):
        which = [i in reached for i in node.inputs]
        if node in reached or not any(which):
            continue
        reached.add(node)
        if node.op.nondiff or node.dtype.kind != "f":
            return node.op
        if isinstance(node.op, Composite):
            whole = written(trace.graph, node.op.body, *node.inputs, **node.named)
            found = broken(trace, [whole], [i for i, hit in zip(node.inputs, which, strict=True) if hit])
            if found is not None:
                return found
        if isinstance(node.op, Elementwise) and not _is_affine(node, which):
            return node.op
    return None


_STEPS = np.array([0.3, 1.7, -2.6, 5.1, -0.9, 7.4, 2.2, -3.5]), np.array([2.9, -0.8, 4.4, 1.3, -6.1, 0.6, -1.9, 3.2])
_OTHERS = np.array([0.7, 1.9, -1.3, 3.1, 1.0, -0.6, 2.3, -2.0])


def _is_affine(node: Node, which: list[bool]) -> bool:
    """Whether, at a few points, a scalar function is affine in some of its arguments together."""
    first, second = _STEPS

    def at(step: Any) -> Any:
        places = zip(node.inputs, which, strict=True)
        values = [
            step.astype(i.dtype) if hit else np.arange(len(_OTHERS)) % 3 == 0 if i.dtype.kind == "b" else
            (_OTHERS if i.dtype.kind == "f" else np.abs(_OTHERS) + 1).astype(i.dtype) for i, hit in places
        ]
        return np.asarray(node.op.evaluate(*values, **node.named), np.float64)

    with np.errstate(all="ignore"):
        off = at(first + second) - at(first) - at(second) + at(0 * first)
    return not np.any(np.abs(off) > 0.05)  # half precision, too

"""Derivatives and batches of what runs programs.

The pullback of a loop is a loop the other way (S. Linnainmaa, 1976). What it reads of the way there is stacked there,
one row a step; what costs little to compute from rows that stand there anyway is computed again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import NoGradient, VerifyError
from symgrad.ir.names import identifier
from symgrad.ir.node import Graph
from symgrad.ir.op import Leaf
from symgrad.ir.program import Program, replaced
from symgrad.ops.control.call import call
from symgrad.ops.control.cond import cond
from symgrad.ops.control.results import closure, read_by, result
from symgrad.ops.control.scan import scan
from symgrad.ops.control.while_ import while_
from symgrad.ops.declare import leaves
from symgrad.trace.constants import constant
from symgrad.trace.state import Trace, current, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import literal, make, shaped, written
from symgrad.transforms.derive.batch import batch
from symgrad.transforms.derive.poles import is_zero_constant, zeros_among
from symgrad.transforms.derive.residuals import residuals
from symgrad.transforms.derive.vjp import depends, sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Dim


# -- bodies: programs of their own


def closed(inputs: Iterable[Node], outputs: Sequence[Node], name: str) -> Program:
    """Make a program of its own of what is computed between some nodes, its inputs, and outputs.

    What a loop within it reads for results that nobody wants is zero.
    """
    own, names = Graph(), list[str]()
    there = Program(tuple(inputs), tuple(outputs), name)
    made: list[Node] = []
    for node in there.inputs:
        names.append(identifier(node.param("name") if node.op is leaves.input_ else "v", names))
        made.append(_input(own, names[-1], node))
    known = {*there.inputs}
    idle = [node for node in there.nodes() if node.op is leaves.input_ and node not in known]
    whole = replace(there, inputs=(*there.inputs, *idle))
    if idle and not read_by(whole, outputs).isdisjoint(idle):
        raise VerifyError(f"{name} reads what is no input of it")
    nothing = [shaped(own, literal(own, 0, node.dtype), node.shape) for node in idle]
    return Program(tuple(made), tuple(replaced(own, whole, [*made, *nothing])), identifier(name))


def _input(graph: Graph, name: str, like: Node) -> Node:
    return graph.node(leaves.input_, (), (name, like.shape, like.dtype), like.shape, like.dtype, like.line)


def lifted(*programs: Program) -> tuple[list[Program], list[Node]]:
    """Make programs of their own of nested ones: first come inputs for what any reads of its caller, which is returned.

    Numbers and extents need no input.
    """
    outer: dict[Node, None] = {}
    for program in programs:
        reads = [*[read for node in program.nodes() for read in node.inputs], *program.outputs]
        outer |= dict.fromkeys([read for read in reads if read.number < program.start and _has_a_value(read)])
    return [closed((*outer, *p.inputs), p.outputs, p.name) for p in programs], [*outer]


def _has_a_value(node: Node) -> bool:
    return node.op is leaves.input_ or not isinstance(node.op, Leaf)


def nested(graph: Graph, body: Program) -> Program:
    """Copy a body into a table, as a program that is nested there."""
    inputs = tuple([_input(graph, node.param("name"), node) for node in body.inputs])
    outputs = tuple(replaced(graph, body, inputs))
    start = inputs[0].number if inputs else 0
    return replace(body, inputs=inputs, outputs=outputs, scope=graph, start=start)


def zero_outputs(program: Program, zero: Iterable[bool]) -> list[bool]:
    """Say which outputs are zero, given which inputs are."""
    found = zeros_among(program.nodes(), {node for node, z in zip(program.inputs, zero, strict=True) if z})
    return [node in found or is_zero_constant(node) for node in program.outputs]


# -- scan


def _scan_zeros(
    zero: Sequence[bool], *, body: Program, length: Dim, fixed: int, carried: int, reverse: bool,
) -> list[bool]:
    """Say which results are zero: what is carried is where it begins as zero and stays it."""
    del length, reverse
    given = [*zero]
    while True:
        found = zero_outputs(body, given)
        state = [z and y for z, y in zip(given[fixed : fixed + carried], found, strict=False)]
        if state == given[fixed : fixed + carried]:
            return found
        given[fixed : fixed + carried] = state


class Pulled:
    """The body of a loop, derived: what a step back reads and gives.

    Attributes:
        inner: the body, nested in the present table.
        bars: for each result that has one, its cotangent.
        stacked: what of a step on the way there is read on the way back.
        constants, rows: the inputs that are read on the way back.
        state, given: the results whose cotangents are carried, and those whose cotangents are given for each step.
        sums: for inputs that are the same in all steps, the sums of their cotangents so far.
        outputs: the next cotangents that are carried, the next sums, and the cotangents of rows.
        wanted: the inputs that are rows and have cotangents.
    """

    def __init__(
        self, trace: Trace, body: Program, active: Sequence[bool], gs: Sequence[Any], fixed: int, carried: int,
        guarded: bool,
    ) -> None:
        """Sweep through the body; what is carried is found out by and by."""
        graph, last = trace.graph, fixed + carried
        with graph.apart():
            inner = self.inner = nested(graph, body)
            inputs, outputs = inner.inputs, inner.outputs
            moving = [*active]
            while True:  # until what is carried moves where what it is made of does
                wrt = [k for k, moves in enumerate(moving) if moves]
                reached = depends(inner.nodes(), [inputs[k] for k in wrt])
                more = [k for k in range(fixed, last) if outputs[k - fixed] in reached and not moving[k]]
                if not more:
                    break
                for k in more:
                    moving[k] = True
            of = {k for k, g in enumerate(gs) if g is not None and outputs[k] in reached}
            while True:  # until a cotangent is carried where one arrives
                bars = self.bars = {k: _input(graph, f"y{k}_bar", outputs[k]) for k in sorted(of)}
                seeds = _seeded(trace, [outputs[k] for k in bars], [*bars.values()])
                found = sweep(trace, inner, seeds, [inputs[k] for k in wrt], guarded=guarded)
                arrived = {k: bar for k, bar in zip(wrt, found, strict=True) if not is_zero_constant(bar)}
                also = {k - fixed for k in arrived if fixed <= k < last} - of
                if not also:
                    break
                of |= also
            made = Program((*inputs, *bars.values()), tuple(arrived.values()), scope=graph, start=inner.start)
            kept = residuals(made, [*bars.values()])
            between = replace(made, inputs=(*kept, *made.inputs))
            read = {i for node in between.nodes() if node not in between.inputs for i in node.inputs} | {*made.outputs}
            self.stacked = [*kept, *[x for x in inputs[fixed:last] if x in read]]
            self.constants = [k for k in range(fixed) if inputs[k] in read]
            self.rows = [k for k in range(last, len(inputs)) if inputs[k] in read]
            self.state, self.given = [k for k in bars if k < carried], [k for k in bars if k >= carried]
            self.sums = {k: _input(graph, f"{inputs[k].param('name')}_bar", inputs[k]) for k in arrived if k < fixed}
            self.wanted = [k for k in arrived if k >= last]
            self.outputs = [
                *[arrived[k + fixed] if k + fixed in arrived else zeros(trace, outputs[k]) for k in self.state],
                *[written(graph, np.add, total, arrived[k]) for k, total in self.sums.items()],
                *[arrived[k] for k in self.wanted],
            ]


def _pull_scan(
    gs: Sequence[Any], active: Sequence[bool], *xs: Tracer, guarded: bool, body: Program, length: Dim, fixed: int,
    carried: int, reverse: bool,
) -> list[Any]:
    """Pull cotangents through a scan: by a scan the other way, which carries those of what was carried.

    It also carries the sums of those of what is the same in all steps.
    """
    trace = current()
    assert trace is not None  # noqa: S101 - rules are called while a derivative is traced
    graph, nodes = trace.graph, [x.node for x in xs]
    plan = Pulled(trace, body, active, gs, fixed, carried, guarded)
    if not plan.bars:
        return [None] * len(xs)
    inputs, count = plan.inner.inputs, len(body.outputs)
    tapes: list[Node] = []
    if plan.stacked:
        wanted = range(count, count + len(plan.stacked))
        there = closed(inputs, (*plan.inner.outputs, *plan.stacked), body.name)
        state = sorted(closure(there, wanted, fixed, carried) & {*range(carried)})
        outputs = [plan.inner.outputs[k] for k in state]
        read = read_by(plan.inner, [*outputs, *plan.stacked])
        kept = [k for k, x in enumerate(inputs) if x in read or k - fixed in state]
        there = closed([inputs[k] for k in kept], (*outputs, *plan.stacked), body.name)
        forward = make(
            graph, scan, *[nodes[k] for k in kept], body=there, length=length, fixed=sum([k < fixed for k in kept]),
            carried=len(state), reverse=reverse,
        )
        tapes = [make(graph, result, forward, number=len(state) + k) for k in range(len(plan.stacked))]
    back = closed(
        [
            *[inputs[k] for k in plan.constants], *[plan.bars[k] for k in plan.state], *plan.sums.values(),
            *plan.stacked, *[inputs[k] for k in plan.rows], *[plan.bars[k] for k in plan.given],
        ], plan.outputs, f"{body.name}_back",
    )
    backward = make(
        graph, scan, *[nodes[k] for k in plan.constants],
        *[zeros(trace, body.outputs[k]) if gs[k] is None else gs[k].node for k in plan.state],
        *[zeros(trace, body.inputs[k]) for k in plan.sums], *tapes, *[nodes[k] for k in plan.rows],
        *[gs[k].node for k in plan.given], body=back, length=length, fixed=len(plan.constants),
        carried=len(plan.state) + len(plan.sums), reverse=not reverse,
    )
    found: list[Any] = [None] * len(xs)
    for index, k in enumerate([*[k + fixed for k in plan.state], *plan.sums, *plan.wanted]):
        found[k] = Tracer(make(graph, result, backward, number=index), trace)
    return found


def zeros(trace: Trace, like: Node) -> Node:
    """Make zeros of a value's shape and dtype."""
    return shaped(trace.graph, constant(trace, 0, like.dtype), like.shape)


def _batch_scan(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Make the results of a scan for all examples, each with whether it has their axis, which is in front."""
    body, length, fixed, carried, reverse = node.params
    last, graph = fixed + carried, trace.graph
    many = [*mapped]
    while True:  # until what is carried has the axis where what it is made of has it
        program, has = batch(body, many, size)
        more = [k for k in range(fixed, last) if has[k - fixed] and not many[k]]
        if not more:
            break
        for k in more:
            many[k] = True
    program = _all_have(program, has, [*many[fixed:last], *has[carried:]], size)
    given = [
        x if m == n else make(graph, "broadcast_to", x, shape=(size, *x.shape))
        for x, m, n in zip(xs, mapped, many, strict=True)
    ]
    for k in range(last, len(xs)):
        given[k] = _swapped(graph, given[k]) if mapped[k] else given[k]
    made = make(graph, scan, *given, body=program, length=length, fixed=fixed, carried=carried, reverse=reverse)
    found = [(make(graph, result, made, number=k), many[fixed + k] if k < carried else m) for k, m in enumerate(has)]
    return [(_swapped(graph, y) if m and k >= carried else y, m) for k, (y, m) in enumerate(found)]


def _swapped(graph: Graph, x: Node) -> Node:
    return make(graph, "transpose", x, axes=(1, 0, *range(2, len(x.shape))))


scan.vjp, scan.zeros, scan.batch = _pull_scan, _scan_zeros, _batch_scan


# -- cond


def _pull_cond(
    gs: Sequence[Any], active: Sequence[bool], test: Tracer, *xs: Tracer, guarded: bool, then: Program, other: Program,
) -> list[Any]:
    """Pull cotangents through the side that was taken, which is computed again."""
    trace = current()
    assert trace is not None  # noqa: S101 - rules are called while a derivative is traced
    (back, other_back), given, arrived = _backwards(trace, (then, other), gs, xs, active[1:], guarded)
    if not arrived:
        return [None] * (1 + len(xs))
    graph = trace.graph
    made = make(graph, cond, test.node, *given, then=back, other=other_back)
    found = {k: Tracer(make(graph, result, made, number=place), trace) for place, k in enumerate(arrived)}
    return [None, *[found.get(k) for k in range(len(xs))]]


def _backwards(
    trace: Trace, bodies: Sequence[Program], gs: Sequence[Any], xs: Sequence[Tracer], active: Sequence[bool],
    guarded: bool,
) -> tuple[list[Program], list[Node], list[int]]:
    """Derive programs that are computed again: from their arguments, and the cotangents of results that have some.

    Returns:
        Programs of the cotangents of some arguments; what they are given; and which arguments those are.
    """
    graph = trace.graph
    wrt = [k for k, moves in enumerate(active) if moves]
    of = [k for k, g in enumerate(gs) if g is not None]
    derived = []
    with graph.apart():
        for body in bodies:
            inner = nested(graph, body)
            bars = [_input(graph, f"y{k}_bar", inner.outputs[k]) for k in of]
            seeds = _seeded(trace, [inner.outputs[k] for k in of], bars)
            swept = sweep(trace, inner, seeds, [inner.inputs[k] for k in wrt], guarded=guarded)
            derived.append(((*inner.inputs, *bars), dict(zip(wrt, swept, strict=True))))
        arrived = [k for k in wrt if not all(is_zero_constant(found[k]) for _, found in derived)]
        read: set[int] = set()
        for inputs, found in derived:
            outputs = tuple([found[k] for k in arrived])
            own = read_by(Program(inputs, outputs), outputs)
            read |= {k for k, x in enumerate(inputs) if x in own}
        kept = sorted(read)
        back = [
            closed([inputs[k] for k in kept], [found[k] for k in arrived], f"{body.name}_back")
            for body, (inputs, found) in zip(bodies, derived, strict=True)
        ]
    given = [*[x.node for x in xs], *[gs[k].node for k in of]]
    return back, [given[k] for k in kept], arrived


def _seeded(trace: Trace, outputs: Sequence[Node], bars: Sequence[Node]) -> dict[Node, Any]:
    """Begin with a cotangent for each output; what stands there more than once has their sum."""
    seeds: dict[Node, Any] = {}
    with passing(trace):
        for output, bar in zip(outputs, bars, strict=True):
            one = Tracer(bar, trace)
            seeds[output] = seeds[output] + one if output in seeds else one
    return seeds


def _cond_zeros(zero: Sequence[bool], *, then: Program, other: Program) -> list[bool]:
    """Say which results are zero on either side."""
    return [a and b for a, b in zip(zero_outputs(then, zero[1:]), zero_outputs(other, zero[1:]), strict=True)]


def _batch_cond(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Branch for all examples at once; where each has its own condition, both sides are computed and one chosen."""
    graph = trace.graph
    sides = [batch(body, mapped[1:], size) for body in node.params]
    has = [any(pair) for pair in zip(*[has for _, has in sides], strict=True)]
    has = [True] * len(has) if mapped[0] else has
    full = [_all_have(program, own, has, size) for program, own in sides]
    if not mapped[0]:
        made = make(graph, cond, *xs, then=full[0], other=full[1])
        return [(make(graph, result, made, number=k), m) for k, m in enumerate(has)]
    found = []
    for a, b in zip(*[replaced(graph, body, xs[1:]) for body in full], strict=True):
        test = make(graph, "reshape", xs[0], shape=(size, *[1] * (len(a.shape) - 1)))
        found.append((written(graph, np.where, test, a, b), True))
    return found


def _all_have(program: Program, has: Sequence[bool], wanted: Sequence[bool], size: Dim) -> Program:
    """Give outputs of a batched program the examples' axis where it is wanted."""
    if [*has] == [*wanted]:
        return program
    inner = nested(Graph(), program)
    graph: Any = inner.scope
    outputs = [
        y if own or not want else make(graph, "broadcast_to", y, shape=(size, *y.shape))
        for y, own, want in zip(inner.outputs, has, wanted, strict=True)
    ]
    return closed(inner.inputs, outputs, program.name)


cond.vjp, cond.zeros, cond.batch = _pull_cond, _cond_zeros, _batch_cond


# -- call


def _pull_call(gs: Sequence[Any], active: Sequence[bool], *xs: Tracer, guarded: bool, body: Program) -> list[Any]:
    """Pull cotangents through a program by running it again."""
    trace = current()
    assert trace is not None  # noqa: S101 - rules are called while a derivative is traced
    (back,), given, arrived = _backwards(trace, (body,), gs, xs, active, guarded)
    if not arrived:
        return [None] * len(xs)
    made = make(trace.graph, call, *given, body=back)
    found = {k: Tracer(make(trace.graph, result, made, number=place), trace) for place, k in enumerate(arrived)}
    return [found.get(k) for k in range(len(xs))]


def _batch_call(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Run a program for all examples at once."""
    program, has = batch(node.params[0], mapped, size)
    made = make(trace.graph, call, *xs, body=program)
    return [(make(trace.graph, result, made, number=k), m) for k, m in enumerate(has)]


call.vjp, call.batch = _pull_call, _batch_call
call.zeros = lambda zero, *, body: zero_outputs(body, zero)


# -- while


def _pull_while(
    gs: Sequence[Any], active: Sequence[bool], *xs: Tracer, guarded: bool, test: Program, body: Program, fixed: int,
    most: Dim,
) -> list[Any]:
    """Pull cotangents through a loop: by one that goes back as many steps, along what was stacked on the way there."""
    trace = current()
    assert trace is not None  # noqa: S101 - rules are called while a derivative is traced
    graph = trace.graph
    if most is None:
        raise NoGradient(
            "a while loop without a bound has no derivative: what that reads of each step needs a place",
            line=graph.line, instead="max_steps=, as many steps as there are at most",
        )
    nodes, last = [x.node for x in xs], len(xs)
    plan = Pulled(trace, body, active, gs[1:], fixed, last - fixed, guarded)
    if not plan.bars:
        return [None] * last
    inner, count = plan.inner, len(body.outputs)
    there = closed(inner.inputs, (*inner.outputs, *plan.stacked), body.name)
    asked = read_by(test, test.outputs)
    wanted = [k for k in range(last - fixed) if test.inputs[fixed + k] in asked]
    wanted += range(count, count + len(plan.stacked))
    states = sorted(closure(there, wanted, fixed, last - fixed) & {*range(last - fixed)})
    outputs = [inner.outputs[k] for k in states]
    read = read_by(inner, [*outputs, *plan.stacked])
    kept_inputs = [
        k for k, x in enumerate(inner.inputs) if x in read or test.inputs[k] in asked or k - fixed in states
    ]
    there = closed([inner.inputs[k] for k in kept_inputs], (*outputs, *plan.stacked), body.name)
    asks = closed([test.inputs[k] for k in kept_inputs], test.outputs, test.name)
    forward = make(
        graph, while_, *[nodes[k] for k in kept_inputs], test=asks, body=there,
        fixed=sum([k < fixed for k in kept_inputs]), most=most,
    )
    tapes = [make(graph, result, forward, number=1 + len(states) + k) for k in range(len(plan.stacked))]
    given = [make(graph, result, forward, number=0), *tapes]
    rows = [gs[1 + k].node for k in plan.given]
    with graph.apart():
        left = _input(graph, "left", given[0])
        kept = [_input(graph, "tape", tape) for tape in (*tapes, *rows)]
        step = written(graph, np.subtract, left, literal(graph, 1, np.int64))
        at = [written(graph, np.take, tape, step, axis=0) for tape in kept]
        stand = {**dict(zip([*plan.stacked, *[plan.bars[k] for k in plan.given]], at, strict=True))}
        inputs = [inner.inputs[k] for k in plan.constants]
        state = [plan.bars[k] for k in plan.state]
        own = Program((*inputs, *state, *plan.sums.values(), *stand), tuple(plan.outputs), body.name)
        made = replaced(graph, own, [*inputs, *state, *plan.sums.values(), *stand.values()])
        given_inputs = [*inputs, *kept, left, *state, *plan.sums.values()]
        back = closed(given_inputs, [step, *made], f"{body.name}_back")
        some = written(graph, np.greater, left, literal(graph, 0, np.int64))
        more = closed(given_inputs, [some], f"{body.name}_more")
    backward = make(
        graph, while_, *[nodes[k] for k in plan.constants], *tapes, *rows, given[0],
        *[zeros(trace, body.outputs[k]) if gs[1 + k] is None else gs[1 + k].node for k in plan.state],
        *[zeros(trace, body.inputs[k]) for k in plan.sums], test=more, body=back,
        fixed=len(plan.constants) + len(kept), most=most,
    )
    found: list[Any] = [None] * last
    for place, k in enumerate([*[k + fixed for k in plan.state], *plan.sums]):
        found[k] = Tracer(make(graph, result, backward, number=2 + place), trace)
    return found


def _while_zeros(zero: Sequence[bool], *, test: Program, body: Program, fixed: int, most: Dim) -> list[bool]:
    """Say which results are zero; the count of steps is none."""
    del test, most
    return [False, *_scan_zeros(zero, body=body, length=0, fixed=fixed, carried=len(zero) - fixed, reverse=False)]


def _batch_while(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Loop until all examples are done, while those that are keep what they have."""
    test, body, fixed, most = node.params
    graph, carried = trace.graph, len(xs) - fixed
    many = [*mapped]
    while True:  # until what is carried has the axis where what it is made of has it
        asked, (apart,) = batch(test, many, size)
        program, has = batch(body, many, size)
        more = [fixed + k for k in range(carried) if (has[k] or apart) and not many[fixed + k]]
        if not more:
            break
        for k in more:
            many[k] = True
    program = _all_have(program, has, [*many[fixed:], *[apart or h for h in has[carried:]]], size)
    given = [
        x if m == n else make(graph, "broadcast_to", x, shape=(size, *x.shape))
        for x, m, n in zip(xs, mapped, many, strict=True)
    ]
    steps: Any = None
    if apart:  # each example has a number of steps of its own, which is carried, too
        inner = nested(Graph(), program)
        own: Any = inner.scope
        steps = _input(own, "steps", make(graph, "broadcast_to", literal(graph, 0, np.int64), shape=(size,)))
        (on,) = replaced(own, asked, inner.inputs)
        held = []
        for k, y in enumerate(inner.outputs[:carried]):
            wide = make(own, "reshape", on, shape=(size, *[1] * (len(y.shape) - 1)))
            held.append(written(own, np.where, wide, y, inner.inputs[fixed + k]))
        next_ = written(own, np.add, steps, written(own, lambda b: b.astype(np.int64), on))
        inputs = (*inner.inputs[:fixed], steps, *inner.inputs[fixed:])
        program = closed(inputs, [next_, *held, *inner.outputs[carried:]], body.name)
        asked = closed(inputs, [written(own, np.any, on)], test.name)
        given.insert(fixed, make(graph, "broadcast_to", literal(graph, 0, np.int64), shape=(size,)))
    made = make(graph, while_, *given, test=asked, body=program, fixed=fixed, most=most)
    count = make(graph, result, made, number=1 if apart else 0)
    first = 2 if apart else 1
    found = [(count, apart)]
    for k in range(len(body.outputs)):
        y, m = make(graph, result, made, number=first + k), many[fixed + k] if k < carried else apart or has[k]
        found.append((_swapped(graph, y) if m and k >= carried else y, m))
    return found


while_.vjp, while_.zeros, while_.batch = _pull_while, _while_zeros, _batch_while

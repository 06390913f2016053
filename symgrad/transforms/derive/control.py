"""Derivatives and batches of what runs programs.

The pullback of a loop is a loop the other way (S. Linnainmaa, 1976). What it reads of the way there is stacked there,
one row a step; what costs little to compute from rows that stand there anyway is computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import VerifyError
from symgrad.ir.graphs import reachable
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import Dim
from symgrad.ir.names import identifier
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Control, Elementwise, Leaf
from symgrad.ir.program import Program, bodies, replaced
from symgrad.ops.arrays.views import broadcast_to, reshape, transpose
from symgrad.ops.control import call, closure, cond, counted, differentiated, needed, read_by, result, scan, while_
from symgrad.ops.declare import leaves
from symgrad.trace.state import Trace, current, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import input_like, literal, make, scalar, shaped, written
from symgrad.transforms.derive.batch import batch
from symgrad.transforms.derive.poles import Poles, is_zero_constant, zeros_among
from symgrad.transforms.derive.residuals import residuals
from symgrad.transforms.derive.vjp import Cotangent, cotangents, depends, zeros
from symgrad.transforms.tuned import RUNS_KEEP, RUNS_LONG, RUNS_NESTED, RUNS_REACH, RUNS_SQUARE

# -- bodies: programs of their own


def closed(
    inputs: Iterable[Node], outputs: Sequence[Node], name: str, numbers: Mapping[Node, Any] | None = None,
) -> Program:
    """Make a program of its own of what is computed between some nodes, its inputs, and outputs.

    What else it reads are `numbers`, or zero, where a loop within it reads it for results that nobody wants.
    """
    given = numbers or {}
    own, names = Graph(), list[str]()
    there = Program(tuple(inputs), tuple(outputs), name)
    made: list[Node] = []
    for node in there.inputs:
        names.append(identifier(node.param("name") if node.is_input else "v", names))
        made.append(input_like(own, names[-1], node))
    known = {*there.inputs}
    idle = [node for node in there.nodes() if node.is_input and node not in known]
    whole = replace(there, inputs=(*there.inputs, *idle))
    if idle and not read_by(whole, outputs).isdisjoint({*idle} - given.keys()):
        raise VerifyError(f"{name} reads what is no input of it")
    nothing = [shaped(own, literal(own, given.get(node, 0), node.dtype), node.shape) for node in idle]
    return Program(tuple(made), tuple(replaced(own, whole, [*made, *nothing])), identifier(name))


def lifted(*programs: Program) -> tuple[list[Program], list[Node]]:
    """Make programs of their own of nested ones: first come inputs for what any reads of its caller, which is returned.

    Numbers and extents need no input.
    """
    outer: dict[Node, None] = {}
    for program in programs:
        reads = [*[read for node in program.nodes() for read in node.inputs], *program.outputs]
        outer |= dict.fromkeys([
            read for read in reads if read.number < program.start and (read.is_input or not isinstance(read.op, Leaf))
        ])
    return [closed((*outer, *p.inputs), p.outputs, p.name) for p in programs], [*outer]


def nested(graph: Graph, body: Program) -> Program:
    """Copy a body into a table, as a program that is nested there."""
    inputs = tuple([input_like(graph, node.param("name"), node) for node in body.inputs])
    outputs = tuple(replaced(graph, body, inputs))
    start = inputs[0].number if inputs else 0
    return replace(body, inputs=inputs, outputs=outputs, scope=graph, start=start)


def zero_outputs(program: Program, zero: Iterable[bool]) -> list[bool]:
    """Say which outputs are zero, given which inputs are."""
    found = zeros_among(program.nodes(), {node for node, z in zip(program.inputs, zero, strict=True) if z})
    return [node in found or is_zero_constant(node) for node in program.outputs]


# -- scan


def _loop_zeros(zero: Sequence[bool], *, body: Program, fixed: int, **named: Any) -> list[bool]:
    """Say which results are zero: what is carried is where it begins as zero and stays it."""
    given = [*zero[len(zero) - len(body.inputs) :]]
    last = fixed + named.get("carried", len(given) - fixed)
    while True:
        found = zero_outputs(body, given)
        state = [z and y for z, y in zip(given[fixed:last], found, strict=False)]
        if state == given[fixed:last]:
            return found
        given[fixed:last] = state


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
        found: of each input that has one, the cotangent with its guard.
    """

    def __init__(
        self, trace: Trace, body: Program, active: Sequence[bool], gs: Sequence[Cotangent | None], fixed: int,
        carried: int, ahead: Sequence[bool] | None,
    ) -> None:
        graph, last = trace.graph, fixed + carried
        with graph.apart():
            inner = self.inner = nested(graph, body)
            inputs, outputs = inner.inputs, inner.outputs
            moving, reached = _moved_by(inner, active, fixed, carried)
            wrt = [k for k, moves in enumerate(moving) if moves]
            of = {k for k, g in enumerate(gs) if g is not None and outputs[k] in reached}
            sure, carries = {*of}, dict(zip(inputs[fixed:last], outputs, strict=False))

            def before(node: Node) -> list[Node]:
                return [i for i in (*needed(node), *([carries[node]] if node in carries else [])) if i in reached]

            seen = reachable([outputs[k] for k in of], before)  # a cotangent is carried where one may arrive
            of |= {k - fixed for k in range(fixed, last) if inputs[k] in seen}
            again = bool(Poles(trace, inner.nodes(), reached).behind)  # a step back comes to those of the step before
            poles = None if ahead is None else [inputs[k] for k in wrt if ahead[k] or (again and fixed <= k < last)]
            begun = {k: g.beyond(None) for k, g in enumerate(gs) if g is not None}
            while True:
                names = [f"{x.param('name')}_bar" for x in inputs[fixed:last]]
                names += [f"y{k}_bar" for k in range(carried, len(outputs))]
                bars = self.bars = {k: input_like(graph, names[k], outputs[k]) for k in sorted(of)}
                given = [begun.get(k, Cotangent(None, partial=True)) for k in bars]  # it begins with zeros
                seeds = seeded(trace, [outputs[k] for k in bars], [*bars.values()], given)
                swept = cotangents(trace, inner, seeds, [inputs[k] for k in wrt], ahead=poles, within=True)
                found = {k: bar for k, bar in zip(wrt, swept, strict=True) if not is_zero_constant(bar.value.node)}
                arrived = {k: bar.value.node for k, bar in found.items()}
                none = {k for k in of - sure if k + fixed not in arrived}
                states = range(fixed, last) if poles is not None else ()
                back = {k - fixed: found[k].beyond(None) for k in states if k in found}
                met = begun | {k: _either(begun.get(k), bar) for k, bar in back.items()}
                if not none and met == begun:
                    break
                of, begun = of - none, met
            self.found = found
            made = Program((*inputs, *bars.values()), tuple(arrived.values()), scope=graph, start=inner.start)
            kept = residuals(made, [*bars.values()])
            between = replace(made, inputs=(*kept, *made.inputs))
            read = {i for node in between.nodes() if node not in between.inputs for i in node.inputs} | {*made.outputs}
            self.stacked = [*kept, *[x for x in inputs[fixed:last] if x in read]]
            self.constants = [k for k in range(fixed) if inputs[k] in read]
            self.rows = [k for k in range(last, len(inputs)) if inputs[k] in read]
            self.state, self.given = [k for k in bars if k < carried], [k for k in bars if k >= carried]
            named = {k: f"{inputs[k].param('name')}_bar" for k in arrived if k < fixed}
            self.sums = {k: input_like(graph, name, inputs[k]) for k, name in named.items()}
            self.wanted = [k for k in arrived if k >= last]
            self.outputs = [
                *[arrived[k + fixed] if k + fixed in arrived else zeros(trace, outputs[k]) for k in self.state],
                *[written(graph, np.add, total, arrived[k]) for k, total in self.sums.items()],
                *[arrived[k] for k in self.wanted],
            ]


def _moved_by(body: Program, active: Sequence[bool], fixed: int, carried: int) -> tuple[list[bool], set[Node]]:
    """Say which inputs of a loop's body move, what is carried where what it is made of does; and all that moves."""
    moving = [*active]
    while True:
        reached = depends(body.nodes(), [x for x, moves in zip(body.inputs, moving, strict=True) if moves])
        more = [k for k in range(carried) if body.outputs[k] in reached and not moving[fixed + k]]
        if not more:
            return moving, reached
        for k in more:
            moving[fixed + k] = True


def _as_loop(op: Control, nodes: Sequence[Node], **named: Any) -> tuple[Node | None, Sequence[Node], dict[str, Any]]:
    """Return the number of steps where it is a value, what else a loop is given, and its parameters."""
    if op is scan:
        return None, nodes, named
    if op is while_:  # as many steps as there were: their number is a result of the loop itself
        graph = _as_tracers().graph
        count = make(graph, result, make(graph, while_, *nodes, **named), number=0)
        named = {"length": named.pop("most"), **named, "carried": len(nodes) - named["fixed"], "reverse": False}
    else:
        count, nodes = nodes[0], nodes[1:]
    return count, nodes, named


def _pull(
    op: Control, gs: Sequence[Cotangent | None], active: Sequence[bool], *xs: Tracer, ahead: Sequence[bool] | None,
    **named: Any,
) -> list[Cotangent | None]:
    """Pull cotangents through one of the ops that are loops."""
    count, nodes, named = _as_loop(op, [x.node for x in xs], **named)
    if named["length"] is None and not named["runs"]:
        named["runs"] = levels(most_rows(nodes[named["fixed"] :], RUNS_LONG))
    first, made = len(xs) - len(nodes), len(named["body"].outputs)
    found = _pull_loop(count, gs[len(gs) - made :], active[first:], nodes, ahead and ahead[first:], **named)
    return [*[None] * first, *found]


def _push(op: Control, node: Node, dots: Sequence[Any], of: Sequence[int], pushforward: Any) -> list[Any]:
    """Push tangents through one of the ops that are loops."""
    count, nodes, named = _as_loop(op, node.inputs, **node.named)
    first = int(op is while_)  # the number of steps, which has none
    found = _push_loop(count, nodes, dots[len(dots) - len(nodes) :], [k - first for k in of], pushforward, **named)
    return [*[None] * first, *found]


def _as_tracers() -> Trace:
    trace = current()
    assert trace is not None  # noqa: S101 - rules are called while a derivative is traced
    return trace


def _pull_loop(
    count: Node | None, gs: Sequence[Cotangent | None], active: Sequence[bool], nodes: Sequence[Node],
    ahead: Sequence[bool] | None, runs: tuple[int, ...] = (), test: Program | None = None,
    there: Program | None = None, *, body: Program, length: Dim | None, fixed: int, carried: int, reverse: bool,
) -> list[Cotangent | None]:
    """Pull cotangents through a loop: by a loop the other way, which carries those of what was carried.

    It also carries the sums of those of what is the same in all steps. Where there is no place for a row of each step,
    a step back computes all steps before it again, from the first on. With a `test` there was a `while_`. On the way
    `there` another body may do, where only what is carried into steps is read.
    """
    trace = _as_tracers()
    graph = trace.graph
    if runs:
        assert count is not None  # noqa: S101 - `counted` and `while_` have runs
        count, nodes, (body, there), length = _in_runs(graph, count, nodes, body, length, fixed, runs)
        gs, active = [None, *gs], [False, *active[:fixed], False, *active[fixed:]]
        ahead = ahead and [False, *ahead[:fixed], False, *ahead[fixed:]]
        parts = _pull_loop(
            count, gs, active, nodes, ahead, there=None if length is None else there, body=body, length=length,
            fixed=fixed + 1, carried=carried + 1, reverse=False,
        )
        return [part for k, part in enumerate(parts) if k not in {0, fixed + 1}]

    plan = Pulled(trace, body, active, gs, fixed, carried, ahead)
    if not plan.bars:
        return [None] * len(nodes)
    inner, bars, again = plan.inner, [*plan.bars.values()], count is not None and length is None
    inputs = inner.inputs
    constants = [inputs[k] for k in plan.constants]
    tapes: list[Node] = []
    outer = dict(zip(inputs, nodes, strict=True))
    first: dict[Node, Node] = {}  # where what is computed again begins
    if plan.stacked and test is not None:  # the loop itself stacks: `join_scans` makes it one with that of the value
        own = closed(inputs, (*inner.outputs, *plan.stacked), body.name)
        forward = make(graph, while_, *nodes, test=test, body=own, fixed=fixed, most=length, runs=())
        count, tapes = make(graph, result, forward, number=0), [
            make(graph, result, forward, number=1 + k) for k in range(len(body.outputs), len(own.outputs))
        ]
    elif plan.stacked:
        stacked = [] if again else plan.stacked
        own = Program((*inputs, *bars, *plan.sums.values()), tuple(plan.outputs))
        read = read_by(own, plan.outputs) if again else set()
        wanted = [k for k in range(carried) if inputs[fixed + k] in read]
        next_ = inner.outputs if there is None else replaced(graph, there, inputs)
        own = closed(inputs, (*next_, *stacked), body.name)
        wanted += range(len(body.outputs), len(own.outputs))
        state = sorted(closure(own, wanted, fixed, carried) & {*range(carried)})
        outputs = [next_[k] for k in state]
        made = read_by(inner, [*outputs, *stacked])
        kept = [x for k, x in enumerate(inputs) if x in made or k - fixed in state]
        own = closed(kept, (*outputs, *stacked), body.name)
        how: dict[str, Any] = {"body": own, "fixed": sum([x in inputs[:fixed] for x in kept]), "carried": len(state)}
        if not again:
            forward = _rounds(graph, count, [outer[x] for x in kept], **how, length=length, reverse=reverse)
            tapes = [make(graph, result, forward, number=len(state) + k) for k in range(len(stacked))]
        else:
            constants = [x for x in inputs[:fixed] if x in read or x in kept]
            first = {x: input_like(graph, x.param("name"), x) for x in [inputs[fixed + k] for k in state]}
    left: list[Node] = []
    sums, outputs = [*plan.sums.values()], plan.outputs
    rows = [*plan.stacked, *[inputs[k] for k in plan.rows]] if not again else []
    if first:
        with graph.apart():
            left = [input_like(graph, "left", count)]  # type: ignore[arg-type]  # it is known
            step = written(graph, np.subtract, left[0], literal(graph, 1, np.int64))
            given = [first.get(x, x) for x in kept]
            begun = make(graph, counted, step, *given, **how, length=None, reverse=False, runs=())
            starts = {x: make(graph, result, begun, number=k) for k, x in enumerate(first)}
            program = Program((*inputs, *bars, *sums), tuple(outputs), scope=graph, start=inner.start)
            outputs = [step, *replaced(graph, program, [*[starts.get(x, x) for x in inputs], *bars, *sums])]
    named = [plan.bars[k] for k in plan.state]
    back = closed(
        [*constants, *first.values(), *left, *named, *sums, *rows, *[plan.bars[k] for k in plan.given]], outputs,
        f"{body.name}_back",
    )
    backward = _rounds(
        graph, count, [
            *[outer[x] for x in (*constants, *first)], *[count] * len(left),  # type: ignore[list-item]  # it is known
            *[zeros(trace, body.outputs[k]) if (g := gs[k]) is None else g.value.node for k in plan.state],
            *[zeros(trace, body.inputs[k]) for k in plan.sums], *tapes, *[nodes[k] for k in plan.rows],
            *[g.value.node for k in plan.given if (g := gs[k]) is not None],
        ], body=back, length=length, fixed=len(constants) + len(first), carried=len(left) + len(named) + len(sums),
        reverse=not again and not reverse,
    )
    found: list[Cotangent | None] = [None] * len(nodes)
    for index, k in enumerate([*[k + fixed for k in plan.state], *plan.sums, *plan.wanted], len(left)):
        unused = count is not None and not fixed <= k < fixed + carried  # by as many steps as there are, which may be 0
        one = plan.found.get(k, Cotangent(None)).beyond(Tracer(make(graph, result, backward, number=index), trace))
        found[k] = one._replace(partial=True) if unused else one
    return found


def _rounds(graph: Graph, count: Node | None, given: Sequence[Node], runs: tuple[int, ...] = (), **named: Any) -> Node:
    """Make a loop of a known number of steps, or of as many as a value says."""
    return make(graph, scan, *given, **named) if count is None else make(
        graph, counted, count, *given, **named, runs=runs,
    )



def square_runs(state: Sequence[Node]) -> tuple[int, ...]:
    """Return runs of a loop of any number of steps that are as many as a run has steps: the last level says so."""
    most = most_rows(state, RUNS_SQUARE)
    return most * most, -most


def most_rows(state: Sequence[Node], most: int) -> int:
    """Return how many steps of a loop may be kept of which nobody knows how many there are."""
    each = sum([shapes.upper(shapes.size(x.shape)) * x.dtype.itemsize for x in state])
    return max(2, min(most, RUNS_KEEP // max(1, each)))


def levels(run: int) -> tuple[int, ...]:
    """Return runs of runs that reach far."""
    runs = [run]
    while 1 < runs[0] < RUNS_REACH and len(runs) < RUNS_NESTED:
        runs.insert(0, runs[0] * run)
    return tuple(runs)


def _in_runs(
    graph: Graph, count: Node, nodes: Sequence[Node], body: Program, length: Dim | None, fixed: int,
    runs: tuple[int, ...],
) -> tuple[Node, list[Node], list[Program], Dim | None]:
    """Make of a loop the loop over its runs, whose body is a call: it carries its own number, and reads the count.

    Runs are of so many steps, or, where that is negative, of at most so many, and as many as a run has. Of two bodies
    the second leaves out the steps of the last run, behind which nothing begins.
    """
    run, within = abs(runs[0]), Graph()
    carried = len(nodes) - fixed
    steps, *inputs = [input_like(within, f"x{k}", x) for k, x in enumerate((count, *body.inputs))]
    one = make(
        within, counted, steps, *inputs, body=body, length=run, fixed=fixed, carried=carried,
        reverse=False, runs=runs[1:],
    )
    several = Program((steps, *inputs), tuple([make(within, result, one, number=k) for k in range(carried)]), body.name)
    own = Graph()
    total, *inputs = [input_like(own, f"x{k}", x) for k, x in enumerate((count, *body.inputs))]
    number, width = input_like(own, "run", count), _steps_of_run(own, runs[0], total)
    rest = written(own, np.subtract, total, written(own, np.multiply, number, width))
    segments = []
    for last in (rest, literal(own, 0, np.int64)):
        many = written(own, lambda rest, width, last: np.where(rest > width, width, last), rest, width, last)
        called = make(own, call, many, *inputs, body=several)
        outputs = written(own, np.add, number, literal(own, 1, np.int64)), *[
            make(own, result, called, number=k) for k in range(carried)
        ]
        segments.append(Program((total, *inputs[:fixed], number, *inputs[fixed:]), outputs, f"{body.name}_run"))
    many = written(graph, lambda n, width: (n + (width - 1)) // width, count, _steps_of_run(graph, runs[0], count))
    zero = literal(graph, 0, np.int64)
    most = None if length is None else -(-length // run)
    return many, [count, *nodes[:fixed], zero, *nodes[fixed:]], segments, most


def _steps_of_run(graph: Graph, run: int, count: Node) -> Node:
    """Return how many steps a run has."""
    if run > 0:
        return literal(graph, run, np.int64)
    return written(graph, lambda n: np.clip(np.ceil(np.sqrt(n.astype(float))).astype(np.int64), 1, -run), count)


def _batch_rounds(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Loop for all examples at once; where each has its own number of steps, as often as the largest of these says.

    Returned are the results, each with whether it has the examples' axis, which is in front.
    """
    graph, named = trace.graph, node.named
    fixed, carried = named["fixed"], named["carried"]
    first = len(xs) - len(named["body"].inputs)  # the number of steps, where it is a value
    apart, last = first > 0 and mapped[0], first + fixed + carried
    if apart and looks_up_places(named["body"]):
        return _one_by_one(graph, node, xs, mapped, size)
    program, many, has = _carrying(named["body"], mapped[first:], fixed, carried, size, apart=apart)
    given = [*xs[:first], *_batched_operands(graph, xs[first:], mapped[first:], many, fixed + carried, size)]
    if not apart:
        made = make(graph, node.op, *given, **{**named, "body": program})
        return _unswapped(graph, made, many[fixed : fixed + carried], has[carried:])
    inner = nested(Graph(), program)
    own: Any = inner.scope
    counts, step = input_like(own, "counts", xs[0]), input_like(own, "step", literal(graph, 0, np.int64))
    held = _held_where_done(own, written(own, np.less, step, counts), inner, fixed, carried, size)
    one = literal(own, 1 if not named["reverse"] else -1, np.int64)
    body = closed(
        [counts, *inner.inputs[:fixed], step, *inner.inputs[fixed:]],
        [written(own, np.add, step, one), *held, *inner.outputs[carried:]], program.name,
    )
    most = written(graph, lambda counts: np.max(counts, initial=0), xs[0])
    begin = written(graph, np.subtract, most, literal(graph, 1, np.int64)) if named["reverse"] else literal(
        graph, 0, np.int64,
    )
    given = [most, xs[0], *given[1 : 1 + fixed], begin, *given[1 + fixed : last], *given[last:]]
    more = {"body": body, "fixed": fixed + 1, "carried": carried + 1}
    made = make(graph, counted, *given, **{**named, **more})
    return _unswapped(graph, made, many[fixed : fixed + carried], has[carried:], 1)


def looks_up_places(program: Program) -> bool:
    """Whether a program, or one in it, looks up at places that vary: an example that is done may have them anywhere."""
    return any(
        any(map(looks_up_places, bodies(node))) if bodies(node) else not isinstance(node.op, Elementwise)
        and any(i.dtype.kind in "iu" and not i.is_constant for i in node.inputs[1:]) for node in program.nodes()
    )


def _one_by_one(graph: Graph, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Loop over the examples, each of which loops for itself, as often as it does."""
    own = Graph()
    inputs = [
        leaves.make_input(own, f"x{k}", x.shape[1:] if m else x.shape, x.dtype)
        for k, (x, m) in enumerate(zip(xs, mapped, strict=True))
    ]
    order = sorted(range(len(xs)), key=mapped.__getitem__)
    several = make(own, node.op, *inputs, **node.named)
    count = len(node.op.results(*inputs, **node.named))  # type: ignore[attr-defined]  # a loop has several
    outputs = [make(own, result, several, number=k) for k in range(count)]
    body = Program(tuple([inputs[k] for k in order]), tuple(outputs), node.param("body").name)
    rest: dict[str, Any] = {"fixed": len(xs) - sum(mapped), "carried": 0, "reverse": False}
    made = make(graph, scan, *[xs[k] for k in order], body=body, length=size, **rest)
    return [(make(graph, result, made, number=k), True) for k in range(count)]


def _carrying(
    body: Program, mapped: Sequence[bool], fixed: int, carried: int, size: Dim, *, apart: bool = False,
) -> tuple[Program, list[bool], list[bool]]:
    """Batch a loop's body: what is carried has the axis where what it is made of has it, or all where it stops apart.

    Returns:
        The body, which inputs have the axis, and which outputs.
    """
    many = [m or (apart and fixed <= k < fixed + carried) for k, m in enumerate(mapped)]
    while True:
        program, has = batch(body, many, size)
        more = [k for k in range(fixed, fixed + carried) if has[k - fixed] and not many[k]]
        if not more:
            wanted = [*many[fixed : fixed + carried], *has[carried:]]
            return _all_have(program, has, wanted, size), many, wanted
        for k in more:
            many[k] = True


def _batched_operands(
    graph: Graph, xs: Sequence[Node], mapped: Sequence[bool], many: Sequence[bool], rows: int, size: Dim,
) -> list[Node]:
    """Return what a batched loop is given: what is carried for all examples, and rows before these."""
    given = [
        x if m == n else make(graph, broadcast_to, x, shape=(size, *x.shape))
        for x, m, n in zip(xs, mapped, many, strict=True)
    ]
    return [_swapped(graph, x) if k >= rows and many[k] else x for k, x in enumerate(given)]


def _held_where_done(graph: Graph, on: Node, inner: Program, fixed: int, carried: int, size: Dim) -> list[Node]:
    """Let examples that are done keep what they carry."""
    wide = [make(graph, reshape, on, shape=(size, *[1] * (len(y.shape) - 1))) for y in inner.outputs[:carried]]
    outputs = zip(wide, inner.outputs, inner.inputs[fixed : fixed + carried], strict=False)
    return [written(graph, np.where, test, y, x) for test, y, x in outputs]


def _unswapped(graph: Graph, made: Node, states: Sequence[bool], stacked: Sequence[bool], first: int = 0) -> list[Any]:
    """Return the results of a batched loop, each with whether it has the examples' axis, which is in front."""
    found = [(make(graph, result, made, number=first + k), m) for k, m in enumerate((*states, *stacked))]
    return [(_swapped(graph, y) if m and k >= len(states) else y, m) for k, (y, m) in enumerate(found)]


def _swapped(graph: Graph, x: Node) -> Node:
    return make(graph, transpose, x, axes=(1, 0, *range(2, len(x.shape))))


def _tangents(body: Program, moving: Sequence[bool], of: Sequence[int], pushforward: Any) -> Program:
    """Push a program forward.

    Returns:
        What computes its results and tangents of some, given its inputs and tangents of those that move.
    """
    trace = _as_tracers()
    graph = trace.graph
    with graph.apart():
        inner = nested(graph, body)
        wrt = [k for k, moves in enumerate(moving) if moves]
        reached = depends(inner.nodes(), [inner.inputs[k] for k in wrt])
        there = [k for k in of if inner.outputs[k] in reached]
        pushed = pushforward(inner, wrt, there, within=True)
        found = dict(zip(there, pushed.outputs, strict=True))
        dots = [found[k] if k in found else zeros(trace, inner.outputs[k]) for k in of]
        inputs = (*inner.inputs, *pushed.inputs[len(inner.inputs) :])
        return closed(inputs, (*inner.outputs, *dots), f"{body.name}_dot")


def _push_loop(
    count: Node | None, nodes: Sequence[Node], dots: Sequence[Any], wanted: Sequence[int], pushforward: Any, *,
    body: Program, length: Dim | None, fixed: int, carried: int, reverse: bool, runs: tuple[int, ...] = (),
    test: Program | None = None,
) -> list[Any]:
    """Push tangents through a loop: it carries those of what it carries that moves, and moves what is wanted."""
    trace = _as_tracers()
    last, results = fixed + carried, len(body.outputs)
    moved, reached = _moved_by(body, [dot is not None for dot in dots], fixed, carried)
    ahead = closure(body, wanted, fixed, carried, differentiated)
    read = read_by(body, [body.outputs[k] for k in ahead], differentiated)
    read |= {body.inputs[fixed + k] for k in ahead if k < carried}
    moving = [moves and x in read for x, moves in zip(body.inputs, moved, strict=True)]
    of = [k for k in sorted(ahead) if (moving[fixed + k] if k < carried else body.outputs[k] in reached)]
    program = _tangents(body, moving, of, pushforward)

    def beside(values: Sequence[Any], tangents: dict[int, Any], *ends: int) -> list[Any]:
        found: list[Any] = []
        for a, b in pairwise((0, *ends)):
            found += [*values[a:b], *[tangents[k] for k in range(a, b) if k in tangents]]
        return found

    wrt = [k for k, moves in enumerate(moving) if moves]
    given = {k: zeros(trace, nodes[k]) if dots[k] is None else dots[k].node for k in wrt}
    inputs = beside(program.inputs, dict(zip(wrt, program.inputs[len(nodes) :], strict=True)), fixed, last, len(nodes))
    places = beside(range(results), {k: results + n for n, k in enumerate(of)}, carried, results)
    stepped = closed(inputs, [program.outputs[k] for k in places], program.name)
    both, staying = beside(nodes, given, fixed, last, len(nodes)), fixed + sum(moving[:fixed])
    if test is None:
        made = _rounds(
            trace.graph, count, both, runs, body=stepped, length=length, reverse=reverse, fixed=staying,
            carried=carried + sum(moving[fixed:last]),
        )
    else:
        own = nested(Graph(), stepped)
        asked = replaced(own.scope, test, [own.inputs[inputs.index(x)] for x in program.inputs[: len(nodes)]])  # type: ignore[arg-type]  # it is nested
        made = make(
            trace.graph, while_, *both, test=closed(own.inputs, asked, test.name), body=stepped, fixed=staying,
            most=length, runs=runs,
        )
    first = 0 if test is None else 1
    found = {k: make(trace.graph, result, made, number=first + places.index(results + n)) for n, k in enumerate(of)}
    return [Tracer(found[k], trace) if k in found else None for k in range(results)]


for _op in (scan, counted):
    _op.zeros, _op.batch = _loop_zeros, _batch_rounds


# -- cond and call


def _pull_held(
    op: Control, gs: Sequence[Cotangent | None], active: Sequence[bool], *xs: Tracer, ahead: Sequence[bool] | None,
    **held: Program,
) -> list[Cotangent | None]:
    """Pull cotangents through the program that was run, which is computed again: of `cond` and `call`."""
    trace, bodies = _as_tracers(), [*held.values()]
    graph, first = trace.graph, len(xs) - len(bodies[0].inputs)
    wrt = [k for k, moves in enumerate(active[first:]) if moves]
    of = {k: g for k, g in enumerate(gs) if g is not None}
    derived = []
    deepest, graph.again = graph.again, 0  # of what is computed again within what is computed again
    with graph.apart():
        for body in bodies:
            inner = nested(graph, body)
            bars = [  # one that is the same number in all calls stands in the program, which is simpler for it
                g.value.node if scalar(g.value.node) is not None else input_like(graph, f"y{k}_bar", inner.outputs[k])
                for k, g in of.items()
            ]
            seeds = seeded(trace, [inner.outputs[k] for k in of], bars, [*of.values()])
            poles = None if ahead is None else [inner.inputs[k] for k in wrt if ahead[first + k]]
            swept = cotangents(trace, inner, seeds, [inner.inputs[k] for k in wrt], ahead=poles, within=True)
            inputs = (*inner.inputs, *[bar for bar in bars if bar.is_input])
            derived.append((inputs, dict(zip(wrt, swept, strict=True))))
        graph.again = max(deepest, graph.again + 1)
        arrived: dict[int, Cotangent] = {}  # without values
        for k in wrt:
            sides = [found[k] for _, found in derived]
            none = [is_zero_constant(side.value.node) for side in sides]
            if not all(none):
                one = reduce(_either, [side.beyond(None) for side in sides])
                arrived[k] = one._replace(partial=True) if any(none) else one
        read: set[int] = set()
        for inputs, found in derived:
            outputs = tuple([found[k].value.node for k in arrived])
            own = read_by(Program(inputs, outputs), outputs)
            read |= {k for k, x in enumerate(inputs) if x in own}
        kept = sorted(read)
        back = {
            name: closed([inputs[k] for k in kept], [found[k].value.node for k in arrived], f"{body.name}_back")
            for (name, body), (inputs, found) in zip(held.items(), derived, strict=True)
        }
    parts: list[Cotangent | None] = [None] * len(xs)
    if arrived:
        tests, given = [x.node for x in xs[:first]], [x.node for x in xs[first:]]
        given += [g.value.node for g in of.values() if scalar(g.value.node) is None]
        made = make(graph, op, *tests, *[given[k] for k in kept], **back)
        for n, (k, known) in enumerate(arrived.items()):
            parts[first + k] = known._replace(value=Tracer(make(graph, result, made, number=n), trace))
    return parts


def seeded(
    trace: Trace, outputs: Sequence[Node], bars: Sequence[Node], known: Sequence[Cotangent],
) -> dict[Node, Cotangent]:
    """Begin with a cotangent for each output, of which something is known; of one that stands there twice, the sum."""
    seeds: dict[Node, Cotangent] = {}
    with passing(trace):
        for output, bar, one in zip(outputs, bars, known, strict=True):
            here, there = one.beyond(Tracer(bar, trace)), seeds.get(output)
            seeds[output] = here if there is None else Cotangent(
                there.value + here.value, (), there.chosen or here.chosen, there.partial and here.partial,
                unit=there.unit and here.unit,
            )
    return seeds


def _either(one: Cotangent | None, other: Cotangent) -> Cotangent:
    """Return what is known of a cotangent that is one or the other."""
    return other if one is None else Cotangent(
        None, (), one.chosen or other.chosen, one.partial or other.partial, unit=one.unit and other.unit)


def _held_zeros(zero: Sequence[bool], **held: Program) -> list[bool]:
    """Say which results are zero whichever program is run."""
    sides = [zero_outputs(body, zero[len(zero) - len(body.inputs) :]) for body in held.values()]
    return [all(flags) for flags in zip(*sides, strict=True)]


def _batch_held(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Run a program for all examples at once; where each has its own condition, both are computed and one chosen."""
    graph, first = trace.graph, len(xs) - len(bodies(node)[0].inputs)
    sides = [batch(body, mapped[first:], size) for body in bodies(node)]
    has = [any(flags) or any(mapped[:first]) for flags in zip(*[has for _, has in sides], strict=True)]
    full = [_all_have(program, own, has, size) for program, own in sides]
    if not any(mapped[:first]):
        made = make(graph, node.op, *xs, **dict(zip(node.op.params, full, strict=True)))
        return [(make(graph, result, made, number=k), m) for k, m in enumerate(has)]
    found = []
    for a, b in zip(*[replaced(graph, body, xs[1:]) for body in full], strict=True):
        test = make(graph, reshape, xs[0], shape=(size, *[1] * (len(a.shape) - 1)))
        found.append((written(graph, np.where, test, a, b), True))
    return found


def _all_have(program: Program, has: Sequence[bool], wanted: Sequence[bool], size: Dim) -> Program:
    """Give outputs of a batched program the examples' axis where it is wanted."""
    if [*has] == [*wanted]:
        return program
    inner = nested(Graph(), program)
    graph: Any = inner.scope
    outputs = [
        y if own or not want else make(graph, broadcast_to, y, shape=(size, *y.shape))
        for y, own, want in zip(inner.outputs, has, wanted, strict=True)
    ]
    return closed(inner.inputs, outputs, program.name)


def _push_held(node: Node, dots: Sequence[Any], of: Sequence[int], pushforward: Any) -> list[Any]:
    """Push tangents through programs, of which one is run, once: of `cond` and `call`."""
    trace = _as_tracers()
    held, first = bodies(node), len(node.inputs) - len(bodies(node)[0].inputs)
    moving = [dot is not None for dot in dots[first:]]
    moved = [
        depends(body.nodes(), [x for x, moves in zip(body.inputs, moving, strict=True) if moves]) for body in held
    ]
    of = [k for k in of if any(body.outputs[k] in reached for body, reached in zip(held, moved, strict=True))]
    pushed = [_tangents(body, moving, of, pushforward) for body in held]
    given = [dot.node for dot in dots[first:] if dot is not None]
    made = make(trace.graph, node.op, *node.inputs, *given, **dict(zip(node.op.params, pushed, strict=True)))
    results = len(held[0].outputs)
    found = {k: Tracer(make(trace.graph, result, made, number=results + n), trace) for n, k in enumerate(of)}
    return [found.get(k) for k in range(results)]


for _op in (cond, call):
    _op.vjp, _op.push = partial(_pull_held, _op), _push_held
    _op.zeros, _op.batch = _held_zeros, _batch_held


# -- while


def _batch_while(trace: Trace, node: Node, xs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Any]:
    """Loop until all examples are done, while those that are keep what they have."""
    graph, named = trace.graph, node.named
    test, fixed = named["test"], named["fixed"]
    carried = len(xs) - fixed
    program, many, has = _carrying(named["body"], mapped, fixed, carried, size)
    asked, (apart,) = batch(test, many, size)
    if apart:
        if looks_up_places(named["body"]) or looks_up_places(test):
            return _one_by_one(graph, node, xs, mapped, size)
        program, many, has = _carrying(named["body"], mapped, fixed, carried, size, apart=True)
        asked, _ = batch(test, many, size)
    given = _batched_operands(graph, xs, mapped, many, len(xs), size)
    if apart:  # each example has a number of steps of its own, which is carried, too
        inner = nested(Graph(), program)
        own: Any = inner.scope
        zero = make(graph, broadcast_to, literal(graph, 0, np.int64), shape=(size,))
        steps = input_like(own, "steps", zero)
        (on,) = replaced(own, asked, inner.inputs)
        next_ = written(own, np.add, steps, written(own, lambda b: b.astype(np.int64), on))
        inputs = (*inner.inputs[:fixed], steps, *inner.inputs[fixed:])
        held = _held_where_done(own, on, inner, fixed, carried, size)
        program = closed(inputs, [next_, *held, *inner.outputs[carried:]], program.name)
        asked = closed(inputs, [written(own, np.any, on)], test.name)
        given.insert(fixed, zero)
    made = make(graph, while_, *given, **{**named, "test": asked, "body": program})
    states = [apart, *many[fixed:]]
    return _unswapped(graph, made, states, has[carried:], apart)


while_.zeros = lambda zero, **named: [False, *_loop_zeros(zero, **named)]  # the number of steps is none
while_.batch = _batch_while
for _op in (scan, counted, while_):
    _op.vjp, _op.push = partial(_pull, _op), partial(_push, _op)

"""`whiles`: a Python `while` leaves one guard each time round; where the rounds are the same, it is a loop in C.

What a frame of the user's code had in its variables when a condition was asked is known from one time to the next, so
a round is a program from variables to variables. Conditions inside of a round that went both ways are branches of it;
where one went one way only, the loop ends when it goes the other way, and the call leaves the path. A round is taken
from variables that the loop made, so that each is told apart from what is the same in all rounds, and is then checked
against all the others: made of their variables it must be, node for node, what was traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from symgrad.ir.node import SEVERAL, Graph, Node
from symgrad.ir.op import Elementwise, Result
from symgrad.ir.program import BY_NUMBER, Program, afresh, copied, replaced
from symgrad.ops.control import UNTOLD, cond, counted, guard, result, scan, while_
from symgrad.ops.declare.traits import chooses, growth
from symgrad.ops.elementwise.logical import logical_and, logical_not, logical_or
from symgrad.trace.control.branches import Moment
from symgrad.trace.control.rounds import breaks, known_by, names_alive, position, remembers, runs_out
from symgrad.transforms.build import input_like, literal, make, written
from symgrad.transforms.control.roll import joined
from symgrad.transforms.control.scans import within
from symgrad.transforms.derive.control import closed
from symgrad.transforms.tuned import MOST, MOST_EACH, MOST_ROUNDS, ROUNDS_PEELED

Name = tuple[str, Any, int]
Way = tuple[bool, ...]


def whiles(program: Program, change: Callable[[Program], Program] = lambda body: body) -> Program:
    """Make loops of conditions that were asked again and again in one place; change the programs of these."""
    tried: set[int] = set()
    if not program.moments:
        return program
    made, bodies = False, Bodies()
    while (found := next(loops_in(program, tried, bodies), None)) is not None:
        program, made = found, True
    program = replace(program, moments={}, forks=())
    return within(program, change) if made else program


class Bodies:
    """The programs of loops: of loops that are the same they are one, so that rounds with loops in them compare."""

    def __init__(self) -> None:
        self.graph, self.known = Graph(), dict[Any, Program]()

    def __call__(self, program: Program) -> Program:
        """Return the one that is the same."""
        program = within(program, self)
        like = tuple([(k, node.shape, node.dtype) for k, node in enumerate(program.inputs)])
        inputs = self.known.setdefault(like, Program(tuple([
            input_like(self.graph, f"x{k}", node) for k, node in enumerate(program.inputs)
        ]), ())).inputs
        return self.known.setdefault((like, *replaced(self.graph, program, inputs)), program)


def loops_in(program: Program, tried: set[int], bodies: Bodies) -> Iterator[Program]:
    """Yield the program with one of its loops."""
    order = {node: k for k, node in enumerate(program.guards)}
    groups: dict[Any, list[Node]] = {}
    for node in order:
        if node.param("number") not in program.moments:
            continue
        moment: Moment = program.moments[node.param("number")]
        key = moment.code, position(moment.code, moment.at), moment.frame, *moment.within
        rounds = [moment.variables["", steps.at, 0] for steps in moment.within if steps is not moment.counts]
        groups.setdefault((*key, *rounds), []).append(node)
        if rounds and not moment.counts and not moment.within[-1].ended:  # it may be the end of that
            groups.setdefault((*key, *rounds[:-1]), []).append(node)
    every = chain.from_iterable([_each_time(program, own) for own in groups.values()])
    for asked in sorted(every, key=lambda own: order[own[-1]] - order[own[0]]):
        goes_on, ends = asked[0].param("outcome"), asked[-1].param("outcome")
        outcomes = [node.param("outcome") for node in asked]
        if asked[0].param("number") in tried or type(ends) is not bool or outcomes != [goes_on] * (len(asked) - 1) + [
            not goes_on
        ]:
            continue
        tried.add(asked[0].param("number"))
        for since in range(min(ROUNDS_PEELED, len(asked) - 3) + 1):
            loop = _AskedLoop(program, asked[since:], since, bodies)
            if loop.is_one():
                yield loop.put()
                return


def _each_time(program: Program, asked: list[Node]) -> list[list[Node]]:
    """Cut what one condition was asked where a `while` ended that the same call of a code comes to again."""
    last = program.moments[asked[-1].param("number")]
    ends = asked[-1].param("outcome")
    cuts = [k + 1 for k, node in enumerate(asked) if node.param("outcome") is ends]
    if len(cuts) == 1 or type(ends) is not bool or last.counts or runs_out(last.code, last.at) is not None:
        return [asked]
    found = [asked[a:b] for a, b in pairwise([0, *cuts]) if b - a >= 3]
    places = {program.moments[own[-1].param("number")].at for own in found}
    return found if all(breaks(last.code, at, {at: ends}) for at in places) else [asked]


@dataclass
class _AskedLoop:
    """A condition that was asked again and again in one call of a code, all but the last time with one outcome.

    Attributes:
        asked: its guards.
        since: how many rounds are before them.
        names: the variables that change.
        body: where a round is made: of the variables, and of what is the same in all rounds.
        fixed: what stands there for nodes before the loop.
        rounds: the conditions in a round, the next variables and the next condition, by the ways the former go.
    """

    program: Program
    asked: Sequence[Node]
    since: int
    bodies: Bodies
    names: list[Name] = field(default_factory=list)
    body: Graph = field(default_factory=Graph)
    fixed: dict[Node, Node] = field(default_factory=dict)
    inputs: list[Node] = field(default_factory=list)
    rounds: dict[Way, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find what belongs to each round."""
        order = self.program.guards
        number = {node: k for k, node in enumerate(order)}
        self.inside = [order[number[a] + 1 : number[b]] for a, b in pairwise(self.asked)]
        moments = [self.program.moments[node.param("number")] for node in self.asked]
        first = moments[0].variables  # where a `while` asks before its first round this has no number yet
        self.variables: list[dict[Name, Any]] = [
            {name: value for name, value in moment.variables.items() if name[0] or name in first} for moment in moments
        ]
        self.numbers = Graph()
        self.moment = moments[0]
        self.ends = {runs_out(moment.code, moment.at) for moment in moments[1:] if not moment.counts} - {None}
        self.bounded = not all(("", at, 0) in self.variables[0] for at in self.ends)  # its guard would be in each round
        alive = [names_alive(moments[0].code, at) for at in {one.at for one in moments}]
        self.alive = frozenset({""}).union(*alive)
        self.begin = self.asked[0].number

    # -- whether it is a loop

    def is_one(self) -> bool:
        """Whether all rounds are the same."""
        if self.ends and not self.is_left():
            return False
        asked = [*self.asked, *[g for own in self.inside for g in own]]
        if remembers(self.moment) or asked_again(
            self.program, asked, self.program.moments[self.asked[-1].param("number")].clock,
        ):
            return False
        keys = [name for name in self.variables[0] if name[0] in self.alive]
        if any(keys != [name for name in own if name[0] in self.alive] for own in self.variables):
            return False  # some are not set yet, or a structure changes
        for name in keys:
            column = [own[name] for own in self.variables]
            if all(value is column[0] or known_by(value) == known_by(column[0]) for value in column):
                continue
            if not fit_together(column, "f" if ("", self.moment.at, 0) in keys else "bif"):
                return False
            if not any([own[other] for own in self.variables] == column for other in self.names):
                self.names.append(name)
        for name in self.names:
            dtype = next(now[name].dtype for now in self.variables if isinstance(now[name], Node))
            for now in self.variables:
                now[name] = now[name] if isinstance(now[name], Node) else literal(self.numbers, now[name], dtype)
        last = [self.variables[-1][name] for name in self.names]
        if not self.is_apart(last) or not all(type(g.param("outcome")) is bool for own in self.inside for g in own):
            return False
        for k, name in enumerate(self.names):
            called = f"s{k}_{name[0]}" if name[0].isidentifier() else f"s{k}"
            self.inputs.append(input_like(self.body, called, last[k]))
        ways: dict[Way, list[int]] = {}
        for k, own in enumerate(self.inside):
            ways.setdefault(tuple([g.param("outcome") for g in own]), []).append(k)
        for way, where in ways.items():
            clean = [k for k in where if self.is_apart([self.variables[k][name] for name in self.names])]
            if not clean:
                return False
            self.rounds[way] = self.taken(clean[-1])
        return (
            is_tree([*self.rounds.items()]) and self.is_what_was_traced(ways) and self.ends_in_variables()
            and stays_small(self.names, self.inputs, self.variables[0], self.rounds, last, self.after())
        )

    def after(self) -> list[Node]:
        """List what stays of the program's outputs without the guards of the rounds."""
        gone = {*self.asked, *chain.from_iterable(self.inside)}
        return [node for node in self.program.outputs if node not in gone]

    def is_left(self) -> bool:
        """Whether a `for` ends as its condition comes to something else, and not because it runs out just then."""
        last = self.program.moments[self.asked[-1].param("number")]
        later = [node for node in self.program.guards if node.number >= self.asked[-1].number]
        outcomes: dict[int, Any] = {}
        for node in later:
            moment = self.program.moments.get(node.param("number"))
            if moment is not None and moment.frame is last.frame:
                outcomes.setdefault(moment.at, node.param("outcome"))
        return breaks(last.code, last.at, outcomes)

    def is_apart(self, nodes: Sequence[Node]) -> bool:
        """Whether the loop made each of some variables, and no two of them are one."""
        return len({*nodes}) == len(nodes) and all(node.inputs and node.number > self.begin for node in nodes)

    def roots(self, k: int) -> list[Node]:
        """List what a round gives: its conditions, the next variables, the next condition."""
        after = self.variables[k + 1]
        asked = [node.inputs[0] for node in self.inside[k]]
        return [*asked, *[after[name] for name in self.names], self.asked[k + 1].inputs[0]]

    def taken(self, k: int) -> list[Node]:
        """Make a round of the variables, and of what stands before the loop."""
        known = {self.variables[k][name]: own for name, own in zip(self.names, self.inputs, strict=True)}
        roots = self.roots(k)

        def of(node: Node) -> Node:
            if node not in known:
                before = node.inputs or node.is_input
                known[node] = self.stand(node) if before else copied(self.body, node, ())
            return known[node]

        for node in Program((*known,), tuple(roots), start=self.begin + 1).nodes():
            if node not in known:
                known[node] = unmarked(self.body, node, tuple([of(i) for i in node.inputs]))
        return [of(node) for node in roots]

    def stand(self, node: Node) -> Node:
        """Return what stands in a round for a node before the loop."""
        if node not in self.fixed:
            self.fixed[node] = input_like(self.body, f"x{len(self.fixed)}", node)
        return self.fixed[node]

    def is_what_was_traced(self, ways: dict[Way, list[int]]) -> bool:
        """Whether the round, made of any round's variables, is that round."""
        graph = Graph()
        whole = self.program
        known = {i: graph.node(i.op, (), i.params, i.shape, i.dtype, i.line) for i in whole.inputs}
        roots = [node for k in range(len(self.inside)) for node in self.roots(k)]
        for node in Program((), (*roots, *self.fixed, *[own[n] for own in self.variables for n in self.names])).nodes():
            if node not in known:
                known[node] = unmarked(graph, node, tuple([known[i] for i in node.inputs]))
        for way, where in ways.items():
            made = Program((*self.inputs, *self.fixed.values()), tuple(self.rounds[way]))
            for k in where:
                values = [known[self.variables[k][name]] for name in self.names] + [known[node] for node in self.fixed]
                if replaced(graph, made, values) != [known[node] for node in self.roots(k)]:
                    return False
        return True

    def ends_in_variables(self) -> bool:
        """Whether what comes after the loop reads nothing of its rounds but the variables as they are then."""
        *rounds, last = [[own[name] for name in self.names] for own in self.variables[1:]]
        return stands_apart(
            self.program, [*self.asked, *chain.from_iterable(self.inside)], self.begin, last, chain(*rounds),
        )

    # -- the loop

    def put(self) -> Program:
        """Put a loop in the place of the rounds."""
        program, first = self.program, self.asked[0]
        there = [*self.inputs, *self.fixed.values()]
        idle = [*self.inputs, literal(self.body, value=False)]
        outputs, lost = round_of(self.body, there, idle, self.rounds)
        names = [self.variables[-1][name] for name in self.names]
        if self.moment.counts:
            return self.put_counted(outputs, names, lost)
        flags = [input_like(self.body, f"flag{k}", first) for k in range(1 + lost)]
        inputs = (*self.fixed.values(), *self.inputs, *flags)
        goes_on = flags[0] if first.param("outcome") else make(self.body, logical_not, flags[0])
        if lost:
            goes_on = make(self.body, logical_and, goes_on, make(self.body, logical_not, flags[1]))
        test, body = [self.bodies(closed(inputs, own, name)) for own, name in (([goes_on], "test"), (outputs, "step"))]

        def loop(graph: Graph, get: Callable[[Node], Node]) -> tuple[list[Node], Node | None]:
            zero = [literal(graph, value=False)] if lost else []
            begin = [*map(get, self.fixed), *self.begun(graph, get), get(first.inputs[0])]
            most = len(self.inside) if self.bounded else None
            hub = make(graph, while_, *begin, *zero, test=test, body=body, fixed=len(self.fixed), most=most, runs=())
            results = [make(graph, result, hub, number=1 + k) for k in range(len(outputs))]
            if not self.bounded and not lost:
                return results, None
            ended = results[len(names)]
            ended = make(graph, logical_not, ended) if first.param("outcome") else ended
            if lost:
                ended = make(graph, logical_and, ended, make(graph, logical_not, results[-1]))
            return results, ended

        needed = [*self.fixed, first.inputs[0], *[self.variables[0][name] for name in self.names]]
        return placed(program, [*self.asked, *chain.from_iterable(self.inside)], names, needed, loop)

    def begun(self, graph: Graph, get: Callable[[Node], Node]) -> list[Node]:
        """List what the variables are before the first round."""
        own = "", self.moment.at, 0
        nodes = [literal(graph, self.since) if name == own else self.variables[0][name] for name in self.names]
        return [copied(graph, node, ()) if node.is_constant else get(node) for node in nodes]

    def put_counted(self, outputs: list[Node], last: list[Node], lost: bool) -> Program:
        """Put a loop in the place of the rounds whose number is known before it."""
        first, count = self.asked[0], self.variables[0]["", self.moment.at, 1]
        del outputs[len(self.names)]
        flags = [input_like(self.body, "lost", first)][: int(lost)]
        if lost:
            outputs[-1] = make(self.body, logical_or, flags[0], outputs[-1])
        body = self.bodies(closed([*self.fixed.values(), *self.inputs, *flags], outputs, "step"))
        named = {"body": body, "fixed": len(self.fixed), "carried": len(outputs), "reverse": False}

        def loop(graph: Graph, get: Callable[[Node], Node]) -> tuple[list[Node], Node | None]:
            given = [*map(get, self.fixed), *self.begun(graph, get), *[literal(graph, value=False) for _ in flags]]
            steps: Any = self.moment.counts
            if steps.dim is not None and not self.since:
                hub = make(graph, scan, *given, length=steps.dim, **named)
            else:
                left = written(graph, lambda n: np.maximum(n - self.since, 0) if self.since else n, get(count))
                hub = make(graph, counted, left, *given, length=None, runs=(), **named)
            results = [make(graph, result, hub, number=k) for k in range(len(outputs))]
            return results, make(graph, logical_not, results[-1]) if lost else None

        needed = [*self.fixed, count, *[self.variables[0][name] for name in self.names]]
        return placed(self.program, [*self.asked, *chain.from_iterable(self.inside)], last, needed, loop)


NUMBERS: dict[str, set[type]] = {"b": {bool}, "i": {int}, "f": {int, float}}
"""Python's numbers that variables of a kind may be in some rounds."""


def fit_together(column: Sequence[Any], kinds: str) -> bool:
    """Whether a variable's values are nodes of one shape and dtype, and plain numbers that are of one of some kinds."""
    nodes = [value for value in column if isinstance(value, Node)]
    plain = {type(value) for value in column if not isinstance(value, Node)}
    if not nodes or any((node.shape, node.dtype) != (nodes[0].shape, nodes[0].dtype) for node in nodes):
        return False
    kind = nodes[0].dtype.kind
    return not plain or (not nodes[0].shape and kind in kinds and plain <= NUMBERS[kind])



def stays_small(
    names: Sequence[Name], inputs: Sequence[Node], begin: Mapping[Name, Any], rounds: Mapping[Way, list[Node]],
    last: Sequence[Node], after: Sequence[Node],
) -> bool:
    """Whether what rounds make of numbers that Python computes in integers of any size has 64 bits.

    These are numbers of rounds, and variables that begin with a plain integer. Each is known to be no larger than a
    multiple of the largest of these variables and a number. The same holds for what is made `after` the loop of what
    the variables are at `last`.
    """
    bounds: dict[Node, tuple[float, float]] = {}
    for name, node, end in zip(names, inputs, last, strict=True):
        if not name[0]:
            bounds[node] = bounds[end] = 0.0, MOST_ROUNDS
        elif node.dtype.kind == "i" and not node.shape and _is_plain(begin[name]):
            bounds[node] = bounds[end] = 1.0, 0.0
    carried = {node: k for k, node in enumerate(inputs) if bounds.get(node, (0.0,))[0]}
    for node in Program((*inputs, *last), (*chain(*rounds.values()), *after)).nodes() if bounds else ():
        if node.dtype.kind == "b":
            bounds[node] = 0.0, 1.0
        elif node.is_constant and node.dtype.kind in "iu" and not node.shape:
            bounds[node] = 0.0, abs(float(node.params[0].array))
        elif all(i.is_constant for i in node.inputs):
            continue  # made of no variable
        elif isinstance(node.op, Elementwise) and node.dtype.kind == "i" and bounds.keys() >= {*node.inputs}:
            sizes = [bounds[i] for i in node.inputs]
            bounds[node] = size = _largest_multiple(growth(node.op, node.params), sizes)
            if not size[0] * MOST + size[1] < 2.0**63:
                return False
    for way, gives in rounds.items():
        for k in carried.values():
            times, more = bounds.get(gives[len(way) + k], (0.0, 0.0))
            if times > 1 or more > (MOST_EACH if times else MOST):
                return False
    return True


def _is_plain(value: Any) -> bool:
    """Whether a number is none of the arguments': it is Python's, or made of those by loops before this one."""
    made = Program((), (value,)).nodes() if isinstance(value, Node) else []
    loops = tuple([node for node in made if isinstance(node.op, Result)])
    return not any(node.is_input for node in Program(loops, (value,)).nodes()) if made else True


def _largest_multiple(kind: str, sizes: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return how large an integer gets that is made of others, as multiples of the largest variable and a number."""
    times, more = zip(*sizes, strict=True)
    if kind == "last":
        return sizes[-1]
    if kind == "most":
        return max(times), max(more)
    if kind == "sum":
        return sum(times), sum(more)
    if kind.isdigit() and not times[0]:
        return 0.0, 2.0 ** min(int(kind) * np.log2(max(more[0], 1.0)), 64.0)
    if kind == "product" and sum(map(bool, times)) <= 1:
        return max([a * np.prod([d for j, (_, d) in enumerate(sizes) if j != k]) for k, (a, _) in enumerate(sizes)]), (
            float(np.prod(more))
        )
    return np.inf, np.inf


def unmarked(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Copy a node; a choice between a value and itself, as numbers have that a loop carries, is the value.

    Rows that a loop stacks, put together again, are what it stacks.
    """
    return inputs[1] if chooses(node.op) and inputs[1] is inputs[2] else joined(graph, node, inputs)


def stands_apart(
    program: Program, gone: Sequence[Node], begin: int, last: Sequence[Node], rounds: Iterable[Any],
) -> bool:
    """Whether what stays of a program without the guards `gone` reads, of a loop's variables, the last ones alone."""
    away = {*gone}
    outputs = tuple([node for node in program.outputs if node not in away])
    rest = replace(program, inputs=(*program.inputs, *last), outputs=outputs)
    made = {value for value in rounds if isinstance(value, Node) and value.number > begin} - {*last}
    return made.isdisjoint(rest.nodes())


def asked_again(program: Program, guards: Sequence[Node], last: int) -> bool:
    """Whether one of these conditions was asked again after some time, where its guard has to stay."""
    numbers = [node.param("number") for node in guards]
    return any(program.moments[k].again > last for k in numbers if k in program.moments)


def placed(
    program: Program, gone: Sequence[Node], last: Sequence[Node], needed: Sequence[Node],
    loop: Callable[[Graph, Callable[[Node], Node]], tuple[list[Node], Node | None]],
    told: dict[Node, Any] | None = None,
) -> Program:
    """Put a loop in the place of its rounds.

    Args:
        program: where it stands.
        gone: guards of the rounds, the loop's first one first; the last one, in a round if one is, gives its number.
        last: what the variables are in the end.
        needed: what the loop is made of.
        loop: makes it, given a table and what stands there for nodes: the last variables, and what must hold then.
        told: nodes of which it shall be said what stands there for them.
    """
    first, away = gone[0], {*gone}
    kept = [(k, node) for k, node in enumerate(program.outputs) if node not in away]
    graph = afresh(program)
    start = len(graph) + 1
    new = {i: graph.node(i.op, (), i.params, i.shape, i.dtype, i.line) for i in program.inputs}
    after = replace(program, inputs=(*program.inputs, *last), outputs=tuple([node for _, node in kept])).nodes()
    before = graph.line

    def get(node: Node) -> Node:
        return new.get(node, node)

    def looped() -> Node | None:
        graph.line, graph.left = first.line, 0
        results, holds = loop(graph, get)
        new.update(zip(last, results, strict=False))
        if holds is None:
            return None
        return make(graph, guard, holds, outcome=True, number=UNTOLD + gone[-1].param("number"))

    def copy(nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node not in new and node.number >= program.start:
                graph.line, graph.left = node.line, node.behind
                made = joined if told else unmarked  # loops that are put later tell their variables apart by marks
                new[node] = made(graph, node, tuple([get(i) for i in node.inputs]))

    there = Program((), tuple(needed)).nodes()
    more = Program((), tuple(told or ())).nodes()
    copy([node for node in sorted({*after, *there, *more}, key=BY_NUMBER) if node.number <= first.number])
    copy(there)
    ends = looped()
    copy(after)
    copy(more)
    asked = {node.param("number") for _, node in kept if node.op.decides}
    moments = {number: moment for number, moment in program.moments.items() if number in asked}
    variables = [v for moment in moments.values() for v in moment.variables.values() if isinstance(v, Node)]
    copy(Program((), tuple(variables)).nodes())  # those that nothing reads, too
    graph.line, graph.left = before, 0
    if told is not None:
        told |= {node: get(node) for node in told}
    moments = {
        number: moment._replace(variables={
            name: get(value) if isinstance(value, Node) else value for name, value in moment.variables.items()
        })
        for number, moment in moments.items()
    }
    outputs = [(get(node), program.labels[k] if program.labels else "") for k, node in kept]
    if ends is not None:
        later = [k for k, (_, node) in enumerate(kept) if node.op.decides and node.number > first.number]
        outputs.insert(later[0] if later else len(kept), (ends, f"guard{len(kept)}"))
    return replace(
        program, inputs=tuple([new[i] for i in program.inputs]), outputs=tuple([node for node, _ in outputs]),
        labels=tuple([label for _, label in outputs]) if program.labels else (),
        start=start if program.scope is not None else 0, moments=moments, forks=(),
    )


# -- a round that went several ways


def is_tree(rounds: Sequence[tuple[Way, list[Node]]], depth: int = 0) -> bool:
    """Whether rounds that went the same way so far asked the same condition next, or none."""
    if len({len(way) > depth for way, _ in rounds}) > 1:
        return False
    if len(rounds[0][0]) <= depth:
        return len(rounds) == 1
    sides = [[one for one in rounds if one[0][depth] is side] for side in (True, False)]
    same = len({made[depth] for _, made in rounds}) == 1
    return same and all(is_tree(side, depth + 1) for side in sides if side)


def round_of(
    body: Graph, there: Sequence[Node], idle: Sequence[Node], rounds: Mapping[Way, list[Node]],
) -> tuple[list[Node], bool]:
    """Make one round of those for each way: first the conditions of a way, then what it gives.

    Args:
        body: where they are made.
        there: the inputs.
        idle: what stands for what is given where a round goes a way that none went.
        rounds: the conditions and what is given, by the ways the conditions go.

    Returns:
        What is given, and whether there are other ways; then the last of it says that a round went one of them.
    """
    lost = any(
        (*way[:k], not way[k]) not in {other[: k + 1] for other in rounds} for way in rounds for k in range(len(way))
    )
    made = _branched(body, there, idle, [*rounds.items()], 0, [])
    return (made if lost else made[:-1]), lost


def _branched(
    body: Graph, there: Sequence[Node], idle: Sequence[Node], rounds: Sequence[tuple[Way, list[Node]]], depth: int,
    done: list[Node],
) -> list[Node]:
    """Make what rounds give that went the same way so far; what `done` needs is computed already."""
    if not rounds:
        return [*idle, literal(body, value=True)]
    way, made = rounds[0]
    if len(way) == depth:
        return [*made[depth:], literal(body, value=False)]
    test = made[depth]
    sides = [
        _branched(body, there, idle, [one for one in rounds if one[0][depth] is side], depth + 1, [*done, test])
        for side in (True, False)
    ]
    cone = Program(tuple(there), (*done, test)).nodes()
    cuts = {node for node in (*there, *cone) if node.inputs or node.is_input}
    read: dict[Node, None] = {}
    for side in sides:
        inner = Program(tuple(cuts), tuple(side))
        read |= dict.fromkeys([o for o in side if o in cuts])
        reads = [(node, i) for node in inner.nodes() if node not in cuts for i in node.inputs if i in cuts]
        read |= dict.fromkeys([node if i.dtype is SEVERAL else i for node, i in reads])  # of several results, the one
    then, other = [closed([*read], side, "side") for side in sides]
    hub = make(body, cond, test, *read, then=then, other=other)
    return [make(body, result, hub, number=k) for k in range(len(sides[0]))]

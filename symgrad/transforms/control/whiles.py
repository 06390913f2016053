"""`whiles`: a Python `while` leaves one guard each time round; where the rounds are the same, it is a loop in C.

What a frame of the user's code had in its variables when a condition was asked is known from one time to the next, so
a round is a program from variables to variables. Conditions inside of a round that went both ways are branches of it;
where one went one way only, the loop ends when it goes the other way, and the call leaves the path.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program
from symgrad.ops.control import counted, result, scan, while_
from symgrad.ops.elementwise.logical import logical_and, logical_not, logical_or
from symgrad.trace.control.branches import Moment
from symgrad.trace.control.forks import Round, Way
from symgrad.trace.control.rounds import (
    begins_again,
    breaks,
    known_by,
    loop_around,
    names_alive,
    position,
    range_over,
    remembers,
    runs_out,
    turns,
)
from symgrad.transforms.build import input_like, literal, make, written
from symgrad.transforms.control.rounds import (
    Bodies,
    Name,
    Rounds,
    asked_again,
    fit_together,
    placed,
    round_of,
    same_value,
)
from symgrad.transforms.control.scans import within
from symgrad.transforms.derive.control import closed
from symgrad.transforms.tuned import ROUNDS_HELD, ROUNDS_PEELED

NEXT_CONDITION = "", "asked", 0
"""A name for the next condition, which a round gives as well."""


def whiles(program: Program, change: Callable[[Program], Program] = lambda body: body) -> Program:
    """Make loops of conditions that were asked again and again in one place; change the programs of these."""
    tried: set[int] = set()
    if not program.moments:
        return program
    made, bodies = False, Bodies()
    while (found := with_loops(program, tried, bodies)) is not None:
        program, made = found, True
    first: dict[Any, int] = {}  # loops ask for themselves: of guards that look at one condition the first is left
    for k, node in enumerate(program.outputs):
        first.setdefault((*node.inputs, node.param("outcome")) if node.op.decides else k, k)
    outputs = tuple([program.outputs[k] for k in first.values()])
    labels = tuple([program.labels[k] for k in first.values()]) if program.labels else ()
    program = replace(program, outputs=outputs, labels=labels, moments={}, forks=())
    return within(program, change) if made else program


def with_loops(program: Program, tried: set[int], bodies: Bodies) -> Program | None:
    """Return the program with some of its loops, the shortest first; None where there are no more.

    Rounds of a `for` may each have a `while`. All these loops are put in their places at once: to make the program anew
    for each would take the square of its length. What is no loop as long as these are not there is tried again.
    """
    guards = program.guards
    order = {node: k for k, node in enumerate(guards)}
    groups: dict[Any, list[Node]] = {}
    calls: dict[Any, list[Node]] = {}
    for node in order:
        if node.param("number") not in program.moments:
            continue
        moment: Moment = program.moments[node.param("number")]
        calls.setdefault(moment.frame, []).append(node)
        key = moment.code, position(moment.code, moment.at), moment.frame, *moment.within
        rounds = [moment.variables["", steps.at, 0] for steps in moment.within if steps is not moment.counts]
        groups.setdefault((*key, *rounds), []).append(node)
        if rounds and not moment.counts and not moment.within[-1].ended:  # it may be the end of that
            groups.setdefault((*key, *rounds[:-1]), []).append(node)
    every = chain.from_iterable([_each_time(program, own) for own in groups.values()])
    found: list[_AskedLoop] = []
    taken = np.zeros(len(order), bool)
    for asked in sorted(every, key=lambda own: (_goes_either_way(program, own[0]), order[own[-1]] - order[own[0]])):
        goes_on, ends = asked[0].param("outcome"), asked[-1].param("outcome")
        outcomes = [node.param("outcome") for node in asked]
        first, end = order[asked[0]], order[asked[-1]] + 1
        if asked[0].param("number") in tried or type(ends) is not bool or outcomes != [goes_on] * (len(asked) - 1) + [
            not goes_on
        ] or taken[first:end].any():
            continue
        peeled = range(min(found[0].since if found else ROUNDS_PEELED, len(asked) - 3) + 1)
        inside = [guards[order[a] + 1 : order[b]] for a, b in pairwise(asked)]
        own = calls[program.moments[asked[-1].param("number")].frame]
        loops = (_AskedLoop(program, asked[since:], since, inside[since:], own, bodies) for since in peeled)
        loop = next((one for one in loops if one.is_one()), None)
        if loop is not None:
            found.append(loop)
            taken[first:end] = True
        if loop is not None or not found:
            tried.add(asked[0].param("number"))
    found.sort(key=lambda one: order[one.asked[0]])
    return placed(program, found) if found else None


def _goes_either_way(program: Program, asked: Node) -> bool:
    """Whether a condition stands in a `while` that goes on whatever it comes to."""
    moment: Moment = program.moments[asked.param("number")]
    inside = loop_around(moment.code, moment.at)[0] >= 0 and runs_out(moment.code, moment.at) is None
    return inside and position(moment.code, moment.at) not in turns(moment.code)


def _each_time(program: Program, asked: list[Node]) -> list[list[Node]]:
    """Cut what one condition was asked where a loop ended that the same call of a code comes to again."""
    moments = [program.moments[node.param("number")] for node in asked]
    last, ends = moments[-1], asked[-1].param("outcome")
    if type(ends) is not bool or last.counts:
        return [asked]
    if runs_out(last.code, last.at) is None:
        cuts = [k + 1 for k, node in enumerate(asked) if node.param("outcome") is ends]
    elif (cuts := begins_again(moments)):
        cuts.append(len(asked))
    if len(cuts) <= 1:
        return [asked]
    found = [asked[a:b] for a, b in pairwise([0, *cuts]) if b - a >= 3]
    places = {program.moments[own[-1].param("number")].at for own in found}
    return found if all(breaks(last.code, at, {at: ends}) for at in places) else [asked]


class _AskedLoop(Rounds):
    """A condition that was asked again and again in one call of a code, all but the last time with one outcome.

    Attributes:
        asked: its guards.
        since: how many rounds are before them.
        inside: of each round the guards in it.
        of_call: all guards of that call.
        variables: what they were each time.
        count: how many rounds there are, where that is known before; else the first condition.
        most: how many there may be where a `for` ends that has more items: of more nobody knows how it ends.
    """

    def __init__(
        self, program: Program, asked: Sequence[Node], since: int, inside: Sequence[Sequence[Node]],
        of_call: Sequence[Node], bodies: Bodies,
    ) -> None:
        """Find what belongs to each round."""
        super().__init__(program, asked[0].number)
        self.asked, self.since, self.inside, self.of_call, self.bodies = asked, since, inside, of_call, bodies
        self.gone = [*asked, *chain.from_iterable(self.inside)]
        moments = [program.moments[node.param("number")] for node in asked]
        first = moments[0].variables  # where a `while` asks before its first round this has no number yet
        self.variables: list[dict[Name, Any]] = [
            {name: value for name, value in moment.variables.items() if name[0] or name in first} for moment in moments
        ]
        self.moment, self.end = moments[0], moments[-1]
        self.count: Node = first["", self.moment.at, 1] if self.moment.counts else asked[0].inputs[0]
        self.ends = {runs_out(moment.code, moment.at) for moment in moments[1:] if not moment.counts} - {None}
        self.bounded = not all(("", at, 0) in first for at in self.ends)  # its guard would be in each round
        over = range_over(self.end) if self.bounded else None
        self.most = len(inside) if over is None else max(len(inside), min(len(over), ROUNDS_HELD) - since - 1)
        alive = [names_alive(self.moment.code, at) for at in {one.at for one in moments}]
        self.alive = frozenset({""}).union(*alive)

    # -- whether it is a loop

    def is_one(self) -> bool:
        """Whether all rounds are the same."""
        if self.ends and not self.is_left():
            return False
        if remembers(self.moment) or asked_again(self.moment, self.gone, self.end.clock):
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
        self.read = self.names
        self.begun, self.last = [[own[name] for name in self.names] for own in (self.variables[0], self.variables[-1])]
        if (number := ("", self.moment.at, 0)) in self.names:
            self.begun[self.names.index(number)] = self.since
        if not self.is_apart(self.last) or any(type(node.param("outcome")) is not bool for node in self.gone):
            return False
        if self.knows():
            return False
        self.take_variables(self.last)
        ways: dict[Way, list[Round]] = {}
        for k, own in enumerate(self.inside):
            after = {**self.variables[k + 1], NEXT_CONDITION: self.asked[k + 1].inputs[0]}
            one = Round(self.variables[k], [node.inputs[0] for node in own], after, number=k)
            ways.setdefault(tuple([node.param("outcome") for node in own]), []).insert(0, one)
        for way, rounds in ways.items():
            made = self.round_like(rounds)
            if made is None:
                return False
            self.made[way] = made
        return self.are_a_loop([own[name] for own in self.variables[1:-1] for name in self.names])

    def knows(self) -> bool:
        """Whether a round goes by what was asked before it, of what is another value in other rounds."""
        clocks = [self.program.moments[node.param("number")].clock for node in self.asked]
        numbers = [node.param("number") for node in self.asked]
        again = self.moment.again
        before: set[int] = set()
        for clock, number in again[bisect_left(again, (clocks[0], 0)) : bisect_left(again, (clocks[-1], 0))]:
            if numbers[0] <= number < numbers[bisect_left(clocks, clock) - 1]:
                return True
            before |= {number} if number < numbers[0] else set()
        if not before:
            return False
        there = {node.param("number"): node for node in self.program.guards}
        if not there.keys() >= before:
            return True
        made = Program((), tuple([there[number] for number in before])).nodes()
        return any(same_value(value, node) for value in self.begun for node in made)

    def roots(self, one: Round) -> list[Node]:
        """List what a round asks and gives, and then the next condition."""
        return [*super().roots(one), one.after[NEXT_CONDITION]]

    def is_left(self) -> bool:
        """Whether a `for` ends as its condition comes to something else, and not because it runs out just then."""
        last = self.end
        outcomes: dict[int, Any] = {}
        for node in self.of_call:
            if node.number >= self.asked[-1].number:
                outcomes.setdefault(self.program.moments[node.param("number")].at, node.param("outcome"))
        return breaks(last.code, last.at, outcomes)

    # -- the loop

    def needed(self) -> list[Node]:
        """List what the loop is made of."""
        return [*super().needed(), self.count]

    def loop(self, graph: Graph, get: Callable[[Node], Node]) -> tuple[list[Node], Node | None]:
        """Make a loop that asks before each round, or of a number of rounds that is known before it."""
        idle = [*self.inputs, literal(self.body, value=False)]
        outputs, lost = round_of(self.body, [*self.inputs, *self.fixed.values()], idle, self.made)
        given = [*map(get, self.fixed), *self.state(graph, get)]
        inputs, zero = [*self.fixed.values(), *self.inputs], [literal(graph, value=False)][: int(lost)]
        if self.moment.counts:
            flags = [input_like(self.body, "lost", self.asked[0])][: int(lost)]
            del outputs[len(self.names)]
            if lost:
                outputs[-1] = make(self.body, logical_or, flags[0], outputs[-1])
            body = self.bodies(closed([*inputs, *flags], outputs, "step"))
            named = {"body": body, "fixed": len(self.fixed), "carried": len(outputs), "reverse": False}
            steps: Any = self.moment.counts
            if steps.dim is not None and not self.since:
                hub = make(graph, scan, *given, *zero, length=steps.dim, **named)
            else:
                left = written(graph, lambda n: np.maximum(n - self.since, 0) if self.since else n, get(self.count))
                hub = make(graph, counted, left, *given, *zero, length=None, runs=(), **named)
            results = [make(graph, result, hub, number=k) for k in range(len(outputs))]
            return results, make(graph, logical_not, results[-1]) if lost else None
        goes_on = self.asked[0].param("outcome")
        flags = [input_like(self.body, f"flag{k}", self.asked[0]) for k in range(1 + lost)]
        test = self.bodies(closed([*inputs, *flags], [_came_to(goes_on, self.body, *flags)], "test"))
        body = self.bodies(closed([*inputs, *flags], outputs, "step"))
        most = self.most if self.bounded else None
        given += [get(self.count), *zero]
        hub = make(graph, while_, *given, test=test, body=body, fixed=len(self.fixed), most=most, runs=())
        results = [make(graph, result, hub, number=1 + k) for k in range(len(outputs))]
        sure = not self.bounded and not lost
        return results, None if sure else _came_to(not goes_on, graph, *results[len(self.names) :])


def _came_to(outcome: bool, graph: Graph, asked: Node, *lost: Node) -> Node:
    """Make whether a condition came to something, and no round went a way that none went."""
    found = asked if outcome else make(graph, logical_not, asked)
    return make(graph, logical_and, found, make(graph, logical_not, lost[0])) if lost else found

"""`forks`: conditions in a Python `for` that go both ways are branches in a loop, not a path for each round.

For each way that rounds go, all rounds were traced (`symgrad.trace.control.forks`). Side by side, node by node, they
say what a round is made of: of a variable where each has that variable, of what is the same in all, of what is one for
each, and of an operation on such. So nothing is concluded from one round for another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np

from symgrad.ir.index.regions import whole
from symgrad.ir.index.shapes import is_static
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program
from symgrad.ops.arrays.views import slice_
from symgrad.ops.control import result, scan
from symgrad.ops.elementwise.logical import logical_and, logical_not, logical_or
from symgrad.trace.control.forks import Fork, Round, Way, names_of
from symgrad.trace.control.rounds import known_by, names_alive, names_behind
from symgrad.transforms.build import input_like, literal, make
from symgrad.transforms.control.roll import rows_of, slides
from symgrad.transforms.control.rounds import Bodies, Name, Rounds, asked_again, fit_together, placed, round_of
from symgrad.transforms.control.scans import within
from symgrad.transforms.control.whiles import with_loops
from symgrad.transforms.derive.control import closed
from symgrad.transforms.tuned import KINDS_OF_ROUNDS, ROUNDS_AFTER


def forks(program: Program, change: Callable[[Program], Program] = lambda body: body) -> Program:
    """Make loops of those whose rounds were traced for each way; change the programs of them."""
    loops: list[_ForkedRounds] = []
    end, bodies = 0, Bodies()
    for each in program.forks:  # what is around a loop comes before it
        fork = _with_loops_in_rounds(each, bodies) if each.key and each.heads[0].guards >= end else each
        if fork is not None and fork.heads[0].guards >= end and (loop := _ForkedRounds(program, fork)).is_one():
            loops.append(loop)
            end = fork.heads[loop.steps].guards
    made = placed(program, loops) if loops else program
    if not loops or not loops[0].fork.agree(program, made):
        return replace(program, forks=())
    return within(made, change)


def _with_loops_in_rounds(fork: Fork, bodies: Bodies) -> Fork | None:
    """Make a loop of each `while` in the rounds; None where one is none.

    What such a loop made as it was told to go round is read in no other round, where it was not asked again.
    """
    rounds: list[dict[Way, Round]] = []
    moment, left = fork.heads[0].moment, fork.heads[-1].left
    alive = names_alive(moment.code, moment.at).union({""}, names_behind(moment.code, left) if fork.left else ())
    for each in fork.rounds:
        rounds.append({})
        for way, own in each.items():
            one = own._replace(after={name: value for name, value in own.after.items() if name[0] in alive})
            made = _with_loops_in(one, bodies)
            if made is None:
                return None
            before = tuple([node for node in made.before.values() if isinstance(node, Node)])
            read = Program(before, tuple(_given(made)), start=fork.heads[0].nodes + 1).nodes()
            if not {*one.told}.isdisjoint({*read} - {*before}):
                return None
            rounds[-1][way] = made
    return fork._replace(rounds=rounds)


def _given(one: Round) -> list[Node]:
    """List what a round asks and gives."""
    every = (*one.asked, *one.after.values(), *chain(*one.grown.values()))
    return [*dict.fromkeys([node for node in every if isinstance(node, Node)])]


def _with_loops_in(one: Round, bodies: Bodies) -> Round | None:
    """Make a loop of each `while` in a round; None where one is none."""
    nodes = _given(one)
    graph = Graph.after(max([node.number for node in (*one.turns, *nodes)], default=0))
    moments = {node.param("number"): at for node, at in one.turns.items()}
    program = Program((), (*one.turns, *nodes), scope=graph, start=one.start, moments=moments)
    tried: set[int] = set()
    while program.guards and (found := with_loops(program, tried, bodies)) is not None:
        program = found
    if program.guards:
        return None
    new: dict[Any, Any] = dict(zip(nodes, program.outputs, strict=True))
    return one._replace(
        asked=[new[node] for node in one.asked],
        after={name: new.get(value, value) if isinstance(value, Node) else value for name, value in one.after.items()},
        grown={name: [new.get(node, node) for node in each] for name, each in one.grown.items()},
    )


class _ForkedRounds(Rounds):
    """Rounds that are traced for each way.

    Attributes:
        lists, stacked: what is appended to, and such nodes as each round appends; `last` ends with what all appended.
        kinds: rounds that are the same for each way, which plain values may decide as well: their numbers. What is
            asked first says of which kind a round is.
        leaves: the ways by which the loop is left.
        steps: the number of rounds of the call; the loop may have more, and leave them.
        marks, moving: what the loop makes of its variables, and what is known to depend on it, or not.
    """

    def __init__(self, program: Program, fork: Fork) -> None:
        super().__init__(program, fork.heads[0].nodes)
        self.fork = fork
        self.like: dict[Name, Node] = {}
        self.kinds: list[list[int]] = []
        self.leaves: set[Way] = set()
        self.steps = 0
        self.marks: set[Node] = set()
        self.moving: dict[Node, bool] = {}
        self.lists: list[str] = []
        self.stacked: list[Any] = []

    def is_one(self) -> bool:
        """Whether the rounds are a loop, of which is then known what `put` needs."""
        fork = self.fork
        own = [head.moment.variables for head in fork.heads]
        if not self.named(own):
            return False
        first = len(own) - 1 if fork.left else max(2, len(own) - ROUNDS_AFTER)
        ends = [k for k in range(first, len(own)) if self.is_apart([own[k][name] for name in self.names])]
        if not ends:
            return False
        steps = self.steps = ends[-1]
        self.length = len(fork.rounds) if fork.left else steps
        self.gone = [*chain.from_iterable(fork.guards[:steps])]
        if not self.gone or asked_again(fork.heads[steps].moment, self.gone, fork.heads[steps].clock):
            return False
        self.last = [own[steps][name] for name in self.names]
        self.last += chain.from_iterable([self.appended(head.grown) for head in fork.heads[1 : steps + 1]])
        if not self.are_told_apart():
            return False
        self.begun = [
            own[0][name] if name in self.read else literal(self.numbers, np.zeros(node.shape, node.dtype))
            for name, node in self.like.items()
        ]
        self.take_variables(self.like.values())
        if not self.are_of_few_kinds():
            return False
        rounds = [each[name] for each in own[1:steps] for name in self.names]
        if fork.left:
            rounds += fork.around.values()
            known = all(slides(row) or all(node.is_constant for node in row) for row in self.rows)
            if not known or (self.fork.open and not self.rows):
                return False  # `whiles` needs no more rounds than there are; and others may not be computed
        return self.are_a_loop(rounds)

    def named(self, own: Sequence[dict[Name, Any]]) -> bool:
        """Find the variables that change; whether they are all that does."""
        rounds = [one for each in self.fork.rounds for one in each.values()]
        grown = [*[head.grown for head in self.fork.heads[1:]], *[one.grown for one in rounds]]
        first = grown[0]
        self.lists = [
            name for name in first if first[name] and all(
                name in each and [_kind(node) for node in each[name]] == [_kind(node) for node in first[name]]
                for each in grown
            ) and all(node is not None and is_static(node.shape) for node in first[name]) and not self.fork.left
        ]
        self.stacked = [node for name in self.lists for node in first[name]]
        begins = [own[0], *[one.before for one in rounds if not one.number]]
        every = [*own[1:], *[one.before for one in rounds if one.number], *[one.after for one in rounds]]
        alive, inside = names_of(self.fork.heads, self.lists)
        keys = [name for name in own[-1] if name[0] in alive]
        read = {name for name in keys if name[0] in inside and name in own[0]}  # others a round sets
        if any({*keys} != {name for name in each if name[0] in alive} for each in every) or any(
            read != {name for name in each if name[0] in inside} for each in begins
        ):
            return False  # a structure changes
        for name in keys:
            values = [each[name] for each in (*(begins if name in read else ()), *every)]
            nodes = [value for value in values if isinstance(value, Node)]
            if not nodes:
                told = [known_by(each[name]) for each in own[1:]]
                if self.fork.left and len({*told, *[known_by(one.after[name]) for one in rounds]}) > 1:
                    return False
                if not self.fork.left and any(known_by(one.after[name]) != told[one.number] for one in rounds):
                    return False
            elif any(value is not nodes[0] for value in values):
                if not fit_together(values, "bif") or not (name in read or is_static(nodes[0].shape)):
                    return False
                before: Any = own[0].get(name)
                if len(nodes) == len(values) and all(each.get(name) is before for each in own) and all(
                    one.after[name] is one.before.get(name) for one in rounds
                ):
                    if before.is_input:
                        return False  # all that is around was traced anew
                    self.still[name] = before
                    continue
                self.names.append(name)
                self.like[name] = nodes[0]
        self.read = read.intersection(self.names)
        values = [each[name] for each in every for name in self.names]
        self.marks = {
            value for value in values if isinstance(value, Node) and value.number > self.begin
            and not (value.op.view and all(i.number <= self.begin for i in value.inputs))
        }
        return True

    def roots(self, one: Round) -> list[Node]:
        """List what a round asks, gives and appends."""
        return [*super().roots(one), *self.appended(one.grown)]

    def are_told_apart(self) -> bool:
        """Whether no two of what comes behind the loop are one node, but for variables that each round appends."""
        last, rows = self.last[: len(self.names)], self.last[len(self.names) :]
        if len({*rows}) < len(rows) or any(node.number <= self.begin for node in rows):
            return False
        rounds = [one for each in self.fork.rounds for one in each.values()]
        ends = {node: j for j, node in enumerate(rows[len(rows) - len(self.stacked) :])}
        return all(
            all(one.after[name] is self.appended(one.grown)[ends[node]] for one in rounds) if node in ends
            else node not in rows for name, node in zip(self.names, last, strict=True)
        )

    def appended(self, grown: Mapping[str, list[Node | None]]) -> list[Node]:
        """List what a round appends."""
        return [node for name in self.lists for node in grown[name] if node is not None]

    # -- rounds side by side

    def are_of_few_kinds(self) -> bool:
        """Whether rounds are the same for each way, or of a few kinds by what plain values decide."""
        every = self.fork.rounds[: self.length]
        for kinds in ([[*range(self.length)]], None):
            self.kinds, self.made, self.leaves = kinds or self.sorted_by_kind(), {}, set()
            if not 0 < len(self.kinds) <= KINDS_OF_ROUNDS:
                return False
            before = {**self.fixed}, {**self.rows}
            says = [
                self.stand(self.rows, tuple([literal(self.numbers, value=k in own) for k in range(self.length)]),
                           self.gone[0], "r") for own in self.kinds[:-1]
            ]
            if all(self.is_kind(number, [every[k] for k in own], says) for number, own in enumerate(self.kinds)):
                return True
            self.fixed, self.rows = before
        return False

    def is_kind(self, number: int, rounds: Sequence[dict[Way, Round]], says: Sequence[Node]) -> bool:
        """Whether rounds of one kind are the same for each way."""
        asked = says[: number + 1]
        way_there = (*[False] * number, True)[: len(asked)]
        own = {self.fork.own[k] for k in self.kinds[number] if k < len(self.fork.own)}
        for way in rounds[0]:
            every = [each[way] for each in rounds if way in each]
            made = None
            if len(every) == len(rounds) and len({one.leaves for one in every}) == 1:
                made = self.round_like(every)
            if made is not None:
                all_ways = (*way_there, *way)
                self.made[all_ways] = [*asked, *made]
                self.leaves |= {all_ways} if every[0].leaves else set()
            elif way in own:
                return False
        return all((*way_there, *way) in self.made for way in own)

    def sorted_by_kind(self) -> list[list[int]]:
        """Sort rounds by what plain values decide; those of two are compared."""
        kinds: list[list[int]] = []
        every, before = self.fork.rounds[: self.length], ({**self.fixed}, {**self.rows})
        for k, each in enumerate(every):
            for own in kinds:
                other = every[own[-1]]
                if each.keys() == other.keys() and all(
                    one.leaves is other[way].leaves and self.round_like([other[way], one]) for way, one in each.items()
                ):
                    own.append(k)
                    break
            else:
                kinds.append([k])
            self.fixed, self.rows = {**before[0]}, {**before[1]}
            if len(kinds) > KINDS_OF_ROUNDS:
                break
        return kinds

    def moves(self, node: Node) -> bool:
        """Whether a node depends on what the loop makes."""
        stack, known = [node], self.moving
        while stack:
            each = stack[-1]
            if each.number <= self.begin or each in self.marks:
                known[each] = each in self.marks
            missing = [] if each in known else [i for i in each.inputs if i not in known]
            stack += missing
            if not missing:
                stack.pop()
                if each not in known:
                    known[each] = any(known[i] for i in each.inputs)
        return known[node]

    # -- the loop

    def loop(self, graph: Graph, get: Callable[[Node], Node]) -> tuple[list[Node], Node | None]:
        """Make a scan."""
        there = [*self.inputs, *self.fixed.values(), *self.rows.values()]
        idle = [*self.inputs, *[literal(self.body, np.zeros(node.shape, node.dtype)) for node in self.stacked]]
        flags, ways, exits = [], self.made, self.leaves
        if self.fork.left:  # who has left a loop stays outside
            flags.append(input_like(self.body, "left", self.gone[0]))
            there.append(flags[0])
            idle.append(literal(self.body, value=True))
            said = {way: literal(self.body, value=way in exits) for way in ways}
            ways = {(False, *way): [flags[0], *own, said[way]] for way, own in ways.items()}
            ways[True,] = [flags[0], *idle]
        outputs, lost = round_of(self.body, there, idle, ways)
        if lost:
            flags.append(input_like(self.body, "lost", self.gone[0]))
            outputs.insert(len(self.names) + self.fork.left, make(self.body, logical_or, flags[-1], outputs.pop()))
        body = closed([*self.fixed.values(), *self.inputs, *flags, *self.rows.values()], outputs, "step")
        state = [*self.state(graph, get), *[literal(graph, value=False)] * len(flags)]
        given = [*map(get, self.fixed), *state, *[rows_of(graph, row, get) for row in self.rows]]
        hub = make(
            graph, scan, *given, body=body, length=self.length, fixed=len(self.fixed), carried=len(state),
            reverse=False,
        )
        results = [make(graph, result, hub, number=k) for k in range(len(outputs))]
        rows = [
            make(graph, slice_, every, index=((k,), *whole(every.shape[1:])))
            for k in range(self.steps) for every in results[len(state) :]
        ]
        last = results[: len(self.names)]
        holds = [*results[len(last) : len(state)][: int(self.fork.open)]]
        holds += [make(graph, logical_not, results[len(state) - 1])] if lost else []
        return [*last, *rows], reduce(lambda a, b: make(graph, logical_and, a, b), holds) if holds else None


def _kind(node: Node | None) -> Any:
    """Return shape and dtype of what a list is appended."""
    return None if node is None else (node.shape, node.dtype)

"""`forks`: a condition in a Python `for` that goes both ways is a branch in a loop, not a path for each round.

For each way that rounds go, all rounds were traced (`symgrad.trace.forks`). Side by side, node by node, they say what a
round is made of: of a variable where each has that variable, of what is the same in all, of what is one for each, and
of an operation on such. So nothing is concluded from one round for another.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Leaf
from symgrad.ir.program import Program, copied
from symgrad.ops.control.results import result
from symgrad.ops.control.scan import scan
from symgrad.ops.elementwise.logical import logical_not, logical_or
from symgrad.trace.rounds import known_by, names_alive
from symgrad.transforms.build import input_like, literal, make
from symgrad.transforms.derive.control import closed
from symgrad.transforms.roll import rows_of, slides
from symgrad.transforms.scans import within
from symgrad.transforms.tuned import ROUNDS_AFTER
from symgrad.transforms.whiles import (
    asked_again,
    fit_together,
    is_tree,
    placed,
    round_of,
    stands_apart,
    stays_small,
    unmarked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.trace.forks import Fork, Round

    Name = tuple[str, Any, int]


def forks(program: Program, change: Callable[[Program], Program] = lambda body: body) -> Program:
    """Make a loop of a condition that went both ways; change the programs of it."""
    if program.fork is None:
        return program
    made = _Loop(program, program.fork).put()
    return replace(program, fork=None) if made is None else within(made, change)


class _Loop:
    """Rounds that are traced for each way, on the way to one.

    Attributes:
        names: the variables that change.
        body: where the round is made; `inputs` are its variables, `fixed` stand for nodes before the loop, `rows` for
            what is one for each round.
    """

    def __init__(self, program: Program, fork: Fork) -> None:
        self.program, self.fork = program, fork
        self.begin = fork.guards[0].number
        self.body, self.numbers = Graph(), Graph()
        self.names: list[Name] = []
        self.like: dict[Name, Node] = {}
        self.inputs: list[Node] = []
        self.fixed: dict[Node, Node] = {}
        self.rows: dict[tuple[Node, ...], Node] = {}
        self.steps = 0
        self.marks: set[Node] = set()

    def put(self) -> Program | None:
        """Return the program with the loop; None where the rounds are no loop."""
        fork = self.fork
        own = [moment.variables for moment in fork.moments]
        if not self.named(own):
            return None
        ends = [k for k in range(max(2, len(own) - ROUNDS_AFTER), len(own)) if self.is_apart(own[k])]
        if not ends or not all(any(self.is_apart(each.before) for each in one) for one in fork.rounds.values()):
            return None
        steps = self.steps = ends[-1]
        gone = [*fork.guards[:steps], *chain.from_iterable(fork.inside[:steps])]
        if asked_again(self.program, gone, fork.guards[steps].param("number")):
            return None
        last = [own[steps][name] for name in self.names]
        for k, name in enumerate(self.names):
            self.inputs.append(input_like(self.body, f"s{k}_{name[0]}", self.like[name]))
        made: dict[Any, list[Node]] = {}
        for way, rounds in fork.rounds.items():
            roots = map(self.roots, rounds[:steps])
            found = [self.united(rounds[:steps], list(column)) for column in zip(*roots, strict=True)]
            if None in found:
                return None
            made[way] = found  # type: ignore[assignment]  # none is None
        after = [node for node in self.program.outputs if node not in {*gone}]
        if not is_tree([*made.items()]) or not stays_small(self.names, self.inputs, own[0], made, last, after):
            return None
        rounds = [each[name] for each in own[1:steps] for name in self.names]
        return self.looped(made, own[0], last, gone) if stands_apart(self.program, gone, last, rounds) else None

    def named(self, own: Sequence[dict[Name, Any]]) -> bool:
        """Find the variables that change; whether they are all that does."""
        rounds = [each for one in self.fork.rounds.values() for each in one]
        every = [*own, *[each.before for each in rounds], *[each.after for each in rounds]]
        code, places = self.fork.moments[0].code, {moment.at for moment in self.fork.moments}
        alive = frozenset[str]().union(*[names_alive(code, at) for at in places])
        alive |= {""}  # numbers of rounds
        keys = [name for name in own[0] if name[0] in alive]
        if any({*keys} != {name for name in each if name[0] in alive} for each in every):
            return False  # some are not set yet, or a structure changes
        for name in keys:
            values = [each[name] for each in every]
            nodes = [value for value in values if isinstance(value, Node)]
            if not nodes:
                sides = [[known_by(one.before[name]) for one in each] for each in self.fork.rounds.values()]
                told = [known_by(each[name]) for each in own[:-1]]
                if any(side != told for side in sides):
                    return False
            elif any(value is not nodes[0] for value in values):
                if not fit_together(values, "bif"):
                    return False
                self.names.append(name)
                self.like[name] = nodes[0]
        values = [each[name] for each in every for name in self.names]
        self.marks = {
            value for value in values if isinstance(value, Node) and value.number > self.begin
            and not (value.op.view and all(i.number <= self.begin for i in value.inputs))
        }
        return True

    def is_apart(self, variables: dict[Name, Any]) -> bool:
        """Whether the loop made each variable, and no two are one."""
        found = [variables[name] for name in self.names]
        return len({*map(id, found)}) == len(found) and all(
            isinstance(value, Node) and value.number > self.begin for value in found
        )

    def roots(self, one: Round) -> list[Node]:
        """List what a round asks and gives."""
        after = [one.after[name] for name in self.names]
        return [*one.asked, *[
            value if isinstance(value, Node) else literal(self.numbers, value, own.dtype)
            for value, own in zip(after, self.inputs, strict=True)
        ]]

    # -- rounds side by side

    def united(self, rounds: Sequence[Round], roots: list[Node]) -> Node | None:
        """Make one node in the round of what stands at one place of each; None where there is none."""
        known: dict[tuple[int, ...], Node] = {}
        moving: dict[Node, bool] = {}
        stack: list[tuple[list[Node], bool]] = [(roots, False)]
        while stack:
            column, ready = stack.pop()
            key = tuple(map(id, column))
            if key in known:
                continue
            if (found := self.leaf(rounds, column, moving)) is not None:
                known[key] = found
                continue
            first = column[0]
            if isinstance(first.op, Leaf) or any(
                (n.op, n.params, len(n.inputs), n.shape, n.dtype) != (
                    first.op, first.params, len(first.inputs), first.shape, first.dtype
                ) for n in column
            ):
                if any((n.shape, n.dtype) != (first.shape, first.dtype) or self.moves(n, moving) for n in column):
                    return None
                known[key] = self.stand(self.rows, tuple(column), first, "r")
                continue
            parts = [[node.inputs[a] for node in column] for a in range(len(first.inputs))]
            if not ready:
                stack += [(column, True), *[(part, False) for part in parts]]
                continue
            operands = [known.get(tuple(map(id, part))) for part in parts]
            known[key] = unmarked(self.body, first, tuple(operands))  # type: ignore[arg-type]  # they are made before
        return known[tuple(map(id, roots))]

    def leaf(self, rounds: Sequence[Round], column: list[Node], moving: dict[Node, bool]) -> Node | None:
        """Return what is a variable in each round, or the same in all; None for anything else."""
        for name, own in zip(self.names, self.inputs, strict=True):
            if all(_same(one.before[name], value) for one, value in zip(rounds, column, strict=True)):
                return own
        first = column[0]
        if all(node is first for node in column) and not self.moves(first, moving):
            if first.is_constant:
                return copied(self.body, first, ())
            return self.stand(self.fixed, first, first, "x")
        return None

    def stand(self, where: dict[Any, Node], key: Any, like: Node, name: str) -> Node:
        """Return what stands in the round for something around it."""
        if key not in where:
            where[key] = input_like(self.body, f"{name}{len(where)}", like)
        return where[key]

    def moves(self, node: Node, known: dict[Node, bool]) -> bool:
        """Whether a node depends on what the loop makes."""
        stack = [node]
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

    def looped(
        self, rounds: dict[Any, list[Node]], begin: dict[Name, Any], last: list[Node], gone: list[Node],
    ) -> Program:
        """Put a scan in the place of the rounds."""
        there = [*self.inputs, *self.fixed.values(), *self.rows.values()]
        outputs, lost = round_of(self.body, there, self.inputs, rounds)
        first = self.fork.guards[0]
        flags = []
        if lost:
            flags = [input_like(self.body, "lost", first)]
            outputs[-1] = make(self.body, logical_or, flags[0], outputs[-1])
        body = closed([*self.fixed.values(), *self.inputs, *flags, *self.rows.values()], outputs, "step")

        def loop(graph: Graph, get: Callable[[Node], Node]) -> tuple[list[Node], Node | None]:
            state = [
                get(value) if isinstance(value := begin[name], Node) else literal(graph, value, self.like[name].dtype)
                for name in self.names
            ]
            state += [literal(graph, value=False)] * len(flags)
            given = [*map(get, self.fixed), *state, *[rows_of(graph, row, get) for row in self.rows]]
            hub = make(
                graph, scan, *given, body=body, length=self.steps, fixed=len(self.fixed), carried=len(state),
                reverse=False,
            )
            results = [make(graph, result, hub, number=k) for k in range(len(state))]
            return results, make(graph, logical_not, results[-1]) if lost else None

        needed = [*self.fixed, *[value for name in self.names if isinstance(value := begin[name], Node)]]
        for row in self.rows:
            needed += [row[0].inputs[0]] if slides(row) else [node for node in row if not node.is_constant]
        return placed(self.program, gone, last, needed, loop)


def _same(variable: Any, value: Node) -> bool:
    """Whether a value is a variable: the same node, or a plain number's."""
    if isinstance(variable, Node):
        return variable is value
    if not value.is_constant or value.shape:
        return False
    return bool(np.asarray(variable, value.dtype).tobytes() == value.params[0].array.tobytes())

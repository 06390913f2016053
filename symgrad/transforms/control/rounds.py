"""Rounds of a loop side by side: what one round is made of, of the loop's variables and of what is around the loop.

Node by node, the rounds that went one way say it: of a variable where each has that variable, of what is the same in
all, of what is one for each, and of an operation on such. So nothing is concluded from one round for another. Of rounds
that went several ways one is made with branches in it, and a loop of that is put in the place of all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from symgrad.ir.graphs import reachable
from symgrad.ir.node import SEVERAL, Graph, Node
from symgrad.ir.op import Elementwise, Leaf, Result
from symgrad.ir.program import BY_NUMBER, Program, afresh, copied, replaced
from symgrad.ops.control import UNTOLD, cond, guard, result
from symgrad.ops.declare.traits import chooses, growth
from symgrad.trace.control.branches import Moment
from symgrad.trace.control.forks import Round, Way
from symgrad.transforms.build import input_like, literal, make, written
from symgrad.transforms.control.roll import joined, slides
from symgrad.transforms.control.scans import within
from symgrad.transforms.derive.control import closed
from symgrad.transforms.tuned import MOST, MOST_EACH, MOST_ROUNDS

Name = tuple[str, Any, int]


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



class Rounds(ABC):
    """Rounds of a loop on the way to one.

    Attributes:
        program: where they were traced; nodes numbered beyond `begin` are made in them.
        body: where the round is made; `inputs` are its variables, `fixed` stand for nodes before the loop, `rows` for
            what is one for each round.
        numbers: where plain numbers are nodes.
        names: the variables that change; of these are `read` those that a round reads, and it sets the others first.
        still: those that do not, where they are other nodes in rounds that were told their ways.
        made: what a round asks and gives, for each way.
        begun, last: what the variables are before and after all rounds.
        length: the number of rounds; 0 where nobody knows it, and nothing may be one for each.
        gone: guards of the rounds, the loop's first one first; the last one, in a round if one is, gives its number.
    """

    def __init__(self, program: Program, begin: int) -> None:
        self.program, self.begin = program, begin
        self.body, self.numbers = Graph(), Graph()
        self.names: list[Name] = []
        self.still: dict[Name, Node] = {}
        self.read: Collection[Name] = ()
        self.inputs: list[Node] = []
        self.fixed: dict[Node, Node] = {}
        self.rows: dict[tuple[Node, ...], Node] = {}
        self.made: dict[Way, list[Node]] = {}
        self.begun: list[Any] = []
        self.last: list[Node] = []
        self.gone: list[Node] = []
        self.length = 0

    def is_apart(self, values: Iterable[Any]) -> bool:
        """Whether the loop made each of some variables, and no two are one."""
        found = [*values]
        return len({*map(id, found)}) == len(found) and all(
            isinstance(value, Node) and value.inputs and value.number > self.begin for value in found
        )

    def take_variables(self, like: Iterable[Node]) -> None:
        """Let the round have the variables."""
        for k, (name, node) in enumerate(zip(self.names, like, strict=True)):
            called = f"s{k}_{name[0]}" if name[0].isidentifier() else f"s{k}"
            self.inputs.append(input_like(self.body, called, node))

    def are_a_loop(self, others: Iterable[Any]) -> bool:
        """Whether they may be one: what comes behind reads, of the variables in `others`, the last ones alone."""
        return is_tree([*self.made.items()]) and self.stays_small() and self.stands_apart(others)

    def stays_small(self) -> bool:
        """Whether what rounds make of numbers that Python computes in integers of any size has 64 bits.

        These are numbers of rounds, and variables that begin with a plain integer. Each is known to be no larger than
        a multiple of the largest of these variables and a number. The same holds for what is made behind the loop of
        what the variables are then.
        """
        bounds: dict[Node, tuple[float, float]] = {}
        for name, node, begun, end in zip(self.names, self.inputs, self.begun, self.last, strict=False):
            if not name[0]:
                bounds[node] = bounds[end] = 0.0, MOST_ROUNDS
            elif node.dtype.kind == "i" and not node.shape and _is_plain(begun):
                bounds[node] = bounds[end] = 1.0, 0.0
        if not bounds:
            return True
        for row, node in self.rows.items():
            if node.dtype.kind in "iu" and not node.shape and all(each.is_constant for each in row):
                bounds[node] = 0.0, max([abs(float(each.params[0].array)) for each in row])
        carried = {node: k for k, node in enumerate(self.inputs) if bounds.get(node, (0.0,))[0]}
        ends = [node for node in self.last[: len(self.names)] if node in bounds]
        rounds = Program((*self.inputs,), (*chain(*self.made.values()),)).nodes()
        for node in (*rounds, *_integers_of(ends, self.program.readers)):
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
        for way, gives in self.made.items():
            for k in carried.values():
                times, more = bounds.get(gives[len(way) + k], (0.0, 0.0))
                if times > 1 or more > (MOST_EACH if times else MOST):
                    return False
        return True

    def stands_apart(self, rounds: Iterable[Any]) -> bool:
        """Whether what stays of the program without the loop's guards reads, of its variables, the last ones alone.

        What reads those in `rounds` is followed to its end, which is within the loop: the rest may be long.
        """
        ends, readers = {*self.last}, self.program.readers
        found = {value for value in rounds if isinstance(value, Node) and value.number > self.begin} - ends
        read = reachable(found, lambda node: [one for one in readers.get(node, ()) if one not in ends])
        return read.keys().isdisjoint({*self.program.outputs}.difference(self.gone))

    def state(self, graph: Graph, get: Callable[[Node], Node]) -> list[Node]:
        """List what the variables are before the first round."""
        return [
            literal(graph, value, like.dtype) if not isinstance(value, Node)
            else copied(graph, value, ()) if value.is_constant else get(value)
            for value, like in zip(self.begun, self.inputs, strict=True)
        ]

    def needed(self) -> list[Node]:
        """List what the loop is made of."""
        rows = [[row[0].inputs[0]] if slides(row) else row for row in self.rows]
        every = [*self.fixed, *self.begun, *chain.from_iterable(rows)]
        return [node for node in every if isinstance(node, Node) and not node.is_constant]

    @abstractmethod
    def loop(self, graph: Graph, get: Callable[[Node], Node]) -> tuple[list[Node], Node | None]:
        """Make the loop, where `get` says what stands for nodes: the last variables, and what must hold then."""

    def roots(self, one: Round) -> list[Node]:
        """List what a round asks and gives."""
        return [*one.asked, *[
            value if isinstance(value, Node) else literal(self.numbers, value, own.dtype)
            for value, own in zip([one.after[name] for name in self.names], self.inputs, strict=True)
        ]]

    def round_like(self, rounds: Sequence[Round]) -> list[Node] | None:
        """Make what rounds ask and give of what it is in each; None where they differ."""
        if not any(self.is_apart([one.before[name] for name in self.read]) for one in rounds):
            return None
        every = [*map(self.roots, rounds)]
        if len({*map(len, every)}) > 1:
            return None
        known: dict[tuple[int, ...], Node] = {}
        found = [self.united(rounds, [*column], known) for column in zip(*every, strict=True)]
        return None if None in found else found  # type: ignore[return-value]

    def united(self, rounds: Sequence[Round], roots: list[Node], known: dict[tuple[int, ...], Node]) -> Node | None:
        """Make one node in the round of what stands at one place of each; None where there is none."""
        sure = self.length > 0
        stack: list[tuple[list[Node], bool]] = [(roots, False)]
        while stack:
            column, ready = stack.pop()
            key = tuple(map(id, column))
            if key in known:
                continue
            if (found := self.leaf(rounds, column)) is not None:
                known[key] = found
                continue
            said = [one.number > 0 and self.is_of_before(one, node) for one, node in zip(rounds, column, strict=True)]
            bare = [
                node if says else _behind_mark(node, node.inputs) for node, says in zip(column, said, strict=True)
            ]
            if bare != column:
                if ready:
                    known[key] = known[tuple(map(id, bare))]
                else:
                    stack += [(column, True), (bare, False)]
                continue
            if any(said):
                return None  # what is so only as some round before went its way
            first = column[0]
            sliced = sure and len({n.op for n in column}) == 1
            place = _moving([n.named.get("index") for n in column]) if sliced else None
            if isinstance(first.op, Leaf) or any(
                (n.op, n.params if place is None else (), len(n.inputs), n.shape, n.dtype) != (
                    first.op, first.params if place is None else (), len(first.inputs), first.shape, first.dtype
                ) for n in column
            ):
                if not sure or first.dtype is SEVERAL or any(
                    (n.shape, n.dtype) != (first.shape, first.dtype) or self.moves(n) for n in column
                ):
                    return None
                known[key] = self.stand(self.rows, self.spread(column, rounds), first, "r")
                continue
            parts = [[node.inputs[a] for node in column] for a in range(len(first.inputs))]
            if not ready:
                stack += [(column, True), *[(part, False) for part in parts]]
                continue
            operands = [known.get(tuple(map(id, part))) for part in parts]
            if place is None:
                known[key] = joined(self.body, first, tuple(operands))  # type: ignore[arg-type]  # they are made before
                continue
            numbers = tuple([literal(self.numbers, np.int64(n.param("index")[place][0])) for n in column])
            known[key] = written(
                self.body, _slice_at, *operands, self.stand(self.rows, self.spread(numbers, rounds), numbers[0], "r"),
                index=first.param("index"), axis=place,
            )
        return known[tuple(map(id, roots))]

    def is_of_before(self, one: Round, node: Node) -> bool:
        """Whether a variable or a list had a node when a round began, which then says how the rounds before it went."""
        if one.since.get(node, one.number) < one.number:
            return True
        if node.is_constant and not node.shape:
            return self.length > 0 and any(same_value(one.before[name], node) for name in self.read)
        return any(one.before[name] is node for name in self.read)

    def leaf(self, rounds: Sequence[Round], column: list[Node]) -> Node | None:
        """Return what is a variable in each round, or the same in all; None for anything else."""
        for name, own in zip(self.names, self.inputs, strict=True):
            if name not in self.read:
                continue
            if all(same_value(one.before[name], value) for one, value in zip(rounds, column, strict=True)):
                return own
        for name, node in self.still.items():
            if all(one.before[name] is value for one, value in zip(rounds, column, strict=True)):
                return self.stand(self.fixed, node, node, "x")
        first = column[0]
        if all(node is first for node in column) and not self.moves(first):
            above = first.inputs or first.is_input  # others are numbers and extents
            return self.stand(self.fixed, first, first, "x") if above else copied(self.body, first, ())
        return None

    def stand(self, where: dict[Any, Node], key: Any, like: Node, name: str) -> Node:
        """Return what stands in the round for something around it."""
        if key not in where:
            where[key] = input_like(self.body, f"{name}{len(where)}", like)
        return where[key]

    def moves(self, node: Node) -> bool:
        """Whether a node is nothing that stands before the loop."""
        return node.number > self.begin and bool(node.inputs)

    def spread(self, column: Sequence[Node], rounds: Sequence[Round]) -> tuple[Node, ...]:
        """Return one thing for each round of the loop, where rounds of one kind have those of a column."""
        found = dict(zip([one.number for one in rounds], column, strict=True))
        last = column[0]
        return tuple([last := found.get(k, last) for k in range(self.length)])


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


def _integers_of(numbers: Collection[Node], readers: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """List, in their order, the integers that are made of some numbers, and what else these are made of."""
    def is_made(node: Node) -> bool:
        return node.dtype.kind == "i" and isinstance(node.op, Elementwise)

    later = reachable(numbers, lambda node: [one for one in readers.get(node, ()) if is_made(one)])
    found = reachable(later, lambda node: node.inputs if node not in numbers and is_made(node) else ())
    return sorted(found.keys() - numbers, key=BY_NUMBER)


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


def _behind_mark(node: Node, inputs: Sequence[Node]) -> Node:
    """Return the value that a number carries which stands for it in a round: a choice between that and itself."""
    return inputs[1] if chooses(node.op) and inputs[1] is inputs[2] else node


def asked_again(moment: Moment, guards: Sequence[Node], last: int) -> bool:
    """Whether one of these conditions was asked again after some time, where its guard has to stay."""
    numbers = {node.param("number") for node in guards}
    return any(number in numbers for _, number in moment.again[bisect_left(moment.again, (last + 1, 0)) :])


def placed(program: Program, loops: Sequence[Rounds]) -> Program:
    """Put loops, in their order, in the place of their rounds."""
    away = {node for one in loops for node in one.gone}
    kept = [(k, node) for k, node in enumerate(program.outputs) if node not in away]
    graph = afresh(program)
    start = len(graph) + 1
    new = {i: graph.node(i.op, (), i.params, i.shape, i.dtype, i.line) for i in program.inputs}
    before = graph.line

    def get(node: Node) -> Node:
        return new.get(node, node)

    def copy(nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node not in new and node.number >= program.start:
                graph.line, graph.left = node.line, node.behind
                operands = tuple([get(i) for i in node.inputs])
                bare = _behind_mark(node, operands)
                new[node] = joined(graph, node, operands) if bare is node else bare

    there, last = [], list[Node]()
    for one in loops:
        there.append(Program(tuple(last), tuple(one.needed())))
        last += one.last
    inputs = (*program.inputs, *last)
    after = replace(program, inputs=inputs, outputs=tuple([node for _, node in kept])).nodes()
    ahead = sorted({*after, *chain(*[own.nodes() for own in there])}, key=BY_NUMBER)
    guards: list[tuple[int, Node]] = []
    asking = [k for k, (_, node) in enumerate(kept) if node.op.decides]
    done = 0
    for one, own in zip(loops, there, strict=True):
        first = one.gone[0]
        upto = bisect_right(ahead, first.number, key=BY_NUMBER)
        copy(ahead[done:upto])
        copy(own.nodes())
        done = max(done, upto)
        graph.line, graph.left = first.line, 0
        results, holds = one.loop(graph, get)
        new.update(zip(one.last, results, strict=False))
        if holds is not None:
            later = next((k for k in asking if kept[k][1].number > first.number), len(kept))
            ends = make(graph, guard, holds, outcome=True, number=UNTOLD + one.gone[-1].param("number"))
            guards.append((later, ends))
    copy(after)
    asked = {node.param("number") for _, node in kept if node.op.decides}
    moments = {number: moment for number, moment in program.moments.items() if number in asked}
    variables = [v for moment in moments.values() for v in moment.variables.values() if isinstance(v, Node)]
    copy(Program(inputs, tuple(variables)).nodes())  # those that nothing reads, too
    graph.line, graph.left = before, 0
    moments = {
        number: moment._replace(variables={
            name: get(value) if isinstance(value, Node) else value for name, value in moment.variables.items()
        })
        for number, moment in moments.items()
    }
    outputs = [(get(node), program.labels[k] if program.labels else "") for k, node in kept]
    for place, ends in reversed(guards):
        outputs.insert(place, (ends, f"guard{len(outputs)}"))
    return replace(
        program, inputs=tuple([new[i] for i in program.inputs]), outputs=tuple([node for node, _ in outputs]),
        labels=tuple([label for _, label in outputs]) if program.labels else (),
        start=start if program.scope is not None else 0, moments=moments, forks=(),
    )


def _moving(indices: Sequence[Any]) -> int | None:
    """Return the one axis along which slices take another element in each round; None where that is no one axis."""
    if None in indices or len({len(index) for index in indices}) > 1:
        return None
    moving = [axis for axis, own in enumerate(zip(*indices, strict=True)) if len({*own}) > 1]
    single = len(moving) == 1 and all(len(index[moving[0]]) == 1 for index in indices)
    forward = all(len(entry) == 1 or entry[2] > 0 for entry in indices[0])
    return moving[0] if single and forward else None


def _slice_at(x: Any, *rest: Any, index: Any, axis: int) -> Any:
    """Take a slice, or an array with a slice of it replaced, at a place along an axis that is given last."""
    entries: list[Any] = [e[0] if len(e) == 1 else slice(e[0], e[0] + e[1] * e[2], e[2]) for e in index]
    *value, entries[axis] = rest
    if not value:
        return x[tuple(entries)]
    made = np.copy(x)
    made[tuple(entries)] = value[0]
    return made


def same_value(variable: Any, value: Node) -> bool:
    """Whether a value is a variable: the same node, or a plain number's."""
    if isinstance(variable, Node):
        return variable is value
    if not value.is_constant or value.shape:
        return False
    return bool(np.asarray(variable, value.dtype).tobytes() == value.params[0].array.tobytes())


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

    def branched(alike: Sequence[tuple[Way, list[Node]]], done: list[Node]) -> list[Node]:
        """Make what rounds give that went the same way so far, for which what is `done` is computed already."""
        if not alike:
            return [*idle, literal(body, value=True)]
        (way, made), depth = alike[0], len(done)
        if len(way) == depth:
            return [*made[depth:], literal(body, value=False)]
        test = made[depth]
        sides = [branched([one for one in alike if one[0][depth] is side], [*done, test]) for side in (True, False)]
        cone = Program(tuple(there), (*done, test)).nodes()
        cuts = {node for node in (*there, *cone) if node.inputs or node.is_input}
        read: dict[Node, None] = {}
        for side in sides:
            inner = Program(tuple(cuts), tuple(side))
            read |= dict.fromkeys([o for o in side if o in cuts])
            reads = [(node, i) for node in inner.nodes() if node not in cuts for i in node.inputs if i in cuts]
            read |= dict.fromkeys([node if i.dtype is SEVERAL else i for node, i in reads])  # of several, the one
        then, other = [closed([*read], side, "side") for side in sides]
        hub = make(body, cond, test, *read, then=then, other=other)
        return [make(body, result, hub, number=k) for k in range(len(sides[0]))]

    made = branched([*rounds.items()], [])
    return (made if lost else made[:-1]), lost

"""`roll`: a Python loop leaves copies of one pattern in a trace; they become one scan.

A run of nodes that equals itself one period later, by op, shape, dtype and the user's line, is a loop if each copy
reads only what is the same for all, what it made itself, what the copy before made (or the one before that), and things
that are one for each copy: numbers, rows of an array, other values. The first copy, which made what all have in common,
may stay outside. A copy may lack nodes that equal others (`repeats.py`). What does not fit stays as it was.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from symgrad.ir.index.regions import whole
from symgrad.ir.index.shapes import is_static, size
from symgrad.ir.node import SEVERAL, Graph, Node
from symgrad.ir.op import Control, Elementwise, Leaf, Result
from symgrad.ir.program import Program, afresh, copied, rebuild
from symgrad.ops.arrays.joining import concatenate
from symgrad.ops.arrays.updates import assemble
from symgrad.ops.arrays.views import expand_dims, reshape, slice_, transpose
from symgrad.ops.control import UNTOLD, guard
from symgrad.transforms.build import input_like, literal, make, rows_from, written
from symgrad.transforms.control.checkpoints import run_lengths, scanned
from symgrad.transforms.control.repeats import (
    Copies,
    copies_of,
    copy_words,
    enough,
    in_front,
    made_once,
    may_fail,
    may_repeat,
    parts_apart,
    read_far,
    repeats,
    uneven,
)
from symgrad.transforms.control.scans import within
from symgrad.transforms.derive.control import closed
from symgrad.transforms.tuned import (
    COPIES_TRIED,
    FOLDED,
    MANY_LOOPS,
    PEELED,
    REPEATED,
    STRAIGHT_ELEMENTS,
    STRAIGHT_NODES,
    WINDOWS,
)


def roll(program: Program, least: int = REPEATED, memory: str | int | None = None) -> Program:
    """Make loops of repeats of at least so many copies, or long ones, whose reverse mode keeps no more than a budget.

    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     for k in range(100):
    ...         x = np.sin(x) + k
    ...     return x
    >>> len(sg.jit(f).lower(1.0).stages.of("stable").nodes())
    4
    """
    best = program
    while may_repeat(_steps(program.nodes()), least):
        found, nodes = _loops(program, least)
        made = _rolled(program, nodes, found, memory) if found else program
        fewer = len(made.nodes()) < len(best.nodes())
        if not (found and (fewer or program is best)):  # what one loop has made may be another's rows, once
            break
        program = made
        best = made if fewer else best
    return within(best, partial(roll, least=least, memory=memory))


# -- what is a loop


class _RepeatLoop:
    """Copies looked at as a loop: what each operand of a copy is, or why it is nothing a loop could have.

    Attributes:
        copies: the nodes of each copy, without what is one node for all.
        own: all of them, but those that stand before.
        ahead: what the first one makes for all, of what they all read.
        fixed: what all copies read.
        rows: for each thing that is one for each copy, these.
        moving: the places in a copy of slices that begin elsewhere in each; they are rows.
        state: for each carried value its place in a copy, how many copies back it is read, and where it begins.
        reads: for each operand of a place in a copy, what it is there.
        wanted: the nodes of copies that others read.
        asks: whether guards look at some of them, and may look at none without copies at the ends.
        why: where it is no loop, the node that is why, and what is wrong with it.
    """

    def __init__(self, copies: Copies, first: int, place: Mapping[Node, int], *, some: bool = False) -> None:
        """Look at copies, of which the first one begins at a place; `some` of those there are."""
        made = len(place)
        self.own = own = {node for copy in copies for node in copy if place.get(node, made) >= first}
        ahead: dict[int, Node] = {}
        for j, node in enumerate(copies[0]):
            if node is copies[-1][j] and own.isdisjoint(node.inputs) and all(copy[j] is node for copy in copies):
                ahead[j] = node
                own.discard(node)
        self.copies = [[node for j, node in enumerate(copy) if j not in ahead] for copy in copies] if ahead else copies
        self.ahead = [*ahead.values()]
        self.fixed, self.rows = dict[Node, None](), dict[tuple[Node, ...], None]()
        self.moving: set[int] = set()
        self.state: dict[tuple[int, int], Node] = {}
        self.reads: dict[tuple[int, int], Any] = {}
        self.wanted: set[Node] = set()
        self.asks = False
        self.why = self._obstacle(some=some)

    def _obstacle(self, *, some: bool) -> tuple[Node, str] | None:
        """Find what each operand of a copy is; return the first that a loop could not have."""
        copies, own = self.copies, self.own
        places: dict[Node, list[tuple[int, int]]] = defaultdict(list)  # as copies before the last, and place
        for back, copy in enumerate(copies[: -4 : -1]):
            for j, node in enumerate(copy):
                places[node].append((back, j))
        for j, last in enumerate(copies[-1]):
            column = [copy[j] for copy in copies]
            if any(node.params != last.params for node in column) and not isinstance(last.op, Control):
                operand = {node.inputs[0] for node in column}
                if len(operand) != 1 or last.inputs[0] in own or not _slid_axes(column, some=some):
                    return last, "differs from step to step by more than its place in one array"
                self.moving.add(j)
                continue
            for a, x in enumerate(last.inputs):
                read = [node.inputs[a] for node in column]
                inside = [node in own for node in read]
                back, same = next((
                    (back, same) for back, same in places[x]
                    if (back or same < j) and not any(inside[:back])
                    and all(copy[same] is node for copy, node in zip(copies, read[back:], strict=False))
                ), (0, -1))
                if x.dtype is SEVERAL and (back or same < 0):
                    return last, "takes apart what another step made"
                if back and a in last.op.determined:
                    return last, "reads factors that another step made"
                if same >= 0:
                    self.reads[j, a] = (same, back)
                    for b in range(1, back + 1):
                        begin = read[back - b]
                        if self.state.setdefault((same, b), begin) is not begin:
                            return column[0], "begins with another value than what reads the same of the step before"
                        if (begin.shape, begin.dtype) != (x.shape, x.dtype):
                            return column[0], "begins with a value of another shape or dtype"
                elif any(inside):
                    return last, "reads what a certain step made, or one more than two steps before"
                elif all(node is x for node in read):
                    self.fixed.setdefault(x)
                    self.reads[j, a] = x
                elif all((one.shape, one.dtype) == (x.shape, x.dtype) for one in read) and is_static(x.shape):
                    self.rows.setdefault(tuple(read))
                    self.reads[j, a] = tuple(read)
                else:
                    return last, "reads values of other shapes or dtypes from step to step"
        return None

    def pays(self, program: Program, least: int) -> bool:
        """Whether fewer nodes are left: what others read is a slice of what is stacked, and rows are put together.

        A few steps on large arrays stay side by side, and so do a few layers with large weights.
        """
        uses = _uses(program)
        own, ends = self.own, uses.ends.intersection(self.own)
        others = {
            node: found for node in own if (found := [one for one in uses.readers.get(node, ()) if one not in own])
        }
        self.wanted = {*others} | ends
        asked = {
            node: found for node, readers in others.items()
            if (found := [one.param("outcome") for one in readers if one.op.decides])
        }
        self.asks = bool(asked)
        if any(node.dtype is SEVERAL for node in self.wanted) or len(self.moving) == len(self.copies[-1]):
            return False
        if asked and any(map(may_fail, self.copies[-1])):
            self.asks = all(map(asked.keys().isdisjoint, self.copies[PEELED:-PEELED]))  # at the ends alone
            return False  # it would fail where a guard of an earlier copy leads elsewhere
        used = {node for node, readers in others.items() if not all(one.op.decides for one in readers)} | ends
        every = [(column, [asked.get(node) for node in column]) for column in zip(*self.copies, strict=True)]
        one_each = sum([  # whose guards are one
            len(column) for column, came in every
            if came[0] and [*map(type, came[0])] == [bool] and all(one == came[0] for one in came)
            and used.isdisjoint(column) and own.issuperset(column)
        ])
        apart = [row for row in self.rows if not all(node.is_constant for node in row)]
        runs = [[*_row_runs([_row_of(node) for node in row])] for row in apart]
        put = [size(row[0].shape) * len(row) for row, own_runs in zip(apart, runs, strict=True) if len(own_runs) > 1]
        large = any(
            not is_static(node.shape) or size(node.shape) >= STRAIGHT_ELEMENTS for node in self.copies[-1]
        )
        if len(self.copies) < least and (large or sum(put) >= STRAIGHT_ELEMENTS):
            return False  # each step would sweep over memory, or each call copy the weights
        if large and len(own) <= STRAIGHT_NODES and all(isinstance(node.op, Elementwise) for node in self.copies[-1]):
            return False  # one sweep over memory serves all steps
        rows = sum([1 + len(own_runs) for own_runs in runs])
        in_turn = self._in_turn(uses)
        put_together = sum([  # as rows that follow each other, they are one array
            node not in ends and uses.joins.issuperset(readers)
            and (node in in_turn or all(one.op is assemble for one in readers))
            for node, readers in others.items()
        ])
        return 2 * (len(self.wanted) - one_each - put_together) + rows + 4 * len(self.moving) < len(own)

    def _in_turn(self, uses: _Uses) -> set[Node]:
        """Return what is put together in the order of the steps."""
        places = {node: (j, k) for k, copy in enumerate(self.copies) for j, node in enumerate(copy)}
        found: set[Node] = set()
        for own in {id(own): own for node in places for own in uses.parts.get(node, ())}.values():
            for first, end in _row_runs([places.get(part) for part in own]):
                found.update(own[first:end] if end > first + 1 else ())
        return found


def _concatenates(node: Node) -> bool:
    return node.op is concatenate


def _is_row(node: Node) -> bool:
    return node.op is expand_dims


def _part_of(part: Node, axis: int) -> Node:
    """Return what is a row of what is stacked along an axis, or the part that is concatenated."""
    return part.inputs[0] if _is_row(part) and part.param("axes") == (axis,) else part


class _Uses(NamedTuple):
    """What becomes of a program's nodes.

    Attributes:
        readers: who reads a node.
        ends: the outputs.
        joins: what puts together: rows that concatenations alone read, and sums that go on, as ``sum(values)``.
        parts: for each value that these take, all of such a concatenation or sum, in order.
    """

    readers: dict[Node, list[Node]]
    ends: set[Node]
    joins: set[Node]
    parts: dict[Node, list[list[Node]]]


_uses_in: WeakKeyDictionary[Program, _Uses] = WeakKeyDictionary()


def _uses(program: Program) -> _Uses:
    known = _uses_in.get(program)
    if known is not None:
        return known
    found = _uses_in[program] = _Uses(defaultdict(list), {*program.outputs}, set(), defaultdict(list))
    parts: list[list[Node]] = []
    chains: dict[Node, tuple[list[Node], list[Node]]] = {}
    rows, row = {*program.outputs}, expand_dims
    for node in program.nodes():
        op, inputs = node.op, node.inputs
        for one in dict.fromkeys(inputs):
            found.readers[one].append(node)
        if op in _JOINING:
            found.joins.add(node)
            if _concatenates(node):
                parts.append([_part_of(part, node.param("axis")) for part in inputs])
                continue
        for one in inputs:
            if one.op is row:
                rows.add(one)
        if len(inputs) == len("xy") and inputs[0].op is op and isinstance(op, Elementwise):
            before, part = inputs
            if before.line == node.line:
                nodes, values = chains[node] = chains.pop(before, ([before], [before.inputs[1]]))
                nodes.append(node)
                values.append(part)
    found.joins.difference_update([node for node in rows if _is_row(node)])
    for nodes, values in chains.values():
        if len(nodes) >= FOLDED:
            found.joins.update(nodes)
            parts.append(values)
    for own in parts:
        for part in dict.fromkeys(own):
            found.parts[part].append(own)
    return found


_JOINING = frozenset([expand_dims, concatenate, assemble])


def _steps(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that copies of a step may be made of."""
    return [node for node in nodes if not isinstance(node.op, Leaf) and not node.op.decides]


def _loops(program: Program, least: int) -> tuple[list[_RepeatLoop], list[Node]]:
    """Find the longest repeat that is a loop, and pays, and the order of the nodes in which it is one.

    What is made once comes first, or, where that gives a longer one, so does what all its copies read.

    With it come those that are like it, calls of the same code one after the other: to find each by itself takes a look
    at all nodes. Of those whose copies are whole only where there are many, for each by itself may have a copy more.
    """
    once = made_once(program)
    every = in_front(program, once)
    nodes = _steps(every)
    words = copy_words(nodes)
    even = repeats(nodes, words, least)
    ordered = in_front(program, once | read_far(program, nodes, even[0])) if even else every
    larger, count = None, 0
    if ordered != every:
        steps = _steps(ordered)
        known = dict(zip(nodes, words.tolist(), strict=True))
        own = np.array([known[node] for node in steps])
        other = repeats(steps, own, least)
        if other and other[0][1] == even[0][1] and other[0][2] > even[0][2]:  # the first copy is whole
            larger, like = _longest_loop(program, steps, own, other, least)
            count = 0 if larger is None else len(larger.own)
    loop, alike = _longest_loop(program, nodes, words, even, least, count)
    if larger is not None and (loop is None or count > len(loop.own)):
        return [larger, *_disjoint(program, steps, larger, like, least)], ordered
    parts = [] if loop is not None else parts_apart(nodes, even, least)
    if parts:
        loop, alike = _longest_loop(program, nodes, words, parts, least)
    if loop is None:
        return [], every
    if len(even) + len(parts) >= MANY_LOOPS:
        alike = chain(alike, _whole_alike(nodes, words, parts or even, loop, cut=bool(parts)))
    return [loop, *_disjoint(program, nodes, loop, alike, least)], every


def _whole_alike(
    nodes: Sequence[Node], words: Any, even: Sequence[tuple[int, int, int]], loop: _RepeatLoop, *, cut: bool,
) -> Iterator[tuple[Sequence[int], Copies]]:
    """Yield where repeats of a loop's words begin, and their copies, but those between parts of such, unless cut."""
    place = {node: k for k, node in enumerate(nodes)}
    pattern = {*words[[place[node] for node in loop.copies[-1] if node in place]].tolist()}
    for start, period, copies in even:
        end = start + period * copies
        around = [words[max(0, start - period) : start].tolist(), words[end : end + period].tolist()]
        is_cut = any(len(some) == period and pattern.issuperset(some) for some in around)
        if (cut or not is_cut) and {*words[start:end].tolist()} == pattern:
            yield copies_of(nodes, start, period, copies)


def _disjoint(
    program: Program, nodes: Sequence[Node], loop: _RepeatLoop, repeats: Iterator[tuple[Sequence[int], Copies]],
    least: int,
) -> list[_RepeatLoop]:
    """Return the loops among repeats that have no node of one, or of each other."""
    place = {node: k for k, node in enumerate(nodes)}
    taken = {*loop.own, *loop.ahead}
    found = []
    for begins, copies in repeats:
        own = {node for copy in copies for node in copy if place.get(node, len(place)) >= begins[0]}
        if taken.isdisjoint(own):
            taken |= own
            other = _longest_part(program, begins, copies, place, least)
            found += [other] if other is not None else []
    return found


def _longest_loop(
    program: Program, nodes: Sequence[Node], words: Any, even: Sequence[tuple[int, int, int]], least: int,
    more: int = 0,
) -> tuple[_RepeatLoop | None, Iterator[tuple[Sequence[int], Copies]]]:
    """Find the longest repeat of more than so many nodes, or a longer one whose copies lack nodes.

    Returns:
        The loop, and others of the same code that have as many copies: where these begin, and they.
    """
    place = {node: k for k, node in enumerate(nodes)}
    read = _read(program, place)
    found, run = None, (0, 0, 0)
    vain: list[tuple[int, int, int]] = []  # loops that do not pay: several rounds of them at once pay no more
    for one in even:
        if one[1] * one[2] <= more or not _may_pay(*read, *one) or any(_in_rounds_of(one, other) for other in vain):
            continue
        cut = copies_of(nodes, *one)
        found, run = _longest_part(program, *cut, place, least), one
        if found is not None:
            break
        if _is_loop(*cut, place):
            vain.append(one)
    alike = (copies_of(nodes, *one) for one in _of_one_code(words, run, even))
    period, copies = even[0][1:] if even else (0, 0)
    most = max(more, period * copies) + (period // 2 if found or more else 0)  # half a copy may be made for nothing
    loops = [
        (loop, others) for begins, filled, others in uneven(nodes, words, least, most)
        if (loop := _longest_part(program, begins, filled, place, least)) is not None
    ]
    return max(loops, key=lambda one: (len(one[0].copies), -len(one[0].state)), default=(found, alike))


def _of_one_code(
    words: Any, run: tuple[int, int, int], even: Sequence[tuple[int, int, int]],
) -> Iterator[tuple[int, int, int]]:
    """Yield the other repeats of as many copies, of the same words."""
    begin, *like = run
    pattern = {*words[begin : begin + run[1]].tolist()}
    for start, *own in even:
        if own == like and start != begin and {*words[start : start + run[1]].tolist()} == pattern:
            yield start, own[0], own[1]


def _read(program: Program, place: Mapping[Node, int]) -> tuple[Any, Any]:
    """Return of each node the place of the last one that reads it, and what a guard looks for.

    Outputs are read behind all of them. What guards look for is 0 where there is none, 1 for False, 2 for True, else 3.
    """
    end, joins = len(place), _uses(program).joins
    last, asked = [-1] * end, np.zeros(end, int)
    for node, k in place.items():  # by their places: the last one stays
        for i in node.inputs if node not in joins else ():
            if i in place:
                last[place[i]] = k
    for node in program.outputs:
        if node in place:
            last[place[node]] = end
    outcomes: dict[int, list[Any]] = {}
    for one in program.guards:
        for i in one.inputs:
            outcomes.setdefault(place.get(i, -1), []).append(one.param("outcome"))
    for k, found in outcomes.items():
        if k >= 0:
            asked[k] = 1 + found[0] if [*map(type, found)] == [bool] else 3
    return np.array(last), asked


def _may_pay(last: Any, asked: Any, start: int, period: int, copies: int) -> bool:
    """Whether a repeat may pay, maybe without copies at its ends, by what is read of those in the middle alone.

    Of hundreds of repeats few may, and to look what each operand is takes many times as long.
    """
    end, ends = start + copies * period, (PEELED + 1) * period
    read = last[start + ends : end - ends].reshape(-1, period) >= end
    guards = asked[start + ends : end - ends].reshape(-1, period)
    one_each = (guards == guards[:1]).all(0) & (guards < 3).all(0) & ~read.any(0)  # whose guards are one, or none
    return bool(2 * np.count_nonzero((read | (guards > 0))[:, ~one_each]) < copies * period)


def _in_rounds_of(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Whether a repeat lies within another, and its copies are several of that one's."""
    (start, period, copies), (begin, step, count) = one, other
    return period % step == 0 and begin <= start and start + period * copies <= begin + step * count


def _is_loop(begins: Sequence[int], copies: Copies, place: Mapping[Node, int]) -> bool:
    """Whether a repeat is a loop in its middle, as what is a loop is."""
    k = len(copies) // 2
    return _RepeatLoop(copies[k : k + COPIES_TRIED], begins[k], place, some=True).why is None


def _longest_part(
    program: Program, begins: Sequence[int], copies: Copies, place: dict[Node, int], least: int,
) -> _RepeatLoop | None:
    """Return the loop of most copies of a repeat, without some at its ends; None where there is none that pays."""
    if not enough(len(copies), copies[0], least) or not _is_loop(begins, copies, place):
        return None
    for first, late in product(range(PEELED + 1), repeat=2):
        part = copies[first : len(copies) - late]
        if not enough(len(part), copies[0], least) or (loop := _RepeatLoop(part, begins[first], place)).why:
            continue
        if loop.pays(program, least):
            return loop
        if not loop.asks:  # the last condition of a loop came to something else
            break
    return None


def _slid_axes(column: Sequence[Node], *, some: bool = False) -> list[int]:
    """Return the axes along which slices of an array begin elsewhere; none where to put them into rows takes too long.

    Of several axes all pairs of places are put into an array, which must be few more than there are rows, unless it is
    the array as it lies. Of `some` rows of a loop, nothing is said about the others.
    """
    entries = [*zip(*[node.params[0] for node in column], strict=True)]
    moving = [axis for axis, own in enumerate(entries) if len({*own}) > 1]
    if any(len({entry[1:] for entry in entries[axis]}) > 1 for axis in moving):
        return []
    if len(moving) < 2:
        return moving
    x = column[0].inputs[0]
    points = all(len(entries[axis][0]) == 1 for axis in moving)
    lies = points and moving == [*range(len(moving))] and (
        tuple([entry for (entry, *_) in entries[len(moving) :]]) == whole(x.shape[len(moving) :]))
    if not all(is_static(x.shape[axis : axis + 1]) for axis in moving):
        return []
    if not (some or lies):
        pairs = math.prod([
            x.shape[axis] if len(entries[axis][0]) == 1 else len({entry[0] for entry in entries[axis]})
            for axis in moving])
        if pairs > WINDOWS * len(column):
            return []
    return moving



def unrolled(program: Program, least: int = REPEATED) -> list[str]:
    """Say of repeats that stay side by side, or are cut in two, which line is why."""
    nodes = _steps(program.nodes())
    if not may_repeat(nodes, least):
        return []
    place, words, joins = {node: k for k, node in enumerate(nodes)}, copy_words(nodes), _uses(program).joins
    found = repeats(nodes, words, least)
    patterns = [(start, Counter(words[start : start + period].tolist())) for start, period, _ in found]
    taken = np.zeros(len(nodes), bool)
    parts = [copies_of(nodes, *one) for one in parts_apart(nodes, found, least)]
    others = [(begins, filled) for begins, filled, _ in uneven(nodes, words, least)]
    for begins, filled in (*others, *parts):
        loop = _longest_part(program, begins, filled, place, least)
        if loop is not None:
            taken[[place[node] for node in (*loop.own, *loop.ahead) if node in place]] = True
    said: dict[str, None] = {}
    for (start, period, copies), (_, pattern) in zip(found, patterns, strict=True):
        end = start + copies * period
        if taken[start:end].any() or joins.issuperset(nodes[start:end]):
            continue
        taken[start:end] = True
        loops = []
        peeled = min(PEELED, (copies - 1) // 2)
        for first, count in ((start + copies // 2 * period, min(COPIES_TRIED, copies - copies // 2)),
                             (start + peeled * period, copies - 2 * peeled)):
            begins, own = copies_of(nodes, first, period, count)
            loops.append(_RepeatLoop(own, begins[0], place))
            if loops[-1].why:
                break
        what = f"{copies} steps like {_at(nodes[start])}"
        if loops[-1].why is not None:
            node, why = loops[-1].why
            said.setdefault(f"{what} stay side by side: {_at(node)} {why}")
        elif not loops[-1].pays(program, least):
            said.setdefault(f"{what} stay side by side: a loop would leave no fewer operations, or be no faster")
        elif any(later > end and other == pattern for later, other in patterns):
            odd = next(k for k in range(end - period, len(nodes)) if words[k] != words[k - period])
            said.setdefault(f"{what} are a loop of their own: {_at(nodes[odd])} is not in all steps")
    rest = Counter([
        (node.op.name, _at(node)) for node, known in zip(nodes, taken, strict=True) if not known and node not in joins])
    for (name, where), count in rest.items():
        if count >= least:
            said.setdefault(f"{count} times {name} stay side by side: at {where} shapes or operations change")
    return [*said]


def _at(node: Node) -> str:
    return f"{node.op.name}, of no line," if node.line is None else f"{node.line}  {node.line.text.strip()}"


# -- the loop


def _rolled(
    program: Program, nodes: Sequence[Node], loops: Sequence[_RepeatLoop], memory: str | int | None,
) -> Program:
    """Put a scan in the place of the copies of each loop among nodes in order."""
    graph, new = afresh(program), dict[Node, Node]()
    made: dict[_RepeatLoop, Any] = {}
    of = {node: loop for loop in loops for node in loop.own}
    place = {
        node: (k, j) for loop in loops for k, copy in enumerate(loop.copies) for j, node in enumerate(copy)
        if node in loop.wanted
    }
    begins: dict[Node, _RepeatLoop] = {}
    order: list[Node] = []
    for node in nodes:
        loop = of.get(node)
        if loop is not None and loop not in made:
            begins[node], made[loop] = loop, None
            order += loop.ahead
        if loop is None or node in begins or node in place:
            order.append(node)
    last = min([max([node.number for node in loop.copies[-1] if node in loop.own]) for loop in loops])

    def begun(loop: _RepeatLoop) -> tuple[set[Node], dict[int, Node], dict[int, Node]]:
        """Make a loop: which nodes are what is carried, what the steps gave by their places, and what the last did."""
        early = {place[node][1] for node in loop.wanted - {*loop.copies[-1]}}
        carried = {node for node in loop.wanted
                   if place[node][1] not in early and (place[node][1], 1) in loop.state}
        places = sorted({place[node][1] for node in loop.wanted - carried})
        return carried, *_scan_made(graph, loop, new, program.start, places, memory)

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in begins:
            made[begins[node]] = begun(begins[node])
        if node not in place:
            return node if node in of else (joined if node.number > last else copied)(graph, node, inputs)
        carried, stacked, final = made[of[node]]
        step, j = place[node]
        return final[j] if node in carried else make(graph, slice_, stacked[j], index=((step,), *whole(node.shape)))

    return _guarded_as_one(graph, rebuild(program, rewrite, into=graph, order=order, new=new))


def _guarded_as_one(graph: Graph, program: Program) -> Program:
    """Make one guard of those of all rows of an array."""
    rows: dict[tuple[Node, bool], list[Node]] = {}
    for node in program.guards:
        row = _row_of(node.inputs[0])
        if row is not None and type(node.param("outcome")) is bool and isinstance(row[0].op, Result):
            rows.setdefault((row[0], node.param("outcome")), []).append(node)
    one: dict[Node, Node | None] = {}
    for (x, outcome), own in rows.items():
        if len(own) > 1 and [_row_of(node.inputs[0]) for node in own] == [(x, k) for k in range(x.shape[0])]:
            every = make(graph, "all" if outcome else "any", x, axes=(0,))
            number = UNTOLD + own[0].param("number")
            first = make(graph, guard, every, outcome=outcome, number=number)
            one |= {node: first if node is own[0] else None for node in own}
    places = [(k, one.get(node, node)) for k, node in enumerate(program.outputs)]
    kept = [(k, node) for k, node in places if node is not None]
    labels = tuple([program.labels[k] for k, _ in kept]) if program.labels else ()
    return replace(program, outputs=tuple([node for _, node in kept]), labels=labels)


def _scan_made(
    graph: Graph, loop: _RepeatLoop, new: dict[Node, Node], outer: int, wanted: Sequence[int], memory: str | int | None,
) -> tuple[dict[int, Node], dict[int, Node]]:
    """Make the scan; return what its steps gave at the places that are wanted, stacked, and what the last carries.

    Nodes numbered below `outer` are the caller's, and stay.
    """
    copies, template = len(loop.copies), loop.copies[-1]

    def get(node: Node) -> Node:
        if node not in new and node.number >= outer and isinstance(node.op, Leaf):
            new[node] = copied(graph, node, ())
        return new.get(node, node)

    body = Graph()
    by: dict[Any, Node] = {}

    def stand(key: Any, like: Node, name: str) -> Node:
        made = by[key] = input_like(body, f"{name}{len(by)}", like)
        return made

    fixed = [node for node in loop.fixed if node.inputs or node.is_input]
    state = sorted(loop.state)
    inputs = [stand(node, node, "x") for node in fixed]
    inputs += [stand(("state", *key), loop.state[key], "s") for key in state]
    inputs += [stand(("row", row), row[0], "r") for row in loop.rows]
    inputs += [stand(("moving", j), template[j], "r") for j in sorted(loop.moving)]
    made: list[Node] = []
    for j, node in enumerate(template):
        body.line = node.line
        if j in loop.moving:
            made.append(by["moving", j])
            continue
        operands = []
        for a in range(len(node.inputs)):
            read = loop.reads[j, a]
            if isinstance(read, tuple) and type(read[0]) is int:
                place, back = read
                operands.append(made[place] if not back else by["state", place, back])
            elif isinstance(read, tuple):
                operands.append(by["row", read])
            else:
                operands.append(by[read] if read in by else copied(body, read, ()))
        made.append(copied(body, node, tuple(operands)))
    body.line = None
    next_ = [made[place] if back == 1 else by["state", place, back - 1] for place, back in state]
    stepped = Program(tuple(inputs), (*next_, *[made[j] for j in wanted]), "step")
    rows = [_stacked_steps(graph, [get(node) for node in row]) for row in loop.rows]
    rows += [
        _slid_in(graph, get(template[j].inputs[0]), [copy[j] for copy in loop.copies]) for j in sorted(loop.moving)
    ]
    given = [*[get(node) for node in fixed], *[get(loop.state[key]) for key in state], *rows]
    own = closed(stepped.inputs, stepped.outputs, "step")
    runs = [] if memory is None else run_lengths(own, len(fixed), len(state), copies, memory)
    found = scanned(graph, own, given, copies, len(fixed), len(state), reverse=False, runs=runs)
    final = {place: found[k] for k, (place, back) in enumerate(state) if back == 1}
    return dict(zip(wanted, found[len(state) :], strict=True)), final


def slides(row: Sequence[Node]) -> bool:
    """Whether things, one for each step, are slices of one array that begin elsewhere along one axis."""
    return all(node.op is slice_ and node.inputs == row[0].inputs for node in row) and bool(_slid_axes(row))


def rows_of(graph: Graph, row: Sequence[Node], get: Callable[[Node], Node]) -> Node:
    """Put things, one for each step, into an array; `get` says what stands for nodes."""
    if slides(row):
        return _slid_in(graph, get(row[0].inputs[0]), row)
    return _stacked_steps(graph, [copied(graph, n, ()) if n.is_constant else get(n) for n in row])


def _stacked_steps(graph: Graph, row: list[Node]) -> Node:
    """Put one thing for each step into an array."""
    if all(node.is_constant for node in row):
        return literal(graph, np.stack([node.params[0].array for node in row]))
    return _concatenated(graph, [make(graph, expand_dims, node, axes=(0,)) for node in row], 0)


def _slid_in(graph: Graph, x: Node, column: Sequence[Node]) -> Node:
    """Put slices of an array that begin at other places into rows."""
    axes, index = _slid_axes(column), list(column[0].params[0])
    begins = [[node.params[0][axis][0] for node in column] for axis in axes]
    windows, alone = [index[axis][1:] for axis in axes], len(axes) == 1
    even = alone and not windows[0] and _even_step(begins[0])
    for axis, own in zip(axes, begins, strict=True):
        index[axis] = (own[0], len(own), even) if even else (0, x.shape[axis], 1)
    made = make(graph, slice_, x, index=tuple(index))
    fronts = [sum([len(entry) == 3 for entry in index[:axis]]) for axis in axes]
    for k, window in reversed([*enumerate(windows)]):
        if even or not (window or alone):
            continue  # its axis is there, whole
        first = begins[k] if alone else sorted({*begins[k]})
        places = np.add.outer(first, window[1] * np.arange(window[0])) if window else np.array(first)
        made = written(graph, np.take, made, places, axis=fronts[k])
        begins[k] = [*map({start: m for m, start in enumerate(first)}.__getitem__, begins[k])]
    fronts = [front + sum(map(bool, windows[:k])) for k, front in enumerate(fronts)]
    order = (*fronts, *[d for d in range(len(made.shape)) if d not in fronts])
    made = made if [*order] == [*range(len(order))] else make(graph, transpose, made, axes=order)
    if alone:
        return made
    extents = made.shape[: len(axes)]
    made = written(graph, np.reshape, made, (math.prod(extents), *made.shape[len(axes) :]))
    rows = np.ravel_multi_index([*map(np.asarray, begins)], extents).tolist()
    if (step := _even_step(rows)):
        index = [(rows[0], len(rows), step), *whole(made.shape[1:])]
        return made if (*index,) == whole(made.shape) else make(graph, slice_, made, index=tuple(index))
    return written(graph, np.take, made, np.array(rows), axis=0)


def _even_step(places: Sequence[int]) -> int:
    """Return by how much each place is behind the one before; 0 where that differs."""
    step = places[1] - places[0]
    return step if [*places] == [places[0] + k * step for k in range(len(places))] else 0


# -- what reads all copies


def joined(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Copy a node; rows of one array that are put together again are that array, or a part of it."""
    if _concatenates(node):
        return _concatenated(graph, list(inputs), node.param("axis"))
    if node.op is assemble:
        return _assembled(graph, node, inputs)
    return copied(graph, node, inputs)


def _row_runs(rows: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield runs, as first and end, of rows ``(array, number)`` of one array that follow each other; others alone."""
    k = 0
    while k < len(rows):
        end = k + 1
        while end < len(rows) and None not in (rows[k], rows[end]) and rows[end] == (rows[k][0], rows[k][1] + end - k):
            end += 1
        yield k, end
        k = end


def _row_of(node: Node) -> tuple[Node, int] | None:
    """Return of which array a value is one row, and which."""
    if node.op is not slice_ or len(node.params[0][0]) != 1 or type(node.params[0][0][0]) is not int:
        return None
    x, rest = node.inputs[0], node.params[0][1:]
    return (x, node.params[0][0][0]) if rest == whole(x.shape[1:]) else None


def _to(graph: Graph, x: Node, axis: int) -> Node:
    """Move the first axis."""
    order = [*range(1, len(x.shape))]
    order.insert(axis, 0)
    return x if not axis else make(graph, transpose, x, axes=tuple(order))


def _concatenated(graph: Graph, parts: list[Node], axis: int) -> Node:
    rows = [_row_of(_part_of(p, axis)) for p in parts]
    made = []
    for k, end in _row_runs(rows):
        if end == k + 1:
            made.append(parts[k])
            continue
        x, row = rows[k]  # type: ignore[misc]  # it has
        several = _to(graph, rows_from(graph, x, row, end - k), axis)
        if _part_of(parts[k], axis) is parts[k]:
            shape = parts[k].shape
            several = make(graph, reshape, several, shape=(*shape[:axis], (end - k) * shape[axis], *shape[axis + 1 :]))
        made.append(several)
    return made[0] if len(made) == 1 else make(graph, concatenate, *made, axis=axis)


def _assembled(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    whole, *values = inputs
    indices = node.params[0]
    rows = [_row_of(value) for value in values]
    made, where = [], []
    for first, end in _row_runs(rows):
        k = first
        while k < end:
            grid = _grid(indices[k:end])
            count, index = math.prod([count for _, count, _ in grid]), list(indices[k])
            if count == 1:
                made.append(values[k])
            else:
                x, row = rows[k]  # type: ignore[misc]  # it has
                taken = rows_from(graph, x, row, count)
                if len(grid) > 1:
                    taken = written(graph, np.reshape, taken, (*[n for _, n, _ in grid], *taken.shape[1:]))
                for axis, n, step in grid:
                    index[axis] = (index[axis][0], n, step)
                moved = [axis for axis, *_ in grid]
                places = [sum([len(entry) == 3 for entry in index[:axis]]) for axis in moved]
                rest = iter(range(len(grid), len(taken.shape)))
                order = tuple([places.index(d) if d in places else next(rest) for d in range(len(taken.shape))])
                made.append(taken if [*order] == [*range(len(order))] else make(graph, transpose, taken, axes=order))
            where.append(tuple(index))
            k += count
    return make(graph, assemble, whole, *made, indices=tuple(where))


def _grid(indices: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Return how many of some indices are a grid: ``(axis, count, step)`` of its axes, the outermost first."""
    found: list[tuple[int, int, int]] = []
    block = 1
    while True:
        first, count = indices[0], 1
        at = next((d for d, (a, b) in enumerate(zip(first, indices[block], strict=True)) if a != b),
                  None) if block < len(indices) else None
        if at is None or len(first[at]) > 1 or at in {axis for axis, *_ in found}:
            return found
        step = indices[block][at][0] - first[at][0]
        while (count + 1) * block <= len(indices) and all(
            indices[count * block + m] == (*own[:at], (own[at][0] + count * step,), *own[at + 1 :])
            for m, own in enumerate(indices[:block])
        ):
            count += 1
        if count == 1:
            return found
        found.insert(0, (at, count, step))
        block *= count

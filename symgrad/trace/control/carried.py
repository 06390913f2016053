"""Plain numbers that a loop carries from round to round, where conditions on traced values decide what they are.

With ``lo, hi = 0.0, 2.0`` of a bisection Python itself computes, and each sequence of outcomes has other numbers. Where
the rounds of a loop were not one for such variables, the function is traced once more, and each round begins with
traced numbers in their place, of which `whiles` and `forks` make a loop. Python's own trace functions (`sys.settrace`)
see where a round begins and may set variables there, as debuggers do.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import chain
from operator import is_
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.ops.control import UNTOLD
from symgrad.ops.elementwise.selection import where
from symgrad.trace.constants import constant
from symgrad.trace.control.branches import LARGE, Branches, Moment
from symgrad.trace.control.reductions import Accumulator
from symgrad.trace.control.rounds import carried_names, falls_out, goes_round, left_names, loop_around, runs_out
from symgrad.trace.inplace.local import LocalArray
from symgrad.trace.lines import is_user_code, line_at
from symgrad.trace.state import Trace, Watch, current
from symgrad.trace.tracer import Tracer, as_node

Key = tuple[CodeType, int]

WEAK = {kind: kind for kind in (bool, int, float)}
"""Python's numbers, and what traced ones are in its arithmetic."""


def is_plain_number(value: Any) -> bool:
    """Whether a value is one of Python's numbers, or of NumPy's."""
    return type(value) in WEAK or (issubclass(type(value), np.generic) and value.dtype.kind in "biuf")


FORS, WHILES, LOST = 8, 3, 1
"""Of so many conditions a loop may be made; of fewer each is a path.

A loop in a `for` that may go where no round went counts as one, and is enough where a second call went another way.
"""


class Carrying:
    """Puts traced numbers in the place of plain ones where rounds of some loops begin.

    Attributes:
        loops: where they begin, and how far they go, by their code.
        carried: those that carry traced numbers; of others is seen where their rounds begin.
        broken: those that calls left by a `break` that goes on where they end by themselves; more are found.
        rounds, begun: the number of the round that a loop is in, and of the loop, by its frame.
        lists: those that loops only append to, and what they had, by their names.
        ending: the loop that has ended just now; else -1.
        traced: those that did so.
        told: whether code ran that may tell traced numbers from plain ones where it would say nothing.
    """

    def __init__(self, carried: set[Key], seen: Iterable[Key], broken: set[Key]) -> None:
        """Begin with none of them."""
        self.broken = broken
        self.loops: dict[CodeType, dict[int, int]] = {}
        self.carried = carried
        for code, head in {*carried, *seen}:
            self.loops.setdefault(code, {})[head] = loop_around(code, head)[1]
        self.rounds: dict[FrameType, dict[int, Node]] = {}
        self.begun: dict[FrameType, dict[int, int]] = {}
        self.lists: dict[tuple[FrameType, int], dict[str, tuple[list[Any], list[Any]]]] = {}
        self.told, self.ending = False, -1
        self.traced: set[Key] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See rounds begin in this thread."""
        if not self.loops:
            yield
            return
        here, before = sys._getframe(), sys.gettrace()  # noqa: SLF001 - Python's `settrace` looks who asks for opcodes
        here.f_trace_opcodes = True
        sys.settrace(Watch(self._called))
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        loops = self.loops.get(frame.f_code)
        if is_user_code(frame.f_globals.get("__file__") or frame.f_code.co_filename):  # not what a library generates
            self.told |= tells(frame.f_code)
        if loops is None:
            return None
        last, code = -1, frame.f_code
        begun = self.begun.setdefault(frame, {})
        around = {head: goes_round(code, head) for head in loops if (code, head) in self.carried}

        def runs(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                at = frame.f_lasti
                if last in begun and not last <= at <= loops[last] and (trace := current()) is not None:
                    trace.branches.ended(begun[last])  # type: ignore[union-attr]  # it had them when it began
                    if (code, last) in self.broken & self.carried:
                        self._end(trace, frame, last, begun[last], falls_out(code, last)[0])
                elif begun and last not in begun and any(last in own and at not in own for own in around.values()):
                    self._left(frame, begun, last, at)
                if at in loops and (trace := current()) is not None and trace.branches is not None:
                    goes_on = at in begun and at <= last <= loops[at]
                    variables = frame.f_locals  # asked for once more, they are as they were
                    if not goes_on:
                        begun[at], trace.branches.loops = trace.branches.loops, trace.branches.loops + 1
                    grown: dict[str, list[Any]] = {}
                    cells = {**variables}
                    if (frame.f_code, at) in self.carried:
                        grown = self._begin(trace, frame, variables, at, None if goes_on else begun[at])
                    trace.branches.head(trace, frame, variables, begun[at], grown, cells)
                last = at
            return runs

        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = runs, True, False
        return runs

    def _left(self, frame: FrameType, begun: dict[int, int], last: int, at: int) -> None:
        """Look whether loops are left for another instruction, without having run out."""
        code = frame.f_code
        for head in sorted(begun, reverse=True):
            around = goes_round(code, head)
            if last in around and at not in around and (code, head) in self.carried:
                trace = current()
                if trace is not None and trace.branches is not None and runs_out(code, head) is not None:
                    end, breaks = falls_out(code, head)
                    if at in breaks and (code, head) not in self.broken and trace.branches.lengths is not None:
                        self.broken.add((code, head))
                        trace.branches.lengths.again()
                    self._end(trace, frame, head, begun[head], end if at in breaks else at)

    def _end(self, trace: Trace, frame: FrameType, head: int, loop: int, at: int) -> None:
        """Put traced numbers in the place of the plain ones that are read where a loop is left for."""
        variables, self.ending = frame.f_locals, head
        cells = {**variables}
        self._begin(trace, frame, variables, head, None, at)
        trace.branches.head(trace, frame, variables, loop, {}, cells, at)  # type: ignore[union-attr]  # as above
        self.ending = -1

    def _begin(
        self, trace: Trace, frame: FrameType, variables: dict[str, Any], at: int, loop: int | None, left: int = -1,
    ) -> dict[str, list[Any]]:
        """Put traced numbers in the place of the plain ones that a round begins with, and of those that it appended.

        Each is its own. The number of a loop is given with its first round; the same run makes the same nodes. Where
        the loop was left for an instruction, this is done with what is read from there on.

        Returns:
            The lists that the round before has appended to, each with what it appended.
        """
        rounds = self.rounds.setdefault(frame, {})
        before: Any = Tracer(rounds[at] if loop is None else constant(trace, np.int64(~loop)), trace)
        rounds[at] = as_node(trace, before + 1 if loop is None else before - before)
        number: Any = Tracer(rounds[at], trace)
        count = 0
        line = line_at(frame, frame.f_lineno)

        def traced(value: Any) -> Any:
            nonlocal count
            kind = type(value)
            if kind is tuple:
                return tuple([traced(one) for one in value])
            if kind is LocalArray and value.nbytes <= LARGE:
                value.begin_traced()
            if kind is Tracer and value.owner is trace and value.is_number and runs_out(frame.f_code, at) is not None:
                node, weak = value.node, value.weak
            elif is_plain_number(value):
                node, weak = constant(trace, value), WEAK.get(kind)
                self.traced.add((frame.f_code, at))
            else:
                return value
            count -= 1  # no two are one node
            there = as_node(trace, number >= count)
            return Tracer(trace.graph.node(where, (there, node, node), (), (), node.dtype, line), trace, weak=weak)

        if loop is not None and left < 0 and trace.branches is not None and trace.branches.lengths is not None:
            trace.branches.lengths.accumulate(trace, frame, variables)
        for one in [one for one in variables.values() if type(one) is Accumulator]:
            one.count, one.values = traced(one.count), {name: traced(value) for name, value in one.values.items()}
        for name in carried_names(frame.f_code, at) if left < 0 else left_names(frame.f_code, at, left):
            if name in variables:
                variables[name] = traced(variables[name])
        if left >= 0:
            return {}
        if loop is not None:
            self.lists[frame, at] = {name: (own, [*own]) for name, own in variables.items() if type(own) is list}
        found: dict[str, list[Any]] = {}
        for name, (own, known) in [*self.lists[frame, at].items()]:
            if variables.get(name) is own and len(own) >= len(known) and all(map(is_, own, known)):
                own[len(known) :] = found[name] = [traced(one) for one in own[len(known) :]]
                known.extend(found[name])
            else:
                del self.lists[frame, at][name]  # it does something else
        return found

    def numbers(self, frame: FrameType) -> Mapping[Any, Node]:
        """Return the numbers of the rounds that a frame is in, as variables of no name."""
        loops, at = self.loops.get(frame.f_code, {}), frame.f_lasti
        own = self.rounds.get(frame, {})
        return {
            ("", ~head, 0): number for head, number in own.items() if head <= at <= loops[head] or head == self.ending
        }


class CarriedLoop(NamedTuple):
    """How many conditions of a loop are guards; its variables: plain numbers, and what else differs in its rounds."""

    guards: int
    numbers: tuple[str, ...]
    differ: tuple[str, ...]


def deciding(branches: Branches, program: Program) -> dict[Key, CarriedLoop]:
    """Find the loops whose conditions are guards, many of them, and that carry plain values or did not long ago."""
    groups: dict[Any, list[Moment]] = {}
    lost = set[tuple[FrameType, int]]()
    numbers = [node.param("number") for node in program.guards]
    rare = branches.are_rare(numbers)
    for number in numbers:
        moment = None if number in rare else branches.seen.get(number % UNTOLD)
        if moment is not None and not moment.counts and moment.around:
            fors = [(frame, head) for frame, head in moment.around if runs_out(frame.f_code, head) is not None]
            for place in dict.fromkeys([moment.around[0], *fors[:1]]):
                groups.setdefault(place, []).append(moment)
            lost |= {*fors[:1]} if number >= UNTOLD and branches.told else set()
    found: dict[Key, CarriedLoop] = {}
    for (frame, head), moments in groups.items():
        code = frame.f_code
        few = FORS if runs_out(code, head) is not None and not branches.told else WHILES
        if len(moments) < (LOST if (frame, head) in lost else few):
            continue
        names = carried_names(code, head)
        columns: dict[str, dict[Any, None]] = {}
        for moment in [one for one in moments if one.frame is frame]:
            leaves: dict[str, list[Any]] = {}
            for (name, tree, k), value in moment.variables.items():
                if name in names or (name and getattr(tree, "type", None) in {list, dict}):
                    leaves.setdefault(name, []).append((k, None if isinstance(value, Node) else value))
            for name, values in leaves.items():
                columns.setdefault(name, {})[tuple(values)] = None
        plain = {
            name: [[getattr(v, "value", v) for _, v in values if v is not None] for values in own]
            for name, own in columns.items()
        }
        loop = CarriedLoop(
            len(moments),
            tuple([name for name in names if any(map(is_plain_number, chain(*plain.get(name, ()))))]),
            tuple([
                name for name, own in plain.items() if sum(map(bool, own)) > 1 or len({*map(len, columns[name])}) > 1
            ]),
        )
        if loop.numbers or loop.differ or runs_out(code, head) is not None or (
            branches.carrying is not None and head in branches.carrying.loops.get(code, ())
        ):
            found[code, head] = loop
    return found


@cache
def tells(code: CodeType) -> bool:
    """Whether a user's code may tell traced numbers from plain ones, by `type`, ``is True`` or what they have."""
    every = [*dis.get_instructions(code)]
    return any(
        (one.opname.startswith("LOAD_") and one.argval in _ASKS) or (two.opname == "IS_OP" and one.argval is not None)
        for one, two in zip(every, [*every[1:], *every[-1:]], strict=True)
    )


_ASKS = frozenset({"type", "id", "hasattr", "getattr"})

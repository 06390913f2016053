"""A `for` over ``range(n)`` of a traced integer, or over an open extent: one loop for any number of rounds.

Python's `range` wants a plain integer. Where a `for` asks it for a traced one, the function is traced again with a
stand-in for `range` among the names of its module, which counts by a traced number; a few rounds are traced, however
many the call has. Each leaves a guard, as a round of a `while` does, and `whiles` makes one loop of them. Where it
does not, or where a round wants a plain number, the function is traced with plain ones, and each length is a path.
"""

from __future__ import annotations

import builtins
import copy
import dis
import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import CodeType, FrameType, GeneratorType
from typing import Any

import numpy as np

from symgrad.errors import Line
from symgrad.ir.index.shapes import is_static, smaller
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.ops.control import UNTOLD
from symgrad.trace.constants import constant
from symgrad.trace.control.branches import CALLERS, Branches
from symgrad.trace.control.carried import deciding
from symgrad.trace.control.reductions import EXTREMES, FOLDED, Accumulator, folded
from symgrad.trace.control.rounds import loop_around, reduced_lists
from symgrad.trace.lines import asks_for_caller, callee, is_user_code, place_of
from symgrad.trace.numpy.creation import steps_between
from symgrad.trace.numpy.replaced import Replaced
from symgrad.trace.state import Trace, current
from symgrad.trace.tracer import Extent, Tracer, as_node

LEAST = 5
"""So many rounds are traced of a loop of any length: in the last ones all variables are those of the round before."""


class TraceAgain(BaseException):
    """The function is to be traced again: a loop is taken for something else."""


class Lengths:
    """What is known of a function's loops from one trace to the next.

    Attributes:
        modules: the names of modules, and those of them that have a stand-in.
        plain: loops that count by plain numbers, as far as this is known of any length.
        now: those that do so in this call.
        exact: loops that end by a condition, of which no round is traced that the call has not.
        carried: loops that carry plain numbers, which are traced.
        served: those of them that became loops so, in some call.
        idle: those of them where they are not in this call, which an exception ended.
        resting: those that have plain numbers in this call, as no loop was made of them.
        tried: loops that count which were let carry traced numbers in this call.
        differing: plain variables of loops that were seen to decide by such.
        expected: what a call gives with its plain numbers, while it is seen whether others give the same.
        ways: those that rounds of loops went, with what each `while` in them asked or without.
        broken: loops that some call left by a `break` that goes on where they end by themselves.
        kinds: of numbers in lists of which a loop carries what is asked of them; False where they have several.
        longer: loops of which a `while` in the rounds is none of its own.
        whole: whether all rounds of a call are traced, for what comes behind a loop asks for values.
        seeks: whether it looks for loops.
        aside: stand-ins that are left out after an exception, until it is known whether it was theirs.
        changes: how often any of this changed.
    """

    def __init__(self) -> None:
        """Begin with plain numbers."""
        self.modules: dict[tuple[int, str], dict[str, Any]] = {}
        self.plain: set[tuple[CodeType, int]] = set()
        self.now: set[tuple[CodeType, int]] = set()
        self.exact: set[tuple[CodeType, int]] = set()
        self.carried: set[tuple[CodeType, int]] = set()
        self.served: set[tuple[CodeType, int]] = set()
        self.idle: set[tuple[CodeType, int]] = set()
        self.resting: set[tuple[CodeType, int]] = set()
        self.tried: set[tuple[CodeType, int]] = set()
        self.differing: dict[tuple[CodeType, int], tuple[str, ...]] = {}
        self.ways: dict[tuple[CodeType, int, bool], dict[Any, None]] = {}
        self.longer: set[tuple[CodeType, int]] = set()
        self.broken: set[tuple[CodeType, int]] = set()
        self.kinds: dict[tuple[CodeType, str], Any] = {}
        self.expected: list[Any] | None = None
        self.whole, self.seeks = False, True
        self.aside: dict[tuple[int, str], Any] = {}
        self.changes = 0

    def copied(self) -> Lengths:
        """Return what is known now: more traces leave it as it is."""
        other = Lengths()
        other.__dict__ |= {name: copy.copy(value) for name, value in self.__dict__.items()}
        return other

    def begin(self) -> None:
        """Begin with another call."""
        self.now, self.idle, self.resting, self.tried = set(), set(), set(), set()
        if self.aside:  # the exception was the user's
            self.modules, self.seeks, self.aside = self.modules | self.aside, True, {}

    def seek(self, frame: FrameType) -> None:
        """Trace again, with stand-ins, where a frame's `for` asks `range` for plain numbers, or `max` for more."""
        names, code = frame.f_globals, frame.f_code
        (name,) = one if len(one := callee(code, frame.f_lasti) or ()) == 1 else ("",)
        head, around = heading(code, frame.f_lasti) or (None, ())
        wanted = {*around, name} - {""}
        own = wanted.intersection(names, code.co_varnames + code.co_freevars + code.co_cellvars)
        known = all((id(names), one) in self.modules for one in wanted)
        if not self.seeks:
            return
        if wanted <= _STAND_INS.keys() and not own and not known and (
            name in {"len", "int", *EXTREMES, *FOLDED} or (head is not None and (code, head[0]) not in self.now)
        ):
            self.modules |= {(id(names), one): names for one in wanted}
            self.again()
        if code.co_name == "<genexpr>" and frame.f_back is not None:
            self.seek(frame.f_back)  # a condition in what is summed

    def seek_around(self, frame: FrameType) -> None:
        """Do so for a frame that asks a condition, and for what sums where that is asked for a generator expression."""
        self.seek(frame)
        up = frame.f_back
        for _ in range(CALLERS):
            if up is None or not is_user_code(up.f_code.co_filename):
                break
            if up.f_code.co_name == "<genexpr>":
                self.seek(up)
            up = up.f_back

    def accumulate(self, trace: Trace, frame: FrameType, variables: dict[str, Any]) -> None:
        """Put what is asked of lists of numbers in their place, where nothing else is."""
        names, code = frame.f_globals, frame.f_code
        for name, asked in reduced_lists(code).items():
            own, key = variables.get(name), (code, name)
            if type(own) is not list or not asked or self.kinds.get(key) is False or not self.seeks:
                continue
            every = [(id(names), one) for one in asked & _STAND_INS.keys()]
            missing = {one: names for one in every if one not in self.modules}
            if missing and not names.keys().isdisjoint([one for _, one in missing]):
                continue  # the user has others of these names
            if missing:
                self.modules |= missing
                self.again()
            variables[name] = made = Accumulator(trace, asked, self.kinds.get(key), functools.partial(self.learn, key))
            for one in own:
                made.append(one)

    def learn(self, key: tuple[CodeType, str], kind: Any) -> None:
        """Trace again, where the items of a list are of another kind than was known."""
        known = self.kinds.get(key)
        first = known is None or (known and known[1] and kind and not kind[1])  # or there were Python's numbers only
        self.kinds[key] = kind if kind and first else False
        self.again()

    def part(self, x: Tracer, index: slice, frame: FrameType) -> TracedRounds | Counted | None:
        """Return what goes through the rows between bounds of which one is traced, where a `for` in a frame does."""
        if heading(frame.f_code, frame.f_lasti) is None or not is_static(x.node.shape) or index.step not in {None, 1}:
            return None
        self.seek(frame)
        length = x.node.shape[0]
        given = [*map(_wide, (0 if index.start is None else index.start, length if index.stop is None else index.stop))]
        found: list[Any] = [np.clip(np.where(end < 0, end + length, end), 0, length) for end in given]
        ends: list[Any] = [end if type(end) is Tracer else int(end) for end in found]
        return steps_in(x.owner, frame, (*ends, 1), lambda k: x[ends[0] + k], lambda: x[slice(*[
            end.as_index() if type(end) is Tracer else end for end in (index.start, index.stop)
        ])])

    def rows(self, x: Tracer, length: Extent, frame: FrameType) -> TracedRounds | Counted | None:
        """Return what goes through the rows of an array of an open extent, where a `for` in a frame does."""
        self.seek(frame)
        goes = dis.opname[frame.f_code.co_code[frame.f_lasti]] == "GET_ITER"
        head = heads(frame.f_code).get(frame.f_lasti) if goes else None
        if head is not None and (frame.f_code, head[0]) in self.now:
            raise length.refuse(
                "a for statement whose rounds are not all the same (a list grows, or Python reads a list at a number "
                "that they change)", "np.take(table, n) in the place of table[n], sg.scan, or ",
            )
        return steps_in(x.owner, frame, (0, length, 1), x.__getitem__, lambda: x) if goes else None

    def again(self) -> None:
        """Trace again, even if an exception handler of the user's goes on."""
        self.changes += 1
        raise TraceAgain

    def are_wrong(self, branches: Branches, program: Program) -> bool:
        """Whether a program depends on how many rounds were traced: loops of which guards are left, or that break."""
        self.aside = {}
        beyond = {steps.key for steps in branches.steps if steps.is_beyond()} - self.exact
        self.exact |= beyond
        guards = {node.param("number") for node in program.guards}
        longer = {
            fork.key for fork in branches.forks
            if fork.key and any(node.param("number") in guards for own in fork.guards for node in own)
        }
        self.longer |= longer  # none is None
        left = {branches.counts.get(number % UNTOLD) for number in guards} - {None}
        plain = self._are_plain([steps for steps in branches.steps if steps.key in left])
        wrong = bool(beyond) or bool(longer) or plain
        return wrong or self._carry(branches, program)

    def _carry(self, branches: Branches, program: Program) -> bool:
        """Whether to trace again: loops decide by plain numbers and may carry traced ones, or should not do so."""
        self.carried -= self.idle  # without it there was no exception
        before, loops = ({*self.carried}, len(self.differing)), deciding(branches, program)
        every = [one.around[0] for one in branches.seen.values() if one.around]
        asked = Counter([(frame.f_code, head) for frame, head in every])
        left = {key: loop.guards for key, loop in loops.items()}
        self.served |= {key for key in self.carried & asked.keys() if left.get(key, 0) * 2 < asked[key]}
        lost = self.carried & loops.keys() - self.served  # others are too short, or go one way only, in this call
        told = branches.carrying is not None and branches.carrying.told
        traced = set() if branches.carrying is None else branches.carrying.traced
        rests = {key for key in traced & self.served if left.get(key, 0) * 2 >= asked[key] > 0}
        self.resting |= rests  # traced integers have 64 bits, also where they are in no loop
        if self.expected is not None or told:
            found = [branches.value(node) for node in branches.outputs]
            same = not told and all(  # but for roundings
                one is not None and np.allclose(one, other, rtol=1e-9, atol=1e-300, equal_nan=True)
                for one, other in zip(found, self.expected or (), strict=False))
            lost, self.expected = lost if same else {*self.carried}, None
        self.carried -= lost
        for key, loop in loops.items():
            if key not in self.differing:
                self.carried.add(key)
            self.differing.setdefault(key, loop.differ)
        if self.carried - before[0] and not branches.is_longer:
            expected = [branches.value(node) for node in branches.outputs]
            self.expected = None if any(value is None for value in expected) else expected
        return bool(rests) or (self.carried, len(self.differing)) != before

    def differ(self, line: Line | None) -> list[str]:
        """List plain variables of loops at a line, which are paths for each of their values."""
        if line is None:
            return []
        found: dict[str, None] = {}
        for (code, head), names in self.differing.items():
            lines = {n for first, end, n in code.co_lines() if end > head and first <= loop_around(code, head)[1]}
            if code.co_filename == line.file and line.number in lines and (code, head) not in self.carried:
                found |= dict.fromkeys(names)
        return [*found]

    def are_why(self, branches: Branches) -> bool:
        """Whether loops may be why a trace ended by an exception: the last one that runs, all, or the stand-ins."""
        if not branches.steps and self.modules:
            self.aside, self.modules, self.seeks = self.modules, {}, False
            return True
        if self.carried - self.idle and not branches.steps:
            self.idle, self.expected = {*self.carried}, None
            return True
        running = [steps for steps in branches.steps if not steps.ended]
        return self._are_plain(running[-1:] or branches.steps)

    def _are_plain(self, loops: Sequence[TracedRounds]) -> bool:
        """Let loops count by plain numbers, if there are some; but first let them carry traced ones."""
        first = {steps.key for steps in loops} - self.carried - self.tried
        self.carried |= first
        self.tried |= first
        if not first:
            self.carried -= self.tried - self.served  # traced integers have 64 bits
            self.now |= {steps.key for steps in loops}
            self.plain |= {steps.key for steps in loops if steps.actual is None or steps.actual >= LEAST}
        return bool(loops)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Let loops count by traced numbers."""
        there, self.now = [*self.modules.items()], self.now | self.plain
        with _lock:
            for key, names in there:
                _users[key] += 1
                names[key[1]] = _STAND_INS[key[1]]
        try:
            yield
        finally:
            with _lock:
                for key, names in there:
                    _users[key] -= 1
                    if not _users[key] and names.get(key[1]) is _STAND_INS[key[1]]:
                        del names[key[1]]


_lock, _users = threading.Lock(), Counter[tuple[int, str]]()


@cache
def heads(code: CodeType) -> dict[int, tuple[int, int]]:
    """Map calls and iterations that a `for` goes over to where it takes the next item, and where it ends."""
    every = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]  # of far jumps
    found: dict[int, tuple[int, int]] = {}
    for one, two, three in zip(every, every[1:], every[2:], strict=False):
        if (two.opname, three.opname) == ("GET_ITER", "FOR_ITER"):
            found |= dict.fromkeys((one.offset, one.offset - 4, two.offset), (three.offset, three.argval))  # PRECALL
    return found


@cache
def heading(code: CodeType, at: int) -> tuple[tuple[int, int], tuple[str, ...]] | None:
    """Return the `for` that goes over what an instruction gives, and functions of iterables that are between.

    Those of ``for i, (k, v) in enumerate(zip(range(n), x))`` are `enumerate` and `zip` for the call of `range`.
    """
    if at in heads(code):
        return heads(code)[at], ()
    every = [(i, place_of(i) or _NOWHERE) for i in dis.get_instructions(code)]
    begin, end = own = next((place for i, place in every if i.offset == at), _NOWHERE)
    around = [i for i, place in every if i.offset > at and place != own and place[0] <= begin and end <= place[1]]
    calls = [k for k, i in enumerate(around) if i.offset in heads(code) and i.opname.startswith("CALL")]
    if own == _NOWHERE or not calls:
        return None
    between = [i for i in around[: calls[0] + 1] if i.opname not in {"PRECALL", "KW_NAMES", "EXTENDED_ARG"}]
    names = [(callee(code, i.offset) or ("",))[-1] if i.opname == "CALL" else "" for i in between]
    return (heads(code)[between[-1].offset], tuple(names)) if _AROUND.issuperset(names) else None


_NOWHERE = (0, 0), (0, 0)


_AROUND = frozenset({"enumerate", "zip", "reversed"})


class _StandIn(Replaced):
    """The stand-in for one of Python's own: it counts by a traced number where a `for` goes over what it gives."""

    @asks_for_caller
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what there is, where nothing is traced."""
        trace = current()
        if trace is None or (self.name not in EXTREMES and not _TRACED.intersection(map(type, args))):
            return self.original(*args, **kwargs)
        found = self.when_traced(trace, sys._getframe(1), *args, **kwargs)  # noqa: SLF001 - who asks
        if found is None and self.original is range:
            args = tuple([end.as_index() if type(end) is Tracer else end for end in args])
        return self.original(*args, **kwargs) if found is None else found

    def __reduce__(self) -> Any:
        return getattr, (builtins, self.name)


def _wide(end: Any) -> Any:
    """Return a bound as Python's integers are reckoned with: a few bits do not hold how far two bounds are apart."""
    if type(end) is not Tracer or end.dtype.kind not in "iu" or end.dtype == np.int64:
        return end
    end = np.minimum(end, np.uint64(np.iinfo(np.int64).max)) if end.dtype == np.uint64 else end
    return end.astype(np.int64)


def _range(trace: Trace, frame: FrameType, *ends: Any) -> TracedRounds | Counted | None:
    start, stop, step = map(_wide, ends if len(ends) == 3 else (*([0] * (2 - len(ends))), *ends, 1))

    def number(k: Tracer) -> Any:
        found = k if step == 1 else k * step
        found = found if type(start) is int and not start else start + found
        found.weak = int
        return found

    return steps_in(trace, frame, (start, stop, step), number, lambda: range(*[
        end.as_index() if type(end) is Tracer else end for end in ends
    ]))


def _traced_rows(trace: Trace, x: Any) -> Counted | None:
    """Return how many rows something has, and each by a traced number; None where rows have no such numbers."""
    if type(x) is Counted:
        return x
    if (length := _open_rows(x)) is not None:
        return Counted(trace, (0, length, 1), x.__getitem__, lambda: x)
    if type(x) is Tracer and x.ndim:
        return Counted(trace, (0, int(x.shape[0]), 1), x.__getitem__, lambda: x)
    return None


def _open_rows(x: Any) -> Any:
    """Return how many rows an array has, where that is an open extent."""
    length = x.shape[0] if type(x) is Tracer and x.ndim else None
    return length if type(length) is Extent else None


def _int(trace: Trace, frame: FrameType, x: Any) -> Any:
    """Return a traced integer as it is, where only ranges are made of it."""
    if type(x) is not Tracer or x.ndim:
        return None
    if x.dtype.kind in "iu" and is_for_ranges(frame.f_code, frame.f_lasti):
        return Tracer(as_node(trace, x), trace, weak=int)
    return x.as_int()


@cache
def is_for_ranges(code: CodeType, at: int) -> bool:
    """Whether what a call gives is only what `range` is called with, maybe by a name."""
    every = [i for i in dis.get_instructions(code) if i.opname != "PRECALL"]
    at = next((k for k, i in enumerate(every) if i.offset >= at and i.opname.startswith("CALL")), len(every))
    ahead = every[at + 1 : at + 2]
    if ahead and ahead[0].opname == "STORE_FAST":
        name = ahead[0].argval
        if sum(i.argval == name and not i.opname.startswith("LOAD_FAST") for i in every) > 1:
            return False
        ahead = [two for one, two in pairwise(every) if one.argval == name and one.opname.startswith("LOAD_FAST")]
    return all(i.opname.startswith("CALL") and callee(code, i.offset) == ("range",) for i in ahead)


def _enumerate(trace: Trace, frame: FrameType, x: Any, start: Any = 0) -> Any:
    rows = _traced_rows(trace, x)
    if rows is None or rows.is_plain:
        return None
    return steps_in(trace, frame, rows.bounds, lambda k: (k + start, rows.item(k)), lambda: enumerate(x, start))


def _zip(trace: Trace, frame: FrameType, *xs: Any, strict: bool = False) -> Any:
    rows = [one for x in xs if (one := _traced_rows(trace, x)) is not None]
    if len(rows) < len(xs) or all(one.is_plain for one in rows):
        return None
    ends = [one.counted()[1] for one in rows]
    if Extent in map(type, ends) and Tracer not in map(type, ends):
        dims = [getattr(end, "dim", end) for end in ends]
        end: Any = Extent(functools.reduce(smaller, dims), trace)
        if strict and any(dim != end.dim for dim in dims):
            return None
    elif strict or Extent in map(type, ends):
        return None
    else:
        end = functools.reduce(np.minimum, ends)
    return steps_in(
        trace, frame, (0, end, 1), lambda k: tuple([one.item(k) for one in rows]), lambda: zip(*xs, strict=strict),
    )


def _reversed(trace: Trace, frame: FrameType, x: Any) -> Any:
    rows = _traced_rows(trace, x)
    if rows is None or rows.is_plain:
        return None
    bounds = rows.counted()
    return steps_in(trace, frame, bounds, lambda k: rows.item(bounds[1] - 1 - k), lambda: reversed(rows))


_WHEN_TRACED: dict[str, Callable[..., Any]] = {
    "range": _range, "int": _int, "enumerate": _enumerate, "zip": _zip, "reversed": _reversed,
    "len": lambda _trace, _frame, x: x.count if type(x) is Accumulator else _open_rows(x),
    "sum": lambda _trace, frame, x, start=0: (
        x.values["sum"] if type(x) is Accumulator else folded("sum", frame, x, start)),
    "any": lambda _trace, frame, x: folded("any", frame, x),
    "all": lambda _trace, frame, x: folded("all", frame, x), **EXTREMES,
}
_STAND_INS = {name: _StandIn(getattr(builtins, name), name, answer) for name, answer in _WHEN_TRACED.items()}


class Counted:
    """What `zip` and its like get in a `for` in the place of plain numbers, or of a part of an array.

    Attributes:
        bounds: as of a range; how many there are is what matters.
        item: what there is at a number.
        plain: makes what Python itself would go over.
        is_plain: whether how many there are is a plain number.
    """

    def __init__(
        self, trace: Trace, bounds: Any, item: Callable[[Tracer], Any], plain: Callable[[], Iterable[Any]],
    ) -> None:
        self.trace, self.bounds, self.item, self.plain = trace, bounds, item, plain
        self.is_plain = all(type(end) is int for end in bounds)

    def counted(self) -> Any:
        """Return the same bounds from 0 on, by steps of 1."""
        return self.bounds if self.bounds[0] == 0 and self.bounds[2] == 1 else (0, many(self.trace, *self.bounds), 1)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plain())

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self.plain())  # type: ignore[call-overload,no-any-return]  # as of what Python has

    def __len__(self) -> int:
        return len(self.plain())  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        return self.plain()[index]  # type: ignore[index]


_TRACED = frozenset({Tracer, Extent, Counted, Accumulator, GeneratorType})


def many(trace: Trace, start: Any, stop: Any, step: int) -> Any:
    """Return how many numbers a range has."""
    if Tracer not in map(type, (start, stop)):
        return Extent(steps_between(*[getattr(end, "dim", end) for end in (start, stop, step)]), trace)
    span = stop - start if step > 0 else start - stop
    return np.maximum(span if abs(step) == 1 else (span + (abs(step) - 1)) // abs(step), 0).astype(np.int64)


def steps_in(
    trace: Trace, frame: FrameType, bounds: Any, item: Callable[[Tracer], Any], plain: Callable[[], Iterable[Any]],
) -> TracedRounds | Counted | None:
    """Return what a `for` in a frame goes over instead of plain numbers, or `zip` there; None where it should not."""
    (head, around), branches = heading(frame.f_code, frame.f_lasti) or (None, ()), trace.branches
    if head is None or branches is None or branches.lengths is None or branches.policy is not None:
        return None
    whole = all(
        type(end) in {int, Extent} or (type(end) is Tracer and end.owner is trace and not end.ndim
                                       and end.dtype.kind in "iu") for end in bounds[:2]
    )
    if not whole or type(bounds[2]) is not int or not bounds[2] or (frame.f_code, head[0]) in branches.lengths.now:
        return None
    return Counted(trace, bounds, item, plain) if around else TracedRounds(trace, frame, head, bounds, item)


class TracedRounds:
    """Goes through a loop whose number of rounds is traced, with a traced number in each.

    Attributes:
        frame, at, end: where it runs; which instruction takes the next item, and which follows the loop.
        item: what a `for` gets in a round of some number.
        dim: the number of rounds, where it is made of open extents; else None.
        count, number: the number of rounds, and of this one, as nodes.
        actual: how many rounds the call has, where that is known.
        begun: how many have begun.
        ended: whether it went through all.
    """

    def __init__(self, trace: Trace, frame: FrameType, head: tuple[int, int], bounds: Any, item: Any) -> None:
        """Begin before the first round."""
        branches = trace.branches
        assert branches is not None  # noqa: S101 - as asked for
        self.trace, self.frame, (self.at, self.end), self.item = trace, frame, head, item
        count = many(trace, *bounds)
        self.dim = count.dim if type(count) is Extent else None
        self.count = as_node(trace, count)
        branches.steps.append(self)
        serial = constant(trace, np.int64(len(branches.steps)))  # no other loop counts by these nodes
        self.number = as_node(trace, np.subtract(Tracer(serial, trace), Tracer(serial, trace)))
        found = branches.value(self.count)
        self.actual = None if found is None else int(found)
        self.begun, self.ended, self.before = 0, False, branches.asked
        self.guards: list[int] = []

    @property
    def key(self) -> tuple[CodeType, int]:
        """What it is known by in other traces."""
        return self.frame.f_code, self.at

    def is_beyond(self) -> bool:
        """Whether it was left in a round that the call has not."""
        return not self.ended and self.actual is not None and self.begun > self.actual

    def holds(self, frame: FrameType) -> bool:
        """Whether a frame is in a round of it."""
        return not self.ended and frame is self.frame and self.at <= frame.f_lasti < self.end

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        branches: Any = self.trace.branches
        least = LEAST
        if self.actual is not None and self.key in branches.lengths.exact:
            least = self.actual
        elif self.actual is not None and (branches.lengths.whole or branches.asked > self.before):
            least = max(LEAST, self.actual)  # what is asked in a round, all say
        goes_on = self.begun < least
        number: Any = Tracer(self.number, self.trace, weak=int)
        node = as_node(self.trace, np.less(number, Tracer(self.count, self.trace)))
        sure = goes_on and self.actual is not None and self.begun < self.actual
        self.guards.append(branches.count(self.trace, node, self.frame, goes_on, None if sure else self.key))
        if not goes_on:
            self.ended = True
            self._end(branches)
            raise StopIteration
        self.begun += 1
        self.number = as_node(self.trace, number + 1)
        return self.item(number)

    def _end(self, branches: Branches) -> None:
        """Say what the variables are behind the loop: as after the rounds that the call has."""
        if self.actual is None or self.begun == self.actual:
            return
        last = branches.moments[self.guards[-1]].variables
        if self.begun < self.actual:
            branches.unknown |= {node for node in last.values() if isinstance(node, Node)}
            return
        own = branches.moments[self.guards[self.actual]].variables
        branches.replace({node: own[name] for name, node in last.items() if isinstance(node, Node) and name in own})

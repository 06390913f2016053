"""Python's own branches: a condition on traced values comes to what it does at the arguments of the call.

The interpreter computes it, Python goes its way, and a guard is recorded: the program that is compiled looks whether
the condition comes to the same, and a call where it does not goes to the path that fits.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from symgrad.errors import Line, UnsupportedError
from symgrad.ir.evaluate import computed
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program
from symgrad.ops.control import guard
from symgrad.trace.constants import held
from symgrad.trace.control.forks import ASKED, Enough, Fork, Head, Policy
from symgrad.trace.control.reductions import Accumulator
from symgrad.trace.control.rounds import (
    begun_at,
    contents,
    goes_round,
    led_to,
    loop_around,
    loops_around,
    position,
    turns,
)
from symgrad.trace.lines import is_user_code, user_frame, user_line
from symgrad.trace.nested import settled
from symgrad.trace.signature import flatten
from symgrad.trace.state import Trace
from symgrad.trace.tracer import Tracer, as_node

if TYPE_CHECKING:
    from symgrad.trace.control.carried import Carrying
    from symgrad.trace.control.lengths import Lengths, TracedRounds


class Branch(NamedTuple):
    """What a condition, or an integer that Python asked for, came to.

    Attributes:
        place: the user's line that asked, and how often it had asked before.
    """

    outcome: bool | int
    place: tuple[Line | None, int]

    @property
    def line(self) -> Line | None:
        """The user's line."""
        return self.place[0]


def branches_of(program: Program) -> dict[int, Branch]:
    """Return what a program's guards look for, by their numbers, as far as the program says it."""
    counts: Counter[Line | None] = Counter()
    found = {}
    for node in program.guards:
        found[node.param("number")] = Branch(node.param("outcome"), (node.line, counts[node.line]))
        counts[node.line] += 1
    return found


@contextmanager
def level(branches: Branches | None) -> Iterator[list[Node]]:
    """Gather the guards of a program while it is traced."""
    guards: list[Node] = []
    if branches is None:
        yield guards
        return
    branches.levels.append(guards)
    try:
        yield guards
    except BaseException:
        if guards:
            branches.lost = guards[0].line
        raise
    finally:
        branches.levels.pop()


Loops = dict[tuple[FrameType, int, int], int]
"""Loops, the innermost first: the frame, where each begins, its number where rounds are seen; and where it ends."""

CALLERS = 8
"""So many callers of code that asks may have the loop it asks in."""


class Moment(NamedTuple):
    """Where Python asked what a condition comes to, and what its variables were then.

    Attributes:
        code, at: the code that asked, and which of its instructions.
        frame: tells the calls of the code apart; kept, so that no other call gets its identity.
        variables: the nodes of traced variables, and what plain ones are, by name and place in a structure.
        globals: of the code.
        clock: how often anything had been asked.
        again: in this run, when one was asked again that had been asked of the same nodes, and its number; shared.
        around: the loops around, of the code or of what called it, the innermost first: the call, and where it begins.
        within: the loops that count by a traced number around, the outermost first; of each the number of the round and
            how many there are are variables of no name.
    """

    code: CodeType
    at: int
    frame: FrameType
    variables: dict[tuple[str, Any, int], Any]
    globals: dict[str, Any]
    clock: int = 0
    again: Sequence[tuple[int, int]] = ()
    around: tuple[tuple[FrameType, int], ...] = ()
    within: tuple[TracedRounds, ...] = ()

    @property
    def counts(self) -> TracedRounds | None:
        """The loop that asks, where it is one that counts by a traced number."""
        return self.within[-1] if self.within and self.within[-1].at == self.at else None


MANY = 64
"""A structure of more leaves is one thing: what it holds is not followed from moment to moment."""


SMALL = 1 << 12
"""Plain arrays of so few bytes are known by what they hold."""


LARGE = 1 << 20
"""Arrays that are made while a function is traced are constants up to so many bytes, where a loop may write them."""


_STRUCTURES = frozenset({list, tuple, dict})


def _has_few(value: Any) -> bool:
    """Whether a structure has at most `MANY` leaves; no more of it is looked at."""
    count, stack = 0, [value]
    while stack and count + len(stack) <= 2 * MANY:
        item = stack.pop()
        if type(item) not in _STRUCTURES:
            count += 1
        elif len(item) <= MANY:
            stack += item.values() if type(item) is dict else item
        else:
            return False
    return not stack and count <= MANY


def moment(
    trace: Trace, frame: FrameType, variables: Mapping[str, Any], *, arrays: bool = False,
    cells: Mapping[str, Any] | None = None,
) -> Moment:
    """Note what a frame of the user's code has in its variables; of local `arrays`, not yet traced, what they hold.

    Functions in the code see the `cells` of variables, until what was put in the place of these is seen by all.
    """
    cells = variables if cells is None else cells
    found: dict[tuple[str, Any, int], Any] = {}
    for name, value in variables.items():
        values: list[Any] = [value]
        tree: Any = None
        if type(value) is Accumulator:
            values, tree = [value.count, *value.values.values()], Accumulator
        elif type(value) in _STRUCTURES and _has_few(value):
            values, tree = flatten(value)
        for k, leaf in enumerate(values):
            if type(leaf) not in _STRUCTURES:  # one of many leaves
                own = settled(leaf)  # as it is now
                plain = arrays and own is not leaf and type(own) is np.ndarray
                if plain and own.nbytes <= LARGE and own.dtype.kind in "fiub":
                    own = Tracer(held(trace, own.copy()), trace)
                leaf = own  # noqa: PLW2901
            if type(leaf) is Tracer:
                found[name, tree, k] = as_node(trace, leaf) if leaf.owner is trace else leaf
            else:
                found[name, tree, k] = leaf if type(leaf) in {bool, int, float, str} else Opaque(leaf, cells)
    running = () if trace.branches is None else trace.branches.steps
    within = tuple([steps for steps in running if steps.holds(frame)])
    for steps in within:
        found["", steps.at, 0], found["", steps.at, 1] = steps.number, steps.count
    if trace.branches is not None and trace.branches.carrying is not None:
        found |= trace.branches.carrying.numbers(frame)
    clock, again = (0, ()) if trace.branches is None else (trace.branches.clock, trace.branches.again)
    at = begun_at(frame.f_code, frame.f_lasti)
    return Moment(frame.f_code, at, frame, found, frame.f_globals, clock, again, within=within)


class Opaque:
    """A variable that is known by its identity, as a small plain array by what it holds, or a function by its code.

    A function that is made anew in each run of the code around it is the same where it has the same values from there,
    or the variables of that code.
    """

    def __init__(self, value: Any, cells: Mapping[str, Any]) -> None:
        """Keep it, so that no other one gets its identity."""
        self.value = value
        small = type(value) is np.ndarray and value.nbytes <= SMALL and not value.dtype.hasobject
        self.key: Any = (value.dtype, value.shape, value.tobytes()) if small else id(value)
        if type(value) is FunctionType and not value.__dict__:
            self.key = _made_of(value, {}, cells)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same thing."""
        return isinstance(other, Opaque) and other.key == self.key

    def __hash__(self) -> int:
        """Hash what it is known by."""
        return hash(self.key)


def _made_of(value: FunctionType, around: dict[FunctionType, int], cells: Mapping[str, Any]) -> Any:
    """Return the code of a function, and what it has from the code around it, functions of which have some as well."""
    if value in around:
        return around[value]
    inside = {**around, value: len(around)}

    def known(name: str, one: Any) -> Any:
        if name and cells.get(name, _NOTHING) is one:
            return name
        if type(one) is Tracer:
            return one.node
        return _made_of(one, inside, cells) if type(one) is FunctionType else Opaque(one, cells).key

    defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    own = [known(name, one) for name, one in contents(value).items()]
    return value.__code__, *own, *[known("", one) for one in defaults]


_NOTHING = object()


def _is_open(param: Any) -> bool:
    """Whether an extent that is not known is a parameter, or part of one."""
    return any(map(_is_open, param)) if isinstance(param, tuple) else bool(getattr(param, "free_symbols", False))


class Branches:
    """The values of a trace at one call's arguments, as far as Python asks for them, and what it asked, in order.

    Attributes:
        arrays: the arguments.
        told: what conditions come to, by their places, where a compiled path has found that out.
        taken: what each condition came to; a guard has its number.
        moments: where Python asked, by the numbers of guards.
        seen: the same, also of guards in what was differentiated.
        levels: the guards of the programs that are traced now, the innermost last.
        lost: a line that asked in one of these which an exception ended.
        drawn: a random generator that was drawn from, and where.
        policy: where conditions go that are not asked what they come to.
        lengths: what is known of loops that count by traced numbers; None where there shall be none.
        steps: such loops.
        counts: for each guard of these its loop, where the call does not say that it holds; else None.
        asked: how many guards are none of these.
        unknown: what the call's values are not known of.
        carrying: sees rounds begin, and puts traced numbers in the place of plain ones that loops carry.
        heads, through, loops: where it saw this, which of the loops ran out, and how many began.
        forks: those whose rounds were traced for all ways.
        clock, again: how often anything was asked; when one was asked again, and its number.
        outputs: what is traced.
        most: so many conditions are asked at most, where what is told may lead to a loop that has no end.
    """

    def __init__(
        self, arrays: Sequence[Any] | None, told: Sequence[Branch] = (), lengths: Lengths | None = None,
        most: float = math.inf,
    ) -> None:
        """Begin with the arguments of a call, which have the dtypes of its signature; None where there are none."""
        self.arrays, self.told, self.lengths, self.most = arrays, told, lengths, most
        self.clear()

    @property
    def is_longer(self) -> bool:
        """Whether loops are told to go on that the call leaves: its values are not those of the trace."""
        return self.most < math.inf

    def clear(self) -> None:
        """Begin once more."""
        self.steps: list[TracedRounds] = []
        self.counts: dict[int, Any] = {}
        self.asked = 0
        self.unknown: set[Node] = set()
        self.taken: list[Branch] = []
        self.moments: dict[int, Moment] = {}
        self.seen: dict[int, Moment] = {}
        self.levels: list[list[Node]] = []
        self.lost: Line | None = None
        self.drawn: tuple[str, Line | None] | None = None
        self.policy: Policy | None = None
        self.carrying: Carrying | None = None
        self.heads: list[Head] = []
        self.through: set[int] = set()
        self.forks: list[Fork] = []
        self.loops = self.clock = self._guessed = 0
        self.again: list[tuple[int, int]] = []
        self.outputs: Sequence[Node] = ()
        self._told = {branch.place: branch.outcome for branch in self.told}
        self._counts: Counter[Line | None] = Counter()
        self._known: dict[Node, tuple[bool | int, int]] = {}  # what it came to, and the guard's number
        self._numbers: dict[int, Node] = {}
        self._begun: dict[tuple[FrameType, int], int] = {}  # the number of each loop, where rounds are seen to begin
        self._asking: dict[int, Loops] = {}  # the loops around, by the numbers of guards
        self._values: dict[Node, Any] = {}
        self._stands: dict[Node, Node] = {}
        self._dims: dict[Any, int] = {}
        self._outside: set[Node] = set()
        self._around: list[tuple[FrameType, int, int]] = []  # loops that ask, which go on
        self._graph: Graph | None = None

    def __bool__(self) -> bool:
        """Whether there are values."""
        return self.arrays is not None

    def forget(self) -> None:
        """Ask of everything again, and tell what was taken before."""
        self._told = {**self._told, **{branch.place: branch.outcome for branch in self.taken}}
        self._counts, self._known, self._numbers, self._around = Counter(), {}, {}, []
        self._begun, self._asking = {}, {}
        if self._graph is not None:
            self._graph.left, self._graph.watch = 0, None  # so that what is equal is one node again

    def begin(self, inputs: Sequence[Node], outside: Mapping[Node, np.ndarray[Any, Any]]) -> None:
        """Give the inputs of the outermost program their values, arrays from outside too."""
        self._outside = {*outside}
        self._values.update(outside)
        for node, array in zip(inputs, self.arrays, strict=True) if self.arrays is not None else ():
            self._values[node] = value = np.asarray(array, node.dtype)
            self._dims |= {d: n for d, n in zip(node.shape, value.shape, strict=True) if getattr(d, "is_Symbol", False)}

    def are_rare(self, numbers: Iterable[int]) -> set[int]:
        """Return those guards of a first call that ask nothing of its arguments: arrays from outside seldom change."""
        if self.told or not self._outside:
            return set()
        asked, found = self._numbers, dict[Node, bool]()
        for node in Program((), tuple([asked[k] for k in numbers if k in asked])).nodes():
            known = node.inputs or not node.is_input or node in self._outside
            found[node] = bool(known) and all(found[i] for i in node.inputs)
        return {k for k in numbers if k in asked and found[asked[k]]}

    def draw(self, what: str, line: Line | None) -> None:
        """Note a draw from a random generator; of rounds that the call has not there is none."""
        if self.is_longer:
            raise Enough
        self.drawn = self.drawn or (what, line)

    def refuse_draws(self) -> None:
        """Refuse numbers that are drawn while tracing: they would be others on each path."""
        if self.asked and self.drawn is not None:
            what, line = self.drawn
            first = next(taken.line for k, taken in enumerate(self.taken) if k not in self.counts)
            raise UnsupportedError(
                f"{what} is drawn while a function is traced that has conditions on traced values (the first: "
                f"{first}): each path would have other numbers", line=line,
                instead="draw outside and pass the numbers as an argument, or a generator with a seed made inside",
            )

    def stand(self, inputs: Sequence[Node], values: Sequence[Node | None]) -> None:
        """Say what the inputs of a program stand for that is traced inside of another one; None where nobody knows."""
        self._stands |= {node: value for node, value in zip(inputs, values, strict=True) if value is not None}

    def outcome(self, trace: Trace, node: Node) -> bool | int | None:
        """Return what a boolean or an integer without axes comes to; None where it has no value here."""
        asked = trace.graph.first.get(node, node)
        self.clock += 1
        known = self._known
        policy = None if node.is_constant else self.policy
        same = None if policy is None else policy.same.get(asked)
        policy = policy if same is None else None
        if policy is not None and asked not in known:
            known = policy.known(user_frame(), known)
        loops = self._asking.get(known[asked][1]) if asked in known else None
        ended = loops and not loops.keys() <= self._loops_around(user_frame()).keys()
        if asked not in known or ended:  # behind a loop what asks the same may go other ways at other arguments
            line, frame = user_line(), user_frame()
            if frame is not None and self.lengths is not None:
                self.lengths.seek_around(frame)
            place = line, self._counts[line]
            outcome: bool | int | None = same
            if policy is not None and frame is not None and node.dtype.kind == "b":
                outcome = policy(frame)
            if outcome is None:
                told = self._told.get(place)
                found = np.asarray(known[asked][0]) if asked in known else self._found(node, frame)
                if found is None and self.unknown and self.lengths is not None and self:
                    self.lengths.whole = True
                    self.lengths.again()
                if found is None:
                    return None
                outcome = found.item() if told is None else told
            assert outcome is not None  # noqa: S101 - told or found
            self._counts[line] += 1
            number = -1
            if not node.is_constant:
                self.asked += 1
                if self.asked > self.most:
                    raise Enough
                number = self._record(trace, node, frame, Branch(outcome, place))
            known[asked] = outcome, number
        elif known[asked][1] >= 0:
            self.again.append((self.clock, known[asked][1]))
        return known[asked][0]

    def conditions(self, numbers: Iterable[int]) -> dict[Node, bool | int]:
        """Return what guards look at, and what that came to."""
        return {self._numbers[k]: self.taken[k].outcome for k in numbers if k in self._numbers}

    def asked_in_many(self, numbers: Iterable[int], clocks: Sequence[int]) -> set[int]:
        """Return those guards of a loop whose conditions several of its rounds asked; `clocks` say when these began."""
        of = {number: bisect_left(clocks, self.seen[number].clock) for number in numbers if number in self.seen}
        first, end = [bisect_left(self.again, (clock,)) for clock in (clocks[0], clocks[-1] + 1)]
        return {
            number for clock, number in self.again[first:end]
            if number in of and bisect_left(clocks, clock) > of[number]
        }

    def _loops_around(self, frame: FrameType | None) -> Loops:
        """Return the loops around a frame's code, the innermost first."""
        found: Loops = {}
        for _ in range(CALLERS):
            if frame is None or not is_user_code(frame.f_code.co_filename):
                break
            around = loops_around(frame.f_code, frame.f_lasti)
            found |= {(frame, head, self._begun.get((frame, head), -1)): end for head, end in around}
            frame = frame.f_back
        return found

    def _found(self, node: Node, frame: FrameType | None) -> Any:
        """Compute a value; what has none in a round that the call has not is as in the round before.

        Where no round has asked it, a `for` goes on, and a `while` ends.
        """
        try:
            return self.value(node)
        except IndexError:
            self._guessed += 1
            beyond = node.dtype.kind == "b" and any(steps.is_beyond() for steps in self.steps)
            if frame is None or not beyond or self._guessed > ASKED:
                raise
            code, place = frame.f_code, begun_at(frame.f_code, frame.f_lasti)
            asked = [k for k, at in self.seen.items() if (at.code, at.at) == (code, place)]
            if asked:
                return np.bool_(self.taken[asked[-1]].outcome)
            if position(code, place) in turns(code):  # a `while` ends
                return np.bool_(not turns(code)[position(code, place)][1])
            return np.bool_(led_to(code, place, outcome=True) in goes_round(code, loop_around(code, place)[0]))

    def head(
        self, trace: Trace, frame: FrameType, variables: Mapping[str, Any], loop: int, grown: Mapping[str, list[Any]],
        cells: Mapping[str, Any], left: int = -1,
    ) -> None:
        """Note that a round of a loop begins, and what the one before appended to lists; or for what it was left."""
        own = moment(trace, frame, variables, arrays=True, cells=cells)
        appended = {
            name: [as_node(trace, one) if type(one) is Tracer and one.owner is trace else None for one in settled(each)]
            for name, each in grown.items()
        }
        if left < 0:
            self._begun[frame, frame.f_lasti] = loop
        self.heads.append(Head(loop, own, len(trace.graph), len(self.taken), self.clock, appended, left))
        if self.policy is not None:
            self.policy.begin(loop)

    def ended(self, loop: int) -> None:
        """Note that a loop ran out."""
        self.through.add(loop)
        if self.policy is not None:
            self.policy.end(loop)

    def count(self, trace: Trace, node: Node, frame: FrameType, goes_on: bool, loop: Any) -> int:
        """Let a loop go on that counts by a traced number, or end; return the guard's number."""
        number = self._record(trace, node, frame, Branch(goes_on, (user_line(), -1)))
        self.counts[number] = loop
        return number

    def _record(self, trace: Trace, node: Node, frame: FrameType | None, branch: Branch) -> int:
        number = len(self.taken)
        if frame is not None:
            around = self._asking[number] = self._loops_around(frame)
            self._stand_apart(trace.graph, around)
            if self.policy is None or self.policy.left >= 0 or self.policy.short:
                own = moment(trace, frame, frame.f_locals)._replace(around=tuple([one[:2] for one in around]))
                self.seen[number] = self.moments[number] = own
            self._numbers[number] = trace.graph.first.get(node, node)
        params = branch.outcome, number
        self.levels[-1].append(trace.graph.node(guard, (node,), params, (), np.dtype(bool), branch.line))
        self.taken.append(branch)
        return number

    def _stand_apart(self, graph: Graph, loops: Loops) -> None:
        """Let expressions behind the loops that ask be nodes of their own.

        Behind ``b = a; a = 0.7 * a`` the value of ``0.7 * b`` is that of `a` where there was a round, and only there.
        """
        innermost = {frame: (frame, head, end) for (frame, head, _), end in reversed(loops.items())}
        self._around += [one for one in innermost.values() if one not in self._around]
        self._graph, graph.watch = graph, self._leave

    def _leave(self) -> None:
        if any(not head <= up.f_lasti <= end for up, head, end in self._around) and self._graph is not None:
            self._around = [one for one in self._around if one[1] <= one[0].f_lasti <= one[2]]
            self._graph.left += 1

    def replace(self, values: dict[Node, Any]) -> None:
        """Say that values are those of other nodes, or plain numbers, whatever they were in rounds before."""
        stands = {node: value for node, value in values.items() if isinstance(value, Node) and value is not node}
        found = {}
        for node, value in stands.items():
            if value in stands:  # as `b` behind ``a, b = a + b, a``, which is what `a` was
                with suppress(LinAlgError, IndexError):
                    found[node] = self.value(value)
        for node in stands:
            self._values.pop(node, None)
        self._values |= {node: value for node, value in found.items() if value is not None}
        self._stands |= {node: value for node, value in stands.items() if node not in found}
        self.unknown |= {node for node, value in stands.items() if value in stands and node not in self._values}
        self._values |= {
            node: np.asarray(value, node.dtype) for node, value in values.items() if type(value) in {int, float}
        }

    def value(self, node: Node) -> Any:
        """Compute a value, of an inner program by what its inputs stand for around it; None where nobody knows."""
        values, stands = self._values, self._stands
        stack = [node]
        with np.errstate(all="ignore"):
            while stack:
                each = stack[-1]
                needs = (stands[each],) if each in stands else each.inputs
                missing = [] if each in values else [n for n in needs if n not in values]
                stack += missing
                if missing:
                    continue
                stack.pop()
                if each in values:
                    continue
                if each in stands:
                    values[each] = values[stands[each]]
                elif each.is_input or each in self.unknown or (self.arrays is None and _is_open(each.params)):
                    return None
                else:
                    values[each] = computed(each, [values[i] for i in each.inputs], self._dims)
        return values[node]

    def agree(self, before: Program, after: Program) -> bool:
        """Whether a program gives what it gave before, at the call's arguments, as far as these are known.

        What rounds of a loop make of something that nobody sees, as ``globals()["n"]``, is another number in each run.
        """
        try:
            old = [self.value(node) for node in before.outputs if not node.op.decides]
        except (LinAlgError, IndexError):
            return True  # as it will for the call
        for one, other in zip(after.inputs, before.inputs, strict=True):
            if (value := self.value(other)) is not None:
                self._values[one] = value
        try:
            new = [self.value(node) for node in after.outputs if not node.op.decides]
        except (LinAlgError, IndexError):
            return False
        return all(a is None or b is None or nearly_equal(a, b) for a, b in zip(old, new, strict=True))


def nearly_equal(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the same operations made two arrays, maybe in another order."""
    digits = np.finfo(a.dtype).eps ** 0.6 if a.dtype.kind in "fc" else 0.0
    finite = np.abs(a[np.isfinite(a)])
    return np.allclose(a, b, digits, digits * float(np.max(finite, initial=0.0)), equal_nan=True)

"""Conditions in a Python `for` that go several ways: its rounds are traced for each, so that each is known for all.

One trace knows of each round the way that its values go. The function is run again, a few times, and the conditions
in the rounds are told to go the other ways, each way once in each round, those too that rounds of former traces went;
nothing is recorded of that but what the rounds are, and no round goes by what one before it asked. Where rounds begin,
`Carrying` sees. A `while` in the rounds goes round a few times there, each time another way as far as there are some,
however often it does in the call, so that it can be made a loop of the round.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.errors import heard, interrupts
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.trace.control.rounds import (
    falls_out,
    is_in_loop,
    led_to,
    loop_around,
    names_alive,
    names_behind,
    position,
    remembers,
    runs_out,
    turns,
)
from symgrad.trace.state import Trace, during

if TYPE_CHECKING:
    from symgrad.trace.control.branches import Branches, Moment

Way = tuple[bool, ...]

Told = tuple[tuple[Any, bool], ...]
"""What is told conditions, each with its place in the code."""

LEAST = 3
"""So many rounds are traced again; fewer are paths of their own."""

WAYS = 8
"""In so many ways rounds may go."""

RUNS = 64
"""So often a function is run again."""

TURNS, EACH = 3, 2
"""So often at least a `while` in a round goes round, and each way: what it makes is then known of what it made."""

ASKED = 512
"""So many conditions a round asks at most: a way that Python does not go may have no end."""

AHEAD, FORWARD = 2, 16
"""Of a loop that a call left, so many times its rounds are traced, or so many, as far as there are some."""


class Head(NamedTuple):
    """A place where a round begins, or the last one has ended.

    Attributes:
        loop: the number of the loop, which begins anew each time that Python comes to it.
        moment: where it stands, and what was in the variables.
        nodes: how many there were.
        guards: how many conditions had been asked.
        clock: how often anything had been asked.
        grown: lists that are only appended to, and what the round before appended; None is what is no traced value.
        left: the instruction for which the loop was left in the round before, maybe; else -1.
    """

    loop: int
    moment: Moment
    nodes: int
    guards: int
    clock: int
    grown: dict[str, list[Node | None]]
    left: int = -1


class Round(NamedTuple):
    """What was in the variables when a round began, the conditions it asked, and what was in the variables then.

    Lists that were only appended to have what the round appended; `since` says after which round each such value of
    the run was there, `number` is that of this one. `turns` are the guards of `while` statements in the round, which
    are to be loops, with what was in the variables then; nodes of the round are numbered from `start` on. `leaves` says
    whether the loop is left in it, for where the call left it. `told` is what variables of the run became while a
    `while` went round as it was told.
    """

    before: Mapping[Any, Any]
    asked: list[Node]
    after: Mapping[Any, Any]
    grown: Mapping[str, list[Node | None]] = {}
    since: Mapping[Node | None, int] = {}
    number: int = 0
    turns: Mapping[Node, Moment] = {}
    start: int = 0
    told: Collection[Node] = ()
    leaves: bool = False


class Fork(NamedTuple):
    """A loop with conditions in it.

    Attributes:
        heads: where its rounds began, and the last one ended.
        guards: of each round the guards in it.
        own: the ways that its rounds went.
        rounds: all rounds for each way, of this call or of others, that they can go.
        left: whether rounds may leave the loop for where this call left it, or has come to by itself.
        open: whether it has to be left, as no round is known after these.
        around: what was in the variables when it did so.
        agree: whether two programs give the same at the call's arguments, which go the ways of the call.
        key: the loop in the code, where each `while` in its rounds is to be one there; else None.
    """

    heads: list[Head]
    guards: list[list[Node]]
    own: list[Way]
    rounds: list[dict[Way, Round]]
    left: bool
    open: bool
    around: dict[Any, Any]
    agree: Callable[[Program, Program], bool]
    key: tuple[CodeType, int] | None


class Enough(BaseException):
    """All rounds are traced that were to be."""


class Turning:
    """A `while` in a round that goes round as it is told: each way once, and then each once more.

    Attributes:
        frame, head, place: where it begins, and the condition by which it is to end.
        known: what was asked this time, of which the next one knows nothing.
        gone, way: the ways of the times before, that of this one.
        times, every: how often it went round, and how often all ways were gone.
    """

    def __init__(self, frame: FrameType, head: int, place: Any) -> None:
        """Begin before the first time."""
        self.frame, self.head, self.place = frame, head, place
        self.known: dict[Node, tuple[Any, int]] = {}
        self.gone, self.way, self.times, self.every = set[Way](), list[bool](), -1, 0

    def is_at(self, frame: FrameType) -> bool:
        """Whether it goes on where a frame runs, or one that this has called."""
        up: FrameType | None = frame
        while up is not None and up is not self.frame:
            up = up.f_back
        return up is not None and is_in_loop(up.f_code, self.head, up.f_lasti)

    def begin(self) -> None:
        """Begin the next time."""
        self.times += 1
        self.gone |= {tuple(self.way)} if self.times else set()
        if self.is_gone(()):
            self.gone, self.every = set(), self.every + 1
        self.known, self.way = {}, []

    @property
    def goes_on(self) -> bool:
        """Whether it goes round once more."""
        return self.every < EACH or self.times < TURNS

    def is_gone(self, way: Way) -> bool:
        """Whether all ways that begin so were gone."""
        ahead = any(one[: len(way)] == way for one in self.gone)
        return way in self.gone or (ahead and self.is_gone((*way, True)) and self.is_gone((*way, False)))

    def __call__(self) -> bool:
        """Return what the next condition comes to."""
        self.way.append(not self.is_gone((*self.way, True)))
        return self.way[-1]


class Policy:
    """Tells conditions in the rounds of loops where to go: each way once in each round, by the number of the run.

    Attributes:
        counts: the loops, and how many rounds are traced of each.
        loop, round: the loop that has begun last, and the number of its round; -1 outside of them.
        same: conditions that come to what they did in all rounds.
    """

    def __init__(self, loops: Sequence[Asking], ways: Sequence[Told], run: int, short: bool) -> None:
        """Begin before the first round; each `while` in the rounds may go round a `short` time.

        Of several loops none is left.
        """
        heads, self.ways, self.run = loops[0].heads, ways, run
        self.counts = {one.heads[0].loop: len(one.heads) - 1 for one in loops}
        self.same = {node: outcome for one in loops for node, outcome in one.same.items()}
        self.others = {place: outcome for way in reversed(ways) for place, outcome in reversed(way)}
        self.short, self.turning = short, list[Turning]()
        self.known_now: dict[Node, tuple[Any, int]] = {}
        self.left = heads[-1].left
        self.open, self.exits = self.left >= 0, exits_for(heads[0].moment, self.left)
        self.loop, self._last = -1, loops[-1].heads[0].loop
        if self.left >= 0:  # it would go on
            self.counts[self._last] = max(AHEAD * self.counts[self._last], FORWARD)
        self.round, self.asked, self.untold, self.many = -1, 0, set[Any](), 0

    def begin(self, loop: int) -> None:
        """Begin a round of a loop; behind the last one of one that others follow it is outside again."""
        if loop not in self.counts:
            return
        self.round = self.round + 1 if loop == self.loop else 0
        self.loop, self.asked, self.untold, self.many = loop, 0, set(), 0
        self.turning, self.known_now = [], {}
        if self.round >= self.counts[loop] and loop != self._last:
            self.round = -1

    def end(self, loop: int) -> None:
        """End a loop that ran out."""
        if loop == self.loop and self.left >= 0:
            self.open = self.left in self.exits or self.round > self.counts[loop]
            self.counts[loop] = min(self.round, self.counts[loop])

    def known(self, frame: FrameType | None, before: dict[Node, tuple[Any, int]]) -> dict[Node, tuple[Any, int]]:
        """Return what is known in the round that a frame asks in, each time that a `while` goes round by itself.

        Before the rounds that is what was known `before`. Where a `while` asks whether it goes round, it is its own.
        """
        if self.round < 0 or frame is None:
            return before
        place = position(frame.f_code, frame.f_lasti)
        head = turns(frame.f_code).get(place, (-1, True))[0] if self.short else -1
        while self.turning:
            last = self.turning[-1]
            test = frame is last.frame and head == last.head  # which may be repeated before the loop
            if last.is_at(frame) or (test and place != last.place):
                break
            self.turning.pop()
        if head >= 0:
            if not self.turning or (self.turning[-1].frame, self.turning[-1].head) != (frame, head):
                self.turning.append(Turning(frame, head, place))
            if self.turning[-1].place == place:
                self.turning[-1].begin()
        return self.turning[-1].known if self.turning else self.known_now

    def __call__(self, frame: FrameType) -> bool | None:
        """Return where a condition goes that a frame asks now; None where nothing is told.

        One that is none of the way goes as it does in others, once: plain values decide which ones a round asks.

        Raises:
            Enough: after the last round, or where one has no end.
        """
        if self.round < 0:
            return None
        self.many += 1
        if self.round >= self.counts[self.loop] or self.many > ASKED:
            raise Enough
        place = frame.f_code, position(frame.f_code, frame.f_lasti)
        head, goes_on = turns(frame.f_code).get(place[1], (-1, None))
        if self.turning:
            last = self.turning[-1]
            if (frame, head) != (last.frame, last.head):
                return last()
            if place[1] == last.place and not last.goes_on:
                self.turning.pop()
                return not goes_on
            return goes_on
        way = self.ways[turn(self.round, self.run, len(self.ways))]
        for k in range(self.asked, len(way)):
            if way[k][0] == place:
                self.asked = k + 1
                return way[k][1]
        known = place in self.untold or goes_on is not None
        self.untold.add(place)
        return None if known else self.others.get(place)


def exits_for(moment: Moment, left: int) -> frozenset[int]:
    """Return the instructions by which a loop is left for one."""
    end, breaks = falls_out(moment.code, moment.at)
    return breaks if left == end else frozenset([left])


def is_turn(at: Moment, loop: Moment) -> bool:
    """Whether a condition in a round of a loop says if a `while` goes round once more, or is asked in one."""
    if position(at.code, at.at) in turns(at.code):
        return True
    around = loop.frame, loop_around(loop.code, loop.at)[0]
    inside = at.around[: at.around.index(around)] if around in at.around else ()
    return any(runs_out(frame.f_code, head) is None for frame, head in inside)


def turn(k: int, run: int, ways: int) -> int:
    """Return which way a run goes in a round: each in one run, and not always after the same other one.

    >>> [[turn(k, run, 3) for k in range(6)] for run in range(3)]
    [[0, 1, 2, 1, 2, 0], [1, 2, 0, 2, 0, 1], [2, 0, 1, 0, 1, 2]]
    """
    return (k + k // ways + run) % ways


class Asking(NamedTuple):
    """A loop that asks conditions in its rounds.

    Attributes:
        heads, around: as of a `Fork`.
        guards: of each round the guards in it.
        inner: the numbers of those that say how often a `while` in a round goes round, or are asked in one.
        same: conditions that are the same for all rounds, and what they came to.
        leaves: the last round leaves it.
    """

    heads: list[Head]
    around: dict[Any, Any]
    guards: list[list[Node]]
    inner: set[int]
    same: dict[Node, Any]
    leaves: bool

    @property
    def key(self) -> tuple[CodeType, int]:
        """Where it stands."""
        return self.heads[0].moment.code, self.heads[0].moment.at

    def gone(self, skipped: Collection[int]) -> list[Way]:
        """Return which ways its rounds went, but for some guards."""
        return [
            tuple([node.param("outcome") for node in each if node.param("number") not in skipped])
            for each in self.guards
        ]

    def ways(self, branches: Branches, skipped: Collection[int]) -> dict[Told, None]:
        """Return the ways, each once and with the places of what it was told, of all rounds that do not leave it."""
        return dict.fromkeys([
            tuple([
                ((at.code, position(at.code, at.at)), node.param("outcome")) for node in each
                if node.param("number") not in skipped and (at := branches.moments.get(node.param("number")))
            ]) for each in self.guards[: len(self.guards) - self.leaves]
        ])

    def is_known(self, traced: Sequence[Mapping[Way, Round]], skipped: Collection[int]) -> bool:
        """Whether its rounds are traced for the ways that they went."""
        gone = self.gone(skipped)
        return all(
            way in each and each[way].leaves is (self.leaves and k == len(gone) - 1)
            for k, (way, each) in enumerate(zip(gone, traced, strict=False))
        )


def forks_of(
    trace: Trace, branches: Branches, guards: Sequence[Node], run: Callable[[], Any], begun: int = 0,
) -> list[Fork]:
    """Trace the rounds of loops for all ways that they go, where these are few.

    Args:
        trace: what is traced.
        branches: what was asked.
        guards: those of the function.
        run: runs it.
        begun: how many loops had begun before.
    """
    def traced(loops: list[Asking], ways: Iterable[Told], *, short: bool = False) -> list[Traced]:
        return _traced(trace, branches, loops, [*ways], run, begun, short)

    every_loop, lengths = _asking(branches, guards), branches.lengths
    together = _together(branches, every_loop, traced)
    found: list[Fork] = []
    runs = 0
    for loop in every_loop:
        heads, key, number = loop.heads, loop.key, loop.heads[0].loop
        left, inner = heads[-1].left >= 0, loop.inner
        for skipped in (inner, set[int]())[not inner or lengths is None or key in lengths.longer :]:
            ways = loop.ways(branches, skipped)
            known: dict[Told, None] = {} if lengths is None else lengths.ways.setdefault((*key, bool(skipped)), {})
            every = {**ways, **known}
            if len(ways) > WAYS or (
                len(every) < 2 and not loop.leaves and not skipped and number not in branches.through
            ):
                continue
            opened, rounds = (False, None) if skipped else together.get(number, (False, None))
            for some in (every, ways)[len(every) > WAYS or len(every) == len(ways) :]:
                if rounds is None or not loop.is_known(rounds, skipped):
                    runs += len(some)
                    if runs > RUNS:
                        break
                    ((opened, rounds),) = traced([loop], some, short=bool(skipped))
                if rounds is not None and loop.is_known(rounds, skipped):
                    known |= ways
                    found.append(Fork(
                        heads, loop.guards, loop.gone(skipped), rounds, left, opened, loop.around, branches.agree,
                        key if skipped else None,
                    ))
                    break
            else:
                continue
            break
    branches.forks += found
    return found


def _asking(branches: Branches, guards: Sequence[Node]) -> list[Asking]:
    """List the loops whose rounds ask conditions alone."""
    there = {node.param("number"): node for node in guards}
    loops: dict[int, list[Head]] = {}
    for head in branches.heads:
        loops.setdefault(head.loop, []).append(head)
    found: list[Asking] = []
    for loop, every_head in loops.items():
        heads, around = every_head, dict[Any, Any]()
        moment = heads[0].moment
        if heads[-1].left >= 0 and loop in branches.through:  # what it had when it ran out begins no round
            heads = [*heads[:-2], heads[-1]]
        elif heads[-1].left >= 0:
            last = heads[-1].guards - 1
            asked = branches.moments.get(last)
            if last >= heads[-2].guards and asked is not None and asked.frame is moment.frame and led_to(
                asked.code, asked.at, branches.taken[last].outcome
            ) in exits_for(moment, heads[-1].left):
                around = asked.variables
            else:
                heads = heads[:-1]
        numbers = range(heads[0].guards, heads[-1].guards)
        fixed = branches.asked_in_many(numbers, [head.clock for head in heads])
        own = [[there.get(k) for k in range(a.guards, b.guards) if k not in fixed] for a, b in pairwise(heads)]
        least = 1 if heads[-1].left >= 0 and heads[-1].left == falls_out(moment.code, moment.at)[0] else LEAST
        if not any(own) or len(own) < least or runs_out(moment.code, moment.at) is None or any(
            node is None or type(node.param("outcome")) is not bool
            or ((at := branches.moments.get(node.param("number"))) is not None and at.counts)  # `whiles` knows these
            for each in own for node in each
        ) or not is_even(heads) or remembers(moment):
            continue
        inner = {
            number for number in numbers if (at := branches.moments.get(number)) is not None and is_turn(at, moment)
        }
        rounds: list[list[Node]] = own  # type: ignore[assignment]  # they are there
        leaves = heads[-1].left >= 0 and loop not in branches.through
        found.append(Asking(heads, around, rounds, inner, branches.conditions(fixed), leaves))
    return found


def names_of(heads: Sequence[Head], lists: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return which variables are alive where rounds begin, or the loop was left for, and which a round reads.

    Lists that are only appended to are none.
    """
    moment, left = heads[0].moment, heads[-1].left
    alive, inside = [names_alive(moment.code, moment.at, inside=one).union({""}) - {*lists} for one in (False, True)]
    return (inside | names_behind(moment.code, left) if left >= 0 else alive), inside


def is_even(heads: Sequence[Head]) -> bool:
    """Whether the rounds of a call have the same variables: where a list shrinks, no other way makes it a loop."""
    first, *rest = [head.moment.variables for head in heads]
    alive, inside = names_of(heads, heads[1].grown)
    there = {name for name in rest[-1] if name[0] in alive}
    return all(there == {name for name in each if name[0] in alive} for each in rest) and there.issuperset(
        [name for name in first if name[0] in inside]
    )


Traced = tuple[bool, list[dict[Way, Round]] | None]
"""Whether a loop may have more rounds than are traced; and of each round what it is for each way, or None."""


def _together(
    branches: Branches, every_loop: Sequence[Asking], traced: Callable[[list[Asking], Iterable[Told]], list[Traced]],
) -> dict[int, Traced]:
    """Trace the loops that Python comes to several times in one place, as those in rounds of others, at once."""
    groups: dict[tuple[CodeType, int], list[Asking]] = {}
    for loop in every_loop:
        if not loop.inner and loop.heads[-1].left < 0:
            groups.setdefault(loop.key, []).append(loop)
    found: dict[int, Traced] = {}
    for key, loops in groups.items():
        ways = {way: None for loop in loops for way in loop.ways(branches, ())}
        if branches.lengths is not None:
            ways |= branches.lengths.ways.get((*key, False), {})
        if len(loops) > 1 and 1 < len(ways) <= WAYS:
            found |= zip([loop.heads[0].loop for loop in loops], traced(loops, ways), strict=True)
    return found


def _traced(
    trace: Trace, branches: Branches, loops: list[Asking], ways: list[Told], run: Callable[[], Any], begun: int,
    short: bool,
) -> list[Traced]:
    """Trace all rounds of loops for each way, or in which they leave it; None where they end in another number.

    Which ways a round can go may depend on plain values, as its number.
    """
    policies = [Policy(loops, ways, k, short) for k in range(len(ways))]
    runs = [_forced(trace, branches, policy, run, begun, loops[0].heads[0].nodes) for policy in policies]
    opened = any(policy.open for policy in policies)
    found: list[Traced] = []
    for loop in [each.heads[0].loop for each in loops]:
        own = [each.get(loop) for each in runs]
        if any(each is None or len(each) != len(own[0] or ()) for each in own):
            found.append((opened, None))
            continue
        rounds: list[dict[Way, Round]] = []
        for every in zip(*[each or () for each in own], strict=True):
            rounds.append({})
            for _, _, exits in reversed(every):
                rounds[-1] |= exits
            for way, one, _ in every:
                rounds[-1][way] = one
        found.append((opened, rounds))
    return found


Forced = list[tuple[Way, Round, dict[Way, Round]]]
"""Of each round of a loop the way that it was told, what it is, and those that leave the loop."""


def _forced(
    trace: Trace, branches: Branches, policy: Policy, run: Callable[[], Any], begun: int, begin: int,
) -> dict[int, Forced | None]:
    """Run a function with its conditions told; return what the rounds of its loops are, None where they are none."""
    fork = copy.copy(branches)
    fork.forget()
    fork.taken, fork.moments, fork.seen, fork.levels, fork.policy = [], {}, {}, [[]], policy
    fork.heads, fork.through, fork.loops, fork.again = [], set(), begun, []
    refused = len(heard.refusals or ())
    try:
        with during(trace, branches=fork), trace.graph.apart_behind(begin) if policy.short else nullcontext():
            run()
    except Enough:
        pass
    except Exception as error:
        if interrupts(error):
            raise
        return {}  # a way that Python does not go may raise anything, and is no loop then
    finally:
        del (heard.refusals or [])[refused:]
    heads: dict[int, list[Head]] = {}
    for head in fork.heads:
        heads.setdefault(head.loop, []).append(head)
    there = {node.param("number"): node for node in fork.levels[0]}
    return {
        loop: _rounds_told(fork, policy, there, heads.get(loop, ()), count) for loop, count in policy.counts.items()
    }


def _rounds_told(
    fork: Branches, policy: Policy, there: Mapping[int, Node], heads: Sequence[Head], count: int,
) -> Forced | None:
    """Return what the rounds of a loop are that was told its ways; None where they are none of a loop."""
    if len(heads) <= count:
        return None
    found: Forced = []
    since: dict[Node | None, int] = {}
    told: set[Node] = set()
    for first, end in pairwise(heads[: count + 1]):
        numbers = [k for k in range(first.guards, end.guards) if policy.same.keys().isdisjoint(fork.conditions([k]))]
        if end.left >= 0 or any(k not in there or type(there[k].param("outcome")) is not bool for k in numbers):
            return None
        turned = {
            there[k]: at for k in numbers
            if policy.short and (at := fork.moments.get(k)) is not None and is_turn(at, first.moment)
        }
        told |= _told(turned.values())
        asked = [there[k] for k in numbers if there[k] not in turned]
        way = tuple([node.param("outcome") for node in asked])
        for node in [one for each in end.grown.values() for one in each]:
            since.setdefault(node, len(found))
        own = first.moment
        tests = [node.inputs[0] for node in asked]
        one = Round(
            own.variables, tests, end.moment.variables, end.grown, since, len(found), turned, first.nodes + 1,
            told,
        )
        exits: dict[Way, Round] = {}
        for k, outcome in enumerate(way):
            at = fork.moments.get(asked[k].param("number"))
            if at is not None and at.frame is own.frame and led_to(at.code, at.at, not outcome) in policy.exits:
                until = {node: there for node, there in turned.items() if node.number < asked[k].number}
                other = (*way[:k], not outcome)
                exits[other] = one._replace(
                    asked=tests[: k + 1], after=at.variables, grown={}, turns=until, leaves=True,
                )
        found.append((way, one, exits))
    return found


def _told(turns: Iterable[Moment]) -> set[Node]:
    """Return what variables became while a `while` went round."""
    last: dict[Any, Moment] = {}
    found: set[Node] = set()
    for at in turns:
        key = at.frame, position(at.code, at.at)
        before = {} if key not in last else last[key].variables
        changed = {value for name, value in at.variables.items() if key in last and before.get(name) is not value}
        found |= {value for value in changed if isinstance(value, Node)}
        last[key] = at
    return found

"""A condition in a Python `for` that goes both ways: the rounds are traced for each way, so that each is known for all.

One trace knows of each round the way that its values go. The function is run again, a few times, and its conditions
are told to go the other ways, each way once in each round; nothing is recorded of that but what the rounds are.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.errors import heard
from symgrad.trace.rounds import is_nested, position, remembers, runs_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from symgrad.ir.node import Node
    from symgrad.trace.branches import Branches, Moment
    from symgrad.trace.state import Trace

    Way = tuple[bool, ...]

LEAST = 8
"""So many rounds are traced again; fewer are paths of their own."""

WAYS = 8
"""In so many ways rounds may go."""


class Round(NamedTuple):
    """What was in the variables when a round began, the conditions it asked, and what was in the variables then."""

    before: dict[Any, Any]
    asked: list[Node]
    after: dict[Any, Any]


class Fork(NamedTuple):
    """A condition that went both ways.

    Attributes:
        guards: those of the condition.
        inside: of each round the guards in it.
        moments: where Python asked for each of the former.
        rounds: for each way all rounds.
    """

    guards: list[Node]
    inside: list[list[Node]]
    moments: list[Moment]
    rounds: dict[Way, list[Round]]


class Policy:
    """Tells conditions of a loop where to go: each way once in each round, by the number of the run."""

    def __init__(self, key: Any, ways: Sequence[Way], run: int) -> None:
        """Begin before the first round."""
        self.key, self.ways, self.run = key, ways, run
        self.round, self.asked = -1, 0

    def __call__(self, frame: FrameType) -> bool | None:
        """Return where the condition goes that a frame asks for; None where nothing is told."""
        if (frame.f_code, position(frame.f_code, frame.f_lasti)) == self.key:
            self.round, self.asked = self.round + 1, 0
        elif self.round < 0:
            return None
        else:
            self.asked += 1
        way = self.ways[turn(self.round, self.run, len(self.ways))]
        return way[self.asked] if self.asked < len(way) else None


def turn(k: int, run: int, ways: int) -> int:
    """Return which way a run goes in a round: each in one run, and not always after the same other one.

    >>> [[turn(k, run, 3) for k in range(6)] for run in range(3)]
    [[0, 1, 2, 1, 2, 0], [1, 2, 0, 2, 0, 1], [2, 0, 1, 0, 1, 2]]
    """
    return (k + k // ways + run) % ways


def fork_of(trace: Trace, branches: Branches, guards: Sequence[Node], run: Callable[[], Any]) -> Fork | None:
    """Find a condition of a loop that went both ways, and trace its rounds for all of these; None without one."""
    moments = {node: branches.moments[n] for node in guards if (n := node.param("number")) in branches.moments}
    groups: dict[Any, list[Node]] = {}
    for node, at in moments.items():
        groups.setdefault((at.code, position(at.code, at.at), at.frame), []).append(node)
    place = {node: k for k, node in enumerate(guards)}
    for (code, where, _), own in groups.items():
        outcomes = [node.param("outcome") for node in own]
        if len(own) < LEAST or {*map(type, outcomes)} != {bool} or len({*outcomes[:-1]}) < 2:
            continue
        last = moments[own[-1]].at
        if not runs_out(code, last) or is_nested(code, last) or remembers(moments[own[0]]):
            continue
        inside = [list(guards[place[a] + 1 : place[b]]) for a, b in itertools.pairwise(own)]
        if any(node in moments and moments[node].counts for each in inside for node in each):
            continue  # `whiles` knows how many rounds there are
        ways = [(a.param("outcome"), *[g.param("outcome") for g in more]) for a, more in zip(own, inside, strict=False)]
        known = [*dict.fromkeys(ways)]
        if len(known) > WAYS:
            continue
        runs = [_forced(trace, branches, Policy((code, where), known, k), run) for k in range(len(known))]
        rounds: dict[Way, list[Round]] = {way: [] for way in known}
        for k in range(len(own) - 1):
            for number, each in enumerate(runs):
                way = known[turn(k, number, len(known))]
                found = None if each is None or len(each) != len(own) else each[k]
                if found is None or found[0] != way:
                    return None
                rounds[way].append(found[1])
        return Fork(own, inside, [moments[node] for node in own], rounds)
    return None


def _forced(
    trace: Trace, branches: Branches, policy: Policy, run: Callable[[], Any],
) -> list[tuple[Way, Round]] | None:
    """Run a function with its conditions told; return what its rounds are, the last one empty, or None."""
    fork = copy.copy(branches)
    fork.forget()
    fork.taken, fork.moments, fork.seen, fork.levels, fork.policy = [], {}, {}, [[]], policy
    refused = len(heard.refusals or ())
    before, trace.branches = trace.branches, fork
    try:
        run()
    except Exception:  # noqa: BLE001 - a way that Python does not go may raise anything, and is no loop then
        return None
    finally:
        trace.branches = before
        del (heard.refusals or [])[refused:]
    guards = fork.levels[0]
    own = [
        k for k, node in enumerate(guards) if (at := fork.moments.get(node.param("number"))) is not None
        and (at.code, position(at.code, at.at)) == policy.key
    ]
    found: list[tuple[Way, Round]] = []
    for begin, end in zip(own, [*own[1:], len(guards)], strict=True):
        asked = guards[begin:end]
        variables = [
            fork.moments[guards[k].param("number")].variables if k < len(guards) else {} for k in (begin, end)
        ]
        way = tuple([node.param("outcome") for node in asked])
        found.append((way, Round(variables[0], [node.inputs[0] for node in asked], variables[1])))
    return found


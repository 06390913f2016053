"""A `while` that a call leaves at once, or after a few rounds: more of them show what the loop is.

The function is traced again with the conditions of such loops told, so that each goes round as often as `whiles` needs
to make one loop of it. What comes of that is taken where it says for this call what the plain trace says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import interrupts
from symgrad.ir.evaluate import evaluate
from symgrad.ir.program import Program
from symgrad.trace.control.branches import Branch, Branches, nearly_equal
from symgrad.trace.control.rounds import position, remembers, turns

ROUNDS = 4
"""In so many rounds all variables have been those of the round before."""

MOST = 256
"""So many conditions of a line are told at most."""


def further(branches: Branches, program: Program) -> list[Branch]:
    """Return what conditions are told, so that loops go on that a call left too soon; nothing where there are none.

    Conditions around such loops are told what they came to: behind rounds that the call has not, they ask of values
    that it has not either, of which a loop may never end.

    Args:
        branches: what a trace asked.
        program: what came of it: loops that are known have no guards in it.
    """
    left = {node.param("number") for node in program.guards}
    asked: dict[Any, list[tuple[int, bool]]] = {}
    for number, at in branches.seen.items():
        head, goes_on = turns(at.code).get(position(at.code, at.at), (-1, True))
        if head >= 0 and type(branches.taken[number].outcome) is bool:
            asked.setdefault((at.code, head), []).append((number, goes_on))
    told: list[Branch] = []
    longer = set()
    for (code, head), every in asked.items():
        numbers = [number for number, _ in every]
        line = branches.taken[numbers[0]].line
        on_line = [number for number, taken in enumerate(branches.taken) if taken.line == line]
        goes = {goes_on for where, goes_on in turns(code).values() if where == head}
        tests = sum(where == head for where, _ in turns(code).values())
        ways = [branches.taken[number].outcome is goes_on for number, goes_on in every]
        ends = [k for k, way in enumerate(ways) if not way]
        longest = max([end - begin - 1 for begin, end in zip([-1, *ends], ends, strict=False)], default=ROUNDS)
        if left.isdisjoint(numbers) or on_line != numbers or len(goes) > 1 or longest >= ROUNDS * tests:
            continue
        (goes_on,) = goes
        once = [goes_on] * (ROUNDS * tests) + [not goes_on]
        if len(once) * len(ends) <= MOST and not remembers(branches.seen[numbers[0]]):
            told += [Branch(outcome, (line, k)) for k, outcome in enumerate(once * len(ends))]
            longer.add((code, head))
    if not told:
        return []
    inside = {
        branches.taken[number].line for number, at in branches.seen.items()
        if any((frame.f_code, head) in longer for frame, head in at.around)
    }.union([branch.line for branch in told])
    return told + [taken for taken in branches.taken if taken.line not in inside]


def serves(
    program: Program, plain: Program, results: int, arrays: Sequence[np.ndarray[Any, Any]],
    plain_arrays: Sequence[np.ndarray[Any, Any]],
) -> bool:
    """Whether a program's conditions hold for some arguments, and its first results are those of the plain one."""
    try:
        found, expected = [
            [value for value, node in zip(evaluate(one, own), one.outputs, strict=True) if not node.op.decides]
            for one, own in ((program, arrays), (plain, plain_arrays))
        ]
    except Exception as error:
        if interrupts(error):
            raise
        return False  # a guard missed, or rounds that the call has not raised anything
    pairs = zip(expected[:results], found[:results], strict=True)
    return all(a.shape == b.shape and nearly_equal(a, b) for a, b in pairs)

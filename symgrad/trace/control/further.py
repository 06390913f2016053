"""A `while` that a call leaves at once, or after a few rounds: more of them show what the loop is.

The function is traced again with the conditions of such loops told, so that each goes round as often as `whiles` needs
to make one loop of it. What comes of that is taken where it says for this call what the plain trace says.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from symgrad.errors import interrupts
from symgrad.ir.evaluate import evaluate
from symgrad.ir.program import Program
from symgrad.trace.control.branches import Branch, Branches, nearly_equal
from symgrad.trace.control.rounds import begins_again, position, range_over, remembers, runs_out, turns

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
    asked: dict[Any, list[int]] = {}
    for number, at in branches.seen.items():
        head, _ = turns(at.code, fors=True).get(position(at.code, at.at), (-1, True))
        if head >= 0 and type(branches.taken[number].outcome) is bool:
            asked.setdefault((at.code, head), []).append(number)
    told: list[Branch] = []
    longer = set()
    for (code, head), numbers in asked.items():
        line = branches.taken[numbers[0]].line
        on_line = [number for number, taken in enumerate(branches.taken) if taken.line == line]
        goes = {goes_on for where, goes_on in turns(code, fors=True).values() if where == head}
        tests = sum(where == head for where, _ in turns(code, fors=True).values())
        if left.isdisjoint(numbers) or on_line != numbers or len(goes) > 1 or remembers(branches.seen[numbers[0]]):
            continue
        (goes_on,) = goes
        outcomes = [branches.taken[number].outcome for number in numbers]
        once = [goes_on] * (ROUNDS * tests) + [not goes_on]
        cuts = [0, *[k + 1 for k, outcome in enumerate(outcomes) if outcome is not goes_on]]
        if runs_out(code, head) is not None:
            moments = [branches.seen[number] for number in numbers]
            if cuts != [0, *begins_again(moments), len(moments)] or len(range_over(moments[0]) or ()) <= len(once):
                continue  # of one that runs out as well nobody knows how it goes on
        every = [outcomes[a:b] for a, b in pairwise(cuts)]
        short = sum([len(own) < len(once) for own in every])
        if 0 < short * len(once) <= MOST:
            longest = [own if len(own) >= len(once) else once for own in every]
            told += [Branch(outcome, (line, k)) for k, outcome in enumerate(chain(*longest))]
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

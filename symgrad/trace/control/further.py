"""A `while` that a call leaves at once, or after one round: a few rounds more show what the loop is.

The function is traced again with the conditions of such loops told, so that each goes round as often as `whiles` needs
to make one loop of it. What comes of that is taken where it says for this call what the plain trace says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.ir.evaluate import evaluate
from symgrad.ir.program import Program
from symgrad.trace.control.branches import Branch, Branches
from symgrad.trace.control.rounds import position, turns

ROUNDS = 4
"""In so many rounds all variables have been those of the round before."""

MOST = 256
"""So many conditions of a line are told at most."""


def further(branches: Branches, program: Program) -> list[Branch]:
    """Return what conditions of loops are told that a call left too soon; nothing where there are none.

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
        if len(once) * len(ends) <= MOST:
            told += [Branch(outcome, (line, k)) for k, outcome in enumerate(once * len(ends))]
    return told


def serves(program: Program, plain: Program, told: Sequence[Branch], arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether a program asks none of what it was told, and is for some arguments what the plain one is."""
    lines = {branch.line for branch in told}
    if any(node.line in lines for node in program.guards):
        return False
    try:
        found, expected = [
            [value for value, node in zip(evaluate(one, arrays), one.outputs, strict=True) if not node.op.decides]
            for one in (program, plain)
        ]
    except Exception:  # noqa: BLE001 - a guard that misses, or anything that rounds may raise which the call has not
        return False
    return all(np.allclose(*pair, rtol=1e-9, atol=1e-300, equal_nan=True) for pair in zip(found, expected, strict=True))

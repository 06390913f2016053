"""`compensate`: the sums of many tiles in single precision keep the digits that each addition would lose.

A sum of ten million terms is ten thousand tiles, and as many roundings at 24 bits would show. In double precision
they do not. (W. Kahan, Further remarks on reducing truncation errors, Communications of the ACM, 1965.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.ir.notation import Access, Apply, Number, Statement, axes_of
from symgrad.ir.op import Elementwise
from symgrad.loops.program import Array, Item, Loop
from symgrad.loops.tile import TOTAL, nested
from symgrad.ops.arithmetic import add, subtract
from symgrad.ops.comparison import equal
from symgrad.ops.selection import where

SINGLE = np.dtype(np.float32)
BOOLEAN = np.dtype(bool)


def compensate(items: list[Item], arrays: list[Array]) -> list[Item]:
    """Compensate the totals of every loop over tiles; new arrays are appended to `arrays`."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Loop) and item.tile:
            body: list[Item] = []
            for inner in item.body:
                before, now = _compensated(inner, arrays)
                made += before
                body += now
            item.body = body
        elif isinstance(item, Loop):
            item.body = compensate(item.body, arrays)
        made.append(item)
    return made


def _compensated(item: Item, arrays: list[Array]) -> tuple[list[Item], list[Item]]:
    """Return what starts the lost digits at zero, and the addition that keeps them."""
    total = item
    while isinstance(total, Loop) and len(total.body) == 1:
        total = total.body[0]
    if isinstance(total, Loop) or total.note != TOTAL or total.target.array.dtype != SINGLE:
        return [], [item]
    array, axes = total.target.array, total.axes
    names = ("lost", "term", "grown")
    lost, term, grown = [Array(name, array.shape, SINGLE, "temporary", array.line) for name in names]
    arrays.extend((lost, term, grown))
    start = axes_of(array.shape)
    zero = nested([Statement(Access(lost, start), "=", Number(0, SINGLE), start, total.line)], start)

    def apply(op: Elementwise, *args: Any) -> Apply:
        return Apply(op, args, SINGLE, SINGLE)

    here, t, c, g = [Access(a, axes) for a in (array, term, lost, grown)]
    finite = Apply(equal, (c, c), BOOLEAN, SINGLE)  # an infinite total loses no digits
    steps = [
        replace(total, target=t, how="=", value=apply(subtract, total.value, c), note=""),
        replace(total, target=g, how="=", value=apply(add, here, t), note=""),
        replace(total, target=c, how="=", value=apply(subtract, apply(subtract, g, here), t), note=""),
        replace(total, target=c, how="=", value=apply(where, finite, c, Number(0, SINGLE)), note=""),
        replace(total, target=here, how="=", value=g, note=""),
    ]
    return zero, nested(steps, axes)

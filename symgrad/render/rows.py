"""Rows that are added to one: several at once, so that what they are added to is read and written once for them.

``for i: for j: s[j] += a[i] * X[i, j]`` reads and writes all of s for each i. Where the compiler sees how many j there
are, it keeps s in registers; where the extent is open it cannot. By four rows at once, in the same order for each j,
the sums are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from symgrad.ir.notation import Statement, accesses, parts
from symgrad.loops.program import Loop
from symgrad.render.views import LoopView, RowsView

if TYPE_CHECKING:
    from symgrad.render.block import Block
    from symgrad.render.views import ItemView

ROWS = 4
"""So many rows are added at once."""


def adds_rows(loop: Loop) -> bool:
    """Tell a loop whose iterations each add a row, of an open extent, to the same elements."""
    inner = loop.body[0]
    if len(loop.body) != 1 or not isinstance(inner, Loop) or not inner.simd or inner.sums or loop.part or inner.part:
        return False
    few = type(loop.extent) is int and loop.extent < 2 * ROWS
    s = inner.body[0]
    if few or type(inner.extent) is int or loop.poll or inner.poll or len(inner.body) != 1:
        return False
    if not isinstance(s, Statement) or s.how != "+=" or s.prefix or s.ranges or s.target.array.place == "register":
        return False
    alone = not any(part in loop.members for i in s.target.indices for part in parts(i))
    return alone and all(a.array is not s.target.array for a in accesses(s.value))


def by_rows(block: Block, loop: Loop, view: LoopView) -> LoopView | RowsView:
    """Let a loop that adds rows add several at once."""
    if block.target.plain or not adds_rows(loop):
        return view
    taken = block.taken | block.busy
    first = next(name for name in (f"{view.index}{k}" for k in count(2)) if name not in taken)
    notes: list[ItemView] = [item for item in view.body if not isinstance(item, LoopView)]
    inner = next(item for item in view.body if isinstance(item, LoopView))
    notes += [item for item in inner.body if item.kind == "note"]
    body = tuple([item for item in inner.body if item.kind != "note"])
    one = LoopView(view.index, first, f"{first} + {ROWS}", body, simd=False, sums="")
    return RowsView(
        first, ROWS, view.start, view.extent, tuple(notes), replace(inner, body=(one,)),
        replace(view, start=first, body=(replace(inner, body=body),)),
    )

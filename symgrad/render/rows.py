"""Rows that are added to one: several at once, so that what they are added to is read and written once for them.

``for i: for j: s[j] += a[i] * X[i, j]`` reads and writes all of s for each i. Where the compiler sees how many j there
are, it keeps s in registers; where the extent is open it cannot. By four rows at once, in the same order for each j,
the sums are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from symgrad.ir.notation import Statement, parts
from symgrad.loops.program import Loop
from symgrad.render.views import LoopView, RowsView

if TYPE_CHECKING:
    from symgrad.ir.notation import Axis
    from symgrad.render.block import Block
    from symgrad.render.views import ItemView

ROWS = 4
"""So many rows are added at once."""


def adds_rows(loop: Loop, outer: dict[Axis, str]) -> bool:
    """Tell a loop whose iterations each add a row, of an open extent, to the same elements."""
    inner = loop.body[0]
    if len(loop.body) != 1 or not isinstance(inner, Loop) or not inner.simd or inner.sums or loop.part or inner.part:
        return False
    few = type(loop.extent) is int and loop.extent < 2 * ROWS
    if type(loop.extent) is int and (type(inner.extent) is int or len(inner.body) != 1):
        return False  # compilers unroll what is known, and better by themselves
    if few or (type(inner.extent) is int and inner.window is None) or loop.poll or inner.poll:
        return False
    body = [s for s in inner.body if isinstance(s, Statement)]
    names = outer | dict.fromkeys(loop.members, "row") | dict.fromkeys(inner.members, "lane")
    sums = [is_sum(s, loop, body) for s in body]
    return any(sums) and all(sums[k] or is_own(s, loop, body, names) for k, s in enumerate(body))


def is_sum(s: Statement, loop: Loop, body: list[Statement]) -> bool:
    """Tell an addition to elements that no iteration of a loop has for itself, and that nothing else looks at."""
    array = s.target.array
    alone = not any(part in loop.members for i in s.target.indices for part in parts(i))
    touched = [a for other in body for a in (other.target, *other.reads) if a.array is array]
    plain = s.how == "+=" and not s.prefix and not s.ranges and array.place != "register"
    return plain and alone and len(touched) == 1


def is_own(s: Statement, loop: Loop, body: list[Statement], names: dict[Axis, str]) -> bool:
    """Tell the writing of an element, or a register, that belongs to one iteration of a loop, as all that reads it."""
    array = s.target.array
    if s.how != "=" or s.prefix or s.ranges or s.routine is not None:
        return False
    own = array.place == "register" or any(index in loop.members for index in s.target.indices)
    reads = [a for other in body for a in other.reads if a.array is array]
    place = [names.get(index, index) for index in s.target.indices]
    return own and all([names.get(index, index) for index in a.indices] == place and not a.flat for a in reads)


def by_rows(block: Block, loop: Loop, view: LoopView) -> LoopView | RowsView:
    """Let a loop that adds rows add several at once."""
    if block.target.plain or not adds_rows(loop, block.env):
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

"""Heads of loops: the bounds of borders and interiors, the conditions in borders, what lanes accumulate apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.loops.program import Loop
from symgrad.loops.store import paths, touched
from symgrad.ops.spelling import ctype, suffix
from symgrad.render.polls import within
from symgrad.render.printer import index
from symgrad.render.views import GuardView, LetView, TilesView

if TYPE_CHECKING:
    import numpy as np

    from symgrad.ir.notation import Statement
    from symgrad.loops.program import Array, Item
    from symgrad.render.block import Block
    from symgrad.render.views import ItemView, LoopView

GRAIN = 64
"""Threads share products out in pieces of so many rows, however long the tiles: short ones leave no thread idle."""


def lanes_of(loop: Loop) -> np.dtype[Any] | None:
    """Give the widest floating-point type that a loop's iterations read or write; None where they have none."""
    kinds = {access.array.dtype for s, _ in paths([loop]) for access in touched(s) if access.array.dtype.kind == "f"}
    return max(kinds, key=lambda dtype: dtype.itemsize, default=None)


def guarded(block: Block, position: int, items: list[Item], made: list[ItemView]) -> int:
    """Put neighbouring statements of one range under one condition; return where the next one stands."""
    condition = condition_of(block, items[position])  # type: ignore[arg-type]  # a statement
    run: list[Statement] = []
    for item in items[position:]:
        if isinstance(item, Loop) or not item.ranges or condition_of(block, item) != condition:
            break
        run.append(item)
    touches = Counter([access.array for s in run for access in touched(s)])
    inner: list[ItemView] = []
    loads: dict[str, str] = {}
    for s in run:
        array = s.target.array
        own = touches[array] == block.writes[array] + len(block.reads.get(array, ()))
        if array.place == "register" and array.kind == "temporary" and not own and array not in block.names:
            made.append(LetView(ctype(array.dtype), block.fresh(array), "0"))
        block.statement(s, items, inner, loads)
    made.append(GuardView(condition, tuple(inner)))
    return position + len(run)


def condition_of(block: Block, s: Statement) -> str:
    """Print when a statement runs."""
    said = []
    for axis, first, end in s.ranges:
        name = block.env[axis]
        if end - first == 1:
            said.append(f"{name} == {index(first, block.name)}")
            continue
        if first != 0:
            said.append(f"{name} >= {index(first, block.name)}")
        if end != axis.extent:
            said.append(f"{name} < {index(end, block.name)}")
    return " && ".join(said)


def tiles_view(block: Block, loop: Loop) -> TilesView:
    """Turn a loop over tiles into a view: of tiles of one, its variable is the index of all that is inside."""
    letter = block.letter()
    start, stop = block.bounds[loop] = (f"{letter}0", f"{letter}1") if loop.tile > 1 else (letter, "")
    block.busy.update((letter, start, stop))
    own = dict.fromkeys(loop.members, letter) if loop.tile == 1 else {}
    block.env.update(own)
    thread = block.env[loop.shared.axis] if loop.shared is not None else ""
    body = (*within(block, loop, start), *block.views(loop.body))
    block.busy.difference_update((letter, start, stop))
    for axis in own:
        del block.env[axis]
    extent, team = index(loop.extent, block.name), str(loop.shared.extent) if loop.shared is not None else ""
    team = team if " " not in team else f"({team})"
    first, last = f"{letter}_first", f"{letter}_last"
    grain, end, rest = loop.tile, extent, extent
    if thread and loop.tile > GRAIN and any(one.product for _, around in paths(loop.body) for one in around):
        grain, end, rest = GRAIN, last, last
        if type(loop.extent) is not int or loop.extent % GRAIN:
            rest = f"sg_smaller({last}, {extent})"
    return TilesView(start, stop, loop.tile, grain, extent, end, rest, first, last, thread, team, body)


def walked(block: Block, loop: Loop, view: LoopView) -> LoopView:
    """Bound a loop by its tile, and by its interior or borders."""
    tile = block.bounds[loop.window] if loop.window is not None else None
    begin, end = tile or ("0", view.extent)
    if not loop.part:
        return replace(view, start=begin, extent=end)
    low, high = [index(e, block.name) for e in loop.ends]
    after = high if tile is None else f"sg_smaller({end}, {high})"
    if loop.part == "interior":
        return replace(view, start=low if tile is None else f"sg_larger({begin}, {low})", extent=after)
    if loop.ends[1] == loop.extent:
        return replace(view, start=begin, extent=low if tile is None else f"sg_smaller({end}, {low})")
    # Not by sg_larger: then gcc 12 gives the interior's loop, which follows, no lanes in a thread's part.
    within = f"{begin} < {high}" if low == "0" else f"{begin} >= {low} && {begin} < {high}"
    start = f"{within} ? {high} : {begin}"
    if tile is None:
        start = high if low == "0" else begin
    return replace(view, start=start, extent=end, low=low, high="" if low == "0" else high)


def reduction(block: Block, how: str, array: Array) -> str:
    """Print a reduction: OpenMP's own, but for the extrema of floating-point numbers, where NaN counts."""
    if how != "+" and array.dtype.kind != "f":
        how = how[:3]
    elif how != "+":
        how, kind = f"sg_{how}", suffix(array.dtype)
        block.helpers.add((how, ctype(array.dtype), kind))
        how += kind
    nans = f" reduction(+:{block.apart_from[array]})" if array in block.apart_from else ""
    return f" reduction({how}:{block.names[array]}){nans}"

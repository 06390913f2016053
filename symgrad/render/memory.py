"""Memory to views: slots of the stack and of the workspace, and what each thread has for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.loops.program import Loop
from symgrad.loops.recompute import checks
from symgrad.loops.store import paths, teams, touched
from symgrad.ops.spelling import stored
from symgrad.render.polls import polls
from symgrad.render.printer import index
from symgrad.render.views import ArrayView, LetView, ThreadsView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from symgrad.loops.program import Array, Item, Slot
    from symgrad.render.block import Block

    Arrays = tuple[ArrayView, ...]

LETTERS = "ijklmpqrsuvw"
"""Names of loop variables."""


def memory_views(arrays: Iterable[Array], block: Block, thread: str = "") -> tuple[Arrays, Arrays]:
    """Describe the memory that arrays hold: what stands on the stack, and what in the workspace."""
    slots = {a.slot: block.names[a] for a in arrays if a.slot is not None}
    views = [(slot.place, slot_view(slot, name, block, thread)) for slot, name in slots.items()]
    stack, workspace = [tuple([v for place, v in views if place == wanted]) for wanted in ("stack", "workspace")]
    return stack, workspace


def slot_view(slot: Slot, name: str, block: Block, thread: str) -> ArrayView:
    """Describe one piece of memory, a thread's own in its part of it.

    Its pointer is `restrict` where this function alone uses it, not where a part that it calls does so too.
    """
    offset = index(slot.offset, block.name, 2)
    if slot.step != 0:
        offset = f"{offset} + {thread}*{index(slot.step, block.name, 3)}"
    count: Any = slot.size // slot.dtype.itemsize
    extent = index(1 if count == 0 else count, block.name)  # C has no empty arrays
    restrict = "" if block.has_parts else block.target.restrict
    return ArrayView(stored(slot.dtype), name, extent, offset, restrict=restrict)


def threads_view(block: Block, loop: Loop) -> ThreadsView:
    """Turn a loop over threads into a view, with what each thread has for itself."""
    name = next(n for n in ("t", *LETTERS) if n not in block.taken)
    block.busy.add(name)
    block.env[loop.axis] = name
    count, least = loop.enough
    condition = "" if type(count) is int else f"{index(count, block.name)} >= {least}"
    mine = dict.fromkeys(a.array for s, _ in paths([loop], parts=False) for a in touched(s) if a.array.private)
    stack, workspace = memory_views(mine, block, name)
    stops, number = polls(loop) and not block.target.package, next(block.regions)
    failed = f"sg_failed{number}" if any(checks(s) for s, _ in paths([loop])) else ""
    leave = f"stopped{number}" if stops or failed else ""
    block.thread, block.leave, block.failed = name, leave, failed
    body = (*shares(loop.body, block, name), *block.views(loop.body))
    block.thread = block.leave = block.failed = ""
    del block.env[loop.axis]
    block.busy.remove(name)
    return ThreadsView(name, str(loop.extent), condition, stack, workspace, body, leave, stops, failed)


def shares(items: list[Item], block: Block, thread: str) -> list[LetView]:
    """Point to the sums that a thread works in: the first in the sums themselves, each other one in its copies."""
    mine = dict.fromkeys(access.array for s, _ in paths(items, parts=False) for access in touched(s))
    made = []
    for array in [array for array in mine if array.parts]:
        first, rest = array.parts
        row = index(rest.shape[1], block.name, 3)
        place = f"{thread} == 0 ? {block.names[first]} : {block.names[rest]} + ({thread} - 1)*{row}"
        made.append(LetView(f"{stored(array.dtype)} *const {block.target.restrict}".strip(), block.names[array], place))
    return made


def counts(body: list[Item], block: Block) -> tuple[LetView, ...]:
    """Count the threads that have copies of sums, where that depends on extents."""
    return tuple([
        LetView("const int32_t", str(team), f"(int32_t){index(team.count, block.name, 3)}") for team in teams(body)
    ])

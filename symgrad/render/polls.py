"""Where loops look whether the call should stop, as views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.loops.program import Loop
from symgrad.render.views import PollView

if TYPE_CHECKING:
    from symgrad.loops.program import Item
    from symgrad.render.block import Block


def within(block: Block, loop: Loop, name: str) -> tuple[PollView, ...]:
    """Look at the start of an iteration."""
    return (PollView(name, loop.poll - 1, block.leave),) if loop.poll and not _closed(loop) and _may(block) else ()


def before(block: Block, loop: Loop) -> tuple[PollView, ...]:
    """Look before a loop that cannot be left."""
    return (PollView("", 0, block.leave),) if loop.poll and _closed(loop) and _may(block) else ()


def _closed(loop: Loop) -> bool:
    return loop.simd or loop.product is not None


def _may(block: Block) -> bool:
    """Tell a block that can be left: a thread's share only by a label, which a part of it has not."""
    return not block.target.package and (bool(block.leave) or not block.thread)


def polls(loop: Loop) -> bool:
    """Tell whether a loop in a thread's share looks; by a label, for OpenMP lets nobody return from the midst of it."""
    stack: list[Item] = [loop]
    while stack:
        item = stack.pop()
        if isinstance(item, Loop):
            if item.poll:
                return True
            stack.extend(item.body)
    return False

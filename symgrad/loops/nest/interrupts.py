"""`interrupts`: where a long call looks whether it should stop, and how long a call will take.

A loop looks every few microseconds to milliseconds of work: often enough for a person who waits, too seldom to be
measured. What runs as lanes or as a block cannot look; the loops around it do.
"""

from __future__ import annotations

from functools import lru_cache

from symgrad.ir.index.notation import Statement
from symgrad.ir.index.shapes import upper
from symgrad.loops.cost import all_operations, estimate, trips
from symgrad.loops.machine import BLOCKED, GUESSED, INNER, LONG_CALL, LONG_ITERATION, OUTER, SELDOM
from symgrad.loops.program import Item, Items, Loop, LoopProgram, Walk, While, rebuild


def interrupts(program: LoopProgram) -> LoopProgram:
    """Choose the loops that look; there are some where a call may be long."""
    sizes: dict[Item, float] = {}
    whole = sum(_sized(item, sizes) * _guess(item, OUTER) for item in program.body)
    looks: dict[Item, int] = {}
    if whole >= LONG_CALL:
        _choose_loops(program.body, sizes, OUTER, 0, looks)

    def change(old: Item, item: Loop | While) -> Item:
        return item.with_(poll=looks[old]) if old in looks else item

    body = rebuild(program.body, change, (Loop, While)) if looks else program.body
    return program.with_(body=body, polled=bool(looks), work=all_operations(program.body))


def _guess(item: Item, unknown: int) -> float:
    """Estimate how many iterations an item has; of a loop over tiles, how many tiles; what may never end has most."""
    if isinstance(item, While):
        return unknown if item.total else OUTER
    if not isinstance(item, Loop):
        return 1
    if item.window is not None:
        return item.window.rows
    return max(1, _upper(trips(item), unknown)) / (item.rows or 1)


_upper = lru_cache(256)(upper)


def _sized(item: Item, sizes: dict[Item, float]) -> float:
    """Estimate the operations of one iteration of everything that has others inside, of a statement its own."""
    if isinstance(item, Statement):
        sizes[item] = estimate(item)
        return sizes[item]
    loop = item if isinstance(item, Loop) else None
    unknown = OUTER if loop is not None and loop.walk is Walk.THREADS else INNER
    inside = sum(_sized(each, sizes) * _guess(each, unknown) for block in item.blocks for each in block)
    sizes[item] = inside / (BLOCKED if loop is not None and loop.product else 1)
    return sizes[item]


def _choose_loops(items: Items, sizes: dict[Item, float], unknown: int, since: float, looks: dict[Item, int]) -> float:
    """Choose loops and how often each looks; return the operations since the last look."""
    for item in items:
        if isinstance(item, Statement):
            since += sizes[item]
            continue
        whole = sizes[item] * _guess(item, unknown)
        if since + whole < LONG_CALL:
            since += whole
        elif not isinstance(item, (Loop, While)) or (isinstance(item, Loop) and item.walk is Walk.THREADS):
            for block in item.blocks:
                since = _choose_loops(block, sizes, unknown, since, looks)
        elif isinstance(item, Loop) and (item.walk is Walk.LANES or item.product is not None):  # once, before
            if since >= SELDOM:
                looks[item] = 1
            since = whole if since >= SELDOM else since + whole
        else:
            looks[item] = 1
            if isinstance(item, Loop) and not item.tile:  # a power of two; a guessed length may be much shorter
                guessed = any(isinstance(one, Loop) and not isinstance(one.extent, int) for one in item.body)
                looks[item] = GUESSED if guessed else 1
                while looks[item] * max(sizes[item], 1) < SELDOM:
                    looks[item] *= 2
            since = sizes[item] * looks[item]
            if sizes[item] >= LONG_ITERATION:
                since = _choose_loops(item.body, sizes, INNER, 0, looks)
    return since


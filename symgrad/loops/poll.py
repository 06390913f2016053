"""`poll`: where a long call looks whether it should stop, and how long a call will take.

A loop looks every few microseconds to milliseconds of work: often enough for a person who waits, too seldom to be
measured. What runs as lanes or as a block cannot look; the loops around it do.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from symgrad.ir.shapes import upper
from symgrad.loops.program import Loop, Team
from symgrad.loops.threads import operations

if TYPE_CHECKING:
    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import Item

LONG = 20_000_000
"""A call of so many operations may take 20 ms, and then it runs where it can be stopped."""

STEP = 100_000_000
"""Inside of an iteration of so many operations, which may take 100 ms, the loops look too."""

SELDOM = 4096
"""A loop of short iterations looks again after so many operations."""

BLOCK = 8
"""Register blocks do so many operations in the time of one."""

OUTER, INNER = 1 << 30, 1 << 9
"""Guesses for unknown extents: an outermost loop may be of any length, one inside of it is not."""


def work(items: list[Item]) -> Dim:
    """Count the operations of a tree of loops, a number or an expression of the extents."""
    terms: Counter[tuple[Dim, ...]] = Counter()
    stack: list[tuple[Item, float, tuple[Dim, ...]]] = [(item, 1.0, ()) for item in items]
    while stack:
        item, times, named = stack.pop()
        if not isinstance(item, Loop):
            terms[named] += max(1, ceil(operations(item) * times))
            continue
        trips = _trips(item)
        extent = item.window.tile if item.window is not None else trips
        again = times / (item.tile or 1) / (BLOCK if item.product else 1)
        if isinstance(extent, int):
            again *= extent
        else:
            named = tuple(sorted((*named, extent), key=str))
        stack.extend((inner, again, named) for inner in item.body)
    total: Any = sum(count for dims, count in terms.items() if not dims)
    for dims, count in terms.items():
        if dims:
            total = total + count * prod(dims)
    return total


def _trips(loop: Loop) -> Dim:
    """How often a loop runs; threads share what they do, so a loop over them counts once."""
    return 1 if isinstance(loop.extent, Team) else loop.extent


def poll(items: list[Item]) -> bool:
    """Choose the loops that look; tell whether there are any, which is where a call may be long."""
    sizes: dict[Loop, float] = {}
    whole = sum(_sized(item, sizes) * (_guess(item, OUTER) if isinstance(item, Loop) else 1) for item in items)
    return whole >= LONG and _choose(items, sizes, OUTER)[1]


def _guess(loop: Loop, unknown: int) -> float:
    """Estimate how many iterations a loop has; of a loop over tiles, how many tiles."""
    if loop.window is not None:
        return loop.window.tile
    return max(1, _upper(_trips(loop), unknown)) / (loop.tile or 1)


_upper = lru_cache(256)(upper)


def _sized(item: Item, sizes: dict[Loop, float]) -> float:
    """Estimate the operations of one iteration of every loop, of a statement its own."""
    if not isinstance(item, Loop):
        return operations(item)
    unknown = OUTER if item.threads else INNER
    total = sum(_sized(each, sizes) * (_guess(each, unknown) if isinstance(each, Loop) else 1) for each in item.body)
    sizes[item] = total / (BLOCK if item.product else 1)
    return sizes[item]


def _choose(items: list[Item], sizes: dict[Loop, float], unknown: int, since: float = 0) -> tuple[float, bool]:
    """Mark loops; return the operations since the last look, and whether any loop looks."""
    found = False
    for item in items:
        if not isinstance(item, Loop):
            since += operations(item)
            continue
        whole = sizes[item] * _guess(item, unknown)
        if since + whole < LONG:
            since += whole
        elif item.threads:
            since, inside = _choose(item.body, sizes, unknown, since)
            found |= inside
        elif item.simd or item.product is not None:  # it looks once, before
            item.poll = int(since >= SELDOM)
            found |= item.poll > 0
            since = whole if item.poll else since + whole
        else:
            item.poll = _every(item, sizes[item])
            found = True
            since = sizes[item] * item.poll
            if sizes[item] >= STEP:
                since, _ = _choose(item.body, sizes, INNER)
    return since, found


def _every(loop: Loop, size: float) -> int:
    """Choose how many iterations there are between looks, a power of two; a guessed length may be much shorter."""
    if loop.tile:
        return 1
    every = 16 if any(not isinstance(inner.extent, int) for inner in loop.body if isinstance(inner, Loop)) else 1
    while every * max(size, 1) < SELDOM:
        every *= 2
    return every

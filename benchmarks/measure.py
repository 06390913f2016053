"""Times functions in turn, a block of calls each, so that a machine that drifts drifts for all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

BLOCK = 0.02
"""Seconds of calls before the next one's turn; the first call of a block, into another's caches, is not counted."""

PAUSE = 0.02
"""Seconds before each of the calls that are timed cold."""


def interleaved(
    calls: Mapping[str, Callable[[], Any]], seconds: float, rounds: int = 5,
    of: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Return the seconds of a call for each.

    Args:
        calls: what to call, each compiled and called before.
        seconds: how long all of it may take, about.
        rounds: how many turns each has at least.
        of: what is taken of all times: the median, or the minimum, which other programs do not change.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    block = min(BLOCK, seconds / rounds / max(len(calls), 1))
    end = time.perf_counter() + seconds
    gc.disable()
    try:
        turn = 0
        while turn < rounds or time.perf_counter() < end:
            for name, call in calls.items():
                call()
                times[name] += several(call, block)
            turn += 1
    finally:
        gc.enable()
    return {name: of(found) for name, found in times.items()}


def cold(calls: Mapping[str, Callable[[], Any]], seconds: float, rounds: int = 5) -> dict[str, float]:
    """Return the median seconds of a call after a pause for each, in turn: threads sleep, and caches have cooled."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    turn = 0
    while turn < rounds or time.perf_counter() < end:
        for name, call in calls.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        turn += 1
    return {name: statistics.median(found) for name, found in times.items()}


def several(call: Callable[[], Any], seconds: float) -> Iterator[float]:
    """Time calls for so long; calls of a few microseconds in bundles, for the clock's own sake."""
    clock = time.perf_counter
    start = clock()
    call()
    bundle = max(1, int(1e-4 / max(clock() - start, 1e-9)))
    end = clock() + seconds
    while True:
        start = clock()
        for _ in range(bundle):
            call()
        now = clock()
        yield (now - start) / bundle
        if now >= end:
            return

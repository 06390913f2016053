"""Times two functions in turn, A B A B ..., so that a machine that drifts drifts for both."""

from __future__ import annotations

import gc
import statistics
import time


def alternate(functions, seconds=1.0, least=7):
    """Return the median seconds of a call for each function, called in turn after two warm-up calls."""
    for function in functions.values():
        function()
        function()
    times = {name: [] for name in functions}
    gc.disable()
    try:
        end = time.perf_counter() + seconds * len(functions)
        while time.perf_counter() < end or min(map(len, times.values())) < least:
            for name, function in functions.items():
                start = time.perf_counter()
                function()
                times[name].append(time.perf_counter() - start)
    finally:
        gc.enable()
    return {name: statistics.median(t) for name, t in times.items()}


def short(functions, calls=2000, rounds=15):
    """As `alternate`, for calls of microseconds: the median over rounds of many calls."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls):
                function()
            times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(t) for name, t in times.items()}


def show(title, seconds, against="symgrad"):
    """Print one line: every time, and its ratio to symgrad's."""
    unit, factor = ("us", 1e6) if seconds[against] < 1e-3 else ("ms", 1e3)
    parts = [
        f"{name} {t * factor:8.2f} {unit}" + ("" if name == against else f" ({t / seconds[against]:.2f}x)")
        for name, t in seconds.items()
    ]
    print(f"{title:34}" + "   ".join(parts), flush=True)

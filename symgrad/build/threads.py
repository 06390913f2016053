"""How many threads a call may use; a forked child is serial until it says otherwise, if it may."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from symgrad.errors import ArgumentValueError, warn_once
from symgrad.options import TEAM, Options

if TYPE_CHECKING:
    from pathlib import Path

_chosen: int | None = None  # what set_num_threads said
_used = False  # a call of this process, or of one it was forked from, was given more than one thread
changes = np.zeros(1, np.intp)  # how often the number of threads may have become another one; calls in C look at it
_serial = False  # this process was forked: libgomp would wait for its parent's threads, which are gone

_GROUPS, _MINE = "/sys/fs/cgroup", "/proc/self/cgroup"

_WAITS = {"GOMP_SPINCOUNT": "6000", "OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "1"}
"""How often a thread looks for work before it sleeps: some 60 us, as there are between steps of training that follow
each other (by 20 us a step of 75 us took 130). libgomp's own 300,000 take the processor from whoever else runs, who
then keeps our thread waiting: loops of 0.6 ms took 1.2 ms beside one busy process and 3 in the mean. By its policy
libgomp looks half as often once there are more threads than processors, as where two threads of Python have teams, and
not 100 times: a step of training after an epoch, which Python's worker takes, took 75 us and not 113. To LLVM's runtime
the policy says to look for ever, unless it is told for how many milliseconds."""


@contextmanager
def short_waits() -> Iterator[None]:
    """Let the OpenMP runtime that is loaded here wait shortly, unless the user's environment says how it waits."""
    if _WAITS.keys() & os.environ.keys():
        yield
        return
    os.environ |= _WAITS
    try:
        yield
    finally:
        for name in _WAITS:
            os.environ.pop(name, None)


def threads(options: Options) -> int:
    """Return how many threads a call may use: ``options.threads``, what `set_num_threads` said, or the cores.

    A forked child is serial: libgomp hangs where the parent has run threads, by our calls or another package's,
    and a pool of processes has a process for each core already.
    """
    global _used  # noqa: PLW0603 - what a process has done is the process's state
    if _serial:
        return 1
    count = options.threads
    if count is None:
        count = get_num_threads()
    if count != 1:
        _require_positive("threads", count)
        _used = True
    return count


def get_num_threads() -> int:
    """Return how many threads a call uses at most, in this process, now.

    Returns:
        What `set_num_threads` said; else ``OMP_NUM_THREADS``; else the cores this process may run on, of which a
        worker of a process pool has one. A forked child has one until it calls `set_num_threads` itself.
        ``Options(threads=...)`` of a function goes before all of it, and small work is serial anyway.

    Example:
        >>> get_num_threads() >= 1
        True
    """
    if _serial:
        return 1
    return min(_count_cores(), TEAM) if _chosen is None else _chosen


class ThreadSetting:
    """What `set_num_threads` returns: ``with`` it, the setting holds for a block.

    Attributes:
        previous: what had been set before, None for the cores.
    """

    def __init__(self, previous: int | None) -> None:
        self.previous = previous

    def __enter__(self) -> int:
        return get_num_threads()

    def __exit__(self, *_: object) -> None:
        global _chosen  # noqa: PLW0603 - the setting is the process's
        _chosen = self.previous
        changes[0] += 1

    def __repr__(self) -> str:
        return f"<threads: {get_num_threads()}, before: {self.previous or 'the cores'}>"


def set_num_threads(count: int | None) -> ThreadSetting:
    """Set how many threads calls use at most, in all threads of this process, from now on.

    A result depends on the number of threads in its last digits, and for one number it is the same bits each time.

    In a forked child this starts threads again, but where a call of the parent had used them they cannot
    start, and it stays serial with a warning.

    Args:
        count: how many; None goes back to the cores.

    Returns:
        An object with the setting before as ``previous``; ``with set_num_threads(1): ...`` goes back to it at the end.

    Raises:
        ArgumentValueError: `count` is no integer from 1 to 256.

    Example:
        >>> with set_num_threads(1):
        ...     get_num_threads()
        1
    """
    global _chosen, _serial  # noqa: PLW0603 - the setting is the process's
    if count is not None:
        _require_positive("set_num_threads", count)
    previous, _chosen = _chosen, count
    changes[0] += 1
    if _serial and not _used:
        _serial = False
    if _serial and count != 1:
        warn_once(
            "forked",
            f"set_num_threads({count}) has no effect: this process was forked from one that had run threads, and "
            "OpenMP cannot start them again. Call set_num_threads(1) before the fork, or start processes by spawn.",
        )
    return ThreadSetting(previous)


@cache
def _count_cores() -> int:
    """Count the cores for the threads of this process.

    ``OMP_NUM_THREADS`` says it (of a list, the outermost level's). Else a process that multiprocessing started has
    one, since its pool has a process for each core already, and others have those they may run on: the affinity's,
    and no more than the control group's quota of processor time.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    process = sys.modules.get("multiprocessing.process")  # where it was not imported, it started no process
    # While a spawned child imports the user's main module it knows no parent yet, but it is inheriting.
    if process and (process.parent_process() or getattr(process.current_process(), "_inheriting", False)):
        return 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _quota())))


def _quota() -> float:
    """Read how many cores' time the control groups around this process grant; infinity where they set no limit."""
    from pathlib import Path

    least = math.inf
    for line in _text_of(Path(_MINE)).splitlines():
        _, names, path = line.split(":", 2)
        if names and "cpu" not in names.split(","):
            continue
        root = Path(_GROUPS, names)
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            # Version 2 has one file, version 1 two.
            older = [_text_of(folder / f"cpu.cfs_{k}_us") for k in ("quota", "period")]
            words = (_text_of(folder / "cpu.max") or " ".join(older)).split()
            if len(words) == 2 and all(word.isdecimal() for word in words) and "0" not in words:
                least = min(least, int(words[0]) / int(words[1]))
            if folder == root:
                break
    return least


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _require_positive(name: str, count: object) -> None:
    if type(count) is not int or not 1 <= count <= TEAM:
        raise ArgumentValueError(
            f"{name}: {count!r} is not a number of threads, an integer from 1 to {TEAM}",
            instead="1 for serial calls, None for all cores",
        )


def _forget_threads() -> None:
    global _serial  # noqa: PLW0603 - as above
    _serial = True
    _count_cores.cache_clear()
    changes[0] += 1


os.register_at_fork(after_in_child=_forget_threads)

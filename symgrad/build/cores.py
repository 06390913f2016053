"""How many cores this process has for itself: what OpenMP was told, the pool it works in, the system's limits."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
MINE = Path("/proc/self/cgroup")


def cores() -> int:
    """Count the cores for the threads of this process.

    ``OMP_NUM_THREADS`` says it (of a list, the outermost level's). Else a process that multiprocessing started has
    one, since its pool has a process for each core already, and others have those they may run on: the affinity's,
    and no more than the control group's quota of processor time.

    Example:
        >>> cores() >= 1
        True
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    if _in_pool():
        return 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, quota())))


def _in_pool() -> bool:
    """Whether multiprocessing started this process; where it was not imported, it did not."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    # While a spawned child imports the user's main module it knows no parent yet, but it is inheriting.
    return process.parent_process() is not None or getattr(process.current_process(), "_inheriting", False)


def quota() -> float:
    """Read how many cores' time the control groups around this process grant; infinity where they set no limit."""
    least = math.inf
    for line in _read(MINE).splitlines():
        _, names, path = line.split(":", 2)
        if names and "cpu" not in names.split(","):
            continue
        root = GROUPS / names
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            least = min(least, _granted(folder))
            if folder == root:
                break
    return least


def _granted(folder: Path) -> float:
    """Read one group's quota in cores: version 2 has one file, version 1 two."""
    text = _read(folder / "cpu.max") or f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
    words = text.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or "0" in words:
        return math.inf
    return int(words[0]) / int(words[1])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""

"""How many threads a call may use; a forked child is serial until it says otherwise, if it may."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from symgrad.build.notice import warn_once
from symgrad.errors import ArgumentValueError

if TYPE_CHECKING:
    from symgrad.options import Options

_default: int | None = None  # what a call without options.threads uses; None: not yet looked up
_used = False  # a call of this process, or of one it was forked from, was given more than one thread
_serial = False  # this process was forked: libgomp would wait for its parent's threads, which are gone


def threads(options: Options) -> int:
    """Say how many threads a call may use: ``options.threads``, what `set_num_threads` said, or the cores.

    "The cores" are those this process may run on when first asked, or ``OMP_NUM_THREADS``. A forked child is
    serial: libgomp hangs where the parent has run threads, by our calls or another package's, and a pool of
    processes has a process for each core already.

    Example:
        >>> from symgrad.options import Options
        >>> threads(Options(threads=1))
        1
    """
    global _used  # noqa: PLW0603 - what a process has done is the process's state
    if _serial:
        return 1
    count = options.threads
    if count is None:
        count = _default if _default is not None else set_num_threads(None)
    if count != 1:
        _require_positive("threads", count)
        _used = True
    return count


def set_num_threads(count: int | None) -> int:
    """Set how many threads calls use in this process from now on; None goes back to the cores. Returns the number.

    In a forked child this starts threads again, but where a call of the parent had used them they cannot
    start, and it stays serial with a warning.

    Example:
        >>> set_num_threads(1)
        1
        >>> set_num_threads(None) >= 1
        True
    """
    global _default, _serial  # noqa: PLW0603 - the setting is the process's
    if count is not None:
        _require_positive("set_num_threads", count)
    _default = _cores() if count is None else count
    if _serial and not _used:
        _serial = False
    if _serial and _default > 1:
        warn_once(
            "forked",
            f"set_num_threads({count}) has no effect: this process was forked from one that had run threads, and "
            "OpenMP cannot start them again. Call set_num_threads(1) before the fork, or start processes by spawn.",
        )
    return 1 if _serial else _default


def _require_positive(name: str, count: object) -> None:
    if type(count) is not int or count < 1:
        raise ArgumentValueError(
            f"{name}: {count!r} is not a number of threads, an integer from 1 on",
            instead="1 for serial calls, None for all cores",
        )


def _cores() -> int:
    """``OMP_NUM_THREADS`` (of a list, the outermost level's), or the cores that this process may run on."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forked() -> None:
    global _serial  # noqa: PLW0603 - see above
    _serial = True


os.register_at_fork(after_in_child=_forked)

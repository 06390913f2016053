"""Warnings that are said once a process."""

from __future__ import annotations

import os
import sys
import threading
import warnings

from symgrad.errors import SymgradWarning

_said: set[str] = set()
_lock = threading.Lock()


def warn_once(topic: str, message: str) -> None:
    """Warn with a `SymgradWarning`, once a process for each topic, at the first frame outside of symgrad."""
    with _lock:
        if topic in _said:
            return
        _said.add(topic)
    warnings.warn(message, SymgradWarning, stacklevel=_user_level())


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _user_level() -> int:
    """How many frames above `warn_once` the user's code is, as `warnings.warn` counts."""
    level, frame = 2, sys._getframe(2)  # noqa: SLF001 - inspect.stack() reads every source file on the way
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "symgrad":
        level, frame = level + 1, frame.f_back
    return level

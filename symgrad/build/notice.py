"""Warnings that are said once a process."""

from __future__ import annotations

import sys
import warnings

from symgrad.errors import SymgradWarning

_said: dict[str, object] = {}


def warn_once(topic: str, message: str) -> None:
    """Warn with a `SymgradWarning`, once a process for each topic, at the first frame outside of symgrad."""
    mine = object()
    if _said.setdefault(topic, mine) is not mine:  # in one step: of several threads, one says it
        return
    level, frame = 2, sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads every source file on the way
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "symgrad":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SymgradWarning, stacklevel=level)

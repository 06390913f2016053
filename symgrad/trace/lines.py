"""The user's lines: which statement of their code is running now."""

from __future__ import annotations

import linecache
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from symgrad.errors import Line

if TYPE_CHECKING:
    from types import FrameType

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = (_HERE, os.path.dirname(os.path.abspath(np.__file__)) + os.sep, f"{os.sep}scipy{os.sep}", "<__array_function__")
_foreign: dict[str, bool] = {}
_lines: dict[tuple[str, int], Line] = {}


def is_user_code(filename: str) -> bool:
    """Tell a user's file from symgrad's, NumPy's and SciPy's own."""
    found = _foreign.get(filename)
    if found is None:
        found = _foreign[filename] = not any(part in filename for part in _OURS)
    return found


def user_frame() -> FrameType | None:
    """Return the innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same, slower
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def error_line(error: BaseException) -> Line | None:
    """Return the innermost line of the user's code that an error went through."""
    found, step = None, error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if is_user_code(name):
            found = Line(name, step.tb_lineno, linecache.getline(name, step.tb_lineno).strip())
        step = step.tb_next
    return found


def user_line() -> Line | None:
    """Return the line of the user's code that is running, None when there is none on the stack."""
    frame = user_frame()
    if frame is None:
        return None
    key = (frame.f_code.co_filename, frame.f_lineno)
    found = _lines.get(key)
    if found is None:
        found = _lines[key] = Line(*key, linecache.getline(*key).strip())
    return found

"""Who called a function: the user's code by its name, or compiled code, which has no frame of its own."""

from __future__ import annotations

import dis
import functools
import importlib.machinery
import os
import sys
from typing import TYPE_CHECKING, Any

from symgrad.trace.source.lines import is_user_code

if TYPE_CHECKING:
    from types import CodeType, FrameType

_EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def calls(frame: FrameType, name: str, function: Any) -> bool:
    """Whether the user's code in a frame calls `function`, which it knows as `name`.

    When compiled code calls back into Python, the frame is that of the user's function that called the compiled code,
    and the call that runs there is of something else.
    """
    code = frame.f_code
    if not may_trace(code.co_filename):
        return False
    called = callee(code, frame.f_lasti)
    if called is None:  # unknown: Python 3.10, or a call of an expression
        return name in code.co_names or name in code.co_freevars or name in code.co_varnames
    return called == name or frame.f_locals.get(called, frame.f_globals.get(called)) is function


@functools.lru_cache(maxsize=4096)
def callee(code: CodeType, at: int) -> str | None:
    """Return the last name in the expression that is called at an instruction, "" for no call, None when unknown.

    An expression's instructions have its place in the source: what is called starts where the call starts and ends
    before it, and it is the longest that does.
    """
    found: list[tuple[tuple[int, int], str]] = []
    start = end = None
    for instruction in reversed(list(dis.get_instructions(code))):
        place = getattr(instruction, "positions", None)
        if place is None or None in place:
            if instruction.offset == at:
                return None
            continue
        first, last = (place.lineno, place.col_offset), (place.end_lineno, place.end_col_offset)
        if instruction.offset == at:
            if not instruction.opname.startswith("CALL"):
                return ""
            start, end = first, last
        elif end is not None and first == start and last < end and instruction.opname.startswith("LOAD_"):
            found.append((last, str(instruction.argval)))
    return max(found)[1] if found else None


@functools.cache
def may_trace(filename: str) -> bool:
    """Whether code of a file may be given local arrays: the user's, and libraries without compiled modules.

    A library with compiled modules may hand an array to C code, which wants NumPy's own.
    """
    if not is_user_code(filename):
        return False
    for folder in ("site-packages", "dist-packages"):
        head, found, tail = filename.partition(f"{os.sep}{folder}{os.sep}")
        if found:
            package = f"{head}{found}{tail.partition(os.sep)[0]}{os.sep}"
            files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
            return not any(file.startswith(package) and file.endswith(_EXTENSIONS) for file in files)
    return True

"""What a compilation is expected to take: said before it begins, and refused where it is too much."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from symgrad.build.cache import limits
from symgrad.build.notice import warn_once
from symgrad.errors import CompileTimeError

if TYPE_CHECKING:
    from symgrad.errors import Line
    from symgrad.ir.program import Program
    from symgrad.loops.cost import Expected
    from symgrad.options import Options

TOLD, WARNED = 5.0, 30.0
"""From so many seconds on a compilation is announced: by a line on a terminal, by a warning."""


def announce(program: Program, expected: Expected, options: Options, *, said: bool = False) -> bool:
    """Say what compiling a program is expected to take, where one will wait for it and it was not said.

    Returns:
        Whether it has been said.

    Raises:
        CompileTimeError: it is more than the options allow, in seconds, or than the compiler may have, in bytes.
    """
    allowed = limits.compile_seconds(options.compile_seconds)
    slow = expected.seconds > allowed
    if slow or (expected.bytes > limits.compile_bytes() and options.compile_seconds is not None):
        raise _refused(program, expected, allowed if slow else None)
    if said or expected.seconds < TOLD:
        return said
    words = f"compiling {program.name} is expected to take {_amount(expected)}"
    if expected.seconds >= WARNED:
        line, copies, all_of_them = _most_frequent(program)
        share = f"{copies:,} of its {all_of_them:,} operations"
        where = "" if line is None else f" ({share} are made by {line}: {line.text})"
        warn_once(f"slow {program.name} {all_of_them}", f"{words}{where}")
    elif sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"symgrad: {words}\n")
    return True


def _refused(program: Program, expected: Expected, seconds: float | None) -> CompileTimeError:
    line, copies, all_of_them = _most_frequent(program)
    memory = f"SYMGRAD_COMPILE_BYTES={limits.compile_bytes()}"
    bound = memory if seconds is None else f"Options(compile_seconds={seconds:g})"
    where = "" if line is None else f", {copies:,} of them made by the line below"
    return CompileTimeError(
        f"compiling {program.name} is expected to take {_amount(expected)}, and {bound} allows less: the trace has "
        f"{all_of_them:,} operations{where}; each pass of a loop in Python makes its own",
        line=line,
        instead="operations on whole arrays, or fewer passes; Options(compile_seconds=None) compiles it all the same, "
        "and Options(compiler='none') runs it by NumPy",
    )


def _amount(expected: Expected) -> str:
    return f"{expected.seconds:.0f} s and {expected.bytes / 2**20:,.0f} MB"


def _most_frequent(program: Program) -> tuple[Line | None, int, int]:
    """Return the user's line that most operations come from, how many that are, and how many there are in all."""
    counted = Counter(node.line for node in program.nodes() if node.line is not None)
    line, copies = counted.most_common(1)[0] if counted else (None, 0)
    return line, copies, len(program.nodes())

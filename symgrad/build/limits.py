"""Bounds that a user may set, of the cache's size and the compiler's time and memory; what exceeds them is refused."""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import TYPE_CHECKING

from symgrad.build.progress import expect
from symgrad.errors import CompileTimeError, warn_once

if TYPE_CHECKING:
    from symgrad.ir.program import Program
    from symgrad.loops.cost import Expected
    from symgrad.options import Options

WARNED = 30.0
"""From so many seconds on a warning announces a compilation."""


def cache_bytes() -> int:
    """How large the cache may grow: ``SYMGRAD_CACHE_BYTES``, or 512 MB."""
    return int(_limit_of("SYMGRAD_CACHE_BYTES", 512 * 2**20))


def compile_seconds(chosen: float | None = 600.0) -> float:
    """Return how long one compiler run may take: ``SYMGRAD_COMPILE_SECONDS``, or what the options say (None: ever)."""
    return _limit_of("SYMGRAD_COMPILE_SECONDS", math.inf if chosen is None else chosen)


def compile_bytes() -> int:
    """How much memory each process of the compiler may have: ``SYMGRAD_COMPILE_BYTES``, or 4 GB."""
    return int(_limit_of("SYMGRAD_COMPILE_BYTES", 4 * 2**30))


def _limit_of(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0:
        return value
    warn_once(f"environment {name}={text}", f"{name}={text!r} is not a number >= 0; {default:g} is used")
    return default


def announce(program: Program, expected: Expected, options: Options, *, said: bool = False) -> bool:
    """Say what compiling a program is expected to take, where one will wait for it; return whether it has been said.

    More than the options allow, in seconds, or than the compiler may have, in bytes, is refused (`CompileTimeError`).
    """
    allowed, memory = compile_seconds(options.compile_seconds), compile_bytes()
    slow = expected.seconds > allowed
    refused = slow or (expected.bytes > memory and options.compile_seconds is not None)
    expect(expected.seconds)
    if not refused and (said or expected.seconds < WARNED):
        return said
    amount = f"{expected.seconds:.0f} s and {expected.bytes / 2**20:,.0f} MB"
    words, count = f"compiling {program.name} is expected to take {amount}", len(program.nodes())
    lines = Counter(node.line for node in program.nodes() if node.line is not None)
    line, copies = lines.most_common(1)[0] if lines else (None, 0)  # the user's line that most operations come from
    if refused:
        bound = f"Options(compile_seconds={allowed:g})" if slow else f"SYMGRAD_COMPILE_BYTES={memory}"
        where = "" if line is None else f", {copies:,} of them made by the line below"
        raise CompileTimeError(
            f"{words}, and {bound} allows less: the trace has {count:,} operations{where}; each pass of a loop in "
            "Python makes its own",
            line=line,
            instead="operations on whole arrays, or fewer passes; Options(compile_seconds=None) compiles it all the "
            "same, and Options(compiler='none') runs it by NumPy",
        )
    where = "" if line is None else f" ({copies:,} of its {count:,} operations are made by {line}: {line.text})"
    warn_once(f"slow {program.name} {count}", f"{words}{where}")
    return True

"""C text to a shared object: through the cache, or by the compiler, once more at -O1, then an error with the line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from symgrad.build import limits
from symgrad.build.cache import store as cache
from symgrad.errors import ToolchainError, warn_once
from symgrad.options import Options
from symgrad.render.source import Source

if TYPE_CHECKING:
    from symgrad.build.toolchain.find import Toolchain
    from symgrad.build.toolchain.process import Finished

_ERROR = re.compile(r":(\d+):(?:\d+:)?\s*(?:fatal |internal compiler )?error")
_ORIGIN = re.compile(r"/\*\s*((?:(?!\*/).)*?[^\s*]:\d+\b(?:(?!\*/).)*?)\s*\*/")
_SHOWN_LINES, _SHOWN_WIDTH, _SHOWN_LINKS = 8, 200, 4

_STORE = re.compile(r"\[[^\]\n]*\*(\d+)(?: \+ (\d+))?[^\]\n]*\] \+?= ")
_SHORT_LOOP = re.compile(r"for \((?!int32_t)[^;\n]*; \w+ < ([5-9]|1[0-6]); \+\+")  # the adapter's count in 32 bits
_MANY_SUMS = re.compile(r"reduction\(\+:[^,)]*(?:,[^,)]*){7,}\)")
_EIGHT = 8
_BRIEFLY = ("-fno-gcse", "-fno-gcse-after-reload")

LONG_TEXT = 100_000
"""Characters of C from which on gcc does not look for equal values in whole functions once more, at the end. Measured
with gcc 12: that is two thirds of the time of 5,000 lines of short loops, which are unrolled (26 s, and 10 without)."""


def compile_library(
    source: Source, toolchain: Toolchain, options: Options, announce: Callable[[], object] = bool,
) -> Path:
    """Find the shared object of `source` in the cache, or compile it (and keep it there); its C lies beside it.

    A cached library's checksum has been verified. `announce` is called before the compiler runs, where it must.
    Raises `ToolchainError` when the compiler fails twice.
    """
    store = cache.open_store() if options.cache else None
    seconds = limits.compile_seconds(options.compile_seconds)
    text = source.text + source.objects
    flags = flags_for(text, toolchain)
    if store is None:
        announce()
        return _compile(source, text, toolchain, flags, seconds)
    key = cache.key(text, toolchain.identity, *flags, *toolchain.libraries, toolchain.cpu)
    name = library_name(source.entry)
    library = store.find(key, name)
    if library is None:
        announce()
        with store.lock(key, seconds):
            library = store.find(key, name)
            if library is None:
                made = _compile(source, text, toolchain, flags, seconds)
                library = store.add(key, made)
                if library is None:
                    return made
                shutil.rmtree(made.parent, ignore_errors=True)
    return library


def flags_for(text: str, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the flags for a C text.

    Those are narrower vectors where a compiler that permutes eight doubles wrongly might, and of long texts fewer
    passes.
    """
    is_long = len(text) > LONG_TEXT and "clang" not in toolchain.known.version
    flags = (*_BRIEFLY, *toolchain.flags) if is_long else toolchain.flags
    if toolchain.known.permutes or not rows_of_eight(text):
        return flags
    return (*[flag for flag in flags if "vector-width" not in flag], "-mprefer-vector-width=256")


def rows_of_eight(text: str) -> bool:
    """Whether an iteration of some loop writes, or sums, elements of a row of eight or more one by one."""
    stores = [(int(row), int(place or 0)) for row, place in _STORE.findall(text)]
    wide = [place for row, place in stores if row >= _EIGHT]
    single = any(place >= _EIGHT // 2 for place in wide)
    return single or bool(wide and _SHORT_LOOP.search(text)) or bool(_MANY_SUMS.search(text))


def library_name(entry: str) -> str:
    """Name the file of a function's library: as the function, where that is a plain word."""
    word = entry if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", entry) else "program"
    return f"{word}.so"


def _compile(source: Source, text: str, toolchain: Toolchain, flags: tuple[str, ...], seconds: float) -> Path:
    """Run the compiler in a private folder; after a failure once more at -O1."""
    from symgrad.build.toolchain import process

    library = process.scratch_folder() / library_name(source.entry)
    c = library.with_suffix(".c")

    def run(flags: tuple[str, ...]) -> Finished:
        library.unlink(missing_ok=True)
        argv = (*toolchain.argv, *flags, str(c), "-o", str(library), *toolchain.libraries)
        finished = process.run(argv, c.parent, seconds, limits.compile_bytes())
        written = finished.status != 0 or library.is_file()
        return finished if written else process.Finished(-1, "it wrote no library")

    try:
        c.write_text(text, encoding="utf-8")
        first = run(flags)
        if first.status != 0:
            second = run(tuple("-O1" if flag == "-O3" else flag for flag in toolchain.flags))
            if second.status != 0:
                raise _failure(source, toolchain, second)  # noqa: TRY301 - the folder is deleted on the way
            warn_once(
                f"-O1 {source.entry}",
                f"the C compiler {_compiler_name(toolchain)} failed on {source.entry} at -O3 ({_reason(first)}); "
                "it is compiled at -O1 and may be slow",
            )
    except BaseException:
        shutil.rmtree(library.parent, ignore_errors=True)
        raise
    return library


def _failure(source: Source, toolchain: Toolchain, finished: Finished) -> ToolchainError:
    """Compose the error: which op and user line the C is from that the compiler stopped at, and what it said."""
    what = f"the C compiler {_compiler_name(toolchain)} failed twice (-O3, -O1) on {source.entry}"
    error = _ERROR.search(finished.output)
    above = [] if error is None else source.text.splitlines()[: int(error[1])]
    origins = [found[-1] for line in above if (found := _ORIGIN.findall(line))]  # comments that name the user's lines
    if origins:
        what += f", in the code made from {origins[-1]}"
    elif source.links:
        more = ", ..." if len(source.links) > _SHOWN_LINKS else ""
        what += ", made from " + ", ".join(source.links[:_SHOWN_LINKS]) + more
    lines = [line for line in finished.output.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if "error" in line), 0)
    said = "\n".join("      " + line[:_SHOWN_WIDTH] for line in lines[first : first + _SHOWN_LINES])
    return ToolchainError(
        f"{what}; it said ({_reason(finished)}):\n{said}",
        instead="set SYMGRAD_DUMP=folder to keep the C; compiler='none' runs the same program by NumPy",
    )


def _reason(finished: Finished) -> str:
    return "too slow: " + finished.output if finished.status is None else f"exit status {finished.status}"


def _compiler_name(toolchain: Toolchain) -> str:
    return " ".join(os.path.basename(word) if os.path.isabs(word) else word for word in toolchain.argv)  # noqa: PTH117, PTH119

"""C text to a shared object: through the cache, or by the compiler, once more at -O1, then an error with the line."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from symgrad.build.cache import limits
from symgrad.build.cache import store as cache
from symgrad.build.notice import warn_once
from symgrad.build.toolchain import scratch
from symgrad.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.build.toolchain.find import Toolchain
    from symgrad.build.toolchain.process import Finished
    from symgrad.options import Options
    from symgrad.render.source import Source

_ERROR = re.compile(r":(\d+):(?:\d+:)?\s*(?:fatal |internal compiler )?error")
_ORIGIN = re.compile(r"/\*\s*((?:(?!\*/).)*?[^\s*]:\d+\b(?:(?!\*/).)*?)\s*\*/")
_SHOWN_LINES = 8
_SHOWN_WIDTH = 200
_SHOWN_LINKS = 4


_STORE = re.compile(r"\[[^\]\n]*\*(\d+)(?: \+ (\d+))?[^\]\n]*\] \+?= ")
_SHORT_LOOP = re.compile(r"< ([5-9]|1[0-6]); \+\+")
_MANY_SUMS = re.compile(r"reduction\(\+:[^,)]*(?:,[^,)]*){7,}\)")
_EIGHT = 8


@dataclass(frozen=True)
class Compiled:
    """A shared object on disk and the C it was compiled from, side by side."""

    library: Path
    c: Path


def compile_library(
    source: Source, toolchain: Toolchain, options: Options, announce: Callable[[], object] = bool,
) -> Compiled:
    """Find the shared object of `source` in the cache, or compile it (and keep it there).

    A cached library's checksum has been verified. `announce` is called before the compiler runs, where it must.
    Raises `ToolchainError` when the compiler fails twice.
    """
    store = cache.store() if options.cache else None
    seconds = limits.compile_seconds(options.compile_seconds)
    if store is None:
        announce()
        return _compile(source, toolchain, seconds)
    text = source.text + source.objects
    flags = flags_for(text, toolchain)
    key = cache.key(text, toolchain.identity, *flags, *toolchain.libraries, toolchain.cpu)
    names = library_names(source.entry)
    folder = store.find(key, names)
    if folder is None:
        announce()
        with store.lock(key, seconds):
            folder = store.find(key, names)
            if folder is None:
                compiled = _compile(source, toolchain, seconds)
                folder = store.add(key, compiled.library, compiled.c)
                if folder is None:
                    return compiled
                scratch.remove(compiled.c.parent)
    return Compiled(folder / names[0], folder / names[1])


def flags_for(text: str, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the flags for a C text: narrower vectors where a compiler that permutes eight doubles wrongly might."""
    if toolchain.known.permutes or not rows_of_eight(text):
        return toolchain.flags
    return (*[flag for flag in toolchain.flags if "vector-width" not in flag], "-mprefer-vector-width=256")


def rows_of_eight(text: str) -> bool:
    """Whether an iteration of some loop writes, or sums, elements of a row of eight or more one by one."""
    stores = [(int(row), int(place or 0)) for row, place in _STORE.findall(text)]
    wide = [place for row, place in stores if row >= _EIGHT]
    single = any(place >= _EIGHT // 2 for place in wide)
    return single or bool(wide and _SHORT_LOOP.search(text)) or bool(_MANY_SUMS.search(text))


def library_names(entry: str) -> tuple[str, str]:
    """File names for the library and the C of a function: its own, where that is a plain word."""
    word = entry if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", entry) else "program"
    return f"{word}.so", f"{word}.c"


def _compile(source: Source, toolchain: Toolchain, seconds: float) -> Compiled:
    """Run the compiler in a private folder; after a failure once more at -O1."""
    folder = scratch.folder()
    library, c = (folder / name for name in library_names(source.entry))
    try:
        c.write_text(source.text + source.objects, encoding="utf-8")
        finished = _run(toolchain, flags_for(source.text, toolchain), c, library, seconds)
        if finished.status != 0:
            _compile_gently(source, toolchain, finished, Compiled(library, c), seconds)
    except BaseException:
        scratch.remove(folder)
        raise
    return Compiled(library, c)


def _compile_gently(
    source: Source, toolchain: Toolchain, first: Finished, compiled: Compiled, seconds: float,
) -> None:
    flags = tuple("-O1" if flag == "-O3" else flag for flag in toolchain.flags)
    second = _run(toolchain, flags, compiled.c, compiled.library, seconds)
    if second.status != 0:
        raise _failure(source, toolchain, second)
    warn_once(
        f"-O1 {source.entry}",
        f"the C compiler {_called(toolchain)} failed on {source.entry} at -O3 ({_reason(first)}); "
        "it is compiled at -O1 and may be slow",
    )


def _run(toolchain: Toolchain, flags: tuple[str, ...], c: Path, library: Path, seconds: float) -> Finished:
    from symgrad.build.toolchain import process

    with contextlib.suppress(FileNotFoundError):
        library.unlink()
    argv = (*toolchain.argv, *flags, str(c), "-o", str(library), *toolchain.libraries)
    try:
        finished = process.run(argv, c.parent, seconds, limits.compile_bytes())
    except OSError as error:
        return process.Finished(-1, str(error))
    if finished.status == 0 and not library.is_file():
        return process.Finished(-1, "it wrote no library")
    return finished


def _failure(source: Source, toolchain: Toolchain, finished: Finished) -> ToolchainError:
    """Compose the error: which op and user line the C is from that the compiler stopped at, and what it said."""
    said = "\n".join("      " + line[:_SHOWN_WIDTH] for line in _telling(finished.output))
    what = f"the C compiler {_called(toolchain)} failed twice (-O3, -O1) on {source.entry}"
    origin = _origin(source, finished.output)
    if origin is not None:
        what += f", in the code made from {origin}"
    elif source.links:
        more = ", ..." if len(source.links) > _SHOWN_LINKS else ""
        what += ", made from " + ", ".join(source.links[:_SHOWN_LINKS]) + more
    return ToolchainError(
        f"{what}; it said ({_reason(finished)}):\n{said}",
        instead="set SYMGRAD_DUMP=folder to keep the C; compiler='none' runs the same program by NumPy",
    )


def _origin(source: Source, output: str) -> str | None:
    """Find the comment that names the user's line, at the line of the compiler's first error or nearest before."""
    error = _ERROR.search(output)
    if error is None:
        return None
    lines = source.text.splitlines()[: int(error[1])]
    for line in reversed(lines):
        origins: list[str] = _ORIGIN.findall(line)
        if origins:
            return origins[-1]
    return None


def _telling(output: str) -> list[str]:
    """Shorten the compiler's words to what tells the reason: from its first error on, a few lines."""
    lines = [line for line in output.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if "error" in line), 0)
    return lines[first : first + _SHOWN_LINES]


def _reason(finished: Finished) -> str:
    return "too slow: " + finished.output if finished.status is None else f"exit status {finished.status}"


def _called(toolchain: Toolchain) -> str:
    return " ".join(os.path.basename(word) if os.path.isabs(word) else word for word in toolchain.argv)  # noqa: PTH117, PTH119

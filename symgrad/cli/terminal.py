"""What goes to the terminal: colours and progress where one is attached, plain bytes where none is."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from symgrad.errors import SymgradError


class Refused(click.ClickException):
    """What was asked for cannot be done: one line, exit code 2."""

    exit_code = 2


def code(text: str, language: str) -> None:
    """Print generated code, coloured on a terminal, byte for byte as it is elsewhere."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    shown = Syntax("", language, theme="ansi_dark", background_color="default").highlight(text)
    Console().print(shown, soft_wrap=True, end="")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool = False) -> None:
    """Print a table: rich's on a terminal, aligned columns elsewhere, Markdown on request."""
    if markdown:
        lines = [head, ["---"] * len(head), *rows]
        sys.stdout.writelines(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)
    elif sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table

        shown = Table(*head, box=box.SIMPLE, show_header=any(head))
        for row in rows:
            shown.add_row(*[cell.replace("[", r"\[") for cell in row])
        Console().print(shown)
    else:
        from symgrad.api.report import in_columns

        sys.stdout.write(in_columns([head, *rows] if any(head) else rows) + "\n")


@contextmanager
def working(on: str) -> Iterator[None]:
    """Show that something takes its time, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(on):
        yield


def complain(text: str) -> None:
    """Print one line to the error stream."""
    sys.stderr.write(f"symgrad: {' '.join(text.split())}\n")


def explained(error: BaseException) -> str:
    """Say in one line what went wrong, where in the user's code, and what to write instead."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, SymgradError):
        where = f" (at {error.line.file}:{error.line.number}: {error.line.text})" if error.line else ""
        instead = f"; instead: {error.instead}" if error.instead else ""
        return f"{error.what}{where}{instead}"
    # the innermost line it went through that is in nobody's library is the user's
    folders = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    libraries = (*folders, str(Path(__file__).parents[1]), "<")
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(libraries) and not f.filename.endswith("/bin/symgrad")]
    place = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
    return f"{place}{type(error).__name__}: {error}"

"""``#line``: which line of the user's each statement comes from, for debuggers and compilers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from symgrad.ir.names import comment
from symgrad.render.package import RowView, with_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from symgrad.errors import Line


NOTE = re.compile(r"\s+/\* (\S.*?:\d+)(?:  .*)? \*/")


def with_lines(text: str, name: str, lines: Iterable[Line]) -> str:
    """Put ``#line`` before every line of C that follows a comment with a line of the user's.

    Args:
        text: the C.
        name: of its file, to which what follows a function belongs again.
        lines: the user's lines that its comments name.
    """
    known = {comment(str(line)): line for line in lines}
    rows: list[RowView] = []
    now: Line | None = None
    printed = 0
    for line in text.splitlines():
        note = NOTE.fullmatch(line)
        if note is not None and note[1] in known:
            now = known[note[1]]
        elif now is not None and line == "}":
            printed += 2
            rows.append(RowView(line, name, printed))  # the number of the line after the directive
            now = None
            continue
        elif now is not None and line.strip() and not line.lstrip().startswith(("#", "/*")):
            printed += 2
            rows.append(RowView(line, comment(str(now)).rpartition(":")[0].replace('"', "'"), now.number))
            continue
        printed += 1
        rows.append(RowView(line))
    return with_rows(rows)

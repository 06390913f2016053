"""How the names of values begin in a package: as the user's, so that a change of one line renames little."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from symgrad.ir.names import identifier

if TYPE_CHECKING:
    from symgrad.errors import Line

ASSIGNED = re.compile(r"\s*([A-Za-z]\w*)\s*(?::[^=]*)?[-+*/@]?=(?!=)")
"""A line that assigns to a name."""


def stem(line: Line | None) -> str:
    """Say how names of a line's values begin: by what the line assigns to.

    >>> from symgrad.errors import Line
    >>> stem(Line("model.py", 3, "z = X @ w")), stem(Line("model.py", 4, "return z")), stem(None)
    ('z_', 'v', 'v')
    """
    assigned = ASSIGNED.match(line.text) if line is not None else None
    return "v" if assigned is None else f"{identifier(assigned[1]).rstrip('_')}_"

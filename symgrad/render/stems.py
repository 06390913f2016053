"""How the names of values begin in a package: as the user's, so that a statement added or changed renames little."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from symgrad.ir.names import identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from symgrad.errors import Line

    Stems = Mapping[Line | None, str]

ASSIGNED = re.compile(r"\s*([^\W\d]\w*)(?:\[[^=]*\])?\s*(?::[^=]*)?([-+*/@]*)=(?!=)(.*)")
"""A line that assigns to a name, or to elements of what has one."""

RETURNED = re.compile(r"\s*return()()\b(.*)")
"""A line that returns what has no name: ``result``."""

SPOKEN = {"@": "matmul", "**": "power", "*": "times", "/": "over", "+": "plus", "-": "minus"}
"""Operators, the tightest first."""


def stems(lines: Iterable[Line]) -> Stems:
    """Say how names of each line's values begin: by what it assigns to, or `result`.

    Of several lines that assign to one name, or return, each after the first also says what it does, so that one more
    is nothing to the others.

    >>> from symgrad.errors import Line
    >>> texts = ["z = X @ w", "z = np.tanh(z)", "z += 0.5", "z[0] = 1 / z[1]", "return np.sum(z)", "print(z)"]
    >>> list(stems([Line("model.py", number, text) for number, text in enumerate(texts)]).values())
    ['z_', 'z_tanh_', 'z_plus_', 'z_over_', 'result_']
    """
    found: dict[Line | None, str] = {}
    taken: set[str] = set()
    for line in sorted(set(lines)):
        assigned = ASSIGNED.match(line.text) or RETURNED.match(line.text)
        if assigned is None:
            continue
        name = identifier(assigned[1] or "result").rstrip("_")
        if name in taken:
            name = identifier(f"{name}_{_done(assigned[2] + assigned[3])}", taken).rstrip("_")
        taken.add(name)
        found[line] = f"{name}_"
    return found


def _done(expression: str) -> str:
    """Say what an expression does: the function it calls first, or an operator."""
    called = re.search(r"([A-Za-z]\w*)\(", expression)
    if called is not None:
        return called[1]
    return next((word for sign, word in SPOKEN.items() if sign in expression), "again")

"""Names of values as the user's: ``diff`` is what the line ``diff = x - mean`` assigns, ``diff_bar`` its cotangent.

They depend on the user's lines alone, so that a statement added or changed renames little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from symgrad.errors import Derived, Line
from symgrad.ir.names import identifier
from symgrad.loops.program import Array, LoopProgram

ASSIGNED = re.compile(r"\s*([^\W\d]\w*(?:, *[^\W\d]\w*)*)(?:\[[^=]*\])?\s*(?::[^=]*)?([-+*/@]*)=(?!=)(.*)")
"""A line that assigns to a name, to several, or to elements of what has one."""

RETURNED = re.compile(r"\s*return()()\b(.*)")
"""A line that returns what has no name: ``result``."""

SPOKEN = {"@": "matmul", "**": "power", "*": "times", "/": "over", "+": "plus", "-": "minus"}
"""Operators, the tightest first."""

LOWERED = re.compile(r"[tn]\d+((?:_\d+)*)")
"""An array of a value, or of one part of a value. Arrays that a pass adds have its word for what they are."""


def stems(lines: Iterable[Line]) -> Mapping[Line, str]:
    """Say how names of each line's values begin: by what it assigns to, or `result`.

    Of several lines that assign to one name, or return, each after the first also says what it does, so that one more
    is nothing to the others. The lines of one statement have one. What C, a header or this program's own C may mean by
    it begins with ``v_``.

    >>> from symgrad.errors import Line
    >>> texts = ["z = X @ w", "z = np.tanh(z)", "z[0] = 1 / z[1]", "erf = f(", "erf = f( ... z)", "c, s = z", "del z"]
    >>> list(stems([Line("model.py", number, text) for number, text in enumerate(texts)]).values())
    ['z', 'z_tanh', 'z_over', 'v_erf', 'v_erf', 'c_s']
    """
    found: dict[Line, str] = {}
    taken: set[str] = set()
    begun = ""
    last: Line | None = None
    for line in sorted(set(lines)):
        goes_on, begun = begun, line.text.partition(" ... ")[0]
        if goes_on == begun and begun != line.text and last in found:
            found[line] = found[last]
            continue
        last = line
        assigned = ASSIGNED.match(line.text) or RETURNED.match(line.text)
        if assigned is None or "lambda" in line.text:  # what a lambda computes is assigned nowhere
            continue
        name = re.sub(r", *", "_", assigned[1]).rstrip("_") or "result"
        name = identifier(name if identifier(name)[-1] != "_" else f"v_{name}").rstrip("_")
        if name in taken:
            does = assigned[2] + assigned[3]  # the function that it calls first, or an operator
            called = re.search(r"([A-Za-z]\w*)\(", does)
            word = called[1] if called else next((word for sign, word in SPOKEN.items() if sign in does), "again")
            name = identifier(f"{name}_{word}", taken).rstrip("_")
        taken.add(name)
        found[line] = name
    return found


class Names:
    """How the values of one program are called.

    Attributes:
        whole: the arrays that hold what a line assigns, or all of its cotangent, each with the bare name.
    """

    def __init__(self, loops: LoopProgram, taken: Iterable[str]) -> None:
        arrays = [(array, array.line) for array in loops.temporaries if array.line is not None]
        lines = [line for s, _ in loops.paths if (line := s.line) is not None] + [line for _, line in arrays]
        self.stems = stems([*lines, *[line.owner for line in lines if line.owner is not None]])
        found: dict[str, Array] = {}
        for array, line in arrays:
            stem = self.stem(line)
            if stem and LOWERED.fullmatch(array.name) and (line.owner or not isinstance(line, Derived)):
                if line.suffix == "_bar":
                    found.setdefault(stem, array)  # the cotangent of what a line assigns comes before those inside it
                else:
                    found[stem] = array
        others = {*taken}
        self.whole = {array: stem for stem, array in found.items() if stem not in others}

    def stem(self, line: Line | None) -> str:
        """Return how the names of a line's values begin."""
        if line is None:
            return ""
        stem = self.stems.get(line.owner or line)
        return f"{stem}{line.suffix}" if stem else ""

    def word(self, array: Array, line: Line | None) -> str:
        """Return how the name of an array begins, whose values are made at a line if not at its own."""
        stem, lowered = self.stem(array.line or line), LOWERED.fullmatch(array.name)
        if lowered is not None:
            return f"{stem}{lowered[1]}" if stem else ""
        return array.name if "_" in array.name else f"{stem}_{array.name.rstrip('0123456789')}" if stem else ""

    def chosen(self, scope: Scope, arrays: Sequence[Array], line: Line | None = None, bare: str = "v") -> str:
        """Choose a name of an array, of memory that several hold one after the other, or of a part of an expression.

        Args:
            scope: where it is unlike the others.
            arrays: whose name it is; none for a part of an expression.
            line: the line it is made at, if the arrays do not say so.
            bare: how it begins where the user has no name.
        """
        stem = self.stem((arrays[0].line if arrays else None) or line)
        words = [*dict.fromkeys([self.word(array, line) for array in arrays])] or [stem]
        if words == [stem]:
            whole = any(array in self.whole for array in arrays)
            return stem if whole else scope.numbered(f"{stem}_" if stem else bare)
        words[1:] = [f"then_{words[1]}" if len(words) == 2 else "then_others"] if len(words) > 1 else []
        return scope.unlike("_".join(filter(None, words)))


class Scope:
    """The names that mean something where a function's names are chosen."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = {*taken}
        self.counts: dict[str, count[int]] = {}

    def numbered(self, start: str) -> str:
        """Choose a name and take it: the start with the next number."""
        numbers = self.counts.setdefault(start, count(1))
        name = next(name for k in numbers if (name := f"{start}{k}") not in self.taken)
        self.taken.add(name)
        return name

    def unlike(self, name: str) -> str:
        """Choose a name and take it: this one, with a number if it is taken."""
        if name in self.taken:
            return self.numbered(f"{name}_")
        self.taken.add(name)
        return name

"""Which extents a compilation leaves open: what the user named, and what was seen to change.

A *pattern* lists the extents of all arrays of a call, one after the other: numbers, and names for those that are left
open. Extents of one name are equal in every call that the compilation serves, and ``n+1`` is one more than ``n``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from symgrad.api.call.arguments import Said
from symgrad.errors import ConcretizationError
from symgrad.ir.index.shapes import Shape

if TYPE_CHECKING:
    from symgrad.api.call.function import Entry

Extents = tuple[int, ...]
Pattern = tuple[int | str, ...]

NAMES = "nmpqrsuvlk"
"""What extents are called that nobody named."""

ATTEMPTS = 6
"""So many patterns are refused before the sizes of a call are compiled for one by one without another attempt."""

_SUM = re.compile(r"([A-Za-z]\w*)\+(\d+)")


def unify(pattern: Sequence[int | str], extents: Sequence[int | str]) -> dict[str, Any] | None:
    """Find what the names of a pattern stand for; None where the extents do not fit it.

    >>> unify(("n", 3, "n"), (5, 3, 5)), unify(("n", 3, "n"), (5, 3, 4)), unify(("n+2", "n"), (5, 3))
    ({'n': 5}, None, {'n': 3})
    """
    names: dict[str, Any] = {}
    sums = []
    for want, have in zip(pattern, extents, strict=True):
        if isinstance(want, int):
            if want != have:
                return None
        elif found := _SUM.fullmatch(want):
            sums.append((found, have))
        elif names.setdefault(want, have) != have:
            return None
    for found, have in sums:
        if (known := names.get(found[1])) is not None:
            more = f"{known}+{found[2]}" if isinstance(known, str) else known + int(found[2])
            if have != more:
                return None
    return names


def pattern_of(shapes: Iterable[Shape]) -> Pattern:
    """Write the extents of shapes as a pattern.

    >>> from symgrad.ir.index.shapes import symbol
    >>> pattern_of([(symbol("n") + 1, 3)])
    ('n+1', 3)
    """
    return tuple([d if isinstance(d, int) else str(d).replace(" ", "") for shape in shapes for d in shape])


class Sizes:
    """The extents seen with arguments of one structure, and of certain dtypes and ranks; what was compiled for them.

    Attributes:
        alone: extents that have a compilation of their own.
        refusals: the patterns the function could not be compiled for, and why.
    """

    def __init__(self, said: Said, dynamic: Any, taken: Iterable[str] = ()) -> None:
        """Begin with what the user says of the extents.

        Args:
            said: a number, a name or None for each extent.
            dynamic: ``"auto"``: those that change are left open too; False: none are; else what is asked for must be.
            taken: names that are something else's.
        """
        self.said, self._learns, self._closed = said, dynamic == "auto", dynamic is False
        self._insists = not self._learns and not self._closed
        other = {*taken, *[word for word in said if isinstance(word, str)]}
        self._names = [name for name in (*NAMES, *[f"n_{k}" for k in range(len(said))]) if name not in other]
        self.alone: dict[Extents, None] = {}
        self.refusals: dict[Pattern, str] = {}
        self._seen: dict[Extents, None] = {}
        self._needed: set[int] = set()
        self._open: tuple[tuple[Pattern, Entry], ...] = ()

    def serving(self, extents: Extents) -> Entry | None:
        """Return a compilation with open extents that serves a call."""
        for pattern, entry in self._open:
            names = unify(pattern, extents)
            if names is not None and not entry.call.unmet(names):
                return entry
        return None

    def add(self, pattern: Pattern, entry: Entry) -> None:
        """Keep a compilation with open extents."""
        self._open = (*self._open, (pattern, entry))

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Learn from a call, unless it fails: of its extents, and of what was refused for them, nothing stays then."""
        before = dict(self.refusals), dict(self._seen), set(self._needed), self._open
        try:
            yield
        except BaseException:
            self.refusals, self._seen, self._needed, self._open = before
            raise

    def proposed(self, extents: Extents) -> Pattern | None:
        """Return what to compile for: a pattern with open extents that was not refused, or None for the numbers."""
        self._seen.setdefault(extents)
        if self._closed:
            return None
        fitting = [(pattern, names, entry) for pattern, entry in self._open if (names := unify(pattern, extents))]
        if fitting:
            closer = (_numbers_for(pattern, extents, entry.call.unmet(names)) for pattern, names, entry in fitting)
            return next((pattern for pattern in closer if self._is_new(pattern)), None)
        for seen in self._alike(extents):
            for options in ({}, {"changed": True}, {"related": True}):
                pattern = self._general(seen, **options)
                if self._is_new(pattern):
                    return pattern
        return None

    def _is_new(self, pattern: Pattern) -> bool:
        """Whether a pattern leaves an extent open, was not compiled for, and no more special one was refused."""
        known = any(unify(pattern, other) is not None for other in self.refusals) or pattern in dict(self._open)
        return not known and not all(type(word) is int for word in pattern)

    def _alike(self, extents: Extents) -> Iterator[list[Extents]]:
        """Yield what was seen, these extents last: all, then those alone that have an extent of 1 where these have."""
        if len(self.refusals) >= ATTEMPTS:
            return
        seen = [e for e in self._seen if all(e[k] == extents[k] for k in self._needed) and e != extents]
        yield [*seen, extents]
        ones = [k for k, e in enumerate(extents) if e == 1]
        yield [*[e for e in seen if [k for k, one in enumerate(e) if one == 1] == ones], extents]

    def _general(self, seen: list[Extents], *, changed: bool = False, related: bool = False) -> Pattern:
        """Name what changed among extents that were seen; what was equal in all of them has one name.

        What the user named is open too, but with `changed` only where it changed. With `related`, extents that
        were always so much larger than another one are that one and a number.
        """
        columns = list(zip(*seen, strict=True))
        alike: dict[Extents, list[Extents]] = {}  # by how much they differ from the first call's
        for column in columns if related else ():
            alike.setdefault(tuple([e - column[0] for e in column]), []).append(column)
        least = {column: min(every) for every in alike.values() for column in every}
        learnt: dict[tuple[int, ...], str] = {}
        for word, column in zip(self.said, columns, strict=True):
            if isinstance(word, str) and len({*column}) > 1:
                learnt.setdefault(column, word)
        names = iter(self._names)
        pattern: list[int | str] = []
        for place, (word, column) in enumerate(zip(self.said, columns, strict=True)):
            if isinstance(word, str) and place not in self._needed and not (changed and len({*column}) == 1):
                pattern.append(word)
            elif not self._learns or len({*column}) == 1:
                pattern.append(column[-1])
            else:
                first = least.get(column, column)
                name = learnt[first] if first in learnt else learnt.setdefault(first, next(names))
                pattern.append(name if column == first else f"{name}+{column[0] - first[0]}")
        return tuple(pattern)

    def refuse(self, pattern: Pattern, error: Exception) -> None:
        """Note why a pattern cannot be compiled; an extent that the function needs as a number stays one."""
        if self._insists:
            raise error
        words = getattr(error, "what", None) or f"{type(error).__name__}: {error}"
        self.refusals[pattern] = str(words).splitlines()[0]
        if isinstance(error, ConcretizationError):
            needed = [isinstance(word, str) and word.partition("+")[0] in error.extents for word in pattern]
            self._needed |= {k for k, each in enumerate(needed) if each}

    def told(self) -> list[str]:
        """Say what was refused."""
        return [f"({', '.join(map(str, pattern))}): {why}" for pattern, why in self.refusals.items()]


def _numbers_for(pattern: Pattern, extents: Extents, names: frozenset[str]) -> Pattern:
    """Put numbers in the place of some of a pattern's names.

    >>> _numbers_for(("n", "m", "n+1"), (1, 5, 2), frozenset("n"))
    (1, 'm', 2)
    """
    pairs = zip(pattern, extents, strict=True)
    return tuple([e if isinstance(word, int) or word.partition("+")[0] in names else word for word, e in pairs])

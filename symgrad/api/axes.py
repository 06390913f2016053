"""Names for axes: what a user says of the extents of arguments, and the check that a call keeps to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.api.argnums import chosen
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.shapes import show
from symgrad.trace.signature import extent_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from symgrad.trace.signature import Signature

Said = tuple["int | str | None", ...]
"""What is said of extents, one after the other: a number, a name, or nothing."""

ANY = "..."
_WORD = re.compile(r"\d{1,15}|[A-Za-z]\w*(\s*\+\s*[1-9]\d{0,8})?|_|\.\.\.")


class Axes(NamedTuple):
    """What is said of one array.

    Attributes:
        words: for each axis a number, a name or None; `ANY` stands for any number of axes of which nothing is said.
        dtypes: names of the dtypes it may have, None for all.
        shown: how the user wrote it.
    """

    words: tuple[int | str | None, ...]
    dtypes: frozenset[str] | None
    shown: str

    def of_rank(self, rank: int) -> Said | None:
        """Say it of an array of so many axes; None where it has another number of them."""
        if ANY not in self.words:
            return self.words if len(self.words) == rank else None
        place, more = self.words.index(ANY), rank - len(self.words) + 1
        if more < 0:
            return None
        return (*self.words[:place], *[None] * more, *self.words[place + 1 :])


def axes(text: Any) -> Axes:
    """Read the axes of an array: ``"n,d"``, ``"n,3"``, ``"n+1"``, ``"..., n"``; ``_`` says nothing of an axis.

    Raises:
        ArgumentValueError: the text is something else.

    >>> axes("n,_,3").words
    ('n', None, 3)
    """
    words = [w.strip() for w in text.split(",")] if isinstance(text, str) and text.strip() else []
    if not isinstance(text, str) or not all(map(_WORD.fullmatch, words)) or words.count(ANY) > 1:
        raise ArgumentValueError(f"dynamic names axes by {text!r:.60}", instead='as "n,d", "n,3", "n,_" or "...,n"')
    read = [int(w) if w.isdigit() else None if w == "_" else w if w == ANY else sum_of(w) for w in words]
    return Axes(tuple(read), None, f"dynamic {text!r}")


def sum_of(word: str, *, strict: bool = True) -> str:
    """Read ``n`` or ``n + 1``, with a name that C takes."""
    name, plus, more = word.replace(" ", "").partition("+")
    return f"{extent_name(name, strict=strict)}{plus}{more}"


def by_argument(described: Mapping[int | str, Axes], signature: Signature) -> list[Axes | None]:
    """Give each array of a call what is said of it, by the position, the name or the path of an argument.

    Raises:
        ArgumentValueError: there is no such part of an argument that was given.
    """
    found: list[Axes | None] = [None] * len(signature.specs)
    for key, said in described.items():
        root = re.match(r"\w*", key)[0] if isinstance(key, str) else key  # type: ignore[index]
        if not any(root in (position, path_root(path)) for position, path in _given(signature)):
            continue  # an argument that was left out
        try:
            (part,) = chosen((key,), signature)
        except ArgumentValueError:
            known = ", ".join(signature.paths)
            raise ArgumentValueError(f"dynamic names {key!r}, which is no array among the arguments {known}") from None
        for leaf in part.leaves:
            found[leaf] = said
    return found


def path_root(path: str) -> str:
    """Return the argument a path begins with."""
    return re.match(r"\w*", path)[0]  # type: ignore[index]


def _given(signature: Signature) -> Sequence[tuple[Any, str]]:
    return [*zip(signature.positions, signature.paths, strict=True)]


def said(described: Sequence[Axes | None], signature: Signature) -> Said:
    """List what is said of every extent of a call.

    Raises:
        ArgumentError: an array has another number of axes or another dtype, naming it.
    """
    found: list[int | str | None] = []
    for one, spec, path in zip(described, signature.specs, signature.paths, strict=True):
        if one is None:
            found += [None] * len(spec.shape)
            continue
        words = one.of_rank(len(spec.shape))
        if words is None or not _takes(one, spec.dtype, spec.weak):
            raise ArgumentError(f"argument {path} is {spec}, and its axes and dtype are to be {one.shown}")
        found += words
    return tuple(found)


def _takes(one: Axes, dtype: np.dtype[Any], weak: type | None) -> bool:
    """Tell a dtype that is allowed: by its name, or a Python number's by its kind."""
    if one.dtypes is None or dtype.name in one.dtypes:
        return True
    return weak is not None and any(name.startswith(dtype.name[:3]) or weak is int for name in one.dtypes)


def check(words: Said, signature: Signature) -> None:
    """Check that a call keeps to what is said of its extents.

    Raises:
        ArgumentValueError: two extents of one name differ, naming both arguments; or one is another number.
    """
    first: dict[str, tuple[str, int, Any]] = {}
    sums: list[tuple[str, tuple[str, int, Any]]] = []
    said_of = iter(words)
    for path, spec in zip(signature.paths, signature.specs, strict=True):
        for axis, extent in enumerate(spec.shape):
            word, place = next(said_of), (path, axis, spec.shape)
            if isinstance(word, int) and word != extent:
                raise ArgumentValueError(f"the extent {_shown(*place)} is to be {word}")
            if isinstance(word, str) and "+" in word:
                sums.append((word, place))
            elif isinstance(word, str) and (known := first.setdefault(word, place))[2][known[1]] != extent:
                raise ArgumentValueError(f"the extent {word} is {_shown(*known)}, and {_shown(*place)}")
    for word, place in sums:
        name, _, more = word.partition("+")
        if place[2][place[1]] != (known := first[name])[2][known[1]] + int(more):
            raise ArgumentValueError(f"the extent {name} is {_shown(*known)}, and {word} is {_shown(*place)}")


def _shown(path: str, axis: int, shape: Any) -> str:
    return f"{shape[axis]} on axis {axis} of {path}, which has shape {show(shape)}"

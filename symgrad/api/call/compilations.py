"""The compilations of one function: which of them serves a call, and what for a new one is made.

Which extents a compilation leaves open is what the user named, and what was seen to change. A *pattern* lists the
extents of all arrays of a call, one after the other: numbers, and names for those that are left open. Extents of one
name are equal in every call that the compilation serves, and ``n+1`` is one more than ``n``.
"""

from __future__ import annotations

import re
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.api.call.arguments import alike, describe_change, show_signature, told_apart
from symgrad.errors import ConcretizationError, SymgradWarning, ToolchainError
from symgrad.trace.signature import Spec
from symgrad.trace.state import active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from symgrad.api.call.arguments import Arguments, Leaves
    from symgrad.api.call.axes import Said
    from symgrad.api.call.captures import Captured
    from symgrad.build.call.call import Call
    from symgrad.ir.shapes import Shape
    from symgrad.pipeline import Built
    from symgrad.trace.signature import Signature

    Extents = tuple[int, ...]
    Pattern = tuple[int | str, ...]

MANY = 8
"""A function compiled so often warns, once, with the argument that keeps changing."""

NAMES = "nmpqrsuvlk"
"""What extents are called that nobody named."""

ATTEMPTS = 6
"""So many patterns are refused before the sizes of a call are compiled for one by one without another attempt."""

_SUM = re.compile(r"([A-Za-z]\w*)\+(\d+)")


class Entry(NamedTuple):
    """One compilation of a function.

    Attributes:
        tree: the structure of what the function returned.
        call: how it is called.
        short: the short call, while the function reads what it read.
        opened: whether extents are left open.
    """

    signature: Signature
    built: Built
    tree: Any
    call: Call
    short: Callable[[tuple[Any, ...]], Any] | None
    opened: bool


class CacheInfo(NamedTuple):
    """What a function was compiled for: signatures, how often, why each was needed, and why no extents were left open.

    Attributes:
        refusals: what could not be compiled with open extents, and why: such sizes are compiled one by one.
    """

    signatures: tuple[str, ...]
    compilations: int
    reasons: tuple[str, ...]
    hits: int
    refusals: tuple[str, ...] = ()


class Key(NamedTuple):
    """What tells compilations apart."""

    tree: Any
    kinds: tuple[Any, ...]
    statics: Any
    captured: tuple[Any, ...]


class Compilations:
    """The compilations of one function, by what they serve.

    Args:
        arguments: how calls become arrays.
        captured: what the function reads that is no argument.
        make: compiles for a signature.

    Attributes:
        saved: lists signatures with open extents that can be had without the function.
    """

    def __init__(
        self, arguments: Arguments, captured: Captured, make: Callable[[Signature, Sizes | None], Entry],
    ) -> None:
        """Begin without any."""
        self._arguments, self._captured, self._make = arguments, captured, make
        self.saved: Callable[[], Iterable[Signature]] = tuple
        self._entries: dict[Key, Entry] = {}
        self._sizes: dict[Key, Sizes] = {}
        self._lock = threading.RLock()
        self._hits = 0
        self._reasons: list[str] = []
        self._warned = False
        self._blocks: tuple[Any, ...] = ()

    def find(self, call: Leaves) -> Entry:
        """Return the compilation for a call, making it once."""
        fixed = self._arguments.fixed_to is not None
        kinds = self._arguments.check(call).specs if fixed else call.kinds
        key = Key(call.tree, kinds, told_apart(call.statics), self._state())
        extents = None if fixed else _extents(kinds)
        entry = self._known(key, extents)
        if entry is not None:
            self._hits += 1
            return entry
        with self._lock:
            return self._known(key, extents) or self._new(call, key, extents)

    def _state(self) -> tuple[Any, ...]:
        """Return what a compilation depends on beside its arguments: what is captured, and the overrides around."""
        blocks = active.outside
        return (*self._captured.identity(), *blocks, *active.scopes) if blocks else self._captured.identity()

    def forget(self) -> None:
        """Begin again."""
        with self._lock:
            self._entries, self._sizes = {}, {}

    def _known(self, key: Key, extents: Extents | None) -> Entry | None:
        """Return what serves a call: what was compiled for its very extents, or with open ones."""
        entry = self._entries.get(key)
        if entry is not None or extents is None:
            return entry
        sizes = self._sizes.get(_of_ranks(key))
        return None if sizes is None else sizes.serving(extents)

    def _new(self, call: Leaves, key: Key, extents: Extents | None) -> Entry:
        """Compile for a call: with open extents where that is asked for, or pays, and can be done."""
        if extents is None:
            return self._kept(key, self.signature(call), None)
        signature, said = self._arguments.checked(call)
        sizes = self._sizes.get(_of_ranks(key)) or self._begun(call, key, signature, said)
        if (entry := sizes.serving(extents)) is not None:
            return entry
        before, count = {*self._entries}, len(self._reasons)
        try:
            with sizes.learning():
                return self._learnt(call, key, extents, signature, sizes)
        except BaseException:
            for made in self._entries.keys() - before:
                del self._entries[made]
            del self._reasons[count:]
            raise

    def _learnt(self, call: Leaves, key: Key, extents: Extents, signature: Signature, sizes: Sizes) -> Entry:
        """Compile for a call with the extents open that change, or for its numbers."""
        while (pattern := sizes.proposed(extents)) is not None:
            try:
                entry = self._kept(_open(key, pattern), self._arguments.describe(call, pattern), sizes, extents)
            except (OSError, ToolchainError):  # no fault of the pattern's: the next size tries it again
                break
            except Exception as error:  # noqa: BLE001 - the numbers are compiled for then, and raise what is the user's
                sizes.refuse(pattern, error)
                continue
            sizes.add(pattern, entry)
            if sizes.serving(extents) is entry:
                return entry
        entry = self._kept(key, signature, sizes, extents)
        sizes.alone[extents] = None
        return entry

    def _begun(self, call: Leaves, key: Key, signature: Signature, said: Said) -> Sizes:
        """Begin with a structure, dtypes and ranks: with what there is of compilations with open extents."""
        sizes = Sizes(said, self._arguments.dynamic, (*signature.names, *signature.paths))
        for known in self.saved():
            if alike(call, known) and [*map(_kind, known.specs)] == [*map(_kind, signature.specs)]:
                pattern = pattern_of([spec.shape for spec in known.specs])
                sizes.add(pattern, self._kept(_open(key, pattern), known, sizes))
        self._sizes[_of_ranks(key)] = sizes
        return sizes

    def _kept(self, key: Key, signature: Signature, sizes: Sizes | None, extents: Extents = ()) -> Entry:
        """Compile, and remember why."""
        reason = self._reason(signature, extents)
        entry = self._entries[key] = self._make(signature, sizes)
        self._reasons.append(reason)
        self._complain(sizes)
        return entry

    def signature(self, call: Leaves) -> Signature:
        """Describe a call as it would be compiled for if it came first."""
        if self._arguments.fixed_to is not None:
            return self._arguments.fixed_to
        signature, said = self._arguments.checked(call)
        extents = _extents(call.kinds)
        if self._arguments.dynamic is False or extents is None or not any(isinstance(word, str) for word in said):
            return signature
        named = [word if isinstance(word, str) else e for word, e in zip(said, extents, strict=True)]
        return self._arguments.describe(call, named)

    # -- looking at it

    def current(self) -> list[Entry]:
        """List what was compiled with the values captured that would be captured now."""
        state = self._state()
        return [entry for key, entry in self._entries.items() if key.captured == state]

    def refusals(self) -> list[str]:
        """List what could not be compiled with open extents, and why."""
        return [line for sizes in self._sizes.values() for line in sizes.told()]

    def info(self) -> CacheInfo:
        """Return what was compiled, and why."""
        with self._lock:
            shown = tuple([show_signature(e.signature, self._arguments.label) for e in self._entries.values()])
            return CacheInfo(shown, len(self._reasons), tuple(self._reasons), self._hits, tuple(self.refusals()))

    def _reason(self, signature: Signature, extents: Extents) -> str:
        previous = [entry.signature for entry in self._entries.values()]
        blocks, self._blocks = self._blocks, tuple(active.outside)
        if previous and blocks != self._blocks:
            return "the rules of override_gradient around the call are others"
        captured = bool(previous) and self._captured.changed()
        return describe_change(previous, signature, extents, captured=captured, label=self._arguments.label)

    def _complain(self, sizes: Sizes | None) -> None:
        """Warn, once, about a function that compiles again and again."""
        if len(self._reasons) < MANY or self._warned:
            return
        self._warned = True
        refused = [] if sizes is None else sizes.told()
        why = f" Its extents are not left open: {refused[-1]}." if refused else ""
        warnings.warn(
            f"{self._arguments.name}() was compiled {len(self._reasons)} times; the last time because "
            f"{self._reasons[-1]}.{why} Name the changing extent, dynamic=..., or mark a changing setting static.",
            SymgradWarning, stacklevel=6,
        )


def _kind(spec: Spec) -> tuple[Any, ...]:
    return len(spec.shape), spec.dtype, spec.weak


def _extents(kinds: tuple[Any, ...]) -> Extents | None:
    """List the extents of all arrays, one after the other; None where one is a spec or unknown."""
    found: list[int] = []
    for kind in kinds:
        if type(kind) is Spec:
            return None
        if type(kind) is tuple and kind[1]:
            found += kind[1]
    return tuple(found)


def _of_ranks(key: Key) -> Key:
    """Leave out of what tells compilations apart the extents."""
    kinds = [(kind[0], len(kind[1]), *kind[2:]) if type(kind) is tuple and kind[1] else kind for kind in key.kinds]
    return key._replace(kinds=tuple(kinds))


def _open(key: Key, pattern: Pattern) -> Key:
    """Put a pattern in the place of the extents."""
    extents = iter(pattern)
    kinds = [
        (kind[0], tuple([next(extents) for _ in kind[1]]), *kind[2:]) if type(kind) is tuple and kind[1] else kind
        for kind in key.kinds
    ]
    return key._replace(kinds=tuple(kinds))


# -- which extents are left open


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

    >>> from symgrad.ir.shapes import symbol
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
            closer = (_closed(pattern, extents, entry.call.unmet(names)) for pattern, names, entry in fitting)
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
        least = _least(columns) if related else {}
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
        """Note why a pattern cannot be compiled; an extent that the function needs as a number stays one.

        Raises:
            the error: the user asked for the pattern.
        """
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


def _closed(pattern: Pattern, extents: Extents, names: frozenset[str]) -> Pattern:
    """Put numbers in the place of some of a pattern's names.

    >>> _closed(("n", "m", "n+1"), (1, 5, 2), frozenset("n"))
    (1, 'm', 2)
    """
    pairs = zip(pattern, extents, strict=True)
    return tuple([e if isinstance(word, int) or word.partition("+")[0] in names else word for word, e in pairs])


def _least(columns: Iterable[Extents]) -> dict[Extents, Extents]:
    """Give extents, call by call, the smallest ones that they were always so much larger than."""
    found: dict[Extents, list[Extents]] = {}
    for column in columns:
        found.setdefault(tuple([e - column[0] for e in column]), []).append(column)
    return {column: min(alike) for alike in found.values() for column in alike}

"""The compilations of one function: which of them serves a call, and what for a new one is made."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.api.arguments import alike, describe_change, show_signature, told_apart
from symgrad.api.sizes import Sizes, words
from symgrad.errors import SymgradWarning, ToolchainError
from symgrad.ir.shapes import is_static
from symgrad.trace.signature import Spec
from symgrad.trace.state import active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from symgrad.api.arguments import Arguments, Flat
    from symgrad.api.axes import Said
    from symgrad.api.captured import Captured
    from symgrad.api.sizes import Extents, Pattern
    from symgrad.build.call import Call
    from symgrad.pipeline import Built
    from symgrad.trace.signature import Signature

MANY = 8
"""A function compiled so often warns, once, with the argument that keeps changing."""


class Entry(NamedTuple):
    """One compilation of a function."""

    signature: Signature
    built: Built
    tree: Any
    call: Call
    short: Callable[[tuple[Any, ...]], Any] | None

    @property
    def opened(self) -> bool:
        """Whether extents are left open."""
        return not all(is_static(spec.shape) for spec in self.signature.specs)


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

    def find(self, call: Flat) -> Entry:
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

    def _new(self, call: Flat, key: Key, extents: Extents | None) -> Entry:
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

    def _learnt(self, call: Flat, key: Key, extents: Extents, signature: Signature, sizes: Sizes) -> Entry:
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

    def _begun(self, call: Flat, key: Key, signature: Signature, said: Said) -> Sizes:
        """Begin with a structure, dtypes and ranks: with what there is of compilations with open extents."""
        sizes = Sizes(said, self._arguments.dynamic, (*signature.names, *signature.paths))
        for known in self.saved():
            if alike(call, known) and [*map(_kind, known.specs)] == [*map(_kind, signature.specs)]:
                pattern = words([spec.shape for spec in known.specs])
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

    def signature(self, call: Flat) -> Signature:
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
        """Tell what was compiled, and why."""
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
    words = iter(pattern)
    kinds = [
        (kind[0], tuple([next(words) for _ in kind[1]]), *kind[2:]) if type(kind) is tuple and kind[1] else kind
        for kind in key.kinds
    ]
    return key._replace(kinds=tuple(kinds))

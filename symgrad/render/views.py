"""What templates see: frozen values of finished strings and integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias


class View:
    """What a template prints; it is told apart by its `kind`: a `LoopView` is a ``loop``."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.removesuffix("View").lower()

    @property
    def again(self) -> tuple[Any, ...]:
        """What of it is printed twice."""
        return ()


@dataclass(frozen=True)
class LoopView(View):
    """``for (index = 0; index < extent; ++index) body``, under a simd pragma with its reductions.

    A loop over borders leaps from `low` to `high`; one that is `ordered` keeps compilers from turning it around. With a
    `jam`, the loop inside does so many iterations at once, from `first` on, and what is left one by one. One that goes
    `down` ends with `start`.
    """

    index: str
    start: str
    extent: str
    body: tuple[ItemView, ...]
    simd: bool
    sums: str
    low: str = ""
    high: str = ""
    ordered: bool = False
    jam: int = 0
    first: str = ""
    down: bool = False

    @property
    def again(self) -> tuple[Any, ...]:
        """All of what is jammed."""
        return (self.extent, self.body) if self.jam else ()


@dataclass(frozen=True)
class CondView(View):
    """``if (condition) body else other``."""

    condition: str
    body: tuple[ItemView, ...]
    other: tuple[ItemView, ...] = ()


@dataclass(frozen=True)
class WhileView(View):
    """``while (condition) body``; what is in `before` is done each time before it is asked."""

    before: tuple[ItemView, ...]
    condition: str
    body: tuple[ItemView, ...]


@dataclass(frozen=True)
class TilesView(View):
    """A loop over tiles: `start` and `stop` bound each; `first` and `last` bound a thread's run, of `team` threads.

    A run begins at a multiple of `grain`, of which there are `tiles`. Up to `end` tiles have their full `size`, the
    last one goes up to `rest`.
    """

    start: str
    stop: str
    size: int
    grain: int
    tiles: str
    extent: str
    end: str
    rest: str
    first: str
    last: str
    thread: str
    team: str
    body: tuple[ItemView, ...]

    @property
    def again(self) -> tuple[Any, ...]:
        """Where threads' runs begin and end."""
        return (self.tiles, self.extent) if self.thread else ()


@dataclass(frozen=True)
class ThreadsView(View):
    """A loop over `team` threads, with the arrays each has for itself.

    It is serial unless `condition` holds; without one it is always shared. A `short` one notes when it ends. Where
    loops inside poll (`stops`) or indices are checked, `leave` is the label they go to; `failed` is the variable that
    has the number of the check. With a `call` the body is a function of its own, so that a serial call never asks
    OpenMP, which takes a microsecond.
    """

    index: str
    team: str
    condition: str
    short: bool
    stack: tuple[ArrayView, ...]
    workspace: tuple[ArrayView, ...]
    body: tuple[ItemView, ...]
    leave: str
    stops: bool
    failed: str
    call: str = ""


@dataclass(frozen=True)
class LetView(View):
    """``const double v1 = value;``; without the const for what is accumulated into, or without a value as yet."""

    ctype: str
    name: str
    value: str = ""


@dataclass(frozen=True)
class StoreView(View):
    """``target how value;``."""

    target: str
    how: str
    value: str


@dataclass(frozen=True)
class LookupView(View):
    """An index read from an array, and made nonnegative."""

    name: str
    value: str
    extent: str


@dataclass(frozen=True)
class CallView(View):
    """A call of C; the failure of a part is passed on where it can fail: by the label `leave` in a thread's share."""

    function: str
    arguments: str
    fails: bool
    leave: str = ""
    failed: str = ""


@dataclass(frozen=True)
class CheckView(View):
    """``if (condition) return code;``; in a thread's share the code is kept in `failed`, and `leave` is gone to.

    A look whether the call should stop has no `failed` there; what small extents call has the call as its `code`.
    """

    condition: str
    code: int | str
    leave: str = ""
    failed: str = ""


@dataclass(frozen=True)
class NoteView(View):
    """A comment with the user's line."""

    text: str


@dataclass(frozen=True)
class ArrayView(View):
    """An array of its own: on the stack (with an extent), in the workspace (with an offset), or constant data.

    The offset has a name if others are counted from it (`at`). On the stack it is `aligned`: gcc 12 places some arrays
    at 16 bytes whose elements it stores as if they began at 32, and a call crashes.
    """

    ctype: str
    name: str
    extent: str
    offset: str
    values: str = ""
    restrict: str = ""
    at: str = ""
    aligned: str = ""


@dataclass(frozen=True)
class FunctionView(View):
    """One C function: the entry, or a part of a body, which returns nothing where it cannot fail.

    A thread's share that is left early goes to `leave`. What stands in `first` the memory's places depend on. A `note`
    says what of the program it is.
    """

    name: str
    parameters: tuple[str, ...]
    unused: tuple[str, ...]
    body: tuple[ItemView, ...]
    stack: tuple[ArrayView, ...]
    workspace: tuple[ArrayView, ...]
    fails: bool
    leave: str = ""
    first: tuple[LetView | CheckView, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PointerView(View):
    """A function of SciPy's that is called by its address: its name and type, and the parts of these."""

    wanted: str
    name: str
    result: str
    parameters: str


@dataclass(frozen=True)
class ScipyCallView(View):
    """A C function of one of SciPy's, which gives its result, or one of its `results`; NaN where `unless` holds."""

    name: str
    ctype: str
    parameters: str
    of: str
    given: str
    results: int
    result: str
    unless: str


@dataclass(frozen=True)
class SourceView(View):
    """A translation unit; of a package, what stands between its head and the functions that it exports.

    `simd` are prototypes of functions that have variants for lanes, under an ``#if`` where there is a condition.
    """

    title: str
    notes: tuple[str, ...]
    simd: tuple[tuple[str, list[str]], ...]
    helpers: tuple[str, ...]
    constants: tuple[ArrayView, ...]
    parts: tuple[FunctionView, ...]
    entries: tuple[FunctionView, ...]
    package: bool
    narrowing: bool
    ordered: bool


ItemView: TypeAlias = (
    "LoopView | CondView | WhileView | TilesView | ThreadsView | LetView | StoreView | "
    "LookupView | CallView | NoteView | CheckView"
)

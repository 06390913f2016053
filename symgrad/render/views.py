"""What templates see: frozen values of finished strings and integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class LoopView:
    """``for (index = 0; index < extent; ++index) body``, under a simd pragma with its reductions.

    A loop over borders leaps from `low` to `high`; one that is `ordered` keeps compilers from turning it around.
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
    kind: str = "loop"


@dataclass(frozen=True)
class RowsView:
    """A loop by `count` iterations at once (`several`) from `first` on, and what is left one by one (`one`)."""

    first: str
    count: int
    start: str
    extent: str
    notes: tuple[ItemView, ...]
    several: LoopView
    one: LoopView
    kind: str = "rows"


@dataclass(frozen=True)
class CondView:
    """``if (condition) body else other``."""

    condition: str
    body: tuple[ItemView, ...]
    other: tuple[ItemView, ...] = ()
    kind: str = "cond"


@dataclass(frozen=True)
class WhileView:
    """``while (condition) body``; what is in `before` is done each time before it is asked."""

    before: tuple[ItemView, ...]
    condition: str
    body: tuple[ItemView, ...]
    kind: str = "while"


@dataclass(frozen=True)
class TilesView:
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
    kind: str = "tiles"


@dataclass(frozen=True)
class ThreadsView:
    """A loop over `team` threads, with the arrays each has for itself.

    It is serial unless `condition` holds; without one it is always shared. Where loops inside poll (`stops`) or indices
    are checked, `leave` is the label they go to; `failed` is the variable that has the number of the check. With a
    `call` the body is a function of its own, so that a serial call never asks OpenMP, which takes a microsecond.
    """

    index: str
    team: str
    condition: str
    stack: tuple[ArrayView, ...]
    workspace: tuple[ArrayView, ...]
    body: tuple[ItemView, ...]
    leave: str
    stops: bool
    failed: str
    call: str = ""
    kind: str = "threads"


@dataclass(frozen=True)
class PollView:
    """A look whether the call should stop, when `index` & `mask` is 0: it leaves the function, or goes to a label."""

    index: str
    mask: int
    leave: str
    kind: str = "poll"


@dataclass(frozen=True)
class LetView:
    """``const double v1 = value;``, or without the const for what is accumulated into."""

    ctype: str
    name: str
    value: str
    kind: str = "let"


@dataclass(frozen=True)
class LocalView:
    """``ctype name;``: a value that is written more than once."""

    ctype: str
    name: str
    kind: str = "local"


@dataclass(frozen=True)
class StoreView:
    """``target how value;``."""

    target: str
    how: str
    value: str
    kind: str = "store"


@dataclass(frozen=True)
class LookupView:
    """An index read from an array: made nonnegative and, with a `code`, checked.

    Where the check fails the function returns the code; a thread's share keeps it in `failed` and goes to `leave`.
    """

    name: str
    value: str
    extent: str
    code: int
    leave: str
    failed: str
    kind: str = "lookup"


@dataclass(frozen=True)
class ProductView:
    """A sum of products: extents, then each operand with its strides."""

    function: str
    extents: str
    left: str
    right: str
    sums: str
    kind: str = "product"


@dataclass(frozen=True)
class CallView:
    """A call of a part, whose failure is passed on where it can fail: by the label `leave` in a thread's share."""

    function: str
    arguments: str
    fails: bool
    leave: str = ""
    failed: str = ""
    kind: str = "call"


@dataclass(frozen=True)
class CheckView:
    """``if (condition) return code;``; in a thread's share the code is kept in `failed`, and `leave` is gone to."""

    condition: str
    code: int
    leave: str
    failed: str
    kind: str = "check"


@dataclass(frozen=True)
class NoteView:
    """A comment with the user's line."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class ArrayView:
    """An array of its own: on the stack (with an extent), in the workspace (with an offset), or constant data.

    The offset has a name if others are counted from it (`at`).
    """

    ctype: str
    name: str
    extent: str
    offset: str
    values: str = ""
    restrict: str = ""
    at: str = ""


@dataclass(frozen=True)
class FunctionView:
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
    small: SmallView | None = None
    leave: str = ""
    first: tuple[LetView, ...] = ()
    pointers: tuple[PointerView, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PointerView:
    """``const double *const restrict x = arrays[3];``: an array of many."""

    ctype: str
    name: str
    arrays: str
    place: int


@dataclass(frozen=True)
class SmallView:
    """``if (condition) return function(arguments);``: extents too small for what follows."""

    condition: str
    function: str
    arguments: str


@dataclass(frozen=True)
class PrototypesView:
    """Prototypes of functions that have variants for lanes, under an ``#if`` where there is a condition."""

    condition: str
    prototypes: tuple[str, ...]


@dataclass(frozen=True)
class SourceView:
    """A translation unit; of a package, what stands between its head and the functions that it exports."""

    title: str
    notes: tuple[str, ...]
    simd: tuple[PrototypesView, ...]
    helpers: tuple[str, ...]
    constants: tuple[ArrayView, ...]
    parts: tuple[FunctionView, ...]
    entries: tuple[FunctionView, ...]
    package: bool
    narrowing: bool
    ordered: bool


ItemView: TypeAlias = (
    "LoopView | RowsView | CondView | WhileView | TilesView | ThreadsView | LetView | LocalView | "
    "StoreView | LookupView | CallView | NoteView | ProductView | PollView | CheckView"
)

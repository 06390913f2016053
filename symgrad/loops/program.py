"""The loop IR: arrays, statements in index notation, and a tree of items around them, all of them immutable.

A pass takes a `LoopProgram` and returns one. What it does not change stays the same object; every item stands at one
place of the tree, so that an item tells where it is. `walk` is the one way to look through a tree, `rebuild` the one
way to change it, and `Statement.mapped` the one way to change a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from operator import is_
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from symgrad.errors import Line
from symgrad.ir.index.notation import (
    Access,
    Apply,
    Axis,
    Count,
    Frozen,
    How,
    Lazy,
    Number,
    Statement,
    Value,
    accesses,
    axes_of,
    everywhere,
    mapped,
)
from symgrad.ir.index.shapes import Dim, Shape, size, upper
from symgrad.ir.node import Requirement
from symgrad.options import TEAM

# -- arrays


class Kind(Enum):
    """What an array is to a program."""

    INPUT = "input"
    DONATED = "donated"  # an input whose memory an output takes
    OUTPUT = "output"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    SHARE = "share"  # a sum as a thread sees it, see `Share`


class Place(Enum):
    """Where a temporary's memory is."""

    STACK = "stack"
    WORKSPACE = "workspace"


class Tile(NamedTuple):
    """How a loop walks in tiles: the variable that says where the present tile begins, and how many rows each has."""

    start: Axis
    rows: int

    @property
    def is_whole(self) -> bool:
        """Whether one tile is all there is."""
        return bool(self.rows == self.start.extent)


@dataclass(frozen=True, eq=False)
class Slot:
    """A piece of the stack or of the workspace, which arrays of one dtype hold, one after the other.

    Attributes:
        size: bytes.
        offset: its first byte in the workspace.
        step: bytes from one thread's own to the next one's, where each thread has one.
        private: each thread has one of its own.
    """

    place: Place
    dtype: np.dtype[Any]
    size: Dim
    offset: Dim = 0
    step: Dim = 0
    private: bool = False


class Storage(NamedTuple):
    """What is stored of an array, and where.

    Attributes:
        shape: that of what is stored.
        kept: the dimensions that are stored, in order, where loops have taken the others; each with its tile, where
            the present tile is all that is stored of it.
        is_memory: it is more than one name of a number, which stands in a register.
        slot: the memory that a temporary holds while it is alive, once `allocate` has said so.
    """

    shape: Shape
    kept: Mapping[int, Tile | None]
    is_memory: bool = True
    slot: Slot | None = None

    @property
    def is_private(self) -> bool:
        """Whether each thread has one of its own."""
        return self.slot is not None and self.slot.private


Storages: TypeAlias = "Mapping[Array, Storage]"


class StorageMap(dict["Array", Storage]):
    """What passes have said about where arrays live; of the others all is stored, scalar temporaries are registers."""

    def __missing__(self, array: Array) -> Storage:
        return array.whole


@dataclass(frozen=True, eq=False)
class Array(Frozen):
    """Memory with a name: what statements write and read; where it lives is said by `LoopProgram.storage`.

    Attributes:
        data: a constant's elements.
        path: how the user's code reads it: ``model.W``.
    """

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    kind: Kind
    line: Line | None = None
    data: Any = None
    path: str = ""

    @Lazy
    def whole(self) -> Storage:
        """All of it, in memory where it is no scalar."""
        return self.stored(dict.fromkeys(range(len(self.shape))), self.shape != () or not self.is_temporary)

    def stored(self, kept: Mapping[int, Tile | None], is_memory: bool) -> Storage:
        """Store some dimensions, of some of them a tile."""
        shape = tuple([self.shape[d] if tile is None else tile.rows for d, tile in kept.items()])
        return Storage(shape, kept, is_memory)

    @Lazy
    def elements(self) -> int:
        """How many elements it is taken to have, where extents are unknown."""
        return prod(map(upper, self.shape))

    @Lazy
    def bytes(self) -> Dim:
        """How many bytes all of it has."""
        return size(self.shape) * self.dtype.itemsize

    @Lazy
    def is_temporary(self) -> bool:
        """Whether it lives during a call, and nobody else sees it."""
        return self.kind is Kind.TEMPORARY

    @Lazy
    def is_given(self) -> bool:
        """Whether nothing writes to it."""
        return self.kind in GIVEN

    def __repr__(self) -> str:
        return f"{self.name}:{self.dtype.name}[{','.join(map(str, self.shape))}]"


GIVEN = frozenset({Kind.INPUT, Kind.CONSTANT})


def temporary(name: str, shape: Shape, like: Array) -> Array:
    """Make a temporary of an array's dtype and line."""
    return Array(name, shape, like.dtype, Kind.TEMPORARY, like.line)


class Share(NamedTuple):
    """A sum as a thread sees it: the first thread works in the sum itself, each other one in its row of `rest`."""

    seen: Array
    sum: Array
    rest: Array


# -- items


class Walk(Enum):
    """How the iterations of a loop are done."""

    FREE = "free"  # one after the other, unless a pass finds that they may be lanes
    SEQUENTIAL = "sequential"  # one after the other, whatever a pass might find
    ORDERED = "ordered"  # one after the other, whatever a compiler might find
    LANES = "lanes"
    THREADS = "threads"


class Piece(Enum):
    """Where a loop runs: everywhere, or outside or inside of its `ends` only."""

    ALL = ""
    BORDERS = "borders"
    INTERIOR = "interior"


class Team(int):
    """The extent of a loop over threads: at most `TEAM`, and in C the parameter ``threads``, or what `name` says.

    Attributes:
        count: of threads that work in copies of sums, how many there are, an expression of extents and of ``threads``.
    """

    is_Symbol = True  # noqa: N815 - what SymPy calls it, for the printer
    is_Integer = False  # noqa: N815
    name: str
    count: Any

    def __new__(cls, name: str, count: Any = None) -> Team:  # noqa: PYI034 - Self is not in Python 3.10
        """Name it."""
        made = super().__new__(cls, TEAM)
        made.name, made.count = name, count
        return made

    def __str__(self) -> str:
        return self.name


THREADS = Team("threads")
COUNT = Count("threads", TEAM)
"""How many there are, in sizes."""


class ProductPart(NamedTuple):
    """The terms of a product that count, lane by lane.

    Attributes:
        rows: those of some rows, else those of some depths.
        after: from `least` places after the lane on, else up to `least` places before it.
    """

    rows: bool
    after: bool
    least: int


class Product(NamedTuple):
    """What a sum of products is: which factor has the rows (0 or 1), and what counts; its loops are the nest's.

    One that is `whole` is all there is to do at its place: a BLAS may do it.
    """

    left: int
    part: ProductPart | None = None
    whole: bool = False


B = TypeVar("B", bound="Block")


class Block(Frozen):
    """What has items inside."""

    body: Items

    @property
    def blocks(self) -> tuple[Items, ...]:
        """What is inside."""
        return (self.body,)

    def with_blocks(self: B, *blocks: Items) -> B:  # noqa: PYI019 - Self is not in Python 3.10
        """Return it with other items inside."""
        return self.with_(body=blocks[0])


@dataclass(frozen=True, eq=False)
class Loop(Block):
    """A loop over one axis class.

    Attributes:
        axis: the class's first axis, which names the loop variable.
        members: every axis that is this loop's variable.
        body: items in order.
        walk: how its iterations are done.
        sums: of lanes, scalar accumulators of the body, by how they accumulate, for the simd pragma.
        tile: it walks in tiles; the loops inside, whose `window` it is, walk one. Tiles of one have none inside.
        window: it walks one tile of a loop around it.
        team: of a loop over tiles, the axis of the loop over threads around it, each of which takes a run of them.
        shares: of a loop over threads, the sums that each thread sees as its own.
        enough: a loop over threads stays serial where the first (an extent, or a count of operations) is less than
            the second; the third says how many times as much it must be where threads may have to be woken.
        product: the nest that begins here is a sum of products, done in register blocks.
        piece: where it runs with respect to its `ends`.
        grain: a thread's run of tiles begins at a multiple of so many iterations (0: of a tile).
        jam: so many iterations add their rows at once, which the loop inside does one by one (0: they do not).
        poll: after so many iterations it looks whether the call should stop (0: never; lanes look once, before).
        down: it counts down.
    """

    axis: Axis
    members: frozenset[Axis]
    body: Items
    walk: Walk = Walk.FREE
    sums: tuple[tuple[str, Array], ...] = ()
    tile: Tile | None = None
    window: Tile | None = None
    team: Axis | None = None
    shares: tuple[Share, ...] = ()
    enough: tuple[Dim, int, int] = (0, 0, 1)
    product: Product | None = None
    piece: Piece = Piece.ALL
    ends: tuple[Dim, Dim] = (0, 0)
    grain: int = 0
    jam: int = 0
    poll: int = 0
    down: bool = False

    @property
    def paths(self) -> list[tuple[Statement, Around]]:
        """What is inside, each with the loops around it, this one first; not kept, for it holds the loop."""
        return paths([self])

    @property
    def extent(self) -> Dim:
        """How often it runs."""
        return self.axis.extent

    @property
    def nest(self) -> Nest:
        """The loops of the product that begins here."""
        depth: Any = self.body[0]
        return Nest(self, depth, depth.body[0], self.product)  # type: ignore[arg-type]  # it has one

    @property
    def rows(self) -> int:
        """How many iterations a tile has, 0 where it does not walk in tiles."""
        return 0 if self.tile is None else self.tile.rows

    @property
    def is_walked(self) -> bool:
        """Whether its variable is that of its axes; of one over tiles it is where a tile begins."""
        return self.rows <= 1


class Nest(NamedTuple):
    """The three loops of a sum of products, the outermost first."""

    rows: Loop
    depth: Loop
    lanes: Loop
    product: Product

    @property
    def loops(self) -> tuple[Loop, Loop, Loop]:
        """The three."""
        return self[:3]

    @property
    def statement(self) -> Statement:
        """The one statement inside."""
        return self.lanes.body[0]  # type: ignore[return-value]  # a product is one statement


@dataclass(frozen=True, eq=False)
class Cond(Frozen):
    """``if test: then else: other``."""

    test: Value
    then: Items
    other: Items = ()

    @property
    def blocks(self) -> tuple[Items, ...]:
        """What is inside."""
        return (self.then, self.other)

    def with_blocks(self, then: Items, other: Items) -> Cond:
        """Return it with other branches."""
        return Cond(self.test, then, other)


@dataclass(frozen=True, eq=False)
class While(Block):
    """``while test: body``; what the test reads, the body writes.

    Attributes:
        poll: each time it looks whether the call should stop (0: never).
        total: how often it goes round in all iterations of the loops around it together (0: nobody knows).
    """

    test: Value
    body: Items
    poll: int = 0
    total: Dim = 0


@dataclass(frozen=True, eq=False)
class Outlined(Block):
    """A run of a block that becomes a C function of its own, because all of it would be too long for one."""

    body: Items


Item: TypeAlias = "Statement | Loop | Cond | While | Outlined"
Items: TypeAlias = "tuple[Item, ...]"
Around: TypeAlias = "tuple[Loop, ...]"


def touched(item: Item) -> tuple[Access, ...]:
    """List what an item itself touches: a statement, its target first, or a test."""
    if isinstance(item, Statement):
        return item.touched
    return accesses(item.test) if isinstance(item, (Cond, While)) else ()


def walk(items: Iterable[Item], outlined: bool = True) -> Iterator[tuple[Item, tuple[Item, ...]]]:
    """Yield every item of a tree in order, each with those around it; what is `outlined` too, or not."""
    stack: list[tuple[Item, tuple[Item, ...]]] = [(item, ()) for item in reversed(tuple(items))]
    while stack:
        item, around = stack.pop()
        yield item, around
        if not isinstance(item, Statement) and (outlined or not isinstance(item, Outlined)):
            inside = (*around, item)
            for block in reversed(item.blocks):
                stack.extend([(inner, inside) for inner in reversed(block)])


def accesses_in(items: Iterable[Item], outlined: bool = True) -> Iterator[Access]:
    """Yield all that a tree touches, in order; what is `outlined` too, or not."""
    for item, _ in walk(items, outlined):
        yield from touched(item)


def paths(items: Iterable[Item]) -> list[tuple[Statement, Around]]:
    """List the statements of a tree in order, each with the loops around it."""
    found: list[tuple[Statement, Around]] = []
    stack: list[tuple[Item, Around]] = [(item, ()) for item in reversed(tuple(items))]
    while stack:
        item, around = stack.pop()
        if isinstance(item, Statement):
            found.append((item, around))
            continue
        around = (*around, item) if isinstance(item, Loop) else around
        for block in reversed(item.blocks):
            stack.extend([(inner, around) for inner in reversed(block)])
    return found


def living(statements: Sequence[Statement]) -> list[Statement]:
    """Leave out what makes temporaries that nobody reads."""
    needed: set[Array] = set()
    made: list[Statement] = []
    for s in reversed(statements):
        if s.target.array in needed or not s.target.array.is_temporary or s.may_fail:
            made.append(s)
            needed.update([access.array for access in s.reads])
    return made[::-1]


T = TypeVar("T", bound="tuple[Item, ...]")


def common(all_paths: Sequence[T]) -> T:
    """Return what is around all of some places in a tree."""
    first = all_paths[0]
    depth = len(first)
    for path in all_paths[1:]:
        depth = min(depth, len(path))
        while depth and path[depth - 1] is not first[depth - 1]:
            depth -= 1
    return first[:depth]  # type: ignore[return-value]  # a run of the same


Rebuilt: TypeAlias = "Item | Items | None"


def rebuild(items: Items, change: Callable[[Any, Any], Rebuilt], of: Any = object) -> Items:
    """Rebuild a tree from inside out, and only what changes.

    Args:
        items: the tree.
        change: gets an item as it was and as it is with what is inside rebuilt; it says what stands in its place:
            an item, several, or None for nothing.
        of: only items of this class, or of these, are changed.
    """
    made: list[Item] | None = None  # while nothing has changed
    for place, item in enumerate(items):
        new: Any = item
        if not isinstance(item, Statement):
            old = item.blocks
            blocks = [rebuild(block, change, of) for block in old]
            if blocks[0] is not old[0] or blocks[-1] is not old[-1]:
                new = item.with_blocks(*blocks)
            if isinstance(item, of):
                new = change(item, new)
        elif of is object:
            new = change(item, item)
        if made is None:
            if new is item or (type(new) is tuple and len(new) == 1 and new[0] is item):
                continue
            made = [*items[:place]]
        if type(new) is tuple:
            made.extend(new)
        elif new is not None:
            made.append(new)
    return items if made is None else tuple(made)


def looped(items: Iterable[Item]) -> Items:
    """Put loops over their axes around statements that have none yet; those of one running value share theirs."""
    made: list[Item] = []
    for run in runs(items):
        made += in_loops(run, run[0].axes if isinstance(run[0], Statement) else ())
    return tuple(made)


def runs(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    """Yield the items, each alone, but statements without loops that belong to one running value."""
    run: tuple[Item, ...] = ()
    for item in items:
        first = run[0] if run else None
        if (
            isinstance(item, Statement) and item.prefix and item.axes and isinstance(first, Statement)
            and first.axes == item.axes and not item.prefix.isdisjoint({first.target.array, *first.prefix})
        ):
            run = (*run, item)
        else:
            if run:
                yield run
            run = (item,)
    if run:
        yield run


def renamed(items: Items, named: Mapping[Array, Array]) -> Items:
    """Put other arrays in the place of some, everywhere in a tree; what has another number of axes is walked flat."""

    def get(array: Array) -> Array:
        return named.get(array, array)

    def other(access: Access) -> Access:
        array = named.get(access.array)
        if array is None:
            return access
        return Access(array, access.indices, access.flat or len(array.shape) != len(access.indices))

    access, index = everywhere(other)

    def change(_: Item, item: Item) -> Item:
        if isinstance(item, Statement):
            for one in item.touched:
                if one.array in named:
                    break
            else:
                return item
            fields: dict[str, Any] = {"prefix": frozenset(map(get, item.prefix))} if item.prefix else {}
            return item.mapped(access, index, None, **fields)
        if isinstance(item, (Cond, While)):
            test = mapped(item.test, access, index)
            return item if test is item.test else item.with_(test=test)
        if isinstance(item, Loop) and (item.sums or item.shares):
            sums = tuple([(how, get(array)) for how, array in item.sums])
            return item.with_(sums=sums, shares=tuple([Share(*map(get, share)) for share in item.shares]))
        return item

    return rebuild(items, change)


def pruned(items: Items, gone: Container[Item]) -> Items:
    """Leave statements out of a tree, and what is empty then."""

    def change(old: Item, item: Item) -> Item | None:
        return None if old in gone or (item is not old and not any(item.blocks)) else item  # type: ignore[union-attr]  # no statement is rebuilt

    return rebuild(items, change)


def kept(old: Items, new: Sequence[Item]) -> Items:
    """Return the old items where the new ones are the same."""
    return old if len(new) == len(old) and all(map(is_, new, old)) else tuple(new)


def in_loops(statements: Iterable[Item], axes: Sequence[Axis], walk: Walk = Walk.FREE) -> Items:
    """Put loops over axes around statements; `walk` is for the outermost."""
    body: Items = tuple(statements)
    for axis in reversed(axes):
        body = (Loop(axis, frozenset([axis]), body, walk if axis is axes[0] else Walk.FREE),)
    return body


def over_all(target: Array, how: How, source: Array | Number, line: Line | None = None) -> Items:
    """Do something with every element of an array, and a number or the same element of another array.

    Of no elements it is no statement, as in `lower`: nothing would give the other array a value.
    """
    if 0 in target.shape:
        return ()
    axes = axes_of(target.shape)
    value = Access(source, axes) if isinstance(source, Array) else source
    return in_loops([Statement(Access(target, axes), how, value, axes, line)], axes)


# -- programs


@dataclass(frozen=True)
class Check:
    """A runtime check of an index, or of what `what` says when it fails; of a guard, that is its number."""

    number: int
    extent: Dim
    line: Line | None
    what: str | int = ""


@dataclass(frozen=True, eq=False)
class LoopProgram(Frozen):
    """A program as statements in an order that is right, then as a tree of loops with a place for every array.

    Attributes:
        arrays: all that statements touch, in the order they were made.
        storage: where they live.
        workspace: bytes of scratch memory a call needs, a number or an expression of the extents.
        notes: what was decided, in words for the user.
        work: the operations of a call, a number or an expression of the extents: an estimate.
        polled: some loop looks whether the call should stop.
        rules: rules of the user's in what was derived, in words.
        again: how often its derivatives compute anew what they kept nothing of.
        small: the same for calls with an extent that is less than its number in `least`.
        requirements: what unknown extents satisfy when it is called.
        undecided: what the verifier could not decide, where it was asked.
        donated: inputs with the outputs that are to stand in their memory.
        kept: those of these outputs that begin as the input, as nothing copies what is already there.
    """

    name: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    arrays: tuple[Array, ...]
    body: Items
    checks: tuple[Check, ...] = ()
    storage: Storages = field(default_factory=StorageMap)
    workspace: Dim = 0
    notes: tuple[str, ...] = ()
    work: Dim = 0
    polled: bool = False
    rules: tuple[str, ...] = ()
    again: int = 0
    small: LoopProgram | None = None
    least: Mapping[Any, int] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    undecided: tuple[str, ...] = ()
    donated: tuple[tuple[Array, Array], ...] = ()
    kept: frozenset[Array] = frozenset()

    @property
    def constants(self) -> list[Array]:
        """Arrays whose elements are known."""
        return [a for a in self.arrays if a.kind is Kind.CONSTANT]

    @property
    def temporaries(self) -> list[Array]:
        """Arrays that live during a call."""
        return [a for a in self.arrays if a.is_temporary]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The body while there are no loops yet."""
        return self.body  # type: ignore[return-value]  # statements, all of them

    @property
    def results(self) -> tuple[Array, ...]:
        """The outputs with their extents in any call; `outputs` has those of large ones: n - 1 where n may be 0."""
        return self.outputs if self.small is None else self.small.outputs

    @Lazy
    def paths(self) -> list[tuple[Statement, Around]]:
        """Its statements in order, each with the loops around it."""
        return paths(self.body)

    @Lazy
    def loops(self) -> dict[Loop, Around]:
        """Its loops in order, each with the loops around it, the last of which it is itself."""
        found: dict[Loop, Around] = {}
        for around in dict.fromkeys([around for _, around in self.paths]):
            for depth, loop in enumerate(around, 1):
                if loop not in found:
                    found[loop] = around[:depth]
        return found

    @Lazy
    def applied(self) -> list[Apply]:
        """The operations that are applied."""
        found: list[Apply] = []
        stack: list[Any] = [statement.value for statement, _ in self.paths]
        stack += [item.test for item, _ in walk(self.body) if isinstance(item, (Cond, While))]
        while stack:
            value = stack.pop()
            if isinstance(value, Apply):
                stack.extend(value.args)
                found.append(value)
        return found

    @Lazy
    def threaded(self) -> bool:
        """Whether some loop shares its iterations out among threads."""
        inner = self.small is not None and self.small.threaded
        return inner or any(loop.walk is Walk.THREADS for loop in self.loops)

    @Lazy
    def teams(self) -> list[Team]:
        """The teams of threads that have copies of sums, each once, by name."""
        found = {str(e): e for loop in self.loops if isinstance(e := loop.extent, Team)}
        return [team for name, team in sorted(found.items()) if team.count is not None and name.isidentifier()]

    def with_(self, **fields: Any) -> LoopProgram:
        """Return it with other fields; what is known of a body stays with it."""
        made = super().with_(**fields)
        if made.body is self.body:
            made.__dict__.update({name: self.__dict__[name] for name in ("paths", "loops") if name in self.__dict__})
        return made

    def with_body(self, body: Items, new: Iterable[Array] = ()) -> LoopProgram:
        """Return it with another body, and arrays that this one touches; itself where nothing is other."""
        arrays = (*self.arrays, *new)
        if body is self.body and len(arrays) == len(self.arrays):
            return self
        return self.with_(body=body, arrays=arrays)

    def with_storage(self, new: Storages) -> LoopProgram:
        """Return it with some arrays living elsewhere; itself where there are none."""
        return self.with_(storage=StorageMap({**self.storage, **new})) if new else self

    def renamed(self, named: Mapping[Array, Array]) -> LoopProgram:
        """Return it with other arrays in the place of some, everywhere."""
        if not named:
            return self

        def get(array: Array) -> Array:
            return named.get(array, array)

        return self.with_(
            body=renamed(self.body, named), inputs=tuple(map(get, self.inputs)),
            outputs=tuple(map(get, self.outputs)), arrays=tuple(map(get, self.arrays)),
            donated=tuple([(get(source), get(target)) for source, target in self.donated]),
            kept=frozenset(map(get, self.kept)),
        )


def picture(items: Iterable[Item], statements: bool = False) -> str:
    """Draw a tree of loops on one line: ``n { d simd; d simd }``."""
    drawn = []
    for item in items:
        if isinstance(item, Statement):
            drawn += [f"{item.target.array.name} {item.how}"] * statements
            continue
        inner = [picture(block, statements) for block in item.blocks]
        if isinstance(item, Loop):
            mark = " threads" if item.walk is Walk.THREADS else f" tile {item.rows}" if item.tile else ""
            mark += " product" if item.product else ""
            mark += f" {item.piece.value}" if item.piece.value else ""
            mark += " simd" if item.walk is Walk.LANES else ""
            drawn.append(f"{item.axis.name}<{item.extent}{mark} {{ {inner[0]} }}")
        elif isinstance(item, Cond):
            drawn.append(f"if {{ {inner[0]} }}" + (f" else {{ {inner[1]} }}" if item.other else ""))
        else:
            drawn.append(f"{'while' if isinstance(item, While) else 'part'} {{ {inner[0]} }}")
    return "; ".join(drawn)

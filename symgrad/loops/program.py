"""The loop IR: arrays, statements in index notation, and a tree of loops around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from symgrad.ir.notation import Statement
from symgrad.options import TEAM

if TYPE_CHECKING:
    import numpy as np

    from symgrad.errors import Line
    from symgrad.ir.node import Requirement
    from symgrad.ir.notation import Axis
    from symgrad.ir.shapes import Dim, Shape
    from symgrad.loops.products import Product


class Team(int):
    """The extent of a loop over threads: at most `TEAM`, and in C the parameter ``threads``, or what `name` says.

    Attributes:
        count: of threads that work in copies of sums, how many there are, an expression of extents and of ``threads``.
    """

    is_Symbol = True  # noqa: N815 - what SymPy calls it, for the printer
    is_Integer = False  # noqa: N815
    name = "threads"
    count: Any = None

    def __str__(self) -> str:
        """Print the name."""
        return self.name


THREADS = Team(TEAM)


@dataclass(eq=False)
class Slot:
    """A piece of the stack or of the workspace, which arrays of one dtype hold, one after the other.

    Attributes:
        number: its place among those of one pool.
        size: bytes.
        offset: its first byte in the workspace.
        step: bytes from one thread's own to the next one's, where each thread has one.
    """

    number: int
    place: str
    dtype: np.dtype[Any]
    size: Dim
    offset: Dim = 0
    step: Dim = 0


@dataclass(eq=False)
class Array:
    """Memory with a name: what statements write and read.

    Attributes:
        kind: ``input``, ``output``, ``constant`` or ``temporary``; or ``share``: see `parts`.
        kept: the dimensions that are really stored, when loops have taken the others (None: all of them).
        windows: dimensions of which only the present tile is stored, each with the loop that walks in tiles.
        place: where a temporary lives: ``register``, ``stack`` or ``workspace``.
        private: each thread has one of its own.
        slot: the memory it holds while it is alive, where it is no register.
        data: a constant's elements.
        parts: of a share, which is a sum as a thread sees it: the sum, in which the first thread works, and what has a
            row for each other one.
    """

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    kind: str
    line: Line | None = None
    kept: tuple[int, ...] | None = None
    windows: dict[int, Loop] = field(default_factory=dict)
    place: str = "workspace"
    private: bool = False
    slot: Slot | None = None
    data: Any = None
    parts: tuple[Array, ...] = ()

    @property
    def stored(self) -> Shape:
        """The shape of what is stored."""
        kept = range(len(self.shape)) if self.kept is None else self.kept
        return tuple([self.windows[k].tile if k in self.windows else self.shape[k] for k in kept])

    def __repr__(self) -> str:
        """Print name, dtype and what is stored."""
        return f"{self.name}:{self.dtype.name}[{','.join(map(str, self.stored))}]"


@dataclass(eq=False)
class Loop:
    """A loop over one axis class.

    Attributes:
        axis: the class's first axis, which names the loop variable.
        members: every axis that is this loop's variable.
        body: loops and statements, in order.
        simd: its iterations may run as lanes.
        sums: scalar accumulators of the body, by how they accumulate, for the simd pragma.
        threads: its iterations may be shared out among threads.
        shared: the loop over threads around this one, each of which takes a run of the tiles.
        enough: a loop over threads stays serial where the first (an extent, or a count of operations) is less than
            the second.
        product: the nest that begins here is a sum of products, done in register blocks.
        part: ``borders`` or ``interior`` where it runs outside or inside of its `ends` only.
        poll: after so many iterations it looks whether the call should stop (0: never; lanes look once, before).
        tile: it walks in tiles of so many iterations; the loops inside, whose `window` it is, walk one tile. Tiles of
            one have none inside.
    """

    axis: Axis
    members: frozenset[Axis]
    body: list[Item]
    simd: bool = False
    sums: tuple[tuple[str, Array], ...] = ()
    threads: bool = False
    product: Product | None = None
    tile: int = 0
    window: Loop | None = None
    shared: Loop | None = None
    enough: tuple[Dim, int] = (0, 0)
    part: str = ""
    ends: tuple[Dim, Dim] = (0, 0)
    poll: int = 0

    @property
    def extent(self) -> Dim:
        """How often it runs."""
        return self.axis.extent


@dataclass(eq=False)
class Part:
    """A run of a block that becomes a C function of its own, because all of it would be too long for one."""

    body: list[Item]


Item: TypeAlias = "Loop | Statement"
"""What trees are made of; `split` puts `Part`s between, which nothing before the C sees."""


@dataclass(eq=False)
class Check:
    """A runtime check of an index, or of what `what` says: what the caller says when it fails."""

    number: int
    axis: int
    extent: Dim
    line: Line | None
    what: str = ""


@dataclass(eq=False)
class LoopProgram:
    """A program as statements in an order that is right, then as a tree of loops with a place for every array.

    Attributes:
        arrays: all that statements touch, in the order they were made.
        workspace: bytes of scratch memory a call needs, a number or an expression of the extents.
        threaded: some loop shares its iterations out among threads.
        notes: what was decided, in words for the user.
        work: the operations of a call, a number or an expression of the extents: an estimate.
        polled: some loop looks whether the call should stop.
        rules: rules of the user's in what was derived, in words.
        undecided: what the verifier could not decide, where it was asked.
        requirements: what unknown extents satisfy when it is called.
        small: the same for calls with an extent that is less than its number in `least`.
    """

    name: str
    inputs: list[Array]
    outputs: list[Array]
    arrays: list[Array]
    body: list[Item]
    checks: list[Check] = field(default_factory=list)
    workspace: Dim = 0
    threaded: bool = False
    notes: tuple[str, ...] = ()
    work: Dim = 0
    polled: bool = False
    rules: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    undecided: tuple[str, ...] = ()
    small: LoopProgram | None = None
    least: dict[Any, int] = field(default_factory=dict)

    @property
    def constants(self) -> list[Array]:
        """Arrays whose elements are known."""
        return [a for a in self.arrays if a.kind == "constant"]

    @property
    def temporaries(self) -> list[Array]:
        """Arrays that live during a call."""
        return [a for a in self.arrays if a.kind == "temporary"]

    @property
    def statements(self) -> list[Statement]:
        """The body while there are no loops yet."""
        return self.body  # type: ignore[return-value]  # statements, all of them

    @property
    def results(self) -> list[Array]:
        """The outputs with their extents in any call; `outputs` has those of large ones: n - 1 where n may be 0."""
        return self.outputs if self.small is None else self.small.outputs


def picture(items: list[Item], statements: bool = False) -> str:
    """Draw a tree of loops on one line: ``n { d simd; d simd }``."""
    drawn = []
    for item in items:
        if isinstance(item, Loop):
            inner = picture(item.body, statements)
            mark = " threads" if item.threads else f" tile {item.tile}" if item.tile else ""
            mark += " product" if item.product else ""
            mark += f" {item.part}" if item.part else ""
            drawn.append(f"{item.axis.name}<{item.extent}{mark}{' simd' if item.simd else ''} {{ {inner} }}")
        elif isinstance(item, Part):
            drawn.append(f"part {{ {picture(item.body, statements)} }}")
        elif statements:
            drawn.append(f"{item.target.array.name} {item.how}")
    return "; ".join(drawn)

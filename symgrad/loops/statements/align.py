"""`align`: statements over shifted parts of the same places share one frame of coordinates.

A slice ``x[1:]`` has an axis of its own, one shorter than that of ``x``. Here both get the axis of their *frame*, the
longest of them, and the shorter one a range in it: ``T[i + 1] += g[i]`` for i < n - 1 becomes ``T[i] += g[i - 1]`` for
1 <= i < n. So what adds to shifted places reads from shifted places instead (the gather form of a slice's adjoint),
regions that a concatenation writes are parts of one loop, and `fuse` finds equal axes where there were different ones.
`peel` cuts the loops at the ends of the ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from symgrad.ir.index.notation import (
    Access,
    Axis,
    How,
    Lookup,
    Number,
    Statement,
    Value,
    accesses,
    as_index,
    linear,
    looked_up,
    mapped,
    parts,
    substitute,
)
from symgrad.ir.index.shapes import simplified
from symgrad.loops.machine import EDGE, SHORTEST_FRAME
from symgrad.loops.program import Array, Kind, LoopProgram

Place: TypeAlias = "Axis | tuple[Array, int]"
"""What has a place in a frame: an axis, or a dimension of an array."""


@dataclass(eq=False)
class Frame:
    """Places with one system of coordinates.

    Attributes:
        extent: that of the place at offset 0.
        offsets: where each place begins.
        lows, highs: the first begin and the last, and the first end and the last one (relative to `extent`).
        pinned: no place of it may move.
    """

    extent: Any
    offsets: dict[Place, int]
    lows: tuple[int, int] = (0, 0)
    highs: tuple[int, int] = (0, 0)
    pinned: bool = False


def align(lowered: LoopProgram) -> LoopProgram:
    """Give statements over shifted parts of the same places the same axes; shapes of temporaries grow to match.

    Extents that are unknown must have been simplified for large ones (`versioning`).
    """
    if all(map(_is_even, lowered.statements)):
        return lowered
    lowered = lowered.with_body(tuple(map(_with_own_axes, lowered.statements)))
    frames = _framed(lowered.statements)
    hulls = {key: _frame_hull(frame) for key, frame in {id(frame): frame for frame in frames.values()}.items()}
    moved = {place: (f.offsets[place] - hulls[id(f)][0], hulls[id(f)][1], f) for place, f in frames.items()}
    uneven = {id(f) for p, (offset, extent, f) in moved.items() if _moves_with(p) and partial(p, offset, extent)}
    if not uneven:
        return lowered
    placed = {p: m for p, m in moved.items() if id(m[2]) in uneven}
    made = [_Aligned(placed, s).statement() for s in lowered.statements]
    shapes: dict[Array, list[Any]] = {}
    for place, (_, extent, frame) in moved.items():
        if isinstance(place, tuple) and _moves_with(place) and id(frame) in uneven:
            shapes.setdefault(place[0], [*place[0].shape])[place[1]] = extent
    longer = {array: array.with_(shape=tuple(shape)) for array, shape in shapes.items() if shape != [*array.shape]}
    return lowered.with_body(tuple(made)).renamed(longer)


def _with_own_axes(statement: Statement) -> Statement:
    """Give a statement that adds to places beside its axes, as an unrolled one does, its own: its target's frame's."""
    found = [shifted(index) for index in statement.target.indices]
    if statement.how == How.SET or all(one is None or one[1] == 0 for one in found):
        return statement
    by = {axis: Axis(axis.name, axis.extent) for axis in statement.axes}
    ranges = tuple([(by[axis], first, end) for axis, first, end in statement.ranges])
    return statement.at(by).with_(axes=tuple(by.values()), ranges=ranges)


def _is_even(statement: Statement) -> bool:
    """Whether a statement walks all of whatever it touches."""
    return all(
        type(index) is Lookup or (type(index) is Axis and index.extent == dim)
        for access in statement.touched if not access.flat
        for index, dim in zip(access.indices, access.array.shape, strict=True)
    )


def partial(place: Place, offset: int, extent: Any) -> bool:
    """Whether it is a place that is not all of its frame."""
    return offset != 0 or _extent_at(place) != extent


def _moves_with(place: Place) -> bool:
    """Whether it gets the frame's extent, as do axes, and arrays that nobody else sees."""
    return isinstance(place, Axis) or place[0].is_temporary


def _extent_at(place: Place) -> Any:
    return place.extent if isinstance(place, Axis) else place[0].shape[place[1]]


def _frame_hull(frame: Frame) -> tuple[int, Any]:
    """Return where a frame begins, and its extent: all of what moves."""
    moving = [p for p in frame.offsets if _moves_with(p)] or list(frame.offsets)
    low = min(frame.offsets[p] for p in moving)
    spans = {(frame.offsets[p], _extent_at(p)) for p in moving}  # few differ, and SymPy takes its time
    ends = [simplified(offset + extent - frame.extent) for offset, extent in spans]
    return low, simplified(frame.extent + max(ends) - low)


# -- who shares a frame


def _framed(statements: Sequence[Statement]) -> dict[Place, Frame]:
    """Join places into frames: along what is computed first, along inputs last."""
    frames: dict[Place, Frame] = {}
    for s in statements:
        every = [a for a in (s.target, *accesses(s.value)) if not a.flat]
        places: list[Place] = [*s.axes, *[(a.array, d) for a in every for d in range(len(a.array.shape))]]
        for place in places:
            extent = _extent_at(place)
            if not isinstance(extent, int) or extent >= SHORTEST_FRAME:
                frames[place] = Frame(extent, {place: 0})
    for place in _pinned(statements):
        if place in frames:
            frames[place].pinned = True
    # Along targets, then along copied ends, along copies, what is read as a whole, the rest; inputs last.
    joined = _Joined(frames)
    for statement in statements:
        joined.link(statement.target)
    for statement in statements:
        joined.ends(statement)
    temporary = [(s, a) for s in statements for a in accesses(s.value) if a.array.is_temporary]
    for statement, access in temporary:
        if statement.how == How.SET and statement.value is access:
            joined.link(access)
    for _, access in temporary:
        if all(_extent_at((access.array, d)) == i.extent for d, i in enumerate(access.indices) if isinstance(i, Axis)):
            joined.link(access)
    for _, access in temporary:
        joined.link(access)
    for statement in statements:
        for access in accesses(statement.value):
            joined.link(access)
    return frames


def _pinned(statements: Sequence[Statement]) -> Iterator[Place]:
    """List what must stay: axes of products and of running values, arrays that are read flat or looked up in."""
    for statement in statements:
        read = accesses(statement.value)
        fixed = [a for a in read if a.flat]
        fixed += _read_by_indices(statement.value)
        for access in (statement.target, *read):
            fixed += looked_up(access.indices)
        if statement.routine is not None:
            fixed += [statement.target, *read]
        for access in fixed:
            yield from [(access.array, d) for d in range(len(access.array.shape))]
        bare = [i for i in statement.target.indices if isinstance(i, Axis)]
        product = statement.how != How.SET and bare and len(bare) < len(statement.axes) and len(read) > 1
        if product or statement.prefix:
            yield from statement.axes


def _read_by_indices(value: Value) -> list[Access]:
    """List what those indices are looked up in that are values themselves."""
    found: list[Access] = []

    def index(one: Any) -> Any:
        found.extend(looked_up((one,)))
        return one

    mapped(value, lambda access: access, index)
    return found


def shifted(index: Any) -> tuple[Axis, int] | None:
    """Return axis and shift of an index ``i + 3``, None for any other."""
    if type(index) is Axis:
        return index, 0
    form = linear(index)
    if form is None or len(form.terms) != 1 or type(form.start) is not int:
        return None
    ((axis, step),) = form.terms
    return (axis, form.start) if isinstance(axis, Axis) and step == 1 else None


class _Joined:
    """The frames of places, made one after the other."""

    def __init__(self, frames: dict[Place, Frame]) -> None:
        self.frames = frames

    def link(self, access: Access) -> None:
        """Join an access's axes and the dimensions that they walk along by ones."""
        if access.flat or access.array.kind is Kind.OUTPUT:
            return
        for d, index in enumerate(access.indices):
            found = shifted(index)
            if found is not None and found[0] in self.frames and (access.array, d) in self.frames:
                self.join((access.array, d), found[0], found[1])

    def ends(self, statement: Statement) -> None:
        """Join what a statement copies at an end: ``T[0] = u[0]`` has both begin at one place."""
        target = statement.target
        for d, index in enumerate(target.indices):
            if parts(index) or (target.array, d) not in self.frames:
                continue
            for access in accesses(statement.value):
                for k, other in enumerate(() if access.flat else access.indices):
                    if not parts(other) and (access.array, k) in self.frames:
                        shift = simplified(index - other)
                        if type(shift) is int:
                            self.join((target.array, d), (access.array, k), shift)

    def join(self, one: Place, other: Place, shift: int) -> None:
        """Make two frames one, where place `shift` of one is the other's beginning, unless they would not fit.

        They do not fit when the frame would be longer than the longer of them: then equal things would get apart.
        """
        first, second = self.frames[one], self.frames[other]
        longer = simplified(second.extent - first.extent)
        if first is second or type(longer) is not int:
            return
        move = first.offsets[one] + shift - second.offsets[other]
        ends = {*first.lows, *second.lows, *first.highs, *second.highs}
        if (first.pinned or second.pinned) and (move != 0 or longer != 0 or ends != {0}):
            return
        lows = [*first.lows, *[low + move for low in second.lows]]
        highs = [*first.highs, *[high + move + longer for high in second.highs]]
        if max(lows) - min(lows) > EDGE or max(highs) - min(highs) > EDGE:
            return
        if max(highs) - min(lows) > max(first.highs[1] - first.lows[0], second.highs[1] + longer - second.lows[0]):
            return
        if len(second.offsets) > len(first.offsets):
            first, second, move, longer = second, first, -move, -longer
            lows, highs = [low + move for low in lows], [high + move + longer for high in highs]
        first.lows, first.highs = (min(lows), max(lows)), (min(highs), max(highs))
        first.pinned = first.pinned or second.pinned
        for place, offset in second.offsets.items():
            first.offsets[place] = offset + move
            self.frames[place] = first


# -- statements in their frames


class _Aligned:
    """One statement in new coordinates."""

    def __init__(self, moved: dict[Place, tuple[int, Any, Frame]], statement: Statement) -> None:
        self.moved, self.old = moved, statement
        self.by: dict[Axis, Any] = {}
        self.axes: list[Axis] = []
        self.ranges: list[tuple[Axis, Any, Any]] = []
        self.fixed: list[tuple[Axis, Any, Frame]] = []

    def statement(self) -> Statement:
        """Replace the axes that are parts of a frame by the whole frame's."""
        old = self.old
        for axis in old.axes:
            self.axes.append(self.axis(axis))
        if old.how == How.SET or old.target.array.is_temporary:
            self.enter(old.target)
        if not self.by and not self.fixed and not any(self.dimension(a) for a in (old.target, *accesses(old.value))):
            return old
        value = mapped(old.value, self.access, self.index)
        return old.with_(target=self.access(old.target), value=value, axes=tuple(self.axes), ranges=tuple(self.ranges))

    def axis(self, axis: Axis) -> Axis:
        if axis not in self.moved:
            return axis
        offset, extent, _ = self.moved[axis]
        if not partial(axis, offset, extent):
            return axis
        new = Axis(axis.name, extent)
        self.by[axis] = as_index(new - offset)
        if not self.starts(axis):
            self.ranges.append((new, offset, simplified(offset + axis.extent)))
        return new

    def starts(self, axis: Axis) -> bool:
        """Whether it starts a sum over all of an axis: then the frame's is, to all of which copies are added."""
        target = self.old.target
        whole = (axis, axis.extent) in zip(target.indices, target.array.shape, strict=True) and not target.flat
        return whole and self.old.how is How.SET and target.array.is_temporary and isinstance(self.old.value, Number)

    def enter(self, target: Access) -> None:
        """Turn a fixed place near an end of a frame into an axis with one iteration there."""
        for d, index in enumerate(target.indices):
            if parts(index) or (target.array, d) not in self.moved or not target.array.is_temporary:
                continue
            offset, extent, frame = self.moved[target.array, d]
            place = simplified(index + offset)
            back = simplified(extent - place)
            if (type(place) is int and 0 <= place <= EDGE) or (type(back) is int and 0 < back <= EDGE):
                new = Axis("ijklmnpqrstuvw"[d], extent)
                self.axes.insert(0, new)
                self.ranges.append((new, place, simplified(place + 1)))
                self.fixed.append((new, place, frame))

    def dimension(self, access: Access) -> bool:
        """Whether it is an access of an array that gets another shape or begins elsewhere."""
        return any((access.array, d) in self.moved for d in range(len(access.array.shape)))

    def access(self, access: Access) -> Access:
        if access.flat:
            return access.at(self.by)
        return Access(access.array, tuple([self.place(access.array, d, i) for d, i in enumerate(access.indices)]))

    def place(self, array: Array, d: int, index: Any) -> Any:
        new = self.index(index)
        if (array, d) not in self.moved:
            return new
        offset, _, frame = self.moved[array, d]
        if not parts(index):
            for axis, at, home in self.fixed:
                shift = simplified(index + offset - at)
                if home is frame and type(shift) is int and abs(shift) <= EDGE:
                    return as_index(axis + (shift if array.is_temporary else shift - offset))
        return as_index(new + offset) if array.is_temporary and offset else new

    def index(self, index: Any) -> Any:
        return substitute(index, self.by) if self.by else index

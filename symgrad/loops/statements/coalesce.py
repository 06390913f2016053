"""`coalesce`: what is copied into a larger array is read from there.

``v = concatenate([u[:1], w, u[-1:]])`` copies w. Whoever reads w later may read the middle of v, so that only one of
the two has to be kept.
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.index.notation import Access, Axis, How, Statement, accesses, mapped
from symgrad.loops.program import Array, LoopProgram


def coalesce(lowered: LoopProgram) -> LoopProgram:
    """Read the copy of a temporary instead of the temporary, from the copy on."""
    names: dict[Array, Array] = {}
    writers: dict[Array, list[Statement]] = {}
    for s in lowered.statements:
        writers.setdefault(s.target.array, []).append(s)
    regions: dict[Array, Statement] = {}
    made: list[Statement] = []
    for s in lowered.statements:
        target = s.target.array
        if any(a.array in names for a in accesses(s.value)):
            value = mapped(s.value, lambda a: a.of(names.get(a.array, a.array)), lambda index: index)
            s = s.with_(value=value)  # noqa: PLW2901 - the same statement
        made.append(s)
        for copied in [a for a, into in names.items() if into is target]:
            if not ranges_apart(regions[copied], s):
                del names[copied]
        source = copied_array(s)
        if source is not None and source not in names and [bounds(w) for w in writers[source]] == [bounds(s)]:
            names[source], regions[source] = target, s
    return lowered.with_body(tuple(made))


def copied_array(s: Statement) -> Array | None:
    """Return the array that a statement copies to the same places of another one."""
    source = s.value
    if not isinstance(source, Access) or source.flat or s.how != How.SET or not s.ranges:
        return None
    same = source.indices == s.target.indices and all(isinstance(i, Axis) for i in source.indices)
    if not same or source.array.shape != s.target.array.shape or source.array.dtype != s.target.array.dtype:
        return None
    both = (source.array, s.target.array)
    return source.array if all(a.is_temporary for a in both) else None


def bounds(s: Statement) -> list[Any]:
    """List where a statement's target begins and ends, for each dimension."""
    ranges = {axis: (first, end) for axis, first, end in s.ranges}
    return [ranges.get(i, (0, i.extent)) if isinstance(i, Axis) else i for i in s.target.indices]


def ranges_apart(one: Statement, other: Statement) -> bool:
    """Whether two statements' ranges along some dimension of their target share no place."""
    bounds = {axis: (first, end) for axis, first, end in (*one.ranges, *other.ranges)}
    for a, b in zip(one.target.indices, other.target.indices, strict=True):
        if a in bounds and b in bounds:
            (low, high), (first, end) = bounds[a], bounds[b]
            before = [(high, first), (end, low)]
            if any(a == b or (type(a) is type(b) is int and a <= b) for a, b in before):
                return True
    return False

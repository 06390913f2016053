"""`flatten`: axes that are neighbours in every array become one axis.

``np.tanh(x) * y`` of arrays of 784 x 10 is done for ten numbers at a time, of which lanes leave some over, 784 times.
Where statements walk rows as they lie, and know nothing of where one ends, they may as well walk 7840 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

from symgrad.ir.graphs import Partition
from symgrad.ir.index.notation import Access, Axis, Statement, everywhere, mapped, parts
from symgrad.loops.machine import UNROLLED
from symgrad.loops.program import Array, LoopProgram, temporary

Pair: TypeAlias = "tuple[int, Axis] | tuple[Array, int]"
"""Two axes of a statement, by its number and the first of them, or two dimensions of an array, likewise."""


def flatten(program: LoopProgram) -> LoopProgram:
    """Make one axis of those that stand side by side wherever one of them stands.

    Returns:
        The same elements; sums over all of these axes add them in the same order. Programs of up to `UNROLLED` points
        are left for straight-line code.
    """
    statements = program.statements
    after = [_neighbours(s) for s in statements]
    joined = _joined_pairs(statements, after) if any(after) else set()
    if not joined:
        return program
    made = {
        array: temporary(array.name, _merged(array, joined), array)
        for array, _ in joined if isinstance(array, Array) and array.is_temporary
    }
    body = []
    for k, s in enumerate(statements):
        runs = _axes_of_runs({axis: then for axis, then in after[k].items() if (k, axis) in joined})
        body.append(_along(s, runs, made) if runs or any(a.array in made for a in s.touched) else s)
    return program.with_(body=tuple(body), arrays=tuple([made.get(a, a) for a in program.arrays]))


def _neighbours(s: Statement) -> dict[Axis, Axis]:
    """Find the pairs of a statement's axes of which each stands before the other one, wherever either stands."""
    if len(s.axes) < 2 or s.routine is not None or s.prefix:
        return {}
    after: dict[Axis, Any] = {}
    before: dict[Axis, Any] = {}
    alone = {axis for axis, _, _ in s.ranges}.union(s.triangle[:2] if s.triangle else ())

    def index(i: Any) -> Any:
        alone.update([part for part in parts(i) if type(part) is Axis])
        return i

    for access in s.touched:
        shape = () if access.flat else access.array.shape
        places = [None, *access.indices, None]
        for d, axis in enumerate(access.indices):
            if type(axis) is not Axis:
                index(axis)
            elif access.flat or axis.extent != shape[d]:
                alone.add(axis)
            else:
                for beside, other in ((after, places[d + 2]), (before, places[d])):
                    if beside.setdefault(axis, other) is not other:
                        beside[axis] = None
    mapped(s.value, lambda access: access, index)
    return {
        axis: then for axis, then in after.items()
        if type(then) is Axis and before.get(then) is axis and alone.isdisjoint((axis, then))
    }


def _joined_pairs(statements: Sequence[Statement], after: Sequence[dict[Axis, Axis]]) -> set[Pair]:
    """Find the pairs that are joined: all those of an array, or none, and all statements that share a temporary."""
    classes = Partition[Pair]()
    alone: set[Pair] = set()
    many: set[Pair] = set()
    for k, s in enumerate(statements):
        for axis, then in after[k].items():
            few = type(axis.extent) is type(then.extent) is int and axis.extent * then.extent <= UNROLLED
            if not few:
                many.add((k, axis))
        for access in s.touched:
            array, own = access.array, [(k, axis) for axis in access.indices if axis in after[k]]
            for d, axis in enumerate(access.indices[:-1] if not array.is_given else ()):
                if axis in after[k]:
                    classes.join((array, d), (k, axis))
                else:
                    alone.add((array, d))
            if not array.is_temporary:  # it is walked as it lies, along all of its axes
                alone.update(own if len(own) < len(access.indices) - 1 else ())
                for one in own[1:]:
                    classes.join(one, own[0])
            elif access.flat:
                alone.update([(array, d) for d in range(len(array.shape) - 1)])
    refused, wanted = {classes.find(pair) for pair in alone}, {classes.find(pair) for pair in many}
    return {pair for pair in [*classes] if classes.find(pair) in wanted - refused}


def _merged(array: Array, joined: set[Pair]) -> tuple[Any, ...]:
    """Return the shape of a temporary some of whose dimensions are joined with the next one."""
    shape: list[Any] = []
    for d, dim in enumerate(array.shape):
        if d and (array, d - 1) in joined:
            shape[-1] = shape[-1] * dim
        else:
            shape.append(dim)
    return tuple(shape)


def _axes_of_runs(after: dict[Axis, Axis]) -> dict[Axis, Axis | None]:
    """Give each run of neighbours one axis: its first one becomes that, and of the others there is none."""
    found: dict[Axis, Axis | None] = dict.fromkeys(after.values())
    for first in after.keys() - after.values() if after else ():
        run = [first]
        while run[-1] in after:
            run.append(after[run[-1]])
        found[first] = Axis(first.name, prod([axis.extent for axis in run]))
    return found


def _along(s: Statement, runs: dict[Axis, Axis | None], made: dict[Array, Array]) -> Statement:
    """Let a statement walk its runs of axes."""

    def walked(access: Access) -> Access:
        indices = tuple([runs.get(i, i) for i in access.indices])
        if access.array in made or any(i in runs for i in access.indices):
            flat = access.flat or access.array not in made
            return Access(made.get(access.array, access.array), tuple([i for i in indices if i is not None]), flat)
        return access

    access, index = everywhere(walked)
    axes = [runs.get(axis, axis) for axis in s.axes]
    return s.mapped(access, index, axes=tuple([axis for axis in axes if axis is not None]))

"""`versioning`: a program of unknown extents as it is when they are large.

The extent of ``x[1:]`` is ``Max(0, n - 1)``, of ``np.concatenate([x[:1], x[1:]])`` a sum of minima and maxima, and none
of them is known to be n. Where n is at least 32, it is n - 1 and n. So a program whose slices depend on unknown extents
is scheduled twice: for large ones, where ranges begin and end at known places, and for all that are smaller.
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.index.extents import Large, has_choice
from symgrad.ir.index.notation import Access, Axis, Index, Lookup, Statement, accesses, as_index, rebuilt
from symgrad.ir.index.shapes import simplified
from symgrad.loops.machine import LARGE_EXTENTS
from symgrad.loops.program import Array, LoopProgram
from symgrad.loops.statements.lower import without_ones


def versioning(lowered: LoopProgram) -> LoopProgram:
    """Simplify extents and indices for extents that are large; `least` says how large.

    Returns:
        The program, the same one where there is nothing to simplify.
    """
    found: dict[Any, None] = {}
    for s in lowered.statements:
        found.update(dict.fromkeys([axis.extent for axis in s.axes]))
        for access in (s.target, *accesses(s.value)):
            found.update(dict.fromkeys([i for i in (*access.indices, *access.array.shape) if not isinstance(i, Index)]))
    choices = [e for e in found if has_choice(e)]  # extents and indices with minima, maxima and remainders
    if not choices:
        return lowered
    symbols = set().union(*[e.free_symbols for e in choices])
    symbols = {s for s in symbols if not hasattr(s, "index")}
    ordered = sorted(symbols, key=lambda s: str(s.name))
    for least in LARGE_EXTENTS:
        large = _LargeExtents(dict.fromkeys(ordered, least))
        if not any(has_choice(large.dim(e)) for e in choices):
            break
    return large.program(lowered).with_(least=large.least)


class _LargeExtents(Large):
    """A program's extents, where each is at least so large."""

    def __init__(self, least: dict[Any, int]) -> None:
        super().__init__(least)
        self.arrays: dict[Array, Array] = {}
        self.axes: dict[Axis, Axis] = {}

    def axis(self, axis: Axis) -> Axis:
        """Return one axis for each: statements of one running value have the same ones."""
        if axis not in self.axes:
            self.axes[axis] = Axis(axis.name, self.dim(axis.extent))
        return self.axes[axis]

    def dim(self, dim: Any) -> Any:
        """Simplify an extent or an index."""
        if isinstance(dim, (int, Index)):
            return dim
        return as_index(simplified(self.simpler(dim)))

    def array(self, array: Array) -> Array:
        """Copy an array that has a place of its own in each of the two programs."""
        if array.is_given:
            return array
        if array not in self.arrays:
            self.arrays[array] = array.with_(shape=tuple([self.dim(d) for d in array.shape]))
        return self.arrays[array]

    def program(self, lowered: LoopProgram) -> LoopProgram:
        """Copy a program."""
        return lowered.with_(body=tuple([self.statement(s) for s in lowered.statements]),
            outputs=tuple(map(self.array, lowered.outputs)), arrays=tuple(map(self.array, lowered.arrays)),
            donated=tuple([(source, self.array(target)) for source, target in lowered.donated]),
        )

    def statement(self, s: Statement) -> Statement:
        """Copy a statement."""
        walked = s.routine.axes if s.routine is not None else ()
        by: dict[Axis, Any] = {a: self.axis(a) for a in (*s.axes, *walked) if has_choice(a.extent)}

        def part(p: Any) -> Any:
            if isinstance(p, Axis):
                return by.get(p, p)
            read = access(p.access) if isinstance(p.access, Access) else p.access  # a number was put in its place
            return Lookup(read, self.dim(p.extent), p.check, p.soon)

        def index(i: Any) -> Any:
            return self.dim(rebuilt(i, part))

        def access(a: Access) -> Access:
            return Access(self.array(a.array), tuple([index(i) for i in a.indices]), a.flat)

        routine = None if s.routine is None else s.routine.at(by)
        axes, prefix = tuple([by.get(a, a) for a in s.axes]), frozenset(map(self.array, s.prefix))
        return without_ones(s.mapped(access, index, routine=routine, axes=axes, prefix=prefix))

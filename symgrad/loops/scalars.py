"""`scalars`: what unrolling leaves behind is put in order.

Arrays that are touched at integers only become one array for each element: a register, or something as long as the
wide axes. Copies of elements are read where they were copied from, zeros that are overwritten are not written, and
what nobody reads is not computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from symgrad.ir.notation import Access, Apply, Axis, IndexValue, Lookup, Number, Statement, axes_of, parts
from symgrad.loops.program import Array, LoopProgram
from symgrad.loops.store import touched
from symgrad.ops.reduce import first_value


def simplified(lowered: LoopProgram, statements: list[Statement]) -> LoopProgram:
    """Split arrays, forward copies, and drop what is dead; inputs that lanes walk in leaps are copied first."""
    splitting = Splitting(statements)
    statements = [splitting.statement(s) for s in statements]
    statements = forwarded(without_starts(statements), splitting.born)
    statements, packed = walked_by_ones(living(statements))
    return replace(lowered, body=[*statements], arrays=[*lowered.arrays, *splitting.born, *packed])


class Splitting:
    """Which dimensions of temporaries are integers everywhere, and the arrays that take their place."""

    def __init__(self, statements: list[Statement]) -> None:
        """Look at every access; running totals stay whole."""
        self.whole: dict[Array, list[bool]] = {array: [True] for s in statements for array in s.prefix}
        for s in statements:
            for access in touched(s):
                self.note(access)
        self.taken = {
            array: tuple([d for d, kept in enumerate(whole) if not kept])
            for array, whole in self.whole.items() if not all(whole)
        }
        self.parts: dict[tuple[Array, tuple[int, ...]], Array] = {}

    @property
    def born(self) -> list[Array]:
        """List the new arrays."""
        return list(self.parts.values())

    def note(self, access: Access) -> None:
        """Note the dimensions that something else than an integer walks."""
        array = access.array
        if array.kind != "temporary" or not array.shape or self.whole.get(array) == [True]:
            return
        whole = self.whole.setdefault(array, [False] * len(array.shape))
        for d, dim in enumerate(array.shape):
            index = None if access.flat else access.indices[d]
            whole[d] = whole[d] or type(index) is not int or type(dim) is not int or not 0 <= index < dim

    def statement(self, s: Statement) -> Statement:
        """Let a statement use the new arrays."""
        return mapped(s, self.access) if any(access.array in self.taken for access in touched(s)) else s

    def access(self, access: Access) -> Access:
        """Put an element's own array in the place of the whole one."""
        dims = self.taken.get(access.array)
        if dims is None:
            return access
        place = tuple([access.indices[d] for d in dims])
        kept = [d for d in range(len(access.array.shape)) if d not in dims]
        return Access(self.part(access.array, place, kept), tuple([access.indices[d] for d in kept]))

    def part(self, array: Array, place: tuple[int, ...], kept: list[int]) -> Array:
        """Make the array of one element, once."""
        made = self.parts.get((array, place))
        if made is None:
            name = "_".join([array.name, *map(str, place)])
            shape = tuple([array.shape[d] for d in kept])
            made = self.parts[array, place] = Array(name, shape, array.dtype, "temporary", array.line)
        return made


def mapped(s: Statement, change: Any) -> Statement:
    """Put other accesses, or values, in the place of a statement's."""

    def value(v: Any) -> Any:
        if isinstance(v, Access):
            return change(Access(v.array, tuple([index(i) for i in v.indices]), v.flat))
        if isinstance(v, Apply):
            return replace(v, args=tuple([value(a) for a in v.args]))
        return IndexValue(index(v.index), v.dtype) if isinstance(v, IndexValue) else v

    def index(i: Any) -> Any:
        if isinstance(i, Lookup):
            return Lookup(value(i.access), i.extent, i.check)
        if type(i) is int or isinstance(i, Axis):
            return i
        lookups = {p.symbol: index(p).symbol for p in parts(i) if isinstance(p, Lookup)}
        return i.subs(lookups, simultaneous=True) if lookups else i

    target = Access(s.target.array, tuple([index(i) for i in s.target.indices]))
    return replace(s, target=change(target), value=value(s.value))


# -- starts


def without_starts(statements: list[Statement]) -> list[Statement]:
    """Leave out a start that is overwritten before anybody reads it, or that changes no bit of the first term."""
    kept: list[Statement | None] = []
    starts: dict[Array, int] = {}
    for s in statements:
        for access in touched(s)[1:]:
            starts.pop(access.array, None)
        array = s.target.array
        before = starts.pop(array, None)
        if before is not None and covers(s) and (s.how == "=" or begins(s, kept[before])):  # type: ignore[arg-type]
            kept[before] = None
            s = replace(s, how="=")  # noqa: PLW2901 - the same statement, as the first one
        elif s.how == "=" and isinstance(s.value, Number) and array.kind == "temporary" and covers(s):
            starts[array] = len(kept)
        kept.append(s)
    return [s for s in kept if s is not None]


def covers(s: Statement) -> bool:
    """Tell a statement that writes every element of its array exactly once."""
    indices = s.target.indices
    return (
        len(set(indices)) == len(indices) == len(s.axes) and set(indices) == set(s.axes) and not s.target.flat
        and all(axis.extent == dim for axis, dim in zip(indices, s.target.array.shape, strict=True))
    )


def begins(s: Statement, start: Statement) -> bool:
    """Tell a first term that is the same with and without its start: 0.0 + -0.0 is 0.0."""
    value: Any = s.value
    if (value.array if isinstance(value, Access) else value).dtype != s.target.array.dtype:
        return False
    known = start.value.value  # type: ignore[union-attr]  # a start is a number
    if s.how == "+=" and s.target.array.dtype.kind == "f" and not _is_square(value):
        return False
    return bool(known == first_value(s.how, s.target.array.dtype))


def _is_square(value: Any) -> bool:
    """Tell a product of one element with itself, which is never -0.0."""
    if not isinstance(value, Apply) or value.op.name != "multiply":
        return False
    one, two = value.args
    return (
        isinstance(one, Access) and isinstance(two, Access) and one.array is two.array and one.flat == two.flat
        and one.indices == two.indices
    )


# -- copies and what is dead


def forwarded(statements: list[Statement], born: list[Array]) -> list[Statement]:
    """Read elements where they were copied from."""
    writes: dict[Array, int] = {}
    last: dict[Array, int] = {}
    for k, s in enumerate(statements):
        array = s.target.array
        writes[array] = writes.get(array, 0) + 1
        last[array] = k
    able = {array for array in born if writes.get(array) == 1}
    source: dict[Array, tuple[tuple[Axis, ...], Any]] = {}

    def read(access: Access) -> Any:
        found = source.get(access.array)
        if found is None:
            return access
        axes, value = found
        return value.at(dict(zip(axes, access.indices, strict=True))) if isinstance(value, Access) else value

    kept: list[Statement] = []
    for k, s in enumerate(statements):
        if any(access.array in source for access in touched(s)[1:]):
            s = mapped(s, read)  # noqa: PLW2901 - the same statement, reading elsewhere
        if s.target.array in able and s.how == "=" and not s.prefix and covers(s) and _stays(s.value, last, k):
            source[s.target.array] = s.target.indices, s.value
        else:
            kept.append(s)
    return kept


def _stays(value: Any, last: dict[Array, int], now: int) -> bool:
    """Tell a number, or an element that is not written any more."""
    if isinstance(value, Number):
        return True
    if not isinstance(value, Access) or any(isinstance(p, Lookup) for i in value.indices for p in parts(i)):
        return False
    return last.get(value.array, -1) < now


def living(statements: list[Statement]) -> list[Statement]:
    """Leave out what nobody reads."""
    needed: set[Array] = set()
    kept: list[Statement] = []
    for s in reversed(statements):
        read = touched(s)[1:]
        if s.target.array.kind == "temporary" and s.target.array not in needed and s.how != "check":
            continue
        needed.update(access.array for access in read)
        kept.append(s)
    return kept[::-1]


# -- lanes


COLUMN = "column"
"""What notes a copy of a column, which lanes do not share a loop with."""


def walked_by_ones(statements: list[Statement]) -> tuple[list[Statement], list[Array]]:
    """Copy columns of inputs, so that lanes load them by ones.

    That is done where a column is read again and again along another axis, and where vectors cannot be loaded or
    stored in leaps as long as the rows.
    """
    columns = Columns()
    found: list[Statement] = []
    for s in statements:
        wide = set(s.axes)
        able = [
            a for a in touched(s)[1:]
            if a.array.kind == "input" and leap(a) and (awkward(leap(a)) or len(wide) > len(set(a.indices) & wide))
        ]
        if able:
            s = mapped(s, lambda a, able=able: columns.read(a) if _is_one_of(a, able) else a)  # noqa: PLW2901
        stored = s.target.array.kind == "output" and awkward(leap(s.target)) and isinstance(s.value, Access)
        found.append(replace(s, note=COLUMN) if stored else s)
    return [*columns.copies, *found], list(columns.made.values())


class Columns:
    """Columns of inputs as arrays of their own, and the statements that copy them."""

    def __init__(self) -> None:
        """Start without any."""
        self.made: dict[tuple[Any, ...], Array] = {}
        self.copies: list[Statement] = []

    def read(self, access: Access) -> Access:
        """Read an element of a column."""
        places = tuple([i if type(i) is int else None for i in access.indices])
        kept = tuple([i for i in access.indices if type(i) is not int])
        made = self.made.get((access.array, places))
        if made is None:
            made = self.made[access.array, places] = self.column(access.array, places)
        return Access(made, kept)

    def column(self, array: Array, places: tuple[int | None, ...]) -> Array:
        """Copy a column."""
        name = "_".join([array.name, *[str(p) for p in places if p is not None]])
        shape = tuple([dim for dim, p in zip(array.shape, places, strict=True) if p is None])
        made = Array(name, shape, array.dtype, "temporary", array.line)
        axes = axes_of(shape)
        walk = iter(axes)
        source = Access(array, tuple([next(walk) if p is None else p for p in places]))
        self.copies.append(Statement(Access(made, axes), "=", source, axes, note=COLUMN))
        return made


def leap(access: Access) -> int:
    """Return how far apart a column's elements are: bare axes, then integers; 0 for what is no column."""
    if access.flat or not all(isinstance(i, (int, Axis)) for i in access.indices):
        return 0
    axes = [d for d, i in enumerate(access.indices) if isinstance(i, Axis)]
    if not axes or len({access.indices[d] for d in axes}) < len(axes):
        return 0
    step = 1
    for dim in access.array.shape[axes[-1] + 1 :]:
        step *= dim if type(dim) is int else 0
    return step if step > 1 else 0


def awkward(step: int) -> bool:
    """Tell leaps that compilers make no vectors of."""
    return step > 3 and step & (step - 1) != 0


def _is_one_of(access: Access, found: list[Access]) -> bool:
    return any(a.array is access.array and a.indices == access.indices and a.flat == access.flat for a in found)

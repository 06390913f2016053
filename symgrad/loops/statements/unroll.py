"""`unroll`: statements over tiny axes become one statement for each of their elements, at integer indices.

So what surrounds the tiny loops has no loop inside of it and runs as lanes, and what is tiny altogether becomes
straight-line code. What that leaves behind is put in order: arrays that are touched at integers only become one array
for each element, a register or something as long as the wide axes. Copies of elements are read where they were copied
from, zeros that are overwritten are not written, and what nobody reads is not computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from symgrad.ir.graphs import Partition
from symgrad.ir.index.notation import (
    Access,
    Apply,
    Axis,
    How,
    IndexValue,
    LinearIndex,
    Lookup,
    Number,
    Role,
    Statement,
    axes_of,
    everywhere,
    linear,
    mapped,
    parts,
    substitute,
)
from symgrad.ir.index.shapes import upper
from symgrad.loops.machine import FEW_POINTS, TINY, UNROLLED, UNROLLED_ALL, WORTH_LANES
from symgrad.loops.program import Array, Kind, LoopProgram, living, temporary
from symgrad.loops.statements.products import batch_axes, is_block
from symgrad.ops.arrays.reduce import first_value


def unroll(lowered: LoopProgram) -> LoopProgram:
    """Expand the statements over tiny axes, and split the arrays that only they had in common.

    Returns:
        The same results to the last bit: each sum adds its terms in the order it had.
    """
    chosen = choose_axes(lowered.statements)
    if not any(chosen):
        return lowered
    made = [expanded(s, axes) for s, axes in zip(lowered.statements, chosen, strict=True)]
    every = [s for group in made for s in group]
    whole = {access.array for s in every for access in s.touched} - {*Splitting(every).taken}
    for k, s in enumerate(lowered.statements):  # the loop that copies an element of what stays whole is good as it is
        moves = isinstance(s.value, Access) and s.value.array in whole and s.value.array.is_temporary
        if chosen[k] and s.how == How.SET and s.target.array in whole and (moves or isinstance(s.value, Number)):
            made[k] = [resolved(s, {})]
    splitting = Splitting(statements := [s for group in made for s in group])
    statements = [splitting.statement(s) for s in statements]
    born = [*splitting.parts.values()]
    statements, packed = walked_by_ones(living(forwarded(without_starts(propagated(statements, born)), born)))
    return lowered.with_(body=tuple(statements), arrays=(*lowered.arrays, *born, *packed))


def expanded(s: Statement, axes: tuple[Axis, ...]) -> list[Statement]:
    """Make a statement for each point of some axes, in the order a loop would have."""
    points = product(*[range(axis.extent) for axis in axes])
    return [resolved(s, dict(zip(axes, point, strict=True))) for point in points]


# -- which axes


def tiny(s: Statement) -> tuple[Axis, ...]:
    """List the axes of few elements, known now; none where something runs along them."""
    return () if s.prefix else tuple([axis for axis in s.axes if type(axis.extent) is int and axis.extent <= TINY])


def around_lanes(s: Statement) -> tuple[Axis, ...]:
    """List the tiny axes of a statement before the long one that lanes are along: y and x of ``h[i, y, x, c]``."""
    places = [] if s.target.flat or s.is_contraction else [*s.target.indices]
    while places and not (isinstance(places[-1], Axis) and upper(places[-1].extent) > TINY):
        places.pop()
    before = {part for index in places for part in parts(index)}
    return tuple([axis for axis in tiny(s) if axis in before])


def many_around_lanes(s: Statement) -> tuple[Axis, ...]:
    """List those of them that stay loops: the longest, until the statement's other tiny axes have few points.

    Copies of a statement for each of 8 x 8 places do what lanes do in a loop; those for each of 2 x 2 share elements.
    Where there are too many points for copies, what is outside of such a loop, an axis of four images, is one, too.
    """
    around = around_lanes(s)
    for least in sorted({axis.extent for axis in around}, reverse=True) if around else ():
        chosen = tuple([axis for axis in around if axis.extent >= least])
        if tiny_points(tuple([axis for axis in tiny(s) if axis not in chosen])) <= FEW_POINTS:
            points = tiny_points(tiny(s))
            return () if points <= FEW_POINTS else chosen if points <= UNROLLED else (*outside(s, chosen), *chosen)
    return around


def outside(s: Statement, chosen: tuple[Axis, ...]) -> list[Axis]:
    """List the tiny axes of a statement's target before the first of some."""
    places = [parts(index) for index in s.target.indices]
    first = next(k for k, place in enumerate(places) if not set(place).isdisjoint(chosen))
    before = {part for place in places[:first] for part in place}
    return [axis for axis in tiny(s) if axis in before]


def choose_axes(statements: Sequence[Statement]) -> list[tuple[Axis, ...]]:
    """Choose the axes of each statement that are worth unrolling; beyond the budget the longest keep their loops."""
    running = {array for s in statements for array in s.prefix}
    apart = Apart(statements)
    chosen: list[tuple[Axis, ...]] = []
    for s in statements:
        axes = apart.few(s)
        if not axes or s.routine is not None or s.target.array in running or looks_up(s):
            chosen.append(())
            continue
        worth = (is_wide(s, axes) and reckons(s)) or any(apart.has(axis) for axis in axes)
        chosen.append(axes if axes and worth and not is_block(s, axes) else ())
    counts = [tiny_points(axes) for axes in chosen]
    total, most = 0, 1
    for size in sorted({c for c in counts if c > 1}):
        total += size * counts.count(size)
        if total > UNROLLED_ALL:
            break
        most = size
    return [axes if count <= most else () for axes, count in zip(chosen, counts, strict=True)]


def is_wide(s: Statement, axes: tuple[Axis, ...]) -> bool:
    """Whether it is a statement whose other axes are worth running as lanes."""
    return prod([upper(axis.extent) for axis in s.axes if axis not in axes]) > WORTH_LANES


def reckons(s: Statement) -> bool:
    """Whether it is a statement that does more than move or start something."""
    return s.how != How.SET or isinstance(s.value, Apply)


def tiny_points(axes: tuple[Axis, ...]) -> int:
    """Count the points of tiny axes."""
    return prod([axis.extent for axis in axes])


def looks_up(s: Statement) -> bool:
    """Whether an index is looked up in what is not known now: no lanes, and rows are touched as a whole."""
    return any(
        isinstance(part, Lookup) and part.access.array.kind is not Kind.CONSTANT
        for access in s.touched for part in access.parts
    )


class Apart:
    """The axes along which arrays would better be scalars.

    They are those along which an array is taken apart (read or written at one place), those along which a temporary
    is read again and again, and those that are unrolled beside a wide axis.
    """

    def __init__(self, statements: Sequence[Statement]) -> None:
        """Join the axes and the dimensions they walk; note what is indexed in another way."""
        classes = self.classes = Partition[Any]()
        odd: list[Any] = []
        for s in statements:
            for access in s.touched:
                if not access.array.is_temporary:
                    continue
                for d, index in enumerate(access.indices):
                    place = (access.array, d)
                    if isinstance(index, Axis) and not access.flat:
                        classes.join(place, index)
                    else:
                        odd.append(place)
        self.batches = {classes.find(axis) for s in statements for axis in batch_axes(s)}
        self.around = {classes.find(axis) for s in statements for axis in many_around_lanes(s)}
        if self.around:
            self.around -= self.shared(statements)
        for s in statements:
            few = self.few(s)
            if few and is_wide(s, few) and reckons(s) and not looks_up(s) and not is_block(s, few):
                odd += few
            for access in s.reads if len(s.axes) == len(few) > 1 else ():
                if access.array.is_temporary and len(set(access.indices).intersection(few)) < len(few):
                    odd += [axis for axis in few if axis in access.indices]
        self.odd = {classes.find(place) for place in odd}

    def shared(self, statements: Sequence[Statement]) -> set[Any]:
        """Find the tiny axes whose points share elements: an array is touched at several places, `i` and `i + 1`.

        So are rows of pairs, at `i` and at `j`. Of `2 i` and `2 i + 1` each element belongs to one point, as of the
        halves at `i` and `i + 4` of four places.
        """
        starts: dict[tuple[Any, ...], dict[Any, None]] = {}
        paired: set[Any] = set()
        for s in statements:
            walked: dict[tuple[Array, int], dict[Axis, None]] = {}
            for access in s.touched:
                for d, index in enumerate(access.indices):
                    form = linear(index)
                    if form is None or len(form.terms) != 1:
                        continue
                    ((axis, step),) = form.terms
                    if type(axis) is Axis and type(axis.extent) is int and axis.extent <= TINY and type(step) is int:
                        walked.setdefault((access.array, d), {})[axis] = None
                        key = self.classes.find(axis), step, axis.extent, access.array, d
                        starts.setdefault(key, {})[form.start] = None
            paired.update([axis for axes in walked.values() if len(axes) > 1 for axis in axes])
        return {self.classes.find(axis) for axis in paired} | {
            own for (own, step, extent, *_), found in starts.items()
            if any(type(a - b) is not int or ((a - b) % step == 0 and abs(a - b) < extent * abs(step))
                   for a, b in combinations(found, 2))
        }

    def few(self, s: Statement) -> tuple[Axis, ...]:
        """List a statement's tiny axes, but for loops around lanes, unless there are too many points.

        Those are left out along which products are done, one after the other, with all that is made of them. A sum of
        products with a loop around lanes stays as it is: its loops have an order of their own.
        """
        every = tiny(s)
        axes = tuple([axis for axis in every if self.classes.find(axis) not in self.around])
        if not 0 < tiny_points(axes) <= UNROLLED or (s.is_contraction and axes != every):
            return ()
        return tuple([axis for axis in axes if self.classes.find(axis) not in self.batches])

    def has(self, axis: Axis) -> bool:
        """Whether an axis is taken apart somewhere."""
        return self.classes.find(axis) in self.odd


# -- one point of a statement


def resolved(s: Statement, by: dict[Axis, int]) -> Statement:
    """Put integers in the place of axes, and numbers in the place of what is known then."""
    axes = tuple([axis for axis in s.axes if axis not in by])
    target = s.target.moved(tuple([at_place(i, by) for i in s.target.indices]))

    value = mapped(s.value, lambda access: element(access, by), lambda i: at_place(i, by), folded_value)
    if target is s.target and value is s.value and not by:
        return s
    return s.with_(target=target, value=value, axes=axes)


def as_literal(value: Any, dtype: np.dtype[Any]) -> Number:
    """Make a literal of a dtype."""
    return Number(np.asarray(value).astype(dtype).item(), dtype)


def folded_value(value: Apply | IndexValue) -> Any:
    """Compute what is known now, as `simplify` does."""
    if isinstance(value, IndexValue):
        return as_literal(value.index, value.dtype) if type(value.index) is int else value
    if value.op.numpy is np.where and isinstance(value.args[0], Number):
        kept = value.args[1 if value.args[0].value else 2]
        if dtype_of(kept) == value.dtype:
            return kept
    if not all(isinstance(a, Number) for a in value.args):
        for one, other in (value.args, value.args[::-1]) if value.is_product else ():  # a factor of 1
            if isinstance(one, Number) and one.value == 1 and dtype_of(other) == value.dtype:
                return other
        return value
    known: Any = [np.asarray(a.value, a.dtype) for a in value.args]  # type: ignore[union-attr]  # numbers, all of them
    with np.errstate(all="ignore"):
        found = value.op.evaluate(*known, **dict(zip(value.op.params, value.params, strict=True)))
    return as_literal(found, value.dtype)


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return the dtype of a value's elements."""
    return (value.array if isinstance(value, Access) else value).dtype  # type: ignore[no-any-return]


def element(access: Access, by: dict[Axis, int]) -> Any:
    """Read an element: a constant's is a number."""
    array, flat = access.array, access.flat
    indices = tuple([at_place(i, by) for i in access.indices])
    if flat:
        indices, flat = unraveled(array, indices)
    if array.kind is Kind.CONSTANT and not flat and all(
        type(i) is int and type(dim) is int and 0 <= i < dim for i, dim in zip(indices, array.shape, strict=True)
    ):
        return as_literal(array.data[indices], array.dtype)
    return access.moved(indices) if flat is access.flat else Access(array, indices, flat)


def unraveled(array: Array, indices: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """Turn a flat index into one for each dimension, where all but the first are integers."""
    (index,) = indices
    tail = 1
    for dim in array.shape[1:]:
        if type(dim) is not int or dim == 0:
            return indices, True
        tail *= dim
    form = affine(index)
    if not array.shape or form is None or any(step % tail for _, step in form.terms) or form.start < 0:
        return indices, True
    first = combined(form.start // tail, [(part, step // tail) for part, step in form.terms])
    rest: list[int] = []
    left = form.start % tail
    for dim in reversed(array.shape[1:]):
        left, here = divmod(left, dim)
        rest.append(here)
    return (first, *reversed(rest)), False


# -- indices


def at_place(index: Any, by: dict[Axis, int]) -> Any:
    """Put integers in the place of axes in an index."""
    if type(index) is int:
        return index
    if isinstance(index, Axis):
        return by.get(index, index)
    if isinstance(index, Lookup):  # what stands in a constant is known now
        found = element(index.access, by)
        if isinstance(found, Number) and type(index.extent) is int:
            known = int(found.value) + (index.extent if found.value < 0 else 0)
            if 0 <= known < index.extent:
                return known
        return substitute(index, by)
    if not by:
        return index
    form = affine(index)
    if form is None or any(isinstance(part, Lookup) for part, _ in form.terms):
        return substitute(index, by)
    constant = form.start + sum([step * by[part] for part, step in form.terms if part in by])
    return combined(constant, [(part, step) for part, step in form.terms if part not in by])


def affine(index: Any) -> LinearIndex | None:
    """Take an index apart into an integer and integer steps along axes; None where it is something else."""
    form = linear(index)
    known = form is not None and type(form.start) is int and all(type(step) is int for _, step in form.terms)
    return form if known else None


def combined(constant: int, steps: list[tuple[Any, int]]) -> Any:
    """Put an index together again."""
    total: Any = constant
    for part, step in steps:
        total = part * step + total
    return total


# -- what unrolling leaves behind: arrays of one element


class Splitting:
    """Which dimensions of temporaries are integers everywhere, and the arrays that take their place."""

    def __init__(self, statements: list[Statement]) -> None:
        """Look at every access; running totals stay whole."""
        self.whole: dict[Array, list[bool]] = {array: [True] for s in statements for array in s.prefix}
        for s in statements:
            for access in s.touched:
                self.note(access)
        self.taken = {
            array: tuple([d for d, kept in enumerate(whole) if not kept])
            for array, whole in self.whole.items() if not all(whole)
        }
        self.parts: dict[tuple[Array, tuple[int, ...]], Array] = {}

    def note(self, access: Access) -> None:
        """Note the dimensions that something else than an integer walks."""
        array = access.array
        if not array.is_temporary or not array.shape or self.whole.get(array) == [True]:
            return
        whole = self.whole.setdefault(array, [False] * len(array.shape))
        for d, dim in enumerate(array.shape):
            index = None if access.flat else access.indices[d]
            whole[d] = whole[d] or type(index) is not int or type(dim) is not int or not 0 <= index < dim

    def statement(self, s: Statement) -> Statement:
        """Let a statement use the new arrays."""
        used = any(access.array in self.taken for access in s.touched)
        return s.mapped(*everywhere(self.access)) if used else s

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
            made = self.parts[array, place] = temporary(name, shape, array)
        return made


# -- constants


def propagated(statements: list[Statement], born: list[Array]) -> list[Statement]:
    """Compute what is made of numbers alone, as far as it is: elements are numbers until something else is added.

    A zero that is added to what began at another number than -0.0 changes no bit: no sum becomes -0.0 later.
    """
    able = set(born)
    known: dict[Array, tuple[int, Number]] = {}  # where an array that is one number is set, and to what
    sums: set[Array] = set()  # that are not -0.0
    kept: list[Statement] = []
    for s in statements:
        target = s.target
        if any(access.array in known for access in s.reads):
            s = s.mapped(  # noqa: PLW2901 - the same statement, of numbers
                lambda a, target=target: known[a.array][1] if a is not target and a.array in known else a,  # type: ignore[misc]
                lambda index: index, folded_value,
            )
            for access in s.reads:  # to look something up
                known.pop(access.array, None)
        array, value = target.array, s.value
        if array in able and isinstance(value, Number) and value.dtype == array.dtype and not s.ranges:
            if s.how == How.SET and writes_all(s):
                known[array] = len(kept), value
                sums.discard(array)
                kept.append(s)
                continue
            if s.how == How.ADD and array in known and writes_all(s):
                place, start = known[array]
                with np.errstate(all="ignore"):
                    total = as_literal(np.add(*[np.asarray(x.value, x.dtype) for x in (start, value)]), array.dtype)
                known[array], kept[place] = (place, total), kept[place].with_(value=total)
                continue
            if s.how == How.ADD and array in sums and value.value == 0:
                continue
        found = known.pop(array, None)
        if s.how != How.ADD:
            sums.discard(array)
        elif found is not None and not np.signbit(found[1].value):
            sums.add(array)
        kept.append(s)
    return kept


# -- starts


def without_starts(statements: list[Statement]) -> list[Statement]:
    """Leave out a start that is overwritten before anybody reads it, or that changes no bit of the first term."""
    kept: list[Statement | None] = []
    starts: dict[Array, int] = {}
    for s in statements:
        for access in s.reads:
            starts.pop(access.array, None)
        array = s.target.array
        before = starts.pop(array, None)
        if before is not None and writes_all(s) and (s.how == How.SET or begins(s, kept[before])):  # type: ignore[arg-type]
            kept[before] = None
            s = s.with_(how=How.SET)  # noqa: PLW2901 - the same statement, as the first one
        elif s.how == How.SET and isinstance(s.value, Number) and array.is_temporary and writes_all(s):
            starts[array] = len(kept)
        kept.append(s)
    return [s for s in kept if s is not None]


def writes_all(s: Statement) -> bool:
    """Whether it is a statement that writes every element of its array exactly once."""
    indices = s.target.indices
    return (
        len(set(indices)) == len(indices) == len(s.axes) and set(indices) == set(s.axes) and not s.target.flat
        and all(axis.extent == dim for axis, dim in zip(indices, s.target.array.shape, strict=True))
    )


def begins(s: Statement, start: Statement) -> bool:
    """Whether it is a first term that is the same with and without its start: 0.0 + -0.0 is 0.0."""
    value: Any = s.value
    if dtype_of(value) != s.target.array.dtype:
        return False
    known = start.value.value  # type: ignore[union-attr]  # a start is a number
    if s.how == How.ADD and s.target.array.dtype.kind == "f":  # a product of an element with itself is never -0.0
        one, two = value.args if isinstance(value, Apply) and value.is_product else (None, None)
        if not isinstance(one, Access) or not isinstance(two, Access):
            return False
        if one.array is not two.array or one.flat != two.flat or one.indices != two.indices:
            return False
    return bool(known == first_value(s.how, s.target.array.dtype))


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

    change = everywhere(read)
    kept: list[Statement] = []
    for k, s in enumerate(statements):
        if any(access.array in source for access in s.reads):
            s = s.mapped(*change)  # noqa: PLW2901 - the same statement, reading elsewhere
        value = s.value
        stays = isinstance(value, Number) or (
            isinstance(value, Access) and not value.is_indirect and last.get(value.array, -1) < k)
        if s.target.array in able and s.how == How.SET and not s.prefix and writes_all(s) and stays:
            source[s.target.array] = s.target.indices, s.value
        else:
            kept.append(s)
    return kept


# -- lanes


def walked_by_ones(statements: list[Statement]) -> tuple[list[Statement], list[Array]]:
    """Copy columns of inputs, so that lanes load them by ones.

    That is done where a column is read again and again along another axis, and where vectors cannot be loaded or
    stored in leaps as long as the rows.
    """
    made: dict[tuple[Array, tuple[int | None, ...]], Array] = {}
    copies: list[Statement] = []

    def column(access: Access) -> Access:
        array = access.array
        places = tuple([i if type(i) is int else None for i in access.indices])
        if (array, places) not in made:
            name = "_".join([array.name, *[str(p) for p in places if p is not None]])
            shape = tuple([dim for dim, p in zip(array.shape, places, strict=True) if p is None])
            into = made[array, places] = temporary(name, shape, array)
            axes = axes_of(shape)
            walk = iter(axes)
            source = Access(array, tuple([next(walk) if p is None else p for p in places]))
            copies.append(Statement(Access(into, axes), How.SET, source, axes, role=Role.COLUMN))
        return Access(made[array, places], tuple([i for i in access.indices if type(i) is not int]))

    found: list[Statement] = []
    for s in statements:
        wide = set(s.axes)
        able = {
            a for a in s.reads
            if a.array.kind is Kind.INPUT and leap(a) and (awkward(leap(a)) or len(wide) > len(set(a.indices) & wide))
        }
        stored = s.target.array.kind is Kind.OUTPUT and awkward(leap(s.target)) and isinstance(s.value, Access)
        if able:
            s = s.mapped(*everywhere(lambda a, able=able: column(a) if a in able else a))  # type: ignore[misc]  # noqa: PLW2901 - reading elsewhere
        found.append(s.with_(role=Role.COLUMN) if stored else s)
    return [*copies, *found], list(made.values())


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
    """Whether compilers make no vectors of such leaps."""
    return step > 3 and step & (step - 1) != 0

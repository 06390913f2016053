"""`Held`: a loop or a branch with programs of its own, while the statements around it are put in order.

It is a routine then: for each array that it makes there stands one statement, ``call``, which reads all that its
programs read. Passes on statements run on these programs by themselves (`deep`), and `embed` puts the loop or the
branch in its place when all are trees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import Line
from symgrad.ir.index.notation import (
    SURE,
    Access,
    Apply,
    Axis,
    Frozen,
    How,
    IndexValue,
    Lazy,
    Lookup,
    Number,
    Statement,
    as_index,
    axes_of,
    everywhere,
    mapped,
)
from symgrad.ir.index.shapes import Dim, size
from symgrad.ir.op import Elementwise
from symgrad.loops.fusion.merge import overwrites, sunk
from symgrad.loops.machine import OFTEN
from symgrad.loops.program import (
    Array,
    Cond,
    Item,
    Items,
    Kind,
    Loop,
    LoopProgram,
    Walk,
    While,
    kept,
    looped,
    over_all,
    rebuild,
    renamed,
    temporary,
)
from symgrad.ops.elementwise.logical import greater_equal, less, logical_and

READS = Elementwise("reads")
"""Stands for all that is made of what is read."""

COUNTS = {ufunc: Elementwise(ufunc.__name__, infix=sign, c={"i": f"{{0}} {sign} {{1}}"}, numpy=ufunc)
          for ufunc, sign in ((np.add, "+"), (np.subtract, "-"))}
"""How counters of steps go on: no loop has so many that they would overflow, so that C needs no unsigned numbers."""


def counted_on(number: Access, by: Any = np.add, axes: tuple[Axis, ...] = (), line: Line | None = None) -> Statement:
    """Let an integer be the next one, or the one before."""
    kind = number.array.dtype
    return Statement(number, How.SET, Apply(COUNTS[by], (number, Number(1, kind)), kind, kind), axes, line)


@dataclass(frozen=True, eq=False)
class Held(Frozen, ABC):
    """What holds programs of its own, and runs them in the middle of another one.

    Attributes:
        programs: what it runs; their inputs and outputs stand for arrays around it, or for rows of them.
        reads: for each program the arrays around that its inputs stand for, by their numbers among all that are read.
    """

    programs: tuple[LoopProgram, ...]
    reads: tuple[tuple[int, ...], ...]

    @property
    def times(self) -> Dim:
        """How often it runs, at most."""
        return 1

    @Lazy
    def work(self) -> Dim:
        """How many operations it takes, much as other routines count them."""
        from symgrad.loops.cost import element_count, estimate

        every = [path for program in self.programs for path in program.paths]
        return self.times * sum([estimate(s) * element_count([a.extent for a in s.axes]) for s, _ in every])

    @abstractmethod
    def unfolded(self, reads: Sequence[Array], made: Mapping[int, Array]) -> tuple[Items, list[Array]]:
        """Return the items themselves, given the arrays that it reads and makes, and the arrays that are new in it."""

    def inside(self, reads: Sequence[Array]) -> Iterator[tuple[LoopProgram, dict[Array, Array]]]:
        """Give each program with what its inputs stand for."""
        for program, places in zip(self.programs, self.reads, strict=True):
            whole = embed(program)
            yield whole, {array: reads[k] for array, k in zip(whole.inputs, places, strict=True)}


class Counter:
    """The variable of a loop whose number of steps is a value.

    Attributes:
        total: the number of steps.
        number: which step it is, from the last one on where rows are gone backwards.
        place: the row that a step reads and writes.
    """

    def __init__(self, total: Array, length: Dim | None, reverse: bool) -> None:
        self.total, self.reverse = total, reverse
        self.number = Access(Array("t0", (), total.dtype, Kind.TEMPORARY, Line("", 0, "step = ...")), ())
        self.place = Lookup(self.number, length, SURE)

    def loop(self, body: Items, total: Array) -> Items:
        """Make the loop."""
        step, end, kind = self.number, Access(total, ()), self.number.array.dtype
        zero, last = Number(0, kind), Apply(COUNTS[np.subtract], (end, Number(1, kind)), kind, kind)
        first, op, bound = (last, greater_equal, zero) if self.reverse else (zero, less, end)
        more = Apply(op, (step, bound), np.dtype(bool), kind)
        goes_on = counted_on(step, np.subtract if self.reverse else np.add)
        return (Statement(step, How.SET, first, ()), While(more, (*body, goes_on)))


@dataclass(frozen=True, eq=False)
class Repeat(Held):
    """A loop, each step of which follows the one before.

    Attributes:
        axis: its variable, the row that a step reads and writes.
        down: it counts down.
        rows: the inputs and outputs that stand for rows.
        state: the inputs that stand for what is carried from step to step; the first outputs are their next values.
        inplace: of these outputs, those of which only some elements are written; the others stay as they were.
        count: what counts the steps where their number is a value, which is read last; the axis is not used then.
    """

    axis: Axis
    down: bool
    rows: frozenset[Array]
    state: tuple[Array, ...]
    inplace: frozenset[Array]
    count: Counter | None = None

    @property
    def times(self) -> Dim:
        """How often it runs."""
        return OFTEN if self.count else self.axis.extent

    def unfolded(self, reads: Sequence[Array], made: Mapping[int, Array]) -> tuple[Items, list[Array]]:
        """Make a loop; its last statements carry on."""
        ((inner, outside),) = self.inside(reads)
        rows = {k: array for k, array in made.items() if k >= len(self.state)}
        place = self.count.place if self.count else self.axis
        body, new = stepped(inner, outside, self.state, rows, self.inplace, self.rows, place)
        if not body:  # all arrays are empty
            return (), new
        if self.count:
            return self.count.loop(body, reads[-1]), [*new, self.count.number.array]
        return (Loop(self.axis, frozenset([self.axis]), body, Walk.SEQUENTIAL, down=self.down),), new


@dataclass(frozen=True, eq=False)
class HeldBranch(Held):
    """One of two programs.

    Attributes:
        test: which of the arrays that are read holds the condition.
    """

    test: int

    def unfolded(self, reads: Sequence[Array], made: Mapping[int, Array]) -> tuple[Items, list[Array]]:
        """Make a condition around both."""
        new: list[Array] = []
        blocks = []
        for inner, outside in self.inside(reads):
            new += given_homes(inner, outside, made)
            blocks.append(moved(looped(inner.body), outside, frozenset(), 0))
        return (Cond(Access(reads[self.test], ()), *blocks),), new


@dataclass(frozen=True, eq=False)
class Again(Held):
    """A loop that goes on as long as the first of its programs says so; the second one is a step.

    Attributes:
        state: the inputs of a step that stand for what is carried.
        inplace: of their next values, those of which only some elements are written.
        most: after so many steps it ends, if it is not None.
    """

    state: tuple[Array, ...]
    inplace: frozenset[Array]
    most: Dim | None

    @property
    def times(self) -> Dim:
        """How often it runs: nobody knows."""
        return OFTEN if self.most is None else self.most

    def unfolded(self, reads: Sequence[Array], made: Mapping[int, Array]) -> tuple[Items, list[Array]]:
        """Make a loop that asks first, in each step, and counts.

        The count of steps is its first result; what is carried comes next, then what is stacked.
        """
        (asked, about), (step, outside) = self.inside(reads)
        count = made.get(0) or Array("steps", (), np.dtype(np.int64), Kind.TEMPORARY)
        on = Array("t0", (), np.dtype(bool), Kind.TEMPORARY, Line("", 0, "goes_on = ..."))
        new = [on, *([] if 0 in made else [count])]
        new += given_homes(asked, about, {})
        here = Access(count, ())
        test: Any = Access(about[asked.outputs[0]], ())
        if self.most is not None:
            most: Any = Number if type(self.most) is int else IndexValue
            below = Apply(less, (here, most(self.most, count.dtype)), on.dtype, count.dtype)
            test = Apply(logical_and, (below, test), on.dtype, on.dtype)
        rows = {k - 1: array for k, array in made.items() if k > len(self.state)}
        stacked, place = frozenset(step.outputs[len(self.state) :]), Lookup(here, self.most, SURE)
        carried, more = stepped(step, outside, self.state, rows, self.inplace, stacked, place)
        new += more
        body = (*carried, counted_on(here))
        asks = (*moved(looped(asked.body), about, frozenset(), 0), Statement(Access(on, ()), How.SET, test, ()))
        loop = While(Access(on, ()), (*asks, Cond(Access(on, ()), body)))
        begin = (
            Statement(here, How.SET, Number(0, count.dtype), ()),
            Statement(Access(on, ()), How.SET, Number(True, on.dtype), ()),
        )
        return (*begin, loop), new


@dataclass(frozen=True, eq=False)
class Segments(Held):
    """Loops that a sum over elements in segments is: no programs, but items as they are.

    Attributes:
        items: the loops.
        given, target: the arrays that they read, and the one whose elements they add to, or set.
        new: arrays of their own.
        elements: of all segments.
        each: what is done with one.
    """

    items: Items
    given: tuple[Array, ...]
    target: Array
    new: tuple[Array, ...]
    elements: Dim
    each: Statement

    @property
    def work(self) -> Dim:
        """How many operations it takes."""
        from symgrad.loops.cost import element_count, estimate

        return self.elements * estimate(self.each) * element_count([axis.extent for axis in self.each.axes])

    def unfolded(self, reads: Sequence[Array], made: Mapping[int, Array]) -> tuple[Items, list[Array]]:
        """Return the loops, over the arrays that stand there now."""
        return renamed(self.items, dict(zip(self.given, reads, strict=True)) | {self.target: made[0]}), [*self.new]


def stepped(
    inner: LoopProgram, outside: dict[Array, Array], states: Sequence[Array], made: Mapping[int, Array],
    inplace: Container[Array], rows: Container[Array], place: Any,
) -> tuple[Items, list[Array]]:
    """Make the body of a loop, which ends by carrying on, and list the arrays that are new.

    Of an array that is changed in place the step changes elements of what is carried, or, where it reads others
    afterwards, of a copy.
    """
    new = given_homes(inner, outside, made)
    body = looped(inner.body)
    first: list[Item] = []
    last: list[Item] = []
    for state, output in zip(states, inner.outputs, strict=False):
        body = sunk(body, output) if output in inplace else body
        if output in inplace and overwrites(body, state, output):
            new.remove(outside[output])
            outside[output] = outside[state]
            continue
        first += over_all(outside[output], How.SET, outside[state], output.line) if output in inplace else ()
        last += over_all(outside[state], How.SET, outside[output], output.line)
    return (*first, *moved(body, outside, rows, place), *last), new


class HeldResult(NamedTuple):
    """What a statement that stands for `Held` calls: one array that it makes.

    Attributes:
        held: the whole.
        number: of the output.
        axes: of what the statement touches.
    """

    held: Held
    number: int
    axes: tuple[Axis, ...]

    @property
    def work(self) -> Dim:
        """How many operations the whole takes."""
        return self.held.work


def stand_for(held: Held, reads: Sequence[Array], made: Sequence[Array], line: Any) -> list[Statement]:
    """Make the statements that stand for what holds programs.

    Args:
        held: the whole.
        reads: the arrays that it reads.
        made: those that its outputs stand for.
        line: the user's.
    """
    axes = [axes_of(array.shape) for array in reads]
    kind = np.dtype(np.int64)
    value = Apply(READS, tuple(map(Access, reads, axes)), kind, kind)
    found = []
    for number, target in enumerate(made):
        own = axes_of(target.shape)
        routine: Any = HeldResult(held, number, (*[axis for each in axes for axis in each], *own))
        found.append(Statement(Access(target, own), How.CALL, value, (), line, routine=routine))
    return found


def result_of(item: Any) -> Any:
    """Return what a statement makes of what it stands for; None for any other item."""
    routine: Any = item.routine if isinstance(item, Statement) else None
    return routine if isinstance(routine, HeldResult) else None


def deep(apply: Callable[[LoopProgram], LoopProgram]) -> Callable[[LoopProgram], LoopProgram]:
    """Let what is done to statements be done to programs that are held among them, too."""

    @wraps(apply)
    def applied(program: LoopProgram) -> LoopProgram:
        new: dict[Held, Held] = {}
        body: list[Any] = []
        for item in program.body:
            found = result_of(item)
            if found is not None:
                held: Held = found.held
                if held not in new:
                    programs = tuple(map(applied, held.programs))
                    new[held] = held if all(map(is_, programs, held.programs)) else held.with_(programs=programs)
                if new[held] is not held:
                    item = item.with_(routine=found._replace(held=new[held]))  # noqa: PLW2901 - the same statement
            body.append(item)
        return apply(program.with_body(kept(program.body, body)))

    return applied


def embed(program: LoopProgram, known: dict[Any, tuple[Items, list[Array]]] | None = None) -> LoopProgram:
    """Put loops and branches in the places of the statements that stand for them.

    Args:
        program: the program.
        known: those that were made before, of the same items: they are the same objects then.
    """
    memory = {} if known is None else known
    made: dict[Held, dict[int, Array]] = {}
    for s, _ in program.paths:
        found: Any = s.routine
        if isinstance(found, HeldResult):
            made.setdefault(found.held, {})[found.number] = s.target.array
    if not made:
        return program
    new: list[Array] = []
    done: set[Held] = set()

    def change(_: Item, item: Any) -> Any:
        found = result_of(item)
        if found is None:
            return item
        if found.held in done:
            return None
        done.add(found.held)
        reads = [a.array for a in item.value.args]
        key = (found.held, *reads, *made[found.held].items())
        if key not in memory:
            memory[key] = found.held.unfolded(reads, made[found.held])
        whole, arrays = memory[key]
        new.extend(arrays)
        return whole

    return program.with_body(rebuild(program.body, change), new)


def given_homes(inner: LoopProgram, outside: dict[Array, Array], made: Mapping[int, Array]) -> list[Array]:
    """Say which arrays outputs are, temporaries where nobody outside wants them; list the arrays that are new."""
    new = [array for array in inner.arrays if array not in outside and array not in inner.outputs]
    for number, output in enumerate(inner.outputs):
        outside[output] = made.get(number) or temporary(output.name, output.shape, output)
        new += [] if number in made else [outside[output]]
    return new


def moved(items: Items, outside: Mapping[Array, Array], rows: Container[Array], place: Any) -> Items:
    """Let a tree touch the arrays that its inputs and outputs stand for, or a row of them."""

    def touch(access: Access) -> Access:
        array = access.array
        if array not in outside:
            return access
        if array not in rows or outside[array].shape == array.shape:
            return access.of(outside[array])
        if access.flat:
            start = place * size(array.shape) + access.indices[0]
            return Access(outside[array], (as_index(start),), flat=True)
        return Access(outside[array], (place, *access.indices))

    access, index = everywhere(touch)

    def change(_: Item, item: Any) -> Any:
        if isinstance(item, (Cond, While)):
            return item.with_(test=mapped(item.test, access, index))
        if not isinstance(item, Statement):
            return item
        prefix = frozenset([outside.get(array, array) for array in item.prefix])
        return item.mapped(access, index, None, **({"prefix": prefix} if prefix else {}))

    return rebuild(items, change)

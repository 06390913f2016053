"""`rematerialize`: a cheap value that is read at other places than it is made is computed again there.

``ga[i - 1]`` in the loop that makes ``ga[i]`` needs all of ``ga`` first: a sweep, and an array in memory, between the
two. Where ``ga`` takes a few operations on what is in memory anyway, its expression at i - 1 stands in its place, and
nothing waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from symgrad.ir.index.notation import (
    Access,
    Axis,
    Frozen,
    How,
    Lazy,
    Statement,
    Value,
    accesses,
    looked_up,
    mapped,
    substitute,
)
from symgrad.loops.cost import element_count, recomputed
from symgrad.loops.machine import AGAIN, COMPARED, FEW_LEAVES
from symgrad.loops.program import Array, LoopProgram, living


@dataclass(frozen=True, eq=False)
class Recipe(Frozen):
    """How to compute an element again.

    Attributes:
        axes: where the element stands.
        made: it, as its statement makes it.
        parts: how to compute what stands in it again.
        operations: how many all of it takes.
        leaves: the temporaries it is computed from.
    """

    axes: tuple[Axis, ...]
    made: Value
    parts: Mapping[Array, Recipe]
    operations: int
    leaves: frozenset[Array]

    @Lazy
    def inside(self) -> frozenset[Array]:
        """The temporaries that it computes again."""
        return frozenset(self.parts).union(*[recipe.inside for recipe in self.parts.values()])

    @Lazy
    def value(self) -> Value:
        """The element, from inputs and from `leaves`."""

        def read(access: Access) -> Value:
            recipe = None if access.flat else self.parts.get(access.array)
            return access if recipe is None else recomputed_at(recipe, access)

        return mapped(self.made, read, lambda index: index) if self.parts else self.made


def rematerialize(lowered: LoopProgram) -> LoopProgram:
    """Compute cheap values again where they are read at other places than they are made; its notes say which."""
    groups = [list(group) for _, group in groupby(lowered.statements, key=lambda s: id(s.target.array))]
    search = _Search(lowered.statements)
    statements = [s for group in groups for s in search.rewritten(group)]
    stored = search.to_store(statements)
    if stored:
        search = _Search(lowered.statements, stored)
        statements = [s for group in groups for s in search.rewritten(group)]
    return lowered.with_(body=tuple(living(statements)), notes=search.notes())


class _Search:
    """What can be computed again, what is stored, and how often each value was.

    Where it starts with what is `stored`, as far as that is known, this loses what can be computed from the rest.
    """

    def __init__(self, statements: Sequence[Statement], stored: Iterable[Array] = ()) -> None:
        self.writers: dict[Array, int] = {}
        for s in statements:
            self.writers[s.target.array] = self.writers.get(s.target.array, 0) + 1
        away = [a.array for s in statements for a in accesses(s.value) if displaced(a, s)]
        self.away = Counter(away)
        made = {s.target.array: s for s in statements if s.how == How.SET and self.writers[s.target.array] == 1}
        work: dict[Array, int] = {}
        for array, s in made.items():
            work[array] = recomputed(s.value) + sum([work.get(a.array, 0) for a in accesses(s.value)])
        for array, s in reversed(made.items()):  # what is computed again elsewhere takes what it is made of along
            if 0 < self.away[array] * work[array] <= AGAIN:
                for part in {a.array for a in accesses(s.value) if a.array in made and once(a, s)}:
                    self.away[part] += self.away[array]
        self.recipes: dict[Array, Recipe] = {}
        self.stored = {*stored}
        self.times: dict[Array, int] = {}
        self.phase: dict[Array, int] = {}
        self.summed: set[Array] = set()
        self.totals: set[Array] = set()
        self.level: dict[Array, int] = {}
        self.outer: dict[Array, Recipe] = {}
        self.brief: dict[Array, Recipe] = {}
        self.whole = {a.array for s in statements for a in accesses(s.value) if s.how != How.SET or not once(a, s)}
        self.walked = {a.array for s in statements for a in s.reads if not looked_up(a.indices)}

    def to_store(self, statements: Sequence[Statement]) -> set[Array]:
        """Find what is stored for other places and later sweeps, and what several of these are computed from."""
        stored = self.stored | {
            a.array for s in statements for a in accesses(s.value)
            if a.array.is_temporary and a.indices and once(a, s) and not displaced(a, s)
            and self.phase.get(a.array, 0) < self.phase[s.target.array]
        }
        alone = [recipe for a in stored if (recipe := self.recipes.get(a)) and not recipe.inside & stored]
        missing = [recipe.leaves - stored for recipe in alone if recipe.operations <= AGAIN]
        served = Counter(chain(*[leaves for leaves in missing if len(leaves) == 1]))
        return stored | {leaf for leaf, times in served.items() if times > 1}

    def rewritten(self, group: list[Statement]) -> list[Statement]:
        """Put recipes in the place of what one array's statements read elsewhere, or from an earlier sweep."""
        group = [self.replaced(s, lambda access, s: self.elsewhere(access, s) or self.picked(access, s)) for s in group]
        phase = 0
        for s in group:
            for access in accesses(s.value):
                away = access.array.is_temporary and displaced(access, s)
                if away:
                    self.stored.add(access.array)
                phase = max(phase, self.phase.get(access.array, 0) + away)
        level = self.level_of(group)
        group = [self.replaced(s, lambda access, s: self.crossing(access, s, level), self.brief) for s in group]
        late = any(a.array in self.summed for s in group for a in accesses(s.value))
        group = [self.replaced(s, lambda access, s: self.earlier(access, s, phase)) for s in group]
        group = [self.spread(self.replaced(s, self.compared)) for s in group] if late else group
        self.phase[group[0].target.array] = phase
        if late or any(s.how != How.SET for s in group):
            self.summed.add(group[0].target.array)
        if len(group) == 1:
            self.note(group[0])
        return group

    def replaced(
        self, statement: Statement, wanted: Callable[[Access, Statement], bool],
        recipes: Mapping[Array, Recipe] | None = None,
    ) -> Statement:
        recipes = self.recipes if recipes is None else recipes
        if not any(a.array in recipes and wanted(a, statement) for a in accesses(statement.value)):
            return statement
        if statement.routine is not None:  # it reads memory
            self.stored |= {a.array for a in accesses(statement.value)}
            return statement

        def read(access: Access) -> Value:
            recipe = recipes.get(access.array)
            if recipe is None or not wanted(access, statement):
                return access
            self.stored |= recipe.leaves
            self.times[access.array] = self.times.get(access.array, 0) + 1
            return recomputed_at(recipe, access)

        return statement.with_(value=mapped(statement.value, read, lambda index: index))

    def elsewhere(self, access: Access, statement: Statement) -> bool:
        """Whether to compute a value again that is read at other places than it is made."""
        return displaced(access, statement) and self.cheap(access.array)

    def picked(self, access: Access, statement: Statement) -> bool:
        """Whether to compute a few elements alone, of a value that is only looked up: those of the labels."""
        array, recipe = access.array, self.recipes.get(access.array)
        if recipe is None or array in self.walked or access.flat or not looked_up(access.indices):
            return False
        size = array.elements
        large = [leaf for leaf in recipe.leaves if 2 * leaf.elements > size]
        return 2 * element_count([axis.extent for axis in statement.axes]) <= size and len(large) <= 1

    def earlier(self, access: Access, statement: Statement, phase: int) -> bool:
        """Whether to compute a value again that an earlier sweep makes: of what is stored in any case."""
        return once(access, statement) and self.phase.get(access.array, 0) < phase and self.cheap(access.array)

    def level_of(self, group: list[Statement]) -> int:
        """Count the sums that must be complete, one after the other, before a value is made: those of long columns.

        Sums of short rows are taken row by row, and what they are made of is at hand.
        """
        target, level = group[0].target.array, 0
        for s in group:
            for access in accesses(s.value):
                kept = {*access.parts}
                gone = element_count([axis.extent for axis in s.axes if axis not in kept])
                total = access.array in self.totals
                level = max(level, self.level.get(access.array, 0) + (total and gone > access.array.elements))
                self.totals |= {target} if total and gone == 1 else set()
        if any(s.how != How.SET for s in group):
            self.totals.add(target)
        self.level[target] = level
        return level

    def crossing(self, access: Access, statement: Statement, level: int) -> bool:
        """Whether to compute a value again after a sum, of one array as large that is there then in any case."""
        made, recipe = self.level.get(access.array, 0), self.brief.get(access.array)
        if recipe is None or made >= level or not once(access, statement):
            return False
        return len(recipe.leaves) <= 1 and all(a.is_given or self.level.get(a, 0) < made for a in recipe.leaves)

    def compared(self, access: Access, statement: Statement) -> bool:
        """Whether to compare inputs again after a sum: bytes among numbers cost lanes more than that."""
        recipe = self.recipes.get(access.array)
        if recipe is None or recipe.leaves or access.array.dtype.kind != "b":
            return False
        return once(access, statement) and recipe.operations <= COMPARED

    def spread(self, statement: Statement) -> Statement:
        """Put outer products in the places of elementwise readers after a sum: their parts are smaller."""

        def read(access: Access) -> Value:
            recipe = None if access.array in self.whole else self.outer.get(access.array)
            return access if recipe is None else recomputed_at(recipe, access)

        if not any(access.array in self.outer for access in accesses(statement.value)):
            return statement
        return statement.with_(value=mapped(statement.value, read, lambda index: index))

    def cheap(self, array: Array) -> bool:
        """Whether it takes few operations on a few arrays that are stored in any case."""
        recipe = self.recipes[array]
        few = recipe.operations <= AGAIN and len(recipe.leaves) <= FEW_LEAVES
        return few and recipe.leaves <= self.stored and array not in self.stored

    def note(self, statement: Statement) -> None:
        """Keep the recipe of an elementwise value that one statement makes."""
        target = statement.target
        if (
            not target.array.is_temporary or self.writers[target.array] != 1 or statement.how != How.SET
            or statement.prefix or target.indices != statement.axes or not target.indices
            or any(looked_up(a.indices) for a in accesses(statement.value)) or statement.may_fail
        ):
            return
        reads, operations = accesses(statement.value), recomputed(statement.value)
        if reads and operations <= COMPARED and all(len(a.indices) < len(statement.axes) and not a.flat for a in reads):
            self.outer[target.array] = Recipe(statement.axes, statement.value, {}, operations, frozenset())
        large = dict.fromkeys([a.array for a in reads if len({*a.parts}) == len(statement.axes)])
        brief = {array: self.brief[array] for array in large if array in self.brief}
        every = operations + sum(recipe.operations for recipe in brief.values())
        if every > COMPARED:
            brief, every = {}, operations
        if large and every <= COMPARED and not any(a.flat for a in reads):
            over = {*large} - {*brief}
            over.update(*[recipe.leaves for recipe in brief.values()])
            self.brief[target.array] = Recipe(statement.axes, statement.value, brief, every, frozenset(over))
        leaves: set[Array] = set()
        parts: dict[Array, Recipe] = {}
        for access in reads if operations <= AGAIN else ():
            recipe = self.recipes.get(access.array)
            if access.flat or recipe is None or recipe.operations > AGAIN or access.array in self.stored:
                if access.array.is_temporary and access.indices:
                    leaves.add(access.array)
                continue
            operations += recipe.operations
            leaves.update(recipe.leaves)
            parts[access.array] = recipe
        self.recipes[target.array] = Recipe(statement.axes, statement.value, parts, operations, frozenset(leaves))
        known = target.array in self.stored
        self.stored.discard(target.array)
        if operations * self.away[target.array] > AGAIN or (known and not self.cheap(target.array)):
            self.stored.add(target.array)

    def notes(self) -> tuple[str, ...]:
        said = []
        for array, times in self.times.items():
            recipe = self.recipes.get(array) or self.brief[array]
            line = f" ({array.line})" if array.line is not None else ""
            places = "1 place" if times == 1 else f"{times} places"
            count = f"{recipe.operations} operation{'s' if recipe.operations != 1 else ''}"
            said.append(f"recomputed {array.name}{line} at {places}: {count} against {2 * array.dtype.itemsize} bytes")
        return tuple(said)


def once(access: Access, statement: Statement) -> bool:
    """Whether it is a read of one element for each iteration."""
    return not access.flat and len(access.indices) == len(statement.axes)


def displaced(access: Access, statement: Statement) -> bool:
    """Whether it is a read of one element for each iteration, at places computed from the axes."""
    if access.is_bare or access.flat or looked_up(access.indices):
        return False
    if all(type(i) is Axis or extent == 1 for i, extent in zip(access.indices, access.array.shape, strict=True)):
        return False
    walked = access.parts
    return len(walked) == len(set(walked)) == len(statement.axes)


def recomputed_at(recipe: Recipe, access: Access) -> Value:
    """Compute a recipe for other places."""
    by: dict[Axis, Any] = dict(zip(recipe.axes, access.indices, strict=True))
    return mapped(recipe.value, lambda a: a.at(by), lambda index: substitute(index, by))

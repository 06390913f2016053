"""The verifier of loop programs: what must hold after every pass.

- Names: what has a name in C has one of its own; every loop and every array stands in the program once.
- Loops: each axis of a statement is the variable of one loop around it, of the same extent; what is accumulated stands
  in no other loop; a loop over a tile stands inside of the loop over tiles.
- Indices: as many as the array has dimensions, each inside of its extent, and inside of what is stored of it.
- Definitions: what is read has been written before, all of it, in the same iteration of the loops around both; every
  element of an output is written.
- Parallel loops: what an iteration writes no other one touches, sums excepted where the loop names them.
- Memory: a dimension that is not stored is the variable of one loop around all uses; a slot holds what stands in it,
  slots of one time lie apart, and what shares one takes turns.

Extents may be unknown. Whether an index is inside of its extent is asked for all of them, by the ends of a linear
expression; the rest, and what that cannot say, is tried at a few small extents and at larger ones, indices that are not
linear point by point. What is neither certain nor found wrong is undecided, and counted.

A pass leaves most of a program as it is, and items are frozen. A `Section` that is the same object as after the pass
before is not looked into again, and of arrays those alone are asked about that changed sections touch, or that are
stored in another way.
"""

from __future__ import annotations

from itertools import chain, pairwise, product
from math import inf, prod
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.errors import VerifyError
from symgrad.ir.index.bounds import nonnegative
from symgrad.ir.index.extents import at
from symgrad.ir.index.notation import Axis, How, LinearIndex, Lookup, Statement, accesses, linear, parts
from symgrad.ir.index.shapes import size, symbol
from symgrad.loops.nest.outline import functions_touching
from symgrad.loops.nest.vectorize import SUMS
from symgrad.loops.program import Cond, Kind, Loop, Outlined, Piece, Place, Team, Walk, While, common, looped, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from symgrad.ir.index.notation import Access
    from symgrad.loops.program import Around, Array, Item, Items, LoopProgram, Share, Storages

    Span = tuple[tuple[int, int], ...]
    Box = tuple[tuple[int, int], ...]

POINTS = 4096
"""So many points of an index that is not linear are tried."""

BOXES = 64
"""An array that is written at more places, or of which more pieces are left to look for, is undecided."""

SMALL_STEPS = ((0, 1), (1, 1), (1, 0), (7, 0), (15, 0))
LARGE_STEPS = ((130, 37), (194, 0), (259, 64))
"""Where unknown extents are tried: how much more the first one is than it is at least, and each other than the one
before it. The first are taken that meet the program's requirements."""

TEAM = symbol("threads")


class Verifier:
    """Checks a program after each pass, and remembers what it found out for the next one.

    Attributes:
        undecided: what is neither certain nor found wrong, each with the pass after which it was first seen.
        sections: what the program consists of.
    """

    def __init__(self) -> None:
        self.undecided: dict[str, str] = {}
        self.sections: list[Section] = []
        self.facts: dict[Statement, Facts] = {}
        self.forms: dict[Any, tuple[list[Any], LinearIndex | None]] = {}
        self.certain: dict[Any, bool] = {}
        self.samples: dict[Any, list[dict[Any, int]]] = {}
        self.trials: dict[Any, _Trial] = {}
        self.made: list[Section | _Trial] = []
        self.checked: LoopProgram | None = None

    def check(self, program: LoopProgram, stage: str = "loops") -> LoopProgram:
        """Check a program and return it.

        Raises:
            VerifyError: naming the pass, the loops, the array, the index and the extent.
        """
        if program is self.checked:
            return program
        self.program, self.stage, self.checked = program, stage, None
        self._names()
        self._sections()
        key = program.inputs, program.requirements, *program.least.items()
        if key not in self.samples:
            self.samples[key] = [*samples(program)]
        teams = {name: count for section in self.sections for name, count in section.teams.items()}
        trials, self.trials = self.trials, {}
        for number, sizes in enumerate(self.samples[key]):
            here = (*sizes.items(), *teams.items(), *program.least.items())
            asks = len(sizes) > 1 and number == 0
            self.trials[here] = trials.get(here) or _Trial(self, {**sizes}, teams, asks=asks)
            self.trials[here].check()
        if not self.trials:
            self.leave("no extents were found that meet the program's requirements")
        self.checked = program
        return program

    def close(self) -> dict[str, str]:
        """Return what is undecided, and empty all else: sections and trials know each other, and are many.

        So they are freed at once, and not when Python looks for cycles.
        """
        for part in self.made:
            if isinstance(part, Section):
                del part.verifier, part.sites, part.found
            else:
                part.__dict__.clear()
        return self.undecided

    def wrong(self, what: str) -> VerifyError:
        """Return what is raised."""
        return VerifyError(f"{self.program.name}, after {self.stage}: {what}")

    def leave(self, what: str) -> None:
        """Note what stays undecided."""
        self.undecided.setdefault(what, f"{self.program.name}, after {self.stage}")

    def form(self, index: Any) -> tuple[list[Any], LinearIndex | None]:
        """Return what an index is made of, and it as a linear form where it is one."""
        found = self.forms.get(index)
        if found is None:
            found = self.forms[index] = parts(index), linear(index)
        return found

    def _names(self) -> None:
        """Check that what has a name in C has one of its own, and that no array is there twice."""
        program = self.program
        seen: dict[str, Array] = {}
        for array in dict.fromkeys([*program.inputs, *program.outputs, *program.constants]):
            if seen.setdefault(array.name, array) is not array:
                raise self.wrong(f"{seen[array.name]!r} and {array!r} have one name")
        if len(set(program.arrays)) != len(program.arrays):
            raise self.wrong("an array stands among the arrays twice")

    def _sections(self) -> None:
        """Take a program apart into sections, and look into those that were not there before."""
        program = self.program
        known, self.sections = {(section.items, section.alone): section for section in self.sections}, []
        for run in runs(program.body):
            part = run[0] if isinstance(run[0], Outlined) else None
            for items in (run,) if part is None else [(item,) for item in part.body]:
                found = known.pop((items, part is None), None) or Section(self, items, alone=part is None)
                found.place = len(self.sections)
                self.sections.append(found)
        arrays, loops = {*program.arrays, *program.outputs}, set[Loop]()
        for section in self.sections:
            for site in () if section.arrays <= arrays else section.sites:
                for access, *_ in site.facts.touched:
                    if access.array not in arrays:
                        raise self.wrong(f"{site}: {access.array!r} is none of the program's arrays")
            for loop in section.loops:
                if loop in loops:
                    raise self.wrong(f"the loop {loop.axis.name} stands in the program twice")
                loops.add(loop)
        if any(isinstance(item, Outlined) for item in program.body) or any(section.cut for section in self.sections):
            for array, parts in functions_touching(program.body).items():
                if len(parts) > 1 and not program.storage[array].is_memory:
                    raise self.wrong(f"the register {array.name} is used in several functions")


def samples(program: LoopProgram) -> Iterator[dict[Any, int]]:
    """Yield extents to try a program at: small ones, and some of more than one tile; none where all are known."""
    dims = [dim for array in program.inputs for dim in array.shape if type(dim) is not int]
    names = sorted({name for dim in dims for name in dim.free_symbols} | set(program.least), key=str)  # type: ignore[union-attr]
    least = [max(1, program.least.get(name, 0)) for name in names]
    for threads, tries in ((2, ((0, 0),)),) if not names else ((1, SMALL_STEPS), (3, LARGE_STEPS)):
        for start, step in tries:
            sizes = {name: least[k] + start + step * k for k, name in enumerate(names)}
            if all(0 <= at(r.index, sizes) < at(r.extent, sizes) for r in program.requirements):
                yield {**sizes, TEAM: threads}
                break


# -- indices at any extents


def limits(site: Site, axis: Axis) -> tuple[Any, Any]:
    """Return the first and the last place of an axis, as far as one expression says."""
    loop = site.loops.get(axis)
    if loop is None:
        return 0, axis.extent - 1
    for one, first, end in site.statement.ranges:
        if one in loop.members:
            return first, end - 1
    if loop.piece is Piece.INTERIOR:
        return loop.ends[0], loop.ends[1] - 1
    extent: Any = loop.extent
    if isinstance(extent, Team):
        extent = TEAM if extent.count is None else extent.count
    return 0, extent - 1


def certain(form: LinearIndex | None, dim: Any, site: Site, least: Mapping[Any, int]) -> bool:
    """Whether an index lies inside of an extent whatever the unknown ones are, which are no less than `least`."""
    if form is None:
        return False
    ends = [form.start, form.start]
    for part, step in form.terms:
        places = limits(site, part) if isinstance(part, Axis) else (0, part.extent - 1)
        if not (step.is_nonnegative or step.is_nonpositive if hasattr(step, "is_nonnegative") else True):
            return False
        backwards = step < 0 if type(step) is int else not step.is_nonnegative
        ends = [end + step * place for end, place in zip(ends, places[::-1] if backwards else places, strict=True)]
    shift = {name: name + count for name, count in least.items()}
    margins: list[Any] = [m if type(m) is int else m.subs(shift).expand() for m in (ends[0], dim - 1 - ends[1])]
    return all(m >= 0 if type(m) is int else nonnegative(m) for m in margins)


# -- a program as statements at their places


class Facts(NamedTuple):
    """What is so of a statement wherever it stands.

    Attributes:
        touched: what it touches, how it is written (None where it is read), and each index with its extent; what is
            read comes first.
        axes: what its indices are made of, and no routine walks.
    """

    touched: tuple[tuple[Access, How | None, tuple[tuple[Any, Any], ...]], ...]
    axes: set[Axis]


class Inside(NamedTuple):
    """What is around a statement.

    Attributes:
        around: the loops, of which `loops` has those whose variables its axes are.
        guards: the branches it stands in, and the loops with a condition: it may not run.
    """

    around: Around = ()
    loops: Mapping[Axis, Loop] = {}
    guards: tuple[tuple[Item, int], ...] = ()


class Site:
    """A statement at its place: the `number` counts those of its section."""

    __slots__ = ("around", "facts", "guards", "loops", "number", "section", "statement")

    def __init__(self, section: Section, s: Statement, inside: Inside) -> None:
        self.section, self.number, self.statement = section, len(section.sites), s
        self.around, self.loops, self.guards = inside
        self.facts = section.verifier.facts.get(s) or self._facts(section.verifier)

    def _facts(self, verifier: Verifier) -> Facts:
        """Look at a statement that was not seen before."""
        s, axes = self.statement, set()
        touched: list[tuple[Access, How | None]] = [(access, None) for access in s.reads]
        touched += [] if s.how is How.CHECK else [(s.target, s.how)]
        rows = []
        for access, how in touched:
            array = access.array
            if how and array.is_given:
                raise verifier.wrong(f"{self}: {array!r} is written, and was given")
            shape = (size(array.shape),) if access.flat else array.shape
            if len(access.indices) != len(shape):
                count = f"{len(access.indices)} indices for {len(array.shape)} dimensions"
                raise verifier.wrong(f"{self}: {shown_access(access)} has {count}")
            rows.append((access, how, tuple(zip(access.indices, shape, strict=True))))
            axes.update([part for index in access.indices for part in verifier.form(index)[0]])
        walked = s.routine.axes if s.routine is not None else ()
        found = Facts(tuple(rows), {axis for axis in axes if isinstance(axis, Axis) and axis not in walked})
        verifier.facts[s] = found
        return found

    def reach(self, depth: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the places of the first and the last statement of the loop at a depth around it, or its own."""
        ends = self.section.loops[self.around[depth]] if depth < len(self.around) else (self.number, self.number)
        return (self.section.place, ends[0]), (self.section.place, ends[1])

    def __str__(self) -> str:
        line = f", {self.statement.line}" if self.statement.line is not None else ""
        return f"in {' '.join([loop.axis.name for loop in self.around]) or 'no loop'}{line}"


class Section:
    """What stands in no loop: a loop, or statements of one running value that have none yet.

    Attributes:
        alone: it stands in no C function of its own.
        place: its number in the program.
        sites: its statements.
        loops: its loops, each with the numbers of its first and its last statement.
        turns: those that stand for loops with a condition.
        at_once: those whose iterations run at once.
        starts: of each array the loops around the statements that start it.
        shares: the sums that threads see as their own, by what they see.
        arrays: what it touches.
        teams: of threads that have copies of sums, how many, by name.
        cut: some of it becomes a C function.
        found: for each trial, what is touched.
    """

    __slots__ = (
        "alone", "arrays", "at_once", "cut", "found", "items", "loops", "place", "shares", "sites", "starts", "teams",
        "turns", "verifier",
    )

    def __init__(self, verifier: Verifier, items: Items, *, alone: bool) -> None:
        verifier.made.append(self)
        self.verifier, self.items, self.alone, self.place, self.cut = verifier, items, alone, -1, False
        self.sites: list[Site] = []
        self.found: dict[_Trial, dict[Array, list[Touch]]] = {}
        self.loops: dict[Loop, tuple[int, int]] = {}
        self.starts: dict[Array, set[Loop]] = {}
        self.turns: set[Loop] = set()
        self.shares: dict[Array, Share] = {}
        self.teams: dict[str, Any] = {}
        self._walk(looped(items) if alone else items, Inside())
        self.at_once = {loop for loop in self.loops if loop.walk in {Walk.LANES, Walk.THREADS}}
        for site in self.sites:
            self._statement(site)
        self.arrays = {touched[0].array for site in self.sites for touched in site.facts.touched}

    def held(self, array: Array) -> tuple[Array, ...]:
        """Return the sum, and what threads have of it beside, of an array that is a thread's share; else the array."""
        return self.shares[array][1:] if array in self.shares else (array,)

    def _walk(self, items: Iterable[Item], inside: Inside) -> None:
        """List the statements in order, and what is asked as if it were a check."""
        around, loops, guards = inside
        for item in items:
            if isinstance(item, Statement):
                self.sites.append(Site(self, item, inside))
                if item.how is How.SET:
                    self.starts.setdefault(item.target.array, set()).update(around)
            elif isinstance(item, Loop):
                self._loop(item, inside)
                if item.shares:
                    self.shares.update({share.seen: share for share in item.shares})
                if isinstance(item.extent, Team) and item.extent.count is not None:
                    self.teams[str(item.extent)] = item.extent.count
                first = len(self.sites)
                inner = {**loops, **dict.fromkeys(item.members, item)} if item.is_walked else loops
                self._walk(item.body, inside._replace(around=(*around, item), loops=inner))
                self.loops[item] = first, len(self.sites) - 1
            elif isinstance(item, Outlined):
                self.cut = True
                self._walk(item.body, inside)
            elif isinstance(item, Cond):
                self._walk(asked(item), inside)
                for number, block in enumerate(item.blocks):
                    self._walk(block, inside._replace(guards=(*guards, (item, number))))
            else:  # like a loop that nobody knows the extent of
                axis = Axis("while", 2)
                turn = Loop(axis, frozenset([axis]), (), Walk.SEQUENTIAL)
                self.turns.add(turn)
                first = len(self.sites)
                self._walk(asked(item), inside._replace(around=(*around, turn)))
                self._walk(item.body, inside._replace(around=(*around, turn), guards=(*guards, (item, 0))))
                self.loops[turn] = first, len(self.sites) - 1

    def _loop(self, loop: Loop, inside: Inside) -> None:
        wrong, name = self.verifier.wrong, loop.axis.name
        if loop.is_walked and not inside.loops.keys().isdisjoint(loop.members):
            raise wrong(f"the loop {name} has an axis that is the variable of a loop around it")
        if loop.window is not None and not any(outer.tile == loop.window for outer in inside.around):
            raise wrong(f"the loop {name} walks a tile of a loop that is not around it")
        if loop.team is not None and not any(outer.axis is loop.team for outer in inside.around):
            raise wrong(f"the tiles of {name} are shared out by a loop that is not around it")

    def _statement(self, site: Site) -> None:
        """Check that the loops around a statement are its axes, each once, and that its indices are made of them."""
        s, loops, wrong = site.statement, site.loops, self.verifier.wrong
        found = [loops.get(axis) for axis in s.axes]
        if None in found or len(set(found)) < len(found):
            axis = next(axis for axis in s.axes if axis not in loops or found.count(loops[axis]) > 1)
            raise wrong(f"{site}: the axis {axis.name} of {shown_access(s.target)} {s.how} has no loop of its own")
        makes = s.how is How.CALL and s.target.array not in self.starts  # a routine that makes all of it
        if s.how is not How.SET and s.how is not How.CHECK and not makes:
            begun = self.starts.get(s.target.array, ())
            for loop in site.around:
                again = loop.tile is not None or loop.walk is Walk.THREADS or loop in found or loop in self.turns
                if loop.walk in {Walk.SEQUENTIAL, Walk.ORDERED}:  # elements of what is carried
                    again = again or s.target.is_indirect or s.target.along(loop.members)
                if not again and loop not in begun:
                    raise wrong(f"{site}: {shown_access(s.target)} {s.how} once too often for each {loop.axis.name}")
        if not loops.keys() >= site.facts.axes:
            for access, _, indices in site.facts.touched:
                for part in [part for index, _ in indices for part in self.verifier.form(index)[0]]:
                    if part in site.facts.axes and part not in loops:
                        shown = shown_access(access)
                        raise wrong(f"{site}: {part.name} in {shown} is the variable of no loop around it")


def asked(item: Cond | While) -> list[Statement]:
    """Return a check of what an item asks, for what it reads."""
    return [Statement(access, How.CHECK, item.test, ()) for access in accesses(item.test)[-1:]]


# -- at some extents


class Touch(NamedTuple):
    """One access at the extents that are tried.

    Attributes:
        how: whether it starts elements (``=``), goes on with them (``+=``, ...), or reads them (None).
        array: what it is an element of; where that is a thread's share of a sum, the sum.
        terms: its indices; `plain` where all are linear, and not looked up.
    """

    site: Site
    access: Access
    how: How | None
    array: Array
    terms: tuple[TriedIndex, ...]
    plain: bool


class TriedIndex(NamedTuple):
    """An index at some extents.

    Attributes:
        start: the number in it.
        steps: how much of each loop's variable there is; None where it is looked up or not linear.
        span: the places it takes, at most.
        dense: it takes all of these.
    """

    start: int
    steps: tuple[tuple[Any, int], ...] | None
    span: Span
    dense: bool


class _Trial:
    """A program at some extents: here everything is a number. It is kept from pass to pass.

    Attributes:
        terms: indices, in the loops around them; `interned`, so that equal ones are one object.
        touches: what touches each array, in order.
        flows: what is written, and what reads it, of each array.
        vague: the arrays of which that is not known.
        before: the sections after the pass before, what touched each array there, and how they were stored.
    """

    def __init__(self, verifier: Verifier, sizes: dict[Any, int], teams: Mapping[str, Any], *, asks: bool) -> None:
        verifier.made.append(self)
        self.verifier, self.sizes, self.wrong, self.asks = verifier, sizes, verifier.wrong, asks
        self.where = ", ".join(f"{name} = {count}" for name, count in sizes.items() if name != TEAM)
        self.values: dict[Any, int] = {}
        self.spans: dict[Loop, Span] = {}
        self.terms: dict[Any, TriedIndex] = {}
        self.interned: dict[TriedIndex, TriedIndex] = {}
        self.touches: dict[Array, list[Touch]] = {}
        self.flows: dict[Array, list[tuple[Touch, Touch]]] = {}
        self.vague: set[Array] = set()
        self.before: tuple[list[Section], dict[Array, list[list[Touch]]], Storages] = [], {}, {}
        self.sizes.update({symbol(name): self.value(count) for name, count in teams.items()})

    def check(self) -> None:
        """Check what was not so after the pass before: arrays that are touched, or stored, in another way."""
        verifier, program, sections = self.verifier, self.verifier.program, self.verifier.sections
        self.storage = storage = program.storage
        (before, parts, stored), self.before = self.before, ([], {}, {})  # after what was wrong, nothing is known
        if not before:
            self.touches, self.flows = {}, {}
        for section in sections:
            if self not in section.found:
                section.found[self] = self.touched(section)
        there, was = {*sections}, {*before}
        if same_objects([one for one in sections if one in was], [one for one in before if one in there]):
            changed = [*[one for one in before if one not in there], *[one for one in sections if one not in was]]
        else:  # they stand in another order
            changed = [*before, *sections]
        asked = {array for section in changed for array in section.found[self]}
        found: dict[Array, list[list[Touch]]] = {
            output: [] for output in program.outputs if output in asked or output not in parts}
        for section in sections if asked else ():
            own = section.found[self]
            if not asked.isdisjoint(own):
                for array in own:
                    if array in asked:
                        found.setdefault(array, []).append(own[array])
        for array in asked:
            if array not in found:  # nothing touches it any more
                for known in (parts, self.touches, self.flows):
                    known.pop(array, None)
        moved = {a: own for a, own in found.items() if a not in parts or not same_objects(parts[a], own)}
        parts.update(moved)
        other = {*moved}
        if storage is not stored:
            other |= {a for a in parts if storage.get(a) is not stored.get(a) and storage[a] != stored.get(a, a.whole)}
        self.touches.update({a: [*chain(*own)] for a, own in moved.items()})
        for array in parts if other else ():
            if array in other and array in storage:
                self.stored(array, self.touches[array])
        for array in moved:
            self.running(array, self.touches[array])
        for array in moved:
            if not array.is_given and array.kind is not Kind.DONATED and array not in program.kept:
                self.defined(array, self.touches[array])
        for output in program.outputs:
            if output in moved and output not in program.kept:
                self.finished(output)
        for section in sections if other else ():
            if section.at_once and not section.found[self].keys().isdisjoint(other):
                self.parallel(section, section.at_once, other)
        if verifier.stage == "allocate" or any(s.slot is not None for s in storage.values()):
            self.memory()
        for source, target in program.donated:
            if source.kind is Kind.DONATED:
                self.given_up(source, target)
        self.before = sections, parts, storage

    def touched(self, section: Section) -> dict[Array, list[Touch]]:
        """Check the loops and the indices of statements; return what those touch that run at all, by array."""
        made: dict[Array, list[Touch]] = {}
        runs: dict[Any, bool] = {((), ()): True}
        for site in section.sites:
            s, loops, around = site.statement, site.loops, (site.around, site.statement.ranges)
            for axis in s.axes:
                extent = loops[axis].extent
                if extent is not axis.extent and self.value(extent) != self.value(axis.extent):
                    raise self.wrong(f"{site}: a loop of {extent} for the axis {axis.name} of {axis.extent}")
            if around not in runs:
                runs[around] = all(self.within(site, loop) for loop in site.around)
            for access, how, indices in site.facts.touched if runs[around] else ():
                terms: tuple[TriedIndex, ...] = ()
                for index, dim in indices:
                    term = self.index(index, site)
                    span = term.span
                    if self.asks or not span or span[0][0] < 0 or span[-1][1] >= self.value(dim):
                        self.inside(index, dim, term, access, site)
                    if how is How.CALL and any(isinstance(loop, Axis) for loop, _ in term.steps or ()):
                        # a routine gets the array, and works in all of a dimension that it walks
                        whole = term._replace(span=((0, self.value(dim) - 1),))
                        term = self.interned.setdefault(whole, whole)
                    terms = (*terms, term)
                array = section.held(access.array)[0] if section.shares else access.array
                plain = not terms or None not in [term.steps for term in terms]
                made.setdefault(array, []).append(Touch(site, access, how, array, terms, plain))
        return made

    # -- numbers

    def value(self, dim: Any) -> int:
        if type(dim) is int:
            return dim
        if isinstance(dim, Team):
            dim = TEAM if dim.count is None else dim.count
        if dim not in self.values:
            self.values[dim] = int(at(dim, self.sizes))
        return self.values[dim]

    def span(self, loop: Loop) -> Span:
        found = self.spans.get(loop)
        if found is None:
            extent = self.value(loop.extent)
            pieces = [(0, extent - 1)]
            if loop.piece is not Piece.ALL:
                low, high = self.value(loop.ends[0]), self.value(loop.ends[1])
                pieces = [(0, min(extent, low) - 1), (max(0, high), extent - 1)]
                if loop.piece is Piece.INTERIOR:
                    pieces = [(max(0, low), min(extent, high) - 1)]
                elif low > high:
                    raise self.wrong(f"the borders of {loop.axis.name} end at {low} and go on at {high}")
            found = self.spans[loop] = tuple([piece for piece in pieces if piece[0] <= piece[1]])
        return found

    def within(self, site: Site, loop: Any) -> Span:
        """Return where a loop runs for a statement, which may do something in a part of it only."""
        if not isinstance(loop, Loop):  # a routine walks the axis, or an index is looked up
            return ((0, self.value(loop.extent) - 1),)
        span = self.span(loop)
        for axis, first, end in site.statement.ranges:
            if axis in loop.members and loop.is_walked:
                low, high = self.value(first), self.value(end) - 1
                span = tuple([(max(a, low), min(b, high)) for a, b in span if max(a, low) <= min(b, high)])
        return span

    def index(self, index: Any, site: Site) -> TriedIndex:
        """Return an index at the extents that are tried; each is computed once for the same loops."""
        loops = site.loops
        if type(index) is int:
            key: Any = index
        elif index in loops:
            key = loops[index], site.statement.ranges
        else:
            key = index, site.statement.ranges, *[loops.get(part) for part in self.verifier.form(index)[0]]
        found = self.terms.get(key)
        if found is None:
            made = self.computed(index, site)
            found = self.terms[key] = self.interned.setdefault(made, made)
        return found

    def computed(self, index: Any, site: Site) -> TriedIndex:
        """Return an index that was not seen in these loops."""
        if type(index) is int:
            return TriedIndex(index, (), ((index, index),), dense=True)
        found, form = self.verifier.form(index)
        if form is None:
            return self.tried(index, found, site)
        start = self.value(form.start)
        steps: dict[Any, int] = {}
        walks: list[tuple[int, int, int]] = []
        plain = dense = not any(isinstance(part, Lookup) for part in found)
        for part, each in form.terms:
            step, loop = self.value(each), site.loops.get(part, part)
            span = self.within(site, loop)
            if len(form.terms) == 1 and step == 1 and plain:
                return TriedIndex(start, ((loop, 1),), tuple([(a + start, b + start) for a, b in span]), dense=True)
            steps[loop] = steps.get(loop, 0) + step
            walks.append((step, span[0][0], span[-1][1]))
            dense = dense and len(span) == 1
        reach = 0
        for step, long in sorted([(abs(step), abs(step) * (b - a)) for step, a, b in walks]):
            dense = dense and (step <= reach + 1 or long == 0)  # 4*i + j: no longer than what the shorter ones reach
            reach += long
        return TriedIndex(start, tuple(steps.items()) if plain else None, (swept_bounds(start, walks),), dense)

    def tried(self, index: Any, found: list[Any], site: Site) -> TriedIndex:
        """Try an index that is not linear, point by point."""
        walks = [] if any(isinstance(part, Lookup) for part in found) else [
            [k for low, high in self.within(site, site.loops.get(part, part)) for k in range(low, high + 1)]
            for part in found
        ]
        if not walks or prod(map(len, walks)) > POINTS:
            self.verifier.leave(f"{site}: where {index} goes")
            return TriedIndex(0, None, (), dense=False)
        symbols = [part.symbol for part in found]
        places = {int(at(index, self.sizes | dict(zip(symbols, point, strict=True)))) for point in product(*walks)}
        low, high = min(places), max(places)
        return TriedIndex(0, None, ((low, high),), dense=len(places) == high - low + 1)

    # -- indices

    def inside(self, index: Any, dim: Any, term: TriedIndex, access: Access, site: Site) -> None:
        """Check that an index stays inside of an extent, at these extents and, where some are unknown, at any."""
        span = term.span
        if span and (span[0][0] < 0 or span[-1][1] >= self.value(dim)):
            place = span[0][0] if span[0][0] < 0 else span[-1][1]
            where = f" where {self.where}" if self.where else ""
            shown = f"{shown_index(index)} in {shown_access(access)}"
            raise self.wrong(f"{site}: {shown} is {place}, outside of an extent of {dim}{where}")
        if not self.asks or (type(index) is int and type(dim) is int):  # nothing is unknown
            return
        loop = site.loops.get(index)
        if loop is not None and loop.extent == dim:
            return
        verifier, least = self.verifier, self.verifier.program.least
        ends = tuple([limits(site, axis) for axis in verifier.form(index)[0] if isinstance(axis, Axis)])
        key = (index, dim, ends, *least.items())
        if key not in verifier.certain:
            verifier.certain[key] = certain(verifier.form(index)[1], dim, site, least)
        if not verifier.certain[key]:
            verifier.leave(f"{shown_index(index)} < {dim}")

    def stored(self, array: Array, own: list[Touch]) -> None:
        """Check that what is stored is enough: the tile that all walk, the element of one loop around all."""
        shape, kept, *_ = self.storage[array]
        around = {loop for touch in own for loop in touch.site.around}
        cut = any(loop.piece is not Piece.ALL for loop in around)  # borders and interior are pieces of one loop
        for d, dim in enumerate(array.shape):
            tile = kept.get(d)
            if tile is None and (d in kept or dim == 1):
                continue
            loops: set[Any] = set()
            loop: Any
            for touch in own:
                steps = None if touch.access.flat or touch.terms[d].start else touch.terms[d].steps
                loop, step = steps[0] if steps and len(steps) == 1 else (None, 0)
                plain = step == 1 and isinstance(loop, Loop)
                one = loop.axis if plain and cut else loop
                loops.add((one if tile is None else loop.window) if plain else None)
                if len(loops) > 1 or loops & {None} or (tile is not None and tile not in loops):
                    raise self.wrong(
                        f"{touch.site}: {shown_access(touch.access)} is not the same place in dimension {d}, of which "
                        f"{'one element' if tile is None else 'a tile'} is stored"
                    )
            if tile is not None:
                here = self.value(shape[[*kept].index(d)])
                if here < min(tile.rows, self.value(dim)):
                    raise self.wrong(
                        f"{here} are stored of dimension {d} of {array.name}, and its tiles have {tile.rows}"
                    )

    # -- definitions

    def defined(self, array: Array, own: list[Touch]) -> None:
        """Check that what is read has been written; equal places in one iteration are found at once."""
        self.flows[array] = flows = []
        self.vague.discard(array)
        starts: list[Touch] = []
        known: dict[Any, Touch] = {}
        single: dict[tuple[int, ...], Touch] = {}  # of elements that are named by numbers
        for touch in own:
            s = touch.site.statement
            if s.how is How.CALL and touch.array is s.target.array:  # a routine works in what it makes, as a whole
                starts += [touch] if touch.how else []
                continue
            ranged = {axis for axis, _, _ in s.ranges}
            conditions = tuple([
                (one, self.within(touch.site, one)) for one in touch.site.around if not ranged.isdisjoint(one.members)
            ]) if ranged else ()
            unlike = None if touch.plain else touch
            place = touch.access.flat, *map(id, touch.terms), conditions, unlike  # what tells one place from another
            if touch.how is How.SET:
                starts.append(touch)
                known[place] = touch
                if not (ranged or touch.access.flat or any(term.steps != () for term in touch.terms)):
                    single[tuple([term.start for term in touch.terms])] = touch
                continue
            start = known.get(place)
            if start is None or not runs_before(start, touch):
                self.covered(touch, starts, single)
            else:
                flows.append((start, touch))

    def covered(self, touch: Touch, starts: list[Touch], single: Mapping[tuple[int, ...], Touch]) -> None:
        """Check that what an access reads has been written, by one or by several."""
        terms, access = touch.terms, touch.access
        same = all(start.access.flat == access.flat for start in starts)  # else a place has other indices
        shape = (size(access.array.shape),) if access.flat and same else access.array.shape
        wanted: list[Span] = [((0, self.value(dim) - 1),) for dim in shape]
        if ((0, -1),) in wanted:
            return
        if not starts:
            shown = shown_access(access)
            raise self.wrong(f"{touch.site}: {shown} is read, and nothing was written to {access.array.name}")
        if same or not access.flat:
            wanted = [term.span or span for term, span in zip(terms, wanted, strict=True)]
        if single and prod([last + 1 - first for span in wanted for first, last in span]) <= POINTS:
            ranges = [[k for first, last in span for k in range(first, last + 1)] for span in wanted]
            written = [single.get(place) for place in product(*ranges)]
            if all(start is not None and runs_before(start, touch) for start in written):
                self.flows[touch.array] += [(start, touch) for start in written if start is not None]
                return
        left, vague = self.left(wanted, touch, starts)
        plain = touch.plain and (same or not access.flat)
        if left and plain and vague:
            early = self.early(touch, starts)
            left, vague = early or left, not early
        if left and plain and not vague:
            shown = shown_access(access)
            raise self.wrong(f"{touch.site}: {shown} is read, and was not written at {shown_box(left[0])}")
        if left:
            self.vague.add(touch.array)
            self.verifier.leave(f"{touch.site}: whether all of {shown_access(access)} is written before it is read")

    def finished(self, output: Array) -> None:
        """Check that every element of an output is written."""
        starts = [touch for touch in self.touches.get(output, ()) if touch.how in {How.SET, How.CALL}]
        flat = any(touch.access.flat for touch in starts) and all(touch.access.flat for touch in starts)
        extents = [self.value(dim) for dim in ((size(output.shape),) if flat else output.shape)]
        left, vague = self.left([((0, n - 1),) for n in extents], None, starts) if 0 not in extents else ([], False)
        if left and not vague:
            raise self.wrong(f"the output {output.name} is not written at {shown_box(left[0])} of {output!r}")
        if left:
            self.verifier.leave(f"whether all of {output.name} is written")

    def left(self, wanted: list[Span], touch: Touch | None, starts: list[Touch]) -> tuple[list[Box], bool]:
        """Return the boxes of some places that nobody has written, and whether somebody may have written them."""
        boxes: list[Box] = list(product(*wanted))
        vague = len(starts) > BOXES
        for start in starts[-BOXES:]:
            found = self.written(start, wanted, touch)
            if found is None:
                vague = True
                continue
            before = boxes
            for cut in found:
                boxes = [piece for box in boxes for piece in cut_out(box, cut)]
            if touch is not None and boxes != before:
                self.flows[touch.array].append((start, touch))
            if not boxes:
                break
            if len(boxes) > BOXES:
                return boxes, True
        return boxes, vague

    def written(self, start: Touch, wanted: list[Span], touch: Touch | None) -> list[Box] | None:
        """Return the boxes that a statement has written when another one runs, None where that is not known.

        An index that is fixed in an iteration of the loops around both counts where it is the same for both.
        """
        mine = start.terms
        if not runs_before(start, touch):
            return None
        if start.access.flat and len(wanted) != len(mine):
            whole = mine[0].dense and mine[0].span == ((0, self.value(size(start.access.array.shape)) - 1),)
            return [tuple([(span[0][0], span[-1][1]) for span in wanted])] if whole else None
        around = () if touch is None else common([start.site.around, touch.site.around])
        tiles = [loop.tile for loop in around if loop.tile is not None]
        theirs = () if touch is None or touch.access.flat != start.access.flat else touch.terms
        spans: list[Span] = []
        same: set[Any] = set()
        for d, term in enumerate(mine):
            if not term.dense:
                return None
            fixed = fixed_in(term, around, tiles)
            if not fixed:
                spans.append(term.span)
                continue
            if touch is None or not theirs or fixed != fixed_in(theirs[d], around, tiles):
                return None
            if len(fixed) == len(term.steps or ()) == len(theirs[d].steps or ()) and term.start == theirs[d].start:
                spans.append(term.span)
            else:
                low, high = self.rest(term, around, tiles, start.site)
                first, last = self.rest(theirs[d], around, tiles, touch.site)
                if first < low or high < last:
                    return None
                spans.append(((wanted[d][0][0], wanted[d][-1][1]),))
            same.update([loop for loop, _ in fixed])
        for loop in around:  # conditions on a loop that no index shows
            here = self.within(start.site, loop)
            if loop not in same and here not in (self.span(loop), self.within(touch.site, loop)):  # type: ignore[union-attr]
                return None
        return list(product(*spans))

    def rest(self, term: TriedIndex, around: Around, tiles: list[Any], site: Site) -> tuple[int, int]:
        """Return the places an index takes beside what is fixed in an iteration."""
        spans = [
            (step, self.within(site, loop)) for loop, step in term.steps or ()
            if isinstance(loop, Axis) or not (loop in around or loop.window in tiles)
        ]
        return swept_bounds(term.start, [(step, span[0][0], span[-1][1]) for step, span in spans])

    def early(self, touch: Touch, starts: list[Touch]) -> list[Box]:
        """Return what is missing when a statement runs for the first time: no earlier iteration has written then."""
        shared = {loop for start in starts for loop in start.site.around}
        first = {loop: self.first(touch.site, loop) for loop in touch.site.around if loop in shared}
        boxes: list[Box] = [tuple([self.at_first(term, touch.site, first, exact=True) for term in touch.terms])]
        for start in starts:
            if start.access.flat != touch.access.flat or len(boxes) > BOXES or not start.plain:
                return []
            until: dict[Loop, int] = {}
            for loop in common([start.site.around, touch.site.around]):
                until[loop] = first[loop]
                begin = self.first(start.site, loop)
                if begin > first[loop] if loop.down else begin < first[loop]:  # in an earlier iteration all has run
                    break
            cut = tuple([self.at_first(term, start.site, until, exact=False) for term in start.terms])
            boxes = [piece for box in boxes for piece in cut_out(box, cut)]
            if not boxes:
                break
        return boxes

    def first(self, site: Site, loop: Loop) -> int:
        """Return the first iteration of a loop in which a statement runs."""
        span = self.within(site, loop)
        return span[-1][1] if loop.down else span[0][0]

    def at_first(self, term: TriedIndex, site: Site, until: dict[Loop, int], *, exact: bool) -> tuple[int, int]:
        """Return where an index goes until loops are at an iteration, or (`exact`) in it; of tiles, in the first."""
        walks = []
        tiles = [loop.tile for loop in until if loop.tile is not None]
        for loop, step in term.steps or ():
            span = self.within(site, loop)
            begin, end = span[0][0], span[-1][1]
            if loop in until and loop.is_walked:
                here = until[loop]
                begin = here if exact or loop.down else begin
                end = here if exact or not loop.down else end
            elif not isinstance(loop, Axis) and loop.window in tiles:
                rows = loop.window.rows
                end = min(end, begin - begin % rows + rows - 1)
            walks.append((step, begin, end))
        return swept_bounds(term.start, walks)

    def running(self, array: Array, own: list[Touch]) -> None:
        """Check that running values are read in the loops they run in: behind these, an array has its last one.

        Likewise, that what is written at places that are looked up is written in order: the last one of a place stays.
        """
        for touch in own:
            for loop in touch.site.around:
                if loop.piece is not Piece.ALL and touch.how and touch.site.statement.runs_in_order(loop.members):
                    shown = shown_access(touch.access)
                    raise self.wrong(f"{touch.site}: {shown} is not written in the order of {loop.axis.name}")
        read = [touch for touch in own if array in touch.site.statement.prefix and not touch.how]
        goes_on = [one for one in own if one.how and (one.how is not How.SET or array in one.site.statement.prefix)]
        runs = [{loop for loop in one.site.around if not one.access.along(loop.members)} for one in goes_on]
        for touch in read:
            if runs and all(loops and loops.isdisjoint(touch.site.around) for loops in runs):  # one iteration has none
                shown = shown_access(touch.access)
                raise self.wrong(f"{touch.site}: the running value {shown} is read outside of the loop it runs in")

    # -- parallel loops

    def parallel(self, section: Section, at_once: set[Loop], arrays: set[Array]) -> None:
        """Check the loops of a section whose iterations run at once, for some arrays."""
        for array, own in section.found[self].items():
            if array in arrays and any(touch.how for touch in own):
                found: dict[Loop, list[Touch]] = {}
                for touch in own:
                    for loop in touch.site.around:
                        if loop in at_once:
                            found.setdefault(loop, []).append(touch)
                for loop, inside in found.items():
                    if any(touch.how for touch in inside):
                        if loop.walk is Walk.THREADS:
                            self.threads(loop, array, inside)
                        else:
                            self.lanes(loop, {array: how for how, array in loop.sums}, array, inside)

    def lanes(self, loop: Loop, sums: Mapping[Array, str], array: Array, own: list[Touch]) -> None:
        """Check that no iteration of lanes touches what another one writes, but for sums that the loop names."""
        here = f"lanes of {loop.axis.name}"
        if array in sums:
            if any(touch.how is None or SUMS.get(touch.how) != sums[array] for touch in own):
                here = f"{own[0].site}: {here}"
                raise self.wrong(f"{here} take {array.name} apart as a {sums[array]}, and it is used otherwise")
        elif any(
            all(walk_apart(part, (loop,), self.value, lanes=True) for part in parts)
            for parts in ([own], rows_apart(own, loop))
        ):
            return  # no two lanes meet
        elif self.storage[array].is_memory or own[0].how != How.SET or own[0].site.statement.ranges:
            raise self.wrong(f"{own[0].site}: {here} share {shown_access(own[0].access)}, which each of them writes")
        elif len(own) != len(self.touches[array]):
            here = f"{own[0].site}: {here}"
            raise self.wrong(f"{here} have {array.name} for themselves, and it is touched outside of them")

    def threads(self, loop: Loop, array: Array, own: list[Touch]) -> None:
        """Check that no thread touches what another one writes but its own buffers, shares of sums and runs of rows."""
        section, around = own[0].site.section, own[0].site.around
        if section.shares and all(touch.access.array in section.shares for touch in own):
            return
        writes = [touch for touch in own if touch.how]
        shared = [touch for touch in own if touch.how or any(not elsewhere(touch, write) for write in writes)]
        tiles = [one for one in around if one.team is loop.axis]
        made = [one.tile for one in tiles]
        runs = [*tiles, *[one for one in section.loops if one.window in made]]
        if walk_apart(shared, runs, self.value) or walk_apart(shared, [loop], self.value):
            return
        inside = len(own) == len(self.touches[array]) and array.is_temporary
        storage = self.storage[array]
        if not inside or not (storage.slot is None or storage.is_private):
            shown = shown_access(writes[0].access)
            raise self.wrong(f"{writes[0].site}: threads share {shown}, which each of them writes")

    # -- memory

    def memory(self) -> None:
        """Check that slots hold what stands in them, lie apart, and are shared by turns."""
        storage = self.storage
        held: dict[Any, dict[Array, Touch]] = {}
        for found in self.touches.values():
            for touch in found:
                for array in touch.site.section.held(touch.access.array):
                    slot = storage[array].slot
                    if slot is not None:
                        held.setdefault(slot, {}).setdefault(array, touch)
                    elif array.is_temporary and storage[array].is_memory:
                        raise self.wrong(f"{touch.site}: {array!r} has no memory")
        kept: dict[Array, list[tuple[int, int]]] = {}
        for start, touch in [flow for flows in self.flows.values() for flow in flows]:
            both = start.site.section.held(start.access.array)  # of a share its own copies, and the sum, or one of them
            for array in touch.site.section.held(touch.access.array):  # in all of a loop that one of the two stands in
                if array in both and storage[array].slot is not None:
                    depth = len(common([start.site.around, touch.site.around]))
                    kept.setdefault(array, []).extend((start.site.reach(depth)[0], touch.site.reach(depth)[1]))
        for slot, arrays in held.items():
            for array in arrays:
                elements = prod([self.value(dim) for dim in storage[array].shape])
                if elements * array.dtype.itemsize > self.value(slot.size):
                    raise self.wrong(f"{array!r} stands in a slot of {slot.size} bytes")
            self.turns(arrays, kept)
        self.layout({next(iter(arrays)): (slot, touch) for slot, arrays in held.items() for touch in arrays.values()})

    def given_up(self, source: Array, target: Array) -> None:
        """Check that no element of a donated input is read, and nothing fails, after its place was written."""
        writes = [touch for touch in self.touches.get(target, ()) if touch.how]
        for write in writes:
            last = write.site.reach(0)[0]
            for section in self.verifier.sections:
                for site in section.sites:
                    if site.statement.may_fail and site.reach(0)[1] >= last:
                        raise self.wrong(f"{site}: it may fail after {target.name} is written where {source.name} was")
            for read in self.touches.get(source, ()):
                if not self._reads_first(read, write):
                    shown = shown_access(write.access)
                    raise self.wrong(
                        f"{read.site}: {shown_access(read.access)} may be read after {shown} is written there"
                    )

    def _reads_first(self, read: Touch, write: Touch) -> bool:
        if elsewhere(read, write):
            return True
        if (read.site.section.place, read.site.number) > (write.site.section.place, write.site.number):
            return False
        for loop in common([read.site.around, write.site.around]):
            tiles = [one for one in read.site.around if one.team is loop.axis or one is loop]
            made = [one.tile for one in tiles if one.tile is not None]
            runs = [*tiles, *[one for one in read.site.section.loops if one.window in made]]
            if not walk_apart([read, write], runs, self.value):
                return False
        return True

    def turns(self, arrays: Iterable[Array], kept: Mapping[Array, list[tuple[int, int]]]) -> None:
        """Check that of the arrays in one slot none is alive while another one is; a write alone is a life as well."""
        lives = []
        for array in arrays:
            if array in self.vague:
                return
            writes = [touch.site for touch in self.touches.get(array, ()) if touch.how]
            ends = [*kept.get(array, ()), *[site.reach(len(site.around))[0] for site in writes]]
            if ends:  # one of no elements is never written
                lives.append((min(ends), max(ends), array))
        lives.sort(key=lambda life: life[0])
        for (_, last, one), (first, _, other) in pairwise(lives):
            if first <= last:
                here = self.verifier.sections[first[0]].sites[first[1]]
                raise self.wrong(f"{one.name} and {other.name} have one slot, and both are alive {here}")

    def layout(self, held: dict[Array, tuple[Any, Touch]]) -> None:
        """Check that the slots of the workspace lie apart, and in it; loops over threads take turns with theirs."""
        whole = self.verifier.program.workspace
        total = self.value(whole)
        pools: dict[Any, list[tuple[int, int, Array]]] = {None: []}
        for array, (slot, touch) in held.items():
            if slot.place is Place.WORKSPACE:
                own = touch.site.around[0] if slot.private else None
                for thread in range(self.sizes[TEAM] if slot.private else 1):
                    begin = self.value(slot.offset) + thread * self.value(slot.step)
                    pools.setdefault(own, []).append((begin, begin + self.value(slot.size), array))
        common = pools.pop(None)
        for pool in pools.values() or [[]]:
            slots = sorted([*common, *pool], key=lambda slot: slot[:2])
            for begin, end, array in slots:
                if begin < 0 or end > total:
                    raise self.wrong(f"{array.name} ends at byte {end} of a workspace of {whole}")
            for (_, end, one), (begin, last, other) in pairwise(slots):
                if begin < end and begin < last:
                    raise self.wrong(f"the slots of {one.name} and {other.name} overlap")


def rows_apart(own: list[Touch], loop: Loop) -> list[list[Touch]]:
    """Part accesses where an index that the loop does not walk differs by a number: other rows never meet."""
    if not same_rank(own):
        return [own]
    fixed = []
    for d, term in enumerate(own[0].terms):
        if term.steps is not None and all(one is not loop for one, _ in term.steps):
            fixed += [d] * all(touch.terms[d].steps == term.steps for touch in own)
    found: dict[Any, list[Touch]] = {}
    for touch in own:
        found.setdefault(tuple([touch.terms[d].start for d in fixed]), []).append(touch)
    return [*found.values()]


def walk_apart(own: list[Touch], walked: Sequence[Loop], value: Callable[[Any], int], *, lanes: bool = False) -> bool:
    """Whether all accesses of an array walk along one dimension with a loop: then no two iterations meet.

    Of lanes, some may begin where others never come.
    """

    def row(term: TriedIndex) -> Any:
        steps = [step for one, step in term.steps or () if one in walked]
        others = [each for each in term.steps or () if each[0] not in walked]
        beside = sum([abs(step) * (value(one.extent) - 1) for one, step in others])  # as in rows of a flat array
        flat = own[0].access.flat and beside < sum(steps)
        return [*steps, *([] if flat and not lanes else others)] if steps and (lanes or flat or not others) else None

    for d, term in enumerate(own[0].terms) if same_rank(own) else ():
        found = row(term)
        if found and all(touch.terms[d] is term or row(touch.terms[d]) == found for touch in own):
            starts = sorted({touch.terms[d].start for touch in own})
            reach = sum([abs(s) * value(one.extent) for one, s in term.steps or () if one in walked]) if lanes else inf
            if all(b - a >= reach for a, b in pairwise(starts)):
                return True
    return False


def same_objects(own: list[Any], others: list[Any]) -> bool:
    """Whether two lists are of the same objects."""
    return len(own) == len(others) and all(map(is_, own, others))


def elsewhere(touch: Touch, other: Touch) -> bool:
    """Whether two accesses are of other elements, wherever their loops are."""
    terms = zip(touch.terms, other.terms, strict=True) if same_rank([touch, other]) else ()
    return any(a.span[-1][1] < b.span[0][0] or b.span[-1][1] < a.span[0][0] for a, b in terms if a.span and b.span)


def same_rank(own: list[Touch]) -> bool:
    """Whether accesses have the same number of indices."""
    flat, rank = own[0].access.flat, len(own[0].terms)
    return all(touch.access.flat == flat and len(touch.terms) == rank for touch in own)


def swept_bounds(start: int, walks: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the ends of a number and multiples of what goes from one place to another, each with its factor."""
    low = high = start
    for step, first, last in walks:
        low, high = low + min(step * first, step * last), high + max(step * first, step * last)
    return low, high


def runs_before(start: Touch, touch: Touch | None) -> bool:
    """Whether a statement has run wherever another one does: it stands in no branch that the other is not in."""
    guards = () if touch is None else touch.site.guards
    return start.site.guards == guards[: len(start.site.guards)]


def fixed_in(term: TriedIndex, around: Around, tiles: list[Any]) -> list[tuple[Any, int]]:
    """Return what of an index is fixed in an iteration of loops: their variables, and the tiles that others walk."""
    steps = [each for each in term.steps or () if not isinstance(each[0], Axis)]
    named = [(loop if loop in around else loop.window, step) for loop, step in steps]
    return [(key, step) for key, step in named if key is not None and (key in around or key in tiles)]


def cut_out(box: Box, cut: Box) -> Iterator[Box]:
    """Cut a box out of another one; yield what is left, in boxes.

    >>> list(cut_out(((0, 9), (0, 1)), ((3, 4), (0, 0))))
    [((0, 2), (0, 1)), ((5, 9), (0, 1)), ((3, 4), (1, 1))]
    """
    if any(b < c or d < a for (a, b), (c, d) in zip(box, cut, strict=True)):
        yield box
        return
    rest = list(box)
    for d, ((a, b), (first, last)) in enumerate(zip(box, cut, strict=True)):
        if a < first:
            yield (*rest[:d], (a, first - 1), *rest[d + 1 :])
        if last < b:
            yield (*rest[:d], (last + 1, b), *rest[d + 1 :])
        rest[d] = (max(a, first), min(b, last))


# -- words


def shown_access(access: Access) -> str:
    """Print an access."""
    return f"{access.array.name}[{', '.join(map(shown_index, access.indices))}]"


def shown_index(index: Any) -> str:
    """Print an index."""
    if isinstance(index, Lookup):
        return shown_access(index.access)
    return index.name if isinstance(index, Axis) else str(index)


def shown_box(box: Box) -> str:
    """Print a box."""
    return f"[{', '.join([str(low) if low == high else f'{low}..{high}' for low, high in box])}]"

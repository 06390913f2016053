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

A pass leaves most of a program as it is: sections that are the same objects as after the pass before are not looked
into again, nor the arrays that are touched there alone.
"""

from __future__ import annotations

from itertools import pairwise, product
from math import prod
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.errors import VerifyError
from symgrad.ir.bounds import nonnegative
from symgrad.ir.extents import at
from symgrad.ir.notation import Axis, How, Linear, Lookup, Statement, accesses, linear, parts
from symgrad.ir.shapes import size, symbol
from symgrad.loops.nest.vectorize import SUMS
from symgrad.loops.program import Cond, Loop, Outlined, Piece, Place, Team, Walk, While, common, looped, runs, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from symgrad.ir.notation import Access
    from symgrad.loops.program import Array, Item, LoopProgram, Storages

    Inside = tuple[Outlined | None, tuple[tuple[Item, int], ...]]
    Span = tuple[tuple[int, int], ...]
    Box = tuple[tuple[int, int], ...]
    Around = tuple[Loop, ...]

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
    """Checks a program after each pass, and remembers what it found out about indices.

    Attributes:
        undecided: what is neither certain nor found wrong, each with the pass after which it was first seen.
        decided: how many indices of programs with unknown extents are certain to be inside.
    """

    def __init__(self) -> None:
        self.undecided: dict[str, str] = {}
        self.decided = 0
        self.forms: dict[Any, Linear | None] = {}
        self.certain: dict[Any, bool] = {}
        self.before: _Tree | None = None
        self.settled: dict[Any, tuple[dict[Array, list[Touch]], Storages]] = {}

    def check(self, program: LoopProgram, stage: str = "loops") -> LoopProgram:
        """Check a program and return it.

        Raises:
            VerifyError: naming the pass, the loops, the array, the index and the extent.
        """
        if self.before is not None and program is self.before.program:  # what changes nothing needs no second look
            return program
        tree = _Tree(program, stage, self.before)
        tried = list(samples(program))
        for sizes in tried:
            _Trial(self, tree, sizes, first=sizes is tried[0]).check()
        if not tried:
            self.leave(tree, "no extents were found that meet the program's requirements")
        self.before = tree
        return program

    def leave(self, tree: _Tree, what: str) -> None:
        """Note what stays undecided."""
        self.undecided.setdefault(what, f"{tree.program.name}, after {tree.stage}")

    def form(self, index: Any) -> Linear | None:
        """Return an index as a linear form, None where it is none."""
        if index not in self.forms:
            self.forms[index] = linear(index)
        return self.forms[index]

    def asks(self, index: Any, dim: Any, site: Site, least: Mapping[Any, int]) -> bool:
        """Whether an index is certain to be inside of an extent; each question is answered once."""
        if type(index) is int:
            return certain(Linear(index, ()), dim, site, least)
        if isinstance(index, Axis) and index in site.loops and site.loops[index].extent == dim:
            return True
        ends = tuple([limits(site, axis) for axis in parts(index) if isinstance(axis, Axis)])
        key = (index, dim, ends, tuple(least.items()))
        if key not in self.certain:
            self.certain[key] = certain(self.form(index), dim, site, least)
        return self.certain[key]


def asked(item: Cond | While) -> list[Statement]:
    """Return a check of what an item asks, for what it reads."""
    return [Statement(access, How.CHECK, item.test, ()) for access in accesses(item.test)[-1:]]


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


def certain(form: Linear | None, dim: Any, site: Site, least: Mapping[Any, int]) -> bool:
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


# -- a program as statements at their places


class Touch:
    """One access.

    Attributes:
        how: whether it starts elements (``=``), goes on with them (``+=``, ...), or reads them (None).
        array: what it is an element of; where that is a thread's share of a sum, the sum.
        terms: its indices at the extents that are tried.
    """

    __slots__ = ("access", "array", "how", "site", "terms")

    def __init__(self, site: Site, access: Access, how: How | None, array: Array) -> None:
        self.site, self.access, self.how, self.array = site, access, how, array
        self.terms: tuple[Term, ...] = ()


class Site:
    """A statement at its place.

    Attributes:
        number: that of the statement, in the program's order.
        around: the loops around it, of which `loops` has those whose variables its axes are.
        part: what becomes a C function of its own around it.
        guards: the branches it stands in, and the loops with a condition: it may not run.
        touches: what it touches; what is read comes first.
    """

    __slots__ = ("around", "guards", "loops", "number", "part", "statement", "touches")

    def __init__(self, tree: _Tree, s: Statement, around: Around, loops: dict[Axis, Loop], inside: Inside) -> None:
        self.number, self.statement, self.around, self.loops = len(tree.sites), s, around, loops
        self.part, self.guards = inside
        accesses: list[Any] = [(access, None) for access in s.reads]
        accesses += [] if s.how == How.CHECK else [(s.target, s.how)]
        self.touches = tuple([Touch(self, access, how, tree.held(access.array)[0]) for access, how in accesses])

    def __str__(self) -> str:
        line = f", {self.statement.line}" if self.statement.line is not None else ""
        return f"in {' '.join([loop.axis.name for loop in self.around]) or 'no loop'}{line}"


class Section:
    """What stands in no loop: a loop, or statements of one running value that have none yet.

    Attributes:
        part: the C function that it stands in, where that is one of its own.
        sites: its statements at their places.
        ends: the first and the last statement of each loop in it, counted from its first one.
        first: the number of its first statement in the program.
        arrays: what it touches.
        found: for extents that were tried: what is touched, with the indices.
    """

    __slots__ = ("arrays", "ends", "first", "found", "items", "part", "sites")

    def __init__(
        self, items: tuple[Item, ...], part: Outlined | None, sites: list[Site], ends: dict[Loop, tuple[int, int]],
    ) -> None:
        self.items, self.part, self.sites, self.ends, self.first = items, part, sites, ends, -1
        self.arrays = frozenset([touch.access.array for site in sites for touch in site.touches])
        self.found: dict[Any, list[tuple[Touch, tuple[Term, ...]]]] = {}

    def move(self, part: Outlined | None) -> None:
        """Let it stand in another C function, but for what is outlined inside of it."""
        if part is not self.part:
            for site in self.sites:
                site.part = part if site.part is self.part else site.part
            self.part = part


class _Tree:
    """A program after a pass, and what is checked without knowing extents."""

    def __init__(self, program: LoopProgram, stage: str, before: _Tree | None) -> None:
        self.program, self.stage = program, stage
        seen: dict[str, Array] = {}
        for array in dict.fromkeys([*program.inputs, *program.outputs, *program.constants]):  # they have names in C
            if seen.setdefault(array.name, array) is not array:
                raise self.wrong(f"{seen[array.name]!r} and {array!r} have one name")
        if len(set(program.arrays)) != len(program.arrays):
            raise self.wrong("an array stands among the arrays twice")
        self.arrays = {*program.arrays, *program.outputs}
        self.sites: list[Site] = []
        self.ends: dict[Loop, tuple[int, int]] = {}
        self.asked: set[Loop] = set() if before is None else before.asked
        shares = [item.shares for item, _ in walk(program.body) if isinstance(item, Loop)]
        self.shares = {share.seen: share for own in shares for share in own}
        same = before is not None and before.shares == self.shares
        known = {section.items: section for section in before.sections} if before is not None and same else {}
        self.sections: list[Section] = []
        for run in runs(program.body):
            part = run[0] if isinstance(run[0], Outlined) else None
            for items in [run] if part is None else [(item,) for item in part.body]:
                section = known.pop(items) if items in known else self.section(items, part)
                section.move(part)
                self.sections.append(section)
        self.sites, self.ends = [], {}
        for section in self.sections:
            self.put(section)

    def section(self, items: tuple[Item, ...], part: Outlined | None) -> Section:
        """Look into a section that is not known from the pass before."""
        self.sites, self.ends = [], {}
        self.walk(looped(items) if part is None else items, (), {}, (part, ()))
        for site in self.sites:
            self.statement(site)
        return Section(items, part, self.sites, self.ends)

    def put(self, section: Section) -> None:
        """Number the statements of a section, known or not, in the program."""
        first = len(self.sites)
        self.sites += section.sites
        if section.first != first:
            section.first = first
            for number, site in enumerate(section.sites, first):
                site.number = number
        for loop, (a, b) in section.ends.items():
            if loop in self.ends:
                raise self.wrong(f"the loop {loop.axis.name} stands in the program twice")
            self.ends[loop] = first + a, first + b
        if not section.arrays <= self.arrays:
            for site in section.sites:
                self.statement(site)

    def wrong(self, what: str) -> VerifyError:
        return VerifyError(f"{self.program.name}, after {self.stage}: {what}")

    def held(self, array: Array) -> tuple[Array, ...]:
        """Return the sum, and what threads have of it beside, of an array that is a thread's share; else the array."""
        return self.shares[array][1:] if array in self.shares else (array,)

    def walk(self, items: Iterable[Item], around: Around, loops: dict[Axis, Loop], inside: Inside) -> None:
        """List the statements in order, and what is asked as if it were a check."""
        part, guards = inside
        for item in items:
            if isinstance(item, Statement):
                self.sites.append(Site(self, item, around, loops, inside))
            elif isinstance(item, Loop):
                self.loop(item, around, loops)
                first = len(self.sites)
                inner = loops | dict.fromkeys(item.members, item) if item.is_walked else loops
                self.walk(item.body, (*around, item), inner, inside)
                self.ends[item] = first, len(self.sites) - 1
            elif isinstance(item, Outlined):
                self.walk(item.body, around, loops, (item, guards))
            elif isinstance(item, Cond):
                self.walk(asked(item), around, loops, inside)
                for number, block in enumerate(item.blocks):
                    self.walk(block, around, loops, (part, (*guards, (item, number))))
            else:  # like a loop that nobody knows the extent of
                axis = Axis("while", 2)
                turns = Loop(axis, frozenset([axis]), (), Walk.SEQUENTIAL)
                self.asked.add(turns)
                first = len(self.sites)
                self.walk(asked(item), (*around, turns), loops, inside)
                self.walk(item.body, (*around, turns), loops, (part, (*guards, (item, 0))))
                self.ends[turns] = first, len(self.sites) - 1

    def reach(self, site: Site, depth: int) -> tuple[int, int]:
        """Return the first and last statement of the loop at a depth around a statement, or it alone."""
        return self.ends[site.around[depth]] if depth < len(site.around) else (site.number, site.number)

    def loop(self, loop: Loop, around: Around, loops: dict[Axis, Loop]) -> None:
        if loop in self.ends or loop in around:
            raise self.wrong(f"the loop {loop.axis.name} stands in the program twice")
        if loop.is_walked and not loops.keys().isdisjoint(loop.members):
            raise self.wrong(f"the loop {loop.axis.name} has an axis that is the variable of a loop around it")
        if loop.window is not None and not any(outer.tile == loop.window for outer in around):
            raise self.wrong(f"the loop {loop.axis.name} walks a tile of a loop that is not around it")
        if loop.team is not None and not any(outer.axis is loop.team for outer in around):
            raise self.wrong(f"the tiles of {loop.axis.name} are shared out by a loop that is not around it")

    def statement(self, site: Site) -> None:
        """Check that the loops around a statement are its axes, each once, and that its indices are made of them."""
        s = site.statement
        found = [site.loops.get(axis) for axis in s.axes]
        if None in found or len(set(found)) < len(found):
            axis = next(axis for axis in s.axes if axis not in site.loops or found.count(site.loops[axis]) > 1)
            raise self.wrong(f"{site}: the axis {axis.name} of {shown(s.target)} {s.how} has no loop of its own")
        if s.how not in {How.SET, How.CHECK}:
            for loop in site.around:
                again = loop.tile is not None or loop.walk is Walk.THREADS or loop in found or loop in self.asked
                if not again and not self.begins(s.target.array, loop):
                    raise self.wrong(f"{site}: {shown(s.target)} {s.how} once too often for each {loop.axis.name}")
        walked = s.routine.axes if s.routine is not None else ()
        for touch in site.touches:
            access, array, how = touch.access, touch.access.array, touch.how
            if array not in self.arrays:
                raise self.wrong(f"{site}: {array!r} is none of the program's arrays")
            if how and array.is_given:
                raise self.wrong(f"{site}: {array!r} is written, and was given")
            if len(access.indices) != (1 if access.flat else len(array.shape)):
                count = f"{len(access.indices)} indices for {len(array.shape)} dimensions"
                raise self.wrong(f"{site}: {shown(access)} has {count}")
            for index in access.indices:
                for part in () if type(index) is int else parts(index):
                    if isinstance(part, Axis) and part not in site.loops and part not in walked:
                        raise self.wrong(f"{site}: {part.name} in {shown(access)} is the variable of no loop around it")


    def begins(self, array: Array, loop: Loop) -> bool:
        """Whether each iteration of a loop starts an array anew."""
        starts = [site for site in self.sites if site.statement.target.array is array and site.statement.how == "="]
        return any(loop in site.around for site in starts)


# -- at some extents


class Term(NamedTuple):
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
    """A program at some extents: here everything is a number."""

    def __init__(self, verifier: Verifier, tree: _Tree, sizes: dict[Any, int], *, first: bool) -> None:
        self.verifier, self.tree, self.sizes, self.program, self.wrong = verifier, tree, sizes, tree.program, tree.wrong
        self.storage = self.program.storage
        self.values: dict[Any, int] = {}
        self.spans: dict[Loop, Span] = {}
        self.touches: dict[Array, list[Touch]] = {}
        self.flows: dict[Array, set[tuple[int, int]]] = {}
        self.vague: set[Array] = set()
        self.where = ", ".join(f"{name} = {count}" for name, count in sizes.items() if name != TEAM)
        self.asks = first and self.where != ""
        self.fits: set[tuple[Loop, Axis]] = set()
        for team in self.program.teams:
            sizes[symbol(str(team))] = self.value(team)
        self.key = (self.asks, tuple(sizes.items()), tuple(self.program.least.items()))

    def check(self) -> None:
        for section in self.tree.sections:
            if self.key not in section.found:
                section.found[self.key] = list(self.touched(section.sites))
            for touch, terms in section.found[self.key]:
                touch.terms = terms
                self.touches.setdefault(touch.array, []).append(touch)
        slots = any(self.storage[array].slot is not None for array in self.touches)
        settled, lived = self.verifier.settled.get(self.key, ({}, {}))
        settled = {} if slots else settled  # what turns are taken by is asked of all
        asked = {
            array: found for array, found in self.touches.items()
            if len(found) != len(before := settled.get(array, ())) or not all(map(is_, found, before))
        }
        for array, found in self.touches.items():
            if array in self.storage and (array in asked or self.storage[array] is not lived.get(array)):
                self.stored(array, found)
            if not self.storage[array].is_memory and len({touch.site.part for touch in found}) > 1:
                raise self.wrong(f"{found[-1].site}: the register {array.name} is used in several functions")
        for array, found in asked.items():
            if not array.is_given:
                self.defined(found)
        self.verifier.settled[self.key] = self.touches, self.storage
        for output in self.program.outputs:
            self.finished(output)
        self.parallel()
        if slots:
            self.memory()

    def touched(self, sites: list[Site]) -> Iterator[tuple[Touch, tuple[Term, ...]]]:
        """Check the loops and the indices of statements; yield what those touch that run at all."""
        for site in sites:
            for axis in site.statement.axes:
                pair = site.loops[axis], axis
                if pair not in self.fits and self.value(pair[0].extent) != self.value(axis.extent):
                    raise self.wrong(f"{site}: a loop of {pair[0].extent} for the axis {axis.name} of {axis.extent}")
                self.fits.add(pair)
            if all(self.within(site, loop) for loop in site.around):
                for touch in site.touches:
                    touch.terms = tuple([self.index(i, site) for i in touch.access.indices])
                    self.inside(touch)
                    if touch.how == How.CALL:
                        touch.terms = tuple(map(self.whole, touch.terms, touch.access.array.shape))
                    yield touch, touch.terms

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
        if loop not in self.spans:
            extent = self.value(loop.extent)
            pieces = [(0, extent - 1)]
            if loop.piece is not Piece.ALL:
                low, high = self.value(loop.ends[0]), self.value(loop.ends[1])
                pieces = [(0, min(extent, low) - 1), (max(0, high), extent - 1)]
                if loop.piece is Piece.INTERIOR:
                    pieces = [(max(0, low), min(extent, high) - 1)]
                elif low > high:
                    raise self.wrong(f"the borders of {loop.axis.name} end at {low} and go on at {high}")
            self.spans[loop] = tuple([piece for piece in pieces if piece[0] <= piece[1]])
        return self.spans[loop]

    def within(self, site: Site, loop: Any) -> Span:
        """Return where a loop runs for a statement, which may do something in a part of it only."""
        if isinstance(loop, Axis):  # a routine walks it
            return ((0, self.value(loop.extent) - 1),)
        span = self.span(loop)
        for axis, first, end in site.statement.ranges:
            if axis in loop.members and loop.is_walked:
                low, high = self.value(first), self.value(end) - 1
                span = tuple([(max(a, low), min(b, high)) for a, b in span if max(a, low) <= min(b, high)])
        return span

    def index(self, index: Any, site: Site) -> Term:
        if type(index) is int:
            return Term(index, (), ((index, index),), dense=True)
        if isinstance(index, Axis):
            walk = site.loops.get(index, index)
            return Term(0, ((walk, 1),), self.within(site, walk), dense=True)
        form = self.verifier.form(index)
        if form is None:
            return self.tried(index, site)
        start = low = high = self.value(form.start)
        steps: dict[Any, int] = {}
        spans: list[tuple[int, int]] = []
        plain = True
        for part, each in form.terms:
            step = self.value(each)
            loop: Any = part if isinstance(part, Lookup) else site.loops.get(part, part)
            span = ((0, self.value(part.extent) - 1),) if isinstance(part, Lookup) else self.within(site, loop)
            plain = plain and not isinstance(part, Lookup)
            steps[loop] = steps.get(loop, 0) + step
            if len(form.terms) == 1 and step == 1 and plain:
                return Term(start, ((loop, 1),), tuple([(a + start, b + start) for a, b in span]), dense=True)
            ends = sorted((step * span[0][0], step * span[-1][1]))
            low, high = low + ends[0], high + ends[1]
            spans.append((abs(step), ends[1] - ends[0]))
            plain = plain and len(span) == 1
        reach, dense = 0, plain
        for step, long in sorted(spans):  # 4*i + j: each step is no longer than what the shorter ones reach
            dense = dense and (step <= reach + 1 or long == 0)
            reach += long
        looked_up = any(isinstance(loop, Lookup) for loop in steps)
        return Term(start, None if looked_up else tuple(steps.items()), ((low, high),), dense)

    def whole(self, term: Term, dim: Any) -> Term:
        """Return an index of what a routine makes: it gets the array, and works in all of a dimension that it walks."""
        walked = any(isinstance(loop, Axis) for loop, _ in term.steps or ())
        return term._replace(span=((0, self.value(dim) - 1),)) if walked else term

    def tried(self, index: Any, site: Site) -> Term:
        """Try an index that is not linear, point by point."""
        found = parts(index)
        walks = [] if any(isinstance(part, Lookup) for part in found) else [
            [k for low, high in self.within(site, site.loops.get(part, part)) for k in range(low, high + 1)]
            for part in found
        ]
        if not walks or prod(map(len, walks)) > POINTS:
            self.verifier.leave(self.tree, f"{site}: where {index} goes")
            return Term(0, None, (), dense=False)
        symbols = [part.symbol for part in found]
        places = {int(at(index, self.sizes | dict(zip(symbols, point, strict=True)))) for point in product(*walks)}
        low, high = min(places), max(places)
        return Term(0, None, ((low, high),), dense=len(places) == high - low + 1)

    # -- indices

    def inside(self, touch: Touch) -> None:
        """Check that an access stays inside of its array."""
        access, site = touch.access, touch.site
        shape = (size(access.array.shape),) if access.flat else access.array.shape
        for index, dim, term in zip(access.indices, shape, touch.terms, strict=True):
            if term.span and (term.span[0][0] < 0 or term.span[-1][1] >= self.value(dim)):
                place = term.span[0][0] if term.span[0][0] < 0 else term.span[-1][1]
                where = f" where {self.where}" if self.where else ""
                raise self.wrong(
                    f"{site}: {shown_index(index)} in {shown(access)} is {place}, outside of an extent of {dim}{where}"
                )
            if self.asks and not (type(index) is int and type(dim) is int):
                if self.verifier.asks(index, dim, site, self.program.least):
                    self.verifier.decided += 1
                else:
                    self.verifier.leave(self.tree, f"{shown_index(index)} < {dim}")

    def stored(self, array: Array, found: list[Touch]) -> None:
        """Check that what is stored is enough: the tile that all walk, the element of one loop around all."""
        shape, kept, *_ = self.storage[array]
        around = {loop for touch in found for loop in touch.site.around}
        cut = any(loop.piece is not Piece.ALL for loop in around)  # borders and interior are pieces of one loop
        for d, dim in enumerate(array.shape):
            tile = kept.get(d)
            if tile is None and (d in kept or dim == 1):
                continue
            loops: set[Any] = set()
            for touch in found:
                term = None if touch.access.flat else touch.terms[d]
                alone = term is not None and term.start == 0 and term.steps is not None and len(term.steps) == 1
                loop: Any
                loop, step = term.steps[0] if alone else (None, 0)  # type: ignore[union-attr,index]  # alone: a term
                plain = step == 1 and isinstance(loop, Loop)
                one = loop.axis if plain and cut else loop
                loops.add((one if tile is None else loop.window) if plain else None)
                if len(loops) > 1 or loops & {None} or (tile is not None and tile not in loops):
                    raise self.wrong(
                        f"{touch.site}: {shown(touch.access)} is not the same place in dimension {d}, of which "
                        f"{'one element' if tile is None else 'a tile'} is stored"
                    )
            if tile is not None:
                here = self.value(shape[[*kept].index(d)])
                if here < min(tile.rows, self.value(dim)):
                    raise self.wrong(
                        f"{here} are stored of dimension {d} of {array.name}, and its tiles have {tile.rows}"
                    )

    # -- definitions

    def defined(self, found: list[Touch]) -> None:
        """Check that what is read has been written; equal places in one iteration are found at once."""
        starts: list[Touch] = []
        known: dict[Any, Touch] = {}
        for touch in found:
            place = self.place(touch)
            s = touch.site.statement
            if s.how == How.CALL and touch.array is s.target.array:  # a routine works in what it makes, as a whole
                starts += [touch] if touch.how else []
            elif touch.how != How.SET:
                start = known.get(place)
                if start is None or not runs_before(start, touch):
                    self.covered(touch, starts)
                else:
                    self.flow(start, touch)
            else:
                starts.append(touch)
                known[place] = touch

    def place(self, touch: Touch) -> Any:
        """Return what tells one place from another."""
        s = touch.site.statement
        conditions = tuple([
            (loop, self.within(touch.site, loop)) for loop in touch.site.around
            if not loop.members.isdisjoint([axis for axis, _, _ in s.ranges])
        ]) if s.ranges else ()
        terms = touch.terms
        return touch.access.flat, terms, conditions, touch if any(term.steps is None for term in terms) else None

    def covered(self, touch: Touch, starts: list[Touch]) -> None:
        """Check that what an access reads has been written, by one or by several."""
        terms, access = touch.terms, touch.access
        if any(self.value(dim) == 0 for dim in access.array.shape):
            return
        if not starts:
            raise self.wrong(f"{touch.site}: {shown(access)} is read, and nothing was written to {access.array.name}")
        plain = not access.flat and all(term.steps is not None for term in terms)
        wanted: list[Span] = [((0, self.value(dim) - 1),) for dim in access.array.shape]
        if not access.flat:
            wanted = [term.span or span for term, span in zip(terms, wanted, strict=True)]
        left, vague = self.left(wanted, touch, starts)
        if left and plain and vague:
            left, vague = self.early(touch, starts) or left, not self.early(touch, starts)
        if left and plain and not vague:
            raise self.wrong(f"{touch.site}: {shown(access)} is read, and was not written at {places(left[0])}")
        if left:
            self.vague.add(access.array)
            self.verifier.leave(self.tree, f"{touch.site}: whether all of {shown(access)} is written before it is read")

    def finished(self, output: Array) -> None:
        """Check that every element of an output is written."""
        extents = [self.value(dim) for dim in output.shape]
        starts = [touch for touch in self.touches.get(output, ()) if touch.how in {How.SET, How.CALL}]
        left, vague = self.left([((0, n - 1),) for n in extents], None, starts) if 0 not in extents else ([], False)
        if left and not vague:
            raise self.wrong(f"the output {output.name} is not written at {places(left[0])} of {output!r}")
        if left:
            self.verifier.leave(self.tree, f"whether all of {output.name} is written")

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
                boxes = [piece for box in boxes for piece in without(box, cut)]
            if touch is not None and boxes != before:
                self.flow(start, touch)
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
        if start.access.flat:
            whole = mine[0].dense and mine[0].span == ((0, self.value(size(start.access.array.shape)) - 1),)
            return [tuple([(span[0][0], span[-1][1]) for span in wanted])] if whole else None
        around = () if touch is None else common([start.site.around, touch.site.around])
        tiles = [loop.tile for loop in around if loop.tile is not None]
        theirs = () if touch is None or touch.access.flat else touch.terms
        spans: list[Span] = []
        same: set[Any] = set()
        for d, term in enumerate(mine):
            if not term.dense:
                return None
            fixed = moving(term, around, tiles)
            if not fixed:
                spans.append(term.span)
                continue
            if not theirs or fixed != moving(theirs[d], around, tiles):
                return None
            if len(fixed) == len(term.steps or ()) == len(theirs[d].steps or ()) and term.start == theirs[d].start:
                spans.append(term.span)
            else:
                rest = [self.rest(each, around, tiles, by.site) for each, by in ((term, start), (theirs[d], touch))]  # type: ignore[union-attr]
                if rest[1][0] < rest[0][0] or rest[0][1] < rest[1][1]:
                    return None
                spans.append(((wanted[d][0][0], wanted[d][-1][1]),))
            same.update([loop for loop, _ in fixed])
        for loop in around:  # conditions on a loop that no index shows
            here = self.within(start.site, loop)
            if loop not in same and here not in (self.span(loop), self.within(touch.site, loop)):  # type: ignore[union-attr]
                return None
        return list(product(*spans))

    def rest(self, term: Term, around: Around, tiles: list[Any], site: Site) -> tuple[int, int]:
        """Return the places an index takes beside what is fixed in an iteration."""
        low = high = term.start
        for loop, step in term.steps or ():
            if isinstance(loop, Axis) or not (loop in around or loop.window in tiles):
                span = self.within(site, loop)
                ends = sorted((step * span[0][0], step * span[-1][1]))
                low, high = low + ends[0], high + ends[1]
        return low, high

    def early(self, touch: Touch, starts: list[Touch]) -> list[Box]:
        """Return what is missing when a statement runs for the first time: no earlier iteration has written then."""
        shared = {loop for start in starts for loop in start.site.around}
        first = {loop: self.within(touch.site, loop)[0][0] for loop in touch.site.around if loop in shared}
        boxes: list[Box] = [tuple([self.at_first(term, touch.site, first, exact=True) for term in touch.terms])]
        for start in starts:
            if start.access.flat or len(boxes) > BOXES or any(term.steps is None for term in start.terms):
                return []
            until: dict[Loop, int] = {}
            for loop in common([start.site.around, touch.site.around]):
                until[loop] = first[loop]
                if self.within(start.site, loop)[0][0] < first[loop]:  # inside of an earlier iteration all has run
                    break
            cut = tuple([self.at_first(term, start.site, until, exact=False) for term in start.terms])
            boxes = [piece for box in boxes for piece in without(box, cut)]
        return boxes

    def at_first(self, term: Term, site: Site, until: dict[Loop, int], *, exact: bool) -> tuple[int, int]:
        """Return where an index goes until loops are at an iteration, or (`exact`) in it; of tiles, in the first."""
        low = high = term.start
        tiles = [loop.tile for loop in until if loop.tile is not None]
        for loop, step in term.steps or ():
            span = self.within(site, loop)
            begin, end = span[0][0], span[-1][1]
            if loop in until and loop.is_walked:
                begin, end = until[loop] if exact else begin, until[loop]
            elif not isinstance(loop, Axis) and loop.window in tiles:
                rows = loop.window.rows
                end = min(end, begin - begin % rows + rows - 1)
            ends = sorted((step * begin, step * end))
            low, high = low + ends[0], high + ends[1]
        return low, high

    # -- parallel loops

    def parallel(self) -> None:
        """Check the loops whose iterations run at once."""
        found: dict[Loop, dict[Array, list[Touch]]] = {}
        for array, own in self.touches.items():
            for touch in own:
                for loop in touch.site.around:
                    if loop.walk is Walk.LANES or loop.walk is Walk.THREADS:
                        found.setdefault(loop, {}).setdefault(array, []).append(touch)
        for loop, arrays in found.items():
            for array, own in arrays.items():
                if any(touch.how for touch in own):
                    (self.threads if loop.walk is Walk.THREADS else self.lanes)(loop, array, own)

    def lanes(self, loop: Loop, array: Array, own: list[Touch]) -> None:
        """Check that no iteration of lanes touches what another one writes, but for sums that the loop names."""
        sums = {array: how for how, array in loop.sums}
        if array not in sums and all(self.apart(part, (loop,), lanes=True) for part in self.rows(own, loop)):
            return
        here = f"{own[0].site}: lanes of {loop.axis.name}"
        if array in sums:
            if any(touch.how is None or SUMS.get(touch.how) != sums[array] for touch in own):
                raise self.wrong(f"{here} take {array.name} apart as a {sums[array]}, and it is used otherwise")
        elif self.storage[array].is_memory or own[0].how != How.SET or own[0].site.statement.ranges:
            raise self.wrong(f"{here} share {shown(own[0].access)}, which each of them writes")
        elif len(own) != len(self.touches[array]):
            raise self.wrong(f"{here} have {array.name} for themselves, and it is touched outside of them")

    def threads(self, loop: Loop, array: Array, own: list[Touch]) -> None:
        """Check that no thread touches what another one writes but its own buffers, shares of sums and runs of rows."""
        if all(touch.access.array in self.tree.shares for touch in own):
            return
        tiles = [one for one in own[0].site.around if one.team is loop.axis]
        made = {one.tile for one in tiles}
        runs = {one for touch in own for one in touch.site.around if one in tiles or one.window in made}
        if self.apart(own, (loop,)) or self.apart(own, (*runs,)):
            return
        inside = len(own) == len(self.touches[array]) and array.is_temporary
        storage = self.storage[array]
        if not inside or not (storage.slot is None or storage.is_private):
            written = next(touch for touch in own if touch.how)
            raise self.wrong(f"{written.site}: threads share {shown(written.access)}, which each of them writes")

    def rows(self, own: list[Touch], loop: Loop) -> list[list[Touch]]:
        """Part accesses where an index that the loop does not walk differs by a number: other rows never meet."""
        if len({(touch.access.flat, len(touch.terms)) for touch in own}) > 1:
            return [own]
        fixed = []
        for d in range(len(own[0].terms)):
            steps = {touch.terms[d].steps for touch in own}
            if len(steps) == 1 and None not in steps and all(one is not loop for one, _ in own[0].terms[d].steps or ()):
                fixed.append(d)
        found: dict[Any, list[Touch]] = {}
        for touch in own:
            found.setdefault(tuple([touch.terms[d].start for d in fixed]), []).append(touch)
        return [*found.values()]

    def apart(self, own: list[Touch], walked: Around, *, lanes: bool = False) -> bool:
        """Whether all accesses of an array walk along one dimension with a loop: then no two iterations meet."""
        ranks = {(touch.access.flat, len(touch.access.indices)) for touch in own}
        for d in range(max(rank for _, rank in ranks) if len(ranks) == 1 else 0):
            found = set()
            for touch in own:
                term = touch.terms[d]
                steps = [step for one, step in term.steps or () if one in walked]
                others = tuple([each for each in term.steps or () if each[0] not in walked])
                found.add((*steps, term.start, others if lanes else ()) if steps and (lanes or not others) else None)
            if len(found) == 1 and None not in found:
                return True
        return False

    # -- memory

    def flow(self, start: Touch, touch: Touch) -> None:
        """Note from which statement to which a value is kept: all of a loop that only one of the two stands in."""
        if self.tree.stage == "allocate":
            depth = len(common([start.site.around, touch.site.around]))
            flow = self.tree.reach(start.site, depth)[0], self.tree.reach(touch.site, depth)[1]
            for array in self.tree.held(touch.access.array):
                self.flows.setdefault(array, set()).add(flow)

    def memory(self) -> None:
        """Check that slots hold what stands in them, lie apart, and are shared by turns."""
        held: dict[Any, dict[Array, Touch]] = {}
        for found in self.touches.values():
            for touch in found:
                for array in self.tree.held(touch.access.array):
                    slot = self.storage[array].slot
                    if slot is not None:
                        held.setdefault(slot, {}).setdefault(array, touch)
                    elif array.is_temporary and self.storage[array].is_memory:
                        raise self.wrong(f"{touch.site}: {array!r} has no memory")
        for slot, arrays in held.items():
            for array in arrays:
                elements = prod([self.value(dim) for dim in self.storage[array].shape])
                if elements * array.dtype.itemsize > self.value(slot.size):
                    raise self.wrong(f"{array!r} stands in a slot of {slot.size} bytes")
            self.turns(list(arrays))
        self.layout({next(iter(arrays)): (slot, touch) for slot, arrays in held.items() for touch in arrays.values()})

    def turns(self, arrays: list[Array]) -> None:
        """Check that of the arrays in one slot none is alive while another one is; a write alone is a life as well."""
        lives = []
        for array in arrays:
            if array in self.vague:
                return
            ends = [end for flow in self.flows.get(array, ()) for end in flow]
            ends += [touch.site.number for touch in self.touches.get(array, ()) if touch.how]
            lives.append((min(ends), max(ends), array))
        lives.sort(key=lambda life: life[0])
        for (_, last, one), (first, _, other) in pairwise(lives):
            if first <= last:
                here = self.tree.sites[first]
                raise self.wrong(f"{one.name} and {other.name} have one slot, and both are alive {here}")

    def layout(self, held: dict[Array, tuple[Any, Touch]]) -> None:
        """Check that the slots of the workspace lie apart, and in it; loops over threads take turns with theirs."""
        total = self.value(self.program.workspace)
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
                    raise self.wrong(f"{array.name} ends at byte {end} of a workspace of {self.program.workspace}")
            for (_, end, one), (begin, last, other) in pairwise(slots):
                if begin < end and begin < last:
                    raise self.wrong(f"the slots of {one.name} and {other.name} overlap")


def runs_before(start: Touch, touch: Touch | None) -> bool:
    """Whether a statement has run wherever another one does: it stands in no branch that the other is not in."""
    guards = () if touch is None else touch.site.guards
    return start.site.guards == guards[: len(start.site.guards)]


def moving(term: Term, around: Around, tiles: list[Any]) -> list[tuple[Any, int]]:
    """Return what of an index is fixed in an iteration of loops: their variables, and the tiles that others walk."""
    steps = [each for each in term.steps or () if not isinstance(each[0], Axis)]
    named = [(loop if loop in around else loop.window, step) for loop, step in steps]
    return [(key, step) for key, step in named if key is not None and (key in around or key in tiles)]


def without(box: Box, cut: Box) -> Iterator[Box]:
    """Cut a box out of another one; yield what is left, in boxes.

    >>> list(without(((0, 9), (0, 1)), ((3, 4), (0, 0))))
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


def shown(access: Access) -> str:
    """Print an access."""
    return f"{access.array.name}[{', '.join(map(shown_index, access.indices))}]"


def shown_index(index: Any) -> str:
    """Print an index."""
    return index.name if isinstance(index, Axis) else shown(index.access) if isinstance(index, Lookup) else str(index)


def places(box: Box) -> str:
    """Print a box."""
    return f"[{', '.join([str(low) if low == high else f'{low}..{high}' for low, high in box])}]"

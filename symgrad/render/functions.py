"""The C functions of a program as views: the entry, the parts cut out of it, and what stands in their bodies."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain, count, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.ir.index.notation import (
    SURE,
    Access,
    Apply,
    Axis,
    How,
    IndexValue,
    Lookup,
    Number,
    Role,
    Statement,
    accesses,
    parts,
    substitute,
    varies,
)
from symgrad.ir.index.shapes import bare, simplified, size, upper
from symgrad.ir.names import comment
from symgrad.loops.cost import is_narrow
from symgrad.loops.machine import LINE, WAKES
from symgrad.loops.program import (
    COUNT,
    Cond,
    Kind,
    Loop,
    Outlined,
    Piece,
    Place,
    Walk,
    While,
    accesses_in,
    paths,
    touched,
    walk,
)
from symgrad.ops.declare.forms import ANSWERS
from symgrad.ops.declare.spelling import BEYOND, FLAG, NOT_A_NUMBER, SET, UNLESS, ctype, pattern, stored, suffix, uses
from symgrad.ops.declare.traits import chooses
from symgrad.render.names import Names, Scope
from symgrad.render.printer import (
    ATOMS,
    OPERATORS,
    PRODUCTS,
    UNARIES,
    Level,
    Naming,
    Printed,
    c_literal,
    c_number,
    in_c,
    index,
    offset,
    printed,
)
from symgrad.render.source import PARAMETERS
from symgrad.render.views import (
    ArrayView,
    CallView,
    CheckView,
    CondView,
    FunctionView,
    LetView,
    LookupView,
    LoopView,
    NoteView,
    StoreView,
    ThreadsView,
    TilesView,
    View,
    WhileView,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from symgrad.errors import Line
    from symgrad.ir.index.notation import Value
    from symgrad.loops.program import Array, Items, LoopProgram, Nest, Slot, Storage
    from symgrad.options import Target
    from symgrad.render.views import ItemView

    Loads = dict[Array | None, dict[str, str]]  # names of looked-up integers, until their array is written again

WIDE = 72
"""An expression so long gets a name of its own."""

WORTH = 12
"""So many characters shorter a place in the workspace must be to be counted from another one."""

LETTERS = "ijklmpqrsuvw"
"""Names of loop variables."""

FEW_COLUMNS = "sg_product_narrow", "sg_product_rows", "sg_product_coming"
"""Products with a few columns: of rows side by side, of rows that are looked up, and where the next ones are known."""

FUNCTIONS = {
    "sg_blas": (), "sg_product": (), **dict.fromkeys(FEW_COLUMNS, ()), "sg_gemm": ("sg_product",),
    "sg_product_part": ("sg_product",), "sg_solve_strip": ("sg_product",),
    "sg_solve": ("sg_product", "sg_solve_strip"), "sg_cholesky": ("sg_product", "sg_solve_strip"),
    "sg_cholesky_pullback": ("sg_product", "sg_solve_strip"),
    "sg_cholesky_pushforward": ("sg_product", "sg_solve_strip"), "sg_symmetric_product": ("sg_product",),
    "sg_lu": ("sg_product", "sg_solve_strip", "sg_solve"),
    "sg_lu_solve": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu"),
    "sg_pivots": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu"),
    "sg_argsort": (), "sg_searchsorted": (),
    "sg_rows": (), "sg_turns": ("sg_rows",), "sg_orthonormal": ("sg_rows",), "sg_eigh": ("sg_rows", "sg_turns"),
    "sg_svd": ("sg_rows", "sg_turns"), "sg_divided": ("sg_product", "sg_rows", "sg_turns"),
    "sg_eigh_divided": ("sg_product", "sg_rows", "sg_turns", "sg_divided", "sg_eigh"),
    "sg_svd_divided": ("sg_product", "sg_rows", "sg_turns", "sg_divided", "sg_svd"),
    "sg_cofactors": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu", "sg_lu_solve"),
}
"""The functions of whole matrices, in the order in which they stand in C, each with those that it calls."""

ACCUMULATIONS = {
    How.MAXIMUM: np.maximum, How.MINIMUM: np.minimum, How.OR: np.logical_or, How.AND: np.logical_and,
    How.MULTIPLY: np.multiply, How.ADD: np.add,
}


AWAKE = "sg_is_awake"
"""Whether threads are awake as a call begins (1), or may even look for work (2)."""

SIZE = re.compile(r"(?<!\w)\(\$(\d+)\)|\$(\d+)")
"""What stands for a size until its function is whole, with the parentheses that it needs unless it has a name."""


class Functions:
    """What printing one program has made so far.

    Attributes:
        declared: the parameters of the entry, as type and name.
        parts: the parts, each after those that it calls.
        helpers, used: the helper functions and functions of math.h that are called.
    """

    def __init__(
        self, entry: str, loops: LoopProgram, names: dict[Array, str], arguments: list[tuple[str, str]], target: Target,
    ) -> None:
        """Name what stands on the stack and in the workspace, a slot for all arrays that hold it, as its first line.

        Of many arrays their addresses are one parameter, of which each function takes those that it uses.
        """
        self.entry, self.arguments, self.target = entry, arguments, target
        self.extents = {*bare([array.shape for array in loops.inputs])}
        self.taken = {name for _, name in arguments} | {self.entry} | {*names.values()} | foreign(loops)
        self.sizes: dict[Any, Printed | None] = {}  # what stands for them, if they may have names
        self.printed: list[str] = []
        self.teams = {*map(str, loops.teams)}
        self.of_teams: set[int] = set()  # those that stand after the teams, of which they are made
        self.storage = loops.storage
        self.stored = {array: slot for array in loops.temporaries if (slot := loops.storage[array].slot) is not None}
        self.called = Names(loops, self.taken)
        self.taken |= {*self.called.whole.values()}
        self.names, scope = dict(names), Scope(self.taken)
        slots: dict[Slot, list[Array]] = {}
        for array, slot in self.stored.items():
            slots.setdefault(slot, []).append(array)
        for arrays in slots.values():
            self.names.update(dict.fromkeys(arrays, self.called.chosen(scope, arrays, bare="w")))
        self.shares = {share.seen: share for loop in loops.loops for share in loop.shares}
        for array, share in self.shares.items():
            start = f"{self.names[share.sum]}_share"
            others = {*self.taken, *self.names.values()}
            self.names[array] = next(n for n in (start, *[f"{start}{k}" for k in range(2, 1000)]) if n not in others)
        many = next((k for k, (kind, _) in enumerate(arguments) if "*" not in kind), 0)
        self.gathered = arguments[:many] if many > PARAMETERS and not target.package else []
        self.gather = next(n for n in (f"arrays{'_' * k}" for k in count()) if n not in self.taken)
        self.taken |= {self.gather} if self.gathered else set()
        self.declared = [*[("void *const *", self.gather)] * bool(self.gathered), *arguments[len(self.gathered) :]]
        self.given = [*self.declared, *[("const int32_t ", name) for name in (*map(str, loops.teams), AWAKE)]]
        self.parts: list[FunctionView] = []
        self.helpers: set[tuple[str, str, str]] = set()
        self.used: set[str] = set()

    @property
    def memory(self) -> dict[Any, str]:
        """What each slot of memory is called."""
        return {slot: self.names[array] for array, slot in self.stored.items()}

    def whole(self, loops: LoopProgram) -> FunctionView:
        """Print the entry, and on the way the parts that it calls."""
        block = FunctionBody(loops.body, self)
        counts = [(team, f"(int32_t){index(team.count, block.name, UNARIES)}") for team in loops.teams]
        first = tuple([LetView("const int32_t", str(team), text) for team, text in counts])
        view = self.sized(replace(self.function(self.entry, loops.body, block), first=first))
        said, pointers = self.used_by(view)
        if AWAKE in said:
            self.helpers.add(("sg_awake", "double", ""))
            view = replace(view, first=(*view.first, LetView("const int32_t", AWAKE, "sg_awake()")))
        parameters = tuple([f"{kind}{name}" for kind, name in self.declared])
        return FunctionView(
            self.entry, parameters, tuple([name for _, name in self.declared if name not in said]), view.body,
            view.stack, view.workspace, fails=True, first=(*pointers, *view.first),
        )

    def size(self, e: Any, made: Printed) -> Printed:
        """Return what stands for a size that may have a name: of more than an extent and a number, or a call.

        What is divided by an extent has none: where a function begins, that may be zero.
        """
        if e not in self.sizes:
            from sympy import Add, Mod, Mul, Pow

            self.sizes[e] = None
            by_extents = [p for p in e.atoms(Mod, Pow) if not (p.args[1].is_Integer and p.args[1].is_positive)]
            few = isinstance(e, (Add, Mul)) and len(e.args) == 2 and e.args[0].is_Number and e.args[1].is_Symbol
            own = {s.name for s in e.free_symbols - self.extents}
            if own <= {*self.teams, COUNT.name} and not (few or by_extents or made.text.startswith("-")):
                self.sizes[e] = Printed(f"${len(self.printed)}", made.level)
                self.of_teams.update(() if self.teams.isdisjoint(own) else [len(self.printed)])
                self.printed.append(made.text)
        return self.sizes[e] or made

    def sized(self, view: FunctionView) -> FunctionView:
        """Give each size that stands more than once in a function a name where it begins, and print the others."""
        said = texts(view) if self.printed else []
        often = Counter([int(a or b) for text in said for a, b in SIZE.findall(text)])
        if not often:
            return view
        for k in range(max(often), -1, -1):
            if often[k]:
                often.update([int(a or b) for a, b in SIZE.findall(self.printed[k])])
        taken, text = {*words_of(view), *self.taken}, ["" for _ in range(max(often) + 1)]
        names = (name for k in count(1) if (name := f"size{k}") not in taken)

        def put(mark: re.Match[str]) -> str:
            k = int(mark[1] or mark[2])
            return f"({text[k]})" if mark[1] and often[k] == 1 else text[k]

        sizes: tuple[list[LetView], list[LetView]] = [], []
        for k in sorted(often, key=lambda k: (k in self.of_teams, k)):
            text[k] = SIZE.sub(put, self.printed[k])
            if often[k] > 1:
                name = next(names)
                sizes[k in self.of_teams].append(LetView("const int64_t", name, text[k]))
                text[k] = name
        made: FunctionView = rewritten(view, lambda t: SIZE.sub(put, t))
        return replace(made, first=(*sizes[0], *made.first, *sizes[1]))

    def used_by(self, view: FunctionView | ThreadsView) -> tuple[set[str], tuple[LetView, ...]]:
        """List the words of a function, and which of many arrays it uses."""
        said = set(words_of(view))
        if not self.gathered:
            return said, ()
        pointers = tuple([
            LetView(kind.replace("*", "*const ").strip(), name, f"{self.gather}[{place}]")
            for place, (kind, name) in enumerate(self.gathered) if name in said
        ])
        return said | ({self.gather} if pointers else set()), pointers

    def outlined(self, part: Outlined, around: FunctionBody) -> CallView:
        """Print a part as a function of what it uses, the variables of the loops around it included."""
        block = FunctionBody(part.body, self)
        block.inside(around)
        view = self.function("", part.body, block)
        variables = dict.fromkeys([*around.env.values(), *[name for pair in around.bounds.values() for name in pair]])
        name, passed = self.part(view, part, [], dict.fromkeys(variables, "const int64_t "))
        return CallView(name, passed, view.fails, around.leave, around.failed)

    def apart(self, view: ThreadsView, loop: Loop, made: Sequence[ItemView]) -> ThreadsView:
        """Print a thread's share that may be a serial call's as a function of what it uses of what was made before."""
        if not view.condition or view.failed:
            return view
        used = {self.names[a]: f"{stored(a.dtype)} *{self.target.restrict}" for a in self.stored}
        used |= {v.name: f"const {v.ctype.removeprefix('const ')} " for v in made if isinstance(v, LetView)}
        used |= {v.name: "const int64_t " for v in made if isinstance(v, LookupView)}
        name, passed = self.part(replace(view, condition=""), loop, [("const int64_t ", view.index)], used)
        return replace(view, call=f"{name}({passed})", body=(), stack=(), workspace=(), leave="")

    def part(
        self, view: FunctionView | ThreadsView, item: Outlined | Loop, first: list[tuple[str, str]],
        used: dict[str, str],
    ) -> tuple[str, str]:
        """Make a function of its own of a body, which is given what it uses; return its name, and what it is given."""
        fails = isinstance(view, FunctionView) and view.fails
        made = self.sized(FunctionView("", (), (), view.body, view.stack, view.workspace, fails, view.leave))
        said, pointers = self.used_by(made)
        said -= {array.name for array in (*view.stack, *view.workspace)}
        passed = [*first, *[(kind, name) for kind, name in self.given if name in said]]
        passed += [(kind, name) for name, kind in used.items() if name in said]
        name = f"{self.entry}_part{len(self.parts) + 1}"
        lines = [*map(str, sorted({s.line for s, _ in paths([item]) if s.line is not None}))]
        what = "a part" if isinstance(item, Outlined) else f"the share of thread {first[0][1]}"
        self.parts.append(replace(
            made, name=name, parameters=tuple(map("".join, passed)), first=(*pointers, *made.first),
            note=comment(f"{what}: {' to '.join(dict.fromkeys([*lines[:1], *lines[-1:]]))}"),
        ))
        return name, ", ".join(name for _, name in passed)

    def function(self, name: str, items: Items, block: FunctionBody) -> FunctionView:
        """Print a body with the memory that it uses; a thread's own is described where the thread starts."""
        mine = {access.array for access in accesses_in(items, outlined=False)}
        mine.update(*[self.shares[array] for array in mine if array in self.shares])
        here = [array for array, slot in self.stored.items() if array in mine and (block.thread or not slot.private)]
        stack, workspace = block.memory(here)
        body = (*(block.shares(items) if block.thread else ()), *block.views(items))
        self.helpers |= block.helpers
        self.used |= block.used
        return FunctionView(name, (), (), body, stack, workspace, fails(body))


class FunctionBody:
    """The views of one C function's body: what has a name, and what is written more than once."""

    def __init__(self, body: Items, functions: Functions) -> None:
        """Count, once, who writes and reads every register; `functions` makes functions of parts and of shares."""
        self.functions, self.target, self.storage = functions, functions.target, functions.storage
        self.names, self.scope = dict(functions.names), Scope({*functions.taken, *functions.names.values()})
        self.used: set[str] = set()
        self.helpers: set[tuple[str, str, str]] = set()
        self.env: dict[Axis, str] = {}
        self.busy: set[str] = set()
        self.bounds: dict[Axis, tuple[str, str]] = {}
        self.writes: dict[Array, int] = {}
        self.reads: dict[Array, list[int]] = {}
        self.home: dict[Array, int] = {}
        self.inner: dict[int, set[Array]] = {}  # registers of a block that are written inside of its items
        self.position: dict[int, int] = {}
        self.inline: dict[Array, Printed] = {}
        self.moving: set[Array] = set()  # printed where they are read: their arrays may hold something else later
        self.line: Line | None = None  # of the last comment
        self.here: Line | None = None  # of the statement that is printed
        self.leave = self.failed = ""
        self.regions = count(1)
        self.quoted: set[Line] = set()
        self.thread = ""
        self.lanes: np.dtype[Any] | None = None
        self.apart_from: dict[Array, str] = {}
        self.has_parts = False
        self.lookups: dict[Lookup, str] = {}
        self.asked: set[Array] = set()
        self.name = Naming(self.part, functions.size)
        self._survey(body)

    def inside(self, around: FunctionBody) -> None:
        """Stand, as a function of its own, where another block calls it: inside of that one's loops."""
        self.env, self.bounds, self.busy = dict(around.env), dict(around.bounds), set(around.busy)
        self.thread, self.line, self.quoted = around.thread, around.line, around.quoted

    def _survey(self, body: Items) -> None:
        """Note for each register where it is written and read; `home` is the block all of it happens in."""
        stack: list[tuple[Items, tuple[int, ...]]] = [(body, ())]
        paths: dict[Array, tuple[int, ...]] = {}
        written: dict[Array, set[int]] = {}
        while stack:
            items, around = stack.pop()
            here = (*around, id(items))
            for position, item in enumerate(items):
                self.position[id(item)] = position
                touches = read = touched(item)
                if isinstance(item, Statement):
                    array = item.target.array
                    self.writes[array] = self.writes.get(array, 0) + 1
                    written.setdefault(array, set()).add(id(items))
                    read = item.reads
                elif isinstance(item, Outlined):
                    self.has_parts = True
                else:
                    stack.extend([(block, here) for block in item.blocks])
                for access in read:
                    self.reads.setdefault(access.array, []).append(id(items))
                for access in touches:
                    if not self.storage[access.array].is_memory:
                        path = paths.setdefault(access.array, here)
                        if path is not here:
                            same = takewhile(lambda pair: pair[0] == pair[1], zip(path, here, strict=False))
                            paths[access.array] = tuple([one for one, _ in same])
        self.home = {array: path[-1] for array, path in paths.items()}
        for array, home in self.home.items():
            if written.get(array, {home}) != {home}:
                self.inner.setdefault(home, set()).add(array)

    def views(self, items: Items) -> tuple[ItemView, ...]:
        """Turn a block into views; an explicit stack is not needed: loops nest as deep as arrays have axes."""
        made: list[ItemView] = []
        loads: Loads = {}
        mine = self.inner.get(id(items), set()) if items else set()
        until = 0
        for position, item in enumerate(items):
            for s, _ in paths(items[position - 1 : position]) if loads else ():
                loads.pop(s.target.array, None)
            if position < until:
                continue
            if isinstance(item, Outlined):
                made.append(self.functions.outlined(item, self))
                continue
            if not isinstance(item, Statement) and mine:
                for inner, _ in walk([item], outlined=False):  # declare them
                    array = inner.target.array if isinstance(inner, Statement) else None
                    if array in mine and array not in self.names:
                        made.append(LetView(ctype(array.dtype), self.fresh(array)))
            if isinstance(item, Loop):
                ended = next((view for view in reversed(made) if not isinstance(view, NoteView)), None)
                if not (isinstance(ended, ThreadsView) and ended.stops):  # it has just looked
                    made += self.polled(item, "")
                if item.product is not None:
                    self.note(item.nest.statement.line, made)
                nans = self.nans_apart(item, made)
                view = self.loop(item)
                made.append(self.functions.apart(view, item, made) if isinstance(view, ThreadsView) else view)
                for array in nans:  # they win
                    names = (self.names[array], self.apart_from.pop(array))
                    made.append(StoreView(names[0], "=", self.call(UNLESS, [*map(Printed, names)], array.dtype).text))
                continue
            if isinstance(item, Cond):
                test = self.test(item.test, made, loads)
                made.append(CondView(test, self.views(item.then), self.views(item.other)))
                continue
            if isinstance(item, While):
                before: list[ItemView] = []
                test = self.test(item.test, before, {})
                made.append(WhileView(tuple(before), test, (*self.polled(item, "while"), *self.views(item.body))))
                continue
            if item.ranges:
                until = self.guarded(position, items, made)
                continue
            if not self.vanishes(item, items):
                self.note(item.line, made)
            self.statement(item, items, made, loads)
        return tuple(made)

    def note(self, line: Line | None, made: list[ItemView]) -> None:
        """Say which line of the user's the next statements come from, where that is news; it is quoted once."""
        if line is not None and line != self.line:
            self.line = line
            made.append(NoteView(comment(str(line) if line in self.quoted else f"{line}  {line.text}")))
            self.quoted.add(line)

    def test(self, value: Value, made: list[ItemView], loads: Loads) -> str:
        """Print what a branch or a loop asks."""
        self.lookups = {}
        return self.value(value, made, loads).text

    def vanishes(self, statement: Statement, items: Items) -> bool:
        """Whether a statement is printed inside of the next ones."""
        array = statement.target.array
        return (
            not self.storage[array].is_memory and statement.how == How.SET
            and self.writes[array] == 1 and self.reads.get(array, []) == [id(items)]
            and self.home.get(array) == id(items)
        )

    def fresh(self, array: Array | None) -> str:
        """Choose a new name, which begins as the line's do."""
        name = self.functions.called.chosen(self.scope, [] if array is None else [array], self.here or self.line)
        if array is not None:
            self.names[array] = name
        return name

    # -- loops

    def loop(self, loop: Loop) -> ItemView:
        """Turn a loop into a view, with a variable no loop around it has."""
        if loop.product is not None:
            return self.product(loop)
        if loop.tile is not None:
            return self.tiles(loop)
        if loop.walk is Walk.THREADS:
            return self.threads(loop)
        spread = self.spread(loop)
        if spread is not None:
            return spread
        name = self.letter(loop.extent) if loop.window is None else self.bounds[loop.window.start][0][:-1]
        self.busy.add(name)
        added = dict.fromkeys(loop.members, name)
        self.env.update(added)
        lanes = loop.walk is Walk.LANES and not self.target.plain
        around, self.lanes = self.lanes, None
        if lanes:  # the widest floating-point type that iterations read or write
            kinds = {access.array.dtype for s, _ in loop.paths for access in s.touched}
            floats = [kind for kind in kinds if kind.kind == "f"]
            self.lanes = max(floats, key=lambda kind: kind.itemsize, default=None)
        body = (*self.polled(loop, name), *self.expected(loop), *self.views(loop.body))
        self.lanes = around
        for axis in added:
            del self.env[axis]
        if loop.window is None:
            self.busy.remove(name)
        sums = "".join(self.reduction(how, array) for how, array in loop.sums if lanes)
        view = self.walked(loop, LoopView(
            name, "0", index(loop.extent, self.name), body, lanes, sums, ordered=loop.walk is Walk.ORDERED,
            down=loop.down,
        ))
        if loop.jam == 0 or self.target.plain:
            return view
        taken = self.scope.taken | self.busy
        return replace(view, jam=loop.jam, first=next(n for n in (f"{name}{k}" for k in count(2)) if n not in taken))

    def walked(self, loop: Loop, view: LoopView) -> LoopView:
        """Bound a loop by its tile, and by its interior or borders."""
        tile = self.bounds[loop.window.start] if loop.window is not None else None
        begin, end = tile or ("0", view.extent)
        if loop.piece is Piece.ALL:
            return replace(view, start=begin, extent=end)
        low, high = [index(e, self.name) for e in loop.ends]
        after = high if tile is None else f"sg_smaller({end}, {high})"
        if loop.piece is Piece.INTERIOR:
            return replace(view, start=low if tile is None else f"sg_larger({begin}, {low})", extent=after)
        if loop.ends[1] == loop.extent:
            return replace(view, start=begin, extent=low if tile is None else f"sg_smaller({end}, {low})")
        # Not by sg_larger: then gcc 12 gives the interior's loop, which follows, no lanes in a thread's part.
        within = f"{begin} < {high}" if low == "0" else f"{begin} >= {low} && {begin} < {high}"
        start = f"{within} ? {high} : {begin}"
        if tile is None:
            start = high if low == "0" else begin
        return replace(view, start=start, extent=end, low=low, high="" if low == "0" else high)

    def tiles(self, loop: Loop) -> TilesView:
        """Turn a loop over tiles into a view: of tiles of one, its variable is the index of all that is inside."""
        letter, rows = self.letter(loop.extent), loop.rows
        start, stop = bounds = (f"{letter}0", f"{letter}1") if rows > 1 else (letter, "")
        self.bounds[loop.tile.start] = bounds  # type: ignore[union-attr]  # it has tiles
        self.busy.update((letter, start, stop))
        own = dict.fromkeys(loop.members, letter) if rows == 1 else {}
        self.env.update(own)
        thread = self.env[loop.team] if loop.team is not None else ""
        body = (*self.polled(loop, start), *self.expected(loop), *self.views(loop.body))
        self.busy.difference_update((letter, start, stop))
        for axis in own:
            del self.env[axis]
        extent, team = index(loop.extent, self.name), str(loop.team.extent) if loop.team is not None else ""
        team = team if " " not in team else f"({team})"
        first, last = f"{letter}_first", f"{letter}_last"
        end, rest = (last, last) if loop.grain else (extent, extent) if rows > 1 else ("", "")
        if loop.grain and (type(loop.extent) is not int or loop.extent % loop.grain):
            rest = f"sg_smaller({last}, {extent})"
        grain = loop.grain or rows
        runs = rows > 1 and bool(thread)  # whether threads have runs of tiles, not of what stands along the axis
        tiles = index((loop.extent + grain - 1) // grain, self.name, PRODUCTS) if runs else ""
        extent = "" if runs else extent
        return TilesView(start, stop, rows, grain, tiles, extent, end, rest, first, last, thread, team, body)

    def threads(self, loop: Loop) -> ThreadsView:
        """Turn a loop over threads into a view, with what each thread has for itself."""
        name = next(n for n in ("t", *LETTERS) if n not in self.scope.taken)
        self.busy.add(name)
        self.env[loop.axis] = name
        count, least, sooner = loop.enough
        usual = sooner * least
        known = type(count) is int
        condition = "" if known else f"{index(count, self.name)} >= {least}"
        if not self.target.package and known:
            condition = "" if count >= WAKES * usual else AWAKE if count >= usual else f"{AWAKE} > 1"
        elif not self.target.package:
            soon = f"{AWAKE} > 1 ? {least} : " if sooner > 1 else ""
            condition = f"{index(count, self.name)} >= ({soon}{AWAKE} ? {usual} : {WAKES * usual})"
        items = [*walk([loop])]
        own = accesses_in([loop], outlined=False)
        mine = dict.fromkeys(a.array for a in own if self.storage[a.array].is_private)
        stops = any(isinstance(item, (Loop, While)) and item.poll for item, _ in items) and not self.target.package
        number = next(self.regions)
        failed = f"sg_failed{number}" if any(isinstance(s, Statement) and s.may_fail for s, _ in items) else ""
        leave = f"stopped{number}" if stops or failed else ""
        self.thread, self.leave, self.failed = name, leave, failed
        stack, workspace = self.memory(mine)
        body = (*self.shares(loop.body), *self.views(loop.body))
        self.thread = self.leave = self.failed = ""
        del self.env[loop.axis]
        self.busy.remove(name)
        short = AWAKE in condition
        return ThreadsView(name, str(loop.extent), condition, short, stack, workspace, body, leave, stops, failed)

    def expected(self, loop: Loop) -> Iterator[CallView]:
        """Ask, as an iteration begins, for rows that are looked up soon and that it walks whole: once for each array.

        It is the beginning of a long row, behind which the processor goes on by itself.
        """
        if loop.walk is Walk.LANES or not loop.is_walked:
            return
        for s, around in loop.paths:
            inside = frozenset().union(*[one.members for one in around[1:] if one.window is None])
            for access in s.reads:
                array, (lookup, *rest) = access.array, access.indices or (0,)
                if type(lookup) is not Lookup or lookup.ahead == 0 or array in self.asked:
                    continue
                row: Any = size(array.shape[1:])
                whole = all(part in inside for i in rest for part in parts(i))
                if whole and lookup.access.indices[-1] in loop.members and upper(row) * array.dtype.itemsize >= LINE:
                    self.asked.add(array)
                    self.helpers.add(("sg_expect", "char", ""))
                    at = self.place(lookup.access.moved((lookup.access.indices[0] + lookup.ahead,)), [], {})
                    address = f"{self.names[array]} + {at}*{index(row, self.name, OPERATORS['*'][2])}"
                    bytes_ = index(row * array.dtype.itemsize, self.name)
                    yield CallView("sg_expect", f"(const char *)({address}), {bytes_}", fails=False)

    def polled(self, loop: Loop | While, name: str) -> tuple[CheckView, ...]:
        """Look whether the call should stop: before a loop that cannot be left, at the start of others' iterations."""
        closed = isinstance(loop, Loop) and (loop.walk is Walk.LANES or loop.product is not None)
        label = self.leave or not self.thread  # a part of a thread's share has none
        if not loop.poll or closed != (not name) or not label or self.target.package:
            return ()
        now = f"({name} & {loop.poll - 1}) == 0 && " if name and loop.poll > 1 else ""
        return (CheckView(f"{now}sg_stopped(stop)", -1, self.leave),)

    def reduction(self, how: str, array: Array) -> str:
        """Print a reduction: OpenMP's own, but for the extrema of floating-point numbers, where NaN counts."""
        if how != "+" and array.dtype.kind != "f":
            how = how[:3]
        elif how != "+":
            how, kind = f"sg_{how}", suffix(array.dtype)
            self.helpers.add((how, ctype(array.dtype), kind))
            how += kind
        nans = f" reduction(+:{self.apart_from[array]})" if array in self.apart_from else ""
        return f" reduction({how}:{self.names[array]}){nans}"

    def nans_apart(self, loop: Loop, made: list[ItemView]) -> list[Array]:
        """Declare, for each maximum and minimum that lanes take of numbers, a sum of the NaNs among them.

        To let NaN win costs each step of the maximum itself a comparison more, and what joins lanes a branch.
        """
        found = [array for how, array in loop.sums if how != "+" and array.dtype.kind == "f"]
        for array in found if loop.walk is Walk.LANES and not self.target.plain else ():
            self.apart_from[array] = self.fresh(None)
            made.append(LetView(ctype(array.dtype), self.apart_from[array], c_literal(0.0, array.dtype)))
        return [array for array in found if array in self.apart_from]

    def letter(self, extent: Any) -> str:
        """Choose a loop variable that nothing around has; it bears the name of an extent that has one: ``i_batch``."""
        along = f"_{extent.name}" if extent in self.functions.extents else ""
        letters = chain(LETTERS, (f"i{k}_" for k in count()))
        ends = ("", "0", "1", "_first", "_last")
        others = self.busy | {name.partition("_")[0] for name in self.busy}
        each = ([n, *[f"{n}{along}{end}" for end in ends]] for n in letters)
        found = next(n[0] for n in each if others.isdisjoint(n) and self.scope.taken.isdisjoint(n))
        return f"{found}{along}"

    def part(self, part: Any) -> str:
        """Name what an index is made of: an axis, a looked-up integer, an extent."""
        if isinstance(part, Axis):
            return self.env[part]
        if isinstance(part, Lookup):
            return self.lookups[part]
        held = getattr(part, "index", None)
        return self.part(held) if held is not None else str(part.name)

    # -- statements

    def guarded(self, position: int, items: Items, made: list[ItemView]) -> int:
        """Put neighbouring statements of one range under one condition; return where the next one stands."""
        condition = self.condition(items[position])  # type: ignore[arg-type]  # a statement
        run: list[Statement] = []
        for item in items[position:]:
            if not isinstance(item, Statement) or not item.ranges or self.condition(item) != condition:
                break
            run.append(item)
        touches = Counter([access.array for s in run for access in s.touched])
        inner: list[ItemView] = []
        loads: Loads = {}
        for s in run:
            array = s.target.array
            own = touches[array] == self.writes[array] + len(self.reads.get(array, ()))
            if not self.storage[array].is_memory and not own and array not in self.names:
                made.append(LetView(ctype(array.dtype), self.fresh(array), "0"))
            self.statement(s, items, inner, loads)
            loads.pop(array, None)
        made.append(CondView(condition, tuple(inner)))
        return position + len(run)

    def condition(self, s: Statement) -> str:
        """Print when a statement runs."""
        said = []
        for axis, first, end in s.ranges:
            name = self.env[axis]
            if end - first == 1:
                said.append(f"{name} == {index(first, self.name)}")
                continue
            if first != 0:
                said.append(f"{name} >= {index(first, self.name)}")
            if end != axis.extent:
                said.append(f"{name} < {index(end, self.name)}")
        return " && ".join(said)

    def statement(self, s: Statement, items: Items, made: list[ItemView], loads: Loads) -> None:
        """Turn one statement into views."""
        self.lookups, self.here = {}, s.line
        if s.how == How.CHECK:
            failing = self.value(s.value, made, loads)
            failed = failing.text
            if s.target.array.dtype.kind != "b":
                failed = f"{failing.within(OPERATORS['!='][1])} != {c_literal(0, s.target.array.dtype)}"
            made.append(CheckView(failed, s.check, self.leave, self.failed))
            return
        if s.routine is not None:
            made.append(self.called(s, made, loads))
            return
        array = s.target.array
        parts: Any = s.value.args if s.how == How.FMA else (s.value,)  # type: ignore[union-attr]  # of a product
        values = [self.value(part, made, loads) for part in parts]
        value = values[0]
        register = not self.storage[array].is_memory
        if register and s.how == How.SET and self.writes[array] == 1 and array not in self.names:
            if s.may_fail:  # it has a name already
                self.names[array] = value.text
                return
            stable, place = self.stable(s.value), self.position[id(s)] + 1
            following = items[place] if place < len(items) else None
            next_ = isinstance(following, Statement) and any(a.array is array for a in accesses(following.value))
            if self.vanishes(s, items) and len(value.text) <= WIDE and (stable or next_):
                self.inline[array] = value
                self.moving.update(() if stable else (array,))
                return
            made.append(LetView(f"const {ctype(array.dtype)}", self.fresh(array), value.text))
            return
        if register and array not in self.names:
            if s.how == How.SET and not any(a.array is array for a in accesses(s.value)):
                made.append(LetView(ctype(array.dtype), self.fresh(array), value.text))
                return
            made.append(LetView(ctype(array.dtype), self.fresh(array)))
        target = self.place(s.target, made, loads)
        made.append(self.store(s, target, values, made))

    def store(self, s: Statement, target: str, values: list[Printed], made: list[ItemView]) -> StoreView:
        """Write or accumulate a value; a Boolean in memory is a byte: `-Wconversion` wants to see that it is meant."""
        dtype, value = s.target.array.dtype, values[0]
        if s.how == How.FMA:
            fused = "SG_FMA" if self.target.package else "fma"  # a call, where the machine has no such instruction
            return StoreView(target, "=", self.call(fused, (*values, Printed(target)), dtype).text)
        byte = dtype.kind == "b" and self.storage[s.target.array].is_memory
        if s.how == How.SET:
            return StoreView(target, "=", as_byte(value) if byte else value.text)
        if s.how in {How.ADD, How.MULTIPLY} and dtype.kind == "f":
            return StoreView(target, s.how, value.text)
        op: Any = ANSWERS[ACCUMULATIONS[s.how]]
        both = self.bound(value, dtype, made), Printed(target)
        if s.target.array in self.apart_from:
            made.append(StoreView(target, "=", self.call(BEYOND[s.how], both, dtype).text))
            return StoreView(self.apart_from[s.target.array], "+=", self.call(NOT_A_NUMBER, both[:1], dtype).text)
        whole = self.call(pattern(op.c, (dtype, dtype), dtype), both, dtype)
        return StoreView(target, "=", as_byte(whole) if byte else whole.text)

    def stable(self, value: Any) -> bool:
        """Whether a value stays the same until it is read: of inputs and of registers written once."""
        return all(
            a.array.is_given
            or (self.writes.get(a.array, 0) == 1 and a.array not in self.moving and not self.storage[a.array].is_memory)
            for a in accesses(value)
        )

    def bound(self, value: Printed, dtype: np.dtype[Any], made: list[ItemView]) -> Printed:
        """Give a value a name, unless it has one."""
        if re.fullmatch(r"\w+|\d[\w.]*", value.text):
            return value
        name = self.fresh(None)
        made.append(LetView(f"const {ctype(dtype)}", name, value.text))
        return Printed(name)

    # -- values

    def value(self, v: Any, made: list[ItemView], loads: Loads) -> Printed:
        """Print a value."""
        if isinstance(v, Number):
            return c_number(v.value, v.dtype)
        if isinstance(v, Access):
            return self.load(v, made, loads)
        if isinstance(v, IndexValue):
            self.look_up((v.index,), made, loads)
            value = printed(v.index, self.name)
            if ctype(v.dtype) == "int64_t" and type(v.index) is not int:  # indices and extents have that type
                return value
            return Printed(f"({ctype(v.dtype)}){value.within(UNARIES)}", Level.UNARY)
        return self.applied(v, made, loads)

    def applied(self, v: Apply, made: list[ItemView], loads: Loads) -> Printed:
        """Print an op applied to values, each of which has a name where the op's C needs it twice."""
        dtypes = [self.dtype(a) for a in v.args]
        c = self.spelled(v, dtypes)
        arguments = []
        for k, arg in enumerate(v.args):
            if isinstance(arg, Apply) and not c.isidentifier() and uses(c, k) == 0:
                arguments.append(Printed(""))  # what it would need has no use either
                continue
            value = self.value(arg, made, loads)
            chosen = k > 0 and chooses(v.op) and self.lanes is not None and "[" in value.text
            if chosen or (not c.isidentifier() and uses(c, k) > 1):  # what is chosen is read before:
                value = self.bound(value, dtypes[k], made)  # compilers make slow lanes of loads in one branch, or none
            arguments.append(value)
        return self.call(c, arguments, v.dtype, dtypes, v.op.named(v.params))

    def spelled(self, v: Apply, dtypes: list[Any]) -> str:
        """Choose how an op is written."""
        if v.op.lanes and f"exp{suffix(dtypes[-1])}" in self.target.simd_math:
            return v.op.lanes
        found = pattern(v.op.c, dtypes, v.dtype)
        if found is None:
            raise SymgradError(f"{v.op.name} has no C for {', '.join(d.name for d in dtypes)}")
        return found

    def call(
        self, c: Any, arguments: Sequence[Printed], result: Any, dtypes: Any = None, params: Any = None,
    ) -> Printed:
        """Print what is spelled in C, of arguments of the result's dtype unless theirs is given, and note its calls."""
        dtypes = dtypes or [result] * len(arguments)
        value, functions = in_c(c, arguments, dtypes, result, params)
        self.used.update(functions)
        end = suffix(dtypes[-1])
        self.helpers |= {(f.removesuffix(end), ctype(dtypes[-1]), end) for f in functions if f.startswith("sg_")}
        return value

    def dtype(self, v: Any) -> Any:
        """Return a value's dtype."""
        return v.array.dtype if isinstance(v, Access) else v.dtype

    def load(self, access: Access, made: list[ItemView], loads: Loads) -> Printed:
        """Print an element that is read."""
        array = access.array
        if array in self.inline:
            return self.inline.pop(array)
        value = Printed(self.place(access, made, loads))
        if array.dtype.kind != "b":
            return value
        if self.lanes is not None and self.storage[array].is_memory:
            return self.call(FLAG, [value], self.lanes)
        return self.call(SET, [value], array.dtype) if array.kind in {Kind.INPUT, Kind.DONATED} else value

    def place(self, access: Access, made: list[ItemView], loads: Loads) -> str:
        """Print where an element stands."""
        array = access.array
        storage = self.storage[array]
        if not storage.is_memory:
            return self.names[array]
        self.look_up(access.indices, made, loads)
        if access.flat:
            return f"{self.names[array]}[{index(access.indices[0], self.name)}]"
        where = offset([access.indices[d] for d in storage.kept], storage.shape, self.name, self.starts(storage))
        return f"{self.names[array]}[{where}]"

    def starts(self, storage: Storage) -> list[str | None]:
        """Return, for each stored dimension, where the present tile begins that is all that is stored of it."""
        return [None if tile is None else self.bounds[tile.start][0] for tile in storage.kept.values()]

    def look_up(self, indices: tuple[Any, ...], made: list[ItemView], loads: Loads) -> None:
        """Read the integers that indices are looked up from, each checked where it is not sure."""
        for i in indices:
            for part in parts(i):
                if not isinstance(part, Lookup) or part in self.lookups:
                    continue
                value = self.value(part.access, made, loads)
                if part.check == SURE:
                    self.lookups[part] = value.within(ATOMS)
                    continue
                text, extent = value.within(UNARIES), index(part.extent, self.name, OPERATORS["<"][2])
                key = f"{text} < {extent} {part.check > 0}"
                read = part.access  # an element, a number, or what is computed of some
                names: Any = {} if isinstance(read, Apply) else loads.setdefault(getattr(read, "array", None), {})
                if key not in names:
                    names[key] = self.fresh(None)
                    made.append(LookupView(names[key], text, extent))
                    if part.check:
                        outside = f"{names[key]} < 0 || {names[key]} >= {extent}"
                        made.append(CheckView(outside, part.check, self.leave, self.failed))
                self.lookups[part] = names[key]

    # -- whole matrices

    def called(self, s: Statement, made: list[ItemView], loads: Loads) -> CallView:
        """Turn the call of a routine into a view."""
        routine: Any = s.routine
        for access in s.touched:
            self.look_up(access.indices, made, loads)
        dtype, read = s.target.array.dtype, s.value
        for name in (*FUNCTIONS[routine.name], routine.name):
            self.helpers.add((name, ctype(dtype), suffix(dtype)))
        arguments = [index(axis.extent, self.name) for axis in routine.extents] + [str(f) for f in routine.flags]
        if read.array is not s.target.array:  # type: ignore[union-attr]  # a routine reads an array
            arguments += self.matrix(routine.read, read)  # type: ignore[arg-type]
        written = self.matrix(routine.written, s.target)
        return CallView(f"{routine.name}{suffix(dtype)}", ", ".join([*arguments, *written[:2]]), fails=False)

    def matrix(self, axes: tuple[Axis, ...], access: Access) -> list[str]:
        """Print the address of a matrix, and how far apart its rows and its columns are."""
        array, storage = access.array, self.storage[access.array]
        zero: dict[Axis, Any] = dict.fromkeys(axes, 0)
        places = [substitute(access.indices[d], zero) for d in storage.kept]
        begin = offset(places, storage.shape, self.name, self.starts(storage))
        address = self.names[array] if begin == "0" else f"{self.names[array]} + {begin}"
        return [address, *[index(stride(access, frozenset([axis]), storage), self.name) for axis in axes]]

    def product(self, loop: Loop) -> CallView:
        """Turn a sum of products into one call."""
        nest = loop.nest
        made = nest.product
        value: Any = nest.statement.value

        def operand(access: Access, *walked: Loop) -> str:
            storage = self.storage[access.array]
            steps = [index(stride(access, loop.members, storage), self.name) for loop in walked]
            return ", ".join([self.begin(access, nest.loops), *steps])

        left, right = value.args[made.left], value.args[1 - made.left]
        rows, depth, lanes = nest.loops
        end, part = suffix(value.dtype), made.part
        function = ("sg_gemm" if made.whole else "sg_product") if part is None else "sg_product_part"
        if function == "sg_product":
            if row_of(left, nest) or (not row_of(right, nest) and self.is_narrow(left, rows, nest, lanes)):
                function = "sg_product_narrow"
            elif row_of(right, nest) or self.is_narrow(right, lanes, nest, rows):
                function, left, right, rows, lanes = "sg_product_narrow", right, left, lanes, rows
        lookup = row_of(left, nest)
        if lookup is not None:
            function = "sg_product_coming" if lookup.ahead != 0 else "sg_product_rows"
        extents = [self.walks(loop) for loop in (rows, depth, lanes)]
        if part is not None:
            extents += [str(int(part.rows)), str(int(part.after)), str(part.least)]
        called = {function} if function in FEW_COLUMNS else {"sg_product", function}
        self.helpers |= {(name, ctype(value.dtype), end) for name in called}
        arguments = [
            ", ".join(extents),
            operand(left, rows, depth) if lookup is None else self.looked_up(left, lookup, nest, rows),
            operand(right, depth, lanes), operand(nest.statement.target, rows, lanes),
        ]
        return CallView(f"{function}{end}", ",\n    ".join(arguments), fails=False)

    def walks(self, loop: Loop) -> str:
        """Print how many iterations a loop has, in the present tile."""
        if loop.window is None:
            return index(loop.extent, self.name)
        start, stop = self.bounds[loop.window.start]
        return f"{stop} - {start}"

    def spread(self, loop: Loop) -> CallView | None:
        """Turn a loop that only copies neighbours to a result that all threads read next into a call; no other one."""
        s = loop.body[0]
        if not isinstance(s, Statement) or s.role is not Role.SPREAD or not isinstance(s.value, Access):
            return None
        steps = [stride(access, loop.members, self.storage[access.array]) for access in (s.target, s.value)]
        if len(loop.body) > 1 or loop.piece is not Piece.ALL or s.ranges or steps != [1, 1] or self.target.plain:
            return None
        self.helpers.add(("sg_spread", ctype(s.value.array.dtype), suffix(s.value.array.dtype)))
        addresses = [self.begin(access, (loop,)) for access in (s.target, s.value)]
        arguments = ", ".join([*addresses, self.walks(loop), "threads"])
        return CallView(f"sg_spread{suffix(s.value.array.dtype)}", arguments, fails=False)

    def is_narrow(self, operand: Access, rows: Loop, nest: Nest, few: Loop) -> bool:
        """Whether lanes along the depth or the rows of an operand are faster than lanes along a few columns."""
        steps = [stride(operand, loop.members, self.storage[operand.array]) for loop in (nest.depth, rows)]
        lanes = self.target.lanes(nest.statement.target.array.dtype)
        return 1 in steps and is_narrow(nest, rows, few, lanes, along=steps[0] == 1)

    def looked_up(self, access: Access, lookup: Lookup, nest: Nest, rows: Loop) -> str:
        """Print the rows that a product looks up: whether rows or depths are, their array, places, and distance."""
        row = Axis("row", lookup.extent)
        first, line = [access.moved(tuple([one if i is lookup else i for i in access.indices])) for one in (0, row)]
        step = index(stride(line, frozenset([row]), self.storage[access.array]), self.name)
        soon = f", {index(lookup.ahead, self.name)}" if lookup.ahead != 0 else ""
        begin = f"{self.begin(first, nest.loops)}, {self.begin(lookup.access, nest.loops)}"
        return f"{int(varies(lookup, rows.members))}, {begin}, {step}{soon}"

    def begin(self, access: Access, loops: tuple[Loop, ...]) -> str:
        """Print the address of the first element that a product's loops touch."""
        array, (shape, kept, *_) = access.array, self.storage[access.array]
        positions: list[Any] = []
        starts: list[str | None] = []
        first = {member: loop for loop in loops for member in loop.members}
        for d, window in [(0, None)] if access.flat else kept.items():
            at = access.indices[d]
            own = {part: first[part] for part in parts(at) if isinstance(part, Axis) and part in first}
            here = window is not None and any(loop.window == window for loop in own.values())
            zero: dict[Axis, Any] = {part: 0 for part, loop in own.items() if here or loop.window is None}
            positions.append(substitute(at, zero))
            starts.append(self.bounds[window.start][0] if window is not None and not here else None)

        def named(part: Any) -> str:
            loop = first.get(getattr(part, "index", part))  # in a reckoned index an axis is a symbol that knows it
            return self.part(part) if loop is None else self.bounds[loop.window.start][0]  # type: ignore[union-attr]

        text = offset(positions, (1,) if access.flat else shape, replace(self.name, part=named), starts)
        return self.names[array] if text == "0" else f"{self.names[array]} + {text}"

    # -- memory

    def memory(self, arrays: Iterable[Array]) -> tuple[tuple[ArrayView, ...], tuple[ArrayView, ...]]:
        """Describe the memory that arrays hold: what stands on the stack, and what in the workspace.

        Where a place there is reckoned from extents, it has a name if the next ones can be counted from it.
        """
        slots = {slot: self.names[a] for a in arrays if (slot := self.storage[a].slot) is not None}
        stack = [self.slot(slot, name, "") for slot, name in slots.items() if slot.place is Place.STACK]
        placed: list[tuple[Slot, Slot | None, Any, str]] = []
        bases: list[Slot] = []  # what the last one may be counted from, and the last one
        there = [slot for slot in slots if slot.place is Place.WORKSPACE]
        for slot in sorted(there, key=lambda slot: (slot.step != 0, type(slot.offset) is not int, upper(slot.offset))):
            own = f"{self.thread}*{index(slot.step, self.name, ATOMS)}" if slot.step != 0 else ""
            length = len(index(slot.offset, self.part)) + len(own)
            base: Slot | None = None
            further = slot.offset
            known = [(slot.offset - base.offset, base) for base in bases if base.step == slot.step]
            if known and (own or type(slot.offset) is not int):
                near = [(simplified(distance), other) for distance, other in known]
                texts = [index(distance, self.part) for distance, _ in near]
                k = min(range(len(near)), key=lambda k: 0 if texts[k].isdigit() else len(texts[k]))
                if len(texts[k]) < length - WORTH:
                    further, base = near[k]
                    own, bases = "", [base]
            placed.append((slot, base, further, own))
            bases = [*bases[:1], slot]
        return tuple(stack), self.placed(placed, slots)

    def placed(
        self, there: Sequence[tuple[Slot, Slot | None, Any, str]], names: dict[Slot, str],
    ) -> tuple[ArrayView, ...]:
        """Print places in the workspace, each from its start or from another one's."""
        counted = {base for _, base, *_ in there}
        views = []
        for slot, base, further, own in there:
            text = index(further, self.name)
            parts = ["" if base is None else f"{names[base]}_at", text, own]
            place = " + ".join([part for part in parts if part not in {"", "0"}])
            at = f"{names[slot]}_at" if slot in counted else ""
            views.append(replace(self.slot(slot, names[slot], place), at=at))
        return tuple(views)

    def slot(self, slot: Slot, name: str, place: str) -> ArrayView:
        """Describe one piece of memory.

        Its pointer is `restrict` where this function alone uses it, not where a part that it calls does so too.
        """
        elements: Any = slot.size // slot.dtype.itemsize if slot.place is Place.STACK else ""
        extent = str(1 if elements == 0 else elements)  # C has no empty arrays
        restrict = "" if self.has_parts else self.target.restrict
        aligned = "" if self.target.plain or place else f" __attribute__((aligned({LINE})))"
        return ArrayView(stored(slot.dtype), name, extent, place, restrict=restrict, aligned=aligned)

    def shares(self, items: Items) -> list[LetView]:
        """Point to the sums that a thread works in: the first in the sums themselves, each other one in its copies."""
        mine = dict.fromkeys(access.array for access in accesses_in(items, outlined=False))
        made = []
        for array in [array for array in mine if array in self.functions.shares]:
            share = self.functions.shares[array]
            row = index(share.rest.shape[1], self.name, ATOMS)
            copy = f"{self.names[share.rest]} + ({self.thread} - 1)*{row}"
            kind = f"{stored(array.dtype)} *const {self.target.restrict}".strip()
            made.append(LetView(kind, self.names[array], f"{self.thread} == 0 ? {self.names[share.sum]} : {copy}"))
        return made


def row_of(access: Access, nest: Nest) -> Lookup | None:
    """Return the place of the rows that a product looks up in an array, where it does."""
    walked = frozenset().union(*[loop.members for loop in nest.loops])
    return next((i for i in access.indices if type(i) is Lookup and varies(i, walked)), None)


def stride(access: Access, members: frozenset[Axis], storage: Storage) -> Any:
    """Return by how many elements an access moves on with a loop's variable."""
    steps = access.steps(members) or {}
    if access.flat:
        return steps.get(0, 0)
    total: Any = 0
    size: Any = 1
    for d, dim in zip(reversed([*storage.kept]), reversed(storage.shape), strict=True):
        total = total + steps.get(d, 0) * size
        size = size * dim
    return total


def foreign(loops: LoopProgram) -> set[str]:
    """Name the C functions of the user's that a program calls, which no variable may hide."""
    return {value.op.c["f"].partition("(")[0] for value in loops.applied if value.op.source}


def as_byte(value: Printed) -> str:
    """Print a Boolean as memory holds it."""
    return value.text if value.text in {"0", "1"} else f"(uint8_t){value.within(UNARIES)}"


def fails(views: tuple[Any, ...]) -> bool:
    """Whether a body checks an index or polls, or calls a part that does."""
    stack = list(views)
    while stack:
        view = stack.pop()
        if isinstance(view, CheckView) or (isinstance(view, CallView) and view.fails):
            return True
        stack.extend([*getattr(view, "body", ()), *getattr(view, "before", ()), *getattr(view, "other", ())])
    return False


def texts(view: Any) -> list[str]:
    """List what a view prints, as often as it does, comments left out, and the parameter that its template names."""
    found: list[str] = []
    stack = [view]
    while stack:
        item = stack.pop()
        if type(item) is str:
            found.append(item)
        elif type(item) is tuple:
            stack.extend(item)
        elif isinstance(item, View) and type(item) is not NoteView:
            if getattr(item, "workspace", ()):
                found.append("workspace")
            stack.extend([*vars(item).values(), *item.again])
    return found


def words_of(view: Any) -> Counter[str]:
    """Count the words that a view prints."""
    return Counter(re.findall(r"[A-Za-z_]\w*", " ".join(texts(view))))


def rewritten(view: Any, change: Callable[[str], str]) -> Any:
    """Change what a view prints, comments left out."""
    if type(view) is str:
        return change(view)
    if type(view) is tuple:
        return tuple([rewritten(item, change) for item in view])
    if not isinstance(view, View) or type(view) is NoteView:
        return view
    return replace(view, **{name: rewritten(value, change) for name, value in vars(view).items()})  # type: ignore[type-var]

"""Loops and statements to views: names for what stands in registers, loads, indices and loops."""

from __future__ import annotations

import re
from itertools import chain, count, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.ir.names import comment
from symgrad.ir.notation import SURE, Access, Apply, Axis, IndexValue, Lookup, Number, Statement, accesses, parts
from symgrad.loops.program import Array, Loop, Part
from symgrad.loops.recompute import checks
from symgrad.ops.spelling import FLAG, SET, ctype, expression, inside_call, pattern, quotient, suffix, uses
from symgrad.render.divisors import inverse_of
from symgrad.render.memory import LETTERS, threads_view
from symgrad.render.polls import before, within
from symgrad.render.printer import index, literal, offset
from symgrad.render.products import product_view
from symgrad.render.ranges import guarded, lanes_of, reduction, tiles_view, walked
from symgrad.render.routines import called
from symgrad.render.rows import by_rows
from symgrad.render.stores import fuses, join_nans, multiply_add, nans_apart, store
from symgrad.render.views import LetView, LocalView, LookupView, LoopView, NoteView, ThreadsView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.errors import Line
    from symgrad.loops.products import Product
    from symgrad.loops.program import Item
    from symgrad.options import Target
    from symgrad.render.stems import Stems
    from symgrad.render.views import CallView, ItemView, ProductView

    Outline = Callable[[Part, "Block"], CallView]
    Apart = Callable[[ThreadsView, Sequence[ItemView]], ThreadsView]

WIDE = 72
"""An expression so long gets a name of its own."""


class Block:
    """The views of one C function's body: what has a name, and what is written more than once."""

    def __init__(
        self, body: list[Item], names: dict[Array, str], taken: set[str], target: Target, outline: Outline,
        apart: Apart, stems: Stems,
    ) -> None:
        """Count, once, who writes and reads every register; `outline` makes functions of parts, `apart` of shares."""
        self.names, self.taken, self.target, self.stems = dict(names), set(taken), target, stems
        self.outline, self.apart = outline, apart
        self.counts: dict[str, count[int]] = {}
        self.used: set[str] = set()
        self.helpers: set[tuple[str, str, str]] = set()
        self.env: dict[Axis, str] = {}
        self.busy: set[str] = set()
        self.bounds: dict[Loop, tuple[str, str]] = {}
        self.writes: dict[Array, int] = {}
        self.reads: dict[Array, list[int]] = {}
        self.home: dict[Array, int] = {}
        self.owned: dict[int, set[Array]] = {}
        self.position: dict[int, int] = {}
        self.inline: dict[Array, tuple[str, bool]] = {}
        self.moving: set[Array] = set()  # printed where they are read: their arrays may hold something else later
        self.line: Any = None
        self.leave = self.failed = ""
        self.regions = count(1)
        self.quoted: set[Line] = set()
        self.thread = ""
        self.lanes: np.dtype[Any] | None = None
        self.apart_from: dict[Array, str] = {}
        self.has_parts = False
        self._survey(body)

    def inside(self, around: Block) -> None:
        """Stand, as a function of its own, where another block calls it: inside of that one's loops."""
        self.env, self.bounds, self.busy = dict(around.env), dict(around.bounds), set(around.busy)
        self.thread, self.line, self.quoted = around.thread, around.line, around.quoted

    def _survey(self, body: list[Item]) -> None:
        """Note for each register where it is written and read; `home` is the block all of it happens in."""
        stack: list[tuple[list[Any], tuple[int, ...]]] = [(body, ())]
        paths: dict[Array, tuple[int, ...]] = {}
        while stack:
            items, around = stack.pop()
            here = (*around, id(items))
            for position, item in enumerate(items):
                self.position[id(item)] = position
                if not isinstance(item, Statement):
                    self.has_parts |= isinstance(item, Part)
                    stack.extend([(item.body, here)] if isinstance(item, Loop) else [])
                    continue
                self.writes[item.target.array] = self.writes.get(item.target.array, 0) + 1
                read = item.reads
                for access in read:
                    self.reads.setdefault(access.array, []).append(id(items))
                for access in [item.target, *read]:
                    if access.array.place == "register" and access.array.kind == "temporary":
                        paths[access.array] = _shared(paths.get(access.array, here), here)
        self.home = {array: path[-1] for array, path in paths.items()}
        for array, home in self.home.items():
            self.owned.setdefault(home, set()).add(array)

    def views(self, items: list[Item]) -> tuple[ItemView, ...]:
        """Turn a block into views; an explicit stack is not needed: loops nest as deep as arrays have axes."""
        made: list[ItemView] = []
        loads: dict[str, str] = {}
        mine = self.owned.get(id(items), set()) if items else set()
        until = 0
        for position, item in enumerate(items):
            if position < until:
                continue
            if isinstance(item, Loop):
                self.declare_inside(item, mine, made)
                made.extend(before(self, item))
                if item.product is not None:
                    self.note(item.product.statement.line, made)
                nans = nans_apart(self, item, made)
                view = self.loop(item)
                made.append(self.apart(view, made) if isinstance(view, ThreadsView) else view)
                join_nans(self, nans, made)
                continue
            if isinstance(item, Part):
                made.append(self.outline(item, self))
                continue
            if item.ranges:
                until = guarded(self, position, items, made)
                continue
            if not self.vanishes(item, items):
                self.note(item.line, made)
            self.statement(item, items, made, loads)
        return tuple(made)

    def note(self, line: Line | None, made: list[ItemView]) -> None:
        """Say which line of the user's the next statements come from, where that is news."""
        if line is not None and line != self.line:
            self.line = line
            made.append(NoteView(comment(self.mention(line))))

    def mention(self, line: Line) -> str:
        """Quote a line of the user's where it comes up first, and only name it later."""
        if line in self.quoted:
            return str(line)
        self.quoted.add(line)
        return f"{line}  {line.text}"

    def vanishes(self, statement: Statement, items: list[Item]) -> bool:
        """Tell a statement that is printed inside of the next ones."""
        array = statement.target.array
        return (
            array.place == "register" and array.kind == "temporary" and statement.how == "="
            and self.writes[array] == 1 and self.reads.get(array, []) == [id(items)]
            and self.home.get(array) == id(items)
        )

    def declare_inside(self, loop: Loop, mine: set[Array], made: list[ItemView]) -> None:
        """Declare the registers of this block that a loop writes first."""
        stack: list[Any] = [loop]
        while stack:
            item = stack.pop(0)
            if isinstance(item, Loop):
                stack[:0] = item.body
            elif isinstance(item, Statement) and item.target.array in mine and item.target.array not in self.names:
                made.append(LocalView(ctype(item.target.array.dtype), self.fresh(item.target.array)))

    def fresh(self, array: Array | None) -> str:
        """Number a new name, which begins as the line's do."""
        line = array.line if array is not None and array.line is not None else self.line
        start = self.stems.get(line, "v")
        name = next(n for n in (f"{start}{k}" for k in self.counts.setdefault(start, count(1))) if n not in self.taken)
        if array is not None:
            self.names[array] = name
        return name

    # -- loops

    def product(self, made: Product) -> ProductView:
        """Turn a sum of products into one call."""
        view, helpers = product_view(made, self.names, self.name, self.bounds)
        self.helpers |= helpers
        return view

    def loop(self, loop: Loop) -> ItemView:
        """Turn a loop into a view, with a variable no loop around it has."""
        if loop.product is not None:
            return self.product(loop.product)
        if loop.tile:
            return tiles_view(self, loop)
        if loop.threads:
            return threads_view(self, loop)
        name = self.letter() if loop.window is None else self.bounds[loop.window][0][:-1]
        self.busy.add(name)
        added = dict.fromkeys(loop.members, name)
        self.env.update(added)
        lanes = loop.simd and not self.target.plain
        around, self.lanes = self.lanes, lanes_of(loop) if lanes else None
        body = (*within(self, loop, name), *self.views(loop.body))
        self.lanes = around
        for axis in added:
            del self.env[axis]
        if loop.window is None:
            self.busy.remove(name)
        sums = "".join(reduction(self, how, array) for how, array in loop.sums if lanes)
        view = LoopView(name, "0", index(loop.extent, self.name), body, lanes, sums)
        return by_rows(self, loop, walked(self, loop, view))

    def letter(self) -> str:
        """Choose a loop variable that nothing around has."""
        letters = chain(LETTERS, (f"i{k}_" for k in count()))
        return next(n for n in letters if not any(m in self.busy or m in self.taken for m in (n, f"{n}0", f"{n}1")))

    def name(self, part: Any) -> str:
        """Name what an index is made of: an axis, a looked-up integer, an extent."""
        if isinstance(part, Axis):
            return self.env[part]
        if isinstance(part, Lookup):
            return self.lookups[part]
        held = getattr(part, "index", None)
        return self.name(held) if held is not None else str(part.name)

    # -- statements

    def statement(self, s: Statement, items: list[Item], made: list[ItemView], loads: dict[str, str]) -> None:
        """Turn one statement into views."""
        if s.how in {"call", "check"}:
            made.append(called(self, s, made, loads))
            return
        self.lookups: dict[Lookup, str] = {}
        array = s.target.array
        if fuses(self, s):
            multiply_add(self, s, made, loads)
            return
        text, tight = self.value(s.value, made, loads)
        register = array.place == "register" and array.kind == "temporary"
        if register and s.how == "=" and self.writes[array] == 1 and array not in self.names:
            if checks(s):  # it has a name already
                self.names[array] = text
                return
            stable = self.stable(s.value)
            if self.vanishes(s, items) and len(text) <= WIDE and (stable or self.read_next(s, items)):
                self.inline[array] = (text, tight)
                self.moving.update(() if stable else (array,))
                return
            made.append(LetView(f"const {ctype(array.dtype)}", self.fresh(array), text))
            return
        if register and array not in self.names:
            if s.how == "=" and not any(a.array is array for a in accesses(s.value)):
                made.append(LetView(ctype(array.dtype), self.fresh(array), text))
                return
            made.append(LocalView(ctype(array.dtype), self.fresh(array)))
        target = self.place(s.target, made, loads)
        made.append(store(self, s, target, text, made))

    def read_next(self, s: Statement, items: list[Item]) -> bool:
        """Tell a value that the very next statement reads."""
        place = self.position[id(s)] + 1
        following = items[place] if place < len(items) else None
        return isinstance(following, Statement) and any(a.array is s.target.array for a in accesses(following.value))

    def stable(self, value: Any) -> bool:
        """Tell a value that stays the same until it is read: of inputs and of registers written once."""
        return all(
            a.array.kind in {"input", "constant"}
            or (a.array.place == "register" and a.array.kind == "temporary" and self.writes.get(a.array, 0) == 1
                and a.array not in self.moving)
            for a in accesses(value)
        )

    def bound(self, text: str, dtype: np.dtype[Any], made: list[ItemView]) -> str:
        """Give a value a name, unless it has one."""
        if re.fullmatch(r"\w+|\d[\w.]*", text):
            return text
        name = self.fresh(None)
        made.append(LetView(f"const {ctype(dtype)}", name, text))
        return name

    # -- values

    def value(self, v: Any, made: list[ItemView], loads: dict[str, str]) -> tuple[str, bool]:
        """Print a value; the second result tells whether it needs no parentheses anywhere."""
        if isinstance(v, Number):
            return literal(v.value, v.dtype), True
        if isinstance(v, Access):
            return self.load(v, made, loads)
        if isinstance(v, IndexValue):
            self.look_up((v.index,), made, loads)
            text = index(v.index, self.name, 3)
            as_it_is = isinstance(v.index, Lookup) and ctype(v.dtype) == "int64_t"
            return (text, True) if as_it_is else (f"({ctype(v.dtype)}){text}", False)
        return self.applied(v, made, loads), False

    def applied(self, v: Apply, made: list[ItemView], loads: dict[str, str]) -> str:
        """Print an op applied to values, each of which has a name where the op's C needs it twice."""
        dtypes = tuple([self.dtype(a) for a in v.args])
        spelled = self.spelled(v, dtypes)
        names = []
        for k, arg in enumerate(v.args):
            if isinstance(arg, Apply) and not spelled.isidentifier() and uses(spelled, k) == 0:
                names.append("")  # what it would need has no use either
                continue
            text, tight = self.value(arg, made, loads)
            chosen = v.op.name == "where" and k > 0 and self.lanes is not None and "[" in text
            if chosen or (not spelled.isidentifier() and uses(spelled, k) > 1):  # what is chosen is read before:
                text = self.bound(text, dtypes[k], made)  # compilers make slow lanes of loads in one branch, or none
            elif not tight and not inside_call(spelled, k):
                text = f"({text})"
            names.append(text)
        params = dict(zip(v.op.params, v.params, strict=True))
        return self.call(spelled, tuple(names), dtypes, v.dtype, params)

    def spelled(self, v: Apply, dtypes: tuple[Any, ...]) -> str:
        """Choose how an op is written."""
        if v.op.lanes and f"exp{suffix(dtypes[-1])}" in self.target.simd_math:
            return v.op.lanes
        divisor = v.args[-1] if v.op.numpy is np.divide and self.lanes is not None and self.target.fma else None
        split = inverse_of(divisor.value) if isinstance(divisor, Number) and v.dtype == np.float64 else None
        if split is not None:
            return quotient(*[literal(part, v.dtype) for part in split])
        found = pattern(v.op.c, dtypes, v.dtype)
        if found is None:
            raise SymgradError(f"{v.op.name} has no C for {', '.join(d.name for d in dtypes)}")
        return found

    def call(self, spelled: Any, names: tuple[str, ...], dtypes: Any, result: Any, params: Any) -> str:
        """Fill a pattern, and note the functions it calls."""
        bare = expression(spelled, ("x",) * len(names), dtypes, result, params)  # arguments have noted their own
        self.used.update(re.findall(r"\b([a-z]\w*)\(", bare))
        end = suffix(dtypes[-1])
        for helper in re.findall(r"\b(sg_\w+?)(?=\()", bare):
            self.helpers.add((helper.removesuffix(end) if end else helper, ctype(dtypes[-1]), end))
        return expression(spelled, names, dtypes, result, params)

    def dtype(self, v: Any) -> Any:
        """Return a value's dtype."""
        return v.array.dtype if isinstance(v, Access) else v.dtype

    def load(self, access: Access, made: list[ItemView], loads: dict[str, str]) -> tuple[str, bool]:
        """Print an element that is read."""
        array = access.array
        if array in self.inline:
            text, tight = self.inline.pop(array)
            return text, tight
        text = self.place(access, made, loads)
        if self.lanes is not None and array.dtype.kind == "b" and array.place != "register":
            return self.call(FLAG, (text,), (self.lanes,), array.dtype, {}), True
        return (SET.format(text) if array.dtype.kind == "b" and array.kind == "input" else text), True

    def place(self, access: Access, made: list[ItemView], loads: dict[str, str]) -> str:
        """Print where an element stands."""
        array = access.array
        if array.place == "register" and array.kind == "temporary":
            return self.names[array]
        self.look_up(access.indices, made, loads)
        if access.flat:
            return f"{self.names[array]}[{index(access.indices[0], self.name)}]"
        kept = range(len(array.shape)) if array.kept is None else array.kept
        starts = [self.bounds[array.windows[d]][0] if d in array.windows else None for d in kept]
        where = offset([access.indices[d] for d in kept], array.stored, self.name, starts)
        return f"{self.names[array]}[{where}]"

    def look_up(self, indices: tuple[Any, ...], made: list[ItemView], loads: dict[str, str]) -> None:
        """Read the integers that indices are looked up from, each checked where it is not sure."""
        for i in indices:
            for part in parts(i):
                if not isinstance(part, Lookup) or part in self.lookups:
                    continue
                text, tight = self.value(part.access, made, loads)
                if part.check == SURE:
                    self.lookups[part] = text if tight else f"({text})"
                    continue
                extent = index(part.extent, self.name, 2)
                key = f"{text} < {extent} {part.check > 0}"
                if key not in loads:
                    loads[key] = self.fresh(None)
                    made.append(LookupView(loads[key], text, extent, part.check, self.leave, self.failed))
                self.lookups[part] = loads[key]


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))])

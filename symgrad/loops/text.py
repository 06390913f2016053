"""A loop program's text: Python that says what the C will do, and that runs (`symgrad.loops.run`).

It can be printed after every pass, so that a pass is tested by running the text before it and the text after it on
the same numbers. Every array and every loop variable around a statement has a name of its own.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.index.notation import Access, Axis, How, IndexValue, Lookup, Number, Statement, symbolic
from symgrad.ir.index.shapes import bare
from symgrad.ir.text import constant_text
from symgrad.loops.held import embed
from symgrad.loops.program import Cond, Loop, Outlined, Piece, Place, Team, Walk, While, accesses_in, looped, picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from symgrad.ir.index.notation import Value
    from symgrad.ir.index.shapes import Dim
    from symgrad.loops.program import Array, Item, Items, LoopProgram

RUN = "at, check, fma, lanes, memory, routine, slot, stack, team, tiles, workspace"

HEADER = f"""\
import numpy as np
import scipy.special
from symgrad import ops
from symgrad.loops.run import {RUN}
"""

ACCUMULATIONS = {
    How.MAXIMUM: "np.maximum", How.MINIMUM: "np.minimum", How.OR: "np.logical_or", How.AND: "np.logical_and",
}
"""NumPy's word for what Python has no operator for."""

DOUBLE = np.dtype(np.float64)


def loops_as_text(program: LoopProgram) -> str:
    """Print a loop program as a Python module of one function, which writes into its outputs."""
    program = embed(program)
    text = _Text(program)
    head = f"# {program.name}: workspace {program.workspace} bytes\n# {picture(program.body)}\n"
    head += "".join(f"# not verified, {what}\n" for what in program.undecided)
    return f"{head}{HEADER}\n\n{text.function(program.name)}\n"


class _Text:
    """What has a name, while one program is printed."""

    def __init__(self, program: LoopProgram) -> None:
        self.program, self.storage = program, program.storage
        self.taken = {"np", "scipy", "ops", "threads", "t", *RUN.split(", ")}
        self.names: dict[Array, str] = {}
        self.axes: dict[Axis, str] = {}
        self.starts: dict[Axis, str] = {}
        self.extents = bare([array.shape for array in program.inputs])
        self.taken |= {*map(str, self.extents)} | {str(team) for team in program.teams}
        for array in (*program.inputs, *program.outputs, *program.constants):
            self.named(array)

    def named(self, array: Array) -> str:
        if array not in self.names:
            self.names[array] = self.unique(array.name)
        return self.names[array]

    def unique(self, word: str) -> str:
        """Take a word that is not taken, by a number where it must be."""
        name = next(n for n in chain([word], (f"{word}{k}" for k in count(1))) if n not in self.taken)
        self.taken.add(name)
        return name

    # -- the function

    def function(self, name: str) -> str:
        program = self.program
        parameters = [self.named(array) for array in (*program.inputs, *program.outputs)]
        body = [f"{dim} = {program.inputs[k].name}.shape[{axis}]" for dim, (k, axis) in self.extents.items()]
        body += [f"{team} = {self.index(team.count)}" for team in program.teams]
        body += [f"{self.named(array)} = {constant_text(array.data)}" for array in program.constants]
        held = dict.fromkeys(access.array for access in accesses_in(program.body))
        if program.workspace != 0:
            body.append(f"space = workspace({self.index(program.workspace)})")
        shared = [a for a in held if a.is_temporary and self.storage[a].is_memory and not self.storage[a].is_private]
        body += map(self.declared, shared)
        same = [(self.named(a), self.named(b)) for a, b in program.donated if b in program.kept]
        body += [f"{new}[...] = {old}  # the same memory" for old, new in same]
        body += self.items(looped(program.body))
        lines = [f"def {name}({', '.join([*parameters, 'threads=1'])}):", *(f"    {line}" for line in body or ["pass"])]
        return "\n".join(lines)

    def declared(self, array: Array) -> str:
        stored, slot = self.storage[array].shape, self.storage[array].slot
        shape = f"({self.indices(stored)}{',' if len(stored) == 1 else ''})"
        where = f'{"memory" if slot is None else "stack"}("{array.dtype.name}", {shape})'
        if slot is not None and slot.place is Place.WORKSPACE:
            offset: Any = slot.offset
            own = f" + t*{self.index(slot.step, tight=True)}" if slot.step != 0 else ""
            where = f'slot(space, {self.index(offset)}{own}, "{array.dtype.name}", {shape})'
        return f"{self.named(array)} = {where}"

    # -- loops

    def items(self, items: Iterable[Item]) -> Iterator[str]:
        for item in items:
            if isinstance(item, Statement):
                yield from self.statement(item)
            elif isinstance(item, Cond):
                yield from self.branch(f"if {self.value(item.test)}:", item.then)
                if item.other:
                    yield from self.branch("else:", item.other)
            elif isinstance(item, While):
                yield from self.branch(f"while {self.value(item.test)}:", item.body)
            elif isinstance(item, Outlined):
                name = self.unique("part")  # what it assigns is its own, as in C
                yield from self.branch(f"def {name}():", item.body)
                yield f"{name}()"
            else:
                yield from self.loop(item)

    def branch(self, head: str, body: Items) -> Iterator[str]:
        yield head
        yield from (f"    {line}" for line in [*self.items(body)] or ["pass"])

    def loop(self, loop: Loop) -> Iterator[str]:
        before = set(self.taken)
        if loop.walk is Walk.THREADS:
            head, first = self.team(loop)
        elif loop.tile:
            head, first = self.tiles(loop)
        else:
            name = self.unique(_identifier_of(loop.axis.name))
            self.axes.update(dict.fromkeys(loop.members, name))
            walk = f"lanes({self.range(loop)})" if loop.walk is Walk.LANES else self.range(loop)
            head, first = f"for {name} in {walk}:{self.mark(loop)}", []
        yield head
        for line in [*first, *self.items(loop.body)] or ["pass"]:
            yield f"    {line}"
        for axis in loop.members:
            self.axes.pop(axis, None)
        held = set(self.names.values())
        self.taken = before | {name for name in self.taken if name in held}

    def team(self, loop: Loop) -> tuple[str, list[str]]:
        self.taken.add("t")
        self.axes.update(dict.fromkeys(loop.members, "t"))
        mine = dict.fromkeys(access.array for access in accesses_in([loop]))
        first = [self.declared(array) for array in mine if self.storage[array].is_private]
        for seen, whole, rest in [map(self.named, share) for share in loop.shares]:
            first.append(f"{seen} = {whole} if t == 0 else {rest}[t - 1, :{whole}.size].reshape({whole}.shape)")
        return f"for t in team({self.index(loop.extent)}):", first

    def tiles(self, loop: Loop) -> tuple[str, list[str]]:
        """Print the head of a loop over tiles; of tiles of one its variable is the index."""
        word = self.unique(f"{_identifier_of(loop.axis.name)}0" if loop.rows > 1 else _identifier_of(loop.axis.name))
        self.starts[loop.tile.start] = word  # type: ignore[union-attr]  # it has tiles
        if loop.rows == 1:
            self.axes.update(dict.fromkeys(loop.members, word))
        extent = self.index(loop.extent)
        spread = f"range(0, {extent}, {loop.rows})" if loop.rows > 1 else f"range({extent})"
        if loop.team is not None:
            spread = f"tiles({extent}, {loop.rows}, t, {self.index(loop.team.extent)})"
        return f"for {word} in {spread}:", []

    def range(self, loop: Loop) -> str:
        """Print what a loop runs over: all, a tile, the interior or the borders."""
        begin, end = "0", self.index(loop.extent)
        if loop.window is not None:
            begin = self.starts[loop.window.start]
            end = f"min({begin} + {loop.window.rows}, {end})"
        if loop.piece is Piece.ALL:
            every = f"range({end})" if begin == "0" else f"range({begin}, {end})"
            return f"reversed({every})" if loop.down else every
        low, high = (self.index(e) for e in loop.ends)
        if loop.piece is Piece.INTERIOR:
            return f"range(max({begin}, {low}), min({end}, {high}))"
        return f"(*range({begin}, min({end}, {low})), *range(max({begin}, {high}), {end}))"

    def mark(self, loop: Loop) -> str:
        sums = "".join(f" {how}:{self.named(array)}" for how, array in loop.sums)
        marks = [("product", loop.product), (sums.strip(), sums), (loop.piece.value, loop.piece.value)]
        said = ", ".join(word for word, is_so in marks if is_so)
        return f"  # {said}" if said else ""

    # -- statements

    def statement(self, s: Statement) -> Iterator[str]:
        indent = ""
        if s.ranges:
            yield "if " + " and ".join(
                f"{self.index(first)} <= {self.axes[axis]} < {self.index(end)}" for axis, first, end in s.ranges
            ) + ":"
            indent = "    "
        if s.how == How.CHECK:
            yield f"{indent}check({self.value(s.value)}, {s.check})"
            return
        if s.routine is not None:
            yield f"{indent}{self.called(s)}"
            return
        target = self.access(s.target)
        if s.how == How.SET:
            yield f"{indent}{target} = {self.stored(s)}"
        elif s.how == How.FMA:
            value: Any = s.value
            yield f"{indent}{target} = fma({', '.join(map(self.value, value.args))}, {target})"
        elif s.how in ACCUMULATIONS:
            yield f"{indent}{target} = {ACCUMULATIONS[s.how]}({target}, {self.value(s.value)})"
        else:
            yield f"{indent}{target} {s.how} {self.value(s.value)}"

    def called(self, s: Statement) -> str:
        routine: Any = s.routine
        walked = dict.fromkeys(routine.axes, ":")
        read, written = (self.access(access, walked) for access in (s.value, s.target))  # type: ignore[arg-type]
        read += "" if _iteration_order(s.value, routine.read) else ".T"
        written += "" if _iteration_order(s.target, routine.written) else ".T"
        return f'routine("{routine.name}", {routine.flags}, {read}, {written})'

    def stored(self, s: Statement) -> str:
        """Print a value that starts an array; in a register it must have its dtype."""
        if isinstance(s.value, Number) and not self.storage[s.target.array].is_memory:
            return f"np.{_dtype(s.value.dtype)}({_number_text(s.value)})"
        return self.value(s.value)

    def value(self, value: Value, *, inside: bool = False) -> str:
        if isinstance(value, Number):
            return _number_text(value) if value.dtype == DOUBLE else f"np.{_dtype(value.dtype)}({_number_text(value)})"
        if isinstance(value, Access):
            return self.access(value)
        if isinstance(value, IndexValue):
            return f"np.{_dtype(value.dtype)}({self.index(value.index)})"
        text: Any = value.op.text
        arguments = [self.value(arg, inside=value.op.infix is not None) for arg in value.args]
        if text is None:
            params = [f"{name}={p!r}" for name, p in zip(value.op.params, value.params, strict=True)]
            return f"ops.{value.op.name}({', '.join([*arguments, *params])})"
        printed = str(text(value, arguments))
        return f"({printed})" if inside and value.op.infix is not None else printed

    def access(self, access: Access, walked: dict[Axis, str] | None = None) -> str:
        array = access.array
        name = self.named(array)
        stored = self.storage[array]
        if not stored.is_memory:
            return name
        if access.flat:
            return f"{name}.flat[{self.index(access.indices[0])}]"
        places = []
        for d, tile in stored.kept.items():
            place = access.indices[d]
            if isinstance(place, Axis) and place in (walked or {}):
                places.append(":")
                continue
            start = "" if tile is None else f" - {self.starts[tile.start]}"
            places.append(f"{self.index(place)}{start}")
        return f"{name}[{', '.join(places) or '()'}]"

    # -- indices

    def indices(self, dims: Iterable[Dim]) -> str:
        return ", ".join(self.index(dim) for dim in dims)

    def index(self, index: Any, *, tight: bool = False) -> str:
        if type(index) is int:
            return str(index)
        if isinstance(index, Team):
            return str(index)
        if isinstance(index, Axis):
            return self.axes[index]
        if isinstance(index, Lookup):
            return f"at({self.access(index.access)}, {self.index(index.extent)})"
        text = str(_printer()(self).doprint(symbolic(index)))
        return f"({text})" if tight else text


@cache
def _printer() -> Any:
    """Make SymPy's printer one of integers, which looks names up."""
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):  # type: ignore[misc]  # SymPy has no types
        def __init__(self, text: _Text) -> None:
            super().__init__()
            self.text = text

        def _print_Symbol(self, e: Any) -> str:  # noqa: N802 - SymPy's names
            return self.text.index(e.index) if hasattr(e, "index") else str(e.name)

        _print_Dummy = _print_Symbol  # noqa: N815

        def _print_floor(self, e: Any) -> str:
            numerator, denominator = e.args[0].together().as_numer_denom()
            return f"(({self._print(numerator)}) // ({self._print(denominator)}))"

        def _print_Max(self, e: Any) -> str:  # noqa: N802
            return f"max({', '.join(map(self._print, e.args))})"

        def _print_Min(self, e: Any) -> str:  # noqa: N802
            return f"min({', '.join(map(self._print, e.args))})"

    return Printer


def _iteration_order(access: Any, axes: tuple[Axis, ...]) -> bool:
    """Whether an access has a matrix's rows before its columns."""
    found = [index for index in access.indices if index in axes]
    return found == [axis for axis in axes if axis in found]


def _identifier_of(name: str) -> str:
    return name if name.isidentifier() else "i"


def _dtype(dtype: Any) -> str:
    return "bool" if dtype.kind == "b" else str(dtype.name)


def _number_text(number: Number) -> str:
    value = number.value
    if isinstance(value, (bool, np.bool)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)) and number.dtype.kind != "f":
        return str(int(value))
    return repr(float(value)) if np.isfinite(value) else f'float("{float(value)}")'

"""Index notation: what an array operation means, element by element.

A statement is ``T[w(i)] how value(A[g(i)], B[h(i)], ...)`` for every point of its axes. The bodies of
structured ops are written in it, and the loops are built from it.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from enum import Enum
from functools import cache
from itertools import cycle
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from symgrad.errors import Line
    from symgrad.ir.index.shapes import Dim, Shape
    from symgrad.ir.op import Elementwise


R = TypeVar("R")
F = TypeVar("F", bound="Frozen")


class Frozen:
    """What never changes; `with_` makes another one of it.

    Attributes:
        computed: the names of what is computed when first asked for.
    """

    computed: ClassVar[tuple[str, ...]] = ()

    def with_(self: F, **fields: Any) -> F:  # noqa: PYI019 - Self is not in Python 3.10
        """Return it with other fields: as `dataclasses.replace` does, in a third of the time."""
        made = object.__new__(type(self))
        inside = made.__dict__
        inside.update(self.__dict__)
        for name in self.computed:
            inside.pop(name, None)
        inside.update(fields)
        return made


class Lazy(Generic[R]):
    """A property of a value that never changes, computed when first asked for (`cached_property` takes a lock)."""

    def __init__(self, compute: Callable[[Any], R]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name
        owner.computed = (*owner.computed, name)

    def __get__(self, value: Any, owner: type) -> R:
        """Compute it; what the value itself has comes first from then on."""
        if value is None:
            return self  # type: ignore[return-value]  # of the class, as properties are
        found = self.compute(value)
        object.__setattr__(value, self.name, found)
        return found


class Index:
    """What indices are reckoned with: ``2 * i + 1``; beside an unknown extent it becomes SymPy's."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        one, more = start_and_terms(self), start_and_terms(other)
        if more is None:
            return symbolic(self) + other
        start, terms = one[0] + more[0], {**one[1]}
        for part, step in more[1].items():
            terms[part] = terms.get(part, 0) + step
        return reckoned(start, terms)

    def __sub__(self, other: Any) -> Any:
        return self + -1 * other

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __mul__(self, other: Any) -> Any:
        if type(other) is not int:
            return symbolic(self) * symbolic(other)
        start, terms = start_and_terms(self)
        return reckoned(start * other, {part: step * other for part, step in terms.items()})

    __radd__, __rmul__ = __add__, __mul__

    # what is asked of sizes, as SymPy answers it

    is_Integer = False  # noqa: N815
    is_Symbol = False  # noqa: N815

    def __floordiv__(self, other: int) -> Any:
        """Divide a size; SymPy rounds down."""
        start, terms = start_and_terms(self)
        if all(number % other == 0 for number in (start, *terms.values())):
            return reckoned(start // other, {part: step // other for part, step in terms.items()})
        return symbolic(self) // other

    @property
    def is_nonnegative(self) -> bool:
        """Whether it is never below zero, for sure."""
        start, terms = start_and_terms(self)
        return bool(min(start, *terms.values()) >= 0)

    @property
    def free_symbols(self) -> Any:
        """What it depends on."""
        return symbolic(self).free_symbols

    def subs(self, known: Any) -> Any:
        """Put numbers in the place of what it depends on."""
        return symbolic(self).subs(known)


class _IndexPart(Index):
    """What an index is made of: equal to itself alone."""

    __slots__ = ("_symbol", "extent", "name")

    def __init__(self, name: str, extent: Dim) -> None:
        self.name, self.extent = name, extent
        self._symbol: Any = None

    @property
    def symbol(self) -> Any:
        """It as a SymPy symbol, beside unknown extents; made when first asked for."""
        if self._symbol is None:
            self._symbol = _index_symbol()(self.name, integer=True, nonnegative=True)
            self._symbol.index = self
        return self._symbol


class Axis(_IndexPart):
    """A loop variable from 0 to an extent; two axes are the same only when they are one object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{self.name}<{self.extent}"


class Count(_IndexPart):
    """The number of threads in a call, of which sizes are made: ``64*threads + 8``."""

    __slots__ = ()

    @property
    def symbol(self) -> Any:
        """It as a SymPy symbol, beside unknown extents."""
        import sympy

        return sympy.Symbol(self.name, integer=True, nonnegative=True)

    def __repr__(self) -> str:
        return self.name


class Reckoned(Index):
    """An integer, and integer multiples of axes and lookups: ``2*i + j + 1``; made by `reckoned`.

    >>> i, j = Axis("i", 3), Axis("j", 4)
    >>> i + j - 1, 2 * i + 1 == 1 + i * 2, i + 1 - 1
    (i + j - 1, True, i<3)
    """

    __slots__ = ("start", "terms")

    def __init__(self, start: int, terms: dict[Any, int]) -> None:
        self.start, self.terms = start, terms

    def __eq__(self, other: object) -> bool:
        return type(other) is Reckoned and self.start == other.start and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.start, frozenset(self.terms.items())))

    def __repr__(self) -> str:
        return str(self.printed(str, lambda part: part.name))

    def printed(self, number: Callable[[int], str], name: Callable[[Any], str]) -> str:
        """Print it: what is added first, then what is subtracted, each in the order of its text, and the number."""
        def word(term: tuple[Any, int]) -> tuple[bool, str]:
            part, step = term
            return step < 0, f"{step}*_{part.name}" if abs(step) > 1 else f"_{part.name}"

        text = ""
        for part, step in sorted(self.terms.items(), key=word):
            factor = "" if abs(step) == 1 else f"{number(abs(step))}*"
            text += (" - " if step < 0 else " + ") + factor + name(part)
        if self.start:
            text += (" - " if self.start < 0 else " + ") + number(abs(self.start))
        return text[3:] if text[1] == "+" else f"-{text[3:]}"


def start_and_terms(index: Any) -> Any:
    """Take an index apart into a number and steps; None where there is something else in it."""
    if type(index) is int:
        return index, {}
    if isinstance(index, _IndexPart):
        return 0, {index: 1}
    return (index.start, index.terms) if type(index) is Reckoned else None


def reckoned(start: int, terms: dict[Any, int]) -> Any:
    """Make the index of a number and steps: an integer, an axis or a lookup, if that is what it is."""
    terms = {part: step for part, step in terms.items() if step}
    if not terms:
        return start
    return next(iter(terms)) if start == 0 and [*terms.values()] == [1] else Reckoned(start, terms)


@cache
def _index_symbol() -> Any:
    """Make the SymPy symbol that remembers its axis or lookup: a dummy, equal only to itself, whatever its name."""
    import sympy

    class IndexSymbol(sympy.Dummy):  # type: ignore[misc]  # SymPy has no types
        __slots__ = ("index",)

    return IndexSymbol


SURE = -1
"""What stands in the place of a check's number where an integer is a place as it stands: checked, and nonnegative."""


class Lookup(_IndexPart):
    """An index that is read from an array of integers, checked against the extent it indexes.

    Attributes:
        access: where the integer stands.
        extent: what it indexes; negative ones count from its end.
        check: the number of the runtime check, which the caller turns into a message; 0 where none is needed, `SURE`
            where the integer does not count from the end either.
        soon: so many integers further on stands what is looked up a while later, and may be asked for (0: nothing).
    """

    __slots__ = ("access", "check", "soon")

    def __init__(self, access: Any, extent: Dim, check: int, soon: Dim = 0) -> None:
        super().__init__("lookup", extent)
        self.access, self.check, self.soon = access, check, soon

    @property
    def ahead(self) -> Dim:
        """How much further the next ones stand where the integers are those of the caller: behind copies is nothing."""
        return self.soon if self.access.array.is_given and self.access.indices else 0

    def by(self, access: Any) -> Lookup:
        """Read the integer elsewhere; itself where it stands there."""
        return self if access is self.access else Lookup(access, self.extent, self.check, self.soon)


def symbolic(index: Any) -> Any:
    """Return an index as something SymPy can reckon with."""
    if type(index) is Reckoned:
        return sum([step * part.symbol for part, step in index.terms.items()], index.start)
    return index.symbol if isinstance(index, _IndexPart) else index


def parts(index: Any) -> list[Any]:
    """List the axes and lookups an index is made of."""
    if isinstance(index, _IndexPart):
        return [index]
    if type(index) is int:
        return []
    if type(index) is Reckoned:
        return [*index.terms] if len(index.terms) == 1 else sorted(index.terms, key=lambda part: part.name)
    return [s.index for s in sorted(index.free_symbols, key=str) if hasattr(s, "index")]


def rebuilt(index: Any, part: Callable[[Any], Any]) -> Any:
    """Rebuild an index: this is the one way in which indices change; `part` says what stands for an axis or lookup."""
    if type(index) is int:
        return index
    if isinstance(index, (Axis, Lookup)):
        return part(index)
    new = {p: q for p in parts(index) if (q := part(p)) is not p}
    if not new:
        return index
    if type(index) is Reckoned:
        return as_index(sum([step * new.get(p, p) for p, step in index.terms.items()], index.start))
    return as_index(index.subs({p.symbol: symbolic(q) for p, q in new.items()}, simultaneous=True))


def substitute(index: Any, by: dict[Axis, Any]) -> Any:
    """Replace axes in an index by other indices."""
    if type(index) is Axis:
        return by.get(index, index)

    def part(p: Any) -> Any:
        if isinstance(p, Axis):
            return by.get(p, p)
        return p.by(p.access.at(by))

    return rebuilt(index, part)


class LinearIndex(NamedTuple):
    """An index as what is fixed, and how much of each axis or lookup there is beside."""

    start: Any
    terms: tuple[tuple[Any, Any], ...]


def linear(index: Any, along: Container[Any] | None = None) -> LinearIndex | None:
    """Take an index apart into what is fixed and steps along its axes and lookups; None where it is not linear in them.

    Args:
        index: what is taken apart; starts and steps may depend on unknown extents.
        along: the axes that count; what else the index is made of is fixed. All of its parts where left out.

    >>> i = Axis("i", 4)
    >>> linear(2 * i + 1)
    LinearIndex(start=1, terms=((i<4, 2),))
    >>> linear(i, along=())
    LinearIndex(start=i<4, terms=())
    """
    found = [p for p in parts(index) if along is None or p in along]
    if not found:
        return LinearIndex(index, ())
    if found[0] is index:
        return LinearIndex(0, ((index, 1),))
    if type(index) is Reckoned:
        rest = {p: step for p, step in index.terms.items() if p not in found}
        return LinearIndex(reckoned(index.start, rest), tuple([(p, index.terms[p]) for p in found]))
    expanded = index.expand()
    steps = [(p, expanded.coeff(p.symbol)) for p in found]
    start = (expanded - sum(step * p.symbol for p, step in steps)).expand()
    symbols = {p.symbol for p in found}
    if any(not symbols.isdisjoint(e.free_symbols) for e in (start, *[step for _, step in steps])):
        return None
    return LinearIndex(as_index(start), tuple([(p, as_index(step)) for p, step in steps]))


def varies(index: Any, along: Container[Axis]) -> bool:
    """Whether an index changes along some axes, by what it is looked up from as well."""
    return any(
        any(varies(i, along) for i in p.access.indices) if isinstance(p, Lookup) else p in along for p in parts(index)
    )


def as_index(expression: Any) -> Any:
    """Turn SymPy's expression back into the simplest index; itself where it has an unknown extent or is not linear."""
    if type(expression) is int or isinstance(expression, Index):
        return expression
    terms = [t.as_coeff_Mul() for t in (expression.args if expression.is_Add else (expression,))]
    if not all(step.is_Integer and (rest == 1 or hasattr(rest, "index")) for step, rest in terms):
        return expression
    return sum([int(step) * (1 if rest == 1 else rest.index) for step, rest in terms], 0)


class Access:
    """An element of an array: ``A[i, 2*j + 1]``; `flat` reads its C-contiguous elements by one index.

    `array` is an operand's number in an op's body (-1 the result, -2 and below temporaries) and an
    `Array` in loops. Two accesses are the same only when they are one object, and none changes. (By hand, for there
    are many: a frozen dataclass takes three times as long to make.)
    """

    __slots__ = ("array", "flat", "indices")

    array: Any
    indices: tuple[Any, ...]
    flat: bool

    def __init__(self, array: Any, indices: tuple[Any, ...], flat: bool = False) -> None:
        _ARRAY(self, array)
        _INDICES(self, indices)
        _FLAT(self, flat)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        return f"Access({self.array!r}, {self.indices!r}{', flat=True' if self.flat else ''})"

    def at(self, by: dict[Axis, Any]) -> Access:
        """Read at other indices."""
        return self.moved(tuple([substitute(i, by) for i in self.indices]))

    @property
    def parts(self) -> list[Any]:
        """The axes and lookups that its indices are made of."""
        found: list[Any] = []
        for i in self.indices:
            if type(i) is Axis:
                found.append(i)
            elif type(i) is not int:
                found += parts(i)
        return found

    @property
    def is_bare(self) -> bool:
        """Whether its indices are axes as they are."""
        for i in self.indices:
            if type(i) is not Axis:
                return False
        return not self.flat

    @property
    def is_indirect(self) -> bool:
        """Whether an index is looked up."""
        return Lookup in map(type, self.parts)

    def along(self, axes: Container[Any]) -> bool:
        """Whether an index is made of one of some axes."""
        return any(map(axes.__contains__, self.parts))

    def steps(self, axes: Container[Axis]) -> dict[int, Any] | None:
        """Return by how much each index grows with one variable of some axes; None where one does not grow evenly."""
        found: dict[int, Any] = {}
        for d, index in enumerate(self.indices):
            if type(index) is Axis:
                if index in axes:
                    found[d] = 1
                continue
            form = None if any(type(p) is Lookup and varies(p, axes) for p in parts(index)) else linear(index, axes)
            if form is None:
                return None
            if form.terms:
                found[d] = sum([step for _, step in form.terms])
        return found

    def of(self, array: Any) -> Access:
        """Read the same place of an array; itself where it is its own."""
        return self if array is self.array else Access(array, self.indices, self.flat)

    def moved(self, indices: tuple[Any, ...]) -> Access:
        """Read the same array at indices; itself where they are its own."""
        return self if all(map(is_, indices, self.indices)) else Access(self.array, indices, self.flat)


_ARRAY, _INDICES, _FLAT = [vars(Access)[name].__set__ for name in ("array", "indices", "flat")]


class Number(NamedTuple):
    """A literal of a dtype."""

    value: Any
    dtype: np.dtype[Any]


class IndexValue(NamedTuple):
    """An index or an extent as a value of a dtype (for arange, argmax and comparisons of axes)."""

    index: Any
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Apply(Frozen):
    """An elementwise op applied to values; `dtype` is the result's, `kind` that of its arguments."""

    op: Elementwise
    args: tuple[Value, ...]
    dtype: np.dtype[Any]
    kind: np.dtype[Any]
    params: tuple[Any, ...] = ()

    @property
    def is_product(self) -> bool:
        """Whether it is a product of floating-point numbers."""
        return self.op.numpy is np.multiply and self.dtype.kind == "f"

    @Lazy
    def accesses(self) -> tuple[Access, ...]:
        """What it reads, in order: found once, for every step of scheduling asks."""
        found: list[Access] = []
        stack: list[Any] = list(reversed(self.args))
        while stack:
            item = stack.pop()
            if isinstance(item, Apply):
                stack.extend(reversed(item.args))
            else:
                found.extend(accesses(item))
        return tuple(found)

    @Lazy
    def counts(self) -> tuple[int, int, int, int]:
        """How many functions it calls, how often it divides, how many other operations it does, and index values."""
        calls = divisions = others = indices = 0
        stack: list[Any] = [self]
        while stack:
            value = stack.pop()
            if isinstance(value, Apply):
                stack.extend(value.args)
                spelled = value.op.c.get(value.kind.kind, "")
                if spelled.isidentifier() or "sg_" in spelled:
                    calls += 1
                elif "/" in spelled:
                    divisions += 1
                else:
                    others += 1
            elif isinstance(value, IndexValue):
                indices += 1
        return calls, divisions, others, indices


Value: TypeAlias = Access | Number | IndexValue | Apply


class Routine(NamedTuple):
    """A C function of whole matrices, which a statement calls at each point of its axes.

    It gets extents, flags, then address and strides of the matrix that is read, and of the one that is written in
    place; where both are one, it is passed once. The axes of the matrices it walks itself: no loop has them.

    Attributes:
        name: the function's.
        extents: the axes whose extents it gets.
        read, written: the axes of rows and columns of the two matrices.
        work: how many products it adds up.
        flags: settings.
    """

    name: str
    extents: tuple[Axis, ...]
    read: tuple[Axis, ...]
    written: tuple[Axis, ...]
    work: Dim
    flags: tuple[int, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes it walks."""
        return tuple(dict.fromkeys([*self.read, *self.written]))

    def at(self, by: dict[Axis, Axis]) -> Routine:
        """Walk other axes."""
        extents, read, written = [
            tuple([by.get(axis, axis) for axis in axes]) for axes in (self.extents, self.read, self.written)
        ]
        return self._replace(extents=extents, read=read, written=written)


class How(str, Enum):
    """What a statement does with its target; index notation may be written by the values."""

    SET = "="
    ADD = "+="
    FMA = "fma"  # adds a product, in one rounding
    MULTIPLY = "*="
    MAXIMUM = "max="
    MINIMUM = "min="
    OR = "|="
    AND = "&="
    CALL = "call"  # `routine` makes the target of itself and of the value
    CHECK = "check"  # the call of the program fails unless the value is 0

    __str__ = str.__str__


class Role(Enum):
    """What a statement is there for, where that decides with which others it shares a loop."""

    VALUE = "value"
    TOTAL = "total"  # it adds a tile's sum to the whole one
    COLUMN = "column"  # it copies a column or looked-up rows, or stores one: its leaps would keep lanes from others
    PLACES = "places"  # it checks indices
    SPREAD = "spread"  # it stores a result that all threads read next: it is copied past the caches
    GUARD = "guard"  # it checks that Python would branch as it did: nothing after it may fail before


@dataclass(frozen=True, eq=False)
class Statement(Frozen):
    """``target how value``, for every point of `axes`.

    Attributes:
        target: what is written; its array's number or `Array`.
        how: it starts elements, accumulates, calls, or checks.
        value: a small expression; what it reads of `prefix` arrays is their running value.
        axes: parallel and reduced axes, in the order the loops would have if nothing else spoke.
        line: the user's line.
        role: what it is there for.
        ranges: axes that run over a part of their extent only, each as ``(axis, first, end)``.
        routine: what a ``call`` calls.
        check: the number of a ``check``.
        failure: what to say when a ``check`` fails, or the number of a guard.
        triangle: of a sum of products, two axes and by how much the first is larger, at least, in the terms that count.
    """

    target: Access
    how: How
    value: Value
    axes: tuple[Axis, ...]
    line: Line | None = None
    role: Role = Role.VALUE
    prefix: frozenset[Any] = frozenset()
    ranges: tuple[tuple[Axis, Dim, Dim], ...] = ()
    routine: Routine | None = None
    check: int = 0
    failure: str | int = ""
    triangle: tuple[Axis, Axis, int] | None = None

    @Lazy
    def reads(self) -> tuple[Access, ...]:
        """What is read, in order: what the target's indices are looked up from, then what the value is made of."""
        return (*looked_up(self.target.indices), *accesses(self.value))

    @Lazy
    def touched(self) -> tuple[Access, ...]:
        """Every access, its target first."""
        return (self.target, *self.reads)

    def runs_in_order(self, axes: frozenset[Axis]) -> bool:
        """Whether what it does along some axes is done one after the other.

        So are running values, and what is written at places that are looked up: of two of one place the last one stays.
        """
        looked_up = self.how is How.SET and self.target.is_indirect and axes.isdisjoint(self.target.indices)
        return looked_up or bool(self.prefix)

    @property
    def may_fail(self) -> bool:
        """Whether the call may fail by it: it is a check, or an integer that it reads is checked."""
        read = self.value.index if isinstance(self.value, IndexValue) else 0
        return self.how == How.CHECK or any(isinstance(p, Lookup) and p.check > 0 for p in parts(read))

    @Lazy
    def is_contraction(self) -> bool:
        """Whether it is a sum of products of floating-point elements, where each factor has an axis of its own."""
        value = self.value
        if self.how != How.ADD or self.prefix or self.ranges or not isinstance(value, Apply) or not value.is_product:
            return False
        factors = [a for a in value.args if isinstance(a, Access)]
        if len(factors) < 2 or self.target.array in {a.array for a in factors}:
            return False
        left, right = [set(a.parts) for a in factors]
        return bool(left - right and right - left and left & right)

    def mapped(self, access: Change, index: Callable[[Any], Any], fold: Fold = None, **fields: Any) -> Statement:
        """Return it with other accesses and indices, as `mapped` does for values; itself where nothing is other."""
        target, value = access(self.target), mapped(self.value, access, index, fold)
        if target is self.target and value is self.value and not fields:
            return self
        return self.with_(target=target, value=value, **fields)

    def at(self, by: dict[Axis, Any]) -> Statement:
        """Return it at some points of its axes, or along others; `by` says where."""
        axes = tuple([axis for axis in self.axes if axis not in by])
        return self.mapped(lambda a: a.at(by), lambda i: substitute(i, by), axes=axes)


class Temporary(NamedTuple):
    """An array of a body that is neither operand nor result."""

    shape: Shape
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Body:
    """The statements of a structured op, in order; temporaries are arrays -2, -3, ..."""

    statements: tuple[Statement, ...]
    temporaries: tuple[Temporary, ...] = ()


def axes_of(shape: Shape) -> tuple[Axis, ...]:
    """Make one axis for each extent."""
    return tuple(map(Axis, cycle("ijklmnpqrstuvw"), shape))


Change: TypeAlias = "Callable[[Access], Any]"
"""What stands in the place of an access: another access, or any value where a value may stand."""

Fold: TypeAlias = "Callable[[Apply | IndexValue], Value] | None"


def mapped(value: Value, access: Change, index: Callable[[Any], Any], fold: Fold = None) -> Value:
    """Rebuild a value: this is the one way in which statements change.

    Args:
        value: what is rebuilt; what does not change stays the same object.
        access: what stands in the place of what is read; it sees to the indices itself.
        index: what stands in the place of an index that is a value.
        fold: what stands in the place of an application, or of an index, whose parts have been rebuilt.
    """
    if isinstance(value, Access):
        return access(value)  # type: ignore[no-any-return]
    if isinstance(value, Apply):
        args = tuple([mapped(a, access, index, fold) for a in value.args])
        if not all(map(is_, args, value.args)):
            value = Apply(value.op, args, value.dtype, value.kind, value.params)
        return value if fold is None else fold(value)
    if isinstance(value, IndexValue):
        made = index(value.index)
        value = value if made is value.index else IndexValue(made, value.dtype)
        return value if fold is None else fold(value)
    return value


def everywhere(change: Change) -> tuple[Change, Callable[[Any], Any]]:
    """Let a change reach the accesses that indices are looked up from as well; return the two arguments of `mapped`."""
    made = _Everywhere(change)
    return made.access, made.index


@dataclass(slots=True)
class _Everywhere:
    """A change of accesses and indices, which call each other: closures would hold each other, and all they know."""

    change: Change

    def access(self, a: Access) -> Any:
        for i in a.indices:
            if type(i) is not int and type(i) is not Axis:
                a = a.moved(tuple(map(self.index, a.indices)))
                break
        return self.change(a)

    def part(self, p: Any) -> Any:
        if isinstance(p, Axis) or not isinstance(p.access, Access):  # a number was put in its place
            return p
        return p.by(self.access(p.access))

    def index(self, i: Any) -> Any:
        return i if type(i) is int or type(i) is Axis else rebuilt(i, self.part)


def accesses(value: Value) -> tuple[Access, ...]:
    """List the accesses of a value in the order they are read, those inside of indices first."""
    if isinstance(value, Apply):
        return value.accesses
    if isinstance(value, Access):
        return (*looked_up(value.indices), value)
    return tuple(looked_up((value.index,))) if isinstance(value, IndexValue) else ()


def looked_up(indices: tuple[Any, ...]) -> list[Access]:
    """List the accesses that indices are read from, the inner ones first."""
    found: list[Access] = []
    for index in indices:
        for part in () if type(index) is Axis or type(index) is int else parts(index):
            if isinstance(part, Lookup) and isinstance(part.access, Access):
                found.extend([*looked_up(part.access.indices), part.access])
    return found

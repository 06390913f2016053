"""Expressions as C: literals, indices and sizes, and what ops are spelled as.

An expression is printed together with how tightly its outermost operator binds, so that parentheses stand only where
C would group otherwise, or where a compiler warns of a habit that is mistaken easily (``a && b || c``). They keep the
order of floating-point operations: ``a + (b + c)`` is not ``a + b + c``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.index.bounds import nonnegative
from symgrad.ir.index.notation import Axis, Index, Reckoned, symbolic
from symgrad.ops.declare.spelling import fill_pattern, suffix

Names = Callable[[Any], str]
Sized = Callable[[Any, "Printed"], "Printed"]

INT32 = 1 << 31


class Level(IntEnum):
    """How tightly an expression's outermost operator binds."""

    CHOICE = 0
    OR = 1
    AND = 2
    COMPARISON = 3
    BITS = 4
    SUM = 5
    PRODUCT = 6
    UNARY = 7
    ATOM = 8


class Printed(NamedTuple):
    """An expression in C."""

    text: str
    level: Level = Level.ATOM

    def within(self, allowed: Levels) -> str:
        """Print it as an operand, in parentheses unless its level is one of those `allowed` there."""
        return self.text if self.level in allowed else f"({self.text})"


Levels = frozenset[Level]
ANY = frozenset(Level)


def tight(level: Level) -> Levels:
    """Return what binds at least so tightly."""
    return frozenset([each for each in Level if each >= level])


SUMS, PRODUCTS, UNARIES, ATOMS = map(tight, (Level.SUM, Level.PRODUCT, Level.UNARY, Level.ATOM))

OPERATORS: dict[str, tuple[Level, Levels, Levels]] = {
    "||": (Level.OR, tight(Level.COMPARISON) | {Level.OR}, tight(Level.COMPARISON)),
    "&&": (Level.AND, tight(Level.AND), tight(Level.COMPARISON)),
    **dict.fromkeys(["==", "!=", "<", ">", "<=", ">="], (Level.COMPARISON, SUMS, SUMS)),
    **dict.fromkeys(["&", "|", "^", "<<", ">>"], (Level.BITS, UNARIES, UNARIES)),
    **dict.fromkeys(["+", "-"], (Level.SUM, SUMS, PRODUCTS)),
    **dict.fromkeys(["*", "/", "%"], (Level.PRODUCT, PRODUCTS, UNARIES)),
}
"""Binary operators: their level, and what may stand at their left and at their right without parentheses."""


class Template(NamedTuple):
    """A spelling, taken apart: its text around places, each with its argument's number and what may stand there."""

    level: Level
    text: tuple[str, ...]
    places: tuple[tuple[int, Levels], ...]
    functions: tuple[str, ...]


class _Tree(NamedTuple):
    """What a spelling says, parsed: an operator's or a call's parts, or the number of a place."""

    level: Level
    parts: tuple[tuple[_Tree, Levels], ...] = ()
    place: int = -1

    def places(self, allowed: Levels) -> list[tuple[int, Levels]]:
        """List the places from left to right, each with what may stand there."""
        inside = [place for part, levels in self.parts for place in part.places(levels)]
        return inside if self.place < 0 else [(self.place, allowed)]


_CAST = r"\((?:u?int\d+_t|double|float|_Bool)\)"
_TOKEN = re.compile(rf"@\d+|sizeof\(\w+\)|{_CAST}|[\d.]+(?:e-?\d+)?\w*|\w+|\|\||&&|<<|>>|[=!<>]=|\S")
_PREFIX = re.compile(rf"[-!~]|{_CAST}")


def _parse_choice(tokens: list[str]) -> _Tree:
    """Parse C, as far as ops are spelled in it, from a list of tokens in reverse."""
    made = _parse_binary(tokens, Level.OR)
    if tokens[-1] != "?":
        return made
    tokens.pop()
    chosen = _parse_choice(tokens)
    tokens.pop()
    return _Tree(Level.CHOICE, ((made, tight(Level.OR)), (chosen, tight(Level.OR)), (_parse_choice(tokens), ANY)))


def _parse_binary(tokens: list[str], loosest: int) -> _Tree:
    made = _parse_operand(tokens)
    while tokens[-1] in OPERATORS and OPERATORS[tokens[-1]][0] >= loosest:
        level, left, right = OPERATORS[tokens.pop()]
        made = _Tree(level, ((made, left), (_parse_binary(tokens, level + 1), right)))
    return made


def _parse_operand(tokens: list[str]) -> _Tree:
    word = tokens.pop()
    if word.startswith("@"):
        return _Tree(Level.ATOM, place=int(word[1:]))
    if _PREFIX.fullmatch(word):
        return _Tree(Level.UNARY, ((_parse_operand(tokens), UNARIES),))
    if word != "(" and tokens[-1] == "(":
        word = tokens.pop()
    parts = []
    while word in {"(", ","}:
        parts.append((_parse_choice(tokens), ANY))
        word = tokens.pop()
    return _Tree(Level.ATOM, tuple(parts))


@cache
def template(c: str) -> Template:
    """Take a spelling apart in which ``@0``, ``@1`` stand for arguments.

    >>> template("exp(@0) * @1").functions, template("exp(@0) * @1").level.name
    (('exp',), 'PRODUCT')
    """
    tree = _parse_choice(["", *reversed(_TOKEN.findall(c))])
    functions = dict.fromkeys(re.findall(r"\b([a-z]\w*)\(", c))
    return Template(tree.level, tuple(re.split(r"@\d+", c)), tuple(tree.places(ANY)), tuple(functions))


def in_c(
    c: str, arguments: Sequence[Printed], dtypes: Sequence[np.dtype[Any]], result: np.dtype[Any], params: Any = None,
) -> tuple[Printed, tuple[str, ...]]:
    """Print what an op is spelled as; the second result is the functions that it calls.

    >>> x, y, double = Printed("x"), Printed("y - 1.0", Level.SUM), np.dtype("f8")
    >>> [in_c(s, (x, y), (double, double), double)[0].text for s in ("{0} - {1}", "{1} - {0}", "-{1}", "pow")]
    ['x - (y - 1.0)', 'y - 1.0 - x', '-(y - 1.0)', 'pow(x, y - 1.0)']
    """
    made = template(fill_pattern(c, [f"@{k}" for k in range(len(arguments))], dtypes, result, params))
    if made.text == ("", ""):
        return arguments[made.places[0][0]], ()
    text = made.text[0]
    for (k, allowed), after in zip(made.places, made.text[1:], strict=True):
        argument = arguments[k].within(allowed)
        text += (f"({argument})" if text.endswith("-") and argument.startswith("-") else argument) + after
    return Printed(text, made.level), made.functions


# -- numbers


def c_number(value: Any, dtype: np.dtype[Any]) -> Printed:
    """Print a number of a dtype so that C reads back the same bits."""
    text = c_literal(value, dtype)
    return Printed(text, Level.UNARY if text[0] in "-(" else Level.ATOM)


def c_literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Print a number of a dtype as `c_number` does.

    >>> c_literal(0.1, np.dtype("f4")), c_literal(-0.0, np.dtype("f8")), c_literal(2, np.dtype("f8"))
    ('0.1f', '-0.0', '2.0')
    """
    if dtype.kind == "b":
        return "1" if value else "0"
    if dtype.kind in "iu":
        return integer(int(value), unsigned=dtype.kind == "u")
    number = dtype.type(value)
    double = dtype.itemsize == 8  # NAN and INFINITY are float, of which clang warns
    if np.isnan(number):
        return "(double)NAN" if double else "NAN"
    if np.isinf(number):
        return ("" if number > 0 else "-") + ("HUGE_VAL" if double else "INFINITY")
    text = str(number)
    if not any(mark in text for mark in ".e"):
        text += ".0"
    return text + suffix(dtype)


def integer(value: int, *, unsigned: bool = False) -> str:
    """Print an integer, with the macro of stdint.h where plain C would read another type."""
    if unsigned:
        return f"UINT64_C({value})" if value >= INT32 else f"{value}u"
    if value == -(1 << 63):
        return "INT64_MIN"
    if value == (1 << 63) - 1:
        return "INT64_MAX"
    return str(value) if -INT32 < value < INT32 else f"INT64_C({value})"


# -- indices and extents


def index(expression: Any, name: Names, allowed: Levels = ANY) -> str:
    """Print an index or an extent; `name` gives the C names of axes, lookups and extents."""
    return name(expression) if type(expression) is Axis else printed(expression, name).within(allowed)


@dataclass(frozen=True)
class Naming:
    """Names of what indices and extents are made of, `part`, and what stands for a printed size, `sized`."""

    part: Names
    sized: Sized

    def __call__(self, part: Any) -> str:
        """Name an axis, a lookup or an extent."""
        return self.part(part)


def printed(e: Any, name: Names) -> Printed:
    """Print an index or an extent."""
    if type(e) is int:
        return Printed(integer(e), Level.ATOM if e >= 0 else Level.UNARY)
    if type(e) is Reckoned:
        is_product = not e.start and len(e.terms) == 1 and -1 not in e.terms.values()
        return Printed(e.printed(integer, name), Level.PRODUCT if is_product else Level.SUM)
    if isinstance(e, Index) or e.is_Symbol:
        return Printed(name(e))
    if e.is_Integer:
        return printed(int(e), name)
    made = _PRINTERS[type(e).__name__](e, name)
    return name.sized(e, made) if isinstance(name, Naming) else made


@lru_cache(4096)
def _terms(e: Any) -> tuple[tuple[bool, Any], ...]:
    """List the terms of a sum in order, each whether it is subtracted; to sort them takes SymPy long."""
    terms = sorted(e.args, key=lambda t: (t.is_Integer, t.could_extract_minus_sign(), str(t)))
    return tuple([(t.could_extract_minus_sign(), -t if t.could_extract_minus_sign() else t) for t in terms])


@lru_cache(4096)
def _printed_factors(e: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return what a product is divided by, and its factors in order."""
    numerator, denominator = (e.args[0].together() if type(e).__name__ == "floor" else e).as_numer_denom()
    if denominator != 1:
        return denominator, (numerator,)
    extents = sorted([t for t in e.args if t.is_Symbol], key=str)
    if 1 < len(extents) < len(e.args):  # a product of extents is one factor: it may have a name
        extents = [e.func(*extents, evaluate=False)]
    elif len(extents) > 2:
        extents = [e.func(*extents[:-1], evaluate=False), extents[-1]]
    others = [t for t in e.args if not t.is_Symbol]
    order = sorted([*extents, *others], key=lambda t: (not t.is_Integer, not (t.is_Mul or t.is_Symbol), str(t)))
    return 1, tuple(order)


def _add(e: Any, name: Names) -> Printed:
    (minus, first), *others = _terms(e)
    text = index(-first if minus else first, name, SUMS)
    for minus, term in others:
        text += f" {'-' if minus else '+'} {index(term, name, PRODUCTS)}"
    return Printed(text, Level.SUM)


def _mul(e: Any, name: Names) -> Printed:
    divisor, factors = _printed_factors(e)
    sign = "-" * (factors[0] == -1)
    texts = [
        index(f, name, ATOMS if divisor != 1 or not (f.is_Pow or f.is_Mul) else PRODUCTS) for f in factors[len(sign) :]
    ]
    if divisor != 1:
        return Printed(_rounded_down(texts[0], index(divisor, name, ATOMS), factors[0]), Level.PRODUCT)
    return Printed(sign + "*".join(texts), Level.SUM if sign else Level.PRODUCT)


def _mod(e: Any, name: Names) -> Printed:
    value, by = [index(a, name, ATOMS) for a in e.args]
    return Printed(_remainder(value, by, e), Level.PRODUCT)


def _rounded_down(value: str, by: str, number: Any) -> str:
    """Print what a number divided by another is, rounded down; C rounds towards zero."""
    if nonnegative(number.expand()):
        return f"{value} / {by}"
    return f"({value} - ({value} % {by} + {by}) % {by}) / {by}"


def _remainder(value: str, by: str, e: Any) -> str:
    """Print a remainder with the sign of what is divided by; C's has that of the number."""
    if e.args[0].is_nonnegative and e.args[1].is_nonnegative:
        return f"{value} % {by}"
    return f"({value} % {by} + {by}) % {by}"


def _extreme(helper: str) -> Callable[[Any, Names], Printed]:
    def extremum(e: Any, name: Names) -> Printed:
        terms = sorted(e.args, key=lambda t: (t.is_Integer, str(t)))
        return Printed(reduce(lambda text, other: f"{helper}({text}, {other})", [index(t, name) for t in terms]))

    return extremum


_PRINTERS: dict[str, Callable[[Any, Names], Printed]] = {
    "Add": _add, "Mul": _mul, "floor": _mul, "Mod": _mod, "Max": _extreme("sg_larger"), "Min": _extreme("sg_smaller"),
    "Pow": lambda e, name: Printed("*".join([index(e.base, name, ATOMS)] * int(e.exp)), Level.PRODUCT),
}


def offset(indices: Sequence[Any], shape: Sequence[Any], name: Names, starts: list[str | None] | None = None) -> str:
    """Print the element number of a C-contiguous array's element; a dimension may begin at the start of a tile.

    >>> i, j = Axis("i", 3), Axis("j", 4)
    >>> offset([i, j], (3, 4), lambda axis: axis.name)
    'i*4 + j'
    """
    terms: list[str] = []
    constant = 0
    step: Any = 1
    begins = starts or [None] * len(shape)
    for position, dim, start in zip(reversed(indices), reversed(shape), reversed(begins), strict=True):
        if start is not None:
            text = f"{index(position, name)} - {start}"
            terms.append(text if step == 1 else f"({text})*{index(step, name, ATOMS)}")
        elif type(position) is int and type(step) is int:
            constant += position * step
        elif not (type(position) is int and position == 0):
            text = index(position, name, SUMS if step == 1 else ATOMS)
            terms.append(text if step == 1 else f"{text}*{index(step, name, ATOMS)}")
        step = step * dim
    if constant or not terms:
        terms.insert(0, str(constant))
    return " + ".join(reversed(terms)).replace("+ -", "- ")


# -- sizes that cannot overflow: every sum and product stays at the largest integer once it is reached

SIZES = {"Add": "sg_plus", "Mul": "sg_times", "Pow": "sg_times", "Max": "sg_most", "Min": "sg_least"}
"""The functions that compute them, each after those that it needs."""


def c_size(expression: Any) -> str:
    """Print an extent, or a number of bytes.

    >>> from symgrad.ir.index.shapes import symbol
    >>> c_size(8 * symbol("n") * symbol("d") + 8)
    'sg_plus(sg_times(sg_times(8, d), n), 8)'
    """
    expression = symbolic(expression)
    if type(expression) is int or expression.is_Integer:
        return integer(int(expression))
    if expression.is_Symbol:
        return str(expression)
    kind = type(expression).__name__
    if kind in {"floor", "Mod"}:
        above, below = expression.args if kind == "Mod" else expression.args[0].together().as_numer_denom()
        sizes = c_size(above), c_size(below)
        return f"({_remainder(*sizes, expression) if kind == 'Mod' else _rounded_down(*sizes, above)})"
    first = kind == "Mul"  # a sum ends with its number, a product begins with it
    terms = sorted(expression.args, key=lambda t: (t.is_Integer != first, str(t)))
    terms = [expression.base] * int(expression.exp) if kind == "Pow" else terms
    return reduce(lambda left, right: f"{SIZES[kind]}({left}, {right})", map(c_size, terms))


def size_functions(texts: list[str]) -> tuple[str, ...]:
    """List the functions that printed sizes call."""
    return tuple([name for name in dict.fromkeys(SIZES.values()) if any(name in t for t in texts)])

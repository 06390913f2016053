"""Expressions as C: literals, indices, extents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.notation import Axis, Lookup
from symgrad.ops.declare.spelling import suffix

if TYPE_CHECKING:
    from collections.abc import Callable


    Names = Callable[[Any], str]

INT32 = 1 << 31


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Print a number of a dtype so that C reads back the same bits.

    >>> literal(0.1, np.dtype("f4")), literal(-0.0, np.dtype("f8")), literal(2, np.dtype("f8"))
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


ATOM, PRODUCT, SUM, CHOICE = 3, 2, 1, 0
"""How tightly a printed expression holds together."""


def index(expression: Any, name: Names, tight: int = CHOICE) -> str:
    """Print an index or an extent; `name` gives the C names of axes, lookups and extents."""
    text, level = _printed(expression, name)
    return text if level >= tight else f"({text})"


def _printed(e: Any, name: Names) -> tuple[str, int]:
    if type(e) is int:
        return integer(e), ATOM if e >= 0 else SUM
    if isinstance(e, (Axis, Lookup)) or e.is_Symbol:
        return name(e), ATOM
    if e.is_Integer:
        return _printed(int(e), name)
    kind = type(e).__name__
    return _PRINTERS[kind](e, name)


def _add(e: Any, name: Names) -> tuple[str, int]:
    terms = sorted(e.args, key=lambda t: (t.is_Integer, t.could_extract_minus_sign(), str(t)))
    text = index(terms[0], name, SUM)
    for term in terms[1:]:
        minus = term.could_extract_minus_sign()
        text += f" {'-' if minus else '+'} {index(-term if minus else term, name, PRODUCT)}"
    return text, SUM


def _mul(e: Any, name: Names) -> tuple[str, int]:
    numerator, denominator = e.as_numer_denom()
    if denominator != 1:
        return f"{index(numerator, name, ATOM)} / {index(denominator, name, ATOM)}", PRODUCT
    factors = sorted(e.args, key=lambda t: (not t.is_Integer, str(t)))
    if factors[0] == -1:
        return f"-{'*'.join(index(f, name, ATOM) for f in factors[1:])}", SUM
    return "*".join(index(f, name, ATOM) for f in factors), PRODUCT


def _pow(e: Any, name: Names) -> tuple[str, int]:
    return "*".join([index(e.base, name, ATOM)] * int(e.exp)), PRODUCT


def _floor(e: Any, name: Names) -> tuple[str, int]:
    """Divide integers: what is rounded down here is never negative, so C's division does it."""
    numerator, denominator = e.args[0].together().as_numer_denom()
    return f"{index(numerator, name, ATOM)} / {index(denominator, name, ATOM)}", PRODUCT


def _mod(e: Any, name: Names) -> tuple[str, int]:
    number, by = [index(a, name, ATOM) for a in e.args]
    if e.args[0].is_nonnegative:
        return f"{number} % {by}", PRODUCT
    return f"({number} % {by} + {by}) % {by}", PRODUCT  # C's remainder has the number's sign


def _choice(helper: str) -> Any:
    def choice(e: Any, name: Names) -> tuple[str, int]:
        first, *rest = sorted(e.args, key=lambda t: (t.is_Integer, str(t)))
        text = index(first, name)
        for other in rest:
            text = f"{helper}({text}, {index(other, name)})"
        return text, ATOM

    return choice


_PRINTERS: dict[str, Callable[[Any, Names], tuple[str, int]]] = {
    "Add": _add, "Mul": _mul, "Pow": _pow, "floor": _floor, "Mod": _mod, "Max": _choice("sg_larger"),
    "Min": _choice("sg_smaller"),
}


def offset(indices: list[Any], shape: tuple[Any, ...], name: Names, starts: list[str | None] | None = None) -> str:
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
            terms.append(text if step == 1 else f"({text})*{index(step, name, ATOM)}")
        elif type(position) is int and type(step) is int:
            constant += position * step
        elif not (type(position) is int and position == 0):
            text = index(position, name, SUM if step == 1 else ATOM)
            terms.append(text if step == 1 else f"{text}*{index(step, name, ATOM)}")
        step = step * dim
    if constant or not terms:
        terms.insert(0, str(constant))
    return " + ".join(reversed(terms)).replace("+ -", "- ")

"""The C of an elementwise op: which of its patterns a loop uses, and how a pattern is filled.

A pattern is C with places: ``{0}``, ``{1}`` the arguments (names or literals), ``{t}`` the result's C type,
``{f}`` the suffix of the last argument's type (nothing for double, ``f`` for float, ``_i64`` ... for integers),
``{via}`` the integer type that a float is cut to on its way to the result, and a param's name for its value.
So ``{0} * 0.5{f}`` and ``exp{f}({0})`` hold no double where the type is float.
A bare name is a function of math.h; a name that starts with ``sg_`` is one of ``templates/helpers.c.jinja``.

    >>> import numpy as np
    >>> fill_pattern("hypot", ("x", "y"), (np.dtype("f4"),) * 2, np.dtype("f4"))
    'hypotf(x, y)'
    >>> fill_pattern("{0} > {1} ? {0} : {1}", ("x", "0"), (np.dtype("i8"),) * 2, np.dtype("i8"))
    'x > 0 ? x : 0'
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np


def by_kind(c: str | Mapping[str, str]) -> dict[str, str]:
    """Give each kind its pattern.

    A key may name several kinds (``"iu"``), that of each argument (``"i,u"``), or the result's beside one (``"f>i"``).
    """
    if isinstance(c, str):
        return {"f": c}
    return {kind: pattern for key, pattern in c.items() for kind in ([key] if "," in key or ">" in key else key)}


def pattern(c: Mapping[str, str], dtypes: Sequence[np.dtype[Any]], result: np.dtype[Any]) -> str | None:
    """Choose the pattern for arguments of these dtypes: that of exactly these kinds, else of the last one's kind."""
    kinds = [dtype.kind for dtype in dtypes]
    exact = c.get(f"{kinds[-1]}>{result.kind}") or c.get(",".join(kinds))
    if exact is not None:
        return exact
    return None if set(kinds[-2:]) == {"i", "u"} else c.get(kinds[-1])


def ctype(dtype: np.dtype[Any]) -> str:
    """Name a dtype in C."""
    if dtype.kind == "f":
        return "double" if dtype.itemsize == 8 else "float"
    if dtype.kind == "b":
        return "_Bool"
    return f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}_t"


FLAG = "sg_flag{f}({0})"
"""How a Boolean in memory is read among lanes of a floating-point type."""


SET = "{0} != 0"
"""How a Boolean of the caller's is read otherwise: NumPy takes any byte but 0 for one that is set."""

BEYOND = {"max=": "{0} > {1} ? {0} : {1}", "min=": "{0} < {1} ? {0} : {1}"}
NOT_A_NUMBER = "{0} != {0} ? {0} : 0.0{f}"
UNLESS = "{1} == {1} ? {0} : {1}"
"""How lanes take an extremum of numbers, collect the NaNs among them, and let those win."""


def via(dtype: np.dtype[Any]) -> str:
    """Name the integer type that a float is cut to before it becomes one of `dtype`, as NumPy does on x86-64.

    >>> import numpy as np
    >>> [via(np.dtype(t)) for t in ("i1", "u2", "i4", "u4", "i8", "u8")]
    ['int32', 'int32', 'int32', 'int64', 'int64', 'uint64']
    """
    if dtype.itemsize == 8:
        return f"{dtype.kind.replace('i', '')}int64"
    return "int64" if (dtype.kind, dtype.itemsize) == ("u", 4) else "int32"


def stored(dtype: np.dtype[Any]) -> str:
    """Name a dtype in C as it stands in memory: of bytes gcc 12 makes lanes, of _Bool it does not."""
    return "uint8_t" if dtype.kind == "b" else ctype(dtype)


def suffix(dtype: np.dtype[Any]) -> str:
    """Return what ends the names of functions of this type."""
    if dtype.kind == "f":
        return "" if dtype.itemsize == 8 else "f"
    return "_b" if dtype.kind == "b" else f"_{dtype.kind}{8 * dtype.itemsize}"


def uses(pattern: str, k: int) -> int:
    """Count the places of an argument in a pattern."""
    return pattern.count(f"{{{k}}}")


def fill_pattern(
    pattern: str, names: Sequence[str], dtypes: Sequence[np.dtype[Any]], result: np.dtype[Any],
    params: Mapping[str, Any] | None = None,
) -> str:
    """Fill a pattern with names of values."""
    if pattern.isidentifier():
        pattern = f"{pattern}{{f}}({', '.join(f'{{{k}}}' for k in range(len(names)))})"
    kind, way = ctype(result), via(result)
    if kind == f"{way}_t":  # what the function returns
        pattern = pattern.replace("({t})sg_{via}", "sg_{via}")
    return pattern.format(*names, f=suffix(dtypes[-1]), t=kind, via=way, **(params or {}))


# -- what it costs

KINDS = ("add", "multiply", "fma", "divide", "sqrt", "select")
"""The kinds of floating-point operations that are no calls; `select` is every comparison, choice, sign and rounding."""

SELECTS = frozenset({"fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "copysign", "fmin", "fmax", "signbit"})
"""Functions of math.h that are one instruction: counted as `select`."""

_SYMBOLS = {" + ": "add", " - ": "add", " * ": "multiply", " / ": "divide", "-{0}": "select", "? ": "select"}
_COMPARISON = re.compile(r" (?:[<>]=?|==|!=|&&|\|\|) ")
_CALL = re.compile(r"\b([a-z]\w*?)(?:\{f\})?\(")


@cache
def cost(pattern: str) -> tuple[tuple[str, int], ...]:
    """Count what a C pattern costs: operations by kind, calls by name.

    >>> cost("{0} * exp{f}({1})"), cost("fabs")
    ((('multiply', 1), ('exp', 1)), (('select', 1),))
    """
    if pattern.isidentifier():
        return ((_cost_kind(pattern), 1),)
    found: defaultdict[str, int] = defaultdict(int)
    for symbol, kind in _SYMBOLS.items():
        found[kind] += pattern.count(symbol)
    found["select"] += len(_COMPARISON.findall(pattern))
    for name in _CALL.findall(pattern):
        found[_cost_kind(name)] += 1
    return tuple((kind, number) for kind, number in found.items() if number)


def has_call(pattern: str) -> bool:
    """Whether a C pattern calls a function, be it one instruction."""
    return pattern.isidentifier() or "sg_" in pattern


def is_call(pattern: str) -> bool:
    """Whether a C pattern is a call of a function of math.h that takes more than one instruction."""
    return pattern.isidentifier() and not pattern.startswith("sg_") and _cost_kind(pattern) not in KINDS


def _cost_kind(name: str) -> str:
    return "select" if name in SELECTS or name.startswith("is") else name.removeprefix("sg_")

"""The one filter for names and the one for comments that come from outside."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

C_WORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local bool true
    false asm typeof main errno NAN INFINITY NULL I and or not xor class new delete this template namespace operator
    private public protected virtual friend try catch throw using export mutable explicit typename wchar_t
    threads workspace stop pointers dims ops np scipy y0 y1 yn j0 j1 jn gamma""".split()  # noqa: SIM905 - a hundred quoted words would not read better
)
"""Words a name must not be: C's, C++'s and Python's, what math.h declares shortly, and the generated code's own."""

MATH_H = re.compile(
    "(a?(sin|cos|tan)h?|atan2|exp(2|m1)?|log(10|1p|2|b)?|ilogb|ldexp|frexp|scalb(l?n)|modf|fmod|remainder|remquo|pow|sqrt|"
    "cbrt|hypot|fabs|erfc?|[lt]gamma|lgamma_r|ceil|floor|trunc|(near|r|lr|llr)int|(l|ll)?round|copysign|nan|"
    "next(after|toward)|fdim|fmax|fmin|fma|abs|labs|llabs)[fl]?|is(finite|inf|nan|normal|greater|less)|signbit|fpclassify"
)
"""What math.h declares: an argument of such a name would hide the function where the generated code calls it."""

MACROS = re.compile(
    "HUGE(_VAL)?[A-Z0-9]*|(M|FP|MATH)_[A-Z0-9_]+|[A-Z0-9_]+_(MAX|MIN|WIDTH|C)|SNAN[FL]?|DOMAIN|SING|(OVER|UNDER)FLOW|[XTP_]*LOSS|"
    "u?int[a-z0-9_]*_t|(float|double)_t|math_errhandling"
)
"""Macros and types of math.h and stdint.h: an argument called HUGE_VAL would be a function to the compiler."""

LENGTH = 40


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Make an identifier of C and Python from any text, unlike those taken.

    >>> identifier("w"), identifier("naïve name"), identifier("for"), identifier("v1"), identifier("x", {"x"})
    ('w', 'na_ve_name', 'for_', 'v1_', 'x_2')
    >>> identifier("log1p"), identifier("sinf"), identifier("logits"), identifier("HUGE_VAL"), identifier("int64_t")
    ('log1p_', 'sinf_', 'logits', 'HUGE_VAL_', 'int64_t_')
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text)[:LENGTH].strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    taken_by_c = name in C_WORDS or MATH_H.fullmatch(name) or MACROS.fullmatch(name)
    if taken_by_c or keyword.iskeyword(name) or re.fullmatch(r"[vtinkw]\d+|sg_.*|_[A-Z].*|.*__.*", name):
        name = name.replace("__", "_") + "_"
    taken = set(taken)
    unique, count = name, 2
    while unique in taken:
        unique, count = f"{name}_{count}", count + 1
    return unique


def comment(text: str) -> str:
    r"""Make text safe inside of a C comment and on one line of Python.

    >>> comment("a */ b \\")
    'a * / b /'
    """
    plain = re.sub(r"[^\x20-\x7e]+", " ", text).replace("\\", "/")
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").strip()[:160]

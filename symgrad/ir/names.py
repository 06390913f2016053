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
    threads workspace pointers dims ops np scipy y0 y1 yn j0 j1 jn gamma lgamma exp log sin cos tan pow sqrt""".split()
)
"""Words a name must not be: C's, C++'s and Python's, what math.h declares shortly, and the generated code's own."""

LENGTH = 40


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Make an identifier of C and Python from any text, unlike those taken.

    >>> identifier("w"), identifier("naïve name"), identifier("for"), identifier("v1"), identifier("x", {"x"})
    ('w', 'na_ve_name', 'for_', 'v1_', 'x_2')
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text)[:LENGTH].strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    if name in C_WORDS or keyword.iskeyword(name) or re.fullmatch(r"[vtinkw]\d+|sg_.*|_[A-Z].*|.*__.*", name):
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

"""The one filter for names and the one for comments that come from outside."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable

C_WORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef typeof union unsigned void volatile while
    bool true false asm main errno complex imaginary noreturn NAN INFINITY NULL I
    and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq alignas alignof catch char8_t char16_t char32_t class
    concept const_cast consteval constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit
    export friend mutable namespace new noexcept nullptr operator private protected public reinterpret_cast requires
    static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t
    unix linux i386 FILE stdin stdout stderr va_list fd_set uint ulong ushort u_char u_short u_int u_long
    threads workspace stop pointers dims ops np scipy""".split()  # noqa: SIM905 - a hundred quoted words would not read better
)
"""Words a name must not be: C's, C++'s, compilers' own macros, and the generated code's own. Python's are asked for."""

WINDOWS = frozenset(
    """near far small huge hyper interface pascal cdecl NEAR FAR IN OUT OPTIONAL CONST VOID TRUE FALSE ERROR STRICT THIS
    DELETE CALLBACK OPAQUE TRANSPARENT ABSOLUTE RELATIVE DIFFERENCE""".split()  # noqa: SIM905
)
"""Macros of windows.h: an argument called small would be a char. Extents may have such a name."""

CALLED = re.compile(
    "(a?(sin|cos|tan)h?|atan2|exp(2|m1)?|log(10|1p|2)?|pow|sqrt|cbrt|hypot|fabs|erfc?|ceil|floor|trunc|rint|copysign|"
    "fmod|fma|nextafter|tgamma)f?|is(finite|inf|nan)|signbit"
)
"""What generated code calls: an argument of such a name would hide the function. Others of math.h may be hidden."""

MACROS = re.compile(
    "HUGE(_VAL)?[A-Z0-9]*|(HUGE_VAL|M|FP|MATH|FE|DBL|FLT|LDBL|EXIT|SEEK|SIG|SIGEV|LC|CLOCKS?|TIME|TIMER|TSS|ATOMIC|SA|SI|SS|BUS|"
    "CLD|CLONE|FD|FPE|ILL|POLL|PTHREAD|SCHED|SEGV|STA|STDIN|STDOUT|STDERR|TRAP|RENAME|F|R|W|X)_[A-Z0-9_]+[fl]?[0-9x]*|"
    "[A-Z0-9_]+_(MAX|MIN|WIDTH|C|BIT|DIG)|SNAN[FL]?[0-9X]*|DOMAIN|SING|(OVER|UNDER)FLOW|[XTP_]*LOSS|MAXFLOAT|"
    "(PRI|SCN)[dioxuX][A-Z0-9]+|SIG(?!MA)[A-Z0-9]+|EIO|W?EOF|E[A-Z0-9]{3,}|BUFSIZ|ONCE_FLAG_INIT|[LP]_tmp[a-z]+|L_c[a-z]+|(si|sa|sigev)_[a-z_]+|"
    "W(NOHANG|UNTRACED|STOPPED|EXITED|CONTINUED|NOWAIT)|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|NFDBITS|"
    "u?int[a-z0-9_]*_t|(float|double|s?size|ptrdiff|max_align|l?l?div|l?off|fpos|time|clock|[pgu]?id|key|mode|dev|ino|quad)_t|math_errhandling"
)
"""Macros and types of C's headers: an argument called EOF would be a number where a program includes stdio.h first."""

LENGTH = 40

GREEK = dict(zip(
    "αβγδεζηθικλμνξοπρσςτυφχψωϵϑϕ",
    """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon
    phi chi psi omega epsilon theta phi""".split(),  # noqa: SIM905 - as they are spoken
    strict=True,
))
"""Letters of formulas, as they are spoken."""


def to_ascii(text: str) -> str:
    """Write text in ASCII: Greek letters by their names, accents left out, and underscores for anything else.

    >>> to_ascii("λ"), to_ascii("Σ_1"), to_ascii("größe"), to_ascii("数")
    ('lambda', 'Sigma_1', 'grosse', '_')
    """
    if text.isascii():
        return text
    spoken = "".join([GREEK[c] if c in GREEK else GREEK[c.lower()].title() if c.lower() in GREEK else c for c in text])
    letters = unicodedata.normalize("NFKD", spoken.replace("ß", "ss"))
    return "".join([c if c.isascii() else "_" for c in letters if not unicodedata.combining(c)])


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Make an identifier of C and Python from any text, unlike those taken.

    >>> identifier("w"), identifier("naïve name"), identifier("for"), identifier("v1"), identifier("x", {"x"})
    ('w', 'naive_name', 'for_', 'v1_', 'x_2')
    >>> identifier("log1p"), identifier("sinf"), identifier("logits"), identifier("EOF"), identifier("int64_t")
    ('log1p_', 'sinf_', 'logits', 'EOF_', 'int64_t_')
    >>> identifier("y0"), identifier("malloc_"), identifier("nanf"), identifier("SG_FMA")
    ('y0', 'malloc_', 'nanf', 'SG_FMA_')
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", to_ascii(text))[:LENGTH].lstrip("_")
    name = (name if text.endswith("_") else name.rstrip("_")) or "x"
    if name[0].isdigit():
        name = f"x{name}"
    if not name.endswith("_") and (
        name in C_WORDS or name in WINDOWS or keyword.iskeyword(name) or CALLED.fullmatch(name)
        or MACROS.fullmatch(name) or re.fullmatch(r"[vtinkw]\d+|copies\d+|[sS][gG]_.*", name)
    ):
        name = f"{name}_"
    taken = set(taken)
    unique, count = name, 2
    while unique in taken:
        unique, count = f"{name.rstrip('_')}_{count}", count + 1
    return unique


def comment(text: str) -> str:
    r"""Make text safe inside of a C comment and on one line of Python.

    >>> comment("a */ b \\")
    'a * / b /'
    """
    line = re.sub(r"[^\x20-\x7e]+", " ", to_ascii(text)).replace("\\", "/")
    return line.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").strip()[:160]

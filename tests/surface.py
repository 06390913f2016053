"""What is answered of NumPy's and SciPy's public functions: each is tried, and `docs/numpy.md` says what came.

    python -m tests.surface --write

A call of each is searched for among a few arrays, or stands in `CALLS`. Whether a function has a derivative is asked of
NumPy's own numbers: by differences, in each argument. The page keeps the calls, and a test tries them again.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import sys
import textwrap
import types
import warnings
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optree
import scipy
import scipy.linalg
import scipy.special

import symgrad as sg
from symgrad.errors import NoGradient, SymgradError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[1] / "docs" / "numpy.md"
SCIPYS = PAGE.parent / "scipy.md"
INTERPRETED = sg.Options(compiler="none")
ROOMS = {"np": np, "np.linalg": np.linalg, "scipy.special": scipy.special, "scipy.linalg": scipy.linalg}
KNOWN = {"np": np, "scipy": scipy}

_rng = np.random.default_rng(5)
_half = _rng.uniform(-1, 1, (3, 3))
ARRAYS: dict[str, Any] = {
    "V": np.array([0.3, 0.75, 0.15, 0.6]), "W": np.array([1.3, 2.4, 1.85, 3.1]),
    "Q": np.array([0.55, 0.2, 0.9, 0.35]),
    "M": _rng.uniform(-2, 2, (3, 4)), "S": _half @ _half.T + np.diag([2.0, 3.0, 4.5]),
    "G": _half + np.diag([2.0, 3, -4]),
    "u": np.array([0.7, -1.1, 0.4]), "x": np.array(0.4), "y": np.array(1.7), "z": np.array(0.65),
    "I": np.array([2, 0, 1]), "J": np.array([6, 3, 12]), "B": np.array([True, False, True, True]),
}
"""What calls are of, as the page says."""

POOLS = (
    (("V", "x", "S", "M", "W", "y", "2", "I"),),
    (("V", "x", "S", "y", "M", "2", "W"), ("W", "Q", "V", "x", "z", "G", "u", "M", "2", "1")),
    (("y", "x", "2", "S", "V"), ("x", "z", "y", "S", "u", "1", "2"), ("z", "x", "y", "S", "V", "1")),
    (("y", "2", "x"), ("z", "1", "y"), ("x", "y"), ("x", "z", "y", "Q")),
    (("2", "y"), ("2", "1", "z"), ("x", "y"), ("x", "z", "y"), ("x", "Q")),
)
"""What each argument is tried with, for one, two, ... arguments."""

NOT_OF_NUMBERS = frozenset("""
    array2string array_repr array_str asmatrix base_repr binary_repr bmat can_cast common_type datetime_as_string
    datetime_data busday_count busday_offset is_busday isnat find_common_type format_float_positional
    format_float_scientific frombuffer fromfile fromiter fromregex fromstring from_dlpack genfromtxt get_include
    get_printoptions getbufsize geterr geterrcall info isdtype issubdtype load loadtxt may_share_memory
    shares_memory min_scalar_type mintypecode nested_iters packbits unpackbits printoptions promote_types require
    result_type save savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall show_config
    show_runtime test
    typename isfortran iterable frompyfunc einsum_path byte_bounds find_best_blas_type get_blas_funcs get_lapack_funcs
    ascontiguousarray asfortranarray errstate bandwidth put place putmask copyto put_along_axis fill_diagonal
    fromfunction isscalar broadcast_shapes asarray_chkfinite ndim shape size iscomplexobj isrealobj
""".split())  # noqa: SIM905
"""Files, settings, texts, dtypes, memory, shapes, and what writes into an array."""

CALLS: dict[str, str] = dict(
    line.split(" : ", 1) for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()[1:])
"""Calls of what the search finds none for, or none that says much."""


# -- what there is


def _rank(own: str, name: str) -> tuple[bool, str]:
    return name != own, name


def public() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the functions of each module by the name that they say themselves, and their other names."""
    for room, module in ROOMS.items():
        found: dict[int, list[str]] = {}
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            value = getattr(module, name)
            whole = callable(value) and not isinstance(value, type | types.ModuleType)
            if name[0] != "_" and name not in NOT_OF_NUMBERS and (whole or name == "vectorize"):
                found.setdefault(id(getattr(value, "original", value)), []).append(name)
        for _, names in sorted(found.items(), key=lambda one: min(one[1])):
            own = getattr(getattr(module, names[0]), "__name__", "")
            names.sort(key=functools.partial(_rank, own))
            yield room, names[0], names[1:]


class Row(NamedTuple):
    """What came of a function: its name, a call of it, what is answered, why not more; whether it has a derivative."""

    room: str
    name: str
    call: str
    answered: str
    why: str
    has: bool

    def line(self) -> str:
        """Write the row of the page."""
        lost = "; it has a derivative" * (self.has and self.answered not in HAVE)
        return f"| `{self.name}` | `{self.call}` | {self.answered}{lost} | {self.why} |\n"


FULL, SOME, VALUE, UNDERIVED, SIZES, CONSTANT, REFUSED, COMPLEX = (
    "value, derivative", "value, derivative by some", "value", "value alone", "of sizes", "constant", "refused",
    "complex")
HAVE = (FULL, SOME, UNDERIVED)


# -- trying


def function(call: str) -> tuple[Callable[..., Any], list[str]]:
    """Make a function of a call, and the names of the arrays that it is of."""
    names = sorted({name for name in re.findall(r"\b[A-Za-z]\b", call) if name in ARRAYS}, key=call.index)
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {call}", KNOWN)  # noqa: S307 - this project's own
    return made, names


def given(names: list[str]) -> list[Any]:
    """Return arrays by their names, copies that a call may write."""
    return [ARRAYS[name].copy() for name in names]


def quietly(call: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return call(*args)


def leaves(value: Any) -> list[Any]:
    """Return a result's arrays."""
    return [np.asarray(leaf) for leaf in optree.tree_leaves(value)]


def floats(value: Any) -> Any:
    """Return all its floating-point numbers in a row."""
    return np.concatenate([np.zeros(0), *[np.ravel(x).astype(float) for x in leaves(value) if x.dtype.kind == "f"]])


def moved(call: Any, args: list[Any], k: int, along: Any, by: float) -> Any:
    return floats(quietly(call, *[a + by * along if j == k else a.copy() for j, a in enumerate(args)]))


def slope(call: Any, args: list[Any], k: int, along: Any) -> Any:
    """Return the derivative of NumPy's numbers by one argument; None where there is none: differences tell."""
    try:
        steps = [(moved(call, args, k, along, h) - moved(call, args, k, along, -h)) / (2 * h) for h in (1e-4, 2e-4)]
    except Exception:  # noqa: BLE001 - not of such an argument
        return None
    near = (4 * steps[0] - steps[1]) / 3
    apart = np.abs(steps[0] - steps[1])
    good = np.isfinite(near).all() and near.size and np.all(apart <= 1e-3 * (1 + np.abs(near)))
    return near if good and np.any(np.abs(near) > 1e-9) else None


def slopes(call: str) -> dict[int, Any]:
    """Return NumPy's derivatives of a call by its arguments that have one, along a fixed direction."""
    made, names = function(call)
    args = given(names)
    found = {}
    for k, a in enumerate(args):
        if a.dtype.kind == "f":
            along = direction(a)
            derivative = slope(made, args, k, along)
            if derivative is not None:
                found[k] = derivative
    return found


def direction(a: Any) -> Any:
    """Return a direction: a symmetric one of a symmetric matrix."""
    along = np.cos(np.arange(1.0, a.size + 1)).reshape(a.shape)
    return along + along.T if a.shape == (3, 3) and np.array_equal(a, a.T) else along


@functools.cache
def searched(room: str, name: str) -> str:
    """Find a call of a function: one that has derivatives, else one of finite numbers, else one that returns."""
    if f"{room}.{name}" in CALLS:
        return CALLS[f"{room}.{name}"]
    best: dict[int, str] = {}
    nin = getattr(getattr(ROOMS[room], name), "nin", None)
    for pools in POOLS if nin is None else POOLS[nin - 1 : nin]:
        for chosen in product(*pools):  # no array twice: the slope would be by both
            if len({one for one in chosen if one in ARRAYS}) < sum(one in ARRAYS for one in chosen):
                continue
            call = f"{room}.{name}({', '.join(chosen)})"
            try:
                made, names = function(call)
                value = quietly(made, *given(names))
                every = leaves(value)
            except Exception:  # noqa: BLE001, S112 - not so
                continue
            if any(x.dtype.kind not in "biuf" for x in every) or not every:
                best.setdefault(3, call)
            elif not all(np.isfinite(x).all() for x in every):
                best.setdefault(2, call)
            else:
                best.setdefault(1, call)
                count = len(slopes(call))
                if count and count == sum(ARRAYS[n].dtype.kind == "f" for n in names):
                    return call
                if count:
                    best.setdefault(0, call)
    return best[min(best)] if best else ""


def said(error: Exception) -> str:
    """Return the first line of a refusal, for a table's cell: what depends on this module's calls is cut off."""
    cut = r"^[\w.]+\(\.\.\.\): |, which is not known while .*|, and the gradient by .*"
    line = re.sub(cut, "", str(error).splitlines()[0])
    return line.strip().replace("|", "\\|")


def together(reasons: list[str]) -> str:
    """Write several refusals as one: by all the parameters, or one after the other."""
    parts = [reason.partition(" by its parameter ") for reason in dict.fromkeys(reasons)]
    if len(parts) > 1 and all(by and first == parts[0][0] for first, by, _ in parts):
        return f"{parts[0][0]} by its parameters {', '.join([name for _, _, name in parts])}"
    return "; ".join(dict.fromkeys(reasons))


def agree(found: Any, expected: Any) -> bool:
    one, other = leaves(found), leaves(expected)
    return len(one) == len(other) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
        for a, b in zip(one, other, strict=True))


def tried(room: str, name: str, call: str) -> Row:
    """Try a call on traced arrays, its derivatives, and on plain arrays in a traced function."""
    made, names = function(call)
    args = given(names)
    expected = quietly(made, *args)
    have = slopes(call)
    if any(x.dtype.kind == "c" for x in leaves(expected)):
        return Row(room, name, call, COMPLEX, "its result is complex", has=False)
    try:
        found = quietly(sg.jit(made, options=INTERPRETED), *args)
        if not agree(found, expected):
            return Row(room, name, call, REFUSED, "WRONG", has=bool(have))
    except SymgradError as error:
        return _constant(room, name, call, args, expected, said(error), has=bool(have))
    missing: list[str] = []
    reasons: list[str] = []
    for k, want in have.items():
        def pushed(along: Any, *every: Any, k: int = k) -> Any:
            def own(a: Any) -> list[Any]:
                found = optree.tree_leaves(made(*[a if j == k else b for j, b in enumerate(every)]))
                return [y for y in found if getattr(y, "dtype", np.dtype(float)).kind == "f"]

            return sg.jvp(own, (every[k],), (along,))[1]

        try:
            push = quietly(sg.jit(pushed, options=INTERPRETED), direction(args[k]), *args)
        except NoGradient as error:
            missing, reasons = [*missing, names[k]], [*reasons, said(error)]
            continue
        if not np.allclose(floats(push), want, rtol=1e-4, atol=1e-6):
            return Row(room, name, call, UNDERIVED, f"WRONG by {names[k]}", has=True)
    if not have:
        return Row(room, name, call, VALUE if names else SIZES, "", has=False)
    kind = FULL if not missing else SOME if len(missing) < len(have) else UNDERIVED
    return Row(room, name, call, kind, together(reasons), has=True)


def _constant(room: str, name: str, call: str, args: list[Any], expected: Any, why: str, *, has: bool) -> Row:
    made, _ = function(call)
    try:
        found = quietly(sg.jit(lambda t: (t * 2, made(*args)), options=INTERPRETED), 1.0)[1]
        kind = CONSTANT if agree(found, expected) else REFUSED
    except Exception as error:  # noqa: BLE001 - whatever it is, it is refused
        kind, why = REFUSED, said(error)
    return Row(room, name, call, kind, why, has=has)


def row_of(room: str, name: str, call: str) -> Row:
    """Try a function by a call; what it cannot do in another way than by a refusal is an error."""
    if not call:
        raise LookupError(f"no call of {room}.{name} was found: one belongs into CALLS")
    found = tried(room, name, call)
    if "WRONG" in found.why:
        raise AssertionError(f"{call}: {found.why}")
    return found


# -- the page


def head(found: list[Row]) -> str:
    """Write what is answered of each package, in numbers."""
    counted: dict[str, list[int]] = {}
    for room in ROOMS:
        own = [row for row in found if row.room == room]
        kinds = [row.answered for row in own]
        have = [row.answered for row in own if row.has]
        traced = sum(kind in {FULL, SOME, VALUE, UNDERIVED} for kind in kinds)
        counted[f"`{room}`"] = [
            len(own), kinds.count(SIZES), kinds.count(COMPLEX), traced, len(have), have.count(FULL), have.count(SOME)]
    answered, _, refusals = SCIPYS.read_text(encoding="utf-8").partition("### Distributions that are refused")
    lines_of = answered.splitlines()
    table, others = [[line.split("|") for line in lines_of if line.count("|") == bars][2:] for bars in (8, 12)]
    cells = [cell.strip() for line in (*table, *others) for cell in line[2:-1]]
    cells += ["all"] * 10 * (len(table) - len(others))  # which have no row in the table of quantiles and moments
    rows = re.findall(r"^\| ([\w, ]+) \| \w.* \|$", refusals, re.MULTILINE)
    names = [name for row in rows for name in row.split(", ")]
    cells += [""] * 16 * len({*names} - {"distribution"})  # of which nothing is answered, all of it with a derivative
    counted["methods of `scipy.stats`"] = [
        len(cells), 0, 0, len(cells) - cells.count(""), len(cells) - cells.count("value"), cells.count("all"),
        cells.count("d/dx")]  # whose value alone is there has parameters that are integers
    counted["all together"] = [sum(column) for column in zip(*counted.values(), strict=True)]
    lines = []
    for what, own_counts in counted.items():
        *_, smooth, full, some = own_counts
        parts = [f"{100 * count / smooth:.1f} %" for count in (full, full + some)]
        lines.append(f"| {what} | {' | '.join(map(str, [*own_counts, *parts]))} |\n")
    return (
        "| package | functions | of sizes | complex | answered when traced | have a derivative | with it here by all "
        "arguments | by some of them | by all | by all or some |\n|---|---|---|---|---|---|---|---|---|---|\n"
        + "".join(lines))


INTRODUCTION = f"""# NumPy's and SciPy's functions

What becomes of each public function in a traced function, and why. The page is made by trying every one
(`python -m tests.surface --write`, with NumPy {np.__version__} and SciPy {scipy.__version__}); a test tries each again.
Whether a function has a derivative is asked of NumPy's own numbers, by differences along a line; complex results stand
apart, and so does the Fourier transform.

"""
LEGEND = f"""
The words in the tables:

- **{FULL}**: on traced arrays it gives NumPy's values, and the derivatives by all of its arguments that have one;
- **{SOME}**: not by all: the last column says by which it is refused;
- **{VALUE}**: its value; it has no derivative (integers, truth values, steps), or none at these arguments;
- **{UNDERIVED}**: its value; the derivative is refused;
- **{SIZES}**: its arguments are sizes, orders and numbers of results, and no arrays: it makes the same constant in a
  traced function, and is not counted as answered;
- **{CONSTANT}**: of plain arrays in a traced function alone; of traced ones it is refused, with the reason;
- **{REFUSED}**, and **{COMPLEX}** where the result is complex.

Where NumPy looks at values and raises an error, traced arrays have none: `np.nanargmin` of NaN alone gives 0, and
`np.histogram` leaves NaN out. The remainder of `np.polydiv` keeps zeros in front that are not divided out, those of
a `np.poly1d` count in its order, and a divisor that begins with them gives infinities. The
functions of `numpy.polynomial` and its series have no rows here: those of all six bases are answered, but for roots and
`trim`; coefficients at the end that come to 0 stay.

In the calls `V`, `Q`, `W` are vectors of 4 elements, the last one of numbers beyond 1, `u` one of 3, `M` a matrix of
3 x 4, `S` a positive definite one and `G` any one of 3 x 3, `x`, `y`, `z` numbers, `I` and `J` integers and `B` truth
values. Every name in a call is a traced argument. The last two columns of the first table say what part of the
functions with a derivative has it here: by all of the arguments that have one, and by all or some of them.
The methods of `scipy.stats` are sixteen of each of its distributions of one variable, those of the tables in
[scipy.md](scipy.md#distributions) and those of the distributions that are refused. Not counted is what is no
function of numbers: files, settings, texts, dtypes, memory, shapes, and what writes into an array
([inplace.md](inplace.md)):

"""


def page(found: list[Row]) -> str:
    """Write the page."""
    others = sorted(name for name in NOT_OF_NUMBERS if any(hasattr(module, name) for module in ROOMS.values()))
    tables = [
        f"## {room}\n\n| function | tried by | on traced arrays | why not more |\n|---|---|---|---|\n"
        + "".join([row.line() for row in found if row.room == room]) for room in ROOMS]
    names = textwrap.fill(", ".join([f"`{name}`" for name in others]), 120)
    return f"{INTRODUCTION}{head(found)}{LEGEND}{names}.\n\n" + "\n".join(tables)


def written(text: str) -> list[tuple[str, str, str, str]]:
    """Read the rows of the page: room, name, call, and the line."""
    found: list[tuple[str, str, str, str]] = []
    room = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("## "):
            room = line[3:].strip()
        elif line.startswith("| `") and room:
            name, call = re.findall(r"`([^`]*)`", line)[:2]
            found.append((room, name, call, line))
    return found


if __name__ == "__main__":
    every = [row_of(room, name, searched(room, name)) for room, name, _ in public()]
    if "--write" in sys.argv:
        PAGE.write_text(page(every), encoding="utf-8")
    sys.stdout.write(head(every))

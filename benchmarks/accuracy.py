"""Measures how many units in the last place compiled functions are off: ``python -m benchmarks.accuracy --write``.

Each function runs compiled, by the C library's vector variants and with `precise=True`, in double and in single
precision, over a stated domain, and is compared with mpmath.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import mpmath as mp
import numpy as np
from mpmath import mpf
from scipy import special

import symgrad as sg

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
BEGIN, END = "<!-- begin: written by python -m benchmarks.accuracy --write -->\n", "<!-- end -->"
DIGITS = 40
Interval = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """One function.

    Attributes:
        written: as a user writes it.
        exact: the same in mpmath.
        wide: the domain in double precision, an interval for each argument.
        narrow: the domain in single precision.
        near: where it is hard: half of the points lie within a few per cent of these or closer.
    """

    written: Callable[..., Any]
    exact: Callable[..., Any]
    wide: tuple[Interval, ...]
    narrow: tuple[Interval, ...]
    near: tuple[float, ...] = (0.0,)


def row(
    written: Any, exact: Any, wide: Interval, narrow: Interval | None = None, near: tuple[float, ...] = (0.0,),
) -> Row:
    """Make a row of a function of one argument."""
    return Row(written, exact, (wide,), (narrow or wide,), near)


def two(written: Any, exact: Any, wide: Interval, other: Interval, narrow: Interval, narrow_other: Interval) -> Row:
    """Make a row of a function of two arguments."""
    return Row(written, exact, (wide, other), (narrow, narrow_other))


def slope(written: Any) -> Any:
    """Return a function's derivative, element by element."""
    return sg.grad(lambda x: np.sum(written(x)))


HALF_TURNS = tuple(k * math.pi / 2 for k in (-1000, -101, -4, -3, -2, -1, 0, 1, 2, 3, 4, 355, 1000, 12345))
POSITIVE, POSITIVE_F = (1e-300, 1e300), (1e-37, 1e38)
ANY, ANY_F = (-1e300, 1e300), (-1e38, 1e38)

ROWS: dict[str, Row] = {
    "exp(x)": row(np.exp, mp.exp, (-708, 709), (-87, 88)),
    "exp2(x)": row(np.exp2, lambda x: mpf(2) ** x, (-1022, 1023), (-126, 127)),
    "expm1(x)": row(np.expm1, mp.expm1, (-37, 709), (-17, 88)),
    "log(x)": row(np.log, mp.log, POSITIVE, POSITIVE_F, near=(1.0,)),
    "log2(x)": row(np.log2, lambda x: mp.log(x) / mp.log(2), POSITIVE, POSITIVE_F, near=(1.0,)),
    "log10(x)": row(np.log10, mp.log10, POSITIVE, POSITIVE_F, near=(1.0,)),
    "log1p(x)": row(np.log1p, mp.log1p, (-1 + 1e-10, 1e300), (-0.9999, 1e38)),
    "sin(x)": row(np.sin, mp.sin, (-1e15, 1e15), (-1e30, 1e30), near=HALF_TURNS),
    "cos(x)": row(np.cos, mp.cos, (-1e15, 1e15), (-1e30, 1e30), near=HALF_TURNS),
    "tan(x)": row(np.tan, mp.tan, (-1e15, 1e15), (-1e30, 1e30), near=HALF_TURNS),
    "arcsin(x)": row(np.arcsin, mp.asin, (-1, 1), near=(0.0, 0.5, 1.0, -1.0)),
    "arccos(x)": row(np.arccos, mp.acos, (-1, 1), near=(0.0, 0.5, 1.0, -1.0)),
    "arctan(x)": row(np.arctan, mp.atan, ANY, ANY_F),
    "sinh(x)": row(np.sinh, mp.sinh, (-709, 709), (-88, 88)),
    "cosh(x)": row(np.cosh, mp.cosh, (-709, 709), (-88, 88)),
    "tanh(x)": row(np.tanh, mp.tanh, (-25, 25), (-12, 12), near=(0.0, 0.625, -0.55)),
    "arcsinh(x)": row(np.arcsinh, mp.asinh, ANY, ANY_F),
    "arccosh(x)": row(np.arccosh, mp.acosh, (1, 1e300), (1, 1e38), near=(1.0,)),
    "arctanh(x)": row(np.arctanh, mp.atanh, (-1 + 1e-12, 1 - 1e-12), (-1 + 1e-6, 1 - 1e-6), near=(0.0, 1.0, -1.0)),
    "cbrt(x)": row(np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x)), ANY, ANY_F),
    "erf(x)": row(special.erf, mp.erf, (-6, 6), (-4, 4)),
    "erfc(x)": row(special.erfc, mp.erfc, (-6, 26), (-4, 9)),
    "x**y": two(np.power, mp.power, (1e-3, 1e3), (-90, 90), (1e-3, 1e3), (-12, 12)),
    "arctan2(y, x)": two(np.arctan2, mp.atan2, (-1e3, 1e3), (-1e3, 1e3), (-1e3, 1e3), (-1e3, 1e3)),
    "hypot(x, y)": two(np.hypot, mp.hypot, (-1e150, 1e150), (-1e150, 1e150), (-1e18, 1e18), (-1e18, 1e18)),
    # symgrad's own: C functions made of the ones above
    "expit(x)": row(special.expit, lambda x: 1 / (1 + mp.exp(-x)), (-700, 700), (-85, 85)),
    "log_expit(x)": row(special.log_expit, lambda x: -mp.log1p(mp.exp(-x)), (-700, 700), (-85, 85)),
    "logit(x)": row(
        special.logit, lambda x: mp.log(x / (1 - x)), (1e-300, 1 - 1e-15), (1e-37, 1 - 1e-6), near=(0.5, 1.0)),
    "log(1 + exp(x))": row(lambda x: np.log(1 + np.exp(x)), lambda x: mp.log1p(mp.exp(x)), (-700, 700), (-85, 85)),
    "log(cosh(x))": row(
        lambda x: np.log(np.cosh(x)), lambda x: mp.log1p(2 * mp.sinh(x / 2) ** 2), (-1e5, 1e5), near=(1e-3, 1.0)),
    "logaddexp(x, y)": two(
        np.logaddexp, lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), (0, 700), (0, 700), (0, 80), (0, 80)),
    "gammaln(x)": row(special.gammaln, mp.loggamma, (2.5, 1e5), near=(3.0,)),
    "digamma(x)": row(special.digamma, mp.digamma, (1e-2, 1e5), near=(1.0, 1.4616321449683622, 2.0, 10.0)),
    "ndtri(p)": row(
        special.ndtri, lambda p: -mp.sqrt(2) * mp.erfinv(1 - 2 * p), (1e-12, 0.3), (1e-6, 0.3), near=(0.02425,)),
    "erfinv(x)": row(special.erfinv, mp.erfinv, (-0.999, 0.999), near=(0.0, 0.5)),
    "erfcx(x)": row(special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (-5, 60), near=(0.0, 10.0)),
    "dawsn(x)": row(
        special.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), (-20, 20), near=(0.0, 0.5)),
    "exp1(x)": row(special.exp1, mp.e1, (1e-10, 600), (1e-6, 80), near=(1.0,)),
    "lambertw(x)": row(lambda x: special.lambertw(x).real, lambda x: mp.lambertw(x).real, (-0.3, 1e10), near=(0.0,)),
    "i0e(x)": row(special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), (-500, 500), near=(0.0, 20.0)),
    "gammainc(2.5, x)": row(
        lambda x: special.gammainc(2.5, x), lambda x: mp.gammainc(2.5, 0, x, regularized=True), (1e-6, 60),
        near=(3.5,)),
    "gammaincc(2.5, x)": row(
        lambda x: special.gammaincc(2.5, x), lambda x: mp.gammainc(2.5, x, regularized=True), (1e-6, 60), near=(3.5,)),
    "betainc(2.5, 1.5, x)": row(
        lambda x: special.betainc(2.5, 1.5, x), lambda x: mp.betainc(2.5, 1.5, 0, x, regularized=True), (1e-6, 1),
        near=(0.625, 1.0)),
    "gamma(x)": row(special.gamma, mp.gamma, (1e-3, 171), (1e-3, 34), near=(1.0, 2.0)),
    "rgamma(x)": row(special.rgamma, mp.rgamma, (1e-3, 170), (1e-3, 33), near=(1.0, 2.0)),
    "gammasgn(x)": row(special.gammasgn, lambda x: mp.sign(mp.gamma(x)), (-30.7, 100), near=(0.5, -0.5, -1.5)),
    "beta(x, y)": two(special.beta, mp.beta, (0.1, 100), (0.1, 100), (0.1, 15), (0.1, 15)),
    "betaln(x, y)": two(special.betaln, lambda x, y: mp.log(mp.beta(x, y)), (2, 1e4), (2, 1e4), (2, 1e4), (2, 1e4)),
    "poch(x, y)": two(special.poch, mp.rf, (0.5, 50), (0.5, 20), (0.5, 10), (0.5, 9)),
    "binom(x, y)": two(special.binom, mp.binomial, (30, 60), (1, 29), (20, 30), (1, 19)),
    "log_ndtr(x)": row(
        special.log_ndtr, lambda x: mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(
            mp.erfc(-x / mp.sqrt(2)) / 2), (-1e3, 30), (-1e3, 9)),
    "erfcinv(x)": row(special.erfcinv, lambda x: mp.erfinv(1 - x), (1e-12, 0.9), (1e-6, 0.9), near=(0.5,)),
    "i0(x)": row(special.i0, lambda x: mp.besseli(0, x), (-700, 700), (-85, 85), near=(0.0, 20.0)),
    "i1(x)": row(special.i1, lambda x: mp.besseli(1, x), (-700, 700), (-85, 85), near=(0.0, 20.0)),
    "i1e(x)": row(special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), (-500, 500), near=(0.0, 20.0)),
    "j0(x)": row(special.j0, mp.j0, (0, 2.2)),
    "j1(x)": row(special.j1, mp.j1, (0, 3.6)),
    "jv(1.5, x)": row(lambda x: special.jv(1.5, x), lambda x: mp.besselj(1.5, x), (1e-3, 4)),
    "iv(1.5, x)": row(lambda x: special.iv(1.5, x), lambda x: mp.besseli(1.5, x), (1e-3, 700), (1e-3, 85)),
    "zeta(x, y)": two(special.zeta, mp.zeta, (1.1, 19.9), (0.5, 49.9), (1.1, 8.9), (0.5, 19.9)),
    "polygamma(2, x)": row(lambda x: special.polygamma(2, x), lambda x: mp.polygamma(2, x), (0.1, 1e4), near=(1.0,)),
    "exprel(x)": row(special.exprel, lambda x: mp.expm1(x) / x if x else mpf(1), (-700, 700), (-85, 85)),
    "expi(x)": row(special.expi, mp.ei, (0.5, 700), (0.5, 85), near=(1.0, 40.0)),
    "entr(x)": row(special.entr, lambda x: -x * mp.log(x), POSITIVE, (1e-35, 1e36), near=(1.0,)),
    "boxcox(x, y)": two(
        special.boxcox, lambda x, y: mp.expm1(y * mp.log(x)) / y if y else mp.log(x), (1e-3, 1e3), (-9, 9), (0.1, 10),
        (-9, 9)),
    "huber(x, y)": two(
        special.huber, lambda x, y: y * y / 2 if abs(y) <= x else x * (abs(y) - x / 2), (0.1, 9), (-99, 99), (0.1, 9),
        (-99, 99)),
    "pseudo_huber(x, y)": two(
        special.pseudo_huber, lambda x, y: y * y / (mp.sqrt(1 + (y / x) ** 2) + 1), (0.1, 9), (-99, 99), (0.1, 9),
        (-99, 99)),
    "kl_div(x, y)": two(
        special.kl_div, lambda x, y: x * mp.log(x / y) - x + y, (1e-3, 0.5), (1, 1e3), (1e-3, 0.5), (1, 1e3)),
    "rel_entr(x, y)": two(
        special.rel_entr, lambda x, y: x * mp.log(x / y), (1e-3, 0.5), (1, 1e3), (1e-3, 0.5), (1, 1e3)),
    "lambertw(x, -1)": row(
        lambda x: special.lambertw(x, -1).real, lambda x: mp.lambertw(x, -1).real, (-0.36, -1e-30), near=(-0.2,)),
    "ellipk(x)": row(special.ellipk, mp.ellipk, (-100, 0.999), near=(0.0, 0.9)),
    "ellipe(x)": row(special.ellipe, mp.ellipe, (-100, 1), near=(0.0, 0.9)),
    "slope of tanh(x)": row(slope(np.tanh), lambda x: mp.sech(x) ** 2, (-300, 300), (-40, 40)),
    "slope of expit(x)": row(slope(special.expit), lambda x: (mp.sech(x / 2) / 2) ** 2, (-700, 700), (-85, 85)),
    "slope of gammainc(a, 1.5) by a": row(
        slope(lambda a: special.gammainc(a, 1.5)), lambda a: mp.diff(lambda t: mp.gammainc(t, 0, 1.5), a) / mp.gamma(a)
        - mp.digamma(a) * mp.gammainc(a, 0, 1.5, regularized=True), (0.05, 30), near=(1.0, 2.0)),
    "slope of digamma(x)": row(slope(special.digamma), lambda x: mp.polygamma(1, x), (1e-2, 1e5), near=(1.0,)),
}


def points(row: Row, dtype: Any, count: int, seed: int) -> list[Any]:
    """Draw points of a domain: a third evenly, a third by magnitude, a third near the hard points, and the ends."""
    rng = np.random.default_rng(seed)
    drawn = []
    for low, high in row.wide if dtype == np.float64 else row.narrow:
        third = count // 3
        even = rng.uniform(low / 2, high / 2, third) * 2
        smallest, largest = 1e-30 if low <= 0 else low, max(abs(low), abs(high))
        size = np.exp(rng.uniform(math.log(smallest), math.log(largest), third))
        signed = np.where(rng.uniform(size=third) < 0.5, size, -size) if low < 0 else size
        places = rng.choice(row.near, count - 2 * third - 2 - len(row.near))
        apart = 10.0 ** rng.uniform(-16, -1, len(places)) * rng.choice([-1.0, 1.0], len(places))
        close = np.where(places == 0, apart, places * (1 + apart))
        x = np.concatenate([even, signed, close, row.near, [low, high]])
        x = np.where((x < low) | (x > high), even[0], x).astype(dtype)
        inside = (x >= dtype(low)) & (x <= dtype(high))
        drawn.append(np.where(inside, x, dtype(even[0])))
    return drawn


def exact(row: Row, arguments: list[Any]) -> tuple[Any, Any]:
    """Return the exact values, each as a sum of two doubles."""
    high, low = np.empty(len(arguments[0])), np.empty(len(arguments[0]))
    with mp.workdps(DIGITS):
        for k, x in enumerate(zip(*[a.tolist() for a in arguments], strict=True)):
            value = row.exact(*map(mpf, x))
            high[k] = float(value)
            low[k] = float(value - mpf(high[k]))
    return high, low


def errors(got: Any, high: Any, low: Any) -> Any:
    """Return how far off values are, in units in the last place of their type at the exact value."""
    limits = np.finfo(got.dtype)
    unit = np.spacing(np.maximum(np.abs(high), limits.tiny).astype(got.dtype)).astype(np.float64)
    difference = (got.astype(np.float64) - high - low) / unit
    return np.where(np.abs(high) < limits.tiny, 0.0, np.abs(difference))  # below, absolute errors count


def compiled(arguments: dict[str, list[Any]], precise: bool) -> dict[str, Any]:
    """Run all functions as one compiled program; arrays differ in length, so that each has a loop of its own."""
    def every(x: dict[str, list[Any]]) -> dict[str, Any]:
        return {name: ROWS[name].written(*x[name]) for name in x}

    return sg.jit(every, options=sg.Options(precise=precise))(arguments)


def measured(count: int, seed: int, names: Collection[str] = ROWS.keys()) -> dict[str, list[float]]:
    """Measure functions: the largest error in double precision by vector and by scalar, and in single."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for dtype in (np.float64, np.float32):
        drawn = {name: points(ROWS[name], dtype, count + k, seed) for k, name in enumerate(ROWS) if name in found}
        right = {name: exact(ROWS[name], x) for name, x in drawn.items()}
        for precise in (False, True):
            for name, got in compiled(drawn, precise).items():
                found[name].append(float(np.max(errors(got, *right[name]))))
    return found


def table(found: dict[str, list[float]]) -> str:
    """Print the page's table."""
    lines = [
        "| function | domain | f64 | f64 precise | domain in f32 | f32 | f32 precise |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, figures in found.items():
        wide, narrow = (" x ".join(f"[{low:g}, {high:g}]" for low, high in part)
                        for part in (ROWS[name].wide, ROWS[name].narrow))
        shown = [f"{math.ceil(figure * 100) / 100:.2f}" for figure in figures]
        lines.append(f"| `{name}` | {wide} | {shown[0]} | {shown[1]} | {narrow} | {shown[2]} | {shown[3]} |")
    return "\n".join(lines) + "\n"


def promised(text: str) -> dict[str, list[float]]:
    """Read the table back."""
    pattern = r"^\| `(.+?)` \| [^|]+ \| ([\d.]+) \| ([\d.]+) \| [^|]+ \| ([\d.]+) \| ([\d.]+) \|$"
    return {name: [float(f) for f in figures] for name, *figures in re.findall(pattern, text, re.MULTILINE)}


@click.command()
@click.option("--points", "count", default=40_000, show_default=True, help="How many points a function.")
@click.option("--seed", default=1, show_default=True, help="Of the random points.")
@click.option("--write", is_flag=True, help="Write the table into docs/accuracy.md.")
def main(count: int, seed: int, write: bool) -> None:
    """Measure the functions' errors against mpmath, and print the table of docs/accuracy.md."""
    text = table(measured(count, seed))
    click.echo(text, nl=False)
    if write:
        page = PAGE.read_text(encoding="utf-8")
        head, tail = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{head}{BEGIN}{text}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Which of SciPy's distributions are traced: a generated table, which `docs/scipy.md` has, checked by running it.

Values are compared inside of the support, at its ends and outside; derivatives by the variable, the location, the
scale and the shape parameters that are no integers, to second order, along a line that stays inside.
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.stats as st
from scipy.stats import _distr_params as examples

import symgrad as sg
from symgrad.errors import SymgradError
from tests.night import some
from tests.scipy.along import INTERPRETED, VERSION, along, derived, differences

CONTINUOUS = ("logpdf", "pdf", "logcdf", "cdf", "logsf", "sf")
DISCRETE = ("logpmf", "pmf", *CONTINUOUS[2:])
SLOW = frozenset({"levy_stable", "studentized_range", "kstwo"})
SHORTER = {"ksone": (20,)}
"""Fewer things than in SciPy's example, as the time grows with them."""
PAGE = Path(__file__).parents[2] / "docs" / "scipy.md"
FURTHER = {
    "kstwobign.pdf": 1e-8, "kstwobign.logpdf": 1e-8, "planck.logcdf": 1e-7, "yulesimon.logcdf": 1e-4,
    "betanbinom.logcdf": 1e-6,
}
"""Where SciPy itself is off, or the difference of two numbers near 1."""
ROUNDED = {"nchypergeom_wallenius": 1e-10}
"""How far SciPy's chances may be off: integrals to so many digits; of others sums, and 1 less these, round so far."""
NEWEST = (1, 17)
"""The version whose formulas the page's tables are about."""
NEXT_TO_0 = 1e-300 if VERSION >= NEWEST else 1e-15
"""Older versions take ``log(1 - x)`` of some distributions, which is 0 for x = 1e-20."""


def chosen() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return one example of each distribution that SciPy's own tests try: its shape parameters and its methods."""
    found: dict[str, tuple[Any, tuple[str, ...]]] = {}
    for rows, methods in ((examples.distcont, CONTINUOUS), (examples.distdiscrete, DISCRETE)):
        for name, shapes in rows:
            if isinstance(name, str) and name not in SLOW:
                found.setdefault(name, (SHORTER.get(name, tuple(shapes)), methods))
    return dict(sorted(found.items()))


EXAMPLES = chosen()


def numbers(shapes: Any) -> list[Any]:
    """Return shape parameters as floating-point numbers; one of them is a list."""
    return [np.asarray(shape, float)[()] for shape in shapes]


def moves_of(distribution: Any, shapes: Any) -> list[Any]:
    """Return steps of shape parameters; None of one that is a number of things."""
    whole = [info.integrality for info in distribution._shape_info()] + [False]
    return [None if counts and np.all(s == np.rint(s)) else 0.03 * s
            for s, counts in zip(numbers(shapes), whole, strict=False)]


def places(name: str) -> tuple[Any, Any]:
    """Return points inside of the support, and points at its ends and outside."""
    shapes, methods = EXAMPLES[name]
    distribution, discrete = getattr(st, name), methods is DISCRETE
    inside = np.unique(np.asarray(distribution.ppf([0.1, 0.35, 0.6, 0.9], *shapes), float))
    ends = [e for e in map(float, distribution.support(*shapes)) if np.isfinite(e)]
    beside = (-1.0, 0.0, 1.0) if discrete else (-0.5, 0.0, 0.5)
    return inside, np.array([*[e + d for e in ends for d in beside], -3.25])


@cache
def answered(name: str) -> dict[str, str]:
    """Say of each method what is traced: nothing, values, derivatives but by shape parameters, or all derivatives."""
    shapes, methods = EXAMPLES[name]
    return {method: _checked(name, method, shapes, discrete=methods is DISCRETE) for method in methods}


def _checked(name: str, method: str, shapes: Any, *, discrete: bool) -> str:
    function = getattr(getattr(st, name), method)
    inside, outside = places(name)
    x = np.concatenate([inside, outside])
    with np.errstate(all="ignore"):
        expected = function(x, *shapes)
    said = ""
    try:
        found = sg.jit(function, options=INTERPRETED)(x, *numbers(shapes))
    except SymgradError as error:
        said = str(error)
    if said:
        assert f"scipy.stats.{name}.{method}" in said, said
        return "-"
    expected = np.where(np.isneginf(expected) & (found < -700), found, expected)  # SciPy takes the logarithm of 0
    if (discrete and method[-2:] in {"df", "sf"}) or name in ROUNDED:
        own, other = [np.nan_to_num(np.exp(v) if "log" in method else v) for v in (found, expected)]
        expected = np.where(np.abs(own - other) < ROUNDED.get(name, 1e-14), found, expected)
    close = FURTHER.get(f"{name}.{method}", 1e-9)
    np.testing.assert_allclose(found, expected, rtol=close, atol=NEXT_TO_0, err_msg=f"{name}.{method}")
    inside = inside[np.isfinite(expected[: len(inside)])]
    scaled = {} if discrete else {"loc": 0.3, "scale": 1.7}
    given = inside if discrete else inside * 1.7 + 0.3
    moves = moves_of(function.__self__, shapes)
    start = [given, *numbers(shapes), *scaled.values()]
    finite = np.isfinite(expected[-len(outside):])

    def call(x: Any, *rest: Any) -> Any:
        """Take points outside along: what is not finite there is left out, and must not spoil the derivative."""
        own = dict(zip(scaled, rest[len(shapes):], strict=True))
        beyond = function(outside, *rest[: len(shapes)])
        return np.concatenate([function(x, *rest[: len(shapes)], **own), np.where(finite, beyond, 0)[-1:]])

    near = np.minimum(1, np.abs(inside))  # some are close to the end of the support at 0
    step = 0.02 * float(np.min(near, initial=1.0))
    shifts = [None if discrete else 0.02 * near * np.cos(np.arange(len(inside))), *[None] * len(shapes)]
    shifts += [step] * len(scaled)
    for kind, moved in (("all", [shifts[0], *moves, *shifts[1 + len(shapes):]]), ("x", shifts)):
        if all(m is None for m in moved):
            return "values"
        line = along(call, start, moved)
        try:
            got = derived(line)
        except SymgradError:  # not by its shape parameters, or not where these are known
            continue
        want = differences(line, 4e-3)
        scale = max(1.0, *map(abs, want))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * scale, err_msg=f"{name}.{method}")
        return kind
    return "values"


KINDS = {"": "-", "value": "values", "d/dx": "x", "all": "all"}
"""What the tables of the page say, from nothing to all."""


@cache
def rows(heading: str) -> dict[str, list[str]]:
    """Return the cells of one of the page's tables, by the distributions, as `KINDS`."""
    section = PAGE.read_text(encoding="utf-8").partition(heading)[2].partition("\n##")[0]
    found = dict(re.findall(r"^\| (\w+) \|(.*)\|$", section, re.MULTILINE))
    return {name: [KINDS[cell.strip()] for cell in found[name].split("|")] for name in [*found][1:]}


LESS: dict[str, tuple[str, tuple[int, int]]] = {
    "logser": ("logcdf cdf logsf sf", (1, 17)), "tukeylambda": ("mean var std moment stats", (1, 17)),
    "beta": ("entropy", (1, 16)), "dpareto_lognorm": ("logsf sf entropy", (1, 16)),
    "ncf": ("cdf ppf isf interval median", (1, 15)),
}
"""Methods for which less is traced than the page says, with versions of SciPy before this one."""


def agrees(name: str, found: dict[str, str], page: list[str]) -> None:
    """Compare what is traced with the page, of which older versions have less where `LESS` says so."""
    less, since = LESS.get(name, ("", VERSION))
    order = [*KINDS.values()]
    for (method, kind), said in zip(found.items(), page, strict=True):
        if since > VERSION and method in less.split():
            assert order.index(kind) < order.index(said), f"{name}.{method} is {kind}: as the page says, not less"
        elif VERSION < NEWEST:  # some formulas of older versions can be traced
            assert order.index(kind) >= order.index(said), f"{name}.{method} is {kind}, and the page says {said}"
        else:
            assert kind == said, f"{name}.{method} is {kind}, and the page says {said}"


HEAVY = ("betabinom", "betanbinom", "nchypergeom_fisher", "ncf", "ncx2")
"""Sums of which second derivatives are long programs: tried at night."""


@pytest.mark.parametrize("name", [
    *some([name for name in EXAMPLES if name not in HEAVY], of=3),
    *[pytest.param(name, marks=pytest.mark.nightly) for name in HEAVY]])
def test_values_and_derivatives(name: str) -> None:
    agrees(name, answered(name), rows("## Distributions\n").get(name, ["-"] * len(CONTINUOUS)))


# -- quantiles, moments and entropies

Q = np.array([0.01, 0.1, 0.35, 0.62, 0.9, 0.99])
SUMMARIES: dict[str, Any] = {
    "ppf": lambda d, q, *rest, **given: d.ppf(q, *rest, **given),
    "isf": lambda d, q, *rest, **given: d.isf(q, *rest, **given),
    "interval": lambda d, q, *rest, **given: np.concatenate(d.interval(q, *rest, **given)),
    **{name: (lambda d, *rest, name=name, **given: getattr(d, name)(*rest, **given))
       for name in ("median", "mean", "var", "std", "entropy")},
    "moment": lambda d, *rest, **given: d.moment(3, *rest, **given),
    "stats": lambda d, *rest, **given: np.stack(d.stats(*rest, **given)),
}
ESTIMATED = {"exponpow.moment": 3e-9, **dict.fromkeys(("johnsonsb.var", "johnsonsb.std", "johnsonsb.stats"), 4e-9)}
"""Where SciPy's quadrature is off by so much; `test_moments_that_mpmath_knows` has them."""
NOT_FINITE = frozenset({"pareto.moment", *[f"kappa3.{name}" for name in SUMMARIES]})
"""What is infinite, where SciPy has NaN or a number."""
SINGLY = frozenset({"norminvgauss.isf"})
"""Where SciPy has the first element for all."""


@cache
def summarized(name: str) -> dict[str, str]:
    """Say of each method what is traced, as `answered`; what is NaN where SciPy has a number is none."""
    return {method: _summary(name, method) for method in SUMMARIES}


def _summary(name: str, method: str) -> str:
    shapes, methods = EXAMPLES[name]
    discrete, distribution = methods is DISCRETE, getattr(st, name)
    scaled = {} if discrete else {"loc": 0.3, "scale": 1.7}
    by_chance = method in {"ppf", "isf", "interval"}

    def call(*given: Any) -> Any:
        own = dict(zip(scaled, given[len(given) - len(scaled):], strict=True))
        return SUMMARIES[method](distribution, *given[:len(given) - len(scaled)], **own)

    ends = [0.0, 1.0, 1.5, -0.5] if by_chance and method != "interval" else []
    start = [*[np.append(Q, ends)] * by_chance, *numbers(shapes), *scaled.values()]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(call(*start[:by_chance], *shapes, *scaled.values()), float)
        if f"{name}.{method}" in SINGLY:
            expected = np.array([call(q, *start[1:]) for q in start[0]])
    said = ""
    try:
        found = np.asarray(sg.jit(call, options=INTERPRETED)(*start))
    except SymgradError as error:
        said = str(error)
    if said:
        assert f"scipy.stats.{name}." in said, said
        return "-"
    if np.any(np.isnan(found) & ~np.isnan(expected)):
        return "-"
    if f"{name}.{method}" in NOT_FINITE:
        expected = np.where(np.isinf(found), found, expected)
    close = ESTIMATED.get(f"{name}.{method}", 1e-9)
    np.testing.assert_allclose(found, expected, rtol=close, atol=1e-12, err_msg=f"{name}.{method}")
    moves = moves_of(distribution, shapes)
    chances = [None if discrete else 0.003 * np.cos(np.arange(len(Q)))] * by_chance
    start[:by_chance] = [Q] * by_chance
    finite = np.isfinite(expected if not by_chance else expected[:len(expected) - len(ends)])

    def inside(*given: Any) -> Any:
        return np.where(finite, call(*given), 0)

    for kind, moved in (("all", moves), ("x", [None] * len(shapes))):
        line = along(inside, start, [*chances, *moved, *[0.02] * len(scaled)])
        if all(m is None for m in (*chances, *moved, *scaled)) or (kind == "x" and discrete):
            return "values"
        try:
            got = derived(line)
        except SymgradError:
            continue
        value = sg.jit(line, options=INTERPRETED)  # which is SciPy's, and without the noise of its searches
        steps = discrete and (by_chance or method == "median")  # which differences may meet
        want = (value(0.0), 0.0, 0.0) if steps else differences(lambda t, f=value: f(float(t)), 4e-3)  # type: ignore[misc]
        if np.isfinite(got).all():
            bound = 1e-5 * max(1.0, *map(abs, want))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=bound, err_msg=f"{name}.{method}")
            return kind
    return "values"


BY_DAY = frozenset({
    "alpha", "boltzmann", "cauchy", "crystalball", "hypergeom", "invgauss", "landau", "lomax", "nbinom", "t"})
"""One of each way: SciPy's formulas, a root, a sum over quantiles or integers, a refusal. All are tried at night."""


@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # of older versions' own integrals
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in BY_DAY else pytest.mark.nightly) for name in EXAMPLES])
def test_quantiles_moments_and_entropies(name: str) -> None:
    found = summarized(name)
    kind = "all" if name in rows("## Distributions\n") else "-"
    page = rows("### Quantiles").get(name, [kind] * len(SUMMARIES))
    if kind == "all":
        agrees(name, found, page)


def exceptions() -> str:
    """Write the table of the distributions of which not each of these is there with all derivatives."""
    words = {"-": "", "values": "value", "x": "d/dx", "all": "all"}
    head = f"| distribution | {' | '.join(SUMMARIES)} |\n{'|---' * (1 + len(SUMMARIES))}|\n"
    have = re.findall(r"^\| (\w+) \|", table().partition("---|\n")[2], re.MULTILINE)
    rows = [(name, [words[kind] for kind in summarized(name).values()]) for name in have]
    return head + "".join([f"| {name} | {' | '.join(own)} |\n" for name, own in rows if {*own} != {"all"}])


def table() -> str:
    """Write the table of the page."""
    words = {"-": "", "values": "value", "x": "d/dx", "all": "all"}
    head = "| distribution | log density | density | logcdf | cdf | logsf | sf |\n|---|---|---|---|---|---|---|\n"
    rows = [f"| {name} | {' | '.join(words[kind] for kind in answered(name).values())} |\n" for name in EXAMPLES]
    return head + "".join(row for row in rows if re.search(r"[a-z/]+ \|.*[a-z] \|", row))


def test_the_page_names_every_distribution() -> None:
    """Once: in the table, or among those that are refused, with a reason."""
    page = PAGE.read_text(encoding="utf-8").partition("## Distributions\n")[2]
    answers, _, others = page.partition("### Distributions that are refused")
    answers = answers.partition("### Quantiles")[0]
    have = re.findall(r"^\| (\w+) \|", answers.replace("| distribution |", ""), re.MULTILINE)
    rows = re.findall(r"^\| ([\w, ]+) \| (\w.*) \|$", others, re.MULTILINE)
    refused = [name for names, _ in rows for name in names.split(", ") if name != "distribution"]
    there = [name for name in dir(st) if isinstance(getattr(st, name), (st.rv_continuous, st.rv_discrete))]
    newer = {"irwinhall", "landau", "poisson_binom", "rel_breitwigner", "jf_skew_t", "dpareto_lognorm", "betanbinom"}
    there = [name for name in there if name != "trapz"]  # which older versions have of "trapezoid"
    assert {*there} <= {*have, *refused}
    assert {*have, *refused} - {*there} <= newer  # older versions have not all of them
    assert len({*have, *refused}) == len([*have, *refused])
    assert f"The other {len(have)} distributions" in others


@pytest.mark.parametrize("name", ["kstwo", "studentized_range"])
def test_what_is_refused_is_by_its_name(name: str) -> None:
    shapes = next(map(float, shapes) for given, shapes in examples.distcont if given == name)
    with pytest.raises(SymgradError, match=rf"scipy\.stats\.{name}\.cdf(?s:.*)its formula of np"):
        sg.jit(getattr(st, name).cdf, options=INTERPRETED)(np.array([0.5, 1.0]), *shapes)


@pytest.mark.nightly
@pytest.mark.skipif(VERSION != NEWEST, reason="the page is about another version")
def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
    assert exceptions() in PAGE.read_text(encoding="utf-8")


NNLF = {
    "norm": ([0.3, 1.2], [0.1, 0.2, 0.5]), "norm, no scale": ([0.3, -1.2], [0.1, 0.2, 0.5]),
    "gamma": ([2.0, 0.1, 1.5], [0.3, 0.9, 2.0]), "gamma, outside": ([2.0, 0.5, 1.5], [0.3, 0.9, 2.0]),
    "beta": ([2.0, 3.0, 0.0, 1.0], [0.2, 0.4, 0.5]), "poisson": ([2.0, 0.0], [1.0, 3.0, 0.0]),
}


@pytest.mark.parametrize("name", NNLF)
def test_the_likelihood_of_a_sample(name):
    """SciPy asks any() there for what it returns, and not for what it computes."""
    distribution = getattr(st, name.partition(",")[0])
    theta, x = map(np.array, NNLF[name])
    expected = distribution.nnlf(theta, x)
    np.testing.assert_allclose(sg.jit(lambda t: distribution.nnlf(t, x))(theta), expected, rtol=1e-14)
    if np.isfinite(expected) and name != "poisson":
        sg.check_grads(lambda t: distribution.nnlf(t, x), (theta,))


def test_a_distribution_that_a_closure_names_first():
    """What answers is asked once for each module of SciPy's, when all of it is declared."""
    program = (
        "import numpy as np, symgrad as sg, scipy.stats as st\n"
        "z = np.array([0.3, 0.5])\n"
        "def go(D): return sg.jit(lambda z: D.pdf(z, 1.5))(z)\n"
        "go(st.skewnorm)\n"
        "print(np.max(np.abs(sg.jit(lambda z: st.skewnorm.cdf(z, 1.5))(z) - st.skewnorm.cdf(z, 1.5))) < 1e-14)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_moments_that_mpmath_knows() -> None:
    """Where SciPy's quadrature is off by 1e-9: the table compares these with it."""
    b, (c, d) = 2.697119160358469, (4.3172675099141058, 3.1837781130785063)
    cube = mp.quad(lambda x: x**3 * b * x ** (b - 1) * mp.exp(1 + x**b - mp.exp(x**b)), [0, 1, 2, 4])
    found = sg.jit(lambda b: st.exponpow.moment(3, b), options=INTERPRETED)(b)
    np.testing.assert_allclose(found, float(cube), rtol=1e-12)
    first, second = [mp.quad(lambda z, n=n: mp.npdf(z) / (1 + mp.exp((c - z) / d)) ** n, [-12, 0, 12]) for n in (1, 2)]
    found = sg.jit(st.johnsonsb.var, options=INTERPRETED)(c, d)
    np.testing.assert_allclose(found, float(second - first**2), rtol=1e-12)


def test_quantiles_far_out() -> None:
    """As far as SciPy's functions know the chances: its own searches end before."""
    def chance(x: float) -> Any:
        with mp.workdps(30):
            far = [x - step for step in (2, 0.5, 0.2, 0.1, 0.05, 0.02, 0)]
            return mp.quad(lambda t: 2 * mp.npdf(t) * mp.ncdf(4 * t), far)

    x = sg.jit(st.skewnorm.ppf, options=INTERPRETED)(np.array([1e-12, 1e-200]), 4.0)
    np.testing.assert_allclose([float(chance(one)) for one in x], [1e-12, 1e-200], rtol=1e-9)
    q = np.array([1e-300, 1e-20, 0.3])
    found = sg.jit(st.gumbel_l.isf, options=INTERPRETED)(q), sg.jit(st.exponnorm.ppf, options=INTERPRETED)(q, 2.0)
    np.testing.assert_allclose(found[0], np.log(-np.log(q)), rtol=1e-12)
    np.testing.assert_allclose(st.exponnorm.cdf(found[1], 2.0), q, rtol=1e-9)
    small = sg.jit(st.ncx2.isf, options=INTERPRETED)(np.array([1e-200, 1e-12]), 3.0, 2.0)
    np.testing.assert_allclose(st.ncx2.sf(small, 3, 2), [1e-200, 1e-12], rtol=1e-9)


def _beside(f: Any, x: float, order: int) -> float:
    """Return a derivative by mpmath."""
    with mp.workdps(40):
        return float(mp.diff(f, mp.mpf(x), order))


LIMITS: dict[str, tuple[Any, Any, float]] = {
    # SciPy takes the normal distribution of small skewnesses, and Gumbel's where both parameters are 0
    "pearson3.logpdf": (lambda s: st.pearson3.logpdf(0.7, s), lambda s: (
        mp.log(2 / abs(s)) + (4 / s**2 - 1) * mp.log(4 / s**2 + 1.4 / s) - 4 / s**2 - 1.4 / s - mp.loggamma(4 / s**2)),
        1e-5),
    "pearson3.cdf": (lambda s: st.pearson3.cdf(0.7, s), lambda s: (
        mp.gammainc(4 / s**2, 0, 4 / s**2 + 1.4 / s, regularized=True)), 0.2),
    "pearson3.cdf, steep": (lambda s: st.pearson3.cdf(-1.1, s), lambda s: (
        mp.gammainc(4 / s**2, 4 / s**2 - 2.2 / s, mp.inf, regularized=True)), -0.9),
    "kappa4.logcdf, h": (lambda h: st.kappa4.logcdf(0.7, h, 0.2), lambda h: (
        mp.log1p(-h * (1 - mp.mpf("0.14")) ** 5) / h), 1e-12),
    "kappa4.logpdf, k": (lambda k: st.kappa4.logpdf(0.7, 0.3, k), lambda k: (
        (1 / k - 1) * mp.log1p(-0.7 * k) + (1 / mp.mpf(0.3) - 1) * mp.log1p(-0.3 * (1 - 0.7 * k) ** (1 / k))), 1e-12),
    "kappa4.ppf": (lambda k: st.kappa4.ppf(0.2, -0.3, k), lambda k: (
        (1 - ((1 - mp.mpf(0.2) ** -mp.mpf(0.3)) / -mp.mpf(0.3)) ** k) / k), 1e-12),
    "geninvgauss.logpdf": (lambda p: st.geninvgauss.logpdf(0.4, p, 1e-3), lambda p: (
        (p - 1) * mp.log(0.4) - mp.mpf(1e-3) * (0.4 + 1 / mp.mpf(0.4)) / 2 - mp.log(2 * mp.besselk(p, 1e-3))), -2.5),
    "ncx2.pdf by df": (lambda df: st.ncx2.logpdf(40.0, df, 30.0), lambda df: (
        (df / 4 - 0.5) * mp.log(mp.mpf(40) / 30) + mp.log(mp.besseli(df / 2 - 1, mp.sqrt(1200)) / 2) - 35), 0.7),
}


@pytest.mark.parametrize("name", LIMITS)
def test_formulas_near_limits(name: str) -> None:
    """Value and two derivatives by a shape parameter against mpmath."""
    function, exact, place = LIMITS[name]
    for order, own in enumerate((sg.jit(function, options=INTERPRETED), sg.grad(function), sg.grad(sg.grad(function)))):
        np.testing.assert_allclose(own(place), _beside(exact, place, order), rtol=1e-9, err_msg=f"{name} {order}")


def test_slopes_where_shape_parameters_are_0() -> None:
    for function in (lambda s: st.pearson3.cdf(0.7, s), lambda s: st.pearson3.pdf(0.7, s),
                     lambda h: st.kappa4.cdf(0.7, h, 0.0), lambda k: st.kappa4.ppf(0.3, 0.0, k)):
        h = 1e-3
        at = [float(sg.jit(function, options=INTERPRETED)(x)) for x in (-2 * h, -h, 0.0, h, 2 * h)]
        slope = (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * h)
        np.testing.assert_allclose(sg.grad(function)(0.0), slope, rtol=1e-9)


def test_chances_far_out_in_tails() -> None:
    """By mpmath's integrals of densities, and by sums: where SciPy subtracts from 1."""
    def check(function: Any, given: Any, expected: Any) -> None:
        found = sg.jit(function, options=INTERPRETED)(*given)
        np.testing.assert_allclose(found, float(expected), rtol=1e-9, err_msg=str(given))

    with mp.workdps(30):
        k = mp.besselk(mp.mpf(2.3), 1.5)
        check(st.geninvgauss.sf, (80.0, 2.3, 1.5), mp.quad(
            lambda x: x**1.3 * mp.exp(-0.75 * (x + 1 / x)), [80, 90, 120, 200]) / (2 * k))
        check(st.norminvgauss.cdf, (-30.0, 1.25, 0.5), mp.quad(
            lambda x: 1.25 / mp.pi * mp.besselk(1, 1.25 * mp.sqrt(1 + x * x)) * mp.exp(mp.sqrt(1.3125) + x / 2)
            / mp.sqrt(1 + x * x), [-80, -50, -35, -30]))
        check(st.genhyperbolic.sf, (25.0, 1.0, 1.5, -0.5), mp.quad(
            lambda x: mp.exp(-1.5 * mp.sqrt(1 + x * x) - x / 2), [25, 28, 35, 60]) / (
                2 * mp.quad(lambda x: mp.exp(-1.5 * mp.sqrt(1 + x * x)) * mp.cosh(x / 2), [0, 2, 10, 60])))
        check(st.betabinom.sf, (37.0, 40.0, 2.0, 90.0), sum(
            mp.binomial(40, j) * mp.beta(j + 2, 130 - j) / mp.beta(2, 90) for j in (38, 39, 40)))
        terms = [mp.binomial(80, j) * mp.binomial(60, 60 - j) / mp.mpf(2) ** j for j in range(61)]
        check(st.nchypergeom_fisher.sf, (57.0, 140.0, 80.0, 60.0, 0.5), sum(terms[58:]) / sum(terms))
    check(st.landau.sf, (1e6,), st.landau.sf(1e6))
    check(st.ksone.sf, (0.5, 1000.0), st.ksone.sf(0.5, 1000))
    check(st.nct.sf, (60.0, 5.0, -2.0), st.nct.sf(60.0, 5, -2))
    check(st.irwinhall.cdf, (0.25, 60.0), mp.mpf(0.25) ** 60 / mp.factorial(60))
    assert np.isnan(sg.jit(st.irwinhall.cdf, options=INTERPRETED)(60.0, 129.0))


class Geometric(st.rv_discrete):  # type: ignore[misc]
    """A distribution of integers of which `_pmf` alone is said."""

    def _pmf(self, k: Any, p: Any) -> Any:
        return p * (1 - p) ** k


def test_the_distribution_function_of_integers_of_ones_own() -> None:
    own, k = Geometric(a=0, name="own", shapes="p"), np.array([0.0, 3.0, 90.0])
    both = sg.jit(lambda p: np.stack([own.cdf(k, p), own.sf(k, p)]))(0.3)
    np.testing.assert_allclose(both, [1 - 0.7 ** (k + 1), 0.7 ** (k + 1)], rtol=1e-12)
    slope = sg.grad(lambda p: np.sum(own.sf(k, p)))(0.3)
    np.testing.assert_allclose(slope, -np.sum((k + 1) * 0.7**k), rtol=1e-12)


def test_a_quantile_has_derivatives_of_any_order() -> None:
    x = float(st.invgauss.ppf(0.3, 0.4))

    def density(x: Any) -> Any:
        return st.invgauss.pdf(x, 0.4)

    f, slope, bend = [float(g(x)) for g in (density, sg.grad(density), sg.grad(sg.grad(density)))]
    third = sg.grad(sg.grad(sg.grad(lambda q: st.invgauss.ppf(q, 0.4))))(0.3)
    np.testing.assert_allclose(third, (3 * slope**2 - f * bend) / f**5, rtol=1e-8)


def test_what_is_not_known_is_nan() -> None:
    """A density with a kink elsewhere than at 0, and a series without an end: their values and their derivatives."""
    class Unnamed(type(st.crystalball)):  # type: ignore[misc]
        """One whose kink nobody names."""

    for function, *given in ((Unnamed(name="unnamed").entropy, 2.0, 3.0), (st.zipf.entropy, 1.02)):
        assert all(map(np.isnan, sg.value_and_grad(function)(*given)))
    value, slope = sg.value_and_grad(st.skewcauchy.entropy)(0.4)
    np.testing.assert_allclose([value, slope], [np.log(4 * np.pi), 0], rtol=1e-12, atol=1e-12)
    assert sg.jit(st.pareto.var, options=INTERPRETED)(1.5) == np.inf
    assert all(np.isnan(sg.jit(st.exponnorm.ppf, options=INTERPRETED)(np.array([np.nan, 0.3]), np.array([2.0, -1.0]))))


def test_quantiles_and_sums_in_c() -> None:
    """Of several elements at once, and in a loop."""
    q, k = np.linspace(0.01, 0.99, 7)[:, None], np.array([0.5, 2.0])
    np.testing.assert_allclose(sg.jit(st.exponnorm.ppf)(q, k), st.exponnorm.ppf(q, k), rtol=1e-12)
    np.testing.assert_allclose(sg.jit(st.poisson.ppf)(q, 4 * k), st.poisson.ppf(q, 4 * k))
    np.testing.assert_allclose(sg.jit(st.poisson.entropy)(50 * k), st.poisson.entropy(50 * k), rtol=1e-9)

    x, shapes = np.array([0.4, 1.5, 9.0]), np.array([2.3, 1.5, 0.5])

    def several(s: Any) -> Any:
        return np.sum(st.geninvgauss.cdf(x, s[0], s[1])) + np.sum(st.zipfian.sf(np.floor(x), s[0], 20))

    one, other = [sg.value_and_grad(several, options=options)(shapes) for options in (sg.Options(), INTERPRETED)]
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-10)

    def thrice(k: Any) -> Any:
        return sg.scan(lambda x, _: (x + st.exponnorm.ppf(0.3, x * x + 1), None), k, None, length=3)[0]

    sg.check_grads(thrice, (0.5,))


@pytest.mark.parametrize(("call", "remedy"), [
    (st.gamma.fit, r"gamma\.fit of traced values(?s:.*)nnlf"),
    (lambda x: st.norm.fit(x)[0], r"norm\.fit(?s:.*)nnlf"),
    (lambda x: st.gamma.rvs(x[0]), r"gamma\.rvs(?s:.*)noise"),
    (lambda x: st.gamma(x[0]).expect(np.sin), r"gamma\.expect of a function(?s:.*)trapezoid"),
    (lambda x: st.poisson.expect(np.sin, (x[0],)), r"poisson\.expect of a function(?s:.*)pmf"),
])
def test_what_is_refused_says_what_to_write(call: Any, remedy: str) -> None:
    with pytest.raises(SymgradError, match=rf"scipy\.stats\.{remedy}"):
        sg.jit(call, options=INTERPRETED)(np.array([0.3, 0.9]))


def test_the_mean_as_an_expectation() -> None:
    assert sg.jit(lambda a: st.gamma(a, 1.0).expect(), options=INTERPRETED)(0.5) == 1.5
    assert sg.jit(lambda m: st.poisson(m, 1).expect(), options=INTERPRETED)(0.5) == 1.5


def test_the_result_of_a_test_is_returned() -> None:
    """SciPy's class has a property of the name of an attribute."""
    x = np.array([0.3, 0.5, 0.9])
    found, expected = sg.jit(lambda x: st.ttest_1samp(x, 0.5), options=INTERPRETED)(x), st.ttest_1samp(x, 0.5)
    assert type(found) is type(expected)
    np.testing.assert_allclose([*found, found.df], [*expected, expected.df])


class Decay(st.rv_continuous):  # type: ignore[misc]
    """An exponential distribution of which only `_cdf` is said."""

    def _cdf(self, x: Any, k: Any) -> Any:
        return -np.expm1(-k * x)


class Held(st.rv_continuous):  # type: ignore[misc]
    """One that holds its parameter."""

    rate: Any = None

    def _cdf(self, x: Any) -> Any:
        return -np.expm1(-self.rate * x)


def test_a_distribution_that_holds_traced_values_is_refused() -> None:
    """What is found of it would have the gradient 0 by them."""
    def quantile(k: Any) -> Any:
        held = Held(a=0, name="held")
        held.rate = k
        return held.ppf(0.3)

    with pytest.raises(SymgradError, match=r"scipy.stats.held: quantiles and moments .*_cdf\(self, x, k\)"):
        sg.grad(quantile)(2.0)


def test_moments_of_a_distribution_function_and_its_far_tail() -> None:
    decay = Decay(a=0, name="decay", shapes="k")
    of = sg.jit(lambda k: (np.stack(decay.stats(k, moments="mvsk")), decay.isf(np.array([1e-3, 1e-20]), k)),
                options=INTERPRETED)
    moments, tail = of(2.0)
    np.testing.assert_allclose(moments, [0.5, 0.25, 2, 6], rtol=1e-9)
    np.testing.assert_allclose(tail, [-np.log(1e-3) / 2, np.nan], rtol=1e-9)  # 1 less a chance knows no smaller one


@pytest.mark.parametrize("name", ["pareto", "lomax"])
def test_moments_that_cancel(name: str) -> None:
    """They were made of moments about 0, and the kurtosis of 1,241 was a third off."""
    distribution = getattr(st, name)
    found = sg.jit(lambda b: np.stack(distribution.stats(b, moments="mvsk")), options=INTERPRETED)(1241.0)
    np.testing.assert_allclose(found, distribution.stats(1241.0, moments="mvsk"), rtol=1e-12)


def test_quantiles_whose_own_formula_overflows_or_rounds() -> None:
    slope = sg.grad(lambda a: st.kappa3.isf(0.999, a), options=INTERPRETED)(54.53459334)
    np.testing.assert_allclose(slope, -1.0850600580e-6, rtol=1e-8)
    found = sg.jit(lambda q: st.jf_skew_t.isf(q, 0.3, 2.0), options=INTERPRETED)(np.array([0.5, 0.9999, 0.99999999]))
    np.testing.assert_allclose(found, st.jf_skew_t.isf([0.5, 0.9999, 0.99999999], 0.3, 2.0), rtol=1e-9)


@pytest.mark.parametrize("call", [
    "zipf.ppf cdf 4", "binom.ppf cdf 10 .37", "geom.isf sf .37", "hypergeom.ppf cdf 20 7 12"])
def test_integers_of_chances_that_scipy_has_computed(call: str) -> None:
    name, chance, *given = call.split()
    distribution, method = getattr(st, name.split(".")[0]), name.split(".")[1]
    q = getattr(distribution, chance)(np.arange(1, 8), *map(float, given))
    expected = getattr(distribution, method)(q, *map(float, given))
    found = sg.jit(lambda q: getattr(distribution, method)(q, *map(float, given)), options=INTERPRETED)(q)
    np.testing.assert_array_equal(found, expected)


def test_what_a_formula_of_the_user_raises_is_the_users() -> None:
    class Own(Decay):
        def _ppf(self, q: Any, k: Any) -> Any:  # noqa: ARG002 - as SciPy calls it
            raise ValueError("no such rate")

    own = Own(a=0, name="own", shapes="k")
    with pytest.raises(ValueError, match="no such rate"):
        sg.jit(lambda k: own.ppf(0.3, k), options=INTERPRETED)(2.0)

"""Which of SciPy's distributions are traced: a generated table, which `docs/scipy.md` has, checked by running it.

Values are compared inside of the support, at its ends and outside; derivatives by the variable, the location, the
scale and the shape parameters that are no integers, to second order, along a line that stays inside.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.stats as st
from scipy.stats import _distr_params as examples

import symgrad as sg
from symgrad.errors import SymgradError
from tests.night import some
from tests.scipy.along import INTERPRETED, along, derived, differences

CONTINUOUS = ("logpdf", "pdf", "logcdf", "cdf", "logsf", "sf")
DISCRETE = ("logpmf", "pmf", *CONTINUOUS[2:])
SLOW = frozenset({
    "levy_stable", "studentized_range", "kstwo", "ksone", "gausshyper", "poisson_binom", "nchypergeom_wallenius",
})
PAGE = Path(__file__).parents[2] / "docs" / "scipy.md"
FURTHER = {
    "kstwobign.pdf": 1e-8, "kstwobign.logpdf": 1e-8, "planck.logcdf": 1e-7, "yulesimon.logcdf": 1e-4,
    "betanbinom.logcdf": 1e-6,
}
"""Where SciPy itself is off, or the difference of two numbers near 1."""
NEXT_TO_0 = 1e-300 if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 17) else 1e-15
"""Older versions take ``log(1 - x)`` of some distributions, which is 0 for x = 1e-20."""


def chosen() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return one example of each distribution that SciPy's own tests try: its shape parameters and its methods."""
    found: dict[str, tuple[Any, tuple[str, ...]]] = {}
    for rows, methods in ((examples.distcont, CONTINUOUS), (examples.distdiscrete, DISCRETE)):
        for name, shapes in rows:
            if isinstance(name, str) and name not in SLOW:
                found.setdefault(name, (tuple(shapes), methods))
    return dict(sorted(found.items()))


EXAMPLES = chosen()


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
        found = sg.jit(function, options=INTERPRETED)(x, *map(float, shapes))
    except SymgradError as error:
        said = str(error)
    if said:
        assert f"scipy.stats.{name}.{method}" in said, said
        return "-"
    expected = np.where(np.isneginf(expected) & (found < -700), found, expected)  # SciPy takes the logarithm of 0
    close = FURTHER.get(f"{name}.{method}", 1e-9)
    np.testing.assert_allclose(found, expected, rtol=close, atol=NEXT_TO_0, err_msg=f"{name}.{method}")
    inside = inside[np.isfinite(expected[: len(inside)])]
    whole = discrete or name in {"erlang", "irwinhall"}  # where an integer is a number of things
    reals = [None if whole and float(s).is_integer() else float(s) for s in shapes]
    scaled = {} if discrete else {"loc": 0.3, "scale": 1.7}
    given = inside if discrete else inside * 1.7 + 0.3
    moves = [None if s is None else 0.03 * s for s in reals]
    start = [given, *shapes, *scaled.values()]
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


@pytest.mark.parametrize("name", some(EXAMPLES, of=3))
def test_values_and_derivatives(name: str) -> None:
    answered(name)


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
    have = re.findall(r"^\| (\w+) \|", answers.replace("| distribution |", ""), re.MULTILINE)
    rows = re.findall(r"^\| ([\w, ]+) \| (\w.*) \|$", others, re.MULTILINE)
    refused = [name for names, _ in rows for name in names.split(", ") if name != "distribution"]
    there = [name for name in dir(st) if isinstance(getattr(st, name), (st.rv_continuous, st.rv_discrete))]
    newer = {"irwinhall", "landau", "poisson_binom", "rel_breitwigner", "jf_skew_t", "dpareto_lognorm", "betanbinom"}
    assert {*there} <= {*have, *refused}
    assert {*have, *refused} - {*there} <= newer  # older versions have not all of them
    assert len({*have, *refused}) == len([*have, *refused])
    assert f"The other {len(have)} distributions" in others


@pytest.mark.parametrize("name", ["landau", "skellam", "zipfian", "pearson3", "kappa4", "irwinhall"])
def test_what_is_refused_is_by_its_name(name: str) -> None:
    if not hasattr(st, name):
        pytest.skip("this SciPy has it not")
    shapes = next(map(float, shapes) for given, shapes in (*examples.distcont, *examples.distdiscrete) if given == name)
    method = "logpmf" if isinstance(getattr(st, name), st.rv_discrete) else "logpdf"
    with pytest.raises(SymgradError, match=rf"scipy\.stats\.{name}\.{method}(?s:.*)its formula of np"):
        sg.jit(getattr(getattr(st, name), method), options=INTERPRETED)(np.array([0.5, 1.0]), *shapes)


@pytest.mark.nightly
def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


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

"""Values, gradients and second derivatives where formulas break, against mpmath; guards, ties and kinks.

At +-1000, +-745, +-37, +-20, +-1e-8, +-1e-160, 0 and near poles, results are a few units in the last place off.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import symgrad as sg
from tests.hard_points import ROWS
from tests.looking import code


def derivatives(function):
    """Return value, gradient and second derivative of an elementwise function, element by element."""
    first = sg.grad(lambda x: np.sum(function(x)))
    second = sg.grad(lambda x: np.sum(first(x)))
    return lambda x: (function(x), first(x), second(x))


def points(name, dtype):
    """Return a row's points that a dtype has: not too large or small for it, and not rounded to 1."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = [(x, dtype(x)) for x in ROWS[name].points]
    kept = [r for x, r in rounded if np.isfinite(r) and (r != 0 or x == 0) and (abs(r) != 1 or abs(x) == 1)]
    return np.array(kept, dtype)


@cache
def found(dtype):
    """Compile all rows at once, and run them."""
    written = {name: row.written for name, row in ROWS.items()}  # and not mpmath's functions, of which caches grow

    def every(x):
        return {name: derivatives(function)(x[name]) for name, function in written.items()}

    return sg.jit(every)({name: points(name, dtype) for name in ROWS})


def is_right(got, exact, ulps, absolute, dtype):
    """Compare in units in the last place; what underflows may be 0, what overflows is infinite."""
    limits = np.finfo(dtype)
    with np.errstate(over="ignore", under="ignore"):
        rounded = dtype(exact)
    if got == rounded or (got == 0 and abs(exact) < limits.tiny):
        return True
    if not np.isfinite(got) or not np.isfinite(rounded):
        return False
    unit = float(np.spacing(max(abs(rounded), limits.tiny)))
    return abs(float(got) - exact) <= ulps * unit + absolute * float(limits.epsneg)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("order", range(3), ids=["value", "gradient", "second"])
@pytest.mark.parametrize("name", ROWS)
def test_function(name, order, dtype):
    row = ROWS[name]
    got = found(dtype)[name][order]
    with np.errstate(all="ignore"):
        assert got.dtype == (dtype if order else row.written(points(name, dtype)).dtype)
    with mp.workdps(row.digits):
        exact = [float(row.exact[order](mp.mpf(float(x)))) for x in points(name, dtype)]
    wrong = [
        f"at {x!r}: {float(g)!r}, not {e!r}" for x, g, e in zip(points(name, dtype), got, exact, strict=True)
        if not is_right(g, e, row.ulps[order], row.absolute, dtype)
    ]
    assert not wrong, "\n".join(wrong)


# -- numbers that were promised


def gradient(function):
    return sg.grad(lambda x: np.sum(function(x)))


def test_r03_log1p_to_the_last_bit():
    points = np.array([1e-17, -0.5, -1 + 2**-40, 1e300, -1.0, np.nan])
    for function in (np.log1p, lambda x: np.log(1 + x), lambda x: np.log(x + 1.0)):
        compiled = sg.value_and_grad(lambda x, f=function: (np.sum(f(x)), f(x)), has_aux=True)
        (_, values), slopes = compiled(points)
        assert values[:3].tolist() == [1e-17, -0.6931471805599453, np.log1p(-1 + 2**-40)]
        assert values[4] == -np.inf
        assert slopes[:3].tolist() == [1.0, 2.0, 1099511627776.0]
        assert abs(slopes[3] - 1e-300) <= np.spacing(1e-300)
        assert slopes[4] == np.inf
        assert np.isnan(values[5])
        assert np.isnan(slopes[5])
        assert "log1p(" in code(compiled)
        assert "log(1" not in code(compiled)


def test_slopes_that_cancel_when_written_as_in_the_textbook():
    slopes = gradient(np.tanh)(np.array([20.0, -20.0, 40.0]))
    np.testing.assert_allclose(
        slopes, [1.6993417021166355e-17, 1.6993417021166355e-17, 7.219405551381661e-35], rtol=4e-16, atol=0
    )
    for sigmoid in (scipy.special.expit, lambda x: 1 / (1 + np.exp(-x))):
        slopes = gradient(sigmoid)(np.array([40.0, 20.0]))
        np.testing.assert_allclose(slopes, [4.248354255291589e-18, 2.061153613941849e-09], rtol=4e-16, atol=0)
    assert sg.grad(np.arctanh)(1 - 2**-40) == 549755813888.25


def test_softplus_far_out():
    for softplus in (lambda x: np.log(1 + np.exp(x)), lambda x: np.logaddexp(0, x)):
        value, slope = sg.value_and_grad(softplus)(1000.0)
        assert (value, slope) == (1000.0, 1.0)
        assert sg.grad(softplus)(-1000.0) == 0.0


def test_products_with_zeros():
    x = np.array([2.0, 0.0, 3.0])
    assert gradient(np.cumprod)(x).tolist() == [1, 8, 0]
    assert gradient(np.prod)(x).tolist() == [0, 6, 0]
    assert [float(d) for d in sg.grad(scipy.special.xlogy, argnums=(0, 1))(0.0, 0.0)] == [0.0, 0.0]
    assert sg.jit(scipy.special.xlogy)(0.0, 0.0) == 0.0


def test_softmax_cross_entropy_of_extreme_logits():
    def naive(logits):
        e = np.exp(logits)
        return -np.log(e / e.sum())[0]

    def rows(logits):
        e = np.exp(logits)
        p = e / e.sum(axis=1, keepdims=True)
        return -np.mean(np.log(p[np.arange(1), np.array([0])]))

    def shifted(logits):
        m = np.max(logits)
        return m + np.log(np.sum(np.exp(logits - m))) - logits[0]

    logits = np.array([-1000.0, 0.0, 0.0])
    for loss in (naive, shifted, lambda z: scipy.special.logsumexp(z) - z[0], lambda z: rows(z[None, :])):
        value, slopes = sg.value_and_grad(loss)(logits)
        assert value == 1000.6931471805599
        assert slopes.tolist() == [-1.0, 0.5, 0.5]


def test_r40_a_naive_softmax_regression_is_finite_for_any_logits():
    def loss(W, X, y):
        e = np.exp(X @ W)
        p = e / np.sum(e, axis=1, keepdims=True)
        return -np.mean(np.log(p[np.arange(X.shape[0]), y]))

    X = np.array([[1e3, -1e3], [-1e4, 1e4], [0.0, 1.0]])
    value, slopes = sg.value_and_grad(loss)(np.array([[1.0, -1.0, 0.0], [0.0, 2.0, -3.0]]), X, np.array([1, 0, 2]))
    assert np.isfinite(value)
    assert np.all(np.isfinite(slopes))


def test_r08_fourteen_levels():
    def chain(y):
        for _ in range(14):
            y = np.sin(y) * y
        return y

    lowered = sg.value_and_grad(chain).lower(1.5)
    forward, both = [len(p.nodes()) - len(p.inputs) for p in (lowered.stages.kept["traced"], lowered.program)]
    assert forward == 28
    assert both - forward <= 5 * forward
    with mp.workdps(50):
        exact = mp.diff(lambda y: [y := mp.sin(y) * y for _ in range(14)][-1], mp.mpf(1.5))
    assert sg.grad(chain)(1.5) == pytest.approx(float(exact), rel=1e-13)


# -- the page of conventions


def conventions():
    """Read the tables of docs/derivatives.md: expressions, where, and what they give there."""
    text = (Path(__file__).parents[1] / "docs" / "derivatives.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(.+?)` +\| `(.+?)` +\| `(.+?)` +\|(?: `(.+?)` +\|)?", text, re.MULTILINE)
    return {(row[0], row[1]): row[2:] for row in found}


@cache
def shown():
    names = {"np": np, "scipy": scipy}
    rows = [(eval(f"lambda x: {written}", names), number(at)) for written, at in conventions()]  # noqa: S307 - the docs

    def every(points):
        firsts = [gradient(function) for function, _ in rows]
        return [(first(x), gradient(first)(x)) for first, x in zip(firsts, points, strict=True)]

    return dict(zip(conventions(), sg.jit(every)([x for _, x in rows]), strict=True))


def number(text):
    return np.array(eval(text, {"inf": np.inf, "pi": np.pi, "nan": np.nan}), float)  # noqa: S307 - the docs


def test_the_page_has_conventions():
    assert len(conventions()) > 25


@pytest.mark.parametrize("row", conventions(), ids=" at ".join)
def test_convention(row):
    first, second = conventions()[row]
    np.testing.assert_allclose(shown()[row][0], number(first), rtol=1e-14, atol=0)
    if second:
        np.testing.assert_allclose(shown()[row][1], number(second), rtol=1e-14, atol=0)

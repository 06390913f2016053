"""A choice between two calls of a function is one call: same bits, same gradients."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

# name, function, calls of which function are left, how many
CHOICES = [
    ("one function", lambda x, y: np.where(y > 0, np.sin(x), np.sin(y)), "np.sin", 1),
    ("a chain", lambda x, y: np.where(y > 0, np.sin(np.exp(-x)), np.sin(np.exp(x))), "np.exp", 1),
    ("logistic by signs", lambda x, y: np.where(y > 0, np.log1p(np.exp(-x)), np.log1p(np.exp(x))), "np.logaddexp", 1),
    ("two operands", lambda x, y: np.where(y > 0, np.hypot(x, y), np.hypot(x, 2 * y)), "np.hypot", 1),
    ("two functions", lambda x, y: np.where(y > 0, np.sin(x), np.cos(x)), "np.sin", 1),
    ("a branch used again", lambda x, y: np.where(y > 0, np.sin(x), np.sin(y)) + np.sin(x), "np.sin", 2),
    ("cheap ones", lambda x, y: np.where(y > 0, -x, -y), "-", 2),
    ("a root and its guard", lambda x, y: np.where(x > 0, np.sqrt(x), np.sqrt(y * y)), "np.sqrt", 1),
]


@pytest.mark.parametrize(("f", "call", "count"), [c[1:] for c in CHOICES], ids=[c[0] for c in CHOICES])
def test_choices_of_calls(f, call, count):
    x = np.array([1.5, -0.5, 0.0, 2.0, -800.0, 800.0, np.nan])
    y = np.array([1.0, -1.0, 0.0, -0.0, 3.0, -2.0, 1.0])
    compiled = sg.jit(f)
    with np.errstate(all="ignore"):
        expected = f(x, y)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(compiled(x, y)[finite], expected[finite], rtol=1e-14)
    assert compiled.lower(x, y).as_text("stable").count(call) == count
    sg.check_grads(lambda x, y: np.sum(f(x, y)), (x[:2], y[:2]))


def test_an_infinite_slope_stays_behind_its_guard():
    slope = sg.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), np.sqrt(1.0 - x))))
    np.testing.assert_allclose(slope(np.array([4.0, 0.0, -3.0])), [0.25, -0.5, -0.25])

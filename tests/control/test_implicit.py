"""Newton's method in each step: a `for` that a `break` ends, in the rounds of another loop, is a loop in C.

Each function is called with numbers at which other rounds are the last ones: of most, one compilation serves them all.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

MOST = 30
POINTS = (1.0, 2.0), (3.0, 0.5), (20.0, 3.0), (0.2, 1.0)


def newton(k, y, h, z):
    """Take a step towards the solution of ``z + h k z**3 = y``."""
    return (z - y + h * k * z**3) / (1 + 3 * h * k * z**2)


def solved(k, y, h):
    z = y
    for _ in range(30):
        step = newton(k, y, h, z)
        z = z - step
        if np.abs(step) < 1e-12:
            break
    return z


def found(k, y, h, most=30):
    z = y
    for _ in range(most):
        step = newton(k, y, h, z)
        z = z - step
        if np.abs(step) < 1e-12:
            return z
    return 100 * z


def in_place(k, y, steps=40):
    """Steps of one length: time is a plain number."""
    t = 0.0
    while t < steps / 20:
        z = y
        for _ in range(MOST):
            step = newton(k, y, 0.05, z)
            z = z - step
            if np.abs(step) < 1e-12:
                break
        y, t = z, t + 0.05
    return y


def by_a_helper(k, y):
    for _ in range(40):
        y = solved(k, y, 0.05)
    return y


def early_returns(k, y):
    for _ in range(40):
        y = found(k, y, 0.05)
    return y


def last_step_shorter(k, y, h=0.03):
    t = 0.0
    while t < 1.0:
        h = min(h, 1.0 - t)
        y, t = solved(k, y, h), t + h
    return y


def steps_by_state(k, y):
    t = 0.0
    while t < 1.0:
        h = 0.05 / (1 + y)
        y, t = solved(k, y, h), t + h
    return y


def halves(k, y):
    """Two half steps beside a whole one: three loops of one code in each round."""
    t = 0.0
    while t < 1.0:
        h = 0.1 / (1 + y)
        whole = solved(k, y, h)
        y = 2 * solved(k, solved(k, y, h / 2), h / 2) - whole
        t = t + h
    return y


@pytest.mark.parametrize("f", [in_place, by_a_helper, early_returns, last_step_shorter, steps_by_state, halves])
def test_one_compilation(f):
    """Values are NumPy's, gradients are differences, and other numbers compile nothing."""
    ours = sg.value_and_grad(f, argnums=(0, 1), options=sg.Options(compiler="none"))
    for k, y in POINTS:
        value, grads = ours(k, y)
        np.testing.assert_allclose(value, f(k, y), rtol=1e-12)
        h = 1e-6
        by_k, by_y = (f(k + h, y) - f(k - h, y)) / (2 * h), (f(k, y + h) - f(k, y - h)) / (2 * h)
        np.testing.assert_allclose(grads, [by_k, by_y], rtol=1e-5, atol=1e-8)
    assert ours.cache_info().compilations == 1
    assert len(ours.lower(1.0, 2.0).stages.of("stable").nodes()) < 150


def test_second_derivatives():
    """A Hessian goes through loops in loops."""
    hessian = sg.hessian(lambda p: by_a_helper(p[0], p[1]), options=sg.Options(compiler="none"))
    gradient = sg.grad(lambda p: by_a_helper(p[0], p[1]), options=sg.Options(compiler="none"))
    p, h = np.array([1.0, 2.0]), 1e-5
    differences = [(gradient(p + h * e) - gradient(p - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(hessian(p), differences, rtol=1e-7)


# -- what looks like one loop, and is not


def two_as_one(k, y):
    """The inner loop begins anew, with what it was left with: seven rounds in a row are not one loop."""
    for _ in range(3):
        for _ in range(4):
            y = y - 0.3 * (y - k)
            if np.abs(y - k) < 0.1:
                break
    return y


def otherwise(k, y):
    """Where the rounds run out, another thing is done."""
    for _ in range(6):
        z = y
        for _ in range(5):
            z = z - 0.5 * (z - k)
            if np.abs(z - k) < 0.1:
                break
        else:
            z = z * 2
        y = z + 0.7
    return y


def round_in_result(k, y):
    for i in range(20):  # noqa: B007 - that is what is tried
        y = y - 0.3 * (y - k)
        if np.abs(y - k) < 0.1:
            break
    return y * (i + 1)


def round_in_condition(k, y):
    for _ in range(5):
        for i in range(10):
            if i > 3 and y > k:
                break
            y = y * 1.1
        y = y - 1
    return y


def variable_set_again(k, y):
    for i in range(12):
        y = y - 0.3 * (y - k)
        if np.abs(y - k) < 0.1:
            break
        i = 2 * i  # noqa: PLW2901 - that is what is tried
    return y + i


def runs_out_of_few(k, y):
    for _ in range(6):
        y = found(k, y, 0.05, most=3)
    return y


@pytest.mark.parametrize("f", [
    two_as_one, otherwise, round_in_result, round_in_condition, variable_set_again, runs_out_of_few,
])
def test_on_many_inputs(f):
    """Compiled for some numbers, they are what Python makes of others."""
    rng = np.random.default_rng(0)
    ours = sg.jit(f, options=sg.Options(compiler="none", paths=100))
    for k, y in rng.uniform((0.3, -2), (4, 6), (40, 2)):
        np.testing.assert_allclose(ours(k, y), f(k, y), rtol=1e-10)


def test_a_limit_that_changes(monkeypatch):
    """The limit is a global number: the loop has as many rounds as it says now."""
    ours = sg.jit(in_place, options=sg.Options(compiler="none"))
    for most in (30, 2, 3):
        monkeypatch.setattr(f"{__name__}.MOST", most)
        for k, y in POINTS:
            np.testing.assert_allclose(ours(k, y), in_place(k, y), rtol=1e-12)

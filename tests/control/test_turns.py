"""Conditions in a `while` in the rounds of a `for`: the `while` is a loop with branches in it, in each round."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.night import some
from tests.table import richardson

# ruff: noqa: SIM108 - statements are what is tested

INTERPRETED = sg.Options(compiler="none", paths=99)


def two_sides(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            if y * v > 0.4:
                y = 0.5 * y
            else:
                y = 0.8 * y - 0.05
        s = s + np.sin(y * v)
    return s


def one_in_another(x):
    s = 0.0
    for v in x:
        y, z = abs(v) + 1.0, 0.0
        while y > 0.3:
            if y > 1.0:
                if y * v > 0.5:
                    y = 0.5 * y
                else:
                    y, z = 0.4 * y, z + y
            elif z > 0.4:
                y = 0.8 * y - 0.05
            else:
                y = 0.7 * y
        s = s + np.sin(y + z)
    return s


def short_circuit(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            y = 0.5 * y if y > 1.0 and y * v > 0.3 else 0.8 * y - 0.05
        s = s + y * v
        s = np.sin(s)
    return s


def continues(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            y = 0.7 * y
            if y * v > 0.4:
                continue
            y = y - 0.03 * v * v
        s = s + np.sin(y * v)
    return s


def many(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            if y > 0.7:
                s = s + 0.1 * y
            if y > 0.9:
                s = 0.9 * s
            if y * v > 0.4:
                s = s - 0.1 * v
            y = 0.7 * y
        s = s + np.sin(y * v)
    return s


def stepped(y, v):
    if y * v > 0.4:
        return 0.5 * y
    return 0.9 * y - 0.05


def made_small(y, v):
    while y > 0.3:
        y = stepped(y, v)
    return y


def called(x):
    s = 0.0
    for v in x:
        s = s + np.sin(made_small(abs(v) + 1.0, v) * v)
    return s


def of_the_round(x):
    """What no time changes is asked in each of them, and before."""
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        if v > 0:
            s = 0.9 * s
        while y > 0.3:
            if v > 0:
                y = 0.5 * y
            else:
                y = 0.9 * y - 0.05
        s = s + np.sin(y * v)
    return s


def of_former_rounds(x):
    s, m = 0.0, 0.0
    for v in x:
        if v > 0.3:
            m = v
        y = abs(v) + 1.0
        while y > 0.3:
            if y * m > 0.4:
                y = 0.5 * y
            else:
                y = 0.9 * y - 0.05
            if y > m:
                s = s + 0.1 * y
        s = np.sin(s) + y * v
    return s


def appended(x):
    out = []
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            if y > 1.0:
                y = 0.5 * y
                out.append(y)
            else:
                y = 0.9 * y - 0.05
    return sum(out) + len(out)


def one_after_another(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            y = 0.5 * y if y * v > 0.4 else 0.9 * y - 0.05
        z = y + s
        while z > 0.2:
            z = 0.5 * z if z * v > 0.1 else 0.6 * z - 0.05
        s = s + np.sin(y * v) - z
    return s


def a_while_in_it(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            z = y
            while z > 0.5:
                z = 0.4 * z if z * v > 0.3 else 0.7 * z
            y = 0.5 * y * (1 + z)
        s = s + np.sin(y * v)
    return s


def asked_behind(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            y = 0.5 * y if v > 0 else 0.9 * y - 0.05
        s = s + np.sin(y * v) + (0.1 if v > 0 else 0.0)
    return s


def asked_next(x):
    """The last condition of a time is the first one of the next."""
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            z = 0.0
            if y > 1.0:
                z = y
            y = 0.6 * y
            if y > 1.0:
                z = z - 1
            s = s + 0.1 * z * v
        s = s + np.sin(y * v)
    return s


def which_was_last(x):
    s = 0.0
    for v in x:
        y, which = abs(v) + 1.0, 0
        while y > 0.3:
            y, which = (0.5 * y, 1) if y * v > 0.4 else (0.9 * y - 0.05, 2)
        s = s + np.sin(y * v) * which
    return s


def value_by_chance(x):
    s = 0.0
    for v in x:
        a, b = abs(v) + 1.0, v
        while a > 0.3:
            if a * v > 0.4:
                b = a
            a = 0.7 * a
        s = s + 0.7 * b
    return s


def ends_behind_the_first(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while True:
            y = 0.5 * y if y * v > 0.4 else 0.9 * y - 0.05
            if y < 0.3:
                break
            y = 0.98 * y
        s = s + np.sin(y * v)
    return s


def raises(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1.0
        while y > 0.3:
            if y * v > 8.0:
                raise ValueError("far")
            y = 0.5 * y if y * v > 0.4 else 0.9 * y - 0.05
        s = s + np.sin(y * v)
    return s


ONE = (two_sides, one_in_another, short_circuit, continues, many, called, of_the_round, of_former_rounds, appended,
       one_after_another, a_while_in_it)
APART = (asked_behind, asked_next, which_was_last, value_by_chance, ends_behind_the_first)
DIRECTION = np.cos(np.arange(10.0))


def slope_of(fun, x):
    return richardson(lambda h: fun(x + h * DIRECTION), 1e-6)


@pytest.mark.parametrize("fun", some([*ONE, *APART]), ids=lambda f: f.__name__)
def test_conditions_in_a_while_of_a_round(fun):
    f = sg.value_and_grad(fun, options=INTERPRETED)
    rng = np.random.default_rng(3)
    for scale in (1.0, 0.3, -0.6)[: 3 if fun in ONE else 2]:
        x = scale * rng.normal(size=10)
        value, slope = f(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-11)
        wanted = slope_of(fun, x)
        np.testing.assert_allclose(slope @ DIRECTION, wanted, rtol=1e-5, atol=1e-6)
    assert f.cache_info().compilations <= 2 or fun in APART


def test_in_c():
    f = sg.value_and_grad(one_in_another)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=10)
        value, slope = f(x)
        np.testing.assert_allclose(value, one_in_another(x), rtol=1e-12)
        wanted = slope_of(one_in_another, x)
        np.testing.assert_allclose(slope @ DIRECTION, wanted, rtol=1e-5, atol=1e-6)
    assert f.cache_info().compilations <= 2


def test_what_raises_in_it_reaches_the_caller():
    f = sg.jit(raises, options=INTERPRETED)
    x = np.full(10, 0.7)
    np.testing.assert_allclose(f(x), raises(x), rtol=1e-12)
    with pytest.raises(ValueError, match="far"):
        f(4.0 * x)
    np.testing.assert_allclose(f(-x), raises(-x), rtol=1e-12)

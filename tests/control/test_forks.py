# ruff: noqa: SIM108 - statements are what is tested
"""Conditions in a Python `for` that go both ways: branches in one loop, for whatever each round decides."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.table import richardson


def chosen(x):
    total = 0.0
    for t in range(24):
        if x[t] > 0:
            total = total + np.sin(x[t]) * total
        else:
            total = total + x[t] ** 2
    return total


def machine(x):
    state, total = x[0], 0.0
    for v in x:
        if v > 1:
            state = 0.5 * state
        elif v < -1:
            state = -state
        else:
            state = state + v
        total = total + state
    return total


def resets(x):
    run, total = x[0] * 0.0, x[1]
    for v in x:
        if v > 0:
            run = run + v
        else:
            run = 0.0
        total = total + run * run
    return total


def weighted(x):
    y, table = x[0], np.linspace(0.1, 2.0, 24) ** 2
    for t in range(24):
        if y > x[t]:
            y = y - table[t] * x[23 - t]
        else:
            y = np.cos(y) + t
    return y


def nested(x):
    rows, total = np.reshape(x, (6, 4)), x[0]
    for i in range(6):
        for j in range(4):
            if rows[i, j] > total:
                total = total + rows[i, j] * 0.5
            else:
                total = 0.9 * total
    return total


def kept(x):
    best, place = x[0], x[0] * 0.0
    for t in range(1, 24):
        if x[t] > best:
            best, place = x[t], 1.0 * t + 0.0 * x[t]
    return best * place


LOOPS = [chosen, machine, weighted, nested]
RNG = np.random.default_rng(5)
POINTS = [RNG.normal(size=24) * s for s in (0.4, 0.8, 1.0, 1.0, 1.6, 2.5)]


DIRECTION = np.cos(np.arange(24.0))


def slope_of(fun, x):
    return richardson(lambda h: fun(x + h * DIRECTION), 1e-6)


@pytest.mark.parametrize("fun", [*LOOPS, resets, kept], ids=lambda f: f.__name__)
def test_it_is_what_python_does(fun):
    compiled = sg.value_and_grad(fun)
    for x in POINTS:
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        wanted = slope_of(fun, x)
        np.testing.assert_allclose(slope @ DIRECTION, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fun", LOOPS, ids=lambda f: f.__name__)
def test_few_paths_serve_all_ways(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none"))
    for x in POINTS:
        for y in (x, -x, x[::-1].copy()):
            np.testing.assert_allclose(compiled(y), fun(y), rtol=1e-12)
    assert compiled.cache_info().compilations <= 9  # rounds may all go one way, or one way more
    assert "ops.scan(" in compiled.lower(POINTS[2]).as_text("stable")


def hidden(x):
    count, y = [0], x[0]
    for v in x:
        if v > 0:
            count[0] += 1
            y = y + v
        elif count[0] % 3 == 0:
            y = y * 0.5
    return y


def indexed(x):
    """A table is not read in the rounds that go the other way: what it has there is seen all the same."""
    table, y = [*range(12), 40, 3, 7, 1, *range(16, 24)], x[0]
    for t in range(20):
        if x[t] > 0:
            y = np.sin(y) + x[table[t] % 24]
        else:
            y = y * 0.5
    return y


@pytest.mark.parametrize("fun", [hidden, indexed], ids=lambda f: f.__name__)
def test_nothing_is_concluded_from_one_round_for_another(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=99))
    for x in POINTS:
        for y in (x, -x, x[::-1].copy()):
            np.testing.assert_allclose(compiled(y), fun(y), rtol=1e-12)

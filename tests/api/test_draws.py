"""Draws from a generator that a function reads from outside: frozen, and said so."""

from __future__ import annotations

import random
import types
import warnings
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradWarning

X = np.array([1.0, 2.0])
rng = np.random.default_rng(0)
old = np.random.RandomState(0)
python = random.Random(0)
space = types.SimpleNamespace(rng=np.random.Generator(np.random.MT19937(1)))


def noisy(x):
    return np.sum(x * rng.normal(size=2))


def noisy_in_a_helper(x):
    return noisy_old(x) * 2


def noisy_old(x):
    return np.sum(x * old.uniform(size=2))


def noisy_python(x):
    return np.sum(x) * python.random()


def noisy_attribute(x):
    return np.sum(x) * space.rng.random()


@pytest.mark.parametrize(
    ("fun", "name"),
    [(noisy, "rng"), (noisy_in_a_helper, "old"), (noisy_python, "python"), (noisy_attribute, "space.rng")],
)
def test_draws_warn_with_the_line_once(fun, name):
    f = sg.value_and_grad(fun)
    words = rf"draws from the random generator '{name}' once(?s:.*)pass the numbers"
    with pytest.warns(SymgradWarning, match=words) as found:
        first = f(X)
    assert len(found) == 1
    said, drawing = str(found[0].message), noisy_old if fun is noisy_in_a_helper else fun
    assert f"{__file__}:{drawing.__code__.co_firstlineno + 1}" in said
    assert "every step of a training" in said
    assert "nn.dropout(x, rate, seed, step)" in said
    again = f(X)
    assert first[0] == again[0], "frozen"
    sg.jit(fun)(X)  # warnings are errors in these tests


def test_closed_over_generators_warn():
    mine = np.random.default_rng(1)
    with pytest.warns(SymgradWarning, match="the random generator 'mine'"):
        sg.jit(lambda x: x * mine.normal())(X)


def test_a_generator_that_is_not_drawn_from_is_silent():
    def fun(x, *, noise: Any = None):
        return x if noise is None else x * rng.normal()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.jit(fun)(X)


def test_a_seed_inside_of_the_function_is_the_same_in_every_call():
    def fun(x):
        return x * np.random.default_rng(3).normal(size=2)

    assert np.array_equal(sg.jit(fun)(X), fun(X))


def test_each_path_draws_the_same_numbers():
    """A batch by a step's number, and noise: paths that are compiled later begin where the first one began."""
    rows = np.arange(24.0).reshape(12, 2)

    def loss(w, step):
        noise = old.normal(size=3)
        return np.sum(rows[3 * step : 3 * (step + 1)] @ w * (noise if w[0] > 0 else 2 * noise))

    start = old.get_state()
    f = sg.value_and_grad(loss)
    with pytest.warns(SymgradWarning, match="the random generator 'old'"):
        found = [f(X, 0)[0]]
    behind = old.uniform()
    found += [f(w, step)[0] for w, step in ((X, 3), (-X, 1), (-X, 2))]
    assert old.uniform() != behind
    for got, (w, step) in zip(found, ((X, 0), (X, 3), (-X, 1), (-X, 2)), strict=True):
        old.set_state(start)
        assert got == pytest.approx(loss(w, step), rel=1e-14)
    assert f.cache_info().compilations == 2

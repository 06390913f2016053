"""Writes along diagonals: choices by the places, with what NumPy leaves and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(8)
X = RNG.normal(size=(5, 5))
I = np.arange(5)  # noqa: E741 - indices


def filled(x):
    k = np.exp(x)
    np.fill_diagonal(k, 0.5)
    return k


def filled_by_values(x):
    k = np.exp(x)
    np.fill_diagonal(k, x[0] ** 2)
    return k


def set_there(x):
    k = np.exp(x)
    k[I, I] = np.sin(x[1])
    return k


def scaled(x):
    k = np.exp(x)
    k[I, I] *= x[2]
    return k


def added(x):
    k = x @ x.T
    k[np.diag_indices(5)] += 1e-3
    return np.linalg.inv(k)


def by_flat_places(x):
    k = np.exp(x)
    k.flat[::6] = 2.0
    return k


def read(x):
    return np.exp(x)[I, I]


def twice(x):
    k = np.exp(x)
    k[I, I] = 0.0
    k += k.T
    np.fill_diagonal(k, 1.0)
    return k


def a_part(x):
    k = np.exp(x)
    np.fill_diagonal(k[1:4, 1:4], x[0, 0])
    return k


WRITTEN: dict[str, Any] = {
    f.__name__: f for f in (filled, filled_by_values, set_there, scaled, added, by_flat_places, read, twice, a_part)
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_numpy_leaves(name):
    f = WRITTEN[name]
    np.testing.assert_allclose(sg.jit(f)(X), f(X), rtol=1e-13)
    text = sg.jit(f).lower(X).as_text("stable")
    assert not any(word in text for word in ("scatter_set", "add_at", "(0, 5, 6)", "[v1, v1]"))


@pytest.mark.parametrize("name", WRITTEN)
def test_their_derivatives(name):
    f = WRITTEN[name]
    weights = RNG.normal(size=np.shape(f(X)))
    sg.check_grads(lambda x: np.sum(weights * f(x)), (X,), order=1)


def test_nothing_of_what_was_overwritten_is_seen():
    def f(x):
        k = np.log(x)
        np.fill_diagonal(k, 0.0)
        return np.sum(k)

    x = np.abs(X) + 1.0
    x[I, I] = [0.0, -1.0, np.inf, np.nan, 1.0]
    value, gradient = sg.value_and_grad(f)(x)
    np.testing.assert_allclose(value, np.sum(np.log(x[~np.eye(5, dtype=bool)])), rtol=1e-13)
    np.testing.assert_array_equal(gradient[I, I], 0.0)


@pytest.mark.parametrize("n", [0, 1, 6, 70])
def test_open_extents(n):
    def f(x):
        k, i = np.square(x), np.arange(x.shape[0])
        k[i, i] = 3.0
        return k

    x = RNG.normal(size=(n, n))
    np.testing.assert_array_equal(sg.jit(f, dynamic={"x": "n,n"})(x), f(x))


LEFT: dict[str, Any] = {
    "another diagonal": (I[:-1], I[1:]), "a part of it": (I[1:], I[1:]), "backwards": (I[::-1], I[::-1]),
    "one of two": (I, I[::-1]),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name):
    i, j = LEFT[name]

    def f(x):
        k = np.exp(x)
        k[i, j] = np.arange(float(len(i)))
        return k

    np.testing.assert_allclose(sg.jit(f)(X), f(X), rtol=1e-13)
    assert "scatter_set" in sg.jit(f).lower(X).as_text("stable")


def test_a_kernel_without_diagonal_is_no_array():
    def f(x):
        k = np.exp(-np.square(x[:, None] - x))
        np.fill_diagonal(k, 0.0)
        return np.sum(k)

    x = np.linspace(0.0, 1.0, 600)
    g = sg.grad(f)
    apart = x[:, None] - x
    np.testing.assert_allclose(g(x), np.sum(-4 * apart * np.exp(-np.square(apart)), axis=1), rtol=1e-9, atol=1e-9)
    assert g.lower(x).as_text().count("np.sum(") == 1
    assert "600,600" not in g.lower(x).as_text("loops")


def filled_copy(k):
    copy = 2.0 * k
    np.fill_diagonal(copy, 0.5)
    return copy


@pytest.mark.parametrize("f", [np.tril, lambda k: np.triu(2.0 * k, 1), filled_copy])
def test_what_places_choose_from_is_read_before(f):
    """Compilers make no lanes of a read in one branch of such a choice."""
    g, k = sg.jit(lambda k: f(k) + 1.0), RNG.normal(size=(40, 40))
    np.testing.assert_allclose(g(k), f(k) + 1.0, rtol=1e-13)
    choices = [line for line in g.c_source.splitlines() if " ? " in line]
    assert choices
    assert not any("k[" in choice for choice in choices)


def test_nothing_of_what_was_overwritten_is_seen_by_second_derivatives():
    def f(x):
        k = np.sqrt(np.sum((x[:, None] - x) ** 2, axis=-1))
        np.fill_diagonal(k, 1.0)
        return np.sum(1 / k)

    x, v = np.array([0.0, 1.0, 3.0, 7.0]), np.array([1.0, -1.0, 0.5, 2.0])
    apart = np.abs(x[:, None] - x) + np.diag([np.inf] * 4)
    along = np.sum(4 * (v[:, None] - v) / apart**3, axis=1)
    found = sg.hvp(f)(np.stack([x, 0 * x], axis=1), np.stack([v, 0 * v], axis=1))
    np.testing.assert_allclose(found, np.stack([along, 0 * x], axis=1), rtol=1e-12, atol=1e-12)


def test_gradients_of_values_behind_a_written_diagonal():
    def energy(x):
        k = np.sqrt(np.sum((x[:, None] - x) ** 2, axis=-1))
        np.fill_diagonal(k, 1.0)
        return np.sum(1 / k)

    def twice(x):
        [slope] = sg.gradients(energy(x), [x])
        return sg.gradients(np.sum(slope * slope), [x])[0]

    x = np.random.default_rng(0).normal(size=(5, 2))
    expected = sg.grad(lambda x: np.sum(sg.grad(energy)(x) ** 2))(x)
    np.testing.assert_allclose(sg.jit(twice)(x), expected, rtol=1e-12)

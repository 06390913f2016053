"""np.linspace of as many points as an open extent says, and comparisons of extents by NumPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

SPACED: dict[str, Any] = {
    "numbers": lambda x: np.linspace(0, 1, x.shape[0]) * x,
    "traced": lambda x: np.linspace(np.sum(x), 2.0, x.shape[0]),
    "without the end": lambda x: np.linspace(0, 1, x.shape[0], endpoint=False) * x,
    "one more": lambda x: np.linspace(-1, stop=1, num=x.shape[0] + 1)[1:] * x,
    "the step": lambda x: np.linspace(0, 1, x.shape[0], retstep=True)[1] * np.ones(1),
    "rows": lambda x: np.linspace(np.array([0.0, 1.0]), np.array([1.0, 5.0]), x.shape[0]),
    "columns": lambda x: np.linspace(np.array([0.0, 1.0]), 2.0, x.shape[0], axis=1),
    "integers": lambda x: np.linspace(0, 10, x.shape[0], dtype=int) * 1.0,
    "single": lambda x: np.linspace(0, 1, x.shape[0], dtype=np.float32),
}


@pytest.mark.parametrize("name", SPACED)
def test_linspace_of_an_open_extent_is_numpys(name):
    fun = SPACED[name]
    function = sg.jit(fun, dynamic={"x": "n"})
    for n in (0, 1, 2, 3, 7, 100):
        x = np.linspace(1.0, 2.0, n) ** 2
        with np.errstate(all="ignore"):
            expected = np.asarray(fun(x))
        found = np.asarray(function(x))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-6 if name == "single" else 1e-13, atol=1e-15)
    assert function.cache_info().compilations == 1


def test_its_derivative():
    def fun(x):
        return np.sum(np.linspace(np.sum(x), 2 * np.prod(x), x.shape[0]) ** 2)

    named, alone = sg.grad(fun, dynamic={"x": "n"}), sg.grad(fun, dynamic=False)
    for n in (1, 3, 6):
        x = np.linspace(1.0, 2.0, n)
        np.testing.assert_allclose(named(x), alone(x), rtol=1e-13)


def test_python_integers_are_compared():
    def fun(x):
        return np.where(np.greater(x.shape[0], 3), x, -x) * np.less_equal(x.shape[0], np.int64(4))

    function = sg.jit(fun, dynamic={"x": "n"})
    for n in (2, 3, 4, 5):
        assert np.array_equal(function(np.ones(n)), fun(np.ones(n)))
    greater = sg.jit(lambda k: np.greater(k, 2))
    assert greater(3)
    assert not greater(2)

"""Sums of squares around means: taken in the walk that takes the mean, with no fewer digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(7)
N = 2048
PLAIN = sg.Options(without=("spreads",))
NORMAL, FAR = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 2)) + 1e8
OUTLIER = np.where(np.arange(N)[:, None] == 64, 1e5, NORMAL)  # one of the sample's

DATA: dict[str, tuple[Any, float]] = {
    "normal": (NORMAL, 4e-15), "far from 0": (FAR, 4e-15), "sorted": (np.sort(FAR, axis=0), 4e-15),
    "one of the sample far from all": (OUTLIER, 1e-13), "equal": (np.full((N, 2), 0.1), 0.0),
    "small": (NORMAL * 1e-150, 4e-15), "large": (NORMAL * 1e150, 4e-15),
    "single precision": (NORMAL.astype(np.float32), 1e-6), "far in it": (NORMAL.astype(np.float32) + 1000, 1e-6),
}


@pytest.fixture(scope="module")
def variance():
    return sg.jit(lambda x: (np.mean(np.square(x - np.mean(x, axis=0)), axis=0), np.mean(x, axis=0)))


@pytest.mark.parametrize("name", DATA)
def test_digits(name, variance):
    x, tolerance = DATA[name]
    columns = [[*map(Fraction, column)] for column in x.T.tolist()]
    means = [sum(column) / N for column in columns]
    exact = [sum((one - mean) ** 2 for one in column) / N for column, mean in zip(columns, means, strict=True)]
    found = variance(x)
    np.testing.assert_allclose(found[0], np.array([*map(float, exact)]), rtol=tolerance, atol=0)
    eps = np.finfo(x.dtype).eps
    np.testing.assert_allclose(found[1], np.array([*map(float, means)]), rtol=4 * eps, atol=float(4 * eps * np.std(x)))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e200, -1.7e308])
@pytest.mark.parametrize("at", [0, 5, 64])
def test_what_is_not_finite_or_too_large(value, at, variance):
    x = NORMAL.copy()
    x[at, 0] = value
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(variance(x), (np.var(x, axis=0), np.mean(x, axis=0)), rtol=1e-12)


IMAGES, W = RNG.normal(size=(20, 9, 8, 3)), RNG.normal(size=(2, 4))
FORMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "numpy.var": (lambda x: x.var(0), (NORMAL,)),
    "numpy.std of all": (lambda x: np.std(x, ddof=1), (NORMAL,)),
    "turned": (lambda x: ((x.T - np.mean(x.T, axis=1, keepdims=True)) ** 2).mean(1), (NORMAL,)),
    "each column": (sg.vmap(lambda x: (x.var() + 1e-5) ** -0.5, in_axes=1), (NORMAL,)),
    "three axes": (lambda x: np.var(x, axis=(0, 1, 2)), (IMAGES,)),
    "what is computed": (lambda x, w: np.var(np.sin((2 * x + 1) @ w), axis=0), (NORMAL, W)),
    "what is computed and turned": (lambda x, w: np.var((x @ w).T, axis=1), (NORMAL, W)),
    "a part": (lambda x: np.var(x[5:-3, 1]), (NORMAL,)),
    "in a loop": (lambda x: sg.scan(lambda s, _: (s + np.var(s * x, axis=0), s), x[0], length=3)[0], (NORMAL,)),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    function, args = FORMS[name]

    def both(*args):
        return function(*args), sg.grad(lambda *a: np.sum(np.sin(function(*a))))(*args)

    new, plain = sg.jit(both), sg.jit(both, options=PLAIN)
    text = new.lower(*args).as_text()
    assert "isinf" in text
    assert "isinf" not in plain.lower(*args).as_text()
    for found, expected in zip(new(*args), plain(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-15)


LEFT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "few": (lambda x: np.var(x, axis=1), (NORMAL,)),
    "around another mean": (lambda x: np.sum((x - np.mean(x[::-1] ** 2, axis=0)) ** 2, axis=0), (NORMAL,)),
    "around another quotient": (lambda x: np.sum((x - np.sum(x, axis=0) / 7) ** 2, axis=0), (NORMAL,)),
    "along another axis": (lambda x: np.sum((x - np.mean(x, axis=0)[:, None]) ** 2, axis=0), (np.ones((1100, 1100)),)),
    "of what follows": (lambda x: np.var(np.cumsum(x, axis=0), axis=0), (NORMAL,)),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name):
    function, args = LEFT[name]
    assert sg.jit(function).lower(*args).as_text() == sg.jit(function, options=PLAIN).lower(*args).as_text()

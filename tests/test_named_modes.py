"""One binary for every size, 0 and 1 included, in every mode: what NumPy's interpreter gives for each size alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.errors import ArgumentValueError
from tests.night import some
from tests.programs import leaves
from tests.table import GENTLY, INTERPRETED

SIZES = (7, 0, 1, 2, 3, 65, 130)
TABLE = np.linspace(-1.0, 2.0, 6)


def overwritten(x):
    y = np.zeros((x.shape[0], 4))
    for k in range(4):
        y[:, k] = np.sin(x) * k
        y[:, 0] += y[:, k]
    return np.sum(y, axis=1) * y[:, 3]


def scattered(x):
    y = np.zeros(5)
    np.add.at(y, np.arange(x.shape[0]) % 5, x * x)
    return y[np.arange(x.shape[0]) % 5] * x


PROGRAMS: dict[str, Any] = {
    "elementwise": lambda x: np.tanh(x) * x + np.where(x > 0, np.sqrt(np.abs(x) + 1), x),
    "a sum": lambda x: np.sum(np.sin(x)) * x,
    "a mean": lambda x: x * np.mean(x * x),
    "a variance": lambda x: (x - np.mean(x)) ** 2 + np.var(x),
    "a norm": lambda x: x / (1 + np.linalg.norm(x)),
    "a product": lambda x: np.prod(1 + 0.1 * x) * x,
    "logsumexp": lambda x: x - special.logsumexp(np.concatenate([x, TABLE])),
    "outer": lambda x: np.outer(x, np.exp(-x)) @ x,
    "pairs": lambda x: np.sum(np.exp(-((x[:, None] - x[None, :]) ** 2)), axis=1),
    "matmul": lambda x: (np.outer(x, TABLE) @ np.outer(TABLE, x)) @ x,
    "cumsum": lambda x: np.cumsum(x * x) * x[::-1],
    "slices": lambda x: np.concatenate([x[1:] * x[:-1], x[:1] ** 2]),
    "joined": lambda x: np.concatenate([x, np.sin(x), TABLE])[x.shape[0] : 2 * x.shape[0]] * x,
    "differences": lambda x: np.concatenate([np.diff(x), x[:1] * np.sum(x)]),
    "rolled": lambda x: np.roll(x, 1) * x + np.roll(x, -2),
    "padded": lambda x: np.pad(x, 2)[1 : x.shape[0] + 1] * x,
    "gathered": lambda x: np.take(TABLE, np.arange(x.shape[0]) % 6) * x + x[np.arange(x.shape[0])] ** 2,
    "scattered": scattered,
    "columns": lambda x: np.sum(np.stack([x, x**2, np.cos(x)], axis=1) * np.arange(3.0), axis=1),
    "reshaped": lambda x: np.sum(np.tile(x, 3).reshape(3, -1) ** 3, axis=0),
    "in place": overwritten,
    "by the size": lambda x: x * x.shape[0] / (1 + np.sqrt(x.shape[0])),
    "diagonal": lambda x: np.diag(np.outer(x, x)) + np.trace(np.outer(x, TABLE[0] + x)),
    "norms of rows": lambda x: np.sqrt(1 + np.sum(np.outer(x, TABLE) ** 2, axis=1)),
}

MODES: dict[str, Any] = {
    "value": lambda f: lambda x, _: f(x),
    "grad": lambda f: lambda x, v: sg.grad(lambda x: np.sum(f(x) * v))(x),
    "value_and_grad": lambda f: lambda x, v: sg.value_and_grad(lambda x: np.sum(f(x) * v))(x),
    "jvp": lambda f: lambda x, v: sg.jvp(f, (x,), (v,)),
    "vjp": lambda f: lambda x, v: sg.vjp(f, x)[1](v),
    "hvp": lambda f: lambda x, v: sg.hvp(lambda x: np.sum(f(x) * x))(x, v),  # noqa: PLW0108
    "hessian": lambda f: lambda x, v: sg.hessian(lambda x: np.sum(f(x) * v))(x),
    "jacfwd": lambda f: lambda x, v: sg.jacfwd(f)(x) @ v,
    "jacrev": lambda f: lambda x, v: sg.jacrev(f)(x).T @ v,
    "vmap": lambda f: lambda x, v: sg.vmap(sg.grad(lambda x: np.sum(f(x) * v)))(np.stack([x, 2 * x, -x])),
}


TABLES: dict[str, Any] = {
    "edges": lambda x: np.diff(np.pad(x, 1, mode="edge")[1:], axis=1)[:-1, :-1] * x,
    "a ring": lambda x: np.roll(x, 1, axis=0) * x + np.pad(x, 1)[2:, :-2],
    "softmax": lambda x: np.exp(x) / (1 + np.sum(np.exp(x), axis=1, keepdims=True)),
    "products": lambda x: x @ (x.T @ x) * np.sum(x, axis=0),
    "flat": lambda x: np.cumsum(x.reshape(-1)).reshape(x.shape) * x.T.reshape(x.shape),
    "running": lambda x: np.concatenate([np.cumsum(np.sin(x)[1:], axis=1), x[:1]]) * x,
    "stencil": lambda x: x + np.concatenate([x[1:], x[:1]]) * np.concatenate([x[:, -1:], x[:, :-1]], axis=1),
}
"""Programs of two extents."""

PAIRS = ((5, 4), (0, 3), (3, 0), (1, 1), (1, 6), (6, 1), (2, 2), (33, 40), (0, 0), (70, 9))


def arguments(n: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return rng.uniform(-1.0, 1.0, n), rng.normal(size=n)


def compare(found: Any, expected: Any, words: str) -> None:
    for one, two in zip(leaves(found), leaves(expected), strict=True):
        assert np.shape(one) == np.shape(two), words
        assert np.asarray(one).dtype == np.asarray(two).dtype, words
        scale = np.max(np.abs(two), initial=1.0, where=np.isfinite(two))
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11 * scale, err_msg=words)


def check(name: str, program: Any, modes: list[str], axes: str, sizes: Any) -> None:
    """Compare one binary for all sizes, in all modes, with the interpreter at each size."""

    def every(x, v):
        return {mode: MODES[mode](program)(x, v) for mode in modes}

    named = sg.jit(every, dynamic={"x": axes, "v": axes}, options=GENTLY)
    alone = sg.jit(every, dynamic=False, options=INTERPRETED)
    for n in sizes:
        args = arguments(n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a mean of nothing; a compilation for each size
            expected = alone(*args)
        found = named(*args)
        for mode in modes:
            compare(found[mode], expected[mode], f"{name}, {mode}, n = {n}")
    assert named.cache_info().compilations == 1


@pytest.mark.parametrize("name", some(PROGRAMS))
def test_every_mode_of_one_binary(name):
    check(name, PROGRAMS[name], list(MODES), "n", SIZES)


@pytest.mark.parametrize("name", some(TABLES))
def test_every_mode_of_two_extents(name):
    pairs = [pair for pair in PAIRS if all(pair) or name != "edges"]  # nothing has no edge
    check(name, TABLES[name], ["value", "grad", "jvp", "vjp", "hvp", "vmap"], "n,m", pairs)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_learns(mode):
    """By itself, with sizes as they come, in both orders."""
    for sizes in (SIZES, SIZES[::-1]):
        learnt = sg.jit(MODES[mode](PROGRAMS["slices"]), options=GENTLY)
        alone = sg.jit(MODES[mode](PROGRAMS["slices"]), dynamic=False, options=INTERPRETED)
        for n in sizes:
            compare(learnt(*arguments(n)), alone(*arguments(n)), f"{mode}, n = {n} of {sizes}")
        assert learnt.cache_info().compilations == 2


def test_a_mean_of_nothing_is_nan():
    mean = sg.value_and_grad(lambda x: np.mean(x), dynamic={"x": "n"})  # noqa: PLW0108
    value, slope = mean(np.empty(0))
    assert np.isnan(value)
    assert slope.shape == (0,)


NOTHING: dict[str, Any] = {
    "max": np.max, "argmax": np.argmax, "argmin": np.argmin, "pad": lambda x: np.pad(x, 1, mode="edge"),
    "convolve": lambda x: np.convolve(x, np.ones(2)), "ptp": np.ptp,
}


@pytest.mark.parametrize("name", NOTHING)
def test_no_result_of_nothing_is_the_same_error(name):
    fun = NOTHING[name]
    named, alone = sg.jit(lambda x: fun(x) * 1.0, dynamic={"x": "n"}), sg.jit(lambda x: fun(x) * 1.0, dynamic=False)
    for n in (3, 0, 1, 0):
        x = np.linspace(1.0, 2.0, n)
        if n:
            np.testing.assert_allclose(named(x), fun(x))
            continue
        with pytest.raises(ArgumentValueError) as expected:
            alone(x)
        with pytest.raises(ArgumentValueError) as found:
            named(x)
        assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("name", ["var", "cov"])
@pytest.mark.parametrize("ddof", [0, 1, 2])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fewer_elements_than_degrees_of_freedom(name, ddof):
    """NaN or infinite, as in NumPy, and no negative number."""
    fun: Any = {"var": np.var, "cov": np.cov}[name]
    named, alone = [sg.jit(lambda x: fun(x, ddof=ddof), dynamic=d) for d in ({"x": "n"}, "auto")]
    for n in (0, 1, 2, 3):
        x = np.linspace(1.0, 2.0, n)
        for function in (named, alone):
            np.testing.assert_allclose(function(x), fun(x, ddof=ddof))


def test_a_running_value_is_read_where_it_runs():
    """Though its matrix is walked in leaps there, which is why other sums get a loop of their own."""

    def fun(x):
        running = np.cumsum(x, axis=1)
        return running[::2, 0], np.cumsum(running.T, axis=0) * 0.3

    named = sg.jit(fun, dynamic={"x": "n,m"})
    for pair in PAIRS:
        if pair[1]:
            x = np.random.default_rng(0).normal(size=pair)
            for one, two in zip(named(x), fun(x), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-12)

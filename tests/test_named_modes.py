"""One binary for every size, 0 and 1 included, in every mode: what NumPy's interpreter gives for each size alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.programs import leaves

SIZES = (7, 0, 1, 2, 100)
INTERPRETED = sg.Options(compiler="none")
TABLE = np.linspace(-1.0, 2.0, 6)


PROGRAMS: dict[str, Any] = {
    "elementwise": lambda x: np.tanh(x) * x + np.where(x > 0, np.sqrt(np.abs(x) + 1), x),
    "a sum": lambda x: np.sum(np.sin(x)) * x,
    "a mean": lambda x: x * np.mean(x * x),
    "a variance": lambda x: (x - np.mean(x)) ** 2 + np.var(x),
    "a norm": lambda x: x / (1 + np.linalg.norm(x)),
    "a product": lambda x: np.prod(1 + 0.1 * x) * x,
    "outer": lambda x: np.outer(x, np.exp(-x)) @ x,
    "pairs": lambda x: np.sum(np.exp(-((x[:, None] - x[None, :]) ** 2)), axis=1),
    "matmul": lambda x: (np.outer(x, TABLE) @ np.outer(TABLE, x)) @ x,
    "cumsum": lambda x: np.cumsum(x * x) * x[::-1],
    "slices": lambda x: np.concatenate([x[1:] * x[:-1], x[:1] ** 2]),
    "joined": lambda x: np.concatenate([x, np.sin(x), TABLE])[x.shape[0] : 2 * x.shape[0]] * x,
    "rolled": lambda x: np.roll(x, 1) * x + np.roll(x, -2),
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


def arguments(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return rng.uniform(-1.0, 1.0, n), rng.normal(size=n)


def compare(found: Any, expected: Any, words: str) -> None:
    for one, two in zip(leaves(found), leaves(expected), strict=True):
        assert np.shape(one) == np.shape(two), words
        assert np.asarray(one).dtype == np.asarray(two).dtype, words
        scale = np.max(np.abs(two), initial=1.0, where=np.isfinite(two))
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11 * scale, err_msg=words)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mode_of_one_binary(name):
    program = PROGRAMS[name]

    def every(x, v):
        return {mode: make(program)(x, v) for mode, make in MODES.items()}

    named = sg.jit(every, dynamic={"x": "n", "v": "n"})
    alone = sg.jit(every, dynamic=False, options=INTERPRETED)
    for n in SIZES:
        args = arguments(n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing
            expected = alone(*args)
        found = named(*args)
        for mode in MODES:
            compare(found[mode], expected[mode], f"{name}, {mode}, n = {n}")
    assert named.cache_info().compilations == 1


def test_a_mean_of_nothing_is_nan():
    mean = sg.value_and_grad(lambda x: np.mean(x), dynamic={"x": "n"})  # noqa: PLW0108
    value, slope = mean(np.empty(0))
    assert np.isnan(value)
    assert slope.shape == (0,)

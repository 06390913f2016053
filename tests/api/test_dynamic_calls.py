"""Open extents with everything else that a function does: modes, threads, binding, pickling, the short call."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError
from tests.programs import leaves

rng = np.random.default_rng(8)


def samples(n: int, d: int = 3) -> tuple[Any, ...]:
    return rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)


def squares(w, X, y):
    return np.sum((X @ w - y) ** 2) / max(1, 1) + np.sum(w * w)


def same(found: Any, expected: Any) -> None:
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    for one, two in pairs:
        assert np.asarray(one).dtype == np.asarray(two).dtype
        assert np.shape(one) == np.shape(two)
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


def test_what_is_captured_static_and_given_by_name():
    scale = np.array([2.0])

    def loss(x, power, *, shift=0.0):
        return np.sum((x * scale + shift) ** power)

    function = sg.value_and_grad(loss, static_argnums=1)
    for power, n, shift in itertools.product((2, 3), (4, 6, 9), (0.0, 1.0)):
        x = rng.normal(size=n)
        value, slope = function(x, power, shift=shift)
        assert value == pytest.approx(np.sum((x * 2.0 + shift) ** power))
        np.testing.assert_allclose(slope, 2.0 * power * (x * 2.0 + shift) ** (power - 1))
    assert function.cache_info().compilations == 4
    scale = np.array([3.0])
    x = rng.normal(size=11)
    assert function(x, 2)[0] == pytest.approx(np.sum((x * 3.0) ** 2))


def test_dtypes_and_structures_are_learnt_apart():
    function = sg.jit(lambda p: p["a"] * 2)
    for n in (3, 4, 5):
        for dtype in (np.float32, np.float64):
            assert function({"a": np.ones(n, dtype)}).dtype == dtype
    assert function.cache_info().compilations == 4
    assert function({"a": np.ones((3, 1))}).shape == (3, 1)


def test_inside_of_other_functions_and_derived_again():
    inner = sg.jit(lambda x: np.sum(np.sin(x) * x))
    outer = sg.grad(lambda x: inner(x) ** 2 + inner(x[1:]))
    twice = sg.hessian(lambda x: inner(x) ** 2)
    for n in (4, 6, 1, 9):
        x = rng.normal(size=n)
        same(outer(x), sg.grad(lambda x: inner(x) ** 2 + inner(x[1:]), dynamic=False)(x))
        same(twice(x), sg.hessian(lambda x: inner(x) ** 2, dynamic=False)(x))
    assert outer.cache_info().compilations == twice.cache_info().compilations == 2


def test_modes_of_two_arguments_learn():
    def f(x):
        return np.cumsum(np.exp(x)) * x[::-1]

    for n in (3, 5, 0, 1, 8):
        x, v = rng.normal(size=n), rng.normal(size=n)
        value, slope = sg.jvp(f, (x,), (v,))
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(slope, sg.jacfwd(f, dynamic=False)(x) @ v, atol=1e-12)
        _, pull = sg.vjp(f, x)
        np.testing.assert_allclose(pull(v)[0], sg.jacrev(f, dynamic=False)(x).T @ v, atol=1e-12)


def test_batches():
    def loss(w, x):
        return np.sum(np.tanh(w * x) ** 2)

    batch = sg.vmap(sg.grad(loss), in_axes=(None, 0), dynamic={"x": "b,n", "w": "n"})
    learnt = sg.vmap(sg.grad(loss), in_axes=(None, 0))
    plain = sg.grad(loss, dynamic=False)
    for b, n in ((4, 3), (6, 3), (1, 1), (7, 5), (2, 3)):
        w, x = rng.normal(size=n), rng.normal(size=(b, n))
        expected = np.stack([plain(w, row) for row in x])
        same(batch(w, x), expected)
        same(learnt(w, x), expected)
    assert batch.cache_info().compilations == 1
    assert learnt.cache_info().compilations <= 3


def test_eight_threads_call_with_different_sizes():
    function = sg.value_and_grad(squares)
    given = [samples(n) for n in (3, 4, 5, 6, 1, 0, 50, 200)]
    expected = [sg.value_and_grad(squares, dynamic=False)(*args) for args in given]

    def work(k):
        return [function(*given[(k + i) % 8]) for i in range(40)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for k, found in enumerate(results):
        for i, one in enumerate(found):
            same(one, expected[(k + i) % 8])
    assert function.cache_info().compilations <= 3


def test_lower_bind_and_out():
    function = sg.value_and_grad(squares, dynamic={"X": "n,d", "y": "n", "w": "d"})
    w, X, y = samples(4)
    assert "const int64_t n" in function.lower(w, X, y).as_text("c")
    compiled = function.lower(w, X, y).compile()
    args = samples(6, 2)
    same(compiled(*args), function(*args))
    for one in (function, sg.value_and_grad(squares)):
        for n in (4, 6, 9):
            args = samples(n)
            out = (np.empty(()), np.empty(3))
            step = one.bind(*args, out=out)
            args[0][:] = 0.5
            assert step() is out
            same(out, one(*args))


def by_name(x):
    return np.sum(np.cos(x) * x)


NAMED_GRADIENT = sg.value_and_grad(by_name, dynamic={"x": "n"})


def test_pickles():
    again = pickle.loads(pickle.dumps(sg.value_and_grad(by_name, dynamic={"x": "n"})))
    for n in (3, 5):
        same(again(np.arange(float(n))), sg.value_and_grad(by_name)(np.arange(float(n))))
    assert again.cache_info().compilations == 1
    assert pickle.loads(pickle.dumps(sg.jit(by_name, dynamic=False)))._arguments.dynamic is False


def test_a_pickled_lambda_keeps_its_open_extents():
    function = sg.value_and_grad(lambda x: np.sum(np.cos(x) * x))
    for n in (3, 5):
        function(np.ones(n))
    back = copy.deepcopy(pickle.loads(pickle.dumps(function)))
    for n in (3, 100, 0, 5):
        same(back(np.full(n, 0.3)), function(np.full(n, 0.3)))
    with pytest.raises(ArgumentError, match="was unpickled without its Python code"):
        back(np.ones((2, 2)))


def test_numbers_take_part():
    function = sg.jit(lambda x, a: np.sum(x) * a)
    for n in (3, 4, 5):
        assert function(np.ones(n), 2) == 2 * n
        assert function(np.ones(n), 2.5) == 2.5 * n
        assert function(np.ones(n), np.float64(2.5)) == 2.5 * n
    assert function.cache_info().compilations == 6


def test_methods_and_partials():
    class Model:
        def __init__(self):
            self.bias = 2.0

        @functools.partial(sg.jit, static_argnums=0)
        def loss(self, x):
            return np.sum(x) + self.bias

    model = Model()
    assert [float(model.loss(np.ones(n))) for n in (3, 4, 5)] == [5.0, 6.0, 7.0]


# -- the short path


def test_the_short_call_takes_every_size():
    function = sg.value_and_grad(squares, dynamic={"X": "n,d", "y": "n", "w": "d"})
    function(*samples(4))
    (short,) = function._shorts
    hits = function.cache_info().hits
    for n, d in ((4, 3), (0, 3), (1, 1), (300, 7)):
        args = samples(n, d)
        same(short(args), sg.value_and_grad(squares, dynamic=False)(*args))
        same(function(*args), short(args))
    assert function.cache_info().hits == hits
    with pytest.raises(ArgumentValueError, match="the extent n is 4"):
        function(*samples(4)[:2], np.ones(3))  # type: ignore[call-arg]


def test_a_size_has_one_compilation_whatever_comes_between():
    """So that the last bits of a result do not depend on what was called before."""
    function = sg.jit(lambda x: np.sum(np.sin(x) * x))
    given = {n: rng.normal(size=n) for n in (1000, 1003, 17, 999)}
    first = {n: function(x) for n, x in given.items()}
    for _ in range(3):
        for n, x in given.items():
            assert function(x) == first[n]
    assert function.cache_info().compilations == 2



"""The short path of a call with open extents: checks in C, the long way's results to the last bit, and its errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import call
from symgrad.build.call import MISS, SHORT_WORKSPACE, allocator
from symgrad.errors import IndexOutOfBounds
from tests.api.test_short_calls import ARRAYS, W, check_what_c_does_not_take, compiled, pair, pair_of
from tests.programs import leaves

rng = np.random.default_rng(6)
TABLE = rng.normal(size=1000)


def squares(w, X, y):
    return np.sum((X @ w - y) ** 2)


def samples(n: int, d: int = 3) -> tuple[Any, ...]:
    return rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)


def vectors(n: int) -> tuple[Any, ...]:
    return (rng.normal(size=n),)


def named_dict(n: int) -> tuple[Any, ...]:
    return ({"a": rng.normal(size=n), "b": [rng.normal(size=(n, 2)), None]},)


SHORT: dict[str, tuple[Any, Any]] = {
    "an array": (sg.value_and_grad(lambda x: np.sum(np.sin(x) * x), dynamic={"x": "n"}), vectors),
    "two names": (sg.value_and_grad(squares, dynamic={"w": "d", "X": "n,d", "y": "n"}), samples),
    "two witnesses": (
        sg.jit(lambda x, y: np.outer(x, y) + 1, dynamic={"x": "n", "y": "m"}), lambda n: (*vectors(n), *vectors(n + 2)),
    ),
    "three witnesses": (
        sg.jit(lambda a, b, c: np.sum(a) * np.sum(b) * c, dynamic={"a": "n", "b": "m", "c": "k"}),
        lambda n: (*vectors(n), *vectors(n + 2), *vectors(2 * n)),
    ),
    "a structure": (
        sg.jit(lambda p: {"s": p["a"] @ p["b"][0], "t": p["a"] * 2}, dynamic={"p['a']": "n", "p['b'][0]": "n,_"}),
        named_dict,
    ),
    "a workspace": (sg.grad(lambda x: np.sum(np.cumsum(np.exp(x)) ** 2), dynamic={"x": "n"}), vectors),
    "a passed constant": (sg.jit(lambda x: np.sum(np.outer(x, TABLE)) * x, dynamic={"x": "n"}), vectors),
    "learnt": (sg.value_and_grad(squares), samples),
}


@pytest.mark.parametrize("name", SHORT)
def test_the_short_call_is_the_long_one_at_every_size(name):
    function, draw = SHORT[name]
    for n in (4, 6, 1, 0, 40, 700, 6, 4, 0):
        args = draw(n)
        first = function(*args)
        function(*args)
        shorts = function._shorts
        found = shorts[0](args)
        assert found is not MISS
        function._shorts = ()
        expected = function(*args)
        function._shorts = shorts
        for one, two, three in zip(leaves(found), leaves(expected), leaves(first), strict=True):
            assert type(one) is type(two)
            assert np.array_equal(one, two)
            assert np.array_equal(two, three)
    assert function.cache_info().compilations == 1 + (name == "learnt")
    assert "_objects(" in compiled(function)


@pytest.mark.parametrize(("dynamic", "sizes"), [({"x": "n"}, (3, 50)), (False, (400_000,))], ids=["open", "threads"])
def test_the_second_call_of_a_size_is_checked_in_c(monkeypatch, dynamic, sizes):
    function = sg.value_and_grad(lambda x: np.sum(np.sin(x)), dynamic=dynamic)
    for n in sizes:
        function(np.ones(n))
        function(np.ones(n))
    with monkeypatch.context() as patched:
        for state in ("in_python", "flat"):
            patched.setattr(call.Call, state, lambda *_: pytest.fail("not in C"))
        for n in (*sizes, *sizes):
            assert function(np.zeros(n))[1].tolist() == [1.0] * n


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("fun", [pair, pair_of])
def test_what_c_does_not_take_is_checked_in_python(name, fun):
    dynamic = {"x": "n", "y": "n"}
    function, interpreted = [sg.jit(fun, dynamic=dynamic, options=sg.Options(compiler=c)) for c in (None, "none")]
    function(W, W)  # from the second call of a size on, calls are short
    check_what_c_does_not_take(function, interpreted, ARRAYS[name])


def test_another_number_of_threads_counts_at_once():
    function = sg.jit(lambda x: np.sum(np.exp(x)) * np.ones(1), dynamic={"x": "n"})
    x = rng.normal(size=20_000)
    for count in (1, 3, 2, 1, 3):
        with sg.set_num_threads(count):
            other = sg.jit(lambda x: np.sum(np.exp(x)) * np.ones(1), dynamic={"x": "n"})
            for _ in range(3):
                assert function(x) == other(x)


def test_requirements_and_checks_of_values_hold_in_the_short_call():
    function = sg.jit(lambda x, i: x[i] * x[2], dynamic={"x": "n"})
    at = np.array([0, 2])
    for _ in range(3):
        assert function(np.arange(4.0), at).tolist() == [0.0, 4.0]
        with pytest.raises(IndexOutOfBounds, match=r"an axis with size 4: 4 at \[1\]\n"):
            function(np.arange(4.0), np.array([0, 4]))
        with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 2"):
            function(np.arange(2.0), at)


@pytest.mark.parametrize("said", [
    {"dynamic": {"w": "d", "X": "n,d", "y": "n"}}, {"specs": ("f64[d]", "f64[n,d]", "f64[n]")},
], ids=["dynamic", "specs"])
def test_extents_that_disagree_are_an_error_after_short_calls(said):
    function = sg.jit(squares, **said)
    w, X, y = samples(5)
    for _ in range(3):
        function(w, X, y)
        for wrong in ((w[:2], X, y), (w, X, y[:4]), (w, X[:, :2], y), (w, X[:4], y), (w, X, y[:, None])):
            with pytest.raises((ValueError, TypeError), match=r"extent|axes|compiled for"):
                function(*wrong)


def test_sizes_alone_and_open_ones_take_turns():
    function = sg.value_and_grad(lambda x: np.sum(np.sin(x) * np.exp(x)))
    alone = {n: function(np.linspace(0.0, 1.0, n)) for n in (5, 8)}
    for n in (5, 8, 8, 5, 5, 8, 5):
        for one, two in zip(function(np.linspace(0.0, 1.0, n)), alone[n], strict=True):
            assert np.array_equal(one, two)
    assert function.cache_info().compilations == 2


def test_threads_call_with_different_sizes_at_once():
    function = sg.value_and_grad(lambda x: np.sum(np.cumsum(x) ** 2), dynamic={"x": "n"})
    inputs = [vectors(n) for n in (3, 4, 0, 1, 40, 41, 200, 201)]
    expected = [function(*each) for each in inputs]

    def run(k):
        return all(
            np.array_equal(one, two)
            for r in range(300)
            for one, two in zip(function(*inputs[(k + r) % 8]), expected[(k + r) % 8], strict=True)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


@pytest.mark.parametrize("dynamic", [False, {"X": "n,_"}])
def test_calls_of_much_workspace_make_it_once(monkeypatch, dynamic):
    """They are not looked at again at each call to find that they have too much for the stack."""
    made: list[int] = []

    def counted(options):
        def workspace(size):
            made.append(size)
            return allocator(options)(size)

        return workspace

    monkeypatch.setattr(call, "allocator", counted)
    function = sg.value_and_grad(lambda W, X: np.sum(np.tanh(X @ W) ** 2), dynamic=dynamic)
    W, X = rng.normal(size=(64, 32)), rng.normal(size=(4000, 64))
    for _ in range(3):
        function(W, X)
    made.clear()
    for _ in range(5):
        function(W, X)
    assert len(made) == 5
    assert min(made) > SHORT_WORKSPACE

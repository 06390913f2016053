"""Large results: new arrays as far as anybody can tell, in memory that is used again when nobody holds it."""

from __future__ import annotations

import gc
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import pool as module
from symgrad.build.pool import ALONE, SPARE, _first_free, pooled

N = 200_000
X = np.linspace(0.0, 1.0, N)
DOUBLE = np.dtype(np.float64)


def place(array):
    return array.__array_interface__["data"][0]


def test_a_block_is_used_again_when_nobody_holds_it():
    make = pooled([(N,)], [DOUBLE])
    first = make((N,), DOUBLE)
    assert first.shape == (N,)
    assert first.dtype == DOUBLE
    assert first.flags.c_contiguous
    assert first.flags.aligned
    assert first.flags.writeable
    where = place(first)
    del first
    assert place(make((N,), DOUBLE)) == where


@pytest.mark.parametrize("hold", [
    lambda a: a, lambda a: a[::2], lambda a: a[5:6].reshape(1, 1), memoryview, lambda a: a.view(np.uint8),
    lambda a: [{"deep": a.T}], lambda a: a.base, iter, lambda a: a.flat, np.asarray,
    lambda a: (lambda: a), np.frombuffer, lambda a: a.__array__(), lambda a: np.broadcast_to(a, (2, N)),
], ids=range(14))
def test_a_block_that_is_held_in_any_way_is_not_used(hold):
    make = pooled([(N,)], [DOUBLE])
    array = make((N,), DOUBLE)
    array[:] = 1.0
    where, held = place(array), hold(array)
    del array
    for _ in range(5):
        other = make((N,), DOUBLE)
        assert place(other) != where
        other[:] = 2.0
    del held, other
    gc.collect()
    assert where in {place(a) for a in [make((N,), DOUBLE) for _ in range(SPARE)]}


def test_no_more_blocks_are_kept_than_spare_ones():
    make = pooled([(N,), (N,), ()], [DOUBLE] * 3)
    many = [make((N,), DOUBLE) for _ in range(10)]
    assert len({place(a) for a in many}) == 10
    assert len(make.blocks[(N,), DOUBLE]) == 2 * SPARE
    assert make((), DOUBLE).flags.owndata


@pytest.mark.parametrize("count", [10, (1 << 25) // 8 + 1])
def test_small_and_very_large_results_are_numpys(count):
    assert pooled([(count,)], [DOUBLE]) is np.empty


def test_a_step_that_keeps_the_last_gradient_takes_turns_in_two_blocks():
    function = sg.grad(lambda x: np.sum(np.sin(x)))
    function(X)
    g = np.zeros(N)
    places = []
    for k in range(6):
        g = function(X + k)  # the former one is held until this one is there
        np.testing.assert_allclose(g, np.cos(X + k), rtol=1e-12, atol=1e-15)
        places.append(place(g))
    assert len(set(places)) == 2


def test_results_that_are_kept_do_not_change():
    function = sg.value_and_grad(lambda x: np.sum(np.exp(x) * x))
    found = [function(X + k) for k in range(8)]
    for k, (_, gradient) in enumerate(found):
        np.testing.assert_allclose(gradient, np.exp(X + k) * (1 + X + k), rtol=1e-12)


def test_threads_never_share_a_block():
    function: Any = sg.jit(np.cos)
    function(X)

    def run(k):
        for _ in range(30):
            mine = function(X + k)
            if not np.allclose(mine, np.cos(X + k)):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_a_block_in_another_threads_hands_is_passed_over(monkeypatch):
    assert _first_free(deque()) == (None, 0)
    make = pooled([(N,)], [DOUBLE])
    where = place(make((N,), DOUBLE))
    monkeypatch.setattr(module, "_first_free", lambda _: (None, 0))
    array = make((N,), DOUBLE)
    assert array.shape == (N,)
    assert (place(array) == where) is False
    assert ALONE > 0


def neighbours(x):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2)


@pytest.mark.parametrize("count", [20_000, N])
def test_large_results_of_open_extents_use_their_memory_again_in_the_short_call(count: int) -> None:
    """At every size that comes back after another one, too, and values are each call's own."""
    f = sg.grad(neighbours, specs=("f64[n]",))
    slow = sg.grad(neighbours, options=sg.Options(compiler="none"))
    x, other = X[:count].copy(), X[: count - 7].copy()
    for _ in range(3):
        for argument in (x, other):
            f(argument)
            first = f(argument)
            where, values = place(first), first.copy()
            np.testing.assert_allclose(values, slow(argument), rtol=1e-12)
            second = f(argument)
            assert place(second) != where
            assert np.array_equal(first, values)
            del first
            assert where in {place(f(argument)), place(f(argument))}
            del second
    assert f.memory(n=count).workspace < 1024, "what small extents need is not asked for by large ones"

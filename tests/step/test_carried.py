"""Parameters that the loss gives anew: statistics of batch_norm, a count for dropout, in single steps and in epochs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError
from tests.step.test_step import OPTIMIZERS, same

RNG = np.random.default_rng(5)
X = RNG.normal(size=(57, 6))
Y = (X[:, 0] > 0).astype(int)


def begun(kind=np.float64):
    draw = np.random.default_rng(1)
    return {
        "in": {"W": (draw.normal(size=(6, 8)) * 0.3).astype(kind), "b": np.zeros(8, kind)},
        "norm": {"scale": np.ones(8, kind), "bias": np.zeros(8, kind)}, "out": (draw.normal(size=(8, 2))).astype(kind),
        "run": {"step": np.int64(0), "mean": np.zeros(8, kind), "var": np.ones(8, kind)},
    }


def loss(p, x, y):
    hidden, statistics = sg.nn.batch_norm(p["norm"], p["run"], sg.nn.dense(p["in"], x), True, momentum=0.9)
    hidden = sg.nn.dropout(np.maximum(hidden, 0), 0.2, 7, p["run"]["step"])
    value = np.mean(sg.nn.softmax_cross_entropy(hidden @ p["out"], y))
    return value, {"step": p["run"]["step"] + 1, "mean": statistics["mean"], "var": statistics["var"]}


def with_extras(p, x, y):
    value, run = loss(p, x, y)
    return value, (run, {"rows": np.sum(y)})


def by_hand(optimizer, params, batches):
    """Put in, after each step, what the loss gave beside its value."""
    step, state, values = sg.compile_step(loss, optimizer, frozen=("run",), has_aux=True), optimizer.init(params), []
    for x, y in batches:
        params, state, (value, run) = step(params, state, x, y)
        params = {**params, "run": run}
        values.append(value)
    return params, state, values


BATCHES = [(X[k : k + 10], Y[k : k + 10]) for k in range(0, 57, 10)]


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("name", ["adam", "chain", "momentum", "sgd"])
def test_steps_and_epochs_have_the_numbers_of_putting_it_in_by_hand(name, donate):
    optimizer = OPTIMIZERS[name]
    expected = by_hand(optimizer, begun(), BATCHES)
    step = sg.compile_step(loss, optimizer, carried="run", donate=donate)
    params, values = begun(), []
    state = optimizer.init(params)
    for batch in BATCHES:
        params, state, value = step(params, state, *batch)
        values.append(value)
    assert same((params, state, values), expected)
    params = begun()
    *got, values = step.epoch(params, optimizer.init(params), X, Y, batch=10)
    assert same((*got, [*values]), expected)
    assert got[0]["run"]["step"] == 6
    assert step.unused == []


def test_an_order_and_single_precision():
    order, optimizer = RNG.permutation(57), OPTIMIZERS["adam"]
    batches = [(X[rows].astype(np.float32), Y[rows]) for rows in np.array_split(order, [10, 20, 30, 40, 50])]
    params, _, values = by_hand(optimizer, begun(np.float32), batches)
    step = sg.compile_step(loss, optimizer, carried="run")
    start = begun(np.float32)
    got, _, found = step.epoch(start, optimizer.init(start), X.astype(np.float32), Y, batch=10, order=order)
    np.testing.assert_allclose(found, values, rtol=1e-5)
    np.testing.assert_allclose(got["run"]["var"], params["run"]["var"], rtol=1e-5)
    assert got["run"]["var"].dtype == np.float32


def test_the_halves_apart_have_the_same_bits():
    optimizer = OPTIMIZERS["adam"]
    step, params = sg.compile_step(with_extras, optimizer, carried="run", has_aux=True), begun()
    state = optimizer.init(params)
    new, after, value = step(params, state, *BATCHES[0])
    (number, extras), grads = step.gradients(params, *BATCHES[0])
    assert extras == value[1] == {"rows": np.sum(BATCHES[0][1])}
    assert same((*step.apply(params, grads, state), number), (new, after, value[0]))
    assert same(grads["run"], new["run"])


def test_training_that_is_begun_again_comes_to_the_same_bits(tmp_path):
    optimizer = OPTIMIZERS["adam"]
    step, params = sg.compile_step(loss, optimizer, carried="run"), begun()
    state, file = optimizer.init(params), tmp_path / "run.npz"
    whole = sg.fit(step, params, state, (X, Y), epochs=4, batch=10)
    sg.fit(step, params, state, (X, Y), epochs=2, batch=10, checkpoint=file)
    *again, _ = sg.fit(step, params, state, (X, Y), epochs=4, batch=10, checkpoint=file)
    assert same((*again,), whole[:2])
    assert again[0]["run"]["step"] == 24


def test_what_is_not_finite_leaves_it_as_it_was():
    optimizer = OPTIMIZERS["sgd"]
    step, params = sg.compile_step(loss, optimizer, carried="run", on_nan="raise", donate=True), begun()
    with pytest.raises(NonFiniteError):
        step(params, optimizer.init(params), X * np.nan, Y)
    assert same(params, begun())


def test_in_a_traced_function():
    optimizer = OPTIMIZERS["adam"]
    step, params = sg.compile_step(loss, optimizer, carried="run"), begun()
    state = optimizer.init(params)
    twice = sg.jit(lambda p, s, x, y: step(*step(p, s, x, y)[:2], x, y))
    one = step(*step(params, state, *BATCHES[0])[:2], *BATCHES[0])
    for got, expected in zip(sg.ravel_pytree(twice(params, state, *BATCHES[0])), sg.ravel_pytree(one), strict=True):
        if isinstance(got, np.ndarray):
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("optimizer", [
    sg.optim.sgd(0.1), sg.optim.adam(0.1, sparse="lazy"),
    sg.optim.chain(sg.optim.clip_by_global_norm(1.0), sg.optim.sgd(0.1)),
], ids=["sgd", "lazy adam", "chain"])
def test_beside_rows_of_a_table(optimizer):
    def table(p, ids):
        return np.sum(p["E"][ids] @ p["w"]), p["n"] + 1

    params = {"E": np.ones((4000, 3)), "n": np.int64(0), "w": np.ones(3)}
    step, ids = sg.compile_step(table, optimizer, carried="n"), np.array([1, 5, 7])
    new, *_ = step(params, optimizer.init(params), ids)
    assert (new["n"], step.touched_rows) == (1, {"E": 3})
    _, grads = step.gradients(params, ids)
    for given, expected in ((None, 0), (2.0, 2)):
        again, _ = step.apply(params, {**grads, "n": given}, optimizer.init(params))
        assert (again["n"], again["n"].dtype) == (expected, np.int64)
        assert same(again["w"], new["w"])


REFUSED: dict[str, Any] = {
    "no parameter": (loss, {"carried": "stats"}, ArgumentValueError, "compile_step(carried=...): 'stats' names no"),
    "no pair": (lambda p, x, y: loss(p, x, y)[0], {"carried": "run"}, ArgumentError, "returns a pair (loss, extras)"),
    "others": (lambda p, x, y: (loss(p, x, y)[0], {"mean": np.zeros(3)}), {"carried": "run"}, ArgumentError,
               "the loss gives run/mean float64(3,) anew, and the parameters are run/mean float64(8,), run/step"),
    "no extras": (loss, {"carried": "run", "has_aux": True}, ArgumentError, "returns no (number, (new, extras))"),
    "no path": (loss, {"carried": ("run",)}, ArgumentError, "compile_step(carried=('run',))"),
    "frozen as well": (loss, {"carried": "run", "frozen": ["run/mean"]}, ArgumentError, "run/mean is in both"),
    "all": (loss, {"carried": "run", "frozen": ("in", "norm", "out")}, ArgumentError, "norm, out, carried run"),
    "its own gradients": (sg.value_and_grad(lambda p, x, y: loss(p, x, y)[0]), {"carried": "run"}, ArgumentError,
                          "compile_step(carried='run') of what gives its gradients itself"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    function, settings, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        sg.compile_step(function, OPTIMIZERS["sgd"], **settings)(begun(), OPTIMIZERS["sgd"].init(begun()), X, Y)

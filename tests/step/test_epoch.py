"""Epochs: the numbers of a call a step, without an order its bits, and what a batch refuses."""

from __future__ import annotations

import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.step.fused import Fused
from symgrad.api.step.step import Step
from symgrad.build import load, steps
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError
from symgrad.trace import optree
from tests.step.test_step import OPTIMIZERS, same

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(107, 5)), RNG.integers(0, 3, 107)
ORDERS = {"as it comes": None, "a permutation": RNG.permutation(107), "some twice": RNG.integers(0, 107, 53)}
VERIFY = sg.Options(verify=True)


def loss(p, x, y):
    return np.mean(sg.nn.softmax_cross_entropy(x @ p["W"] + p["b"], y))


def begun():
    params = {"W": np.random.default_rng(1).normal(size=(5, 3)), "b": np.zeros(3)}
    return params, OPTIMIZERS["chain"].init(params)


def one_by_one(loss, order, x=X, y=Y, batch=10):
    step, (params, state), values = sg.compile_step(loss, OPTIMIZERS["chain"]), begun(), []
    order = np.arange(len(x)) if order is None else order
    for begin in range(0, len(order), batch):
        rows = order[begin : begin + batch]
        params, state, value = step(params, state, x[rows], y[rows])
        values.append(value)
    return params, state, values


@pytest.fixture
def calls(monkeypatch):
    """Count the calls of C, and what they took."""
    found, many = [], Fused.many

    def counted(self, *args):
        try:
            return many(self, *args)
        finally:
            found.append(self.steps.done)

    monkeypatch.setattr(Fused, "many", counted)
    return found


def near(one, other):
    """Whether trees are the same up to rounding: with an order, rows are read where they lie, by loops of their own."""
    pairs = zip(*[optree.tree_leaves(tree) for tree in (one, other)], strict=True)
    return all(np.allclose(a, b, rtol=1e-13, atol=1e-15) for a, b in pairs)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("donate", [False, True])
def test_an_epoch_is_its_steps(name, donate, calls):
    order = ORDERS[name]
    params, state = begun()
    before = sg.tree_map(np.copy, (params, state))
    step = sg.compile_step(loss, OPTIMIZERS["chain"], donate=donate, options=VERIFY)
    new, after, values = step.epoch(params, state, X, Y, batch=10, order=order)
    theirs, kept, expected = one_by_one(loss, order)
    assert (same if order is None else near)((new, after, values), (theirs, kept, np.array(expected)))
    assert (new["W"] is params["W"]) is donate
    assert donate or same((params, state), before)
    count = 107 if order is None else len(order)
    assert calls == [count // 10, 1], "those of ten rows in one call, the last one in another"


def test_another_path_is_found_and_the_epoch_goes_on(calls):
    def either(p, x, y):
        return loss(p, x, y) if np.sum(x) > 0 else 2 * loss(p, x, y) + np.sum(p["b"])

    step = sg.compile_step(either, OPTIMIZERS["chain"], donate=True)
    for _ in range(2):
        params, state, values = step.epoch(*begun(), X, Y, batch=10, order=ORDERS["a permutation"])
    theirs, kept, expected = one_by_one(either, ORDERS["a permutation"])
    assert near((params, {**state}, values), (theirs, kept, np.array(expected)))
    assert sum(calls) > len(calls)


def test_paths_that_alternate_take_a_gradient_each():
    """Half of the batches leave the path before; with an order and without one, each is found by one call."""
    def either(p, x, y):
        return loss(p, x, y) if x[0, 0] > 0 else 2 * loss(p, x, y)

    x = np.repeat(np.where(np.arange(10) % 2, 1.0, -1.0), 10)[:, None] * np.abs(X[:100])
    for order in (None, np.arange(100)):
        step = sg.compile_step(either, OPTIMIZERS["chain"])
        found = step.epoch(*begun(), x, Y[:100], batch=10, order=order)
        theirs, kept, expected = one_by_one(either, None, x, Y[:100])
        assert near(found, (theirs, kept, np.array(expected)))
        assert step.cache_info().compilations == 2


def test_rows_of_several_widths_and_more_rows_in_a_batch_than_there_are():
    """Open extents are no reason to compile for each width; a batch's size takes no memory."""
    step = sg.compile_step(lambda p, x: np.mean(np.sort(x, 1) * p["w"]), sg.optim.sgd(0.1))
    for width in (20, 35, 50, 64):
        x, w = RNG.normal(size=(12, width)), {"w": np.ones(())}
        new, _, values = step.epoch(w, sg.optim.sgd(0.1).init(w), x, batch=10**15, order=RNG.permutation(12))
        np.testing.assert_allclose(values, [np.mean(x)])
        np.testing.assert_allclose(new["w"], 1.0 - 0.1 * np.mean(x))
    assert step.cache_info().compilations <= 3


@pytest.mark.parametrize("order", [None, np.arange(107)[::-1]])
def test_the_next_epoch_is_planned_already_and_holds_no_rows(order, monkeypatch):
    plans, planned, factor = [], Step._planned, [1.0]

    def counted_plan(*args):
        plans.append(args)
        return planned(*args)

    monkeypatch.setattr(Step, "_planned", counted_plan)
    step, now = sg.compile_step(lambda p, x, y: factor[0] * loss(p, x, y), OPTIMIZERS["chain"]), begun()
    for factor[0], counted in ((1.0, 2), (1.0, 2), (2.0, 4), (2.0, 4)):  # whole batches, and what is left
        x = X.copy()
        *now, _ = step.epoch(*now, x, Y, batch=10, order=order)
        alive = weakref.ref(x)
        del x
        plans[:] = [()] * len(plans)
        assert len(plans) == counted
        assert alive() is None


def test_an_order_as_long_as_labels_is_no_label():
    """Both are vectors of integers: what is planned for the one is not run for the other."""
    def either(p, x, y=None):
        z = np.tanh(x @ p["w"])
        return np.mean(z**2) if y is None else np.mean((z - y) ** 2)

    opt, x, y, order = sg.optim.sgd(0.1), X[:20, :3], Y[:20], RNG.permutation(20)[:15]
    params = {"w": np.ones(3)}
    ways = {"labels": ((x, y), None), "order": ((x,), order)}
    right = {
        name: sg.compile_step(either, opt).epoch(params, opt.init(params), *arrays, batch=5, order=rows)
        for name, (arrays, rows) in ways.items()
    }
    for names in (("labels", "order"), ("order", "labels")):
        step = sg.compile_step(either, opt)
        for name in names:
            arrays, rows = ways[name]
            assert same(step.epoch(params, opt.init(params), *arrays, batch=5, order=rows), right[name]), names


def test_every_value_is_looked_at_where_options_ask_for_it():
    """A step and its epoch name the line where a NaN begins, and leave parameters and state as they were."""
    opt, x = sg.optim.adam(0.1), np.abs(X[:20]) + 0.1
    step = sg.compile_step(
        lambda p, x: np.mean(np.log(x @ p["w"])), opt, donate=True, options=sg.Options(debug_nans=True))
    params = {"w": np.ones(5)}
    state, plain = opt.init(params), sg.compile_step(lambda p, x: np.mean(np.log(x @ p["w"])), opt)
    wanted = plain.epoch({"w": np.ones(5)}, opt.init({"w": np.ones(5)}), x, batch=10, order=np.arange(20)[::-1])
    assert near(step.epoch(params, state, x, batch=10, order=np.arange(20)[::-1]), wanted)
    before = sg.tree_map(np.copy, (params, state))
    with pytest.raises(NonFiniteError, match=r"(?s)batch 1: .*np\.log\(x @ p"):
        step.epoch(params, state, np.where(np.arange(20)[:, None] == 3, -x, x), batch=10, order=np.r_[0, 10:20, 1:9])
    assert state["t"] == before[1]["t"] + 1
    with pytest.raises(NonFiniteError, match=r"np\.log\(x @ p"):
        step(params, state, -x)
    assert state["t"] == before[1]["t"] + 1


@pytest.mark.parametrize("batch", [True, 2.0, "3", 0, np.int8(-1)])
def test_what_is_no_number_of_rows(batch):
    step = sg.compile_step(loss, OPTIMIZERS["sgd"])
    with pytest.raises(ArgumentValueError, match="a number of rows from 1 on"):
        step.epoch(*begun(), X, Y, batch=batch)


def test_small_integers_are_numbers_of_rows_and_complex_rows_are_refused():
    step, state = sg.compile_step(loss, OPTIMIZERS["sgd"]), OPTIMIZERS["sgd"].init(begun()[0])
    assert step.epoch(begun()[0], state, X, Y, batch=np.int8(100), order=np.arange(107))[2].shape == (2,)
    with pytest.raises(ArgumentError, match=r"complex128(?s:.*)x\.real and x\.imag"):
        step.epoch(begun()[0], state, X * 1j, Y, batch=10)


def test_the_c_of_an_epoch_has_the_names_of_the_loss():
    step = sg.compile_step(lambda p, rows, labels: 2 * loss(p, rows, labels), OPTIMIZERS["sgd"])
    step.epoch(*begun(), X, Y, batch=10, order=np.arange(20))
    entry, *_ = step._ordered.serving(begun()[0], X[:10], Y[:10], np.arange(20))
    text = entry.built.stages.of("c").text
    assert all(f" * reads {name}: " in text for name in ("rows", "labels", "order"))


def test_next_rows_are_asked_for_where_rows_are_walked_as_a_whole():
    """In loops over parts of rows a row would be asked for by each part."""
    texts = []
    for loss, w in ((lambda p, x: np.mean(np.tanh(x @ p["w"])), np.ones((784, 128))),
                    (lambda p, x: np.mean((x * p["w"] - 1.0) ** 2), np.ones(20_000))):
        step = sg.compile_step(loss, sg.optim.sgd(0.1), options=sg.Options(threads=1))
        params, x, order = {"w": w}, RNG.normal(size=(100, len(w))), np.arange(200) % 100
        step.epoch(params, sg.optim.sgd(0.1).init(params), x, batch=100, order=order)
        entry, *_ = step._ordered.serving(params, x, order)
        texts.append(entry.built.stages.of("c").text)
    assert "sg_expect((const char *)(" in texts[0]
    assert "sg_expect((const char *)(" not in texts[1]


def test_a_label_out_of_range_leaves_the_state_of_the_batch_before():
    wrong = Y.copy()
    for label, donate, said in ((3, False, "which is y[5]"), (-1, True, "made of y[5], which is -1")):
        wrong[55], message = label, rf"batch 5: .* with size 3: 3 at \[5, 0\], {re.escape(said)}\n"
        step = sg.compile_step(loss, OPTIMIZERS["chain"], donate=donate)
        params, state = begun()
        with pytest.raises(IndexError, match=message) as caught:
            step.epoch(params, state, X, wrong, batch=10)
        found: Any = caught.value
        assert found.batch == 5
        assert (found.params["W"] is params["W"]) is donate
        theirs, kept, expected = one_by_one(loss, np.arange(50))
        assert same((found.params, {**found.state}), (theirs, kept))
        assert found.values.tolist() == expected
        params, state, _ = step.epoch(found.params, found.state, X, Y, batch=10, order=np.arange(50, 107))
        assert near((params, {**state}), one_by_one(loss, None)[:2])


def test_what_is_not_finite_stops_it_at_its_batch():
    def log(p, x, _):
        return np.mean(np.log(x @ p["W"] + 50.0)) + np.sum(p["b"])

    x = X.copy()
    x[33] = -1e9
    step = sg.compile_step(log, OPTIMIZERS["adam"], on_nan="raise", donate=True)
    params = begun()[0]
    state = OPTIMIZERS["adam"].init(params)
    with pytest.raises(FloatingPointError, match=r"(?s)batch 3: log.*np\.mean\(np\.log"):
        step.epoch(params, state, x, Y, batch=10)
    assert state["t"] == 3
    assert np.isfinite(params["W"]).all()


def test_extras_are_stacked():
    opt = OPTIMIZERS["sgd"]
    step = sg.compile_step(lambda p, x, y: (loss(p, x, y), {"z": np.sum(x @ p["W"], 0)}), opt, has_aux=True)
    params = begun()[0]
    state = opt.init(params)
    value, extras = step(params, state, X[:10], Y[:10])[2]
    _, _, (values, stacked) = step.epoch(params, state, X, Y, batch=10)
    assert values.shape == (11,)
    assert values[0] == value
    np.testing.assert_array_equal(stacked["z"][0], extras["z"])


@pytest.mark.parametrize("order", [None, np.arange(6)])
def test_without_a_compiler_what_is_not_finite_is_named_too(order):
    step = sg.compile_step(
        lambda p, x: np.mean(np.log(x @ p["w"])), sg.optim.sgd(0.1), on_nan="raise",
        options=sg.Options(compiler="none"))
    params, x = {"w": np.ones(2)}, np.ones((6, 2))
    x[4] = -1.0
    with pytest.raises(NonFiniteError, match=r"(?s)batch 1: log, .*np\.log\(x @ p"):
        step.epoch(params, sg.optim.sgd(0.1).init(params), x, batch=3, order=order)


def test_epochs_in_several_threads_are_those_by_themselves():
    """They share what is planned, and the memory of it: each waits for its turn, and counts its own batches."""
    x, y = np.tile(X, (60, 1)), np.tile(Y, 60)
    step = sg.compile_step(loss, OPTIMIZERS["chain"], options=sg.Options(threads=1))

    def trained(seed):
        params = {"W": np.random.default_rng(seed).normal(size=(5, 3)), "b": np.zeros(3)}
        return step.epoch(params, OPTIMIZERS["chain"].init(params), x, y, batch=10)

    alone = [*map(trained, range(4))]
    with ThreadPoolExecutor(4) as pool:
        assert all(same([*pool.map(trained, range(4))], alone) for _ in range(3))


def test_an_order_in_the_memory_of_a_parameter():
    """It is read to its end as it was, whatever is written there meanwhile."""
    memory = np.zeros(8)
    order = memory.view(np.int64)
    order[:] = [3, 1, 0, 2, 3, 0, 1, 2]
    step = sg.compile_step(lambda p, x: np.sum((p["w"] - x) ** 2), sg.optim.sgd(0.1), donate=True)
    apart, taken = memory[:5].copy(), order.copy()
    state = sg.optim.sgd(0.1).init(0.0)
    found = step.epoch({"w": memory[:5]}, {**state}, X[:4], batch=2, order=order)
    assert same(found, step.epoch({"w": apart}, {**state}, X[:4], batch=2, order=taken))


def test_rows_as_they_lie_elsewhere():
    """Other strides, byte orders and no rows at all."""
    step = sg.compile_step(loss, OPTIMIZERS["chain"])
    params, state, _ = step.epoch(*begun(), np.asfortranarray(X), Y.astype(">i8"), batch=10)
    assert same((params, state), one_by_one(loss, None)[:2])
    assert step.epoch(params, state, X[:0], Y[:0], batch=10)[2].shape == (0,)
    assert step.epoch(params, state, X, Y, batch=10, order=[])[2].shape == (0,)


ERRORS = {
    "rows": (lambda step: step.epoch(*begun(), X, Y[:5], batch=10), "epoch() of the shapes (107, 5), (5,)"),
    "a batch": (lambda step: step.epoch(*begun(), X, Y, batch=0), "epoch(batch=0)"),
    "a row": (
        lambda step: step.epoch(*begun(), X, Y, batch=3, order=[0, 107]), "has 107 at 1, and rows are from 0 to 106"),
    "a row from the end": (lambda step: step.epoch(*begun(), X, Y, batch=3, order=[-1]), "has -1 at 0, and rows"),
    "masked rows": (
        lambda step: step.epoch(*begun(), np.ma.masked_equal(X, 0), Y, batch=3), "a kind of array with a meaning of"),
    "a mask": (lambda step: step.epoch(*begun(), X, Y, batch=3, order=X[:, 0] > 0), "np.flatnonzero(mask)"),
    "a traced call": (
        lambda step: sg.jit(lambda params, state: step.epoch(params, state, X, Y, batch=10))(*begun()),
        "epoch() in a traced function"),
    "no arrays": (lambda step: step.epoch(*begun(), batch=3), "epoch() of the shapes none"),
    "an order": (lambda step: step.epoch(*begun(), X, Y, batch=3, order=[0.5]), "is float64(1,), and no vector"),
    "a number": (lambda step: step.epoch(*begun(), X, 3, batch=3), "takes arrays with rows, and was given 3"),
    "extras": (
        lambda _: sg.compile_step(lambda p, x, y: (loss(p, x, y), x), OPTIMIZERS["chain"], has_aux=True).epoch(
            *begun(), X, Y, batch=10),
        "batch 10: what the loss returns beside its value has shape (7, 5) here, and (10, 5) before",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, message = ERRORS[name]
    with pytest.raises(sg.SymgradError, match=re.escape(message)):
        call(sg.compile_step(loss, OPTIMIZERS["chain"]))


def test_a_long_step_runs_where_there_is_one_team(monkeypatch):
    found = []
    monkeypatch.setattr(steps, "LONG", 1)
    monkeypatch.setattr(load, "end_team", lambda: found.append(threading.current_thread().name))
    sg.compile_step(loss, OPTIMIZERS["chain"]).epoch(*begun(), X[:100], Y[:100], batch=10)
    assert found == ["MainThread", "symgrad"]


def test_a_long_epoch_is_several_calls_between_which_it_can_be_stopped(monkeypatch):
    """The batches that were taken are not lost, nor their values."""
    step, calls, take = sg.compile_step(loss, OPTIMIZERS["chain"]), [], steps._taking_steps()
    whole = step.epoch(*begun(), X[:100], Y[:100], batch=10)
    fused, *_ = step._fused
    monkeypatch.setattr(steps, "LONG", 3 * fused.steps._work)

    def third(*arguments):
        calls.append(fused.steps._batches[0])
        if len(calls) == 6:
            raise KeyboardInterrupt
        return take(*arguments)

    monkeypatch.setattr(fused.steps, "_function", third)
    assert same(step.epoch(*begun(), X[:100], Y[:100], batch=10), whole)
    assert calls == [3, 6, 9, 10]
    with pytest.raises(KeyboardInterrupt) as caught:
        step.epoch(*begun(), X[:100], Y[:100], batch=10)
    told: Any = caught.value
    assert (told.batch, len(told.values)) == (3, 3)
    rest = step.epoch(told.params, told.state, X[30:100], Y[30:100], batch=10)
    assert same(rest[:2], whole[:2])


def test_threads_share_a_steps_rows():
    """A quarter of the usual work is enough, rows are read where they lie, and bits are those of an epoch in parts."""
    rng = np.random.default_rng(0)
    x, y, order = rng.random((250, 784)), rng.integers(0, 10, 250), rng.permutation(250)
    options, opt = sg.Options(threads=2), sg.optim.sgd(0.1)
    step = sg.compile_step(loss, opt, options=options)
    params = {"W": np.zeros((784, 10)), "b": np.zeros(10)}
    many = step.epoch(params, opt.init(params), x, y, batch=100, order=order)
    new, state, part = params, opt.init(params), params
    for begin in range(0, 250, 100):
        rows = order[begin : begin + 100]
        before = state
        new, state, value = step(new, before, x[rows], y[rows])
        part, _, values = step.epoch(part, before, x, y, batch=100, order=rows)
        assert values[0] == many[2][begin // 100]
        np.testing.assert_allclose(value, values[0], rtol=1e-13)
    assert same(part, many[0])
    assert near((new, state), many[:2])

    usual = sg.value_and_grad(loss, options=options)
    usual(params, x[:100], y[:100])
    assert "omp parallel" not in usual.c_source
    awake = sg.value_and_grad(loss, options=sg.Options(threads=2, awake=True))
    awake(params, x[:100], y[:100])
    assert "13 * t / threads * 8" in awake.c_source, "48 rows and 52"

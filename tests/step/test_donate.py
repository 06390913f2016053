"""Steps in place: in the caller's arrays, with the same bits, without new memory, and only where that can be."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.step.step import Step
from symgrad.trace.structures import flattened
from tests.step.allocations import counted
from tests.step.test_step import OPTIMIZERS, made, model, same

OUTSIDE = np.linspace(-1.0, 1.0, 16)


def begun(name="adam", dtype=np.float64, **settings):
    opt = OPTIMIZERS[name]
    params, x, y = made(dtype)
    step = sg.compile_step(model, opt, options=sg.Options(verify=True), **settings)
    return step, params, opt.init(params), x, y


def arrays(*trees):
    return [leaf for leaf in flattened(trees)[0] if isinstance(leaf, np.ndarray)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_in_place_is_the_same(name, dtype):
    """The arrays are the caller's, and so is the dict of the state; the numbers are those of new arrays."""
    step, params, state, x, y = begun(name, dtype, donate=True)
    other, theirs, kept, *_ = begun(name, dtype)
    own = arrays(params, state)
    halves, one, its, *_ = begun(name, dtype, donate=True)
    for _ in range(3):
        params, after, value = step(params, state, x, y)
        theirs, kept, again = other(theirs, kept, x, y)
        _, grads = halves.gradients(one, x, y)
        one, its = halves.apply(one, grads, its)
        assert after is state
        assert value == again
    assert all(a is b for a, b in zip(own, arrays(params, state), strict=True))
    assert same((params, state), (theirs, kept))
    assert same((params, state), (one, its))
    assert state["t"] == 3
    assert len(step._fused) == len(other._fused) == 1, "one call of C"


def deep(p, x):
    return np.mean(np.tanh(x @ p["W"] + p["b"]) ** 2 @ p["v"])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [40, 37])
def test_what_all_threads_read_is_written_past_their_caches(width, dtype):
    """Parameters are, from a page on, wherever their lines begin; what the optimizer keeps for itself is not."""
    rng, opt = np.random.default_rng(width), sg.optim.momentum(0.1, 0.9)
    memory = rng.normal(size=(width * width + 16)).astype(dtype)
    x = rng.normal(size=(800, width)).astype(dtype)
    found = []
    for count, begin in ((1, 0), (2, 0), (2, 1), (2, 3), (2, 13)):
        own = memory.copy()[begin : begin + width * width]
        own[:] = memory[: width * width]
        params = {"W": own.reshape(width, width), "b": np.zeros(width, dtype), "v": np.ones(width, dtype)}
        state, options = opt.init(params), sg.Options(threads=count, verify=True)
        step = sg.compile_step(deep, opt, donate=True, options=options)
        for _ in range(3):
            params, state, _ = step(params, state, x)
        assert params["W"].base is not None
        found.append((count, params, state))
        fused = step._fused[0]
        assert fused.steps._step["threads1"] == count
        text = fused.halves[1].built.stages.of("c").text
        assert re.findall(r"sg_spread\w*\((\w+)", text)[1:] == ["params_W"]
    for count, params, state in found[2:]:
        assert same((params, state), found[1][1:]), count
    np.testing.assert_allclose(found[0][1]["W"], found[1][1]["W"], rtol=1e-3 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("on_nan", [None, "raise"])
def test_a_thousand_steps_take_no_memory(on_nan):
    """NumPy is asked for no array at all, and Python for no more than it gives back."""
    opt = OPTIMIZERS["adam"]
    params = {"W": np.ones((400, 200))}
    state, x = opt.init(params), np.ones(400)
    step = sg.compile_step(lambda p, x: np.sum((x @ p["W"]) ** 2), opt, donate=True, on_nan=on_nan)
    params, state, _ = step(params, state, x)
    with counted() as calls:
        for _ in range(1000):
            params, state, _ = step(params, state, x)
    assert not calls
    (fused,) = step._fused
    memory = fused.steps._memory
    tracemalloc.start()
    for _ in range(300):  # until lists of free objects are full
        params, state, _ = step(params, state, x)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    for _ in range(1000):
        params, state, _ = step(params, state, x)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100
    assert peak - before < params["W"].nbytes / 10
    assert fused.steps._memory is memory
    assert step.memory(params, state, x).workspace == fused.steps.bytes
    assert memory.nbytes < fused.steps.bytes + 100


def test_what_is_refused_was_not_written():
    """A label out of range, and a value that is not finite, leave all as it was; then it goes on."""
    for settings, wrong, error, words in (
        ({}, {"y": 9}, IndexError, "out of bounds"),
        ({"on_nan": "raise"}, {"x": np.nan}, FloatingPointError, "'x' holds NaN"),
    ):
        step, params, state, x, y = begun("chain", donate=True, **settings)
        params, state, _ = step(params, state, x, y)
        before = sg.tree_map(np.copy, (params, state))
        bad = {"x": x.copy(), "y": y.copy()}
        for name, value in wrong.items():
            bad[name].flat[0] = value
        for _ in range(2):
            with pytest.raises(error, match=words):
                step(params, state, bad["x"], bad["y"])
            assert same((params, state), before)
        params, state, _ = step(params, state, x, y)
        assert state["t"] == 2


def test_a_path_that_is_missed_writes_nothing():
    def loss(p, x):
        return np.sum(p["w"] ** 2) if np.sum(x) > 0 else np.sum((p["w"] - 1) * p["v"])

    opt = OPTIMIZERS["adam"]
    found = []
    for donate in (False, True):
        params = {"w": np.arange(3.0), "v": np.ones(3)}
        step, state, unused = sg.compile_step(loss, opt, donate=donate), opt.init(params), []
        for k in (1, -1, 1, 1, -1, -1):
            params, state, _ = step(params, state, np.full(2, float(k)))
            unused.append(step.unused)
        assert unused == [["v"], [], ["v"], ["v"], [], []]
        found.append((params, {**state}))
    assert same(*found)


def test_numbers_and_arrays_without_axes():
    opt, loss = OPTIMIZERS["adam"], lambda p, x: (p["a"] * x + p["b"] - p["c"]) ** 2
    found = []
    for donate in (False, True):
        params = {"a": 0.5, "b": np.float32(2.0), "c": np.array(1.0)}
        step, state = sg.compile_step(loss, opt, donate=donate), opt.init(params)
        for _ in range(3):
            params, state, _ = step(params, state, 2.0)
        found.append((params, {**state}))
        assert type(params["a"]) is np.float64
    assert same(*found)


def test_a_step_in_a_traced_function_is_traced():
    step, params, state, x, y = begun(donate=True)
    before = sg.tree_map(np.copy, params)
    twice = sg.jit(lambda p, s: step(*step(p, s, x, y)[:2], x, y))
    new, after, _ = twice(params, state)
    assert same(params, before)
    for _ in range(2):
        params, state, _ = step(params, state, x, y)
    assert after["t"] == state["t"]
    sg.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), new, params)


def test_without_a_compiler():
    opt = OPTIMIZERS["chain"]
    found = []
    for options in (sg.Options(), sg.Options(compiler="none")):
        params, x, y = made()
        step, state = sg.compile_step(model, opt, donate=True, options=options), opt.init(params)
        own = params["in"]["W"]
        for _ in range(2):
            params, state, _ = step(params, state, x, y)
        params, state, values = step.epoch(params, state, x, y, batch=10)
        assert params["in"]["W"] is own
        assert values.shape == (4,)
        found.append((params, state["m"]))
    sg.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), *found)


def _read_only(params, state):
    params["out"]["W"].flags.writeable = False


def _by_columns(params, state):
    params["out"]["W"] = np.asfortranarray(params["out"]["W"])


def _overlapping(params, state):
    whole = np.zeros(22)
    params["in"]["b"], params["out"]["b"] = whole[:16], whole[15:19]


def _slot(params, state):
    state["m"]["in"]["W"] = params["in"]["W"]


def _shared(params, state):
    params["in"]["b"] = OUTSIDE


ERRORS = {
    "read-only": (_read_only, "donate=True: params['out']['W'] is read-only\n  instead: params['out']['W'].copy()"),
    "by columns": (_by_columns, "donate=True: params['out']['W'] does not lie row by row"),
    "overlapping": (_overlapping, "donate=True: params['in']['b'] shares memory with params['out']['b']"),
    "a slot": (_slot, "donate=True: params['in']['W'] shares memory with state['m']['in']['W']"),
    "from outside": (_shared, "donate=True: params['in']['b'] shares memory with OUTSIDE, an array from outside"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_written_is_refused(name):
    change, words = ERRORS[name]
    params, x, y = made()
    state = OPTIMIZERS["adam"].init(params)
    change(params, state)
    opt = OPTIMIZERS["adam"]
    step = sg.compile_step(lambda p, x, y: model(p, x, y) + np.sum(OUTSIDE * p["in"]["b"]), opt, donate=True)
    before = sg.tree_map(np.copy, (params, state))
    for _ in range(2):
        with pytest.raises(sg.SymgradError, match=re.escape(words)):
            step(params, state, x, y)
    assert same((params, state), before)


def test_an_array_from_outside_that_does_not_lie_row_by_row_is_refused():
    """Such steps are not one call of C, which looks for itself."""
    whole = np.arange(12.0)
    every_fourth, params = whole[::4], whole[:3]
    opt = sg.optim.sgd(0.1)
    step = sg.compile_step(lambda p, x: np.sum((p - every_fourth * x) ** 2), opt, donate=True)
    with pytest.raises(ValueError, match="params shares memory with every_fourth, an array from outside"):
        step(params, opt.init(params), np.ones(3))
    np.testing.assert_array_equal(whole, np.arange(12.0))


def test_a_batch_in_the_parameters_is_refused():
    step, params, state, _, y = begun(donate=True)
    whole = np.zeros((33, 20))
    params["in"]["W"] = whole[:16].reshape(20, 16)
    with pytest.raises(ValueError, match=re.escape("params['in']['W'] shares memory with batch[0]")):
        step(params, state, whole[:32], y)


def test_an_update_that_changes_types_is_refused():
    def update(params, grads, state, t, hyper):
        return params - grads.astype(np.float32), grads, {"m": state["m"] * np.float64(0.5)}

    opt = sg.optim.optimizer(lambda _: {"m": np.zeros(3, np.float32)}, update)
    step = sg.compile_step(lambda p: np.sum(p * p), opt, donate=True)
    params = np.ones(3)
    new, state, _ = step(params, opt.init(params))  # which gives each the type that it had
    assert state["m"].dtype == np.float32
    assert isinstance(step, Step)
    assert new is params

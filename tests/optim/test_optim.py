"""Optimizers and schedules: exact numbers, other libraries' numbers, the same compiled, in single precision."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError

optim = sg.optim
PARAMS, GRADS = np.array([1.0, 2.0]), np.array([0.1, -0.3])

TWO_STEPS: dict[str, tuple[Any, list[float]]] = {
    "sgd": (optim.sgd(0.1), [0.98, 2.06]),
    "momentum": (optim.momentum(0.1), [0.971, 2.087]),
    "momentum, nesterov": (optim.momentum(0.1, nesterov=True), [0.9539, 2.1383]),
    "adagrad": (optim.adagrad(0.1), [0.94098135208274236, 2.1255193911125527]),
    "adadelta": (optim.adadelta(), [0.99999909988465008, 2.0000009001234025]),
    "rmsprop": (optim.rmsprop(0.1), [0.97836682321937518, 2.0644527950103551]),
    "rmsprop, centered": (optim.rmsprop(0.1, centered=True), [0.9783637704071394, 2.0645333646376116]),
    "rmsprop, momentum": (optim.rmsprop(0.1, momentum=0.9), [0.96888525631417355, 2.0927720499075368]),
    "adam": (optim.adam(), [0.99800000539888989, 2.0019999982003664]),
    "ftrl": (optim.ftrl(0.1), [-0.01248123716284987, 0.67456689089252908]),
    "ftrl, penalties": (optim.ftrl(0.1, l1=0.01, l2=0.02), [-0.0096185658738032389, 0.66624981257396376]),
    "adagrad_da": (optim.adagrad_da(0.1), [-0.057735026918962581, 0.11338934190276816]),
    "adagrad_da, penalties": (optim.adagrad_da(0.1, l1=0.02, l2=0.1), [-0.043666911239301054, 0.1019757320598119]),
    "proximal_sgd": (optim.proximal_sgd(0.1, l1=0.1, l2=0.2), [0.92233756247597065, 1.9611687812379854]),
    "proximal_adagrad": (optim.proximal_adagrad(0.1, l1=0.1, l2=0.2), [0.78329593110805817, 1.9213076036887669]),
}
"""After two steps along a constant gradient: TensorFlow's formulas, in exact double precision."""

HUNDRED_STEPS: dict[str, tuple[Any, list[float]]] = {
    "sgd": (optim.sgd(0.1), [2.0241403689982373, 1.9659231237493129, -0.41555584937721707]),
    "momentum": (optim.momentum(0.1), [10.055071757239235, 0.8410477807118334, -3.3554720902524533]),
    "nesterov": (optim.momentum(0.1, nesterov=True), [10.173704950513551, 0.9228661263899622, -2.9854807306044275]),
    "adam": (optim.adam(0.01, eps_mode="paper"), [1.061916860425106, 2.0083655474935798, -0.5591695505909952]),
    "adamw": (optim.adamw(0.01, 0.1), [0.9637390758924698, 1.8173413714612514, -0.5018378407332091]),
    "nadam": (optim.nadam(0.01), [1.056501120792405, 2.0152293084625517, -0.5566265219287874]),
    "adamax": (optim.adamax(0.01), [1.021852002724381, 2.013123684886444, -0.5369027600964213]),
    "lion": (optim.lion(0.01, weight_decay=0.1), [1.2905114080886846, 1.7338499733092958, -0.7107428196744654]),
    "rmsprop": (
        optim.rmsprop(0.01, momentum=0.5, centered=True), [1.1814266038130414, 1.9795984669324664, -0.5160108430317926],
    ),
    "adadelta": (optim.adadelta(0.1, 0.9, 1e-6), [1.0030767252824542, 2.000364661118936, -0.5003593195920341]),
    "adagrad": (optim.adagrad(0.1), [1.077608103767964, 2.074714023810789, -0.7055050597409668]),
    "a clipped norm": (
        optim.chain(
            optim.clip_by_global_norm(1.0),
            optim.adam(optim.exponential_decay(0.1, 10, 0.5), eps_mode="paper"),
        ), [0.9116026847992177, 2.2973846187201157, -0.9167384057982043],
    ),
    "clipped values": (
        optim.chain(optim.clip_by_value(0.5), optim.sgd(0.1)),
        [1.6190336826258485, 2.2484910411578762, -0.590728718313086],
    ),
    "a cosine": (
        optim.sgd(optim.cosine_decay(0.1, 50, alpha=0.1)), [1.3286758459888017, 1.9270820843100023, -1.146304109712962],
    ),
    "a warm-up": (
        optim.sgd(optim.warmup(0.1, 20, optim.cosine_decay(0.1, 50))),
        [1.7682021886659927, 1.6415925417400035, -1.6898242044074954],
    ),
}
"""After a hundred random steps: numbers of optax 0.2.8."""


def amsgrad_by_hand(p: Any, grads: Any) -> Any:
    m, v, most = [np.zeros_like(p) for _ in range(3)]
    for n, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        most = np.maximum(most, v)
        p = p - 0.01 / (1 - 0.9**n) * m / (np.sqrt(most) / np.sqrt(1 - 0.999**n) + 1e-8)
    return p


def run(opt: Any, params: Any, grads: Any) -> Any:
    state = opt.init(params)
    for g in grads:
        params, state = opt.update(params, g, state)
    return params, state


@pytest.mark.parametrize("name", TWO_STEPS)
def test_two_steps(name):
    opt, wanted = TWO_STEPS[name]
    np.testing.assert_allclose(run(opt, PARAMS, [GRADS] * 2)[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("name", HUNDRED_STEPS)
def test_a_hundred_steps(name):
    opt, wanted = HUNDRED_STEPS[name]
    grads = np.random.default_rng(0).normal(size=(100, 3))
    rtol = 1e-7 if name in {"a clipped norm", "a warm-up"} else 1e-12  # optax divides counts in single precision
    np.testing.assert_allclose(run(opt, np.array([1.0, 2.0, -0.5]), grads)[0], wanted, rtol=rtol)


def test_amsgrad():
    grads = np.random.default_rng(0).normal(size=(100, 3))
    found, _ = run(optim.amsgrad(0.01), np.ones(3), grads)
    np.testing.assert_allclose(found, amsgrad_by_hand(np.ones(3), grads), rtol=1e-13)


KINDS: dict[str, Any] = {
    **{name: opt for name, (opt, _) in TWO_STEPS.items()}, **{f"{k} of 100": o for k, (o, _) in HUNDRED_STEPS.items()},
    "amsgrad": optim.amsgrad(),
    "two averages": optim.chain(optim.clip_by_norm(0.1), optim.adam(1e-2), optim.ema(0.9), optim.ema(0.99)),
    "schedules": optim.chain(*[
        optim.sgd(rate) for rate in (
            optim.constant(0.1), optim.natural_exp_decay(0.1, 3, 0.5), optim.inverse_time_decay(0.1, 2, 0.5),
            optim.polynomial_decay(0.1, 10, 0.01, 2.0), optim.piecewise_constant([1, 3], [0.1, 0.2, 0.3]),
            optim.cosine_restarts(0.1, 2, m_mul=0.5), optim.cosine_restarts(0.1, 2, t_mul=1.0),
            optim.linear_cosine_decay(0.1, 7), optim.exponential_decay(0.1, 2, 0.5, staircase=True),
            optim.warmup(0.1, 2), lambda t: 0.1 / (t + 1),
        )
    ]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled_they_do_the_same(dtype):
    """All in one function: in the structure of the parameters, with the types these have, and of equal numbers."""
    params = {"W": np.array([[1.0, -2.0], [0.5, 0.0]], dtype), "b": [dtype(0.3)]}
    grads = {"W": np.array([[0.1, -0.3], [2.0, 0.0]], dtype), "b": [dtype(-1.0)]}
    steps = sg.jit(
        lambda params, grads, states: {k: opt.update(params, grads, states[k]) for k, opt in KINDS.items()},
    )
    states = {name: opt.init(params) for name, opt in KINDS.items()}
    for _ in range(4):
        found = steps(params, grads, states)
        for name, opt in KINDS.items():
            wanted = opt.update(params, grads, states[name])
            for one, other in zip(*[sg.ravel_pytree(each)[0] for each in (found[name], wanted)], strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-6 if dtype == np.float32 else 1e-13, err_msg=name)
            every = found[name][0]["W"], wanted[0]["W"], wanted[0]["b"][0]
            assert {a.dtype for a in every} == {np.dtype(dtype)}, name
            assert found[name][1].keys() == states[name].keys()
            assert found[name][1]["t"].dtype == np.int64
        states = {name: state for name, (_, state) in found.items()}
    assert steps.cache_info().compilations == 1
    for rates in [state["hyper"] for state in states.values()]:
        rates.update({name: np.float64(2.0 * rate) for name, rate in rates.items() if "rate" in name})
    doubled = steps(params, grads, states)
    assert steps.cache_info().compilations == 1, "a rate is no constant"
    assert not np.array_equal(doubled["sgd"][0]["W"], found["sgd"][0]["W"])


SLOTS = {
    "momentum": {"momentum"}, "adagrad": {"accumulator"}, "adadelta": {"accum", "accum_update"},
    "rmsprop": {"rms", "momentum"}, "rmsprop, centered": {"rms", "momentum", "mg"}, "adam": {"m", "v"},
    "ftrl": {"accum", "linear"}, "sgd": set(), "two averages": {"m", "v", "ema", "ema_2"},
    "adagrad_da": {"gradient_accumulator", "gradient_squared_accumulator"}, "amsgrad": {"m", "v", "v_max"},
}


@pytest.mark.parametrize("name", SLOTS)
def test_what_they_keep_is_called(name):
    state = KINDS[name].init(PARAMS)
    assert state.keys() - {"t", "hyper"} == SLOTS[name]
    assert (state["t"].dtype, int(state["t"])) == (np.int64, 0)


def test_hyper_parameters_are_named_and_numbers_of_schedules_too():
    opt = optim.chain(optim.sgd(optim.exponential_decay(0.1, 10, 0.5)), optim.sgd(0.2))
    hyper = opt.init(PARAMS)["hyper"]
    assert {name: value.item() for name, value in hyper.items()} == {
        "learning_rate/value": 0.1, "learning_rate/steps": 10.0, "learning_rate/rate": 0.5, "learning_rate_2": 0.2,
    }


def test_a_rate_is_exact():
    assert run(optim.sgd(0.1), np.array([1.0]), [np.array([0.2])])[0].tolist() == [0.98]


def test_a_mask_is_by_path():
    params = {"layer": {"W": np.ones(1), "b": np.ones(1)}, "W": [np.ones(1)]}
    def weights(path):
        return "W" in path

    for opt in (optim.adamw(0.1, 0.5, mask=weights), optim.lion(0.1, weight_decay=0.5, mask=weights)):
        found, _ = opt.update(params, sg.tree_map(np.zeros_like, params), opt.init(params))
        assert [a.item() for a in (found["layer"]["W"], found["layer"]["b"], found["W"][0])] == [0.95, 1.0, 0.95]


def test_norms():
    zero, nan = np.zeros(2), np.array([np.nan, 1.0])
    for clip in (optim.clip_by_norm(1.0), optim.clip_by_global_norm(1.0), optim.clip_by_norm(0.0)):
        opt = optim.chain(clip, optim.sgd(1.0))
        assert opt.update(zero, zero, opt.init(zero))[0].tolist() == [0.0, 0.0]
        assert np.isnan(opt.update(zero, nan, opt.init(zero))[0]).all()
    apart = {"a": np.array([3.0, 4.0]), "b": np.array([0.3])}
    opt = optim.chain(optim.clip_by_norm(1.0), optim.sgd(-1.0))
    found, _ = opt.update(sg.tree_map(np.zeros_like, apart), apart, opt.init(apart))
    np.testing.assert_allclose([*found["a"], *found["b"]], [0.6, 0.8, 0.3], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_whose_squares_overflow(dtype):
    large = np.finfo(dtype).max / 1.1
    g = np.array([0.75 * large, large, 0.0], dtype)  # of which the norm itself is no number of that type
    for clip in (optim.clip_by_norm(5.0), optim.clip_by_global_norm(5.0)):
        opt = optim.chain(clip, optim.sgd(-1.0))
        for update in (opt.update, sg.jit(opt.update)):
            found = update(np.zeros(3, dtype), g, opt.init(g))[0]
            assert found.dtype == dtype
            np.testing.assert_allclose(found, [3.0, 4.0, 0.0], rtol=4 * np.finfo(dtype).eps)


def test_nothing_that_is_given_is_written():
    params, opt = {"w": np.ones(2)}, optim.chain(optim.adam(), optim.ema(0.5))
    state = opt.init(params)
    before = pickle.dumps((params, state))
    opt.update(params, {"w": np.ones(2)}, state)
    assert pickle.dumps((params, state)) == before
    assert state["ema"]["w"] is not params["w"]


SCHEDULES: tuple[tuple[Any, dict[float, float]], ...] = (
    (optim.exponential_decay(0.1, 1000, 0.96, staircase=True), {0: 0.1, 999: 0.1, 2500: 0.1 * 0.96**2}),
    (optim.warmup(0.1, 0), {0: 0.1, 5: 0.1}),
    (optim.exponential_decay(0.1, 1000, 0.96), {2500: 0.1 * 0.96**2.5}),
    (optim.natural_exp_decay(0.1, 10, 0.5, staircase=True), {25: 0.1 * np.exp(-1.0)}),
    (optim.inverse_time_decay(0.1, 10, 0.5, True), {25: 0.05}),
    (optim.polynomial_decay(0.1, 10, 0.01, 2.0), {0: 0.1, 5: 0.0325, 10: 0.01, 11: 0.01}),
    (optim.piecewise_constant([10, 20], [1.0, 0.5, 0.25]), {0: 1.0, 10: 1.0, 11: 0.5, 20: 0.5, 21: 0.25}),
    (optim.cosine_decay(1.0, 10, 0.2), {0: 1.0, 5: 0.6, 10: 0.2, 20: 0.2}),
    (optim.cosine_restarts(1.0, 10), {0: 1.0, 5: 0.5, 10: 1.0, 20: 0.5, 30: 1.0, 70: 1.0, 150: 1.0, 310: 1.0}),
    (optim.cosine_restarts(1.0, 10, t_mul=1.0, m_mul=0.5), {0: 1.0, 5: 0.5, 10: 0.5, 20: 0.25, 25: 0.125}),
    (optim.cosine_restarts(1.0, 7, t_mul=3.0), {7: 1.0, 28: 1.0, 91: 1.0, 280: 1.0}),
    (optim.linear_cosine_decay(1.0, 10), {0: 1.001, 5: 0.251, 10: 0.001, 11: 0.001}),
    (optim.warmup(0.1, 10, 0.5), {0: 0.0, 5: 0.05, 10: 0.5, 11: 0.5}),
    (optim.warmup(0.1, 10, lambda t: t * 0.1), {10: 0.0, 13: 0.3}),
)


def test_schedules():
    for schedule, wanted in SCHEDULES:
        for t, value in wanted.items():
            np.testing.assert_allclose(schedule(t), value, rtol=1e-14, atol=1e-16)
        found = schedule(np.array([*wanted]))  # as for a plot
        np.testing.assert_allclose(found, [*wanted.values()], rtol=1e-14, atol=1e-16)
    assert optim.constant(0.1)(np.arange(3)).tolist() == [0.1] * 3
    assert optim.piecewise_constant([], [0.1])(np.arange(4).reshape(2, 2)).shape == (2, 2)


def test_a_new_state_holds_nothing_of_the_old_one():
    """A rate that is changed in the new state is not changed in the one before."""
    opt = optim.chain(optim.adam(), optim.ema(0.9))
    before = opt.init(PARAMS)
    _, after = opt.update(PARAMS, GRADS, before)
    after["hyper"]["learning_rate"] = 7.0
    assert before["hyper"]["learning_rate"] == 0.001
    assert not any(np.shares_memory(after[name], before[name]) for name in ("m", "v", "ema"))
    assert not np.shares_memory(before["ema"], PARAMS)


def test_errors():
    with pytest.raises(ArgumentValueError, match=r"adam\(eps_mode='tf'\)(.|\n)*\"hat\" or \"paper\""):
        optim.adam(eps_mode="tf")
    with pytest.raises(ArgumentValueError, match=r"2 values(.|\n)*one value more"):
        optim.piecewise_constant([1, 2], [0.1, 0.2])
    for falling in (optim.exponential_decay(0.1, 1, 0.5), optim.cosine_decay(0.1, 2), optim.polynomial_decay(0.1, 3)):
        assert falling(0) == 0.1
    for name in ("cosine_decay", "cosine_restarts", "linear_cosine_decay", "polynomial_decay"):
        with pytest.raises(ArgumentValueError, match=r"a schedule of steps=0(.|\n)*a number of updates above 0"):
            getattr(optim, name)(0.1, 0)
    for name in ("exponential_decay", "natural_exp_decay", "inverse_time_decay"):
        with pytest.raises(ArgumentValueError, match=r"a schedule of steps=-1(.|\n)*a number of updates above 0"):
            getattr(optim, name)(0.1, -1, 0.5)
    with pytest.raises(ArgumentValueError, match="boundaries that increase"):
        optim.piecewise_constant([2, 1], [0.1, 0.2, 0.3])
    with pytest.raises(ArgumentValueError, match=r"chain\(\) takes optimizers"):
        optim.chain(optim.sgd(0.1), 0.5)  # type: ignore[arg-type]
    for rate in ("fast", None, np.ones(2), 1j):
        with pytest.raises(ArgumentValueError, match=r"hyper-parameter learning_rate(=| has)(.|\n)*a function of t"):
            optim.sgd(rate).init(PARAMS)  # type: ignore[arg-type]
    for init, update, message in (
        (lambda p: p, lambda *_: None, r"init returned array(.|\n)*a dict of what it keeps"),
        (lambda p: {"t": p}, lambda *_: None, "an optimizer keeps 't'"),
        (None, lambda p, *_: p, r"update returned array(.|\n)*\(params, grads, state\)"),
        (None, lambda p, g, *_: (p, g), r"update returned \(array(.|\n)*\(params, grads, state\)"),
        (lambda p: {"m": p}, lambda p, g, *_: (p, g, {"v": p}), r"gives the state \['m', 'v'\], and was given \['m'\]"),
    ):
        own: Any = optim.optimizer(init, update)  # type: ignore[arg-type]
        with pytest.raises(sg.SymgradError, match=message):
            own.update(PARAMS, GRADS, own.init(PARAMS))
    opt, params = optim.adam(), {"w": np.ones(2)}
    for grads, message in (
        ({"w": np.ones(3)}, r"the gradient of w has shape \(3,\), and the parameter \(2,\)"),
        ([np.ones(2)], "a gradient of 0, and the parameters are w"),
        (np.ones(2), "a gradient of an array, and the parameters are w"),
        ({"w": [np.ones(2)]}, "a gradient of w/0, and the parameters are w"),
        ({"w": None}, "there is no gradient of w(.|\n)*step.apply"),
        ({}, "there is no gradient of w"),
    ):
        with pytest.raises(ArgumentError, match=message):
            opt.update(params, grads, opt.init(params))
    for whole in (np.arange(2), np.arange(2, dtype=np.uint8), np.array([True, False]), 2, np.array([1j, 2j])):
        with pytest.raises(ArgumentError, match=r"the parameter w is \w+, and optimizers change floats(.|\n)*floats"):
            opt.update({"w": whole}, {"w": 0.1 * np.ones(np.shape(whole))}, opt.init({"w": whole}))
    with pytest.raises(ArgumentError, match=r"another optimizer: it holds no '\w+'(.|\n)*opt.init\(params\)"):
        opt.update(params, params, optim.sgd(0.1).init(params))
    with pytest.raises(ArgumentError, match=r"an optimizer's state that is None(.|\n)*opt.init\(params\)"):
        opt.update(params, params, None)  # type: ignore[arg-type]
    number: Any
    for number in (0.5, float("nan"), "x", None):
        said = re.escape(f"cosine_restarts(t_mul={number!r})\n  instead: a number of at least 1")
        with pytest.raises(ArgumentValueError, match=said):
            optim.cosine_restarts(0.1, 10, t_mul=number)


def changed(state, path, value):
    """The state with another value at a path."""
    name, *rest = path
    return {**state, name: changed(state[name], rest, value) if rest else value}


PLACE, NUMBER = ("hyper", "learning_rate"), r"(.|\n)*a number, or a function of t that returns one"
WRONG_STATES: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "a text for a rate": (PLACE, "fast", f"the hyper-parameter learning_rate='fast'{NUMBER}"),
    "no rate": (PLACE, None, f"the hyper-parameter learning_rate=None{NUMBER}"),
    "rates": (PLACE, np.ones(2), rf"the hyper-parameter learning_rate has the shape \(2,\){NUMBER}"),
    "a number of a schedule": (("hyper", "b1/steps"), "x", f"the hyper-parameter b1/steps='x'{NUMBER}"),
    "a text for t": (("t",), "x", "the state's t='x'(.|\n)*how many updates were done"),
    "a shape": (("m", "w"), np.zeros(3), r"the state's m/w has the shape \(3,\), and the parameter has \(2,\)"),
    "a shape that broadcasts": (("v", "b"), np.zeros(1), r"v/b has the shape \(1,\), and the parameter has \(\)"),
    "no slot": (("m", "b"), None, r"the state's m/b is not there, and the parameter has \(\)\n(.|\n)*optimizer.init"),
    "a slot more": (("m", "c"), np.ones(2), r"m/c has the shape \(2,\), and there is no such parameter"),
    "a structure": (("m",), [np.zeros(2)], r"the state's m/b is not there"),
}


@pytest.mark.parametrize("name", WRONG_STATES)
def test_what_is_wrong_in_a_state_is_named(name):
    path, value, message = WRONG_STATES[name]
    opt, params = optim.adam(b1=optim.exponential_decay(0.9, 10, 0.99)), {"w": np.ones(2), "b": np.array(1.0)}
    state = changed(opt.init(params), path, value)
    step = sg.compile_step(lambda p, x: np.sum(p["w"] * x) * p["b"], opt)
    for call in (lambda: opt.update(params, params, state), lambda: step(params, state, np.ones(2))):
        with pytest.raises(sg.SymgradError, match=message):
            call()


def test_ftrl_rests_at_a_rate_of_zero():
    """As a warm-up begins: in the place of an accumulator that is infinite."""
    opt, p, g = optim.ftrl(optim.warmup(0.1, 2), l1=0.01), np.array([1.0, 2.0]), np.array([0.3, 0.0])
    later = optim.ftrl(0.05, l1=0.01)
    for update in (opt.update, sg.jit(opt.update)):
        first, state = update(p, g, opt.init(p))
        np.testing.assert_array_equal(first, p)
        assert (state["accum"].tolist(), state["linear"].tolist(), state["t"]) == ([0.1, 0.1], [0.0, 0.0], 1)
        np.testing.assert_allclose(update(p, g, state)[0], later.update(p, g, later.init(p))[0], rtol=1e-14)

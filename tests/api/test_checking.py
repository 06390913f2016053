"""`check_grads`: finds wrong rules, lets right ones pass, and says where and by how much (R09)."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.api.check import Reference, extrapolated
from symgrad.errors import ArgumentError, ArgumentValueError, GradientCheckError
from symgrad.ops import OPS, load

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 3))
W = RNG.normal(size=3)


# -- right ones pass


def logistic(params, X, y):
    return np.mean(np.logaddexp(0.0, -y * (X @ params["w"] + params["b"]))) + 1e-3 * np.sum(params["w"] ** 2)


def wave(x):
    return np.sum(np.sin(x) * np.exp(-x))


def layers(x, w):
    return np.tanh(x @ w), {"square": x**2, "count": np.argmax(x)}


def gathered(x, i):
    return np.sum(x[i] ** 3) + np.mean(np.where(i > 1, 2.0, x[i]))


RIGHT = [
    (wave, (W,), "complex step"),
    (logistic, ({"w": W, "b": 0.5}, X, np.sign(X[:, 0])), "central differences"),
    (layers, (X, W), "complex step"),
    (gathered, (W, np.array([0, 2, 2, 1])), "complex step"),
    (lambda x: np.sum(np.log(x)), (np.array([1e-8, 1e-3, 1.0, 1e5]),), "complex step"),
    (np.linalg.norm, (W,), "central differences"),
    (lambda x: np.sum(np.abs(x) * x), (W,), "central differences"),
    (lambda x: np.sum(scipy.special.gammaln(x)), (np.array([0.7, 3.0]),), "central differences"),
    (lambda x: np.exp(x) / np.sum(np.exp(x)), (W,), "complex step"),
    (lambda x: np.sum(np.exp(x) / np.sum(np.exp(x))), (W,), "complex step"),  # the gradient is 0
    (lambda x, n=3: x**n, (2.0,), "complex step"),
    (sg.grad(lambda x: np.sum(x**4)), (W,), "central differences"),
    (sg.jit(wave), (W,), "complex step"),
    (lambda x: np.sum(np.maximum(x, 0) ** 2), (W,), "complex step"),
    (lambda x: np.sum(x) * 0.0 + 2.0, (np.zeros((0, 3)),), "complex step"),
]


@pytest.mark.parametrize(("fun", "arguments", "method"), RIGHT)
def test_right_ones_pass(fun, arguments, method):
    report = sg.check_grads(fun, arguments)
    assert report.method == method
    assert report.worst < 0.5
    floats = sum(np.size(a) for a in np_leaves(arguments) if np.asarray(a).dtype.kind == "f")
    assert report.derivatives == 2 * floats
    assert report.loose == 0
    again = sg.check_grads(fun, arguments)
    assert again == report, "the same check each time"


def np_leaves(tree):
    values = tree.values() if isinstance(tree, dict) else tree
    return [leaf for v in values for leaf in (np_leaves(v) if isinstance(v, (dict, tuple)) else [v])]


@pytest.mark.parametrize("mode", ["complex-step", "central"])
def test_a_mode_that_is_asked_for(mode):
    report = sg.check_grads(wave, (W,), mode=mode, order=1)
    assert report.method == {"complex-step": "complex step", "central": "central differences"}[mode]
    assert report.derivatives == 3


def test_complex_step_is_exact_to_ten_digits():
    """R09: a right gradient passes at 1e-10; the bound is not reached by a factor of a thousand."""
    assert sg.check_grads(wave, (W,), order=1, rtol=1e-10).worst < 1e-3


def test_float32_is_checked_in_float64():
    report = sg.check_grads(logistic, ({"w": W.astype("f4"), "b": np.float32(0.5)}, X.astype("f4"), np.sign(X[:, 0])))
    assert report.derivatives == 2 * (4 * 2 + 12 * 2 + 4 * 2)
    assert report.worst < 0.5


def test_many_elements_are_drawn_and_checked_along_a_direction():
    report = sg.check_grads(wave, (RNG.normal(size=(30, 40)),), order=1, elements=10)
    assert report.derivatives == 11


def test_the_arguments_stay_as_they_were():
    def writes(x):
        y = np.copy(x)
        y[0] = 1.0
        return np.sum(y**2)

    x = W.copy()
    sg.check_grads(writes, (x,))
    np.testing.assert_array_equal(x, W)


def test_static_arguments():
    def power(x, how, n=2):
        return np.sum(x**n) if how == "sum" else np.prod(x**n)

    sg.check_grads(power, (W, "sum", 3), static_argnums=(1, 2))
    sg.check_grads(sg.jit(power, static_argnames=("how", "n")), (W, "prod", 1))


def test_arguments_by_name():
    def scaled(x, *, scale=1.0, how="sum"):
        return np.sum(np.sin(x) * scale) if how == "sum" else x[0]

    assert sg.check_grads(scaled, (W,), kwargs={"scale": 2.0}).derivatives == 2 * 4
    assert sg.check_grads(scaled, (W,), kwargs={"how": "first"}, static_argnames="how").derivatives == 2 * 3


# -- wrong ones are found


def sin_times(factor):
    return lambda x, _y: np.cos(x) * factor


WRONG = {
    "a factor of 1 + 1e-6": ("sin", "partials", sin_times(1 + 1e-6)),
    "a factor of 1 - 1e-6": ("sin", "partials", sin_times(1 - 1e-6)),
    "a sign": ("sin", "partials", sin_times(-1.0)),
    "nothing": ("sin", "partials", sin_times(0.0)),
    "not a number": ("sin", "partials", sin_times(np.nan)),
    "a dropped term": ("multiply", "partials", lambda a, b, _y: (b, a * 0.0)),
    "a lost axis": ("sum", "vjp", lambda g, y, x, axes: OPS["broadcast_to"](g, shape=x.node.shape) * 2),  # noqa: ARG005
}


@pytest.mark.parametrize("mode", ["complex-step", "central"])
@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_rule_is_found(monkeypatch, mistake, mode):
    load()
    op, attribute, rule = WRONG[mistake]
    monkeypatch.setattr(OPS[op], attribute, rule)
    with pytest.raises(GradientCheckError) as caught:
        sg.check_grads(lambda a, b: np.sum(np.sin(a) * b), (W, W + 1), order=1, mode=mode)
    assert re.search(r"the derivative of <lambda>\(\) by [ab]\[\d\] is wrong \(order 1", str(caught.value))
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_second_order_is_looked_at(monkeypatch, dtype):
    """The rule of arctan's slope is used by second derivatives only."""
    load()
    monkeypatch.setattr(OPS["arctan_slope"], "partials", lambda x, y: -2 * (x * y) * y * (1 + 1e-6))
    arguments = (W.astype(dtype),)
    assert sg.check_grads(lambda x: np.sum(np.arctan(x)), arguments, order=1).worst < 0.5
    with pytest.raises(GradientCheckError, match=r"by x\[\d\] is wrong \(order 2, 3 wrong of"):
        sg.check_grads(lambda x: np.sum(np.arctan(x)), arguments)


def test_the_message_says_where_and_how_much(monkeypatch):
    load()
    monkeypatch.setattr(OPS["sin"], "partials", sin_times(1 + 1e-6))

    def loss(params, X):
        return np.sum(np.sin(params["w"][1] * X[1, 2])) + np.sum(params["w"] * X)

    params = {"b": 1.0, "w": np.array([1.0, 2.0, 3.0])}
    with pytest.raises(GradientCheckError) as caught:
        sg.check_grads(loss, (params, np.full((2, 3), 0.25)), order=1)
    first, compiled, numerical, differ = str(caught.value).splitlines()
    assert first == "the derivative of loss() by X[1, 2] is wrong (order 1, 2 wrong of 10 checked)"
    right = 2.0 * np.cos(0.5) + 2.0 * 0 + 3.0
    assert float(compiled.split()[-1]) == pytest.approx(2.0 * np.cos(0.5) * (1 + 1e-6) + 3.0, rel=1e-14)
    assert numerical.split()[:2] == ["complex", "step"]
    assert float(numerical.split()[-1]) == pytest.approx(right, rel=1e-14)
    assert re.fullmatch(r"  they differ by 1\.76e-06, and 4\.7\de-10 is allowed", differ)


def test_one_wrong_element_among_many_is_found_by_halving(monkeypatch):
    load()
    bad = np.zeros(5000)
    bad[3217] = 1e-3
    monkeypatch.setattr(OPS["sin"], "partials", lambda x, _y: np.cos(x) + bad)
    with pytest.raises(GradientCheckError, match=r"by x\[3217\] is wrong \(order 1, 1 wrong"):
        sg.check_grads(lambda x: np.sum(np.sin(x)), (np.linspace(0.1, 1, 5000),), order=1, elements=5)


def test_what_drops_the_imaginary_part_is_no_judge(monkeypatch):
    """The complex step of abs is 0: a rule that says 0 would agree with it."""
    load()
    monkeypatch.setattr(OPS["absolute"], "vjp", lambda g, _y, x: g * x * 0.0)
    with pytest.raises(GradientCheckError, match=r"central differences .*\n.*\n.*not analytic"):
        sg.check_grads(lambda x: np.sum(np.abs(x)), (W,), order=1)


def test_an_element_without_a_complex_path_is_judged_by_differences():
    """abs matters 1e-9 times as much as exp: the first look at a random direction cannot see it."""
    report = sg.check_grads(lambda x: np.sum(np.exp(x[1:])) * 1e9 + np.abs(x[0]), (W,), order=1)
    assert report.method == "complex step"


def test_infinite_and_missing_derivatives():
    with pytest.raises(GradientCheckError, match=r"central differences +nan"):
        sg.check_grads(lambda x: np.where(x > 0, np.sqrt(np.abs(x)), np.nan), (0.0,), order=1)


def test_it_says_where_differences_say_little():
    """Noise of 1e-6 in the values: a difference of them has two digits."""
    def noisy(x):
        return np.sum(np.sin(x)) + 1e-6 * np.floor(np.sum(x) * 1e7 % 7)

    report = sg.check_grads(noisy, (W,), order=1, mode="central", eps=1e-4)
    assert report.loose > 0
    assert f"for {report.loose} of them differences are too inexact to say much" in str(report)


# -- what cannot be checked


CANNOT = [
    (lambda: sg.check_grads(wave, cast("Any", W)), ArgumentError, r"as a tuple, not ndarray\n  instead: \(x,\)"),
    (lambda: sg.check_grads(wave, (W,), order=3), ArgumentValueError, "order=3"),
    (lambda: sg.check_grads(wave, (W,), modes=("back", "rev")), ArgumentValueError, "modes has 'back'"),
    (lambda: sg.check_grads(wave, (W,), mode="mp"), ArgumentValueError, "mode='mp'"),
    (lambda: sg.check_grads(wave, (np.arange(3),)), ArgumentError, "no floating-point argument"),
    (lambda: sg.check_grads(np.argmax, (W,)), ArgumentError, "returns no floating-point number"),
    (lambda: sg.check_grads(lambda x: np.sum(np.logaddexp(x, 0)), (W,), mode="complex-step"), ArgumentValueError,
     "no complex path: with complex arguments it raises TypeError: ufunc 'logaddexp'"),
    (lambda: sg.check_grads(np.linalg.norm, (W,), mode="complex-step"), ArgumentValueError, "not analytic"),
    (lambda: sg.check_grads(wave, (W, W)), TypeError, "too many positional"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CANNOT)
def test_what_cannot_be_checked_is_said(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_casting_to_real_is_no_complex_path():
    """np.array of complex into a float array warns and drops: an error here, not a wrong judge."""
    def stored(x):
        y = np.zeros(3)
        y[:] = x**2
        return np.sum(y)

    with pytest.raises(ArgumentValueError, match="ComplexWarning"):
        sg.check_grads(stored, (W,), mode="complex-step")
    assert sg.check_grads(stored, (W,)).method == "central differences"


# -- the numbers


@pytest.mark.parametrize(
    ("fun", "at", "slope"),
    [(np.exp, 1.0, np.e), (np.sin, 0.0, 1.0), (np.log, 0.5, 2.0), (lambda t: t**7, 1.0, 7.0),
     (lambda t: 3 * t, 5.0, 3.0), (np.sqrt, 1e-2, 5.0),
     (lambda t: np.array([np.cos(t), t**2]), 1.0, np.array([-np.sin(1.0), 2.0]))],
)
def test_extrapolated_differences_know_their_error(fun, at, slope):
    with np.errstate(invalid="ignore"):
        value, error = extrapolated(lambda t: fun(at + t), 0.02)
    assert np.all(np.abs(value - slope) <= 10 * error)
    assert np.all(error <= 1e-8 * np.maximum(np.abs(slope), 1))


def test_a_kink_has_no_small_error():
    _, error = extrapolated(lambda t: np.abs(t - 0.004), 0.02)
    assert error < 1e-9  # to the left of it, once the step is small enough
    _, error = extrapolated(lambda t: np.abs(t) ** 1.5, 0.02)
    assert np.isfinite(error)


def test_the_domains_edge_is_not_crossed():
    reference = Reference(lambda point: np.sum(np.log(point[0])), [np.array([1e-8])], None)
    value, error = reference.central([np.array([1.0])], 1e-8)
    assert value == pytest.approx(1e8, rel=1e-9)
    assert error < 1.0


def test_generated_c_holds_no_difference():
    """R09: the gradient is derived; no step stands in it."""
    fun: Any = sg.grad(wave)
    fun(W)
    assert not re.search(r"1e-\d|\beps\b", fun.c_source)


def test_forward_mode_alone_and_both(monkeypatch):
    for modes in ("fwd", ("fwd", "rev")):
        assert sg.check_grads(lambda x: np.sum(np.sin(x) * x), (W,), modes=modes).worst < 1
    load()
    monkeypatch.setattr(OPS["sin"], "partials", lambda x, _y: np.cos(x) * (1 + 1e-6))
    with pytest.raises(GradientCheckError, match=r"by all of it \(in forward mode, along .* is wrong"):
        sg.check_grads(lambda x: np.sum(np.sin(x)), (W,), modes="fwd", order=1)
    monkeypatch.setattr(OPS["sin"], "partials", lambda x, _y: np.cos(x))
    monkeypatch.setattr(OPS["arctan_slope"], "partials", lambda x, y: -2 * (x * y) * y * (1 + 1e-6))
    with pytest.raises(GradientCheckError, match=r"by x\[\d\] \(in forward mode.*\) is wrong \(order 2"):
        sg.check_grads(lambda x: np.sum(np.arctan(x)), (W,), modes="fwd")


# -- an op by itself


def test_an_op_is_checked_on_its_own_domain():
    assert str(sg.check_grads(np.log1p)).startswith("log1p: 12 derivatives agree, order 1 (complex step)")
    assert sg.check_grads(OPS["logsumexp"]).derivatives > 12
    for op, count in (
        (sg.define_op("distance", lambda a, b: (a - b) ** 2, "ik,jk->ij", sample=(-1, 1)), 2 * (2 * 4 + 3 * 4)),
        (sg.define_op("between", lambda a, b: a**b, sample=((0.5, 2), (-1, 1))), 2 * 2 * 6),
    ):
        assert sg.check_grads(op).derivatives == count


@pytest.mark.parametrize(("factor", "right"), [(3, True), (3 + 3e-6, False)])
def test_a_rule_of_ones_own_is_checked_by_one_call(factor, right):
    cube = sg.extern(
        "cube", "double cube(double x) { return x * x * x; }", lambda x: x**3, needs=("x0",), sample=(-2, 2),
        vjp=lambda g, x0: factor * g * x0**2,
    )
    if right:
        assert str(sg.check_grads(cube)).startswith("cube_")
        return
    with pytest.raises(GradientCheckError, match=r"the derivative of cube_.*\(\) by args\[0\]\[\d, \d\] is wrong"):
        sg.check_grads(cube)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: sg.check_grads(len), r"check_grads of len without arguments(.|\n)*check_grads\(len, \(x, ...\)\)"),
    (lambda: sg.check_grads(sg.define_op("bare", lambda a: a)), r"bare has no domain(.|\n)*sample=\(low, high\)"),
    (lambda: sg.check_grads(OPS["power_int"]), "power_int has parameters, exponent"),
    (lambda: sg.define_op("wrong", lambda a: a, sample=(1, 0)), r"sample=\(1, 0\) of wrong"),
    (lambda: sg.define_op("wrong", lambda a, b: a * b, sample=((0, 1),)), "such a pair for each of 2 arguments"),
])
def test_ops_that_cannot_be_checked_alone(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()

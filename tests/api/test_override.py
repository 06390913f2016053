"""override_gradient of functions, what it says in the C and in `check_grads`, and where it stands (R15)."""

from __future__ import annotations

import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.errors import ArgumentError, GradientCheckError

X = np.array([0.5, -1.5, 2.0])


def times(factor: float) -> Any:
    def rule(g: Any, y: Any, x: Any) -> Any:
        return factor * g

    return rule


def layer(x: Any, scale: float = 1.0) -> Any:
    return np.tanh(x) * scale


def model(x: Any) -> Any:
    return np.sum(layer(x))


# -- functions


def test_a_plain_function_is_overridden_where_it_is_called_by_its_name() -> None:
    def loss(x: Any) -> Any:
        with sg.override_gradient(layer, times(100)):
            first = model(x)
            with sg.override_gradient(layer, times(7)):
                second = model(x)
            third = model(x)
        return first, second, third, model(x)

    before = layer
    gradients = [sg.grad(lambda x, k=k: loss(x)[k])(X) for k in range(4)]
    for found, want in zip(gradients, [100, 7, 100, 1 - np.tanh(X) ** 2], strict=True):
        np.testing.assert_allclose(found, np.broadcast_to(want, 3))
    assert layer is before
    np.testing.assert_allclose(sg.jit(lambda x: loss(x)[0])(X), np.sum(np.tanh(X)))
    np.testing.assert_allclose(loss(X)[0], np.sum(np.tanh(X)))


def test_where_the_collector_is_told_to_leave_objects_alone() -> None:
    """As servers do before they fork: names of the function were not found, and its own derivative was taken."""
    gc.freeze()
    try:
        with sg.override_gradient(layer, times(100)):
            np.testing.assert_allclose(sg.grad(model)(X), np.full(3, 100.0))
    finally:
        gc.unfreeze()


def test_a_function_of_a_closure_and_of_several_arguments() -> None:
    def product(a: Any, b: Any, power: int) -> Any:
        return {"of": (a * b) ** power}

    def both(a: Any, b: Any) -> Any:
        return np.sum(product(a, b, 2)["of"])

    def loss(a: Any, b: Any) -> Any:
        with sg.override_gradient(product, lambda g, y, _a, b, power: (g["of"] * power, y["of"] * 0 + b, None)):
            return both(a, b)

    one, other = sg.grad(loss, (0, 1))(X, X + 1)
    np.testing.assert_allclose(one, [2, 2, 2])
    np.testing.assert_allclose(other, X + 1)
    np.testing.assert_allclose(sg.jacfwd(loss, 0)(X, X + 1), [2, 2, 2])


def test_functions_of_numpys() -> None:
    def means(x: Any) -> Any:
        with sg.override_gradient(np.mean, lambda g, _y, x, *_: 5 * g * np.ones(x.shape)):
            return np.mean(x, 0) + x.mean()

    def product(x: Any) -> Any:
        with sg.override_gradient(np.matmul, lambda g, _y, _a, b: (g * b, None)):
            return x @ np.array([1.0, 2.0, 3.0]) + np.sum(x)

    def squares(x: Any) -> Any:
        with sg.override_gradient(np.power, lambda g, _y, _a, _b: (3 * g, None)):
            return np.sum(x**2) + np.sum(np.power(x, 1.5) * 0)

    def choices(x: Any) -> Any:
        with sg.override_gradient(np.where, lambda g, _y, _c, _a, _b: (None, 3 * g, None)):
            return np.sum(np.where(x > 0, np.sin(x), 0.0))

    def exponents(x: Any) -> Any:
        with sg.override_gradient(scipy.special.logsumexp, lambda g, _y, x: 4 * g * np.ones(x.shape)):
            return scipy.special.logsumexp(x)

    np.testing.assert_allclose(sg.grad(choices)(X), 3 * np.cos(X))
    np.testing.assert_allclose(sg.grad(exponents)(X), [4, 4, 4])
    np.testing.assert_allclose(sg.grad(means)(X), [10, 10, 10])
    np.testing.assert_allclose(sg.grad(product)(X), [2, 3, 4])
    np.testing.assert_allclose(sg.grad(squares)(np.abs(X)), [3, 3, 3])


def test_only_the_thread_that_traces_sees_the_rule() -> None:
    inside, done = threading.Event(), threading.Event()
    found: list[Any] = []

    def loss(x: Any) -> Any:
        with sg.override_gradient(layer, times(100)):
            inside.set()
            assert done.wait(60)
            return model(x)

    def other() -> None:
        assert inside.wait(60)
        found.append(sg.grad(model)(X))
        found.append(layer(X))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    np.testing.assert_allclose(sg.grad(loss)(X), [100, 100, 100])
    thread.join()
    np.testing.assert_allclose(found[0], 1 - np.tanh(X) ** 2)
    np.testing.assert_allclose(found[1], np.tanh(X))


def test_what_cannot_be_found_by_its_name_is_refused() -> None:
    def local(x: Any) -> Any:
        def inner(x: Any) -> Any:
            return 2 * x

        with sg.override_gradient(inner, times(3)):
            return np.sum(inner(x))

    with pytest.raises(ArgumentError, match=r"inner, which was not called(.|\n)*sg.custom_vjp, as a") as caught:
        sg.grad(local)(X)
    assert caught.value.line is not None
    assert "override_gradient(inner" in caught.value.line.text

    def by_keyword(x: Any) -> Any:
        with sg.override_gradient(layer, times(3)):
            return np.sum(layer(X, scale=x))

    with pytest.raises(ArgumentError, match="given a traced value by keyword"):
        sg.grad(by_keyword)(2.0)

    def too_many(x: Any) -> Any:
        with sg.override_gradient(layer, lambda g, _y, _x: (g, g, g)):
            return np.sum(layer(x))

    with pytest.raises(ArgumentError, match="the rule for layer gives 3 cotangents for 1 arguments"):
        sg.grad(too_many)(X)
    assert sg.jit(model)(X) == model(X)


def test_a_block_around_calls_of_compiled_functions() -> None:
    """It holds for what is called in it, and for no other call, however often; each rule is compiled for once."""

    def loss(x: Any) -> Any:
        return np.sum(layer(x) + np.square(x))

    slope, bend, both = sg.grad(loss), sg.hessian(loss), sg.jit(lambda x: slope(x) * 1.0)
    own, curved = 1 - np.tanh(X) ** 2, bend(X)
    before = slope(X)
    for _ in range(3):
        with sg.override_gradient("square", lambda g, _y, _x: 100 * g):
            assert np.array_equal(np.square(X), X * X)
            for found in (slope(X), both(X), sg.vmap(sg.grad(lambda x: np.tanh(x) + np.square(x)))(X)):
                np.testing.assert_allclose(found, own + 100)
            np.testing.assert_allclose(bend(X), curved - 2 * np.eye(3))
            np.testing.assert_allclose(sg.jvp(loss, (X,), (X,))[1], (own + 100) @ X)
            _, pull = sg.vjp(loss, X)
        with sg.override_gradient(layer, times(7)), sg.override_gradient("square", times(1)):
            np.testing.assert_allclose(slope(X), 8)
            bound = slope.bind(X)
        for found in (slope(X), both(X), sg.vjp(loss, X)[1](1.0)[0]):
            np.testing.assert_array_equal(found, before)
        np.testing.assert_allclose(pull(1.0)[0], own + 100)
        np.testing.assert_allclose(bound(), 8)
        with sg.override_gradient(layer, times(3)):
            np.testing.assert_allclose(bound(), 8)
        np.testing.assert_array_equal(bend(X), curved)
    reasons = slope.cache_info().reasons
    assert len(reasons) == 3
    assert reasons[1] == "the rules of override_gradient around the call are others"


def test_a_block_around_calls_knows_its_rule_by_what_it_reads() -> None:
    slope = sg.grad(lambda x: np.sum(np.square(x)))
    for factor in (2.0, 3.0, 2.0):
        with sg.override_gradient("square", times(factor)):
            np.testing.assert_allclose(slope(X), factor)
    for factor in (4.0, 5.0):
        with sg.override_gradient("square", lambda g, _y, _x, factor=factor: factor * g):
            np.testing.assert_allclose(slope(X), factor)
    assert slope.cache_info().compilations == 4
    with sg.named("deep"):
        with sg.override_gradient("deep/square", times(6)):
            np.testing.assert_allclose(slope(X), 6)
        with sg.override_gradient("other/square", times(6)):
            np.testing.assert_allclose(slope(X), 2 * X)


def test_a_block_around_calls_in_another_thread() -> None:
    slope, found = sg.grad(model), []
    with sg.override_gradient(layer, times(2)):
        np.testing.assert_allclose(slope(X), 2)
        thread = threading.Thread(target=lambda: found.append(slope(X)))
        thread.start()
        thread.join()
    np.testing.assert_allclose(found[0], 1 - np.tanh(X) ** 2)


def test_a_block_around_a_program_without_its_python() -> None:
    """What was unpickled without the function cannot be derived anew, and says so."""
    slope = sg.grad(lambda x: np.sum(np.square(x)))
    slope(X)
    restored = pickle.loads(pickle.dumps(slope))
    np.testing.assert_allclose(restored(X), 2 * X)
    with (
        sg.override_gradient("square", times(6)),
        pytest.raises(ArgumentError, match="and it is called inside of a block of override_gradient"),
    ):
        restored(X)


# -- what is said


def hundredfold(g: Any, y: Any, x: Any) -> Any:
    return 100 * g


def overridden(x: Any) -> Any:
    with sg.override_gradient({"square": hundredfold, layer: times(3)}):
        z = np.square(x)
        z = z + layer(x)
    return np.sum(z * np.sin(x))


def test_the_c_names_the_rules_in_force() -> None:
    derived = sg.value_and_grad(overridden).lower(X)
    head = derived.as_text("c").split("*/")[0]
    said = r"the rule {} (test_override.py:{}) in the place of that of {} at test_override.py:{}"
    line = hundredfold.__code__.co_firstlineno
    assert said.format("hundredfold", line, "square", line + 6) in head
    assert f"the rule rule (test_override.py:{times(3).__code__.co_firstlineno}) in the place of that of layer" in head
    assert "the rule hundredfold" in derived.report()
    assert "derived by" not in sg.jit(overridden).lower(X).as_text("c")
    assert "the rule hundredfold" in sg.jit(sg.grad(overridden)).lower(X).as_text("c")


def test_check_grads_reports_what_is_overridden() -> None:
    report = sg.check_grads(overridden, (X,))
    assert [rule.split(" (")[0] for rule in report.overridden] == ["the rule hundredfold", "the rule rule"]
    assert "the derivative of overridden() by x[" in report.apart
    assert "derivatives agree without the rules that are overridden" in str(report)
    assert "\n  overridden: the rule hundredfold" in str(report)

    def right(x: Any) -> Any:
        with sg.override_gradient("square", lambda g, _y, x: g * 2 * x):
            return np.sum(np.square(x))

    report = sg.check_grads(right, (X,))
    assert (len(report.overridden), report.apart) == (1, "")
    assert "derivatives agree, order 1" in str(report)
    assert sg.check_grads(model, (X,)).overridden == ()

    def wrong_elsewhere(x: Any) -> Any:
        with sg.override_gradient("square", hundredfold):
            return np.sum(np.square(x)) + bad(x)

    @sg.custom_vjp
    def bad(x: Any) -> Any:
        return np.sum(x * x * x)

    bad.defvjp(lambda x: (np.sum(x * x * x), x), lambda x, g: (g * x,))
    with pytest.raises(GradientCheckError):
        sg.check_grads(wrong_elsewhere, (X,))


def test_paths_of_bound_calls_are_of_the_blocks_they_were_bound_in() -> None:
    """A condition leads to a new path inside of a block, or behind it: of a call that was bound elsewhere."""
    def ladder(x: Any) -> Any:
        return np.sum(np.square(x)) if x[0] > 2 else np.sum(np.square(x) * 3)

    hundred, x = sg.override_gradient("square", lambda g, _y, _x: 100 * g), np.array([1.0, 2.0])
    plain, within = sg.grad(ladder), sg.grad(ladder)
    bound = plain.bind(x)
    with sg.override_gradient("square", lambda g, _y, _x: 100 * g):
        inside = within.bind(x)
        np.testing.assert_array_equal(inside(), [300, 300])
    x[0] = 5.0
    np.testing.assert_array_equal(inside(), [100, 100])
    with hundred:
        np.testing.assert_array_equal(bound(), [10, 4])
        np.testing.assert_array_equal(within(x), [100, 100])
    for found in (bound(), plain(x), within(x)):
        np.testing.assert_array_equal(found, [10, 4])

"""`Options(debug_nans=True)`: the first value that is NaN or infinite raises, with the user's line."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import NonFiniteError

WATCHING = [sg.Options(debug_nans=True), sg.Options(debug_nans=True, compiler="none")]
X = np.array([4.0, 1.0, 0.25])


def log_then_square(x):
    y = np.log(x)  # log
    return np.sum(y * y)


def root(x):
    return np.sum(np.sqrt(x))  # root


def guarded(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


def cubed_root(x):
    y = x**1.5  # power
    return np.sum(y)


def line_of(fun, mark):
    lines, start = inspect.getsourcelines(fun)
    return next(start + k for k, text in enumerate(lines) if f"# {mark}" in text)


@pytest.mark.parametrize("options", WATCHING, ids=["compiled", "interpreted"])
def test_finite_results_are_as_ever(options):
    for fun in (log_then_square, root, guarded):
        value, gradient = sg.value_and_grad(fun, options=options)(X)
        want, wanted = sg.value_and_grad(fun)(X)
        np.testing.assert_array_equal(value, want)
        np.testing.assert_array_equal(gradient, wanted)
    pair = sg.jit(lambda x, k: {"a": x[k], "b": (k, x)}, options=options)(X, np.array([1, 0]))
    np.testing.assert_array_equal(pair["a"], X[[1, 0]])


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("options", WATCHING, ids=["compiled", "interpreted"])
def test_the_line_where_it_began(options):
    with pytest.raises(NonFiniteError, match=r"log, float64\(3,\), gives NaN or Inf") as caught:
        sg.jit(log_then_square, options=options)(np.array([1.0, 0.0, 2.0]))
    assert caught.value.line is not None
    assert caught.value.line.number == line_of(log_then_square, "log")
    assert "np.where(safe, x, 1)" in str(caught.value)
    with pytest.raises(FloatingPointError):
        sg.jit(root, options=options)(np.array([1.0, -1.0]))


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("options", WATCHING, ids=["compiled", "interpreted"])
def test_in_derivatives_of_any_order(options):
    zero = np.array([1.0, 0.0])
    assert float(sg.jit(root, options=options)(zero)) == 1.0
    with pytest.raises(NonFiniteError) as caught:
        sg.grad(root, options=options)(zero)
    assert caught.value.line is not None
    assert caught.value.line.number == line_of(root, "root")
    np.testing.assert_array_equal(sg.grad(cubed_root, options=options)(zero), [1.5, 0.0])
    with pytest.raises(NonFiniteError) as caught:
        sg.grad(lambda x: np.sum(sg.grad(cubed_root)(x) ** 2 + sg.grad(cubed_root)(x)), options=options)(zero)
    assert caught.value.line is not None
    assert caught.value.line.number == line_of(cubed_root, "power")


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("options", WATCHING, ids=["compiled", "interpreted"])
def test_what_no_result_shows_is_no_reason(options):
    mixed = np.array([1.0, -1.0, 0.0])
    assert float(sg.jit(guarded, options=options)(mixed)) == 1.0
    np.testing.assert_array_equal(sg.grad(guarded, options=options)(mixed), [0.5, 0, 0])


@pytest.mark.parametrize("options", WATCHING, ids=["compiled", "interpreted"])
def test_an_argument_that_holds_one(options):
    with pytest.raises(NonFiniteError, match="the argument 'x' holds NaN or Inf"):
        sg.grad(log_then_square, options=options)(np.array([1.0, np.nan]))


def test_nothing_is_checked_without_it():
    text = sg.grad(root).lower(X).as_text("c")
    assert "isfinite" not in text
    assert "not_finite" in sg.grad(root, options=WATCHING[0]).lower(X).as_text("c")
    assert np.isinf(sg.grad(root)(np.array([0.0]))[0])


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("options", WATCHING, ids=["compiled", "interpreted"])
def test_a_bound_function_looks_too(options):
    x = X.copy()
    out = (np.empty(()), np.empty(3))
    bound = sg.value_and_grad(root, options=options).bind(x, out=out)
    assert bound() is out
    np.testing.assert_array_equal(out[1], sg.grad(root)(X))
    x[1] = 0.0
    with pytest.raises(NonFiniteError, match="gives NaN or Inf") as caught:
        bound()
    assert caught.value.line is not None
    assert caught.value.line.number == line_of(root, "root")
    x[1] = 1.0
    np.testing.assert_array_equal(sg.jit(lambda x: {"y": np.sqrt(x)}, options=options).bind(x)()["y"], np.sqrt(x))


def test_a_pickled_function_looks_too():
    f = sg.jit(lambda x: {"root": np.sqrt(x), "itself": x}, options=WATCHING[0])
    f(X)
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(X)["root"], np.sqrt(X))
    with pytest.raises(NonFiniteError, match="sqrt"):
        again(-X)

"""vjp and linearize of arrays: the function runs once, the linear half is given what it needs of it, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, IndexOutOfBounds, ShapeError
from tests.looking import applied, kept

RNG = np.random.default_rng(7)
X, A, V = RNG.normal(size=4), RNG.normal(size=(3, 4)), RNG.normal(size=3)


def text(linear: Any, *vectors: Any) -> str:
    """The program of the linear half."""
    half = applied(linear).func
    given = dict(zip(half.words, [*applied(linear).args[0], *vectors], strict=True))
    return str(half.run.lower(given).as_text())


@pytest.mark.parametrize(("fun", "arguments", "shapes", "gone"), [
    (np.exp, (X,), [(4,)], "exp"),
    (np.sin, (X,), [(4,)], "cos"),
    (lambda x: 3 * x + 1, (X,), [], "x"),
    (lambda x: x * x * x - 2 * x, (X,), [(4,)], "**"),
    (lambda x, A: A @ x, (X, A), [(3, 4), (4,)], "tanh"),
    (lambda x, A: np.tanh(A @ x), (X, A), [(3, 4), (4,), (3,)], "tanh"),
    (lambda x: np.where(np.exp(x) > 1, np.exp(x) * 2, 0.0), (X,), [(4,)], "np.exp"),
    (lambda x: np.broadcast_to(np.exp(x), (100, 4)) * 1.0, (X,), [(4,)], "np.exp"),
    (lambda x: np.sum(np.exp(x)) * np.ones(50), (X,), [(4,)], "np.exp"),
], ids=["exp", "sin", "affine", "cubic", "product", "layer", "choice", "broadcast", "sum"])
def test_what_is_kept(fun: Any, arguments: Any, shapes: Any, gone: str) -> None:
    y, pull = sg.vjp(fun, *arguments)
    assert sorted(kept(pull)) == sorted(shapes)
    w = RNG.normal(size=np.shape(y))
    assert gone not in text(pull, w).split("):")[1]
    rows = sg.jacrev(fun, tuple(range(len(arguments))))(*arguments)
    for found, jacobian in zip(pull(w), rows, strict=True):
        np.testing.assert_allclose(found, np.tensordot(w, jacobian, w.ndim), rtol=1e-12, atol=1e-12)
    again, push = sg.linearize(fun, *arguments)
    np.testing.assert_array_equal(again, y)
    np.testing.assert_allclose(push(*arguments), sg.jvp(fun, arguments, arguments)[1], rtol=1e-12, atol=1e-12)


def test_the_function_runs_once():
    """A C function of one's own counts nothing, but what calls it stands in the C of the first half alone."""
    c = "double slow(double x) { return exp(x); }"
    slow = sg.extern("slow", c, np.exp, vjp=lambda g, out: g * out, needs=("out",))
    y, pull = sg.vjp(lambda x: np.cumsum(slow(x)), X)
    np.testing.assert_allclose(y, np.cumsum(np.exp(X)))
    assert "slow" not in text(pull, X)
    np.testing.assert_allclose(pull(np.ones(4))[0], np.exp(X) * [4, 3, 2, 1])


def test_it_is_the_function_at_the_point_it_was_made_at():
    scale = 2.0
    x = X.copy()

    def f(x):
        return np.exp(x) * scale * x

    y, pull = sg.vjp(f, x)
    _, push = sg.linearize(f, x)
    expected = (np.exp(X) * 2 * X + np.exp(X) * 2)
    y[:], x[:], scale = 0.0, 100.0, 5.0
    np.testing.assert_allclose(pull(np.ones(4))[0], expected)
    np.testing.assert_allclose(push(np.ones(4)), expected)
    np.testing.assert_allclose(sg.vjp(f, X)[0], np.exp(X) * 5 * X)


def test_linear_halves_are_compiled_once_and_compose():
    def f(x):
        return np.sin(x) * x

    pulls = [sg.vjp(f, X + k)[1] for k in range(3)]
    assert len({id(applied(pull).func) for pull in pulls}) == 1
    for k, pull in enumerate(pulls):
        np.testing.assert_allclose(pull(V[0] * X)[0], V[0] * X * (np.cos(X + k) * (X + k) + np.sin(X + k)), rtol=1e-12)
        traced = sg.grad(lambda w, pull=pull: np.sum(pull(w)[0] ** 2))(X)  # linear in w
        slope = np.cos(X + k) * (X + k) + np.sin(X + k)
        np.testing.assert_allclose(traced, 2 * X * slope**2, rtol=1e-12)
    many = sg.vmap(lambda w: pulls[0](w)[0])(np.eye(4))
    np.testing.assert_allclose(many, sg.jacrev(f)(X), rtol=1e-12)


def test_trees_integers_and_nothing():
    def f(params, n, x):
        return {"loss": np.sum(params["w"] * x) * n, "n": n}, params["b"] ** 2

    params = {"w": X, "b": 3.0}
    (first, second), pull = sg.vjp(f, params, 2, X)
    assert (float(second), int(first["n"])) == (9.0, 2)
    bars = pull(({"loss": 1.0, "n": None}, None))
    np.testing.assert_allclose(bars[0]["w"], 2 * X)
    assert (bars[0]["b"], bars[1]) == (0.0, 0)
    assert np.asarray(bars[1]).dtype == np.int64
    nothing = pull(({"loss": None, "n": None}, None))
    assert not nothing[0]["w"].any()
    _, integers = sg.vjp(lambda n: n + 1, 3)
    assert integers(None) == (0,)
    _, push = sg.linearize(lambda x: (np.round(x).astype(np.int64), x), X)
    assert push(X)[0].dtype == np.int64
    single = sg.vjp(np.exp, X.astype(np.float32))[1](np.ones(4, np.float32))[0]
    assert single.dtype == np.float32


def test_what_is_refused():
    _, pull = sg.vjp(np.exp, X)
    with pytest.raises(ShapeError, match=r"the cotangent of result has shape \(3,\), and result has shape \(4,\)"):
        pull(V)
    with pytest.raises(ArgumentError, match="the cotangent of result is int64"):
        pull(np.arange(4))
    with pytest.raises(ArgumentError, match=r"the cotangent of result is builtins\.tuple, not an array"):
        pull((X, X))
    _, push = sg.linearize(lambda x, n: x * n, X, 2)
    with pytest.raises(ArgumentError, match="n is int64, and has no tangent"):
        push(X, 1)
    with pytest.raises(IndexOutOfBounds):
        sg.vjp(lambda x, i: x[i], X, np.array([7]))

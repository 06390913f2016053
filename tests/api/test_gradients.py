"""gradients and stop_gradient: R05's numbers, every argument, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

X = np.array([1.0, 2.0, 3.0])


def test_total_and_partial_derivatives():
    @sg.jit
    def f(a: Any) -> Any:
        b = 2 * a
        return sg.gradients(a + b, [a, b]), sg.gradients(a + b, [a, b], stop_gradients=[a, b])

    assert f(1.0) == ([3, 1], [1, 1])


def test_where_sweeps_start():
    weights = [np.array([1.0, 0, 2]), np.array([0.0, 1, 0])]
    f = sg.jit(lambda x: sg.gradients([x**2, 3 * x], x, grad_ys=weights))
    assert f(X).tolist() == [2, 3, 12]
    assert sg.jit(lambda x: sg.gradients([x**2, 3 * x], x))(X).tolist() == [5, 7, 9]
    assert sg.jit(lambda x: sg.gradients([x**2, 3 * x], x, grad_ys=[None, weights[1]]))(X).tolist() == [2, 7, 6]
    assert sg.jit(lambda x, g: sg.gradients({"y": x**2}, x, grad_ys={"y": g}))(X, X).tolist() == [2, 8, 18]


def test_what_is_not_connected():
    f = sg.jit(lambda x, z: sg.gradients(np.sum(x**2), [x, z], unconnected_gradients="none"))
    assert f(X, X)[1] is None
    zero = sg.jit(lambda x, z: sg.gradients(np.sum(x**2), {"z": z}, unconnected_gradients="zero"))
    assert zero(X, X[:2])["z"].tolist() == [0, 0]
    rounded = sg.jit(lambda x: sg.gradients(np.floor(x), x, unconnected_gradients="none"))
    assert rounded(X) is None
    counted = sg.jit(lambda x: sg.gradients(x[0] * np.argmax(x), x))
    assert counted(X).tolist() == [2, 0, 0]


def test_gradients_of_gradients():
    @sg.jit
    def f(x: Any) -> Any:
        return sg.gradients(sg.gradients(x**4, x), x)

    assert f(3.0) == 108
    assert sg.grad(lambda x: np.sum(sg.gradients(np.sum(x**3), x)))(X).tolist() == [6, 12, 18]
    assert sg.vmap(lambda x: sg.gradients(x**3, x))(X).tolist() == [3, 12, 27]
    assert sg.jvp(lambda x: sg.gradients(x**3, x), (X,), (X,))[1].tolist() == [6, 24, 54]


def test_intermediates_through_each_other():
    @sg.jit
    def f(x: Any) -> Any:
        a = x * x
        b = a * x
        return sg.gradients(a * b, [x, a, b])

    assert f(2.0) == [80, 16, 4]  # a * b = x^5; b = a x, so that a^2 x is derived by a; and a


def test_an_unstable_form_is_derived_in_its_stable_one():
    f = sg.jit(lambda x: sg.gradients(np.log(np.sum(np.exp(x))), x))
    assert f(np.array([1000.0, 0.0])).tolist() == [1, 0]

    @sg.jit
    def inner(x: Any) -> Any:
        e = np.exp(x)
        return sg.gradients(np.log(np.sum(e)), e)

    np.testing.assert_allclose(inner(X), 1 / np.sum(np.exp(X)) * np.ones(3), rtol=1e-14)


def test_stop_gradient():
    assert sg.grad(lambda x: x * sg.stop_gradient(x))(3.0) == 3
    assert sg.jvp(lambda x: sg.stop_gradient(x) + x**2, (3.0,), (1.0,)) == (12, 6)
    both = sg.grad(lambda x: np.sum(sg.stop_gradient({"a": x, "b": [x**2]})["b"][0] * x))
    assert both(X).tolist() == [1, 4, 9]
    assert sg.stop_gradient(4.0) == 4
    assert sg.stop_gradient(X) is X
    assert sg.vmap(sg.grad(lambda x: x * sg.stop_gradient(np.exp(0 * x))))(X).tolist() == [1, 1, 1]
    written = sg.jit(lambda x: sg.stop_gradient(np.zeros(3)) + sg.stop_gradient(x))
    assert written(X).tolist() == X.tolist()


def outside() -> Any:
    return sg.gradients(X, X)


REFUSED: dict[str, tuple[Any, str]] = {
    "outside": (outside, "no function is traced here\n  at .*test_gradients.py"),
    "integer": (lambda: sg.jit(lambda x, n: sg.gradients(x * n, n))(X, 2), "derive by n, which is int64"),
    "of an integer": (lambda: sg.jit(lambda x: sg.gradients(np.argmax(x), x))(X), "derive number 0, which is int64"),
    "plain": (lambda: sg.jit(lambda x: sg.gradients(x, 2.0))(X), "number 0, which is a float and not a traced value"),
    "shape": (lambda: sg.jit(lambda x: sg.gradients(x, x, grad_ys=np.ones(2)))(X), r"grad_ys has shape \(2,\) for a y"),
    "tree": (lambda: sg.jit(lambda x: sg.gradients([x], x, grad_ys=x))(X), "the grad_ys do not have the structure"),
    "word": (lambda: sg.jit(lambda x: sg.gradients(x, x, unconnected_gradients="nan"))(X), "unconnected_gradients='n"),
    "error": (
        lambda: sg.jit(lambda x, z: sg.gradients(x, [x, z], unconnected_gradients="error"))(X, X),
        'no y depends on z of the xs(.|\n)*test_gradients.py(.|\n)*instead: unconnected_gradients="zero" for zeros',
    ),
    "unconnected": (lambda: sg.jit(lambda x, z: sg.gradients(x, [x, 2 * z]))(X, X), "no y depends on number 1 of the"),
    "rounded": (lambda: sg.jit(lambda x: sg.gradients(np.floor(x), x))(X), "in a way that has a derivative"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str):
    call, message = REFUSED[case]
    with pytest.raises(sg.SymgradError, match=message):
        call()


W, B = np.array([0.3, -0.2, 0.7]), np.arange(12.0).reshape(4, 3) / 7
BROADCAST: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a number times": (lambda a, x: np.sum(a * x), (0.5, X)),
    "a number and a square": (lambda a, x: np.sum((a + x) ** 2), (0.5, X)),
    "one element": (lambda a, x: np.sum((a + x) ** 2), (np.array([0.5]), X)),
    "one element times": (lambda a, x: np.sum(a * x), (np.array([0.5]), X)),
    "a bias": (lambda w, b, x: np.sum((x @ w + b) ** 2), (W, 0.4, B)),
    "what is smooth elsewhere": (lambda a, x: np.sum(np.log(1 + np.exp(x)) * a), (0.5, X)),
}


@pytest.mark.parametrize("compiler", [None, "none"])
@pytest.mark.parametrize("case", BROADCAST)
def test_the_other_arguments_stay_arguments(case: str, compiler: str | None):
    fun, args = BROADCAST[case]
    options = sg.Options(compiler=compiler)
    for k in range(len(args)):
        order = [k, *[i for i in range(len(args)) if i != k]]  # the argument before and behind the others
        turned = [args[i] for i in order]

        def swapped(*given: Any, order: list[int] = order) -> Any:
            return fun(*[given[order.index(i)] for i in range(len(order))])

        found = sg.jit(lambda *given, loss=swapped: sg.gradients(loss(*given), given[0]), options=options)(*turned)
        np.testing.assert_allclose(found, sg.grad(swapped)(*turned), rtol=1e-14)
    every = sg.jit(lambda *given: sg.gradients(fun(*given), list(given)), options=options)(*args)
    for found, wanted in zip(every, sg.grad(fun, tuple(range(len(args))))(*args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_the_loss_may_be_an_array_of_one_element():
    """As in autograd, and as SciPy's optimizers take it: ``x.T @ A @ x`` of a column."""
    loss = lambda x: np.atleast_2d(np.sum(x**3))  # noqa: E731 - a loss
    value, slope = sg.value_and_grad(loss)(X)
    assert value.shape == (1, 1)
    assert slope.tolist() == (3 * X**2).tolist()
    assert sg.hvp(loss)(X, np.ones(3)).tolist() == (6 * X).tolist()
    with pytest.raises(sg.SymgradError, match=r"returns one floating-point number; .* returns float64\[3\]"):
        sg.grad(lambda x: x**2)(X)

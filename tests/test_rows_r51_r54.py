"""Rows R51, R52, R54: what other systems' gradient functions are asked for, and the tables of matrix calculus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError

RNG = np.random.default_rng(52)
X, Y, Z = np.array([1.0, 2.0]), np.array([-2.0, 3.0]), np.array([0.0, 3.0])


def traced(f: Callable[..., Any], *args: Any) -> Any:
    """Call a function, in which `sg.gradients` stands, with traced arguments."""
    return sg.jit(f)(*args)


# -- R51: value_and_grad of MindSpore, grad of Paddle


def product(x: Any, y: Any, z: Any) -> Any:
    return np.sum(x * y * z)


def test_r51_positions_of_gradients() -> None:
    assert sg.grad(product, argnums=1)(X, Y, Z).tolist() == [0, 6]
    value, (by_x, by_z) = sg.value_and_grad(product, argnums=(0, 2))(X, Y, Z)
    assert value == 18
    assert [by_x.tolist(), by_z.tolist()] == [[0, 9], [-2, 6]]


def test_r51_weights_are_a_structure_and_ids_are_paths() -> None:
    weights = {"scale": np.float64(2.0), "shift": np.array([1.0, -1.0])}
    slopes = sg.grad(lambda w, x: np.sum(w["scale"] * x + w["shift"]))(weights, X)
    assert (slopes["scale"], slopes["shift"].tolist()) == (3, [1, 1])
    assert sg.tree_paths(slopes) == ["scale", "shift"]


def test_r51_further_results() -> None:
    (value, beside), slope = sg.value_and_grad(lambda x: (np.sum(x**2), x + 1), has_aux=True)(X)
    assert (value, beside.tolist(), slope.tolist()) == (5, [2, 3], [2, 4])


def test_r51_gradients_begin_with_given_ones_and_are_differentiable() -> None:
    f = lambda x: sg.gradients(x**3, x, grad_ys=np.array([1.0, 10.0]))  # noqa: E731
    assert traced(f, X).tolist() == [3, 120]
    assert sg.grad(lambda x: np.sum(f(x)))(X).tolist() == [6, 120]


@pytest.mark.parametrize(("unused", "expected"), [("none", None), ("zero", [0.0, 0.0])])
def test_r51_an_unused_input_is_allowed_when_asked_for(unused: str, expected: Any) -> None:
    found = traced(lambda x, y: sg.gradients(x, y, unconnected_gradients=unused), X, Y)
    assert (found if found is None else found.tolist()) == expected
    with pytest.raises(ArgumentValueError, match="no y depends on"):
        traced(sg.gradients, X, Y)


def test_r51_variables_that_gradients_stop_at() -> None:
    def partial_derivatives(x: Any) -> Any:
        y = x * x
        return sg.gradients(x * y, x), sg.gradients(x * y, x, stop_gradients=[y])

    whole, alone = traced(partial_derivatives, 3.0)
    assert (whole, alone) == (27, 9)


# -- R52: the names of Theano's and PyTensor's gradient module

clip_gradient = sg.custom_vjp(lambda x: x)
clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))

scale_gradient = sg.custom_vjp(lambda x, by: x)  # noqa: ARG005
scale_gradient.defvjp(lambda x, by: (x, by), lambda by, g: (by * g, np.zeros_like(by)))


def quadratic(x: Any, a: Any, b: Any) -> Any:
    return x @ a @ x / 2 + b @ x


def test_r52_grad_takes_a_scalar_cost() -> None:
    with pytest.raises(ArgumentError, match=r"returns one floating-point number; lambda_\(\) returns float64\[2\]"):
        sg.grad(lambda x: x**2)(X)


def test_r52_consider_constant() -> None:
    assert traced(lambda x: sg.gradients(x * np.exp(x), x, stop_gradients=[np.exp(x)]), 0.0) == 1


def test_r52_disconnected_inputs_are_an_error_that_names_them() -> None:
    with pytest.raises(ArgumentValueError, match="no y depends on y of the xs"):
        traced(lambda x, y: sg.gradients(np.sum(x), [x, y]), X, Y)


def test_r52_known_grads_begin_in_the_middle() -> None:
    def by_the_middle(x: Any) -> Any:
        h = np.sin(x)
        return sg.gradients(h, x, grad_ys=sg.gradients(np.sum(h**2), h))

    np.testing.assert_allclose(traced(by_the_middle, X), np.sin(2 * X), rtol=1e-15)


def test_r52_lop_and_rop() -> None:
    a, g = RNG.normal(size=(3, 2)), RNG.normal(size=3)
    f = lambda x: np.tanh(a @ x)  # noqa: E731
    jacobian = (1 - np.tanh(a @ X) ** 2)[:, None] * a
    _, pull = sg.vjp(f, X)
    np.testing.assert_allclose(pull(g)[0], g @ jacobian, rtol=1e-14)
    np.testing.assert_allclose(sg.jvp(f, (X,), (Y,))[1], jacobian @ Y, rtol=1e-14)
    np.testing.assert_allclose(sg.jacrev(f)(X), jacobian, rtol=1e-14)
    np.testing.assert_allclose(sg.jacfwd(f)(X), jacobian, rtol=1e-14)


def test_r52_the_hessian_of_a_quadratic_is_exact() -> None:
    a = np.array([[3.0, -1.0, 2.0], [5.0, 0.5, 7.0], [-4.0, 1.0, 9.0]])
    found = sg.hessian(quadratic)(np.array([1.0, -2.0, 3.0]), a, np.ones(3))
    assert np.array_equal(found, (a + a.T) / 2)
    found = sg.jit(lambda x: sg.hvp(quadratic)(x, np.array([1.0, 0.0, 0.0]), a, np.ones(3)))(np.ones(3))
    assert np.array_equal(found, ((a + a.T) / 2)[0])


def test_r52_verify_grad() -> None:
    sg.check_grads(quadratic, (X, np.eye(2), Y), order=2)
    wrong = sg.custom_vjp(lambda x: x**2)
    wrong.defvjp(lambda x: (x**2, x), lambda x, g: (g * x,))
    with pytest.raises(AssertionError):
        sg.check_grads(lambda x: np.sum(wrong(x)), (X,), order=1)


def test_r52_grad_clip_and_grad_scale() -> None:
    assert sg.grad(lambda x: np.sum(100 * clip_gradient(x) - 0.5 * x))(X).tolist() == [0.5, 0.5]
    assert sg.grad(lambda x: np.sum(scale_gradient(x, -2.0) * x))(X).tolist() == [-1.0, -2.0]


def test_r52_zero_grad_and_disconnected_grad() -> None:
    assert sg.grad(lambda x: np.sum(x * sg.stop_gradient(x)))(X).tolist() == [1, 2]
    assert sg.grad(lambda x: np.sum(sg.stop_gradient(x)))(X).tolist() == [0, 0]
    with pytest.raises(ArgumentValueError, match="no y depends on"):
        traced(lambda x: sg.gradients(np.sum(sg.stop_gradient(x)), x), X)


def test_r52_subgraph_grad_ends_in_the_middle() -> None:
    def layer_by_layer(w1: Any, w2: Any, x: Any) -> Any:
        h = np.tanh(w1 @ x)
        cost = np.sum((w2 @ h) ** 2)
        by_w2, by_h = sg.gradients(cost, [w2, h])
        return sg.gradients(h, w1, grad_ys=by_h), by_w2

    w1, w2, x = RNG.normal(size=(4, 3)), RNG.normal(size=(2, 4)), RNG.normal(size=3)
    whole = sg.grad(lambda w1, w2, x: np.sum((w2 @ np.tanh(w1 @ x)) ** 2), argnums=(0, 1))(w1, w2, x)
    for one, other in zip(traced(layer_by_layer, w1, w2, x), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_r52_gradients_stand_in_traced_functions() -> None:
    with pytest.raises(ArgumentError, match="no function is traced here"):
        sg.gradients(X, X)


# -- R54: the tables of matrix calculus (K. Petersen, M. Pedersen, The Matrix Cookbook, 2012)

N, M = 4, 3
A, B, C = RNG.normal(size=(N, N)), RNG.normal(size=(N, N)), RNG.normal(size=(N, N))
W, U, V = RNG.normal(size=(N, M)), RNG.normal(size=N), RNG.normal(size=N)
S = A @ A.T + N * np.eye(N)
INVERSE = np.linalg.inv(A)
TABLE: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "tr(AX)": (lambda x: np.trace(A @ x), B, A.T),
    "tr(X'A)": (lambda x: np.trace(x.T @ A), B, A),
    "tr(AXB)": (lambda x: np.trace(A @ x @ B), C, A.T @ B.T),
    "tr(AX'B)": (lambda x: np.trace(A @ x.T @ B), C, B @ A),
    "tr(X'AX)": (lambda x: np.trace(x.T @ A @ x), W, (A + A.T) @ W),
    "tr(XAX')": (lambda x: np.trace(x @ A @ x.T), B, B @ (A + A.T)),
    "tr(X^3)": (lambda x: np.trace(np.linalg.matrix_power(x, 3)), A, 3 * (A @ A).T),
    "tr(AX^-1B)": (lambda x: np.trace(B @ np.linalg.inv(x) @ C), A, -(INVERSE @ C @ B @ INVERSE).T),
    "tr((X'CX)^-1A)": (
        lambda x: np.trace(np.linalg.inv(x.T @ S @ x) @ A[:M, :M]), W,
        -S @ W @ np.linalg.inv(W.T @ S @ W) @ (A[:M, :M] + A[:M, :M].T) @ np.linalg.inv(W.T @ S @ W)),
    "a'Xb": (lambda x: U @ x @ V, A, np.outer(U, V)),
    "a'X'Xb": (lambda x: U @ x.T @ x @ V, A, A @ (np.outer(U, V) + np.outer(V, U))),
    "a'X^-1b": (lambda x: U @ np.linalg.solve(x, V), A, -np.outer(INVERSE.T @ U, INVERSE @ V)),
    "x'Ax": (lambda x: x @ A @ x, U, (A + A.T) @ U),
    "(Bx+b)'C(Dx+d)": (
        lambda x: (A @ x + U) @ B @ (C @ x + V), U, A.T @ B @ (C @ U + V) + C.T @ B.T @ (A @ U + U)),
    "|x-a|": (lambda x: np.linalg.norm(x - V), U, (U - V) / np.linalg.norm(U - V)),
    "|Xw-y|^2 by w": (lambda w: np.sum((W @ w - U) ** 2), V[:M], 2 * W.T @ (W @ V[:M] - U)),
    "|Xw-y|^2 by X": (lambda x: np.sum((x @ V[:M] - U) ** 2), W, 2 * np.outer(W @ V[:M] - U, V[:M])),
    "det X": (np.linalg.det, A, np.linalg.det(A) * INVERSE.T),
    "det(AXB)": (
        lambda x: np.linalg.det(A @ x @ B), C, np.linalg.det(A) * np.linalg.det(B) * np.linalg.det(C)
        * np.linalg.inv(C).T),
    "log det X": (lambda x: np.linalg.slogdet(x)[1], A, INVERSE.T),
    "log det X'X": (lambda x: np.linalg.slogdet(x.T @ x)[1], W, 2 * np.linalg.pinv(W).T),
    "log det by Cholesky": (
        lambda x: 2 * np.sum(np.log(np.diag(np.linalg.cholesky((x + x.T) / 2)))), S, np.linalg.inv(S)),
    "|X|^2": (lambda x: np.linalg.norm(x) ** 2, W, 2 * W),
    "nuclear norm": (
        lambda x: np.linalg.norm(x, "nuc"), W, W @ np.real(scipy.linalg.sqrtm(np.linalg.inv(W.T @ W)))),
    "tr(AxX)": (lambda x: np.trace(np.kron(A, x)), B, np.trace(A) * np.eye(N)),
    "a'(AxX)b": (
        lambda x: np.kron(U, U) @ np.kron(A, x) @ np.kron(V, V), B, (U @ A @ V) * np.outer(U, V)),
    "tr exp X": (lambda x: np.trace(scipy.linalg.expm(x)), A, scipy.linalg.expm(A).T),
}


@pytest.mark.parametrize("name", TABLE)
def test_r54_gradients_are_those_of_the_tables(name: str) -> None:
    f, x, expected = TABLE[name]
    np.testing.assert_allclose(sg.grad(f)(x), expected, rtol=1e-12, atol=1e-12 * np.max(np.abs(expected)))


def test_r54_inverses_and_kronecker_products() -> None:
    """d(X^-1) = -X^-1 dX X^-1, and d(A x X) = A x dX, by elements."""
    d = RNG.normal(size=(N, N))
    np.testing.assert_allclose(sg.jvp(np.linalg.inv, (A,), (d,))[1], -INVERSE @ d @ INVERSE, rtol=1e-11)
    np.testing.assert_allclose(sg.jvp(lambda x: np.kron(W, x), (A,), (d,))[1], np.kron(W, d), rtol=1e-14)
    by_elements = sg.jacrev(lambda x: np.linalg.inv(x))(A)  # noqa: PLW0108
    np.testing.assert_allclose(by_elements, -np.einsum("ik,lj->ijkl", INVERSE, INVERSE), rtol=1e-11, atol=1e-12)

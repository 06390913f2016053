"""Derivatives of linear algebra: along directions, to third order, with the factors there are."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops import OPS
from tests.ops.test_linalg import BOTH, drawn, everything
from tests.table import GENTLY, richardson


def one_number(P: Any, A: Any, b: Any, many: Any) -> Any:
    """Put everything into one number."""
    found = everything(P @ P.T + P.shape[0] * np.eye(P.shape[0]), A, b, many[:, :3], many)
    scale = np.linalg.slogdet(A)[1]
    total = scale + np.log(np.abs(np.linalg.det(A / np.exp(scale / A.shape[0]))) + 1)
    for name, value in found.items():
        if name not in {"det", "slogdet"}:
            total = total + np.sum(np.tanh(value))
    return total


FORWARD = sg.jit(lambda given, ways: sg.jvp(one_number, given, ways)[1], options=GENTLY)  # its extents are learnt


@pytest.mark.parametrize("n", [2, pytest.param(5, marks=pytest.mark.nightly), 9, 70])
def test_gradient_along_a_direction(n: int) -> None:
    """Everything at once, blocked where it is large, against differences; reverse, forward, and the interpreter."""
    _, A, b, _, many = drawn(n)
    rng = np.random.default_rng(1)
    given = (rng.normal(size=(n, n)), A, b, many)
    ways = tuple([rng.normal(size=x.shape) for x in given])
    value, slopes = sg.value_and_grad(one_number, argnums=(0, 1, 2, 3))(*given)
    assert value == pytest.approx(one_number(*given), rel=1e-11)
    found = sum(float(np.sum(s * w)) for s, w in zip(slopes, ways, strict=True))
    wanted = richardson(lambda h: one_number(*[x + h * w for x, w in zip(given, ways, strict=True)]), 1e-4)
    assert found == pytest.approx(wanted, rel=1e-7)
    assert FORWARD(given, ways) == pytest.approx(found, rel=1e-9)


def test_third_order() -> None:
    """d3/dx3 of the logarithm of a determinant, and of a solution, along a line."""
    rng = np.random.default_rng(4)
    A, W = rng.normal(size=(4, 4)) + 3 * np.eye(4), rng.normal(size=(4, 4)) / 3

    def along(t):
        M = A + t * W
        return np.linalg.slogdet(M)[1] + np.sum(np.linalg.solve(M, W[0])) + np.sum(np.linalg.cholesky(M @ M.T))

    second = sg.grad(sg.grad(along))
    assert sg.grad(second)(0.1) == pytest.approx(richardson(lambda h: second(0.1 + h), 1e-3), rel=1e-8)
    forward = sg.jit(lambda t: sg.jvp(lambda s: sg.jvp(along, (s,), (1.0,))[1], (t,), (1.0,))[1])
    assert forward(0.1) == pytest.approx(second(0.1), rel=1e-11)


def test_hessian_is_that_of_the_closed_form() -> None:
    """Of log det: -X' V X' for X = A^-1, along each V."""
    A = np.random.default_rng(5).normal(size=(3, 3)) + 3 * np.eye(3)
    X = np.linalg.inv(A)
    H = sg.hessian(lambda a: np.linalg.slogdet(a)[1])(A)
    np.testing.assert_allclose(H, -np.einsum("jk,li->ijkl", X, X), atol=1e-14)


def test_vmap_and_jacobians() -> None:
    rng = np.random.default_rng(6)
    A, b = rng.normal(size=(6, 5, 5)) + 4 * np.eye(5), rng.normal(size=(7, 5))
    every: Any = sg.vmap(sg.vmap(np.linalg.solve, in_axes=(None, 0)), in_axes=(0, None))
    x = every(A, b)
    np.testing.assert_allclose(x, np.linalg.solve(A[:, None], b[None, :, :, None])[..., 0], atol=1e-13)
    f, r = sg.jacfwd(np.linalg.inv)(A[0]), sg.jacrev(np.linalg.inv)(A[0])
    X = np.linalg.inv(A[0])
    np.testing.assert_allclose(f, -np.einsum("ik,lj->ijkl", X, X), atol=1e-13)
    np.testing.assert_allclose(f, r, atol=1e-13)


def test_examples_with_one_matrix_are_solved_at_once() -> None:
    """The right-hand sides of a batch stand beside each other, with known and unknown extents."""
    rng = np.random.default_rng(7)
    A, b = rng.normal(size=(5, 5)) + 4 * np.eye(5), rng.normal(size=(7, 5))
    solve: Any = sg.vmap(np.linalg.solve, in_axes=(None, 0))
    assert "sg_lu_solve(5, 7, 0," in sg.jit(solve).lower(A, b).as_text("c")
    np.testing.assert_allclose(solve(A, b), np.linalg.solve(A, b.T).T, atol=1e-14)
    named = sg.jit(solve, specs=("f64[n,n]", "f64[m,n]"))
    np.testing.assert_allclose(named(A, b), np.linalg.solve(A, b.T).T, atol=1e-14)
    batch = rng.normal(size=(2, 5, 5)) + 4 * np.eye(5), rng.normal(size=(3, 2, 5, 2))
    low = sg.vmap(lambda a, b: sg.linalg.solve_triangular(a, b, lower=True), in_axes=(None, 0))
    np.testing.assert_allclose(low(*batch), np.linalg.solve(np.tril(batch[0]), batch[1]), atol=1e-14)


def test_factors_serve_the_backward_pass() -> None:
    """Value and gradient factorize once; a determinant and a solution of one matrix share its factors."""
    A, b = np.eye(3), np.ones(3)

    def loss(A, b):
        return np.sum(np.linalg.solve(A, b) ** 2) + np.linalg.slogdet(A)[1]

    text = sg.value_and_grad(loss, argnums=(0, 1)).lower(A, b).as_text("c")
    entry = text[text.index("int32_t sg_loss(") :]
    assert len(re.findall(r"\bsg_lu\(", entry)) == 1
    assert len(re.findall(r"\bsg_lu_solve\(", entry)) == 3
    text = sg.value_and_grad(lambda a: np.sum(np.linalg.cholesky(a))).lower(A).as_text("c")
    assert len(re.findall(r"\bsg_cholesky\(3", text)) == 1


@BOTH
def test_cholesky_is_a_function_of_the_triangle_that_it_reads(options: Any) -> None:
    """The value is NumPy's, whatever stands above the diagonal; the gradient is that by the triangle that is read."""
    rng = np.random.default_rng(8)
    a = rng.normal(size=(4, 4))
    P, w = a @ a.T + np.eye(4), rng.normal(size=(4, 4))
    other = np.tril(P) + np.triu(rng.normal(size=(4, 4)), 1)

    def loss(p, upper=False):
        return np.sum(np.linalg.cholesky(p, upper=upper) * w)

    factor: Any = sg.jit(np.linalg.cholesky, options=options)
    assert np.array_equal(factor(P), factor(other))
    found = sg.grad(loss, options=options)(P)
    assert not np.any(np.triu(found, 1))
    assert np.array_equal(found, sg.grad(loss, options=options)(other))
    turned = sg.grad(lambda p: loss(p, upper=True), options=options)(other.T)
    assert not np.any(np.tril(turned, -1))
    for upper, at in ((False, other), (True, other.T)):
        assert sg.check_grads(lambda p, upper=upper: loss(p, upper), (at,), options=options).worst < 1
    assert sg.check_grads(lambda p: sg.linalg.cho_factor(p)[0], (P,), options=options).worst < 1


def test_cholesky_of_a_symmetric_kernel() -> None:
    """A gradient and a Hessian through a kernel, and along symmetric directions, are those of half and half."""
    rng = np.random.default_rng(11)
    X, y, at, way = rng.normal(size=(6, 2)), rng.normal(size=6), np.array([0.3, -0.2, 0.1]), rng.normal(size=(6, 6))

    def kernel(theta):
        apart = np.sum((X[:, None, :] - X[None, :, :]) ** 2, -1)
        return np.exp(theta[0] - apart * np.exp(theta[1])) + np.exp(theta[2]) * np.eye(6)

    def loss(matrix):
        factor = np.linalg.cholesky(matrix)
        return 0.5 * y @ sg.linalg.cho_solve((factor, True), y) + np.sum(np.log(np.diagonal(factor)))

    K, way = kernel(at), way + way.T
    inverse, alpha = np.linalg.inv(K), np.linalg.solve(K, y)
    closed = 0.5 * (inverse - np.outer(alpha, alpha))
    by = sg.grad(loss)(K)
    np.testing.assert_allclose(by, np.tril(2 * closed) - np.diag(np.diagonal(closed)), rtol=1e-11)
    bent = sg.hvp(loss)(K, way)
    turned = inverse @ way @ inverse
    closed = 0.5 * (np.outer(turned @ y, alpha) + np.outer(alpha, turned @ y) - turned)
    np.testing.assert_allclose(bent, np.tril(2 * closed) - np.diag(np.diagonal(closed)), rtol=1e-9, atol=1e-11)
    slopes = sg.grad(lambda theta: loss(kernel(theta)))
    hessian = sg.hessian(lambda theta: loss(kernel(theta)))(at)
    for k, unit in enumerate(np.eye(3)):
        value = richardson(lambda h: loss(kernel(at + h * unit)), 1e-3)  # noqa: B023 - called at once
        assert slopes(at)[k] == pytest.approx(value, rel=1e-8)
        row = richardson(lambda h: slopes(at + h * unit), 1e-3)  # noqa: B023 - called at once
        np.testing.assert_allclose(hessian[k], row, rtol=1e-8)


# -- the factor's pullback and pushforward


def lower(n: int, dtype: Any) -> Any:
    a = np.random.default_rng(n).normal(size=(n, n))
    return np.linalg.cholesky(a @ a.T / n + 2 * np.eye(n)).astype(dtype)


SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 50, 65, 129, 300]
ABOUT_A_FACTOR = ("cholesky_pushforward", "cholesky_pullback", "symmetric_product")


def about(n: int, dtype: Any) -> dict[str, tuple[Any, Any]]:
    """Return what each of the ops is called with: a factor, and a matrix that is a direction or a cotangent."""
    low, (x, g) = lower(n, dtype), np.random.default_rng(3).normal(size=(2, n, n)).astype(dtype)
    return {name: (low, g if name == "cholesky_pullback" else x) for name in ABOUT_A_FACTOR}


@cache
def computed_about(dtype: Any, sizes: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    """Compute, for some sizes in one module, each of the ops of arrays as they lie, and of transposed ones."""
    def all_of(given: Any) -> Any:
        return {n: {name: (OPS[name](*straight), OPS[name](*[a.T for a in turned]).T)
                    for name, (straight, turned) in ops.items()} for n, ops in given.items()}

    given = {n: {name: (pair, [a.T for a in pair]) for name, pair in about(n, dtype).items()} for n in sizes}
    found: dict[int, dict[str, Any]] = sg.jit(all_of)(given)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_what_a_factor_differentiates_to(n: int, dtype: Any, tried: Any) -> None:
    """Pushforward, pullback and product in C are what they mean, in any layout, and the first two are transposes."""
    near = 1e-13 if dtype == np.float64 else 1e-5
    found, given = computed_about(dtype, tried("n"))[n], about(n, dtype)
    for name, (straight, turned) in found.items():
        wanted = OPS[name].evaluate(*[a.astype(float) for a in given[name]])
        for one in (straight, turned.T):
            assert one.dtype == dtype
            assert np.max(np.abs(one - wanted)) <= near * np.max(np.abs(wanted))
    (_, x), (_, g) = given["cholesky_pushforward"], given["cholesky_pullback"]
    forward = np.sum(np.tril(g) * found["cholesky_pushforward"][0], dtype=float)
    backward = np.sum(np.tril(x) * found["cholesky_pullback"][0], dtype=float)
    size = np.sqrt(np.sum(g**2) * np.sum(found["cholesky_pushforward"][0] ** 2))
    assert abs(forward - backward) <= near * n * size


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 50])
def test_orders_of_a_factor(n: int) -> None:
    """Along a line, in a batch, to third order: each order against differences of the one below, in every mode."""
    rng = np.random.default_rng(n)
    low, (W, C) = lower(n, np.float64), rng.normal(size=(2, 2, n, n))
    K, W = np.stack([low @ low.T, np.eye(n)]), (W + np.swapaxes(W, 1, 2)) / (4 * n)

    def along(t):
        return np.sum(C * np.linalg.cholesky(K + t * W))

    def forward(f):
        return lambda t: sg.jvp(f, (t,), (1.0,))[1]

    orders: list[Any] = [along, sg.grad(along), sg.grad(sg.grad(along)), sg.grad(sg.grad(sg.grad(along)))]
    mixed = [forward(forward(along)), sg.grad(forward(along)), forward(sg.grad(along))]
    ways = [*orders[1:], forward(along), *mixed, forward(forward(forward(along)))]
    every = sg.jit(lambda t: [way(t) for way in ways])  # one module
    first, second, third, forwards, *seconds, thirds = every(0.1)
    lower_orders = richardson(lambda h: np.array([along(0.1 + h), *every(0.1 + h)[:2]]), 1e-3)
    assert [first, second, third] == pytest.approx(lower_orders, rel=1e-7, abs=1e-7)
    assert forwards == pytest.approx(first, rel=1e-11)
    assert seconds == pytest.approx([second] * 3, rel=1e-10, abs=1e-11)
    assert thirds == pytest.approx(third, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("specs", [None, ("f64[n,n]", "f64[n,n]", "f64[n,n]")])
def test_curvature_of_a_large_factor(specs: Any) -> None:
    """Beyond the blocks of the routines, with known and unknown extents: a Hessian times a matrix, by differences."""
    rng = np.random.default_rng(2)
    n = 150
    low, (W, C) = lower(n, np.float64), rng.normal(size=(2, n, n)) / n
    K, W = low @ low.T, W + W.T

    def slope(K, W, C):
        return sg.jvp(lambda K: np.sum(np.sin(C * np.linalg.cholesky(K))), (K,), (W,))[1]

    def loss(K, C):
        return np.sum(np.sin(C * np.linalg.cholesky(K)))

    bent = sg.jit(lambda K, W, C: sg.jvp(sg.grad(loss), (K, C), (W, None))[1], specs=specs)(K, W, C)
    wanted = richardson(lambda h: sg.grad(loss)(K + h * W, C), 1e-3)
    assert np.max(np.abs(bent - wanted)) <= 1e-8 * np.max(np.abs(wanted))
    by = sg.grad(loss)(K, C)
    assert sg.jit(slope, specs=specs)(K, W, C) == pytest.approx(np.sum(by * W), rel=1e-10)

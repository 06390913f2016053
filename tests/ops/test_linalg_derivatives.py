"""Derivatives of linear algebra: along directions, to third order, of singular matrices, with the factors there are."""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import combinations, product
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.ops import OPS
from tests.ops.test_linalg import BOTH, drawn, everything
from tests.table import richardson


def one_number(P: Any, A: Any, b: Any, many: Any) -> Any:
    """Put everything into one number."""
    found = everything(P @ P.T + P.shape[0] * np.eye(P.shape[0]), A, b, many[:, :3], many)
    scale = np.linalg.slogdet(A)[1]
    total = scale + np.log(np.abs(np.linalg.det(A / np.exp(scale / A.shape[0]))) + 1)
    for name, value in found.items():
        if name not in {"det", "slogdet"}:
            total = total + np.sum(np.tanh(value))
    return total


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
    assert sg.jvp(one_number, given, ways)[1] == pytest.approx(found, rel=1e-9)


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
    x = sg.vmap(sg.vmap(np.linalg.solve, in_axes=(None, 0)), in_axes=(0, None))(A, b)
    np.testing.assert_allclose(x, np.linalg.solve(A[:, None], b[None, :, :, None])[..., 0], atol=1e-13)
    f, r = sg.jacfwd(np.linalg.inv)(A[0]), sg.jacrev(np.linalg.inv)(A[0])
    X = np.linalg.inv(A[0])
    np.testing.assert_allclose(f, -np.einsum("ik,lj->ijkl", X, X), atol=1e-13)
    np.testing.assert_allclose(f, r, atol=1e-13)


def test_examples_with_one_matrix_are_solved_at_once() -> None:
    """The right-hand sides of a batch stand beside each other, with known and unknown extents."""
    rng = np.random.default_rng(7)
    A, b = rng.normal(size=(5, 5)) + 4 * np.eye(5), rng.normal(size=(7, 5))
    solve = sg.vmap(np.linalg.solve, in_axes=(None, 0))
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

    assert np.array_equal(*[sg.jit(np.linalg.cholesky, options=options)(p) for p in (P, other)])
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
    for k, unit in enumerate(np.eye(3)):
        value = richardson(lambda h: loss(kernel(at + h * unit)), 1e-3)  # noqa: B023 - called at once
        assert slopes(at)[k] == pytest.approx(value, rel=1e-8)
        row = richardson(lambda h: slopes(at + h * unit), 1e-3)  # noqa: B023 - called at once
        np.testing.assert_allclose(sg.hessian(lambda theta: loss(kernel(theta)))(at)[k], row, rtol=1e-8)


# -- determinants of singular matrices


def cofactors(a: Any) -> Any:
    """Compute cofactors by their definition."""
    n = a.shape[0]
    rest = [np.delete(np.delete(a, i, 0), j, 1) for i in range(n) for j in range(n)]
    signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    return np.reshape([np.linalg.det(r) for r in rest], (n, n)) * signs


def singular() -> dict[str, Any]:
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 5, 5))
    zero = a.copy()
    zero[3] = 0
    twice = a.copy()
    twice[:, 1] = 2 * a[:, 4]
    return {
        "a row of zeros": zero, "equal columns": twice, "ones": np.ones((2, 2)), "shift": np.eye(6, k=1),
        "zero": np.zeros((1, 1)), "rank one": np.outer(a[0], b[0]), "rank three": a[:, :3] @ b[:3],
        "nothing": np.zeros((3, 3)), "rank four": a[:, :4] @ b[:4],
        "permuted shift": np.eye(6, k=2)[[5, 0, 4, 1, 3, 2]] + np.eye(6, k=-4), "regular": a, "exchanged": a[::-1],
        "integers": np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]), "small": 1e-90 * a, "large": 1e70 * a,
    }


@pytest.mark.parametrize("name", singular())
@BOTH
def test_gradient_of_a_determinant_is_the_cofactors(name: str, options: Any) -> None:
    """Of any rank."""
    a = singular()[name]
    found, wanted = sg.grad(np.linalg.det, options=options)(a), cofactors(a)
    scale = np.linalg.norm(a) ** (len(a) - 1) if np.any(a) else 1.0
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-14 * scale)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7])
@BOTH
def test_higher_derivatives_of_determinants_of_any_rank(n: int, options: Any) -> None:
    """To third order, in a batch of all ranks: along a line, a determinant is a polynomial, known by n + 1 values."""
    rng = np.random.default_rng(n)
    a, way = rng.normal(size=(2, n + 1, n, n))
    for rank in range(n - 3 if n > 5 else 0, n):
        a[rank] = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
    steps = np.linspace(-1, 1, n + 1)
    values = np.linalg.det(a + steps[:, None, None, None] * way)
    wanted = np.linalg.solve(np.vander(steps, increasing=True), values)  # coefficients of the powers

    def along(t):
        return np.sum(np.linalg.det(a + t[:, None, None] * way))

    first = sg.grad(along)
    second = sg.grad(lambda t: np.sum(first(t)))
    third = sg.grad(lambda t: np.sum(second(t)))
    zero = np.zeros(n + 1)
    for order, derivative in enumerate((first, second, third), 1):
        expected = math.factorial(order) * wanted[order] if order <= n else zero
        found = sg.jit(derivative, options=options)(zero)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10, err_msg=str(order))

    def slope(t):
        return sg.jvp(along, (t,), (zero + 1,))[1]

    forward = sg.jit(lambda t: sg.jvp(slope, (t,), (zero + 1,))[1], options=options)
    assert forward(zero) == pytest.approx(np.sum(2 * wanted[2]) if n > 1 else 0.0, rel=1e-9, abs=1e-10)
    hessian = sg.hessian(np.linalg.det, options=options)(np.zeros((n, n)))
    assert np.all(np.isfinite(hessian))
    assert np.any(hessian) == (n == 2)


def second_derivatives(a: Any) -> Any:
    """Compute them by their definition: minors without two rows and two columns, exactly."""
    n = len(a)
    found = np.zeros((n, n, n, n))
    for (i, k), (j, m) in product(combinations(range(n), 2), repeat=2):
        minor = np.delete(np.delete(a, [i, k], 0), [j, m], 1).astype(int)
        value = (-1.0) ** (i + j + k + m) * float(sympy.Matrix(minor.tolist()).det())
        found[i, j, k, m] = found[k, m, i, j] = value
        found[i, m, k, j] = found[k, j, i, m] = -value
    return found


@pytest.mark.parametrize("n", [6, 7])
@BOTH
def test_hessians_of_determinants_of_any_rank(n: int, options: Any) -> None:
    rng = np.random.default_rng(n)
    for rank in range(n + 1):
        a = np.asarray(rng.integers(-2, 3, (n, rank)) @ rng.integers(-2, 3, (rank, n)), float)
        wanted = second_derivatives(a)
        found = sg.hessian(np.linalg.det, options=options)(a)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * (1 + np.max(np.abs(a))) ** (n - 2))


@BOTH
def test_what_would_be_wrong_of_a_determinant_is_not_finite(options: Any) -> None:
    """Third derivatives at a rank below n - 3, exactly so or but for rounding; those before are right."""
    rng = np.random.default_rng(3)
    integers = np.asarray(rng.integers(-2, 3, (7, 3)) @ rng.integers(-2, 3, (3, 7)), float)
    rounded = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 7))
    way = rng.normal(size=(7, 7))

    def along(f: Any) -> Any:
        return lambda a: sg.jvp(f, (a,), (way,))[1]

    for a in (integers, rounded):
        assert abs(sg.jit(along(along(np.linalg.det)), options=options)(a)) < 1e-10
        assert not np.isfinite(sg.jit(along(along(along(np.linalg.det))), options=options)(a))
        slope = sg.grad(along(along(np.linalg.det)), options=options)(a)
        assert not np.any(np.isfinite(slope))


@pytest.mark.parametrize("tiny", [1e-4, 1e-9, 1e-14])
def test_second_derivatives_of_a_determinant_that_is_nearly_singular(tiny: float) -> None:
    """They are as accurate as others: nothing is divided by the determinant. The judge has 60 digits."""
    rng = np.random.default_rng(1)
    u, _, v = np.linalg.svd(rng.normal(size=(7, 7)))
    a, g = u * [3, 2, 1, 1, 0.5, tiny, tiny / 10] @ v, rng.normal(size=(7, 7))
    found = sg.jvp(sg.grad(np.linalg.det), (a,), (g,))[1]
    with mpmath.workdps(60):
        matrix, way = mpmath.matrix(a.tolist()), mpmath.matrix(g.tolist())
        c = mpmath.det(matrix) * (matrix**-1).T
        inner = sum(way[k] * c[k] for k in product(range(7), repeat=2))
        wanted = (inner * c - c * way.T * c) / mpmath.det(matrix)
    np.testing.assert_allclose(found, np.array(wanted.tolist(), float), rtol=1e-12, atol=1e-13)


def test_determinants_beyond_the_range_of_floats() -> None:
    """The determinant is infinite, or 0, and its cofactors need not be."""
    a = np.diag(np.full(400, 0.1))
    assert sg.jit(np.linalg.slogdet)(a).logabsdet == pytest.approx(400 * np.log(0.1))
    b = np.eye(8) * 1e-44
    b[0, 0] = 1e300
    found = sg.grad(np.linalg.det)(b)
    assert found[0, 0] == pytest.approx(1e-308, rel=1e-12)
    assert found[1, 1] == pytest.approx(1e36, rel=1e-12)


@BOTH
def test_determinant_of_what_is_singular(options: Any) -> None:
    zero = np.zeros((2, 3, 3))
    assert np.array_equal(sg.jit(np.linalg.det, options=options)(zero), [0, 0])
    sign, logarithm = sg.jit(np.linalg.slogdet, options=options)(zero)
    assert np.array_equal(sign, [0, 0])
    assert np.array_equal(logarithm, [-np.inf, -np.inf])
    assert not np.any(np.isfinite(sg.grad(lambda a: np.linalg.slogdet(a)[1], options=options)(np.zeros((1, 1)))))


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
def computed_about(dtype: Any) -> dict[int, dict[str, Any]]:
    """Compute, for all sizes in one module, each of the ops of arrays as they lie, and of transposed ones."""
    def all_of(given: Any) -> Any:
        return {n: {name: (OPS[name](*straight), OPS[name](*[a.T for a in turned]).T)
                    for name, (straight, turned) in ops.items()} for n, ops in given.items()}

    given = {n: {name: (pair, [a.T for a in pair]) for name, pair in about(n, dtype).items()} for n in SIZES}
    found: dict[int, dict[str, Any]] = sg.jit(all_of)(given)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_what_a_factor_differentiates_to(n: int, dtype: Any) -> None:
    """Pushforward, pullback and product in C are what they mean, in any layout, and the first two are transposes."""
    near = 1e-13 if dtype == np.float64 else 1e-5
    found, given = computed_about(dtype)[n], about(n, dtype)
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

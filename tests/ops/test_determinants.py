"""Derivatives of determinants, of singular matrices above all, and near them."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import mpmath
import numpy as np
import pytest
from sympy import ZZ
from sympy.polys.matrices import DomainMatrix

import symgrad as sg
from tests.ops.test_linalg import BOTH


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


@pytest.mark.parametrize("n", [1, 2, 3, 4, *[pytest.param(n, marks=pytest.mark.nightly) for n in (5, 6)],
                               pytest.param(7, marks=pytest.mark.slow)])
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

    def slope(t):
        return sg.jvp(along, (t,), (zero + 1,))[1]

    def forward(t):
        return sg.jvp(slope, (t,), (zero + 1,))[1]

    every = sg.jit(lambda t: (first(t), second(t), third(t), forward(t)), options=options)  # one module
    *orders, pushed = every(zero)
    for order, found in enumerate(orders, 1):
        expected = math.factorial(order) * wanted[order] if order <= n else zero
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10, err_msg=str(order))
    assert pushed == pytest.approx(np.sum(2 * wanted[2]) if n > 1 else 0.0, rel=1e-9, abs=1e-10)
    hessian = sg.hessian(np.linalg.det, options=options)(np.zeros((n, n)))
    assert np.all(np.isfinite(hessian))
    assert np.any(hessian) == (n == 2)


def second_derivatives(a: Any) -> Any:
    """Compute them by their definition: minors without two rows and two columns, exactly."""
    n = len(a)
    found = np.zeros((n, n, n, n))
    for (i, k), (j, m) in product(combinations(range(n), 2), repeat=2):
        minor = np.delete(np.delete(a, [i, k], 0), [j, m], 1).astype(int)
        exact = DomainMatrix([list(map(ZZ, row)) for row in minor.tolist()], minor.shape, ZZ)
        value = (-1.0) ** (i + j + k + m) * float(exact.det())
        found[i, j, k, m] = found[k, m, i, j] = value
        found[i, m, k, j] = found[k, j, i, m] = -value
    return found


@pytest.mark.parametrize("n", [6, 7])
@BOTH
def test_hessians_of_determinants_of_any_rank(n: int, options: Any) -> None:
    rng = np.random.default_rng(n)
    hessian = sg.hessian(np.linalg.det, options=options)
    for rank in range(n + 1):
        a = np.asarray(rng.integers(-2, 3, (n, rank)) @ rng.integers(-2, 3, (rank, n)), float)
        wanted = second_derivatives(a)
        found = hessian(a)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * (1 + np.max(np.abs(a))) ** (n - 2))


@pytest.mark.slow
@BOTH
def test_what_would_be_wrong_of_a_determinant_is_not_finite(options: Any) -> None:
    """Third derivatives at a rank below n - 3, exactly so or but for rounding; those before are right."""
    rng = np.random.default_rng(3)
    integers = np.asarray(rng.integers(-2, 3, (7, 3)) @ rng.integers(-2, 3, (3, 7)), float)
    rounded = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 7))
    way = rng.normal(size=(7, 7))

    def along(f: Any) -> Any:
        return lambda a: sg.jvp(f, (a,), (way,))[1]

    second = along(along(np.linalg.det))
    all_three = sg.jit(lambda a: (second(a), along(second)(a), sg.grad(second)(a)), options=options)  # one module
    for a in (integers, rounded):
        curvature, third, slope = all_three(a)
        assert abs(curvature) < 1e-10
        assert not np.isfinite(third)
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

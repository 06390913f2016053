"""Triangular products do the work of their triangle: equal to NumPy's for every offset, size, layout and use."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.looking import code

ONE = sg.Options(threads=1)
KS = [-70, -17, -3, -1, 0, 1, 2, 20, 70]


def arrays(*shapes, dtype=np.float64):
    rng = np.random.default_rng(7)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def with_diagonal(a, k):
    made, i = np.tril(a, k), np.arange(len(a))
    made[i, i] = np.exp(a[i, i])
    return made


# name, function of a square matrix and another one, shapes
PRODUCTS = [
    ("lower by columns", lambda a, b, k: np.tril(a, k) @ b, [(37, 37), (37, 20)]),
    ("upper by columns", lambda a, b, k: np.triu(a, k) @ b, [(37, 37), (37, 20)]),
    ("rows by lower", lambda a, b, k: b @ np.tril(a, k), [(37, 37), (20, 37)]),
    ("rows by upper", lambda a, b, k: b @ np.triu(a, k), [(37, 37), (20, 37)]),
    ("lower transposed", lambda a, b, k: np.tril(a, k).T @ b, [(37, 37), (37, 20)]),
    ("wide", lambda a, b, k: b @ np.triu(a, k), [(40, 70), (9, 40)]),
    ("tall", lambda a, b, k: np.tril(a, k) @ b, [(70, 40), (40, 9)]),
    ("a triangle of a product", lambda a, b, k: np.tril(a @ b, k), [(37, 30), (30, 33)]),
    ("the other triangle", lambda a, b, k: np.triu(a @ b, k), [(37, 30), (30, 33)]),
    ("both triangular", lambda a, b, k: np.tril(a, k) @ np.triu(b, -k), [(37, 37), (37, 37)]),
    ("a triangle with itself", lambda a, b, k: np.tril(a, k) @ np.tril(a, k).T + b, [(37, 37), (37, 37)]),
    ("clusters", lambda a, b, k: np.einsum("kij,nkj->nki", np.tril(a, k), b), [(5, 18, 18), (40, 5, 18)]),
    ("read as a whole too", lambda a, b, k: np.tril(a @ b, k) + np.cos(a @ b), [(37, 30), (30, 33)]),
    ("two triangles read", lambda a, b, k: np.tril(a @ b, k) + 2.0 * np.triu(a @ b, k), [(37, 30), (30, 37)]),
    ("a diagonal of its own", lambda a, b, k: (np.tril(a, k) + np.diag(np.exp(a[0]))) @ b, [(37, 37), (37, 20)]),
    ("less a diagonal", lambda a, b, k: b @ (np.triu(a, k) - np.diag(a[0, 2:], 2)), [(39, 39), (20, 39)]),
    ("a multiple of the identity", lambda a, b, k: (2.0 * np.tril(a, k) + np.exp(a[:1]) * np.eye(37)) @ b,
     [(37, 37), (37, 20)]),
    ("written along the diagonal", lambda a, b, k: with_diagonal(a, k) @ b, [(37, 37), (37, 20)]),
    ("scaled twice", lambda a, b, k: (np.exp(a) * np.tril(a, k)) @ b, [(37, 37), (37, 20)]),
    ("one triangle of another", lambda a, b, k: np.triu(np.tril(a, k), -2) @ b, [(37, 37), (37, 20)]),
    ("both triangles", lambda a, b, k: (np.tril(a, k) + np.triu(a, -k)) @ b, [(37, 37), (37, 20)]),
    ("its square", lambda a, b, k: np.square(np.tril(a, k)) @ b, [(37, 37), (37, 20)]),
    ("one more", lambda a, b, k: (np.tril(a, k) + 1.0) @ b, [(37, 37), (37, 20)]),
    ("chosen otherwise", lambda a, b, k: np.where(np.tri(37, k=k) > 0, np.triu(a), np.tril(a)) @ b,
     [(37, 37), (37, 20)]),
    ("parts of a product", lambda a, b, k: np.sum(np.tril(a @ b, k)) + np.diag(a @ b), [(37, 30), (30, 37)]),
    ("a part of a part", lambda a, b, k: np.tril(np.exp(a @ b) * np.tri(37), k), [(37, 30), (30, 37)]),
    ("what is solved is read whole", lambda a, b, k: np.tril(np.linalg.solve(a + 40 * np.eye(37), a @ b), k),
     [(37, 37), (37, 37)]),
    ("masked, not chosen", lambda a, b, k: np.tri(37, k=k) * np.log(np.exp(a) @ np.exp(b)), [(37, 30), (30, 37)]),
    ("a masked quotient", lambda a, b, k: np.tri(37, k=k) * (1 / (np.exp(a) @ np.exp(b))), [(37, 30), (30, 37)]),
    ("chosen of a logarithm", lambda a, b, k: np.tril(np.log(np.exp(a) @ np.exp(b)), k), [(37, 30), (30, 37)]),
    ("a sign of zero", lambda a, b, k: np.arctan2(np.tri(37, k=k) * (a @ b), -1.0) ** 2, [(37, 30), (30, 37)]),
    ("indices are read whole", lambda a, b, k: np.tril(b[(30 / (1 + np.exp(a) @ np.exp(b))).astype(int), 0], k),
     [(37, 30), (30, 37)]),
    ("a large one", lambda a, b, k: np.tril(a, k) @ b, [(200, 200), (200, 150)]),
]


BY_NAME: dict[str, tuple[Any, Any]] = {name: (f, shapes) for name, f, shapes in PRODUCTS}


def weights(result):
    return np.cos(np.arange(result.size)).reshape(result.shape)


@cache
def computed(name, ks):
    """Compute a product, the sum of its weighted elements and that sum's gradient, for several k in one module.

    Each has arrays of its own, so that nothing is shared.
    """
    f, shapes = BY_NAME[name]

    def every(given):
        found = {}
        for k, (pair, (a, b)) in given.items():
            def total(a, b, k=k):
                result = f(a, b, k)
                return np.sum(weights(result) * result)

            found[k] = f(*pair, k), sg.value_and_grad(total, argnums=(0, 1))(a, b)
        return found

    return sg.jit(every, options=ONE)({k: (arrays(*shapes), arrays(*shapes)) for k in ks})


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(("name", "f", "shapes"), PRODUCTS, ids=[p[0] for p in PRODUCTS])
def test_value_and_gradient(name, f, shapes, k, tried):
    a, b = arrays(*shapes)
    expected = f(a, b, k)
    weight = weights(expected)
    found, (value, (slope_a, slope_b)) = computed(name, tried("k"))[k]
    scale = np.sqrt(expected.size) * (1.0 + np.max(np.abs(expected)))
    assert abs(value - np.sum(weight * expected)) <= 1e-12 * scale
    np.testing.assert_allclose(found, expected, atol=1e-12 * scale)
    da, db = np.sin(3 * a), np.cos(5 * b)
    step = 1e-6
    slope = (np.sum(weight * f(a + step * da, b + step * db, k)) - np.sum(weight * f(a - step * da, b - step * db, k)))
    got = np.sum(slope_a * da) + np.sum(slope_b * db)
    assert abs(got - slope / (2 * step)) <= 1e-7 * (1.0 + abs(got)) * np.sqrt(expected.size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_triangle_alone_is_done(dtype):
    function = sg.grad(lambda L, x: np.sum((np.tril(L, -1) @ x) ** 2), argnums=(0, 1), options=ONE)
    L, x = arrays((40, 40), (40, 24), dtype=dtype)
    got = function(L, x)
    lower = np.tril(L, -1).astype(np.float64)
    near = 1e-12 if dtype is np.float64 else 2e-5
    np.testing.assert_allclose(got[0], np.tril(2 * lower @ x @ x.T, -1), rtol=near, atol=100 * near)
    np.testing.assert_allclose(got[1], 2 * lower.T @ (lower @ x), rtol=near, atol=100 * near)
    assert code(function).count(f"sg_product_part{'f' if dtype is np.float32 else ''}(") >= 2


def test_with_named_extents_and_in_threads(monkeypatch):
    from symgrad.loops.fusion import parallelize as threads
    from symgrad.loops.fusion import tile

    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_ROWS", 16)

    def loss(L, x):
        return np.sum(np.tanh(np.einsum("kij,nkj->nki", np.tril(L), x)) ** 2)

    L, x = arrays((4, 19, 19), (70, 4, 19))
    expected = sg.value_and_grad(loss, argnums=(0, 1), options=sg.Options(compiler="none"))(L, x)
    for specs in (None, ("f64[k,d,d]", "f64[n,k,d]")):
        value, slopes = sg.value_and_grad(loss, argnums=(0, 1), specs=specs, options=sg.Options(threads=3))(L, x)
        assert value == pytest.approx(expected[0], rel=1e-12)
        for one, two in zip(slopes, expected[1], strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


def test_comparisons_of_a_users_own():
    def loss(A, x):
        i, j = np.arange(A.shape[0])[:, None], np.arange(A.shape[1])[None, :]
        return np.sum(np.sin(np.where(i > j + 2, A, 0.0) @ x) + np.cos(np.where(j < i, 0.0, A) @ x))

    A, x = arrays((30, 30), (30, 12))
    value, slope = sg.value_and_grad(loss, options=ONE)(A, x)
    assert value == pytest.approx(loss(A, x), rel=1e-12)
    d = np.cos(np.arange(900.0)).reshape(30, 30)
    assert np.sum(slope * d) == pytest.approx((loss(A + 1e-6 * d, x) - loss(A - 1e-6 * d, x)) / 2e-6, rel=1e-6)

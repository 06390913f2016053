"""Rows R12, R46, R47: layers' gradients, and every number of two small systems' own tests, with the cases they fail."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg

RNG = np.random.default_rng(12)


def pulled(f: Any, *x: Any, g: Any = None) -> tuple[Any, ...]:
    """Pull a cotangent back through a function of floats."""
    arrays = [np.asarray(a, float) for a in x]
    y, pull = sg.vjp(f, *arrays)
    return tuple(pull(np.broadcast_to(np.asarray(1.0 if g is None else g, float), np.shape(y)).copy()))


def same(found: Any, *expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, np.asarray(other, float)), (one, other)


# -- R12


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_products_in_all_four_transposes(left: bool, right: bool) -> None:
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    g = RNG.normal(size=(3, 2))
    given = a.T if left else a, b.T if right else b
    found = pulled(lambda a, b: (a.T if left else a) @ (b.T if right else b), *given, g=g)
    by_a, by_b = g @ b.T, a.T @ g
    np.testing.assert_allclose(found[0], by_a.T if left else by_a, rtol=1e-12)
    np.testing.assert_allclose(found[1], by_b.T if right else by_b, rtol=1e-12)


def test_products_of_batches_and_vectors() -> None:
    a, b = RNG.normal(size=(2, 1, 3, 4)), RNG.normal(size=(5, 4, 2))
    g = RNG.normal(size=(2, 5, 3, 2))
    by_a, by_b = pulled(np.matmul, a, b, g=g)
    np.testing.assert_allclose(by_a, np.sum(g @ np.swapaxes(b, -1, -2), axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(by_b, np.sum(np.swapaxes(a, -1, -2) @ g, axis=0), rtol=1e-12)
    m, v, u = RNG.normal(size=(3, 4)), RNG.normal(size=4), RNG.normal(size=3)
    for f, x, y, expected in (
        (np.matmul, m, v, (np.outer(u, v), m.T @ u)), (np.matmul, u, m, (m @ v, np.outer(u, v))),
    ):
        found = pulled(f, x, y, g=u if x is m else v)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    same(pulled(np.matmul, v, 2 * v), 2 * v, v)


def cross_entropy(logits: Any, label: Any) -> Any:
    return scipy.special.logsumexp(logits) - logits[label]


def test_softmax_cross_entropy_at_extremes() -> None:
    loss, slope = sg.value_and_grad(cross_entropy)(np.array([-1000.0, 0.0, 0.0]), 0)
    assert loss == 1000.6931471805599
    assert slope.tolist() == [-1, 0.5, 0.5]
    loss, slope = sg.value_and_grad(cross_entropy)(np.array([1.0, 2.0, 3.0]), 0)
    np.testing.assert_allclose(loss, 2.40760596444438, rtol=1e-14)
    np.testing.assert_allclose(slope, [-0.90996942682962, 0.24472847105479767, 0.6652409557748218], rtol=1e-14)


def test_batch_normalization_as_it_is_written() -> None:
    eps = 1e-5

    def normalized(x: Any, scale: Any) -> Any:
        mean = np.mean(x, axis=0)
        return scale * (x - mean) / np.sqrt(np.mean((x - mean) ** 2, axis=0) + eps)

    x, scale, g = RNG.normal(size=(16, 3)), RNG.normal(size=3), RNG.normal(size=(16, 3))
    by_x, by_scale = pulled(normalized, x, scale, g=g)
    away, inverse = x - x.mean(0), 1 / np.sqrt(x.var(0) + eps)
    fused = scale * inverse * (g - g.mean(0) - away * inverse**2 * np.mean(g * away, axis=0))
    np.testing.assert_allclose(by_x, fused, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(by_scale, np.sum(g * away * inverse, axis=0), rtol=1e-12)
    assert np.all(np.abs(np.sum(by_x, axis=0)) < 1e-13)


def test_the_rectifier_at_zero() -> None:
    same(pulled(lambda x: np.maximum(x, 0.0), [-1, 0, 2]), [0, 0, 1])


# -- R46: SimpleFlow


def test_simpleflow_operations() -> None:
    ones = np.ones((2, 3))
    same(pulled(np.add, ones, np.ones(3)), ones, [2, 2, 2])
    same(pulled(lambda x: 1.0 + x + 2.0, 3.0), 1)
    assert sg.jit(lambda a, b: a + b)(1.0, 2.0) == 3
    same(pulled(np.multiply, ones, 5.0), 5 * ones, 6)
    assert sg.jit(np.dot)(np.array([[2.0, 2, 3], [3, 3, 3]]), np.array([3.0, 4, 5])).tolist() == [29, 36]
    same(pulled(lambda x: x @ x, [[1, 2], [3, 4]]), [[7, 11], [9, 13]])
    same(pulled(scipy.special.expit, 40.0), 4.248354255291589e-18)
    for x in (5e-324, 1e-300, 1.0, 1e308):
        with np.errstate(over="ignore"):
            assert sg.grad(np.log)(x) == pytest.approx(1 / np.float64(x), rel=2.3e-16)
    same(pulled(np.negative, [1, 2]), [-1, -1])
    same(pulled(np.square, [0.5, -1.5]), [1, -3])
    cube = RNG.normal(size=(2, 3, 4))
    for axis, keepdims in ((None, False), (1, False), ((0, 1), False), (-1, True), ((-1, 0), True)):
        same(pulled(lambda x, axis=axis, k=keepdims: np.sum(x, axis=axis, keepdims=k), cube), np.ones((2, 3, 4)))


def test_simpleflow_graphs() -> None:
    """Diamonds of unequal depth, consumers outside of the loss, shared nodes."""
    same(pulled(lambda x: x**2 + (x**2) ** 2, 2.0), 36)
    assert sg.grad(lambda x: (x**2 + x**8, x**3), has_aux=True)(2.0) == (1028, 8)

    def doubled(y: Any) -> Any:
        for _ in range(60):
            y = y + y
        return y

    assert sg.value_and_grad(doubled)(1.0) == (2**60, 2**60)


def test_simpleflow_regression() -> None:
    x = np.linspace(-1, 1, 100)
    y = 3 * x + 0.5 * np.random.RandomState(0).randn(100)
    slope = sg.grad(lambda p, x, y: np.sum((x * p[0] + p[1] - y) ** 2))
    p, own = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    for _ in range(20):
        p = p - 0.005 * slope(p, x, y)
        off = x * own[0] + own[1] - y
        own = own - 0.005 * 2 * np.array([off @ x, np.sum(off)])
    np.testing.assert_allclose(p, own, rtol=1e-12)
    np.testing.assert_allclose(p, [2.9252, 0.0299], atol=5e-5)
    best = np.linalg.solve(sg.hessian(lambda p: np.sum((x * p[0] + p[1] - y) ** 2))(p), -slope(p, x, y)) + p
    np.testing.assert_allclose(best, [2.92567, 0.02990], atol=5e-6)


# -- R47: tinynn-autograd

A, B = [1, 3, 5], [5, -2, -9]

TINYNN: dict[str, tuple[Any, tuple[Any, ...], Any, tuple[Any, ...]]] = {
    "add": (np.add, (A, B), 2, ([2, 2, 2], [2, 2, 2])),
    "add, stretched": (np.add, (np.ones((2, 3)), A), [[1, 1, 1], [2, 2, 2]], ([[1] * 3, [2] * 3], [3, 3, 3])),
    "add, one row": (np.add, (np.ones((2, 3)), [A]), [[1] * 3, [2] * 3], ([[1] * 3, [2] * 3], [[3, 3, 3]])),
    "mul": (np.multiply, (A, B), 2, ([10, -4, -18], [2, 6, 10])),
    "div": (np.divide, ([1, 2, 5], [8, -2, -10]), 1, ([0.125, -0.5, -0.1], [-0.015625, -0.5, -0.05])),
    "pow": (lambda x: x**3, ([1, -3, 5],), 2, ([6, 54, 150],)),
    "pow at 0": (np.power, (0.0, 2.0), 1, (0, 0)),
    "maximum": (np.maximum, (A, [5, -2, 9]), [1, 2, 1], ([0, 2, 0], [1, 0, 1])),
    "minimum": (np.minimum, (A, [5, -2, 9]), [1, 2, 1], ([1, 0, 1], [0, 2, 0])),
    "neg": (np.negative, (A,), [1, 2, 3], ([-1, -2, -3],)),
    "log": (np.log, ([1, 2, 4],), [1, 2, 3], ([1, 1, 0.75],)),
    "max": (np.max, ([[1, 3, 5], [3, 7, -2]],), 1, ([[0, 0, 0], [0, 1, 0]],)),
    "max of columns": (lambda x: np.max(x, axis=0), ([[1, 3, 5], [3, 7, -2]],), 1, ([[0, 0, 1], [1, 1, 0]],)),
    "max of rows": (lambda x: np.max(x, axis=1), ([[1, 3], [7, 2]],), [10, 20], ([[0, 10], [20, 0]],)),
    "max of unequal extents": (lambda x: np.max(x, axis=1), ([[1, 3, 2], [7, 2, 5]],), 1, ([[0, 1, 0], [1, 0, 0]],)),
    "max of a tie": (np.max, ([2, 2, 1],), 1, ([0.5, 0.5, 0],)),
    "sum": (lambda a, b: np.sum(a + b), (A, B), 2, ([2, 2, 2], [2, 2, 2])),
    "sum over a tuple": (lambda x: np.sum(x, axis=(0, 1)), (np.ones((2, 3)),), 2, (np.full((2, 3), 2),)),
    "transpose": (np.transpose, (np.ones((2, 4, 6)),), 1, (np.ones((2, 4, 6)),)),
    "turned": (lambda x: np.transpose(x, (2, 0, 1)), (np.ones((2, 4, 6)),), 1, (np.ones((2, 4, 6)),)),
    "getitem, twice the same": (lambda x: x[[0, 2, 2, 3]], ([1, 2, 3, 4],), 1, ([1, 0, 2, 1],)),
    "reshape": (lambda x: np.reshape(x, 6), (np.ones((2, 3)),), 1, (np.ones((2, 3)),)),
    "pad": (lambda x: np.pad(x, ((1, 0), (1, 0))), (np.ones((2, 3)),), 1, (np.ones((2, 3)),)),
    "clip": (lambda x: np.clip(x, 0, None), ([1, -3, 5],), [1, 2, 3], ([1, 0, 3],)),
    "matrix times vector": (np.matmul, ([[1, 2], [3, 4]], [5, 6]), [1, 1], ([[5, 6], [5, 6]], [4, 6])),
}


@pytest.mark.parametrize("case", TINYNN)
def test_tinynn_operations(case: str) -> None:
    f, x, g, expected = TINYNN[case]
    same(pulled(f, *x, g=g), *expected)


def test_tinynn_exponential() -> None:
    (found,) = pulled(np.exp, A, g=[1, 2, 3])
    np.testing.assert_allclose(found, np.exp(A) * [1, 2, 3], rtol=1e-15)


def test_tinynn_minimal_network_learns() -> None:
    x, w1, w2 = RNG.normal(size=(20, 6)), RNG.normal(size=(6, 8)), RNG.normal(size=(8, 1))
    y = np.sum(x, axis=1, keepdims=True)
    step = sg.value_and_grad(lambda w, x, y: np.sum((np.maximum(x @ w[0], 0) @ w[1] - y) ** 2))
    losses = []
    for _ in range(100):
        loss, (g1, g2) = step((w1, w2), x, y)
        w1, w2 = w1 - 0.0001 * g1, w2 - 0.0001 * g2
        losses.append(loss)
    assert np.all(np.diff(losses) < 0)


def test_tinynn_deep_chains() -> None:
    def deep(x: Any) -> Any:
        for _ in range(3000):
            x = x * 1.0001
        return x

    assert sg.grad(deep, options=sg.Options(compiler="none"))(1.0) == pytest.approx(1.0001**3000, rel=1e-11)


def test_tinynn_classifier_trains_with_adam() -> None:
    """784-200-100-70-30-10, rectifiers, Adam at 1e-3, batches of 128."""
    sizes = (784, 200, 100, 70, 30, 10)
    params = [(RNG.normal(size=(m, n)) * np.sqrt(2 / m), np.zeros(n)) for m, n in pairwise(sizes)]

    def loss(params: Any, x: Any, labels: Any) -> Any:
        for w, b in params[:-1]:
            x = np.maximum(x @ w + b, 0)
        logits = x @ params[-1][0] + params[-1][1]
        return np.mean(scipy.special.logsumexp(logits, axis=1) - logits[np.arange(128), labels])

    centers = RNG.normal(size=(10, 784))
    step = sg.value_and_grad(loss)
    flat = [a for pair in params for a in pair]
    first, second = [np.zeros_like(a) for a in flat], [np.zeros_like(a) for a in flat]
    losses = []
    for t in range(1, 31):
        labels = RNG.integers(0, 10, 128)
        value, grads = step([tuple(flat[k : k + 2]) for k in range(0, len(flat), 2)], centers[labels], labels)
        losses.append(value)
        for k, g in enumerate([g for pair in grads for g in pair]):
            first[k] += 0.1 * (g - first[k])
            second[k] += 0.001 * (g * g - second[k])
            flat[k] = flat[k] - 1e-3 * first[k] / (1 - 0.9**t) / (np.sqrt(second[k] / (1 - 0.999**t)) + 1e-8)
    assert losses[-1] < 0.1 * losses[0]

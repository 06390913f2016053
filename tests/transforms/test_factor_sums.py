"""Sums of products: taken before the product where one factor alone has the axis, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(5)
X, A, B, W = RNG.normal(size=(9, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(5, 4, 4)), RNG.normal(size=(9, 3, 4))


def sums_first(f: Any, *args: Any) -> bool:
    """Whether a sum comes before the first product of an optimized program."""
    text = f.lower(*args).as_text()
    products = [text.index(word) for word in (" @ ", "einsum(") if word in text]
    return bool(text.index("np.sum") < min(products))


SUMS: dict[str, tuple[Any, Any]] = {
    "a product": (lambda x, a: np.sum(x @ a, axis=0), (X, A)),
    "of a difference": (lambda x, a: np.sum(x - x @ a, axis=0), (X, A)),
    "of a negative": (lambda x, a: np.sum(-(x @ a), axis=0), (X, A)),
    "of a scaled term": (lambda x, a: np.sum(x @ a + x * a[0], axis=0), (X, A)),
    "of the other factor": (lambda x, a: np.sum(x @ a, axis=1), (X, A)),
    "two axes": (lambda w, a: np.sum(w @ a, axis=(0, 1)), (W, A)),
    "one of two axes": (lambda w, a: np.sum(w @ a, axis=1), (W, A)),
    "batches": (lambda x, b: np.sum(np.einsum("ni,kij->nkj", x, b), axis=0), (X, B)),
    "three factors": (lambda x, a, b: np.sum(np.einsum("ni,ij,kjl->nkl", x, a, b), axis=0), (X, A, B)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_those_of_the_products(name):
    function, args = SUMS[name]
    f = sg.jit(function)
    np.testing.assert_allclose(f(*args), function(*args), rtol=1e-13, atol=1e-13)
    plain = sg.jit(function, options=sg.Options(without=("factor_sums",)))
    plain(*args)
    assert f.cost().flops < plain.cost().flops


@pytest.mark.parametrize("name", SUMS)
def test_their_derivatives_to_second_order(name):
    function, args = SUMS[name]
    sg.check_grads(lambda *a: np.sum(np.sin(function(*a))), args, order=2)


OF_SUMS: dict[str, tuple[Any, Any, int]] = {
    "mean of scaled sums": (lambda w: np.mean(-0.5 * np.sum(np.exp(w), axis=1)), (W,), 1),
    "mean of means": (lambda w: np.mean(np.mean(w * w * w, axis=-1)), (W,), 1),
    "one after the other": (lambda w: np.sum(np.sum(np.sum(np.tanh(w), 0), 0) / 3, 0), (W,), 1),
    "some axes": (lambda w: np.sum(np.sum(np.sqrt(w * w + 1), axis=1) / 7, axis=-1), (W,), 1),
    "of singles": (lambda w: np.sum(2 * np.sum(np.exp(w), axis=2), axis=0), (W.astype(np.float32),), 1),
    "of scaled singles, left": (lambda w: np.sum(1e-9 * np.sum(np.exp(w), axis=2)), (W.astype(np.float32),), 2),
    "asked for, left": (lambda w: np.sum(s := np.sum(w**3, axis=2)) + s[0, 0], (W,), 2),
    "scaled by what varies, left": (lambda w, x: np.sum(np.sum(w**3, axis=1) * x), (W, X), 2),
    "divisors, left": (lambda w: np.sum(3 / np.sum(w**2 + 1, axis=1)), (W,), 2),
    "by zero, left": (lambda w: np.sum(0.0 * np.sum(w**3, axis=1)), (W,), 2),
}


@pytest.mark.parametrize("name", OF_SUMS)
def test_sums_of_sums_are_one(name):
    function, args, count = OF_SUMS[name]
    f = sg.jit(function)
    rtol = 1e-13 if args[0].dtype == np.float64 else 1e-6
    np.testing.assert_allclose(f(*args), function(*args), rtol=rtol)
    assert f.lower(*args).as_text().count("np.sum(") == count
    found, plain = [
        sg.grad(lambda *a: np.sum(function(*a)), options=sg.Options(without=left)) for left in ((), ("factor_sums",))
    ]
    np.testing.assert_allclose(found(*args), plain(*args), rtol=10 * rtol)


@pytest.mark.parametrize(("large", "function"), [
    (np.float32(4e37), lambda w: np.sum(np.sum(w, axis=1) / 4 / 4 / 4 / 4)),
    (np.float32(1e37), lambda w: np.sum(0.25 * (0.25 * np.sum(w, axis=1)))),
    (np.float32(4e37), lambda w: np.mean(1e-3 * np.sum(w, axis=1))),
    (np.float64(4e307), lambda w: np.sum(1e-300 * np.sum(w, axis=1))),
])
def test_sums_that_may_overflow_are_scaled_first(large, function):
    w = np.full((40, 2, 4), large)
    np.testing.assert_allclose(sg.jit(function)(w), function(w), rtol=1e-5)


LATE: dict[str, tuple[Any, Any]] = {
    "columns": (lambda x: np.tanh((z := x - x.mean(0)) / np.sqrt((z**2).mean(0) + 1)), (X,)),
    "rows": (lambda x: np.tanh((z := x.T - x.mean(0)[:, None]) / np.sqrt((z * z).mean(1) + 1)[:, None]), (X,)),
}


@pytest.mark.parametrize("name", LATE)
def test_what_waits_for_a_sum_is_multiplied_after_the_next_one(name):
    function, args = LATE[name]
    total = sg.jit(sg.grad(lambda *a: np.sum(function(*a))))
    plain = sg.jit(total, options=sg.Options(without=("factor_sums",)))
    np.testing.assert_allclose(total(*args), plain(*args), rtol=1e-12, atol=1e-12)
    assert total.lower(*args).as_text() != plain.lower(*args).as_text()
    sg.check_grads(lambda *a: np.sum(np.sin(function(*a))), args, order=2)


C, D, R = RNG.normal(size=4), RNG.normal(size=4) ** 2 + 1, RNG.normal(size=9)
OTHERS: dict[str, tuple[Any, int, tuple[Any, ...]]] = {
    "a factor more": (lambda x, c: np.sum(x, 0) - np.sum(x * c, 0), 1, (X, C)),
    "a divisor and a sign": (
        lambda x, c, d: np.sum(np.sin(x) * x, 0) - np.sum((-x * c) * (np.sin(x) / d), 0), 1, (X, C, D)),
    "the one with more stands before": (lambda x, c, d: np.sum(x * c * d, 0) * np.sum(d * -x, 0), 1, (X, C, D)),
    "scaled rows": (lambda x, r, d: np.sum(x * d, 1) + np.sum((x * d) / r[:, None], 1), 1, (X, R, D)),
    "one axis of two": (lambda w, c, d: np.sum(w * w, 1) - np.sum((w * c) * (w / d), 1), 1, (W, C, D)),
    "another factor": (lambda x, c, d: np.sum(x * c, 0) - np.sum(x * d, 0), 2, (X, C, D)),
    "another power": (lambda x: np.sum(x, 0) - np.sum(x * x, 0), 2, (X,)),
    "another axis": (lambda x, c: np.sum(x[:4], 0) - np.sum(x[:4] * c, 1), 2, (X, C)),
    "the divisor varies": (lambda x, c: np.sum(x, 0) - np.sum(c / x, 0), 2, (X, C)),
    "by itself": (lambda x: np.sum(np.exp(x) * np.exp(x), 0) - np.sum(np.exp(x) / np.exp(x), 0), 2, (X,)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_sum_with_more_factors_is_made_of_the_other_one(name):
    function, count, args = OTHERS[name]
    f = sg.jit(function)
    np.testing.assert_allclose(f(*args), function(*args), rtol=1e-12, atol=1e-12)
    assert f.lower(*args).as_text().count("np.sum") == count
    single = [a.astype(np.float32) for a in args]
    assert f.lower(*single).as_text().count("np.sum") >= 2


LEFT: dict[str, tuple[Any, Any]] = {
    "the factor's sum is larger": (lambda x, a: np.sum(x @ a[:, 0], axis=0), (X, A)),
    "both factors have the axis": (lambda x, a: np.sum(np.einsum("ni,nj->nij", x, x), axis=0) + a, (X, A)),
    "the product is used otherwise": (lambda x, a, z=None: np.sum(z := x @ a, axis=0) * z[0], (X, A)),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name):
    function, args = LEFT[name]
    f = sg.jit(function)
    np.testing.assert_allclose(f(*args), function(*args), rtol=1e-13, atol=1e-13)
    assert not sums_first(f, *args)


def test_the_gradient_of_an_offset_multiplies_once():
    """Of a mixture's distances by the means: n times less work than point by point."""
    def loss(means, lower, x):
        centred = x[:, None, :] - means
        return np.sum(np.square(np.einsum("kij,nkj->nki", lower, centred)))

    means = RNG.normal(size=(5, 4))
    f = sg.grad(loss)
    x = RNG.normal(size=(300, 4))
    expected = np.einsum("nki,kij->kj", -2 * np.einsum("kij,nkj->nki", B, x[:, None] - means), B)
    np.testing.assert_allclose(f(means, B, x), expected, rtol=1e-12)
    assert f.cost().flops < 1.6 * sg.jit(loss).lower(means, B, x).compile().cost().flops


@pytest.mark.parametrize("n", [0, 1, 40])
def test_open_extents(n):
    f = sg.grad(lambda b, x, a: np.sum(np.square((x - b) @ a)), dynamic={"x": "n,d", "a": "d,d", "b": "d"})
    x = RNG.normal(size=(n, 4))
    np.testing.assert_allclose(f(A[0], x, A), -2 * ((x - A[0]) @ A @ A.T).sum(axis=0), rtol=1e-12, atol=1e-12)


def test_values_that_are_not_finite_stay_so():
    function = lambda x, a: np.sum(x @ a, axis=0)  # noqa: E731
    diagonal = np.diag([1.0, 2.0, 3.0, 4.0]) + 1e-3
    for value in (np.inf, -np.inf, np.nan):
        x = X.copy()
        x[3, 1] = value
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(sg.jit(function)(x, diagonal), function(x, diagonal), rtol=1e-13)


def test_single_precision_keeps_the_products_first():
    """A sum of 1e36 overflows there where one of products with 1e-36 does not."""
    function = lambda x, a: np.mean(x @ a, axis=0)  # noqa: E731
    x, a = np.full((1000, 3), 1e36, np.float32), np.full((3, 3), 1e-36, np.float32)
    np.testing.assert_allclose(sg.jit(function)(x, a), function(x, a), rtol=1e-6)

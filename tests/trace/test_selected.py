"""Reductions of ``x[mask]`` with a traced mask, against NumPy's: values, dtypes, gradients, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.errors import ConcretizationError
from tests.night import some
from tests.table import richardson

X = np.array([0.3, -0.7, 1.2, 2.5, -0.1])
TOTALS = ("sum", "mean", "prod", "any", "all", "var", "std")
COMPILERS = (None, "none")


def of_function(name: str, limit: float) -> Any:
    return lambda x: getattr(np, name)(x[x > limit])


def of_method(name: str, limit: float) -> Any:
    return lambda x: getattr(x[x > limit], name)()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("made", [of_function, of_method])
@pytest.mark.parametrize("name", TOTALS)
def test_totals(name: str, made: Any, compiler: str | None):
    for limit in (0.0, -1.0, 1.0):
        fun = made(name, limit)
        compiled = sg.jit(fun, options=sg.Options(compiler=compiler))
        for dtype in (np.float64, np.float32, np.int64):
            x = (2 * X).astype(dtype)
            found, wanted = compiled(x), fun(x)
            assert found.dtype == wanted.dtype, (limit, dtype)
            np.testing.assert_allclose(found, wanted, rtol=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", TOTALS[:3])
def test_gradients_and_batches(name: str, compiler: str | None):
    options = sg.Options(compiler=compiler)
    fun = of_function(name, 0.0)
    slope = sg.grad(fun, options=options)(X)
    kept = X[X > 0]
    rule = {"sum": np.ones(3), "mean": np.full(3, 1 / 3), "prod": np.prod(kept) / kept}[name]
    np.testing.assert_allclose(slope[X > 0], rule, rtol=1e-14)
    assert not slope[X <= 0].any()
    rows = np.stack([X, X[::-1] - 0.5, 2 * X])
    np.testing.assert_allclose(sg.vmap(fun, options=options)(rows), [fun(row) for row in rows], rtol=1e-14)


def of_two(x: Any) -> Any:
    """Numbers of two that one mask selects, and of one with settings."""
    mask = x > 0.0
    a, b = x[mask], (x * x - 1)[mask]
    return (
        a @ b, np.dot(a, b + 1), a.dot(b), np.vdot(b, a), np.inner(a, a), np.matmul(a, b), np.linalg.norm(b),
        np.count_nonzero(np.rint(a)) * np.sum(a), np.var(a, ddof=1), np.std(b, correction=1),
        np.linalg.norm(np.sqrt(a)) ** 2,
    )


@pytest.mark.parametrize("compiler", COMPILERS)
def test_products_norms_and_spreads(compiler: str | None):
    options = sg.Options(compiler=compiler)
    for dtype in (np.float64, np.float32):
        x = X.astype(dtype)
        for found, wanted in zip(sg.jit(of_two, options=options)(x), of_two(x), strict=True):
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-13 if dtype == np.float64 else 1e-5)
    slopes = sg.jacrev(of_two, options=options)(X)
    differences = richardson(lambda h: np.array(of_two(X + h * X)), 1e-4)
    np.testing.assert_allclose([slope @ X for slope in slopes], differences, atol=1e-8)


# -- what leaves out the elements that are not selected, each in its way


ELEMENTS: dict[str, Any] = {
    "extrema": lambda a, _: (np.max(a), a.min(), np.ptp(a), np.maximum.reduce(a), np.nanmin(a), np.max(a, initial=9)),
    "orders": lambda a, _: (np.median(a), np.quantile(a, 0.3), np.percentile(a, [10, 50]), np.nanmedian(a)),
    "numbers": lambda a, w: (np.sum(a) / a.size, w.sum() / np.size(w, 0), a.shape[0] * a.sum(), np.mean(a, axis=0)),
    "averages": lambda a, w: (np.average(a), np.average(a, weights=w), np.nansum(a), np.nanstd(a)),
    "logsumexp": lambda a, w: (special.logsumexp(a), special.logsumexp(a, b=w)),
    "norms": lambda a, _: (np.linalg.norm(a, 3), np.linalg.norm(a, 1), np.linalg.norm(a, np.inf)),
    "each": lambda a, w: (np.sum(np.clip(a, 0.5, 1.5) * w), np.where(a > 1, a, 0 * w).sum(), a.round(1).sum()),
    "close": lambda a, w: (np.sum(1.0 * np.isclose(a, w)), np.sum(1.0 * np.isclose(a, w, rtol=2.0))),
    "kept": lambda a, w: (np.sum(w * (a - a.mean(keepdims=True)) ** 2), (w / np.max(w, keepdims=True)).sum()),
}
ROWS: dict[str, Any] = {
    "sums": lambda X, _: (X.sum(axis=0), np.mean(X, 0), np.prod(X, axis=0), X.std(axis=0), X.sum(), X.sum(axis=(0, 1))),
    "extrema": lambda X, _: (X.max(axis=0), np.min(X, 0), np.ptp(X, axis=0), np.max(X)),
    "orders": lambda X, _: (np.median(X, axis=0), np.quantile(X, [0.2, 0.7], axis=0)),
    "averages": lambda X, y: (np.average(X, axis=0, weights=y), special.logsumexp(X, axis=0), np.linalg.norm(X, 2)),
    "centred": lambda X, _: (np.sum((X - X.mean(axis=0)) ** 2), np.sum((X - X.max(axis=0, keepdims=True)) ** 3)),
    "products": lambda X, y: (np.sum((X @ np.arange(4.0) - y) ** 2), np.mean(np.dot(X, np.ones(4)) * y), y @ X),
    "transposes": lambda X, y: (X.T @ X, X.T @ y, np.dot(X.T, y), np.linalg.solve(X.T @ X + np.eye(4), X.T @ y)),
    "each row": lambda X, y: (np.prod(X.sum(axis=1)), np.sum(np.linalg.norm(X, axis=-1) * y), X.max(axis=1).max()),
}
WHOLE: dict[str, Any] = {
    "numbers": lambda a, b: (a.sum(), a.max(), a @ b, np.linalg.norm(a, 3), np.median(a), np.sum(a) / a.size),
}
M = np.array([[0.3, -1, 2, 0.5], [1, 0.2, -0.4, 3], [-2, 0.1, 0.7, -0.6]])
SELECTIONS = [
    *[(ELEMENTS[name], lambda x: (x[x > 0], (x * x)[x > 0]), X) for name in ELEMENTS],
    *[(ROWS[name], lambda x: (x[x[:, 0] > 0], x[:, 3][x[:, 0] > 0]), M) for name in ROWS],
    *[(WHOLE[name], lambda x: (x[x > 0], (x * x)[x > 0]), M) for name in WHOLE],
]
NAMES = [*ELEMENTS, *[f"rows: {name}" for name in ROWS], *[f"whole: {name}" for name in WHOLE]]


@pytest.mark.parametrize(("reduce", "select", "x"), some(SELECTIONS), ids=NAMES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_reductions(reduce: Any, select: Any, x: Any, compiler: str | None):
    options, fun = sg.Options(compiler=compiler), lambda x: reduce(*select(x))
    for dtype in (np.float64, np.float32):
        given = x.astype(dtype)
        for found, wanted in zip(sg.jit(fun, options=options)(given), fun(given), strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-13 if dtype == np.float64 else 1e-5)
    slopes = sg.jit(lambda x: sg.jvp(fun, (x,), (x,))[1], options=options)(x)
    for k, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, richardson(lambda h: np.asarray(fun(x + h * x)[k]), 1e-4), atol=1e-8)  # noqa: B023
    weighted = sg.grad(lambda x: sum((k + 1) * np.sum(y) for k, y in enumerate(fun(x))), options=options)
    along = sum((k + 1) * np.sum(slope) for k, slope in enumerate(slopes))
    np.testing.assert_allclose(np.sum(weighted(x) * x), along, rtol=1e-12, atol=1e-14)
    batch = np.stack([x, 0.5 * x])
    for found, *wanted in zip(sg.vmap(fun, options=options)(batch), *map(fun, batch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_size_and_kind(compiler: str | None):
    options = sg.Options(compiler=compiler)
    for name in ("max", "min", "median", "nanmax", "nanmedian", "ptp"):
        fun = sg.jit(of_function(name, 0.0), specs="f64[n]", options=options)
        for x in (X, X[:3], np.array([1.0, np.nan, -2.0]), np.array([0.5, np.inf])):
            np.testing.assert_allclose(fun(x), of_function(name, 0.0)(x), equal_nan=True)
        whole = sg.jit(of_function(name, 0), options=options)(np.array([3, -2, 7]))
        assert whole == (wanted := of_function(name, 0)(np.array([3, -2, 7])))
        assert whole.dtype == wanted.dtype
    low = np.array([-np.inf, 1.0])
    assert sg.jit(lambda x: np.max(x[x < 0]), options=options)(low) == -np.inf


@pytest.mark.parametrize("compiler", COMPILERS)
def test_of_no_element(compiler: str | None):
    """What has no value is NaN where NumPy warns; where NumPy raises an error, a call does."""
    options = sg.Options(compiler=compiler)
    for name in ("mean", "median", "average"):
        assert np.isnan(sg.jit(of_function(name, 9.0), options=options)(X))
    for name in ("max", "min", "ptp", "nanmax"):
        with pytest.raises(IndexError, match=r"test_selected.py"):
            sg.jit(of_function(name, 9.0), options=options)(X)
    assert sg.jit(lambda x: np.max(x[x > 9], initial=2.0), options=options)(X) == 2.0


NEED_MORE: list[Any] = [
    lambda x: np.dot(x[x > 0], 2.0), lambda x: x[x > 0] @ x[x > 1], lambda x: np.cumsum(x[x > 0])[-1],
    lambda x: np.linalg.norm(x[x > 0], -1), lambda x: np.argmax(x[x > 0]), lambda x: np.sum(x[x > 0], where=x > 1),
    lambda x: np.dot(np.ones(5), x[x > 0]), lambda x: np.matmul(x[x > 0], np.ones(3)), lambda x: x[x > 0] * np.ones(5),
    lambda x: np.average(x[x > 0], weights=np.ones(5)), lambda x: np.average(np.ones(5), weights=x[x > 0]),
    lambda x: np.sum(x[x > 0] + np.outer(x, x)[x > 0]), lambda x: np.inner(x[x > 0], np.outer(x, x)[x > 0]),
    lambda x: np.sum(np.outer(x, x)[x > 0] @ np.outer(x, x)[x > 0]), lambda x: x[x > 0].tolist(),
    lambda x: np.sort(x[x > 0]), lambda x: np.outer(x, x)[x > 0].T @ x, lambda x: np.sum(np.outer(x, x)[x > 0].T),
    lambda x: np.outer(x, x)[x > 0].T @ x[x > 1], lambda x: np.outer(x, x) @ np.outer(x, x)[x > 0].T,
    lambda x: np.outer(x, x)[x > 0] + np.outer(x, x)[x > 0].T, lambda x: np.outer(x, x)[x > 0].T,
]


@pytest.mark.parametrize("fun", NEED_MORE)
def test_what_needs_more_is_refused(fun: Any):
    with pytest.raises(ConcretizationError, match=r"which is not known(.|\n)*test_selected.py(.|\n)*dot products"):
        sg.jit(fun)(X)

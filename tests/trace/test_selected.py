"""Reductions of ``x[mask]`` with a traced mask, against NumPy's: values, dtypes, gradients, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcretizationError
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


NEED_MORE: list[Any] = [
    lambda x: np.dot(x[x > 0], 2.0), lambda x: np.sum(x[x > 0], axis=0), lambda x: x[x > 0] @ x[x > 1],
    lambda x: np.linalg.norm(x[x > 0], 3), lambda x: np.mean(x[x > 0], dtype=np.float32),
    lambda x: np.dot(np.ones(5), x[x > 0]), lambda x: np.matmul(x[x > 0], np.ones(3)),
]


@pytest.mark.parametrize("fun", NEED_MORE)
def test_what_needs_more_is_refused(fun: Any):
    with pytest.raises(ConcretizationError, match=r"which is not known(.|\n)*test_selected.py(.|\n)*dot products"):
        sg.jit(fun)(X)


@pytest.mark.parametrize("made", [of_function, of_method])
@pytest.mark.parametrize("name", ["min", "max"])
def test_an_extremum_is_refused(name: str, made: Any):
    with pytest.raises(ConcretizationError, match=r"which is not known(.|\n)*test_selected.py"):
        sg.jit(made(name, 0.0))(X)

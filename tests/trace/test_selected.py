"""Reductions of ``x[mask]`` with a traced mask, against NumPy's: values, dtypes, gradients, batches."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import optree
import pytest
from scipy import special

import symgrad as sg
from symgrad.errors import ConcretizationError, IndexOutOfBounds
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
    "places": lambda a, w: (
        a[0], a[-1] * w[1], a[np.argmax(w)], w[a.argmin()] + np.nanargmax(a), a[[0, -2]], a[-2:][0]),
    "slices": lambda a, w: (
        np.sum(a[1:] * w[:-1]), np.sum(a[::-1] * w), a[::2].sum(), np.prod(a[1:3]), np.sum(a[-2:]), np.sum(a[-2:-1]),
        a[5:].sum(), np.sum(a[:5]), np.mean(a[1::2]), np.sum(a[1:][::-1] * w[1:])),
    "running": lambda a, w: (
        np.cumsum(a)[-1], np.sum(a.cumprod() * w), np.max(np.cumsum(a) - w), np.sum(np.maximum.accumulate(w) * a)),
    "steps": lambda a, w: (
        np.diff(a).sum(), np.sum(np.abs(np.diff(w)) * a[1:]), np.sum(np.diff(a, 2) ** 2), np.trapezoid(w, a)),
    "sorts": lambda a, w: (np.sort(a)[1], np.sum(np.sort(a) * np.sort(w)[::-1]), np.sum(a[np.argsort(w)] * a)),
    "covariances": lambda a, w: (
        np.cov(a), np.cov(a, w), np.corrcoef(a, w), np.cov(np.stack([a, w]), ddof=0), np.cov(a, aweights=w + 2),
        np.corrcoef(np.column_stack([a, w]), rowvar=False), np.vstack([a, w]) @ a),
    "histograms": lambda a, w: (
        np.histogram(a, [0.0, 1, 3])[0], *np.histogram(a, 4), np.histogram(a, 3, (0, 2), density=True)[0],
        np.histogram(a, 3, (0, 2), weights=w)[0], *np.histogram2d(a, w, 2),
        np.bincount(np.floor(a).astype(int), minlength=4), np.bincount(np.floor(a).astype(int), w, minlength=4)),
    "fits": lambda a, w: (np.polyfit(a, w, 1), np.polyfit(a, a * w, 1, w=w + 2)),
    "chosen": lambda a, w: (a[a > 1].sum(), np.mean(w[(a > 0.5) & (w < 3)]), np.sum(a[w > 0] * w[w > 0])),
    "at tables": lambda a, _: (
        np.sum(np.interp(a, [0.0, 1, 3], [0.0, 2, 3])), np.sum(np.digitize(a, [0.5, 2])), np.sum(np.isin(a, [1.2])),
        np.sum(np.polyval([1.0, 2.0], a)), np.sum(np.searchsorted([0.5, 2.0], a)), np.sum(np.ones_like(a) + a.ravel())),
    "sets": lambda a, w: (np.unique(np.floor(a)).sum(), np.sum(np.unique(a)), np.unique(np.rint(w)).size * a.sum()),
    "weights": lambda a, w: (np.quantile(a, [0.2, 0.7], weights=w + 2, method="inverted_cdf"), np.sum(np.array(a))),
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
    "columns": lambda X, y: (
        X[:, 0] @ y, np.sum(X[:, 1:]), np.sum(X[:, :2] * y[:, None]), X[0], X[-1, 1:], X[:, [1, 0]].sum(),
        X[[1, 0], 1:], X[y > 1][0, :2]),
    "in order": lambda X, y: (
        np.cumsum(X, axis=0)[-1], np.argmax(X, axis=0) * y.sum(), np.sum(np.diff(X, axis=0)), np.sort(X, axis=0)[0],
        np.sum(np.sort(X)[:, 0] * y), X[np.argsort(y)][0, 1:], np.argmax(X) * y[0], np.sum(np.cumsum(X, axis=1) * X)),
    "histograms": lambda X, y: (
        *np.histogram(X, 3), *np.histogramdd(X[:, :2], 2)[1], np.histogramdd(X[:, :2], [2, 3])[0],
        np.histogram2d(y, X[:, 0], [2, 3], ((-1.2, 3.3), (-1, 1.5)))[0],
        np.quantile(X, 0.3, 0, weights=y, method="inverted_cdf")),
    "covariances": lambda X, y: (np.cov(X.T), np.cov(X, rowvar=False), np.corrcoef(X.T), np.polyfit(y, X, 1)[0]),
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
    for name in ("max", "min", "ptp", "nanmax", "argmax", "nanargmin"):
        with pytest.raises(IndexError, match=r"test_selected.py"):
            sg.jit(of_function(name, 9.0), options=options)(X)
    for fun in (lambda x: x[x > 1][2], lambda x: x[x > 1][-3], lambda x: np.cumsum(x[x > 9])[-1]):
        with pytest.raises(IndexError, match=r"test_selected.py"):
            sg.jit(fun, options=options)(X)
    for fun in (lambda x: np.sum(np.cumsum(x[x > 9])), lambda x: np.sum(np.diff(x[x > 2])),
                lambda x: np.sort(x[x > 9]).sum(), lambda x: np.histogram(x[x > 9], 3, (0, 1))[0].sum(),
                lambda x: np.unique(x[x > 9]).size):
        assert sg.jit(fun, options=options)(X) == fun(X) == 0
    assert sg.jit(lambda x: np.max(x[x > 9], initial=2.0), options=options)(X) == 2.0


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_order_of_what_has_equals_and_nans(compiler: str | None):
    options = sg.Options(compiler=compiler)
    values = ([3.0, 0, 255, 3, 0], [2, np.nan, 1, np.nan, 1], [np.inf, -np.inf, 1, np.inf, -np.inf])
    for name, dtype in product(("argmax", "argmin", "nanargmax", "nanargmin", "sort", "argsort", "unique"), "dlB"):
        def fun(x: Any, k: Any, name: str = name) -> Any:
            made = getattr(np, name)(x[k > 0])
            return made if np.ndim(made) == 0 else (made[0], made[-1], np.sum(np.clip(np.nan_to_num(made), 1, 9)))

        compiled = sg.jit(fun, options=options)
        masks = ([1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 1])
        for given, chosen in product(values if dtype == "d" else values[:1], masks):
            x, k = np.array(given, dtype), np.array(chosen)
            np.testing.assert_array_equal(compiled(x, k), fun(x, k), f"{name} of {x[k > 0]}")
    distinct = sg.jit(lambda x, k: sg.unique(x[k > 0], size=4, fill_value=-1.0), options=options)
    x, k = np.array([3.0, 9, 1, 3, 9]), np.array([1, 0, 1, 1, 0])
    np.testing.assert_array_equal(distinct(x, k), [1, 3, -1, -1])
    counted = sg.jit(lambda x, k: sg.unique(x[k > 0], True, return_counts=True, size=3), options=options)
    np.testing.assert_array_equal(counted(x, k), ([1, 3, 1], [1, 0, 1], [1, 2, 0]))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_is_in_order_is_written_through_the_mask(compiler: str | None):
    def fun(x: Any, A: Any) -> Any:
        y, B = x.copy(), A.copy()
        own = x[x > 0]
        own.sort()
        y[x > 0] = own
        y[x < 1] = np.cumsum(x[x < 1])[::-1]
        B[A > 0] = np.sort(A[A > 0])
        return y, B

    for found, wanted in zip(sg.jit(fun, options=sg.Options(compiler=compiler))(X, M), fun(X, M), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compress_by_a_traced_condition(compiler: str | None):
    def fun(A: Any, rows: Any, some: Any) -> Any:
        return np.compress(rows, A, axis=0).sum(axis=0), np.sum(A.compress(rows > 0, 0)), np.compress(some, A).sum()

    given = M, np.array([1, 0, 1]), np.array([1, 0, 0, 1, 1])  # the rest of all elements is not chosen
    for found, wanted in zip(sg.jit(fun, options=sg.Options(compiler=compiler))(*given), fun(*given), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-15)


def test_rows_and_columns_go_in_pairs() -> None:
    """As NumPy has it for two arrays of places; where a mask says how many rows there are, it is refused."""
    def pairs(x: Any, m: Any) -> Any:
        best = np.argmax(x[m], axis=0)
        return x[m][np.array([0, -1]), np.array([1, 2])], x[m][best, np.arange(3)], x[m][[[0], [1]], [1, 2]]

    x, m = np.arange(1.0, 19.0).reshape(6, 3), np.arange(6) % 2 == 1
    for specs in (None, ("f64[n,3]", "bool[n]")):
        for found, wanted in zip(sg.jit(pairs, specs=specs)(x, m), pairs(x, m), strict=True):
            np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ConcretizationError, match="an index by what a mask selects, and by an array for another axis"):
        sg.jit(lambda x, m: np.sum(x[m][np.argsort(x[m][:, 0]), np.array([0, 1, 2])]))(x, m)


# -- masks beside slices and integers


def mixed(A: Any, m: Any, r: Any, k: Any) -> Any:
    """Write by one mask in every place of an index: numbers, rows, columns, and by what the mask selects."""
    a = np.stack([A] * 16)
    a[0][m, :] = 0.5
    a[1][:, m] = r[0]
    a[2][m, m] = -2
    a[3][m, ...] = r
    a[4][..., m] += r[:, None]
    a[5][m, 1] *= 3
    a[6][k, m] -= r[k]
    a[7][m, None] = r[None, None]
    a[8][:, m] = 2 * A[:, m] + A[m, m]
    a[9][1:, m] *= np.sin(A[1:, m])
    a[10][m, :2] = np.exp(A)[m, 0:2]
    a[11][::2, m] /= r[::2][:, None] + 3
    a[12][m] = r[None]
    a[13][m, m] += A[m, k]
    a[:, 2][:, m] **= 2
    a[15:, :, m] = r[:, None] * a[1:2, :, m]
    return a


def deep(A: Any, m: Any, r: Any, k: Any) -> Any:
    """Write into arrays of more axes, by masks of more axes, also where NumPy puts the selected in front."""
    b = A[:, :, None] * (1 + np.arange(3.0))
    c, d, e, f = b.copy(), b.copy(), np.moveaxis(b, 2, 0).copy(), np.stack([A, A * A])
    M = r < A
    b[M, :] = np.arange(3.0)
    b[m, :, 1] -= r
    c[M, 1] = r[k]
    c[:, m, :] += np.array([1.0, 2, 3])
    d[k, :, k % 3] *= 2
    d[M, -1] = A[M] ** 2
    e[1:, M] = 4 * e[:-1, M] + r[k]
    e[0, :, m] = r  # the selected in front: a row for each
    e[..., M] += 1
    f[k % 2, m, :] = f[0, m] * r
    f[:, M] *= 1 + f[1][M]
    return b, c, d, e, f


def reads(A: Any, m: Any, r: Any, k: Any) -> Any:
    """Read by masks beside slices and integers."""
    t = A[:, m]
    return (
        np.sum(A[m, :] ** 2), np.sum(t**2), A[m, :].sum(axis=0), np.mean(t, axis=1), np.max(A[m, k]), A[m, m].sum(),
        A[m, :][:, [1, 0]].sum(), np.sum(A[m, 1:3] @ r[:2]), t.T @ r @ A[m, 0], t[0].sum(), t[1:, 0],
        np.sum((t - t.mean(axis=1, keepdims=True)) ** 2), np.sum(np.where(t > 0, t, r[:, None] * t)), (r[m] * t).sum(),
        np.prod(t[k] * r[m]), t[:, 1:].T.shape[0] * np.std(t), np.sum(A[..., m]), A[k, m].sum(), A[1:, m].max(axis=-1),
    )


MASKED = {"two axes": mixed, "more axes": deep, "reads": reads}
A, R = np.random.default_rng(3).normal(size=(5, 5)), np.random.default_rng(4).normal(size=5)
MASKS = np.array([[True, False, True, True, False], [False, False, True, False, True]])


def same(found: Any, wanted: Any) -> None:
    for one, own in zip(optree.tree_leaves(found), optree.tree_leaves(wanted), strict=True):
        assert one.shape == own.shape
        np.testing.assert_allclose(one, own, rtol=1e-13)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", MASKED)
def test_masks_beside_slices_and_integers(name: str, compiler: str | None):
    """Of masks that are arguments, from outside, and computed; of gradients the traced ones, along one direction."""
    options, fun = sg.Options(compiler=compiler), MASKED[name]
    same(sg.jit(fun, options=options)(A, MASKS[0], R, 3), fun(A, MASKS[0], R, 3))
    same(sg.jit(lambda A, r: fun(A, MASKS[1], r, 3), options=options)(A, R), fun(A, MASKS[1], R, 3))
    same(sg.jit(lambda A, r: fun(A, r <= r[1], r, 3), options=options)(A, R), fun(A, R[1] >= R, R, 3))

    def flat(A: Any, r: Any, m: Any) -> Any:
        return np.concatenate([np.ravel(one) for one in optree.tree_leaves(fun(A, m, r, 3))])

    along = sg.jit(lambda A, r, m: sg.jvp(lambda A, r: flat(A, r, m), (A, r), (A, r))[1], options=options)
    weights = np.cos(np.arange(len(flat(A, R, MASKS[0]))))
    back = sg.grad(lambda A, r, m: flat(A, r, m) @ weights, argnums=(0, 1), options=options)
    for m in MASKS:
        def moved(h: Any, m: Any = m) -> Any:
            return flat(A + h * A, R + h * R, m)

        slope, (dA, dr) = along(A, R, m), back(A, R, m)
        np.testing.assert_allclose(slope, richardson(moved, 1e-4), atol=1e-7)
        np.testing.assert_allclose(np.sum(dA * A) + dr @ R, slope @ weights, rtol=1e-10)
    batched = sg.vmap(fun, in_axes=(None, 0, None, None), options=options)(A, MASKS, R, 3)
    wanted = [optree.tree_leaves(fun(A, m, R, 3)) for m in MASKS]
    same(optree.tree_leaves(batched), [np.stack(each) for each in zip(*wanted, strict=True)])


def test_masks_beside_slices_of_open_extents():
    def fun(A: Any, m: Any) -> Any:
        B = A.copy()
        B[m, :] *= 2
        B[1:, m] = 0.5
        B[m, m] = A[:, m].sum(axis=1)[0]
        return B

    A, m = np.arange(25.0).reshape(5, 5), np.arange(5) % 2 == 0
    np.testing.assert_array_equal(sg.jit(fun, specs=("f64[n,n]", "bool[n]"))(A, m), fun(A, m))


OF_NONE: dict[str, Any] = {
    "histogram": lambda a: np.histogram(a, bins=3),
    "histogramdd": lambda a: np.histogramdd(np.stack([a, a], 1), bins=2)[0],
    "quantile": lambda a: np.quantile(a, 0.3), "percentile": lambda a: np.percentile(a, [30, 60]),
    "weighted quantile": lambda a: np.quantile(a, 0.3, weights=a, method="inverted_cdf"),
    "weighted average": lambda a: np.average(a, weights=a),
    "weights": lambda a: np.average(a, weights=a, returned=True)[1],
    "median": np.median, "mean": np.mean, "average": np.average, "cov": np.cov,
    "nanquantile": lambda a: np.nanquantile(a, 0.3),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", OF_NONE)
def test_of_none_as_numpy(name: str, compiler: str | None):
    """What NumPy refuses of no elements is refused at the call, by the user's line; the rest has NumPy's values."""
    def of_mask(x: Any, mask: Any) -> Any:
        return OF_NONE[name](x[mask])

    compiled, x = sg.jit(of_mask, options=sg.Options(compiler=compiler)), np.arange(1.0, 5)
    for mask in (x > 2, x > 9):
        try:
            wanted = of_mask(x, mask)
        except (IndexError, ZeroDivisionError):
            with pytest.raises(IndexOutOfBounds, match=r"test_selected\.py"):
                compiled(x, mask)
            with pytest.raises(IndexOutOfBounds, match=r"test_selected\.py"):  # also where a mask is looked through
                sg.vmap(of_mask, in_axes=(None, 0))(x, np.stack([x > 2, mask]))
            continue
        for found, own in zip(optree.tree_leaves(compiled(x, mask)), optree.tree_leaves(wanted), strict=True):
            np.testing.assert_allclose(found, own, rtol=1e-14)


def test_least_squares_of_what_is_selected_have_a_remedy():
    def of_selected(x: Any) -> Any:
        return np.linalg.lstsq(np.stack([x, x * x], 1)[x > 0], x[x > 0])[0]

    def remedy(x: Any) -> Any:
        A, y, mask = np.stack([x, x * x], 1), np.sin(x), x > 0
        return np.linalg.lstsq(np.where(mask[:, None], A, 0), np.where(mask, y, 0))[0], np.linalg.solve(
            A[mask].T @ A[mask], A[mask].T @ y[mask])

    with pytest.raises(ConcretizationError, match=r"np.linalg.lstsq\(np.where\(mask\[:, None\], A, 0\)"):
        sg.jit(of_selected)(X)
    for found in sg.jit(remedy)(X):
        np.testing.assert_allclose(found, np.linalg.lstsq(np.stack([X, X * X], 1)[X > 0], np.sin(X[X > 0]))[0])


NEED_MORE: list[Any] = [
    lambda x: np.dot(x[x > 0], 2.0), lambda x: x[x > 0] @ x[x > 1], lambda x: np.cumsum(x[x > 0]),
    lambda x: np.linalg.norm(x[x > 0], -1), lambda x: x[x > 0][None, :], lambda x: x[x > 0][:1:-1],
    lambda x: x[x > 0][np.arange(3) > 1], lambda x: np.cov(x[x > 0], x), lambda x: x[x > 0][1:] + x[x > 0],
    lambda x: np.polyfit(x[x > 0], x[x > 0], 1, cov=True), lambda x: sg.unique(x[x > 0], return_inverse=True, size=2),
    lambda x: np.array_equal(x[x > 0], x[x > 0]), lambda x: np.sum(np.cumsum(np.outer(x, x)[x > 0])),
    lambda x: np.sum(np.sort(np.outer(x, x)[x > 0], axis=None)), lambda x: np.sum(np.cov(np.outer(x, x)[x > 0])),
    lambda x: np.cov(np.outer(x, x)[x > 0].T, rowvar=False), lambda x: np.histogram(x, x[x > 0])[0],
    lambda x: np.stack([np.outer(x, x)[x > 0], np.outer(x, x)[x > 0]]).sum(), lambda x: x[x > 0][x[x > 1] > 2].sum(),
    lambda x: np.polyfit(x[x > 0], x[x > 0], 1, full=True)[1], lambda x: np.stack([x[x > 0], x[x > 0]], dtype=float),
    lambda x: np.quantile(np.outer(x, x)[x > 0], 0.3, 1, weights=x[x > 0], method="inverted_cdf"),
    lambda x: np.sum(x[x > 0], where=x > 1),
    lambda x: np.dot(np.ones(5), x[x > 0]), lambda x: np.matmul(x[x > 0], np.ones(3)), lambda x: x[x > 0] * np.ones(5),
    lambda x: np.average(x[x > 0], weights=np.ones(5)), lambda x: np.average(np.ones(5), weights=x[x > 0]),
    lambda x: np.sum(x[x > 0] + np.outer(x, x)[x > 0]), lambda x: np.inner(x[x > 0], np.outer(x, x)[x > 0]),
    lambda x: np.sum(np.outer(x, x)[x > 0] @ np.outer(x, x)[x > 0]), lambda x: x[x > 0].tolist(),
    lambda x: np.sort(x[x > 0]), lambda x: np.outer(x, x)[x > 0].T @ x,
    lambda x: np.outer(x, x)[x > 0].T @ x[x > 1], lambda x: np.outer(x, x) @ np.outer(x, x)[x > 0].T,
    lambda x: np.outer(x, x)[x > 0] + np.outer(x, x)[x > 0].T, lambda x: np.outer(x, x)[x > 0].T,
]


@pytest.mark.parametrize("fun", NEED_MORE)
def test_what_needs_more_is_refused(fun: Any):
    with pytest.raises(ConcretizationError, match=r"which is not known(.|\n)*test_selected.py(.|\n)*dot products"):
        sg.jit(fun)(X)

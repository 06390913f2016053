"""`Options(blas=True)`: large products and factorizations by SciPy's BLAS and LAPACK, each call counted."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import pointers
from symgrad.errors import ArgumentError, ToolchainError
from symgrad.options import Options

BLAS = Options(blas=True)
CALLED: Counter[str] = Counter()
PARAMETERS = {"gemm": 13, "trsm": 11, "potrf": 5, "getrf": 6}
KEPT: list[Any] = []  # libraries keep the addresses for the life of the process


@pytest.fixture(autouse=True, scope="module")
def counted():
    """Put a function that counts around each of SciPy's."""
    real = pointers.addresses

    def around(letter, name, address):
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * PARAMETERS[name])(address)

        def call(*pointers):
            CALLED[letter + name] += 1
            function(*pointers)

        KEPT.append(type(function)(call))
        return ctypes.cast(KEPT[-1], ctypes.c_void_p).value

    made = {
        letter: [around(letter, name, at) for (_, name), at in zip(pointers.NAMES, real(letter), strict=True)]
        for letter in pointers.KINDS.values()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pointers, "addresses", made.__getitem__)
        yield


@pytest.fixture(autouse=True)
def fresh():
    CALLED.clear()


def random(*shape, dtype="f8"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def near(found, expected, dtype="f8"):
    """Compare with what is right, by the largest element."""
    expected = np.asarray(expected)
    eps = 1e-11 if dtype == "f8" else 2e-3
    np.testing.assert_allclose(found, expected, rtol=eps, atol=eps * np.nanmax(abs(expected)))


PRODUCTS = {
    "a @ b": (lambda a, b: a @ b, (300, 90), (90, 120)),
    "a.T @ b": (lambda a, b: a.T @ b, (90, 300), (90, 120)),
    "a @ b.T": (lambda a, b: a @ b.T, (300, 90), (120, 90)),
    "a.T @ b.T": (lambda a, b: a.T @ b.T, (90, 300), (120, 90)),
    "rows and columns left out": (lambda a, b: a[::2] @ b[:, :120], (600, 90), (90, 150)),
    "few rows of a long product": (lambda a, b: a @ b, (40, 3000), (3000, 40)),
    "einsum, transposed": (lambda a, b: np.einsum("ik,kj->ji", a, b), (300, 90), (90, 120)),
    "tensordot": (lambda a, b: np.tensordot(a, b, ([0], [1])), (90, 300), (120, 90)),
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(("fun", "left", "right"), PRODUCTS.values(), ids=PRODUCTS)
def test_a_large_product_is_one_call(fun, left, right, dtype):
    a, b = random(*left, dtype=dtype), random(*right, dtype=dtype)
    near(sg.jit(fun, options=BLAS)(a, b), fun(a, b), dtype)
    assert dict(CALLED) == {("d" if dtype == "f8" else "s") + "gemm": 1}


@pytest.mark.parametrize("by", [0, 1])
def test_the_cotangent_of_one_is_one(by):
    a, b, g = random(300, 90), random(90, 120), random(300, 120)
    pulled = sg.jit(lambda a, b, g: sg.vjp(np.matmul, a, b)[1](g)[by], options=BLAS)(a, b, g)
    near(pulled, a.T @ g if by else g @ b.T)
    assert CALLED == {"dgemm": 1}


@pytest.mark.parametrize("turned", [False, True])
def test_columns_of_fortran(turned):
    a, b = np.asfortranarray(random(300, 90)), random(90, 120)
    near(sg.jit(lambda a, b: a @ b, options=BLAS)(a, np.asfortranarray(b) if turned else b), a @ b)
    assert CALLED["dgemm"] == 1


GENERATED = {
    "small": (lambda a, b: a @ b, (30, 90), (90, 120)),
    "no stride of one": (lambda a, b: a[:, ::2] @ b, (300, 180), (90, 120)),
    "with a function of it": (lambda a, b: np.tanh(a @ b) @ b.T, (300, 90), (90, 120)),
    "with its sum of squares": (lambda a, b: np.sum((a @ b) ** 2), (300, 90), (90, 120)),
    "both cotangents in one sweep":
        (lambda a, b: sum(np.sum(c) for c in sg.vjp(np.matmul, a, b)[1](a @ b)), (300, 90), (90, 120)),
}


@pytest.mark.parametrize(("fun", "left", "right"), GENERATED.values(), ids=GENERATED)
def test_what_is_small_or_fused_stays_generated(fun, left, right):
    a, b = random(*left), random(*right)
    near(sg.jit(fun, options=BLAS)(a, b), fun(a, b))
    assert not CALLED


def test_one_library_for_all_extents():
    fun = sg.jit(lambda a, b: a @ b, options=BLAS, dynamic={"a": "n,k", "b": "k,m"})
    for n, k, m, calls in ((300, 90, 120, 1), (3, 4, 5, 1), (0, 90, 120, 1), (300, 0, 120, 1), (128, 128, 128, 2)):
        a, b = random(n, k), random(k, m)
        near(fun(a, b) if n and k else fun(a, b) + 1, a @ b if n and k else a @ b + 1) if n else fun(a, b)
        assert CALLED["dgemm"] == calls


def definite(n, dtype="f8"):
    a = random(n, n, dtype=dtype)
    return a @ a.T + np.eye(n, dtype=dtype) * n


def lower(n, dtype="f8"):
    return np.tril(random(n, n, dtype=dtype)) + np.eye(n, dtype=dtype) * n


def small(n, dtype="f8"):
    return lower(n, dtype) / n


SOLVE = sg.linalg.solve_triangular
FACTORS = {
    "cholesky": (np.linalg.cholesky, np.linalg.cholesky, definite, 0, {"potrf"}),
    "solve": (np.linalg.solve, np.linalg.solve, random, 40, {"getrf", "trsm"}),
    "solve, one": (np.linalg.solve, np.linalg.solve, random, 1, {"getrf"}),
    "inv": (np.linalg.inv, np.linalg.inv, random, 0, {"getrf", "trsm"}),
    "det": (lambda a: np.linalg.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1], random, 0, {"getrf"}),
    "lower": (lambda a, b: SOLVE(a, b, lower=True), np.linalg.solve, lower, 40, {"trsm"}),
    "lower, transposed":
        (lambda a, b: SOLVE(a, b, lower=True, trans=1), lambda a, b: np.linalg.solve(a.T, b), lower, 40, {"trsm"}),
    "upper": (lambda a, b: SOLVE(a.T, b), lambda a, b: np.linalg.solve(a.T, b), lower, 40, {"trsm"}),
    "unit": (lambda a, b: SOLVE(a, b, lower=True, unit_diagonal=True),
             lambda a, b: np.linalg.solve(np.tril(a, -1) + np.eye(len(a)), b), small, 40, {"trsm"}),
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", [128, 201])
@pytest.mark.parametrize(("fun", "expected", "matrix", "columns", "called"), FACTORS.values(), ids=FACTORS)
def test_factorizations(fun, expected, matrix, columns, called, n, dtype):
    a = matrix(n, dtype=dtype) if matrix is not random else random(n, n, dtype=dtype) + 3 * np.eye(n, dtype=dtype)
    args = (a, random(n, columns, dtype=dtype))[: 1 + (columns > 0)]
    near(sg.jit(fun, options=BLAS)(*args), expected(*[x.astype("f8") for x in args]), dtype)
    letter = "d" if dtype == "f8" else "s"
    assert set(CALLED) == {letter + name for name in called}


def test_what_cannot_be_factorized():
    """Errors are those without a BLAS, and NaN goes through to the same places."""
    a = definite(200)
    factor = sg.jit(np.linalg.cholesky, options=BLAS)
    a[77, 77] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        factor(a)
    a[77, 77] = np.nan
    np.testing.assert_array_equal(np.isnan(factor(a)), np.isnan(sg.jit(np.linalg.cholesky)(a)))
    solve: Any = sg.jit(np.linalg.solve, options=BLAS)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        solve(np.ones((200, 200)), np.ones(200))
    assert set(CALLED) == {"dpotrf", "dgetrf"}


def reference(letter, real):
    """Give the functions of a LAPACK whose `potrf` stops at a pivot that is NaN, as the reference's does."""
    def potrf(_, order, a, by, failed):
        n, step = [ctypes.cast(p, ctypes.POINTER(ctypes.c_int))[0] for p in (order, by)]
        a = np.ctypeslib.as_array(ctypes.cast(a, ctypes.POINTER(ctypes.c_double)), (n, step))
        for k in range(n):
            a[k, k] -= a[k, :k] @ a[k, :k]
            if not a[k, k] > 0:
                ctypes.cast(failed, ctypes.POINTER(ctypes.c_int))[0] = k + 1
                return
            a[k, k] = np.sqrt(a[k, k])
            a[k + 1 :, k] = (a[k + 1 :, k] - a[k + 1 :, :k] @ a[k, :k]) / a[k, k]

    KEPT.append(ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(potrf))
    own = {"potrf": ctypes.cast(KEPT[-1], ctypes.c_void_p).value}
    return [own.get(name, at) for (_, name), at in zip(pointers.NAMES, real(letter), strict=True)]


def test_a_pivot_that_is_nan_where_the_library_stops_at_it(monkeypatch):
    real = pointers.addresses
    monkeypatch.setattr(pointers, "addresses", lambda letter: reference(letter, real))
    factor = sg.jit(lambda a: 3 * np.linalg.cholesky(a), options=BLAS)  # a module of its own, which keeps the functions
    a = definite(140)
    near(factor(a), 3 * np.linalg.cholesky(a))
    a[77, 77] = np.nan
    np.testing.assert_array_equal(np.isnan(factor(a)), np.isnan(sg.jit(np.linalg.cholesky)(a)))
    a[77, 77] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        factor(a)


def marginal(theta, X, y):
    """A Gaussian process's likelihood."""
    distances = np.sum((X[:, None] - X[None]) ** 2, axis=-1)
    kernel = np.exp(-0.5 * distances * np.exp(theta[0])) + np.exp(theta[1]) * np.eye(len(y))
    factor = np.linalg.cholesky(kernel)
    return 0.5 * y @ sg.linalg.cho_solve((factor, True), y) + np.sum(np.log(np.diagonal(factor)))


@pytest.mark.parametrize("mode", [sg.grad, sg.jacfwd, sg.hessian])
def test_derivatives_are_the_same(mode):
    args = np.array([0.5, -2.0]), random(150, 3), random(150)
    near(mode(marginal, options=BLAS)(*args), mode(marginal)(*args))
    assert CALLED["dpotrf"] == 1


def test_batches_and_threads():
    """A batch's factorizations are shared out among threads, each of which calls LAPACK."""
    stack = np.stack([definite(130), definite(130) + np.eye(130)])
    near(sg.jit(np.linalg.cholesky, options=BLAS)(stack), np.linalg.cholesky(stack))
    assert CALLED["dpotrf"] == 2


def test_a_library_from_the_cache_knows_it_too():
    a, b = random(300, 90), random(90, 120)
    for _ in range(2):
        near(sg.jit(lambda a, b: a @ b, options=BLAS)(a, b), a @ b)
    assert CALLED["dgemm"] == 2


def test_not_together_with_portable():
    with pytest.raises(ArgumentError, match=r"portable=True, blas=True.*order of operations") as caught:
        Options(portable=True, blas=True)
    assert "one of the two" in str(caught.value)


def test_other_integers_are_refused():
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    signature = b"void (char *, int64_t *, double *)"
    with pytest.raises(ToolchainError, match=r"dgemm has the parameters .*int64_t.*without C's int"):
        pointers._capsule_address(new(1, signature, None), "dgemm")

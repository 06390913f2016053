"""scipy.linalg's bands, equations and functions of a matrix: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg

import symgrad as sg
from symgrad.errors import ShapeError, UnsupportedError
from tests.night import some

RNG = np.random.default_rng(3)
N = 5
BAND = np.concatenate([0.3 * RNG.normal(size=(2, N)), 4.0 + RNG.uniform(size=(1, N))])
WIDE = np.concatenate([0.3 * RNG.normal(size=(2, N)), 4.0 + RNG.uniform(size=(1, N)), 0.3 * RNG.normal(size=(1, N))])
A, B = 0.5 * RNG.normal(size=(3, 3)) + 2 * np.eye(3), RNG.normal(size=(2, 2)) + 3 * np.eye(2)
Q = RNG.normal(size=(3, 2))
b, c, M = RNG.normal(size=N), RNG.normal(size=N) + 3 * (np.arange(N) == 0), RNG.normal(size=(5, 3))
LOW = BAND[::-1].copy()

CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "solve_banded": (lambda ab, x: linalg.solve_banded((1, 2), ab, x), (WIDE, b)),
    "solve_banded of columns": (lambda ab, x: linalg.solve_banded((1, 2), ab, x), (WIDE, RNG.normal(size=(N, 2)))),
    "solveh_banded": (linalg.solveh_banded, (BAND, b)),
    "solveh_banded, lower": (lambda ab, x: linalg.solveh_banded(ab, x, lower=True), (LOW, b)),
    "cholesky_banded": (linalg.cholesky_banded, (BAND,)),
    "cholesky_banded, lower": (lambda ab: linalg.cholesky_banded(ab, lower=True), (LOW,)),
    "cho_solve_banded": (lambda cb, x: linalg.cho_solve_banded((cb, False), x), (BAND, b)),
    "cho_solve_banded, lower": (lambda cb, x: linalg.cho_solve_banded((cb, True), x), (LOW, b)),
    "eigvals_banded": (linalg.eigvals_banded, (BAND,)),
    "eig_banded": (lambda ab: linalg.eig_banded(ab, lower=True)[1] ** 2, (LOW,)),
    "eigvalsh_tridiagonal": (linalg.eigvalsh_tridiagonal, (b, c[1:])),
    "eigh_tridiagonal": (lambda d, e: linalg.eigh_tridiagonal(d, e)[1] ** 2, (b, c[1:])),
    "solve_sylvester": (linalg.solve_sylvester, (A, B, Q)),
    "solve_continuous_lyapunov": (linalg.solve_continuous_lyapunov, (A, RNG.normal(size=(3, 3)))),
    "solve_circulant": (linalg.solve_circulant, (c, b)),
    "matmul_toeplitz": (lambda c, r, x: linalg.matmul_toeplitz((c, r), x), (c, b, M)),
    "orthogonal_procrustes": (linalg.orthogonal_procrustes, (M, RNG.normal(size=(5, 3)))),
    "rq": (lambda a: [linalg.rq(a)[0], linalg.rq(a)[1][-3:]], (M.T.copy(),)),
    "rq of a high one": (lambda a: linalg.rq(a, mode="r"), (A,)),
    "rq, economic": (lambda a: [*linalg.rq(a, mode="economic")], (M.T.copy(),)),
    "qr_multiply": (lambda a, x: [*linalg.qr_multiply(a, x)], (M, RNG.normal(size=(2, 5)))),
    "qr_multiply, left": (lambda a, x: [*linalg.qr_multiply(a, x, mode="left")], (M, RNG.normal(size=3))),
    "pinvh": (lambda a: linalg.pinvh(a @ a.T), (A,)), "pinvh, upper": (lambda a: linalg.pinvh(a, lower=False), (A,)),
    "cosm, sinm, tanm": (lambda a: [linalg.cosm(a), linalg.sinm(a), linalg.tanm(a)], (A,)),  # they share exponentials
    "expm_frechet": (
        lambda a, e: [*linalg.expm_frechet(a, e), linalg.expm_frechet(a, e, compute_expm=False)],
        (A, RNG.normal(size=(3, 3))),
    ),
}


@pytest.mark.parametrize("name", some(CALLS, of=3))
def test_values_and_derivatives(name):
    function, args = CALLS[name]

    def parts(*args):
        found = function(*args)
        return [*found] if isinstance(found, (list, tuple)) else [found]

    def total(*args):
        return sum([np.sum(np.sin(x)) for x in parts(*args)])

    for got, want in zip(sg.jit(parts)(*args), parts(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    sg.check_grads(total, args)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a band": (lambda ab: linalg.solve_banded((1, 1), ab, b), ShapeError, r"bands are 3 rows, not \(4, 5\)"),
    "some": (lambda ab: linalg.eigvals_banded(ab, select="i"), UnsupportedError, "a matrix of bands with select="),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    function, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        sg.jit(function)(WIDE)

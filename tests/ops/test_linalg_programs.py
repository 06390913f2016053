"""Programs around linear algebra: slices, joins and writes before and after it, chains, batches walked along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.table import richardson


def shifted(A, b):
    x = np.linalg.solve(A[1:, :-1] + 9 * np.eye(A.shape[0] - 1), b[1:] - b[:-1])
    return np.sum((x[1:] - x[:-1]) ** 2) + np.sum(np.diff(x) ** 3)


def rolled(A, b):
    P = A @ A.T + np.eye(A.shape[0])
    L = np.linalg.cholesky(P[2:, 2:])
    M = np.concatenate([L[1:], L[:1]])
    return np.sum(M[1:, :-1] * L[:-1, 1:]) + np.sum(np.roll(L, 1, axis=0) * P[1:-1, 1:-1]) + b[0]


def padded(A, b):
    T = np.pad(A, ((1, 0), (0, 1))) / 9 + 3 * np.eye(A.shape[0] + 1)
    z = sg.linalg.solve_triangular(T.T, np.pad(b, (0, 1)), lower=True)
    return np.sum(np.tanh(z[::2])) + np.sum(z[::-1][:-1] * z[1:])


def windows(A, b):
    S = np.stack([A[i : i + 5, i : i + 5] for i in range(6)]) + 5 * np.eye(5)
    sign, logarithm = np.linalg.slogdet(S)
    return np.sum(sign * logarithm) + np.sum(np.linalg.inv(S[2:])[:, 1:] * S[:-2][:, :-1]) * b[0]


def written(A, b):
    n = A.shape[0]
    x = np.zeros(n)
    x[:20] = np.linalg.solve(A[:20, :20] + 9 * np.eye(20), b[:20])
    x[20:] = np.linalg.solve(A[20:, 20:] + 9 * np.eye(n - 20), b[20:])
    return np.sum(np.linalg.inv(np.where(x[:, None] > 0, A, 0) + 12 * np.eye(n)) @ x)


def chained(A, b):
    for _ in range(4):
        b = np.tanh(np.linalg.solve(np.diag(b) + 4 * np.eye(A.shape[0]), A @ b))
    return np.sum(b)


def along_a_batch(A, b):
    S = np.reshape(A, (100, 4, 4)) + 4 * np.eye(4)
    x = np.linalg.solve(S, np.reshape(b, (10, 4, 1))[:1] + np.cumsum(S[:, :, :1], axis=0) / 50)
    return np.sum((x[1:] - x[:-1]) ** 2) + np.sum(np.linalg.det(S[2:] - S[:-2]) / 40)


PROGRAMS = [shifted, rolled, padded, windows, written, chained, along_a_batch]
NAMED = [shifted, rolled, padded, chained]


@pytest.mark.parametrize(("program", "specs"), [
    *[pytest.param(p, None, id=p.__name__) for p in PROGRAMS],
    *[pytest.param(p, ("f64[n,n]", "f64[n]"), id=f"{p.__name__} named") for p in NAMED]])
def test_program(program: Any, specs: Any) -> None:
    """Value, gradient by C and by the interpreter, and along a direction by differences."""
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(40, 40)), rng.normal(size=40)
    ways = rng.normal(size=(40, 40)), rng.normal(size=40)
    value, slopes = sg.value_and_grad(program, argnums=(0, 1), specs=specs)(A, b)
    assert value == pytest.approx(program(A, b), rel=1e-11)
    interpreted = sg.grad(program, argnums=(0, 1), options=sg.Options(compiler="none"))(A, b)
    for slope, other in zip(slopes, interpreted, strict=True):
        np.testing.assert_allclose(slope, other, rtol=0, atol=1e-10 * max(1e-9, np.max(np.abs(other))))
    found = sum(float(np.sum(s * w)) for s, w in zip(slopes, ways, strict=True))
    wanted = richardson(lambda h: program(A + h * ways[0], b + h * ways[1]), 1e-3)
    assert found == pytest.approx(wanted, rel=1e-6)

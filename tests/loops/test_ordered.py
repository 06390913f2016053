"""Loops around loops whose rows meet: gcc 12 must not vectorize them (`symgrad/loops/nest/ordered.py` says why)."""

from __future__ import annotations

import numpy as np

import symgrad as sg

GROUPS = [((0, 0), (1, 1)), ((2, 0), (1, 0)), ((3, 1), (1, 0), (0, 2)), ((1, 0), (2, 0), (1, 2), (3, 1))]


def windows(A, *weights):
    """Sum windows of a matrix: the cotangent is added to rows that meet."""
    total = 0.0
    for group, w in zip(GROUPS, weights, strict=True):
        _, n, m = w.shape
        windows = np.stack([A[r : r + n, c : c + m] for r, c in group])
        total += np.sum(np.exp(windows * 0.1) @ np.ones((m, m)) * w)
    return total


def test_rows_that_meet():
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=(9, 6)), *[rng.normal(size=(len(group), 5, 3)) for group in GROUPS]]
    compiled = sg.grad(windows)
    wanted = sg.grad(windows, options=sg.Options(compiler="none"))(*arguments)
    np.testing.assert_allclose(compiled(*arguments), wanted, rtol=1e-12, atol=1e-12)
    assert "IN_ORDER;" in compiled.c_source


def test_rows_that_do_not():
    smooth = sg.jit(lambda A: A[1:] + A[:-1])
    smooth(np.ones((6, 4)))
    assert "IN_ORDER" not in smooth.c_source

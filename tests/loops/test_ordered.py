"""What gcc 12 must be kept from: vectorizing loops around others whose rows meet, gathering what lies in a row."""

from __future__ import annotations

import re

import numpy as np
import pytest

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


def test_a_row_is_looked_up_before_its_elements() -> None:
    """In sums over a row gcc gathers elements one by one where the row's number is read inside."""

    def loss(table, w, words):
        return np.sum(np.sin((table[words[:, 0]] + table[words[:, 1]]) @ w))

    f = sg.value_and_grad(loss, argnums=(0, 1), options=sg.Options(threads=1))
    rng = np.random.default_rng(0)
    args = rng.normal(size=(50, 16)), rng.normal(size=16), rng.integers(-50, 50, size=(90, 2))
    loops = f.lower(*args).as_text("loops")
    summed = re.findall(r"in lanes.*# \+:acc.*\n((?: {16,}.*\n)+)", loops)
    assert [len(re.findall(r"table\[at\((\w+), 50\), \w+\]", body)) for body in summed] == [2]
    np.testing.assert_allclose(f(*args)[0], loss(*args), rtol=1e-13)
    with pytest.raises(IndexError):
        f(*args[:2], args[2] * 2)

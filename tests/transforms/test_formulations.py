"""What people write in several ways is one program: sums of products, slices of slices, lookups of each example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.table import INTERPRETED

RNG = np.random.default_rng(7)
A, B, U, T = RNG.normal(size=(5, 4)), RNG.normal(size=(4, 6)), RNG.normal(size=(9, 8)), RNG.normal(size=(7, 3, 4))
ROWS, J = RNG.integers(-7, 7, size=(6, 2)), RNG.integers(0, 4, size=2)


def each(f: Any, *axes: int | None) -> Any:
    return lambda table, *indices: sg.vmap(lambda *one: f(table, *one), in_axes=axes)(*indices)


SAME: dict[str, tuple[Any, tuple[Any, ...], str, int]] = {
    "a broadcast product": (lambda a, b: np.sum(a[:, :, None] * b, axis=1), (A, B), "np.sum", 0),
    "in another order": (lambda a, b: np.sum(b.T[:, None] * a, axis=-1), (A, B), "np.sum", 0),
    "an outer product": (lambda a, b: np.sum(a[:, 0, None] * b[0], axis=1), (A, B), "np.sum", 1),
    "scaled rows": (lambda a, b: np.sum(a * b[:, 0], axis=1), (A, B), "np.sum", 1),
    "a turned product": (lambda a, b: (b.T @ a.T).T, (A, B), "np.transpose", 2),
    "rows": (each(lambda t, i: t[i], 0), (T, ROWS), "each", 0),
    "and columns": (each(lambda t, i, j: t[i, :, j], 0, None), (T, ROWS, J), "each", 0),
    "the last axis": (each(lambda t, j: t[..., j], 0), (T, J), "each", 0),
    "of each example": (lambda t: sg.vmap(lambda a, k: a[:, k])(t, np.arange(7) % 4), (T,), "each", 1),
}


@pytest.mark.parametrize("name", SAME)
def test_one_program(name):
    f, args, word, count = SAME[name]
    assert sg.jit(f).lower(*args).as_text("optimized").count(word) == count
    plain = sg.jit(f, options=sg.Options(compiler="none", without=("cheaper",)))
    np.testing.assert_allclose(sg.jit(f, options=INTERPRETED)(*args), plain(*args), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("f", "count"), [
    (lambda u: np.sum(np.sin(np.diff(u, 2, axis=0)[:, 1:-1] + np.diff(u, 2, axis=1)[1:-1])), 1),
    (lambda u: np.sum(np.sin(np.roll(u, 1, 0) + np.roll(u, -1, 1) - 2 * u)[1:-1, 1:-1]), 2),  # one is scaled
    (lambda u: np.sum(np.diff(u, 4, axis=0) ** 3), 1),
])
def test_slices_of_slices_have_one_adjoint(f, count):
    g = sg.grad(f)
    assert g.lower(U).as_text("optimized").count("ops.place") == count
    plain = sg.grad(f, options=sg.Options(compiler="none", without=("cheaper",)))
    np.testing.assert_allclose(sg.grad(f, options=INTERPRETED)(U), plain(U), rtol=1e-12, atol=1e-13)

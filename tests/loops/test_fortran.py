"""Arrays that lie column by column are read as they lie: same numbers, no copy of them in a call."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.call import arguments
from symgrad.trace import signature


def large_from(monkeypatch, size):
    for module in (signature, arguments):  # where a call is described, and where it is looked up
        monkeypatch.setattr(module, "LARGE", size)


@pytest.fixture(autouse=True)
def small_arrays_count_as_large(monkeypatch):
    large_from(monkeypatch, 1)


PROGRAMS = [
    ("matrix and vector", lambda a, w: np.sum(np.tanh(a @ w[: a.shape[1]]))),
    ("transposed", lambda a, w: np.sum(a.T @ w[: a.shape[0]])),
    ("raveled", lambda a, w: np.sum(np.cumsum(a.ravel()) * w[0])),
    ("reshaped", lambda a, w: np.sum(a.reshape(-1, 2)[:, 0] * w[0])),
    ("sliced", lambda a, w: np.sum(a[1:, ::2] ** 2 * w[0])),
    ("picked", lambda a, w: np.sum(a[np.array([0, 2, 2])] * w[1])),
    ("product", lambda a, w: np.sum(np.sin(a @ a.T) * w[0])),
    ("column sums", lambda a, w: np.sum(np.exp(np.sum(a, axis=0)) * w[: a.shape[1]])),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", [p[1] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS])
def test_columns_give_what_rows_give(f, threads):
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(8, 6)), rng.normal(size=50)
    derived = sg.value_and_grad(f, argnums=(0, 1), options=sg.Options(threads=threads))
    rows = derived(a, w)
    columns = derived(np.asfortranarray(a), w)
    again = derived(a, w)  # neither layout is taken for the other one
    for found in (columns, again):
        np.testing.assert_allclose(found[0], rows[0], rtol=1e-13)
        for one, other in zip(found[1], rows[1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
    assert derived.cache_info().compilations == 2
    assert "argument a changed from f64[8,6] in C order to f64[8,6] in Fortran order" in derived.cache_info().reasons[1]


def test_a_column_array_of_three_axes_and_single_precision():
    rng = np.random.default_rng(1)
    a = np.asfortranarray(rng.normal(size=(3, 4, 5)).astype(np.float32))
    f = sg.jit(lambda a: np.einsum("ijk->kj", a) * 2)
    np.testing.assert_allclose(f(a), np.einsum("ijk->kj", a) * 2, rtol=1e-6)
    np.testing.assert_allclose(f(a[::-1]), np.einsum("ijk->kj", a[::-1]) * 2, rtol=1e-6)  # strided: copied
    assert "a[i*20" not in f.c_source


def test_small_ones_are_copied_and_compile_nothing_new(monkeypatch):
    large_from(monkeypatch, 1 << 16)
    f = sg.jit(lambda a: a @ a.T)
    for n in (10, 100):
        a = np.random.default_rng(2).normal(size=(n, n + 1))
        np.testing.assert_allclose(f(a), f(np.asfortranarray(a)), rtol=1e-12, atol=1e-12)
    assert f.cache_info().compilations == 3  # the large one has a compilation of its own


def test_fortran_inputs_are_not_copied():
    f = sg.jit(lambda a: np.sum(a, axis=0))
    a = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(f(a), np.sum(a, axis=0))
    assert "a[i*3" in f.c_source  # columns of three elements side by side

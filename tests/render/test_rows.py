"""Rows of an open extent that are added to one: four at once, with the sums of one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

SIZES = ((0, 3), (1, 1), (3, 5), (4, 8), (5, 9), (64, 50), (67, 1), (130, 65), (7, 0))


def weighted(a, X):
    return np.tanh(a) @ X


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sums_are_those_of_one_row_after_the_other(dtype):
    function = sg.jit(weighted, dynamic={"a": "n", "X": "n,d"})
    for n, d in SIZES:
        rng = np.random.default_rng(n)
        a, X = rng.normal(size=n).astype(dtype), rng.normal(size=(n, d)).astype(dtype)
        found = function(a, X)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.tanh(a).astype(float) @ X.astype(float), rtol=1e-4, atol=1e-5)
        for j in range(d):  # a column alone has the same order of additions
            column = function(a, np.ascontiguousarray(X[:, j : j + 1]))
            assert column[0] == found[j] or n > 64
    assert function.cache_info().compilations == 1


def test_they_are_printed_so_where_the_compiler_cannot_know():
    known = sg.jit(weighted, specs=("f64[n]", "f64[n,50]"))
    named = sg.jit(weighted, specs=("f64[n]", "f64[n,d]"))
    for function, several in ((known, False), (named, True)):
        function(np.ones(3), np.ones((3, 50)))
        assert ("+= 4) {" in function.c_source) is several

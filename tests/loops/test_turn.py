"""Rows of a tile as lanes, where what stands beside them is of unknown extent."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

SIZES = ((0, 3, 2), (1, 1, 1), (7, 10, 3), (64, 2, 10), (65, 10, 10), (200, 9, 17), (130, 33, 5))
NAMES = {"W": "d,k", "b": "k", "X": "n,d"}


def network(W, b, X):
    z = np.tanh(X @ W + b)
    return np.mean(np.log(np.sum(np.exp(z), axis=1))) + np.mean(np.max(z, axis=1))


def clusters(C, s, X):
    distances = np.sum((X[:, None, :] - C) ** 2 * s, axis=2)
    return np.mean(np.log(np.sum(np.exp(-distances), axis=1)))


def labelled(W, b, X, labels):
    z = X @ W + b
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(X.shape[0]), labels])


def drawn(n, d, k, dtype):
    rng = np.random.default_rng(n + d)
    return [rng.normal(size=size).astype(dtype) for size in ((d, k), (k,), (n, d))]


def agree(function, names, arguments, argnums=(0, 1), dtype=np.float64):
    """Compare with NumPy's numbers, and tell that one compilation served all sizes."""
    named = sg.value_and_grad(function, argnums=argnums, dynamic=names)
    plain = sg.value_and_grad(function, argnums=argnums, options=sg.Options(compiler="none"))
    for args in arguments:
        value, gradients = named(*args)
        expected, slopes = plain(*args)
        tolerance = 1e-11 if dtype == np.float64 else 2e-4
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
        for one, other in zip(gradients, slopes, strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    assert named.cache_info().compilations == 1
    return named


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_gradients_are_those_of_numpy(dtype):
    agree(network, NAMES, [drawn(n, d, k, dtype) for n, d, k in SIZES if n], dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_read_again_is_copied_once_for_a_tile(dtype):
    arguments = [(np.ascontiguousarray(W.T), np.abs(W[:, 0]), X) for W, _, X in
                 [drawn(n, d, k, dtype) for n, d, k in SIZES if n]]
    named = agree(clusters, {"C": "k,d", "s": "d", "X": "n,d"}, arguments, dtype=dtype)
    named(*arguments[0])
    assert "= X[i_n*d + j_d];" in named.c_source


def test_labels_look_up_columns_of_what_is_turned():
    arguments = [(*drawn(n, d, k, float), np.random.default_rng(n).integers(-k, k, n)) for n, d, k in SIZES if n]
    agree(labelled, {**NAMES, "labels": "n"}, arguments)


def lowered(function, *specs, argnums=0):
    return sg.value_and_grad(function, argnums=argnums).lower(*map(sg.spec, specs)).as_text("loops")


def test_what_lives_for_a_tile_has_the_rows_last():
    text = lowered(network, "f64[d,k]", "f64[k]", "f64[n,d]", argnums=(0, 1))
    assert '"float64", (k, 64))' in text
    assert "(64, k)" not in text


def test_an_input_that_is_read_once_keeps_its_order():
    def deviation(m, X):
        e = X - m
        return np.sum(e / np.sqrt(np.sum(e * e, axis=1, keepdims=True)))

    assert "d, 64)" not in lowered(deviation, "f64[d]", "f64[n,d]")


def test_known_extents_that_fill_lanes_and_pairs_of_samples_are_not_turned():
    def energy(X):
        return np.sum(np.tanh(X @ X.T) * np.sum(X, axis=1))

    assert "12, 64)" not in lowered(network, "f64[7,12]", "f64[12]", "f64[n,7]", argnums=(0, 1))
    assert "10, 64)" in lowered(network, "f64[7,10]", "f64[10]", "f64[n,7]", argnums=(0, 1))
    assert "(n, 64)" not in lowered(energy, "f64[n,d]")

"""Programs as people write them for autograd, and kernels of scientific codes: as in NumPy, and their derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.random as npr
import pytest
from scipy.integrate import solve_ivp
from scipy.special import logsumexp
from scipy.stats import multivariate_normal as mvn
from scipy.stats import norm, t

import symgrad as sg
from tests.table import INTERPRETED

RNG = np.random.default_rng(5)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {}


def program(*arguments: Any) -> Any:
    """Enter a loss with the arguments that it is differentiated by."""

    def enter(loss: Any) -> Any:
        PROGRAMS[loss.__name__] = loss, arguments
        return loss

    return enter


def squared_exponential(params: Any, x: Any, y: Any) -> Any:
    scale, lengths = np.exp(params[0]), np.exp(params[1:])
    apart = np.expand_dims(x / lengths, 1) - np.expand_dims(y / lengths, 0)
    return scale * np.exp(-0.5 * np.sum(apart**2, axis=2))


POINTS, HEIGHTS = RNG.normal(size=(6, 2)), RNG.normal(size=6)


@program(0.3 * RNG.normal(size=5))
def evidence_of_a_gaussian_process(params: Any) -> Any:
    noise = np.exp(params[1]) + 1e-3
    covariance = squared_exponential(params[2:], POINTS, POINTS) + noise * np.eye(len(HEIGHTS))
    return -mvn.logpdf(HEIGHTS, params[0] * np.ones(len(HEIGHTS)), covariance)


@program({"log weights": RNG.normal(size=3), "means": RNG.normal(size=(3, 2)), "roots": np.tile(np.eye(2), (3, 1, 1))})
def mixture_of_gaussians(params: Any) -> Any:
    weights = params["log weights"] - logsumexp(params["log weights"])
    parts = []
    for weight, mean, root in zip(weights, params["means"], params["roots"], strict=True):
        parts.append(weight + mvn.logpdf(POINTS, mean, np.dot(root.T, root)))
    return -np.sum(logsumexp(np.vstack(parts), axis=0))


WORDS = [RNG.integers(0, 4, n) for n in (5, 9, 5)]


@program([np.log(RNG.dirichlet(np.ones(n), rows)) for n, rows in ((3, None), (3, 3), (4, 3))])
def hidden_markov_model(chances: Any) -> Any:
    first, steps, shown = chances

    def likelihood(word: Any) -> Any:
        forward = first
        for letter in word:
            forward = logsumexp(forward[:, None] + steps, axis=0) + shown[:, letter]
        return logsumexp(forward)

    return sum(map(likelihood, WORDS))


def layers(sizes: Any, rs: Any) -> Any:
    return [(0.5 * rs.randn(m, n), rs.randn(n)) for m, n in itertools.pairwise(sizes)]


IMAGES = RNG.normal(size=(12, 5))


@program(layers([5, 4, 2], npr.RandomState(0)), layers([1, 3, 5], npr.RandomState(1)))
def variational_autoencoder(encoder: Any, decoder: Any, step: int = 2) -> Any:
    def net(params: Any, inputs: Any) -> Any:
        for W, b in params[:-1]:
            outputs = np.dot(inputs, W) + b
            spread = np.std(outputs, axis=0, keepdims=True)
            inputs = np.maximum(0, (outputs - np.mean(outputs, axis=0, keepdims=True)) / (spread + 1))
        return np.dot(inputs, params[-1][0]) + params[-1][1]

    rows = slice(step * 4, (step + 1) * 4)
    mean, log_std = np.hsplit(net(encoder, IMAGES[rows]), 2)
    latent = npr.RandomState(3).randn(*mean.shape) * np.exp(log_std) + mean
    seen = -np.logaddexp(0, -net(decoder, latent) * IMAGES[rows])
    return -np.mean(np.sum(norm.logpdf(latent, 0, 1), -1) - np.sum(norm.logpdf(latent, mean, np.exp(log_std)), -1)
                    + np.sum(seen, -1))


@program(RNG.normal(size=(4, 2)), RNG.normal(size=(2, 6)), 0.1)
def sources_of_heavy_tails(mixing: Any, latents: Any, log_width: Any) -> Any:
    return -np.sum(t.logpdf(np.dot(mixing, latents).T, 2.4, IMAGES[:6, :4], np.exp(log_width)))


@program(RNG.uniform(1, 2, 7), RNG.normal(size=5))
def rows_of_a_sparse_matrix(values: Any, x: Any) -> Any:
    ends, columns = np.array([0, 2, 2, 5, 7]), np.array([1, 3, 0, 2, 4, 1, 2])
    y = np.empty(len(ends) - 1, values.dtype)
    for i in range(len(ends) - 1):
        y[i] = values[ends[i] : ends[i + 1]] @ x[columns[ends[i] : ends[i + 1]]]
    return np.sum(np.sin(y))


@program(RNG.normal(size=(3, 5)), RNG.normal(size=(3, 6)))
def sweeps_of_a_tridiagonal_system(stage: Any, wind: Any) -> Any:
    rows, count = stage.shape
    upper, right = np.ndarray((rows, count)), np.ndarray((rows, count), dtype=stage.dtype)
    for k in range(count):
        below = 0.25 * wind[:, k] if k else 0.0
        upper[:, k] = 0.25 * wind[:, k + 1]
        scale = 1.0 / (3.0 - upper[:, k] - below * (upper[:, k - 1] if k else 0.0))
        right[:, k] = (stage[:, k] - below * (right[:, k - 1] if k else 0.0)) * scale
        upper[:, k] = upper[:, k] * scale
    for k in range(count - 2, -1, -1):
        right[:, k] -= upper[:, k] * right[:, k + 1]
    return np.sum(right**2)


@program(RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3)))
def bodies(places: Any, speeds: Any) -> Any:
    places, speeds, energies = places.copy(), speeds.copy(), np.ndarray(3)
    for i in range(3):
        apart = places[:, None] - places
        square = np.sum(apart**2, -1) + 0.1
        square[square > 0] = square[square > 0] ** -1.5
        speeds -= 0.1 * np.sum(apart * square[..., None], axis=1)
        places += 0.1 * speeds
        energies[i] = np.sum(speeds**2)
    return np.sum(energies)


MOMENTS = np.linspace(0.0, 2.0, 5)


@program(layers([2, 4, 2], npr.RandomState(2)))
def differential_equation_of_a_network(params: Any) -> Any:
    def slope(_: Any, y: Any, params: Any) -> Any:
        for weights, offset in params:
            out = np.dot(y, weights) + offset
            y = np.tanh(out)
        return out

    way = solve_ivp(slope, (0.0, 2.0), np.array([1.0, 0.2]), t_eval=MOMENTS, args=(params,), rtol=1e-8, atol=1e-9)
    return np.mean(np.abs(way.y - 2.0))


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_numpy(name: str) -> None:
    loss, arguments = PROGRAMS[name]
    value, slopes = sg.value_and_grad(loss, argnums=tuple(range(len(arguments))), options=INTERPRETED)(*arguments)
    assert value == pytest.approx(loss(*arguments), rel=1e-12)
    at, unflatten = sg.ravel_pytree(arguments)
    slope, _ = sg.ravel_pytree(slopes)
    for _ in range(3):
        way = RNG.normal(size=at.size) * 1e-5
        want = loss(*unflatten(at + way)) - loss(*unflatten(at - way))
        assert 2 * slope @ way == pytest.approx(want, rel=1e-4, abs=1e-9)

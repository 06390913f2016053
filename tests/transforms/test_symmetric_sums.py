"""Sums along either axis of an array of pairs: taken once where they add the same terms, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.ir.evaluate import evaluate
from symgrad.transforms.build import inline
from symgrad.transforms.factor_sums import factor_sums
from symgrad.transforms.rewrite.cheaper import cheaper
from symgrad.transforms.symmetric_sums import symmetric_sums

RNG = np.random.default_rng(11)
N = 7
X, Y, Z = RNG.normal(size=(N, 3)), RNG.normal(size=(N, 3)), RNG.normal(size=(N, 4))
T, M, W = RNG.normal(size=N), RNG.uniform(1.0, 2.0, size=N), RNG.normal(size=(N, N))
DIAGONAL = np.eye(N, dtype=bool)
WEIGHTS = W.tolist()  # lists are constants, arrays inputs
NEARLY = (W + W.T + 1e-15 * np.triu(np.abs(W + W.T))).tolist()


def apart(x):
    return x[:, None, :] - x[None, :, :]


def squares(x):
    return np.sum(apart(x) ** 2, axis=-1)


def from_products(x):
    lengths = np.sum(x**2, axis=1)
    return lengths[:, None] + lengths[None, :] - 2 * x @ x.T


def lennard_jones(x):
    square = squares(x) + np.eye(N)
    return np.sum(np.where(DIAGONAL, 0.0, square**-6 - square**-3))


def masked(x):
    square = np.where(DIAGONAL, 1.0, squares(x))
    return np.sum(np.where(DIAGONAL, 0.0, 1 / np.sqrt(square)))


def student(x):
    q = 1 / (1 + squares(x))
    return -np.sum(np.log(q / np.sum(q)))


def discrepancy(x):
    kernel, across = np.exp(-squares(x)), np.exp(-np.sum((x[:, None] - Y) ** 2, axis=-1))
    return np.mean(kernel) - 2 * np.mean(across)


def by_coordinates(x):
    a, b = x[:, 0], x[:, 1]
    return np.sum(np.exp(-((a[:, None] - a) ** 2) - np.abs(b[:, None] - b)))


def coordinates_first(x):
    columns = x.T
    return np.sum(np.exp(-np.sum((columns[:, :, None] - columns[:, None, :]) ** 2, axis=0)))


def both_ways(z):
    likeness = z @ z.T
    return np.sum(special.logsumexp(likeness, axis=1) + special.logsumexp(likeness, axis=0)) - 2 * np.trace(likeness)


ONCE: dict[str, tuple[Any, Any]] = {
    "an energy": (lambda x, m: -0.5 * np.sum(m[:, None] * m / np.sqrt(squares(x) + 0.01)), (X, M)),
    "an energy by masses": (lambda m, x: np.sum(m[:, None] * m / np.sqrt(squares(x) + 0.01)), (M, X)),
    "powers": (lennard_jones, (X,)),
    "a masked diagonal": (masked, (X,)),
    "a unit matrix added": (lambda x: np.sum(1 / np.sqrt(squares(x) + np.eye(N))), (X,)),
    "lengths": (lambda x: np.sum(np.linalg.norm(apart(x), axis=-1)), (X,)),
    "a kernel": (lambda x: np.sum(np.exp(-squares(x))), (X,)),
    "a kernel of products": (lambda x: np.sum(np.exp(-0.5 * from_products(x))), (X,)),
    "two samples": (discrepancy, (X,)),
    "neighbours": (student, (X,)),
    "weights made symmetric": (lambda x, w: np.sum((w + w.T) * squares(x)), (X, W)),
    "stress": (lambda x: np.sum((np.sqrt(squares(x) + 1e-3) - np.abs(W + W.T)) ** 2), (X,)),
    "a margin": (lambda x: np.sum(np.maximum(0, 2 - np.sqrt(squares(x) + 1e-3)) ** 2), (X,)),
    "phases": (lambda t: np.sum(np.cos(t - t[:, None])), (T,)),
    "how many are apart": (lambda t: np.sum((t[:, None] - t).astype(bool) * (3 * t[:, None] - t)), (T,)),
    "mean difference": (lambda t: np.sum(np.abs(t[:, None] - t)), (T,)),
    "the smaller one": (lambda t: np.sum(np.minimum(t[:, None], t)), (T,)),
    "an outer difference": (lambda t: np.sum(np.exp(-(np.subtract.outer(t, t) ** 2))), (T,)),
    "counted places": (
        lambda t: np.sum(np.where(np.arange(N)[:, None] != np.arange(N), np.exp(-((t[:, None] - t) ** 2)), 0)), (T,),
    ),
    "coordinates alone": (by_coordinates, (X,)),
    "coordinates first": (coordinates_first, (X,)),
    "softmax both ways": (both_ways, (Z,)),
    "squared products": (lambda z: np.sum((z.T @ z) ** 2), (Z,)),
    "products without diagonal": (lambda z: np.sum((z.T @ z * (1 - np.eye(4))) ** 2), (Z,)),
    "a quadratic form": (lambda t, w: t @ (w @ w.T) @ t, (T, W)),
}

LEFT: dict[str, tuple[Any, Any]] = {
    "weights": (lambda x, w: np.sum(w * np.exp(-squares(x))), (X, W)),
    "a constant of weights": (lambda x: np.sum(np.array(WEIGHTS) * np.exp(-squares(x))), (X,)),
    "nearly symmetric weights": (
        lambda x: np.sum(np.array(NEARLY) * np.exp(-squares(x))), (X,),
    ),
    "two arrays": (lambda x, y: np.sum(np.exp(-np.sum((x[:, None] - y) ** 2, axis=-1))), (X, Y)),
    "what is before": (
        lambda t: np.sum(np.where(np.arange(N)[:, None] < np.arange(N), np.exp(-((t[:, None] - t) ** 2)), 0)), (T,),
    ),
    "what is earlier": (lambda t: np.sum(np.where(t[:, None] > t, np.exp(-np.abs(t[:, None] - t)), 0)), (T,)),
    "a triangle": (lambda t: np.sum(np.triu(np.exp(-((t[:, None] - t) ** 2)), 1)), (T,)),
    "an offset": (lambda x: np.sum(np.sum((apart(x) + 0.1) ** 2, axis=-1) ** 2), (X,)),
    "an inverse, which sees the sign of 0": (lambda t: np.sum(1 / (t[:, None] - t + 0 * np.array(WEIGHTS))), (T,)),
    "softmax one way": (lambda z: np.sum(special.logsumexp(z @ z.T, axis=1)), (Z,)),
    "forces": (lambda t: np.sum(np.sum(np.sin(t - t[:, None]), axis=1) ** 2), (T,)),
}
ALL = ONCE | LEFT


def program_of(name: str):
    """Return the program of a gradient, as it is when its sums are looked at."""
    function, args = ALL[name]
    return factor_sums(cheaper(inline(sg.grad(function).lower(*args).stages.of("derived"))))


@pytest.mark.parametrize("name", ONCE)
def test_one_of_two_sums(name):
    program = program_of(name)
    assert len([n for n in symmetric_sums(program).nodes() if n.op.name in SUMS]) < len(
        [n for n in program.nodes() if n.op.name in SUMS]
    )


SUMS = {"sum", "einsum", "max"}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name):
    program = program_of(name)
    assert symmetric_sums(program) is program


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_those_of_both_sums(name):
    """At random points, and where there are ties, zeros of both signs, numbers beyond all others and NaN."""
    program = program_of(name)
    args, rng = ALL[name][1], np.random.default_rng(3)
    special_ones = [0.0, -0.0, 1.0, 1.0, -1.0, 2.5, 1e200, np.inf, -np.inf, np.nan]
    for choice in (None, special_ones[:6], special_ones[:7], special_ones):
        drawn = [rng.normal(size=a.shape) if choice is None else rng.choice(choice, size=a.shape) for a in args]
        drawn += [globals()[node.param("name")] for node in program.inputs[len(args):]]  # read from outside
        for found, expected in zip(evaluate(symmetric_sums(program), drawn), evaluate(program, drawn), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["an energy", "lengths", "a kernel of products", "phases", "squared products"])
def test_derivatives_to_second_order(name):
    function, args = ONCE[name]
    sg.check_grads(function, args, order=2)


def energy(x, m):
    return -0.5 * np.sum(m[:, None] * m / np.sqrt(squares(x) + 0.01))


def forces(x, m):
    """Return the gradient as one writes it by hand."""
    between = apart(x)
    pull = m[:, None] * m / (np.sum(between**2, axis=-1) + 0.01) ** 1.5
    return np.sum(pull[:, :, None] * between, axis=1)


@pytest.mark.parametrize("n", [0, 1, 2, 33, 400])
def test_open_extents_and_threads(n):
    f = sg.grad(energy, dynamic={"x": "n,_", "m": "n"}, options=sg.Options(threads=2))
    x, m = np.random.default_rng(n).normal(size=(n, 3)), np.linspace(1.0, 2.0, n)
    np.testing.assert_allclose(f(x, m), forces(x, m), rtol=1e-11, atol=1e-11)
    assert f.lower(x, m).as_text().count("np.sum(") == 2


def test_single_precision():
    x, m = X.astype(np.float32), M.astype(np.float32)
    found = sg.grad(energy)(x, m)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, forces(X, M), rtol=1e-4, atol=1e-4)


def test_batches_and_second_derivatives():
    many = RNG.normal(size=(3, N, 3))
    batched = sg.vmap(sg.grad(energy), in_axes=(0, None))
    np.testing.assert_allclose(batched(many, M), [forces(x, M) for x in many], rtol=1e-12)
    second = sg.hvp(lambda x: energy(x, M))
    expected = (forces(X + 1e-6 * Y, M) - forces(X - 1e-6 * Y, M)) / 2e-6
    np.testing.assert_allclose(second(X, Y), expected, rtol=1e-6, atol=1e-6)


def test_the_kept_sum_is_the_one_along_rows():
    text = sg.grad(energy).lower(X, M).as_text()
    assert "axis=(0,)" not in text
    assert "+= -" not in sg.grad(energy).lower(X, M).as_text("c")


def test_sums_of_other_extents_are_apart():
    f = sg.grad(lambda x: np.sum(np.exp(-np.sum((x[:, None] - Y[:5]) ** 2, axis=-1))))
    assert f.lower(X).as_text().count("np.sum(") == 2

"""Derivatives of any order, through steps and branches that a derivative must not forget anything of.

What a step does not use has no gradient, whatever its slope is there; what factors hold is known by the matrix alone.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.control.programs import Plain
from tests.control.test_control import differences
from tests.table import INTERPRETED

X = np.array([0.0, 1.0, 4.0])


def root_of_rows(m, x):
    return np.sum(m.scan(lambda c, row: (c + np.where(row[0] > 0, row[1], 0.0), None), 0.0, (x, np.sqrt(x)))[0])


def root_that_stays(m, x):
    root = np.sqrt(x)
    return np.sum(m.fori_loop(0, 2, lambda _, c: c + np.where(x > 0, root, 0.0), np.zeros(3)))


def root_to_begin_with(m, x):
    return np.sum(m.fori_loop(0, 2, lambda _, c: np.where(x > 0, c, 0.0), np.sqrt(x)))


def root_of_the_step_before(m, x):
    def step(_, state):
        total, root = state
        return total + np.where(x > 0, root, 0.0), np.sqrt(x)

    return np.sum(m.fori_loop(0, 3, step, (np.zeros(3), np.zeros(3)))[0])


def root_of_another_loop(m, x):
    _, roots = m.scan(lambda c, row: (c, np.sqrt(row)), 0.0, x)
    return m.scan(lambda c, row: (c + np.where(row[0] > 0, row[1], 0.0), None), 0.0, (x, roots))[0]


def root_that_is_overwritten(m, x):
    roots = np.sqrt(x)

    def step(out, k):
        out = np.copy(out)
        out[k] = 2.0
        return out, None

    return np.sum(m.scan(step, roots, np.array([0, 0]))[0])


def root_by_its_place(m, x):
    root = np.sqrt(x)
    return m.scan(lambda c, k: (c + root[k], None), 0.0, np.array([1, 2]))[0]


def root_in_a_branch(m, x):
    root = np.sqrt(x)
    return np.sum(m.cond(np.sum(x) > 0, lambda r, x: np.where(x > 0, r, 0.0), lambda r, x: r + x, root, x))


def root_in_the_other_branch(m, x):
    return m.cond(x[0] > 0, lambda r, _: r, lambda _, x: np.sum(np.sqrt(x[1:])), np.sqrt(x[0]), x)


def root_of_no_step(m, x):
    root = np.sqrt(x[0])
    steps = np.sum(np.where(x < 0, 1, 0))
    return m.fori_loop(0, steps, lambda _, c: c + root, 0.0) + np.sum(np.sqrt(x[1:]))


def root_of_a_while(m, x):
    root = np.sqrt(x)

    def step(state):
        k, c = state
        return k + 1, c + np.where(x > 0, root, 0.0)

    return np.sum(m.while_loop(lambda state: state[0] < 2, step, (0, np.zeros(3)), max_steps=4)[1])


ROOTS = {
    root_of_rows: 1, root_that_stays: 2, root_to_begin_with: 1, root_of_the_step_before: 2, root_of_another_loop: 1,
    root_that_is_overwritten: 1, root_by_its_place: 1, root_in_a_branch: 1, root_in_the_other_branch: 1,
    root_of_no_step: 1, root_of_a_while: 2,
}
"""How often the roots of what is larger than 0 are added up."""


@pytest.mark.parametrize(("function", "times"), ROOTS.items(), ids=[f.__name__ for f in ROOTS])
def test_what_a_step_does_not_use_has_no_gradient(function, times):
    def f(x):
        return function(sg, x)

    slope = times * np.array([0, 0.5, 0.25])
    bend = times * np.array([0, -0.25, -1 / 32])
    gradient = sg.grad(f, options=INTERPRETED)
    np.testing.assert_allclose(gradient(X), slope, rtol=1e-12)
    np.testing.assert_allclose(sg.jacfwd(f, options=INTERPRETED)(X), slope, rtol=1e-12)
    for twice in (sg.hessian(f, options=INTERPRETED), sg.jacrev(sg.grad(f), options=INTERPRETED)):
        np.testing.assert_allclose(twice(X), np.diag(bend), rtol=1e-12)
    lanes = sg.vmap(sg.grad(f), options=INTERPRETED)(np.stack([X, X + 1, X]))
    np.testing.assert_allclose(lanes[0], slope, rtol=1e-12)
    np.testing.assert_allclose(lanes[2], slope, rtol=1e-12)


def spread(x):
    return x @ x.T + np.diag(np.arange(1.0, 4.0))


FACTORED = {
    "solve": lambda a, x: np.linalg.solve(a + np.diag(x), np.tanh(x) + 1),
    "inv": lambda a, x: np.linalg.inv(a + np.diag(x)) @ np.tanh(x),
    "det": lambda a, x: np.tanh(x * np.linalg.det(a / 3 + np.diag(x))),
    "slogdet": lambda a, x: x * np.linalg.slogdet(a + np.diag(x))[1],
    "cholesky": lambda a, x: np.tanh(np.linalg.cholesky(spread(a + np.diag(x))) @ x),
    "eigenvalues": lambda a, x: x * np.linalg.eigvalsh(spread(a + np.diag(x))) / 9,
    "eigenvectors": lambda a, x: np.linalg.eigh(spread(a + np.diag(x)))[1] ** 2 @ x,
    "singular vectors": lambda a, x: np.linalg.svd(a + np.diag(x))[0] ** 2 @ x,
    "pinv": lambda a, x: np.linalg.pinv(a[:, :2]) @ x @ a[:2],
    "qr": lambda a, x: np.tanh(np.linalg.qr(a + np.diag(x))[1] @ x),
}


@pytest.mark.parametrize("name", FACTORED)
def test_factors_in_a_step_are_those_of_the_unrolled_loop(name):
    """Second derivatives in every mode: what factors hold is read by rules, and differentiated by the matrix alone."""
    step, rng = FACTORED[name], np.random.default_rng(4)
    a, x = rng.normal(size=(3, 3)) + 4 * np.eye(3), rng.normal(size=3)

    def f(m, x):
        return np.sum(m.fori_loop(0, 2, lambda _, y: step(a * (1 + 0.1 * x[0]), y) + 0.1 * x, x) ** 2)

    known = sg.hessian(lambda x: f(Plain, x), options=INTERPRETED)(x)
    for mode in (sg.hessian, lambda f, **o: sg.jacrev(sg.grad(f), **o), lambda f, **o: sg.jacfwd(sg.jacfwd(f), **o)):
        found = mode(lambda x: f(sg, x), options=INTERPRETED)(x)
        np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-9 * np.max(np.abs(known)))


def of_eigenvalues(a, function):
    values, vectors = np.linalg.eigh(a)
    return (vectors * function(values)) @ vectors.T


def mean_of(m, x, times):
    """Go from one symmetric matrix to another, and on, by functions of their eigenvalues."""
    b = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])

    def step(_, a):
        root = of_eigenvalues(a, np.sqrt)
        return of_eigenvalues(root @ b @ root, lambda w: w**0.3) + 0.1 * a

    return np.sum(m.fori_loop(0, times, step, x @ x.T + np.eye(3)) * b)


@pytest.mark.parametrize("x", [np.diag([1.0, 1.0, 1.0]), np.diag([1.0, 1.0, 2.0]), np.array(
    [[0.3, 1.0, -0.4], [0.2, -0.5, 0.7], [1.1, 0.1, 0.6]])], ids=["all equal", "two equal", "apart"])
def test_equal_eigenvalues_one_after_another_and_in_steps(x):
    """Cotangents have slopes where eigenvalues are equal, also through other eigenvectors, and through a loop."""
    known = differences(lambda x: mean_of(Plain, x, 2), (x,), 0)
    for m in (Plain, sg):
        for mode in (sg.grad, sg.jacfwd):
            found = mode(lambda x, m=m: mean_of(m, x, 2), options=INTERPRETED)(x)
            np.testing.assert_allclose(found, known, rtol=1e-7, atol=1e-7)


def root(values, vectors):
    return (vectors * np.sqrt(values)) @ vectors.T


def carried_vectors(x):
    def step(state, k):
        values, vectors, _ = state
        return (*np.linalg.eigh(x * (1 + 0.1 * k)), root(values, vectors)), None

    return sg.scan(step, (np.ones(3), np.eye(3), np.zeros((3, 3))), np.arange(3.0))[0][2]


def vectors_of_a_branch(x):
    return root(*sg.cond(x[0, 0] > 0, lambda x: tuple(np.linalg.eigh(x)), lambda x: (x[0], x), x))


def vectors_of_a_checkpoint(x):
    return root(*sg.checkpoint(lambda x: tuple(np.linalg.eigh(x)))(x))


def singular_vectors_of_a_checkpoint(x):
    u, s, v = sg.checkpoint(lambda x: tuple(np.linalg.svd(x)))(x)
    return (u * s) @ v


@pytest.mark.parametrize("function", [
    carried_vectors, vectors_of_a_branch, vectors_of_a_checkpoint, singular_vectors_of_a_checkpoint,
], ids=lambda f: f.__name__)
def test_vectors_of_equal_values_that_leave_a_program(function):
    """What becomes of them is not known where their rule is applied: NaN at equal values, and right elsewhere."""
    weights = np.cos(np.arange(9.0)).reshape(3, 3)

    def loss(x):
        return np.sum(function((x + x.T) / 2) * weights)

    apart = np.diag([1.0, 2.0, 3.0]) + 0.1
    for mode in (sg.grad, sg.jacfwd):
        slope = mode(loss, options=INTERPRETED)
        np.testing.assert_allclose(slope(apart), differences(loss, (apart,), 0), rtol=1e-7, atol=1e-7)
        assert np.isnan(slope(np.eye(3))).any()
        assert np.isnan(slope(np.diag([1.0, 1.0, 2.0]))).any()


def test_the_slope_of_a_cotangent_does_not_go_through_other_slopes():
    """Gradients grow with the square of how many there are: each is pushed through those behind it, and no further."""
    def lines(times):
        gradient = sg.grad(lambda x: mean_of(Plain, x, times), options=INTERPRETED)
        return gradient.lower(np.eye(3)).as_text("derived").count("\n")

    assert lines(4) < 17 * lines(1)

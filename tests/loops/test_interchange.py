"""Recurrences over the rows of a batch: threads take rows, each for all steps, where rows never meet."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.loops.fusion import interchange, parallelize
from tests.loops.test_passes import wrong
from tests.table import INTERPRETED

RNG = np.random.default_rng(3)
B, T, H = 40, 60, 48
U, V, HS = RNG.normal(size=(H, H)) / 8, RNG.normal(size=(H, H)) / 8, RNG.normal(size=(B, H))
XS = RNG.normal(size=(T, B, H))


def plain(h, U, V, xs):
    def step(h, x):
        h = np.tanh(h @ U + x)
        return h, h

    return np.sum(sg.scan(step, h, xs)[1] ** 2)


def gated(h, U, V, xs):
    def step(carry, x):
        h, c = carry
        z = 1 / (1 + np.exp(-(h @ U)))
        c = z * c + (1 - z) * np.tanh((h * c) @ V + x)
        return (c * z, c), None

    h, c = sg.scan(step, (h, 0.5 * h), xs)[0]
    return np.sum(h * c)


def across(h, U, V, xs):
    """Rows meet in their mean."""
    return np.sum(sg.scan(lambda h, x: (np.tanh((h - np.mean(h, axis=0)) @ U + x), None), h, xs)[0] ** 2)


def turned(h, U, V, xs):
    """A row is made of the one beside it."""
    return np.sum(sg.scan(lambda h, x: (np.tanh(np.roll(h, 1, axis=0) @ U + x), None), h, xs)[0] ** 2)


def looked_up(h, U, V, xs):
    """A row is made of one that a number says."""
    order = np.arange(len(h))[::-1]
    return np.sum(sg.scan(lambda h, x: (np.tanh(h[order] @ U + x), None), h, xs)[0] ** 2)


def ordered(h, U, V, xs):
    """Rows meet in a cumulative sum."""
    return np.sum(sg.scan(lambda h, x: (np.tanh(np.cumsum(h, axis=0) @ U / len(h) + x), None), h, xs)[0] ** 2)


APART = {plain: 2, gated: 2, across: 0, turned: 0, looked_up: 0, ordered: 0}
"""Loops over steps that are inside of one over rows."""


@pytest.mark.parametrize("f", APART, ids=lambda f: f.__name__)
def test_threads_take_rows_that_never_meet(f):
    by = (0, 1, 3)
    shared, alone, expected = [
        sg.value_and_grad(f, argnums=by, options=options)
        for options in (sg.Options(threads=3, verify=True), sg.Options(threads=1), INTERPRETED)
    ]
    value, grads = shared(HS, U, V, XS)
    for other in (alone, expected):
        same, others = other(HS, U, V, XS)
        np.testing.assert_allclose(value, same, rtol=1e-12)
        for a, b in zip(grads, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * np.max(np.abs(b)))
    text = shared.lower(HS, U, V, XS).as_text("loops")
    assert len(re.findall(rf"in tiles\(.*\n *for \w+ in (?:reversed\()?range\({T}\)", text)) == APART[f]


@pytest.mark.parametrize("f", APART, ids=lambda f: f.__name__)
def test_every_pass_keeps_the_numbers(f, monkeypatch):
    """At sizes at which each pass is run as text, by three threads."""
    small = (parallelize, "PAYS", 40), (interchange, "SHARED_ROWS", 2), (interchange, "TILE_LEAST", 2)
    for module, name, value in small:
        monkeypatch.setattr(module, name, value)
    args = RNG.normal(size=(6, 3)), U[:3, :3], V[:3, :3], RNG.normal(size=(4, 6, 3))
    assert not wrong(sg.value_and_grad(f, argnums=(0, 1, 3)).lower(*args).stages.of("optimized"), [*args])


def test_a_batch_of_as_many_rows_as_a_row_is_long():
    """Rows are the outer loop in one nest of a step and the inner one in another: the two are not one loop."""
    def unrolled(W, V, b, xs):
        h = np.zeros((xs.shape[1], W.shape[0]))
        for x in xs:
            h = np.tanh(h @ W + x @ V + b)
        return np.mean(h**2)

    args = RNG.normal(size=(16, 16)) / 4, RNG.normal(size=(8, 16)), RNG.normal(size=16), RNG.normal(size=(40, 16, 8))
    made, expected = [sg.grad(unrolled, argnums=(0, 1, 2), options=o)(*args) for o in (sg.Options(), INTERPRETED)]
    for a, b in zip(made, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_open_lengths():
    f = sg.value_and_grad(plain, argnums=(0, 1, 3), specs=("f64[40,48]", "f64[48,48]", "f64[48,48]", "f64[t,40,48]"))
    for steps in (T, 1, 0):
        value, grads = f(HS, U, V, XS[:steps])
        same, others = sg.value_and_grad(plain, argnums=(0, 1, 3), options=INTERPRETED)(HS, U, V, XS[:steps])
        np.testing.assert_allclose(value, same, rtol=1e-12)
        for a, b in zip(grads, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


def test_batches_of_recurrences():
    def swing(y, p):
        return np.sum(sg.scan(lambda y, _: (y + 0.01 * np.sin(p * y), None), y, None, 200)[0])

    many = RNG.normal(size=(600, 5)), RNG.normal(size=(600, 5))
    made = [sg.vmap(sg.grad(swing), options=sg.Options(threads=n))(*many) for n in (1, 2)]
    np.testing.assert_array_equal(*made)


def test_results_do_not_depend_on_the_number_of_threads():
    """A row's steps are the same whoever takes them."""
    results = [sg.jit(plain, options=sg.Options(threads=n))(HS, U, V, XS) for n in (2, 3, 5)]
    assert len({*map(float, results)}) == 1

"""Loops in runs: the same derivatives with less memory."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from benchmarks.measure import interleaved
from symgrad.ops import OPS
from symgrad.options import memory_amount
from symgrad.transforms.derive import control
from tests.table import INTERPRETED

VERIFIED = sg.Options(verify=True)
RNG = np.random.default_rng(5)
H, W = RNG.normal(size=3), RNG.normal(size=(3, 3)) / 2


def loss(h, W, xs, **how):
    """Carry a state, stack two things of each step."""
    def step(h, x):
        h = np.tanh(W @ h + x)
        return h, (np.sum(h**2), h * x)

    h, (ys, zs) = sg.scan(step, h, xs, **how)
    return np.sum(ys * np.arange(1, len(xs) + 1)) + np.sum(zs**2) + np.prod(h)


def root(a, **how):
    return sg.while_loop(
        lambda x: np.abs(x * x - a) > 1e-13, lambda x: 0.5 * (x + a / x), 1.0 + 0 * a, max_steps=40, **how,
    )


RUNS = [{"checkpoint": "sqrt"}, {"checkpoint": 1}, {"checkpoint": 4}, {"memory": 500}]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("how", RUNS, ids=str)
@pytest.mark.parametrize("steps", [7, *[pytest.param(n, marks=pytest.mark.nightly) for n in (1, 20)]])
def test_derivatives_are_the_same(steps, how, reverse):
    xs = np.random.default_rng(steps).normal(size=(steps, 3))
    value, whole = sg.value_and_grad(lambda *x: loss(*x, reverse=reverse), argnums=(0, 1, 2))(H, W, xs)
    runs, parts = sg.value_and_grad(
        lambda *x: loss(*x, reverse=reverse, **how), argnums=(0, 1, 2), options=VERIFIED,
    )(H, W, xs)
    assert runs == pytest.approx(value, rel=1e-14)
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_second_derivatives_and_batches():
    xs = RNG.normal(size=(7, 3))

    def f(h, **how):
        return loss(h, W, xs, **how)

    np.testing.assert_allclose(sg.hessian(lambda h: f(h, checkpoint=3))(H), sg.hessian(f)(H), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(sg.jacfwd(lambda h: f(h, checkpoint=3))(H), sg.grad(f)(H), rtol=1e-12)
    many = RNG.normal(size=(4, 3))
    batch = sg.vmap(sg.grad(lambda h: f(h, checkpoint="sqrt")))(many)
    np.testing.assert_allclose(batch, [sg.grad(f)(h) for h in many], rtol=1e-12)


@pytest.mark.parametrize("how", [{"checkpoint": "sqrt"}, {"checkpoint": 7}, {"memory": "200 B"}], ids=str)
def test_while_loops(how):
    assert sg.grad(lambda a: root(a, **how), options=VERIFIED)(2.0) == pytest.approx(1 / (2 * np.sqrt(2)), rel=1e-12)
    assert sg.hessian(lambda a: root(a, **how))(2.0) == pytest.approx(-0.25 * 2**-1.5, rel=1e-11)


def test_fori_loops():
    def f(x, **how):
        return sg.fori_loop(0, 30, lambda i, v: np.sin(v) + 0.1 * i * x, x, **how)

    assert sg.grad(lambda x: f(x, checkpoint=4))(0.3) == pytest.approx(sg.grad(f)(0.3), rel=1e-13)


@pytest.mark.parametrize("how", [{}, {"checkpoint": 7}, {"checkpoint": "sqrt"}, {"memory": "1KB"}], ids=str)
def test_open_extents(how):
    """Whatever the extent is, one compilation keeps runs of as many steps."""
    def f(x, pairs, h, **how):
        def step(carry, row):
            h, k = carry
            return (np.sin(h) * row[0] + row[1][k % 2], k + 1), None

        (h, _), _ = sg.scan(step, (h, 0), (x, pairs), reverse=True, **how)
        return h * sg.fori_loop(1, x.shape[0], lambda i, v: np.sin(v) + x[i] * h, x[0], **how)

    grad = sg.grad(lambda x, pairs, h: f(x, pairs, h, **how), argnums=(0, 1, 2), dynamic={"x": "n", "pairs": "n,2"})
    for n in (1, 6, 50, 200):
        x = RNG.normal(size=n), RNG.normal(size=(n, 2)), 0.3
        expected = sg.grad(f, argnums=(0, 1, 2), options=INTERPRETED)(*x)
        for got, want in zip(grad(*x), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
    assert grad.cache_info().compilations == 1


@pytest.mark.parametrize(
    "how", [{}, {"checkpoint": 2}, {"checkpoint": 3}, {"checkpoint": "sqrt"}, {"memory": 100}], ids=str,
)
def test_loops_of_any_number_of_steps(how, monkeypatch):
    """In runs of runs, from none to more than these reach, forward, back, and twice."""
    monkeypatch.setattr(control, "RUNS_SQUARE", 4)

    def f(x, n):
        return sg.fori_loop(0, n, lambda i, v: v * 0.9 + 0.1 * np.sin(v * x[0] + i) + x[1], x[1], **how)

    def straight(x, n):
        v = x[1]
        for i in range(n):
            v = v * 0.9 + 0.1 * np.sin(v * x[0] + i) + x[1]
        return v

    x, grad, push = np.array([0.7, 0.4]), sg.grad(f, options=VERIFIED), sg.jacfwd(f)
    counts = [0, 1, 2, 3, 4, 5, 16, 17, 40, 90]
    for n in counts:
        expected = sg.grad(lambda x, n=n: straight(x, n), options=INTERPRETED)(x)
        np.testing.assert_allclose(grad(x, n), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(push(x, n), expected, rtol=1e-12, atol=1e-14)
    many = sg.vmap(sg.grad(f), (None, 0), options=VERIFIED)(x, np.array(counts))
    np.testing.assert_allclose(many, [grad(x, n) for n in counts], rtol=1e-12, atol=1e-14)
    if how in ({}, {"checkpoint": 3}, {"checkpoint": "sqrt"}):
        twice, expected = sg.hessian(f)(x, 12), sg.hessian(lambda x: straight(x, 12), options=INTERPRETED)(x)
        np.testing.assert_allclose(twice, expected, rtol=1e-11)


def test_what_is_kept_fits():
    """A long loop keeps no more than it was given, and as much as it was given helps."""
    def f(x, **how):
        return np.sum(sg.scan(lambda h, _: (np.sin(h) + x, None), np.zeros(4), None, 20_000, **how)[0])

    x = np.arange(4.0)
    peaks = {}
    for memory in (None, "100 KiB", "8 KiB"):
        g = sg.grad(lambda x, memory=memory: f(x, memory=memory))
        g(x)
        peaks[memory] = g.memory(x).peak
    assert peaks[None] > 600_000
    assert peaks["100 KiB"] <= 110_000
    assert peaks["8 KiB"] <= 9_000


STATE = 16 * 8


def sixteen(x, steps, **how):
    """Carry 16 numbers through so many steps."""
    return np.sum(sg.scan(lambda h, _: (0.9 * np.sin(h) + x, None), np.zeros(16), None, steps, **how)[0])


EVERY = [(10**power + more, budget) for power in range(2, 8) for more in (0, 7) for budget in (20_000, 100_000, 10**6)]
BY_DAY = {(100, 20_000), (10_007, 20_000), (10**6, 10**6), (10**7 + 7, 100_000)}


@pytest.mark.parametrize(
    ("steps", "budget"), [case if case in BY_DAY else pytest.param(*case, marks=pytest.mark.nightly) for case in EVERY],
)
def test_workspaces_fit_a_budget(steps, budget):
    """Whatever the length is, also where no run divides it; and steps are computed again for no level too many."""
    x = np.linspace(0.1, 0.9, 16)
    used = sg.grad(lambda x: sixteen(x, steps, memory=budget)).memory(x)
    assert used.peak <= budget + 2 * STATE
    levels = next(d for d in range(20) if (d + 1) * (1.2 * steps ** (1 / (d + 1)) + 5 * (d > 0)) * STATE <= budget)
    assert used.recomputation <= 1 + levels


@pytest.mark.nightly
def test_a_million_steps_in_a_megabyte():
    """A gradient takes at most 4 times as long as with all that steps keep, and no memory that it does not say."""
    x = np.linspace(0.1, 0.9, 16)
    fs = {memory: sg.grad(lambda x, m=memory: sixteen(x, 10**6, memory=m)) for memory in (None, "1MB")}
    small = fs["1MB"]
    assert small.memory(x).peak <= 1_000_000
    small(x)
    before = _resident()
    found = small(x)
    assert _resident() - before < 300_000, "more memory than the workspace"
    np.testing.assert_allclose(found, fs[None](x), rtol=1e-12)
    best = interleaved({str(m): partial(g, x) for m, g in fs.items()}, 10.0, of=min)
    assert best["1MB"] <= 4 * best["None"]


def _resident() -> int:
    """Return the most bytes that this process has had in memory."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def test_values_and_derivatives_share_the_way_there():
    """What a derivative keeps of runs is kept on the value's way, not on one more; so it is in forward mode."""
    for how in ({}, {"checkpoint": 10}):
        text = sg.value_and_grad(lambda x, how=how: sixteen(x, 95, **how)).lower(np.ones(16)).as_text()
        assert text.count("ops.scan(") == (2 if not how else 7)
    pushed = sg.jit(lambda x, v: sg.jvp(lambda x: sixteen(x, 95), (x,), (v,)))
    assert pushed.lower(np.ones(16), np.ones(16)).as_text().count("ops.scan(") == 1


def test_bounded_loops_run_once():
    """A loop of at most so many steps keeps what its derivative reads while it runs for the value."""
    text = sg.value_and_grad(root).lower(2.0).as_text()
    assert (text.count("ops.while_("), text.count("ops.counted(")) == (1, 1)
    pushed = sg.jit(lambda a, v: sg.jvp(root, (a,), (v,)))
    assert pushed.lower(2.0, 1.0).as_text().count("ops.while_(") == 1
    assert pushed(2.0, 1.0)[1] == pytest.approx(1 / (2 * np.sqrt(2)), rel=1e-12)
    many = np.array([2.0, 1e-3, 1e6])
    for f in (sg.grad(root), sg.grad(sg.grad(root)), lambda a: sg.jvp(sg.grad(root), (a,), (1.0,))[1]):
        np.testing.assert_allclose(sg.vmap(f)(many), [f(a) for a in many], rtol=1e-9)


def winding(x, n, **how):
    """Carry two numbers and how many steps there were, of which there are as many as an argument says."""
    def step(c):
        return c[0] + 1, np.sin(c[2]) + 0.1 * x, 0.9 * c[1] + 0.01 * c[0]

    k, a, b = sg.while_loop(lambda c: c[0] < n, step, (0, x, 2.0 * x), **how)
    return a - 2.0 * b + k


def test_any_number_of_steps():
    """At the ends of runs, of runs of these, and behind the last ones, where it begins again: runs of 2, 4, 8, 16."""
    small, pushed = [
        sg.jit(f) for f in (lambda x, n: sg.value_and_grad(lambda x: winding(x, n, checkpoint=2))(x),
                            lambda x, n: sg.jvp(lambda x: winding(x, n), (x,), (1.0,)))
    ]
    for n in range(53):
        np.testing.assert_allclose(small(0.3, n), pushed(0.3, n), rtol=1e-12)
    long = sg.value_and_grad(winding)
    for n in (255, 256, 257, 65_535, 65_536, 65_537, 200_001):
        np.testing.assert_allclose(long(0.3, n), pushed(0.3, n), rtol=1e-10)


def test_no_step_is_computed_more_often_than_there_are_levels(monkeypatch):
    """A level whose runs are one computes none; how many steps there are is counted without them."""
    sine, calls = OPS["sin"], []
    plain = sine.evaluate

    def noted(x):
        calls.append(x)
        return plain(x)

    monkeypatch.setattr(sine, "evaluate", noted)
    slope = sg.grad(lambda x, n: winding(x, n, checkpoint=4), options=INTERPRETED)
    text = slope.lower(0.3, 3).as_text()
    assert re.search(r"ops\.while_\(n, v\d+, test", text), text
    for n, most in ((3, 1), (4, 1), (15, 2), (16, 2), (60, 3), (64, 3), (200, 4), (256, 4), (1000, 7)):
        slope(0.3, n)
        calls.clear()
        slope(0.3, n)
        assert len(calls) <= most * n, n


def test_checkpoint_computes_again():
    calls = []

    def layer(x, w):
        calls.append(x)
        return np.tanh(np.sin(x) * w)

    def model(x, w, wrap):
        f = wrap(layer)
        return np.sum(f(f(x, w), w=w))

    x, w = np.array([0.3, 0.7]), 1.3
    plain, again = [
        sg.grad(lambda x, w, wrap=wrap: model(x, w, wrap), argnums=(0, 1)) for wrap in (lambda f: f, sg.checkpoint)
    ]
    for a, b in zip(again(x, w), plain(x, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    assert again.lower(x, w).as_text().count("ops.call(") == 3, "the value of the second is not asked for"
    assert sg.checkpoint(layer)(1.0, 2.0) == layer(1.0, 2.0)
    assert sg.checkpoint(layer).__name__ == "layer"


@pytest.mark.parametrize(
    ("text", "count"),
    [("1MB", 10**6), ("64 KiB", 65536), ("2 g", 2 * 10**9), (100, 100), ("1.5k", 1500), ("10 B", 10)],
)
def test_amounts_of_memory(text, count):
    assert memory_amount(text) == count


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no such word": ({"checkpoint": "some"}, "checkpoint='some'"),
    "no steps": ({"checkpoint": 0}, "checkpoint=0"),
    "no amount": ({"memory": "much"}, "memory='much' is no amount of memory"),
    "too little": ({"memory": 10}, "memory=10 is less than any runs keep"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    how, message = WRONG[name]
    with pytest.raises(sg.SymgradError) as caught:
        sg.grad(lambda h: loss(h, W, np.ones((9, 3)), **how))(H)
    assert message in str(caught.value)


def test_rows_over_an_open_extent_are_not_kept_in_runs():
    f = sg.grad(lambda h, xs: loss(h, W, xs, checkpoint="sqrt"), specs=("f64[3]", "f64[t,3]"))
    with pytest.raises(sg.SymgradError, match=r"over an open extent t, whose steps(?s:.*)return carry, None"):
        f(H, np.ones((9, 3)))

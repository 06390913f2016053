# ruff: noqa: SIM108 - statements are what is tested
"""Conditions in a Python `for` that go both ways: branches in one loop, for whatever each round decides."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.trace.control import forks
from tests.night import some
from tests.table import richardson


def chosen(x):
    total = 0.0
    for t in range(24):
        if x[t] > 0:
            total = total + np.sin(x[t]) * total
        else:
            total = total + x[t] ** 2
    return total


def machine(x):
    state, total = x[0], 0.0
    for v in x:
        if v > 1:
            state = 0.5 * state
        elif v < -1:
            state = -state
        else:
            state = state + v
        total = total + state
    return total


def resets(x):
    run, total = x[0] * 0.0, x[1]
    for v in x:
        if v > 0:
            run = run + v
        else:
            run = 0.0
        total = total + run * run
    return total


def weighted(x):
    y, table = x[0], np.linspace(0.1, 2.0, 24) ** 2
    for t in range(24):
        if y > x[t]:
            y = y - table[t] * x[23 - t]
        else:
            y = np.cos(y) + t
    return y


def nested(x):
    rows, total = np.reshape(x, (6, 4)), x[0]
    for i in range(6):
        for j in range(4):
            if rows[i, j] > total:
                total = total + rows[i, j] * 0.5
            else:
                total = 0.9 * total
    return total


def kept(x):
    best, place = x[0], x[0] * 0.0
    for t in range(1, 24):
        if x[t] > best:
            best, place = x[t], 1.0 * t + 0.0 * x[t]
    return best * place


LOOPS = [chosen, machine, weighted, nested]
RNG = np.random.default_rng(5)
POINTS = [RNG.normal(size=24) * s for s in (0.4, 0.8, 1.0, 1.0, 1.6, 2.5)]


DIRECTION = np.cos(np.arange(24.0))


def slope_of(fun, x):
    return richardson(lambda h: fun(x + h * DIRECTION), 1e-6)


@pytest.mark.parametrize("fun", [*LOOPS, resets, kept], ids=lambda f: f.__name__)
def test_it_is_what_python_does(fun):
    compiled = sg.value_and_grad(fun)
    for x in POINTS:
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        wanted = slope_of(fun, x)
        np.testing.assert_allclose(slope @ DIRECTION, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fun", LOOPS, ids=lambda f: f.__name__)
def test_few_paths_serve_all_ways(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none"))
    for x in POINTS:
        for y in (x, -x, x[::-1].copy()):
            np.testing.assert_allclose(compiled(y), fun(y), rtol=1e-12)
    assert compiled.cache_info().compilations <= 9  # rounds may all go one way, or one way more
    assert "ops.scan(" in compiled.lower(POINTS[2]).as_text("stable")


def hidden(x):
    count, y = [0], x[0]
    for v in x:
        if v > 0:
            count[0] += 1
            y = y + v
        elif count[0] % 3 == 0:
            y = y * 0.5
    return y


def indexed(x):
    """A table is not read in the rounds that go the other way: what it has there is seen all the same."""
    table, y = [*range(12), 40, 3, 7, 1, *range(16, 24)], x[0]
    for t in range(20):
        if x[t] > 0:
            y = np.sin(y) + x[table[t] % 24]
        else:
            y = y * 0.5
    return y


def by_the_last(x):
    """Rounds ask of arrays what the round before has asked of them, or what was asked before the first one."""
    rows, last, y = np.reshape(x, (8, 3)), x[:2], 0.0 * x[0]
    if np.sum(last) > 0.1:
        y = y + 1
    for t in range(4):
        if rows[t, 0] > 0 and np.sum(last) > 0.1:
            y = y + rows[t, 0]
        last = rows[t, 1:]
        if np.sum(last) > 0.1:
            y = np.sin(y)
    return y


@pytest.mark.parametrize("fun", [hidden, indexed, by_the_last], ids=lambda f: f.__name__)
def test_nothing_is_concluded_from_one_round_for_another(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=99))
    for x in POINTS:
        for y in (x, -x, x[::-1].copy(), -x[::-1], np.roll(x, 5), -np.roll(x, 5)):
            np.testing.assert_allclose(compiled(y), fun(y), rtol=1e-12)


def in_a_function(x):
    def step(y, v):
        if v > 0.5:
            return y + v
        return 0.5 * y

    y = 0.0
    for v in x:
        y = step(y, v)
    return y


def one_after_another(x):
    y = 0.0
    for v in x:
        y = y + v if v > 0 else 0.5 * y
    z = 1.0
    for v in x:
        z = z * 0.5 if v > y else z + y
    return z


def bisections(x):
    total = 0.0
    for k in range(4):
        low, high = 0.0, 4.0
        for _ in range(20):
            middle = (low + high) / 2
            if middle * middle < abs(x[k]):
                low = middle
            else:
                high = middle
        total = total + low * x[k]
    return total


def three_states(x):
    state, total = 0, 0.0
    for v in x:
        if state == 0:
            if v > 0.5:
                state = 1
            total = total + v
        elif state == 1:
            if v < 0:
                state = 2
            total = total * 0.9
        else:
            if v > 1:
                state = 0
            total = total - 0.3 * v
    return total


def appended(x):
    out, logs, y = [], [0.5], 0.0
    for v in x:
        if v > 0:
            y = y + v
            logs.append(v)
        else:
            y = 0.5 * y
            logs.append(0.0)
        out.append(y)
    return np.array(out) @ np.cos(np.arange(24.0)) + sum(logs) * len(out)


def set_in_rows(x):
    out, y = np.zeros((24, 2)), 0.0
    for t in range(24):
        y = y + x[t] if x[t] > 0 else 0.5 * y
        out[t, 0] = y
        out[t, 1] = out[t - 1, 0] * 0.3
    return np.sum(out * out)


def skipping(x):
    total, place = 0.0, 0
    for k, v in enumerate(x):
        try:
            if v < 0:
                continue
            total, place = total + v * v, k
        finally:
            total = total * 0.9
    return total * place


def rows_in_rows(x):
    total = 0.0
    for row in np.reshape(x, (4, 6)):
        for v in row:
            if v > 0:
                total = total + v
            else:
                total = 0.5 * total
    return total


def the_same_again(x):
    """The second loop asks what the first one asked, and so does what is behind both."""
    total, count = 0.0, 0
    for v in x:
        if v > 0:
            total, count = total + v, count + 1
    mean = total / count if count else 0.0
    for v in x:
        if v > 0:
            total = total + (v - mean) ** 2
    return total * 2 if x[3] > 0 else total


def pairs_again(x):
    total = 0.0
    for _ in range(2):
        for i in range(5):
            for j in range(5):
                if x[i] > x[j]:
                    total = total * 0.9 + (x[i] - x[j]) ** 2
    return total


def in_many_rounds(x):
    """More loops than could be traced one by one."""
    total = 0.0
    for k in range(40):
        scale = np.tanh(total) + x[k % 5]
        for v in x[:4]:
            if v > 0.02 * k:
                total = 0.5 * total + 0.2 * np.sin(v * scale)
    return total


def by_a_parameter(x):
    """What all rounds ask of one value is a path for each outcome."""
    total = 0.0
    for v in x[1:]:
        if x[0] > 0 and v > x[0]:
            total = total + v
        if v < 0 or x[0] < -2:
            total = 0.9 * total
    return total


def read_by_a_sum(x):
    """The variable that the loop changes is read by a generator expression."""
    most = 0.0
    for v in x:
        if v > most + 0.1:
            most = 0.9 * v
    return sum((v - most) ** 2 for v in x)


def read_by_a_function(x):
    total, weight = 0.0, 1.0

    def weighted(v):
        return v * weight + 0.1 * total

    for v in x:
        if v > 0:
            weight = 0.9 * weight
        total = total + weighted(v)
    return total


ONE = [
    in_a_function, one_after_another, bisections, three_states, appended, set_in_rows, skipping, rows_in_rows,
    the_same_again, pairs_again, in_many_rounds, by_a_parameter, read_by_a_sum, read_by_a_function,
]


@pytest.mark.parametrize("fun", ONE, ids=lambda f: f.__name__)
def test_a_few_paths_whatever_a_loop_is_in(fun):
    compiled = sg.value_and_grad(fun, options=sg.Options(compiler="none"))
    for x in POINTS:
        for y in (x, -x, x[::-1].copy()):
            value, slope = compiled(y)
            np.testing.assert_allclose(value, fun(y), rtol=1e-12)
            if fun is not bisections:  # it steps
                np.testing.assert_allclose(slope @ DIRECTION, slope_of(fun, y), rtol=1e-5, atol=1e-6)
    assert compiled.cache_info().compilations <= 3
    assert "ops.scan(" in compiled.lower(POINTS[2]).as_text("stable")


def read_again(x):
    """The last item of a list is none of the variables that a round begins with."""
    out = [0.0]
    for v in x:
        if v > 0:
            out.append(out[-1] + v)
        else:
            out.append(0.5 * out[-1])
    return out[-1] * out[3]


def now_and_then(x):
    out, y = [], 0.0
    for v in x[:14]:
        y = y + v if v > 0 else 0.3 * y
        out.append(y)
        if y > 1:
            out.append(2 * y)
    return sum(out)


def a_window(x):
    out, y = [], 0.0
    for v in x[:14]:
        y = y + v if v > 0 else 0.3 * y
        out.append(y)
        if len(out) > 5:
            out.pop(0)
    return sum(out)


def by_another_name(x):
    out: list[Any] = []
    y = 0.0
    last = out
    for v in x[:14]:
        y = y + v if v > 0 else 0.3 * y
        last.append(y)
    return sum(out) + last[4] * y


@pytest.mark.parametrize("fun", [read_again, now_and_then, a_window, by_another_name], ids=lambda f: f.__name__)
def test_lists_that_do_something_else_are_paths(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=99))
    for x in POINTS:
        for y in (x, -x):
            np.testing.assert_allclose(compiled(y), fun(y), rtol=1e-12)


def test_stacked_results_are_no_line_for_each_round():
    def states(x, steps):
        out, y = [], 0.0
        for k in range(steps):
            y = y + x[k % 24] if x[k % 24] > y else 0.3 * y
            out.append(y)
        return np.array(out)

    compiled = sg.jit(states, static_argnums=1, options=sg.Options(compiler="none"))
    texts = [compiled.lower(POINTS[2], steps).as_text("optimized") for steps in (60, 120)]
    assert len(texts[0].splitlines()) == len(texts[1].splitlines()) < 60


def once(x):
    """What the first round set stays, whichever way it went."""
    y, p = x[0], 0.0 * x[0]
    for k in range(12):
        if x[k] > 0:
            y = y + x[k]
            if k == 0:
                p = x[1] * 2.0
        else:
            y = 0.5 * y
            if k == 0:
                p = x[2] * 3.0
    return y * p


def once_in_a_row(x):
    y, p = x[0], np.zeros(2)
    for k in range(12):
        if x[k] > 0:
            y = y + x[k]
            if k == 0:
                p = x[1:3] * 2.0
        else:
            y = 0.5 * y
            if k == 0:
                p = x[2:4] * 3.0
        y = y + p[0]
    return y * p[1]


def once_through_a_view(x):
    h = np.zeros(3)
    view = h[1:]
    for v in x:
        if v > h[0]:
            h[1] = v
        else:
            h[0] = h[1] + v
        h = h * 0.9
    return np.sum(h) + np.sum(view)


def the_last_one(x):
    y, out = x[0], [x[1] * 5.0]
    for k in range(12):
        y = y + out[-1]
        if x[k] > 0:
            y = y * 0.5
            out.append(x[k] * 2.0)
        else:
            out.append(x[k] * 3.0)
    return y


def in_a_dict(x):
    y, d = x[0], {"a": x[1] * 5.0}
    for k in range(12):
        y = y + d["a"]
        if x[k] > 0:
            y, d["a"] = y * 0.5, x[k] * 2.0
        else:
            d["a"] = x[k] * 3.0
    return y


def a_vector(x):
    out, h = [], np.zeros(3)
    for v in x:
        h = h * 0.5 + v if v > 0 else np.sin(h) - v
        out.append(h)
        h[1] = 0.3 * v
    return np.sum(np.stack(out) * np.arange(3.0)) + np.sum(h)


def three_times(x):
    """What the first loop leaves is a row of the others, and no variable of theirs."""
    last, h = 0.0, 0.0
    for _ in range(3):
        for k in reversed(range(15)):
            if h > 0.55:
                last = h * 0.2
            h = h + 0.1 * last
            last = x[k]
    return h


def a_row_that_stays(x):
    rows = np.reshape(x, (12, 2))
    last, y = rows[0] * 1.0, 0.0
    for row in rows:
        if row[0] > 0:
            last, y = row, y + row[1]
        else:
            y = y * 0.5
    for row in rows:
        if row[0] > y:
            y = y + last[0] * row[1]
        else:
            y = y * 0.5 + row[0]
    return y * last[1] + rows[11, 0]


def _numbering(f):
    times = 0

    @functools.wraps(f)
    def g(v):
        nonlocal times
        times = 0 if v is None else times + 1
        return v if v is None else f(v) * times

    return g


doubled = _numbering(lambda v: 2 * v)


def by_a_wrapper(x):
    """What `functools.wraps` wraps says nothing of what is around it."""
    y = 0.0
    doubled(None)
    for v in x:
        if v > 0:
            y = y + doubled(v)
        else:
            y = y - v
    return y


def by_names(x):
    globals()["TIMES"], by_names.__dict__["times"], y = 0, 0, 0.0
    for v in x:
        if v > 0:
            globals()["TIMES"] += 1
        else:
            by_names.__dict__["times"] += 1
        y = y + v * globals()["TIMES"] + np.sin(v) * by_names.__dict__["times"]
    return y


def _times(k):
    def inner(v):
        return v * k

    return lambda v: inner(v)  # noqa: PLW0108 - a function in a function is what is tested


TWICE, THRICE = _times(2.0), _times(3.0)


def by_functions(x):
    """Functions of one code differ in what the functions have that they have."""
    f, y = TWICE, 0.0
    for v in x:
        y = y + f(v)
        if v > 0.2:
            f = THRICE
        else:
            f = TWICE
    return y


_TABLE: dict[str, Any] = {"n": 0}
PUT: Any = _TABLE.update
GET: Any = _TABLE.get


def by_methods(x):
    y = 0.0
    PUT(n=0)
    for v in x:
        if v > 0:
            PUT(n=GET("n") + 1)
        y = y + v * GET("n")
    return y


def unseen(x):
    """No code says that it changes something; what one run made of it is not what the call's own made."""
    y, os.environ["N"] = 0.0, "0"
    for v in x:
        if v > 0:
            os.environ["N"] = str(1 + int(os.environ["N"]))
        y = y + v * int(os.environ["N"])
    return y


REMEMBERED = [
    by_a_wrapper, by_names, by_functions, by_methods, unseen, three_times, a_row_that_stays, once, once_in_a_row,
    once_through_a_view, the_last_one, in_a_dict, a_vector,
]


@pytest.mark.parametrize("fun", some(REMEMBERED), ids=lambda f: f.__name__)
def test_what_rounds_before_did_is_no_row(fun):
    """What is one for each round of the traces is not, where it says how the rounds before went in a trace."""
    compiled = sg.value_and_grad(fun, options=sg.Options(compiler="none", paths=99))
    for x in POINTS:
        for y in (x, -x, x[::-1].copy()):
            value, slope = compiled(y)
            np.testing.assert_allclose(value, fun(y), rtol=1e-12)
            np.testing.assert_allclose(slope @ DIRECTION, slope_of(fun, y), rtol=1e-5, atol=1e-6)


def test_arrays_from_outside_decide_without_tries(monkeypatch):
    """Labels of a loss seldom change: the first call asks what they are and tries no other way."""
    labels = np.array([1, 2, 2, 3, 1, 3, 3, 2, 1, 2, 3, 1])

    def ctc(x):
        alpha = [x[0, 0], x[0, labels[0]], *[-1e3] * 10]
        for t in range(1, 5):
            new = []
            for s in range(12):
                a = alpha[s]
                if s > 0:
                    a = np.logaddexp(a, alpha[s - 1])
                if s > 1 and labels[s] != labels[s - 2]:
                    a = np.logaddexp(a, alpha[s - 2])
                new.append(a + x[t, labels[s]])
            alpha = new
        return alpha[-1]

    tries = []
    before = forks._forced

    def noted(*args):
        tries.append(args)
        return before(*args)

    monkeypatch.setattr(forks, "_forced", noted)
    x = RNG.normal(size=(5, 4))
    loss = sg.value_and_grad(ctc, options=sg.Options(compiler="none"))
    np.testing.assert_allclose(loss(x)[0], ctc(x), rtol=1e-12)
    assert not tries
    for k in range(6):
        labels[:] = np.roll(labels, 1) if k % 2 else np.where(labels == k, 0, labels)
        value, slope = loss(x)
        np.testing.assert_allclose(value, ctc(x), rtol=1e-12)
        wanted = richardson(lambda h: ctc(x + h * np.ones((5, 4)) * DIRECTION[:4]), 1e-4)
        np.testing.assert_allclose(np.sum(slope * DIRECTION[:4]), wanted, rtol=1e-6)
    assert loss.cache_info().compilations <= 5


def damped(u, v):
    if u > 0.07:
        return u * 0.5 + v * 0.1
    return np.sin(v) - u * 0.2


def deep(x, n):
    """Rounds of `while` loops with conditions inside: branches in branches, far beyond what Python's stack holds."""
    a, b, p, t = x[0], x[1] * 0.5, x[2], x[3]
    for _ in range(n):
        b -= 0.3 * np.sin(a)
        if x[4] >= 0.74:
            p = np.tanh(p * 0.5)
        else:
            w = 0
            while abs(a) > 0.05 and w < 25:
                w += 1
                a = np.tanh(damped(t, np.tanh(p - sum(v for v in x if v > 0.2))))
                a = 0.8 * a + 0.01 * b
        a, b = b, np.cos(a) * 0.9
    return a + b + p


def test_branches_in_branches_however_deep():
    x = np.array([0.13, 0.23, 4.65, 1.77, -2.7, 1.16])
    found = sg.jit(lambda x: deep(x, 7), options=sg.Options(compiler="none"))
    np.testing.assert_allclose(found(x), deep(x, 7), rtol=1e-13)

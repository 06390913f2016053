"""Rounds of a `for` with a `while` in them, and rounds that differ by what plain values decide."""

from __future__ import annotations

import dis
import linecache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.trace.control import rounds
from tests.night import some

# ruff: noqa: SIM108 - statements are what is tested

INTERPRETED = sg.Options(compiler="none", paths=100)

# -- a while in the rounds

def tries(x):
    s, n = 0.0, 0
    for v in x:
        step, k = 1.0, 0
        while step * abs(v) > 0.2:
            step, k = step * 0.5, k + 1
        n = n + k
        s = s + step * v
        if n > 60:
            break
    return s * n


def both(x):
    s = 0.0
    for v in x:
        y, k = abs(v) + 1, 0
        while y > 0.3 and k < 3:
            y, k = y * 0.5, k + 1
        s = s + y + k
    return s


def two(x):
    s, t = 0.0, 1.0
    for v in x:
        a = abs(v) + 1
        while a > 0.3:
            a = a * 0.5
        b = abs(v) + a
        while b < 4:
            b = b * 1.5
        s, t = s + a * b, t * 0.9 + b
    return s + t


def few(x):
    s = 0.0
    for v in x:
        y = v
        while y > 1:
            y = y * 0.5
        s = s + y * y
    return s


def rows(x):
    s = 0.0
    for v in x:
        t = abs(v)
        j = 0
        while t < 2:
            t = t + abs(x[j])
            j = j + 1
        s = s + t * j
    return s


def known_in_first(x):
    s, done = 0.0, x[0] * 0 + 8
    for v in x:
        while done > 1:
            done = done * 0.5
        s = s + v * done
        if s > 2:
            s = s - 2
    return s


def carries_on(x):
    s, y = 0.0, 5.0
    for v in x:
        y = y + abs(v)
        while y > 3:
            y = y * 0.6
        s = s + y
    return s * y


def under_if(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1
        if v > 0:
            while y > 0.3:
                y = y * 0.5
        else:
            y = y * 3
        s = s + y
    return s


def nested(x):
    s = 0.0
    for v in x:
        y, t = abs(v) + 1, 0.0
        while y > 0.5:
            z = y
            while z > 0.2:
                z = z * 0.5
            t = t + z
            y = y * 0.6
        s = s + t
    return s


def writes_inside(x):
    out = np.zeros(40)
    s = 0.0
    for v in x:
        y, k = abs(v) + 1, 0
        while y > 0.3:
            y = y * 0.5
            out[k] = out[k] + y
            k = k + 1
        s = s + y
    return s + np.sum(out * np.arange(40))


def invariant_count(x):
    s, a = 0.0, abs(x[0]) + 0.1
    for v in x:
        z, k = a * 7, 0
        while z > 0.4:
            z = z * 0.6
            k = k + 1
        s = s * 0.9 + z * v + k
        if s > 3:
            s = s - 3
    return s


def appends_same(x):
    out, s = [], 0.0
    for v in x:
        y = abs(v) * 0.1 + 1.1
        while y > 0.2:
            y = y * 0.5
            out.append(x[0])
        s = s + y
    return s + len(out)


def with_if(x):
    s = 0.0
    for v in x:
        y = abs(v) + 1
        while y > 0.3:
            if y > 1:
                y = y * 0.4
            else:
                y = y - 0.1
        s = s + y
    return s


def sets_once(x):
    s, last = 0.0, 0.0
    for v in x:
        y = v
        while y > 0.5:
            y = y * 0.5
            last = v
        s = s + y * last
    return s


def sets_flag(x):
    s = 0.0
    for v in x:
        y, went = v, False
        while y > 0.5:
            y = y * 0.5
            went = True
        s = s + (y if went else -y)
    return s


def returns(x):
    s = 0.0
    for k, v in enumerate(x):
        y = abs(v) + 1
        while y > 0.3:
            y = y * 0.5
        s = s + y
        if s > 5:
            return s * k
    return -s


# -- what plain values decide

def third(x):
    s = 0.0
    for t in range(len(x)):
        if t % 3 == 0:
            s = 0.5 * s
        if x[t] > 0:
            s = s + x[t]
        else:
            s = s - 0.3 * x[t] * s
    return s


def third_asks(x):
    s = 0.0
    for t in range(len(x)):
        if t % 3 == 0 and x[t] > 0.2:
            s = 0.5 * s
        if x[t] > 0:
            s = s + x[t]
        s = np.sin(s)
    return s


def half(x):
    s = 1.0
    for t in range(len(x)):
        if t < len(x) // 2:
            s = s + x[t] if x[t] > 0 else s * 0.9
        else:
            s = s - 0.5 * x[t] if x[t] > 0.3 else s
    return s


def alternate_break(x):
    s = 0.0
    for t in range(len(x)):
        if t % 2:
            s = s + abs(x[t])
        elif x[t] > 0:
            s = s * 1.1
        if s > 6:
            break
    return s * t


def last_one(x):
    s = 0.0
    for t in range(len(x)):
        s = s + x[t] if x[t] > 0 else s * 0.8
        if t == len(x) - 1:
            s = s * 2
    return s


def table(x):
    s, kinds = 0.0, ["a", "b", "a", "c"] * 6
    for t, v in enumerate(x):
        if kinds[t] == "a":
            s = s + v if v > 0 else s
        elif kinds[t] == "b":
            s = s * 0.9
        else:
            s = s - v if v > s else s + 0.1
    return s


def toggles(x):
    s, up = 0.0, True
    for v in x:
        if up:
            s = s + v if v > 0 else s * 0.9
        else:
            s = s - 0.5 * v if v > 0.2 else s
        up = not up
    return s


def nested_plain(x):
    s = 0.0
    for t in range(len(x)):
        for j in range(t % 3):
            s = s * 0.9 + x[j]
        if x[t] > 0:
            s = s + x[t]
    return s


def with_while(x):
    s = 0.0
    for t in range(len(x)):
        y = abs(x[t]) + 1
        while y > 0.3:
            y = y * 0.5
        if t % 2 == 0:
            s = s + y
        else:
            s = s * y
        if x[t] > 1:
            s = s - 1
    return s


def once(x):
    s, p = 0.0, 0.0
    for t in range(len(x)):
        if t == 5:
            p = 2 * x[1] if x[3] > 0 else 3 * x[2]
        if x[t] > 0:
            s = s + x[t] + p
        else:
            s = s * 0.9
    return s + p


def invariant_later(x):
    s, c = 0.0, x[0] * 2
    for t in range(len(x)):
        if t >= 3:
            if c > 0:
                s = s * 0.5
            else:
                s = s + 0.25
        if x[t] > 0:
            s = s + x[t]
    return s


def every_append(x):
    out, s = [], 0.0
    for t, v in enumerate(x):
        s = s + v if v > 0 else s * 0.8
        if t % 4 == 1:
            out.append(s)
    return np.sum(np.stack(out)) + s


def first_one(x):
    for t in range(len(x)):
        if t == 0:
            s = x[0]
        else:
            s = s + x[t] if x[t] > s else s * 0.8
    return s


ONE = (
    tries, both, two, few, rows, known_in_first, carries_on, under_if, nested, writes_inside,
    third, third_asks, half, alternate_break, last_one, table, toggles, nested_plain, with_while,
)
APART = (invariant_count, appends_same, with_if, sets_once, sets_flag, returns,
         once, invariant_later, every_append, first_one)
"""What each round makes depends on more than its variables and its kind."""


@pytest.mark.parametrize("fun", some([*ONE, *APART]), ids=lambda f: f.__name__)
def test_rounds_are_what_python_does(fun):
    """Values, and derivatives in a direction; a few paths serve all."""
    f = sg.value_and_grad(fun, options=INTERPRETED)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, direction = rng.normal(size=24), rng.normal(size=24)
        value, slope = f(x)
        assert np.isclose(value, fun(x), rtol=1e-12)
        near = [fun(x + h * direction) for h in (1e-7, -1e-7)]
        np.testing.assert_allclose(slope @ direction, (near[0] - near[1]) / 2e-7, rtol=1e-5, atol=1e-6)
    assert f.cache_info().compilations <= 2 or fun in APART


def test_long_bodies():
    """Jumps across more than 255 words of Python's code have a prefix."""
    begin = ["def long(x, n):", "    y = 0.0", "    for k in range(n):", "        y = y + 0.1 * k"]
    lines = [f"        y = y + 0.01 * np.sin({k}.0 * y) * x[{k % 4}]" for k in range(12)]
    space: dict[str, Any] = {"np": np}
    text = "\n".join([*begin, *lines, "    return y"])
    linecache.cache["<long>"] = len(text), None, text.splitlines(keepends=True), "<long>"
    exec(compile(text, "<long>", "exec"), space)
    long = space["long"]
    f = sg.jit(long, options=INTERPRETED)
    for n in range(8):
        assert np.isclose(f(np.arange(4.0), n), long(np.arange(4.0), n), rtol=1e-14)
    assert f.cache_info().compilations == 1


def test_loops_in_rounds_in_c():
    """Descent with a backtracking search: one loop in one loop, for calls that search more often or not at all."""
    def loss(x):
        return np.sum((x[1:] - x[:-1] ** 2) ** 2) + 0.1 * np.sum((1 - x) ** 2)

    def descent(x):
        path = []
        for _ in range(25):
            away = 2 * (x[1] - x[0] ** 2)
            g = np.stack([-2 * x[0] * away - 0.2 * (1 - x[0]), away - 0.2 * (1 - x[1])])
            step = 1.0
            while loss(x - step * g) > loss(x) - 1e-4 * step * np.sum(g * g):
                step = step * 0.5
            x = x - step * g
            path.append(loss(x))
            if np.sum(g * g) < 1e-3:
                break
        return path[-1] + np.mean(np.stack(path))

    f = sg.value_and_grad(descent)
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=2)
        value, slope = f(x)
        assert np.isclose(value, descent(x), rtol=1e-11)
        near = [(descent(x + h) - descent(x - h)) / 2e-7 for h in 1e-7 * np.eye(2)]
        np.testing.assert_allclose(slope, near, rtol=1e-4, atol=1e-5)
    assert f.cache_info().compilations <= 3


def test_a_frame_that_calls_python_is_in_the_instruction_that_calls():
    """Python 3.11 has it behind that, where no instruction begins: a fit of SciPy's was a KeyError."""
    def asks(f, x):
        while f(x):
            x = x - 1
        return x

    begins = [i.offset for i in dis.get_instructions(asks.__code__)]
    calls = [i.offset for i in dis.get_instructions(asks.__code__) if i.opname.startswith("CALL")]
    assert calls
    assert [rounds.begun_at(asks.__code__, at) for at in begins] == begins
    assert all(rounds.begun_at(asks.__code__, at + 2) in {at, at + 2} for at in calls)

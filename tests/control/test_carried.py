# ruff: noqa: PERF401 - statements are what is tested
"""Loops that decide by plain numbers: bounds, counters, flags and states are carried, not a path for each."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import symgrad as sg
from tests.table import richardson


def bisection(a):
    low, high = 0.0, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        if middle * middle < a:
            low = middle
        else:
            high = middle
    return (low + high) / 2 * a


def until_close(a):
    bounds = (0.0, 2.0)
    while bounds[1] - bounds[0] > 1e-9:
        middle = 0.5 * (bounds[0] + bounds[1])
        bounds = (middle, bounds[1]) if middle**3 < a else (bounds[0], middle)
    return bounds[0] * a


def newton(a):
    y, k = a, 0
    while k < 50 and abs(y * y - a) > 1e-11 * a:
        y = 0.5 * (y + a / y)
        k += 1
    return y + k


def machine(x):
    on, streak, best, at, total = False, 0, 0, -1, 0.0
    for k in range(24):
        if on and x[k] < -0.3:
            on = False
        elif not on and x[k] > 0.3:
            on = True
        if on:
            streak += 1
        else:
            streak = 0
        if streak > best:
            best, at = streak, k
        total = total + (x[k] if on else 0.1 * x[k]) * streak
    return total * best + at


def integers(x):
    state, total = 17, 0.0
    for v in x:
        if v > 0:
            state = (state * 75 + 74) % 65537
        total = total + v * (state // 2) / 65537 + (-state) % 5
    return total


def numpys(a):
    t, h, y = np.float64(0.0), 0.125, 1.0
    while t < 1.0:
        change = -a * y * h
        if abs(change) < 0.1:
            t, y, h = t + h, y + change, min(1.3 * h, 1.0 - t - h + 1e-9)
        else:
            h = 0.5 * h
    return y


NUMBERS, ARRAYS = (lambda rng: rng.uniform(0.2, 3.8)), (lambda rng: rng.normal(size=24))
CARRIED = {
    bisection: NUMBERS, until_close: NUMBERS, newton: NUMBERS, numpys: NUMBERS, machine: ARRAYS, integers: ARRAYS,
}


@pytest.mark.parametrize(("fun", "draw"), CARRIED.items(), ids=lambda f: getattr(f, "__name__", ""))
def test_plain_numbers_are_carried(fun, draw):
    """A few paths serve any outcomes, and derivatives are those of the path."""
    rng = np.random.default_rng(7)
    f = sg.value_and_grad(fun)
    for _ in range(40):
        x = draw(rng)
        np.testing.assert_allclose(f(x)[0], fun(x), rtol=1e-10)
    assert f.cache_info().compilations <= 16  # the last round is a path by itself, and so are ways that no round went
    before = sys.gettrace()
    if fun in {newton, machine, integers, numpys}:
        x = draw(rng)
        direction = rng.normal(size=np.shape(x))
        want = richardson(lambda h: fun(x + h * direction), 1e-5)
        np.testing.assert_allclose(np.sum(f(x)[1] * direction), want, rtol=1e-4, atol=1e-6)
    assert sys.gettrace() is before


def test_it_is_one_loop_in_c():
    """What marks the beginning of a round is gone."""
    f = sg.jit(bisection)
    text = f.lower(1.5).as_text()
    assert text.count("ops.scan(") == 1
    assert "np.where" not in text


def product(x):
    h = 1
    for v in x:
        if v > 0:
            h = h * 31 + 7
    return x[0] * (h % 1000)


def squares(x):
    h = 5
    for v in x:
        if v > 0:
            h = h * h % 1000003
    return x[0] * h


def by_type(x):
    n = 0.0
    for v in x:
        if v > 0:
            n = n + 1.0 if type(n) is float else n - 1.0
    return n * x[0]


def by_name(x):
    names, state, total = {0: 1.0, 1: -2.0, 2: 0.5}, 0, 0.0
    for v in x:
        state = min(state + 1, 2) if v > 0 else 0
        total = total + names[state] * v
    return total


def growing(x):
    found = []
    for v in x:
        if v > 0:
            found.append(v)
    return np.sum(np.array(found)) / (len(found) + 1)


def in_a_list(x):
    n = [0, 1]
    for v in x:
        if v > 0:
            n[0] += n[1]
    return n[0] * x[0]


@pytest.mark.parametrize(("fun", "names"), [
    (product, "h"), (squares, "h"), (by_type, "n"), (by_name, "state"), (growing, "found"), (in_a_list, "n"),
], ids=lambda f: getattr(f, "__name__", ""))
def test_what_cannot_be_carried(fun, names):
    """Integers beyond 64 bits, what asks for a number's type or its place in a dict, lists: a path each, as before."""
    rng = np.random.default_rng(1)
    f = sg.jit(fun, options=sg.Options(paths=2))
    for _ in range(2):
        x = rng.normal(size=16)
        assert np.isclose(f(x), fun(x), rtol=1e-12)
    with pytest.raises(sg.errors.PathsError, match=f"; {names} in this loop, which Python itself (?s:.*)np.array"):
        f(rng.normal(size=16))


def flags(x):
    on, off, total = False, True, 0.0
    for v in x:
        if v > 0.3:
            on = not on
        if v < -0.3:
            off = on ^ True
        total = total + v * (on + off) + (-on) + abs(off) + (on & off) * 2
    return total + (on + off)


def signed_zero(x):
    z, total = 0.0, 0.0
    for v in x:
        if v > 0:
            z = -z
        total = total + np.copysign(v, z)
    return np.copysign(total, z)


def waiting(x):
    n, total = 0, 0.0
    for v in x:
        n = max(min(n + (1 if v > 0 else -1), 3), -3)
        total = total + v * n
    return total


def another_iterator(x):
    flag, total = False, x[0] * 1.0
    ups, downs = list(np.reshape(x[:12], (6, 2))), list(np.reshape(x[12:], (6, 2)))
    for k in range(6):
        for v in ups[k] if flag else downs[k]:
            if v > 0.2:
                total, flag = total + v, True
            else:
                total, flag = 0.6 * total - 0.1, False
    return total


def power_after(x):
    n = 0
    for v in x:
        if v > 0:
            n = n + 1
    return x[0] * (n**15 % 1000)


def product_after(x):
    n = 0
    for v in x:
        if v > 0:
            n = n + 1
    return x[0] * (n * 10**18)


def shift_after(x):
    n = 0
    for v in x:
        if v > 0:
            n = n + 4
    return x[0] * (1 << n)


def product_of_two_loops(x, least=0.0):
    n = 1
    for v in x:
        if v > 0:
            n = n + 1
    for v in x:
        if v > least:
            n = n * 31 + 7
    return x[0] * (n % 1000)


def product_behind_a_loop(x):
    return product_of_two_loops(x, 0.1)


def kind(n):
    return 1.0 if type(n) is int else 2.0


def asks_its_type(x):
    n, total = 0, 0.0
    for v in x:
        if v > 0:
            n = n + 1
        total = kind(n) * v if v > 1 else 0.0
    return total + n


def asks_its_text(x):
    n, total = 0, 0.0
    for v in x:
        if v > 0:
            n = n + 1
        total = len(f"{n}") * v if v > 1 else 0.0
    return total + n


@pytest.mark.parametrize("fun", [
    flags, signed_zero, waiting, another_iterator, power_after, product_after, shift_after, product_of_two_loops,
    product_behind_a_loop, asks_its_type, asks_its_text,
], ids=lambda f: f.__name__)
def test_they_are_what_pythons_numbers_are(fun):
    """Truth values that are added, -0.0, what waits on the stack, integers behind the loop, types and texts.

    The first call has few rounds that count, so that it alone says nothing of the others.
    """
    rng = np.random.default_rng(5)
    f = sg.jit(fun, options=sg.Options(compiler="none", paths=99))
    for shift in (-1.2, 1.0, -0.3, 0.5, 0.0, 1.5):
        x = rng.normal(size=24) + shift
        np.testing.assert_allclose(f(x), fun(x), rtol=1e-12)


def refuses(a):
    if a < 0:
        raise ValueError("negative")
    return bisection(a)


def test_an_exception_is_no_reason_not_to_carry():
    f = sg.jit(refuses)
    f(1.0)
    with pytest.raises(ValueError, match="negative"):
        f(-1.0)
    for a in np.linspace(0.1, 3.9, 20):
        assert f(a) == refuses(a)
    assert f.cache_info().compilations <= 4


def roots(x):
    total = 0.0
    for k in range(4):
        a = x * (1 + k)
        y = a
        while abs(y * y - a) > 1e-11 * a:
            y = 0.5 * (y + a / y)
        total = total + y * (k + 1)
    return total


def test_a_while_in_the_steps_of_a_for():
    """Each step's is a loop, where it has so many rounds that they are seen to be one."""
    f = sg.value_and_grad(roots)
    for x in np.geomspace(5, 1e5, 12):
        slope = sum((1 + k) ** 1.5 / (2 * np.sqrt(x)) for k in range(4))
        np.testing.assert_allclose(f(x), (roots(x), slope), rtol=1e-9)
    assert f.cache_info().compilations <= 2

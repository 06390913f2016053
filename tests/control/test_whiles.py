"""Python's `while` as it is written: one loop in C for any number of rounds, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.table import GENTLY, richardson

PATHS = sg.Options(paths=60)


def newton(x):
    y = x
    while abs(y * y - x) > 1e-12 * x:
        y = 0.5 * (y + x / y)
    return y


def forever(x):
    y = x + 1.0
    while True:
        z = np.cos(y) + 0.1 * x
        if abs(z - y) < 1e-10:
            break
        y = z
    return z * y


def bisection(x):
    low, high = 0.0 * x, x + 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle * middle > x:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def tolerance(y, z):
    return abs(y - z) > 1e-11


def previous(x):
    old, y = x + 10.0, x
    while tolerance(old, y):
        old, y = y, y - (y**3 - x) / (3 * y * y)
    return y + 0.0 * old


def descent(x):
    w = np.zeros(2) + x
    g = np.array([1.0, 1.0]) * x
    while np.sum(g * g) > 1e-12:
        g = np.array([2.0, 6.0]) * (w - np.array([0.3, -0.2]) * x)
        w = w - 0.1 * g
    return np.sum(w * w)


def asserted(x):
    y = x
    while y > 0.5:
        assert y < 1e9
        y = y * 0.5
    return y


def structure(x):
    state = {"y": x, "more": [x * 0.0, x + 1.0]}
    while state["more"][1] - state["more"][0] > 1e-6:
        state = {"y": state["y"] * 0.9, "more": [state["more"][0] * 0.5, state["more"][1] * 0.5]}
    return state["y"]


def tries(x):
    y = x
    for _ in range(50):
        z = 0.5 * (y + x / y)
        if abs(z - y) < 1e-9:
            break
        y = z
    return y


def three_ways(x):
    y = x * 1.0
    while y > 1.0:
        if y > 20.0:
            y = y / 10
        elif y > 5.0:
            y = np.sqrt(y)
        else:
            y = y - 0.75
    return y


def one_after_another(x):
    y, z = x + 1.0, 3.0 * x + 1.0
    while y > 0.1:
        y = y * 0.5
    while z > 0.1:
        z = z * 0.5 - y * 0.01
    return y + z * z


def rolled_in_place(x):
    h, y = np.zeros(3), x + 1.0
    while y > 0.1:
        y = 0.5 * y
        h[0] = h[1] + y
        h[1:] = np.sin(h[:2]) * 0.5 + x
        h *= 0.9
    return np.sum(h * h) + y


def counted_for_nobody(x):
    """Shallow water in steps that are as long as they may be: its counter is a variable of no round."""
    heights = 1.0 + np.minimum(x, 20.0) * (np.linspace(0.0, 1.0, 20) < 0.5)
    U, t, n = np.stack([heights, heights]), 0.0, 0
    while t < 0.1:
        fastest = 4.0 + np.max(np.abs(U))
        dt = min(0.04 / fastest, 0.1 - t)
        P = np.concatenate([U[:, :1], U, U[:, -1:]], axis=1)
        flux = lambda V: np.stack([V[1], V[1] ** 2 / V[0] + 4.905 * V[0] ** 2])  # noqa: E731
        F = 0.5 * (flux(P[:, :-1]) + flux(P[:, 1:])) - 2 * (P[:, 1:] - P[:, :-1])
        U = U - dt / 0.1 * (F[:, 1:] - F[:, :-1])
        t += dt
        n += 1
    return np.sum(U)


ONE_PATH = [
    newton, forever, bisection, previous, descent, structure, one_after_another, asserted, rolled_in_place,
    counted_for_nobody,
]
MORE = [tries, three_ways]
POINTS = (0.3, 2.0, 7.3, 9.0, 55.0, 4321.0, 2.0)


def difference(fun, x, step=1e-4):
    return richardson(lambda h: fun(x + h), step)


@pytest.mark.parametrize("fun", [*ONE_PATH, *MORE], ids=lambda f: f.__name__)
def test_it_is_what_python_does(fun):
    compiled = sg.jit(fun, options=PATHS)
    for x in POINTS:
        np.testing.assert_allclose(compiled(x), fun(x), rtol=1e-12)


@pytest.mark.parametrize("fun", ONE_PATH, ids=lambda f: f.__name__)
def test_one_path_serves_any_number_of_rounds(fun):
    compiled = sg.jit(fun)
    for x in (9.0, *POINTS, 1e6, 123.0):
        compiled(x)
    assert compiled.cache_info().compilations <= 2
    assert "while_" in compiled.lower(9.0).as_text("stable")


@pytest.mark.parametrize("fun", [newton, forever, previous, descent, structure, tries, rolled_in_place],
                         ids=lambda f: f.__name__)
def test_derivatives_are_those_of_the_rounds(fun):
    gradient = sg.value_and_grad(fun, options=PATHS)
    for x in (2.0, 7.3, 55.0):
        value, slope = gradient(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        np.testing.assert_allclose(slope, difference(fun, x), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(sg.jvp(fun, (7.3,), (1.0,))[1], gradient(7.3)[1], rtol=1e-9)


def test_second_derivatives():
    np.testing.assert_allclose(sg.grad(sg.grad(newton))(9.0), -0.25 * 9.0**-1.5, rtol=1e-9)
    np.testing.assert_allclose(sg.grad(newton)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-12)


def counts(x):
    k, y = 0, x
    while y > 1.0:
        y, k = y * 0.5, k + 1
    return y * k


class Counter:
    k = 0


def hidden(x):
    counter, y = Counter(), x
    while y > 1.0:
        counter.k += 1
        y = y * 0.5 if counter.k != 7 else y * 0.25
    return y


def history(x):
    every, y = [], x
    while y > 1.0:
        y = y * 0.5
        every.append(y)
    return sum(every)


def changes(x):
    y = x
    k = iter([0.5, 0.25, 0.125] * 10)
    while y > 1.0:
        y = y * next(k)
    return y


def in_place(x):
    y = np.array([x, x * 2])
    while y[0] > 1.0:
        y[0] = y[0] * 0.5
        y[1] = y[1] + y[0]
    return y[1]


COUNT = [0]


def in_a_global(x):
    COUNT[0], y = 0, x
    while y > 1.0:
        COUNT[0] += 1
        y = y * 0.5 if COUNT[0] != 7 else y * 0.3
    return y


def count(*, reset=False, so_far=[0]):  # noqa: B006 - this is what it is about
    so_far[0] = 0 if reset else so_far[0] + 1
    return so_far[0]


def in_a_default(x):
    count(reset=True)
    y = x
    while y > 1.0:
        y = y * 0.5 if count() != 7 else y * 0.3
    return y


class Class:
    n = 0

    @classmethod
    def count(cls):
        cls.n += 1
        return cls.n


def in_a_class(x):
    Class.n = 0

    def halved(y):
        while y > 1.0:
            y = y * 0.5 if Class.count() != 7 else y * 0.3
        return y

    return halved(x)


def in_a_long_list(x):
    many, y = [0] * 100, x
    while y > 1.0:
        many[3] += 1
        y = y * 0.5 if many[3] != 7 else y * 0.3
    return y


def in_a_length(x):
    seen: dict[int, int] = {}
    y = x
    while y > 1.0:
        y, seen[len(seen)] = y * 0.5, 1
        if len(seen) == 6:
            y = y * 0.1
    return y


def set_by_one_way(x):
    y = x
    while y > 1.0:
        if y > 5.0:
            z = y * 0.1
        elif y < 4.0:
            y = y - z * 0.3 if x > 5.0 else y
        y = y * 0.5
    return y


def set_where_it_is_not(x):
    y = x
    while y > 1.0:
        try:
            k = k + 1  # type: ignore[has-type]  # it is not set the first time
        except NameError:
            k = 0
        y = y * 0.5 if k < 5 else y * 0.3
    return y


def within_one_round(x):
    """The inner loop asks in the first round alone; a variable of the outer one is read by nothing behind it."""
    y, q = x, x * 1.0
    while y > 1.0:
        q = 0.8 * q - 0.3 * x
        z = 1.5 * x + 0.4
        while z > 0.1:
            z = 0.6 * z
        y = 0.45 * y
    q = np.sin(x)
    return y + q


def twice_the_same(x):
    """The second time no condition is asked: all are known from the first time."""
    p = 1.0
    for _ in range(2):
        h = 0.5 * x
        while h > 0.1:
            p = p * 0.9
            h = 0.6 * h
    return p * x


HIDDEN = [
    counts, hidden, history, changes, in_place, in_a_global, in_a_default, in_a_class, in_a_long_list, in_a_length,
    set_by_one_way, set_where_it_is_not, within_one_round, twice_the_same,
]


@pytest.mark.parametrize("fun", HIDDEN, ids=lambda f: f.__name__)
def test_what_variables_do_not_show_stays_a_path_each(fun):
    """Counters, attributes and iterators may do something else in a later round: nothing is made of earlier ones."""
    compiled = sg.value_and_grad(fun, options=sg.Options(compiler="none", paths=60))
    for x in (3.0, 30.0, 1000.0, 17.0, 12.0, 39.0):
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        np.testing.assert_allclose(slope, difference(fun, x), rtol=1e-7)


def goes_on(x):
    y = x
    for _ in range(6):
        y = np.sin(y + 0.3)
        if y > 0.9:
            continue
    return y


def clipped(x):
    y = x
    for _ in range(6):
        y = min(np.sin(y + 0.3) * 1.01, 0.9 + 0 * x)
    return y


def leaves_by_two(x):
    y = x
    for _ in range(6):
        y = np.sin(y + 0.3)
        if y > 0.9 and y > 0.91:
            break
    else:
        y = 2 * y
    return y


def raises_and_goes_on(x):
    y = x
    for _ in range(6):
        y = np.sin(y + 0.3)
        try:
            if y > 0.9:
                raise KeyError  # noqa: TRY301 - this is what it is about
        except KeyError:
            continue
    return y


@pytest.mark.parametrize("fun", [goes_on, clipped, leaves_by_two, raises_and_goes_on])
def test_a_for_that_runs_out_is_left_by_no_condition(fun):
    """In the call that is traced the last condition alone comes to something else, as if it had ended the loop."""
    compiled = sg.value_and_grad(fun, options=sg.Options(compiler="none"))
    for x in (-0.3, 0.1, 2.0, 0.5, -2.0, -0.38, 0.9):
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        np.testing.assert_allclose(slope, difference(fun, x), rtol=1e-7, atol=1e-9)


def implicit_steps(c):
    """Newton's steps with a matrix of the last point: the way back reads each step's factors where it kept them."""
    x = c
    for _ in range(12):
        A = 4 * np.eye(2) + np.outer(x, x)
        s = np.linalg.solve(A, c - x)
        x = np.tanh(x + s + 0.1 * np.linalg.svd(A + np.diag(x))[1])
        if np.linalg.norm(s) < 0.08:
            break
    return np.sum(np.sin(x))


def test_factors_of_the_steps():
    slope, at = sg.grad(implicit_steps, options=GENTLY), np.array([0.3, -0.5])
    for x in (at, 2 * at):
        want = [difference(lambda y, x=x, way=way: implicit_steps(x + y * way), 0.0, 1e-2) for way in np.eye(2)]
        np.testing.assert_allclose(slope(x), want, rtol=1e-6)


def test_collatz():
    def steps(n):
        total = n * 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            total = total + 1
        return total

    compiled = sg.jit(steps)
    for n in (27, 1, 6, 97, 7, 2, 871):
        assert compiled(n) == steps(n)
    assert compiled.cache_info().compilations <= 3


def test_sinkhorn_until_the_marginals_fit():
    cost = np.random.default_rng(0).uniform(size=(4, 5))
    a, b = np.full(4, 0.25), np.full(5, 0.2)

    def transport(cost, eps):
        kernel = np.exp(-cost / eps)
        u, v = np.ones(4), np.ones(5)
        u = a / (kernel @ v)
        while np.max(np.abs(u * (kernel @ v) - a)) > 1e-9 or np.max(np.abs(v * (kernel.T @ u) - b)) > 1e-9:
            v = b / (kernel.T @ u)
            u = a / (kernel @ v)
        return np.sum(u[:, None] * kernel * v * cost)

    compiled = sg.value_and_grad(transport)
    for eps in (0.5, 0.2, 0.7):
        value, slope = compiled(cost, eps)
        np.testing.assert_allclose(value, transport(cost, eps), rtol=1e-10)
        step = np.random.default_rng(1).normal(size=cost.shape)

        def along(t, eps=eps, step=step):
            return transport(cost + t * step, eps)

        wanted = difference(along, 0.0, 1e-3)
        np.testing.assert_allclose(np.sum(slope * step), wanted, rtol=1e-5, atol=1e-8)


def behind_a_for(x, n):
    a, b = x[0], x[1]
    for _ in range(n):
        b = a
        a = 0.7 * a
    return 0.7 * b


def behind_a_while(x, n):
    a, b = x[0], x[1]
    while a > n:
        b = a
        a = 0.7 * a
    return 0.7 * b


def behind_ways(x, n):
    a, b = x[0], x[1]
    for _ in range(12):
        if a > n:
            b = a
            a = 0.7 * a
        else:
            b = x[2]
            a = a + 0.9
    return 0.7 * b


def one_value_of_two_names(x, n):
    a, b = x[0], x[1]
    for _ in range(n):
        a = 0.7 * a
        b = a
    return b + 0.1 * (0.7 * b)


@pytest.mark.parametrize("fun", [behind_a_for, behind_a_while, behind_ways, one_value_of_two_names])
def test_what_a_loop_computed_by_chance_is_computed_again_behind_it(fun):
    """The value of `0.7 * b` behind the loop is that of `a` where there was a round, and not where there was none."""
    f = sg.jit(fun, options=sg.Options(compiler="none"))
    x = np.array([1.26, -0.48, 1.21, -3.1])
    for first in (3, 1):
        for n in (first, 1, 2, 4, 0 if fun is not behind_a_while else 5):
            for sign in (1.0, -1.0):
                assert abs(f(sign * x, n) - fun(sign * x, n)) < 1e-12, (first, n, sign)


def in_each_of_some(x, n):
    total = 0.0
    for i in range(6):
        a, b = 2.0 * x[i % 4], x[(i + 1) % 4]
        while a > n:
            b = a
            a = 0.7 * a
        total = total + 0.7 * b
    return total


def nested_fors(x, n):
    total = 0.0
    for i in range(3):
        a, b = x[i], x[i + 1]
        for _ in range(n):
            b = a
            a = 0.7 * a
        total = total + np.sin(0.7 * b)
    return total


def nested_whiles(x, n):
    total, k = x[0], 0
    while total < 5 and k < 6:
        a, b = total, x[1]
        while a > n:
            b = a
            a = 0.7 * a
        total = total + 0.7 * b + 1
        k += 1
    return total


@pytest.mark.parametrize("fun", [in_each_of_some, nested_fors, nested_whiles])
def test_what_nested_loops_computed_by_chance(fun):
    f = sg.jit(fun, options=sg.Options(compiler="none"))
    x = np.array([1.26, -0.48, 1.21, -3.1])
    for n in (2, 0, 1, 3) if fun is nested_fors else (1.0, 0.4, 2.0, 3.0):
        for y in (x, -x, x[::-1].copy()):
            assert abs(f(y, n) - fun(y, n)) < 1e-12, (n, y)


def asks_twice(x, n):
    y, z, t = x[0], 0.0 * x[0], 0.0 * x[0]
    while t < n:
        if y > 0.5:
            z = 0.9 * z + y
        y = 3.9 * y * (1 - y)
        if y > 0.5:  # as the next round asks first
            z = np.sin(z)
        t = t + 1
    return z


def asks_of_the_last(x, n):
    y, last, z, t = x[0], 0.5 * x[0], 0.0 * x[0], 0.0 * x[0]
    while t < n:
        if last > 0.5:
            z = 0.9 * z + y
        last = y
        y = 3.9 * y * (1 - y)
        if y > 0.5:
            z = np.sin(z)
        t = t + 1
    return z


def asks_before_the_loop(x, n):
    y, z = 3.0 * x[0], 0.0 * x[0]
    if y > 1:
        z = z + 1
    while y > 0.8 * x[1]:
        if y > 1:
            z = z + y
        y = 0.6 * y
        if y > 1:
            z = z - n
    return z


@pytest.mark.parametrize("fun", [asks_twice, asks_of_the_last, asks_before_the_loop])
def test_no_round_goes_by_what_another_asked(fun):
    f = sg.jit(fun, options=sg.Options(compiler="none", paths=99))
    for first in np.linspace(0.02, 0.98, 33):
        for x in ([first, 0.7], [first, 0.2]):
            np.testing.assert_allclose(f(np.array(x), 6), fun(np.array(x), 6), rtol=1e-9)


@pytest.mark.parametrize("of", [bool, int, float])
def test_conditions_that_are_made_numbers(of):
    """The condition of a `while` stands twice in Python's code; it is one call in both places."""
    def halved(x):
        while of(x > 0.1):
            x = x * 0.5
        return x

    compiled = sg.jit(halved)
    for x in (1.0, 0.05, 30.0):
        assert compiled(x) == halved(x)

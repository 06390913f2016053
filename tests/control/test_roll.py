"""Plain Python loops become scans, which compute the same bits; what is no loop stays as it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.ir.evaluate import evaluate
from symgrad.ir.text import as_text
from tests.control.loops import random_loop
from tests.table import INTERPRETED

SEEDS = range(36)

UNROLLED = sg.Options(without=("roll",))


def stable(f, args, options=None):
    return sg.jit(f, options=options).lower(*args).stages.of("stable")


def lengths(program):
    """List how many steps the scans of a program have."""
    return [node.param("length") for node in program.nodes() if node.op.name == "scan"]


def same_bits(f, args):
    """Compare the interpreted programs with and without `roll`; return the rolled one."""
    rolled = stable(f, args)
    given = [np.asarray(a) for a in args]
    given += [f.__globals__[node.param("name")] for node in rolled.inputs[len(args):]]  # read from outside
    for one, other in zip(evaluate(rolled, given), evaluate(stable(f, args, UNROLLED), given), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    return rolled


def rk4(p, y, steps):
    def rhs(y):
        return np.stack([y[1], -p[0] / p[1] * np.sin(y[0]) - p[2] * y[1]])

    total, h = 0.0, 0.01
    for t in range(steps):
        k1 = rhs(y)
        k2 = rhs(y + h / 2 * k1)
        k3 = rhs(y + h / 2 * k2)
        k4 = rhs(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        total = total + np.sum(y * y) * np.exp(-0.1 * t)
    return total


def rnn(W, U, b, X):
    h, out = np.zeros(len(U)), []
    for t in range(len(X)):
        h = np.tanh(X[t] @ W + h @ U + b)
        out.append(h)
    return np.sum(np.stack(out) ** 2)


def kalman(q, r, y):
    m, P, total = 0.0, 1e7, 0.0
    for t in range(len(y)):
        P = P + q
        S, v = P + r, y[t] - m
        K = P / S
        total = total - 0.5 * (np.log(2 * np.pi * S) + v * v / S)
        m, P = m + K * v, P * (1 - K)
    return total


def within(x):
    total = 0.0
    for i in range(len(x)):
        a = x[i]
        for _ in range(5):
            a = a - (a * a - x[i]) / (2 * a)
        total = total + a
    return total


def running(x):
    out = np.zeros(len(x))
    for i in range(1, len(x)):
        out[i] = out[i - 1] * 0.9 + x[i]
    return np.sum(out**2)


def fibonacci(x):
    a, b = x[0], x[1]
    for _ in range(50):
        a, b = b, np.sin(a) + b * 0.5
    return b


def forward(A, start, B):
    seen = np.random.default_rng(0).integers(0, 5, 40)
    a = start + B[:, seen[0]]
    for t in range(1, len(seen)):
        m = a.max()
        a = np.log(np.exp(a - m) @ np.exp(A)) + m + B[:, seen[t]]
    return np.log(np.sum(np.exp(a)))


def filtered(again, q, r, H, ys):
    """A filter of which some observations are missing: at many steps, what is seen is what was seen before.

    Where all is seen, what is computed `again` is there already.
    """
    rng = np.random.default_rng(5)
    n, seen = H.shape[1], rng.random(ys.shape) < 0.7
    A, x, P, total = np.eye(n) + 0.1 * rng.normal(size=(n, n)), np.zeros(n), np.eye(n), 0.0
    plain = np.where(rng.random((len(ys), *H.shape)) < 0.8, 0.5, 0.0)
    for t in range(len(ys)):
        x, P = A @ x, A @ P @ A.T + q * np.eye(n)
        part = np.where(seen[t][:, None], H, 0.0)
        PH = H @ P
        S = part @ P @ part.T + r * np.eye(len(H))
        K = np.linalg.solve(S, part @ P).T
        e = np.where(seen[t], ys[t] - H @ x, 0.0)
        x, P = x + K @ e, P - K @ (PH if again else part @ P)
        total = total + e @ np.linalg.solve(S, e) + np.linalg.slogdet(S)[1] + np.sum(plain[t] @ x)
    return total


def dosed(dose, rate):
    """Doses of which there are three, given at times of a table."""
    kinds, amount = np.random.default_rng(6).integers(0, 3, 60), 0.0 * rate
    for t in range(60):
        amount = amount * np.exp(-rate) + np.tanh(dose[kinds[t]] * (1 + kinds[t])) * np.sqrt(1.0 + amount)
    return np.sum(amount)


def visits(theta, y):
    """A dose of a few kinds at each visit, what is left of it, and what was seen of that: all visits are alike."""
    rng = np.random.default_rng(8)
    kinds, seen = rng.integers(0, 4, 45), rng.random(45) < 0.6
    gut = blood = total = 0.0 * theta[0]
    for t in range(45):
        gut = gut + theta[3 + kinds[t]]
        left = gut * np.exp(-theta[0])
        blood, gut = blood * np.exp(-theta[1]) + gut - left, left
        total = total + np.where(seen[t], (blood / theta[2] - y[t]) ** 2, 0.0)
    return total


def drawn_again(x, w):
    """Steps of which many have a factor that an earlier one had, and some equal ones at two lines."""
    table = np.random.default_rng(7).integers(1, 4, 50)
    for t in range(50):
        scale = np.sqrt(w * table[t])
        x = np.sin(x * scale) + np.exp(-w)
        x = np.cos(x) * np.sqrt(w * table[t - 1]) * scale
    return np.sum(x)


def epidemic(p, y, days):
    """A few long steps, each a loop of fewer, which calls a function again and again."""
    def rhs(y):
        s, i = y
        caught = p[0] * s * i
        return np.array([-caught, caught - p[1] * i])

    cases = []
    for _ in range(days):
        before = y[0]
        for _ in range(4):
            k1 = rhs(y)
            k2 = rhs(y + 0.125 * k1)
            k3 = rhs(y + 0.125 * k2)
            y = y + 0.25 / 6 * (k1 + 2 * k2 + 2 * k3 + rhs(y + 0.25 * k3))
        cases.append(before - y[0])
    return np.sum(np.stack(cases) ** 2)


def layered(x, Ws):
    """Some layers of seventy operations, each with a matrix of its own."""
    for W in Ws:
        h = x @ W
        for k in range(24):
            h = np.tanh(h) * (1 + 0.1 * k) + 0.5
        x = x + h
    return np.sum(x**2)


def steps(step, count, y, b):
    """A few steps, each of which has a loop of its own."""
    for _ in range(count):
        y = step(y, b)
    return np.sum(y * np.cos(y))


def swing(p, y):
    """A pendulum, whose line of the slope reads numbers for all steps and numbers of each."""
    def slope(y):
        return np.array([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]])

    seen = []
    for _ in range(40):
        y = y + 0.01 * slope(y + 0.005 * slope(y))
        seen.append(y)
    return np.sum(np.stack(seen) ** 2)


def kept(step, together, x):
    """A step of one or two operations, whose results are kept and put together."""
    h, seen = x[0], []
    for _ in range(50):
        h = step(h, x)
        seen.append(h)
    return np.sum(together(seen) ** 2)


_r = np.random.default_rng(0).normal

LOOPS: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "rk4": (lambda p, y: rk4(p, y, 40), (np.array([9.8, 1.0, 0.1]), _r(size=2)), 40),
    "rnn": (rnn, (_r(size=(3, 4)), _r(size=(4, 4)), _r(size=4), _r(size=(50, 3))), 50),
    "kalman": (kalman, (1.0, 1.0, _r(size=50)), 50),
    "swing": (swing, (np.array([9.8, 0.1]), np.array([0.4, -0.3])), 40),
    "within": (within, (_r(size=40) ** 2 + 0.5,), 40),
    "running": (running, (_r(size=50),), 49),
    "fibonacci": (fibonacci, (_r(size=2),), 50),
    "epidemic": (lambda p, y: epidemic(p, y, 8), (np.array([0.6, 0.2]), np.array([0.999, 0.001])), 8),
    "forward": (forward, (_r(size=(4, 4)), _r(size=4), _r(size=(4, 5))), 39),
    "missing": (partial(filtered, False), (0.3, 0.5, _r(size=(2, 4)), _r(size=(37, 2))), 37),
    "missing twice": (partial(filtered, True), (0.3, 0.5, _r(size=(3, 4)), _r(size=(60, 3))), 60),
    "dosed": (dosed, (_r(size=3), np.array([0.3, 0.4])), 59),
    "visits": (visits, (1.5 + np.abs(_r(size=7)), _r(size=45)), 45),
    "drawn again": (drawn_again, (_r(size=3), 0.7), 50),
    "product": (partial(steps, lambda y, A: np.tanh(A @ y), 12), (_r(size=9), 0.3 * _r(size=(9, 9))), 12),
    "norm": (partial(steps, lambda y, b: (y + b) / np.sqrt(1 + np.sum(y * y)), 12), (_r(size=70), _r(size=70)), 12),
    "turned": (partial(steps, lambda y, b: np.tanh(y * b + 0.3 * np.roll(y, 1)), 12), (_r(size=70), _r(size=70)), 12),
    "kept": (partial(kept, lambda h, _: np.sin(h) + 1.0, np.stack), (_r(size=2),), 50),
    "halved": (partial(kept, lambda h, _: 0.5 * h, np.array), (_r(size=2),), 50),
    "compound": (partial(kept, lambda h, x: h * (1.0 + x[1]), np.array), (_r(size=2) / 9,), 50),
    "kept rows": (partial(kept, lambda h, _: np.tanh(h), np.concatenate), (_r(size=(2, 1, 3)),), 50),
}
"""Programs, arguments, and how many copies are one loop."""


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_found(name):
    f, args, steps = LOOPS[name]
    assert lengths(same_bits(f, args)) == [steps]


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_are_those_of_the_unrolled_loop(name):
    f, args, _ = LOOPS[name]
    by = tuple(range(len(args)))
    value, grads = sg.value_and_grad(f, argnums=by, options=sg.Options(verify=True))(*args)
    unrolled = sg.Options(without=("roll",), compiler="none")
    expected, others = sg.value_and_grad(f, argnums=by, options=unrolled)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for one, other in zip(grads, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * np.max(np.abs(other)))


@pytest.mark.parametrize("name", sorted(LOOPS.keys() - {"within"}))
def test_a_value_and_what_its_gradient_keeps_are_one_loop(name):
    """The former may end a step before, begin several variables with 0, and not be given what the latter is."""
    f, args, _ = LOOPS[name]
    program = sg.value_and_grad(f, argnums=tuple(range(len(args)))).lower(*args).stages.of("optimized")
    assert [node.param("reverse") for node in program.nodes() if node.op.name == "scan"] == [False, True]


def test_what_a_step_reads_often_is_its_own():
    """A state or a row that forty terms of a step read is none that all steps have in common."""
    def often(w, x):
        a, total = w, 0.0
        for t in range(len(x)):
            v, u = a, x[t] * w
            for i in range(36):
                v = v * 0.5 + a * (0.01 * i) + u
            a, total = v, total * 0.5 + np.sum(u * v)
        return total

    found = [len(stable(often, (np.ones(3), np.linspace(0, 1, n))).nodes()) for n in (40, 80)]
    assert found[0] == found[1] < 300


def test_factors_of_a_matrix_are_made_in_their_own_step():
    """A step's second matrix is the next one's first: its factors have no derivative that a loop could carry."""
    def f(w):
        v, seen = w, []
        for _ in range(40):
            a = v
            v = np.linalg.solve(np.eye(2) * (3 + np.sum(a) ** 2), a + w)
            seen.append(np.linalg.solve(np.eye(2) * (3 + np.sum(v) ** 2), w))
        return np.sum(np.stack(seen) ** 2)

    sg.check_grads(f, (np.ones(2) * 0.3,))


def test_steps_are_rewritten_as_what_stands_outside_of_loops():
    def softplus(x):
        for _ in range(40):
            x = np.log(1.0 + np.exp(x * 3.0)) - 0.5
        return x

    assert "np.logaddexp" in sg.jit(softplus).lower(1.0).as_text("stable")
    assert np.isfinite(sg.jit(softplus)(1e3))


def test_arguments_alone_repeat_nothing():
    assert sg.jit(lambda *a: a[0])(*map(float, range(40))) == 0.0


def test_programs_do_not_grow_with_the_steps():
    p, y = LOOPS["rk4"][1]

    def count(steps):
        return len(stable(lambda p, y: rk4(p, y, steps), (p, y)).nodes())

    assert count(200) == count(40)

    def lines(steps):
        return sg.grad(lambda p, y: rk4(p, y, steps)).lower(p, y).as_text("c").count("\n")

    assert lines(80) == lines(40)

    def total(steps):
        def f(y):
            h, seen = y[0], []
            for _ in range(steps):
                h = np.sin(h)
                seen.append(h)
            return sum(seen) ** 2

        return sg.grad(f).lower(y).as_text("c").count("\n")

    assert total(80) == total(40)


def test_what_all_steps_read_is_made_before_the_loop_and_not_carried():
    program = stable(*LOOPS["visits"][:2])
    (loop,) = [node for node in program.nodes() if node.op.name == "scan"]
    assert loop.param("carried") == 3
    assert not any(node.op.name == "exp" for node in loop.param("body").nodes())
    assert len(loop.param("body").outputs) == 3


def implicit(k, y, steps, rounds):
    for _ in range(steps):
        z = y
        for _ in range(rounds):
            z = z - 0.1 * (z - y - 0.1 * np.tanh(k * z * z[::-1]))
        y = z
    return np.sum(y)


def newton(k, y, steps, rounds):
    for _ in range(steps):
        z = y
        for _ in range(rounds):
            z = z - np.linalg.solve(np.eye(3) - 0.2 * np.diag(k * z), z - y - 0.1 * k * z * z[::-1])
        y = z
    return np.sum(y)


def splitting(k, y, steps, rounds):
    u, x = np.zeros(3), y
    for _ in range(steps):
        z = x + u
        for _ in range(rounds):
            z = 0.9 * z + 0.1 * np.tanh(k * (x + u - z))
        u = u + x - z
        x = z - 0.1 * u
    return np.sum(x * y)


def three_deep(k, y, steps, rounds):
    for _ in range(steps):
        w = y
        for _ in range(4):
            z = w
            for _ in range(rounds):
                z = z - 0.1 * (z - w - 0.1 * np.tanh(k * z * y))
            w = z
        y = y + 0.1 * w
    return np.sum(y)


def history(k, y, steps, rounds):
    out = []
    for n in range(steps):
        z = y
        for _ in range(rounds):
            z = z - 0.1 * (z - y - 0.01 * np.sin(k * z + 0.1 * n))
        y = z
        out.append(y)
    return np.sum(np.stack(out) ** 2)


def on_one_line(k, y, steps, rounds):
    powers = 1.5 ** np.arange(3)
    for _ in range(steps):
        z = y
        for _ in range(rounds): z = z - 0.4 * (z - 0.9 * y - 0.05 * np.tanh(k * z * powers))  # noqa: E701
        y = z
    return np.sum(y * powers)


@pytest.mark.parametrize("rounds", [7, 9, 10])
def test_the_period_of_an_outer_loop_is_found_for_any_number_of_inner_rounds(rounds):
    args = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.5, 0.2])
    assert len(as_text(same_bits(partial(on_one_line, steps=37, rounds=rounds), args)).splitlines()) < 150


@pytest.mark.parametrize(("rounds", "most"), [(40, 120), (8, 400)])
@pytest.mark.parametrize("f", [implicit, newton, splitting, three_deep, history], ids=lambda f: f.__name__)
def test_a_loop_in_a_loop_reads_what_the_outer_one_carries(f, rounds, most):
    """Where a loop begins again is said by these values alone: no line stands between the loops' rounds."""
    args = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.5, 0.2])
    lines = []
    for steps in (33, 40):
        program = same_bits(partial(f, steps=steps, rounds=rounds), args) if steps == 33 else stable(
            partial(f, steps=steps, rounds=rounds), args)
        lines.append(len(as_text(program).splitlines()))
    assert lines[0] == lines[1] < most


def test_fewer_copies_stay_side_by_side():
    def f(x):
        for _ in range(20):
            x = np.sin(x)
        return x

    assert lengths(same_bits(f, (0.5,))) == []


@pytest.mark.parametrize(("rows", "width", "steps"), [(3, 4, [8]), (3, 40, []), (3000, 4, [])])
def test_few_layers_are_no_loop_that_copies_large_weights_or_sweeps_over_memory(rows, width, steps):
    weights = [_r(size=(width, width)) for _ in range(8)]
    assert lengths(stable(lambda x, *Ws: layered(x, Ws), [_r(size=(rows, width)), *weights])) == steps


def one_other_op(x):
    for t in range(100):
        x = np.sin(x) if t != 47 else np.cos(x)
    return x


def three_back(x):
    a, b, c = x, x * 2, x * 3
    for _ in range(50):
        a, b, c = b, c, np.sin(a)
    return a + b + c


def another_half(x, w):
    for t in range(80):
        x = np.sin(x) * w if t < 40 else np.cos(x) + w
    return x


def read_by_all(x):
    first = None
    for t in range(60):
        x = np.sin(x)
        first = x if t == 4 else first
        if first is not None:
            x = x + 0.1 * first
    return x


def other_shapes(x):
    for _ in range(40):
        x = np.concatenate([x, np.sin(x[-1:])])
    return np.sum(x)


def irregular_writes(x):
    out = np.zeros(100)
    for t in np.random.default_rng(3).permutation(100)[:60]:
        out[t] = np.sin(x[t]) + out[t - 1]
    return np.sum(out * np.arange(100))


def through_views(x):
    out = np.zeros((50, 2))
    for t in range(50):
        row = out[t]
        row[0] = np.sin(x[t])
        row[1] = row[0] + out[t - 1, 1]
    return np.sum(out**2)


def last_writes_win(x):
    out = np.zeros(40)
    for t in range(60):
        out[t % 40] = out[(t * 7) % 40] * 0.5 + x[t % 50]
    return np.sum(out * np.arange(40))


def every_value_is_wanted(x):
    values = []
    for _ in range(40):
        x = np.sin(x) + 0.1
        values.append(x)
    total = 0.0
    for k in np.random.default_rng(1).permutation(40):
        total = total * 0.9 + values[k]
    return total


def backwards(x):
    total = np.zeros(())
    for t in range(len(x) - 1, -1, -1):
        total = np.sin(total) + x[t] * t
    return total


def integers(x, n):
    for t in range(40):
        n = (n * 3 + np.int32(t)) % 101
        x = x + n % 7
    return x


_x = np.random.default_rng(2).normal(size=100)

ODD: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "one other op": (one_other_op, (0.3,)),
    "a value of three copies before": (three_back, (0.3,)),
    "another half": (another_half, (0.3, 0.9)),
    "an early copy that all read": (read_by_all, (0.3,)),
    "shapes that change": (other_shapes, (_x[:2],)),
    "writes at irregular places": (irregular_writes, (_x,)),
    "writes through views": (through_views, (_x,)),
    "the last write": (last_writes_win, (_x,)),
    "every value is wanted": (every_value_is_wanted, (0.3,)),
    "backwards": (backwards, (_x,)),
    "integers": (integers, (0.3, np.int32(5))),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_plain_loop(name):
    """Whatever of it is rolled, the bits stay, and C and gradient are those of the unrolled program."""
    f, args = ODD[name]
    same_bits(f, args)
    np.testing.assert_allclose(sg.jit(f, options=sg.Options(verify=True))(*args), f(*args), rtol=1e-12)
    unrolled = sg.Options(without=("roll",), compiler="none")
    np.testing.assert_allclose(sg.grad(f, options=INTERPRETED)(*args), sg.grad(f, options=unrolled)(*args), rtol=1e-11)


def test_slices_alone_are_no_loop():
    """A scan whose rows are all read one by one is not made again and again."""
    f, args = ODD["every value is wanted"]
    assert len(stable(f, args).nodes()) < 2 * len(stable(f, args, UNROLLED).nodes())


def test_random_loops(seeds):
    """Rolled and unrolled programs give the same bits; the C gives what NumPy gives."""
    rolled = 0
    for seed in seeds:
        loop = random_loop(seed)
        f = loop.function()
        rolled += bool(lengths(same_bits(f, loop.args)))
        if seed % 4 == 0:
            np.testing.assert_allclose(sg.jit(f)(*loop.args), f(*loop.args), rtol=1e-9, err_msg=loop.text)
        if seed % 8 == 0:
            one = sg.grad(f, argnums=tuple(range(len(loop.args))), options=INTERPRETED)(*loop.args)
            unrolled = sg.Options(without=("roll",), compiler="none")
            other = sg.grad(f, argnums=tuple(range(len(loop.args))), options=unrolled)(*loop.args)
            for a, b in zip(one, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=loop.text)


def test_random_loops_are_rolled():
    """About as many as have steps enough and no odd ones."""
    loops = [random_loop(seed) for seed in range(24)]
    assert sum([bool(lengths(stable(loop.function(), loop.args))) for loop in loops]) >= 8


def cut(x):
    for t in range(100):
        x = np.sin(x) + 0.1
        if t == 50:
            x = np.exp(-x)
    return x


def from_far(x):
    xs = [x, x + 1, x + 2, x + 3]
    for _ in range(40):
        xs.append(np.sin(xs[-4]) + np.cos(xs[-1]))
    return xs[-1]


def all_are_read(x):
    out = [x]
    for _ in range(40):
        out.append(np.sin(out[-1]))
    return tuple(out)


def growing(x):
    total = 0.0
    for t in range(1, 50):
        total = total + np.sum(x * np.ones((t, 1)))
    return total


def some_are_equal(x):
    """All steps are one loop, though masks are those of earlier steps."""
    seen = np.random.default_rng(9).random((60, 2)) < 0.5
    total = x
    for t in range(60):
        total = np.sin(total) + np.sum(np.where(seen[t], x, 0.5))
    return total


def all_fit(x):
    for _ in range(40):
        x = np.sin(x)
    return x


@pytest.mark.parametrize(("function", "said"), [
    (cut, "steps like"), (cut, "x = np.exp(-x) is not in all steps"),
    (from_far, "xs.append(np.sin(xs[-4]) + np.cos(xs[-1])) reads what a certain step made, or one more than two"),
    (all_are_read, "a loop would leave no fewer operations"), (growing, "shapes or operations change"),
    (all_fit, ""), (some_are_equal, ""),
])
def test_the_report_says_which_line_broke_a_pattern(function, said):
    f = sg.jit(function)
    f(1.0)
    text = f.report()
    assert said in text
    assert bool(said) == ("Python loops that stay unrolled" in text)


def test_the_threshold_and_the_memory_of_loops_that_are_found():
    def f(x):
        h = np.zeros(4)
        for _ in range(900):
            h = np.sin(h) + x
        return np.sum(h)

    x = np.arange(4.0)
    whole = sg.grad(f)
    expected = whole(x)
    for text in ("8 KiB", 3000):
        small = sg.grad(f, options=sg.Options(memory=text))
        np.testing.assert_allclose(small(x), expected, rtol=1e-12)
        memory = small.memory(x)
        assert memory.peak < 8400
        assert whole.memory(x).peak > 20_000
        assert memory.recomputation == 2 or text == 3000
        assert f"steps are computed {memory.recomputation} times" in str(memory)
        assert f"are computed {memory.recomputation} times" in small.lower(x).as_text("c")
    assert whole.memory(x).recomputation == 1
    assert lengths(stable(all_fit, [1.0], sg.Options(roll=41))) == []
    assert lengths(stable(all_fit, [1.0], sg.Options(roll=0))) == []
    assert lengths(stable(all_fit, [1.0], sg.Options(roll=4))) == [40]
    with pytest.raises(sg.SymgradError, match=r"Options\(roll=3\)"):
        sg.Options(roll=3)
    settings: tuple[dict[str, Any], ...] = tuple([{"paths": n} for n in ("a", None, 0, -1, 2.5, True)])
    for given in settings:
        with pytest.raises(sg.SymgradError, match=r"Options\(paths=(.|\n)*a number of paths, from 1 on"):
            sg.Options(**given)
    for amount in ("foo", -5, "1 parsec"):
        with pytest.raises(sg.SymgradError, match="is no amount of memory"):
            sg.Options(memory=amount)
    with pytest.raises(sg.SymgradError, match="is less than any runs keep"):
        sg.grad(f, options=sg.Options(memory=10))(x)


@pytest.mark.parametrize("results", [1, 2])
def test_a_loop_of_scans(results):
    """A copy begins with what holds a program, not with a result of the copy before."""
    def nested(x):
        b, c = x[0], x[1]
        for _ in range(40):
            def step(g, r, b=b):
                return np.sin(g + r) * 0.5 + 0.1 * b, np.cos(g) * r

            own = sg.scan(step, 0.0 * b, x)
            b, c = own[0], c * 0.5 + np.sum(own[1]) if results == 2 else c
        return b + c

    rolled = same_bits(nested, (np.array([0.3, 0.5, 0.2]),))
    assert lengths(rolled) == [40]
    assert len(rolled.nodes()) < 30


def test_a_table_that_is_read_by_matrices_of_places():
    """What the steps add to the table's gradient stands at places that two axes name."""
    rng = np.random.default_rng(2)
    table, seen, h = rng.normal(size=(7, 3)), rng.integers(0, 7, (4, 40)), rng.normal(size=(4, 3))

    def loss(table, h):
        total = 0.0
        for t in range(40):
            h = np.tanh(h + table[seen[:, t]])
            picked = np.take_along_axis(h, seen[:, t][:, None] % 3, axis=1)[:, 0]
            total = total + np.sum(picked * table[seen[:2, t : t + 1], [[0, 2]]].sum())
        return total

    value, slopes = sg.value_and_grad(loss, argnums=(0, 1))(table, h)
    np.testing.assert_allclose(value, loss(table, h), rtol=1e-12)
    for k, slope in enumerate(slopes):
        step = rng.normal(size=slope.shape)

        def along(s, k=k, step=step):
            return loss(*[a + s * step if j == k else a for j, a in enumerate((table, h))])

        wanted = (8 * (along(1e-4) - along(-1e-4)) - along(2e-4) + along(-2e-4)) / 12e-4
        np.testing.assert_allclose(np.sum(slope * step), wanted, rtol=1e-8)


def test_conditions_that_went_both_ways_are_rolled_once():
    """Of 40 conditions in an array there is no one guard, and slices of an array are no loop."""
    def runs(x):
        total, run = 0.0, 0
        for v in x:
            run = run + 1 if v > 0.1 else 0
            total = total + v * v * run
        return total

    x = np.sin(np.arange(1.0, 41.0) ** 2)
    lengths = sg.grad(runs, options=INTERPRETED)(x) / (2 * x)
    found = sg.grad(lambda x: np.sum(sg.grad(runs)(x) ** 2), options=INTERPRETED)(x)
    np.testing.assert_allclose(found, 8 * lengths**2 * x)


@pytest.mark.parametrize("count", [12, 40])
def test_factors_of_late_products_may_be_what_is_carried(count):
    """Of ``A @ y`` alone the cotangent of a step is the next one's, which the loop back carries."""
    def turned(y, A):
        for _ in range(count):
            y = A @ y if np.sum(y) > 0 else A.T @ y + 0.1
        return np.sum(y * np.cos(y))

    args = _r(size=12), 0.3 * _r(size=(12, 12))
    by = sg.grad(turned, argnums=(0, 1), options=INTERPRETED)(*args)
    expected = sg.grad(turned, argnums=(0, 1), options=sg.Options(without=("roll",), compiler="none"))(*args)
    for one, other in zip(by, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * np.max(np.abs(other)))


def other_ops(hold):
    """Steps with ops of one name, in a program that each holds."""
    first = sg.define_op("turned", lambda x: 1.0 * sympy.sin(x))
    second = sg.define_op("turned", lambda x: 1.0 * sympy.cos(x))

    def f(x):
        for k in range(40):
            x = hold(first if k % 2 else second, x)
        return x

    return f


@pytest.mark.parametrize("hold", [
    lambda op, x: sg.checkpoint(op)(x), lambda op, x: sg.fori_loop(0, 2, lambda _, c: op(c), x),
    lambda op, x: sg.cond(x > 0, op, lambda c: 0.5 * c, x),
])
def test_ops_of_one_name_in_what_a_step_holds_are_others(hold):
    f = other_ops(hold)
    unrolled = sg.Options(without=("roll",), compiler="none")
    value, slope = sg.value_and_grad(f, options=INTERPRETED)(0.3)
    expected = sg.value_and_grad(f, options=unrolled)(0.3)
    np.testing.assert_allclose([value, slope], expected, rtol=1e-12)


def test_many_calls_of_a_loop_become_loops_together(monkeypatch):
    """One by one, each would take a look at all nodes: 80 of them 16 seconds."""
    from symgrad.transforms.control import roll as module

    rng = np.random.default_rng(2)
    table, texts = rng.normal(size=(4, 4)), [rng.integers(0, 4, rng.integers(33, 45)) for _ in range(40)]

    def likelihood(table, text):
        row = table[0]
        for k in text:
            row = np.log(np.sum(np.exp(row[:, None] + table), axis=0)) + table[:, k]
        return np.sum(row)

    def total(table):
        return sum(likelihood(table, text) for text in texts)

    rounds, rolled = [], module._rolled

    def counted(*given):
        rounds.append(len(given[2]))
        return rolled(*given)

    monkeypatch.setattr(module, "_rolled", counted)
    slope = sg.grad(total, options=sg.Options(compiler="none"))
    assert len(slope.lower(table).as_text("stable").splitlines()) < 1000
    assert len(rounds) <= 20
    assert sum(rounds) >= 30
    unrolled = sg.grad(total, options=sg.Options(compiler="none", roll=0))
    np.testing.assert_allclose(slope(table), unrolled(table), rtol=1e-11)

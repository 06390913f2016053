"""Loops and branches, each beside the same in plain Python, unrolled: ``name: (program, the same, arguments, by)``."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg


def python_scan(f, init, xs, length=None, *, reverse=False):
    """Run a scan's function in a Python loop, of which NumPy and a trace see every step."""
    rows = xs if isinstance(xs, (tuple, list)) else [xs]
    steps = length if xs is None else len(rows[0])
    carry, ys = init, []
    for t in range(steps)[:: -1 if reverse else 1]:
        x = None if xs is None else type(xs)([row[t] for row in xs]) if isinstance(xs, (tuple, list)) else xs[t]
        carry, y = f(carry, x)
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    if ys[0] is None:
        return carry, None
    many = isinstance(ys[0], tuple)
    return carry, tuple(np.stack([y[k] for y in ys]) for k in range(len(ys[0]))) if many else np.stack(ys)


def python_while(cond, body, init, *, max_steps=None):
    steps = 0
    while (max_steps is None or steps < max_steps) and cond(init):
        init, steps = body(init), steps + 1
    return init


def python_cond(pred, on_true, on_false, *operands):
    return on_true(*operands) if pred else on_false(*operands)


class Plain:
    """The words of loops and branches, in Python."""

    scan, while_loop, cond = staticmethod(python_scan), staticmethod(python_while), staticmethod(python_cond)

    @staticmethod
    def fori_loop(lower, upper, body, init):
        for i in range(lower, upper):
            init = body(i, init)
        return init

    @staticmethod
    def switch(index, branches, *operands):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


def recurrent(m, h, W, xs):
    def step(h, x):
        h = np.tanh(W @ h + x)
        return h, np.sum(h**2)

    h, ys = m.scan(step, h, xs)
    return np.sum(ys * (np.arange(xs.shape[0]) + 1.0)) + np.sum(np.sin(h))


def backwards(m, h, W, xs):
    h, ys = m.scan(lambda h, x: (0.5 * np.sin(W @ h) + x, h * x), h, xs, reverse=True)
    return np.sum(ys**2) + np.prod(h)


def pendulum(m, y, p):
    def slope(y):
        return np.stack([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]])

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        return y + 0.1 * k2, y[0]

    y, angles = m.scan(step, y, None, 12)
    return np.sum(angles**2) + y[1]


def several(m, a, b, xs, zs):
    """Two states that change places, rows of two arrays, results of two shapes."""
    def step(carry, row):
        x, z = row
        first, second = carry
        return (second * z, first + x), (first[0] * second, x * z)

    (first, second), (ys, ws) = m.scan(step, (a, b), (xs, zs))
    return np.sum(first * second) + np.sum(ys**2) + np.sum(ws)


def batch(m, W, U, xs):
    """A batch in each step: products before, inside of and behind the loop."""
    def step(h, x):
        h = np.tanh(x @ W + h @ U)
        return h, h

    _, hs = m.scan(step, np.zeros((xs.shape[1], U.shape[0])), xs)
    return np.sum(hs**2)


def nested(m, x, W):
    """A scan inside of a scan."""
    def outer(total, row):
        inner, _ = m.scan(lambda h, w: (np.sin(h * w) + row[0], None), total, W)
        return inner, inner * row[1]

    total, ys = m.scan(outer, x, W)
    return np.sum(ys) * np.prod(total)


def counted(m, x):
    return m.fori_loop(2, 7, lambda i, v: v * np.cos(v) + i, x)


def powers(m, x):
    """What is carried stays as it is, or comes from nowhere else."""
    (y, _, n), _ = m.scan(lambda c, _: ((c[0] * c[1], c[1], c[2] + 1), None), (1.0, x, 0), None, 5)
    return y * n


def newton(m, a):
    return m.while_loop(lambda x: np.abs(x * x - a) > 1e-13, lambda x: 0.5 * (x + a / x), 1.0 + 0.0 * a, max_steps=50)


def until(m, x, W):
    """A state in a dictionary; the condition looks at an array."""
    def step(s):
        return {"v": np.tanh(W @ s["v"]) * 0.9, "n": s["n"] + 1}

    s = m.while_loop(lambda s: np.max(np.abs(s["v"])) > 0.2, step, {"v": x, "n": 0}, max_steps=40)
    return np.sum(s["v"] ** 2) * s["n"]


def unbounded(m, x, W):
    """Nobody says how many steps there are at most."""
    v, n = m.while_loop(
        lambda s: np.max(np.abs(s[0])) > 0.05, lambda s: (np.tanh(W @ s[0]) * 0.9, s[1] + 1), (x, 0.0),
    )
    return np.sum(v**2) * n + np.sum(v)


def times(m, x, n):
    """An argument says it."""
    a, b = m.fori_loop(0, n, lambda i, v: (v[1] * 0.9, np.sin(v[0]) + 0.1 * i * x), (x, x * x))
    return np.sum(a) + np.prod(b)


def steps_within_steps(m, x, n):
    """A loop of as many steps as the outer one has taken, which ends by a value."""
    def outer(i, v):
        return m.while_loop(lambda u: u > 0.7 * i + 1, lambda u: 0.8 * u + 0.05 * x, v + 1.5 * x)

    return m.fori_loop(1, n, outer, x) ** 2


def branch(m, x):
    return m.cond(x[0] > 0, lambda x: np.sum(np.sqrt(x)), lambda x: np.sum(x**3), x)


def chosen(m, x, k):
    return m.switch(k, [np.sum, np.prod, lambda x: np.sum(np.exp(x))], x)


def branch_in_a_loop(m, r):
    def step(x, _):
        x = m.cond(x > 0.5, lambda x: r * x * (1 - x), lambda x: 0.9 * r * np.sin(x), x)
        return x, x

    x, ys = m.scan(step, 0.3, None, 6)
    return np.sum(ys) + x


def loop_in_a_branch(m, x):
    def loop(x):
        return m.fori_loop(0, 4, lambda i, v: np.sin(v) + 0.1 * i * v, x)

    return np.sum(m.cond(np.sum(x) > 0, loop, lambda x: x * x, x))


def table(m, x, places):
    """Rows that are looked up, and a state that is written at looked-up places."""
    def step(seen, k):
        return np.where(np.arange(5) == k, seen + x[k], seen), seen[k]

    seen, ys = m.scan(step, np.zeros(5), places)
    return np.sum(seen * x) + np.sum(ys)


_rng = np.random.default_rng(7)


def _n(*shape):
    return _rng.normal(size=shape)


PROGRAMS: dict[str, Any] = {
    "recurrent": (recurrent, (_n(3), _n(3, 3), _n(5, 3)), (0, 1, 2)),
    "recurrent, one step": (recurrent, (_n(3), _n(3, 3), _n(1, 3)), (0, 1, 2)),
    "backwards": (backwards, (_n(4), _n(4, 4) / 2, _n(6, 4)), (0, 1, 2)),
    "pendulum": (pendulum, (np.array([1.0, 0.2]), np.array([9.81, 0.1])), (0, 1)),
    "several": (several, (_n(3), _n(3), _n(4, 3), _n(4)), (0, 1, 2, 3)),
    "batch": (batch, (_n(5, 4), _n(4, 4), _n(6, 3, 5)), (0, 1, 2)),
    "batch, large": (batch, (_n(9, 12) / 4, _n(12, 12) / 4, _n(7, 5, 9)), (0, 1, 2)),
    "nested": (nested, (_n(2), _n(4, 2)), (0, 1)),
    "counted": (counted, (np.array(0.3),), (0,)),
    "powers": (powers, (np.array(1.3),), (0,)),
    "newton": (newton, (np.array(2.0),), (0,)),
    "until": (until, (_n(3), _n(3, 3) / 2), (0, 1)),
    "unbounded": (unbounded, (_n(3), _n(3, 3) / 2), (0, 1)),
    "times": (times, (_n(2), np.array(7)), (0,)),
    "steps within steps": (steps_within_steps, (np.array(1.3), np.array(5)), (0,)),
    "branch, taken": (branch, (np.array([0.5, 2.0]),), (0,)),
    "branch, not taken": (branch, (np.array([-0.5, 2.0]),), (0,)),
    "chosen, 0": (chosen, (np.array([0.5, 2.0]), np.array(-1)), (0,)),
    "chosen, 1": (chosen, (np.array([0.5, 2.0]), np.array(1)), (0,)),
    "chosen, 2": (chosen, (np.array([0.5, 2.0]), np.array(2)), (0,)),
    "branch in a loop": (branch_in_a_loop, (np.array(3.1),), (0,)),
    "loop in a branch": (loop_in_a_branch, (np.array([0.4, 1.1, -0.3]),), (0,)),
    "table": (table, (_n(5), np.array([3, 0, 3, 4, 1, 1])), (0,)),
}


def both(name):
    """Return a program, the same in Python, its arguments, and what it is differentiated by."""
    program, arguments, by = PROGRAMS[name]

    def ours(*args):
        return program(sg, *args)

    def theirs(*args):
        return program(Plain, *args)

    ours.__name__ = theirs.__name__ = program.__name__
    return ours, theirs, arguments, by

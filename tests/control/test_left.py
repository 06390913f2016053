"""Loops that are left: `break` and `return` in a Python `for` are one path for any number of rounds."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

INTERPRETED = sg.Options(compiler="none", paths=100)


def two_exits(x):
    s, k = 0.0, -1
    for k, v in enumerate(x):  # noqa: B007 - read behind
        s = s + v
        if s > 3:
            break
        if v > 1.8:
            s = s * 2
            break
    else:
        s = s - 1
    return s * (k + 1)


def written_and_weighed(x):
    s, p = 0.0, 1.0
    for k in range(len(x)):
        if x[k] > 0:
            s = s + x[k]
        else:
            p = p * 0.9
        if s > 6:
            p = p + x[k] * k
            break
    return s * p


def flag(x):
    s, flag = 0.0, False
    for v in x:
        s = s + abs(v)
        if s > 9:
            flag = True
            break
    if flag:
        return s * v
    return -s


def place_of_the_largest(x):
    s, best = 0.0, 0
    for k, v in enumerate(x):
        if v > x[best]:
            best = k
        s += abs(v)
        if s > 9:
            break
    return x[best] * s


def item_behind(x):
    s = 0.0
    y = x * 2
    for k, v in enumerate(y):  # noqa: B007 - read behind
        s += abs(v)
        y2 = v
        if s > 18:
            break
    return s + x[k] + y2 + y[0]


def counter_changed(x):
    s = 0.0
    for k in range(len(x)):
        s = s + x[k]
        if s > 2.5:
            k = k * 2  # noqa: PLW2901 - it is read behind
            break
    return s + k


def replaced(x):
    s = 0.0
    for v in x:
        s = s + v
        if s > 2:
            s = 2.0
            break
    return s * x[0]


def writes(x):
    out, s = np.zeros(24), 0.0
    for k, v in enumerate(x):
        s = s + abs(v)
        out[k] = s
        if s > 9:
            break
    return np.sum(out * np.arange(24.0))


def writes_through_a_view(x):
    out, s = np.zeros(24), 0.0
    view = out[3:9]
    for k, v in enumerate(x):
        s = s + abs(v)
        out[k] = s
        if s > 9:
            view[0] = 3.0 * s
            break
    return np.sum(out * np.arange(24.0)) + view[1]


def finally_(x):
    s = 0.0
    for v in x:
        try:
            s = s + abs(v)
            if s > 9:
                break
        finally:
            s = s + 0.01
    return s


def two_loops(x):
    s, p = 0.0, 0.0
    for v in x:
        s = s + abs(v)
        if s > 6:
            break
    for k, v in enumerate(x):  # noqa: B007 - read behind
        p = p + abs(v) * s
        if p > 40:
            break
    return p + s * k


def two_rounds_before(x):
    s, prev, pp = 0.0, 0.0, 1.0
    for v in x:
        pp, prev = prev, s
        s = s + abs(v)
        if s > 9:
            break
    return s * prev + pp


def found_or_none(x):
    s, m = 0.0, None
    for v in x:
        s = s + v
        if s > 2:
            m = v
            break
    return s if m is None else m * s


def else_returns(x):
    s = 0.0
    for k, v in enumerate(x):
        if v > 1.0 and s > 3:
            s += k
            break
        s += abs(v)
    else:
        return -s
    return s * x[k]


def place(x):
    for k, v in enumerate(x):
        if v > 0.7:
            return k * x[0]
    return 0.0


def before(x):
    prev = x[0]
    for v in x[1:]:
        if v < prev - 1.5:
            break
        prev = v
    return prev * 2 + v


def one_round_differs(x):
    s = 0.0
    for k in range(len(x)):
        if k == 7:
            s = s + 1.0 * x[0]
        s = s + abs(x[k])
        if s > 9:
            break
    return s


def long_list(x):
    s, big = 0.0, [0.0] * 80
    for v in x:
        s = s + abs(v)
        big.append(s)
        if s > 9:
            break
    return sum(big)


def counts_outside(x):
    n = 0
    def inc():
        nonlocal n
        n += 1
    s = 0.0
    for v in x:
        inc()
        s = s + abs(v)
        if s > 9:
            break
    return s * n


def counts_in_a_list(x):
    s = 0.0
    st = [0, 1.0]
    for v in x:
        st[0] += 1
        s = s + abs(v)
        if s > 9:
            break
    return s * st[0]


def every_other(x):
    s = 0.0
    for k in range(24):
        if k % 2:
            continue
        s = s + abs(x[k])
        if s > 7:
            break
    return s * k


LEFT = (
    two_exits, written_and_weighed, flag, place_of_the_largest, item_behind, counter_changed, replaced, writes,
    writes_through_a_view, finally_, two_loops, two_rounds_before, found_or_none, else_returns, place, before,
)
APART = (one_round_differs, long_list, counts_outside, counts_in_a_list, every_other)
"""With hidden counts, lists, or rounds that are not the same."""


def drawn(seed):
    return np.random.default_rng(seed).normal(size=24) * (0.5 if seed % 5 == 4 else 1.0)


@pytest.mark.parametrize("fun", [*LEFT, *APART], ids=lambda f: f.__name__)
def test_it_is_left_where_numpy_leaves_it(fun):
    """Values, and derivatives in a direction."""
    f = sg.value_and_grad(fun, options=INTERPRETED)
    for seed in range(16):
        x, direction = drawn(seed), drawn(100 + seed)
        value, slope = f(x)
        assert np.isclose(value, fun(x), rtol=1e-12)
        near = [fun(x + h * direction) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope @ direction, (near[0] - near[1]) / 2e-6, rtol=1e-5, atol=1e-6)
    assert f.cache_info().compilations <= 8 or fun in APART


def test_one_loop_in_c():
    f = sg.value_and_grad(place_of_the_largest)
    for seed in range(12):
        x = drawn(seed)
        assert np.isclose(f(x)[0], place_of_the_largest(x), rtol=1e-12)
    assert f.cache_info().compilations <= 2
    text = sg.jit(place_of_the_largest).lower(drawn(1)).as_text("stable")
    assert text.count("ops.scan(") == 1


def each_row_until(x):
    total = 0.0
    for i in range(6):
        run = 0.0
        for j in range(4):
            run = run + abs(x[4 * i + j])
            if run > 1.8:
                break
        total = total + run * j
    return total


def until_both(x):
    total = 0.0
    for i in range(6):
        for j in range(4):
            total = total + abs(x[4 * i + j])
            if total > 11:
                break
        if total > 7:
            break
    return total * (i + 1) + j


def counted_before(x):
    k, total = 0, 0.0
    for v in x:
        if v > 1.2:
            break
        k, total = k + 1, total + v
    return total * k


def far(h):
    return h > 8.0


def asked_elsewhere(x):
    h = 0.0
    for k, v in enumerate(x):  # noqa: B007 - read behind
        h = h + abs(v)
        if far(h):
            break
    return h * k


def or_else(x):
    total = 0.0
    for k, v in enumerate(x):  # noqa: B007 - read behind
        total = total + v
        if total > 3:
            break
    else:
        k = -1
    return total * k


@pytest.mark.parametrize(("fun", "most"), [
    (each_row_until, 1), (until_both, 3), (counted_before, 2), (asked_elsewhere, 2), (or_else, 3),
], ids=lambda one: getattr(one, "__name__", ""))
def test_a_break_and_the_end_go_on_at_one_place(fun, most):
    """They were a path each, and one for each of the loops in a loop."""
    f = sg.value_and_grad(fun, options=INTERPRETED)
    for seed in range(14):
        x, direction = drawn(seed), drawn(100 + seed)
        value, slope = f(x)
        assert np.isclose(value, fun(x), rtol=1e-12)
        near = [fun(x + h * direction) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope @ direction, (near[0] - near[1]) / 2e-6, rtol=1e-5, atol=1e-6)
    assert f.cache_info().compilations <= most

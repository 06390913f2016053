# ruff: noqa: PERF401 - statements are what is tested
"""Python's own `max`, `min`, `sum` and `len` of traced values: one path, whichever is the largest."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.table import richardson

INTERPRETED = sg.Options(compiler="none", paths=100)
RNG = np.random.default_rng(11)
DIRECTION = np.cos(np.arange(40.0))
POINTS = [RNG.normal(size=40) * s for s in (0.5, 1.0, 1.0, 2.0, 0.1)]


def of_two(x):
    return max(x[0], 2.0 * x[1]) * min(x[2], x[3])


def of_a_list(x):
    out = [np.sin(v) * 2.0 for v in x]
    return max(out) - 0.5 * min(out)


def of_a_generator(x):
    return max(v * v for v in x) + min(np.cos(v) for v in x[:5])


def of_an_array(x):
    return max(x) * min(x[3:9])


def hinges(x):
    return sum(max(0, 1.0 - x[k] * x[k + 20]) for k in range(20))


def of_rows(x):
    return sum([max(row) for row in np.reshape(x, (8, 5))])


def in_rounds(x):
    best, total = x[0], 0.0
    for v in x:
        best = max(best, v)
        total = total + min(best, 1.0) * v
        if v > 0.5:
            total = 0.9 * total
    return total


FUNCTIONS = [of_two, of_a_list, of_a_generator, of_an_array, hinges, of_rows, in_rounds]


def slope_along(fun, x):
    return richardson(lambda h: fun(x + h * DIRECTION[: len(x)]), 1e-6)


def agrees(fun, compiled, points, rtol=1e-12):
    """Compare values, and slopes with differences."""
    for x in points:
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=rtol)
        wanted = slope_along(fun, x)
        np.testing.assert_allclose(slope @ DIRECTION[: len(x)], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_largest_is_no_branch(fun):
    compiled = sg.value_and_grad(fun, options=INTERPRETED)
    agrees(fun, compiled, POINTS)
    assert compiled.cache_info().compilations == 1


def test_in_c_in_batches_forward_and_from_specs():
    def every(x):
        return of_two(x) + of_a_list(x) + hinges(x)

    X = np.stack(POINTS)
    wanted = [every(x) for x in X]
    np.testing.assert_allclose(sg.vmap(every)(X), wanted, rtol=1e-12)
    value, slope = sg.jvp(every, (X[0],), (DIRECTION,))
    np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(slope, sg.grad(every)(X[0]) @ DIRECTION, rtol=1e-12)
    assert "ops.guard(" not in sg.jit(every).lower(sg.spec("f64[40]")).as_text("optimized")


@pytest.mark.parametrize(("values", "dtype"), [
    ((1.5, np.nan, 2.0), float), ((np.nan, 1.0, 2.0), float), ((0.0, -0.0, 0.0), float), ((-0.0, 0.0, -1.0), float),
    ((np.inf, np.nan, -np.inf), float), ((3, 1, 2), int), ((2, 250, 7), np.uint8), ((1.0, 1.0, 1.0), np.float32),
])
def test_ties_and_nan_are_pythons(values, dtype):
    """The first of equal ones, and what is no number only where no comparison throws it out."""
    x = np.array(values, dtype)
    found = sg.jit(lambda x: (max(x), min(x), max(x[0], x[1]), min(x[1], x[2])), options=INTERPRETED)(x)
    wanted = max(x), min(x), max(x[0], x[1]), min(x[1], x[2])
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def some_sum(x):
    out = []
    for v in x:
        if v > 0.3:
            out.append(v * v)
    return sum(out) / (len(out) + 1)


def some_largest(x):
    out = [0.1 * x[0]]
    for v in x:
        if v > 0.3:
            out.append(np.sin(v))
    return max(out) - min(out) * out[-1]


def records(x):
    best = [x[0]]
    for v in x:
        if v > best[-1] and len(best) < 6:
            best.append(v)
    return best[-1] * len(best)


def two_lists(x):
    above = []
    below = []
    for v in x:
        if v > 0.2:
            above.append(v)
        else:
            below.append(-0.5 * v)
    if not above:
        return x[3]
    return sum(above) / len(above) - sum(below)


def places(x):
    found = []
    for k in range(40):
        if x[k] > 0.5:
            found.append(k)
    return x[3] * sum(found) + (found[-1] if found else -1)


def in_loops(x):
    total = 0.0
    for row in np.reshape(x, (5, 8)):
        out = []
        for v in row:
            if v > 0.2:
                out.append(v * total + v)
        total = total + sum(out)
    return total


def left_when_full(x):
    out = []
    for k in range(40):
        if x[k] > 0.1:
            out.append(x[k])
        if len(out) == 9:
            break
    return sum(out) * k


def until(x):
    y, out = x[0] * x[0] + 1.0, [0.0]
    out = []
    while y > 0.05:
        y = 0.8 * y
        out.append(y * x[1])
    return sum(out) + max(out) if out else y


LISTS = {
    some_sum: 1, some_largest: 1, records: 2, two_lists: 2, places: 2, in_loops: 2, left_when_full: 3, until: 1,
}


@pytest.mark.parametrize("fun", LISTS, ids=lambda f: f.__name__)
def test_lists_that_grow_on_some_steps(fun):
    """A path for each sequence of steps that append, without an accumulator."""
    compiled = sg.value_and_grad(fun, options=INTERPRETED)
    agrees(fun, compiled, [*POINTS, *[-x for x in POINTS]])
    assert compiled.cache_info().compilations <= LISTS[fun]


def test_lists_of_any_length():
    def waves(x, n):
        out = []
        for k in range(n):
            y = np.sin(x * k)
            if y > 0.1:
                out.append(y)
        return sum(out) * len(out)

    compiled = sg.value_and_grad(waves, options=INTERPRETED)
    for n in (7, 0, 1, 30, 3):
        value, slope = compiled(0.7, n)
        np.testing.assert_allclose(value, waves(0.7, n), rtol=1e-12)
        wanted = (waves(0.7 + 1e-6, n) - waves(0.7 - 1e-6, n)) / 2e-6
        np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-7)
    assert compiled.cache_info().compilations == 1

    def all_of_them(x, n):
        out = []
        for k in range(n):
            out.append(np.cos(x * k))
        return sum(out) + (max(out) if out else 0.0)

    lengths = np.array([3, 1, 8])
    found = sg.vmap(sum_of, in_axes=(None, 0))(0.3, lengths)
    np.testing.assert_allclose(found, [sum_of(0.3, n) for n in lengths], rtol=1e-12)
    compiled = sg.jit(all_of_them)
    for n in (5, 1, 12):
        np.testing.assert_allclose(compiled(0.3, n), all_of_them(0.3, n), rtol=1e-12)


def sum_of(x, n):
    out = []
    for k in range(n):
        out.append(np.cos(x * k))
    return sum(out) / (len(out) + 1)


def test_a_compiled_loop_and_forward_mode():
    value, slope = sg.jvp(some_largest, (POINTS[1],), (DIRECTION,))
    np.testing.assert_allclose(value, some_largest(POINTS[1]), rtol=1e-12)
    np.testing.assert_allclose(slope, sg.grad(some_largest)(POINTS[1]) @ DIRECTION, rtol=1e-12)


def kinds_differ(x):
    out = []
    for v in x:
        if v > 0.3:
            out.append(v)
        else:
            out.append(np.float32(1.0) * int(v < 0))
    return sum(out)


def escapes(x):
    out = []
    for v in x[:9]:
        if v > 0.3:
            out.append(v)
    kept = out
    kept.append(x[0])
    return sum(out)


def rows(x):
    out = []
    for row in np.reshape(x, (10, 4)):
        if row[0] > 0.3:
            out.append(row)
    return np.sum(sum(out))


def flags(x):
    out = []
    for v in x[:9]:
        if v > 0.3:
            out.append(v > 0.5)
    return sum(out) * x[0]


def by_locals(x):
    out = []
    for v in x[:9]:
        if v > 0.3:
            out.append(v)
    return sum(locals()["out"]) + len(out)


@pytest.mark.parametrize("fun", [kinds_differ, escapes, rows, flags, by_locals], ids=lambda f: f.__name__)
def test_lists_that_are_more_than_numbers_are_paths(fun):
    compiled = sg.jit(fun, options=INTERPRETED)
    for x in POINTS:
        np.testing.assert_allclose(compiled(x), fun(x), rtol=1e-12)


def test_an_empty_list_is_refused_as_python_does_and_nothing_is_lost():
    def largest(x):
        out = []
        for v in x:
            if v > 0.3:
                out.append(v)
        return max(out)

    compiled = sg.jit(largest, options=INTERPRETED)
    with pytest.raises(ValueError, match="empty"):
        compiled(-np.abs(POINTS[0]))
    for x in POINTS[:4]:
        assert compiled(x) == largest(x)
    assert compiled.cache_info().compilations == 1
    with pytest.raises(ValueError, match="empty"):
        compiled(-np.abs(POINTS[0]))


def test_an_array_of_a_list_that_grows_on_some_steps_says_what_to_write():
    def stacked(x):
        out = []
        for v in x:
            if v > 0.3:
                out.append(v)
        return np.sum(np.stack(out))

    compiled = sg.jit(stacked, options=sg.Options(compiler="none", paths=3))
    for x in POINTS[:3]:
        compiled(x)
    with pytest.raises(sg.SymgradError, match=r"out in this loop.* may differ on each path(.|\n)*its sum, len, max"):
        compiled(POINTS[3])


MIXED = {
    "several kinds": lambda x: max(x[0], int(x[1] > 0), np.float32(0.5)),
    "keys": lambda x: max(x[0], x[1], key=lambda v: v * v),
    "an empty one": lambda x: max([v for v in x if v > 99.0], default=x[2]),
    "large integers": lambda x: max(2**60 + 1, x[0]) * 1.0,
}


@pytest.mark.parametrize("name", MIXED)
def test_what_is_not_of_one_kind_is_asked(name):
    compiled = sg.jit(MIXED[name], options=INTERPRETED)
    for x in POINTS:
        np.testing.assert_allclose(compiled(x), MIXED[name](x), rtol=1e-14)


def test_of_nothing_python_refuses():
    with pytest.raises(ValueError, match=r"empty|iterable argument"):
        sg.jit(lambda x: max([]) * x)(1.0)

# ruff: noqa: B007, B023, B905, PLR1730, SIM108 - loops are what is tested, and differences are taken at once
"""Loops over `range(n)` of a traced integer, and over rows of an open extent: one compilation for any length."""

from __future__ import annotations

import functools
import pickle
import shutil
import subprocess

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.errors import ConcretizationError
from tests.table import richardson

INTERPRETED = sg.Options(compiler="none", paths=40)


def power(x, n):
    y = 1.0
    for _ in range(n):
        y = y * x
    return y


def series(x, n):
    total = 0.0
    for k in range(1, n + 1):
        total = total + np.sin(x * k) / k**2
    return total


def odd(x, n):
    y = x
    for k in range(3, n, 2):
        y = 0.5 * np.cos(y) + x / k
    return y


def down(x, n):
    y = x
    for k in range(n, -3, -2):
        y = np.sin(y + 0.1 * k) * x
    return y


def two_before(x, n):
    a, b = x, 0.5 * x
    for _ in range(n):
        a, b = b, np.sin(a) + 0.9 * b
    return a - b


def nested(x, n):
    total = 0.0
    for i in range(n):
        y = x
        for j in range(i):
            y = np.sin(y + j) * x
        total = total + y / (i + 1)
    return total


def branching(x, n):
    y = x
    for k in range(n):
        if k % 3 == 1:
            y = np.cos(y) + x
        else:
            y = 0.7 * y * x
    return y


def whiling(x, n):
    y = x
    for _ in range(n):
        z = 4.0 + y * y
        while z > 1.0:
            z = 0.5 * z
        y = np.sin(y) * z
    return y


def before_and_behind(x, n):
    y = x * 2.0 if x > 0.5 else x
    for _ in range(n):
        y = np.sin(y) + 0.3 * x
    if y > 0.8:
        y = y * y
    return y


def again(x, n):
    def inner(y, m):
        for _ in range(m):
            y = np.sin(y) + 0.3 * x
        return y
    return inner(x, n) * inner(2.0 * x, n + 1)


def whole(x, n):
    y = x
    for k in range(int(n)):
        y = np.sin(y) + 0.2 * k
    return y


def named(x, n):
    m = int(n)
    y = x
    for k in range(m):
        for _ in range(m):
            y = np.sin(y) + 0.2 * k
    return y


def in_place(x, n):
    h = np.zeros(3)
    for k in range(n):
        h[k % 3] = np.sin(x + h[0]) + k
        h[0] += 0.1 * h[2]
    return np.sum(h * h)


ONE = [in_place, whole, named, power, series, odd, down, two_before, nested, branching, whiling, again]
LENGTHS = (7, 0, 1, 2, 3, 4, 5, 6, 30, 100, 11)


COMPILED = sg.Options(flags=("-O1",), paths=40)
SLOPED = [series, two_before, nested, whiling]
CURVED = [power, two_before]


def orders(x, n):
    """Return some values and slopes, and some slopes and curvatures in both modes."""
    return [(f(x, n), sg.grad(f)(x, n)) for f in SLOPED], [
        (sg.grad(f)(x, n), sg.hessian(f)(x, n), sg.jvp(sg.grad(f), (x, n), (1.0, None))[1]) for f in CURVED
    ]


@pytest.fixture(scope="module")
def functions():
    """Compile all functions in one."""
    return sg.jit(orders, options=COMPILED)


def along(f, x):
    """Differentiate by differences."""
    def near(h):
        return f(x + h)
    return richardson(near, 1e-4)


@pytest.mark.parametrize("n", LENGTHS)
def test_values_and_derivatives_of_any_length(functions, n):
    x = 0.83
    (value, slope), (slopes, *curves) = [np.transpose(found) for found in functions(x, n)]
    np.testing.assert_allclose(value, [f(x, n) for f in SLOPED], rtol=1e-12)
    np.testing.assert_allclose(slope, along(lambda x: np.array([f(x, n) for f in SLOPED]), x), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(slopes, along(lambda x: np.array([f(x, n) for f in CURVED]), x), rtol=1e-6, atol=1e-7)
    for curve in curves:
        wanted = along(lambda x: np.array([found[0] for found in functions(x, n)[1]]), x)
        np.testing.assert_allclose(curve, wanted, rtol=1e-5, atol=1e-6)


def test_all_lengths_are_one_compilation(functions):
    for n in range(100):
        functions(0.83, n)
    assert functions.cache_info().compilations == 1


@pytest.mark.parametrize("fun", ONE, ids=lambda f: f.__name__)
def test_lengths_of_0_and_1_first(fun):
    compiled = sg.jit(fun, options=INTERPRETED)
    for n in (0, 1, *range(2, 20, 3)):
        np.testing.assert_allclose(compiled(0.6, n), fun(0.6, n), rtol=1e-12)
    assert compiled.cache_info().compilations <= 3


@pytest.mark.nightly
@pytest.mark.parametrize("fun", [nested, whiling, branching], ids=lambda f: f.__name__)
def test_curvatures_of_loops_in_loops(fun):
    slope, curve = [mode(fun, options=COMPILED) for mode in (sg.grad, sg.hessian)]
    for n in (0, 1, 2, 9, 33):
        np.testing.assert_allclose(curve(0.83, n), along(lambda x: slope(x, n), 0.83), rtol=1e-5)


def test_conditions_around_a_loop_are_paths():
    compiled = sg.jit(before_and_behind, options=INTERPRETED)
    for n in LENGTHS:
        for x in (0.2, 0.7, 1.4, -0.3):
            np.testing.assert_allclose(compiled(x, n), before_and_behind(x, n), rtol=1e-12)
    assert compiled.cache_info().compilations <= 6


def first(x, n):
    h = 0.0
    for v in x[:n]:
        h = np.tanh(h + v)
    return h


def between(x, n):
    h = 0.0
    for v in x[n:-1]:
        h = np.tanh(h + v)
    return h + np.sum(x[1:])


@pytest.mark.parametrize("fun", [first, between], ids=lambda f: f.__name__)
def test_some_rows_of_an_array_are_one_loop(fun):
    compiled, x = sg.value_and_grad(fun, options=INTERPRETED), np.cos(np.arange(9.0))
    for n in (5, 0, 1, 2, 9, 12, -1, -3, -12):
        value, slope = compiled(x, n)
        np.testing.assert_allclose(value, fun(x, n), rtol=1e-12)
        np.testing.assert_allclose(np.sum(slope), along(lambda h: fun(x + h, n), 0.0), rtol=1e-6, atol=1e-7)
    assert compiled.cache_info().compilations == 1


def cubes(x, start, stop):
    total = x
    for k in range(start, stop, 7):
        total = total + k * k * k * np.sin(x)
    return total


def downwards(x, start, stop):
    total = x
    for k in range(start, stop, -2):
        total = np.sin(total) + k * x
    return total


@pytest.mark.parametrize("fun", [cubes, downwards], ids=lambda f: f.__name__)
def test_bounds_of_few_bits_count_as_pythons_integers(fun):
    """Their difference, and what a round makes of its number, needs more bits than they have."""
    compiled = sg.jit(fun, options=INTERPRETED)
    for dtype, start, stop in ((np.int8, -100, 100), (np.uint8, 200, 100), (np.int16, 9000, -30000), (np.uint64, 5, 3)):
        for ends in ((start, stop), (stop, start)):
            given = [dtype(end) for end in ends]
            np.testing.assert_allclose(compiled(0.3, *given), fun(0.3, *given), rtol=1e-12)


def test_bounds_of_few_bits_cut_long_arrays():
    compiled, x = sg.jit(first, options=INTERPRETED), np.cos(np.arange(300.0))
    for n in [*map(np.int8, (-3, 100, -100, 0)), np.uint64(2**64 - 4), np.uint64(4)]:
        np.testing.assert_allclose(compiled(x, n), first(x, n), rtol=1e-12)


def slid(x):
    h = 0.0
    for v in x:
        h = np.tanh(h + v)
    return h


def ranged(x):
    h = x[0]
    for t in range(1, len(x)):
        h = np.tanh(h + x[t] * x[t - 1])
    return h


def numbered(x):
    h = 0.0
    for t, v in enumerate(x):
        h = np.tanh(h + v) * (t + 1)
    return h


def paired(x):
    h = 0.0
    for a, b in zip(x, x[::-1]):
        h = h + np.sin(a * h + b)
    return h


def backwards(x):
    h = 0.0
    for v in reversed(x):
        h = np.tanh(h * v) + v
    return h


def multiplied(x):
    h, rows = np.zeros(2), np.stack([x, x * x], axis=1)
    for t in range(x.shape[0]):
        h = np.tanh(0.5 * h + rows[t])
    return np.sum(h)


def test_rows_of_an_open_extent_are_one_loop():
    every = [slid, ranged, numbered, paired, backwards, multiplied]
    compiled = sg.jit(lambda x: [sg.value_and_grad(f)(x) for f in every], options=COMPILED)
    for n in (9, 12, 40, 2, 3, 77):
        x = np.cos(np.arange(n) * 1.3)
        for f, (value, slope) in zip(every, compiled(x), strict=True):
            np.testing.assert_allclose(value, f(x), rtol=1e-12)
            way = np.sin(np.arange(n))
            np.testing.assert_allclose(slope @ way, along(lambda h: f(x + h * way), 0.0), rtol=1e-6, atol=1e-7)
    assert compiled.cache_info().compilations <= 3


def test_a_batch_of_lengths_is_one_loop():
    n, x = np.array([0, 1, 2, 9, 30]), 0.83
    for f in (series, two_before, nested):
        value, slope = sg.vmap(sg.value_and_grad(f), in_axes=(None, 0), options=INTERPRETED)(x, n)
        np.testing.assert_allclose(value, [f(x, int(k)) for k in n], rtol=1e-12)
        np.testing.assert_allclose(slope, [along(lambda x: f(x, int(k)), x) for k in n], rtol=1e-6, atol=1e-7)


def test_without_values_it_is_a_loop():
    lowered = sg.grad(series).lower(sg.spec("f64[]"), sg.spec("i64[]"))
    run = lowered.compile()
    for n in LENGTHS:
        np.testing.assert_allclose(run(0.83, n), along(lambda x: series(x, n), 0.83), rtol=1e-6, atol=1e-7)


def test_without_values_it_is_a_loop_over_an_extent():
    def faded(x):
        total = 0.0 * x[0]
        for k in range(len(x)):
            total = np.tanh(0.5 * total + x[k] * x[len(x) - 1 - k])
        return total

    run = sg.jit(faded, options=INTERPRETED).lower(sg.spec("f64[n]")).compile()
    for n in (1, 2, 9, 40):
        np.testing.assert_allclose(run(np.arange(n) / n), faded(np.arange(n) / n), rtol=1e-13)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_package_needs_no_examples(tmp_path):
    package = sg.emit(series, {"x": "f64[]", "n": "i64[]"}, tmp_path / "series", what="value_and_grad")
    subprocess.run(["make", "-s", "-C", str(package.folder), "check"], check=True, capture_output=True)


def test_it_is_pickled_with_its_loop():
    compiled = sg.jit(series, options=INTERPRETED)
    compiled(0.3, 4)
    again = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_allclose(again(0.3, 50), series(0.3, 50), rtol=1e-13)
    assert compiled.cache_info().compilations == 1


def factorials(x, n):
    total, factorial = 1.0, 1
    for k in range(1, n + 1):
        factorial *= k
        total = total + x**k / factorial
    return total


def powers(x, n):
    total = x
    for k in range(n):
        total = total + x / (k + 1) ** 5 + 0.5**k * 2 ** (-k)
    return total


def shifted(x, n):
    total = x
    for k in range(n):
        total = total + x / 3**k
    return total


@pytest.mark.parametrize("fun", [factorials, shifted, powers], ids=lambda f: f.__name__)
def test_pythons_integers_have_any_size(fun):
    """In 64 bits these would wrap: each length is a path."""
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=40))
    for n in (5, 30, 0, 70):
        np.testing.assert_allclose(compiled(0.9, n), fun(0.9, n), rtol=1e-13)
    np.testing.assert_allclose(compiled(0.9, 8), fun(0.9, 8), rtol=1e-13)
    assert compiled.cache_info().compilations == 5


def exponentials(x):
    total, factorial = 1.0, 1
    for k, v in enumerate(x):
        factorial *= k + 1
        if v > 0:
            total = total + v / factorial
    return total


def test_pythons_integers_have_any_size_where_short_loops_were_rolled():
    """A loop that carried a product of plain numbers, which went both ways, was one with 70 rounds as well."""
    compiled, rng = sg.jit(exponentials, options=INTERPRETED), np.random.default_rng(0)
    for n in (5, 8, 12, 30, 70):
        for x in rng.normal(size=(2, n)):
            np.testing.assert_allclose(compiled(x), exponentials(x), rtol=1e-13)


def tables(x, n):
    table, y = [1.0, 0.5, 3.0, 2.0, 9.0, 4.0, 1.0, 1.0], x
    for k in range(n):
        y = np.sin(y) * table[k]
    return y


def kinds(x, n):
    """Here `int` is a type, too."""
    y = np.zeros(3, int) + x
    for k in range(int(n)):
        y = np.sin(y) + k
    return np.sum(y)


def twice(x, n):
    m = int(n)
    y = x
    for k in range(m):
        y = np.sin(y) + k
    return y + m


def growing(x, n):
    out = [x]
    for _ in range(n):
        out.append(np.sin(out[-1]))
    return sum(out)


def stopping(x, n):
    y = x
    for k in range(n):
        if y < 0.1:
            break
        y = 0.7 * y
    return y


def caught(x, n):
    y = x
    try:
        for k in range(n):
            y = np.sin(y) + len("abc" * k)
    except Exception:  # noqa: BLE001 - whatever
        y = x
    return y


@pytest.mark.parametrize("fun", [tables, kinds, twice, growing, stopping, caught], ids=lambda f: f.__name__)
def test_what_needs_plain_numbers_gets_them(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=40))
    for n in (7, 0, 1, 3, 6):
        for x in (0.9, 5.0):
            np.testing.assert_allclose(compiled(x, n), fun(x, n), rtol=1e-13)


def counts(x, at):
    n, total = 0, 0.0
    for v in x:
        if v > 0:
            n = n + 1
        total = total + at((1.0, 3.0, 0.5), n % 3) * v
    return total * n


def test_plain_numbers_that_rounds_change_over_an_open_extent():
    """They are carried as traced ones; where Python needs them plain they are refused with what helps, which does."""
    f, g = [
        sg.jit(functools.partial(counts, at=at), dynamic={"x": "n"}, options=INTERPRETED)
        for at in (lambda table, k: table[k], np.take)
    ]
    with pytest.raises(sg.errors.ConcretizationError, match=r"rounds are not (?s:.*) np\.take\(table, n\)"):
        f(np.linspace(-1, 1, 12))
    for n in (5, 1, 12, 30):
        x = np.sin(np.arange(1.0, n + 1))
        np.testing.assert_allclose(g(x), counts(x, np.take), rtol=1e-13)
    assert g.cache_info().compilations <= 4


def test_shapes_that_do_not_fit_behind_a_loop_over_an_open_extent():
    """They are what is wrong, not the loop."""

    def cut(x, table):
        total = 0.0
        for v in x:
            total = total + v
        return total + table.reshape(-1)[: x.shape[0] + 1] * x

    with pytest.raises(sg.errors.ShapeError, match=r"do not broadcast together(?s:.*)table\.reshape"):
        sg.jit(cut, specs=("f64[n]", "f64[n,m]"), options=INTERPRETED)(np.ones(3), np.ones((3, 2)))


def signed(x):
    total = 0.0
    for v in x:
        if v > 0:
            total = total + v * v
        else:
            total = total - v
    return total


def until_much(x):
    total = 0.0
    for v in x:
        total = total + abs(v)
        if total > 6:
            break
    return total


def halves(x):
    total = 0.0
    for v in x:
        y = abs(v) + 0.1
        while y > 0.3:
            y = y * 0.5
        total = total + y
    return total


@pytest.mark.parametrize("lengths", [(1, 40, 3, 2, 9), (0, 4, 0, 9), (2, 2, 11, 0)], ids=str)
@pytest.mark.parametrize("f", [signed, until_much, halves], ids=lambda f: f.__name__)
def test_conditions_in_rounds_over_an_open_extent_whatever_comes_first(f, lengths):
    """Of fewer rows than are traced: rounds that the call has not ask of rows that it has not."""
    compiled, rng = sg.value_and_grad(f, dynamic={"x": "n"}, options=INTERPRETED), np.random.default_rng(3)
    for n in lengths:
        x, way = rng.normal(size=n), rng.normal(size=n)
        value, slope = compiled(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(slope @ way, along(lambda h: f(x + h * way), 0.0), rtol=1e-5, atol=1e-7)
    assert compiled.cache_info().compilations <= 5


def largest(x):
    found = x[0]
    for t in range(1, len(x)):
        if x[t] > found:
            found = x[t]
    return found


def where_largest(x):
    k = 0
    for t in range(1, len(x)):
        if x[t] > x[k]:
            k = t
    return k * x[k]


def largest_fall(x):
    peak, fall = x[0], 0.0
    for v in x:
        if v > peak:
            peak = v
        fall = max(fall, peak - v)
    return fall


def two_largest(x):
    first = second = -1e3
    for v in x:
        if v > first:
            first, second = v, first
        elif v > second:
            second = v
    return first - second


def rises(x):
    longest = now = 0
    for t in range(1, len(x)):
        now = now + 1 if x[t] > x[t - 1] else 0
        longest = max(longest, now)
    return longest * x[0]


@pytest.mark.parametrize("f", [largest, where_largest, largest_fall, two_largest, rises], ids=lambda f: f.__name__)
def test_what_some_rounds_keep_and_one_sets(f):
    """Of few rows a single round may set it, where it still is what it began with."""
    count = []
    for seed in range(4):
        compiled, rng = sg.value_and_grad(f, options=INTERPRETED), np.random.default_rng(seed)
        for n in range(5, 25):
            x, way = rng.normal(size=n), rng.normal(size=n)
            value, slope = compiled(x)
            np.testing.assert_allclose(value, f(x), rtol=1e-12)
            np.testing.assert_allclose(slope @ way, along(lambda h: f(x + h * way), 0.0), rtol=1e-5, atol=1e-7)
        count.append(compiled.cache_info().compilations)
    assert max(count) <= 5


def signed_so_far(x, n):
    total = 0.0
    for k in range(n):
        if x[k] > 0:
            total = total + x[k]
        else:
            total = 0.5 * total
    return total


def last_looked_at(x, n):
    k = 0
    for k in range(n):
        if x[k] > 1:
            break
    return x[k]


def asks_for_what_it_looked_at(x, n):
    total, k = 0.0, 0
    for k in range(n):
        if x[k] > 1:
            total = total + x[k]
    return total * k if total * k > 2 else total - k


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize(("f", "rows", "paths"), [
    (last_looked_at, 3, 12), (asks_for_what_it_looked_at, 10, 12), (signed_so_far, 3, 6),
], ids=lambda f: getattr(f, "__name__", f))
def test_behind_rounds_that_the_call_has_not_is_what_it_has(f, rows, paths, first):
    compiled, rng = sg.jit(f, options=INTERPRETED), np.random.default_rng(first)
    for n in (first, 3, 1, 2, 0, 3, 2, 1, 1, 2, 3):
        for x in rng.normal(size=(3, rows)):
            np.testing.assert_allclose(compiled(x, n), f(x, n), rtol=1e-12)
    assert compiled.cache_info().compilations <= paths


SIZED = {
    "eye": lambda x, n: np.sum(np.eye(n) * x) + np.sum(np.eye(5, k=n) * x),
    "identity": lambda x, n: np.sum(np.identity(n) @ (np.ones(n) * x)),
    "linspace": lambda x, n: np.sum(np.linspace(0, x, n + 1) ** 2),
    "logspace": lambda x, n: np.sum(np.logspace(0, 1, n)) * x,
    "geomspace": lambda x, n: np.sum(np.geomspace(1, x, n)),
    "powers of integers": lambda x, n: x * 2**n + x * (-1) ** n + x * n**2 + x**n + 2**-n,
    "tile": lambda x, n: np.sum(np.tile(np.stack([x, 2 * x]), (n, 2))),
    "repeat": lambda x, n: np.sum(np.repeat(x, n)),
    "pad": lambda x, n: np.sum(np.cumsum(np.pad(np.ones(3) * x, n))),
    "round": lambda x, n: np.round(x * 3.14159, n) + x,
    "matrix_power": lambda x, n: np.sum(np.linalg.matrix_power(np.eye(2) * x + 0.1, n)),
    "leggauss": lambda x, n: np.sum(np.exp(x * np.polynomial.legendre.leggauss(n)[0])),
    "diff": lambda x, n: np.sum(np.diff(np.arange(9.0) ** 3 * x, n=n)),
    "array_split": lambda x, n: np.sum(np.array_split(np.arange(12) * x, n)[0]),
    "vander": lambda x, n: np.sum(np.vander(np.stack([x, 2 * x]), n)),
    "triu": lambda x, n: np.sum(np.triu(np.ones((5, 5)) * x, n)),
    "windows": lambda x, n: np.sum(np.lib.stride_tricks.sliding_window_view(np.arange(9) * x, n)[0]),
    "eval_legendre": lambda x, n: scipy.special.eval_legendre(n, x / 2),
    "in a loop": lambda x, n: sum(np.sum(np.eye(n + k)) * x * 2**k for k in range(3)),
}


@pytest.mark.parametrize("name", SIZED)
def test_an_integer_that_is_a_size_is_guarded(name):
    """NumPy's functions get it as it is in this call; another one is another path."""
    f = SIZED[name]
    compiled, x, h = sg.value_and_grad(f), 1.3, 1e-6
    for n in (4, 3, 4):
        value, slope = compiled(x, n)
        np.testing.assert_allclose(value, f(x, n), rtol=1e-12)
        np.testing.assert_allclose(slope, (f(x + h, n) - f(x - h, n)) / (2 * h), rtol=1e-6, atol=1e-6)


def test_a_size_needs_a_value():
    with pytest.raises(ConcretizationError, match=r"needs the value of a traced array int64\[\]"):
        sg.grad(SIZED["eye"]).lower(sg.spec("f64[]"), sg.spec("i64[]"))

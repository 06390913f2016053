"""`sum`, `any`, `all`, `max` and `min` of generator expressions with conditions are loops: one path for all items."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.table import INTERPRETED

_W = np.linspace(0.0, 1.0, 24)


def positive(x):
    return sum(v for v in x if v > 0)


def counted(x):
    return sum(1 for v in x if v > 0) * np.sum(x)


def numbered(x):
    return sum(v * _W[k] for k, v in enumerate(x) if v > _W[k])


def paired(x):
    return sum((a * b for a, b in zip(x, _W, strict=True) if a > b if a < 1.0), 2.5)


def from_a_start(x):
    return sum((v for v in x if v > 0), start=x[0])


def above(x):
    mean = np.mean(x)
    return sum((v - mean) ** 2 for v in x if v > mean)


def either(x):
    return sum(np.sin(v) if v > 0 else 2 * v for v in x)


def by_a_function(x):
    mean = np.mean(x)
    return sum(_huber(v - mean) for v in x) / len(x)


def _huber(v):
    size = abs(v)
    return 0.5 * v * v if size <= 0.5 else _linear(size)


def _linear(size):
    return 0.5 * (size - 0.25)


def by_place(x):
    return sum(x[k] for k in range(len(x)) if x[k] > 0)


def of_rows(x):
    return sum(row[0] * row[1] for row in x.reshape(12, 2) if row[0] > row[1])


def of_a_list(x):
    doubled = [2 * v for v in x]
    return sum(v for v in doubled if v > 0)


def highest(x):
    return max(v * v if v > 0 else -v for v in x)


def lowest_of_some(x):
    return min(v + _W[k] for k, v in enumerate(x) if v > -1) * np.sum(x)


def widest_row(x):
    return max(max(v for v in row) - min(v for v in row) for row in x.reshape(6, 4) if row[0] > row[1] - 9)


class Basket:
    """A call on the way, and a name of a class's own."""

    def __init__(self, x):
        self.__x = x

    def total(self):
        return sum(v * v for v in self.__x if v > 0 and v < 1)


def of_a_method(x):
    return Basket(x).total()


def is_high(x):
    return np.sum(x**2) if any(v > 1.5 for v in x) else np.sum(x)


def are_low(x):
    return np.sum(x**2) if all(v < 1.5 for v in x) else np.sum(x)


def both(x):
    return np.sum(x) * (1 if any(v > 3 for v in x) or all(v < 2 for v in x) else 2)


ONE = (
    positive, counted, numbered, paired, from_a_start, above, either, by_place, of_rows, of_a_list, of_a_method,
    by_a_function, highest, lowest_of_some, widest_row,
)
FEW = is_high, are_low, both
CALLS = [np.random.default_rng(k).normal(size=24) for k in range(12)]


def check(fun, paths):
    ours, plain = sg.value_and_grad(fun), sg.value_and_grad(fun, options=sg.Options(roll=0, compiler="none", paths=50))
    for x in CALLS:
        value, slope = ours(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-13)
        np.testing.assert_allclose(slope, plain(x)[1], rtol=1e-12, atol=1e-14)
    assert len(ours.cache_info().paths) <= paths


@pytest.mark.parametrize("fun", ONE, ids=lambda f: f.__name__)
def test_sums_are_one_loop(fun):
    check(fun, 1)


@pytest.mark.parametrize("fun", FEW, ids=lambda f: f.__name__)
def test_what_stops_early_has_few_paths(fun):
    check(fun, 4)


def named(x):
    last = 0.0
    found = any((last := v) > 1.0 for v in x)
    return last if found else np.sum(x)


def set_meanwhile(x):
    total = 0.0

    def added(v):
        nonlocal total
        total = total + v
        return total

    return 0.0 * x[0] + sum(added(v) for v in x[:6] if v > total)


def begun(x):
    items = (v for v in x[:6] if v > 0)
    first = next(items, 0.0)
    return sum(items) + 2 * first


def of_other_lines(x):
    items = (v for v in x[:6] if v > 0)
    return 0.0 * x[0] + sum(items)


def gone_on_with(x):
    items = (a * b for a in x[:3] for b in (1.0, 2.0, 3.0) if a > 0)
    found = any(items)
    return x[0] + sum(items) * (1 + found)


def gone_on_with_after_an_error(x):
    def checked(v, k):
        if k == 1:
            raise ValueError
        return v

    items = (checked(v, k) for k, v in enumerate(x[:5]) if v > -9)
    try:
        total = sum(items)
    except ValueError:
        total = x[0]
    return total + sum(items)


def stopped(x):
    numbers = iter([1.0, 2.0])
    try:
        return sum(next(numbers) * v for v in x[:6] if v > -9)
    except RuntimeError:
        return 7 * x[0]


def looked_at(x):
    return x[0] * sum(len(locals()) for v in x[:6] if v > 0)


def nested(x):
    return sum(a * b for a in x[:4] for b in x[4:8] if a < b)


def raises(x):
    return sum(1 / (v - v) if v > 9.0 else v for v in x) if np.sum(x) < 100 else sum(v.nothing for v in x if v > 0)


@pytest.mark.parametrize(
    "fun", [named, set_meanwhile, begun, of_other_lines, gone_on_with, gone_on_with_after_an_error, stopped, looked_at,
            nested, raises], ids=lambda f: f.__name__)
def test_what_is_no_plain_loop_is_what_python_makes_of_it(fun):
    check(fun, 12)


def test_errors_are_pythons():
    def fun(x):
        return sum(v.nothing for v in x if v > 0)

    with pytest.raises(AttributeError, match="nothing"):
        sg.jit(fun, options=INTERPRETED)(CALLS[0])


def test_source_that_is_not_the_code_s_is_not_read():
    """A file that was changed after it was imported has other lines."""
    text = "def fun(x):\n    return sum(v for v in x if v > 0)\n"
    for shown in (text.replace("v > 0", "v > 1"), "", "def fun(x:\n", text):
        name = f"<a file {hash(shown)}>"
        linecache.cache[name] = len(shown), None, shown.splitlines(keepends=True), name
        space: dict[str, Any] = {}
        exec(compile(text, name, "exec"), space)
        found = sg.jit(space["fun"], options=INTERPRETED)
        for x in CALLS[:4]:
            np.testing.assert_allclose(found(x), np.sum(x[x > 0]), rtol=1e-14)
        assert len(found.cache_info().paths) == (1 if shown == text else 4)

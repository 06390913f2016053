"""What traced values are said to be: isinstance() and np.isscalar() answer what they answer in NumPy."""

from __future__ import annotations

import collections.abc
import copy
import functools
import numbers
import pickle
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcretizationError
from symgrad.trace.tracer import Tracer
from tests.trace.programs import agree, run

V = np.array([1.0, 2.0, 3.5])

CLASSES: tuple[type, ...] = (
    np.ndarray, float, int, np.floating, np.float64, np.float32, np.integer, np.int64, np.generic, np.number,
    numbers.Number, numbers.Real, numbers.Integral, list, tuple, str, collections.abc.Hashable,
)


def answers(x: Any) -> list[bool]:
    return [*[isinstance(x, kind) for kind in CLASSES[:-1]], np.isscalar(x), np.iterable(x)]


def same(fun, *args, **options):
    """Check that a traced function sees what the plain one sees."""
    seen: list[Any] = []

    def program(*given):
        seen.append(fun(*given))
        return 0.0

    program(*args)
    sg.jit(program, **options)(*args)
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "value", [1.5, 2, np.float64(1), np.float32(1), np.int64(2), np.int8(2), V, np.ones((2, 0)), np.array(2.0), V > 1,
              V.astype(np.float32), np.bool_(1)], ids=repr,
)
def test_arguments(value):
    same(answers, value)
    same(lambda tree: answers(tree["a"][0]), {"a": [value]})


VALUES = {
    "item": lambda x: x[0],
    "row": lambda x: x[None],
    "view": lambda x: x[..., 0],
    "product": lambda x: 2 * x,
    "sum": np.sum,
    "sum_kept": lambda x: np.sum(x, keepdims=True),
    "comparison": lambda x: x > 1,
    "comparison_of_one": lambda x: x[0] > 1,
    "count": np.argmax,
    "extent": lambda x: x.shape[0],
    "size": lambda x: x.size,
    "length": len,
    "zeros": lambda _: np.zeros(3),
    "zero": lambda _: np.zeros(()),
    "array_of_traced": lambda x: np.array([x[0], 1.0]),
    "array_of_one": lambda x: np.array(x[0]),
    "written": lambda x: np.cumsum(x)[1:],
    "single": lambda x: x.astype(np.float32)[0],
    "selected": lambda x: x[x > 1],
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_values(make):
    same(lambda x: answers(make(x)), V)


def test_written_arrays_stay_arrays():
    def program(x):
        a = np.zeros(3)
        before = answers(a)
        a[0] = x[0]
        return before, answers(a), answers(a[1:]), answers(a[0])

    same(program, V)


def test_python_numbers_stay_python_numbers():
    same(lambda x: [answers(y) for y in (x, x * 2, 1 - x, -x, x / 3, np.sin(x), x * np.float64(2))], 2.5)
    same(lambda n: [answers(y) for y in (n, n * 2, n / 2, n // 2, np.sqrt(n))], 3)


def test_unknown_extents_are_integers():
    same(lambda x: [answers(n) for n in (x.shape[0], 2 * x.shape[0], x.shape[0] / 2, x.size)], V, specs=("f64[n]",))
    same(lambda x: [x.shape[0] == 0.5, x.shape[0] == "3", x.shape[0] > -1], V, specs=("f64[n]",))
    with pytest.raises(ConcretizationError, match="comparing it with 3"):
        run(lambda x: x if x.shape[0] == 3.0 else -x, V, specs=("f64[n]",))
    agree(lambda x: np.where(x.shape[0] == x[1] + 1, x, -x), V, specs=("f64[n]",))
    agree(lambda x: np.where(x.shape[0] > x, x, -x), V, specs=("f64[n]",))
    agree(lambda x: [x * np.float32(2) * x.shape[0] ** 2, x**np.int64(2)], V, specs=("f64[n]",))


def test_branches_by_class_are_numpys():
    def program(x, c):
        total: Any = 0.0
        for part in (x, c, x[0], np.float64(2.0)):
            if isinstance(part, np.ndarray):
                total = total + np.sum(part * part)
            elif isinstance(part, (int, float)):
                total = total + 3 * part
            elif np.isscalar(part):
                total = total - part
        return total

    agree(program, V, 2.5)
    agree(program, V.astype(np.float32), np.float32(2.5), rtol=1e-6)


def test_single_dispatch():
    @functools.singledispatch
    def norm(x):
        raise AssertionError(x)

    norm.register(np.ndarray, lambda x: np.sqrt(np.sum(x * x)))
    norm.register(float, np.abs)
    agree(lambda x, c: norm(x) + norm(c) + norm(x[1]), V, -2.5)


def test_matching():
    def program(x):
        match x:
            case float():
                return x * 2
            case np.ndarray():
                return x * 3
        raise AssertionError(x)

    agree(program, V)
    agree(program, 1.5)


def test_arrays_without_axes_are_arrays_where_they_are_arguments():
    with pytest.raises(TypeError, match="a write into the argument 'x'"):
        sg.jit(_add_one)(np.array(2.0))
    assert sg.jit(_add_one)(2.0) == 3.0
    assert sg.jit(_add_one)(np.float64(2.0)) == 3.0


def _add_one(x):
    x += 1
    return x


def test_type_has_no_hook():
    kinds = []

    def program(x):
        kinds.append(type(x))
        return x

    run(program, V)
    assert kinds == [Tracer]


def test_copies_and_pickles_know_the_real_class():
    def program(x, c):
        with pytest.raises(ConcretizationError, match="pickling"):
            pickle.dumps(c)
        return copy.copy(x) * copy.deepcopy(c)

    assert np.array_equal(run(program, V, 2.0)[0], V * 2)


def test_symgrads_own_code_asks_for_the_real_class():
    agree(lambda n, x: [x**n, x[n], np.roll(x, 1) * n, np.full(3, n), np.array([n, 1]), x[[n, 0]]], 2, V)
    agree(lambda n: [np.result_type(n, np.float32).type(1) * n, np.full(2, n), np.where(n > 1, n, 0.0)], 2.0)

"""Pickled functions: by name, or as the programs they were compiled to, and never as code."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import pickletools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.sparse.rows import RowSparse
from symgrad.errors import ArgumentError, SerializationError

X = np.arange(1.0, 4.0)


def loss(w, x, power=2):
    return np.sum(w["a"] * x) ** power + w["b"]


@sg.jit
def doubled(x):
    return x * 2


class Model:
    @sg.jit
    def tripled(x: Any):  # noqa: N805 - a function that stands in a class
        return x * 3


named = sg.value_and_grad(loss)
W = {"a": np.ones(3), "b": 2.0}


def again(value):
    return pickle.loads(pickle.dumps(value))


def same(one, other):
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1]["a"], other[1]["a"])


def test_by_name():
    back = again(named)
    same(back(W, X), named(W, X))
    same(back(W, X, 3), named(W, X, 3))  # traced anew for what it was never called with


def test_a_decorated_function_is_itself():
    assert again(doubled) is doubled
    assert again(Model.tripled) is Model.tripled


@pytest.mark.parametrize(
    ("fun", "arguments"), [(np.exp, (X,)), (partial(loss, W), (X,)), (named, (W, X))],
)
def test_whatever_pickle_finds_by_itself(fun, arguments):
    compiled = sg.jit(fun)
    assert repr(again(compiled)(*arguments)) == repr(compiled(*arguments))


def make(scale, **settings):
    return sg.value_and_grad(lambda w, x, power=2: np.sum(w["a"] * x * scale) ** power + w["b"], **settings)


def test_a_closure_serves_what_it_was_compiled_for():
    fun = make(np.array([1.0, 2.0, 3.0]), static_argnames="power")
    expected = fun(W, X), fun(W, X, power=3)
    back = again(again(fun))
    same(back(W, X), expected[0])
    same(back(W, X, 3), expected[1])
    assert back.cache_info().compilations == 2
    with pytest.raises(ArgumentError, match=r"<lambda>\(\) was unpickled without its Python code.*x: f64\[4\]"):
        back(W, np.ones(4))
    with pytest.raises(ArgumentError, match="inside of another traced function"):
        sg.grad(lambda x: back(W, x)[0])(X)
    with pytest.raises(TypeError, match="missing a required argument"):
        back(W)


def test_a_closure_serves_a_large_array_that_lies_by_columns():
    x = np.asfortranarray(np.arange(10_000.0).reshape(100, 100))
    fun = sg.jit(lambda x: np.sum(x * x[:, :1]))
    expected = fun(x)
    assert again(fun)(x) == expected


def test_what_was_restored_and_called_is_pickled_whole():
    fun = make(2.0)
    fun(W, X)
    fun(W, X[:1])
    back = again(fun)
    back(W, X)
    twice = again(back)
    same(twice(W, X), fun(W, X))
    same(twice(W, X[:1]), fun(W, X[:1]))


def test_the_c_is_the_same():
    fun = make(2.0)
    fun(W, X)
    back = again(fun)
    back(W, X)
    assert back.c_source == fun.c_source


def test_one_spec_for_every_extent():
    fun = sg.jit(lambda x: np.sum(x[1:] * x[:-1]), specs="f64[n]")
    assert fun(X) == 8.0
    back = again(fun)
    assert [float(back(np.arange(float(n)))) for n in (0, 1, 3)] == [0.0, 0.0, 2.0]
    with pytest.raises(ArgumentError, match=r"argument x is f32\[2\]"):
        back(np.ones(2, np.float32))


def test_only_what_is_captured_now_is_kept():
    scale = 2.0

    def inner(x):
        return np.sum(x * scale)

    fun = sg.jit(inner)
    assert fun(X) == 12.0
    scale = 3.0
    with pytest.raises(ArgumentError, match=r"inner\(\) cannot be pickled: it has no name in its module"):
        pickle.dumps(fun)
    assert fun(X) == 18.0
    assert again(fun)(X) == 18.0


def test_a_copy():
    fun = make(2.0)
    fun(W, X)
    same(copy.deepcopy(fun)(W, X), fun(W, X))


def test_a_pickle_holds_text_and_no_code():
    fun = make(2.0)
    fun(W, X)
    data = pickle.dumps(fun)
    strings = [arg for _, arg, _ in pickletools.genops(data) if isinstance(arg, str)]
    assert any("symgrad program" in s for s in strings)
    assert b"\x7fELF" not in data
    assert not [s for s in strings if s in {"marshal", "CodeType", "FunctionType", "eval", "exec"}]


def test_a_forged_program_is_refused():
    fun = make(2.0)
    fun(W, X)
    data = pickle.dumps(fun, protocol=0)
    assert b"multiply" in data
    with pytest.raises(SerializationError, match=r"nodes\[\d+\].op: no op 'multiplo'"):
        pickle.loads(data.replace(b"multiply", b"multiplo"))(W, X)


def test_processes_that_are_started_afresh():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (back,) = pool.map(named_call, [X])
    same(back, named(W, X))


def named_call(x):
    return named(W, x)


@dataclass
class Both:
    value: Any
    twice: Any


def called(text, *args):
    found = pickle.loads(text)(*args)
    return found.to_dense() if isinstance(found, RowSparse) else found


def test_structures_that_a_process_has_not_met():
    """Rows of a table and a dataclass among results: what has their classes is read behind objects of them."""
    table, ids = np.arange(12.0).reshape(4, 3), np.array([1, 3, 1])
    rows = sg.grad(lambda t, i: np.sum(t[i] ** 2), sparse=True)
    both = sg.jit(lambda x: Both(x, 2 * x))
    expected = [rows(table, ids).to_dense(), both(X)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        dense = pool.apply(called, (pickle.dumps(rows), table, ids))
        found = pool.apply(called, (pickle.dumps(both), X))
    np.testing.assert_array_equal(dense, expected[0])
    np.testing.assert_array_equal(found.twice, expected[1].twice)

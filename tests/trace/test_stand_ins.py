"""What stands in for NumPy's creation functions: where it keeps out, and NumPy left as it was."""

from __future__ import annotations

import functools
import inspect
import pickle
import random
import sys
import threading
import types
from typing import Any

import numpy as np
import optree
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.special

from symgrad.errors import ConcretizationError, MutationError
from symgrad.ir.text import as_text
from symgrad.trace.inplace.local import LocalArray
from symgrad.trace.lines import callee, may_trace
from symgrad.trace.numpy.replaced import Replaced, installed
from tests.trace.programs import agree, run, traced

V = np.array([1.0, 2.0, 3.5])


# -- what stays out


def test_the_memory_of_others_is_never_written():
    kept = np.zeros(3)

    def fun(v):
        a = np.asarray(kept)
        a[0] = v[0]

    with pytest.raises(MutationError):
        run(fun, V)
    copied = run(lambda v: [np.array(kept) + v, np.copy(kept)], V)
    assert kept.tolist() == [0, 0, 0]
    assert copied[1].tolist() == [0, 0, 0]


def test_local_arrays_are_no_ndarrays_and_live_on_as_plain_ones():
    kept: list[Any] = []

    def fun(v):
        kept.append(np.arange(3.0))
        return v

    run(fun, V)
    array = kept[0]
    assert type(array).__name__ == "LocalArray"
    assert type(np.add(array, 1)) is np.ndarray
    assert type(array[:2]) is np.ndarray
    array[0] = 5
    assert np.asarray(array).tolist() == [5, 1, 2]
    assert run(lambda v: v * array, V)[0].tolist() == [5, 2, 7]


def test_an_array_cached_by_a_first_trace_serves_a_second():
    @functools.cache
    def nodes():
        return np.arange(3.0)

    for _ in range(2):
        agree(lambda v: v * nodes(), V)


def test_plain_views_of_a_local_array_see_concrete_writes():
    def fun(v):
        a = np.zeros(4)
        half = np.split(a, 2)[0]
        a[0] = 5
        half[1] = 6
        return v + a[:3], half

    agree(fun, V)


def test_empty_is_zeros_so_that_programs_are_the_same_each_time():
    texts = {as_text(traced(lambda v: np.empty(3) * 0 + np.empty_like(np.ones(3)) + v, V).program) for _ in range(3)}
    assert len(texts) == 1
    assert run(lambda v: [np.empty(50), v], V)[0].tolist() == [0.0] * 50


def test_creation_off():
    with pytest.raises(ConcretizationError):
        run(lambda v: np.array([v[0], 1.0]), V, creation=False)
    seen = []

    def fun(v):
        seen.append(type(np.zeros(3)))
        return v

    run(fun, V, creation=False)
    assert seen == [np.ndarray]


def test_code_without_the_name_is_not_the_caller():
    frame = sys._getframe()
    assert callee(frame.f_code, 0) in {(), None}
    assert may_trace(__file__)
    assert not may_trace(np.__file__)
    assert not may_trace(scipy.linalg.__file__)
    assert may_trace(pytest.__file__), "a library in Python alone"
    assert not may_trace(optree.__file__), "a library with compiled modules"

    def fun(v):
        made = np.zeros
        return made(3) + v, [f(2) for f in (np.ones,)], v

    agree(fun, V)


def test_compiled_code_called_by_a_function_that_names_array_gets_numpys_own():
    def fun(v):
        noise = np.random.default_rng(3).normal(size=3)  # Cython calls np.array for its seed
        return np.array([v[0], 1.0]), noise + v

    agree(fun, V)


# -- NumPy while and after


def names():
    return [(m, n) for m in (np, np.linalg, np.random, random) for n in dir(m)]


def test_numpy_is_as_it_was_after_a_trace_and_after_an_error():
    before = {(m.__name__, n): getattr(m, n) for m, n in names()}
    run(lambda v: np.zeros(3) + v, V)
    with pytest.raises(ZeroDivisionError):
        run(lambda v: v / (1 // 0), V)
    assert all(getattr(m, n) is before[m.__name__, n] for m, n in names())


def test_stand_ins_look_like_what_they_stand_for():
    plain: Any = np.zeros
    with installed():
        stand_in: Any = np.zeros
        assert isinstance(stand_in, Replaced)
        assert (stand_in.__name__, stand_in.__doc__, stand_in.__wrapped__) == (plain.__name__, plain.__doc__, plain)
        assert stand_in == plain
        assert {plain: 1}[stand_in] == 1
        assert repr(stand_in) == repr(plain)
        assert inspect.signature(np.sum) == inspect.signature(vars(np.sum)["__wrapped__"])
        assert pickle.loads(pickle.dumps(stand_in)) is stand_in
        assert not isinstance(np.zeros(3), LocalArray), "this thread does not trace"
        assert type(types.SimpleNamespace(make=np.zeros).make(2)) is np.ndarray
    assert np.zeros is plain


def test_a_patch_made_meanwhile_is_kept():
    plain, other = np.zeros, lambda n: n
    try:
        with installed():
            vars(np)["zeros"] = other
        assert np.zeros is other
    finally:
        vars(np)["zeros"] = plain


def test_threads_end_their_traces_in_any_order():
    plain, inside, go = np.zeros, threading.Barrier(9), [threading.Event() for _ in range(8)]
    seen = []

    def work(k):
        def fun(v):
            inside.wait(30)
            go[k].wait(30)
            if k % 3 == 0:
                raise KeyError(k)
            return np.array([v[0], v[1] * k])

        try:
            seen.append((k, run(fun, V)[0].tolist()))
        except KeyError:
            seen.append((k, None))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    inside.wait(30)
    assert isinstance(np.zeros, Replaced)
    assert type(np.zeros(3)) is np.ndarray
    assert np.asarray(V) is V
    for k in (5, 0, 7, 2, 1, 6, 4, 3):
        go[k].set()
        threads[k].join()
        assert (np.zeros is plain) == (k == 3)
    assert sorted(seen) == [(k, None if k % 3 == 0 else [1.0, 2.0 * k]) for k in range(8)]


def test_nested_traces():
    def outer(v):
        inner = run(lambda w: np.array([w[0], 1.0]), V)[0]
        a = np.zeros(2)
        a[0] = v[0]
        return a + inner

    assert run(outer, V)[0].tolist() == [2.0, 1.0]

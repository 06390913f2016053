"""NumPy's creation functions in a trace: the values NumPy gives, arrays that may be written, NumPy left as it was."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
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
from symgrad.trace.caller import callee, may_trace
from symgrad.trace.creation import Replaced, installed
from symgrad.trace.local import LocalArray
from tests.trace.programs import agree, run, traced

V = np.array([1.0, 2.0, 3.5])
M = np.arange(12.0).reshape(3, 4) / 7
PROGRAMS: list[Any] = []


def program(*args):
    """Enter a program that must give what plain NumPy gives."""

    def enter(fun):
        PROGRAMS.append(pytest.param(fun, args, id=fun.__name__))
        return fun

    return enter


@program(1.5, V)
def arrays_of_traced_values(x, v):
    return (
        np.array([x, x * 2]),
        np.array([[x, 1.0], [2.0, x]]),
        np.array([v, v]),
        np.array([[x] * 3, v]),
        np.array((x, 2)),
    )


@program(np.float32(1.5), np.arange(3))
def dtypes_of_arrays(x, k):
    return (
        np.array([x, 1.0]),
        np.array([x, x]),
        np.array([k, [x] * 3]),
        np.array([x, 2], dtype=np.float64),
        np.array([k, k]),
    )


@program(V)
def copies_and_conversions(v):
    doubled = v * 2
    same, other = np.asarray(doubled), np.array(doubled)
    same += 1
    other += 100
    return doubled, same, other, np.array(v, ndmin=2), np.asarray(v, dtype=np.float32), np.asarray([v, v]), np.copy(v)


@program(2.5, V)
def filled(x, v):
    return (
        np.full(3, x),
        np.full((2, 3), v),
        np.full_like(v, x),
        np.full_like(np.ones(2), x),
        np.full(2, [x, 1.0]),
        np.full(2, x, np.float32),
    )


@program(V)
def like(v):
    a, b = np.zeros_like(v), np.ones_like(np.arange(3.0))
    a[0], b[1] = v[0], v[1]
    return a, b, np.zeros_like(v, dtype=np.int64), np.ones_like(v, shape=(2,))


@program(V)
def joined(v):
    return (
        np.concatenate([v, [v @ v]]),
        np.hstack([v, 1.0]),
        np.stack([v, [1, 2, 3]]),
        np.concatenate([[1.0], [v[0]]]),
        np.vstack([[v[0], 1], [2, 3]]),
    )


@program(1.5, 2.5)
def functions_of_lists(x, y):
    return (
        np.sum([x, y]),
        np.max([x, y]),
        np.mean([x, y]),
        np.min([x, 2 * y]),
        np.prod([x, y]),
        np.dot([x, y], [1.0, 2.0]),
        np.linalg.norm([x, y]),
        np.argmax([x, y]),
        np.cumsum([x, y]),
        np.where([True, False], [x, y], 0),
        np.outer([x, y], [y, x]),
    )


@program(V)
def written(v):
    a = np.zeros(3)
    a[0] = v[2]
    a[1:] += v[1:]
    b = a[1:]
    b[0] = 7 * v[0]
    a[2] = 3
    return a, b


@program(V)
def views_made_before_the_write(v):
    a = np.zeros((3, 3))
    row, column, turned, flat, back = a[0], a[:, 1], a.T, a.ravel(), np.flip(a)
    a[0] = v
    flat[4] = v[1]
    turned[2, 0] = 9
    return a, row, column, turned, flat, back


@program(V)
def writes_through_views(v):
    a = np.zeros((3, 3))
    a.T[0] = v
    a.ravel()[4] = v[1]
    a.reshape(9)[8] = 5 * v[0]
    a[:, None][2, 0, 1] = v[2]
    a.flat[5] = v[0]
    np.expand_dims(a, 0)[0, 1, 2] += 1
    for row in a:
        row += v  # noqa: PLW2901 - it writes into a
    return a


@program(V)
def whole_arrays(v):
    a, b, c = np.empty(3), np.empty((2, 3)), np.zeros((2, 2))
    a[:] = v
    b[...] = v
    b[0, :2] = [v[0], 1]
    c.fill(v[0])
    np.copyto(a[:2], v[1:])
    np.fill_diagonal(c, v[2])
    return a, b, c


@program(V)
def out(v):
    a, b = np.zeros(3), np.zeros(3)
    np.add(v, 1, out=a)
    np.multiply(a, v, out=a)
    np.exp(a, b)
    return a, b


@program(V, M)
def known_indices(v, m):
    a = np.zeros((3, 3))
    a[np.arange(3), np.arange(3)] = v
    a[[0, 0, 1], 2] = v
    a[np.triu_indices(3, 1)] *= 2
    b = np.zeros(4)
    b[np.array([True, False, True, True])] = v
    b[b > 2] = 0
    return a, b, m[:, np.arange(3)], v[np.array([2, 0])], np.array([5.0, 6, 7])[np.argsort([3, 1, 2])]


@program(V, np.array([2, 0, 1]))
def lookups(v, k):
    table = np.arange(10.0)
    return table[k], table[k[0]] * v, np.take(table, k), v[k], np.arange(3)[k], table[:3] + v


@program(V)
def aliases(v):
    a = np.zeros(3)
    b, c, d = a, np.asarray(a), a[:]
    a += v
    return a, b, c, d


@program(V)
def swapped(v):
    a = np.array(v)
    kept = a[0]
    a[0] = a[1]
    a[1] = kept
    a[[1, 2]] = a[[2, 1]]
    return a, kept


@program(V)
def without_axes(v):
    a = np.zeros(())
    b = a
    a += v[0]
    a[()] = a * 2
    a[...] = a + 1
    return a, b


@program(V)
def numbers_are_no_arrays(v):
    s = np.sum(v)
    t = s
    s += 1
    x = v[0]
    y = x
    y *= 2
    return s, t, x, y


@program(V, M)
def results_are_arrays(v, m):
    z = m @ np.ones(4)
    same = z
    z += v
    same *= 2
    return z, same


@program(np.float32(2.5), V)
def dtypes_of_writes(x, v):
    a = np.zeros(4, np.float32)
    a[1:] = v
    b = np.zeros(3, int)
    b[:] = v * 1.7
    return a, b, np.zeros(3, np.float32) + x, np.ones(3, bool) & (v > 1)


@program(V)
def counting(v):
    total = 0.0
    for k in np.arange(3):
        total = total + k * v[k]
    return (
        total,
        np.arange(3) * v,
        np.eye(3) @ v,
        np.linspace(0, 1, 3) * v,
        np.identity(3) @ v,
        np.tri(3) @ v,
        np.logspace(0, 1, 3) + v,
    )


@program(V)
def spaced(v):
    return (
        np.linspace(v[0], v[1], 5),
        np.linspace(0, v, 4),
        np.linspace(v[0], 3, 4, endpoint=False),
        np.linspace(v[1], v[1], 3),
        np.linspace(v[0], 1, 1),
        np.linspace(v, 2 * v, 3, axis=-1),
        *np.linspace(0, v[0], 3, retstep=True),
    )


@program(V)
def used_concretely(v):
    assert np.zeros(3)[0] == 0
    assert float(np.ones(2)[0]) == 1
    assert np.ones(3).all()
    assert not np.zeros(1)
    assert (np.arange(3) == [0, 1, 2]).all()
    assert [1, 2, 3][np.array(1)] == 2
    assert len(np.zeros((4, 2))) == 4
    assert 2 in np.arange(3)
    assert f"{np.array(2.5):.1f}" == "2.5"
    assert np.arange(6).reshape(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert divmod(np.arange(3), 2)[1].tolist() == [0, 1, 0]
    assert np.array_equal(pickle.loads(pickle.dumps(np.arange(3))), [0, 1, 2])
    for _ in range(np.array([1, 2])[0]):
        v = v * 2
    return v


@program(V)
def given_to_libraries(v):
    solved = scipy.linalg.solve(np.eye(3) * 2, np.ones(3))
    spline = scipy.interpolate.CubicSpline(np.arange(4), np.arange(4) ** 2)(1.5)
    noise = np.random.default_rng(0).normal(size=np.array([3]))
    return v * solved + spline, scipy.special.expit(np.zeros(3)) + v, v * noise, np.linalg.inv(np.eye(3) * 2) @ v


@program(V)
def plain_arithmetic_stays_writable(v):
    a = np.zeros(3) + 1
    a *= 2
    a[a > 1] = 4
    a[[0, 1]] = 3
    b, c = a.copy(), np.cumsum(np.ones(3))
    b[0], c[1] = v[0], v[1]
    a -= np.arange(3)
    return (
        a,
        b,
        c,
        a @ v,
        v @ a,
        a.sum() * v,
        a.dot(v),
        a.max() + v,
        -a * v,
        abs(a) + v,
        2 / a + v,
        a**2 + v,
        [1, 2, 3] + a * v,
    )


@program(V)
def traced_array_everywhere(v):
    a = np.zeros(3)
    a[1] = v[0]
    return (
        a.sum(),
        a.T,
        2 * a,
        a + v,
        v + a,
        np.exp(a),
        np.sum(a),
        a[1],
        a[:2],
        a.mean(),
        a.reshape(3, 1),
        -a,
        a > 1,
        a @ a,
        list(a),
        np.stack([a, v]),
        np.array([a, v]),
        np.stack([v, a]),
        np.where(a > 0, v, a),
        np.asarray(a, dtype=np.float32),
        np.array(a),
        a.clip(0, 1),
        np.maximum(a, v),
        v.dot(a),
        [x * 2 for x in a],
        copy.copy(a),
        copy.deepcopy(a),
        np.add.reduce(a),
        a[None],
        a.astype(int),
    )


@program(np.float64(2.0), V)
def matrices(x, v):
    rotation = np.array([[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]])
    jacobian = np.zeros((2, 3))
    for i, j in itertools.product(range(2), range(3)):
        jacobian[i, j] = v[j] ** (i + 1)
    return rotation @ jacobian, rotation.T @ rotation, np.array([[x, 0], [0, x]]) @ [1.0, 2.0]


@program(V)
def with_star_arguments(v):
    shape = (2, 3)
    made = np.zeros(*(shape,), dtype=float)
    made[0] = v
    parts = functools.reduce(lambda a, b: np.array([*a, b]), v[1:], np.array([v[0]]))
    return made, parts, [np.array([x, 1.0]) for x in v], [make(2) for make in [lambda n: np.full(n, v[0])]]


@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_as_numpy(fun, args):
    agree(fun, *args)


def test_unknown_extents():
    def fun(x):
        n = x.shape[0]
        a = np.zeros(n)
        a += x
        square = np.eye(n) * np.arange(n)
        return (
            a,
            np.ones((n, 3)) * x[:, None],
            np.full((2, n), x),
            np.empty(n) * 0 + x,
            np.zeros_like(x),
            np.arange(n) * 2,
            np.arange(1, n + 1) / n,
            np.arange(0, 2 * n, 2),
            square,
            np.identity(n) @ x,
            np.eye(n, 3, k=1),
            np.zeros((n, n), dtype=np.float32),
            np.arange(n, dtype=float),
        )

    for count in (0, 1, 7):
        agree(fun, np.linspace(1, 2, count), specs=["f64[n]"])


def test_an_unknown_extent_is_no_length():
    with pytest.raises(ConcretizationError, match="range"):
        run(lambda x: np.linspace(0, 1, x.shape[0]), V, specs=["f64[n]"])


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
    assert callee(frame.f_code, 0) in {"", None}
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

"""NumPy's creation functions in a trace give the values NumPy gives."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.special

import symgrad as sg
from symgrad.errors import ConcretizationError
from tests.trace.programs import agree, entering, run

V = np.array([1.0, 2.0, 3.5])
M = np.arange(12.0).reshape(3, 4) / 7
PROGRAMS: list[Any] = []
program = entering(PROGRAMS)


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


@program(V, 1)
def diagonals_by_traced_numbers(v, k):
    return [np.eye(n, m, k=place) for n, m in ((3, None), (2, 4)) for place in (k, -k, k - k, 5 * k, -5 * k)]


@program(V, np.float32(2.0))
def like_a_traced_array(v, x):
    zeros = np.zeros(3, like=v)
    zeros[1] = v[0]
    return (
        zeros,
        np.zeros((2, 3), np.float32, like=v),
        np.ones(3, like=zeros),
        np.empty(3, like=v).shape,
        np.full(3, x, like=v),
        np.full(3, 2, like=np.ones(2)) * v,
        np.array([1, 2], like=v),
        np.asarray([x, 2], like=v),
        np.eye(3, k=1, like=v),
        np.identity(2, like=v),
        np.tri(3, like=v),
        np.arange(3.0, like=v),
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
            np.eye(n, k=n - 2),
            np.zeros((n, n), dtype=np.float32),
            np.arange(n, dtype=float),
            np.logspace(0, 1, n),
        )

    for count in (0, 1, 7):
        agree(fun, np.linspace(1, 2, count), specs=["f64[n]"])


def test_an_unknown_extent_is_no_length():
    with pytest.raises(ConcretizationError, match="range"):
        run(lambda x: [0.0 for _ in range(x.shape[0])], V, specs=["f64[n]"])


def test_arrays_of_the_constructor() -> None:
    """`np.ndarray(shape)`: a class, for which there is a stand-in where code that writes a traced value names it."""
    def filled(v: Any, n: int) -> Any:
        y: np.ndarray[Any, Any] = np.ndarray((2, 3))
        y[0], y[1, 0] = v, v[0] * 2
        y[1, 1:] = y[0, 1:] + n
        z = np.ndarray(shape=4, dtype=np.float32)
        for k in range(4):
            z[k] = k * v[1]
        assert isinstance(y, np.ndarray)
        assert not isinstance(v[0] * n, np.ndarray)
        return y, z

    for got, want in zip(sg.jit(filled, options=sg.Options(compiler="none"))(V, 4), filled(V, 4), strict=True):
        np.testing.assert_array_equal(got, want)
    assert type(np).__name__ == "module"
    assert type(V) is np.ndarray

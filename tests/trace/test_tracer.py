"""Traced arrays: operators, methods, indexing and Python's own words."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
import scipy.special

from tests.trace.programs import agree, entering, run

V = np.array([1.0, 2.0, 3.5])
M = np.arange(12.0).reshape(3, 4) / 7
F = np.array([1, 2, 3], np.float32)
K = np.array([2, 0, 1])
PROGRAMS: list[Any] = []
program = entering(PROGRAMS)


@program(V)
def sequences(v):
    return (
        [x * 2 for x in v],
        sum(list(v)),
        tuple(v),
        list(reversed(v)),
        [a * b for a, b in zip(v, v, strict=True)],
        [k * x for k, x in enumerate(v)],
        sum(v),
        functools.reduce(lambda a, b: a * b, v),
        [*v],
        dict(zip("abc", v, strict=True)),
    )


@program(np.array([1.0, 2.0]), M)
def unpacking(v, m):
    a, b = v
    first, *rest = m
    (c, d, *_), *_ = m
    return a - b, first, rest, c, d


@program(M)
def rows(m):
    return (
        [r.sum() for r in m],
        m[:, [0, 2]],
        m[np.array([2, 0])],
        m[np.arange(3), np.arange(3)],
        m.T,
        m.flatten(),
        m.ravel(),
    )


@program(M, K)
def gathers(m, k):
    return m[k], m[:, k], m[k, k], m[k[0]], m[k][:, None], m[k, 1:], m[[True, False, True]], m[..., k], m[None, k]


@program(V, M)
def slices(v, m):
    return (
        v[::-1],
        v[None],
        v[..., 0],
        v[-1],
        v[1:],
        v[5:],
        v[-2:],
        m[1:, ::2],
        m[:, -1],
        m[0, 1],
        m[...],
        m[::-2, None, 1],
    )


@program(V)
def arithmetic(v):
    return (
        divmod(v, 2),
        divmod(7.0, v),
        abs(-v),
        pow(v, 2),
        -v,
        +v,
        v // 2,
        7 // v,
        v % 2,
        2**v,
        v**-1,
        1 / v,
        3 - v,
        v * np.float64(2),
        np.float64(2) * v,
        [1, 2, 3] * v,
        v @ [1, 2, 3],
        [1, 2, 3] @ v,
    )


@program(V)
def comparisons(v):
    big = v > 2
    return v < 2, v <= 2, v >= 2, v == 2, v != 2, v > 2, ~big, big & (v < 3), big | (v < 1), big ^ (v > 3), big & True


@program(np.arange(1, 5), np.arange(4, dtype=np.int32))
def integers(k, j):
    return k // 2, k % 3, k << 1, k >> 1, k & 3, k | 8, k ^ 1, ~k, k / 2, k**2, k + j, -j, k * 1.5, j * 2, k > j


@program(F)
def float32(x):
    return (
        1.0 - x,
        np.float64(2) * x,
        x * 2,
        np.ones(3) * x,
        x / 2,
        np.float32(2) * x,
        x**2,
        x + True,
        x * np.float64(2),
        x.mean(),
        x.sum(),
    )


@program(0.5, F)
def weak_numbers(rate, x):
    return (
        x - rate * x,
        x - 2 * rate * x,
        x * (-rate),
        x * np.exp(rate),
        x * rate**2,
        x / (1 - rate),
        abs(rate) * x,
        rate * 2,
        (rate > 0) * x,
    )


@program(3, F)
def weak_integers(k, x):
    return x * k, x**k, k * 2.5, k / 2, k // 2, (k + 1) * x, k % 2, -k * x


@program(V)
def methods(v):
    return (
        v.sum(),
        v.mean(),
        v.std(),
        v.var(ddof=1),
        v.max(),
        v.min(),
        v.prod(),
        v.cumsum(),
        v.argmax(),
        v.clip(1, 2),
        v.dot(v),
        v.copy(),
        v.astype(np.float32),
        v.astype(int),
        v.reshape(3, 1),
        v.reshape((1, 3)),
        v.reshape(-1),
        v.transpose(),
        v.swapaxes(0, 0),
        v.squeeze(),
        v.ravel(),
        v.flatten(),
        v.round(1),
        v.any(),
        v.all(),
        v.repeat(2),
        v.take([0, 2]),
        v.conj(),
        v.real,
        v.T,
        v.ndim,
        v.size,
        v.itemsize,
        len(v),
        list(v.flat),
        v.flat[1],
        v.flat[::2],
    )


@program(M)
def matrix_methods(m):
    return (
        m.trace(),
        m.diagonal(),
        m.T @ m,
        m.mT,
        m.transpose(1, 0),
        m.sum(axis=0),
        m.mean(-1, keepdims=True),
        m.max(axis=1),
        m.shape[0] * m,
        m.flat[5],
    )


@program(V)
def copies(v):
    return copy.copy(v), copy.deepcopy(v), copy.deepcopy({"w": [v]})


@program(V)
def in_place(v):
    v = v + 1
    kept = v
    v *= 2
    v -= v[0]
    v **= 2
    v /= 3
    return v, kept


@program(V, M)
def aliases_of_results(v, m):
    z = m.T @ v
    z2 = z
    half = z[::2]
    z += 1
    half *= 2
    return z, z2, half


@program(2.5)
def numbers(x):
    return round(x, 1), np.round(x), x, x.real if isinstance(x, np.ndarray) else x, [1.0, x][1], (x, None)


@program(V)
def ufunc_methods(v):
    return (
        np.add.reduce(v),
        np.multiply.reduce(v),
        np.maximum.reduce(v),
        np.add.accumulate(v),
        np.multiply.outer(v, v),
        np.add.outer(v, [1, 2]),
    )


@program(V)
def ufunc_keywords(v):
    return (
        np.add(v, 1, dtype=np.float64),
        np.exp(v, casting="same_kind"),
        np.add(v, 1, dtype=np.float32, casting="same_kind"),
    )


@program(V)
def special(v):
    return scipy.special.expit(v), scipy.special.gammaln(v), scipy.special.xlogy(v, v)


@program(V.astype(">f8"), V)
def byte_orders(other, v):
    return v * np.array([1, 2, 3], ">f4"), other * v


@program(V)
def branches_on_what_is_known(v):
    if v.ndim == 1 and v.shape == (3,) and v.dtype == np.float64 and v is not None and len(v) == 3:
        return v * 2
    return v


@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_as_numpy(fun, args):
    agree(fun, *[a.astype(a.dtype.newbyteorder("=")) if isinstance(a, np.ndarray) else a for a in args])


def test_a_result_may_be_an_argument_a_constant_or_nothing():
    assert [a.tolist() for a in run(lambda v: (v, 2.0, None, np.arange(2), [True], np.float32(1)), V)] == [
        V.tolist(),
        2.0,
        [0, 1],
        True,
        1.0,
    ]


def test_extents_of_specs_are_numbers_to_user_code():
    def fun(x):
        n, d = x.shape
        return x.sum() / n, x.reshape(n * d), x / (n * d), x[: n - 1] * (n + 1), x * (n // 2), x.size * x, 1.0 / n * x

    for n in (1, 4):
        agree(fun, np.arange(3.0 * n).reshape(n, 3) + 1, specs=["f64[n,d]"])

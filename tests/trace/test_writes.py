"""Writes into arrays made in a trace: what plain NumPy would leave in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.trace.programs import agree, entering

V = np.array([1.0, 2.0, 3.5])
M = np.arange(12.0).reshape(3, 4) / 7
PROGRAMS: list[Any] = []
program = entering(PROGRAMS)


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
def new_axes_in_the_index(v):
    a, b, c = np.zeros((3, 3)), np.ones((3, 3)), np.zeros((2, 3))
    a[..., None] = v[:, None]  # along the columns
    b[:, None] += v
    b[1, None, :, None] = v[:, None] * 2
    c[None, :, None, 1] = v[:1]
    c[:, None] -= v
    return a, b, c


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


@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_as_numpy(fun, args):
    agree(fun, *args)

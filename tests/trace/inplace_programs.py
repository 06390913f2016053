"""Programs that compute in place, as scientific code does: each must give NumPy's values and the right gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.trace.programs import entering

PROGRAMS: list[Any] = []
program = entering(PROGRAMS)

X = np.array([0.7, -1.3, 2.1, 0.4, -0.6, 1.9])
Y = np.array([1.2, 0.3, -0.8, 1.7, 0.9, -1.1])
M = np.array([[0.5, -1.2, 0.3], [1.1, 0.8, -0.7], [-0.4, 0.9, 1.6]])
K = np.array([2, 0, 2, 1])
T = np.linspace(0.1, 1.0, 5)


# -- one element, one slice


@program(X)
def element_by_element(x):
    out = np.zeros(6)
    for i in range(6):
        out[i] = x[i] ** 2 + (out[i - 1] if i else 0)
    return out


@program(X, Y)
def slices(x, y):
    out = np.zeros(12)
    out[:6] = x * y
    out[6:10] = np.sin(x[1:5])
    out[-2:] += 3 * y[0]
    out[::3] *= 2
    out[10:3:-3] -= x[:3]
    return out


@program(X)
def element_of_what_was_computed(x):
    z = x * 2
    z[0] = 1.0
    z[2] += z[1]
    z[3] /= z[0] + 2
    z[4] **= 2
    return z


@program(X)
def empty_filled(x):
    out = np.empty(6)
    out[:3] = x[3:]
    out[3:] = x[:3] * out[:3]
    return out


@program(X)
def empty_like_filled(x):
    out = np.empty_like(x)
    out[...] = np.cos(x)
    return out


@program(X)
def an_old_value_is_kept(x):
    out = np.zeros(3)
    out[0] = x[0]
    before = out.copy()
    seen = out * 2
    out[0] = x[1]
    return out, before, seen


@program(X)
def swapped_elements(x):
    a = x.copy()
    a[0], a[5] = a[5], a[0]
    a[1:3], a[3:5] = a[3:5].copy(), a[1:3].copy()
    return a * np.arange(6)


@program(X)
def a_slice_from_itself(x):
    a = x.copy()
    a[1:] = a[:-1]
    a[::2] += a[1::2]
    a[:3] = a[2::-1]
    return a * np.arange(1, 7)


@program(X)
def overlapping_sum_in_place(x):
    a = x.copy()
    a[1:] += a[:-1]
    a[:-1] *= a[1:]
    return a


@program(X)
def with_new_axes(x):
    a = np.zeros((6, 1))
    a[:, 0] = x
    a[None, 2, :] = 4 * x[0]
    a[:, :, None][3, 0, 0] = x[1]
    return a


@program(X)
def negative_indices(x):
    a = np.zeros(6)
    a[-1] = x[0]
    a[-3:-1] = x[1:3] ** 2
    a[[-4, -5]] = x[4:]
    return a


@program(X)
def a_slice_of_nothing(x):
    a = x * 1.0
    a[4:4] = 9.0
    a[7:] = x[7:]
    a[np.zeros(6, bool)] = 5.0
    a[[]] = 3.0
    return a


# -- rows, columns, matrices


@program(X, M)
def rows_and_columns(x, m):
    a = np.zeros((3, 3))
    a[0] = x[:3]
    a[1, :] = m[1] * x[3:]
    a[2][1] = x[0]
    a[:, 0] *= 2
    a[1:, 1:] -= m[:2, :2]
    a[:, 2] = a[:, 0] + a[:, 1]
    return a


@program(X)
def a_jacobian_by_columns(x):
    jac = np.zeros((5, 3))
    decay = np.exp(-x[1] ** 2 * T)
    jac[:, 0] = decay
    jac[:, 1] = -x[0] * T * decay
    jac[:, 2] = 1
    return jac


@program(X)
def a_matrix_row_by_row(x):
    a = np.zeros((4, 4))
    for i in range(4):
        for j in range(i + 1):
            a[i, j] = x[i] * x[j] + i
            a[j, i] = a[i, j]
    return a


@program(M)
def cholesky_by_hand(m):
    a = m @ m.T + 3 * np.eye(3)
    n = 3
    low = np.zeros((n, n))
    for j in range(n):
        low[j, j] = np.sqrt(a[j, j] - np.sum(low[j, :j] ** 2))
        for i in range(j + 1, n):
            low[i, j] = (a[i, j] - np.dot(low[i, :j], low[j, :j])) / low[j, j]
    return low


@program(M, X)
def gaussian_elimination(m, x):
    a = m.copy() + 4 * np.eye(3)
    b = x[:3].copy()
    for k in range(2):
        for i in range(k + 1, 3):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    out = np.zeros(3)
    for k in (2, 1, 0):
        out[k] = (b[k] - a[k, k + 1 :] @ out[k + 1 :]) / a[k, k]
    return out


@program(X)
def block_matrix(x):
    a = np.zeros((4, 4))
    a[:2, :2] = x[:4].reshape(2, 2)
    a[2:, 2:] = np.outer(x[:2], x[4:])
    a[[0, 1], [3, 2]] = -x[0]
    return a @ a


@program(X)
def rotation_matrix(x):
    c, s = np.cos(x[0]), np.sin(x[0])
    r = np.eye(3)
    r[0, 0], r[0, 1] = c, -s
    r[1, 0], r[1, 1] = s, c
    return r @ x[1:4]


@program(X)
def three_dimensional(x):
    a = np.zeros((2, 3, 2))
    a[:, 1, :] = x[:2]
    a[..., 0] += x[:3]
    a[1, ..., 1] = x[3:]
    a[0, 2, 0] *= 5
    return a


# -- views


@program(X)
def a_write_through_a_view(x):
    a = np.zeros(6)
    b = a[1:]
    b[...] = x[1:]
    b[0] = x[0] * 2
    return a, b


@program(X)
def a_view_sees_writes(x):
    a = np.zeros((2, 3))
    flat, turned, row, back = a.reshape(-1), a.T, a[1], a[:, ::-1]
    a[0] = x[:3]
    back[1] = x[3:]
    turned[2, 0] += 1
    flat[1] *= 3
    return a, flat, turned, row, back


@program(X)
def reversed_view(x):
    a = np.zeros((2, 3))
    a[:, ::-1][0] = x[:3]
    a[::-1, 1:][0] += x[4:]
    a[1][::2] = x[0]
    return a


@program(X)
def ravelled(x):
    a = np.zeros((3, 2))
    a.ravel()[1:5] = x[:4]
    a.reshape(2, 3)[1] += x[3:]
    a.flat[0] = x[5]
    a.T.swapaxes(0, 1)[2, 0] = 7 * x[1]
    return a


@program(M)
def diagonal_of_a_view(m):
    a = np.zeros((3, 3))
    a[...] = m * 2
    np.fill_diagonal(a[1:, 1:], m[0, 0])
    a.ravel()[::4] += m[1]
    return a


@program(M)
def einsum_of_a_written_view(m):
    a = np.zeros((3, 3))
    a[:] = m
    b = a[:2]
    b *= 3
    return a @ b.T


@program(X)
def views_of_views(x):
    a = np.zeros(8)
    b = a[1:7]
    c = b[::2]
    d = c[1:]
    d[0] = x[0]
    c += x[:3]
    b[:] = b * 2
    return a, d


@program(M)
def rows_one_after_the_other(m):
    a = np.zeros((3, 3))
    for k, row in enumerate(a):
        row[:] = m[k]
        row[k] += 1
    return a


@program(X)
def fancy_indexing_copies(x):
    a = np.zeros(6)
    b = a[[0, 1, 2]]
    c = a[a == 0]
    b[0] = x[0]
    a[1] = x[1]
    c[2] = x[2]
    return a, b, c


@program(X)
def elements_are_no_views(x):
    a = np.zeros(6)
    a[:] = x
    s = a[0]
    a[0] = 5 * x[1]
    s += 1
    return a, s


@program(X)
def splits_of_what_was_computed(x):
    a = x * 2
    first, second = np.split(a, 2)
    first += second
    second[0] = 0
    return a


@program(X, M)
def histogram_weights(x, m):
    bins = np.array([0, 1, 1, 2, 0, 2])
    weight = np.zeros(3)
    for place, value in zip(bins, x, strict=True):
        weight[place] += value**2
    weight /= weight.sum()
    return m @ weight


@program(X, Y)
def placed_through_masks_of_values(x, y):
    out, table, large = x * y, np.zeros((2, 3)), (y > 1) - 0
    np.place(out, x > 0.5, y[:2])
    np.place(out, large, np.extract(large, x) * 3)
    np.place(table, x > 0, out[x > 0])
    np.place(table, table < -1, -x[0])
    return out, table


@program(X)
def parts_into_two_arrays(x):
    whole, part = np.zeros((2, 6)), np.empty(6)
    view = whole[1]
    np.modf(x * 3, out=(part, view))
    view *= part
    over: Any = (None, part)
    return whole, np.divmod(x, 0.8, out=over)[0], part


@program(X)
def through_a_truth(x):
    out, two = x * 2, np.zeros((2, 3))
    before = out[True]
    out[True] = x[::-1]
    two[True, 1:] = x[:3]
    return before, out, two

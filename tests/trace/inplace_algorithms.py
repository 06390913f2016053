"""More programs that compute in place: masks, arrays of indices, ``out=``, whole algorithms."""

from __future__ import annotations

import numpy as np

from tests.trace.inplace_programs import PROGRAMS, K, M, T, X, Y
from tests.trace.programs import entering

program = entering(PROGRAMS)


# -- masks and indices


@program(X, Y)
def known_mask(x, y):
    mask = np.array([True, False, True, True, False, False])
    out = np.zeros(6)
    out[mask] = x[mask]
    out[~mask] += y[:3] ** 2
    out[mask] *= y[mask]
    return out


@program(X, Y)
def traced_mask(x, y):
    out = np.zeros(6)
    out[x > 0] = 3.0
    out[x < 0] = np.sum(y)
    out[y > 1] *= 2
    out[x > y] += y[0]
    return out


@program(X, Y)
def traced_mask_of_arrays(x, y):
    out = np.zeros(6)
    mask = x > 0
    out[mask] = x[mask] * y[mask]
    out[~mask] -= y[~mask] ** 2
    out[mask] += np.sqrt(x[mask])
    return out


@program(M)
def mask_of_a_matrix(m):
    a = m.copy()
    a[a < 0] = 0
    a[np.eye(3, dtype=bool)] = [1.0, m[0, 0], m[1, 1]]
    a[np.array([True, False, True])] *= 2
    a[:, np.array([False, True, True])] += m[:, :2]
    return a


@program(X)
def clipped_in_place(x):
    a = x.copy()
    a[a > 1] = 1
    a[a < -1] = -1
    np.maximum(a, 0.1, out=a)
    np.clip(a, 0.2, 0.9, out=a)
    return a * x


@program(X)
def repeated_known_indices(x):
    a = np.zeros(4)
    a[[0, 1, 0]] = x[:3]
    a[[2, 2]] += x[3:5]
    a[np.array([[3, 0], [3, 3]])] = x[:4].reshape(2, 2) ** 2
    return a


@program(X, K)
def traced_indices(x, k):
    a = np.zeros(4)
    a[k] = x[:4]
    a[k[1:2]] = 3 * x[5]
    a[k[3]] += x[4]
    return a


@program(X, K)
def repeated_traced_indices(x, k):
    a = x[:3] * 2
    a[k] = x[:4] ** 2
    b = np.ones((4, 3))
    b[k, 1] = x[:4]
    b[1:, k] *= 2
    return a, b


@program(X, K)
def a_row_by_a_traced_index(x, k):
    a = np.zeros((4, 3))
    a[k[0]] = x[:3]
    a[k] += x[3:]
    a[k[1], 2] = x[0]
    return a


@program(X, K)
def added_at(x, k):
    a = np.zeros(4)
    np.add.at(a, k, x[:4])
    np.add.at(a, [0, 0, 3], x[3:])
    np.subtract.at(a, k[:2], 1.5 * x[4:])
    np.add.at(a, k, 1.0)
    return a


@program(X, K)
def added_at_pairs(x, k):
    a = np.zeros((3, 3))
    np.add.at(a, (k, [0, 1, 0, 2]), x[:4])
    np.add.at(a, (slice(None), 1), x[3:])  # type: ignore[arg-type]  # NumPy takes slices
    return a


@program(X, K)
def computed_at(x, k):
    a = np.linspace(0.5, 2, 4) + 0 * x[0]
    np.multiply.at(a, k, x[:4])
    np.maximum.at(a, [0, 0, 3], x[3:] * x[0])
    np.divide.at(a, k, 2 + np.cos(x[:4]))
    np.minimum.at(a, [1, -1, 2], x[:3])
    np.multiply.at(a, k, 0.5)
    np.negative.at(a, [3, 3, 0])
    np.multiply.at(a, slice(1, 3), x[:2])  # type: ignore[arg-type]  # NumPy takes slices
    return a


@program(X, K)
def factors_of_zero_at(x, k):
    a = np.ones(4)
    np.multiply.at(a, [1, 1, 1, 2, 2, -1], x * np.array([0, 1, 1, 0, 0, 1]))
    np.multiply.at(a, k, x[1] * (x[:4] - 1))
    return a


@program(X, K)
def computed_at_pairs(x, k):
    a = np.full((3, 3), 1.5)
    np.multiply.at(a, (k, [0, 1, 0, 2]), x[:4])
    np.maximum.at(a, (slice(None), [1, 1]), x[3:][:, None])  # type: ignore[arg-type]  # NumPy takes slices
    np.multiply.at(a, [1, 1], x[:3])
    np.logaddexp.at(a, k[:2], x[3:])
    np.multiply.at(a, (1, 2), x[0])
    return a


@program(X)
def assembled_like_finite_elements(x):
    stiff = np.zeros((4, 4))
    local = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for e in range(3):
        stiff[e : e + 2, e : e + 2] += x[e] ** 2 * local
        stiff[np.ix_([e, e + 1], [e, e + 1])] += x[e + 3] * local
    return stiff


@program(X, np.array([3, 1, 0, 2]))
def put_along_an_axis(x, k):
    a = np.zeros((2, 4))
    np.put_along_axis(a, np.stack([k, k[::-1]])[:, :2], x[:4].reshape(2, 2), axis=1)
    b = np.zeros(4)
    b[np.array([3, 1, 0, 2])[k]] = x[:4]
    return a, b


@program(X)
def put_and_place(x):
    a, b, c = np.zeros(6), np.zeros((2, 3)), np.zeros(6)
    np.put(a, [0, 4], x[:2])
    b.put([1, 5], x[3])
    np.putmask(a, [False, True] * 3, x)
    np.place(b, np.array([[True, True, False], [False, False, True]]), x[:3])
    np.copyto(c, x[None, None], where=[True, False] * 3)
    np.copyto(c[:2], 4 * x[0])
    return a, b, c


@program(X, M)
def diagonals(x, m):
    a = np.zeros((3, 3))
    np.fill_diagonal(a, x[0])
    b = m * 1.0
    np.fill_diagonal(b, x[1:4])
    c = np.zeros((4, 2))
    np.fill_diagonal(c, [x[4], 1.0])
    a[np.diag_indices(3)] *= x[:3]
    a[np.triu_indices(3, 1)] = x[3:]
    a[np.tril_indices(3, -1)] = a[np.triu_indices(3, 1)]
    return a, b, c


# -- out=, augmented assignment, dtypes


@program(X, Y)
def out_arguments(x, y):
    a, b = np.zeros(6), np.empty(6)
    np.multiply(x, y, out=a)
    np.add(a, 1, out=a)
    np.exp(a, out=b)
    np.sqrt(b, b)
    np.sin(x, out=a[::-1])
    return a, b


@program(X, Y)
def out_with_where(x, y):
    a = np.ones(6)
    np.divide(y, x, out=a, where=x > 0)
    np.log(x, out=a, where=[True, False, True, True, False, True])
    np.add(a, 2, where=y < 0, out=a)
    return a


@program(X, M)
def out_of_functions(x, m):
    a, b, c = np.empty(3), np.empty((3, 3)), np.empty(6)
    np.sum(m, axis=0, out=a)
    np.matmul(m, m, out=b)
    np.cumsum(x, out=c)
    np.dot(m, a, out=b[0])
    np.mean(m, axis=1, out=a)
    np.clip(x, -1, 1, out=c)
    return a, b, c


@program(X)
def augmented_by_a_traced_array(x):
    a = np.ones(6)
    alias = a
    a += x
    a *= x
    a -= 1
    a /= 2
    alias **= 2
    return a, alias


@program(X)
def augmented_broadcast(x):
    a = np.ones((2, 6))
    a *= x
    a -= x[:2, None]
    a[:, 1:4] /= 2 + x[:3] ** 2
    return a


@program(X)
def rounding_on_assignment(x):
    a = np.zeros(3, np.float32)
    a[0] = x[0]
    a[1:] = x[1:3]
    b = np.ones(6, np.float32)
    b[:] = x * b
    return a.astype(float), b


@program(X)
def truncation_on_assignment(x):
    a = np.zeros(6, int)
    a[:] = x * 2.9
    b = np.arange(6)
    b[0] = x[2]
    return a * x, b


@program(X)
def augmented_integers(x):
    count = np.zeros(6, int)
    count[x > 0] += 1
    count += (x > 1).astype(int)
    count[2] -= 3
    return count * x


@program(X)
def booleans_in_place(x):
    mask = np.zeros(6, bool)
    mask[x > 0] = True
    mask[1] = x[1] < 0
    mask |= x > 1.5
    mask &= x < 2
    return np.where(mask, x, 0.0)


# -- whole algorithms


@program(X)
def sorted_residuals(x):
    fvec = np.zeros(11)
    for i in range(5):
        fvec[2 * i] = 10 * (x[i + 1] - x[i] ** 2)
        fvec[2 * i + 1] = 1 - x[i]
    fvec[-1] = np.sum(x)
    return fvec


@program(X)
def tridiagonal_residual(x):
    fvec = np.zeros_like(x)
    fvec[0] = (3 - 2 * x[0]) * x[0] - 2 * x[1] + 1
    fvec[1:-1] = (3 - 2 * x[1:-1]) * x[1:-1] - x[:-2] - 2 * x[2:] + 1
    fvec[-1] = (3 - 2 * x[-1]) * x[-1] - x[-2] + 1
    return fvec


@program(X)
def chebyquad(x):
    n = len(x)
    fvec = np.zeros(n)
    for j in range(n):
        temp1, temp2 = 1.0, 2 * x[j] - 1
        temp = 2 * temp2
        for i in range(n):
            fvec[i] += temp2
            temp1, temp2 = temp2, temp * temp2 - temp1
    for i in range(n):
        fvec[i] /= n
        if i % 2:
            fvec[i] += 1 / ((i + 1) ** 2 - 1)
    return fvec


@program(X)
def heat_equation(x):
    u = x.copy()
    for _ in range(4):
        new = u.copy()
        new[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        new[0] = new[1]
        u = new
    return u


@program(X)
def heat_equation_in_place(x):
    u = np.array(x)
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[[0, -1]] = 0.0
    return u


@program(X)
def horner(x):
    value = np.zeros(5)
    slope = np.zeros(5)
    for c in x:
        slope *= T
        slope += value
        value *= T
        value += c
    return value, slope


@program(X)
def trajectory(x):
    path = np.empty((6, 2))
    path[0] = x[:2]
    for k in range(1, 6):
        step = np.empty(2)
        step[0] = path[k - 1, 1]
        step[1] = -x[2] ** 2 * np.sin(path[k - 1, 0])
        path[k] = path[k - 1] + 0.1 * step
    return path


@program(X)
def prefix_sums(x):
    total = np.zeros(7)
    for i, value in enumerate(x, 1):
        total[i] = total[i - 1] + value**2
    return total[1:] - total[:-1] * 0.5


@program(X)
def a_list_of_residuals(x):
    res = []
    for i in range(3):
        r = np.zeros(2)
        r[0] = x[i] * x[i + 1]
        r[1] = x[i] - 1
        res.append(r)
    return np.concatenate(res), np.array(res)


def filled(target, value):
    target[:] = value
    return target


@program(X)
def written_by_another_function(x):
    a = np.zeros((2, 6))
    filled(a[0], x)
    filled(a[1], x**2)[2] = 0
    return a


class Counter:
    """An object with an array in it."""

    def __init__(self, n):
        self.total = np.zeros(n)

    def add(self, place, value):
        self.total[place] += value


@program(X)
def arrays_in_objects(x):
    counter = Counter(3)
    for i in range(6):
        counter.add(i % 3, x[i] ** 2)
    state = {"a": np.zeros(2)}
    state["a"][0] = counter.total[0]
    return counter.total, state["a"]


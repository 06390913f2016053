"""Functions of linear algebra, as text: random programs call them between their other lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.growth import Growth, Unfit

TEXT = """
import symgrad as sg


def definite(a):
    a = np.tanh(a)
    return np.matmul(a, np.swapaxes(a, -1, -2)) + np.asarray(1.5 * np.eye(a.shape[-2]), a.dtype)


def square(a, shift):
    n = min(a.shape[-2:])
    return np.tanh(a[..., :n, :n]) + np.asarray(shift * np.eye(n), a.dtype)


def apart(a):
    n, m = a.shape[-2:]
    return np.tanh(a) + np.asarray(3 * np.eye(n, m) * np.arange(1, m + 1), a.dtype)


def solved(a):
    return np.linalg.solve(definite(a), a)


def solved_for_a_vector(a):
    m = square(a, 3.0)
    return np.linalg.solve(m, m[..., :1])[..., 0]


def inverse(a):
    return np.linalg.inv(square(a, 3.0))


def factor(a, upper):
    return np.linalg.cholesky(definite(a), upper=upper)


def determinant(a, shift):
    return np.linalg.det(square(a, shift))


def logarithm(a):
    sign, value = np.linalg.slogdet(square(a, -3.0))
    return value + 0.5 * sign


def by_triangle(a, lower, trans):
    m = definite(a)
    return sg.linalg.solve_triangular(m, a, lower=lower, trans=trans) + sg.linalg.solve_triangular(
        m, a[..., :1], lower=not lower, unit_diagonal=True)


def by_factor(a, lower):
    return sg.linalg.cho_solve(sg.linalg.cho_factor(definite(a), lower=lower), a)


def likelihood(a):
    low = np.linalg.cholesky(definite(a))
    half = sg.linalg.solve_triangular(low, a[..., :1], lower=True)
    return np.sum(np.log(np.diagonal(low, 0, -2, -1)), -1) + np.sum(half * half, (-2, -1))


def eigenvalues(a, wanted):
    values, vectors = np.linalg.eigh(apart(square(a, 0.0)))
    return values if wanted else vectors * vectors


def singular(a, wanted):
    u, s, v = np.linalg.svd(apart(a), full_matrices=False)
    return (u * u, s, v * v)[wanted]


def orthogonal(a, mode):
    return np.linalg.qr(apart(a), mode)[-1]


def by_singular_values(a):
    a = apart(a)
    return np.linalg.pinv(a) * np.linalg.norm(a, "nuc", (-2, -1), keepdims=True) + np.linalg.cond(a)[..., None, None]


def power(a, n):
    return np.linalg.matrix_power(square(a, 2.0), n)
"""

NAMES: dict[str, Any] = {}
exec("import numpy as np\n" + TEXT, NAMES)

CALLS = (
    "solved({0})",
    "solved_for_a_vector({0})",
    "inverse({0})",
    "factor({0}, False)",
    "factor({0}, True)",
    "determinant({0}, 0.0)",
    "determinant({0}, 1.0)",
    "logarithm({0})",
    "by_triangle({0}, True, 0)",
    "by_triangle({0}, False, 0)",
    "by_triangle({0}, True, 'T')",
    "by_factor({0}, True)",
    "by_factor({0}, False)",
    "likelihood({0})",
    "likelihood({0}[..., :3, :])",
    "power({0}, 2)",
    "power({0}, -1)",
    "eigenvalues({0}, True)",
    "eigenvalues({0}, False)",
    "singular({0}, 0)",
    "singular({0}, 1)",
    "singular({0}, 2)",
    "orthogonal({0}, 'reduced')",
    "orthogonal({0}, 'complete')",
    "by_singular_values({0})",
)


def matrices(g: Growth) -> None:
    """Call one of them with a matrix, or a batch of some."""
    name = g.pick(ndim=2)
    if not min(g.shape(name)):
        raise Unfit
    g.line(g.rng.choice(CALLS).format(name))


KINDS: list[tuple[Callable[[Growth], None], int]] = [(matrices, 50)]

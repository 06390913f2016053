"""Functions of matrices and Riccati's equations for SciPy, by iterations that converge quadratically: loops in C.

Their derivatives are those of the iterations, which converge as fast: an iteration of ``[[A, E], [0, A]]`` has the
derivative in the direction E in a block (N. J. Higham, Functions of Matrices, SIAM 2008, 3.16). Scales, which say how
fast it converges and not where, are constants. What has no real result is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.api.modes.control import scan
from symgrad.api.modes.gradients import stop_gradient
from symgrad.errors import UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, is_traced
from symgrad.ops.linalg import solve, systems

STEPS = 12
"""Of an iteration: 9 are enough for a condition of 1e16, and some more for matrices far from normal."""

DOUBLINGS = 24
"""Steps of doubling: they are enough for a ratio of 1e6 between a Hamiltonian's eigenvalues and their mean."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)


def _iterated(step: Callable[..., tuple[Any, ...]], *start: Any, steps: int = STEPS) -> tuple[Any, ...]:
    found: tuple[Any, ...] = scan(lambda state, _: (step(*state), None), start, None, length=steps)[0]
    return found


def _solved_unchecked(a: Any, b: Any) -> Any:
    """Solve systems, without a look at whether the matrices are singular."""
    return solve.lu_solve(a, solve.lu(a), b, trans=False, checked=False)


def _column_norm(a: Any) -> Any:
    """Return a matrix's norm by its columns, as a constant."""
    return stop_gradient(np.max(np.sum(np.abs(a), -2, keepdims=True), -1, keepdims=True, initial=0))


def _where_close(found: Any, again: Any, a: Any) -> Any:
    """Return what was found where it gives the matrix again, and NaN elsewhere."""
    is_close = _column_norm(again - a) <= np.finfo(a.dtype).eps ** 0.5 * _column_norm(a)
    return np.where(is_close, found, np.asarray(np.nan, a.dtype))


def _principal_root(a: Any) -> Any:
    """Return the principal square root by the product form of Denman and Beavers' iteration, (6.29), scaled."""
    unit = systems.unit_of(a)

    def step(x: Any, m: Any) -> tuple[Any, ...]:
        inverse = _solved_unchecked(m, unit)
        scale = np.sqrt(_column_norm(inverse) / _column_norm(m))
        inverse, m = inverse / scale, m * scale
        return 0.5 * np.sqrt(scale) * (x + x @ inverse), 0.5 * unit + 0.25 * (m + inverse)

    x, _ = _iterated(step, a, a)
    return _where_close(x, x @ x, a)


def _logarithm(a: Any) -> Any:
    """Return four times that of the fourth root: (11.1), an integral of inverses, by Gauss's formula."""
    unit = systems.unit_of(a)
    scale = np.exp2(np.rint(0.5 * np.log2(_column_norm(_solved_unchecked(a, unit)) / _column_norm(a))))
    less = (_principal_root(_principal_root(a * scale)) - unit)[..., None, :, :]
    nodes = (0.5 + 0.5 * NODES[:, None, None]).astype(a.dtype)
    matrices = nodes * less + np.eye(a.shape[-1], dtype=a.dtype)
    parts = _solved_unchecked(matrices, np.broadcast_to(less, matrices.shape))
    return np.sum((2 * WEIGHTS[:, None, None]).astype(a.dtype) * parts, -3) - np.log(scale) * unit


for _name, _answer in (("sqrtm", _principal_root), ("logm", _logarithm)):
    answers(Late(f"linalg.{_name}"))(
        lambda A, *_, _name=_name, _answer=_answer, **__: _answer(systems.squared(_name, lift(A))))


@answers(Late("linalg.signm"))
def signm(A: Any, *_: Any, **__: Any) -> Any:
    """As `scipy.linalg.signm`, by Newton's iteration, (5.35)."""
    a = systems.squared("signm", lift(A))
    unit = systems.unit_of(a)

    def step(x: Any) -> tuple[Any, ...]:
        inverse = _solved_unchecked(x, unit)
        scale = np.sqrt(_column_norm(inverse) / _column_norm(x))
        return (0.5 * (scale * x + inverse / scale),)

    (x,) = _iterated(step, a)
    return _where_close(x, x @ x, unit)


_PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
         670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
_THETA, _MOST = 5.371920351148152, 16


@answers(Late("linalg.expm"))
def expm(A: Any) -> Any:
    """By a Pade approximant of degree 13, scaled and squared: N. J. Higham, SIAM J. Matrix Anal. Appl. 26 (2005)."""
    a = systems.squared("expm", lift(A))
    size = np.max(np.sum(np.abs(a), axis=-2, keepdims=True), axis=-1, keepdims=True, initial=0)
    squarings = np.ceil(np.log2(np.maximum(size, _THETA) / _THETA))
    a = a * np.exp2(-squarings)
    unit = np.eye(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    p = [float(value) for value in _PADE]
    odd = a @ (a6 @ (p[13] * a6 + p[11] * a4 + p[9] * a2) + p[7] * a6 + p[5] * a4 + p[3] * a2 + p[1] * unit)
    even = a6 @ (p[12] * a6 + p[10] * a4 + p[8] * a2) + p[6] * a6 + p[4] * a4 + p[2] * a2 + p[0] * unit
    x = np.linalg.solve(even - odd, even + odd)
    x, _ = scan(lambda x, k: (np.where(k < squarings, x @ x, x), None), x, np.arange(_MOST))
    return np.where(squarings <= _MOST, x, np.nan)


@answers(Late("linalg.fractional_matrix_power"))
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """As `scipy.linalg.fractional_matrix_power`, of a principal power."""
    a = systems.squared("fractional_matrix_power", lift(A))
    if not is_traced(t) and float(t).is_integer():
        return np.linalg.matrix_power(a, int(t))
    return expm(t * _logarithm(a))


# -- Riccati's equations


def _riccati(name: str, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> tuple[Any, Any, Any]:
    """Return the matrices of an equation without products of state and control."""
    if e is not None:
        raise UnsupportedError(f"scipy.linalg.{name}(..., e=) on traced arrays", instead="matrices multiplied by e^-1")
    a, b, q, r = systems.floats(a, b, q, r)
    weighted = systems.solve(r, b.T)
    if s is None:
        return a, b @ weighted, q
    (s,) = systems.floats(s)
    return a - b @ systems.solve(r, s.T), b @ weighted, q - s @ systems.solve(r, s.T)


def _doubled(a: Any, g: Any, h: Any) -> Any:
    """Solve a discrete equation by doubling: E. K.-W. Chu, H.-Y. Fan, W.-W. Lin, Linear Algebra Appl. 396 (2005)."""
    unit = systems.unit_of(a)

    def step(a: Any, g: Any, h: Any) -> tuple[Any, ...]:
        both = _solved_unchecked(unit + g @ h, np.concatenate([a, g], -1))
        n = a.shape[-1]
        return a @ both[:, :n], g + a @ both[:, n:] @ a.T, h + a.T @ h @ both[:, :n]

    return _iterated(step, a, g, h, steps=DOUBLINGS)[2]


@answers(Late("linalg.solve_discrete_are"))
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, *_: Any, **__: Any) -> Any:
    """As `scipy.linalg.solve_discrete_are`."""
    a, g, h = _riccati("solve_discrete_are", a, b, q, r, e, s)
    x = _doubled(a, g, h)
    again = a.T @ x @ _solved_unchecked(systems.unit_of(a) + g @ x, a) + h
    return _where_close(x, again, x)


@answers(Late("linalg.solve_continuous_are"))
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, *_: Any, **__: Any) -> Any:
    """As `scipy.linalg.solve_continuous_are`: by a Cayley transform the discrete one."""
    a, g, h = _riccati("solve_continuous_are", a, b, q, r, e, s)
    whole = np.concatenate([np.concatenate([a, -g], -1), np.concatenate([-h, -a.T], -1)])
    shift = np.sqrt(_column_norm(whole) / _column_norm(_solved_unchecked(whole, systems.unit_of(whole))))
    unit = systems.unit_of(a)
    below = a - shift * unit
    inverse = _solved_unchecked(below, unit)
    turned = _solved_unchecked(below.T + h @ inverse @ g, unit)
    x = _doubled(unit + 2 * shift * turned.T, 2 * shift * inverse @ g @ turned, 2 * shift * turned @ h @ inverse)
    part = a.T @ x
    return _where_close(x, part.T + h + x, x @ g @ x - part + x)

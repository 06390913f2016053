"""``symgrad.linalg``: what SciPy has and NumPy has not, of plain arrays and of traced ones.

`np.linalg.solve`, `inv`, `det`, `slogdet` and `cholesky` work in a compiled function as they are.
"""

from __future__ import annotations

from typing import Any

__all__ = ["cho_factor", "cho_solve", "solve_triangular"]


def solve_triangular(a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """Solve a system with a triangular matrix, as `scipy.linalg.solve_triangular`.

    Args:
        a: shape (..., n, n); the other triangle is not read.
        b: shape (n,) or (..., n, m); the axes in front broadcast.
        trans: 0 or ``"N"`` for a x = b, 1 or ``"T"`` for a' x = b.
        lower: the lower triangle is a's, else the upper one.
        unit_diagonal: the diagonal is 1, and not read.

    Returns:
        The solution, of b's shape (with the batch's axes), float64 unless all is float32.

    Raises:
        LinAlgError: a number of the diagonal is 0, or a is no square matrix.
        ShapeError: b has other rows than a.

    >>> import numpy as np
    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
    array([1., 2.])
    """
    return _systems().solve_triangular(a, b, trans, lower, unit_diagonal)


def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """Factorize a symmetric positive definite matrix, for `cho_solve`.

    Args:
        a: shape (..., n, n); of it the triangle is read that `lower` names.
        lower: whether the factor is a lower triangle.

    Returns:
        The factor, with zeros in its other triangle, and `lower`.

    Raises:
        LinAlgError: a is not positive definite, or no square matrix.
    """
    return _systems().cholesky(a, upper=not lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """Solve a system with a matrix of which the Cholesky factor is known, as `scipy.linalg.cho_solve`.

    Args:
        c_and_lower: the factor, of shape (..., n, n), and whether it is a lower triangle.
        b: shape (n,) or (..., n, m); the axes in front broadcast.

    Returns:
        The solution, of b's shape (with the batch's axes), float64 unless all is float32.

    Raises:
        LinAlgError: the factor is no square matrix.
        ShapeError: b has other rows.

    >>> import numpy as np
    >>> cho_solve((np.linalg.cholesky(np.array([[4.0, 0.0], [0.0, 1.0]])), True), np.array([8.0, 3.0]))
    array([2., 3.])
    """
    return _systems().cho_solve(c_and_lower, b)


def _systems() -> Any:
    """Load the ops, which takes a while, and return those of systems of equations."""
    from symgrad.ops import load
    from symgrad.ops.linalg import systems

    load()
    return systems

"""NumPy's and SciPy's functions of linear algebra, by the operations of `linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, DtypeError, ShapeError
from symgrad.ir import shapes
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import OPS, answers, shape_of
from symgrad.ops.linalg import determinants
from symgrad.ops.linalg import solve as linalg
from symgrad.ops.linalg.cholesky import cholesky as lower_factor
from symgrad.ops.linalg.solve import require_square, transposed
from symgrad.ops.numpy.diagonals import ones_diagonal

SLOGDET: Any = type(np.linalg.slogdet(np.eye(1)))


def floats(*arrays: Any) -> tuple[Any, ...]:
    """Return arrays of one floating dtype, as numpy.linalg chooses it: float64 unless all are float32.

    Raises:
        DtypeError: there is half precision among them, or what is no number.
    """
    found = [lift(x) for x in arrays]
    for x in found:
        if x.dtype.kind not in "fiub" or x.dtype == np.float16:
            raise DtypeError(f"array type {x.dtype} is unsupported in linalg", instead="x.astype(np.float64)")
    kind = np.result_type(*[x.dtype if x.dtype.kind == "f" else np.float64 for x in found])
    return tuple([x if x.dtype == kind else x.astype(kind) for x in found])


def squared(name: str, x: Any) -> Any:
    """Return an array of square matrices, of a floating dtype.

    Raises:
        NotSquare: it is something else.
    """
    (x,) = floats(x)
    require_square(shape_of(x), name)
    return x


def system(name: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Return a matrix and right-hand sides with matching rows; tell one right-hand side without columns, made one.

    Raises:
        NotSquare: a is no square matrix.
        ShapeError: b has other rows, or batches that do not broadcast.
    """
    a, b = floats(squared(name, a), b)
    left, right = shape_of(a), shape_of(b)
    vector = len(right) == 1
    fits = bool(right) and left[-1] == right[-1 if vector else -2]
    try:
        shapes.broadcast(left[:-2], right[:-2])
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"{name}: a matrix {shapes.show(left)} and right-hand sides {shapes.show(right)} do not fit")
    return a, b[:, None] if vector else b, vector


def same_batches(*arrays: Any) -> tuple[Any, ...]:
    """Broadcast the axes before the last two."""
    batch = shapes.broadcast(*[shape_of(x)[:-2] for x in arrays])
    return tuple([
        x if shape_of(x)[:-2] == batch else OPS["broadcast_to"](x, shape=(*batch, *shape_of(x)[-2:])) for x in arrays
    ])


@answers(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """As `numpy.linalg.cholesky`: the lower triangle is read, or with `upper` the upper one."""
    a = squared("cholesky", a)
    return transposed(lower_factor(transposed(a))) if upper else lower_factor(a)


@answers(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """As `numpy.linalg.solve`: a b of one axis is a vector, any other one has matrices."""
    a, b, vector = system("solve", a, b)
    a, factors, b = same_batches(a, linalg.lu(a), b)
    x = linalg.lu_solve(a, factors, b, trans=False, checked=True)
    return x[..., 0] if vector else x


@answers(np.linalg.inv)
def inv(a: Any) -> Any:
    a = squared("inv", a)
    unit = ones_diagonal(a, shape_of(a)[-1], shape_of(a)[:-2], a.dtype)
    return linalg.lu_solve(a, linalg.lu(a), unit, trans=False, checked=True)


@answers(np.linalg.det)
def det(a: Any) -> Any:
    a = squared("det", a)
    return determinants.det(a, linalg.lu(a))


@answers(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    a = squared("slogdet", a)
    factors = linalg.lu(a)
    return SLOGDET(determinants.sign(a, factors), determinants.logabsdet(a, factors))


TRANSPOSED = {0: False, 1: True, 2: True, "N": False, "T": True, "C": True}


def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False,
) -> Any:
    """As `scipy.linalg.solve_triangular`; see `symgrad.linalg`."""
    a, b, vector = system("solve_triangular", a, b)
    if trans not in TRANSPOSED:
        raise ArgumentValueError(f"solve_triangular(..., trans={trans!r})", instead='0, 1, 2, "N", "T" or "C"')
    if TRANSPOSED[trans]:
        a, lower = transposed(a), not lower
    a, b = same_batches(a, b)
    x = linalg.solve_triangular(a, b, lower=bool(lower), unit=bool(unit_diagonal), checked=True)
    return x[..., 0] if vector else x


def cho_solve(c_and_lower: Any, b: Any) -> Any:
    """As `scipy.linalg.cho_solve`; see `symgrad.linalg`."""
    c, lower = c_and_lower
    c, b, vector = system("cho_solve", c, b)
    low, b = same_batches(c if lower else transposed(c), b)
    half = linalg.solve_triangular(low, b, lower=True, unit=False, checked=False)
    x = linalg.solve_triangular(transposed(low), half, lower=False, unit=False, checked=False)
    return x[..., 0] if vector else x

"""NumPy's and SciPy's functions of linear algebra, by the operations of `linalg`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, DtypeError, LinAlgError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import simplified
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import OPS, UNSET, answers, shape_of
from symgrad.ops.linalg import decompositions, determinants
from symgrad.ops.linalg import solve as linalg
from symgrad.ops.linalg.cholesky import cholesky as lower_factor
from symgrad.ops.linalg.solve import least, require_matrix, require_square, transposed
from symgrad.ops.numpy.creation import ones_diagonal
from symgrad.ops.numpy.reductions import require_some

EYE: Any = np.eye(1)
SLOGDET: Any = type(np.linalg.slogdet(EYE))
EIGH: Any = type(np.linalg.eigh(EYE))
SVD: Any = type(np.linalg.svd(EYE))
QR: Any = type(np.linalg.qr(EYE))


def floats(*arrays: Any) -> tuple[Any, ...]:
    """Return arrays of one floating dtype, as numpy.linalg chooses it: float64 unless all are float32."""
    for dtype in [x.dtype for x in arrays if hasattr(x, "dtype")]:
        if dtype.kind not in "fiub" or dtype == np.float16:
            raise DtypeError(f"array type {dtype} is unsupported in linalg", instead="x.astype(np.float64)")
    found = [lift(x) for x in arrays]
    kind = np.result_type(*[x.dtype if x.dtype.kind == "f" else np.float64 for x in found])
    return tuple([x if x.dtype == kind else x.astype(kind) for x in found])


def matrix(name: str, x: Any, require: Any = require_matrix) -> Any:
    """Return an array of matrices, of a floating dtype; with `require_square`, of square ones.

    Raises:
        NotSquare: it has fewer axes, or other ones.
    """
    (x,) = floats(x)
    require(shape_of(x), name)
    return x


squared = partial(matrix, require=require_square)


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


# -- decompositions


def hermitian(name: str, a: Any, uplo: str) -> Any:
    """Return a symmetric matrix, with the triangle below that is read."""
    a = squared(name, a)
    if uplo not in {"L", "l", "U", "u"}:
        raise ArgumentValueError("UPLO argument must be 'L' or 'U'")
    return transposed(a) if uplo in {"U", "u"} else a


@answers(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """As `numpy.linalg.eigh`, with signs as `symgrad.ops.linalg.decompositions` says."""
    a = hermitian("eigh", a, UPLO)
    known = decompositions.eigh(a)
    return EIGH(decompositions.eigenvalues(a, known), decompositions.eigenvectors(a, known))


answers(np.linalg.eigvalsh)(lambda a, UPLO="L": eigh(a, UPLO)[0])


@answers(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """As `numpy.linalg.svd`, with signs as `symgrad.ops.linalg.decompositions` says."""
    a = matrix("svd", a)
    if hermitian:
        require_square(shape_of(a), "svd")
        a = np.tril(a) + transposed(np.tril(a, -1))
    known = decompositions.svd(a)
    s = decompositions.singular_values(a, known)
    if not compute_uv:
        return s
    u, v = decompositions.left_and_right(a, known)
    u = transposed(u)
    if full_matrices:
        u, v = _filled_basis(u), transposed(_filled_basis(transposed(v)))
    return SVD(u, s, v)


def _filled_basis(u: Any) -> Any:
    """Add to orthonormal columns what makes them a basis."""
    *_, m, n = shape_of(u)
    if m == n:
        return u
    whole = decompositions.orthonormal(u, complete=True)
    return np.concatenate([u, decompositions.columns(whole, n, simplified(m - n))], -1)


@answers(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """As `numpy.linalg.qr`, in the modes ``reduced``, ``complete`` and ``r``."""
    a = matrix("qr", a)
    if mode in {"raw", "economic", "full", "f", "e"}:
        raise UnsupportedError(f"np.linalg.qr(..., mode={mode!r})", instead='"reduced", "complete" or "r"')
    if mode not in {"reduced", "complete", "r"}:
        raise ArgumentValueError(f"Unrecognized mode '{mode}'")
    m, n = shape_of(a)[-2:]
    few = least(m, n)
    q = decompositions.orthonormal(decompositions.columns(a, 0, few), complete=mode == "complete" and m != few)
    r = np.triu(np.matmul(transposed(q), a))
    return r if mode == "r" else QR(q, r)


def longest(a: Any) -> Any:
    """Return the larger one of a matrix's extents."""
    m, n = lift(a).shape[-2:]
    return max(m, n) if type(m) is type(n) is int else np.maximum(m, n)


def solved_by_pinv(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any]:
    """Solve least squares by the singular values above `rcond` times the largest one.

    Returns:
        The solution, of how many singular values it is made, and the decomposition.
    """
    known = decompositions.svd(a)
    s = OPS["stop_gradient"](decompositions.columns(known, simplified(sum(shape_of(a)[-2:])), None))
    counts = s > lift(rcond)[..., None] * decompositions.largest(s)
    return decompositions.pinv_solve(a, known, reciprocals(s, counts), b, trans=False), np.sum(counts, -1), known


def reciprocals(s: Any, counts: Any) -> Any:
    """Return 1 / s of singular values that count, and 0 of the others: -0.0 of those that are more than rounding."""
    found = np.where(counts, 1 / np.where(counts, s, 1 + 0 * s), 0 * s)
    more = s * decompositions.largest(found) > np.sqrt(np.finfo(s.dtype).eps)
    return np.where(counts, found, np.where(more, -(0 * s), 0 * s))


def unit_of(a: Any) -> Any:
    """Return unit matrices of as many rows as matrices have."""
    return ones_diagonal(a, shape_of(a)[-2], shape_of(a)[:-2], a.dtype)


@answers(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = UNSET) -> Any:
    a = matrix("pinv", a)
    if hermitian:
        require_square(shape_of(a), "pinv")
        a = np.tril(a) + transposed(np.tril(a, -1))
    if rcond is None:
        rcond = 1e-15 if rtol is UNSET else rtol
        rcond = longest(a) * np.finfo(a.dtype).eps if rcond is None else rcond
    elif rtol is not UNSET:
        raise ArgumentValueError("`rtol` and `rcond` can't be both set.")
    return solved_by_pinv(a, unit_of(a), rcond)[0]


def least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """Solve least squares of one matrix: as `numpy.linalg.lstsq`."""
    a, b = floats(matrix("lstsq", a), b)
    m, n = shape_of(a)[-2:]
    if a.ndim != 2 or b.ndim not in {1, 2} or shape_of(b)[0] != m:
        shown = " and ".join([shapes.show(shape_of(x)) for x in (a, b)])
        raise LinAlgError(f"lstsq: {shown} are no matrix and right-hand sides of as many rows")
    vector = b.ndim == 1
    rcond = np.where(lift(rcond) < 0, np.finfo(a.dtype).eps, rcond)  # as LAPACK takes it
    x, rank, known = solved_by_pinv(a, b[:, None] if vector else b, rcond)
    x = x[:, 0] if vector else x
    if type(m) is type(n) is int and m <= n:
        rest = np.zeros_like(b, shape=(0,))
    else:
        square = np.square(b - a @ x)
        square = np.sum(square, 0) if square.ndim > 1 else np.sum(square, keepdims=True)
        rest = np.where(rank == a.shape[1], square, np.asarray(np.nan, square.dtype))
    return x, rest, rank.astype(np.int32), decompositions.singular_values(a, known)


@answers(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """As `numpy.linalg.lstsq`, but for residuals where the rank is not full: they are NaN, where NumPy has none."""
    a = matrix("lstsq", a)
    return least_squares(a, b, longest(a) * np.finfo(a.dtype).eps if rcond is None else rcond)


@answers(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    a = lift(A)
    if a.ndim < 2:
        return np.any(a != 0).astype(np.int64)
    s = svd(a, compute_uv=False, hermitian=hermitian)
    if tol is None:
        rtol = longest(a) * np.finfo(s.dtype).eps if rtol is None else lift(rtol)[..., None]
        tol = rtol * decompositions.largest(s)
    else:
        tol = lift(tol)[..., None]
    return np.count_nonzero(s > tol, axis=-1)


@answers(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """As `numpy.linalg.cond`: infinite for a singular matrix, whatever the norm."""
    x = matrix("cond", x)
    if 0 in shape_of(x)[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    for axis in (-2, -1):
        require_some(x, axis % x.ndim, "linalg.cond")
    if p is None or p in {2, -2}:
        s = svd(x, compute_uv=False)
        found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        x = squared("cond", x)
        inverse = linalg.lu_solve(x, linalg.lu(x), unit_of(x), trans=False, checked=False)
        found = np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(inverse, p, (-2, -1))
    return np.where(np.isnan(found) & ~np.any(np.isnan(x), (-2, -1)), np.asarray(np.inf, found.dtype), found)

"""Answers for scipy.linalg, where it is other than numpy.linalg: which triangle is read, factors, special matrices."""

from __future__ import annotations

import operator
import warnings
from functools import cache
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ops.arrays.copies import filled
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, is_traced, shape_of
from symgrad.ops.elementwise.selection import stop
from symgrad.ops.linalg import solve as factored
from symgrad.ops.linalg import systems
from symgrad.ops.linalg.cholesky import cholesky
from symgrad.ops.numpy.sets import count_up

_ANSWERS: dict[str, Any] = {
    "inv": lambda a, *_, **__: systems.inv(a), "det": lambda a, *_, **__: systems.det(a),
    "cholesky": lambda a, lower=False, *_, **__: np.linalg.cholesky(lift(a), upper=not lower),
    "cho_factor": lambda a, lower=False, *_, **__: (np.linalg.cholesky(lift(a), upper=not lower), lower),
    "cho_solve": lambda c_and_lower, b, *_, **__: systems.cho_solve((lift(c_and_lower[0]), c_and_lower[1]), b),
    "solve_triangular": lambda a, b, trans=0, lower=False, unit_diagonal=False, *_, **__: systems.solve_triangular(
        a, b, trans, lower, unit_diagonal),
    "svdvals": lambda a, *_, **__: np.linalg.svdvals(lift(a)),
    "eigvalsh": lambda a, b=None, *, lower=True, **settings: eigh(a, b, lower=lower, eigvals_only=True, **settings),
    "solve_toeplitz": lambda c_or_cr, b, *_, **__: systems.solve(
        toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr), b),
}
for _name, _answer in _ANSWERS.items():
    answers(Late(f"linalg.{_name}"))(_answer)
answers(Late("_lib.array_api_compat.numpy.linalg.solve"))(lambda x1, x2, /: systems.solve(lift(x1), lift(x2)))


@answers(Late("linalg.norm"))
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    return np.linalg.norm(a, ord, axis, keepdims)


@answers(Late("linalg.solve"))
def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: Any = None, transposed: bool = False,
) -> Any:
    a = lift(a)
    if assume_a in {"sym", "her", "pos", "symmetric", "hermitian", "positive definite"}:  # one triangle is read
        half = np.tril(a, -1) if lower else np.triu(a, 1)
        a = half + np.swapaxes(half, -1, -2) + _diagonal(a)
    elif assume_a in {"upper triangular", "lower triangular"}:
        a = np.tril(a) if assume_a[0] == "l" else np.triu(a)
    elif assume_a == "diagonal":
        a = _diagonal(a)
    elif assume_a == "tridiagonal":
        a = np.triu(np.tril(a, 1), -1)
    elif assume_a not in {None, "gen", "general", "banded"}:
        raise UnsupportedError(f"scipy.linalg.solve(..., assume_a={assume_a!r})", instead="leave assume_a= away")
    return systems.solve(np.swapaxes(a, -1, -2) if transposed else a, lift(b))


def _diagonal(a: Any) -> Any:
    return a * np.eye(a.shape[-1], dtype=a.dtype)


def _factored(name: str, a: Any) -> tuple[Any, Any]:
    """Return L and U in one matrix, and how far down each row was exchanged."""
    a = lift(a)
    factored.require_matrix(a.shape, name)
    return factored.factors_of(a)


@answers(Late("linalg.lu_factor"))
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    found, down = _factored("lu_factor", a)
    places = (down + np.arange(down.shape[-1])).astype(np.int32)
    return found, places if found.shape[-2] == found.shape[-1] else places[..., : found.shape[-1]]


@answers(Late("linalg.lu_solve"))
def lu_solve(
    lu_and_piv: Any, b: Any, trans: Any = 0, overwrite_b: bool = False, check_finite: bool = True,
) -> Any:
    lu, b, vector = systems.system("lu_solve", lu_and_piv[0], b)
    lu, b = systems.same_batches(lu, b)
    places = lift(lu_and_piv[1])
    down = np.broadcast_to((places - np.arange(places.shape[-1])).astype(lu.dtype), lu.shape[:-1])
    if systems.TRANSPOSED[trans]:
        half = systems.solve_triangular(lu, b, "T")
        x = factored.permuted(down, systems.solve_triangular(lu, half, "T", lower=True, unit_diagonal=True), back=True)
    else:
        half = systems.solve_triangular(lu, factored.permuted(down, b), lower=True, unit_diagonal=True)
        x = systems.solve_triangular(lu, half)
    return x[..., 0] if vector else x


@answers(Late("linalg.lu"))
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False,
) -> Any:
    both, down = _factored("lu", a)
    m, n = both.shape[-2:]
    least = factored.least(m, n)
    low = np.tril(both[..., :, :least], -1) + np.eye(m, least, dtype=both.dtype)
    up, p = np.triu(both[..., :least, :]), factored.permuted(down, np.eye(m, dtype=both.dtype), back=True)
    if permute_l:
        return factored.permuted(down, low, back=True), up
    return np.argmax(p, -1).astype(np.int32) if p_indices else p, low, up


# -- decompositions


@answers(Late("linalg.eigh"))
def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: Any = None,
) -> Any:
    """As `scipy.linalg.eigh`: of A v = w B v with B = L L', by L^-1 A L^-T."""
    if subset_by_value is not None or type != 1:
        raise UnsupportedError(
            "scipy.linalg.eigh of eigenvalues in a range, or with type=",
            instead="subset_by_index=[lowest, highest], or all of them")
    a = systems.hermitian("eigh", lift(a), "L" if lower else "U")
    if b is None:
        values, vectors = systems.eigh(a)
    else:
        a = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
        low = cholesky(systems.hermitian("eigh", lift(b), "L" if lower else "U"))
        half = np.swapaxes(systems.solve_triangular(low, a, lower=True), -1, -2)
        values, vectors = systems.eigh(systems.solve_triangular(low, half, lower=True))
        vectors = systems.solve_triangular(low, vectors, "T", lower=True)
    if subset_by_index is not None:
        low, high = map(operator.index, subset_by_index)
        count = values.shape[-1]
        if not 0 <= low <= high < count:
            raise ArgumentValueError(f"scipy.linalg.eigh: subset_by_index={[low, high]} of {count} eigenvalues")
        values, vectors = values[..., low : high + 1], vectors[..., low : high + 1]
    return values if eigvals_only else (values, vectors)


@answers(Late("linalg.svd"))
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, *_: Any, **__: Any) -> Any:
    found = systems.svd(lift(a), full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@answers(Late("linalg.qr"))
def qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    if mode == "raw":
        raise UnsupportedError(
            "scipy.linalg.qr(..., mode='raw') on traced arrays: the reflections are not kept",
            instead="mode='full' or mode='economic', with Q itself")
    if mode not in {"full", "r", "economic"}:
        raise ArgumentValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    a = systems.matrix("qr", lift(a))
    order = _pivots(a) if pivoting else None
    turned = a if order is None else np.take(a, order, axis=1)
    q, r = systems.qr(turned, "reduced" if mode == "economic" else "complete")
    return (*((r,) if mode == "r" else (q, r)), *(() if order is None else (order.astype(np.int32),)))


def _pivots(a: Any) -> Any:
    """Return the order in which columns are taken: always the one whose rest is longest, which changes places.

    Where rests are equally long, or no longer than rounding, as behind the rank, LAPACK's order may be another one.
    """
    if a.ndim != 2 or not all(type(extent) is int for extent in shape_of(a)):
        raise ShapeError(
            f"scipy.linalg.qr(..., pivoting=True) of {shape_of(a)}: it is of one matrix, whose extents are known",
            instead="sg.vmap over several")
    m, n = shape_of(a)
    rest, places, order = stop(a), np.arange(n), np.arange(n) + np.zeros_like(a, dtype=np.int64, shape=n)
    for k in range(min(m, n)):
        lengths = np.sum(np.square(rest), axis=0)
        best = np.argmax(np.where(places < k, -1, lengths))
        turned = np.where(places == k, best, np.where(places == best, k, places))
        order, rest = order[turned], np.take(rest, turned, axis=1)
        length = np.sqrt(lengths[best])
        column = rest[:, k] / np.where(length > 0, length, 1)
        rest = rest - np.outer(column, column @ rest)
    return order


@answers(Late("linalg.pinv"))
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    a = systems.matrix("pinv", lift(a))
    if atol is not None:
        raise UnsupportedError("scipy.linalg.pinv(..., atol=...)", instead="rtol=")
    rtol = systems.longest(a) * np.finfo(a.dtype).eps if rtol is None else rtol
    x, rank, _ = systems.solved_by_pinv(a, systems.unit_of(a), rtol)
    return (x, rank) if return_rank else x


@answers(Late("linalg.lstsq"))
def lstsq(a: Any, b: Any, cond: Any = None, *_: Any, **__: Any) -> Any:
    a = systems.matrix("lstsq", lift(a))
    x, rest, rank, s = systems.least_squares(a, lift(b), np.finfo(a.dtype).eps if cond is None else cond)
    return x, rest[0] if x.ndim == 1 and rest.shape == (1,) else rest, rank.astype(np.int64), s


@answers(Late("linalg.subspace_angles"))
def subspace_angles(A: Any, B: Any) -> Any:
    """As `scipy.linalg.subspace_angles`: small angles by their sines, large ones by their cosines."""
    one, other = Late("linalg.orth")(A), Late("linalg.orth")(B)
    across = one.T @ other
    cosines = np.linalg.svdvals(across)[::-1]
    rest = other - one @ across if one.shape[1] >= other.shape[1] else one - other @ across.T
    small = cosines**2 >= 0.5
    sines = np.where(small, np.linalg.svdvals(rest), 0)
    return np.where(small, np.arcsin(np.minimum(sines, 1)), np.arccos(np.where(small, 0, cosines)))


@answers(Late("linalg.hessenberg"))
def hessenberg(a: Any, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """By Householder's reflections, with LAPACK's signs: a column whose elements are 0 already stays as it is."""
    a = systems.squared("hessenberg", lift(a))
    q, places = np.eye(a.shape[-1], dtype=a.dtype), np.arange(a.shape[-1])
    for k in range(a.shape[-1] - 2):
        below, head = np.where(places > k + 1, a[:, k], 0), a[k + 1, k]
        done = np.all(below == 0)
        size = np.sqrt(np.where(done, 1, np.sum(below**2) + head**2))
        v = below + np.where(places == k + 1, head + np.where(head < 0, -size, size), 0)
        turn = np.eye(a.shape[-1], dtype=a.dtype) - np.where(done, 0, 2 / np.sum(v * v)) * np.outer(v, v)
        a, q = turn @ a @ turn, q @ turn
    return (np.triu(a, -1), q) if calc_q else np.triu(a, -1)


@answers(Late("linalg.cdf2rdf"))
def cdf2rdf(w: Any, v: Any) -> Any:
    """As `scipy.linalg.cdf2rdf` of real eigenvalues: they are the diagonal."""
    w, v = systems.floats(w, v)
    return w[..., None] * np.eye(w.shape[-1], dtype=w.dtype), v


@answers(Late("linalg.clarkson_woodruff_transform"))
def clarkson_woodruff_transform(input_matrix: Any, sketch_size: Any, rng: Any = None, *, seed: Any = None) -> Any:
    """As `scipy.linalg.clarkson_woodruff_transform`: the sketch is drawn while the function is traced."""
    x = lift(input_matrix)
    if rng is None and seed is None:
        raise UnsupportedError(
            "scipy.linalg.clarkson_woodruff_transform of a traced matrix draws once, while it is traced",
            instead="rng= of a number, which says so",
        )
    drawn = seed if rng is None else np.random.default_rng(rng)
    made = Late("linalg._sketches.cwt_matrix")(sketch_size, shape_of(x)[-2], drawn)
    return made.toarray().astype(x.dtype) @ x


def _is_equal_turned(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """Whether a matrix is symmetric: NaN is not."""
    a = systems.squared("issymmetric", lift(a))
    turned = np.swapaxes(a, -1, -2)
    if not atol and not rtol:
        return np.all(a == turned)
    return np.all(np.abs(a - turned) <= (atol or 0) + (rtol or 0) * np.abs(turned))


for _name in ("issymmetric", "ishermitian"):
    answers(Late(f"linalg.{_name}"))(_is_equal_turned)


@answers(Late("linalg.polar"))
def polar(a: Any, side: str = "right") -> Any:
    """As `scipy.linalg.polar`."""
    if side not in {"right", "left"}:
        raise ArgumentValueError("`side` must be either 'right' or 'left'")
    a = systems.matrix("polar", lift(a))
    u, _, v = systems.svd(a, full_matrices=False)
    turn = u @ v
    part = np.swapaxes(turn, -1, -2) @ a if side == "right" else a @ np.swapaxes(turn, -1, -2)
    return turn, 0.5 * (part + np.swapaxes(part, -1, -2))


@answers(Late("linalg.orthogonal_procrustes"))
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    u, w, v = systems.svd(np.swapaxes(lift(A), -1, -2) @ lift(B))
    return u @ v, np.sum(w)


@answers(Late("linalg.rq"))
def rq(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", check_finite: bool = True) -> Any:
    """As `scipy.linalg.rq`: what turned round is the transpose of QR."""
    q, r = qr(np.swapaxes(lift(a)[..., ::-1, ::-1], -1, -2), mode="full" if mode == "r" else mode)
    r = np.swapaxes(r, -1, -2)[..., ::-1, ::-1]
    return r if mode == "r" else (r, np.swapaxes(q, -1, -2)[..., ::-1, ::-1])


@answers(Late("linalg.qr_multiply"))
def qr_multiply(a: Any, c: Any, mode: str = "right", pivoting: bool = False, *_: Any, **__: Any) -> Any:
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    return (lift(c) @ q if mode == "right" else q @ lift(c)), *rest


# -- matrices of a vector's elements, by places


@cache
def _takes_rows(name: str) -> bool:
    """Whether this SciPy's function makes a matrix of each row of an array; older versions flatten it."""
    function = Late(f"linalg.{name}").function
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it will change
        return np.ndim(getattr(function, "original", function)(np.zeros((1, 1)))) > np.ndim(np.eye(1))


def _vectors(name: str, *given: Any) -> list[Any]:
    """Return vectors along the last axis of arrays whose other axes are alike, none where SciPy flattens."""
    arrays = [np.atleast_1d(lift(x)) for x in given]
    if any(x.ndim > 1 for x in arrays) and not _takes_rows(name):
        arrays = [np.ravel(x) for x in arrays]
    others = np.broadcast_shapes(*[shape_of(x)[:-1] for x in arrays])
    return [np.broadcast_to(x, (*others, x.shape[-1])) if others else x for x in arrays]


def _places(x: Any) -> Any:
    """Count along the last axis, whose extent may be open."""
    extent = shape_of(x)[-1]
    return np.arange(extent) if type(extent) is int else count_up(x, extent)


def _at(x: Any, places: Any) -> Any:
    """Take elements of the last axis."""
    return gather(x, places, axes=(np.ndim(x) - 1,))


@answers(Late("linalg.toeplitz"))
def toeplitz(c: Any, r: Any = None) -> Any:
    c, r = _vectors("toeplitz", c, c if r is None else r)
    both = np.concatenate([c[..., ::-1], r[..., 1:]], -1)
    return _at(both, c.shape[-1] - 1 - _places(c)[:, None] + _places(r))


@answers(Late("linalg.hankel"))
def hankel(c: Any, r: Any = None) -> Any:
    c = lift(c)
    c, r = _vectors("hankel", c, np.zeros_like(c) if r is None else r)
    return _at(np.concatenate([c, r[..., 1:]], -1), _places(c)[:, None] + _places(r))


@answers(Late("linalg.circulant"))
def circulant(c: Any) -> Any:
    return _circulant(*_vectors("circulant", c))


def _circulant(c: Any) -> Any:
    places = _places(c)
    return _at(c, (places[:, None] - places) % c.shape[-1])


@answers(Late("linalg.block_diag"))
def block_diag(*arrs: Any) -> Any:
    blocks = [np.atleast_2d(lift(a)) for a in arrs] or [np.zeros((1, 0))]
    others = np.broadcast_shapes(*[shape_of(a)[:-2] for a in blocks])
    kind = np.result_type(*[a.dtype for a in blocks])
    like = next((a for a in blocks if is_traced(a)), blocks[0])
    blocks = [np.broadcast_to(a, (*others, *a.shape[-2:])) if others else a for a in blocks]
    return np.concatenate([
        np.concatenate([
            a.astype(kind) if j == k else filled(like, 0, (*others, shape_of(a)[-2], shape_of(b)[-1]), kind)
            for j, b in enumerate(blocks)], -1)
        for k, a in enumerate(blocks)], -2)


@answers(Late("linalg.solve_circulant"))
def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0,
) -> Any:
    """As `scipy.linalg.solve_circulant`, whose vectors are along any axes, and the other axes alike."""
    if singular != "raise" or tol is not None:
        raise UnsupportedError(
            "scipy.linalg.solve_circulant(..., singular=, tol=) of traced arrays", instead="leave these away")
    c, b = np.moveaxis(np.atleast_1d(lift(c)), caxis, -1), np.moveaxis(np.atleast_1d(lift(b)), baxis, -1)
    if c.ndim == 1 and b.ndim > 1:  # one matrix, to be factored once
        found = systems.solve(_circulant(c), np.reshape(b, (-1, c.shape[-1])).T).T
        return np.moveaxis(np.reshape(found, b.shape), -1, outaxis)
    return np.moveaxis(systems.solve(_circulant(c), b[..., None])[..., 0], -1, outaxis)


# -- the exponential of a matrix


@answers(Late("linalg.expm_cond"))
def expm_cond(A: Any, check_finite: bool = True) -> Any:
    """As `scipy.linalg.expm_cond`: the largest singular value of the derivative, of which columns are directions."""
    a = systems.squared("expm_cond", lift(A))
    n = a.shape[-1]
    units = np.reshape(np.eye(n * n, dtype=a.dtype), (n * n, n, n))
    each = np.broadcast_to(a, (n * n, n, n))
    rows = np.concatenate([each, units], -1), np.concatenate([0 * each, each], -1)
    whole = Late("linalg.expm")(np.concatenate(rows, -2))
    by_units = np.reshape(whole[:, :n, n:], (n * n, n * n))
    return np.linalg.svdvals(by_units)[0] * np.linalg.norm(a) / np.linalg.norm(Late("linalg.expm")(a))


# -- matrices of bands and equations of matrices, by systems of full ones


def _of_bands(lower: int, upper: int, bands: Any) -> Any:
    """Return the square matrix of diagonals that are rows: element (i, j) stands at ``bands[upper + i - j, j]``."""
    bands = lift(bands)
    if bands.ndim != 2 or shape_of(bands)[0] != lower + upper + 1:
        raise ShapeError(f"(l, u) = {lower, upper} bands are {lower + upper + 1} rows, not {shape_of(bands)}")
    n = bands.shape[-1]
    rows = np.arange(n)
    return sum([np.where(rows[:, None] - rows == k, bands[upper + k], 0) for k in range(-upper, lower + 1)])


def _of_half(bands: Any, *, lower: bool) -> Any:
    """Return the triangle that is given by its diagonals."""
    rows = shape_of(lift(bands))[0] - 1
    return _of_bands(rows, 0, bands) if lower else _of_bands(0, rows, bands)


def _symmetric(half: Any) -> Any:
    return half + np.swapaxes(half, -1, -2) - _diagonal(half)


def _sylvester(a: Any, b: Any, q: Any) -> Any:
    """Solve ``a x + x b = q``."""
    a, b, q = lift(a), lift(b), lift(q)
    n, m = a.shape[-1], b.shape[-1]
    both = np.kron(a, np.eye(m, dtype=b.dtype)) + np.kron(np.eye(n, dtype=a.dtype), b.T)
    return np.reshape(systems.solve(both, np.ravel(q)), (n, m))


def _expm_frechet(a: Any, e: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    """Return the exponential and its derivative in a direction: blocks of the exponential of a matrix of blocks."""
    a, e = lift(a), lift(e)
    n = a.shape[0]
    whole = np.concatenate([np.concatenate([a, e], 1), np.concatenate([np.zeros_like(a), a], 1)])
    found = Late("linalg.expm")(whole)
    return (found[:n, :n], found[:n, n:]) if compute_expm else found[:n, n:]


def _eigen(full: Any, select: Any, *, values_alone: bool) -> Any:
    if select not in {"a", "all", 0}:
        raise UnsupportedError("eigenvalues of a matrix of bands with select=", instead="all of them, sliced")
    return eigh(full, eigvals_only=values_alone)


def _tridiagonal(d: Any, e: Any) -> Any:
    return np.diag(lift(d)) + np.diag(lift(e), 1) + np.diag(lift(e), -1)


def _turned(a: Any) -> tuple[Any, Any]:
    """Return the cosine and the sine: the exponential of [[0, -A], [A, 0]] has them as its blocks."""
    a = systems.squared("cosm", lift(a))
    n, zero = a.shape[-1], np.zeros_like(a)
    whole = Late("linalg.expm")(np.concatenate([np.concatenate([zero, -a], 1), np.concatenate([a, zero], 1)]))
    return whole[:n, :n], whole[n:, :n]


_OF_FULL: dict[str, Any] = {
    "solve_banded": lambda l_and_u, ab, b, *_, **__: systems.solve(_of_bands(l_and_u[0], l_and_u[1], ab), lift(b)),
    "solveh_banded": lambda ab, b, overwrite_ab=False, overwrite_b=False, lower=False, *_, **__: systems.solve(
        _symmetric(_of_half(ab, lower=lower)), lift(b)),
    "cho_solve_banded": lambda cb_and_lower, b, *_, **__: systems.cho_solve(
        (_of_half(cb_and_lower[0], lower=cb_and_lower[1]), cb_and_lower[1]), b),
    "matmul_toeplitz": lambda c_or_cr, x, *_, **__: np.matmul(
        toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr), lift(x)),
    "solve_sylvester": _sylvester,
    "solve_continuous_lyapunov": lambda a, q: _sylvester(a, lift(a).T, q),
    "solve_lyapunov": lambda a, q: _sylvester(a, lift(a).T, q),
    "expm_frechet": _expm_frechet,
    "eig_banded": lambda a_band, lower=False, eigvals_only=False, overwrite_a_band=False, select="a", *_, **__: _eigen(
        _symmetric(_of_half(a_band, lower=lower)), select, values_alone=eigvals_only),
    "eigvals_banded": lambda a_band, lower=False, overwrite_a_band=False, select="a", *_, **__: _eigen(
        _symmetric(_of_half(a_band, lower=lower)), select, values_alone=True),
    "eigh_tridiagonal": lambda d, e, eigvals_only=False, select="a", *_, **__: _eigen(
        _tridiagonal(d, e), select, values_alone=eigvals_only),
    "eigvalsh_tridiagonal": lambda d, e, select="a", *_, **__: _eigen(_tridiagonal(d, e), select, values_alone=True),
    "cosm": lambda A: _turned(A)[0], "sinm": lambda A: _turned(A)[1], "tanm": lambda A: systems.solve(*_turned(A)),
    "pinvh": lambda a, atol=None, rtol=None, lower=True, return_rank=False, *_, **__: pinv(
        _symmetric(np.tril(lift(a)) if lower else np.triu(lift(a))), atol=atol, rtol=rtol, return_rank=return_rank),
}
for _name, _answer in _OF_FULL.items():
    answers(Late(f"linalg.{_name}"))(_answer)


@answers(Late("linalg.cholesky_banded"))
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """As `scipy.linalg.cholesky_banded`: the factor's diagonals, as those of the matrix are given."""
    bands = lift(ab)
    factor = np.linalg.cholesky(_symmetric(_of_half(bands, lower=lower)))
    n, count = bands.shape[-1], shape_of(bands)[0]
    if lower:  # what is no element of the matrix stays as it was
        return np.stack([np.concatenate([np.diagonal(factor, -k), bands[k, n - k :]]) for k in range(count)])
    return np.stack([np.concatenate([bands[count - 1 - k, :k], np.diagonal(factor, -k)]) for k in range(count)][::-1])

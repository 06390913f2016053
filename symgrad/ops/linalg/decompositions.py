"""Eigenvalues of symmetric matrices, singular values, orthonormal columns, and what pseudo-inverses solve.

As with `lu`, a decomposition is one operation that nothing is differentiated through: its rows are the vectors, each
with its value behind it. What is meant by its parts are functions of the matrix that take it as known, with rules of
the matrix; so a value and its derivatives of every order decompose once.

The signs of vectors are free. In the interpreter and in C, of each vector the first element that is not much smaller
than the largest is positive. Columns of Q have LAPACK's signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import LinAlgError
from symgrad.ir.index import regions
from symgrad.ir.index.notation import Access, Axis, Body, How, Routine, Statement, Temporary, axes_of
from symgrad.ir.index.shapes import simplified
from symgrad.ir.node import Node
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import BOOL, OPS, apply, composite, shape_of, structured
from symgrad.ops.linalg.solve import OUT, X, failing, shape_rule, solve_triangular, transposed

SCRATCH = -3

NOT_CONVERGED = {"eigh": "Eigenvalues did not converge", "svd": "SVD did not converge"}

LARGE = 0.77
"""An element so large beside the largest one of a vector says its sign; rounding moves few vectors over this."""

DIVIDED = 96
"""Matrices with so many rows and columns are decomposed by halves: from 80 on svd is faster so, from 96 on eigh."""

EQUAL = 100
"""Values closer than so many roundings of the largest one are taken to be equal: no decomposition tells them apart."""


def _row_signs(rows: Any) -> Any:
    """Return 1 or -1 for each row, by which its first large element is positive."""
    if not rows.shape[-1]:
        return np.ones((*rows.shape[:-1], 1), rows.dtype)
    size = np.abs(rows)
    first = np.argmax(size >= LARGE * np.max(size, -1, keepdims=True), -1, keepdims=True)
    return np.where(np.take_along_axis(rows, first, -1) < 0, -1, 1).astype(rows.dtype)


def _with_scratch(
    node: Node, name: str, rows: Any, wide: Any, work: Any, flags: tuple[int, ...] = (), below: Any = 3,
) -> tuple[Any, Temporary]:
    """Call a routine for each matrix of a batch, with rows of scratch below what it makes."""
    batch = axes_of(node.shape[:-2])
    read = tuple([Axis(word, dim) for word, dim in zip("pq", node.inputs[X].shape[-2:], strict=True)])
    scratch = (simplified(rows + below), wide)
    written = tuple([Axis(word, dim) for word, dim in zip("rc", scratch, strict=True)])
    call = Statement(
        Access(SCRATCH, (*batch, *written)), How.CALL, Access(X, (*batch, *read)), batch, node.line,
        routine=Routine(name, read, read, written, work, flags))
    return call, Temporary((*node.shape[:-2], *scratch), node.dtype)


def _decomposed(node: Node) -> Body:
    """Decompose, and fail where the routine left a value that is NaN."""
    (m, n), (rows, wide) = node.inputs[X].shape[-2:], node.shape[-2:]
    is_small = type(rows) is int and rows < DIVIDED
    name, flags, below = ("", (), 3) if is_small else ("_divided", (DIVIDED,), 3 * rows + 7)
    call, scratch = _with_scratch(node, f"sg_{node.op.name}{name}", rows, wide, 9 * m * n * rows, flags, below)
    axes, own = axes_of(node.shape), axes_of(node.shape[:-1])
    out = Statement(Access(OUT, axes), How.SET, Access(SCRATCH, axes), axes, node.line)
    value = Access(OUT, (*own, simplified(node.shape[-1] - 1)))
    check = failing(node, apply("isnan", node.dtype, value, dtype=BOOL), own, NOT_CONVERGED[node.op.name])
    return Body((call, out, *check), (Temporary((), node.dtype), scratch))


def _by_triangle(x: Any) -> Any:
    """Put the cotangent of a symmetric matrix on the lower triangle, which alone is read."""
    return np.tril(x) + np.tril(x, -1)


def _limit_quotient(x: Any, slope: Any, chosen: Any, values: Any, gap: Callable[[Any], Any]) -> Any:
    """Divide by differences, or sums, of values: where these are equal, return what the quotient goes to.

    A function that does not depend on which vectors there are of equal values has an x that is 0 where they are equal,
    and so a limit, which is the quotient of slopes along any direction that draws the values apart (de l'Hopital). It
    holds there alone: its own derivative is infinite or NaN.

    Args:
        x: what is divided.
        slope: its derivative along `_steps` of the values; None where it does not depend on them: then the limit is 0.
        chosen: where the limit is NaN, or None.
        values: the values.
        gap: makes what is divided by of values, or of steps.
    """
    apart, turn = gap(values), gap(_apart_by_ones(values))
    near = np.abs(apart) <= EQUAL * np.finfo(values.dtype).eps * largest(np.abs(values))[..., None]
    found, limit = x / np.where(near, 1 + 0 * apart, apart), 0 * x
    if slope is not None:
        whole = np.sum(values, -1, keepdims=True)[..., None]
        again = 1 + np.sqrt(whole - OPS["stop_gradient"](whole))
        limit = np.where(turn == 0, limit, again * slope / np.where(turn == 0, 1 + 0 * turn, turn))
    if chosen is not None:
        limit = limit * np.where(chosen, np.nan, 1.0).astype(values.dtype)
    return np.where(near, limit, found)


def _is_chosen(x: Any, probe: Any) -> Any:
    """Whether what leaves a program depends on the choice of vectors: x, made of a probe, is then no rounding."""
    return np.abs(x) > np.sqrt(np.finfo(x.dtype).eps) * np.max(np.abs(probe), axis=(-2, -1), keepdims=True, initial=0)


def _apart_by_ones(values: Any) -> Any:
    """Return a direction that draws values apart: the whole numbers."""
    return np.cumsum(1 + 0 * values, -1)


def _and_steps(values: Any) -> tuple[Any, Any]:
    return values, _apart_by_ones(values)


def _gaps(x: Any) -> Any:
    return x[..., None, :] - x[..., :, None]


def _odd(x: Any) -> Any:
    """Return the antisymmetric part."""
    return 0.5 * (x - transposed(x))


def largest(x: Any) -> Any:
    """Return the largest element of rows of what is not negative; of rows without one, nothing."""
    return x if shape_of(x)[-1] == 0 else np.max(x, -1, keepdims=True, initial=0)


def columns(x: Any, start: Any, count: Any) -> Any:
    """Return some of the last axis; where no count is given, one element without the axis."""
    last = (start,) if count is None else (start, count, 1)
    return OPS["slice"](x, index=(*regions.whole(shape_of(x)[:-1]), last))


# -- eigh


def _converged(name: str, function: Callable[..., Any], a: Any, **options: Any) -> Any:
    """Decompose a matrix, which fails where it or what it comes to is not finite."""
    try:
        found = function(a, **options)
    except np.linalg.LinAlgError:
        raise LinAlgError(NOT_CONVERGED[name]) from None
    if not all(np.all(np.isfinite(x)) for x in (np.tril(a) if name == "eigh" else a, *found)):
        raise LinAlgError(NOT_CONVERGED[name])
    return found


def _eigh_value(a: Any) -> Any:
    values, vectors = _converged("eigh", np.linalg.eigh, a)
    rows = transposed(vectors)
    return np.concatenate([rows * _row_signs(rows), values[..., None]], -1)


def _drawn_apart(a: Any) -> Any:
    """Draw the values of a matrix apart."""
    m, n = shape_of(a)[-2:]
    return np.sin(a) + np.asarray(3 * np.eye(m, n) * np.arange(1, n + 1), a.dtype)


def _vectors_squared(a: Any) -> Any:
    return np.linalg.eigh(_drawn_apart(a))[1] ** 2


def _eigenvalues(a: Any) -> Any:
    return np.linalg.eigvalsh(_drawn_apart(a))


eigh = structured(
    name="eigh", infer=shape_rule("eigh", "(n,n)->(n,n+1)"), evaluate=_eigh_value, body=_decomposed, stacked=True,
    sample=(case(_vectors_squared, (3, 3)), case(_vectors_squared, (3, 5, 5)), case(_eigenvalues, (9, 9))),
    edges=(case(_vectors_squared, (0, 0)), case(_vectors_squared, (0, 2, 2)), case(_vectors_squared, (1, 1)),
           case(lambda a: np.linalg.eigvalsh(a * 0 + np.eye(4, dtype=a.dtype)), (4, 4))),
    doc="The eigenvectors of a symmetric matrix, of which the lower triangle is read, as rows with their eigenvalues.",
)


@composite(name="eigenvalues", infer=shape_rule("eigh", "(n,n),(n,n+1)->(n)"), determined=(1,), stacked=True,
           sample=(case(_eigenvalues, (3, 3)), case(lambda a: np.linalg.eigvalsh(_drawn_apart(a), "U"), (2, 4, 4))),
           edges=(case(np.linalg.eigvalsh, (0, 0)), case(np.linalg.eigvalsh, (1, 1))))
def eigenvalues(a: Any, known: Any) -> Any:
    """The eigenvalues of a symmetric matrix of which the decomposition is known."""
    return columns(known, shape_of(a)[-1], None)


@eigenvalues.rule
def _(g: Any, y: Any, a: Any, known: Any) -> Any:
    v = eigenvectors(a, known)
    return _by_triangle(np.matmul(v * g[..., None, :], transposed(v))), None


@composite(name="eigenvectors", infer=shape_rule("eigh", "(n,n),(n,n+1)->(n,n)"), determined=(1,), stacked=True,
           sample=(case(_vectors_squared, (2, 2)), case(_vectors_squared, (9, 3, 3))),
           edges=(case(_vectors_squared, (0, 0)), case(_vectors_squared, (1, 1))))
def eigenvectors(a: Any, known: Any) -> Any:
    """The eigenvectors of a symmetric matrix of which the decomposition is known, as columns."""
    return transposed(columns(known, 0, shape_of(a)[-1]))


@eigenvectors.rule
def _(g: Any, y: Any, a: Any, known: Any, *, slope: Any = None, probe: Any = None) -> Any:
    """From dV = V (F o V' dA V) with F[i, j] = 1 / (w[j] - w[i]).

    M. B. Giles, An extended collection of matrix derivative results for forward and reverse mode AD, 2008.
    """
    inner, turned, probed = [None if x is None else _odd(np.matmul(transposed(y), x)) for x in (g, slope, probe)]
    chosen = None if probe is None else _is_chosen(probed, probe)
    inner = _limit_quotient(inner, turned, chosen, eigenvalues(a, known), _gaps)
    return _by_triangle(np.matmul(np.matmul(y, inner), transposed(y))), None
eigenvectors.equals = lambda a, known: _and_steps(eigenvalues(a, known))


# -- svd


def _svd_value(a: Any) -> Any:
    u, s, v = _converged("svd", np.linalg.svd, a, full_matrices=False)
    signs = _row_signs(transposed(u))
    return np.concatenate([signs * transposed(u), signs * v, s[..., None]], -1)


def _singular_squared(a: Any) -> Any:
    u, s, v = np.linalg.svd(_drawn_apart(a), full_matrices=False)
    return (u**2 * s[..., None, :]) @ v**2


def _values(a: Any) -> Any:
    return np.linalg.svd(_drawn_apart(a), compute_uv=False)


svd = structured(
    name="svd", infer=shape_rule("svd", "(m,n)->(least,m+n+1)"), evaluate=_svd_value, body=_decomposed, stacked=True,
    sample=(case(_singular_squared, (2, 2)), case(_singular_squared, (2, 5, 3)), case(_singular_squared, (2, 4, 5)),
            case(_values, (9, 9))),
    edges=(case(_singular_squared, (0, 0)), case(_singular_squared, (0, 2, 3)), case(_singular_squared, (1, 1)),
           case(_singular_squared, (0, 3)), case(_values, (4, 1)), case(_values, (1, 4)),
           case(lambda a: np.linalg.svd(a * 0, compute_uv=False), (3, 2))),
    doc="The singular vectors of a matrix as rows: the left one, the right one, and the singular value.",
)


@composite(name="singular_values", infer=shape_rule("svd", "(m,n),(least,m+n+1)->(least)"), determined=(1,),
           stacked=True, sample=(case(_values, (3, 3)), case(_values, (2, 5, 3)), case(_values, (2, 6))),
           edges=(case(_values, (0, 2)), case(_values, (1, 1))))
def singular_values(a: Any, known: Any) -> Any:
    """The singular values of a matrix of which the decomposition is known."""
    m, n = shape_of(a)[-2:]
    return columns(known, simplified(m + n), None)


@singular_values.rule
def _(g: Any, y: Any, a: Any, known: Any) -> Any:
    u, v = left_and_right(a, known)
    return np.matmul(transposed(u * g[..., None]), v), None


@composite(name="singular_vectors", infer=shape_rule("svd", "(m,n),(least,m+n+1)->(least,m+n)"), determined=(1,),
           stacked=True, sample=(case(_singular_squared, (5, 5)),),
           edges=(case(_singular_squared, (0, 2)), case(_singular_squared, (1, 1))))
def singular_vectors(a: Any, known: Any) -> Any:
    """The left and right singular vectors of a matrix of which the decomposition is known, as the halves of rows."""
    m, n = shape_of(a)[-2:]
    return columns(known, 0, simplified(m + n))


def left_and_right(a: Any, known: Any, rows: Any = None) -> tuple[Any, Any]:
    """Return left and right singular vectors as rows, or what belongs to each."""
    rows = singular_vectors(a, known) if rows is None else rows
    m, n = shape_of(a)[-2:]
    return columns(rows, 0, m), columns(rows, m, n)


@singular_vectors.rule
def _(g: Any, y: Any, a: Any, known: Any, *, slope: Any = None, probe: Any = None) -> Any:
    """From dU = U K + (I - U U') dA V / S, dV = V K' + (I - V V') dA' U / S.

    With P = U' dA V, its symmetric part E and its antisymmetric part O, K is E / (s[j] - s[i]) + O / (s[i] + s[j]),
    and K' has the other sign before O: the formulas of J. Townsend (Differentiating the Singular Value Decomposition,
    2016) without their differences of squares, so that equal values hurt only what depends on them.
    """
    s, (u, v) = singular_values(a, known), left_and_right(a, known, y)

    def parts(x: Any) -> tuple[Any, ...]:
        """Return of a cotangent what is divided by differences, by sums, and by the values themselves."""
        if x is None:
            return (None,) * 4
        x_u, x_v = left_and_right(a, known, x)
        left, right = np.matmul(u, transposed(x_u)), np.matmul(v, transposed(x_v))
        rest = x_u - np.matmul(transposed(left), u), x_v - np.matmul(transposed(right), v)
        return _odd(left + right), _odd(left - right), *rest

    chosen = [None if x is None else _is_chosen(x, probe) for x in parts(probe)]
    gaps: Any = _gaps, lambda x: x[..., None, :] + x[..., :, None], *[lambda x: x[..., None]] * 2
    made = [
        _limit_quotient(x, turned, choice, s, gap)
        for x, turned, choice, gap in zip(parts(g), parts(slope), chosen, gaps, strict=True)
    ]
    found, rank = np.matmul(made[0] + made[1], v), shape_of(s)[-1]
    found = np.matmul(transposed(u), found if shape_of(a)[-1] == rank else found + made[3])
    return found if shape_of(a)[-2] == rank else found + np.matmul(transposed(made[2]), v), None
singular_vectors.equals = lambda a, known: _and_steps(singular_values(a, known))


# -- pinv_solve


def _pinv(a: Any) -> Any:
    return np.linalg.pinv(_drawn_apart(a))


@composite(name="pinv_solve", params=("trans",), determined=(1, 2), stacked=True, linear=(3,), columns=(3,),
           infer=shape_rule("pinv_solve", "(m,n),(least,m+n+1),(least),(one,c)->(other,c)"),
           sample=(case(_pinv, (9, 3)), case(_pinv, (2, 3, 5)), case(_pinv, (2, 2)),
                   case(lambda a: np.linalg.pinv(_drawn_apart(a[:, :2]) @ _drawn_apart(a[:2]), rcond=1e-5), (9, 9))),
           edges=(case(np.linalg.pinv, (0, 2)), case(np.linalg.pinv, (1, 1))))
def pinv_solve(a: Any, known: Any, inverse: Any, b: Any, *, trans: bool) -> Any:
    """The pseudo-inverse, or its transpose, times columns, with the reciprocals of singular values that count."""
    u, v = left_and_right(a, known, columns(known, 0, simplified(sum(shape_of(a)[-2:]))))
    one, other = (v, u) if trans else (u, v)
    return np.matmul(transposed(other), inverse[..., None] * np.matmul(one, b))


@pinv_solve.rule
def _(g: Any, y: Any, a: Any, known: Any, inverse: Any, b: Any, *, trans: bool) -> Any:
    """From dP = -P dA P + P P' dA' (I - A P) + (I - P A) dA' P' P, at matrices near which the rank is the same.

    It is NaN where singular values are left out that are not 0: a matrix cut to its larger ones is not that one.

    G. H. Golub and V. Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose
    variables separate, SIAM J. Numer. Anal. 10 (1973).
    """
    def solve(x: Any, *, back: bool) -> Any:
        return pinv_solve(a, known, inverse, x, trans=trans != back)

    here = transposed(a) if trans else a
    part = solve(g, back=True)
    found = np.matmul(b - np.matmul(here, y), transposed(solve(part, back=False))) - np.matmul(part, transposed(y))
    rest = g - solve(np.matmul(here, g), back=False)
    found = found + np.matmul(solve(y, back=True), transposed(rest))
    cut = np.any(np.signbit(inverse), -1)[..., None, None]  # see `reciprocals`
    found = found * np.where(cut, np.nan, np.ones((), a.dtype))
    return transposed(found) if trans else found, None, None, part


# -- orthonormal


def _orthonormal_body(node: Node) -> Body:
    (rows, columns), wide = node.inputs[X].shape[-2:], node.shape[-1]
    work, flags = 2 * rows * columns * wide, (int(node.param("complete")),)
    call, scratch = _with_scratch(node, "sg_orthonormal", wide, rows, work, flags)
    axes = axes_of(node.shape)
    turned = Access(SCRATCH, (*axes[:-2], axes[-1], axes[-2]))
    out = Statement(Access(OUT, axes), How.SET, turned, axes, node.line)
    return Body((call, out), (Temporary((), node.dtype), scratch))


def _orthonormal_vjp(g: Any, y: Any, a: Any, *, complete: bool) -> Any:
    """From dQ = Q (L - L') + (I - Q Q') dA / R with L the lower triangle of Q' dA / R, below its diagonal.

    S. F. Walter and L. Lehmann, Algorithmic differentiation of linear algebra functions with application in optimum
    experimental design, 2010. Further columns, of which any basis will do, turn no more than the others make them.
    """
    m, n = shape_of(a)[-2:]
    q, g_q = columns(y, 0, n), columns(g, 0, n)
    inner = np.matmul(transposed(q), g_q)
    found = g_q + np.matmul(q, np.tril(inner - transposed(inner), -1) - inner)
    if complete and m != n:
        rest, g_rest = [columns(x, n, simplified(m - n)) for x in (y, g)]
        found = found - np.matmul(rest, np.matmul(transposed(g_rest), q))
    r = np.triu(np.matmul(transposed(q), a))
    return transposed(solve_triangular(r, transposed(found), lower=False, unit=False, checked=False))


def _orthonormal(mode: Any) -> Any:
    return lambda a: np.linalg.qr(_drawn_apart(a), mode)[0] ** 2


orthonormal = structured(
    name="orthonormal", params=("complete",), infer=shape_rule("qr", "(m,n)->(m,columns)"),
    evaluate=lambda a, complete: np.linalg.qr(a, "complete" if complete else "reduced")[0],
    body=_orthonormal_body, vjp=_orthonormal_vjp, stacked=True,
    sample=(case(_orthonormal("reduced"), (3, 3)), case(_orthonormal("reduced"), (2, 5, 3)),
            case(_orthonormal("reduced"), (9, 9)), case(lambda a: np.linalg.qr(_drawn_apart(a), "r"), (3, 5))),
    edges=(case(_orthonormal("complete"), (0, 0)), case(_orthonormal("complete"), (3, 0)),
           case(_orthonormal("complete"), (0, 3, 2)), case(_orthonormal("reduced"), (1, 1)),
           case(_orthonormal("complete"), (2, 1))),
    doc="The columns of Q of a matrix that is not wider than high: as many as it has, or all.",
)

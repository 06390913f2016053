"""Determinants, by the factors of `lu`, and what they differentiate to: cofactors."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from symgrad.ir.index import regions
from symgrad.ir.index.notation import Access, Body, How, Statement, Temporary, axes_of
from symgrad.ir.index.shapes import simplified
from symgrad.ir.node import Node
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, composite, shape_of, structured
from symgrad.ops.linalg.solve import OUT, X, by_routine, copy_in, lu, lu_solve, shape_rule, transposed
from symgrad.ops.numpy.creation import ones_diagonal

SCRATCH = -2

EXPANDED = range(1, 6)
"""Extents for which cofactors are sums of products; there are n 2^n of these, and n^3 steps with factors."""

def pivots(a: Any, factors: Any) -> tuple[Any, Any]:
    """Return the diagonal of U, and where an exchange of rows changed the determinant's sign."""
    *batch, n, _ = shape_of(a)
    every = regions.whole(batch)
    diagonal = OPS["diagonal"](OPS["slice"](factors, index=(*every, (0, n, 1), (0, n, 1))), offset=0)
    return diagonal, np.not_equal(OPS["slice"](factors, index=(*every, (n,), (0, n, 1))), 0)


_DET = (case(np.linalg.det, (3, 3)), case(np.linalg.det, (2, 4, 4)), case(np.linalg.det, (2, 2)),
        case(np.linalg.det, (1, 1)), case(lambda a: np.linalg.det(a + np.eye(9, dtype=a.dtype)), (9, 9)))
_SINGULAR = (case(np.linalg.det, (0, 0)), case(np.linalg.det, (0, 5, 5)),
             case(lambda a: np.linalg.det(a * np.arange(5.0)[:, None]), (5, 5)))


@composite(
    name="det", infer=shape_rule("det", "(n,n),(n+1,n)->()"), determined=(1,), stacked=True, sample=_DET,
    edges=_SINGULAR,
)
def det(a: Any, factors: Any) -> Any:
    """The determinant of a matrix of which the factors are known."""
    return sign(a, factors) * np.exp(logabsdet(a, factors))


@det.rule
def _(g: Any, y: Any, a: Any, factors: Any) -> Any:
    found = expanded_cofactors(a) if shape_of(a)[-1] in EXPANDED else cofactors(a, factors)
    return g[..., None, None] * found, None


def expanded_cofactors(a: Any) -> Any:
    """Return the cofactors of small matrices as polynomials, which have derivatives of every order, whatever the rank.

    Laplace's expansion: without row i and column j, products of minors of the rows above and of the rows below.
    """
    n = shape_of(a)[-1]
    if n == 1:
        return np.ones_like(a)
    above, below = _minors(a, range(n - 1)), _minors(a, range(n - 1, 0, -1))
    cofactor = {}
    for i, j in np.ndindex(n, n):
        pairs = [(high, _others(high, j, n)) for high in above[i] if j not in high]
        cofactor[i, j] = _signed_sum([((*high, j, *low), above[i][high], below[n - 1 - i][low]) for high, low in pairs])
    return np.stack([np.stack([cofactor[i, j] for j in range(n)], -1) for i in range(n)], -2)


def _minors(a: Any, rows: range) -> list[dict[tuple[int, ...], Any]]:
    """Return the minors of the first k rows, for each k, by their columns; one without rows is None."""
    n = shape_of(a)[-1]
    found: list[dict[tuple[int, ...], Any]] = [{(): None}]
    for k, row in enumerate(rows, 1):
        minors = {}
        for columns in combinations(range(n), k):
            rests = [(j, tuple([c for c in columns if c != j])) for j in columns]
            orders = [(*rest, j) if rows.step > 0 else (j, *rest) for j, rest in rests]
            values = [(a[..., row, j], found[-1][rest]) for j, rest in rests]
            minors[columns] = _signed_sum([(order, *pair) for order, pair in zip(orders, values, strict=True)])
        found.append(minors)
    return found


def _others(columns: tuple[int, ...], column: int, n: int) -> tuple[int, ...]:
    return tuple([c for c in range(n) if c != column and c not in columns])


def _signed_sum(terms: list[tuple[tuple[int, ...], Any, Any]]) -> Any:
    """Add products, each with the sign of a permutation."""
    total: Any = None
    for order, x, y in terms:
        product = y if x is None else x if y is None else x * y
        odd = sum([one > other for one, other in combinations(order, 2)]) % 2
        signed = -product if odd else product
        total = signed if total is None else total + signed
    return total


def sign(a: Any, factors: Any) -> Any:
    """Return the determinant's sign: 0 where a pivot is 0."""
    diagonal, exchanged = pivots(a, factors)
    one = np.ones((), diagonal.dtype)
    signs = np.where(diagonal == 0, 0 * one, np.where(np.not_equal(diagonal < 0, exchanged), -one, one))
    return np.prod(signs, -1)


@composite(name="logabsdet", infer=shape_rule("det", "(n,n),(n+1,n)->()"), determined=(1,), stacked=True,
           edges=(case(lambda a: np.linalg.slogdet(a)[1], (0, 0)),),
           sample=(case(lambda a: np.linalg.slogdet(a)[1], (3, 3)), case(lambda a: np.linalg.slogdet(a)[1], (2, 5, 5))))
def logabsdet(a: Any, factors: Any) -> Any:
    """The logarithm of the absolute determinant of a matrix of which the factors are known."""
    return np.sum(np.log(np.abs(pivots(a, factors)[0])), -1)


@logabsdet.rule
def _(g: Any, y: Any, a: Any, factors: Any) -> Any:
    unit = ones_diagonal(a, shape_of(a)[-1], shape_of(a)[:-2], a.dtype)
    return g[..., None, None] * lu_solve(a, factors, unit, trans=True, checked=False), None


# -- cofactors


def _cofactors_value(a: Any, factors: Any) -> Any:
    """Return det U det V U adj(S) V' of the singular values, for a matrix of any rank."""
    u, s, v = np.linalg.svd(a)
    n = a.shape[-1]
    others = np.where(np.eye(n, dtype=bool), np.ones((), s.dtype), s[..., None, :]).prod(-1)
    turn = np.linalg.det(u) * np.linalg.det(v)
    return np.asarray(turn[..., None, None] * np.matmul(u * others[..., None, :], v), a.dtype)


def _cofactors_body(node: Node) -> Body:
    n = node.shape[-1]
    shape = (*node.shape[:-2], simplified(n + 4), n)
    axes = axes_of(node.shape)
    back = Statement(Access(OUT, axes), How.SET, Access(SCRATCH, axes), axes, node.line)
    made = by_routine(node, "sg_cofactors", 1, n**3, target=SCRATCH)
    return Body((copy_in(node, X, SCRATCH), made, back), (Temporary(shape, node.dtype),))


LAST = 3
"""So many rows and columns are set apart: what is left has derivatives of any order at ranks from n - 3 on."""


def _cofactors_vjp(g: Any, y: Any, a: Any, factors: Any) -> Any:
    """Differentiate along g: second derivatives of a determinant are symmetric, so this is the cotangent, too.

    The rows and columns that elimination comes to last are set apart, so that a singular matrix need not be singular
    without them. M is that, with ones where they meet; B is the inverse of that, S the 3 x 3 that elimination leaves,
    and K its cofactors. So ``det A = det M det S``, and with what takes the others out of A from the left and from
    the right, L and R, its cofactors are ``det M (det S B' + L K R)``.
    """
    r, c, core, sure = _set_apart(a)
    found, meet = lu(core), np.matmul(transposed(r), c)
    unit = ones_diagonal(a, shape_of(a)[-1], shape_of(a)[:-2], a.dtype)
    b = lu_solve(core, found, unit, trans=True, checked=False) - meet
    low, right, corner = np.matmul(r, a), np.matmul(a, transposed(c)), np.matmul(np.matmul(r, a), transposed(c))
    low, right = low - np.matmul(corner, c), right - np.matmul(transposed(r), corner)
    from_left = transposed(r) - lu_solve(core, found, transposed(low), trans=True, checked=False)
    taken = lu_solve(core, found, right, trans=False, checked=False)
    from_right = c - transposed(taken)
    s = corner - np.matmul(low, taken) + np.eye(LAST, dtype=a.dtype) - np.matmul(r, transposed(r))
    ds = np.matmul(np.matmul(transposed(from_left), g), transposed(from_right))
    k, dk = _of_three(s, s) / 2, _of_three(s, ds)
    det_s, det_ds = np.sum(s[..., :1, :] * k[..., :1, :], (-2, -1), keepdims=True), _inner(k, ds)
    left = np.matmul(from_left, _inner(b, g) * k + dk) - np.matmul(np.matmul(b, np.matmul(transposed(g), from_left)), k)
    whole = (_inner(b, g) * det_s + det_ds) * b - det_s * np.matmul(np.matmul(b, transposed(g)), b)
    whole = whole + np.matmul(left, from_right)
    whole = whole - np.matmul(np.matmul(from_left, k), np.matmul(np.matmul(from_right, transposed(g)), b))
    regular = np.all(pivots(core, found)[0] != 0, -1)[..., None, None]
    whole = np.where(regular, det(core, found)[..., None, None] * whole, 0 * g)
    # Where M is singular but for rounding, this is right, as det M is next to nothing, but what it differentiates to
    # is not: a root of 0, with its slope, makes that NaN or infinite.
    total = np.sum(a, (-2, -1), keepdims=True)
    return whole + np.where(sure, 0 * g, g * np.sqrt(total - OPS["stop_gradient"](total))), None


def _set_apart(a: Any) -> tuple[Any, Any, Any, Any]:
    """Select the last rows and columns; return that, the matrix without them, and if that is surely not singular."""
    order = pivot_order(a)
    sure, rows, columns = [order[..., k : k + 1, :] for k in range(3)]
    places, one = np.arange(LAST, dtype=a.dtype)[::-1, None], np.ones((), a.dtype)
    r, c = [np.where(np.equal(left, places), one, 0 * one) for left in (rows, columns)]
    inside = (transposed(rows) >= LAST) & (columns >= LAST)
    core = np.where(inside, a, 0 * one) + np.matmul(transposed(r), c)
    return r, c, core, np.all((sure == 1) | (rows < LAST), (-2, -1), keepdims=True)


def _of_three(s: Any, t: Any) -> Any:
    """Return the derivative of the cofactors of 3 x 3 matrices s along t: twice the cofactors, where that is s."""
    (s0, s1), (t0, t1) = [[[np.roll(x, (-i, -j), (-2, -1)) for j in (1, 2)] for i in (1, 2)] for x in (s, t)]
    return s0[0] * t1[1] + t0[0] * s1[1] - s0[1] * t1[0] - t0[1] * s1[0]


def _inner(x: Any, y: Any) -> Any:
    return np.sum(x * y, (-2, -1), keepdims=True)


def _order_value(a: Any) -> Any:
    n, a = a.shape[-1], np.asarray(a, np.result_type(a.dtype, np.float32))
    out = np.zeros((*a.shape[:-2], 3, n), a.dtype)
    for place in np.ndindex(a.shape[:-2]):
        left, rows, columns = a[place].copy(), np.arange(n), np.arange(n)
        for k in range(n):
            size = np.abs(left[k:, k:])
            high, far = np.add(np.unravel_index(np.argmax(np.where(size > size[0, 0], size, 0)), size.shape), k)
            rows[[k, high]], columns[[k, far]] = rows[[high, k]], columns[[far, k]]
            left[[k, high]] = left[[high, k]]
            left[:, [k, far]] = left[:, [far, k]]
            if left[k, k] == 0:
                break
            out[place][0, rows[k]] = abs(left[k, k]) > n * np.finfo(a.dtype).eps * abs(left[0, 0])
            left[k + 1 :, k + 1 :] -= np.outer(left[k + 1 :, k] / left[k, k], left[k, k + 1 :])
        out[place][1, rows], out[place][2, columns] = np.arange(n)[::-1], np.arange(n)[::-1]
    return out


def _order_body(node: Node) -> Body:
    n, axes = node.shape[-1], axes_of(node.shape)
    below = Access(SCRATCH, (*axes[:-2], axes[-2] + simplified(n + 2), axes[-1]))
    made = by_routine(node, "sg_pivots", OUT, n**3, target=SCRATCH)
    back = Statement(Access(OUT, axes), How.SET, below, axes, node.line)
    scratch = Temporary((*node.shape[:-2], simplified(n + 5), n), node.dtype)
    return Body((copy_in(node, X, SCRATCH), made, back), (scratch,))


pivot_order = structured(
    name="pivot_order", infer=shape_rule("det", "(n,n)->(3,n)"), evaluate=_order_value, body=_order_body, nondiff=True,
    sample=tuple([case(lambda a: OPS["pivot_order"](a) ** 2, shape) for shape in ((3, 3), (2, 5, 5), (9, 9))]),
    edges=tuple([case(lambda a: OPS["pivot_order"](a) ** 2, shape) for shape in ((0, 0), (1, 1), (0, 2, 2))]),
    doc="In which rows the pivots of full elimination are sure, and how far from the end they are in rows and columns.",
)


def _by_lu(a: Any) -> Any:
    return cofactors(a, lu(a))


cofactors = structured(
    name="cofactors", infer=shape_rule("det", "(n,n),(n+1,n)->(n,n)"), evaluate=_cofactors_value,
    body=_cofactors_body, vjp=_cofactors_vjp, determined=(1,), stacked=True,
    sample=(case(_by_lu, (3, 3)), case(_by_lu, (2, 4, 4)), case(_by_lu, (2, 2))),
    edges=(case(_by_lu, (0, 0)), case(_by_lu, (1, 1)), case(lambda a: _by_lu(a * np.arange(3.0)), (3, 3))),
    doc="The cofactors of a matrix of which the factors are known: the derivative of its determinant.",
)

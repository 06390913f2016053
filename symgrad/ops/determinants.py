"""Determinants, by the factors of `lu`, and what they differentiate to: cofactors."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.notation import Access, Body, Statement, Temporary, axes_of
from symgrad.ir.shapes import simplified
from symgrad.ops.declare import OPS, composite, shape_of, structured
from symgrad.ops.diagonals import ones_diagonal
from symgrad.ops.domains import case
from symgrad.ops.linalg import OUT, X, call, copied, lu, lu_solve, square, turned

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Shape

SCRATCH = -2

EXPANDED = range(1, 6)
"""Extents for which cofactors are sums of products; there are n 2^n of these, and n^3 steps with factors."""

def _by_factors_infer(a: Node, factors: Node) -> tuple[Shape, Any]:  # noqa: ARG001
    square(a, "det")
    return a.shape[:-2], a.dtype


def pivots(a: Any, factors: Any) -> tuple[Any, Any]:
    """Return the diagonal of U, and where an exchange of rows changed the determinant's sign."""
    *batch, n, _ = shape_of(a)
    every = tuple([(0, d, 1) for d in batch])
    diagonal = OPS["diagonal"](OPS["slice"](factors, index=(*every, (0, n, 1), (0, n, 1))), offset=0)
    return diagonal, np.not_equal(OPS["slice"](factors, index=(*every, (n,), (0, n, 1))), 0)


_DET = (case(np.linalg.det, (3, 3)), case(np.linalg.det, (2, 4, 4)), case(np.linalg.det, (2, 2)),
        case(np.linalg.det, (1, 1)), case(lambda a: np.linalg.det(a + np.eye(9, dtype=a.dtype)), (9, 9)))
_SINGULAR = (case(np.linalg.det, (0, 0)), case(np.linalg.det, (0, 5, 5)),
             case(lambda a: np.linalg.det(a * np.arange(5.0)[:, None]), (5, 5)))


@composite(name="det", infer=_by_factors_infer, sample=_DET, edges=_SINGULAR)
def det(a: Any, factors: Any) -> Any:
    """The determinant of a matrix of which the factors are known."""
    return sign(a, factors) * np.exp(logabsdet(a, factors))


def _det_vjp(g: Any, y: Any, a: Any, factors: Any) -> Any:  # noqa: ARG001
    found = expanded(a) if shape_of(a)[-1] in EXPANDED else cofactors(a, factors)
    return g[..., None, None] * found, None


det.vjp = _det_vjp


def expanded(a: Any) -> Any:
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
        cofactor[i, j] = _total([((*high, j, *low), above[i][high], below[n - 1 - i][low]) for high, low in pairs])
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
            minors[columns] = _total([(order, *pair) for order, pair in zip(orders, values, strict=True)])
        found.append(minors)
    return found


def _others(columns: tuple[int, ...], column: int, n: int) -> tuple[int, ...]:
    return tuple([c for c in range(n) if c != column and c not in columns])


def _total(terms: list[tuple[tuple[int, ...], Any, Any]]) -> Any:
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


@composite(name="logabsdet", infer=_by_factors_infer, edges=(case(lambda a: np.linalg.slogdet(a)[1], (0, 0)),),
           sample=(case(lambda a: np.linalg.slogdet(a)[1], (3, 3)), case(lambda a: np.linalg.slogdet(a)[1], (2, 5, 5))))
def logabsdet(a: Any, factors: Any) -> Any:
    """The logarithm of the absolute determinant of a matrix of which the factors are known."""
    return np.sum(np.log(np.abs(pivots(a, factors)[0])), -1)


def _logabsdet_vjp(g: Any, y: Any, a: Any, factors: Any) -> Any:  # noqa: ARG001
    unit = ones_diagonal(a, shape_of(a)[-1], shape_of(a)[:-2], a.dtype)
    return g[..., None, None] * lu_solve(a, factors, unit, trans=True, checked=False), None


logabsdet.vjp = _logabsdet_vjp


# -- cofactors


def _cofactors_infer(a: Node, factors: Node) -> tuple[Shape, Any]:  # noqa: ARG001
    square(a, "det")
    return a.shape, a.dtype


def _cofactors_value(a: Any, factors: Any) -> Any:  # noqa: ARG001
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
    back = Statement(Access(OUT, axes), "=", Access(SCRATCH, axes), axes, node.line)
    made = call(node, "sg_cofactors", 1, n**3, target=SCRATCH)
    return Body((copied(node, X, SCRATCH), made, back), (Temporary(shape, node.dtype),))


def _cofactors_vjp(g: Any, y: Any, a: Any, factors: Any) -> Any:
    """Of C = det A A'^-1: (<g, C> C - C g' C) / det A; where A is singular, not finite."""
    inner = np.sum(g * y, (-2, -1))[..., None, None]
    whole = inner * y - np.matmul(np.matmul(y, turned(g)), y)
    return whole / det(a, factors)[..., None, None], None


def _of(a: Any) -> Any:
    return cofactors(a, lu(a))


cofactors = structured(
    name="cofactors", infer=_cofactors_infer, evaluate=_cofactors_value, body=_cofactors_body, vjp=_cofactors_vjp,
    sample=(case(_of, (3, 3)), case(_of, (2, 5, 5)), case(_of, (2, 2))),
    edges=(case(_of, (0, 0)), case(_of, (1, 1)), case(lambda a: _of(a * np.arange(3.0)), (3, 3))),
    doc="The cofactors of a matrix of which the factors are known: the derivative of its determinant.",
)

"""Cholesky factors, and what they differentiate to: a pullback and a pushforward, each other's transposes.

The factor L of A has the tangent X for which S(L, X), the lower triangle of X L' + L X', is that of the tangent of A.
S is linear in L, too: so the derivatives by L of the pushforward, X, and of the pullback are a product of triangles and
the other one of the two; derivatives of every order cost a few times the factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import LinAlgError
from symgrad.ir.index.notation import Body, Temporary
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, structured
from symgrad.ops.linalg.solve import (
    OUT,
    by_routine,
    copy_in,
    failing_where,
    fraction,
    shape_rule,
    solve_triangular,
    transposed,
)

NOT_POSITIVE = "Matrix is not positive definite"


# -- cholesky


def _cholesky_value(a: Any) -> Any:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        raise LinAlgError(NOT_POSITIVE) from None


def _cholesky_body(node: Node) -> Body:
    made = by_routine(node, "sg_cholesky", OUT, fraction(node.shape[-1] ** 3, 6))
    check = failing_where(node, OUT, node.shape, "less", NOT_POSITIVE)
    return Body((copy_in(node), made, *check), (Temporary((), node.dtype),))


def _definite(a: Any) -> Any:
    """Make a positive definite matrix of any, and factorize it."""
    return np.linalg.cholesky(np.matmul(a, transposed(a)) + 2 * np.eye(a.shape[-1], dtype=a.dtype))


cholesky = structured(
    name="cholesky", infer=shape_rule("cholesky", "(n,n)->(n,n)"), evaluate=_cholesky_value, body=_cholesky_body,
    stacked=True, vjp=lambda g, y, a: OPS["cholesky_pullback"](y, g),
    sample=(case(_definite, (3, 3)), case(_definite, (2, 4, 4)), case(_definite, (1, 1)),
            case(lambda a: np.linalg.cholesky(a + transposed(a) + 50 * np.eye(9), upper=True) ** 2, (9, 9))),
    edges=(case(_definite, (0, 0)), case(_definite, (0, 2, 2)),
           case(lambda a: np.linalg.cholesky(np.where(np.tri(3) > 0, a + 9 * np.eye(3), np.nan)), (3, 3))),
    doc="The lower triangle L with positive diagonal for which L L' is a matrix, of which the lower triangle is read.",
)


# -- pullback and pushforward


FACTOR = shape_rule("cholesky", "(n,n),(n,n)->(n,n)")


def _phi(x: Any) -> Any:
    """Return the lower triangle with half of the diagonal."""
    return (np.tril(x) + np.tril(x, -1)) * np.asarray(0.5, x.dtype)


def of_two_matrices(draw: Callable[..., Any]) -> dict[str, Any]:
    """List what an op of two matrices of one shape is tried on."""
    def cases(*each: Shape) -> tuple[Any, ...]:
        return tuple([case(draw, shape, shape) for shape in each])

    return {"sample": cases((3, 3), (2, 4, 4), (9, 9)), "edges": cases((0, 0), (0, 2, 2), (1, 1))}


def _with_factor(name: str, transpose: str, value: Callable[..., Any], doc: str) -> Any:
    """Declare a linear function of a matrix, of which the factor is known, by the name of its transpose."""

    def vjp(g: Any, y: Any, low: Any, _: Any) -> Any:
        part = OPS[transpose](low, g)
        pair = (y, part) if name == "cholesky_pullback" else (part, y)
        return np.negative(symmetric_product(*pair)), part

    return structured(
        name=name, infer=FACTOR, evaluate=value, vjp=vjp, stacked=True, linear=(1,), doc=doc,
        body=lambda node: Body((copy_in(node, 1), by_routine(node, f"sg_{name}", 0, fraction(node.shape[-1] ** 3, 3)))),
        **of_two_matrices(lambda low, x: OPS[name](np.tril(low) + 4 * np.eye(low.shape[-1], dtype=low.dtype), x)),
    )


def _pullback_value(y: Any, g: Any) -> Any:
    """Return of L^-T Phi(L^T g) L^-1 and its mirror image the lower triangle.

    I. Murray, Differentiation of the Cholesky decomposition, 2016, arXiv:1602.07527: of what is read, which is the
    lower triangle, so that an element beside the diagonal has what belongs to both of its places.
    """
    low = np.tril(y)
    middle = _phi(np.matmul(transposed(low), np.tril(g)))
    left = solve_triangular(transposed(low), middle, lower=False, unit=False, checked=False)
    whole = solve_triangular(transposed(low), transposed(left), lower=False, unit=False, checked=False)
    return np.tril(whole) + np.tril(transposed(whole), -1)


cholesky_pullback = _with_factor(
    "cholesky_pullback", "cholesky_pushforward", _pullback_value,
    doc="The cotangent of the lower triangle of a matrix of which the Cholesky factor and its cotangent are known.",
)


def _pushforward_value(low: Any, a: Any) -> Any:
    """Return L Phi(L^-1 A L^-T), for the symmetric A of which the lower triangle is given."""
    low = np.tril(low)
    half = solve_triangular(low, np.tril(a) + transposed(np.tril(a, -1)), lower=True, unit=False, checked=False)
    middle = solve_triangular(low, transposed(half), lower=True, unit=False, checked=False)
    return np.asarray(np.matmul(low, _phi(middle)))


cholesky_pushforward = _with_factor(
    "cholesky_pushforward", "cholesky_pullback", _pushforward_value,
    doc="The tangent of a Cholesky factor that is known, of the tangent of the matrix's lower triangle.",
)


# -- symmetric_product


def _symmetric_vjp(g: Any, y: Any, w: Any, x: Any) -> Any:
    outer = np.matmul(np.tril(x), transposed(np.tril(g)))
    return np.tril(outer + transposed(outer)), symmetric_product(w, g)


symmetric_product = structured(
    name="symmetric_product", infer=FACTOR,
    evaluate=lambda w, x: np.tril(np.matmul(np.tril(w) + transposed(np.tril(w)), np.tril(x))),
    body=lambda node: Body((
        copy_in(node, 0), by_routine(node, "sg_symmetric_product", 1, fraction(node.shape[-1] ** 3, 3)))),
    vjp=_symmetric_vjp, stacked=True, linear=(0, 1),
    **of_two_matrices(lambda w, x: OPS["symmetric_product"](w, x) ** 2),
    doc="The lower triangle of (W + W') X, for the lower triangles W and X of two matrices.",
)

"""Cholesky factors, and what they differentiate to: a pullback and a pushforward, each other's transposes.

The factor L of A has the tangent X for which S(L, X), the lower triangle of X L' + L X', is that of the tangent of A.
S is linear in L, too: so the derivatives by L of the pushforward, X, and of the pullback are a product of triangles and
the other one of the two; derivatives of every order cost a few times the factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import DtypeError, LinAlgError, ShapeError
from symgrad.ir import shapes
from symgrad.ir.notation import Body, Temporary
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, structured
from symgrad.ops.linalg.solve import OUT, call, checks, copied, fraction, solve_triangular, square, turned

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Shape

NOT_POSITIVE = "Matrix is not positive definite"


# -- cholesky


def _cholesky_infer(a: Node) -> tuple[Shape, Any]:
    square(a, "cholesky")
    return a.shape, a.dtype


def _cholesky_value(a: Any) -> Any:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        raise LinAlgError(NOT_POSITIVE) from None


def _cholesky_body(node: Node) -> Body:
    made = call(node, "sg_cholesky", OUT, fraction(node.shape[-1] ** 3, 6))
    check = checks(node, OUT, node.shape, "less", NOT_POSITIVE)
    return Body((copied(node), made, *check), (Temporary((), node.dtype),))


def _cholesky_vjp(g: Any, y: Any, a: Any) -> Any:  # noqa: ARG001
    return cholesky_pullback(y, g)


def _definite(a: Any) -> Any:
    """Make a positive definite matrix of any, and factorize it."""
    return np.linalg.cholesky(np.matmul(a, turned(a)) + 2 * np.eye(a.shape[-1], dtype=a.dtype))


cholesky = structured(
    name="cholesky", infer=_cholesky_infer, evaluate=_cholesky_value, body=_cholesky_body, vjp=_cholesky_vjp,
    stacked=True,
    sample=(case(_definite, (3, 3)), case(_definite, (2, 4, 4)), case(_definite, (1, 1)),
            case(lambda a: np.linalg.cholesky(a + turned(a) + 50 * np.eye(9), upper=True) ** 2, (9, 9))),
    edges=(case(_definite, (0, 0)), case(_definite, (0, 2, 2)),
           case(lambda a: np.linalg.cholesky(np.where(np.tri(3) > 0, a + 9 * np.eye(3), np.nan)), (3, 3))),
    doc="The lower triangle L with positive diagonal for which L L' is a matrix, of which the lower triangle is read.",
)


# -- cholesky_pullback


def _pullback_infer(y: Node, g: Node) -> tuple[Shape, Any]:
    square(y, "cholesky")
    if g.shape != y.shape:
        raise ShapeError(f"cholesky: a factor {shapes.show(y.shape)} and a derivative {shapes.show(g.shape)}")
    return y.shape, y.dtype


def _phi(x: Any) -> Any:
    """Return the lower triangle with half of the diagonal."""
    return (np.tril(x) + np.tril(x, -1)) * np.asarray(0.5, x.dtype)


def pairs(draw: Callable[..., Any]) -> dict[str, Any]:
    """List what an op of two matrices of one shape is tried on."""
    def cases(*each: Shape) -> tuple[Any, ...]:
        return tuple([case(draw, shape, shape) for shape in each])

    return {"sample": cases((3, 3), (2, 4, 4), (9, 9)), "edges": cases((0, 0), (0, 2, 2), (1, 1))}


def with_factor(routine: str) -> Callable[[Node], Body]:
    """Give the body of an op whose routine reads a factor and works in a copy of the second matrix."""
    return lambda node: Body((copied(node, 1), call(node, routine, 0, fraction(node.shape[-1] ** 3, 3))))


def _pullback_value(y: Any, g: Any) -> Any:
    """Return of L^-T Phi(L^T g) L^-1 and its mirror image the lower triangle.

    I. Murray, Differentiation of the Cholesky decomposition, 2016, arXiv:1602.07527: of what is read, which is the
    lower triangle, so that an element beside the diagonal has what belongs to both of its places.
    """
    low = np.tril(y)
    middle = _phi(np.matmul(turned(low), np.tril(g)))
    left = solve_triangular(turned(low), middle, lower=False, unit=False, checked=False)
    whole = solve_triangular(turned(low), turned(left), lower=False, unit=False, checked=False)
    return np.tril(whole) + np.tril(turned(whole), -1)


def _pullback_vjp(g: Any, y: Any, low: Any, own: Any) -> Any:  # noqa: ARG001
    pushed = cholesky_pushforward(low, g)
    return np.negative(symmetric_product(y, pushed)), pushed


def _pulled(a: Any, g: Any) -> Any:
    return OPS["cholesky_pullback"](np.tril(a) + 4 * np.eye(a.shape[-1], dtype=a.dtype), g)


cholesky_pullback = structured(
    name="cholesky_pullback", infer=_pullback_infer, evaluate=_pullback_value,
    body=with_factor("sg_cholesky_pullback"), vjp=_pullback_vjp, stacked=True, linear=(1,),
    **pairs(_pulled),
    doc="The cotangent of the lower triangle of a matrix of which the Cholesky factor and its cotangent are known.",
)


# -- cholesky_pushforward


def _pushforward_value(low: Any, a: Any) -> Any:
    """Return L Phi(L^-1 A L^-T), for the symmetric A of which the lower triangle is given."""
    low = np.tril(low)
    half = solve_triangular(low, np.tril(a) + turned(np.tril(a, -1)), lower=True, unit=False, checked=False)
    middle = solve_triangular(low, turned(half), lower=True, unit=False, checked=False)
    return np.asarray(np.matmul(low, _phi(middle)))


def _pushforward_vjp(g: Any, y: Any, low: Any, a: Any) -> Any:  # noqa: ARG001
    pulled = cholesky_pullback(low, g)
    return np.negative(symmetric_product(pulled, y)), pulled


def _pushed(low: Any, a: Any) -> Any:
    return OPS["cholesky_pushforward"](np.tril(low) + 4 * np.eye(low.shape[-1], dtype=low.dtype), a)


cholesky_pushforward = structured(
    name="cholesky_pushforward", infer=_pullback_infer, evaluate=_pushforward_value,
    body=with_factor("sg_cholesky_pushforward"), vjp=_pushforward_vjp, stacked=True, linear=(1,),
    **pairs(_pushed),
    doc="The tangent of a Cholesky factor that is known, of the tangent of the matrix's lower triangle.",
)


# -- symmetric_product


def _symmetric_value(w: Any, x: Any) -> Any:
    return np.tril(np.matmul(np.tril(w) + turned(np.tril(w)), np.tril(x)))


def _symmetric_infer(w: Node, x: Node) -> tuple[Shape, Any]:
    if w.dtype.kind != "f":
        raise DtypeError(f"symmetric_product: triangles of floating-point numbers are needed, not of {w.dtype.name}")
    return _pullback_infer(w, x)


def _symmetric_body(node: Node) -> Body:
    return Body((copied(node, 0), call(node, "sg_symmetric_product", 1, fraction(node.shape[-1] ** 3, 3))))


def _symmetric_vjp(g: Any, y: Any, w: Any, x: Any) -> Any:  # noqa: ARG001
    outer = np.matmul(np.tril(x), turned(np.tril(g)))
    return np.tril(outer + turned(outer)), symmetric_product(w, g)


def _symmetric(w: Any, x: Any) -> Any:
    return OPS["symmetric_product"](w, x) ** 2


symmetric_product = structured(
    name="symmetric_product", infer=_symmetric_infer, evaluate=_symmetric_value, body=_symmetric_body,
    vjp=_symmetric_vjp, stacked=True, linear=(0, 1),
    **pairs(_symmetric),
    doc="The lower triangle of (W + W') X, for the lower triangles W and X of two matrices.",
)

"""Linear algebra: factors of matrices, and what is solved with them.

In C (templates/linalg.c.jinja) `lu` factorizes, and `solve_triangular` needs no factors. What a system's solution means
does not depend on how it was found: `lu_solve` has a rule of the matrix and the right-hand side, and takes the factors
as known, so that reverse mode solves with those of the forward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import LinAlgError, NoGradient, ShapeError
from symgrad.ir import shapes
from symgrad.ir.notation import Access, Apply, Axis, Body, Number, Routine, Statement, Temporary, axes_of
from symgrad.ir.shapes import simplified
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, structured
from symgrad.ops.linalg.products import NotSquare

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Dim, Shape

X, OUT, STATUS = 0, -1, -2
SINGULAR = "Singular matrix"


def square(x: Any, name: str) -> None:
    """Check that the last two axes are a square matrix.

    Raises:
        NotSquare: they are not.
    """
    if len(x.shape) < 2:
        raise NotSquare(f"{name}: {shapes.show(x.shape)} has no matrices: two axes or more are needed")
    if x.shape[-1] != x.shape[-2]:
        raise NotSquare(f"{name}: Last 2 dimensions of the array must be square, not {shapes.show(x.shape)}")


def fitting(a: Any, b: Any, name: str) -> None:
    """Check that right-hand sides have as many rows as a matrix, and the batch's axes."""
    if len(b.shape) != len(a.shape) or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"{name}: a matrix {shapes.show(a.shape)} and right-hand sides {shapes.show(b.shape)}")


def turned(x: Any) -> Any:
    """Transpose the matrices of a batch."""
    return np.swapaxes(x, -1, -2)


def copied(node: Node, source: int = X, target: int = OUT) -> Statement:
    """Copy an operand to where a routine makes the result of it."""
    axes = axes_of(node.inputs[source].shape)
    return Statement(Access(target, axes), "=", Access(source, axes), axes, node.line)


def fraction(count: Any, parts: int) -> Dim:
    """Return a part of a count."""
    return count // parts if type(count) is int else count / parts


def call(node: Node, name: str, read: int, work: Any, flags: tuple[int, ...] = (), target: int = OUT) -> Statement:
    """Call a routine for each matrix of a batch: of an operand, or of the result alone."""
    batch = axes_of(node.shape[:-2])
    rows = Axis("r", node.shape[-2])
    written = (rows, Axis("c", node.shape[-1]))
    first, second = written
    if read != OUT:
        first, second = [Axis(word, dim) for word, dim in zip("pq", node.inputs[read].shape[-2:], strict=True)]
    extents = written if name in {"sg_solve", "sg_lu_solve"} else written[1:]
    routine = Routine(name, extents, (first, second), written, work, tuple([int(flag) for flag in flags]))
    place = Access(target, (*batch, *written))
    value = place if read == OUT else Access(read, (*batch, first, second))
    return Statement(place, "call", value, batch, node.line, routine=routine)


def checks(node: Node, array: int, shape: Shape, compare: str, what: str) -> tuple[Statement, ...]:
    """Count the elements of a matrix's diagonal that compare with 0, and fail if there are any."""
    kind = node.dtype
    axes = axes_of(shape[:-1])
    element = Access(array, (*axes, axes[-1]))
    bad = Apply(OPS[compare], (element, Number(0, kind)), np.dtype(bool), kind)  # type: ignore[arg-type]  # elementwise
    count = Apply(OPS["where"], (bad, Number(1, kind), Number(0, kind)), kind, kind)  # type: ignore[arg-type]
    status = Access(STATUS, ())
    return (
        Statement(status, "=", Number(0, kind), (), node.line),
        Statement(status, "+=", count, axes, node.line),
        Statement(status, "check", status, (), node.line, failure=what),
    )


# -- solve_triangular


def _triangular_infer(a: Node, b: Node, **_: Any) -> tuple[Shape, Any]:
    square(a, "solve_triangular")
    fitting(a, b, "solve_triangular")
    return b.shape, b.dtype


def _triangular_value(a: Any, b: Any, *, lower: bool, unit: bool, checked: bool) -> Any:
    if checked and not unit and np.any(np.diagonal(a, 0, -2, -1) == 0):
        raise LinAlgError(SINGULAR)
    n = a.shape[-1]
    x = np.array(b)
    for k in range(n):
        i, known = (k, slice(0, k)) if lower else (n - 1 - k, slice(n - k, n))
        x[..., i, :] -= np.matmul(a[..., i, None, known], x[..., known, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def _triangular_body(node: Node) -> Body:
    lower, unit, checked = node.params
    made = call(node, "sg_solve", 0, fraction(node.shape[-2] ** 2 * node.shape[-1], 2), (not lower, unit))
    if unit or not checked:
        return Body((copied(node, 1), made))
    check = checks(node, 0, node.inputs[0].shape, "equal", SINGULAR)
    return Body((copied(node, 1), made, *check), (Temporary((), node.dtype),))


def _triangular_vjp(g: Any, y: Any, a: Any, b: Any, *, lower: bool, unit: bool, checked: bool) -> Any:  # noqa: ARG001
    part = solve_triangular(turned(a), g, lower=not lower, unit=unit, checked=checked)
    outer = np.negative(np.matmul(part, turned(y)))
    return np.tril(outer, -int(unit)) if lower else np.triu(outer, int(unit)), part


def _solves(lower: bool, unit: bool, shift: float = 4.0) -> Any:
    """Make the function of a case: a triangle with a diagonal away from 0."""

    def call(a: Any, b: Any) -> Any:
        a = a + shift * np.eye(a.shape[-1], dtype=a.dtype)
        return OPS["solve_triangular"](a, b, lower=lower, unit=unit, checked=True) ** 2

    return call


solve_triangular = structured(
    name="solve_triangular", params=("lower", "unit", "checked"), infer=_triangular_infer, evaluate=_triangular_value,
    body=_triangular_body, vjp=_triangular_vjp, stacked=True, linear=(1,), columns=(1,),
    sample=(case(_solves(True, False), (3, 3), (3, 2)), case(_solves(False, False), (2, 3, 3), (2, 3, 1)),
            case(_solves(True, True), (4, 4), (4, 5)), case(_solves(False, True), (9, 9), (9, 1))),
    edges=(case(_solves(True, False), (0, 0), (0, 2)), case(_solves(False, False), (2, 2), (2, 0)),
           case(_solves(True, False), (0, 2, 2), (0, 2, 3)), case(_solves(False, False), (1, 1), (1, 1))),
    doc="The solution of a system with a triangular matrix, of which the other triangle is not read.",
)


# -- lu


def _lu_infer(a: Node) -> tuple[Shape, Any]:
    square(a, "lu")
    return (*a.shape[:-2], simplified(a.shape[-1] + 1), a.shape[-1]), a.dtype


def _lu_value(a: Any) -> Any:
    n = a.shape[-1]
    out = np.zeros((*a.shape[:-2], n + 1, n), a.dtype)
    out[..., :n, :] = a
    for place in np.ndindex(a.shape[:-2]):
        lu = out[place]
        for k in range(n):
            best = k + int(np.argmax(np.abs(lu[k:n, k])))
            lu[n, k] = best - k
            lu[[k, best]] = lu[[best, k]]
            if lu[k, k] != 0:
                lu[k + 1 : n, k] /= lu[k, k]
                lu[k + 1 : n, k + 1 :] -= np.outer(lu[k + 1 : n, k], lu[k, k + 1 :])
    return out


def _lu_body(node: Node) -> Body:
    axes = axes_of(node.inputs[X].shape)
    copied = Statement(Access(OUT, axes), "=", Access(X, axes), axes, node.line)
    return Body((copied, call(node, "sg_lu", OUT, fraction(node.shape[-1] ** 3, 3))))


def _lu_vjp(g: Any, y: Any, a: Any) -> Any:  # noqa: ARG001
    raise NoGradient("lu has no derivative: what is made of the factors has one by the matrix")


def _inverted(a: Any) -> Any:
    return np.linalg.inv(a + 3 * np.eye(a.shape[-1], dtype=a.dtype))


lu = structured(
    name="lu", infer=_lu_infer, evaluate=_lu_value, body=_lu_body, vjp=_lu_vjp, stacked=True,
    sample=(case(_inverted, (3, 3)), case(_inverted, (2, 2, 2)), case(np.linalg.inv, (9, 9))),
    edges=(case(_inverted, (0, 0)), case(_inverted, (0, 2, 2)), case(_inverted, (1, 1))),
    doc="The factors L and U of P A = L U in one matrix, and below it how far down each row was exchanged.",
)


# -- lu_solve


def _lu_solve_infer(a: Node, factors: Node, b: Node, **_: Any) -> tuple[Shape, Any]:
    square(a, "solve")
    fitting(a, b, "solve")
    if factors.shape != (*a.shape[:-2], simplified(a.shape[-1] + 1), a.shape[-1]):
        raise ShapeError(f"solve: {shapes.show(factors.shape)} are no factors of {shapes.show(a.shape)}")
    return b.shape, b.dtype


def _lu_solve_value(a: Any, factors: Any, b: Any, *, trans: bool, checked: bool) -> Any:
    n = a.shape[-1]
    triangles = factors[..., :n, :]
    if checked and np.any(np.diagonal(triangles, 0, -2, -1) == 0):
        raise LinAlgError(SINGULAR)
    if trans:
        x = _triangular_value(turned(triangles), b, lower=True, unit=False, checked=False)
        return _exchanged(_triangular_value(turned(triangles), x, lower=False, unit=True, checked=False), factors, -1)
    x = _triangular_value(triangles, _exchanged(b, factors, 1), lower=True, unit=True, checked=False)
    return _triangular_value(triangles, x, lower=False, unit=False, checked=False)


def _exchanged(b: Any, factors: Any, step: int) -> Any:
    """Exchange rows as a factorization did, or back again."""
    x = np.array(b)
    for place in np.ndindex(b.shape[:-2]):
        for k, down in list(enumerate(factors[place][-1].astype(int)))[::step]:
            x[place][[k, k + down]] = x[place][[k + down, k]]
    return x


def _lu_solve_body(node: Node) -> Body:
    trans, checked = node.params
    work = node.shape[-2] ** 2 * node.shape[-1]
    body = (copied(node, 2), call(node, "sg_lu_solve", 1, work, (trans,)))
    if not checked:
        return Body(body)
    check = checks(node, 1, node.inputs[0].shape, "equal", SINGULAR)
    return Body((*body, *check), (Temporary((), node.dtype),))


def _lu_solve_vjp(g: Any, y: Any, a: Any, factors: Any, b: Any, *, trans: bool, checked: bool) -> Any:  # noqa: ARG001
    part = lu_solve(a, factors, g, trans=not trans, checked=checked)
    outer = np.matmul(y, turned(part)) if trans else np.matmul(part, turned(y))
    return np.negative(outer), None, part


def _solved(a: Any, b: Any) -> Any:
    return np.linalg.solve(a + 3 * np.eye(a.shape[-1], dtype=a.dtype), b) ** 2


lu_solve = structured(
    name="lu_solve", params=("trans", "checked"), infer=_lu_solve_infer, evaluate=_lu_solve_value, body=_lu_solve_body,
    vjp=_lu_solve_vjp, stacked=True, linear=(2,), columns=(2,),
    sample=(case(_solved, (3, 3), (3,)), case(_solved, (2, 4, 4), (4, 2)), case(np.linalg.solve, (9, 9), (3, 9, 2)),
            case(_solved, (2, 2), (2, 4))),
    edges=(case(_solved, (0, 0), (0, 2)), case(_solved, (2, 2), (2, 0)), case(_solved, (0, 2, 2), (2, 3)),
           case(_solved, (1, 1), (1,))),
    doc="The solution of a system, or of the transposed one, with a matrix of which the factors are known.",
)

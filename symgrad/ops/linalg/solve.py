"""Linear algebra: factors of matrices, and what is solved with them.

In C (templates/linalg.c.jinja) `lu` factorizes, and `solve_triangular` needs no factors. What a system's solution means
does not depend on how it was found: `lu_solve` has a rule of the matrix and the right-hand side, and takes the factors
as known, so that reverse mode solves with those of the forward pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DtypeError, LinAlgError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, How, Number, Routine, Statement, Temporary, Value, axes_of
from symgrad.ir.index.shapes import Dim, Shape, simplified
from symgrad.ir.node import Node
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import BOOL, OPS, apply, composite, structured
from symgrad.ops.linalg.products import NotSquare

X, OUT, STATUS = 0, -1, -2
SINGULAR = "Singular matrix"


def require_matrix(shape: Shape, name: str) -> None:
    """Check that there are two axes."""
    if len(shape) < 2:
        raise NotSquare(f"{name}: {len(shape)}-dimensional array given. Array must be at least two-dimensional")


def require_square(shape: Shape, name: str) -> None:
    """Check that the last two axes are a square matrix."""
    require_matrix(shape, name)
    if shape[-1] != shape[-2]:
        raise NotSquare(f"{name}: Last 2 dimensions of the array must be square, not {shapes.show(shape)}")


def shape_rule(name: str, signature: str) -> Callable[..., tuple[Shape, Any]]:
    """Return the shape rule of an op of matrices and stacks of them, in NumPy's notation: ``(n,n),(n,k)->(n,k)``.

    The first operand is ``(n,n)``, or ``(m,n)``; `least` is the smaller of the two.
    """
    words = [term.split(",") if term else [] for term in re.findall(r"\(([^)]*)\)", signature)]

    def infer(*x: Node, **params: Any) -> tuple[Shape, Any]:
        (require_square if words[0] == ["n", "n"] else require_matrix)(x[0].shape, name)
        if x[0].dtype.kind != "f":
            raise DtypeError(f"{name}: matrices of floating-point numbers are needed, not of {x[0].dtype}")
        batch, (m, n) = x[0].shape[:-2], x[0].shape[-2:]
        known = {
            "m": m, "n": n, "n+1": simplified(n + 1), "3": 3, "least": least(m, n), "m+n": simplified(m + n),
            "m+n+1": simplified(m + n + 1), "columns": m if params.get("complete") else n,
            "one": n if params.get("trans") else m, "other": m if params.get("trans") else n,
        }
        for one, axes in zip(x, words, strict=False):
            if len(one.shape) != len(batch) + len(axes) or one.shape != (*batch, *[
                known.setdefault(word, dim) for word, dim in zip(axes, one.shape[len(batch) :], strict=True)
            ]):
                raise ShapeError(f"{name}: {', '.join([shapes.show(one.shape) for one in x])} are not {signature}")
        return (*batch, *[known[word] for word in words[-1]]), x[-1].dtype

    return infer


def least(m: Dim, n: Dim) -> Dim:
    """Return the smaller one of two extents."""
    if type(m) is type(n) is int:
        return min(m, n)
    import sympy

    return simplified(sympy.Min(m, n))


def transposed(x: Any) -> Any:
    """Transpose the matrices of a batch."""
    return np.swapaxes(x, -1, -2)


def copy_in(node: Node, source: int = X, target: int = OUT) -> Statement:
    """Copy an operand to where a routine makes the result of it."""
    axes = axes_of(node.inputs[source].shape)
    return Statement(Access(target, axes), How.SET, Access(source, axes), axes, node.line)


def fraction(count: Any, parts: int) -> Dim:
    """Return a part of a count."""
    return count // parts if type(count) is int else count / parts


def by_routine(
    node: Node, name: str, read: int, work: Any, flags: tuple[int, ...] = (), target: int = OUT,
) -> Statement:
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
    return Statement(place, How.CALL, value, batch, node.line, routine=routine)


def failing_where(node: Node, array: int, shape: Shape, compare: str, what: str) -> tuple[Statement, ...]:
    """Count the elements of a matrix's diagonal that compare with 0, and fail if there are any."""
    kind = node.dtype
    axes = axes_of(shape[:-1])
    element = Access(array, (*axes, axes[-1]))
    return failing(node, apply(compare, kind, element, Number(0, kind), dtype=BOOL), axes, what)


def failing(node: Node, bad: Value, axes: tuple[Axis, ...], what: str) -> tuple[Statement, ...]:
    """Count where a condition holds, and fail if it does anywhere."""
    kind = node.dtype
    count = apply("where", kind, bad, Number(1, kind), Number(0, kind))
    status = Access(STATUS, ())
    return (
        Statement(status, How.SET, Number(0, kind), (), node.line),
        Statement(status, How.ADD, count, axes, node.line),
        Statement(status, How.CHECK, status, (), node.line, failure=what),
    )


# -- solve_triangular


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
    made = by_routine(node, "sg_solve", 0, fraction(node.shape[-2] ** 2 * node.shape[-1], 2), (not lower, unit))
    if unit or not checked:
        return Body((copy_in(node, 1), made))
    check = failing_where(node, 0, node.inputs[0].shape, "equal", SINGULAR)
    return Body((copy_in(node, 1), made, *check), (Temporary((), node.dtype),))


def _triangular_vjp(g: Any, y: Any, a: Any, b: Any, *, lower: bool, unit: bool, checked: bool) -> Any:
    part = solve_triangular(transposed(a), g, lower=not lower, unit=unit, checked=checked)
    outer = np.negative(np.matmul(part, transposed(y)))
    return np.tril(outer, -int(unit)) if lower else np.triu(outer, int(unit)), part


def _solves(lower: bool, unit: bool) -> Any:
    """Make the function of a case: a triangle with a diagonal away from 0."""
    return lambda a, b: OPS["solve_triangular"](
        a + 4 * np.eye(a.shape[-1], dtype=a.dtype), b, lower=lower, unit=unit, checked=True) ** 2


solve_triangular = structured(
    name="solve_triangular", params=("lower", "unit", "checked"),
    infer=shape_rule("solve_triangular", "(n,n),(n,k)->(n,k)"), evaluate=_triangular_value,
    body=_triangular_body, vjp=_triangular_vjp, stacked=True, linear=(1,), columns=(1,),
    sample=(case(_solves(True, False), (3, 3), (3, 2)), case(_solves(False, False), (2, 3, 3), (2, 3, 1)),
            case(_solves(True, True), (4, 4), (4, 5)), case(_solves(False, True), (9, 9), (9, 1))),
    edges=(case(_solves(True, False), (0, 0), (0, 2)), case(_solves(False, False), (2, 2), (2, 0)),
           case(_solves(True, False), (0, 2, 2), (0, 2, 3)), case(_solves(False, False), (1, 1), (1, 1))),
    doc="The solution of a system with a triangular matrix, of which the other triangle is not read.",
)


# -- lu


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


def _inverted(a: Any) -> Any:
    return np.linalg.inv(a + 3 * np.eye(a.shape[-1], dtype=a.dtype))


lu = structured(
    name="lu", infer=shape_rule("lu", "(n,n)->(n+1,n)"), evaluate=_lu_value,
    body=lambda node: Body((copy_in(node), by_routine(node, "sg_lu", OUT, fraction(node.shape[-1] ** 3, 3)))),
    stacked=True,
    sample=(case(_inverted, (3, 3)), case(_inverted, (2, 2, 2)), case(np.linalg.inv, (9, 9))),
    edges=(case(_inverted, (0, 0)), case(_inverted, (0, 2, 2)), case(_inverted, (1, 1))),
    doc="The factors L and U of P A = L U in one matrix, and below it how far down each row was exchanged.",
)


# -- lu_solve


def _lu_solve_value(a: Any, factors: Any, b: Any, *, trans: bool, checked: bool) -> Any:
    n = a.shape[-1]
    triangles = factors[..., :n, :]
    if checked and np.any(np.diagonal(triangles, 0, -2, -1) == 0):
        raise LinAlgError(SINGULAR)
    if trans:
        triangles = transposed(triangles)
        x = _triangular_value(triangles, b, lower=True, unit=False, checked=False)
        return _rows_exchanged(_triangular_value(triangles, x, lower=False, unit=True, checked=False), factors, -1)
    x = _triangular_value(triangles, _rows_exchanged(b, factors, 1), lower=True, unit=True, checked=False)
    return _triangular_value(triangles, x, lower=False, unit=False, checked=False)


def _rows_exchanged(b: Any, factors: Any, step: int) -> Any:
    """Exchange rows as a factorization did, or back again."""
    x = np.array(b)
    for place in np.ndindex(b.shape[:-2]):
        for k, down in list(enumerate(factors[place][-1].astype(int)))[::step]:
            x[place][[k, k + down]] = x[place][[k + down, k]]
    return x


def _lu_solve_body(node: Node) -> Body:
    trans, checked = node.params
    work = node.shape[-2] ** 2 * node.shape[-1]
    body = (copy_in(node, 2), by_routine(node, "sg_lu_solve", 1, work, (trans,)))
    if not checked:
        return Body(body)
    check = failing_where(node, 1, node.inputs[0].shape, "equal", SINGULAR)
    return Body((*body, *check), (Temporary((), node.dtype),))


def _lu_solve_vjp(g: Any, y: Any, a: Any, factors: Any, b: Any, *, trans: bool, checked: bool) -> Any:
    part = lu_solve(a, factors, g, trans=not trans, checked=checked)
    outer = np.matmul(y, transposed(part)) if trans else np.matmul(part, transposed(y))
    return np.negative(outer), None, part


def _case(a: Any, b: Any) -> Any:
    return np.linalg.solve(a + 3 * np.eye(a.shape[-1], dtype=a.dtype), b) ** 2


lu_solve = structured(
    name="lu_solve", params=("trans", "checked"), infer=shape_rule("solve", "(n,n),(n+1,n),(n,k)->(n,k)"),
    evaluate=_lu_solve_value, body=_lu_solve_body, vjp=_lu_solve_vjp, determined=(1,), stacked=True, linear=(2,),
    columns=(2,),
    sample=(case(_case, (3, 3), (3,)), case(_case, (2, 4, 4), (4, 2)), case(np.linalg.solve, (9, 9), (3, 9, 2)),
            case(_case, (2, 2), (2, 4))),
    edges=(case(_case, (0, 0), (0, 2)), case(_case, (2, 2), (2, 0)), case(_case, (0, 2, 2), (2, 3)),
           case(_case, (1, 1), (1,))),
    doc="The solution of a system, or of the transposed one, with a matrix of which the factors are known.",
)


# -- the factors themselves


def exchanges(factors: Any) -> Any:
    """Return how far down each row was exchanged."""
    return OPS["stop_gradient"](factors[..., -1, :])


def permuted(down: Any, b: Any, *, back: bool = False) -> Any:
    """Exchange the rows of a matrix as a factorization did, or back again: by factors that are unit matrices."""
    n = down.shape[-1]
    unit = np.broadcast_to(np.eye(n, dtype=down.dtype), (*down.shape[:-1], n, n))
    factors = np.concatenate([unit, down[..., None, :]], -2)
    b = np.broadcast_to(b, (*down.shape[:-1], *b.shape[-2:])) if b.ndim < unit.ndim else b
    return lu_solve(unit, factors, b, trans=back, checked=False)


@composite(
    name="triangles", infer=shape_rule("lu", "(n,n),(n+1,n)->(n,n)"), determined=(1,), stacked=True,
    sample=(case(lambda a: _triangles_case(a) ** 2, (3, 3)), case(lambda a: _triangles_case(a) * a, (2, 2, 2))),
    edges=(case(lambda a: 1 * _triangles_case(a), (1, 1)),),
)
def triangles(_a: Any, factors: Any) -> Any:
    """Take L and U of P A = L U, in one matrix, from what `lu` made of A."""
    return factors[..., :-1, :]


def _triangles_case(a: Any) -> Any:
    a = a + 3 * np.eye(a.shape[-1])[::-1]
    return triangles(a, lu(a))


@triangles.rule
def _(g: Any, y: Any, _a: Any, factors: Any) -> Any:
    """From dL = L tril(M, -1) and dU = triu(M) U, with M = L^-1 P dA U^-1."""
    upper, unit = np.triu(y), np.eye(y.shape[-1], dtype=y.dtype)
    lower = np.tril(y, -1) + unit
    m = np.tril(np.matmul(transposed(lower), np.tril(g, -1)), -1) + np.triu(np.matmul(np.triu(g), transposed(upper)))
    left = solve_triangular(transposed(lower), m, lower=False, unit=True, checked=False)
    both = transposed(solve_triangular(upper, transposed(left), lower=False, unit=False, checked=False))
    return permuted(exchanges(factors), both, back=True), None


@composite(
    name="rows_below", infer=shape_rule("lu", "(m,n),(n,n),(m,n)->(m,n)"), determined=(2,), stacked=True,
    sample=(case(lambda a, up: _below(a, up) ** 2, (2, 3), (3, 3)),
            case(lambda a, up: 1 * _below(a, up), (2, 1, 2), (2, 2, 2))),
    edges=(case(lambda a, up: 1 * _below(a, up), (2, 1), (1, 1)),),
)
def rows_below(_rest: Any, _up: Any, known: Any) -> Any:
    """Take the rows of L below a triangle, ``rest U^-1``, from what `lu` made of all rows."""
    return 1 * known


def _below(a: Any, up: Any) -> Any:
    up = np.triu(up) + 3 * np.eye(up.shape[-1], dtype=up.dtype)
    return rows_below(a, up, np.matmul(a, OPS["stop_gradient"](np.linalg.inv(up))))


@rows_below.rule
def _(g: Any, y: Any, _rest: Any, up: Any, known: Any) -> Any:
    part = transposed(solve_triangular(up, transposed(g), lower=False, unit=False, checked=False))
    return part, np.negative(np.triu(np.matmul(transposed(y), part))), None


def factors_of(a: Any) -> tuple[Any, Any]:
    """Return L and U in one matrix, of any matrix, and how far down each row was exchanged.

    A matrix with more rows is factorized with columns of zeros, which exchange none; one with more columns by the
    first of them.
    """
    m, n = a.shape[-2:]
    if type(m) is type(n) is int and m > n:
        return _high(a)
    square = a[..., :m] if type(m) is type(n) is int and m < n else a
    factors = lu(square)
    both, down = triangles(square, factors), exchanges(factors)
    if square is a:
        return both, down
    further = solve_triangular(both, permuted(down, a[..., m:]), lower=True, unit=True, checked=False)
    return np.concatenate([both, further], -1), down


def _high(a: Any) -> tuple[Any, Any]:
    m, n = a.shape[-2:]
    factors = lu(np.concatenate([a, np.zeros((*a.shape[:-1], m - n), a.dtype)], -1))
    down, known = exchanges(factors), factors[..., :m, :n]
    rows = permuted(down, a)
    in_place = np.concatenate([known[..., :n, :], np.zeros((*a.shape[:-2], 1, n), a.dtype)], -2)
    both = triangles(rows[..., :n, :], in_place)
    return np.concatenate([both, rows_below(rows[..., n:, :], np.triu(both), known[..., n:, :])], -2), down

"""Products of matrices that are given by their elements, of which most are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DtypeError, ShapeError
from symgrad.ir import shapes
from symgrad.ir.node import Node
from symgrad.ir.notation import Access, Axis, Body, How, Lookup, Number, Statement, axes_of
from symgrad.ir.shapes import Shape
from symgrad.ops.declare.domains import case, integers, normal
from symgrad.ops.declare.forms import OPS, apply, shape_of, structured

DATA, ROW, COLUMN, DENSE, OUT = 0, 1, 2, 3, -1


def _infer(data: Node, row: Node, column: Node, dense: Node, rows: Any) -> tuple[Shape, Any]:
    batch = data.shape[:-1]
    if not data.shape or row.shape != data.shape or column.shape != data.shape or dense.shape[:-2] != batch:
        have = ", ".join([shapes.show(x.shape) for x in (data, row, column, dense)])
        raise ShapeError(f"elements, rows, columns and a matrix that do not fit: {have}")
    if data.dtype != dense.dtype or {row.dtype.kind, column.dtype.kind} - {"i", "u"}:
        raise DtypeError(f"elements of {data.dtype} at {row.dtype} and {column.dtype}, and a matrix of {dense.dtype}")
    return (*batch, rows, dense.shape[-1]), data.dtype


def _value(data: Any, row: Any, column: Any, dense: Any, rows: Any) -> Any:
    out = np.zeros((*data.shape[:-1], rows, dense.shape[-1]), data.dtype)
    for at in np.ndindex(data.shape[:-1]):
        np.add.at(out[at], row[at], data[at][:, None] * dense[at][column[at]])
    return out


def _body(node: Node) -> Body:
    """``T[row[e], j] += data[e] * dense[column[e], j]``."""
    everywhere, batch = axes_of(node.shape), axes_of(node.shape[:-2])
    each = (*batch, Axis("e", node.inputs[DATA].shape[-1]))
    j = Axis("j", node.shape[-1])
    row = Lookup(Access(ROW, each), node.shape[-2], 0)
    column = Lookup(Access(COLUMN, each), node.inputs[DENSE].shape[-2], 0)
    term = apply("multiply", node.dtype, Access(DATA, each), Access(DENSE, (*batch, column, j)))
    return Body((
        Statement(Access(OUT, everywhere), How.SET, Number(0, node.dtype), everywhere, node.line),
        Statement(Access(OUT, (*batch, row, j)), How.ADD, term, (*each, j), node.line),
    ))


def _of_one_matrix(mapped: tuple[bool, ...], data: Any, row: Any, column: Any, dense: Any, rows: Any) -> Any:
    """Multiply one matrix with many at once."""
    if any(mapped[:DENSE]) or len(shape_of(data)) > 1:
        return None
    size, m, k = shape_of(dense)
    flat = OPS["reshape"](np.moveaxis(dense, 0, 1), shape=(m, size * k))
    made = OPS["reshape"](sparse_matmul(data, row, column, flat, rows=rows), shape=(rows, size, k))
    return np.moveaxis(made, 1, 0)


def _product(data: Any, row: Any, column: Any, dense: Any) -> Any:
    return OPS["sparse_matmul"](data, row, column, dense, rows=4) ** 2


_DOMAIN = (normal(), integers(0, 3), integers(-3, 2), normal())

sparse_matmul = structured(
    name="sparse_matmul", params=("rows",), infer=_infer, evaluate=_value, body=_body, regular=True,
    linear=(DATA, DENSE), batched=lambda size, **params: params, many=_of_one_matrix,
    sample=(case(_product, (6,), (6,), (6,), (3, 2), domain=_DOMAIN),
            case(_product, (2, 5), (2, 5), (2, 5), (2, 3, 1), domain=_DOMAIN)),
    edges=(case(_product, (0,), (0,), (0,), (3, 2), domain=_DOMAIN),
           case(_product, (5,), (5,), (5,), (3, 0), domain=_DOMAIN)),
    doc="A matrix, given by elements and their places, times a dense one; what is given for one place is added.",
)

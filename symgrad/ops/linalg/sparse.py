"""Products of matrices that are given by their elements, of which most are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DtypeError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, How, Lookup, Number, Statement, Temporary, axes_of
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.declare.domains import case, integers, normal
from symgrad.ops.declare.forms import INT, OPS, apply, shape_of, structured

BOUNDS, ENDS, TOTAL = 0, -2, -3


def _segment_body(node: Node) -> Body:
    """Count the ends of segments at each place, and add up how many there were."""
    bounds, n = node.inputs[BOUNDS], node.shape[0]
    k, e, place = Axis("k", shapes.simplified(bounds.shape[0] - 2)), Axis("e", n), Axis("e", n + 1)
    end = Lookup(Access(BOUNDS, (k + 1,)), n + 1, 0)
    return Body((
        Statement(Access(ENDS, (place,)), How.SET, Number(0, INT), (place,), node.line),
        Statement(Access(ENDS, (end,)), How.ADD, Number(1, INT), (k,), node.line),
        Statement(Access(TOTAL, ()), How.SET, Number(0, INT), (), node.line),
        Statement(Access(TOTAL, ()), How.ADD, Access(ENDS, (e,)), (e,), node.line, prefix=frozenset()),
        Statement(Access(OUT, (e,)), How.SET, Access(TOTAL, ()), (e,), node.line, prefix=frozenset({TOTAL})),
    ), (Temporary((n + 1,), INT), Temporary((), INT)))


def _segment_shape(bounds: Node, count: Any) -> tuple[Shape, Any]:
    if len(bounds.shape) != 1 or bounds.dtype.kind not in "iu" or bounds.shape[0] == 0:
        raise ShapeError(f"{shapes.show(bounds.shape)} of {bounds.dtype}, and no bounds of segments")
    return (count,), INT


segments = structured(
    name="segments", params=("count",), infer=_segment_shape, body=_segment_body, nondiff=True, batched=None,
    segments=BOUNDS,
    evaluate=lambda bounds, count: np.searchsorted(np.asarray(bounds)[1:-1], np.arange(count), side="right"),
    limits=lambda node: (0, node.inputs[BOUNDS].shape[0] - 2),
    sample=(case(
        lambda x, sizes: np.sqrt(1.0 + OPS["segments"](np.concatenate([[0], np.cumsum(sizes)]), count=6)) * x,
        (6,), (3,), domain=(normal(), integers(2, 2))),),
    edges=(case(lambda x: OPS["segments"](np.zeros(3, int), count=0) * np.sum(x), (2,)),),
    doc="Of each of so many elements the segment that it is in; segments begin at some places, and end at the next.",
)

DATA, ROW, COLUMN, DENSE, OUT = 0, 1, 2, 3, -1


def _sparse_infer(data: Node, row: Node, column: Node, dense: Node, rows: Any) -> tuple[Shape, Any]:
    batch = data.shape[:-1]
    first = len(batch)
    if not data.shape or {row.shape, column.shape} != {data.shape} or dense.shape[:first] != batch or len(
        dense.shape) == first:
        have = ", ".join([shapes.show(x.shape) for x in (data, row, column, dense)])
        raise ShapeError(f"elements, rows, columns and a matrix that do not fit: {have}")
    if data.dtype != dense.dtype or {row.dtype.kind, column.dtype.kind} - {"i", "u"}:
        raise DtypeError(f"elements of {data.dtype} at {row.dtype} and {column.dtype}, and a matrix of {dense.dtype}")
    return (*batch, rows, *dense.shape[first + 1 :]), data.dtype


def _value(data: Any, row: Any, column: Any, dense: Any, rows: Any) -> Any:
    out = np.zeros((*data.shape[:-1], rows, *dense.shape[data.ndim :]), data.dtype)
    for at in np.ndindex(data.shape[:-1]):
        factors = data[at].reshape(-1, *[1] * (dense.ndim - data.ndim))
        np.add.at(out[at], row[at], factors * dense[at][column[at]])
    return out


def _sparse_body(node: Node) -> Body:
    """``T[row[e], j] += data[e] * dense[column[e], j]``, with any axes j."""
    first = len(node.inputs[DATA].shape) - 1
    everywhere, (*batch, _), each_j = axes_of(node.shape), axes_of(node.shape[: first + 1]), node.shape[first + 1 :]
    each = (*batch, Axis("e", node.inputs[DATA].shape[-1]))
    j = tuple([Axis("j", extent) for extent in each_j])
    row = Lookup(Access(ROW, each), node.shape[first], 0)
    column = Lookup(Access(COLUMN, each), node.inputs[DENSE].shape[first], 0)
    term = apply("multiply", node.dtype, Access(DATA, each), Access(DENSE, (*batch, column, *j)))
    return Body((
        Statement(Access(OUT, everywhere), How.SET, Number(0, node.dtype), everywhere, node.line),
        Statement(Access(OUT, (*batch, row, *j)), How.ADD, term, (*each, *j), node.line),
    ))


def _of_one_matrix(mapped: tuple[bool, ...], data: Any, row: Any, column: Any, dense: Any, rows: Any) -> Any:
    """Multiply one matrix with many at once."""
    if any(mapped[:DENSE]) or len(shape_of(data)) > 1:
        return None
    return np.moveaxis(sparse_matmul(data, row, column, np.moveaxis(dense, 0, 1), rows=rows), 1, 0)


def _sparse_case(data: Any, row: Any, column: Any, dense: Any) -> Any:
    return OPS["sparse_matmul"](data, row, column, dense, rows=4) ** 2


_DOMAIN = (normal(), integers(0, 3), integers(-3, 2), normal())

sparse_matmul = structured(
    name="sparse_matmul", params=("rows",), infer=_sparse_infer, evaluate=_value, body=_sparse_body, regular=True,
    linear=(DATA, DENSE), batched=lambda size, **params: params, many=_of_one_matrix,
    sample=(case(_sparse_case, (6,), (6,), (6,), (3, 2), domain=_DOMAIN),
            case(_sparse_case, (2, 5), (2, 5), (2, 5), (2, 3, 1), domain=_DOMAIN),
            case(_sparse_case, (6,), (6,), (6,), (3,), domain=_DOMAIN)),
    edges=(case(_sparse_case, (0,), (0,), (0,), (3, 2), domain=_DOMAIN),
           case(_sparse_case, (5,), (5,), (5,), (3, 0), domain=_DOMAIN)),
    doc="A matrix, given by elements and their places, times a dense one or a vector; those at one place are added.",
)

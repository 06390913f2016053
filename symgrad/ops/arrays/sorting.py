"""The order of an array's elements, by which it is a gather, and the places of numbers among sorted ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DtypeError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Apply, Axis, Body, How, Number, Routine, Statement, Temporary, axes_of
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.declare.domains import SPECIAL, case, distinct, integers, nan, normal
from symgrad.ops.declare.forms import INT, OPS, elementwise, shape_of, structured

X, OUT, SCRATCH = 0, -1, -2


def _bits_in_order(x: Any) -> Any:
    """Return integers in the order of floats: bits that follow the sign are turned around, and NaN is the largest."""
    x = np.asarray(x)
    bits = (x + x.dtype.type(0)).view(f"i{x.dtype.itemsize}")  # of -0 plus 0, those of 0
    last = np.iinfo(bits.dtype).max
    return np.where(np.isnan(x), last, np.where(bits < 0, bits ^ last, bits)).astype(INT)


sort_key = elementwise(
    name="sort_key", numpy=_bits_in_order, result=lambda _: INT, nondiff=True, c="sg_sort_key{f}({0})", sample=normal(),
    edges=(*SPECIAL, -nan), doc="Return integers in the order of floats, NaN last.")


# -- argsort


def _argsort_body(node: Node) -> Body:
    n = node.shape[-1]
    batch, (place, again) = axes_of(node.shape[:-1]), (Axis("c", n), Axis("c", n))
    rows = (Axis("r", 4), Axis("c", n))
    whole = Access(SCRATCH, (*batch, *rows))
    routine = Routine("sg_argsort", rows[1:], rows, rows, n * 16)
    outer, inner = axes_of(node.shape[:-1]), axes_of(node.shape[:-1])
    return Body((
        Statement(Access(SCRATCH, (*outer, 0, place)), How.SET, Access(X, (*outer, place)), (*outer, place), node.line),
        Statement(whole, How.CALL, whole, batch, node.line, routine=routine),
        Statement(
            Access(OUT, (*inner, again)), How.SET, Access(SCRATCH, (*inner, 2, again)), (*inner, again), node.line),
    ), (Temporary((*node.shape[:-1], 4, n), INT),))


def _in_order(x: Any) -> Any:
    return np.take_along_axis(x, np.argsort(x, stable=True), -1) ** 2


argsort = structured(
    name="argsort", infer=lambda x: (x.shape, INT), body=_argsort_body, nondiff=True,
    evaluate=lambda x: np.argsort(x, axis=-1, kind="stable"), limits=lambda node: (0, node.shape[-1] - 1),
    sample=(case(_in_order, (6,)), case(_in_order, (2, 3, 4)), case(_in_order, (3, 120), domain=distinct()),
            case(lambda a: np.argsort(a, stable=True), (2, 300), domain=integers(-9, 9))),
    edges=(case(_in_order, (0,)), case(_in_order, (2, 0)), case(_in_order, (1,))),
    doc="The places of integers in increasing order along the last axis; equal ones stay as they stand.",
)


# -- searchsorted


def _places_infer(a: Node, v: Node, *, right: bool) -> tuple[Shape, Any]:
    del right
    if a.dtype != v.dtype or a.dtype not in {INT, np.dtype(np.float64)}:
        raise DtypeError(f"searchsorted of {a.dtype} and {v.dtype}")
    if not a.shape or not v.shape or a.shape[:-1] != v.shape[:-1]:
        raise ShapeError(f"searchsorted: {shapes.show(a.shape)} and {shapes.show(v.shape)} do not fit")
    return v.shape, INT


def _places_value(a: Any, v: Any, *, right: bool) -> Any:
    out = np.zeros(v.shape, INT)
    for place in np.ndindex(a.shape[:-1]):
        out[place] = np.searchsorted(a[place], v[place], "right" if right else "left")
    return out


def _places_body(node: Node) -> Body:
    kind, known = node.inputs[0].dtype, Axis("p", node.inputs[0].shape[-1])
    before, axes, after = [axes_of(node.shape) for _ in range(3)]
    if known.extent == 0:
        return Body((Statement(Access(OUT, axes), How.SET, Number(0, INT), axes, node.line),))
    routine = Routine("sg_searchsorted", (known,), (known,), (), 8, (int(node.param("right")),))
    there = Access(SCRATCH, axes)
    found: Any = Access(SCRATCH, after)
    found = found if kind == INT else Apply(OPS["astype"], (found,), INT, kind, (INT,))  # type: ignore[arg-type]
    return Body((
        Statement(Access(SCRATCH, before), How.SET, Access(1, before), before, node.line),
        Statement(there, How.CALL, Access(X, (*axes[:-1], known)), axes, node.line, routine=routine),
        Statement(Access(OUT, after), How.SET, found, after, node.line),
    ), (Temporary(node.shape, kind),))


def _of_one_table(mapped: tuple[bool, ...], a: Any, v: Any, *, right: bool) -> Any:
    """Look many rows up in one table at once."""
    if mapped[0] or len(shape_of(a)) > 1:
        return None
    return np.reshape(searchsorted(a, np.ravel(v), right=right), np.shape(v))


_SIDES = [lambda a, v, side=side: np.searchsorted(np.sort(a), v, side) + 0 * v for side in ("left", "right")]

searchsorted = structured(
    name="searchsorted", params=("right",), infer=_places_infer, body=_places_body, evaluate=_places_value,
    nondiff=True, many=_of_one_table, limits=lambda node: (0, node.inputs[0].shape[-1]),
    sample=(case(_SIDES[0], (5,), (7,)), case(_SIDES[1], (64,), (2, 3)),
            case(_SIDES[1], (9,), (3,), domain=integers(-3, 3))),
    edges=(case(_SIDES[0], (0,), (3,)), case(_SIDES[0], (3,), (0,)), case(_SIDES[1], (1,), ()),
           *[case(lambda a, v, side=side: np.searchsorted(
               np.sort(np.where(a > 0, np.nan, a)), np.where(v > 0, np.nan, v), side) + 0 * v, (8,), (5,))
             for side in ("left", "right")]),
    doc="Where numbers would stand among sorted ones, NaN last.",
)

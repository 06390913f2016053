"""An array operation for each index of a leading axis, by its index notation: what `vmap` makes of one.

Every access of a batched operand, of the result and of temporaries gets the leading index; that is all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, everywhere
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ir.op import Op
from symgrad.ops.declare import leaves
from symgrad.ops.declare.domains import case, integers, normal
from symgrad.ops.declare.forms import OPS, structured


def stand_in(x: Any, *, batched: bool) -> Node:
    """Return a node of the shape and dtype that an operand has for one index."""
    shape = x.shape[1:] if batched else x.shape
    return Node(leaves.input_, (), ("x", shape, x.dtype), shape, x.dtype, None, 0)


def _each_infer(*xs: Node, of: str, mapped: tuple[bool, ...], params: tuple[Any, ...]) -> tuple[Shape, Any]:
    if of not in OPS or len(mapped) != len(xs) or not any(mapped) or len(params) != len(OPS[of].params):
        raise ShapeError(f"each of {len(xs)} operands by {of!r}: {mapped}, {params}")
    lengths = {x.shape[:1] for x, m in zip(xs, mapped, strict=True) if m}
    if len(lengths) != 1 or () in lengths:
        raise ShapeError(f"batched operands of lengths {', '.join(map(shapes.show, sorted(lengths, key=str)))}")
    inner = [stand_in(x, batched=m) for x, m in zip(xs, mapped, strict=True)]
    shape, dtype = OPS[of].infer(*inner, **OPS[of].named(params))
    return (*lengths.pop(), *shape), dtype


def evaluated_for_each(
    op: Op, xs: Sequence[Any], mapped: Sequence[bool], params: dict[str, Any], out: np.ndarray[Any, Any],
) -> Any:
    """Write into an array what an op gives for each index of the first axis of some arrays."""
    for k in range(len(out)):
        out[k] = op.evaluate(*[x[k] if m else x for x, m in zip(xs, mapped, strict=True)], **params)
    return out


def _each_body(node: Node) -> Body:
    of, mapped, params = node.params
    inputs = tuple([stand_in(x, batched=m) for x, m in zip(node.inputs, mapped, strict=True)])
    one = Node(OPS[of], inputs, params, node.shape[1:], node.dtype, node.line, 0)
    body = OPS[of].body(one)  # type: ignore[attr-defined]  # a structured op
    lead = node.shape[0]
    axis = Axis("b", lead)  # one for all: statements that read running values go point by point with what makes them

    def along(a: Access) -> Access:
        """Read and write every batched array along the axis."""
        if a.array >= 0 and not mapped[a.array]:
            return a
        if a.flat:
            return Access(a.array, (axis * shapes.size(inputs[a.array].shape) + a.indices[0],), flat=True)
        return Access(a.array, (axis, *a.indices))

    statements = [s.mapped(*everywhere(along), axes=(axis, *s.axes)) for s in body.statements]
    return Body(tuple(statements), tuple([t._replace(shape=(lead, *t.shape)) for t in body.temporaries]))


_ROWS = (normal(), integers(-3, 2))


def _of_each(of: str, mapped: tuple[bool, ...], *params: Any) -> Any:
    return lambda *xs: OPS["each"](*xs, of=of, mapped=mapped, params=params) ** 2


each = structured(
    name="each", params=("of", "mapped", "params"), batched=None,
    infer=_each_infer, body=_each_body, evaluate=lambda *xs, of, mapped, params: evaluated_for_each(
        OPS[of], xs, mapped, OPS[of].named(params), np.empty(*_each_infer(*xs, of=of, mapped=mapped, params=params))),
    sample=(case(_of_each("gather", (True, True), (0,)), (2, 3), (2, 5), domain=_ROWS),
            case(_of_each("gather", (False, True), (1,)), (2, 3), (2, 5), domain=_ROWS),
            case(_of_each("scatter_add", (True, True), (0,), (3, 2)), (2, 5, 2), (2, 5), domain=_ROWS),
            case(_of_each("cumprod", (True,), 0), (2, 4)),
            case(_of_each("convolve", (True, False)), (2, 4), (3,)),
            case(_of_each("convolve", (True, True)), (2, 4), (2, 3)),
            case(_of_each("each", (True,), "sum", (True,), ((0,),)), (2, 3, 4))),
    edges=(case(_of_each("gather", (True, True), (0,)), (0, 3), (0, 5), domain=_ROWS),
           case(_of_each("gather", (True, True), (0,)), (2, 3), (2, 0), domain=_ROWS)),
    doc="An op for each index of a leading axis of some operands.",
)

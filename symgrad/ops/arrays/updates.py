"""An array with elements of it replaced or added to, at places that arrays of integers name."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.index import regions, shapes
from symgrad.ir.index.notation import Access, Body, How, Statement, axes_of
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import broadcast_like
from symgrad.ops.arrays.indexing import (
    added_at,
    first_axis,
    gather,
    gathered_index,
    gathered_shape,
    index_shape,
    key_of,
)
from symgrad.ops.arrays.views import adding, put_body, source_index, with_slices, with_slices_shape, zeros_of
from symgrad.ops.declare.domains import case, integers, normal
from symgrad.ops.declare.forms import OPS, shape_of, structured

X, VALUE, OUT = 0, 1, -1


def _update_infer(x: Node, value: Node, *indices: Node, axes: tuple[int, ...], **_: Any) -> tuple[Shape, Any]:
    part = index_shape(indices, axes, len(x.shape))
    want = gathered_shape(x.shape, part, axes)
    if len(part) > 1:
        raise ShapeError(f"index arrays of {len(part)} axes: with one axis alone it is clear which write comes last")
    if value.shape != want or value.dtype != x.dtype:
        have = f"{value.dtype}{shapes.show(value.shape)}"
        raise ShapeError(f"cannot write {have} into {x.dtype}{shapes.show(x.shape)}: {shapes.show(want)} is needed")
    return x.shape, x.dtype


def _update_body(node: Node, how: How) -> Body:
    """Copy, then write or add in the order of the index arrays' one axis."""
    return put_body(node, X, how, (VALUE, lambda *i: gathered_index(node, node.shape, i, first=2)))


# -- scatter_set: x[i] = value


def _set_value(x: Any, value: Any, *indices: Any, axes: tuple[int, ...], unique: bool) -> Any:
    out = np.array(x)
    out[key_of(indices, axes)] = value
    return out


def _is_last_write(g: Any, value: Any, indices: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    """Return, for each written value, whether it is the last one written to its place: only that one stays.

    Each write puts its number at its place; a write stays where its own number is found afterwards.
    """
    part = shapes.broadcast(*[shape_of(i) for i in indices])
    if not part:
        return True
    along = next(i for i in indices if shape_of(i) == part)
    zero = np.int64(0) if type(part[0]) is int else OPS["sum"](along[:0].astype(np.int64), axes=(0,))  # traced
    own = OPS["arange"](zero, count=part[0], step=1)
    nobody = broadcast_like(g, np.int64(-1), tuple([shape_of(g)[a] for a in axes]))
    every = tuple(range(len(indices)))
    last = gather(scatter_set(nobody, own, *indices, axes=every, unique=False), *indices, axes=every)
    start, rank = first_axis(axes), len(shape_of(value))
    beside = tuple([k for k in range(rank) if k != start])
    return OPS["expand_dims"](np.equal(last, own), axes=beside) if beside else np.equal(last, own)


def _set_vjp(g: Any, y: Any, x: Any, value: Any, *indices: Any, axes: Any, unique: bool) -> tuple[Any, ...]:
    taken = gather(g, *indices, axes=axes)
    kept = scatter_set(g, zeros_of(taken), *indices, axes=axes, unique=unique)
    if not unique:
        stays = _is_last_write(g, value, indices, axes)
        taken = taken if stays is True else np.where(stays, taken, np.zeros((), g.dtype))
    return kept, taken, *[None] * len(indices)


_PLACES = (normal(), normal(), integers(-3, 2))
_ONE = (*_PLACES, _PLACES[2])


def _sets(axes: tuple[int, ...]) -> Any:
    return lambda x, v, *i: OPS["scatter_set"](x, v, *i, axes=axes, unique=False) ** 2


scatter_set = structured(
    name="scatter_set", params=("axes", "unique"), infer=_update_infer, evaluate=_set_value, vjp=_set_vjp,
    moves=True, batched=None, body=lambda node: _update_body(node, How.SET),
    sample=(case(_sets((0,)), (3,), (7,), (7,), domain=_PLACES), case(_sets((0,)), (3, 2), (2,), (), domain=_PLACES),
            case(_sets((1,)), (2, 3), (2, 5), (5,), domain=_PLACES),
            case(_sets((0, 2)), (3, 2, 4), (5, 2), (5,), (1,), domain=_ONE)),
    edges=(case(_sets((0,)), (3,), (0,), (0,), domain=_PLACES),),
    doc="An array with elements replaced, as x[i] = value leaves it; of writes to one place the last stays.",
)


# -- add_at: np.add.at


def _adds(axes: tuple[int, ...]) -> Any:
    return lambda x, v, *i: OPS["add_at"](x, v, *i, axes=axes) ** 2


add_at = structured(
    name="add_at", params=("axes",), infer=_update_infer, evaluate=added_at, moves=True, batched=None,
    body=lambda node: _update_body(node, adding(node.dtype)),
    vjp=lambda g, y, x, value, *indices, axes: (g, gather(g, *indices, axes=axes), *[None] * len(indices)),
    sample=(case(_adds((0,)), (3,), (7,), (7,), domain=_PLACES),
            case(_adds((0, 2)), (3, 2, 4), (5, 2), (5,), (1,), domain=_ONE)),
    edges=(case(_adds((0,)), (3,), (0,), (0,), domain=_PLACES),),
    doc="An array with values added at places, as often as they are named: what np.add.at leaves.",
)


# -- assemble: many slices at once


def _cover_all(indices: Any, shape: Shape) -> bool:
    """Whether slices that share no element are all of an array."""
    return all(regions.is_known(i) for i in indices) and sum(regions.count(i) for i in indices) == shapes.size(shape)


def is_most(index: Any, shape: Shape) -> bool:
    """Whether a slice of step 1 is more than half of an array."""
    steps = all(len(entry) == 1 or entry[2] == 1 for entry in index)
    known = shapes.is_static(shape) and regions.is_known(index)
    return known and steps and 2 * regions.count(index) > shapes.size(shape)


def _assemble_body(node: Node) -> Body:
    everywhere, indices = axes_of(node.shape), node.params[0]
    statements = []
    if not _cover_all(indices, node.shape):
        statements.append(Statement(Access(OUT, everywhere), How.SET, Access(X, everywhere), everywhere, node.line))
    for k, (value, index) in enumerate(zip(node.inputs[1:], indices, strict=True), 1):
        part = axes_of(value.shape)
        target = Access(OUT, tuple(source_index(index, part)))
        statements.append(Statement(target, How.SET, Access(k, part), part, value.line))
    return Body(tuple(statements))


def _assemble_vjp(g: Any, y: Any, x: Any, *values: Any, indices: Any) -> tuple[Any, ...]:
    parts = [OPS["slice"](g, index=index) for index in indices]
    if _cover_all(indices, shape_of(x)):
        return None, *parts
    if len(indices) == 1 and is_most(indices[0], shape_of(x)):  # beside it little is left, which adds up with slices
        edges = regions.around(indices[0], shape_of(x))
        left = [OPS["slice"](g, index=edge) for edge in edges]
        return OPS["place"](*left, indices=tuple(edges), shape=shape_of(x)), *parts
    return OPS["assemble"](g, *[zeros_of(part) for part in parts], indices=indices), *parts


_SLICES = (((1,), (0, 2, 1)), ((0,), (1,)), ((2, 2, -1), (2, 1, 1)))

assemble = structured(
    name="assemble", params=("indices",), infer=with_slices_shape, evaluate=with_slices, body=_assemble_body,
    vjp=_assemble_vjp, moves=True,
    sample=(case(lambda x, a, b, c: OPS["assemble"](x, a, b, c, indices=_SLICES) ** 2, (3, 3), (2,), (), (2, 1)),
            case(lambda x, a, b: OPS["assemble"](x, a, b, indices=(((0,),), ((1, 2, 1),))) ** 2, (3,), (), (2,))),
    edges=(case(lambda x, a: OPS["assemble"](x, a, indices=(((1, 0, 1),),)), (3,), (0,)),),
    doc="An array with slices of it replaced, none of which share an element: what writes one by one leave.",
)

"""Indexing by arrays of integers: gathers, and the scatters that are their adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, DtypeError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import SURE, Access, Axis, Body, How, IndexValue, Lookup, Role, Statement, axes_of
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import fresh
from symgrad.ops.arrays.joining import along_axis, lift
from symgrad.ops.arrays.views import adding, broadcast_index, copy_body, put_body
from symgrad.ops.declare.domains import case, integers, normal
from symgrad.ops.declare.forms import INT, OPS, answers, is_traced, refuse, shape_of, structured

X, OUT = 0, -1


class IndexShapes(ShapeError, IndexError):  # noqa: N818 - stands beside IndexError
    """Index arrays whose shapes do not fit together or to the indexed array."""


class OutOfBounds(ArgumentValueError, IndexError):  # noqa: N818 - likewise
    """A constant index that the indexed axis does not have."""


# -- gather: x[..., i, ...] and its adjoint


def first_axis(axes: tuple[int, ...]) -> int:
    """Return where NumPy puts the axes of the index arrays: in place when they are neighbours, else in front."""
    return axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0


def index_shape(indices: tuple[Node, ...], axes: tuple[int, ...], rank: int) -> Shape:
    """Check the index arrays and broadcast their shapes."""
    if len(indices) != len(axes) or not axes or list(axes) != sorted(set(axes)) or axes[-1] >= rank:
        raise ShapeError(f"{len(indices)} index arrays for the axes {axes} of an array of {rank} axes")
    for index in indices:
        if index.dtype.kind not in "iu":
            raise DtypeError(f"an index array must hold integers, not {index.dtype}", instead="i.astype(np.int64)")
    try:
        return shapes.broadcast(*[index.shape for index in indices])
    except ShapeError as error:
        raise IndexShapes(f"shape mismatch of index arrays: {error.what}") from None


def gathered_shape(shape: Shape, part: Shape, axes: tuple[int, ...]) -> Shape:
    """Return the shape of a gather."""
    rest = tuple([d for k, d in enumerate(shape) if k not in axes])
    start = first_axis(axes)
    return (*rest[:start], *part, *rest[start:])


def key_of(indices: tuple[Any, ...], axes: tuple[int, ...]) -> tuple[Any, ...]:
    """Write the index in Python."""
    by_axis = dict(zip(axes, indices, strict=True))
    return tuple([by_axis.get(k, slice(None)) for k in range(axes[-1] + 1)])


def gathered_index(node: Node, extents: Shape, result: tuple[Axis, ...], first: int = 1) -> tuple[Any, ...]:
    """Return the element of the gathered array for an element of the result: lookups on the indexed axes.

    The index arrays are the operands from `first` on.
    """
    axes, indices = node.param("axes"), node.inputs[first:]
    part = shapes.broadcast(*[index.shape for index in indices])
    start = first_axis(axes)
    inner = result[start : start + len(part)]
    rest = iter((*result[:start], *result[start + len(part) :]))
    source: list[Any] = []
    for k, extent in enumerate(extents):
        if k in axes:
            j = axes.index(k)
            source.append(Lookup(Access(first + j, tuple(broadcast_index(indices[j].shape, part, inner))), extent, 0))
        else:
            source.append(next(rest))
    return tuple(source)


def _gather_text(node: Node, names: list[str]) -> str:
    entries = key_of(tuple(names[1:]), node.param("axes"))
    parts = [":" if isinstance(entry, slice) else entry for entry in entries]
    return f"{names[0]}[{', '.join(parts)}]"


_ROWS = (normal(), integers(-3, 2))
_PAIRS = (*_ROWS, _ROWS[1])


def _gathers(axes: tuple[int, ...]) -> Any:
    return lambda a, *indices: OPS["gather"](a, *indices, axes=axes) ** 2


def _scatters(axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return lambda g, *indices: OPS["scatter_add"](g, *indices, axes=axes, shape=shape) ** 2


def _of_one_array(mapped: tuple[bool, ...], x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
    """Gather from an array that all examples have in common by all of their indices at once."""
    if mapped[0]:
        return None
    ranks = [len(shape_of(i)) - m for i, m in zip(indices, mapped[1:], strict=True)]
    more = [tuple(range(1, 1 + max(ranks) - rank)) * m for rank, m in zip(ranks, mapped[1:], strict=True)]
    wide = [np.expand_dims(i, ones) if ones else i for i, ones in zip(indices, more, strict=True)]
    return np.moveaxis(OPS["gather"](x, *wide, axes=axes), first_axis(axes), 0)


gather = structured(
    name="gather", params=("axes",), text=_gather_text, moves=True, batched=None, many=_of_one_array,
    infer=lambda x, *indices, axes: (gathered_shape(x.shape, index_shape(indices, axes, len(x.shape)), axes), x.dtype),
    body=lambda node: copy_body(node, lambda *i: gathered_index(node, node.inputs[0].shape, i)),
    vjp=lambda g, y, x, *indices, axes: (
        OPS["scatter_add"](g, *indices, axes=axes, shape=shape_of(x)), *[None] * len(indices)),
    put=lambda x, value, *indices, axes: OPS["scatter_set"](x, value, *indices, axes=axes, unique=False),
    rows=lambda node: node.inputs[1] if node.param("axes") == (0,) else None,
    evaluate=lambda x, *indices, axes: np.asarray(x)[key_of(indices, axes)],
    sample=(case(_gathers((0,)), (3, 4), (2, 5), domain=_ROWS), case(_gathers((1,)), (2, 3, 2), (2, 2), domain=_ROWS),
            case(_gathers((0, 1)), (3, 4), (2, 1), (3,), domain=_PAIRS),
            case(_gathers((0, 2)), (3, 4, 5), (6,), (), domain=_PAIRS),
            case(lambda a: a[:, [2, 0, 2]] ** 2, (2, 3)),
            case(lambda a: a[np.array([True, False, True])] ** 2, (3, 2))),
    edges=(case(_gathers((0,)), (3,), (0,), domain=_ROWS), case(_gathers((0,)), (3, 0), (2,), domain=_ROWS)),
    doc="Elements at the places that arrays of integers name.",
)


def _scatter_infer(g: Node, *indices: Node, axes: tuple[int, ...], shape: Shape) -> tuple[Shape, Any]:
    want = gathered_shape(shape, index_shape(indices, axes, len(shape)), axes)
    if g.shape != want:
        have, into, need = map(shapes.show, (g.shape, shape, want))
        raise ShapeError(f"cannot scatter {have} into {into}: {need} is needed")
    return shape, g.dtype


def added_at(x: Any, value: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
    """Return an array with values added at the places that arrays of integers name."""
    out = np.array(x)
    np.add.at(out, key_of(indices, axes), value)
    return out


scatter_add = structured(
    name="scatter_add", params=("axes", "shape"), infer=_scatter_infer, moves=True, batched=None,
    evaluate=lambda g, *indices, axes, shape: added_at(np.zeros(shape, np.asarray(g).dtype), g, *indices, axes=axes),
    body=lambda node: put_body(node, None, adding(node.dtype), (X, lambda *i: gathered_index(node, node.shape, i))),
    vjp=lambda g, y, x, *indices, axes, shape: (gather(g, *indices, axes=axes), *[None] * len(indices)),
    sample=(case(_scatters((0,), (3, 2)), (5, 2), (5,), domain=_ROWS),
            case(_scatters((0, 2), (3, 2, 4)), (5, 2), (5,), (1,), domain=_PAIRS)),
    edges=(case(_scatters((0,), (3,)), (0,), (0,), domain=_ROWS),),
    doc="Zeros with values added at the places that arrays of integers name: the adjoint of gather.",
)


# -- batch_rows: those of a batch, in an order that goes on


def _rows_infer(x: Node, order: Node) -> tuple[Shape, Any]:
    if not x.shape or len(order.shape) != 1 or order.dtype != INT:
        raise ShapeError(f"rows of {shapes.show(x.shape)} by {order.dtype}{shapes.show(order.shape)}")
    return x.shape, x.dtype


def _rows_body(node: Node) -> Body:
    count, soon = node.shape[0], node.inputs[1].shape[0] - node.shape[0]
    body = copy_body(node, lambda i, *rest: (Lookup(Access(1, (i,)), count, SURE, soon), *rest))
    # In a loop of its own: beside a copy of rows of five, what reads them would have no lanes.
    return Body(tuple([s.with_(role=Role.COLUMN) for s in body.statements]))


batch_rows = structured(
    name="batch_rows", infer=_rows_infer, batched=None, moves=True, body=_rows_body,
    evaluate=lambda x, order: np.asarray(x)[np.asarray(order)[: len(x)]],
    vjp=lambda g, y, x, order: (
        OPS["scatter_add"](g, order[: shape_of(x)[0]], axes=(0,), shape=shape_of(x)), None),
    sample=(case(lambda x, order: OPS["batch_rows"](x, order) ** 2, (3, 2), (5,), domain=(normal(), integers(0, 2))),),
    edges=(case(lambda x, order: OPS["batch_rows"](x, order) ** 2, (3, 2), (3,), domain=(normal(), integers(0, 2))),),
    doc="The first of the rows that an order of places names, as many as an array has; those behind are read soon. "
        "The places are not checked, and in a call of C the array may go on behind its rows.",
)


# -- normal_index: indices counted from the front


def _normal_value(indices: Any, extent: Any) -> Any:
    indices = np.asarray(indices)
    bad = indices[(indices < -extent) | (indices >= extent)]
    if bad.size:
        raise IndexError(f"index {bad.flat[0]} is out of bounds for axis 0 with size {extent}")
    return np.where(indices < 0, indices.astype(INT) + extent, indices.astype(INT))


def _normal_body(node: Node) -> Body:
    axes = axes_of(node.shape)
    place = IndexValue(Lookup(Access(X, axes), node.param("extent"), 0), INT)
    return Body((Statement(Access(OUT, axes), How.SET, place, axes, node.line),))


def _rooted(x: Any, i: Any) -> Any:
    return np.sqrt(1.0 + OPS["normal_index"](i, extent=4)) * x


normal_index = structured(
    name="normal_index", params=("extent",), infer=lambda i, extent: (index_shape((i,), (0,), 1), INT),
    body=_normal_body, evaluate=_normal_value, nondiff=True, batched=lambda size, **params: params,
    sample=(case(_rooted, (3, 2), (3, 2), domain=(normal(), integers(-4, 3))),),
    edges=(case(_rooted, (0,), (0,), domain=(normal(), integers(-4, 3))),),
    doc="Indices of an axis, checked and counted from its front.",
)


# -- NumPy's functions


def checked_index(x: Any, axis: int, indices: Any) -> Any:
    """Check a constant index against a known extent and count it from the front; a traced one is checked in the run.

    Raises:
        IndexError: when an index is out of bounds.
    """
    extent = shape_of(x)[axis]
    traced, kind = is_traced(indices), indices.dtype.kind
    if kind not in "iub" or (kind == "b" and (traced or indices.size)):
        raise DtypeError(f"an index array must hold integers, not {indices.dtype}", instead="i.astype(np.int64)")
    if traced:
        return indices
    indices = indices.astype(np.int64)
    if type(extent) is not int:
        return indices
    bad = indices[(indices < -extent) | (indices >= extent)]
    if bad.size:
        raise OutOfBounds(f"index {bad.flat[0]} is out of bounds for axis {axis} with size {extent}")
    return np.where(indices < 0, indices + extent, indices)


@answers(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    refuse("take", out=out)
    (a, k), indices = along_axis(a, axis), lift(indices)
    if not is_traced(indices) and indices.size == 0:
        indices = indices.astype(np.int64)
    if mode not in {"wrap", "clip", "raise"}:
        raise ArgumentValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if mode != "raise":
        extent = a.shape[k]
        if type(shape_of(a)[k]) is not int:
            a.owner.require(0, shape_of(a)[k], "cannot do a non-empty take from an empty axes.")
        wraps = mode == "wrap"
        indices = np.remainder(indices, extent) if wraps else np.minimum(np.maximum(indices, 0), extent - 1)
    if not is_traced(indices) and indices.ndim == 0:
        place = (*[slice(None)] * k, int(checked_index(a, k, indices)))
        return fresh(a[place])
    return gather(a, checked_index(a, k, indices), axes=(k,))

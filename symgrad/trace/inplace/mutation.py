"""Writes into traced arrays: followed where NumPy's meaning is certain, refused with the line elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentValueError, MutationError
from symgrad.ir import shapes
from symgrad.ir.shapes import is_static
from symgrad.ops.arrays.indexing import first_axis
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.updates import add_at, scatter_set
from symgrad.ops.arrays.views import reshape, set_slice
from symgrad.ops.declare.forms import is_traced, shape_of
from symgrad.ops.elementwise.selection import where
from symgrad.trace.answers import call_ufunc
from symgrad.trace.indexing import axis_slice, basic, dots_between, expand, getitem, is_array, leading, narrowed
from symgrad.trace.inplace.views import assign, refuse_argument, store, stretched
from symgrad.trace.nested import settled
from symgrad.trace.selected import Selected
from symgrad.trace.source.lines import user_line
from symgrad.trace.tracer import Tracer, as_node, operand, record

if TYPE_CHECKING:

    from symgrad.ir.node import Node
    from symgrad.ir.op import Op


MATRIX = 2
"""The axes of a matrix."""


def setitem(x: Tracer, index: Any, value: Any) -> None:
    """``x[index] = value``; a number, which Python's names share but NumPy cannot write into, is refused."""
    if x.is_number:
        raise MutationError(
            "a write into a traced number: NumPy's numbers cannot be written into", line=user_line(),
            instead="x = value, or an array np.array(x) to write into", numpy_too=True,
        )
    write(x, index, value)


def write(x: Tracer, index: Any, value: Any) -> None:
    """Write into an array: ``x[index] = value`` by integers, slices, arrays of integers, and masks."""
    refuse_argument(x)
    trace, index, value = x.owner, settled(index), settled(value)
    value = value if type(value) in {bool, int, float} else lift(value)  # a number stays weak: it must fit
    if isinstance(index, Tracer) and index.dtype.kind == "b":
        assign(x, masked(x, index, value))
        return
    if type(value) is Selected:
        raise value.unknown("an assignment of it through something else than its mask")
    if is_mask(index, x) and np.ndim(value) == 0:
        source = operand(trace, value, x.dtype)
        assign(x, record(trace, where, (as_node(trace, index), source, x.node), {}).node)
        return
    entries = expand(x, index)
    if any(is_array(e) for e in entries):
        if type(value) is Tracer and value.base is not None and value.node is getitem(x, index).node:
            return  # the end of ``x[index] += y``, which has written into the view x[index]
        place, arrays = narrowed(x, entries)
        scatter(scatter_set, place, arrays, value, apart=dots_between(index))
        return
    places = tuple([axis_slice(x, axis, e) for axis, e in enumerate(e for e in entries if e is not None)])
    source = operand(trace, value, x.dtype)
    shape = tuple([p[1] for p in places if len(p) == 3])
    if source.shape != shape:
        source = as_node(trace, stretched(Tracer(source, trace), shape))
    assign(x, record(trace, set_slice, (x, source), {"index": places}).node)


def is_mask(index: Any, x: Tracer) -> bool:
    """Whether an index is a known mask of an array's shape."""
    return type(index) is np.ndarray and index.dtype.kind == "b" and index.shape == x.node.shape != ()


def masked(x: Tracer, mask: Tracer, value: Any) -> Node:
    """Return what ``x[mask] = value`` leaves in x, for a mask whose values are not known."""
    trace = x.owner
    mask = leading(mask, x)
    if type(value) is Selected:
        if as_node(trace, value.mask) is not mask.node:
            raise value.unknown("an assignment of it through another mask")
        value = value.values
    elif np.shape(value) and not (len(np.shape(value)) <= x.ndim - mask.ndim):
        raise MutationError(
            "an assignment of an array through a traced mask: how many elements it takes depends on values",
            line=user_line(), instead="x[mask] = array[mask], for an array of x's shape, or np.where(mask, array, x)",
        )
    source = Tracer(operand(trace, value, x.dtype), trace)
    axes = tuple(range(mask.ndim, x.ndim))
    wide: Any = np.expand_dims(mask, axes)
    made: Any = np.where(wide, source, np.copy(x))
    return made.node  # type: ignore[no-any-return]


def scatter(op: Op, x: Tracer, arrays: dict[int, Any], value: Any, *, apart: bool = False) -> None:
    """Write, by `scatter_set`, or add, by `add_at`, through arrays of integers, known or not."""
    trace, axes = x.owner, tuple(arrays)
    indices, part = flat_indices(list(arrays.values()))
    rest = [d for k, d in enumerate(x.node.shape) if k not in axes]
    start = 0 if apart else first_axis(axes)
    source = Tracer(operand(trace, value, x.dtype), trace)
    source = stretched(source, (*rest[:start], *part, *rest[start:]))
    if len(part) > 1:
        source = reshape(source, shape=(*rest[:start], shapes.size(part), *rest[start:]))
    if apart and first_axis(axes) and part:  # NumPy has the index arrays' axes in front here, the op in their place
        source = np.moveaxis(source, 0, first_axis(axes))
    params: dict[str, Any] = {"axes": axes}
    if "unique" in op.params:
        indices, source, params["unique"] = last_writes(indices, source, first_axis(axes), x.node.shape, axes)
    if 0 in source.node.shape:
        return
    assign(x, record(trace, op, (x, source, *indices), params).node)


def flat_indices(arrays: list[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """Give index arrays one axis, so that the order of writes is clear; also return the shape they had together."""
    part = shapes.broadcast(*[shape_of(a) for a in arrays])
    if len(part) < 2:
        return arrays, part
    return [np.reshape(stretched(lift(a), part), (-1,)) for a in arrays], part


def last_writes(
    indices: list[Any], source: Any, start: int, extents: Any, axes: tuple[int, ...],
) -> tuple[list[Any], Any, bool]:
    """Leave out, of several writes to one place, all but the last, where the places are known; tell if they are."""
    if any(is_traced(i) for i in indices) or not is_static(extents):
        return indices, source, False
    indices = list(np.broadcast_arrays(*indices))
    places = np.ravel_multi_index(indices, [extents[a] for a in axes])
    if places.ndim == 0:
        return indices, source, True
    _, firsts = np.unique(places[::-1], return_index=True)
    last = np.sort(len(places) - 1 - firsts)
    if len(last) < len(places):
        source = np.take(source, last, axis=start)
        indices = [i[last] for i in indices]
    return indices, source, True


def in_place(x: Tracer, ufunc: np.ufunc, other: Any) -> Tracer:
    """``x += other``: NumPy writes into x, keeps its dtype and shape, and so does this."""
    refuse_argument(x)
    if ufunc is np.matmul and np.ndim(other) < MATRIX:
        raise ArgumentValueError("x @= y of a y without two axes", line=user_line(), instead="x = x @ y")
    result = call_ufunc(x.owner, ufunc, (x, other))
    return store(x, result, ufunc.__name__)


def add_in_place(ufunc: np.ufunc, a: Any, indices: Any, b: Any) -> None:
    """As ``np.add.at`` and ``np.subtract.at``: places that are named several times are added to several times."""
    if type(a) is not Tracer or ufunc not in {np.add, np.subtract}:
        raise MutationError(
            f"np.{ufunc.__name__}.at with a traced value, into a plain array or by another function than addition",
            line=user_line(), instead="np.add.at and np.subtract.at, for an array made inside of the function",
        )
    refuse_argument(a)
    indices, b = settled(indices), lift(settled(b))
    entries = expand(a, indices)
    if not np.can_cast(b.dtype, a.dtype, "same_kind"):
        raise MutationError(
            f"np.{ufunc.__name__}.at of {b.dtype} into an array of {a.dtype}, which is rounded at each step",
            line=user_line(), instead="a = a.astype(np.float64) first",
        )
    b = b if ufunc is np.add else -b
    if any(is_array(e) for e in entries):
        place, arrays = narrowed(a, entries)
        scatter(add_at, place, arrays, b, apart=dots_between(indices))
        return
    view = basic(a, entries)
    assign(view, operand(a.owner, view + b, a.dtype))



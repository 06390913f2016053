"""Writes into traced arrays, by ``x[index] = y`` and by NumPy's functions: followed where their meaning is certain."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, MutationError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import is_static
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Op
from symgrad.ir.program import Program
from symgrad.ops.arrays.indexing import first_axis
from symgrad.ops.arrays.indexing import gather as picked
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.updates import add_at, scatter_set
from symgrad.ops.arrays.views import broadcast_to, reshape, set_slice
from symgrad.ops.control import result, scan
from symgrad.ops.declare.forms import answers, is_traced, shape_of
from symgrad.ops.declare.leaves import make_input
from symgrad.ops.elementwise.selection import where
from symgrad.ops.numpy.creation import arange
from symgrad.ops.numpy.sets import in_order
from symgrad.trace.constants import constant
from symgrad.trace.inplace.views import assign, broadcast_written, refuse_argument, store
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.answers import call_ufunc
from symgrad.trace.numpy.indexing import (
    MaskedIndex,
    axis_slice,
    basic,
    dots_between,
    expand,
    getitem,
    is_array,
    masked_index,
    narrowed,
)
from symgrad.trace.numpy.selected import Selected
from symgrad.trace.state import Trace, tracing
from symgrad.trace.tracer import Tracer, as_node, operand, record

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
    if (by_mask := masked_index(x, index)) is not None:
        made = masked(x, by_mask, value)
        if by_mask.index is None:
            assign(x, made)
        else:
            write(x, by_mask.index, Tracer(made, trace))
        return
    if isinstance(index, Tracer) and index.dtype.kind == "b":
        index = index.known()
    if isinstance(value, Selected):
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
    extents = [p[1] for p in places if len(p) == 3]
    left = iter(extents)
    shape = tuple([1 if e is None else next(left) for e in entries if e is None or isinstance(e, slice)])
    if source.shape != shape:
        source = as_node(trace, broadcast_written(Tracer(source, trace), shape))
    if len(shape) > len(extents):
        source = as_node(trace, reshape(Tracer(source, trace), shape=tuple(extents)))
    assign(x, record(trace, set_slice, (x, source), {"index": places}).node)


def is_mask(index: Any, x: Tracer) -> bool:
    """Whether an index is a known mask of an array's shape."""
    return type(index) is np.ndarray and index.dtype.kind == "b" and index.shape == x.node.shape != ()


def masked(x: Tracer, by_mask: MaskedIndex, value: Any) -> Node:
    """Return what a write through a mask whose values are not known leaves at all places of the mask."""
    trace, mask, axis = x.owner, by_mask.mask, by_mask.axis
    front = by_mask.front(x)
    rank = front.ndim - mask.ndim + 1  # of what NumPy writes to
    if isinstance(value, Selected):
        value = value.laid(axis, rank).behind(mask)
    elif np.ndim(value):
        while np.ndim(value) > rank and shape_of(value)[0] == 1:  # as of all writes
            value = value[0]
        along = np.ndim(value) - rank + axis
        if along >= 0:
            if np.ndim(value) > rank or shape_of(value)[along] != 1:
                raise MutationError(
                    "an assignment of an array through a traced mask: how many elements it takes depends on values",
                    line=user_line(),
                    instead="x[mask] = array[mask], for an array of x's shape, or np.where(mask, array, x)",
                )
            value = np.take(value, 0, axis=along)
    source = Tracer(operand(trace, value, x.dtype), trace)
    wide: Any = np.expand_dims(mask, tuple(range(mask.ndim, front.ndim)))
    made: Any = np.where(wide, source, np.copy(front))
    if by_mask.start:
        made = np.moveaxis(made, tuple(range(mask.ndim)), tuple(range(by_mask.start, by_mask.start + mask.ndim)))
    return made.node  # type: ignore[no-any-return]


def scatter(op: Op, x: Tracer, arrays: dict[int, Any], value: Any, *, apart: bool = False) -> None:
    """Write, by `scatter_set`, or add, by `add_at`, through arrays of integers, known or not."""
    trace, axes = x.owner, tuple(arrays)
    indices, source = _written(x, arrays, Tracer(operand(trace, value, x.dtype), trace), apart=apart)
    params: dict[str, Any] = {"axes": axes}
    if "unique" in op.params:
        indices, source, params["unique"] = last_writes(indices, source, first_axis(axes), x.node.shape, axes)
    if 0 in shape_of(source):
        return
    assign(x, record(trace, op, (x, source, *indices), params).node)


def _written(x: Tracer, arrays: dict[int, Any], source: Any, *, apart: bool) -> tuple[list[Any], Any]:
    """Give the index arrays, and what is written through them, one axis together, where a gather has it."""
    axes, indices = tuple(arrays), [*arrays.values()]
    part = shapes.broadcast(*[shape_of(a) for a in indices])
    if len(part) > 1:  # so that the order of writes is clear
        lifted = [lift(a) if is_static(part) else Tracer(as_node(x.owner, a), x.owner) for a in indices]
        indices = [np.reshape(broadcast_written(a, part), (-1,)) for a in lifted]
    rest = [d for k, d in enumerate(x.node.shape) if k not in axes]
    start = 0 if apart else first_axis(axes)
    source = broadcast_written(source, (*rest[:start], *part, *rest[start:]))
    if len(part) > 1:
        source = reshape(source, shape=(*rest[:start], shapes.size(part), *rest[start:]))
    if apart and first_axis(axes) and part:  # NumPy has the index arrays' axes in front here, the op in their place
        source = np.moveaxis(source, 0, first_axis(axes))
    return indices, source


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


def at_places(ufunc: np.ufunc, a: Any, indices: Any, b: Any = None) -> None:
    """As ``ufunc.at``: a place that is named several times is computed several times, in the order of the indices."""
    if type(a) is not Tracer:
        raise MutationError(
            f"np.{ufunc.__name__}.at of a traced value into a plain array", line=user_line(),
            instead="an array made inside of the function",
        )
    if ufunc.nin - 1 != (b is not None) or ufunc.nout != 1 or ufunc.signature is not None:
        count = "second operand needed for ufunc" if ufunc.nin > 1 else "second operand provided when ufunc is unary"
        raise ArgumentValueError(count if ufunc.nin < 3 else "Only unary and binary ufuncs supported", line=user_line())
    refuse_argument(a)
    indices, others = settled(indices), [] if b is None else [lift(settled(b))]  # an array: of a number, too, its dtype
    entries = expand(a, indices)
    kind = ufunc.resolve_dtypes((a.dtype, *[v.dtype for v in others], None))[-1]
    if not np.can_cast(kind, a.dtype, "same_kind"):
        raise MutationError(
            f"np.{ufunc.__name__}.at gives {kind} in an array of {a.dtype}, which is rounded at each step",
            line=user_line(), instead="a = a.astype(np.float64) first",
        )
    if not any(is_array(e) for e in entries):
        view = basic(a, entries)
        made = broadcast_written(call_ufunc(a.owner, ufunc, (view, *others)), view.node.shape)
        assign(view, operand(a.owner, made, a.dtype))
        return
    place, arrays = narrowed(a, entries)
    apart = dots_between(indices)
    if ufunc in {np.add, np.subtract}:
        scatter(add_at, place, arrays, others[0] if ufunc is np.add else -others[0], apart=apart)
        return
    _folded_at(ufunc, place, arrays, others, apart=apart)


def _folded_at(ufunc: np.ufunc, x: Tracer, arrays: dict[int, Any], others: list[Any], *, apart: bool) -> None:
    """Write what a ufunc makes, for each place, of what stands there and of its values, one after the other.

    In the order of their places the values of each stand beside each other: so one loop carries what the value before
    left, begins anew where the place is another one, and the last of each is what is written.
    """
    trace, axes = x.owner, tuple(arrays)
    given: Any = others[0] if others else np.zeros((), x.dtype)
    indices, source = _written(x, arrays, Tracer(as_node(trace, given), trace), apart=apart)
    if 0 in shape_of(source):
        return
    start = first_axis(axes)
    indices, order, first = _by_place(x, indices, axes)
    if order is not None:
        source = np.take(source, order, axis=start)
    old = picked(x, *indices, axes=axes)
    if first is None:
        made = call_ufunc(trace, ufunc, (old, source)[: ufunc.nin]).astype(x.dtype)
    else:
        rows = [as_node(trace, v) for v in (first, np.moveaxis(old, start, 0), np.moveaxis(source, start, 0))]
        begun = broadcast_to(Tracer(as_node(trace, np.zeros((), x.dtype)), trace), shape=rows[1].shape[1:])
        several = record(trace, scan, (begun, *rows), {
            "body": _step_of(ufunc, rows), "length": rows[0].shape[0], "fixed": 0, "carried": 1, "reverse": False})
        stacked: Any = record(trace, result, (several,), {"number": 1})
        made = np.moveaxis(stacked, 0, start)
    indices, made, unique = last_writes(indices, made, start, x.node.shape, axes)
    assign(x, record(trace, scatter_set, (x, made, *indices), {"axes": axes, "unique": unique}).node)


def _by_place(x: Tracer, indices: list[Any], axes: tuple[int, ...]) -> tuple[list[Any], Any, Any]:
    """Sort index arrays by the places they name; return their order, and which are the first of their places.

    None for both where no place is named twice, as is known.
    """
    flat = shapes.broadcast(*[shape_of(i) for i in indices])
    if not flat:
        return indices, None, None
    places: Any = 0
    for i, axis in zip(indices, axes, strict=True):
        extent = x.shape[axis]
        places = places * extent + np.where(np.less(i, 0), i + extent, i)
    if is_traced(places):
        indices = [broadcast_written(Tracer(as_node(x.owner, i), x.owner), flat) for i in indices]
        _, order, first = in_order(places)
    else:
        indices = list(np.broadcast_arrays(*indices))
        order = np.argsort(places, stable=True)
        first = np.diff(places[order], prepend=-1) != 0
        if np.all(first):
            return indices, None, None
    return [np.take(i, order) for i in indices], order, first


def _step_of(ufunc: np.ufunc, rows: list[Node]) -> Program:
    """Return a step of that loop, made of what it carries, whether a place begins, what stood there, and a value."""
    names = {"total": rows[1], **dict(zip(("begins", "old", "value"), rows, strict=True))}
    with tracing(Trace(Graph(), f"{ufunc.__name__}_at"), ends=True) as now:
        inputs = [make_input(now.graph, name, row.shape[1:], row.dtype) for name, row in names.items()]
        total, begins, old, value = [Tracer(node, now) for node in inputs]
        made = call_ufunc(now, ufunc, (np.where(begins, old, total), value)[: ufunc.nin]).astype(old.dtype)
        return Program(tuple(inputs), (made.node, made.node), now.function)


def require_traced(name: str, a: Any, instead: str, *, static: bool = True) -> Tracer:
    """Check that a written array is a traced one, of known extents where that is needed."""
    if type(a) is not Tracer:
        raise MutationError(
            f"np.{name} of a traced value into a plain array", line=user_line(),
            instead=f"{instead}, for an array x made inside of the function",
        )
    if a.is_number:
        raise MutationError(
            f"np.{name} of a traced number: NumPy's numbers cannot be written into", line=user_line(),
            instead="an array np.array(x) to write into", numpy_too=True,
        )
    if static and not is_static(a.node.shape):
        raise MutationError(f"np.{name} into an array of unknown extents", line=user_line(), instead=instead)
    return a


def _elements(a: Tracer) -> Tracer:
    made: Tracer = reshape(a, shape=(shapes.size(a.node.shape),))
    return made


def _repeated(values: Any, count: int) -> Any:
    """Repeat or cut values to a count, as NumPy's put, place and fill_diagonal do."""
    values = np.ravel(lift(values))
    have = values.shape[0]
    if have == count or (have == 1 and count):
        return values if have == count else values[0]
    return np.take(values, np.arange(count) % max(have, 1))


def fill_flat(a: Tracer, values: Any) -> None:
    """As ``a.flat = values``."""
    values = lift(settled(values))
    if np.ndim(values):
        a = require_traced("ndarray.flat", a, "x[...] = values")
        values = _repeated(values, a.size)
    setitem(a if not np.ndim(values) else _elements(a), ..., values)


@answers(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """As `numpy.copyto` into a traced array."""
    a = require_traced("copyto", dst, "x[...] = value", static=False)
    source = lift(src) if is_traced(src) else np.asarray(src)
    if casting == "unsafe":
        src = source.astype(a.dtype)
    elif casting != "same_kind" or not np.can_cast(source.dtype if is_traced(src) else source, a.dtype, "same_kind"):
        raise MutationError(
            f"np.copyto into an array of {a.dtype} with casting={casting!r}", line=user_line(),
            instead="x[...] = value, which converts to x's dtype", numpy_too=casting == "same_kind",
        )
    if where is True:
        setitem(a, ..., src)
        return
    source = Tracer(operand(a.owner, lift(src), a.dtype), a.owner)
    while source.ndim > a.ndim and source.shape[0] == 1:  # as of what is assigned
        source = source[0]
    kept: Any = np.where(lift(where), source, Tracer(a.node, a.owner))
    if kept.node.shape != a.node.shape:
        raise MutationError(
            f"np.copyto of {kept.node.shape} into an array of {a.node.shape}", line=user_line(), instead="equal shapes",
            numpy_too=True,
        )
    assign(a, kept.node)


@answers(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """As `numpy.put` into a traced array, with known indices or as many values as indices."""
    a = require_traced("put", a, "x.flat[indices] = values")
    ind = np.ravel(lift(ind))
    if mode not in {"raise", "wrap", "clip"}:
        raise ArgumentValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if mode != "raise":
        ind = np.remainder(ind, a.size) if mode == "wrap" else np.clip(ind, 0, a.size - 1)
    setitem(_elements(a), ind, _repeated(v, ind.shape[0]))


@answers(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """As `numpy.putmask` into a traced array."""
    a = require_traced("putmask", a, "x[mask] = values[mask]")
    values = _repeated(values, a.size)
    whole = np.reshape(values, a.shape) if np.ndim(values) else values
    source = Tracer(operand(a.owner, whole, a.dtype), a.owner)
    made: Any = np.where(np.reshape(lift(mask), a.shape), source, Tracer(a.node, a.owner))
    assign(a, made.node)


@answers(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """As `numpy.place` into a traced array: the values in turn, for each element that is selected the next one."""
    a = require_traced("place", arr, "x[mask] = values")
    mask, vals = lift(mask), np.ravel(lift(vals))
    if shapes.size(shape_of(mask)) != a.size:
        raise ShapeError("place: mask and data must be the same size")
    if is_traced(mask):
        mask = np.ravel(mask)
        mask = mask if mask.dtype.kind == "b" else mask != 0
        if type(vals) is not Selected:
            turn = np.maximum(np.cumsum(mask) - 1, 0) % max(vals.shape[0], 1)
            vals = vals[0] if vals.shape[0] == 1 else Selected(picked(vals, turn, axes=(0,)), mask)
        setitem(_elements(a), mask, vals)
        return
    places = np.flatnonzero(mask)
    setitem(_elements(a), places, _repeated(vals, len(places)))


@answers(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """As `numpy.fill_diagonal` of a traced array."""
    equal = type(a) is Tracer and len({*a.node.shape}) == 1
    a = require_traced("fill_diagonal", a, "x[np.arange(n), np.arange(n)] = value", static=not equal)
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise MutationError(
            f"np.fill_diagonal of an array of shape {a.shape}", line=user_line(),
            instead="a matrix, or an array of equal extents", numpy_too=True,
        )
    if equal and not is_static(a.node.shape):
        origin = constant(a.owner, np.int64(0))
        places = record(a.owner, arange, (origin,), {"count": a.node.shape[0], "step": 1})
        setitem(a, (places,) * a.ndim, val)
        return
    end = a.shape[1] ** 2 if a.ndim == 2 and not wrap else a.size
    step = a.shape[1] + 1 if a.ndim == 2 else 1 + int(np.cumprod(a.shape[:-1]).sum())
    count = len(range(0, min(end, a.size), step))
    values = lift(val)
    setitem(_elements(a)[0 : min(end, a.size) : step], ..., _repeated(values, count) if np.ndim(values) else values)

"""NumPy's functions that write into an array: copyto, put, place, putmask, put_along_axis, fill_diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, MutationError, ShapeError
from symgrad.ir import shapes
from symgrad.ir.shapes import is_static
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import reshape
from symgrad.ops.declare.forms import answers, is_traced, normal_axis, shape_of
from symgrad.trace.inplace.mutation import masked, setitem
from symgrad.trace.inplace.views import assign
from symgrad.trace.nested import settled
from symgrad.trace.source.lines import user_line
from symgrad.trace.tracer import Tracer, operand


def _known(name: str, a: Any, instead: str, *, static: bool = True) -> Tracer:
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
    """Return a view of an array's elements in C order."""
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
        a = _known("ndarray.flat", a, "x[...] = values")
        values = _repeated(values, a.size)
    setitem(a if not np.ndim(values) else _elements(a), ..., values)


@answers(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """As `numpy.copyto` into a traced array."""
    a = _known("copyto", dst, "x[...] = value", static=False)
    if casting != "same_kind" or not np.can_cast(lift(src).dtype if is_traced(src) else np.asarray(src), a.dtype, "same_kind"):  # noqa: E501
        raise MutationError(
            f"np.copyto into an array of {a.dtype} with casting={casting!r}", line=user_line(),
            instead="x[...] = value, which converts to x's dtype", numpy_too=casting == "same_kind",
        )
    if where is True:
        setitem(a, ..., src)
        return
    source = Tracer(operand(a.owner, lift(src), a.dtype), a.owner)
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
    a = _known("put", a, "x.flat[indices] = values")
    ind = np.ravel(lift(ind))
    if mode not in {"raise", "wrap", "clip"}:
        raise ArgumentValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if mode != "raise":
        ind = np.remainder(ind, a.size) if mode == "wrap" else np.clip(ind, 0, a.size - 1)
    setitem(_elements(a), ind, _repeated(v, ind.shape[0]))


@answers(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """As `numpy.putmask` into a traced array."""
    a = _known("putmask", a, "x[mask] = values[mask]")
    values = _repeated(values, a.size)
    whole = np.reshape(values, a.shape) if np.ndim(values) else values
    source = Tracer(operand(a.owner, whole, a.dtype), a.owner)
    made: Any = np.where(np.reshape(lift(mask), a.shape), source, Tracer(a.node, a.owner))
    assign(a, made.node)


@answers(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """As `numpy.place` into a traced array: a known mask, or one number."""
    a = _known("place", arr, "x[mask] = values")
    mask, vals = lift(mask), np.ravel(lift(vals))
    if shapes.size(shape_of(mask)) != a.size:
        raise ShapeError("place: mask and data must be the same size")
    if is_traced(mask):
        if vals.shape[0] != 1:
            raise MutationError(
                "np.place of an array through a traced mask: which element goes where depends on values",
                line=user_line(), instead="x[mask] = array[mask], or np.where(mask, array, x)",
            )
        whole: Any = np.reshape(mask, a.shape)
        assign(a, masked(a, whole.astype(bool), vals[0]))
        return
    places = np.flatnonzero(mask)
    setitem(_elements(a), places, _repeated(vals, len(places)))


@answers(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """As `numpy.put_along_axis` into a traced array."""
    a = _known("put_along_axis", arr, "x[indices] = values")
    indices = lift(indices)
    if axis is None:
        if indices.ndim != 1:
            raise ShapeError("when axis=None, `indices` must have a single dimension.")
        setitem(_elements(a), indices, values)
        return
    if indices.ndim != a.ndim:
        raise ShapeError("`indices` and `arr` must have the same number of dimensions")
    along = normal_axis(axis, a.ndim)
    places: list[Any] = [
        np.reshape(np.arange(extent), [-1 if d == k else 1 for d in range(a.ndim)]) for k, extent in enumerate(a.shape)
    ]
    places[along] = indices
    setitem(a, tuple(places), values)


@answers(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """As `numpy.fill_diagonal` of a traced array."""
    a = _known("fill_diagonal", a, "x[np.arange(n), np.arange(n)] = value")
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise MutationError(
            f"np.fill_diagonal of an array of shape {a.shape}", line=user_line(),
            instead="a matrix, or an array of equal extents", numpy_too=True,
        )
    end = a.shape[1] ** 2 if a.ndim == 2 and not wrap else a.size
    step = a.shape[1] + 1 if a.ndim == 2 else 1 + int(np.cumprod(a.shape[:-1]).sum())
    count = len(range(0, min(end, a.size), step))
    values = lift(val)
    setitem(_elements(a)[0 : min(end, a.size) : step], ..., _repeated(values, count) if np.ndim(values) else values)


def put_method(self: Tracer, indices: Any, values: Any, mode: str = "raise") -> None:
    """As `ndarray.put`."""
    put(self, settled(indices), settled(values), mode)



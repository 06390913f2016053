"""Array manipulation as NumPy writes it: shapes, axes, repeating, splitting, joining."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, MutationError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.extents import meeting
from symgrad.ir.index.shapes import Shape, simplified
from symgrad.ops.arrays.copies import an_array, broadcast_like, checked_shape, fresh
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import along_axis, lift
from symgrad.ops.arrays.views import sliced
from symgrad.ops.declare.forms import (
    OPS,
    answers,
    dims,
    equal,
    is_traced,
    normal_axes,
    normal_axis,
    refuse,
    shape_of,
)


def static(function: str, name: str, value: Any) -> Any:
    """Return an argument that must be known while tracing."""
    entries = value if isinstance(value, (tuple, list)) else (value,)
    if any(is_traced(entry) and not hasattr(entry, "dim") for entry in entries):
        raise UnsupportedError(
            f"np.{function}: {name} is traced, and the result's shape or place depends on it",
            instead=f"a plain {name}; static_argnames= where it is an argument",
        )
    return value


# -- turning


@answers(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    a = lift(a)
    if axis is None:
        return np.reshape(roll(np.ravel(a), shift, 0), a.shape)
    shift_by = dims(shift)
    axes = [normal_axis(k, a.ndim) for k in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(shift_by) != len(axes) and 1 not in {len(shift_by), len(axes)}:
        raise ShapeError("'shift' and 'axis' should be scalars or 1D sequences")
    count = max(len(shift_by), len(axes)) if shift_by and axes else 0
    total: dict[int, Any] = {}
    for j in range(count):
        k = axes[j % len(axes)]
        total[k] = total.get(k, 0) + shift_by[j % len(shift_by)]
    for k, by in total.items():
        extent = shape_of(a)[k]
        if type(extent) is type(by) is int:
            last: Any = by % max(extent, 1)
        else:
            import sympy

            last = sympy.Mod(by, sympy.Max(extent, 1))
        if last != 0:  # the last elements come to the front
            a = OPS["concatenate"](sliced(a, k, extent - last, last), sliced(a, k, 0, extent - last), axis=k)
    return fresh(a)


# -- repeating


@answers(np.tile)
def tile(A: Any, reps: Any) -> Any:
    a = lift(A)
    times = checked_shape(static("tile", "reps", reps))
    have = (1,) * (len(times) - a.ndim) + shape_of(a)
    times = (1,) * (len(have) - len(times)) + times
    rows = tuple([d for pair in zip(times, have, strict=True) for d in pair])
    apart = OPS["reshape"](a, shape=tuple([d for n in have for d in (1, n)]))
    return fresh(OPS["reshape"](
        OPS["broadcast_to"](apart, shape=rows),
        shape=tuple([simplified(t * n) for t, n in zip(times, have, strict=True)]),
    ))


@answers(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """As `numpy.repeat`; the repeats are plain numbers."""
    a, k = along_axis(a, axis)
    extent = shape_of(a)[k]
    if not hasattr(repeats, "dim"):
        counts = np.asarray(static("repeat", "repeats", repeats))
        if counts.size != 1 and type(extent) is not int:
            raise UnsupportedError("np.repeat by an array along an unknown extent", instead="one number of repeats")
        if counts.size != 1:
            return gather(a, np.repeat(np.arange(extent), counts), axes=(k,))
        repeats = int(counts.reshape(()))
    times = checked_shape(repeats)[0]
    apart = OPS["expand_dims"](a, axes=(k + 1,))
    have = shape_of(a)
    wide = OPS["broadcast_to"](apart, shape=(*have[: k + 1], times, *have[k + 1 :]))
    return fresh(OPS["reshape"](wide, shape=(*have[:k], simplified(extent * times), *have[k + 1 :])))


def _split(ary: Any, given: Any, axis: Any, *, even: bool) -> list[Any]:
    ary = lift(ary)
    k = normal_axis(axis, ary.ndim)
    extent = shape_of(ary)[k]
    if isinstance(given, (tuple, list, np.ndarray)):
        places = static("split", "indices", list(given))
        cuts = [c if hasattr(c, "dim") else operator.index(c) for c in places]
        parts = [slice(low, high) for low, high in zip([0, *cuts], [*cuts, None], strict=True)]
        return [ary[(slice(None),) * k + (part,)] for part in parts]
    sections = int(static("split", "sections", given))
    if even and type(extent) is int and extent % given:
        raise ShapeError("array split does not result in an equal division")
    if sections <= 0:
        raise ArgumentValueError("number sections must be larger than 0.")
    if type(extent) is not int:
        import sympy

        width = sympy.cancel(extent / sympy.Integer(sections))
        if width.is_integer:
            return [sliced(ary, k, width * j, width) for j in range(sections)]
        if even:
            raise UnsupportedError(
                f"the unknown extent {extent} does not split into {sections} equal parts",
                instead=f"np.array_split(x, {sections}), or np.split(x, [index, ...])")
        counts = [sympy.floor((extent + sections - 1 - j) / sympy.Integer(sections)) for j in range(sections)]
        return [sliced(ary, k, shapes.simplified(sum(counts[:j], sympy.S.Zero)), shapes.simplified(count))
                for j, count in enumerate(counts)]
    each, extra = divmod(extent, sections)
    starts = [j * each + min(j, extra) for j in range(sections + 1)]
    return [sliced(ary, k, start, end - start) for start, end in pairwise(starts)]


answers(np.array_split)(lambda ary, indices_or_sections, axis=0: _split(ary, indices_or_sections, axis, even=False))
answers(np.split)(lambda ary, indices_or_sections, axis=0: _split(ary, indices_or_sections, axis, even=True))


@answers(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    arr, values = lift(arr), lift(values)
    if axis is None:
        return np.concatenate([np.ravel(arr), np.ravel(values)])
    return np.concatenate([arr, values], axis)


@answers(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """As `numpy.compress`, by a plain condition; by a traced one what a mask selects."""
    refuse("compress", out=out)
    if is_traced(condition) and condition.ndim == 1:
        a = np.ravel(lift(a)) if axis is None else lift(a)
        if axis is not None and normal_axis(axis, a.ndim) != 0:
            raise UnsupportedError(
                f"np.compress by a traced condition along axis {axis}",
                instead="np.compress(condition, np.moveaxis(x, axis, 0), axis=0), or np.where(condition, x, 0)")
        chosen = condition if condition.dtype.kind == "b" else condition != 0
        missing = shape_of(a)[0] - shape_of(chosen)[0]
        return a[np.concatenate([chosen, np.zeros(missing, bool)]) if type(missing) is int and missing > 0 else chosen]
    if np.ndim(static("compress", "condition", condition)) != 1:
        raise ArgumentValueError("condition must be a 1-d array")
    return np.take(lift(a), np.flatnonzero(condition), axis)


@answers(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    refuse("choose", out=out)
    places, *arrays = np.broadcast_arrays(lift(a), *choices)
    if mode not in {"raise", "wrap", "clip"}:
        raise ArgumentValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if mode == "raise":
        places = np.where(np.less(places, 0), len(arrays), places)  # where NumPy has no choice, either
    else:
        places = np.remainder(places, len(arrays)) if mode == "wrap" else np.clip(places, 0, len(arrays) - 1)
    return np.take_along_axis(np.stack(arrays), places[None], 0)[0]


# -- shapes


def _perhaps_a_view(x: Any, y: Any, name: str) -> Any:
    """Make `y` refuse to be read after a write to `x`, where the memory layout decides whether NumPy copied."""
    if not is_traced(x) or y is x:
        return y

    def stale(_: Any) -> Any:
        raise MutationError(
            f"the result of np.{name} is read after the array it was made from was written; "
            "whether NumPy copied there depends on the memory layout",
            instead=f"np.{name}(x).copy() for the values before the write, or np.{name} again after it",
        )

    return type(y)(y.node, y.owner, base=x, view=stale)


def completed(a: Any, want: Shape) -> Shape:
    """Put the extent that is left of an array's in the place of -1."""
    old = shape_of(a)
    places = [k for k, d in enumerate(want) if type(d) is int and d < 0]
    refused = f"cannot reshape {shapes.show(old)} into {shapes.show(want)}"
    if not places:
        return want
    if len(places) > 1:
        raise ShapeError("can only specify one unknown dimension")
    total, known = shapes.size(old), shapes.size(tuple([d for k, d in enumerate(want) if k not in places]))
    left = _quotient(total, known)
    if left is None:
        raise ShapeError(f"{refused}: {total} elements are not a multiple of {known}")
    if type(known) is not int and is_traced(a):
        a.owner.require(0, known, f"{refused}: the extents beside -1 must not be 0")
    return (*want[: places[0]], left, *want[places[0] + 1 :])


def _quotient(total: Any, known: Any) -> Any:
    """Divide two sizes, exactly for every extent, or in every so many calls; else return None."""
    if type(total) is int and type(known) is int:
        return None if known == 0 or total % known else total // known
    if type(known) is int and known == 0:
        return None
    import sympy

    left = sympy.cancel(total / known)
    if sympy.fraction(left)[1] == 1 and left.is_integer:
        return shapes.simplified(left)
    whole = shapes.simplified(sympy.floor(total / known))
    return None if type(known) is not int or meeting(total, whole * known) is None else whole


def _lifted_array(a: Any) -> Any:
    """Make an array of what NumPy makes one of here: a list, or a number of Python's."""
    a = lift(a)
    return an_array(a) if getattr(a, "weak", None) is not None else a


@answers(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    a = _lifted_array(a)
    given = newshape if shape is None else shape
    if given is None:
        return a
    given = dims(given)
    want = completed(a, given)
    _known_order("reshape", order)
    if order == "F":
        return np.transpose(_reshape_to(np.transpose(a), want[::-1], "reshape", copy=copy))
    return _reshape_to(a, want, "reshape", copy=copy)


def _reshape_to(a: Any, want: Shape, name: str, *, copy: Any = None) -> Any:
    have, need = shapes.size(shape_of(a)), shapes.size(want)
    if is_traced(a) and have != need and a.owner.meet(have, need) == need:  # of the first elements, all in most calls
        a = OPS["slice"](np.ravel(a), index=((0, need, 1),))
    y = a if want == shape_of(a) else OPS["reshape"](a, shape=want)
    y = y if np.ndim(a) <= 1 else _perhaps_a_view(a, y, name)  # of one axis, whatever its stride, it is a view
    return fresh(y) if copy else y


def _known_order(function: str, order: str | None) -> None:
    if order not in {"C", "F", None}:  # the last is as the first
        raise UnsupportedError(f"np.{function}(..., order={order!r}) depends on the memory layout", instead="C or F")


@answers(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    a = lift(a)
    _known_order("ravel", "C" if order == "K" and a.ndim <= 1 else order)
    a = np.transpose(a) if order == "F" else a
    if a.ndim == 1 and is_traced(a) and a.base is not None:  # a slice may have a step, and is copied then
        return _perhaps_a_view(a, fresh(a), "ravel")
    return _reshape_to(a, (shapes.size(shape_of(a)),), "ravel")


@answers(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    a = lift(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axis = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normal_axes(axis, a.ndim + count, listed=True)
    return OPS["expand_dims"](a, axes=axes) if axes else a


@answers(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """As `numpy.squeeze`; an open extent is dropped nowhere: calls where it is 1 are compiled apart."""
    a = _lifted_array(a)
    have = shape_of(a)
    if axis is None:
        drops = f"np.squeeze drops an axis of extent 1, and {shapes.show(have)} has one in this call alone"
        axes = tuple([k for k, d in enumerate(have) if equal(d, 1, a, drops)])
    else:
        axes = normal_axes(axis, a.ndim)
    if any(have[k] != 1 for k in axes):
        raise ShapeError(f"np.squeeze of axis {axis} of {shapes.show(have)}: only an extent of 1 can be dropped")
    return OPS["squeeze"](a, axes=axes) if axes else a


@answers(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """As `numpy.broadcast_to`: a view, also of the same shape and of a number, that cannot be written."""
    array, want = lift(array), checked_shape(shape)
    if not is_traced(array) and any(type(dim) is not int for dim in want):
        raise UnsupportedError(
            f"np.broadcast_to of a plain array to {shapes.show(want)}, which has open extents",
            instead="np.full(shape, array), which may be written too, or a product with np.ones(shape)",
        )
    if is_traced(array) and array.is_number:
        array = an_array(array)
    return OPS["broadcast_to"](array, shape=want)


@answers(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    arrays = [lift(a) for a in args]
    want = shapes.broadcast(*[shape_of(a) for a in arrays])
    like = next((a for a in arrays if is_traced(a)), None)
    return tuple([broadcast_like(like, a, want) for a in arrays])


# -- axes


def reordered(a: Any, axes: tuple[int, ...]) -> Any:
    """Transpose, unless the axes are in order already."""
    return a if axes == tuple(range(len(axes))) else OPS["transpose"](a, axes=axes)


@answers(np.transpose)
def transpose(a: Any, axes: Any = None) -> Any:
    a = _lifted_array(a)
    if axes is None:
        return reordered(a, tuple(reversed(range(a.ndim))))
    given = axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,)
    if len(given) != a.ndim:
        raise ShapeError(f"axes don't match array: {len(given)} axes for {shapes.show(shape_of(a))}")
    order = tuple([normal_axis(k, a.ndim) for k in given])
    if len(set(order)) != len(order):
        raise ShapeError("repeated axis in transpose")
    return reordered(a, order)


@answers(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    a = lift(a)
    i, j = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return reordered(a, tuple(order))

"""Array manipulation as NumPy writes it: turning, repeating, splitting, stacking, diagonals."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ir.shapes import simplified
from symgrad.ops.arrays.copies import extents, fresh
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import sliced
from symgrad.ops.declare.forms import OPS, answers, dims, is_traced, normal_axis, shape_of


def static(function: str, name: str, value: Any) -> Any:
    """Return an argument that must be known while tracing.

    Raises:
        UnsupportedError: when it is traced.
    """
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
    times = extents(static("tile", "reps", reps))
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
    a = lift(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    k = normal_axis(axis, a.ndim)
    extent = shape_of(a)[k]
    if not hasattr(repeats, "dim"):
        counts = np.asarray(static("repeat", "repeats", repeats))
        if counts.size != 1 and type(extent) is not int:
            raise UnsupportedError("np.repeat by an array along an unknown extent", instead="one number of repeats")
        if counts.size != 1:
            return gather(a, np.repeat(np.arange(extent), counts), axes=(k,))
        repeats = int(counts.reshape(()))
    times = extents(repeats)[0]
    apart = OPS["expand_dims"](a, axes=(k + 1,))
    have = shape_of(a)
    wide = OPS["broadcast_to"](apart, shape=(*have[: k + 1], times, *have[k + 1 :]))
    return fresh(OPS["reshape"](wide, shape=(*have[:k], simplified(extent * times), *have[k + 1 :])))


# -- splitting


def _split(ary: Any, indices_or_sections: Any, axis: Any, *, even: bool) -> list[Any]:
    ary = lift(ary)
    k = normal_axis(axis, ary.ndim)
    extent = shape_of(ary)[k]
    given = indices_or_sections
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
        if not width.is_integer:
            raise UnsupportedError(
                f"the unknown extent {extent} does not split into {sections} parts", instead="np.split(x, [index, ...])"
            )
        return [sliced(ary, k, width * j, width) for j in range(sections)]
    each, extra = divmod(extent, sections)
    starts = [j * each + min(j, extra) for j in range(sections + 1)]
    return [sliced(ary, k, start, end - start) for start, end in pairwise(starts)]


@answers(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    return _split(ary, indices_or_sections, axis, even=False)


# -- stacking


@answers(np.block)
def block(arrays: Any) -> Any:
    rank = max(_depth(arrays), *[lift(x).ndim for x in _leaves(arrays)])
    return fresh(_block(arrays, rank, rank - _depth(arrays)))


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) and arrays else 0


def _leaves(arrays: Any) -> list[Any]:
    if not isinstance(arrays, list):
        return [arrays]
    if not arrays:
        raise ArgumentValueError("List at arrays cannot be empty")
    return [leaf for item in arrays for leaf in _leaves(item)]


def _block(arrays: Any, rank: int, axis: int) -> Any:
    if isinstance(arrays, list):
        return np.concatenate([_block(item, rank, axis + 1) for item in arrays], axis)
    leaf = lift(arrays)
    return np.expand_dims(leaf, tuple(range(rank - leaf.ndim)))


@answers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """As `numpy.delete`, at plain places."""
    arr = lift(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    k = normal_axis(axis, arr.ndim)
    extent = shape_of(arr)[k]
    if type(extent) is not int:
        raise UnsupportedError("np.delete along an unknown extent", instead="np.concatenate([x[:k], x[k + 1:]])")
    left = np.delete(np.arange(extent), static("delete", "obj", obj))
    steps = np.unique(np.diff(left))
    if left.size and steps.size <= 1 and (not steps.size or steps[0] == 1):
        return fresh(sliced(arr, k, int(left[0]), left.size))
    return gather(arr, left, axes=(k,))


@answers(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    if indexing not in {"xy", "ij"}:
        raise ArgumentValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    found = []
    for k, x in enumerate(xi):
        flat = np.ravel(lift(x))
        place = 1 - k if indexing == "xy" and rank > 1 and k < 2 else k
        found.append(OPS["expand_dims"](flat, axes=tuple([d for d in range(rank) if d != place])) if rank > 1 else flat)
    if not sparse:
        found = list(np.broadcast_arrays(*found)) if found else []
    return tuple([fresh(x) for x in found]) if copy else tuple(found)

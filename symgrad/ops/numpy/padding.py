"""Padding: constants, and repetitions of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ir.index.shapes import simplified
from symgrad.ops.arrays.copies import filled, fresh
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import flipped, sliced
from symgrad.ops.declare.forms import OPS, is_traced, normal_axis, shape_of
from symgrad.ops.numpy.manipulation import static
from symgrad.ops.numpy.reductions import require_some
from symgrad.ops.numpy.sets import count_up

REPEATING = frozenset({"constant", "edge", "empty", "reflect", "symmetric", "wrap"})
"""Where elements are constants, or repeated."""


def padded(array: Any, pad_width: Any, mode: Any = "constant", **keywords: Any) -> Any:
    """As `numpy.pad` with one of these modes; the widths are plain integers."""
    array = lift(array)
    widths = _widths(pad_width, array.ndim)
    values = keywords.pop("constant_values", 0) if mode == "constant" else 0
    if keywords:
        raise ArgumentValueError(f"unsupported keyword arguments for this mode: {sorted(keywords)}")
    if mode in {"constant", "empty"}:
        return _pad_constant(array, widths, values)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            array = _pad_axis(array, axis, before, after, mode)
    return fresh(array)


def _widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Write the widths with one pair for each axis."""
    if isinstance(pad_width, dict):
        given = {normal_axis(axis, rank): width for axis, width in pad_width.items()}
        pad_width = [np.broadcast_to(given.get(axis, 0), 2) for axis in range(rank)]
    width = np.asarray(static("pad", "pad_width", pad_width))
    if width.dtype.kind not in "iu" and width.size:
        raise UnsupportedError("`pad_width` must be of integral type.")
    if (width < 0).any():
        raise ArgumentValueError("index can't contain negative values")
    try:
        return [(int(before), int(after)) for before, after in np.broadcast_to(width, (rank, 2))]
    except ValueError as error:
        raise ShapeError(f"the pad widths {pad_width} do not fit an array of {rank} axes: {error}") from None


def _pad_constant(x: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    """Pad with one constant (or zeros) at once, with different ones axis by axis."""
    shape = tuple([simplified(d + b + a) for d, (b, a) in zip(shape_of(x), widths, strict=True)])
    if shape == shape_of(x):
        return fresh(x)
    index = tuple([(b, d, 1) for d, (b, _) in zip(shape_of(x), widths, strict=True)])
    single = lift(values)
    if single.ndim == 0:
        if not is_traced(single) and single == 0 and not (single.dtype.kind == "f" and np.signbit(single)):
            return OPS["place"](x, indices=(index,), shape=shape)
        return OPS["set_slice"](filled(x, values, shape, x.dtype), x, index=index)
    pairs = np.broadcast_to(single, (x.ndim, 2))
    for axis, (before, after) in enumerate(widths):
        have = shape_of(x)
        ends = [filled(x, pairs[axis, side], (*have[:axis], width, *have[axis + 1 :]), x.dtype)
                for side, width in enumerate((before, after))]
        x = OPS["concatenate"](ends[0], x, ends[1], axis=axis)
    return x


def _pad_axis(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """Continue an axis in both directions with elements it has."""
    extent = shape_of(x)[axis]
    if extent == 0:
        raise ArgumentValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode == "edge":
        require_some(x, axis, "pad")
        have = shape_of(x)
        ends = [
            OPS["broadcast_to"](sliced(x, axis, place, 1), shape=(*have[:axis], width, *have[axis + 1 :]))
            for place, width in ((0, before), (extent - 1, after))
        ]
        return OPS["concatenate"](ends[0], x, ends[1], axis=axis)
    inset = 1 if mode == "reflect" else 0
    if type(extent) is not int:  # which may be less than the widths: all modes are periodic
        require_some(x, axis, "pad")
        n, places = x.shape[axis], count_up(x, simplified(extent + before + after)) - before
        period = n if mode == "wrap" else np.maximum(2 * (n - inset), 1)
        at = np.remainder(places, period)
        return gather(x, at if mode == "wrap" else np.minimum(at, 2 * n - 1 - inset - at), axes=(axis,))
    if max(before, after) > extent - inset:
        return gather(x, np.pad(np.arange(extent), (before, after), mode=mode), axes=(axis,))  # type: ignore[call-overload]
    if mode == "wrap":
        head, tail = sliced(x, axis, extent - before, before), sliced(x, axis, 0, after)
    else:
        head = flipped(sliced(x, axis, inset, before), (axis,))
        tail = flipped(sliced(x, axis, extent - inset - after, after), (axis,))
    return OPS["concatenate"](head, x, tail, axis=axis)

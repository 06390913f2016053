"""Windows that slide along axes: all of them as one array, and the sum of windows back into one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from symgrad.errors import ArgumentValueError, ShapeError
from symgrad.ir.index import regions, shapes
from symgrad.ir.index.notation import Body
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import adding, as_slices, copy_body, put_body, slice_shape, source_index
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, answers, is_traced, shape_of, structured


def _windows_infer(x: Node, axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Shape, Any]:
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = shapes.simplified(shape[axis] - size + 1)
    return (*shape, *sizes), x.dtype


def _window_source(axes: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return where an element of a window comes from: the window's place and its own in the window."""
    starts = index[: len(index) - len(axes)]
    within = index[len(starts) :]
    return tuple([sum([w for w, axis in zip(within, axes, strict=True) if axis == k], i) for k, i in enumerate(starts)])


def _sum_infer(g: Node, axes: tuple[int, ...], shape: Shape, index: regions.Region) -> tuple[Shape, Any]:
    if g.shape[: len(shape)] != slice_shape(index) or len(g.shape) != len(shape) + len(axes):
        raise ShapeError(f"cannot add windows {shapes.show(g.shape)} along {axes} to {index} of {shapes.show(shape)}")
    return shape, g.dtype


def _sum_value(g: Any, axes: tuple[int, ...], shape: tuple[int, ...], index: regions.Region) -> Any:
    out = np.zeros(shape, g.dtype)
    sizes = g.shape[len(shape) :]
    windows = sliding_window_view(out, sizes, axes, writeable=True)[as_slices(index)]
    for place in np.ndindex(*sizes):
        at = (..., *place)
        windows[at] += g[at]
    return out


def _sum_body(node: Node) -> Body:
    axes, shape, index = node.params

    def target(*i: Any) -> tuple[Any, ...]:
        return _window_source(axes, (*source_index(index, i[: len(shape)]), *i[len(shape) :]))

    return put_body(node, None, adding(node.dtype), (0, target))


windows = structured(
    name="windows", params=("axes", "sizes"), infer=_windows_infer,
    evaluate=lambda x, axes, sizes: sliding_window_view(x, sizes, axes),
    body=lambda node: copy_body(node, lambda *i: _window_source(node.params[0], i)),
    view=True, whole=True, repeats=True,
    vjp=lambda g, y, x, axes, sizes: OPS["sum_windows"](
        g, axes=axes, shape=shape_of(x), index=regions.whole(shape_of(g)[: len(shape_of(x))])),
    sample=(case(lambda a: sliding_window_view(a, 3) ** 2, (5,)),
            case(lambda a: np.max(sliding_window_view(a, (2, 3), (0, 2)), axis=-1), (3, 2, 4)),
            case(lambda a: np.max(sliding_window_view(a, 2, 0), axis=-1) ** 3, (5,)),
            case(lambda a: sliding_window_view(a, (2, 2), (1, 1)) ** 2, (2, 5))),
    edges=(case(lambda a: sliding_window_view(a, 3), (3,)), case(lambda a: sliding_window_view(a, 2, 0), (4, 0))),
)

sum_windows = structured(
    name="sum_windows", params=("axes", "shape", "index"), infer=_sum_infer, evaluate=_sum_value, body=_sum_body,
    moves=True,
    vjp=lambda g, y, x, axes, shape, index: OPS["slice"](
        OPS["windows"](g, axes=axes, sizes=shape_of(x)[len(shape) :]),
        index=(*index, *regions.whole(shape_of(x)[len(shape) :])),
    ),
    sample=(case(lambda a: OPS["sum_windows"](a, axes=(0,), shape=(5,), index=((0, 3, 1),)) ** 2, (3, 3)),
            case(lambda a: OPS["sum_windows"](a, axes=(0, 1), shape=(4, 4), index=((0, 3, 1), (0, 2, 1))) ** 2,
                 (3, 2, 2, 3)),
            case(lambda a: OPS["sum_windows"](a, axes=(1,), shape=(2, 9), index=((0, 2, 1), (1, 3, 2))) ** 2,
                 (2, 3, 3))),
    edges=(case(lambda a: OPS["sum_windows"](a, axes=(0,), shape=(3,), index=((0, 1, 1),)) + 1, (1, 3)),),
    doc="``y[index[i] + j] += g[i, j]``: windows of an array of zeros, those that a slice takes, each added to.",
)


@answers(sliding_window_view)
def windows_answer(x: Any, window_shape: Any, axis: Any = None) -> Any:
    x = lift(x)
    sizes = window_shape if isinstance(window_shape, tuple) else (window_shape,)
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    known = [dim if type(dim) is int else max(0, sum(sizes)) for dim in shape_of(x)]
    try:  # NumPy's own checks, of an array that takes no memory
        sliding_window_view(np.broadcast_to(np.False_, known), window_shape, axis)
    except ValueError as error:
        raise ArgumentValueError(f"np.lib.stride_tricks.sliding_window_view: {error}") from None
    if 0 in sizes:
        raise ArgumentValueError("np.lib.stride_tricks.sliding_window_view: windows of no elements")
    axes = tuple([int(a) % x.ndim for a in given])
    for k in dict.fromkeys(axes):
        if is_traced(x) and type(extent := shape_of(x)[k]) is not int:
            most = sum([int(size) - 1 for axis, size in zip(axes, sizes, strict=True) if axis == k])
            x.owner.require(most, extent, f"windows of {most + 1} along axis {k}, which has fewer elements")
    return windows(x, axes=axes, sizes=tuple(map(int, sizes)))

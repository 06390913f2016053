"""Layers that look through windows: convolutions as one product, and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from symgrad.errors import ArgumentValueError
from symgrad.nn.layers import check_shapes, parameters, with_bias

Padding = Literal["VALID", "SAME"] | Sequence[tuple[int, int]]


def conv1d(
    params: Mapping[str, Any], x: Any, strides: int | tuple[int] = 1, padding: Padding = "VALID", groups: int = 1,
) -> Any:
    """Correlate sequences with filters, as `conv2d` does images.

    Args:
        params: ``W`` of shape (window, in / groups, out), and ``b`` of shape (out,) unless there is none.
        x: of shape (batch, width, in).
        strides, padding, groups: as of `conv2d`, for one axis.

    Returns:
        Of shape (batch, windows, out).

    >>> conv1d({"W": np.ones((2, 1, 1))}, np.array([[[1.0], [2.0], [4.0]]])).ravel()
    array([3., 6.])
    """
    return _correlated("conv1d", params, x, _each_axis("conv1d", "strides", strides, 1), padding, groups)


def conv2d(
    params: Mapping[str, Any], x: Any, strides: int | tuple[int, int] = (1, 1), padding: Padding = "VALID",
    groups: int = 1,
) -> Any:
    """Correlate images with filters: each output is the sum of a window times a filter, plus ``b``.

    Args:
        params: ``W`` of shape (high, wide, in / groups, out), and ``b`` of shape (out,) unless there is none.
        x: of shape (batch, height, width, in).
        strides: how far the window moves.
        padding: zeros around the image: none ("VALID"); so many that there are ceil(extent / stride) windows, the odd
            one behind ("SAME", as TensorFlow has it); or pairs, before and behind, for each axis.
        groups: into how many groups channels are cut: the first out / groups filters see the first in / groups.

    Returns:
        Of shape (batch, windows along height, windows along width, out).

    Raises:
        ArgumentValueError: `x` does not have the axes or channels that ``W`` reads, or no window fits into it.

    >>> image = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> conv2d({"W": np.ones((2, 2, 1, 1))}, image)[0, :, :, 0]
    array([[ 8., 12.],
           [20., 24.]])
    """
    return _correlated("conv2d", params, x, _each_axis("conv2d", "strides", strides, 2), padding, groups)


def max_pool(
    x: Any, window: int | tuple[int, ...], strides: int | tuple[int, ...] | None = None, padding: Padding = "VALID",
) -> Any:
    """Return the largest element of each window, for each channel.

    Args:
        x: of shape (batch, *extents, channels).
        window: its extents, or one number for all of them.
        strides: how far it moves; by its own extents unless they are given.
        padding: as of `conv2d`; what is around is never the largest.

    Raises:
        ArgumentValueError: window, strides or padding do not fit the axes of `x`, or no window fits into it.

    >>> max_pool(np.arange(16.0).reshape(1, 4, 4, 1), (2, 2)).ravel()
    array([ 5.,  7., 13., 15.])
    """
    x = x if hasattr(x, "dtype") else np.asarray(x)
    least = np.iinfo(x.dtype).min if x.dtype.kind == "i" else -np.inf if x.dtype.kind == "f" else 0
    seen, axes = _pooled("max_pool", x, window, strides, padding, least)
    return np.max(seen, axis=axes)


def avg_pool(
    x: Any, window: int | tuple[int, ...], strides: int | tuple[int, ...] | None = None, padding: Padding = "VALID",
) -> Any:
    """Return the mean of each window, for each channel: of those elements that are no padding, as TensorFlow's.

    Args:
        x, window, strides, padding: as of `max_pool`.

    >>> avg_pool(np.arange(16.0).reshape(1, 4, 4, 1), (2, 2)).ravel()
    array([ 2.5,  4.5, 10.5, 12.5])
    """
    sums, axes = _pooled("avg_pool", x, window, strides, padding, 0)
    ones, _ = _pooled("avg_pool", np.ones((1, *np.shape(x)[1:-1], 1), sums.dtype), window, strides, padding, 0)
    return np.sum(sums, axis=axes) / np.sum(ones, axis=axes)


def _pooled(
    layer: str, x: Any, window: Any, strides: Any, padding: Padding, fill: float,
) -> tuple[Any, tuple[int, ...]]:
    """Return the windows of a pool, and their axes."""
    axes = np.ndim(x) - 2
    if axes < 1:
        raise ArgumentValueError(f"{layer}: an array of shape {np.shape(x)}", instead="(batch, *extents, channels)")
    window = _each_axis(layer, "window", window, axes)
    strides = _each_axis(layer, "strides", window if strides is None else strides, axes)
    return _windows(layer, x, window, strides, padding, fill), tuple(range(-axes, 0))


def _correlated(
    layer: str, params: Mapping[str, Any], x: Any, strides: tuple[int, ...], padding: Padding, groups: int,
) -> Any:
    (W,) = parameters(layer, params, "W")
    *window, inner, out = np.shape(W)
    if np.ndim(x) != len(strides) + 2 or len(window) != len(strides):
        raise ArgumentValueError(
            f"{layer}: images of shape {np.shape(x)}, filters of shape {np.shape(W)}",
            instead=f"{len(strides) + 2} axes of each: batch, extents, channels; window, channels, out",
        )
    channels = np.shape(x)[-1]
    check_shapes(layer, x, W, (channels, out % groups), (inner * groups, 0))
    seen = _windows(layer, x, window, strides, padding, 0.0)  # batch, places, channels, window
    batch, *places = np.shape(seen)[: len(strides) + 1]
    size = int(np.prod(window)) * inner
    if groups == 1:
        order = (*range(len(strides) + 1), *range(len(strides) + 2, 2 * len(strides) + 2), len(strides) + 1)
        y = np.transpose(seen, order).reshape(batch * int(np.prod(places)), size) @ W.reshape(size, out)
    else:
        rows = seen.reshape(batch * int(np.prod(places)), groups, inner, int(np.prod(window)))
        filters = W.reshape(int(np.prod(window)), inner, groups, out // groups)
        y = np.einsum("pgiw,wigo->pgo", rows, filters)
    return with_bias(layer, params, y.reshape(batch, *places, out))


def _windows(
    layer: str, x: Any, window: Sequence[int], strides: tuple[int, ...], padding: Padding, fill: float,
) -> Any:
    """Return the windows of an image: of shape (batch, *places, channels, *window)."""
    shape = np.shape(x)[1:-1]
    if isinstance(padding, str):
        if padding not in {"VALID", "SAME"}:
            raise ArgumentValueError(f"{layer}(padding={padding!r})", instead='"VALID", "SAME" or pairs of numbers')
        missing = [
            max((-(-extent // stride) - 1) * stride + size - extent, 0) if padding == "SAME" else 0
            for extent, size, stride in zip(shape, window, strides, strict=True)
        ]
        pairs = [(m // 2, m - m // 2) for m in missing]
    else:
        given = np.asarray(padding, object)
        if given.shape != (len(shape), 2) or not all(isinstance(n, (int, np.integer)) and n >= 0 for n in given.flat):
            raise ArgumentValueError(
                f"{layer}: padding={padding!r} meets the shape {np.shape(x)}",
                instead='"VALID", "SAME", or for each axis between batch and channels a pair of integers of at least 0',
            )
        pairs = [tuple(pair) for pair in given.tolist()]
    if any(pair != (0, 0) for pair in pairs):
        x = np.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=fill)
    if any(size > extent for size, extent in zip(window, np.shape(x)[1:-1], strict=True)):
        raise ArgumentValueError(
            f"{layer}: no window of {tuple(window)} fits into {np.shape(x)[1:-1]} of the shape {np.shape(x)}",
            instead='padding="SAME", or a smaller window',
        )
    seen = sliding_window_view(x, tuple(window), axis=tuple(range(1, len(shape) + 1)))
    places = (slice(None), *[slice(None, None, stride) for stride in strides])
    return seen[places]


def _each_axis(layer: str, what: str, given: Any, axes: int) -> tuple[int, ...]:
    """Return an integer for each axis of a window."""
    found = (given,) * axes if isinstance(given, (int, np.integer)) else given
    if not isinstance(found, (tuple, list)) or len(found) != axes or any(
        not isinstance(number, (int, np.integer)) or number < 1 for number in found
    ):
        raise ArgumentValueError(
            f"{layer}({what}={given!r}) along {axes} {'axis' if axes == 1 else 'axes'} between batch and channels",
            instead=f"an integer, or {axes} of them, of at least 1",
        )
    return tuple(found)

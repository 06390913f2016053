"""What SciPy's filters call in C: correlations of arrays, their extensions beyond their ends, interpolation, recursion.

Around these SciPy's own Python runs: which modes and axes there are, how wide a Gauss filter is. `scipy.signal` and
`scipy.ndimage` say both for which arrays, and in which of them the result is written.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from symgrad.errors import LEADING_ZERO, ArgumentValueError, UnsupportedError
from symgrad.ir.node import Graph
from symgrad.ir.program import Program
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import broadcast_to, sliced
from symgrad.ops.control import leads, result, scan
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import Late, answers, is_traced, normal_axes, shape_of
from symgrad.ops.elementwise.arithmetic import multiply, subtract

MODES = {0: "edge", 1: "wrap", 2: "symmetric", 3: "reflect", 4: "constant"}
"""How numpy.pad names the modes of scipy.ndimage, by the numbers that its C knows."""

GRID_WRAP, GRID_CONSTANT = 5, 6
"""What repeats an array, or continues it by a number, one step behind its last element; of filters as above."""


_pad: Any = np.pad


def _valid_correlation(x: Any, weights: Any) -> Any:
    """Let weights slide along an array with as many axes: ``y[i] += w[j] * x[i + j]``, where they lie inside."""
    extents = [n - m + 1 for n, m in zip(shape_of(x), shape_of(weights), strict=True)]
    total: Any = None
    for place in product(*map(range, shape_of(weights))):
        part = x
        for axis, (start, extent) in enumerate(zip(place, extents, strict=True)):
            part = sliced(part, axis, start, extent) if shape_of(part)[axis] != extent else part
        term = weights[place] * part
        total = term if total is None else total + term
    return total


def _padded(x: Any, widths: Any, mode: int, cval: Any) -> Any:
    mode = {GRID_WRAP: 1, GRID_CONSTANT: 4}.get(mode, mode)
    return _pad(x, widths, mode=MODES[mode], **({"constant_values": cval} if MODES[mode] == "constant" else {}))


@answers(Late("ndimage._nd_image.correlate"), writes=2)
def correlate(x: Any, weights: Any, output: Any, mode: int, cval: Any, origins: Any) -> None:
    befores = [m // 2 + int(origin) for m, origin in zip(shape_of(weights), origins, strict=True)]
    widths = [(b, m - 1 - b) for b, m in zip(befores, shape_of(weights), strict=True)]
    output[...] = _valid_correlation(_padded(lift(x), widths, mode, cval), lift(weights))


@answers(Late("ndimage._nd_image.correlate1d"), writes=3)
def correlate_along(x: Any, weights: Any, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    ones = [1] * np.ndim(x)
    ones[axis] = shape_of(weights)[0]
    correlate(x, np.reshape(weights, ones), output, mode, cval, [origin if k == axis else 0 for k in range(len(ones))])


@answers(Late("ndimage._nd_image.uniform_filter1d"), writes=3)
def uniform_along(x: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    correlate_along(x, np.full(size, 1 / size), axis, output, mode, cval, origin)


@answers(Late("ndimage._nd_image.geometric_transform"), writes=5)
def transform(
    x: Any, mapping: Any, coordinates: Any, matrix: Any, offset: Any, output: Any, order: int, mode: int, cval: Any,
    npad: int, arguments: Any = (), keywords: Any = None,
) -> None:
    """Look up an array at coordinates, or at those that a matrix or a function makes of the result's places."""
    if coordinates is None:
        places = np.indices(shape_of(output))
        if matrix is not None:
            coordinates = [
                sum([step * place for step, place in zip(row, places, strict=True)], start)
                for row, start in zip(lift(matrix), lift(offset), strict=True)]
        else:
            coordinates = mapping(tuple(places), *(arguments or ()), **(keywords or {}))
    _interpolate(lift(x), [lift(c) for c in coordinates], output, order, mode, cval)


@answers(Late("ndimage._nd_image.zoom_shift"), writes=3)
def zoom_shift(
    x: Any, zoom: Any, shift: Any, output: Any, order: int, mode: int, cval: Any, npad: int, grid_mode: Any,
) -> None:
    """Look up an array at places that are moved and scaled along each axis."""
    half = 0.5 if grid_mode else 0
    coordinates = []
    for axis, extent in enumerate(shape_of(output)):
        c: Any = np.arange(extent) + (0 if shift is None else shift[axis])
        c = c if zoom is None else (c + half) * zoom[axis] - half
        coordinates.append(np.expand_dims(lift(c), [k for k in range(output.ndim) if k != axis]))
    _interpolate(lift(x), coordinates, output, order, mode, cval)


def _interpolate(x: Any, coordinates: Any, output: Any, order: int, mode: int, cval: Any) -> None:
    """Look up an array between its elements, linearly or at the nearest one; each mode maps what is beyond its ends."""
    if order > 1:
        raise UnsupportedError(
            f"interpolation by scipy.ndimage of order {order} on traced arrays", instead="order=1, or order=0")
    inside: Any = True
    corners: list[tuple[tuple[Any, ...], Any, Any]] = [((), 1, True)]
    for c, extent in zip(coordinates, shape_of(x), strict=True):
        if mode not in {GRID_WRAP, GRID_CONSTANT}:
            if MODES[mode] == "constant":
                inside = inside & (c >= 0) & (c <= extent - 1)
            c = _coordinate_inside(c, extent, mode)  # noqa: PLW2901 - the same coordinate
        low = np.floor(c + 0.5 if order == 0 else c)
        ends = []
        for at, weight in [(low, 1)] if order == 0 else [(low, 1 - (c - low)), (low + 1, c - low)]:
            there = (at >= 0) & (at < extent) if mode == GRID_CONSTANT else True
            at = at - extent * np.floor(at / extent) if mode == GRID_WRAP else at  # noqa: PLW2901 - the same place
            ends.append((np.clip(at, 0, extent - 1).astype(np.int64), weight, there))
        corners = [
            ((*index, at), weight * w, there & t) for index, weight, there in corners for at, w, t in ends]
    found = sum(
        weight * np.where(there, gather(x, *np.broadcast_arrays(*index), axes=(*range(len(index)),)), cval)
        for index, weight, there in corners)
    found = np.where(inside, found, cval)
    if output.dtype.kind in "iu":  # to the nearest one
        kind = np.iinfo(output.dtype)
        found = np.clip(np.trunc(found + np.where(found > 0, 0.5, -0.5)), kind.min, kind.max)
    elif output.dtype.kind == "b":
        found = np.trunc(found)
    output[...] = found


@answers(Late("ndimage._nd_image.spline_filter1d"), writes=3)
def spline_along(x: Any, order: int, axis: int, output: Any, mode: int) -> None:
    del x, axis, output, mode
    raise UnsupportedError(f"splines of order {order} by scipy.ndimage on traced arrays", instead="order=1")


def _coordinate_inside(c: Any, extent: int, mode: int) -> Any:
    """Map a coordinate to one between the ends, as `NI_GeometricTransform` does."""
    last = extent - 1
    if MODES[mode] == "reflect":
        c = np.abs(c)
        turn = c - 2 * last * np.floor(c / (2 * last)) if last else 0 * c
        return np.minimum(turn, 2 * last - turn)
    if MODES[mode] == "symmetric":
        c = np.abs(c + 0.5)
        turn = c - 2 * extent * np.floor(c / (2 * extent))
        return np.clip(np.minimum(turn, 2 * extent - turn) - 0.5, 0, last)
    if MODES[mode] == "wrap":
        return np.where((c < 0) | (c > last), c - last * np.floor(c / last), c) if last else 0 * c
    return np.clip(c, 0, last)


# -- scipy.signal

_SAME, _FULL = 1, 2


@answers(Late("signal._sigtools._correlateND"), writes=2)
def correlate_zeros(x: Any, y: Any, out: Any, which: int) -> Any:
    """Correlate: of ``full`` and ``same`` SciPy has added zeros behind the first array."""
    x, y = lift(x), lift(y)
    found = _valid_correlation(np.pad(x, [(m - 1, 0) for m in shape_of(y)]) if which in {_FULL, _SAME} else x, y)
    if which == _SAME:
        starts = [(m - 1) // 2 for m in shape_of(y)]
        found = found[tuple([slice(s, s + n) for s, n in zip(starts, out.shape, strict=True)])]
    out[...] = found
    return out


_EDGES = {0: "constant", 4: "symmetric", 8: "wrap"}


@answers(Late("signal._sigtools._convolve2d"))
def convolve_plane(x: Any, y: Any, flip: int, which: int, edges: int, fill: Any) -> Any:
    x, y = lift(x), lift(y)
    y = y[::-1, ::-1] if flip else y
    n, m = shape_of(x), shape_of(y)
    if which == _FULL:
        widths = [(k - 1, k - 1) for k in m]
    elif which == _SAME:
        widths = [((k - 1) // 2, k // 2) if not flip else (k // 2, (k - 1) // 2) for k in m]
    else:
        widths = [(0, 0), (0, 0)]
        if any(a < b for a, b in zip(n, m, strict=True)):
            return convolve_plane(y, x, flip, which, edges, fill)
    mode = _EDGES[edges]
    filled = {"constant_values": np.reshape(fill, ())} if mode == "constant" else {}
    return _valid_correlation(_pad(x, widths, mode=mode, **filled), y)


answers(Late("signal._signaltools.choose_conv_method"))(lambda *_, **__: "direct")


@answers(Late("signal.fftconvolve"), Late("signal.oaconvolve"))
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    if axes is None:
        return Late("signal.convolve")(in1, in2, mode, "direct")
    x, y = lift(in1), lift(in2)
    along = normal_axes(axes, np.ndim(x), listed=True)
    rest = [k for k in range(np.ndim(x)) if k not in along]
    wide = [max(shape_of(x)[k], shape_of(y)[k]) for k in rest]  # where one has 1, it is the same for all
    x, y = [_rows(np.moveaxis(v, rest, range(len(rest))), wide) for v in (x, y)]
    found = np.stack([Late("signal.convolve")(x[k], y[k], mode, "direct") for k in range(math.prod(wide))])
    return np.moveaxis(np.reshape(found, (*wide, *shape_of(found)[1:])), range(len(rest)), rest)


def _rows(x: Any, wide: list[int]) -> Any:
    """Lay an array's first axes flat, after they have been stretched to the given extents."""
    rest = shape_of(x)[len(wide) :]
    return np.reshape(np.broadcast_to(x, (*wide, *rest)), (math.prod(wide), *rest))


@answers(Late("signal._sigtools._linear_filter"))
def linear_filter(b: Any, a: Any, x: Any, axis: int, zi: Any = None) -> Any:
    """Filter along an axis: ``a[0] * y[t] = b[0] * x[t] + b[1] * x[t - 1] + ... - a[1] * y[t - 1] - ...``.

    An initial state is what the input before adds to the first outputs; with one the state at the end is a result too.
    """
    x = np.moveaxis(lift(x), axis, 0)
    first = a[0]
    if not is_traced(first) and first == 0:
        raise ArgumentValueError(LEADING_ZERO, instead="coefficients divided by the first one, which is 1 then")
    first = np.where(leads(first != 0), first, np.nan) if is_traced(first) else first
    b, a = lift(b) / first, lift(a) / first
    (count, *rest), taps, order = shape_of(x), shape_of(b)[0], shape_of(a)[0] - 1
    padded = np.concatenate([np.zeros((taps - 1, *rest), x.dtype), x])
    y = sum(b[k] * sliced(padded, 0, taps - 1 - k, count) for k in range(taps))
    delays = max(taps - 1, order)
    if zi is not None:
        state = broadcast_to(np.moveaxis(lift(zi), axis, 0), shape=(delays, *rest))
        state = np.concatenate([state, np.zeros((count, *rest), state.dtype)])
        y = y + state[:count]
    if order and count != 0:
        kind = np.result_type(y.dtype, a.dtype)
        scalars = [a[k].astype(kind) for k in range(1, order + 1)]
        before = [broadcast_to(0 * scalars[0] if is_traced(scalars[0]) else lift(0, kind), shape=tuple(rest))] * order
        steps = scan(
            *scalars, *before, y.astype(kind), body=_recurrence(order, tuple(rest), kind), length=count, fixed=order,
            carried=order, reverse=False,
        )
        y = result(steps, number=order)
    if zi is None:
        return np.moveaxis(y, 0, axis)
    end = state[count:] + _remembered(b, x, delays) - _remembered(a, y, delays)
    return np.moveaxis(y, 0, axis), np.moveaxis(end, 0, axis)


def _remembered(taps: Any, signal: Any, delays: int) -> Any:
    """Return what the end of a signal adds to outputs behind it: ``taps[k + 1] * signal[-1] + taps[k + 2] * ...``."""
    count, *rest = shape_of(signal)
    last = np.concatenate([np.zeros((delays, *rest), signal.dtype), signal])[count:][::-1]
    taps = np.concatenate([taps, np.zeros(2 * delays, taps.dtype)])
    ahead = np.stack([taps[k + 1 : k + 1 + delays] for k in range(delays)]) if delays else np.zeros((0, 0))
    return np.tensordot(ahead, last, 1)


@answers(Late("signal.sosfilt"))
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter by second-order sections, one after the other."""
    sos, x, ends = lift(sos), lift(x), []
    for k in range(shape_of(sos)[0]):
        x = linear_filter(sos[k, :3], sos[k, 3:], x, axis, None if zi is None else lift(zi)[k])
        if zi is not None:
            x, end = x
            ends.append(end)
    return x if zi is None else (x, np.stack(ends))


def _recurrence(order: int, rest: Any, kind: Any) -> Program:
    """Return a step of a recurrence, ``y = x - a[1] * y[t - 1] - a[2] * y[t - 2] - ...``, which carries the last y."""
    graph = Graph()

    def node(op: Any, *inputs: Any) -> Any:
        shape, dtype = op.infer(*inputs)
        return graph.node(op, inputs, (), tuple(shape), dtype)

    def given(name: str, shape: Any) -> Any:
        return graph.node(leaves.input_, (), (name, shape, kind), shape, kind)

    scalars = [given(f"a{k}", ()) for k in range(1, order + 1)]
    before = [given(f"y{k}", rest) for k in range(1, order + 1)]
    x = y = given("x", rest)
    for scalar, past in zip(scalars, before, strict=True):
        y = node(subtract, y, node(multiply, scalar, past))
    return Program((*scalars, *before, x), (y, *before[:-1], y), "lfilter")

"""NumPy's functions of the order of elements, and of places among sorted ones."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ir.index.notation import How
from symgrad.ops.arrays.copies import an_array, promoted
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import along_axis, lift
from symgrad.ops.arrays.reduce import nan_or_first
from symgrad.ops.arrays.sorting import argsort, searchsorted, sort_key
from symgrad.ops.declare.forms import INT, OPS, answers, dims, is_traced, normal_axis, refuse, shape_of
from symgrad.ops.numpy.manipulation import static


def _keys(a: Any) -> Any:
    """Return integers in the order of an array's elements."""
    if a.dtype.kind == "f":
        return sort_key(a)
    return np.bitwise_xor(a, a.dtype.type(1 << 63)).astype(INT) if a.dtype == np.uint64 else a.astype(INT)


def _order_in(a: Any, axis: Any) -> tuple[Any, Any, int]:
    """Return an array with an axis as its last one, the order of what lies along that, and the axis."""
    a, k = along_axis(a, axis)
    a = np.moveaxis(a, k, -1)
    return a, argsort(_keys(a)), k


def _among(kth: Any, made: Any, axis: Any) -> Any:
    """Check places of a partition, all of which is sorted anyway."""
    extent = shape_of(made)[0 if axis is None else axis]
    empty = 0 in shape_of(made)  # in an array of nothing NumPy takes any place
    if hasattr(type(kth), "dim"):  # of an open extent
        made.owner.require(kth.dim, extent, f"kth(={kth.dim}) out of bounds")
        return made
    places = np.ravel(static("partition", "kth", kth))
    if places.dtype.kind not in "iu":
        raise ArgumentError("Partition index must be integer")
    for place in places:
        if type(extent) is int and not (empty or -extent <= operator.index(place) < extent):
            raise ArgumentValueError(f"kth(={place}) out of bounds ({extent})")
        if type(extent) is not int:
            made.owner.require(int(place if place >= 0 else -1 - place), extent, f"kth(={place}) out of bounds")
    return made


@answers(np.argsort, neutral={"a": nan_or_first(How.MINIMUM)})
def argsort_answer(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    refuse("argsort", order=order)
    _, places, k = _order_in(a, axis)
    return np.moveaxis(places, -1, k)


@answers(np.sort, neutral={"a": nan_or_first(How.MINIMUM)})
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    refuse("sort", order=order)
    if axis is not None:
        normal_axis(axis, lift(a).ndim)
    a, places, k = _order_in(a, axis)
    taken = gather(a, places, axes=(0,)) if a.ndim == 1 else np.take_along_axis(a, places, -1)
    return np.moveaxis(taken, -1, k)


answers(np.partition)(lambda a, kth, axis=-1, kind="introselect", order=None: _among(
    kth, sort(a, axis, order=order), axis))
answers(np.argpartition)(lambda a, kth, axis=-1, kind="introselect", order=None: _among(
    kth, argsort_answer(a, axis, order=order), axis))


@answers(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """As `numpy.lexsort`: sorted by the last key, where that is equal by the one before."""
    first, *others = [lift(key) for key in keys]
    if first.ndim == 0:
        normal_axis(operator.index(axis), 1)
        return np.zeros((), INT)[()]
    _, places, k = _order_in(first, operator.index(axis))
    for key in others:
        _, order, _ = _order_in(np.take_along_axis(np.moveaxis(key, k, -1), places, -1), -1)
        places = np.take_along_axis(places, order, -1)
    return np.moveaxis(places, -1, k)


@answers(np.searchsorted)
def searchsorted_answer(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if side not in {"left", "right"}:
        raise ArgumentValueError(f"search side must be 'left' or 'right' (got {side!r})")
    kind = promoted(a, v)
    a, v = lift(a), lift(v)
    if a.ndim != 1:
        raise ShapeError("searchsorted: object too deep for desired array" if a.ndim else "a is a number, not an array")
    if sorter is not None:
        a = gather(a, lift(sorter), axes=(0,))
    a, v = [x.astype(np.float64) if kind.kind == "f" else _keys(x.astype(kind)) for x in (a, v)]
    return np.reshape(searchsorted(a, np.ravel(v), right=side == "right"), v.shape)[()]


@answers(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None,
) -> Any:
    if kind not in {None, "sort", "table"}:
        raise ArgumentValueError(f"Invalid kind: {kind!r}. Please use None, 'sort' or 'table'.")
    x, among = lift(element), np.sort(np.ravel(lift(test_elements)))
    if shape_of(among)[0] == 0:
        return np.full_like(x, invert, dtype=bool)
    place = np.searchsorted(among, x)
    found = gather(among, np.minimum(place, among.shape[0] - 1), axes=(0,)) == x
    return an_array(~found if invert else found)


@answers(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """As `numpy.digitize`: the bins are taken to be increasing if the last one is not below the first."""
    x, bins = lift(x), lift(bins)
    if x.dtype.kind == "c":
        raise ArgumentError("x may not be complex")
    side = "left" if right else "right"
    rising: Any = np.searchsorted(bins, x, side)  # type: ignore[call-overload]  # a text
    if not is_traced(bins):
        steps = np.diff(bins)
        if np.any(steps > 0) and np.any(steps < 0):
            raise ArgumentValueError("bins must be monotonically increasing or decreasing")
    if shape_of(bins)[0] in {0, 1}:
        return rising
    falling = bins.shape[0] - np.searchsorted(bins[::-1], x, side)  # type: ignore[call-overload]
    return np.where(bins[0] <= bins[-1], rising, falling)


# -- interpolation


@answers(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """As `numpy.interp`; at a point of the table, the slope is that of the line behind it."""
    x, xp, fp = [lift(v).astype(np.float64) for v in (x, xp, fp)]
    if xp.ndim != 1 or shape_of(xp) != shape_of(fp):
        raise ShapeError("fp and xp are not of the same length.")
    if period is not None:
        left = right = None
        period = np.abs(period)
        if not is_traced(period) and period == 0:
            raise ArgumentValueError("period must be a non-zero value")
        x, xp = x % period, xp % period
        xp, fp = [gather(v, argsort(_keys(xp)), axes=(0,)) for v in (xp, fp)]
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    left, right = fp[0] if left is None else left, fp[-1] if right is None else right
    if type(n) is int and n == 1:
        return np.where(x < xp[0], left, np.where(x > xp[0], right, fp[0]))
    place = searchsorted(xp, np.ravel(x), right=True).reshape(x.shape) - 1
    low = np.clip(place, 0, n - 2)
    near = np.clip(place, 0, n - 1)  # it is the last one at the table's end alone
    (x0, y0), (x1, y1), (x2, y2) = [
        [gather(table, at, axes=(0,)) for table in (xp, fp)] for at in (low, low + 1, near)]
    slope = (y1 - y0) / (x1 - x0)
    inside, after = slope * (x - x2) + y2, slope * (x - x1) + y1
    # As in NumPy's C, where an infinity makes the line from one end NaN: at that end, by the other one, between equals.
    after = np.where(x == x2, y2, np.where(np.isnan(after) & (y0 == y1) & ~np.isnan(x), y0, after))
    inside = np.where(np.isnan(inside), after, inside)
    return np.where(x < xp[0], left, np.where(x > xp[-1], right, inside))


# -- counts


def _bin_counts(places: Any, values: Any, length: Any) -> Any:
    return OPS["scatter_add"](values, places, axes=(0,), shape=dims(length))


@answers(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """As `numpy.bincount`; of traced integers, `minlength` must be the length of the result."""
    x, length = lift(x), minlength
    if x.dtype.kind not in "iub" or x.ndim != 1:
        raise ArgumentError(f"np.bincount of {x.dtype} with {x.ndim} axes: it counts integers in one axis")
    if not is_traced(x):
        length = max(operator.index(minlength), int(np.max(x, initial=-1)) + 1)
    elif type(length) is int and length < 1:
        raise ArgumentError(
            "np.bincount of traced integers: as many counts as the greatest has, which is not known while tracing",
            instead="np.bincount(x, minlength=n), for integers below n",
        )
    values = np.ones_like(x, dtype=INT) if weights is None else lift(weights).astype(np.float64)
    return _bin_counts(np.where(x < 0, length, x), values, length)  # a negative one is refused as one beyond the end is


@answers(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    if weights is not None and np.shape(lift(weights)) != np.shape(lift(a)):
        raise ArgumentValueError("weights should have the same shape as a.")
    a = np.ravel(lift(a))
    if isinstance(bins, str):
        raise ArgumentError(f"bins={bins!r} of traced numbers", instead="a number of bins, or their edges")
    if np.ndim(bins := lift(bins)):
        if not is_traced(bins) and np.any(np.diff(bins) < 0):
            raise ArgumentValueError("`bins` must increase monotonically, when an array")
        return bins
    if operator.index(bins) < 1:
        raise ArgumentValueError("`bins` must be positive, when an integer")
    if range is None:
        range = (np.min(a), np.max(a)) if shape_of(a)[0] != 0 else (0, 1)
    first, last = range
    widen = np.equal(first, last) * 0.5
    kind = promoted(a, first, last)
    made = np.linspace(first - widen, last + widen, operator.index(bins) + 1)
    return made.astype(kind) if kind.kind == "f" else made


def _bins(a: Any, edges: Any) -> Any:
    """Return in which bin each number is, from 1 on; 0 below the first edge and of NaN, one more above the last."""
    n = edges.shape[0] - 1
    place = np.searchsorted(edges, a, "right")
    place = np.where(a == edges[-1], n, np.where(a > edges[-1], n + 1, place))
    return np.where(np.isnan(a), 0, place) if a.dtype.kind == "f" else place


@answers(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """As `numpy.histogram`, with derivatives by the weights; the edges that are computed have theirs, too."""
    a = np.ravel(lift(a))
    edges = lift(histogram_bin_edges(a, bins, range, None if weights is None else np.ravel(lift(weights))))
    values = np.ones_like(a, dtype=INT) if weights is None else np.ravel(lift(weights))
    counts = _bin_counts(_bins(a, edges), values, edges.shape[0] + 1)[1:-1]
    return (counts / np.diff(edges).astype(np.float64) / np.sum(counts) if density else counts), edges


@answers(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None,
) -> tuple[Any, list[Any]]:
    """As `numpy.histogramdd`, with derivatives as of `histogram`."""
    points = lift(sample)
    if getattr(sample, "weak", None) is not None or isinstance(sample, (int, float)):
        raise ArgumentError("np.histogramdd of a number, which is no sample")
    if isinstance(sample, (list, tuple)) or points.ndim != 2:  # NumPy takes a list for one of coordinates
        columns = [*np.atleast_2d(points)]
    else:
        columns = [*np.swapaxes(points, 0, 1)]
    count = len(columns)
    if columns[0].ndim != 1:
        raise ArgumentValueError(f"np.histogramdd of points with {columns[0].ndim} axes more than one")
    each = bins if isinstance(bins, (list, tuple)) else [*lift(bins)] if lift(bins).ndim else [bins] * count
    if len(each) != count or (range is not None and len(range) != count):
        raise ArgumentValueError("The dimension of bins must be equal to the dimension of the sample x.")
    edges = [lift(histogram_bin_edges(x, of, None if range is None else range[k]))
             for k, (x, of) in enumerate(zip(columns, each, strict=True))]
    place: Any = 0
    for x, ends in zip(columns, edges, strict=True):
        place = place * (ends.shape[0] + 1) + _bins(x, ends)
    sizes = [ends.shape[0] + 1 for ends in edges]
    values: Any = np.ones_like(columns[0]) if weights is None else np.ravel(lift(weights))
    values = values.astype(np.float64)
    counts = np.reshape(_bin_counts(place, values, math.prod(sizes)), sizes)[(slice(1, -1),) * count]
    if density:
        total = np.sum(counts)
        for k, ends in enumerate(edges):
            counts = counts / np.reshape(np.diff(ends), [-1 if j == k else 1 for j, _ in enumerate(edges)])
        counts = counts / total
    return counts, edges


@answers(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None,
) -> tuple[Any, Any, Any]:
    """As `numpy.histogram2d`."""
    pair = isinstance(bins, (list, tuple)) and len(bins) == 2
    counts, edges = histogramdd([x, y], bins if pair or lift(bins).ndim == 0 else [bins, bins], range, density, weights)
    return counts, *edges

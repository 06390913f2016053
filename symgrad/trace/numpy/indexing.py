"""Indexing a traced array: what NumPy's index means, in slices, axes and gathers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import ConcretizationError, IndexOutOfBounds, UnsupportedError
from symgrad.ir.index.shapes import is_static, simplified
from symgrad.ops.arrays.copies import fresh
from symgrad.ops.arrays.indexing import gather as picked
from symgrad.ops.arrays.joining import holds_traced, lift
from symgrad.ops.arrays.views import expand_dims, slice_
from symgrad.ops.declare.forms import is_traced
from symgrad.ops.numpy.sets import count_up
from symgrad.trace.lines import user_frame, user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.selected import Selected, Turned
from symgrad.trace.state import unwatched
from symgrad.trace.tracer import Extent, Tracer, as_array, outcome, viewing

FEW = 10_000
"""Integers of an index from outside that are read by value, and compared at each call: places that are known are views
and diagonals, with no check; more of them are read as they are."""


@unwatched
def getitem(x: Tracer, index: Any) -> Any:
    """Index a traced array as NumPy does."""
    if type(index) is int and x.ndim:  # what loops do most
        row = basic(x, [index, *[slice(None)] * (x.ndim - 1)])
        return row if row.ndim else fresh(row)
    index = settled(index)
    keys = index if type(index) is tuple else (index,)
    if keys and all(type(key) is Selected for key in keys):
        return chosen(x, keys)
    if type(index) is slice and any(type(end) is type(x) for end in (index.start, index.stop)):
        branches, frame = x.owner.branches, user_frame()
        lengths = None if branches is None else branches.lengths
        steps = None if lengths is None or frame is None else lengths.part(x, index, frame)
        if steps is not None:
            return steps
    if (by_mask := masked_index(x, index)) is not None:
        front, mask = by_mask.front(x), by_mask.mask
        return Turned(front, mask, by_mask.axis) if by_mask.axis else Selected(front, mask)
    x, index = through_windows(x, index)
    items = index if isinstance(index, tuple) else (index,)
    entries = expand(x, index)
    if any(is_array(e) and np.ndim(e) for e in entries):
        return gather(x, entries, apart=dots_between(index))
    looked_up = any(is_array(e) for e in entries)
    if looked_up:  # a view, as by known integers
        base, places = narrowed(x, entries)
        result = viewing(base, picked(base, *places.values(), axes=tuple(places)).node)
    else:
        result = basic(x, entries)
    arrays = [item for item in items if isinstance(item, np.ndarray) and (type(item) is np.ndarray or is_traced(item))]
    if any(not np.ndim(item) for item in (*arrays, *filter(is_true, items))):  # what NumPy gives of them is a copy
        result = fresh(result)
    if result.ndim:
        return result
    if any(item is Ellipsis for item in items):
        return as_array(result)  # even without axes an array, and a view
    return fresh(result)  # a scalar, as NumPy's are: no view, a later write does not reach it


def chosen(x: Tracer, keys: tuple[Selected, ...]) -> Selected:
    """Take the elements at places that one mask selects, as `np.nonzero` gives them."""
    mask = keys[0].mask
    if any(key.mask.node is not mask.node for key in keys) or keys[0].dtype.kind not in "iu":
        raise keys[0].unknown("an index")
    return Selected(x[tuple([np.where(mask, key.values, 0) for key in keys])], mask)


def through_windows(x: Tracer, index: Any) -> tuple[Tracer, Any]:
    """Take slices of an index that start anywhere and are as long in each call: rows of a batch, ``x[k * n:][:n]``.

    What is guarded is how long one is, and that it lies inside; any other is one of plain numbers.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    for k, item in enumerate(items):
        moves = isinstance(item, slice) and type(item.start) is type(item.stop) is type(x) and item.step in {None, 1}
        if not moves or any(isinstance(i, (list, np.ndarray)) or is_traced(i) for i in items):
            continue
        start, stop = [end.astype(np.int64) for end in (item.start, item.stop)]  # a few bits do not hold a length
        before = sum(i is not None for i in items[:k])
        axis = before if Ellipsis not in items[:k] else x.ndim - sum(i is not None for i in items[k:])
        if not 0 <= axis < x.ndim or type(extent := x.node.shape[axis]) is not int:
            continue
        length = (stop - start).as_index()
        if not 0 < length <= extent:
            continue
        inside = (start >= 0) & (start <= extent - length)
        if outcome(inside, "a slice", "np.take(x, start + np.arange(length))"):
            x = viewing(x, picked(x, start + np.arange(length), axes=(axis,)).node)
            items[k] = slice(None)
    return x, tuple(items) if isinstance(index, tuple) else items[0]


class MaskedIndex(NamedTuple):
    """An index with a mask whose values are not known.

    Attributes:
        mask: the mask; flat where the index names it several times, which means its true places in all of these axes.
        index: the same index by all places of the mask; None where these are the whole array.
        start: which axis of what that gives is the mask's first one.
        axis: which axis of NumPy's result has the elements that the mask selects.
    """

    mask: Tracer
    index: Any
    start: int
    axis: int

    def front(self, x: Tracer) -> Any:
        """Return all places of an array, the axes of the mask in front."""
        every: Any = x if self.index is None else getitem(x, self.index)
        rank = self.mask.ndim
        axes = tuple(range(self.start, self.start + rank))
        return np.moveaxis(every, axes, tuple(range(rank))) if self.start else every


def masked_index(x: Tracer, index: Any) -> MaskedIndex | None:
    """Take a mask whose values are not known out of an index; None where there is none."""
    items = list(index) if type(index) is tuple else [index]
    masks = [is_traced(i) and type(i) is not Extent and type(i) is not Selected and i.dtype.kind == "b" for i in items]
    unknown = [k for k, is_mask in enumerate(masks) if is_mask and items[k].known() is None]
    if not unknown:
        return None
    mask, first = items[unknown[0]], unknown[0]
    arrays = [k for k, i in enumerate(items) if k not in unknown and isinstance(i, (list, np.ndarray)) and np.ndim(i)]
    if arrays or any(items[k].node is not mask.node for k in unknown):
        raise ConcretizationError(
            "a traced mask beside another mask or an array: NumPy pairs their elements, and how many the mask has "
            "depends on values", line=user_line(),
            instead="x[mask][:, ids] for all pairs, and x[...] = np.where(mask[:, None] & other, value, x) of writes",
        )
    widths = [0 if i is None or i is Ellipsis else mask.ndim if k in unknown else 1 for k, i in enumerate(items)]
    rest = x.ndim - sum(widths)
    if not any(i is Ellipsis for i in items):
        items, widths = [*items, Ellipsis], [*widths, 0]
    widths = [rest if i is Ellipsis else width for i, width in zip(items, widths, strict=True)]
    for k in unknown:
        have, want = mask.node.shape, x.node.shape[(axis := sum(widths[:k])) : axis + mask.ndim]
        if have != want or rest < 0 or (x.ndim and not mask.ndim):
            raise IndexOutOfBounds(
                f"boolean index did not match indexed array: its shape is {have} and the array's there {want}",
                line=user_line(),
            )
    start = sum(
        1 if i is None else width for i, width in zip(items[:first], widths, strict=False)
        if i is None or i is Ellipsis or isinstance(i, slice)
    )
    advanced = [k for k, i in enumerate(items) if i is not None and i is not Ellipsis and not isinstance(i, slice)]
    apart = advanced[-1] - advanced[0] >= len(advanced)  # what they give stands in front then
    if len(unknown) > 1:
        open_ = mask.ndim == 1 and not is_static(mask.node.shape)
        places = [count_up(mask, mask.node.shape[0])] if open_ else [np.ravel(one) for one in np.indices(mask.shape)]
        flat: Any = np.ravel(mask)
        for k in reversed(unknown):
            items[k : k + 1] = places
        return MaskedIndex(flat, tuple(items), 0 if apart else start, 0 if apart else start)
    items[first : first + 1] = [slice(None)] * mask.ndim
    whole = all(i is Ellipsis or (isinstance(i, slice) and i == slice(None)) for i in items)
    return MaskedIndex(mask, None if whole else tuple(items), start, 0 if apart else start)


def expand(x: Tracer, index: Any) -> list[Any]:
    """Write an index with one entry for each axis (and None for each new one), ellipsis and masks resolved."""
    items = list(index) if isinstance(index, tuple) else [index]
    others = [item for item in items if not is_true(item)]
    if len(others) == len(items) - 1 and all(i is None or i is ... or isinstance(i, slice) for i in others):
        items = [None if is_true(item) else item for item in items]
    parts = [normal(item) for item in items]
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    taken = sum(len(part) for k, part in enumerate(parts) if k not in dots and part[0] is not None)
    if taken > x.ndim:
        raise IndexOutOfBounds(f"too many indices: {taken} for an array of {x.ndim} axes {x!r}", line=user_line())
    if len(dots) > 1:
        raise IndexOutOfBounds("an index can only have a single ellipsis ('...')", line=user_line())
    if not dots:
        items.append(Ellipsis)
        parts.append([Ellipsis])
    entries: list[Any] = []
    axis = 0
    for item, part in zip(items, parts, strict=True):
        found = [slice(None)] * (x.ndim - taken) if item is Ellipsis else part
        mask = np.asarray(item) if isinstance(item, (list, np.ndarray)) and not holds_traced(item) else None
        if mask is not None and mask.dtype.kind == "b":
            have = x._node.shape[axis : axis + mask.ndim]  # noqa: SLF001 - the tracer's shape without Extent objects
            if have != mask.shape:
                raise IndexOutOfBounds(
                    f"boolean index did not match indexed array along axis {axis}: its shape is {mask.shape} "
                    f"and the array's there {have}", line=user_line(),
                )
        axis += 0 if item is None else len(found)
        entries.extend(found)
    return entries


def is_true(item: Any) -> bool:
    """Whether an item of an index is a known truth, which selects all there is, along a new axis."""
    return item is True or (type(item) is np.bool and bool(item))


def normal(item: Any) -> list[Any]:
    """Turn one entry of an index into integers, slices, None, Ellipsis or arrays of integers."""
    if isinstance(item, slice):
        ends = settled([item.start, item.stop, item.step])  # a traced one is as it is in this call, with a guard
        return [slice(*[end.as_index() if hasattr(type(end), "as_index") else end for end in ends])]
    if item is None or item is Ellipsis or type(item) is Extent:
        return [item]
    by_value = is_traced(item) and (item.dtype.kind == "b" or (is_static(item.shape) and item.size <= FEW))
    if by_value and (known := item.known()) is not None:
        item = known
    if is_traced(item):
        return [integers(item)]
    if isinstance(item, (bool, np.bool)) or (type(item) is np.ndarray and item.dtype == bool and not item.ndim):
        raise UnsupportedError(
            "a boolean scalar as an index, but True beside slices alone", line=user_line(),
            instead="np.where(condition, x, 0)")
    if isinstance(item, (int, np.integer)):
        return [int(item)]
    if isinstance(item, (list, tuple)):
        item = lift(item)
        item = item.astype(np.int64) if item.size == 0 and not is_traced(item) else item
    if is_traced(item):
        return [integers(item)]
    array = np.asarray(item)
    if array.dtype.kind == "b":
        return list(np.nonzero(array))
    if array.dtype.kind not in "iu":
        raise IndexOutOfBounds(
            f"an index must be integers, slices, None, ... or arrays of integers, not {item!r}", line=user_line()
        )
    return [int(array)] if array.ndim == 0 else [array]


def integers(item: Tracer) -> Tracer:
    """Return a traced index when it is one of integers."""
    if item.dtype.kind == "b":
        raise ConcretizationError(
            "a traced boolean mask as an index: the result's shape would depend on values", line=user_line(),
            instead="np.where(mask, x, 0) and a sum, or a mask that is not traced",
        )
    if item.dtype.kind not in "iu":
        raise IndexOutOfBounds(f"an index must be integers, not {item.dtype}", line=user_line())
    return item


def is_array(entry: Any) -> bool:
    """Whether an entry is an array of integers, and no slice, integer or None."""
    return isinstance(entry, np.ndarray) or (hasattr(entry, "__symgrad_bind__") and type(entry) is not Extent)


def axis_slice(x: Tracer, axis: int, entry: Any) -> tuple[Any, ...]:
    """Write one basic entry as ``(start, count, step)``, or ``(position,)`` for an integer."""
    extent = x._node.shape[axis]  # noqa: SLF001
    if isinstance(entry, slice):
        if type(extent) is int and not any(type(s) is Extent for s in (entry.start, entry.stop, entry.step)):
            places = range(*entry.indices(extent))
            return (places.start, len(places), places.step)
        return symbolic_slice(x, extent, entry)
    position = entry.dim if type(entry) is Extent else entry
    if type(extent) is int and type(position) is int:
        if not -extent <= position < extent:
            raise IndexOutOfBounds(
                f"index {position} is out of bounds for axis {axis} with size {extent}", line=user_line()
            )
        return (position % extent,)
    if from_end(x, position):
        position = extent + position
    x.owner.require(simplified(position), extent, axis=axis)
    return (simplified(position),)


def symbolic_slice(x: Tracer, extent: Any, entry: slice) -> tuple[Any, ...]:
    """Write a slice of an unknown extent: bounds as NumPy clips them, by SymPy."""
    import sympy

    if type(entry.step) is Extent:
        raise entry.step.refuse("the step of a slice")
    step = 1 if entry.step is None else int(entry.step)
    start, stop = [s.dim if type(s) is Extent else s for s in (entry.start, entry.stop)]
    if step < 0:
        first, last = [
            default if value is None else sympy.Max(extent + value, -1) if from_end(x, value) else
            sympy.Min(value, extent - 1) for value, default in ((start, extent - 1), (stop, -1))]
        count = sympy.floor((first - last - step - 1) / sympy.Integer(-step))
        count = count if start is stop is None else sympy.Max(count, 0)
        return (simplified(first), simplified(count), step)
    low = clipped(x, extent, start, 0)
    high = extent if stop is None else clipped(x, extent, stop, None)
    count = extent
    if low != 0 or high != extent:
        count = high - low
        if isinstance(extent, sympy.Max) and len(extent.args) == 2 and sympy.S.Zero in extent.args:
            (inner,) = [part for part in extent.args if part != 0]
            if (high - low - extent).is_nonpositive:  # of a slice: Max(0, Max(0, n - 1) - 1) is Max(0, n - 2)
                count = inner + high - low - extent
    if step != 1:
        count = sympy.floor((count + step - 1) / sympy.Integer(step))
    count = sympy.Max(count, 0)
    return (simplified(low), simplified(count), step)


def clipped(x: Tracer, extent: Any, value: Any, default: Any) -> Any:
    """Clip one bound of a slice; a start beyond the end only empties it, so it stays as it is."""
    import sympy

    if value is None:
        return default
    negative = from_end(x, value)
    if default is None:  # a stop
        return extent + value if negative else sympy.Min(value, extent)
    return sympy.Max(extent + value, 0) if negative else value


def from_end(x: Tracer, value: Any) -> bool:
    """Whether an index or a bound counts from the end; of an extent, as it does where open ones are large.

    Calls where it is otherwise are compiled apart.
    """
    if type(value) is int:
        return value < 0
    if value.is_nonnegative or value.is_negative:
        return bool(value.is_negative)
    return not x.owner.greater(value, 0, "an index", strictly=False, unless=True)


def basic(x: Tracer, entries: list[Any]) -> Any:
    """Index by integers, slices and new axes: a view."""
    old = [e for e in entries if e is not None]
    index = tuple([axis_slice(x, axis, e) for axis, e in enumerate(old)])
    full = all(len(p) == 3 and p[0] == 0 and p[2] == 1 and p[1] == d for p, d in zip(index, x._node.shape, strict=True))  # noqa: SLF001
    result = x if full else slice_(x, index=index)
    if any(e is None for e in entries):
        kept = [e for e in entries if e is None or isinstance(e, slice)]
        result = expand_dims(result, axes=tuple([k for k, e in enumerate(kept) if e is None]))
    elif result is x:
        result = slice_(x, index=index) if x.ndim else x
    return result


def dots_between(index: Any) -> bool:
    """Whether an ellipsis stands between two advanced indices: even one of no axes keeps them apart."""
    if not isinstance(index, tuple):
        return False
    kinds = ["." if i is Ellipsis else "s" if i is None or isinstance(i, slice) else "a" for i in index]
    return "a.a" in "".join(kinds)


def narrowed(x: Tracer, entries: list[Any]) -> tuple[Tracer, dict[int, Any]]:
    """Take the slices of an index first: the view they give, and the integers and arrays of them by its axes."""
    slices = [e if isinstance(e, slice) or e is None else slice(None) for e in entries]
    x = x if all(e == slice(None) for e in slices) else basic(x, slices)
    arrays = {k: e for k, e in enumerate(entries) if e is not None and not isinstance(e, slice)}
    return x, {axis: checked_index(x, axis, e) for axis, e in arrays.items()}


def gather(x: Tracer, entries: list[Any], *, apart: bool = False) -> Any:
    """Index by arrays of integers (and slices, integers, new axes beside them): NumPy's advanced indexing."""
    x, arrays = narrowed(x, entries)
    axes = tuple(arrays)
    y = picked(x, *arrays.values(), axes=axes)
    if apart and axes[0] and axes == tuple(range(axes[0], axes[-1] + 1)):
        kept = x.ndim - len(axes)
        rank = y.ndim - kept  # of the index arrays, which NumPy puts in front here
        return np.moveaxis(y, tuple(range(axes[0], axes[0] + rank)), tuple(range(rank)))
    return y


def checked_index(x: Tracer, axis: int, entry: Any) -> Any:
    """Check a constant index now and make it nonnegative; a traced one is checked when it runs."""
    extent = x._node.shape[axis]  # noqa: SLF001
    if type(entry) is Extent or hasattr(entry, "__symgrad_bind__"):
        return entry
    array = np.asarray(entry, np.int64)
    if type(extent) is not int:
        if array.ndim == 0:
            place = int(array)
            x.owner.require(simplified(place if place >= 0 else extent + place), extent, axis=axis)
        return array
    if array.size and not (-extent <= array.min() and array.max() < extent):
        bad = array[(array < -extent) | (array >= extent)].flat[0]
        raise IndexOutOfBounds(f"index {bad} is out of bounds for axis {axis} with size {extent}", line=user_line())
    return np.where(array < 0, array + extent, array)

"""`Selected`: what ``x[mask]`` is for a traced mask: so many elements that only the run will tell how many.

It holds the whole array and the mask. Arithmetic with it is done for every element, and what is outside of the mask
is dropped where it ends: in a function of all of them, or in ``out[mask] = ...`` through the same mask. How a function
leaves elements out is said where it is answered, see `answers(neutral=)`. What asks for places among them, an index, a
sort or a running sum, is answered by the elements brought in front, where the mask is ``np.arange(n) < count``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from symgrad.errors import ConcretizationError, Line
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import ANSWERS, INT, SCIPYS, UNSET, is_traced, normal_axes, shape_of
from symgrad.ops.numpy.reductions import floating
from symgrad.ops.numpy.sets import count_up, first_of_equal
from symgrad.trace.inplace.views import store
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.remedies import OTHERWISE, asked_by, module_of, public_name
from symgrad.trace.tracer import Tracer

_SIZED = "sg.nonzero(mask, size=n), of as many places as you say; or the places made outside, as an argument"
COUNTS: dict[Any, str] = {
    **dict.fromkeys((np.nonzero, np.where), _SIZED),
    np.flatnonzero: _SIZED.replace("nonzero", "flatnonzero"), np.argwhere: _SIZED.replace("nonzero", "argwhere"),
    **dict.fromkeys((np.unique, np.unique_values), "sg.unique(x, size=n), of as many elements as you say"),
    np.union1d: "sg.unique(np.concatenate([x, y]), size=n), of as many elements as you say",
    **dict.fromkeys((np.intersect1d, np.setdiff1d), "np.isin(x, y), a mask of x, or x[sg.nonzero(mask, size=n)] of it"),
    **dict.fromkeys((np.extract, np.trim_zeros), "np.where(mask, x, 0), or x[sg.nonzero(mask, size=n)]"),
    np.linalg.lstsq: "np.linalg.lstsq(np.where(mask[:, None], A, 0), np.where(mask, y, 0)), where rows of zeros are "
    "none, or np.linalg.solve(A[mask].T @ A[mask], A[mask].T @ y[mask])",
}
"""Functions of which values say how many elements they give or take, and what is written in their place."""


class Selected(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of an array where a traced mask holds.

    Attributes:
        values: the whole array, of which the elements outside of the mask mean nothing.
        mask: the mask, of the shape of the array's first axes.
        line: where it was made.
        maker: the function of NumPy's that gave it; None for an index.
        axis: along which axis its elements were selected.
    """

    maker: Any = None
    axis = 0

    __hash__ = None  # type: ignore[assignment]  # as of NumPy's arrays
    __class__ = np.ndarray  # type: ignore[assignment]  # what isinstance() sees
    __array_priority__ = 2000

    def __init__(self, values: Tracer, mask: Tracer) -> None:
        """Take a copy, as NumPy does: later writes into the array or the mask are not seen."""
        self.values = Tracer(values.node, values.owner)
        self.mask = Tracer(mask.node, mask.owner)
        self.line = user_line()

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """The number of axes: those of the mask become one."""
        return self.values.ndim - self.mask.ndim + 1

    @property
    def shape(self) -> tuple[Any, ...]:
        """How many elements there are along the first axis, a traced number, and the extents of the others."""
        count: Any = np.sum(self.mask)
        return (Tracer(count.node, count.owner, weak=int), *self.values.shape[self.mask.ndim :])

    @property
    def size(self) -> Any:
        """How many elements there are, a traced number."""
        return math.prod(self.shape[1:]) * self.shape[0]

    def unknown(self, what: str, line: Line | None = None, of: Any = None) -> ConcretizationError:
        """Compose the refusal of what needs the number of elements, by a function; `line` is of what is elsewhere."""
        subject, names = "x[mask] with a traced mask", "as many elements as the mask has true ones"
        if self.maker is not None:
            subject, names = f"{public_name(self.maker)}(...) of traced values", "as many elements as these say"
        asked, outer = asked_by() if line is None else ("", None)
        if module_of(outer).startswith(("numpy", "scipy")) and outer not in ANSWERS and outer not in SCIPYS:
            what = f"{asked}: {what}"
        else:
            outer = self.maker
        return ConcretizationError(
            f"{what}: {subject} has {names}, which is not known while {self.values.owner.function}() is traced",
            line=line or user_line(),
            instead=COUNTS.get(outer) or COUNTS.get(of) or OTHERWISE.get(getattr(outer, "__name__", "")) or
            "arithmetic with numbers and with other arrays[mask] of the same mask, sums, means, variances, "
            "extrema, quantiles, norms and dot products of it, an element of it, and out[mask] = of it; or "
            "np.where(mask, x, 0), x[sg.nonzero(mask, size=n)], sg.unique(x, size=n)",
        )

    def __symgrad_bind__(self, op: Any, inputs: Any, params: Any) -> NoReturn:
        raise self.unknown(f"{op.name} of it")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise self.unknown("an array of it, or a result", self.line)

    def __getitem__(self, index: Any) -> Any:
        """Take elements by their places among the selected, a slice, another condition; or columns of each row."""
        items = settled(index if type(index) is tuple else (index,))
        items = items if items and items[0] is not Ellipsis else (slice(None), *items)
        first, rest = items[0], items[1:]
        if first is None or any(type(item) is Selected for item in rest):
            raise self.unknown("an index of a new axis in front, or of each row")
        every = (slice(None),)
        if isinstance(first, slice):
            part = self if first == slice(None) else self.part(first)
            return part.again(part.values[every * part.mask.ndim + rest] if rest else part.values)
        key: Any = lift(first)
        count: Any = np.sum(self.mask)
        chosen = type(key) is Selected and key.ndim == 1
        if chosen and any(np.ndim(item) for item in rest if not isinstance(item, slice)):
            raise self.unknown("an index by what a mask selects, and by an array for another axis")
        if chosen and key.dtype.kind == "b":
            one, key = _in_step(self, key)
            if one.mask.node is key.mask.node:
                made = Selected(one.values, one.mask & key.values)
                return made[every + rest]
        if key.dtype.kind not in "iu" or (type(key) is Selected and not chosen):
            raise self.unknown("an index by another mask, or by what another one selects")
        places = (key.values if chosen else key).astype(INT)
        places = np.where(places < 0, places + count, places)
        there = (places >= 0) & (places < count)
        there = there | ~key.mask if chosen else there
        values = self.front().values
        at: Any = np.where(there, places, values.shape[0])  # which fails elsewhere
        if chosen:
            return Selected(np.take(values, at, axis=0), key.mask)[every + rest]
        both = (at, *rest)
        return values[both]

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise self.unknown("a write into it")

    def __len__(self) -> int:
        raise self.unknown("len() of it, or a loop over it")

    def __iter__(self) -> Iterator[Any]:
        yield len(self)

    @property
    def T(self) -> Selected:  # noqa: N802 - NumPy's name
        """Its transpose: of rows a factor of products that sum over them."""
        return Turned(self.values, self.mask, 1) if self.ndim == 2 else self

    def is_shape(self, shape: Any) -> bool:
        """Whether a shape for `np.reshape` is that of as many elements as there are."""
        if self.ndim != 1:
            return False
        extent = shape[0] if isinstance(shape, (list, tuple)) and len(shape) == 1 else shape
        return extent.node is self.shape[0].node if type(extent) is Tracer else extent == -1

    def rows(self) -> tuple[Any, Any]:
        """Lay the axes of the mask flat; return the values, and the mask with as many axes."""
        values: Any = self.values
        if self.mask.ndim != 1:
            values = np.reshape(values, (-1, *values.shape[self.mask.ndim :]))
        return values, np.expand_dims(np.ravel(self.mask), tuple(range(1, values.ndim)))

    def front(self) -> Selected:
        """Return it with the selected elements in front, in their order."""
        values, _ = self.rows()
        mask: Any = np.ravel(self.mask)
        places = count_up(mask, shape_of(mask)[0])
        node = mask.node
        if node.op.name == "less" and node.inputs[0] is places.node and not node.inputs[1].shape:
            return self  # so it is
        at = np.searchsorted(np.cumsum(mask), places + 1)
        return self.again(gather(values, np.minimum(at, mask.shape[0] - 1), axes=(0,)), places < np.sum(mask))

    def laid(self, axis: int, ndim: int) -> Selected:
        """Return it as it broadcasts to `ndim` axes, of which the selected one, the `axis`-th, is put in front."""
        new = axis - self.axis
        if new < 0 or self.ndim - self.axis != ndim - axis:
            raise self.unknown("what is selected along one axis, beside another axis")
        rank, values = self.mask.ndim, self.values
        made: Any = np.expand_dims(values, tuple(range(rank, rank + new))) if new else values
        return Selected(made, self.mask)

    def behind(self, mask: Tracer) -> Any:
        """Return an array that has the elements where a mask has its true ones, of which there are as many."""
        if self.mask.node is mask.node:
            return self.values
        one = self.front()
        if one.mask.node is not Selected(mask, mask).front().mask.node:
            raise self.unknown("an assignment of it through another mask")
        at = np.maximum(np.cumsum(np.ravel(mask)) - 1, 0)
        return np.reshape(gather(one.values, at, axes=(0,)), (*mask.shape, *one.values.shape[1:]))

    def part(self, index: slice) -> Selected:
        """Take a slice of known ends: as many elements as there are between them."""
        if any(is_traced(end) or hasattr(type(end), "dim") for end in (index.start, index.stop, index.step)):
            raise self.unknown("a slice of traced ends")
        start, stop, step = index.start or 0, index.stop, 1 if index.step is None else index.step
        one = self.front()
        mask: Any = one.mask
        count: Any = np.sum(mask)
        places = count_up(mask, shape_of(mask)[0])
        if step == -1 and index.start is index.stop is None:
            start = count - 1
        elif step < 1 or (stop is not None and start < 0 <= stop):
            raise self.unknown(f"the slice {index.start}:{index.stop}:{index.step}")
        else:
            cut, last = (-stop, count) if stop is not None and stop < 0 else (
                0, count if stop is None else np.minimum(count, stop))
            if start < 0:
                length, start = np.minimum(last, -start) - cut, np.maximum(count + start, 0)
            else:
                length = last - (start + cut)
            mask = places < (np.maximum(length, 0) + (step - 1)) // step
        at = np.clip(start + step * places, 0, mask.shape[0] - 1)
        return self.again(gather(one.values, at, axes=(0,)), mask)

    def sort(self, *args: Any, **options: Any) -> None:
        """As `ndarray.sort`."""
        made: Any = np.sort(self, *args, **options)
        self.values, self.mask = made.values, made.mask

    def astype(self, *args: Any, **kwargs: Any) -> Selected:
        """As `ndarray.astype`."""
        return self.again(self.values.astype(*args, **kwargs))

    def again(self, values: Tracer, mask: Any = None) -> Selected:
        """Return what the same mask selects of other values, made of these."""
        made = Selected(values, self.mask if mask is None else mask)
        made.maker = self.maker
        return made

    def __getattr__(self, name: str) -> Any:
        """Answer the methods of arrays that are functions of NumPy's, too; refuse the others by name."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a selection x[mask] has no attribute {name!r}")
        function = getattr(np, name, None)
        if function not in ANSWERS:
            raise self.unknown(f"the attribute {name!r} of it")
        return lambda *args, **kwargs: self.call(function, (self, *args), kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a ufunc to every element: with numbers, and with what is selected by the same mask."""
        out = kwargs.pop("out", None)
        if method == "reduce" and ufunc in REDUCTIONS:
            kwargs = {name: value for name, value in kwargs.items() if value is not None or name == "axis"}
            return self.call(REDUCTIONS[ufunc], inputs, {"axis": 0} | kwargs)
        if method == "accumulate" and out is None and kwargs in ({}, {"axis": 0}):
            one = self.front()
            made: Any = ufunc.accumulate(one.values)
            return one.again(made)
        if ufunc.signature is not None and method == "__call__" and out is None:
            return self.call(ufunc, inputs, kwargs)
        if method != "__call__" or kwargs or (out is not None and out != (self,)):
            raise self.unknown(f"np.{ufunc.__name__}.{method} of it, or with keywords")
        inputs = _in_step(*inputs)
        one = next(x for x in inputs if type(x) is Selected)
        if out is None and one.mask.node is not self.mask.node:
            return ufunc(*inputs)
        result = ufunc(*map(self._operand, inputs))
        if out is None:
            return self.again(result)
        self.values = store(self._whole(), result, ufunc.__name__)
        return self

    def _whole(self) -> Tracer:
        """Return its values, to be written into."""
        whole = Tracer(self.values.node, self.values.owner)
        whole.is_array = True
        return whole

    def _operand(self, item: Any) -> Any:
        """Return the values of what the same mask selects; anything else is the same for each element."""
        if type(item) in {bool, int, float, NoneType} or item is UNSET or isinstance(item, (type, np.dtype)):
            return item
        item = lift(settled(item))
        if type(item) is Selected:
            if item.mask.node is not self.mask.node or item.ndim != self.ndim:
                raise self.unknown("arithmetic with what another mask selects, or of other axes")
            return item.values
        if item.ndim == self.ndim and item.shape[0] == 1:
            item = item[0]
        if item.ndim >= self.ndim:
            raise self.unknown("arithmetic with an array")
        return item

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.call(func, args, kwargs)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of each element, of each row, or of all of them."""
        args, kwargs = _in_step(*settled(args)), dict(zip(kwargs, _in_step(*settled([*kwargs.values()])), strict=True))
        if func in STACKS:
            return self.stacked(func, *args, **kwargs)
        if func in _OF_EACH:
            made = func(*map(self._operand, args), **{name: self._operand(value) for name, value in kwargs.items()})
            if type(made) is Tracer:
                return self.again(made)
        answer = ANSWERS.get(func) or SCIPYS.get(func)
        neutral = getattr(answer, "neutral", None)
        if answer is None:
            raise self.unknown(f"{named(func)} of it")
        signature = inspect.signature(answer)
        signature = inspect.signature(func.__wrapped__) if "args" in signature.parameters else signature
        bound = signature.bind(*args, **kwargs)
        given, first = bound.arguments, next(iter(signature.parameters))
        axis = given.get("axis", signature.parameters["axis"].default if "axis" in signature.parameters else None)
        axis = None if axis is UNSET else axis
        for name, value in [*given.items()]:
            if value is None or value is UNSET or (name == "where" and value is True):
                del given[name]
        if neutral is None and ("where" in signature.parameters or func in _SKIPPING):
            neutral = {first: np.nan if func in _SKIPPING else None}
        if neutral is None and func in _RUNNING:
            neutral = {first: 0}
        selected = {name: value for name, value in given.items() if isinstance(value, Selected)}
        if func in _FLAT and given.keys() <= {first, "shape"} and self.is_shape(given.get("shape", -1)):
            return self.again(self.values)
        if func == np.unique and self.ndim == 1 and given.keys() <= {first, "equal_nan"}:
            one: Any = np.sort(self)
            return one.again(one.values, one.mask & first_of_equal(one.values, equal_nan=given.get("equal_nan", True)))
        if [*selected] == [_BY_ELEMENT.get(func)]:
            given[_BY_ELEMENT[func]] = self.values
            return self.again(func(*bound.args, **bound.kwargs))
        if func in _WEIGHTED and ("weights" in selected or func not in _SKIPPING):
            return self.weighted(func, bound, selected)
        if func in _IN_TERMS or (func in _MEANS and "weights" not in given):
            return answer(*bound.args, **bound.kwargs)
        if func in _OF_ROWS and [*selected] == [first] and self.ndim == 2 and np.ndim(given["b"]) in {1, 2}:
            return Selected(func(self.values, given["b"]), self.mask)
        one, ord_ = selected.get(first), given.get("ord", 0)
        *factors, last = [self, *selected.values()]
        along = all(each.ndim == 1 for each in factors[1:]) and last.ndim <= 1 + (func in _OF_ROWS)  # what is selected
        if (
            neutral is None or one is None or selected.keys() != neutral.keys() & given.keys() or "where" in given
            or any(other.mask.node is not one.mask.node for other in selected.values())
            or (isinstance(ord_, (int, float)) and ord_ < 0)
            or ("axis" not in signature.parameters and not along)
            or (func in _RUNNING and axis is None and self.ndim > 1)
        ):
            raise self.unknown(f"{named(func)} of it, with these keywords or other arrays", of=func)
        axes = normal_axes(axis, one.ndim)
        if 0 in axes:
            if func in _PLACED or func in _RUNNING:
                one = given[first] = one.front()
            return one.reduced(func, answer, bound, neutral)
        if len(axes) != 1 or len(selected) != 1:
            raise self.unknown(f"{named(func)} of it along axes of each element")
        given |= {first: one.values, "axis": axes[0] + one.mask.ndim - 1}
        return Selected(func(*bound.args, **bound.kwargs), one.mask)

    def reduced(self, func: Any, answer: Any, bound: inspect.BoundArguments, neutral: dict[str, Any]) -> Any:
        """Reduce the first axis at least: what is outside of the mask is left out, or changes nothing."""
        given, skipping = bound.arguments, _SKIPPING.get(func)
        selected = {name: value for name, value in given.items() if type(value) is Selected}
        for name, one in selected.items():
            values, wide = one.rows()
            values = floating(values) if type(neutral[name]) is float else values
            if neutral[name] is None:
                given |= {name: values, "where": wide}
            else:
                element = neutral[name](values.dtype) if callable(neutral[name]) else neutral[name]
                given[name] = np.where(wide, values, np.asarray(element, values.dtype))
        made: Any = (answer if func in SCIPYS else skipping or func)(*bound.args, **bound.kwargs)
        if func in _RUNNING:
            return self.again(made)
        kept = {name: given[name] for name in ("axis", "keepdims") if name in given}
        if skipping:
            made = np.where(np.any(np.isnan(values) & wide, **kept), np.asarray(np.nan, made.dtype), made)
        refused = callable(next(iter(neutral.values()))) or func in _OF_SOME or (
            func == np.average and "weights" in given)
        return of_some(made, wide) if refused and "initial" not in given else made

    def weighted(self, func: Any, bound: inspect.BoundArguments, selected: dict[str, Any]) -> Any:
        """Call a function of which an element counts as often as its weight says: 0 times outside of the mask."""
        given, name = bound.arguments, _WEIGHTED[func]
        one = next(iter(selected.values()))
        rows = [x for x in selected.values() if x.ndim == 2]
        known = {"a", "m", "x", "y", "sample", name, "aweights"} & given.keys() == selected.keys()
        if func == np.cov:  # of variables along the other axis
            known = known and all((type(x) is Turned) == bool(given.get("rowvar", True)) for x in rows)
            given["rowvar"] = False
        elif func in _SKIPPING:
            known = known and (not rows or given.get("axis") == 0)
        masks = {x.mask.node for x in selected.values()}
        if not known or given.get("cov") or given.get("full") or len(masks) > 1:
            raise self.unknown(f"{named(func)} of it, of these axes, with these keywords or another array")
        if func in _BINNED:
            columns = [x for key, x in selected.items() if key != name]
            if func == np.histogramdd:
                columns = [one[:, k] for k in range(one.values.shape[-1])] if rows else columns
            ends = [x.ends() for x in columns]
            if func == np.histogram:
                given.setdefault("range", ends[0])
            else:
                known_ends = given.get("range", [None] * len(ends))
                given["range"] = [b if a is None else a for a, b in zip(known_ends, ends, strict=True)]
        weights: Any = np.ravel(one.mask)
        for key, x in selected.items():
            values, wide = x.rows()
            given[key] = np.where(wide, values, np.zeros((), values.dtype))
            if func == np.histogram:
                weights = np.broadcast_to(wide, values.shape)
        given.setdefault(name, weights.astype(INT))
        made = func(*bound.args, **bound.kwargs)
        if func in _OF_SOME:
            return of_some(made, one.mask)
        return made.astype(INT) if func == np.bincount and name not in selected else made

    def ends(self) -> tuple[Any, Any]:
        """Return the least and the greatest element, as floating-point numbers; of none 0 and 1, as for histograms."""
        values, wide = self.rows()
        values, some = floating(values), np.any(wide)
        low, high = [f(np.where(wide, values, end)) for f, end in ((np.min, np.inf), (np.max, -np.inf))]
        return np.where(some, low, 0), np.where(some, high, 1)

    def stacked(self, func: Any, arrays: Any, axis: Any = 0, **options: Any) -> Any:
        """Put what one mask selects side by side, as columns or as rows."""
        if options or self.ndim != 1 or axis not in {0, 1, -1, -2}:
            raise self.unknown(f"{named(func)} of it along other axes, or with keywords")
        arrays = _in_step(*arrays)
        one = next(x for x in arrays if type(x) is Selected)
        values: Any = np.stack([one._operand(x) for x in arrays], -1)  # noqa: SLF001 - of its own kind
        made = one.again(values)
        return made if func == np.column_stack or axis in {1, -1} else made.T


def of_some(made: Any, mask: Any) -> Any:
    """Return a result that there is only of some elements: of none, a lookup fails at the call."""
    if isinstance(made, tuple):
        return tuple([of_some(one, mask) for one in made])
    return np.take(np.expand_dims(made, 0), np.where(np.any(mask), 0, 1), axis=0)


class Turned(Selected):
    """What a mask selects along another axis than the first: ``x[:, mask]``, and the transpose of rows.

    Its values have the axes of the mask in front, as those of any selection.
    """

    def __init__(self, values: Tracer, mask: Tracer, axis: int) -> None:
        super().__init__(values, mask)
        self.axis = axis

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents, that of the selected axis a traced number."""
        count, *others = super().shape
        return (*others[: self.axis], count, *others[self.axis :])

    @property
    def T(self) -> Selected:  # noqa: N802 - NumPy's name
        """The rows that it is the transpose of."""
        if self.ndim != 2:
            raise self.unknown("the transpose of it")
        return Selected(self.values, self.mask)

    def again(self, values: Tracer, mask: Any = None) -> Selected:
        """Return what the same mask selects of other values, laid as these."""
        return Turned(values, self.mask if mask is None else mask, self.axis)

    def __getitem__(self, index: Any) -> Any:
        """Take integers and slices of its axes."""
        items = [*settled(index if type(index) is tuple else (index,))]
        items += [slice(None)] * (self.ndim - len(items))
        if len(items) > self.ndim or not all(isinstance(i, (slice, int, np.integer)) for i in items):
            raise self.unknown("an index of it by more than integers and slices")
        key = (items[self.axis], *items[: self.axis], *items[self.axis + 1 :])
        made = Selected(self.values, self.mask)[key]
        axis = sum(isinstance(i, slice) for i in items[: self.axis])
        return Turned(made.values, made.mask, axis) if type(made) is Selected and axis else made

    def _in_front(self, item: Any) -> Any:
        """Lay what it is computed with as its own values are laid."""
        if not hasattr(item, "__array_ufunc__") and not isinstance(item, (list, tuple)):
            return item
        item = lift(settled(item))
        if isinstance(item, Selected):
            return item.laid(self.axis, self.ndim)
        along = item.ndim - self.ndim + self.axis
        if along < 0:
            return item
        if item.ndim > self.ndim or item.shape[along] != 1:
            raise self.unknown("arithmetic with an array")
        return np.take(item, 0, axis=along)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a ufunc to every element; multiply the transpose of rows with what the same mask selects."""
        given = [value for value in inputs if isinstance(value, Selected) and value.mask.node is self.mask.node]
        if ufunc is np.matmul and method == "__call__" and not kwargs and [*map(type, given)] == [Turned, Selected]:
            left, right = [np.where(wide, x, np.zeros((), x.dtype)) for x, wide in (one.rows() for one in given)]
            return np.matmul(left.T, right)
        if method == "reduce" and ufunc in REDUCTIONS:
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        if method != "__call__" or ufunc.signature is not None:
            raise self.unknown(f"np.{ufunc.__name__} of its transpose")
        out = kwargs.pop("out", None)
        made = ufunc(*map(self._in_front, inputs), **kwargs)
        if out is None:
            return self.again(made.values, made.mask)
        if out != (self,):
            raise self.unknown("out= of it")
        self.values = store(self._whole(), made.values, ufunc.__name__)
        return self

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer `np.dot`, `np.matmul`, the covariance, functions of each element, and sums along the selected axis."""
        if func in {np.cov, np.corrcoef}:
            return super().call(func, args, kwargs)
        if func in _OF_ROWS:
            return self.__array_ufunc__(np.matmul, "__call__", *args, **kwargs)
        if func in _OF_EACH:
            made = func(*map(self._in_front, args), **{name: self._in_front(value) for name, value in kwargs.items()})
            return self.again(made.values, made.mask)
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        totals = func in REDUCTIONS.values() or func in _TOTALS
        along = axis is None or axis % self.ndim == self.axis
        if not totals or not args or args[0] is not self or len(args) > 2 or not along:
            raise self.unknown(f"{named(func)} of its transpose")
        one = Selected(self.values, self.mask)
        made = func(one, **kwargs | {"axis": None if axis is None else 0})
        return np.moveaxis(made, 0, self.axis) if kwargs.get("keepdims") and axis is not None else made


def named(func: Any) -> str:
    """Return a function's name as users write it."""
    return public_name(func).replace("numpy.", "np.", 1)


SELECTIONS = frozenset({Selected, Turned})


def _in_step(*given: Any) -> tuple[Any, ...]:
    """Bring selections by different masks in front, where they are of one mask if there are as many by each."""
    masks = {x.mask.node for x in given if type(x) is Selected}
    return tuple([x.front() if type(x) is Selected else x for x in given]) if len(masks) > 1 else given


_OF_EACH = frozenset({
    np.clip, np.copy, np.isclose, np.nan_to_num, np.round, np.where, np.zeros_like, np.ones_like, np.empty_like,
})
"""Functions of each element that are no ufuncs."""

_BY_ELEMENT: dict[Any, str] = {
    np.isin: "element", np.digitize: "x", np.searchsorted: "v", np.interp: "x", np.polyval: "x",
}
"""Functions of each element of one argument, by its name."""

_FLAT = frozenset({np.ravel, np.reshape})
STACKS = frozenset({np.stack, np.column_stack, np.vstack})

_WEIGHTED: dict[Any, str] = {
    np.cov: "fweights", np.histogram: "weights", np.histogram2d: "weights", np.histogramdd: "weights",
    np.bincount: "weights", np.polyfit: "w", np.quantile: "weights", np.percentile: "weights",
}
"""Functions to which an element of weight 0 is none, and the argument that is the weights."""

_BINNED = frozenset({np.histogram, np.histogram2d, np.histogramdd})
"""Those of which the bins lie between extrema where there is no range."""

_PLACED = frozenset({np.argmax, np.argmin, np.nanargmax, np.nanargmin})
"""What gives a place among the selected."""

_RUNNING = frozenset({np.sort, np.argsort, np.cumsum, np.cumprod})
"""What gives an element for each one of those in front, whatever comes behind them."""

_OF_ROWS = frozenset({np.dot, np.matmul})
_MEANS = frozenset({np.average})
"""Without weights they are `np.mean`."""

_IN_TERMS = frozenset({
    np.allclose, np.corrcoef, np.diff, np.ediff1d, np.flip, np.ndim, np.place, np.ptp, np.shape, np.size,
    np.trapezoid,
})
"""What is written in terms of others."""

_OF_SOME = frozenset({np.quantile, np.percentile})
"""What NumPy refuses of no elements, beside extrema and means of weights."""

_TOTALS = frozenset({np.mean, np.var, np.std, np.median})
"""What is made of all elements along an axis, beside what ufuncs reduce to."""

_SKIPPING: dict[Any, Any] = {np.median: np.nanmedian, np.percentile: np.nanpercentile, np.quantile: np.nanquantile}
"""What leaves out NaN, in the place of what gives NaN then."""

REDUCTIONS = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_or: np.any,
    np.logical_and: np.all,
}

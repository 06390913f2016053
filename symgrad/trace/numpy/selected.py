"""`Selected`: what ``x[mask]`` is for a traced mask: so many elements that only the run will tell how many.

It holds the whole array and the mask. Arithmetic with it is done for every element, and what is outside of the mask
is dropped where it ends: in a function of all of them, or in ``out[mask] = ...`` through the same mask. How a function
leaves elements out is said where it is answered, see `answers(neutral=)`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from symgrad.errors import ConcretizationError, Line
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import ANSWERS, SCIPYS, UNSET, normal_axes
from symgrad.ops.numpy.reductions import floating
from symgrad.trace.inplace.views import store
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.remedies import OTHERWISE, asked_by, module_of, public_name
from symgrad.trace.tracer import Tracer

_SIZED = "sg.nonzero(mask, size=n), of as many places as you say"
COUNTS: dict[Any, str] = {
    **dict.fromkeys((np.nonzero, np.where), _SIZED),
    np.flatnonzero: _SIZED.replace("nonzero", "flatnonzero"), np.argwhere: _SIZED.replace("nonzero", "argwhere"),
    **dict.fromkeys((np.unique, np.unique_values), "sg.unique(x, size=n), of as many elements as you say"),
    np.union1d: "sg.unique(np.concatenate([x, y]), size=n), of as many elements as you say",
    **dict.fromkeys((np.intersect1d, np.setdiff1d), "np.isin(x, y), a mask of x, or x[sg.nonzero(mask, size=n)] of it"),
    **dict.fromkeys((np.extract, np.trim_zeros), "np.where(mask, x, 0), or x[sg.nonzero(mask, size=n)]"),
}
"""Functions of which values say how many elements they give, and what is written in their place."""


class Selected(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of an array where a traced mask holds.

    Attributes:
        values: the whole array, of which the elements outside of the mask mean nothing.
        mask: the mask, of the shape of the array's first axes.
        line: where it was made.
        maker: the function of NumPy's that gave it; None for an index.
    """

    maker: Any = None

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

    def unknown(self, what: str, line: Line | None = None) -> ConcretizationError:
        """Compose the refusal of what would need the number of elements; `line` is for what happens elsewhere."""
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
            instead=COUNTS.get(outer) or OTHERWISE.get(getattr(outer, "__name__", "")) or
            "arithmetic with numbers and with other arrays[mask] of the same mask, sums, means, variances, "
            "extrema, quantiles, norms and dot products of it, and out[mask] = of it; or np.where(mask, x, 0), "
            "x[sg.nonzero(mask, size=n)], sg.unique(x, size=n)",
        )

    def __symgrad_bind__(self, op: Any, inputs: Any, params: Any) -> NoReturn:
        raise self.unknown(f"{op.name} of it")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise self.unknown("an array of it, or a result", self.line)

    def __getitem__(self, index: Any) -> NoReturn:
        raise self.unknown("an index into it")

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise self.unknown("a write into it")

    def __len__(self) -> int:
        raise self.unknown("len() of it, or a loop over it")

    def __iter__(self) -> Iterator[Any]:
        yield len(self)

    @property
    def T(self) -> Selected:  # noqa: N802 - NumPy's name
        """Its transpose: of rows a factor of products that sum over them."""
        return Turned(self.values, self.mask) if self.ndim == 2 else self

    def rows(self) -> tuple[Any, Any]:
        """Lay the axes of the mask flat; return the values, and the mask with as many axes."""
        values: Any = self.values
        if self.mask.ndim != 1:
            values = np.reshape(values, (-1, *values.shape[self.mask.ndim :]))
        return values, np.expand_dims(np.ravel(self.mask), tuple(range(1, values.ndim)))

    def astype(self, *args: Any, **kwargs: Any) -> Selected:
        """As `ndarray.astype`."""
        return self.again(self.values.astype(*args, **kwargs))

    def again(self, values: Tracer) -> Selected:
        """Return what the same mask selects of other values, made of these."""
        made = Selected(values, self.mask)
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
        if ufunc.signature is not None and method == "__call__" and out is None:
            return self.call(ufunc, inputs, kwargs)
        if method != "__call__" or kwargs or (out is not None and out != (self,)):
            raise self.unknown(f"np.{ufunc.__name__}.{method} of it, or with keywords")
        result = ufunc(*map(self._operand, inputs))
        if out is None:
            return self.again(result)
        whole = Tracer(self.values.node, self.values.owner)
        whole.is_array = True
        self.values = store(whole, result, ufunc.__name__)
        return self

    def _operand(self, item: Any) -> Any:
        """Return the values of what the same mask selects; anything else is the same for each element."""
        if type(item) in {bool, int, float, NoneType} or item is UNSET:
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
        args, kwargs = settled(args), settled(kwargs)
        if func in _OF_EACH:
            made = func(*map(self._operand, args), **{name: self._operand(value) for name, value in kwargs.items()})
            if type(made) is Tracer:
                return self.again(made)
        answer = ANSWERS.get(func) or SCIPYS.get(func)
        neutral = getattr(answer, "neutral", None)
        if answer is None:
            raise self.unknown(f"np.{func.__name__} of it")
        signature = inspect.signature(answer)
        signature = inspect.signature(func.__wrapped__) if "args" in signature.parameters else signature
        bound = signature.bind(*args, **kwargs)
        given, first = bound.arguments, next(iter(signature.parameters))
        for name, value in [*given.items()]:
            if value is None or value is UNSET or (name == "where" and value is True):
                del given[name]
        if neutral is None and ("where" in signature.parameters or func in _SKIPPING):
            neutral = {first: np.nan if func in _SKIPPING else None}
        selected = {name: value for name, value in given.items() if type(value) is Selected}
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
        ):
            raise self.unknown(f"np.{func.__name__} of it, or with keywords or another array")
        axes = normal_axes(given.get("axis"), one.ndim)
        if 0 in axes:
            return one.reduced(func, answer, bound, neutral)
        if len(axes) != 1 or len(selected) != 1:
            raise self.unknown(f"np.{func.__name__} of it along axes of each element")
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
        kept = {name: given[name] for name in ("axis", "keepdims") if name in given}
        if skipping:
            made = np.where(np.any(np.isnan(values) & wide, **kept), np.asarray(np.nan, made.dtype), made)
        if callable(next(iter(neutral.values()))) and "initial" not in given:  # of none a lookup fails
            made = np.take(np.expand_dims(made, 0), np.where(np.any(wide), 0, 1), axis=0)
        return made


class Turned(Selected):
    """The transpose of rows that a mask selects."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Multiply it with what the same mask selects."""
        given = [value for value in inputs if isinstance(value, Selected) and value.mask.node is self.mask.node]
        if ufunc is np.matmul and method == "__call__" and not kwargs and [*map(type, given)] == [Turned, Selected]:
            left, right = [np.where(wide, x, np.zeros((), x.dtype)) for x, wide in (one.rows() for one in given)]
            return np.matmul(left.T, right)
        raise self.unknown("arithmetic with its transpose")

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer `np.dot` and `np.matmul`."""
        if func in _OF_ROWS:
            return self.__array_ufunc__(np.matmul, "__call__", *args, **kwargs)
        raise self.unknown(f"np.{func.__name__} of its transpose")


_OF_EACH = frozenset({np.clip, np.copy, np.isclose, np.nan_to_num, np.round, np.where})
"""Functions of each element that are no ufuncs."""

_OF_ROWS = frozenset({np.dot, np.matmul})
_MEANS = frozenset({np.average})
"""Without weights they are `np.mean`."""

_IN_TERMS = frozenset({np.ptp, np.shape, np.size})
"""What is written in terms of others."""

_SKIPPING: dict[Any, Any] = {np.median: np.nanmedian, np.percentile: np.nanpercentile, np.quantile: np.nanquantile}
"""What leaves out NaN, in the place of what gives NaN then."""

REDUCTIONS = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_or: np.any,
    np.logical_and: np.all,
}

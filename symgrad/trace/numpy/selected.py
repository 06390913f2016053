"""`Selected`: what ``x[mask]`` is for a traced mask: so many elements that only the run will tell how many.

It holds the whole array and the mask. Arithmetic with it is done for every element, and what is outside of the mask
is dropped where it ends: in one number of all of them, or in ``out[mask] = ...`` through the same mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from symgrad.errors import ConcretizationError, Line
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import UNSET
from symgrad.trace.inplace.views import store
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.tracer import Tracer


class Selected(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of an array where a traced mask holds.

    Attributes:
        values: the whole array, of which the elements outside of the mask mean nothing.
        mask: the mask, of the shape of the array's first axes.
        line: where it was made.
    """

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
    def size(self) -> Any:
        """How many elements there are, a traced number."""
        count: Any = np.sum(self.mask)
        for extent in self.values.shape[self.mask.ndim :]:
            count = count * extent
        return count

    def unknown(self, what: str, line: Line | None = None) -> ConcretizationError:
        """Compose the refusal of what would need the number of elements; `line` is for what happens elsewhere."""
        return ConcretizationError(
            f"{what}: x[mask] with a traced mask has as many elements as the mask has true ones, which is not known "
            f"while {self.values.owner.function}() is traced",
            line=line or user_line(),
            instead="arithmetic with numbers and with other arrays[mask] of the same mask, sums, means, variances, "
            "norms and dot products of it, and out[mask] = of it; or np.where(mask, x, 0), "
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

    def __getattr__(self, name: str) -> Any:
        """Answer the methods of arrays that give one number of all; refuse the others by name."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a selection x[mask] has no attribute {name!r}")
        function = getattr(np, name, None)
        if function not in TOTALS:
            raise self.unknown(f"the attribute {name!r} of it")
        return lambda *args, **kwargs: self.total(function, (self, *args), kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a ufunc to every element: with numbers, and with what is selected by the same mask."""
        out = kwargs.pop("out", None)
        if method == "reduce" and ufunc in _REDUCTIONS:
            left = {k: v for k, v in kwargs.items() if k != "axis" or v != 0}
            return self.total(_REDUCTIONS[ufunc], inputs, left)
        if ufunc in TOTALS and method == "__call__" and out is None:
            return self.total(ufunc, inputs, kwargs)
        if method != "__call__" or kwargs or (out is not None and out != (self,)):
            raise self.unknown(f"np.{ufunc.__name__}.{method} of it, or with keywords")
        values = [item if type(item) in {int, float} else self._operand(lift(settled(item))) for item in inputs]
        result = ufunc(*values)
        if out is None:
            return Selected(result, self.mask)
        whole = Tracer(self.values.node, self.values.owner)
        whole.is_array = True
        self.values = store(whole, result, ufunc.__name__)
        return self

    def _operand(self, item: Any) -> Any:
        if type(item) is Selected:
            if item.mask.node is not self.mask.node:
                raise self.unknown("arithmetic with what another mask selects")
            return item.values
        if np.ndim(item):
            raise self.unknown("arithmetic with an array")
        return item

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in TOTALS:
            return self.total(func, args, kwargs)
        raise self.unknown(f"np.{func.__name__} of it")

    def total(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Reduce all of it, or two that the same mask selects, to one number."""
        given = {k: v for k, v in kwargs.items() if v is not None and v is not UNSET and v is not False}
        selected, rest = args[: TOTALS[func]], [v for v in args[TOTALS[func] :] if v is not None]
        if rest or given.keys() - {"ddof", "correction"} or self.ndim > 1 or {*map(type, selected)} != {Selected}:
            raise self.unknown(f"np.{func.__name__} of it along an axis, or with keywords or another array")
        values = [self._operand(one) for one in selected]
        if func in _LEFT_OUT:
            return func(*values, where=self.mask, **given)
        return func(*[np.where(self.mask, one, np.zeros((), one.dtype)) for one in values])


_LEFT_OUT = {np.prod, np.all, np.mean, np.var, np.std}
"""Functions that are told to leave elements out; to the others a zero in the place of an element is nothing."""

TOTALS: dict[Any, int] = {
    **dict.fromkeys((np.sum, np.any, np.count_nonzero, np.linalg.norm, *_LEFT_OUT), 1),
    **dict.fromkeys((np.dot, np.vdot, np.inner, np.matmul), 2),
}
"""Functions of all elements, each with how many arrays it is of."""

_REDUCTIONS = {np.add: np.sum, np.multiply: np.prod, np.logical_or: np.any, np.logical_and: np.all}

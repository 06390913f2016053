"""Operators, methods and ufunc methods of traced arrays."""

from __future__ import annotations

import inspect
import operator as operators
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, AxisError, DtypeError, SymgradError, UnsupportedError
from symgrad.ops.arrays.views import sliced
from symgrad.ops.declare.forms import ANSWERS, INT, LOOPS, UNSET, is_traced, is_unset, shape_of
from symgrad.ops.numpy.folds import accumulated, loop_dtype, reduced, reduced_at
from symgrad.ops.numpy.sets import count_up
from symgrad.trace.constants import asks, constant
from symgrad.trace.inplace.local import Flat, LocalArray, Standing, wrapped
from symgrad.trace.inplace.local import call_ufunc as local_ufunc
from symgrad.trace.inplace.views import refuse_plain, store
from symgrad.trace.inplace.writes import at_places, fill_flat, in_place, put, setitem
from symgrad.trace.lines import is_user_code, located, on_users_line, user_line
from symgrad.trace.nested import settled, touches
from symgrad.trace.numpy.answers import GIVES_ARRAYS, answered, call_ufunc
from symgrad.trace.numpy.indexing import getitem
from symgrad.trace.numpy.selected import REDUCTIONS, SELECTIONS
from symgrad.trace.structures import is_sparse
from symgrad.trace.tracer import SEQUENCES, Tracer, as_array, kind_of, lift


def _reduced_at(ufunc: np.ufunc, a: Any, indices: Any, axis: Any = 0, *, dtype: Any = None) -> Any:
    """As ``ufunc.reduceat``; of traced indices, `_disjoint` where they do not decrease, else `_overlapping`."""
    if not is_traced(lift(indices)):
        return reduced_at(ufunc, a, indices, axis, dtype=dtype)
    kind = loop_dtype("reduceat", ufunc, lift(a).dtype, dtype)
    x: Any = np.moveaxis(lift(a).astype(kind), axis, 0)
    first: Any = lift(indices).astype(INT)
    first = np.where(first < 0, x.shape[0], first)  # beyond the end, as the lookup says
    each: Any = np.take(x, first, axis=0)  # which the other elements of each part are added to, or the like
    before = first[np.maximum(count_up(first, shape_of(first)[0]) - 1, 0)]
    made = LOOPS["cond"](
        np.any(first < before), partial(_overlapping, ufunc), partial(_disjoint, ufunc), x, first, each)
    return np.moveaxis(made, 0, axis)


def _disjoint(ufunc: np.ufunc, x: Any, first: Any, each: Any) -> Any:
    """Put each element into the one part that it belongs to."""
    places = count_up(first, shape_of(x)[0])
    part = np.searchsorted(first, places, "right") - 1
    part = np.where((part >= 0) & (first[np.maximum(part, 0)] < places), part, first.shape[0])
    joined: Any = np.concatenate([each, each[:1]])
    made = as_array(Tracer(joined.node, first.owner))
    at_places(ufunc, made, part, x)
    return sliced(made, 0, 0, shape_of(first)[0])


def _overlapping(ufunc: np.ufunc, x: Any, first: Any, each: Any) -> Any:
    """Go through the elements, each of which may belong to several parts; one that ends before its start has one."""
    after = count_up(first, shape_of(first)[0]) + 1
    end = np.where(after < first.shape[0], first[np.minimum(after, first.shape[0] - 1)], x.shape[0])

    def step(total: Any, item: Any) -> Any:
        element, place = item
        inside = np.reshape((first < place) & (place < end), (first.shape[0], *[1] * (x.ndim - 1)))
        return np.where(inside, ufunc(total, element), total), None

    return LOOPS["scan"](step, each, (x, count_up(first, shape_of(x)[0])))[0]


FOLDS: dict[str, Any] = {"reduce": reduced, "accumulate": accumulated, "reduceat": _reduced_at}
"""What answers the methods of any other ufunc."""

ACCUMULATIONS: dict[np.ufunc, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


def _array_ufunc(self: Tracer, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Answer a ufunc, and ``reduce``, ``accumulate``, ``outer`` and ``at`` of one."""
    if method == "__call__" and not kwargs and not any(hasattr(type(i), "unknown") for i in inputs):
        return call_ufunc(self.owner, ufunc, inputs)
    if any(type(i) is LocalArray for i in (*inputs, *kwargs.values(), *(kwargs.get("out") or ()))):
        return local_ufunc(ufunc, method, inputs, kwargs)
    if any(type(i) in SELECTIONS for i in inputs):
        return NotImplemented
    out = kwargs.pop("out", None)
    if ufunc.nout > 1 and out is not None:
        for to in [to for to in out if to is not None]:
            refuse_plain(to, f"np.{ufunc.__name__}")
        made = _ufunc_called(self, ufunc, inputs, kwargs, None)
        return tuple([x if to is None else store(to, x, ufunc.__name__) for to, x in zip(out, made, strict=True)])
    target = out[0] if isinstance(out, tuple) else out
    target = None if target is ... else target  # an array is wanted, as ever
    if target is not None:
        refuse_plain(target, f"np.{ufunc.__name__}")
    if method == "__call__":
        result = _ufunc_called(self, ufunc, inputs, kwargs, target)
        return result if target is None else store(target, result, ufunc.__name__)
    if method == "at":
        return at_places(ufunc, *inputs)
    kwargs = kwargs if target is None else {**kwargs, "out": target}
    if method == "reduce":  # also of a plain array, where ``where=`` alone is traced
        written_out = {"axis", "keepdims", "initial"}
        kwargs = {k: v for k, v in kwargs.items() if not is_unset(v) or (v is None and k in written_out)}
    if method == "reduce" and ufunc in REDUCTIONS:
        function: Any = REDUCTIONS[ufunc]
        kept = {"axis": 0, **kwargs}
        if function in {np.any, np.all} and np.dtype(kept.get("dtype", bool)) == bool:
            kept.pop("dtype", None)
        if {*kept} <= {*inspect.signature(function).parameters}:  # `np.any` has no `initial`, `np.max` no `dtype`
            return answered(function, settled(inputs), settled(kept))
    if method == "accumulate" and ufunc in ACCUMULATIONS:
        if not np.ndim(inputs[0]) or (kwargs.get("axis", 0) is None and np.ndim(inputs[0]) > 1):
            raise ArgumentValueError(f"np.{ufunc.__name__}.accumulate needs one axis", line=user_line())
        return answered(ACCUMULATIONS[ufunc], settled(inputs), settled({"axis": 0, **kwargs}))
    if method == "outer":
        a, b = inputs
        return ufunc(np.expand_dims(a, tuple(range(np.ndim(a), np.ndim(a) + np.ndim(b)))), b, **kwargs)
    fold = FOLDS.get(method)
    if method != "reduce":
        kwargs = {name: value for name, value in kwargs.items() if name == "axis" or not is_unset(value)}
    if fold is None or "out" in kwargs or (method != "reduceat" and {type(i) for i in inputs[1:]} & {Tracer}):
        raise UnsupportedError(
            f"np.{ufunc.__name__}.{method} has no answer for traced arrays", line=user_line(),
            instead="np.where, slices or a sum",
        )
    try:
        return fold(ufunc, *settled(inputs), **kwargs)
    except SymgradError as error:
        raise located(error) from None
    except np.exceptions.AxisError as error:
        raise AxisError(str(error), line=user_line()) from None


def _ufunc_called(
    x: Tracer, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], target: Tracer | None,
) -> Any:
    """Call a ufunc with keywords; with ``where=`` what it leaves out stays as it is in the target."""
    where = True if target is None else kwargs.pop("where", True)
    where = True if where is UNSET else where  # as np.nanvar leaves it away
    dtype = kwargs.pop("dtype", None)
    if isinstance(dtype, type) and issubclass(dtype, np.dtype):
        dtype = dtype()  # type: ignore[call-overload]  # one of `np.dtypes`, which `np.dtype` takes for an object
    casting = kwargs.pop("casting", "same_kind")
    casts = target is not None and casting == "unsafe"
    along = {name: kwargs.pop(name) for name in ("axis", "axes", "keepdims") if ufunc.signature and name in kwargs}
    for name in ("order", "subok"):  # of memory and of classes, of which traced arrays have none
        kwargs.pop(name, None)
    for name, value in kwargs.items():  # the meaning of which would be lost
        if name == "where" and value is not True:
            raise UnsupportedError(
                f"np.{ufunc.__name__}(..., where=mask) without out=: the other elements would have no value",
                line=user_line(), instead="np.where(mask, result, otherwise), or out= an array made in the function",
            )
        if name != "where":
            raise UnsupportedError(
                f"np.{ufunc.__name__}(..., {name}=...) on traced arrays", line=user_line(),
                instead="leave the keyword away",
            )
    if ufunc.signature is None and (dtype is not None or casting != "same_kind"):
        wanted = (*[None] * ufunc.nin, *[None if dtype is None else np.dtype(dtype)] * ufunc.nout)
        kinds = (*map(kind_of, inputs), *[None] * ufunc.nout)
        try:
            loop = ufunc.resolve_dtypes(kinds, signature=wanted, casting=casting)[: ufunc.nin]
        except TypeError as error:
            raise DtypeError(f"np.{ufunc.__name__}: {error}", line=user_line()) from None
        given = [i if type(i) is Tracer else np.asarray(i) for i in map(lift, inputs)]
        inputs = tuple([i.astype(kind) for i, kind in zip(given, loop, strict=True)])
    elif dtype is not None:
        raise UnsupportedError(f"np.{ufunc.__name__}(..., dtype=)", line=user_line(), instead=".astype of the result")
    if not any(type(i) is Tracer or hasattr(i, "__symgrad_bind__") for i in inputs):
        result: Any = Tracer(constant(x.owner, ufunc(*inputs)), x.owner)
    else:
        result = _call_along(ufunc, inputs, **along) if along else call_ufunc(x.owner, ufunc, inputs)
    result = result.astype(target.dtype) if casts and target is not None else result
    return result if where is True else np.where(lift(where), result, np.copy(target))  # type: ignore[arg-type]


def _call_along(ufunc: np.ufunc, inputs: Any, axis: Any = None, axes: Any = None, keepdims: Any = False) -> Any:
    """Call a ufunc of vectors or matrices that lie along other axes than the last ones."""
    name, signature, arrays = f"np.{ufunc.__name__}", str(ufunc.signature), [lift(value) for value in inputs]
    *taken, given = [len(re.findall(r"\w+", core)) for core in re.findall(r"\((.*?)\)", signature)]
    single = {*taken} == {1} and not given
    if (axis is not None and axes is not None) or ((axis is not None or keepdims) and not single):
        raise ArgumentError(
            f"{name}(..., axis=, keepdims=) of the signature {signature}", line=user_line(),
            instead="axes=, of each operand and of the result")
    if "?" in signature:  # of a vector the other axis is not there
        taken = [min(np.ndim(a), count) for a, count in zip(arrays, taken, strict=True)]
        given = sum(taken) - 2
    given += bool(keepdims)
    if axes is None and single:
        axes = [(-1 if axis is None else axis,)] * len(taken)
        axes += [axes[0] * given]
    elif axes is None:
        axes = [tuple(range(-count, 0)) for count in (*taken, given)]
    elif single and len(axes) == len(taken):
        axes = [*axes, (-1,) * given]
    places = [tuple(one) if isinstance(one, (tuple, list)) else (one,) for one in axes]
    if [*map(len, places)] != [*taken, given]:
        raise ArgumentValueError(f"{name}(..., axes={axes!r}) of the signature {signature}", line=user_line())
    *moves, end = [(tuple(range(-len(one), 0)), one) for one in places]
    found = ufunc(*[np.moveaxis(a, to, last) for a, (last, to) in zip(arrays, moves, strict=True)])
    return np.moveaxis(found[..., None] if keepdims else found, *end)


def _as_integer(x: Tracer) -> Any:
    """Return one of Python's truth values as the integer that it is in arithmetic."""
    return Tracer(x.astype(np.int64).node, x.owner, weak=int) if x.weak is bool else x


_PYTHONS = frozenset({bool, int, float})
_BITS = frozenset({
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.less, np.less_equal, np.greater, np.greater_equal, np.equal,
    np.not_equal,
})
"""What takes Python's truth values as such, or does not care."""


def _binary(ufunc: np.ufunc, *, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    is_power = ufunc is np.power and not swapped

    def operator(self: Tracer, other: Any) -> Any:
        if getattr(type(other), "__array_ufunc__", True) is None or type(other) in SELECTIONS or is_sparse(type(other)):
            return NotImplemented
        if ufunc is np.multiply and self.is_number and self.dtype.kind in "iu" and issubclass(type(other), SEQUENCES):
            return other * self.as_index()
        if is_power and type(other) is int and other == 2 and self.dtype.kind == "b" and not self.is_number:
            return call_ufunc(self.owner, np.square, (self,))  # int8, as of arrays in NumPy; np.power gives int64
        both = self.weak is not None and (type(other) in _PYTHONS or getattr(other, "weak", None) is not None)
        if both and ufunc is np.power and kind_of(self) is int and kind_of(other) is int:
            base: Any = other if swapped else self
            exponent: Any = self if swapped else other
            if is_traced(exponent):  # of Python's integers the result may be as long as it likes, or a float
                known = exponent.as_index()
                return (base if known >= 0 else base * 1.0) ** known
        one: Any = _as_integer(self) if both and ufunc not in _BITS else self  # True + True is 2
        result = call_ufunc(self.owner, ufunc, (other, one) if swapped else (one, other))
        if both:
            result.weak = {"b": bool, "f": float, "i": int}.get(result.dtype.kind)  # Python's numbers stay so
        return result

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[Tracer], Any]:
    def operator(self: Tracer) -> Any:
        one = _as_integer(self)
        result = call_ufunc(self.owner, ufunc, (one,))
        result.weak = one.weak
        return result

    return operator


def _operator_in_place(ufunc: np.ufunc) -> Callable[[Tracer, Any], Any]:
    plain = _binary(ufunc)

    def operator(self: Tracer, other: Any) -> Any:
        if self.is_number:
            return plain(self, other)
        return in_place(self, ufunc, other)

    return operator


def _method(function: Any) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return answered(function, (self, *settled(args)), settled(kwargs))

    method.__name__ = function.__name__
    method.__doc__ = f"As `numpy.{function.__name__}`."
    return method


OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}
COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}
UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
METHODS = (
    np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.cumsum,
    np.cumprod, np.ravel, np.squeeze, np.swapaxes, np.repeat, np.diagonal, np.trace, np.round, np.dot, np.clip,
    np.take, np.searchsorted, np.argsort, np.argpartition, np.nonzero, np.choose,
)


class _Methods:
    """What `Tracer` has of NumPy's arrays beside operators and what is a function of NumPy's."""

    __getitem__, __setitem__, __array_ufunc__ = getitem, setitem, _array_ufunc
    flat = property(Flat, fill_flat, doc="Its elements, in C order.")

    def reshape(self: Any, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
        """As `numpy.reshape`, the shape in one argument or several."""
        if not shape:
            raise ArgumentError("reshape() takes a shape", line=user_line())
        given = settled(shape[0] if len(shape) == 1 else shape)
        return answered(np.reshape, (self, given), {"order": order, "copy": copy})

    def transpose(self: Any, *axes: Any) -> Any:
        """As `numpy.transpose`, the axes in one argument or several."""
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def flatten(self: Any, order: Any = "C") -> Any:
        """As `numpy.ravel`, always a copy."""
        return np.copy(np.ravel(self, order))

    def astype(
        self: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True,  # noqa: ARG002
    ) -> Any:
        """As `ndarray.astype`; order and subok change nothing that is traced."""
        if not asks(copy) and np.dtype(dtype) == self.dtype:
            return self
        result = ANSWERS["astype"](self, dtype, casting=casting)
        return result if self.is_number else as_array(result)

    def clip(self: Any, min: Any = None, max: Any = None, out: Any = None, **keywords: Any) -> Any:  # NumPy's names
        """As `numpy.clip`."""
        return answered(np.clip, settled((self, min, max)), settled({"out": out, **keywords}))

    def compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """As `numpy.compress`, which takes the condition first."""
        return answered(np.compress, settled((condition, self)), settled({"axis": axis, "out": out}))

    def copy(self: Any, order: Any = "C") -> Any:
        """As `ndarray.copy`: of a number a number."""
        result = answered(np.copy, (self,), {"order": order})
        return result if self.is_number else as_array(result)

    def conjugate(self) -> Any:
        """As `ndarray.conjugate`, of real numbers."""
        return self

    conj = conjugate

    def fill(self: Any, value: Any) -> None:
        """As `ndarray.fill`."""
        if np.ndim(value):
            raise ArgumentValueError("x.fill(value) takes a number", line=user_line(), instead="x[...] = value")
        setitem(self, ..., value)

    def put(self: Any, indices: Any, values: Any, mode: str = "raise") -> None:
        """As `ndarray.put`."""
        put(self, settled(indices), settled(values), mode)

    def sort(self: Any, *args: Any, **options: Any) -> None:
        """As `ndarray.sort`."""
        setitem(self, ..., np.sort(self, *args, **options))

    def partition(self: Any, *args: Any, **options: Any) -> None:
        """As `ndarray.partition`."""
        setitem(self, ..., np.partition(self, *args, **options))

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if hasattr(type(kwargs.get("out")), "traced"):
            return NotImplemented  # it is for the local array that is written
        result = answered(func, settled(args), settled(kwargs))
        if func in GIVES_ARRAYS and is_user_code(sys._getframe(1).f_code.co_filename):  # noqa: SLF001 - who called it
            return as_array(result)
        return result


def install() -> None:
    """Put the operators and methods on `Tracer`."""
    for name, ufunc in (OPERATORS | COMPARISONS).items():
        setattr(Tracer, f"__{name}__", _binary(ufunc))
    for name, ufunc in OPERATORS.items():
        setattr(Tracer, f"__r{name}__", _binary(ufunc, swapped=True))
        setattr(Tracer, f"__i{name}__", _operator_in_place(ufunc))
        setattr(Standing, f"__i{name}__", _standing_in_place(name))
    for name, ufunc in UNARY.items():
        setattr(Tracer, f"__{name}__", _unary(ufunc))
    for name in (*OPERATORS, *COMPARISONS, "divmod"):
        setattr(Standing, f"__{name}__", _of_standing(name))
    for name in (*OPERATORS, "divmod"):
        setattr(Standing, f"__r{name}__", _of_standing(name, swapped=True))
    for name in (*UNARY, "bool", "float", "int", "index", "complex", "contains"):
        setattr(Standing, f"__{name}__", lambda self, *args, name=f"__{name}__": wrapped(
            getattr(self.settle(), name)(*settled(args))))
    for function in METHODS:
        if function in ANSWERS:
            setattr(Tracer, function.__name__, _method(function))
    for name, method in vars(_Methods).items():
        if callable(method) or type(method) is property:
            setattr(Tracer, name, method)


# -- operators of what stands for an array: those of the array it is now


def _of_standing(name: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    function = divmod if name == "divmod" else getattr(operators, f"__{name}__")

    def operator(self: Any, other: Any) -> Any:
        value, other = self.settle(), settled(other)
        if type(other) in {list, tuple} and touches(other):
            other = lift(other)
        both = (other, value) if swapped else (value, other)
        return wrapped(function(*both) if touches(both) else on_users_line(function, *both))

    return operator


def _standing_in_place(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operators, f"i{name}")

    def operator(self: Any, other: Any) -> Any:
        other = settled(other)
        function(self.written(traced=touches(other)), other)
        return self

    return operator

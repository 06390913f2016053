"""Operators, methods and ufunc methods of traced arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import MutationError, UnsupportedError
from symgrad.ops.declare import ANSWERS
from symgrad.trace.lines import user_line
from symgrad.trace.mutation import in_place, store
from symgrad.trace.tracer import Tracer, call_ufunc

if TYPE_CHECKING:
    from collections.abc import Callable

REDUCTIONS: dict[np.ufunc, Any] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}
ACCUMULATIONS: dict[np.ufunc, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


def ufunc_method(x: Tracer, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a ufunc called with keywords, and ``reduce``, ``accumulate`` and ``outer``."""
    out = kwargs.pop("out", None)
    target = out[0] if isinstance(out, tuple) else out
    if target is not None and type(target) is not Tracer:
        raise MutationError(
            f"np.{ufunc.__name__}(..., out=) writes a traced value into a plain array", line=user_line(),
            instead="make the array inside the traced function (np.empty, np.zeros), or leave out= away",
        )
    if method == "__call__":
        dtype = kwargs.pop("dtype", None)
        _refuse(ufunc, kwargs)
        if dtype is not None:
            inputs = tuple([i.astype(dtype) if type(i) is Tracer else np.asarray(i, dtype) for i in inputs])
        if not any(type(i) is Tracer or hasattr(i, "__symgrad_bind__") for i in inputs):
            result = Tracer(_constant(x, ufunc(*inputs)), x.trace)
        else:
            result = call_ufunc(x.trace, ufunc, inputs)
    elif method == "reduce" and ufunc in REDUCTIONS:
        kwargs.setdefault("axis", 0)
        return REDUCTIONS[ufunc](*inputs, **kwargs)
    elif method == "accumulate" and ufunc in ACCUMULATIONS:
        kwargs.setdefault("axis", 0)
        return ACCUMULATIONS[ufunc](*inputs, **kwargs)
    elif method == "outer":
        a, b = inputs
        return ufunc(np.expand_dims(a, tuple(range(np.ndim(a), np.ndim(a) + np.ndim(b)))), b, **kwargs)
    else:
        raise UnsupportedError(
            f"np.{ufunc.__name__}.{method} has no answer for traced arrays", line=user_line(),
            instead="np.where, slices or a sum",
        )
    return result if target is None else store(target, result, ufunc.__name__)


def _constant(x: Tracer, value: Any) -> Any:
    from symgrad.trace.tracer import constant

    return constant(x.trace, value)


def _refuse(ufunc: np.ufunc, kwargs: dict[str, Any]) -> None:
    """Refuse keywords whose meaning would be lost."""
    plain = {"casting": "same_kind", "order": "K", "subok": True, "where": True}
    for name, value in kwargs.items():
        if name not in plain or value is not plain[name] and value != plain[name]:
            raise UnsupportedError(
                f"np.{ufunc.__name__}(..., {name}=...) on traced arrays", line=user_line(),
                instead="np.where(mask, result, otherwise) for where=; leave the keyword away",
            )


def _binary(ufunc: np.ufunc, *, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    def operator(self: Tracer, other: Any) -> Any:
        if getattr(type(other), "__array_ufunc__", True) is None:
            return NotImplemented
        return call_ufunc(self.trace, ufunc, (other, self) if swapped else (self, other))

    return operator


def _in_place(ufunc: np.ufunc) -> Callable[[Tracer, Any], Tracer]:
    return lambda self, other: in_place(self, ufunc, other)


def _power(self: Tracer, other: Any) -> Any:
    """``x ** k``: NumPy's fast paths for 2 and 0.5 are exact, and stabilize does them for every integer."""
    return call_ufunc(self.trace, np.power, (self, other))


def _method(function: Any) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return ANSWERS[function](self, *args, **kwargs)

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
    np.take, np.ptp, np.copy, np.searchsorted, np.sort, np.argsort, np.nonzero, np.conj,
)


def _reshape(self: Tracer, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    """As `numpy.reshape`, the shape in one argument or several."""
    return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)  # type: ignore[call-overload]


def _transpose(self: Tracer, *axes: Any) -> Any:
    """As `numpy.transpose`, the axes in one argument or several."""
    return np.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)  # type: ignore[call-overload]


def _flatten(self: Tracer, order: str = "C") -> Any:
    """As `numpy.ravel`, always a copy."""
    return np.copy(np.ravel(self, order))  # type: ignore[call-overload]


def _astype(self: Tracer, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:  # noqa: FBT001, FBT002 - NumPy's signature
    """As `ndarray.astype`."""
    return ANSWERS["astype"](self, dtype, casting=casting)


def install() -> None:
    """Put the operators and methods on `Tracer`."""
    for name, ufunc in OPERATORS.items():
        setattr(Tracer, f"__{name}__", _binary(ufunc))
        setattr(Tracer, f"__r{name}__", _binary(ufunc, swapped=True))
        setattr(Tracer, f"__i{name}__", _in_place(ufunc))
    for name, ufunc in COMPARISONS.items():
        setattr(Tracer, f"__{name}__", _binary(ufunc))
    for name, ufunc in UNARY.items():
        setattr(Tracer, f"__{name}__", lambda self, ufunc=ufunc: call_ufunc(self.trace, ufunc, (self,)))
    for function in METHODS:
        if function in ANSWERS:
            setattr(Tracer, function.__name__, _method(function))
    for name, method in {
        "reshape": _reshape, "transpose": _transpose, "flatten": _flatten, "astype": _astype,
        "conjugate": lambda self: self,
    }.items():
        setattr(Tracer, name, method)

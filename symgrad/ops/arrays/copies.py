"""New arrays like others, copies, dtypes, and what an array is."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import Shape
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import ANSWERS, COMPILED, OPS, PARTS, answers, dims, is_traced, normal_axes, shape_of


def fresh(x: Any) -> Any:
    """Return a new array of the same value, which later writes to `x` do not reach."""
    return type(x)(x.node, x.owner) if is_traced(x) else np.array(x)


def an_array(x: Any) -> Any:
    """Return a new array of the value of a traced number."""
    made = fresh(x)
    made.is_array = True
    return made


def filled(like: Any, value: Any, shape: Shape, dtype: Any) -> Any:
    """Return a new array of one value in the trace of `like`, or a plain one."""
    value = lift(value) if is_traced(value) or isinstance(value, (list, tuple)) else np.asarray(value, dtype)
    if value.dtype != dtype:
        value = value.astype(dtype)
    if is_traced(like) and not is_traced(value):  # a node of its own even where the shapes are the same
        return type(like).__symgrad_bind__(like, OPS["broadcast_to"], (value,), {"shape": shape})
    return fresh(broadcast_like(like, value, shape))


def broadcast_like(like: Any, x: Any, shape: Shape) -> Any:
    """Broadcast to a shape that may have unknown extents; a plain array joins the trace of `like` for that."""
    if shape_of(x) == shape:
        return x
    if is_traced(like) and not is_traced(x):
        return type(like).__symgrad_bind__(like, OPS["broadcast_to"], (x,), {"shape": shape})
    return OPS["broadcast_to"](x, shape=shape)


def checked_shape(shape: Any) -> Shape:
    """Turn a shape as users write it, an array of integers included, into integers and SymPy expressions.

    Calls where an open extent of it would be negative are compiled apart, and refused there. Such an extent is written
    as those of slices are, ``Max(0, n - 1)``, so that ``np.ones(n - 1)`` and ``x[1:]`` have one shape.
    """
    for extent in shape if isinstance(shape, (tuple, list)) else (shape,):
        if hasattr(extent, "dim") and not extent.owner.greater(extent.dim, 0, "a shape", strictly=False, unless=True):
            raise ShapeError(f"negative dimensions are not allowed: {extent.dim}")
    found = dims(shape)
    if any(type(d) is int and d < 0 for d in found):
        raise ShapeError(f"negative dimensions are not allowed: {shapes.show(found)}")
    return tuple([d if type(d) is int else shapes.not_negative(d) for d in found])


@answers(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:  # NumPy's signature; NumPy's own gives a number for one
    return fresh(lift(a))


def to_dtype(x: Any, dtype: Any, casting: str = "unsafe") -> Any:
    """As `ndarray.astype`.

    Raises:
        TypeError: when `casting` forbids it, or symgrad does not compile the dtype.
    """
    if is_traced(dtype):
        raise ArgumentError("x.astype(a traced value): a dtype is needed", instead="y.dtype")
    x, kind = lift(x), np.dtype(dtype)
    if kind not in COMPILED:
        raise UnsupportedError(
            f"x.astype({kind}) of a traced array: symgrad compiles bool, integers, float32 and "
            "float64, no complex numbers",
            instead=PARTS if kind.kind == "c" else "np.float32 or np.float64",
        )
    if not np.can_cast(x.dtype, kind, casting):  # type: ignore[arg-type]
        raise UnsupportedError(f"cannot cast array data from {x.dtype!r} to {kind!r} according to the rule {casting!r}")
    made = fresh(x) if x.dtype == kind else OPS["astype"](x, dtype=kind)
    return an_array(made) if is_traced(x) and not x.is_number else made


ANSWERS["astype"] = to_dtype


@answers(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    _cpu(device)
    if not hasattr(x, "astype") or getattr(x, "weak", None) is not None:
        raise ArgumentError("np.astype of one of Python's numbers", instead="np.float64(x)")
    return x if not copy and x.dtype == np.dtype(dtype) else to_dtype(x, dtype)


def _cpu(device: Any) -> None:
    if device not in {None, "cpu"}:
        raise ShapeError(f'Device not understood. Only "cpu" is allowed, but received: {device}')


def _filled_like(value: int) -> Any:
    def like(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None,
    ) -> Any:
        _cpu(device)
        a = lift(a)
        kind = a.dtype if dtype is None else np.dtype(dtype)
        return filled(a, value, shape_of(a) if shape is None else checked_shape(shape), kind)

    return like


answers(np.zeros_like, np.empty_like)(_filled_like(0))
answers(np.ones_like)(_filled_like(1))


# -- what an array is


@answers(np.size)
def size(a: Any, axis: Any = None) -> Any:
    a = lift(a)
    total: Any = 1
    for k in normal_axes(axis, a.ndim):
        total = total * a.shape[k]
    return total


def kinds_of(*values: Any) -> list[Any]:
    """Return what promotion sees of arrays, dtypes and numbers: dtypes, and the type of Python's numbers, weak ones."""
    kinds: list[Any] = []
    for value in values:
        kind = type(value)  # isinstance() takes a traced number for a plain one
        if issubclass(kind, (bool, np.bool)):
            kinds.append(np.dtype(bool))
        elif issubclass(kind, (int, float)) and not issubclass(kind, np.generic):
            kinds.append(kind)
        elif issubclass(kind, (str, type, np.dtype)):
            kinds.append(np.dtype(value))
        else:
            array = lift(value)
            weak = getattr(array, "weak", None)
            kinds.append(array.dtype if weak is None else weak)
    return kinds


def promoted(*values: Any) -> np.dtype[Any]:
    """Return the dtype that arrays, dtypes and numbers promote to; Python's numbers are weak."""
    return np.result_type(*[kind(0) if isinstance(kind, type) else kind for kind in kinds_of(*values)])


answers(np.result_type)(promoted)


@answers(np.conjugate)
def conjugate(x: Any, /) -> Any:
    """As `numpy.conjugate`: a copy; of booleans int8, which NumPy has a loop for."""
    x = lift(x)
    return fresh(x) if x.dtype.kind != "b" else x.astype(np.int8)

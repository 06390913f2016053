"""NumPy's own Python on traced arrays: many of its functions are NumPy written in NumPy.

Each function named at the end is made again from its code, among its module's names with stand-ins for the few that ask
no traced array. NumPy's own functions and modules stay as they are. What needs other digits or other C, and what asks
for the truth of a value, or for an extent, has an answer of its own in the other modules.
"""

from __future__ import annotations

import functools
import sys
import threading
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy._core import fromnumeric

from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    ConcretizationError,
    IndexOutOfBounds,
    LinAlgError,
    SymgradError,
)
from symgrad.ir import shapes
from symgrad.ops.arrays.copies import an_array, filled, fresh
from symgrad.ops.arrays.joining import holds_traced, lift, settled_value, traced_among
from symgrad.ops.declare.forms import OPS, answers, dims, is_traced, shape_of
from symgrad.ops.numpy.diagonals import ones_diagonal


class _Running(threading.local):
    like: Any = None


_running = _Running()
"""A traced array of the call that runs in this thread: what is made meanwhile belongs to its trace."""


# -- stand-ins


def _array(value: Any, dtype: Any = None, *, copy: Any = True, ndmin: int = 0, **_: Any) -> Any:
    made = lift(settled_value(value))
    made = made if dtype is None or made.dtype == dtype else made.astype(dtype)
    made = np.expand_dims(made, tuple(range(ndmin - made.ndim))) if made.ndim < ndmin else made
    if not copy:
        return made
    return an_array(made if is_traced(made) else filled(_running.like, made, shape_of(made), made.dtype))


def _as_array(value: Any, dtype: Any = None, **_: Any) -> Any:
    made = _array(value, dtype, copy=False)
    return made if getattr(made, "weak", None) is None else fresh(made)


def _full(shape: Any, value: Any, dtype: Any = None, **_: Any) -> Any:
    return an_array(filled(_running.like, value, dims(shape), np.dtype(dtype or getattr(value, "dtype", float))))


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return _running.like.__symgrad_bind__(OPS["broadcast_to"], (lift(array),), {"shape": dims(shape)})


def _arange(stop: Any, *more: Any, **keywords: Any) -> Any:
    if not hasattr(type(stop), "dim"):
        return np.arange(stop, *more, **keywords)
    return _running.like.__symgrad_bind__(OPS["arange"], (np.int64(0),), {"count": stop.dim, "step": 1})


def _eye(n: Any, dtype: Any = float) -> Any:
    return ones_diagonal(_running.like, dims(n)[0], (), np.dtype(dtype))


def _length(value: Any) -> Any:
    value = settled_value(value)
    return value.shape[0] if is_traced(value) else len(value)


def _method(a: Any, name: str, *args: Any, **keywords: Any) -> Any:
    """Call what a method of NumPy's arrays is in Python."""
    return _names_with_stand_ins("numpy._core._methods")[f"_{name}"](_as_array(a), *args, **keywords)


def _assert_square(*arrays: Any) -> None:
    """As NumPy's, of extents that may be open."""
    for shape in map(shape_of, arrays):
        if len(shape) < 2:
            raise np.linalg.LinAlgError(f"{len(shape)}-dimensional array given. Array must be at least two-dimensional")
        if shape[-1] != shape[-2]:
            raise np.linalg.LinAlgError(f"Last 2 dimensions of the array must be square, not {shapes.show(shape)}")


STAND_INS: dict[Any, Any] = {
    np.array: _array, np.asarray: _as_array, np.asanyarray: _as_array,
    **dict.fromkeys((np.empty, np.zeros), lambda shape, dtype=float, **_: _full(shape, 0, dtype)),
    np.full: _full, np.broadcast: lambda *arrays: np.broadcast_arrays(*arrays)[0], np.broadcast_to: _broadcast_to,
    np.arange: _arange, np.eye: _eye,
    fromnumeric._wrapfunc: _method,  # type: ignore[attr-defined]  # noqa: SLF001 - it asks for a method
    np.linalg._linalg._assert_stacked_square: _assert_square,  # type: ignore[attr-defined]  # noqa: SLF001
}


class _Module:
    """A module of NumPy's with stand-ins among its names."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = _instead(getattr(self._module, name))
        return found


def _instead(value: Any) -> Any:
    if isinstance(value, ModuleType) and value.__name__.startswith("numpy"):
        return _Module(value)
    return STAND_INS.get(value, value) if getattr(value, "__hash__", None) else value


@functools.cache
def _names_with_stand_ins(module: str) -> dict[str, Any]:
    """Copy a module's names; its helper functions see the stand-ins, too."""
    source = vars(sys.modules[module])
    names = {name: _instead(value) for name, value in source.items()} | {"len": _length}
    for name, value in source.items():
        if type(value) is FunctionType and value.__globals__ is source and value not in STAND_INS:
            names[name] = _remade(value, names)
    return names


def _remade(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


# -- answers


REFUSED: dict[type[Exception], Any] = {
    np.linalg.LinAlgError: LinAlgError, ValueError: ArgumentValueError, TypeError: ArgumentError,
    IndexError: IndexOutOfBounds,
}
"""What NumPy's errors become, which then name the user's line and the arrays."""


def _lifted(value: Any) -> Any:
    """Make an array of a list that holds a traced value: NumPy's functions look no further for one."""
    value = settled_value(value)
    return lift(value) if isinstance(value, (list, tuple)) and holds_traced(value) else value


def _lifted_but_places(value: Any) -> Any:
    """Leave a list of places to split at, which may be extents, as it is."""
    return value if all(hasattr(type(x), "dim") for x in traced_among([value])) else _lifted(value)


def _each_lifted(value: Any) -> Any:
    """Make arrays of the lists among several arrays."""
    if hasattr(value, "ndim") or isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [_lifted(item) for item in value]


def by_numpy(function: Any, lifted: Any = _lifted) -> Any:
    """Return what answers a function of NumPy's: its own Python; `lifted` prepares its arguments."""
    implementation = function.__wrapped__
    name = f"np.{'linalg.' if 'linalg' in implementation.__module__ else ''}{function.__name__}"

    @functools.cache
    def run() -> FunctionType:
        return _remade(implementation, _names_with_stand_ins(implementation.__module__))

    def answer(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple([lifted(value) for value in args]), {k: lifted(value) for k, value in kwargs.items()}
        outer, traced = _running.like, list(traced_among((*args, *kwargs.values())))
        arrays = [x for x in traced if not hasattr(type(x), "dim")]
        _running.like = arrays[0] if arrays else traced[0].tracer()
        said = f"{name} of {' and '.join([f'{x.dtype}{shapes.show(shape_of(x))}' for x in arrays or [_running.like]])}"
        try:
            return run()(*args, **kwargs)
        except ConcretizationError as error:
            if outer is None:
                error.args = (f"{said}: {error}",)
            raise
        except (SymgradError, np.exceptions.AxisError):
            raise
        except tuple(REFUSED) as error:
            if outer is not None:  # the function that was called says what it was called with
                raise
            kind = next(made for kind, made in REFUSED.items() if isinstance(error, kind))
            raise kind(f"{said}: {error}") from None
        finally:
            _running.like = outer

    return answer


for _function in (
    np.clip, np.corrcoef, np.cross, np.diff, np.fix, np.flip, np.fliplr, np.flipud, np.imag, np.iscomplex,
    np.iscomplexobj, np.isrealobj, np.matrix_transpose, np.moveaxis, np.nan_to_num, np.nancumprod, np.nancumsum,
    np.nanprod, np.nansum, np.ndim, np.outer, np.polyval, np.ptp, np.real, np.real_if_close, np.rollaxis, np.rot90,
    np.shape, np.trapezoid,
    np.linalg.cross, np.linalg.diagonal, np.linalg.matrix_norm, np.linalg.matrix_power, np.linalg.matrix_transpose,
    np.linalg.outer, np.linalg.trace,
    *[getattr(np, name) for name in ("cumulative_prod", "cumulative_sum", "unstack") if hasattr(np, name)],  # NumPy 2.1
):
    answers(_function)(by_numpy(_function))
for _function in (np.column_stack, np.dstack, np.hstack, np.select, np.vstack):
    answers(_function)(by_numpy(_function, _each_lifted))
for _function in (np.dsplit, np.hsplit, np.vsplit):
    answers(_function)(by_numpy(_function, _lifted_but_places))

_take_along_axis = by_numpy(np.take_along_axis)


@answers(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if is_traced(indices) and isinstance(arr, np.ndarray):  # a plain array has no traced places
        arr = filled(indices, arr, arr.shape, arr.dtype)
    return _take_along_axis(arr, indices, axis)

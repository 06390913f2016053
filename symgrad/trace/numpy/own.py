"""NumPy's own Python on traced arrays: many of its functions are NumPy written in NumPy.

Each function named at the end is made again from its code, among its module's names with what stands for NumPy's
functions in a trace. NumPy's own functions and modules stay as they are, in every thread. What needs other digits or
other C has an answer of its own in `ops`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy._core import fromnumeric
from numpy._core import shape_base as _shape_base
from numpy._core._multiarray_umath import _array_converter  # type: ignore[import-not-found]
from numpy.lib import _nanfunctions_impl as _nanfunctions
from numpy.lib import _twodim_base_impl as _twodim
from numpy.linalg import _linalg

from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    ConcretizationError,
    IndexOutOfBounds,
    LinAlgError,
    ShapeError,
    SymgradError,
    UnsupportedError,
)
from symgrad.ir.graphs import reachable
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import How
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import checked_shape, filled, promoted
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import along_axis, holds_traced, lift, traced_among
from symgrad.ops.arrays.reduce import nan_or_first
from symgrad.ops.arrays.views import broadcast_to, reshape, sliced
from symgrad.ops.declare.forms import ANSWERS, LOOPS, OPS, UNSET, answers, is_traced, is_unset, normal_axis, shape_of
from symgrad.ops.numpy import padding
from symgrad.ops.numpy.manipulation import static
from symgrad.ops.numpy.reductions import floating, require_some, root
from symgrad.ops.numpy.sets import count_up
from symgrad.trace.inplace.local import lent
from symgrad.trace.inplace.writes import require_traced
from symgrad.trace.lines import raised_in_library
from symgrad.trace.nested import settled, touches
from symgrad.trace.numpy.creation import MAKERS, of_lists
from symgrad.trace.state import MARK, current
from symgrad.trace.tracer import Extent, Tracer, as_node, record

# -- stand-ins


def _broadcast_to(array: Any, shape: Any, **_: Any) -> Any:
    """As NumPy's, of plain arrays to open extents, too."""
    if not touches((array, shape)):
        return np.broadcast_to(settled(array), shape)
    return record(current(), broadcast_to, (lift(array),), {"shape": checked_shape(shape)})  # type: ignore[arg-type]


def _length(value: Any) -> Any:
    value = settled(value)
    return value.shape[0] if is_traced(value) and value.ndim else len(value)


def _array_method(a: Any, name: str, *args: Any, **keywords: Any) -> Any:
    """Call what a method of NumPy's arrays is in Python."""
    in_python = _stand_in_names("numpy._core._methods").get(f"_{name}")
    if in_python is None:
        raise UnsupportedError(f"np.{name} has no answer for traced arrays")
    return in_python(lift(settled(a)), *args, **keywords)


def _assert_square(*arrays: Any) -> None:
    """As NumPy's, of extents that may be open."""
    for shape in map(shape_of, arrays):
        if len(shape) < 2:
            raise np.linalg.LinAlgError(f"{len(shape)}-dimensional array given. Array must be at least two-dimensional")
        if shape[-1] != shape[-2]:
            raise np.linalg.LinAlgError(f"Last 2 dimensions of the array must be square, not {shapes.show(shape)}")


class _Converter:
    """As NumPy's `_array_converter`: arrays of what a function is given, which it gives back as they are."""

    def __init__(self, *values: Any) -> None:
        self._given = values
        self._arrays = tuple([np.asarray(value) if not touches(value) else lift(settled(value)) for value in values])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._arrays)

    def __getitem__(self, place: int) -> Any:
        return self._arrays[place]

    def as_arrays(self, **_: Any) -> tuple[Any, ...]:
        return self._arrays

    def result_type(self, *more: Any, ensure_inexact: bool = False) -> np.dtype[Any]:
        return promoted(*self._given, *more, *[1.0] * ensure_inexact)

    def wrap(self, made: Any, **_: Any) -> Any:
        return made


def _block_setup(arrays: Any) -> Any:
    """As NumPy's, of no size: by that it asks which way is faster."""
    own = _remade(_shape_base._block_setup, _stand_in_names(_shape_base.__name__))  # type: ignore[attr-defined]  # noqa: SLF001 - no other
    return (*own(arrays)[:3], 0)


STAND_INS: dict[Any, Any] = {
    _shape_base._block_setup: _block_setup,  # type: ignore[attr-defined]  # noqa: SLF001 - it asks which way is faster
    _twodim._min_int: lambda *_: np.int64,  # type: ignore[attr-defined]  # noqa: SLF001 - of open extents
    np.can_cast: lambda value, to, casting="safe": np.can_cast(value.dtype if is_traced(value) else value, to, casting),
    np.broadcast: lambda *arrays: np.broadcast_arrays(*arrays)[0] if touches(arrays) else np.broadcast(*lent(arrays)),
    np.broadcast_to: _broadcast_to, _array_converter: _Converter,
    np.prod: lambda extents, **how: math.prod(extents) if type(extents) is list else np.prod(extents, **how),
    _nanfunctions._copyto: lambda a, value, mask: np.where(mask, np.asarray(value, a.dtype), a),  # type: ignore[attr-defined]  # noqa: SLF001 - they ask for ndarray
    _nanfunctions._divide_by_count: lambda a, b, out=None: np.true_divide(a, b, out=out).astype(a.dtype),  # type: ignore[attr-defined]  # noqa: SLF001 - they ask for ndarray
    fromnumeric._wrapfunc: _array_method,  # type: ignore[attr-defined]  # noqa: SLF001 - it asks for a method
    _linalg._assert_stacked_square: _assert_square,  # type: ignore[attr-defined]  # noqa: SLF001 - of open extents
    _linalg._makearray: lambda a: (lift(settled(a)), lambda made: made),  # type: ignore[attr-defined]  # noqa: SLF001 - of open extents
}
"""What stands for NumPy's in its own Python alone; for the other functions stands there what users have."""


_FUNCTIONS = (FunctionType, type(np.sum))
"""In Python, as such or behind the protocol of arrays."""

POLYNOMIALS = "numpy.polynomial."
"""The modules of functions that ask no protocol, and call those of each other."""


class _Module:
    """A module of NumPy's with stand-ins among its names."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        own = self._module.__name__.startswith(POLYNOMIALS)
        found = self.__dict__[name] = (
            _stand_in_names(self._module.__name__)[name] if own else _instead(getattr(self._module, name)))
        return found


def _instead(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return _MODULES.get(value) or (_Module(value) if value.__name__.startswith("numpy") else value)
    value = getattr(value, "original", value)  # a trace may have put its own in the place
    if not callable(value) or not getattr(value, "__hash__", None):
        return value
    if value in STAND_INS:
        return STAND_INS[value]
    if isinstance(value, (type, np.ufunc)):
        return value
    name = getattr(value, "__name__", "")
    if name in MAKERS and getattr(getattr(np, name), "original", getattr(np, name)) is value:
        return lambda *args, **kwargs: MAKERS[name](value, args, kwargs)
    value = _implemented().get(value, value)
    if value in ANSWERS:
        return lambda *args, **kwargs: of_lists(value, args, kwargs)
    return value


_MODULES: dict[ModuleType, Any] = {
    warnings: SimpleNamespace(warn=lambda *_, **__: None),  # a trace does not know whether there is anything to warn of
    builtins: SimpleNamespace(**vars(builtins) | {
        "bool": lambda value: value if is_traced(settled(value)) else bool(value), "len": _length,
    }),
}


@functools.cache
def _implemented() -> dict[Any, Any]:
    """Find functions by what NumPy calls in their place, without asking anybody's protocol."""
    return {f.__wrapped__: f for f in ANSWERS if hasattr(f, "__wrapped__")}


@functools.cache
def _stand_in_names(module: str) -> dict[str, Any]:
    """Copy a module's names, with stand-ins among them; its helper functions see these, too."""
    source = vars(sys.modules[module])
    names = {name: _instead(value) for name, value in source.items()} | {"len": _length, MARK: _taken}
    for name, known in source.items():
        value = getattr(known, "original", known)
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

ERRORS: tuple[type[Exception], ...] = (SymgradError, *REFUSED)


class _Running(threading.local):
    asked = False
    settings: frozenset[Node] = frozenset()


_running = _Running()
"""Whether NumPy's own Python runs in this thread: then the function that was called says what it was called with; and
the inputs that its settings are made of."""

CONDITIONS: dict[str, bool] = {
    "_div": False, "_fit": False, "average": False, "chebdiv": False, "geomspace": False, "gradient": False,
    "isclose": True, "linspace": False, "nanargmax": False, "nanargmin": False, "nanmax": True, "nanmean": False,
    "nanmin": True, "nanvar": True, "piecewise": True, "polydiv": False, "polyfit": False,
    **{f"{kind}{name}": name == "line" for kind in ("poly", "cheb", "leg", "herm", "herme", "lag") for name in (
        "int", "line", "mulx")},
}
"""What a condition on traced values comes to in NumPy's own functions: what leads through their general code."""


def _taken(function: str, condition: Node) -> bool | None:
    """Return what a condition comes to; None for one that only asks for settings, as `edge_order > 2` does."""
    asked = _inputs_of(condition)
    return None if asked and asked <= _running.settings else CONDITIONS.get(function)


def _inputs_of(*nodes: Node) -> frozenset[Node]:
    return frozenset([node for node in reachable(nodes, lambda node: node.inputs) if node.is_input])


def _array_of_list(value: Any) -> Any:
    """Make an array of a list that holds a traced value: ufuncs look no further for one."""
    value = settled(value)
    return lift(value) if isinstance(value, (list, tuple)) and holds_traced(value) else value


def by_numpy(function: Any, lifted: Any = _array_of_list) -> Any:
    """Return what answers a function of NumPy's: its own Python; `lifted` prepares its arguments."""
    implementation = getattr(function, "__wrapped__", function)
    parameters = inspect.signature(implementation).parameters.items()
    settings = [(place, key) for place, (key, known) in enumerate(parameters) if type(known.default) in {bool, int}]
    module = implementation.__globals__["__name__"]  # where its names are
    inside = "linalg." if "linalg" in module else f"{module[6:]}." if module.startswith(POLYNOMIALS) else ""
    name = f"np.{inside}{function.__name__}"

    @functools.cache
    def run() -> FunctionType:
        return _remade(implementation, _stand_in_names(module))

    def answer(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple([lifted(value) for value in args]), {k: lifted(value) for k, value in kwargs.items()}
        if _running.asked:
            return settled(run()(*args, **kwargs))
        given = [kwargs.get(key, args[place] if place < len(args) else None) for place, key in settings]
        _running.asked, _running.settings = True, _inputs_of(*[x.node for x in given if type(x) is Tracer])
        trace: Any = current()
        known = len(trace.graph.requirements)
        try:
            return settled(run()(*args, **kwargs))
        except ERRORS as error:
            shape = isinstance(error, ShapeError)
            if isinstance(error, np.exceptions.AxisError) or not raised_in_library(error):
                raise
            arrays = [x.tracer() if hasattr(type(x), "dim") else x for x in traced_among((*args, *kwargs.values()))]
            said = f"{name} of {' and '.join([f'{x.dtype}{shapes.show(shape_of(x))}' for x in arrays])}"
            taken = [r.extent - r.index for r in trace.graph.requirements[known:]]
            taken += [d for x in arrays for d in shape_of(x) if shape and type(d) is not int]
            if taken and not isinstance(error, ConcretizationError):  # it may be so for what NumPy took them to be
                asked = Extent(min(taken[0].free_symbols, key=str), trace)
                raise _saying(said, asked.refuse("a condition of NumPy's")) from None
            if isinstance(error, ConcretizationError):
                _saying(said, error)
            if isinstance(error, SymgradError):
                raise
            kind = next(made for kind, made in REFUSED.items() if isinstance(error, kind))
            raise kind(f"{said}: {error}") from None
        finally:
            _running.asked = False

    return answer


def _saying(what: str, error: Exception) -> Exception:
    """Put words before those of an error, which is left in no variable of the frame that raises it."""
    error.args = (f"{what}: {error}",)
    return error


def of_polynomials(module: ModuleType) -> dict[str, Any]:
    """Find what answers the functions of one of NumPy's modules of polynomials: nobody knows what ends in zeros."""
    trims = module.__dict__.get("trimseq") or module.pu.trimseq
    STAND_INS[trims] = lambda seq: seq if touches(seq) else trims(seq)
    functions = {name: getattr(value := vars(module)[name], "original", value) for name in module.__all__}
    functions = {name: value for name, value in functions.items() if isinstance(value, _FUNCTIONS)}
    found = {name: by_numpy(value, settled) for name, value in functions.items()}

    def mapdomain(x: Any, old: Any, new: Any) -> Any:  # of numbers or a polynomial
        offset, scale = found["mapparms"](old, new)
        return offset + scale * (x if hasattr(x, "has_samedomain") else lift(settled(x)))

    return found | {"mapdomain": mapdomain} if "mapdomain" in found else found


def indexed(joiner: Any, key: Any) -> Any:
    """Answer ``np.r_[...]`` and ``np.c_[...]`` of traced arrays."""
    names = _stand_in_names("numpy.lib._index_tricks_impl")
    return settled(_remade(type(joiner).__getitem__, names)(joiner, settled(key)))


for _function in (
    np.allclose, np.angle, np.apply_over_axes, np.atleast_1d, np.atleast_2d,
    np.atleast_3d, np.clip, np.common_type, np.corrcoef, np.cross, np.diag_indices_from,
    np.diagflat, np.diff, np.ediff1d, np.fix, np.flatnonzero, np.flip, np.fliplr, np.flipud, np.full_like, np.geomspace,
    np.gradient, np.i0, np.imag, np.isclose, np.iscomplex, np.iscomplexobj, np.isneginf, np.isposinf,
    np.isreal, np.isrealobj, np.kron, np.linspace, np.logspace, np.matrix_transpose, np.meshgrid, np.moveaxis,
    np.nan_to_num, np.nancumprod, np.nancumsum, np.nanmean, np.nanmin, np.nanprod,
    np.nansum, np.nanvar, np.ndim, np.outer, np.poly, np.polyder, np.polyint, np.polyval,
    np.ptp, np.real, np.real_if_close, np.rollaxis, np.rot90, np.shape, np.trapezoid, np.tri, np.tril_indices_from,
    np.triu_indices_from, np.union1d, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values, np.unwrap,
    np.vander,
    np.linalg.cross, np.linalg.diagonal, np.linalg.matmul, np.linalg.matrix_norm, np.linalg.matrix_power,
    np.linalg.matrix_transpose, np.linalg.outer, np.linalg.svdvals, np.linalg.tensordot, np.linalg.tensorinv,
    np.linalg.tensorsolve, np.linalg.trace, np.linalg.vecdot, np.linalg.vector_norm,
    *[getattr(np, name) for name in ("cumulative_prod", "cumulative_sum", "unstack") if hasattr(np, name)],  # NumPy 2.1
):
    answers(_function)(by_numpy(_function))
for _function in (
    np.block, np.column_stack, np.dsplit, np.dstack, np.hsplit, np.hstack, np.indices,
    np.select, np.vsplit, np.vstack,
):
    answers(_function)(by_numpy(_function, settled))
(
    _apply_along_axis, _average, _delete, _insert, _norm, _pad_by_numpy, _polyfit, _put_along_axis, _resize,
    _take_along_axis,
) = [
    by_numpy(f) for f in (
        np.apply_along_axis, np.average, np.delete, np.insert, np.linalg.norm, np.pad, np.polyfit, np.put_along_axis,
        np.resize, np.take_along_axis,
    )]
_ix, _piecewise = by_numpy(np.ix_, settled), by_numpy(np.piecewise, settled)


def _nan_extremum(own: Any, reduce: Any) -> Any:
    """Answer by NumPy's own Python, which forgets what `initial` is where there is NaN alone."""

    def extremum(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = UNSET, initial: Any = UNSET, where: Any = UNSET,
    ) -> Any:
        if is_unset(initial):
            return own(a, axis, out, keepdims, where=where)
        a = lift(a)
        return reduce(np.where(np.isnan(a), lift(initial).astype(a.dtype), a), axis, out, keepdims, initial, where)

    return extremum


for _function, _reduce, _how in ((np.nanmax, np.max, How.MAXIMUM), (np.nanmin, np.min, How.MINIMUM)):
    answers(_function, neutral={"a": nan_or_first(_how)})(_nan_extremum(by_numpy(_function), _reduce))
for _function, _how in ((np.nanargmax, How.MAXIMUM), (np.nanargmin, How.MINIMUM)):
    answers(_function, neutral={"a": nan_or_first(_how)})(by_numpy(_function))


@answers(np.average, neutral={"a": 0, "weights": 0})
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = UNSET) -> Any:
    """As `numpy.average`."""
    if weights is not None:
        return _average(a, axis, weights, returned, keepdims=keepdims)
    a = lift(a)
    mean = np.mean(a, axis, keepdims=keepdims)  # by a number of elements that may be open
    return (mean, np.full_like(mean, np.size(a, axis))) if returned else mean


def _beside(others: Any, x: Any, dtype: Any = None) -> Any:
    """Return a plain array beside traced ones as a traced one: it has no traced places, and takes no traced values."""
    like = next(traced_among([settled(others)]), None)
    plain = isinstance(x, np.ndarray) and not is_traced(x)
    return filled(like, x, x.shape, dtype or x.dtype) if plain and like is not None else x


@answers(np.linalg.norm, neutral={"x": 0})
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """As `numpy.linalg.norm`: the derivative of a root of squares, or of powers, is 0 at 0."""
    x, named = floating(x), isinstance(ord, str)
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    count = len([normal_axis(k, x.ndim) for k in axes])
    if (ord is None and (axis is None or count in {1, 2})) or (count == 1 and ord == 2) or (
            count == 2 and named and ord in {"f", "fro"}):
        return root(np.sum(x * x, axis, keepdims=keepdims))
    if count != 1 or named or ord in {np.inf, -np.inf, 0, 1}:
        return _norm(x, ord, axis, keepdims)
    zero, power = np.zeros((), x.dtype), np.asarray(ord, x.dtype)
    terms = np.abs(x) ** power
    if 0 < ord < 1:  # the derivative of a root is infinite at 0
        terms = np.where(x == 0, zero, terms)
    total = np.sum(terms, axis, keepdims=keepdims)
    found = total ** (np.asarray(1, x.dtype) / power)
    return found if ord < 0 else np.where(total == 0, zero, found)


@answers(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False,
) -> Any:
    """As `numpy.polyfit`, which multiplies in place: a plain array among traced ones is traced, too."""
    deg = static("polyfit", "deg", deg)
    given = [v if v is None else lift(v) for v in (x, y, w)]
    if not any(map(is_traced, given)):
        raise ArgumentError("the degree of np.polyfit is traced", instead="a number that is known while tracing")
    x, y, w = [v if v is None else _beside(given, v, np.float64) for v in given]
    return _polyfit(x, y, deg, rcond, full, w, cov)


@answers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **keywords: Any) -> Any:
    """As `numpy.pad`: what computes new elements is NumPy's own Python."""
    repeats = mode in padding.REPEATING
    if repeats and mode in {"reflect", "symmetric"}:
        repeats = keywords.get("reflect_type", "even") == "even"
        keywords = {name: value for name, value in keywords.items() if not repeats or name != "reflect_type"}
    return (padding.padded if repeats else _pad_by_numpy)(array, pad_width, mode, **keywords)


# -- along unknown extents, where NumPy's own Python counts or compares


@answers(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """As `numpy.apply_along_axis`; over unknown extents a batch of calls."""
    arr = lift(arr)
    k = normal_axis(axis, arr.ndim)
    lines = np.moveaxis(arr, k, -1)
    over = shape_of(lines)[:-1]
    if shapes.is_static(over):
        return _apply_along_axis(func1d, axis, arr, *args, **kwargs)
    rows = reshape(lines, shape=(shapes.simplified(math.prod(over)), shape_of(lines)[-1]))
    made: Any = LOOPS["vmap"](lambda row: lift(settled(func1d(row, *args, **kwargs))))(rows)
    made = reshape(made, shape=(*over, *shape_of(made)[1:]))
    count = made.ndim - len(over)
    return np.moveaxis(made, range(len(over), made.ndim), range(k, k + count))


@answers(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """As `numpy.resize`; of an unknown number of elements each is looked up."""
    x, shape = np.ravel(lift(a)), checked_shape(new_shape)
    if shapes.is_static((*shape_of(x), *shape)) or 0 in shape:
        return _resize(a, new_shape)
    require_some(x, 0, "resize")
    at = np.remainder(count_up(x, shapes.simplified(math.prod(shape))), x.shape[0])
    return reshape(gather(x, at, axes=(0,)), shape=shape)


def _traced(x: Any) -> Tracer:
    return Tracer(as_node(current(), x), current())  # type: ignore[arg-type]


def _place_in(x: Any, k: int, place: Any, name: str, *, end: bool) -> Any:
    """Return a place along an axis of unknown extent from the front, which each call must have."""
    extent = shape_of(x)[k]
    if getattr(place, "dim", None) == extent:
        return extent
    place = operator.index(place)
    outside = f"np.{name}: index {place} is out of bounds for axis {k}"
    x.owner.require(place if place >= 0 else -1 - place, extent + int(end and place >= 0), outside)
    return place if place >= 0 else extent + place


@answers(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """As `numpy.insert`; along an unknown extent before one known place, counted from either end, or behind the end."""
    x, k = along_axis(arr, axis)
    if type(shape_of(x)[k]) is int or isinstance(obj, slice) or not (np.ndim(obj) == 0 or np.shape(obj) == (1,)):
        return _insert(arr, obj, values, axis)
    given, each = lift(values), np.ndim(obj) == 0
    given = np.expand_dims(given, tuple(range(x.ndim - given.ndim)))
    given = np.moveaxis(given, 0, k) if each else given
    place = _place_in(x, k, obj if each else obj[0], "insert", end=True)
    have, count = shape_of(x), shape_of(given)[k]
    given = broadcast_to(_traced(given.astype(x.dtype)), shape=(*have[:k], count, *have[k + 1 :]))
    parts = sliced(x, k, 0, place), given, sliced(x, k, place, have[k] - place)
    return _joined(*parts, axis=k)


def _joined(*parts: Any, axis: int) -> Any:
    return OPS["concatenate"](*parts, axis=axis)


@answers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """As `numpy.delete`; along an unknown extent one place, or what a slice leaves in front and behind."""
    x, k = along_axis(arr, axis)
    if type(shape_of(x)[k]) is not int and type(obj) is int:
        place = _place_in(x, k, obj, "delete", end=False)
        return _joined(sliced(x, k, 0, place), sliced(x, k, place + 1, shape_of(x)[k] - place - 1), axis=k)
    ends = (obj.start or 0, obj.stop) if isinstance(obj, slice) and obj.step in {None, 1} else ()
    if type(shape_of(x)[k]) is int or not ends or not all(type(end) is int and end >= 0 for end in ends):
        return _delete(arr, obj, axis)
    (start, stop), whole = ends, [slice(None)] * k
    parts = [*whole, slice(start)], [*whole, slice(max(start, stop), None)]
    return np.concatenate([x[tuple(part)] for part in parts], k)


def _of_one_length(own: Any, combine: Any) -> Any:
    """Answer for polynomials of which one may have more coefficients: zeros stand in front of the others."""

    def answer(a1: Any, a2: Any) -> Any:
        given = [np.atleast_1d(lift(a)) for a in (a1, a2)]
        (n,), (m,) = map(shape_of, given)
        if n == m or type(n) is type(m) is int:
            return own(a1, a2)
        import sympy

        most = shapes.simplified(sympy.Max(n, m))
        return combine(*[
            OPS["place"](_traced(a), indices=(((shapes.simplified(most - d), d, 1),),), shape=(most,))
            for a, d in zip(given, (n, m), strict=True)])

    return answer


answers(np.polyadd)(_of_one_length(by_numpy(np.polyadd), np.add))
answers(np.polysub)(_of_one_length(by_numpy(np.polysub), np.subtract))


@answers(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """As `numpy.extract`: of a traced condition what a mask selects."""
    condition = np.ravel(lift(condition))
    return np.ravel(lift(arr))[condition if condition.dtype.kind == "b" else condition != 0]


@answers(np.ix_)
def ix_(*args: Any) -> Any:
    """As `numpy.ix_`."""
    if any(is_traced(given) and given.dtype.kind == "b" for given in map(lift, args)):
        raise UnsupportedError(
            "np.ix_ of a traced mask, which names as many places as it has true ones",
            instead="x[...] = np.where(mask[:, None] & mask, value, x) of writes; x[mask][:, ids] of reads",
        )
    return _ix(*args)


@answers(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """As `numpy.piecewise`."""
    return _piecewise(_beside(condlist, x), condlist, funclist, *args, **kw)


@answers(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """As `numpy.take_along_axis`."""
    return _take_along_axis(_beside(indices, arr), indices, axis)


@answers(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """As `numpy.put_along_axis` into a traced array."""
    arr = require_traced("put_along_axis", arr, "x[indices] = values")
    arr, axis = (reshape(arr, shape=(arr.size,)), 0) if axis is None else (arr, axis)
    _put_along_axis(arr, lift(indices), values, axis)

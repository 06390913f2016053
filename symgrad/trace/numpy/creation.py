"""What NumPy's functions do while a trace is active where its protocols do not reach.

``np.zeros(3)[0] = x``, ``np.array([x, y])``, ``np.full(3, x)`` and ``np.sum([x, y])`` ask no traced array first. So
while a trace is active they have stand-ins (see `replaced`), which give local arrays, and traced ones of traced values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from symgrad.errors import (
    ArgumentError,
    ConcretizationError,
    Line,
    MutationError,
    SymgradError,
    UnsupportedError,
    warn,
)
from symgrad.ir.index.shapes import show, simplified
from symgrad.ops.arrays.copies import checked_shape
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import broadcast_to
from symgrad.ops.control import numbers
from symgrad.ops.declare.forms import INT, is_traced
from symgrad.ops.numpy.creation import arange, spaced
from symgrad.trace.constants import asks, constant
from symgrad.trace.inplace.local import LocalArray, call_function, fresh, lent, wrapped
from symgrad.trace.lines import located, user_line
from symgrad.trace.nested import settled, touches
from symgrad.trace.numpy.answers import GIVES_ARRAYS
from symgrad.trace.remedies import OTHERWISE, in_place_of
from symgrad.trace.state import current
from symgrad.trace.tracer import Extent, Tracer, as_array, as_node, record

_trace: Callable[[], Any] = current  # what is replaced is asked in a trace alone


def stretched(value: Any, shape: Any, dtype: Any) -> Tracer:
    """Make a new traced array of one value (or of a row that broadcasts)."""
    trace = _trace()
    value = lift(value)
    kind = value.dtype if dtype is None else np.dtype(dtype)
    node = as_node(trace, value if value.dtype == kind else value.astype(kind))
    wanted = checked_shape(shape)
    if node.shape != wanted:
        node = record(trace, broadcast_to, (node,), {"shape": wanted}).node
    return as_array(Tracer(node, trace))  # type: ignore[no-any-return]


def _made(when_traced: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a new array: a local one of the plain one, or what a function gives for traced arguments.

    It takes NumPy's function and its arguments.
    """

    def make(original: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = settled(args), settled(kwargs)
        if touches(args) or touches(kwargs):
            return when_traced(original, *args, **kwargs)
        name = original.__name__.replace("empty", "zeros")  # what memory held before is no constant
        return fresh((original if name == original.__name__ else getattr(np, name))(*args, **kwargs))

    return make


def _filler(value: float) -> Callable[..., Any]:
    return lambda _original, shape, dtype=None, *_, **__: stretched(np.asarray(value), shape, dtype or np.float64)


# -- arrays of what the user has


def _stacked(value: Any, dtype: Any, name: str) -> Any:
    """Return the traced array of a traced value, or of nested lists with one in them; `name` is who makes it."""
    if dtype is not None and np.dtype(dtype) == object:
        raise UnsupportedError(
            "an object array of traced values, in which symgrad could not see them", line=user_line(),
            instead="the same without dtype=object, or a list",
        )
    try:
        return lift(value, dtype)
    except UnsupportedError as error:
        raise UnsupportedError(f"np.{name}(...): {error.what}", line=user_line(), instead=error.instead) from None
    except SymgradError as error:
        raise located(error) from None


def _new_copy(x: Any) -> Any:
    if hasattr(type(x), "front"):  # what a traced mask selects
        return x.again(x.values)
    return as_array(Tracer(as_node(_trace(), x), _trace()))


def _array(original: Any, object: Any, dtype: Any = None, *, ndmin: Any = 0, **how: Any) -> Any:  # NumPy's names
    value = coefficients(settled(object))
    if not asks(how.get("copy", True)):
        return _of_rank(_asarray(original, object, dtype, **how), ndmin)
    if not touches(value):
        return fresh(original(value, dtype, ndmin=ndmin, **how))
    return _new_copy(_of_rank(_new_copy(_stacked(value, dtype, original.__name__)), ndmin))


def _of_rank(made: Any, least: int) -> Any:
    """Put axes of extent 1 in front until there are enough: a view."""
    return np.expand_dims(made, tuple(range(least - made.ndim))) if made.ndim < least else made


def _asarray(original: Any, a: Any, dtype: Any = None, *order: Any, **how: Any) -> Any:
    """As np.asarray and np.asanyarray: an array itself where NumPy gives it back."""
    value = coefficients(a)
    if touches(value):
        if asks(how.get("copy")):
            return _new_copy(_stacked(settled(value), dtype, original.__name__))
        same = dtype is None or getattr(value, "dtype", None) == np.dtype(dtype)
        (laid,) = order or (how.get("order"),)
        if type(value) is LocalArray and same:
            return value.in_order(laid)
        made = as_array(_stacked(settled(value), None if same else dtype, original.__name__))
        return _in_order(made, f"{original.__name__}(..., order={laid!r})") if laid in {"C", "F"} else made
    if type(value) is LocalArray:
        given = value.lent()
        result = original(given, dtype, *order, **how)
        return value if result is given else wrapped(result)
    result = original(settled(value), dtype, *order, **how)
    return fresh(result) if isinstance(value, (list, tuple, int, float, np.generic)) else result


def _ascontiguousarray(original: Any, a: Any, dtype: Any = None, **how: Any) -> Any:
    if not touches(a):
        return _asarray(original, a, dtype, **how)
    made = _stacked(settled(a), dtype, original.__name__)
    made = made if made.ndim else made[None]
    return _in_order(made, original.__name__) if made is settled(a) else made


def _asarray_chkfinite(original: Any, a: Any, dtype: Any = None, order: Any = None) -> Any:
    if not touches(a):
        return _asarray(original, a, dtype, order)
    made: Any = _asarray(original, a, dtype, order)
    return np.where(numbers(np.isfinite(made)), made, 0) if made.dtype.kind == "f" else made


def broadcast_object(original: Any, arrays: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """As np.broadcast, without its iteration."""
    if not touches(arrays):
        return original(*lent(arrays), **keywords)
    made = np.broadcast_arrays(*settled(arrays))[0]
    return SimpleNamespace(shape=made.shape, ndim=made.ndim, nd=made.ndim, size=made.size, numiter=len(arrays))


def _in_order(made: Tracer, name: str) -> Tracer:
    """Return an array in an order of memory: a copy or the array itself, and only NumPy knows which."""
    if made.ndim < 2 and made.base is None:
        return made
    line = user_line()

    def unknown(_: Any) -> Any:
        raise MutationError(
            f"np.{name} of an array that is written: whether NumPy copied it depends on the memory layout",
            line=line, instead="np.copy(x), or x itself",
        )

    return Tracer(made.node, made.owner, base=made, view=unknown)


# -- counting


def _arange(_original: Any, start: Any = None, stop: Any = None, step: Any = None, dtype: Any = None, **_: Any) -> Any:
    """As np.arange; over an unknown extent it counts when the program runs."""
    if stop is None:
        start, stop = 0, start
    bounds = [0 if start is None else start, stop, 1 if step is None else step]
    bounds = [
        b.as_index() if type(b) is Tracer and b.owner.branches and not b.ndim and b.dtype.kind in "iu" else b
        for b in bounds
    ]
    known = (int, np.integer)
    if not issubclass(type(bounds[2]), known) or not all(issubclass(type(b), (*known, Extent)) for b in bounds):
        raise ConcretizationError(
            "np.arange of a traced value: the length of the result is not known while tracing", line=user_line(),
            instead="np.arange(n) * step + start with a known length n, or with an extent x.shape[0]",
        )
    made = counting(*[b.dim if type(b) is Extent else int(b) for b in bounds])
    return made if dtype is None or np.dtype(dtype) == INT else made.astype(dtype)


def counting(start: Any, stop: Any, step: Any) -> Tracer:
    """Count from start to stop."""
    trace = _trace()
    origin = constant(trace, np.int64(start)) if type(start) is int else Extent(start, trace)
    return record(trace, arange, (origin,), {"count": steps_between(start, stop, step), "step": int(step)})


def steps_between(start: Any, stop: Any, step: Any) -> Any:
    """Return how many numbers there are from start to stop, which is an extent where these are."""
    import sympy

    span = stop - start
    exact = step == 1 and getattr(span, "is_nonnegative", False)
    above = step - 1 if step > 0 else step + 1  # rounded up: of integers floor is what shapes and C have
    return simplified(span if exact else sympy.Max(0, sympy.floor((span + above) / sympy.Integer(step))))


def _places(extent: Extent) -> Tracer:
    """Count along a new axis."""
    return counting(0, checked_shape(extent)[0], 1)


def _eye(_original: Any, N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *_: Any, **__: Any) -> Any:
    def places(extent: Any) -> Tracer:
        if type(extent) is Extent:
            return _places(extent)
        known = extent.as_index() if is_traced(extent) else int(extent.__index__())
        return Tracer(constant(_trace(), np.arange(known)), _trace())

    i, j = places(N), places(N if M is None else M)
    k = k.tracer() if type(k) is Extent else k if is_traced(k) else operator.index(k)
    if is_traced(k) and (k.dtype.kind not in "iu" or k.ndim):
        raise ArgumentError(
            f"np.eye(..., k=...) where k has the dtype {k.dtype} and the shape {show(k.shape)}: a diagonal's number",
            line=user_line(), instead="an integer without axes",
        )
    i = i + k if is_traced(k) or k else i
    return _new_copy(np.equal(i[:, None], j[None, :]).astype(dtype or np.float64))


def _diagonal_places(_original: Any, n: Any, ndim: Any = 2) -> Any:
    return (_made(_arange)(np.arange, n),) * ndim


def _diagonal_places_of(original: Any, arr: Any) -> Any:
    """As np.diag_indices_from, whose own Python computes with the extents."""
    x = settled(arr)
    if not is_traced(x) or x.ndim < 2 or len({*x.node.shape}) > 1:
        return original(arr)
    return _diagonal_places(original, x.shape[0], x.ndim)


def _linspace(original: Any, start: Any, stop: Any, num: Any = 50, *args: Any, **kwargs: Any) -> Any:
    """As np.linspace; NumPy's protocol does not look at the number of points, which may be an unknown extent."""
    if type(num) is not Extent:
        return _new(original, start, stop, num, *args, **kwargs)
    return spaced(settled(start), settled(stop), _places(num), *args, **kwargs)


_new = _made(lambda original, *args, **kwargs: call_function(original, args, kwargs))

def _like_arrays(maker: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker for which ``like=`` an array, traced or not, asks for what it makes: an array of NumPy's kind."""

    def make(original: Any, args: Any, kwargs: Any) -> Any:
        like = settled(kwargs.get("like"))
        if like is not None and not (is_traced(like) or type(like) is np.ndarray):
            return original(*args, **kwargs)  # another kind's own answer, or NumPy's refusal
        return maker(original, *args, **{k: v for k, v in kwargs.items() if k != "like"})

    return make


def _with_places(original: Any, arr: Any) -> Any:
    """Go through an array as np.ndenumerate does, which sees what is written meanwhile."""
    if not (touches(arr) or type(arr) is LocalArray):
        return original(lent(arr))
    x: Any = lift(arr) if isinstance(arr, (list, tuple)) else arr
    return ((place, x[place]) for place in np.ndindex(*x.shape))


_MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": _made(_filler(0)), "ones": _made(_filler(1)), "empty": _made(_filler(0)),
    "full": _made(lambda _original, shape, fill_value, dtype=None, *_, **__: stretched(fill_value, shape, dtype)),
    "full_like": _made(lambda _original, a, fill_value, dtype=None, *_, shape=None, **__: stretched(
        fill_value, lift(a).shape if shape is None else shape, dtype or lift(a).dtype)),
    "array": _array, "asarray": _asarray, "asanyarray": _asarray,
    "ascontiguousarray": _ascontiguousarray, "asfortranarray": _ascontiguousarray,
    "require": lambda original, a, dtype=None, *_, **__: _asarray(
        original if not touches(a) and type(a) is not LocalArray else np.asanyarray, a, dtype),
    "asarray_chkfinite": _asarray_chkfinite,
    "arange": _made(_arange), "eye": _made(_eye),
    "identity": _made(lambda original, n, dtype=None, **_: _eye(original, n, dtype=dtype)), "linspace": _linspace,
    **dict.fromkeys(
        ("zeros_like", "ones_like", "empty_like", "copy"),
        _made(lambda original, *args, **kwargs: as_array(call_function(original, args, kwargs))),
    ),
    "ndenumerate": _with_places,
    "diag_indices": _diagonal_places, "diag_indices_from": _diagonal_places_of,
    **dict.fromkeys(("vander", "logspace", "geomspace", "tri", "indices"), _new),
}

MAKERS = {name: _like_arrays(maker) for name, maker in _MAKERS.items()}
"""What answers each name of the `numpy` module in a traced function."""


# -- NumPy functions of lists, and random draws


_UNASKED = frozenset({np.take, np.select, np.nan_to_num, np.trapezoid, np.kaiser})
"""Functions that do not ask every argument for the protocol, as the indices or the default of plain arrays."""


def coefficients(value: Any) -> Any:
    """Return a `np.poly1d` as its coefficients; anything else, and one that is not yet made, as it is."""
    return vars(value).get("coeffs", value) if isinstance(value, np.poly1d) else value


_OF_POLYNOMIALS = frozenset({np.polyadd, np.polysub, np.polymul, np.polydiv, np.polyder, np.polyint})
"""Functions that make a `np.poly1d` of one."""


def of_lists(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a function that got a list with a traced value in it; NumPy's protocol does the rest."""
    if any(isinstance(a, np.poly1d) for a in args) and touches(given := tuple(map(coefficients, args))):
        if original == np.polyval and isinstance(args[-1], np.poly1d):
            return np.poly1d(args[0])(args[-1])
        found = original(*given, **kwargs)
        made = original in _OF_POLYNOMIALS
        return tuple(map(np.poly1d, found)) if made and type(found) is tuple else np.poly1d(found) if made else found
    seen = args if original in _UNASKED else [a for a in args if isinstance(a, (list, tuple))]
    if touches(seen) or touches(list(kwargs.values())):
        result = call_function(original, args, kwargs)
    else:
        result = original(*args, **kwargs)
    return as_array(result) if original in GIVES_ARRAYS else result


_warned: set[Line | None] = set()


NO_DRAWS = frozenset({"seed", "get_state", "set_state", "getstate", "setstate"})
"""Functions of the modules of random numbers that draw none."""


def frozen(module: str) -> Callable[..., Any]:
    """Return what answers the functions of a module that draw random numbers."""

    def draw(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw as asked, and warn, once for a line, that every later call will use the same numbers."""
        name, line = f"{module}.{original.__name__}", user_line()
        if original.__name__ == "default_rng" and (args or kwargs):
            return original(*args, **kwargs)  # a seed gives the same numbers in every call anyway
        if touches(args) or touches(kwargs):
            raise UnsupportedError(
                f"{name} of a traced array: a draw cannot be differentiated or repeated", line=line,
                instead=OTHERWISE.get(original.__name__) or in_place_of("numpy.random"),
            )
        if (branches := _trace().branches) is not None:
            branches.draw(name, line)
        if line not in _warned:
            _warned.add(line)
            warn(str(SymgradError(
                f"{name} is drawn once, while the function is traced, and is a constant in every call", line=line,
                instead="draw outside and pass the numbers as an argument",
            )))
        return original(*lent(args), **lent(kwargs))

    return draw

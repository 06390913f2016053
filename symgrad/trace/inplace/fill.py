"""What NumPy's creation functions give in a traced function: local arrays, and traced ones of traced values.

Each maker takes NumPy's function and the call's arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ConcretizationError, MutationError, SymgradError, UnsupportedError
from symgrad.ir.shapes import simplified
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import broadcast_to
from symgrad.ops.declare.forms import dims
from symgrad.ops.numpy.creation import arange, spaced
from symgrad.trace.constants import constant
from symgrad.trace.inplace.local import LocalArray, fresh, wrapped
from symgrad.trace.nested import settled, touches
from symgrad.trace.source.lines import located, user_line
from symgrad.trace.state import Trace, current
from symgrad.trace.tracer import Extent, Tracer, as_array, as_node, record

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
INT = np.dtype(np.int64)


def _argument(args: Arguments, kwargs: Keywords, place: int, name: str, default: Any = None) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _trace() -> Trace:
    trace = current()
    if trace is None:
        raise AssertionError("a creation function is replaced outside of a trace")
    return trace


def stretched(value: Any, shape: Any, dtype: Any) -> Tracer:
    """Make a new traced array of one value (or of a row that broadcasts)."""
    trace = _trace()
    value = lift(value)
    kind = value.dtype if dtype is None else np.dtype(dtype)
    node = as_node(trace, value if value.dtype == kind else value.astype(kind))
    wanted = dims(shape)
    if node.shape != wanted:
        node = record(trace, broadcast_to, (node,), {"shape": wanted}).node
    return as_array(Tracer(node, trace))  # type: ignore[no-any-return]


def _filled(value: Any) -> Callable[..., Any]:
    def make(original: Any, args: Arguments, kwargs: Keywords) -> Any:
        """As np.zeros, np.ones, np.empty."""
        shape = settled(_argument(args, kwargs, 0, "shape"))
        if touches(shape):
            return stretched(np.asarray(value), shape, _argument(args, kwargs, 1, "dtype", np.float64) or np.float64)
        make_plain = np.zeros if original.__name__ == "empty" else original  # what memory held before is no constant
        return fresh(make_plain(*args, **kwargs))

    return make


def _full(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    args, kwargs = settled(args), settled(kwargs)
    shape, value = _argument(args, kwargs, 0, "shape"), _argument(args, kwargs, 1, "fill_value")
    if touches(shape) or touches(value):
        return stretched(value, shape, _argument(args, kwargs, 2, "dtype"))
    return fresh(original(*args, **kwargs))


def _like(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    """As np.zeros_like, np.ones_like, np.empty_like."""
    args, kwargs = settled(args), settled(kwargs)
    if touches(args) or touches(kwargs):
        return as_array(original(*args, **kwargs))
    make_plain = np.zeros_like if original.__name__ == "empty_like" else original
    return fresh(make_plain(*args, **kwargs))


def _full_like(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    args, kwargs = settled(args), settled(kwargs)
    a, value = lift(_argument(args, kwargs, 0, "a")), _argument(args, kwargs, 1, "fill_value")
    if touches(a) or touches(value):
        shape = kwargs.get("shape")
        return stretched(value, a.shape if shape is None else shape, _argument(args, kwargs, 2, "dtype") or a.dtype)
    return fresh(original(*args, **kwargs))


# -- arrays of what the user has


def _no_objects(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype) == object:
        raise UnsupportedError(
            "an object array of traced values, in which symgrad could not see them", line=user_line(),
            instead="the same without dtype=object, or a list",
        )


def _stacked(value: Any, dtype: Any) -> Any:
    """Return the traced array of a traced value, or of nested lists with one in them."""
    _no_objects(dtype)
    try:
        return lift(value, dtype)
    except SymgradError as error:
        raise located(error) from None


def _copied(x: Any) -> Tracer:
    return as_array(Tracer(as_node(_trace(), x), _trace()))  # type: ignore[no-any-return]


def _array(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    value, copy = settled(_argument(args, kwargs, 0, "object")), kwargs.get("copy", True)
    if not copy:
        made = _asarray(original, args, {k: v for k, v in kwargs.items() if k != "ndmin"})
        return _of_rank(made, kwargs.get("ndmin", 0))
    if not touches(value):
        return fresh(original(value, *args[1:], **{k: v for k, v in kwargs.items() if k != "object"}))
    made = _copied(_stacked(value, _argument(args, kwargs, 1, "dtype")))
    return _copied(_of_rank(made, kwargs.get("ndmin", 0)))


def _of_rank(made: Any, least: int) -> Any:
    """Put axes of extent 1 in front until there are enough: a view."""
    return np.expand_dims(made, tuple(range(least - made.ndim))) if made.ndim < least else made


def _asarray(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    """As np.asarray and np.asanyarray: an array itself where NumPy gives it back."""
    name = "object" if "object" in kwargs else "a"
    value, dtype = _argument(args, kwargs, 0, name), _argument(args, kwargs, 1, "dtype")
    if touches(value):
        if kwargs.get("copy"):
            return _copied(_stacked(settled(value), dtype))
        same = dtype is None or getattr(value, "dtype", None) == np.dtype(dtype)
        order = _argument(args, kwargs, 2, "order")
        if type(value) is LocalArray and same:
            return value.in_order(order)
        made = as_array(_stacked(settled(value), None if same else dtype))
        return _laid_out(made, f"{original.__name__}(..., order={order!r})") if order in {"C", "F"} else made
    rest, keywords = args[1:], {k: v for k, v in kwargs.items() if k != name}
    if type(value) is LocalArray:
        given = value.lent()
        result = original(given, *rest, **keywords)
        return value if result is given else wrapped(result)
    result = original(settled(value), *rest, **keywords)
    return fresh(result) if isinstance(value, (list, tuple, int, float, np.generic)) else result


def _ascontiguousarray(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    value = _argument(args, kwargs, 0, "a")
    if not touches(value):
        return _asarray(original, args, kwargs)
    made = _stacked(settled(value), _argument(args, kwargs, 1, "dtype"))
    made = made if made.ndim else made[None]
    return _laid_out(made, original.__name__) if made is settled(value) else made


def _laid_out(made: Tracer, name: str) -> Tracer:
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


def _copy(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    args, kwargs = settled(args), settled(kwargs)
    made = original(*args, **kwargs)
    return as_array(made) if touches(args) else fresh(made)


# -- counting


def _counted(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    """As np.arange; over an unknown extent it counts when the program runs."""
    args, kwargs = settled(args), settled(kwargs)
    if not (touches(args) or touches(kwargs)):
        return fresh(original(*args, **kwargs))
    start, stop, step = [_argument(args, kwargs, k, name) for k, name in enumerate(("start", "stop", "step"))]
    if stop is None:
        start, stop = 0, start
    bounds = [0 if start is None else start, stop, 1 if step is None else step]
    known = (int, np.integer)
    if not issubclass(type(bounds[2]), known) or not all(issubclass(type(b), (*known, Extent)) for b in bounds):
        raise ConcretizationError(
            "np.arange of a traced value: the length of the result is not known while tracing", line=user_line(),
            instead="np.arange(n) * step + start with a known length n, or with an extent x.shape[0]",
        )
    dtype = _argument(args, kwargs, 3, "dtype")
    made = counting(*[b.dim if type(b) is Extent else int(b) for b in bounds])
    return made if dtype is None or np.dtype(dtype) == INT else made.astype(dtype)


def counting(start: Any, stop: Any, step: Any) -> Tracer:
    """Count from start to stop."""
    import sympy

    span = stop - start
    exact = step == 1 and getattr(span, "is_nonnegative", False)
    count = span if exact else sympy.Max(0, sympy.ceiling(span / sympy.Integer(step)))
    trace = _trace()
    origin = constant(trace, np.int64(start)) if type(start) is int else Extent(start, trace)
    return record(trace, arange, (origin,), {"count": simplified(count), "step": int(step)})


def _eye(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    """As np.eye and np.identity."""
    args, kwargs = settled(args), settled(kwargs)
    rows = _argument(args, kwargs, 0, "n" if original.__name__ == "identity" else "N")
    square = original.__name__ == "identity"
    columns = rows if square else _argument(args, kwargs, 1, "M")
    columns = rows if columns is None else columns
    if not (touches(rows) or touches(columns)):
        return fresh(original(*args, **kwargs))
    offset = 0 if square else _argument(args, kwargs, 2, "k", 0)
    dtype = _argument(args, kwargs, 1 if square else 3, "dtype") or np.float64
    i, j = [_numbers(extent) for extent in (rows, columns)]
    i = i + offset if offset else i
    return _copied(np.equal(i[:, None], j[None, :]).astype(dtype))


def _numbers(extent: Any) -> Any:
    if type(extent) is Extent:
        return counting(0, extent.dim, 1)
    return Tracer(constant(_trace(), np.arange(int(extent.__index__()))), _trace())


def _spaced(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    """As np.linspace; NumPy's protocol does not look at the number of points, which may be an unknown extent."""
    num = _argument(args, kwargs, 2, "num")
    if type(num) is not Extent:
        return _made(original, args, kwargs)
    start, stop = [settled(_argument(args, kwargs, k, name)) for k, name in enumerate(("start", "stop"))]
    rest = {k: v for k, v in kwargs.items() if k not in {"start", "stop", "num"}}
    return spaced(start, stop, counting(0, num.dim, 1), *args[3:], **rest)


def _made(original: Any, args: Arguments, kwargs: Keywords) -> Any:
    """As a function that makes a new array and answers a traced argument by NumPy's protocol, or refuses it."""
    args, kwargs = settled(args), settled(kwargs)
    return original(*args, **kwargs) if touches(args) or touches(kwargs) else fresh(original(*args, **kwargs))


MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": _filled(0), "ones": _filled(1), "empty": _filled(0), "full": _full,
    "zeros_like": _like, "ones_like": _like, "empty_like": _like, "full_like": _full_like,
    "array": _array, "asarray": _asarray, "asanyarray": _asarray, "copy": _copy,
    "ascontiguousarray": _ascontiguousarray, "asfortranarray": _ascontiguousarray,
    "arange": _counted, "eye": _eye, "identity": _eye,
    "linspace": _spaced, "logspace": _made, "geomspace": _made, "tri": _made, "vander": _made, "indices": _made,
}
"""What answers each name of the `numpy` module in a traced function."""

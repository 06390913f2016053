"""Plain arrays and numbers as constants of a trace, and those that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import RangeError, UnsupportedError
from symgrad.ir.names import identifier
from symgrad.ir.node import Node
from symgrad.ops.arrays.views import broadcast_to
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import native
from symgrad.trace.lines import local_name, located, user_line
from symgrad.trace.remedies import SPARSE, in_place_of
from symgrad.trace.state import Trace
from symgrad.trace.structures import is_sparse

LONGEST = 200
"""Bits of integers that are shown in messages."""

_array = np.asarray  # NumPy's own, also while a trace has another one in its place


def constant(trace: Trace, value: Any, dtype: Any = None) -> Node:
    """Make the node of a plain array or number."""
    array = value if type(value) is np.ndarray and dtype is None else plain(value, dtype)
    kind = compiled(array.dtype)
    name, path = _spelled(trace, array, value) if array.ndim else ("", "")
    made = array if array.dtype == kind else array.astype(kind)
    return leaves.make_constant(trace.graph, made, name=name, path=path)


def _spelled(trace: Trace, array: np.ndarray[Any, Any], value: Any) -> tuple[str, str]:
    """Return an identifier for an array, where it has a name, and how the user's code reads it, or its line."""
    reads = trace.graph.outside
    name, path = ("", "") if reads is None else reads.name_of(array)
    if not name and (path := local_name(value)):
        name = identifier(path)
    if not name and reads is not None:
        name, path = reads.part_of(array)
    line = None if name else user_line()
    return name, path or (f"at {line}" if line is not None else "")


def held(trace: Trace, array: np.ndarray[Any, Any]) -> Node:
    """Make the node of an array that was made while tracing: of one number, where all elements are it (np.zeros)."""
    first = array.ravel()[:1]
    if array.size < 2 or array.tobytes() != first.tobytes() * array.size:
        return constant(trace, array)
    return trace.graph.node(
        broadcast_to, (constant(trace, first[0]),), (array.shape,), array.shape, array.dtype, trace.graph.line
    )


def number(trace: Trace, value: bool | float, dtype: np.dtype[Any]) -> Node:
    """Make the node of one of Python's numbers, or find the one made before."""
    key = (dtype, value.hex() if type(value) is float else value)  # hex tells 0.0 from -0.0
    numbers = trace.graph.table.numbers
    found = numbers.get(key)
    if found is None:
        found = numbers[key] = constant(trace, value, dtype)
    return found


def compiled(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype in this machine's byte order, or refuse what symgrad does not compile, at the user's line."""
    try:
        return native(dtype)
    except UnsupportedError as error:
        raise located(error) from None


def asks(copy: Any) -> bool:
    """Whether ``copy=`` asks for one, also as SciPy says it."""
    modes: Any = getattr(np, "_CopyMode", None)
    return copy is modes.ALWAYS if isinstance(copy, modes) else bool(copy)


def refuse_others(args: Any) -> None:
    """Refuse arrays with a meaning of their own at any depth of lists and tuples: NumPy's functions would drop it."""
    for value in args:
        kind = type(value)
        if kind is list or kind is tuple:
            refuse_others(value)
        elif kind is not np.ndarray and (issubclass(kind, np.ndarray) or is_sparse(kind)):
            plain(value)


def plain(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Make a plain array of a constant, refusing what is none."""
    kind = type(value)
    if is_sparse(kind):
        raise UnsupportedError(
            f"a sparse matrix ({kind.__name__}) meets a traced array", line=user_line(), instead=SPARSE,
        )
    if kind is int and dtype is None and not -(1 << 63) <= value < 1 << 64:
        raise RangeError(
            f"the integer {value if value.bit_length() < LONGEST else 'here'} has more than 64 bits", line=user_line(),
            instead="float(n), a number of 53 bits, or the function's integers outside of the traced one",
        )
    if kind is np.ndarray or not issubclass(kind, np.ndarray):  # before numpy.ma is asked for, and imported
        array = _array(value, dtype)
        if array.dtype == object and not array.ndim and kind is not np.ndarray:  # a SymPy number, a Decimal
            raise UnsupportedError(
                f"{kind.__module__}.{kind.__qualname__}, no number of NumPy's or Python's, meets a traced array",
                line=user_line(), instead=in_place_of(kind.__module__) or (
                    "float(number), made outside" if hasattr(kind, "__float__") else None),
            )
        return _plain(array)
    if isinstance(value, np.ma.MaskedArray):
        raise UnsupportedError(
            "a masked array meets a traced array; its mask would be lost", line=user_line(),
            instead="np.where(mask, fill, data) with the plain data and mask",
        )
    if means_more(kind):
        raise UnsupportedError(
            f"{type(value).__module__}.{type(value).__qualname__} meets a traced array; its meaning (a unit, matrix "
            "products) would be lost", line=user_line(), instead="np.asarray of it, if its plain values are meant",
        )
    return _plain(_array(value, dtype))


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if type(array) is np.ndarray else array.view(np.ndarray)


def means_more(kind: type) -> bool:
    """Whether a subclass of arrays computes otherwise than arrays do."""
    return issubclass(kind, (np.ma.MaskedArray, np.matrix)) or any(
        getattr(kind, name) is not getattr(np.ndarray, name) for name in ("__array_ufunc__", "__array_function__")
    )

"""Writes into traced arrays: followed where NumPy's meaning is certain, refused with the line elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import MutationError
from symgrad.ir.shapes import is_static
from symgrad.ops.declare import OPS, answers
from symgrad.ops.joining import lift
from symgrad.trace.indexing import axis_slice, expand, is_array
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled, touches
from symgrad.trace.tracer import Tracer, answered, as_node, operand, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Node


def refuse_argument(x: Tracer) -> None:
    """Refuse to write into what is the caller's."""
    root = x
    while root.base is not None:
        root = root.base
    if root.origin:
        raise MutationError(
            f"a write into the argument {root.origin!r}: compiled functions never write their inputs", line=user_line(),
            instead=f"a copy first: {root.origin} = {root.origin}.copy()",
        )


def assign(x: Tracer, value: Node) -> None:
    """Give a traced array a new value; its views see it when they are read next."""
    refuse_argument(x)
    if x.base is not None:
        write_through(x, value)
        return
    x._node = value  # noqa: SLF001 - the one place where a tracer's value changes
    x._version += 1  # noqa: SLF001


def write_through(x: Tracer, value: Node) -> None:
    """Write a view's new value into its base, which may be a view again."""
    base, trace = x.base, x.owner
    if base is None:
        raise AssertionError("only a view is written through")
    try:
        made = x._view(base.node) if x._view is not None else x.node  # noqa: SLF001 - where it changes
    except MutationError as error:
        raise MutationError(
            "a write into what may be a view or a copy: that depends on the memory layout", line=user_line(),
            instead="the array itself, x[index] = value, or a copy first: x.copy()",
        ) from error
    undo = _UNDO.get(made.op.name)
    if undo is None or made.inputs[0] is not base.node:
        raise MutationError(
            f"a write into a view made by {made.op.name}, which symgrad does not follow", line=user_line(),
            instead="write into the array itself, out[...] = value, or make a copy first: view.copy()",
        )
    op, params = undo(made)
    inputs = (base, value) if op == "set_slice" else (value,)
    assign(base, record(trace, OPS[op], inputs, params).node)


_UNDO: dict[str, Callable[[Node], tuple[str, dict[str, Any]]]] = {
    "slice": lambda made: ("set_slice", {"index": made.param("index")}),
    "reshape": lambda made: ("reshape", {"shape": made.inputs[0].shape}),
    "expand_dims": lambda made: ("squeeze", {"axes": made.param("axes")}),
    "squeeze": lambda made: ("expand_dims", {"axes": made.param("axes")}),
    "transpose": lambda made: ("transpose", {"axes": tuple(np.argsort(made.param("axes")).tolist())}),
}
"""What puts a written view back into the array it views."""


def setitem(x: Tracer, index: Any, value: Any) -> None:
    """``x[index] = value``; a number, which Python's names share but NumPy cannot write into, is refused."""
    if x.is_number:
        raise MutationError(
            "a write into a traced number: NumPy's numbers cannot be written into", line=user_line(),
            instead="x = value, or an array np.array(x) to write into",
        )
    write(x, index, value)


def write(x: Tracer, index: Any, value: Any) -> None:
    """Write into an array by integers, slices, arrays of integers and masks that are known, and masks of its shape."""
    refuse_argument(x)
    trace, index, value = x.owner, settled(index), settled(value)
    if isinstance(index, (Tracer, np.ndarray)) and index.dtype.kind == "b" and index.ndim == x.ndim:
        scalar = operand(trace, lift(value), x.dtype)
        if scalar.shape != () and type(index) is np.ndarray:
            scatter(x, index, value)
            return
        if scalar.shape != ():
            raise MutationError(
                "an assignment of an array through a mask", line=user_line(), instead="x = np.where(mask, array, x)"
            )
        mask = as_node(trace, index)
        assign(x, record(trace, OPS["where"], (mask, scalar, x.node), {}).node)
        return
    entries = expand(x, index)
    if any(is_array(e) for e in entries):
        scatter(x, index, value)
        return
    places = tuple([axis_slice(x, axis, e) for axis, e in enumerate(e for e in entries if e is not None)])
    source = operand(trace, lift(value), x.dtype)
    shape = tuple([p[1] for p in places if len(p) == 3])
    if source.shape != shape:
        source = as_node(trace, np.broadcast_to(fitted(Tracer(source, trace), shape), shape_of(trace, shape)))
    assign(x, record(trace, OPS["set_slice"], (x, source), {"index": places}).node)


def scatter(x: Tracer, index: Any, value: Any) -> None:
    """Write through arrays of integers that are known: each element of x is kept, or taken from the value."""
    shape = x.node.shape
    if touches(index) or not is_static(shape):
        raise MutationError(
            "a write through a traced array of indices, or into an unknown extent", line=user_line(),
            instead="np.where with a mask of x's shape",
        )
    places = np.arange(x.size).reshape(shape)[index]
    taken = np.full(x.size, -1)
    taken[places.ravel()] = np.arange(places.size)  # of several writes to one element the last one stays
    if not places.size:
        return
    source = Tracer(operand(x.owner, lift(value), x.dtype), x.owner)
    values: Any = np.ravel(np.broadcast_to(fitted(source, places.shape), places.shape))
    new: Any = np.where(taken >= 0, values[np.maximum(taken, 0)], np.ravel(x))
    result: Any = np.reshape(new, shape)
    assign(x, result.node)


@answers(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """As `numpy.copyto` into a traced array."""
    if type(dst) is not Tracer or where is not True or casting != "same_kind":
        raise MutationError(
            "np.copyto of a traced value into a plain array, or with where= or casting=", line=user_line(),
            instead="x[...] = value, x = np.where(mask, value, x), for an array x made inside of the function",
        )
    setitem(dst, ..., src)


@answers(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """As `numpy.fill_diagonal` of a traced matrix, with one number."""
    if type(a) is not Tracer or a.ndim != 2 or wrap or np.ndim(val):
        raise MutationError(
            "np.fill_diagonal of a plain array, with an array, or of more than two axes", line=user_line(),
            instead="x[np.arange(n), np.arange(n)] = value, for an array x made inside of the function",
        )
    places = np.arange(min(a.shape))
    setitem(a, (places, places), val)


def fitted(value: Tracer, shape: tuple[Any, ...]) -> Tracer:
    """Drop leading axes of extent 1, which NumPy allows in an assignment."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    return value


def shape_of(trace: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a shape as user code would have it."""
    from symgrad.trace.extent import Extent

    return tuple([d if type(d) is int else Extent(d, trace) for d in shape])


def in_place(x: Tracer, ufunc: np.ufunc, other: Any) -> Tracer:
    """``x += other``: NumPy writes into x, keeps its dtype and shape, and so does this."""
    from symgrad.trace.tracer import call_ufunc

    refuse_argument(x)
    result = call_ufunc(x.owner, ufunc, (x, other))
    return store(x, result, ufunc.__name__)


def store(x: Tracer, result: Tracer, name: str) -> Tracer:
    """Store a result into an existing array (``out=``, ``+=``), by NumPy's same_kind rule."""
    if not np.can_cast(result.dtype, x.dtype, "same_kind"):
        raise MutationError(
            f"{name} gives {result.dtype}, which cannot be stored in an array of {x.dtype}", line=user_line(),
            instead="x = x.astype(np.float64) first",
        )
    if result.node.shape != x.node.shape:
        result = answered(np.broadcast_to, (result, x.shape), {})
    assign(x, operand(x.owner, result, x.dtype))
    return x

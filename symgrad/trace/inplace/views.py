"""Giving a traced array another value: arguments are never written, and a write into a view reaches what it views."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import MutationError, SymgradError
from symgrad.ir.node import Node
from symgrad.ops.arrays.views import broadcast_to, diagonal
from symgrad.ops.declare.forms import is_traced, shape_of
from symgrad.trace.lines import located, user_line
from symgrad.trace.tracer import Tracer, as_node, operand


def refuse_argument(x: Tracer) -> None:
    """Refuse to write into what is the caller's."""
    root = x
    while root.base is not None:
        root = root.base
    if root.origin:
        if (reads := root.owner.graph.outside) is not None and root.node in reads.found:
            raise written_outside(root.origin, root.dtype, root.node.shape)
        raise MutationError(
            f"a write into the argument {root.origin!r}: compiled functions never write their inputs", line=user_line(),
            instead=f"a copy first: {root.origin} = {root.origin}.copy()",
        )


def written_outside(name: str, dtype: Any, shape: Any) -> MutationError:
    """Compose the error of a write into an array from outside."""
    return MutationError(
        f"{name}, {dtype}{list(shape)}, is written while a function is traced that reads it from outside: the write "
        "would happen once, and not when the compiled function is called again", line=user_line(),
        instead=f"a copy, np.copy({name}), written inside of the function, or an argument",
    )


def assign(x: Tracer, value: Node) -> None:
    """Give a traced array a new value: what it is a view of gets it, and its views see it when they are read next."""
    refuse_argument(x)
    base, trace = x.base, x.owner
    if base is None:
        x._node = value  # noqa: SLF001 - the one place where a tracer's value changes
        x._version += 1  # noqa: SLF001
        return
    if type(base) is not Tracer:  # what a local array holds
        assign(base.traced(), value)
        return
    try:
        made = x._view(base.node) if x._view is not None else x.node  # noqa: SLF001 - where it changes
    except MutationError as error:
        raise MutationError(
            "a write into what may be a view or a copy: that depends on the memory layout", line=user_line(),
            instead="the array itself, x[index] = value, or a copy first: x.copy()",
        ) from error
    op: Any = made.op
    if op is diagonal:
        raise MutationError(
            "a write into a diagonal, which is not followed (and np.diagonal cannot be written at all)",
            line=user_line(), instead="np.fill_diagonal(x, value), or x[np.arange(n), np.arange(n)] = value",
        )
    put = op.put
    back = op.view and op.whole and not op.repeats
    if not (put or back) or made.inputs[0] is not base.node:
        raise MutationError(
            f"a write into a view made by {op.name}, which symgrad does not follow", line=user_line(),
            instead="write into the array itself, out[...] = value, or make a copy first: view.copy()",
        )
    written, others = Tracer(value, trace), [Tracer(i, trace) for i in made.inputs[1:]]
    found = put(base, written, *others, **made.named) if put else op.vjp(written, None, base, **made.named)
    assign(base, found.node)


def store(x: Tracer, result: Any, name: str) -> Tracer:
    """Store a result into an existing array (``out=``, ``+=``), by NumPy's same_kind rule."""
    if type(result) is not Tracer:
        result = Tracer(as_node(x.owner, result), x.owner)
    if not np.can_cast(result.dtype, x.dtype, "same_kind"):
        raise MutationError(
            f"{name} gives {result.dtype}, which cannot be stored in an array of {x.dtype}", line=user_line(),
            instead="x = x.astype(np.float64) first", numpy_too=True,
        )
    if result.node.shape != x.node.shape:
        result = broadcast_traced(result, x.node.shape)
    assign(x, operand(x.owner, result, x.dtype))
    return x


def refuse_plain(out: Any, name: str) -> None:
    """Refuse ``out=`` an array that is not traced."""
    if type(out) is not Tracer:
        raise MutationError(
            f"{name}(..., out=) writes a traced value into a plain array", line=user_line(),
            instead="make the array inside the traced function (np.empty, np.zeros), or leave out= away",
        )


def into(out: Any, result: Any, name: str) -> Any:
    """Store what a function with ``out=`` computed, and return what NumPy returns."""
    refuse_plain(out, name)
    if as_node(out.owner, result).shape != out.node.shape:
        raise MutationError(
            f"{name} gives {as_node(out.owner, result).shape}, and out= has {out.node.shape}", line=user_line(),
            instead="an array of the result's shape", numpy_too=True,
        )
    return store(out, result, name)


def broadcast_written(value: Any, shape: tuple[Any, ...]) -> Any:
    """Broadcast a value to the place it is written to; NumPy drops its leading axes of extent 1."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    if shape_of(value) == shape:
        return value
    if not is_traced(value):
        return np.broadcast_to(value, shape)
    return broadcast_traced(value, shape)


def broadcast_traced(value: Any, shape: tuple[Any, ...]) -> Any:
    """Broadcast a traced value; an error gets the user's line."""
    try:
        return broadcast_to(value, shape=shape)
    except SymgradError as error:
        raise located(error) from None

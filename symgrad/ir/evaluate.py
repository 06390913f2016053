"""The interpreter: a program's nodes, one after the other, by NumPy. It is the tests' oracle."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import ArgumentValueError, IndexOutOfBounds, LinAlgError
from symgrad.ir.index.extents import at
from symgrad.ir.index.notation import How, IndexValue, Lookup, parts
from symgrad.ir.index.shapes import bare
from symgrad.ir.node import SEVERAL, Constant, Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program

Found = tuple[int, tuple[int, ...]]
"""An integer, and its place among those it stands with."""

SIZES = (5, 3, 4, 2, 6, 7)
"""What unknown extents are where numbers are needed, in the order in which they appear."""


until: ContextVar[float] = ContextVar("until", default=math.inf)
"""When a call must have ended, by `time.monotonic`."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let calls of loops that may never end raise TimeoutError after so many seconds, in C and here."""
    before = until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        until.reset(before)


def in_time() -> None:
    """Raise TimeoutError where a call should have ended."""
    if time.monotonic() > until.get():
        raise TimeoutError


def extents(
    program: Program, arrays: Sequence[np.ndarray[Any, Any]], around: Mapping[Any, int] | None = None,
) -> dict[Any, int]:
    """Find the value of every unknown extent from the arguments' shapes, beside those of the program around it.

    Raises:
        ArgumentValueError: when two arguments disagree about one extent.
    """
    found = bare([node.shape for node in program.inputs])
    dims = {**(around or {}), **{dim: arrays[k].shape[axis] for dim, (k, axis) in found.items()}}
    for node, array in zip(program.inputs, arrays, strict=True):
        for axis, (dim, actual) in enumerate(zip(node.shape, array.shape, strict=True)):
            if not isinstance(dim, int) and actual != (known := dims[dim] if dim in found else concrete(dim, dims)):
                others = "an argument before it" if dim in found else "the other arguments"
                name = node.param("name")
                raise ArgumentValueError(
                    f"argument {name!r} has extent {actual} on axis {axis}, where {dim} is {known} by {others}"
                )
    return dims


def concrete(param: Any, dims: Mapping[Any, int]) -> Any:
    """Put numbers in the place of unknown extents in a parameter; a program there becomes a function of arrays."""
    if isinstance(param, tuple):
        return tuple([concrete(item, dims) for item in param])
    if isinstance(param, Constant):
        return param
    if isinstance(param, Program):
        return HeldProgram(param, dims)
    return int(at(param, dims)) if hasattr(param, "free_symbols") else param


class HeldProgram(NamedTuple):
    """A program that another one holds, as a function of arrays."""

    program: Program
    dims: Mapping[Any, int]

    def __call__(self, *arrays: Any) -> list[np.ndarray[Any, Any]]:
        """Run it."""
        return evaluate(self.program, arrays, self.dims)

    @property
    def results(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each result."""
        return [(concrete(y.shape, self.dims), y.dtype) for y in self.program.outputs]


def computed(node: Node, operands: Sequence[Any], dims: Mapping[Any, int]) -> Any:
    """Compute one node; its errors have the user's line."""
    value = _evaluated(node, operands, dims)
    return value if node.dtype is SEVERAL else np.asarray(value, node.dtype)


def _evaluated(node: Node, operands: Sequence[Any], dims: Mapping[Any, int]) -> Any:
    """Let a node's op compute, in whatever dtype it has of its operands."""
    params = {k: concrete(v, dims) for k, v in node.named.items()}
    try:
        value = node.op.evaluate(*operands, **params)
    except (LinAlgError, IndexError) as error:
        kind = LinAlgError if isinstance(error, LinAlgError) else IndexOutOfBounds
        raise kind(getattr(error, "what", str(error)), line=getattr(error, "line", None) or node.line) from None
    return value


def evaluate(
    program: Program, arrays: Sequence[np.ndarray[Any, Any]], around: Mapping[Any, int] | None = None,
) -> list[np.ndarray[Any, Any]]:
    """Run a program on arrays of its inputs' shapes and dtypes; floating-point warnings are off, as in C.

    Args:
        program: the program.
        arrays: its arguments.
        around: the values of unknown extents of the program that it is the body of.

    Returns:
        One new array for each output.

    Raises:
        LinAlgError: a matrix is singular, or not positive definite, where it must not be.
        IndexOutOfBounds: an index points outside of its axis.
    """
    dims = extents(program, arrays, around)
    values: dict[Any, Any] = dict(zip(program.inputs, arrays, strict=True))
    nodes = program.nodes()
    last = {read: node for node in nodes for read in node.inputs}
    kept = {*program.outputs, *program.inputs}
    with np.errstate(all="ignore"):
        for node in nodes:
            if node in values:
                continue
            values[node] = computed(node, [values[i] for i in node.inputs], dims)
            for read in node.inputs:  # free what nobody reads again
                if last[read] is node and read not in kept:
                    values.pop(read, None)
    return [np.array(values[o]) for o in program.outputs]


# -- which index it was that is out of bounds: for the message of a call that has failed


def stray_index(program: Program, arrays: Sequence[Any], line: Any) -> tuple[Found, tuple[Node, Found] | None] | None:
    """Find an index out of bounds that is used at a line: the integer, and its place among those it stands with.

    Beside it, where it is made of an element of an argument, that argument, and the element likewise. None where it is
    not among the arguments' integers, and what is made of them and no other numbers.
    """
    dims = extents(program, arrays)
    known = {node: array for node, array in zip(program.inputs, arrays, strict=True) if array.dtype.kind in "iub"}
    given = {node: array for node, array in known.items() if array.dtype.kind != "b"}
    origins = {node: (node, np.arange(array.size).reshape(array.shape)) for node, array in given.items()}
    for node in program.nodes():
        for operand, extent in _lookups(node) if node.line == line else ():
            if (integers := known.get(operand)) is not None:
                most = concrete(extent, dims)
                if (stray := np.argwhere((integers < -most) | (integers >= most))).size:
                    first = tuple(stray[0])
                    found = int(integers[first]), tuple(map(int, first))
                    argument, places = origins.get(operand, (operand, None))
                    if argument is operand or places is None:
                        return found, None
                    at = np.unravel_index(places[first], given[argument].shape)
                    return found, (argument, (int(given[argument][at]), tuple(map(int, at))))
        inner = any(isinstance(param, Program) for param in node.params)
        whole = node.dtype is not SEVERAL and node.dtype.kind in "iub" and not inner
        if node not in known and whole and all(i in known for i in node.inputs):
            try:
                known[node] = computed(node, [known[i] for i in node.inputs], dims)
                of = [origins[i] for i in node.inputs if not i.is_constant and i in origins]
                if node.op.view and of:
                    origins[node] = of[0][0], np.asarray(_evaluated(node, [of[0][1]], dims))
                elif _picks(node) and node.inputs[0] in origins:
                    argument, places = origins[node.inputs[0]]
                    found_at = _evaluated(node, [places, *[known[i] for i in node.inputs[1:]]], dims)
                    origins[node] = argument, np.asarray(found_at)
                elif isinstance(node.op, Elementwise) and of and len(of) == sum(not i.is_constant for i in node.inputs):
                    same = all(one is of[0][0] and np.array_equal(places, of[0][1]) for one, places in of)
                    if same and of[0][1].shape == known[node].shape:
                        origins[node] = of[0]
            except IndexError:
                continue
    return None


def _picks(node: Node) -> bool:
    """Whether every element of a node is one of its first operand, where the others say."""
    body = getattr(node.op, "body", None)
    statements = body(node).statements if body else ()
    return [getattr(s.value, "array", None) for s in statements if s.how == How.SET] == [0] * len(statements) == [0]


def _lookups(node: Node) -> list[tuple[Node, Any]]:
    """List the operands that are indices in a node's body, each with the extent that it indexes."""
    body = getattr(node.op, "body", None)
    found: list[tuple[Node, Any]] = []
    for s in body(node).statements if body else ():
        indices = [i for access in s.touched for i in access.indices]
        indices += [s.value.index] if isinstance(s.value, IndexValue) else []
        read = [(part.access.array, part.extent) for i in indices for part in parts(i) if isinstance(part, Lookup)]
        found += [(node.inputs[k], extent) for k, extent in read if 0 <= k < len(node.inputs)]
    return found

"""The call: from checked arrays to C and back, and the same by the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentValueError, IndexOutOfBounds
from symgrad.ir.evaluate import concrete, evaluate, extents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.build.load import Library
    from symgrad.ir.program import Program
    from symgrad.loops.program import Check, LoopProgram
    from symgrad.options import Options

    Arrays = list[np.ndarray[Any, Any]]
    Run = Callable[[Sequence[np.ndarray[Any, Any]]], Arrays]


def interpreted(program: Program) -> Run:
    """Make a call that evaluates a program by NumPy.

    Raises, when called:
        IndexOutOfBounds: as the compiled program would.
    """

    def run(arrays: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        require(program, arrays)
        try:
            return evaluate(program, arrays)
        except IndexError as error:
            raise IndexOutOfBounds(str(error)) from None

    return run


def require(program: Program, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[Any, int]:
    """Find the unknown extents and check what the program needs of them.

    Raises:
        IndexOutOfBounds: an index the user wrote lies outside of its axis at these extents.
    """
    dims = extents(program, arrays)
    for index, extent, axis, line in program.requirements:
        position, size = concrete(index, dims), concrete(extent, dims)
        if not 0 <= position < size:
            raise IndexOutOfBounds(f"index {position} is out of bounds for axis {axis} with size {size}", line=line)
    return dims


def out_of_bounds(check: Check) -> IndexOutOfBounds:
    """Say which index failed."""
    return IndexOutOfBounds(f"an index is out of bounds for an axis with size {check.extent}", line=check.line)


def compiled(program: Program, loops: LoopProgram, library: Library, options: Options, data: Sequence[Any]) -> Run:
    """Make a call of a compiled function.

    Args:
        program: what was compiled, for its extents.
        loops: its loops, for outputs, workspace and checks.
        library: the loaded function.
        options: how many threads.
        data: the constants that are passed.

    Returns:
        A function of C-contiguous, aligned arrays of the inputs' dtypes and shapes, giving new arrays.
    """
    from symgrad.build.threads import threads
    from symgrad.render.render import extents as symbols

    ffi, function = library.ffi, library.function
    from_buffer = ffi.from_buffer
    constants = [from_buffer(f"{_ctype(d)}[]", d) for d in data]
    inputs = [f"{_ctype(a)}[]" for a in loops.inputs]
    outputs = [(a.shape, a.dtype, f"{_ctype(a)}[]") for a in loops.outputs]
    dims = symbols(loops)
    checks = loops.checks

    def static(arrays: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        results = [np.empty(shape, dtype) for shape, dtype, _ in outputs]
        workspace = np.empty(loops.workspace, np.uint8) if loops.workspace else None
        code = function(
            *map(from_buffer, inputs, arrays), *[from_buffer(c, r) for (_, _, c), r in zip(outputs, results, strict=True)],
            *constants, threads(options), ffi.NULL if workspace is None else from_buffer("char[]", workspace),
        )
        if code:
            raise out_of_bounds(checks[code - 1])
        return results

    def dynamic(arrays: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        sizes = require(program, arrays)
        results = [np.empty(concrete(tuple(shape), sizes), dtype) for shape, dtype, _ in outputs]
        workspace = np.empty(concrete(loops.workspace, sizes), np.uint8)
        code = function(
            *map(from_buffer, inputs, arrays), *[from_buffer(c, r) for (_, _, c), r in zip(outputs, results, strict=True)],
            *constants, *[sizes[d] for d in dims], threads(options), from_buffer("char[]", workspace),
        )
        if code:
            raise out_of_bounds(checks[code - 1])
        return results

    return dynamic if dims else static


def _ctype(array: Any) -> str:
    dtype = array.dtype
    if dtype.kind == "f":
        return "double" if dtype.itemsize == 8 else "float"
    if dtype.kind == "b":
        return "uint8_t"
    return f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}_t"


__all__ = ["ArgumentValueError", "compiled", "interpreted"]

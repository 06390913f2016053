"""A bound call: pointers taken once, so that a call is little more than C."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.build.call import ctype, failed, memory, planner, require, requirements
from symgrad.build.load import gathered
from symgrad.build.threads import threads
from symgrad.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.build.call import Arrays
    from symgrad.build.interface import Interface
    from symgrad.build.load import Library
    from symgrad.ir.program import Program
    from symgrad.options import Options


def result_shapes(program: Program, arrays: Sequence[np.ndarray[Any, Any]]) -> list[tuple[int, ...]]:
    """Say what shapes the results have for some arrays.

    Raises:
        IndexOutOfBounds: an index the user wrote lies outside of its axis at these extents.
    """
    from symgrad.ir.evaluate import concrete

    sizes = require(program, arrays)
    return [concrete(tuple(node.shape), sizes) for node in program.outputs]


def bound(
    program: Program, interface: Interface, library: Library, options: Options, arrays: Arrays, results: Arrays,
    answer: Any,
) -> Callable[[], Any]:
    """Bind a compiled function to arrays, which it keeps alive.

    Args:
        program: what was compiled, for its extents.
        interface: what is passed.
        library: the loaded function.
        options: how many threads.
        arrays: inputs as C reads them: contiguous, aligned, of its dtypes, one that lies column by column too.
        results: where it writes.
        answer: what each call returns, made of `results`.

    Returns:
        A function of nothing.
    """
    sizes = requirements(program)(arrays)
    plan = planner(interface, library)
    laid = [a.T if port.fortran else a for a, port in zip(arrays, interface.inputs, strict=True)]
    every = [*laid, *results, *interface.data]
    held = [_pointer(library, a) for a in every]
    # A pointer is passed faster than an array, and keeps nothing alive: the function that is returned does.
    pointers = [library.ffi.cast(f"{ctype(a)} *", p) for a, p in zip(every, held, strict=True)]
    if library.function is not library.entry:
        pointers = [gathered(pointers)]
    nothing = library.ffi.NULL

    def refused(code: int) -> Exception:
        return failed(interface.checks[code - 1], interface.inputs, arrays)

    def prepared(count: int) -> tuple[Callable[..., int], list[Any], Any]:
        function, _, passed, size, last = plan(sizes, count)
        scratch = memory(options)(size) if size else None
        place = nothing if scratch is None else _pointer(library, scratch)
        return function, [*pointers, *passed, place, *last], scratch

    if interface.threaded or prepared(1)[2] is not None:
        team = (lambda: threads(options)) if interface.threaded else (lambda: 1)
        call = _guarded(prepared, team, refused, answer)
    else:
        call = _plain(*prepared(1)[:2], refused, answer)
    vars(call)["held"] = held
    return call


def _plain(
    function: Callable[..., int], arguments: list[Any], refused: Callable[[int], Exception], answer: Any,
) -> Callable[[], Any]:
    """Make the call of a function without a workspace."""

    def call() -> Any:
        code = function(*arguments)
        if code:
            raise refused(code)
        return answer

    return call


def _guarded(
    prepared: Callable[[int], tuple[Callable[..., int], list[Any], Any]], team: Callable[[], int],
    refused: Callable[[int], Exception], answer: Any,
) -> Callable[[], Any]:
    """Make the call of a function with a workspace, which one thread at a time may use."""
    lock = threading.Lock()
    before = 0
    function: Callable[..., int]
    arguments: list[Any] = []

    def call() -> Any:
        nonlocal before, function, arguments
        if not lock.acquire(blocking=False):
            raise BusyError("this bound call is running already", instead="bind once for each thread")
        try:
            count = team()
            if count != before:
                function, arguments, _ = prepared(count)
                before = count
            code = function(*arguments)
        finally:
            lock.release()
        if code:
            raise refused(code)
        return answer

    return call


def _pointer(library: Library, array: np.ndarray[Any, Any]) -> Any:
    """Point to an array's elements, and keep it alive."""
    return library.ffi.from_buffer(f"{ctype(array)}[]", array)

"""The call: from checked arrays to C and back, and the same by the interpreter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.build.interrupt import interruptible
from symgrad.build.threads import threads
from symgrad.errors import ArgumentValueError, IndexOutOfBounds, LinAlgError
from symgrad.ir.dims import dim_to_json, evaluated
from symgrad.ir.evaluate import concrete, evaluate, extents
from symgrad.ir.memory import too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from symgrad.build.interface import Check, Interface, Port
    from symgrad.build.load import Library
    from symgrad.ir.program import Program
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


def memory(options: Options) -> Callable[[int], np.ndarray[Any, Any]]:
    """Return what makes a workspace of so many bytes: uninitialized, or all ones, which is NaN, where one verifies."""
    return partial(np.full, fill_value=255, dtype=np.uint8) if options.verifies else partial(np.empty, dtype=np.uint8)


def require(program: Program, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[Any, int]:
    """Find the unknown extents and check what the program needs of them.

    Raises:
        IndexOutOfBounds: an index the user wrote lies outside of its axis at these extents.
        ArgumentValueError: something else that it needs of them does not hold.
        SizeError: an array would be larger than memory can be.
    """
    dims = extents(program, arrays)
    for index, extent, axis, line, otherwise in program.requirements:
        position, size = concrete(index, dims), concrete(extent, dims)
        if not 0 <= position < size:
            if otherwise:
                raise ArgumentValueError(otherwise, line=line)
            raise IndexOutOfBounds(f"index {position} is out of bounds for axis {axis} with size {size}", line=line)
    beyond = program.largest.beyond({str(dim): size for dim, size in dims.items()})
    if beyond is not None:
        raise too_large(concrete(beyond.shape, dims), beyond.dtype, beyond.line)
    return dims


def unmet(program: Program) -> Callable[[Mapping[str, int]], frozenset[str]]:
    """Make what lists, once for each combination of open extents, those that do not meet a program's requirements."""
    known: dict[tuple[int, ...], frozenset[str]] = {}
    wanted = [
        (dim_to_json(r.index), dim_to_json(r.extent), [str(s) for s in (r.extent - r.index).free_symbols])
        for r in program.requirements if hasattr(r.extent - r.index, "free_symbols")
    ]

    def missing(sizes: Mapping[str, int]) -> frozenset[str]:
        key = tuple(sizes.values())
        found = known.get(key)
        if found is None:
            if len(known) > PLANS:
                known.clear()
            failing = [names for i, e, names in wanted if not 0 <= evaluated(i, sizes) < evaluated(e, sizes)]
            beyond = program.largest.beyond(sizes)
            large = () if beyond is None else sizes
            found = known[key] = frozenset([*large, *[name for names in failing for name in names]])
        return found

    return missing


def requirements(program: Program) -> Callable[[Sequence[np.ndarray[Any, Any]]], dict[Any, int]]:
    """Make `require` for one program, which reckons each combination of extents once."""
    if all(type(dim) is int for node in program.inputs for dim in node.shape):
        return lambda arrays: {}  # noqa: ARG005 - nothing is unknown
    known: set[tuple[int, ...]] = set()

    def checked(arrays: Sequence[np.ndarray[Any, Any]]) -> dict[Any, int]:
        dims = extents(program, arrays)
        key = tuple(dims.values())
        if key not in known:
            require(program, arrays)
            known.add(key)
        return dims

    return checked


def failed(check: Check, inputs: Sequence[Port], arrays: Sequence[Any]) -> IndexOutOfBounds | LinAlgError:
    """Say which index, or which matrix, failed in a call with some arrays."""
    if check.what:
        return LinAlgError(check.what, line=check.line)
    dims = [pair for port, a in zip(inputs, arrays, strict=True) for pair in zip(port.shape, np.shape(a), strict=True)]
    extent = evaluated(check.extent, {str(dim): size for dim, size in dims})
    return IndexOutOfBounds(f"an index is out of bounds for an axis with size {extent}", line=check.line)


def compiled(program: Program, interface: Interface, library: Library, options: Options) -> Run:
    """Make a call of a compiled function.

    Args:
        program: what was compiled, for its extents.
        interface: what is passed, and what comes back.
        library: the loaded function.
        options: how many threads.

    Returns:
        A function of contiguous, aligned arrays of the inputs' dtypes and shapes, giving new arrays.
    """
    from_buffer = library.ffi.from_buffer
    constants = [from_buffer(f"{ctype(d)}[]", d) for d in interface.data]
    inputs = [f"{ctype(a)}[]" for a in interface.inputs]
    outputs = [(a.dtype, f"{ctype(a)}[]") for a in interface.outputs]
    checks, threaded = interface.checks, interface.threaded
    columns = [a.fortran for a in interface.inputs]
    checked = requirements(program)
    plan, workspace = planner(interface, library), memory(options)

    def run(arrays: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        sizes = checked(arrays)
        count = threads(options) if threaded else 1
        pairs = zip(arrays, columns, strict=True)
        laid = [np.asarray(a, order="F").T if turned else np.asarray(a, order="C") for a, turned in pairs]
        function, shapes, passed, scratch, last = plan(sizes, count)
        results = [np.empty(shape, dtype) for shape, (dtype, _) in zip(shapes, outputs, strict=True)]
        code = function(
            *map(from_buffer, inputs, laid),
            *[from_buffer(kind, result) for (_, kind), result in zip(outputs, results, strict=True)],
            *constants, *passed, from_buffer("char[]", workspace(scratch)), *last,
        )
        if code:
            raise failed(checks[code - 1], interface.inputs, arrays)
        return results

    return run


class Plan(NamedTuple):
    """How C is called at some extents.

    Attributes:
        function: what is called.
        shapes: the results'.
        passed: the extents and the number of threads, which follow the constants.
        workspace: bytes of scratch memory, whose pointer follows those.
        last: what follows that.
    """

    function: Callable[..., int]
    shapes: list[Any]
    passed: tuple[int, ...]
    workspace: int
    last: tuple[Any, ...]


def planner(interface: Interface, library: Library) -> Callable[[Mapping[Any, int], int], Plan]:
    """Make what reckons, once for each size and number of threads, how C is called."""
    planned: dict[tuple[int, ...], Plan] = {}
    shapes = [[d if type(d) is int else dim_to_json(d) for d in a.shape] for a in interface.outputs]

    def plan(sizes: Mapping[Any, int], count: int) -> Plan:
        key = (count, *sizes.values())
        found = planned.get(key)
        if found is None:
            if len(planned) > PLANS:
                planned.clear()
            named = {str(dim): size for dim, size in sizes.items()} | {"threads": count}
            results = [tuple([evaluated(d, named) for d in shape]) for shape in shapes]
            passed, size = (*[named[d] for d in interface.dims], count), evaluated(interface.workspace, named)
            function, last = started(interface, library, named)
            found = planned[key] = Plan(function, results, passed, size, last)
        return found

    return plan


def started(
    interface: Interface, library: Library, sizes: Mapping[str, int],
) -> tuple[Callable[..., int], tuple[Any, ...]]:
    """Choose how C is called at some extents, and its last arguments: a long call where it can be stopped."""
    function = library.function
    if not interface.polled:
        return function, ()
    if evaluated(interface.work, sizes) >= LONG:
        return partial(interruptible, function), ()
    return function, (library.ffi.NULL,)


LONG = 20_000_000
"""Operations of a call that may take 20 ms, and so runs where Ctrl-C can end it."""

PLANS = 256
"""Sizes whose shapes and workspace are remembered."""

def ctype(array: Any) -> str:
    """Name the C type of an array's elements."""
    dtype = array.dtype
    if dtype.kind == "f":
        return "double" if dtype.itemsize == 8 else "float"
    if dtype.kind == "b":
        return "uint8_t"
    return f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}_t"

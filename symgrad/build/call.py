"""The call: from checked arrays to C and back, and the same by the interpreter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.build.interrupt import interruptible
from symgrad.build.threads import threads
from symgrad.errors import ArgumentValueError, IndexOutOfBounds
from symgrad.ir.dims import evaluated
from symgrad.ir.evaluate import concrete, evaluate, extents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from symgrad.build.interface import Check, Interface
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


def require(program: Program, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[Any, int]:
    """Find the unknown extents and check what the program needs of them.

    Raises:
        IndexOutOfBounds: an index the user wrote lies outside of its axis at these extents.
        ArgumentValueError: an extremum would have no element.
    """
    dims = extents(program, arrays)
    for index, extent, axis, line, extremum in program.requirements:
        position, size = concrete(index, dims), concrete(extent, dims)
        if not 0 <= position < size:
            if extremum:
                raise ArgumentValueError(
                    f"np.{extremum} along axis {axis} of no elements, which has no result", line=line
                )
            raise IndexOutOfBounds(f"index {position} is out of bounds for axis {axis} with size {size}", line=line)
    return dims


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


def out_of_bounds(check: Check) -> IndexOutOfBounds:
    """Say which index failed."""
    return IndexOutOfBounds(f"an index is out of bounds for an axis with size {check.extent}", line=check.line)


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
    plan = planner(interface, library)

    def run(arrays: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        sizes = checked(arrays)
        count = threads(options) if threaded else 1
        pairs = zip(arrays, columns, strict=True)
        laid = [np.asarray(a, order="F").T if turned else np.asarray(a, order="C") for a, turned in pairs]
        function, shapes, passed, scratch = plan(sizes, count)
        results = [np.empty(shape, dtype) for shape, (dtype, _) in zip(shapes, outputs, strict=True)]
        code = function(
            *map(from_buffer, inputs, laid),
            *[from_buffer(kind, result) for (_, kind), result in zip(outputs, results, strict=True)],
            *constants, *passed, count, from_buffer("char[]", np.empty(scratch, np.uint8)),
        )
        if code:
            raise out_of_bounds(checks[code - 1])
        return results

    return run


Plan = tuple["Callable[..., int]", list[Any], list[int], int]


def planner(interface: Interface, library: Library) -> Callable[[dict[Any, int], int], Plan]:
    """Make what reckons, once for each size and number of threads, the function, shapes, extents and workspace."""
    planned: dict[tuple[int, ...], Plan] = {}

    def plan(sizes: dict[Any, int], count: int) -> Plan:
        key = (count, *sizes.values())
        found = planned.get(key)
        if found is None:
            if len(planned) > PLANS:
                planned.clear()
            named = {str(dim): size for dim, size in sizes.items()} | {"threads": count}
            shapes = [concrete(tuple(a.shape), sizes) for a in interface.outputs]
            function = started(interface, library, named)
            found = function, shapes, [named[d] for d in interface.dims], evaluated(interface.workspace, named)
            planned[key] = found
        return found

    return plan


def started(interface: Interface, library: Library, sizes: Mapping[str, int]) -> Callable[..., int]:
    """Choose how C is called at some extents, of all its arguments but `stop`: a long call where it can be stopped."""
    function = library.function
    if not interface.polled:
        return function
    if evaluated(interface.work, sizes) >= LONG:
        return partial(interruptible, function)
    nothing = library.ffi.NULL
    return lambda *arguments: function(*arguments, nothing)


LONG = 20_000_000
"""Operations of a call that may take 20 ms, and so runs where Ctrl-C can end it."""

PLANS = 256
"""Sizes whose shapes and workspace are remembered."""

MISS: Any = object()
"""What a direct call answers when its arguments are not what it was made for."""

CONTIGUOUS_AND_ALIGNED = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""


def direct(
    interface: Interface, library: Library, options: Options, finish: Callable[[Sequence[Any]], Any],
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the shortest call of a compiled function: of plain arrays that need no conversion, of known shapes.

    Returns:
        A function of a tuple of arguments. It checks each exactly, and returns what `finish` makes of the new
        arrays, or `MISS` without having called anything.
    """
    simple = not (interface.data or interface.workspace or interface.threaded or interface.polled)
    if simple and len(interface.inputs) == 1 and len(interface.outputs) == 2:
        return _one_to_two(interface, library, finish)
    ffi, function = library.ffi, started(interface, library, {})
    from_buffer, empty, plain = ffi.from_buffer, np.empty, np.ndarray
    wanted = [(a.dtype, a.shape) for a in interface.inputs]
    shapes, dtypes = [a.shape for a in interface.outputs], [a.dtype for a in interface.outputs]
    kinds = [ffi.typeof(f"{ctype(a)}[]") for a in (*interface.inputs, *interface.outputs)]
    constants = [from_buffer(f"{ctype(d)}[]", d) for d in interface.data]
    count, threaded, checks = len(wanted), interface.threaded, interface.checks
    sizes: dict[int, int] = {}
    nothing = ffi.NULL

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != count:
            return MISS
        for array, (dtype, shape) in zip(args, wanted):  # noqa: B905 - lengths are equal, and strict costs time
            if (
                type(array) is not plain or array.dtype is not dtype or array.shape != shape
                or array.flags.num & CONTIGUOUS_AND_ALIGNED != CONTIGUOUS_AND_ALIGNED
            ):
                return MISS
        results = [*map(empty, shapes, dtypes)]
        team = threads(options) if threaded else 1
        size = sizes.get(team)
        if size is None:
            size = sizes[team] = evaluated(interface.workspace, {"threads": team})
        code = function(
            *map(from_buffer, kinds, (*args, *results)), *constants, team,
            from_buffer("char[]", empty(size, np.uint8)) if size else nothing,
        )
        if code:
            raise out_of_bounds(checks[code - 1])
        return finish(results)

    return call


def _one_to_two(
    interface: Interface, library: Library, finish: Callable[[Sequence[Any]], Any],
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the direct call of one array to two (a small loss and its gradient), where each loop above would show."""
    function, from_buffer, nothing = library.function, library.ffi.from_buffer, library.ffi.NULL
    empty, plain = np.empty, np.ndarray
    (x,), (first, second), checks = interface.inputs, interface.outputs, interface.checks
    dtype, shape = x.dtype, x.shape
    dtype_1, dtype_2, shape_1, shape_2 = first.dtype, second.dtype, first.shape, second.shape
    kind, kind_1, kind_2 = [library.ffi.typeof(f"{ctype(a)}[]") for a in (x, first, second)]

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != 1:
            return MISS
        (array,) = args
        if (
            type(array) is not plain or array.dtype is not dtype or array.shape != shape
            or array.flags.num & CONTIGUOUS_AND_ALIGNED != CONTIGUOUS_AND_ALIGNED
        ):
            return MISS
        one, two = empty(shape_1, dtype_1), empty(shape_2, dtype_2)
        code = function(from_buffer(kind, array), from_buffer(kind_1, one), from_buffer(kind_2, two), 1, nothing)
        if code:
            raise out_of_bounds(checks[code - 1])
        return finish((one, two))

    return call


def ctype(array: Any) -> str:
    """Name the C type of an array's elements."""
    dtype = array.dtype
    if dtype.kind == "f":
        return "double" if dtype.itemsize == 8 else "float"
    if dtype.kind == "b":
        return "uint8_t"
    return f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}_t"

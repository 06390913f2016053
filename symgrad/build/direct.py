"""The shortest call: arguments that C can read as they are, each checked exactly, of known shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.build.call import ctype, failed, started
from symgrad.build.objects import objects_call
from symgrad.build.results import results as results_of
from symgrad.build.threads import threads
from symgrad.ir.dims import evaluated
from symgrad.render.objects import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.build.interface import Interface
    from symgrad.build.load import Library
    from symgrad.options import Options

    Flatten = Callable[[tuple[Any, ...]], Sequence[Any] | None]

MISS: Any = object()
"""What a direct call answers when its arguments are not what it was made for."""

CONTIGUOUS_AND_ALIGNED = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""

DOUBLE = np.dtype(np.float64)

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1


def direct(
    interface: Interface, library: Library, options: Options, numbers: Sequence[type | None], flatten: Flatten | None,
    finish: Callable[[Any], Any],
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the shortest call of a compiled function.

    Args:
        interface: what is passed, and what comes back.
        library: the loaded function.
        options: how many threads.
        numbers: which arguments are Python numbers, and of what type.
        flatten: gives the arrays and numbers in the arguments, None for another structure; without it they are those.
        finish: makes what is returned of the new arrays.

    Returns:
        A function of a tuple of arguments: it returns `MISS`, and has called nothing, when one is not as it should be.
    """
    function, checks = started(interface, library, {}), interface.checks
    wanted, fixed, rest = _wanted(interface, library, numbers), *_rest(interface, library, options)
    from_buffer, count = library.ffi.from_buffer, len(interface.inputs)
    shapes, dtypes = [a.shape for a in interface.outputs], [a.dtype for a in interface.outputs]
    empty = results_of(shapes, dtypes)
    kinds = [library.ffi.typeof(f"{ctype(a)}[]") for a in interface.outputs]

    def call(args: tuple[Any, ...]) -> Any:
        leaves = args if flatten is None else flatten(args)
        if leaves is None or len(leaves) != count:
            return MISS
        pointers = []
        for leaf, (of, dtype, shape, kind) in zip(leaves, wanted):  # noqa: B905 - equal lengths, and strict costs time
            if type(leaf) is not of:
                number = _number(leaf, dtype, shape, kind)
                if number is MISS:
                    return MISS
                pointers.append(number)
            elif (
                leaf.dtype is not dtype or leaf.shape != shape
                or leaf.flags.num & CONTIGUOUS_AND_ALIGNED != CONTIGUOUS_AND_ALIGNED
            ):
                return MISS
            else:
                pointers.append(from_buffer(kind, leaf))
        results = [*map(empty, shapes, dtypes)]
        code = function(*pointers, *map(from_buffer, kinds, results), *(fixed or rest()))
        if code:
            raise failed(checks[code - 1])
        return finish(results)

    return call if any(numbers) else _by_address(interface, library, flatten, finish, call)


def _number(leaf: Any, dtype: np.dtype[Any], shape: Any, kind: Any) -> Any:
    """Pass a number as a tuple, which cffi copies to where C can read it; `MISS` if it is not the one to come."""
    if type(leaf) is kind:
        return (leaf,) if kind is not int or SMALLEST <= leaf <= LARGEST else MISS
    return (leaf,) if type(leaf) is np.float64 and shape == () and dtype is DOUBLE else MISS


def _wanted(
    interface: Interface, library: Library, numbers: Sequence[type | None],
) -> list[tuple[Any, np.dtype[Any], Any, Any]]:
    """Say what each argument must be: for an array dtype, shape, and C's type; for a number its Python type."""
    typeof = library.ffi.typeof
    return [
        (None, a.dtype, None, number) if number else (np.ndarray, a.dtype, a.shape, typeof(f"{ctype(a)}[]"))
        for a, number in zip(interface.inputs, numbers, strict=True)
    ]


def _rest(
    interface: Interface, library: Library, options: Options,
) -> tuple[tuple[Any, ...], Callable[[], tuple[Any, ...]]]:
    """Return what follows the results (constants, number of threads, workspace) if it is always the same, or made."""
    from_buffer, chars, threaded = library.ffi.from_buffer, library.ffi.typeof("char[]"), interface.threaded
    constants = tuple([from_buffer(f"{ctype(d)}[]", d) for d in interface.data])
    sizes: dict[int, int] = {}

    def rest() -> tuple[Any, ...]:
        team = threads(options) if threaded else 1
        size = sizes.get(team)
        if size is None:
            size = sizes[team] = evaluated(interface.workspace, {"threads": team})
        return (*constants, team, from_buffer(chars, np.empty(size, np.uint8)))

    same = not threaded and evaluated(interface.workspace, {"threads": 1}) == 0
    return (*constants, 1, library.ffi.NULL) if same else (), rest


def value_and_array(results: Sequence[Any]) -> tuple[Any, Any]:
    """Give a number and an array: how a loss and its gradient are returned."""
    return results[0][()], results[1]


def _by_address(
    interface: Interface, library: Library, flatten: Flatten | None, finish: Callable[[Any], Any],
    otherwise: Callable[[tuple[Any, ...]], Any],
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the call whose checks are compiled, where there is one; arguments that are no arrays go `otherwise`."""
    found = objects_call(interface, library)
    if found is None:
        return otherwise
    function, known = found
    checks = interface.checks
    shapes, dtypes = [a.shape for a in interface.outputs], [a.dtype for a in interface.outputs]
    empty = results_of(shapes, dtypes)

    def call(args: tuple[Any, ...]) -> Any:
        leaves = args
        if flatten is not None:
            flat = flatten(args)
            if flat is None:
                return MISS
            leaves = tuple(flat)
        results = [*map(empty, shapes, dtypes)]
        code = function(id(leaves), id(results), known)
        if code:
            if code == OTHER:
                return otherwise(args)
            raise failed(checks[code - 1])
        return finish(results)

    return call

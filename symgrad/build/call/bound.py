"""A bound call: arrays are checked once and passed by address, so that a call is little more than C."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from symgrad.build.call.call import ctype, memory
from symgrad.build.load import gathered
from symgrad.build.threads import threads
from symgrad.errors import ArgumentError, ArgumentValueError, BusyError
from symgrad.ir.evaluate import concrete
from symgrad.ir.requirements import require
from symgrad.trace.signature import NAMESPACE, flatten
from symgrad.transforms.debug_nans import Looking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.build.call.call import Arrays, Call
    from symgrad.trace.signature import Spec
    from symgrad.transforms.debug_nans import Watch


def bound(call: Call, leaves: Sequence[Any], out: Any) -> Callable[[], Any]:
    """Bind a compilation to the leaves of its arguments, which are kept alive.

    Args:
        call: of the compilation.
        leaves: arrays, which C reads as they lie, and numbers.
        out: arrays that are written, in the structure of the result; None makes them.

    Returns:
        A function of nothing, which writes and returns them.

    Raises:
        ArgumentError: an array would have to be converted, or `out` has another structure or dtypes.
        ArgumentValueError: `out` has other shapes, or shares memory.
    """
    signature, program = call.signature, call.program
    arrays = [as_it_lies(*each) for each in zip(leaves, signature.specs, signature.paths, strict=True)]
    sizes = require(program, arrays)
    wanted = [(concrete(tuple(node.shape), sizes), node.dtype) for node in program.outputs]
    if out is None:
        results = [np.empty(*each) for each in wanted]
        out = optree.tree_map(lambda place: results[place.number], _structure(call), namespace=NAMESPACE)
    else:
        results = _outputs(call, out, wanted)
        for leaf, path in zip(leaves, signature.paths, strict=True):
            if isinstance(leaf, np.ndarray) and any(np.may_share_memory(result, leaf) for result in results):
                raise ArgumentValueError(
                    f"out shares memory with argument {path}, which is read while results are written",
                    instead="an array of its own",
                )
    made = (_compiled if call.is_compiled else _interpreted)(call, arrays, results, out)
    if not isinstance(call.finish, Looking):
        return made
    watch: Watch = call.finish.watch
    flags: Any = results[-1]

    def looked() -> Any:
        found = made()
        watch.check(flags)
        return found

    return looked


def _interpreted(call: Call, arrays: Arrays, results: Arrays, out: Any) -> Callable[[], Any]:
    def run() -> Any:
        for result, value in zip(results, call.interpreted(arrays), strict=True):
            np.copyto(result, value)
        return out

    return run


def _compiled(call: Call, arrays: Arrays, results: Arrays, out: Any) -> Callable[[], Any]:
    interface, library, options = call.interface, call.library, call.options
    ffi = library.ffi
    laid = [a.T if port.fortran else a for a, port in zip(arrays, interface.inputs, strict=True)]
    every = [*laid, *results, *interface.data]
    held = [ffi.from_buffer(f"{ctype(a)}[]", a) for a in every]
    # A pointer is passed faster than an array, and keeps nothing alive: the function that is returned does.
    pointers = [ffi.cast(f"{ctype(a)} *", p) for a, p in zip(every, held, strict=True)]
    if library.function is not library.entry:
        pointers = [gathered(pointers)]
    first = len(interface.data)

    def prepared() -> tuple[Callable[..., int], list[Any], Any]:
        plan = call.planned(arrays)
        scratch = ffi.from_buffer("char[]", memory(options)(plan.workspace)) if plan.workspace else ffi.NULL
        return plan.function, [*pointers, *plan.passed[first:], scratch, *plan.last], (held, scratch)

    function, arguments, kept = prepared()

    def run() -> Any:
        code = function(*arguments)
        if code:
            raise call.failure(code, arrays)
        return out

    if interface.threaded or interface.workspace != 0:
        run = _guarded(call, prepared, arrays, out)
    vars(run)["held"] = kept
    return run


def _guarded(
    call: Call, prepared: Callable[[], tuple[Callable[..., int], list[Any], Any]], arrays: Arrays, out: Any,
) -> Callable[[], Any]:
    """Make the call of a function with a workspace, or with threads, which one thread at a time may use."""
    lock, before, threaded = threading.Lock(), 0, call.interface.threaded
    function: Callable[..., int]
    arguments: list[Any] = []
    kept: Any = None

    def run() -> Any:
        nonlocal before, function, arguments, kept
        if not lock.acquire(blocking=False):
            raise BusyError("this bound call is running already", instead="bind once for each thread")
        try:
            count = threads(call.options) if threaded else 1
            if count != before:
                function, arguments, kept = prepared()
                before = count
            code = function(*arguments)
        finally:
            lock.release()
        if code:
            raise call.failure(code, arrays)
        return out

    return run


def as_it_lies(leaf: Any, want: Spec, path: str) -> np.ndarray[Any, Any]:
    """Take an array as it lies; a number cannot change and is taken for good.

    Raises:
        ArgumentError: C could not read the array without a conversion.
    """
    if not isinstance(leaf, np.ndarray):
        return np.array(leaf, want.dtype)
    words = f"argument {path}: C reads {want} as it lies in memory, and this array"
    if leaf.dtype != want.dtype:
        raise ArgumentError(f"{words} has dtype {leaf.dtype}", instead=f"{path}.astype(np.{want.dtype.name})")
    if not (leaf.flags.fnc if want.fortran else leaf.flags.c_contiguous):
        raise ArgumentError(f"{words} has strides {leaf.strides}", instead=f"np.ascontiguousarray({path})")
    if not leaf.flags.aligned:
        raise ArgumentError(f"{words} is not aligned", instead=f"{path}.copy()")
    return leaf.view(np.ndarray)


class _Place:
    """Stands for one result; takes part in no arithmetic."""

    ndim = 1

    def __init__(self, number: int) -> None:
        self.number = number

    def __getitem__(self, _: Any) -> _Place:
        return self


def _structure(call: Call) -> Any:
    """Return what a call returns, with a place for each array in it."""
    places = [_Place(k) for k in range(len(call.program.outputs))]
    if isinstance(call.finish, Looking):
        return call.finish.unflatten(places[:-1])
    return call.finish(places)


def _outputs(call: Call, out: Any, wanted: list[tuple[tuple[int, ...], Any]]) -> Arrays:
    """Take the arrays of `out` apart, in the order of the program's outputs."""
    places, tree = flatten(_structure(call))
    leaves, given = flatten(out)
    if given != tree:
        raise ArgumentError(f"out has the structure {given}, where the result has {tree}")
    paths = [f"out{accessor.codify('')}" for accessor in tree.accessors()]
    found: dict[int, np.ndarray[Any, Any]] = {}
    for leaf, place, path in zip(leaves, places, paths, strict=True):
        _check_output(leaf, wanted[place.number], path)
        for other, known in zip(found.values(), paths, strict=False):
            if np.may_share_memory(leaf, other):
                raise ArgumentValueError(f"{path} and {known} share memory", instead="an array of its own for each")
        found[place.number] = leaf
    return [found[number] if number in found else np.empty(*wanted[number]) for number in range(len(wanted))]


def _check_output(leaf: Any, wanted: tuple[tuple[int, ...], Any], path: str) -> None:
    shape, dtype = wanted
    instead = f"np.empty({shape}, np.{dtype.name})"
    if not isinstance(leaf, np.ndarray):
        raise ArgumentError(f"{path} is {type(leaf).__name__}, not an array that can be written", instead=instead)
    if leaf.dtype != dtype:
        raise ArgumentError(f"{path} has dtype {leaf.dtype}, where the result has {dtype}", instead=instead)
    if leaf.shape != shape:
        raise ArgumentValueError(f"{path} has shape {leaf.shape}, where the result has {shape}", instead=instead)
    flags = leaf.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        words = "read-only" if not flags.writeable else f"not contiguous (strides {leaf.strides}) or not aligned"
        raise ArgumentError(f"{path} is {words}", instead=instead)

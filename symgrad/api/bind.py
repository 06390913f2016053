"""`Function.bind`: a call of nothing, on arrays that are looked at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from symgrad.build.bound import bound, result_shapes
from symgrad.build.call import interpreted
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ops.declare import is_traced
from symgrad.trace.signature import NAMESPACE, Spec, flatten
from symgrad.transforms.watch import Looking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.compilations import Entry
    from symgrad.options import Options
    from symgrad.transforms.watch import Watch

    Arrays = list[np.ndarray[Any, Any]]


def refuse_valueless(leaves: Sequence[Any]) -> None:
    """Refuse values that are known only when a traced function runs, and specs, which have none.

    Raises:
        ArgumentError: there is one.
    """
    for leaf in leaves:
        if is_traced(leaf):
            raise ArgumentError("bind needs arrays, and was given a traced value", instead="call the function itself")
        if isinstance(leaf, Spec):
            raise ArgumentError(f"bind needs arrays, and was given the spec {leaf}", instead="np.empty of that shape")


def bind(entry: Entry, leaves: Sequence[Any], out: Any, options: Options) -> Callable[[], Any]:
    """Bind a compilation to the leaves of its arguments.

    Raises:
        ArgumentError: an array would have to be converted, or `out` has another structure or dtypes.
        ArgumentValueError: `out` has other shapes, or shares memory.
    """
    paths, program = entry.signature.paths, entry.built.program
    arrays = [as_it_lies(*each) for each in zip(leaves, entry.signature.specs, paths, strict=True)]
    shapes = result_shapes(program, arrays)
    wanted = [(shape, node.dtype) for shape, node in zip(shapes, program.outputs, strict=True)]
    results = [np.empty(*each) for each in wanted] if out is None else _outputs(entry, out, wanted)
    if out is None:
        out = optree.tree_map(lambda place: results[place.number], _structure(entry), namespace=NAMESPACE)
    else:
        bare = [a if isinstance(a, np.ndarray) else None for a in leaves]
        _refuse_overlap(results, [(a, p) for a, p in zip(bare, paths, strict=True) if a is not None])
    built = entry.built
    if built.library is None or built.interface is None:
        call = _by_numpy(entry, arrays, results, out)
    else:
        call = bound(program, built.interface, built.library, options, arrays, results, out)
    if isinstance(entry.unflatten, Looking):
        return _looking(call, entry.unflatten.watch, results[-1])
    return call


def _looking(call: Callable[[], Any], watch: Watch, flags: Any) -> Callable[[], Any]:
    """Look at the flags that each call leaves, as `Options(debug_nans=True)` wants it."""

    def looked() -> Any:
        found = call()
        watch.check(flags)
        return found

    return looked


def _by_numpy(entry: Entry, arrays: Arrays, results: Arrays, out: Any) -> Callable[[], Any]:
    """Bind a function that NumPy interprets."""
    run = interpreted(entry.built.program)

    def call() -> Any:
        for result, value in zip(results, run(arrays), strict=True):
            np.copyto(result, value)
        return out

    return call


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


def _structure(entry: Entry) -> Any:
    """Return what a call returns, with a place for each array in it."""
    places = [_Place(k) for k in range(len(entry.built.program.outputs))]
    if isinstance(entry.unflatten, Looking):
        return entry.unflatten.unflatten(places[:-1])
    return entry.unflatten(places)


def _outputs(entry: Entry, out: Any, wanted: list[tuple[tuple[int, ...], Any]]) -> Arrays:
    """Take the arrays of `out` apart, in the order of the program's outputs."""
    places, tree = flatten(_structure(entry))
    leaves, given = flatten(out)
    if given != tree:
        raise ArgumentError(f"out has the structure {given}, where the result has {tree}")
    paths = [f"out{accessor.codify('')}" for accessor in tree.accessors()]
    found: dict[int, np.ndarray[Any, Any]] = {}
    for leaf, place, path in zip(leaves, places, paths, strict=True):
        shape, dtype = wanted[place.number]
        _check_output(leaf, shape, dtype, path)
        for other, known in zip(found.values(), paths, strict=False):
            if np.may_share_memory(leaf, other):
                raise ArgumentValueError(f"{path} and {known} share memory", instead="an array of its own for each")
        found[place.number] = leaf
    return [found[number] if number in found else np.empty(*wanted[number]) for number in range(len(wanted))]


def _check_output(leaf: Any, shape: tuple[int, ...], dtype: Any, path: str) -> None:
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


def _refuse_overlap(results: Arrays, inputs: list[tuple[np.ndarray[Any, Any], str]]) -> None:
    """Refuse results that are written over arguments: contiguous arrays share memory if their bounds overlap."""
    for result in results:
        for array, path in inputs:
            if np.may_share_memory(result, array):
                raise ArgumentValueError(
                    f"out shares memory with argument {path}, which is read while results are written",
                    instead="an array of its own",
                )

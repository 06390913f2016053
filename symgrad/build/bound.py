"""Arrays that are checked once and passed by address: to a bound call, little more than C, and to SciPy's callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.build import load
from symgrad.build.call import Arrays, Call, allocator
from symgrad.build.load import ffi
from symgrad.build.threads import threads
from symgrad.build.toolchain.find import find
from symgrad.errors import ArgumentError, ArgumentValueError, BusyError
from symgrad.ir.evaluate import concrete
from symgrad.ir.requirements import require
from symgrad.ir.saved.dims import evaluated
from symgrad.ops.declare.spelling import stored
from symgrad.render.source import Source
from symgrad.trace import optree
from symgrad.trace.signature import Spec, flatten
from symgrad.trace.structures import NAMESPACE
from symgrad.transforms.debug_nans import Looking

RESULT = (np.dtype(np.float64), ())
"""What a callback returns: one number."""


def as_it_lies(leaf: Any, want: Spec, path: str) -> np.ndarray[Any, Any]:
    """Take an array as it lies, or refuse what C cannot read without a copy; a number is taken for good."""
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


# -- bound calls


def bound_call(call: Call, leaves: Sequence[Any], out: Any) -> Callable[[], Any]:
    """Bind a compilation to the leaves of its arguments, and to the arrays of `out`, or new ones, for its results.

    The function that is returned keeps them alive; it writes the results, and returns them in their structure.
    """
    signature, program = call.signature, call.program
    arrays = [as_it_lies(*each) for each in zip(leaves, signature.specs, signature.paths, strict=False)]
    others = zip(call.read(), signature.specs[len(arrays) :], strict=True)
    arrays += [np.require(array, one.dtype, ["F" if one.fortran else "C", "A"]) for array, one in others]
    call.integers.check(leaves)
    sizes = require(program, arrays)
    wanted = [(concrete(tuple(node.shape), sizes), node.dtype) for node in program.results]
    places = [_ResultPlace(k) for k in range(len(wanted))]
    looking = call.finish if isinstance(call.finish, Looking) else None
    structure = call.finish(places) if looking is None else looking.unflatten(places[:-1])
    if out is None:
        results = [np.empty(*each) for each in wanted]
        out = optree.tree_map(lambda place: results[place.number], structure, namespace=NAMESPACE)
    else:
        results = _outputs(structure, out, wanted)
        for k, (leaf, path) in enumerate(zip([*leaves, *call.read()], signature.paths, strict=True)):
            if isinstance(leaf, np.ndarray) and any(np.may_share_memory(result, leaf) for result in results):
                what = f"argument {path}" if k < len(leaves) else f"{path}, an array from outside"
                raise ArgumentValueError(
                    f"out shares memory with {what}, which is read while results are written",
                    instead="an array of its own",
                )
    made = _caller_of_c(call, arrays, results, out)
    if looking is None:
        return made

    def looked() -> Any:
        found = made()
        looking.watch.check(results[-1])  # type: ignore[arg-type]
        return found

    return looked


def refreshed(call: Call, leaves: Sequence[Any], out: Any, *, given: bool, first: bool = True) -> Callable[[], Any]:
    """Bind a compilation, anew in each call where it reads copies of arrays from outside.

    Of `out` that is not `given`, what an earlier binding made, new arrays are made where it does not fit; but not for
    another path than the `first` one, the results of which people hold.
    """
    try:
        made = bound_call(call, leaves, out)
    except (ArgumentError, ArgumentValueError) as error:
        if given or out is None:
            raise
        if not first:
            raise type(error)(
                "a condition leads this bound call to a path with another result: what was made before"
                f"{error.what.removeprefix('out')}",
                instead="a call of the function, or one shape and structure on all paths",
            ) from None
        made = bound_call(call, leaves, None)
    if not call.copies():
        return made
    into = made()

    def run() -> Any:
        return bound_call(call, leaves, into)()

    return run


class _ResultPlace:
    """Stands for one result where a call's results are put into their structure."""

    ndim = 1

    def __init__(self, number: int) -> None:
        self.number = number

    def __getitem__(self, _: Any) -> _ResultPlace:
        return self


def _outputs(structure: Any, out: Any, wanted: list[tuple[tuple[int, ...], Any]]) -> Arrays:
    """Take the arrays of `out` apart, in the order of the program's outputs; each must fit, and share no memory."""
    places, tree = flatten(structure)
    leaves, given = flatten(out)
    if given != tree:
        raise ArgumentError(f"out has the structure {given}, where the result has {tree}")
    paths = [f"out{accessor.codify('')}" for accessor in tree.accessors()]
    found: dict[int, np.ndarray[Any, Any]] = {}
    for leaf, place, path in zip(leaves, places, paths, strict=True):
        shape, dtype = wanted[place.number]
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
        for other, known in zip(found.values(), paths, strict=False):
            if np.may_share_memory(leaf, other):
                raise ArgumentValueError(f"{path} and {known} share memory", instead="an array of its own for each")
        found[place.number] = leaf
    return [found[number] if number in found else np.empty(*wanted[number]) for number in range(len(wanted))]


def _caller_of_c(call: Call, arrays: Arrays, results: Arrays, out: Any) -> Callable[[], Any]:
    """Return what calls C with addresses; of what has a workspace, or threads, one thread at a time."""
    if not call.is_compiled:

        def interpreted() -> Any:
            for result, value in zip(results, call.interpreted(arrays), strict=True):
                np.copyto(result, value)
            return out

        return interpreted
    interface, library, options = call.interface, call.library, call.options
    laid = [a.T if port.fortran else a for a, port in zip(arrays, interface.inputs, strict=True)]
    every = [*laid, *results, *interface.data]
    held = [ffi.from_buffer(f"{stored(a.dtype)}[]", a) for a in every]
    # A pointer is passed faster than an array, and keeps nothing alive: the function that is returned does.
    pointers = [ffi.cast(f"{stored(a.dtype)} *", p) for a, p in zip(every, held, strict=True)]
    if library.function is not library.entry:
        pointers = [ffi.new("void *[]", pointers)]
    function: Callable[..., int]
    arguments: list[Any] = []
    lock, team = threading.Lock(), 0

    def prepare(count: int) -> None:
        nonlocal function, arguments, team
        team, plan = count, call.planned(arrays)
        scratch = ffi.from_buffer("char[]", allocator(options)(plan.workspace)) if plan.workspace else ffi.NULL
        function, arguments = plan.function, [*pointers, *plan.passed[len(interface.data) :], scratch, *plan.last]

    def run() -> Any:
        code = function(*arguments)
        if code:
            raise call.failure(code, arrays)
        return out

    def run_alone() -> Any:
        if not lock.acquire(blocking=False):
            raise BusyError("this bound call is running already", instead="bind once for each thread")
        try:
            if interface.threaded and (count := threads(options)) != team:
                prepare(count)
            return run()
        finally:
            lock.release()

    prepare(threads(options) if interface.threaded else 1)
    vars(run)["held"] = held
    return run_alone if interface.threaded or interface.workspace != 0 else run


# -- callbacks


def callback(
    call: Call, source: Source, name: str, extra: Sequence[np.ndarray[Any, Any]], signature: str | None, *,
    vector: bool,
) -> Any:
    """Make a `scipy.LowLevelCallable` of a compilation: an adapter in C around it, of one of SciPy's signatures.

    The arguments after the numbers, `extra`, are kept alive as its user data. With `vector`, the numbers come as one
    array, not as an argument each.
    """
    from scipy import LowLevelCallable

    from symgrad.render.callers import STACK_WORKSPACE, adapted

    interface, specs = call.interface, call.signature.specs
    if [port[:2] for port in interface.outputs] != [RESULT]:
        found = ", ".join(f"{p.dtype.name}[{','.join(map(str, p.shape))}]" for p in interface.outputs)
        raise ArgumentError(f"{name}() returns {found}; a callback of SciPy's returns one float64 number")
    first = len(specs) - len(extra)
    leading = specs[0].shape[0] if vector else first
    triples = zip(extra, specs[first:], call.signature.paths[first:], strict=True)
    arrays = [as_it_lies(*each) for each in triples]
    every = [*[a.T if s.fortran else a for a, s in zip(arrays, specs[first:], strict=True)], *interface.data]
    chosen = _callback_signature(signature, name, leading=leading, vector=vector, pointers=bool(every))
    sizes = require(call.program, [*[np.zeros(s.shape) for s in specs[:first]], *arrays])
    extents = {str(dim): size for dim, size in sizes.items()}
    workspace = evaluated(interface.workspace, {**extents, "threads": 1})
    if workspace > STACK_WORKSPACE:
        raise ArgumentValueError(
            f"{call.program.name}() needs {workspace} bytes of workspace, and a callback has no more than "
            f"{STACK_WORKSPACE} on the stack of its caller", instead="smaller arrays",
        )
    counts = len(interface.inputs), len(interface.outputs), len(interface.data)
    adapter = adapted(
        source, chosen, -leading if vector else leading, counts, [extents[d] for d in interface.dims], workspace,
        polled=interface.polled,
    )
    toolchain = find(call.options)
    assert toolchain is not None  # noqa: S101 - it compiled the function
    library = load.build(adapter, toolchain, call.options)
    if not every:
        return LowLevelCallable(library.function, None, chosen)
    held = [ffi.from_buffer("char[]", array) for array in every]
    pointers = ffi.new("void *[]", held)
    user_data = ffi.gc(ffi.cast("void *", pointers), lambda _, kept=(held, pointers): None)  # noqa: ARG005 - it keeps them
    return LowLevelCallable(library.function, user_data, chosen)


def _callback_signature(asked: str | None, name: str, *, leading: int, vector: bool, pointers: bool) -> str:
    """Choose a signature, or check the one that was asked for."""
    from symgrad.render.callers import PARAMETERS

    one = leading == 1 and not vector
    if asked is None:
        asked = f"double ({'double' if one else 'int, double *'}{', void *' if pointers else ''})"
    chosen = " ".join(asked.replace("*", " *").replace("(", " (").split()).replace("( ", "(").replace(" )", ")")
    chosen = chosen.replace("npy_intp", "intptr_t").replace(" ,", ",")
    if chosen not in PARAMETERS:
        raise ArgumentValueError(f"{asked!r} is no signature of a callback", instead=" or ".join(PARAMETERS))
    if PARAMETERS[chosen][0] == "double x" and not one:
        instead = chosen.replace("double (double", "double (int, double *")
        raise ArgumentValueError(f"{name}() takes {leading} numbers, and {chosen!r} passes one", instead=instead)
    if pointers and "void *" not in chosen:
        raise ArgumentValueError(
            f"{name}() has arguments or constants beside its numbers, and {chosen!r} passes no user data",
            instead=f"{chosen[:-1]}, void *)",
        )
    return chosen

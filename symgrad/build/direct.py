"""The shortest call: arguments that C can read as they are, each checked exactly."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.build.call import PLANS, ctype, failed, memory, planner
from symgrad.build.objects import WORKSPACE, depends, objects_call
from symgrad.build.results import SMALLEST as LARGE
from symgrad.build.results import results as results_of
from symgrad.build.threads import changes, threads
from symgrad.ir.shapes import is_static
from symgrad.render.source import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.build.interface import Interface, Port
    from symgrad.build.load import Library
    from symgrad.options import Options

    Flatten = Callable[[tuple[Any, ...]], Sequence[Any] | None]
    Takes = Callable[[Sequence[Any]], dict[str, int] | None]
    Known = tuple[list[Any], Any, int, Any]

MISS: Any = object()
"""What a direct call answers when its arguments are not what it was made for."""

CONTIGUOUS_AND_ALIGNED = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1


def direct(
    interface: Interface, library: Library, options: Options, numbers: Sequence[type | None], flatten: Flatten | None,
    finish: Callable[[Any], Any], takes: Takes | None = None,
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the shortest call of a compiled function.

    Args:
        interface: what is passed, and what comes back.
        library: the loaded function.
        options: how many threads.
        numbers: which arguments are numbers, and of what type.
        flatten: gives the arrays and numbers in the arguments, None for another structure; else they are those.
        finish: makes what is returned of the new arrays.
        takes: gives the open extents by the shapes of the arguments that have some, None for shapes that do not fit.

    Returns:
        A function of a tuple of arguments: it returns `MISS`, and has called nothing, when one is not as it should be.
    """
    ready = _readied(interface, library, options, takes or _nothing_open)
    same = _constant(ready(())) if takes is None and not interface.threaded else None
    checks, wanted, places = interface.checks, _wanted(interface, library, numbers), open_places(interface.inputs)
    from_buffer, count = library.ffi.from_buffer, len(interface.inputs)
    dtypes, kinds = [a.dtype for a in interface.outputs], _kinds(library, interface.outputs)

    def call(args: tuple[Any, ...]) -> Any:
        leaves = args if flatten is None else flatten(args)
        if leaves is None or len(leaves) != count:
            return MISS
        pointers = []
        for leaf, (of, dtype, shape, kind) in zip(leaves, wanted):  # noqa: B905 - equal lengths, and strict costs time
            if type(leaf) is not of:
                number = _number(leaf, kind)
                if number is MISS:
                    return MISS
                pointers.append(number)
            elif (
                leaf.dtype is not dtype or (leaf.shape != shape and shape is not None)
                or leaf.flags.num & CONTIGUOUS_AND_ALIGNED != CONTIGUOUS_AND_ALIGNED
            ):
                return MISS
            else:
                pointers.append(from_buffer(kind, leaf))
        if (found := same or ready(tuple([leaves[k].shape for k in places]))) is None:
            return MISS
        results = [*map(found.empty, found.shapes, dtypes)]
        code = found.function(*pointers, *map(from_buffer, kinds, results), *found.rest)
        if code:
            raise failed(checks[code - 1], interface.inputs, leaves)
        return finish(results)

    return call if any(numbers) else _by_address(interface, library, flatten, finish, call, ready)


def _kinds(library: Library, ports: Sequence[Port]) -> list[Any]:
    """List the C types of arrays."""
    return [library.ffi.typeof(f"{ctype(a)}[]") for a in ports]


class Ready(NamedTuple):
    """A call at some extents: the function, the results' shapes, what follows those, what makes the results.

    And whether that is always so; the number of threads; whether the call is short, and scratch fits on the stack.
    """

    function: Callable[..., int]
    shapes: list[Any]
    rest: tuple[Any, ...]
    empty: Any
    constant: bool
    threads: int
    short: bool


def _constant(found: Ready | None) -> Ready | None:
    """Return what is ready for good."""
    return found if found is not None and found.constant else None


def open_places(inputs: Sequence[Port]) -> list[int]:
    """List the inputs that have open extents."""
    return [k for k, port in enumerate(inputs) if not is_static(port.shape)]


def _nothing_open(shapes: Sequence[Any]) -> dict[str, int]:
    """Find no open extents."""
    assert not shapes  # noqa: S101 - those of the arguments that have some
    return {}


def _readied(
    interface: Interface, library: Library, options: Options, takes: Takes,
) -> Callable[[tuple[Any, ...]], Ready | None]:
    """Make what readies a call for the shapes of the arguments with open extents, once where it is always the same."""
    from_buffer, chars, threaded = library.ffi.from_buffer, library.ffi.typeof("char[]"), interface.threaded
    constants = tuple([from_buffer(f"{ctype(d)}[]", d) for d in interface.data])
    plan, nothing, workspace = planner(interface, library), library.ffi.NULL, memory(options)
    known: dict[tuple[int, tuple[Any, ...]], Ready | dict[str, int]] = {}
    held: dict[tuple[Any, ...], Any] = {}
    dtypes, static = [a.dtype for a in interface.outputs], not open_places(interface.inputs)

    def ready(shapes: tuple[Any, ...]) -> Ready | None:
        key = (threads(options) if threaded else 1), shapes
        found = known.get(key)
        if isinstance(found, Ready):
            return found
        if found is None:
            found = takes(shapes)
            if found is None:
                return None
            if len(known) > PLANS:
                known.clear()
            known[key] = found
        planned = plan(found, key[0])
        size, before = planned.workspace, (*constants, *planned.passed)
        scratch = from_buffer(chars, workspace(size)) if size else nothing
        large = any(prod(s) * d.itemsize >= LARGE for s, d in zip(planned.shapes, dtypes, strict=True))
        empty = held.get(shapes, np.empty)
        if large and shapes not in held:  # of the last size alone: memory for all that come would be missed elsewhere
            held.clear()
            empty = held[shapes] = results_of(planned.shapes, dtypes)
        constant = size == 0 and (static or not large)
        short = size <= (0 if options.verifies else WORKSPACE) and planned.function is library.function
        rest = (*before, scratch, *planned.last)
        made = Ready(planned.function, planned.shapes, rest, empty, constant, key[0], short)
        if made.constant:
            known[key] = made
        return made

    return ready


def _number(leaf: Any, kind: Any) -> Any:
    """Pass a number as a tuple, which cffi copies to where C can read it; `MISS` if it is not the one to come."""
    if type(leaf) is not kind:
        return MISS
    return (leaf,) if kind is not int or SMALLEST <= leaf <= LARGEST else MISS


def _wanted(
    interface: Interface, library: Library, numbers: Sequence[type | None],
) -> list[tuple[Any, np.dtype[Any], Any, Any]]:
    """Say what each argument must be: for an array dtype, shape, and C's type; for a number its type."""
    typeof = library.ffi.typeof
    return [
        (None, a.dtype, None, number) if number else
        (np.ndarray, a.dtype, a.shape if is_static(a.shape) else None, typeof(f"{ctype(a)}[]"))
        for a, number in zip(interface.inputs, numbers, strict=True)
    ]


def value_and_array(results: Sequence[Any]) -> tuple[Any, Any]:
    """Give a number and an array: how a loss and its gradient are returned."""
    return results[0][()], results[1]


def _by_address(
    interface: Interface, library: Library, flatten: Flatten | None, finish: Callable[[Any], Any],
    otherwise: Callable[[tuple[Any, ...]], Any], ready: Callable[[tuple[Any, ...]], Ready | None],
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the call whose checks are compiled, where there is one."""
    found = objects_call(interface, library)
    if found is None:
        return otherwise
    if depends(interface):
        return _learnt_by_address(*found, interface, flatten, finish, otherwise, ready)
    function, checks, known = found[0], interface.checks, found[1](1)
    shapes, dtypes = [a.shape for a in interface.outputs], [a.dtype for a in interface.outputs]
    empty = results_of(shapes, dtypes)

    def call(args: tuple[Any, ...]) -> Any:
        leaves = args if flatten is None else tuple(flatten(args) or ())
        results = [*map(empty, shapes, dtypes)]
        code = function(id(leaves), id(results), known)
        if code:
            if code == OTHER:
                return MISS
            raise failed(checks[code - 1], interface.inputs, leaves)
        return finish(results)

    return call


def _learnt_by_address(
    function: Callable[..., int], block: Callable[..., Any], interface: Interface, flatten: Flatten | None,
    finish: Callable[[Any], Any], otherwise: Callable[[tuple[Any, ...]], Any],
    ready: Callable[[tuple[Any, ...]], Ready | None],
) -> Callable[[tuple[Any, ...]], Any]:
    """Make the call of arrays with open extents, or in threads, whose checks are compiled.

    The size of the last call is tried first; C tells whether it is this one's, by less time than to look it up takes.
    """
    checks, dtypes = interface.checks, [a.dtype for a in interface.outputs]
    key_of = _key(interface.inputs)
    known: dict[Any, Known] = {}
    learn = _learner(known, block, otherwise, ready, interface)
    last = [NOTHING]

    def run(found: Known, leaves: tuple[Any, ...]) -> Any:
        shapes, block, _, empty = found
        results = [*map(empty, shapes, dtypes)]
        code = function(id(leaves), id(results), block)
        if code:
            if code == OTHER:
                return MISS
            raise failed(checks[code - 1], interface.inputs, leaves)
        return finish(results)

    def call(args: tuple[Any, ...]) -> Any:
        leaves = args if flatten is None else tuple(flatten(args) or ())
        found = last[0]
        if found[2] == changes[0] and (result := run(found, leaves)) is not MISS:
            return result
        try:
            key = key_of(leaves)
        except (IndexError, AttributeError, TypeError):  # other arguments than arrays, or fewer
            return MISS
        found = known.get(key, NOTHING)
        if found[2] != changes[0]:
            return learn(args, leaves, key)
        last[0] = found
        return run(found, leaves)

    return call


def _learner(
    known: dict[Any, Known], block: Callable[..., Any], otherwise: Callable[[tuple[Any, ...]], Any],
    ready: Callable[[tuple[Any, ...]], Ready | None], interface: Interface,
) -> Callable[[tuple[Any, ...], tuple[Any, ...], Any], Any]:
    """Make the first call of a size, which keeps what the next ones need.

    Those of much workspace, and long ones go `otherwise` always. Of large results the last size alone has memory kept.
    """
    large: list[Any] = []
    never: set[tuple[Any, int]] = set()
    places, first, count = open_places(interface.inputs), len(interface.data), len(interface.dims)

    def learn(args: tuple[Any, ...], leaves: tuple[Any, ...], key: Any) -> Any:
        turn = changes[0]
        result = otherwise(args)
        if result is not MISS and (key, turn) not in never:
            found = ready(tuple([leaves[k].shape for k in places]))
            if found is None or not found.short:
                if len(never) > PLANS:
                    never.clear()
                never.add((key, turn))
            else:
                if len(known) > PLANS:
                    known.clear()
                if found.empty is not np.empty:
                    known.pop(large.pop() if large else None, None)
                    large.append(key)
                known[key] = found.shapes, block(found.threads, *found.rest[first : first + count]), turn, found.empty
        return result

    return learn


NOTHING: Known = ([], None, -1, None)
"""What is known of a size that was not called with yet."""


def _key(inputs: Sequence[Port]) -> Callable[[tuple[Any, ...]], Any]:
    """Make what tells sizes apart: the shapes that have all open extents; nothing where there are none."""
    chosen = _witnesses(inputs)
    if not chosen:
        return lambda leaves: None  # noqa: ARG005 - of no sizes
    return lambda leaves: tuple([leaves[k].shape for k in chosen])


def _witnesses(inputs: Sequence[Port]) -> list[int]:
    """List inputs, few, whose shapes have every open extent."""
    names: list[set[Any]] = [{d for d in port.shape if getattr(d, "is_Symbol", False)} for port in inputs]
    missing, chosen = set[Any]().union(*names), []
    while missing:
        place = max(range(len(names)), key=lambda k: len(names[k] & missing))
        chosen.append(place)
        missing -= names[place]
    return chosen

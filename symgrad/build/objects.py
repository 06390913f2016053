"""Calls with the addresses of NumPy's arrays, where memory has them as the generated C reads them."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.dims import dim_to_json, evaluated
from symgrad.render.source import called_with_objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.build.interface import Interface
    from symgrad.build.load import Library
    from symgrad.render.source import Source

WORKSPACE = 1 << 14
"""Bytes of workspace that the call may put on the stack."""

WORD = 8
"""Bytes of a pointer: places in an array object are counted in them."""

TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = 1, 2, 3, 4, 7, 8
COUNT, ITEMS = 2, 3

_EXTENT = re.compile(r"(\w+)( \+ \d+)?")
"""An extent that is looked at: a name, or one and a number."""


def is_simple(interface: Interface) -> bool:
    """Tell a function of arrays that lie row by row, and of little workspace.

    With open extents, or with threads, that depends on the call.
    """
    if any(p.fortran for p in (*interface.inputs, *interface.outputs)):
        return False
    extents = [_EXTENT.fullmatch(str(d)) for port in interface.inputs for d in port.shape if type(d) is not int]
    if not all(found is not None and found[1] in interface.dims for found in extents):
        return False
    return depends(interface) or _workspace(interface) <= WORKSPACE


def depends(interface: Interface) -> bool:
    """Tell where it depends on the call how much workspace there is, and whether it is a long one."""
    return bool(interface.dims) or interface.threaded or interface.polled


def _workspace(interface: Interface) -> int:
    """Return the bytes of workspace on the stack; where that depends on the call, the most there may be of it."""
    if depends(interface):
        return 0 if interface.workspace == 0 else WORKSPACE
    return evaluated(interface.workspace, {"threads": 1})


def called(source: Source, interface: Interface) -> Source:
    """Let a simple function be called with addresses of arrays."""
    if not is_simple(interface) or not is_readable():
        return source
    from symgrad.render.objects import with_call  # with Jinja, which a process does without that compiles nothing

    inputs, outputs = [[p.shape for p in ports] for ports in (interface.inputs, interface.outputs)]
    return with_call(
        source, inputs, outputs, [d.shape for d in interface.data], interface.dims, _workspace(interface),
        polled=interface.polled,
    )


def objects_call(interface: Interface, library: Library) -> tuple[Callable[..., int], Callable[..., Any]] | None:
    """Find the call that takes addresses of arrays; None where there is none.

    Returns:
        The function, and what makes its last argument of a number of threads and the open extents: what it compares
        types with, and more.
    """
    if not is_simple(interface) or not is_readable():
        return None
    from symgrad.build.load import ffi

    many = library.function is not library.entry
    kind = ffi.typeof(f"int32_t(*)(intptr_t, intptr_t, intptr_t *{', void **' * many})")
    try:
        function = library.keepalive.load_function(kind, called_with_objects(interface.entry))  # type: ignore[attr-defined]
    except AttributeError:
        return None
    known = [id(np.ndarray), *[id(port.dtype) for port in interface.inputs], *[d.ctypes.data for d in interface.data]]
    if not many:
        return function, lambda threads, *extents: ffi.new("intptr_t[]", [*known, threads, *extents])
    count = len(interface.inputs) + len(interface.outputs) + len(interface.data)
    place, pointers = ffi.new_allocator(should_clear_after_alloc=False), ffi.typeof(f"void *[{count}]")

    def block(threads: int, *extents: int) -> Any:
        sizes = dict(zip(interface.dims, extents, strict=True))
        shapes = [evaluated(dim_to_json(d), sizes) for port in interface.inputs for d in port.shape]
        return ffi.new("intptr_t[]", [*known, threads, *extents, *shapes])

    return lambda arguments, results, known: function(arguments, results, known, place(pointers)), block


@cache
def is_readable() -> bool:
    """Tell whether this Python and this NumPy hold arrays in memory as the generated C reads them."""
    from symgrad.build.load import ffi

    if sys.implementation.name != "cpython" or not sys.maxsize > 1 << 32:
        return False
    items = (is_readable, 1.5, "x")
    words = ffi.cast("intptr_t *", id(items))
    if words[TYPE] != id(tuple) or words[COUNT] != 3 or [words[ITEMS + k] for k in range(3)] != [*map(id, items)]:
        return False
    words = ffi.cast("intptr_t *", id(listed := [*items]))
    if words[TYPE] != id(list) or words[COUNT] != 3 or words[ITEMS] == id(items):
        return False
    held = ffi.cast("intptr_t *", words[ITEMS])
    if [held[k] for k in range(3)] != [*map(id, listed)]:
        return False
    samples: list[Any] = [np.zeros(()), np.arange(6.0).reshape(2, 3), np.arange(8, dtype=np.int32)[::2]]
    return all(_is_held(x) for x in (*samples, np.asfortranarray(np.ones((4, 5), np.float32))))


def _is_held(x: np.ndarray[Any, Any]) -> bool:
    from symgrad.build.load import ffi

    words = ffi.cast("intptr_t *", id(x))
    if words[TYPE] != id(np.ndarray) or words[DATA] != x.__array_interface__["data"][0] or words[DTYPE] != id(x.dtype):
        return False
    numbers = [ffi.cast("int32_t *", id(x) + WORD * place)[0] for place in (RANK, FLAGS)]
    if numbers[0] != x.ndim or numbers[1] & 0xFFFF != x.flags.num & 0xFFFF:
        return False
    shape = ffi.cast("intptr_t *", words[SHAPE])
    return all(shape[d] == dim for d, dim in enumerate(x.shape))

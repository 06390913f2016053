"""Calls with the addresses of NumPy's arrays, where memory has them as the generated C reads them."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.build.load import ffi
from symgrad.build.threads import changes
from symgrad.ir.saved.dims import evaluated
from symgrad.render.source import called_with_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.build.call.interface import Interface
    from symgrad.build.load import Library
    from symgrad.render.source import Source

WORKSPACE = 1 << 14
"""Bytes of workspace that the call may put on the stack."""

WORD = 8
"""Bytes of a pointer: places in an array object are counted in them."""

TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = 1, 2, 3, 4, 7, 8
COUNT, ITEMS = 2, 3

STILL = np.zeros(1, np.intp)
"""A counter that never moves."""


def _workspace(interface: Interface) -> int | None:
    """Return the most bytes of workspace that C puts on the stack; None for a function that is not called by objects.

    Its arrays lie row by row, and where the workspace does not depend on the call, there is little of it.
    """
    if any(port.fortran for port in (*interface.inputs, *interface.outputs)) or not is_readable():
        return None
    if interface.dims or interface.threaded or interface.polled:
        return 0 if interface.workspace == 0 else WORKSPACE
    size = evaluated(interface.workspace, {"threads": 1})
    return size if size <= WORKSPACE else None


def with_checker(source: Source, interface: Interface) -> Source:
    """Let a function be called with addresses of arrays, where that can be."""
    workspace = _workspace(interface)
    if workspace is None:
        return source
    from symgrad.render.objects import with_call  # with Jinja, which a process does without that compiles nothing

    ranks, outputs, data = [len(p.shape) for p in interface.inputs], len(interface.outputs), len(interface.data)
    return with_call(source, ranks, outputs, data, len(interface.dims), workspace, polled=interface.polled)


class Checker:
    """The call whose checks are compiled: ``check(id(arguments), id(results), words)``, see templates/objects.c.jinja.

    Attributes:
        nothing: the words of a call that no arguments fit.
    """

    def __init__(self, interface: Interface, function: Any, *, many: bool) -> None:
        """Take the function of C; one of many arrays is given memory for their addresses at each call."""
        self._counter = changes if interface.threaded else STILL
        self._known = [*[id(port.dtype) for port in interface.inputs], *[d.ctypes.data for d in interface.data]]
        self.nothing = ffi.new("intptr_t[]", [STILL.ctypes.data, -1])
        self.check = function
        if many:
            count = len(interface.inputs) + len(interface.outputs) + len(interface.data)
            place, addresses = ffi.new_allocator(should_clear_after_alloc=False), ffi.typeof(f"void *[{count}]")
            self.check = lambda arguments, results, words: function(arguments, results, words, place(addresses))

    def words(self, change: int, numbers: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Any:
        """Return what arguments of some shapes are compared with.

        `change` is how often the number of threads has changed; `numbers` are that of threads, and the open extents.
        """
        first = [self._counter.ctypes.data, change, id(np.ndarray), *numbers]
        return ffi.new("intptr_t[]", [*first, *self._known, *[d for shape in shapes for d in shape]])


def checker(interface: Interface, library: Library) -> Checker | None:
    """Find the call that takes addresses of arrays; None where there is none."""
    if _workspace(interface) is None:
        return None
    many = library.function is not library.entry
    kind = ffi.typeof(f"int32_t(*)(intptr_t, intptr_t, intptr_t *{', void **' * many})")
    try:
        function = library.handle.load_function(kind, called_with_objects(interface.entry))
    except AttributeError:
        return None
    return Checker(interface, function, many=many)


@cache
def is_readable() -> bool:
    """Whether this Python and this NumPy hold arrays in memory as the generated C reads them."""
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
    for x in (*samples, np.asfortranarray(np.ones((4, 5), np.float32))):
        words = ffi.cast("intptr_t *", id(x))
        known = {TYPE: id(np.ndarray), DATA: x.__array_interface__["data"][0], DTYPE: id(x.dtype)}
        rank, flags = [ffi.cast("int32_t *", id(x) + WORD * place)[0] for place in (RANK, FLAGS)]
        if any(words[at] != word for at, word in known.items()) or rank != x.ndim or (flags ^ x.flags.num) & 0xFFFF:
            return False
        shape = ffi.cast("intptr_t *", words[SHAPE])
        if any(shape[d] != dim for d, dim in enumerate(x.shape)):
            return False
    return True

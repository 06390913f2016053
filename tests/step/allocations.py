"""Which memory NumPy takes for its arrays: each call, those for what is freed at once among them (NEP 49)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SET_HANDLER = 304
"""The place of PyDataMem_SetHandler in NumPy's table for C (numpy/__multiarray_api.h)."""

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_ALLOCATORS: dict[str, tuple[Any, ...]] = {  # numpy/ndarraytypes.h: what each takes behind the context
    "malloc": (_POINTER, _SIZE), "calloc": (_POINTER, _SIZE, _SIZE), "realloc": (_POINTER, _POINTER, _SIZE),
    "free": (None, _POINTER, _SIZE),
}
_TYPES = {name: ctypes.CFUNCTYPE(result, _POINTER, *given) for name, (result, *given) in _ALLOCATORS.items()}


class _Handler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", _POINTER), *_TYPES.items(),
    )


_kept: list[_Handler] = []  # arrays that are still there are freed by what made them


@contextmanager
def counted() -> Iterator[list[str]]:
    """List the calls that take memory, by the names of C's functions, until the block ends.

    >>> with counted() as calls:
    ...     _ = np.zeros(3) + 1.0
    >>> "calloc" in calls
    True
    """
    calls: list[str] = []

    def counting(name: str) -> object:
        result, *given = _ALLOCATORS[name]
        of_c = ctypes.CFUNCTYPE(result, *given[: 1 if name == "free" else None])((name, ctypes.CDLL(None)))

        def call(_: object, *args: object) -> object:
            if name == "free":
                return of_c(args[0])
            calls.append(name)
            return of_c(*args)

        return _TYPES[name](call)

    handler = _Handler(b"counted", 1, None, *map(counting, _ALLOCATORS))
    _kept.append(handler)
    python = ctypes.pythonapi
    python.PyCapsule_GetPointer.restype, python.PyCapsule_New.restype = _POINTER, ctypes.py_object
    python.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
    python.PyCapsule_New.argtypes = _POINTER, ctypes.c_char_p, _POINTER
    numpys: Any = np
    capsule = numpys._core._multiarray_umath._ARRAY_API
    table = ctypes.cast(python.PyCapsule_GetPointer(capsule, None), ctypes.POINTER(_POINTER))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    before = set_handler(python.PyCapsule_New(ctypes.addressof(handler), b"mem_handler", None))
    try:
        yield calls
    finally:
        set_handler(before)

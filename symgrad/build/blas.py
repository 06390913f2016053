"""The BLAS and LAPACK of this process, for libraries that call them (`Options(blas=True)`): those that SciPy brings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from symgrad.errors import ToolchainError

NAMES = (("cython_blas", "gemm"), ("cython_blas", "trsm"), ("cython_lapack", "potrf"), ("cython_lapack", "getrf"))
"""What generated C calls, in the order in which it takes them; `d` or `s` stands before each."""

KINDS = {"": "d", "f": "s"}
"""The letters of double and single precision, by the suffix of the C's functions."""


@cache
def addresses(letter: str) -> list[int]:
    """Find the functions of one precision; they must take C's int."""
    from scipy.linalg import cython_blas, cython_lapack

    modules = {"cython_blas": cython_blas, "cython_lapack": cython_lapack}
    return [_capsule_address(modules[module].__pyx_capi__[letter + name], letter + name) for module, name in NAMES]


def _capsule_address(capsule: Any, name: str) -> int:
    signature, found = pointed(capsule)
    if ", int *" not in signature and "(int *" not in signature:
        raise ToolchainError(
            f"SciPy's {name} has the parameters {signature}, without C's int", instead="Options(blas=False)"
        )
    return found


def pointed(capsule: Any) -> tuple[str, int]:
    """Return the type and the address of a function that a module has for Cython."""
    kind, at = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    kind.restype, kind.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    at.restype, at.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    signature = kind(capsule)
    return signature.decode(), at(capsule, signature)


def provide(ffi: Any, load: Callable[[str], Any]) -> None:
    """Write the addresses into a library that calls them: `load` finds its functions, or raises AttributeError."""
    for suffix, letter in KINDS.items():
        try:
            take = load(f"sg_set_blas{suffix}")
        except AttributeError:
            continue
        take(ffi.new("void *[]", [ffi.cast("void *", address) for address in addresses(letter)]))

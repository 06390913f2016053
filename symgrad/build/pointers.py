"""Functions of SciPy's compiled code in this process, for libraries that call them: those of its modules for Cython.

The BLAS and LAPACK that SciPy brings (`Options(blas=True)`), and functions of scipy.special.
"""

from __future__ import annotations

import ctypes
from functools import cache
from struct import calcsize
from typing import Any

from symgrad.errors import ToolchainError

NAMES = (("cython_blas", "gemm"), ("cython_blas", "trsm"), ("cython_lapack", "potrf"), ("cython_lapack", "getrf"))
"""What generated C calls of BLAS and LAPACK, in the order in which it takes them; `d` or `s` stands before each."""

KINDS = {"": "d", "f": "s"}
"""The letters of double and single precision, by the suffix of the C's functions."""

_KEYS = ("", "__pyx_fuse_0", "__pyx_fuse_1", "__pyx_fuse_2", "__pyx_fuse_0_1")
"""What stands before a name of scipy.special where a function has several types."""


@cache
def addresses(letter: str) -> list[int]:
    """Find the functions of BLAS and LAPACK of one precision; they must take C's int."""
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


@cache
def address(wanted: str) -> int:
    """Find a function by its name and type: ``jv:double (double, double, int __pyx_skip_dispatch)``."""
    from scipy.special import cython_special

    name, _, kind = wanted.partition(":")
    known = cython_special.__pyx_capi__
    same = {kind, kind.replace("Py_ssize_t", "long") if calcsize("l") == calcsize("n") else kind}  # long in 1.13
    for key in _KEYS:
        capsule = known.get(key + name)
        if capsule is not None and pointed(capsule)[0] in same:
            return pointed(capsule)[1]
    raise ToolchainError(
        f"this version of SciPy has no scipy.special.cython_special.{name} of the type {kind}",
        instead="Options(compiler='none'), or a newer SciPy",
    )


def pointed(capsule: Any) -> tuple[str, int]:
    """Return the type and the address of a function that a module has for Cython."""
    kind, at = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    kind.restype, kind.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    at.restype, at.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    signature = kind(capsule)
    return signature.decode(), at(capsule, signature)


def provide(ffi: Any, handle: Any) -> None:
    """Write the addresses into a library that takes some: it has functions for that."""

    def found(name: str, kind: str = "void(*)(void **)") -> Any:
        try:
            return handle.load_function(ffi.typeof(kind), name)
        except AttributeError:
            return None

    takes = [(take, addresses(KINDS[suffix])) for suffix in KINDS if (take := found(f"sg_set_blas{suffix}"))]
    if wants := found("sg_scipy_wants", "const char *(*)(void)"):
        named = ffi.string(wants()).decode().splitlines()
        takes.append((found("sg_set_scipy"), [address(wanted) for wanted in named]))
    for take, places in takes:
        take(ffi.new("void *[]", [ffi.cast("void *", place) for place in places]))

"""The functions of scipy.special in this process, for libraries that call them: those of its module for Cython."""

from __future__ import annotations

from functools import cache
from struct import calcsize
from typing import Any

from symgrad.build.blas import pointed
from symgrad.errors import ToolchainError

_KEYS = ("", "__pyx_fuse_0", "__pyx_fuse_1", "__pyx_fuse_2", "__pyx_fuse_0_1")
"""What stands before a name where a function has several types."""


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


def provide(ffi: Any, handle: Any) -> None:
    """Write the addresses into a library that asks for some."""
    try:
        wants = handle.load_function(ffi.typeof("const char *(*)(void)"), "sg_scipy_wants")
    except AttributeError:
        return
    found = [address(wanted) for wanted in ffi.string(wants()).decode().splitlines()]
    take = handle.load_function(ffi.typeof("void(*)(void **)"), "sg_set_scipy")
    take(ffi.new("void *[]", [ffi.cast("void *", place) for place in found]))

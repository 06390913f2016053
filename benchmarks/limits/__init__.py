"""Hand-written C that does what a workload does: what a good engineer gets with this compiler and these flags."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi
import numpy as np

import symgrad as sg
from symgrad.build.toolchain import find as toolchain

FURTHER = ("-ffp-contract=fast",)
"""What the hand-written C may beyond the generated: multiply and add in one rounding wherever that is faster."""

PROTOTYPES = {
    "rosenbrock": "const double *, double *, double *, int64_t, int32_t",
    "logistic": "const double *, const double *, const double *, double *, double *, int64_t, int64_t, int32_t",
    "black_scholes": "const double *, const double *, double *, double *, double *, int64_t, int32_t",
    "tanh_loss": "const double *, const double *, const double *, const double *, double *, double *, double *, "
                 "int64_t, int32_t",
    "n_body": "const double *, const double *, double *, double *, double *, int64_t, int32_t",
    "softmax": "const double *, const double *, const double *, const int64_t *, double *, double *, double *, "
               "int64_t, int64_t, int32_t",
    "product": "const double *, const double *, double *, int64_t, int64_t, int64_t, int32_t",
    "gmm": "const double *, const double *, const double *, const double *, const double *, double *, double *, "
           "double *, double *, double *, double *, int64_t, int64_t, int64_t, int32_t",
}

Shapes = list[tuple[int, ...]]


def plan(name: str, arguments: tuple[Any, ...]) -> tuple[Shapes, Shapes, tuple[int, ...]]:
    """Return the shapes of the results and of the scratch, and the extents to pass."""
    shapes = [a.shape for a in arguments]
    if name in {"rosenbrock", "tanh_loss", "black_scholes"}:
        gradients = {"rosenbrock": shapes, "tanh_loss": shapes[:2], "black_scholes": shapes}[name]
        return [(), *gradients], [], shapes[-1]
    if name == "logistic":
        return [(), shapes[0]], [], shapes[1]
    if name == "n_body":
        return [(), shapes[0]], [(3, shapes[0][0])], shapes[0][:1]
    if name == "softmax":
        return [(), shapes[0], shapes[1]], [], shapes[2]
    if name == "product":
        return [(shapes[0][0], shapes[1][1])], [], (*shapes[0], shapes[1][1])
    n, d = shapes[4]
    k = shapes[0][0]
    return [(), *shapes[:4]], [((n + 15) // 16 * 16 * k + 8,)], (n, k, d)


@functools.cache
def compiled(name: str) -> tuple[Any, Any]:
    """Compile and load one C file with the flags that generated C has."""
    found = toolchain.find(sg.Options())
    if found is None:
        raise RuntimeError("no C compiler")
    folder = Path(tempfile.mkdtemp(prefix="symgrad-limits-"))
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(
        [*found.argv, *found.flags, *FURTHER, str(source), "-o", str(library), *found.libraries], check=True,
    )
    ffi = cffi.FFI()
    ffi.cdef(f"void {name}({PROTOTYPES[name]});")
    return ffi, getattr(ffi.dlopen(str(library)), name)


def make(name: str, arguments: tuple[Any, ...], threads: int) -> Callable[[], Any]:
    """Return a closure as a person would write it: new results, one call of the C, no check of anything."""
    ffi, function = compiled(name)
    shapes, scratch, extents = plan(name, arguments)
    from_buffer, empty = ffi.from_buffer, np.empty
    kind = ffi.typeof("double[]")
    inputs = [from_buffer("int64_t[]" if a.dtype.kind == "i" else kind, a) for a in arguments]
    aside = [from_buffer(kind, _aligned(shape)) for shape in scratch]

    def call() -> Any:
        results = [empty(shape) for shape in shapes]
        function(*inputs, *[from_buffer(kind, r) for r in results], *aside, *extents, threads)
        return results

    return call


def _aligned(shape: tuple[int, ...]) -> Any:
    """Make an array that starts at a multiple of 64 bytes."""
    size = int(np.prod(shape))
    room = np.empty(size + 8)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + size]

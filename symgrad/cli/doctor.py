"""``symgrad doctor``: what this machine has, for people and for reports of problems."""

from __future__ import annotations

import os
import platform
import shlex
import warnings
from importlib import metadata
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.build import threads
from symgrad.build.cache import store as cache
from symgrad.build.toolchain import find as toolchain
from symgrad.build.toolchain.capabilities import Capabilities

Rows = list[list[str]]

PACKAGES = ("cffi", "click", "jinja2", "numpy", "optree", "platformdirs", "rich", "scipy", "sympy")
"""What symgrad needs at run time, as pyproject.toml has it."""


def findings() -> Rows:
    """List everything; a machine without a compiler is a finding too."""
    import scipy

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = toolchain.find(sg.Options())
    slower = "none: programs run by NumPy, correct but slower"
    compiler = [["compiler", slower if found is None else shlex.join(found.argv)]]
    if found is not None:
        target = found.target
        plain = sorted(name for name in target.simd_math if not (name.endswith("f") and name[:-1] in target.simd_math))
        compiler += [
            ["compiler version", found.version],
            ["flags", " ".join([*found.flags, *found.libraries])],
            ["OpenMP", "yes" if target.openmp else "no: calls are serial"],
            ["SIMD functions", f"{len(target.simd_math)}: {', '.join(plain)}" if plain else "none"],
            ["fused multiply-add", "yes" if target.fma else "no"],
            ["vector width", _vector_width(found.known)],
            ["permutations", "right" if found.known.permutes else "wrong, of eight doubles: kept out of its way"],
        ]
    return [
        ["symgrad", sg.__version__],
        ["Python", f"{platform.python_version()} ({platform.python_implementation()})"],
        ["system", f"{platform.system()} {platform.release()} {platform.machine()}"],
        ["processor", toolchain.features()],
        ["threads", str(threads.threads(sg.Options()))],
        *compiler, *[["warning", str(w.message)] for w in said],
        ["BLAS of NumPy", _blas_of(np)], ["BLAS of SciPy", _blas_of(scipy)], *cached(),
        *[[f"package {name}", _version(name)] for name in PACKAGES],
    ]


def _vector_width(known: Capabilities) -> str:
    """Say which vector width is used, and why.

    >>> asked = Capabilities("cc 1", True, 0, True, True, False, False, (), ns_256=9100, ns_512=6500)
    >>> _vector_width(asked)
    '512 bits: the loop that was timed took 9.1 us with vectors of 256 bits, 6.5 us with 512'
    """
    if not known.ns_256:
        return "the compiler's choice: there is one width"
    chosen = f"{known.vector_bits} bits" if known.vector_bits else "the compiler's choice"
    narrow, wide = known.ns_256 / 1e3, known.ns_512 / 1e3
    return f"{chosen}: the loop that was timed took {narrow:.1f} us with vectors of 256 bits, {wide:.1f} us with 512"


def _blas_of(package: Any) -> str:
    try:
        found = package.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    except (KeyError, TypeError):
        return "unknown"


def cached() -> Rows:
    """List the state of the cache."""
    state = cache.info()
    if state.problem is not None:
        use = f"not used: {state.problem}"
    elif not state.folder.exists():
        use = "not made yet"
    else:
        use = "writable" if os.access(state.folder, os.W_OK) else "read-only: what is there is used, nothing is added"
    return [
        ["cache", str(state.folder)],
        ["cache state", use],
        ["cache size", f"{bytes_shown(state.bytes)} of {bytes_shown(state.limit)}, {state.entries} libraries"],
    ]


def bytes_shown(count: int) -> str:
    """Print a number of bytes.

    >>> bytes_shown(512), bytes_shown(3 * 2**20)
    ('512 bytes', '3.0 MB')
    """
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"

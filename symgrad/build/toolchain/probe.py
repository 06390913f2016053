"""Ask a compiler what it can do, by compiling and loading two small libraries; seldom done, the answers are kept."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from symgrad.build import limits
from symgrad.build.load import ffi, open_library
from symgrad.build.toolchain import process
from symgrad.build.toolchain.capabilities import OPENMP, Capabilities
from symgrad.errors import ArgumentValueError
from symgrad.ops import math_functions

_VARIANT = re.compile(rb"_ZGV[a-zA-Z][MN][0-9x]+v+_([a-z0-9]+)\0")
_VECTOR_LIBRARY = "libmvec.so.1"
_SETS_FLOATING_POINT_MODE = b"set_fast_math"  # the constructor in crtfastmath.o
_ROUNDS, _REPEATS, _TURNS, _PAUSE = 10, 25, 8, 0.002


class _TooSlow(Exception):  # noqa: N818 - not an error yet: the compiler is passed over
    """The compiler ran longer than it may."""


def ask(argv: tuple[str, ...], further: tuple[str, ...]) -> Capabilities | None:
    """Find out what the compiler can do with the user's `further` flags; None if its libraries do not work here.

    Raises `ArgumentValueError` when it works without the user's flags.
    """
    folder = process.scratch_folder()
    try:
        known = _basics(argv, further, folder)
        if known is not None:
            return _vector_math(argv, further, known, folder)
        if further and _basics(argv, (), folder) is not None:
            raise ArgumentValueError(
                f"with flags={further!r} the C compiler {' '.join(argv)!r} makes no library that symgrad can load "
                "(flags such as -ffast-math, which change the floating-point mode of the whole process, are refused "
                "too)", instead="leave out the flags it does not take",
            )
    except _TooSlow:
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _bounded(argv: tuple[str, ...], folder: Path) -> process.Finished:
    finished = process.run(argv, folder, limits.compile_seconds(), limits.compile_bytes())
    if finished.status is None:
        raise _TooSlow
    return finished


def _basics(argv: tuple[str, ...], further: tuple[str, ...], folder: Path) -> Capabilities | None:
    """Compile, load and call a small function with the most flags that work."""
    told = _bounded((*argv, "--version"), folder)
    version = told.output[:4000] if told.status == 0 else ""
    for native in (True, False):
        for openmp in range(len(OPENMP)):
            known = Capabilities(
                version=version, native=native, openmp=openmp, fma=False, permutes=True, veclib=False, mvec=False,
                simd_math=(), ns_256=0, ns_512=0,
            )
            library = _compile_probe(argv, known, further, folder, "probe.c")
            answer = 0 if library is None else _answer_of(library)
            if answer:
                return replace(known, fma=bool(answer & 2), permutes=bool(answer & 8))
    return None


def _compile_probe(
    argv: tuple[str, ...], known: Capabilities, further: tuple[str, ...], folder: Path, c: str, *defines: str,
) -> Path | None:
    """Compile one of the C files beside this module; None when that fails."""
    # A path not used before: the loader gives the old library for a path it knows.
    library = folder / f"{time.monotonic_ns()}.so"
    flags = ["-O2" if flag == "-O3" and defines else flag for flag in known.flags(further)]
    source = Path(__file__).with_name(c)
    finished = _bounded((*argv, *flags, *defines, str(source), "-o", str(library), *known.libraries(further)), folder)
    return library if finished.status == 0 and library.is_file() else None


def _answer_of(library: Path) -> int:
    """Load the small library and call it; 0 when anything about it is wrong."""
    if _SETS_FLOATING_POINT_MODE in library.read_bytes():
        return 0
    try:
        handle, _ = open_library(library)
        function = handle.load_function(ffi.typeof("int32_t(*)(double *, double *, int64_t, int32_t)"), "symgrad_probe")
    except (OSError, AttributeError):
        return 0
    total = ffi.new("double *")
    # One thread: a parallel region here would break the children that the user's program forks.
    answer = int(function(ffi.new("double[]", [1.0, 2.0, 4.0]), total, 3, 1))
    least = sys.float_info.min
    return answer if total[0] == 7.0 and least / 2 > 0.0 else 0  # 1 + 2 + 4; subnormals must live


def _vector_math(argv: tuple[str, ...], further: tuple[str, ...], known: Capabilities, folder: Path) -> Capabilities:
    """Find the functions with vector variants and the vector width that runs them fastest."""
    if not OPENMP[known.openmp]:
        return known
    for veclib in (True, False) if "clang" in known.version else (False,):
        for mvec in (False, True):
            tried = replace(known, veclib=veclib, mvec=mvec)
            for names in (tuple(math_functions()), _offered()):
                kinds = [(*math_functions()[name], name) for name in names]
                macros = [f"{'BINARY' if arity == 2 else 'UNARY'}({kind}, {name})" for kind, arity, name in kinds]
                defines = f"-DFUNCTIONS={' '.join(macros)}", "-DTIMED" if "exp" in names else "-DUNTIMED"
                library = _compile_probe(argv, tried, further, folder, "probe_math.c", *defines) if names else None
                handle = None if library is None else _open_or_none(library)
                if library is not None and handle is not None:
                    called = {name.decode() for name in _VARIANT.findall(library.read_bytes())}
                    found = tuple(name for name in math_functions() if name in called)
                    if not found:
                        return known
                    narrow, wide = _time_widths(handle)
                    return replace(tried, simd_math=found, ns_256=narrow, ns_512=wide)
    return known


def _open_or_none(library: Path) -> Any:
    try:
        return open_library(library)[0]
    except OSError:
        return None  # the C library has no vector part, or not a variant that was called


def _offered() -> tuple[str, ...]:
    """List the functions that this C library's vector part has, by the names of their variants for x86 and Arm."""
    handle = _open_or_none(Path(_VECTOR_LIBRARY))

    def has(name: str) -> bool:
        kind, arity = math_functions()[name]
        lanes = (2, 4, 8) if kind == "double" else (4, 8, 16)
        for isa, size in (("b", 0), ("d", 1), ("e", 2), ("n", 0)):
            with contextlib.suppress(AttributeError):
                symbol = f"_ZGV{isa}N{lanes[size]}{'v' * arity}_{name}"
                handle.load_function(ffi.typeof("void(*)(void)"), symbol)
                return True
        return False

    return () if handle is None else tuple(filter(has, math_functions()))


def _time_widths(handle: Any) -> tuple[int, int]:
    """Time one loop with vectors of 256 and of 512 bits, in nanoseconds; zeros where there is no choice.

    gcc prefers 256 bits on processors whose 512 are faster, and the other way round would be as possible: only the
    clock knows. The loop calls the vector library and multiplies and adds beside it. A turn takes half a millisecond,
    and what another program does to it may last as long: of 316 probes of one turn on a busy machine, seven took the
    slower width, and the cache keeps that. So there are several, with pauses.
    """
    kind = ffi.typeof("void(*)(double *, double *, int)")
    try:
        loops = [handle.load_function(kind, f"symgrad_width_{bits}") for bits in (256, 512)]
    except AttributeError:
        return 0, 0
    x, y = ffi.new("double[]", [i / 1024 for i in range(1024)]), ffi.new("double[]", 1024)
    times: list[list[int]] = [[], []]
    for turn in range(_TURNS * _REPEATS):  # the least of each: other work on the machine only adds
        if turn % _REPEATS == 0:
            time.sleep(_PAUSE)
        for loop, taken in zip(loops, times, strict=True):
            start = time.perf_counter_ns()
            loop(x, y, _ROUNDS)
            taken.append(time.perf_counter_ns() - start)
    return min(times[0]), min(times[1])

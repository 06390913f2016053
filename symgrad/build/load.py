"""A compiled library into this process: `build` a `Source`, get a `Library` with the function to call."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import _cffi_backend  # type: ignore[import-untyped]

from symgrad.build import pointers
from symgrad.build.threads import get_num_threads, short_waits
from symgrad.errors import ToolchainError, warn_once
from symgrad.options import Options
from symgrad.render.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from symgrad.build.toolchain.find import Toolchain

# cffi's compiled FFI, the one its out-of-line modules use: it parses C types itself. cffi.FFI() would
# load pycparser (30 ms) and parse each cdef in Python (0.6 ms), and its from_buffer takes twice as long.
ffi: Any = _cffi_backend.FFI()
_NOW = ffi.RTLD_NOW | getattr(ffi, "RTLD_LOCAL", 0) | getattr(os, "RTLD_NODELETE", 0)

_NUMBERS = {bool: "uint8_t *", int: "int64_t *"}
_POINTERS = ffi.typeof("void **")

# Libraries stay loaded: a cffi function does not keep its library, a thread may be inside of it, and OpenMP's
# threads outlive the call that made them, and this module: as Python ends they may still look for work in libgomp's
# code. They are small, and the loader gives a path it knows only once.
_loaded: dict[str, Any] = {}

# OpenMP's function that ends the threads of a team, once there is one: see `end_team`.
_pauses: list[Callable[[int], int]] = []

# Files of libraries loaded from memory. They stay open: a path with the same number would give the old library.
_open: list[int] = []

_PROTOTYPE = re.compile(
    r"\s*(?P<result>int32_t|int|double)\s+(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^()]*)\)\s*;?\s*"
)
_SCALAR = r"(?:void|char|int|float|double|_Bool|intptr_t|(?:u?int(?:8|16|32|64)_t))"
_PARAMETER = re.compile(rf"(?P<type>{_SCALAR})\s*(?P<pointers>(?:\*\s*)*)(?P<name>[A-Za-z_]\w*)?")
_QUALIFIERS = re.compile(r"\b(?:const|restrict|__restrict__|__restrict|volatile)\b")


@dataclass(frozen=True)
class Library:
    """A loaded library.

    Attributes:
        ffi: cffi's FFI, for `from_buffer` and `new`.
        entry: the entry, a cffi function pointer; calling it releases the GIL.
        function: the same for callers, who pass each array's address on its own, however many there are.
        c_path: the C it was compiled from, on disk.
        library_path: the shared object it was loaded from (it may be gone by now).
        handle: cffi's library, which is kept for the life of the process.
    """

    ffi: Any
    entry: Callable[..., int]
    function: Callable[..., int]
    c_path: Path
    library_path: Path
    handle: Any

    @property
    def address(self) -> int:
        """Where the function's machine code is."""
        return int(ffi.cast("uintptr_t", self.entry))


def build(source: Source, toolchain: Toolchain, options: Options, announce: Callable[[], object] = bool) -> Library:
    """Compile `source`, or find it in the cache, and load it; `announce` is called before a compiler runs.

    Example:
        >>> from symgrad.build.toolchain.find import find
        >>> from symgrad.options import Options
        >>> from symgrad.render.source import Source
        >>> text = "int twice(double *x) { *x *= 2.0; return 0; }"
        >>> source = Source(text=text, entry="twice", prototype="int32_t twice(double *x);")
        >>> library = build(source, find(Options()), Options())
        >>> x = library.ffi.new("double *", 21.0)
        >>> library.function(x), x[0]
        (0, 42.0)
    """
    from symgrad.build.toolchain.compiler import compile_library

    library = compile_library(source, toolchain, options, announce)
    try:
        return load_library(library, source.entry, source.prototype)
    except OSError:
        # Another process may have evicted it since, or it was linked where a library stood that is gone here.
        library = compile_library(source, toolchain, replace(options, cache=False))
    try:
        return load_library(library, source.entry, source.prototype)
    except OSError as error:
        message = f"the library compiled for {source.entry} does not load: {error}"
        raise ToolchainError(message, instead="compiler='none' runs by NumPy") from error


def load_library(library: Path, entry: str, prototype: str) -> Library:
    """Load a library that `compile_library` returned; OSError when the system refuses it."""
    with short_waits():
        handle, path = open_library(library)
    handle = _loaded.setdefault(str(path), handle)
    if not _pauses:
        with suppress(AttributeError):  # it is without OpenMP, or that is older than version 5
            _pauses.append(handle.load_function(ffi.typeof("int32_t(*)(int32_t)"), "omp_pause_resource_all"))
    kind = function_type(prototype, entry)
    function = handle.load_function(kind, entry)
    pointers.provide(ffi, handle)
    called = gathering(function, len(kind.args)) if kind.args[:1] == (_POINTERS,) else function
    return Library(ffi, function, called, library.with_suffix(".c"), path, handle)


def end_team() -> None:
    """End the threads that wait for this one's OpenMP loops; the next loop starts others, all of which takes 0.15 ms.

    While there are more than processors, as when two threads have teams, libgomp lets them sleep after 10 us and wakes
    them for each loop: an epoch of softmax regression after a step by itself took 70 ms, and takes 55.
    """
    if _pauses and get_num_threads() > 1:  # after a fork they are gone, and would be waited for
        _pauses[0](1)  # omp_pause_soft


def gathering(function: Callable[..., int], count: int) -> Callable[..., int]:
    """Call a function whose first one of so many parameters has the addresses of all arrays."""

    def call(*arguments: Any) -> int:
        if len(arguments) == count:
            return function(*arguments)
        first = len(arguments) - count + 1
        arrays = arguments[:first]  # or numbers, each the only element of a tuple, which C reads from memory too
        held = [ffi.new(_NUMBERS.get(type(p[0]), "double *"), *p) if type(p) is tuple else p for p in arrays]
        return function(ffi.new("void *[]", held), *arguments[first:])

    return call


def open_library(path: Path) -> tuple[Any, Path]:
    """Load a shared object with all its symbols bound now; where its folder allows no execution, a private copy.

    Where no folder allows it, from an anonymous file, which no mount option forbids. Returns cffi's library and the
    path it came from.
    """
    try:
        return _cffi_backend.load_library(str(path), _NOW), path
    except OSError as refused:
        first = refused
    from symgrad.build.toolchain.process import scratch_folder

    try:
        data = path.read_bytes()
        copy = scratch_folder() / path.name
        copy.write_bytes(data)
        try:
            handle = _cffi_backend.load_library(str(copy), _NOW)
        except OSError:
            descriptor = os.memfd_create("symgrad")
            _open.append(descriptor)
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            handle = _cffi_backend.load_library(f"/proc/self/fd/{descriptor}", _NOW)
    except (OSError, AttributeError):  # without memfd_create
        raise first from None
    warn_once(
        f"noexec {path.parent.parent}",
        f"the system does not load libraries from {path.parent.parent} ({first}); they are copied at each start. "
        "Set SYMGRAD_CACHE_DIR to a folder of a file system that allows execution.",
    )
    return handle, copy


def function_type(prototype: str, entry: str) -> Any:
    """Turn the declaration of `entry` into cffi's type of a pointer to it.

    Example:
        >>> function_type("int32_t f(const double *restrict x, const int64_t n);", "f")
        <ctype 'int32_t(*)(double *, int64_t)'>
    """
    match = _PROTOTYPE.fullmatch(prototype)
    if match is None or match["name"] != entry:
        message = f"the prototype {prototype!r} does not declare {entry!r}"
        raise ValueError(message)
    types = []
    for text in match["parameters"].split(","):
        parameter = _PARAMETER.fullmatch(_QUALIFIERS.sub(" ", text).strip())
        if parameter is None:
            message = f"the parameter {text.strip()!r} is of no type that symgrad's C uses"
            raise ValueError(message)
        types.append(parameter["type"] + "".join(parameter["pointers"].split()))
    return ffi.typeof(f"{match['result']}(*)({', '.join(types)})")

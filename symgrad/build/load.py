"""A compiled library into this process: `build` a `Source`, get a `Library` with the function to call."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _cffi_backend  # type: ignore[import-untyped]

from symgrad.build import blas
from symgrad.build.notice import warn_once
from symgrad.build.threads import short_waits
from symgrad.build.toolchain import scratch
from symgrad.build.toolchain.compiler import Compiled, compile_library
from symgrad.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.build.toolchain.find import Toolchain
    from symgrad.options import Options
    from symgrad.render.source import Source

# cffi's compiled FFI, the one its out-of-line modules use: it parses C types itself. cffi.FFI() would
# load pycparser (30 ms) and parse each cdef in Python (0.6 ms), and its from_buffer takes twice as long.
ffi: Any = _cffi_backend.FFI()
_NOW = ffi.RTLD_NOW | getattr(ffi, "RTLD_LOCAL", 0)

_TABLE = ffi.typeof("void(*)(void **)")
_POINTERS = ffi.typeof("void **")

# Libraries stay loaded: a cffi function does not keep its library, a thread may be inside of it, and OpenMP's
# threads outlive the call that made them. They are small, and the loader gives a path it knows only once.
_loaded: dict[str, Any] = {}

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
        keepalive: cffi's library; it is kept for the life of the process anyway.
    """

    ffi: Any
    entry: Callable[..., int]
    function: Callable[..., int]
    c_path: Path
    library_path: Path
    keepalive: object

    @property
    def address(self) -> int:
        """Where the function's machine code is."""
        return int(ffi.cast("uintptr_t", self.entry))


def build(
    source: Source, toolchain: Toolchain, options: Options, announce: Callable[[], object] = bool,
) -> Library:
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
    compiled = compile_library(source, toolchain, options, announce)
    try:
        return load(compiled, source.entry, source.prototype)
    except OSError:
        # Another process may have evicted it since, or it was linked where a library stood that is gone here.
        compiled = compile_library(source, toolchain, replace(options, cache=False))
    try:
        return load(compiled, source.entry, source.prototype)
    except OSError as error:
        message = f"the library compiled for {source.entry} does not load: {error}"
        raise ToolchainError(message, instead="compiler='none' runs by NumPy") from error


def user_data(arrays: Sequence[Any]) -> Any:
    """Make a ``void *`` to an array of pointers to arrays, which it keeps alive."""
    held = [ffi.from_buffer("char[]", array) for array in arrays]
    pointers = ffi.new("void *[]", held)
    return ffi.gc(ffi.cast("void *", pointers), lambda _, kept=(held, pointers): None)  # noqa: ARG005 - it keeps them


def load(compiled: Compiled, entry: str, prototype: str) -> Library:
    """Load a library that `compile_library` returned; OSError when the system refuses it."""
    with short_waits():
        handle, path = open_library(compiled.library)
    handle = _loaded.setdefault(str(path), handle)
    kind = function_type(prototype, entry)
    function = handle.load_function(kind, entry)
    blas.give(ffi, lambda name: handle.load_function(_TABLE, name))
    called = gathering(function, len(kind.args)) if kind.args[:1] == (_POINTERS,) else function
    return Library(ffi, function, called, compiled.c, path, handle)


def gathering(function: Callable[..., int], count: int) -> Callable[..., int]:
    """Call a function whose first one of so many parameters has the addresses of all arrays."""

    def call(*arguments: Any) -> int:
        if len(arguments) == count:
            return function(*arguments)
        first = len(arguments) - count + 1
        held = [_placed(*p) if type(p) is tuple else p for p in arguments[:first]]
        return function(gathered(held), *arguments[first:])

    return call


def gathered(pointers: Sequence[Any]) -> Any:
    """Make an array of addresses."""
    return ffi.new("void *[]", pointers)


def _placed(number: Any) -> Any:
    """Put a number where C can read it."""
    return ffi.new({bool: "uint8_t *", int: "int64_t *"}.get(type(number), "double *"), number)


def open_library(path: Path) -> tuple[Any, Path]:
    """Load a shared object with all its symbols bound now; where its folder allows no execution, a private copy.

    Returns cffi's library and the path it came from.
    """
    try:
        return _cffi_backend.load_library(str(path), _NOW), path
    except OSError as refused:
        first = refused
    try:
        data = path.read_bytes()
        copy = scratch.folder() / path.name
        copy.write_bytes(data)
    except OSError:
        raise first from None
    try:
        handle = _cffi_backend.load_library(str(copy), _NOW)
    except OSError:
        handle = _from_memory(data, first)
    warn_once(
        f"noexec {path.parent.parent}",
        f"the system does not load libraries from {path.parent.parent} ({first}); they are copied at each start. "
        "Set SYMGRAD_CACHE_DIR to a folder of a file system that allows execution.",
    )
    return handle, copy


def _from_memory(data: bytes, refused: OSError) -> Any:
    """Load from an anonymous file, which no mount option forbids; else raise what the disk's file got."""
    if not hasattr(os, "memfd_create"):
        raise refused
    try:
        descriptor = os.memfd_create("symgrad")
        _open.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        return _cffi_backend.load_library(f"/proc/self/fd/{descriptor}", _NOW)
    except OSError:
        raise refused from None


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
    types = [_parameter_type(text) for text in match["parameters"].split(",")]
    return ffi.typeof(f"{match['result']}(*)({', '.join(types)})")


def _parameter_type(text: str) -> str:
    match = _PARAMETER.fullmatch(_QUALIFIERS.sub(" ", text).strip())
    if match is None:
        message = f"the parameter {text.strip()!r} is of no type that symgrad's C uses"
        raise ValueError(message)
    return match["type"] + "".join(match["pointers"].split())

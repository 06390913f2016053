"""Find the C compiler of this machine and what it can do; a warm process reads both from the cache and runs nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from symgrad.build.cache import limits
from symgrad.build.cache import store as cache
from symgrad.build.notice import warn_once
from symgrad.build.toolchain import machine
from symgrad.build.toolchain.capabilities import Capabilities, parse

if TYPE_CHECKING:
    from symgrad.options import Options, Target

_INSTALL = (
    "Install gcc or clang (Debian: apt install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install; "
    "conda: conda install -c conda-forge c-compiler), or the compiler on PyPI: pip install symgrad[zig]."
)
_NAMES = ("cc", "gcc", "clang")
_C_FILES = ("probe.c", "probe_math.c")


@dataclass(frozen=True)
class Toolchain:
    """A C compiler that was seen to compile libraries that load here.

    Attributes:
        argv: the compiler and its fixed arguments.
        identity: its file, size and time of change, and a hash of the version it tells; part of every cache key.
        flags: arguments that stand before the C file.
        libraries: arguments that stand after it (``-lm``): linkers look for symbols from left to right.
        target: what it can do; `render` reads it.
        cpu: this machine's instruction sets, model and C library; part of every cache key.
        version: the first line of what ``--version`` tells, for people.
        known: all that the probe found out.
    """

    argv: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    target: Target
    cpu: str
    version: str
    known: Capabilities


def find(options: Options) -> Toolchain | None:
    """Find a working C compiler: ``options.compiler``, ``$CC``, cc, gcc, clang, the ziglang package.

    None means that programs run by NumPy. That is warned about here, once a process, unless the user asked
    for it with ``compiler="none"``. A compiler which the user named and which does not work is never replaced
    by another one in silence. Raises `ArgumentValueError` when only ``options.flags`` stop it from working.

    Example:
        >>> from symgrad.options import Options
        >>> find(Options(compiler="none")) is None
        True
    """
    if options.compiler == "none":
        return None
    environment = tuple(os.environ.get(name, "") for name in ("CC", "PATH", "SYMGRAD_CACHE_DIR"))
    question = (options.compiler, options.flags, options.cache, environment)
    with _lock:
        if question not in _found:
            _found[question] = _find(options)
        toolchain = _found[question]
    if toolchain is None:
        _warn(options)
    return toolchain


_found: dict[object, Toolchain | None] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _find(options: Options) -> Toolchain | None:
    for program, *words in _candidates(options):
        # The whole path: the compiler is started in another folder. Not resolved: ccache goes by its link's name.
        path = shutil.which(program)
        if path is not None:
            toolchain = _toolchain((str(Path(path).absolute()), *words), options)
            if toolchain is not None:
                return toolchain
    return None


def _named(options: Options) -> tuple[str, str] | None:
    """The compiler the user named, and where."""
    if options.compiler is not None:
        return "compiler", options.compiler
    environment = os.environ.get("CC", "")
    return ("$CC", environment) if environment.strip() else None


def _candidates(options: Options) -> list[tuple[str, ...]]:
    """List the compilers to try, best first, each as an argument list."""
    named = _named(options)
    if named is not None:
        try:
            words = tuple(shlex.split(named[1]))
        except ValueError:
            words = ()
        return [words] if words else []
    paths = [path for path in map(shutil.which, _NAMES) if path is not None]
    distinct: list[tuple[str, ...]] = []
    for path in paths:
        if not any(Path(path).samefile(other) for other, *_ in distinct):
            distinct.append((path,))
    if _zig() is not None:
        distinct.append((sys.executable, "-m", "ziglang", "cc"))
    return distinct


def _zig() -> Path | None:
    """The compiler in the ziglang package, if that is installed."""
    package = importlib.util.find_spec("ziglang")
    return None if package is None or package.origin is None else Path(package.origin).with_name("zig")


def _files(argv: tuple[str, ...]) -> list[Path]:
    """The files behind a compiler's argument list."""
    files = [Path(argv[0])]
    zig = _zig() if "ziglang" in argv else None
    if zig is not None:
        files.append(zig)
    else:  # "ccache gcc"
        files += [Path(path) for word in argv[1:] if not word.startswith("-") and (path := shutil.which(word))]
    return [file.resolve() for file in files if file.exists()]


def _stamp(files: list[Path]) -> str:
    """Name files by path, size and time of change: another compiler at the same path is another compiler."""
    stats = [(file, file.stat()) for file in files]
    return "; ".join(f"{file} {status.st_size} {status.st_mtime_ns}" for file, status in stats)


def _toolchain(argv: tuple[str, ...], options: Options) -> Toolchain | None:
    """Ask the cache what the compiler can do, else the compiler."""
    folder = Path(__file__).parent
    cpu, stamp = machine.features(), _stamp(_files(argv))
    probe = _stamp([folder / name for name in _C_FILES])  # another symgrad may ask other questions
    key = cache.key("toolchain", *argv, "flags", *options.flags, stamp, cpu, probe)
    store = cache.store() if options.cache else None
    record = store.recall(key) if store is not None else None
    known = parse(record)
    if known is None and store is None:
        known = _probed(argv, options)
    elif known is None and store is not None:
        with store.lock(key, limits.compile_seconds()):  # of 16 processes that start at once, one asks
            known = parse(store.recall(key)) or _probed(argv, options)
            if known is not None:
                store.record(key, json.dumps(known.as_json(), sort_keys=True).encode())
    if known is None:
        return None
    return Toolchain(
        argv=argv, identity=f"{stamp}; {cache.key(known.version)[:16]}", flags=known.flags(options.flags),
        libraries=known.libraries(options.flags), target=known.target(), cpu=cpu,
        version=known.version.partition("\n")[0], known=known,
    )


def _probed(argv: tuple[str, ...], options: Options) -> Capabilities | None:
    from symgrad.build.toolchain import probe

    return probe.ask(argv, options.flags)


def _warn(options: Options) -> None:
    named = _named(options)
    if named is None:
        what, advice = "symgrad found no C compiler that works", _INSTALL
    else:
        what = f"the C compiler that {named[0]} names, {named[1]!r}, does not compile libraries that load here"
        advice = f"Correct it or leave {named[0]} unset. {_INSTALL}"
    warn_once("no compiler", f"{what}: programs run by NumPy, correct but much slower. {advice}")

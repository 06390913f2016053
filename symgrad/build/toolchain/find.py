"""The C compiler of this machine: which one, and what it can do.

A compiler is asked once, by `probe`; the answers are kept in the cache, and checked when they are read back. So a warm
process runs nothing.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from symgrad.build import limits
from symgrad.build.cache import store as cache
from symgrad.build.threads import threads
from symgrad.build.toolchain.capabilities import Capabilities, parse
from symgrad.errors import warn_once
from symgrad.options import Options, Target
from symgrad.version import __version__

_INSTALL = (
    "Install gcc or clang (Debian: apt install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install; "
    "conda: conda install -c conda-forge c-compiler), or the compiler on PyPI: pip install symgrad[zig]."
)
_C_FILES = ("probe.c", "probe_math.c")

_FEATURES = ("flags", "Features", "isa", "features")
_MODEL = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "cpu")
_ENOUGH = 1 << 16

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
    """
    if options.compiler == "none":
        return None
    environment = tuple(os.environ.get(name, "") for name in ("CC", "PATH", "SYMGRAD_CACHE_DIR"))
    question = (options.compiler, options.flags, options.cache, environment)
    with _lock:
        if question not in _found:
            # The whole path: the compiler is started in another folder. Not resolved: ccache goes by its link's name.
            tried = [(shutil.which(program), words) for program, *words in _candidates(options)]
            made = (_toolchain((str(Path(path).absolute()), *words), options) for path, words in tried if path)
            _found[question] = next(filter(None, made), None)
        toolchain = _found[question]
    if toolchain is None:
        what, advice = "symgrad found no C compiler that works", _INSTALL
        if (named := _asked_for(options)) is not None:
            where, words = named
            what = f"the C compiler that {where} names, {words!r}, does not compile libraries that load here"
            advice = f"Correct it or leave {where} unset. {_INSTALL}"
        warn_once("no compiler", f"{what}: programs run by NumPy, correct but much slower. {advice}")
    return toolchain


def machine(options: Options) -> dict[str, str]:
    """Return what decides about the last bits of what is computed here, by name."""
    import scipy

    versions = {"symgrad": __version__, "NumPy": np.__version__, "SciPy": scipy.__version__}
    toolchain = find(options)
    compiler = {"compiler": "none", "processor": platform.machine()} if toolchain is None else {
        "compiler": toolchain.version, "flags": " ".join(toolchain.flags), "processor": toolchain.cpu}
    return {**versions, "threads": str(threads(options)), **compiler}


_found: dict[object, Toolchain | None] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _asked_for(options: Options) -> tuple[str, str] | None:
    if options.compiler is not None:
        return "compiler", options.compiler
    environment = os.environ.get("CC", "")
    return ("$CC", environment) if environment.strip() else None


def _candidates(options: Options) -> list[tuple[str, ...]]:
    """List the compilers to try, best first, each as an argument list."""
    named = _asked_for(options)
    if named is not None:
        try:
            words = tuple(shlex.split(named[1]))
        except ValueError:
            words = ()
        return [words] if words else []
    paths = [path for path in map(shutil.which, ("cc", "gcc", "clang")) if path is not None]
    distinct: list[tuple[str, ...]] = []
    for path in paths:
        if not any(Path(path).samefile(other) for other, *_ in distinct):
            distinct.append((path,))
    if _zig() is not None:
        distinct.append((sys.executable, "-m", "ziglang", "cc"))
    return distinct


def _zig() -> Path | None:
    package = importlib.util.find_spec("ziglang")
    return None if package is None or package.origin is None else Path(package.origin).with_name("zig")


def _stamp(files: list[Path]) -> str:
    """Name files by path, size and time of change: another compiler at the same path is another compiler."""
    stats = [(file, file.stat()) for file in files]
    return "; ".join(f"{file} {status.st_size} {status.st_mtime_ns}" for file, status in stats)


def _toolchain(argv: tuple[str, ...], options: Options) -> Toolchain | None:
    """Ask the cache what the compiler can do, else the compiler."""
    cpu, zig = features(), _zig() if "ziglang" in argv else None
    behind = [zig] if zig is not None else [shutil.which(w) for w in argv[1:] if not w.startswith("-")]  # "ccache gcc"
    files = [Path(file).resolve() for file in (argv[0], *behind) if file is not None]
    stamp = _stamp([file for file in files if file.exists()])
    questions = _stamp([Path(__file__).with_name(name) for name in _C_FILES])  # another symgrad may ask others
    key = cache.key("toolchain", *argv, "flags", *options.flags, stamp, cpu, questions)
    store = cache.open_store() if options.cache else None
    record = store.recall(key) if store is not None else None
    known = parse(record)
    if known is None:
        from symgrad.build.toolchain import probe  # with subprocess, which a warm process does without

        if store is None:
            known = probe.ask(argv, options.flags)
        else:
            with store.lock(key, limits.compile_seconds()):  # of 16 processes that start at once, one asks
                known = parse(store.recall(key)) or probe.ask(argv, options.flags)
                if known is not None:
                    store.record(key, json.dumps(asdict(known), sort_keys=True).encode())
    if known is None:
        return None
    return Toolchain(
        argv=argv, identity=f"{stamp}; {cache.key(known.version)[:16]}", flags=known.flags(options.flags),
        libraries=known.libraries(options.flags), target=known.target(), cpu=cpu,
        version=known.version.partition("\n")[0], known=known,
    )


@functools.cache
def features() -> str:
    """Name the processor's instruction sets and model and the C library, normalized.

    A library compiled with ``-march=native`` must not run where an instruction is missing, nor one
    linked to a newer C library where its functions are missing: both are in every key of the cache.
    """
    uname = os.uname()
    fields = _cpuinfo()
    flags = sorted({flag for name in _FEATURES for flag in fields.get(name, "").split()})
    model = [fields[name] for name in _MODEL if name in fields]
    # Without /proc/cpuinfo the system's own name and release stand for the processor.
    known = " ".join(flags) if flags else f"{uname.sysname} {uname.release} {uname.version}"
    digest = hashlib.sha256(known.encode()).hexdigest()[:16]
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or "libc"
    except (AttributeError, ValueError, OSError):
        libc = "libc"
    return "-".join([uname.sysname, uname.machine, *model, digest, libc]).replace(" ", "_")


def _cpuinfo() -> dict[str, str]:
    """Return the fields of the first processor: the kernel makes the text as it is read, and all of it takes long."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:  # noqa: PTH123 - unbuffered, and only its start
            text = file.read(_ENOUGH).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}

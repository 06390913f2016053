"""What this machine's processor and C library are, as a short string for cache keys."""

from __future__ import annotations

import functools
import hashlib
import os

_FEATURES = ("flags", "Features", "isa", "features")
_MODEL = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "cpu")
_ENOUGH = 1 << 16


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
    return "-".join([uname.sysname, uname.machine, *model, digest, _libc()]).replace(" ", "_")


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor (the kernel makes the text as it is read: a large machine's takes long)."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:  # noqa: PTH123 - unbuffered, and only its start
            text = file.read(_ENOUGH).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "libc"
    except (AttributeError, ValueError, OSError):
        return "libc"

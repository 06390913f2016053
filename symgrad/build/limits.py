"""The bounds a user may set by environment variables: cache size, the compiler's time and memory."""

from __future__ import annotations

import math
import os

from symgrad.build.notice import warn_once


def cache_bytes() -> int:
    """How large the cache may grow: ``SYMGRAD_CACHE_BYTES``, or 512 MB."""
    return int(_number("SYMGRAD_CACHE_BYTES", 512 * 2**20))


def compile_seconds(chosen: float | None = 600.0) -> float:
    """Return how long one compiler run may take: ``SYMGRAD_COMPILE_SECONDS``, or what the options say (None: ever)."""
    return _number("SYMGRAD_COMPILE_SECONDS", math.inf if chosen is None else chosen)


def compile_bytes() -> int:
    """How much memory each process of the compiler may have: ``SYMGRAD_COMPILE_BYTES``, or 4 GB."""
    return int(_number("SYMGRAD_COMPILE_BYTES", 4 * 2**30))


def _number(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0:
        return value
    warn_once(f"environment {name}={text}", f"{name}={text!r} is not a number >= 0; {default:g} is used")
    return default

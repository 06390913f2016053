"""What the tests look at in a compiled function: its loops and its C."""

from __future__ import annotations

import re
import time
from typing import Any

import symgrad as sg
from symgrad.loops.program import Loop


def loops(function: sg.Function) -> Any:
    """The loop program that ran last."""
    return function._ran().built.loops


def code(function: sg.Function) -> str:
    """The C that ran last, without its comments."""
    return re.sub(r"/\*.*?\*/", "", function.c_source, flags=re.DOTALL)


def sweeps(function: sg.Function, extent: int) -> int:
    """Count the outermost loops over an extent."""
    return sum(isinstance(item, Loop) and item.extent == extent for item in loops(function).body)


def slowness() -> float:
    """How much slower than usual this machine is now: at least 1."""
    began = time.process_time()
    sum(k * k for k in range(2_000_000))
    return max(1.0, (time.process_time() - began) / 0.2)

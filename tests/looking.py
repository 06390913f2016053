"""What the tests look at in a compiled function: its loops and its C."""

from __future__ import annotations

import re
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

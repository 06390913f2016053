"""What the tests look at in a compiled function: its loops and its C."""

from __future__ import annotations

import inspect
import re
import time
from typing import Any

import numpy as np

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
    """How much slower this machine is now than where bounds were set, which took 0.1 s for this: at least 1."""
    began = time.process_time()
    _ = {(k, k + 1): [k] for k in range(70_000)}  # many small objects, as in a trace
    sum(k * k for k in range(1_000_000))
    return max(1.0, (time.process_time() - began) / 0.1)


def applied(linear: Any) -> Any:
    """How it applies to a list of vectors: the linear half, given what was kept for it."""
    return inspect.getclosurevars(inspect.getclosurevars(linear).nonlocals["function"]).nonlocals["apply"]


def kept(linear: Any) -> list[tuple[int, ...]]:
    """Shapes of what the linear half is given, the arguments it reads first."""
    return [np.shape(value) for value in applied(linear).args[0]]

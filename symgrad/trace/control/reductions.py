"""What Python's own functions make of many numbers: `max` and `min` are a choice after the other, and no branches."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from symgrad.trace.state import Trace
from symgrad.trace.tracer import Tracer

EXACT = 1 << 53
"""Integers up to it are floats."""


def are_alike(trace: Trace, numbers: Sequence[Any]) -> bool:
    """Whether numbers, some of them traced, are of one dtype; plain ones may be of it where they keep their value."""
    traced = [one for one in numbers if type(one) is Tracer]
    if len({(one.dtype, one.weak) for one in traced if one.owner is trace and one.is_number}) != 1:
        return False
    dtype = traced[0].dtype
    plain = [one for one in numbers if type(one) is not Tracer]
    fits = {int, float} if dtype.kind == "f" else {int} if dtype == np.int64 else set[type]()
    return (
        dtype.kind in "fiu" and all(one.owner is trace and one.is_number for one in traced)
        and all(type(one) in fits and not (type(one) is int and abs(one) > EXACT) for one in plain)
    )


def _extreme(
    original: Callable[..., Any], further: Callable[[Any, Any], Any], trace: Trace, _frame: FrameType, *args: Any,
    **how: Any,
) -> Any:
    """Return the first of some numbers that no other one is further than, as Python finds it."""
    numbers = args if len(args) != 1 else [*args[0]]
    if how or not are_alike(trace, numbers):
        return original(*(args if len(args) != 1 else (numbers,)), **how)
    best: Any = numbers[0]
    weak = next(one.weak for one in numbers if type(one) is Tracer)
    for one in numbers[1:]:
        best = np.where(further(one, best), one, best)
        best.weak = weak
    return best


EXTREMES = {"max": functools.partial(_extreme, max, operator.gt), "min": functools.partial(_extreme, min, operator.lt)}
"""`max` and `min` of a trace, a frame and what they are called with."""

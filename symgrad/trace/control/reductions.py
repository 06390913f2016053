"""What Python's own functions make of many numbers: `max` and `min` are a choice after the other, and no branches.

Of a list that only some steps of a loop append to, and of which nothing is asked but `sum`, `len`, `max`, `min`, the
last item and whether it has any, a loop carries these in its place (`Accumulator`): however many items there are.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import Any

import numpy as np

from symgrad.ir.node import Node
from symgrad.ops.elementwise.selection import where
from symgrad.trace.constants import constant
from symgrad.trace.control.generators import folded
from symgrad.trace.nested import settled
from symgrad.trace.state import Trace
from symgrad.trace.tracer import Tracer, as_node, outcome

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


def _choice(
    original: Callable[..., Any], further: Callable[[Any, Any], Any], trace: Trace, frame: FrameType, *args: Any,
    **how: Any,
) -> Any:
    """Return the first of some numbers that no other one is further than, as Python finds it."""
    if len(args) == 1 and type(args[0]) is Accumulator:
        return args[0].values[original.__name__] if args[0] else original((), **how)
    if len(args) == 1 and not how and (found := folded(original.__name__, frame, args[0])) is not None:
        return found
    numbers = args if len(args) != 1 else [*args[0]]
    if how or not are_alike(trace, numbers):
        return original(*(args if len(args) != 1 else (numbers,)), **how)
    best: Any = numbers[0]
    weak = next(one.weak for one in numbers if type(one) is Tracer)
    for one in numbers[1:]:
        best = np.where(further(one, best), one, best)
        best.weak = weak
    return best


class Accumulator:
    """Stands for a list of numbers in the code that made it.

    Attributes:
        values, count: what is asked of the items, and how many there are, as of now.
        kind: their dtype, and what they are in Python's arithmetic; None where none is known yet.
        learn: told of another kind.
    """

    def __init__(self, trace: Trace, asked: Collection[str], kind: Any, learn: Callable[[Any], None]) -> None:
        """Begin without items."""
        self.trace, self.kind, self.learn = trace, kind, learn
        dtype, weak = kind or (np.dtype(np.int64), int)
        self.values: dict[str, Any] = {
            name: Tracer(constant(trace, np.zeros((), dtype)), trace, weak=weak) for name in sorted({*asked} - {"len"})
        }
        self.count: Any = Tracer(constant(trace, np.int64(0)), trace, weak=int)

    def append(self, value: Any) -> None:
        """Reckon with one item more."""
        value = settled(value)
        kind: Any = type(value) in {int, float} and (np.dtype(type(value)), type(value))
        if type(value) is Tracer and value.is_number and value.owner is self.trace and value.dtype.kind in "fiu":
            kind = value.dtype, value.weak
        own, count = self.values, self.count
        numbers = [*own.values()]
        if numbers and kind != self.kind and not (kind and self.kind and are_alike(self.trace, [value, numbers[0]])):
            self.learn(kind)
        self.count = count + 1
        made: dict[str, Callable[[Any], Any]] = {
            "sum": lambda total: total + value,
            "max": lambda most: np.where(np.logical_or(count == 0, value > most), value, most),
            "min": lambda least: np.where(np.logical_or(count == 0, value < least), value, least),
            "last": lambda _: self._own(as_node(self.trace, value)),
        }
        for name, before in own.items():
            own[name] = made[name](before)
            own[name].weak = before.weak

    def _own(self, node: Node) -> Tracer:
        """Return a value as a node of its own, as each variable of a loop is one."""
        there = as_node(self.trace, self.count > 0)
        return Tracer(self.trace.graph.node(where, (there, node, node), (), (), node.dtype), self.trace)

    def __bool__(self) -> bool:
        return bool(outcome(self.count > 0, "a list", "np.where(count > 0, a, b) with a count of its items"))

    def __getitem__(self, index: int) -> Any:
        return self.values["last"] if self else [][index]  # as Python refuses it


EXTREMES: dict[str, Callable[..., Any]] = {
    "max": functools.partial(_choice, max, operator.gt), "min": functools.partial(_choice, min, operator.lt),
}
"""`max` and `min` of a trace, a frame and what they are called with."""

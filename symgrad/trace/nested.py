"""Traced values and local arrays inside of lists, tuples, dicts and slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from symgrad.ops.declare.forms import is_traced

_PLAIN = frozenset({int, float, bool, str, type(None), np.ndarray, np.float64, np.int64, np.dtype})


def settled(value: Any, by: str = "settle") -> Any:
    """Return what stands for an array as the traced or plain array it is now, at any depth of lists, tuples and dicts.

    Local arrays have a method ``settle()`` for it, and ``lent()`` for a function that may keep a plain one.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return kind([settled(item, by) for item in value])
    if kind is dict:
        return {key: settled(item, by) for key, item in value.items()}
    settle = getattr(kind, by, None)
    return value if settle is None else settle(value)


def touches(value: Any) -> bool:
    """Whether a traced value is in it, at any depth of lists, tuples, dicts and slices."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind in _PLAIN:
            continue
        if is_traced(item) or (hasattr(kind, "settle") and is_traced(item.settle())):
            return True
        if kind is slice:
            stack += [item.start, item.stop, item.step]
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        elif kind is dict:
            stack.extend(item.values())
    return False


def elements(x: Any) -> Iterator[Any]:
    """Go along the first axis; only a loop asks how long it is, not whoever asks whether there could be a loop."""
    for k in range(len(x)):
        yield x[k]

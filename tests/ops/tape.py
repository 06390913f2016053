"""The smallest reverse mode that runs the rules of elementwise ops on themselves: derivatives of any order.

A cotangent that is 0 stays 0, which is what guarded cotangents make of a branch that was not taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import NoGradient
from symgrad.ops.declare.calculus import cotangents
from symgrad.ops.declare.forms import ANSWERS


class Taped(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that remembers which op made it, of what."""

    def __init__(self, value: Any, op: Any = None, inputs: tuple[Any, ...] = (), params: Any = None) -> None:
        self.value = np.asarray(value)
        self.op, self.inputs, self.params = op, inputs, params or {}

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def shape(self) -> Any:
        return self.value.shape

    def astype(self, dtype: Any) -> Any:
        return Taped(self.value.astype(dtype))

    def __symgrad_bind__(self, op: Any, inputs: Any, params: Any) -> Taped:
        with np.errstate(all="ignore"):
            values = [x.value if isinstance(x, Taped) else x for x in inputs]
            return Taped(op.evaluate(*values, **params), op, inputs, params)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Any:
        assert method == "__call__"
        return self.__symgrad_bind__(ANSWERS[ufunc], inputs, {})

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return ANSWERS[func](*args, **kwargs)


def gradient(y: Taped, wrt: list[Taped]) -> list[Any]:
    """Return the derivatives of y by some of what it was made from, as taped values (or 0)."""
    order: dict[int, Taped] = {}
    stack = [(y, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order[id(node)] = node
        elif id(node) not in order:
            stack.append((node, True))
            stack.extend((x, False) for x in node.inputs if isinstance(x, Taped))
    arrived: dict[int, Any] = {id(y): Taped(np.ones_like(y.value))}
    for node in reversed(order.values()):
        g = arrived.get(id(node))
        if g is None or node.op is None or y.dtype.kind != "f":
            continue
        for x, part in zip(node.inputs, cotangents(node.op, g, node, *node.inputs, **node.params), strict=True):
            if isinstance(x, Taped) and part is not None:
                part = np.where(g == 0, 0, part)  # noqa: PLW2901 - the same cotangent, guarded
                arrived[id(x)] = arrived[id(x)] + part if id(x) in arrived else part
    return [arrived.get(id(x), Taped(np.zeros_like(y.value))) for x in wrt]


def derivatives(op: Any, arrays: list[Any], **params: Any) -> tuple[list[Any], list[list[Any]]]:
    """Return the gradient and the second derivatives of an op at arrays of arguments."""
    xs = [Taped(a) for a in arrays]
    first = gradient(op(*xs, **params), xs)
    second = [[h.value for h in gradient(d, xs)] if d.dtype.kind == "f" else [] for d in first]
    return [d.value for d in first], second


def slopes(op: Any, points: Any, **params: Any) -> list[Any]:
    """Return the rule's partial derivatives at columns of arguments, 0 where it has none."""
    parts = cotangents(op, np.ones(len(points[0])), op.evaluate(*points, **params), *points, **params)
    zeros = np.zeros(len(points[0]))
    return [zeros if p is None else p if isinstance(p, NoGradient) else np.broadcast_to(p, zeros.shape) for p in parts]

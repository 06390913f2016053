"""Running totals along one axis, and the linear recurrence that is their derivatives' form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ir.index import regions, shapes
from symgrad.ir.index.notation import Access, Axis, Body, How, Number, Statement, Temporary, axes_of
from symgrad.ir.node import Node
from symgrad.ir.op import Structured
from symgrad.ops.arrays.joining import along_axis, lift
from symgrad.ops.arrays.views import adding, flipped, sliced
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, answers, apply, refuse, shape_of, structured, summed_dtype

X, OUT = 0, -1


def reverse(x: Any) -> Any:
    """Turn the last axis around."""
    return flipped(x, (len(shape_of(x)) - 1,))


def shift_by_one(x: Any, fill: int) -> Any:
    """Move along the last axis by one: fill, x[0], x[1], ..."""
    *lead, last = shape = shape_of(x)
    if type(last) is int:
        fewer: Any = max(last - 1, 0)
    else:
        import sympy

        fewer = sympy.Max(last - 1, 0)
    index = (*regions.whole(lead), (1, fewer, 1))
    head = sliced(x, -1, 0, fewer)
    if fill == 0:
        return OPS["place"](head, indices=(index,), shape=shape)
    ones = np.where(np.False_, x, np.ones((), x.dtype))
    return OPS["set_slice"](ones, head, index=index)


def exclusive_product(x: Any) -> Any:
    """Multiply, along the last axis, what stands before each element."""
    return shift_by_one(OPS["cumprod"](x, axis=len(shape_of(x)) - 1), 1)


def _running_body(
    node: Node, total: Callable[[Access, tuple[Axis, ...]], tuple[How, Any, frozenset[int]]], first: int,
) -> Body:
    """Keep a total along one axis, and write it down after each step."""
    axis = len(node.shape) - 1 if "axis" not in node.op.params else node.param("axis")
    outer = axes_of(shapes.without(node.shape, (axis,)))
    axes = axes_of(node.shape)
    kept = tuple([a for k, a in enumerate(axes) if k != axis])
    acc = Access(-2, kept)
    how, value, prefix = total(acc, axes)
    return Body((
        Statement(Access(-2, outer), How.SET, Number(first, node.dtype), outer, node.line),
        Statement(acc, how, value, axes, node.line, prefix=prefix),
        Statement(Access(OUT, axes), How.SET, acc, axes, node.line, prefix=frozenset({-2})),
    ), (Temporary(tuple([a.extent for a in outer]), node.dtype),))


def _running(function: Any, how: Callable[[np.dtype[Any]], How], first: int, **fields: Any) -> Structured:
    """Declare a running sum or product along an axis, and answer NumPy's function by it."""
    name = function.__name__
    op = structured(
        name=name, params=("axis",), infer=lambda x, axis: (x.shape, x.dtype), running=True,
        evaluate=lambda x, axis: function(x, axis=axis, dtype=np.asarray(x).dtype),
        body=lambda node: _running_body(
            node, lambda _, axes: (how(node.dtype), Access(X, axes), frozenset()), first),
        text=lambda node, names: f"np.{name}({names[0]}, axis={node.params[0]})",
        sample=(case(lambda a: function(a, axis=0) ** 2, (3, 4)), case(lambda a: function(a) ** 2, (2, 3))),
        edges=(case(function, (0,)),), **fields,
    )

    def running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        refuse(name, out=out)
        a = lift(a)
        a, k = along_axis(a.astype(summed_dtype(a, dtype)), axis)
        return op(a, axis=k)

    answers(function)(running)
    return op


cumsum = _running(
    np.cumsum, adding, 0, moves=True,
    vjp=lambda g, y, x, axis: flipped(OPS["cumsum"](flipped(g, (axis,)), axis=axis), (axis,)),
)


def _cumprod_vjp(g: Any, y: Any, x: Any, axis: int) -> Any:
    """``P[k-1] * r[k]`` with ``r[k] = g[k] + x[k+1] r[k+1]``: exact where factors are zero."""
    g, y, x = [np.moveaxis(v, axis, -1) for v in (g, y, x)]
    r = reverse(recurrence(shift_by_one(reverse(x), 0), reverse(g)))
    return np.moveaxis(shift_by_one(y, 1) * r, -1, axis)


cumprod = _running(np.cumprod, lambda _: How.MULTIPLY, 1, vjp=_cumprod_vjp, regular=True)


def _recurrence_value(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    out = np.zeros_like(b)
    total = np.zeros(b.shape[:-1], b.dtype)
    for k in range(b.shape[-1]):
        total = a[..., k] * total + b[..., k]
        out[..., k] = total
    return out


def _recurrence_body(node: Node) -> Body:
    kind = node.dtype

    def total(acc: Access, axes: tuple[Axis, ...]) -> tuple[How, Any, frozenset[int]]:
        product = apply("multiply", kind, Access(0, axes), acc)
        return How.SET, apply("add", kind, product, Access(1, axes)), frozenset({-2})

    return _running_body(node, total, 0)


def _recurrence_vjp(g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    following = shift_by_one(reverse(a), 0)
    r = reverse(recurrence(following, reverse(g)))
    return r * shift_by_one(y, 0), r


recurrence = structured(
    name="recurrence", infer=lambda a, b: (b.shape, b.dtype), evaluate=_recurrence_value, body=_recurrence_body,
    vjp=_recurrence_vjp, regular=True, running=True, linear=(1,),
    sample=(case(lambda a, b: OPS["recurrence"](a, b) ** 2, (2, 4), (2, 4)),),
    edges=(case(lambda a, b: OPS["recurrence"](a, b) ** 2, (0,), (0,)),),
    doc="``y[k] = a[k] * y[k-1] + b[k]`` along the last axis, from ``y[-1] = 0``.",
)

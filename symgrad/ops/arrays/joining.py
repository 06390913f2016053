"""Joining arrays: concatenate, stack, pad; and arrays written as lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Body, How, Statement, axes_of
from symgrad.ir.index.shapes import Shape, simplified
from symgrad.ir.node import Node
from symgrad.ops.arrays.views import sliced
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import (
    COMPILED,
    OPS,
    PARTS,
    answers,
    is_traced,
    native,
    normal_axis,
    refuse,
    shape_of,
    structured,
)


def _concatenate_infer(*xs: Node, axis: int) -> tuple[Shape, Any]:
    first = xs[0]
    total: Any = 0
    for x in xs:
        if len(x.shape) != len(first.shape) or any(
            a != b for k, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if k != axis
        ):
            raise ShapeError(
                f"cannot concatenate {shapes.show(first.shape)} and {shapes.show(x.shape)} along axis {axis}"
            )
        total = total + x.shape[axis]
    return (*first.shape[:axis], simplified(total), *first.shape[axis + 1 :]), first.dtype


def _concatenate_body(node: Node) -> Body:
    axis = node.param("axis")
    statements, offset = [], 0
    for k, x in enumerate(node.inputs):
        axes = axes_of(x.shape)
        one = x.shape[axis] == 1  # its only place is a number, and costs no algebra
        target = tuple([(offset if one else a + offset) if d == axis else a for d, a in enumerate(axes)])
        statements.append(Statement(Access(-1, target), How.SET, Access(k, axes), axes, node.line))
        offset = simplified(offset + x.shape[axis])
    return Body(tuple(statements))


def _concatenate_vjp(g: Any, y: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    extents = [shape_of(x)[axis] for x in xs]
    starts = accumulate(extents[:-1], initial=0)
    return tuple([sliced(g, axis, start, extent) for start, extent in zip(starts, extents, strict=True)])


concatenate = structured(
    name="concatenate", params=("axis",), infer=_concatenate_infer, body=_concatenate_body, vjp=_concatenate_vjp,
    evaluate=lambda *xs, axis: np.concatenate(xs, axis), moves=True,
    text=lambda node, names: f"np.concatenate(({', '.join(names)},), axis={node.params[0]})",
    sample=(case(lambda a, b: np.concatenate([a, b, a], axis=1) ** 2, (2, 3), (2, 2)),
            case(lambda a, b: np.stack([a, b], axis=-1) ** 2, (3,), (3,))),
    edges=(case(lambda a, b: np.concatenate([a, b]), (0,), (2,)),),
)


def traced_among(values: Iterable[Any]) -> Iterator[Any]:
    """List the traced values among others, in order, at any depth of lists and tuples."""
    stack = [*values][::-1]
    while stack:
        item = stack.pop()
        if is_traced(item):
            yield item
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))


def holds_traced(value: Any) -> bool:
    """Whether a list (of lists ...) holds a traced array."""
    return any(True for _ in traced_among([value]))


def settled_value(value: Any) -> Any:
    """Return a local array as the traced or plain one it is now; anything else as it is."""
    return value.settle() if hasattr(type(value), "settle") else value


def lift(value: Any, dtype: Any = None) -> Any:
    """Return a traced or a plain array for what NumPy takes as one: an array, a number, lists of these."""
    if is_traced(value):
        value = value.tracer() if hasattr(type(value), "dim") else value
        return value if dtype is None else value.astype(dtype)
    if isinstance(value, (list, tuple)) and holds_traced(value):
        return np.stack([lift(item, dtype) for item in value])
    if isinstance(value, np.poly1d) and is_traced(value.coeffs):
        return lift(value.coeffs, dtype)
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        native(found.dtype)  # refused: a cast would drop an imaginary part, or take dates and objects as numbers
    return found if dtype is None else np.asarray(value, dtype)


def along_axis(a: Any, axis: Any) -> tuple[Any, int]:
    """Lift an array, and count its axis from the front; for None it is laid flat, as most of NumPy's functions do.

    What has no axes is laid flat for the axes 0 and -1, too.
    """
    a = lift(a)
    k = 0 if axis is None else normal_axis(axis, max(a.ndim, 1))
    return (np.ravel(a) if axis is None or not a.ndim else a, k)


def _of_one_dtype(xs: Any, dtype: Any, casting: Any) -> list[Any]:
    """Lift what is joined and give it one dtype, where `casting` allows."""
    parts = [lift(x) for x in xs]
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*[p.dtype for p in parts])
    if kind not in COMPILED and any(map(is_traced, parts)):
        what = {"U": "texts", "S": "bytes", "O": "objects", "c": "complex numbers"}.get(kind.kind, "no numbers")
        raise UnsupportedError(
            f"traced values in an array of {what} ({kind}): symgrad compiles bool, integers, float32 and float64",
            instead=PARTS if kind.kind == "c" else "an array of the numbers alone, and a list or a tuple for the rest",
        )
    for p in parts:
        if not np.can_cast(p.dtype, kind, casting):
            raise ArgumentError(f"cannot join arrays of {p.dtype} as {kind} by the rule casting={casting!r}")
    return [p if p.dtype == kind else p.astype(kind) for p in parts]


@answers(np.concatenate)
def concatenate_answer(
    xs: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind",
) -> Any:
    refuse("concatenate", out=out)
    if is_traced(xs):
        xs = list(xs)
    parts = _of_one_dtype(xs, dtype, casting)
    if axis is None:
        parts, axis = [np.ravel(p) for p in parts], 0
    if any(p.ndim == 0 for p in parts):
        raise ShapeError("zero-dimensional arrays cannot be concatenated", instead="np.stack, or np.array([x, y])")
    return concatenate(*parts, axis=normal_axis(axis, parts[0].ndim))


@answers(np.stack)
def stack_answer(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    refuse("stack", out=out)
    parts = _of_one_dtype(arrays, dtype, casting)
    if any(shape_of(p) != shape_of(parts[0]) for p in parts) and all(shapes.is_static(shape_of(p)) for p in parts):
        different = sorted({shapes.show(shape_of(p)) for p in parts})
        raise ShapeError(f"all input arrays must have the same shape, not {', '.join(different)}")
    k = normal_axis(axis, parts[0].ndim + 1)
    return concatenate(*[OPS["expand_dims"](p, axes=(k,)) for p in parts], axis=k)

"""Convolution and correlation of two one-dimensional arrays, in index notation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, How, Number, Statement
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import promoted
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import adding, flipped, sliced
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, answers, apply, is_traced, shape_of, structured
from symgrad.ops.numpy.reductions import require_some


def _two_vectors(length: Callable[[Any, Any], Any]) -> Callable[[Node, Node], tuple[Shape, Any]]:
    """Return the shape rule of an op of two vectors, whose result has a length that depends on theirs."""

    def infer(a: Node, b: Node) -> tuple[Shape, Any]:
        if len(a.shape) != 1 or len(b.shape) != 1 or a.dtype != b.dtype:
            found = " and ".join(f"{x.dtype}{shapes.show(x.shape)}" for x in (a, b))
            raise ShapeError(f"two vectors of one dtype are needed, not {found}")
        return (shapes.simplified(length(a.shape[0], b.shape[0])),), a.dtype

    return infer


def _sliding(node: Node, *, spread: bool) -> Body:
    """Zeros, then ``T[i + j] += A[i] * B[j]``, or ``T[i] += A[i + j] * B[j]``."""
    i, j = Axis("i", (node.inputs[0] if spread else node).shape[0]), Axis("j", node.inputs[1].shape[0])
    (target, left), start, dtype = (i + j, i) if spread else (i, i + j), Axis("i", node.shape[0]), node.dtype
    product = apply("logical_and" if dtype.kind == "b" else "multiply", dtype, Access(0, (left,)), Access(1, (j,)))
    return Body((
        Statement(Access(-1, (start,)), How.SET, Number(0, dtype), (start,), node.line),
        Statement(Access(-1, (target,)), adding(dtype), product, (i, j), node.line),
    ))


convolve = structured(
    name="convolve", infer=_two_vectors(lambda n, m: n + m - 1), evaluate=np.convolve,
    body=lambda node: _sliding(node, spread=True),
    vjp=lambda g, y, a, b: (OPS["slide"](g, b), OPS["slide"](g, a)), regular=True, linear=(0, 1), batched=None,
    sample=(case(lambda a, b: np.convolve(a, b) ** 2, (5,), (3,)),
            case(lambda a, b: np.convolve(a, b, "same") ** 2, (2,), (4,))),
    edges=(case(np.convolve, (1,), (1,)),), doc="``y[i + j] += a[i] * b[j]``.",
)

slide = structured(
    name="slide", infer=_two_vectors(lambda n, m: n - m + 1), evaluate=lambda a, b: np.correlate(a, b, "valid"),
    body=lambda node: _sliding(node, spread=False),
    vjp=lambda g, y, a, b: (OPS["convolve"](g, b), OPS["slide"](a, g)), regular=True, linear=(0, 1), batched=None,
    sample=(case(lambda a, b: OPS["slide"](a, b) ** 2, (5,), (3,)),
            case(lambda a, b: np.correlate(a, b) ** 2, (4,), (6,))),
    edges=(case(lambda a, b: OPS["slide"](a, b) + 1, (3,), (3,)),),
    doc="``y[i] += a[i + j] * b[j]``: b slides along a.",
)


def _vectors(name: str, a: Any, v: Any) -> tuple[Any, Any]:
    a, v = np.atleast_1d(lift(a)), np.atleast_1d(lift(v))
    kind = promoted(a, v)
    if shape_of(a)[0] == 0 or shape_of(v)[0] == 0:
        raise ArgumentValueError(f"{name}: {'a' if shape_of(a)[0] == 0 else 'v'} cannot be empty")
    if a.ndim != 1 or v.ndim != 1:
        raise ShapeError("object too deep for desired array")
    for vector in (a, v):
        require_some(vector, 0, name.removeprefix("np."))
    return a if a.dtype == kind else a.astype(kind), v if v.dtype == kind else v.astype(kind)


def _is_shorter(a: Any, v: Any, mode: str) -> bool | None:
    """Whether a vector is shorter than another; of open extents calls where it is otherwise are compiled apart.

    None where each of them may be the larger one.
    """
    n, m = shape_of(a)[0], shape_of(v)[0]
    if type(n) is type(m) is int or n == m:
        return bool(n < m)
    owner = (a if is_traced(a) else v).owner
    larger = owner.greater(n, m, f'mode="{mode}"', strictly=False)
    if larger is None or (mode == "same" and type(m if larger else n) is not int):
        return None
    return not larger


def _cut_between(full: Any, n: Any, m: Any, mode: str) -> Any:
    """Cut a convolution out of the full one, of whichever vector is the longer one."""
    import sympy

    longer, shorter = sympy.Max(n, m), sympy.Min(n, m)
    return sliced(full, 0, shorter - 1, longer - shorter + 1) if mode == "valid" else _cut_middle(
        full, shorter, longer, mode)


def _cut_middle(full: Any, shorter: Any, longer: Any, mode: str) -> Any:
    """Cut the middle out of a full convolution."""
    if mode == "same":
        return sliced(full, 0, (shorter - 1) // 2, longer)
    raise ArgumentValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")


@answers(np.convolve)
def convolve_answer(a: Any, v: Any, mode: str = "full") -> Any:
    a, v = _vectors("np.convolve", a, v)
    if mode == "full":
        return convolve(a, v)
    shorter = _is_shorter(a, v, mode)
    if shorter is None:
        return _cut_between(convolve(a, v), shape_of(a)[0], shape_of(v)[0], mode)
    if shorter:
        a, v = v, a
    if mode == "valid":
        return slide(a, flipped(v, (0,)))
    return _cut_middle(convolve(a, v), shape_of(v)[0], shape_of(a)[0], mode)


@answers(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    a, v = lift(a), lift(v)
    if not a.ndim or not v.ndim:
        raise ShapeError("np.correlate of a number: object of too small depth for desired array")
    a, v = _vectors("np.correlate", a, v)
    if mode == "full":
        return convolve(a, flipped(v, (0,)))
    shorter = _is_shorter(a, v, mode)
    if shorter is None and mode == "valid":
        return _cut_between(convolve(a, flipped(v, (0,))), shape_of(a)[0], shape_of(v)[0], mode)
    if shorter is None:
        raise UnsupportedError(
            f'np.correlate(..., mode="{mode}") needs to know which of the lengths {shape_of(a)[0]} and '
            f'{shape_of(v)[0]} is greater', instead='mode="full" and a slice, or np.convolve(a, v[::-1], mode)',
        )
    if shorter:
        return flipped(correlate(v, a, mode), (0,))
    if mode == "valid":
        return slide(a, v)
    return _cut_middle(convolve(a, flipped(v, (0,))), shape_of(v)[0], shape_of(a)[0], mode)

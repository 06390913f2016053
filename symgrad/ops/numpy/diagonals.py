"""Diagonals, triangles and unit matrices as NumPy writes them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ir.index.shapes import Dim, Shape, simplified
from symgrad.ops.arrays.copies import filled
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import OPS, answers, normal_axis, shape_of
from symgrad.ops.numpy.manipulation import static


@answers(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a = lift(a)
    if a.ndim < 2:
        raise ShapeError("diag requires an array of at least two dimensions")
    i, j = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    if i == j:
        raise ShapeError("axis1 and axis2 cannot be the same")
    order = (*[k for k in range(a.ndim) if k not in {i, j}], i, j)
    moved = a if order == tuple(range(a.ndim)) else OPS["transpose"](a, axes=order)
    return OPS["diagonal"](moved, offset=operator.index(static("diagonal", "offset", offset)))


@answers(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return np.sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@answers(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    v = lift(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError("Input must be 1- or 2-d.")
    k = operator.index(static("diag", "k", k))
    extent = simplified(shape_of(v)[0] + abs(k))
    return OPS["embed_diagonal"](v, offset=k, shape=(extent, extent))


def _triangle(m: Any, k: Any, *, upper: bool) -> Any:
    m = lift(m)
    if m.ndim == 0:
        raise UnsupportedError("np.tril and np.triu need at least one axis")
    if m.ndim == 1:
        m = OPS["broadcast_to"](m, shape=shape_of(m) * 2)
    return OPS["triangle"](m, upper=upper, k=operator.index(static("tril", "k", k)))


@answers(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, upper=False)


@answers(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, upper=True)


def ones_diagonal(like: Any, extent: Dim, shape: Shape, dtype: Any) -> Any:
    """Return unit matrices of a shape, in the trace of `like`."""
    eye = OPS["embed_diagonal"](filled(like, 1, (extent,), dtype), offset=0, shape=(extent, extent))
    return OPS["broadcast_to"](eye, shape=(*shape, extent, extent)) if shape else eye

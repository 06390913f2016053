"""Norms, with gradient 0 at 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ops.declare.forms import OPS, answers, normal_axis, shape_of
from symgrad.ops.numpy.reductions import floating, keep_dims, require_some, root


@answers(np.linalg.norm, neutral={"x": 0})
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = floating(x)
    frobenius = (isinstance(ord, str) and ord in {"f", "fro"} and x.ndim == 2) or (ord == 2 and x.ndim == 1)
    if axis is None and (ord is None or frobenius):
        axes = tuple(range(x.ndim))
        return keep_dims(_euclidean(x, axes), axes, keepdims)
    axes = _given_axes(x, axis)
    if len(axes) == 1:
        return keep_dims(_norm_of_vectors(x, ord, axes), axes, keepdims)
    if len(axes) != 2:
        raise ShapeError("Improper number of dimensions to norm.")
    if axes[0] == axes[1]:
        raise ShapeError("Duplicate axes given.")
    return keep_dims(_norm_of_matrices(x, ord, axes[0], axes[1]), tuple(sorted(axes)), keepdims)


def _given_axes(x: Any, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    if not isinstance(axis, tuple):
        if not hasattr(axis, "__index__"):
            raise UnsupportedError("'axis' must be None, an integer or a tuple of integers")
        axis = (axis,)
    return tuple([normal_axis(k, x.ndim) for k in axis])


def _euclidean(x: Any, axes: tuple[int, ...]) -> Any:
    return root(OPS["sum"](x * x, axes=tuple(sorted(axes))))


def _greatest(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the maximum of what is not negative: 0 where there is nothing."""
    reduced = [shape_of(x)[k] for k in axes]
    if 0 in reduced:
        return OPS["sum"](x, axes=axes)
    y = OPS["max"](x, axes=axes)
    return y if all(type(d) is int for d in reduced) else np.maximum(y, 0)


def _infinity_norm(order: float, x: Any, axes: tuple[int, ...]) -> Any:
    if order > 0:
        return _greatest(x, axes)
    if any(shape_of(x)[k] == 0 for k in axes):
        raise ArgumentValueError("zero-size array to reduction operation minimum which has no identity")
    for k in axes:
        require_some(x, k, "linalg.norm")
    return OPS["min"](x, axes=axes)


def _norm_of_vectors(x: Any, order: Any, axes: tuple[int, ...]) -> Any:
    if order is None or order == 2:
        return _euclidean(x, axes)
    if isinstance(order, str):
        raise ArgumentValueError(f"Invalid norm order '{order}' for vectors")
    size = np.abs(x)
    if order in {np.inf, -np.inf}:
        return _infinity_norm(order, size, axes)
    if order == 0:
        return OPS["sum"](np.not_equal(x, 0).astype(x.dtype), axes=axes)
    if order == 1:
        return OPS["sum"](size, axes=axes)
    power = np.asarray(order, x.dtype)
    terms = size**power
    if 0 < order < 1:  # the derivative of a root is infinite at 0
        terms = np.where(np.equal(x, 0), np.zeros((), x.dtype), terms)
    total = OPS["sum"](terms, axes=axes)
    inverse = np.asarray(1, x.dtype) / power
    return total**inverse if order < 0 else np.where(np.equal(total, 0), np.zeros((), x.dtype), total**inverse)


def _norm_of_matrices(x: Any, order: Any, rows: int, columns: int) -> Any:
    if order is None or (isinstance(order, str) and order in {"f", "fro"}):
        return _euclidean(x, (rows, columns))
    if (isinstance(order, str) and order == "nuc") or order in {2, -2}:
        rest = [k for k in range(x.ndim) if k not in {rows, columns}]
        values = np.linalg.svd(np.transpose(x, (*rest, rows, columns)), compute_uv=False)
        last = (len(rest),)
        return OPS["sum"](values, axes=last) if order == "nuc" else _infinity_norm(order, values, last)
    if isinstance(order, str) or order not in {1, -1, np.inf, -np.inf}:
        raise ArgumentValueError("Invalid norm order for matrices.")
    summed, over = (rows, columns) if order in {1, -1} else (columns, rows)
    total = OPS["sum"](np.abs(x), axes=(summed,))
    return _infinity_norm(order, total, (over - (summed < over),))

"""Products of vectors and matrices that are made of other products."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ops.arrays.contract import LETTERS, contract
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import answers, normal_axis, refuse, shape_of


class NotSquare(ShapeError, np.linalg.LinAlgError):  # noqa: N818 - stands beside LinAlgError
    """A matrix that would have to be square."""


@answers(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """As `numpy.linalg.multi_dot`: the cheapest order of products is chosen."""
    refuse("linalg.multi_dot", out=out)
    parts = [lift(x) for x in arrays]
    if len(parts) < 2:
        raise ShapeError("Expecting at least two arrays.")
    ranks = [p.ndim for p in parts]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ShapeError(f"multi_dot takes matrices, and vectors at the ends, not arrays of {ranks} axes")
    for left, right in pairwise(parts):
        if shape_of(left)[-1] != shape_of(right)[0]:
            raise ShapeError(f"shapes {shapes.show(shape_of(left))} and {shapes.show(shape_of(right))} not aligned")
    terms = [LETTERS[k : k + 2] for k in range(len(parts))]
    if ranks[0] == 1:
        terms[0] = terms[0][1]
    if ranks[-1] == 1:
        terms[-1] = terms[-1][0]
    result = (terms[0][0] if ranks[0] > 1 else "") + (terms[-1][-1] if ranks[-1] > 1 else "")
    return contract(f"{','.join(terms)}->{result}", *parts)


def _has_axes(x: Any) -> Any:
    x = lift(x)
    if x.ndim == 0:
        raise ShapeError("vecdot: an operand has no axes")
    return x


@answers(np.linalg.vecdot)
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    a, b = lift(x1), lift(x2)
    return vecdot(*[np.moveaxis(x, normal_axis(axis, x.ndim), -1) for x in (a, b)])


def _require_same_length(name: str, n: Any, m: Any) -> None:
    if n != m:
        raise ShapeError(f"{name}: the extents {n} and {m} that are summed over differ")


def vecdot(x1: Any, x2: Any, /) -> Any:
    a, b = _has_axes(x1), _has_axes(x2)
    _require_same_length("vecdot", shape_of(a)[-1], shape_of(b)[-1])
    return np.matmul(a[..., None, :], b[..., :, None])[..., 0, 0]


def matvec(x1: Any, x2: Any, /) -> Any:
    a, b = lift(x1), _has_axes(x2)
    if a.ndim < 2:
        raise ShapeError("matvec: the first operand needs two axes")
    _require_same_length("matvec", shape_of(a)[-1], shape_of(b)[-1])
    return np.matmul(a, b[..., :, None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Any:
    a, b = _has_axes(x1), lift(x2)
    if b.ndim < 2:
        raise ShapeError("vecmat: the second operand needs two axes")
    _require_same_length("vecmat", shape_of(a)[-1], shape_of(b)[-2])
    return np.matmul(a[..., None, :], b)[..., 0, :]


for _function in (vecdot, matvec, vecmat):  # vecdot came with NumPy 2.0, the others with 2.2
    if hasattr(np, _function.__name__):
        answers(getattr(np, _function.__name__))(_function)


@answers(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """As `numpy.vander`, the powers by running products."""
    x = lift(x)
    if x.ndim != 1:
        raise ShapeError("x must be a one-dimensional array or sequence.")
    count = shape_of(x)[0] if N is None else N
    if type(count) is not int:
        raise UnsupportedError("np.vander of an unknown extent without N", instead="np.vander(x, N) with a number")
    if count < 0:
        raise ShapeError("negative dimensions are not allowed")
    x = x.astype(np.promote_types(x.dtype, int))
    if count == 0:
        return np.zeros_like(x, shape=(*x.shape, 0))
    ones = np.ones_like(x)[:, None]
    powers = ones if count == 1 else np.concatenate([ones, np.broadcast_to(x[:, None], (*x.shape, count - 1))], axis=1)
    columns = np.cumprod(powers, axis=1)
    return columns if increasing else columns[:, ::-1]

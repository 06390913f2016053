"""Products of vectors and matrices that are made of other products."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.index import shapes
from symgrad.ops.arrays.contract import LETTERS, contract
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import answers, refuse, shape_of


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


def _core_product(name: str, left: str, right: str, result: str) -> Any:
    """Answer a product of the last axes, by their labels."""

    def product(x1: Any, x2: Any, /) -> Any:
        a, b = lift(x1), lift(x2)
        if a.ndim < len(left) or b.ndim < len(right):
            raise ShapeError(f"{name}: {a.ndim} and {b.ndim} axes, where {len(left)} and {len(right)} are multiplied")
        n, m = shape_of(a)[-1], shape_of(b)[right.index("n") - len(right)]
        if n != m:
            raise ShapeError(f"{name}: the extents {n} and {m} that are summed over differ")
        return np.einsum(f"...{left},...{right}->...{result}", a, b)

    return product


for _name, *_labels in (("vecdot", "n", "n", ""), ("matvec", "mn", "n", "m"), ("vecmat", "n", "nm", "m")):
    if hasattr(np, _name):  # vecdot came with NumPy 2.0, the others with 2.2
        answers(getattr(np, _name))(_core_product(_name, *_labels))

"""Rules of `cheaper` for sums of products in other words: broadcast, multiplied and added up, or turned afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symgrad.ops.arrays.contract import LETTERS, einsum
from symgrad.ops.arrays.views import squeeze
from symgrad.transforms.build import make

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.transforms.rewrite.engine import Run


def multiplied(run: Run, node: Node) -> Node | None:
    """Contract what is broadcast, multiplied and summed: ``sum(A[:, :, None] * B, axis=1)`` is ``A @ B``.

    Each factor has an axis of its own that is kept: the products would be more than either.
    """
    x, axes = node.inputs[0], node.param("axes")
    if x.op.numpy is not np.multiply or x.dtype.kind != "f" or not run.is_single(x):
        return None
    labels, factors, terms = LETTERS[: len(x.shape)], [], []
    for factor in x.inputs:
        missing = len(x.shape) - len(factor.shape)
        ones = tuple([k for k, dim in enumerate(factor.shape) if dim == 1])
        factors.append(make(run.graph, squeeze, factor, axes=ones) if ones else factor)
        terms.append("".join([labels[k + missing] for k in range(len(factor.shape)) if k not in ones]))
    gone = {labels[axis] for axis in axes}
    one, other = map(set, terms)
    if not (gone and gone <= one & other and one - other and other - one) or {1}.intersection(x.shape):
        return None
    result = "".join([label for label in labels if label not in gone])
    return make(run.graph, einsum, *factors, subscripts=f"{','.join(terms)}->{result}")


def turned(run: Run, node: Node) -> Node | None:
    """Let a sum of products have its axes in the order of its transpose, where nothing else reads it."""
    x = node.inputs[0]
    if not x.op.labels or not run.is_single(x):
        return None
    terms, result = x.op.labels(**x.named)
    order = "".join([result[axis] for axis in node.param("axes")])
    return make(run.graph, einsum, *x.inputs, subscripts=f"{','.join(terms)}->{order}")

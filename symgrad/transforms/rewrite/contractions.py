"""Rules for sums of products: in other words (broadcast, multiplied, added up), turned afterwards, by units."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from symgrad import ops
from symgrad.ir.program import copied
from symgrad.ops.arrays.contract import LETTERS, einsum
from symgrad.ops.arrays.views import embed_diagonal, slice_, squeeze
from symgrad.transforms.build import array, literal, make, scalar
from symgrad.transforms.tuned import TAPS

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.transforms.rewrite.engine import Run


def labelled(node: Node) -> tuple[list[str], str]:
    """Name the axes of the operands and of the result of a sum of products, or of a sum of elementwise ones."""
    if node.op.labels:
        return node.op.labels(**node.named)  # type: ignore[no-any-return]  # as `parse` of einsum does
    shape = node.inputs[0].shape
    whole = LETTERS[: len(shape)]
    terms = [whole[len(whole) - len(factor.shape) :] for factor in node.inputs[0].inputs]
    return terms, "".join([label for k, label in enumerate(whole) if k not in node.param("axes")])


def behind_view(view: Node, labels: str) -> str:
    """Name the axes of what was transposed, or got new axes; nothing for other views."""
    axes = view.param("axes") if view.op.view and "axes" in view.op.params else ()
    if sorted(axes) == list(range(len(view.inputs[0].shape))) and len(axes) == len(labels):
        return "".join([labels[axes.index(axis)] for axis in range(len(axes))])
    added = view.op.ordered and len(labels) == len(view.inputs[0].shape) + len(axes)
    return "".join([x for k, x in enumerate(labels) if k not in axes]) if added else ""


def multiplied(run: Run, node: Node) -> Node | None:
    """Contract what is broadcast, multiplied and summed: ``sum(A[:, :, None] * B, axis=1)`` is ``A @ B``.

    Each factor has an axis of its own that is kept: the products would be more than either.
    """
    x, axes = node.inputs[0], node.param("axes")
    if x.op.numpy is not np.multiply or x.dtype.kind != "f" or not run.is_single(x):
        return None
    (named, result), factors, terms = labelled(node), [], []
    for factor, labels in zip(x.inputs, named, strict=True):
        ones = tuple([k for k, dim in enumerate(factor.shape) if dim == 1])
        factors.append(make(run.graph, squeeze, factor, axes=ones) if ones else factor)
        terms.append("".join([label for k, label in enumerate(labels) if k not in ones]))
    gone = {LETTERS[axis] for axis in axes}
    one, other = map(set, terms)
    if not (gone and gone <= one & other and one - other and other - one) or {1}.intersection(x.shape):
        return None
    return make(run.graph, einsum, *factors, subscripts=f"{','.join(terms)}->{result}")


def slid(run: Run, node: Node) -> Node | None:
    """Write what slides along a signal, a few numbers, as sums of products with slices of it."""
    x, few = node.inputs
    if not _is_few(few) or node.dtype.kind != "f":
        return None
    moved = [make(run.graph, slice_, x, index=((k, node.shape[0], 1),)) for k in range(few.shape[0])]
    total: Node = reduce(partial(make, run.graph, ops.add), [_tapped(run, one, few, k) for k, one in enumerate(moved)])
    return total


def convolved(run: Run, node: Node) -> Node | None:
    """Write a convolution with few numbers as multiples of the signal, placed one after the other."""
    x, few = node.inputs if _is_few(node.inputs[1]) else node.inputs[::-1]
    if not _is_few(few) or node.dtype.kind != "f":
        return None
    taps = range(few.shape[0])
    places = tuple([((k, x.shape[0], 1),) for k in taps])
    parts = [_tapped(run, x, few, k) for k in taps]
    made: Node = make(run.graph, ops.place, *parts, indices=places, shape=node.shape)
    return made


def _tapped(run: Run, x: Node, few: Node, k: int) -> Node:
    taps = array(few)
    tap = make(run.graph, slice_, few, index=((k,),)) if taps is None else literal(run.graph, taps[k])
    made: Node = run.settled(make(run.graph, ops.multiply, x, tap))
    return made


def _is_few(x: Node) -> bool:
    return type(x.shape[0]) is int and 0 < x.shape[0] <= TAPS


def transposed_sum(run: Run, node: Node) -> Node | None:
    """Let a sum of products have its axes in the order of its transpose, where nothing else reads it."""
    x = node.inputs[0]
    if not x.op.labels or not run.is_single(x):
        return None
    terms, result = x.op.labels(**x.named)
    order = "".join([result[axis] for axis in node.param("axes")])
    return make(run.graph, einsum, *x.inputs, subscripts=f"{','.join(terms)}->{order}")


def without_units(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Copy a node; of a sum of products with a unit matrix, the other factors: ``einsum("bk,mk->bm", I, A)`` is A.T.

    A column of a Jacobian is then A's own, also beside an infinity: 0 * inf is not in it.
    """
    if node.op.labels and len(inputs) > 1:
        terms, result = node.op.labels(**node.named)
        for k, x in enumerate(inputs):
            if x.op is not embed_diagonal or x.param("offset") != 0 or len(x.shape) != 2 or scalar(x.inputs[0]) != 1:
                continue
            if not x.shape[0] == x.shape[1] == x.inputs[0].shape[0]:
                continue
            rest = [t for j, t in enumerate(terms) if j != k]
            for axis in (0, 1):
                kept, gone = terms[k][axis], terms[k][1 - axis]
                if gone not in result and any(gone in t for t in rest) and not any(kept in t for t in rest):
                    left = ",".join(t.replace(gone, kept) for t in rest)
                    return make(graph, einsum, *inputs[:k], *inputs[k + 1 :], subscripts=f"{left}->{result}")
    return copied(graph, node, inputs)

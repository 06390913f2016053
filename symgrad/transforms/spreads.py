"""`spreads`: the sum of squares around a mean is taken in the walk that takes the mean.

``np.sum((x - np.mean(x, 0))**2, 0)``, in a variance, goes through x a second time. Around any point s it is
``np.sum((x - s)**2, 0) - np.sum(x - s, 0)**2 / n``, without the mean, and keeps its digits where s is near it (Chan,
Golub, LeVeque: Algorithms for computing the sample variance, 1983): the difference is of numbers that are
``1 + (s - mean)**2 / variance`` times the result. Around 0 that has no bound. Here s is the mean of a sample of the
elements, at equal steps through all of them: the factor is 1.03 in the mean, and at most n / 32, for they are among the
n. The sum for the mean is taken around s as well, which costs it no digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ir.index.regions import Region, whole
from symgrad.ir.index.shapes import is_static, size
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.arrays.views import inverse_order, slice_
from symgrad.transforms.build import behind_spread, is_along, is_sum, make, number, written
from symgrad.transforms.tuned import SAMPLED, SAMPLED_BEHIND, SPREAD


def spreads(program: Program) -> Program:
    """Take long sums of squares around means, and the sums of these means, around the mean of a sample.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x: np.var(x))
    >>> print(f.lower(np.ones(4096)).as_text("loops").splitlines()[1])
    # i<32 simd {  }; i<4096 tile 1024 { i<4096 simd {  } }
    """
    squares = {node: total for node in program.nodes() if (total := _mean_total(node, _squared_difference)) is not None}
    if not squares:
        return program
    totals = frozenset(squares.values())

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        if old in totals or old in squares:
            x, axes = inputs[0] if old in totals else _squared_difference(inputs[0])[0], old.param("axes")
            each = max(2, round(SAMPLED ** (1 / len(axes))))  # so many along each of the axes
            places = tuple([
                (0, min(d, each), d // min(d, each)) if k in axes else (0, d, 1) for k, d in enumerate(x.shape)
            ])
            sample = _sample(graph, x, places, program.start)
            if sample is not None:
                return written(graph, _total_around if old in totals else _squares_around, x, sample, axes=axes)
        elif _mean_total(old, _scaled_difference) in totals:
            _, mean, *factors = _scaled_difference(inputs[0])
            quotient = behind_spread(mean)
            return written(graph, _rest, behind_spread(quotient.inputs[0]), *quotient.inputs, *factors, shape=old.shape)
        return copied(graph, old, inputs)

    return rebuild(program, rewrite)


def _near_mean(x: Any, start: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return a point near the mean, how many elements there are, and how far they are from it."""
    count = x.dtype.type(math.prod(x.shape[k] for k in axes))
    point = np.sum(start, axis=axes, keepdims=True) / start.dtype.type(math.prod(start.shape[k] for k in axes))
    point = np.where(np.isfinite(point * count), point, x.dtype.type(0))
    return point, count, x - point


def _total_around(x: Any, start: Any, axes: tuple[int, ...]) -> Any:
    """Sum elements."""
    point, count, away = _near_mean(x, start, axes)
    return np.squeeze(point * count, axes) + np.sum(away, axis=axes)


def _squares_around(x: Any, start: Any, axes: tuple[int, ...]) -> Any:
    """Sum the squares of the elements' distances from their mean."""
    _, count, away = _near_mean(x, start, axes)
    total, squares = np.sum(away, axis=axes), np.sum(np.square(away), axis=axes)
    is_beyond = np.isinf(squares) & np.isfinite(total)  # numbers, whose squares are too large
    return np.where(is_beyond, squares, np.maximum(squares - total * (total / count), x.dtype.type(0)))


def _rest(total: Any, dividend: Any, count: Any, *factors: Any, shape: Any) -> Any:
    """Sum the elements' distances from their mean: what that was rounded by."""
    rest = np.reshape(total, shape) - np.reshape(dividend / count, shape) * count
    return factors[0] * rest if factors else rest


def _mean_total(node: Node, pair_of: Callable[[Node], tuple[Node, ...]]) -> Node | None:
    """Return the sum for the mean in a long sum of something that is made of distances from it; None of another."""
    if not is_sum(node) or not is_static(node.inputs[0].shape):
        return None
    axes, shape = node.param("axes"), node.inputs[0].shape
    count = math.prod(shape[k] for k in axes)
    pair = pair_of(node.inputs[0]) if count >= SPREAD else ()
    if not pair or pair[0].shape != shape or not is_along(pair[1].shape, shape, axes):
        return None
    x, mean = pair[:2]
    quotient = behind_spread(mean)
    if quotient.op.numpy is not np.divide or number(quotient.inputs[1]) != count:
        return None
    total = behind_spread(quotient.inputs[0])
    is_its = is_sum(total) and total.inputs[0] is x and total.param("axes") == axes
    return total if is_its and size(total.shape) == size(mean.shape) else None


def _squared_difference(node: Node) -> tuple[Node, ...]:
    """Return the two whose difference is squared, nothing where there is no such."""
    away = node.inputs[:1]
    is_square = node.op.numpy is np.square or (node.op.numpy is np.multiply and node.inputs == away * 2)
    return away[0].inputs if is_square and away[0].op.numpy is np.subtract else ()


def _scaled_difference(node: Node) -> tuple[Node, ...]:
    """Return the two whose difference it is, and the number by which that is multiplied, if it is."""
    factors = [i for i in node.inputs if i.shape == () and number(i) is not None]
    if node.op.numpy is np.multiply and len(factors) == 1:
        found = _scaled_difference(node.inputs[node.inputs[0] in factors])
        return (*found, *factors) if len(found) == 2 else ()
    return node.inputs if node.op.numpy is np.subtract else ()


def _sample(graph: Graph, node: Node, places: Region, start: int, depth: int = SAMPLED_BEHIND) -> Node | None:
    """Make some elements of a value, of elements of what is there before: None where that is not so simple."""
    if places == whole(node.shape):
        return node
    source, op = node, node.op
    while source.op.view:
        source = source.inputs[0]
    if not source.inputs or source.number < start:
        return make(graph, slice_, node, index=places)
    parts: list[Region]
    if op.whole and sorted(axes := node.named.get("axes", ())) == [*range(len(node.shape))]:  # in another order
        parts = [tuple([places[k] for k in inverse_order(axes)])]
    elif isinstance(op, Elementwise):
        parts = [
            tuple([(0, 1, 1) if d == 1 else places[k] for k, d in enumerate(i.shape, len(node.shape) - len(i.shape))])
            for i in node.inputs
        ]
    elif op.labels:
        terms, result = op.labels(**node.named)
        at = dict(zip(result, places, strict=True))
        parts = [
            tuple([(0, d, 1) if d == 1 else at.get(label, (0, d, 1)) for label, d in zip(term, i.shape, strict=True)])
            for term, i in zip(terms, node.inputs, strict=True)
        ]
    else:
        return None
    found = [
        one for i, part in zip(node.inputs, parts, strict=True)
        if depth and (one := _sample(graph, i, part, start, depth - 1)) is not None
    ]
    return make(graph, op, *found, **node.named) if len(found) == len(parts) else None

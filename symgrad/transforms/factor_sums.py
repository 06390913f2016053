"""`factor_sums`: a sum of products is taken before the product where only one factor has the axis.

``sum(einsum("nki,kij->nkj", pulls, factors), axis=0)`` is ``einsum("ki,kij->kj", sum(pulls, axis=0), factors)``:
n times less work. Gradients of parameters that stand before a linear map, offsets above all, are made of such sums.
It is no rule of a table, for between the sum and the product there may be sums, differences and signs.

Likewise ``sum(a * x)`` is ``a * sum(x)`` where a is the same along the axis and needs another sum first, as in the
gradient of a variance: x can be summed before a is known, and is not walked through once more. And of ``sum(x * y)``
and ``sum(-(x * a) * (y * b))``, in gradients of what is normalized, the second one is made of the first.

A sum of sums, as in ``np.mean(-0.5 * np.sum(x, axis=1))``, is one sum: where rows end is of no account.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.index.shapes import size, upper
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise, Op
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ops.arrays.contract import einsum
from symgrad.ops.arrays.reduce import sum_
from symgrad.ops.arrays.views import squeeze
from symgrad.ops.declare.traits import traits
from symgrad.ops.elementwise.arithmetic import negative
from symgrad.transforms.build import in_order, is_sum, make, scalar
from symgrad.transforms.tuned import SCALED_DOUBLES, SCALED_SINGLES, TERMS_DEEP


def factor_sums(program: Program) -> Program:
    """Sum factors before products, where the products have no other use and the factor's sum is no larger than theirs.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.grad(lambda mean, x, a: np.sum(np.square((x - mean) @ a)))
    >>> print(f.lower(np.ones(4), np.ones((9, 4)), np.ones((4, 4))).as_text().count("np.sum"))
    1
    """
    program = _of_sums(program)
    nodes = program.nodes()
    sums = {node: frozenset(node.param("axes")) for node in nodes if _doubles(node)}
    terms = [node.inputs[0] for node in sums]
    if not any(x.op.labels or _is_linear_in(x) or x.op.numpy is np.multiply for x in terms):
        return program
    uses = Uses(Counter([i for node in nodes for i in node.inputs] + [*program.outputs]), {})
    for node in nodes:
        level = max([uses.level[i] for i in node.inputs], default=0)
        uses.level[node] = level + (node in sums and upper(size(node.inputs[0].shape)) > upper(size(node.shape)) ** 2)

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        if old in sums and _has_product(old.inputs[0], inputs[0], sums[old], uses):
            return _sum_terms(graph, old.inputs[0], inputs[0], sums[old], uses)
        return copied(graph, old, inputs)

    able = any(_has_product(x, x, axes, uses) for x, axes in zip(terms, sums.values(), strict=True))
    return _from_others(rebuild(program, rewrite) if able else program)


def _of_sums(program: Program) -> Program:
    """Take sums of sums at once, and what they are multiplied by in between after them, where nobody else asks."""
    nodes = program.nodes()
    users = Counter([i for node in nodes for i in node.inputs] + [*program.outputs])

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        if not is_sum(old):
            return copied(graph, old, inputs)
        was, x, scales, scale = old.inputs[0], inputs[0], list[tuple[Node, int]](), 1.0
        while users[was] == 1 and was.op is x.op and (found := _scaled(x)) is not None:
            k, by = found
            scales.append((x, k))
            was, x, scale = was.inputs[k], x.inputs[k], scale * by
        most = SCALED_SINGLES if old.dtype.itemsize < 8 else SCALED_DOUBLES
        if users[was] > 1 or not is_sum(x) or x.dtype != old.dtype or not 1 / most <= scale <= most:
            return copied(graph, old, inputs)
        inner = frozenset(x.param("axes"))
        left = [axis for axis in range(len(x.inputs[0].shape)) if axis not in inner]
        total = _summed_over(graph, x.inputs[0], inner | {left[axis] for axis in old.param("axes")})
        for one, k in reversed(scales):
            total = make(graph, one.op, *[total if place == k else i for place, i in enumerate(one.inputs)])
        return total

    return rebuild(program, rewrite) if sum(map(is_sum, nodes)) > 1 else program


def _scaled(x: Node) -> tuple[int, float] | None:
    """Return which operand of a node it is a multiple of, and by what magnitude."""
    op = x.op.numpy
    for k in range({np.multiply: 2, np.divide: 1, np.negative: 1}.get(op, 0)):
        others = [i for place, i in enumerate(x.inputs) if place != k]
        known = [abs(float(scalar(i))) for i in others if i.shape == () and i.is_constant]
        if len(known) == len(others) and all(0 < n < np.inf for n in known):
            by = math.prod(known)
            return k, 1 / by if op is np.divide else by
    return None


class Factors(NamedTuple):
    """A product: its sign, the factors and divisors that are the same along some axes, and the other factors."""

    negative: bool
    same: Counter[tuple[Op, Node]]
    varying: Counter[Node]


def _apart_from_sum(node: Node, axes: frozenset[int], depth: int = TERMS_DEEP) -> Factors:
    """Take a product of arrays apart, through signs and quotients."""
    op, alone = node.op.numpy, Factors(False, Counter(), Counter([node]))
    if op not in {np.multiply, np.divide, np.negative} or not depth:
        return alone
    found = Factors(op is np.negative, Counter(), Counter())
    for k, x in enumerate(node.inputs):
        below = op is np.divide and k == 1
        if x.shape == node.shape and not below:
            inner = _apart_from_sum(x, axes, depth - 1)
            found = Factors(found.negative != inner.negative, found.same + inner.same, found.varying + inner.varying)
        elif all(x.shape[axis] == 1 for axis in _own_axes(node, x, axes)) and (below or op is np.multiply):
            found.same[node.op, x] += 1
        else:
            return alone
    return found


def _from_others(program: Program) -> Program:
    """Make a sum of another one that has fewer factors, where those it has more are the same along the axes."""
    groups: dict[Any, list[tuple[Node, Factors]]] = {}
    for node in program.nodes():
        if _doubles(node):
            axes = frozenset(node.param("axes"))
            found = _apart_from_sum(node.inputs[0], axes)
            groups.setdefault((axes, node.inputs[0].shape, frozenset(found.varying.items())), []).append((node, found))
    of: dict[Node, tuple[Node, Factors]] = {}
    for group in groups.values():
        first, least = min(group, key=lambda each: sum(each[1].same.values()))
        for node, found in group:
            if node is not first and not least.same - found.same:
                of[node] = first, Factors(found.negative != least.negative, found.same - least.same, found.varying)
    if not of:
        return program
    new: dict[Node, Node] = {}

    def needed(node: Node) -> Sequence[Node]:
        return (of[node][0], *[factor for _, factor in of[node][1].same]) if node in of else node.inputs

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        if old not in of:
            return copied(graph, old, inputs)
        first, more = of[old]
        x = new.get(first, first)
        for op, factor in more.same.elements():
            own = _own_axes(old.inputs[0], factor, frozenset(old.param("axes")))
            rest = new.get(factor, factor)
            x = make(graph, op, x, make(graph, squeeze, rest, axes=own) if own else rest)
        return make(graph, negative, x) if more.negative else x

    return rebuild(program, rewrite, order=in_order(program, needed), new=new)


class Uses(NamedTuple):
    """Of the nodes of a program how often each is used, and how many long sums must be taken, one after the other."""

    users: Counter[Node]
    level: dict[Node, int]


def _doubles(node: Node) -> bool:
    """Whether a node is a sum of doubles: in single precision a factor's sum overflows where products may not."""
    return is_sum(node) and node.dtype.itemsize == 8


def _has_product(
    old: Node, new: Node, axes: frozenset[int], uses: Uses, depth: int = TERMS_DEEP, *, alone: bool = True,
) -> bool:
    """Whether a value has a product in it that can be taken after the sum: one that has no other use, or a late one."""
    if new.op is not old.op:
        return False
    alone = alone and uses.users[old] == 1
    if old.op.labels:
        return alone and _summed_factor(new, axes) is not None
    if _same_factor(old, axes, uses) is not None:
        return True
    return depth > 0 and _is_linear_in(new) and any(
        _has_product(o, n, axes, uses, depth - 1, alone=alone) for o, n in zip(old.inputs, new.inputs, strict=True)
    )


def _same_factor(node: Node, axes: frozenset[int], uses: Uses | None = None) -> int | None:
    """Choose the factor of a product that is the same along the axes; of an old one, if it is there later."""
    if node.op.numpy is not np.multiply:
        return None
    for k, (x, other) in enumerate((node.inputs[::-1], node.inputs)):
        late = uses is None or uses.level[other] > uses.level[x]
        if late and x.shape == node.shape and all(other.shape[axis] == 1 for axis in _own_axes(node, other, axes)):
            return k
    return None


def _own_axes(node: Node, x: Node, axes: frozenset[int]) -> tuple[int, ...]:
    """Return which axes of an operand are some of an elementwise node's."""
    missing = len(node.shape) - len(x.shape)
    return tuple([axis - missing for axis in sorted(axes) if axis >= missing])


def _is_linear_in(node: Node) -> bool:
    op = node.op
    kept = all((i.shape, i.dtype) == (node.shape, node.dtype) for i in node.inputs)
    return isinstance(op, Elementwise) and kept and traits(op, node.params).linear


def _sum_terms(
    graph: Graph, old: Node, new: Node, axes: frozenset[int], uses: Uses, depth: int = TERMS_DEEP, *,
    alone: bool = True,
) -> Node:
    """Sum a value along axes, each term by itself."""
    if new.op is old.op:
        alone = alone and uses.users[old] == 1
        factor = _summed_factor(new, axes) if new.op.labels and alone else None
        if factor is not None:
            return _product_behind(graph, new, axes, factor)
        if depth and _is_linear_in(new) and (alone or _has_product(old, new, axes, uses, depth, alone=alone)):
            terms = [
                _sum_terms(graph, o, n, axes, uses, depth - 1, alone=alone)
                for o, n in zip(old.inputs, new.inputs, strict=True)
            ]
            return make(graph, new.op, *terms)
        same = _same_factor(old, axes, None if alone else uses)
        if same is not None:
            own = _own_axes(new, new.inputs[same], axes)
            rest = make(graph, squeeze, new.inputs[same], axes=own) if own else new.inputs[same]
            return make(graph, new.op, _summed_over(graph, new.inputs[1 - same], axes), rest)
    return _summed_over(graph, new, axes)


def _summed_over(graph: Graph, node: Node, axes: frozenset[int]) -> Node:
    return make(graph, sum_, node, axes=tuple(sorted(axes)))


def _summed_factor(node: Node, axes: frozenset[int]) -> int | None:
    """Choose the factor that alone has the axes to be summed, if it is no larger without them than the sum is."""
    terms, result = node.op.labels(**node.named)
    gone = {result[axis] for axis in axes}
    having = [k for k, term in enumerate(terms) if gone & set(term)]
    if len(having) != 1 or len(terms) < 2 or len(result) != len(set(result)):
        return None
    term, x = terms[having[0]], node.inputs[having[0]]
    if len(term) != len(set(term)) or not gone < set(term) or x.dtype != node.dtype:
        return None
    kept = [dim for label, dim in zip(term, x.shape, strict=True) if label not in gone]
    left = [dim for label, dim in zip(result, node.shape, strict=True) if label not in gone]
    if all(type(dim) is int for dim in (*kept, *left)):
        return having[0] if math.prod(kept) <= math.prod(left) else None
    return None if Counter(kept) - Counter(left) else having[0]


def _product_behind(graph: Graph, node: Node, axes: frozenset[int], factor: int) -> Node:
    """Multiply what is summed."""
    terms, result = node.op.labels(**node.named)
    gone = {result[axis] for axis in axes}
    inputs = list(node.inputs)
    places = frozenset(k for k, label in enumerate(terms[factor]) if label in gone)
    inputs[factor] = _summed_over(graph, inputs[factor], places)
    terms[factor] = "".join(label for label in terms[factor] if label not in gone)
    rest = "".join(label for label in result if label not in gone)
    return make(graph, einsum, *inputs, subscripts=f"{','.join(terms)}->{rest}")

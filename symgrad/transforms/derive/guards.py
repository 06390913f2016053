"""Guards of cotangents: conditions outside of which a cotangent is zero, carried along with it.

A guard is a conjunction, a tuple of boolean values of the program, each of which broadcasts to the cotangent's shape.
It may always say less than it could: what must hold is that the cotangent *is* zero where the guard is false.

`where` adds to it, and so does what picks elements or moves them into zeros: a slice, a gather, a triangle, a maximum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import Shape, is_static
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise, Structured
from symgrad.ops.arrays.indexing import first_axis, scatter_add
from symgrad.ops.arrays.running import cumsum
from symgrad.ops.arrays.views import broadcast_to, place
from symgrad.ops.batched import each
from symgrad.ops.declare.traits import AND, NOT, OR, chooses, traits
from symgrad.ops.elementwise.logical import logical_not
from symgrad.ops.elementwise.selection import is_used
from symgrad.trace.state import Trace
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import array, known, literal, make, truth_table
from symgrad.transforms.derive.poles import is_zero, is_zero_constant, leaves_out, meant, moves, nodes_behind
from symgrad.transforms.derive.rules import each_rule
from symgrad.transforms.tuned import CONDITIONS_DEEP, GUARDS_JOINED

Guard = tuple[Node, ...]


def joined(values: list[Any]) -> list[Any]:
    """Join values that are to be added and were read of one array in pieces: n reads of a vector cost n, not n squared.

    What was placed into zeros is joined to one array of zeros, and so is what was added at a few traced places.
    """
    groups: dict[Any, list[Any]] = {}
    for k, value in enumerate(values):
        node = value.node
        few = node.op is scatter_add and is_static(node.shape) and is_static(node.inputs[0].shape)
        few = few and 2 * shapes.size(node.inputs[0].shape) <= shapes.size(node.shape)
        few = few and len({index.shape for index in node.inputs[1:]}) == 1
        kind = (node.params, *[i.shape for i in node.inputs], *[i.dtype for i in node.inputs]) if few else k
        groups.setdefault(kind, []).append(value)
    found = []
    for first, *more in groups.values():
        if more:
            axes, shape = first.node.params
            operands = zip(*[[Tracer(i, v.owner) for i in v.node.inputs] for v in (first, *more)], strict=True)
            whole, *places = [np.stack(o, axis=0 if k else first_axis(axes)) for k, o in enumerate(operands)]
            found.append(scatter_add(whole, *places, axes=axes, shape=shape))
        else:
            found.append(first)
    found = [_negative_within(v) for v in found]
    slots = [v for v in found if v.node.op is place and len(v.node.inputs) <= 2 * len(v.node.shape)]
    if len(slots) < 2:
        return found
    pieces = [Tracer(piece, v.owner) for v in slots for piece in v.node.inputs]
    indices = tuple([index for v in slots for index in v.node.param("indices")])
    whole = place(*pieces, indices=indices, shape=slots[0].node.param("shape"))
    return [*[v for v in found if all(v is not slot for slot in slots)], whole]


def _negative_within(value: Any) -> Any:
    """Place the negative of a piece instead of taking that of all: ``np.roll(x, -1) - x``."""
    placed = value.node.inputs[0] if value.node.op.numpy is np.negative else value.node
    if placed is value.node or placed.op is not place or len(placed.inputs) != 1:
        return value
    return place(np.negative(Tracer(placed.inputs[0], value.owner)), **placed.named)


def keeps_zeros(node: Node) -> bool:
    """Whether an op's rule gives zero for a zero cotangent, wherever it is evaluated."""
    op = node.op
    return traits(op, node.params).linear if isinstance(op, Elementwise) else moves(meant(node))


# -- conjunctions and disjunctions


def conditions(graph: Graph, condition: Node) -> Guard:
    """Take a conjunction apart: ``a & b``, and ``~(a | b)``, which is ``~a & ~b``."""
    return tuple(dict.fromkeys(_parts(graph, condition)))


def _parts(graph: Graph, condition: Node) -> Iterator[Node]:
    stack = [condition]
    while stack:
        node = stack.pop()
        if truth_table(node) == AND:
            stack.extend(reversed(node.inputs))
            continue
        inner = _negated(node)
        if inner is not None and truth_table(inner) == OR:
            stack.extend([negation(graph, i) for i in reversed(inner.inputs)])
            continue
        simpler = node if inner is None else negation(graph, inner)
        if _negated(simpler) is not inner:
            stack.append(simpler)
        elif known(node) is not True:  # what always holds says nothing
            yield node


def negation(graph: Graph, condition: Node) -> Node:
    """Negate a condition; twice is not at all."""
    inner, value = _negated(condition), known(condition)
    if value is not None:
        return literal(graph, not value, bool)
    if inner is not None:
        return inner
    return make(graph, logical_not, condition)


def _negated(node: Node) -> Node | None:
    return node.inputs[0] if truth_table(node) == NOT else None


def both(guard: Guard, more: Guard) -> Guard:
    """Join two guards of one cotangent."""
    return (*guard, *[g for g in more if g not in guard])


def either(trace: Trace, guards: Sequence[Guard], *, many: bool = False) -> Guard:
    """Return the guard of a sum of cotangents: what they share, and that one of them holds, however `many` they are."""
    shared = tuple([g for g in guards[0] if all(g in guard for guard in guards[1:])])
    rest = _simpler_disjunction(trace.graph, [frozenset(guard) - frozenset(shared) for guard in guards])
    if frozenset() in rest or (len(rest) > GUARDS_JOINED and not many):
        return shared
    parts = joined([conjunction(trace, tuple(sorted(part, key=lambda node: node.number))) for part in rest])
    while len(parts) > 1:
        pairs = [np.logical_or(*parts[k : k + 2]) for k in range(0, len(parts) - 1, 2)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return shared if always(parts[0].node) else (*shared, parts[0].node)


def _simpler_disjunction(graph: Graph, parts: list[frozenset[Node]]) -> list[frozenset[Node]]:
    """Simplify a disjunction: of a and a & b the first, of a & b and a & ~b the part a."""
    parts = list(dict.fromkeys(parts))
    while 1 < len(parts) <= GUARDS_JOINED:
        for a, b in combinations(parts, 2):
            left, right = a - b, b - a
            if not left or not right or (len(left) == len(right) == 1 and negation(graph, *left) in right):
                parts = list(dict.fromkeys([a & b if part in {a, b} else part for part in parts]))
                break
        else:
            break
    return parts


def conjunction(trace: Trace, guard: Guard) -> Any:
    """Return a guard as one condition."""
    condition: Any = Tracer(guard[0], trace)
    for g in guard[1:]:
        condition = np.logical_and(condition, Tracer(g, trace))
    return condition


def one_condition(trace: Trace, guard: Guard) -> Guard:
    """Join a guard to one condition: one element must have all of it, and not each part one of its own."""
    return (conjunction(trace, guard).node,) if len(guard) > 1 else guard


def selected(trace: Trace, guard: Guard, part: Any) -> Any:
    """Set a cotangent to zero outside of its guard; what it is there (0 * inf) does not matter."""
    return np.where(conjunction(trace, guard), part, np.zeros((), part.dtype))


def kept(trace: Trace, guard: Guard, fine: Any, part: Any) -> Any:
    """Set what is made of a cotangent to zero where that is 0 and its slope is not `fine`: its derivative it keeps."""
    return np.where(np.logical_or(is_used(conjunction(trace, guard)), fine), part, np.zeros((), part.dtype))


def use_of(node: Node) -> Node | None:
    """Return by what guard a node was `kept`; None of any other."""
    if not chooses(node.op):
        return None
    condition = node.inputs[0]
    asked = condition.inputs if truth_table(condition) == OR else (condition,)
    return next((one.inputs[0] for one in asked if one.op is is_used), None)


def unselected(trace: Trace, value: Any, guard: Guard) -> Any:
    """Return what a cotangent is where its guard holds, behind selections that say no more than the guard."""
    node = value.node
    while chooses(node.op):
        condition, *sides = node.inputs
        if _holds(trace.graph, condition, guard):
            side = sides[0]
        elif _holds(trace.graph, negation(trace.graph, condition), guard):
            side = sides[1]
        else:
            break
        if side.shape != node.shape:
            break
        node = side
    return Tracer(node, trace)


def _holds(graph: Graph, condition: Node, guard: Guard) -> bool:
    """Whether a condition holds where a guard does, of which it is a part or several."""
    return condition in guard or all(part in guard for part in _parts(graph, condition))


# -- through an op


def passed(trace: Trace, node: Node, guard: Guard, wanted: Sequence[bool]) -> list[Guard]:
    """Carry a guard from a node's result to each of its inputs (in the result's shape, for elementwise ops).

    Args:
        trace: where conditions are made.
        node: the node.
        guard: of its cotangent.
        wanted: for each input, whether to add which of its elements the node uses.
    """
    op, count = node.op, len(node.inputs)
    if not guard and not any(wanted):
        return [()] * count
    if guard and not isinstance(op, Elementwise):
        guard = one_condition(trace, guard) if any(wanted) else guard
        kept: list[list[Node]] = [[] for _ in range(count)]
        for g in guard:
            for k, carried in enumerate(_carried(trace, node, g)):
                if carried is not None and not always(carried):
                    kept[k].append(carried)
        guards = [tuple(k) for k in kept]
        if moves(meant(node)) and not all(_is_single(g) for g in guard):
            return guards  # they went with the elements, and say it
    else:
        guards = [guard] * count
    return [both(g, own) for g, own in zip(guards, _used(trace, node, wanted), strict=True)]


def _used(trace: Trace, node: Node, wanted: Sequence[bool]) -> Sequence[Guard]:
    """Return, for each input that it is wanted for, which of its elements a node uses."""
    op = node.op
    if not any(wanted):
        return [()] * len(node.inputs)
    if op.used is not None:
        found = op.used(Tracer(node, trace), *[Tracer(i, trace) for i in node.inputs], **node.named)
        parts = [None if p is None else p.node for p in (found if isinstance(found, tuple) else (found,))]
    elif moves(meant(node)) and leaves_out(node):
        everything = broadcast_to(Tracer(literal(trace.graph, True, bool), trace), shape=node.shape)
        parts = [p if p is None or not always(p) else None for p in _through_rule(trace, node, everything)]
    else:
        return [()] * len(node.inputs)
    return [conditions(trace.graph, p) if w and p is not None else () for p, w in zip(parts, wanted, strict=True)]


def always(condition: Node) -> bool:
    """Whether a condition holds for every element, decided by constants and places."""
    while condition.op.view:
        condition = condition.inputs[0]
    if condition.op is place and len(condition.inputs) == 1 and always(condition.inputs[0]):
        (region,) = condition.param("indices")
        return all(e in {(0, d, 1), (d - 1, d, -1)} for e, d in zip(region, condition.shape, strict=True))
    value = _known_condition(condition)
    return value is not None and bool(np.all(value))


def _known_condition(node: Node, depth: int = CONDITIONS_DEEP) -> Any:
    """Compute what a few ops make of constants; None for anything else."""
    op = node.op
    if node.is_constant:
        return array(node)
    if not node.inputs or not depth or not is_static(node.shape) or not (op.nondiff or moves(op)):
        return None
    read = [_known_condition(i, depth - 1) for i in node.inputs]
    return None if any(r is None for r in read) else op.evaluate(*read, **node.named)


def followed(trace: Trace, part: Node, g: Node, guard: Guard) -> Guard:
    """Carry a guard of a cotangent g to what a user's rule made of it: as far as that is zero wherever g is."""
    reached: dict[Node, Guard] = {g: guard}
    for node in nodes_behind([part], g.number + 1):
        if any(i in reached for i in node.inputs):
            reached[node] = _forward(trace, node, reached)
    return reached.get(part, ())


def _forward(trace: Trace, node: Node, reached: dict[Node, Guard]) -> Guard:
    """Return outside of what a node is zero, given that of those of its inputs that a cotangent reaches."""
    op, given = meant(node), [reached.get(i, ()) for i in node.inputs]
    guarded = [bool(g) for g in given]
    if isinstance(op, Elementwise):
        zero = [g or is_zero_constant(i) for g, i in zip(guarded, node.inputs, strict=True)]
        return either(trace, [g for g in given if g], many=True) if any(guarded) and is_zero(node, zero) else ()
    if not all(guarded[: sum(i.dtype.kind == "f" for i in node.inputs)]) or not moves(op) or op.regular:
        return ()
    inputs = [
        broadcast_to(conjunction(trace, g), shape=i.shape) if g else Tracer(i, trace)
        for g, i in zip(given, node.inputs, strict=True)
    ]
    return (node.op(*inputs, **node.named).node,)


def _is_single(g: Node) -> bool:
    return all(d == 1 for d in g.shape)


def _through_rule(trace: Trace, node: Node, whole: Any) -> list[Node | None]:
    """Carry a condition as cotangents go, through an op that only moves elements."""
    pull: Any = each_rule if node.op is each else node.op.vjp
    parts = pull(whole, None, *[Tracer(i, trace) for i in node.inputs], **node.named)
    return [None if p is None else p.node for p in (parts if isinstance(parts, tuple) else (parts,))]


def _carried(trace: Trace, node: Node, g: Node) -> Sequence[Node | None]:
    """Carry one condition through a structured op: an element's is that one of those it goes into holds."""
    op, count, rank = node.op, len(node.inputs), len(node.shape)
    if _is_single(g):
        return [g if g.shape == () else _node(np.reshape(Tracer(g, trace), ()))] * count
    if op.aligned:
        return [guard_before_broadcast(trace, g, node.inputs[0].shape, node.shape, node.dtype)]
    if op.labels:
        return _through_einsum(trace, node, g)
    whole: Any = broadcast_to(Tracer(g, trace), shape=node.shape)
    if moves(meant(node)) and not meant(node).regular:
        return _through_rule(trace, node, whole)
    # reductions, running totals and the rest: as far as elements stay apart
    if count == 1 and "axes" in op.params:
        axes = node.param("axes")
        if node.shape == node.inputs[0].shape:  # softmax: every element along the axes goes into every one
            whole = np.any(whole, axis=axes)
        return [_node(np.expand_dims(whole, axes))]
    if op.running:
        axis = node.param("axis") if "axis" in op.params else rank - 1
        return [_node(cumsum.vjp(whole, None, whole, axis=axis))] * count  # type: ignore[misc]  # it has one
    if op.stacked:
        lead = len(node.inputs[0].shape) - 2
        one = np.any(whole, axis=tuple(range(lead, rank)))
        carried: list[Node | None] = [_node(np.expand_dims(one, tuple(range(lead, len(i.shape))))) for i in node.inputs]
        for k in op.columns:
            carried[k] = _node(np.any(whole, axis=lead, keepdims=True))
        return carried
    if op.regular and isinstance(op, Structured) and op.vjp is not None and count > 1:
        one, zero = node.dtype.type(1), node.dtype.type(0)  # a sum of products: what is reached when all factors are 1
        ones = [broadcast_to(one, shape=i.shape) for i in node.inputs]
        return [_node(np.not_equal(p, zero)) for p in op.vjp(np.where(whole, one, zero), None, *ones, **node.named)]
    return [_node(np.any(whole))] * count


def _through_einsum(trace: Trace, node: Node, g: Node) -> list[Node | None]:
    """Carry a condition through a sum of products: along the labels an operand shares with the result."""
    terms, result = node.op.labels(**node.named)
    own = result[len(result) - len(g.shape) :]
    carried: list[Node | None] = []
    for labels in terms:
        constant = tuple([k for k, d in enumerate(g.shape) if d == 1])
        left = "".join(label for k, label in enumerate(own) if k not in constant)
        value: Any = np.squeeze(Tracer(g, trace), axis=constant)
        gone = tuple([k for k, label in enumerate(left) if label not in labels])
        value = np.any(value, axis=gone) if gone else value
        left = "".join(label for label in left if label in labels)
        value = np.transpose(value, [left.index(label) for label in labels if label in left])
        new = tuple([k for k, label in enumerate(labels) if label not in left])
        carried.append(_node(np.expand_dims(value, new) if left else value))
    return carried


def _node(value: Any) -> Node:
    return value.node  # type: ignore[no-any-return]


def fitting(trace: Trace, guard: Guard, shape: Shape, whole: Node) -> Guard:
    """Take a guard along with a cotangent that was just summed to the shape its primal had before it was stretched."""
    if shape == whole.shape:
        return guard
    return tuple([guard_before_broadcast(trace, g, shape, whole.shape, whole.dtype) for g in guard])


def guard_before_broadcast(trace: Trace, g: Node, shape: Shape, full: Shape, dtype: np.dtype[Any]) -> Node:
    """Take a condition of a stretched shape back to the shape before: that it holds of one that was summed."""
    lead, own = len(full) - len(shape), len(full) - len(g.shape)
    value: Any = Tracer(g, trace)
    stretched = [a - own for a in range(own, len(full)) if a < lead or (shape[a - lead] == 1 and full[a] != 1)]
    summed = tuple([a for a in stretched if g.shape[a] != 1])
    if summed:  # that it holds somewhere along them: counted in the cotangent's type, as lanes beside its sum
        counted = np.sum(np.where(value, dtype.type(1), dtype.type(0)), axis=summed)
        value = np.not_equal(counted, dtype.type(0))
    kept = tuple([a for a in summed if a + own >= lead])
    gone = tuple([a - sum(s < a for s in summed) for a in stretched if a not in summed and a + own < lead])
    return _node(np.expand_dims(np.squeeze(value, axis=gone), tuple([a + own - max(lead, own) for a in kept])))

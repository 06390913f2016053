"""`cheaper`: rewrites that change no bit of any result, after all derivatives are taken.

So there is no ``0 * x -> 0`` (x may be infinite), no ``x + 0 -> x`` (x may be -0.0), no re-association. The sum
of one element is that element, though NumPy makes 0.0 of -0.0 there.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from symgrad import ops
from symgrad.ir.index import shapes
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise, Leaf, Op
from symgrad.ir.program import Program
from symgrad.ops.arrays.views import expand_dims
from symgrad.ops.declare.traits import OR as EITHER
from symgrad.ops.declare.traits import chooses
from symgrad.ops.elementwise import logical
from symgrad.transforms.build import array, core, is_along, literal, make, shaped, taken_region, truth_table
from symgrad.transforms.rewrite.contractions import convolved, multiplied, slid, transposed_sum
from symgrad.transforms.rewrite.engine import NUMBER, PARAM, By, Form, Run, Table, by, computed, family, rule, viewed
from symgrad.transforms.rewrite.places import by_places, not_zero, on_diagonal, placed
from symgrad.transforms.rewrite.views import (
    broadcast_behind,
    ordered,
    placed_twice,
    placed_windows,
    put_back,
    rejoined,
    slice_behind,
)
from symgrad.transforms.tuned import FACTORS_DEEP

ANY = "fiub"


def cheaper(program: Program) -> Program:
    """Rewrite a program to a smaller one with the same results, bit for bit.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x, y: x + -y)
    >>> "x - y" in f.lower(1.0, 2.0).as_text()
    True
    """
    return CHEAPER(program)


def rewritten_cheaper(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
    """Make a node anew and rewrite it until no rule fits."""
    return Run(CHEAPER).rewritten(graph, old, inputs)


def signs(program: Program) -> Program:
    """Leave out negations that sums and numbers can take over, once it is known what is taken once.

    Rules of differences leave many of them.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x, y: x + (-y) * x)
    >>> f.lower(1.0, 2.0).as_text().count("x - v0")
    1
    """
    return SIGNS(program) if any(node.op.numpy is np.negative for node in program.nodes()) else program


# -- rules for all elementwise ops


def fold(run: Run, node: Node) -> Node | None:
    """Compute an op of scalar constants now."""
    if node.shape != () or not all(i.is_constant for i in node.inputs):
        return None
    with np.errstate(all="ignore"):
        value = node.op.evaluate(*map(array, node.inputs), **node.named)
    return literal(run.graph, value, node.dtype)


def narrow(run: Run, node: Node) -> Node | None:
    """Compute on the axes the operands depend on, and broadcast the result: ``exp(broadcast(a))``."""
    inputs = tuple([_before_broadcast(i) for i in node.inputs])
    if inputs == node.inputs:
        return None
    return run.graph.node(
        node.op, inputs, node.params, shapes.broadcast(*[i.shape for i in inputs]), node.dtype, node.line,
    )


def _before_broadcast(node: Node) -> Node:
    """Strip what broadcasting does by itself: stretched axes, and new axes in front."""
    while node.op.aligned or (node.op is expand_dims and node.params[0] == tuple(range(len(node.params[0])))):
        node = node.inputs[0]
    return node


# -- what rules ask of what they found


def reduced_constant(run: Run, node: Node) -> Node | None:
    """Reduce a constant now, where that does not round."""
    x = array(node.inputs[0])
    return None if x is None or not x.size else literal(run.graph, node.op.evaluate(x, **node.named))


def opposite(run: Run, node: Node, deep: int = FACTORS_DEEP) -> Node | None:
    """Return what a value is the negative of, where that is no more work: ``-x``, ``(-x) * y``, ``(-x) / y``."""
    if node.op.numpy is np.negative:
        return node.inputs[0]
    if node.op.numpy not in {np.multiply, np.divide} or not deep or not run.is_single(node):
        return None
    for k, other in ((0, 1), (1, 0)):
        found = opposite(run, node.inputs[k], deep - 1)
        if found is not None:
            return make(run.graph, node.op, *((found, node.inputs[other])[:: 1 if k == 0 else -1]))
    return None


def absorbed(run: Run, node: Node) -> Node | None:
    """Let a sum, a difference or a negation take a sign: ``x + (-a) * b`` is ``x - a * b``, to the last bit."""
    if node.dtype.kind != "f" or node.op.numpy is np.negative:
        return None if node.dtype.kind != "f" else opposite(run, node.inputs[0])
    is_sum = node.op.numpy is np.add
    for k in (1, 0) if is_sum else (1,):
        found = opposite(run, node.inputs[k])
        if found is not None:
            return make(run.graph, ops.subtract if is_sum else "add", node.inputs[1 - k], found)
    return None


def is_turned(x: Node) -> bool:
    """Whether a value has the elements of another one, in this order or the other one along each axis."""
    ends = zip(taken_region(x) or (), x.inputs[0].shape if x.inputs else (), strict=False)
    return taken_region(x) is not None and all(entry in {(0, d, 1), (d - 1, d, -1)} for entry, d in ends)


def anywhere(run: Run, node: Node) -> Node | None:
    """Ask whether one of several conditions holds anywhere, and leave out what is true where another one is.

    A condition that runs over others along an axis holds somewhere if they do, and so does what is turned around.
    """
    axes, stack, parts = node.param("axes"), [node.inputs[0]], 0
    found: dict[Node, None] = {}
    while stack:
        x = stack.pop()
        if truth_table(x) == EITHER and all(i.shape == x.shape for i in x.inputs):
            stack += reversed(x.inputs)
            continue
        while (x.op.running and "axis" in x.op.params and x.param("axis") in axes) or is_turned(x):
            x, parts = x.inputs[0], parts + 1
        found[x], parts = None, parts + 1
    if len(found) == parts:
        return None
    return make(run.graph, node.op, reduce(partial(make, run.graph, logical.logical_or), found), axes=axes)


def beyond_dtype(run: Run, node: Node) -> Node | None:
    """Decide a comparison of an integer with a number beyond those of the dtype that it was made of."""
    for k, made in enumerate(node.inputs if node.dtype.kind == "b" else ()):
        number, x = array(node.inputs[1 - k]), made
        is_cast = isinstance(made.op, Elementwise) and "dtype" in made.op.params
        if is_cast and np.can_cast(made.inputs[0].dtype, made.dtype):
            x = made.inputs[0]
        if number is None or number.shape or x.dtype.kind not in "iu" or number.dtype.kind not in "iu":
            continue
        ends = [int(end) for end in (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)]
        if ends[0] <= int(number) <= ends[1]:
            continue
        given = [np.asarray(ends[0], made.dtype), number]
        return shaped(run.graph, literal(run.graph, node.op.evaluate(*(given if k == 0 else given[::-1]))), node.shape)
    return None


def is_shifted_by_largest(x: Node, axes: tuple[int, ...]) -> bool:
    """Whether x is y - m, where m is the largest of y along axes, or a choice between that and something else."""
    if not _DIFFERENCE(x):
        return False
    y, shift = x.inputs
    largest = core(shift)
    largest = core(largest.inputs[1]) if chooses(largest.op) else largest
    return is_along(shift.shape, y.shape, axes) and _LARGEST(largest) == {"x": y, "axes": axes}


def is_largest_of_shifted(m: Node) -> bool:
    """Whether m is the largest of values from which their largest was subtracted before: 0, or no finite number."""
    found = _LARGEST(core(m))
    return found is not None and is_shifted_by_largest(**found)


_DIFFERENCE = Form(lambda x, y: x - y)
_LARGEST = Form(lambda x, axes: ops.max(x, axes=axes), axes=PARAM)

REDUCTION = family(ops.sum, ops.prod, ops.any, ops.all, ops.max, ops.min)
AND, OR = family(logical.logical_and, logical.bitwise_and), family(logical.logical_or, logical.bitwise_or)
NOT = family(logical.logical_not, logical.invert)

CHEAPER = Table(
    By(fold, lambda op, inputs: isinstance(op, Elementwise) and all(
        not isinstance(i, Op) or isinstance(i, Leaf) for i in inputs or ())),
    By(narrow, lambda op, inputs: isinstance(op, Elementwise) and (
        inputs is None or any(isinstance(i, Op) and (i.aligned or i is expand_dims) for i in inputs))),
    By(by_places, lambda op, inputs: isinstance(op, Elementwise) and (
        inputs is None or any(isinstance(i, Op) and isinstance(i, Leaf) for i in inputs))),

    # arithmetic
    rule(lambda x: x * 1, lambda x: x, kinds=ANY),
    rule(lambda x: x * -1, lambda x: -x),
    rule(lambda x, y: -x * -y, lambda x, y: x * y),
    # A product by a power of two is exact, but for overflow and what is subnormal; with both at least 1 either form
    # overflows where the other does, and nothing gets smaller.
    rule(lambda c, d, x: c * (d * x), lambda c, d, x: c * d * x, c=NUMBER, d=NUMBER,
         when=lambda c, d: 1 <= abs(c) < 2.0**60 and 1 <= abs(d) < 2.0**60 and np.frexp(abs(d))[0] == 0.5),
    rule(lambda x: x / 1, lambda x: x),
    rule(lambda x: x + -0.0, lambda x: x),
    rule(lambda x, y: x + -y, lambda x, y: x - y),
    rule(lambda x: x - 0.0, lambda x: x),
    rule(lambda x: np.log(x) + 0.0, lambda x: np.log(x)),  # it is no -0.0
    rule(lambda x, y: x - -y, lambda x, y: x + y),
    rule(lambda x: np.negative(-x), lambda x: x, kinds=ANY),
    rule(lambda x: ops.expit(-(0.0 - x)), lambda x: ops.expit(x)),  # it does not see which zero it is of
    rule(lambda x: ops.power_int(x, exponent=1), lambda x: x, kinds=ANY),
    rule(lambda x: ops.power_int(x, exponent=2), lambda x: x * x, kinds=ANY),
    rule(lambda x, dtype: ops.astype(x, dtype=dtype), lambda x: x, dtype=PARAM, kinds=ANY),
    rule(lambda x: ops.stop_gradient(x), lambda x: x, kinds=ANY),  # everything is derived by now
    rule(lambda x: ops.slope_of(x), lambda x: x),
    rule(lambda x: ops.is_used(x), lambda x: x, kinds="b"),

    # choices
    rule(lambda c, x, y: np.where(viewed(c), x, y), lambda x: x, c=NUMBER, kinds=ANY, when=lambda c: c),
    rule(lambda c, x, y: np.where(viewed(c), x, y), lambda y: y, c=NUMBER, kinds=ANY),
    rule(lambda p, x: np.where(p, x, x), lambda x: x, kinds=ANY),
    rule(lambda m: np.where(np.isfinite(m), m, 0.0), lambda: 0.0, when=is_largest_of_shifted),
    rule(lambda p, x, y: np.where(np.logical_not(p), x, y), lambda p, x, y: np.where(p, y, x), kinds=ANY),
    rule(lambda p, x, y, z: np.where(p, np.where(p, x, y), z), lambda p, x, z: np.where(p, x, z), kinds=ANY),
    rule(lambda p, x, y, z: np.where(p, x, np.where(p, y, z)), lambda p, x, z: np.where(p, x, z), kinds=ANY),
    rule(lambda f, p: f(p, p), lambda p: p, f=AND, kinds="b"),
    rule(lambda f, p: f(p, True), lambda p: p, f=AND, kinds="b"),
    rule(lambda f, p: f(p, False), lambda: False, f=AND, kinds="b"),
    rule(lambda f, p: f(p, p), lambda p: p, f=OR, kinds="b"),
    rule(lambda f, p: f(p, False), lambda p: p, f=OR, kinds="b"),
    rule(lambda f, p: f(p, True), lambda: True, f=OR, kinds="b"),
    rule(lambda f, g, p: f(g(p)), lambda p: p, f=NOT, g=NOT, kinds="b"),
    By(beyond_dtype, lambda op, _inputs: isinstance(op, Elementwise) and (op.infix or " ")[0] in "<>=!"),
    rule(lambda p, dtype: ops.astype(p, dtype=dtype) != 0, lambda p: p, dtype=PARAM, kinds="b",
         when=lambda p: p.dtype.kind == "b"),

    # reductions
    by(anywhere, ops.any),
    by(reduced_constant, ops.any, ops.all, ops.max, ops.min),
    rule(lambda f, x: f(x, axes=()), lambda x: x, f=REDUCTION, kinds=ANY),
    rule(lambda f, x, axes: f(x, axes=axes), lambda x, axes: ops.squeeze(x, axes=axes), f=REDUCTION, axes=PARAM,
         kinds=ANY, when=lambda x, axes: all(x.shape[k] == 1 for k in axes)),
    rule(lambda f, x, s, axes: f(ops.reshape(x, shape=s), axes=axes),
         lambda f, x: f(x, axes=computed(lambda x: tuple(range(len(x.shape))), x)), f=REDUCTION - {ops.prod},
         axes=PARAM, s=PARAM, kinds=ANY, when=lambda s, axes: len(axes) == len(s)),

    # views
    rule(lambda x, shape: ops.broadcast_to(x, shape=shape), lambda x: x, shape=PARAM, kinds=ANY),
    rule(lambda x, shape, wide: ops.broadcast_to(ops.broadcast_to(x, shape=shape), shape=wide),
         lambda x, wide: ops.broadcast_to(x, shape=wide), shape=PARAM, wide=PARAM, kinds=ANY),
    by(broadcast_behind, ops.broadcast_to, among=lambda x: getattr(x, "ordered", False)),
    rule(lambda x, order: ops.transpose(x, axes=order), lambda x: x, order=PARAM, kinds=ANY,
         when=lambda order: order == tuple(range(len(order)))),
    rule(lambda x, order, outer: ops.transpose(ops.transpose(x, axes=order), axes=outer),
         lambda x, order, outer: ops.transpose(x, axes=computed(
             lambda inner, outer: tuple([inner[a] for a in outer]), order, outer)),
         order=PARAM, outer=PARAM, kinds=ANY),
    by(transposed_sum, ops.transpose, once=True),
    by(multiplied, ops.sum, once=True),
    by(slid, ops.slide),
    by(convolved, ops.convolve),
    By(ordered, lambda op, _inputs: op.ordered),
    by(slice_behind, ops.slice, once=True),
    by(placed_twice, ops.place),
    by(put_back, ops.place),
    by(placed_windows, ops.sum_windows),
    by(rejoined, ops.concatenate),

    # conditions on places
    by(placed, ops.place, ops.scatter_add),
    by(on_diagonal, ops.embed_diagonal),
    by(not_zero, logical.not_equal, among=lambda x, *_: x is ops.embed_diagonal),
)

SIGNS = Table(
    rule(lambda c, x: -(c * x), lambda c, x: -c * x, c=NUMBER, once=True),
    rule(lambda c, x: -x * c, lambda c, x: x * -c, c=NUMBER),
    By(absorbed, lambda op, _inputs: op.numpy in {np.add, np.subtract, np.negative}, once=True),
)

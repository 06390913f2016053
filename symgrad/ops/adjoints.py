"""The adjoint of an array operation, from its index notation: how an op without a rule of its own is differentiated.

``T[w(i)] += e(A[g(i)], ...)`` has the adjoint ``A_bar[g(i)] += de/dA[g(i)] * T_bar[w(i)]``, one statement for each
access of A; SymPy differentiates e with a symbol for every access. It is an op again, so that its own adjoint follows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.errors import NoGradient, ShapeError
from symgrad.ir.index.notation import (
    Access,
    Apply,
    Axis,
    Body,
    How,
    IndexValue,
    Lookup,
    Number,
    Statement,
    Value,
    accesses,
    axes_of,
    everywhere,
    mapped,
    rebuilt,
)
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ir.op import Op, Structured
from symgrad.ops.arrays.copies import filled
from symgrad.ops.batched import stand_in
from symgrad.ops.declare.calculus import in_numpy, sp
from symgrad.ops.declare.domains import case, integers, normal
from symgrad.ops.declare.forms import ANSWERS, OPS, apply, structured

G, OUT = 0, -1


def rule_of(op: Op) -> Callable[..., tuple[Any, ...]]:
    """Return the rule of a structured op that follows from its body: one cotangent for each floating-point operand."""

    def rule(g: Any, y: Any, *x: Any, **params: Any) -> tuple[Any, ...]:  # a rule's signature
        given = tuple([params[name] for name in op.params])
        one = Node(op, tuple([v.node for v in x]), given, g.node.shape, g.node.dtype, None, 0)
        floats = [k for k, v in enumerate(x) if v.dtype.kind == "f"]
        try:
            require_adjoint(op.body(one))  # type: ignore[attr-defined]  # a structured op
            found = {k: adjoint(g, *_only_read(one, k, g, x), of=op.name, wrt=k, params=given) for k in floats}
        except NoGradient as error:
            raise NoGradient(f"{op.name} has no derivative: no rule, and {error.what}") from None
        return tuple([found.get(k) for k in range(len(x))])

    return rule


def _only_read(one: Node, wrt: int, g: Any, x: tuple[Any, ...]) -> list[Any]:
    """Leave of the operands those that the adjoint reads; of the others it needs the shapes alone."""
    like, params = x[wrt].node, (one.op.name, wrt, one.params)
    whole = Node(adjoint, (g.node, *one.inputs), params, like.shape, like.dtype, None, 0)
    read = {a.array for s in _adjoint_body(whole).statements for a in s.reads}
    return [v if k + 1 in read else filled(g, 0, v.node.shape, v.dtype) for k, v in enumerate(x)]


def require_adjoint(body: Body) -> None:
    """Check that a body has an adjoint of this form."""
    written = [s for s in body.statements if not isinstance(s.value, Number)]
    plain = not body.temporaries and all(
        s.how in {How.SET, How.ADD} and s.target.array == OUT and not s.prefix and s.routine is None and not s.check
        and not any(a.flat for a in (s.target, *accesses(s.value))) for s in written
    )
    once = len(written) == 1 and {*written[0].axes} == {*written[0].target.indices}
    if not plain or not (once or all(s.how == How.ADD for s in written)):
        raise NoGradient("its index notation is no sum of independent terms")


# -- statements


SHIFTED = everywhere(lambda a: a.of(a.array + 1))
"""How the op's operands are read: the cotangent comes first in the adjoint."""


def _adjoint_body(node: Node) -> Body:
    of, wrt, params = node.params
    g, *xs = node.inputs
    inner = OPS[of].body(Node(OPS[of], tuple(xs), params, g.shape, g.dtype, node.line, 0))  # type: ignore[attr-defined]
    axes, index = axes_of(node.shape), SHIFTED[1]
    statements = [Statement(Access(OUT, axes), How.SET, Number(0, node.dtype), axes, node.line)]
    for s in inner.statements:
        here = Access(G, tuple(map(index, s.target.indices)))
        for a, slope in _slopes(s.value, wrt, node.dtype):
            value: Value = here
            if slope != Number(1.0, node.dtype):
                value = apply("multiply", node.dtype, here, mapped(slope, *SHIFTED))
            target = Access(OUT, tuple(map(index, a.indices)))
            statements.append(s.with_(target=target, how=How.ADD, value=value, line=node.line))
    return Body(tuple(statements))


def _slopes(value: Value, wrt: int, dtype: np.dtype[Any]) -> list[tuple[Access, Value]]:
    """Differentiate a value by each of its accesses of one operand."""
    places: dict[Any, Any] = {}
    expression = _value_in_sympy(value, places)
    found = []
    for symbol, leaf in places.items():
        if isinstance(leaf, Access) and leaf.array == wrt:
            slope = sp.diff(expression, symbol)
            if slope != 0:
                made = in_numpy(slope, {s: _Formula(v, dtype) for s, v in places.items()})
                found.append((leaf, made.value if isinstance(made, _Formula) else Number(float(made), dtype)))
    return found


def _value_in_sympy(value: Value, places: dict[Any, Any]) -> Any:
    """Write a value in SymPy, with a symbol for every access."""
    if isinstance(value, Number):
        return sp.Integer(value.value) if isinstance(value.value, int) else sp.Float(value.value)
    if isinstance(value, IndexValue):
        raise NoGradient("its index notation reckons with indices")
    if isinstance(value, Apply):
        if value.op.value is None:
            raise NoGradient(f"its index notation has {value.op.name}, which has no formula")
        return value.op.value(*[_value_in_sympy(a, places) for a in value.args])
    symbol = sp.Dummy("a", real=True)
    places[symbol] = value
    return symbol


class _Formula(NDArrayOperatorsMixin):
    """A value that NumPy's functions make larger values of."""

    def __init__(self, value: Value, dtype: np.dtype[Any]) -> None:
        self.value, self.dtype = value, dtype

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> _Formula:
        if ANSWERS[ufunc].nondiff:
            raise NoGradient("its index notation has no smooth slope")
        return self.__symgrad_bind__(ANSWERS[ufunc], inputs, {})

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Refuse choices: a slope is one formula."""
        raise NoGradient("its index notation has no slope that is one formula")

    def __symgrad_bind__(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> _Formula:
        args = tuple([v.value if isinstance(v, _Formula) else Number(float(v), self.dtype) for v in inputs])
        given = tuple([params[name] for name in op.params])
        return _Formula(Apply(op, args, self.dtype, self.dtype, given), self.dtype)


# -- the op


def _adjoint_infer(g: Node, *xs: Node, of: str, wrt: int, params: tuple[Any, ...]) -> tuple[Shape, Any]:
    if not isinstance(OPS.get(of), Structured) or not 0 <= wrt < len(xs) or xs[wrt].dtype.kind != "f":
        raise ShapeError(f"the adjoint of {of!r} by operand {wrt} of {len(xs)}")
    return xs[wrt].shape, xs[wrt].dtype


def _adjoint_value(g: Any, *xs: Any, of: str, wrt: int, params: tuple[Any, ...]) -> Any:
    """Go through the body point by point."""
    arrays = [np.asarray(a) for a in (g, *xs)]
    nodes = tuple([stand_in(a, batched=False) for a in arrays])
    shape, dtype = _adjoint_infer(*nodes, of=of, wrt=wrt, params=params)
    out = np.zeros(shape, dtype)
    for s in _adjoint_body(Node(adjoint, nodes, (of, wrt, params), shape, dtype, None, 0)).statements[1:]:
        bounds = {axis: range(first, end) for axis, first, end in s.ranges}
        for point in product(*[bounds.get(axis, range(axis.extent)) for axis in s.axes]):
            at = dict(zip(s.axes, point, strict=True))
            out[tuple([_index_at(i, at, arrays) for i in s.target.indices])] += _value_at(s.value, at, arrays)
    return out


def _index_at(index: Any, at: dict[Axis, int], arrays: list[Any]) -> int:
    if isinstance(index, Axis):
        return at[index]
    if isinstance(index, Lookup):
        found = int(_value_at(index.access, at, arrays))
        if not -index.extent <= found < index.extent:
            raise IndexError(f"index {found} is out of bounds for an axis with size {index.extent}")
        return found % index.extent
    return int(rebuilt(index, lambda part: _index_at(part, at, arrays)))


def _value_at(value: Value, at: dict[Axis, int], arrays: list[Any]) -> Any:
    if isinstance(value, Number):
        return value.value
    if isinstance(value, IndexValue):
        return _index_at(value.index, at, arrays)
    if isinstance(value, Access):
        return arrays[value.array][tuple([_index_at(i, at, arrays) for i in value.indices])]
    return value.op.evaluate(*[_value_at(a, at, arrays) for a in value.args], **value.op.named(value.params))


def _bar(name: str, wrt: int, *params: Any) -> Any:
    return lambda g, *xs: OPS["adjoint"](g, *xs, of=name, wrt=wrt, params=params) ** 2


_LOOKED_UP = (normal(), normal(), integers(-3, 2))

adjoint = structured(
    name="adjoint", params=("of", "wrt", "params"), infer=_adjoint_infer, evaluate=_adjoint_value, body=_adjoint_body,
    vjp=None, linear=(0,), batched=None,
    sample=(case(_bar("einsum", 0, "ij,jk->ik"), (2, 4), (2, 3), (3, 4)),
            case(_bar("einsum", 1, "ij,jk->ik"), (2, 4), (2, 3), (3, 4)), case(_bar("sum", 0, (1,)), (3,), (3, 2)),
            case(_bar("gather", 0, (0,)), (5,), (3,), (5,), domain=_LOOKED_UP),
            case(_bar("convolve", 1), (5,), (3,), (3,))),
    edges=(case(_bar("sum", 0, (1,)), (3,), (3, 0)), case(_bar("einsum", 0, "ij,jk->ik"), (2, 4), (2, 0), (0, 4))),
    doc="The cotangent of an operand, by the adjoint of an op's index notation.",
)

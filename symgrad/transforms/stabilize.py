"""`reformulate`: formulations that lose digits or overflow become ones that do not, before any derivative.

A rule looks at one node and the few that it is made of, and returns a better formulation or None. Every rule is an
identity for all numbers, and right wherever the formulation it replaces was; `RULES` says which op has which rules.
So ``1 - exp(x)`` becomes ``-expm1(x)``, and ``log(1 + x)``, for any x, ``log1p(x)``; ``log(2 + x)`` stays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from symgrad.ir.program import copied, rebuild
from symgrad.ops.contract import parse
from symgrad.transforms import sums
from symgrad.transforms.build import literal, make, shaped
from symgrad.transforms.logarithms import BOUNDED, GROWS, Logarithms
from symgrad.transforms.matching import (
    again,
    argument,
    core,
    exponent,
    is_along,
    is_constant_along,
    is_filled,
    is_selection,
    minus,
    number,
    one_minus,
    one_plus,
    one_plus_exp,
    scaled,
    squared,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program

    Rule = Callable[[Graph, Node, Logarithms], Node | None]

ROUNDS = 8
"""A node is rewritten at most so often."""

LARGEST_POWER = 64
"""Integer powers up to this one are products."""


def reformulate(program: Program) -> Program:
    """Rewrite a traced program to a better conditioned one.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x: np.log(1 + np.exp(x)))
    >>> "np.logaddexp(v0, x)" in f.lower(2.0).as_text("stable"), float(f(1000.0))
    (True, 1000.0)
    """
    return rebuild(program, rewriter())


def rewriter() -> Callable[[Graph, Node, tuple[Node, ...]], Node]:
    """Return what makes each node of one program anew; it remembers which logarithms it found."""
    logs = Logarithms()

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        node = copied(graph, old, inputs)
        for _ in range(ROUNDS):
            new = rewritten(graph, node, logs)
            if new is None or new is node:
                break
            node = new
        return node

    return rewrite


def rewritten(graph: Graph, node: Node, logs: Logarithms) -> Node | None:
    """Apply the first rule that fires; the result has the node's shape and dtype."""
    if node.dtype.kind != "f":
        return None
    for rule in RULES.get(node.op.name, ()):
        new = rule(graph, node, logs)
        if new is not None and new.dtype == node.dtype:
            return shaped(graph, new, node.shape)
    return None


# -- logarithms


def _log(graph: Graph, node: Node, logs: Logarithms) -> Node | None:
    return logarithm(graph, node.inputs[0], logs)


def _log_of_base(base: float) -> Rule:
    """Rewrite log2 and log10 where the natural logarithm has a better form."""

    def rule(graph: Graph, node: Node, logs: Logarithms) -> Node | None:
        u = squared(node.inputs[0])
        if u is not None and logs.kind(u) < BOUNDED:
            return scaled(graph, 2, make(graph, node.op, make(graph, "absolute", u)))
        found = logarithm(graph, node.inputs[0], logs)
        return None if found is None else scaled(graph, 1 / math.log(base), found)

    return rule


def logarithm(graph: Graph, x: Node, logs: Logarithms, deep: int = 8) -> Node | None:
    """Find a better form of log(x), None where log(x) is as good as any."""
    if deep == 0:
        return None
    if is_selection(x):
        inner = logarithm(graph, x.inputs[0], logs, deep - 1)
        return None if inner is None else again(graph, x, inner)
    found = logs.of(graph, x)
    if found is not None:
        return found
    plain = _LOGARITHMS.get(x.op.name)
    return None if plain is None else plain(graph, x, logs, deep)


def _log_of_sum(graph: Graph, x: Node, _logs: Logarithms, _deep: int) -> Node | None:
    """Take log(1 + u)."""
    u = one_plus(x)
    return None if u is None else make(graph, "log1p", u)


def _log_of_difference(graph: Graph, x: Node, _logs: Logarithms, _deep: int) -> Node | None:
    """Take log(1 - u)."""
    u = one_minus(x)
    return None if u is None else make(graph, "log1p", minus(graph, u))


def _log_of_negative(graph: Graph, x: Node, _logs: Logarithms, _deep: int) -> Node | None:
    """Take log(1 - exp(u)), of which -expm1(u) is left when the logarithm is looked at."""
    u = argument(x.inputs[0], "expm1")
    return None if u is None else make(graph, "log1mexp", u)


def _log_of_quotient(graph: Graph, x: Node, logs: Logarithms, deep: int) -> Node | None:
    """Take log((1 + u) / (1 - u)), log(u / (1 - u)), and log(a / b) where a or b is made of exponentials."""
    a, b = x.inputs
    u = one_minus(b)
    if u is not None and one_plus(a) is u:
        return scaled(graph, 2, make(graph, "arctanh", u))
    if u is not None and a is u:
        return make(graph, "logit", u)
    return _log_of_parts(graph, "subtract", x, logs, deep)


def _log_of_product(graph: Graph, x: Node, logs: Logarithms, deep: int) -> Node | None:
    if squared(x) is not None:
        return _log_of_square(graph, x, logs, deep)
    return _log_of_parts(graph, "add", x, logs, deep)


def _log_of_parts(graph: Graph, op: str, x: Node, logs: Logarithms, deep: int) -> Node | None:
    """Take the logarithm of both factors where one is positive for sure: the other decides whether there is one."""
    if all(logs.kind(factor) < BOUNDED for factor in x.inputs):
        return None
    parts = [logarithm(graph, factor, logs, deep - 1) or make(graph, "log", factor) for factor in x.inputs]
    return make(graph, op, *parts)


def _log_of_square(graph: Graph, x: Node, _logs: Logarithms, _deep: int) -> Node:
    """Take log(u * u): the square may underflow where u does not."""
    return scaled(graph, 2, make(graph, "log", make(graph, "absolute", x.inputs[0])))


def _log_of_power(graph: Graph, x: Node, _logs: Logarithms, _deep: int) -> Node:
    exponent, u = x.params[0], x.inputs[0]
    return scaled(graph, exponent, make(graph, "log", make(graph, "absolute", u) if exponent % 2 == 0 else u))


_LOGARITHMS = {
    "add": _log_of_sum, "subtract": _log_of_difference, "negative": _log_of_negative, "divide": _log_of_quotient,
    "multiply": _log_of_product, "square": _log_of_square, "power_int": _log_of_power,
}


def _log1p(graph: Graph, node: Node, logs: Logarithms) -> Node | None:
    """Take log(1 + exp(u)), log(1 - exp(u)), log(1 - expit(u)) and log(1 + expm1(u)) at once."""
    x = node.inputs[0]
    if x.op.name == "expm1":
        return x.inputs[0]
    if x.op.name == "negative":
        u, v = argument(x.inputs[0], "exp"), argument(x.inputs[0], "expit")
        if u is not None:
            return make(graph, "log1mexp", u)
        return None if v is None else make(graph, "log_expit", minus(graph, v))
    if logs.kind(x) != GROWS or _is_bounded_exp(x):
        return None
    total = logs.of(graph, x)
    return None if total is None else make(graph, "logaddexp", literal(graph, 0, node.dtype), total)


def _is_bounded_exp(x: Node) -> bool:
    """Tell exp(-|u|), which needs no care any more."""
    u = argument(x, "exp")
    v = None if u is None else argument(u, "negative")
    return v is not None and argument(v, "absolute") is not None


# -- quotients of exponentials


def _divide(graph: Graph, node: Node, logs: Logarithms) -> Node | None:
    a, b = node.inputs
    u = one_plus_exp(b)
    if u is not None:
        return _logistic(graph, a, u)
    shares = _shares(graph, a, b, logs)
    if shares is not None:
        return shares
    v = exponent(graph, a)
    if v is not None:
        return _exp_over(graph, node, v, logs)
    w = argument(b.inputs[0], "exp") if b.op.name == "add" else None
    if w is not None and _is_mirrored(b.inputs[0], b.inputs[1]) and _is_sinh_of(a, w):
        return make(graph, "tanh", w)
    return None


def _logistic(graph: Graph, a: Node, u: Node) -> Node:
    """Divide by 1 + exp(u)."""
    if argument(a, "exp") is u:
        return make(graph, "expit", u)
    if argument(a, "expm1") is u:
        return make(graph, "tanh", scaled(graph, 0.5, u))
    if a.op.name == "negative" and argument(a.inputs[0], "expm1") is u:
        return make(graph, "tanh", scaled(graph, -0.5, u))
    share = make(graph, "expit", minus(graph, u))
    return share if is_filled(a, 1) else make(graph, "multiply", a, share)


def _shares(graph: Graph, a: Node, b: Node, logs: Logarithms) -> Node | None:
    """Divide exponentials, masked or weighted ones too, by their sums along axes: a softmax."""
    b = b.inputs[0] if b.op.name == "broadcast_to" else b
    total = core(b)
    if total.op.name != "sum" or total.inputs[0] is not a or not is_along(b.shape, a.shape, total.param("axes")):
        return None
    x = logs.of(graph, a) if logs.kind(a) == GROWS else None
    return None if x is None else make(graph, "softmax", x, axes=total.param("axes"))


def _exp_over(graph: Graph, node: Node, u: Node, logs: Logarithms) -> Node | None:
    """Divide exp(u) by a sum of exponentials."""
    b = node.inputs[1]
    total = squared(b)
    if total is not None and one_plus_exp(total) is u:
        return make(graph, "expit_slope", u)
    if b.op.name == "add":
        others = [v for v in (argument(t, "exp") for t in b.inputs) if v is not None and v is not u]
        if len(others) == 1 and any(argument(t, "exp") is u for t in b.inputs):
            return make(graph, "expit", make(graph, "subtract", u, others[0]))
    if logs.kind(b) != GROWS:
        return None
    below = logs.of(graph, b)
    return None if below is None else make(graph, "exp", make(graph, "subtract", u, below))


def _is_mirrored(a: Node, b: Node) -> bool:
    """Tell exp(x) and exp(-x), in this order."""
    x, y = argument(a, "exp"), argument(b, "exp")
    return x is not None and y is not None and argument(y, "negative") is x


def _is_sinh_of(a: Node, x: Node) -> bool:
    """Tell 2 sinh(x), of which exp(x) - exp(-x) was made."""
    return a.op.name == "multiply" and is_filled(a.inputs[0], 2) and argument(a.inputs[1], "sinh") is x


def _reciprocal(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    u = one_plus_exp(node.inputs[0])
    return None if u is None else make(graph, "expit", minus(graph, u))


def _softmax(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Leave a shift away, as in softmax(x - max(x)): softmax does its own."""
    x, axes = node.inputs[0], node.param("axes")
    if x.op.name != "subtract" or x.inputs[0].shape != x.shape or not is_constant_along(x.inputs[1], x.shape, axes):
        return None
    return make(graph, node.op, x.inputs[0], axes=axes)


# -- powers and roots


def _power(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    x, exponent = node.inputs[0], number(node.inputs[1])
    if exponent is None:
        return make(graph, "exp2", node.inputs[1]) if is_filled(x, 2) else None
    if exponent == 0:
        return literal(graph, 1, node.dtype)
    if abs(exponent) == 0.5:
        return _root(graph, x, negative=bool(exponent < 0))
    if exponent == 1:
        return x
    if exponent in {2, -1}:
        return make(graph, "square" if exponent > 0 else "reciprocal", x)
    if float(exponent).is_integer() and abs(exponent) <= LARGEST_POWER:
        return make(graph, "power_int", x, exponent=int(exponent))
    return None


def _root(graph: Graph, x: Node, *, negative: bool) -> Node:
    """Take the root of x, or its inverse, as a power: that of -infinity is infinity, that of -0.0 is 0.0."""
    signed = not (x.op.name == "astype" and x.inputs[0].dtype.kind != "f") and not is_nonnegative(x)
    root = make(graph, "sqrt", make(graph, "add", x, literal(graph, 0.0, x.dtype)) if signed else x)
    if signed:
        infinity = literal(graph, math.inf, x.dtype)
        lowest = make(graph, "equal", x, literal(graph, -math.inf, x.dtype))
        root = make(graph, "where", lowest, infinity, root)
    return make(graph, "reciprocal", root) if negative else root


def _square(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Square |x| as x, whose second derivative has no kink, and the root of a sum of squares as that sum."""
    x = squared(node)
    if x is None:
        return None
    if x.op.name == "absolute":
        return make(graph, "square", x.inputs[0])
    total = x
    if x.op.name == "where" and is_filled(x.inputs[1], 0) and x.inputs[2].op.name == "sqrt":
        zero = x.inputs[0]  # the norm: where(s == 0, 0, sqrt(s))
        if zero.op.name == "equal" and zero.inputs[0] is x.inputs[2].inputs[0] and is_filled(zero.inputs[1], 0):
            total = x.inputs[2]
    s = argument(total, "sqrt")
    return s if s is not None and is_nonnegative(s) else None


def is_nonnegative(node: Node, deep: int = 8) -> bool:
    """Tell a value that cannot be negative, by its form: sums and multiples of squares, magnitudes, exponentials."""
    if squared(node) is not None or node.op.name in {"absolute", "exp", "sqrt", "hypot", "expit"}:
        return True
    known = number(node)
    if known is not None:
        return bool(known >= 0)
    if node.op.name == "einsum" and len({*node.inputs}) == 1 and len({*parse(node.params[0])[0]}) == 1:
        return len(node.inputs) == 2  # x @ x
    if deep and node.op.name in {"add", "multiply", "divide"}:
        return all(is_nonnegative(i, deep - 1) for i in node.inputs)
    return bool(deep) and (node.op.name == "sum" or getattr(node.op, "view", False)) and is_nonnegative(
        node.inputs[0], deep - 1
    )


def _sqrt(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    x = squared(node.inputs[0])
    return None if x is None else make(graph, "absolute", x)


def _maximum(graph: Graph, node: Node, _logs: Logarithms) -> Node | None:
    """Name maximum(x, 0) for what it is: its derivative at 0 is 0, where a tie of two variables shares evenly."""
    a, b = node.inputs
    x = a if is_filled(b, 0) else b if is_filled(a, 0) else None
    return None if x is None else make(graph, "relu", x)


RULES: dict[str, tuple[Rule, ...]] = {
    "log": (_log,), "log2": (_log_of_base(2),), "log10": (_log_of_base(10),), "log1p": (_log1p,),
    "add": sums.ADD, "subtract": sums.SUBTRACT,
    "divide": (_divide,), "reciprocal": (_reciprocal,), "softmax": (_softmax,), "log_softmax": (_softmax,),
    "power": (_power,), "float_power": (_power,), "square": (_square,), "multiply": (_square,), "power_int": (_square,),
    "sqrt": (_sqrt,), "maximum": (_maximum,),
}
"""The rules of each op, by its name, tried in this order."""

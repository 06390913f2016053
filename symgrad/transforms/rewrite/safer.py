"""`safer`: formulations that lose digits or overflow become ones that do not, before any derivative.

Every rule is an identity for all numbers, and right wherever the formulation it replaces was. So ``1 - exp(x)`` becomes
``-expm1(x)``, and ``log(1 + x)``, for any x, ``log1p(x)``; ``log(2 + x)`` stays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad import ops
from symgrad.ir.node import Node
from symgrad.ir.op import Elementwise, Structured
from symgrad.ir.program import Program
from symgrad.ops.declare.traits import traits
from symgrad.ops.elementwise import arithmetic, exponential
from symgrad.ops.numpy import exponential_sums
from symgrad.transforms.build import again, core, is_along, is_selection, literal, make, may_select, number, written
from symgrad.transforms.rewrite.contractions import behind_view, labelled
from symgrad.transforms.rewrite.engine import NUMBER, PARAM, Form, Run, Table, by, computed, family, rule, viewed
from symgrad.transforms.rewrite.logarithms import BOUNDED, GROWS, Logarithms
from symgrad.transforms.tuned import LOGARITHM_DEEP, POWER


def safer(program: Program) -> Program:
    """Rewrite a traced program to a better conditioned one.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x: np.log(1 + np.exp(x)))
    >>> "np.logaddexp(v0, x)" in f.lower(2.0).as_text("stable"), float(f(1000.0))
    (True, 1000.0)
    """
    return SAFER(program)


# -- what rules ask of what they found


def is_nonnegative(x: Node, deep: int = 8) -> bool:
    """Whether a value cannot be negative, by its form: sums and multiples of squares, magnitudes, exponentials."""
    op, known = x.op, number(x)
    if known is not None:
        return bool(known >= 0)
    scalar = traits(op, x.params) if isinstance(op, Elementwise) else None
    if scalar is not None and (scalar.positive or (op is ops.multiply and x.inputs[0] is x.inputs[1])):
        return True
    if op.labels and len({*x.inputs}) == 1 and len({*op.labels(**x.named)[0]}) == 1:
        return len(x.inputs) == 2  # x @ x
    keeps = scalar.keeps_sign if scalar else isinstance(op, Structured) and (op.view or op.regular)
    if not deep or not keeps:
        return False
    return all(is_nonnegative(i, deep - 1) for i in x.inputs if i.dtype.kind == "f")


def is_unsigned(x: Node) -> bool:
    """Whether x ** 0.5 is sqrt(x): it differs for -infinity and -0.0."""
    return (x.op is ops.astype and x.inputs[0].dtype.kind != "f") or is_nonnegative(x)


def is_same_along(m: Node, x: Node, axes: Any) -> bool:
    """Whether a value that broadcasts to x's shape is the same all along the axes, by its shape.

    One that needs no derivative stays: what else was shifted by it has exponentials to share.
    """
    lead = len(x.shape) - len(m.shape)
    return not core(m).op.nondiff and lead >= 0 and all(k < lead or m.shape[k - lead] == 1 for k in axes)


def is_shift(s: Node, x: Node, m: Node, axes: Any, node: Node) -> bool:
    """Whether s, which is added to the logsumexp of x - m, is m, along the same axes."""
    return all(i.shape == node.shape for i in node.inputs) and core(m) is core(s) and is_along(m.shape, x.shape, axes)


# -- what functions of exponentials need: a logarithm that is taken without them


def of_exponentials(run: Run, x: Node) -> Node | None:
    """Return the logarithm of a value made of exponentials, see `Logarithms`."""
    return run.recall(Logarithms).of(run.graph, x)  # type: ignore[no-any-return]


def may_overflow(run: Run, x: Node) -> bool:
    """Whether a value is made of exponentials that may overflow."""
    return bool(run.recall(Logarithms).kind(x) == GROWS)


def better_log(run: Run, x: Node) -> Node:
    """Return log(x), in a better form if there is one."""
    log = make(run.graph, ops.log, x)
    if run.deep == LOGARITHM_DEEP:
        return log
    run.deep += 1
    found = run.settled(log)
    run.deep -= 1
    return found


def log_by_form(run: Run, node: Node) -> Node | None:
    """Take log(x) of exponentials, and behind views and gathers: ``log((1 + x)[::-1])`` is ``log1p(x)[::-1]``."""
    x = node.inputs[0]
    if is_selection(x):
        log = better_log(run, x.inputs[0])
        return None if log.op is node.op and log.inputs[0] is x.inputs[0] else again(run.graph, x, log)
    return of_exponentials(run, x)


_PRODUCT, _QUOTIENT = Form(lambda x, y: x * y), Form(lambda x, y: x / y)


def log_of_parts(run: Run, node: Node) -> Node | None:
    """Take log(a * b) and log(a / b) where one is positive for sure: the other decides whether there is a logarithm."""
    x, logs = node.inputs[0], run.recall(Logarithms)
    if not (_PRODUCT(x) or _QUOTIENT(x)) or all(logs.kind(factor) < BOUNDED for factor in x.inputs):
        return None
    return written(run.graph, x.op.logs, *[better_log(run, f) for f in x.inputs])  # type: ignore[arg-type]  # they have it


def log_of_base(run: Run, node: Node) -> Node | None:
    """Take log2 and log10 where the natural logarithm has a better form."""
    log = better_log(run, node.inputs[0])
    if log.op is ops.log and log.inputs[0] is node.inputs[0]:
        return None
    factor = 1 / math.log(2 if node.op is ops.log2 else 10)
    return make(run.graph, ops.multiply, literal(run.graph, factor, log.dtype), log)


_BOUNDED = Form(lambda u: np.exp(-np.absolute(u)))


def softplus(run: Run, node: Node) -> Node | None:
    """Take log1p(x) of exponentials that may overflow: exp(-|u|) may not."""
    x = node.inputs[0]
    if not may_overflow(run, x) or _BOUNDED(x):
        return None
    log = of_exponentials(run, x)
    return None if log is None else make(run.graph, ops.logaddexp, literal(run.graph, 0, node.dtype), log)


_TOTAL = Form(lambda x, axes: ops.sum(x, axes=axes), axes=PARAM)
_PRODUCTS = Form(lambda x, y, axes: ops.sum(x * y, axes=axes), axes=PARAM)


def may_be_total(_: Any, total: Any) -> bool:
    """Whether what is divided by may be a sum, or a view of one."""
    return total is ops.sum or getattr(total, "view", False)


def quotient_softmax(run: Run, node: Node) -> Node | None:
    """Divide exponentials, masked or weighted ones too, by their sums along axes: a softmax."""
    a, b = node.inputs
    b = b.inputs[0] if b.op.aligned else b
    total = _TOTAL(core(b))
    if total is None or total["x"] is not a or not is_along(b.shape, a.shape, total["axes"]):
        return None
    x = of_exponentials(run, a) if may_overflow(run, a) else None
    return None if x is None else make(run.graph, ops.softmax, x, axes=total["axes"])


def weighted_mean(run: Run, node: Node) -> Node | None:
    """Divide a sum of products by the sum of one of their factors: ``exp(x) @ v / sum(exp(x))`` has a softmax."""
    a, b = node.inputs
    b = b.inputs[0] if b.op.aligned else b
    total = _TOTAL(core(b))
    if total is None or not (a.op.labels or _PRODUCTS(a)):
        return None
    e, axes = total["x"], total["axes"]
    products = a if a.op.labels else a.inputs[0]
    terms, result = labelled(a)
    for k, (factor, own) in enumerate(zip(products.inputs, terms, strict=True)):
        labels = own if factor is e else behind_view(factor, own) if factor.inputs and factor.inputs[0] is e else ""
        if not labels:
            continue
        gone = {labels[axis] for axis in axes}
        kept = [label for label in labels if label not in gone]
        extents = dict(zip(kept, core(b).shape, strict=False))
        divided = (1,) * (len(result) - len(b.shape)) + b.shape == tuple([extents.get(label, 1) for label in result])
        if not divided or not gone.isdisjoint(result) or [label for label in result if label in extents] != kept:
            continue
        x = of_exponentials(run, e) if may_overflow(run, e) else None
        if x is not None:
            inputs, p = [*products.inputs], run.settled(make(run.graph, ops.softmax, x, axes=axes))
            inputs[k] = p if factor is e else again(run.graph, factor, p)
            made = make(run.graph, products.op, *inputs, **products.named)
            return made if products is a else again(run.graph, a, made)
    return None


def exponent(run: Run, node: Node) -> Node | None:
    """Return u where the node is exp(u), or views and gathers of it."""
    selections: list[Node] = []
    while is_selection(node) and len(selections) < LOGARITHM_DEEP:
        selections.append(node)
        node = node.inputs[0]
    if node.op is not ops.exp:
        return None
    u = node.inputs[0]
    for selection in reversed(selections):
        u = again(run.graph, selection, u)
    return u


def exponential_over(run: Run, node: Node) -> Node | None:
    """Divide exp(u) by what is made of exponentials."""
    a, b = node.inputs
    u = exponent(run, a) if may_overflow(run, b) else None
    below = of_exponentials(run, b) if u is not None else None
    return None if u is None or below is None else make(run.graph, ops.exp, make(run.graph, ops.subtract, u, below))


# -- the table

SQUARES: list[Any] = [np.square, lambda x: x * x, lambda x: ops.power_int(x, exponent=2)]
"""What a square may be written as."""

LESS: list[Any] = [
    (np.exp, lambda x: -np.expm1(x)),
    (lambda x: ops.expit(x), lambda x: ops.expit(-x)),
    (np.tanh, lambda x: 2 * ops.expit(-2 * x)),
    (lambda x: ops.erf(x), lambda x: ops.erfc(x)),
    (lambda x: ops.erfc(x), lambda x: ops.erf(x)),
    (lambda x: ops.ndtr(x), lambda x: ops.ndtr(-x)),
    *[(lambda x, s=square: s(np.tanh(x)), lambda x: 4 * ops.expit_slope(2 * x)) for square in SQUARES],
    *[(lambda x, s=square: s(np.sin(x)), lambda x: np.square(np.cos(x))) for square in SQUARES],
    *[(lambda x, s=square: s(np.cos(x)), lambda x: np.square(np.sin(x))) for square in SQUARES],
    *[(square, lambda x: ops.one_minus_square(x)) for square in SQUARES],
]
"""Functions y of x, and 1 - y in a form that does not cancel."""

POWERS: dict[str, Any] = {"f": family(arithmetic.power, arithmetic.float_power), "c": NUMBER}

SAFER = Table(
    # 1 - y and 1 + y for functions with limits -1, 0 or 1
    *[rule(lambda x, y=y: 1 - y(x), less) for y, less in LESS],
    *[rule(lambda x, y=y: y(x) - 1, lambda x, less=less: -less(x)) for y, less in LESS],
    *[rule(lambda x, y=y: y(x) + -1, lambda x, less=less: -less(x)) for y, less in LESS],
    rule(lambda x: 1 + np.tanh(x), lambda x: 2 * ops.expit(2 * x)),
    rule(lambda x: 1 + ops.erf(x), lambda x: ops.erfc(-x)),
    rule(lambda x: np.exp(x) - np.exp(-x), lambda x: 2 * np.sinh(x)),
    rule(lambda x: np.exp(-x) - np.exp(x), lambda x: -2 * np.sinh(x)),

    # logarithms
    by(log_by_form, exponential.log),
    rule(lambda x: np.log(1 + x), lambda x: np.log1p(x)),
    rule(lambda x: np.log(1 - x), lambda x: np.log1p(-x)),
    rule(lambda x: np.log(-np.expm1(x)), lambda x: ops.log1mexp(x)),
    rule(lambda x: np.log((1 + x) / (1 - x)), lambda x: 2 * np.arctanh(x)),
    rule(lambda x: np.log(x / (1 - x)), lambda x: ops.logit(x)),
    *[rule(lambda x, s=square: np.log(s(x)), lambda x: 2 * np.log(np.absolute(x))) for square in SQUARES],
    rule(lambda x, n: np.log(ops.power_int(x, exponent=n)), lambda x, n: computed(float, n) * np.log(np.absolute(x)),
         n=PARAM, when=lambda n: n % 2 == 0),
    rule(lambda x, n: np.log(ops.power_int(x, exponent=n)), lambda x, n: computed(float, n) * np.log(x), n=PARAM),
    by(log_of_parts, exponential.log),
    *[rule(lambda f, x, s=square: f(s(x)), lambda f, x: 2 * f(np.absolute(x)),
           f=family(exponential.log2, exponential.log10), when=lambda x, run: run.recall(Logarithms).kind(x) < BOUNDED)
      for square in SQUARES],
    by(log_of_base, exponential.log2, exponential.log10),
    rule(lambda x: np.log1p(np.expm1(x)), lambda x: x),
    rule(lambda x: np.log1p(-np.exp(x)), lambda x: ops.log1mexp(x)),
    rule(lambda x: np.log1p(-ops.expit(x)), lambda x: ops.log_expit(-x)),
    by(softplus, exponential.log1p),
    rule(lambda x: ops.relu(x) + np.log1p(np.exp(-np.absolute(x))), lambda x: np.logaddexp(0, x)),

    # quotients of exponentials
    rule(lambda x: np.exp(x) / (1 + np.exp(x)), lambda x: ops.expit(x)),
    rule(lambda x: np.expm1(x) / (1 + np.exp(x)), lambda x: np.tanh(0.5 * x)),
    rule(lambda x: -np.expm1(x) / (1 + np.exp(x)), lambda x: np.tanh(-0.5 * x)),
    rule(lambda x: 1 / (1 + np.exp(x)), lambda x: ops.expit(-x)),
    rule(lambda a, x: a / (1 + np.exp(x)), lambda a, x: a * ops.expit(-x)),
    rule(lambda x: np.reciprocal(1 + np.exp(x)), lambda x: ops.expit(-x)),
    *[rule(lambda x, s=square: np.exp(x) / s(1 + np.exp(x)), lambda x: ops.expit_slope(x)) for square in SQUARES],
    rule(lambda x, y: np.exp(x) / (np.exp(x) + np.exp(y)), lambda x, y: ops.expit(x - y),
         when=lambda x, y: x is not y),
    rule(lambda x: 2 * np.sinh(x) / (np.exp(x) + np.exp(-x)), lambda x: np.tanh(x)),
    by(quotient_softmax, arithmetic.divide, among=may_be_total),
    by(weighted_mean, arithmetic.divide, among=may_be_total),
    by(exponential_over, arithmetic.divide, among=lambda x, _: x is ops.exp or may_select(x)),

    # logsumexp and softmax written by hand with their shifts, which need no derivative
    rule(lambda f, x, m, axes: f(x - m, axes=axes), lambda f, x, axes: f(x, axes=axes), axes=PARAM,
         f=family(exponential_sums.softmax, exponential_sums.log_softmax), when=is_same_along),
    rule(lambda s, x, m, axes: s + viewed(ops.logsumexp(x - m, axes=axes)),
         lambda x, axes: ops.logsumexp(x, axes=axes), axes=PARAM, when=is_shift),
    rule(lambda s, x, m, axes: s + viewed(ops.logsumexp(x - m, axes=axes)),
         lambda s, x, axes: ops.reshape(ops.logsumexp(x, axes=axes), shape=computed(lambda s: s.shape, s)), axes=PARAM,
         when=is_shift),
    rule(lambda x, axes: x - viewed(ops.logsumexp(x, axes=axes)),
         lambda x, axes: ops.log_softmax(x, axes=axes), axes=PARAM,
         when=lambda x, axes, node: is_along(node.inputs[1].shape, x.shape, axes)),

    # powers and roots
    rule(lambda f, x, c: f(x, c), lambda: 1, **POWERS, when=lambda c: c == 0),
    rule(lambda f, x, c: f(x, c), lambda x: np.sqrt(x), **POWERS, when=lambda x, c: c == 0.5 and is_unsigned(x)),
    rule(lambda f, x, c: f(x, c), lambda x: np.reciprocal(np.sqrt(x)), **POWERS,
         when=lambda x, c: c == -0.5 and is_unsigned(x)),
    rule(lambda f, x: f(x, 0.5), lambda x: np.where(x == -np.inf, np.inf, np.sqrt(x + 0.0)), f=POWERS["f"]),
    rule(lambda f, x: f(x, -0.5), lambda x: np.reciprocal(np.where(x == -np.inf, np.inf, np.sqrt(x + 0.0))),
         f=POWERS["f"]),
    rule(lambda f, x: f(x, 1), lambda x: x, f=POWERS["f"]),
    rule(lambda f, x: f(x, 2), lambda x: np.square(x), f=POWERS["f"]),
    rule(lambda f, x: f(x, -1), lambda x: np.reciprocal(x), f=POWERS["f"]),
    rule(lambda f, x, c: f(x, c), lambda x, c: ops.power_int(x, exponent=computed(int, c)), **POWERS,
         when=lambda c: float(c).is_integer() and abs(c) <= POWER),
    rule(lambda f, x: f(2, x), lambda x: np.exp2(x), f=POWERS["f"]),
    *[rule(lambda x, s=square: s(np.absolute(x)), lambda x: np.square(x)) for square in SQUARES],
    *[rule(lambda x, s=square: s(np.where(x == 0, 0, np.sqrt(x))), lambda x: x, when=is_nonnegative)
      for square in SQUARES],
    *[rule(lambda x, s=square: s(np.sqrt(x)), lambda x: x, when=is_nonnegative) for square in SQUARES],
    *[rule(lambda x, s=square: np.sqrt(s(x)), lambda x: np.absolute(x)) for square in SQUARES],
    rule(lambda x: np.maximum(x, 0), lambda x: ops.relu(x)),  # of which the derivative at 0 is 0: a tie shares evenly
)

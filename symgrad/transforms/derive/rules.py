"""The derivative of an op, as a function: its rule, or what follows from its value or its body."""

from __future__ import annotations

from functools import partial
from typing import Any

from symgrad.errors import NoGradient
from symgrad.ir.op import Composite, Elementwise
from symgrad.ops.adjoints import rule_of
from symgrad.ops.batched import each
from symgrad.ops.declare.calculus import cotangents
from symgrad.ops.declare.forms import OPS
from symgrad.transforms.derive.batch import each_of, summed_over_batch


def rule(op: Any) -> Any:
    """Return an op's derivative as a function ``(g, y, *x, **params)``: its rule, or what follows from its body.

    Raises:
        NoGradient: when it has none.
    """
    if op is each:
        return each_rule
    if op.vjp is not None:
        return op.vjp
    if isinstance(op, Elementwise):
        return partial(cotangents, op)
    if isinstance(op, Composite):
        raise NoGradient(f"the composite {op.name} has no rule and was not inlined")
    return rule_of(op)


def each_rule(g: Any, y: Any, *xs: Any, of: str, mapped: tuple[bool, ...], params: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pull a cotangent through an op for each index: by the op's own rule, batched.

    Args:
        g: the cotangent (or a guard, which goes the same way).
        y: the result, None for a guard.
        xs: the operands.
        of: the op's name.
        mapped: which operands have the batch's axis.
        params: the op's parameters.
    """
    op, named = OPS[of], dict(zip(OPS[of].params, params, strict=True))

    def pull(*ones: Any) -> Any:
        x = ones[len(ones) - len(xs) :]
        return rule(op)(ones[0], None if y is None else ones[1], *x, **named)

    given = [v for v in (g, y, *xs) if v is not None]
    return summed_over_batch(each_of(pull, given, [True] * (len(given) - len(xs)) + list(mapped)), mapped, g)

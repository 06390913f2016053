"""Rules that are in force while a function is traced: an op recorded meanwhile is one of its own until it is derived.

The op that stands in its place has the same value and another rule; no pass knows it, so none rewrites it, and after
derivation its body, the op itself, takes its place again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, DtypeError, Line, NoGradient, SymgradError
from symgrad.ir.index import shapes
from symgrad.ir.op import Composite, Elementwise, Op
from symgrad.ops.declare.forms import ANSWERS, OPS, shape_of
from symgrad.trace.lines import user_line
from symgrad.trace.state import Trace, active
from symgrad.trace.tracer import Tracer, as_node

Rule = Callable[..., Any]


class Override:
    """One rule in force, and the ops it made."""

    def __init__(self, keys: set[Any], rule: Rule) -> None:
        self.keys, self.rule = keys, rule
        self.made: dict[Any, Composite] = {}

    def fits(self, op: Any) -> bool:
        """Whether it is meant: the op, its name, or its name behind the names of the scopes around."""
        return op in self.keys or op.name in self.keys or "/".join((*active.scopes, op.name)) in self.keys

    def op(self, op: Op) -> Op:
        """Return the op with this rule; the op itself for who wants to do without the rules in force."""
        if not heeded(words(self.rule, op.name)):
            return op
        found = self.made.get(op)
        if found is None:
            found = self.made[op] = Composite(
                f"{op.name}_overridden", op.params, evaluate=op.evaluate, infer=op.infer,
                vjp=checked(op.name, self.rule, exact=not isinstance(op, Elementwise)), body=op.__call__,
                doc=f"{op.name} with a rule of the user's",
                override=words(self.rule, op.name),
            )
        return found


def words(rule: Rule, of: str) -> str:
    """Say that a rule of the user's is in force."""
    name = getattr(rule, "__name__", type(rule).__name__)
    name = "a lambda" if name == "<lambda>" else name
    code = getattr(rule, "__code__", None)
    where = "" if code is None else f" ({Line(code.co_filename, code.co_firstlineno, '')})"
    return f"the rule {name}{where} in the place of that of {of}"


def heeded(said: str) -> bool:
    """Note that a rule would stand in the place of another one, for who wants to know; tell whether it does."""
    if not active.heeded:
        return True
    seen, heed = active.heeded[-1]
    line = user_line()
    seen[said if line is None else f"{said} at {line}"] = None
    return heed


@contextmanager
def noted(*, heed: bool = True) -> Iterator[dict[str, None]]:
    """List the rules that stand in the place of others where something is traced; or do without them."""
    seen: dict[str, None] = {}
    active.heeded.append((seen, heed))
    try:
        yield seen
    finally:
        active.heeded.pop()


def override_of(function: Any) -> Rule | None:
    """Return the rule that is in force for a custom function."""
    found = next((o.rule for o in reversed(active.overrides) if o.fits(function)), None)
    return found if found is not None and heeded(words(found, function.name)) else None


def checked(name: str, rule: Rule, *, exact: bool = False, labels: Sequence[str] = ()) -> Rule:
    """Check what a user's rule gives: a floating-point cotangent, or None, for each input.

    Args:
        name: of the op or function, for messages.
        rule: the rule.
        exact: whether a cotangent must have its input's shape; else it may have the result's.
        labels: what the inputs are called, if not by their numbers.
    """

    def apply(g: Any, y: Any, *x: Any, **params: Any) -> tuple[Any, ...]:
        try:
            found = rule(g, y, *x, **params)
        except SymgradError as error:
            if error.line is not None or isinstance(error, NoGradient):
                raise  # the sweep says where
            raise type(error)(error.what, line=g.owner.graph.line, instead=error.instead) from None
        parts = found if isinstance(found, (tuple, list)) else (found,)
        if len(parts) != len(x):
            raise ArgumentError(
                f"the rule for {name} gives {len(parts)} cotangents for {len(x)} inputs", line=g.owner.graph.line,
                instead="one for each input, None where there is none",
            )
        named = labels or [f"input {k}" for k in range(len(x))]
        every = zip(parts, x, named, strict=True)
        return tuple([_cotangent(name, part, one, label, g, exact=exact) for part, one, label in every])

    return apply


def _cotangent(name: str, part: Any, x: Any, label: str, g: Any, *, exact: bool) -> Any:
    """Make a value of what a rule gives for one input: of the input's shape, or of the one it is stretched to."""
    if part is None or x.dtype.kind != "f":
        return None
    value = floating(f"the rule for {name} gives {{}} as the cotangent of {label}", part, x.dtype, g.owner)
    if shape_of(value) == shape_of(x) or (not exact and shape_of(value) == shape_of(g)):
        return value
    stretched = "" if exact or shape_of(x) == shape_of(g) else f", or {shapes.show(shape_of(g))}, that of the result"
    raise ArgumentError(
        f"the rule for {name} gives a cotangent of shape {shapes.show(shape_of(value))} for {label}, "
        f"which has shape {shapes.show(shape_of(x))}{stretched}", line=g.owner.graph.line,
        instead="np.broadcast_to or np.sum in the rule, which says what is meant",
    )


def floating(said: str, value: Any, dtype: np.dtype[Any], trace: Trace) -> Any:
    """Return what a user's rule gives, an array or number of floating point, in the dtype that is wanted."""
    kind = getattr(value, "dtype", None)
    if type(value) not in {int, float} and not hasattr(type(value), "tracer"):
        if not isinstance(kind, np.dtype):
            raise ArgumentError(
                said.format(f"a {type(value).__name__}"), line=trace.graph.line, instead="an array, or None",
            )
        if kind.kind != "f":
            raise DtypeError(
                said.format(f"{kind}[{','.join(map(str, shape_of(value)))}]"), line=trace.graph.line,
                instead=f"floating point in the rule, .astype(np.{dtype}), or None where there is no derivative",
            )
    found = Tracer(as_node(trace, value), trace)
    return found if found.dtype == dtype else found.astype(dtype)


def opened(what: Any, rule: Rule) -> Override | None:
    """Make an override of an op, by its name, by a ufunc, or by what `custom_vjp` and the like gave; None of others."""
    from symgrad.ops import load

    load()
    last = None
    op: Any
    if isinstance(what, str):
        op, last = what, what.rpartition("/")[2]
        if last not in OPS:
            raise ArgumentError(f"no op has the name {last!r}", line=user_line(), instead="`symgrad ops` lists them")
    else:
        op = ANSWERS.get(what) if isinstance(what, np.ufunc) else what
        if not (hasattr(op, "name") and (hasattr(op, "evaluate") or hasattr(op, "fun"))):
            return None
    if getattr(op if last is None else OPS[last], "view", False):
        raise ArgumentError(f"{what!r} is a view, which is never computed: no rule to override", line=user_line())
    return Override({op}, rule)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Name what is computed inside of the block, for `override_gradient`: ``"layer1/square"``; names nest.

    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     with sg.override_gradient("inner/square", lambda g, y, x: 0 * g):
    ...         z = np.square(x)
    ...         with sg.named("inner"):
    ...             return z + np.square(x)
    >>> float(sg.grad(f)(5.0))
    10.0
    """
    active.scopes.append(name)
    try:
        yield
    finally:
        active.scopes.pop()

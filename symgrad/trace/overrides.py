"""Rules that are in force while a function is traced: an op recorded meanwhile is one of its own until it is derived.

The op that stands in its place has the same value and another rule; no pass knows it, so none rewrites it, and after
derivation its body, the op itself, takes its place again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentError, NoGradient, SymgradError
from symgrad.ir import shapes
from symgrad.ir.op import Composite
from symgrad.ops.declare import ANSWERS, OPS, shape_of
from symgrad.trace.lines import user_line
from symgrad.trace.state import active, current
from symgrad.trace.tracer import Tracer, as_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from symgrad.ir.op import Op

    Rule = Callable[..., Any]


class Override:
    """One rule in force, and the ops it made."""

    def __init__(self, keys: set[Any], rule: Rule) -> None:
        """Hold for ops and functions, by name or by themselves."""
        self.keys, self.rule = keys, rule
        self.made: dict[Any, Composite] = {}

    def fits(self, op: Any) -> bool:
        """Tell whether it is meant: the op, its name, or its name behind the names of the scopes around."""
        return op in self.keys or op.name in self.keys or "/".join((*active.scopes, op.name)) in self.keys

    def op(self, op: Op) -> Composite:
        """Return the op with this rule."""
        found = self.made.get(op)
        if found is None:
            found = self.made[op] = Composite(
                f"{op.name}_overridden", op.params, evaluate=op.evaluate, infer=op.infer,
                vjp=checked(op.name, self.rule), body=op.__call__, doc=f"{op.name} with a rule of the user's",
            )
        return found


def overridden(op: Op) -> Op:
    """Return the op to record: with the rule of the innermost override that means it."""
    found = next((override for override in reversed(active.overrides) if override.fits(op)), None)
    return op if found is None else found.op(op)


def override_of(function: Any) -> Rule | None:
    """Return the rule that is in force for a custom function."""
    return next((o.rule for o in reversed(active.overrides) if o.fits(function)), None)


def checked(name: str, rule: Rule) -> Rule:
    """Check what a user's rule gives: one cotangent for each input, of a shape that fits."""

    def apply(g: Any, y: Any, *x: Any, **params: Any) -> tuple[Any, ...]:
        try:
            found = rule(g, y, *x, **params)
        except SymgradError as error:
            if error.line is not None or isinstance(error, NoGradient):
                raise  # the sweep says where
            raise type(error)(error.what, line=g.owner.graph.line, instead=error.instead) from None
        parts = found if isinstance(found, (tuple, list)) else (found,)
        if len(parts) != len(x):
            raise ArgumentError(f"the rule for {name} gives {len(parts)} cotangents for {len(x)} inputs")
        return tuple([_cotangent(name, k, *pair, g) for k, pair in enumerate(zip(parts, x, strict=True))])

    return apply


def _cotangent(name: str, k: int, part: Any, x: Any, g: Any) -> Any:
    """Make a value of what a rule gives for one input, of the input's shape or of the one it is stretched to."""
    if part is None or x.dtype.kind != "f":
        return None
    value = Tracer(as_node(g.owner, part), g.owner)
    value = value if value.dtype == x.dtype else value.astype(x.dtype)
    if shape_of(value) in {shape_of(x), shape_of(g)}:
        return value
    try:
        return OPS["broadcast_to"](value, shape=shape_of(x))
    except SymgradError:
        raise ArgumentError(
            f"the rule for {name} gives a cotangent of shape {shapes.show(shape_of(value))} for input {k}, "
            f"which has shape {shapes.show(shape_of(x))}", line=g.owner.graph.line,
        ) from None


def _key(what: Any) -> set[Any]:
    from symgrad.ops import load

    load()
    if isinstance(what, str):
        return {what}
    op = ANSWERS.get(what) if isinstance(what, np.ufunc) else what
    if hasattr(op, "name") and (hasattr(op, "evaluate") or hasattr(op, "fun")):
        return {op}
    raise ArgumentError(
        f"override_gradient of {what!r}, which is neither the name of an op nor a ufunc nor a custom function",
        line=user_line(), instead="a name that `symgrad ops` lists, np.exp, or what define_op or custom_vjp gave",
    )


@contextmanager
def override_gradient(what: Any, rule: Rule | None = None) -> Iterator[None]:
    """Give an op another derivative, for what is computed inside of the block; blocks nest, the innermost holds.

    Args:
        what: the name of an op (``"square"``), the same behind the names of `named` scopes (``"layer1/square"``),
            a ufunc, or what `define_op`, `custom_vjp` or `custom_jvp` gave; or a dict of such things to rules.
        rule: ``rule(g, y, *x)``, NumPy code for the cotangents of the inputs: one, or a tuple with None where there is
            none. Parameters of the op (``axes``, ...) come by name.

    Raises:
        ArgumentError: outside of a traced function; nothing has this name; later, when the function is derived, a
            cotangent does not fit its input.

    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     with sg.override_gradient("square", lambda g, y, x: g * 100):
    ...         z = np.square(x)
    ...     return z + np.square(x)
    >>> float(sg.grad(f)(5.0))
    110.0
    """
    if current() is None:
        raise ArgumentError(
            "override_gradient outside of a traced function, where nothing is recorded", line=user_line(),
            instead="the block inside of the function that is compiled or derived",
        )
    rules = what if isinstance(what, dict) else {what: rule}
    entered = []
    for each, own in rules.items():
        if not callable(own):
            raise ArgumentError(f"the rule for {each!r} is no function", line=user_line(), instead="rule(g, y, *x)")
        keys = _key(each)
        last = each.rpartition("/")[2] if isinstance(each, str) else None
        if last is not None and last not in OPS:
            raise ArgumentError(f"no op has the name {last!r}", line=user_line(), instead="`symgrad ops` lists them")
        if any(getattr(key if last is None else OPS[last], "view", False) for key in keys):
            raise ArgumentError(f"{each!r} is a view, which is never computed: no rule to override", line=user_line())
        entered.append(Override(keys, own))
    active.overrides.extend(entered)
    try:
        yield
    finally:
        for override in entered:
            active.overrides.remove(override)


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

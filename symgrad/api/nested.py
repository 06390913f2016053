"""A function called with traced values: traced with fresh inputs on the caller's table, derived, put in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import optree

from symgrad.ir.names import identifier
from symgrad.ir.program import Program, copied, replaced
from symgrad.trace.trace import trace
from symgrad.trace.tracer import Tracer, as_node, cast
from symgrad.transforms.diagonals import diagonals
from symgrad.transforms.stabilize import stabilize
from symgrad.transforms.writes import gather_writes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.arguments import Arguments
    from symgrad.ir.node import Graph, Node
    from symgrad.trace.signature import Signature
    from symgrad.trace.state import Trace

    Rewrite = Callable[[Graph, Node, tuple[Node, ...]], Node]


@dataclass(frozen=True)
class Nested:
    """A function traced on its caller's table.

    Its inputs are fresh ones, so that what the function closes over is constant to its derivative even where it is
    the same value as an argument: ``d/dx (x * d/dy (x + y))`` is 1.

    Attributes:
        outer: the caller's trace.
        program: what the function does to its inputs.
        tree: the structure of what it returned.
        signature: what its arguments are.
        leaves: the caller's values of them.
    """

    outer: Trace
    program: Program
    tree: Any
    signature: Signature
    leaves: list[Any]

    def values(self) -> list[Tracer]:
        """Return the function's results."""
        return self.put(self.program)

    def put(self, program: Program, more: Sequence[Any] = (), rewrite: Rewrite = copied) -> list[Tracer]:
        """Put a program in its place: its inputs are the function's arguments, and more."""
        return substituted(self.outer, program, [*self.leaves, *more], rewrite)

    def unflatten(self, results: Sequence[Any]) -> Any:
        """Give results the structure the function gave them."""
        return optree.tree_unflatten(self.tree, results)


def nested(
    outer: Trace, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments,
    *, inner: Callable[[Signature], Signature] | None = None,
) -> Nested:
    """Trace a function on the caller's table; `inner` changes what it sees of its arguments."""
    call = arguments.split(args, kwargs)
    signature = arguments.describe(call)
    seen = signature if inner is None else inner(signature)

    def on(tracers: list[Any]) -> Any:
        positional, keywords = arguments.join(tracers, seen)
        return fun(*positional, **keywords)

    traced = trace(fun, seen, on, name=identifier(arguments.name), creation=False, outer=outer)
    return Nested(outer, stabilize(diagonals(gather_writes(traced.program))), traced.tree, signature, call.leaves)


def inlined(
    outer: Trace, program: Program, derive: Callable[[Program], Program], leaves: Sequence[Any],
) -> list[Tracer]:
    """Derive a nested program, then replace its inputs by the caller's values."""
    return substituted(outer, derive(stabilize(diagonals(gather_writes(program)))), leaves)


def substituted(
    outer: Trace, program: Program, leaves: Sequence[Any], rewrite: Rewrite = copied,
) -> list[Tracer]:
    """Put a nested program in the place where it was called: its inputs become the caller's values."""
    values = []
    for node, leaf in zip(program.inputs, leaves, strict=True):
        value = as_node(outer, leaf)
        values.append(value if value.dtype == node.dtype else cast(outer, value, node.dtype))
    return [Tracer(node, outer) for node in replaced(outer.graph, program, values, rewrite)]

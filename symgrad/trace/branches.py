"""Python's own branches: a condition on traced values comes to what it does at the arguments of the call.

The interpreter computes it, Python goes its way, and a guard is recorded: the program that is compiled looks whether
the condition comes to the same, and a call where it does not goes to the path that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.ir.evaluate import concrete
from symgrad.ir.node import SEVERAL
from symgrad.ops.control.guard import guard
from symgrad.ops.declare import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from symgrad.errors import Line
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program


class Branch(NamedTuple):
    """What a condition, or an integer that Python asked for, came to, and the user's line that asked.

    >>> Branch(True, None)
    Branch(outcome=True, line=None)
    """

    outcome: bool | int
    line: Line | None


def branches_of(program: Program) -> tuple[Branch, ...]:
    """List what a program's guards look for."""
    return tuple([Branch(node.param("outcome"), node.line) for node in program.guards])


class Branches:
    """The values of a trace at one call's arguments, as far as Python asks for them, and what it asked, in order.

    Attributes:
        arrays: the arguments.
        told: what the first conditions come to, where a compiled path has found that out.
        taken: what each condition came to.
        guards: the nodes of these, of the program that is compiled.
    """

    def __init__(self, arrays: Sequence[Any], told: Sequence[bool | int] = ()) -> None:
        """Begin with the arguments of a call, which have the dtypes of its signature."""
        self.arrays, self.told = arrays, told
        self.taken: list[Branch] = []
        self.guards: list[Node] = []
        self._known: dict[Node, bool | int] = {}
        self._values: dict[Node, Any] = {}
        self._stands: dict[Node, Node] = {}
        self._outermost: dict[Node, Node] = {}
        self._dims: dict[Any, int] = {}

    def begin(self, inputs: Sequence[Node]) -> None:
        """Give the inputs of the outermost program their values."""
        for node, array in zip(inputs, self.arrays, strict=True):
            self._values[node] = value = np.asarray(array, node.dtype)
            self._dims |= {d: n for d, n in zip(node.shape, value.shape, strict=True) if getattr(d, "is_Symbol", False)}

    def stand(self, inputs: Sequence[Node], values: Sequence[Node | None]) -> None:
        """Say what the inputs of a program stand for that is traced inside of another one; None where nobody knows."""
        self._stands |= {node: value for node, value in zip(inputs, values, strict=True) if value is not None}

    def outcome(self, node: Node, graph: Graph, line: Line | None) -> bool | int | None:
        """Return what a boolean or an integer without axes comes to; None where it has no value here."""
        if (outer := self._translated(node, graph)) is None:
            return None
        if outer not in self._known:
            number = len(self.taken)
            told = self.told[number] if number < len(self.told) else self._value(outer).item()
            self._known[outer] = told
            if outer.op is not leaves.constant:
                self.taken.append(Branch(told, line))
                self.guards.append(graph.node(guard, (outer,), (told, number), (), np.dtype(bool), line))
        return self._known[outer]

    def _value(self, node: Node) -> Any:
        """Compute a value of the outermost program."""
        values = self._values
        with np.errstate(all="ignore"):
            for each in _pending(node, values, lambda n: n.inputs):
                params = {k: concrete(v, self._dims) for k, v in zip(each.op.params, each.params, strict=True)}
                value = each.op.evaluate(*[values[i] for i in each.inputs], **params)
                values[each] = value if each.dtype is SEVERAL else np.asarray(value, each.dtype)
        return values[node]

    def _translated(self, node: Node, graph: Graph) -> Node | None:
        """Return the same value of the outermost program, by what the inputs of inner ones stand for there."""
        known, stands = self._outermost, self._stands
        for each in _pending(node, known, lambda n: (stands[n],) if n in stands else n.inputs):
            if each in stands:
                known[each] = known[stands[each]]
                continue
            if each.op is leaves.input_ and each not in self._values:
                return None
            inputs = tuple([known[i] for i in each.inputs])
            same = all(map(lambda one, other: one is other, inputs, each.inputs))
            known[each] = each if same else graph.node(each.op, inputs, each.params, each.shape, each.dtype, each.line)
        return known[node]


def _pending(node: Node, done: Mapping[Node, Any], needs: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """Yield what a node is made of and is not done yet, each after what it needs itself."""
    stack = [node]
    while stack:
        each = stack[-1]
        missing = [] if each in done else [n for n in needs(each) if n not in done]
        stack += missing
        if not missing:
            stack.pop()
            if each not in done:
                yield each

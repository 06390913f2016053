"""Python's own branches: a condition on traced values comes to what it does at the arguments of the call.

The interpreter computes it, Python goes its way, and a guard is recorded: the program that is compiled looks whether
the condition comes to the same, and a call where it does not goes to the path that fits.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.ir.evaluate import concrete
from symgrad.ir.node import SEVERAL
from symgrad.ops.control.guard import guard
from symgrad.ops.declare import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from symgrad.errors import Line
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program


class Branch(NamedTuple):
    """What a condition, or an integer that Python asked for, came to.

    Attributes:
        place: the user's line that asked, and how often it had asked before.
    """

    outcome: bool | int
    place: tuple[Line | None, int]

    @property
    def line(self) -> Line | None:
        """The user's line."""
        return self.place[0]


def branches_of(program: Program) -> dict[int, Branch]:
    """Return what a program's guards look for, by their numbers, as far as the program says it."""
    counts: Counter[Line | None] = Counter()
    found = {}
    for node in program.guards:
        found[node.param("number")] = Branch(node.param("outcome"), (node.line, counts[node.line]))
        counts[node.line] += 1
    return found


@contextmanager
def level(branches: Branches | None) -> Iterator[list[Node]]:
    """Gather the guards of a program while it is traced."""
    guards: list[Node] = []
    if branches is None:
        yield guards
        return
    branches.levels.append(guards)
    try:
        yield guards
    except BaseException:
        if guards:
            branches.lost = guards[0].line
        raise
    finally:
        branches.levels.pop()


class Branches:
    """The values of a trace at one call's arguments, as far as Python asks for them, and what it asked, in order.

    Attributes:
        arrays: the arguments.
        told: what conditions come to, by their places, where a compiled path has found that out.
        taken: what each condition came to; a guard has its number.
        levels: the guards of the programs that are traced now, the innermost last.
        lost: a line that asked in one of these which an exception ended.
        drawn: a random generator that was drawn from, and where.
    """

    def __init__(self, arrays: Sequence[Any], told: Sequence[Branch] = ()) -> None:
        """Begin with the arguments of a call, which have the dtypes of its signature."""
        self.arrays, self.told = arrays, told
        self.taken: list[Branch] = []
        self.levels: list[list[Node]] = []
        self.lost: Line | None = None
        self.drawn: tuple[str, Line | None] | None = None
        self._told = {branch.place: branch.outcome for branch in told}
        self._counts: Counter[Line | None] = Counter()
        self._known: dict[Node, bool | int] = {}
        self._values: dict[Node, Any] = {}
        self._stands: dict[Node, Node] = {}
        self._dims: dict[Any, int] = {}

    def begin(self, inputs: Sequence[Node]) -> None:
        """Give the inputs of the outermost program their values."""
        for node, array in zip(inputs, self.arrays, strict=True):
            self._values[node] = value = np.asarray(array, node.dtype)
            self._dims |= {d: n for d, n in zip(node.shape, value.shape, strict=True) if getattr(d, "is_Symbol", False)}

    def refuse_draws(self) -> None:
        """Refuse numbers that are drawn while tracing: they would be others on each path.

        Raises:
            UnsupportedError: with the line.
        """
        if self.taken and self.drawn is not None:
            what, line = self.drawn
            raise UnsupportedError(
                f"{what} is drawn while a function is traced that has conditions on traced values (the first: "
                f"{self.taken[0].line}): each path would have other numbers", line=line,
                instead="draw outside and pass the numbers as an argument, or a generator with a seed made inside",
            )

    def stand(self, inputs: Sequence[Node], values: Sequence[Node | None]) -> None:
        """Say what the inputs of a program stand for that is traced inside of another one; None where nobody knows."""
        self._stands |= {node: value for node, value in zip(inputs, values, strict=True) if value is not None}

    def outcome(self, node: Node, graph: Graph, line: Line | None) -> bool | int | None:
        """Return what a boolean or an integer without axes comes to; None where it has no value here."""
        if node not in self._known:
            place = line, self._counts[line]
            told = self._told.get(place)
            if (found := self._value(node)) is None:
                return None
            self._counts[line] += 1
            outcome = self._known[node] = found.item() if told is None else told
            if node.op is not leaves.constant:
                params = outcome, len(self.taken)
                self.levels[-1].append(graph.node(guard, (node,), params, (), np.dtype(bool), line))
                self.taken.append(Branch(outcome, place))
        return self._known[node]

    def _value(self, node: Node) -> Any:
        """Compute a value, of an inner program by what its inputs stand for around it; None where nobody knows."""
        values, stands = self._values, self._stands
        stack = [node]
        with np.errstate(all="ignore"):
            while stack:
                each = stack[-1]
                needs = (stands[each],) if each in stands else each.inputs
                missing = [] if each in values else [n for n in needs if n not in values]
                stack += missing
                if missing:
                    continue
                stack.pop()
                if each in values:
                    continue
                if each in stands:
                    values[each] = values[stands[each]]
                elif each.op is leaves.input_:
                    return None
                else:
                    params = {k: concrete(v, self._dims) for k, v in zip(each.op.params, each.params, strict=True)}
                    value = each.op.evaluate(*[values[i] for i in each.inputs], **params)
                    values[each] = value if each.dtype is SEVERAL else np.asarray(value, each.dtype)
        return values[node]

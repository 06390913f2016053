"""`watched`: a program that also says which of its values hold a NaN or an infinity, for `Options(debug_nans=True)`.

One more output has a flag for each value. What is raised is where it began: a value that is not finite though all it
was computed from is, on the way to a result that is not finite. So the root in ``where(x > 0, sqrt(x), 0)`` is no
reason to raise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.errors import NonFiniteError
from symgrad.ir import shapes
from symgrad.ops.arrays.updates import assemble
from symgrad.ops.arrays.views import broadcast_to
from symgrad.ops.declare import leaves
from symgrad.trace.lines import ends_here
from symgrad.trace.state import passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import literal, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.errors import Line
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program


class Value(NamedTuple):
    """A watched value: what computed it, in words, where, and the numbers of the values it was computed from."""

    what: str
    line: Line | None
    reads: tuple[int, ...]


class Watch(NamedTuple):
    """The watched values of a program, and the numbers of those that are its results."""

    name: str
    values: list[Value]
    results: tuple[int, ...]

    def check(self, flags: Sequence[Any]) -> None:
        """Look at the flags of one call.

        Raises:
            NonFiniteError: a result is not finite; with the user's line where that began.
        """
        stack = [k for k in self.results if flags[k]]
        seen, began = {*stack}, []
        while stack:
            k = stack.pop()
            bad = [read for read in self.values[k].reads if flags[read]]
            if not bad:
                began.append(k)
            new = [read for read in bad if read not in seen]
            seen.update(new)
            stack.extend(new)
        if began:
            found = self.values[min(began)]
            raise NonFiniteError(
                self.message(min(began)), line=found.line,
                instead="np.where(safe, x, 1) for its argument and np.where(safe, value, otherwise) for its value",
            )

    def message(self, k: int) -> str:
        """Say that it began in a value."""
        return f"{self.values[k].what} NaN or Inf, and so does a result of {self.name}()"


Handing = Callable[[Any], Any]


@dataclass(frozen=True)
class Looking:
    """What looks at the flags, the last result, before it hands out the others."""

    watch: Watch
    unflatten: Handing

    def __call__(self, results: Any) -> Any:
        """Hand out what a call gave."""
        self.watch.check(results[-1])
        return self.unflatten(list(results[:-1]))


def watched(program: Program, unflatten: Handing) -> tuple[Program, Looking]:
    """Add an output with a flag for every floating-point value.

    Args:
        program: to be compiled.
        unflatten: hands out its results.

    Returns:
        The program, and what looks at the flags before it hands out the results.
    """
    flagged, watch = with_flags(program)
    return flagged, Looking(watch, unflatten)


@ends_here
def with_flags(program: Program) -> tuple[Program, Watch]:
    """Add an output with a flag for every floating-point value; say what the flags are of."""
    program, trace = opened(program)
    numbers: dict[Node, tuple[int, ...]] = {}
    values: list[Value] = []
    watched_nodes: list[Node] = []
    for node in program.nodes():
        reads = tuple(dict.fromkeys([k for i in node.inputs for k in numbers.get(i, ())]))
        if node.dtype.kind != "f" or node.op.view or node.op is leaves.extent:
            numbers[node] = reads
            continue
        numbers[node] = (len(values),)
        values.append(Value(_words(node), node.line, reads))
        watched_nodes.append(node)
    with passing(trace):
        flags = []
        for node in watched_nodes:
            bad: Any = np.logical_not(np.isfinite(Tracer(node, trace)))
            some: Any = np.any(bad) if node.shape else bad
            flags.append(some)
        base = broadcast_to(Tracer(literal(trace.graph, value=False, dtype=bool), trace), shape=(len(flags),))
        found = assemble(base, *flags, indices=tuple([((k,),) for k in range(len(flags))])).node
    results = tuple(dict.fromkeys([k for o in program.outputs for k in numbers[o]]))
    labels = program.labels or tuple([f"out{k}" for k in range(len(program.outputs))])
    return replace(program, outputs=(*program.outputs, found), labels=(*labels, "not_finite")), Watch(
        program.name, values, results
    )


def _words(node: Node) -> str:
    if node.op is leaves.input_:
        return f"the argument {node.param('name')!r} holds"
    if node.op is leaves.constant:
        return "a constant holds"
    return f"{node.op.name}, {node.dtype}{shapes.show(node.shape)}, gives"

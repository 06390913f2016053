"""`watched`: a program that also says which of its values hold a NaN or an infinity, for `Options(debug_nans=True)`.

One more output has a flag for each value. What is raised is where it began: a value that is not finite though all it
was computed from is, on the way to a result that is not finite. So the root in ``where(x > 0, sqrt(x), 0)`` is no
reason to raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import Line, NonFiniteError
from symgrad.ir.graphs import reachable
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import size
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Control, Result
from symgrad.ir.program import Program
from symgrad.ops.arrays.updates import assemble
from symgrad.ops.control import result
from symgrad.ops.declare import leaves
from symgrad.trace.lines import ends_here
from symgrad.transforms.build import input_like, literal, make, opened_program, shaped, written
from symgrad.transforms.derive.control import closed, nested


class Watched(NamedTuple):
    """A watched value: what computed it, in words, where, and the numbers of the values it was computed from."""

    what: str
    line: Line | None
    reads: tuple[int, ...]


class WatchedValues(NamedTuple):
    """The watched values of a program, and the numbers of those that are its results."""

    name: str
    values: list[Watched]
    results: tuple[int, ...]

    def check(self, flags: Sequence[Any]) -> None:
        """Look at the flags of one call.

        Raises:
            NonFiniteError: a result is not finite; with the user's line where that began.
        """

        def bad(k: int) -> list[int]:
            return [read for read in self.values[k].reads if flags[read]]

        began = [k for k in reachable([k for k in self.results if flags[k]], bad) if not bad(k)]
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

    watch: WatchedValues
    unflatten: Handing

    def __call__(self, results: Any) -> Any:
        """Hand out what a call gave."""
        self.watch.check(results[-1])
        return self.unflatten(list(results[:-1]))


def watched(program: Program, unflatten: Handing) -> tuple[Program, Looking]:
    """Add an output with a flag for every floating-point value; also return what looks at the flags of a call."""
    flagged, watch = with_flags(program)
    return flagged, Looking(watch, unflatten)


@ends_here
def with_flags(program: Program) -> tuple[Program, WatchedValues]:
    """Add an output with a flag for every floating-point value; say what the flags are of."""
    program, trace = opened_program(program)
    numbers: dict[Node, tuple[int, ...]] = {}
    values: list[Watched] = []
    flags = _flags(trace.graph, program, numbers, values)
    found = _one_array(trace.graph, flags)
    results = tuple(dict.fromkeys([k for o in program.results for k in numbers[o]]))
    labels = program.labels or tuple([f"out{k}" for k in range(len(program.outputs))])
    return replace(program, outputs=(*program.outputs, found), labels=(*labels, "not_finite")), WatchedValues(
        program.name, values, results
    )


def _flags(graph: Graph, program: Program, numbers: dict[Node, tuple[int, ...]], values: list[Watched]) -> list[Node]:
    """Make the flags of a program's values, those of what it holds among them, in the order of their numbers."""
    flags: list[Node] = []
    several: dict[Node, list[tuple[int, ...]]] = {}
    for node in program.nodes():
        if node in numbers:
            continue
        if isinstance(node.op, Control):
            several[node] = _watched_inside(graph, node, numbers, values, flags)
            continue
        reads = tuple(dict.fromkeys([k for i in node.inputs for k in numbers.get(i, ())]))
        if isinstance(node.op, Result):
            reads = several[node.inputs[0]][node.param("number")]
        if node.dtype.kind != "f" or node.op.view or node.op is leaves.extent:
            numbers[node] = reads
            continue
        numbers[node] = (len(values),)
        what = f"{node.op.name}, {node.dtype}{shapes.show(node.shape)}, gives"
        if node.is_input or node.is_constant:
            what = f"the argument {node.param('name')!r} holds" if node.is_input else "a constant holds"
        values.append(Watched(what, node.line, reads))
        flags.append(written(graph, lambda x: np.any(~np.isfinite(x)) if np.ndim(x) else ~np.isfinite(x), node))
    return flags


def _one_array(graph: Graph, flags: Sequence[Node]) -> Node:
    """Put flags, and arrays of them, into one array."""
    base = shaped(graph, literal(graph, value=False, dtype=bool), (sum([size(f.shape) for f in flags]),))
    first, places = 0, []
    flags = [flag for flag in flags if flag.shape != (0,)]
    for flag in flags:
        places.append(((first, size(flag.shape), 1) if flag.shape else (first,),))
        first += size(flag.shape)
    return make(graph, assemble, base, *flags, indices=tuple(places))


def _watched_inside(
    graph: Graph, node: Node, numbers: dict[Node, tuple[int, ...]], values: list[Watched], flags: list[Node],
) -> list[tuple[int, ...]]:
    """Make the flags of what a node holds; of a loop those of the first step that has some, where they begin.

    Returns:
        For each result of the node, of which values it is made.
    """
    op: Any = node.op
    named, found = node.named, dict[str, Any]()
    reads: list[tuple[int, ...]] = [()] * len(op.results(*node.inputs, **named))
    begins = len(values)
    sides: dict[str, tuple[Program, list[Node]]] = {}
    for name in [name for name in op.params if isinstance(named[name], Program) and name != "test"]:
        inner = nested(Graph(), named[name])
        own: Any = inner.scope
        outer = node.inputs[len(node.inputs) - len(inner.inputs) :]
        known = {x: numbers.get(i, ()) for x, i in zip(inner.inputs, outer, strict=True)}
        before = len(values)
        blank = [shaped(own, literal(own, value=False, dtype=bool), (before - begins,))]
        sides[name] = inner, [*blank, *_flags(own, inner, known, values)]
        made = [known.get(y, ()) for y in inner.outputs]
        made = [()] * (len(reads) - len(made)) + made  # of a loop that counts, its number of steps
        reads = [tuple(dict.fromkeys([*a, *b])) for a, b in zip(reads, made, strict=True)]
    count = len(values) - begins
    if not count:
        return reads
    given = [*node.inputs]
    for name, (inner, parts) in sides.items():
        own = inner.scope
        rest = count - sum([size(part.shape) for part in parts])
        vector = _one_array(own, [*parts, shaped(own, literal(own, value=False, dtype=bool), (rest,))])
        if "fixed" not in named:
            found[name] = closed(inner.inputs, [vector], inner.name)
            continue
        before_ = input_like(own, "not_finite", vector)
        first = written(own, lambda old, new: np.where(np.any(old), old, new), before_, vector)
        fixed = named["fixed"]
        inputs = [*inner.inputs[:fixed], before_, *inner.inputs[fixed:]]
        found[name] = closed(inputs, [first, *inner.outputs], inner.name)
        if "test" in named:
            asked = nested(own, named["test"])
            inputs = [*asked.inputs[:fixed], before_, *asked.inputs[fixed:]]
            found["test"] = closed(inputs, asked.outputs, asked.name)
        place = len(node.inputs) - len(inner.inputs) + fixed
        given.insert(place, shaped(graph, literal(graph, value=False, dtype=bool), (count,)))
    if "carried" in named:
        found["carried"] = named["carried"] + 1
    number = len(reads) - len(sides[name][0].outputs) if "fixed" in named else 0
    flags.append(make(graph, result, make(graph, op, *given, **{**named, **found}), number=number))
    return reads

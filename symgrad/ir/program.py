"""`Program`: what every pass takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from symgrad.ir.memory import Largest
from symgrad.ir.names import identifier
from symgrad.ir.node import Graph, Node, NodeTable, Requirement
from symgrad.ir.op import Op

BY_NUMBER = attrgetter("number")
"""Sorts nodes by their place in the order of creation."""


@dataclass(frozen=True, eq=False)
class Program:
    """Nodes from inputs to outputs.

    Attributes:
        inputs: the arguments, in the order a call passes them; each an ``input`` node.
        outputs: the results; a node may stand there more than once. What `guards` it stands there, too.
        name: the user's function, as an identifier.
        requirements: what unknown extents must satisfy when the program is called.
        scope: the nodes of the trace this program is nested in, None for a program of its own.
        start: nodes numbered below belong to the caller; they are constants here.
        labels: a name for each output, or nothing.
        fortran: names of the inputs that lie in memory column by column; their loops walk them as they lie.
        rules: rules of the user's that stand in the place of ops' own in what was derived, in words.
        again: how often its derivatives compute anew what they kept nothing of.
        moments: of a program as it was traced, where Python asked for its guards, by their numbers.
        forks: of such a program, loops with conditions in them whose rounds were traced for all ways.
        donated: places of inputs with those of the results that are written into their memory.
        spread: places of the results that all threads read before they are written again.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    name: str = "program"
    requirements: tuple[Requirement, ...] = ()
    scope: Graph | None = None
    start: int = 0
    labels: tuple[str, ...] = ()
    fortran: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()
    again: int = 0
    moments: Mapping[int, Any] = field(default_factory=dict)
    forks: tuple[Any, ...] = ()
    donated: tuple[tuple[int, int], ...] = ()
    spread: frozenset[int] = frozenset()

    @property
    def results(self) -> tuple[Node, ...]:
        """The outputs that a call returns: all but guards."""
        return tuple([node for node in self.outputs if not node.op.decides])

    @property
    def guards(self) -> tuple[Node, ...]:
        """What Python's branches came to, in their order: the program is for calls where they come to the same."""
        return tuple([node for node in self.outputs if node.op.decides])

    def nodes(self) -> tuple[Node, ...]:
        """Return every node an output needs, each after its inputs."""
        return self._nodes

    @cached_property
    def largest(self) -> Largest:
        """Its largest arrays, of which a call looks whether they fit into memory."""
        return Largest(self)

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        """Walk by an explicit stack, then go by number; once, for every pass asks."""
        seen: set[Node] = set(self.inputs)
        stack = [node for node in dict.fromkeys(self.outputs) if node not in seen and node.number >= self.start]
        seen.update(stack)
        while stack:
            for node in stack.pop().inputs:
                if node not in seen and node.number >= self.start:
                    seen.add(node)
                    stack.append(node)
        return tuple(sorted(seen, key=BY_NUMBER))

    @cached_property
    def readers(self) -> dict[Node, list[Node]]:
        """The nodes that read each node, in their order."""
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes()}
        for node in self.nodes():
            for i in dict.fromkeys(node.inputs):
                found.setdefault(i, []).append(node)  # one of the caller's
        return found

    @cached_property
    def ops(self) -> frozenset[Op]:
        """Its ops: what a pass looks for is mostly not there."""
        return frozenset([node.op for node in self.nodes()])

    def closed(self) -> Program:
        """Return a nested program as one of its own: what it reads of its caller's is computed in it."""
        whole = replace(self, scope=None, start=0)
        if all(i.number >= self.start for node in self.nodes() for i in node.inputs):
            whole.__dict__["_nodes"] = self.nodes()
            return whole
        outer = [node for node in whole.nodes() if node.is_input and node not in self.inputs]
        if not outer:
            return whole
        graph, names = Graph(), list[str]()
        inputs = []
        for node in (*self.inputs, *outer):
            names.append(identifier(node.params[0], names))
            inputs.append(graph.node(node.op, (), (names[-1], *node.params[1:]), node.shape, node.dtype, node.line))
        outputs = replaced(graph, replace(whole, inputs=(*self.inputs, *outer)), inputs)
        return replace(whole, inputs=tuple(inputs), outputs=tuple(outputs))


def bodies(node: Node) -> list[Program]:
    """List the programs that are parameters of a node."""
    return [param for param in node.params if isinstance(param, Program)] if node.params else []


def rebuild(
    program: Program, rewrite: Callable[[Graph, Node, tuple[Node, ...]], Node], *,
    into: Graph | None = None, order: Sequence[Node] = (), new: dict[Node, Node] | None = None,
) -> Program:
    """Make a program anew, node by node, in a fresh table.

    ``rewrite(graph, node, inputs)`` gets each old node with its new inputs and returns the new node.

    Args:
        program: what is made anew.
        rewrite: makes each node.
        into: another table.
        order: its nodes in an order of the caller's, each after its operands.
        new: gets what stands for each node.
    """
    graph = into if into is not None else afresh(program)
    start = len(graph) + 1
    inputs = tuple([graph.node(i.op, (), i.params, i.shape, i.dtype, i.line) for i in program.inputs])
    outputs = tuple(replaced(graph, program, inputs, rewrite, order, new))
    return replace(program, inputs=inputs, outputs=outputs, start=start if program.scope is not None else 0)


def afresh(program: Program) -> Graph:
    """Return where a program is made anew: in a graph of its own, or a new table of its caller's if it is nested."""
    if program.scope is None:
        return Graph()
    program.scope.table = NodeTable()
    return program.scope


def copied(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """Rewrite nothing: the same op on the new inputs."""
    return graph.node(node.op, inputs, node.params, node.shape, node.dtype, node.line)


def replaced(
    graph: Graph, program: Program, values: Sequence[Node],
    rewrite: Callable[[Graph, Node, tuple[Node, ...]], Node] = copied, order: Sequence[Node] = (),
    new: dict[Node, Node] | None = None,
) -> list[Node]:
    """Copy a program into a table with values in the place of its inputs; return its outputs."""
    new = {} if new is None else new
    new.update(zip(program.inputs, values, strict=True))
    get = new.get
    before = graph.line
    for node in order or program.nodes():
        if node not in new:
            graph.line = node.line
            new[node] = rewrite(graph, node, tuple(map(get, node.inputs, node.inputs)))
    graph.line = before
    return [get(o, o) for o in program.outputs]

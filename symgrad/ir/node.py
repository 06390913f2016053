"""`Node` and the table that makes equal expressions one object."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import Line
from symgrad.ir.index.shapes import Shape
from symgrad.ir.op import Op

SEVERAL = np.dtype("V")
"""What stands for the dtype of a node that has several results (`symgrad.ir.op.Control`)."""


class Constant:
    """An array as a node's parameter, equal to another one when type, shape and bytes are the same.

    So 0.0 and -0.0 stay apart, and two NaNs with the same bits are one.

    Attributes:
        name: an identifier for it, where it has one.
        path: how the user's code reads it: ``model.W``.
    """

    __slots__ = ("_key", "array", "name", "path")

    def __init__(self, array: np.ndarray[Any, Any], name: str = "", path: str = "") -> None:
        self.name, self.path = name, path
        self.array = np.array(array, order="C", copy=True)
        self.array.setflags(write=False)
        self._key = (self.array.dtype, self.array.shape, self.array.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        if self.array.ndim == 0:
            return repr(self.array.item())
        return f"<{self.array.dtype} {self.array.shape}>"


class Node:
    """One value of a program: an op applied to other nodes.

    Nodes are immutable and compare by identity; `Graph.node` gives one object for equal arguments.

    Attributes:
        op: what is computed.
        inputs: the nodes it is computed from.
        params: what else the op needs (axes, a shape), hashable, in the order the op declares.
        shape: extents, integers or SymPy expressions.
        dtype: NumPy's.
        line: the user's line that made it (not part of its identity), or None.
        number: its place in the order of creation; inputs come before users.
        behind: how many loops that ask for conditions had been left: equal nodes within and behind one stay apart,
            until it is a loop.
    """

    __slots__ = ("behind", "dtype", "inputs", "line", "number", "op", "params", "shape")

    def __init__(
        self, op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...], shape: Shape,
        dtype: np.dtype[Any], line: Line | None, number: int,
    ) -> None:
        """Fill the slots; only `Graph` calls this."""
        self.op, self.inputs, self.params = op, inputs, params
        self.shape, self.dtype, self.line, self.number = shape, dtype, line, number
        self.behind = 0

    def __repr__(self) -> str:
        """Print one line, never the graph behind it."""
        return f"<node {self.number}: {self.op.name} {self.dtype}{list(self.shape)}>"

    @property
    def is_input(self) -> bool:
        """Whether it is an argument of a program."""
        return self.op.name == "input"

    @property
    def is_constant(self) -> bool:
        """Whether it is a number or an array that the program knows."""
        return self.op.name == "constant"

    def param(self, name: str) -> Any:
        """Return the parameter of this name."""
        return self.params[self.op.params.index(name)]

    @property
    def named(self) -> dict[str, Any]:
        """Its parameters by name, as the op's functions take them."""
        return self.op.named(self.params) if self.params else {}


class Requirement(NamedTuple):
    """What unknown extents must satisfy: ``0 <= index < extent``, for what the user wrote at `line`.

    Attributes:
        otherwise: what to say of extents that do not; nothing where an index is out of bounds then.
    """

    index: Any
    extent: Any
    axis: int
    line: Line | None
    otherwise: str = ""


class NodeTable:
    """Where equal expressions are found: nodes by what they are made of, and Python's numbers by dtype and value."""

    __slots__ = ("nodes", "numbers")

    def __init__(self) -> None:
        self.nodes: dict[Hashable, Node] = {}
        self.numbers: dict[Hashable, Node] = {}


class Graph:
    """The nodes of one compilation: it makes them, and the same node for the same arguments.

    It belongs to one trace in one thread; nothing outlives it but the nodes that programs hold. A program that is
    nested in the trace has a table of its own (`apart`), so that it is the program it would be alone; nodes are
    numbered through, so that those of the caller come before.
    """

    __slots__ = (
        "_count", "_equal", "again", "first", "interned", "left", "line", "outside", "requirements", "rules", "table",
        "watch",
    )

    def __init__(self, *, interned: bool = True) -> None:
        """Start empty; ``interned=False`` makes every node a new one (to read a written one)."""
        self.table = NodeTable()
        self._count = 0
        self.interned = interned
        self.line: Line | None = None
        self.requirements: list[Requirement] = []
        self.again = 0  # how often derivatives compute anew what they kept nothing of, one within the other
        self.outside: Any = None  # the arrays that the function it is traced from reads without taking them
        self.left = 0  # what `behind` is of new nodes
        self.watch: Callable[[], None] | None = None  # looks whether one is left
        self.first: dict[Node, Node] = {}  # of such nodes, what they equal that was made before
        self._equal: dict[Hashable, Node] = {}
        self.rules: dict[str, None] = {}  # of the user's, that derivatives were made with: in words, in order

    @classmethod
    def after(cls, number: int) -> Graph:
        """Start empty, with nodes that are numbered behind those of another one, of which they may be made."""
        made = cls()
        made._count = number
        return made

    def require(self, index: Any, extent: Any, axis: int, line: Line | None, otherwise: str = "") -> None:
        """Note that ``0 <= index < extent`` must hold when the program is called."""
        if not (getattr(extent - index, "is_positive", False) and getattr(index, "is_nonnegative", index >= 0)):
            self.requirements.append(Requirement(index, extent, axis, line, otherwise))

    def __len__(self) -> int:
        return self._count

    def node(
        self, op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...], shape: Shape, dtype: np.dtype[Any],
        line: Line | None = None,
    ) -> Node:
        """Return the node of these arguments, a new one if there is none; leaves named inputs apart."""
        key = None
        if self.interned and op.name != "input":
            if self.watch is not None:
                self.watch()
            key = (op, inputs, params, shape, dtype, self.left if inputs else 0)
            found = self.table.nodes.get(key)
            if found is not None:
                return found
        self._count += 1
        made = Node(op, inputs, params, shape, dtype, line or self.line, self._count)
        if key is not None:
            self.table.nodes[key] = made
            if self.left and inputs:
                made.behind = self.left
                key = (op, tuple([self.first.get(i, i) for i in inputs]), params, shape, dtype, 0)
                equal = self.table.nodes.get(key) or self._equal.setdefault(key, made)
                if equal is not made:
                    self.first[made] = equal
        return made

    @contextmanager
    def apart(self, table: NodeTable | None = None) -> Iterator[None]:
        """Find and keep nodes in another table meanwhile, a new one if none is given."""
        before, self.table = self.table, table or NodeTable()
        try:
            yield
        finally:
            self.table = before

    @contextmanager
    def apart_behind(self, number: int) -> Iterator[None]:
        """Find no nodes meanwhile that were made after so many, but leaves; keep new ones of these alone."""
        before, table = self.table, NodeTable()
        table.nodes = {key: node for key, node in before.nodes.items() if node.number <= number or not node.inputs}
        table.numbers = before.numbers
        try:
            with self.apart(table):
                yield
        finally:
            before.nodes |= {key: node for key, node in table.nodes.items() if not node.inputs}

"""`classes`: which axes are one loop variable, and which statement depends on which.

Two axes are one class when an access reads one with the bare loop variable of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Access, Axis, Statement, accesses, looked_up, parts
from symgrad.ir.shapes import upper

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from symgrad.loops.program import Array


class Classes:
    """Axes that are one loop variable: union-find, with the statements of each class.

    A union that would put two axes of one statement into one class is refused.
    """

    def __init__(self) -> None:
        """Start with every axis alone."""
        self.parent: dict[Axis, Axis] = {}
        self.users: dict[Axis, set[int]] = {}

    def add(self, axis: Axis, statement: int) -> None:
        """Enter an axis of a statement."""
        self.parent.setdefault(axis, axis)
        self.users.setdefault(axis, set()).add(statement)

    def find(self, axis: Axis) -> Axis:
        """Return the axis that stands for the class."""
        root = axis
        while self.parent[root] is not root:
            root = self.parent[root]
        while self.parent[axis] is not root:
            self.parent[axis], axis = root, self.parent[axis]
        return root

    def unite(self, first: Axis, second: Axis) -> None:
        """Make two axes of equal extents one class, unless a statement has both."""
        a, b = self.find(first), self.find(second)
        if a is b or a.extent != b.extent:
            return
        few, many = sorted((self.users[a], self.users[b]), key=len)
        if any(user in many for user in few):
            return
        self.parent[b] = a
        merged = self.users.pop(b)
        if len(merged) > len(self.users[a]):
            merged, self.users[a] = self.users[a], merged
        self.users[a] |= merged


def read_accesses(statement: Statement) -> list[Access]:
    """List what a statement reads, what its target's indices are read from included."""
    return list(statement.reads)


class Graph:
    """Who writes what before whom: for each statement, what it depends on and by which access.

    An array's writers follow each other, so a reader depends on the last of them alone.

    Attributes:
        needs: for each statement, the writers of what it reads, and by which access.
        users: for each statement, who needs it, and by which access.
        given: for each statement, the inputs and constants that it reads.
        long: for each extent, the statements that touch arrays with a dimension of it, and these arrays.
    """

    def __init__(self, statements: list[Statement]) -> None:
        """Find the dependences in program order."""
        self.statements = statements
        self.needs: list[list[tuple[int, Access]]] = []
        self.users: list[list[tuple[int, Access]]] = [[] for _ in statements]
        last: dict[Array, int] = {}
        for k, statement in enumerate(statements):
            found = [(last[a.array], a) for a in read_accesses(statement) if a.array in last]
            before = last.get(statement.target.array)
            if before is not None:
                found.append((before, statement.target))
            self.needs.append(found)
            for writer, access in found:
                self.users[writer].append((k, access))
            last[statement.target.array] = k
        self.given = [{a.array: None for a in s.reads if a.array.kind in {"input", "constant"}} for s in statements]
        self.long: dict[Any, dict[int, list[Array]]] = {}
        for k, s in enumerate(statements):
            for array in dict.fromkeys([s.target.array, *[access.array for access in s.reads]]):
                for dim in dict.fromkeys(array.shape):
                    self.long.setdefault(dim, {}).setdefault(k, []).append(array)
        self.prefixed = [k for k, s in enumerate(statements) if s.prefix]

    def running(self, members: Container[int]) -> set[Array]:
        """Collect the running values that statements read."""
        return {array for k in self.prefixed if k in members for array in self.statements[k].prefix}


def components(beside: Mapping[Any, Iterable[Any]]) -> list[list[Any]]:
    """Return the strongly connected parts of a graph, each after those that lie beside it (R. Tarjan, 1972).

    Args:
        beside: for each node those that an edge leads to; all of them are nodes.
    """
    found: list[list[Any]] = []
    number: dict[Any, int] = {}
    low: dict[Any, int] = {}
    path: list[Any] = []  # of what is in no part yet
    for start in beside:
        todo = [] if start in number else [(start, iter(beside[start]))]
        if todo:
            number[start] = low[start] = len(number)
            path.append(start)
        while todo:
            node, ahead = todo[-1]
            for other in ahead:
                if other not in number:
                    number[other] = low[other] = len(number)
                    path.append(other)
                    todo.append((other, iter(beside[other])))
                    break
                low[node] = min(low[node], low[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == number[node]:
                    place = len(path) - 1
                    while path[place] is not node:
                        place -= 1
                    found.append(path[place:])
                    del path[place:]
                    low.update(dict.fromkeys(found[-1], len(beside)))  # done: no edge into it leads back
    return found


def classify(statements: list[Statement], graph: Graph) -> Classes:
    """Unite axes: along what is computed first, along inputs last."""
    classes = Classes()
    for k, statement in enumerate(statements):
        for axis in statement.axes:
            classes.add(axis, k)
    for k in range(len(statements)):
        for writer, access in graph.needs[k]:
            _along(classes, statements[writer].target.indices, access)
    readers: dict[Array, Access] = {}
    for statement in statements:
        for access in accesses(statement.value):
            if access.array.kind in {"input", "constant"} and not access.flat:
                first = readers.setdefault(access.array, access)
                _along(classes, first.indices, access)
    return classes


def _along(classes: Classes, indices: Iterable[Any], access: Access) -> None:
    if access.flat:
        return
    for theirs, ours in zip(indices, access.indices, strict=True):
        if theirs in classes.parent and ours in classes.parent:  # not what a routine walks itself
            classes.unite(theirs, ours)


def looked_up_rows(s: Statement, least: int) -> set[Axis]:
    """Find the axes by which a statement looks up rows of more elements than `least`: along them it walks in leaps."""
    found: set[Axis] = set()
    for access in (s.target, *accesses(s.value)):
        last = access.indices[-1] if access.indices and not access.flat else None
        if isinstance(last, Axis) and upper(last.extent) > least:
            found |= {p for table in looked_up(access.indices) for i in table.indices for p in parts(i)} - {last}
    return found

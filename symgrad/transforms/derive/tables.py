"""Gradients by tables of which rows are taken: those of the rows, and where the rows stand.

Rows that are taken in the steps of a loop get an addend in each, which is -0.0, so that no bit changes. The gradient by
the addends, which the loop stacks, is that by the rows: nothing as large as the table is ever made.

A row that `np.where` leaves out wherever it is used was not taken, as behind the last word of a sentence; its place is
-1. Its gradient is zero, and an optimizer that changes the rows of a batch alone leaves the row as it is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.graphs import reachable
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, linear
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Composite, Control, Elementwise, Result
from symgrad.ir.program import Program, bodies, copied, rebuild, replaced
from symgrad.ops.arrays.reduce import any_
from symgrad.ops.arrays.views import broadcast_to, reshape
from symgrad.ops.control import needed, result
from symgrad.ops.declare import leaves
from symgrad.ops.elementwise.arithmetic import add
from symgrad.ops.elementwise.logical import logical_not, logical_or
from symgrad.ops.elementwise.selection import where
from symgrad.transforms.build import input_like, literal, make, opened_program
from symgrad.transforms.derive.control import closed
from symgrad.transforms.derive.vjp import depends, gradient


@dataclass
class TableUses:
    """What is done with an array, on the way to a loss.

    Attributes:
        ranges: whether slices of several rows that loops alone read take them.
        takes: what takes rows of it.
        others: what uses all of it.
        behind: what takes rows or elements of what is made of it and of no other parameter.
        apart: what takes other elements than rows, or rows where nobody knows how often: in branches, by words.
    """

    ranges: bool
    takes: list[Node] = field(default_factory=list)
    others: list[Node] = field(default_factory=list)
    behind: list[Node] = field(default_factory=list)
    apart: list[tuple[Node, str]] = field(default_factory=list)


def table_uses(
    program: Program, of: Node, beside: Iterable[Node], output: int = 0, *, ranges: bool = False,
) -> TableUses:
    """Find what is done with an input on the way to an output, in loops and branches, too; `beside` are parameters.

    Where `ranges` are rows, what loops alone read of ``x[1:9]`` takes some, as what is rolled of ``x[k]``; else it uses
    all.
    """
    found = TableUses(ranges)
    _follow(replace(program, outputs=(program.outputs[output],)), {of}, set(), {*beside} - {of}, found, counted=True)
    return found


def _follow(
    program: Program, table: set[Node], made: set[Node], beside: set[Node], found: TableUses, *, counted: bool,
) -> set[Node]:
    """Find what a program does with inputs that are the `table`, or `made` of it; return these and what it makes."""
    nodes, passed = program.nodes(), dict[Node, list[bool]]()
    active = depends(nodes, [*table, *made])
    ways = reachable(program.outputs, lambda node: [i for i in needed(node) if i in active])
    foreign = depends(nodes, [*beside])
    elsewhere = {*program.outputs}.union(*[node.inputs for node in nodes if not isinstance(node.op, Control)])
    for node in [node for node in nodes if node in active - table - made]:
        if isinstance(node.op, Control):
            known = counted and node.op.rounds is not None
            for body in bodies(node):
                given = [*zip(body.inputs, node.inputs[len(node.inputs) - len(body.inputs) :], strict=True)]
                own, more, others = [{x for x, i in given if i in some} for some in (table, made, foreign)]
                ends = _follow(body, own, more, others, found, counted=known) if own or more else set()
                passed[node] = [y in ends for y in body.outputs]
                found.others += [node] * (not own.isdisjoint(body.outputs))
        elif isinstance(node.op, Result):
            held: Any = node.inputs[0]
            if held.op.rounds and held.op.rounds(**held.named) == () and passed[held][node.param("number")]:
                made = made | {node}
        elif node in ways and not (table | made).isdisjoint(node.inputs):
            at = _rows_taken(node) if node.inputs[0] in table else None
            at = None if isinstance(at, np.ndarray) and (not found.ranges or node in elsewhere) else at
            if at is not None and counted:
                found.takes.append(node)
            elif at is not None:
                found.apart.append((node, "rows are taken of {} where nobody knows how often, in a branch or a loop"))
            elif node.op.rows is not None and not node.op.view:
                if node.inputs[0] in table:
                    found.apart.append((node, "other elements are taken of {} than rows"))
                else:
                    found.behind.append(node)
            else:
                found.others += [node] * (not table.isdisjoint(node.inputs))
                made = made | {node} if _of_one(node, table | made, foreign) else made
    return table | made


def _rows_taken(node: Node) -> Any:
    """Return which rows of its first operand a node is, None for others."""
    return None if node.op.rows is None else node.op.rows(node)


def rows_first(program: Program, wrt: Iterable[int]) -> Program:
    """Take rows of some inputs before each is changed by itself: ``E[ids, :k]`` is ``E[ids][:, :k]``."""
    tables = {program.inputs[k] for k in wrt}
    found: dict[Node, list[Node]] = {}
    for node in program.nodes():
        chain, at = [node.inputs[0]] if node.inputs else [], _rows_taken(node)
        while isinstance(at, Node) and _keeps_rows(chain[-1]):
            chain.append(chain[-1].inputs[0])
        if len(chain) > 1 and chain[-1] in tables:
            found[node] = chain[::-1]
    new: dict[Node, Node] = {}

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node not in found:
            return copied(graph, node, inputs)
        at, (table, *views) = inputs[1], [new[found[node][0]], *found[node][1:]]
        count = shapes.size(at.shape)
        rows = make(graph, node.op, table, make(graph, reshape, at, shape=(count,)), axes=(0,))
        for view in views:
            changed = _of_rows(graph, view, rows, count)
            if changed is None:
                return copied(graph, node, inputs)
            rows = changed
        return rows if rows.shape == node.shape else make(graph, reshape, rows, shape=node.shape)

    return rebuild(program, rewrite, new=new) if found else program


def _keeps_rows(node: Node) -> bool:
    """Whether each row of a view is made of that row of its operand."""
    if not node.op.view or len(node.inputs) != 1 or not node.shape or not node.inputs[0].shape:
        return False
    statement, *others = node.op.body(node).statements  # type: ignore[attr-defined]  # a view has one
    first, value = statement.target.indices[0], statement.value
    if others or not isinstance(value, Access) or value.flat or node.shape[0] != node.inputs[0].shape[0]:
        return False
    own, *rest = [linear(i) for i in value.indices]
    return own == linear(first) and all(i is not None and all(a is not first for a, _ in i.terms) for i in rest)


def _of_rows(graph: Graph, view: Node, rows: Node, count: Any) -> Node | None:
    """Make a view of some rows in the place of all; None where it cannot be."""
    all_of_them = view.shape[0]

    def fewer(value: Any) -> Any:
        if isinstance(value, tuple) and value and value[0] in (all_of_them, (0, all_of_them, 1)):
            return (count if value[0] == all_of_them else (0, count, 1), *value[1:])
        return value

    for named in (view.named, {name: fewer(value) for name, value in view.named.items()}):
        with suppress(ShapeError):
            made = make(graph, view.op, rows, **named)
            if made.shape == (count, *view.shape[1:]):
                return made
    return None


def _of_one(node: Node, made: Container[Node], foreign: Container[Node]) -> bool:
    """Whether a node has an array's elements, moved or each changed by what has no rows, or is no parameter's."""
    if not isinstance(node.op, (Elementwise, Composite)):
        return node.op.view or node.op.moves
    others = [i for i in node.inputs if i not in made]
    return any(i in made and i.shape == node.shape for i in node.inputs) and all(
        i not in foreign or i.is_input or i.shape[:1] != node.shape[:1] for i in others
    )


def row_gradient(program: Program, wrt: Sequence[int], tables: Mapping[int, Sequence[Node]]) -> Program:
    """Derive the first output of a program by some inputs, by those that are tables row by row.

    Args:
        program: as for `gradient`.
        wrt: positions of inputs.
        tables: of those that are tables, what takes rows of them: of `uses`, all is `takes`.

    Returns:
        A program with the outputs, and for each of `wrt` the gradient; of a table, for each time that rows are taken
        of it, their gradients and their places. Behind its inputs stand addends, which are -0.0.
    """
    program, trace = opened_program(program)
    by, at = dict[int, list[Node]](), dict[int, list[Node]]()
    inputs, line = [*program.inputs], trace.graph.line
    for k in wrt:
        if k in tables:
            outputs, by[k], at[k] = _with_addends(
                trace.graph, program, program.inputs, {program.inputs[k]}, {*tables[k]}, outside=True)
            inputs += [node for node in by[k] if node.is_input]
            program = replace(program, inputs=tuple(inputs), outputs=tuple(outputs))
    trace.graph.line = line
    derived = gradient(program, wrt, by=by)
    bars = iter(derived.outputs)
    parts = [[next(bars), *place] for k in wrt for place in ([[one] for one in at[k]] if k in at else [[]])]
    return replace(derived, outputs=(*program.outputs, *[part for both in parts for part in both]))


def _with_addends(
    graph: Graph, program: Program, values: Sequence[Node], tables: set[Node], takes: set[Node], *,
    outside: bool = False,
) -> tuple[list[Node], list[Node], list[Node]]:
    """Copy a program and add something to each rows that are taken; `outside` of loops they need it not.

    Args:
        graph: where it is copied to.
        program: what is copied.
        values: what stands in the places of its inputs.
        tables: those of them that are tables.
        takes: nodes that take rows, also of programs that are held.
        outside: the rows are nodes of the whole program, by which it can be derived.

    Returns:
        The outputs, the addends (or the rows themselves), and the places of the rows, counted from the front; -1 for
        those that are left out.
    """
    addends: list[Node] = []
    places: list[Node] = []
    new, taken = dict(zip(program.inputs, values, strict=True)), dict[int, Node]()

    def held(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        body, steps = node.param("body"), node.op.rounds(**node.named)  # type: ignore[attr-defined]  # it has some
        own = Graph()
        given = [input_like(own, x.param("name"), x) for x in body.inputs]
        mine = {x for x, i in zip(given, inputs, strict=True) if i in tables}
        outputs, inner, at = _with_addends(own, body, given, mine, takes)
        whole = closed([*given, *inner], [*outputs, *at], body.name)
        more = [leaves.make_input(graph, "rows", (*steps, *x.shape), x.dtype) for x in inner]
        made = new[node] = make(graph, node.op, *inputs, *more, **{**node.named, "body": whole})
        addends.extend(more)
        places.extend([make(graph, result, made, number=len(outputs) + k) for k in range(len(at))])
        return made

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node.op, Control) and node.op.rounds is not None and not tables.isdisjoint(inputs):
            return held(graph, node, inputs)
        made = new[node] = copied(graph, node, inputs)
        if node not in takes or inputs[0] not in tables:
            return made
        rows = _rows_taken(made)
        at = rows if isinstance(rows, Node) else literal(graph, rows, np.int64)
        addends.append(made if outside else input_like(graph, "rows", made))
        taken[len(places)] = node
        places.append(make(graph, "normal_index", at, extent=inputs[0].shape[0]))
        return made if outside else make(graph, add, made, addends[-1])

    outputs, conditions = replaced(graph, program, values, rewrite), _conditions(program, takes)
    for k, node in taken.items():
        if node in conditions:
            used, gone = [], tuple(range(len(places[k].shape), len(node.shape)))
            for condition, holds in conditions[node]:  # for each row, whether it holds for any element, or fails
                c = new.get(condition, condition)
                wide = make(graph, broadcast_to, c if holds else make(graph, logical_not, c), shape=node.shape)
                used.append(make(graph, any_, wide, axes=gone) if gone else wide)
            either = reduce(partial(make, graph, logical_or), used)
            places[k] = make(graph, where, either, places[k], literal(graph, -1, np.int64))
    return outputs, addends, places


def _conditions(program: Program, takes: Iterable[Node]) -> dict[Node, list[tuple[Node, bool]]]:
    """Of rows that nothing but `np.where` uses, list the conditions, and whether they are taken where these hold."""
    found: dict[Node, list[tuple[Node, bool]]] = {node: [] for node in takes if node not in program.outputs}
    for node in program.nodes():
        for take in [i for i in {*node.inputs} if i in found]:
            if node.op is where and node.shape == take.shape and node.inputs.count(take) == 1:
                found[take].append((node.inputs[0], node.inputs[1] is take))
            else:
                del found[take]
    return {node: conditions for node, conditions in found.items() if conditions}

"""Loops of a program: one for those over the same, without what nobody reads, what is the same each step before it.

A scan carries values from step to step. What of its body depends on no value that is carried is no part of the chain:
what is the same in all steps is computed once, before the loop, and a sum of products for all rows is one product. A
sum over the steps of products is one product behind the loop. A loop that carries nothing is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.graphs import reachable
from symgrad.ir.index.shapes import size, upper
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Control, Elementwise, Op, Result
from symgrad.ir.program import Program, bodies, copied, rebuild, replaced
from symgrad.ops.arrays.contract import LETTERS, einsum, parse_labels
from symgrad.ops.arrays.indexing import scatter_add
from symgrad.ops.arrays.reduce import sum_
from symgrad.ops.arrays.updates import add_at
from symgrad.ops.control import closure, counted, read_by, result, scan, while_
from symgrad.transforms.build import array, in_order, input_like, is_number, literal, make, scalar, shaped, written
from symgrad.transforms.derive.batch import batch
from symgrad.transforms.derive.control import closed, nested
from symgrad.transforms.tuned import LATE_ELEMENTS


def holds(program: Program) -> bool:
    """Whether a program has ops that run programs: loops, branches."""
    return any(isinstance(op, Control) for op in program.ops)


def within(program: Program, change: Callable[[Program], Program]) -> Program:
    """Change the programs that a program holds."""
    if not holds(program):
        return program
    held = dict.fromkeys([body for node in program.nodes() for body in bodies(node)])
    known = {body: change(body) for body in held}
    if all(body is made for body, made in known.items()):
        return program

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        params = tuple([known.get(p, p) if isinstance(p, Program) else p for p in node.params])
        return graph.node(node.op, inputs, params, node.shape, node.dtype, node.line)

    return rebuild(program, rewrite)


class Parts:
    """A loop, and its body's nodes by what they are to it.

    Attributes:
        first: how many results come before those of the body: that of a `while_` is how many steps there were.
    """

    def __init__(self, node: Node) -> None:
        """Take it apart."""
        self.node, self.first = node, int(node.op is while_)
        self.body, fixed = node.param("body"), node.param("fixed")
        self.length = node.param("most" if self.first else "length")
        inputs, outputs = self.body.inputs, self.body.outputs
        last = len(inputs) if self.first else fixed + node.param("carried")
        self.fixed, self.state, self.rows = inputs[:fixed], inputs[fixed:last], inputs[last:]
        self.next, self.stacked = outputs[: last - fixed], outputs[last - fixed :]
        self.outer = dict(zip(inputs, node.inputs[len(node.inputs) - len(inputs) :], strict=True))

    def remade(
        self, fixed: Sequence[Node], state: Sequence[Node], rows: Sequence[Node], outputs: Sequence[Node],
        numbers: Mapping[Node, Any] | None = None,
    ) -> tuple[Program, int, int]:
        """Make the body of other inputs, nodes of this one, and outputs; say how many are fixed and carried."""
        return closed([*fixed, *state, *rows], outputs, self.body.name, numbers), len(fixed), len(state)


@dataclass
class Change:
    """What stands in the place of a scan: another one, and values in the place of results.

    Attributes:
        body: the new one with how many inputs are fixed and how many carried; None where there is no loop any more.
        inputs: what it is given, of the old scan's operands in the new program.
        results: for each result of the old one which one of the new scan it is, or which operand of the old one, or how
            it is made of both.
        home: the scan in whose place the new one stands, where it is another one.
        test: the new condition of a `while_`.
    """

    body: tuple[Program, int, int] | None
    inputs: Callable[[Graph, dict[Node, Node]], list[Node]]
    results: dict[int, int | Node | Callable[[Graph, Any, dict[Node, Node]], Node]]
    home: Node | None = None
    test: Program | None = None


def applied(program: Program, changes: dict[Node, Change]) -> Program:
    """Change scans."""
    if not changes:
        return program
    given: dict[Node, dict[Node, Node]] = {}
    made: Any = {}

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in changes:
            change = changes[node]
            own = node.param("body").inputs
            before = len(inputs) - len(own)
            given[node] = dict(zip(own, inputs[before:], strict=True))
            if change.body is None:
                return inputs[0] if inputs else literal(graph, 0)  # nobody reads it
            body, fixed, carried = change.body
            named = {**node.named, "body": body, "fixed": fixed, **({} if node.op is while_ else {"carried": carried})}
            named |= {} if change.test is None else {"test": change.test}
            made[node] = make(graph, node.op, *inputs[:before], *change.inputs(graph, given[node]), **named)
            return made[node]  # type: ignore[no-any-return]
        if isinstance(node.op, Result) and node.inputs[0] in changes:
            old = node.inputs[0]
            found, loop = changes[old].results[node.param("number")], made.get(changes[old].home or old)
            if isinstance(found, Node):
                return given[old][found]
            return make(graph, result, loop, number=found) if isinstance(found, int) else found(graph, loop, given[old])
        return copied(graph, node, inputs)

    return rebuild(program, rewrite)


def loops_of(program: Program, *ops: Op) -> list[Node]:
    """List the loops of a program that are of some ops."""
    return [] if program.ops.isdisjoint(ops) else [node for node in program.nodes() if node.op in ops]


# -- one loop for those over the same


def join_scans(program: Program) -> Program:
    """Make one loop of those that carry the same on: a value's, and that of its derivative.

    One may carry less than the other, and be given more.
    """
    if len(loops_of(program, scan, while_)) > 1:
        program = _given_more(_wider_first(within(program, partial(_first_equal, {}))))
    changes: dict[Node, Change] = {}
    for nodes in _alike(program):
        left = sorted(nodes, key=lambda node: (-len(node.inputs), node.number))
        while left:
            whole = Parts(left.pop(0))
            inner = nested(Graph(), whole.body)
            joined = {
                node: found for node in left if node.number > whole.node.number
                and (found := _shared_states(whole, inner, Parts(node))) is not None
            }
            if not joined:
                continue
            left = [node for node in left if node not in joined]
            carried = len(whole.next)
            rows = [y for states, made in joined.values() for y in made[len(states) :]]
            stacked = [*dict.fromkeys([*inner.outputs[carried:], *rows])]
            body = closed(inner.inputs, [*inner.outputs[:carried], *stacked], whole.body.name)
            joined[whole.node] = [*range(carried)], [*inner.outputs]
            for node, (states, made) in joined.items():
                places = [*states, *[carried + stacked.index(y) for y in made[len(states) :]]]
                places = [0, *[1 + place for place in places]] if whole.first else places  # how many steps comes first
                changes[node] = Change(
                    None if node is not whole.node else (body, len(whole.fixed), carried),
                    lambda _, given: [*given.values()], dict(enumerate(places)), whole.node,
                )
    return applied(program, changes)


def _alike(program: Program) -> list[list[Node]]:
    """Return the loops that have the same steps, as far as their parameters say."""
    groups: dict[Any, list[Node]] = {}
    for node in loops_of(program, scan, while_):
        alike = [node.named.get(name) for name in ("length", "reverse", "most", "runs")]
        groups.setdefault((node.op, *alike), []).append(node)
    return [nodes for nodes in groups.values() if len(nodes) > 1]


def _first_equal(known: dict[Any, Program], body: Program) -> Program:
    """Return the first of the programs that are equal to one: passes before made each anew for each holder."""
    body = within(body, partial(_first_equal, known))
    nodes = body.nodes()
    place = {node: k for k, node in enumerate(nodes)}
    ends = [tuple([place[node] for node in own]) for own in (body.inputs, body.outputs)]
    key = *ends, tuple([
        (n.op, *[place[i] for i in n.inputs], () if n.is_input else n.params, n.shape, n.dtype) for n in nodes
    ])
    return known.setdefault(key, body)


def _wider_first(program: Program) -> Program:
    """Let a loop come before one that it may be one with and that carries less: a value's is traced before a tangent's.

    A loop that is made of what the other one gives stays behind it.
    """
    first: dict[Node, list[Node]] = defaultdict(list)  # what comes before nodes that do not read it

    def needed(node: Node) -> list[Node]:
        return [i for i in (*node.inputs, *first.get(node, ())[::-1]) if i.number >= program.start]

    for nodes in _alike(program):
        for one in nodes:
            for wider in nodes:
                able = one.number < wider.number and {*one.inputs} < {*wider.inputs}
                if able and one not in reachable([wider], needed):
                    first[one].append(wider)
    return rebuild(program, copied, order=in_order(program, needed)) if first else program


def _given_more(program: Program) -> Program:
    """Give scans what others are given that carry no more on and are made of nothing of theirs."""
    more: dict[Node, dict[tuple[bool, Node], Node]] = {}

    def needed(node: Node) -> list[Node]:
        first = [one for _, one in more.get(node, ())]
        return [i for i in (*node.inputs, *first[::-1]) if i.number >= program.start]

    for nodes in _alike(program):
        parts = [(node, Parts(node)) for node in nodes if node.op is scan]
        begins = {node: Counter([own.outer[state] for state in own.state]) for node, own in parts}
        for (whole, own), (node, other) in permutations(parts, 2):
            able = begins[node] and begins[node] <= begins[whole] and not {*node.inputs} <= {*whole.inputs}
            if able and more.keys().isdisjoint((whole, node)):
                found: dict[tuple[bool, Node], Node] = {}
                if _shared_states(own, nested(Graph(), own.body), other, found) is None:
                    continue
                if whole not in reachable([one for _, one in found], needed) and node not in reachable([whole], needed):
                    more[whole] = found
    if not more:
        return program
    new: dict[Node, Node] = {}

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node not in more:
            return copied(graph, node, inputs)
        own, count, others = Parts(node), node.param("fixed"), more[node].items()
        fixed, rows = [{one: x for (is_fixed, one), x in others if is_fixed is wanted} for wanted in (True, False)]
        body, *counts = own.remade(
            [*own.fixed, *fixed.values()], own.state, [*own.rows, *rows.values()], own.body.outputs,
        )
        fixed_there, rows_there = [[new.get(one, one) for one in some] for some in (fixed, rows)]
        given = [*inputs[:count], *fixed_there, *inputs[count:], *rows_there]
        return make(graph, scan, *given, **{**node.named, "body": body, "fixed": counts[0]})

    return rebuild(program, rewrite, order=in_order(program, needed), new=new)


def _shared_states(
    whole: Parts, inner: Program, other: Parts, more: dict[tuple[bool, Node], Node] | None = None,
) -> tuple[list[int], list[Node]] | None:
    """Say which of a scan's states are another one's, and what that one's body gives in its place; None if not.

    What the other one is given and this one is not is put into `more`, with what stands for it.
    """
    fixed, carried = len(whole.fixed), len(whole.state)
    outer = whole.node.inputs
    others = [k for k in reversed(range(len(outer))) if not fixed <= k < fixed + carried]
    at = {(k < fixed, outer[k]): inner.inputs[k] for k in others}  # of equal ones the first: a value's, not a tangent's
    values: list[Any] = []
    states: list[int] = []
    scope: Any = inner.scope
    for k, (own, node) in enumerate(zip(other.body.inputs, other.node.inputs, strict=True)):
        if own in other.state:
            free = [j for j in range(carried) if outer[fixed + j] is node and j not in states]
            called = [j for j in free if whole.state[j].param("name") == own.param("name")]
            free = (called or free)[:1]  # several may begin with 0: the one that a derivative is of has its name
            states += free
            values.append(inner.inputs[fixed + free[0]] if free else None)
            continue
        key = k < len(other.fixed), node
        if key not in at and more is not None:
            at[key] = input_like(scope, own.param("name"), own)
            more[key] = own
        values.append(at.get(key))
    if None in values:
        return None
    if whole.first and replaced(scope, whole.node.param("test"), inner.inputs) != replaced(
        scope, other.node.param("test"), values,
    ):
        return None
    made = replaced(scope, other.body, values)
    return (states, made) if made[: len(states)] == [inner.outputs[j] for j in states] else None


# -- sums in place


def accumulate(program: Program) -> Program:
    """Let what is held add to places of an array, where it adds zeros with something at these places to all of it."""
    return within(program, _accumulated)


def _accumulated(body: Program) -> Program:
    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        for x, added in (inputs, inputs[::-1]) if node.op.numpy is np.add else ():
            alone = all(len(i.shape) < 2 for i in added.inputs[1:])  # the order of writes is that of one axis
            if added.op is scatter_add and x.shape == added.shape and alone:
                return make(graph, add_at, x, *added.inputs, axes=added.param("axes"))
        return copied(graph, node, inputs)

    return rebuild(within(body, _accumulated), rewrite) if scatter_add in body.ops else within(body, _accumulated)


# -- without what nobody reads


def trim_scans(program: Program) -> Program:
    """Leave out of loops what nobody reads, and carry on nothing that stays as it is; with no carry, it is no loop.

    Branches and calls give nothing that nobody reads, are given nothing that they do not, and know the numbers. Loops
    know of rows that are one number.
    """
    used: dict[Node, set[int]] = defaultdict(set)
    for node in program.nodes():
        if isinstance(node.op, Result):
            used[node.inputs[0]].add(node.param("number"))
    trimmed = {
        node: own for node in used
        if "fixed" not in node.op.params and (own := _Trimmed.of(node, sorted(used[node]))) is not None
    }
    if trimmed:
        return trim_scans(_without_idle(program, trimmed))
    return applied(program, {
        node: change for node in loops_of(program, scan, counted, while_)
        if (change := _trimmed(Parts(node), used[node])) is not None
    })


class _Trimmed(NamedTuple):
    """What is left of a branch or a call: the numbers of results and of operands, and operands that are numbers."""

    results: tuple[int, ...]
    operands: tuple[int, ...]
    numbers: tuple[tuple[int, Node], ...]

    @classmethod
    def of(cls, node: Node, results: list[int]) -> _Trimmed | None:
        """Find it; None where all is left."""
        held = bodies(node)
        given = node.inputs[-len(held[0].inputs) :] if held[0].inputs else ()
        read = set[Node]().union(*[read_by(body, [body.outputs[k] for k in results]) for body in held])
        kept = [k for k in range(len(given)) if any(body.inputs[k] in read for body in held)]
        numbers = [(k, given[k]) for k in kept if scalar(given[k]) is not None and given[k].shape == ()]
        left = [k for k in kept if k not in dict(numbers)]
        if len(left) == len(given) and len(results) == len(held[0].outputs):
            return None
        return cls(tuple(results), tuple(left), tuple(numbers))

    def body(self, body: Program) -> Program:
        """Make what is left of a program."""
        own, known = Graph(), dict(self.numbers)
        given = [
            literal(own, array(known[k])) if k in known else input_like(own, x.param("name"), x)
            if k in self.operands else shaped(own, literal(own, 0, x.dtype), x.shape) for k, x in enumerate(body.inputs)
        ]
        wanted = replace(body, outputs=tuple([body.outputs[k] for k in self.results]))
        return Program(tuple([given[k] for k in self.operands]), tuple(replaced(own, wanted, given)), body.name)


def _without_idle(program: Program, trimmed: dict[Node, _Trimmed]) -> Program:
    """Make branches and calls of what is left of them; equal ones are equal still."""
    made: dict[Any, Program] = {}

    def rewrite(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in trimmed:
            left = trimmed[node]
            for body in bodies(node):
                if (body, left) not in made:
                    made[body, left] = left.body(body)
            named = {name: made.get((held, left), held) for name, held in node.named.items()}
            first = len(inputs) - len(bodies(node)[0].inputs)
            return make(graph, node.op, *inputs[:first], *[inputs[first + k] for k in left.operands], **named)
        if isinstance(node.op, Result) and node.inputs[0] in trimmed:
            number = trimmed[node.inputs[0]].results.index(node.param("number"))
            return make(graph, result, *inputs, number=number)
        return copied(graph, node, inputs)

    return rebuild(program, rewrite)


def _trimmed(parts: Parts, used: set[int]) -> Change | None:
    body, test, first, carried = parts.body, parts.node.named.get("test"), parts.first, len(parts.state)
    is_scan = parts.node.op is scan
    by_row = {*parts.rows} if is_scan else set[Node]()  # of others, rows of no step hold nothing
    outputs, asks = body.outputs, set[Node]() if test is None else read_by(test, test.outputs)
    asked = {x for k, x in enumerate(body.inputs) if test is not None and test.inputs[k] in asks}
    wanted = {k - first for k in used if k >= first} | {k for k, x in enumerate(parts.state) if x in asked}
    needed = sorted(closure(body, wanted, len(parts.fixed), carried))
    read = read_by(body, [outputs[k] for k in needed]) | asked
    still = [k for k in needed if k < carried and parts.next[k] is parts.state[k]]
    state = [k for k in needed if k < carried and k not in still]
    fixed = [x for x in (*parts.fixed, *[parts.state[k] for k in still]) if x in read]
    read = read_by(body, [outputs[k] for k in needed if k < carried or outputs[k] not in by_row])
    numbers = {x: found for x in parts.rows if x in read and (found := scalar(parts.outer[x])) is not None}
    rows = [x for x in parts.rows if x in read and x not in numbers]
    results: dict[int, Any] = {0: 0} if first else {}
    results |= {first + k: parts.state[k] for k in still}
    results |= {first + k: first + place for place, k in enumerate(state)}
    stacked: dict[Node, int] = {}
    for k in needed:
        y = outputs[k]
        if k >= carried:
            results[first + k] = y if y in by_row else stacked.setdefault(y, first + len(state) + len(stacked))
    if is_scan and not state and not any("body" in op.params and op.rounds is None for op in body.ops):
        return _all_at_once(parts, [*stacked], fixed, results)
    before = (len(parts.fixed), carried, len(parts.rows), len(outputs))
    if before == (len(fixed), len(state), len(rows), len(state) + len(stacked)):
        return None
    own = [parts.state[k] for k in state]
    places = [body.inputs.index(x) for x in (*fixed, *own)]
    return Change(
        parts.remade(fixed, own, rows, [*[parts.next[k] for k in state], *stacked], numbers),
        lambda _, given: [given[x] for x in (*fixed, *own, *rows)], results,
        test=None if test is None else closed([test.inputs[k] for k in places], test.outputs, test.name),
    )


def _all_at_once(parts: Parts, stacked: list[Node], fixed: list[Node], results: dict[int, Any]) -> Change:
    """Compute what each step gives for all of them at once: they carry nothing."""
    own = Program((*fixed, *parts.rows), tuple(stacked), parts.body.name)

    def row(y: Node) -> Callable[[Graph, Any, dict[Node, Node]], Node]:
        def made(graph: Graph, _: Any, given: dict[Node, Node]) -> Node:
            return _all_rows(graph, parts, own, [y], given)[0]

        return made

    for k, y in enumerate(parts.stacked, len(parts.next)):
        if k in results and y not in parts.rows:
            results[k] = row(y)
    return Change(None, lambda *_: [], results)


def _all_rows(graph: Graph, parts: Parts, own: Program, outputs: Sequence[Node], given: dict[Node, Node]) -> list[Node]:
    """Compute nodes of a body, which depend on nothing that is carried, for all rows."""
    one = closed(own.inputs, outputs, own.name)
    many, has = batch(one, [x in parts.rows for x in own.inputs], parts.length)
    made = replaced(graph, many, [given[x] for x in own.inputs])
    return [y if m else shaped(graph, y, (parts.length, *y.shape)) for y, m in zip(made, has, strict=True)]


# -- before the loop, and behind it


def hoist(program: Program) -> Program:
    """Compute before a loop what is the same in all steps, and sums of products of rows alone for all rows at once."""
    return applied(program, {
        node: change for node in loops_of(program, scan) if (change := _hoisted(Parts(node))) is not None
    })


def invariants(program: Program) -> Program:
    """Compute before a loop what is the same in all steps: so a derivative keeps it once, not in each step."""
    program = within(program, invariants)
    loops = loops_of(program, scan)
    return applied(program, {
        node: change for node in loops if (change := _hoisted(Parts(node), products=False)) is not None
    })


def _hoisted(parts: Parts, *, products: bool = True) -> Change | None:
    moving = {*parts.state}
    by_row = {*parts.rows}
    able: list[Node] = []
    invariant: list[Node] = []
    sure = type(parts.length) is int and parts.length > 0
    for node in parts.body.nodes():
        if not moving.isdisjoint(node.inputs):
            moving.add(node)
        elif not by_row.isdisjoint(node.inputs):
            by_row.add(node)
            if products and node.op.labels and len(node.inputs) == 2:
                able.append(node)
        elif node.inputs and (
            sure or isinstance(node.op, Elementwise) or node.op.view or node.op.labels or node.op is sum_
        ):
            invariant.append(node)
        elif node.inputs:
            moving.add(node)  # it may fail, and there may be no step
    read = {i for node in parts.body.nodes() if node in moving or node in by_row for i in node.inputs}
    read |= {*parts.body.outputs}
    early = [node for node in invariant if node in read]
    wide = {i for node in parts.body.nodes() if node in moving for i in node.inputs} | {*parts.body.outputs}
    users = parts.body.readers
    outer = [node for node in able if node in wide or any(user not in able for user in users[node])]
    if not early and not outer:
        return None
    fixed = [*parts.fixed, *early]
    body = parts.remade(fixed, parts.state, [*parts.rows, *outer], parts.body.outputs)
    once = Program(parts.fixed, tuple(early), parts.body.name)
    each = Program((*parts.fixed, *parts.rows), tuple(outer), parts.body.name)

    def inputs(graph: Graph, given: dict[Node, Node]) -> list[Node]:
        first = replaced(graph, once, [given[x] for x in parts.fixed])
        many = _all_rows(graph, parts, each, outer, given) if outer else []
        return [*[given[x] for x in parts.fixed], *first, *[given[x] for x in (*parts.state, *parts.rows)], *many]

    return Change(body, inputs, {k: k for k in range(len(parts.body.outputs))})


def late_products(program: Program) -> Program:
    """Take sums over the steps of large products out of loops: their factors are stacked, and multiplied behind."""
    loops = loops_of(program, scan)
    return applied(program, {node: change for node in loops if (change := _late(Parts(node))) is not None})


def _late(parts: Parts) -> Change | None:
    readers = parts.body.readers
    outside = {*parts.rows, *parts.fixed}
    there = {*outside, *parts.stacked}
    late: dict[int, Node] = {}
    sums: dict[int, Node] = {}
    for k, (x, y) in enumerate(zip(parts.state, parts.next, strict=True)):
        if readers[x] != [y] or y.op.numpy is not np.add or x in parts.body.outputs or readers[y]:
            continue
        (term,) = [i for i in y.inputs if i is not x] or [x]
        if term.op is sum_ and term.shape == x.shape:
            sums[k] = term
        if term.op.labels and len(term.inputs) == 2 and term.shape == x.shape:
            count = upper(size(term.shape))
            new = [i for i in {*term.inputs} if i not in there]  # what would be stacked for it alone
            if count >= LATE_ELEMENTS and count > sum([upper(size(i.shape)) for i in new]):
                late[k] = term
    if not late:
        return None
    factors = [i for term in late.values() for i in term.inputs if i not in there]
    stacked = [*dict.fromkeys([*parts.stacked, *factors])]
    late |= {k: term for k, term in sums.items() if term.inputs[0] in stacked}  # of what is stacked anyway
    kept = [k for k in range(len(parts.state)) if k not in late]
    state = [parts.state[k] for k in kept]
    first = len(state)
    body = parts.remade(parts.fixed, state, parts.rows, [*[parts.next[k] for k in kept], *stacked])

    def total(k: int, term: Node) -> Callable[[Graph, Any, dict[Node, Node]], Node]:
        def made(graph: Graph, new: Any, given: dict[Node, Node]) -> Node:
            many = [i not in parts.fixed for i in term.inputs]
            values = [  # what is carried is stacked: it was given as it begins
                given[i] if i in outside else make(graph, result, new, number=first + stacked.index(i))
                for i in term.inputs
            ]
            start = given[parts.state[k]]
            if term.op is sum_:
                total = make(graph, sum_, *values, axes=(0, *[1 + axis for axis in term.param("axes")]))
            else:
                terms, out = parse_labels(term.param("subscripts"))
                label = next(letter for letter in LETTERS if letter not in term.param("subscripts"))
                labelled = ",".join([label + t if m else t for t, m in zip(terms, many, strict=True)])
                total = make(graph, einsum, *values, subscripts=f"{labelled}->{out}")
            return total if is_number(start, 0.0) else written(graph, np.add, start, total)

        return made

    results: dict[int, Any] = {k: total(k, term) for k, term in late.items()}
    results |= {k: place for place, k in enumerate(kept)}
    results |= {k: first + stacked.index(y) for k, y in enumerate(parts.stacked, len(parts.next))}
    return Change(body, lambda _, given: [given[x] for x in (*parts.fixed, *state, *parts.rows)], results)

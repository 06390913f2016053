"""Rewriting by example: a rule is a pair of NumPy functions, what is looked for and what is written instead.

``rule(lambda x: np.log(1 + x), lambda x: np.log1p(x))`` is all there is to say. Both functions are run once on objects
that record them; a `Table` of rules goes over a program from its inputs to its outputs and rewrites each node until no
rule fits. Operands of commutative ops are matched in any order. A variable stands for

- a value, whatever computes it (the default); two of one name are one node;
- a number: a constant that is the same everywhere (``c=NUMBER``);
- an op's parameter, such as the axes of a reduction (``axes=PARAM``);
- an op of a family (``f=family(ops.sum, ops.max)``): the rule is written out, once for each.

A result that has not the dtype of what it replaces is not used, nor one of another shape; but what rules without
parameters write is elementwise, and is broadcast.

Rewriting ends: of each pair, what is written has an op of a lower rank at its root, or is smaller than what was found.
That there are such ranks is a property of a table, and tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Elementwise, Leaf, Op
from symgrad.ir.program import Program, rebuild
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS, OPS
from symgrad.ops.declare.traits import traits
from symgrad.transforms.build import core, literal, make, minus, number, same_number, shaped
from symgrad.transforms.tuned import REWRITTEN

VALUE, NUMBER, PARAM = "value", "number", "parameter"
"""What a variable stands for; or for an op of a `family`."""


def family(*ops: Op) -> frozenset[Op]:
    """Return a variable for any of these ops."""
    return frozenset(ops)


# -- what the functions of a rule are run on


class Recorded(NDArrayOperatorsMixin):
    """It records ops, and NumPy's functions and operators."""

    __hash__ = object.__hash__

    def __symgrad_bind__(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Term:
        return Term(op, inputs, tuple([params[name] for name in op.params]))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any) -> Term:
        return Term(ANSWERS[ufunc], inputs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Term:
        return Term(OPS[func.__name__], args)


@dataclass(frozen=True, eq=False)
class Term(Recorded):
    """An op of terms, variables and numbers."""

    op: Op
    inputs: tuple[Any, ...]
    params: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(repr, (*self.inputs, *self.params)))})"


@dataclass(frozen=True, eq=False)
class Variable(Recorded):
    """What a rule is for any of."""

    name: str
    kind: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Computed(Recorded):
    """A number or a parameter that is computed when a rule is applied."""

    function: Callable[..., Any]
    of: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.function.__name__}({', '.join(map(repr, self.of))})"


def computed(function: Callable[..., Any], *of: Any) -> Any:
    """Compute a number or a parameter of a rule's result from its variables."""
    return Computed(function, of) if any(isinstance(x, Recorded) for x in of) else function(*of)


@dataclass(frozen=True, eq=False)
class Viewed(Recorded):
    """A term, or views of it that keep all elements in their order."""

    term: Any

    def __repr__(self) -> str:
        return f"viewed({self.term})"


def viewed(term: Any) -> Any:
    """Look for a term behind views that keep all elements in their order, such as new axes."""
    return Viewed(term) if isinstance(term, Recorded) else term


# -- rules


class Rule:
    """A pair of NumPy functions.

    Attributes:
        what: what is looked for.
        instead: what is written in its place, a function of some of the same variables.
        when: a condition on what was found, a function of some of the variables (values are nodes), of `node`, which is
            the whole, and of `run`.
        kinds: kinds of dtype of the result.
        once: only where what stands between the root and the variables has one use, for the rule would make work.
        variables: what those stand for that are no values.
    """

    def __init__(
        self, what: Callable[..., Any], instead: Callable[..., Any], *, when: Callable[..., Any] | None = None,
        kinds: str = "f", once: bool = False, **variables: Any,
    ) -> None:
        self.what, self.instead, self.when, self.kinds, self.once = what, instead, when, kinds, once
        self.variables = variables

    def pairs(self) -> Iterator[Pair]:
        """Write the rule out, for each op of its families."""
        families = {name: kind for name, kind in self.variables.items() if isinstance(kind, frozenset)}
        given: dict[str, Any] = {n: Variable(n, self.variables.get(n, VALUE)) for n in arguments(self.what)}
        for chosen in product(*[sorted(kind, key=attrgetter("name")) for kind in families.values()]):
            given.update(zip(families, chosen, strict=True))
            what, instead = [f(*[given[n] for n in arguments(f)]) for f in (self.what, self.instead)]
            yield Pair(self, what, instead, arguments(self.when) if self.when else ())


rule = Rule


def arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's arguments that have no default."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount - len(function.__defaults__ or ())]


def orders(term: Any) -> list[Any]:
    """Return a term with the operands of its commutative ops in each order, that of the text first."""
    if isinstance(term, Viewed):
        return [Viewed(inner) for inner in orders(term.term)]
    if not isinstance(term, Term):
        return [term]
    found = [Term(term.op, inputs, term.params) for inputs in product(*map(orders, term.inputs))]
    is_pair = len(term.inputs) == 2 and repr(term.inputs[0]) != repr(term.inputs[1])
    if is_pair and isinstance(term.op, Elementwise) and traits(term.op).commutes:
        found += [Term(term.op, each.inputs[::-1], term.params) for each in found]
    return found


@dataclass(frozen=True, eq=False)
class Pair:
    """A rule for one op, in one order of operands: terms that are matched as they stand."""

    rule: Rule
    what: Term
    instead: Any
    asked: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{self.what} -> {self.instead}"

    def of(self, op: Op) -> list[Pair]:
        """Return it in each order of operands, if it is for nodes of an op."""
        return [replace(self, what=order) for order in orders(self.what)] if self.what.op is op else []

    def fits(self, _op: Op, inputs: tuple[Any, ...]) -> bool:
        """Whether it may fit nodes of these ops and numbers."""
        return all(map(_may_be, self.what.inputs, inputs))

    def __call__(self, run: Run, node: Node) -> Node | None:
        """Return what is written in the place of a node, None where the rule does not fit."""
        if node.dtype.kind not in self.rule.kinds:
            return None
        found: dict[str, Any] = {"node": node, "run": run}
        if not _matches(self.what, node, found, run if self.rule.once else None):
            return None
        if self.rule.when is not None and not self.rule.when(*[found[name] for name in self.asked]):
            return None
        value = self._value(run.graph, self.instead, found, node)
        new = value if hasattr(value, "op") else literal(run.graph, value, node.dtype)
        same = new.shape == node.shape or PARAM not in self.rule.variables.values()
        return new if same and new.dtype == node.dtype else None

    def _value(self, graph: Graph, term: Any, found: dict[str, Any], like: Node) -> Any:
        """Return the node of a term, or the number that it is: what is made of numbers alone is computed now."""
        if isinstance(term, Variable):
            return found[term.name]
        if isinstance(term, Computed):
            return term.function(*[found[x.name] if isinstance(x, Variable) else x for x in term.of])
        if not isinstance(term, Term):
            return term
        values = [self._value(graph, i, found, like) for i in term.inputs]
        params = {n: self._value(graph, p, found, like) for n, p in zip(term.op.params, term.params, strict=True)}
        nodes = [v for v in values if hasattr(v, "op")]
        if not nodes:
            with np.errstate(all="ignore"):
                return term.op.evaluate(*values, **params)
        if term.op.name == "negative":
            return minus(graph, nodes[0])
        dtype = next((v.dtype for v in reversed(nodes) if v.dtype.kind != "b"), like.dtype)
        return make(graph, term.op, *[v if hasattr(v, "op") else literal(graph, v, dtype) for v in values], **params)


def _matches(term: Any, node: Node, found: dict[str, Any], once: Run | None = None) -> bool:
    """Whether a node is as a term says; put into `found` what its variables are.

    With `once`, what stands between the root and the variables has one use.
    """
    kind = type(term)
    if kind is Variable and term.kind == VALUE:
        return found.setdefault(term.name, node) is node
    if kind is Term:
        if node.op is not term.op or (once is not None and node is not found["node"] and not once.is_single(node)):
            return False
        for wanted, value in zip(term.params, node.params, strict=True):
            if (found.setdefault(wanted.name, value) if type(wanted) is Variable else wanted) != value:
                return False
        for wanted, read in zip(term.inputs, node.inputs, strict=True):  # noqa: SIM110 - `all` takes twice as long
            if not _matches(wanted, read, found, once):
                return False
        return True
    if kind is Viewed:
        return _matches(term.term, core(node), found, once)
    value = number(node)
    wanted = found.setdefault(term.name, value) if kind is Variable else term
    return value is not None and same_number(value, wanted)


class Form:
    """What nodes look like, by example: ``Form(lambda x: np.log(1 + x))``; the variables are those of rules."""

    def __init__(self, what: Callable[..., Any], **variables: Any) -> None:
        self.rule = Rule(what, what, **variables)

    @cached_property
    def _terms(self) -> list[Any]:
        load()
        return [order for pair in self.rule.pairs() for order in orders(pair.what)]

    def __call__(self, node: Node) -> dict[str, Any] | None:
        """Return what the variables are, None for what looks otherwise."""
        for term in self._terms:
            found: dict[str, Any] = {}
            if _matches(term, node, found):
                return found
        return None


def _may_be(term: Any, part: Any) -> bool:
    """Whether a node of an op, or a number, may be what a term says."""
    kind = type(term)
    if kind is Term:
        return term.op is part
    if kind is Viewed:
        return getattr(part, "view", False) or _may_be(term.term, part)
    if kind is Variable and term.kind == VALUE:
        return True
    if isinstance(part, Op):
        return isinstance(part, Leaf) or part.ordered or part.aligned
    return kind is Variable or term == part


@dataclass(frozen=True, eq=False)
class By:
    """A rule that no pair can say: a function of the run and a node.

    Attributes:
        fits: whether it may fit nodes of an op; and of these first operands, ops or numbers, where they are given.
        once: it asks for the uses of nodes.
    """

    function: Callable[[Run, Node], Node | None]
    fits: Callable[[Op, tuple[Any, ...] | None], bool]
    once: bool = False

    def pairs(self) -> Iterator[By]:
        """Write it out: it is what it is."""
        yield self

    def of(self, op: Op) -> list[By]:
        """Return it, if it is for nodes of an op."""
        return [self] if self.fits(op, None) else []

    def __call__(self, run: Run, node: Node) -> Node | None:
        """Apply the function."""
        return self.function(run, node)


def by(
    function: Callable[[Run, Node], Node | None], *ops: Op, among: Callable[..., bool] = lambda *_: True,
    once: bool = False,
) -> By:
    """Declare a function as a rule for some ops, where `among` holds for their first operands, ops or numbers."""
    return By(function, lambda op, inputs: op in ops and (inputs is None or among(*inputs)), once)


# -- tables


class Table:
    """Rules in the order in which they are tried; called on a program, it rewrites it."""

    def __init__(self, *rules: Rule | By) -> None:
        self.rules = rules
        self._every: dict[Op, list[Pair | By]] = {}
        self._fitting: dict[Any, list[Pair | By]] = {}

    @cached_property
    def pairs(self) -> list[Pair | By]:
        """All rules, written out but for the order of operands."""
        load()
        return [pair for rule in self.rules for pair in rule.pairs()]

    @cached_property
    def numbers(self) -> frozenset[float]:
        """The numbers that are operands in what rules look for."""
        inputs = [i for p in self.pairs if isinstance(p, Pair) for i in p.what.inputs]
        return frozenset([i for i in inputs if isinstance(i, (int, float))])

    def of(self, op: Op) -> list[Pair | By]:
        """Return the rules for nodes of an op."""
        found = self._every.get(op)
        if found is None:
            found = self._every[op] = [each for pair in self.pairs for each in pair.of(op)]
        return found

    def fitting(self, node: Node) -> list[Pair | By]:
        """Return the rules that may fit a node, by its op and the ops of its first operands, or their numbers."""
        key = (node.op, *[i.op if i.inputs or i.shape else self._part(i) for i in node.inputs[:3]])
        found = self._fitting.get(key)
        if found is None:
            found = self._fitting[key] = [each for each in self.of(node.op) if each.fits(node.op, key[1:])]
        return found

    def _part(self, node: Node) -> Any:
        """Return a scalar constant's number where that matters, None where no rule names it; else the op."""
        if not node.is_constant:
            return node.op
        value = node.params[0].array.item()
        return value if value in self.numbers else None

    @cached_property
    def counts(self) -> bool:
        """Whether rules ask for the uses of a node."""
        return any(each.once for each in self.rules)

    def __call__(self, program: Program) -> Program:
        """Rewrite a program, each node after its operands; one that no rule fits is returned as it is."""
        ops = frozenset(filter(self.of, program.ops))
        if not ops:
            return program
        uses = Counter([i for n in program.nodes() for i in n.inputs] + [*program.outputs]) if self.counts else None
        trial = Run(self, uses, Graph())
        for node in program.nodes():
            rules = self.fitting(node) if node.op in ops else None
            if rules and trial.applied(node, rules) is not None:
                return rebuild(program, Run(self, uses, ops=ops, first=node.number).rewritten)
        return program


class Run:
    """One use of a table on one graph.

    Attributes:
        graph: where rules make nodes; that of the node which is being rewritten.
        ops: those of the program that rules are for; None: any may be.
        first: nodes of the program numbered below fit no rule.
        deep: how many rewritings wait for this one.
    """

    def __init__(
        self, table: Table, uses: Counter[Node] | None = None, graph: Graph | None = None, *,
        ops: frozenset[Op] | None = None, first: int = 0,
    ) -> None:
        """Rewrite into a graph; where none is given, counts of `uses` go over to the nodes that are made."""
        self.table, self.ops, self.first, self.deep = table, ops, first, 0
        self.graph: Graph = graph  # type: ignore[assignment]
        self._memo: dict[Any, Any] = {}
        self._uses = uses
        self._counts: dict[Node, int] = uses if graph is not None and uses is not None else {}

    def rewritten(self, graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        """Make a node anew and rewrite it."""
        node = graph.node(old.op, inputs, old.params, old.shape, old.dtype, old.line)
        may_fit = old.number >= self.first and (self.ops is None or old.op in self.ops)
        rules = self.table.fitting(node) if may_fit else None
        if rules:
            self.graph = graph
            node = self.settled(node, rules)
        if self._uses is not None:
            self._counts[node] = self._counts.get(node, 0) + self._uses[old]
        return node

    def settled(self, node: Node, rules: list[Pair | By] | None = None) -> Node:
        """Rewrite a node until no rule fits; `rules` are those that may fit it, where they are known."""
        for _ in range(REWRITTEN):
            new = self.applied(node, self.table.fitting(node) if rules is None else rules)
            if new is None:
                break
            rules = None
            node = new if new.shape == node.shape else shaped(self.graph, self.settled(new), node.shape)
        return node

    def applied(self, node: Node, rules: list[Pair | By]) -> Node | None:
        """Return what the first rule that fits a node writes in its place, None where none does."""
        for each in rules:
            new = each(self, node)
            if new is not None and new is not node:
                return new
        return None

    def is_single(self, node: Node) -> bool:
        """Whether a node has one use at most; one that a rule has made has one."""
        return self._counts.get(node, 1) <= 1

    def recall(self, what: Callable[[], Any]) -> Any:
        """Return what rules remember of this run, made when first asked for."""
        if what not in self._memo:
            self._memo[what] = what()
        return self._memo[what]

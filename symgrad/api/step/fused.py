"""Both halves of a step in one call of C: which arrays go where, and what becomes of them."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from symgrad.api.call.function import Entry, Short
from symgrad.api.sparse.rows import RowSparse
from symgrad.api.step.epoch import Batches
from symgrad.api.step.update import NUMPYS, Update, check_in_place, outside, put_back
from symgrad.api.trees import Tree, leaves_by_path
from symgrad.build.call import MISS, Plan
from symgrad.build.steps import Given, Half, Steps
from symgrad.render.source import MEET
from symgrad.trace import optree
from symgrad.trace.structures import flattened, key_orders

Rows = tuple[int, bool, Any]
"""How many rows a batch has, whether they are in an order, and the kinds of arrays they are of."""
ALL: Rows = 0, False, None
"""What is given is one batch."""
COUNT = 2
"""The place of the count among what a `RowSparse` is made of."""


def gradients_like(entry: Entry, plan: Plan, params: Tree) -> OrderedDict[str, Any]:
    """Return gradients as a compiled function gives them, by path, of zeros that take no memory."""
    value, grads = entry.tree.children()
    found = [*zip(entry.call.interface.outputs, plan.outputs, strict=True)][value.num_leaves :]
    made = optree.tree_unflatten(grads, [np.broadcast_to(np.zeros((), port.dtype), shape) for port, shape in found])
    known = leaves_by_path(params)
    return OrderedDict([
        (path, one.of_shape(known[path].shape) if isinstance(one, RowSparse) else one) for path, one in made.items()
    ])


class Fused:
    """A step for arrays of some shapes.

    Attributes:
        key: what it is planned for.
        rows: what batches are of what it is given.
        tree: the structure of ``(params, state, batch)``.
        donate: what it is given is written; else copies of it.
        unused: paths of the parameters that the loss does not use.
        results: what the loss returns, in the structure `values`.
        halves: the functions.
    """

    def __init__(
        self, key: Any, gradient: tuple[Entry, Plan, Short], update: Update, given: tuple[Tree, Tree, Any],
        grads: dict[str, Any], unused: list[str], rows: Rows, *, finite: bool, donate: bool,
    ) -> None:
        """Plan a step, or one for each of some batches: then what is given are all their rows.

        Where these are in an order, an array of places is the last of the batch.
        """
        entry, plan, serves = gradient
        leaves, self.tree = flattened(given)
        self.orders = key_orders(self.tree)
        self.order = self.orders(given) if self.orders else ()
        self.key, self.rows, self.update, self.unused, self.donate = key, rows, update, unused, donate
        self.halves, self.serves = (entry, update.entry), (serves, update.serves)
        first, second = [one.call.interface for one in self.halves]
        self.outside = [one.call.outside for one in self.halves if one.call.outside]
        self.values, slopes = entry.tree.children()
        count = self.tree.child(0).num_leaves
        both = count + self.tree.child(1).num_leaves
        places, into = itertools.count(len(first.inputs)), itertools.count(both)
        returned = itertools.islice(zip(first.outputs, plan.outputs, strict=True), self.values.num_leaves)
        self.results = [Given(port.dtype, shape, next(places)) for port, shape in returned]
        self.tables, between = {}, list[tuple[int, int]]()
        for path, slope in zip(slopes.entries(), slopes.children(), strict=True):
            parts = [*itertools.islice(places, slope.num_leaves)]
            if not slope.is_leaf():
                self.tables[path] = parts[COUNT]
            # Of a table's gradient the update does not take the table's extents, which may be open.
            between += [(place, next(into) if k <= COUNT else -1) for k, place in enumerate(parts)]
        (size, ordered, _), passed = rows, []
        for k, leaf in enumerate(leaves):
            place, other = (k if k < count else -1, k) if k < both else (k - both + count, -1)
            dtype, shape = first.inputs[place].dtype if place >= 0 else second.inputs[other].dtype, np.shape(leaf)
            kind: tuple[type, ...] = () if isinstance(leaf, np.ndarray) else (type(leaf),)
            if kind and place < 0:  # of the state: Python's numbers are as good as NumPy's
                kind += tuple([one for one, numpys in NUMPYS.items() if numpys in kind])
            is_order = ordered and k == len(leaves) - 1
            by_rows = size > 0 and k >= both and not is_order
            moves = size * dtype.itemsize * prod(shape[1:]) if is_order or (by_rows and not ordered) else 0
            passed.append(Given(dtype, shape, place, other, kind, k in update.results, by_rows, moves))
        for half, one in enumerate(self.halves):
            found, ports = outside(one.call), one.call.interface.inputs
            for k, (_, array) in enumerate(found, len(ports) - len(found)):
                passed.append(Given(ports[k].dtype, array.shape, *((k, -1) if half == 0 else (-1, k))))
        second_plan = update.entry.call.planned([*leaves[:both], *flattened(grads)[0], *update.entry.call.read()])
        self.steps = Steps(
            Half(entry.call, plan), Half(update.entry.call, second_plan), passed, self.results, between,
            finite=finite, rows=size,
        )
        self.numbers = [k for k, leaf in enumerate(leaves) if type(leaf) is int]

    @property
    def touched(self) -> dict[str, int]:
        """How many rows the gradients by tables had in the last step."""
        return {path: self.steps.integer(place) for path, place in self.tables.items()}

    def is_of(self, rows: Rows, tree: Any, given: tuple[Tree, Tree, Any]) -> bool:
        """Whether it is planned for such rows and this structure, whose dicts have their keys in this order."""
        if self.rows != rows or self.tree != tree:
            return False
        return not self.orders or bool(self.orders(given) == self.order)

    @property
    def is_current(self) -> bool:
        """Whether the functions are still those of the loss and the optimizer."""
        return self.steps.is_current and all(serves(()) is not MISS for serves in self.serves)

    def __call__(self, leaves: list[Any], state: Tree) -> Any:
        """Take one step: ``(code, params, state, value)``; None where the arguments are others, or the path is."""
        if self.numbers:  # beyond these, a call of the gradient by itself says what does not fit
            least, most = self.halves[0].call.integers.least, self.halves[0].call.integers.most
            if not all(type(leaves[k]) is int and least <= leaves[k] <= most for k in self.numbers):
                return None
        if not self.donate:
            self.update.copy(leaves)
        found = self.steps.one(self.with_outside(leaves))
        if found is None:
            return None
        code, results = found
        if code == MEET:
            self.refuse_shared(leaves)
        value = results[0] if self.values.is_leaf() else optree.tree_unflatten(self.values, results)
        return (code, *put_back(self.tree, leaves, state, self.donate), value)

    def many(self, leaves: list[Any], on: Batches) -> int | None:
        """Take a step for each of the next batches, see `Steps.many`; numbers that are written stand in the leaves."""
        rows, results = on.rows, on.room(self.results, self.values)
        batches = (on.total - rows.start) // len(rows)
        code = self.steps.many(self.with_outside(leaves), results, rows.start, batches, on)
        if code == MEET:
            self.refuse_shared(leaves)
        return code

    def with_outside(self, leaves: list[Any]) -> list[Any]:
        """Add the arrays that the functions read from outside."""
        for arrays in self.outside:
            leaves += arrays()
        return leaves

    def refuse_shared(self, leaves: list[Any]) -> None:
        """Raise what names the arrays that C found to share memory."""
        read = [pair for half in self.halves for pair in outside(half.call)]
        check_in_place(self.tree, leaves[: self.tree.num_leaves], self.update.results, read)

    def reported(self, report: Callable[[Any], Any]) -> list[Any]:
        """Make a report of each half, with numbers in the place of open extents."""
        from symgrad.api.report import with_extents

        return [
            with_extents(report(entry.built.stages), entry.built.program, plan.stand_ins(), {}, plan.passed[-1])
            for entry, (_, plan) in zip(self.halves, self.steps.halves, strict=True)
        ]

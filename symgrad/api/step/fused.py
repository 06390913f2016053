"""Both halves of a step in one call of C: which arrays go where, and what becomes of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from symgrad.api.call.function import Entry, Short
from symgrad.api.sparse.rows import RowSparse
from symgrad.api.step.update import Update, check_in_place, outside
from symgrad.api.trees import Tree, leaves_by_path
from symgrad.build.call import MISS, Plan
from symgrad.build.steps import Given, Half, Steps
from symgrad.render.source import MEET
from symgrad.trace import optree
from symgrad.trace.structures import flattened, key_orders

NUMPYS: dict[type, Callable[[Any], Any]] = {float: np.float64, int: np.int64}
"""What NumPy has for Python's numbers."""
COUNT = 2
"""The place of the count among what a `RowSparse` is made of."""


def like(dtype: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros that take no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def gradients_like(entry: Entry, plan: Plan, params: Tree) -> OrderedDict[str, Any]:
    """Return gradients as a compiled function gives them, by path, of zeros that take no memory."""
    value, grads = entry.tree.children()
    found = [*zip(entry.call.interface.outputs, plan.outputs, strict=True)][value.num_leaves :]
    made = optree.tree_unflatten(grads, [like(port.dtype, shape) for port, shape in found])
    known = leaves_by_path(params)
    return OrderedDict([
        (path, one.of_shape(known[path].shape) if isinstance(one, RowSparse) else one) for path, one in made.items()
    ])


class Fused:
    """A step for arrays of some shapes.

    Attributes:
        key: what it is planned for.
        tree: the structure of ``(params, state, batch)``.
        donate: what it is given is written; else copies of it.
        rows: how many of those that it is given are a batch; 0 where all are.
        unused: paths of the parameters that the loss does not use.
        value: the leaves of what the loss returns, of zeros, and their structure.
        halves: the functions.
    """

    def __init__(
        self, key: Any, gradient: tuple[Entry, Plan, Short], update: Update, given: tuple[Tree, Tree, Any],
        unused: list[str], *, finite: bool, donate: bool, rows: int = 0, ordered: bool = False,
    ) -> None:
        """Plan a step; with `rows` the batch is all there is, and so many of its rows are taken each time.

        Where they are `ordered`, an array of places is the last of the batch.
        """
        entry, plan, serves = gradient
        leaves, self.tree = flattened(given)
        self.orders = key_orders(self.tree)
        self.order = self.orders(given) if self.orders else ()
        self.key, self.update, self.unused, self.donate, self.rows = key, update, unused, donate, rows
        self.halves, self.serves = (entry, update.entry), (serves, update.serves)
        first, second = [one.call.interface for one in self.halves]
        self.outside = [one.call.outside for one in self.halves if one.call.outside]
        self.values, grads = entry.tree.children()
        count = self.tree.child(0).num_leaves
        both = count + self.tree.child(1).num_leaves
        made = [
            Given(port.dtype, shape, len(first.inputs) + k)
            for k, (port, shape) in enumerate(zip(first.outputs, plan.outputs, strict=True))
        ]
        results = made[: self.values.num_leaves]
        # Of a table's gradient the update does not take the table's extents, which may be open.
        self.tables, between, at = {}, list[tuple[int, int]](), both
        for path, grad, width in zip(grads.entries(), grads.children(), update.widths, strict=True):
            parts = [one.first for one in made[len(results) + len(between) :][: grad.num_leaves]]
            if not grad.is_leaf():
                self.tables[path] = parts[COUNT]
            between += zip(parts, [*range(at, at + width), *[-1] * (len(parts) - width)], strict=True)
            at += width
        shapes = [np.shape(leaf) for leaf in leaves]
        slopes = [made[place - len(first.inputs)].shape for place, other in between if other >= 0]
        read = [np.shape(one) for one in update.entry.call.read()]
        after = [like(np.int8, shape) for shape in [*shapes[:both], *slopes, *read]]
        passed = []
        for k, leaf in enumerate(leaves):
            place, other = (k if k < count else -1, k) if k < both else (k - both + count, -1)
            dtype = first.inputs[place].dtype if place >= 0 else second.inputs[other].dtype
            kind: tuple[type, ...] = () if isinstance(leaf, np.ndarray) else (type(leaf),)
            if kind and place < 0:  # of the state: Python's numbers are as good as NumPy's
                kind += tuple([one for one, numpys in NUMPYS.items() if numpys in kind])
            is_order = ordered and k == len(leaves) - 1
            by_rows = bool(rows) and k >= both and not is_order
            width = dtype.itemsize * prod(shapes[k][1:])
            moves = rows * width if is_order or (by_rows and not ordered) else 0
            passed.append(Given(dtype, shapes[k], place, other, kind, k in update.results, by_rows, moves))
        for half, one in enumerate(self.halves):
            found, ports = outside(one.call), one.call.interface.inputs
            for k, (_, array) in enumerate(found, len(ports) - len(found)):
                passed.append(Given(ports[k].dtype, array.shape, *((k, -1) if half == 0 else (-1, k))))
        self.steps = Steps(
            Half(entry.call, plan), Half(update.entry.call, update.entry.call.planned(after)), passed, results, between,
            finite=finite, rows=rows,
        )
        self.value = [like(one.dtype, one.shape) for one in results], self.values
        self.numbers = [k for k, leaf in enumerate(leaves) if type(leaf) is int]

    @property
    def touched(self) -> dict[str, int]:
        """How many rows the gradients by tables had in the last step."""
        return {path: self.steps.integer(place) for path, place in self.tables.items()}

    def is_of(self, tree: Any, given: tuple[Tree, Tree, Any]) -> bool:
        """Whether it is planned for arguments of this structure, whose dicts have their keys in this order."""
        return bool(self.tree == tree) and not (self.orders and self.orders(given) != self.order)

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
        return (code, *self.put_back(leaves, state), value)

    def many(self, leaves: list[Any], results: Sequence[Any], begin: int, batches: int) -> int | None:
        """Take a step for each of some batches, see `Steps.many`; numbers that are written stand in the leaves."""
        code = self.steps.many(self.with_outside(leaves), [*results], begin, batches)
        if code == MEET:
            self.refuse_shared(leaves)
        return code

    def with_outside(self, leaves: list[Any]) -> list[Any]:
        """Add the arrays that the functions read from outside."""
        for arrays in self.outside:
            leaves += arrays()
        return leaves

    def put_back(self, leaves: list[Any], state: Tree) -> tuple[Tree, Tree]:
        """Give leaves their structure; where the old ones were written, the dict of the state is the old one, too."""
        new_params, new_state, _ = optree.tree_unflatten(self.tree, leaves[: self.tree.num_leaves])
        if not self.donate:
            return new_params, new_state
        state.update(new_state)
        return new_params, state

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

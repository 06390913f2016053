"""What an epoch is made of: rows in an order, how a batch is found among them, and what the batches give."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.api.trees import Tree, tree_map
from symgrad.errors import ArgumentError, ArgumentValueError, SymgradError
from symgrad.ops.arrays.indexing import batch_rows
from symgrad.trace import optree
from symgrad.trace.signature import leaf_spec, signature_of
from symgrad.trace.structures import flattened, is_pattern

NEARER = 1 << 20
"""Bytes of a batch up to which all of the next one is asked for: what a nearer cache holds. Chosen."""


class Batches:
    """The batches of an epoch, one after the other: which rows they are, and what they have given.

    Attributes:
        arrays: what the rows are of, as C reads it.
        order: the rows in the order in which they are taken; None takes each as it comes.
        total: how many are taken.
        given: what C is given for all batches: the arrays, and the order, by which it reads rows where they lie.
        count: how many batches there are; `done` of them have been taken.
    """

    def __init__(self, arrays: Any, batch: Any, order: Any) -> None:
        """Look at what an epoch is called with."""
        self.given = self.arrays = tree_map(_as_c_reads, arrays)
        shapes = [one.shape for one in flattened(self.arrays)[0]]
        if len({shape[0] for shape in shapes}) != 1:
            shown = ", ".join(map(str, shapes)) or "none"
            raise ArgumentValueError(f"epoch() of the shapes {shown}", instead="arrays with as many rows each")
        if not isinstance(batch, (int, np.integer)) or isinstance(batch, bool) or batch < 1:
            raise ArgumentValueError(f"epoch(batch={batch!r})", instead="a number of rows from 1 on")
        self.order = None if order is None else _ordered_rows(order, shapes[0][0])
        self.total, self._batch = shapes[0][0] if self.order is None else len(self.order), int(batch)
        if self.order is not None:  # behind the order, a batch of places that are asked for, and not read
            beyond = np.zeros(min(self._batch, self.total), np.int64)
            self.given = (*self.arrays, np.concatenate([self.order, beyond]))
        self.count, self.done = -(-self.total // self._batch), 0
        self._values, self._tree = flattened(np.empty(0))

    @property
    def rows(self) -> range:
        """Which rows of all that are taken are the next batch."""
        return range(self.done * self._batch, min((self.done + 1) * self._batch, self.total))

    def part(self) -> tuple[Any, ...]:
        """Return copies of the rows of the next batch: what is planned for them outlives the arrays."""
        rows = np.array(self.rows)
        rows = rows if self.order is None else self.order[rows]
        return tree_map(lambda array: array[rows], self.arrays)  # type: ignore[no-any-return]

    def sample(self) -> tuple[Any, ...]:
        """Return what C is given for the next batch, as if it were the only one."""
        if self.order is None:
            return self.part()
        size, width = len(self.rows), sum([one.nbytes // max(1, len(one)) for one in flattened(self.arrays)[0]])
        # A row is asked for a batch before it is read, or fewer rows where no cache holds one.
        ahead = size if size * width <= NEARER else max(1, NEARER // 2 // width)
        return (*self.part(), np.arange(size + ahead) % size)

    # -- what they give

    def room(self, leaves: Sequence[Any], tree: Any) -> list[Any]:
        """Return where the next batch, whose values are like these, puts them, and those after it theirs."""
        if not self.done:
            self._values, self._tree = [np.empty((self.count, *one.shape), one.dtype) for one in leaves], tree
        for array, one in zip(self._values, leaves, strict=True):
            if array.shape[1:] != one.shape:
                raise ArgumentValueError(
                    f"what the loss returns beside its value has shape {one.shape} here, and {array.shape[1:]} before: "
                    "that of an epoch is one array", instead="a number of rows that batches divide",
                )
        return [array[self.done :] for array in self._values]

    def put(self, value: Any) -> None:
        """Put the values of the next batch."""
        leaves, tree = flattened(value)
        for array, leaf in zip(self.room(leaves, tree), leaves, strict=True):
            array[0] = leaf
        self.done += 1

    def values(self) -> Any:
        """Return those of all batches until now, stacked."""
        return optree.tree_unflatten(self._tree, [array[: self.done] for array in self._values])

    def stopped(self, error: Any, params: Tree, state: Tree) -> Any:
        """Say which batch an error is of, and what was done until then: that is not lost."""
        if isinstance(error, SymgradError):
            error = type(error)(f"batch {self.done}: {error.what}", line=error.line, instead=error.instead)
        error.batch, error.params, error.state, error.values = self.done, params, state, self.values()
        return error


def _as_c_reads(array: Any) -> Any:
    """Return an array of an epoch row by row, aligned and in native byte order."""
    if is_pattern(array):
        raise ArgumentError(
            f"an epoch takes rows of arrays, and was given a {array.__class__.__name__}",
            instead="step(params, state, S[k : k + n], y[k : k + n]) for each batch, or S.toarray() of a small one",
        )
    if not np.ndim(array):
        raise ArgumentError(
            f"an epoch takes arrays with rows, and was given {array!r:.60}",
            instead="np.array(...) of a list of rows; a number that is the same for all batches is no argument of it",
        )
    native = leaf_spec(np.asanyarray(array), "x").dtype  # NumPy's own object, which C compares with; no mask is dropped
    return np.require(np.asarray(array), native, ["C", "A"]).view(native)


def _ordered_rows(order: Any, total: int) -> Any:
    """Return the rows in the order in which they are taken."""
    found = np.asarray(order)
    found = found if found.size else found.astype(np.int64)  # of []
    if found.ndim != 1 or found.dtype.kind not in "iu":
        what = f"is {found.dtype}{found.shape}, and no vector of integers"
    elif found.size and not 0 <= found.min() <= found.max() < total:
        k = int(np.argmax((found < 0) | (found >= total)))
        what = f"has {found[k]} at {k}, and rows are from 0 to {total - 1}"
    else:
        return np.array(found, np.int64)  # of its own: a donated array may be its memory
    mask = found.dtype.kind == "b"
    raise ArgumentValueError(
        f"epoch(order=...) {what}", instead="np.flatnonzero(mask)" if mask else f"rng.permutation({total})"
    )


_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD


def in_order(loss: Any) -> Callable[..., Any]:
    """Let a loss take its batch out of arrays: the last argument says where the rows stand.

    Its arguments have the loss's names, where these are as many as there can be.
    """
    def in_order(params: Tree, *given: Any) -> Any:
        *arrays, order = given
        return loss(params, *tree_map(lambda array: batch_rows(array, order), arrays))

    signature, own = inspect.signature(in_order), signature_of(loss)
    names = {} if own is None else dict(own.parameters)
    if names and all(p.kind is _PLAIN and p.default is p.empty for p in names.values()):
        order = next(name for name in ("order", "order_", "order__") if name not in names)
        signature = inspect.Signature([*names.values(), inspect.Parameter(order, _PLAIN)])
    functools.update_wrapper(in_order, loss)
    in_order.__signature__ = signature  # type: ignore[attr-defined]
    return in_order

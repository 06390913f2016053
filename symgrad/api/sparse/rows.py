"""`RowSparse`: some rows of an array of which the others are zero, as of the gradient by a table of embeddings.

It is NumPy throughout, so in a traced function it is compiled with what is around it. How many rows there are is then
not known: as many stand in memory as there may be, and a number says how many count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, DtypeError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ops.arrays.indexing import normal_index, scatter_add
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.updates import add_at, scatter_set
from symgrad.ops.declare.forms import INT, dims, is_traced, shape_of
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.creation import counting
from symgrad.trace.structures import patterned


class RowSparse:
    """Rows of an array that is zero elsewhere: what ``sg.grad(f, sparse=True)`` gives by what `f` takes rows of.

    Rows that are given for one index are added, in the order they are given: the same bits with any number of threads.

    Args:
        indices: integers, in any order, and as often as you like; negative ones count from the end.
        rows: a row for each, of the shape ``(len(indices), *shape[1:])``.
        shape: that of the whole array.

    Attributes:
        indices: int64, sorted, each once.
        rows: the row of each.
        count: how many there are.
        shape, dtype, ndim: those of the whole array.

    In a traced function the number of indices that differ is not known: there `indices` and `rows` are as long as what
    was given; behind the first `count`, the last index stands again (0 where there is none), with rows of zeros.

    Raises:
        DtypeError: indices are no integers.
        ShapeError: indices, rows and shape do not fit together.
        IndexError: an index is out of bounds.

    >>> import numpy as np, symgrad as sg
    >>> E, ids = np.ones((1000, 2)), np.array([7, 3, 7])
    >>> g = sg.grad(lambda E: np.sum(E[ids] ** 2), sparse=True)(E)
    >>> g
    RowSparse(2 rows of float64[1000,2])
    >>> g.indices, g.rows
    (array([3, 7]), array([[2., 2.],
           [4., 4.]]))
    >>> (g + g).rows[0], g.to_dense().shape
    (array([4., 4.]), (1000, 2))
    """

    __slots__ = ("_places", "_values", "count", "shape")
    __array_ufunc__ = None  # an array that meets it lets it answer

    def __init__(self, indices: Any, rows: Any, shape: Any) -> None:
        """Sort the indices and add what is given for the same ones."""
        indices, rows, shape = lift(settled(indices)), lift(settled(rows)), tuple(shape)
        if indices.ndim != 1 or not shape or shape_of(rows) != (*shape_of(indices), *dims(shape[1:])):
            raise ShapeError(
                f"RowSparse of indices {shapes.show(shape_of(indices))} and rows {shapes.show(shape_of(rows))}, of an "
                f"array {shapes.show(dims(shape))}", instead="indices (k,) and rows (k, *shape[1:])")
        indices = indices if is_traced(indices) or indices.size else indices.astype(INT)  # of []
        if indices.dtype.kind not in "iu":
            raise DtypeError(f"RowSparse of indices {indices.dtype}", instead="integers")
        self._values, self._places, self.count = _merged(normal_index(indices, extent=dims(shape[0])[0]), rows)
        self.shape = shape

    @classmethod
    def made(cls, rows: Any, indices: Any, count: Any, shape: Any) -> RowSparse:
        """Make it of what it holds: rows at sorted indices, and how many of them count."""
        one = object.__new__(cls)
        one._values, one._places, one.count, one.shape = rows, indices, count, shape
        return one

    @classmethod
    def added(cls, indices: Any, rows: Any, shape: Any) -> RowSparse:
        """Make it of rows for indices that are in bounds and count from the front; -1 is none, with zeros for a row."""
        return cls.made(*_merged(indices, rows), shape)

    def of_shape(self, shape: Any) -> RowSparse:
        """Return the same rows of an array of another shape."""
        return self.made(self._values, self._places, self.count, tuple(shape))

    @property
    def indices(self) -> Any:
        """The indices, sorted, each once."""
        return self._places if is_traced(self.count) else self._places[: self.count]

    @property
    def rows(self) -> Any:
        """A row for each index."""
        return self._values if is_traced(self.count) else self._values[: self.count]

    @property
    def dtype(self) -> Any:
        """That of the rows."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """How many axes the whole array has."""
        return len(self.shape)

    def to_dense(self) -> Any:
        """Return the whole array: zeros but for these rows."""
        return scatter_add(self._values, self._places, axes=(0,), shape=dims(self.shape))

    def map(self, function: Any) -> RowSparse:
        """Return what a function makes of all rows together, at the same indices."""
        made, there = function(self._values), _numbered_rows(self._places) < self.count
        zero = np.zeros((), made.dtype)
        rows = np.where(np.reshape(there, (-1, *[1] * (self.ndim - 1))), made, zero)
        return RowSparse.made(rows, self._places, self.count, self.shape)

    def updated(self, arrays: Any, step: Any, elsewhere: Any = None) -> tuple[Any, ...]:
        """Return arrays with what is made of these rows and of their own written into them.

        Args:
            arrays: of this shape each.
            step: ``step(rows, *rows of the arrays)`` gives new rows for each array.
            elsewhere: what the other rows of each are; if it is left out, they are as they were.
        """
        at, rows = self.indices, self.rows
        if is_traced(self.count):  # behind its end the last row stands again, and gives the same
            rows = rows[np.minimum(_numbered_rows(at), self.count - 1)]
        before = [x[at] for x in arrays]

        def written(x: Any, rest: Any, old: Any, new: Any) -> Any:
            if rest is x and new is old:
                return x
            new = np.where(self.count > 0, new, rest[at]) if is_traced(self.count) else new  # of no row the first stays
            return scatter_set(rest.astype(x.dtype), new.astype(x.dtype), at, axes=(0,), unique=False)

        return tuple(map(written, arrays, elsewhere or arrays, before, step(rows, *before)))

    def __repr__(self) -> str:
        kind = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return f"RowSparse({'some' if is_traced(self.count) else self.count} rows of {kind})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ArgumentError("a RowSparse is no array", line=user_line(),
                            instead="g.to_dense(), or g.indices and g.rows")

    # -- sums and multiples

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, RowSparse):
            return self.__radd__(other)
        if other.shape != self.shape:
            raise ShapeError(f"the sum of a RowSparse of {shapes.show(dims(self.shape))} and one of "
                             f"{shapes.show(dims(other.shape))}", line=user_line())
        rows, at = np.concatenate([self._values, other._values]), np.concatenate([self._there(), other._there()])
        return RowSparse.added(at, rows, self.shape)

    def _there(self) -> Any:
        """Return the indices, and -1 behind the first `count`."""
        return np.where(_numbered_rows(self._places) < self.count, self._places, -1)

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self  # with which sum() begins
        other = lift(settled(other))
        kind = np.result_type(other.dtype, self.dtype)
        whole = np.broadcast_to(other, self.shape).astype(kind)
        return add_at(whole, self._values.astype(kind), self._places, axes=(0,))

    def __mul__(self, factor: Any) -> Any:
        if isinstance(factor, RowSparse) or np.ndim(factor) != 0:
            raise ArgumentError("a RowSparse times an array", line=user_line(), instead="g.to_dense() * x")
        return self.map(lambda rows: rows * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        if isinstance(divisor, RowSparse) or np.ndim(divisor) != 0:
            raise ArgumentError("a RowSparse divided by an array", line=user_line(), instead="g.to_dense() / x")
        return self.map(lambda rows: rows / divisor)

    def __neg__(self) -> Any:
        return self.map(np.negative)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other


def _merged(at: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Add rows of equal indices: ``(rows, indices, count)``; zeros at the last index stand behind those that count.

    Zeros at the index -1 do not count. They come first, and are added to what stands last.
    """
    order = np.argsort(at, stable=True)
    at, each = at[order], _numbered_rows(at)
    new = ((at != at[np.maximum(each - 1, 0)]) | (each == 0)) & (at >= 0)
    place = np.cumsum(new) - 1
    last = np.broadcast_to(np.max(at, initial=0), at.shape)
    summed = scatter_add(rows[order], place, axes=(0,), shape=shape_of(rows))
    return summed, scatter_set(last, np.where(at < 0, last, at), place, axes=(0,), unique=False), np.sum(new)


def _numbered_rows(at: Any) -> Any:
    """Number the elements of a vector."""
    return counting(0, shape_of(at)[0], 1) if is_traced(at) else np.arange(at.shape[0])


def _row_sparse_apart(value: RowSparse) -> tuple[Any, Any, Any]:
    """Give its branches, rows first; extents that are not known are branches, too."""
    values, at, count = value._values, value._places, value.count  # noqa: SLF001 - it is made here
    open_ = [extent for extent in value.shape if is_traced(extent)]
    known = tuple([None if is_traced(extent) else extent for extent in value.shape])
    return [values, at, count, *open_], known, ("rows", "indices", "count", *[f"extent{k}" for k in range(len(open_))])


def _row_sparse_together(_: type, known: Any, branches: Any) -> Any:
    values, at, count, *rest = branches
    extents = [rest.pop(0) if extent is None else extent for extent in known]
    return RowSparse.made(values, at, count, tuple([one if is_traced(one) else int(one) for one in extents]))


patterned(lambda kind: kind is RowSparse, _row_sparse_apart, _row_sparse_together)

"""SciPy's sparse matrices in traced functions: by their elements, whose values have derivatives and whose places stay.

An argument is three arrays, as the matrix itself is: ``data``, and where it stands. In a traced function a `Matrix`
stands for it; outside, gradients by it and results are SciPy's own again, of its class, with the same places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ops.arrays.indexing import gather, scatter_add
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.updates import add_at
from symgrad.ops.declare.forms import INT, dims, shape_of
from symgrad.ops.linalg.sparse import segments, sparse_matmul
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.replaced import methods
from symgrad.trace.structures import is_sparse, patterned

_BRANCHES = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
_DOES = (
    "S @ W, W @ S, S.T, S * 2.0, S.multiply(B), S + B, S.sum(), S.mean(), S.trace(), S.diagonal(), S.toarray(), S.data"
)


class Matrix:
    """What stands for a sparse matrix in a traced function.

    Attributes:
        kind: SciPy's class.
        shape: as the matrix's.
        data: the elements' values.
        where: where they stand: ``(indices, indptr)`` or ``(row, col)``, as SciPy keeps them.
    """

    __slots__ = ("data", "kind", "shape", "where")
    __array_ufunc__ = None  # an array that meets it lets it answer
    __array_priority__ = 1001

    def __init__(self, kind: type, shape: tuple[int, ...], data: Any, *where: Any) -> None:
        """Stand for one of its elements."""
        self.kind, self.shape, self.data, self.where = kind, shape, data, where

    @property  # type: ignore[misc]  # what isinstance() sees
    def __class__(self) -> Any:
        return self.kind

    @property
    def format(self) -> str:
        """Its form: csr, csc or coo."""
        return _format(self.kind)

    @property
    def dtype(self) -> Any:
        """That of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def nnz(self) -> Any:
        """How many elements there are."""
        return self.data.shape[0]

    @property
    def coords(self) -> tuple[Any, ...]:
        """The row and the column of each element."""
        if self.format == "coo":
            return self.where
        indices, starts = self.where
        major = segments(starts, count=shape_of(indices)[0])
        return (major, indices) if self.format == "csr" else (indices, major)

    def __getattr__(self, name: str) -> Any:
        if name in _BRANCHES[self.format]:
            return self.where[_BRANCHES[self.format].index(name) - 1]
        if name[:2] == "__" or not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        raise _refused(self.kind, name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise _refused(self.kind, "__array__")

    def __repr__(self) -> str:
        return f"<traced {self.kind.__name__} of shape {self.shape} and dtype {self.dtype}>"

    def _of(self, data: Any) -> Matrix:
        return Matrix(self.kind, self.shape, data, *self.where)

    # -- products

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        other = settled(other)
        turned = np.transpose(lift(other)) if not isinstance(other, Matrix) else other
        return np.transpose(_product(self.T, turned))

    def dot(self, other: Any) -> Any:
        """As the matrix's own: a product, by a number a multiple."""
        return self.multiply(other) if _is_scalar(other) else self @ other

    def multiply(self, other: Any) -> Matrix:
        """Multiply each element by that of a dense array, or of one that is broadcast."""
        if _is_scalar(other):
            return self._of(self.data * other)
        other = _dense_matrix(self.kind, "multiply", other)
        own = (*[1] * (2 - other.ndim), *shape_of(other))
        if len(own) != 2 or any(have not in {1, want} for have, want in zip(own, self.shape, strict=True)):
            raise ShapeError(f"multiply: a matrix {self.shape} and an array {shapes.show(shape_of(other))}",
                             line=user_line())
        wide = [k for k in range(2) if own[k] != 1 or self.shape[k] == 1]
        picked = np.reshape(other, tuple([own[k] for k in wide]))
        if not wide:
            return self._of(self.data * picked)
        return self._of(self.data * gather(picked, *[self.coords[k] for k in wide], axes=tuple(range(len(wide)))))

    def __mul__(self, other: Any) -> Any:
        return self @ other if _is_matrix(self.kind) and not _is_scalar(other) else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        return other @ self if _is_matrix(self.kind) and not _is_scalar(other) else self.multiply(other)

    def __truediv__(self, other: Any) -> Matrix:
        return self.multiply(1.0 / lift(settled(other))) if not _is_scalar(other) else self._of(self.data / other)

    def __neg__(self) -> Matrix:
        return self._of(-self.data)

    def __pos__(self) -> Matrix:
        return self

    # -- sums

    def __add__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self
        other = self._as_array("+", _dense_matrix(self.kind, "+", other))
        if shape_of(other) != self.shape:
            raise ShapeError(f"the sum of a matrix {self.shape} and an array {shapes.show(shape_of(other))}",
                             line=user_line())
        kind = np.result_type(other.dtype, self.dtype)
        return add_at(other.astype(kind), self.data.astype(kind), *self.coords, axes=(0, 1))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -_dense_matrix(self.kind, "-", other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Sum all elements, or those of each column (0) or row (1)."""
        if dtype is not None or out is not None:
            raise _refused(self.kind, "sum(dtype=, out=)")
        if axis is None:
            return np.sum(self.data)
        if axis not in {0, 1, -1, -2}:
            raise ShapeError(f"sum(axis={axis!r}) of a matrix")
        k = 1 - axis % 2
        data = self._as_array("sum(axis=)", self.data)
        data = data if data.dtype.kind == "f" else data.astype(np.sum(np.zeros(1, data.dtype)).dtype)
        return scatter_add(data, self.coords[k], axes=(0,), shape=dims(self.shape[k]))

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Take the mean of all elements, zeros too, or of those of each column (0) or row (1)."""
        return self.sum(axis, dtype, out) / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis])

    def diagonal(self, k: int = 0) -> Any:
        """Return the elements of a diagonal."""
        row, column = [at.astype(INT) for at in self.coords]
        length = max(0, min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0)))
        if not length:
            return np.zeros(0, self.dtype)
        on = column - row == k
        at = np.where(on, np.minimum(row, column), 0)
        return scatter_add(np.where(on, self.data, np.zeros((), self.dtype)), at, axes=(0,), shape=(length,))

    def trace(self, offset: int = 0) -> Any:
        """Sum a diagonal."""
        return np.sum(self.diagonal(offset))

    # -- other forms

    @property
    def T(self) -> Matrix:  # noqa: N802 - NumPy's name
        """The transpose."""
        return self.transpose()

    def transpose(self, axes: Any = None, copy: bool = False) -> Matrix:
        """Swap rows and columns."""
        del copy
        if axes not in {None, (1, 0)}:
            raise ShapeError(f"transpose(axes={axes!r}) of a matrix")
        import scipy.sparse

        turned = {"csr": "csc", "csc": "csr", "coo": "coo"}[self.format]
        kind = getattr(scipy.sparse, f"{turned}_{'matrix' if _is_matrix(self.kind) else 'array'}")
        where = self.where[::-1] if self.format == "coo" else self.where
        return Matrix(kind, self.shape[::-1], self.data, *where)

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """Return the dense array, which has all the zeros."""
        del order
        if out is not None:
            raise _refused(self.kind, "toarray(out=)")
        return scatter_add(self.data, *self.coords, axes=(0, 1), shape=self.shape)

    def todense(self) -> Any:
        """Return the dense array."""
        return self._as_array("todense()", self).toarray()

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Matrix:
        """Give the elements another type."""
        del casting, copy
        return self._of(self.data.astype(dtype))

    def copy(self) -> Matrix:
        """Return the same matrix: nothing is written into one."""
        return self

    def _as_array(self, what: str, value: Any) -> Any:
        """Return a value that of a csr_array is an array, and of a csr_matrix an `np.matrix`, which is refused."""
        if _is_matrix(self.kind):
            raise UnsupportedError(
                f"{what} of a {self.kind.__name__} gives an np.matrix, whose * is a product of matrices",
                line=user_line(), instead=f"scipy.sparse.{self.format}_array(S), whose sums are arrays")
        return value


def _refused_method(name: str) -> Any:
    def refuse(self: Matrix, *_: Any) -> Any:
        raise _refused(self.kind, name)

    return refuse


for _name in ("abs", "bool", "eq", "float", "ge", "getitem", "gt", "iter", "le", "len", "lt", "ne", "pow", "rtruediv",
              "setitem"):
    setattr(Matrix, f"__{_name}__", _refused_method(f"__{_name}__"))


def _format(kind: type) -> str:
    return kind.__name__[:3]


def _is_matrix(kind: type) -> bool:
    return kind.__name__.endswith("matrix")


def _is_scalar(value: Any) -> bool:
    return not is_sparse(type(value)) and type(value) is not Matrix and np.ndim(settled(value)) == 0


_SIGNS = {
    "matmul": "@", "mul": "*", "add": "+", "sub": "-", "truediv": "/", "pow": "**", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=",
}


def _spelled(kind: type, name: str) -> str:
    """Name a method of a matrix's class, an operator by its sign."""
    own, said = name.strip("_"), f"scipy.sparse.{kind.__name__}"
    sign = _SIGNS.get(own, _SIGNS.get(own[1:])) if name.startswith("__") else None
    if sign is None:
        return f"{said}.{name}"
    return f"{said} {sign} x" if own in _SIGNS else f"x {sign} {said}"


def _refused(kind: type, name: str) -> UnsupportedError:
    return UnsupportedError(f"{_spelled(kind, name)} has no answer for traced values", line=user_line(),
                            instead=f"one of {_DOES}; {'' if _is_matrix_class(kind) else 'S.tocsr() outside; '}"
                            "S.toarray() for a small one")


def _dense_matrix(kind: type, name: str, value: Any) -> Any:
    """Return a dense operand; two sparse ones would give a pattern that is not known."""
    value = settled(value)
    if type(value) is Matrix or is_sparse(type(value)):
        raise _refused(kind, f"{name} of two sparse matrices")
    return lift(value)


def _product(matrix: Matrix, other: Any) -> Any:
    other = _dense_matrix(matrix.kind, "@", other)
    if other.ndim not in {1, 2} or shape_of(other)[0] != matrix.shape[1]:
        raise ShapeError(f"matmul: a matrix {matrix.shape} and an array {shapes.show(shape_of(other))}",
                         line=user_line())
    kind = np.result_type(matrix.dtype, other.dtype)
    return sparse_matmul(matrix.data.astype(kind), *matrix.coords, other.astype(kind), rows=matrix.shape[0])


# -- as arguments and results, and where a matrix from outside meets a traced value


def _is_matrix_class(kind: type) -> bool:
    return kind is Matrix or (is_sparse(kind) and _format(kind) in _BRANCHES)


def _matrix_apart(value: Any) -> tuple[Any, Any, Any]:
    traced = type(value) is Matrix
    if len(value.shape) != 2:
        raise ArgumentError(f"a sparse array of shape {value.shape}: symgrad knows matrices")
    names = _BRANCHES[_format(value.kind if traced else type(value))]
    parts = [value.data, *value.where] if traced else [getattr(value, name) for name in names]
    return parts, (value.kind if traced else type(value), value.shape), names


def _matrix_together(_: type, known: Any, branches: Any) -> Any:
    kind, shape = known
    if any(type(part) is not np.ndarray for part in branches):
        return Matrix(kind, shape, *branches)
    data, *where = branches
    return kind((data, tuple(where)) if _format(kind) == "coo" else (data, *where), shape=shape)


def _met(name: str, matrix: Any, *args: Any, **kwargs: Any) -> Any:
    """Answer a method of a matrix from outside that is given a traced value."""
    if not _is_matrix_class(type(matrix)) or not hasattr(Matrix, name):
        raise _refused(type(matrix), name)
    parts, (kind, shape), _ = _matrix_apart(matrix)
    return getattr(Matrix(kind, shape, *parts), name)(*args, **kwargs)


patterned(_is_matrix_class, _matrix_apart, _matrix_together)
methods("scipy.sparse", ("_base", "_compressed", "_coo", "_csc", "_csr", "_data", "_matrix"), (
    "__add__", "__matmul__", "__mul__", "__radd__", "__rmatmul__", "__rmul__", "__rsub__", "__sub__", "__truediv__",
    "dot", "multiply",
), _met)

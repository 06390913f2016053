"""Index notation, evaluated point by point in plain Python: what a body means, without any loop machinery."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.evaluate import concrete
from symgrad.ir.index.notation import Access, Apply, Axis, IndexValue, Lookup, Number, rebuilt
from symgrad.ops import OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.ir.index.notation import Body, Statement
    from symgrad.ir.node import Node

Array = np.ndarray[Any, Any]
ACCUMULATE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda _old, new: new, "+=": np.add, "*=": np.multiply, "max=": np.maximum, "min=": np.minimum,
    "|=": np.logical_or, "&=": np.logical_and,
}


def _solved(triangle: Array, x: Array, upper: int, unit: int) -> Array:
    triangle = np.triu(triangle) if upper else np.tril(triangle)
    return np.linalg.solve(triangle - unit * np.diag(np.diag(triangle) - 1), x)


ROUTINES: dict[str, Callable[..., Array]] = {
    "sg_cholesky": lambda _, a: np.linalg.cholesky(a),
    "sg_cholesky_pullback": lambda low, g: OPS["cholesky_pullback"].evaluate(np.tril(low), g),
    "sg_cholesky_pushforward": lambda low, a: OPS["cholesky_pushforward"].evaluate(np.tril(low), a),
    "sg_symmetric_product": lambda x, w: OPS["symmetric_product"].evaluate(w, x),
    "sg_solve": _solved,
    "sg_lu": lambda _, a: OPS["lu"].evaluate(a[:-1]),
    "sg_lu_solve": lambda lu, x, trans: OPS["lu_solve"].evaluate(lu[:-1], lu, x, trans=trans, checked=False),
    "sg_pivots": lambda _, a: np.concatenate([a[:-3], OPS["pivot_order"].evaluate(a[:-5])]),
    "sg_argsort": lambda _, a: np.stack([a[0], a[0], np.argsort(a[0], kind="stable"), a[0]]),
    "sg_searchsorted": lambda a, v, right: np.asarray(np.searchsorted(a, v, "right" if right else "left")),
    "sg_eigh": lambda a, t: np.concatenate([OPS["eigh"].evaluate(a), t[-3:]]),
    "sg_svd": lambda a, t: np.concatenate([OPS["svd"].evaluate(a), t[-3:]]),
    "sg_eigh_divided": lambda a, t, _: np.concatenate([OPS["eigh"].evaluate(a), t[len(a) :]]),
    "sg_svd_divided": lambda a, t, _: np.concatenate([OPS["svd"].evaluate(a), t[min(a.shape) :]]),
    "sg_orthonormal": lambda a, t, complete: np.concatenate([OPS["orthonormal"].evaluate(a, complete).T, t[-3:]]),
    "sg_cofactors": lambda _, a: np.concatenate([OPS["cofactors"].evaluate(a[:-4], None), a[-4:]]),
}
"""What each routine makes of the matrix that it reads and the one that it writes."""


def run(body: Body, node: Node, operands: Sequence[Any], dims: dict[Any, int]) -> Array:
    """Execute the statements of a node's body on arrays; what no statement writes keeps a number nobody expects."""
    arrays: dict[int, Array] = {k: np.asarray(x) for k, x in enumerate(operands)}
    arrays[-1] = np.full(concrete(node.shape, dims), 77, node.dtype)
    for k, temporary in enumerate(body.temporaries):
        arrays[-2 - k] = np.full(concrete(temporary.shape, dims), 77, temporary.dtype)
    for group in _together(body.statements):
        axes = group[0].axes
        for point in product(*[range(concrete(axis.extent, dims)) for axis in axes]):
            at = dict(zip(axes, point, strict=True))
            for statement in group:
                _execute(statement, arrays, at, dims)
    return arrays[-1]


def _together(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Group statements that read running values with the one that makes them: they run point by point together."""
    groups: list[list[Statement]] = []
    for statement in statements:
        running = {s.target.array for s in groups[-1]} & statement.prefix if groups else set()
        if running and groups[-1][0].axes == statement.axes:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _execute(statement: Statement, arrays: dict[int, Array], at: dict[Axis, int], dims: dict[Any, int]) -> None:
    target = statement.target
    if statement.how == "check":
        assert _value(statement.value, arrays, at, dims) == 0
        return
    if statement.routine is not None:
        read: Any = statement.value
        found, here = [_walked(a, statement, arrays, at, dims) for a in (read, target)]
        made = ROUTINES[statement.routine.name]
        arrays[target.array][here] = made(
            arrays[read.array][found].copy(), arrays[target.array][here].copy(), *statement.routine.flags)
        return
    assert not target.flat, "targets are written by indices"
    array = arrays[target.array]
    where = _place(target, array.shape, arrays, at, dims)
    array[where] = ACCUMULATE[statement.how](array[where], _value(statement.value, arrays, at, dims))


def _walked(
    access: Access, statement: Statement, arrays: dict[int, Array], at: dict[Axis, int], dims: dict[Any, int],
) -> tuple[Any, ...]:
    """Return where what a routine walks stands, at one point of the statement's axes."""
    routine: Any = statement.routine
    return tuple([slice(None) if i in routine.axes else _index(i, arrays, at, dims) for i in access.indices])


def _place(
    access: Access, shape: tuple[int, ...], arrays: dict[int, Array], at: dict[Axis, int], dims: dict[Any, int],
) -> Any:
    """Evaluate the indices of an access; each must lie in its array."""
    indices = tuple([_index(i, arrays, at, dims) for i in access.indices])
    extents = (int(np.prod(shape)),) if access.flat else shape
    assert len(indices) == len(extents), f"{len(indices)} indices for the shape {shape}"
    for index, extent in zip(indices, extents, strict=True):
        assert 0 <= index < extent, f"the index {indices} leaves the shape {extents}"
    return indices


def _index(index: Any, arrays: dict[int, Array], at: dict[Axis, int], dims: dict[Any, int]) -> int:
    if isinstance(index, int):
        return index
    if isinstance(index, Axis):
        return at[index]
    if isinstance(index, Lookup):
        found, extent = int(_value(index.access, arrays, at, dims)), int(concrete(index.extent, dims))
        if not -extent <= found < extent:
            raise IndexError(f"{found} is out of bounds for {extent}")
        return found % extent
    found = rebuilt(index, lambda part: _index(part, arrays, at, dims))
    return found if type(found) is int else int(found.xreplace(dims))


def _value(value: Any, arrays: dict[int, Array], at: dict[Axis, int], dims: dict[Any, int]) -> Any:
    if isinstance(value, Access):
        array = arrays[value.array]
        where = _place(value, array.shape, arrays, at, dims)
        return array.reshape(-1)[where] if value.flat else array[where]
    if isinstance(value, Number):
        return np.asarray(value.value, value.dtype)[()]
    if isinstance(value, IndexValue):
        return np.asarray(_index(value.index, arrays, at, dims), value.dtype)[()]
    assert isinstance(value, Apply)
    args = [_value(arg, arrays, at, dims) for arg in value.args]
    params = dict(zip(value.op.params, value.params, strict=True))
    return np.asarray(value.op.evaluate(*args, **params), value.dtype)[()]

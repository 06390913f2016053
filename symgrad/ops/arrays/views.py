"""Array manipulation: the same elements in another order or shape, and the adjoints of that."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.index import regions, shapes
from symgrad.ir.index.notation import Access, Body, How, IndexValue, Number, Statement, axes_of
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ir.text import show
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import BOOL, INT, OPS, apply, shape_of, structured

X, OUT = 0, -1


def copy_body(node: Node, source: Any) -> Body:
    """``T[i...] = A[source(i...)]``: the body of every view."""
    axes = axes_of(node.shape)
    return Body((Statement(Access(OUT, axes), How.SET, Access(X, tuple(source(*axes))), axes, node.line),))


def put_body(node: Node, base: int | None, how: How, *parts: tuple[int, Callable[..., Any]]) -> Body:
    """``T[i...] = base[i...]``, or zeros, then ``T[target(j...)] how A[j...]`` for some operands."""
    axes = axes_of(node.shape)
    first = Number(0, node.dtype) if base is None else Access(base, axes)
    statements = [Statement(Access(OUT, axes), How.SET, first, axes, node.line)]
    for k, target in parts:
        part = axes_of(node.inputs[k].shape)
        statements.append(Statement(Access(OUT, tuple(target(*part))), how, Access(k, part), part, node.line))
    return Body(tuple(statements))


# -- shape


def _reshape_infer(x: Node, shape: Shape) -> tuple[Shape, Any]:
    left: Any = shapes.simplified(shapes.size(x.shape) - shapes.size(shape))
    if left != 0 and (type(left) is int or left.expand() != 0):  # n*(k + m), and k*n + m*n
        raise ShapeError(f"cannot reshape {shapes.show(x.shape)} into {shapes.show(shape)}: the sizes differ")
    return shape, x.dtype


def _reshape_body(node: Node) -> Body:
    axes = axes_of(node.shape)
    flat: Any = 0
    for axis, step in zip(axes, shapes.strides(node.shape), strict=True):
        flat = axis * step + flat if step != 0 else flat
    return Body((Statement(Access(OUT, axes), How.SET, Access(X, (flat,), flat=True), axes, node.line),))


reshape = structured(
    name="reshape", params=("shape",), infer=_reshape_infer, evaluate=lambda x, shape: np.reshape(x, shape),  # noqa: PLW0108 - NumPy 2.0 calls it newshape
    body=_reshape_body, view=True, whole=True, ordered=True, copies=True,
    vjp=lambda g, y, x, shape: OPS["reshape"](g, shape=shape_of(x)),
    text=lambda node, names: f"np.reshape({names[0]}, {show(node.params[0])})",
    sample=(case(lambda a: np.reshape(a, (4, 3)), (3, 4)), case(lambda a: np.ravel(a) * 2, (2, 3)),
            case(lambda a: (a * 2).reshape(2, 2, 3) ** 2, (3, 4))),
    edges=(case(lambda a: np.reshape(a, (0, 7)), (3, 0)),),
)


def inverse_order(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of axes that undoes one."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


transpose = structured(
    name="transpose", params=("axes",), evaluate=np.transpose,
    infer=lambda x, axes: (tuple([x.shape[a] for a in axes]), x.dtype),
    body=lambda node: copy_body(node, lambda *i: [i[k] for k in inverse_order(node.params[0])]),
    view=True, whole=True, vjp=lambda g, y, x, axes: OPS["transpose"](g, axes=inverse_order(axes)),
    batched=lambda size, axes: {"axes": (0, *[a + 1 for a in axes])},
    text=lambda node, names: f"np.transpose({names[0]}, {node.params[0]})",
    sample=(case(lambda a: np.transpose(a, (1, 2, 0)) ** 2, (2, 3, 4)), case(lambda a: a.T @ a, (3, 2)),
            case(lambda a: np.moveaxis(np.swapaxes(a, 0, 2), 0, 1) ** 2, (2, 3, 4))),
    edges=(case(np.transpose, ()), case(np.transpose, (0, 3))),
)


def _broadcast_infer(x: Node, shape: Shape) -> tuple[Shape, Any]:
    if len(x.shape) > len(shape) or shapes.broadcast(x.shape, shape) != shape:
        raise ShapeError(f"cannot broadcast {shapes.show(x.shape)} to {shapes.show(shape)}")
    return shape, x.dtype


def broadcast_index(shape: Shape, wide: Shape, axes: tuple[Any, ...]) -> list[Any]:
    """Return the element of an array for an element of the shape that it is broadcast to."""
    lead = len(wide) - len(shape)
    return [0 if d == 1 and wide[k] != 1 else axes[k] for k, d in enumerate(shape, lead)]


broadcast_to = structured(
    name="broadcast_to", params=("shape",), infer=_broadcast_infer, evaluate=np.broadcast_to,
    body=lambda node: copy_body(node, lambda *i: broadcast_index(node.inputs[0].shape, node.shape, i)),
    view=True, whole=True, repeats=True, aligned=True, vjp=lambda g, y, x, shape: unbroadcast(g, shape_of(x)),
    text=lambda node, names: f"np.broadcast_to({names[0]}, {show(node.params[0])})",
    sample=(case(lambda a: np.broadcast_to(a, (2, 3)) ** 2, (3,)),
            case(lambda a: np.broadcast_to(a, (2, 4, 3)) ** 2, (2, 1, 3))),
    edges=(case(lambda a: np.broadcast_to(a, (0, 3)), (1, 3)),),
)


def unbroadcast(g: Any, shape: tuple[Any, ...]) -> Any:
    """Sum a cotangent over the axes its primal was stretched along."""
    have = shape_of(g)
    if have == shape:
        return g
    lead = len(have) - len(shape)
    ones = tuple([k + lead for k, d in enumerate(shape) if d == 1 and have[k + lead] != 1])
    summed = OPS["sum"](g, axes=(*range(lead), *ones))
    return OPS["expand_dims"](summed, axes=tuple([k - lead for k in ones])) if ones else summed


def _with_number_at(rest: Any, axes: tuple[int, ...], filling: int) -> tuple[Any, ...]:
    """Put a number at some axes, and the others in order around it."""
    others = iter(rest)
    return tuple([filling if k in axes else next(others) for k in range(len(rest) + len(axes))])


expand_dims = structured(
    name="expand_dims", params=("axes",), evaluate=lambda x, axes: np.expand_dims(x, axis=axes),
    infer=lambda x, axes: (_with_number_at(x.shape, axes, 1), x.dtype),
    body=lambda node: copy_body(node, lambda *i: shapes.without(i, node.params[0])),
    view=True, whole=True, ordered=True, vjp=lambda g, y, x, axes: OPS["squeeze"](g, axes=axes),
    text=lambda node, names: f"np.expand_dims({names[0]}, {node.params[0]})",
    sample=(case(lambda a: np.expand_dims(a, (0, 2)) ** 2, (2, 3)), case(lambda a: a[:, None] * a[None, :], (3,))),
    edges=(case(lambda a: np.expand_dims(a, 0), ()),),
)


def _squeeze_infer(x: Node, axes: tuple[int, ...]) -> tuple[Shape, Any]:
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError(f"cannot squeeze axes {axes} of {shapes.show(x.shape)}: not all have extent 1")
    return shapes.without(x.shape, axes), x.dtype


squeeze = structured(
    name="squeeze", params=("axes",), infer=_squeeze_infer, evaluate=lambda x, axes: np.squeeze(x, axis=axes),
    body=lambda node: copy_body(node, lambda *i: _with_number_at(i, node.params[0], 0)),
    view=True, whole=True, ordered=True, vjp=lambda g, y, x, axes: OPS["expand_dims"](g, axes=axes),
    text=lambda node, names: f"np.squeeze({names[0]}, {node.params[0]})",
    sample=(case(lambda a: np.squeeze(a, 1) ** 2, (2, 1, 3)), case(lambda a: np.squeeze(a) ** 2, (1, 2, 1))),
    edges=(case(np.squeeze, (1, 0)),),
)


# -- slices: (start, count, step) or (position,) for each axis


def sliced(x: Any, axis: int, start: Any, count: Any, step: int = 1) -> Any:
    """Slice one axis by start, count and step."""
    index = [*regions.whole(shape_of(x))]
    index[axis] = (shapes.simplified(start), shapes.simplified(count), step)
    return OPS["slice"](x, index=tuple(index))


def flipped(x: Any, axes: tuple[int, ...]) -> Any:
    """Reverse axes."""
    index = [(shapes.simplified(d - 1), d, -1) if k in axes else (0, d, 1) for k, d in enumerate(shape_of(x))]
    return OPS["slice"](x, index=tuple(index))


def slice_shape(index: Any) -> Shape:
    """Return the shape of a slice."""
    return tuple([p[1] for p in index if len(p) == 3])


def _slice_infer(x: Node, index: Any) -> tuple[Shape, Any]:
    if len(index) != len(x.shape):
        raise ShapeError(f"a slice of {len(index)} axes for {shapes.show(x.shape)}")
    return slice_shape(index), x.dtype


def as_slices(index: Any) -> tuple[Any, ...]:
    """Write an index of ranges and positions as Python slices."""

    def one(start: int, count: int, step: int) -> slice:
        stop = start + count * step
        return slice(start, None if stop < 0 else stop, step) if count > 0 else slice(0, 0)

    return tuple([p[0] if len(p) == 1 else one(*p) for p in index])


def source_index(index: Any, axes: tuple[Any, ...]) -> list[Any]:
    """Return the elements a slice takes, in the array it is taken from."""
    rest = iter(axes)
    return [p[0] if len(p) == 1 else next(rest) * p[2] + p[0] for p in index]


def _slice_text(node: Node, names: list[str]) -> str:
    index, parts = node.params[0], []
    if not regions.is_known(index) or any(len(entry) == 3 and entry[1] <= 0 for entry in index):
        return f"ops.slice({names[0]}, index={show(index)})"  # it does not read the same in Python's syntax
    for start, *others in index:
        if not others:
            parts.append(str(start))
            continue
        count, step = others
        stop = start + count * step
        parts.append(f"{start}:{stop if step > 0 or stop >= 0 else ''}" + (f":{step}" if step != 1 else ""))
    return f"{names[0]}[{', '.join(parts) or '()'}]"


def _rows(node: Node) -> Any:
    """Return which row is taken, of ``x[3]``, or which ones, of ``x[1:9:2]``."""
    index: Any = node.param("index")
    if not index or index[1:] != regions.whole(node.inputs[X].shape[1:]) or {*map(type, index[0])} != {int}:
        return None
    start, *more = index[0]
    return start + more[1] * np.arange(more[0]) if more else start


slice_ = structured(
    name="slice", params=("index",), infer=_slice_infer, evaluate=lambda x, index: x[as_slices(index)],
    body=lambda node: copy_body(node, lambda *i: source_index(node.params[0], i)),
    view=True, vjp=lambda g, y, x, index: OPS["place"](g, indices=(index,), shape=shape_of(x)),
    put=lambda x, value, index: OPS["set_slice"](x, value, index=index), text=_slice_text,
    rows=_rows,
    sample=(case(lambda a: a[1:, ::2] ** 2, (4, 5)), case(lambda a: a[-1, ::-1] ** 3, (3, 4)),
            case(lambda a: (a[1:] - a[:-1]) ** 2, (6,)), case(lambda a: np.flip(a, 0) * a, (3, 2)),
            case(lambda a: a[1] * a[2] ** 2, (3, 4))),
    edges=(case(lambda a: a[5:], (3,)), case(lambda a: a[3:1] * 2, (4,)), case(lambda a: a[::-3], (7,))),
)


def _place_infer(*gs: Node, indices: Any, shape: Shape) -> tuple[Shape, Any]:
    for g, index in zip(gs, indices, strict=True):
        if g.shape != slice_shape(index):
            raise ShapeError(f"cannot place {shapes.show(g.shape)} at {index}")
    return shape, gs[0].dtype


def _place_value(*gs: Any, indices: Any, shape: Any) -> Any:
    out = np.zeros(shape, np.asarray(gs[0]).dtype)
    for g, index in zip(gs, indices, strict=True):
        out[as_slices(index)] += g
    return out


FEW = 16
"""So many regions are compared, each with each."""


def adding(dtype: np.dtype[Any]) -> How:
    """Return how values of a dtype are accumulated."""
    return How.OR if dtype.kind == "b" else How.ADD


def _place_body(node: Node) -> Body:
    """Where no two regions share an element, for sure, each is written; elsewhere they are added."""
    indices = node.params[0]
    few = len(indices) <= FEW and all(map(regions.is_known, indices))
    apart = len(indices) == 1 or (few and all(regions.disjoint(a, b) for a, b in combinations(indices, 2)))
    parts = [(k, lambda *i, index=index: source_index(index, i)) for k, index in enumerate(indices)]
    return put_body(node, None, How.SET if apart else adding(node.dtype), *parts)


place = structured(
    name="place", params=("indices", "shape"), infer=_place_infer, evaluate=_place_value, body=_place_body,
    vjp=lambda g, y, *gs, indices, shape: tuple([OPS["slice"](g, index=index) for index in indices]), moves=True,
    sample=(case(lambda a: OPS["place"](a, indices=(((1, 2, 1), (0, 2, 2)),), shape=(4, 4)) ** 2, (2, 2)),
            case(lambda a, b: OPS["place"](a, b, indices=(((0, 2, 1),), ((3, 3, -1),)), shape=(4,)) ** 2, (2,), (3,))),
    edges=(case(lambda a: OPS["place"](a, indices=(((1, 0, 1),),), shape=(4,)), (0,)),),
    doc="Zeros with arrays added into slices of them: the adjoint of slices.",
)


def placed_in(g: Any) -> list[Any]:
    """Return, for each axis, the range outside of which a cotangent is known to be zero; None where there is none."""
    nothing = [None] * len(g.shape)
    node = getattr(g, "node", None)
    if node is None or node.op is not place or not all(regions.is_known(i) for i in node.params[0]):
        return nothing
    indices = [index for index in node.params[0] if regions.count(index)]
    if not indices:
        return nothing
    ranges = [regions.hull([index[axis] for index in indices]) for axis in range(len(node.shape))]
    return [None if r == (0, dim, 1) else r for r, dim in zip(ranges, node.shape, strict=True)]


def with_slices_shape(x: Node, *values: Node, indices: Any) -> tuple[Shape, Any]:
    """Return shape and dtype of an array with slices of it replaced."""
    for value, index in zip(values, indices, strict=True):
        if len(index) != len(x.shape) or value.shape != slice_shape(index) or value.dtype != x.dtype:
            raise ShapeError(f"cannot store {value.dtype}{shapes.show(value.shape)} at {index} of {x.dtype}{x.shape}")
    return x.shape, x.dtype


def with_slices(x: Any, *values: Any, indices: Any) -> Any:
    """Return an array with slices of it replaced."""
    out = np.array(x)
    for value, index in zip(values, indices, strict=True):
        out[as_slices(index)] = value
    return out


def zeros_of(g: Any) -> Any:
    """Return zeros in the place of a traced value: what is made of numbers alone would be an array of them."""
    return np.where(np.False_, g, np.zeros((), g.dtype))


set_slice = structured(
    name="set_slice", params=("index",), infer=lambda x, value, index: with_slices_shape(x, value, indices=(index,)),
    evaluate=lambda x, value, index: with_slices(x, value, indices=(index,)), moves=True,
    vjp=lambda g, y, x, value, index: (
        OPS["set_slice"](g, zeros_of(part := OPS["slice"](g, index=index)), index=index), part),
    body=lambda node: put_body(node, X, How.SET, (1, lambda *i: source_index(node.params[0], i))),
    sample=(case(lambda a, b: OPS["set_slice"](a, b, index=((1, 2, 1), (3,))) ** 2, (4, 4), (2,)),),
    edges=(case(lambda a, b: OPS["set_slice"](a, b, index=((4, 0, 1),)), (4,), (0,)),),
    doc="An array with a slice of it replaced: what ``x[index] = value`` leaves in x.",
)


# -- diagonals, triangles


def diagonal_length(rows: Any, columns: Any, offset: int) -> Any:
    """Count the elements of a diagonal."""
    rows, columns = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    if type(rows) is int and type(columns) is int:
        return max(0, min(rows, columns))
    import sympy

    return shapes.simplified(sympy.Max(0, sympy.Min(rows, columns)))


def _diagonal_access(lead: tuple[Any, ...], k: Any, offset: int) -> tuple[Any, ...]:
    return (*lead, k + max(0, -offset), k + max(0, offset))


diagonal = structured(
    name="diagonal", params=("offset",), evaluate=lambda x, offset: np.diagonal(x, offset, -2, -1),
    infer=lambda x, offset: ((*x.shape[:-2], diagonal_length(x.shape[-2], x.shape[-1], offset)), x.dtype),
    body=lambda node: copy_body(node, lambda *i: _diagonal_access(i[:-1], i[-1], node.params[0])), view=True,
    vjp=lambda g, y, x, offset: OPS["embed_diagonal"](g, offset=offset, shape=shape_of(x)[-2:]),
    sample=(case(lambda a: np.diagonal(a, 1) ** 2, (3, 4)), case(lambda a: np.trace(a) ** 2, (3, 3)),
            case(lambda a: np.diag(a, -1) ** 2, (3, 4))),
    edges=(case(lambda a: np.diagonal(a, 9), (3, 4)),),
    doc="A diagonal of the last two axes.",
)


def _embed_value(x: Any, offset: int, shape: Any) -> Any:
    out = np.zeros((*x.shape[:-1], *shape), x.dtype)
    out[_diagonal_access((...,), np.arange(x.shape[-1]), offset)] = x
    return out


embed_diagonal = structured(
    name="embed_diagonal", params=("offset", "shape"), evaluate=_embed_value, moves=True,
    infer=lambda x, offset, shape: ((*x.shape[:-1], *shape), x.dtype),
    body=lambda node: put_body(node, None, How.SET, (X, lambda *i: _diagonal_access(i[:-1], i[-1], node.params[0]))),
    vjp=lambda g, y, x, offset, shape: OPS["diagonal"](g, offset=offset),
    batched=lambda size, **params: params,  # the shape is that of the last two axes
    sample=(case(lambda a: np.diag(a, 1) @ np.diag(a, 1), (3,)),), edges=(case(np.diag, (0,)),),
    doc="Zeros with a diagonal of the last two axes filled: the adjoint of diagonal.",
)


def _triangle_body(node: Node) -> Body:
    axes = axes_of(node.shape)
    upper, k = node.params
    pair = IndexValue(axes[-2] + k, INT), IndexValue(axes[-1], INT)
    inside = apply("less_equal" if upper else "greater_equal", INT, *pair, dtype=BOOL)
    kept = apply("where", node.dtype, inside, Access(X, axes), Number(0, node.dtype))
    return Body((Statement(Access(OUT, axes), How.SET, kept, axes, node.line),))


triangle = structured(
    name="triangle", params=("upper", "k"), infer=lambda x, upper, k: (x.shape, x.dtype),
    evaluate=lambda x, upper, k: np.triu(x, k) if upper else np.tril(x, k), body=_triangle_body,
    vjp=lambda g, y, x, upper, k: OPS["triangle"](g, upper=upper, k=k), moves=True,
    text=lambda node, names: f"np.{'triu' if node.params[0] else 'tril'}({names[0]}, {node.params[1]})",
    sample=(case(lambda a: np.tril(a) ** 2, (3, 4)),
            case(lambda a: np.triu(a, 1) @ np.swapaxes(np.triu(a, -1), 1, 2), (2, 3, 3))),
    edges=(case(lambda a: np.tril(a, -5), (3, 3)), case(np.triu, (0, 2))),
    doc="The lower or upper triangle of the last two axes, zeros elsewhere.",
)

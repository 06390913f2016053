"""Array manipulation: the same elements in another order or shape, and the adjoints of that."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir import regions, shapes
from symgrad.ir.notation import Access, Apply, Body, IndexValue, Number, Statement, axes_of
from symgrad.ir.text import show
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, shape_of, structured

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Shape

X, OUT = 0, -1


def copy_body(node: Node, source: Any) -> Body:
    """``T[i...] = A[source(i...)]``: the body of every view."""
    axes = axes_of(node.shape)
    return Body((Statement(Access(OUT, axes), "=", Access(X, tuple(source(*axes))), axes, node.line),))


# -- shape


def _reshape_infer(x: Node, shape: Shape) -> tuple[Shape, Any]:
    if shapes.simplified(shapes.size(x.shape) - shapes.size(shape)) != 0:
        raise ShapeError(f"cannot reshape {shapes.show(x.shape)} into {shapes.show(shape)}: the sizes differ")
    return shape, x.dtype


def _reshape_body(node: Node) -> Body:
    axes = axes_of(node.shape)
    flat: Any = 0
    for axis, step in zip(axes, shapes.strides(node.shape), strict=True):
        flat = axis * step + flat if step != 0 else flat
    return Body((Statement(Access(OUT, axes), "=", Access(X, (flat,), flat=True), axes, node.line),))


reshape = structured(
    name="reshape", params=("shape",), infer=_reshape_infer, evaluate=lambda x, shape: np.reshape(x, shape),  # noqa: PLW0108 - NumPy 2.0 calls it newshape
    body=_reshape_body, view=True, whole=True, ordered=True, copies=True,
    vjp=lambda g, y, x, shape: OPS["reshape"](g, shape=shape_of(x)),  # noqa: ARG005
    text=lambda node, names: f"np.reshape({names[0]}, {show(node.params[0])})",
    sample=(case(lambda a: np.reshape(a, (4, 3)), (3, 4)), case(lambda a: np.ravel(a) * 2, (2, 3)),
            case(lambda a: (a * 2).reshape(2, 2, 3) ** 2, (3, 4))),
    edges=(case(lambda a: np.reshape(a, (0, 7)), (3, 0)),),
)


def _transpose_infer(x: Node, axes: tuple[int, ...]) -> tuple[Shape, Any]:
    return tuple([x.shape[a] for a in axes]), x.dtype


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


transpose = structured(
    name="transpose", params=("axes",), infer=_transpose_infer, evaluate=np.transpose,
    body=lambda node: copy_body(node, lambda *i: [i[k] for k in _inverse(node.params[0])]),
    view=True, whole=True, vjp=lambda g, y, x, axes: OPS["transpose"](g, axes=_inverse(axes)),  # noqa: ARG005
    batched=lambda size, axes: {"axes": (0, *[a + 1 for a in axes])},  # noqa: ARG005
    text=lambda node, names: f"np.transpose({names[0]}, {node.params[0]})",
    sample=(case(lambda a: np.transpose(a, (1, 2, 0)) ** 2, (2, 3, 4)), case(lambda a: a.T @ a, (3, 2)),
            case(lambda a: np.moveaxis(np.swapaxes(a, 0, 2), 0, 1) ** 2, (2, 3, 4))),
    edges=(case(np.transpose, ()), case(np.transpose, (0, 3))),
)


def _broadcast_infer(x: Node, shape: Shape) -> tuple[Shape, Any]:
    if len(x.shape) > len(shape) or shapes.broadcast(x.shape, shape) != shape:
        raise ShapeError(f"cannot broadcast {shapes.show(x.shape)} to {shapes.show(shape)}")
    return shape, x.dtype


def _broadcast_source(node: Node) -> Any:
    old = node.inputs[0].shape
    offset = len(node.shape) - len(old)
    return lambda *i: [0 if d == 1 and node.shape[k + offset] != 1 else i[k + offset] for k, d in enumerate(old)]


broadcast_to = structured(
    name="broadcast_to", params=("shape",), infer=_broadcast_infer,
    evaluate=np.broadcast_to, body=lambda node: copy_body(node, _broadcast_source(node)),
    view=True, whole=True, aligned=True, vjp=lambda g, y, x, shape: unbroadcast(g, shape_of(x)),  # noqa: ARG005
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


expand_dims = structured(
    name="expand_dims", params=("axes",),
    infer=lambda x, axes: (_inserted(x.shape, axes), x.dtype), evaluate=lambda x, axes: np.expand_dims(x, axis=axes),
    body=lambda node: copy_body(node, lambda *i: [a for k, a in enumerate(i) if k not in node.params[0]]),
    view=True, whole=True, ordered=True, vjp=lambda g, y, x, axes: OPS["squeeze"](g, axes=axes),  # noqa: ARG005
    text=lambda node, names: f"np.expand_dims({names[0]}, {node.params[0]})",
    sample=(case(lambda a: np.expand_dims(a, (0, 2)) ** 2, (2, 3)), case(lambda a: a[:, None] * a[None, :], (3,))),
    edges=(case(lambda a: np.expand_dims(a, 0), ()),),
)


def _inserted(shape: Shape, axes: tuple[int, ...]) -> Shape:
    rest = iter(shape)
    return tuple([1 if k in axes else next(rest) for k in range(len(shape) + len(axes))])


def _squeeze_infer(x: Node, axes: tuple[int, ...]) -> tuple[Shape, Any]:
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError(f"cannot squeeze axes {axes} of {shapes.show(x.shape)}: not all have extent 1")
    return tuple([d for k, d in enumerate(x.shape) if k not in axes]), x.dtype


squeeze = structured(
    name="squeeze", params=("axes",), infer=_squeeze_infer, evaluate=lambda x, axes: np.squeeze(x, axis=axes),
    body=lambda node: copy_body(node, lambda *i: _zeros_at(node.params[0], i)),
    view=True, whole=True, ordered=True, vjp=lambda g, y, x, axes: OPS["expand_dims"](g, axes=axes),  # noqa: ARG005
    text=lambda node, names: f"np.squeeze({names[0]}, {node.params[0]})",
    sample=(case(lambda a: np.squeeze(a, 1) ** 2, (2, 1, 3)), case(lambda a: np.squeeze(a) ** 2, (1, 2, 1))),
    edges=(case(np.squeeze, (1, 0)),),
)


def _zeros_at(axes: tuple[int, ...], indices: tuple[Any, ...]) -> list[Any]:
    rest = iter(indices)
    return [0 if k in axes else next(rest) for k in range(len(indices) + len(axes))]


# -- slices: (start, count, step) or (position,) for each axis


def _slice_infer(x: Node, index: Any) -> tuple[Shape, Any]:
    if len(index) != len(x.shape):
        raise ShapeError(f"a slice of {len(index)} axes for {shapes.show(x.shape)}")
    return tuple([p[1] for p in index if len(p) == 3]), x.dtype


def as_slices(index: Any) -> tuple[Any, ...]:
    """Write an index of ranges and positions as Python slices."""
    return tuple([p[0] if len(p) == 1 else _python_slice(*p) for p in index])


def _python_slice(start: int, count: int, step: int) -> slice:
    if count <= 0:
        return slice(0, 0)
    stop = start + count * step
    return slice(start, None if stop < 0 else stop, step)


def source_index(index: Any, axes: tuple[Any, ...]) -> list[Any]:
    """Return the elements a slice takes, in the array it is taken from."""
    rest = iter(axes)
    return [p[0] if len(p) == 1 else next(rest) * p[2] + p[0] for p in index]


def _slice_text(index: Any) -> str:
    parts = []
    for p in index:
        if len(p) == 1:
            parts.append(str(p[0]))
        else:
            start, count, step = p
            stop = shapes.simplified(start + count * step)
            end = "" if step < 0 and type(stop) is int and stop < 0 else str(stop)
            parts.append(f"{start}:{end}" + (f":{step}" if step != 1 else ""))
    return ", ".join(parts) or "()"


slice_ = structured(
    name="slice", params=("index",), infer=_slice_infer, evaluate=lambda x, index: x[as_slices(index)],
    body=lambda node: copy_body(node, lambda *i: source_index(node.params[0], i)),
    view=True, vjp=lambda g, y, x, index: OPS["place"](g, indices=(index,), shape=shape_of(x)),  # noqa: ARG005
    put=lambda x, value, index: OPS["set_slice"](x, value, index=index),
    text=lambda node, names: f"{names[0]}[{_slice_text(node.params[0])}]" if _plain(node)
    else f"ops.slice({names[0]}, index={show(node.params[0])})",
    sample=(case(lambda a: a[1:, ::2] ** 2, (4, 5)), case(lambda a: a[-1, ::-1] ** 3, (3, 4)),
            case(lambda a: (a[1:] - a[:-1]) ** 2, (6,)), case(lambda a: np.flip(a, 0) * a, (3, 2))),
    edges=(case(lambda a: a[5:], (3,)), case(lambda a: a[3:1] * 2, (4,)), case(lambda a: a[::-3], (7,))),
)


def _plain(node: Node) -> bool:
    """Tell a slice that reads the same in Python's syntax."""
    return all(type(p) is int for entry in node.params[0] for p in entry) and all(
        len(e) == 1 or e[1] > 0 for e in node.params[0]
    )


def _place_infer(*gs: Node, indices: Any, shape: Shape) -> tuple[Shape, Any]:
    for g, index in zip(gs, indices, strict=True):
        if g.shape != tuple([p[1] for p in index if len(p) == 3]):
            raise ShapeError(f"cannot place {shapes.show(g.shape)} at {index}")
    return shape, gs[0].dtype


def _place_value(*gs: Any, indices: Any, shape: Any) -> Any:
    out = np.zeros(shape, np.asarray(gs[0]).dtype)
    for g, index in zip(gs, indices, strict=True):
        out[as_slices(index)] += g
    return out


def _place_body(node: Node) -> Body:
    """Zeros first, then each region is added; where no two share an element, it is written."""
    everywhere, indices = axes_of(node.shape), node.params[0]
    statements = [Statement(Access(OUT, everywhere), "=", Number(0, node.dtype), everywhere, node.line)]
    how = "=" if _all_apart(indices) else ("|=" if node.dtype.kind == "b" else "+=")
    for k, (g, index) in enumerate(zip(node.inputs, indices, strict=True)):
        part = axes_of(g.shape)
        target = Access(OUT, tuple(source_index(index, part)))
        statements.append(Statement(target, how, Access(k, part), part, node.line))
    return Body(tuple(statements))


FEW = 16
"""So many regions are compared, each with each."""


def _all_apart(indices: Any) -> bool:
    """Tell regions of which no two share an element, for sure."""
    few = len(indices) <= FEW and all(regions.is_known(index) for index in indices)
    return len(indices) == 1 or (few and all(regions.apart(a, b) for a, b in combinations(indices, 2)))


def _place_vjp(g: Any, y: Any, *gs: Any, indices: Any, shape: Any) -> Any:  # noqa: ARG001
    parts = tuple([OPS["slice"](g, index=index) for index in indices])
    return parts if len(parts) > 1 else parts[0]


place = structured(
    name="place", params=("indices", "shape"), infer=_place_infer, evaluate=_place_value, body=_place_body,
    vjp=_place_vjp, moves=True,
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


def _set_infer(x: Node, value: Node, index: Any) -> tuple[Shape, Any]:
    want, _ = _slice_infer(x, index)
    if value.shape != want or value.dtype != x.dtype:
        raise ShapeError(f"cannot store {shapes.show(value.shape)} in a slice of {shapes.show(want)}")
    return x.shape, x.dtype


def _set_value(x: Any, value: Any, index: Any) -> Any:
    out = np.array(x)
    out[as_slices(index)] = value
    return out


def _set_body(node: Node) -> Body:
    everywhere, part = axes_of(node.shape), axes_of(node.inputs[1].shape)
    return Body((
        Statement(Access(OUT, everywhere), "=", Access(X, everywhere), everywhere, node.line),
        Statement(Access(OUT, tuple(source_index(node.params[0], part))), "=", Access(1, part), part, node.line),
    ))


def _set_vjp(g: Any, y: Any, x: Any, value: Any, index: Any) -> tuple[Any, Any]:  # noqa: ARG001
    part = OPS["slice"](g, index=index)
    nothing = np.where(np.False_, part, np.zeros((), g.dtype))
    return OPS["set_slice"](g, nothing, index=index), part


set_slice = structured(
    name="set_slice", params=("index",), infer=_set_infer, evaluate=_set_value, body=_set_body, vjp=_set_vjp,
    moves=True,
    sample=(case(lambda a, b: OPS["set_slice"](a, b, index=((1, 2, 1), (3,))) ** 2, (4, 4), (2,)),),
    edges=(case(lambda a, b: OPS["set_slice"](a, b, index=((4, 0, 1),)), (4,), (0,)),),
    doc="An array with a slice of it replaced: what ``x[index] = value`` leaves in x.",
)


# -- diagonals, triangles


def _diagonal_infer(x: Node, offset: int) -> tuple[Shape, Any]:
    *lead, rows, columns = x.shape
    return (*lead, diagonal_length(rows, columns, offset)), x.dtype


def diagonal_length(rows: Any, columns: Any, offset: int) -> Any:
    """Count the elements of a diagonal."""
    rows, columns = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    if type(rows) is int and type(columns) is int:
        return max(0, min(rows, columns))
    import sympy

    return shapes.simplified(sympy.Max(0, sympy.Min(rows, columns)))


def _on_diagonal(lead: tuple[Any, ...], k: Any, offset: int) -> tuple[Any, ...]:
    return (*lead, k + max(0, -offset), k + max(0, offset))


diagonal = structured(
    name="diagonal", params=("offset",), infer=_diagonal_infer,
    evaluate=lambda x, offset: np.diagonal(x, offset, -2, -1),
    body=lambda node: copy_body(node, lambda *i: _on_diagonal(i[:-1], i[-1], node.params[0])), view=True,
    vjp=lambda g, y, x, offset: OPS["embed_diagonal"](g, offset=offset, shape=shape_of(x)[-2:]),  # noqa: ARG005
    sample=(case(lambda a: np.diagonal(a, 1) ** 2, (3, 4)), case(lambda a: np.trace(a) ** 2, (3, 3)),
            case(lambda a: np.diag(a, -1) ** 2, (3, 4))),
    edges=(case(lambda a: np.diagonal(a, 9), (3, 4)),),
    doc="A diagonal of the last two axes.",
)


def _embed_value(x: Any, offset: int, shape: Any) -> Any:
    out = np.zeros((*x.shape[:-1], *shape), x.dtype)
    k = np.arange(x.shape[-1])
    out[..., k + max(0, -offset), k + max(0, offset)] = x
    return out


def _embed_body(node: Node) -> Body:
    everywhere, part = axes_of(node.shape), axes_of(node.inputs[0].shape)
    target = _on_diagonal(part[:-1], part[-1], node.params[0])
    return Body((
        Statement(Access(OUT, everywhere), "=", Number(0, node.dtype), everywhere, node.line),
        Statement(Access(OUT, target), "=", Access(X, part), part, node.line),
    ))


embed_diagonal = structured(
    name="embed_diagonal", params=("offset", "shape"), evaluate=_embed_value, body=_embed_body, moves=True,
    infer=lambda x, offset, shape: ((*x.shape[:-1], *shape), x.dtype),  # noqa: ARG005
    vjp=lambda g, y, x, offset, shape: OPS["diagonal"](g, offset=offset),  # noqa: ARG005
    batched=lambda size, **params: params,  # noqa: ARG005 - the shape is that of the last two axes
    sample=(case(lambda a: np.diag(a, 1) @ np.diag(a, 1), (3,)),), edges=(case(np.diag, (0,)),),
    doc="Zeros with a diagonal of the last two axes filled: the adjoint of diagonal.",
)


def _triangle_body(node: Node) -> Body:
    axes = axes_of(node.shape)
    i, j = axes[-2], axes[-1]
    upper, k = node.params
    pair = (IndexValue(i + k, _I64), IndexValue(j, _I64))
    inside = Apply(OPS["less_equal" if upper else "greater_equal"], pair, np.dtype(bool), _I64)  # type: ignore[arg-type]
    kept = Apply(OPS["where"], (inside, Access(X, axes), Number(0, node.dtype)), node.dtype, node.dtype)  # type: ignore[arg-type]
    return Body((Statement(Access(OUT, axes), "=", kept, axes, node.line),))


_I64 = np.dtype(np.int64)

triangle = structured(
    name="triangle", params=("upper", "k"), infer=lambda x, upper, k: (x.shape, x.dtype),  # noqa: ARG005
    evaluate=lambda x, upper, k: np.triu(x, k) if upper else np.tril(x, k), body=_triangle_body,
    vjp=lambda g, y, x, upper, k: OPS["triangle"](g, upper=upper, k=k), moves=True,  # noqa: ARG005
    text=lambda node, names: f"np.{'triu' if node.params[0] else 'tril'}({names[0]}, {node.params[1]})",
    sample=(case(lambda a: np.tril(a) ** 2, (3, 4)),
            case(lambda a: np.triu(a, 1) @ np.swapaxes(np.triu(a, -1), 1, 2), (2, 3, 3))),
    edges=(case(lambda a: np.tril(a, -5), (3, 3)), case(np.triu, (0, 2))),
    doc="The lower or upper triangle of the last two axes, zeros elsewhere.",
)

"""Rules of `cheaper` for views: two in a row become one, and one that undoes another goes away with it."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.index import regions, shapes
from symgrad.ir.op import Elementwise
from symgrad.ops.arrays.joining import concatenate
from symgrad.ops.arrays.views import (
    FEW,
    broadcast_to,
    expand_dims,
    place,
    reshape,
    set_slice,
    slice_,
    squeeze,
    transpose,
)
from symgrad.transforms.build import behind_spread, core, is_number, literal, make, shaped, taken_region
from symgrad.transforms.tuned import WRITES_BEHIND

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.transforms.rewrite.engine import Run


def broadcast_behind(run: Run, node: Node) -> Node | None:
    """Leave out new axes in front, which broadcasting adds by itself."""
    x = node.inputs[0].inputs[0]
    added = len(node.inputs[0].shape) - len(x.shape)
    return make(run.graph, node.op, x, **node.named) if (1,) * added + x.shape == node.inputs[0].shape else None


def ordered(run: Run, node: Node) -> Node | None:
    """Leave out what is undone, and write a reshape as new axes, or fewer, where it is no more."""
    x = node.inputs[0]
    if x.shape == node.shape:
        return x
    if x.op.ordered and x.inputs[0].shape == node.shape:
        return x.inputs[0]
    if x.op.aligned and x.inputs[0].shape == ():  # one number, whatever its shape
        return make(run.graph, x.op, x.inputs[0], shape=node.shape)
    if node.op is not reshape:
        return None
    if x.op.ordered:
        return make(run.graph, reshape, x.inputs[0], shape=node.shape)
    if [d for d in x.shape if d != 1] != [d for d in node.shape if d != 1]:
        return None
    ones, new = [tuple([k for k, d in enumerate(shape) if d == 1]) for shape in (x.shape, node.shape)]
    plain = make(run.graph, squeeze, x, axes=ones) if ones else x
    return make(run.graph, expand_dims, plain, axes=new) if new else plain


def _is_range(entry: Any) -> bool:
    return len(entry) == 3


def slice_behind(run: Run, node: Node) -> Node | None:
    """Look behind what is sliced."""
    x, index = node.inputs[0], node.params[0]
    if all(_is_range(e) and e == (0, d, 1) for e, d in zip(index, x.shape, strict=True)):
        return x
    behind = BEHIND.get(x.op)
    if behind is not None:
        return behind(run.graph, node, x, index)  # type: ignore[no-any-return]  # a table of functions
    if isinstance(x.op, Elementwise) and any(i.op in BEHIND and not i.op.view for i in x.inputs) and run.is_single(x):
        return _before_elementwise(run, node, x, index)
    return None


def _before_elementwise(run: Run, node: Node, x: Node, index: Any) -> Node | None:
    """Slice what was joined before it is computed with, where nothing reads what is left out."""
    inputs = []
    for i in x.inputs:
        entries = index[len(index) - len(i.shape) :]
        own = [
            e if dim == full else (0, 1, 1) if _is_range(e) else (0,)
            for e, dim, full in zip(entries, i.shape, x.shape[len(index) - len(i.shape) :], strict=True)
        ]
        inputs.append(run.settled(make(run.graph, node.op, i, index=tuple(own))) if own else i)
    made = make(run.graph, x.op, *inputs, **x.named)
    return made if made.shape == node.shape else None


def _behind_slice(graph: Graph, node: Node, x: Node, index: Any) -> Node:
    """Compose two slices."""
    outer = iter(index)
    composed = []
    for entry in x.params[0]:
        if not _is_range(entry):
            composed.append(entry)
            continue
        start, _, step = entry
        after = next(outer)
        if _is_range(after):
            composed.append((start + step * after[0], after[1], step * after[2]))
        else:
            composed.append((start + step * after[0],))
    return make(graph, node.op, x.inputs[0], index=tuple(composed))


def _behind_expand_dims(graph: Graph, node: Node, x: Node, index: Any) -> Node | None:
    """Slice before the new axes are there, when each of them is taken whole or by its only place."""
    axes = x.params[0]
    if any(index[a] not in {(0,), (0, 1, 1)} for a in axes):
        return None
    inner = make(graph, node.op, x.inputs[0], index=tuple([e for k, e in enumerate(index) if k not in axes]))
    position, new = 0, []
    for k, entry in enumerate(index):
        if _is_range(entry):
            if k in axes:
                new.append(position)
            position += 1
    return make(graph, x.op, inner, axes=tuple(new)) if new else inner


def _behind_concatenate(graph: Graph, node: Node, x: Node, index: Any) -> Node | None:
    """Slice the one part that holds all of the slice."""
    axis = x.params[0]
    entry = index[axis]
    if not all(type(v) is int for v in entry):
        return None
    low = high = entry[0]
    if _is_range(entry):
        if entry[1] <= 0:
            return None
        last = entry[0] + (entry[1] - 1) * entry[2]
        low, high = min(low, last), max(high, last)
    offset = 0
    for part in x.inputs:
        extent = part.shape[axis]
        if type(extent) is not int:
            return None
        if offset <= low and high < offset + extent:
            moved = (entry[0] - offset, *entry[1:])
            return make(graph, node.op, part, index=(*index[:axis], moved, *index[axis + 1 :]))
        offset += extent
    return None


def _behind_set_slice(graph: Graph, node: Node, x: Node, index: Any) -> Node | None:
    """Look behind writes: the value that was written there, or what stood there when the write was elsewhere."""
    for _ in range(WRITES_BEHIND):
        if x.op is not set_slice:
            break
        written = x.params[0]
        if written == index:
            return x.inputs[1]
        if not any(  # on some axis, two different single positions
            not _is_range(a) and not _is_range(b) and type(a[0]) is type(b[0]) is int and a[0] != b[0]
            for a, b in zip(written, index, strict=True)
        ):
            break
        x = x.inputs[0]
    return make(graph, node.op, x, index=index) if x is not node.inputs[0] else None


def _behind_place(graph: Graph, node: Node, x: Node, index: Any) -> Node | None:
    """Place what lies in the slice; all of what it is, where there is one piece that is all of it."""
    if len(x.inputs) == 1 and x.params[0] == (index,):
        return x.inputs[0]
    if len(x.inputs) > WRITES_BEHIND or not all(regions.is_known(i) for i in (index, *x.params[0])):
        return None
    pieces, indices = [], []
    for piece, placed in zip(x.inputs, x.params[0], strict=True):
        inner = regions.within(placed, index)
        if inner is not None:
            pieces.append(piece)
            indices.append(inner)
        elif not regions.disjoint(placed, index):
            return None
    if not pieces:
        return shaped(graph, literal(graph, 0, node.dtype), node.shape)
    if len(pieces) == 1 and indices[0] == regions.whole(node.shape):
        return pieces[0]
    return make(graph, x.op, *pieces, indices=tuple(indices), shape=node.shape)


def placed_twice(run: Run, node: Node) -> Node | None:
    """Place at once what is placed in what is placed, and its negative where it is added to zeros."""
    regions_of, pieces, places = node.param("indices"), [], []
    if node.dtype.kind != "f" or len(regions_of) > FEW or not all(map(regions.is_known, regions_of)):
        return None

    def meet(own: Any) -> bool:
        return not all(regions.disjoint(a, b) for a, b in combinations(own, 2))

    added = meet(regions_of)
    for piece, region in zip(node.inputs, regions_of, strict=True):
        if is_number(behind_spread(piece), 0.0):
            continue
        negative = added and piece.op.numpy is np.negative
        inner = piece.inputs[0] if negative else piece
        own = inner.param("indices") if inner.op is node.op else ()
        if own and all(map(regions.is_known, own)) and (added or not meet(own)):
            pieces += [make(run.graph, piece.op, x) if negative else x for x in inner.inputs]
            places += [regions.inside(each, region) for each in own]
        else:
            pieces.append(piece)
            places.append(region)
    if places == [*regions_of] or len(places) > FEW or not places:
        return None
    return make(run.graph, node.op, *pieces, indices=tuple(places), shape=node.shape)


def placed_windows(run: Run, node: Node) -> Node | None:
    """Add those windows of which a slice was taken to their places, not zeros to the others."""
    g, (axes, shape, index) = node.inputs[0], node.params
    if g.op is not place or len(g.inputs) > 1:
        return None
    (region,) = g.param("indices")
    taken, within = region[: len(shape)], region[len(shape) :]
    if not all(map(_is_range, taken)) or within != regions.whole(g.shape[len(shape) :]):
        return None
    return make(run.graph, node.op, *g.inputs, axes=axes, shape=shape, index=regions.inside(taken, index))


def put_back(_run: Run, node: Node) -> Node | None:
    """Leave an array whole whose slices are placed where they were, all of them."""
    found = [core(piece) for piece in node.inputs]
    took, put = [taken_region(part) for part in found], node.param("indices")
    if len(took) > FEW or None in took or any(part.inputs != found[0].inputs for part in found):
        return None
    x = found[0].inputs[0]
    if x.shape != node.shape or not all(map(regions.is_known, (*took, *put))):
        return None
    if any(_as_ranges(one) != _as_ranges(other) for one, other in zip(took, put, strict=True)):
        return None
    if sum(map(regions.count, put)) != shapes.size(x.shape):
        return None
    return x if all(regions.disjoint(one, other) for one, other in combinations(put, 2)) else None


def rejoined(run: Run, node: Node) -> Node | None:
    """Repeat what is joined to itself, and slice once what is joined of slices that follow each other."""
    axis, pieces = node.param("axis"), node.inputs
    if pieces[0].shape[axis] == 1 and len({*pieces}) == 1:
        return shaped(run.graph, pieces[0], node.shape)
    kept = (*node.shape[:axis], *node.shape[axis + 1 :])
    stacked = all(piece.op.ordered and (piece.shape[axis], piece.inputs[0].shape) == (1, kept) for piece in pieces)
    found = [piece.inputs[0] for piece in pieces] if stacked else pieces
    took: list[Any] = [taken_region(piece) for piece in found]
    if len(took) == 1 or None in took or len({piece.inputs for piece in found}) > 1:
        return None
    if not all(map(regions.is_known, took)):
        return None
    along = [k for k, entries in enumerate(zip(*took, strict=True)) if len({*entries}) > 1]
    if len(along) != 1:
        return None
    entries = [region[along[0]] for region in took]
    before = sum(map(_is_range, took[0][: along[0]]))
    whole = _in_a_row(_as_ranges(entries))
    if whole is None or any(_is_range(entry) == stacked for entry in entries) or (before != axis and not stacked):
        return None
    index = (*took[0][: along[0]], whole, *took[0][along[0] + 1 :])
    made = make(run.graph, slice_, found[0].inputs[0], index=index)
    if before == axis:
        return made
    order = [k for k in range(len(node.shape)) if k != before]
    return make(run.graph, transpose, made, axes=(*order[:axis], before, *order[axis:]))


def _in_a_row(ranges: list[Any]) -> Any:
    """Return the range that known ones are when one follows the other, None when they do not."""
    (start, count, step), *rest = ranges
    step = rest[0][0] - start if count == 1 else step
    for first, more, own in rest:
        if first != start + count * step or (more > 1 and own != step):
            return None
        count += more
    return (start, count, step) if step and min(extent for _, extent, _ in ranges) > 0 else None


def _as_ranges(region: Any) -> list[Any]:
    return [entry if len(entry) == 3 else (entry[0], 1, 1) for entry in region]


BEHIND: dict[Any, Any] = {
    slice_: _behind_slice, expand_dims: _behind_expand_dims, concatenate: _behind_concatenate,
    set_slice: _behind_set_slice, place: _behind_place,
    broadcast_to: lambda graph, node, x, _: None if x.inputs[0].shape else shaped(graph, x.inputs[0], node.shape),
}
"""What a slice is of what was made by these."""

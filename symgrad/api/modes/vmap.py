"""vmap: a function of one example becomes the function of many, as one program with one more axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.arguments import AUTO
from symgrad.api.modes.mode import at, function, substituted
from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ir.index.shapes import show
from symgrad.ops.arrays.views import broadcast_to
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.signature import Signature
from symgrad.trace.structures import NAMESPACE, flattened, places_in
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.derive.batch import batch

if TYPE_CHECKING:
    from symgrad.api.call.function import Function, P


def vmap(
    fun: Callable[P, Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None, *,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, Any]:
    """Map a function over axes of its arguments: compiled as one program, not as a loop of calls.

    Args:
        fun: a function of one example.
        in_axes: which axis of the arguments is mapped: a number for all of them (from the end, if negative), or a
            tuple with a number, None (not mapped) or a tree of these for each positional argument. Keyword arguments
            are mapped over their first axis.
        out_axes: where the axis goes in the results: a number, or a tree of numbers; None for a result that does
            not depend on a mapped argument.
        axis_size: how many there are, where nothing is mapped.
        static_argnums: as for `jit`.
        static_argnames: as for `jit`.
        specs: as for `jit`.
        dynamic: as for `jit`; annotations of `fun` are those of one example, and not read.
        options: as for `jit`.

    Returns:
        A `Function` of the same arguments, each mapped one with one more axis.

    Raises, when called:
        ArgumentValueError: `in_axes` or `out_axes` do not fit the arguments or the results.
        ShapeError: the mapped axes differ in length, naming the arguments and their shapes.

    >>> import numpy as np, symgrad as sg
    >>> sg.vmap(np.dot, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    """
    if not _is_axis(in_axes) and not isinstance(in_axes, (tuple, list)):
        raise ArgumentError(f"in_axes={in_axes!r}", instead="a number, None, or a tuple with one entry an argument")
    settings = {"in_axes": in_axes, "out_axes": out_axes, "axis_size": axis_size}
    return function(
        "vmap", fun, _vmap, settings, static_argnums, static_argnames, specs, dynamic, options, annotated=False,
    )


def _vmap(fun: Any, signature: Signature, leaves: list[Any], *, in_axes: Any, out_axes: Any, axis_size: Any) -> Any:
    axes = _input_axes(in_axes, signature)
    one = replace(signature, specs=tuple([
        s if a is None else replace(s, shape=(*s.shape[:a], *s.shape[a + 1 :]))
        for s, a in zip(signature.specs, axes, strict=True)
    ]))
    point = at(fun, signature, leaves, seen=one, alike=[a is None for a in axes])
    if places_in(point.tree):
        raise ArgumentError("vmap of a function that returns a RowSparse or a sparse matrix: each example has another",
                            instead="g.to_dense() in the function, or sparse=True of the sum over all examples")
    size, outer = _batch_size(signature, axes, axis_size), point.outer
    with outer.graph.apart():
        program, mapped = batch(point.program, [a is not None for a in axes], size)
    given: list[Any] = [Tracer(as_node(outer, leaf), outer) for leaf in leaves]
    front = [np.moveaxis(x, a, 0) if a else x for x, a in zip(given, axes, strict=True)]
    made: list[Any] = substituted(outer, program, front)
    results: list[Any] = []
    to = zip(made, mapped, _leaf_axes(out_axes, point.tree, "out_axes"), strict=True)
    for number, (y, many, axis) in enumerate(to):
        if axis is None and many:
            raise ArgumentValueError(
                f"out_axes is None for result {number}, which depends on a mapped argument", instead="an axis for it"
            )
        place = None if axis is None else _from_front(axis, y.ndim + (not many), f"result {number}", y.node.shape)
        if place is not None:
            y = np.moveaxis(y if many else broadcast_to(y, shape=(size, *y.node.shape)), 0, place)  # noqa: PLW2901
        results.append(y)
    return optree.tree_unflatten(point.tree, results)


# -- axes


def _is_axis(entry: Any) -> bool:
    return entry is None or (isinstance(entry, int) and not isinstance(entry, bool))


_UNMAPPED = object()
"""Stands for None where a tree is flattened, which would have no leaves."""


def _leaf_axes(entry: Any, tree: Any, what: str) -> list[int | None]:
    """Give every leaf of a structure its axis, from a tree of axes that may end above the leaves."""
    marked: Any = optree.tree_map(
        lambda e: _UNMAPPED if e is None else e, entry, none_is_leaf=True, namespace=NAMESPACE
    )
    whole = optree.tree_unflatten(tree, map(float, range(tree.num_leaves)))  # of objects, integers are no leaves
    flattened(whole)  # which makes its objects structures
    try:
        found: list[Any] = optree.broadcast_prefix(marked, whole, namespace=NAMESPACE)
    except ValueError as error:
        raise ArgumentValueError(f"{what}={entry!r} does not have the structure of what it is for: {error}") from None
    for axis in found:
        if axis is not _UNMAPPED and (not _is_axis(axis) or axis is None):
            raise ArgumentValueError(f"{what} holds {axis!r}", instead="a number or None")
    return [None if axis is _UNMAPPED else axis for axis in found]


def _input_axes(in_axes: Any, signature: Signature) -> list[int | None]:
    """Return the axis of each leaf, counted from the front."""
    positional, keywords = signature.tree.children()
    static = {key for key, _ in signature.statics}
    free = [k for k in range(len(positional.children()) + sum(isinstance(k, int) for k in static)) if k not in static]
    found: list[int | None] = []
    if _is_axis(in_axes):
        found = [in_axes] * positional.num_leaves
    else:
        if len(in_axes) != len(free) + sum(isinstance(k, int) for k in static):
            raise ArgumentValueError(f"in_axes={in_axes!r} has {len(in_axes)} entries, for {len(free)} arguments")
        for number, child in zip(free, positional.children(), strict=True):
            found += _leaf_axes(in_axes[number], child, "in_axes")
    found += [0] * keywords.num_leaves
    for k in places_in(signature.tree):
        if found[k] is not None:
            path = signature.paths[k].rpartition(".")[0]
            raise ArgumentError(f"vmap over {path}, which is a RowSparse or a sparse matrix",
                                instead=f"in_axes= with None for {path}, and the elements' values as an argument")
    specs = zip(found, signature.specs, signature.paths, strict=True)
    return [None if a is None else _from_front(a, len(s.shape), f"argument {path}", s.shape) for a, s, path in specs]


def _from_front(axis: int, rank: int, what: str, shape: Any) -> int:
    if not -rank <= axis < rank:
        raise ArgumentValueError(f"vmap over axis {axis} of {what}, which has shape {show(shape)}: no such axis")
    return axis % rank


def _batch_size(signature: Signature, axes: Sequence[int | None], axis_size: Any) -> Any:
    every = zip(signature.paths, signature.specs, axes, strict=True)
    mapped = [(path, s, a, s.shape[a]) for path, s, a in every if a is not None]
    sizes = list(dict.fromkeys([size for *_, size in mapped] + ([] if axis_size is None else [axis_size])))
    if not sizes:
        raise ArgumentValueError("vmap maps no argument: all of in_axes is None", instead="axis_size=")
    if len(sizes) > 1:
        lines = [f"\n  {path} of shape {show(s.shape)}: axis {a} has length {size}" for path, s, a, size in mapped]
        lines += [] if axis_size is None else [f"\n  axis_size={axis_size}"]
        raise ShapeError(f"vmap over axes of different lengths:{''.join(lines)}")
    return sizes[0]

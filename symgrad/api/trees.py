"""Structures of arrays: a function of each leaf, the leaves' paths, and all of them as one vector."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ops.arrays.joining import lift
from symgrad.trace import optree
from symgrad.trace.structures import flattened, is_pattern

Tree = Any
"""Arrays and numbers in a structure."""


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to each leaf of a structure, and to what stands in the same place of others.

    Args:
        function: of a leaf of `tree` and of what each of `rest` has there, which may be a structure itself.
        tree: leaves in tuples, lists, dicts, dataclasses and objects; None is an empty structure, a `RowSparse` and
            a sparse matrix are leaves.
        rest: structures that are at least as deep.

    Returns:
        What the function gives, in the structure of `tree`.

    Raises:
        ArgumentError: one of `rest` has another structure.

    >>> import numpy as np, symgrad as sg
    >>> sg.tree_map(lambda p, g: p - g, {"W": np.ones(2), "b": 3.0}, {"W": np.ones(2), "b": 1.0})
    {'W': array([0., 0.]), 'b': 2.0}
    """
    leaves, structure = tree_flatten(tree)
    try:
        for one in rest:
            tree_flatten(one)  # which makes its objects structures
        others = [structure.flatten_up_to(one) for one in rest]
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"tree_map() of structures that differ: {str(error).rstrip('.')}") from error
    return optree.tree_unflatten(structure, [function(*each) for each in zip(leaves, *others, strict=True)])


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """List the leaves of a structure, in the order of `tree_map`, and give the structure, which makes it of others.

    Returns:
        ``(leaves, structure)``: the structure is one of optree, equal and hashed where structures are the same;
        ``structure.unflatten(leaves)`` is `tree` again.

    >>> import symgrad as sg
    >>> leaves, structure = sg.tree_flatten({"W": 1.0, "b": (2.0, None)})
    >>> leaves, structure.unflatten([3.0, 4.0])
    ([1.0, 2.0], {'W': 3.0, 'b': (4.0, None)})
    """
    return flattened(tree, is_leaf=is_pattern)


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Give the leaves of a structure their paths, no two of which may be one."""
    return dict(zip(without_twins(tree_paths(tree)), tree_flatten(tree)[0], strict=True))


def tree_paths(tree: Any) -> list[str]:
    """Name the leaves of a structure: ``layer/W`` of ``{"layer": {"W": ...}}``, in the order of `tree_map`.

    >>> import symgrad as sg
    >>> sg.tree_paths({"layers": [{"W": 1.0}, {"W": 2.0, "b": 3.0}], "scale": 4.0})
    ['layers/0/W', 'layers/1/W', 'layers/1/b', 'scale']
    """
    return ["/".join(map(str, path)) for path in tree_flatten(tree)[1].paths()]


def without_twins(paths: list[str]) -> list[str]:
    """Refuse paths of which two are one, as in ``{"a/b": ..., "a": {"b": ...}}`` and ``{1: ..., "1": ...}``."""
    if len({*paths}) < len(paths):
        twice = next(path for k, path in enumerate(paths) if path in paths[:k])
        raise ArgumentValueError(f"two parameters are called {twice!r}", instead="keys whose paths differ")
    return paths


def gradients_by_path(params: Any, grads: Any) -> OrderedDict[str, Any]:
    """Give gradients the paths of their parameters, in the order of these; None, or what is not there, is left out."""
    shapes = {path: np.shape(leaf) for path, leaf in leaves_by_path(params).items()}
    found = leaves_by_path(grads)
    for path, grad in found.items():
        if path not in shapes:
            raise ArgumentError(f"a gradient of {path or 'an array'}, and the parameters are {', '.join(shapes)}")
        if np.shape(grad) != shapes[path]:
            raise ArgumentError(
                f"the gradient of {path or 'params'} has shape {np.shape(grad)}, and the parameter {shapes[path]}",
                instead="a gradient by this parameter",
            )
    return OrderedDict([(path, found[path]) for path in shapes if path in found])


def ravel_pytree(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Make one vector of all arrays and numbers of a structure, and what makes the structure of such a vector again.

    Args:
        tree: arrays and numbers in tuples, lists, dicts, dataclasses and objects; traced ones, too.

    Returns:
        ``(flat, unravel)``: a vector of the type that the arrays' types promote to, and a function of such a vector,
        which gives each array its shape and type. It may be called in a traced function.

    Raises:
        ShapeError: `unravel` gets another number of elements.

    >>> import numpy as np, symgrad as sg
    >>> flat, unravel = sg.ravel_pytree({"W": np.ones((2, 2)), "b": 3.0})
    >>> flat
    array([1., 1., 1., 1., 3.])
    >>> unravel(2 * flat)["W"]
    array([[2., 2.],
           [2., 2.]])
    >>> sg.grad(lambda v: np.sum(unravel(v)["W"]) * unravel(v)["b"])(flat)
    array([3., 3., 3., 3., 4.])
    """
    leaves, structure = tree_flatten(tree)
    arrays = [lift(leaf) for leaf in leaves]
    shapes, kinds = [tuple(a.shape) for a in arrays], [a.dtype for a in arrays]
    ends = [*accumulate([int(np.prod(shape)) for shape in shapes])]
    flat = np.concatenate([np.ravel(a) for a in arrays]) if arrays else np.zeros(0)

    def unravel(flat: Any) -> Any:
        if np.ndim(flat) != 1 or flat.shape[0] != (ends[-1] if ends else 0):
            raise ShapeError(f"unravel() of the shape {tuple(np.shape(flat))}: it needs ({(ends or [0])[-1]},)")
        parts = [flat[end - int(np.prod(shape)) : end] for end, shape in zip(ends, shapes, strict=True)]
        made = [np.reshape(p, shape).astype(kind) for p, shape, kind in zip(parts, shapes, kinds, strict=True)]
        return optree.tree_unflatten(structure, [a if a.ndim else a[()] for a in made])

    return flat, unravel

"""Structures of arrays as one vector."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from symgrad.errors import ShapeError
from symgrad.ops.arrays.joining import lift
from symgrad.trace.structures import flattened

if TYPE_CHECKING:
    from collections.abc import Callable


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
    leaves, structure = flattened(tree)
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

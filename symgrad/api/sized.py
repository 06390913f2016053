"""What NumPy has as many of as values say, in as many places as are asked for: sets, and places of what is not 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError
from symgrad.ops import load
from symgrad.ops.arrays.copies import checked_shape, filled
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import shape_of
from symgrad.ops.numpy.manipulation import static
from symgrad.ops.numpy.sets import count_up, in_order, places_of
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.selected import Selected


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, *, size: int,
    fill_value: Any = None, equal_nan: bool = True,
) -> Any:
    """Return the first `size` of the sorted different elements, as `jax.numpy.unique` does.

    The derivative goes to the elements that they were, the first of equal ones.

    Args:
        ar: any shape.
        return_index: give also where each was first, in the flat array.
        return_inverse: give also which of them each element is.
        return_counts: give also how often each is there.
        size: the length of the result; it may be an open extent.
        fill_value: what stands behind the last one, if there are fewer; without it the smallest element.
        equal_nan: NaN are one.

    Returns:
        The elements, of shape (size,) and ar's dtype, and in a tuple with them what was asked for. Behind the last
        one, an index is that of the smallest element, and a count 0.

    Raises:
        ShapeError: the size is negative.
        UnsupportedError: the size is traced.

    >>> import numpy as np
    >>> unique(np.array([3.0, 1.0, 3.0]), return_counts=True, size=3, fill_value=0)
    (array([1., 3., 0.]), array([1, 2, 0]))
    """
    load()
    x = lift(settled(ar))
    total: Any
    if type(x) is Selected:
        if return_inverse:
            raise x.unknown("sg.unique of it, with return_inverse=True")
        distinct: Any = np.unique(x, equal_nan=equal_nan)
        order: Any = np.argsort(x)
        values, order, first, total = distinct.values, order.values, distinct.mask, np.sum(x.mask)
    else:
        values, order, first = in_order(x, equal_nan=equal_nan)
        total = np.size(x)
    n = shape_of(values)[0]
    take, run = _first(first, size), np.cumsum(first)
    found = [take(values, fill_value if fill_value is not None else values[0] if n != 0 else 0)]
    if return_index:
        found.append(take(order, order[0] if n != 0 else 0))
    if return_inverse:
        found.append(np.reshape((run - 1)[np.argsort(order)], np.shape(x)))
    if return_counts:
        (length,) = checked_shape(size)
        found.append(np.diff(_first(first, length + 1)(count_up(first, n), total)))
    return tuple(found) if len(found) > 1 else found[0]


def nonzero(a: Any, *, size: int, fill_value: Any = 0) -> tuple[Any, ...]:
    """Return the first `size` places of what is not 0, as `jax.numpy.nonzero` does.

    Args:
        a: at least one axis.
        size: the length of the results; it may be an open extent.
        fill_value: what stands behind the last one, if there are fewer; a tuple has a number for each axis.

    Returns:
        An integer array of shape (size,) for each axis, as ``np.where(a)`` has, too.

    Raises:
        ArgumentValueError: `a` has no axes, or `fill_value` not a number for each.
        ShapeError: the size is negative.
        UnsupportedError: the size is traced.

    >>> import numpy as np
    >>> nonzero(np.array([0.0, 2.0, 0.0, 1.0]), size=3, fill_value=-1)
    (array([ 1,  3, -1]),)
    """
    load()
    along, there = places_of(settled(a))
    take, fills = _first(there, size), fill_value if isinstance(fill_value, tuple) else (fill_value,) * len(along)
    if not along or len(fills) != len(along):
        raise ArgumentValueError(
            f"nonzero of {len(along)} axes with {len(fills)} numbers for the rest", line=user_line(),
            instead="np.atleast_1d of a number; one fill_value, or one for each axis",
        )
    return tuple([take(places, fill) for places, fill in zip(along, fills, strict=True)])


def flatnonzero(a: Any, *, size: int, fill_value: Any = 0) -> Any:
    """Return the first `size` places of what is not 0 in the flat array: see `nonzero`.

    >>> import numpy as np
    >>> flatnonzero(np.array([[0, 2], [0, 1]]), size=3)
    array([1, 3, 0])
    """
    return nonzero(np.ravel(lift(settled(a))), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int, fill_value: Any = 0) -> Any:
    """Return the first `size` places of what is not 0 as rows, of shape (size, a.ndim): see `nonzero`.

    >>> import numpy as np
    >>> argwhere(np.array([[0, 2], [0, 1]]), size=2)
    array([[0, 1],
           [1, 1]])
    """
    return np.stack(nonzero(a, size=size, fill_value=fill_value), -1)


def _first(there: Any, size: Any) -> Callable[[Any, Any], Any]:
    """Return what takes the first elements that a mask selects, and what fills the rest."""
    (length,) = checked_shape(static("unique", "size", size))
    at = np.searchsorted(np.cumsum(there), count_up(there, length) + 1)  # one beyond the end where there are fewer

    def take(values: Any, fill: Any) -> Any:
        last = filled(values, fill, (1,), values.dtype)
        return gather(np.concatenate([values, last]), at, axes=(0,))

    return take

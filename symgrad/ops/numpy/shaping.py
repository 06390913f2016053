"""Array manipulation as NumPy writes it: shapes and axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import MutationError, ShapeError, UnsupportedError
from symgrad.ir import shapes
from symgrad.ops.arrays.copies import an_array, extents, fresh, stretched
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import OPS, answers, dims, equal, is_traced, normal_axes, normal_axis, shape_of

if TYPE_CHECKING:
    from symgrad.ir.shapes import Shape


# -- shapes


def _perhaps_a_view(x: Any, y: Any, name: str) -> Any:
    """Make `y` refuse to be read after a write to `x`, where the memory layout decides whether NumPy copied."""
    if not is_traced(x) or y is x or (x.base is None and x.ndim <= 1):
        return y

    def stale(_: Any) -> Any:
        raise MutationError(
            f"the result of np.{name} is read after the array it was made from was written; "
            "whether NumPy copied there depends on the memory layout",
            instead=f"np.{name}(x).copy() for the values before the write, or np.{name} again after it",
        )

    return type(y)(y.node, y.owner, base=x, view=stale)


def completed(a: Any, want: Shape) -> Shape:
    """Put the extent that is left of an array's in the place of -1.

    Raises:
        ShapeError: when the sizes do not fit.
    """
    old = shape_of(a)
    places = [k for k, d in enumerate(want) if type(d) is int and d < 0]
    refused = f"cannot reshape {shapes.show(old)} into {shapes.show(want)}"
    if not places:
        return want
    if len(places) > 1:
        raise ShapeError("can only specify one unknown dimension")
    total, known = shapes.size(old), shapes.size(tuple([d for k, d in enumerate(want) if k not in places]))
    left = _quotient(total, known)
    if left is None:
        raise ShapeError(f"{refused}: {total} elements are not a multiple of {known}")
    if type(known) is not int and is_traced(a):
        a.owner.require(0, known, f"{refused}: the extents beside -1 must not be 0")
    return (*want[: places[0]], left, *want[places[0] + 1 :])


def _quotient(total: Any, known: Any) -> Any:
    """Divide two sizes exactly, or return None."""
    if type(total) is int and type(known) is int:
        return None if known == 0 or total % known else total // known
    if type(known) is int and known == 0:
        return None
    import sympy

    left = sympy.cancel(total / known)
    return shapes.simplified(left) if sympy.fraction(left)[1] == 1 and left.is_integer else None


def _lifted(a: Any) -> Any:
    """Make an array of what NumPy makes one of here: a list, or a number of Python's."""
    a = lift(a)
    return an_array(a) if getattr(a, "weak", None) is not None else a


@answers(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    a = _lifted(a)
    given = newshape if shape is None else shape
    if given is None:
        return a
    given = dims(given)
    want = completed(a, given)
    _known_order("reshape", order)
    if order == "F":
        return np.transpose(_reshaped(np.transpose(a), want[::-1], "reshape", copy=copy))
    return _reshaped(a, want, "reshape", copy=copy)


def _reshaped(a: Any, want: Shape, name: str, *, copy: Any = None) -> Any:
    y = a if want == shape_of(a) else _perhaps_a_view(a, OPS["reshape"](a, shape=want), name)
    return fresh(y) if copy else y


def _known_order(function: str, order: str) -> None:
    if order not in {"C", "F"}:
        raise UnsupportedError(f"np.{function}(..., order={order!r}) depends on the memory layout", instead="C or F")


@answers(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    a = lift(a)
    _known_order("ravel", "C" if order == "K" and a.ndim <= 1 else order)
    a = np.transpose(a) if order == "F" else a
    if a.ndim == 1 and is_traced(a) and a.base is not None:  # a slice may have a step, and is copied then
        return _perhaps_a_view(a, fresh(a), "ravel")
    return _reshaped(a, (shapes.size(shape_of(a)),), "ravel")


@answers(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    a = lift(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axis = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normal_axes(axis, a.ndim + count, listed=True)
    return OPS["expand_dims"](a, axes=axes) if axes else a


@answers(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """As `numpy.squeeze`; an open extent is dropped nowhere: calls where it is 1 are compiled apart."""
    a = _lifted(a)
    have = shape_of(a)
    if axis is None:
        drops = f"np.squeeze drops an axis of extent 1, and {shapes.show(have)} has one in this call alone"
        axes = tuple([k for k, d in enumerate(have) if equal(d, 1, a, drops)])
    else:
        axes = normal_axes(axis, a.ndim)
    if any(have[k] != 1 for k in axes):
        raise ShapeError(f"np.squeeze of axis {axis} of {shapes.show(have)}: only an extent of 1 can be dropped")
    return OPS["squeeze"](a, axes=axes) if axes else a


@answers(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """As `numpy.broadcast_to`: a view, also of the same shape and of a number, that cannot be written."""
    array, want = lift(array), extents(shape)
    if not is_traced(array) and any(type(dim) is not int for dim in want):
        raise UnsupportedError(
            f"np.broadcast_to of a plain array to {shapes.show(want)}, which has open extents",
            instead="np.full(shape, array), which may be written too, or a product with np.ones(shape)",
        )
    if is_traced(array) and array.is_number:
        array = an_array(array)
    return OPS["broadcast_to"](array, shape=want)


@answers(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    arrays = [lift(a) for a in args]
    want = shapes.broadcast(*[shape_of(a) for a in arrays])
    like = next((a for a in arrays if is_traced(a)), None)
    return tuple([stretched(like, a, want) for a in arrays])


def _at_least(new: dict[int, tuple[int, ...]]) -> Any:
    """Answer with arrays that have axes inserted: which ones, by the rank of an array."""

    def at_least(*arys: Any) -> Any:
        found = [OPS["expand_dims"](a, axes=new[a.ndim]) if a.ndim in new else a for a in map(lift, arys)]
        return found[0] if len(found) == 1 else tuple(found)

    return at_least


answers(np.atleast_1d)(_at_least({0: (0,)}))
answers(np.atleast_2d)(_at_least({0: (0, 1), 1: (0,)}))
answers(np.atleast_3d)(_at_least({0: (0, 1, 2), 1: (0, 2), 2: (2,)}))


# -- axes


def reordered(a: Any, axes: tuple[int, ...]) -> Any:
    """Transpose, unless the axes are in order already."""
    return a if axes == tuple(range(len(axes))) else OPS["transpose"](a, axes=axes)


@answers(np.transpose)
def transpose(a: Any, axes: Any = None) -> Any:
    a = _lifted(a)
    if axes is None:
        return reordered(a, tuple(reversed(range(a.ndim))))
    given = axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,)
    if len(given) != a.ndim:
        raise ShapeError(f"axes don't match array: {len(given)} axes for {shapes.show(shape_of(a))}")
    order = tuple([normal_axis(k, a.ndim) for k in given])
    if len(set(order)) != len(order):
        raise ShapeError("repeated axis in transpose")
    return reordered(a, order)


@answers(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    a = lift(a)
    i, j = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return reordered(a, tuple(order))

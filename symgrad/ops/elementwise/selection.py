"""Choosing between two values, and converting one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DtypeError
from symgrad.ops.declare import spelling
from symgrad.ops.declare.calculus import sp
from symgrad.ops.declare.domains import SPECIAL, booleans, inf, integers, nan, normal
from symgrad.ops.declare.forms import INT, OPS, answers, elementwise

UNHELD = tuple([s * v for v in (1.5, 200.0, 300.0, 7e4, 2.0**31, 2.0**31 + 0.5, 3e9, 2.0**32, 5e9, 1e18, 2.0**63,
                                1.8e19, 2.0**64, 1e300) for s in (1, -1)])
"""Numbers that integers of some width do not hold."""


def _where_dtype(condition: np.dtype[Any], a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    if condition.kind != "b" or a != b:
        raise DtypeError(f"where of {condition.name}, {a.name}, {b.name}: bool and twice the same dtype are needed")
    return a


where = elementwise(
    numpy=np.where, arity=3, result=_where_dtype, value=lambda c, a, b: sp.Piecewise((a, sp.Ne(c, 0)), (b, True)),
    used=lambda _y, c, _a, _b: (None, c, np.logical_not(c)), logs=np.where,
    c={"fiub": "{0} ? {1} : {2}"}, sample=(booleans(), normal(), normal()),
    edges=((True, nan, 1.0), (False, nan, 1.0), (True, -0.0, inf), (False, 1.0, -inf)))


@answers(np.where)
def where_answer(condition: Any, /, *branches: Any) -> Any:
    """As `numpy.where` with three arguments; Python's numbers are weak."""
    if len(branches) != 2:
        return np.nonzero(condition)
    from symgrad.ops.arrays.copies import promoted
    from symgrad.ops.arrays.joining import lift

    condition = lift(condition)
    if condition.dtype.kind != "b":
        condition = np.not_equal(condition, 0)
    weak = [type(branch) in (int, float) for branch in branches]
    values = [branch if number else lift(branch) for branch, number in zip(branches, weak, strict=True)]
    dtype = promoted(*values)
    cast = [value if not hasattr(value, "dtype") or value.dtype == dtype else value.astype(dtype) for value in values]
    return where(condition, *[value if hasattr(value, "dtype") else np.asarray(value, dtype) for value in cast])


def piecewise(condition: Any, x: Any, safe: Any, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Any:
    """Return ``first(x)`` where a condition holds and ``second(x)`` elsewhere, each of ``safe`` in the other's places.

    The function that is taken has all of the slope. With clamps, ``first(np.minimum(x, c))``, it would have half of it
    at ``x == c``, where the derivative of a minimum is shared.
    """
    return np.where(condition, first(np.where(condition, x, safe)), second(np.where(condition, safe, x)))


def _convert(x: Any, dtype: Any) -> Any:
    """Convert to another dtype, as ``x.astype(dtype)``."""
    x, kind = np.asarray(x), np.dtype(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        return _chop(x, kind) if x.dtype.kind == "f" and kind.kind in "iu" else x.astype(kind)


def _chop(x: Any, kind: np.dtype[Any]) -> Any:
    """Cut floats to integers as the C does (`sg_int32` and its kin), and NumPy on x86-64 wherever it is consistent.

    What the integers on the way do not hold, NaN included, becomes their least; then bits are cut off, which wraps.
    """
    way = np.dtype(spelling.via(kind))
    if way.kind == "u":
        high = x >= 2.0**63
        return _chop(np.where(high, x - x.dtype.type(2.0**63), x), INT).view(way) ^ (high.astype(way) << np.uint64(63))
    limit = x.dtype.type(2.0 ** (8 * way.itemsize - 1))
    return np.where(np.abs(x) < limit, x, -limit).astype(way).astype(kind)


astype = elementwise(
    name="astype", params=("dtype",), numpy=_convert, result=lambda _x, dtype: np.dtype(dtype),
    vjp=lambda g, _y, x, dtype: OPS["astype"](g, dtype=x.dtype) if x.dtype.kind == "f" == g.dtype.kind else None,
    c={  # of a truth's cast to a number gcc 12 makes no lanes
        "fiub": "({t}){0}", "b>f": "{0} ? ({t})1 : ({t})0", **dict.fromkeys(["f>i", "f>u"], "({t})sg_{via}{f}({0})"),
    }, edges=(*SPECIAL, *UNHELD))


def _unchanged(x: Any) -> Any:
    """Return the value itself."""
    return np.asarray(x)


slope_of = elementwise(
    name="slope_of", numpy=_unchanged, result=lambda x: x, c={"fiub": "{0}"},
    doc="The value itself, which is the tangent of a cotangent: other such tangents do without its derivative.")

stop = elementwise(
    name="stop_gradient", numpy=_unchanged, result=lambda x: x, nondiff=True, c={"fiub": "{0}"},
    sample=integers(-3, 3))

is_used = elementwise(
    name="is_used", numpy=_unchanged, result=lambda x: x, nondiff=True, c={"b": "{0}"}, sample=booleans(),
    doc="A Boolean itself, which says of a cotangent that it is not 0, and so may be used.")

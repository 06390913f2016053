"""NumPy functions that are a few other NumPy functions: rounding, differences, comparisons."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from symgrad.ops.arrays.copies import fresh
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import (
    answers,
    fit,
    refuse,
    same_shape,
    shape_of,
)
from symgrad.ops.numpy.manipulation import static
from symgrad.ops.numpy.reductions import floating

# -- rounding


@answers(np.round, np.around)
def round_(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """As `numpy.round`, with derivative 0."""
    refuse("round", out=out)
    a, places = lift(a), operator.index(static("round", "decimals", decimals))
    if a.dtype.kind == "b":
        return a.astype(np.float16)  # NumPy's result, which symgrad refuses by name
    if a.dtype.kind != "f":
        if places >= 0:
            return fresh(a)
        tens = float(10**-places)  # half to even, through float64 as NumPy does
        return (np.rint(a / tens) * tens).astype(a.dtype)
    if places == 0:
        return np.rint(a)
    scale = np.asarray(10.0 ** abs(places), a.dtype)
    return np.rint(a * scale) / scale if places > 0 else np.rint(a / scale) * scale


@answers(np.divmod)
def divmod_(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


@answers(np.modf)
def modf(x: Any, /) -> tuple[Any, Any]:
    """As `numpy.modf`: 0, with the number's sign, is what is left of an infinite one."""
    x = lift(x)
    x = x.astype(np.modf.resolve_dtypes((x.dtype, None, None))[0])
    whole = np.trunc(x)
    return np.copysign(np.where(np.isinf(x), np.zeros((), x.dtype), x - whole), x), whole


def _is_infinite(name: str, which: float) -> Any:
    def is_infinite(x: Any, out: Any = None) -> Any:
        refuse(name, out=out)
        return np.equal(x, which)

    return is_infinite


answers(np.isposinf)(_is_infinite("isposinf", np.inf))
answers(np.isneginf)(_is_infinite("isneginf", -np.inf))

SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(10)]
"""The series of sin(a) / a in a * a: to the last digit where a < 1, with all its derivatives."""


@answers(np.sinc)
def sinc(x: Any) -> Any:
    """As `numpy.sinc`; near 0, where the derivatives of sin(a) / a cancel, by its series."""
    x = floating(x)
    angle = np.asarray(np.pi, x.dtype) * x
    near = np.abs(angle) < 1
    far = np.where(near, np.ones((), x.dtype), angle)
    small = np.square(np.where(near, angle, np.zeros((), x.dtype)))
    series = np.zeros_like(x)
    for factor in reversed(SINC):
        series = series * small + factor
    return np.where(near, series, np.sin(far) / far)


# -- differences


# -- comparing


@answers(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """As `numpy.array_equiv`: a traced bool, or False where the shapes do not broadcast."""
    a1, a2 = lift(a1), lift(a2)
    pairs = zip(reversed(shape_of(a1)), reversed(shape_of(a2)), strict=False)
    for one, other in pairs:
        if not any(fit(a1, a2, *pair) for pair in ((one, other), (one, 1), (other, 1))):
            return False
    return np.all(np.equal(a1, a2))


@answers(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """As `numpy.array_equal`: a traced bool, or False where the shapes differ."""
    a1, a2 = lift(a1), lift(a2)
    if not same_shape(a1, a2):
        return False
    same = np.equal(a1, a2)
    if equal_nan and a1.dtype.kind == a2.dtype.kind == "f":
        same = same | (np.isnan(a1) & np.isnan(a2))
    return np.all(same)

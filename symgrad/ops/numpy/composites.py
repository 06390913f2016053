"""NumPy functions that are a few other NumPy functions: rounding, differences, comparisons."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, IndexOutOfBounds, UnsupportedError
from symgrad.ops.arrays.copies import fresh, promoted
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import answers, extents_fit, refuse, same_shape, shape_of
from symgrad.ops.elementwise.selection import stop
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


answers(np.divmod)(lambda x1, x2, /: (np.floor_divide(x1, x2), np.remainder(x1, x2)))


@answers(np.modf)
def modf(x: Any, /) -> tuple[Any, Any]:
    """As `numpy.modf`: 0, with the number's sign, is what is left of an infinite one."""
    x = lift(x)
    x = x.astype(np.modf.resolve_dtypes((x.dtype, None, None))[0])
    whole = np.trunc(x)
    return np.copysign(np.where(np.isinf(x), np.zeros((), x.dtype), x - whole), x), whole


@answers(np.ldexp)
def ldexp(x1: Any, x2: Any, /) -> Any:
    """As `numpy.ldexp`: times a power of 2 in three parts, as it may overflow where the result does not."""
    x1, x2 = lift(x1), lift(x2)
    if x1.dtype.kind != "f" or x2.dtype.kind not in "ib":
        raise ArgumentError(
            f"np.ldexp of {x1.dtype} and {x2.dtype} on traced arrays", instead="a float's array, and integers")
    kind = np.ldexp.resolve_dtypes((x1.dtype, x2.dtype, None))[2]
    n = np.clip(x2.astype(np.int64), -3000, 3000)
    third = n // 3
    parts = [np.exp2(part.astype(kind)) for part in (third, third, n - 2 * third)]
    return x1.astype(kind) * parts[0] * parts[1] * parts[2]


@answers(np.frexp)
def frexp(x: Any, /) -> tuple[Any, Any]:
    """As `numpy.frexp`: a part in [0.5, 1) and the power of 2 that belongs to it."""
    x = lift(x)
    x = x.astype(np.frexp.resolve_dtypes((x.dtype, None, None))[0])
    normal = np.isfinite(x) & (x != 0)
    size = np.abs(np.where(normal, x, 1))
    small = size < np.finfo(x.dtype).tiny * 4
    size = np.where(small, size * 2.0**64, size)
    guess = np.floor(np.log2(size)).astype(np.int32) + 1
    part = ldexp(size, -guess)
    more, less = part >= 1, part < 0.5
    guess = guess + more - less - 64 * small
    part = np.where(more, part * 0.5, np.where(less, part * 2, part))
    return np.where(normal, np.copysign(part, x), x), np.where(normal, guess, 0).astype(np.int32)


@answers(np.spacing)
def spacing(x: Any, /) -> Any:
    """As `numpy.spacing`: how far the next number away from 0 is."""
    x = lift(x)
    x = x.astype(np.spacing.resolve_dtypes((x.dtype, None))[0])
    size = np.abs(x)
    up = np.nextafter(size, np.asarray(np.inf, x.dtype))
    gap = np.where(np.isinf(up), size - np.nextafter(size, np.asarray(0, x.dtype)), up - size)
    return stop(np.where(np.isinf(x), np.nan, np.copysign(gap, x)))


@answers(np.kaiser)
def kaiser(M: Any, beta: Any) -> Any:
    """As `numpy.kaiser` of a known number of points, with a derivative by beta."""
    count = operator.index(static("kaiser", "M", M))
    if count < 2:
        return np.ones(max(count, 0))
    half = (count - 1) / 2
    return np.i0(beta * np.sqrt(1 - ((np.arange(count) - half) / half) ** 2)) / np.i0(beta)


@answers(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """As `numpy.polydiv`; coefficients in front of the remainder that are 0 stay, but for those divided out."""
    u, v = np.atleast_1d(lift(u)) + 0.0, np.atleast_1d(lift(v)) + 0.0
    if u.ndim != 1 or v.ndim != 1:
        raise UnsupportedError("np.polydiv of traced arrays with several axes", instead="one of vectors")
    if not (len(u) and len(v)):
        raise IndexOutOfBounds("np.polydiv of no coefficients")
    steps, kind = len(u) - len(v) + 1, promoted(u, v)
    rest, found = u.astype(kind), []
    for _ in range(steps):
        found.append(rest[0] / v[0])
        rest = np.concatenate([rest[1 : len(v)] - found[-1] * v[1:], rest[len(v) :]])
    quotient = np.stack(found) if found else np.zeros(1, kind)
    return quotient, rest if len(rest) else np.zeros(1, kind)


@answers(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """As `numpy.polymul`; coefficients in front that are 0 stay, and without any a polynomial is 0."""
    one, other = [a if shape_of(a)[0] != 0 else np.zeros(1, a.dtype) for a in map(np.atleast_1d, map(lift, (a1, a2)))]
    return np.convolve(one, other)


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


# -- comparing


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


@answers(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """As `numpy.array_equiv`, which catches what does not broadcast: a traced bool, or False where shapes differ."""
    a1, a2 = lift(a1), lift(a2)
    pairs = zip(reversed(shape_of(a1)), reversed(shape_of(a2)), strict=False)
    for one, other in pairs:
        if not any(extents_fit(a1, a2, *pair) for pair in ((one, other), (one, 1), (other, 1))):
            return False
    return np.all(np.equal(a1, a2))

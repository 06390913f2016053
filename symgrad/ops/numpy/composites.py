"""NumPy functions that are a few other NumPy functions: rounding, differences, comparisons."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, DtypeError, ShapeError, UnsupportedError
from symgrad.ops.arrays.copies import fresh, promoted
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import (
    answers,
    fit,
    normal_axis,
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


@answers(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    ary = np.ravel(lift(ary))
    inner = ary[1:] - ary[:-1]
    parts = [np.ravel(lift(part)) for part in (to_begin, inner, to_end) if part is not None]
    return np.concatenate([part.astype(inner.dtype) for part in parts])


@answers(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """As `numpy.gradient`: differences of second order inside, of first or second order at the ends."""
    f = lift(f)
    if f.dtype.kind == "b":
        raise DtypeError("np.gradient of bool, of which NumPy takes no differences", instead="x.astype(np.float64)")
    f = floating(f)
    given = range(f.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple([normal_axis(k, f.ndim) for k in given])
    if len(set(axes)) != len(axes):
        raise ArgumentValueError("repeated axis")
    steps = [lift(step) if isinstance(step, (list, tuple)) else step for step in varargs]  # a number stays weak
    if len(steps) not in {0, 1, len(axes)} or (len(steps) == 1 < len(axes) and np.ndim(steps[0])):
        raise UnsupportedError("invalid number of arguments: give one distance, or one for each axis")
    if edge_order not in {1, 2}:
        raise ArgumentValueError("'edge_order' greater than 2 not supported")
    steps = steps * (len(axes) if len(steps) == 1 else 1) or [1.0] * len(axes)
    found = [_gradient_along(f, k, step, edge_order) for k, step in zip(axes, steps, strict=True)]
    return found[0] if len(axes) == 1 else tuple(found)


def _gradient_along(f: Any, k: int, step: Any, edge_order: int) -> Any:
    n = shape_of(f)[k]
    if type(n) is int and n < edge_order + 1:
        raise ArgumentValueError(f"np.gradient needs {edge_order + 1} elements or more along an axis of extent {n}")
    rank = np.ndim(step)
    if rank > 1 or (rank == 1 and shape_of(step)[0] != n):
        raise ShapeError("when 1d, distances must match the length of the corresponding dimension")
    dtype, f = f.dtype, np.moveaxis(f, k, -1)
    if rank and step.dtype.kind in "iu":  # whose differences may wrap
        step = step.astype(np.float64)
    if rank == 0:
        inside = (f[..., 2:] - f[..., :-2]) / (2.0 * step)
        ends = [step] * 4
    else:
        d = step[1:] - step[:-1]
        before, after = d[:-1], d[1:]
        both = before + after
        inside = (
            -after / (before * both) * f[..., :-2] + (after - before) / (before * after) * f[..., 1:-1]
            + before / (after * both) * f[..., 2:]
        )
        ends = [d[0], d[1] if edge_order > 1 else None, d[-1], d[-2] if edge_order > 1 else None]
    first = _end_difference([f[..., j] for j in range(edge_order + 1)], ends[0], ends[1], 1.0)
    last = _end_difference([f[..., -1 - j] for j in range(edge_order + 1)], ends[2], ends[3], -1.0)
    return np.moveaxis(np.concatenate([first[..., None], inside, last[..., None]], -1), -1, k).astype(dtype)


def _end_difference(f: list[Any], near: Any, far: Any, sign: float) -> Any:
    """Differentiate at an end from the two or three values next to it."""
    if len(f) == 2:
        return sign * (f[1] - f[0]) / near
    a = -(2.0 * near + far) / (near * (near + far))
    b = (near + far) / (near * far)
    c = -near / (far * (near + far))
    return sign * (a * f[0] + b * f[1] + c * f[2])


# -- comparing


@answers(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    a, b = lift(a), lift(b)
    rtol, atol = [value if type(value) in {int, float} else lift(value) for value in (rtol, atol)]
    if b.dtype.kind != "f":
        b = b.astype(promoted(b, 1.0))
    near = np.less_equal(np.abs(a - b), atol + rtol * np.abs(b)) & np.isfinite(b) | np.equal(a, b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


@answers(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """As `numpy.allclose`: a traced bool."""
    return np.all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


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
    """As `numpy.array_equiv`: a traced bool, or False where the shapes do not broadcast."""
    a1, a2 = lift(a1), lift(a2)
    pairs = zip(reversed(shape_of(a1)), reversed(shape_of(a2)), strict=False)
    for one, other in pairs:
        if not any(fit(a1, a2, *pair) for pair in ((one, other), (one, 1), (other, 1))):
            return False
    return np.all(np.equal(a1, a2))

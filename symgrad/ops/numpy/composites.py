"""NumPy functions that are a few other NumPy functions: rounding, clipping, differences, comparisons, polynomials."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, DtypeError, ShapeError, UnsupportedError
from symgrad.ir import shapes
from symgrad.ops.arrays.copies import filled, fresh, promoted, stretched
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import (
    OPS,
    UNSET,
    answers,
    fit,
    is_traced,
    normal_axes,
    normal_axis,
    refuse,
    same_shape,
    shape_of,
)
from symgrad.ops.numpy.manipulation import static
from symgrad.ops.numpy.reductions import floating

_clip: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined]  # noqa: SLF001 - the ufunc that np.clip calls

# -- rounding, clipping


@answers(np.clip)
def clip(
    a: Any, a_min: Any = UNSET, a_max: Any = UNSET, out: Any = None, *, min: Any = UNSET, max: Any = UNSET,
    **keywords: Any,
) -> Any:
    refuse("clip", out=out, **keywords)
    if not set(keywords) <= {"where", "dtype", "casting", "order", "subok", "signature"}:
        raise TypeError(f"clip() got an unexpected keyword argument {next(iter(keywords))!r}")
    if a_min is UNSET and a_max is UNSET:
        low, high = [None if bound is UNSET else bound for bound in (min, max)]
    elif a_min is UNSET or a_max is UNSET:
        missing = "a_min" if a_min is UNSET else "a_max"
        raise UnsupportedError(f"clip() missing 1 required positional argument: {missing!r}")
    elif min is not UNSET or max is not UNSET:
        raise ArgumentValueError("np.clip takes a_min and a_max, or min and max, not both")
    else:
        low, high = a_min, a_max
    a = lift(a)
    if a.dtype.kind in "iu":  # a Python integer beyond the dtype bounds nothing
        low = None if type(low) is int and low <= np.iinfo(a.dtype).min else low
        high = None if type(high) is int and high >= np.iinfo(a.dtype).max else high
    if low is None:
        return np.positive(a) if high is None else np.minimum(a, high)
    if high is None:
        return np.maximum(a, low)
    return _clip(a, low, high)


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


@answers(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    refuse("fix", out=out)
    x = lift(x)
    return np.trunc(x) if x.dtype.kind == "f" else fresh(x)


@answers(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """As `numpy.nan_to_num`; the derivative is 0 where a value is replaced."""
    x = lift(x)
    refuse("nan_to_num", copy=None if copy else copy)
    if x.dtype.kind != "f":
        return fresh(x)
    limits = np.finfo(x.dtype)
    values = [np.asarray(v, x.dtype) if not is_traced(v) else v.astype(x.dtype) for v in (
        nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)]
    bare = np.asarray(np.inf, x.dtype)
    finite = np.where(np.equal(x, bare), values[1], np.where(np.equal(x, -bare), values[2], x))
    return np.where(np.isnan(x), values[0], finite)


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


@answers(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = UNSET, append: Any = UNSET) -> Any:
    a, times = lift(a), operator.index(static("diff", "n", n))
    if times == 0:
        return a
    if times < 0:
        raise ArgumentValueError(f"order must be non-negative but got {times}")
    if a.ndim == 0:
        raise ShapeError("diff requires input that is at least one dimensional")
    k = normal_axis(axis, a.ndim)
    parts = [_edge(a, k, prepend), a, _edge(a, k, append)]
    kept = [p for p in parts if p is not None]
    a = np.concatenate(kept, k) if len(kept) > 1 else a
    for _ in range(times):
        later, earlier = _neighbours(a, k)
        a = np.not_equal(later, earlier) if a.dtype.kind == "b" else later - earlier
    return a


def _neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    """Return all elements but the first along an axis, and all but the last."""
    lead = (slice(None),) * axis
    later, earlier = (*lead, slice(1, None)), (*lead, slice(None, -1))
    return a[later], a[earlier]


def _edge(a: Any, axis: int, value: Any) -> Any:
    if value is UNSET:
        return None
    value = lift(value)
    have = shape_of(a)
    return value if value.ndim else stretched(a, value, (*have[:axis], 1, *have[axis + 1 :]))


def _cumulative(name: str, first: int, running: Any) -> Any:
    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False,
    ) -> Any:
        refuse(name, out=out)
        x = lift(x)
        if axis is None and x.ndim > 1:
            raise ShapeError("For arrays which have more than one dimension ``axis`` argument is required.")
        k = normal_axis(0 if axis is None else axis, x.ndim)
        totals = running(x, k, dtype)
        if not include_initial:
            return totals
        have = shape_of(totals)
        return np.concatenate([filled(totals, first, (*have[:k], 1, *have[k + 1 :]), totals.dtype), totals], k)

    return cumulative


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    answers(np.cumulative_sum)(_cumulative("cumulative_sum", 0, np.cumsum))
    answers(np.cumulative_prod)(_cumulative("cumulative_prod", 1, np.cumprod))


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
    axes = normal_axes(axis, f.ndim) if not isinstance(axis, tuple) else tuple([normal_axis(k, f.ndim) for k in axis])
    if len(set(axes)) != len(axes):
        raise ArgumentValueError("repeated axis")
    if len(varargs) not in {0, 1, len(axes)} or (len(varargs) == 1 < len(axes) and np.ndim(varargs[0])):
        raise UnsupportedError("invalid number of arguments: give one distance, or one for each axis")
    if edge_order not in {1, 2}:
        raise ArgumentValueError("'edge_order' greater than 2 not supported")
    steps = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    found = [_gradient(f, k, step, edge_order) for k, step in zip(axes, steps, strict=True)]
    return found[0] if len(axes) == 1 else tuple(found)


def _gradient(f: Any, k: int, step: Any, edge_order: int) -> Any:
    n = shape_of(f)[k]
    if type(n) is int and n < edge_order + 1:
        raise ArgumentValueError(f"np.gradient needs {edge_order + 1} elements or more along an axis of extent {n}")
    step = lift(step) if isinstance(step, (list, tuple)) else step  # a number stays weak
    rank = np.ndim(step)
    if rank > 1 or (rank == 1 and shape_of(step)[0] != n):
        raise ShapeError("when 1d, distances must match the length of the corresponding dimension")
    dtype, f = f.dtype, np.moveaxis(f, k, -1)
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


@answers(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    y = lift(y)
    k = normal_axis(axis, y.ndim)
    if x is None:
        width = dx
    else:
        x = lift(x)
        if x.ndim == 1:
            d = diff(x)
            width = OPS["expand_dims"](d, axes=tuple([j for j in range(y.ndim) if j != k])) if y.ndim > 1 else d
        else:
            width = diff(x, axis=axis)
    later, earlier = _neighbours(y, k)
    return np.sum(width * (later + earlier) / 2.0, axis=axis)  # x may have more axes than y


@answers(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """As `numpy.polyval`: Horner's rule."""
    p, x = lift(p), lift(x)
    count = shape_of(p)[0]
    if type(count) is not int:
        raise UnsupportedError("np.polyval of an unknown number of coefficients", instead="a number as the extent of p")
    y = np.zeros_like(x)
    for k in range(count):
        y = y * x + p[k]
    return y


# -- choosing, comparing


@answers(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """As `numpy.select`: the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ShapeError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ShapeError("select with an empty condition list is not possible")
    if any(lift(c).dtype.kind != "b" for c in condlist):
        raise UnsupportedError("invalid entries in condlist: they should be boolean arrays")
    dtype = promoted(*choicelist, default)
    values = [lift(v).astype(dtype) for v in (*choicelist, default)]
    result = values[-1]
    for condition, choice in zip(reversed(condlist), reversed(values[:-1]), strict=True):
        result = np.where(condition, choice, result)
    shape = shapes.broadcast(*[shape_of(lift(v)) for v in (*condlist, *values[:-1])])
    like = next((v for v in (*condlist, *values) if is_traced(v)), None)
    return fresh(stretched(like, result, shape))


@answers(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    a, b = lift(a), lift(b)
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

"""Medians and quantiles: elements of a sorted axis, and lines between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ops.arrays.indexing import gather
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.sorting import searchsorted
from symgrad.ops.declare.forms import UNSET, answers, is_traced, normal_axes, refuse, shape_of
from symgrad.ops.numpy.reductions import floating, keep_dims, require_some


def _one_last_axis(a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """Make one last axis of those that are reduced; return also which they were."""
    axes = normal_axes(axis, a.ndim)
    kept = a.ndim - len(axes)
    last = np.moveaxis(a, axes, range(kept, a.ndim))
    return last if len(axes) == 1 else np.reshape(last, (*last.shape[:kept], -1)), axes


def _numbers_present(a: Any) -> Any:
    """Count the elements of each row that are numbers."""
    return np.sum(~np.isnan(a), -1, keepdims=True)


def _picked(a: Any, places: Any) -> Any:
    """Take elements of the last axis: at the same places of each row, or where there are as many axes, of its own."""
    common = np.ndim(places) < max(a.ndim, 2)
    return gather(a, places, axes=(a.ndim - 1,)) if common else np.take_along_axis(a, places, -1)


# -- medians


def _median(*, skips: bool) -> Callable[..., Any]:
    def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
        refuse("median", out=out)
        a, axes = _one_last_axis(lift(a), axis)
        n = shape_of(a)[-1]
        if n == 0:
            return keep_dims(np.mean(a, -1), axes, UNSET if keepdims is False else keepdims)
        require_some(a, a.ndim - 1, "median")
        a = floating(np.sort(a, -1))
        if type(n) is int and not skips:
            low, high = [a[..., (n - k) // 2] for k in (1, 0)]
        else:
            number = _numbers_present(a) if skips else a.shape[-1] * np.ones(1, np.int64)
            low, high = [_picked(a, np.maximum(number - k, 0) // 2)[..., 0] for k in (1, 0)]
        made = low if type(n) is int and n % 2 and not skips else (low + high) / 2
        if not skips and a.dtype.kind == "f":  # NaN is the last one there
            made = np.where(np.isnan(a[..., -1]), a[..., -1], made)
        return keep_dims(made, axes, UNSET if keepdims is False else keepdims)

    return median


answers(np.median)(_median(skips=False))
answers(np.nanmedian, neutral={"a": np.nan})(_median(skips=True))


# -- quantiles


def _line(alpha: float, beta: float) -> Callable[..., Any]:
    """Return the place of a quantile, see R. Hyndman and Y. Fan, Sample Quantiles in Statistical Packages, 1996."""
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _step(shift: float, *, odd: bool) -> Callable[..., Any]:
    """Return the whole place above, or the one there: where that is odd, if it must be."""

    def place(n: Any, q: Any) -> Any:
        at = n * q - 1 - shift
        low = np.floor(at)
        return np.where((at == low) & ((low % 2 == 1) | (not odd)), low, low + 1)

    return place


PLACES: dict[str, Callable[..., Any]] = {
    "inverted_cdf": _step(0.0, odd=False), "closest_observation": _step(0.5, odd=True),
    "lower": lambda n, q: np.floor((n - 1) * q), "higher": lambda n, q: np.ceil((n - 1) * q),
    "nearest": lambda n, q: np.rint((n - 1) * q),
    "averaged_inverted_cdf": _line(0, 1), "interpolated_inverted_cdf": _line(0, 1), "hazen": _line(0.5, 0.5),
    "weibull": _line(0, 0), "linear": lambda n, q: (n - 1) * q, "median_unbiased": _line(1 / 3, 1 / 3),
    "normal_unbiased": _line(3 / 8, 3 / 8),
    "midpoint": lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)),
}
"""Where the quantile of n sorted elements stands among them, by method; of the first five it is an element."""

WHOLE = frozenset([*PLACES][:5])


def _weighted_quantiles(a: Any, q: Any, weights: Any, axis: Any, *, skips: bool) -> Any:
    """Take the first element where the sum of weights, of all that are not greater, comes to the quantile."""
    weights, one = lift(weights), np.ndim(weights) < a.ndim
    if skips and a.dtype.kind == "f":
        if one:
            (k,) = normal_axes(axis, a.ndim)
            weights, one = np.expand_dims(weights, tuple(j for j in range(a.ndim) if j != k)), False
        weights = np.where(np.isnan(a), 0, weights)
    a = _one_last_axis(a, axis)[0]
    order = np.argsort(a, -1, stable=True)
    own = gather(weights, order, axes=(0,)) if one else np.take_along_axis(_one_last_axis(weights, axis)[0], order, -1)
    a, sums = np.take_along_axis(a, order, -1), np.cumsum(own.astype(np.float64), -1)
    shares = sums / sums[..., -1][..., None]
    shares = np.where(shares == 0, -1.0, shares)
    wanted = q.astype(np.float64) + np.zeros_like(shares[..., 0])[..., None]
    return a, np.take_along_axis(a, np.minimum(searchsorted(shares, wanted, right=False), a.shape[-1] - 1), -1)


def _quantile(name: str, parts: int, *, skips: bool) -> Callable[..., Any]:
    def quantile(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: Any = False, *, weights: Any = None,
    ) -> Any:
        refuse(name, out=out)
        if method not in PLACES:
            raise ArgumentValueError(f"{method!r} is not a valid method. Use one of: {', '.join(PLACES)}")
        weak = type(q) in {int, float}
        a, q = lift(a), np.true_divide(lift(q), parts) if parts > 1 else lift(q)
        if not is_traced(q) and not np.all((q >= 0) & (q <= 1)):
            raise ArgumentValueError(f"{name}s must be in the range [0, {parts}]".capitalize())
        if a.dtype.kind == "b" and method not in WHOLE:
            raise ArgumentError("numpy boolean subtract, the `-` operator, is not supported")
        if skips and 0 in shape_of(a):
            return np.nanmean(a, axis, keepdims=keepdims)
        several, q = q.shape, np.ravel(q)
        axes = normal_axes(axis, a.ndim)
        if weights is not None:
            if method != "inverted_cdf":
                raise ArgumentValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
            a, made = _weighted_quantiles(a, q, weights, axis, skips=skips)
        else:
            a = np.sort(_one_last_axis(a, axis)[0], -1)
            require_some(a, a.ndim - 1, name)
            made = _quantiles_between(a, q, method, _numbers_present(a) if skips else a.shape[-1], weak=weak)
        if not skips and a.dtype.kind == "f":
            made = np.where(np.isnan(a[..., -1])[..., None], np.asarray(np.nan, a.dtype), made)
        if is_traced(q):
            made = np.where((q >= 0) & (q <= 1), made, np.asarray(np.nan, made.dtype))
        if keepdims is not False:
            made = np.expand_dims(made, axes)
        return np.reshape(np.moveaxis(made, -1, 0), (*several, *made.shape[:-1]))[()]

    return quantile


def _quantiles_between(a: Any, q: Any, method: str, number: Any, *, weak: bool) -> Any:
    """Return the quantiles of sorted rows, of each of which so many are counted."""
    if hasattr(number, "dtype") and q.dtype.kind == "f":
        number = number.astype(q.dtype)  # of rows that have NaN: no dtype of its own, as a length has none
    place = PLACES[method](number, q)
    low, last = np.floor(place), np.maximum(number - 1, 0)
    before, after = [_picked(a, np.minimum(np.maximum(low + k, 0), last).astype(np.int64)) for k in (0, 1)]
    if method in WHOLE:
        return before
    share = place - low
    if method == "averaged_inverted_cdf":
        share = np.where(share == 0, 0.5, 1.0).astype(share.dtype)
    share = share.astype(a.dtype) if weak and a.dtype.kind == "f" else share
    rise = after - before
    return np.where(share >= 0.5, after - rise * (1 - share), before + rise * share)


for _skips, _prefix in ((False, ""), (True, "nan")):
    for _word, _parts in (("quantile", 1), ("percentile", 100)):
        _function: Any = getattr(np, _prefix + _word)
        answers(_function, neutral={"a": np.nan} if _skips else None)(_quantile(_word, _parts, skips=_skips))

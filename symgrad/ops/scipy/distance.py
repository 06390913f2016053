"""Answers for scipy.spatial.distance: each metric as a function of two arrays along their last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, shape_of


def _weighted(term: Any, w: Any) -> Any:
    return np.sum(term if w is None else w * term, axis=-1)


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return 1 - _weighted(u * v, w) / np.sqrt(_weighted(u * u, w) * _weighted(v * v, w))


def _correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    if centered:
        u, v = [x - np.expand_dims(_weighted(x, w), -1) / _size(u, w) for x in (u, v)]
    return _cosine(u, v, w)


def _share(part: Any, total: Any) -> Any:
    return np.where(total == 0, 0, part / np.where(total == 0, 1, total))


def _common(u: Any, v: Any, w: Any) -> Any:
    return _weighted((u if u.dtype.kind == "f" else u.astype(np.float64)) * v, w)


def _of_counts(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Make a distance of how much is true in both, in the first alone, in the second alone, and in neither."""

    def distance(u: Any, v: Any, w: Any = None) -> Any:
        return formula(*[_common(one, other, w) for one in (u, 1.0 - u) for other in (v, 1.0 - v)])

    return distance


def _size(u: Any, w: Any) -> Any:
    return u.shape[-1] if w is None else np.sum(w)


def _jaccard(u: Any, v: Any, w: Any = None) -> Any:
    """Compare truth values; before SciPy 1.15 it was values, of which one is not 0."""
    truth = tuple(map(int, import_module("scipy").__version__.split(".")[:2])) >= (1, 15)
    unequal = (u != 0) != (v != 0) if truth else u != v
    return _share(_weighted(1.0 * unequal, w), _weighted(1.0 * ((u != 0) | (v != 0)), w))


METRICS: dict[str, Callable[..., Any]] = {
    "euclidean": lambda u, v, w=None: np.linalg.norm(u - v if w is None else np.sqrt(w) * (u - v), axis=-1),
    "sqeuclidean": lambda u, v, w=None: _weighted(np.square(u - v), w),
    "cityblock": lambda u, v, w=None: _weighted(np.abs(u - v), w),
    "chebyshev": lambda u, v, w=None: np.max(np.abs(u - v) if w is None else np.abs(u - v) * (w > 0), axis=-1),
    "minkowski": lambda u, v, p=2, w=None: np.linalg.norm(
        np.abs(u - v) if w is None else np.abs(u - v) * np.power(w, 1 / p), p, axis=-1),
    "cosine": _cosine, "correlation": _correlation,
    "canberra": lambda u, v, w=None: _weighted(_share(np.abs(u - v), np.abs(u) + np.abs(v)), w),
    "braycurtis": lambda u, v, w=None: _weighted(np.abs(u - v), w) / _weighted(np.abs(u + v), w),
    "seuclidean": lambda u, v, V: np.linalg.norm((u - v) / np.sqrt(V), axis=-1),
    "mahalanobis": lambda u, v, VI: np.sqrt(np.sum(((u - v) @ VI) * (u - v), axis=-1)),
    "hamming": lambda u, v, w=None: _weighted(1.0 * (u != v), w) / _size(u, w), "jaccard": _jaccard,
    "jensenshannon": lambda p, q, base=None: Late("spatial.distance.jensenshannon")(p, q, base, axis=-1),
    "dice": _of_counts(lambda both, one, other, _none: (one + other) / (2 * both + (one + other))),
    "rogerstanimoto": _of_counts(
        lambda both, one, other, none: 2 * (one + other) / (both + none + 2 * (one + other))),
    "sokalsneath": _of_counts(lambda both, one, other, _none: 2 * (one + other) / (both + 2 * (one + other))),
    "russellrao": lambda u, v, w=None: (_size(u, w) - _common(u, v, w)) / _size(u, w),
    "yule": _of_counts(lambda both, one, other, none: _share(2 * (one * other), both * none + one * other)),
}
"""The distances that are answered, by the names of SciPy's functions."""

TRUTH = frozenset({"rogerstanimoto", "russellrao", "sokalsneath", "yule"})
"""Those for which `cdist` and `pdist` take the truth of numbers."""


for _name, _metric in METRICS.items():
    if _name != "jensenshannon":  # whose own Python is traced
        answers(Late(f"spatial.distance.{_name}"))(
            lambda u, v, *args, metric=_metric, **kwargs: metric(lift(u), lift(v), *args, **kwargs))


def known_extent(extent: Any) -> int:
    if type(extent) is not int:
        raise ShapeError(f"pairs of points need their number, which is not known: {extent}")
    return extent


@answers(Late("spatial.distance.squareform"))
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    x = lift(X)
    if x.ndim == 1:
        pairs = known_extent(shape_of(x)[0])
        n = (1 + math.isqrt(1 + 8 * pairs)) // 2
        if n * (n - 1) // 2 != pairs:
            raise ShapeError(f"squareform of {pairs} distances, which are not those between any number of points")
        places = np.zeros((n, n), np.int64)
        places[np.triu_indices(n, 1)] = np.arange(pairs)
        return np.where(np.eye(n, dtype=bool), 0, x[places + places.T]) if pairs else np.zeros((1, 1), x.dtype)
    return x[np.triu_indices(known_extent(shape_of(x)[0]), 1)]

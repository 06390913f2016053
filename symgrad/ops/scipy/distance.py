"""Answers for scipy.spatial.distance: each metric as a function of two arrays along their last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, shape_of


def _weighted(term: Any, w: Any) -> Any:
    return np.sum(term if w is None else w * term, axis=-1)


def _minkowski(u: Any, v: Any, p: float = 2, w: Any = None) -> Any:
    apart = np.abs(u - v) if w is None else np.abs(u - v) * np.power(w, 1 / p)
    return np.linalg.norm(apart, p, axis=-1)


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return 1 - _weighted(u * v, w) / np.sqrt(_weighted(u * u, w) * _weighted(v * v, w))


def _correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    total = u.shape[-1] if w is None else np.sum(w)

    def middle(x: Any) -> Any:
        return x - np.expand_dims(_weighted(x, w), -1) / total

    return _cosine(middle(u), middle(v), w) if centered else _cosine(u, v, w)


def _canberra(u: Any, v: Any, w: Any = None) -> Any:
    size = np.abs(u) + np.abs(v)
    return _weighted(np.where(size == 0, 0, np.abs(u - v) / np.where(size == 0, 1, size)), w)


METRICS: dict[str, Callable[..., Any]] = {
    "euclidean": lambda u, v, w=None: np.linalg.norm(u - v if w is None else np.sqrt(w) * (u - v), axis=-1),
    "sqeuclidean": lambda u, v, w=None: _weighted(np.square(u - v), w),
    "cityblock": lambda u, v, w=None: _weighted(np.abs(u - v), w),
    "chebyshev": lambda u, v, w=None: np.max(np.abs(u - v) if w is None else np.abs(u - v) * (w > 0), axis=-1),
    "minkowski": _minkowski, "cosine": _cosine, "correlation": _correlation, "canberra": _canberra,
    "braycurtis": lambda u, v, w=None: _weighted(np.abs(u - v), w) / _weighted(np.abs(u + v), w),
    "seuclidean": lambda u, v, V: np.linalg.norm((u - v) / np.sqrt(V), axis=-1),
    "mahalanobis": lambda u, v, VI: np.sqrt(np.sum(((u - v) @ VI) * (u - v), axis=-1)),
}
"""The distances that are answered, by the names of SciPy's functions."""

_ALSO = {
    "euclid": "euclidean", "l2": "euclidean", "sqeuclid": "sqeuclidean", "manhattan": "cityblock", "l1": "cityblock",
    "linf": "chebyshev", "cheby": "chebyshev", "p": "minkowski", "cos": "cosine", "mahal": "mahalanobis",
}


def _of_two(name: str) -> Callable[..., Any]:
    return lambda u, v, *args, **kwargs: METRICS[name](lift(u), lift(v), *args, **kwargs)


for _name in METRICS:
    answers(Late(f"spatial.distance.{_name}"))(_of_two(_name))


def _metric(function: str, metric: Any) -> Callable[..., Any]:
    name = _ALSO.get(metric, metric) if isinstance(metric, str) else getattr(metric, "__name__", "")
    found = METRICS.get(name)
    if found is None:
        raise UnsupportedError(
            f"scipy.spatial.distance.{function}(..., metric={metric!r}) of traced arrays",
            instead=f"one of the metrics {', '.join(sorted(METRICS))}",
        )
    return found


def _point_sets(function: str, x: Any) -> Any:
    x = lift(x)
    if x.ndim != 2:
        raise ShapeError(f"scipy.spatial.distance.{function} needs a matrix with a point in each row")
    return x if x.dtype.kind == "f" else x.astype(np.float64)


@answers(Late("spatial.distance.cdist"))
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    a, b = _point_sets("cdist", XA), _point_sets("cdist", XB)
    return _metric("cdist", metric)(a[:, None, :], b[None, :, :], **_with_variances(kwargs, metric, (a, b)))


@answers(Late("spatial.distance.pdist"))
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    x = _point_sets("pdist", X)
    first, second = np.triu_indices(_known_extent(shape_of(x)[0]), 1)
    return _metric("pdist", metric)(x[first], x[second], **_with_variances(kwargs, metric, (x,)))


def _with_variances(kwargs: dict[str, Any], metric: Any, points: tuple[Any, ...]) -> dict[str, Any]:
    """Add the variances that SciPy takes from the points where none are given."""
    if metric == "seuclidean" and kwargs.get("V") is None:
        return {"V": np.var(np.concatenate(points), axis=0, ddof=1)}
    if metric in {"mahalanobis", "mahal"} and kwargs.get("VI") is None:
        return {"VI": np.transpose(np.linalg.inv(np.cov(np.transpose(np.concatenate(points)))))}
    return kwargs


def _known_extent(extent: Any) -> int:
    if type(extent) is not int:
        raise ShapeError(f"pairs of points need their number, which is not known: {extent}")
    return extent


@answers(Late("spatial.distance.squareform"))
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    x = lift(X)
    if x.ndim == 1:
        pairs = _known_extent(shape_of(x)[0])
        n = (1 + math.isqrt(1 + 8 * pairs)) // 2
        if n * (n - 1) // 2 != pairs:
            raise ShapeError(f"squareform of {pairs} distances, which are not those between any number of points")
        places = np.zeros((n, n), np.int64)
        places[np.triu_indices(n, 1)] = np.arange(pairs)
        return np.where(np.eye(n, dtype=bool), 0, x[places + places.T]) if pairs else np.zeros((1, 1), x.dtype)
    return x[np.triu_indices(_known_extent(shape_of(x)[0]), 1)]

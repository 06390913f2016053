"""`scipy.spatial.distance.cdist` and `pdist` on traced arrays: metrics by name, and users' functions of two vectors.

A metric by name is computed for all pairs at once. A function is mapped over them: it is traced for one pair.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from symgrad.api.modes.vmap import vmap
from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, shape_of
from symgrad.ops.scipy.distance import METRICS, TRUTH, known_extent


@answers(Late("spatial.distance.cdist"))
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", **kwargs: Any) -> Any:
    """Return the distances of each point of one set to each of another one."""
    a, b = _point_sets("cdist", XA, XB)
    if shape_of(a)[1] != shape_of(b)[1]:
        raise ShapeError(f"scipy.spatial.distance.cdist of points with {a.shape[1]} and {b.shape[1]} coordinates")
    (a, b), of_pairs = _distance("cdist", metric, (a, b), kwargs)
    if callable(metric):
        return vmap(vmap(of_pairs, (None, 0)), (0, None))(a, b)
    return of_pairs(a[:, None, :], b[None, :, :])


@answers(Late("spatial.distance.pdist"))
def pdist(X: Any, metric: Any = "euclidean", **kwargs: Any) -> Any:
    """Return the distances of each point to each that comes behind it."""
    (x,), of_pairs = _distance("pdist", metric, _point_sets("pdist", X), kwargs)
    first, second = np.triu_indices(known_extent(shape_of(x)[0]), 1)
    if callable(metric) and not first.size:
        return np.zeros(0)
    return (vmap(of_pairs) if callable(metric) else of_pairs)(x[first], x[second])


def _point_sets(function: str, *sets: Any) -> tuple[Any, ...]:
    points = tuple(map(lift, sets))
    if any(x.ndim != 2 for x in points):
        raise ShapeError(f"scipy.spatial.distance.{function} needs a matrix with a point in each row")
    return points


def _distance(
    function: str, metric: Any, points: tuple[Any, ...], given: dict[str, Any],
) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """Return points as a metric takes them, and what it says of two: by its name what is missing is added, as SciPy's.

    A function of the user's that is called as one of SciPy's metrics gets the same settings, but is no other one.
    """
    if not callable(metric) and not isinstance(metric, str):
        raise ArgumentError(f"scipy.spatial.distance.{function}(..., metric={metric!r})", instead=_REMEDY)
    said = getattr(metric, "__name__", "") if callable(metric) else metric.lower()
    known = import_module("scipy.spatial.distance")._METRIC_ALIAS.get(said)  # noqa: SLF001 - names differ by version
    name = getattr(known, "canonical_name", "")
    if name:
        truth = name in TRUTH or (callable(metric) and known.types == ["bool"])
        points = tuple([(x != 0 if truth else x.astype(np.float64)) if x.dtype.kind != "b" else x for x in points])
        given = _with_defaults(name, points, given)
    if callable(metric):
        def of_two(u: Any, v: Any) -> Any:
            found = lift(metric(u, v, **given))
            if found.shape:
                raise ShapeError(
                    f"the metric {said}() returns shape {found.shape} for two points",
                    instead="one number: np.sum(...) or np.linalg.norm(...) of what it has computed",
                )
            return found.astype(np.float64)

        of_two.__name__ = said or of_two.__name__
        return points, of_two
    if not name:
        raise ArgumentValueError(f"scipy.spatial.distance has no metric {metric!r}", instead=_REMEDY)
    if name not in METRICS or (name == "dice" and given.get("w") is not None):  # which counts numbers in two ways
        raise UnsupportedError(
            f"scipy.spatial.distance.{function}(..., metric={metric!r}{', w=' * (name in METRICS)}) of traced arrays",
            instead="metric=scipy.spatial.distance.dice, of truth values" if name in METRICS else _REMEDY,
        )
    return points, lambda u, v: METRICS[name](u, v, **given)


_REMEDY = f"a function of two vectors, metric=lambda u, v: ..., or one of {', '.join(sorted(METRICS))}"


def _with_defaults(name: str, points: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Add the variances that SciPy takes from the points where none are given, and the order of a norm."""
    if name == "seuclidean" and given.get("V") is None:
        return {**given, "V": np.var(np.concatenate(points), axis=0, ddof=1)}
    if name == "mahalanobis" and given.get("VI") is None:
        return {**given, "VI": np.transpose(np.linalg.inv(np.cov(np.transpose(np.concatenate(points)))))}
    return {"p": 2.0, **given} if name == "minkowski" else given


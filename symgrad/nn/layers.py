"""Layers of one product, one table or one mean: dense, embedding, normalization, dropout, attention."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError

_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-32


def dense(params: Mapping[str, Any], x: Any) -> Any:
    """Return ``x @ W + b``.

    Args:
        params: ``W`` of shape (in, out), and ``b`` of shape (out,) unless there is none.
        x: of shape (..., in).

    Returns:
        Of shape (..., out).

    Raises:
        ArgumentValueError: `x` has another last axis than ``W`` has rows, or ``b`` is no vector of its columns.

    >>> dense({"W": np.array([[1.0], [2.0]]), "b": np.array([0.5])}, np.array([[3.0, 4.0]]))
    array([[11.5]])
    """
    (W,) = parameters("dense", params, "W")
    check_shapes("dense", x, W, np.shape(x)[-1:], np.shape(W)[:1])
    return with_bias("dense", params, x @ W)


def embedding(params: Mapping[str, Any], ids: Any) -> Any:
    """Return the rows of a table: ``E[ids]``, of shape (*ids.shape, width); an id out of range raises IndexError.

    >>> embedding({"E": np.array([[0.0, 1.0], [2.0, 3.0]])}, np.array([1, 1]))
    array([[2., 3.],
           [2., 3.]])
    """
    (E,) = parameters("embedding", params, "E")
    return E[ids]


def batch_norm(
    params: Mapping[str, Any], statistics: Mapping[str, Any], x: Any, training: bool, momentum: float = 0.99,
    eps: float = 1e-3,
) -> tuple[Any, dict[str, Any]]:
    """Normalize each feature over a batch: ``scale * (x - mean) / sqrt(var + eps) + bias`` (S. Ioffe, 2015).

    Args:
        params: ``scale`` and ``bias`` of shape (features,).
        statistics: ``mean`` and ``var`` of shape (features,), to begin with zeros and ones.
        x: of shape (..., features).
        training: whether the batch's own mean and variance (of n, not n - 1) are taken, and the statistics follow them;
            else the statistics are taken, and stay.
        momentum: how much of the statistics stays: ``momentum * mean + (1 - momentum) * batch_mean``.
        eps: what is added to the variance. The defaults are TensorFlow's.

    Returns:
        What has been normalized, and the statistics for the next step: state is what is passed on, nothing hides it.

    Raises:
        ArgumentValueError: parameters or statistics are no vectors of the last axis.

    >>> params, statistics = {"scale": np.ones(1), "bias": np.zeros(1)}, {"mean": np.zeros(1), "var": np.ones(1)}
    >>> y, statistics = batch_norm(params, statistics, np.array([[1.0], [3.0]]), True, momentum=0.9, eps=0.0)
    >>> y.ravel(), statistics["mean"]
    (array([-1.,  1.]), array([0.2]))
    """
    scale, bias = parameters("batch_norm", params, "scale", "bias")
    mean, var = parameters("batch_norm", statistics, "mean", "var", what="statistics")
    for one in (scale, bias, mean, var):
        check_shapes("batch_norm", x, one, np.shape(x)[-1:], np.shape(one))
    if training:
        axes = tuple(range(np.ndim(x) - 1))
        mean, var = np.mean(x, axis=axes), np.var(x, axis=axes)
        statistics = {
            "mean": momentum * statistics["mean"] + (1.0 - momentum) * mean,
            "var": momentum * statistics["var"] + (1.0 - momentum) * var,
        }
    return (x - mean) * (scale / np.sqrt(var + eps)) + bias, dict(statistics)


def layer_norm(params: Mapping[str, Any], x: Any, eps: float = 1e-3) -> Any:
    """Normalize each example over its features: ``scale * (x - mean) / sqrt(var + eps) + bias`` (J. Ba et al., 2016).

    Args:
        params: ``scale`` and ``bias`` of shape (features,).
        x: of shape (..., features).
        eps: what is added to the variance.

    Raises:
        ArgumentValueError: the parameters are no vectors of the last axis.

    >>> layer_norm({"scale": np.ones(2), "bias": np.zeros(2)}, np.array([1.0, 3.0]), eps=0.0)
    array([-1.,  1.])
    """
    scale, bias = parameters("layer_norm", params, "scale", "bias")
    for one in (scale, bias):
        check_shapes("layer_norm", x, one, np.shape(x)[-1:], np.shape(one))
    off = x - np.mean(x, axis=-1, keepdims=True)
    return off / np.sqrt(np.mean(off * off, axis=-1, keepdims=True) + eps) * scale + bias


def dropout(x: Any, rate: float, seed: int, step: Any) -> Any:
    """Set a share of the elements to 0 and multiply the others by ``1 / (1 - rate)`` (N. Srivastava et al., 2014).

    Which ones is a function of `seed`, `step` and the element's place alone, the same on every platform and for every
    number of threads: the counter-based generator "squares" (B. Widynski, 2020, arXiv:2004.06278), keyed by rounds of
    splitmix64 (G. Steele et al., 2014). Give each layer a seed of its own, and each step its number; in evaluation do
    not call it.

    Args:
        x: of any shape.
        rate: the share, 0 <= rate < 1; a traced one is not looked at.
        seed: of the layer, an integer >= 0, which is fixed where a function is compiled.
        step: of the training, an integer, which may be traced.

    Raises:
        ArgumentValueError: the rate is not in [0, 1), or seed or step is no such integer.

    >>> dropout(np.ones(8), 0.5, seed=1, step=0)
    array([0., 0., 0., 2., 0., 2., 0., 0.])
    """
    if is_known(rate) and not 0.0 <= rate < 1.0:
        raise ArgumentValueError(f"dropout(rate={rate})", instead="0 <= rate < 1")
    if not (is_known(seed) and isinstance(seed, (int, np.integer))) or not 0 <= seed < 2**64:
        raise ArgumentValueError(
            f"dropout(seed={seed!r})", instead="an integer from 0 to 2**64 - 1, of the layer; `step` is what may change"
        )
    if not isinstance(step, int) and getattr(step, "dtype", np.dtype(object)).kind not in "iu":
        raise ArgumentValueError(f"dropout(step={step!r})", instead="an integer")
    kept = _uniform_at(np.shape(x), seed, step) >= rate
    return np.where(kept, x, 0.0) * (1.0 / (1.0 - rate))


def _uniform_at(shape: tuple[int, ...], seed: int, step: Any) -> Any:
    """Draw from [0, 1), 32 bits each, by seed, step and place."""
    with np.errstate(over="ignore"):  # all is modulo 2**64
        key = _mixed(_mixed(np.full(1, seed, np.uint64)) + np.add(step, 0).astype(np.uint64)) | np.uint64(1)
        y = np.arange(prod(shape), dtype=np.uint64) * key
        z = y + key
        v = _halves_exchanged(y * y + y)
        v = _halves_exchanged(v * v + z)
        v = _halves_exchanged(v * v + y)
        return ((v * v + z) >> np.uint64(32)).astype(np.float64).reshape(shape) * _TO_UNIT


def _mixed(x: Any) -> Any:
    """Do a round of splitmix64."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX1
    x = (x ^ (x >> np.uint64(27))) * _MIX2
    return x ^ (x >> np.uint64(31))


def _halves_exchanged(x: Any) -> Any:
    """Exchange the halves of 64 bits."""
    return (x >> np.uint64(32)) | (x << np.uint64(32))


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Return ``softmax(q @ k.T / sqrt(width)) @ v`` (A. Vaswani et al., 2017).

    Args:
        q: of shape (..., queries, width).
        k: of shape (..., keys, width).
        v: of shape (..., keys, out).
        mask: booleans that broadcast to (..., queries, keys): which keys a query sees. One that sees none gets zeros,
            as all do where there are no keys.

    Returns:
        Of shape (..., queries, out).

    Raises:
        ArgumentValueError: queries and keys have different widths, there are more keys than values, or the mask is one
            of floats, as those that are added to scores.

    >>> see = np.tri(2, dtype=bool)  # each sees itself and those before it
    >>> attention(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[2.0], [4.0]]), see).ravel()
    array([2., 3.])
    """
    check_shapes("attention", q, k, np.shape(q)[-1:], np.shape(k)[-1:])
    check_shapes("attention", k, v, np.shape(k)[-2:-1], np.shape(v)[-2:-1])
    scores = q @ np.swapaxes(k, -1, -2) / np.shape(q)[-1] ** 0.5
    if mask is None:
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True, initial=-np.inf))  # of no keys, too
        return weights / np.sum(weights, axis=-1, keepdims=True) @ v
    if getattr(mask, "dtype", np.dtype(bool)).kind not in "biu":
        raise ArgumentValueError(f"attention: a mask of dtype {mask.dtype}", instead="booleans: what a query sees")
    any_seen = np.any(mask, axis=-1, keepdims=True)
    seen = np.where(mask, scores, -np.inf)
    most = np.where(any_seen, np.max(seen, axis=-1, keepdims=True, initial=-np.inf), 0.0)
    weights = np.exp(seen - most)
    return weights / np.where(any_seen, np.sum(weights, axis=-1, keepdims=True), 1.0) @ v


def is_known(value: Any) -> bool:
    """Whether a number or an array is Python's or NumPy's, and no traced one."""
    return type(value).__module__ in {"builtins", "numpy"}


def parameters(layer: str, params: Mapping[str, Any], *names: str, what: str = "parameters") -> list[Any]:
    """Return what a layer reads of its parameters by these names, or refuse with the names that are there."""
    try:
        return [params[name] for name in names]
    except (LookupError, TypeError):
        is_dict = isinstance(params, Mapping)
        missing = " and ".join([repr(name) for name in names if not is_dict or name not in params])
        there = ", ".join(map(repr, params)) if is_dict else ""
        raise ArgumentValueError(
            f"{layer}: {what} without {missing}" + (f", with {there}" if is_dict else ", which are no dict"),
            instead=f"a dict with {', '.join(map(repr, names))}; the layer's docstring says which ({layer}.__doc__)",
        ) from None


def with_bias(layer: str, params: Mapping[str, Any], y: Any) -> Any:
    """Add ``b``, unless there is none."""
    if "b" not in params:
        return y
    check_shapes(layer, y, params["b"], np.shape(y)[-1:], np.shape(params["b"]))
    return y + params["b"]


def check_shapes(layer: str, x: Any, of: Any, mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    """Refuse what does not fit, with both shapes."""
    if mine != theirs:
        raise ArgumentValueError(
            f"{layer}: an array of shape {np.shape(x)} meets one of shape {np.shape(of)}, and {mine} is not {theirs}",
            instead=f"extents that agree; the layer's docstring says which ({layer}.__doc__)",
        )

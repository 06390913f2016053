"""Links of a chain that change gradients, and the moving average of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.api.sparse.rows import RowSparse
from symgrad.api.trees import tree_map
from symgrad.optim.methods import elementwise
from symgrad.optim.optimizer import Link, Optimizer

Number = float | Callable[[Any], Any]


def clip_by_value(limit: Number) -> Optimizer:
    """Bring every element of the gradients between ``-limit`` and ``limit``."""
    return _changing(lambda grads, h: _each(lambda g: np.clip(g, -h["limit"], h["limit"]), grads), limit=limit)


def clip_by_norm(max_norm: Number) -> Optimizer:
    """Shorten each gradient whose Euclidean norm is longer than `max_norm`."""
    return _changing(lambda grads, h: _each(lambda g: g * _norm_scale([g], h["max_norm"]), grads), max_norm=max_norm)


def clip_by_global_norm(max_norm: Number) -> Optimizer:
    """Shorten all gradients alike if the Euclidean norm of all together is longer than `max_norm`.

    Zeros stay zeros; where one is NaN, all are.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.chain(sg.optim.clip_by_global_norm(6.5), sg.optim.sgd(1.0))
    >>> params = {"a": np.zeros(2), "b": np.zeros(1)}
    >>> opt.update(params, {"a": np.array([3.0, 4.0]), "b": np.array([12.0])}, opt.init(params))[0]
    {'a': array([-1.5, -2. ]), 'b': array([-6.])}
    """
    def clipped(grads: Any, h: Any) -> Any:
        leaves: list[Any] = []
        tree_map(lambda g: leaves.append(g.rows if isinstance(g, RowSparse) else g), grads)
        scale = _norm_scale(leaves, h["max_norm"])
        return _each(lambda g: g * scale, grads)

    return _changing(clipped, max_norm=max_norm)


def ema(decay: Number) -> Optimizer:
    """Keep a moving average of the parameters, behind what changes them: ``decay * ema + (1 - decay) * p``.

    It begins with the parameters, and is in the state as ``ema``.
    """
    def step(p: Any, _g: Any, _t: Any, h: Any, mean: Any) -> tuple[Any, ...]:
        return p, h["decay"] * mean + (1.0 - h["decay"]) * p

    return elementwise(step, {"ema": None}, decay=decay)


def _changing(change: Callable[[Any, Any], Any], **hyper: Number) -> Optimizer:
    link = Link(lambda _: {}, lambda params, grads, state, _, h: (params, change(grads, h), state), hyper, rows=True)
    return Optimizer((link,))


def _each(function: Callable[[Any], Any], grads: Any) -> Any:
    """Apply a function that keeps zeros to each gradient, or to its rows."""
    return tree_map(lambda g: g.map(function) if isinstance(g, RowSparse) else function(g), grads)


def _norm_scale(grads: list[Any], most: Any) -> Any:
    """Return what brings the norm of some arrays down to `most`."""
    norm = sum([np.sum(g * g) for g in grads]) ** 0.5
    return most / np.maximum(norm, most)

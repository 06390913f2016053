"""Losses of logits, each without a logarithm of something that has become 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import stop_gradient
from symgrad.errors import ArgumentValueError, IndexOutOfBounds
from symgrad.nn.layers import is_known


def softmax_cross_entropy(logits: Any, targets: Any) -> Any:
    """Return ``-log(softmax(logits))`` of each example's label, or its mean under probabilities.

    Args:
        logits: of shape (..., classes).
        targets: integer labels of shape (...), from 0 on, or probabilities of shape (..., classes), whose sums are 1.

    Returns:
        Of shape (...): one number an example.

    Raises:
        ArgumentValueError: the shapes do not fit.
        IndexOutOfBounds: a label is no class.

    >>> np.round(softmax_cross_entropy(np.array([[0.0, 0.0], [1000.0, 0.0]]), np.array([0, 1])), 4)
    array([6.931e-01, 1.000e+03])
    """
    if (logits.dtype if hasattr(logits, "dtype") else np.asarray(logits).dtype).kind in "biu":
        if isinstance(logits, (list, tuple)):
            logits = np.stack([np.stack(row) if isinstance(row, (list, tuple)) else row for row in logits])
        logits = np.multiply(logits, 1.0)  # differences of unsigned integers wrap around
    off = logits - stop_gradient(np.max(logits, axis=-1, keepdims=True))  # whatever it is, the loss is the same
    total = np.log(np.sum(np.exp(off), axis=-1))
    if np.shape(targets) == np.shape(logits):
        return np.sum(targets * (total[..., None] - off), axis=-1)
    targets = targets if hasattr(targets, "dtype") else np.asarray(targets)
    if np.shape(targets) != np.shape(logits)[:-1] or targets.dtype.kind not in "iu":
        raise ArgumentValueError(
            f"softmax_cross_entropy: logits of shape {np.shape(logits)}, targets of shape {np.shape(targets)} "
            f"and dtype {targets.dtype}",
            instead=f"labels, integers of shape {np.shape(logits)[:-1]}, or probabilities of shape {np.shape(logits)}",
        )
    classes, labels = np.shape(logits)[-1], targets.astype(np.int64)
    if is_known(labels) and is_known(classes) and np.any(wrong := (labels < 0) | (labels >= classes)):
        raise IndexOutOfBounds(f"the label {targets[wrong].flat[0]} is out of bounds for {classes} classes")
    labels = np.where(labels < 0, classes, labels)  # -1 is no class, and no last one either
    return total - np.take_along_axis(off, labels[..., None], axis=-1)[..., 0]


def sigmoid_cross_entropy(logits: Any, targets: Any) -> Any:
    """Return ``-targets * log(p) - (1 - targets) * log(1 - p)`` where ``p = 1 / (1 + exp(-logits))``.

    Args:
        logits: of any shape.
        targets: of the same shape, from 0 to 1.

    Returns:
        Of the same shape: one number a logit.

    >>> np.round(sigmoid_cross_entropy(np.array([0.0, 1000.0]), np.array([1.0, 0.0])), 4)
    array([6.931e-01, 1.000e+03])
    """
    if np.shape(targets) != np.shape(logits):
        raise ArgumentValueError(
            f"sigmoid_cross_entropy: logits of shape {np.shape(logits)}, targets of shape {np.shape(targets)}",
            instead="a target for each logit",
        )
    return np.logaddexp(0.0, logits) - targets * logits

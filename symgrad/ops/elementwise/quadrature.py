"""Integrals over a line by the trapezoidal rule, of positive integrands that are given by their logarithms.

What is analytic, and falls as an exponential or faster to either side, is summed at equal steps: the error falls
exponentially with their number (L. N. Trefethen, J. A. C. Weideman, The exponentially convergent trapezoidal rule, SIAM
Review 56 (2014)). Nothing cancels, far out in a tail either, and the derivatives by parameters, of any order, are those
of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops.elementwise.selection import stop
from symgrad.ops.elementwise.special import expit

Logarithm = Callable[[Any], Any]
"""The logarithm of what is integrated, of places along a last axis; it has one maximum."""

_COARSE, _FINE = [(np.arange(n) + 0.5) / n for n in (32, 160)]

LEAST = -40.0
"""The logarithm of what does not count beside the largest."""


def nodes(logarithm: Logarithm, low: Any, high: Any) -> tuple[Any, Any]:
    """Return places with equal steps, and their step, between bounds beyond which nothing counts.

    Where it counts is searched for three times, each time in the part that was found.
    """
    low, high = np.broadcast_arrays(stop(low), stop(high))
    for _ in range(3):
        step = (high - low) / len(_COARSE)
        places = low[..., None] + (high - low)[..., None] * _COARSE
        sizes = stop(logarithm(places))
        counts = sizes >= np.max(sizes, axis=-1, keepdims=True) + LEAST
        low, high = (np.maximum(low, np.min(np.where(counts, places, np.inf), axis=-1) - step),
                     np.minimum(high, np.max(np.where(counts, places, -np.inf), axis=-1) + step))
    return low[..., None] + (high - low)[..., None] * _FINE, (high - low) / len(_FINE)


def log_integral(logarithm: Logarithm, low: Any, high: Any) -> Any:
    """Return the logarithm of an integral."""
    places, step = nodes(logarithm, low, high)
    sizes = logarithm(places)
    most = stop(np.max(sizes, axis=-1))
    return most + np.log(np.sum(np.exp(sizes - most[..., None]), axis=-1) * step)


def mean(function: Callable[[Any], Any], logarithm: Logarithm, low: Any, high: Any) -> Any:
    """Return the mean of a function of the place, with the integrand as its weight."""
    places, _ = nodes(logarithm, low, high)
    sizes = logarithm(places)
    weights = np.exp(sizes - stop(np.max(sizes, axis=-1, keepdims=True)))
    return np.sum(weights * function(places), axis=-1) / np.sum(weights, axis=-1)


def chance(logarithm: Logarithm, end: Any, sign: int) -> Any:
    """Return the chance to be below an end, or above with the other sign, of a density: by what is on either side.

    Each is an integral over ``v``, with ``exp(v - exp(-v))`` the distance from the end.
    """

    def log_tail(sign: int) -> Any:
        def moved(v: Any) -> Any:
            log = v - np.exp(-v)
            return logarithm(end[..., None] - sign * np.exp(log)) + log + np.log1p(np.exp(-v))

        return log_integral(moved, -4.0 + 0 * end, 16.0 + 0 * end)

    return expit(log_tail(sign) - log_tail(-sign))

"""Initial values: the same numbers for a seed on every platform and with every NumPy.

The bits are Philox's (J. Salmon et al., 2011), whose stream NumPy promises to keep. What is made of them takes sums,
products, quotients and roots alone, which IEEE 754 rounds in one way: no library's logarithm, which differs.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError

Shape = int | tuple[int, ...]
_LN2 = 0.6931471805599453
_NEAR, _FAR = 0.425, 5.0
# Coefficients of M. Wichura's algorithm AS 241 (Applied Statistics 37, 1988), PPND16, by falling powers: numerator and
# denominator near the middle, and in the tails up to and beyond r = 5.
_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
_TAIL = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)
_FURTHER = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)


def zeros(seed: int, shape: Shape, dtype: Any = np.float64) -> Any:  # noqa: ARG001 - every initializer takes a seed
    """Return zeros; the seed is not read."""
    return np.zeros(shape, dtype)


def ones(seed: int, shape: Shape, dtype: Any = np.float64) -> Any:  # noqa: ARG001
    """Return ones; the seed is not read."""
    return np.ones(shape, dtype)


def constant(seed: int, shape: Shape, dtype: Any = np.float64, *, value: float) -> Any:  # noqa: ARG001
    """Return arrays of one value; the seed is not read."""
    return np.full(shape, value, dtype)


def uniform(seed: int, shape: Shape, dtype: Any = np.float64, *, low: float = -0.05, high: float = 0.05) -> Any:
    """Draw evenly from [low, high).

    >>> uniform(0, 3).round(8)
    array([-0.04884532, -0.02584508, -0.03885741])
    """
    return (low + (high - low) * _unit_draws(seed, shape)).astype(dtype)


def normal(seed: int, shape: Shape, dtype: Any = np.float64, *, mean: float = 0.0, std: float = 0.05) -> Any:
    """Draw from the normal distribution, by its inverse (M. Wichura, algorithm AS 241, 1988)."""
    return (mean + std * _ppf(_unit_draws(seed, shape))).astype(dtype)


def truncated_normal(seed: int, shape: Shape, dtype: Any = np.float64, *, mean: float = 0.0, std: float = 0.05) -> Any:
    """Draw from the normal distribution between two standard deviations below and above the mean."""
    tail = 0.022750131948179207  # what lies below -2
    return (mean + std * _ppf(tail + (1.0 - 2.0 * tail) * _unit_draws(seed, shape))).astype(dtype)


def glorot_uniform(seed: int, shape: Shape, dtype: Any = np.float64) -> Any:
    """Draw evenly within ``sqrt(6 / (fan_in + fan_out))`` (X. Glorot, Y. Bengio, 2010).

    The last two axes are what comes in and goes out, those before them a filter's window.
    """
    limit = np.sqrt(6.0 / sum(_fans(shape)))
    return uniform(seed, shape, dtype, low=-limit, high=limit)


def glorot_normal(seed: int, shape: Shape, dtype: Any = np.float64) -> Any:
    """Draw from the normal distribution of variance ``2 / (fan_in + fan_out)`` (X. Glorot, Y. Bengio, 2010)."""
    return normal(seed, shape, dtype, std=float(np.sqrt(2.0 / sum(_fans(shape)))))


def he_uniform(seed: int, shape: Shape, dtype: Any = np.float64) -> Any:
    """Draw evenly within ``sqrt(6 / fan_in)`` (K. He et al., 2015): for layers before a ReLU."""
    limit = np.sqrt(6.0 / _fans(shape)[0])
    return uniform(seed, shape, dtype, low=-limit, high=limit)


def he_normal(seed: int, shape: Shape, dtype: Any = np.float64) -> Any:
    """Draw from the normal distribution of variance ``2 / fan_in`` (K. He et al., 2015): for layers before a ReLU."""
    return normal(seed, shape, dtype, std=float(np.sqrt(2.0 / _fans(shape)[0])))


def dense(seed: int, inner: int, out: int, dtype: Any = np.float64) -> dict[str, Any]:
    """Return the parameters of `nn.dense`: ``W`` by `glorot_uniform`, ``b`` of zeros."""
    return {"W": glorot_uniform(seed, (inner, out), dtype), "b": np.zeros(out, dtype)}


def _fans(shape: Shape) -> tuple[int, int]:
    if isinstance(shape, (int, np.integer)) or len(shape) < 2:
        raise ArgumentValueError(f"the shape {shape} has no axes of what comes in and goes out", instead="(in, out)")
    window = prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _unit_draws(seed: Any, shape: Shape) -> Any:
    """Draw from (0, 1): odd multiples of 2**-53."""
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**128:
        raise ArgumentValueError(f"the seed {seed}", instead="an integer of at least 0, below 2**128")
    count = shape if isinstance(shape, (int, np.integer)) else prod(shape)
    raw = np.random.Philox(key=int(seed)).random_raw(count)
    return ((np.asarray(raw, np.uint64) >> np.uint64(12)).astype(np.float64) + 0.5).reshape(shape) * 2.0**-52


def _ppf(p: Any) -> Any:
    """Return the quantiles of the normal distribution."""
    q = p - 0.5
    near = np.abs(q) <= _NEAR
    r = np.sqrt(-_log(np.where(near, 0.5, np.minimum(p, 1.0 - p))))
    tails = np.where(r <= _FAR, _ratio(_TAIL, r - 1.6), _ratio(_FURTHER, r - _FAR))
    return np.where(near, q * _ratio(_MIDDLE, 0.180625 - q * q), np.where(q < 0.0, -tails, tails))


def _ratio(parts: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    above, below = parts[0][0], parts[1][0]
    for a, b in zip(parts[0][1:], parts[1][1:], strict=True):
        above, below = above * x + a, below * x + b
    return above / below


def _log(x: Any) -> Any:
    """Return logarithms by the series of artanh: to some 1e-16, and alike everywhere."""
    m, e = np.frexp(x)
    low = m < 0.7071067811865476
    m, e = np.where(low, 2.0 * m, m), e - low
    s = (m - 1.0) / (m + 1.0)
    total = np.zeros_like(s)
    for k in range(23, 0, -2):
        total = total * (s * s) + 1.0 / k
    return 2.0 * s * total + e * _LN2

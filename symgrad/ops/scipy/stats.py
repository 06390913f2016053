"""What SciPy's distributions compute otherwise than by NumPy's functions: tails, intervals, covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers
from symgrad.ops.elementwise.special import log1mexp, log_ndtr, ndtr


def _log_chance(side: str, other: str) -> Any:
    """Answer as SciPy, that asks on which side of the median x is, without the median."""

    def log_chance(self: Any, x: Any, *args: Any) -> Any:
        chance = lift(getattr(self, side)(x, *args))
        return np.where(chance < 0.5, np.log(chance), np.log1p(-getattr(self, other)(x, *args)))

    return log_chance


answers(Late("stats._distn_infrastructure:rv_continuous._logcdf"))(_log_chance("_cdf", "_sf"))
answers(Late("stats._distn_infrastructure:rv_continuous._logsf"))(_log_chance("_sf", "_cdf"))


@answers(Late("stats._continuous_distns._log_diff"))
def log_diff(log_p: Any, log_q: Any) -> Any:
    """Take log(exp(p) - exp(q)), where SciPy adds complex numbers."""
    return log_p + log1mexp(log_q - log_p)


@answers(Late("stats._continuous_distns._log_gauss_mass"))
def log_gauss_mass(a: Any, b: Any) -> Any:
    """Return the logarithm of a normal variable's chance to lie between two numbers, from the side of the tail."""
    a, b = np.broadcast_arrays(lift(a), lift(b))
    tail = log_diff(log_ndtr(np.where(a > 0, -a, b)), log_ndtr(np.where(a > 0, -b, a)))
    return np.where((b <= 0) | (a > 0), tail, np.log1p(-ndtr(a) - ndtr(-b)))


@answers(Late("stats._multivariate._PSD"))
class PositiveDefinite:
    """A covariance as SciPy's distributions ask for it, by its Cholesky factor: it must not be singular."""

    def __init__(self, M: Any, *_: Any, allow_singular: bool = False, **__: Any) -> None:
        if allow_singular:
            raise UnsupportedError(
                "allow_singular=True of a traced covariance: which eigenvalues are zero depends on its values",
                instead="a covariance of full rank, with allow_singular=False",
            )
        self._M = lift(M)
        factor = np.linalg.cholesky(self._M)
        self.U = np.swapaxes(np.linalg.inv(factor), -1, -2)
        self.rank = self._M.shape[-1]
        self.log_pdet = 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)

    @property
    def pinv(self) -> Any:
        """Its inverse."""
        return self.U @ np.swapaxes(self.U, -1, -2)

    def _support_mask(self, x: Any) -> Any:
        return np.ones(np.shape(x)[:-1], bool)


def _valid(value: Any, condition: Any) -> Any:
    """Return NaN where SciPy raises an error of the values."""
    return np.where(condition, value, np.nan)


@answers(Late("stats._multivariate._dirichlet_check_parameters"))
def dirichlet_parameters(alpha: Any) -> Any:
    alpha = lift(alpha)
    return _valid(alpha, np.all(alpha > 0))


@answers(Late("stats._multivariate._dirichlet_check_input"))
def dirichlet_input(alpha: Any, x: Any) -> Any:
    x, alpha = lift(x), lift(alpha)
    if x.shape[0] + 1 == alpha.shape[0]:
        x = np.concatenate([x, 1 - np.sum(x, 0, keepdims=True)])
    alpha = np.reshape(alpha, (-1,) + (1,) * (np.ndim(x) - 1))
    inside = (x >= 0) & (x <= 1) & ((x > 0) | (alpha >= 1))
    return _valid(x, np.all(inside) & np.all(np.abs(np.sum(x, 0) - 1) <= 1e-9))


@answers(Late("stats._multivariate:multinomial_gen._process_parameters"))
def multinomial_parameters(_self: Any, n: Any, p: Any) -> Any:
    n, p = lift(n), lift(p).astype(np.float64)
    rest = 1 - np.sum(p[..., :-1], axis=-1, keepdims=True)
    close = np.abs(1 - np.sum(p, axis=-1, keepdims=True)) <= 10 * np.finfo(np.float64).eps
    p = np.concatenate([p[..., :-1], np.where(close, p[..., -1:], rest)], axis=-1)
    return n, p, np.any((p < 0) | (p > 1), axis=-1) | (n < 0)


@answers(Late("stats._multivariate:multinomial_gen._checkresult"))
def multinomial_result(_self: Any, result: Any, cond: Any, bad_value: Any) -> Any:
    return np.where(cond, bad_value, result)

"""The workloads that Dr.Jit can express: elementwise over long arrays, with gathers where neighbours are read.

It has no array library of NumPy's kind, so each is written again, as its own users would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def rosenbrock(dr: Any, F: Any, U: Any, x: Any) -> Any:
    here, above = dr.gather(F, x, dr.arange(U, len(x) - 1)), dr.gather(F, x, dr.arange(U, len(x) - 1) + 1)
    return dr.sum(100.0 * dr.square(above - dr.square(here)) + dr.square(1 - here))


def black_scholes(dr: Any, F: Any, U: Any, spot: Any, sigma: Any) -> Any:  # noqa: ARG001 - one signature
    def normal(x: Any) -> Any:
        return 0.5 * (1 + dr.erf(x / math.sqrt(2.0)))

    strike, rate = 100.0, 0.03
    up = (dr.log(spot / strike) + (rate + 0.5 * dr.square(sigma))) / sigma
    return dr.sum(spot * normal(up) - strike * math.exp(-rate) * normal(up - sigma))


def tanh_loss(dr: Any, F: Any, U: Any, w: Any, b: Any, x: Any, y: Any) -> Any:  # noqa: ARG001
    return dr.sum(dr.square(dr.tanh(x * w + b) - y))


def n_body(dr: Any, F: Any, U: Any, x: Any, y: Any, z: Any, masses: Any) -> Any:
    n = len(masses)
    pair = dr.arange(U, n * n)
    i, j = pair // n, pair % n

    def apart(c: Any) -> Any:
        return dr.gather(F, c, i) - dr.gather(F, c, j)

    distance = dr.sqrt(dr.square(apart(x)) + dr.square(apart(y)) + dr.square(apart(z)) + 0.01)
    return -0.5 * dr.sum(dr.gather(F, masses, i) * dr.gather(F, masses, j) / distance)


PROGRAMS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (rosenbrock, black_scholes, tanh_loss, n_body)
}


def make(name: str, arguments: tuple[Any, ...], by: tuple[int, ...]) -> tuple[Callable[[], Any], Callable[..., Any]]:
    """Return a call that gives value and gradients, and what makes NumPy arrays of them."""
    import drjit as dr
    from drjit.llvm.ad import Float64, UInt32

    columns = name == "n_body"  # it has no arrays of points: a column for each coordinate
    parts = [*arguments[0].T, *arguments[1:]] if columns else list(arguments)
    wanted = (0, 1, 2) if columns else by
    placed = [Float64(np.ascontiguousarray(np.atleast_1d(part))) for part in parts]
    dr.eval(placed)

    def call() -> Any:
        for k in wanted:
            placed[k] = dr.detach(placed[k])
            dr.enable_grad(placed[k])
        value = PROGRAMS[name](dr, Float64, UInt32, *placed)
        dr.backward(value)
        gradients = [dr.grad(placed[k]) for k in wanted]
        dr.eval(value, *gradients)
        dr.sync_thread()
        return [dr.detach(value), *gradients]

    def results(found: Any) -> list[Any]:
        value, *gradients = [np.array(part) for part in found]
        return [value, np.stack(gradients, axis=1)] if columns else [value, *gradients]

    return call, results

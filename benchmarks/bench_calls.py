"""Calls and compile times beside JAX's and a hand-written closure: ``make bench``."""

from __future__ import annotations

import os
import tempfile
import time

os.environ["SYMGRAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="symgrad-bench-")  # compile times are those of a cold cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf as jax_erf
from programs import black_scholes, logistic, readme, rosenbrock
from scipy.special import erf
from side_by_side import alternate, short, show

import symgrad as sg

jax.config.update("jax_enable_x64", True)


def compile_times():
    """The README's loss, new shapes each time so that nobody has it in a cache."""
    rng = np.random.default_rng(0)
    mine, theirs = [], []
    for n in range(500, 507):
        params = {"w": rng.normal(size=30), "b": 0.3}
        X, y = rng.normal(size=(n, 30)), np.sign(rng.normal(size=n))
        start = time.perf_counter()
        value, _ = sg.value_and_grad(readme(np))(params, X, y)
        mine.append(time.perf_counter() - start)
        start = time.perf_counter()
        other, _ = jax.block_until_ready(jax.jit(jax.value_and_grad(readme(jnp)))(params, X, y))
        theirs.append(time.perf_counter() - start)
        np.testing.assert_allclose(value, other, rtol=1e-12)
    show("compile the README's loss", {"symgrad": float(np.median(mine)), "jax": float(np.median(theirs))})


def hand_written(function, x):
    """The closure a person would write around the same C function, without a check of anything."""
    library = function._last.built.library  # noqa: SLF001 - the same machine code
    entry, from_buffer, nothing = library.function, library.ffi.from_buffer, library.ffi.NULL
    empty = np.empty
    n = len(x)

    def call(x):
        value, gradient = empty(()), empty(n)
        entry(from_buffer("double[]", x), from_buffer("double[]", value), from_buffer("double[]", gradient), 1, nothing)
        return value[()], gradient

    return call


def small_calls():
    """Rosenbrock of two variables: the whole Python call."""
    x = np.array([1.2, 0.9])
    mine = sg.value_and_grad(rosenbrock(np))
    mine(x)
    hand = hand_written(mine, x)
    theirs = jax.jit(jax.value_and_grad(rosenbrock(jnp)))
    there = jnp.asarray(x)
    show("rosenbrock n=2, whole call", short({
        "symgrad": lambda: mine(x), "by hand": lambda: hand(x), "jax": lambda: jax.block_until_ready(theirs(there)),
    }))


def against_jax(title, mine, theirs, *arguments):
    """One workload, value and gradient, results compared first."""
    there = [jnp.asarray(a) for a in arguments]
    for ours, other in zip(jax.tree.leaves(mine(*arguments)), jax.tree.leaves(theirs(*there)), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-10, atol=1e-10 * float(np.max(np.abs(other))))
    show(title, alternate({
        "symgrad": lambda: mine(*arguments), "jax": lambda: jax.block_until_ready(theirs(*there)),
    }))


def main():
    """Print the table."""
    rng = np.random.default_rng(1)
    compile_times()
    small_calls()
    against_jax(
        "rosenbrock n=100,000", sg.value_and_grad(rosenbrock(np)), jax.jit(jax.value_and_grad(rosenbrock(jnp))),
        rng.normal(size=100_000),
    )
    w, X, y = rng.normal(size=50) / 10, rng.normal(size=(200_000, 50)), np.sign(rng.normal(size=200_000))
    against_jax(
        "logistic regression 200,000 x 50", sg.value_and_grad(logistic(np)),
        jax.jit(jax.value_and_grad(logistic(jnp))), w, X, y,
    )
    spot, sigma = rng.uniform(80, 120, 1_000_000), rng.uniform(0.1, 0.5, 1_000_000)
    against_jax(
        "Black-Scholes delta, vega, 1e6", sg.value_and_grad(black_scholes(np, erf), argnums=(0, 1)),
        jax.jit(jax.value_and_grad(black_scholes(jnp, jax_erf), argnums=(0, 1))), spot, sigma,
    )


if __name__ == "__main__":
    main()

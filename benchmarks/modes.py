"""``python -m benchmarks.modes``: Hessians and batched gradients beside JAX, results compared, calls interleaved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click
import numpy as np

import symgrad as sg
from benchmarks.measure import interleaved
from benchmarks.peers import leaves, rebound, there


def logistic(w: Any, X: Any, y: Any) -> Any:
    """Take the mean loss of logistic regression."""
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


def rosenbrock(x: Any) -> Any:
    """Take Rosenbrock's function."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def decay(p: Any, t: Any, y: Any) -> Any:
    """Fit four decaying exponentials: 8 variables, 16 points."""
    model = np.sum(p[:4, None] * np.exp(-np.exp(p[4:, None]) * t), axis=0)
    return np.sum((model - y) ** 2)


class Program(NamedTuple):
    """One thing to derive.

    Attributes:
        name: what it is.
        make: makes the derived function, given the modes of symgrad or of JAX, and the program's own.
        function: the NumPy function.
        draw: its arguments.
        least: how many times faster than JAX it is to be.
    """

    name: str
    make: Callable[[Any, Any], Any]
    function: Any
    draw: Callable[[Any], tuple[Any, ...]]
    least: float


def samples(rng: Any) -> tuple[Any, ...]:
    return rng.normal(size=20), rng.normal(size=(1000, 20)), np.sign(rng.normal(size=1000))


def fits(rng: Any) -> tuple[Any, ...]:
    return rng.normal(size=(10_000, 8)), np.linspace(0.1, 3.0, 16), rng.normal(size=(10_000, 16))


PROGRAMS = (
    Program("hessian, logistic 1,000 x 20", lambda m, f: m.hessian(f), logistic, samples, 2),
    Program("gradients of 10,000 fits of 8", lambda m, f: m.vmap(m.grad(f), (0, None, 0)), decay, fits, 4),
    Program("gradients of 10,000 rosenbrock of 8", lambda m, f: m.vmap(m.grad(f)), rosenbrock,
            lambda rng: (rng.normal(size=(10_000, 8)),), 4),
    Program("hessians of 1,000 rosenbrock of 8", lambda m, f: m.vmap(m.hessian(f)), rosenbrock,
            lambda rng: (rng.normal(size=(1000, 8)),), 2),
    Program("jacobian of 10,000 forward, rosenbrock of 8", lambda m, f: m.vmap(m.jacfwd(f)), rosenbrock,
            lambda rng: (rng.normal(size=(10_000, 8)),), 1),
)


def calls(program: Program) -> dict[str, Callable[[], Any]]:
    """Make the calls to time, compiled and placed."""
    arguments = program.draw(np.random.default_rng(0))
    ours = program.make(sg, program.function)
    found: dict[str, Callable[[], Any]] = {"symgrad": lambda: ours(*arguments)}
    if there("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        theirs = jax.jit(program.make(jax, rebound(program.function, {"np": jax.numpy})))
        placed = [jax.device_put(a) for a in arguments]
        found["jax"] = lambda: jax.block_until_ready(theirs(*placed))
    return found


def main(seconds: float = 2.0) -> None:
    """Time every program and print one line for each."""
    click.echo(f"{'':44} {'symgrad':>10} {'JAX':>10}   faster")
    for program in PROGRAMS:
        made = calls(program)
        results = [leaves(call()) for call in made.values()]
        for result in results[1:]:
            for one, other in zip(results[0], result, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        times = interleaved(made, seconds)
        ours, theirs = times["symgrad"], times.get("jax", float("nan"))
        mark = "" if theirs / ours >= program.least else "*"
        click.echo(f"{program.name:44} {ours * 1e6:8.1f}us {theirs * 1e6:8.1f}us {theirs / ours:8.2f}{mark}")


if __name__ == "__main__":
    main()

"""``python -m benchmarks.loops``: loops by `sg.scan`, and in plain Python, beside JAX's `lax.scan`, in turn."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import click
import numpy as np

import symgrad as sg
from benchmarks.measure import interleaved
from benchmarks.peers import leaves, rebound, there

scan: Any = sg.scan


def in_python(step: Any, carry: Any, xs: Any, length: int | None = None) -> tuple[Any, Any]:
    """Do what a scan does by Python's own loop."""
    ys = []
    for t in range(len(xs) if length is None else length):
        carry, y = step(carry, None if xs is None else xs[t])
        ys.append(y)
    return carry, None if ys[0] is None else np.stack(ys)


def sigmoid(x: Any) -> Any:
    """Take the logistic function."""
    return 1.0 / (1.0 + np.exp(-x))


def pendulum(y: Any, p: Any) -> Any:
    """Swing by the classical Runge-Kutta method."""
    def slope(y: Any) -> Any:
        return np.array([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]])

    def step(y: Any, _: Any) -> Any:
        a = slope(y)
        b = slope(y + 0.005 * a)
        c = slope(y + 0.005 * b)
        y = y + 0.01 / 6.0 * (a + 2.0 * b + 2.0 * c + slope(y + 0.01 * c))
        return y, y

    return np.sum(scan(step, y, None, length=1000)[1] ** 2)


def lstm(W: Any, U: Any, b: Any, xs: Any, h: Any) -> Any:
    """Run a long short-term memory, the four gates of one product."""
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = np.split(x @ W + h @ U + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h, c), h

    return np.sum(scan(step, (h, 0.0 * h), xs)[1] ** 2)


def gru(W: Any, U: Any, V: Any, xs: Any, h: Any) -> Any:
    """Run gated recurrent units, with a weight for each of the gates' inputs."""
    def step(h: Any, x: Any) -> Any:
        r, z, n = np.split(x @ W, 3, -1)
        a, b = np.split(h @ U, 2, -1)
        r, z = sigmoid(r + a), sigmoid(z + b)
        h = (1.0 - z) * np.tanh(n + r * (h @ V)) + z * h
        return h, h

    return np.sum(scan(step, h, xs)[1] ** 2)


def words(E: Any, U: Any, ids: Any, h: Any) -> Any:
    """Read words of a vocabulary, a row of a table for each."""
    def step(h: Any, k: Any) -> Any:
        h = np.tanh(E[k] + h @ U)
        return h, h

    return np.sum(scan(step, h, ids)[1] ** 2)


def hmm(A: Any, pi: Any, B: Any) -> Any:
    """Take the likelihood of a hidden Markov model, forward in logarithms."""
    def step(a: Any, b: Any) -> Any:
        m = np.max(a)
        return np.log(np.exp(a - m) @ np.exp(A)) + m + b, None

    a = scan(step, pi + B[0], B[1:])[0]
    m = np.max(a)
    return np.log(np.sum(np.exp(a - m))) + m


def kalman(F: Any, Q: Any, H: Any, R: Any, m: Any, P: Any, ys: Any) -> Any:
    """Filter observations of a linear system (R. E. Kalman, 1960); return their likelihood."""
    def step(carry: Any, y: Any) -> Any:
        m, P, total = carry
        m, P = F @ m, F @ P @ F.T + Q
        v, S = y - H @ m, H @ P @ H + R
        K = P @ H / S
        return (m + K * v, P - np.outer(K, H @ P), total - 0.5 * (np.log(S) + v * v / S)), None

    return scan(step, (m, P, 0.0 * R), ys)[0][2]


class Program(NamedTuple):
    """A loop to differentiate.

    Attributes:
        name: what it is.
        function: with `scan` for the loop.
        draw: its arguments.
        by: those it is differentiated by.
        least: how many times faster than JAX it is to be.
    """

    name: str
    function: Any
    draw: Callable[[Any], tuple[Any, ...]]
    by: tuple[int, ...]
    least: float


def gates(many: int, T: int, B: int, D: int, H: int, dtype: Any = float) -> Callable[[Any], tuple[Any, ...]]:
    """Draw what a recurrent network of so many gates is given."""
    def draw(rng: Any) -> tuple[Any, ...]:
        last = (many * H,) if many == 4 else (H, H)
        shapes = (D, many * H), (H, (many if many == 4 else 2) * H), last
        made = *[rng.normal(size=s) / 10 for s in shapes], rng.normal(size=(T, B, D)), np.zeros((B, H))
        return tuple([a.astype(dtype) for a in made])

    return draw


def text(rng: Any) -> tuple[Any, ...]:
    """Draw 16 texts of 200 words, of a vocabulary of 5,000."""
    E, U = rng.normal(size=(5000, 64)) / 10, rng.normal(size=(64, 64)) / 10
    return E, U, rng.integers(0, 5000, (200, 16)), np.zeros((16, 64))


def chain(rng: Any) -> tuple[Any, ...]:
    """Draw a chain of 20 states."""
    return np.log(rng.dirichlet(np.ones(20), 20)), np.log(rng.dirichlet(np.ones(20))), rng.normal(size=(500, 20))


def system(rng: Any) -> tuple[Any, ...]:
    """Draw a system of 4 variables, of which one is seen."""
    F, H = np.eye(4) + 0.01 * rng.normal(size=(4, 4)), rng.normal(size=4)
    return F, np.eye(4) / 10, H, 0.5, np.zeros(4), np.eye(4), rng.normal(size=1000)


PROGRAMS = (
    Program("pendulum, 1,000 steps", pendulum, lambda _: (np.array([1.0, 0.0]), np.array([9.81, 0.1])), (0, 1), 8),
    Program("LSTM, 100 of 1 x 16 x 16", lstm, gates(4, 100, 1, 16, 16), (0, 1, 2), 3),
    Program("LSTM, 100 of 32 x 64 x 64", lstm, gates(4, 100, 32, 64, 64), (0, 1, 2), 1.5),
    Program("LSTM, 100 of 32 x 64 x 64, float32", lstm, gates(4, 100, 32, 64, 64, np.float32), (0, 1, 2), 1.5),
    Program("GRU, 100 of 32 x 64 x 64", gru, gates(3, 100, 32, 64, 64), (0, 1, 2), 1.5),
    Program("words, 200 of 16 x 64", words, text, (0, 1), 1),
    Program("HMM, 500 steps of 20 states", hmm, chain, (0, 1, 2), 2),
    Program("Kalman filter, 1,000 steps of 4", kalman, system, (0, 1, 2, 3), 3),
)


def calls(program: Program) -> dict[str, tuple[Callable[[], Any], float]]:
    """Make the calls to time; each has been called, and the seconds of that are beside it."""
    arguments = program.draw(np.random.default_rng(0))
    made: dict[str, Callable[[], Any]] = {}
    for name, own in (("scan", sg.scan), ("plain", in_python)):
        ours = sg.value_and_grad(rebound(program.function, {"scan": own}), argnums=program.by)
        made[name] = partial(ours, *arguments)
    if there("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        theirs = jax.jit(jax.value_and_grad(
            rebound(program.function, {"np": jax.numpy, "scan": jax.lax.scan}), argnums=program.by,
        ))
        placed = [jax.numpy.asarray(a) for a in arguments]
        made["jax"] = lambda: jax.block_until_ready(theirs(*placed))
    found = {}
    for name, call in made.items():
        begin = time.perf_counter()
        call()
        found[name] = call, time.perf_counter() - begin
    return found


def first_call(program: Program, way: str) -> dict[str, float]:
    """Time a first call in this process, which has imported what it needs, and knows the compiler.

    Returns:
        The seconds of all of it, of the function while it is traced, and of the C compiler.
    """
    from symgrad.build.toolchain import process

    spent = {"all": 0.0, "trace": 0.0, "cc": 0.0}

    def timed(name: str, function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args)
            finally:
                spent[name] += time.perf_counter() - begin

        return called

    arguments = program.draw(np.random.default_rng(0))
    if way == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.block_until_ready(jax.jit(lambda x: x + 1.0)(np.ones(3)))
        function = rebound(program.function, {"np": jax.numpy, "scan": jax.lax.scan})
        theirs = jax.jit(jax.value_and_grad(timed("trace", function), argnums=program.by))
        call = timed("all", lambda *placed: jax.block_until_ready(theirs(*placed)))
        arguments = tuple(map(jax.numpy.asarray, arguments))
    else:
        sg.jit(lambda x: x + 1.0)(np.ones(3))  # finds the compiler
        process.run = timed("cc", process.run)
        function = rebound(program.function, {"scan": sg.scan if way == "scan" else in_python})
        call = timed("all", sg.value_and_grad(timed("trace", function), argnums=program.by))
    call(*arguments)
    return spent


def first_calls(programs: list[Program], repeats: int) -> None:
    """Print first calls, each of a process and an empty cache of its own: the least of some, taken in turn."""
    ways = ("scan", "plain", *(["jax"] if there("jax") else []))
    titles = ("scan", "its cc", "JAX", "bound", "plain", "its cc", "trace", "bound")
    click.echo(" " * 36 + " ".join(f"{title:>6}" for title in titles))
    for program in programs:
        least: dict[str, dict[str, float]] = {}
        for _ in range(repeats):
            for way in ways:
                with tempfile.TemporaryDirectory(prefix="symgrad-bench-") as cache:
                    argv = (sys.executable, "-m", "benchmarks.loops", "--only", program.name, "--way", way)
                    own = {**os.environ, "SYMGRAD_CACHE_DIR": cache}
                    spent = json.loads(subprocess.run(argv, env=own, check=True, stdout=subprocess.PIPE).stdout)
                least[way] = min(least.get(way, spent), spent, key=itemgetter("all"))
        scan, plain, jax = [least.get(way, {"all": 0.0}) for way in ("scan", "plain", "jax")]
        bounds = [1.5 * max(jax["all"], way["cc"]) for way in (scan, plain)]
        figures = scan["all"], scan["cc"], jax["all"], bounds[0]
        others = plain["all"], plain["cc"], plain["trace"], bounds[1] + plain["trace"]
        marks = "".join("*" * (each[0] > each[-1]) for each in (figures, others))
        click.echo(f"{program.name:36}{' '.join(f'{t:6.2f}' for t in (*figures, *others))} {marks}")


@click.command()
@click.option("--only", default="", metavar="NAME", help="Only programs whose name contains this.")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="How long a program is timed, about.")
@click.option("--first", type=int, default=0, metavar="N", help="First calls alone, the least of N.")
@click.option("--way", default="", hidden=True)
def main(only: str, seconds: float, first: int, way: str) -> None:
    """Time value and gradient of every loop: first calls with an empty cache, and calls."""
    programs = [one for one in PROGRAMS if only in one.name]
    if way:
        click.echo(json.dumps(first_call(programs[0], way)))
        return
    if first:
        first_calls(programs, first)
        return
    os.environ["SYMGRAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="symgrad-bench-")
    sg.jit(lambda x: x + 1.0)(np.ones(3))  # finds the compiler
    click.echo(f"{'':36} {'scan':>10} {'plain':>10} {'JAX':>10}  {'faster':>7} {'plain':>6}   first calls")
    for program in programs:
        made = calls(program)
        ours = leaves(made["scan"][0]())
        least = 1e-3 if ours[-1].dtype == np.float32 else 1e-9
        for call, _ in made.values():
            for one, other in zip(ours, leaves(call()), strict=True):
                np.testing.assert_allclose(one, other, rtol=least, atol=least * np.max(np.abs(one)))
        times = interleaved({name: call for name, (call, _) in made.items()}, seconds)
        one, plain, jax = [times.get(name, float("nan")) for name in ("scan", "plain", "jax")]
        mark = "" if jax / one >= program.least or "jax" not in made else "*"
        begun = "  ".join(f"{seconds:.2f}s" for _, seconds in made.values())
        figures = " ".join(f"{t * 1e6:8.1f}us" for t in (one, plain, jax))
        click.echo(f"{program.name:36} {figures}  {jax / one:6.2f}{mark or ' '} {one / plain:6.2f}   {begun}")


if __name__ == "__main__":
    main()

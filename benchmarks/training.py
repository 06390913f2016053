"""``python -m benchmarks.training``: steps of training beside JAX with optax, PyTorch and a multiply in C.

A step is value, gradient and update. Peers that are not installed are left out; no time is ever an error.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import symgrad as sg
from benchmarks.measure import interleaved
from symgrad import nn, optim

Calls = dict[str, Callable[[], Any]]
Promises = dict[str, float]

MULTIPLY = """
void multiply(float *x, long n) {
    #pragma omp parallel for simd
    for (long i = 0; i < n; ++i) x[i] *= 1.0000001f;
}
"""


RATE = 1e-7
"""So small that thousands of steps do not fit a batch: gradients that vanish are subnormal numbers, which make steps
take twice as long, but for XLA, which takes them for 0."""


def layer(seed: int, *shape: int, dtype: Any = np.float32) -> dict[str, Any]:
    """Draw the weights of a layer."""
    return {"W": nn.init.he_normal(seed, shape, dtype), "b": np.zeros(shape[-1], dtype)}


def linear(params: Any, x: Any, labels: Any) -> Any:
    """Softmax regression."""
    return np.mean(nn.softmax_cross_entropy(nn.dense(params, x), labels))


def hidden(params: Any, x: Any, labels: Any) -> Any:
    """A network with one hidden layer."""
    return linear(params["out"], np.maximum(nn.dense(params["in"], x), 0), labels)


def convolved(params: Any, x: Any, labels: Any) -> Any:
    """The network of `examples/digits_conv.py`."""
    h = np.maximum(nn.conv2d(params["one"], x, padding="SAME"), 0)
    h = np.maximum(nn.conv2d(params["two"], h, padding="SAME"), 0)
    return linear(params["out"], nn.max_pool(h, (2, 2)).reshape(-1, 512), labels)


def looked_up(params: Any, ids: Any) -> Any:
    """Squares of rows of a table."""
    return np.mean(nn.embedding(params, ids) ** 2)


def stepping(loss: Any, opt: Any, params: Any, *batch: Any) -> Callable[[], Any]:
    """Return a call that takes a step in place, from where the last one came to."""
    step, now = sg.compile_step(loss, opt, donate=True), [params, opt.init(params)]

    def call() -> None:
        now[:] = step(now[0], now[1], *batch)[:2]

    return call


def in_jax(loss: Any, opt: Any, params: Any, *batch: Any, order: Any = None) -> Calls:
    """Return calls of JAX: a step with donated buffers; with an order of rows an epoch, by calls and by one scan."""
    import jax
    import optax

    batch = tuple(map(jax.numpy.asarray, batch))

    def stepped(params: Any, state: Any, *batch: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(params, *batch)
        change, state = opt.update(slope, state, params)
        return optax.apply_updates(params, change), state, value

    def scanned(params: Any, state: Any, rows: Any) -> Any:
        def body(now: Any, ids: Any) -> Any:
            params, state, value = stepped(*now, *[one[ids] for one in batch])
            return (params, state), value

        now, values = jax.lax.scan(body, (params, state), rows)
        return *now, values

    step, scan = jax.jit(stepped, donate_argnums=(0, 1)), jax.jit(scanned, donate_argnums=(0, 1))

    def calling(advance: Callable[[Any, Any], Any]) -> Callable[[], Any]:
        now = [jax.tree.map(jax.numpy.array, params), None]
        now[1] = opt.init(now[0])

        def call() -> None:
            now[:] = advance(*now)[:2]
            jax.block_until_ready(now)

        return call

    if order is None:
        return {"JAX": calling(lambda params, state: step(params, state, *batch))}
    plain = [np.asarray(one) for one in batch]

    def by_calls(params: Any, state: Any) -> Any:
        for rows in order:
            params, state, _ = step(params, state, *[one[rows] for one in plain])
        return params, state

    rows = jax.numpy.asarray(order)
    return {"JAX, a call a step": calling(by_calls), "JAX, one scan": calling(lambda p, s: scan(p, s, rows))}


def jax_losses() -> dict[str, Any]:
    """Return the losses in JAX."""
    import jax
    import optax
    from jax import lax
    from jax import numpy as jnp

    def linear(params: Any, x: Any, labels: Any) -> Any:
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(x @ params["W"] + params["b"], labels))

    def hidden(params: Any, x: Any, labels: Any) -> Any:
        return linear(params["out"], jax.nn.relu(x @ params["in"]["W"] + params["in"]["b"]), labels)

    def conv(params: Any, x: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, params["W"], (1, 1), "SAME", dimension_numbers=order)
        return jax.nn.relu(x + params["b"])

    def convolved(params: Any, x: Any, labels: Any) -> Any:
        h = conv(params["two"], conv(params["one"], x))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return linear(params["out"], h.reshape(-1, 512), labels)

    return {"linear": linear, "hidden": hidden, "convolved": convolved}


def in_torch(opt: Callable[[Any], Any], params: list[Any], loss: Callable[..., Any] | None) -> Calls:
    """Return a call of PyTorch: value, gradient and update; the update alone without a loss."""
    import torch

    leaves = [torch.tensor(one, requires_grad=True) for one in params]
    optimizer = opt(leaves)
    for one in leaves:
        one.grad = torch.ones_like(one)

    def call() -> None:
        if loss is not None:
            optimizer.zero_grad()
            loss(*leaves).backward()
        optimizer.step()

    return {"PyTorch": call}


def multiplying(count: int) -> Calls:
    """Return a call of C that multiplies in place, and moves as many bytes as Adam does for so many parameters."""
    folder = Path(tempfile.mkdtemp(prefix="symgrad-bench-"))
    (folder / "multiply.c").write_text(MULTIPLY, encoding="utf-8")
    library = folder / "multiply.so"
    subprocess.run(
        ["cc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", str(folder / "multiply.c"), "-o", str(library)],
        check=True,
    )
    function, numbers = ctypes.CDLL(str(library)).multiply, np.ones(7 * count // 2, np.float32)
    return {"a multiply in C": lambda: function(ctypes.c_void_p(numbers.ctypes.data), ctypes.c_long(numbers.size))}


def workloads(*, small: bool) -> Iterator[tuple[str, Promises, Calls]]:
    """Yield what is timed: a name, what was promised against whom, and the calls."""
    rng = np.random.default_rng(0)
    jax = importlib.util.find_spec("jax") is not None and importlib.util.find_spec("optax") is not None
    torch = importlib.util.find_spec("torch") is not None
    losses, rates = {}, {}
    if jax:
        import jax as the
        import optax

        the.config.update("jax_enable_x64", True)
        losses, rates = jax_losses(), {"sgd": optax.sgd(0.1), "adam": optax.adam(RATE)}

    count = 1000 if small else 60_000
    x, y, order = rng.random((count, 784)), rng.integers(0, 10, count), rng.permutation(count)
    params = layer(0, 784, 10, dtype=np.float64)
    calls = {"symgrad": stepping(linear, optim.sgd(0.1), sg.tree_map(np.copy, params), x[:100], y[:100])}
    calls |= in_jax(losses["linear"], rates["sgd"], params, x[:100], y[:100]) if jax else {}
    yield "softmax regression 784-10, batch 100, SGD, f64", {"JAX": 3}, calls

    step, now = sg.compile_step(linear, optim.sgd(0.1), donate=True), [sg.tree_map(np.copy, params), None]
    now[1] = optim.sgd(0.1).init(now[0])

    def epoch() -> None:
        now[:] = step.epoch(*now, x, y, batch=100, order=order)[:2]

    calls = {"symgrad": epoch}
    calls |= in_jax(losses["linear"], rates["sgd"], params, x, y, order=order.reshape(-1, 100)) if jax else {}
    yield f"its epoch of {count} rows in one call", {"JAX, a call a step": 4, "JAX, one scan": 3}, calls

    images, labels = rng.random((128, 784)).astype(np.float32), rng.integers(0, 10, 128)
    network = {"in": layer(0, 784, 128), "out": layer(1, 128, 10)}
    calls = {"symgrad": stepping(hidden, optim.adam(RATE), sg.tree_map(np.copy, network), images, labels)}
    calls |= in_jax(losses["hidden"], rates["adam"], network, images, labels) if jax else {}
    if torch:
        import torch as pt

        given, wanted = pt.tensor(images), pt.tensor(labels)

        def fused(leaves: Any) -> Any:
            return pt.optim.Adam(leaves, RATE, fused=True)

        def torch_hidden(W: Any, b: Any, V: Any, c: Any) -> Any:
            return pt.nn.functional.cross_entropy(pt.relu(given @ W + b) @ V + c, wanted)

        leaves = [network[name][kind] for name in ("in", "out") for kind in "Wb"]
        calls |= in_torch(fused, leaves, torch_hidden)
    yield "MLP 784-128-10, batch 128, Adam, f32", {"JAX": 1.3, "PyTorch": 2}, calls

    images, labels = rng.random((64, 8, 8, 1)).astype(np.float32), rng.integers(0, 10, 64)
    network = {"one": layer(0, 3, 3, 1, 16), "two": layer(1, 3, 3, 16, 32), "out": layer(2, 512, 10)}
    calls = {"symgrad": stepping(convolved, optim.adam(RATE), sg.tree_map(np.copy, network), images, labels)}
    calls |= in_jax(losses["convolved"], rates["adam"], network, images, labels) if jax else {}
    yield "digits' convolutional network, batch 64, Adam, f32", {"JAX": 1}, calls

    table, ids = rng.normal(size=(1000 if small else 1_000_000, 16)).astype(np.float32), rng.integers(0, 1000, 256)
    calls = {"symgrad": stepping(looked_up, optim.adam(RATE, sparse="lazy"), {"E": table.copy()}, ids)}
    if torch:
        places = pt.tensor(ids)
        calls |= in_torch(
            lambda leaves: pt.optim.SparseAdam(leaves, RATE), [table],
            lambda E: (pt.nn.functional.embedding(places, E, sparse=True) ** 2).mean(),
        )
    yield f"embedding {len(table)} x 16, 256 ids, lazy Adam, f32", {"PyTorch": 5}, calls

    count = 10_000 if small else 10_000_000
    adam, values = optim.adam(RATE), np.ones(count, np.float32)
    step = sg.compile_step(np.sum, adam, donate=True)
    held = [values.copy(), adam.init(values)]

    def update() -> None:
        held[:] = step.apply(held[0], values, held[1])

    calls = {"symgrad": update} | multiplying(count)
    calls |= in_torch(fused, [values], None) if torch else {}
    yield f"Adam alone on {count} parameters in place, f32", {"a multiply in C": 0.8, "PyTorch": 1}, calls


@click.command()
@click.option("--only", default="", metavar="NAME", help="Only steps whose name contains this.")
@click.option("--quick", is_flag=True, help="Small and short: does it all still work?")
@click.option("--seconds", type=float, default=5.0, show_default=True, help="How long each is timed, about.")
def main(only: str, quick: bool, seconds: float) -> None:
    """Time steps of training, interleaved with those peers that are installed: medians, and the peer's time by ours."""
    for name, promised, calls in workloads(small=quick):
        if only not in name:
            continue
        for call in calls.values():
            call()
        times = interleaved(calls, 0.2 if quick else seconds)
        own = times.pop("symgrad")
        click.echo(f"{name}: {1e6 * own:.1f} us")
        for peer, time in times.items():
            star = "" if time >= promised[peer] * own else " *"
            click.echo(f"    {peer} takes {time / own:.2f} of that, {promised[peer]:g} wanted{star}")


if __name__ == "__main__":
    main()

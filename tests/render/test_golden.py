"""A few C files that people have read: what changes in them changes for a reason (`pytest --update-golden`).

They are rendered for a plain target, so that they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg


def linear_regression(W, b, X, Y):
    return np.sum(np.power(X * W + b - Y, 2)) / (2 * X.shape[0])


def logistic_regression(params, X, y):
    z = X @ params["w"] + params["b"]
    return np.mean(np.logaddexp(0.0, -y * z)) + 1e-3 * np.sum(params["w"] ** 2)


def softmax_regression(W, X, labels):
    z = X @ W
    return np.mean(scipy.special.logsumexp(z, axis=1) - z[np.arange(X.shape[0]), labels])


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def tanh_layer(W, b, x):
    return np.sum(np.tanh(x @ W + b) ** 2)


def guarded_root(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


def lookup(table, index, w):
    return np.sum(np.tanh(table[index] @ w))


def two_results(x, y):
    return x @ y, np.max(x, axis=1)


def running_total(x):
    return np.cumsum(x * x, axis=-1)


def integers(k, flags):
    return np.sum(k // 3 + k % 4), np.where(flags, k, -k)


def broadcast(a, b):
    return np.sum((a[:, None] - b[None, :]) ** 2)


def helix(t):
    return np.stack([np.cos(t), np.sin(t), 0.1 * t]).T


def follower(gain, flow):
    def year(level, seen):
        surprise = seen - level
        level = level + gain * surprise
        return level, surprise**2

    _, misses = sg.scan(year, 0.0, flow)
    return np.sum(misses)


def square_root(a):
    def newton(x):
        return 0.5 * (x + a / x)

    return sg.while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, newton, a, max_steps=64)


def triangle(a):
    return np.linalg.qr(a)[1]


def sparse_rows(S, x):
    return np.sum((S @ x) ** 2)


FILES: dict[str, tuple[Callable[[], sg.Function], tuple[str, ...] | tuple[Any, ...]]] = {
    "linear_regression": (
        lambda: sg.value_and_grad(linear_regression, (0, 1)),
        ("f64[]", "f64[]", "f64[17]", "f64[17]"),
    ),
    "logistic_regression": (
        lambda: sg.value_and_grad(logistic_regression),
        ({"w": "f64[d]", "b": "f64[]"}, "f64[n,d]", "f64[n]"),
    ),
    "softmax_regression": (lambda: sg.value_and_grad(softmax_regression), ("f64[64,10]", "f64[n,64]", "i64[n]")),
    "rosenbrock": (lambda: sg.value_and_grad(rosenbrock), ("f64[100]",)),
    "tanh_layer": (lambda: sg.value_and_grad(tanh_layer, (0, 1)), ("f32[8,4]", "f32[4]", "f32[16,8]")),
    "guarded_root": (lambda: sg.value_and_grad(guarded_root), ("f64[n]",)),
    "lookup": (lambda: sg.value_and_grad(lookup), ("f64[50,8]", "i32[20]", "f64[8]")),
    "two_results": (lambda: sg.jit(two_results), ("f64[4,3]", "f64[3,5]")),
    "running_total": (lambda: sg.jit(running_total), ("f64[n,m]",)),
    "integers": (lambda: sg.jit(integers), ("i64[12]", "bool[12]")),
    "broadcast": (lambda: sg.value_and_grad(broadcast, (0, 1)), ("f64[n]", "f64[m]")),
    "helix": (lambda: sg.jit(helix), ("f64[n]",)),
    "follower": (lambda: sg.value_and_grad(follower), ("f64[]", "f64[n]")),
    "triangle": (lambda: sg.jit(triangle), ("f64[4,2]",)),
    "sparse_rows": (
        lambda: sg.value_and_grad(sparse_rows, (0, 1)), (scipy.sparse.csr_array(np.tri(5, 4)), "f64[4]"),
    ),
    "square_root": (lambda: sg.value_and_grad(square_root), ("f64[]",)),
}


def specs(value: Any) -> Any:
    """Read the specs in a structure; a matrix describes itself."""
    if scipy.sparse.issparse(value):
        return value
    return {k: sg.spec(v) for k, v in value.items()} if isinstance(value, dict) else sg.spec(value)


@pytest.mark.parametrize("name", FILES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    function, given = FILES[name]
    golden(f"{name}.c", function().lower(*map(specs, given)).as_text("c"))

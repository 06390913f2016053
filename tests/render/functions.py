"""Functions whose C the tests of render/ look at: small ones, real losses, every op, random programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

import symgrad as sg
from tests import table as t
from tests.control.programs import both
from tests.programs import random_program

rng = np.random.default_rng(7)


def logistic(w, X, y):
    return np.mean(np.logaddexp(0.0, -y * (X @ w))) + 1e-3 * np.sum(w**2)


def tanh_loss(w, b, x, y):
    return np.sum((np.tanh(x * w + b) - y) ** 2)


def rows(table, index, w):
    return np.sum(np.exp(table[index] @ w))


def softmax_regression(W, b, X, labels):
    z = X @ W + b
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(X.shape[0]), labels])


def perceptron(params, x):
    for W, b in params:
        x = np.tanh(x @ W + b)
    return np.sum(x * x)


def running(x):
    return np.sum(np.cumsum(x, axis=1)[:, ::2] ** 2) + np.prod(x[0]) + np.max(x)


def doubled(y):
    for _ in range(60):
        y = y + y
    return y


def masked(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


steep = sg.extern(
    "steep", "double steep(double x, double k) {\n    return 1.0 / (1.0 + exp(-k * x));\n}",
    lambda x, k: 1 / (1 + np.exp(-k * x)), arity=2, needs=("out", "x0", "x1"),
    vjp=lambda g, out, x0, x1: (g * out * (1 - out) * x1, g * out * (1 - out) * x0),
)


def of_ones_own(x, k):
    """Call a C function of the user's."""
    return np.sum(steep(2 * x, k) ** 2)


def gaussian_process(theta, X, y):
    between = X[:, None, :] - X[None, :, :]
    kernel = np.exp(theta[0] - np.sum(between**2, axis=2) * np.exp(theta[1])) + np.exp(theta[2]) * np.eye(len(y))
    factor = np.linalg.cholesky(kernel)
    return 0.5 * y @ sg.linalg.cho_solve((factor, True), y) + np.sum(np.log(np.diagonal(factor)))


def systems(A, B, M):
    x = np.linalg.solve(A, B)
    return np.sum(np.tanh(x)) + np.linalg.slogdet(A)[1] + np.sum(np.linalg.det(M)) + np.sum(np.linalg.inv(M) ** 2)


def decomposed(A, B):
    """Decompose matrices that are large enough to be so by halves, and of a rank that is not full."""
    (w, v), (u, s, _) = np.linalg.eigh(A), np.linalg.svd(B, full_matrices=False)
    return np.sum(np.tanh(w) * v[0] ** 2) + np.sum(s * u[0] ** 2)


LOSSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "logistic": (logistic, (rng.normal(size=5), rng.normal(size=(40, 5)), np.sign(rng.normal(size=40)))),
    "tanh_loss": (tanh_loss, (0.3, 0.2, rng.normal(size=100), rng.normal(size=100))),
    "rows": (rows, (rng.normal(size=(9, 4)), rng.integers(-9, 9, 30), rng.normal(size=4))),
    "softmax_regression": (
        softmax_regression,
        (rng.normal(size=(6, 3)), np.zeros(3), rng.normal(size=(20, 6)), rng.integers(0, 3, 20)),
    ),
    "perceptron": (perceptron, ([(rng.normal(size=(4, 4)), np.zeros(4)) for _ in range(2)], rng.normal(size=(5, 4)))),
    "running": (running, (rng.uniform(0.5, 1.5, (4, 6)),)),
    "doubled": (doubled, (1.0,)),
    "masked": (masked, (rng.normal(size=12),)),
    "gaussian_process": (gaussian_process, (np.array([0.3, -0.2, 0.1]), rng.normal(size=(70, 2)), rng.normal(size=70))),
    "systems": (
        systems, (rng.normal(size=(70, 70)) + 20 * np.eye(70), rng.normal(size=(70, 9)), rng.normal(size=(5, 4, 4))),
    ),
    "decomposed": (decomposed, (rng.normal(size=(97, 97)), rng.normal(size=(98, 60)) @ rng.normal(size=(60, 96)) / 9)),
}


def with_c_of_the_users() -> dict[str, tuple[sg.Function, tuple[Any, ...]]]:
    """Return value and gradient of a loss that calls a C function of the user's."""
    return {"of_ones_own": (sg.value_and_grad(of_ones_own, (0, 1)), (rng.normal(size=37), 3.0))}


def narrowed(value: Any) -> Any:
    """Turn float64 arrays and Python floats into float32."""
    if isinstance(value, (tuple, list)):
        return type(value)([narrowed(v) for v in value])
    if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64):
        return np.asarray(value, np.float32)
    return value


def losses(dtype: Any = np.float64) -> dict[str, tuple[sg.Function, tuple[Any, ...]]]:
    """Return value and gradient of every loss, with arguments."""
    return {
        name: (sg.value_and_grad(loss), args if dtype == np.float64 else narrowed(args))
        for name, (loss, args) in LOSSES.items()
    }


def rolled(x, W):
    """A Python loop that is found, whose steps write rows."""
    h, out = x, np.zeros((40, 3))
    for k in range(40):
        h = np.tanh(W @ h + 0.1 * k)
        out[k] = h
    return np.sum(out**2)


def integrated(y, k):
    """Take steps of any length, whose gradient reads few of the rows that they leave."""
    return np.sum(scipy.integrate.odeint(lambda y, t: np.stack([y[1], np.sin(t) - k * y[0]]), y, np.linspace(0, 1, 5)))


def loops() -> dict[str, tuple[sg.Function, tuple[Any, ...]]]:
    """Return derivatives of loops and branches, nested, of any number of steps, in runs, in batches."""
    found = {}
    for name in ("several", "nested", "unbounded", "times", "steps within steps", "branch in a loop", "table", "until"):
        ours, _, args, by = both(name)
        found[name] = sg.value_and_grad(ours, argnums=by), args
    ours, _, (x, W), _ = both("unbounded")
    found["a batch"] = sg.vmap(sg.grad(ours), (0, None)), (np.stack([x, -2 * x, 3 * x]), W)
    found["rolled"] = sg.value_and_grad(rolled, argnums=(0, 1)), (x, W)
    found["integrated"] = sg.grad(integrated, argnums=(0, 1)), (np.ones(2), 2.0)
    found["in runs"] = sg.value_and_grad(rolled, options=sg.Options(memory=600)), (x, W)
    return found


def tables(dtype: Any = np.float64) -> dict[str, tuple[sg.Function, tuple[Any, ...]]]:
    """Return the gradients of every op, a table of rows to a function."""
    group, size = t.groups("smooth"), t.MODULE if dtype == np.float64 else t.MODULE // 2
    found = {}
    for start in range(0, len(group), size):  # smaller ones in single: one op in double hides others
        many = t.Many(group[start : start + size], np.dtype(dtype))
        found[f"ops {start}"] = (sg.value_and_grad(many.loss), (many.floats, many.others, many.weights))
    return found


def programs(count: int = 40) -> dict[str, tuple[sg.Function, tuple[Any, ...]]]:
    """Return the gradients of random programs."""
    found = {}
    for seed in range(count):
        written = random_program(seed)
        found[f"program {seed}"] = (sg.value_and_grad(written.functions()[1], written.argnums), written.args)
    return found

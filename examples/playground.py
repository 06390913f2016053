"""Two spirals, told apart by a small network: the data and the network of TensorFlow's playground.

Value, gradient and update of a step are compiled; a step of all points takes a fraction of a millisecond. With a file
name it draws what the network thinks of each place in the plane (matplotlib).
"""

from __future__ import annotations

import sys
import time

import numpy as np

import symgrad as sg

EACH, STEPS = 100, 6000
"""Points of each spiral; steps of Adam over all of them."""


def spirals(rng):
    """Draw points of two spirals: 1 and 3/4 turns each, radius up to 5, and half a turn apart; with their signs."""
    turn = np.arange(EACH) / EACH
    arms = []
    for delta in (0.0, np.pi):
        angle = 1.75 * turn * 2 * np.pi + delta
        arms.append(5 * turn[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1))
    points = np.concatenate(arms)
    return points + 0.1 * rng.uniform(-1, 1, size=points.shape), np.repeat([1.0, -1.0], EACH)


def score(params, points):
    """Say on which side of the boundary points are: the sign is the class."""
    hidden = np.tanh(sg.nn.dense(params["first"], points))
    hidden = np.tanh(sg.nn.dense(params["second"], hidden))
    return sg.nn.dense(params["last"], hidden)[:, 0]


def loss(params, points, signs):
    """Mean logistic loss: log(1 + exp(-sign * score))."""
    return np.mean(np.logaddexp(0.0, -signs * score(params, points)))


def plot(path, params, points, signs):
    """Draw the score over the plane, its boundary and the points."""
    import matplotlib.pyplot as plt

    side = np.linspace(-6, 6, 240)
    places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    found = sg.jit(score)(params, places).reshape(len(side), -1)
    figure, axes = plt.subplots(figsize=(4.4, 4), layout="constrained")
    axes.contourf(side, side, np.tanh(found / 2), levels=20, cmap="RdBu", alpha=0.7)
    axes.contour(side, side, found, levels=[0.0], colors="0.2", linewidths=1)
    axes.scatter(*points.T, c=signs, cmap="RdBu", edgecolors="0.2", s=18)
    axes.set_aspect("equal")
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Train, and print how many points are on their side."""
    points, signs = spirals(np.random.default_rng(4))
    sizes = {"first": (2, 8), "second": (8, 8), "last": (8, 1)}
    params = {name: sg.nn.init.dense(k, *shape) for k, (name, shape) in enumerate(sizes.items())}
    optimizer = sg.optim.adam(0.02)
    state = optimizer.init(params)
    step = sg.compile_step(loss, optimizer)

    since = time.perf_counter()
    params, state, value = step(params, state, points, signs)
    first = time.perf_counter() - since
    print(f"first step {first:.1f} s (traced, derived, compiled): loss {value:.4f}")
    since = time.perf_counter()
    for _ in range(STEPS):
        params, state, value = step(params, state, points, signs)
    each = (time.perf_counter() - since) / STEPS
    right = np.mean(np.sign(score(params, points)) == signs)
    print(f"{STEPS} further steps of {each * 1e6:.0f} us: loss {value:.4f}, {right:.1%} of the points on their side")
    if right < 0.99:
        sys.exit("the spirals are not told apart")
    if path:
        plot(path, params, points, signs)


if __name__ == "__main__":
    main(*sys.argv[1:2])

"""SimpleFlow's regression: a line through a hundred noisy points by twenty steps, each one call of C.

The data, the rate and the number of steps are those of the notebook of PytLab's SimpleFlow, a small TensorFlow in
NumPy. `compile_step` makes value, gradient and update of the loss; the same twenty steps by hand in NumPy must end at
the same line. With a file name it draws the points, the lines on the way and the loss of each step (matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np

import symgrad as sg

RATE, STEPS = 0.005, 20
X = np.linspace(-1, 1, 100)
Y = 3 * X + 0.5 * np.random.RandomState(0).randn(100)


def loss(params, x, y):
    """The sum of squared errors of the line ``w * x + b``."""
    return np.sum((x * params["w"] + params["b"] - y) ** 2)


def by_hand(w, b):
    """Do the same with a gradient derived on paper."""
    for _ in range(STEPS):
        off = X * w + b - Y
        w, b = w - 2 * RATE * (off @ X), b - 2 * RATE * np.sum(off)
    return w, b


def plot(path, lines, values):
    """Draw the points with the line of each step, and how the loss falls."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.plot(X, Y, ".", color="0.6")
    for k, (w, b) in enumerate(lines):
        left.plot(X, w * X + b, color="C0", alpha=0.15 + 0.85 * k / len(lines), linewidth=1)
    left.set(xlabel="x", ylabel="y")
    right.semilogy(values, "o-", markersize=3)
    right.set(xlabel="step", ylabel="loss")
    figure.savefig(path, dpi=100)


def main(drawn=None) -> None:
    """Take the steps, and print where they end and where least squares do."""
    optimizer = sg.optim.sgd(RATE)
    step = sg.compile_step(loss, optimizer)
    params = {"w": np.float64(1.0), "b": np.float64(0.0)}
    state, lines, values = optimizer.init(params), [(1.0, 0.0)], []
    for _ in range(STEPS):
        params, state, value = step(params, state, X, Y)
        lines.append((float(params["w"]), float(params["b"])))
        values.append(float(value))
    w, b = lines[-1]
    best = np.linalg.lstsq(np.stack([X, np.ones_like(X)], axis=1), Y, rcond=None)[0]
    print(f"{STEPS} steps of {RATE}: w {w:.4f}, b {b:.4f}, loss {values[0]:.3f} at first, {values[-1]:.3f} at last")
    print(f"least squares:       w {best[0]:.5f}, b {best[1]:.5f}")
    off = np.max(np.abs(np.subtract((w, b), by_hand(1.0, 0.0))))
    if off > 1e-12 or abs(w - 2.9252) > 1e-4 or values != sorted(values, reverse=True):
        sys.exit(f"this is not what the same steps by hand give: {off:.1e} apart")
    if drawn:
        plot(drawn, lines, values)


if __name__ == "__main__":
    main(*sys.argv[1:2])

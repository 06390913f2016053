"""A damped pendulum: length and damping from a noisy record, by gradients through 1,000 Runge-Kutta steps.

The integrator is a plain Python loop. symgrad finds the loop in the trace: value and gradient are one C loop there and
one back, whose size does not depend on the number of steps. The program ends with an error when the fit is not where
the record was made. With a file name it draws the fit (matplotlib).
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.optimize import least_squares

import symgrad as sg

GRAVITY, STEP, STEPS, NOISE = 9.81, 0.01, 1_000, 0.05
TRUE = np.array([1.3, 0.25, 1.2, 0.0])
"""Length in metres, damping per second, first angle in radians and its speed."""


def slope(unknown, state):
    """How fast angle and speed change."""
    angle, speed = state
    return np.array([speed, -GRAVITY / unknown[0] * np.sin(angle) - unknown[1] * speed])


def angles(unknown):
    """Follow the pendulum by the classical Runge-Kutta method of fourth order."""
    state, seen = unknown[2:], []
    for _ in range(STEPS):
        a = slope(unknown, state)
        b = slope(unknown, state + STEP / 2 * a)
        c = slope(unknown, state + STEP / 2 * b)
        d = slope(unknown, state + STEP * c)
        state = state + STEP / 6 * (a + 2 * b + 2 * c + d)
        seen.append(state[0])
    return np.stack(seen)


def loss(unknown, record):
    """Half the sum of squared misses, in units of the noise."""
    return np.sum((angles(unknown) - record) ** 2) / (2 * NOISE**2)


def plot(path, found, record):
    """Draw the record and the pendulum that was found in it."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    seconds = STEP * np.arange(1, STEPS + 1)
    axes.plot(seconds, record, ".", color="0.7", markersize=3, label="record")
    axes.plot(seconds, angles(found), color="C0", label="fit")
    axes.set(xlabel="seconds", ylabel="angle in radians")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Make a record, fit it, and print what was found."""
    record = angles(TRUE) + NOISE * np.random.default_rng(1).normal(size=STEPS)
    start = np.array([1.0, 0.1, 1.0, 0.1])

    since = time.perf_counter()
    gradient = sg.value_and_grad(loss)
    gradient(start, record)
    first = time.perf_counter() - since
    since = time.perf_counter()
    for _ in range(100):
        gradient(start, record)
    print(f"first call {first:.1f} s (traced, derived, compiled), then {(time.perf_counter() - since) * 1e4:.0f} us")
    print(f"{gradient.lower(start, record).as_text('c').count(chr(10))} lines of C for {STEPS} steps")

    jacobian = sg.jacfwd(angles)
    fit = least_squares(
        lambda u: (angles(u) - record) / NOISE, start, jac=lambda u: jacobian(u) / NOISE, xtol=1e-12,
    )
    spread = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
    print(f"\nleast squares: {fit.nfev} residuals, {fit.njev} Jacobians")
    for name, found, error, true in zip(["length", "damping", "angle", "speed"], fit.x, spread, TRUE, strict=True):
        print(f"  {name:8} {found:8.4f} +- {error:.4f}   (made with {true})")
    if np.max(np.abs(fit.x - TRUE) / spread) > 4 or np.linalg.norm(gradient(fit.x, record)[1] * spread) > 1e-2:
        sys.exit("the fit is not where the record was made")
    if path:
        plot(path, fit.x, record)


if __name__ == "__main__":
    main(*sys.argv[1:2])

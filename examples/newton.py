"""Kepler's equation by Newton's method, differentiated: a loop until convergence, as Python's while and as sg's.

Where a planet is, that many days after it was nearest to the sun, is the root of E - e sin(E) = M. The loop ends when a
step is small, after another number of steps for each M and e; its derivatives agree with those of the equation itself.
From where a comet was seen its orbit is fitted. With a file name it draws both (matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import least_squares

import symgrad as sg

TRUE = np.array([0.8, 1.9, 0.35])
"""A comet's eccentricity, its semi-major axis in astronomical units, and when it was nearest to the sun, in years."""
SEEN, NOISE = np.linspace(0.0, 2.4, 40), 2e-3


def anomaly(mean, eccentricity):
    """Solve Kepler's equation by a loop of C, whatever the number of its steps is."""
    def step(state):
        place, _ = state
        move = (place - eccentricity * np.sin(place) - mean) / (1 - eccentricity * np.cos(place))
        return place - move, np.abs(move)

    start = mean + 0.85 * eccentricity * np.sign(np.sin(mean))
    place, _ = sg.while_loop(lambda state: state[1] > 1e-13, step, (start, np.inf))
    return place


def anomaly_in_python(mean, eccentricity):
    """Do the same in plain Python: NumPy runs it as it is, and symgrad compiles the way that a call takes."""
    place, move = mean + 0.85 * eccentricity * np.sign(np.sin(mean)), np.inf
    while abs(move) > 1e-13:
        move = (place - eccentricity * np.sin(place) - mean) / (1 - eccentricity * np.cos(place))
        place = place - move
    return place


def places(orbit, times):
    """Where the comet is at some times, in its plane: each time has a loop of its own."""
    eccentricity, axis, nearest = orbit
    mean = 2 * np.pi * (times - nearest) / axis**1.5
    angle = sg.vmap(anomaly, in_axes=(0, None))(mean, eccentricity)
    across = np.sqrt(1 - eccentricity**2) * np.sin(angle)
    return axis * np.stack([np.cos(angle) - eccentricity, across], axis=-1)


def plot(path, orbit, record):
    """Draw the orbit and its record, and how the root's derivative by e changes with M."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(ncols=2, figsize=(8, 3.2), layout="constrained")
    left.plot(*places(orbit, np.linspace(0, orbit[1] ** 1.5, 400)).T, color="C0", label="fitted orbit")
    left.plot(*record.T, ".", color="0.4", label="seen")
    left.plot(0, 0, "o", color="C1", label="sun")
    left.set_aspect("equal")
    left.legend(frameon=False)
    means = np.linspace(0.02, 2 * np.pi - 0.02, 300)
    for eccentricity in (0.2, 0.5, 0.8, 0.95):
        slopes = sg.vmap(sg.grad(anomaly, argnums=1), in_axes=(0, None))(means, eccentricity)
        right.plot(means, slopes, label=f"e = {eccentricity}")
    right.set(xlabel="M", ylabel="dE/de")
    right.legend(frameon=False)
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Compare derivatives, fit an orbit, and print what was found."""
    by_sg, by_python = [sg.value_and_grad(f, argnums=(0, 1)) for f in (anomaly, anomaly_in_python)]
    for mean, eccentricity in ((0.3, 0.1), (2.0, 0.6), (0.05, 0.95)):
        root, slopes = by_sg(mean, eccentricity)
        known = np.array([1.0, np.sin(root)]) / (1 - eccentricity * np.cos(root))
        again, python = by_python(mean, eccentricity)
        print(f"M = {mean}, e = {eccentricity}: E = {root:.12f}, dE/dM = {slopes[0]:.12f}, dE/de = {slopes[1]:.12f}")
        if max(np.max(np.abs(slopes - known)), np.max(np.abs(np.array(python) - known)), abs(root - again)) > 1e-10:
            sys.exit("these are not the derivatives of the equation")
    print(f"plain Python took {len(by_python.cache_info().paths)} paths")

    record = places(TRUE, SEEN) + NOISE * np.random.default_rng(2).normal(size=(len(SEEN), 2))
    misses = sg.jit(lambda orbit: ((places(orbit, SEEN) - record) / NOISE).reshape(-1))
    fit = least_squares(misses, [0.6, 1.7, 0.3], jac=sg.jacfwd(misses), xtol=1e-12)
    spread = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
    print(f"\nleast squares: {fit.nfev} residuals, {fit.njev} Jacobians")
    for name, found, error, true in zip(["eccentricity", "axis", "nearest"], fit.x, spread, TRUE, strict=True):
        print(f"  {name:12} {found:8.5f} +- {error:.5f}   (made with {true})")
    if np.max(np.abs(fit.x - TRUE) / spread) > 4:
        sys.exit("the fit is not where the record was made")
    if path:
        plot(path, fit.x, record)


if __name__ == "__main__":
    main(*sys.argv[1:2])

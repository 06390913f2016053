"""Great earthquakes as a Poisson process in three hidden states: a hidden Markov model, by the forward algorithm.

The recursion is a plain Python loop over 107 years, which symgrad makes a loop of C there and one back. SciPy maximizes
the likelihood. The program ends with an error when it does not find the model of W. Zucchini and I. L. MacDonald,
"Hidden Markov Models for Time Series" (2009), table 3.1. With a file name it draws what it found (matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

import symgrad as sg

FIRST = 1900
COUNTS = np.array([
    13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14, 8, 11, 14, 23, 18, 17, 19, 20, 22,
    19, 13, 26, 13, 14, 22, 24, 21, 22, 26, 21, 23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34,
    10, 15, 22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15, 18, 14, 10, 15, 8, 15, 6,
    11, 8, 7, 18, 16, 13, 12, 13, 20, 15, 16, 12, 18, 15, 16, 13, 15, 16, 11, 11,
], dtype=float)
"""Earthquakes of magnitude 7 or greater in the world, each year from 1900 to 2006."""


def model(unknown, states):
    """Return the states' rates, and the probabilities to go from one to another: any numbers are some model."""
    rates = np.exp(unknown[:states])
    free = unknown[states:].reshape(states, states)
    moves = np.exp(free - np.diag(np.diag(free)))  # what stands on the diagonal does not count
    return rates, moves / np.sum(moves, axis=1, keepdims=True)


def forward(unknown, counts, states):
    """Filter: the log-likelihood, and how probable each state is, given all counts up to that year."""
    rates, moves = model(unknown, states)
    seen = np.exp(counts[:, None] * np.log(rates) - rates - gammaln(counts + 1)[:, None])
    state = np.linalg.solve(np.eye(states) - moves.T + 1.0, np.ones(states))  # where it stays as it is
    total, filtered = 0.0, []
    for t in range(len(counts)):
        joint = state * seen[t]
        scale = np.sum(joint)
        total = total + np.log(scale)
        filtered.append(joint / scale)
        state = filtered[-1] @ moves
    return total, np.stack(filtered)


def loss(unknown, counts, states):
    """Minus the log-likelihood, for each year; the diagonal is held where it is, for it does not count."""
    free = unknown[states:].reshape(states, states)
    return -forward(unknown, counts, states)[0] / len(counts) + 1e-3 * np.sum(np.diag(free) ** 2)


def fit(states):
    """Maximize the likelihood, from rates that are spread evenly."""
    start = np.concatenate([np.log(np.linspace(10.0, 30.0, states)), -2.0 * (1 - np.eye(states)).reshape(-1)])
    gradient = sg.value_and_grad(loss, static_argnums=2)
    found = minimize(gradient, start, args=(COUNTS, states), jac=True, method="BFGS", options={"gtol": 1e-7})
    return found.x, -found.fun * len(COUNTS), gradient


def plot(path, unknown, states):
    """Draw the counts, and the rate that is expected given those up to each year."""
    import matplotlib.pyplot as plt

    rates, _ = model(unknown, states)
    _, filtered = forward(unknown, COUNTS, states)
    years = FIRST + np.arange(len(COUNTS))
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    axes.bar(years, COUNTS, color="0.8", label="earthquakes")
    axes.step(years, rates[np.argmax(filtered, axis=1)], where="mid", color="C3", label="rate of the likeliest state")
    axes.plot(years, filtered @ rates, color="C0", label="expected rate")
    axes.set(ylim=(0, 50))
    axes.legend(ncols=3, frameon=False)
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Fit models of two and of three states, and print them."""
    start = np.array([2.0, 3.0, 0.0, -2.0, -1.0, 0.0])
    print("gradient check:", sg.check_grads(lambda u: loss(u, COUNTS, 2), (start,), order=2))
    known = {2: (-342.3183, [15.472, 26.125]), 3: (-329.4603, [13.146, 19.721, 29.714])}
    for states, (likelihood, book) in known.items():
        unknown, reached, gradient = fit(states)
        rates, moves = model(unknown, states)
        order = np.argsort(rates)
        print(f"\n{states} states: log-likelihood {reached:.4f}")
        for k in order:
            print(f"  {rates[k]:6.3f} a year, then {np.array2string(moves[k, order], precision=3)}")
        lines = gradient.lower(unknown, COUNTS, states).as_text("c").count("\n")
        print(f"  {lines} lines of C for value and gradient of {len(COUNTS)} years")
        if abs(reached - likelihood) > 1e-3 or np.max(np.abs(rates[order] - book)) > 1e-2:
            sys.exit("this is not the model of the book")
    if path:
        plot(path, unknown, states)


if __name__ == "__main__":
    main(*sys.argv[1:2])

"""An LSTM that reads this repository's README letter by letter and learns to write on: a character model.

The recurrence is a plain Python loop over time. symgrad finds the loop in the trace: value and gradients are one C loop
there and one back. The program ends with an error when the loss does not fall. With a file name it draws how that falls
(matplotlib).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import symgrad as sg

HIDDEN, STEPS, BATCH, UPDATES, RATE = 64, 48, 32, 300, 1e-2


def start(letters, rng):
    """Draw weights: what a letter adds to the gates, what the state adds to them, and how the state says letters."""
    def drawn(*shape):
        return (rng.normal(size=shape) / np.sqrt(HIDDEN)).astype(np.float32)

    bias = np.zeros(4 * HIDDEN, np.float32)
    bias[:HIDDEN] = 1.0  # it begins by not forgetting
    return {"letter": drawn(letters, 4 * HIDDEN), "state": drawn(HIDDEN, 4 * HIDDEN), "bias": bias,
            "out": drawn(HIDDEN, letters), "out_bias": np.zeros(letters, np.float32)}


def sigmoid(x):
    """Squash to 0 to 1."""
    return 0.5 * np.tanh(0.5 * x) + 0.5


def step(weights, hidden, cell, seen):
    """Read one letter of each text."""
    gates = weights["letter"][seen] + hidden @ weights["state"] + weights["bias"]
    keep, write, show = [sigmoid(gates[:, k * HIDDEN : (k + 1) * HIDDEN]) for k in range(3)]
    cell = keep * cell + write * np.tanh(gates[:, 3 * HIDDEN :])
    return show * np.tanh(cell), cell


def loss(weights, text):
    """Return the mean surprise at the next letter, in nats; a column of `text` is what is read at one time."""
    hidden = np.zeros((len(text), HIDDEN), np.float32)
    cell, total = hidden, np.float32(0)
    for t in range(text.shape[1] - 1):
        hidden, cell = step(weights, hidden, cell, text[:, t])
        scores = hidden @ weights["out"] + weights["out_bias"]
        scores = scores - np.max(scores, axis=1, keepdims=True)
        right = np.take_along_axis(scores, text[:, t + 1][:, None], axis=1)[:, 0]
        total = total + np.mean(np.log(np.sum(np.exp(scores), axis=1)) - right)
    return total / np.float32(text.shape[1] - 1)


def write(weights, seed, count, letters, rng):
    """Continue a text by drawing letters as the model expects them; NumPy runs the same step as it is."""
    code = {letter: k for k, letter in enumerate(letters)}
    hidden = cell = np.zeros((1, HIDDEN), np.float32)
    said = seed
    for k in range(len(seed) + count):
        hidden, cell = step(weights, hidden, cell, np.array([code[said[k]]]))
        if k >= len(seed) - 1:
            scores = (hidden @ weights["out"] + weights["out_bias"])[0].astype(float)
            chances = np.exp((scores - np.max(scores)) / 0.7)
            said += letters[rng.choice(len(letters), p=chances / np.sum(chances))]
    return said


def plot(path, losses, guess):
    """Draw the loss of each update."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    axes.plot(losses, label="LSTM")
    axes.axhline(guess, color="0.6", label="how frequent each letter is")
    axes.set(xlabel="update", ylabel="nats per letter")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Train, and let it write."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    letters = sorted(set(text))
    codes = np.array([letters.index(letter) for letter in text])
    counts = np.bincount(codes)
    guess = -np.sum(counts * np.log(counts / len(codes))) / len(codes)
    rng = np.random.default_rng(0)
    weights = start(len(letters), rng)
    gradient = sg.value_and_grad(loss)

    since, losses = time.perf_counter(), []
    first = {name: np.zeros_like(w) for name, w in weights.items()}
    second = {name: np.zeros_like(w) for name, w in weights.items()}
    for update in range(1, UPDATES + 1):
        begin = rng.integers(0, len(codes) - STEPS - 1, BATCH)
        value, slopes = gradient(weights, codes[begin[:, None] + np.arange(STEPS + 1)])
        losses.append(value)
        for name, slope in slopes.items():  # Adam (D. P. Kingma and J. Ba, 2014)
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.99 * second[name] + 0.01 * slope**2
            scale = RATE / (1 - 0.9**update) * first[name]
            weights[name] = weights[name] - scale / (np.sqrt(second[name] / (1 - 0.99**update)) + 1e-8)
        if update == 1:
            print(f"first call {time.perf_counter() - since:.1f} s (traced, derived, compiled)")
            since = time.perf_counter()
        if update % 50 == 0:
            print(f"update {update}: {np.mean(losses[-20:]):.3f} nats per letter")
    print(f"{(time.perf_counter() - since) / (UPDATES - 1) * 1e3:.1f} ms for each update of {STEPS} steps")
    print(f"(a letter by its frequency alone: {guess:.3f})\n\n{write(weights, 'symgrad ', 200, letters, rng)}")
    if np.mean(losses[-20:]) > 0.75 * guess:
        sys.exit("it has not learnt much")
    if path:
        plot(path, losses, guess)


if __name__ == "__main__":
    main(*sys.argv[1:2])

"""Vectors for the words of this repository's documentation: skip-grams with negative samples (T. Mikolov et al., 2013).

A word's vector is to tell the words around it from words drawn at random. A step reads and writes the rows of its words
alone: gradients by the tables are sparse, and Adam is lazy. The program ends with an error when the loss does not fall.
With a file name it draws frequent words where their vectors lie in the plane of largest variance (matplotlib).
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import numpy as np

import symgrad as sg
from symgrad import nn, optim

WIDTH, AROUND, AGAINST, BATCH, EPOCHS, FEWEST = 32, 4, 6, 256, 6, 8
ASKED = ("gradient", "array", "loop", "compiler", "numpy", "error")


def read():
    """Return the words of the documentation that are frequent enough, and their numbers in the order of the text."""
    root = Path(__file__).parents[1]
    text = "\n".join([path.read_text() for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]])
    said = re.findall(r"[a-z]{2,}", text.lower())
    words, numbers, counts = np.unique(said, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(counts >= FEWEST)
    to = np.full(len(words), -1)
    to[kept] = np.arange(len(kept))
    numbers = to[numbers]
    return words[kept], numbers[numbers >= 0], counts[kept]


def pairs(numbers, counts, rng):
    """List words with a word near each; frequent words are left out now and then, as they say little."""
    share = counts / counts.sum()
    numbers = numbers[rng.random(len(numbers)) < np.sqrt(1e-3 / share[numbers]) + 1e-3 / share[numbers]]
    found = [(numbers[k:], numbers[:-k]) for k in range(1, AROUND + 1)]
    one, other = np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
    return np.concatenate([one, other]), np.concatenate([other, one])


def loss(params, word, near, drawn):
    """Mean surprise at a near word being near, and at drawn ones not being so."""
    v = params["word"][word]
    right = np.sum(v * params["near"][near], axis=1)
    wrong = np.sum(v[:, None, :] * params["near"][drawn], axis=2)
    return np.mean(nn.sigmoid_cross_entropy(right, np.ones_like(right))) + np.mean(
        np.sum(nn.sigmoid_cross_entropy(wrong, np.zeros_like(wrong)), axis=1))


def plot(path, words, vectors, counts):
    """Draw the most frequent words of five letters and more where their vectors lie."""
    import matplotlib.pyplot as plt

    most = [k for k in np.argsort(-counts) if len(words[k]) > 4][:90]
    centered = vectors[most] - vectors[most].mean(axis=0)
    plane = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    axes.scatter(*plane.T, s=4, color="0.7")
    for (x, y), k in zip(plane, most, strict=True):
        axes.annotate(words[k], (x, y), fontsize=7, ha="center")
    axes.set_axis_off()
    figure.savefig(path, dpi=100)


def main(path=None) -> int:
    """Train, and list the nearest words of some; 0 when the loss has fallen by a third."""
    rng = np.random.default_rng(0)
    words, numbers, counts = read()
    word, near = pairs(numbers, counts, rng)
    drawn = rng.choice(len(words), p=counts**0.75 / np.sum(counts**0.75), size=(len(word), AGAINST))
    print(f"{len(numbers)} words, {len(words)} different ones, {len(word)} pairs")

    opt = optim.adam(0.01, sparse="lazy")
    params = {"word": nn.init.normal(0, (len(words), WIDTH), std=0.1), "near": np.zeros((len(words), WIDTH))}
    step = sg.compile_step(loss, opt, donate=True)
    since = time.perf_counter()
    params, _, history = sg.fit(
        step, params, opt.init(params), (word, near, drawn), epochs=EPOCHS, batch=BATCH, seed=0,
    )
    values = history["value"]
    print(f"{len(values)} steps in {time.perf_counter() - since:.1f} s; loss {values[0]:.2f} before, "
          f"{np.mean(values[-200:]):.2f} after")

    vectors = params["word"] / np.linalg.norm(params["word"], axis=1, keepdims=True)
    for asked in ASKED:
        (k,) = np.flatnonzero(words == asked)
        nearest = [words[j] for j in np.argsort(-vectors @ vectors[k])[1:8]]
        print(f"{asked:>9}: {', '.join(nearest)}")
    if path:
        plot(path, words, vectors, counts)
    return 0 if np.mean(values[-200:]) < values[0] / 1.5 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

"""Logistic regression on 569 tumours by 30 measures of their cells: columns of symgrad.features, trained by FTRL.

Each measure counts as a number and by the bucket between quantiles that it is in, so that a linear model may bend;
an L1 penalty leaves some of them. The program ends with an error when fewer than 95 % of the test cases are told apart.
With a file name it draws the weights that are left (matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import symgrad as sg
from symgrad import features as ft
from symgrad import nn, optim

BUCKETS, EPOCHS, BATCH, RATE, L1 = 3, 40, 32, 0.1, 0.5


def measured(data, names):
    """Make two columns of each measure: the number, and the bucket between its quantiles."""
    cuts = np.quantile(data, np.arange(1, BUCKETS) / BUCKETS, axis=0).T
    numbers = [ft.numeric(name) for name in names]
    return [*numbers, *[ft.bucketized(of, cut.tolist()) for of, cut in zip(numbers, cuts, strict=True)]]


def main(path=None) -> int:
    """Train, test; 0 when the accuracy is at least 95 %."""
    cells = load_breast_cancer()
    names = [name.replace(" ", "_") for name in cells.feature_names]
    data, test, malignant, test_malignant = train_test_split(
        cells.data, 1.0 - cells.target, test_size=0.25, random_state=0, stratify=cells.target,
    )
    center, width = data.mean(axis=0), data.std(axis=0)
    data, test = (data - center) / width, (test - center) / width
    columns = measured(data, names)

    def encoded(rows):
        return ft.encode(columns, dict(zip(names, rows.T, strict=True)))

    def score(params, batch):
        return nn.dense(params, ft.dense(columns, {}, batch))[:, 0]

    def loss(params, batch, malignant):
        return np.mean(nn.sigmoid_cross_entropy(score(params, batch), malignant))

    opt = optim.ftrl(RATE, l1=L1)
    batch, test_batch = encoded(data), encoded(test)
    count = ft.dense(columns, {}, batch).shape[1]
    params = {"W": np.zeros((count, 1)), "b": np.zeros(1)}
    step = sg.compile_step(loss, opt)
    params, _, history = sg.fit(
        step, params, opt.init(params), (batch, malignant), epochs=EPOCHS, batch=BATCH, seed=0,
        validation=(test_batch, test_malignant), patience=10,
    )
    right = (score(params, test_batch) > 0) == (test_malignant > 0.5)
    left = np.count_nonzero(params["W"])
    first, *_, last = history["validation"]
    print(f"{len(history['validation'])} epochs; loss of the test cases {first:.3f} after the first, {last:.3f} now")
    print(f"test accuracy {100 * np.mean(right):.1f} % of {len(test)} cases, by {left} of {count} features")
    if path:
        plot(path, params["W"][:, 0], columns)
    return 0 if np.mean(right) >= 0.95 else 1


def plot(path, weights, columns):
    """Draw what each measure adds to the score: its number times a weight, and the weight of its bucket."""
    import matplotlib.pyplot as plt

    table = {}
    for column in sorted(columns, key=lambda column: column.name):  # as dense() puts them
        width = 1 if isinstance(column, type(columns[0])) else BUCKETS
        table[column.name], weights = weights[:width], weights[width:]
    names = sorted([c.name for c in columns[: len(columns) // 2]], key=lambda name: -np.abs(table[name][0]))[:12]
    rows = np.array([[*table[name], *table[f"{name}_bucketized"]] for name in names])
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    shown = axes.imshow(rows, cmap="RdBu_r", vmin=-np.abs(rows).max(), vmax=np.abs(rows).max(), aspect="auto")
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set_xticks(range(1 + BUCKETS), ["number", "small", "middle", "large"])
    figure.colorbar(shown, label="weight, for malignant")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

"""TensorFlow's first tutorial: softmax regression of 28 x 28 images, rate 0.5, 1,000 batches of 100, in one call of C.

The loss is written as in a textbook; `compile_step` makes value, gradient and update of it. Without a file of MNIST
(an .npz with x_train, y_train, x_test, y_test) it learns ten noisy prototypes of the same size. The same descent in
NumPy, with a gradient derived on paper, must end at the same weights. With a second file name it draws what speaks for
each digit and what against it (matplotlib).
"""

from __future__ import annotations

import sys
import time

import numpy as np

import symgrad as sg

RATE, BATCH, STEPS = 0.5, 100, 1000


def images(path=None):
    """Return images as rows of numbers from 0 to 1 and their labels, to learn and to test, and batches as indices."""
    rng = np.random.default_rng(0)
    if path:
        with np.load(path) as file:
            x, labels, x_test, labels_test = [file[name] for name in ("x_train", "y_train", "x_test", "y_test")]
        x, x_test = [one.reshape(len(one), -1) / 255.0 for one in (x, x_test)]
    else:
        prototypes = rng.random((10, 784)) * (rng.random((10, 784)) < 0.2)

        def drawn(count):
            labels = rng.integers(0, 10, count)
            bright = prototypes[labels] * rng.uniform(0.3, 1.0, (count, 1))
            return np.clip(bright + rng.normal(0, 0.35, (count, 784)), 0, 1), labels

        (x, labels), (x_test, labels_test) = drawn(5000), drawn(1000)
    order = np.stack([rng.integers(0, len(x), BATCH) for _ in range(STEPS)])
    return x, labels.astype(np.int64), x_test, labels_test, order


def loss(params, x, labels):
    """Mean cross-entropy of the labels: the logarithm of a softmax, as it stands in the tutorial."""
    logits = x @ params["W"] + params["b"]
    p = np.exp(logits) / np.sum(np.exp(logits), axis=1, keepdims=True)
    return -np.mean(np.log(p[np.arange(labels.shape[0]), labels]))


def by_hand(x, labels, order):
    """Do the same in NumPy: what symgrad saves you from."""
    W, b, values = np.zeros((784, 10)), np.zeros(10), []
    for rows in order:
        batch, wanted = x[rows], np.eye(10)[labels[rows]]
        logits = batch @ W + b
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(axis=1, keepdims=True)
        values.append(np.mean(np.log(total)[:, 0] - np.sum(logits * wanted, axis=1)))
        slope = (p / total - wanted) / BATCH
        W -= RATE * batch.T @ slope
        b -= RATE * slope.sum(axis=0)
    return W, b, values


def plot(path, W):
    """Draw the weights of each digit as an image: red speaks for it, blue against it."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(7, 3), layout="constrained")
    for digit, axis in enumerate(axes.flat):
        axis.imshow(W[:, digit].reshape(28, 28), cmap="RdBu_r", vmin=-np.abs(W).max(), vmax=np.abs(W).max())
        axis.set_title(digit, fontsize=8)
        axis.set_axis_off()
    figure.savefig(path, dpi=100)


def main(path=None, drawn=None) -> None:
    """Learn, and print losses, times and how many test images are told right."""
    x, labels, x_test, labels_test, order = images(path)
    optimizer = sg.optim.sgd(RATE)
    step = sg.compile_step(loss, optimizer, donate=True)
    params = {"W": np.zeros((784, 10)), "b": np.zeros(10)}
    state = optimizer.init(params)
    first = {name: one.copy() for name, one in params.items()}, optimizer.init(params)
    step.epoch(*first, x, labels, batch=BATCH, order=order[0])  # compiles it

    since = time.perf_counter()
    params, state, values = step.epoch(params, state, x, labels, batch=BATCH, order=order.ravel())
    taken = time.perf_counter() - since
    since = time.perf_counter()
    W, b, known = by_hand(x, labels, order)
    by_numpy = time.perf_counter() - since
    right = np.mean(np.argmax(x_test @ params["W"] + params["b"], axis=1) == labels_test)
    print(f"loss {values[0]:.12f} at first, {values[-1]:.12f} in the last batch")
    print(f"{STEPS} batches in {taken:.2f} s, by hand in NumPy {by_numpy:.2f} s; {right:.1%} of the tests are right")
    pairs = [(params["W"], W), (params["b"], b), (values, known)]
    off = max(np.max(np.abs(np.asarray(one) - other)) for one, other in pairs)
    if off > 1e-9 or abs(values[0] - np.log(10)) > 1e-12 or right < 0.91:
        sys.exit(f"this is not what the same descent by hand gives: {off:.1e} apart")
    if drawn:
        plot(drawn, params["W"])


if __name__ == "__main__":
    main(*sys.argv[1:3])

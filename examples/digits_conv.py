"""A small convolutional network on 1,797 handwritten digits: layers of symgrad.nn, trained by fit.

Value, gradient and Adam's update of a batch are one call of C. While it trains, images are moved by up to a pixel: what
`fit` goes through is an object that makes batches. The program ends with an error when fewer than 98.5 % of the test
images are read. With a file name it draws the images that are misread (matplotlib).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg
from symgrad import nn, optim

EPOCHS, BATCH = 30, 64


def start():
    """Draw the weights: windows of 3 x 3, 16 and then 32 channels, and ten scores of what is left."""
    def drawn(seed, *shape):
        return {"W": nn.init.he_normal(seed, shape, np.float32), "b": np.zeros(shape[-1], np.float32)}

    return {"one": drawn(0, 3, 3, 1, 16), "two": drawn(1, 3, 3, 16, 32), "out": drawn(2, 4 * 4 * 32, 10)}


def scores(params, images):
    """Return ten numbers for each image, the largest for the digit that it shows."""
    h = np.maximum(nn.conv2d(params["one"], images, padding="SAME"), 0.0)
    h = np.maximum(nn.conv2d(params["two"], h, padding="SAME"), 0.0)
    return nn.dense(params["out"], nn.max_pool(h, (2, 2)).reshape(-1, 4 * 4 * 32))


def loss(params, images, labels):
    """Mean cross-entropy of the labels."""
    return np.mean(nn.softmax_cross_entropy(scores(params, images), labels))


class Moved:
    """Batches of images, each image moved by up to a pixel, in another way and order in each epoch."""

    def __init__(self, images, labels, rng) -> None:
        self.images, self.labels, self.rng = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0))), labels, rng

    def __len__(self) -> int:
        return len(self.labels) // BATCH

    def __iter__(self) -> Iterator:
        order = self.rng.permutation(len(self.labels))
        for k in range(len(self)):
            rows = order[k * BATCH : (k + 1) * BATCH]
            down, right = self.rng.integers(0, 3, (2, BATCH, 1, 1))
            here = rows[:, None, None], down + np.arange(8)[:, None], right + np.arange(8)
            yield self.images[here], self.labels[rows]


def plot(path, images, labels, read):
    """Draw the test images that are misread."""
    import matplotlib.pyplot as plt

    wrong = np.flatnonzero(labels != read)[:8]
    figure, axes = plt.subplots(1, max(len(wrong), 2), figsize=(1.2 * max(len(wrong), 2), 1.5), layout="constrained")
    for axis, k in zip(axes, wrong, strict=False):
        axis.imshow(images[k, :, :, 0], cmap="gray_r")
        axis.set_title(f"{labels[k]}, read {read[k]}", fontsize=8)
    for axis in axes:
        axis.set_axis_off()
    figure.savefig(path, dpi=100)


def main(path=None) -> int:
    """Train, test; 0 when the accuracy is at least 98.5 %."""
    digits = load_digits()
    images = (digits.images[..., None] / 16.0).astype(np.float32)
    images, test, labels, test_labels = train_test_split(
        images, digits.target, test_size=0.25, random_state=0, stratify=digits.target,
    )
    steps = EPOCHS * (len(labels) // BATCH)
    opt = optim.adam(optim.cosine_decay(3e-3, steps))
    step = sg.compile_step(loss, opt)
    params = start()

    since = time.perf_counter()
    params, _, history = sg.fit(
        step, params, opt.init(params), Moved(images, labels, np.random.default_rng(0)), epochs=EPOCHS,
        validation=lambda params: np.mean(np.argmax(predict(params, test), axis=1) != test_labels),
    )
    print(f"{len(history['value'])} steps in {time.perf_counter() - since:.1f} s, the compiler's time included")
    for epoch in range(4, EPOCHS, 5):
        print(f"epoch {epoch + 1:3}: {100 * history['validation'][epoch]:.1f} % of the test images are misread")
    read = np.argmax(predict(params, test), axis=1)
    accuracy = np.mean(read == test_labels)
    print(f"test accuracy {100 * accuracy:.1f} % of {len(test)} images")
    if path:
        plot(path, test, test_labels, read)
    return 0 if accuracy >= 0.985 else 1


predict = sg.jit(scores)

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

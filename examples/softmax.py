"""The first tutorial of TensorFlow: softmax regression from 784 pixels to ten classes, by 1,000 steps of descent.

The loss is the logarithm of a softmax as it stands in a textbook, which the tutorial warns of: here it does not
overflow. The images are drawn from ten sparse prototypes, so that nothing is fetched. NumPy takes the same steps by a
gradient that was derived on paper; the program ends with an error where the two differ. With a file name it draws the
weights (matplotlib).
"""

from __future__ import annotations

import sys
import time

import numpy as np

import symgrad as sg

RATE, STEPS, BATCH, PIXELS, CLASSES = 0.5, 1000, 100, 784, 10


def images(count, prototypes, rng):
    """Draw images of random classes: prototypes, darkened and with noise; and the classes."""
    classes = rng.integers(0, CLASSES, count)
    lit = prototypes[classes] * rng.uniform(0.3, 1.0, (count, 1))
    return np.clip(lit + rng.normal(0, 0.35, (count, PIXELS)), 0, 1), classes


def loss(params, x, y):
    """Mean cross-entropy of the classes `y`, a row of zeros and a one for each image."""
    scores = x @ params["W"] + params["b"]
    softmax = np.exp(scores) / np.sum(np.exp(scores), axis=1, keepdims=True)
    return np.mean(-np.sum(y * np.log(softmax), axis=1))


def by_hand(params, x, y):
    """Take a step in NumPy, along a gradient that was derived on paper; return the loss before."""
    scores = x @ params["W"] + params["b"]
    most = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - most)
    total = e.sum(axis=1, keepdims=True)
    slopes = (e / total - y) / len(x)
    params["W"] -= RATE * x.T @ slopes
    params["b"] -= RATE * slopes.sum(axis=0)
    return np.mean(np.log(total) + most - np.sum(scores * y, axis=1, keepdims=True))


def plot(path, weights):
    """Draw the weights of each class as an image."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(6, 2.6), layout="constrained")
    for k, axis in enumerate(axes.flat):
        axis.imshow(weights[:, k].reshape(28, 28), cmap="RdBu_r", vmin=-2, vmax=2)
        axis.set_axis_off()
    figure.savefig(path, dpi=100)


def main(path=None) -> int:
    """Train by C and by NumPy; 0 when they agree."""
    rng = np.random.default_rng(0)
    prototypes = rng.random((CLASSES, PIXELS)) * (rng.random((CLASSES, PIXELS)) < 0.2)
    (x, classes), (test, test_classes) = images(5000, prototypes, rng), images(1000, prototypes, rng)
    y, chosen = np.eye(CLASSES)[classes], rng.integers(0, len(x), (STEPS, BATCH))

    opt = sg.optim.sgd(RATE)
    step = sg.compile_step(loss, opt)
    zeros = {"W": np.zeros((PIXELS, CLASSES)), "b": np.zeros(CLASSES)}
    step(zeros, opt.init(zeros), x[:BATCH], y[:BATCH])  # which compiles it
    since = time.perf_counter()
    params, _, history = sg.fit(step, zeros, opt.init(zeros), ((x[rows], y[rows]) for rows in chosen))
    seconds = time.perf_counter() - since

    own, since = {name: array.copy() for name, array in zeros.items()}, time.perf_counter()
    values = [by_hand(own, x[rows], y[rows]) for rows in chosen]
    numpys = time.perf_counter() - since
    far = max(np.max(np.abs(params[name] - own[name])) for name in own)
    right = np.mean(np.argmax(test @ params["W"] + params["b"], axis=1) == test_classes)
    print(f"first loss {history['value'][0]:.15f}, ln 10 is {np.log(10):.15f}; last {history['value'][-1]:.15f}")
    print(f"NumPy's weights differ by at most {far:.1e}, its losses by {np.max(np.abs(values - history['value'])):.1e}")
    print(f"test accuracy {100 * right:.1f} %; {1e6 * seconds / STEPS:.0f} us a step, NumPy {1e6 * numpys / STEPS:.0f}")
    large = {"W": np.tile(1e3 * np.arange(CLASSES), (PIXELS, 1)), "b": np.zeros(CLASSES)}
    value, extreme = sg.value_and_grad(loss)(large, x[:BATCH], y[:BATCH])
    print(f"with weights of thousands: loss {value:.6g}, and {np.isnan(extreme['W']).sum()} NaN in its gradient")
    if path:
        plot(path, params["W"])
    return 0 if far < 1e-9 and right > 0.99 and np.isfinite(extreme["W"]).all() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

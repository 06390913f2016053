"""Softmax regression on 1,797 handwritten digits: the loss in plain NumPy, its gradient from compiled C.

The loss is written as in a textbook, logarithm of a sum of exponentials and all. SciPy's L-BFGS minimizes it, calling
the C function that symgrad made of it. The program ends with an error when the classifier is worse than 95 %.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg

PIXELS, CLASSES = 64, 10
PENALTY = 1e-4
Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def loss(params, X, labels):
    """Mean cross-entropy of the labels plus a penalty on the weights; `params` holds weights and biases, flat."""
    W = params[: PIXELS * CLASSES].reshape(PIXELS, CLASSES)
    logits = X @ W + params[PIXELS * CLASSES :]
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return -np.mean(log_p[np.arange(labels.shape[0]), labels]) + PENALTY * np.sum(W**2)


def by_hand(params: Array, X: Array, labels: Labels) -> tuple[float, Array]:
    """The same value and gradient, derived on paper and written in NumPy: what symgrad saves you from."""
    W = params[: PIXELS * CLASSES].reshape(PIXELS, CLASSES)
    logits = X @ W + params[PIXELS * CLASSES :]
    p = np.exp(logits)
    total = np.sum(p, axis=1, keepdims=True)
    rows = np.arange(len(labels))
    value = -np.mean((logits - np.log(total))[rows, labels]) + PENALTY * np.sum(W**2)
    p /= total
    p[rows, labels] -= 1
    p /= len(labels)
    return float(value), np.concatenate([(X.T @ p + 2 * PENALTY * W).ravel(), p.sum(axis=0)])


def seconds(call: Callable[[], object]) -> float:
    """The median time of one call."""
    call()
    return float(np.median(timeit.repeat(call, number=1, repeat=50)))


def print_times(value_and_grad: Callable[..., object], params: Array, X: Array, labels: Labels) -> None:
    """Print the time of one call beside what NumPy needs for the same, and for less."""
    value = seconds(lambda: loss(params, X, labels))
    print(f"time per call ({len(labels)} images, {params.size} parameters):")
    print(f"  symgrad, value and gradient           {1e3 * seconds(lambda: value_and_grad(params, X, labels)):8.3f} ms")
    print(f"  NumPy, value only                     {1e3 * value:8.3f} ms")
    print(f"  NumPy, value and gradient by hand     {1e3 * seconds(lambda: by_hand(params, X, labels)):8.3f} ms")
    print(f"  NumPy, {params.size} differences, about        {1e3 * value * (params.size + 1):8.0f} ms")


def main() -> int:
    """Check the gradient, train, test, time; 0 when the accuracy is at least 95 %."""
    digits = load_digits()
    X, X_test, labels, labels_test = train_test_split(
        digits.data / 16.0, digits.target, test_size=0.25, random_state=0, stratify=digits.target,
    )
    start = np.random.default_rng(0).normal(scale=0.1, size=PIXELS * CLASSES + CLASSES)

    sg.check_grads(lambda params: loss(params, X[:16], labels[:16]), (start,))
    print("gradient check: reverse mode agrees with numerical differences")

    value_and_grad = sg.value_and_grad(loss)
    expected, got = by_hand(start, X, labels)[1], value_and_grad(start, X, labels)[1]
    print(f"                largest distance from the gradient by hand {np.max(np.abs(got - expected)):.1e}")

    fit = minimize(value_and_grad, start, args=(X, labels), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    W, b = fit.x[: PIXELS * CLASSES].reshape(PIXELS, CLASSES), fit.x[PIXELS * CLASSES :]
    accuracy = float(np.mean(np.argmax(X_test @ W + b, axis=1) == labels_test))
    print(f"training:       {fit.nit} steps of L-BFGS, {fit.nfev} calls, loss {fit.fun:.4f}")
    print(f"test accuracy:  {100 * accuracy:.1f} % of {len(labels_test)} images")

    print_times(value_and_grad, fit.x, X, labels)
    print(f"the C:          {value_and_grad.c_path or 'none: no C compiler was found, NumPy interpreted the program'}")
    return 0 if accuracy >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())

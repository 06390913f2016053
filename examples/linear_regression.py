"""A line through seventeen points, by gradient descent through compiled C and by least squares.

Data and learning rate are those of aymericdamien's TensorFlow-Examples. The cost is the textbook's; symgrad turns it
and both its derivatives into one C loop over the points.
"""

from __future__ import annotations

import numpy as np

import symgrad as sg

X = np.array(
    [3.3, 4.4, 5.5, 6.71, 6.93, 4.168, 9.779, 6.182, 7.59, 2.167, 7.042, 10.791, 5.313, 7.997, 5.654, 9.27, 3.1],
)
Y = np.array(
    [1.7, 2.76, 2.09, 3.19, 1.694, 1.573, 3.366, 2.596, 2.53, 1.221, 2.827, 3.465, 1.65, 2.904, 2.42, 2.94, 1.3],
)
RATE = 0.01
STEPS = 20_000


def cost(W, b, X, Y):
    """Half the mean squared error of the line ``W*x + b``."""
    return np.sum(np.power(X * W + b - Y, 2)) / (2 * X.shape[0])


def descend(W: float, b: float) -> tuple[float, float]:
    """Follow the gradient for `STEPS` full-batch steps."""
    value_and_grad = sg.value_and_grad(cost, argnums=(0, 1))
    for _ in range(STEPS):
        _, (dW, db) = value_and_grad(W, b, X, Y)
        W, b = W - RATE * float(dW), b - RATE * float(db)
    return W, b


def main() -> None:
    """Print the cost and its gradient at the start, where descent ends, and the exact answer."""
    value, (dW, db) = sg.value_and_grad(cost, argnums=(0, 1))(0.5, -0.25, X, Y)
    print(f"at W=0.5, b=-0.25:       cost {value:.15g}, dW {dW:.15g}, db {db:.15g}")
    W, b = descend(0.5, -0.25)
    print(f"{STEPS} steps of {RATE}:    W {W:.9f}, b {b:.9f}")
    W, b = np.linalg.lstsq(np.stack([X, np.ones_like(X)], axis=1), Y, rcond=None)[0]
    print(f"least squares:           W {W:.9f}, b {b:.9f}, cost {cost(W, b, X, Y):.15g}")


if __name__ == "__main__":
    main()

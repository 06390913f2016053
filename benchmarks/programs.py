"""The losses that are timed, each written once for NumPy and for jax.numpy."""

from __future__ import annotations


def readme(np):
    """The README's loss."""

    def loss(params, X, y):
        z = X @ params["w"] + params["b"]
        return np.mean(np.logaddexp(0.0, -y * z)) + 1e-3 * np.sum(params["w"] ** 2)

    return loss


def logistic(np):
    """Logistic regression."""
    return lambda w, X, y: np.mean(np.logaddexp(0.0, -y * (X @ w)))


def black_scholes(np, erf):
    """The sum of call prices; its gradient is delta and vega."""

    def normal(x):
        return 0.5 * (1 + erf(x / np.sqrt(2.0)))

    def price(spot, sigma):
        strike, rate, years = 100.0, 0.03, 1.0
        up = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * years) / (sigma * np.sqrt(years))
        down = up - sigma * np.sqrt(years)
        return np.sum(spot * normal(up) - strike * np.exp(-rate * years) * normal(down))

    return price


def rosenbrock(np):
    """Rosenbrock's function of any number of variables."""
    return lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

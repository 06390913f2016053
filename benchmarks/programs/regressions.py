"""Regressions, in the forms people write them."""

from __future__ import annotations

import numpy as np

from symgrad import linalg


def masked_logistic(w, X, y, mask):
    terms = np.where(mask, np.logaddexp(0.0, -y * (X @ w)), 0.0)
    return np.sum(terms) / np.sum(mask)


def weighted_poisson(w, X, y, weights):
    eta = X @ w
    return np.sum(weights * (np.exp(eta) - y * eta)) / np.sum(weights)


def features_first(w, X, y):
    """X is (features, samples)."""
    return np.mean((w @ X - y) ** 2)


def huber(w, X, y):
    r = np.abs(X @ w - y)
    return np.mean(np.where(r < 1.0, 0.5 * r**2, r - 0.5))


def quantile(w, X, y):
    r = y - X @ w
    return np.mean(np.maximum(0.9 * r, -0.1 * r))


def factorization(U, V, rows, columns, ratings):
    predicted = np.sum(U[rows] * V[columns], axis=1)
    return np.mean((predicted - ratings) ** 2) + 1e-4 * (np.mean(U**2) + np.mean(V**2))


def kernel_energy(a, log_scale, x):
    """The quadratic form of an RBF kernel's matrix."""
    distances = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    return 0.5 * a @ (np.exp(-0.5 * distances * np.exp(-2 * log_scale)) @ a)


def cox(w, X, observed):
    """Cox's partial likelihood of samples in order of descending time."""
    eta = X @ w
    return -np.sum(observed * (eta - np.log(np.cumsum(np.exp(eta))))) / np.sum(observed)


def gaussian_process(theta, X, y):
    """The negative logarithm of a Gaussian process's marginal likelihood, under an RBF kernel with noise."""
    distances = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=-1)
    kernel = np.exp(theta[0] - 0.5 * distances * np.exp(-2 * theta[1])) + np.exp(theta[2]) * np.eye(X.shape[0])
    factor = np.linalg.cholesky(kernel)
    fit = 0.5 * y @ linalg.cho_solve((factor, True), y)
    return fit + np.sum(np.log(np.diagonal(factor))) + 0.5 * X.shape[0] * np.log(2 * np.pi)


def branches(w, X, y):
    """Choose between two branches that call the same functions, as a formula with two cases is written."""
    z = X @ w
    return np.mean(np.where(y > 0, np.log1p(np.exp(-z)), np.log1p(np.exp(z))))

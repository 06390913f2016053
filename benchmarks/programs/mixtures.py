"""Mixtures and hierarchical models."""

from __future__ import annotations

import numpy as np
from scipy import special


def gmm(alphas, means, log_diagonals, lower, x):
    """The log-likelihood of a Gaussian mixture, as in ADBench: inverse covariances by their triangular factors."""
    centered = x[:, None, :] - means
    scaled = np.exp(log_diagonals) * centered + np.einsum("kij,nkj->nki", np.tril(lower, -1), centered)
    terms = alphas + np.sum(log_diagonals, axis=1) - 0.5 * np.sum(scaled**2, axis=2)
    n, d = x.shape
    constant = -0.5 * n * d * np.log(2 * np.pi)
    return constant + np.sum(special.logsumexp(terms, axis=1)) - n * special.logsumexp(alphas)


def eight_schools(mu, log_tau, eta, y, sigma):
    """The log-density of eight schools, not centered."""
    tau = np.exp(log_tau)
    theta = mu + tau * eta
    prior = -0.5 * (mu / 5.0) ** 2 - np.log(1 + (tau / 5.0) ** 2) + log_tau - 0.5 * np.sum(eta**2)
    return prior - 0.5 * np.sum(((y - theta) / sigma) ** 2)

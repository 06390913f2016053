"""Layers and small networks."""

from __future__ import annotations

import numpy as np
from scipy import special


def mlp(params, X, labels):
    hidden = np.maximum(X @ params["W1"] + params["b1"], 0.0)
    logits = hidden @ params["W2"] + params["b2"]
    log_p = logits - special.logsumexp(logits, axis=1, keepdims=True)
    return -np.mean(log_p[np.arange(labels.shape[0]), labels])


def softmax_regression(W, b, X, labels):
    logits = X @ W + b
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return -np.mean(log_p[np.arange(labels.shape[0]), labels]) + 1e-4 * np.sum(W**2)


def rows_by_number(W, b, X, labels, numbers):
    """A batch of rows, as stochastic gradients draw them."""
    return softmax_regression(W, b, X[numbers], labels[numbers])


def divergence(mean, log_var):
    """How far Gaussians are from the standard one, as variational autoencoders have it."""
    return np.mean(-0.5 * np.sum(1 + log_var - mean**2 - np.exp(log_var), axis=1))


def embedding_bag(table, w, words, y):
    """The mean of a bag's rows, then a linear model."""
    bags = np.mean(table[words], axis=1)
    return np.mean((bags @ w - y) ** 2)


def batch_norm(x, gamma, beta, target):
    normal = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-5)
    return np.mean((gamma * normal + beta - target) ** 2)


def layer_norm(x, gamma, beta, target):
    mean = np.mean(x, axis=1, keepdims=True)
    spread = np.mean((x - mean) ** 2, axis=1, keepdims=True)
    return np.mean((gamma * (x - mean) / np.sqrt(spread + 1e-5) + beta - target) ** 2)


def attention(Q, K, V, target):
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    p = e / np.sum(e, axis=1, keepdims=True)
    return np.mean((p @ V - target) ** 2)


def cross_entropy(logits, labels):
    log_p = logits - special.logsumexp(logits, axis=1, keepdims=True)
    return -np.mean(log_p[np.arange(labels.shape[0]), labels])


def softmax_over_rows(logits, target):
    """Classes along axis 0, samples along axis 1."""
    e = np.exp(logits - np.max(logits, axis=0))
    return np.mean((e / np.sum(e, axis=0) - target) ** 2)

"""Each loss in three other formulations, as other people would have written it: `REWRITTEN` has them by function."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

import symgrad as sg
from benchmarks.programs import classics, mechanics, mixtures, networks, regressions
from symgrad import linalg

# -- classics


def rosenbrock_halves(x):
    left, right = x[:-1], x[1:]
    return np.sum(100.0 * np.square(right - left * left) + np.square(1 - left))


def rosenbrock_dots(x):
    apart, rest = 10.0 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]
    return np.dot(apart, apart) + rest @ rest


def rosenbrock_norms(x):
    return 100.0 * np.linalg.norm(x[1:] - x[:-1] ** 2) ** 2 + np.linalg.norm(1 - x[:-1]) ** 2


def logistic_log1p(w, X, y):
    return np.log1p(np.exp(-y * np.dot(X, w))).sum() / len(y)


def logistic_sigmoid(w, X, y):
    return -np.mean(np.log(special.expit(y * np.einsum("nd,d->n", X, w))))


def logistic_samples(w, X, y):
    return np.mean(sg.vmap(lambda x, label: np.logaddexp(0.0, -label * np.sum(w * x)))(X, y))


def call_price(spot, sigma, normal):
    total = sigma**2 / 2 + 0.03
    up = (np.log(spot) - np.log(100.0) + total) / sigma
    return spot * normal(up) - 100.0 * np.exp(-0.03) * normal(up - sigma)


def black_scholes_erfc(spot, sigma):
    return call_price(spot, sigma, lambda x: special.erfc(-x / np.sqrt(2.0)) / 2).sum()


def black_scholes_ndtr(spot, sigma):
    return np.sum(call_price(spot, sigma, special.ndtr))


def black_scholes_options(spot, sigma):
    return np.sum(sg.vmap(lambda s, v: call_price(s, v, classics.normal))(spot, sigma))


def tanh_loss_dot(w, b, x, y):
    r = y - np.tanh(b + w * x)
    return np.dot(r, r)


def tanh_loss_samples(w, b, x, y):
    return sg.vmap(lambda x, y: np.square(np.tanh(w * x + b) - y))(x, y).sum()


def tanh_loss_norm(w, b, x, y):
    return np.linalg.norm(np.tanh(np.add(np.multiply(w, x), b)) - y) ** 2


def product_einsum(A, B):
    return np.einsum("ij,jk->ik", A, B)


def product_transposed(A, B):
    return (B.T @ A.T).T


def product_sum(A, B):
    return np.sum(A[:, :, None] * B[None, :, :], axis=1)


# -- bodies, arms, grids


def n_body_coordinates(x, masses):
    d2 = 0.01
    for k in range(3):
        apart = x[:, k][:, None] - x[:, k]
        d2 = d2 + apart * apart
    return -0.5 * np.sum(np.outer(masses, masses) / np.sqrt(d2))


def n_body_products(x, masses):
    apart = x[:, None] - x
    return -0.5 * masses @ (np.einsum("ijk,ijk->ij", apart, apart) + 0.01) ** -0.5 @ masses


def n_body_norms(x, masses):
    squares = np.sum(x * x, axis=1)
    d2 = squares[:, None] + squares[None, :] - 2 * x @ x.T
    return -0.5 * masses @ (1 / np.sqrt(d2 + 0.01)) @ masses


def rotation(angle, twist):
    c, s = np.cos(angle), np.sin(angle)
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(twist), -np.sin(twist)], [0.0, np.sin(twist), np.cos(twist)]])
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ tilt


def arm_rotations(q, goal):
    hand, turn = np.zeros(3), np.eye(3)
    for angle, twist, length in zip(q, mechanics.TWISTS, mechanics.LENGTHS, strict=True):
        hand = hand + turn @ np.array([0.1 * np.cos(angle), 0.1 * np.sin(angle), length])
        turn = turn @ rotation(angle, twist)
    return np.sum((hand - goal) ** 2)


def arm_backwards(q, goal):
    hand = np.zeros(3)
    for k in reversed(range(7)):
        offset = np.stack([0.1 * np.cos(q[k]), 0.1 * np.sin(q[k]), mechanics.LENGTHS[k]])
        hand = np.dot(rotation(q[k], mechanics.TWISTS[k]), hand) + offset
    return np.dot(hand - goal, hand - goal)


def arm_written(q, goal):
    pose = np.eye(4)
    for k in range(7):
        turn = np.eye(4)
        turn[:3, :3] = rotation(q[k], mechanics.TWISTS[k])
        turn[:3, 3] = 0.1 * np.cos(q[k]), 0.1 * np.sin(q[k]), mechanics.LENGTHS[k]
        pose = np.matmul(pose, turn)
    return np.linalg.norm(pose[:3, 3] - goal) ** 2


def heat_written(u, rate, target):
    u = u.copy()
    for _ in range(4):
        u[1:-1] += rate * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.mean((u - target) ** 2)


def heat_differences(u, rate, target):
    for _ in range(4):
        u = u + rate * np.pad(np.diff(u, 2), 1)
    return np.sum(np.square(u - target)) / u.size


def heat_convolved(u, rate, target):
    for _ in range(4):
        u = np.hstack([u[0], u[1:-1] + rate * np.convolve(u, [1.0, -2.0, 1.0], "valid"), u[-1]])
    return np.dot(u - target, u - target) / len(u)


def laplace_differences(u, source):
    return np.mean((np.diff(u, 2, axis=0)[:, 1:-1] + np.diff(u, 2, axis=1)[1:-1] - source) ** 2)


def laplace_windows(u, source):
    star = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
    residual = np.einsum("ijkl,kl->ij", np.lib.stride_tricks.sliding_window_view(u, (3, 3)), star) - source
    return np.sum(residual * residual) / residual.size


def laplace_rolled(u, source):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return np.mean(np.square((around - 4 * u)[1:-1, 1:-1] - source))


def turned_matmul(R, x, target):
    return np.mean(np.square((R @ x[..., None])[..., 0] - target))


def turned_sums(R, x, target):
    return np.mean((np.sum(R * x[:, None, :], axis=2) - target) ** 2)


def turned_samples(R, x, target):
    return np.sum(sg.vmap(lambda R, x, y: np.sum((R.dot(x) - y) ** 2))(R, x, target)) / target.size


def filtered_list(a, x, target):
    out = [x[0], a[0] * x[0] + x[1]]
    for value in x[2:]:
        out.append(a[0] * out[-1] + a[1] * out[-2] + value)
    return np.mean((np.array(out) - target) ** 2)


def filtered_scan(a, x, target):
    def step(before, value):
        now = a[0] * before[0] + a[1] * before[1] + value
        return (now, before[0]), now

    return np.mean(np.square(sg.scan(step, (0.0, 0.0), x)[1] - target))


def filtered_sum(a, x, target):
    last = before = loss = 0.0
    for t in range(len(x)):
        last, before = a @ np.array([last, before]) + x[t], last
        loss += (last - target[t]) ** 2
    return loss / len(x)


def repulsion_multiplied(x):
    d = x[:, None, :] - x[None, :, :]
    return np.sum(np.exp(-np.einsum("ijk,ijk->ij", d, d)) * (1 - np.eye(len(x))))


def repulsion_chosen(x):
    d2 = sum((x[:, k, None] - x[None, :, k]) ** 2 for k in range(x.shape[1]))
    return np.where(np.eye(len(x), dtype=bool), 0.0, np.exp(-d2)).sum()


def repulsion_norms(x):
    squares = np.sum(x**2, axis=1, keepdims=True)
    k = np.exp(-(squares + squares.T - 2 * np.dot(x, x.T)))
    return np.sum(k) - np.trace(k)


# -- mixtures


def gmm_constant(alphas, x):
    return -0.5 * x.size * np.log(2 * np.pi) - len(x) * special.logsumexp(alphas)


def factors(log_diagonals, lower):
    return np.tril(lower, -1) + np.exp(log_diagonals)[:, :, None] * np.eye(lower.shape[-1])


def gmm_factors(alphas, means, log_diagonals, lower, x):
    scaled = np.einsum("kij,nkj->nki", factors(log_diagonals, lower), x[:, None] - means[None])
    terms = alphas + log_diagonals.sum(1) - 0.5 * np.square(scaled).sum(-1)
    return gmm_constant(alphas, x) + special.logsumexp(terms, axis=1).sum()


def gmm_matmul(alphas, means, log_diagonals, lower, x):
    centered = (x - means[:, None, :]).transpose(0, 2, 1)
    scaled = factors(log_diagonals, lower) @ centered
    terms = (alphas + log_diagonals.sum(axis=1))[:, None] - 0.5 * np.sum(scaled * scaled, axis=1)
    top = np.max(terms, axis=0)
    return gmm_constant(alphas, x) + np.sum(np.log(np.sum(np.exp(terms - top), axis=0)) + top)


def gmm_points(alphas, means, log_diagonals, lower, x):
    Q = factors(log_diagonals, lower)

    def point(x):
        scaled = sg.vmap(lambda Q, mean: Q @ (x - mean))(Q, means)
        return special.logsumexp(alphas + np.sum(log_diagonals, axis=1) - 0.5 * np.sum(scaled**2, axis=1))

    return gmm_constant(alphas, x) + np.sum(sg.vmap(point)(x))


def log_normal(x, mean, scale):
    return -0.5 * np.square((x - mean) / scale)


def eight_schools_densities(mu, log_tau, eta, y, sigma):
    tau = np.exp(log_tau)
    prior = log_normal(mu, 0.0, 5.0) - np.log1p(np.square(tau / 5.0)) + log_tau + np.sum(log_normal(eta, 0.0, 1.0))
    return prior + np.sum(log_normal(y, mu + tau * eta, sigma))


def eight_schools_dots(mu, log_tau, eta, y, sigma):
    tau = np.exp(log_tau)
    r = (y - mu - tau * eta) / sigma
    return -0.5 * (mu * mu / 25.0 + eta @ eta + r @ r) - np.log(1 + tau * tau / 25.0) + log_tau


def eight_schools_schools(mu, log_tau, eta, y, sigma):
    def school(eta, y, sigma):
        return -0.5 * eta**2 - 0.5 * ((y - (mu + np.exp(log_tau) * eta)) / sigma) ** 2

    prior = -0.5 * (mu / 5.0) ** 2 - np.log(1 + np.exp(log_tau) ** 2 / 25.0) + log_tau
    return prior + sg.vmap(school)(eta, y, sigma).sum()


# -- networks


def one_hot(labels, like):
    return (labels[:, None] == np.arange(like.shape[1])).astype(like.dtype)


def mlp_features_first(params, X, labels):
    hidden = np.maximum(params["W1"].T @ X.T + params["b1"][:, None], 0.0)
    logits = params["W2"].T @ hidden + params["b2"][:, None]
    log_p = logits - special.logsumexp(logits, axis=0)
    return -np.mean(log_p[labels, np.arange(len(labels))])


def mlp_one_hot(params, X, labels):
    hidden = np.dot(X, params["W1"]) + params["b1"]
    hidden = np.where(hidden > 0, hidden, 0)
    logits = np.dot(hidden, params["W2"]) + params["b2"]
    logits = logits - np.max(logits, axis=1, keepdims=True)
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1))[:, None]
    return -np.sum(one_hot(labels, logits) * log_p) / len(labels)


def mlp_samples(params, X, labels):
    def sample(x, label):
        hidden = np.maximum(0.0, x @ params["W1"] + params["b1"])
        logits = hidden @ params["W2"] + params["b2"]
        return special.logsumexp(logits) - logits[label]

    return np.mean(sg.vmap(sample)(X, labels))


def softmax_regression_picked(W, b, X, labels):
    log_p = special.log_softmax(np.dot(X, W) + b[None, :], axis=1)
    return -np.take_along_axis(log_p, labels[:, None], axis=1).mean() + 1e-4 * np.sum(np.square(W))


def softmax_regression_one_hot(W, b, X, labels):
    logits = np.einsum("nd,dk->nk", X, W) + b
    p = special.softmax(logits, axis=1)
    return -np.sum(one_hot(labels, logits) * np.log(p)) / len(labels) + 1e-4 * (W * W).sum()


def softmax_regression_classes_first(W, b, X, labels):
    logits = W.T @ X.T + b[:, None]
    chosen = logits[labels, np.arange(len(labels))]
    return np.mean(special.logsumexp(logits, axis=0) - chosen) + 1e-4 * np.linalg.norm(W) ** 2


def rows_by_number_taken(W, b, X, labels, numbers):
    return softmax_regression_picked(W, b, np.take(X, numbers, axis=0), np.take(labels, numbers))


def rows_by_number_one_hot(W, b, X, labels, numbers):
    return softmax_regression_one_hot(W, b, X[numbers, :], labels[numbers])


def rows_by_number_classes_first(W, b, X, labels, numbers):
    return softmax_regression_classes_first(W, b, X[numbers], labels[numbers])


def divergence_whole(mean, log_var):
    return -0.5 * np.sum(1 + log_var - np.square(mean) - np.exp(log_var)) / len(mean)


def divergence_parts(mean, log_var):
    return 0.5 * (np.sum(np.exp(log_var)) + np.sum(mean * mean) - np.sum(log_var) - mean.size) / mean.shape[0]


def divergence_samples(mean, log_var):
    return np.mean(0.5 * (np.exp(log_var) + mean**2 - 1 - log_var)) * mean.shape[1]


def embedding_bag_taken(table, w, words, y):
    r = np.dot(np.sum(np.take(table, words, axis=0), axis=1) / words.shape[1], w) - y
    return np.dot(r, r) / len(y)


def embedding_bag_words(table, w, words, y):
    bags = sum(table[words[:, j]] for j in range(words.shape[1])) / words.shape[1]
    return np.mean(np.square(np.sum(bags * w, axis=1) - y))


def embedding_bag_bags(table, w, words, y):
    return np.mean(sg.vmap(lambda bag, y: (table[bag].mean(axis=0) @ w - y) ** 2)(words, y))


def batch_norm_squares(x, gamma, beta, target):
    mean = np.sum(x, axis=0) / len(x)
    spread = np.sum(x * x, axis=0) / len(x) - mean * mean
    return np.mean(np.square((x - mean) * (gamma / np.sqrt(spread + 1e-5)) + beta - target))


def batch_norm_features_first(x, gamma, beta, target):
    centered = x.T - np.mean(x.T, axis=1, keepdims=True)
    spread = np.mean(centered**2, axis=1)[:, None]
    out = gamma[:, None] * centered / np.sqrt(spread + 1e-5) + beta[:, None]
    return np.mean((out - target.T) ** 2)


def batch_norm_features(x, gamma, beta, target):
    def feature(x, gamma, beta, target):
        scaled = (x - x.mean()) * (x.var() + 1e-5) ** -0.5
        return np.sum((scaled * gamma + beta - target) ** 2)

    return np.sum(sg.vmap(feature, in_axes=(1, 0, 0, 1))(x, gamma, beta, target)) / x.size


def layer_norm_var(x, gamma, beta, target):
    scaled = (x - x.mean(1)[:, None]) / np.sqrt(x.var(1)[:, None] + 1e-5)
    return np.mean(np.square(scaled * gamma + beta - target))


def layer_norm_rows(x, gamma, beta, target):
    def row(x, target):
        return np.sum((gamma * (x - np.mean(x)) * (np.var(x) + 1e-5) ** -0.5 + beta - target) ** 2)

    return sg.vmap(row)(x, target).sum() / x.size


def layer_norm_sums(x, gamma, beta, target):
    d = x.shape[1]
    centered = x - np.sum(x, axis=1, keepdims=True) / d
    spread = np.einsum("nd,nd->n", centered, centered) / d
    r = centered * (1 / np.sqrt(spread + 1e-5))[:, None] * gamma + beta - target
    return np.sum(r * r) / r.size


def attention_softmax(Q, K, V, target):
    p = special.softmax(np.einsum("qd,kd->qk", Q, K) / np.sqrt(Q.shape[1]), axis=1)
    return np.mean(np.square(np.dot(p, V) - target))


def attention_divided_last(Q, K, V, target):
    scores = (Q / np.sqrt(Q.shape[1])) @ K.T
    e = np.exp(scores - scores.max(axis=1)[:, None])
    return np.mean((e @ V / e.sum(axis=1)[:, None] - target) ** 2)


def attention_keys_first(Q, K, V, target):
    scores = np.tensordot(K, Q, (1, 1)) / Q.shape[1] ** 0.5
    e = np.exp(scores - np.max(scores, axis=0))
    return np.mean((np.einsum("kq,kd->qd", e / np.sum(e, axis=0), V) - target) ** 2)


def cross_entropy_picked(logits, labels):
    top = np.max(logits, axis=1, keepdims=True)
    log_p = logits - top - np.log(np.sum(np.exp(logits - top), axis=1, keepdims=True))
    return -np.take_along_axis(log_p, labels[:, None], axis=1).sum() / len(labels)


def cross_entropy_one_hot(logits, labels):
    return -np.mean(np.sum(one_hot(labels, logits) * special.log_softmax(logits, axis=1), axis=1))


def cross_entropy_samples(logits, labels):
    return np.mean(sg.vmap(lambda row, label: special.logsumexp(row) - row[label])(logits, labels))


def softmax_over_rows_scipy(logits, target):
    return np.mean(np.square(special.softmax(logits, axis=0) - target))


def softmax_over_rows_transposed(logits, target):
    e = np.exp(logits.T - np.max(logits.T, axis=1, keepdims=True))
    return np.mean((e / np.sum(e, axis=1)[:, None] - target.T) ** 2)


def softmax_over_rows_columns(logits, target):
    def column(z, y):
        e = np.exp(z - np.max(z))
        return np.sum((e / np.sum(e) - y) ** 2)

    return np.sum(sg.vmap(column, in_axes=1)(logits, target)) / logits.size


# -- regressions


def masked_logistic_multiplied(w, X, y, mask):
    return np.sum(mask * np.log1p(np.exp(-y * X.dot(w)))) / mask.sum()


def masked_logistic_where(w, X, y, mask):
    return np.sum(np.logaddexp(0.0, -y * (X @ w)), where=mask) / np.count_nonzero(mask)


def masked_logistic_average(w, X, y, mask):
    return np.average(-np.log(special.expit(y * np.einsum("nd,d->n", X, w))), weights=mask)


def weighted_poisson_average(w, X, y, weights):
    eta = np.dot(X, w)
    return np.average(np.exp(eta) - y * eta, weights=weights)


def weighted_poisson_dot(w, X, y, weights):
    eta = np.sum(X * w, axis=1)
    return weights @ (np.exp(eta) - y * eta) / weights.sum()


def weighted_poisson_samples(w, X, y, weights):
    def sample(x, y, weight):
        return weight * (np.exp(x @ w) - y * (x @ w))

    return np.sum(sg.vmap(sample)(X, y, weights)) / np.sum(weights)


def features_first_turned(w, X, y):
    return np.mean(np.square(X.T @ w - y))


def features_first_sums(w, X, y):
    r = np.sum(w[:, None] * X, axis=0) - y
    return np.dot(r, r) / len(y)


def features_first_norm(w, X, y):
    return np.linalg.norm(np.einsum("dn,d->n", X, w) - y) ** 2 / y.size


def huber_clipped(w, X, y):
    r = X.dot(w) - y
    c = np.clip(r, -1.0, 1.0)
    return np.mean(c * (r - 0.5 * c))


def huber_minimum(w, X, y):
    a = np.abs(y - np.sum(X * w, axis=1))
    q = np.minimum(a, 1.0)
    return np.sum(0.5 * q**2 + (a - q)) / len(y)


def huber_samples(w, X, y):
    def sample(x, y):
        r = np.dot(x, w) - y
        return np.where(np.abs(r) < 1.0, 0.5 * np.square(r), np.abs(r) - 0.5)

    return sg.vmap(sample)(X, y).mean()


def quantile_where(w, X, y):
    r = y - np.dot(X, w)
    return np.where(r > 0, 0.9 * r, -0.1 * r).sum() / len(r)


def quantile_indicator(w, X, y):
    r = y - np.einsum("nd,d->n", X, w)
    return np.mean((0.9 - (r < 0)) * r)


def quantile_absolute(w, X, y):
    r = y - np.sum(X * w[None, :], axis=1)
    return np.mean(0.4 * r + 0.5 * np.abs(r))


def regularized(loss, U, V):
    return loss + 1e-4 * (np.sum(U * U) / U.size + np.sum(V * V) / V.size)


def factorization_einsum(U, V, rows, columns, ratings):
    r = np.einsum("nd,nd->n", U[rows], V[columns]) - ratings
    return regularized(np.dot(r, r) / len(r), U, V)


def factorization_taken(U, V, rows, columns, ratings):
    products = np.take(U, rows, axis=0) * np.take(V, columns, axis=0)
    return regularized(np.mean(np.square(products.sum(axis=1) - ratings)), U, V)


def factorization_ratings(U, V, rows, columns, ratings):
    return regularized(np.mean(sg.vmap(lambda i, j, r: (U[i] @ V[j] - r) ** 2)(rows, columns, ratings)), U, V)


def kernel_energy_norms(a, log_scale, x):
    squares = np.sum(x**2, axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * x @ x.T
    return 0.5 * np.dot(a, np.dot(np.exp(-0.5 * distances / np.exp(log_scale) ** 2), a))


def kernel_energy_pairs(a, log_scale, x):
    z = x * np.exp(-log_scale)
    apart = z[:, None] - z
    return 0.5 * np.sum(a[:, None] * a * np.exp(-0.5 * np.einsum("ijk,ijk->ij", apart, apart)))


def kernel_energy_rows(a, log_scale, x):
    def row(weight, point):
        distances = np.sum(np.square(x - point), axis=1)
        return weight * np.sum(a * np.exp(-distances / (2 * np.exp(log_scale) ** 2)))

    return 0.5 * np.sum(sg.vmap(row)(a, x))


def cox_where(w, X, observed):
    eta = np.dot(X, w)
    return np.sum(np.log(np.cumsum(np.exp(eta))) - eta, where=observed > 0) / observed.sum()


def cox_shifted(w, X, observed):
    eta = np.einsum("nd,d->n", X, w)
    top = np.max(eta)
    return np.average(np.log(np.cumsum(np.exp(eta - top))) + top - eta, weights=observed)


def cox_dot(w, X, observed):
    eta = np.sum(X * w, axis=1)
    risk = np.add.accumulate(np.exp(eta))
    return observed @ (np.log(risk) - eta) / np.sum(observed)


def negative_evidence(kernel, y):
    factor = np.linalg.cholesky(kernel)
    white = linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * np.dot(white, white) + np.log(np.diag(factor)).sum() + 0.5 * len(y) * np.log(2 * np.pi)


def gaussian_process_norms(theta, X, y):
    amplitude, scale, noise = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2])
    squares = np.sum(X**2, axis=1)
    distances = squares[:, None] + squares - 2 * X @ X.T
    return negative_evidence(amplitude * np.exp(-0.5 * distances / scale**2) + noise * np.eye(len(X)), y)


def gaussian_process_scaled(theta, X, y):
    Z = X / np.exp(theta[1])
    apart = Z[:, None] - Z
    kernel = np.exp(theta[0]) * np.exp(-0.5 * np.einsum("ijk,ijk->ij", apart, apart))
    return negative_evidence(kernel + np.diag(np.full(len(X), np.exp(theta[2]))), y)


def gaussian_process_pairs(theta, X, y):
    def pair(a, b):
        return np.exp(theta[0] - 0.5 * np.sum((a - b) ** 2) * np.exp(-2 * theta[1]))

    kernel = sg.vmap(lambda a: sg.vmap(lambda b: pair(a, b))(X))(X)
    return negative_evidence(kernel + np.exp(theta[2]) * np.eye(len(X)), y)


def branches_sign(w, X, y):
    return np.mean(np.log1p(np.exp(np.where(y > 0, -1.0, 1.0) * np.dot(X, w))))


def branches_logaddexp(w, X, y):
    z = np.sum(X * w, axis=1)
    return np.where(y > 0, np.logaddexp(0, -z), np.logaddexp(0, z)).sum() / len(z)


def branches_both(w, X, y):
    z = np.einsum("nd,d->n", X, w)
    positive = (y > 0) * 1.0
    return -np.mean(positive * np.log(special.expit(z)) + (1 - positive) * np.log(special.expit(-z)))


REWRITTEN: dict[Any, tuple[Any, ...]] = {
    classics.rosenbrock: (rosenbrock_halves, rosenbrock_dots, rosenbrock_norms),
    classics.logistic: (logistic_log1p, logistic_sigmoid, logistic_samples),
    classics.black_scholes: (black_scholes_erfc, black_scholes_ndtr, black_scholes_options),
    classics.tanh_loss: (tanh_loss_dot, tanh_loss_samples, tanh_loss_norm),
    classics.product: (product_einsum, product_transposed, product_sum),
    mechanics.n_body: (n_body_coordinates, n_body_products, n_body_norms),
    mechanics.arm: (arm_rotations, arm_backwards, arm_written),
    mechanics.heat: (heat_written, heat_differences, heat_convolved),
    mechanics.laplace: (laplace_differences, laplace_windows, laplace_rolled),
    mechanics.turned: (turned_matmul, turned_sums, turned_samples),
    mechanics.filtered: (filtered_list, filtered_scan, filtered_sum),
    mechanics.repulsion: (repulsion_multiplied, repulsion_chosen, repulsion_norms),
    mixtures.gmm: (gmm_factors, gmm_matmul, gmm_points),
    mixtures.eight_schools: (eight_schools_densities, eight_schools_dots, eight_schools_schools),
    networks.mlp: (mlp_features_first, mlp_one_hot, mlp_samples),
    networks.softmax_regression: (
        softmax_regression_picked, softmax_regression_one_hot, softmax_regression_classes_first,
    ),
    networks.divergence: (divergence_whole, divergence_parts, divergence_samples),
    networks.rows_by_number: (rows_by_number_taken, rows_by_number_one_hot, rows_by_number_classes_first),
    networks.embedding_bag: (embedding_bag_taken, embedding_bag_words, embedding_bag_bags),
    networks.batch_norm: (batch_norm_squares, batch_norm_features_first, batch_norm_features),
    networks.layer_norm: (layer_norm_var, layer_norm_rows, layer_norm_sums),
    networks.attention: (attention_softmax, attention_divided_last, attention_keys_first),
    networks.cross_entropy: (cross_entropy_picked, cross_entropy_one_hot, cross_entropy_samples),
    networks.softmax_over_rows: (softmax_over_rows_scipy, softmax_over_rows_transposed, softmax_over_rows_columns),
    regressions.masked_logistic: (masked_logistic_multiplied, masked_logistic_where, masked_logistic_average),
    regressions.weighted_poisson: (weighted_poisson_average, weighted_poisson_dot, weighted_poisson_samples),
    regressions.features_first: (features_first_turned, features_first_sums, features_first_norm),
    regressions.huber: (huber_clipped, huber_minimum, huber_samples),
    regressions.quantile: (quantile_where, quantile_indicator, quantile_absolute),
    regressions.factorization: (factorization_einsum, factorization_taken, factorization_ratings),
    regressions.kernel_energy: (kernel_energy_norms, kernel_energy_pairs, kernel_energy_rows),
    regressions.cox: (cox_where, cox_shifted, cox_dot),
    regressions.gaussian_process: (gaussian_process_norms, gaussian_process_scaled, gaussian_process_pairs),
    regressions.branches: (branches_sign, branches_logaddexp, branches_both),
}

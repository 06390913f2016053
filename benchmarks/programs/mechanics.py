"""Bodies, arms, grids."""

from __future__ import annotations

import numpy as np


def n_body(x, masses):
    """The potential energy of bodies, softened."""
    apart = x[:, None, :] - x[None, :, :]
    distance = np.sqrt(np.sum(apart**2, axis=-1) + 0.01)
    return -0.5 * np.sum(masses[:, None] * masses / distance)


LENGTHS = (0.3, 0.1, 0.4, 0.1, 0.4, 0.1, 0.2)
TWISTS = (1.5707963, -1.5707963, 1.5707963, -1.5707963, 1.5707963, -1.5707963, 0.0)


def arm(q, goal):
    """How far the hand of an arm of seven joints is from where it should be."""
    pose = np.eye(4)
    for k in range(7):
        c, s, ca, sa = np.cos(q[k]), np.sin(q[k]), np.cos(TWISTS[k]), np.sin(TWISTS[k])
        turn = np.array([
            [c, -s * ca, s * sa, 0.1 * c],
            [s, c * ca, -c * sa, 0.1 * s],
            [0.0, sa, ca, LENGTHS[k]],
            [0.0, 0.0, 0.0, 1.0],
        ])
        pose = pose @ turn
    return np.sum((pose[:3, 3] - goal) ** 2)


def heat(u, rate, target):
    """Four explicit steps of the heat equation between walls."""
    for _ in range(4):
        inside = u[1:-1] + rate * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = np.concatenate([u[:1], inside, u[-1:]])
    return np.mean((u - target) ** 2)


def laplace(u, source):
    """The residual of Poisson's equation on a grid."""
    residual = u[1:-1, 2:] + u[1:-1, :-2] + u[2:, 1:-1] + u[:-2, 1:-1] - 4 * u[1:-1, 1:-1] - source
    return np.mean(residual**2)


def turned(R, x, target):
    """A small matrix for each sample."""
    return np.mean((np.einsum("nij,nj->ni", R, x) - target) ** 2)


def filtered(a, x, target):
    """Write a filter's output step by step into an array."""
    out = np.zeros(len(x))
    out[0] = x[0]
    out[1] = a[0] * out[0] + x[1]
    for t in range(2, len(x)):
        out[t] = a[0] * out[t - 1] + a[1] * out[t - 2] + x[t]
    return np.mean((out - target) ** 2)


def repulsion(x):
    """Let each pair of points repel, and no point itself: the diagonal is written."""
    d = x[:, None] - x
    k = np.exp(-np.sum(d * d, axis=-1))
    np.fill_diagonal(k, 0.0)
    return np.sum(k)

"""A curve to fit, as a user writes it."""

import numpy as np


def misfit(p, t, y):
    """Return half the sum of squares of what an exponential curve with parameters p leaves."""
    residual = p[0] * np.exp(-p[1] * t) - y
    return 0.5 * np.sum(residual**2)

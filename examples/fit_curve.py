"""Growth curves of iris flowers by SciPy's least squares: the model fills its residuals in place, symgrad derives it.

Petals grow as ``width = scale * length ** power``, each species with a scale of its own and all with one power: the
allometric law. The residuals are assembled as scientific code usually does, slice by slice into one array. SciPy's
`least_squares` and `curve_fit` take the compiled Jacobian in the place of finite differences. The program ends with an
error when the gradient check fails or the fit is not the one that differences find.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import curve_fit, least_squares
from sklearn.datasets import load_iris

import symgrad as sg

PRIOR = 1.0
"""The power is expected near this, for a petal that keeps its shape."""

LOOSE = 0.5
"""How far from it, in the fit's own units."""


def predicted(params, length, species):
    """Widths of petals; `params` holds the scale of each species and the power."""
    width = np.zeros(len(length))
    for k in range(len(params) - 1):
        own = species == k
        width[own] = params[k]
        width[own] *= length[own] ** params[-1]
    return width


def residuals(params, length, width, species):
    """What the model misses: one number for each flower, then how far the power is from what is expected."""
    out = np.empty(len(length) + 1)
    out[:-1] = predicted(params, length, species)
    out[:-1] -= width
    out[:-1] /= 0.1 + 0.1 * width
    out[-1] = (params[-1] - PRIOR) / LOOSE
    return out


def main() -> None:
    """Fit, and print what was found."""
    data = load_iris()
    length, width, species = data.data[:, 2], data.data[:, 3], data.target
    flowers = (length, width, species)
    start = np.array([0.3, 0.3, 0.3, 1.0])

    print("gradient check:", sg.check_grads(lambda p: residuals(p, *flowers), (start,), order=2))

    jacobian = sg.jacfwd(residuals)
    fit = least_squares(residuals, start, jac=jacobian, args=flowers, xtol=1e-12)
    plain = least_squares(residuals, start, jac="3-point", args=flowers, xtol=1e-12)
    print(f"\nleast_squares with the Jacobian:  {fit.nfev} residuals, {fit.njev} Jacobians, cost {fit.cost:.6f}")
    many = plain.nfev + 2 * len(start) * plain.njev
    print(f"least_squares with differences:   {many} residuals, no Jacobian, cost {plain.cost:.6f}")
    for name, scale in zip(data.target_names, fit.x[:-1], strict=True):
        print(f"  {name:10} width = {scale:.4f} * length ** {fit.x[-1]:.4f}")
    if not np.allclose(fit.x, plain.x, rtol=1e-5) or np.linalg.norm(fit.jac.T @ fit.fun) > 1e-3:
        sys.exit("the fit is not where differences find it")

    slopes = sg.jacfwd(predicted)
    known = (length, species)
    best, covariance = curve_fit(
        lambda known, *params: predicted(np.array(params), *known), known, width, start,
        jac=lambda known, *params: slopes(np.array(params), *known),
    )
    found = [f"{b:.4f} +- {e:.4f}" for b, e in zip(best, np.sqrt(np.diag(covariance)), strict=True)]
    print("\ncurve_fit without the expectation:", ", ".join(found))


if __name__ == "__main__":
    main()

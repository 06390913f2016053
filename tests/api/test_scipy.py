"""SciPy's optimizers and solvers with all the derivatives they take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import curve_fit, least_squares, minimize, root

import symgrad as sg

START = np.array([-1.2, 1.0, -0.5, 0.8])


def rosenbrock(x):
    terms = np.zeros(len(x) - 1)
    for k in range(len(x) - 1):
        terms[k] = 100 * (x[k + 1] - x[k] ** 2) ** 2
        terms[k] += (1 - x[k]) ** 2
    return np.sum(terms)


def decay(t, a, b, c):
    out = np.empty(len(t))
    out[:] = a * np.exp(-b * t)
    out += c
    return out


T = np.linspace(0, 4, 40)
Y = decay(T, 2.5, 1.3, 0.5) + 0.01 * np.cos(37 * T)


@pytest.mark.parametrize("method", ["L-BFGS-B", "BFGS", "CG", "SLSQP"])
def test_minimize_with_the_gradient(method):
    found = minimize(sg.value_and_grad(rosenbrock), START, jac=True, method=method, options={"maxiter": 2000})
    np.testing.assert_allclose(found.x, np.ones(4), atol=2e-3)


def test_minimize_with_products_of_the_hessian():
    gradient, product = sg.grad(rosenbrock), sg.hvp(rosenbrock)
    for method in ("trust-ncg", "trust-krylov", "Newton-CG"):
        found = minimize(rosenbrock, START, jac=gradient, hessp=product, method=method)
        np.testing.assert_allclose(found.x, np.ones(4), atol=1e-4)


@pytest.mark.parametrize("method", ["trust-exact", "dogleg", "trust-ncg"])
def test_minimize_with_the_hessian(method):
    start = np.array([1.2, 1.1, 1.3, 1.4])  # where the Hessian is positive definite, for dogleg
    found = minimize(rosenbrock, start, jac=sg.grad(rosenbrock), hess=sg.hessian(rosenbrock), method=method)
    np.testing.assert_allclose(found.x, np.ones(4), atol=1e-4)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_minimize_with_jacobians_of_constraints(method):
    def circle(x):
        out = np.zeros(2)
        out[0] = np.sum(x**2) - 4
        out[1] = x[0] - x[1]
        return out

    found = minimize(
        sg.value_and_grad(lambda x: np.sum((x - np.array([3.0, 1.0])) ** 2)), np.array([1.0, 0.5]), jac=True,
        method=method, constraints={"type": "eq", "fun": circle, "jac": sg.jacrev(circle)},
    )
    np.testing.assert_allclose(found.x, [np.sqrt(2), np.sqrt(2)], atol=1e-5)


def test_least_squares_and_curve_fit_with_the_jacobian():
    def residuals(p):
        return decay(T, *p) - Y

    jacobian = sg.jacfwd(lambda p: decay(T, p[0], p[1], p[2]) - Y)
    for method in ("trf", "dogbox", "lm"):
        found = least_squares(residuals, np.ones(3), jac=jacobian, method=method)
        np.testing.assert_allclose(found.x, [2.5, 1.3, 0.5], atol=0.02)
        np.testing.assert_allclose(jacobian(found.x).T @ found.fun, 0, atol=1e-6)
    slopes = sg.jacfwd(decay, argnums=(1, 2, 3))
    best, _ = curve_fit(decay, T, Y, np.ones(3), jac=lambda t, *p: np.stack(slopes(t, *p), axis=1))
    np.testing.assert_allclose(best, found.x, rtol=1e-6)


def test_root_with_the_jacobian():
    def tridiagonal(x):
        out = np.zeros_like(x)
        out[:] = (3 - 2 * x) * x + 1
        out[1:] -= x[:-1]
        out[:-1] -= 2 * x[1:]
        return out

    for method in ("hybr", "lm"):
        found = root(tridiagonal, -np.ones(9), jac=sg.jacfwd(tridiagonal), method=method)
        assert found.success
        np.testing.assert_allclose(tridiagonal(found.x), 0, atol=1e-8)


def test_the_example_fits():
    script = Path(__file__).parents[2] / "examples" / "fit_curve.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    assert "derivatives agree" in done.stdout
    assert "versicolor width = 0.42" in done.stdout


def test_solve_ivp_with_the_jacobian():
    def robertson(t, y):
        out = np.empty(3)
        out[0] = -0.04 * y[0] + 1e4 * y[1] * y[2]
        out[2] = 3e7 * y[1] ** 2
        out[1] = -out[0] - out[2]
        return out

    jacobian = sg.jacfwd(robertson, argnums=1)
    for method in ("Radau", "BDF", "LSODA"):
        found = solve_ivp(
            sg.jit(robertson), (0.0, 100.0), np.array([1.0, 0.0, 0.0]), jac=jacobian, method=method,
            rtol=1e-6, atol=1e-10,
        )
        assert found.success
        np.testing.assert_allclose(np.sum(found.y[:, -1]), 1, rtol=1e-9)
        np.testing.assert_allclose(found.y[0, -1], 0.617234, rtol=1e-4)

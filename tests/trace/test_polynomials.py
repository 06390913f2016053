"""NumPy's modules of polynomials with traced coefficients and places, against NumPy's; slopes against differences."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Legendre, Polynomial

import symgrad as sg
from symgrad.errors import SymgradError
from tests.table import richardson

C, D, X = np.array([1.0, 2.0, -0.5, 0.3]), np.array([0.5, -1.0, 2.0]), np.array([0.3, -0.2, 0.7])
BASES = {
    "polynomial": "poly", "chebyshev": "cheb", "legendre": "leg", "hermite": "herm", "hermite_e": "herme",
    "laguerre": "lag",
}
FAMILY: dict[str, Any] = {
    "val": lambda f, c, x: (f(x, c), f(0.5, c), f(x, np.outer(c, c)), f(x[0], [c[0], 1.0])),
    "der": lambda f, c, _: (f(c), f(c, 2)), "int": lambda f, c, x: (f(c), f(c, 2, k=[x[0], 1.0], lbnd=x[1])),
    "add": lambda f, c, _: f(c, D), "sub": lambda f, c, _: f(D, c), "mul": lambda f, c, _: f(c, D),
    "div": lambda f, c, _: f(c, D), "mulx": lambda f, c, _: f(c), "pow": lambda f, c, _: f(c, 3),
    "vander": lambda f, _, x: f(x, 3), "val2d": lambda f, c, x: f(x, x, np.outer(c, c)),
    "grid2d": lambda f, c, x: f(x, X, np.outer(c, c)), "fit": lambda f, c, x: f(x, c[:3], 2),
    "line": lambda f, c, _: f(c[0], c[1]), "fromroots": lambda f, _, x: f(x), "companion": lambda f, c, _: f(c),
}


@pytest.mark.parametrize("module", BASES)
def test_functions(module: str) -> None:
    for name, call in FAMILY.items():
        function = getattr(import_module(f"numpy.polynomial.{module}"), BASES[module] + name)
        agrees(partial(call, function), f"{module}: {name}")


def agrees(fun: Any, label: str) -> None:
    def flat(c: Any, x: Any) -> Any:
        made = fun(c, x)
        return np.concatenate([np.ravel(y) for y in (made if isinstance(made, tuple) else (made,))])

    options = sg.Options(compiler="none")
    np.testing.assert_allclose(sg.jit(flat, options=options)(C, X), flat(C, X), rtol=1e-12, atol=1e-14, err_msg=label)
    slope = sg.jit(lambda c, x: sg.jvp(flat, (c, x), (D[[0, 1, 2, 0]], D))[1], options=options)(C, X)
    differences = richardson(lambda h: flat(C + h * D[[0, 1, 2, 0]], X + h * D), 1e-4)
    np.testing.assert_allclose(slope, differences, rtol=1e-7, atol=1e-8, err_msg=label)


SERIES: dict[str, Any] = {
    "value": lambda c, x: Polynomial(c)(x), "at numbers": lambda c, x: Polynomial(c)(2.0) * x,
    "calculus": lambda c, x: Chebyshev(c).integ()(x) + Polynomial(c).deriv()(x),
    "arithmetic": lambda c, x: (2 * Legendre(c) * Legendre(D) - Legendre(D) ** 2 + 1)(x),
    "domain": lambda c, x: Chebyshev(c, domain=[-1.0, 2.0])(x),
    "coefficients": lambda c, x: (Polynomial(c) + Polynomial(x)).coef,
    "conversion": lambda c, _: Legendre(c).convert(kind=Polynomial).coef,
    "fit": lambda c, x: Polynomial.fit(x, c[:3], 2)(x), "its coefficients": lambda c, x: Polynomial.fit(
        x, c[:3], 1, w=x * x).convert().coef,
    "fit of another": lambda c, x: Legendre.fit(x, c[:3], 1).deriv().coef + Chebyshev.fit(x, c[:3], 1, [0.0, 3.0]).coef,
    "domain of a fit": lambda c, x: Polynomial.fit(x, c[:3], 1, full=True)[0].domain,
    "of a polynomial": lambda c, x: Polynomial(c)(Polynomial(x)).coef,
}


@pytest.mark.parametrize("name", SERIES)
def test_series(name: str) -> None:
    agrees(SERIES[name], name)


@pytest.mark.parametrize("compiler", [None, "none"])
def test_a_loop_over_an_extent_that_two_others_make(compiler: str | None) -> None:
    options = sg.Options() if compiler is None else sg.Options(compiler="none")
    product = sg.jit(lambda a, b: np.polyval(np.polymul(a, b), 0.3), options=options, dynamic={"a": "n", "b": "m"})
    np.testing.assert_allclose(product(C, D), np.polyval(C, 0.3) * np.polyval(D, 0.3), rtol=1e-12)


def test_compiled() -> None:
    fun = sg.value_and_grad(lambda c, x: np.sum(np.polynomial.legendre.legval(x, c) ** 2))
    value, slope = fun(C, X)
    np.testing.assert_allclose(value, np.sum(np.polynomial.legendre.legval(X, C) ** 2), rtol=1e-13)
    rows = np.polynomial.legendre.legvander(X, 3)
    np.testing.assert_allclose(slope, 2 * rows.T @ (rows @ C), rtol=1e-12)


def test_coefficients_that_come_to_zero_stay() -> None:
    """Nobody knows while tracing which do; the polynomial is the same."""
    add = np.polynomial.polynomial.polyadd
    assert np.array_equal(sg.jit(lambda c: add(c, [1.0, -2.0]))(np.array([1.0, 2.0])), [2.0, 0.0])
    assert np.array_equal(add([1.0, 2.0], [1.0, -2.0]), [2.0])


@pytest.mark.parametrize("name", ["polyroots", "polytrim"])
def test_refused(name: str) -> None:
    with pytest.raises(SymgradError, match=r"test_polynomials\.py"):
        sg.jit(getattr(np.polynomial.polynomial, name))(C)

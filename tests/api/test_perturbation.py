"""d/dx (x * d/dy (x + y)) = 1 and its kin: every mode inside of every other one, to order 4."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import symgrad as sg


def derivative(f: Any) -> Any:
    """Differentiate by forward mode."""
    return lambda x: sg.jvp(f, (x,), (1.0,))[1]


def slope(f: Any) -> Any:
    """Differentiate by reverse mode, from its pulling back."""
    return lambda x: sg.vjp(f, x)[1](1.0)[0]


def mapped(f: Any) -> Any:
    """Differentiate under vmap."""
    return lambda x: np.sum(sg.vmap(lambda one: sg.grad(f)(one + x))(np.zeros(2))) / 2


def column(f: Any) -> Any:
    """Differentiate as a Jacobian of a vector of one."""
    return lambda x: sg.jacfwd(lambda v: f(v[0]))(x * np.ones(1))[0]


D: dict[str, Any] = {"grad": sg.grad, "jvp": derivative, "vjp": slope, "vmap": mapped, "jacfwd": column}

KIN: dict[str, tuple[Any, float]] = {
    "x * d(x + y)": (lambda d, e: d(lambda x: x * e(lambda y: x + y)(1.0)), 1.0),
    "x * d(x * y)": (lambda d, e: d(lambda x: x * e(lambda y: x * y)(1.0)), 2 * 1.5),
    "x * d(x * x * y)": (lambda d, e: d(lambda x: x * e(lambda y: x * x * y)(2.0)), 3 * 1.5**2),
    "d(x * y) at x": (lambda d, e: d(lambda x: e(lambda y: x * y)(x)), 1.0),
    "x + d(y * y) at x": (lambda d, e: d(lambda x: x + e(lambda y: y * y)(x)), 3.0),
    "d(y * stopped) at x": (lambda d, e: d(lambda x: x * e(lambda y: y**3)(x)), 9 * 1.5**2),
    "sin of both": (lambda d, e: d(lambda x: e(lambda y: np.sin(x * y))(2.0)), np.cos(3.0) - 3 * np.sin(3.0)),
    "d d y^4": (lambda d, e: d(e(lambda x: x**4)), 12 * 1.5**2),
    "d d d d y^4 x": (lambda d, e: d(e(d(e(lambda x: x**5)))), 120 * 1.5),
    "closed over": (lambda d, e: d(lambda x: x * e(lambda y: 3.0 * y + x - x)(1.0)), 3.0),
    "three deep": (lambda d, e: d(lambda x: x * e(lambda y: y * d(lambda z: x * y * z)(1.0))(2.0)), 8 * 1.5),
    "of its own result": (lambda d, e: d(lambda x: e(lambda y: y * y * x)(x) ** 2), 16 * 1.5**3),
    "side by side": (lambda d, e: d(lambda x: e(lambda y: x * y)(1.0) + e(lambda y: x * x * y)(1.0)), 1 + 2 * 1.5),
    "constant in x": (lambda d, e: d(lambda x: 2 * e(lambda y: 3.0 * y)(x)), 0.0),
    "constant in y": (lambda d, e: d(lambda x: e(lambda y: x * x + y)(1.0) + x), 1.0),
    "d of d d": (lambda d, e: d(lambda x: e(e(lambda y: x * y**3))(x)), 12 * 1.5),
    "d d of d d": (lambda d, e: d(d(lambda x: e(e(lambda y: x**2 * y**3))(2.0))), 24.0),
    "a choice by both": (lambda d, e: d(lambda x: x * e(lambda y: np.where(y > x, x * y, y * y))(2.0)), 2 * 1.5),
    "written in place": (lambda d, e: d(lambda x: x * e(lambda y: written(x, y))(1.0)), 2 * 1.5 + 1),
    "stopped in the middle": (lambda d, e: d(lambda x: e(lambda y: sg.stop_gradient(x) * y * x)(1.0)), 1.5),
}


def written(x: Any, y: Any) -> Any:
    """Write both variables into one array."""
    out = np.zeros(2)
    out[0] = x
    out *= y
    out[1] += y
    return np.sum(out)


def test_there_are_twenty_kin() -> None:
    assert len(KIN) == 20


@pytest.mark.parametrize("kin", KIN)
def test_no_perturbation_is_confused(kin: str):
    """Every mode inside of every other one, each as a program of its own, side by side in one module."""
    make, expected = KIN[kin]
    pairs = list(itertools.product(D, D))
    found = sg.jit(lambda x: [make(D[outer], D[inner])(x) for outer, inner in pairs])(1.5)
    assert dict(zip(pairs, found, strict=True)) == {pair: pytest.approx(expected, rel=1e-12) for pair in pairs}


def test_order_four_in_every_mixture():
    mixtures: list[Any] = list(itertools.product(["grad", "jvp", "vjp"], repeat=4))

    def every(x: Any) -> Any:
        found = []
        for modes in mixtures:
            f: Any = lambda x: np.exp(2 * x) + x**6  # noqa: E731 - it is wrapped again and again
            for mode in modes:
                f = D[mode](f)
            found.append(f(x))
        return found

    np.testing.assert_allclose(sg.jit(every)(0.5), [16 * np.exp(1.0) + 360 * 0.5**2] * len(mixtures), rtol=1e-12)

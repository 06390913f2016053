"""Second derivatives through loops that `np.where` may choose: a cotangent that is 0 by chance, or unused.

A cotangent that goes into a loop from a `where` behind it is 0 where the loop is not chosen, and there slopes may be
infinite. It may be 0 for other reasons, and then its own derivative counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import symgrad as sg
from tests.table import INTERPRETED

ORDERS: dict[str, Callable[[Any], Any]] = {
    "reverse of reverse": lambda f: sg.grad(sg.grad(f)), "forward of reverse": lambda f: sg.jacfwd(sg.grad(f)),
    "forward of forward": lambda f: sg.jacfwd(sg.jacfwd(f)), "reverse of forward": lambda f: sg.grad(sg.jacfwd(f)),
}


def looped(step: Callable[..., Any], count: int, *begin: Any) -> Any:
    return sg.scan(lambda s, n: (step(n, *s), None), begin, np.arange(1.0, count + 1))[0]


def by_hand(step: Callable[..., Any], count: int, *begin: Any) -> Any:
    for n in range(1, count + 1):
        begin = step(mp.mpf(n), *begin)
    return begin


def fraction(loop: Any, k: Any) -> Any:
    """A continued fraction and the sum of its products, as Fourier coefficients of the circle's distributions."""
    def step(n: Any, r: Any, total: Any) -> tuple[Any, Any]:
        r = k / (2 * n + k * r)
        return r, r * (1 / n + total)

    return loop(step, 5, 0 * k, 0 * k)[1]


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "fraction": fraction,
    "products": lambda loop, x: loop(lambda n, s, t: (s * (x + n), t * x / (n + x)), 3, x, 1 + 0 * x)[1],
    "powers": lambda loop, x: loop(lambda n, s, t: (s * x, (1 + t) / (1 + n * s)), 3, x, x)[1] * x,
    "quotients": lambda loop, x: loop(lambda n, s, t: (x / (n + s), t / (n + s * x) + s**2), 4, x, x)[1] * x,
    "logarithms": lambda loop, x: loop(lambda n, s: ((s + x) / (1 + n + s * s),), 4, x)[0] ** 2,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", STEPS)
def test_cotangents_that_are_zero_by_chance(name: str, order: str) -> None:
    """At 0 and beside it the second derivative is that of the loop alone."""
    loop = STEPS[name]
    found = sg.jit(ORDERS[order](lambda x: np.where(x < 5, loop(looped, x), np.sin(x) / x)))
    for x in (0.0, 1e-9, 0.3):
        exact = mp.diff(lambda y: loop(by_hand, y), mp.mpf(x), 2)
        np.testing.assert_allclose(found(x), float(exact), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["products", "powers", "quotients"])
def test_third_derivatives_where_cotangents_are_zero_by_chance(name: str) -> None:
    loop = STEPS[name]
    f = lambda x: np.where(x < 5, loop(looped, x), np.sin(x) / x)  # noqa: E731
    exact = float(mp.diff(lambda y: loop(by_hand, y), mp.mpf(0), 3))
    np.testing.assert_allclose(sg.grad(sg.grad(sg.grad(f)))(0.0), exact, rtol=1e-8)
    np.testing.assert_allclose(sg.jacfwd(sg.jacfwd(sg.jacfwd(f)))(0.0), exact, rtol=1e-8)


def test_a_loop_that_is_used_where_its_last_step_is_flat() -> None:
    """The derivative of the logarithm's cotangent is 0, and was left out with what it is 0 for."""
    f = lambda x: np.where(x > 1, looped(lambda n, s: (s * np.log(x - 1) + n,), 2, x)[0], np.sin(x))  # noqa: E731
    for order in ORDERS.values():
        np.testing.assert_allclose(order(f)(2.0), 3.0, rtol=1e-14)
    np.testing.assert_allclose(sg.grad(sg.grad(sg.grad(f)))(2.0), -4.0, rtol=1e-14)


@pytest.mark.parametrize("order", ORDERS)
def test_a_loop_that_nobody_uses_has_no_slope(order: str) -> None:
    """However steep, and whatever is no number in it."""
    def f(x: Any) -> Any:
        return np.where(x > 0, looped(lambda n, s: (np.sqrt(s * x) + n * x,), 2, x)[0], x**3)

    for options in (None, INTERPRETED):
        second = sg.jit(ORDERS[order](f), options=options)
        np.testing.assert_allclose([second(0.0), second(-1.0)], [0.0, -6.0], atol=1e-14)


def test_a_padded_batch_of_loops_that_nobody_uses() -> None:
    def norm(x: Any, mask: Any) -> Any:
        return np.sum(np.where(mask, looped(lambda _, s: (np.sqrt(s * s + x * x),), 3, x)[0], 0.0))

    x, mask = np.array([0.5, 0.0, 2.0, 0.0]), np.array([True, False, True, False])
    for each in (sg.hessian(norm), sg.jacrev(sg.grad(norm))):
        np.testing.assert_allclose(each(x, mask), np.zeros((4, 4)), atol=1e-15)


UNUSED: dict[str, Callable[[Any], Any]] = {
    "fori_loop": lambda x: sg.fori_loop(0, 3, lambda _, t: t * np.sqrt(t), x),
    "while_loop": lambda x: sg.while_loop(
        lambda s: s[1] < 3, lambda s: (s[0] * np.sqrt(s[0]), s[1] + 1), (x, 0), max_steps=5)[0],
    "a norm": lambda x: looped(lambda _, t: (t * np.linalg.norm(np.stack([t, x])),), 3, x)[0],
    "sixty rounds": lambda x: rounds(lambda t: t * np.sqrt(t), 60, x),
    "inside": lambda x: looped(lambda _, t: (np.where(t > 0, t * np.sqrt(t), t),), 3, x)[0],
}


def rounds(step: Callable[[Any], Any], count: int, x: Any) -> Any:
    for _ in range(count):
        x = step(x)
    return x


@pytest.mark.parametrize("name", UNUSED)
def test_hessians_where_no_round_is_used(name: str) -> None:
    f = lambda x: np.where(x > 0, UNUSED[name](x), np.cos(x))  # noqa: E731
    for order in ("reverse of reverse", "forward of reverse"):
        np.testing.assert_allclose(sg.jit(ORDERS[order](f))(0.0), -1.0, rtol=1e-14)


def test_what_has_no_slope_by_elements_is_cut_where_a_slope_is_not_finite() -> None:
    """A loop whose other result nobody uses, with a system of equations in it: the Hessian is symmetric."""
    a = np.array([[2.0, 0.0], [1.0, 1.0]])

    def f(x: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            s, t = state
            return (np.linalg.solve(a, t) * (x + t), (t + s) * t), None

        return sg.scan(step, (x, x), None, length=3)[0][0][1]

    x = np.array([0.3, 0.0])
    for each in (sg.hessian(f), sg.jacrev(sg.grad(f)), sg.jacfwd(sg.jacfwd(f))):
        np.testing.assert_allclose(each(x), [[0.0, -0.324], [-0.324, 0.0]], rtol=1e-12, atol=1e-14)

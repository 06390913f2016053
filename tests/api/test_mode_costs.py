"""What modes cost by their operations, on the programs of the benchmarks, beside the function.

Reverse mode at most 4 times, a Hessian times a vector at most 10 times, forward mode by an argument at most 2.5 times.
A product of which both factors vary has two products for its derivative beside its own, so that nothing computes it
forward for less than 3 times: that is so for several arguments at once, and inside of the programs of `BILINEAR`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from benchmarks.workload import Workload
from benchmarks.workloads import OTHERS, PROMISED
from symgrad.api.report import cost_of

BILINEAR = {"Gaussian process n=300", "filter, step by step", "arm of 7 joints"}
"""An arm is a product of matrices, of which each has an angle or comes after one. A Cholesky factor is made of
products of itself, and beside its n^3 / 3 operations little else is done. A filter's coefficients meet, at each step,
what they made at the steps before; 0.1 more are steps that stay beside its loop."""

PROGRAMS = [w for w in PROMISED + OTHERS if w.by is not None and w.name not in {"gmm d32 K50", "gmm d64 K100"}]
FACTORED = [w for w in PROGRAMS if w.name.startswith("Gaussian process")]


def flops(function: Any, *args: Any) -> int:
    """The operations of a function, for one thread."""
    total: Any = cost_of(sg.jit(function).lower(*args).stages).flops
    return total if type(total) is int else int(total.subs(dict.fromkeys(total.free_symbols, 1)))


def by(workload: Workload) -> tuple[int, ...]:
    found = workload.by or 0
    return found if isinstance(found, tuple) else (found,)


def forward(workload: Workload, args: Any, wrt: tuple[int, ...]) -> int:
    def pushed(args: Any, along: Any) -> Any:
        tangents = [along[wrt.index(k)] if k in wrt else None for k in range(len(args))]
        return sg.jvp(workload.function, args, tangents)

    return flops(pushed, args, [args[k] for k in wrt])


@pytest.mark.parametrize("workload", PROGRAMS, ids=lambda w: w.name)
def test_modes_cost_a_few_times_the_function(workload: Workload) -> None:
    args, wrt = workload.arguments(), by(workload)
    one = flops(workload.function, *args)
    assert one > 0
    assert flops(sg.value_and_grad(workload.function, wrt), *args) <= 4 * one
    for k in wrt:
        assert forward(workload, args, (k,)) <= (3.15 if workload.name in BILINEAR else 2.5) * one
    assert forward(workload, args, wrt) <= (3.15 if workload.name in BILINEAR else 3.05) * one

    def curved(args: Any, along: Any) -> Any:
        gradient = sg.grad(workload.function, wrt)
        return sg.jvp(gradient, args, [along[wrt.index(k)] if k in wrt else None for k in range(len(args))])[1]

    assert flops(curved, args, [args[k] for k in wrt]) <= 10 * one


@pytest.mark.parametrize("workload", FACTORED, ids=lambda w: w.name)
def test_a_gradient_through_a_factor_costs_a_few_times_the_function(workload: Workload) -> None:
    args, wrt = workload.arguments(), by(workload)
    one = flops(workload.function, *args)
    assert flops(sg.value_and_grad(workload.function, wrt), *args) <= 3 * one


def test_a_sign_costs_nothing() -> None:
    def f(x: Any, y: Any) -> Any:
        return x - y * (-x) * 3.0 - (-y) / x

    text = sg.jit(f).lower(1.0, 2.0).as_text("optimized")
    assert "-x" not in text.replace(" - ", "")
    assert "-y" not in text.replace(" - ", "")
    assert sg.jit(f)(1.5, 2.5) == f(1.5, 2.5)


def test_what_is_zero_in_a_cotangent_is_not_multiplied() -> None:
    A, B = np.random.default_rng(0).normal(size=(2, 30, 30))

    def columns(A: Any, B: Any) -> Any:
        return np.sum((A @ B)[4:10, 5:8] ** 2)

    product = 2 * 30**3
    assert flops(sg.value_and_grad(columns, (0, 1)), A, B) < 1.4 * product
    by_a, by_b = sg.grad(columns, (0, 1))(A, B)
    g = np.zeros((30, 30))
    g[4:10, 5:8] = 2 * (A @ B)[4:10, 5:8]
    np.testing.assert_allclose(by_a, g @ B.T, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(by_b, A.T @ g, rtol=1e-13, atol=1e-13)


def test_a_tangent_that_is_zero_by_its_structure_meets_no_infinity() -> None:
    A = np.array([[1.0, np.inf], [2.0, 3.0]])

    def beside(x: Any) -> Any:
        return A @ np.concatenate([x, np.array([4.0])])

    assert np.array_equal(sg.jvp(beside, (np.ones(1),), (np.ones(1),))[1], [1, 2])
    every = sg.jvp(lambda x: A @ np.stack([x, x]), (np.array(1.0),), (np.array(0.0),))[1]
    assert np.isnan(every[0])  # a tangent that happens to be zero does


def test_slices_placed_apart_are_written() -> None:
    def ends(x: Any) -> Any:
        return np.sum(x[:3] * x[7:]) + np.sum(x[3:7])

    found = sg.grad(ends)
    x = np.arange(10.0)
    assert np.array_equal(found(x), [7, 8, 9, 1, 1, 1, 1, 0, 1, 2])
    assert flops(found, x) == 0
    met = sg.grad(lambda x: np.sum(x[:6] * x[4:]))
    assert np.array_equal(met(x), [4, 5, 6, 7, 8 + 0, 9 + 1, 2, 3, 4, 5])

"""What modes cost by their operations, on the programs of the benchmarks, beside the function.

Reverse mode at most 4 times, a Hessian times a vector at most 10 times, forward mode by an argument at most 2.5 times.
A product of which both factors vary has two products for its derivative beside its own, so that nothing computes it
forward for less than 3 times: that is so for several arguments at once, and inside of the programs of `BILINEAR`.
"""

from __future__ import annotations

from typing import Any

import pytest

import symgrad as sg
from benchmarks.workload import Workload
from benchmarks.workloads import OTHERS, PROMISED
from symgrad.api.reports import cost_of

BILINEAR = {"Gaussian process n=300"}
"""A Cholesky factor is made of products of itself, and beside its n^3 / 3 operations little else is done."""

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
        assert forward(workload, args, (k,)) <= (3.05 if workload.name in BILINEAR else 2.5) * one
    assert forward(workload, args, wrt) <= 3.05 * one

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

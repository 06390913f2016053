"""Value and gradient cost at most four times the function, counted in operations, on the programs of the benchmarks."""

from __future__ import annotations

from typing import Any

import pytest

import symgrad as sg
from benchmarks.workload import Workload
from benchmarks.workloads import OTHERS, PROMISED
from symgrad.api.reports import cost_of

SHIFTED = {"heat, 4 steps": 4.5, "Laplace 2-D": 6.5}
"""Stencils: what their adjoints read at shifted places is computed again there: operations in the place of memory."""


def flops(lowered: Any) -> int:
    """The operations of a lowered function, for one thread."""
    total: Any = cost_of(lowered.stages).flops
    return total if type(total) is int else int(total.subs(dict.fromkeys(total.free_symbols, 1)))


@pytest.mark.parametrize("workload", [w for w in PROMISED + OTHERS if w.by is not None], ids=lambda w: w.name)
def test_reverse_mode_costs_at_most_four_times_the_function(workload: Workload) -> None:
    args = workload.arguments()
    forward = flops(sg.jit(workload.function).lower(*args))
    both = flops(sg.value_and_grad(workload.function, workload.by or 0).lower(*args))
    assert forward > 0
    assert both <= SHIFTED.get(workload.name, 4.0) * forward

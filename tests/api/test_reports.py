"""What a function is said to do and to need: against programs whose counts are known."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.render.functions import LOSSES
from tests.table import INTERPRETED

SERIAL = sg.Options(threads=1)


def counted(function: Any, *specs: str, **sizes: int) -> Any:
    """The cost of a function of open extents, with numbers."""
    made = sg.jit(function, specs=specs, options=SERIAL)
    return made.cost(*[np.zeros(tuple(sizes[d] for d in spec[4:-1].split(",") if d)) for spec in specs])


def test_a_matrix_product_is_2mnk() -> None:
    for sizes in ({"m": 3, "k": 4, "n": 5}, {"m": 64, "k": 128, "n": 32}):
        cost = counted(lambda a, b: a @ b, "f64[m,k]", "f64[k,n]", **sizes)
        m, k, n = sizes.values()
        assert cost.flops == 2 * m * k * n
        assert dict(cost.operations) == {"fma": m * k * n}
        assert (cost.read, cost.written) == (8 * (m * k + k * n), 8 * m * n)


def test_a_matrix_product_of_known_extents() -> None:
    a, b = np.ones((30, 40)), np.ones((40, 50))
    assert sg.jit(lambda a, b: a @ b, options=SERIAL).cost(a, b).flops == 2 * 30 * 40 * 50


def test_axpy() -> None:
    cost = counted(lambda x, y: 2.0 * x + y, "f64[n]", "f64[n]", n=1000)
    assert dict(cost.operations) == {"add": 1000, "multiply": 1000}
    assert not cost.calls
    assert (cost.read, cost.written, cost.loaded, cost.stored) == (16_000, 8_000, 16_000, 8_000)


def test_an_array_that_is_read_twice_is_read_once() -> None:
    cost = counted(lambda x: x * x + np.sin(x), "f64[n]", n=10)
    assert (cost.read, cost.loaded) == (80, 80)


def test_calls_by_name() -> None:
    cost = counted(lambda x: np.exp(x) * np.sin(x) / np.sqrt(x) + np.where(x > 1, x, -x), "f64[n]", n=100)
    assert dict(cost.calls) == {"exp": 100, "sin": 100}
    assert cost.operations["divide"] == cost.operations["sqrt"] == 100
    assert cost.operations["select"] == 300  # a comparison, a choice, a sign
    assert dict(cost.vectorized_calls) == dict(cost.calls)


def test_the_sum_of_a_slice() -> None:
    """Work is counted where it is done: the sum over a shorter slice is shorter."""
    cost = counted(lambda x: np.sum(x[: x.shape[0] // 2]), "f64[n]", n=1 << 14)
    assert (1 << 13) <= cost.operations["add"] <= (1 << 13) + 16


def test_counts_are_expressions_of_open_extents() -> None:
    function = sg.jit(lambda A, x: A @ x, specs=("f64[m,n]", "f64[n]"), options=SERIAL)
    function(np.ones((2, 3)), np.ones(3))
    assert str(function.cost().flops) == "2*m*n"
    assert function.cost(m=100, n=10).flops == 2000
    with pytest.raises(sg.SymgradError, match=r"the extent n has no number[^$]*as in n=1000"):
        function.cost(m=100)
    with pytest.raises(sg.SymgradError, match=r"there is no open extent 'k'[^$]*the open extents: m, n"):
        function.memory(k=3)


def test_a_report_is_immutable_and_prints() -> None:
    function = sg.value_and_grad(lambda x: np.sum(np.exp(x)))
    function(np.ones(30))
    cost, memory = function.cost(), function.memory()
    for report in (cost, memory, memory.buffers[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            report.bytes = 3  # type: ignore[union-attr,misc]
    with pytest.raises(TypeError):
        cost.calls["exp"] = 0  # type: ignore[index]
    assert "exp in lanes" in str(cost)
    assert "peak 0 bytes" in str(memory)
    assert cost.c_lines == function.c_source.count("\n")
    assert 0 < cost.compile_seconds < 10


def test_before_the_first_call() -> None:
    function = sg.jit(lambda x: x * 2)
    for report in (function.cost, function.memory):
        with pytest.raises(sg.SymgradError, match="has not been compiled yet"):
            report()


def test_without_a_compiler() -> None:
    """The loops are made to be counted."""
    function = sg.jit(lambda x: x * 2.0, options=INTERPRETED)
    assert function.cost(np.ones(7)).operations["multiply"] == 7


@pytest.mark.parametrize("name", LOSSES)
def test_reverse_mode_costs_at_most_four_times_the_function(name: str) -> None:
    """Griewank's bound, counted: a call of math.h is one operation like any other."""
    loss, args = LOSSES[name]
    if name == "doubled":  # y + y sixty times: a gradient of as many additions
        args = (np.ones(3),)
        loss = _doubled_sum
    forward = sg.jit(loss, options=SERIAL).cost(*args).flops
    reverse = sg.value_and_grad(loss, options=SERIAL).cost(*args).flops
    assert reverse <= 4 * forward


def _doubled_sum(y: Any) -> Any:
    return np.sum(LOSSES["doubled"][0](y))


# -------------------------------------------------------------------------------------------------------- memory


def smoothed(x: Any) -> Any:
    y = np.exp(x)
    total = np.cumsum(y)
    return np.sin(total[::-1]) * y


def test_buffers() -> None:
    function = sg.jit(smoothed, specs=("f64[n]",), options=SERIAL)
    x = np.linspace(0.0, 1.0, 1000)
    angles, scale = np.cumsum(np.exp(x))[::-1], np.exp(x)
    rounded = 2 * np.spacing(angles) * scale  # exp in lanes may move the sine's angle, a sum, by so much
    assert np.all(np.abs(function(x) - smoothed(x)) <= 1e-14 * scale + rounded)
    memory = function.memory(x)
    own = [b for b in memory.buffers if b.place == "workspace"]
    assert {b.bytes for b in own} == {8000}
    assert memory.stack == 0
    assert memory.peak == memory.workspace == function.memory(n=1000).peak == 64 * 125 * len({b.name for b in own})
    cumulated = next(b for b in own if b.line is not None and "cumsum" in b.line.text)
    assert cumulated.line is not None
    assert cumulated.line.file.endswith("test_reports.py")
    assert cumulated.first < cumulated.last
    assert [b.name for b in memory.buffers if b.place == "input"] == ["x"]
    assert all(b.name in function.c_source for b in own)
    assert "total = np.cumsum(y)" in str(memory)


def test_small_buffers_stand_on_the_stack() -> None:
    memory = sg.jit(smoothed, options=SERIAL).memory(np.ones(10))
    assert memory.workspace == 0
    assert memory.peak == memory.stack == 80 * len({b.name for b in memory.buffers if b.place == "stack"}) > 0

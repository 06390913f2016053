"""The workspace is planned by liveness: what is not needed together shares memory.

That nothing else does is what the verifier looks for in every program of every test (`_Trial.memory`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.index import shapes
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.fusion import tile
from symgrad.loops.program import LoopProgram, Place
from symgrad.loops.storage import allocate as memory
from symgrad.loops.storage.allocate import Life, SlotPool
from tests.programs import random_program
from tests.test_random_programs import check

F8, F4 = np.dtype(np.float64), np.dtype(np.float32)


def scheduled(function: Any, *specs: str, grad: bool = False) -> LoopProgram:
    """The loops of a function of arrays of these specs, for one thread."""
    derived = (sg.value_and_grad if grad else sg.jit)(function, options=sg.Options(threads=1))
    lowered = derived.lower(*map(sg.spec, specs))
    lowered.as_text("loops")
    program: LoopProgram = lowered.stages.kept["loops"]
    return program


def elementwise_chain(depth: int) -> Any:
    def chain(x):
        for _ in range(depth):
            x = np.sin(x) * 1.1
        return x

    return chain


def heat(steps: int) -> Any:
    def run(u):
        for _ in range(steps):
            inner = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
            u = np.concatenate([u[:1], inner, u[-1:]])
        return np.sum(u * u)

    return run


@pytest.mark.parametrize("spec", ["f64[n]", "f64[100000]", "f32[n,m]"])
def test_a_chain_needs_the_same_workspace_at_any_depth(spec: str) -> None:
    found = {depth: scheduled(elementwise_chain(depth), spec).workspace for depth in (5, 50)}
    assert found[5] == found[50] == 0


def mirrored(steps: int) -> Any:
    """Every step reads the last one from its other end, so each is complete before the next one."""

    def run(u):
        for _ in range(steps):
            u = np.sin(u[::-1]) + u
        return np.sum(u * u)

    return run


@pytest.mark.parametrize("spec", ["f64[n]", "f64[100000]"])
def test_steps_that_wait_for_each_other_take_turns_in_two_buffers(spec: str) -> None:
    for depth in (3, 4, 50):
        program = scheduled(mirrored(depth), spec)
        assert len({stored.slot for stored in program.storage.values()} - {None}) == 2
        assert program.workspace == scheduled(mirrored(3), spec).workspace != 0


def test_a_heat_equation_needs_the_same_workspace_for_any_number_of_steps() -> None:
    found = {steps: scheduled(heat(steps), "f64[100000]").workspace for steps in (3, 4, 50)}
    assert found[3] == found[4] == found[50] != 0


def test_random_programs_without_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is stored shares the workspace: as NumPy nevertheless."""
    monkeypatch.setattr(memory, "STACK", -1)
    check([random_program(seed) for seed in range(100, 112)], sg.Options())


def test_random_programs_of_threads_without_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "STACK", -1)
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_TERMS", 4)
    monkeypatch.setattr(tile, "TILE_ROWS", 2)
    check([random_program(seed) for seed in range(112, 124)], sg.Options(threads=3))


def test_slots_by_size() -> None:
    """The smallest free slot that is large enough, and one that grows where none is."""
    pool = SlotPool(Place.WORKSPACE)
    large = pool.take(4096, F8, Life(0, 3))
    small = pool.take(1024, F8, Life(0, 3))
    assert pool.take(512, F8, Life(3, 5)) not in {large, small}
    assert pool.take(1000, F8, Life(4, 6)) is small
    assert pool.take(5000, F8, Life(5, 6)) is large
    assert large is not None
    assert large.size == 5000
    assert pool.layout() == 5056 + 1024 + 512


def test_slots_of_open_sizes() -> None:
    """Sizes that are known to be ordered share; n and m stand apart; a dtype has slots of its own."""
    n, m = shapes.symbol("n"), shapes.symbol("m")
    pool = SlotPool(Place.WORKSPACE)
    first = pool.take(8 * n, F8, Life(0, 1))
    assert pool.take(8 * m, F8, Life(2, 3)) is not first
    assert pool.take(8 * n, F4, Life(2, 3)) is not first
    assert pool.take(8 * n + 16, F8, Life(2, 3)) is first
    assert first is not None
    assert first.size == 8 * n + 16


def test_a_stack_is_limited() -> None:
    pool = SlotPool(Place.STACK, 100)
    assert pool.take(64, F8, Life(0, 9)) is not None
    assert pool.take(64, F8, Life(1, 9)) is None


def test_a_long_chain_is_planned_in_linear_time() -> None:
    """Twice the arrays, twice the steps of the plan: counted by how often sizes are compared."""
    counts = []
    for depth in (20, 40):
        calls = 0
        plain = memory.no_less

        def counted(one: Any, other: Any, plain: Any = plain) -> bool:
            nonlocal calls
            calls += 1
            return bool(plain(one, other))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "no_less", counted)
            scheduled(mirrored(depth), "f64[n]")
        counts.append(calls)
    assert counts[1] <= 2.2 * counts[0]

"""Long code becomes several C functions, and long loops several loops over a tile: with the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.index.notation import Access, Axis, How, Number, Statement
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.fusion import tile
from symgrad.loops.nest import outline
from symgrad.loops.program import Array, Kind, Loop, LoopProgram, Outlined, StorageMap, Walk, paths, picture
from tests.looking import code, loops
from tests.night import some
from tests.programs import random_open_program, random_program
from tests.table import INTERPRETED
from tests.test_random_programs import check, scale

F8 = np.dtype(np.float64)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three statements be a long function."""
    monkeypatch.setattr(outline, "LONG", 3)
    monkeypatch.setattr(outline, "SHORT", 1)
    monkeypatch.setattr(outline, "CUT_TILE_ROWS", 2)


@pytest.mark.usefixtures("short")
def test_random_programs_in_short_functions() -> None:
    check([random_program(seed) for seed in range(200, 216)], sg.Options(threads=1))


@pytest.mark.usefixtures("short")
def test_random_programs_in_short_functions_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_TERMS", 4)
    monkeypatch.setattr(tile, "TILE_ROWS", 2)
    check([random_program(seed) for seed in range(216, 232)], sg.Options(threads=3))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("seed", some(range(300, 312), of=3))
def test_named_extents_in_short_functions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_TERMS", 4)
    written = random_open_program(seed)
    _, loss = written.functions()
    derived = sg.value_and_grad(loss, argnums=written.argnums, specs=written.specs, options=sg.Options(threads=2))
    for args in (written.args, *written.resized):
        expected = sg.value_and_grad(loss, argnums=written.argnums, options=INTERPRETED)(*args)
        for one, two in zip(_leaves(derived(*args)), _leaves(expected), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9 * scale([two]))


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.usefixtures("short")
def test_a_check_that_fails_in_a_part_is_passed_on() -> None:
    function = sg.jit(lambda x, i: np.sin(np.cos(np.exp(x[0]) * 2.0) + x[i]) * x[i] + np.tan(x[1]))
    x = np.array([0.1, 0.2, 0.3])
    assert "failed" in code(function) if function(x, 2) is not None else False
    for wrong in (3, -4):
        with pytest.raises(IndexError, match="out of bounds for an axis with size 3"):
            function(x, wrong)


UNROLLED = sg.Options(without=("roll",))
"""Long straight code is what is cut: these chains would be loops."""


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the usual length, for a tenth of the compiler's time."""
    monkeypatch.setattr(outline, "LONG", 100)
    monkeypatch.setattr(outline, "SHORT", 50)


def chain(x: Any) -> Any:
    for _ in range(300):
        x = np.sin(x) * 1.01
    return np.sum(x)


@pytest.mark.usefixtures("shorter")
def test_a_long_scalar_chain() -> None:
    function = sg.value_and_grad(chain, options=UNROLLED)
    value, gradient = function(0.7)
    expected = sg.value_and_grad(chain, options=INTERPRETED)(0.7)
    np.testing.assert_allclose((value, gradient), expected, rtol=1e-12)
    parts = re.findall(r"sg_chain_part\d+(?=\()", code(function))
    assert len(parts) == 2 * len(set(parts)) >= 2 * 9
    assert all(isinstance(item, Outlined) for item in loops(function).body)
    # one value crosses each cut, and one for each step waits for the way back
    assert loops(function).workspace <= 8 * (2 * 300 + 100)


@pytest.mark.usefixtures("shorter")
def test_a_long_body_of_a_loop() -> None:
    """600 operations on every element: loops over a tile, which all run as lanes."""
    x = np.linspace(0.1, 2.0, 150)
    function = sg.value_and_grad(chain, options=sg.Options(threads=1))
    value, gradient = function(x)
    wanted, by_hand = sg.value_and_grad(chain, options=INTERPRETED)(x)
    np.testing.assert_allclose(value, wanted, rtol=1e-9)
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-9, atol=1e-300)
    assert 4 <= code(function).count("omp simd") <= 20


@pytest.mark.usefixtures("shorter")
def test_a_workspace_of_an_open_extent_does_not_grow_with_it() -> None:
    function = sg.jit(chain, specs=("f64[n]",), options=sg.Options(threads=1, without=("roll",)))
    x = np.linspace(0.1, 2.0, 1000)
    np.testing.assert_allclose(function(x), chain(x), rtol=1e-12)
    assert type(loops(function).workspace) is int
    assert loops(function).workspace < 1 << 17


@pytest.mark.nightly
def test_fifty_thousand_operations() -> None:
    """One after the other on a number: functions of at most 1,000 statements, one value across each cut."""

    def long(x):
        for _ in range(25_000):
            x = np.sin(x) * 1.01
        return x

    function = sg.jit(long, options=UNROLLED)
    np.testing.assert_allclose(function(0.7), long(0.7), rtol=1e-9)
    assert code(function).count("APART void") >= 50
    assert loops(function).workspace == 64


# ------------------------------------------------------------------------------------------------------ by hand


def register(name: str) -> Array:
    return Array(name, (), F8, Kind.TEMPORARY)


def writes(target: Array, *sources: Array) -> Statement:
    value = Access(sources[0], ()) if sources else Number(1.0, F8)
    return Statement(Access(target, ()), How.SET, value, ())


def test_cuts_are_made_where_few_values_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the places where a function may end, the one that one value crosses."""
    monkeypatch.setattr(outline, "LONG", 6)
    monkeypatch.setattr(outline, "SHORT", 2)
    a, b, c, d, e, f, g, h = [register(name) for name in "abcdefgh"]
    statements = (
        writes(a), writes(b), writes(c, a), writes(d, b), writes(e, d), writes(f, e), writes(g, e), writes(h, f),
    )
    assert [len(piece) for piece in outline.cut(statements, StorageMap())] == [5, 3]


def cut(*items: Any) -> LoopProgram:
    arrays = dict.fromkeys([access.array for s, _ in paths(items) for access in s.touched])
    return outline.outline(LoopProgram("f", (), (), tuple(arrays), items))


def test_a_sum_is_not_cut_off_from_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LONG", 4)
    monkeypatch.setattr(outline, "SHORT", 1)
    total = register("s")
    axis = Axis("i", 10)
    loop = Loop(axis, frozenset([axis]), (writes(register("t")),), Walk.LANES, sums=(("+", total),))
    before, after = [writes(register("a")), writes(register("b"))], writes(register("c"), total)
    tree = cut(*before, writes(total), loop, after).body
    assert picture(tree, statements=True) == "part { a =; b = }; part { s =; i<10 simd { t = }; c = }"


def test_a_sum_that_must_cross_loses_its_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LONG", 2)
    monkeypatch.setattr(outline, "SHORT", 1)
    total = register("s")
    axis = Axis("i", 10)
    loop = Loop(axis, frozenset([axis]), (writes(register("t")),), Walk.LANES, sums=(("+", total),))
    made = cut(writes(total), loop, writes(register("c"), total))
    assert "simd" not in picture(made.body)
    assert {a.name for a, stored in made.storage.items() if stored.is_memory} == {"s"}

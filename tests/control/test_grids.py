"""Loops in loops whose rounds are one statement: they read and write places of a grid, and are one loop."""

from __future__ import annotations

import linecache
from random import Random
from typing import Any

import numpy as np
import pytest

import symgrad as sg

SEEDS = range(600)
NIGHTLY = range(36, 600)
UNROLLED = sg.Options(compiler="none", roll=0)
ROLLED = sg.Options(compiler="none")


def carried(A: Any) -> Any:
    s = 0.0
    for i in range(12):
        for j in range(15):
            s = np.tanh(s + A[i, j])
    return s


def diagonal(A: Any) -> Any:
    s = 0.0
    for i in range(45):
        s = np.tanh(s + A[i, i] * A[i, 44 - i])
    return s


def cube(A: Any) -> Any:
    B, s = A[:12, :8].reshape(4, 6, 4), 0.0
    for i in range(4):
        for j in range(5, -1, -1):
            for k in range(4):
                s = np.tanh(s + B[i, j, k])
    return s


def filtered(A: Any) -> Any:
    out = np.zeros((10, 12))
    for i in range(10):
        for j in range(12):
            out[i, j] = np.sum(A[i : i + 3, j : j + 4] * A[:3, :4])
    return np.sum(np.sin(out))


def convolved(A: Any) -> Any:
    x, w = np.stack([A[:14, :15], 2 * A[:14, :15]])[..., None], A[:3, :3, None, None] * A[0, :4]
    out = np.zeros((2, 12, 13, 4))
    for i in range(12):
        for j in range(13):
            out[:, i, j, :] = np.sum(x[:, i : i + 3, j : j + 3, :, None] * w, axis=(1, 2, 3))
    return np.sum(np.sin(out))


def pooled(A: Any) -> Any:
    out = np.empty((7, 7))
    for i in range(7):
        for j in range(7):
            out[i, j] = np.max(A[2 * i : 2 * i + 2, 2 * j : 2 * j + 2])
    return np.sum(np.sin(out))


def by_columns(A: Any) -> Any:
    out = np.ones((12, 15))
    for j in range(15):
        for i in range(12):
            out[i, 14 - j] = np.sin(A[i, j]) * A[0, 0]
    return np.sum(np.cos(out) * A[:12, :15])


@pytest.mark.parametrize("program", [carried, diagonal, cube, filtered, convolved, pooled, by_columns])
def test_a_grid_is_one_loop(program: Any) -> None:
    """However many places: few operations, and the value and slopes of NumPy's rounds one by one."""
    A = np.random.default_rng(5).normal(size=(45, 46))
    rolled: Any = sg.value_and_grad(program)
    assert len(rolled.lower(A).as_text("stable").splitlines()) < 60
    value, slope = rolled(A)
    expected, wanted = sg.value_and_grad(program, options=UNROLLED)(A)
    np.testing.assert_allclose([value, expected], program(A), rtol=1e-12)
    np.testing.assert_allclose(slope, wanted, rtol=1e-11, atol=1e-13)


def test_windows_along_a_diagonal_stay_side_by_side() -> None:
    """All pairs of places would be many more than the rounds."""
    def along(A: Any) -> Any:
        s = 0.0
        for i in range(60):
            s = np.tanh(s + np.sum(A[i : i + 2, i : i + 2]))
        return s

    compiled: Any = sg.jit(along)
    A = np.random.default_rng(6).normal(size=(64, 64))
    np.testing.assert_allclose(compiled(A), along(A), rtol=1e-13)
    assert "differs from step to step by more than its place in one array" in compiled.report()


def random_grid(seed: int) -> tuple[str, tuple[int, ...]]:
    """Write a program over a grid, and say what shape its array has."""
    rng = Random(seed)
    n, m, batch = rng.randint(2, 9), rng.randint(3, 11), rng.random() < 0.4
    i = rng.choice([f"{rng.choice([1, 1, 2])}*i+{rng.randint(0, 2)}", f"{n - 1}-i", "i"])
    j = rng.choice([f"{rng.choice([1, 1, 2])}*j+{rng.randint(0, 2)}", f"{m - 1}-j", "j", "j", "i" if n <= m else "j"])
    wide = rng.random() < 0.5
    rows = f"{i}:{i}+{rng.randint(1, 3)}" if wide else i
    columns = f"{j}:{j}+{rng.randint(1, 3)}" if wide and rng.random() < 0.8 else j
    part = f"A[{'..., ' if batch else ''}{rows}, {columns}]"
    number = rng.choice([f"np.sum(np.sin({part}) * w[0])", f"np.max({part}) + w[0]", f"np.sum({part} * {part})"])
    axes = tuple(range(-part.count(":"), 0))
    several = batch and rng.random() < 0.7
    value = f"np.sum({part} * w[0], axis={axes})" if several else number
    place = rng.choice(["i, j", f"i, {m - 1}-j", f"{n - 1}-i, j"])
    target = f"out[{':, ' if several else ''}{place}]"
    steps = {
        "carried": [f"s = np.tanh(s * 0.5 + {number})"], "written": [f"{target} = {value}"],
        "appended": [f"rows.append({number})"],
        "both": [f"{target} = {value} + s", f"s = np.tanh(s + np.sum({target}))"],
    }[kind := rng.choice(["carried", "written", "written", "appended", "both"])]
    loops = [f"for i in range({n}):", f"for j in range({m}):"]
    outer, inner = loops if rng.random() < 0.5 else loops[::-1]
    return "\n".join([
        "def program(A, w):", "    s, rows = w[1], []",
        f"    out = np.{rng.choice(['zeros', 'ones'])}({(3, n, m) if several else (n, m)})", f"    {outer}",
        *["        s = s * 0.9"] * (rng.random() < 0.2), f"        {inner}", *[f"            {step}" for step in steps],
        f"    return np.sum(np.sin(out)) + s{' + np.sum(np.cos(np.stack(rows)))' * (kind == 'appended')}",
    ]), (*[3] * batch, 2 * n + 6, 2 * m + 6)


def test_random_grids(seeds: Any) -> None:
    """Rolled, they are what they are unrolled; of one in twelve so is the C."""
    for seed in seeds:
        text, shape = random_grid(seed)
        name = f"<random grid {seed}>"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        space: dict[str, Any] = {"np": np}
        exec(compile(text, name, "exec"), space)
        rng = np.random.default_rng(seed)
        A, w = rng.normal(size=shape), rng.normal(size=2)
        expected = space["program"](A, w)
        wanted = sg.value_and_grad(space["program"], (0, 1), options=UNROLLED)(A, w)
        for options in (ROLLED, *[sg.Options()] * (seed % 12 == 0)):
            value, slopes = sg.value_and_grad(space["program"], (0, 1), options=options)(A, w)
            np.testing.assert_allclose([value, wanted[0]], expected, rtol=1e-12, err_msg=text)
            for one, other in zip(slopes, wanted[1], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12, err_msg=text)


@pytest.mark.parametrize("rows", [40, 300])
def test_elements_of_rows_that_were_written_are_found_among_many(rows: int) -> None:
    """Beyond 64 rows the array was put together for every read of another form."""
    def summed(A: Any) -> Any:
        out, s = np.zeros((rows, 6)), 0.0
        for i in range(rows):
            out[i] = np.sin(A[i])
            s = s + out[i, 3] * out[i, 1:4].sum()
        return s

    A = np.random.default_rng(7).normal(size=(rows, 6))
    compiled: Any = sg.value_and_grad(summed)
    assert len(compiled.lower(A).as_text("stable").splitlines()) < 30
    np.testing.assert_allclose(compiled(A)[0], summed(A), rtol=1e-12)
    row = np.sin(A)
    wanted = np.zeros_like(A)
    wanted[:, 3] = row[:, 1:4].sum(1)
    wanted[:, 1:4] += row[:, 3:4]
    np.testing.assert_allclose(compiled(A)[1], wanted * np.cos(A), rtol=1e-12)


def test_few_places_of_a_large_array_are_read_where_they_are() -> None:
    """To put them into rows, all of the array would be turned."""
    def few(A: Any) -> Any:
        s = 0.0
        for i in range(40):
            s = np.tanh(s + np.sum(A[:2, 3 * i, 2 * i]))
        return s

    compiled: Any = sg.jit(few)
    A = np.random.default_rng(8).normal(size=(2, 120, 90))
    np.testing.assert_allclose(compiled(A), few(A), rtol=1e-13)
    assert "differs from step to step by more than its place in one array" in compiled.report()

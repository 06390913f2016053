"""Stencils: shifted reads, regions and their adjoints are one loop a step, with its borders peeled."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.errors import ShapeError
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.fusion import tile
from symgrad.loops.program import LoopProgram, Place, picture
from tests.night import some

rng = np.random.default_rng(11)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def heat(u):
    for _ in range(3):
        u = np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])
    return np.sum(u**2)


def heat_in_place(u):
    for _ in range(3):
        v = u.copy()
        v[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = v
    return np.sum(u**2)


def heat_plane(u):
    for _ in range(2):
        star = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        u = np.pad(u[1:-1, 1:-1] + 0.1 * star, 1)
    return np.sum(u**2)


def smooth(u):
    return np.sum((u[1:, :] - u[:-1, :]) ** 2) + np.sum((u[:, 1:] - u[:, :-1]) ** 2)


def variation(u):
    dx, dy = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    return np.sum(np.sqrt(dx * dx + dy * dy + 1e-6))


def windowed(u):
    windows = np.lib.stride_tricks.sliding_window_view(u, (2, 3))
    return np.sum(np.einsum("ijkl,kl->ij", windows, np.array([[1.0, -2.0, 1.0], [0.5, 3.0, -0.5]])) ** 2)


def twice_diffed(u):
    for _ in range(4):
        u = u + 0.1 * np.pad(np.diff(u, 2), 1)
    return np.sum(u**2)


def padded(u, rate):
    for _ in range(3):
        u = u + rate * np.pad(np.diff(u, 2), 1)
    return np.sum(u**2)


def periodic(u):
    return np.sum((np.roll(u, 1) + np.roll(u, -1) - 2 * u) ** 2)


def burgers(u):
    for _ in range(2):
        inner = u[1:-1]
        slope = np.where(inner > 0, inner - u[:-2], u[2:] - inner)
        u = np.concatenate([u[:1], inner - 0.1 * inner * slope, u[-1:]])
    return np.sum(u**2)


def wave(u):
    before = np.cos(u)
    for _ in range(3):
        after = 2 * u[1:-1] - before[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
        before, u = u, np.concatenate([u[:1], after, u[-1:]])
    return np.sum(u**2)


def taps(x):
    return np.sum(np.tanh(0.3 * x[:-2] + 0.5 * x[1:-1] - 0.2 * x[2:]))


def differences(x):
    return np.sum(np.diff(x, 2) ** 2) + np.sum(np.sqrt(np.diff(x) ** 2 + 1e-3))


def strided(x):
    return np.sum(x[::2] ** 2) + np.sum(x[1::2] ** 3) + np.sum(x[::-1][1:] * x[:-1])


def chained(x):
    for k in range(12):
        x = (x[1:] + 0.5 * x[:-1]) * (1 + 0.1 * k)
    return np.sum(x * x)


LINES: list[Callable[..., Any]] = [
    rosenbrock, heat, heat_in_place, periodic, burgers, wave, taps, differences, strided, chained,
]
PLANES: list[Callable[..., Any]] = [heat_plane, smooth, variation]


def loops_of(function: Callable[..., Any], spec: str) -> LoopProgram:
    lowered = sg.value_and_grad(function, options=sg.Options(threads=1)).lower(sg.spec(spec))
    lowered.as_text("loops")
    found: LoopProgram = lowered.stages.kept["loops"]
    return found


def sweep(extent: str, tiled: str = "") -> str:
    """The picture of one loop with its borders peeled."""
    cut = f"i<{extent} borders {{  }}; i<{extent} interior simd {{  }}"
    return f"i<{extent} tile 1024 {{ {cut} }}" if tiled else cut


def untiled(drawn: str) -> str:
    """Leave tiles out of a picture: they are for sums, and for threads where those may pay."""
    return re.sub(r"i<\w+ tile 1024 \{ ((?:[^{}]|\{  \})*) \}", r"\1", drawn)


@pytest.mark.parametrize(("spec", "extent"), [("f64[100000]", "100000"), ("f64[n]", "n")])
def test_rosenbrock_is_one_loop(spec: str, extent: str) -> None:
    found = loops_of(rosenbrock, spec)
    assert picture(found.body) == sweep(extent, "tiled")
    assert not any(stored.is_memory for stored in found.storage.values())


@pytest.mark.parametrize("function", [heat, heat_in_place])
def test_a_step_of_the_heat_equation_is_one_sweep(function: Callable[..., Any]) -> None:
    """Three steps, the last with the sum, and three steps back."""
    assert untiled(picture(loops_of(function, "f64[100000]").body)) == "; ".join([sweep("100000")] * 6)


def test_differences_of_differences_are_one_sweep_for_two_steps() -> None:
    """Copies are where they are copied to: no step of them waits for a shift of its own."""
    assert untiled(picture(loops_of(twice_diffed, "f64[100000]").body)).count("interior") <= 9
    check(sg.value_and_grad(twice_diffed), twice_diffed, rng.normal(size=70))


def test_a_scaled_cotangent_is_computed_again_from_the_one_that_is_stored() -> None:
    """One array a step: `rate * v` is read at both sides of its place, where `v` is stored for the step before."""
    both = sg.value_and_grad(padded, argnums=(0, 1))
    assert both.memory(np.ones(100_000), 0.1).workspace == 4 * 800_000
    check(sg.value_and_grad(lambda u: padded(u, 0.1)), lambda u: padded(u, 0.1), rng.normal(size=70))


def test_what_windows_add_up_to_is_gathered() -> None:
    """Every window adds to places beside its own: each place reads them instead, in lanes."""
    plane = "i<300 borders { %s }; i<300 interior { %s }".replace("%s", sweep("300").replace("i<", "j<"))
    assert untiled(picture(loops_of(windowed, "f64[300,300]").body).replace("tile 64", "tile 1024")) in {
        f"{plane}; {plane}", f"i<300 tile 1024 {{ {plane} }}; {plane}",
    }
    check(sg.value_and_grad(windowed), windowed, rng.normal(size=(34, 36)))


def test_the_heat_equation_needs_two_buffers() -> None:
    found = loops_of(heat, "f64[100000]")
    assert len({stored.slot for stored in found.storage.values()} - {None}) == 2


def test_the_heat_equation_of_unknown_extent_has_the_same_loops() -> None:
    found = loops_of(heat, "f64[n]")
    assert untiled(picture(found.body)) == "; ".join([sweep("n")] * 6)
    assert len({stored.slot for stored in found.storage.values()} - {None}) == 2
    assert found.small is not None
    assert {str(n): least for n, least in found.least.items()} == {"n": 32}


def test_what_is_computed_again_is_said() -> None:
    (note,) = loops_of(rosenbrock, "f64[100000]").notes
    said = r"recomputed t\d+ \(test_stencils\.py:\d+\) at 1 place: 3 operations against 16 bytes"
    assert re.fullmatch(said, note)


def test_a_call_of_the_math_library_is_stored() -> None:
    """tanh once for each element: one array more, and a second sweep that reads it at three places."""
    found = loops_of(taps, "f64[100000]")
    assert picture(found.body) == f"{sweep('100000', 'tiled')}; {sweep('100000')}"
    assert [slot.place for stored in found.storage.values() if (slot := stored.slot)] == [Place.WORKSPACE]


def test_a_chain_of_shifts_stays_linear() -> None:
    """What is computed again is bounded: twice the steps, twice the operations."""

    def run(depth: int) -> Callable[..., Any]:
        def steps(x: Any) -> Any:
            for _ in range(depth):
                x = x[1:] + x[:-1]
            return np.sum(x * x)

        return steps

    lengths = [len(sg.value_and_grad(run(d)).lower(sg.spec("f64[100000]")).as_text("c")) for d in (6, 12, 24)]
    assert lengths[2] - lengths[1] < 2.5 * (lengths[1] - lengths[0])


@pytest.mark.parametrize(
    ("count", "function"), some(((1 + k // 2 % 2, function) for k, function in enumerate(LINES)), turn=1))
def test_lines_of_every_extent(function: Callable[..., Any], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One binary for n from nothing on gives what NumPy gives, and what a binary for each n gives."""
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_TERMS", 16)
    options = sg.Options(threads=count)
    of_all = sg.value_and_grad(function, specs=("f64[n]",), options=options)
    for n in (0, 1, 2, 3, 4, 31, 32, 33, 47, 1030):
        x = rng.normal(size=n)
        if function is chained and n < 13:
            x = x[:0]
        check(of_all, function, x)
        if n in {3, 33, 47}:
            check(sg.value_and_grad(function, options=options), function, x)


@pytest.mark.parametrize("function", PLANES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_planes_of_every_extent(function: Callable[..., Any], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_ROWS", 8)
    of_all = sg.value_and_grad(function, specs=(f"f{8 * int(dtype[1])}[n,m]",), options=sg.Options(threads=2))
    for shape in ((0, 3), (1, 1), (2, 2), (2, 40), (40, 2), (33, 35), (70, 40)):
        check(of_all, function, rng.normal(size=shape).astype(dtype))
    check(sg.value_and_grad(function), function, rng.normal(size=(34, 36)).astype(dtype))


def check(compiled: Any, function: Callable[..., Any], x: Any) -> None:
    """Compare value and gradient with the interpreter's."""
    value, gradient = compiled(x)
    expected, slope = sg.value_and_grad(function, options=sg.Options(compiler="none"))(x)
    tolerance = 1e-12 if x.dtype == np.float64 else 2e-5
    assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)
    np.testing.assert_allclose(gradient, slope, rtol=tolerance, atol=tolerance * np.max(np.abs(slope), initial=1.0))


def random_steps(seed: int) -> Callable[..., Any]:
    """Write a random program of slices, joins, writes and paddings that keep the extent."""
    draws = np.random.default_rng(seed)
    plan = [(int(draws.integers(6)), float(draws.normal())) for _ in range(4)]

    def run(x: Any) -> Any:
        y = x
        for kind, a in plan:
            if kind == 0:
                y = np.concatenate([y[:1], a * y[1:-1] + y[2:] * y[:-2], y[-1:]])
            elif kind == 1:
                v = y.copy()
                v[1:] -= a * y[:-1]
                y = v
            elif kind == 2:
                y = np.pad(np.tanh(y[:-2] + a * x[2:]), 1)
            elif kind == 3:
                y = np.where(y > a, np.roll(y, 1), np.roll(x, -2))
            elif kind == 4:
                y = y - a * np.concatenate([np.diff(y), y[:1]])
            else:
                v = y * 1.0
                v[2:-1] = np.sin(y[:-3])
                v[0] = a
                y = v + a * x
        return np.sum(y * y) + np.sum(y[1:] * x[:-1])

    return run


@pytest.mark.parametrize("seed", some(range(16)))
def test_random_stencils(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(tile, "TILE_TERMS", 16)
    function = random_steps(seed)
    check(sg.value_and_grad(function, options=sg.Options(threads=1)), function, 0.5 * rng.normal(size=37))
    of_all = sg.value_and_grad(function, specs=("f64[n]",), options=sg.Options(threads=1 + seed % 2))
    for n in (4, 5, 32, 41):
        with contextlib.suppress(ShapeError):  # u[:1], u[1:-1] and u[-1:] are one element more than u where n is 1
            check(of_all, function, 0.5 * rng.normal(size=n))


def test_places_of_a_lookup_stay_where_they_are():
    """Their array gets other coordinates with what it is joined to, a longer row of another one."""
    n = 65

    def counted(p):
        last = np.sort(p, axis=1)[:, n]
        t = np.concatenate([last[:1], last[1:] * 2])
        corner = np.zeros((n, n))
        corner[-1] = last
        corner[:, -1] += t
        return np.bincount(np.abs(t).astype(int) % 4, minlength=4), corner

    p = np.random.default_rng(3).normal(size=(n, n + 1))
    for one, two in zip(sg.jit(counted)(p), counted(p), strict=True):
        np.testing.assert_array_equal(one, two)


def test_sums_of_a_tile_end_where_their_array_was_written():
    """The array has longer axes than its sums: it shares coordinates with what was joined."""

    def joined(p):
        shares = np.exp(p) / np.sum(np.exp(p), axis=1, keepdims=True)
        t = np.concatenate([shares[-1:], shares, shares[:1]])
        r = t.copy()
        r[1:] += r[:-1]
        return np.sum(np.sin(t.T @ r))

    p = np.random.default_rng(3).normal(size=(70, 70))
    found, interpreted = [sg.grad(joined, options=sg.Options(compiler=c))(p) for c in (None, "none")]
    np.testing.assert_allclose(found, interpreted, rtol=1e-10, atol=1e-16)


RUNNING = {
    "append": lambda y: (np.append(y, 3.0), np.cumsum(y)),
    "the first once more": lambda y: (np.concatenate((y, [y[0]])), np.cumsum(y)),
    "at both ends": lambda y: (np.concatenate(([1.0], y, [2.0])), np.cumprod(y)),
    "parts": lambda y: (y[1:] * np.cumsum(y[:-1]), np.cumsum(np.diff(y)), np.append(np.cumsum(y), 1.0)),
    "rows": lambda y: (np.append(y, 3.0)[:, None] * np.ones(3), np.cumsum(y[:, None] * np.arange(3), axis=0)),
}


@pytest.mark.parametrize("name", RUNNING)
def test_running_values_are_read_in_their_loop_beside_longer_arrays(name: str) -> None:
    """The axis of a running value has no part of a longer frame: its readers would get another one, behind its loop."""
    def function(x: Any) -> Any:
        return RUNNING[name](np.sqrt(x))

    compiled = sg.jit(function, specs=("f64[n]",))
    for n in (2, 3, 5, 64, 300):
        x = rng.random(n)
        for one, other in zip(compiled(x), function(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


def test_running_values_over_layers_are_read_in_their_loop() -> None:
    """What is added up along the first axis keeps its axes, whichever of them the arrays beside it have last."""
    def function(x: Any) -> Any:
        t = np.sin(x)
        return np.cumsum(np.stack([t, t * t], axis=-1), axis=0).sum(-1)

    x = rng.random((5, 4))
    np.testing.assert_allclose(sg.jit(function, specs="f64[m,k]")(x), function(x), rtol=1e-13)


def test_unique_of_other_sizes() -> None:
    compiled = sg.jit(lambda x: sg.unique(x, size=4))
    for values in ([0.0, 1.0, 2.0, 3.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0, 0.0], [3.0, 2.0, 1.0, 0.0]):
        np.testing.assert_array_equal(compiled(np.array(values)), [0.0, 1.0, 2.0, 3.0])


def test_threads_that_read_what_another_loop_wrote_beside_what_they_write() -> None:
    """`y[0]` comes from a loop before, the end that is a copy of it from this one: no two threads meet."""
    def function(x: Any) -> Any:
        y = np.log1p(0.5 * np.cos(x))
        longer = np.append(y, y[:1])
        return np.vstack([longer, longer]), np.exp(y)

    compiled = sg.jit(function, specs=("f64[n]",))
    for n in (1, 5, 300):
        x = rng.random(n)
        for one, other in zip(compiled(x), function(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)


def test_sums_of_a_frame_start_whole() -> None:
    """Copies of a sum are added to all of it, and so to what the frame adds to its axis: that starts, too."""
    def loss(x: Any, chosen: Any) -> Any:
        y = np.nextafter(x, np.positive(x))
        log = scipy.special.xlog1py(y, np.positive(x) ** 2)
        longer = np.concatenate([y, y[..., :1]], axis=-1)
        work = scipy.special.betainc(1.5 + np.sin(np.cos(y)), 2.0, 0.5 + 0.3 * np.cos(log))
        spread = np.where(chosen.copy() > 0, np.nanvar(y, axis=0), 0.5)
        many = np.sum(scipy.special.polygamma(1, 2.5 + np.cos(longer)))
        return many * 0.7 + np.sum(np.einsum("ij,ij->j", work, log) * 0.2) * -0.3 + np.sum(spread) * 1.1

    x, chosen = rng.normal(size=(67, 67)), rng.random((67, 67)) > 0.5
    found, interpreted = [sg.value_and_grad(loss, options=sg.Options(compiler=c))(x, chosen)[1] for c in (None, "none")]
    np.testing.assert_allclose(found, interpreted, rtol=1e-10)


def test_writes_at_places_that_come_twice_stay_in_order() -> None:
    """The last one of a place stays: a loop over them is not cut into its ends and what is between."""
    def function(x: Any) -> Any:
        longer = np.concatenate([x, x[:1]])
        out = np.array(longer)
        out[np.argsort(longer, kind="stable") // 2] = 0.5 * longer
        return np.cos(np.exp(x)), out

    compiled = sg.jit(function, specs=("f64[n]",))
    for n in (1, 2, 33, 40, 200):
        for x in (rng.normal(size=n), np.sort(rng.normal(size=n))[::-1].copy()):
            for one, other in zip(compiled(x), function(x), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


def put(a: Any, i: Any) -> Any:
    out = np.zeros(7)
    out[i] = np.exp(a)
    return out


PLACED = {
    "matrix": put,
    "one beside": lambda a, i: (put(np.append(a[0], a[0, 0]), np.append(i[0], i[0, 0])), np.exp(a[0])),
    "rows": lambda a, i: np.add(*[rows(np.cos(a).T, k[0]) for k in (i, i[::-1])]),
    "columns": lambda a, i: rows(np.cos(a).T, i[0]).T,
    "both": lambda a, i: rows(np.cos(a), (i // 2, i[:, ::-1])),
    "known and looked up": lambda a, i: rows(np.sin(a), (np.arange(len(a))[:, None] % 3, i)),
}


def rows(a: Any, i: Any) -> Any:
    out = np.zeros((7, 7)) if isinstance(i, tuple) else np.zeros((7, a.shape[1]))
    out[i] = a
    return out


@pytest.mark.parametrize("name", PLACED)
def test_the_last_value_of_a_place_stays(name: str) -> None:
    for options in (None, sg.Options(threads=1), sg.Options(threads=2)):
        compiled = sg.jit(PLACED[name], specs=("f64[n,m]", "i64[n,m]"), options=options)
        for shape in ((3, 4), (70, 9), (9, 70), (300, 200)):
            a, i = rng.normal(size=shape), rng.integers(0, 7, size=shape)
            found, wanted = compiled(a, i), PLACED[name](a, i)
            pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
            for one, other in pairs:
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)

"""Tiny axes become straight-line code where that buys lanes or registers, and change no result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.loops.program import Array, Kind, Loop, LoopProgram, Walk, paths, picture
from tests.looking import code, loops

rng = np.random.default_rng(11)
POINTS = rng.normal(size=(300, 3))


def energy(x):
    d = x[:, None, :] - x[None, :, :]
    return np.sum(1 / np.sqrt(np.sum(d * d, axis=-1) + 0.01))


def pendulum(y, k):
    for _ in range(20):
        y = y + 0.01 * np.stack([y[1], -k * np.sin(y[0])])
    return y[0]


def arm(q):
    frame = np.eye(4)
    for i in range(3):
        c, s = np.cos(q[i]), np.sin(q[i])
        frame = frame @ np.array([[c, -s, 0, 0.1], [s, c, 0, 0], [0, 0, 1, 0.3], [0, 0, 0, 1.0]])
    return np.sum((frame[:3, 3] - 0.5) ** 2)


def rotated(q, x):
    w, u = q[0], q[1:]
    t = 2 * np.cross(u, x)
    return np.sum(np.sin(x + w * t + np.cross(u, t)))


def products(a, b):
    return np.sum(np.tanh(a @ b) ** 2)


def regression(w, x, y):
    return np.mean((x @ w - y) ** 2)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(np.log(np.sum(e, axis=1))) + np.sum(e[:, 0] ** 2)


def folded(x):
    turned = np.reshape(np.reshape(x, (-1, 2, 3))[:, ::-1], (-1, 6))
    return np.sum(turned[:, :3] * np.cos(turned[:, 3:]))


def masked(x):
    lower = np.tril(np.einsum("ni,nj->nij", x, x))
    return np.sum(np.where(lower > 0, np.sqrt(np.where(lower > 0, lower, 1.0)), 0.0))


def running(x):
    return np.sum(np.cumsum(np.exp(x), axis=1)[:, 1] * np.cumprod(x, axis=1)[:, 2])


def picked(x, index):
    return np.sum(np.tanh(x[index]) * x[:5]) + np.sum(x[:, np.array([2, 0, 0])] ** 3)


def pooled(x, b):
    seen = np.lib.stride_tricks.sliding_window_view(np.maximum(x + b, 0), (2, 2), axis=(1, 2))[:, ::2, ::2]
    return np.sum(np.max(seen, axis=(4, 5)) ** 2)


def blocks(x, b):
    n, h, w, c = x.shape
    return np.sum(np.max(np.tanh(x * b).reshape(n, h // 2, 2, w // 2, 2, c), axis=(2, 4)) ** 2)


def normed(x, w):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return np.sum((centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 0.1) * w) ** 3)


def stencil(x):
    return np.sum((x[1:] - x[:-1]) ** 2) + np.sum((x[:, 1:] - x[:, :-1]) ** 2)


def around(x):
    return np.sum((4 * x[1:-1, 1:-1] - x[2:, 1:-1] - x[:-2, 1:-1] - x[1:-1, 2:] - x[1:-1, :-2]) ** 2)


def slices(x):
    rows = np.maximum(x[:, ::2], x[:, 1::2])
    return np.sum(np.maximum(rows[:, :, ::2], rows[:, :, 1::2]) ** 2)


def pairs(x):
    return np.sum(np.exp(-((x[:, None] - x) ** 2)))


PLACES = rng.normal(size=(12, 8, 8, 20)), rng.normal(size=20)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = {
    "windows of 8 x 8 places": (pooled, PLACES, (0, 1)),
    "blocks of 8 x 8 places": (blocks, PLACES, (0, 1)),
    "rows of 6 x 7 places": (normed, (rng.normal(size=(6, 7, 40)), rng.normal(size=40)), (0, 1)),
    "four images of 8 x 8 places": (slices, (rng.normal(size=(4, 16, 16, 40)),), (0,)),
    "neighbours on four sides of 6 x 6 places": (around, (rng.normal(size=(8, 8, 40)),), (0,)),
    "pairs of 7 places": (pairs, (rng.normal(size=(7, 40)),), (0,)),
    "neighbours of 6 x 6 places": (stencil, (rng.normal(size=(6, 6, 40)),), (0,)),
    "pairs": (energy, (POINTS[:70],), (0,)),
    "pendulum": (pendulum, (np.array([1.0, 0.2]), np.array(2.0)), (0, 1)),
    "arm": (arm, (rng.normal(size=3),), (0,)),
    "quaternion": (rotated, (rng.normal(size=4), POINTS), (0, 1)),
    "3x3 products": (products, (rng.normal(size=(90, 3, 3)), rng.normal(size=(90, 3, 3))), (0, 1)),
    "4x4 products of two": (products, (rng.normal(size=(4, 4)), rng.normal(size=(4, 4))), (0, 1)),
    "regression of 5": (regression, (rng.normal(size=5), rng.normal(size=(400, 5)), rng.normal(size=400)), (0, 1)),
    "regression of 8": (regression, (rng.normal(size=8), rng.normal(size=(90, 8)), rng.normal(size=90)), (0, 1)),
    "softmax of 7": (softmax, (rng.normal(size=(100, 7)),), (0,)),
    "single precision": (softmax, (rng.normal(size=(100, 5)).astype(np.float32),), (0,)),
    "reshapes": (folded, (rng.normal(size=(60, 6)),), (0,)),
    "masks": (masked, (rng.normal(size=(50, 3)),), (0,)),
    "running totals": (running, (rng.uniform(0.5, 1.5, size=(60, 4)),), (0,)),
    "lookups": (picked, (POINTS, np.array([4, 0, -1, 7, 7])), (0,)),
    "no rows": (products, (np.zeros((0, 3, 3)), np.zeros((0, 3, 3))), (0, 1)),
    "no columns": (softmax, (rng.normal(size=(40, 1)),), (0,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_unrolled_and_rolled_agree(name: str) -> None:
    """Sums over wide axes run as lanes only when unrolled, so their terms may come in another order."""
    function, args, argnums = PROGRAMS[name]
    options = sg.Options(cache=False, threads=1)
    value, gradients = sg.value_and_grad(function, argnums, options=options)(*args)
    rolled = sg.Options(cache=False, threads=1, without=("unroll",))
    expected, others = sg.value_and_grad(function, argnums, options=rolled)(*args)
    tolerance = 1e-5 if np.asarray(value).dtype == np.float32 else 1e-12
    np.testing.assert_allclose(value, expected, rtol=tolerance)
    for one, two in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["pendulum", "arm", "4x4 products of two"])
def test_what_is_tiny_altogether_keeps_every_bit(name: str) -> None:
    function, args, argnums = PROGRAMS[name]
    options = sg.Options(cache=False, threads=1)
    value, gradients = sg.value_and_grad(function, argnums, options=options)(*args)
    rolled = sg.Options(cache=False, threads=1, without=("unroll",))
    expected, others = sg.value_and_grad(function, argnums, options=rolled)(*args)
    assert value == expected
    for one, two in zip(gradients, others, strict=True):
        np.testing.assert_array_equal(one, two)


def ran(function: Callable[..., Any], *args: Any) -> Any:
    derived = sg.value_and_grad(function, options=sg.Options(threads=1))
    derived(*args)
    return derived


def lanes(function: Any) -> set[Loop]:
    """The innermost loops that reckon (what only copies is left out)."""
    return {around[-1] for s, around in paths(loops(function).body) if around and hasattr(s.value, "op")}


def test_pairs_of_points_run_as_lanes() -> None:
    """Before: ``i { j { k<3 { }; k<3 { } } }``; after, differences are registers and j runs as lanes."""
    found = lanes(ran(energy, POINTS))
    assert found
    assert all(loop.extent == 300 and loop.walk is Walk.LANES for loop in found)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.endswith("places")])
def test_tiny_axes_around_lanes(name: str) -> None:
    """Channels are lanes at each of 8 x 8 places, in loops; neighbours share elements, and are unrolled."""
    function, args, argnums = PROGRAMS[name]
    derived = sg.value_and_grad(function, argnums, options=sg.Options(threads=1))
    derived(*args)
    assert {loop.walk for loop in lanes(derived) if loop.extent == args[0].shape[-1]} == {Walk.LANES}
    assert (len([*paths(loops(derived).body)]) > 100) == ("8 x 8" not in name)


def test_truths_are_numbers_among_lanes() -> None:
    """Of ``(float)truth`` gcc 12 makes no lanes, of a choice between two numbers it does."""
    x, y = np.ones((2, 64), np.float32)
    text = code(ran(lambda x, y: np.sum(((x > y).astype(np.float32) + (x > 2 * y)) * x), x, y))
    assert text.count("? (float)1 : (float)0") == 2


def test_a_chain_of_tiny_loops_is_straight_line_code() -> None:
    text = code(ran(pendulum, np.array([1.0, 0.2]), np.array(2.0)))
    assert "for (" not in text
    assert "[" not in text.split("{", 1)[1].replace("y[0]", "").replace("y[1]", "").replace("k[0]", "").replace(
        "value[0]", "").replace("y_bar[0]", "").replace("y_bar[1]", "")


def test_only_what_is_read_is_computed() -> None:
    """Of the last product, the column that is used; of the first one, known ones and zeros are in the text."""
    assert code(ran(arm, np.zeros(3))).count(" = fma(") + code(ran(arm, np.zeros(3))).count(" += ") < 350


KEPT = np.array([1.0, 0.0, 1.0, 0.0])
NUMBERS: dict[str, Callable[..., Any]] = {
    "mask": lambda x, w: np.sum(np.tanh((x * KEPT * 2.0) @ w)),
    "product of numbers": lambda x, w: np.sum(np.tanh(w.T @ (np.diag(KEPT) @ np.diag(KEPT * 0.3) @ x))),
    "negative zeros": lambda x, w: 1 / (np.diag(KEPT - 1) @ np.diag(-KEPT) @ x)[1] + np.sum(w),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_computed_now_and_what_may_be_infinite_stays(name: str) -> None:
    function, w = NUMBERS[name], rng.normal(size=(4, 2))
    derived = sg.value_and_grad(function, (0, 1), options=sg.Options(threads=1))
    plain = sg.value_and_grad(function, (0, 1), options=sg.Options(compiler="none"))
    for x in (rng.normal(size=4), np.full(4, -0.0), np.array([1.0, np.inf, -2.0, np.nan])):
        with np.errstate(all="ignore"):
            expected, found = plain(x, w), derived(x, w)
        for one, two in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-14, atol=1e-14)
    assert not re.search(r"(?<![\w.])[-\d.]+ \* [-\d.]+|(?<![\w.])1\.0 \* |\* 1\.0\b|\+= 0\.0;", code(derived))


def test_rows_of_five_are_copied_column_by_column() -> None:
    """No compiler makes vectors of leaps by five: a tile's columns are copied, and what reckons walks by ones."""
    function = ran(lambda x: np.sum(np.exp(np.sum(np.tanh(x), axis=1))), rng.normal(size=(500, 5)))
    drawn = picture(loops(function).body)
    assert drawn.count("simd") >= 3
    assert {stored.shape for stored in loops(function).storage.values() if stored.is_memory} == {(64,)}


def test_short_loops_that_buy_nothing_stay() -> None:
    """Eight elements are one vector already; a small product of inputs is read as a loop."""
    assert "< 8;" in code(ran(lambda x: np.sum(np.exp(x) * x), rng.normal(size=8)))
    assert "for (" in code(ran(lambda a: np.sum(a @ np.ones((3, 5))), rng.normal(size=(4, 3))))


def test_rows_that_are_looked_up_stay_loops() -> None:
    table = rng.normal(size=(100, 8))
    text = code(ran(lambda x, index: np.sum(np.tanh(x[index])), table, rng.integers(0, 100, 50)))
    assert "< 8;" in text


def test_the_budget_bounds_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from symgrad.loops.statements import unroll

    monkeypatch.setattr(unroll, "UNROLLED_ALL", 10)
    function = sg.value_and_grad(arm, options=sg.Options(cache=False))
    function(np.array([0.1, 0.2, 0.3]))
    assert "for (" in code(function)


def test_unknown_extents() -> None:
    function = sg.value_and_grad(rotated, (0, 1), specs=("f64[4]", "f64[n,3]"))
    for n in (0, 1, 7, 300):
        q, x = rng.normal(size=4), rng.normal(size=(n, 3))
        value, gradients = function(q, x)
        expected, others = sg.value_and_grad(rotated, (0, 1), options=sg.Options(compiler="none"))(q, x)
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
        for one, two in zip(gradients, others, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-11)


def test_signs_of_zero_are_numpys() -> None:
    """0.0 + -0.0 is 0.0: a sum keeps its start unless its first term is a square."""
    x = np.full((50, 3), -0.0)
    found = sg.jit(lambda x: np.sum(x, axis=1) + np.sum(x[:, :2], axis=1))(x)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.sum(x, axis=1)))


def test_a_lowered_program_without_tiny_axes_is_left_alone() -> None:
    from symgrad.loops.statements.unroll import unroll

    lowered = LoopProgram("f", (), (Array("out", (), np.dtype(float), Kind.OUTPUT),), (), ())
    assert unroll(lowered) is lowered


@pytest.mark.parametrize("n", [2, 3, 8])
def test_an_output_that_is_another_array_turned_is_not_that_array(n: int) -> None:
    """Of the copies of single elements some stay where they are, which those beside them do not."""

    def turned(x: Any) -> Any:
        out = np.zeros((n, n))
        out[:, ::-1] = np.cumsum(x, axis=1)[:, ::-1]
        return out.T

    x = rng.normal(size=(n, n))
    np.testing.assert_allclose(sg.jit(turned)(x), turned(x), rtol=1e-14)
    np.testing.assert_allclose(sg.jacfwd(np.cumsum)(x[0]), np.tri(n), rtol=1e-14)
    np.testing.assert_allclose(sg.jacfwd(np.cumprod)(x[0]), sg.jacrev(np.cumprod)(x[0]), rtol=1e-12)

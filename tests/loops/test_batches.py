"""What stands around loops in lanes: batches of products, rows that are looked up, running sums; outputs as memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.ir.index.notation import Apply
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.program import Walk, paths
from tests.looking import code, loops

TWO = sg.Options(threads=2)


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def differences(f, arguments, direction, step=1e-3):
    """Take the derivative along a direction by Richardson's differences of the plain function, to step**6."""

    def along(h):
        return (f(*[a + h * d for a, d in zip(arguments, direction, strict=True)])
                - f(*[a - h * d for a, d in zip(arguments, direction, strict=True)])) / (2 * h)

    first, second, third = along(step), along(step / 2), along(step / 4)
    once = (4 * second - first) / 3, (4 * third - second) / 3
    return (16 * once[1] - once[0]) / 15


def check(f, arguments, options=None):
    """Compare a gradient with differences, and the value with NumPy's."""
    function = sg.value_and_grad(f, argnums=tuple(range(len(arguments))), options=options)
    value, slopes = function(*arguments)
    direction = [normal(*a.shape) for a in arguments]
    found = sum(np.sum(g * d) for g, d in zip(slopes, direction, strict=True))
    assert value == pytest.approx(f(*arguments), rel=1e-12)
    assert found == pytest.approx(differences(f, arguments, direction), rel=1e-7, abs=1e-8)
    return function


# -- batches of products


def attention(q, k, v):
    p = special.softmax(q @ np.swapaxes(k, -1, -2), axis=-1)
    return np.sum((p @ v) ** 2)


@pytest.fixture(params=[1 << 30, 1], ids=["serial", "threads"])
def shared(request, monkeypatch):
    monkeypatch.setattr(threads, "PAYS", request.param)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("batch", [1, 2, 8, 9, 70])
def test_each_head_of_an_attention_is_a_tile(batch):
    function = check(attention, [normal(batch, n, 24) for n in (20, 30, 30)], TWO)
    if batch > 1:
        for array, stored in loops(function).storage.items():  # nothing has more than one head's elements, for a thread
            assert batch not in stored.shape, array


NORMALIZED: dict[str, Any] = {
    "softmax": lambda x: special.softmax(x, axis=0),
    "centred": lambda x: np.tanh(x - np.mean(x, axis=0)),
    "scaled": lambda x: (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 0.1),
}


@pytest.mark.parametrize("name", NORMALIZED)
def test_what_is_normalized_over_its_first_axis_lives_for_a_tile_of_columns(name):
    sizes = ((200, 16), (330, 16), (200, 16))
    function = check(
        lambda k, q, v: np.sum((NORMALIZED[name](k @ q.T).T @ v) ** 2), [0.2 * normal(*size) for size in sizes], TWO,
    )
    for array, stored in loops(function).storage.items():
        assert not {200, 330} <= {*stored.shape}, array


BATCHED: dict[str, Any] = {
    "sum over the batch": (lambda x, w: np.sum(np.sum(x @ w, axis=0) ** 2), [(6, 40, 20), (6, 20, 30)]),
    "one w": (lambda x, w: np.sum(np.tanh(x @ w)) + np.sum(w * w), [(6, 40, 20), (20, 30)]),
    "neighbours": (lambda x, w: np.sum((x @ w)[1:] * (x @ w)[:-1]), [(6, 40, 20), (6, 20, 30)]),
    "one of them": (lambda x, w: np.sum((x @ w)[2]) + np.sum(np.sin((x @ w)[3, 1])), [(6, 40, 20), (6, 20, 30)]),
    "weights": (lambda x, w: np.mean((x @ w) * np.arange(6.0)[:, None, None]), [(6, 40, 20), (6, 20, 30)]),
    "heads inside": (lambda q, k: np.sum(np.tanh(np.einsum("nhd,mhd->hnm", q, k))), [(30, 4, 16), (40, 4, 16)]),
    "two axes": (lambda x, w: np.sum(np.tanh(x @ w)), [(2, 3, 30, 20), (2, 3, 20, 30)]),
    "softmax of them": (lambda x, w: np.sum(special.logsumexp(x @ w, axis=0)), [(6, 40, 20), (6, 20, 30)]),
    "tiny": (lambda x, w: np.sum(np.tanh(x @ w)), [(50, 3, 3), (50, 3, 3)]),
}


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", BATCHED)
def test_batches(name):
    f, sizes = BATCHED[name]
    check(f, [0.5 * normal(*size) for size in sizes], TWO)


# -- rows that are looked up


@pytest.mark.parametrize("count", [1, 3, 8, 12])
def test_rows_that_are_looked_up_are_lanes(count):
    places = np.random.default_rng(0).integers(-50, 50, size=(40, count))
    function = check(lambda table: np.sum(np.tanh(np.mean(table[places], axis=1))), [normal(50, 16)])
    inner = re.findall(r"#pragma omp simd[^\n]*\n\s*for \(int64_t \w+ = 0; \w+ < (\d+);", code(function))
    assert str(count) not in inner or count == 16


# -- running sums


@pytest.mark.parametrize(("f", "shape"), [
    (lambda x: np.mean(np.cumsum(np.tanh(x)) ** 2), (1000,)),
    (lambda x: np.mean(np.cumsum(np.tanh(x), axis=0) ** 2), (70, 9)),
    (lambda x: np.mean(np.cumsum(np.tanh(x), axis=1) ** 3), (9, 130)),
    (lambda x: np.sum(np.log1p(np.exp(np.cumprod(1 + 0.01 * np.sin(x))))), (200,)),
    (lambda x: np.mean(np.cumsum(np.exp(np.cumsum(np.tanh(x) * 0.01)))), (300,)),
    (lambda x: np.mean(np.cumsum(np.exp(x[::-1])) * x), (131,)),
    (lambda x: np.sum(np.cumsum(np.sin(x).T, axis=1) * np.exp(x.T)), (130, 9)),
])
def test_functions_beside_a_running_sum_are_lanes(f, shape):
    function = check(f, [normal(*shape)])
    running = [around[-1] for s, around in paths(loops(function).body) if s.prefix]
    assert running
    assert not any(applied(s) & {"tanh", "exp", "sin", "log1p"} for loop in running for s in loop.body)


def applied(statement):
    """Name the ops of a statement's value."""
    found, stack = set(), [statement.value]
    while stack:
        value = stack.pop()
        if isinstance(value, Apply):
            found.add(value.op.name)
            stack.extend(value.args)
    return found


# -- outputs as memory


def test_a_value_that_ends_where_an_output_begins_lives_in_the_output():
    x = normal(200, 30)
    function = check(lambda x: np.mean(special.logsumexp(x, axis=0)), [x])
    assert function.memory().workspace < x.nbytes / 4  # the exponentials are not kept beside their shares


def test_a_value_that_is_read_elsewhere_later_does_not():
    def f(x):
        e = np.exp(x - np.max(x, axis=0))
        s = e / np.sum(e, axis=0)
        return np.sum(s * s) + np.sum(e[1:] * s[:-1])

    check(f, [normal(200, 30)])


@pytest.mark.parametrize("axis", [0, 1])
def test_one_exponential_for_a_logsumexp_and_its_gradient(axis):
    x = normal(40, 30)
    text = sg.value_and_grad(lambda x: np.sum(special.logsumexp(x, axis=axis))).lower(x).as_text("optimized")
    assert text.count("np.exp(") == 1
    np.testing.assert_allclose(
        sg.grad(lambda x: np.sum(special.logsumexp(x, axis=axis)))(x), special.softmax(x, axis=axis), rtol=1e-14
    )


def test_what_is_divided_by_one_value_shares_a_division():
    text = sg.grad(lambda s, x: np.sum(np.log(s * s) + x / s) + np.sum(np.sqrt(x) / s), argnums=(0, 1)).lower(
        np.ones(3), np.ones(3)
    ).as_text("optimized")
    assert text.count("np.reciprocal(s)") == 1


# -- conditions


def test_a_flag_of_a_row_leaves_the_row_in_lanes():
    mask = np.random.default_rng(1).random((40, 50)) < 0.5

    def f(x, w, mask):
        return np.sum(np.where(mask, np.exp(x @ w), 0.0))

    function = sg.value_and_grad(f, argnums=(0, 1))
    x, w = 0.1 * normal(40, 20), normal(20, 50)
    value, slopes = function(x, w, mask)
    e = np.where(mask, np.exp(x @ w), 0.0)
    assert value == pytest.approx(np.sum(e), rel=1e-13)
    np.testing.assert_allclose(slopes[0], e @ w.T, rtol=1e-11)
    np.testing.assert_allclose(slopes[1], x.T @ e, rtol=1e-11)
    rows = [around[-1] for s, around in paths(loops(function).body) if "exp" in applied(s)]
    assert rows
    assert all(loop.walk is Walk.LANES for loop in rows)


def test_what_a_constant_mask_selects_somewhere_is_known():
    def f(q, k):
        mask = np.arange(30)[:, None] >= np.arange(30)[None, :]
        return np.sum(special.softmax(np.where(mask, q @ k.T, -1e9), axis=1)[:, 0])

    q, k = normal(30, 8), normal(30, 8)
    assert "np.any" not in sg.grad(f, argnums=(0, 1)).lower(q, k).as_text("optimized")
    check(f, [q, k])

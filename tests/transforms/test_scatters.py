"""Writes through traced indices: n in a row are one write of n values, with what NumPy leaves and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(5)
X = RNG.normal(size=6)
I = np.array([3, 1, 3, -1, 0, 3])  # noqa: E741 - indices
J = np.array([0, 1, 0, 1, 1, 0])


def added(x, i, j):
    out = np.zeros(5)
    for k in range(6):
        out[i[k]] += x[k] ** 2
    return out


def subtracted_rows(x, i, j):
    out = np.ones((5, 3))
    for k in range(6):
        out[i[k]] -= x[:3] * x[k]
    return out


def the_last_stays(x, i, j):
    out = np.zeros(5)
    for k in range(6):
        out[i[k]] = np.sin(x[k])
    return out


def pairs_of_indices(x, i, j):
    out = np.zeros((5, 2))
    for k in range(6):
        out[i[k], j[k]] = x[k]
    for k in range(6):
        out[i[k], 1] += x[k]
        out[i[k], j[k]] -= x[k] * x[0]
    return out


def apart(x, i, j):
    out = np.zeros((3, 5, 2))
    for k in range(6):
        out[k % 3, :, j[k]] += x[:5] * x[k]
    return out


def numbers_alone(x, i, j):
    out = np.zeros(5)
    for k in range(6):
        out[i[k]] += 1
    return out * x[0]


def of_itself(x, i, j):
    out = np.zeros(5)
    out[1] = 1.0
    for k in range(6):
        out[i[k]] += out[j[k]] * x[k]
    return out


def of_one_read_in_between(x, i, j):
    out = np.zeros(5)
    total = 0.0
    for k in range(6):
        out[i[k]] += x[k]
        if k == 2:
            total = np.sum(out**2)
    return out * total


def doubled(x, i, j):
    out = np.ones(5)
    for k in range(6):
        out[i[k]] += out[i[k]]
    return out * x[0]


def scaled(x, i, j):
    out = np.ones(5)
    for k in range(6):
        out[i[k]] *= x[k]
    return out


def mixed(x, i, j):
    out = np.zeros(5)
    for k in range(6):
        out[i[k]] = x[k]
        out[i[-1 - k]] += x[0]
        out[2] = x[1]
    return out


def through_a_view(x, i, j):
    out = np.zeros((2, 5))
    row = out[1]
    for k in range(6):
        row[i[k]] += x[k]
    out[0] = row * 2
    return out


def kept(x, i, j):
    out = np.zeros(5)
    for k in range(6):
        out[i[k]] += x[k]
        before = out.copy() if k == 3 else out
    return before * out


PROGRAMS = [
    added, subtracted_rows, the_last_stays, pairs_of_indices, apart, numbers_alone, of_itself, of_one_read_in_between,
    doubled, scaled, mixed, through_a_view, kept,
]


@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_derivatives(fun: Any) -> None:
    want = fun(X, I, J)
    np.testing.assert_allclose(sg.jit(fun)(X, I, J), want, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(
        sg.jit(fun, options=sg.Options(compiler="none"))(X, I, J), want, rtol=1e-14, atol=1e-15
    )
    sg.check_grads(fun, (X, I, J))


@pytest.mark.parametrize(("fun", "op", "count"), [
    (added, "add_at", 1), (subtracted_rows, "add_at", 1), (the_last_stays, "scatter_set", 1), (apart, "add_at", 1),
    (numbers_alone, "add_at", 1), (of_one_read_in_between, "add_at", 2), (through_a_view, "add_at", 1),
], ids=lambda v: getattr(v, "__name__", v))
def test_a_run_is_one_write(fun: Any, op: str, count: int) -> None:
    text = sg.jit(fun).lower(X, I, J).as_text("stable")
    assert (text.count("add_at") + text.count("scatter_set"), text.count(op)) == (count, count)


def test_the_text() -> None:
    def f(x: Any, i: Any) -> Any:
        out = np.zeros(5)
        out[i[0]] += x[0]
        out[i[1]] += x[1]
        return out

    stages = sg.jit(f).lower(X[:2], I[:2])
    assert stages.as_text("traced").count("scatter_set") == 2
    lines = [line.split("#")[0].strip() for line in stages.as_text("stable").split("):\n")[1].splitlines()]
    assert lines == [
        "v0 = np.float64(0.0)", "v1 = np.broadcast_to(v0, (5,))", "v2 = ops.add_at(v1, x, i, axes=(0,))", "return v2,",
    ]


def test_what_is_written_may_be_an_argument_itself() -> None:
    def f(x: Any, i: Any, base: Any) -> Any:
        out = np.copy(base)
        for _ in range(2):
            out[i] += x
        last = np.copy(base)
        last[i] = x
        last[i - 1] = x
        return out, last

    for options in (sg.Options(verify=True), sg.Options(verify=True, compiler="none")):
        found = sg.jit(f, options=options)(3.0, 1, np.arange(4.0))
        for one, other in zip(found, f(3.0, 1, np.arange(4.0)), strict=True):
            np.testing.assert_array_equal(one, other)
    sg.check_grads(lambda x, base: f(x, 1, base), (2.0, np.arange(4.0)))


def test_n_writes_cost_n_and_the_c_writes_in_place() -> None:
    sizes, stores = [], []
    for n in (20, 40):

        def f(x: Any, i: Any, n: int = n) -> Any:
            out = np.zeros(10_000)
            for k in range(n):
                out[i[k]] += x[k] ** 2
            return np.sum(out * out)

        x, i = RNG.normal(size=n), RNG.integers(0, 10_000, n)
        for made in (sg.jit(f), sg.value_and_grad(f)):
            lowered = made.lower(x, i)
            sizes.append(len(lowered.program.nodes()))
            cost = made.cost(x, i)
            stores.append(cost.stored)
            assert lowered.as_text("c").count("< 10000") <= 3  # zeros, the sum, its cotangent
    assert sizes[2] <= 2 * sizes[0]
    assert sizes[3] <= 2 * sizes[1]
    assert stores[2] - stores[0] <= 20 * 100
    assert stores[3] - stores[1] <= 20 * 200


@pytest.mark.parametrize("write", ["=", "+="])
def test_of_writes_to_one_place_the_last_gets_the_cotangent_and_each_of_sums(write: str) -> None:
    def f(x: Any, i: Any) -> Any:
        out = np.zeros(3)
        for k in range(4):
            if write == "=":
                out[i[k]] = x[k]
            else:
                out[i[k]] += x[k]
        return out

    x, i, w = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 2, 1, 1]), np.array([10.0, 20.0, 30.0])
    want = [0, 30, 0, 20] if write == "=" else [20, 30, 20, 20]
    assert sg.grad(lambda x: np.sum(w * f(x, i)))(x).tolist() == want
    columns = sg.jacfwd(f)(x, i)
    assert (w @ columns).tolist() == want
    assert sg.vmap(lambda t: sg.jvp(lambda x: f(x, i), (x,), (t,))[1])(np.eye(4)).T.tolist() == columns.tolist()


def vectors(x: Any, i: Any) -> Any:
    out = np.zeros((9, 2))
    for k in range(5):
        np.add.at(out, i[k : k + 3], x[k])
    for k in range(5):
        out[i[k : k + 2], 1] = x[k : k + 2]
    for k in range(4):
        out[i[k : k + 2]] = x[k] * np.ones((2, 1))
    return out


def planes(x: Any, i: Any) -> Any:
    out = np.zeros((9, 3, 9))
    for k in range(5):
        out[i[k : k + 2], :, i[k + 1 : k + 3]] = x[k]
    for k in range(5):
        out[:, 1, i[k : k + 2]] += x[k]
    for k in range(5):
        np.add.at(out, (i[k], slice(None), i[k : k + 2]), x[k])  # type: ignore[arg-type]  # NumPy takes slices
    return out


@pytest.mark.parametrize(("f", "writes"), [(vectors, 3), (planes, 3)])
def test_writes_by_vectors_of_traced_integers_are_joined(f: Any, writes: int) -> None:
    """In order, also where they meet."""
    rng, made = np.random.default_rng(0), sg.jit(f)
    w = rng.normal(size=f(np.zeros(8), np.zeros(8, int)).shape)  # one for all, or each is a program of its own
    for _ in range(3):
        x, i = rng.normal(size=8), rng.integers(0, 9, 8)
        assert np.array_equal(made(x, i), f(x, i))
        sg.check_grads(lambda x, i: np.sum(w * np.sin(f(x, i))), (x, i))
    text = made.lower(x, i).as_text("stable")
    assert text.count("ops.add_at(") + text.count("ops.scatter_set(") == writes


def sums_by_vectors(x: Any, i: Any) -> Any:
    """Of a place that a vector names twice, the last value is added alone; from one vector to the next all are."""
    out = np.full(5, -0.0)
    for k in range(6):
        out[i[k : k + 3]] += np.sin(x[k : k + 3])
    return out


def sums_in_planes(x: Any, i: Any) -> Any:
    out = np.ones((3, 5, 4))
    for k in range(6):
        out[:, i[k : k + 2]] -= x[k : k + 2, None] * np.arange(4.0)
    for k in range(6):
        out[1, i[k : k + 2], i[k + 1 : k + 3] % 4] += x[k]
    return out


def sums_of_elements(x: Any, i: Any) -> Any:
    K = np.zeros((5, 5))
    for k in range(6):
        K[np.ix_(i[k : k + 3], i[k : k + 3])] += x[k] * np.arange(9.0).reshape(3, 3)
    for k in range(6):
        K[np.ix_([i[k], i[k + 1]], i[k : k + 3])] += x[k : k + 3]
    return K


def one_sum(x: Any, i: Any) -> Any:
    out = np.copy(x)
    out[i[:4]] += x[:4]
    return out


@pytest.mark.parametrize(("f", "writes"), [
    (sums_by_vectors, 1), (sums_in_planes, 2), (sums_of_elements, 2), (one_sum, 1),
])
def test_sums_at_places_that_may_be_named_twice(f: Any, writes: int) -> None:
    rng, compiled, interpreted = np.random.default_rng(1), sg.jit(f), sg.jit(f, options=sg.Options(compiler="none"))
    w = rng.normal(size=f(np.zeros(8), np.zeros(8, int)).shape)  # one for both, or each is a program of its own
    for low in (0, -5):
        x, i = rng.normal(size=8), rng.integers(low, 5, 8)
        i[:3] = 1
        made, want = compiled(x, i), f(x, i)
        assert np.array_equal(made, want)
        assert np.array_equal(np.signbit(made), np.signbit(want))
        assert np.array_equal(interpreted(x, i), want)
        sg.check_grads(lambda x, i: np.sum(w * np.sin(f(x, i))), (x, i))
    text = compiled.lower(x, i).as_text("stable")
    assert (text.count("ops.add_at("), text.count("ops.scatter_set(")) == (writes, 0)


def test_sums_by_vectors_cost_n_and_named_extents_are_known_in_the_run() -> None:
    def f(x: Any, i: Any, base: Any) -> Any:
        out = np.copy(base)
        for k in range(0, len(x), 2):
            out[i[k : k + 2]] += x[k : k + 2]
        return out

    stores = []
    for n in (20, 40):
        x, i, base = RNG.normal(size=n), RNG.integers(-9, 9, n), np.zeros(10_000)
        assert np.array_equal(sg.jit(f, specs=(f"f64[{n}]", f"i64[{n}]", "f64[m]"))(x, i, base[:9]), f(x, i, base[:9]))
        stores.append(sg.value_and_grad(lambda x, i, base: np.sum(f(x, i, base) ** 2)).cost(x, i, base).stored)
    assert stores[1] - stores[0] <= 20 * 300


def test_reads_of_elements_at_traced_places_cost_as_many_in_the_gradient() -> None:
    def elements(x: Any, i: Any) -> Any:
        return sum([np.sin(x[i[k]]) * (k + 1) for k in range(len(i))])

    def pairs(x: Any, i: Any) -> Any:
        return sum([np.prod(x[i[k : k + 2]]) + x[i[k], 0] for k in range(len(i) - 1)])

    for f, shape in ((elements, ()), (pairs, (2,))):
        peaks = []
        for n in (40, 160):
            x, i = np.random.default_rng(0).normal(size=(n, *shape)), np.random.default_rng(1).integers(0, n, n)
            slope = sg.grad(f)
            lowered = slope.lower(x, i).as_text("stable")
            assert lowered.count("scatter_add") == 0
            assert slope.lower(x, i).as_text("derived").count("ops.scatter_add(") <= 2
            slope(x, i)
            peaks.append(slope.memory().peak)
        assert peaks[1] <= 6 * peaks[0]
        sg.check_grads(f, (x[:9], i[:9] % 9))


def assembled(x: Any, n: int) -> Any:
    """Add a matrix for each element of a truss, as finite elements do."""
    ends, K = np.stack([np.arange(n - 1), np.arange(1, n)], 1), np.zeros((n, n))
    for k in range(n - 1):
        K[np.ix_(ends[k], ends[k])] += np.array([[1.0, -1.0], [-1.0, 2.0]]) * x[k]
    return K


def forces(x: Any, n: int) -> Any:
    ends, f = np.stack([np.arange(n - 1), np.arange(1, n)], 1), np.zeros((n, 3))
    for k in range(n - 1):
        f[ends[k]] -= x[k] ** 2
        f[ends[k]] += np.outer([0.5, -1.0], [1.0, 2.0, 3.0]) * x[k]
    for k in range(n - 1):
        f[ends[k], 1] += x[k : k + 2]
    return f


def meeting(x: Any, n: int) -> Any:
    """The last of two writes to one place stays, and does not add to the one before."""
    f = np.ones(n)
    for k in range(n - 1):
        f[[k, k + 1, k]] += x[k : k + 1] * np.array([1.0, 2.0, 3.0])
    return f


@pytest.mark.parametrize("f", [assembled, forces, meeting])
def test_sums_at_known_places_are_joined(f: Any) -> None:
    peaks = []
    for n in (12, 48, 96):
        x = np.random.default_rng(n).normal(size=n)
        np.testing.assert_allclose(sg.jit(f, static_argnums=1)(x, n), f(x, n), rtol=1e-15, atol=1e-15)
        slope = sg.grad(lambda x, n=n: np.sum(np.sin(f(x, n))))
        slope(x)
        peaks.append(slope.memory().peak / f(x, n).size)
    assert f is meeting or peaks[1] <= (140 if f is forces else 100)  # a few arrays, and not one for each write
    assert f is meeting or peaks[2] <= peaks[1]  # however many there are
    sg.check_grads(lambda x: np.sum(np.sin(f(x, 7))), (x[:7],))


def test_ix_of_traced_integers() -> None:
    def f(x: Any, i: Any, j: Any) -> tuple[Any, ...]:
        return (
            x[np.ix_(i, j)], x[np.ix_([i[0], i[1]], [j[1], 0])], x[np.ix_([True, False, True, True], j)],
            x[np.ix_(i[:2], np.arange(3))], np.stack([x, 2 * x])[np.ix_([0, 1], i, j)], np.ix_(i, j)[1],
            x[np.ix_(i, [])],
        )

    x, i, j = np.arange(20.0).reshape(4, 5), np.array([1, -2, 3, 1]), np.array([0, 4])
    for one, other in zip(sg.jit(f)(x, i, j), f(x, i, j), strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(sg.SymgradError, match=r"np\.ix_ of a traced mask"):
        sg.jit(lambda x: x[np.ix_(x > 0)])(np.ones(3))
    with pytest.raises(sg.SymgradError, match="Cross index must be 1 dimensional"):
        sg.jit(lambda x, i: x[np.ix_(i[:, None])])(np.ones(3), i)

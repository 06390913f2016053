"""Labels look up elements: checked once, beside loops that run as lanes and in threads as they would without."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.errors import IndexOutOfBounds
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.fusion import tile
from symgrad.loops.statements.lower import evenly_spaced
from tests.looking import code, loops

THREE = sg.Options(threads=3)
N, K = 150, 20


def picked(z, y):
    log_p = z - special.logsumexp(z, axis=1, keepdims=True)
    return -np.mean(log_p[np.arange(y.shape[0]), y])


def along(z, y):
    return -np.mean(np.take_along_axis(special.log_softmax(z, axis=1), y[:, None], axis=1))


def naive(z, y):
    return -np.sum((z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))[np.arange(y.shape[0]), y]) / y.shape[0]


@pytest.fixture(params=[1 << 23, 1], ids=["serial", "threads"])
def shared(request, monkeypatch):
    monkeypatch.setattr(threads, "PAYS", request.param)
    monkeypatch.setattr(tile, "TILE_ROWS", 16)
    monkeypatch.setattr(tile, "TILE_TERMS", 16)


def labelled():
    rng = np.random.default_rng(3)
    return rng.normal(scale=3.0, size=(N, K)), rng.integers(-K, K, size=N)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("specs", [None, ("f64[n,k]", "i64[n]")], ids=["known", "named"])
@pytest.mark.parametrize("loss", [picked, along, naive])
def test_cross_entropy_is_one_sweep(loss, specs):
    z, y = labelled()
    function = sg.value_and_grad(loss, specs=specs, options=THREE)
    value, gradient = function(z, y)
    assert value == pytest.approx(loss(z, y), rel=1e-13)
    expected = special.softmax(z, axis=1)
    expected[np.arange(N), y] -= 1.0
    np.testing.assert_allclose(gradient, expected / N, rtol=1e-11, atol=1e-15)
    for array, stored in loops(function).storage.items():  # nothing is as long as the batch
        assert N not in stored.shape, array
    assert code(function).count("exp(") <= 3  # the helper's prototype, the sum's


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("place", [0, 77, N - 1])
@pytest.mark.parametrize("wrong", [K, -K - 1, 1 << 40])
def test_a_wrong_label_ends_the_call(place, wrong):
    z, y = labelled()
    function = sg.value_and_grad(picked, options=THREE)
    value = function(z, y)[0]
    y[place], right = wrong, y[place]
    with pytest.raises(IndexOutOfBounds, match=f"size {K}"):
        function(z, y)
    y[place] = right
    assert function(z, y)[0] == value


@pytest.mark.usefixtures("shared")
def test_of_two_checks_in_threads_one_is_named():
    def rows(x, i, j):
        return np.sum(np.exp(x[i]) * np.sin(x[j][:, ::-1]))

    x = np.random.default_rng(0).normal(size=(7, 30))
    i, j = np.arange(N) % 7, np.arange(N) % 5
    function = sg.value_and_grad(rows, options=THREE)
    value, gradient = function(x, i, j)
    assert value == pytest.approx(rows(x, i, j), rel=1e-12)
    step = 1e-6 * np.cos(np.arange(x.size)).reshape(x.shape)
    slope = (rows(x + step, i, j) - rows(x - step, i, j)) / 2
    assert np.sum(gradient * step) == pytest.approx(slope, rel=1e-7)
    i[3], j[N - 2] = 7, -8
    failures = set()
    for _ in range(20):
        with pytest.raises(IndexOutOfBounds) as caught:
            function(x, i, j)
        failures.add(str(caught.value))
    assert len(failures) == 1


def test_an_axis_of_one_element_is_checked_too():
    function = sg.jit(lambda x, i: x[i] * 2.0)
    assert function(np.array([3.0]), np.array([0, -1])).tolist() == [6.0, 6.0]
    with pytest.raises(IndexOutOfBounds):
        function(np.array([3.0]), np.array([0, 1]))


def test_an_empty_axis_has_no_element_to_look_up():
    function = sg.jit(lambda x, i: x[i] * 2.0, specs=("f64[n]", "i64[m]"))
    assert function(np.empty(0), np.empty(0, int)).shape == (0,)
    with pytest.raises(IndexOutOfBounds):
        function(np.empty(0), np.array([0]))


def test_rows_are_added_by_lanes():
    function = sg.grad(lambda table, words: np.sum(np.tanh(table[words])))
    table = np.random.default_rng(1).normal(size=(50, 16))
    words = np.array([[3, 4, 3], [-1, 0, 3]])
    expected = np.zeros_like(table)
    np.add.at(expected, words, 1 - np.tanh(table[words]) ** 2)
    np.testing.assert_allclose(function(table, words), expected, rtol=1e-13)
    assert "#pragma omp simd\n            for (int64_t k = 0; k < 16; ++k) {" in function.c_source


# -- maxima as lanes


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize("find", [np.max, np.min])
def test_extrema_of_rows_are_lanes_and_keep_nan(find, dtype):
    x = (100 * np.random.default_rng(2).normal(size=(40, 37))).astype(dtype)
    if dtype is not np.int32:
        for row, place in enumerate([0, 1, 7, 8, 31, 35, 36]):
            x[row, place] = np.nan
        x[9], x[10, 3], x[11, 3] = -np.inf, np.inf, -np.inf
    function = sg.jit(lambda x: find(x, axis=1))
    np.testing.assert_array_equal(function(x), find(x, axis=1))
    assert "reduction(" in function.c_source


# -- constants that are evenly spaced


@pytest.mark.parametrize(("numbers", "steps"), [
    (np.arange(5), (1,)), (np.arange(9, -1, -3), (-3,)), (np.arange(12).reshape(3, 4), (4, 1)),
    (np.arange(3)[:, None] + np.zeros((3, 4), int), (1, 0)), (np.array([0, 1, 3]), None), (np.zeros(4, int), None),
    (np.array([[0, 1], [2, 4]]), None), (np.array([5]), None), (np.empty(0, int), None), (np.arange(3.0), None),
    (np.array([0, 1 << 40]), None), (np.array([True, False]), None), (np.array([-(1 << 63), 0]), None),
])
def test_evenly_spaced(numbers, steps):
    assert evenly_spaced(numbers) == steps


def test_a_constant_grid_is_counted():
    rows, columns = np.indices((6, 7))
    function = sg.value_and_grad(lambda x: np.sum(x[rows, columns[:, ::-1]] ** 2 * (rows + 10 * columns)))
    x = np.random.default_rng(0).normal(size=(6, 7))
    weights = (rows + 10 * columns)[:, ::-1]
    np.testing.assert_allclose(function(x)[1], 2 * x * weights, rtol=1e-14)


# -- products of parts of a flat array


@pytest.mark.parametrize("specs", [None, ("f64[167]", "f64[n,12]")], ids=["known", "named"])
def test_weights_in_a_flat_vector(specs):
    def layers(params, X):
        first, rest = params[5 : 5 + 12 * 9].reshape(12, 9), params[5 + 12 * 9 :]
        hidden = np.tanh(X @ first + rest[:9])
        return np.sum((hidden @ rest[9 : 9 + 45].reshape(9, 5)) ** 2) + np.sum((X @ first.reshape(9, 12).T) ** 2)

    rng = np.random.default_rng(5)
    params, X = rng.normal(size=5 + 108 + 9 + 45), rng.normal(size=(80, 12))
    function = sg.value_and_grad(layers, specs=specs)
    value, gradient = function(params, X)
    assert value == pytest.approx(layers(params, X), rel=1e-12)
    direction = rng.normal(size=params.size)
    slope = (layers(params + 1e-6 * direction, X) - layers(params - 1e-6 * direction, X)) / 2e-6
    assert gradient @ direction == pytest.approx(slope, rel=1e-7)
    if specs is None:
        assert code(function).count("sg_product(") >= 5


@pytest.mark.parametrize("part", [
    lambda x: x[2:5].reshape(24), lambda x: x[1].reshape(4, 2), lambda x: x[:, 1:3].reshape(12, 2, 1),
    lambda x: x[1, 2:].reshape(4), lambda x: x[::2].reshape(-1), lambda x: x[:, :, 1].reshape(2, 12),
    lambda x: x[3:, 0].reshape(2, 3), lambda x: x.T.reshape(48), lambda x: x[4, 3].reshape(2, 1),
])
def test_reshaped_parts(part):
    x = np.random.default_rng(6).normal(size=(6, 4, 2))
    np.testing.assert_array_equal(sg.jit(lambda x: part(x) * 2.0)(x), part(x) * 2.0)
    expected = np.zeros(48)
    expected[part(np.arange(48).reshape(6, 4, 2)).ravel()] = 1.0
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(part(x)))(x), expected.reshape(x.shape))


# -- elements that are looked up, computed alone


@pytest.mark.parametrize("specs", [None, ("f64[n,20]", "i64[n]")], ids=["known", "named"])
def test_what_is_only_looked_up_is_computed_there(specs):
    def loss(z, y):
        return np.sum((z * z[:, ::-1] - np.cos(z[:, :1]))[np.arange(y.shape[0]), y] ** 2)

    z, y = labelled()
    function = sg.jit(loss, specs=specs)
    assert function(z, y) == pytest.approx(loss(z, y), rel=1e-12)
    assert any("recomputed" in note for note in loops(function).notes)
    assert all(K not in stored.shape for stored in loops(function).storage.values())
    slope = sg.grad(loss, specs=specs)(z, y)
    d = np.cos(np.arange(z.size)).reshape(z.shape)
    assert np.sum(slope * d) == pytest.approx((loss(z + 1e-6 * d, y) - loss(z - 1e-6 * d, y)) / 2e-6, rel=1e-7)


def test_what_is_looked_up_often_is_made_once():
    def often(x, i):
        return np.sin(x)[i]

    function = sg.jit(often)
    x, i = np.linspace(0, 1, 10), np.arange(1000) % 10
    np.testing.assert_allclose(function(x, i), often(x, i), rtol=1e-14)
    assert not any("recomputed" in note for note in loops(function).notes)


# -- elements of parts of arrays, looked up


def part(t, i):
    return np.sum(t[1:][i] ** 2)


def products_of_neighbours(t, i):
    return np.sum((t[1:] * t[:-1])[i] ** 2)


def ends_kept(t, i):
    u = np.concatenate([t[:2], np.sin(t[2:-1]), t[-1:]])
    return np.sum(u[i] * u[1:][i])


def differences(t, i):
    return np.sum(np.diff(t)[i] ** 2 + t[i]) + np.sum(t[2:] ** 3)


@pytest.mark.parametrize("loss", [part, products_of_neighbours, ends_kept, differences], ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", [{"dynamic": False}, {"specs": ("f64[n]", "i64[m]")}], ids=["known", "open"])
def test_elements_of_shifted_parts_are_looked_up(loss, how) -> None:
    """Their places are counted in the whole array, known or open, in loops for large extents and for small ones."""
    rng = np.random.default_rng(0)
    for n in (4, 7, 50, 700):
        t, i = rng.normal(size=n), rng.integers(-(n - 1), n - 1, size=9)
        value, gradient = sg.value_and_grad(loss, **how)(t, i)
        expected = sg.value_and_grad(loss, options=sg.Options(compiler="none"))(t, i)
        np.testing.assert_allclose(value, loss(t, i), rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-10)


@pytest.mark.parametrize("how", [{"dynamic": False}, {"specs": ("f64[n]", "i64[m]")}], ids=["known", "open"])
def test_a_failed_check_says_the_size(how) -> None:
    """In every kind of call, and also where the extent is open."""
    f, t = sg.grad(part, **how), np.ones(6)
    f(t, np.array([1, 2]))
    bound = f.bind(t, np.array([1, 9]))
    calls = [
        lambda: f(t, np.array([1, 5])), lambda: f(t[::-1], np.array([-6, 1])), bound,
        lambda: f(np.ones(6, np.float32).astype(np.float64), np.array([0, 7])),
    ]
    for call in calls:
        with pytest.raises(IndexOutOfBounds, match=r"an index is out of bounds for an axis with size 5: -?\d+ at"):
            call()
    with pytest.raises(IndexOutOfBounds, match="an index is out of bounds for an axis with size 2: 2 at"):
        f(np.ones(3), np.array([2, 0]))

"""Layers, losses and initializers: against loops and closed forms, derived to second order, compiled alike."""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from scipy.signal import correlate2d

import symgrad as sg
from symgrad import nn
from symgrad.errors import ArgumentValueError, IndexOutOfBounds
from tests.night import some

RNG = np.random.default_rng(7)


def draw(*shape):
    return RNG.normal(size=shape)


def norm(width):
    return {"scale": 1.0 + 0.1 * draw(width), "bias": draw(width)}


def gates(count, inner, units):
    return {"Wx": draw(inner, count * units), "Wh": 0.5 * draw(units, count * units), "b": draw(count * units)}


SEEN = np.array([[True, False, True], [False, False, False]])
IDS = np.array([[0, 2], [2, 1]])
LABELS = np.array([2, 0, 1])
SHARES = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.6, 0.4]])
STILL = {"mean": np.array([0.1, -0.2, 0.3]), "var": np.array([0.5, 1.0, 2.0])}

LAYERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "dense": (nn.dense, ({"W": draw(3, 2), "b": draw(2)}, draw(2, 4, 3))),
    "dense without b": (nn.dense, ({"W": draw(3, 2)}, draw(3))),
    "embedding": (lambda p: nn.embedding(p, IDS), ({"E": draw(3, 2)},)),
    "batch_norm, training": (lambda p, s, x: nn.batch_norm(p, s, x, training=True), (norm(3), STILL, draw(2, 4, 3))),
    "batch_norm": (lambda p, s, x: nn.batch_norm(p, s, x, training=False)[0], (norm(3), STILL, draw(4, 3))),
    "layer_norm": (nn.layer_norm, (norm(4), draw(2, 4))),
    "dropout": (lambda x: nn.dropout(x, 0.3, seed=5, step=2), (draw(3, 4),)),
    "attention": (nn.attention, (draw(2, 2, 4), draw(2, 3, 4), draw(2, 3, 2))),
    "attention, masked": (lambda q, k, v: nn.attention(q, k, v, SEEN), (draw(2, 4), draw(3, 4), draw(3, 2))),
    "conv1d": (lambda p, x: nn.conv1d(p, x, 2, "SAME"), ({"W": draw(3, 2, 2), "b": draw(2)}, draw(2, 5, 2))),
    "conv2d": (nn.conv2d, ({"W": draw(2, 3, 2, 2), "b": draw(2)}, draw(1, 4, 4, 2))),
    "conv2d, groups": (
        lambda p, x: nn.conv2d(p, x, (2, 1), ((1, 0), (0, 2)), groups=2), ({"W": draw(2, 2, 1, 4)}, draw(1, 4, 3, 2)),
    ),
    "max_pool": (lambda x: nn.max_pool(x, (2, 2), (1, 2), "SAME"), (draw(1, 3, 5, 2),)),
    "avg_pool": (lambda x: nn.avg_pool(x, (2, 2), (1, 2), "SAME"), (draw(1, 3, 5, 2),)),
    "softmax_cross_entropy, labels": (lambda x: nn.softmax_cross_entropy(x, LABELS), (draw(3, 3),)),
    "softmax_cross_entropy, probabilities": (nn.softmax_cross_entropy, (draw(3, 3), SHARES)),
    "sigmoid_cross_entropy": (nn.sigmoid_cross_entropy, (draw(3), np.array([0.0, 0.3, 1.0]))),
}


def leaves(tree):
    found: list[Any] = []
    sg.tree_map(found.append, tree)
    return found


@pytest.mark.parametrize("name", some(LAYERS))
def test_layers_compile_and_are_derived_to_second_order(name):
    layer, args = LAYERS[name]

    def loss(*args):
        return sum([np.sum(np.sin(leaf)) for leaf in leaves(layer(*args))])

    plain, compiled = layer(*args), sg.jit(layer)(*args)
    for want, got in zip(leaves(plain), leaves(compiled), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    sg.check_grads(loss, args, order=2)


def test_layers_keep_single_precision():
    """Whatever they compute, of float32 alone they make float32: plain, compiled, and in their gradients."""
    single = {
        name: (layer, sg.tree_map(lambda a: a.astype(np.float32), args)) for name, (layer, args) in LAYERS.items()
    }
    single |= {
        "lstm": (nn.lstm, sg.tree_map(lambda a: a.astype(np.float32), (gates(4, 2, 3), draw(2, 1, 2)))),
        "gru": (nn.gru, sg.tree_map(lambda a: a.astype(np.float32), (gates(3, 2, 3), draw(2, 1, 2)))),
    }

    def all_of(given):
        made = {name: layer(*given[name]) for name, (layer, _) in single.items()}
        return sum([np.sum(leaf) for leaf in leaves(made)]), made

    given = {name: args for name, (_, args) in single.items()}
    _, made = all_of(given)
    (_, compiled), slopes = sg.value_and_grad(all_of, has_aux=True)(given)
    for tree in (made, compiled, slopes):
        for name, part in tree.items():
            assert {leaf.dtype for leaf in leaves(part)} == {np.dtype(np.float32)}, name


def test_layers_are_compiled_once_for_all_sizes_of_batches():
    units, table, filters, scaled = gates(4, 2, 3), draw(4, 2), {"W": draw(2, 2, 2, 3)}, norm(2)
    statistics = {"mean": np.zeros(2), "var": np.ones(2)}

    def all_of(x):
        image = x[..., None] * np.ones(2)
        return [
            nn.dense({"W": table}, x), nn.batch_norm(scaled, statistics, image, True)[0], nn.dropout(x, 0.3, 5, 2),
            nn.conv2d(filters, image, (1, 2), "SAME"), nn.avg_pool(image, (2, 2), (1, 1), "SAME"),
            nn.lstm(units, np.swapaxes(image[:, 0], 0, 1))[0],
        ]

    compiled = sg.jit(all_of, dynamic={"x": "n,..."})
    for size in (3, 1, 5):
        x = draw(size, 3, 4)
        for want, got in zip(all_of(x), compiled(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    assert compiled.cache_info().compilations == 1


# -- values


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def convolved(W, x, strides, pairs, groups):
    """Each window, filter and channel in loops."""
    high, wide, inner, out = W.shape
    padded = np.pad(x, [(0, 0), *pairs, (0, 0)])
    batch, height, width, _ = padded.shape
    places = (height - high) // strides[0] + 1, (width - wide) // strides[1] + 1
    y = np.zeros((batch, *places, out))
    for b, i, j, o in product(*map(range, y.shape)):
        first = o // (out // groups) * inner
        window = padded[b, i * strides[0]:, j * strides[1]:, first : first + inner][:high, :wide]
        y[b, i, j, o] = np.sum(window * W[..., o])
    return y


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("pairs", [((0, 0), (0, 0)), ((1, 2), (0, 1))])
def test_a_convolution_is_its_loops(strides, groups, pairs):
    W, x = draw(3, 2, 4 // groups, 6), draw(2, 5, 6, 4)
    np.testing.assert_allclose(nn.conv2d({"W": W}, x, strides, pairs, groups), convolved(W, x, strides, pairs, groups))


@pytest.mark.parametrize("extent", [4, 5, 7])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_has_a_window_for_each_stride(extent, size, stride):
    y = nn.conv1d({"W": draw(size, 2, 3)}, draw(2, extent, 2), stride, "SAME")
    assert y.shape == (2, -(-extent // stride), 3)


def test_same_padding_of_odd_filters_is_scipys():
    W, x = draw(3, 5), draw(6, 7)
    want = correlate2d(x, W, mode="same")
    y = nn.conv2d({"W": W[..., None, None]}, x[None, ..., None], padding="SAME")
    np.testing.assert_allclose(y[0, ..., 0], want)


def test_pools_leave_padding_out():
    x = -np.arange(1.0, 6.0).reshape(1, 5, 1)
    np.testing.assert_array_equal(nn.max_pool(x, (2,), padding="SAME").ravel(), [-1.0, -3.0, -5.0])
    np.testing.assert_array_equal(nn.avg_pool(x, (2,), padding="SAME").ravel(), [-1.5, -3.5, -5.0])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, bool, np.float32])
def test_pools_of_other_numbers(kind):
    """What is around is never the largest: not beside negative numbers either."""
    x = (np.array([1, 0, 1, 0, 0]) - (kind in {np.int8, np.float32})).astype(kind).reshape(1, 5, 1)
    for pool in (nn.max_pool, sg.jit(nn.max_pool, static_argnames=("window", "padding"))):
        y = pool(x, window=2, padding="SAME")
        np.testing.assert_array_equal(y, x[:, ::2])
        assert y.dtype == kind


def test_one_number_is_a_window_along_all_axes():
    x = draw(1, 4, 5, 2)
    for pool in (nn.max_pool, nn.avg_pool):
        np.testing.assert_array_equal(pool(x, 2), pool(x, (2, 2)))
        np.testing.assert_array_equal(pool(x, (2, 3), 2), pool(x, (2, 3), (2, 2)))


def test_recurrent_layers_take_lists():
    p, x = gates(4, 2, 3), draw(2, 1, 2)
    y, (h, c) = nn.lstm(p, x)
    np.testing.assert_array_equal(nn.lstm(p, x.tolist())[0], y)
    np.testing.assert_array_equal(nn.lstm(p, x, [h, c])[0], nn.lstm(p, x, (h, c))[0])  # type: ignore[arg-type]


def lstm(p, x, state):
    h, c = state
    along = []
    for t in range(len(x)):
        i, f, g, o = np.split(x[t] @ p["Wx"] + h @ p["Wh"] + p["b"], 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        along.append(h)
    return np.stack(along), (h, c)


def gru(p, x, h):
    along = []
    for t in range(len(x)):
        z, r, n = np.split(x[t] @ p["Wx"] + p["b"], 3, axis=-1)
        hz, hr, hn = np.split(h @ p["Wh"], 3, axis=-1)
        h = sigmoid(z + hz) * h + (1.0 - sigmoid(z + hz)) * np.tanh(n + sigmoid(r + hr) * hn)
        along.append(h)
    return np.stack(along), h


@pytest.mark.parametrize(
    ("layer", "equations", "p", "state"),
    [(nn.lstm, lstm, gates(4, 2, 3), (draw(2, 3), draw(2, 3))), (nn.gru, gru, gates(3, 2, 3), draw(2, 3))],
)
def test_recurrent_layers_are_their_equations_to_second_order(layer, equations, p, state):
    x, zeros = draw(4, 2, 2), sg.tree_map(np.zeros_like, state)

    def both(layer):
        def loss(p, x, state):
            return sum([np.sum(np.sin(leaf)) for leaf in leaves(layer(p, x, state))])

        slope = sg.grad(loss, argnums=(0, 1, 2))
        again = sg.grad(lambda *args: sum([np.sum(np.cos(leaf)) for leaf in leaves(slope(*args))]), argnums=(0, 1, 2))
        return slope(p, x, state), again(p, x, state)

    for got, want in zip(leaves(layer(p, x)), leaves(equations(p, x, zeros)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    for got, want in zip(leaves(both(layer)), leaves(both(equations)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("layer", "p"), [(nn.lstm, gates(4, 2, 3)), (nn.gru, gates(3, 2, 3))])
def test_recurrent_layers_of_a_batch_of_no_rows(layer, p):
    x = np.zeros((4, 0, 2))
    assert sg.jit(layer)(p, x)[0].shape == layer(p, x)[0].shape == (4, 0, 3)
    slopes = sg.grad(lambda p, x: sum([np.sum(leaf) for leaf in leaves(layer(p, x))]))(p, x)
    assert {name: slope.any() for name, slope in slopes.items()} == {"Wx": False, "Wh": False, "b": False}


def test_normalizations_and_attention_are_their_formulas():
    p, x = norm(3), draw(6, 3)
    y, after = nn.batch_norm(p, STILL, x, training=True, momentum=0.9, eps=1e-2)
    np.testing.assert_allclose(y, p["scale"] * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-2) + p["bias"], rtol=1e-12)
    np.testing.assert_allclose(after["var"], 0.9 * STILL["var"] + 0.1 * x.var(0), rtol=1e-14)
    y, after = nn.batch_norm(p, STILL, x, training=False)
    want = p["scale"] * (x - STILL["mean"]) / np.sqrt(STILL["var"] + 1e-3) + p["bias"]
    np.testing.assert_allclose(y, want, rtol=1e-12)
    assert after == STILL
    q, k, v = draw(2, 4), draw(3, 4), draw(3, 2)
    e = np.exp(q @ k.T / 2.0) * SEEN
    np.testing.assert_allclose(nn.attention(q, k, v, SEEN)[0], e[0] / e[0].sum() @ v, rtol=1e-12)
    np.testing.assert_array_equal(nn.attention(q, k, v, SEEN)[1], [0.0, 0.0])


@pytest.mark.parametrize("mask", [None, np.zeros((2, 0), bool)])
def test_attention_to_no_keys_is_zeros(mask):
    q, k, v = draw(3, 2, 4), np.zeros((3, 0, 4)), np.zeros((3, 0, 5))

    def attend(q, k, v):
        return nn.attention(q, k, v, mask)

    for found in (attend(q, k, v), sg.jit(attend)(q, k, v)):
        np.testing.assert_array_equal(found, np.zeros((3, 2, 5)))
    assert not sg.grad(lambda *args: np.sum(attend(*args)))(q, k, v).any()


def test_cross_entropies_are_right_where_exponentials_overflow():
    logits = np.array([[1000.0, 0.0, -1000.0]])
    np.testing.assert_allclose(nn.softmax_cross_entropy(logits, np.array([2])), [2000.0])
    grad = sg.grad(lambda x: np.sum(nn.softmax_cross_entropy(x, np.array([1]))))(logits)
    np.testing.assert_allclose(grad, [[1.0, -1.0, 0.0]])
    slope = sg.grad(lambda x: np.sum(nn.sigmoid_cross_entropy(x, np.array([1.0, 0.0]))))
    np.testing.assert_allclose(slope(np.array([-1000.0, 1000.0])), [-1.0, 1.0])


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint64, np.int8, np.int64, bool])
def test_logits_may_be_integers(kind):
    logits, labels = np.array([[1, 3, 0]]).astype(kind), np.array([0])
    want = nn.softmax_cross_entropy(logits.astype(np.float64), labels)
    for found in (nn.softmax_cross_entropy(logits, labels), sg.jit(nn.softmax_cross_entropy)(logits, labels),
                  nn.softmax_cross_entropy(logits.tolist(), labels)):
        np.testing.assert_allclose(found, want, rtol=1e-14)


def test_labels_are_integers_of_any_size():
    """There may be more classes than the labels' own type can count."""
    logits, labels = draw(2, 300), [np.array([100, 3], kind) for kind in "bBhHiIqQ"]
    want = -np.log(np.exp(logits) / np.sum(np.exp(logits), axis=1, keepdims=True))[[0, 1], [100, 3]]

    def losses(logits, labels):
        return [nn.softmax_cross_entropy(logits, one) for one in labels]

    for found in (losses(logits, labels), sg.jit(losses)(logits, labels)):
        np.testing.assert_allclose(found, [want] * 8, rtol=1e-12)


# -- dropout


def test_dropout_is_a_function_of_seed_step_and_place():
    x = np.ones((50, 40))
    kept = nn.dropout(x, 0.25, seed=3, step=7) > 0
    assert abs(kept.mean() - 0.75) < 0.03
    np.testing.assert_array_equal(np.unique(nn.dropout(x, 0.25, seed=3, step=7)), [0.0, 1.0 / 0.75])
    f = sg.jit(lambda x, step: nn.dropout(x, 0.25, seed=3, step=step))
    np.testing.assert_array_equal(f(x, np.int64(7)), nn.dropout(x, 0.25, seed=3, step=7))
    for other in (nn.dropout(x, 0.25, seed=3, step=8), nn.dropout(x, 0.25, seed=4, step=7), f(x, np.int64(6))):
        both = np.mean(kept & (other > 0))
        assert abs(both - 0.75**2) < 0.04
    traced = sg.jit(lambda x, rate, step: nn.dropout(x, rate, seed=2**64 - 1, step=step))
    for rate, step in ((0.25, 7), (0.5, np.array(8)), (np.float32(0.25), np.int32(7)), (0.125, 2**62)):
        np.testing.assert_array_equal(traced(x, rate, step), nn.dropout(x, rate, 2**64 - 1, step))
    np.testing.assert_array_equal(nn.dropout(np.ones(12), 0.5, 0, 0), [2, 0, 0, 2, 2, 0, 2, 2, 2, 0, 2, 2])
    np.testing.assert_array_equal(nn.dropout(x, 0.0, 0, 0), x)


# -- initial values


def test_initial_values_are_these_numbers():
    found = {name: [float(v).hex() for v in getattr(nn.init, name)(1, (2, 1)).ravel()] for name in GOLDEN}
    assert found == GOLDEN


GOLDEN: dict[str, list[str]] = {
    "uniform": ["-0x1.41d589b6aa564p-6", "0x1.1da9867255936p-5"],
    "normal": ["-0x1.a53462ccac377p-6", "0x1.a642ddb4e04f4p-5"],
    "truncated_normal": ["-0x1.90647137135c6p-6", "0x1.8b73aaf7f3645p-5"],
    "glorot_uniform": ["-0x1.1c76c0502c57fp-1", "0x1.f8fbf53922422p-1"],
    "glorot_normal": ["-0x1.ade3e2b3ada35p-2", "0x1.aef7f172ac0d4p-1"],
    "he_uniform": ["-0x1.5c654a844fd64p-1", "0x1.353d0880f9734p+0"],
    "he_normal": ["-0x1.0740bdbfeba2ap-1", "0x1.07e9ca910c318p+0"],
}


MOMENTS: dict[str, tuple[tuple[float, float], dict[str, float]]] = {
    "uniform": ((0.5, 1.0 / np.sqrt(12)), {"low": 0.0, "high": 1.0}),
    "normal": ((2.0, 1.0), {"mean": 2.0, "std": 1.0}),
    "truncated_normal": ((0.0, 0.8796256610342398), {"std": 1.0}),
    "glorot_uniform": ((0.0, np.sqrt(2.0 / 600)), {}),
    "glorot_normal": ((0.0, np.sqrt(2.0 / 600)), {}),
    "he_uniform": ((0.0, np.sqrt(2.0 / 200)), {}),
    "he_normal": ((0.0, np.sqrt(2.0 / 200)), {}),
    "zeros": ((0.0, 0.0), {}), "ones": ((1.0, 0.0), {}), "constant": ((3.0, 0.0), {"value": 3.0}),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_initial_values_have_their_moments(name):
    (mean, std), options = MOMENTS[name]
    drawn = getattr(nn.init, name)(11, (200, 400), np.float64, **options)
    assert drawn.shape == (200, 400)
    assert abs(drawn.mean() - mean) < 1e-2
    assert abs(drawn.std() - std) < 1e-2
    assert getattr(nn.init, name)(11, (2, 3), np.float32, **options).dtype == np.float32
    if name == "truncated_normal":
        assert np.abs(drawn).max() <= 2.0


def test_normal_values_are_the_inverse_of_the_distribution():
    from scipy.special import ndtr

    drawn = nn.init.normal(3, 1000, std=1.0)
    again = (drawn - nn.init.normal(3, 1000, mean=0.0, std=0.0)) / 1.0
    unit = nn.init.uniform(3, 1000, low=0.0, high=1.0)
    np.testing.assert_allclose(ndtr(again), unit, rtol=1e-12)


# -- networks


def network(params, x):
    for name in ("one", "two", "three"):
        x = np.tanh(nn.dense(params[name], x))
    return nn.dense(params["four"], x)[:, 0]


def parameters():
    sizes = [6, 12, 8, 4, 1]
    return {
        name: nn.init.dense(k, *sizes[k : k + 2]) for k, name in enumerate(("one", "two", "three", "four"))
    }


def test_a_network_agrees_with_the_complex_step_batched_and_in_a_package(tmp_path):
    params, x, y = parameters(), draw(5, 6), draw(5)

    def loss(params, x):
        return np.sum((network(params, x) - y) ** 2)

    grads = sg.grad(loss)(params, x)
    for name, leaf in (("one", "W"), ("three", "b"), ("four", "W")):
        place = (0,) * params[name][leaf].ndim
        ahead = sg.tree_map(lambda a: a.astype(complex), params)
        ahead[name][leaf][place] += 1e-30j
        np.testing.assert_allclose(grads[name][leaf][place], loss(ahead, x).imag / 1e-30, rtol=1e-12)
    each = sg.vmap(lambda x: network(params, x[None])[0])(x)
    np.testing.assert_allclose(each, network(params, x), rtol=1e-13)
    sg.emit(loss, (params, x), tmp_path / "network")
    assert (tmp_path / "network").is_dir()


def test_a_tied_weight_gets_the_sum_and_a_penalty_its_slope():
    W, x = draw(3, 3), draw(3)
    tied = sg.grad(lambda p: np.sum(nn.dense(p, np.tanh(nn.dense(p, x))) ** 2))({"W": W})["W"]
    apart = sg.grad(lambda p, q: np.sum(nn.dense(q, np.tanh(nn.dense(p, x))) ** 2), argnums=(0, 1))({"W": W}, {"W": W})
    np.testing.assert_allclose(tied, apart[0]["W"] + apart[1]["W"], rtol=1e-12)
    penalized = sg.grad(lambda p: np.sum(nn.dense(p, x) ** 2) + 0.05 * np.sum(p["W"] ** 2))({"W": W})["W"]
    np.testing.assert_allclose(penalized - sg.grad(lambda p: np.sum(nn.dense(p, x) ** 2))({"W": W})["W"], 0.1 * W)


# -- refusals

REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "names": (lambda: nn.dense({"w": np.ones((3, 2))}, np.ones((4, 3))), ArgumentValueError,
              r"^dense: parameters without 'W', with 'w'\n  instead: a dict with 'W'; .*dense.__doc__"),
    "no dict": (lambda: nn.layer_norm(cast("Any", np.ones(3)), np.ones((4, 3))), ArgumentValueError,
                r"layer_norm: parameters without 'scale' and 'bias', which are no dict"),
    "names of statistics": (
        lambda: nn.batch_norm({"scale": np.ones(3), "bias": np.ones(3)}, {"mean": np.ones(3)}, np.ones((4, 3)), True),
        ArgumentValueError, r"batch_norm: statistics without 'var', with 'mean'"),
    "gates": (lambda: nn.lstm({"Wx": np.ones((3, 4))}, np.ones((2, 1, 3))), ArgumentValueError,
              r"lstm: parameters without 'Wh' and 'b', with 'Wx'"),
    "dense": (lambda: nn.dense({"W": np.ones((3, 2))}, np.ones((4, 5))), ArgumentValueError,
              r"dense: an array of shape \(4, 5\) meets one of shape \(3, 2\), and \(5,\) is not \(3,\)"),
    "batch_norm": (lambda: nn.batch_norm(norm(2), STILL, np.ones((4, 5)), training=True), ArgumentValueError,
                   r"batch_norm: an array of shape \(4, 5\) meets one of shape \(2,\)"),
    "attention": (lambda: nn.attention(np.ones((2, 3)), np.ones((4, 3)), np.ones((5, 1))), ArgumentValueError,
                  r"attention: an array of shape \(4, 3\) meets one of shape \(5, 1\)"),
    "channels": (lambda: nn.conv2d({"W": np.ones((2, 2, 3, 1))}, np.ones((1, 4, 4, 2))), ArgumentValueError,
                 r"conv2d: an array of shape \(1, 4, 4, 2\) meets one of shape \(2, 2, 3, 1\)"),
    "axes": (lambda: nn.conv2d({"W": np.ones((2, 2, 3, 1))}, np.ones((4, 4, 3))), ArgumentValueError,
             r"conv2d: images of shape \(4, 4, 3\), filters of shape \(2, 2, 3, 1\)"),
    "no window": (lambda: nn.max_pool(np.ones((1, 2, 2, 1)), (3, 3)), ArgumentValueError,
                  r"max_pool: no window of \(3, 3\) fits into \(2, 2\)"),
    "padding": (lambda: nn.avg_pool(np.ones((1, 2, 2, 1)), (2, 2), padding="FULL"), ArgumentValueError,  # type: ignore[arg-type]
                r"avg_pool\(padding='FULL'\)"),
    "pairs": (lambda: nn.avg_pool(np.ones((1, 2, 2, 1)), (2, 2), padding=((0, 1),)), ArgumentValueError,
              r"avg_pool: padding=\(\(0, 1\),\) meets the shape \(1, 2, 2, 1\)(.|\n)*a pair of integers"),
    "no pairs": (lambda: nn.conv1d({"W": np.ones((2, 1, 1))}, np.ones((1, 4, 1)), padding=(2, 1)),  # type: ignore[arg-type]
                 ArgumentValueError, r"conv1d: padding=\(2, 1\) meets the shape \(1, 4, 1\)(.|\n)*a pair of integers"),
    "negative pairs": (lambda: nn.conv2d({"W": np.ones((1, 1, 1, 1))}, np.ones((1, 4, 4, 1)), 1, ((-1, 0), (0, 0))),
                       ArgumentValueError, r"conv2d: padding=\(\(-1, 0\), \(0, 0\)\) meets(.|\n)*of at least 0"),
    "a window": (lambda: nn.max_pool(np.ones((1, 2, 2, 1)), (2,)), ArgumentValueError,
                 r"max_pool\(window=\(2,\)\) along 2 axes(.|\n)*an integer, or 2 of them, of at least 1"),
    "an empty window": (lambda: nn.avg_pool(np.ones((1, 2, 2, 1)), 0), ArgumentValueError, r"avg_pool\(window=0\) al"),
    "no extents": (lambda: nn.max_pool(np.ones((2, 2)), 2), ArgumentValueError,
                   r"max_pool: an array of shape \(2, 2\)(.|\n)*\(batch, \*extents, channels\)"),
    "a stride": (lambda: nn.conv2d({"W": np.ones((2, 2, 1, 1))}, np.ones((1, 4, 4, 1)), (1,)),  # type: ignore[arg-type]
                 ArgumentValueError, r"conv2d\(strides=\(1,\)\)(.|\n)*2 of them, of at least 1"),
    "half a stride": (lambda: nn.avg_pool(np.ones((1, 4, 1)), 2, 1.5), ArgumentValueError,  # type: ignore[arg-type]
                      r"avg_pool\(strides=1.5\) along 1 axis"),
    "no stride": (lambda: nn.avg_pool(np.ones((1, 4, 1)), (2,), (0,)), ArgumentValueError, r"strides=\(0,\)"),
    "lstm": (lambda: nn.lstm(gates(3, 2, 4), np.ones((5, 1, 2))), ArgumentValueError,
             r"lstm: an array of shape \(4, 12\) meets one of shape \(12,\), and \(16,\) is not \(12,\)"),
    "one state": (lambda: nn.lstm(gates(4, 2, 3), np.ones((5, 1, 2)), np.ones((1, 3))), ArgumentValueError,  # type: ignore[arg-type]
                  r"lstm: a state of shape \(1, 3\) meets x of shape (.|\n)*\(h, c\), of shape \(1, 3\) each"),
    "a state of others": (
        lambda: nn.lstm(gates(4, 2, 3), np.ones((5, 1, 2)), (np.ones((2, 3)), np.ones((2, 3)))), ArgumentValueError,
        r"lstm: a state of shape \(\(2, 3\), \(2, 3\)\) meets x of shape \(5, 1, 2\) and Wh of shape \(3, 12\)"),
    "two states": (lambda: nn.gru(gates(3, 2, 3), np.ones((5, 1, 2)), (np.ones((1, 3)),) * 2), ArgumentValueError,
                   r"gru: a state of shape \(\(1, 3\), \(1, 3\)\) meets(.|\n)*h, of shape \(1, 3\)"),
    "bias": (lambda: nn.dense({"W": np.ones((3, 2)), "b": np.ones((2, 1))}, np.ones((4, 3))), ArgumentValueError,
             r"dense: an array of shape \(4, 2\) meets one of shape \(2, 1\), and \(2,\) is not \(2, 1\)"),
    "bias of filters": (lambda: nn.conv1d({"W": np.ones((2, 1, 2)), "b": np.ones(1)}, np.ones((1, 4, 1))),
                        ArgumentValueError, r"conv1d: an array of shape \(1, 3, 2\) meets one of shape \(1,\)"),
    "statistics": (lambda: nn.batch_norm(norm(3), {"mean": np.zeros(()), "var": np.ones(3)}, np.ones((4, 3)), False),
                   ArgumentValueError, r"batch_norm: an array of shape \(4, 3\) meets one of shape \(\)"),
    "a scale": (lambda: nn.layer_norm(norm(3) | {"bias": np.ones((4, 1))}, np.ones((4, 3))), ArgumentValueError,
                r"layer_norm: an array of shape \(4, 3\) meets one of shape \(4, 1\)"),
    "scores for a mask": (lambda: nn.attention(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), np.zeros((2, 2))),
                          ArgumentValueError, r"attention: a mask of dtype float64(.|\n)*booleans"),
    "rate": (lambda: nn.dropout(np.ones(3), 1.0, 0, 0), ArgumentValueError, r"dropout\(rate=1.0\)"),
    "a seed": (lambda: nn.dropout(np.ones(3), 0.5, -1, 0), ArgumentValueError, r"dropout\(seed=-1\)"),
    "a large seed": (lambda: nn.dropout(np.ones(3), 0.5, 2**64, 0), ArgumentValueError, r"dropout\(seed=1"),
    "a seed with digits": (lambda: nn.dropout(np.ones(3), 0.5, 1.5, 0), ArgumentValueError,  # type: ignore[arg-type]
                           r"dropout\(seed=1.5\)"),
    "a traced seed": (lambda: sg.jit(lambda seed: nn.dropout(np.ones(3), 0.5, seed, 0))(3), ArgumentValueError,
                      r"dropout\(seed=(.|\n)*`step` is what may change"),
    "a step": (lambda: nn.dropout(np.ones(3), 0.5, 0, np.float32(7)), ArgumentValueError, r"dropout\(step=.*7"),
    "targets": (lambda: nn.softmax_cross_entropy(np.ones((2, 3)), np.ones(2)), ArgumentValueError,
                r"logits of shape \(2, 3\), targets of shape \(2,\) and dtype float64"),
    "logits": (lambda: nn.sigmoid_cross_entropy(np.ones((2, 3)), np.ones(3)), ArgumentValueError,
               r"logits of shape \(2, 3\), targets of shape \(3,\)"),
    "labels": (lambda: sg.jit(nn.softmax_cross_entropy)(np.ones((2, 3)), np.array([0, 3])), IndexOutOfBounds,
               r"an index is out of bounds for an axis with size 3: 3 at \[1, 0\], which is targets\[1\]"),
    "no label": (lambda: nn.softmax_cross_entropy(np.ones((2, 3)), np.array([0, -1])), IndexOutOfBounds,
                 "the label -1 is out of bounds for 3 classes"),
    "a large label": (lambda: nn.softmax_cross_entropy(np.ones((1, 3)), np.array([2**64 - 1], np.uint64)),
                      IndexOutOfBounds, "the label 18446744073709551615 is out of bounds for 3 classes"),
    "no label, compiled": (lambda: sg.jit(nn.softmax_cross_entropy)(np.ones((2, 3)), np.array([-1, 0])),
                           IndexOutOfBounds, r"size 3: 3 at \[0, 0\], made of targets\[0\], which is -1"),
    "a large label, compiled": (
        lambda: sg.jit(nn.softmax_cross_entropy)(np.ones((1, 3)), np.array([2**64 - 1], np.uint64)), IndexOutOfBounds,
        "an index is out of bounds for an axis with size 3"),
    "no label of 8 bits": (lambda: sg.jit(nn.softmax_cross_entropy)(np.ones((1, 300)), np.array([-1], np.int8)),
                           IndexOutOfBounds, "an index is out of bounds for an axis with size 300"),
    "fans": (lambda: nn.init.he_normal(0, (3,)), ArgumentValueError, r"the shape \(3,\) has no axes"),
    "seed": (lambda: nn.init.normal(-1, 3), ArgumentValueError, "the seed -1"),
    "seed with digits": (lambda: nn.init.normal(1.5, 3), ArgumentValueError, "the seed 1.5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_layer_and_both_shapes(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


def test_refusals_of_traced_layers_have_the_users_line():
    with pytest.raises(ArgumentValueError, match=r"(?s)embedding: parameters without 'E', with 'e'.*test_nn\.py"):
        sg.jit(lambda e: nn.embedding({"e": e}, np.array([0])))(np.ones((2, 2)))


def test_logits_may_be_lists_of_traced_integers():
    labels = np.array([0, 1])
    found = sg.jit(lambda a: (
        nn.softmax_cross_entropy([a, a], labels), nn.softmax_cross_entropy([[a[0], a[1]], [a[1], a[0]]], labels),
    ))(np.array([1, 2]))
    wanted = [nn.softmax_cross_entropy(np.array(rows, float), labels) for rows in ([[1, 2]] * 2, [[1, 2], [2, 1]])]
    np.testing.assert_allclose(found, wanted, rtol=1e-15)

"""Programs that compute in place: NumPy's values interpreted and compiled, and gradients that are derivatives."""

from __future__ import annotations

import numpy as np
import optree
import pytest

import symgrad as sg
from tests.trace import inplace_algorithms
from tests.trace.inplace_programs import PROGRAMS
from tests.trace.programs import agree, copies


def weighted(result):
    """Return a smooth total of a result, in which every element has a weight of its own."""
    leaves = [leaf for leaf in optree.tree_leaves(result) if leaf.dtype.kind == "f"]
    return sum(np.sum(leaf * np.cos(np.arange(leaf.size)).reshape(leaf.shape)) for leaf in leaves)


def slopes(fun, args):
    """Differentiate by the first argument, by Richardson's differences."""
    x = args[0]
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):

        def at(h, place=place):
            moved = x.copy()
            moved[place] += h
            return weighted(fun(moved, *copies(args[1:])))

        h = 1e-3
        first, second = [(at(s) - at(-s)) / (2 * s) for s in (h, h / 2)]
        found[place] = (4 * second - first) / 3
    return found


@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_values_are_numpys(fun, args):
    agree(fun, *args)


@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_gradients_are_derivatives(fun, args):
    value, gradient = sg.value_and_grad(lambda *a: weighted(fun(*a)))(*args)
    np.testing.assert_allclose(value, weighted(fun(*copies(args))), rtol=1e-6)
    narrow = fun.__name__ == "rounding_on_assignment"
    if not narrow:
        np.testing.assert_allclose(gradient, slopes(fun, args), rtol=1e-7, atol=1e-8)


def test_the_table_is_whole():
    names = {param.id for param in PROGRAMS}
    assert {inplace_algorithms.added_at.__name__, "cholesky_by_hand", "traced_mask_of_arrays"} <= names
    assert len(names) >= 60


REPEATED = [
    ([0, 0], 2, [0, 1], [0, 1]),
    ([0, 1, 0], 2, [0, 1, 1], [0, 0]),
    ([2, 2, 2, 0], 3, [0, 0, 1, 1], [0, 1, 0]),
    ([-1, 2, 1], 3, [0, 1, 1], [1, 0, 0]),
    ([-1, -1], 1, [0, 1], [0]),
    ([], 2, [], [1, 1]),
    ([1, 0, 1, 0, 1], 2, [0, 0, 0, 1, 1], [0, 0]),
]
"""Indices, the extent they index, and which written and which old elements are left."""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("indices", "extent", "stays", "old"), REPEATED)
def test_of_repeated_writes_the_last_one_counts(known, indices, extent, stays, old):
    places = np.array(indices, int)
    weight = 1.0 + np.arange(extent)

    def loss(base, values, k):
        a = base.copy()
        a[places if known else k] = values
        return np.sum(a * weight)

    base, values = np.ones(extent), 2 + np.arange(len(indices))
    by_base, by_values = sg.grad(loss, argnums=(0, 1))(base, values.astype(float), places)
    np.testing.assert_array_equal(by_base, weight * old)
    np.testing.assert_array_equal(by_values, weight[places] * stays)
    for number, want in ((0, by_base), (1, by_values)):  # forward as reverse
        columns = sg.jacfwd(loss, argnums=number)(base, values.astype(float), places)
        np.testing.assert_array_equal(columns, want)
    if known:
        return
    outside = np.full(len(indices), extent)
    if len(indices):
        with pytest.raises(IndexError, match="out of bounds"):
            sg.grad(loss)(base, values.astype(float), outside)


def prefix(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i] ** 2 + (out[i - 1] if i else 0)
    return out


def through_rows(x):
    out = np.zeros((len(x) // 8, 8))
    for i in range(len(x) // 8):
        row = out[i]
        for j in range(8):
            row[j] = np.sin(x[8 * i + j]) + (out[i - 1][j] if i else 0)
        row[3] *= 2
    return out.reshape(-1)


def by_slices(x):
    out = np.zeros(len(x))
    for i in range(0, len(x), 8):
        out[i : i + 8] = x[i] * x[i : i + 8]
        out[i + 2] += out[i - 1] if i else 0
    return out


@pytest.mark.parametrize("fun", [prefix, through_rows, by_slices])
def test_n_writes_cost_n(fun):
    for n in (40, 80, 160):
        x = np.linspace(-1, 1, n)
        f = sg.value_and_grad(lambda x: np.sum(fun(x) ** 2))
        value, gradient = f(x)
        np.testing.assert_allclose(value, np.sum(fun(x.copy()) ** 2), rtol=1e-13)
        by_numpy = sg.grad(lambda x: np.sum(fun(x) ** 2), options=sg.Options(compiler="none"))(x)
        np.testing.assert_allclose(gradient, by_numpy, rtol=1e-11, atol=1e-12)
        lowered = f.lower(x)
        assert len(lowered.program.nodes()) <= 16 * n
        assert lowered.as_text("c").count("\n") <= 20 * n + 50
        assert lowered.as_text("optimized").count("set_slice") <= 1
        workspace = int(lowered.as_text("c").split(" * workspace: ")[1].split(" bytes")[0])
        assert workspace <= 8 * 4 * n


def test_many_writes_in_several_c_functions():
    x = np.linspace(-1, 1, 400)
    value, gradient = sg.value_and_grad(lambda x: np.sum(prefix(x) ** 2))(x)
    np.testing.assert_allclose(value, np.sum(prefix(x) ** 2), rtol=1e-13)
    np.testing.assert_allclose(gradient, np.cumsum(2 * prefix(x)[::-1])[::-1] * 2 * x, rtol=1e-11, atol=1e-11)


def test_versions_of_an_array_stay_apart():
    def f(x):
        a = np.zeros(4)
        a[0] = x[0]
        b = a.copy()
        a[1] = x[1]
        b[1] = x[2]
        c = a + b
        a[0] = 5.0
        a[1:3] = c[:2] * a[0]
        a[2] = a[1] + b[1]
        return a, b, c

    x = np.array([1.5, 2.5, -3.5])
    for got, want in zip(sg.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)


INTERPRETED = sg.Options(compiler="none")


@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_forward_is_reverse_and_vmap_is_a_loop(fun, args):
    def floats(*a):
        return [leaf for leaf in optree.tree_leaves(fun(*a)) if leaf.dtype.kind == "f"]

    forward, reverse = sg.jacfwd(floats, options=INTERPRETED)(*args), sg.jacrev(floats, options=INTERPRETED)(*args)
    for one, other in zip(forward, reverse, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6 if one.dtype == np.float32 else 1e-11, atol=1e-12)
    x, *rest = args
    batch = np.stack([x, 0.9 * x + 0.05, -x])
    with np.errstate(invalid="ignore"):  # what a mask leaves out
        mapped = sg.vmap(floats, in_axes=(0, *[None] * len(rest)), options=INTERPRETED)(batch, *rest)
        looped = [floats(row, *copies(rest)) for row in batch]
    for k, found in enumerate(mapped):
        np.testing.assert_allclose(found, np.stack([results[k] for results in looped]), rtol=1e-6, atol=1e-12)


def test_elements_taken_behind_a_slice_are_an_array_of_their_own():
    """NumPy gives the transpose of a new array there."""

    def f(x):
        out = np.zeros((3, 5))
        taken = out[:, [4, 0]]
        out[:, [0, 2]] += x
        taken += 1.0
        taken[0, 1] = x
        return out, taken

    for one, other in zip(sg.jit(f)(2.0), f(2.0), strict=True):
        assert np.array_equal(one, other)

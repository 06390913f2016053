"""Rows and columns by traced integers: views, as in NumPy; by arrays without axes: copies. Values, C, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, IndexOutOfBounds, MutationError
from tests.table import INTERPRETED
from tests.trace.programs import entering

Array = np.ndarray[Any, Any]
X = np.random.default_rng(14).normal(size=(3, 4))
Q = np.array([2, 0, 2])
PROGRAMS: list[Any] = []
program = entering(PROGRAMS)
INDICES = {"int": 1, "int64": np.int64(1), "int8": np.int8(1), "negative": np.int64(-2), "array": np.array(1)}


@program()
def element_of_a_row(v, i):
    v[i][0] = 50.0
    return v


@program()
def element_of_a_column(v, i):
    v[:, i][0] = v[0, 0]
    return v


@program()
def row_in_place(v, i):
    row = v[i]
    row += 1
    return v


@program()
def out(v, i):
    np.add(v[i], v[0], out=v[i])
    np.multiply(v[i, 1:], 2, out=v[i][1:])
    return v


@program()
def copyto(v, i):
    np.copyto(v[i], v[0] * 2)
    np.copyto(v.T[i], 0.5, where=v[:, 0] > 9)
    return v


@program()
def fill(v, i):
    v[..., i].fill(0)
    v[i].put([0, 2], v[2, :2])
    return v


@program()
def loop_over_indices(v, i):
    for q in np.array([0, 2, 0]) + 0 * i:
        v[q][0] += 1
        v[q] *= v[q - 1]
    return v


@program()
def place_of_the_largest(v, i):
    w = v[np.argmax(v[:, 0])]
    w *= 2
    return v[np.argmax(v[i])]


@program()
def read_after_the_base_was_written(v, i):
    w = v[i]
    v[1] = v[0] * 3
    return w + v[..., i][0]


@program()
def read_after_a_row_was_written(v, i):
    w, u = v[i], v[1:]
    w[1:] = 0.25
    u *= v[0]
    return w - u


@program()
def views_of_views(v, i):
    w = v[::-1].T[None][..., i][0, 1:]
    w[:2] += v[0, :2]
    u = np.expand_dims(np.swapaxes(v, 0, 1)[i], 1)[1:, 0]
    u[...] = u[::-1] * 2
    return v


@program()
def new_axes_and_dots(v, i):
    w, u = v[None, i], v[i, None, ..., 1:]
    w[0, 0] = 1.5
    u[...] = v[0, 1:]
    v[i, 2, ...] *= 3
    return w - 1, u


@program()
def swapped(v, i):
    v[i], v[0] = v[0], v[i]
    return v


@program()
def swapped_copies(v, i):
    v[i], v[0] = v[0].copy(), v[i].copy()
    return v


@program()
def row_of_rows(v, i):
    def change(rows, k):
        rows[k][k] = rows[0][1]
        return rows[k]

    return change(v[:, 1:], i) * change(v.T[:3].T, i)[:1]


@program()
def what_an_array_was_made_of(v, i):
    made = np.zeros((3, 4))
    row = made[i]
    made[1] = 2.0
    before = row * 1
    row[:2] = v[0, :2]
    made[:, 1:][i] -= 1
    return made, before


@program()
def array_of_one(v, i):
    k = np.array(i)
    w, u = v[k], v[k, 1:]
    w *= 3
    u[0] = 7
    v[k] += w
    return v, u


@program()
def array_of_one_from_a_row_of_indices(v, i):
    q = np.array([0, 2, 1]) + 0 * i
    w, u = v[q[..., 1]], v[q[1]]
    w[0] = 5.0
    u[1] = w[0]
    return v


@program()
def index_arrays(v, i):
    w, u, t = v[[i]], v[i, [0, 1]], v[[0, 1], i]
    w[...], u[...], t[...] = 1.0, 2.0, 3.0
    return v, w


@program()
def take(v, i):
    w, u, t = np.take(v, 0, axis=0), np.take(v, i, axis=1), v.take(i, 0)
    w *= 3
    u[0], t[1] = 7.0, w[0]
    v[i] *= t
    return v, u


@program()
def copied_numbers(v, i):
    w = v[i.copy() if isinstance(i, np.generic) else np.copy(i)]
    w[0] = 9.0
    return v


FUNCTIONS = [entry.values[0] for entry in PROGRAMS]


def every(x: Array, i: Any) -> list[Any]:
    """Run all programs, each on a copy of its own."""
    return [function(np.array(x), i) for function in FUNCTIONS]


def parts(results: Any) -> list[Any]:
    """List all arrays that programs return."""
    return [part for made in results for part in (made if isinstance(made, tuple) else (made,))]


def flat(results: Any) -> Array:
    """Put all that programs return into one vector."""
    return np.concatenate([np.ravel(part) for part in parts(results)])


def loss(x: Any, i: Any) -> Any:
    found: Any = 0.0
    for number, part in enumerate(parts(every(x, i))):
        found = found + np.sum(np.sin(part)) * (1 + 0.1 * number)
    return found


def difference(function: Any, x: Array) -> Array:
    """Differentiate a function of an array to a number, by differences."""
    found = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[place] = 1e-6
        found[place] = (function(x + step) - function(x - step)) / 2e-6
    return found


jitted, interpreted = sg.jit(every), sg.jit(every, options=INTERPRETED)
slope = sg.grad(loss)


@pytest.mark.parametrize("i", INDICES.values(), ids=INDICES)
def test_values(i: Any) -> None:
    want = every(X, i)
    for run in (jitted, interpreted):
        for function, found, expected in zip(FUNCTIONS, run(X, i), want, strict=True):
            pairs = zip(flat([found]), flat([expected]), strict=True)
            assert all(np.isclose(a, b, 1e-13) for a, b in pairs), (function.__name__, found, expected)


@pytest.mark.parametrize("i", [1, np.int64(-2), np.array(1)], ids=str)
def test_derivatives(i: Any) -> None:
    want = difference(lambda x: loss(x, i), X)
    np.testing.assert_allclose(slope(X, i), want, rtol=1e-6, atol=1e-6)
    tangent = sg.jvp(lambda x: loss(x, i), (X,), (X,))[1]
    np.testing.assert_allclose(tangent, np.sum(want * X), rtol=1e-6)


def test_mapped() -> None:
    """Each example's index is a number, as an element of an array is."""
    indices = np.array([1, 0, 2, -1])
    mapped = sg.vmap(lambda i: flat(every(X, i)), options=INTERPRETED)(indices)
    np.testing.assert_allclose(mapped, [flat(every(X, i)) for i in indices], rtol=1e-13)
    slopes = sg.vmap(sg.grad(loss), in_axes=(None, 0), options=INTERPRETED)(X, indices)
    np.testing.assert_allclose(slopes, [slope(X, i) for i in indices], rtol=1e-12)


def test_functions_that_are_called() -> None:
    inner = sg.grad(lambda x, i: np.sum(views_of_views(np.array(x), i)[i] ** 2))
    outer = sg.grad(lambda x, i: np.sum(inner(x, i) ** 2), options=INTERPRETED)
    want = difference(lambda x: np.sum(inner(x, np.int64(1)) ** 2), X)
    np.testing.assert_allclose(outer(X, np.int64(1)), want, rtol=1e-5, atol=1e-6)


# -- signatures


def element(v: Any, i: Any) -> Any:
    v = v * 1.0
    v[i][0] = 50.0
    return v


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["C", "NumPy"])
def test_a_number_and_an_array_of_it_are_different_arguments(options: sg.Options) -> None:
    kinds = [1, np.int64(1), np.array(1)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        fun = sg.jit(element, options=options)
        for k in [*order, *order]:
            np.testing.assert_array_equal(fun(X, kinds[k]), element(X, kinds[k]))
        assert fun.cache_info().compilations == 3


def test_a_spec_without_axes_is_a_number() -> None:
    fun = sg.jit(element, specs=("f64[3,4]", "i64[]"), options=INTERPRETED)
    np.testing.assert_array_equal(fun(X, 1), element(X, 1))
    np.testing.assert_array_equal(fun(X, np.int64(1)), element(X, 1))
    with pytest.raises(ArgumentError, match=r"argument i is i64\[\], an array, where element\(\) was compiled for "
                                            r"i64\[\], a NumPy number\n  instead: i\[\(\)\], the number in it"):
        fun(X, np.array(1))


def test_of_what_is_no_index_a_number_and_an_array_without_axes_are_one() -> None:
    fun = sg.jit(lambda x: x * 2.0, specs=("f64[]",), options=INTERPRETED)
    assert fun(np.array(1.5)) == fun(1.5) == fun(np.float64(1.5)) == 3.0


# -- refusals


def test_bounds_are_checked() -> None:
    fun = sg.jit(element)
    for i in (3, -4, np.int64(3)):
        with pytest.raises(IndexOutOfBounds):
            fun(X, i)


def test_a_row_of_an_argument_is_the_callers() -> None:
    def write(x: Any, i: Any) -> Any:
        row = x[i]
        row *= 2
        return row

    with pytest.raises(MutationError, match=r"a write into the argument 'x'"):
        sg.jit(write)(X, 1)


def test_a_row_that_is_added_to_is_written_once() -> None:
    def add(x: Any, i: Any) -> Any:
        out = np.zeros((3, 4))
        for k in range(3):
            out[i[k]] += x[k]
        return out

    assert sg.jit(add).lower(X, Q).as_text("stable").count("add_at") == 1


def test_slices_that_move_and_are_as_long_are_one_path() -> None:
    """Batches by a step's number: any start is one compilation; beyond the ends it is NumPy's shorter slice."""
    x = np.random.default_rng(3).normal(size=(3, 8, 5))

    def parts(x: Any, i: Any, j: Any) -> Any:
        here = slice(2 * i, 2 * (i + 1))
        return x[:, here, ..., j - 1 : j + 1], x[0, here, None, 1], x[..., j : j + 3], x[i : i + 1, 2]

    found = sg.jit(parts)
    for i, j in ((0, 1), (1, 1), (0, 2), (1, 2)):
        for got, want in zip(found(x, i, j), parts(x, i, j), strict=True):
            np.testing.assert_array_equal(got, want)
    assert found.cache_info().compilations == 1
    for i, j in ((3, 3), (-1, 4), (9, 2)):
        for got, want in zip(found(x, i, j), parts(x, i, j), strict=True):
            np.testing.assert_array_equal(got, want)
    few = sg.jit(lambda x, i: x[i : i + np.uint8(3)])
    for start in (2, 253):
        with np.errstate(over="ignore"):
            want = np.arange(300.0)[np.uint8(start) : np.uint8(start) + np.uint8(3)]
        np.testing.assert_array_equal(few(np.arange(300.0), np.uint8(start)), want)
    slope = sg.grad(lambda x, i: np.sum(x[:, i : i + 2] ** 3))
    for i in (1, 4):
        want = np.zeros_like(x)
        want[:, i : i + 2] = 3 * x[:, i : i + 2] ** 2
        np.testing.assert_allclose(slope(x, i), want)
    assert slope.cache_info().compilations == 1

"""No NaN from what is not used: every kind of selection, with poles at the elements that it leaves out.

A selection is linear in the array it selects from, so that the expected derivatives are closed forms: those of the
function at the used elements, times what the selection makes of unit arrays; 0 elsewhere.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from tests.night import some
from tests.table import INTERPRETED

N = 4
MASK = np.array([[False, True, False, True], [True, False, False, True], [False] * 4, [False, True, False, False]])
PLACES = np.array([3, 1, 1])
ROWS = np.arange(N)
RANKS = np.array([[1, 1], [0, 3], [2, 2], [3, 1]])
WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0], [-1.0, 0.25]])


def written(y):
    v = y.copy()
    v[1:, 2] = 3.0
    v[0] = v[3] * 2.0
    return v


def written_in_part(y):
    v = np.zeros(6)
    v[1:5] = y[2]
    v[2] = 0.0
    v[3] += y[1, 0]
    return v


def written_through_indices(y):
    v = y.copy()
    v[PLACES] = 1.0
    return v


def chosen_from_rows(y):
    """Use a column where one row is chosen and not picked, and the other picked and not chosen: not at all."""
    rows = np.where(np.array([[True, False, True, False], [True, True, False, True]]), np.ones((2, N)) @ y, 0.0)
    return np.ravel(rows)[:4]


def filled_diagonal(y):
    v = y.copy()
    np.fill_diagonal(v, 0.0)
    return v


def added_up(y):
    total = 0.0
    for i in range(N):
        for j in range(i):
            total = total + (i + 2 * j) * y[i, j]
    return total


def overlapping(y):
    return (y[1:3] - y[:2])[:, 1:3]


SELECTIONS: dict[str, Any] = {
    "slice": lambda y: y[1:],
    "columns": lambda y: y[:, ::2],
    "backwards": lambda y: y[:0:-2, 1:3],
    "row": lambda y: y[2],
    "element": lambda y: y[1, 3],
    "ellipsis": lambda y: y[..., -1],
    "two elements": lambda y: y[0, 1] + y[1, 2],
    "slice of a slice": lambda y: y[1:][:, 1:][1:],
    "slices that overlap": overlapping,
    "elements in a loop": added_up,
    "index array": lambda y: y[PLACES],
    "pairs of indices": lambda y: y[ROWS, PLACES[[0, 1, 2, 0]]],
    "indices of a triangle": lambda y: y[np.triu_indices(N, 1)],
    "rows and columns": lambda y: y[np.ix_([0, 3], [1, 2])],
    "mask": lambda y: y[MASK],
    "mask of rows": lambda y: y[np.array([True, False, True, False])],
    "take": lambda y: np.take(y, [0, 5, 5, 9]),
    "take along": lambda y: np.take_along_axis(y, RANKS, axis=1),
    "delete": lambda y: np.delete(y, 1, axis=0),
    "upper triangle": lambda y: np.triu(y, 1),
    "lower triangle": np.tril,
    "trace": np.trace,
    "diagonal": lambda y: np.diagonal(y, 1),
    "diagonal by indices": lambda y: y[ROWS, ROWS],
    "diagonal of einsum": lambda y: np.einsum("ii->i", y),
    "filled diagonal": filled_diagonal,
    "flat": lambda y: np.ravel(y)[5:9],
    "transposed": lambda y: y.T[2:, :1],
    "rolled": lambda y: np.roll(y, 1, axis=0)[:2],
    "padded": lambda y: np.pad(y, ((0, 0), (2, 0)))[:, 1:4],
    "padded by edges": lambda y: np.pad(y, 1, mode="edge")[0],
    "split": lambda y: np.split(y, 2, axis=1)[1],
    "joined": lambda y: np.concatenate([y[:2], 2 * y[:1]])[1:],
    "stacked": lambda y: np.stack([y, y])[0, :, 2],
    "repeated": lambda y: np.repeat(y, 2, axis=0)[2:3],
    "written": written,
    "written in part": written_in_part,
    "written through indices": written_through_indices,
    "sum of rows": lambda y: np.sum(y, axis=1)[1:3],
    "running total": lambda y: np.cumsum(y, axis=0)[1],
    "running total of repeated": lambda y: np.ravel(np.cumsum(np.repeat(y, 2, axis=1), axis=0))[[1, 3, 5]],
    "differences": lambda y: np.diff(y, axis=0)[1:],
    "product": lambda y: (WEIGHTS.T @ y)[:, 1],
    "product of rows": lambda y: (y @ WEIGHTS)[2],
    "convolution": lambda y: np.convolve(np.ravel(y)[3:9], [1.0, 2.0], mode="valid"),
    "chosen from rows": chosen_from_rows,
    "where": lambda y: np.where(MASK, y, 0.0),
    "broadcast": lambda y: (y[1] + np.zeros((3, 1)))[:, 1:],
}


@sg.custom_vjp
def rooted(x):
    return np.sqrt(x)


rooted.defvjp(lambda x: (np.sqrt(x), x), lambda x, g: (0.5 * g / np.sqrt(x),))

FUNCTIONS: dict[str, Any] = {
    "root": (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5, 0.0),
    "root of what is negative": (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5, -1.0),
    "power": (lambda x: x**0.5, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5, 0.0),
    "powers": (lambda x: np.power(x, np.full(N, 0.25)), lambda x: 0.25 * x**-0.75, lambda x: -0.1875 * x**-1.75, 0.0),
    "logarithm": (np.log, lambda x: 1 / x, lambda x: -1 / x**2, 0.0),
    "log1p": (np.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, -1.0),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3, 0.0),
    "cube root": (np.cbrt, lambda x: x ** (-2 / 3) / 3, lambda x: -2 / 9 * x ** (-5 / 3), 0.0),
    "arcsin": (np.arcsin, lambda x: (1 - x * x) ** -0.5, lambda x: x * (1 - x * x) ** -1.5, 1.0),
    "arccosh": (lambda x: np.arccosh(1 + x), lambda x: (x * (x + 2)) ** -0.5,
                lambda x: -(1 + x) * (x * (x + 2)) ** -1.5, 0.0),
    "arctanh": (np.arctanh, lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2, 1.0),
    "x log x": (lambda x: x * np.log(x), lambda x: 1 + np.log(x), lambda x: 1 / x, 0.0),
    "sin(x) / x": (lambda x: np.sin(x) / x, lambda x: np.cos(x) / x - np.sin(x) / x**2,
                   lambda x: 2 * np.sin(x) / x**3 - np.sin(x) / x - 2 * np.cos(x) / x**2, 0.0),
    "logit": (scipy.special.logit, lambda x: 1 / (x * (1 - x)), lambda x: (2 * x - 1) / (x * (1 - x)) ** 2, 1.0),
    "overflow": (np.exp, np.exp, np.exp, 800.0),
    "root of squares": (lambda x: np.sqrt(x**2 + x * x), lambda x: 0 * x + np.sqrt(2), lambda x: 0 * x, 0.0),
    "square of a logarithm": (lambda x: np.log(x) ** 2, lambda x: 2 * np.log(x) / x,
                              lambda x: 2 * (1 - np.log(x)) / x**2, 0.0),
    "norm of a row": (lambda x: np.linalg.norm(x[:, :, None] * np.array([3.0, 4.0]), axis=2), lambda x: 0 * x + 5,
                      lambda x: 0 * x, 0.0),
    "logarithm of a product": (lambda x: np.log(x[:, :, None] @ np.ones((1, 1)))[:, :, 0], lambda x: 1 / x,
                               lambda x: -1 / x**2, 0.0),
    "rule of the user's": (rooted, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5, 0.0),
}

RNG = np.random.default_rng(3)
GOOD = RNG.uniform(0.2, 0.8, (N, N))
ALONG = RNG.normal(size=(N, N))


def weighted(selection, y):
    """Add up what is selected, with weights that differ."""
    taken = selection(y)
    return np.sum(taken * (1.0 + np.arange(np.size(taken)).reshape(np.shape(taken))))


@cache
def slopes(name):
    """Return the derivative of a weighted selection by each element: 0 where an element is not used."""
    units = np.eye(N * N).reshape(N * N, N, N)
    nothing = weighted(SELECTIONS[name], np.zeros((N, N)))
    return np.array([weighted(SELECTIONS[name], unit) - nothing for unit in units]).reshape(N, N)


def at(selection, function):
    """Return the argument: at the function's pole where an element is not used."""
    return np.where(slopes(selection) != 0, GOOD, FUNCTIONS[function][3])


def expected(selection, function):
    x, used = at(selection, function), slopes(selection)
    with np.errstate(all="ignore"):
        _, first, second, _ = FUNCTIONS[function]
        return [np.where(used != 0, used * of(x), 0.0) for of in (first, second)]


def derivatives(loss, x):
    """Return the gradient, the gradient of its sum, the derivative along a direction, the gradients of a batch."""
    gradient = sg.grad(loss)
    return (
        gradient(x), sg.grad(lambda x: np.sum(gradient(x)))(x), sg.jvp(loss, (x,), (ALONG,))[1],
        sg.vmap(gradient)(np.stack([x, x])),
    )


def check(function, selections, options):
    """Compare the derivatives of a function's selections, which are compiled together, with the closed forms."""

    def every(arguments):
        of = FUNCTIONS[function][0]
        return {
            name: derivatives(lambda x, name=name: weighted(SELECTIONS[name], of(x)), x)
            for name, x in arguments.items()
        }

    found = sg.jit(every, options=options)({name: at(name, function) for name in selections})
    for name, (gradient, again, along, batch) in found.items():
        first, second = expected(name, function)
        pairs = (gradient, first), (again, second), (along, np.sum(first * ALONG)), (batch, np.stack([first, first]))
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("function", some(FUNCTIONS))
def test_what_is_not_used_has_no_slope(function):
    check(function, SELECTIONS, INTERPRETED)


@pytest.mark.parametrize(("place", "function"), some(enumerate(FUNCTIONS), turn=1))
def test_in_c(place, function):
    """Every function with some selections, every selection with some functions."""
    check(function, [*SELECTIONS][place % 15 :: 15], sg.Options())


# -- extrema, traced indices and masks, stacks: what is used depends on values

P = np.array([0.0, 4.0, 1.0, 0.25])
POINTS = np.array([0.0, 1.0, 3.0, 7.0])
PAIRS = np.triu_indices(4, 1)
MATRICES = np.stack([np.zeros((2, 2)), np.diag([2.0, 4.0])])
IN_PAIRS = [-3.0, -1.0, 1.0, 3.0]
"""The gradient of the sum of all distances of four points on a line."""


def distances(x):
    return np.sqrt((x[:, None] - x) ** 2)


def by_pairs(x):
    return sum(abs(x[i] - x[j]) ** -1.0 for i in range(4) for j in range(i))


def cut_out(x):
    y = np.sqrt(x)
    return np.sum(sg.gradients(np.sum(y[1:] ** 3), y)[1:])


@sg.jit
def inner(x):
    return np.log(x)


VALUES: dict[str, Any] = {
    "maximum": (lambda x: np.max(np.sqrt(x)), P, [0, 0.25, 0, 0]),
    "minimum of a row": (lambda x: np.sum(np.min(1 / x.reshape(2, 2), axis=1)), P, [0, -1 / 16, -1, 0]),
    "tie": (lambda x: np.max(np.sqrt(x)), np.array([0.0, 4, 4]), [0, 1 / 8, 1 / 8]),
    "larger of two": (lambda x: np.sum(np.maximum(np.sqrt(x), 0.75)), P, [0, 0.25, 0.5, 0]),
    "smaller of two": (lambda x: np.sum(np.minimum(3.0, 1 / x)), P, [0, -1 / 16, -1, 0]),
    "larger without NaN": (lambda x: np.sum(np.fmax(np.log(x), 0.5)), P, [0, 0.25, 0, 0]),
    "rectified": (lambda x: np.sum(np.maximum(np.log(x), 0)), P, [0, 0.25, 0, 0]),
    "clipped": (lambda x: np.sum(np.clip(np.log(x), -2, 1)), P, [0, 0, 1, 4]),
    "greatest norm": (lambda x: np.linalg.norm(np.sqrt(x), np.inf), P, [0, 0.25, 0, 0]),
    "place of the maximum": (lambda x: np.sqrt(x)[np.argmax(x)], P, [0, 0.25, 0, 0]),
    "traced places": (lambda x: np.sum(np.sqrt(x)[np.array([0, 2]) + (x[1] > 0)]), P, [0, 0.25, 0, 1]),
    "traced mask": (lambda x: np.sum(np.sqrt(x)[x > 0.5]), P, [0, 0.25, 0.5, 0]),
    "sum where": (lambda x: np.sum(np.log(x), where=x > 0), P, [0, 0.25, 1, 4]),
    "maximum where": (lambda x: np.max(np.log(x), where=x < 2, initial=-9), P, [0, 0, 1, 0]),
    "norms of rows": (lambda x: np.sum(np.sqrt(np.sum(x.reshape(2, 2) ** 2, axis=1))[1:]), np.array([0.0, 0, 3, 4]),
                      [0, 0, 0.6, 0.8]),
    "triangle of distances": (lambda x: np.sum(np.triu(distances(x), 1)), POINTS, IN_PAIRS),
    "pairs of distances": (lambda x: np.sum(distances(x)[PAIRS]), POINTS, IN_PAIRS),
    "two distances": (lambda x: distances(x)[0, 1] + distances(x)[1, 2], POINTS, [-1, 0, 1, 0]),
    "distances but their diagonal": (lambda x: np.sum(np.tril(1 / np.abs(x[:, None] - x), -1)), POINTS[:3],
                                     [1 + 1 / 9, -1 + 1 / 4, -1 / 4 - 1 / 9]),
    "loop over pairs": (by_pairs, np.array([0.0, 1, 2, 3]), [1 + 1 / 4 + 1 / 9, 1 / 4, -1 / 4, -1 - 1 / 4 - 1 / 9]),
    "one determinant": (lambda a: np.linalg.slogdet(a)[1][1], MATRICES, np.stack([Z := np.zeros((2, 2)),
                                                                                  np.diag([0.5, 0.25])])),
    "product of some": (lambda x: np.cumprod(np.log(x))[1], np.array([np.e, np.e**2, 0.0]), [2 / np.e, np.e**-2, 0]),
    "product with what is infinite": (lambda x: np.outer(np.log(x), 1 / x)[1, 2], P, [0, 1 / 4, -np.log(4), 0]),
    "convolution with what is infinite": (lambda x: np.convolve(np.log(x)[::-1], x[1:])[1], P,
                                         [0, 0, 4 - np.log(4), 4]),
    "nested": (lambda x: np.sum(inner(x)[1:]), P, [0, 0.25, 1, 4]),
    "cut out": (cut_out, P, [0, 3, 3, 3]),
    "single precision": (lambda x: np.sum(np.sqrt(x)[1:3]), P.astype(np.float32), [0, 0.25, 0.5, 0]),
}


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["C", "interpreted"])
def test_what_values_leave_out_has_no_slope(options):
    def every(arguments):
        return {
            name: (sg.grad(VALUES[name][0])(x), sg.jacrev(VALUES[name][0])(x),
                   sg.jvp(VALUES[name][0], (x,), (np.ones_like(x),))[1], sg.hessian(VALUES[name][0])(x))
            for name, x in arguments.items()
        }

    found = sg.jit(every, options=options)({name: x for name, (_, x, _) in VALUES.items()})
    for name, (gradient, row, along, second) in found.items():
        expected = np.asarray(VALUES[name][2], float)
        for one, other in ((gradient, expected), (row, expected), (along, np.sum(expected))):
            tolerance = 1e-6 if gradient.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)
        assert np.isfinite(second).all(), name


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["C", "interpreted"])
def test_rows_of_a_jacobian_are_gradients(options):
    """What is 0 in a unit vector is not used; an infinite slope stays in its own place."""
    jacobian: Any = sg.jacrev(np.sqrt, options=options)
    np.testing.assert_array_equal(jacobian(P), np.diag([np.inf, 0.25, 0.5, 1.0]))
    for mode in (sg.jacfwd, sg.jacrev):
        found = mode(lambda x: np.sqrt(x)[2:], options=options)(P)
        np.testing.assert_array_equal(found, np.eye(4)[2:] * [0, 0, 0.5, 1])


def test_products_with_zero_and_what_is_used_keep_their_meaning():
    x = np.array([0.0, 4.0])
    mask = np.array([0.0, 1.0])
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(mask * np.sqrt(x)))(x), [np.nan, 0.25])
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(np.sqrt(x)[:1]))(x), [np.inf, 0])
    larger = sg.grad(lambda x: np.sum(np.maximum(np.sqrt(x), 1)))
    np.testing.assert_array_equal(larger(x - 1), [np.nan, 0.5 / np.sqrt(3)])
    np.testing.assert_array_equal(sg.grad(lambda x: np.max(np.sqrt(x)))(x - 1), [np.nan, 0])


def test_named_extents():
    """One binary for all sizes, those for which nothing is selected included."""
    strided = sg.grad(lambda x: np.sum(np.sqrt(x)[1:-1:2]), specs=("f64[n]",))
    parts = sg.grad(lambda x: np.sum(np.tril(np.sqrt(x), -1)) + np.trace(np.log(x), 1), specs=("f64[n,m]",))
    for n in (0, 1, 2, 3, 6):
        x = (np.arange(n) % 2) * (np.arange(n) < n - 1) * 4.0
        np.testing.assert_array_equal(strided(x), x / 16)
        for m in (0, 1, 3, 4):
            below, beside = np.tril(np.ones((n, m)), -1), np.eye(n, m, k=1)
            np.testing.assert_array_equal(parts(4 * below + 2 * beside), below / 4 + beside / 2)


def test_an_ordinary_selection_has_no_guard():
    """Nothing upstream is infinite for finite inputs."""

    def loss(x, i):
        y = np.tanh(x) * x / (1 + x * x) + np.sqrt(1 + x * x)
        return np.sum(y[1:] - y[:-1]) + np.sum(np.triu(y)) + np.sum(y[i]) + np.sum(np.max(y, axis=1) / 3) + y[0, 1]

    text = sg.grad(loss).lower(np.ones((3, 4)), np.array([0, 1])).as_text("optimized")
    assert text.count("np.where") == 1  # of the maximum's own rule


def test_places_are_compared():
    """A guard on places costs a comparison of indices, and no array of the shape of what it guards."""

    def column(x):
        return np.sum(np.sqrt(x)[1:, 2])

    def with_diagonal(x):
        return column(x) + np.sum(np.diagonal(np.sqrt(x)))

    for loss in (column, with_diagonal):
        text = sg.grad(loss).lower(np.ones((30, 40))).as_text("optimized")
        assert text.count("ops.place") == 1  # of the cotangent
    assert not re.search(r"uint8_t \w+\[1200\]", sg.grad(column).lower(np.ones((30, 40))).as_text("c"))


FAR = {
    "1 / (x - 2000)": (lambda x: 1 / (x - 2000.0), [2000.0, 2002.0], -0.25),
    "log(5000 - x)": (lambda x: np.log(5000.0 - x), [5000.0, 4998.0], -0.5),
    "1 / (x * x - 4096)": (lambda x: 1 / (x * x - 4096), [64.0, 66.0], -132 / 260.0**2),
    "1 / (|x| - 1e6)": (lambda x: 1 / (np.abs(x) - 1e6), [-1e6, 1e6 + 2], -0.25),
    "sqrt(x - 1e9)": (lambda x: np.sqrt(x - 1e9), [1e9, 1e9 + 4], 0.25),
    "x / (k - 2)": (lambda x: x / (np.arange(2, 4) - 2), [2.0, 4.0], 1.0),
}
"""Poles far from 0, with an element at each, another one beside it, and the slope there."""


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["c", "interpreted"])
def test_poles_far_from_zero(options: sg.Options) -> None:
    def losses(xs: Any) -> Any:
        return sum(np.sum(function(x)[1:]) for (function, *_), x in zip(FAR.values(), xs, strict=True))

    found = sg.grad(losses, options=options)([np.array(at) for _, at, _ in FAR.values()])
    for slopes, (_, _, slope) in zip(found, FAR.values(), strict=True):
        np.testing.assert_allclose(slopes, [0, slope], rtol=1e-9)


def test_right_hand_sides_that_are_not_used() -> None:
    """The columns of a system's solution stay apart, in both modes, whatever solves it."""
    A, X = np.eye(3) * 3 + 1, np.arange(9.0).reshape(3, 3)
    X[:, 0] = 0.0
    L = np.tril(A)
    for solve in (lambda b: np.linalg.solve(A, b), lambda b: np.linalg.solve(L, b), lambda b: np.linalg.solve(A.T, b)):
        slopes = sg.grad(lambda x, solve=solve: np.sum(solve(np.sqrt(x))[:, 1:]), options=INTERPRETED)(X)
        chosen = sg.grad(lambda x, solve=solve: np.sum(solve(np.sqrt(x))), options=INTERPRETED)(X[:, 1:])
        np.testing.assert_allclose(slopes, np.column_stack([np.zeros(3), chosen]), rtol=1e-12)

"""No NaN from what is not used: every kind of selection, with poles at the elements that it leaves out.

A selection is linear in the array it selects from, so that the expected derivatives are closed forms: those of the
function at the used elements, times what the selection makes of unit arrays; 0 elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg
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
    "differences": lambda y: np.diff(y, axis=0)[1:],
    "product": lambda y: (WEIGHTS.T @ y)[:, 1],
    "product of rows": lambda y: (y @ WEIGHTS)[2],
    "convolution": lambda y: np.convolve(np.ravel(y)[3:9], [1.0, 2.0], mode="valid"),
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


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_not_used_has_no_slope(function):
    check(function, SELECTIONS, INTERPRETED)


@pytest.mark.parametrize(("place", "function"), [*enumerate(FUNCTIONS)])
def test_in_c(place, function):
    """Every function with some selections, every selection with some functions."""
    check(function, [*SELECTIONS][place % 15 :: 15], sg.Options())

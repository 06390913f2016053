"""Integers that are counted (np.arange) are no arrays: as indices they are the loop's own axis, and cannot fail."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import IndexOutOfBounds
from tests.looking import code, loops

X = np.arange(1.0, 6.0)
M = np.arange(1.0, 17.0).reshape(4, 4)


def written(x):
    out = np.zeros(7)
    out[np.arange(5) + 1] = x
    return out


CASES = {
    "whole": (lambda x: x[np.arange(x.shape[0])], X),
    "part": (lambda x: x[np.arange(3)], X),
    "from one on": (lambda x: x[np.arange(3) + 1], X),
    "backwards": (lambda x: x[np.arange(4, 0, -1)], X),
    "from the end": (lambda x: x[np.arange(-1, -4, -1)], X),
    "by a view": (lambda x: x[np.arange(x.shape[0])[::-2]], X),
    "a reshaped one": (lambda x: x[np.reshape(np.arange(4), (2, 2))] * 2, X),
    "a diagonal": (lambda x: x[np.arange(4), np.arange(4)] * 2, M),
    "a shifted diagonal": (lambda x: x[np.arange(3), np.arange(1, 4)], M),
    "as a value": (lambda x: x * np.arange(x.shape[0]), X),
    "as a column": (lambda x: x[:, None] + np.arange(x.shape[0])[None, :], X),
    "reshaped as a value": (lambda x: x * np.reshape(np.arange(16), (4, 4)), M),
    "summed": (lambda x: x + np.cumsum(np.arange(x.shape[0])), X),
    "written to": (written, X),
    "a result": (lambda x: (np.arange(x.shape[0]), x * 1), X),
    "none": (lambda x: x[np.arange(0)], X),
}


@pytest.mark.parametrize("named", [False, True], ids=["known", "named"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case, named):
    function, x = CASES[case]
    if named and case in {"written to", "reshaped as a value", "summed"}:
        specs = None  # these need the extent
    else:
        specs = (f"f64[{','.join('nn'[: x.ndim])}]",) if named else None
    expected = function(x)
    found = sg.jit(function, specs=specs)(x)
    for one, two in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype

    def loss(x):
        return np.sum((function(x)[1] if isinstance(expected, tuple) else function(x)) ** 2)

    step = 2.0**-10
    slopes = [(loss(x + step * e) - loss(x - step * e)) / (2 * step) for e in np.eye(x.size).reshape(-1, *x.shape)]
    np.testing.assert_allclose(sg.grad(loss, specs=specs)(x).ravel(), slopes, rtol=1e-9, atol=1e-9)


def picked(z, labels):
    return np.sum(z[np.arange(z.shape[0]), labels] ** 2)


def test_picking_one_element_of_each_row_needs_one_check_and_no_memory():
    function = sg.value_and_grad(picked, specs=("f64[n,10]", "i64[n]"))
    z, labels = np.ones((50, 10)), np.arange(50) % 10
    value, gradient = function(z, labels)
    assert value == 50.0
    assert np.array_equal(gradient, 2.0 * np.eye(10)[labels])
    assert loops(function).workspace == 0
    assert "sg_failed1 = 1;" in code(function)
    assert {check.extent for check in loops(function).checks} == {10}


def test_what_is_not_certain_is_checked():
    function = sg.jit(lambda x: x[np.arange(3)], specs=("f64[n]",))
    assert function(X).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(IndexOutOfBounds, match="size 2"):
        function(X[:2])

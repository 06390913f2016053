"""Reductions with a traced ``where=``, of traced and of plain arrays, and the lines of what Python itself raises."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import AxisError, ConcretizationError, MutationError, UnsupportedError
from tests.trace.programs import agree, run

A = np.arange(1.0, 5)
B = np.arange(12.0).reshape(3, 4)
X = np.array([0.5, 1.5, 2, 0.1])
MASK = np.array([True, False, True, True])

REDUCTIONS = {
    "sum method": lambda x: A.sum(where=x > 1),
    "prod method": lambda x: A.prod(where=x > 1),
    "max method": lambda x: A.max(initial=0.0, where=x > 1),
    "min method": lambda x: B.min(axis=1, initial=9.0, where=x > 1),
    "any method": lambda x: (A > 2).any(where=x > 1),
    "all method": lambda x: A.all(where=x > 1, keepdims=True),
    "add.reduce": lambda x: np.add.reduce(A, where=x > 1),
    "add.reduce along": lambda x: np.add.reduce(B, axis=1, where=x > 1, keepdims=True),
    "multiply.reduce": lambda x: np.multiply.reduce(B, where=x > 1, initial=2.0),
    "maximum.reduce": lambda x: np.maximum.reduce(A, initial=0.0, where=x > 1),
    "logical_or.reduce": lambda x: np.logical_or.reduce(A > 3, where=x > 1),
    "sum": lambda x: np.sum(A, where=x > 1),
    "mean": lambda x: np.mean(B, axis=1, where=x > 1),
    "var": lambda x: np.var(A, where=x > 1),
    "std": lambda x: np.std(B, axis=1, where=x > 1, ddof=1),
    "var of traced": lambda x: np.var(x, where=MASK) + x.var(where=x > 1),
    "std of traced": lambda x: np.std(B * x, axis=1, keepdims=True, where=x > 1),
    "accumulate": lambda x: np.add.accumulate(B * x, axis=1),
    "divide into": lambda x: np.divide(1, x, out=np.zeros(4), where=x > 1),
}


@pytest.mark.parametrize("fun", REDUCTIONS.values(), ids=REDUCTIONS)
def test_values(fun):
    agree(fun, X)


def test_gradients():
    sg.check_grads(lambda x: np.var(x, where=MASK) + np.sum(np.std(B * x, axis=1, where=MASK)), (X,))
    sg.check_grads(lambda x: x[0] * A.sum(where=x > 1), (X,))


REFUSED = {
    "mean method": (lambda x: A.mean(where=x > 1), ConcretizationError, "np.mean(array, ...), the function"),
    "var method": (lambda x: A.var(where=x > 1), ConcretizationError, "np.var(array, ...), the function"),
    "dot method": (lambda x: B.dot(x), ConcretizationError, "array @ x, np.dot(array, x)"),  # noqa: PLW0108
    "take method": (lambda x: A.take(np.argmax(x)), ConcretizationError, "np.take(array, x)"),
    "divide": (lambda x: np.divide(1, x, where=x > 1), UnsupportedError, "where=mask) without out="),
    "divide by a plain mask": (lambda x: np.divide(x, 2, where=MASK), UnsupportedError, "np.where(mask, result"),
    "axis": (lambda x: x.sum(axis=3), AxisError, "axis 3 is out of bounds"),
    "axis of a function": (lambda x: np.cumsum(x, 2), AxisError, "axis 2 is out of bounds"),
    "memoryview": (lambda x: memoryview(x), UnsupportedError, "a bytes-like object is required"),  # noqa: PLW0108
    "frombuffer": (lambda x: np.frombuffer(x), UnsupportedError, "a bytes-like object is required"),  # noqa: PLW0108
}


@pytest.mark.parametrize(("fun", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_line(fun, error, words):
    with pytest.raises(error) as caught:
        run(fun, X)
    message = str(caught.value)
    assert words in message, message
    assert f"{__file__}:{fun.__code__.co_firstlineno}" in message
    assert "a condition (if" not in message


def test_the_shape_cannot_be_set():
    def program(x):
        a = np.sin(x)
        a.shape = (2, 2)
        return a

    with pytest.raises(MutationError, match=r"x\.shape = \(2, 2\)(?s:.*)x\.reshape") as caught:
        run(program, X)
    assert f"{__file__}:{program.__code__.co_firstlineno + 2}" in str(caught.value)


def test_the_error_of_an_axis_is_numpys_too():
    with pytest.raises(np.exceptions.AxisError):
        run(lambda x: np.max(x, axis=5), X)

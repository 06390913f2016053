"""Scalar types and iterators ask no protocol: met with traced values, they have an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy import float64

import symgrad as sg
from tests.table import richardson

POINT = np.array([0.5, 0.7, 0.9])
DIRECTION = np.array([0.3, -1.0, 0.6])


def typed(x):
    """Types that have a stand-in are still what they were, for NumPy as well."""
    y, z = np.zeros(3, dtype=np.float64), np.array([1, 2, 3], np.float64)
    y[1] = np.float64(x[0])
    assert isinstance(np.float64(2.0), np.float64)
    assert issubclass(np.float64, np.floating)
    assert y.dtype == np.float64 == np.dtype(np.float64)
    assert np.issubdtype(z.dtype, np.float64)
    return np.sum(y * z.astype(np.float64)) + np.finfo(np.float64).eps * x[1]


PROGRAMS: dict[str, Any] = {
    "a cast": lambda x: np.sum(np.float64(x[0]) * x),
    "a cast by another name": lambda x: float64(x[0]) * np.double(x[1]),
    "a cast of all": lambda x: np.sum(np.float64(x) ** 2),
    "to integers": lambda x: np.sum(np.int64(x * 10 + 0.5) * x),
    "types": typed,
    "places": lambda x: sum((i[0] + 2 * i[1]) * v * v for i, v in np.ndenumerate(np.outer(x, x[:2]))),
    "beside select": lambda x: np.float64(x[1]) * np.sum(np.select([x > 0.65], [x * x], 0.5)),
    "in a derivative": lambda x: sg.grad(lambda y: np.float64(y[0]) ** 3)(x)[0] * x[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_met_is_traced(name):
    fun = PROGRAMS[name]
    function = sg.value_and_grad(fun)
    for x in (POINT, np.array([0.2, 0.4, 1.1, 0.6])):
        value, slope = function(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-13)
        along = np.resize(DIRECTION, len(x))

        def moved(h, x=x, along=along):
            return fun(x + h * along)

        wanted = richardson(moved, 1e-4)
        np.testing.assert_allclose(slope @ along, wanted, rtol=1e-7)
    assert function.cache_info().compilations <= 2


def test_dtypes_are_those_of_the_cast():
    found = sg.jit(lambda x: (np.float32(x), np.int32(x), np.uint8(x), np.float64(x[0])))(POINT)
    assert [one.dtype for one in found] == [np.float32, np.int32, np.uint8, np.float64]


def test_nothing_is_left_in_place():
    sg.jit(lambda x: np.sqrt(np.float64(x)))(2.0)
    assert type(np.float64) is type

"""`np.ndenumerate` asks no protocol: the name has a stand-in while a trace is active."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy import ndenumerate as places

import symgrad as sg
from tests.table import richardson

DIRECTION = np.array([0.3, -1.0, 0.6])


def written(x):
    """What is written meanwhile is seen, before and behind."""
    y, z = x.copy(), np.zeros(len(x))
    for i, v in np.ndenumerate(y):
        y[i] = v * v
        y[-1] = 2.0 * y[0]
    for i, v in np.ndenumerate(z):
        z[i] = x[i] * (1 + v)
    return np.sum(y * np.arange(1.0, len(x) + 1)) + np.sum(z**2)


def of_a_list(x):
    """An iterator is what it was, for `isinstance` too."""
    return sum(v * k for (k,), v in np.ndenumerate([x[0], 2.0, x[1]])) * isinstance(np.ndenumerate([1]), np.ndenumerate)


PROGRAMS: dict[str, Any] = {
    "written meanwhile": written, "of a list": of_a_list,
    "places": lambda x: sum((i[0] + 2 * i[1]) * v * v for i, v in np.ndenumerate(np.outer(x, x[:2]))),
    "by another name": lambda x: sum(v**3 * (i[0] + 1) for i, v in places(x)),
    "in a derivative": lambda x: sg.grad(lambda y: sum(v**3 for _, v in np.ndenumerate(y)))(x)[0] * x[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_with_their_places(name):
    fun = PROGRAMS[name]
    function = sg.value_and_grad(fun)
    for x in (np.array([0.5, 0.7, 0.9]), np.array([0.2, 0.4, 1.1, 0.6])):
        value, slope = function(x)
        along = np.resize(DIRECTION, len(x))

        def moved(h, x=x, along=along):
            return fun(x + h * along)

        np.testing.assert_allclose(value, fun(x), rtol=1e-13)
        np.testing.assert_allclose(slope @ along, richardson(moved, 1e-4), rtol=1e-7)


def test_nothing_is_left_in_place():
    assert type(np.ndenumerate) is type
    assert type(places) is type

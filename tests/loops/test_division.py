"""Divisions by constants are divisions, in lanes too: every quotient has the bits of NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(11)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -2.3e-308, 1.7022498723471673e-307, 1.7e308, -1.7e308, 1.0]


@pytest.mark.parametrize("y", [3.0, 7.0, -10.0, 255.0, 1e-3, 0.1, math.pi, 1.7, 4.0, -1e100, 3e-100, 1e200, 5e-324])
def test_quotients_have_the_bits_of_a_division(y: float) -> None:
    x = np.array([*SPECIAL, *(RNG.normal(size=500) * 10.0 ** RNG.integers(-320, 300, 500))])
    with np.errstate(all="ignore"):
        expected, found = x / y, sg.jit(lambda x: x / y)(x)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found.view(np.int64)[numbers], expected.view(np.int64)[numbers])
    np.testing.assert_array_equal(np.isnan(found), ~numbers)

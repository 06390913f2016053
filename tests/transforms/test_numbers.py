"""Numbers in products are joined where no bit changes, and take signs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(3)
POINTS = [
    0.0, -0.0, 5e-324, -3e-310, 2.3e-308, 1e-300, 8.9e307, -9.1e307, 1.7976931348623157e308, np.inf, -np.inf, np.nan,
]

JOINED: dict[str, Any] = {
    "200": lambda x: 100.0 * (2.0 * x), "-300": lambda x: (x * -2.0) * 150.0, "12": lambda x: 4.0 * (3.0 * x) * 1.0,
    "-6": lambda x: -(6.0 * x),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", JOINED)
def test_no_bit_changes(name, dtype):
    function = JOINED[name]
    with np.errstate(all="ignore"):
        x = np.array([*POINTS, *(RNG.normal(size=200) * 10.0 ** RNG.integers(-320, 300, 200))]).astype(dtype)
        expected, found = function(x), sg.jit(function)(x)
    sure = ~np.isnan(expected)
    np.testing.assert_array_equal(found[sure], expected[sure])
    np.testing.assert_array_equal(np.signbit(found)[sure], np.signbit(expected)[sure])
    np.testing.assert_array_equal(np.isnan(found), ~sure)


@pytest.mark.parametrize(("function", "count"), [
    (lambda x: 100.0 * (2.0 * x), 1), (lambda x: -(6.0 * x), 1),
    (lambda x: 100.0 * (3.0 * x), 2),  # rounded twice
    (lambda x: 4.0 * (3.0 * x), 2),  # of what is subnormal 3 x is rounded
    (lambda x: 0.25 * (2.0 * x), 2), (lambda x: 100.0 * (0.5 * x), 2),  # overflow and underflow come elsewhere
])
def test_which_numbers_are_joined(function, count):
    text = sg.jit(function).lower(np.ones(3)).as_text()
    assert text.count(" * ") == count
    assert "= -v" not in text

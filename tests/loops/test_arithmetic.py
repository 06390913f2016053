"""Divisions by a constant: two multiplications where every quotient is rounded as by a division, else the division."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import symgrad as sg
from symgrad.build.toolchain import find as toolchain
from symgrad.loops.nest.arithmetic import doubtful, inverse_of
from symgrad.options import Options

RNG = np.random.default_rng(11)
DIVISORS = [
    3.0, 7.0, -10.0, 100.0, 255.0, 1e-3, 0.1, math.pi, math.sqrt(2.0), 9.81, -1e100, 3e-100, 1 + 2.0**-52, 2 - 2.0**-52,
    *(RNG.uniform(1, 2, 60) * 2.0 ** RNG.integers(-30, 30, 60)).tolist(),
]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -2.3e-308, 1.7e308, -1.7e308, 1.0]


def nearest(y: float) -> list[float]:
    """Numbers whose quotients by y come nearest to midpoints, of all sizes."""
    whole = int(math.frexp(abs(y))[0] * 2**53)
    return [float(x) * 2.0**e for x in doubtful(whole) for e in (-400, -60, 0, 300)]


@pytest.mark.parametrize("y", DIVISORS)
def test_quotients_have_the_bits_of_a_division(y):
    x = np.array([*SPECIAL, *nearest(y), *(RNG.normal(size=500) * 10.0 ** RNG.integers(-100, 100, 500))])
    with np.errstate(all="ignore"):
        expected = x / y
    f = sg.jit(lambda x: x / y)
    with np.errstate(all="ignore"):
        found = f(x)
    tiny = (np.abs(expected) < 1e-291) & (expected != 0)
    sure = ~tiny & ~np.isnan(x)
    np.testing.assert_array_equal(found.view(np.int64)[sure], expected.view(np.int64)[sure])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert np.all(np.abs(found[tiny] - expected[tiny]) <= np.spacing(np.abs(expected[tiny])))


def test_the_form_is_taken_where_it_was_proved_and_only_there():
    tools = toolchain.find(Options())
    if tools is None or not tools.target.fma:
        pytest.skip("no machine that multiplies and adds in one rounding")
    x = np.linspace(0.0, 1.0, 100)
    assert inverse_of(1.7) is None
    for y, taken in ((3.0, True), (1.7, False), (4.0, False), (1e200, False)):
        f = sg.jit(lambda x, y=y: x / y)
        f(x)
        assert ("sg_quotient(" in f.c_source) == taken
    single = sg.jit(lambda x: x / np.float32(3.0))
    single(x.astype(np.float32))
    assert "sg_quotient(" not in single.c_source


def test_a_divisor_is_refused_if_one_quotient_were_rounded_otherwise():
    """The quotient in question, by exact arithmetic."""
    y = 1.7
    exact = 1 / Fraction(y)
    inverse = float(exact)
    inverse = inverse if inverse <= exact else math.nextafter(inverse, 0.0)
    rest = float(exact - Fraction(inverse))

    def taken(x: float) -> float:
        return float(Fraction(x) * Fraction(inverse) + Fraction(x * rest))

    assert any(taken(x) != x / y for x in nearest(y))


def test_no_other_quotient_is_as_near_a_midpoint():
    """Of small integers all quotients can be tried: those listed are the nearest ones."""
    for y in (3 * 2**51, 5 * 2**50 + 1, 2**53 - 1, 2**52 + 1):
        listed = set(doubtful(y))
        for x in (*listed, *RNG.integers(2**52, 2**53, 2000).tolist()):
            k = 53 if x >= y else 54
            off = x * 2**k % (2 * y)  # to an odd multiple of y
            near = min(abs(off - y), abs(off - y + 2 * y), abs(off - y - 2 * y))
            assert (near <= 8) == (x in listed)

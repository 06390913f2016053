"""Maxima and minima that lanes take: where there is a NaN it wins, wherever it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(13)
LENGTHS = [1, 7, 8, 15, 16, 17, 31, 33, 64, 100, 127, 200]


def rows(n: int, dtype: Any) -> Any:
    """Rows of numbers, of infinities, and with a NaN first, in the middle, last, beside infinities, everywhere."""
    x = RNG.normal(size=(9, n)).astype(dtype)
    x[1] = -np.inf
    x[2] = np.inf
    x[3, 0] = x[4, n // 2] = x[5, -1] = np.nan
    x[6, 0], x[6, -1] = np.inf, np.nan
    x[7, 0], x[7, -1] = np.nan, -np.inf
    x[8] = np.nan
    return x


PROGRAMS: dict[str, Any] = {
    "max of rows": lambda x: np.max(x, axis=1), "min of rows": lambda x: np.min(x, axis=1),
    "max of columns": lambda x: np.max(x, axis=0), "both": lambda x: np.max(x, axis=1) - np.min(2 * x, axis=1),
    "of all": lambda x: np.max(x[:3]) + np.min(x[0]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 15, 16, 33, 100])
def test_nan_wins(n, dtype):
    x = rows(n, dtype)
    f = sg.jit(lambda x: [program(x) for program in PROGRAMS.values()])
    with np.errstate(all="ignore"):
        for name, found in zip(PROGRAMS, f(x), strict=True):
            np.testing.assert_array_equal(found, PROGRAMS[name](x), err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nan_wins_over_open_extents(name, dtype):
    f = sg.jit(PROGRAMS[name], dynamic={"x": "m,n"})
    for n in LENGTHS:
        x = rows(n, dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(f(x), PROGRAMS[name](x), err_msg=str(n))


def test_the_lanes_are_tried_here():
    f = sg.jit(PROGRAMS["max of rows"])
    f(rows(64, np.float64))
    assert "reduction(sg_maximum:" in f.c_source

"""Floats become integers as in NumPy on x86-64: in lanes, tails, threads, interpreter and C, whatever the number."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import symgrad as sg

INTERPRETED = sg.Options(compiler="none")
WIDTHS = (8, 16, 31, 32, 33, 63, 64)
BOUNDS = [v for bits in WIDTHS for power in [2.0 ** bits] for v in (np.nextafter(power, 0), power, power + 0.5)]
NUMBERS = [v for b in (0.0, 0.5, 1.0, 1.5, 200.0, 300.0, 7e4, 3e9, 5e9, 1e18, 1e300, np.inf, *BOUNDS) for v in (b, -b)]
FLOATS, INTEGERS = "fd", "bBhHiIlL"
SIZES = (1, 7, 64, 65)


@cache
def numbers(char: str) -> np.ndarray:
    """Return every number, and NaN, in a type; single precision has infinity beyond it."""
    with np.errstate(over="ignore"):
        return np.unique(np.array([*NUMBERS, np.nan], char))


def program(arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
    return [[x.astype(char) for char in INTEGERS] for x in arrays]


def numpys(x: np.ndarray, char: str) -> np.ndarray:
    """Convert one by one: NumPy's own lanes have other uint32 below -2**31."""
    with np.errstate(all="ignore"):
        return np.array([value.astype(char) for value in x])


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["C", "interpreted"])
def test_every_float_in_every_integer_type(options: sg.Options) -> None:
    """All elements one after the other, and each number alone in lanes and in a tail."""
    rows = [numbers(char) for char in FLOATS]
    for x, found in zip(rows, sg.jit(program, options=options)(rows), strict=True):
        for char, got in zip(INTEGERS, found, strict=True):
            assert got.dtype == char
            np.testing.assert_array_equal(got, numpys(x, char), err_msg=f"{x.dtype} to {char}")
    spread = sg.jit(lambda x: [np.broadcast_to(x, n).astype(c) for n in SIZES for c in INTEGERS
                               ], options=options)
    for char in FLOATS:
        for value in numbers(char):
            expected = [numpys(np.array([value]), c)[0] for _ in SIZES for c in INTEGERS]
            for got, want in zip(spread(np.array([value])), expected, strict=True):
                assert (got == want).all(), (char, value, got.dtype)


def test_threads_cast_alike() -> None:
    """So many elements that threads share them."""
    x = np.resize(numbers("d"), 1 << 20)
    found = sg.jit(lambda x: [x.astype(c) for c in "iIlL"])(x)
    for char, got in zip("iIlL", found, strict=True):
        np.testing.assert_array_equal(got, np.resize(numpys(numbers("d"), char), x.size), err_msg=char)


def test_there_and_back_again_zero_has_no_sign() -> None:
    """gcc rounds where an integer becomes a float again, which would keep the sign of -0.5."""
    x = np.tile([-0.5, -0.0, 0.5, -1.5, 0.25, -0.75, 3.5], 9)
    for wide in (np.float64, np.float32):
        found = sg.jit(lambda x: [x.astype(kind).astype(x.dtype) for kind in ("i8", "i4", "i2", "u8")])(x.astype(wide))
        for y in found:
            assert not np.signbit(y[y == 0]).any()

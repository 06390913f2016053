"""What the text of a loop program calls when it runs: memory that notices, checked places, shares of threads.

Memory starts as NaN (or as a number nobody means), and a place outside of it raises, below 0 too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

UNWRITTEN = {"f": np.nan, "i": -0x55, "u": 0x55, "b": True}


class CheckedArray(np.ndarray[Any, Any]):
    """An array in which no index counts from the end."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_in_bounds(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_in_bounds(index), value)


def _in_bounds(index: Any) -> Any:
    if any(isinstance(i, (int, np.integer)) and i < 0 for i in (index if isinstance(index, tuple) else (index,))):
        raise IndexError(f"the place {index} begins before the array")
    return index


def memory(dtype: str, shape: tuple[int, ...]) -> CheckedArray:
    """Make memory that nobody has written."""
    return np.full(shape, UNWRITTEN[np.dtype(dtype).kind], dtype).view(CheckedArray)


stack = memory


def workspace(size: int) -> Array:
    """Make the workspace: bytes that are NaN as floating-point numbers."""
    return np.full(size, 0xFF, np.uint8)


def slot(space: Array, offset: int, dtype: str, shape: tuple[int, ...]) -> CheckedArray:
    """Return an array in the workspace."""
    end = offset + prod(shape) * np.dtype(dtype).itemsize
    if end > len(space):
        raise IndexError(f"bytes {offset} to {end} of a workspace of {len(space)}")
    return space[offset:end].view(dtype).reshape(shape).view(CheckedArray)


def at(index: Any, extent: int) -> int:
    """Return a looked-up index, counted from the end where it is negative.

    Raises:
        IndexError: it is outside.
    """
    if not -extent <= index < extent:
        raise IndexError(f"the index {index} is outside of {extent}")
    return int(index) + (extent if index < 0 else 0)


def check(failed: Any, number: int) -> None:
    """Fail where a check fails."""
    if failed:
        raise ValueError(f"check {number} failed")


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` in one rounding."""
    plain = a * b + c
    if plain == 0 or not np.isfinite(plain):
        return plain
    return type(plain)(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def lanes(places: Iterable[int]) -> Iterable[int]:
    """Return what a loop in lanes runs over, in an order that must not matter."""
    return places


def team(threads: int) -> Iterable[int]:
    """Return the threads of a loop over them, in an order that must not matter."""
    return range(threads)


def tiles(extent: int, tile: int, thread: int, threads: int) -> range:
    """Return where the tiles of a thread begin."""
    number = -(-extent // tile)
    first, last = number * thread // threads, number * (thread + 1) // threads
    return range(first * tile, min(last * tile, extent), tile)


ROUTINES: dict[str, Callable[..., None]] = {}


def routine(name: str, flags: tuple[int, ...], read: Array, written: Array) -> None:
    """Call a routine of whole matrices."""
    ROUTINES[name](flags, read, written)

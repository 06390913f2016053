"""Arguments of recorded calls: how large they are, and numbers that Python and C compute alike."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Array = np.ndarray[Any, Any]
    Arrays = dict[str, Array]

SIZES = (5, 3, 4, 2, 6, 7)
"""What open extents are, in the order in which they appear."""

LONG = (67, 130)
"""What each is once more: more than one tile, or than two, and no multiple of anything."""

SHARED = 30_011
"""What each is once more in a package with threads: enough work for several."""

WRITTEN = 100
"""An array of more elements is not written down: its test computes it by a `Formula`."""


class Domain(NamedTuple):
    """Where numbers are drawn from: between two ends; integers are `least` and the next.

    `dominant`: square matrices are symmetric, with a large diagonal, and so have an inverse and a Cholesky factor.
    """

    low: float
    high: float
    least: int = 0
    dominant: bool = False


DOMAINS = (
    Domain(-2.0, 2.0), Domain(0.25, 1.75), Domain(-0.7, 0.7), Domain(1.2, 3.0, 1), Domain(-0.5, 0.5, dominant=True),
    Domain(4.0, 30.0, 1), Domain(0.02, 0.1),
)
"""Tried one after the other for all arguments, then mixed: logarithms, arcus functions, Cholesky factors need them."""


class Formula(NamedTuple):
    """Numbers by a formula: ``low + width * u``, u a hash of the element's number.

    With a `side`, elements are those of symmetric matrices of so many rows, which is added to their diagonals.
    """

    seed: int
    low: float
    width: float
    side: int = 0

    def values(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Compute them, as the emitted test does."""
        if prod(shape) >= 1 << 60:
            raise MemoryError  # of more bytes than there are addresses NumPy says that a value is wrong
        k = np.arange(prod(shape), dtype=np.int64)
        diagonal: Any = 0.0
        if self.side:
            row, column = k // self.side % self.side, k % self.side
            k = np.where(row > column, k - (row - column) * (self.side - 1), k)
            diagonal = np.where(row == column, float(self.side), 0.0)
        mask = np.uint64(0xFFFFFFFF)
        h = (k.astype(np.uint64) + np.uint64(self.seed)) * np.uint64(2654435761) & mask
        h = (h ^ h >> np.uint64(15)) * np.uint64(2246822519) & mask
        h = (h ^ h >> np.uint64(13)) >> np.uint64(8)
        u = h / 2.0**24 if dtype.kind == "f" else np.float64(h & np.uint64(1))
        return np.asarray(self.low + self.width * u + diagonal, dtype).reshape(shape)


def formula(shape: tuple[int, ...], dtype: np.dtype[Any], domain: Domain, seed: int) -> Formula:
    """Choose the formula of an array in a domain."""
    if dtype.kind != "f":
        return Formula(seed, float(domain.least if dtype.kind != "b" else 0), 1.0)
    square = domain.dominant and len(shape) > 1 and shape[-1] == shape[-2]
    return Formula(seed, domain.low, domain.high - domain.low, shape[-1] if square else 0)


def domains(attempt: int, names: Iterable[str], rng: np.random.Generator) -> dict[str, Domain]:
    """Give each argument its domain: one for all in the first attempts, any for each in later ones."""
    if attempt < len(DOMAINS):
        return dict.fromkeys(names, DOMAINS[attempt])
    return {name: DOMAINS[int(rng.integers(len(DOMAINS)))] for name in names}


def drawn(
    wanted: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], where: Mapping[str, Domain], rng: np.random.Generator,
) -> tuple[Arrays, dict[str, Formula]]:
    """Draw arrays of shapes and dtypes; formulas are those of the large ones, numbers of the others are short."""
    found: Arrays = {}
    formulas: dict[str, Formula] = {}
    for name, (shape, dtype) in wanted.items():
        made = formula(shape, dtype, where[name], int(rng.integers(1 << 20)))
        found[name] = made.values(shape, dtype)
        if prod(shape) > WRITTEN:
            formulas[name] = made
        elif dtype.kind == "f":
            found[name] = np.round(found[name], 6)
    return found, formulas


def extents_of_cases(names: Sequence[str], given: Mapping[str, int], *, threads: bool = False) -> list[dict[str, int]]:
    """Choose the extents of the recorded calls: those given or small ones, each and all long, ones, and zeros.

    Args:
        names: the open extents.
        given: what some of them must be.
        threads: calls are added that are so long that threads share the work.
    """
    first = {name: SIZES[k % len(SIZES)] for k, name in enumerate(names)}
    long = {name: LONG[k % len(LONG)] for k, name in enumerate(names)}
    found = [first, *[{**first, name: size} for name, size in long.items()], long]
    found += [{**first, name: SHARED} for name in names if threads]
    found += [dict.fromkeys(names, 1), *[{**first, name: 0} for name in names]]
    pinned = [{name: given.get(name, size) for name, size in one.items()} for one in found]
    return [one for k, one in enumerate(pinned) if one not in pinned[:k]]

"""Where an op is tested: domains that samples are drawn from, and cases of array arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

inf, nan = float("inf"), float("nan")

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, inf, -inf, nan, 5e-324, -2.5e-310, 1e-160, -1e160, 1e-8, 37.0)
"""Numbers at which a function of one argument is compared with NumPy's."""


def pairs(*values: float) -> tuple[tuple[float, ...], ...]:
    """Pair each of some special numbers with each."""
    return tuple(product(values, repeat=2))


PAIRS = pairs(0.0, -0.0, 1.0, -1.0, 2.5, -3.0, inf, -inf, nan, 5e-324, 1e160)
"""Pairs at which a function of two arguments is compared with NumPy's."""


class Domain(NamedTuple):
    """Numbers between two bounds, no two closer than `apart` within one array (for ties and kinks)."""

    low: float
    high: float
    dtype: str = "float"
    apart: float = 0.0

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """Draw an array; integers and booleans ignore `dtype`."""
        if self.dtype == "bool":
            return np.asarray(rng.integers(0, 2, shape), bool)
        if self.dtype == "int":
            return np.asarray(rng.integers(int(self.low), int(self.high) + 1, shape), np.int64)
        count = int(np.prod(shape))
        values = rng.uniform(self.low, self.high, count)
        if self.apart:
            values = np.sort(values) * 0.5 + (np.arange(count) - count / 2) * self.apart
            values = rng.permutation(values)
        return np.asarray(values.reshape(shape), dtype)


ANY = Domain(-2.5, 2.5)
"""Numbers of everyday size and either sign."""


def between(low: float, high: float) -> Domain:
    """Uniform numbers between two bounds."""
    return Domain(low, high)


def normal() -> Domain:
    """Numbers of everyday size and either sign."""
    return ANY


def positive() -> Domain:
    """Numbers well above zero."""
    return Domain(0.2, 4.0)


def distinct() -> Domain:
    """Numbers of either sign, no two of which tie."""
    return Domain(-2.0, 2.0, apart=0.05)


def integers(low: int, high: int) -> Domain:
    """Integers, both bounds included."""
    return Domain(low, high, "int")


def booleans() -> Domain:
    """True and False."""
    return Domain(0, 1, "bool")


@dataclass(frozen=True)
class Case:
    """One call of an array function in the tests: ``call(*arrays)`` with drawn arrays of these shapes.

    Attributes:
        call: a function of the arrays in plain NumPy.
        shapes: their shapes.
        domains: one for each array, or one for all.
        exact: the gradient's values where the domain has edges (name, arrays, gradient of the sum).
    """

    call: Any
    shapes: tuple[tuple[int, ...], ...]
    domains: tuple[Domain, ...] = field(default=(ANY,))

    def draw(self, rng: np.random.Generator, dtype: Any = np.float64) -> list[np.ndarray[Any, Any]]:
        """Draw the arrays."""
        domains = self.domains * len(self.shapes) if len(self.domains) == 1 else self.domains
        return [domain.draw(rng, shape, dtype) for domain, shape in zip(domains, self.shapes, strict=True)]


def case(call: Any, *shapes: tuple[int, ...], domain: Domain | tuple[Domain, ...] = ANY) -> Case:
    """Write a case shortly: ``case(lambda a: np.sum(a, axis=0), (3, 4))``."""
    return Case(call, shapes, (domain,) if isinstance(domain, Domain) else domain)

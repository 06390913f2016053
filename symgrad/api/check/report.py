"""What `check_grads` says: a `Report` of what agrees, and each `Difference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class Report:
    """What was checked.

    Attributes:
        name: the function's name.
        orders: which derivatives.
        method: ``complex step`` or ``central differences`` (of order 1; order 2 is always by differences).
        derivatives: how many were compared.
        worst: the largest difference, as a part of what was allowed.
        loose: how many of them the differences could not tell to four digits.
        overridden: the rules that `override_gradient` put in the place of others, in words.
        apart: what is wrong with the derivatives by these rules; without them they agree. Empty where these do, too.
    """

    name: str
    method: str
    orders: tuple[int, ...]
    derivatives: int = 0
    worst: float = 0.0
    loose: int = 0
    overridden: tuple[str, ...] = ()
    apart: str = ""

    def __str__(self) -> str:
        """Print one line."""
        how = [self.method, *["differences of the gradient" for order in self.orders if order > 1]]
        orders = " and ".join([f"order {order} ({by})" for order, by in zip(self.orders, how, strict=True)])
        loose = f"; for {self.loose} of them differences are too inexact to say much" if self.loose else ""
        without = " without the rules that are overridden" if self.apart else ""
        rules = "".join([f"\n  overridden: {rule}" for rule in self.overridden])
        rules += f"\n  with that, {self.apart}" if self.apart else ""
        return (
            f"{self.name}: {self.derivatives} derivatives agree{without}, {orders}; "
            f"the largest error is {self.worst:.2g} of what is allowed{loose}{rules}"
        )


class Difference(NamedTuple):
    """One derivative that is wrong."""

    order: int
    place: str
    compiled: float
    numerical: float
    allowed: float
    method: str

    def size(self) -> float:
        """Return the difference as a part of what is allowed; infinite where there is no number."""
        size = abs(self.compiled - self.numerical) / (self.allowed or 1.0)
        return size if size == size else float("inf")  # noqa: PLR0124 - NaN


def joined(reports: list[Report]) -> Report:
    """Make one report of those of an op's cases."""
    first, *others = reports
    for other in others:
        first.derivatives += other.derivatives
        first.worst, first.loose = max(first.worst, other.worst), first.loose + other.loose
        first.method = max(first.method, other.method, key="central differences".__eq__)
    return first

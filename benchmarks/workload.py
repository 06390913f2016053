"""What a workload is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Workload:
    """One function to be timed, value and gradient together.

    Attributes:
        name: what ``--only`` finds it by.
        function: in NumPy, as a user writes it.
        draw: its arguments.
        by: the arguments it is differentiated by; None times the function alone.
        least: how many times JAX's speed was promised; None: not said for this one alone.
        limit: the hand-written C that does the same, a name of `benchmarks.limits`.
        drjit: whether `benchmarks.drjit_programs` has it.
        small: a call takes microseconds and quick runs may have it.
        tolerance: how far from JAX a result may be, relative to the largest number of its array.
    """

    name: str
    function: Callable[..., Any]
    draw: Draw
    by: int | tuple[int, ...] | None = 0
    least: float | None = None
    limit: str | None = None
    drjit: bool = False
    small: bool = False
    tolerance: float = 1e-10

    def arguments(self) -> tuple[Any, ...]:
        """Draw the arguments, the same ones every time."""
        return self.draw(np.random.default_rng(20_240_229))

"""A random program while it grows: a line is tried by NumPy, and kept where its value is tame."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LARGEST = 12.0
"""No value is larger."""
SIZE = 250
"""No array has more elements."""
APART = 0.03
"""How far every value stays from a kink."""


@dataclass
class Growth:
    """A program while it grows: its lines, and what every name stands for at the drawn arguments."""

    rng: Random
    symbolic: bool = False
    lines: list[str] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    elsewhere: list[dict[str, Array]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)

    def pick(self, kinds: str = "f", ndim: int = 0) -> str:
        """Choose a name, later ones more often."""
        fitting = [n for n, v in self.values.items() if v.dtype.kind in kinds and v.ndim >= ndim]
        if not fitting:
            raise Unfit
        return fitting[min(len(fitting) - 1, int(len(fitting) * self.rng.random() ** 0.6))]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a name's shape."""
        return tuple(self.values[name].shape)

    def partner(self, name: str, kinds: str = "f") -> str:
        """Choose a name that broadcasts with another one."""
        for _ in range(12):
            other = self.pick(kinds)
            if self.fit(name, other):
                return other
        return name

    def fit(self, *names: str) -> bool:
        """Tell shapes that broadcast to a size that is not too large."""
        shapes = [self.shape(n) for n in names]
        try:
            return int(np.prod(np.broadcast_shapes(*shapes))) <= SIZE
        except ValueError:
            return False

    def line(self, text: str) -> None:
        """Keep a line when NumPy runs it and the value is tame.

        Raises:
            Unfit: it is not.
        """
        value = evaluated(text, {**self.functions, **self.values}, LARGEST)
        others = [evaluated(text, values, 1e3, 64 * SIZE) for values in self.elsewhere]
        name = f"v{len(self.values)}"
        self.lines.append(f"{name} = {text}")
        self.used |= {n for n in self.values if n in text}
        self.values[name] = value
        for values, other in zip(self.elsewhere, others, strict=True):
            values[name] = other


def evaluated(text: str, values: dict[str, Array], largest: float, size: int = SIZE) -> Array:
    """Run a line by NumPy.

    Raises:
        Unfit: it does not run, or gives what is not tame.
    """
    import scipy.special

    names = {"np": np, "scipy": scipy, "F32": np.float32, **values}
    try:
        with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            value = np.asarray(eval(text, names))  # noqa: S307 - text written here
    except (ValueError, TypeError, IndexError, FloatingPointError, Warning):
        raise Unfit from None
    if value.size > size or value.ndim > 4 or value.dtype == np.float16 or value.dtype.kind not in "fib":
        raise Unfit
    if value.dtype.kind != "b" and (not np.all(np.isfinite(value)) or np.any(np.abs(value) > largest)):
        raise Unfit
    return value


class Unfit(Exception):  # noqa: N818 - nothing is wrong: another line is tried
    """A line that is not kept."""


def clear(*gaps: Any) -> None:
    """Refuse a line whose value is near a kink."""
    for gap in gaps:
        if np.any(np.abs(np.asarray(gap, float)) < APART):
            raise Unfit

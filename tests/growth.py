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
    size: int = SIZE

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
        """Whether shapes broadcast to a size that is not too large."""
        shapes = [self.shape(n) for n in names]
        try:
            return int(np.prod(np.broadcast_shapes(*shapes))) <= self.size
        except ValueError:
            return False

    def line(self, text: str) -> None:
        """Keep a line when NumPy runs it and the value is tame.

        Raises:
            Unfit: it is not.
        """
        value = evaluated(text, {**self.functions, **self.values}, LARGEST, self.size)
        others = [evaluated(text, {**self.functions, **values}, 1e3, 64 * self.size) for values in self.elsewhere]
        name = f"v{len(self.values)}"
        self.lines.append(f"{name} = {text}")
        self.used |= {n for n in self.values if n in text}
        self.values[name] = value
        for values, other in zip(self.elsewhere, others, strict=True):
            values[name] = other

    def block(self, lines: list[str], names: list[str]) -> None:
        """Keep several lines, which write into what the first of them makes; `names` are those to go on with.

        Raises:
            Unfit: NumPy does not run them, or a value is not tame.
        """
        made = executed(lines, {**self.functions, **self.values})
        values = {name: tame(made[name], LARGEST, self.size) for name in names}
        self.lines += lines
        self.used |= {n for n in self.values if any(n in line for line in lines)}
        self.values.update(values)

    def several(self, lines: list[str], last: str) -> None:
        """Keep lines of which the last name alone has a value that is tame; those before are never picked.

        Raises:
            Unfit: it is not, or NumPy does not run them.
        """
        names = run(lines, {**self.functions, **self.values})
        name = f"v{len(self.values)}"
        value = tame(names[last], LARGEST, self.size)
        self.lines += [*lines, f"{name} = {last} * 1.0"]
        self.used |= {n for n in self.values if any(n in line for line in lines)}
        self.values[name] = np.asarray(value * 1.0)


def run(lines: list[str], values: dict[str, Any]) -> dict[str, Any]:
    """Run lines by NumPy, whatever comes of it.

    Raises:
        Unfit: they do not run.
    """
    import scipy.special

    names = {"np": np, "scipy": scipy, "F32": np.float32, **values}
    try:
        with np.errstate(all="ignore"):
            exec("\n".join(lines), names)
    except (ValueError, TypeError, IndexError):
        raise Unfit from None
    return names


def evaluated(text: str, values: dict[str, Array], largest: float, size: int = SIZE) -> Array:
    """Run a line by NumPy.

    Raises:
        Unfit: it does not run, or gives what is not tame.
    """
    return tame(executed([f"result = {text}"], values)["result"], largest, size)


def executed(lines: list[str], values: dict[str, Array]) -> dict[str, Any]:
    """Run lines by NumPy, and return what every name stands for then.

    Raises:
        Unfit: they do not run.
    """
    import scipy.special

    names = {"np": np, "scipy": scipy, "F32": np.float32, **values}
    try:
        with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec("\n".join(lines), names)
    except (ValueError, TypeError, IndexError, FloatingPointError, Warning):
        raise Unfit from None
    return names


def tame(value: Any, largest: float, size: int) -> Array:
    """Return a value of everyday size: an array, or a number as NumPy has it.

    Raises:
        Unfit: it is not.
    """
    found: Array = value if isinstance(value, np.generic) else np.asarray(value)  # type: ignore[assignment]
    if found.size > size or found.ndim > 4 or found.dtype == np.float16 or found.dtype.kind not in "fib":
        raise Unfit
    if found.dtype.kind != "b" and (not np.all(np.isfinite(found)) or np.any(np.abs(found) > largest)):
        raise Unfit
    return found


class Unfit(Exception):  # noqa: N818 - nothing is wrong: another line is tried
    """A line that is not kept."""


def clear(*gaps: Any) -> None:
    """Refuse a line whose value is near a kink."""
    for gap in gaps:
        if np.any(np.abs(np.asarray(gap, float)) < APART):
            raise Unfit

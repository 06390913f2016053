"""Derivatives by numbers: the complex step, and central differences extrapolated to step zero, with their error."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Arrays = list[np.ndarray[Any, Any]]

TINY = 1e-20
"""The complex step: its square is lost beside any number, so no difference is taken and nothing cancels."""

STEP, LEVELS, ENOUGH = 0.02, 8, 1e-11
EPSILON = float(np.finfo(np.float64).eps)


def extrapolated(along: Callable[[float], Any], step: float) -> tuple[Any, Any]:
    """Differentiate at 0 by central differences of halved steps, extrapolated.

    (C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), Advances in Engineering Software 4, 1982.)

    Args:
        along: a function of a number; its values are numbers or arrays.
        step: the largest step.

    Returns:
        The derivative, and for each element an estimate of its error: what two neighbours in the tableau of
        extrapolations differ by, and what rounding of the values leaves.

    >>> value, error = extrapolated(lambda t: np.exp(1 + t), 0.02)
    >>> bool(abs(value - np.e) < 1e-11), bool(error < 1e-10)
    (True, True)
    """
    best: Any = np.nan
    error: Any = np.inf
    before: list[Any] = []
    for level in range(LEVELS):
        h = step / 2**level
        above, below = along(h), along(-h)
        first = (above - below) / (2 * h)
        if not np.all(np.isfinite(first)):
            before = []  # outside of the function's domain: begin again, nearer
            continue
        noise = EPSILON * np.maximum(np.abs(above), np.abs(below)) / h
        row = [first]
        for k, old in enumerate(before, 1):
            row.append(row[-1] + (row[-1] - old) / (4**k - 1))
            found = np.maximum(np.abs(row[k] - row[k - 1]), np.abs(row[k] - old)) + noise
            better = found < error
            best, error = np.where(better, row[k], best), np.where(better, found, error)
        before = row
        if np.all(error <= ENOUGH * np.abs(best)):
            break
    return best, error


def scale(x: Any) -> Any:
    """Return how large a step of 1 may be: a number's own size, so that a positive one stays positive; 1 at zero."""
    size = np.abs(x)
    return np.where((size > 0) & np.isfinite(size), size, 1.0)


class Reference:
    """A function of arrays that returns one number, in plain NumPy, and its derivatives along directions."""

    def __init__(self, fun: Callable[[Arrays], Any], point: Arrays, step: float | None) -> None:
        """Take the function and where it is differentiated."""
        self.fun, self.point, self.step = fun, point, step or STEP
        self.complex = False
        self.why_not = ""

    def value(self, point: Sequence[Any]) -> Any:
        """Evaluate, without floating-point warnings."""
        with np.errstate(all="ignore"):
            return self.fun(list(point))

    def moved(self, direction: Arrays, by: complex) -> Arrays:
        """Return the point moved along a direction."""
        return [x + by * d for x, d in zip(self.point, direction, strict=True)]

    def central(self, direction: Arrays, start: float = 1.0) -> tuple[float, float]:
        """Differentiate by differences: the best of some largest steps, `start` being the size of the moved numbers."""
        best, error = np.nan, np.inf
        for step in sorted({self.step * min(start, 1.0), self.step * start, 0.01 * self.step * start}, reverse=True):
            found, estimate = extrapolated(lambda t: self.value(self.moved(direction, t)), step)
            if estimate < error:
                best, error = float(found), float(estimate)
            if error <= 10 * ENOUGH * abs(best):
                break
        return best, error

    def complex_step(self, direction: Arrays) -> float:
        """Differentiate by the complex step."""
        return float(np.imag(self.value(self.moved(direction, 1j * TINY))) / TINY)

    def try_complex(self, direction: Arrays) -> None:
        """Find out whether the function takes complex numbers and is analytic in them, along a random direction.

        The real part must be the real function's, and the derivative that of differences.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                value = self.value(self.moved(direction, 1j * TINY))
            slope = float(np.imag(value) / TINY)
            real = float(self.value(self.point))
        except Exception as raised:  # noqa: BLE001 - whatever a real function says to complex numbers
            said = " ".join(str(raised).split())[:120]
            self.why_not = f"with complex arguments it raises {type(raised).__name__}: {said}"
            return
        if not abs(float(np.real(value)) - real) <= 1e-12 * abs(real):
            self.why_not = "with complex arguments its real part is another one"
            return
        central, error = self.central(direction)
        if np.isfinite(central) and not self.agree(slope, central, error):
            self.why_not = "it is not analytic: it drops or changes imaginary parts (abs, real, norm)"
            return
        self.complex = True

    @staticmethod
    def agree(slope: float, central: float, error: float) -> bool:
        """Whether a complex step's result is what differences find."""
        return abs(slope - central) <= 10 * error + 1e-6 * max(abs(slope), abs(central))

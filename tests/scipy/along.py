"""A function along a line through its arguments: value, first and second derivative, beside differences of SciPy's."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

import symgrad as sg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERPRETED = sg.Options(compiler="none")
VERSION = tuple(int(part) for part in scipy.__version__.split(".")[:2])
"""SciPy's; the project takes 1.13 and newer."""


def along(call: Callable[..., Any], arguments: Sequence[Any], moves: Sequence[Any]) -> Callable[[Any], Any]:
    """Return ``t -> sum(weights * call(arguments + t * moves))``; an argument that moves by None is left as it is."""
    weights = np.cos(np.arange(1000.0))

    def line(t: Any) -> Any:
        moved = [a if m is None else a + t * m for a, m in zip(arguments, moves, strict=True)]
        found = np.ravel(call(*moved))
        return np.sum(weights[: found.shape[0]] * found)

    return line


def derived(line: Callable[[Any], Any]) -> tuple[float, float, float]:
    """Return value and two derivatives at 0 as symgrad finds them, without C."""

    def slope(t: Any) -> tuple[Any, Any]:
        value, first = sg.value_and_grad(line)(t)
        return first, value

    (first, value), second = sg.value_and_grad(slope, has_aux=True, options=INTERPRETED)(0.0)
    return float(value), float(first), float(second)


def differences(line: Callable[[Any], Any], h: float = 1e-3) -> tuple[float, float, float]:
    """Return value and two derivatives at 0 by Richardson's differences."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        at = {k: float(line(k * h)) for k in (-4, -2, -1, 0, 1, 2, 4)}

    def richardson(rule: Callable[[int], float]) -> float:
        one, two, four = rule(1), rule(2), rule(4)
        return ((16 * (4 * one - two) - (4 * two - four)) / 3) / 15

    return (
        at[0], richardson(lambda k: (at[k] - at[-k]) / (2 * k * h)),
        richardson(lambda k: (at[k] - 2 * at[0] + at[-k]) / (k * h) ** 2),
    )


def agree(call: Callable[..., Any], arguments: Sequence[Any], moves: Sequence[Any], rtol: float = 2e-6) -> None:
    """Check value and derivatives along a line."""
    line = along(call, arguments, moves)
    expected = differences(line)
    found = derived(line)
    scale = max(1.0, *map(abs, expected))
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(found[2], expected[2], rtol=rtol, atol=rtol * scale)

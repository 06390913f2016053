"""Hyper-parameters that change: functions of the number of updates done before, as TensorFlow's decays.

Each is given as a hyper-parameter, ``adam(exponential_decay(1e-3, 1000, 0.9))``, or called: ``schedule(t)``. Its
numbers are in the state, as ``state["hyper"]["learning_rate/rate"]``, and may be changed there. A function of `t` of
your own, in NumPy, serves as well, and `schedule` gives it such numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError
from symgrad.optim.optimizer import Schedule


def schedule(function: Callable[..., Any], **numbers: float) -> Schedule:
    """Make a schedule of a function in NumPy.

    Args:
        function: ``function(t, **numbers)``, where `t` counts the updates done before.
        numbers: its numbers, which the state holds: changing one compiles nothing.

    >>> import symgrad as sg
    >>> falling = sg.optim.schedule(lambda t, value, steps: value / (1 + t / steps) ** 0.5, value=0.1, steps=10)
    >>> opt = sg.optim.sgd(falling)
    >>> sorted(opt.init(0.0)["hyper"]), falling(30)
    (['learning_rate/steps', 'learning_rate/value'], 0.05)
    """
    return Schedule(function, numbers)


def _over(steps: Any, function: Callable[..., Any], **numbers: float) -> Schedule:
    """Make a schedule that takes so many steps."""
    if isinstance(steps, (int, float)) and not steps > 0:
        raise ArgumentValueError(f"a schedule of steps={steps!r}", instead="a number of updates above 0")
    return schedule(function, steps=steps, **numbers)


def constant(value: float) -> Schedule:
    """Stay the same.

    >>> import symgrad as sg
    >>> sg.optim.constant(0.1)(1000)
    0.1
    """
    return schedule(lambda t, value: value, value=value)  # noqa: ARG005 - every schedule is given it


def exponential_decay(value: float, steps: float, rate: float, staircase: bool = False) -> Schedule:
    """Multiply by `rate` every so many steps: ``value * rate ** (t / steps)``; all at once with `staircase`.

    >>> import symgrad as sg
    >>> round(sg.optim.exponential_decay(0.1, 1000, 0.96, staircase=True)(2500), 12)
    0.09216
    """
    def decayed(t: Any, value: Any, steps: Any, rate: Any) -> Any:
        return value * rate ** _periods(t, steps, staircase)

    return _over(steps, decayed, value=value, rate=rate)


def natural_exp_decay(value: float, steps: float, rate: float, staircase: bool = False) -> Schedule:
    """Fall exponentially: ``value * exp(-rate * t / steps)``.

    >>> import symgrad as sg
    >>> round(sg.optim.natural_exp_decay(1.0, 10, 0.5)(20), 12)
    0.367879441171
    """
    def decayed(t: Any, value: Any, steps: Any, rate: Any) -> Any:
        return value * np.exp(-rate * _periods(t, steps, staircase))

    return _over(steps, decayed, value=value, rate=rate)


def inverse_time_decay(value: float, steps: float, rate: float, staircase: bool = False) -> Schedule:
    """Fall as one over time: ``value / (1 + rate * t / steps)``.

    >>> import symgrad as sg
    >>> sg.optim.inverse_time_decay(1.0, 10, 0.5)(20)
    0.5
    """
    def decayed(t: Any, value: Any, steps: Any, rate: Any) -> Any:
        return value / (1.0 + rate * _periods(t, steps, staircase))

    return _over(steps, decayed, value=value, rate=rate)


def polynomial_decay(value: float, steps: float, end: float = 0.0, power: float = 1.0) -> Schedule:
    """Go from `value` to `end` in so many steps: ``(value - end) * (1 - t / steps) ** power + end``, and stay there.

    >>> import symgrad as sg
    >>> [sg.optim.polynomial_decay(1.0, 10, end=0.5)(t) for t in (0, 5, 20)]
    [1.0, 0.75, 0.5]
    """
    def decayed(t: Any, value: Any, steps: Any, end: Any, power: Any) -> Any:
        return (value - end) * (1.0 - np.minimum(t / steps, 1.0)) ** power + end

    return _over(steps, decayed, value=value, end=end, power=power)


def piecewise_constant(boundaries: Sequence[float], values: Sequence[float]) -> Schedule:
    """Take the first value until `t` is past the first boundary, then the second, and so on.

    Args:
        boundaries: increasing numbers of updates.
        values: one more of them.

    Raises:
        ArgumentValueError: there are not as many, or the boundaries do not increase.

    >>> import symgrad as sg
    >>> [sg.optim.piecewise_constant([100, 200], [1.0, 0.5, 0.1])(t) for t in (100, 101, 500)]
    [1.0, 0.5, 0.1]
    """
    if len(values) != len(boundaries) + 1 or [*boundaries] != sorted({*boundaries}):
        raise ArgumentValueError(
            f"piecewise_constant() of the boundaries {[*boundaries]} and {len(values)} values",
            instead="boundaries that increase, and one value more",
        )

    def step(t: Any, value_0: Any, **numbers: Any) -> Any:
        value = value_0
        for k in range(1, len(values)):
            value = np.where(t > numbers[f"boundary_{k}"], numbers[f"value_{k}"], value)
        return value

    numbers = {f"boundary_{k}": float(b) for k, b in enumerate(boundaries, 1)}
    return schedule(step, **{f"value_{k}": v for k, v in enumerate(values)}, **numbers)


def cosine_decay(value: float, steps: float, alpha: float = 0.0) -> Schedule:
    """Fall along half a cosine to ``alpha * value`` (I. Loshchilov, F. Hutter, SGDR, 2017), and stay there.

    >>> import symgrad as sg
    >>> [round(sg.optim.cosine_decay(1.0, 10, alpha=0.1)(t), 12) for t in (0, 5, 10, 99)]
    [1.0, 0.55, 0.1, 0.1]
    """
    def decayed(t: Any, value: Any, steps: Any, alpha: Any) -> Any:
        return value * ((1.0 - alpha) * _half_cosine(np.minimum(t / steps, 1.0)) + alpha)

    return _over(steps, decayed, value=value, alpha=alpha)


def cosine_restarts(value: float, steps: float, t_mul: float = 2.0, m_mul: float = 1.0, alpha: float = 0.0) -> Schedule:
    """Fall along half a cosine again and again, each time `t_mul` times as long and `m_mul` times as high (SGDR).

    `t_mul` is fixed where the function is compiled; the other numbers are in the state.

    Raises:
        ArgumentValueError: `t_mul` is less than 1: the times would get shorter without end.

    >>> import symgrad as sg
    >>> [round(sg.optim.cosine_restarts(1.0, 10, m_mul=0.5)(t), 12) for t in (0, 5, 10, 20, 30)]
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """
    given: Any = t_mul
    if not (isinstance(given, (int, float, np.number)) and given >= 1.0):
        raise ArgumentValueError(f"cosine_restarts(t_mul={t_mul!r})", instead="a number of at least 1")

    def decayed(t: Any, value: Any, steps: Any, m_mul: Any, alpha: Any) -> Any:
        passed = t / steps
        if t_mul == 1:
            begun = np.floor(passed)
            passed = passed - begun
        else:  # how many periods are over: their lengths are a geometric series
            begun = np.floor(np.log1p(passed * (t_mul - 1.0)) / math.log(t_mul) + 1e-12)
            passed = (passed - (1.0 - t_mul**begun) / (1.0 - t_mul)) / t_mul**begun
        return value * ((1.0 - alpha) * m_mul**begun * _half_cosine(passed) + alpha)

    return _over(steps, decayed, value=value, m_mul=m_mul, alpha=alpha)


def linear_cosine_decay(
    value: float, steps: float, num_periods: float = 0.5, alpha: float = 0.0, beta: float = 0.001,
) -> Schedule:
    """Fall in a line on which a cosine swings (I. Bello et al., Neural Optimizer Search, 2017).

    >>> import symgrad as sg
    >>> [round(sg.optim.linear_cosine_decay(1.0, 10)(t), 12) for t in (0, 5, 10)]
    [1.001, 0.251, 0.001]
    """
    def decayed(t: Any, value: Any, steps: Any, num_periods: Any, alpha: Any, beta: Any) -> Any:
        passed = np.minimum(t / steps, 1.0)
        return value * ((alpha + 1.0 - passed) * _half_cosine(2.0 * num_periods * passed) + beta)

    return _over(steps, decayed, value=value, num_periods=num_periods, alpha=alpha, beta=beta)


def warmup(value: float, steps: float, then: Callable[[Any], Any] | float | None = None) -> Schedule:
    """Rise in a line from 0 to `value`, ``value * t / steps``; after so many steps go on with another schedule.

    Args:
        value: what it rises to.
        steps: in so many updates.
        then: a schedule, which counts from there on, or a number; `value` itself if it is left out.

    >>> import symgrad as sg
    >>> rate = sg.optim.warmup(0.1, 10, sg.optim.exponential_decay(0.1, 10, 0.5))
    >>> [round(rate(t), 12) for t in (0, 5, 10, 20)]
    [0.0, 0.05, 0.1, 0.05]
    """
    later = then if isinstance(then, Schedule) else schedule(then) if callable(then) else constant(
        value if then is None else then
    )

    def risen(t: Any, value: Any, steps: Any, **numbers: Any) -> Any:
        after = later.function(np.maximum(t - steps, 0.0), **{k.removeprefix("then_"): v for k, v in numbers.items()})
        return np.where(t < steps, value * (t / np.maximum(steps, 1.0)), after)  # of no steps, too

    return schedule(risen, value=value, steps=steps, **{f"then_{k}": v for k, v in later.numbers.items()})


def _periods(t: Any, steps: Any, staircase: bool) -> Any:
    return np.floor(t / steps) if staircase else t / steps


def _half_cosine(passed: Any) -> Any:
    """Go from 1 to 0 while `passed` goes from 0 to 1."""
    return 0.5 * (1.0 + np.cos(math.pi * passed))

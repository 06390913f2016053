"""`scipy.integrate.solve_ivp` and `odeint` on traced values: SciPy's explicit methods, in a loop that stays one.

Steps are tried, accepted and chosen as in SciPy's `RungeKutta` (E. Hairer, S. P. Norsett, G. Wanner: Solving Ordinary
Differential Equations I, II.4), by its own tables, so that there are as many, of the same lengths: one `while` between
two times at which the solution is wanted, for all sequences of steps. The lengths are constants of derivatives, which
are those of the steps that were taken.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from symgrad.api.modes.control import scan, while_loop
from symgrad.api.modes.gradients import stop_gradient
from symgrad.errors import ArgumentValueError, ShapeError, UnsupportedError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.declare.forms import Late, answers, is_traced

SAFETY, LEAST, MOST = 0.9, 0.2, 10.0
"""By what the error's estimate is trusted, and how far one step's length is from the next one's: SciPy's numbers."""

METHODS, IMPLICIT = ("RK45", "RK23", "DOP853"), ("Radau", "BDF", "LSODA")
_GONE = ("sol", "t_events", "y_events")


@answers(Late("integrate.solve_ivp"))
def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None, dense_output: bool = False,
    events: Any = None, vectorized: bool = False, args: Any = None, **options: Any,
) -> Any:
    """Solve at the times `t_eval`; without them, or with events, the steps are results: SciPy's own Python runs."""
    name = method if isinstance(method, str) else method.__name__
    if name not in {*METHODS, *IMPLICIT}:
        raise ArgumentValueError(f"`method` must be one of {', '.join((*METHODS, *IMPLICIT))}, not {name}")
    if name in IMPLICIT:
        raise UnsupportedError(
            f"the implicit method {name} of scipy.integrate.solve_ivp on traced values",
            instead='method="RK45", "RK23" or "DOP853", which take short steps where a problem is stiff',
        )
    if t_eval is None or events is not None or dense_output or vectorized:
        if any(map(is_traced, t_span)):
            raise UnsupportedError(
                "scipy.integrate.solve_ivp between traced times, which gives each step it takes",
                instead="t_eval=, the times at which the solution is wanted, without events and dense_output",
            )
        return NotImplemented
    start, end = t_span
    given = {key: value for key, value in options.items() if key in {"rtol", "atol", "max_step", "first_step"}}
    times = lift(t_eval)
    if times.ndim != 1:
        raise ShapeError(f"`t_eval` must be 1-dimensional, not of shape {times.shape}")
    if not any(map(is_traced, (times, start, end))):
        ahead = np.sign(end - start) * np.diff(times)
        if np.any(times < min(start, end)) or np.any(times > max(start, end)):
            raise ArgumentValueError("Values in `t_eval` are not within `t_span`.")
        if np.any(ahead <= 0):
            raise ArgumentValueError("Values in `t_eval` are not properly sorted.")
    steps = _Problem(lambda t, y: fun(t, y, *(args or ())), start, y0, end, name, **given)
    y, evaluations, failed = steps.at(times)
    return import_module("scipy.optimize").OptimizeResult(
        t=times, y=np.transpose(y), nfev=evaluations, njev=0, nlu=0, status=np.where(failed, -1, 0),
        success=np.logical_not(failed), message="success says whether it reached the end", **dict.fromkeys(_GONE),
    )


@answers(Late("integrate.odeint"))
def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: Any = (), *, rtol: Any = None, atol: Any = None, h0: Any = 0.0,
    hmax: Any = 0.0, mxstep: Any = 0, tfirst: bool = False, full_output: Any = 0, **_: Any,
) -> Any:
    """Solve by RK45 with the tolerances of LSODA, whose methods and steps are others, and so are its own settings."""
    if full_output:
        raise UnsupportedError("scipy.integrate.odeint(..., full_output=1) on traced values", instead="full_output=0")
    given = {"rtol": rtol, "atol": atol, "max_step": hmax or None, "first_step": h0 or None, "most": mxstep or None}
    given = {"rtol": 1.49012e-8, "atol": 1.49012e-8} | {key: one for key, one in given.items() if one is not None}
    times = lift(t)
    in_order = (lambda t, y: func(t, y, *args)) if tfirst else (lambda t, y: func(y, t, *args))
    return _Problem(in_order, times[0], y0, times[-1], "RK45", **given).at(times)[0]


class _Problem:
    """A problem and how it is solved."""

    def __init__(
        self, fun: Callable[..., Any], start: Any, y0: Any, end: Any, method: str, *, rtol: Any = 1e-3,
        atol: Any = 1e-6, max_step: Any = np.inf, first_step: Any = None, most: Any = np.inf,
    ) -> None:
        """Take SciPy's table of the method, and choose the first step; `most` are tried between two times."""
        self.y0 = np.atleast_1d(lift(y0, np.float64))
        if self.y0.ndim != 1:
            raise ShapeError("`y0` must be 1-dimensional.")
        self.size = int(self.y0.shape[0])
        self.given = fun
        self.table = getattr(import_module("scipy.integrate"), method)
        self.start, self.end = lift(start, np.float64), stop_gradient(lift(end, np.float64))
        self.rtol, self.atol, self.max_step = np.maximum(rtol, 100 * np.finfo(float).eps), atol, max_step
        self.most = most
        self.direction = np.where(self.end >= stop_gradient(self.start), 1.0, -1.0)
        self.slope = self.fun(self.start, self.y0)
        self.first, self.called = (self._first_step(), 2) if first_step is None else (first_step, 1)

    def fun(self, t: Any, y: Any) -> Any:
        """Call the user's function."""
        slope = lift(self.given(t, y), np.float64)
        if slope.shape == y.shape or (slope.shape == () and self.size == 1):
            return np.reshape(slope, (self.size,))
        raise ShapeError(
            f"the function of a differential equation returns shape {slope.shape} where y has shape {y.shape}",
            instead="one derivative for each element of y",
        )

    def _norm(self, x: Any) -> Any:
        return np.sqrt(np.sum(np.square(x))) / self.size**0.5

    def _first_step(self) -> Any:
        """Choose the first step's length as `select_initial_step` does."""
        start, y, slope = stop_gradient((self.start, self.y0, self.slope))
        length = np.absolute(self.end - start)
        scale = self.atol + np.absolute(y) * self.rtol
        d0, d1 = self._norm(y / scale), self._norm(slope / scale)
        h0 = np.minimum(np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1), length)
        after = stop_gradient(self.fun(start + h0 * self.direction, y + h0 * self.direction * slope))
        d2 = self._norm((after - slope) / scale) / h0
        order = self.table.error_estimator_order
        flat = (d1 <= 1e-15) & (d2 <= 1e-15)
        h1 = np.where(flat, np.maximum(1e-6, h0 * 1e-3), (0.01 / np.maximum(d1, d2)) ** (1 / (order + 1)))
        return np.minimum(np.minimum(100 * h0, h1), np.minimum(length, self.max_step))

    def _error(self, slopes: list[Any], h: Any, scale: Any) -> Any:
        """Estimate a step's error, in units of what is allowed."""
        if not hasattr(self.table, "E3"):
            return self._norm(_weighted_slopes(self.table.E, slopes) * h / scale)
        fifth, third = [np.sum(np.square(_weighted_slopes(e, slopes) / scale)) for e in (self.table.E5, self.table.E3)]
        none = (fifth == 0) & (third == 0)
        return np.where(none, 0.0, np.absolute(h) * fifth / np.sqrt((fifth + 0.01 * third) * self.size))

    def _tried(self, state: dict[str, Any]) -> dict[str, Any]:
        """Try a step: go on, or make it shorter."""
        t, y, table = state["t"], state["y"], self.table
        now = stop_gradient(t)
        least = 10 * np.absolute(np.nextafter(now, self.direction * np.inf) - now)
        length = state["length"]
        within = np.where(length > self.max_step, self.max_step, np.where(length < least, least, length))
        length = np.where(state["rejected"], length, within)
        failed = np.logical_not(length >= least) | (state["tried"] >= self.most)
        after = now + length * self.direction
        after = np.where(self.direction * (after - self.end) > 0, self.end, after)
        h = after - now
        slopes = [state["slope"]]
        for weights, place in zip(table.A[1:], table.C[1:], strict=False):
            slopes.append(self.fun(t + place * h, y + _weighted_slopes(weights, slopes) * h))
        new = y + h * _weighted_slopes(table.B, slopes)
        slopes.append(self.fun(t + h, new))
        scale = self.atol + np.maximum(np.absolute(y), np.absolute(new)) * self.rtol
        error = stop_gradient(self._error(slopes, h, scale))
        factor = SAFETY * error ** (-1 / (table.error_estimator_order + 1))
        taken = (error < 1) & ~failed
        longer = np.where(state["rejected"], np.minimum(1.0, factor), np.minimum(MOST, factor))
        found = {
            "t": after + (t - now), "y": new, "slope": slopes[-1], "before": t, "from": y, "h": h,
            "slopes": np.stack(slopes),
        }
        return {
            **{key: np.where(taken, value, state[key]) for key, value in found.items()},
            "length": np.absolute(h) * np.where(taken, longer, np.where(factor > LEAST, factor, LEAST)),
            "rejected": ~taken, "failed": failed, "count": state["count"] + len(slopes) - 1,
            "tried": state["tried"] + 1,
        }

    def at(self, times: Any) -> tuple[Any, Any, Any]:
        """Return the solution at times, a row for each, how often the function was called, and whether it failed."""
        zeros = np.zeros((len(self.table.C) + 1, self.size))
        state = {
            "t": self.start, "y": self.y0, "slope": self.slope, "before": self.start, "from": self.y0,
            "h": 1.0, "slopes": zeros, "length": stop_gradient(self.first), "rejected": False, "failed": False,
            "count": self.called, "tried": 0,
        }

        def reach(state: Any, time: Any) -> Any:
            found = while_loop(
                lambda s: (self.direction * (s["t"] - time) < 0) & ~s["failed"], self._tried, {**state, "tried": 0},
            )
            return found, np.where(found["failed"], np.nan, self._between(found, time))

        state, rows = scan(reach, state, lift(times, np.float64))
        return rows, state["count"], state["failed"]

    def _between(self, state: dict[str, Any], time: Any) -> Any:
        """Interpolate in the last step, as SciPy's dense output."""
        x, table, h = (time - state["before"]) / state["h"], self.table, state["h"]
        slopes = [state["slopes"][k] for k in range(len(table.C) + 1)]
        if not hasattr(table, "D"):
            powers = [_weighted_slopes(column, slopes) for column in table.P.T]
            total = powers[-1]
            for one in powers[-2::-1]:
                total = total * x + one
            return state["from"] + h * x * total
        for weights, place in zip(table.A_EXTRA, table.C_EXTRA, strict=True):
            slopes.append(self.fun(state["before"] + place * h, state["from"] + _weighted_slopes(weights, slopes) * h))
        moved = state["y"] - state["from"]
        rows = [moved, h * slopes[0] - moved, 2 * moved - h * (state["slope"] + slopes[0])]
        rows += [h * _weighted_slopes(weights, slopes) for weights in table.D]
        total = 0.0
        for k, row in enumerate(reversed(rows)):
            total = (total + row) * (x if k % 2 == 0 else 1 - x)
        return state["from"] + total


def _weighted_slopes(weights: Any, slopes: list[Any]) -> Any:
    """Sum slopes by a method's weights, which may be fewer or more."""
    terms = [float(w) * k for w, k in zip(weights, slopes, strict=False) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total

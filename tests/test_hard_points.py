"""Values, gradients and second derivatives where formulas break, against mpmath; guards, ties and kinks.

At +-1000, +-745, +-37, +-20, +-1e-8, +-1e-160, 0 and near poles, results are a few units in the last place off.
"""

from __future__ import annotations

from functools import cache

import mpmath as mp
import numpy as np
import pytest

import symgrad as sg
from tests.hard_points import ROWS


def derivatives(function):
    """Return value, gradient and second derivative of an elementwise function, element by element."""
    first = sg.grad(lambda x: np.sum(function(x)))
    second = sg.grad(lambda x: np.sum(first(x)))
    return lambda x: (function(x), first(x), second(x))


def points(name, dtype):
    """Return a row's points that a dtype has: not too large or small for it, and not rounded to 1."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = [(x, dtype(x)) for x in ROWS[name].points]
    kept = [r for x, r in rounded if np.isfinite(r) and (r != 0 or x == 0) and (abs(r) != 1 or abs(x) == 1)]
    return np.array(kept, dtype)


@cache
def found(dtype):
    """Compile all rows at once, and run them."""

    def every(x):
        return {name: derivatives(row.written)(x[name]) for name, row in ROWS.items()}

    return sg.jit(every)({name: points(name, dtype) for name in ROWS})


def is_right(got, exact, ulps, absolute, dtype):
    """Compare in units in the last place; what underflows may be 0, what overflows is infinite."""
    limits = np.finfo(dtype)
    with np.errstate(over="ignore", under="ignore"):
        rounded = dtype(exact)
    if got == rounded or (got == 0 and abs(exact) < limits.tiny):
        return True
    if not np.isfinite(got) or not np.isfinite(rounded):
        return False
    unit = float(np.spacing(max(abs(rounded), limits.tiny)))
    return abs(float(got) - exact) <= ulps * unit + absolute * float(limits.epsneg)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("order", range(3), ids=["value", "gradient", "second"])
@pytest.mark.parametrize("name", ROWS)
def test_function(name, order, dtype):
    row = ROWS[name]
    got = found(dtype)[name][order]
    with np.errstate(all="ignore"):
        assert got.dtype == (dtype if order else row.written(points(name, dtype)).dtype)
    with mp.workdps(row.digits):
        exact = [float(row.exact[order](mp.mpf(float(x)))) for x in points(name, dtype)]
    wrong = [
        f"at {x!r}: {float(g)!r}, not {e!r}" for x, g, e in zip(points(name, dtype), got, exact, strict=True)
        if not is_right(g, e, row.ulps[order], row.absolute, dtype)
    ]
    assert not wrong, "\n".join(wrong)

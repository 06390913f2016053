"""Programs that a trace must refuse: how they enter the table."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import pytest

from symgrad.errors import ConcretizationError, MutationError

X = np.array([1.0, 2.0, 3.0])
OUTSIDE = np.zeros(3)
TABLE: list[Any] = []


def refused(error, *pieces, args=(2.0, 3.0), builtin=None):
    """Enter a program; the marked line (or its last one) must raise, with these pieces in the message.

    `builtin` is an exception of Python or NumPy that comes before symgrad could say anything.
    """

    def enter(fun):
        TABLE.append(pytest.param(fun, error, pieces, args, builtin, id=fun.__name__))
        return fun

    return enter


condition = refused(ConcretizationError, "a condition", "np.where(condition, a, b)", "while program() is traced")
plain = refused(ConcretizationError, "a plain NumPy array", "np.stack")
written = refused(MutationError, "a traced value is written into a plain array", "np.zeros(...)")
vector = functools.partial(refused, args=(X, X))


def marked_line(fun):
    """Return the number of the line marked as the error's; without a mark it is the line that raised."""
    lines, start = inspect.getsourcelines(fun)
    return next((start + k for k, text in enumerate(lines) if "# <-" in text), None)

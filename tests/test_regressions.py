"""Programs that once gave wrong numbers: compiled, with one thread and three, and interpreted, they give NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape)


def sums_for_each_row(x: Array) -> Any:
    """A sum for each iteration of a shared-out loop, read in it and after it, was kept by each thread to itself."""
    e = x * x + 1.0
    s = np.sum(e, 1)
    return e / s[:, None], s[:-1] * s[1:]


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (sums_for_each_row, (normal(50_000, 50),)),
]

OPTIONS = [sg.Options(threads=1), sg.Options(threads=3), sg.Options(compiler="none")]


@pytest.mark.parametrize("options", OPTIONS, ids=["serial", "threads", "interpreted"])
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_values(program: Callable[..., Any], args: tuple[Any, ...], options: sg.Options) -> None:
    expected = program(*args)
    found = sg.jit(program, options=options)(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = found if isinstance(found, tuple) else (found,)
    assert [(f.shape, f.dtype) for f in found] == [(e.shape, e.dtype) for e in expected]
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)

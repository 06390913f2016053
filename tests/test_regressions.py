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


def words_of_the_headers(HUGE_VAL: Array, int64_t: Array, FP_NAN: Array) -> Any:  # noqa: N803 - the point of it
    """Macros and types of math.h and stdint.h were names of arguments: HUGE_VAL killed the process."""
    return HUGE_VAL + int64_t * FP_NAN


def chain(x: Array) -> Any:
    """Looking for accumulators compared all statements of a loop: a thousand took minutes."""
    y = x
    for _ in range(300):
        y = np.sin(y) * 1.01 + x * 0.1
    return y


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (sums_for_each_row, (normal(50_000, 50),)),
    (words_of_the_headers, (normal(3), normal(3), normal(3))),
    (chain, (normal(1000),)),
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

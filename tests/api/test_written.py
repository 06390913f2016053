"""Writes into arrays from outside of the function: refused before they are done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import MutationError

X = np.array([1.0, 2.0, 3.0])
TABLE = np.ones(3)


def into_a_global(x: Any) -> Any:
    TABLE[0] += 5
    return np.sum(x * TABLE)


def closed_over(held: Any, write: Any) -> Any:
    def w(x: Any) -> Any:
        write(held)
        return np.sum(x * 2)

    return w


def first(held: Any) -> None:
    held[0] = 7


def by_name(held: Any) -> None:
    held["a"][1][2] = np.nan


MODES: dict[str, Any] = {
    "jit": lambda: sg.jit(into_a_global)(X),
    "grad": lambda: sg.grad(into_a_global)(X),
    "hvp": lambda: sg.hvp(into_a_global)(X, X),
    "jvp": lambda: sg.jvp(into_a_global, (X,), (X,)),
    "vmap": lambda: sg.vmap(into_a_global)(np.ones((2, 3))),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_write_into_a_global_is_refused(mode: str):
    message = r"TABLE, float64\[3\], is written while (.|\n)*test_written.py:\d+\n.*TABLE\[0\] \+= 5(.|\n)*np.copy"
    for _ in range(2):
        with pytest.raises(MutationError, match=message):
            MODES[mode]()


def test_closed_over_arrays_at_any_depth():
    array = np.ones(3)
    deep: dict[str, Any] = {"a": [0, np.ones(3)]}
    with pytest.raises(MutationError, match=r"held, float64\[3\]"):
        sg.jit(closed_over(array, first))(X)
    with pytest.raises(MutationError, match=r"held\['a'\]\[1\], float64"):
        sg.jit(closed_over(deep, by_name))(X)
    assert array.tolist() == [1, 1, 1]


def test_what_is_read_or_written_elsewhere_is_no_write():
    table = np.array([np.nan, -0.0, 3.0])
    frozen = np.arange(3.0)
    frozen.setflags(write=False)

    def reads(x: Any) -> Any:
        local = np.copy(table)
        local[0] = x[0]
        return local + frozen

    assert sg.jit(reads)(X).tolist() == [1, 1, 5]
    table[2] = 4.0  # between calls: a constant stays what it was
    assert sg.jit(reads)(X).tolist() == [1, 1, 6]

"""A derivative is the same program wherever it stands: at the top, inside of `jit`, in a package, under other modes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from benchmarks.workloads import OTHERS, PROMISED
from symgrad.emit.derive import Call, derive
from symgrad.ir.text import as_text
from symgrad.options import Options
from tests.programs import random_program

WORKS = {w.name: w for w in PROMISED + OTHERS if w.by is not None}
X, M = np.linspace(-1.0, 2.0, 5), np.linspace(-1.0, 2.0, 15).reshape(3, 5)


def text(function: Any, *args: Any) -> str:
    return as_text(function.lower(*args).program, lines=False)


def wrapped(fun: Any, make: Any) -> Any:
    """Give what calls a mode the name and the parameters of the function."""

    @functools.wraps(fun)
    def inside(*args: Any) -> Any:
        return make(fun)(*args)

    return sg.jit(inside)


def check(fun: Any, args: Any, by: Any) -> None:
    both = functools.partial(sg.value_and_grad, argnums=by)
    alone = text(both(fun), *args)
    assert text(wrapped(fun, both), *args) == alone
    assert text(wrapped(fun, lambda f: both(sg.jit(f))), *args) == alone
    assert text(sg.jit(sg.jit(both(fun))), *args) == alone
    packed = derive("value_and_grad", Call(fun, tuple(args)), by, Options()).lowered.program
    assert as_text(packed, lines=False) == alone
    gradient = text(sg.grad(fun, by), *args)
    assert text(sg.jacrev(fun, by), *args) == gradient
    assert text(wrapped(fun, lambda f: lambda *x: sg.value_and_grad(f, by)(*x)[1]), *args) == gradient


@pytest.mark.parametrize("name", WORKS)
def test_of_a_benchmark(name: str) -> None:
    work = WORKS[name]
    check(work.function, work.arguments(), work.by)


@pytest.mark.parametrize("seed", range(40))
def test_of_a_random_program(seed: int) -> None:
    written = random_program(seed)
    check(written.functions()[1], written.args, written.argnums)

"""What a function was compiled from is freed with the function, at once: it is no cycle that a collector must find."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.index.notation import Statement
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.loops.program import Cond, Loop, LoopProgram, Outlined, While
from symgrad.loops.verify import Section, Site
from symgrad.ops import control

KINDS = Node, Program, LoopProgram, Statement, Loop, Cond, While, Outlined, Section, Site


def chain(x):
    for k in range(20):
        x = np.sin(x) * (1 + 0.1 * k) + x[::-1]
    return np.sum(x)


def steps(x):
    total = x[0]
    for k in range(100):
        total = np.sin(total) * x[k % 5]
    return total


def written(x):
    y = np.zeros(5)
    for k in range(5):
        y[k] = x[4 - k] ** 2
    return np.sum(y)


def looked_up(x):
    return np.sum(x[np.array([3, 1, 1, 0, 4])] * np.arange(5))


def batch(x):
    return sg.vmap(sg.grad(lambda x, y: chain(x * y)), (None, 0))(x, np.stack([x, x]))


PROGRAMS: dict[str, tuple[Any, Any]] = {
    "chain": (sg.jit, chain), "gradient": (sg.grad, chain), "steps": (sg.value_and_grad, steps),
    "writes": (sg.grad, written), "batches": (sg.jit, batch), "indices": (sg.grad, looked_up),
    "interpreted": (sg.grad, steps),
}


def alive():
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, KINDS))


@pytest.fixture(scope="module", autouse=True)
def _of_this_module():
    """Leave out of `alive` what other tests left in the process, which may be millions of things."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_left(name):
    """After the first time, which fills what is kept for all functions."""
    (mode, fun), x = PROGRAMS[name], np.linspace(0.5, 1.0, 5)
    options = sg.Options(compiler="none") if name == "interpreted" else sg.Options(cache=False)  # or no loops are made
    found = []
    gc.collect()
    for _ in range(2):
        gc.disable()
        try:
            before = alive()
            function = mode(fun, options=options)
            function(x)
            during = alive() - before
            del function
            for needs in (control._branch_needs, control._scan_needs, control._while_needs):
                needs.cache_clear()  # a few programs, on purpose
            found.append(alive() - before)
        finally:
            gc.enable()
    assert during["Node"] > 5
    assert found[1] == {}


OUTSIDE = np.linspace(1.0, 2.0, 5)

REFUSED: dict[str, Any] = {
    "shapes": lambda x: np.squeeze(np.sin(x), 0), "a number": lambda x: np.sin(x) * float(x[0]),
    "a number from outside": lambda x: np.sin(x) * float((OUTSIDE * x)[0]), "numpy's own": lambda x: np.cross(x, x),
    "an open extent": lambda x: np.cross(np.outer(x, x), np.outer(x, x)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_left_of_what_is_refused(name):
    """An error holds the frames it left: where one of them holds the error, both stay, and the whole trace."""
    specs = ("f64[n]",) if name == "an open extent" else None
    found = []
    for _ in range(2):
        gc.disable()
        try:
            before = alive()
            with pytest.raises(sg.SymgradError) as caught:
                sg.jit(REFUSED[name], specs=specs)(np.linspace(0.5, 1.0, 5))
            during = alive() - before
            del caught
            found.append(alive() - before)
        finally:
            gc.enable()
    assert during["Node"] > 0
    assert found[1] == {}


def halved(x):
    while x > 1.0:
        x = x * 0.5
    return x


def grown(x):
    kept = []
    for k in range(6):
        if x[k] > 0:
            kept.append(x[k] ** 2)  # noqa: PERF401 - what is tested
    return sum(kept)


ASKING: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a while": (lambda: sg.value_and_grad(halved), (3.0, -1.0)), "second order": (lambda: sg.hessian(halved), (3.0,)),
    "a derivative inside": (lambda: sg.jit(lambda x: 2 * sg.grad(halved)(x)), (3.0, 0.5)),
    "branches": (lambda: sg.grad(grown), tuple(np.arange(6.0) - k for k in range(4))),
}


class Large:
    """Stands for what a caller has in its variables."""


@pytest.mark.parametrize("name", ASKING)
def test_callers_are_freed_while_a_function_lives(name):
    """A trace with conditions knows the calls of the user's code by their frames, which hold all variables around."""
    made, points = ASKING[name]

    def run():
        large = Large()
        function = made()
        for x in points:
            function(x)
        return function, weakref.ref(large)

    function, large = run()
    gc.collect()
    assert large() is None
    assert function.cache_info().compilations > 0

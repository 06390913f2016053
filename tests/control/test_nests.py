"""Random programs of loops and branches: compiled, they are what NumPy makes of the same source on every input."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from tests.control.nests import random_nest
from tests.control.programs import Plain

SEEDS = range(2000)
NIGHTLY = range(16, 2000)
BY = (0, 1, 2, 3)


def slope(f, inputs, h):
    """Differentiate along the arguments themselves by central differences."""
    up, down = [f(Plain, *[x * (1 + step) for x in inputs[:4]], *inputs[4:]) for step in (h, -h)]
    return (up - down) / (2 * h)


def test_nests(seeds):
    """Value, reverse and forward mode on five inputs: interpreted, and of one program in eight compiled."""
    for seed in seeds:
        nest = random_nest(seed)
        f = nest.function()

        def ours(*args, f=f):
            return f(sg, *args)

        def pushed(*args, f=f):
            return sg.jvp(lambda *moving: f(sg, *moving, *args[4:]), args[:4], args[:4])[1]

        how = {"flags": ("-O0",)} if seed % 8 == 0 else {"compiler": "none"}
        options = sg.Options(paths=200, **how)
        both, forward = sg.value_and_grad(ours, argnums=BY, options=options), sg.jit(pushed, options=options)
        for inputs in nest.inputs:
            value, grads = both(*inputs)
            np.testing.assert_allclose(value, f(Plain, *inputs), rtol=1e-9, atol=1e-11, err_msg=nest.text)
            along = sum([np.sum(g * x) for g, x in zip(grads, inputs[:4], strict=True)])
            np.testing.assert_allclose(forward(*inputs), along, rtol=1e-8, atol=1e-10, err_msg=nest.text)
            whole, half = slope(f, inputs, 1e-4), slope(f, inputs, 5e-5)
            if abs(whole - half) < 1e-5 * (1 + abs(whole)):  # no condition changes on the way
                expected = (4 * half - whole) / 3
                np.testing.assert_allclose(along, expected, rtol=1e-5, atol=1e-5, err_msg=nest.text)


def test_loops_that_are_given_nothing_are_joined():
    """Two loops over constants are one, in the place of which stands nothing that the other one was given."""
    test_nests([921])

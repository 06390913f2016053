"""Random scans: what is carried, stacked, multiplied and written in place is what the same Python loop computes."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.control.loops import random_scan
from tests.control.programs import python_scan
from tests.night import some
from tests.table import INTERPRETED

SEEDS = range(12)
BY = (0, 1, 2, 3, 5)


def close(ours, plain, text):
    for one, other in zip(ours, plain, strict=True):
        least = 1e-9 * (1 + np.max(np.abs(other)))
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=least, err_msg=text)


def test_random_scans(seeds):
    for seed in seeds:
        made = random_scan(seed)
        ours = sg.value_and_grad(made.function(sg.scan), argnums=BY)(*made.args)
        plain = sg.value_and_grad(made.function(python_scan), argnums=BY, options=INTERPRETED)(*made.args)
        assert np.isclose(ours[0], made.function(python_scan)(*made.args), rtol=1e-9), made.text
        close(ours[1], plain[1], made.text)


@pytest.mark.parametrize("seed", some(range(100, 148), of=8))
def test_second_derivatives(seed):
    """Along a direction, forward over reverse and reverse over reverse, and each loop for several at once."""
    made = random_scan(seed)
    rng = np.random.default_rng(seed)
    along = [rng.normal(size=np.shape(made.args[k])) for k in BY]

    def ways(scan):
        gradient = sg.grad(made.function(scan), argnums=BY)

        def placed(xs):
            return [xs[BY.index(k)] if k in BY else arg for k, arg in enumerate(made.args)]

        def turned(*xs):
            return sum([np.sum(g * d) for g, d in zip(gradient(*placed(xs)), along, strict=True)])

        def pushed(*xs):
            return sg.jvp(lambda *xs: gradient(*placed(xs)), xs, tuple(along))[1]

        by = tuple(range(len(BY)))
        return [pushed, sg.grad(turned, argnums=by), sg.vmap(sg.grad(turned, argnums=by), in_axes=(0, *[None] * 4))]

    given = [made.args[k] for k in BY]
    several = [np.stack([given[0], 0.9 * given[0]]), *given[1:]]
    for place, (ours, plain) in enumerate(zip(ways(sg.scan), ways(python_scan), strict=True)):
        args = several if place == 2 else given
        found, known = [sg.jit(way, options=INTERPRETED)(*args) for way in (ours, plain)]
        close(found, known, f"{('forward over reverse', 'reverse over reverse', 'a batch')[place]}\n{made.text}")

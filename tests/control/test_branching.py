"""Random programs with Python's own conditions: what is compiled is what NumPy gives, on whichever path."""

from __future__ import annotations

import pytest

import symgrad as sg
from tests.control.branching import disagreements, random_branching

INTERPRETED, COMPILED = sg.Options(compiler="none", paths=500), sg.Options(flags=("-O0",), paths=500)


def wrong(seeds, options):
    """List what differs, of values and, but for every fourth program, of gradients."""
    return [line for seed in seeds for line in disagreements(random_branching(seed), options, gradients=seed % 4 > 0)]


@pytest.mark.parametrize("start", range(0, 20, 4))
def test_interpreted(start):
    assert not wrong(range(start, start + 4), INTERPRETED)


def test_in_c():
    assert not wrong((20, 21), COMPILED)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(1000, 3000, 20))
def test_many(start):
    assert not wrong(range(start, start + 20), INTERPRETED)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(5000, 5200, 4))
def test_many_in_c(start):
    assert not wrong(range(start, start + 4), COMPILED)

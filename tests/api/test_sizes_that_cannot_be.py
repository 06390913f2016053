"""Arrays that no memory has: refused as NumPy refuses them, also where C would store nothing of them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentValueError, SizeError
from symgrad.ir.memory import MOST
from tests.ops.calls import quiet
from tests.table import INTERPRETED

CALLS = """
np.repeat(x, 2**62)
np.repeat(x, 2**61)
np.repeat(x, 2**45)
np.repeat(x, [2**40, 1, 1])
np.tile(x, 2**62)
np.tile(x, (2**31, 2**31))
np.zeros(2**62) + x[0]
np.ones((2**40, 1)) * x
np.full(2**62, x[0])
np.full((2**30, 2**30), x[0])
np.full_like(x, 1.0, shape=2**62) * x[0]
np.zeros_like(x, shape=(2**31, 2**32)) + x[0]
np.ones_like(x, shape=2**50) * x[0]
np.full(2**50, x[0])
np.full_like(x, 2.0, shape=2**50)
np.empty_like(x, shape=2**62) * x[0]
np.arange(2**62) * x[0]
np.linspace(x[0], 1.0, 2**62)
np.eye(2**31) * x[0]
np.identity(2**40) * x[0]
np.tri(2**40) * x[0]
np.pad(x, 2**62)
np.pad(x, 2**45)
np.pad(x, 2**45, mode="edge")
np.pad(x, 2**45, mode="wrap")
np.broadcast_to(x, (2**62, 3))
np.broadcast_to(x, (2**60, 3))
np.broadcast_to(x[0], 2**63)
np.broadcast_to(x, (2**58, 3)) + 1
np.broadcast_to(x, (2**58, 3)).reshape(-1)
np.broadcast_to(x, (2**58, 3)).copy()
np.broadcast_to(x, (2**58, 3)).T * 2
np.broadcast_to(x, (2**45, 3)).cumsum(0)
np.broadcast_to(x, (2**50, 3)).astype(np.float32)
np.sum(np.broadcast_to(x, (2**50, 3)), axis=1)
np.broadcast_arrays(np.broadcast_to(x, (2**60, 3)), x)[1]
np.outer(np.broadcast_to(x[0], 2**24), np.broadcast_to(x[0], 2**24))
np.multiply.outer(np.broadcast_to(x[0], 2**24), np.broadcast_to(x[0], 2**24))
np.kron(np.broadcast_to(x[0], 2**24), np.broadcast_to(x[0], 2**24))
np.tensordot(np.broadcast_to(x[0], 2**24), np.broadcast_to(x[0], 2**24), 0)
np.meshgrid(np.broadcast_to(x[0], 2**24), np.broadcast_to(x[0], 2**24))[0]
np.einsum("i,j,k->ijk", np.repeat(x, 2**18), np.repeat(x, 2**18), np.repeat(x, 2**18))
np.matmul(np.broadcast_to(x[0], (2**24, 2)), np.broadcast_to(x[0], (2, 2**24)))
np.diag(np.broadcast_to(x[0], 2**24))
np.tril(np.broadcast_to(x[0], (2**24, 2**24)))
np.vander(x, 2**62)
np.vander(x, 2**45)
np.stack([np.broadcast_to(x, (2**44, 3))] * 2)
np.concatenate([np.broadcast_to(x, (2**44, 3))] * 2)
np.append(x, np.broadcast_to(x[0], 2**50))
np.block([np.broadcast_to(x[0], 2**50)] * 2)
np.convolve(np.broadcast_to(x[0], 2**50), x)
np.roll(np.broadcast_to(x[0], 2**50), 1)
np.where(np.broadcast_to(x, (2**50, 3)) > 0, x, 0)
np.gradient(np.broadcast_to(x[0], 2**50))
np.reshape(x[:0] + 1, (0, 2**62, 2**10))
x[:, None] * np.repeat(x, 2**44)
""".strip().splitlines()


MESSAGE = r"array is too big: one of shape \(.*\) and dtype \w+ fits into no memory\n  at "


class HungError(BaseException):
    """A call took too long."""


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """End what loops without an end."""
    def late(*_: Any) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("call", CALLS)
def test_refused_as_numpy_refuses(call):
    """By an error of the same type, though the sum of it needs no memory; one of symgrad's own names the line."""
    function = eval(f"lambda x: {call}", {"np": np})  # noqa: S307 - text written here
    with pytest.raises((ValueError, MemoryError)) as expected:
        quiet(function, np.ones(3))
    for options in (sg.Options(), INTERPRETED):
        with pytest.raises(expected.type if expected.type is ValueError else MemoryError) as caught:
            sg.grad(lambda x: np.sum(function(x)), options=options)(np.ones(3))
        words = str(caught.value)
        assert isinstance(caught.value, (SizeError, MemoryError, ArgumentValueError)), "ours, or NumPy's own"
        assert re.match(MESSAGE, words) or not words.startswith("array is too big: one")


def test_views_that_numpy_has():
    def program(x):
        wide = np.broadcast_to(x, (2**58, 3))
        return wide[:2] * 2, wide.T[:, 5], wide[None][0, -1], np.reshape(x[:0], (0, 2**40)).T[3:5]

    for found, expected in zip(sg.jit(program)(np.arange(3.0)), program(np.arange(3.0)), strict=True):
        np.testing.assert_array_equal(found, expected)


OPEN = {
    "ones": lambda x: np.ones(x.shape[1]).sum() + x.sum(), "sums": lambda x: np.sum(np.exp(x.sum(0))),
    "repeat": lambda x: np.repeat(x.sum(0), 3).sum(), "tile": lambda x: np.tile(x.sum(0), 2).sum(),
    "pairs": lambda x: np.sum(np.subtract.outer(x.sum(0), x.sum(0))),
    "reshape": lambda x: np.sum(np.ones(x.T.shape[0])),
    "full": lambda x: np.full(x.shape[::-1], 1.0)[:3].sum() + np.zeros((x.shape[1], 2)).sum(),
    "linspace": lambda x: np.linspace(0.0, 1.0, x.shape[1]).sum() + x.sum(),
    "arange": lambda x: np.arange(x.shape[1]).sum() + x.sum(), "eye": lambda x: np.sum(np.eye(x.shape[1])) + x.sum(),
    "broadcast": lambda x: np.sum(np.broadcast_to(x.sum(0), (4, x.shape[1])) + 1.0),
    "pad": lambda x: np.pad(x.sum(0), 1).sum(),
}


@pytest.mark.parametrize("options", [sg.Options(), INTERPRETED], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", OPEN)
def test_open_extents_are_looked_at_when_called(name, options):
    """An array of no elements may have any other extent: what is made of that may not fit into memory."""
    program = OPEN[name]
    learnt, named = sg.jit(program, options=options), sg.jit(program, options=options, specs=("f64[k,n]",))
    for shape in ((2, 3), (3, 5), (0, 4)):
        for function in (learnt, named):
            assert function(np.ones(shape)) == pytest.approx(program(np.ones(shape)))
    huge = np.zeros((0, MOST))
    with pytest.raises((ValueError, MemoryError)):
        program(huge)
    for function in (learnt, named):
        for _ in range(2):
            with pytest.raises((ValueError, MemoryError)):
                function(huge)
        assert function(np.ones((3, 7))) == pytest.approx(program(np.ones((3, 7))))
    assert learnt.cache_info().compilations == 2


def test_the_message_at_a_call():
    function = sg.jit(OPEN["pairs"], specs=("f64[k,n]",))
    with pytest.raises(SizeError, match=MESSAGE) as caught:
        function(np.zeros((0, MOST)))
    assert "np.subtract.outer" in str(caught.value)


def test_places_of_a_partition_of_any_size() -> None:
    """An open extent is checked in each call, as a number is while tracing."""
    least = sg.jit(lambda x: np.partition(x, (1, -2), axis=1), options=INTERPRETED)
    for n in (5, 4, 3, 7):
        x = np.arange(2.0 * n).reshape(n, 2).T
        np.testing.assert_array_equal(least(x), x)
    with pytest.raises(ArgumentValueError, match=r"out of bounds"):
        least(np.ones((2, 1)))

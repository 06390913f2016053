"""Programs to loops: mistakes that were made once, and what a tree of loops must look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.looking import loops, sweeps

rng = np.random.default_rng(3)
A = rng.normal(size=(3, 4))
B = rng.normal(size=(2, 3, 4))


def _halved_row(a: Any) -> Any:
    a = a + 0
    a[2].fill(0.75)
    np.multiply(a[-3], 0.5, out=a[-3])
    return a


ONCE_WRONG: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "reshape of a slice from the first element on": (lambda b: np.ravel(b[:1, :2, :3]), (B,)),
    "reshape of a transpose of a slice": (lambda b: np.reshape(b[:, :2].T, (2, -1)), (B,)),
    "an array without elements": (lambda a: np.reshape(a[:0], (0, 7)) + 1, (A,)),
    "a helper inside of an op of another dtype": (lambda a: (np.logaddexp(a, 0) > 0.9) // 2, (A,)),
    "a sum over an empty axis": (lambda a: a[:, :0] @ np.ones((0, 2)), (A,)),
    "rows of a matrix without columns, written": (lambda a: _halved_row(a[:, :0]), (A,)),
    "a broadcast of a slice": (lambda a: np.broadcast_to(a[0, :1], (3, 4)) * a, (A,)),
    "one array as two outputs": (lambda a: (a * 2, a * 2), (A,)),
    "an input as an output": (lambda a: (a, a.T), (A,)),
    "a constant as an output": (lambda a: (np.arange(3.0), a[0, 0]), (A,)),
    "a reversed reshape": (lambda a: np.reshape(a[::-1, ::-1], (2, 6))[:, ::-2], (A,)),
    "a running sum of a sum": (lambda a: np.cumsum(np.sum(a, axis=1) * a[0, 1]), (A,)),
    "a sum that is read where it is added to": (lambda a: a - np.mean(a, axis=0) - np.mean(a), (A,)),
}


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_compiled_is_numpy(name: str) -> None:
    function, args = ONCE_WRONG[name]
    found, expected = sg.jit(function)(*args), function(*args)
    for one, two in zip(_tuple(found), _tuple(expected), strict=True):
        assert one.dtype == np.asarray(two).dtype
        np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-13)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_an_index_out_of_an_axis_of_one_element_is_refused() -> None:
    """The axis is no loop and the array a register: the index is checked nevertheless."""
    functions: list[Any] = [lambda x, i: np.sin(x)[i], lambda x, i: np.take(x * x, i), lambda x, i: np.exp(x)[i] * x]
    for function in functions:
        compiled = sg.jit(function)
        assert np.all(compiled(np.ones(1), np.array([0, -1])) == function(np.ones(1), np.array([0, -1])))
        for wrong in (1, -2, 5):
            with pytest.raises(IndexError, match="out of bounds"):
                compiled(np.ones(1), np.array([0, wrong]))


def test_elementwise_values_and_views_need_no_memory() -> None:
    function = sg.jit(lambda x: np.sum(np.exp(np.sin(x[::-1].T) * 2 + x.T)))
    function(np.ones((30, 40)))
    assert loops(function).workspace == 0
    assert not any(stored.is_memory for stored in loops(function).storage.values())


def test_one_sweep_for_value_and_gradient() -> None:
    """Logistic regression reads X once: forward and backward share the loop over samples."""
    X, y = rng.normal(size=(500, 6)), np.sign(rng.normal(size=500))
    function = sg.value_and_grad(lambda w: np.sum(np.logaddexp(0.0, -y * (X @ w))))
    function(np.ones(6))
    assert sweeps(function, 500) == 1


def test_a_chain_of_reductions_needs_its_sweeps() -> None:
    """A value that every element needs is finished before the next sweep starts."""
    x = rng.normal(size=200)
    function = sg.jit(lambda x: np.sum(np.exp(x - np.max(x)) ** 2))
    assert function(x) == pytest.approx(np.sum(np.exp(x - np.max(x)) ** 2), rel=1e-13)
    assert sweeps(function, 200) == 2

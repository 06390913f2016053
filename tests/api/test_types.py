"""A compiled function has the signature, the docstring and the types of what it wraps.

mypy reads this file as well (`make lint`): each `type: ignore` marks a call that has to be an error, and would be
reported as unused if it were none.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, np.dtype[np.float64]]


def loss(w: Array, x: Array, *, power: int = 2) -> float:
    """How far w is from x."""
    return np.sum((w - x) ** power)


MADE: list[Callable[..., Any]] = [
    sg.jit(loss), sg.grad(loss), sg.value_and_grad(loss), sg.jacfwd(loss), sg.jacrev(loss), sg.hessian(loss),
    sg.vmap(loss), sg.jit(sg.grad(loss)),
]


@pytest.mark.parametrize("made", MADE)
def test_signature_and_docstring_are_those_of_the_function(made):
    own = inspect.signature(loss)
    same = made is MADE[0]  # a derivative is of another type
    assert inspect.signature(made) == (own if same else own.replace(return_annotation=own.empty))
    hints = typing.get_type_hints(loss)
    assert typing.get_type_hints(made) == {k: hint for k, hint in hints.items() if k != "return" or same}
    assert inspect.getdoc(made) == loss.__doc__
    assert (made.__name__, made.__qualname__, made.__module__) == ("loss", "loss", __name__)
    assert "loss(w" in inspect.getsource(inspect.unwrap(made))


def test_a_product_with_the_hessian_takes_a_direction():
    assert [*inspect.signature(sg.hvp(loss)).parameters] == ["w", "v", "x", "power"]


def test_types_are_those_of_the_function():
    x = np.ones(3)
    value: float = sg.jit(loss)(x, x, power=2)
    both: tuple[float, Any] = sg.value_and_grad(loss)(x, x)
    same: Callable[[Array, Array], float] = sg.jit(loss)
    assert (value, both[0], same(x, x)) == (0.0, 0.0, 0.0)
    with pytest.raises(TypeError):
        sg.jit(loss)(x)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        sg.grad(loss)(x, x, x, x)  # type: ignore[call-arg,arg-type]
    with pytest.raises(TypeError):
        sg.vmap(loss)(x, x, of=x)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        sg.value_and_grad(loss)("w", x)  # type: ignore[arg-type]

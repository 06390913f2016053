"""An op without a rule is differentiated by the adjoint of its index notation, to every order and in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import NoGradient
from symgrad.ir.op import Structured
from symgrad.ops import OPS, load
from tests import table as t

load()
RNG = np.random.default_rng(2)
HAVE = ("einsum", "sum", "gather", "scatter_add", "convolve")
"""Ops with a body of one statement, or of sums; with their own rules taken away they must go on as before."""


def cases(name: str) -> list[t.Row]:
    return [row for row in t.groups("smooth") if row.op.name == name]


@pytest.mark.parametrize("name", HAVE)
def test_without_its_rule_an_op_has_the_same_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = cases(name)
    assert rows
    assert isinstance(OPS[name], Structured)
    monkeypatch.setattr(OPS[name], "vjp", None)
    for row in rows[:2]:
        arrays = row.arrays()
        floats = tuple([k for k, a in enumerate(arrays) if t.floating(a)])
        lowered = sg.grad(lambda *arrays, row=row: np.sum(row.call(*arrays)), floats).lower(*arrays)
        assert "ops.adjoint" in lowered.as_text()
        sg.check_grads(row.call, tuple(arrays))


@pytest.mark.parametrize(("name", "fun", "why"), [
    ("prod", np.prod, "its index notation is no sum of independent terms"),
    ("triangle", np.triu, "its index notation reckons with indices"),
])
def test_a_body_that_has_no_adjoint_of_this_form_is_refused(
    name: str, fun: Any, why: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        return np.sum(fun(y))

    monkeypatch.setattr(OPS[name], "vjp", None)
    with pytest.raises(NoGradient) as caught:
        sg.grad(f)(np.ones((2, 2)))
    way = "the gradient by 'x' goes through its argument 0, float64[2,2]"
    assert caught.value.what == f"{name} has no derivative: no rule, and {why}, and {way}"
    assert caught.value.line is not None
    assert caught.value.line.text == "return np.sum(fun(y))"
    assert sg.grad(lambda x: np.sum(x) + np.sum(fun(x > 0)))(np.ones((1, 2))).tolist() == [[1, 1]]  # not on the path


def test_factors_alone_have_no_derivative() -> None:
    """What is made of the factors has a rule by the matrix."""
    with pytest.raises(NoGradient, match="lu has no derivative: no rule, and its index notation is no sum"):
        sg.grad(lambda a: np.sum(OPS["lu"](a)))(np.eye(2))


def test_every_mode_of_a_product_by_its_notation(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))

    def f(a: Any, b: Any) -> Any:
        return np.sum(np.tanh(a @ b))

    want = [sg.grad(f)(A, B), sg.hessian(f)(A, B), sg.jvp(f, (A, B), (A, B))[1], sg.jacfwd(sg.grad(f, 1))(A, B)]
    monkeypatch.setattr(OPS["einsum"], "vjp", None)

    def again(a: Any, b: Any) -> Any:  # which nothing was compiled for yet
        return f(a, b)

    got = [
        sg.grad(again)(A, B), sg.hessian(again)(A, B),
        sg.jvp(again, (A, B), (A, B))[1], sg.jacfwd(sg.grad(again, 1))(A, B),
    ]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    batched = sg.vmap(sg.grad(again), (0, None))(np.stack([A, 2 * A]), B)
    np.testing.assert_allclose(batched[0], want[0], rtol=1e-12, atol=1e-14)

"""Elementwise ops where calculus leaves a choice: ties, kinks, corners, masks; and what dtypes they refuse."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import symgrad as sg
import symgrad.ops
from symgrad.errors import ArgumentValueError, DtypeError
from symgrad.ops.declare.calculus import cotangents
from symgrad.ops.declare.forms import OPS
from tests.ops.tape import Taped, derivatives, gradient, slopes

symgrad.ops.load()


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


CORNERS = [
    ("maximum", (1.0, 1.0), (0.5, 0.5)), ("maximum", (2.0, 1.0), (1, 0)), ("minimum", (1.0, 1.0), (0.5, 0.5)),
    ("minimum", (2.0, 1.0), (0, 1)), ("fmax", (np.nan, 1.0), (0, 1)), ("fmax", (3.0, 3.0), (0.5, 0.5)),
    ("fmin", (2.0, np.nan), (1, 0)), ("absolute", (0.0,), (0,)), ("absolute", (-0.0,), (0,)), ("fabs", (-3.0,), (-1,)),
    ("clip", (0.0, 0.0, 1.0), (0.5, 0.5, 0)), ("clip", (1.0, 0.0, 1.0), (0.5, 0, 0.5)),
    ("clip", (0.5, 0.0, 1.0), (1, 0, 0)), ("clip", (-1.0, 0.0, 1.0), (0, 1, 0)), ("clip", (5.0, 0.0, 1.0), (0, 0, 1)),
    ("clip", (0.0, 0.0, 0.0), (0.25, 0.25, 0.5)), ("clip", (0.5, 1.0, 0.0), (0, 0, 1)),
    ("heaviside", (0.0, 0.5), (0, 1)), ("heaviside", (2.0, 0.5), (0, 0)),
    ("copysign", (0.0, 0.5), (1, 0)), ("copysign", (2.0, -0.5), (-1, 0)), ("hypot", (0.0, 0.0), (0, 0)),
    ("arctan2", (0.0, 0.0), (0, 0)), ("arctan2", (0.0, -1.0), (-1, 0)), ("xlogy", (0.0, 0.0), (0, 0)),
    ("xlog1py", (0.0, -1.0), (0, 0)), ("xlogy", (0.0, 2.0), (np.log(2.0), 0)), ("power", (0.0, 2.0), (0, 0)),
    ("power", (0.0, 1.0), (1, 0)), ("power", (0.0, 0.0), (0, 0)), ("power", (-2.0, 3.0), (12, np.nan)),
    ("sqrt", (0.0,), (np.inf,)), ("cbrt", (0.0,), (np.inf,)), ("logaddexp", (np.inf, np.inf), (0.5, 0.5)),
    ("logaddexp", (-np.inf, -np.inf), (0.5, 0.5)), ("logaddexp", (-np.inf, 1.0), (0, 1)),
    ("logaddexp2", (np.inf, np.inf), (0.5, 0.5)), ("remainder", (-7.0, 3.0), (1, 3)), ("fmod", (-7.0, 3.0), (1, 2)),
    ("remainder", (1.0, np.inf), (1, 0)), ("where", (True, np.nan, 2.0), (0, 1, 0)),
    ("where", (False, 1.0, 2.0), (0, 0, 1)),
]


@pytest.mark.parametrize(("name", "at", "want"), CORNERS)
def test_convention(name, at, want):
    found = slopes(OPS[name], [np.array([v]) for v in at])
    assert [float(d[0]) for d in found] == pytest.approx(list(want), nan_ok=True)


def test_a_masked_cotangent_is_never_multiplied():
    for name, *at in (("maximum", 2.0, 1.0), ("clip", 5.0, 0.0, 1.0), ("where", True, 1.0, 2.0), ("absolute", 0.0)):
        xs = [np.array([v]) for v in at]
        op: Any = OPS[name]
        parts = cotangents(op, np.array([np.inf]), op.evaluate(*xs), *xs)
        assert not any(np.isnan(p).any() for p in parts if p is not None), name


def test_second_order_at_ties_and_zeros():
    def second(name, *at, **params):
        return [[float(v[0]) if len(v) else 0.0 for v in map(np.atleast_1d, row)]
                for row in derivatives(OPS[name], [np.array([v]) for v in at], **params)[1]]

    assert second("logaddexp", 2.0, 2.0) == [[0.25, -0.25], [-0.25, 0.25]]
    quarter = np.log(2) / 4
    assert second("logaddexp2", 2.0, 2.0)[0] == pytest.approx([quarter, -quarter])
    assert second("power", 2.0, 0.0)[0] == [0.0, 0.5]  # where b is 0 the mixed derivative is 1 / x
    assert second("power", 0.0, 2.0)[0][0] == 2.0
    assert second("hypot", 1.0, 1e-8)[0] == pytest.approx([1e-16, -1e-8], rel=1e-15)
    assert second("power_int", 3.0, exponent=3) == [[18.0]]
    assert second("power_int", 3.0, exponent=1) == [[0.0]]
    assert second("power_int", 0.0, exponent=2) == [[2.0]]
    assert second("power_int", 2.0, exponent=-1) == [[0.25]]


def test_third_order_of_gammaln():
    x = Taped(np.array([2.5, -1.5]))
    y = OPS["gammaln"](x)
    for _ in range(3):
        (y,) = gradient(y, [x])
    assert y.value == pytest.approx([float(mpmath.psi(2, v)) for v in (2.5, -1.5)], rel=1e-13)


# -- dtypes


def test_what_has_no_c_is_refused_with_a_way_out():
    typed: Any = type("Typed", (), {"dtype": np.dtype(np.int32), "shape": ()})
    with pytest.raises(ArgumentValueError, match=r"int32 to the power -2: integers to negative integer powers"):
        OPS["power_int"].infer(typed, exponent=-2)
    with pytest.raises(DtypeError, match="twice the same dtype"):
        OPS["where"].infer(typed, typed, typed)


@pytest.mark.parametrize("options", [sg.Options(), sg.Options(compiler="none")], ids=["C", "interpreted"])
def test_integers_to_negative_powers_are_refused_in_each_call(options: sg.Options):
    f = sg.jit(lambda k, m: k**m + 2**m, options=options)
    assert f(np.arange(3), np.arange(3)).tolist() == [2, 3, 8]
    with pytest.raises(ValueError, match=r"integers to negative integer powers are not allowed"):
        f(np.arange(3), -np.arange(3))
    with pytest.raises(ValueError, match=r"not allowed\n.*\n.*\n  instead: x\.astype\(np\.float64\)"):
        sg.jit(lambda k: k ** np.array([1, -1]), options=options)(np.arange(2))
    rows = sg.vmap(lambda k: 2**k, options=options)(np.arange(6).reshape(2, 3))
    assert rows.tolist() == [[1, 2, 4], [8, 16, 32]]
    assert sg.grad(lambda x, k: np.sum(x * 2**k), options=options)(np.ones(3), np.arange(3)).tolist() == [1, 2, 4]


def test_astype_gives_the_cotangent_back_in_the_arguments_dtype():
    rule: Any = OPS["astype"].vjp
    x = np.ones(3, np.float32)
    back = rule(np.ones(3), None, x, dtype=np.dtype(np.float64))
    assert back.dtype == np.float32
    assert rule(np.ones(3), None, np.ones(3, np.int64), dtype=np.dtype(np.float64)) is None

"""What rules of the user's may give, whoever takes them: how many cotangents, in which structure, of which dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DtypeError

X = np.array([0.5, -1.5, 2.0])
TREE = {"w": np.ones(2), "b": np.ones(())}


def custom(rule: Any, dtype: Any = float) -> Any:
    @sg.custom_vjp
    def own(x: Any) -> Any:
        return x * 2

    own.defvjp(lambda x: (x * 2, x), lambda _, g: (rule(g),))
    return sg.grad(lambda x: np.sum(own(x)))(X.astype(dtype))


def overridden(rule: Any, dtype: Any = float) -> Any:
    def own(x: Any) -> Any:
        with sg.override_gradient("square", lambda g, _y, _x: rule(g)):
            return np.sum(np.square(x))

    return sg.grad(own)(X.astype(dtype))


def function(rule: Any, dtype: Any = float) -> Any:
    def own(x: Any) -> Any:
        with sg.override_gradient(layer, lambda g, _y, _x: rule(g)):
            return np.sum(layer(x))

    return sg.grad(own)(X.astype(dtype))


def layer(x: Any) -> Any:
    return np.tanh(x)


def external(rule: Any, _dtype: Any = float) -> Any:
    own = sg.extern("own", "double own(double x) { return x * x; }", lambda x: x * x, vjp=rule)
    return sg.grad(lambda x: np.sum(own(x)))(X)


TAKERS = [custom, overridden, function, external]
WRONG: list[tuple[Any, Any, str]] = [
    (lambda _: np.ones(3, int), DtypeError, r"gives int64\[3\] as the cotangent of (input 0|argument x)"),
    (lambda g: g > 0, DtypeError, r"gives bool\[3\] as the cotangent of (input 0|argument x)"),
    (lambda _: np.ones(3) * 1j, DtypeError, r"gives complex128\[3\] as the cotangent of (input 0|argument x)"),
    (lambda g: {"a": g}, ArgumentError, "gives a dict as the cotangent of (input 0|argument x)"),
    (lambda _: "g", ArgumentError, "gives a str as the cotangent of (input 0|argument x)"),
]


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize(("rule", "error", "message"), WRONG)
def test_a_cotangent_is_floating_point(take: Any, rule: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        take(rule)
    assert caught.value.line is not None
    assert caught.value.line.file == __file__
    assert "the rule for " in str(caught.value)


@pytest.mark.parametrize("take", TAKERS[1:])
def test_as_many_cotangents_as_inputs(take: Any) -> None:
    with pytest.raises(ArgumentError, match=r"gives 2 cotangents for 1 (inputs|arguments)") as caught:
        take(lambda g: (g, g))
    assert caught.value.line is not None


@pytest.mark.parametrize("take", TAKERS[:3])
def test_a_cotangent_has_the_dtype_of_its_argument(take: Any) -> None:
    """Of another precision it is rounded, or made wider; numbers are what NumPy makes of them."""
    for dtype, other in ((np.float32, np.float64), (np.float64, np.float32)):
        found = take(lambda g, other=other: g.astype(other) / 3, dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.full(3, (np.ones(3, dtype).astype(other) / 3).astype(dtype)))


def test_numbers_are_cotangents_of_numbers() -> None:
    @sg.custom_vjp
    def own(x: Any, y: Any) -> Any:
        return x * y

    own.defvjp(lambda x, y: (x * y, None), lambda *_: (2, 0.5))
    assert sg.grad(own, (0, 1))(1.0, 1.0) == (2.0, 0.5)


STRUCTURES = [
    (lambda g: ({"w": g},), "gives for argument params another structure"),
    (lambda g: ({"w": g, "b": g[0], "c": g},), "gives for argument params another structure"),
    (lambda g: ((g, g[0]),), "gives for argument params another structure"),
    (lambda g: (g,), "gives for argument params another structure"),
    (lambda g: g, "gives a Tracer for 1 arguments"),
    (lambda g: (g, g), "gives 2 cotangents for 1 arguments"),
    (lambda _: None, "gives a NoneType for 1 arguments"),
    (lambda g: ({"w": g, "b": g},), r"of shape \(2,\) for argument params\['b'\], which has shape \(\)"),
    (lambda g: ({"w": g, "b": [g]},), r"gives a list as the cotangent of argument params\['b'\]"),
]


@pytest.mark.parametrize(("rule", "message"), STRUCTURES)
def test_cotangents_of_trees(rule: Any, message: str) -> None:
    @sg.custom_vjp
    def own(params: Any) -> Any:
        return params["w"] * params["b"]

    own.defvjp(lambda p: (own(p), None), lambda _, g: rule(g))
    with pytest.raises(ArgumentError, match=message) as caught:
        sg.grad(lambda p: np.sum(own(p)))(TREE)
    assert caught.value.line is not None
    own.defvjp(lambda p: (own(p), None), lambda _, g: ({"w": g, "b": None},))
    found = sg.grad(lambda p: np.sum(own(p)))(TREE)
    assert found["w"].tolist() == [1, 1]
    assert found["b"] == 0


def test_results_and_tangents_have_the_structure_of_the_result() -> None:
    @sg.custom_vjp
    def own(x: Any) -> Any:
        return x * 2

    own.defvjp(lambda x: ((x * 2,), x), lambda _, g: (g,))
    with pytest.raises(ArgumentError, match="the forward rule of own returns a result of another structure than own"):
        sg.grad(lambda x: np.sum(own(x)))(X)

    @sg.custom_jvp
    def forward(x: Any) -> Any:
        return x * 2

    for tangent, error, message in (
        (lambda t: (t,), ArgumentError, "the rule of forward returns a tangent of another structure than forward"),
        (lambda _: np.ones(3, int), DtypeError, r"the rule of forward gives int64\[3\] as the tangent of the result"),
        (lambda t: t > 0, DtypeError, r"the rule of forward gives bool\[3\] as the tangent of the result"),
    ):
        forward.defjvp(lambda p, t, tangent=tangent: (p[0] * 2, tangent(t[0])))
        with pytest.raises(error, match=message) as caught:
            sg.grad(lambda x: np.sum(forward(x)))(X)
        assert caught.value.line is not None
    forward.defjvp(lambda p, t: (p[0] * 2, t[0].astype(np.float64) * 3))
    found = sg.grad(lambda x: np.sum(forward(x)))(X.astype(np.float32))
    assert found.dtype == np.float32
    assert found.tolist() == [3, 3, 3]


# -- rules that are set again

FACTOR = 5.0


def test_a_rule_that_is_set_again_holds() -> None:
    """Also for what was derived with the one before, wherever the function is found."""

    @sg.custom_vjp
    def own(x: Any) -> Any:
        return x * 1.0

    hidden = [own]
    seen, unseen = sg.grad(lambda x: np.sum(own(x))), sg.grad(lambda x: np.sum(hidden[0](x)))
    for factor in (2.0, 3.0):
        own.defvjp(lambda x: (x * 1.0, None), lambda _, g, factor=factor: (factor * g,))
        for _ in range(2):
            assert seen(X).tolist() == unseen(X).tolist() == [factor] * 3
        assert sg.vjp(own, X)[1](np.ones(3))[0].tolist() == [factor] * 3
        assert sg.jvp(own, (X,), (np.ones(3),))[1].tolist() == [factor] * 3

    @sg.custom_jvp
    def forward(x: Any) -> Any:
        return x * 1.0

    slope = sg.grad(lambda x: np.sum(forward(x)))
    for factor in (2.0, 3.0):
        forward.defjvp(lambda p, t, factor=factor: (p[0], factor * t[0]))
        assert slope(X).tolist() == [factor] * 3


def test_what_a_rule_reads_is_noticed_when_it_is_bound_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    @sg.custom_vjp
    def own(x: Any) -> Any:
        return x * 1.0

    own.defvjp(lambda x: (x * 1.0, None), lambda _, g: (FACTOR * g,))
    slope = sg.grad(lambda x: np.sum(own(x)))
    assert slope(X).tolist() == [5, 5, 5]
    monkeypatch.setitem(globals(), "FACTOR", 6.0)
    assert slope(X).tolist() == [6, 6, 6]

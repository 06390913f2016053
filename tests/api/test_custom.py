"""Rules of one's own: custom_vjp, custom_jvp, overrides; what they refuse, and how they go with every mode."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, NoGradient, UnsupportedError

X = np.array([0.5, -1.5, 2.0])


def scaled(factor):
    return lambda g, _y, _x: g * factor


# -- overrides


def test_an_override_holds_inside_of_its_block_only():
    def f(x):
        with sg.override_gradient("square", scaled(100)):
            inside = np.square(x)
            with sg.override_gradient(np.square, scaled(7)):
                nested = np.square(x)
            again = np.square(x)
        return inside, nested, again, np.square(x)

    found = [float(sg.grad(lambda x, k=k: f(x)[k])(5.0)) for k in range(4)]
    assert found == [100, 7, 100, 10]
    assert float(sg.grad(lambda x: sum(f(x)))(5.0)) == 217
    assert [float(v) for v in sg.jit(f)(5.0)] == [25.0] * 4


def test_several_overrides_and_names():
    def f(x):
        with sg.override_gradient({"outer/square": scaled(3), np.exp: scaled(2), "outer/inner/square": scaled(5)}):
            total = np.square(x) + np.exp(x)
            with sg.named("outer"):
                total = total + np.square(x)
                with sg.named("inner"):
                    total = total + np.square(x)
        return np.sum(total)

    np.testing.assert_allclose(sg.grad(f)(X), 2 * X + 2 + 3 + 5)


def test_overrides_of_what_takes_parameters_and_is_stabilized():
    def f(x):
        with sg.override_gradient("sum", lambda g, _y, x, **_: g * np.ones(x.shape) * 3):
            total = np.sum(x, axis=0)
        with sg.override_gradient("log", scaled(11)):
            return total + np.log(1 + np.exp(x[0]))

    np.testing.assert_allclose(sg.grad(f)(X), [3 + 11 * np.exp(0.5), 3, 3])


def test_an_override_of_a_custom_function():
    @sg.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

    def f(x):
        with sg.override_gradient(twice, lambda g, _y, _x: g * 9):
            return np.sum(twice(x)) + 0 * np.sum(X)

    np.testing.assert_allclose(sg.grad(f)(X), [9, 9, 9])
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(twice(x)))(X), [2, 2, 2])


@pytest.mark.parametrize(("what", "rule", "message"), [
    ("sqare", scaled(1), "no op has the name 'sqare'"),
    ("transpose", scaled(1), "is a view"),
    (len, scaled(1), "neither the name of an op nor a function of NumPy's"),
    ("square", 3.0, "is no function"),
])
def test_overrides_that_cannot_be(what, rule, message):
    def f(x):
        with sg.override_gradient(what, rule):
            return np.sum(np.square(x))

    with pytest.raises(ArgumentError, match=message):
        sg.grad(f)(X)


def test_a_rule_whose_shape_does_not_fit():
    def f(x):
        with sg.override_gradient("square", lambda g, _y, _x: np.concatenate([g, g])):
            return np.sum(np.square(x))

    with pytest.raises(ArgumentError, match=r"cotangent of shape \(6,\) for input 0"):
        sg.grad(f)(X)


def test_a_rule_with_the_wrong_number_of_cotangents():
    def f(x):
        with sg.override_gradient("multiply", lambda g, _y, _a, _b: g):
            return np.sum(x * np.sin(x))

    with pytest.raises(ArgumentError, match="gives 1 cotangents for 2 inputs"):
        sg.grad(f)(X)


# -- custom_vjp


@sg.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))


def test_clipping_a_gradient_works_in_reverse_and_is_refused_forward():
    def f(x):
        return np.sum(3 * clipped(x) ** 2)

    np.testing.assert_allclose(sg.grad(f)(X), np.clip(6 * X, -1, 1))
    with pytest.raises(NoGradient, match="the rule of clipped is not linear in the cotangent"):
        sg.jvp(f, (X,), (X,))


PIECES = {
    "sign": np.sign, "rint": np.round, "floor": lambda g: np.floor(g * 10) / 10, "stop_gradient": sg.stop_gradient,
    "remainder": lambda g: np.mod(g, 1.0), "greater": lambda g: np.where(g > 0, 1.0, -1.0),
    "astype": lambda g: (g * 8).astype(np.int64) / 8,
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_rules_that_are_linear_piece_by_piece_are_refused_forward(piece):
    """Their slope by the cotangent does not depend on it, and is not the rule."""

    @sg.custom_vjp
    def stepped(x):
        return x * 1.0

    stepped.defvjp(lambda x: (x * 1.0, None), lambda _, g: (piece(g),))

    @sg.custom_vjp
    def within(x):
        return x * 1.0

    within.defvjp(lambda x: (x * 1.0, None), lambda _, g: (stepped(g),))

    def overridden(x):
        with sg.override_gradient("exp", lambda g, y, _: piece(g) * y):
            return np.exp(x)

    @sg.custom_jvp
    def forward(x):
        return x * 1.0

    forward.defjvp(lambda primals, tangents: (primals[0] * 1.0, piece(tangents[0])))
    g = np.array([0.3, -2.6, 1.7])
    np.testing.assert_allclose(sg.vjp(stepped, X)[1](g)[0], piece(g))
    np.testing.assert_allclose(sg.vjp(overridden, X)[1](g)[0], piece(g) * np.exp(X))
    twice = sg.vmap(stepped)
    for f, name in ((lambda x: stepped(x) * 2, "stepped"), (overridden, "exp_overridden"), (twice, "stepped")):
        with pytest.raises(NoGradient, match=rf"the rule of \w*{name}\w* is not linear in the cotangent") as caught:
            sg.jvp(f, (X,), (X,))
        assert f is twice or caught.value.line is not None
        with pytest.raises(NoGradient, match=name):
            sg.jacfwd(f)(X)
    with pytest.raises(NoGradient, match="the rule of within is not linear in the cotangent"):
        sg.jvp(within, (X,), (X,))
    for mode in (sg.jacrev, sg.jacfwd):
        with pytest.raises(NoGradient, match="the rule of forward is not linear in the tangents"):
            mode(forward)(X)


def test_straight_through_and_reversal():
    @sg.custom_vjp
    def rounded(x):
        return np.round(x)

    rounded.defvjp(lambda x: (np.round(x), None), lambda _, g: (g,))

    @sg.custom_vjp
    def reversed_(x):
        return x

    reversed_.defvjp(lambda x: (x, ()), lambda _, g: (-g,))
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(rounded(x) * X))(X), X)
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(reversed_(x) * X))(X), -X)
    np.testing.assert_allclose(sg.jvp(lambda x: rounded(x) * 2, (X,), (X,))[1], 2 * X)


def test_several_results_trees_and_settings():
    def fun(power, params, y):
        return params["w"] ** power * y, np.sum(params["b"]) + np.sum(y)

    def fwd(power, params, y):
        return fun(power, params, y), (params, y)

    def bwd(power, residuals, g):
        params, y = residuals
        first, second = g
        by_w = power * params["w"] ** (power - 1) * y * first
        return {"w": by_w, "b": second * np.ones(2)}, params["w"] ** power * first + second

    custom = sg.custom_vjp(fun, nondiff_argnums=(0,))
    custom.defvjp(fwd, bwd)
    params = {"w": X, "b": np.array([1.0, 2.0])}

    def loss(f):
        def of(params, y):
            a, b = f(3, params, y)
            return np.sum(np.sin(a)) * b

        return of

    own = sg.grad(loss(custom), argnums=(0, 1))(params, X + 1)
    plain = sg.grad(loss(fun), argnums=(0, 1))(params, X + 1)
    np.testing.assert_allclose(own[0]["w"], plain[0]["w"], rtol=1e-13)
    np.testing.assert_allclose(own[0]["b"], plain[0]["b"], rtol=1e-13)
    np.testing.assert_allclose(own[1], plain[1], rtol=1e-13)
    second = sg.grad(lambda y: np.sum(sg.grad(loss(custom), argnums=1)(params, y) ** 2))(X + 1)
    want = sg.grad(lambda y: np.sum(sg.grad(loss(fun), argnums=1)(params, y) ** 2))(X + 1)
    np.testing.assert_allclose(second, want, rtol=1e-12)
    tangent = sg.jvp(loss(custom), (params, X + 1), (params, X))[1]
    np.testing.assert_allclose(tangent, sg.jvp(loss(fun), (params, X + 1), (params, X))[1], rtol=1e-12)
    assert custom(3, params, X)[1] == np.sum(params["b"]) + np.sum(X)


def test_writes_inside_of_a_rule():
    @sg.custom_vjp
    def zero_out(x):
        out = np.zeros(4)
        out[0] = x[0]
        return out

    def bwd(_, g):
        by = np.zeros(4)
        by[0] = g[0]
        return (by,)

    zero_out.defvjp(lambda x: (zero_out(x), None), bwd)
    weights = np.array([7.0, 1, 1, 1])
    f = sg.grad(lambda x: np.sum(zero_out(x) * weights))
    np.testing.assert_array_equal(f(np.array([5.0, 4, 3, 2])), [7, 0, 0, 0])


def test_without_a_rule_a_gradient_is_refused_and_a_value_is_not():
    @sg.custom_vjp
    def bare(x):
        return x * 2

    np.testing.assert_array_equal(sg.jit(bare)(X), 2 * X)
    with pytest.raises(NoGradient, match=r"bare has no rule(.|\n)*bare.defvjp") as caught:
        sg.grad(lambda x: np.sum(bare(x)))(X)
    assert caught.value.line is not None
    assert "np.sum(bare(x))" in caught.value.line.text


def test_what_a_custom_function_may_not_do():
    def closing(x):
        @sg.custom_vjp
        def inner(y):
            return x * y

        inner.defvjp(lambda y: (inner(y), None), lambda _, g: (g,))
        return np.sum(inner(x * 2))

    with pytest.raises(UnsupportedError, match="none of its arguments"):
        sg.grad(closing)(X)

    @sg.custom_vjp
    def bad(x, y):
        return x * y

    bad.defvjp(lambda x, y: (x * y, None), lambda _, g: (g,))
    with pytest.raises(ArgumentError, match="the backward rule of bad gives 1 cotangents for 2 arguments"):
        sg.grad(lambda x: np.sum(bad(x, x)))(X)
    bad.defvjp(lambda x, y: x * y, lambda _, g: (g, g))
    with pytest.raises(ArgumentError, match="must return a pair"):
        sg.grad(lambda x: np.sum(bad(x, x)))(X)


NARROW = [np.sum, lambda g: g[:1], lambda g: g.sum(0), lambda _: 1.0]


@pytest.mark.parametrize("narrow", NARROW)
def test_cotangents_are_not_stretched(narrow):
    x = np.ones((2, 3))

    @sg.custom_vjp
    def f(a):
        return a * 1.0

    f.defvjp(lambda a: (a * 1.0, None), lambda _, g: (narrow(g),))

    def overridden(a):
        with sg.override_gradient("exp", lambda g, _y, _a: narrow(g)):
            return np.exp(a)

    for of, name in ((lambda a: f(a) * 1, "f"), (overridden, "exp")):
        message = rf"the rule for {name} gives a cotangent of shape \(.*\) for (input 0|argument a), which has shape"
        with pytest.raises(ArgumentError, match=message) as caught:
            sg.grad(lambda a, of=of: np.sum(of(a)))(x)
        assert caught.value.line is not None


def test_results_and_tangents_of_a_rule_have_the_shape_of_the_result():
    @sg.custom_vjp
    def f(a):
        return a * 1.0

    f.defvjp(lambda a: (np.sum(a), None), lambda _, g: (g,))
    with pytest.raises(ArgumentError, match=r"the forward rule of f returns a result of shape \(\); f returns \(3,\)"):
        sg.grad(lambda a: np.sum(f(a)))(X)

    @sg.custom_jvp
    def h(a):
        return a * 1.0

    h.defjvp(lambda primals, tangents: (primals[0], tangents[0][None]))
    with pytest.raises(ArgumentError, match=r"the rule of h returns a tangent of shape \(1, 3\); h returns \(3,\)"):
        sg.grad(lambda a: np.sum(h(a)))(X)


# -- custom_jvp


def test_a_forward_rule_serves_every_mode():
    @sg.custom_jvp
    def hypotenuse(x, y):
        return np.sqrt(x * x + y * y)

    @hypotenuse.defjvp
    def _(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        h = hypotenuse(x, y)
        return h, (x * dx + y * dy) / h

    f = lambda x, y: np.sum(np.sin(hypotenuse(x, y)))  # noqa: E731
    plain = lambda x, y: np.sum(np.sin(np.sqrt(x * x + y * y)))  # noqa: E731
    for own, want in zip(sg.grad(f, (0, 1))(X, X + 1), sg.grad(plain, (0, 1))(X, X + 1), strict=True):
        np.testing.assert_allclose(own, want, rtol=1e-13)
    tangents = (np.ones(3), X)
    own, want = [sg.jvp(h, (X, X + 1), tangents)[1] for h in (f, plain)]
    np.testing.assert_allclose(own, want, rtol=1e-13)
    sg.check_grads(f, (X, X + 1), order=2)


def test_a_forward_rule_that_is_not_linear_is_refused():
    @sg.custom_jvp
    def odd(x):
        return x

    odd.defjvp(lambda primals, tangents: (primals[0], tangents[0] ** 2))
    with pytest.raises(NoGradient, match="the rule of odd is not linear in the tangents"):
        sg.grad(lambda x: np.sum(odd(x)))(X)


def test_a_function_may_have_the_name_of_an_op():
    """Passes know symgrad's ops by their names; a user's function of the same name is none of them."""

    @sg.custom_vjp
    def where(c, a, b):
        return np.where(c > 0, a, b) * 2

    where.defvjp(lambda c, a, b: (where(c, a, b), None), lambda _, g: (None, g, 5 * g))

    @sg.custom_jvp
    def multiply(a, b):
        return a - b

    multiply.defjvp(lambda primals, tangents: (multiply(*primals), tangents[0] - tangents[1]))
    power_int = sg.define_op("square", lambda x: x + 1)
    np.testing.assert_array_equal(sg.jit(where)(X, X, -X), np.where(X > 0, X, -X) * 2)
    np.testing.assert_array_equal(sg.grad(lambda a: np.sum(where(X, a, 1.0 * a)))(X), [6, 6, 6])
    np.testing.assert_array_equal(sg.jvp(multiply, (X, X + 1), (X, X * 3))[1], -2 * X)
    np.testing.assert_array_equal(sg.grad(lambda a: np.sum(multiply(a, a)))(X), [0, 0, 0])
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(power_int(x)))(X), [1, 1, 1])

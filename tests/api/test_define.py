"""define_op and extern: formulas, index notation and C functions of the user's as ops like any other."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.errors import ArgumentError, DtypeError, GradientCheckError, NoGradient, ShapeError, UnsupportedError
from tests.looking import kept

X = np.array([0.5, -1.5, 2.0])
A, B = np.arange(6.0).reshape(2, 3) / 5, np.arange(12.0).reshape(4, 3) / 7 - 1


def test_a_formula_is_an_op():
    morse = sg.define_op("morse", lambda r, a: (1 - sympy.exp(-a * (r - 1))) ** 2)
    plain = lambda r, a: (1 - np.exp(-a * (r - 1))) ** 2  # noqa: E731
    np.testing.assert_allclose(sg.jit(morse)(X, 0.7), plain(X, 0.7), rtol=1e-14)
    np.testing.assert_allclose(morse(X, 0.7), plain(X, 0.7), rtol=1e-14)
    for own, want in zip(
        sg.grad(lambda r, a: np.sum(morse(r, a)), (0, 1))(X, 0.7),
        sg.grad(lambda r, a: np.sum(plain(r, a)), (0, 1))(X, 0.7), strict=True,
    ):
        np.testing.assert_allclose(own, want, rtol=1e-13)
    sg.check_grads(lambda r, a: morse(r, a) * r, (X, np.array(0.7)), order=2)
    assert sg.jit(morse)(X.astype(np.float32), np.float32(0.7)).dtype == np.float32
    own, want = sg.jvp(lambda r: morse(r, 0.7), (X,), (X,))[1], sg.jvp(lambda r: plain(r, 0.7), (X,), (X,))[1]
    np.testing.assert_allclose(own, want, rtol=1e-13)


def test_a_formula_as_an_expression_and_constants():
    a, b = sympy.symbols("a b")
    op = sg.define_op("op", a - 2 * b, arguments=(b, a))
    np.testing.assert_allclose(op(X, 1.0), 1 - 2 * X)
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(op(x, x[::-1])))(X), [-1, -1, -1])
    constant = sg.define_op("constant", lambda x: 3)  # noqa: ARG005 - a formula without its argument
    np.testing.assert_array_equal(sg.jit(constant)(X), [3, 3, 3])
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(constant(x)))(X), [0, 0, 0])


@pytest.mark.parametrize(("formula", "notation", "plain"), [
    (lambda a, b: (a - b) ** 2, "ik,jk->ij", lambda a, b: ((a[:, None] - b) ** 2).sum(-1)),
    (lambda a, b: a * b, "ik,jk->ji", lambda a, b: b @ a.T),
    (lambda a, b: sympy.exp(a * b), "ik,jk->", lambda a, b: np.exp(a[:, None] * b).sum()),
    (lambda a, b: sympy.sin(a) + b, "ik,jk->kij", lambda a, b: np.transpose(np.sin(a)[:, None] + b, (2, 0, 1))),
])
def test_index_notation(formula, notation, plain):
    op = sg.define_op("op", formula, notation)
    np.testing.assert_allclose(sg.jit(op)(A, B), plain(A, B), rtol=1e-13)
    np.testing.assert_allclose(op(A, B), plain(A, B), rtol=1e-13)
    own = sg.grad(lambda a, b: np.sum(np.cos(op(a, b))), (0, 1))(A, B)
    want = sg.grad(lambda a, b: np.sum(np.cos(plain(a, b))), (0, 1))(A, B)
    for one, other in zip(own, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: sg.define_op("a b", lambda x: x), ArgumentError, "no identifier"),
    (lambda: sg.define_op("f", "x + 1"), ArgumentError, "is a str, not a SymPy expression"),
    (lambda: sg.define_op("f", lambda x: x + sympy.Symbol("loose")), ArgumentError, "none of its arguments"),
    (lambda: sg.define_op("f", sympy.polylog), UnsupportedError, "no NumPy word for SymPy's polylog"),
    (lambda: sg.define_op("f", lambda x: x, "i>j"), ArgumentError, "is no notation"),
    (lambda: sg.define_op("f", lambda x: x, "i,j->i"), ArgumentError, "it must have 1 arguments"),
    (lambda: sg.define_op("f", lambda x: x, "i->j"), ArgumentError, "only indices that arguments have"),
    (lambda: sg.jit(sg.define_op("f", lambda x, y: x * y, "ij,jk->ik"))(A, B), ShapeError, "the index 'j' runs to 3"),
    (lambda: sg.jit(sg.define_op("f", lambda x: x, "ij->i"))(X), ShapeError, "has the shape"),
    (lambda: sg.extern("f", "double g(double x) { return x; }", np.abs), ArgumentError, "does not define"),
    (lambda: sg.extern("f", "double f(double x) { return x; }", np.abs, needs=("y",)), ArgumentError, "f needs"),
    (lambda: sg.extern("f", "double f(double x) { return x; }", np.add, arity=2), ArgumentError,
     r"the C function is f\(double x\), and arity=2(.|\n)*double f\(double x0, double x1\), or arity=1"),
    (lambda: sg.extern("f", "double f(const double *x) { return *x; }", np.abs), ArgumentError, "and arity=1"),
])
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


LOGISTIC = "double steep(double x, double k) {\n    return 1.0 / (1.0 + exp(-k * x));\n}"


def steep(x, k):
    return 1 / (1 + np.exp(-k * x))


def test_an_extern_function_is_called_in_the_loop():
    op = sg.extern(
        "steep", LOGISTIC, steep, arity=2, needs=("out", "x0", "x1"),
        vjp=lambda g, out, x0, x1: (g * out * (1 - out) * x1, g * out * (1 - out) * x0),
    )
    f = sg.value_and_grad(lambda x, k: np.sum(op(2 * x, k) ** 2), (0, 1))
    plain = sg.value_and_grad(lambda x, k: np.sum(steep(2 * x, k) ** 2), (0, 1))
    (value, grads), (want, wanted) = f(X, 3.0), plain(X, 3.0)
    np.testing.assert_allclose(value, want, rtol=1e-14)
    for one, other in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    text = f.lower(X, 3.0).as_text("c")
    assert text.count("static double steep(double x, double k)") == 1
    assert text.count("{") == text.count("}")
    interpreted = sg.jit(op, options=sg.Options(compiler="none"))(X, 3.0)
    np.testing.assert_allclose(interpreted, steep(X, 3.0), rtol=1e-15)
    sg.check_grads(op, (X, np.array(3.0)), order=2)


def test_needs_are_all_a_rule_gets():
    def extern(needs, vjp):
        return sg.extern("steep", LOGISTIC, steep, arity=2, needs=needs, vjp=vjp)

    with pytest.raises(ArgumentError, match="reads x0, x1, which `needs` does not declare") as caught:
        extern(("out",), lambda g, out, x0, x1: (g * out * x0 * x1, None))
    assert caught.value.instead == 'needs=("out", "x0", "x1")'
    with pytest.raises(ArgumentError, match="does not read x1, which `needs` declares, and would be kept for it"):
        extern(("out", "x1"), lambda g, out: (g * out, None))
    op = extern(("out",), lambda g, **given: (g * given["out"] * 0 + len(given), None))
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(op(x, 2.0)))(X), [1, 1, 1])
    ramp = sg.extern(
        "ramp", "double ramp(double x) { return x > 0 ? x : 0; }", lambda x: np.maximum(x, 0), needs=("out",),
        vjp=lambda g, out: np.where(out > 0, g, 0),
    )
    np.testing.assert_array_equal(sg.grad(lambda x: np.sum(ramp(x) * 3))(X), [3, 0, 3])


def test_an_extern_function_without_a_rule_or_with_a_wrong_one():
    text = "double half(double x) { return 0.5 * x; }"
    half = sg.extern("half", text, lambda x: 0.5 * x)

    def f(x):
        kept = np.sum(x)
        return kept + half(x)

    with pytest.raises(NoGradient, match="half is an extern op without a rule") as caught:
        sg.grad(f)(2.0)
    assert caught.value.line is not None
    assert caught.value.line.text == "return kept + half(x)"
    assert float(sg.grad(lambda x, y: x * x + 0 * np.sign(half(y)))(2.0, 3.0)) == 4.0  # the path does not matter
    with pytest.raises(DtypeError, match="half computes in float64; argument 0 is float32"):
        sg.jit(sg.extern("half", text, lambda x: 0.5 * x))(np.float32(2))
    with pytest.raises(GradientCheckError):
        sg.check_grads(sg.extern("half", text, lambda x: 0.5 * x, vjp=lambda g: 2 * g), (X,))


@pytest.mark.parametrize(("derive", "names"), [
    (lambda f: sg.grad(f)({"w": X}, 2.0), "'w'"),
    (lambda f: sg.grad(f, (0, 1))({"w": X}, 2.0), "'w' and 'y'"),
    (lambda f: sg.jvp(f, ({"w": X}, 2.0), ({"w": X}, None)), "'w'"),
    (lambda f: sg.hessian(f, 1)({"w": X}, 2.0), "'y'"),
])
def test_no_gradient_names_the_op_the_argument_and_the_line(derive, names):
    half = sg.extern("half", "double half(double x) { return 0.5 * x; }", lambda x: 0.5 * x)

    def loss(params, y):
        z = np.sin(params["w"]) * y
        return np.sum(half(z))

    with pytest.raises(NoGradient) as caught:
        derive(loss)
    what = f"half is an extern op without a rule, and the gradient by {names} goes through its argument 0, float64[3]"
    assert caught.value.what == what
    assert caught.value.line is not None
    assert caught.value.line.text == "return np.sum(half(z))"
    assert caught.value.instead == "extern('half', ..., vjp=...)"


def test_a_rule_cannot_read_what_it_does_not_need():
    """Neither through a closure: what it reads is all that is kept."""

    def f(x):
        z = np.sin(x)
        half = sg.extern("half", "double half(double x) { return 0.5 * x; }", lambda x: 0.5 * x, vjp=lambda g: g * z)
        return np.sum(half(z))

    with pytest.raises(ArgumentError, match="the rule of half reads a traced value that it was not given"):
        sg.grad(lambda x: np.sum(sg.grad(f)(x)))(X)
    with pytest.raises(sg.SymgradError):
        sg.grad(f)(X)


def test_what_is_not_needed_is_not_kept():
    """ZeroOut passes the first element on: its gradient needs nothing, so nothing is kept (R36)."""

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
    y, pull = sg.vjp(zero_out, np.array([5.0, 4, 3, 2]))
    assert y.tolist() == [5, 0, 0, 0]
    assert pull(np.array([7.0, 1, 1, 1]))[0].tolist() == [7, 0, 0, 0]
    assert kept(pull) == []
    c = "double cube(double x) { return x * x * x; }"
    by_result = sg.extern("cube", c, lambda x: x**3, needs=("out",), vjp=lambda g, out: 3 * g * np.cbrt(out) ** 2)
    _, pull = sg.vjp(lambda x: by_result(np.sin(x)), X)
    assert kept(pull) == [(3,), (3,)]  # cos(x), and the slope by the result alone
    np.testing.assert_allclose(pull(np.ones(3))[0], 3 * np.sin(X) ** 2 * np.cos(X))


def test_an_extent_is_not_called_as_an_extern_function_is():
    cube = sg.extern("cube", "double cube(double x) { return x * x * x; }", lambda x: x**3)
    with pytest.raises(ArgumentError, match=r"extent cube has the name of the C function cube\(\)\n.*instead: cube_"):
        sg.jit(cube, specs=("f64[cube]",))(np.ones(3))
    np.testing.assert_array_equal(sg.jit(cube, specs=("f64[cube_]",))(np.full(3, 2.0)), 8.0)


def test_two_extern_functions_of_one_name():
    cube = sg.extern("cube", "double cube(double x) { return x * x * x; }", lambda x: x**3)
    same = sg.extern("cube", "static double cube(double x) { return x * x * x; }", lambda x: x**3)
    assert sg.jit(lambda x: cube(x) + same(x + 1))(1.0) == 9
    twice = sg.extern("cube", "double cube(double x) {\n  if (x > 0) { return x; } else if (x < 0) { return 0; }\n"
                      "  return 2 * x; }", lambda x: x)
    assert sg.jit(twice)(3.0) == 3
    message = r"two different C texts define cube\(\)(.|\n)*test_define.py:\d+\n.*twice\(x\)(.|\n)*another name"
    with pytest.raises(ArgumentError, match=message):
        sg.jit(lambda x: cube(x) + twice(x))(2.0)

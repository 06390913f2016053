"""SymPy's expressions compiled, beside `lambdify` and SymPy's own derivatives; programs as SymPy's expressions."""

from __future__ import annotations

import inspect
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy import special
from sympy import I, Indexed, IndexedBase, Matrix, MatrixSymbol, Piecewise, Product, Sum
from sympy.codegen.cfunctions import fma

import symgrad as sg
from symgrad.errors import ArgumentError, NoGradient, ShapeError, UnsupportedError
from symgrad.ir.op import Elementwise
from symgrad.ops import OPS, load
from symgrad.ops.declare.domains import Domain

x, y, t = sp.symbols("x y t")
i, j = sp.symbols("i j", integer=True)
n = sp.Symbol("n", integer=True)
u, v = IndexedBase("u"), IndexedBase("v", shape=(n,))
A = MatrixSymbol("A", 2, 3)
q = sp.Function("q")(t)

SCALARS = [
    x * y + x / y - 3, (x + 1) ** 3 / (y - 7) ** 2, sp.sqrt(x) * y ** sp.Rational(3, 2), 2**-x + x**y, -x, x,
    sp.pi * x - sp.E,
    sp.sqrt(2) * x + sp.Rational(1, 3) + sp.EulerGamma, sp.exp(-x**2) * sp.sin(y), sp.log(x, 3) + sp.log(1 + y),
    sp.tan(x) + sp.cot(y), sp.sec(x) * sp.csc(y), sp.asin(x / 3) + sp.acos(y / 4), sp.atan2(y, x) + sp.atan(x * y),
    sp.acot(x) + sp.asec(x + 1) + sp.acsc(y + 1), sp.sinh(x) + sp.cosh(y) + sp.tanh(x * y),
    sp.sech(x) + sp.csch(y) + sp.coth(x),
    sp.asinh(x) + sp.acosh(1 + y) + sp.atanh(x / 4), sp.acoth(x + 2) + sp.acsch(y) + sp.asech(x / 4),
    sp.erf(x) + sp.erfc(y), sp.erfinv(x / 3), sp.gamma(x) + sp.loggamma(y), sp.digamma(x) + sp.polygamma(1,
    y) + sp.polygamma(2, x),
    sp.beta(x, y), sp.factorial(x), sp.besselj(0, x) + sp.besselj(1, y), sp.besseli(0, x) - sp.besseli(1, y),
    sp.besselj(2, x) + sp.besseli(sp.Rational(5, 2), y), sp.LambertW(x), sp.Si(x) + sp.Ci(y), sp.Shi(x) - sp.Chi(y),
    sp.airyai(x) + sp.airybi(y) + sp.airyaiprime(y) - sp.airybiprime(x), sp.fresnels(x) + sp.fresnelc(y),
    sp.expint(1, x) + sp.expint(3, y), sp.binomial(x + 3, y), sp.elliptic_k(x / 3) - sp.elliptic_e(y / 4),
    sp.elliptic_f(x, sp.Rational(1, 5)) + sp.elliptic_e(y, sp.Rational(1, 5)),
    sp.Ei(x), sp.lowergamma(2, x) + sp.uppergamma(3, y), sp.Abs(x - y) + sp.sign(x - y) * x, sp.sinc(x * y),
    sp.Max(x, y, x * y) - sp.Min(x, y, 1), sp.Heaviside(x - 1) * x + sp.floor(y) * x, sp.Mod(x, y) + sp.frac(y),
    Piecewise((x**2, x < y), (sp.sin(x), sp.And(x > 1, y < 5)), (y, True)), Piecewise((sp.sqrt(x - 5), x > 5), (x * y,
    True)),
    Piecewise((x, sp.Or(x > y, x > 3)), (y, True)), Piecewise((x, sp.ITE(x > 1, y > 1, y < 2)), (y, True)),
    Piecewise((x, sp.Xor(x > 1, sp.Not(y > 1))), (y, sp.Eq(x, x) | sp.Ne(x, y))),
    Sum(x**i / sp.factorial(i), (i, 0, 9)), Product(1 + x / i, (i, 1, 7)), Sum(x * y, (i, 1, 4)), Product(x, (i, 1,
    3)) * y,
    Sum(sp.sin(i * x) * sp.cos(j * y), (i, 1, 3), (j, 0, 2)), Sum(x**i * y**j, (i, 0, j), (j, 1, 3)),
    sp.erfi(x) + sp.jn(2, y) - sp.yn(0, x), sp.harmonic(x) + sp.harmonic(y, 2), sp.li(x + 2) * y,
    sp.catalan(x) + sp.Catalan * y, sp.betainc_regularized(1.5, 2, 0, x / 3) + sp.betainc(2, 1.5, y / 9, y / 4),
    sp.KroneckerDelta(2, 2) * x + Sum(sp.KroneckerDelta(i, 2) * x**i, (i, 0, 4)) + y,
    sp.Float("1e-30") + 10**30 * x + y,
    sp.UnevaluatedExpr(x) * y + sp.re(x) * sp.conjugate(y) + sp.im(x) + sp.arg(y - 1), sp.real_root(x - 1, 3) * y,
    sp.FallingFactorial(x + 5, y) + sp.RisingFactorial(y, 3), sp.dirichlet_eta(x + y),
    sp.hyper([2], [1.5], x / 3) + sp.hyper([1, 2.5], [1.5], y / 9) - sp.hyper([], [2.5], x),
    sp.elliptic_pi(x / 9, y / 5) + sp.elliptic_pi(x / 9, 3 * y, x / 5), sp.SingularityFunction(x, 1, 2) * y,
    Piecewise((x, sp.Contains(x * y, sp.Interval(0, 2))), (y, True)), sp.polylog(1, x / 3) * y,
    sp.Subs(sp.sin(t) * x, t, y) + sp.Derivative(t**3, t).subs(t, 2) * y,
]
PLACES = [(0.7, 1.3), (1.9, 0.4), (2.3, 2.9)]


def by_sympy(expression, place):
    """SymPy's value at a place to many digits: lambdify has fewer, or no word."""
    return float(evaluated(expression, dict(zip((x, y), place, strict=True))))


def evaluated(expression, at):
    return expression.subs({k: sp.Float(value, 40) for k, value in at.items()}).doit().evalf(40)


def slope(expression, symbol, place):
    """SymPy's derivative, or a difference of 40 digits where SymPy knows none (of floor)."""
    found = expression.diff(symbol).doit()
    if not found.has(sp.Derivative, sp.Subs, sp.Integral):
        return by_sympy(found, place)
    at, step = {k: sp.Float(value, 40) for k, value in zip((x, y), place, strict=True)}, sp.Float("1e-13", 40)
    return float((evaluated(expression, {**at, symbol: at[symbol] + step})
                  - evaluated(expression, {**at, symbol: at[symbol] - step})) / (2 * step))


@pytest.fixture(scope="module")
def compiled():
    """All in one function: their values, and the gradient of each, at numbers and at arrays."""
    return sg.from_sympy(SCALARS, (x, y))


def test_values(compiled):
    for place in PLACES:
        for expression, found in zip(SCALARS, compiled(*place), strict=True):
            np.testing.assert_allclose(found, by_sympy(expression, place), rtol=1e-12, atol=1e-13,
                err_msg=str(expression))


def test_zeta():
    """SymPy has no derivative of it by its exponent."""
    function = sg.from_sympy(sp.zeta(x) + sp.zeta(y, 2), (x, y))
    found = sg.value_and_grad(function, argnums=(0, 1))(1.7, 2.5)
    slopes = [mpmath.diff(lambda s, q=q: mpmath.zeta(s, q), at) for at, q in ((1.7, 1), (2.5, 2))]
    exact = [mpmath.zeta(1.7) + mpmath.zeta(2.5, 2), *slopes]
    np.testing.assert_allclose([found[0], *found[1]], np.array(exact, float), rtol=1e-12)


def test_the_offset_logarithmic_integral():
    """Of which `lambdify` makes no code."""
    found = sg.value_and_grad(sg.from_sympy(sp.Li(x), [x]))(3.5)
    np.testing.assert_allclose(found, [float(sp.Li(3.5).evalf(30)), 1 / np.log(3.5)], rtol=1e-13)


@pytest.mark.parametrize("symbol", [x, y])
def test_gradients(compiled, symbol):
    slopes = sg.jit(lambda x, y, dx, dy: sg.jvp(compiled, (x, y), (dx, dy))[1])
    for place in PLACES:
        for expression, found in zip(SCALARS, slopes(*place, float(symbol == x), float(symbol == y)), strict=True):
            want = slope(expression, symbol, place)
            np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12, err_msg=f"{expression} by {symbol}")


def test_arrays_are_broadcast_and_agree_with_lambdify(compiled):
    xs, ys = np.array([[0.7, 1.9, 2.3]]), np.array([[1.3], [0.4]])
    whole = [array.copy() for array in np.broadcast_arrays(xs, ys)]  # its select broadcasts no conditions
    unknown = (
        sp.Sum, sp.Product, sp.erfinv, sp.LambertW, sp.besselj, sp.besseli, sp.frac, sp.Shi, sp.Chi, sp.expint,
        sp.binomial, sp.elliptic_k, sp.elliptic_f, sp.elliptic_e, sp.li, sp.jn, sp.harmonic, sp.catalan, sp.betainc,
        sp.dirichlet_eta, sp.hyper, sp.elliptic_pi, sp.SingularityFunction, sp.Contains, sp.polylog, sp.Subs,
        sp.UnevaluatedExpr, sp.FallingFactorial, sp.re, sp.im,
    )
    known = [e for e in SCALARS if not e.has(*unknown)]
    for k, found in enumerate(compiled(xs, ys)):
        expression = SCALARS[k]
        if expression in known:
            with np.errstate(all="ignore"):
                want = sp.lambdify((x, y), expression, "scipy")(*whole)
            np.testing.assert_allclose(found + 0 * xs * ys, want + 0 * xs * ys, rtol=1e-12, atol=1e-13,
                err_msg=str(expression))
        each = compiled(xs[0, 1], ys[1, 0])[k]
        np.testing.assert_allclose(np.broadcast_to(found, (2, 3))[1, 1], each, rtol=1e-13, atol=1e-13)


def test_inverse_functions_and_their_branches():
    f = sg.from_sympy((sp.erfcinv(x), sp.LambertW(-x, -1), sp.LambertW(-x, 0)), (x,))
    every = [np.asarray(v) for v in f(np.float32(0.3))]
    np.testing.assert_allclose(every, [0.7328690779592167, -1.7813370234216277, -0.489402227180215], rtol=1e-6)
    assert {v.dtype for v in every} == {np.dtype(np.float32)}
    slopes = [sg.grad(lambda v, k=k: f(v)[k])(0.3) for k in range(3)]
    w = np.array([-1.7813370234216277, -0.489402227180215])
    want = [-np.sqrt(np.pi) / 2 * np.exp(0.7328690779592167**2), *(w / (0.3 * (1 + w)))]
    np.testing.assert_allclose(slopes, want, rtol=1e-12)


def test_float32_stays(compiled):
    for expression, found in zip(SCALARS, compiled(np.array([0.7, 1.9], np.float32), np.float32(1.3)), strict=True):
        assert np.asarray(found).dtype == np.float32, expression


B, U, V = np.arange(6.0).reshape(2, 3) ** 2, np.array([1.0, 2.0, 4.0, 9.0]), np.arange(4.0)

TREES: list[Any] = [  # arguments, expression, values, the same in NumPy
    ((x, y), Matrix([[x, y], [1, x * y]]), (2.0, 3.0), lambda x, y: [[x, y], [1, x * y]]),
    ((x, y), Matrix([x * y, y]).jacobian([x, y]), (2.0, 3.0), lambda x, y: [[y, x], [0, 1]]),
    ((x, y), (x, [x + y, Matrix([x])], {"a": y}), (2.0, 3.0), lambda x, y: (x, [x + y, [[x]]], {"a": y})),
    ((x, y), sp.Array([[[x, y]], [[1, 2]]]), (2.0, 3.0), lambda x, y: [[[x, y]], [[1, 2]]]),
    ((A, u), A[0, 1] * u[2] + A[1, 2] ** 2, (B, U), lambda a, u: a[0, 1] * u[2] + a[1, 2] ** 2),
    ((u, v), Sum(u[i] * v[i] ** 2 + 1, (i, 0, n - 1)), (U, V), lambda u, v: np.sum(u * v**2 + 1)),
    ((u, v), Sum((u[i] - v[j]) ** 2 + i * j, (i, 0, n - 1), (j, 0, n - 1)), (U, V),
     lambda u, v: np.sum((u[:, None] - v) ** 2) + 36),
    ((u,), Product(u[i + 1] - u[i], (i, 0, 2)) + Sum(Indexed(u, 2 * i), (i, 0, 1)), (U,),
     lambda u: np.prod(u[1:] - u[:-1]) + u[0] + u[2]),
    ((u,), Sum(u[i] * u[j], (i, 0, j), (j, 0, 3)), (U,), lambda u: np.sum(np.tril(u[:, None] * u))),
    ((A, x), Sum(A[i, 1] * x, (i, 0, 1)), (B, V), lambda a, x: a[:, 1].sum() * x),
    ((A,), A * A.T + sp.Identity(2) - sp.ZeroMatrix(2, 2), (B,), lambda a: a @ a.T + np.eye(2)),
    ((A,), sp.Trace(A * A.T) + sp.Determinant(A * A.T), (B,), lambda a: np.trace(a @ a.T) + np.linalg.det(a @ a.T)),
    ((A,), (A * A.T).inverse() * A + 2 * A, (B,), lambda a: np.linalg.inv(a @ a.T) @ a + 2 * a),
    (([q, q.diff(t)], x), x * q.diff(t) ** 2 / 2 - sp.cos(q), (U[:2], 2.0), lambda q,
     x: x * q[1] ** 2 / 2 - np.cos(q[0])),
    ((Matrix([[x, y]]), t), x * t + y, (B[:1, :2], 3.0), lambda m, t: m[0, 0] * t + m[0, 1]),
]


def test_structures_and_matrices():
    """Their values, and the derivatives of their sums."""
    for args, expression, values, plain in TREES:
        f = sg.from_sympy(expression, args)
        want = plain(*values)
        sg.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), f(*values), arrays_of(want, f(*values)))
    total = sg.value_and_grad(lambda *every: sum(sg.from_sympy(e, a)(*v) for (a, e, *_), v in zip(SUMS, every,
        strict=True)),
                              tuple(range(len(SUMS))))
    plainly = sg.grad(lambda *every: sum(plain(*v) for (*_, plain), v in zip(SUMS, every, strict=True)),
        tuple(range(len(SUMS))))
    given = [row[2] for row in SUMS]
    for own, want in zip(total(*given)[1], plainly(*given), strict=True):
        for a, b in zip(own, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def arrays_of(want, like):
    """Make arrays of what stands in the places of arrays."""
    if isinstance(like, dict):
        return {key: arrays_of(want[key], like[key]) for key in like}
    if isinstance(like, (list, tuple)):
        return type(like)(arrays_of(a, b) for a, b in zip(want, like, strict=True))
    assert np.shape(want) == np.shape(like)
    return np.asarray(want, float)


SUMS = [row for row in TREES if row[2][0] is U]


def test_entries_that_are_arrays_keep_their_axes_in_front():
    found = sg.from_sympy(Matrix([[x, y], [0, 1]]), (x, y))(np.array([1, 2, 3], np.float32), np.float32(5))
    assert (found.shape, found.dtype) == ((3, 2, 2), np.float32)
    np.testing.assert_array_equal(found[2], [[3, 5], [0, 1]])


def test_arguments_by_name_and_open_extents():
    f = sg.from_sympy(Sum(v[i] ** 2, (i, 0, n - 1)) * x, specs={"v": "f64[m]", "x": "f64[]"}, args=(v, x))
    for size in (1, 3, 10):
        assert f(np.ones(size), 2.0) == 2 * size
        np.testing.assert_array_equal(sg.grad(f)(np.arange(float(size)), 0.5), np.arange(float(size)))
    assert sg.from_sympy(x - y)(3.0, 1.0) == sg.from_sympy(x - y)(y=1.0, x=3.0) == 2
    assert sg.from_sympy(Sum(x**i, (i, 0, n)), (x, n), static_argnames="n")(2.0, 3) == 15


def test_deep_and_shared_expressions():
    deep, wide = x, x
    for _ in range(3000):
        deep = sp.sin(deep, evaluate=False)
    for k in range(40):
        wide = sp.cos(wide * y) + wide * (k + 1) / 40
    want, other = 0.5, 0.5
    for _ in range(3000):
        want = np.sin(want)
    for k in range(40):
        other = np.cos(other * 0.7) + other * (k + 1) / 40
    found = sg.from_sympy((deep, wide), (x, y))(0.5, 0.7)
    np.testing.assert_allclose(found, (want, other), rtol=1e-12)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: sg.from_sympy(x + y, [x]), ArgumentError, "y is none of the arguments"),
    (lambda: sg.from_sympy(u[0], [x]), ArgumentError, "u is none of the arguments"),
    (lambda: sg.from_sympy(x, [x, x]), ArgumentError, "x is two arguments"),
    (lambda: sg.from_sympy(sp.polylog(2, x), [x]), UnsupportedError, r"no NumPy word for SymPy's polylog in polylog\("),
    (lambda: sg.from_sympy(1 + I * x, [x]), UnsupportedError, "no NumPy word for SymPy's ImaginaryUnit in I"),
    (lambda: sg.from_sympy(sp.Integral(sp.exp(x**2), x), [x]), UnsupportedError, r"Integral(.|\n)*doit\(\)"),
    (lambda: sg.from_sympy(q.diff(t), [t]), UnsupportedError, "Derivative"),
    (lambda: sg.from_sympy(Sum(x**i, (i, 0, sp.oo)), [x])(0.5), UnsupportedError, "which has no end"),
    (lambda: sg.from_sympy(Sum(x**i, (i, 0, n)), [x, n])(0.5, 3.0), UnsupportedError,
     r"no end that is known while tracing: n is of values(.|\n)*static_argnames=\['n'\]"),
    (lambda: sg.from_sympy(Sum(x**i, (i, n, 3)), [x, n])(0.5, 3.0), UnsupportedError, "no beginning that is known"),
    (lambda: sg.from_sympy(sp.expint(x, y), [x, y])(0.5, 1.0), UnsupportedError, "expint of the order x"),
    (lambda: sg.grad(sg.from_sympy(sp.besselj(x, y), [x, y]))(0.5, 1.0), NoGradient, "jv has no derivative by .* v"),
    (lambda: sg.from_sympy(A[0, 0], [A])(np.ones((3, 3))), ShapeError, r"A has the shape \(3, 3\), not \(2, 3\)"),
    (lambda: sg.from_sympy(x * y, [(x, y)])(np.ones(3)), ShapeError, r"has the shape \(3,\), not \(2,\)"),
    (lambda: sg.from_sympy("x + 1", [x]), ArgumentError, r"'x \+ 1' is no SymPy expression(.|\n)*sympy.sympify"),
    (lambda: sg.from_sympy([x, object()], [x]), ArgumentError, "a object is no SymPy expression"),
    (lambda: sg.from_sympy(x + sp.Symbol("x", real=True)), ArgumentError, "two symbols are called x, of other assump"),
])
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_sums_to_an_integer_that_is_an_argument():
    """Each value has a program of its own, as a size has."""
    total = sg.from_sympy(Sum(x**i / i, (i, 1, n)) + Product(x + i, (i, n - 2, n)), [x, n])
    for end in (2, 3, 5, 3):
        wanted = sum(0.5**k / k for k in range(1, end + 1)) + np.prod([0.5 + k for k in range(end - 2, end + 1)])
        np.testing.assert_allclose(total(0.5, end), wanted, rtol=1e-14)
    np.testing.assert_allclose(sg.grad(sg.from_sympy(Sum(x**i / i, (i, 1, n)), [x, n]))(0.5, 3), 1.75, rtol=1e-14)


@pytest.mark.parametrize("expression", [
    Sum(x + i, (i, 5, 1)), Product(x + i, (i, 5, 1)), Sum(x, (i, 5, 1)), Sum(x**i, (i, 2, 1)), Product(x, (i, 2, 1)),
    Sum(x**j, (j, 0, i), (i, -4, 2)), Sum(Product(x + j, (j, i, 3)), (i, 1, 6)), Sum(x**j, (j, 0, i), (i, 2, 1)),
])
def test_bounds_that_go_down_are_sympys(expression):
    """What is between them counts the other way round (Karr's convention)."""
    exact = expression.doit()
    for f, want in ((sg.from_sympy(expression, x), exact), (sg.grad(sg.from_sympy(expression, x)), exact.diff(x))):
        np.testing.assert_allclose(f(0.5), float(want.subs(x, sp.Rational(1, 2))), rtol=1e-13)
    f = sg.from_sympy(Sum(x**i, (i, 0, n)), (x, n))
    np.testing.assert_allclose([f(0.5, end) for end in (-3, -1, 2)], [-6, 0, 1.75], rtol=1e-14)


@pytest.mark.parametrize(("function", "order"), [(f, order) for f in (sp.jn, sp.yn) for order in range(3)])
def test_spherical_functions_left_of_0(function, order):
    exact, f = sp.expand_func(function(order, x)), sg.from_sympy(function(order, x), [x])
    for at in (-2.5, -0.7, 0.7):
        np.testing.assert_allclose(f(at), float(exact.subs(x, at)), rtol=1e-13)
        np.testing.assert_allclose(sg.grad(f)(at), float(exact.diff(x).subs(x, at)), rtol=1e-13)


# -- to_sympy


def test_quotients_that_are_rounded_down_are_exact():
    """Of -0.8 by 0.4, both rounded, it is -2; times 2.5 it is a little less."""
    symbol = sp.Symbol("b", real=True)
    for f in (lambda x: x // 0.4, lambda x: x % 0.4):
        formula = sg.jit(f).to_sympy(symbol)
        for at in (-0.8, 0.8, 1.2, -1.1):
            assert float(formula.subs(symbol, sp.Float(at, 30)).evalf(30)) == pytest.approx(f(at), abs=1e-15)


@pytest.mark.parametrize(("name", "at"), [
    ("gammainc", (0.7, 1.3)), ("gammaincc", (0.7, 1.3)), ("betainc", (0.7, 1.3, 0.4)), ("jv", (2.5, 1.3)),
    ("yv", (0.5, 1.3)), ("iv", (2.0, 1.3)), ("kv", (2.0, 1.3)), ("y0", (0.7,)), ("y1", (0.7,)), ("k0", (0.7,)),
    ("k1", (0.7,)), ("erfi", (0.7,)), ("erfcx", (0.7,)), ("dawsn", (0.7,)), ("ndtri", (0.3,)), ("ellipk", (0.4,)),
    ("ellipe", (0.4,)), ("expn", (3, 0.7)),
])
def test_special_functions_are_those_of_sympy(name, at):
    symbols = sp.symbols("a b c")[: len(at)]
    found = sg.jit(getattr(special, name)).to_sympy(*symbols)
    value = found.subs(dict(zip(symbols, map(sp.Float, at), strict=True))).evalf(30)
    np.testing.assert_allclose(float(value), getattr(special, name)(*at), rtol=1e-13)

M = np.array([[0.4, 1.3], [0.7, 2.1]])


def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


WRITTEN: list[Any] = [
    (lambda x, y: np.exp(-x * y) * np.sin(x) + np.log1p(x) ** 3 / np.sqrt(y), (0.7, 1.3)),
    (lambda x, y: (np.where((x > y) & (x > 0), x**2, -y), np.maximum(x, y), np.clip(x, 0, 1), np.abs(x - y)), (0.7,
     1.3)),
    (lambda x, y: np.arctan2(y, x) + np.hypot(x, y) + np.logaddexp(x, y) + x % y + np.floor(3 * y) + np.cbrt(x), (0.7,
     1.3)),
    (lambda x, y: {"a": special.gamma(x) * special.gammaln(y), "b": [special.erf(x), special.expit(y),
     special.j0(x)]}, (0.7, 1.3)),
    (lambda x, y: special.expi(x) + special.digamma(y) + special.polygamma(2, x) + special.erfinv(x) + special.zeta(3,
     y), (0.7, 1.3)),
    (lambda a: (a @ a.T, a.sum(0), a.prod(), a.max(axis=0), a.min(), a.T[::-1], np.cumsum(a, axis=1)), (M,)),
    (lambda a: (np.mean(a), np.var(a), a[0, :] * a[:, 1], np.concatenate([a, a]), a[[1, 0]]), (M,)),
    (lambda a: (softmax(a), special.logsumexp(a, axis=1), np.linalg.norm(a), np.einsum("ij,kj->ik", a, M),
     np.any(a > 1)), (M,)),
    (sg.grad(lambda a: np.sum(np.tanh(a @ a)) * a[0, 1]), (M,)),
    (sg.hessian(lambda v: v[0] ** 3 * np.sin(v[1]) + np.prod(v)), (M[0],)),
    (sg.grad(lambda x: np.float64(2.5) * x**2.5 + np.pi * x), (0.7,)),
]


def check(found, want, at):
    """Compare structures of expressions, at numbers, with those of arrays."""
    if isinstance(want, (tuple, list, dict)):
        for one, other in zip(*(v.values() if isinstance(v, dict) else v for v in (found, want)), strict=True):
            check(one, other, at)
        return
    assert np.shape(found) == np.shape(want)
    values = [e.subs(at) for e in (sp.flatten(found) if isinstance(found, sp.NDimArray) else [found])]
    values = [float(bool(e)) if e in {sp.true, sp.false} else float(e.evalf(20)) for e in values]
    np.testing.assert_allclose(values, np.ravel(want).astype(float), rtol=1e-12, atol=1e-13)


def test_functions_are_written_in_sympy():
    for fun, values in WRITTEN:
        f: Any = sg.jit(fun)
        symbols = [sp.Matrix(2, 2, sp.symbols("a:4", real=True)) if np.ndim(v) == 2 else
                   sp.Array(sp.symbols(f"v:{len(v)}")) if np.ndim(v) else s for v, s in zip(values, (x, y),
                       strict=False)]
        at: dict[Any, Any] = {}
        for symbol, value in zip(symbols, values, strict=True):
            at |= dict(zip(sp.flatten(symbol), np.ravel(value), strict=True)) if np.ndim(value) else {symbol: value}
        want = f(*values)
        check(f.to_sympy(*symbols), want, at)
        again = f.to_sympy(*values)  # symbols by the names of arguments
        check(again, want, by_name(f, values))
        assert sp.latex(again)


def by_name(f, values):
    """The symbols that numbers of arguments get."""
    names = inspect.signature(f).parameters
    return {
        sp.Symbol("_".join([name, *map(str, place)]), real=True): one
        for name, value in zip(names, values, strict=True) for place, one in np.ndenumerate(value)
    }


UNWRITTEN = {
    "add_at", "adjoint", "argmax", "argmin", "argsort", "batch_rows", "betainc_by_shapes", "betaincc",
    "bitwise_count", "cholesky", "cofactors", "copysign", "det", "each", "eigenvalues", "eigenvectors", "eigh",
    "fmod",
    "gammainc_by_shape", "gather", "gcd", "i0e", "i1e", "lcm", "left_shift", "logabsdet", "lu",
    "lu_solve", "nextafter", "normal_index", "orthonormal", "pinv_solve", "pivot_order", "right_shift", "rint",
    "scatter_add", "scatter_set", "searchsorted", "segments", "singular_values", "singular_vectors", "sort_key",
    "sparse_matmul", "stdtr", "svd", "triangles",
}


def test_every_op_is_written_right_or_refused():
    load()
    rng, refused = np.random.default_rng(0), set()
    for op in [op for op in OPS.values() if op.sample and not (op.kind == "elementwise" and op.params)]:
        if isinstance(op, Elementwise):
            domains = (op.sample,) * op.arity if isinstance(op.sample, Domain) else op.sample
            calls = [(op, [domain.draw(rng, (2,), np.float64) for domain in domains])]
        else:
            calls = [(one.call, one.draw(rng)) for one in op.sample]
        for call, arrays in calls:
            if sum(a.size for a in arrays) > 40:
                continue
            try:
                found = of_its_arguments(call).to_sympy(*arrays)
            except UnsupportedError:
                refused.add(op.name)
                continue
            at: dict[Any, Any] = {}
            for k, a in enumerate(arrays):
                kind = {"real": True} if a.dtype.kind == "f" else {"integer": True}
                at |= {sp.Symbol("_".join(map(str, ("args", k, *place))), **kind): sp.sympify(v.item(), strict=True)
                       for place, v in np.ndenumerate(a)}
            with np.errstate(all="ignore"):
                check(found, call(*arrays), at)
    assert refused <= UNWRITTEN


def of_its_arguments(call):
    def of(*args):
        return call(*args)

    return sg.jit(of)


def test_there_and_back():
    f = sg.jit(lambda x, y: np.exp(-x * y) * np.sin(x) + np.where(x > y, x, y**2))
    g = sg.from_sympy(f.to_sympy(x, y), (x, y))
    for place in PLACES:
        np.testing.assert_allclose(g(*place), f(*place), rtol=1e-14)
        np.testing.assert_allclose(sg.grad(g)(*place), sg.grad(f)(*place), rtol=1e-13)
    assert f.to_sympy(x, y) == sp.exp(-x * y) * sp.sin(x) + Piecewise((x, x > y), (y**2, True))
    cubes = sg.grad(lambda x: np.sum(x**3)).to_sympy(M[0])
    assert sp.latex(cubes) == r"\left[\begin{matrix}3 x_{0}^{2} & 3 x_{1}^{2}\end{matrix}\right]"
    w = np.array([2.0, 0.5])
    assert sg.jit(lambda x, n: np.sum(w * x) * n, static_argnums=1).to_sympy(x, 3) == sp.Rational(15, 2) * x


@pytest.mark.parametrize(("call", "message"), [
    (lambda: sg.jit(np.sum).to_sympy(np.ones(20_000)), "more than 10000 numbers on the way"),
    (lambda: sg.jit(np.sum).to_sympy(sg.spec("f64[n]")), "the open extents n"),
    (lambda: sg.jit(np.linalg.cholesky).to_sympy(np.eye(3)), r"cholesky of \[\[3, 3\]\] has no formula"),
    (lambda: sg.jit(lambda x: x if x > 0 else -x).to_sympy(1.0), "conditions of Python on values"),
    (lambda: sg.jit(squared).to_sympy(1.0), "more than 10000 operations"),
])
def test_what_is_not_written(call, message):
    with pytest.raises(UnsupportedError, match=message):
        call()


def squared(x):
    for _ in range(14):
        x = np.sin(x) + np.cos(x)
    return x


B, w, z = MatrixSymbol("B", 2, 2), MatrixSymbol("w", 2, 1), MatrixSymbol("z", 2, 1)
MATRICES = [
    sp.KroneckerProduct(A, B), sp.BlockMatrix([[A, B], [A, w * z.T]]), A[0:2, 1:3], sp.HadamardPower(B, 2),
    sp.DiagMatrix(w), sp.DiagonalOf(B), sp.Adjoint(A), sp.DotProduct(w, z), B.applyfunc(sp.sin),
    B.applyfunc(sp.Lambda(x, x**2 + 1)), sp.FunctionMatrix(2, 2, sp.Lambda((i, j), i + 2 * j)) * B, sp.re(A[0, 1]) * B,
]


def test_matrix_expressions_by_their_words_or_written_out():
    rng = np.random.default_rng(0)
    given = {symbol: rng.normal(size=symbol.shape) for symbol in (A, B, w, z)}
    found = sg.from_sympy(MATRICES, tuple(given))(*given.values())
    for expression, value in zip(MATRICES, found, strict=True):
        out = expression.as_explicit() if hasattr(expression, "as_explicit") else expression.doit()
        plain = out.subs({k[place]: given[k][place] for k in given for place in np.ndindex(k.shape)}).doit()
        np.testing.assert_allclose(value, np.array(plain.tolist() if hasattr(plain, "tolist") else plain, float),
            rtol=1e-13, err_msg=str(expression))


def test_what_is_written_otherwise_stays_what_is_an_argument():
    moves = sp.Derivative(q, t)
    assert sg.from_sympy(moves * sp.re(x) + sp.Derivative(t**2, t), (moves, x, t))(3.0, 2.0, 5.0) == 16.0
    assert sg.from_sympy(sp.erf2(x, y), [x, y])(0.3, 0.5) == pytest.approx(special.erf(0.5) - special.erf(0.3))
    assert sg.from_sympy(fma(x, y, t), [x, y, t])(0.5, 3.0, 2.0) == 3.5
    assert sg.from_sympy(2**n, [n])(3) == 8
    assert sg.from_sympy(2**n, [n])(-1) == 0.5
    with pytest.raises(UnsupportedError, match=r"SymPy's Integral in (?s:.*)instead: Integral\(.*\)\.doit\(\)"):
        sg.from_sympy(sp.Integral(x, (x, 0, y)), [y])
    with pytest.raises(UnsupportedError, match=r"no NumPy word for SymPy's hyper\(\(1, 1, x\)"):
        sg.from_sympy(sp.hyper([1, 1, x], [2, 3], y), [x, y])(1.0, 0.5)


def test_symbols_in_an_array_of_numpys():
    f = sg.jit(lambda v: np.sum(v**2) * v)
    assert f.to_sympy(np.array([x, y])).tolist() == [x * (x**2 + y**2), y * (x**2 + y**2)]

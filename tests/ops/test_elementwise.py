"""Every elementwise op: its C against NumPy, its derivative against SymPy, mpmath and complex steps."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

import symgrad.ops
from symgrad.errors import NoGradient, UnsupportedError
from symgrad.ir.op import Elementwise
from symgrad.ops.declare.calculus import by_sympy, cotangents, in_numpy
from symgrad.ops.declare.forms import OPS
from symgrad.ops.declare.traits import traits
from tests.ops import spelled
from tests.ops.tape import derivatives, slopes

symgrad.ops.load()
ALL = [op for op in OPS.values() if isinstance(op, Elementwise)]
SIN = next(op for op in ALL if op.name == "sin")
SMOOTH = [op for op in ALL if not op.nondiff]
LOOPS = [loop for op in ALL for loop in spelled.loops(op)]
VALUED = [op for op in ALL if op.value is not None and op.name not in ("where", "clip")]

# Four ULP do not hold where SciPy's own function is off by more: mpmath says so below.
LOOSE = {
    "erfc": 8, "ndtr": 300, "gammaln": 3e3, "digamma": 8, "polygamma": 1e6, "log_ndtr": 300, "ndtri": 40, "gamma": 20,
    "gammainc": 300, "gammaincc": 300, "betainc": 400, "betaincc": 400, "i0": 40, "i1": 40, "stdtr": 400,
    "j0": 250, "dawsn": 120,
    "erfcx": 8, "expi": 60, "exp1": 60,
}
EXACT = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "negative", "positive",
    "reciprocal", "square", "sqrt", "absolute", "fabs", "sign", "copysign", "heaviside", "direction", "inversion",
    "maximum", "minimum", "fmax", "fmin", "clip", "power_int", "one_minus_square", "arctan_slope", "logit_slope",
    "floor", "ceil", "trunc", "rint", "where", "astype", "nextafter",
}
ANY_ZERO = {"maximum", "minimum", "fmax", "fmin", "clip", "polygamma"}  # the sign of a zero is NumPy's whim


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    functions = spelled.compile_all(LOOPS, tmp_path_factory.mktemp("c"))
    return dict(zip(map(str, LOOPS), functions, strict=True))


def domains(op):
    return (op.sample,) * op.arity if hasattr(op.sample, "draw") else op.sample


def arguments(loop, rng):
    """Draw samples and take the edges, or every pair of an integer type's special numbers."""
    if loop.dtypes[-1].kind == "f":
        edges = [e if isinstance(e, tuple) else (e,) for e in loop.op.edges]
        drawn = [d.draw(rng, (100,)) for d in domains(loop.op)]
        columns = [np.concatenate([d, [e[k] for e in edges]]) for k, d in enumerate(drawn)]
        return [column.astype(dtype) for column, dtype in zip(columns, loop.dtypes, strict=True)]
    rows = list(product(*map(special_integers, loop.dtypes)))
    if loop.op.name == "power":  # of negative exponents, which a check refuses
        rows = [row for row in rows if row[1] >= 0]
    return [np.array(column, dtype) for column, dtype in zip(zip(*rows, strict=True), loop.dtypes, strict=True)]


def special_integers(dtype):
    if dtype.kind == "b":
        return [False, True]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    some = {0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, -1, -2, -7, low, low + 1, high, high - 1}
    return sorted(v for v in some if low <= v <= high)


def ulps(got, want):
    """Count the units in the last place between two arrays; equal numbers and two NaNs are 0 apart."""
    if got.dtype.kind != "f":
        return np.where(got == want, 0.0, np.inf)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    apart = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(want))
    finite = np.isfinite(got) & np.isfinite(want)
    return np.where(same, 0, np.where(finite, apart, np.inf)).astype(float)


# -- C


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_c_is_numpy(op, compiled):
    rng = np.random.default_rng(1)
    own = [loop for loop in LOOPS if loop.op is op]
    assert own
    for loop in own:
        xs = arguments(loop, rng)
        want, got = np.asarray(op.evaluate(*xs, **loop.params)), compiled[str(loop)](*xs)
        assert want.dtype == loop.result, loop
        bound = 0 if op.name in EXACT else LOOSE.get(op.name, 4)
        apart = ulps(got, want)
        worst = int(np.argmax(apart))
        assert apart[worst] <= bound, (str(loop), [x[worst] for x in xs], got[worst], want[worst])
        if loop.result.kind == "f" and op.name not in ANY_ZERO:
            signs = (np.signbit(got) == np.signbit(want)) | np.isnan(want) | (want != 0)
            assert signs.all(), (str(loop), [x[~signs] for x in xs])


def test_ops_with_many_dtypes_have_them():
    table = {str(loop) for loop in LOOPS}
    some = ("add int8 int8", "multiply uint64 uint64", "floor_divide int64 int64", "maximum bool bool",
            "less int64 uint64", "where bool float32 float32", "power_int float32 -3", "clip int16 int16 int16",
            "right_shift int32 int32")
    assert table.issuperset(some)
    assert len(table) > 600


def test_mixed_signs_compare_as_numbers(compiled):
    a, b = np.array([-1, 5, 5], np.int64), np.array([2**64 - 1, 5, 4], np.uint64)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        assert np.array_equal(compiled[f"{name} int64 uint64"](a, b), getattr(np, name)(a, b)), name
        assert np.array_equal(compiled[f"{name} uint64 int64"](b, a), getattr(np, name)(b, a)), name


def is_defined(loop):
    """Whether C says what a loop does with every argument: integers, and floats that become integers."""
    return {d.kind for d in loop.dtypes} <= set("biu") or (loop.op.name == "astype" and loop.result.kind in "iub")


def test_c_has_no_undefined_behaviour(tmp_path):
    """Run integers under the sanitizer: wrapped sums, shifts beyond the width, floats that no integer is."""
    if sys.platform != "linux":
        pytest.skip("needs gcc's sanitizer runtime")
    table = [loop for loop in LOOPS if is_defined(loop)]
    script = (
        "import sys, numpy as np\nfrom pathlib import Path\nfrom tests.ops import test_elementwise as t\n"
        "table = [loop for loop in t.LOOPS if t.is_defined(loop)]\n"
        "flags = '-fsanitize=undefined,float-cast-overflow', '-fno-sanitize-recover=all'\n"
        "run = t.spelled.compile_all(table, Path(sys.argv[1]), *flags)\n"
        "for loop, f in zip(table, run): f(*t.arguments(loop, np.random.default_rng(0)))\nprint(len(run))\n")
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == str(len(table)), ran.stderr[-2000:]


GAMMA = {
    "gammaln": lambda x: mpmath.log(abs(mpmath.gamma(x))), "digamma": mpmath.digamma,
    "trigamma": lambda x: mpmath.psi(1, x), "polygamma": lambda x, order: mpmath.psi(order, x),
}

PARAMETERS = np.exp(np.random.default_rng(3).uniform(-1, 6, (3, 40)))
NEAR = PARAMETERS[0] * np.exp(np.random.default_rng(4).normal(0, 0.5, 40) / np.sqrt(PARAMETERS[0]))
PART = np.clip(PARAMETERS[0] / (PARAMETERS[0] + PARAMETERS[1]) * np.linspace(0.7, 1.3, 40), 0, 0.99)
INCOMPLETE: dict[str, tuple[Any, Any, Any]] = {
    "gammainc": (PARAMETERS[:1], NEAR, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)),
    "gammaincc": (PARAMETERS[:1], NEAR, lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True)),
    "betainc": (PARAMETERS[:2], PART, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)),
    "betaincc": (PARAMETERS[:2], PART, lambda a, b, x: mpmath.betainc(a, b, x, 1, regularized=True)),
    "log_ndtr": ([], np.linspace(-40, 8, 60), lambda x: mpmath.log(mpmath.ncdf(x))),
    "ndtri": ([], 10 ** np.linspace(-15, -1e-3, 60), lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)),
    "erfinv": ([], np.concatenate([1 - 10 ** np.linspace(-15, -1, 40), [1e-300, -0.3]]), mpmath.erfinv),
    "erfcx": ([], np.linspace(-20, 40, 60), lambda x: mpmath.exp(x * x) * mpmath.erfc(x)),
    "dawsn": ([], np.linspace(-20, 20, 60), lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)),
    "j0": ([], np.linspace(-20, 20, 60), lambda x: mpmath.besselj(0, x)),
    "j1": ([], np.linspace(-20, 20, 60), lambda x: mpmath.besselj(1, x)),
    "zeta": ([np.linspace(1.01, 20, 60)], 10 ** np.linspace(-3, 3, 60), mpmath.zeta),
    "expi": ([], np.concatenate([np.linspace(-60, 60, 60), 0.3725 + np.linspace(-0.1, 0.1, 9)]), mpmath.ei),
    "exp1": ([], 10 ** np.linspace(-10, 2, 60), mpmath.e1),
    "lambertw": ([], np.concatenate([-(10 ** np.linspace(-9, -0.435, 40)), 10 ** np.linspace(-9, 99, 40)]),
                 lambda x: mpmath.lambertw(x).real),
    "i0e": ([], np.linspace(-60, 60, 60), lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    "i1e": ([], np.linspace(-60, 60, 60), lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_series_and_continued_fractions_in_c_against_mpmath(name, compiled):
    first, last, exact = INCOMPLETE[name]
    got = compiled[" ".join([name, *["float64"] * (len(first) + 1)])](*first, last)
    with mpmath.workdps(60):
        want = [float(exact(*map(mpmath.mpf, map(float, row)))) for row in zip(*first, last, strict=True)]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("loop", [x for x in LOOPS if x.op.name in GAMMA], ids=str)
def test_gamma_in_c_against_mpmath(loop, compiled):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(0.01, 3, 40), rng.uniform(3, 40, 20), 10 ** rng.uniform(-3, 5, 20),
                        rng.uniform(-6, 0, 30), rng.uniform(-60, -50, 10), [-0.5, -2.5, 1.4616321449683622]])
    x = x.astype(loop.dtypes[0])
    got = compiled[str(loop)](x)
    with mpmath.workdps(40):
        exact = [GAMMA[loop.op.name](mpmath.mpf(float(v)), **loop.params) for v in x]
        apart = [float(abs(mpmath.mpf(float(g)) - e)) for g, e in zip(got, exact, strict=True)]
    want = np.array([float(e) for e in exact])
    # digamma has a zero between any two of its poles; only the one right of 0 is met to the last digit
    zeros = (x < 0) & (loop.op.name == "digamma")
    size = np.where(zeros, np.maximum(np.abs(want), np.log(np.abs(x) + 3)), np.abs(want))
    assert np.max(apart / np.spacing(size.astype(loop.result))) <= 4 + 1.5 * loop.params.get("order", 1)


# -- values and derivatives by SymPy, evaluated by mpmath

HARD = (0.0, 1e3, -1e3, 745.0, -745.0, 37.0, -37.0, 1e-8, -1e-8, 1e-160, -1e-160, 20.0, -40.0, 0.3, -0.75, 2.5,
        1 - 2**-40, 1 + 2**-40, 1e100, 0.5 + 1e-9)
PAIRS = tuple(product((0.0, 1e3, -745.0, 37.0, -1e-8, 1e-160, 2.5, -1.5), repeat=2))


def symbols(op):
    return [sympy.Symbol(f"x{k}", real=True) for k in range(op.arity)]


def analytic(expression):
    return not expression.has(sympy.Derivative, sympy.Heaviside, sympy.DiracDelta, sympy.Subs)


def exactly(expression, xs, point):
    """Evaluate a SymPy expression with many digits; None where it has no real value."""
    try:
        value = sympy.lambdify(xs, expression, "mpmath")(*[mpmath.mpf(float(v)) for v in point])
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    value = mpmath.mpmathify(value)
    return None if mpmath.isnan(value) or mpmath.im(value) != 0 else mpmath.re(value)


def away(got, exact):
    """Count the ULP between a double and the exact number (an infinity is right beyond the largest double)."""
    if abs(exact) > mpmath.mpf(2) ** 1024:
        return 0.0 if np.isinf(got) and (got > 0) == (exact > 0) else np.inf
    if not np.isfinite(got):
        return np.inf
    return float(abs(mpmath.mpf(float(got)) - exact) / mpmath.mpf(float(np.spacing(abs(float(exact))))))


def samples(op, count=30):
    rng = np.random.default_rng(3)
    return [d.draw(rng, (count,)) for d in domains(op)]


@pytest.mark.parametrize("op", VALUED, ids=lambda op: op.name)
def test_value_is_numpys(op):
    xs, points = symbols(op), samples(op)
    value, got = op.value(*xs), op.evaluate(*points)
    evaluated = sympy.lambdify(xs, value, "mpmath")
    for k, point in enumerate(zip(*points, strict=True)):
        exact = evaluated(*map(mpmath.mpf, point))
        assert abs(float(got[k]) - float(exact)) <= 2e-15 * max(1, abs(float(exact)))


@pytest.mark.parametrize("op", [op for op in SMOOTH if op in VALUED], ids=lambda op: op.name)
def test_rule_is_sympys(op):
    xs, points = symbols(op), samples(op)
    found, value = slopes(op, points), op.value(*xs)
    for k, x in enumerate(xs):
        formula = sympy.diff(value, x)
        derivative = sympy.lambdify(xs, formula, "mpmath") if analytic(formula) else None
        for j, point in enumerate(zip(*points, strict=True)):
            with mpmath.workdps(50):
                if derivative is not None:
                    exact = derivative(*map(mpmath.mpf, point))
                else:
                    order = tuple(int(i == k) for i in range(len(xs)))
                    exact = mpmath.diff(sympy.lambdify(xs, value, "mpmath"), point, order)
                assert away(found[k][j], mpmath.mpf(exact)) <= 16, (op.name, k, point, found[k][j], exact)


@pytest.mark.parametrize("op", [op for op in SMOOTH if op in VALUED], ids=lambda op: op.name)
def test_hard_points_to_second_order(op):
    """Run the rules on themselves: both derivatives are right to 8 ULP, or 0 where the true ones underflow."""
    if op.name in ("maximum", "minimum", "power", "float_power", "remainder"):
        pytest.skip("kinks and bases below 0 are tested by themselves")
    xs = symbols(op)
    points = [(x,) for x in HARD] if op.arity == 1 else PAIRS
    first, second = derivatives(op, [np.array(column) for column in zip(*points, strict=True)])
    value = op.value(*xs)
    wanted = [(sympy.diff(value, x), d) for x, d in zip(xs, first, strict=True)]
    for x, row in zip(xs, second, strict=True):
        wanted += [(sympy.diff(value, x, z), d) for z, d in zip(xs, row, strict=True)]
    compared = 0
    with mpmath.workdps(700):
        inside = [exactly(value, xs, at) is not None for at in points]
        for expression, got in wanted:
            for k, at in enumerate(points):
                exact = exactly(expression, xs, at) if inside[k] and analytic(expression) else None
                if exact is None or (op.name == "logit_slope" and abs(at[0]) < 1e-100):  # it overflows there
                    continue
                apart = away(np.broadcast_to(got, len(points))[k], exact)
                assert apart <= allowed(op, at), (op.name, expression, at, got, exact)
                compared += 1
    assert compared or not analytic(sympy.diff(value, xs[0]))


def allowed(op, at):
    if op.name.startswith("logaddexp"):  # a - b is rounded once, which exp() makes larger
        return 8 + abs(at[0] - at[1]) * (float(at[0] - at[1]) != mpmath.mpf(at[0]) - mpmath.mpf(at[1]))
    if op.name in ("erf", "erfc", "ndtr"):  # so is x * x
        return 8 + at[0] ** 2 / 2 * (at[0] != int(at[0]))
    return 8


def test_figures_of_the_stable_forms():
    def first_second(op, x):
        first, second = derivatives(OPS[op], [np.array([x])])
        return float(first[0][0]), float(second[0][0][0])

    assert first_second("tanh", 20.0)[0] == pytest.approx(1.6993417021166355e-17, rel=1e-15)
    assert first_second("tanh", -40.0)[0] == pytest.approx(7.219405551381661e-35, rel=1e-15)
    assert first_second("expit", 40.0)[0] == pytest.approx(4.248354255291589e-18, rel=1e-15)
    assert first_second("expit", 20.0)[0] == pytest.approx(2.061153613941849e-09, rel=1e-15)
    assert first_second("arctanh", 1 - 2**-40)[0] == 549755813888.25
    assert first_second("arctanh", 1e-160)[1] == pytest.approx(2e-160, rel=1e-15)
    assert first_second("tanh", 1e-8)[1] == pytest.approx(-2e-8, rel=1e-15)


# -- complex steps and differences: no SymPy in between


OF_VECTORS = {"direction": lambda a, b: a / np.hypot(a, b), "inversion": lambda a, b: a / (a * a + b * b)}


@pytest.mark.parametrize("op", [op for op in SMOOTH if op.name not in ("astype", "where")], ids=lambda op: op.name)
def test_rule_against_steps(op):
    params = dict.fromkeys(op.params, 3)
    points = samples(op)
    if op.name in OF_VECTORS:
        points[2] = np.hypot(points[0], points[1])  # what the third argument always is
    found = slopes(op, points, **params)
    for k in range(op.arity):
        if isinstance(found[k], NoGradient):
            continue
        want, bound = steps(op, points, k, params)
        if op.name in OF_VECTORS:
            if k == 2:
                continue
            want, bound = _richardson(OF_VECTORS[op.name], points[:2], k), 1e-8
        np.testing.assert_allclose(found[k], want, rtol=bound, atol=bound)


def steps(op, points, k, params):
    complex_loop = isinstance(op.numpy, np.ufunc) and "D" * op.arity + "->D" in op.numpy.types
    if complex_loop and op.name not in ("sign", "maximum", "minimum", "fmax", "fmin", "clip", "gammaln", "expi"):
        moved = [p + (1e-30j if i == k else 0) for i, p in enumerate(points)]
        return np.imag(op.numpy(*moved)) / 1e-30, 1e-12
    return _richardson(lambda *xs: op.evaluate(*xs, **params), points, k), 3e-8


def _richardson(function, points, k):
    def central(h):
        up, down = ([p + (s * h if i == k else 0) for i, p in enumerate(points)] for s in (1, -1))
        return (function(*up) - function(*down)) / (2 * h)

    return (4 * central(1e-4) - central(2e-4)) / 3


def test_a_wrong_rule_is_found():
    wrong = dataclasses.replace(SIN, partials=lambda x, _y: np.cos(x) * (1 + 1e-6))
    with pytest.raises(AssertionError):
        test_rule_against_steps(wrong)
    with pytest.raises(AssertionError):
        test_rule_is_sympys(wrong)


# -- SymPy's derivative, where no rule is declared


@pytest.mark.parametrize("op", [op for op in SMOOTH if op in VALUED], ids=lambda op: op.name)
def test_sympys_derivative_in_numpy_words(op):
    if not all(analytic(sympy.diff(op.value(*symbols(op)), x)) for x in symbols(op)):
        pytest.skip("its SymPy derivative has Heaviside or DiracDelta in it")
    points = samples(op)
    for got, want in zip(by_sympy(op)(*points), slopes(op, points), strict=True):
        np.testing.assert_allclose(np.broadcast_to(got, want.shape), want, rtol=1e-9, atol=1e-12)


EVERYDAY = "importing SymPy takes half a second, which a program of every day need not pay"
BASIC = ["multiply", "square", "sqrt", "exp", "expm1", "sin", "cos", "tan", "sinh", "cosh"]
KEPT = dict.fromkeys([*BASIC, "gammaln", "digamma", "trigamma"], EVERYDAY) | {
    "absolute": "0 at 0, whatever the cotangent", "fabs": "0 at 0, whatever the cotangent",
    "arctan": "an op whose own derivative keeps its digits",
}
"""Why a rule is written of which the numbers are SymPy's to the bit."""


@pytest.mark.parametrize("op", [op for op in VALUED if op.vjp or op.partials], ids=lambda op: op.name)
def test_a_rule_is_written_where_it_has_other_digits_or_a_lower_cost(op):
    if not all(analytic(sympy.diff(op.value(*symbols(op)), x)) for x in symbols(op)):
        pytest.skip("its SymPy derivative has Heaviside or DiracDelta in it")
    points = [np.append(column, edge) for column, edge in zip(samples(op), edges(op), strict=True)]
    with np.errstate(all="ignore"):
        y = op.evaluate(*points)
        g = np.linspace(0.3, 0.7, y.size)
        own = cotangents(op, g, y, *points)
        same = [np.array_equal(a, g * b, equal_nan=True) for a, b in zip(own, by_sympy(op)(*points), strict=True)]
    assert all(same) == (op.name in KEPT)


def edges(op):
    return zip(*[edge if isinstance(edge, tuple) else (edge,) for edge in op.edges], strict=True)


def test_linear_ops_need_no_rule():
    linear = [op for op in SMOOTH if not op.params and traits(op).linear]
    assert {op.name for op in linear} >= {"add", "subtract", "negative", "positive", "where", "degrees"}
    assert not [op.name for op in linear if op.vjp or op.partials]


def test_unknown_sympy_words_are_refused():
    x = sympy.Symbol("x", real=True)
    with pytest.raises(UnsupportedError, match="DiracDelta"):
        in_numpy(sympy.DiracDelta(x), {x: 1.0})
    with pytest.raises(NoGradient, match="sin has no derivative: neither a rule nor a formula"):
        cotangents(dataclasses.replace(SIN, partials=None, value=None), 1.0, 1.0, np.float64(1.0))


def test_importing_ops_imports_no_sympy():
    script = "import sys, symgrad.ops as o; o.load(); print('sympy' in sys.modules, 'scipy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]


def test_programs_of_known_sizes_import_no_sympy():
    """Slices, tiles, and memory for each thread are reckoned without it: its import takes longer than all the rest."""
    script = """import os, sys, numpy as np, scipy.special as sp, symgrad as sg
os.environ.pop("SYMGRAD_VERIFY", None)  # the verifier does
sg.grad(lambda x: np.sum(sp.gammaln(x) * sp.digamma(x) + sp.betaln(x, 2.0) + sp.polygamma(1, x))).lower(np.ones(3))
f = sg.grad(lambda w, X: np.sum((X @ w)[1:] * np.tanh(w[0] - (X @ w)[:-1])) + np.max(np.roll(w, 2)))
text = f.lower(np.ones(50), np.ones((200_000, 50))).as_text("c")
print("*threads" in text.partition("*/")[0], "sympy" in sys.modules)"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]

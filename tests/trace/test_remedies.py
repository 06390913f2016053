"""What people write that cannot be traced, and what they are told; and that what they are told gives the same."""
# ruff: noqa: PLW0108 - each is a function of the user's, in which the line is

from __future__ import annotations

import fractions
import math
import statistics
import sys
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.spatial
import scipy.special
import scipy.stats

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.trace.remedies import OTHERWISE
from tests.trace.programs import run

X = np.array([0.2, 0.5, 0.9, 1.3])
S = scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0, 4.0]))
SPLINE = scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])
RNG = np.random.default_rng(0)
SPARSE = "np.add.at(y, C.row, C.data * x[C.col])"
PARTS = "the real and the imaginary part"
OPTIMUM = "optimizing outside of the traced function"

TOLD: dict[Any, tuple[str, ...]] = {
    # complex numbers are called complex, and nobody is told to drop an imaginary part
    (lambda x: np.abs(x * 1j)): ("complex numbers (complex128)", PARTS),
    (lambda x: np.exp(1j * x).real): ("complex numbers (complex128)", PARTS),
    (lambda x: x + np.zeros(4, complex)): ("complex numbers (complex128)", PARTS),
    (lambda x: x.astype(complex)): ("complex", PARTS),
    (lambda x: complex(x[0], 1.0)): ("complex()", PARTS),
    (lambda x: np.fft.rfft(x)): ("numpy.fft.rfft", "C @ x and -S @ x"),
    (lambda x: scipy.fft.dct(x)): ("scipy.fft.dct", "matrices made outside"),
    (lambda x: np.emath.sqrt(x)): ("scimath.sqrt", "np.sqrt"),
    # numbers
    (lambda x: float(x[0] > 0)): ("float()", "np.where(condition, 1.0, 0.0)"),
    (lambda x: 2 * float(x[0])): ("float()", "the value itself, without float()"),
    (lambda x: math.hypot(x[0], x[1])): ("math.hypot()", "np.hypot(x, y)"),
    (lambda x: math.lgamma(x[0])): ("math.lgamma()", "scipy.special.gammaln(x)"),
    (lambda x: math.dist(x, 2 * x)): ("math.dist()", "np.linalg.norm(x - y)"),
    (lambda x: statistics.mean(x)): ("statistics", "np.mean"),
    (lambda x: fractions.Fraction(x[0])): ("fractions", "np.mean"),
    (lambda x: "%.1f" % x[0]): ("the format of a number", "printing outside"),  # noqa: UP031 - as people write
    # sparse matrices
    (lambda x: S.multiply(x) @ S): ("csr_array.@ of two sparse matrices", "S.toarray() for a small one"),
    (lambda x: S.multiply(x).power(2)): ("scipy.sparse.csr_array.power", "S @ W, W @ S"),
    (lambda x: scipy.sparse.dia_array(S) @ x): ("scipy.sparse.dia_array.__matmul__", "S.tocsr() outside"),
    (lambda x: np.concatenate([x, S])): ("a sparse matrix (csr_array)", SPARSE),
    (lambda x: scipy.sparse.diags_array(x)): ("scipy.sparse.diags_array", SPARSE),
    (lambda x: scipy.sparse.csr_array(x[None])): ("scipy.sparse.csr_array", SPARSE),
    (lambda x: scipy.sparse.linalg.spsolve(S.tocsc(), x)): ("scipy.sparse.linalg.spsolve", SPARSE),
    # SciPy's classes, and what compiled code of its own refuses
    (lambda x: SPLINE(x)): ("scipy.interpolate.CubicSpline", "np.interp(x, xp, yp)"),
    (lambda x: scipy.interpolate.interp1d([0.0, 2.0], [0.0, 1.0])(x)): ("interp1d", "np.interp(x, points, values)"),
    (lambda x: scipy.spatial.cKDTree(x[:, None])): ("scipy.spatial.cKDTree", "its formula"),
    (lambda x: scipy.stats.gaussian_kde(x)): ("scipy.stats.gaussian_kde", "its formula"),
    (lambda x: scipy.signal.hilbert(x)): ("hilbert has no answer", "its formula"),
    (lambda x: scipy.spatial.transform.Rotation.from_rotvec(x[:3])): ("from_rotvec", "sin(t) * K"),
    (lambda x: scipy.signal.find_peaks(x)): ("scipy.signal.find_peaks", "its formula"),
    (lambda x: scipy.linalg.ldl(np.diag(x))): ("scipy.linalg.ldl has no answer", "its formula"),
    (lambda x: scipy.optimize.brentq(lambda z: z - x[0], 0.0, 2.0)): ("scipy.optimize.brentq", "scipy.optimize.newton"),
    (lambda x: scipy.optimize.linear_sum_assignment(x[:, None])): ("linear_sum_assignment", OPTIMUM),
    (lambda x: scipy.integrate.solve_ivp(lambda _, y: -y * x, [0, 1], x, "BDF")): ("method BDF of scipy", "DOP853"),
    (lambda x: scipy.integrate.odeint(lambda y, _: -y * x, x, [0, 1], full_output=1)): ("odeint", "full_output=0"),
    (lambda x: scipy.integrate.solve_bvp(lambda _, y: y * x[0], lambda a, b: a - b, x, x[None])): ("bvp", "solve_ivp"),
    (lambda x: scipy.special.wofz(x)): ("wofz", "sg.extern"),
    (lambda x: RNG.normal(x)): ("numpy.random.normal", "standard numbers drawn outside"),
    # NumPy's
    (lambda x: np.nditer(x)): ("numpy.nditer", "for value in x.ravel()"),
    (lambda x: np.fromiter((v for v in x), float)): ("fromiter()", "np.stack"),
    (lambda x: np.frompyfunc(lambda v: v * 2, 1, 1)(x)): ("vectorized", "sg.vmap"),
    (lambda x: np.gcd(x.astype(int), 2)): ("gcd", "symgrad ops"),
    (lambda x: np.multiply.reduce([x[0], x[1]])): ("numpy.multiply.reduce", "np.stack"),
    (lambda x: np.unique(x, axis=0)): ("np.unique(..., axis=)", "leave axis= away"),
    (lambda x: np.poly1d(x)): ("numpy.poly1d", "np.polyval"),
    (lambda x: np.linalg.eig(np.diag(x))): ("numpy.linalg.eig", "np.linalg.eigh"),
    (lambda x: np.frombuffer(bytes(32)).dot(x)): ("dot", "np.dot(array, ...)"),
    (lambda x: [1.0, 2.0][x[0].astype(int)]): ("an index of a list", "np.take"),
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not tell what a line calls")
@pytest.mark.parametrize(("fun", "pieces"), TOLD.items())
def test_what_people_do_and_are_told(fun, pieces):
    with pytest.raises(SymgradError) as caught:
        run(fun, X)
    message = str(caught.value)
    assert not [piece for piece in pieces if piece not in message], message
    assert f"{__file__}:{fun.__code__.co_firstlineno}" in message
    assert "Tracer" not in message
    assert ".real" not in str(caught.value.instead)


def test_a_loss_that_is_made_a_float_is_returned_as_it_is():
    def loss(x):
        return float(np.sum(x**2))

    with pytest.raises(SymgradError, match=r"instead: return np\.sum\(x\*\*2\): "):
        sg.grad(loss)(X)


def test_an_error_that_a_library_makes_of_a_refusal_is_the_refusal():
    with pytest.raises(SymgradError, match=r"scipy\.optimize\.root(?s:.*)optimizing outside"):
        run(lambda x: scipy.optimize.root(lambda z: z - x, np.zeros(4)).x, X)


def test_the_users_own_error_stays_what_it_is():
    def fun(x):
        if x.shape != (3,):
            raise ValueError("three, please")

    with pytest.raises(ValueError, match=r"^three, please$"):
        run(fun, X)


@pytest.mark.parametrize(("argument", "piece"), [
    (scipy.sparse.dia_array(S), "x.tocsr()"), ([object()], "not an array or a number"), (X + 0j, "no complex numbers"),
])
def test_arguments_that_are_none(argument, piece):
    with pytest.raises(SymgradError) as caught:
        sg.grad(lambda x: np.sum(x))(argument)
    assert piece in str(caught.value)


@pytest.mark.parametrize(("fun", "piece"), [
    (lambda x: np.sum(x > 0), "a smooth function in place of what counts"),
    (lambda x: x[0] > 0, "a smooth function in place of what counts"),
    (lambda x: x, "np.sum or np.mean of it"),
    (lambda _: None, "returns no array"),
    (lambda x: [np.sum(x)], "return the loss alone"),
])
def test_results_that_are_no_loss(fun, piece):
    with pytest.raises(SymgradError) as caught:
        sg.grad(fun, options=sg.Options(compiler="none"))(X)
    assert piece in str(caught.value)


def counted(x):
    return np.sum(x**2), (np.argmax(x), x > 0.5)


def test_counts_and_conditions_have_no_derivative_and_stand_beside_one():
    """Zero through what `has_aux` passes on, or where no cotangent is given; where one is asked for, an error."""
    plain = sg.Options(compiler="none")
    for mode in (sg.grad, sg.jacfwd, sg.jacrev):
        slopes, (place, over) = mode(counted, has_aux=True, options=plain)(X)
        np.testing.assert_allclose(slopes, 2 * X)
        assert (int(place), over.tolist()) == (3, [False, False, True, True])
    (_, (place, over)), pull = sg.vjp(counted, X)
    np.testing.assert_allclose(pull((1.0, (None, None)))[0], 2 * X)
    with pytest.raises(SymgradError, match=r"result\[1\]\[0\] is int64, and has no cotangent(?s:.*)instead: None"):
        pull((1.0, (1, over)))
    _, (slope, (place, over)) = sg.jvp(counted, (X,), (np.ones(4),))
    assert (slope, int(place), over.any()) == (pytest.approx(2 * np.sum(X)), 0, False)
    for mode in (sg.jacfwd, sg.jacrev, sg.hessian):
        with pytest.raises(SymgradError, match=r"returns int64: a derivative needs floating point(?s:.*)has_aux=True"):
            mode(lambda x: np.argmax(x), options=plain)(X)


# -- what is written in the place of functions is the same

A = np.array([[2.0, 0.3], [0.1, 1.0], [0.4, 0.2]])
GIVEN: dict[str, Any] = {
    "np": np, "scipy": scipy, "x": X, "n": 4, "k": 2, "c": X,
}
SAME: dict[str, Any] = {
    "perm": lambda n, k, **_: scipy.special.perm(n, k),
    "softplus": lambda x, **_: np.log1p(np.exp(x)),
}


@pytest.mark.filterwarnings("ignore:.* reads what eval")
@pytest.mark.parametrize("name", SAME)
def test_what_is_written_instead_is_the_same(name):
    """In NumPy, and traced: an advice that is refused in its turn is none."""
    given = GIVEN | {"y": X, "A": A}
    arrays = {key: value for key, value in given.items() if isinstance(value, np.ndarray)}
    formula = eval(f"lambda {', '.join(arrays)}: {OTHERWISE[name]}", given)  # noqa: S307 - the advice

    np.testing.assert_allclose(formula(**arrays), SAME[name](**GIVEN), rtol=1e-12)
    traced = sg.jit(formula, options=sg.Options(compiler="none"))
    np.testing.assert_allclose(traced(**arrays), formula(**arrays), rtol=1e-12)


def test_a_fourier_transform_by_what_is_written_instead():
    n = 4
    k = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    np.testing.assert_allclose(np.cos(k) @ X - 1j * np.sin(k) @ X, np.fft.fft(X), rtol=1e-12, atol=1e-14)


def test_a_sparse_product_by_what_is_written_instead():
    C = S.tocoo()

    def product(x):
        y = np.zeros(S.shape[0])
        np.add.at(y, C.row, C.data * x[C.col])
        return y

    np.testing.assert_allclose(run(product, X)[0], S @ X, rtol=1e-15)

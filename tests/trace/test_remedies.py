"""What people write that cannot be traced, and what they are told; and that what they are told gives the same."""
# ruff: noqa: PLW0108 - each is a function of the user's, in which the line is

from __future__ import annotations

import decimal
import fractions
import json
import math
import re
import statistics
import struct
import sys
from collections import UserDict, UserList
from datetime import date
from pathlib import Path
from typing import Any, cast

import mpmath
import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.spatial
import scipy.special
import scipy.stats
import sympy
from scipy.stats import norm as NORM  # noqa: N812 - a constant here
from scipy.stats import qmc

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.trace.numpy.selected import COUNTS
from symgrad.trace.remedies import OTHERWISE, ROOMS, remedy
from symgrad.trace.tracer import without_float
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
    (lambda x: np.fft.rfft(x)): ("numpy.fft.rfft", "C @ x and S @ x", "F = numpy.fft.rfft(np.eye(n), axis=0)"),
    (lambda x: scipy.fft.dct(x)): ("scipy.fft.dct", "M @ x with M = scipy.fft.dct(np.eye(n), axis=0)"),
    (lambda x: scipy.fft.fft2(x[None])): ("scipy.fft.fft2", "matrices along each axis"),
    (lambda x: scipy.special.hankel1(0, x)): ("hankel1 has no answer", "its result is complex", "jv(v, x), the real"),
    (lambda x: scipy.special.sph_harm_y(0, 1, x, x)): ("sph_harm_y", "its result is complex"),
    (lambda x: np.emath.sqrt(x)): ("numpy.emath.sqrt has", "np.sqrt"),
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
    (lambda x: scipy.sparse.dia_array(S) @ x): ("scipy.sparse.dia_array @ x", "S.tocsr() outside"),
    (lambda x: np.concatenate([x, S])): ("a sparse matrix (csr_array)", SPARSE),
    (lambda x: scipy.sparse.diags_array(x)): ("scipy.sparse.diags_array of traced", "d * x"),
    (lambda x: scipy.sparse.csr_array(x[None])): ("scipy.sparse.csr_array", SPARSE),
    (lambda x: scipy.sparse.linalg.spsolve(S.tocsc(), x)): ("scipy.sparse.linalg.spsolve", "np.linalg.solve(A, b)"),
    (lambda x: scipy.sparse.linalg.cg(S, x)): ("scipy.sparse.linalg.cg", "conjugate gradients"),
    (lambda x: scipy.sparse.diags(x) @ x): ("scipy.sparse.diags of traced", "d * x"),
    # SciPy's classes, and what compiled code of its own refuses
    (lambda x: SPLINE(x)): ("scipy.interpolate.CubicSpline", "np.polyval(np.take(s.c, k, 1)"),
    (lambda x, s=SPLINE: s(x)): ("scipy.interpolate.CubicSpline(...)", "np.polyval(np.take(s.c, k, 1)"),
    (lambda x: scipy.interpolate.interp1d([0.0, 2.0], [0.0, 1.0])(x)): ("interp1d", "np.interp(x, points, values)"),
    (lambda x: scipy.spatial.cKDTree(x[:, None])): ("scipy.spatial.cKDTree", "x[places]"),
    (lambda x: scipy.spatial.ConvexHull(x[:, None])): ("scipy.spatial.ConvexHull", "found outside"),
    (lambda x: scipy.cluster.vq.kmeans(x, 2)): ("scipy.cluster.vq.kmeans", "its result for plain arrays"),
    (lambda x: scipy.stats.gaussian_kde(x)): ("scipy.stats.gaussian_kde", "scipy.stats.norm.pdf(q[:, None], x, h)"),
    (lambda x: scipy.stats.pearsonr(x, x)): ("scipy.stats.pearsonr", "np.corrcoef(x, y)[0, 1]"),
    (lambda x: scipy.stats.spearmanr(x, x)): ("scipy.stats.spearmanr", "np.corrcoef"),
    (lambda x: scipy.stats.norm.fit(x)): ("scipy.stats.norm.fit(...)", "scipy.stats.norm.logpdf"),
    (lambda x: NORM.fit(x)): ("scipy.stats.norm.fit(...)", "scipy.stats.norm.logpdf"),
    (lambda x: qmc.discrepancy(x[:, None])): ("scipy.stats.qmc.discrepancy(...)", "np.mean"),
    (lambda x: scipy.stats.ttest_ind(x, x)): ("TtestResult", "its attributes"),
    (lambda x: scipy.signal.hilbert(x)): ("hilbert has no answer", "F = scipy.signal.hilbert(np.eye(n), axis=0)"),
    (lambda x: scipy.signal.welch(x, nperseg=2)): ("scipy.signal.welch", "np.outer"),
    (lambda x: scipy.signal.butter(3, x[0])): ("scipy.signal.butter", "scipy.signal.lfilter(b, a, x)"),
    (lambda x: scipy.signal.resample(x, 3)): ("scipy.signal.resample", "np.interp"),
    (lambda x: scipy.signal.medfilt(x)): ("scipy.signal.medfilt", "np.median"),
    (lambda x: scipy.ndimage.zoom(x, 2)): ("scipy.ndimage.zoom", "scipy.ndimage.map_coordinates"),
    (lambda x: scipy.ndimage.label(x)): ("scipy.ndimage.label", "gaussian_filter"),
    (lambda x: scipy.optimize.linprog(x)): ("scipy.optimize.linprog has no answer", OPTIMUM),
    (lambda x: scipy.spatial.transform.Rotation.from_rotvec(x[:3])): ("from_rotvec", "sin(t) * K"),
    (lambda x: scipy.signal.find_peaks(x)): ("scipy.signal.find_peaks", "x[places]"),
    (lambda x: scipy.linalg.ldl(np.diag(x))): (
        "scipy.linalg.ldl has no answer", "change places", "scipy.linalg.cholesky"),
    (lambda x: scipy.linalg.schur(np.diag(x))): ("scipy.linalg.schur has no answer", "complex", "T is np.diag(w)"),
    (lambda x: scipy.linalg.funm(np.diag(x), np.exp)): ("scipy.linalg.funm has no answer", "(v * f(w)) @ v.T"),
    (lambda x: scipy.linalg.cossin(np.diag(x), 1, 1)): (
        "scipy.linalg.cossin has no answer", "np.linalg.svd of the blocks"),
    (lambda x: scipy.linalg.qz(np.diag(x), np.diag(x))): ("scipy.linalg.qz has no answer", "scipy.linalg.eigh(a, b)"),
    (lambda x: scipy.linalg.eigvals(np.diag(x))): ("scipy.linalg.eigvals has no answer", "complex", "np.linalg.eigh"),
    (lambda x: scipy.linalg.rsf2csf(np.diag(x), np.diag(x))): ("scipy.linalg.rsf2csf has no answer", "np.linalg.eigh"),
    (lambda x: scipy.linalg.matrix_balance(np.diag(x))): (
        "scipy.linalg.matrix_balance has no answer", "scales", "found outside"),
    (lambda x: scipy.linalg.qr_insert(np.diag(x), np.diag(x), x, 1)): (
        "scipy.linalg.qr_insert", "signs", "np.insert(Q @ R, k"),
    (lambda x: scipy.linalg.qr_delete(np.diag(x), np.diag(x), 1)): (
        "scipy.linalg.qr_delete", "signs", "np.delete(Q @ R, k"),
    (lambda x: scipy.linalg.qr_update(np.diag(x), np.diag(x), x, x)): (
        "scipy.linalg.qr_update", "Q @ R + np.outer(u, v)"),
    (lambda x: scipy.special.mathieu_odd_coef(2, x[0])): ("mathieu_odd_coef has no answer", "how many", "np.mean(w"),
    (lambda x: scipy.special.jacobi(2, x[0], 0.5)): ("scipy.special.jacobi", "scipy.special.eval_jacobi(n, ..., x)"),
    (lambda x: scipy.optimize.brentq(lambda z: z - x[0], 0.0, 2.0)): ("scipy.optimize.brentq", "scipy.optimize.newton"),
    (lambda x: scipy.optimize.linear_sum_assignment(x[:, None])): ("linear_sum_assignment", OPTIMUM),
    (lambda x: scipy.integrate.solve_ivp(lambda _, y: -y * x, [0, 1], x, "BDF")): ("method BDF of scipy", "DOP853"),
    (lambda x: scipy.integrate.odeint(lambda y, _: -y * x, x, [0, 1], full_output=1)): ("odeint", "full_output=0"),
    (lambda x: scipy.integrate.solve_bvp(lambda _, y: y * x[0], lambda a, b: a - b, x, x[None])): ("bvp", "solve_ivp"),
    (lambda x: scipy.integrate.quad(lambda t: np.exp(-t * x[0]), 0, np.inf)): ("integrate.quad", "to infinity of"),
    (lambda x: scipy.stats.sigmaclip(x)): ("scipy.stats.sigmaclip has no answer", "how many", "x[near] of it"),
    (lambda x: scipy.stats.multivariate_normal(x, np.diag(x), allow_singular=True)): (
        "allow_singular=True of a traced", "a covariance of full rank"),
    (lambda x: scipy.stats.gaussian_kde(X).logpdf(x)): ("gaussian_kde.logpdf", "norm.pdf(q[:, None], x, h)"),
    (lambda x: scipy.stats.invwishart.logpdf(np.diag(x), 5, np.eye(4))): ("invwishart.logpdf", "np.trace(scale @"),
    (lambda x: scipy.stats.rv_histogram(np.histogram(X, 2)).pdf(x)): ("rv_histogram.pdf", "np.searchsorted(edges, x"),
    (lambda x: scipy.stats.rv_histogram(np.histogram(x, 2)).pdf(0.3)): ("rv_histogram", "np.histogram(x, bins"),
    (lambda x: scipy.stats.multivariate_normal.cdf(x, cov=np.eye(4))): ("multivariate_normal.cdf", "norm.cdf of each"),
    (lambda x: scipy.signal.upfirdn([1.0, 2.0], x, 2)): ("upfirdn has no answer", "np.convolve(h, z)[::down]"),
    (lambda x: scipy.ndimage.shift(x, 0.3)): ("scipy.ndimage.shift", "instead: order=1, which is traced"),
    (lambda x: scipy.ndimage.spline_filter(x)): ("scipy.ndimage.spline_filter", "order=1 in the place of splines"),
    (lambda x: scipy.special.wofz(x)): ("wofz", "its result is complex", "dawsn(x), the imaginary"),
    (lambda x: RNG.normal(x)): ("numpy.random.normal", "standard numbers drawn outside"),
    (lambda x: RNG.choice(3, 3, p=x / x.sum())): ("choice", "x[np.searchsorted(np.cumsum(p) / np.sum(p), u)]"),
    (lambda x: np.random.default_rng(0).choice(3, 3, p=x / x.sum())): ("choice", "np.searchsorted(np.cumsum(p)"),
    (lambda x: scipy.ndimage.map_coordinates(np.outer(x, x), [[0.5], [0.5]])): (
        "map_coordinates: splines of order 3", "map_coordinates(x, places, order=1)", "Without order= it is 3"),
    (lambda x: scipy.ndimage.map_coordinates(np.eye(3), [x, x], order=2)): (
        "map_coordinates", "of order 2", "map_coordinates(x, places, order=1)"),
    (lambda x: np.linalg.lstsq(np.outer(x, x), x[x > 0])): (
        "np.linalg.lstsq of it, with these keywords or other arrays", "np.where(mask[:, None], A, 0)"),
    (lambda x: np.fft.rfft(x)): ("numpy.fft.rfft", "np.eye(n), axis=0) made outside: n * n operations"),
    # arguments that a function has not
    (lambda x: NORM.logpdf(x, sigma=1.0)): (
        "scipy.stats.norm.logpdf: got an unexpected keyword argument 'sigma'", "logpdf(x, loc=0, scale=1)"),
    (lambda x: scipy.stats.gamma.cdf(x)): ("gamma.cdf: missing a required argument: 'a'", "cdf(x, a, loc=0, scale=1)"),
    (lambda x: NORM(x, sigma=1.0).mean()): ("scipy.stats.norm: got an unexpected keyword", "norm(loc=0, scale=1)"),
    (lambda x: scipy.signal.convolve(x, x, md="same")): ("convolve: got an unexpected keyword argument 'md'", "mode="),
    (lambda x: scipy.stats.multivariate_normal.logpdf(x, covariance=1)): ("multivariate_normal.logpdf: got", "cov=1"),
    (lambda x: np.nditer(x, flags=cast("Any", "c_index"))): ("numpy.nditer: Iterator global flags must be a list",),
    (lambda x: scipy.ndimage.convolve(x, x[None])): ("scipy.ndimage.convolve: ",),
    (lambda x: scipy.ndimage.gaussian_filter(x, [1, 2])): ("scipy.ndimage.gaussian_filter: sequence argument",),
    # numbers of other libraries
    (lambda x: sympy.sin(x[0])): ("sympy.sin(...): hash()", "called at ", "sg.from_sympy(formula, ...)"),
    (lambda x: x[0] * sympy.pi): ("sympy.core.numbers.Pi, no number of NumPy's", "float(number)"),
    (lambda x: mpmath.sin(x[0])): ("mpmath.sin(...): math.frexp()", "called at ", "np.* and scipy.special functions"),
    (lambda x: x * decimal.Decimal(2)): ("decimal.Decimal, no number", "float(number), made outside"),
    # NumPy's
    (lambda x: np.nditer(x)): ("numpy.nditer", "for value in x.ravel()"),
    (lambda x: np.fromiter((v for v in x), float)): ("fromiter()", "np.stack"),
    (lambda x: np.frompyfunc(lambda v: v * 2, 1, 1)(x)): ("vectorized", "sg.vmap"),
    (lambda x: np.busday_count(x, x)): ("numpy.busday_count", "its result for plain arrays"),
    (lambda x: np.roots(x)): ("numpy.roots has no answer", "scipy.optimize.newton"),
    (lambda x: np.packbits(x > 1)): ("numpy.packbits", "2 ** np.arange(8)[::-1]"),
    (lambda x: np.array2string(x)): ("numpy.array2string", "printing outside"),
    (lambda x: np.datetime64(x[0])): ("numpy.datetime64 has no answer", "outside"),
    (lambda x: np.testing.assert_allclose(x, x)): ("numpy.testing.assert_allclose(...)", "outside"),
    (lambda x: np.unique(x)): ("numpy.unique(...) of traced values", "sg.unique(x, size=n)"),
    (lambda x: np.nonzero(x > 1)[0]): ("numpy.nonzero(...) of traced values", "sg.nonzero(mask, size=n)"),
    (lambda x: np.argwhere(x > 1)): ("numpy.argwhere(...) of traced values", "sg.argwhere(mask, size=n)"),
    (lambda x: 2 * np.setdiff1d(x, x)): ("numpy.setdiff1d(...) of traced values", "np.isin(x, y)"),
    (lambda x: np.poly1d(x).roots): ("numpy.poly1d.roots(...)", "numpy.roots has no answer", "scipy.optimize.newton"),
    (lambda x: np.poly(np.diag(x))): ("numpy.poly(...)", "numpy.linalg.eigvals has no answer", "np.linalg.eigvalsh(a)"),
    (lambda x: np.array(["a", x[0]])): ("np.array(...)", "an array of texts (<U32)", "a list or a tuple"),
    (lambda x: np.vectorize(math.sin)(x)): ("np.vectorize of math.sin", "np.sin(x)"),
    (lambda x: RNG.integers(3, size=4).dot(x) + np.random.default_rng(0).normal(x)): ("normal(...)", "noise"),
    (lambda x: x.flags): ("'flags'", "nothing: a traced array may be written"),
    (lambda x: x.byteswap()): ("'byteswap'", "x.astype"),
    (lambda x: np.matrix(x)): ("numpy.matrix(...)", "the array itself"),
    # Python's own library
    (lambda x: json.dumps(x[0])): ("json.dumps(...)", "not JSON serializable: a traced array", "outside"),
    (lambda x: struct.pack("d", x[0])): ("struct.pack()", "np.* functions"),
    (lambda x: bytes(x)): ("bytes()", "outside"),
    (lambda x: math.factorial(x[0].astype(int))): ("math.factorial()", "scipy.special.gamma(n + 1)"),
    (lambda x: np.unique(x, axis=0)): ("np.unique(..., axis=)", "leave axis= away"),
    (lambda x: np.linalg.eig(np.diag(x))): ("numpy.linalg.eig", "np.linalg.eigh"),
    (lambda x: np.frombuffer(bytes(32)).dot(x)): ("dot", "np.dot(array, ...)"),
    (lambda x: [1.0, 2.0][x[0].astype(int)]): ("an index of a list", "np.take"),
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not tell what a line calls")
@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(("fun", "pieces"), TOLD.items())
def test_what_people_do_and_are_told(fun, pieces):
    with pytest.raises(SymgradError) as caught:
        run(fun, X)
    message = str(caught.value)
    assert not [piece for piece in pieces if piece not in message], message
    assert f"{__file__}:{fun.__code__.co_firstlineno}" in message
    assert not [word for word in ("Tracer", "_Lent", "symgrad ops", "its formula with") if word in message]
    assert not re.search(r"(?<!np)\.real", str(caught.value.instead))


def test_a_loss_that_is_made_a_float_is_returned_as_it_is():
    def loss(x):
        return float(np.sum(x**2))

    with pytest.raises(SymgradError, match=r"instead: return np\.sum\(x\*\*2\): "):
        sg.grad(loss)(X)


@pytest.mark.parametrize(("line", "written"), [
    ("return float(np.sum(x)) + float(np.max(x))", "return np.sum(x) + np.max(x)"),
    ("return float(np.sum(x)), float(x[0])", "return np.sum(x), x[0]"),
    ("return float(a + b)", "return a + b"),
    ("y = 2 * float(a + b) ** float('inf')", "y = 2 * (a + b) ** float('inf')"),
    ("return float(np.float64(float(x[0] ** 2)))", "return np.float64((x[0] ** 2))"),
    ("return np.log(float(x.ä))", "return np.log(x.ä)"),
    ("if float(x) > 0:", ""),
])
def test_a_statement_without_its_floats(line, written):
    assert without_float(line) == written


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
    (UserDict(w=X), "instead: dict(x)"), (UserList([X]), "instead: list(x)"), ({1, 2}, "instead: list(x)"),
    (iter(X), "instead: list(x)"), (Path("x.npy"), "str(x), or static_argnames"), (date(2020, 1, 1), "x.toordinal()"),
    (np.random.default_rng(0), "x.normal(size=n), or a seed"),
    (np.arange(3), "x.astype(np.float64), or leave it out of argnums"),
])
def test_arguments_that_are_none(argument, piece):
    with pytest.raises(SymgradError) as caught:
        sg.grad(lambda x: np.sum(x))(argument)
    assert piece in str(caught.value)


@pytest.mark.parametrize("mode", [sg.grad, sg.jacfwd])
def test_integers_among_parameters_are_left_out_by_their_paths(mode):
    for argument, piece in (
        ({"w": X, "n": 3}, "float(x['n']), or argnums=\"x['w']\""),
        ([X, X, np.arange(3)], "x[2].astype(np.float64), or argnums=('x[0]', 'x[1]')"),
    ):
        with pytest.raises(SymgradError, match=re.escape(piece)):
            mode(lambda x: sum(map(np.sum, sg.tree_flatten(x)[0])))(argument)


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

GIVEN: dict[str, Any] = {
    "np": np, "scipy": scipy, "sg": sg, "x": X, "n": 4, "k": 3, "c": X, "y": np.array([0.5, 0.1, 0.9, 0.3]),
    "p": np.array([1.0, 0.0, -2.0]), "q": np.array([0.1, 0.6]), "h": 0.3, "x0": 1.0, "bits": np.arange(16) % 3 == 0,
    "places": np.array([[0.0, 1.5]]), "points": np.array([0.0, 2.0]), "values": np.array([0.0, 1.0]),
    "loc": 0.3, "scale": 0.8, "f": np.sin, "a": np.array([1.0, -0.5]), "b": np.array([0.3, 0.1]),
    "array": X, "mask": X > 0.6, "index": np.array([1, 0, 1, 0]), "choices": np.ones((2, 4)),
    "z": np.array([0.2, 0, 0.5, 0, 0.9, 0, 1.3]), "down": 3, "edges": np.array([0.0, 0.5, 1.0, 1.5]),
    "density": np.array([0.5, 1.0, 0.5]),
    "sos": np.array([[0.3, 0.1, 0.0, 1.0, -0.5, 0.0]]), "xp": np.array([0.0, 2.0]), "yp": np.array([0.0, 1.0]),
}
SAME: dict[str, tuple[str, Any]] = {
    "perm": ("", lambda n, k, **_: scipy.special.perm(n, k)),
    "softplus": ("", lambda x, **_: np.log1p(np.exp(x))),
    "interp1d": ("", lambda points, values, x, **_: scipy.interpolate.interp1d(points, values)(x)),
    "roots": (", which", lambda p, **_: np.max(np.roots(p))),
    "packbits": ("", lambda bits, **_: np.packbits(bits)),
    "pearsonr": ("", lambda x, y, **_: scipy.stats.pearsonr(x, y)[0]),
    "rankdata": (", of", lambda x, **_: scipy.stats.rankdata(x)),
    "gaussian_kde": (", at", lambda x, q, h, **_: scipy.stats.gaussian_kde(x, h / np.std(x, ddof=1))(q)),
    "medfilt": ("", lambda x, k, **_: scipy.signal.medfilt(x, k)),
    "maximum_filter": ("", lambda x, k, **_: scipy.ndimage.maximum_filter(x, k, mode="constant")),
    "minimum_filter": ("", lambda x, k, **_: scipy.ndimage.minimum_filter(x, k, mode="constant")),
    "resample": ("", lambda x, **_: x),
    "fftshift": ("", lambda x, **_: np.fft.fftshift(x)), "ifftshift": ("", lambda x, **_: np.fft.ifftshift(x)),
    "trapz": ("", lambda x, y, **_: np.trapezoid(y, x)),
    "upfirdn": (" with", lambda x, h, **_: scipy.signal.upfirdn([h], x, 2, 3)),
    "rv_histogram.pdf": (" with", lambda x, edges, density, **_: scipy.stats.rv_histogram((density, edges)).pdf(x)),
    "rv_histogram.cdf": (" with", lambda x, edges, density, **_: scipy.stats.rv_histogram((density, edges)).cdf(x)),
}
"""Where the formula ends in what is said in the place of a function, and what it is to give."""

PROPOSED = (
    "scipy.stats.norm.nnlf([loc, scale], x)", "np.trapezoid(f(x) * scipy.stats.norm.pdf(x, loc, scale), x)",
    "scipy.integrate.fixed_quad(f, a, b, n=20)[0]",
    "scipy.signal.lfilter(b, a, x)", "np.interp(x, xp, yp)", "scipy.stats.norm.pdf(q[:, None], x, h)",
    "np.where(mask, x, 0)", "np.sum(x[mask])", "np.mean(x[mask])", "np.isin(x, y)", "sg.unique(x, size=n)",
    "sg.nonzero(mask, size=n)", "sg.flatnonzero(mask, size=n)", "sg.argwhere(mask, size=n)",
    "sg.unique(np.concatenate([x, y]), size=n)", "x[sg.nonzero(mask, size=n)]",
)
"""Formulas that stand in other advice."""


def traced_and_plain(text):
    arrays = {key: value for key, value in GIVEN.items() if isinstance(value, np.ndarray)}
    if "fixed_quad" in text:
        arrays = {}
    formula = eval(f"lambda {', '.join(arrays)}: {text}", GIVEN | {"a": 0.0, "b": 1.0} if not arrays else GIVEN)  # noqa: S307 - the advice
    return sg.jit(formula, options=sg.Options(compiler="none"))(**arrays), formula(**arrays)


@pytest.mark.filterwarnings("ignore:.* reads what eval")
@pytest.mark.parametrize("name", SAME)
def test_what_is_written_instead_is_the_same(name):
    """In NumPy, and traced: an advice that is refused in its turn is none."""
    end, wanted = SAME[name]
    text = OTHERWISE[name].partition(end)[0] if end else OTHERWISE[name]
    traced, plain = traced_and_plain(text)
    np.testing.assert_allclose(plain, wanted(**GIVEN), rtol=1e-10)
    np.testing.assert_allclose(traced, plain, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.* reads what eval")
@pytest.mark.parametrize("text", PROPOSED)
def test_what_is_proposed_is_traced(text):
    assert any(text in said for said in (*OTHERWISE.values(), *ROOMS.values(), *COUNTS.values()))
    traced, plain = traced_and_plain(text)
    for one, other in zip(*map(np.atleast_2d, (traced, plain)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_remedy_is_none_by_its_spelling():
    assert remedy(run) == ""
    assert remedy(json.dumps) == ""
    for function in (np.hamming, np.sort_complex, np.busday_count):
        assert remedy(function).startswith("its result for plain arrays")


@pytest.mark.parametrize("function", [
    scipy.fft.dct, scipy.fft.idct, scipy.fft.dst, np.fft.fft, np.fft.rfft, scipy.fft.ihfft, scipy.signal.hilbert])
def test_a_linear_transform_by_the_matrix_that_is_written_instead(function):
    found = remedy(function)
    (written,) = re.findall(r"[MF] = (.*) made outside", found)
    matrix = eval(written, GIVEN | {"numpy": np})  # noqa: S307 - the advice
    np.testing.assert_allclose(matrix @ X, function(X), rtol=1e-12, atol=1e-14)
    assert found.startswith("C @ x and S @ x" if np.iscomplexobj(matrix) else "M @ x")


def test_splines_by_what_is_written_instead():
    ((formula, place),) = re.findall(
        r"(np.polyval\(.*\)) with k = (np.clip\(.*\)) and .*", OTHERWISE["CubicSpline"])
    for s in (SPLINE, scipy.interpolate.PchipInterpolator([0.0, 0.4, 1.0, 2.0], [0.0, 1.0, 3.0, 2.0])):
        def written(x, s=s):
            k = eval(place, {"np": np, "s": s, "x": x})  # noqa: S307 - the advice
            return eval(formula, {"np": np, "s": s, "x": x, "k": k})  # noqa: S307 - the advice

        x = np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 2.5])
        np.testing.assert_allclose(written(x), s(x), rtol=1e-13)
        np.testing.assert_allclose(run(written, x)[0], s(x), rtol=1e-13)


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


def test_an_inverse_wishart_density_by_what_is_written_instead():
    x, scale, df, p = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[1.0, 0.1], [0.1, 2.0]]), 4.5, 2
    formula = OTHERWISE["invwishart.logpdf"].removesuffix(", the logarithm")
    found = eval(formula, {"np": np, "scipy": scipy, "x": x, "scale": scale, "df": df, "p": p})  # noqa: S307 - the advice
    np.testing.assert_allclose(found, scipy.stats.invwishart.logpdf(x, df, scale), rtol=1e-13)


@pytest.mark.skipif(not hasattr(scipy.stats, "Normal"), reason="of newer versions of SciPy")
def test_distributions_of_the_new_kind_have_those_of_before_written_instead():
    new, gamma = scipy.stats, scipy.stats.gamma
    for fun in (lambda m: new.Normal(mu=m, sigma=1.0), lambda m: new.make_distribution(gamma)(a=m)):
        with pytest.raises(SymgradError, match=r"scipy\.stats\.norm\(mu, sigma\)"):
            run(fun, X[0])

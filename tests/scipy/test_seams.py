"""Special functions where one of their formulas ends and another begins, and at limits that a formula does not reach.

Values and two derivatives at each such place and at the doubles beside it, against mpmath. A clamp in the place of a
choice (`np.minimum(x, c)` in a formula that is taken up to `c`) has half of the slope there, and a limit that is
written as a number has none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st
from mpmath import mpf

import symgrad as sg
from tests.scipy.along import INTERPRETED


class Row(NamedTuple):
    """A function of one number.

    Attributes:
        written: in SciPy.
        exact: in mpmath, also right of and left of each place.
        places: where its formulas meet.
        rtol: how far off value and derivatives may be, relatively.
        atol: and how much more, where they are 0 or next to it.
        domain: where the function is one, the places beside which are left out.
    """

    written: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    places: tuple[float, ...]
    rtol: float = 1e-13
    atol: float = 0.0
    domain: tuple[float, float] = (-np.inf, np.inf)


def spherical(of: Any, n: int, x: Any) -> Any:
    """A spherical Bessel function of the first kind, which is even or odd."""
    size = abs(x)
    return (-1 if x < 0 and n % 2 else 1) * mp.sqrt(mp.pi / 2 / size) * of(n + mpf(1) / 2, size) if x else mpf(n == 0)


def kolmogorov(x: Any) -> Any:
    return 2 * sum([(-1) ** (k - 1) * mp.exp(-2 * k * k * x * x) for k in range(1, 40)])


def poisson_mixture(term: Callable[[int], Any], nc: Any) -> Any:
    return sum([mp.exp(-nc / 2) * (nc / 2) ** j / mp.factorial(j) * term(j) for j in range(20)])


def chi2(x: Any, df: Any) -> Any:
    return mp.exp(-x / 2) * (x / 2) ** (df / 2 - 1) / 2 / mp.gamma(df / 2)


def below(x: Any, df: Any) -> Any:
    return mp.gammainc(df / 2, 0, x / 2, regularized=True)


def extreme_moment(k: int, c: Any) -> Any:
    """Mean, variance, skewness or excess kurtosis of the generalized extreme value distribution."""
    with mp.workdps(1100):
        c = c if abs(c) > mpf("1e-200") else mpf("1e-200")
        _, a, b, d, e = [mp.gamma(1 + n * c) for n in range(5)]
        variance = (b - a * a) / c**2
        third, fourth = d - 3 * a * b + 2 * a**3, e - 4 * a * d + 6 * a * a * b - 3 * a**4
        return ((1 - a) / c, variance, -third / c**3 / variance**1.5, fourth / c**4 / variance**2 - 3)[k]


def trapezoid_moment(n: int, d: Any) -> Any:
    """A moment about 0 of the trapezoid from 0 to 1 with the upper side from 0.3 to d."""
    c = mpf(0.3)
    return 2 / (1 + d - c) * (sum([d**j for j in range(n + 2)]) - c ** (n + 1)) / ((n + 1) * (n + 2))


def extreme(x: Any, c: Any) -> Any:
    """The logarithm of the generalized extreme value distribution's density."""
    log = mp.log1p(-c * x) / c if c else -x
    return log - mp.exp(log) - mp.log1p(-c * x)


def pareto(x: Any, c: Any) -> Any:
    return -(1 + c) * (mp.log1p(c * x) / c if c else x)


def skewed(x: Any, a: Any) -> Any:
    return mp.log(2 * mp.npdf(x) * mp.ncdf(a * x))


HALF, X = mpf(1) / 2, mpf(0.7)
TIES = (2.5, 0.3, 12.0, 40.0)

ROWS: dict[str, Row] = {
    # error functions
    "log_ndtr": Row(sc.log_ndtr, lambda x: mp.log(mp.ncdf(x)), (-20.0,), 3e-11),
    "erfcx": Row(sc.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (8.0,), 3e-12),
    "dawsn": Row(sc.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), (8.0, -8.0), 3e-12),
    "erfcinv": Row(sc.erfcinv, lambda x: mp.erfinv(1 - x), (0.5, 1.5)),
    "ndtri": Row(sc.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (0.02425, 0.5, 0.97575, 0.5 + 1e-9)),
    # gamma functions and their quotients
    "rgamma": Row(sc.rgamma, mp.rgamma, (0.5, 0.0, -1.0, -4.0, 100.0, 150.0, 170.0)),
    "factorial": Row(sc.factorial, lambda x: mp.gamma(x + 1) if x >= 0 else mpf(0), (1.0,)),
    "betaln(x, 2.5)": Row(lambda x: sc.betaln(x, 2.5), lambda x: mp.log(mp.beta(x, 2.5)), (2.5, 9.5, 12.0)),
    "betaln(x, 12)": Row(lambda x: sc.betaln(12.0, x), lambda x: mp.log(mp.beta(x, 12)), (12.0,)),
    "betaln(x, x)": Row(lambda x: sc.betaln(x, x), lambda x: mp.log(mp.beta(x, x)), TIES, 1e-12),
    "beta(x, 0.3)": Row(lambda x: sc.beta(x, 0.3), lambda x: mp.beta(x, mpf(0.3)), (0.3,), 1e-12),
    "beta(x, -0.7)": Row(
        lambda x: sc.beta(x, -0.7), lambda x: mp.beta(x, mpf(-0.7)), (0.25, 12.0, 12.7, 60.0, 169.0), 1e-11),
    "beta(x, -0.5)": Row(
        lambda x: sc.beta(x, -0.5), lambda x: mp.gamma(x) * mp.gamma(-HALF) * mp.rgamma(x - HALF),
        (-0.5, -1.5), atol=4e-15),
    "poch(x, 2.5)": Row(
        lambda x: sc.poch(x, 2.5), lambda x: mp.gamma(x + 2.5) * mp.rgamma(x), (0.5, 0.0, -2.0, -3.0, 12.0)),
    "poch(x, 4)": Row(
        lambda x: sc.poch(x, 4.0), lambda x: x * (x + 1) * (x + 2) * (x + 3), (0.5, 0.0, -1.0, -3.0, 12.0), atol=1e-14),
    "poch(x, -1.5)": Row(
        lambda x: sc.poch(x, -1.5), lambda x: mp.gamma(x - 1.5) * mp.rgamma(x), (0.0, -2.0, 2.0)),
    "poch(x, -2)": Row(lambda x: sc.poch(x, -2.0), lambda x: 1 / ((x - 1) * (x - 2)), (0.5, 2.5, -3.0, -4.0)),
    "poch(-2.5, x)": Row(
        lambda x: sc.poch(-2.5, x), lambda x: mp.gamma(x - 2.5) * mp.rgamma(mpf(-2.5)), (1.0, 2.0, 3.0, -2.0)),
    "binom(x, 2)": Row(lambda x: sc.binom(x, 2.0), lambda x: x * (x - 1) / 2, (4.0, -0.5, 1.5)),
    "binom(4, x)": Row(lambda x: sc.binom(4.0, x), lambda x: mp.binomial(4, x), (2.0, -0.5, 4.5), atol=4e-15),
    "binom(x, -0.5)": Row(lambda x: sc.binom(x, -0.5), lambda x: mp.binomial(x, -HALF), (-0.5,)),
    "binom(3.3, x)": Row(lambda x: sc.binom(3.3, x), lambda x: mp.binomial(mpf(3.3), x), (-1.25, -0.75, 0.25)),
    # Bessel functions
    "i0e": Row(sc.i0e, lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (20.0, 30.0, -30.0, 300.0), 3e-12),
    "i1e": Row(sc.i1e, lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), (1.0, 20.0, 30.0, -30.0, 300.0), 3e-12),
    "i1": Row(sc.i1, lambda x: mp.besseli(1, x), (0.0, 1.0, -1.0)),
    "j1": Row(sc.j1, lambda x: mp.besselj(1, x), (0.0, 1.0, -1.0)),
    **{f"spherical_jn({n}, x)": Row(
        partial(sc.spherical_jn, n), partial(spherical, mp.besselj, n), (0.0, 1.0, -1.0), atol=1e-15)
       for n in range(4)},
    "spherical_in(2, x)": Row(
        lambda x: sc.spherical_in(2, x), lambda x: spherical(mp.besseli, 2, x), (0.0, 1.0, -1.0)),
    "spherical_jn(2, x, True)": Row(
        lambda x: sc.spherical_jn(2, x, derivative=True), lambda x: mp.diff(lambda t: spherical(mp.besselj, 2, t), x),
        (0.0, 1.0), atol=1e-15),
    "it2j0": Row(lambda x: sc.it2j0y0(x)[0], lambda x: x * x / 8 * mp.hyper([1, 1], [2, 2, 2], -x * x / 4), (0.0, 1.0)),
    "it2i0": Row(lambda x: sc.it2i0k0(x)[0], lambda x: x * x / 8 * mp.hyper([1, 1], [2, 2, 2], x * x / 4), (0.0, 1.0)),
    # elliptic integrals
    "ellipk": Row(sc.ellipk, mp.ellipk, (0.0, 0.5, -0.5, -1e10, 1 - 1e-12)),
    "ellipe": Row(sc.ellipe, mp.ellipe, (0.0, 0.5, -0.5, -1e10, 1 - 1e-12)),
    "ellipkm1": Row(sc.ellipkm1, lambda p: mp.ellipk(1 - p), (0.5,)),
    "agm(x, 2)": Row(lambda x: sc.agm(x, 2.0), lambda x: mp.agm(x, 2), (2.0,)),
    # others
    "spence": Row(sc.spence, lambda x: mp.polylog(2, 1 - x), (1.0, 0.5, 1.5)),
    "exprel": Row(sc.exprel, lambda x: mp.expm1(x) / x if x else mpf(1), (1.0, -1.0, 0.0)),
    "boxcox(2, x)": Row(
        lambda x: sc.boxcox(2.0, x), lambda x: mp.expm1(x * mp.log(2)) / x if x else mp.log(2),
        (0.0, 0.5 / np.log(2.0))),
    "inv_boxcox(2, x)": Row(
        lambda x: sc.inv_boxcox(2.0, x), lambda x: mp.exp(mp.log1p(2 * x) / x if x else mpf(2)), (0.0, 0.25, -0.25)),
    "zetac": Row(sc.zetac, lambda x: mp.zeta(x) - 1, (0.0, -0.25), 1e-12),
    "zeta": Row(sc.zeta, mp.zeta, (-0.25, -8.0), 1e-12),
    "fdtr": Row(
        lambda x: sc.fdtr(3.0, 4.0, x),
        lambda x: mp.betainc(3 * HALF, 2, 0, 3 * x / (3 * x + 4), regularized=True), (4 / 3,)),
    "kolmogorov": Row(sc.kolmogorov, kolmogorov, (0.7,)),
    "diric(x, 5)": Row(
        lambda x: sc.diric(x, 5), lambda x: mp.sin(5 * x / 2) / (5 * mp.sin(x / 2)) if x else mpf(1), (0.0, 1e-7, 2.0)),
    "lambertw": Row(sc.lambertw, lambda x: mp.re(mp.lambertw(x)), (-0.2, 0.25)),
    "lambertw(x, -1)": Row(
        lambda x: sc.lambertw(x, -1), lambda x: mp.re(mp.lambertw(x, -1)),
        (-0.2, 1.84e-5 - np.exp(-1), 1e-12 - np.exp(-1))),
    "kl_div(x, 0.3)": Row(
        lambda x: sc.kl_div(x, 0.3), lambda x: x * mp.log(x / mpf(0.3)) - x + mpf(0.3), (0.3, 0.3 + 1e-7, 0.18, 0.5)),
    "kl_div(0.3, x)": Row(
        lambda x: sc.kl_div(0.3, x), lambda x: mpf(0.3) * mp.log(mpf(0.3) / x) - mpf(0.3) + x, (0.3, 0.18, 0.5)),
    "pseudo_huber(1, x)": Row(
        lambda x: sc.pseudo_huber(1.0, x), lambda x: x * x / (mp.sqrt(1 + x * x) + 1), (0.0, 1.0)),
    "pseudo_huber(x, 1)": Row(
        lambda x: sc.pseudo_huber(x, 1.0), lambda x: x / (x + mp.sqrt(1 + x * x)), (1e-20, 1.0)),
    # distributions
    "expon integral": Row(sc._ufuncs._scaled_exp1, lambda x: x * mp.exp(x) * mp.e1(x), (2.0, 4.0)),
    "cosine.cdf": Row(
        st.cosine.cdf, lambda x: (x + mp.pi + mp.sin(x)) / (2 * mp.pi), (2 - np.pi, np.pi - 2, 0.0), atol=1e-16),
    "vonmises.cdf": Row(
        lambda x: st.vonmises.cdf(x, 1.3),
        lambda x: mp.quad(lambda t: mp.exp(mpf(1.3) * mp.cos(t)), [0, x]) / (2 * mp.pi * mp.besseli(0, 1.3)) + HALF,
        (np.pi, -np.pi), atol=1e-15),
    "vonmises.cdf by kappa": Row(
        lambda k: st.vonmises.cdf(0.7, k), lambda k: HALF + (X + 2 * sum([
            mp.besseli(j, k) * mp.sin(j * X) / j for j in range(1, 25)]) / mp.besseli(0, k)) / (2 * mp.pi),
        (0.0,), 1e-12, domain=(0.0, np.inf)),
    "beta.logpdf": Row(
        lambda a: st.beta.logpdf(0.3, a, 2.5),
        lambda a: (a - 1) * mp.log(mpf(0.3)) + 1.5 * mp.log1p(-mpf(0.3)) - mp.log(mp.beta(a, 2.5)), (2.5,)),
    "genextreme.logpdf": Row(
        lambda c: st.genextreme.logpdf(0.7, c), lambda c: extreme(X, c), (0.0, 1e-9, 0.5 / 0.7, -0.5 / 0.7)),
    "genextreme.logcdf": Row(
        lambda c: st.genextreme.logcdf(0.7, c), lambda c: -mp.exp(mp.log1p(-c * X) / c if c else -X), (0.0, 1e-9)),
    "genextreme.ppf": Row(
        lambda c: st.genextreme.ppf(0.7, c),
        lambda c: -mp.expm1(c * mp.log(-mp.log(X))) / c if c else -mp.log(-mp.log(X)), (0.0, 1e-9)),
    "genpareto.logpdf": Row(lambda c: st.genpareto.logpdf(0.7, c), lambda c: pareto(X, c), (0.0, 1e-9, -1.0)),
    "genpareto.logsf": Row(
        lambda c: st.genpareto.logsf(0.7, c), lambda c: -mp.log1p(c * X) / c if c else -X, (0.0, 1e-9)),
    "genpareto.moment": Row(
        lambda c: np.stack([st.genpareto.moment(3, v) for v in c]),
        lambda c: 6 / ((1 - c) * (1 - 2 * c) * (1 - 3 * c)), (0.0, 1e-9)),
    **{f"genextreme.stats {kind}": Row(
        partial(st.genextreme.stats, moments=kind), partial(extreme_moment, k),
        (0.0, 1e-9, 0.0625, -0.0625), 1e-9) for k, kind in enumerate("mvsk")},
    "ncx2.logpdf": Row(
        lambda nc: st.ncx2.logpdf(0.7, 3.0, nc),
        lambda nc: mp.log(poisson_mixture(lambda j: chi2(X, mpf(3 + 2 * j)), nc)),
        (0.0, 1e-9, 6 / 0.7), 1e-9, domain=(0, np.inf)),
    "ncx2.pdf": Row(
        lambda nc: st.ncx2.pdf(0.7, 3.0, nc), lambda nc: poisson_mixture(lambda j: chi2(X, mpf(3 + 2 * j)), nc),
        (0.0, 1e-9), domain=(0, np.inf)),
    "ncx2.cdf": Row(
        lambda nc: st.ncx2.cdf(0.7, 3.0, nc), lambda nc: poisson_mixture(lambda j: below(X, mpf(3 + 2 * j)), nc),
        (0.0, 1e-9), 1e-12, domain=(0, np.inf)),
    "ncx2.ppf": Row(
        lambda nc: st.ncx2.ppf(0.7, 3.0, nc), lambda nc: mp.findroot(
            lambda x: poisson_mixture(lambda j: below(x, mpf(3 + 2 * j)), nc) - X, mpf(3.7)),
        (0.0, 1e-9), 1e-9, domain=(0, np.inf)),
    "triang.logpdf": Row(
        lambda c: st.triang.logpdf(0.7, c), lambda c: mp.log(2 * (1 - X) / (1 - c) if c < HALF else 2 * X / c),
        (0.0, 1.0), domain=(0, 1)),
    "triang.cdf": Row(
        lambda c: st.triang.cdf(0.7, c), lambda c: 1 - (1 - X) ** 2 / (1 - c) if c < HALF else X * X / c, (0.0, 1.0),
        domain=(0, 1)),
    "trapezoid.mean": Row(
        lambda d: np.stack([st.trapezoid.mean(0.3, one) for one in d]), partial(trapezoid_moment, 1), (1.0,),
        domain=(0.3, 1)),
    "trapezoid.var": Row(
        lambda d: np.stack([st.trapezoid.var(0.3, one) for one in d]),
        lambda d: trapezoid_moment(2, d) - trapezoid_moment(1, d) ** 2, (1.0,), 1e-12, domain=(0.3, 1)),
    "vonmises.logpdf": Row(
        lambda k: st.vonmises.logpdf(0.7, k), lambda k: k * mp.cos(X) - mp.log(2 * mp.pi * mp.besseli(0, k)),
        (0.0, 1.0), domain=(0, np.inf)),
    "vonmises.pdf": Row(
        lambda k: st.vonmises.pdf(0.7, k), lambda k: mp.exp(k * mp.cos(X)) / (2 * mp.pi * mp.besseli(0, k)), (0.0, 1.0),
        domain=(0, np.inf)),
    "rice.logpdf": Row(
        lambda b: st.rice.logpdf(0.7, b), lambda b: mp.log(X * mp.besseli(0, X * b)) - (X * X + b * b) / 2,
        (0.0, 1 / 0.7), domain=(0, np.inf)),
    "vonmises.entropy": Row(
        st.vonmises.entropy, lambda k: mp.log(2 * mp.pi * mp.besseli(0, k)) - k * mp.besseli(1, k) / mp.besseli(0, k),
        (0.0, 1.0), domain=(0, np.inf)),
    "bernoulli.pmf": Row(lambda p: st.bernoulli.pmf(1, p), lambda p: p, (1.0,), domain=(0, 1)),
    "skewnorm.logpdf": Row(lambda a: st.skewnorm.logpdf(0.7, a), lambda a: skewed(X, a), (0.0,)),
    "skewnorm.pdf": Row(lambda a: st.skewnorm.pdf(0.7, a), lambda a: mp.exp(skewed(X, a)), (0.0,), atol=1e-16),
    "skewnorm.logpdf far": Row(lambda a: st.skewnorm.logpdf(0.7, a), lambda a: skewed(X, a), (-20 / 0.7,), 3e-11),
}


def points(row: Row) -> np.ndarray[Any, Any]:
    every = [v for at in row.places for v in (np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf))]
    return np.array([v for v in every if row.domain[0] <= v <= row.domain[1]])


def derivatives(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any, Any]:
    first = sg.grad(lambda x: np.sum(function(x)))
    return function(x), first(x), sg.grad(lambda x: np.sum(first(x)))(x)


@pytest.mark.parametrize("name", ROWS)
def test_all_of_the_slope(name: str) -> None:
    row = ROWS[name]
    at = points(row)
    with mp.workdps(60):
        for order, got in enumerate(sg.jit(partial(derivatives, row.written))(at)):
            want = [mp.diff(row.exact, mpf(float(x)), order, relative=abs(x) > 1)
                    if order else row.exact(mpf(float(x))) for x in at]
            np.testing.assert_allclose(
                got, np.array([float(v) for v in want]), rtol=row.rtol, atol=row.atol, err_msg=f"derivative {order}")


def principal(x: Any, y: Any) -> Any:
    """Carlson's function of a negative number, as Cauchy's principal value: DLMF 19.20.2."""
    return mp.sqrt(x / (x - y)) * mp.elliprc(x - y, -y)


FAR: dict[str, Row] = {
    "spence": Row(sc.spence, lambda x: mp.polylog(2, 1 - x).real, (1e-20, 0.3, 0.5)),
    "k0e": Row(sc.k0e, lambda x: mp.besselk(0, x) * mp.exp(x), (29.0, 31.0, 1e10, 1e100)),
    "k1e": Row(sc.k1e, lambda x: mp.besselk(1, x) * mp.exp(x), (29.0, 31.0, 1e10, 1e100)),
    "ellipk": Row(sc.ellipk, mp.ellipk, (-0.7, -1e60, -1e155)),
    "ellipkm1": Row(sc.ellipkm1, lambda p: mp.ellipk(1 - p), (0.3, 0.7, 1.2, 1.7, 1e20, 1e155)),
    "zetac": Row(sc.zetac, lambda x: mp.zeta(x) - 1, (-20.3, -140.3, -150.1, -170.7, -171.2)),
    "rgamma": Row(sc.rgamma, mp.rgamma, (-0.5, -1.5, -170.5)),
    "agm": Row(lambda x: sc.agm(x, 0.5), lambda x: mp.agm(x, HALF), (1e-300, 1e-80, 0.5, 3.0, 1e100)),
    "elliprc(x, -1.5)": Row(lambda x: sc.elliprc(x, -1.5), lambda x: principal(x, mpf(-1.5)), (1e-8, 1.0, 1e10)),
    "elliprc(2, y)": Row(lambda y: sc.elliprc(2.0, y), lambda y: principal(mpf(2), y), (-1e-8, -1.0, -1e10)),
    "boxcox(0, lmbda)": Row(lambda k: sc.boxcox(0.0, k), lambda k: -1 / k, (1e-8, 0.3, 40.0)),
    "ndtri_exp": Row(
        sc.ndtri_exp, lambda y: mp.findroot(
            lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) - y, mpf(float(sc.ndtri_exp(float(y))))),
        (-0.5, -0.7, -30.0)),
}
"""Finite slopes, parts of which overflow, underflow or cancel."""


@pytest.mark.parametrize("name", FAR)
def test_slopes_far_out(name: str) -> None:
    row = FAR[name]
    written = row.written
    slopes = sg.grad(lambda x: np.sum(written(x)), options=INTERPRETED)(np.array(row.places))
    with mp.workdps(60):
        want = [mp.diff(lambda t, x=x: row.exact(mpf(x) * t), mpf(1)) / mpf(x) for x in row.places]
    np.testing.assert_allclose(slopes, [float(v) for v in want], rtol=2e-13)


def test_slopes_far_out_by_asymptotic_forms() -> None:
    """Normal quantiles are the root of -2 y there; zeta is 1, and the mean of two zeros is 0."""
    y = np.array([-1e20, -1e200])
    np.testing.assert_allclose(sg.grad(lambda y: np.sum(sc.ndtri_exp(y)))(y), 1 / np.sqrt(-2 * y), rtol=1e-13)
    assert sg.grad(sc.zetac)(1e100) == 0
    assert np.isnan(sg.jit(sc.agm)(-1e-200, 1e-200))
    assert sg.jit(sc.agm)(0.0, 0.0) == 0
    slopes = sg.jacfwd(lambda x: sc.boxcox(x, np.array([2.0, 1.0, 0.5])))(0.0)
    np.testing.assert_array_equal(slopes, [0, 1, np.inf])


def test_chances_of_one_have_all_of_their_slope() -> None:
    """SciPy clips what it has computed to 1; a clip shares the slope there."""
    slopes = sg.grad(lambda p: st.binom.pmf(0, 5, p) + 10 * st.binom.cdf(0, 5, p) + 100 * st.binom.sf(0, 5, p))(0.0)
    np.testing.assert_allclose(slopes, -5 - 50 + 500, rtol=1e-14)


def test_chances_by_parameters_of_zero() -> None:
    """Of the circle's uniform distribution by its concentration, and of Rayleigh's by its noncentrality."""
    slopes = sg.grad(lambda k: st.vonmises.cdf(0.7, k))(0.0), sg.grad(lambda b: st.rice.cdf(0.7, b))(0.0)
    np.testing.assert_allclose(slopes, [np.sin(0.7) / (2 * np.pi), 0], rtol=1e-14, atol=1e-15)


def test_numbers_whose_squares_overflow() -> None:
    """The rest of Huber's function is r; scaled Bessel functions fall off as x^-1/2."""
    assert [float(v) for v in sg.value_and_grad(lambda r: sc.pseudo_huber(1.0, r))(1e160)] == [1e160, 1.0]
    slopes = sg.grad(lambda x: np.sum(sc.i0e(x) + 2 * sc.i1e(x)))(np.array([1e10, -1e10, 1e200]))
    want = -0.5 * np.array([3.0, 1.0, 3.0]) / np.sqrt(2 * np.pi) * np.array([1e-15, 1e-15, 1e-300])
    np.testing.assert_allclose(slopes, want, rtol=1e-9)


def test_incomplete_functions_at_the_ends_of_their_domain() -> None:
    """Densities there are powers of 0, whose slopes are finite from the second power on."""
    a, b = np.array([1.0, 2.0, 3.0, 1.5, 900.0]), np.array([2.0, 3.0, 2.0, 2.5, 900.0])

    def curved(function: Any) -> Any:
        first = sg.grad(lambda x: np.sum(function(x)))
        return sg.grad(lambda x: np.sum(first(x)))

    zero = np.zeros(5)
    np.testing.assert_allclose(curved(lambda x: sc.betainc(a, b, x))(zero), [-2, 12, 0, np.inf, 0], rtol=1e-14)
    np.testing.assert_allclose(curved(lambda x: sc.betainc(a, b, x))(zero + 1), [-2, 0, -12, 0, 0], rtol=1e-14)
    np.testing.assert_allclose(curved(lambda x: sc.gammainc(a, x))(zero), [-1, 1, 0, np.inf, 0], rtol=1e-14)

"""Loops and branches of people: right to second order on each path, in few paths where the rounds are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.control import people, scipys
from tests.night import some
from tests.table import INTERPRETED, richardson

RNG = np.random.default_rng(11)


def _n(*shape):
    return RNG.normal(size=shape)


def _u(*shape):
    return RNG.uniform(size=shape)


def _dominant(n):
    A = _n(n, n)
    return A + np.diag(3 * np.sum(np.abs(A), axis=1))


def _apart(n):
    """Draw a symmetric matrix whose eigenvalues are apart."""
    Q, _ = np.linalg.qr(_n(n, n))
    return Q @ np.diag(4.0 ** np.arange(n)) @ Q.T


PEOPLE: dict[str, Any] = {  # by what is differentiated, and calls
    "projectile": ((0, 1, 2), [(20.0, 0.7, 0.01), (10.0, 1.2, 0.05), (35.0, 0.4, 0.002)]),
    "adaptive": ((0, 1), [(1.0, 2.0, 1e-3), (0.3, 9.0, 1e-3), (2.0, 0.5, 1e-4)]),
    "viterbi": ((0, 1), [(_n(3, 4), _n(3, 3), RNG.integers(0, 4, 20)) for _ in range(3)]),
    "dtw": ((0, 1), [(_n(7), _n(6)) for _ in range(3)]),
    "run_lengths": ((0,), [(_n(20), 0.1) for _ in range(3)]),
    "rejection": ((0,), [(t, _n(30), _u(30)) for t in (0.5, 2.0, 8.0)]),
    "gauss_seidel": ((0, 1), [(_dominant(4), _n(4)) for _ in range(3)]),
    "lcs": ((2, 3), [(RNG.integers(0, 3, 7), RNG.integers(0, 3, 6), _u(3), 0.1) for _ in range(3)]),
    "loan": ((0, 1, 2), [(10000.0, 0.06, 450.0), (8000.0, 0.05, 300.0), (9500.0, 0.09, 200.0)]),
    "pid": ((0, 1), [(np.array([3.0, 1.0, 0.05]), 1.0), (np.array([9.0, 4.0, 0.1]), 2.0)]),
    "power_iteration": ((0,), [(_apart(3),) for _ in range(3)]),
    "machine": ((1,), [(RNG.integers(0, 5, 40), _n(3)) for _ in range(3)]),
    "line_search": ((0, 1), [(np.array([0.5, 2.0]), 5.0), (np.array([2.0, 0.1]), 1.0)]),
    "barrier": ((0, 1), [(s, _n(6, 8)) for s in (0.2, 0.5, 0.9)]),
    "epidemic": ((0, 1), [(0.4, 0.1, 0.05), (0.3, 0.12, 0.02), (0.15, 0.1, 0.1)]),
    "lookup": ((0, 1, 2), [(np.sort(_n(12)), _n(12), x) for x in (-0.4, 0.1, 0.6)]),
    "insertion": ((0, 1), [(_n(7), _n(7)) for _ in range(3)]),
    "golden": ((0,), [(p,) for p in (0.3, 1.7, -1.0)]),
    "sphere_tracing": ((0, 1), [(1.0, np.array([0.05, 0.1, 1])), (0.5, np.array([0.5, 0.5, 0.7])), (1.4, _n(3))]),
    "american": ((0, 1), [(0.2, 101.0), (0.4, 120.0), (0.3, 85.0)]),
    "bouncing": ((0, 1), [(1.0, 0.8), (2.0, 0.5), (0.5, 0.9)]),
    "perceptron": ((0, 2), [(_n(8, 3), np.sign(_n(8)), r) for r in (0.1, 0.5, 1.0)]),
    "newton2": ((0,), [(np.array(p),) for p in ((5.0, 2.0), (10.0, 3.0), (3.0, 1.0))]),
    "queue": ((0, 1, 2), [(_u(40), 1.1 * _u(40), p) for p in (0.3, 1.0, 0.05)]),
    "mandelbrot": ((0, 1), [(0.3, 0.6), (-0.5, 0.3), (0.4, 0.1)]),
}
ONE_LOOP = {"projectile": 2, "gauss_seidel": 2, "power_iteration": 2, "golden": 2, "viterbi": 1}
"""Of so many paths, for any number of rounds."""


def along(args, by, step):
    """Move arguments along a direction."""
    places = dict(zip(by, step, strict=True))
    return lambda t: tuple([a + t * places[k] if k in places else a for k, a in enumerate(args)])


def near(found, differentiated, tolerance):
    """Compare a derivative with differences, but where those cross to another path."""
    one, other = [richardson(differentiated, h) for h in (1e-4, 3e-5)]
    if abs(one - other) <= tolerance * (1 + abs(one)):
        np.testing.assert_allclose(found, other, rtol=tolerance, atol=tolerance)


def check(name, options, most=None):
    fun, (by, every) = getattr(people, name), PEOPLE[name]
    calls = every[:most]
    compiled = sg.value_and_grad(fun, argnums=by, options=options)

    def pulled(d, *args):
        return sum([np.sum(g * e) for g, e in zip(sg.grad(fun, argnums=by)(*args), d, strict=True)])

    twice = sg.grad(pulled, argnums=tuple([k + 1 for k in by]), options=options)
    for number, args in enumerate(calls):
        rng = np.random.default_rng(number)
        one, other = [[rng.normal(size=np.shape(args[k])) * 0.3 * (1 + abs(args[k])) for k in by] for _ in range(2)]
        value, slopes = compiled(*args)
        np.testing.assert_allclose(value, fun(*args), rtol=1e-10, atol=1e-12)
        step, again = along(args, by, one), along(args, by, other)
        near(sum([np.sum(g * d) for g, d in zip(slopes, one, strict=True)]), lambda t, at=step: fun(*at(t)), 1e-5)

        def slope(t, one=one, at=again):
            return sum([np.sum(g * d) for g, d in zip(compiled(*at(t))[1], one, strict=True)])

        near(sum([np.sum(g * d) for g, d in zip(twice(one, *args), other, strict=True)]), slope, 1e-4)
    if name in ONE_LOOP:
        assert compiled.cache_info().compilations <= ONE_LOOP[name]


LONG = {"mandelbrot", "adaptive", "barrier"}
"""These take long to second order: by day one call is tried of each."""


@pytest.mark.parametrize("name", some(PEOPLE, of=3))
def test_to_second_order(name):
    check(name, sg.Options(compiler="none", paths=100), 1 if name in LONG else None)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LONG)
def test_to_second_order_at_each_call(name):
    check(name, sg.Options(compiler="none", paths=100))


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEOPLE)
def test_in_c(name):
    check(name, sg.Options(flags=("-O0",), paths=100))


SCIPYS: dict[str, list[Any]] = {  # of each, points of several branches
    "Corana": [[0.21, -0.58, 1.01, 3.99], [0.1, -0.3, 1.1, 2.5], [0.22, 1.1, 0.7, -4.2]],
    "Deceptive": [[-0.1, 0.2], [0.3, 0.9], [0.31, 0.6], [0.5, 0.7], [1.2, 0.63], [0.1, 1.4]],
    "LennardJones": [[0.5, 1, 2, -1, 0.3, 0.2], [1, 2, 3, 1, 2, 3.0]],
    "NeedleEye": [[1.0, -2.0], [3e-5, 2.0], [2e-5, -4e-5]],
    "OddSquare": [[1.0, 1.5], [2.0, -1.0], [-3.0, 2.5]],
    "Problem18": [[1.0], [2.9], [3.1], [5.0]],
    "Schwefel06": [[1.0, 2.0], [5.0, -3.0]],
    "Schwefel21": [[1.0, 2.0], [-3.0, 2.0], [0.5, -0.7]],
    "Tripod": [[1.0, 2.0], [-3.0, 2.0], [4.0, -60.0], [-5.0, -7.0]],
    "YaoLiu04": [[1.0, 2.0], [-3.0, 2.0]],
    "ZeroSum": [[1.0, 2.0], [2.0, -2.0], [-3.0, 2.0]],
    "Zimmerman": [[7.5, 2.2], [1.0, 1.0], [4.0, 6.0], [-1.0, 20.0], [6.0, -1.0]],
}


@pytest.mark.parametrize("name", SCIPYS)
def test_functions_of_scipys_benchmarks(name):
    """As they stand there, each with a counter of its calls: values and gradients on points of several branches."""
    points = [np.array(x) for x in SCIPYS[name]]
    own = getattr(scipys, name)(len(points[0]))
    compiled = sg.value_and_grad(own.fun, options=INTERPRETED)
    for x in [*points, *points]:
        value, slope = compiled(x)
        np.testing.assert_allclose(value, own.fun(x), rtol=1e-12, atol=1e-14)
        for e, found in zip(np.eye(len(x)), slope, strict=True):
            def along(t, x=x, e=e):
                return own.fun(x + t * e)

            wanted = richardson(along, 1e-6)
            if abs(wanted) < 1e4:  # where it does not jump
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-4)

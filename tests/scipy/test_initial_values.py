"""`solve_ivp` and `odeint`: SciPy's numbers, its steps, and slopes by Richardson's differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
from scipy.integrate import odeint, solve_ivp

import symgrad as sg
from symgrad.errors import SymgradError
from tests.table import GENTLY, INTERPRETED

A = np.array([[-0.1, 2.0], [-2.0, -0.1]])
Y0, T = np.array([1.0, 0.2]), np.linspace(0.0, 2.0, 7)


def spiral(t: Any, y: Any, rate: Any) -> Any:
    return np.dot(y**3, A * rate) + np.sin(t)


SETTINGS: dict[str, dict[str, Any]] = {
    "RK45": {}, "RK23": {"method": "RK23"}, "DOP853": {"method": "DOP853"}, "a class": {"method": scipy.integrate.RK23},
    "tolerances": {"rtol": 1e-7, "atol": np.array([1e-9, 1e-6])}, "short steps": {"max_step": 0.05},
    "a long first step": {"first_step": 1.5, "rtol": 1e-6},
    "no tolerance": {"rtol": 1e-20, "atol": 1e-10, "method": "DOP853"},
}


@pytest.mark.filterwarnings("ignore:At least one element of `rtol`")
@pytest.mark.parametrize("name", SETTINGS)
def test_the_numbers_and_the_steps_are_scipys(name: str) -> None:
    def solved(y0: Any, rate: Any) -> Any:
        found = solve_ivp(spiral, (0.0, 2.0), y0, t_eval=T[1:], args=(rate,), **SETTINGS[name])
        return found.y, found.success, found.status, found.nfev

    y, success, status, count = sg.jit(solved)(Y0, 1.3)
    want = solved(Y0, 1.3)
    np.testing.assert_allclose(y, want[0], rtol=1e-7 if "method" in SETTINGS[name] else 1e-11)
    assert (success, status) == want[1:3]
    assert count == want[3] or "DOP853" in SETTINGS[name].values()  # which counts its interpolation


FORMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "backwards": (lambda y0: solve_ivp(spiral, (1.0, 0.0), y0, t_eval=np.array([0.7, 0.2]), args=(1.0,)).y, (Y0,)),
    "what a function reads": (lambda a: solve_ivp(lambda _, y: -a * y, (0, 1), Y0, t_eval=[0.5, 1.0]).y, (1.2,)),
    "the steps": (lambda y0: solve_ivp(spiral, (0.0, 0.5), y0, args=(1.0,)).y[:, -1], (Y0,)),
    "times": (lambda t: solve_ivp(spiral, (t[0], t[-1]), Y0, t_eval=t, args=(1.0,)).y, (T,)),
    "lists": (lambda b: solve_ivp(lambda _, y: [y[1], -b * np.sin(y[0])], (0, 3), [0.1, 0.0], t_eval=[3.0]).y, (2.0,)),
    "one number": (lambda k: odeint(lambda y, _: -k * y, 1.0, [0.0, 0.5, 2.0]), (1.5,)),
    "time first": (lambda r: odeint(spiral, Y0, T, args=(r,), tfirst=True), (1.3,)),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    function, args = FORMS[name]
    tolerance = 1e-6 if "odeint" in function.__code__.co_names else 1e-11
    np.testing.assert_allclose(sg.jit(function, options=INTERPRETED)(*args), function(*args), rtol=tolerance)


def loss(y0: Any, rate: Any, t: Any, method: Any = "RK45") -> Any:
    return np.sum(np.sin(
        solve_ivp(spiral, (t[0], t[-1]), y0, method, t, args=(rate,), rtol=1e-11, atol=1e-12).y,
    ))


@pytest.mark.parametrize("method", ["RK45", pytest.param("DOP853", marks=pytest.mark.nightly)])
def test_slopes(method: str) -> None:
    at, unflatten = sg.ravel_pytree((Y0, 1.3, T))

    def total(x: Any) -> Any:
        y0, rate, t = unflatten(x)
        return loss(y0, rate, t, method)

    f = sg.jit(total, options=GENTLY)
    slope = sg.grad(f, options=GENTLY)(at)

    def difference(way: Any, h: float) -> Any:
        return (f(at + h * way) - f(at - h * way)) / (2 * h)

    for way in np.eye(at.size)[[0, 1, 2, 3, 6, 9]]:
        want = (4 * difference(way, 2e-3) - difference(way, 4e-3)) / 3
        assert slope @ way == pytest.approx(want, rel=1e-7, abs=1e-8)
    if method == "RK45":
        way = np.linspace(-1.0, 1.0, at.size)
        assert sg.jvp(f, (at,), (way,))[1] == pytest.approx(slope @ way)


def test_what_is_not_reached_is_nan() -> None:
    def solved(c: Any) -> Any:
        found = solve_ivp(lambda _, y: c * y**2, (0.0, 2.0), [1.0], t_eval=np.array([0.5, 1.5]))
        return found.y, found.success, found.status

    y, success, status = sg.jit(solved)(1.0)
    assert y[0, 0] == pytest.approx(2.0, rel=1e-3)
    assert np.isnan(y[0, 1])
    assert (success, status) == (False, -1)
    few = sg.jit(lambda c: odeint(lambda y, t: c * np.cos(40 * t) * y, [1.0], [0.0, 1e-3, 2.0], mxstep=20))(1.0)
    assert np.array_equal(np.isnan(few[:, 0]), [False, False, True])


def test_one_path_for_all_steps_and_batches() -> None:
    f = sg.jit(lambda y0: odeint(spiral, y0, T, args=(1.0,), tfirst=True))
    for scale in (0.01, 1.0, 3.0):
        f(scale * Y0)
    assert f.cache_info().compilations == 1
    batch = np.stack([Y0, 2 * Y0, 0.1 * Y0])
    np.testing.assert_allclose(sg.vmap(f, options=GENTLY)(batch), [f(y0) for y0 in batch], rtol=1e-11)


WRONG: dict[str, tuple[Any, str]] = {
    "outside": (lambda y: solve_ivp(spiral, (0, 1), y, t_eval=[2.0], args=(1.0,)), "not within `t_span`"),
    "not in order": (lambda y: solve_ivp(spiral, (0, 1), y, t_eval=[0.5, 0.2], args=(1.0,)), "not properly sorted"),
    "between traced times": (lambda y: solve_ivp(spiral, (0, y[0]), y, args=(1.0,)), "instead: t_eval="),
    "times in a matrix": (lambda y: solve_ivp(spiral, (0, 1), y, t_eval=[[0.5]]), "`t_eval` must be 1-dimensional"),
    "no such method": (lambda y: solve_ivp(spiral, (0, 1), y, "RK99", [0.5]), "`method` must be one of RK45"),
    "fewer slopes": (lambda y: solve_ivp(lambda _, y: y[:1], (0, 1), y, t_eval=[0.5]), r"shape \(1,\) where"),
    "a matrix": (lambda y: odeint(lambda y, _: -y, y[None] * np.ones((2, 2)), T), "`y0` must be 1-dimensional"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_line(name: str) -> None:
    function, message = WRONG[name]
    with pytest.raises(SymgradError, match=message) as found:
        sg.jit(function)(Y0)
    assert f"{__file__}:{function.__code__.co_firstlineno}" in str(found.value)

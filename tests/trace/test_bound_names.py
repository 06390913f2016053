"""NumPy's and SciPy's functions by whatever name they were bound: modules, closures, methods, threads, and after it."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats
from numpy import array, zeros
from numpy import asarray as as_array
from scipy.special import logsumexp
from scipy.stats import norm

import symgrad as sg
from symgrad.errors import ConcretizationError, SymgradWarning
from symgrad.trace.numpy.replaced import Replaced
from tests.trace.programs import agree, run

V = np.array([1.0, 2.0, 3.5])
logpdf = norm.logpdf
kept = itertools.repeat(logsumexp)


def test_names_of_a_module() -> None:
    def fun(v: Any) -> Any:
        a = zeros(3)
        a[0] = v[1]
        return a, array([v[0], 1.0]), as_array([v[2], v[0]]), logsumexp(v), logpdf(v, 0.5, v[0])

    agree(fun, V)
    assert type(zeros(3)) is np.ndarray
    assert not isinstance(zeros, Replaced)
    assert not isinstance(globals()["logsumexp"], Replaced)


def test_names_in_closures_and_in_functions_there() -> None:
    from numpy import full
    from scipy.special import softmax as soft

    def inner(v: Any) -> Any:
        return soft(v) * full(3, v[0])

    agree(lambda v: inner(v) + 1, V)
    assert not isinstance(soft, Replaced)
    assert type(full(2, 1.0)) is np.ndarray


def test_a_function_that_is_itself_traced() -> None:
    for function in (logsumexp, norm.logpdf, logpdf, scipy.special.softmax):
        np.testing.assert_allclose(sg.jit(function, options=sg.Options(compiler="none"))(V), function(V), rtol=1e-14)


def test_another_module_of_the_users() -> None:
    other = types.ModuleType("another_module_of_the_users")
    other.__file__ = __file__
    sys.modules[other.__name__] = other
    try:
        exec("from numpy import ones\ndef made(v):\n    a = ones(3)\n    a[1] = v[0]\n    return a", vars(other))
        names: Any = vars(other)
        names["made"].__code__ = names["made"].__code__.replace(co_filename=__file__)
        agree(lambda v: names["made"](v) + 0, V)
        assert not isinstance(names["ones"], Replaced)
    finally:
        del sys.modules[other.__name__]


class Holds:
    static = staticmethod(logsumexp)
    plain = scipy.special.softmax
    bound = scipy.stats.norm.logpdf
    dist = scipy.stats.norm
    zeros = np.zeros

    def __init__(self) -> None:
        self.own: Any = scipy.special.softmax
        self.more: Any = {"lse": (logsumexp, [zeros])}

    def made(self, v: Any) -> Any:
        a = self.zeros(3)
        a[1] = v[0]
        return a + self.more["lse"][1][0](3) + Holds.plain(v) + self.own(v)


@functools.lru_cache
def steps(n: int) -> Any:
    return np.arange(float(n)) + np.linspace(0.0, 1.0, n)


def _default(v: Any, function: Any = logsumexp, *, made: Any = np.zeros) -> Any:
    a = made(3)
    a[0] = function(v)
    return a


HOLDS = Holds()
BOUND: dict[str, Any] = {
    "a static method": lambda v: Holds.static(v) * v, "by an object": lambda v: HOLDS.static(v) * v,
    "a bound method": lambda v: Holds.bound(v) + HOLDS.dist.logpdf(v, scale=2.0), "a method": HOLDS.made,
    "defaults": _default, "in containers": lambda v: HOLDS.more["lse"][0](v) * v,
    "a partial": functools.partial(scipy.special.softmax, axis=0),
    "a partial in a list": lambda v, of=[functools.partial(norm.logpdf, scale=2.0)]: of[0](v),  # noqa: B008
    "a cached one": lambda v, of={"steps": steps}: of["steps"](3) * v,
}


@pytest.mark.parametrize("name", BOUND)
def test_functions_in_attributes_defaults_and_containers(name: str) -> None:
    f = sg.jit(BOUND[name], options=sg.Options(compiler="none"))
    np.testing.assert_allclose(f(V), BOUND[name](V), rtol=1e-14)
    assert (Holds.zeros, HOLDS.own, _default.__defaults__) == (np.zeros, scipy.special.softmax, (logsumexp,))
    assert not isinstance(Holds.zeros, Replaced)
    assert not isinstance(vars(Holds)["static"].__func__, Replaced)
    assert type(steps(3)) is np.ndarray


def test_defaults_of_a_library_that_is_imported_after_a_trace(tmp_path: Any) -> None:
    """In a process of its own, in which no other function of SciPy's was asked for."""
    program = tmp_path / "late.py"
    program.write_text(
        "import numpy as np, symgrad as sg\n"
        "interpreted = sg.Options(compiler='none')\n"
        "sg.jit(lambda x, of=np.sum: of(x), options=interpreted)(np.ones(2))\n"
        "from scipy.special import logsumexp\n"
        "print(sg.jit(lambda x, of=logsumexp: of(x), options=interpreted)(np.zeros(2)) == np.log(2))\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


CALLED: dict[str, Any] = {
    "newton": lambda v: scipy.optimize.newton(lambda r: r**2 - v[0], 1.0),
    "newton by its slope": lambda v: scipy.optimize.newton(lambda r: r**2 - v[1], 1.0, fprime=lambda r: 2 * r),
    "a fixed point": lambda v: scipy.optimize.fixed_point(lambda r: np.cos(v[0] * r), 0.5),
    "a minimum": lambda v: np.sum(scipy.optimize.minimize(lambda u: np.sum((u - v[:2]) ** 2), np.ones(2)).x),
    "nodes": lambda v: scipy.integrate.fixed_quad(lambda t: np.exp(-v[0] * t), 0, 1)[0],
}


@pytest.mark.parametrize("name", CALLED)
def test_functions_that_scipy_calls_may_read_traced_values(name: str) -> None:
    fun, step = CALLED[name], 1e-6 * np.array([1.0, 1.0, 0.0])
    value, slope = sg.value_and_grad(fun, options=sg.Options(compiler="none"))(V)
    np.testing.assert_allclose(value, fun(V), rtol=1e-12)
    np.testing.assert_allclose(slope @ step, (fun(V + step) - fun(V - step)) / 2, rtol=2e-3)


def test_what_scipys_compiled_code_calls_is_refused_by_its_name() -> None:
    with pytest.raises(ConcretizationError, match=r"(?s)scipy\.optimize\.brentq: .*newton"):
        sg.jit(lambda v: scipy.optimize.brentq(lambda r: r**2 - v[0], 0.0, 5.0))(V)


def test_what_cannot_be_reached_is_refused_with_its_line() -> None:
    with (
        pytest.warns(SymgradWarning, match="takes from the iterator 'kept' once"),
        pytest.raises(ConcretizationError, match=r"scipy\.special\.logsumexp\(\.\.\.\): a plain") as error,
    ):
        sg.jit(lambda v: next(kept)(v) + 0)(V)
    assert "test_bound_names.py" in str(error.value)
    assert "by its module's name" in str(error.value)


def test_names_are_as_they_were_after_an_error() -> None:
    def fun(v: Any) -> Any:
        assert isinstance(zeros, Replaced)
        assert isinstance(vars(scipy.stats.rv_continuous)["logpdf"], Replaced)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(fun, V)
    assert not isinstance(zeros, Replaced)
    assert not isinstance(vars(scipy.stats.rv_continuous)["logpdf"], Replaced)
    assert not isinstance(scipy.special.logsumexp, Replaced)


def test_other_threads_get_the_functions_themselves() -> None:
    inside, seen = threading.Event(), []
    done = threading.Event()

    def other() -> None:
        inside.wait(30)
        seen.append((type(zeros(2)), float(logsumexp(V)), norm.logpdf(V).tolist(), norm(0.5, 2.0).cdf(V).tolist()))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    before = (np.ndarray, float(logsumexp(V)), norm.logpdf(V).tolist(), norm(0.5, 2.0).cdf(V).tolist())

    def fun(v: Any) -> Any:
        found = norm.logpdf(v)
        inside.set()
        done.wait(30)
        return found

    agree_once = run(fun, V)[0]
    thread.join()
    np.testing.assert_allclose(agree_once, norm.logpdf(V))
    assert seen == [before]


def test_a_name_that_is_replaced_meanwhile_is_no_other_name() -> None:
    """A function that is compiled inside of a trace, and reads such names, is compiled once."""
    inner = sg.jit(lambda v: logsumexp(v) + zeros(3), options=sg.Options(compiler="none"))
    plain = inner(V)
    outer = sg.jit(lambda v: inner(v) * 2, options=sg.Options(compiler="none"))
    np.testing.assert_allclose(outer(V), 2 * plain)
    np.testing.assert_allclose(inner(V), plain)
    assert inner.cache_info().compilations == 1


def made_inside() -> Any:
    from numpy import zeros as empty
    from scipy.special import logsumexp as total

    def fun(v: Any) -> Any:
        a = empty(3)
        a[1] = total(v)
        return a * v

    return fun


def passing(function: Any) -> Any:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Holding:
    def __init__(self) -> None:
        self.call = made_inside()


from_factory, decorated, holding = made_inside(), passing(passing(logsumexp)), Holding()
CLOSURES: dict[str, Any] = {
    "a factory": lambda v: from_factory(v) + v, "a decorator": lambda v: decorated(v) * v,
    "an attribute": lambda v: holding.call(v) + v, "a partial": functools.partial(lambda f, v: f(v) + v, from_factory),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_names_in_closures_of_what_is_called(name: str) -> None:
    fun = CLOSURES[name]
    np.testing.assert_allclose(sg.jit(fun, options=sg.Options(compiler="none"))(V), fun(V), rtol=1e-14)
    assert decorated.__closure__[0].cell_contents.__closure__[0].cell_contents is logsumexp

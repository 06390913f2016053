"""Ufuncs of lists, casts by scalar types and `np.ndarray` ask no protocol: the call alone gets a stand-in."""

from __future__ import annotations

import operator
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import numpy as np
import pytest
import scipy
import scipy.special as sp
import scipy.stats
from numpy import float64 as number
from numpy import sqrt as root

import symgrad as sg
from symgrad.errors import ConcretizationError, UnsupportedError
from symgrad.trace.numpy.replaced import SITES, _WithSites
from tests.table import richardson
from tests.trace.programs import run

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not tell what a line calls")

POINT = np.array([0.5, 0.7, 0.9])
DIRECTION = np.array([0.3, -1.0, 0.6])


def written(x: Any) -> Any:
    """A cast to the dtype an array has is the array itself, to another one it is new."""
    y = x * 2.0
    y[0] = x[1]
    same, other = np.float64(y), np.float32(y)
    same[1] = x[2] ** 2
    other[2] = 0.0
    return np.sum(y * np.arange(1.0, 4.0)) + np.float64(np.sum(other)) * 0.0


def local_names(x: Any) -> Any:
    """Modules imported where they are used."""
    import numpy  # noqa: ICN001 - under its own name
    from scipy import special

    return numpy.exp([x[0], x[1]])[1] * special.erf([x[2]])[0] * numpy.double(x[0])


def in_a_loop(x: Any) -> Any:
    """The interpreter specializes what runs often."""
    total = x[0]
    for k in (1, 5, 2, 7, 4, 8, 3, 9, 6, 11):
        total = total + np.hypot(*cast("Any", [[x[1]], [k]]))[0] * np.float64(x[2])
    return total


def made_anew(x: Any) -> Any:
    """Code that no other trace meets."""
    return FunctionType((lambda x: np.sinh([x[0], x[1]])[1]).__code__.replace(co_name="made"), globals())(x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a method of a ufunc": lambda x: np.sum(np.maximum.reduce([x, x * x, 1.2 - x]) * np.add.reduce((x, x[::-1] ** 2))),
    "methods of ufuncs": lambda x: np.sum(np.multiply.outer([x[0], x[1]], [1.0, 2.0])) + np.logaddexp.reduce([
        np.sin(v) for v in x]) + np.sum(np.minimum.accumulate([x[1], x[0], x[2]]) * np.arange(3.0)),
    "a ufunc of a list": lambda x: np.sum(np.sqrt([x[0] ** 2, x[1] ** 2]) * np.arange(1, 3.0)),
    "of lists in lists": lambda x: np.sum(np.hypot([x[0], x[1]], [[x[2]], [2.0]])),
    "of a tuple and a number": lambda x: np.sum(np.power((x[0], x[1]), 3)),
    "with a dtype": lambda x: np.sum(np.add([x[0], 1.0], x[:2], dtype=np.float64)) * x[0],
    "with where": lambda x: np.sum(np.multiply([x[0], x[1]], 3.0, out=np.zeros(2), where=np.array([True, False]))),
    "of SciPy": lambda x: np.sum(sp.gamma([x[0] + 2, x[1] + 2])) + scipy.special.gammaln([x[2]])[0],
    "in a comprehension": lambda x: sum(np.exp([v, 1.0])[0] for v in x),
    "in an argument of itself": lambda x: np.sum(np.exp([np.exp([x[0]])[0], np.float64(x[1])])),
    "with starred arguments": lambda x: np.hypot(*cast("Any", [[x[0]], [x[1]]]))[0],
    "on several lines": lambda x: np.sin([
        x[0],
        x[1],
    ]).sum(),
    "a method of what is given": lambda x: np.sqrt([x[0], x[1]]).sum() + np.float64(x).reshape(-1)[2],
    "a cast": lambda x: np.sum(np.float64(x[0]) * x),
    "a cast of all": lambda x: np.sum(np.float64(x) ** 2),
    "a cast of a list": lambda x: np.sum(np.float64(cast("Any", [x[0], x[1] * 2])) ** 2),
    "a cast of an array without axes": lambda x: np.float64(np.array(x[0] * x[1])) ** 2,
    "to integers": lambda x: np.sum(np.int64(x * 10 + 0.5) * x),
    "to truth values": lambda x: np.sum(np.bool_(x > 0.6) * x),
    "local names": local_names,
    "written": written,
    "beside select": lambda x: np.float64(x[1]) * np.sum(np.select([x > 0.65], [x * x], 0.5)),
    "in a derivative": lambda x: sg.grad(lambda y: np.float64(y[0]) ** 3 + np.exp([y[1]])[0])(x)[0] * x[1],
    "in a loop": in_a_loop,
    "code made in each trace": made_anew,
    "NumPy's and SciPy's of one name": lambda x: np.log1p([x[0]])[0] + sp.log1p([x[1]])[0],
    "under a condition": lambda x: np.float64(x[0]) ** 2 if x[1] > 0.6 else np.sqrt([x[0]])[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_that_ask_no_protocol(name: str) -> None:
    fun = PROGRAMS[name]
    value, slope = sg.value_and_grad(fun, options=sg.Options(compiler="none"))(POINT)
    np.testing.assert_allclose(value, fun(POINT), rtol=1e-13)
    along = richardson(lambda h: fun(POINT + h * DIRECTION), 1e-4)
    np.testing.assert_allclose(slope @ DIRECTION, along, rtol=1e-7, atol=1e-11)


def test_dtypes_and_kinds_are_those_of_the_cast() -> None:
    def casts(x: Any) -> Any:
        return (
            np.float32(x), np.int32(x * 3), np.uint8(x * 7), np.bool_(x[0]), np.double(x[0]),
            np.float64(cast("Any", [x[0], 2])), np.float32(np.array(x[1])),
            np.intp(x[2] * 9), np.sqrt([x[0], 1]), np.add([np.float32(x[0])], 1),
        )

    for got, want in zip(sg.jit(casts)(POINT), casts(POINT), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)
    assert sg.jit(lambda x: [isinstance(np.float64(x[0]), np.float64), isinstance(np.float64(x), np.ndarray)])(POINT)


def beside_calls(x: Any) -> tuple[Any, list[Any]]:
    """Every use of the same names that is no call, in code that calls them, gets NumPy's own."""
    y = np.float64(x[0]) * np.sqrt([x[1]])[0]
    exact = type(np.dtype("f8").type(2.0))
    tables = {np.float64: "double", np.sqrt: "root"}
    in_a_thread: list[Any] = []
    thread = threading.Thread(target=lambda: in_a_thread.extend([np.sqrt, np.float64, type(np.sqrt([4.0]))]))
    thread.start()
    thread.join()
    match np.float64(2.0):
        case np.float64():
            matched = True
        case _:
            matched = False
    held = operator.attrgetter("sqrt", "float64")(np)
    a_tuple = np.float64, *[np.sqrt]
    return y, [
        np.float64 is number, exact is np.float64, np.sqrt is root, getattr(np, "sqrt") is root,  # noqa: B009
        held == (root, number), type(np.sqrt) is np.ufunc, type(np.float64) is type, np.float64.__mro__[0] is number,
        tables[number], tables[root], np.zeros(2, np.float64).dtype, np.zeros(2, dtype=np.float64).dtype,
        np.dtype(np.float64).type is number,
        np.result_type(np.float64, np.float32), np.arange(3).astype(np.float64).dtype, np.finfo(np.float64).eps,
        np.issubdtype(np.float64, np.floating), issubclass(np.float64, float), isinstance(2.0, np.float64),
        isinstance(np.float64(2.0), np.float64), isinstance(1, (np.float64, int)), type(np.float64(2.0)) is number,
        pickle.loads(pickle.dumps([np.sqrt, np.float64])) == [root, number], a_tuple[0] is number, a_tuple[1] is root,
        [np.float64 for _ in range(2)][1] is number, np.sqrt.nin, np.float64.__name__, np.sqrt.__name__, matched,
        [f is root for f in (np.sqrt,)], in_a_thread == [root, number, np.ndarray], np.frompyfunc(np.sqrt, 1, 1)(4.0),
        np.float64.fromhex("0x1p-1"), np.add.reduce(np.sqrt([4.0, 9.0])), np.float64.__new__(np.float64, 3.0),
        np.float64.__eq__(np.float64(2.0), 2.0), (np.float64 if np.sqrt is root else np.float32)(3).dtype,
    ]


def test_all_other_uses_get_numpys_own() -> None:
    found: list[Any] = []

    def fun(x: Any) -> Any:
        y, others = beside_calls(x)
        found.append(others)
        return y

    wanted = beside_calls(POINT)
    np.testing.assert_allclose(sg.jit(fun, options=sg.Options(compiler="none"))(POINT), wanted[0], rtol=1e-15)
    assert found[-1] == wanted[1]


def test_code_is_traced_again_once_for_each_name() -> None:
    runs = []
    SITES.clear()

    def fun(x: Any) -> Any:
        runs.append(len(x))
        return np.cosh([x[0], x[1]])[0] + np.cosh([x[1]])[0] + np.float64(x[1]) + np.float64(x[0])

    function = sg.jit(fun, options=sg.Options(compiler="none"))
    function(POINT)
    assert runs == [3] * 3
    sg.jit(fun, options=sg.Options(compiler="none"))(POINT[:2])
    assert runs == [3] * 3 + [2]


def test_nothing_is_left_in_place() -> None:
    sg.jit(lambda x: np.sqrt([np.float64(x), 1.0]), options=sg.Options(compiler="none"))(2.0)
    assert SITES
    assert type(np) is type(sp) is type(threading)
    assert type(np.float64) is type
    assert type(np.sqrt) is np.ufunc


def given(x: Any, kind: Any = np.float64, ufunc: Any = np.exp) -> Any:
    """Types and ufuncs as values are NumPy's own, so they are not answered."""
    return kind(x[0]) + ufunc(x[0])


@pytest.mark.parametrize(("fun", "error", "instead"), [
    (lambda x: root([x[0], x[1]]), ConcretizationError, r"np.stack\(.*, or sqrt by its module's name"),
    (lambda x: number(x[0]), ConcretizationError, r"x.astype\(np.float64\), or np.float64\(x\) by the"),
    (given, ConcretizationError, r"x.astype\(np.float64\), or np.float64\(x\) by the"),
    (lambda x: np.complex128(x[0]), UnsupportedError, "real and the imaginary part"),
    (lambda x: np.float16(x[0]), UnsupportedError, "np.float32 or np.float64"),
])
def test_by_other_names_they_are_refused(fun: Any, error: Any, instead: str) -> None:
    with pytest.raises(error, match=f"(?s){__file__}.*instead: .*{instead}"):
        sg.jit(fun)(POINT)


def test_a_look_at_a_module_ends_after_another_thread_has_put_its_class_back() -> None:
    assert _WithSites.__getattribute__(cast("Any", np), "sqrt") is np.sqrt


WARNING: dict[str, Any] = {
    "a ufunc": lambda x: x + np.log(-np.ones(3)),
    "an operator": lambda x: x + np.ones(3) / np.zeros(3),
    "a function in Python": lambda x: x + np.nanmean(np.full(3, np.nan)),
    "SciPy's": lambda x: x + scipy.stats.skew(np.ones(3)),
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_of_plain_arrays_point_at_the_users_line(name):
    """And are filtered by the user's module, as they are without a trace."""
    fun, found = WARNING[name], []
    for call in (fun, lambda x: run(fun, x)):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", module=__name__)
            call(np.ones(3))
        found.append([(one.category, str(one.message), one.filename, one.lineno) for one in met])
    assert found[0] == found[1]
    assert found[0][0][2] == __file__


def test_errors_of_plain_arrays_are_numpys():
    with pytest.raises(ValueError, match="operands could not be broadcast"):
        run(lambda x: x + np.add(np.zeros(3), np.zeros(7)), np.ones(3))

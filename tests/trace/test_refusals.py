"""What a trace refuses: each program raises, names its line here, and says what to write instead."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import operator
import pickle
import random
import statistics
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy import array as bound_array
from numpy import zeros as bound_zeros

from symgrad.errors import (
    ArgumentError,
    ConcretizationError,
    LeakedTracerError,
    MutationError,
    SymgradError,
    SymgradWarning,
    UnsupportedError,
)
from tests.trace.programs import run

X = np.array([1.0, 2.0, 3.0])
OUTSIDE = np.zeros(3)
KEPT: list[Any] = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    MATRIX = np.matrix(np.eye(3))  # NumPy warns of it
TABLE: list[Any] = []


def refused(error, *pieces, args=(2.0, 3.0), builtin=None):
    """Enter a program; the marked line (or its last one) must raise, with these pieces in the message.

    `builtin` is an exception of Python or NumPy that comes before symgrad could say anything.
    """

    def enter(fun):
        TABLE.append(pytest.param(fun, error, pieces, args, builtin, id=fun.__name__))
        return fun

    return enter


condition = refused(ConcretizationError, "a condition", "np.where(condition, a, b)", "while program() is traced")
number = refused(ConcretizationError, "float() or a math.* function", "np.sin(x)")
plain = refused(ConcretizationError, "a plain NumPy array", "np.stack")
written = refused(MutationError, "a traced value is written into a plain array", "np.zeros(...)")
vector = functools.partial(refused, args=(X, X))


@condition
def if_(x, y):
    if x > 0:
        return x
    return y


@condition
def while_(x, y):
    while x < 10:
        x = x * 2
    return x


@condition
def assert_(x, y):
    assert x > 0


@condition
def and_(x, y):
    return x and y


@condition
def or_(x, y):
    return x or y


@condition
def not_(x, y):
    return not x


@condition
def conditional_expression(x, y):
    return max(y, x)


@condition
def chained_comparison(x, y):
    return 0 < x < y


@condition
def min_(x, y):
    return min(x, y)


@condition
def max_of_a_list(x, y):
    return max([x, y])


@condition
def sorted_(x, y):
    return sorted([x, y])


@condition
def any_(x, y):
    return any([x > 0, y > 0])


@condition
def in_a_list(x, y):
    return x in [1.0, 2.0]


@condition
def filter_(x, y):
    return list(filter(None, [x, y]))


@condition
def list_index(x, y):
    return [0.5, 1.0].index(x)


@vector(ConcretizationError, "a condition", "bool[3]")
def truth_of_a_vector(x, y):
    if x == y:
        return x
    return y


@vector(ConcretizationError, "a condition")
def all_method(x, y):
    if (x > 0).all():
        return x
    return y


@number
def float_(x, y):
    return float(x)


@number
def math_sin(x, y):
    return math.sin(x)


@number
def math_sqrt_of_a_sum(x, y):
    return math.sqrt(x * x + y * y)


@number
def math_fsum(x, y):
    return math.fsum([x, y])


@refused(ConcretizationError, "int()", "x.astype(np.int64)")
def int_(x, y):
    return int(x)


@refused(ConcretizationError, "complex()", "real")
def complex_(x, y):
    return complex(x)


@refused(ConcretizationError, "round() to an integer", "np.round(x)")
def round_(x, y):
    return round(x)


@refused(ConcretizationError, "math.floor()", "np.floor(x)")
def math_floor(x, y):
    return math.floor(x)


@refused(ConcretizationError, "hash()", "a dict's key")
def dict_key(x, y):
    return {x: 1}


@refused(ConcretizationError, "hash()", "member of a set")
def in_a_set(x, y):
    return x in {1.0, 2.0}


@refused(ConcretizationError, "hash()", "functools.cache")
def cached(x, y):
    return functools.cache(abs)(x)


@refused(ConcretizationError, "range()", "static_argnums=", args=(2, 3))
def range_(x, y):
    return sum(k * y for k in range(x))


@refused(ConcretizationError, "an index of a list", "np.take", args=(2, 3))
def list_item(x, y):
    return [1, 2, 3][x]


@refused(ConcretizationError, "a plain NumPy array", "np.take(array, i)", args=(2, 3))
def plain_array_item(x, y):
    return OUTSIDE[x]


@refused(ConcretizationError, "or a shape", "static_argnums=", args=(2, 3))
def shape_of_zeros(x, y):
    return np.zeros(x)


@refused(ConcretizationError, "or a shape", args=(2, 3))
def shape_of_ones(x, y):
    return np.ones((x, 2))


@refused(ConcretizationError, "np.arange", "length", args=(2, 3))
def arange(x, y):
    return np.arange(x)


@refused(ConcretizationError, "range()", args=(2, 3))
def linspace_count(x, y):
    return np.linspace(0, 1, x)


@refused(ConcretizationError, "the format '.3f'", "outside")
def format_(x, y):
    return f"{x:.3f}"


@refused(ConcretizationError, "item()", "the traced array itself")
def item(x, y):
    return x.item()


@vector(ConcretizationError, "tolist()", "list(x)")
def tolist(x, y):
    return x.tolist()


@refused(ConcretizationError, "pickling", "returning the value")
def pickled(x, y):
    return pickle.dumps(x)


@refused(ConcretizationError, "statistics", "np.mean")
def statistics_mean(x, y):
    return statistics.mean([x, y])


# -- where NumPy has no hook


@plain
def vectorize(x, y):
    return np.vectorize(lambda v: v + 1)(x)


@plain
def r_(x, y):
    return np.r_[x, y]


@plain
def c_(x, y):
    return np.c_[[x, y]]


@plain
def ufunc_of_a_list(x, y):
    return np.exp([x, y])


@plain
def ufunc_method_of_a_list(x, y):
    return np.add.reduce([x, y])


@plain
def float64_type(x, y):
    return np.float64(x)


@plain
def int64_type(x, y):
    return np.int64(x)


@plain
def array_bound_before(x, y):
    return bound_array([x, y])


@plain
def norm_pdf(x, y):
    return scipy.stats.norm.pdf(x)


@plain
def masked_array(x, y):
    return np.ma.array([1.0, 2.0], mask=[True, False]) * x


@plain
def ndenumerate(x, y):
    return list(np.ndenumerate(x))


@plain
def unwrap_of_a_list(x, y):
    return np.unwrap([x, y])


@plain
def masked_invalid(x, y):
    return np.ma.masked_invalid(x)


@refused(UnsupportedError, "a masked array", "mask")
def masked_array_on_the_right(x, y):
    return x * np.ma.array([1.0, 2.0], mask=[True, False])


@vector(UnsupportedError, "matrix", "np.asarray")
def matrix(x, y):
    return x @ MATRIX


@vector(UnsupportedError, "matrix")
def matrix_on_the_left(x, y):
    return MATRIX * x


@vector(UnsupportedError, "a masked array", "mask")
def masked_array_in_a_function(x, y):
    return np.concatenate([x, np.ma.array([1.0, 2.0], mask=[True, False])])


@vector(UnsupportedError, "a masked array")
def masked_array_in_where(x, y):
    return np.where(x > 0, x, np.ma.array(y.shape[0] * [1.0], mask=True))


@refused(UnsupportedError, "<U1")
def string_operand(x, y):
    return "a" + x


@refused(UnsupportedError, "object array", "dtype=object")
def object_array(x, y):
    return np.array([x, y], dtype=object)


@refused(UnsupportedError, "dtype object", "np.stack")
def object_item(x, y):
    o = np.empty(2, object)
    o[0] = x
    return o


@refused(UnsupportedError, "an object array meets a traced array")
def object_array_operand(x, y):
    return x * np.array([1, None], dtype=object)


@refused(UnsupportedError, "complex128", "astype")
def complex_operand(x, y):
    return x * np.array([1j])


@vector(ConcretizationError, "a traced boolean mask", "np.where(mask, x, 0)")
def boolean_mask(x, y):
    return x[x > 1]


@vector(UnsupportedError, "numpy.unique")
def unique(x, y):
    return np.unique(x)


@vector(SymgradError, "nonzero")
def nonzero(x, y):
    return np.nonzero(x)


@vector(SymgradError, "size depends on values")
def where_of_one(x, y):
    return np.where(x > 0)


@refused(UnsupportedError, "numpy.linalg.eig ", "symgrad ops", args=(np.eye(2), 1.0))
def unsupported_function(x, y):
    return np.linalg.eig(x)


@vector(UnsupportedError, "np.add.at")
def add_at(x, y):
    np.add.at(OUTSIDE, [0, 1, 2], x)


@vector(UnsupportedError, "np.subtract.reduceat")
def reduceat(x, y):
    return np.subtract.reduceat(x, [0, 1])


@vector(UnsupportedError, "where=")
def ufunc_where(x, y):
    return np.sqrt(x, where=[True, False, True])


@vector(UnsupportedError, "'sort'", "np.sort(x)")
def sort_method(x, y):
    x = x + 1
    x.sort()
    return x


@vector(UnsupportedError, "'tobytes'")
def tobytes(x, y):
    return x.tobytes()


@vector(UnsupportedError, "'view'", "astype")
def view(x, y):
    return x.view(np.int64)


@refused(UnsupportedError, "np.random.normal of a traced array", "mean + scale * noise")
def random_parameters(x, y):
    return np.random.normal(x, 1.0)  # noqa: NPY002


@vector(UnsupportedError, "random.choice of a traced array")
def random_choice(x, y):
    return random.choice(x)


@refused(ArgumentError, "len() of unsized object")
def len_of_a_number(x, y):
    return len(x)


@refused(ArgumentError, "iteration over a 0-d array")
def unpack_a_number(x, y):
    a, b = x
    return a + b


# -- writes


@written
def plain_item(x, y):
    a = OUTSIDE
    a[0] = x  # <-


@plain
def plain_slice(x, y):
    a = OUTSIDE
    a[1:] = np.stack([x, y])


@written
def zeros_bound_before(x, y):
    a = bound_zeros(3)
    a[0] = x  # <-
    return a


@written
def plain_copy_method(x, y):
    a = OUTSIDE.copy()
    a[0] = x  # <-
    return a


@vector(MutationError, "out=", "np.empty, np.zeros")
def plain_in_place(x, y):
    a = OUTSIDE
    a += x
    return a


@vector(MutationError, "out=")
def plain_out(x, y):
    np.add(x, 1, out=OUTSIDE)


@vector(MutationError, "np.copyto", "x[...] = value")
def plain_copyto(x, y):
    np.copyto(OUTSIDE, x)


@vector(UnsupportedError, "numpy.put", "x[index] = value")
def put(x, y):
    np.put(OUTSIDE, [0], x)


@vector(UnsupportedError, "numpy.place")
def place(x, y):
    np.place(np.zeros(3), [True, False, False], x)


@refused(MutationError, "np.fill_diagonal", "np.arange(n)")
def fill_diagonal_with_a_list(x, y):
    np.fill_diagonal(np.zeros((2, 2)), np.array([x, y]))


@refused(MutationError, "the argument 'a0'", args=(np.eye(2), 1.0))
def fill_diagonal_of_an_argument(x, y):
    np.fill_diagonal(x, y)


@vector(MutationError, "the argument 'a0'", "a0.copy()")
def argument_item(x, y):
    x[0] = 1.0


@vector(MutationError, "the argument 'a0'", "a0.copy()")
def argument_in_place(x, y):
    x += 1
    return x


@vector(MutationError, "the argument 'a0'")
def argument_view(x, y):
    x[1:][0] = 3.0


@vector(MutationError, "the argument 'a0'")
def argument_alias(x, y):
    z = np.asarray(x)
    z *= y


@vector(MutationError, "the argument 'a0'")
def argument_fill(x, y):
    x.fill(0)


@vector(MutationError, "the argument 'a1'")
def argument_out(x, y):
    np.multiply(x, 2, out=y)


@refused(MutationError, "a traced number", "np.array(x)")
def number_item(x, y):
    z = x * 2
    z[...] = 1.0


@vector(MutationError, "cannot be stored", "astype")
def integer_in_place(x, y):
    a = np.arange(3)
    a += x


@vector(MutationError, "a plain view is in use", "a copy")
def view_in_use(x, y):
    a = np.zeros(6)
    parts = np.split(a, 2)
    a[:3] = x
    return parts


@vector(MutationError, "memory layout", "copy()")
def write_into_a_perhaps_copy(x, y):
    a = np.outer(x, y)
    a.T.reshape(-1)[0] = 1.0


@vector(MutationError, "memory layout", "np.ravel")
def read_a_perhaps_copy(x, y):
    a = np.outer(x, y)
    b = a.T.ravel()  # <- it is read when it is returned
    a += 1
    return b


# -- leaks


@refused(LeakedTracerError, "used outside of its trace", "has_aux=True")
def another_trace(x, y):
    run(lambda v: KEPT.append(v * 2), 1.0)
    return x + KEPT[-1]


@refused(LeakedTracerError, "another thread")
def another_thread(x, y):
    found = []

    def work():
        try:
            np.exp(x)  # <-
        except SymgradError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise found[0]


@refused(MutationError, "before this trace began", "np.copy")
def array_of_another_trace(x, y):
    run(lambda _: KEPT.append(np.zeros(3)), 1.0)
    KEPT[-1][0] = x


@refused(ArgumentError, "not an array or a number", "tuples, lists and dicts")  # <- where the function begins
def returns_a_string(x, y):
    return "text"


# -- what only Python's own words can refuse


@refused(TypeError, builtin="bytes-like", args=(X, X))
def memoryview_(x, y):
    return memoryview(x)


@refused(TypeError, builtin="bytes-like", args=(X, X))
def frombuffer(x, y):
    return np.frombuffer(x)


@refused(TypeError, builtin="real number", args=(X, X))
def string_format(x, y):
    return "%d" % x  # noqa: UP031


@refused(AttributeError, builtin="no attribute 'nonsense'")
def unknown_attribute(x, y):
    return x.nonsense


def marked_line(fun):
    """Return the number of the line marked as the error's; without a mark it is the line that raised."""
    lines, start = inspect.getsourcelines(fun)
    return next((start + k for k, text in enumerate(lines) if "# <-" in text), None)


@pytest.mark.parametrize(("fun", "error", "pieces", "args", "builtin"), TABLE)
def test_refused(fun, error, pieces, args, builtin):
    with pytest.raises(error) as caught:
        run(fun, *args)
    if builtin is not None:
        assert builtin in str(caught.value)
        assert any(entry.name == fun.__name__ for entry in caught.traceback), "the traceback has the user's line"
        return
    message = str(caught.value)
    for piece in pieces:
        assert piece in message, message
    line = caught.value.line
    assert line is not None, message
    assert line.file == __file__
    first = fun.__code__.co_firstlineno
    marked = marked_line(fun)
    here = [entry.lineno + 1 for entry in caught.traceback if str(entry.path) == __file__]
    assert line.number == (here[-1] if marked is None else marked)
    assert line.text == inspect.getsourcelines(fun)[0][line.number - first].strip()
    assert f"{__file__}:{line.number}" in message
    assert line.text in message


def test_the_table_names_what_the_issue_names():
    names = {param.id for param in TABLE}
    assert {
        "if_",
        "float_",
        "math_sin",
        "vectorize",
        "dict_key",
        "sorted_",
        "r_",
        "object_item",
        "argument_item",
    } <= names
    assert len(names) == len(TABLE) > 90


def test_a_leaked_value_is_refused_outside_of_any_trace():
    kept = []
    run(lambda x: kept.append(x * 2), 1.0)
    for use in (lambda v: v + 1, np.exp, float, bool, lambda v: np.sum([v, v]), lambda v: np.stack([v, v]), np.asarray):
        with pytest.raises(LeakedTracerError, match="used outside of its trace") as caught:
            use(kept[0])
        assert caught.value.line is not None
        assert caught.value.line.file == __file__


def test_a_generator_that_outlives_its_trace_leaks():
    kept = []

    def program(x):
        kept.append(v * 2 for v in x)
        return x

    run(program, X)
    with pytest.raises(LeakedTracerError):
        next(kept[0])


def test_optimizers_inside_of_a_trace_are_refused():
    with pytest.raises(ConcretizationError):
        run(lambda x: scipy.optimize.minimize(lambda v: (v - x) ** 2, 0.0).x, 2.0)


def test_what_raises_leaves_numpy_as_it_was():
    places: list[tuple[Any, str]] = [(np, "zeros"), (np, "sum"), (np.random, "normal"), (random, "random")]
    before = [getattr(*place) for place in places]
    with pytest.raises(ConcretizationError):
        run(if_, 1.0, 2.0)
    assert all(getattr(*place) is was for place, was in zip(places, before, strict=True))


def test_users_own_errors_pass_through():
    def program(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(program, 1.0)


def test_random_draws_warn_once_for_a_line():
    def program(x):
        return x + sum(np.random.normal() for _ in range(3))  # noqa: NPY002

    with pytest.warns(SymgradWarning, match="np.random.normal is drawn once") as caught:
        run(program, 1.0)
    assert len(caught) == 1
    assert f"{__file__}:{program.__code__.co_firstlineno + 1}" in str(caught[0].message)
    run(program, 1.0)  # warnings are errors in these tests


def test_pythons_random_module_warns_too():
    with pytest.warns(SymgradWarning, match=r"random\.gauss is drawn once"):
        run(lambda x: x * random.gauss(0, 1), 1.0)


def test_copies_are_allowed():
    run(lambda x: copy.copy(x) + copy.deepcopy(x), X)
    run(operator.add, X, X)

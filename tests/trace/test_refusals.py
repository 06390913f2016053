"""What a trace refuses: each program raises, names its line, and says what to write instead."""

from __future__ import annotations

import copy
import inspect
import operator
import random
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from symgrad.errors import ConcretizationError, LeakedTracerError, SymgradWarning
from tests.trace import refused_functions, refused_numbers, refused_writes
from tests.trace.programs import run
from tests.trace.refused import TABLE, X, marked_line

MODULES = (refused_functions, refused_numbers, refused_writes)  # they fill the table


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
    file = fun.__code__.co_filename
    assert line.file == file
    first = fun.__code__.co_firstlineno
    marked = marked_line(fun)
    here = [entry.lineno + 1 for entry in caught.traceback if str(entry.path) == file]
    assert line.number == (marked if marked is not None else here[-1])
    assert line.text == inspect.getsourcelines(fun)[0][line.number - first].strip()
    assert f"{file}:{line.number}" in message
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
        "object_item",
        "argument_item",
    } <= names
    assert len(names) == len(TABLE) > 90
    assert {param.values[0].__module__ for param in TABLE} == {module.__name__ for module in MODULES}


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
        run(refused_numbers.if_, 1.0, 2.0)
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


def test_draws_of_scipys_are_noted() -> None:
    """Where SciPy's Python calls compiled code that makes arrays, that gets NumPy's own."""
    def fun(x: Any) -> Any:
        return x * scipy.stats.norm.rvs(size=3, random_state=3)

    with pytest.warns(SymgradWarning, match=r"scipy\.stats\.norm\.rvs is drawn once"):
        found = run(fun, X)
    np.testing.assert_array_equal(found[0], fun(X))

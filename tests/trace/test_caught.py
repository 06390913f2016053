"""A refusal that the function catches is raised all the same: its other branch is not NumPy's."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcretizationError, MutationError, SymgradError, UnsupportedError, heard
from tests.trace.programs import agree, run
from tests.trace.refused import OUTSIDE, X


def float_or_zero(x):
    try:
        v = float(x[0])
    except TypeError:
        v = 0.0
    return np.sum(x) * v


def branch_or_none(x):
    try:
        if x[0] > 0:
            return np.sum(x)
    except Exception:  # noqa: BLE001, S110 - what people write
        pass
    return np.sum(x * x)


def suppressed_tolist(x):
    with contextlib.suppress(Exception):
        return x[0].tolist() * x
    return x


def lost_write(x):
    with contextlib.suppress(TypeError):
        x[0] = 0.0
    return x


def lost_write_into_a_global(x):
    with contextlib.suppress(Exception):
        OUTSIDE[0] = x[0]
    return x


def no_answer(x):
    try:
        return np.fft.fft(x).real
    except TypeError:
        return x


def attribute(x):
    return x[::2] if hasattr(x, "strides") else x


def bare_except(x):
    try:
        return x * [1.0, 2.0, 3.0][x[0].astype(int)]
    except:  # noqa: E722 - what people write
        return x


CAUGHT = {
    float_or_zero: (ConcretizationError, "float() needs the value"),
    branch_or_none: (ConcretizationError, "a condition"),
    suppressed_tolist: (ConcretizationError, "tolist()"),
    lost_write: (MutationError, "a write into the argument"),
    lost_write_into_a_global: (ConcretizationError, "float()"),
    no_answer: (UnsupportedError, "has no answer"),
    attribute: (UnsupportedError, "'strides'"),
    bare_except: (ConcretizationError, "an index of a list"),
}


@pytest.mark.parametrize("fun", CAUGHT)
def test_a_caught_refusal_is_raised_with_its_line(fun):
    error, words = CAUGHT[fun]
    with pytest.raises(error, match="the error was caught, by an except clause or by a library") as caught:
        run(fun, X)
    assert words in str(caught.value)
    assert caught.value.line is not None
    assert caught.value.line.file == __file__
    first = fun.__code__.co_firstlineno
    assert first < caught.value.line.number < first + 5
    assert isinstance(caught.value.__cause__, error)
    assert heard.refusals is None


def test_no_gradient_comes_of_it():
    with pytest.raises(ConcretizationError, match="was caught"):
        sg.grad(float_or_zero)(X)


# -- what NumPy raises as well takes the same branch there


def float_of_several(x):
    try:
        return float(x)
    except TypeError:
        return np.sum(x)


def truth_of_several(x):
    try:
        return x if x > 0 else -x
    except Exception:  # noqa: BLE001 - NumPy's is a ValueError
        return x * 2


def hash_of_an_array(x):
    try:
        return {x: 1}
    except TypeError:
        return x * 3


def index_of_a_float(x):
    try:
        return x[operator.index(x[0])]
    except TypeError:
        return x[1]


def length_of_a_number(x):
    try:
        return len(x[0])
    except TypeError:
        return x[0]


def write_into_a_number(x):
    number: Any = x[0]
    try:
        number[0] = 3.0
    except TypeError:
        number = number * 2
    return number


def add_floats_to_integers(x):
    a = np.arange(3)
    try:
        a += x
    except TypeError:
        return a + x
    return a


def shape_that_does_not_fit(x):
    try:
        return x.reshape(2, 2)
    except ValueError:
        return x.reshape(3, 1)


def users_own(x):
    mine: dict[str, Any] = {}
    try:
        return mine["x"]
    except KeyError:
        return x


def text_for_a_log(x):
    with contextlib.suppress(TypeError):
        f"{x[0]:.3f}"
    return x


@pytest.mark.parametrize("fun", [
    float_of_several, truth_of_several, hash_of_an_array, index_of_a_float, length_of_a_number, write_into_a_number,
    add_floats_to_integers, shape_that_does_not_fit, users_own, text_for_a_log,
])
def test_what_numpy_raises_too_may_be_caught(fun):
    agree(fun, X)


# -- nested traces


def test_what_an_inner_trace_refused_is_raised_by_it():
    def inner(y):
        try:
            return float(y)
        except Exception:  # noqa: BLE001 - what people write
            return y

    with pytest.raises(ConcretizationError, match="was caught"):
        run(lambda x: sg.grad(inner)(x[0]), X)


def test_what_was_raised_by_an_inner_trace_and_caught_outside_counts_too():
    def outer(x):
        try:
            return sg.grad(lambda y: y if y > 0 else -y)(x[0])
        except SymgradError:
            return x[0]

    with pytest.raises(ConcretizationError, match="was caught"):
        run(outer, X)


def test_an_error_of_the_users_own_comes_first():
    def program(x):
        try:
            return float(x[0])
        except TypeError:
            raise KeyError("mine") from None

    with pytest.raises(KeyError, match="mine"):
        run(program, X)
    assert heard.refusals is None

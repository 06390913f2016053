"""Writes that a trace cannot follow, values that leak, and what Python itself refuses: each line raises."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy import zeros as bound_zeros

from symgrad.errors import ArgumentError, LeakedTracerError, MutationError, SymgradError, UnsupportedError
from tests.trace.programs import run
from tests.trace.refused import OUTSIDE, X, plain, refused, vector, written

KEPT: list[Any] = []


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

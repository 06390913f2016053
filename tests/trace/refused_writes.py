"""Writes that a trace cannot follow, values that leak, and what Python itself refuses: each line raises."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from symgrad.errors import (
    ArgumentError,
    ConcretizationError,
    LeakedTracerError,
    MutationError,
    ShapeError,
    SymgradError,
    UnsupportedError,
)
from tests.trace.programs import run
from tests.trace.refused import OUTSIDE, X, refused, vector, written

KEPT: list[Any] = []


# -- writes


@written
def plain_item(x, y):
    a = OUTSIDE
    a[0] = x  # <-


@written
def plain_slice(x, y):
    a = OUTSIDE
    a[1:] = np.stack([x, y])  # <-


@written
def zeros_as_a_default(x, y, zeros=np.zeros):
    a = zeros(3)
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


@vector(MutationError, "np.put", "x.flat[indices] = values")
def put(x, y):
    np.put(OUTSIDE, [0], x)


@vector(ShapeError, "place: mask and data must be the same size")
def place(x, y):
    np.place(np.zeros(2), x > 1, y)


@vector(MutationError, "np.multiply.at gives float64 in an array of int64", "np.float64")
def multiply_at(x, y):
    a = np.zeros(3, int)
    np.multiply.at(a, [0, 0], x[0])


@vector(MutationError, "np.negative.at", "inside of the function")
def negative_at(x, y):
    np.negative.at(OUTSIDE, x.astype(int))


@vector(MutationError, "the argument 'a0'", "a0.copy()")
def argument_added_at(x, y):
    np.add.at(x, [0, 0], 1.0)


@vector(MutationError, "the argument 'a0'", "a0.copy()")
def argument_through_a_mask(x, y):
    x[x > 1] = 0.0


@vector(MutationError, "the argument 'a1'", "a1.copy()")
def argument_by_a_traced_index(x, y):
    y[x.astype(int)] = 0.0


@vector(ShapeError, "cannot broadcast (3,) to (3, 1)")
def vector_along_a_new_axis(x, y):
    a = np.zeros(3)
    a[:, None] = x


@vector(MutationError, "how many elements it takes depends on values", "x[mask] = array[mask]")
def array_through_a_traced_mask(x, y):
    a = np.zeros(3)
    a[x > 1] = y


@vector(ConcretizationError, "through another mask", "of the same mask")
def selection_through_another_mask(x, y):
    a = np.zeros(3)
    a[x > 1] = y[y > 1]


@vector(ConcretizationError, "through something else than its mask")
def selection_through_a_slice(x, y):
    a = np.zeros(3)
    a[:] = y[y > 1]


@vector(MutationError, "np.sum gives ()", "the result's shape")
def out_of_another_shape(x, y):
    np.sum(x, out=np.zeros(3))


@refused(MutationError, "np.fill_diagonal of an array of shape (3,)", args=(X, 1.0))
def fill_diagonal_of_a_vector(x, y):
    a = x * 1
    np.fill_diagonal(a, y)


@vector(MutationError, "np.copyto into an array of int64", "x[...] = value")
def copyto_of_another_kind(x, y):
    np.copyto(np.zeros(3, int), x)


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
def returns_an_object(x, y):
    return object()


@refused(MutationError, "a traced value is written into a plain array", "np.copy", args=(X, X))
def array_of_a_draw(x, y):
    z = np.random.default_rng(0).random((3, *x.shape))
    z[1] = x  # <-
    return z


# -- what only Python's own words can refuse


@refused(UnsupportedError, "bytes-like", "a traced array", args=(X, X))
def memoryview_(x, y):
    return memoryview(x)  # <-


@refused(UnsupportedError, "numpy.frombuffer has no answer for traced arrays", args=(X, X))
def frombuffer(x, y):
    return np.frombuffer(x)  # <-


@refused(UnsupportedError, "real number", "a traced array", args=(X, X))
def string_format(x, y):
    return "%d" % x  # noqa: UP031  # <-


@refused(AttributeError, builtin="no attribute 'nonsense'")
def unknown_attribute(x, y):
    return x.nonsense

"""Traced values where Python needs a condition or a number: each line raises."""

from __future__ import annotations

import functools
import math
import pickle
import statistics

import numpy as np

from symgrad.errors import ArgumentValueError, ConcretizationError
from tests.trace.refused import OUTSIDE, condition, refused, vector


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


@vector(ArgumentValueError, "the truth value of an array with more than one element is ambiguous", "bool[3]")
def truth_of_a_vector(x, y):
    if x == y:
        return x
    return y


@vector(ConcretizationError, "a condition")
def all_method(x, y):
    if (x > 0).all():
        return x
    return y


@refused(ConcretizationError, "float() needs", "return x: ")
def float_(x, y):
    return float(x)


@refused(ConcretizationError, "math.sin() needs", "np.sin(x)")
def math_sin(x, y):
    return math.sin(x)


@refused(ConcretizationError, "math.sqrt() needs", "np.sqrt(x)")
def math_sqrt_of_a_sum(x, y):
    return math.sqrt(x * x + y * y)


@refused(ConcretizationError, "math.fsum() needs", "np.sum(x)")
def math_fsum(x, y):
    return math.fsum([x, y])


@refused(ConcretizationError, "int()", "x.astype(np.int64)")
def int_(x, y):
    return int(x)


@refused(ConcretizationError, "complex()", "the real and the imaginary part")
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


@refused(ConcretizationError, "numpy.zeros(): a shape, a count", "static_argnums=", args=(2, 3))
def shape_of_zeros(x, y):
    return np.zeros(x)


@refused(ConcretizationError, "numpy.ones(): a shape, a count", args=(2, 3))
def shape_of_ones(x, y):
    return np.ones((x, 2))


@refused(ConcretizationError, "np.arange", "length", args=(2, 3))
def arange(x, y):
    return np.arange(x)


@refused(ConcretizationError, "numpy.linspace(): a shape, a count", "static_argnums=", args=(2, 3))
def linspace_count(x, y):
    return np.linspace(0, 1, x)


@refused(ConcretizationError, "the format '.3f'", "outside")
def format_(x, y):
    return f"{x:.3f}"


@vector(ArgumentValueError, "incorrect number of indices", "x.item(k)")
def item_of_a_pair(x, y):
    return x.item(0, 0)


@vector(ArgumentValueError, "item() of float64[3]: can only convert an array of size 1", "x.item(k)")
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

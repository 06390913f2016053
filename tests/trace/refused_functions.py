"""Where NumPy has no hook, or symgrad no answer: each line raises."""

from __future__ import annotations

import random
import warnings

import numpy as np
import scipy.optimize
import scipy.stats
from numpy import exp, float64

from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    ConcretizationError,
    DtypeError,
    IndexOutOfBounds,
    MutationError,
    ShapeError,
    SymgradError,
    UnsupportedError,
)
from tests.trace.refused import OUTSIDE, X, plain, refused, vector

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    MATRIX = np.matrix(np.eye(3))  # NumPy warns of it


@refused(UnsupportedError, "np.vectorize over unknown extents, or none", "sg.vmap", args=(np.zeros((0, 3)), 1.0))
def vectorize(x, y):
    return np.vectorize(np.sum, signature="(n)->()")(x)


@plain
def ufunc_of_a_list(x, y):
    return exp([x, y])


@refused(ConcretizationError, "numpy.float64(...): a plain NumPy array", "x.astype(np.float64)")
def float64_type(x, y):
    return float64(x)


@refused(ConcretizationError, "numpy.int64(...): a plain NumPy array", "x.astype(np.int64)")
def int64_type(x, y, cast=np.int64):
    return cast(x)


@refused(ConcretizationError, "array(...): a plain NumPy array", "by its module's name")
def array_bound_as_a_default(x, y, make=np.array):
    return make([x, y])


@refused(UnsupportedError, "scipy.stats.studentized_range.pdf", "its formula of np.*")
def a_pdf_in_compiled_code(x, y):
    return scipy.stats.studentized_range.pdf(x, 3.0, 10.0)


@refused(ConcretizationError, "numpy.ma.MaskedArray", "np.where(mask, fill, data)")
def masked_array(x, y):
    return np.ma.array([1.0, 2.0], mask=[True, False]) * x


@refused(ConcretizationError, "numpy.ma.masked_invalid(...)", "np.where(mask, fill, data)")
def masked_invalid(x, y):
    return np.ma.masked_invalid(x)


@refused(UnsupportedError, "a masked array", "mask")
def masked_array_on_the_right(x, y):
    return x * np.ma.array([1.0, 2.0], mask=[True, False])


@vector(UnsupportedError, "matrix", "np.asarray")
def matrix(x, y):
    return x @ MATRIX


@vector(UnsupportedError, "'view'")
def matrix_on_the_left(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # NumPy makes a matrix of what is an array
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


@refused(UnsupportedError, "complex numbers (complex128)", "the real and the imaginary part")
def complex_operand(x, y):
    return x * np.array([1j])


@vector(ConcretizationError, "with a traced mask", "np.where(mask, x, 0)")
def boolean_mask(x, y):
    return x[x > 1]  # <-


@vector(ConcretizationError, "arithmetic with what another mask selects", "of the same mask")
def two_masks(x, y):
    return np.sum(x[x > 1] * y[y > 1])


@vector(ConcretizationError, "len() of it", "sums, means, variances, extrema")
def count_of_a_selection(x, y):
    return x[:2] * len(x[x > 1])


@vector(ConcretizationError, "arithmetic with an array", "sums, means, variances, extrema")
def sorted_selection(x, y):
    return np.sort(x[x > 1]) + y


@vector(ConcretizationError, "np.sum of it, with these keywords")
def sum_of_a_selection_with_keywords(x, y):
    return np.sum(x[x > 1], where=y > 1)


@vector(ConcretizationError, "an index of a new axis")
def new_axis_of_a_selection(x, y):
    return x[x > 1][None]


@vector(ConcretizationError, "a write into it", "np.where(mask, x, 0)")
def write_into_a_selection(x, y):
    chosen = x[x > 1]
    chosen[...] = 0.5


@vector(ConcretizationError, "np.partition of it")
def method_of_a_selection(x, y):
    x[x > 1].partition(1)


@vector(ConcretizationError, "arithmetic with an array", "np.where(mask, x, 0)", args=(np.eye(3), X))
def boolean_mask_beside_a_slice(x, y):
    return x[:, y > 1] + np.ones(3)


@vector(ConcretizationError, "a traced mask beside another mask or an array", "x[mask][:, ids]", args=(np.eye(3), X))
def boolean_mask_beside_another(x, y):
    return x[y > 1, y < 2]


@vector(ConcretizationError, "a traced mask beside another mask", "np.where(mask[:, None]", args=(np.eye(3), X))
def write_through_a_mask_and_an_array(x, y):
    z = np.copy(x)
    z[y > 1, [0, 1]] = 1


@vector(MutationError, "how many elements it takes depends on values", "x[mask] = array[mask]", args=(np.eye(3), X))
def write_of_a_column_for_each_selected(x, y):
    z = np.copy(x)
    z[:, y > 1] = x


@vector(ConcretizationError, "what is selected along one axis, beside another axis", args=(np.eye(3), X))
def write_of_what_is_selected_as_a_row(x, y):
    z = np.copy(x)
    z[y > 1] = y[y > 1]


@refused(IndexOutOfBounds, "boolean index did not match", args=(np.ones((2, 3)), np.ones(2)))
def mask_of_another_axis(x, y):
    z = np.copy(x)
    z[:, y > 1] = 0


@vector(UnsupportedError, "np.compress by a traced condition along axis 1", "np.moveaxis", args=(np.eye(3), X))
def compressed_columns(x, y):
    return np.compress(y > 1, x, axis=1)


@refused(IndexOutOfBounds, "did not match", args=(X, np.ones(2)))
def mask_of_another_length(x, y):
    return np.sum(x[y > 1])


@vector(SymgradError, "arithmetic with an array: numpy.unique(...) of traced values", "sg.unique(x, size=n)")
def unique(x, y):
    return np.unique(x) + y


@vector(SymgradError, "numpy.where(...) of traced values", "sg.nonzero(mask, size=n)")
def where_of_one(x, y):
    return np.where(x > 0)[0] + y


@vector(SymgradError, "an index: numpy.nonzero(...) of traced values")
def places_of_two_masks(x, y):
    return np.sum(np.outer(x, x)[np.nonzero(x > 0)[0], np.nonzero(y > 0)[0]])


@vector(ArgumentError, "dtype float64 and the shape (3,)", "an integer without axes")
def diagonal_by_an_array(x, y):
    return np.eye(3, k=x)


@vector(ArgumentError, "__array_function__")
def like_a_list(x, y):
    return np.zeros(3, like=[x])  # type: ignore[call-overload]  # <-


@refused(UnsupportedError, "numpy.linalg.eig ", "np.linalg.eigh", args=(np.eye(2), 1.0))
def unsupported_function(x, y):
    return np.linalg.eig(x)


@vector(MutationError, "np.add.at", "into a plain array", "made inside")
def add_at(x, y):
    np.add.at(OUTSIDE, [0, 1, 2], x)


@vector(ArgumentValueError, "'subtract' does not have an identity")
def reduce_where(x, y):
    return np.subtract.reduce(x, where=x > 1)


@vector(UnsupportedError, "where=")
def ufunc_where(x, y):
    return np.sqrt(x, where=[True, False, True])


@vector(UnsupportedError, "'setfield'")
def setfield_method(x, y):
    x = x + 1
    x.setfield(y, np.float64)
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


@vector(ShapeError, "dot: shapes (3,) and (4, 3) have the extents [3] and [4] along axes [0] and [0]")
def dot_of_other_extents(x, y):
    return np.dot(x, np.ones((4, 3)))


@vector(ShapeError, "vdot: shapes (3,) and (2,) have the extents [3] and [2]")
def vdot_of_other_extents(x, y):
    return np.vdot(x, x[:2])


@vector(ShapeError, "einsum 'ij,k->': 'ij' names 2 axes of an array with shape (3,)")
def labels_for_another_rank(x, y):
    return np.einsum("ij,k->", x, y)


@vector(ShapeError, "einsum 'i,i->j': 'j' is no label there")
def a_label_of_no_operand(x, y):
    return np.einsum("i,i->j", x, y)


@vector(ShapeError, "einsum 'i,j->ii': 'i' is no label there")
def a_label_twice_in_the_result(x, y):
    return np.einsum("i,j->ii", x, y)


@vector(ShapeError, "einsum '...,...->': '...' stands for 1 axes, and not in the result")
def dots_without_a_result(x, y):
    return np.einsum("...,...->", x, y)


@vector(UnsupportedError, "scipy.stats.norm.rvs of a traced array", "standard numbers")
def a_draw_of_scipys(x, y):
    return scipy.stats.norm.rvs(loc=x, size=3) + y


@refused(UnsupportedError, "an array of dtype <U1 (texts) meets a traced array", "np.unique(a, return_inverse=True)[1]")
def texts(x, y):
    return np.where(x > 0, "a", "b")


@refused(UnsupportedError, "an array of dtype datetime64[D] (dates)", "/ np.timedelta64(1, 's')")
def dates(x, y):
    return x * np.array(["2020-01-01"], "M8[D]")


@refused(UnsupportedError, "power() takes from 2 to 3 positional arguments but 1 was given", "power(x1, x2, /")
def too_few_arguments(x, y):
    return np.power(50) * x  # type: ignore[call-overload]  # <-


@vector(DtypeError, "np.add: Cannot cast ufunc 'add' input 0 from dtype('float64') to dtype('float32')")
def loop_that_the_rule_of_casts_forbids(x, y):
    return np.add(x, y, dtype=np.float32, casting="no")


@vector(UnsupportedError, "a boolean scalar as an index, but True beside slices alone", "np.where(condition, x, 0)")
def false_as_an_index(x, y):
    return x[False]

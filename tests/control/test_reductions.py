"""Python's own `max`, `min`, `sum` and `len` of traced values: one path, whichever is the largest."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.table import richardson

INTERPRETED = sg.Options(compiler="none", paths=100)
RNG = np.random.default_rng(11)
DIRECTION = np.cos(np.arange(40.0))
POINTS = [RNG.normal(size=40) * s for s in (0.5, 1.0, 1.0, 2.0, 0.1)]


def of_two(x):
    return max(x[0], 2.0 * x[1]) * min(x[2], x[3])


def of_a_list(x):
    out = [np.sin(v) * 2.0 for v in x]
    return max(out) - 0.5 * min(out)


def of_a_generator(x):
    return max(v * v for v in x) + min(np.cos(v) for v in x[:5])


def of_an_array(x):
    return max(x) * min(x[3:9])


def hinges(x):
    return sum(max(0, 1.0 - x[k] * x[k + 20]) for k in range(20))


def of_rows(x):
    return sum([max(row) for row in np.reshape(x, (8, 5))])


def in_rounds(x):
    best, total = x[0], 0.0
    for v in x:
        best = max(best, v)
        total = total + min(best, 1.0) * v
        if v > 0.5:
            total = 0.9 * total
    return total


FUNCTIONS = [of_two, of_a_list, of_a_generator, of_an_array, hinges, of_rows, in_rounds]


def agrees(fun, compiled, points, rtol=1e-12):
    """Compare values, and slopes with differences."""
    for x in points:
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=rtol)

        def along(h, x=x):
            return fun(x + h * DIRECTION[: len(x)])

        wanted = richardson(along, 1e-6)
        np.testing.assert_allclose(slope @ DIRECTION[: len(x)], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_largest_is_no_branch(fun):
    compiled = sg.value_and_grad(fun, options=INTERPRETED)
    agrees(fun, compiled, POINTS)
    assert compiled.cache_info().compilations == 1


def test_in_c_in_batches_forward_and_from_specs():
    def every(x):
        return of_two(x) + of_a_list(x) + hinges(x)

    X = np.stack(POINTS)
    wanted = [every(x) for x in X]
    np.testing.assert_allclose(sg.vmap(every)(X), wanted, rtol=1e-12)
    value, slope = sg.jvp(every, (X[0],), (DIRECTION,))
    np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(slope, sg.grad(every)(X[0]) @ DIRECTION, rtol=1e-12)
    assert "ops.guard(" not in sg.jit(every).lower(sg.spec("f64[40]")).as_text("optimized")


@pytest.mark.parametrize(("values", "dtype"), [
    ((1.5, np.nan, 2.0), float), ((np.nan, 1.0, 2.0), float), ((0.0, -0.0, 0.0), float), ((-0.0, 0.0, -1.0), float),
    ((np.inf, np.nan, -np.inf), float), ((3, 1, 2), int), ((2, 250, 7), np.uint8), ((1.0, 1.0, 1.0), np.float32),
])
def test_ties_and_nan_are_pythons(values, dtype):
    """The first of equal ones, and what is no number only where no comparison throws it out."""
    x = np.array(values, dtype)
    found = sg.jit(lambda x: (max(x), min(x), max(x[0], x[1]), min(x[1], x[2])), options=INTERPRETED)(x)
    wanted = max(x), min(x), max(x[0], x[1]), min(x[1], x[2])
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


MIXED = {
    "several kinds": lambda x: max(x[0], int(x[1] > 0), np.float32(0.5)),
    "keys": lambda x: max(x[0], x[1], key=lambda v: v * v),
    "an empty one": lambda x: max([v for v in x if v > 99.0], default=x[2]),
    "large integers": lambda x: max(2**60 + 1, x[0]) * 1.0,
}


@pytest.mark.parametrize("name", MIXED)
def test_what_is_not_of_one_kind_is_asked(name):
    compiled = sg.jit(MIXED[name], options=INTERPRETED)
    for x in POINTS:
        np.testing.assert_allclose(compiled(x), MIXED[name](x), rtol=1e-14)


def test_of_nothing_python_refuses():
    with pytest.raises(ValueError, match=r"empty|iterable argument"):
        sg.jit(lambda x: max([]) * x)(1.0)

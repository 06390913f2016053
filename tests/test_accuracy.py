"""The page of functions' accuracy keeps what it says, and the vector variants it speaks of are called."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest

import symgrad as sg
from benchmarks import accuracy
from symgrad.build.toolchain import find as toolchain
from symgrad.options import Options

COLUMNS = ("f64", "f64 precise", "f32", "f32 precise")


@cache
def found(names):
    """Measure other points than the page's, the hard ones among them."""
    return accuracy.measured(400, 2, names)


@cache
def promised():
    return accuracy.promised(accuracy.PAGE.read_text(encoding="utf-8"))


def test_the_page_has_every_function():
    assert set(promised()) == set(accuracy.ROWS)


@pytest.mark.parametrize("name", accuracy.ROWS)
def test_errors_are_within_the_page_s(name, tried):
    if "glibc" not in toolchain.features():
        pytest.skip("the page was measured with glibc")
    figures = promised()[name]
    for k, column in enumerate(COLUMNS):
        # A compiler without vector functions calls the scalar ones either way.
        bound = math.ceil(1.1 * max(figures[k], figures[k // 2 * 2 + 1]))
        assert found(tried("name"))[name][k] <= bound, column


def test_the_measure_sees_a_wrong_last_digit():
    x = np.linspace(1, 2, 50)
    high, low = accuracy.exact(accuracy.ROWS["exp(x)"], [x])
    right = accuracy.errors(high, high, low)
    assert np.max(right) <= 0.5
    assert np.min(accuracy.errors(np.nextafter(high, 10), high, low)) >= 0.5
    assert np.max(accuracy.errors(np.full(50, np.nan), high, low)) != np.max(right)
    single = accuracy.errors(np.float32(high), high, low)
    assert 0.4 < np.max(single) <= 0.5


def test_what_is_called_correctly_rounded_is():
    x = np.random.default_rng(0).uniform(0.5, 2, 1000)
    for function in (np.sqrt, lambda x: x**2, lambda x: x**-1, lambda x: x / 3.0):
        np.testing.assert_array_equal(sg.jit(function)(x), function(x))
    off = np.abs(sg.jit(lambda x: x**20)(x) - np.power(x, 20.0)) / np.spacing(np.power(x, 20.0))
    assert np.max(off) <= 20


@pytest.mark.parametrize(("dtype", "suffix", "lanes"), [(np.float64, "", 8), (np.float32, "f", 16)], ids=str)
@pytest.mark.parametrize("name", ["exp", "log", "erf"])
def test_vector_variants_are_called(name, dtype, suffix, lanes):
    tools = toolchain.find(Options())
    if tools is None or name + suffix not in tools.target.simd_math:
        pytest.skip("this toolchain has no vector variant of it")
    from scipy import special

    function = special.erf if name == "erf" else getattr(np, name)
    x = np.linspace(0.5, 1.5, 1000).astype(dtype)
    called = variants(sg.jit(lambda x: function(x)), x)  # noqa: PLW0108 - a ufunc has no name of its own to compile
    assert {found[2].decode() for found in called} == {name + suffix}
    if tools.target.vector_bits == 512:
        assert {(isa, int(count)) for isa, count, _ in called} >= {(b"e", lanes)}
    assert variants(sg.jit(lambda x: function(x), options=Options(precise=True)), x) == set()  # noqa: PLW0108


def variants(compiled, x):
    """Return the vector functions that a compiled function's library calls: instruction set, lanes, name."""
    compiled(x)
    library = compiled._ran().built.library
    return set(re.findall(rb"_ZGV([a-z])N(\d+)v+_(\w+)\0", library.library_path.read_bytes()))


def test_f32_calls_sixteen_lanes_of_expf():
    """As objdump would show them."""
    tools = toolchain.find(Options())
    if tools is None or tools.target.vector_bits != 512 or "expf" not in tools.target.simd_math:
        pytest.skip("not a machine whose vectors of 512 bits are used")
    called = variants(sg.value_and_grad(lambda x: np.sum(np.exp(x))), np.ones(1000, np.float32))
    assert (b"e", b"16", b"expf") in called

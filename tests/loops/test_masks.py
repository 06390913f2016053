"""Booleans that stand in memory, among lanes: their loops call the vector library, and give what NumPy gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.build.toolchain import find as toolchain
from symgrad.options import Options

RNG = np.random.default_rng(7)
ROWS, FLAGS = RNG.normal(size=(67, 30)), RNG.random((67, 30)) < 0.5

PROGRAMS = {
    "terms": lambda x, m: np.sum(np.where(m, np.exp(x), 0.0)),
    "squares": lambda x, m: np.sum(np.where(m, np.tanh(x), 0.0) ** 2),
    "two": lambda x, m: np.mean(np.where(m & (x > 0), np.sqrt(np.abs(x) + 1), np.sin(x))),
    "logsumexp": lambda x, m: np.sum(special.logsumexp(np.where(m, x, -np.inf), axis=1)),
    "softmax": lambda x, m: np.sum(special.softmax(np.where(m, x, -1e9), axis=1) * x),
    "not": lambda x, m: np.sum(np.where(~m, np.exp(-x * x), x)),
    "rows": lambda x, m: np.sum(np.where(m.any(axis=1), np.exp(x).sum(axis=1), 0.0)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_differences(name: str, dtype: Any) -> None:
    program, x = PROGRAMS[name], ROWS.astype(dtype)
    value, slope = sg.value_and_grad(program)(x, FLAGS)
    wide = ROWS.astype(dtype).astype(np.float64)
    eps = float(np.finfo(dtype).eps)
    assert value == pytest.approx(program(wide, FLAGS), rel=1000 * eps)
    h = 1e-6 * RNG.normal(size=ROWS.shape)
    along = (program(wide + h, FLAGS) - program(wide - h, FLAGS)) / 2
    assert np.sum(slope.astype(np.float64) * h) == pytest.approx(along, rel=max(1e4 * eps, 1e-7), abs=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_their_loops_are_lanes(name: str) -> None:
    """Rows of 30 are fewer than the 64 bytes of a vector, of which gcc 12 would want all."""
    tools = toolchain.find(Options())
    if tools is None or not {"exp", "log", "sin", "cos"} <= tools.target.simd_math:
        pytest.skip("no vector library")
    f = sg.value_and_grad(PROGRAMS[name])
    f(ROWS, FLAGS)
    library = f._ran().built.library
    assert library is not None
    called = re.findall(rb"_ZGV[a-z]N\d+v_(\w+)\0", library.library_path.read_bytes())
    for function in re.findall(r"declare simd notinbranch\ndouble (\w+)\(", f.c_source):
        assert function.encode() in called


def test_any_byte_but_zero_is_set():
    """As NumPy takes Booleans that a view made of other bytes."""
    m, n = np.array([0, 1, 2, 255], np.uint8).view(bool), np.ones(4, bool)
    x = np.array([1.5, 2.5, 3.5, 4.5])

    def words(m: Any, n: Any, x: Any) -> Any:
        return m == n, np.sum(m), m ^ n, ~m, m & n, np.where(m, np.exp(x), x), m * x, np.any(m), np.sum(m * np.exp(x))

    for found, expected in zip(sg.jit(words)(m, n, x), words(m, n, x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    np.testing.assert_array_equal(sg.jit(lambda m: m.astype(int))(m), [0, 1, 1, 1])

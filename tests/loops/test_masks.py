"""Booleans that stand in memory, among lanes: their loops call the vector library, and give what NumPy gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.build.toolchain import find as toolchain
from symgrad.ir.index.notation import Access, Axis, How, Statement
from symgrad.loops.nest import vectorize
from symgrad.loops.program import Array, Kind, Loop, LoopProgram, Walk, paths
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


# -- truths that are made in a loop and stored


def both(x):
    m = np.sin(x) > 0.1
    return np.sum(x * m, axis=1), m


def later(x):
    m = np.sin(x) > 0.1
    return np.where(m, x * np.sum(np.where(m, x, 2 * x)), x)


def neighbours(x):
    m = np.sin(x) > 0.1
    return np.where(m[:, 1:], x[:, 1:], x[:, :-1] * m[:, :-1]), m, x * m


def reversed_too(x):
    m = np.sin(x) > 0.1
    return x * m[:, ::-1] + 2 * x * m, m


def written_twice(x):
    m = np.sin(x) > 0.1
    y = x * m
    m[:, ::2] = x[:, ::2] < 0
    return y + m * x, m


def of_parts(x):
    m = np.sin(x) > 0.1
    k = np.concatenate([m[:-3], x[-3:] > 1])
    return x * k, k, x * m, m


def of_each_other(x):
    m = np.sin(x) > 0.1
    n = m & (x < 1)
    return m, n, n | (x * n > 0.5), x * m * n


def steps(x):
    return sg.scan(lambda c, v: (np.where(np.sin(c + v) > 0, c + v, v), np.sin(c + v) > 0), x[0], x)


STORED = [both, later, neighbours, reversed_too, written_twice, of_parts, of_each_other, steps]
IN_REGISTERS = {later, neighbours, of_parts}  # of the others a copy stands in one anyway, or other places are read


@pytest.mark.parametrize("f", STORED)
@pytest.mark.parametrize("specs", [None, ("f64[n,m]",)])
def test_what_is_stored_is_what_numpy_stores(f: Any, specs: Any) -> None:
    compiled = sg.jit(f, specs=specs, options=Options(threads=1))
    found, wanted = compiled(ROWS), f(ROWS)
    found, wanted = [each if isinstance(each, tuple) else (each,) for each in (found, wanted)]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)
    register = re.search(r"const _Bool (\w+) = .*;\s+\w+\[.*\] = \(uint8_t\)\1;", compiled.c_source)
    assert (register is not None) == (f in IN_REGISTERS)


TRUTH = np.dtype(bool)


def test_which_reads_are_of_the_register() -> None:
    """Those of what this iteration has stored: before it, beside it, or of what is stored in two ways, memory."""
    i, j, k = Axis("i", 9), Axis("j", 9), Axis("k", 9)
    x, m, n, out = [Array(name, (9,), TRUTH, Kind.INPUT if name == "x" else Kind.OUTPUT) for name in "xmno"]

    def after(*body: tuple[Access, Access, Axis, Any], lanes: bool = True) -> list[str]:
        statements = tuple([Statement(to, How.SET, of, (axis,), ranges=ranges) for to, of, axis, ranges in body])
        loop = Loop(i, frozenset([i, j]), statements)
        loops = LoopProgram("f", (x,), (m, n, out), (x, m, n, out), (loop,))
        found = [*paths(vectorize.vectorize(loops).body)]
        assert {around[0].walk is Walk.LANES for _, around in found} == {lanes}
        return [f"{s.target.array.name} = {', '.join([a.array.name for a in s.reads])}" for s, _ in found]

    at_i, at_j = [Access(m, (index,)) for index in (i, j)]
    store, read = (at_i, Access(x, (i,)), i, ()), (Access(n, (i,)), at_i, i, ())
    assert after(store, read) == ["truth = x", "m = truth", "n = truth"]
    assert after(store, (Access(n, (j,)), at_j, j, ())) == ["truth = x", "m = truth", "n = truth"]
    assert after(store, (Access(n, (i,)), Access(m, (8 - i,)), i, ()), lanes=False) == ["m = x", "n = m"]
    assert after(read, store) == ["n = m", "m = x"]
    assert after(read, store, (Access(out, (i,)), at_i, i, ())) == ["n = m", "truth = x", "m = truth", "o = truth"]
    assert after(store, (at_i, Access(x, (i,)), i, ()), read) == ["m = x", "m = x", "n = m"]
    assert after((at_i, Access(x, (i,)), i, ((k, 0, 8),)), read) == ["m = x", "n = m"]

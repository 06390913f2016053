"""Programs that once gave wrong numbers: compiled, with one thread and three, and interpreted, they give NumPy's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg
from symgrad.build.toolchain.compiler import rows_of_eight

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape)


def sums_for_each_row(x: Array) -> Any:
    """A sum for each iteration of a shared-out loop, read in it and after it, was kept by each thread to itself."""
    e = x * x + 1.0
    s = np.sum(e, 1)
    return e / s[:, None], s[:-1] * s[1:]


def words_of_the_headers(HUGE_VAL: Array, int64_t: Array, FP_NAN: Array) -> Any:
    """Macros and types of math.h and stdint.h were names of arguments: HUGE_VAL killed the process."""
    return HUGE_VAL + int64_t * FP_NAN


def chain(x: Array) -> Any:
    """Looking for accumulators compared all statements of a loop: a thousand took minutes."""
    y = x
    for _ in range(300):
        y = np.sin(y) * 1.01 + x * 0.1
    return y


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (sums_for_each_row, (normal(50_000, 50),)),
    (words_of_the_headers, (normal(3), normal(3), normal(3))),
    (chain, (normal(1000),)),
]

OPTIONS = [sg.Options(threads=1), sg.Options(threads=3), sg.Options(compiler="none")]


@pytest.mark.parametrize("options", OPTIONS, ids=["serial", "threads", "interpreted"])
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_values(program: Callable[..., Any], args: tuple[Any, ...], options: sg.Options) -> None:
    expected = program(*args)
    found = sg.jit(program, options=options)(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = found if isinstance(found, tuple) else (found,)
    assert [(f.shape, f.dtype) for f in found] == [(e.shape, e.dtype) for e in expected]
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)


@sg.jit
def decorated_before_its_constants(x: float) -> Any:
    return defined_below(x) * FACTOR


def defined_below(x: Any) -> Any:
    return x * INNER


FACTOR, INNER = 2.0, 1.0


def test_names_bound_after_the_decorator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebinding what stands below a decorated function, and what a helper bound anew reads, was not noticed."""
    assert decorated_before_its_constants(1.0) == 2.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert decorated_before_its_constants(1.0) == 3.0
    monkeypatch.setitem(globals(), "INNER", 7.0)
    assert decorated_before_its_constants(1.0) == 21.0
    monkeypatch.setitem(globals(), "defined_below", lambda x: x * OTHER)
    assert decorated_before_its_constants(1.0) == 15.0
    monkeypatch.setitem(globals(), "OTHER", 4.0)
    assert decorated_before_its_constants(1.0) == 12.0


OTHER = 5.0


def test_equal_static_values_that_are_not_the_same() -> None:
    """1, 1.0 and True shared one compilation, as did 0.0 and -0.0."""
    scaled = sg.jit(lambda x, n: x * n, static_argnums=1)
    assert [scaled(np.arange(3), n).dtype for n in (1, 1.0, True)] == [np.int64, np.float64, np.int64]
    assert [np.signbit(scaled(np.ones(1), n))[0] for n in (0.0, -0.0)] == [False, True]


def test_slices_of_slices_of_unknown_extents_stay_small():
    """Max(0, Max(0, n - 1) - 1) and its printed choices doubled with every slice: 20 were too many."""

    def shrunk(x):
        for _ in range(20):
            x = x[1:] * 1.01
        return np.sum(x)

    f = sg.value_and_grad(shrunk, specs=("f64[n]",))
    for n in (0, 1, 20, 21, 300):
        value, gradient = f(np.ones(n))
        np.testing.assert_allclose(value, shrunk(np.ones(n)), rtol=1e-13)
        np.testing.assert_allclose(gradient, np.where(np.arange(n) < 20, 0, 1.01**20), rtol=1e-13)
    assert len(f.c_source) < 60_000


@pytest.mark.parametrize("threads", [1, 2])
def test_long_single_precision_sums_keep_their_digits(threads):
    """Ten thousand totals of tiles, added plainly, were off by 9e-5; NumPy's pairwise sum is off by 1e-7."""
    x = np.full(10_000_000, 0.1, np.float32)
    exact = float(x[0]) * x.size
    total = sg.jit(lambda x: np.sum(x * 1), options=sg.Options(threads=threads))(x)
    assert total.dtype == np.float32
    assert abs(total / exact - 1) < 2e-6


@pytest.mark.parametrize("name", ["expit", "logaddexp", "product", "clip", "larger", "block2", "lanes"])
def test_a_function_may_have_the_name_of_one_of_ours(name):
    """`def expit(x): return special.expit(x)` made two C functions sg_expit."""
    A = np.random.default_rng(0).normal(size=(64, 64))

    def function(A):
        return np.clip(np.logaddexp(special.expit(A @ A), 0.0), 0.1, np.sum(A[: A.shape[0] // 2]))

    expected = function(A)
    function.__name__ = name
    compiled = sg.jit(function)
    np.testing.assert_allclose(compiled(A), expected, rtol=1e-13)
    assert f"int32_t sg_{name}_(" in compiled.c_source


ROUNDED: dict[str, Callable[[Array], Any]] = {
    "there and back": lambda x: x.astype(np.float32).astype(np.float64),
    "what is lost": lambda x: x - x.astype(np.float32),
    "beside itself": lambda x: x.astype(np.float32) * x,
    "in single precision": lambda x: np.sqrt(np.abs(x).astype(np.float32)).astype(np.float64) + x,
}


@pytest.mark.parametrize("shape", [1, 2, 3, 4, 6, 7, 9, 16, 1000, 1003, (2, 2), (3, 5)], ids=str)
def test_a_rounding_to_single_precision_is_never_dropped(shape):
    """gcc 12 took (double)(float)x for x where it joined two neighbours to a vector."""
    x = np.random.default_rng(1).normal(size=shape)
    for f in ROUNDED.values():
        np.testing.assert_array_equal(sg.jit(f)(x), f(x))
    loss = sg.value_and_grad(lambda x: np.sum(x.astype(np.float32).astype(np.float64) * x))
    np.testing.assert_array_equal(loss(x)[1], x.astype(np.float32).astype(np.float64) * 2)


def scratch_of_single_precision(x: Array) -> Array:
    a = np.zeros(x.shape, np.float32)
    a[:] = x
    return a.astype(np.float64)


def test_a_scratch_array_of_single_precision_rounds():
    x = np.random.default_rng(1).normal(size=6)
    np.testing.assert_array_equal(sg.jit(scratch_of_single_precision)(x), scratch_of_single_precision(x))


def trace_of_kernel(x: Array, y: Array) -> Any:
    kernel = np.exp(-0.5 * (x[:, None] - y[None, :]) ** 2)
    return np.trace(kernel @ kernel.T)


@pytest.mark.parametrize("n", [5, 33, 100])
def test_a_matrix_with_a_diagonal_is_whole_before_its_columns_are_read(n):
    """What wrote the diagonal last seemed to be at the reader's column in the same tile; other rows were not there."""
    x, y, a, b = np.random.default_rng(0).normal(size=(4, n))

    def second(x, y, a, b):
        return sg.jvp(sg.grad(trace_of_kernel, argnums=(0, 1)), (x, y), (a, b))[1]

    compiled = sg.jit(second, specs=("f64[n]",) * 4)(x, y, a, b)
    for got, right in zip(compiled, sg.jit(second, options=sg.Options(compiler="none"))(x, y, a, b), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-10, atol=1e-12)


def test_a_compiler_that_permutes_wrongly_is_not_let():
    """gcc 12.2 with AVX-512 made one value of this matrix another's: elements of eight doubles, permuted."""
    x = np.arange(16.0).reshape(4, 4) + 1

    def mirrored(x: Array) -> Any:
        return np.tril(x).T + np.tril(x, -1)

    np.testing.assert_array_equal(sg.jit(mirrored)(x), mirrored(x))


@pytest.mark.parametrize("places", [[0, 1, 7, 3, 5, 4, 7, 7], [0, 1, 2, 6, 4, 5, 6, 7], [1, 1, 5, 2, 4, 4, 6, 6]])
def test_columns_in_another_order(places):
    """The same compiler did so in loops over rows of eight, too."""
    x = np.random.default_rng(0).normal(size=(64, 8))

    def written(x: Array) -> Any:
        y = np.zeros(x.shape)
        for column, place in enumerate(places):
            y[:, column] = x[:, place] * 2.0
        return y

    np.testing.assert_array_equal(sg.jit(written)(x), written(x))
    np.testing.assert_array_equal(sg.jit(lambda x: x[:, places] * 2.0)(x), written(x))
    slope = sg.grad(lambda x: np.sum(written(x) * x))(x)
    back = np.zeros(x.shape)
    np.add.at(back, (slice(None), places), 2 * x)  # type: ignore[arg-type]  # NumPy takes slices
    np.testing.assert_allclose(slope, written(x) + back, rtol=1e-14)


@pytest.mark.parametrize("shape", [(9, 7), (1, 3), (3, 0), (40, 130), (131, 70)])
def test_products_of_reversed_parts_of_open_extents_begin_in_their_tile(shape: tuple[int, int]) -> None:
    def loss(p: Array) -> Any:
        v = p[1::2, ::-1]
        m = v @ v.T
        return np.sum(np.logaddexp(np.exp(-m * m), np.einsum("ii->i", m)[None]))

    x = 0.1 * np.random.default_rng(0).normal(size=shape)
    value, slopes = sg.value_and_grad(loss, dynamic={"p": "k,n"})(x)
    known = sg.value_and_grad(loss, dynamic=False)(x)
    assert value == pytest.approx(loss(x), rel=1e-12, abs=1e-15)
    np.testing.assert_allclose(slopes, known[1], rtol=1e-12, atol=1e-13)


def test_arrays_on_the_stack_begin_where_vectors_are_stored() -> None:
    """gcc 12 stored vectors of 32 bytes at places of 16 in the HMM of a plain loop, and the call crashed."""
    def forward(A: Array, pi: Array, B: Array) -> Any:
        a = pi + B[0]
        for t in range(1, len(B)):
            m = np.max(a)
            a = np.log(np.exp(a - m) @ np.exp(A)) + m + B[t]
        return np.max(a) + np.log(np.sum(np.exp(a - np.max(a))))

    rng = np.random.default_rng(0)
    arguments = rng.normal(size=(20, 20)), rng.normal(size=20), rng.normal(size=(60, 20))
    function = sg.value_and_grad(forward, argnums=(0, 1, 2))
    assert function(*arguments)[0] == pytest.approx(forward(*arguments), rel=1e-12)
    text = function.lower(*arguments).as_text("c")
    portable = sg.jit(forward, options=sg.Options(portable=True)).lower(*arguments).as_text("c")
    assert re.search(r"double \w+\[20\] __attribute__\(\(aligned\(64\)\)\);", text)
    assert "aligned(" not in portable


def test_six_arguments_do_not_make_vectors_narrow() -> None:
    """The adapter's loop over six arrays was taken for a loop over a row of six."""
    loop = "for ({} k = 0; k < 6; ++k) {{\n    w[i*16 + k] = x[k];\n}}"
    assert rows_of_eight(loop.format("int64_t"))
    assert not rows_of_eight(loop.format("int32_t"))


@pytest.mark.parametrize("seed", range(3))
def test_integers_are_looked_up_anew_when_their_array_was_written(seed: int) -> None:
    """Rows of a sparse matrix: two index arrays shared a place on the stack, and the second was read as the first."""
    rng = np.random.default_rng(seed)
    rows = [[3, 6], [1, 3, 5], [2, 3, 4], [], [0, 7], [0, 1, 2, 7], [2, 5], [2, 3, 4, 6]] if not seed else [
        sorted(rng.choice(8, rng.integers(0, 5), replace=False).tolist()) for _ in range(8)
    ]
    ends = np.cumsum([0, *map(len, rows)])
    weights, values, x = rng.normal(size=8), rng.normal(size=ends[-1]), rng.normal(size=8)

    def loss(values: Array, x: Array) -> Any:
        y = np.empty(8)
        for i, row in enumerate(rows):
            y[i] = values[ends[i] : ends[i + 1]] @ x[np.array(row, dtype=int)]
        return np.sum(weights * y)

    dense = np.zeros((8, 8))
    for i, row in enumerate(rows):
        dense[i, row] = values[ends[i] : ends[i + 1]]
    slopes = sg.value_and_grad(loss, argnums=(0, 1))(values, x)[1]
    np.testing.assert_allclose(slopes[1], weights @ dense, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(slopes[0], np.concatenate([weights[i] * x[row] for i, row in enumerate(rows)]))

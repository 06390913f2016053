"""Arguments at the call: NumPy's meaning or an error that names the argument, first call or hundredth."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.table import INTERPRETED

BASE = np.arange(12.0).reshape(3, 4) / 7 + 0.1


def loss(x):
    return np.sum(np.sin(x) * np.arange(1.0, 5.0)) + np.sum(x[0] * x[-1])


def plain(x: Any) -> tuple[Any, Any]:
    x = np.asarray(x, np.float64)
    gradient = np.cos(x) * np.arange(1.0, 5.0)
    gradient[0] += x[-1]
    gradient[-1] += x[0]
    return loss(x), gradient


def unaligned(a: Any) -> Any:
    raw = bytearray(a.nbytes + 1)
    view = np.frombuffer(raw, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    assert not view.flags.aligned
    return view


def strided(a: Any) -> Any:
    wide = np.full((2 * a.shape[0], 3 * a.shape[1]), 9.0)
    wide[::2, ::3] = a
    return wide[::2, ::3]


def read_only(a: Any) -> Any:
    a = a.copy()
    a.setflags(write=False)
    return a


def mapped(a: Any) -> Any:
    with tempfile.TemporaryFile() as file:
        made = np.memmap(file, a.dtype, "w+", shape=a.shape)
    made[...] = a
    return made


KINDS: dict[str, Callable[[Any], Any]] = {
    "contiguous": np.copy,
    "fortran": np.asfortranarray,
    "strided": strided,
    "negative strides": lambda a: np.copy(a[::-1, ::-1])[::-1, ::-1],
    "unaligned": unaligned,
    "big-endian": lambda a: a.astype(">f8"),
    "read-only": read_only,
    "memmap": mapped,
    "broadcast": lambda a: np.broadcast_to(a[0], a.shape),
    "transposed": lambda a: np.copy(a.T).T,
    "integers": lambda a: np.rint(a * 3).astype(np.int64),
    "float32": lambda a: a.astype(np.float32),
    "subclass": lambda a: a.view(type("Mine", (np.ndarray,), {})),
}


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "compiled before"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array(kind: str, warm: bool) -> None:
    value = sg.jit(loss)
    if warm:
        value(BASE)
    given = KINDS[kind](BASE)
    before = np.array(given, copy=True)
    found = value(given)
    assert found == pytest.approx(float(loss(np.asarray(given))), rel=1e-6 if kind == "float32" else 1e-12)
    assert np.array_equal(given, before), "inputs are never written"
    if kind != "integers":
        number, gradient = sg.value_and_grad(loss)(given)
        assert gradient.shape == BASE.shape
        tolerance = 1e-5 if kind == "float32" else 1e-12
        assert number == pytest.approx(float(plain(given)[0]), rel=tolerance)
        np.testing.assert_allclose(gradient, plain(given)[1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "compiled before"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ma.masked_array(BASE, BASE > 1), "(?i)mask"),
        (BASE.view(np.matrix), "matrix"),
        (np.array([["a"] * 4] * 3), "x"),
        (np.array([[object()] * 4] * 3), "object"),
        (BASE + 1j, "complex"),
        ("text", "x"),
        (object(), "x"),
        (BASE.astype(np.float16), "float16"),
        (BASE.astype(np.longdouble), "float128|longdouble|float96"),
        (np.array(["2020-01-01"], "M8[D]"), "datetime"),
    ],
    ids=lambda v: str(type(v).__name__) if not isinstance(v, str) else v[:10],
)
def test_what_is_refused_names_the_argument(given: Any, words: str, warm: bool) -> None:
    value = sg.jit(loss)
    if warm:
        value(BASE)
    with pytest.raises(TypeError, match=words) as caught:
        value(given)
    assert isinstance(caught.value, sg.SymgradError)
    assert "x" in str(caught.value)


def test_numbers_lists_and_scalars() -> None:
    square = sg.jit(lambda x: x * x + 1)
    assert (square(3), type(square(3))) == (10, np.int64)
    assert (square(3.0), type(square(3.0))) == (10.0, np.float64)
    assert square(np.float32(3.0)).dtype == np.float32
    assert square(np.array(2.0)) == 5.0
    assert square(True).dtype == np.int64
    total = sg.value_and_grad(lambda xs: xs[0] * xs[1] + xs[2])
    value, gradient = total([2.0, 3.0, 4.0])
    assert (value, gradient) == (10.0, [3.0, 2.0, 1.0])
    assert all(isinstance(g, np.float64) for g in gradient)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (1, 0, 2), (), (1,), (1, 1, 1)])
def test_empty_and_0d(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.7)
    value, gradient = sg.value_and_grad(lambda x: np.sum(np.sin(x) * x))(x)
    assert value == pytest.approx(np.sum(np.sin(x) * x))
    assert np.shape(gradient) == shape
    np.testing.assert_allclose(gradient, np.cos(x) * x + np.sin(x))


def test_float32_after_float64_is_compiled_again_and_right() -> None:
    function = sg.value_and_grad(loss)
    wide = function(BASE)
    narrow = function(BASE.astype(np.float32))
    assert narrow[1].dtype == np.float32
    np.testing.assert_allclose(narrow[1], wide[1], rtol=1e-5)
    assert function.cache_info().compilations == 2
    assert function(BASE)[0] == wide[0]
    assert function.cache_info().compilations == 2


def test_a_fixed_signature_takes_nothing_else() -> None:
    function = sg.jit(loss, specs=("f64[3,4]",))
    assert function(BASE) == pytest.approx(loss(BASE))
    for wrong in (BASE.astype(np.float32), BASE.astype(np.int64), BASE[:2], BASE[0]):
        with pytest.raises((TypeError, ValueError), match=r"x.*f64\[3,4\]"):
            function(wrong)
    assert function(BASE.astype(">f8")) == function(BASE)
    assert function.cache_info().compilations == 1


def test_results_are_new_arrays() -> None:
    function = sg.jit(lambda x: (x, x * 1.0, x.T))
    first = function(BASE)
    kept = [r.copy() for r in first]
    second = function(BASE + 1)
    for a, b, old in zip(first, second, kept, strict=True):
        assert not np.shares_memory(a, BASE)
        assert not np.shares_memory(a, b)
        assert np.array_equal(a, old)
        assert a.flags.writeable
        assert a.flags.owndata or a.base is not None


def test_none_is_no_array_but_structure() -> None:
    """As in JAX: an argument left out is None for the function too."""
    function = sg.value_and_grad(lambda x, y=None: np.sum(x * x if y is None else x * y))
    assert function(np.ones(2))[0] == function(np.ones(2), None)[0] == 2.0
    assert np.array_equal(function(np.ones(2), np.full(2, 5.0))[1], [5.0, 5.0])


def test_one_array_given_twice() -> None:
    """The C's pointers are restrict: reading one array by two of them is fine."""
    function = sg.value_and_grad(lambda a, b: np.sum(a * b.T), argnums=(0, 1))
    x = np.arange(9.0).reshape(3, 3)
    value, (da, db) = function(x, x)
    assert value == np.sum(x * x.T)
    assert np.array_equal(da, x.T)
    assert np.array_equal(db, x.T)


def test_eight_threads_call_and_compile_at_once() -> None:
    function = sg.value_and_grad(loss)
    start = threading.Barrier(8)

    def work(k: int) -> Any:
        start.wait()
        return function(BASE), sg.value_and_grad(lambda x: np.sum(np.tanh(x) * (k % 2)))(BASE)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert function.cache_info().compilations == 1
    for (value, gradient), (_, other) in results:
        assert value == results[0][0][0]
        assert np.array_equal(gradient, results[0][0][1])
        assert other.shape == BASE.shape


def test_the_gil_is_released() -> None:
    function = sg.jit(lambda x: np.sum(np.sin(x) ** 3))
    x = np.linspace(0, 1, 3_000_000)
    function(x)
    ticks = 0
    done = threading.Event()

    def call() -> None:
        for _ in range(5):
            function(x)
        done.set()

    thread = threading.Thread(target=call)
    thread.start()
    while not done.is_set():
        ticks += 1
    thread.join()
    assert ticks > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_works() -> None:
    """Also when its parent has used OpenMP's threads."""
    script = """
import os, numpy as np, symgrad as sg
f = sg.value_and_grad(lambda x: np.sum(np.sin(x) * x))
x = np.linspace(0, 1, 2_000_000)
expected = f(x)
child = os.fork()
if child == 0:
    value, gradient = f(x)
    g = sg.jit(lambda y: np.sum(y * 3))
    os._exit(0 if np.allclose(value, expected[0], rtol=1e-12) and g(x[:4]) == np.sum(x[:4] * 3) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert f(x)[0] == expected[0]
"""
    root = str(Path(sg.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONPATH": root},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_interpreter_and_c_refuse_the_same_index() -> None:
    rows = lambda x, i: np.sum(x[i])  # noqa: E731
    x = np.arange(5.0)
    for options in (None, INTERPRETED):
        function = sg.jit(rows, options=options)
        assert function(x, np.array([0, -5, 4])) == x[0] + x[-5] + x[4]
        for wrong in (5, -6, 10**12):
            with pytest.raises(IndexError, match="out of bounds"):
                function(x, np.array([0, wrong]))


def test_subnormals_survive() -> None:
    """No option of ours changes the process's floating-point mode."""
    tiny = np.array([5e-324, 2.5e-310])
    assert np.array_equal(sg.jit(lambda x: x * 1.0)(tiny), tiny)
    assert np.array_equal(tiny / 1.0, tiny)
    assert np.array_equal(sg.jit(lambda x: x + x)(np.tile(tiny, 40)), np.tile(tiny, 40) * 2)


def test_options_are_of_their_class() -> None:
    words = r"options=\{'threads': 2\}\n  instead: options=sg\.Options\(threads=2\)"
    with pytest.raises(sg.errors.ArgumentError, match=words):
        sg.grad(lambda x: x * x, options={"threads": 2})  # type: ignore[arg-type]

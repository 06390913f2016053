"""The C function's address and prototype, and SciPy calling it."""

from __future__ import annotations

import gc
import subprocess
from typing import Any

import numpy as np
import pytest
from scipy import LowLevelCallable, integrate, ndimage

import symgrad as sg
from symgrad.build.load import ffi
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ops.declare.spelling import stored
from symgrad.render.callers import PARAMETERS
from symgrad.trace import signature
from tests.render.test_c import COMPILERS, STRICT
from tests.table import INTERPRETED

FILTER = "int (double *, intptr_t, double *, void *)"


def damped(x, a):
    return np.exp(-a * x) * np.sin(x)


def test_address_and_prototype_are_what_a_c_program_needs():
    f = sg.value_and_grad(lambda x: np.sum(x**3))
    f(np.ones(2))
    pointers = f.prototype.replace(" sg_lambda_", "(*)").replace("const ", "")
    assert pointers == "int32_t(*)(double *x, double *value, double *x_bar, int32_t threads, char *workspace)"
    function = ffi.cast("int32_t(*)(double *, double *, double *, int32_t, char *)", f.address)
    x, value, gradient = np.array([1.0, 2.0]), np.zeros(()), np.zeros(2)
    assert function(*[ffi.from_buffer("double[]", a) for a in (x, value, gradient)], 1, ffi.NULL) == 0
    assert value == 9.0
    assert gradient.tolist() == [3.0, 12.0]
    before = f.address
    f(np.ones(3))
    assert f.address != before, "the last signature's"


@pytest.mark.parametrize("what", ["address", "prototype"])
def test_without_a_c_function(what):
    with pytest.raises(ArgumentError, match="has not been compiled yet"):
        getattr(sg.jit(np.exp), what)
    f = sg.jit(np.exp, options=INTERPRETED)
    f(1.0)
    with pytest.raises(ArgumentError, match=r"exp\(\) is interpreted by NumPy: there is no C function"):
        getattr(f, what)
    with pytest.raises(ArgumentError, match="there is no C function"):
        f.low_level_callable()


def test_quad_of_one_number():
    f = sg.jit(lambda x: np.exp(-x * x))
    made = f.low_level_callable()
    assert isinstance(made, LowLevelCallable)
    assert made.signature == "double (double)"
    assert integrate.quad(made, 0, 5) == integrate.quad(lambda x: float(f(x)), 0, 5)
    slope = sg.grad(lambda x: np.exp(-x * x)).low_level_callable()
    np.testing.assert_allclose(integrate.quad(slope, 0, 5)[0], np.exp(-25.0) - 1.0, rtol=1e-12)


def test_the_derivative_of_a_while_that_carries_16_numbers():
    def swung(x):
        y, _ = sg.while_loop(
            lambda s: np.sum(s[0] * s[0]) > 1.0, lambda s: (s[0] - 0.1 * np.sin(s[0]) * s[1], s[1] + 0.01),
            (x * np.linspace(0.5, 1.5, 16), x),
        )
        return np.sum(y)

    slope = sg.grad(swung, options=sg.Options(flags=("-O0",)))
    assert slope.memory(1.5).workspace > 1 << 16
    assert slope.low_level_callable().function(1.5) == slope(1.5)


def test_quad_with_user_data_that_changes():
    a = np.array(2.0)
    made = sg.jit(damped).low_level_callable(a)
    assert made.signature == "double (double, void *)"
    gc.collect()
    for value in (2.0, 3.0):
        a[...] = value
        expected = integrate.quad(damped, 0, 10, args=(value,))
        np.testing.assert_allclose(integrate.quad(made, 0, 10), expected, rtol=1e-9, atol=1e-14)


def test_quad_with_arguments_of_its_own():
    made = sg.jit(damped).low_level_callable()
    assert made.signature == "double (int, double *)"
    np.testing.assert_allclose(integrate.quad(made, 0, 1, (2.0,))[0], integrate.quad(damped, 0, 1, (2.0,))[0])


def test_arrays_tables_and_constants_as_user_data(monkeypatch):
    """An array by columns, integers, a constant that is too large to be printed, a default."""
    monkeypatch.setattr(signature, "LARGE", 1)
    rng = np.random.default_rng(0)
    table, k, F = rng.normal(size=2000), np.array([1, 7]), np.asfortranarray(rng.normal(size=(3, 4)))

    def f(x, y, k, F, scale=2.0):
        return scale * np.sum(np.cos(x * table)[k]) + y * np.sum(F @ np.arange(4.0))

    made = sg.jit(f).low_level_callable(k, F)
    assert made.signature == "double (int, double *, void *)"
    found, expected = [integrate.nquad(g, [[0, 1], [0, 2]])[0] for g in (made, lambda x, y: f(x, y, k, F))]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_nquad_of_an_array_of_numbers():
    def f(v):
        return v[0] * v[1] ** 2 + np.sin(v[2])

    ranges = [[0, 1], [0, 2], [0, 3]]
    found = integrate.nquad(sg.jit(f).low_level_callable(size=3), ranges)
    assert found[0] == pytest.approx(integrate.nquad(lambda *v: f(v), ranges)[0], rel=1e-13)


def test_a_filter_of_images():
    image = np.random.default_rng(1).normal(size=(12, 11))
    weights = np.arange(9.0)

    def rms(v, w):
        return np.sqrt(np.sum(w * v * v))

    made = sg.jit(rms).low_level_callable(weights, size=9, signature=FILTER)
    expected = ndimage.generic_filter(image, rms, size=3, extra_arguments=(weights,))
    np.testing.assert_allclose(ndimage.generic_filter(image, made, size=3), expected, rtol=1e-13)
    wrong = sg.jit(rms).low_level_callable(np.ones(4), size=4, signature=FILTER.replace("intptr_t", "npy_intp"))
    with pytest.raises(RuntimeError):
        ndimage.generic_filter(image, wrong, size=3)


def test_a_failed_check_and_a_wrong_number_of_numbers_give_nan():
    f = sg.jit(lambda x, k: np.arange(3.0)[k] * x)
    k = np.array(2)
    made = f.low_level_callable(k)
    assert integrate.quad(made, 0, 1)[0] == 1.0
    k[...] = 5
    assert np.isnan(integrate.quad(made, 0, 1, full_output=1)[0])
    assert np.isnan(integrate.quad(sg.jit(damped).low_level_callable(), 0, 1, args=(1.0, 2.0), full_output=1)[0])


def test_workspace_on_the_stack_and_threads():
    """It needs workspace, may be long and could use threads: as a callback it is serial and cannot be stopped."""
    def f(x, A):
        v = np.exp(x * A)
        return np.sum(v / np.sum(v) * A)

    A = np.linspace(-1, 1, 3000)
    made = sg.jit(f).low_level_callable(A)
    found, expected = integrate.quad(made, 0, 1)[0], integrate.quad(f, 0, 1, args=(A,))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    pairs = sg.jit(lambda x, A: np.sum(np.exp(-((A[:, None] - A) ** 2) * x))).low_level_callable(A)
    assert np.isfinite(integrate.quad(pairs, 0, 1, limit=1, full_output=1)[0])


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("signature", PARAMETERS)
def test_the_adapter_compiles_without_a_warning(compiler, signature, monkeypatch):
    from symgrad.build import load

    texts: list[str] = []
    real = load.build

    def build(source, *rest):
        texts.append(source.text)
        return real(source, *rest)

    monkeypatch.setattr(load, "build", build)
    f = sg.jit(lambda v, *rest: np.sum(np.cumsum(v) ** 2) + sum(np.sum(r) for r in rest))
    if signature.startswith("double (double"):
        sg.jit(lambda x: x * np.sin(x)).low_level_callable(signature=signature)
    else:
        f.low_level_callable(*[np.ones(2)] * ("void" in signature), size=3, signature=signature)
    command = [compiler, "-std=c99", *STRICT, "-Wno-missing-prototypes", "-x", "c", "-"]
    ran = subprocess.run(command, input=texts[-1], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


REFUSED: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "no signature of SciPy's": (
        np.sin, (), {"signature": "float (float)"}, ArgumentValueError,
        r"(?s)'float \(float\)' is no signature of a callback.*instead: double \(double\) or",
    ),
    "several numbers where one is passed": (
        damped, (), {"signature": "double (double)"}, ArgumentValueError,
        r"(?s)takes 2 numbers, and 'double \(double\)' passes one.*instead: double \(int, double \*\)",
    ),
    "no place for user data": (
        damped, (1.0,), {"signature": "double(double)"}, ArgumentValueError,
        r"(?s)passes no user data.*instead: double \(double, void \*\)",
    ),
    "an array as result": (lambda x: np.array([x, x]), (), {}, ArgumentError, r"returns float64\[2\]; a callback"),
    "two results": (lambda x: (x, x), (), {}, ArgumentError, r"returns float64\[\], float64\[\]; a callback"),
    "an integer as result": (lambda x: np.argmax(np.array([x, 1.0])), (), {}, ArgumentError, r"returns int64\[\]"),
    "no number left": (damped, (1.0, 2.0), {}, ArgumentError, "2 parameters without a default, and 2 are given"),
    "user data that would be converted": (
        lambda x, a: x * np.sum(a), (np.ones(6)[::2],), {}, ArgumentError, r"argument a: C reads f64\[3\] .* strides",
    ),
    "much workspace": (
        lambda x, a: np.sum(np.exp(x * a) / np.sum(np.exp(x * a)) * np.cumsum(a)), (np.ones(90_000),), {},
        ArgumentValueError, r"needs \d+ bytes of workspace, and a callback has no more than 131072",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, extra, options, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        sg.jit(function).low_level_callable(*extra, **options)


def test_the_types_of_the_prototype_are_those_of_the_arrays():
    for dtype in (np.float32, np.int16, np.uint8, np.bool_):
        f = sg.jit(lambda x: x + x)
        f(np.ones(2, dtype))
        assert f"const {stored(np.dtype(dtype))} *x" in f.prototype

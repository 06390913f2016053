"""`f.bind`: a call of nothing on arrays that were looked at once."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError, BusyError, IndexOutOfBounds
from symgrad.trace import signature
from tests.table import INTERPRETED

BOTH = pytest.mark.parametrize("options", [None, INTERPRETED], ids=["compiled", "interpreted"])


def loss(params, X):
    return np.sum(np.tanh(X @ params["w"] + params["b"]) ** 2)


def data() -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=3), "b": np.array(0.3)}, rng.normal(size=(7, 3))


@BOTH
def test_new_values_are_used_and_the_result_is_one_object(options):
    params, X = data()
    f = sg.value_and_grad(loss, options=options)
    step = f.bind(params, X)
    first = step()
    for _ in range(3):
        params["w"] += 0.1
        X[0] *= 1.5
        params["b"][...] = params["b"] * 2
        assert step() is first
        value, grads = f(params, X)
        assert first[0] == value
        assert first[0].shape == ()
        assert np.array_equal(first[1]["w"], grads["w"])
        assert first[1]["b"] == grads["b"]


@BOTH
def test_out_is_written_and_returned(options):
    params, X = data()
    out = (np.full((), 9.0), {"w": np.full(3, 9.0), "b": np.full((), 9.0)})
    f = sg.value_and_grad(loss, options=options)
    step = f.bind(params, X, out=out)
    assert step() is out
    value, grads = f(params, X)
    assert out[0] == value
    assert np.array_equal(out[1]["w"], grads["w"])
    assert out[1]["b"] == grads["b"]


def test_every_kind_of_result():
    x = np.arange(1.0, 4.0)
    out = np.zeros(3)
    assert sg.jit(np.sqrt).bind(x, out=out)() is out
    assert np.array_equal(out, np.sqrt(x))
    assert np.array_equal(sg.grad(lambda x: np.sum(x**3)).bind(x)(), 3 * x**2)
    a, (b, c) = sg.jit(lambda x: (x + 1, [x[0] > 1, x.astype(np.float32)])).bind(x)()
    assert np.array_equal(a, x + 1)
    assert (b.dtype, b.shape, c.dtype) == (bool, (), np.float32)
    (value, extra), gradient = sg.value_and_grad(lambda x: (np.sum(x), {"twice": 2 * x}), has_aux=True).bind(x)()
    assert (value, extra["twice"].tolist(), gradient.tolist()) == (6.0, [2.0, 4.0, 6.0], [1.0] * 3)
    assert np.array_equal(sg.jit(lambda x: (x, x)).bind(x)()[1], x)


def test_numbers_static_arguments_keywords_and_defaults():
    def power(x, n, scale=2.0, shift=0.0):
        return np.sum(x**n) * scale + shift

    x = np.array([1.0, 2.0])
    f = sg.jit(power, static_argnames="n")
    assert f.bind(x, 3)() == 18.0
    assert f.bind(x, n=2, scale=0.5)() == 2.5
    assert f.bind(x, 2, np.float64(3.0), shift=1)() == 16.0


def test_named_extents_and_arrays_by_columns(monkeypatch):
    monkeypatch.setattr(signature, "LARGE", 1)  # small arrays by columns are copied otherwise, or refused here
    f = sg.value_and_grad(lambda w, X: np.sum((X @ w) ** 2), specs=("f64[d]", "f64[n,d]"))
    rng = np.random.default_rng(1)
    for n, d in ((4, 3), (900, 2)):
        w, X = rng.normal(size=d), rng.normal(size=(n, d))
        step = f.bind(w, X)
        X *= 2
        np.testing.assert_allclose(step()[1], f(w, X)[1], rtol=1e-14)
    g, F = sg.jit(lambda X: X @ np.ones(3)), np.asfortranarray(rng.normal(size=(5, 3)))
    np.testing.assert_allclose(g.bind(F)(), F.sum(axis=1), rtol=1e-14)


def test_a_parameter_called_out_is_given_by_position():
    def scaled(x, out):
        return x * out

    x, out = np.ones(2), np.array([3.0, 4.0])
    result = np.zeros(2)
    assert sg.jit(scaled).bind(x, out, out=result)() is result
    assert result.tolist() == [3.0, 4.0]
    assert sg.jit(scaled)(x, out=out).tolist() == [3.0, 4.0]


def test_arrays_are_kept_alive():
    x, out = np.ones(3), np.empty(3)
    seen = weakref.ref(x), weakref.ref(out)
    step = sg.jit(np.exp).bind(x, out=out)
    del x, out
    gc.collect()
    assert all(ref() is not None for ref in seen)
    np.testing.assert_allclose(step(), np.e)
    del step
    gc.collect()
    assert all(ref() is None for ref in seen)


def test_checks_of_indices_are_made_at_each_call():
    table, k = np.arange(5.0), np.array([0, 4])
    step = sg.jit(lambda table, k: table[k]).bind(table, k)
    assert step().tolist() == [0.0, 4.0]
    k[1] = 5
    with pytest.raises(IndexOutOfBounds, match="size 5"):
        step()
    k[1] = 1
    assert step().tolist() == [0.0, 1.0]


def test_the_number_of_threads_may_change():
    x = np.random.default_rng(2).normal(size=400_000)
    step = sg.value_and_grad(lambda x: np.sum(np.exp(x * 0.1) * x)).bind(x)
    expected = np.sum(np.exp(x * 0.1) * x)
    for count in (1, 3, 2):
        with sg.set_num_threads(count):
            np.testing.assert_allclose(step()[0], expected, rtol=1e-12)


def test_one_thread_at_a_time():
    x = np.random.default_rng(3).normal(size=3000)
    step = sg.grad(lambda x: np.sum(np.exp(-((x[:, None] - x) ** 2)))).bind(x)
    step()
    seen: list[Any] = []

    def once():
        try:
            seen.append(step())
        except BusyError as error:
            seen.append(error)

    def again():
        for _ in range(20):
            once()

    others = [threading.Thread(target=again) for _ in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    busy = [each for each in seen if isinstance(each, BusyError)]
    assert 0 < len(busy) < len(seen) == 80
    assert "running already" in str(busy[0])
    assert "bind once for each thread" in str(busy[0])


def test_cache_info_counts_it():
    f: Any = sg.jit(np.sin)
    f.bind(np.ones(3))
    f(np.ones(3))
    f.bind(np.ones(4))
    info = f.cache_info()
    assert (info.compilations, info.hits) == (2, 1)


X = np.ones((2, 3))
REFUSED: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "another byte order": (X.astype(">f8"), None, ArgumentError, r"argument x: C reads f64\[2,3\] .* dtype >f8"),
    "strides": (np.ones((4, 3))[::2], None, ArgumentError, r"(?s)has strides \(48, 8\).*np.ascontiguousarray\(x\)"),
    "alignment": (
        np.frombuffer(bytearray(49), np.uint8)[1:].view(np.float64).reshape(2, 3), None, ArgumentError,
        r"(?s)is not aligned.*x.copy\(\)",
    ),
    "an object": (object(), None, ArgumentError, "argument x is builtins.object"),
    "out of another structure": (X, (X,), ArgumentError, "out has the structure .* where the result has"),
    "out is no array": (X, 3.0, ArgumentError, r"(?s)out is float, not an array.*np.empty\(\(2, 3\), np.float64\)"),
    "out of another dtype": (X, np.ones((2, 3), np.float32), ArgumentError, "out has dtype float32, where .* float64"),
    "out of another shape": (X, np.ones(3), ArgumentValueError, r"out has shape \(3,\), where the result has \(2, 3\)"),
    "out that is read-only": (X, np.broadcast_to(1.0, (2, 3)), ArgumentError, "out is read-only"),
    "out with strides": (X, np.ones((3, 2)).T, ArgumentError, "out is not contiguous"),
    "out is an argument": (X, X, ArgumentValueError, "out shares memory with argument x"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    x, out, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        sg.jit(lambda x: x * 2.0).bind(x, out=out)


@BOTH
def test_paths_with_other_results_say_so(options):
    """The arrays that a bound call made stay; nobody gave an `out`."""
    x = np.array([1.0, 2.0, 3.0])
    other = sg.jit(lambda x: x * 2 if x[0] > 0 else (x[:1],) if x[0] < -5 else x[:2], options=options)
    run, into = other.bind(x), other.bind(x, out=np.empty(3))
    for first, error, words in (
        (-1.0, ArgumentValueError, r"what was made before has shape \(3,\), where the result has \(2,\)"),
        (-9.0, ArgumentError, r"a path with another result: what was made before has the structure"),
    ):
        x[0] = first
        with pytest.raises(error, match=words):
            run()
        with pytest.raises(error, match=r"^out has"):
            into()
        x[0] = 1.0
        assert run() is run()


def test_outputs_must_not_share_memory():
    memory = np.zeros(5)
    f = sg.jit(lambda x: {"a": x, "b": -x})
    with pytest.raises(ArgumentValueError, match=r"out\['b'\] and out\['a'\] share memory"):
        f.bind(np.ones(3), out={"a": memory[:3], "b": memory[2:]})


def test_specs_and_traced_values_are_refused():
    f = sg.grad(lambda x: np.sum(x * x))
    with pytest.raises(ArgumentError, match="was given a traced value"):
        sg.jit(lambda x: f.bind(x)())(np.ones(2))
    with pytest.raises(ArgumentError, match=r"given the spec f64\[2\]"):
        f.bind(sg.spec("f64[2]"))

"""The short path of a call gives what the long one gives, and steps aside for all else."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import call as objects
from symgrad.build.call import MISS, is_readable
from symgrad.errors import ArgumentError, IndexOutOfBounds
from tests.programs import leaves
from tests.table import INTERPRETED

rng = np.random.default_rng(4)
TABLE = rng.normal(size=1000)
W, X, Y = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=5)


def model(p, x, y):
    return np.sum((x @ p["w"] + p["b"] - y) ** 2)


def scaled(a, k, x):
    return a * np.sum(x) + k


CALLS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "an array": (sg.value_and_grad(lambda x: np.sum(x * x)), [(W,), (2 * W,)]),
    "three arrays": (sg.jit(lambda w, x, y: np.sum((x @ w - y) ** 2)), [(W, X, Y), (W, 2 * X, Y)]),
    "a dict": (sg.value_and_grad(model), [({"w": W, "b": np.array(b)}, X, Y) for b in (0.3, 0.4)]),
    "a dict with a number": (sg.value_and_grad(model), [({"b": b, "w": W}, X, Y) for b in (0.3, np.pi)]),
    "numbers": (sg.jit(scaled), [(0.3, 2, W), (-np.inf, -(1 << 63), W), (0.5, (1 << 63) - 1, W)]),
    "a number alone": (sg.value_and_grad(lambda t: np.sin(t) * t), [(0.3,), (1e300,)]),
    "a scalar of NumPy": (
        sg.jit(lambda t, s: np.exp(t) * s), [(np.float64(0.3), np.array(2.0)), (np.float64(1), np.array(1.0))],
    ),
    "None and a list": (sg.jit(lambda p: p[0] + p[2][0]), [([W, None, (Y[0],)],), ([2 * W, None, (Y[1],)],)]),
    "several results": (sg.jit(lambda x: {"a": x + 1, "b": [x[0], x > 0]}), [(W,), (-W,)]),
    "a constant that is passed": (sg.jit(lambda x: np.sum(np.outer(x, TABLE))), [(W,), (-W,)]),
    "workspace and threads": (sg.grad(lambda x: np.sum(np.cumsum(np.exp(x)) ** 2)), [(rng.normal(size=200_000),)] * 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_short_call_is_the_long_one(name):
    function, calls = CALLS[name]
    function(*calls[0])
    (short,) = function._shorts
    for args in calls:
        found = short(args)
        assert found is not MISS
        function._shorts = ()
        expected = function(*args)
        for one, two in zip(leaves(found), leaves(expected), strict=True):
            assert type(one) is type(two)
            assert np.asarray(one).dtype == np.asarray(two).dtype
            assert np.array_equal(one, two, equal_nan=True)
    assert function.cache_info().compilations == 1


OTHERS: dict[str, tuple[Any, ...]] = {
    "fewer": (0.3, 2), "another number": (1, 2, W), "a boolean": (True, 2, W), "a NumPy integer": (0.3, np.int64(2), W),
    "single": (np.float32(0.3), 2, W), "another shape": (0.3, 2, W[:2]), "a list": (0.3, 2, [0.1, 0.2]),
    "another dtype": (0.3, 2, W.astype(np.float32)), "strides": (0.3, 2, np.repeat(W, 2)[::2]),
    "the other byte order": (0.3, 2, W.astype(">f8")),
    "a subclass": (0.3, 2, W.view(type("Mine", (np.ndarray,), {}))), "too large": (0.3, 1 << 63, W),
}


@pytest.mark.parametrize("name", OTHERS)
def test_all_else_goes_the_long_way(name):
    function = sg.jit(scaled)
    function(0.3, 2, W)
    (short,) = function._shorts
    assert short(OTHERS[name]) is MISS
    if name == "fewer":
        with pytest.raises(TypeError, match=r"\): missing a required argument"):
            function(*OTHERS[name])
    elif name == "too large":
        with pytest.raises(ArgumentError, match="does not fit in 64 bits"):
            function(*OTHERS[name])
    elif name != "a list":
        np.testing.assert_allclose(function(*OTHERS[name]), scaled(*OTHERS[name]), rtol=1e-6)
    assert function(0.3, 2, W) == scaled(0.3, 2, W)


def test_another_structure_goes_the_long_way():
    function = sg.jit(lambda p: sum(p.values()) if isinstance(p, dict) else p[0])
    for argument, expected in (({"a": 1.0}, 1.0), ({"a": 1.0, "b": 2.0}, 3.0), ([5.0], 5.0), ({"a": 7.0}, 7.0)):
        assert function(argument) == expected
    assert function.cache_info().compilations == 3


@pytest.mark.parametrize("options", [None, INTERPRETED], ids=["compiled", "interpreted"])
def test_a_structure_without_arrays_is_told_from_another(options):
    function = sg.jit(lambda p: np.ones(2) * len(p), options=options)
    argument: Any
    for argument in ([], [None], {}, [None, None], []):
        assert function(argument).tolist() == [len(argument)] * 2


def test_captured_names_are_looked_at_in_the_short_call():
    """Bound anew: read; deleted: the function's own error."""
    factor = np.full(3, 2.0)

    def loss(x):
        return np.sum(factor * x * TABLE[0])

    def bind(value):
        nonlocal factor
        factor = value

    def delete():
        nonlocal factor
        del factor

    function = sg.jit(loss)
    for value in (factor, np.full(3, 5.0)):
        bind(value)
        for _ in range(3):
            np.testing.assert_allclose(function(W), loss(W), rtol=1e-14)
    assert function.cache_info().compilations == 1
    delete()
    with pytest.raises(NameError, match="factor"):
        function(W)


# -- checks in C


def pair(x, y):
    return np.sum(x * y) * np.sum(y)


def pair_of(x, y):
    return {"value": pair(x, y), "slope": 2.0 * x + y}


ARRAYS: dict[str, tuple[Any, ...]] = {
    "fewer": (W,), "more": (W, W, W), "none": (), "nothing": (None, W), "a string": ("x", W),
    "a list": (W, [1.0, 2.0, 3.0]), "a number": (W, 2.0), "a scalar of NumPy": (W, np.float64(2.0)),
    "another shape": (W[:2], W), "a column": (W[:, None], W), "no axis": (np.array(1.0), W),
    "single": (W, W.astype(np.float32)), "integers": (W, np.arange(3)), "strides": (np.repeat(W, 2)[::2], W),
    "backwards": (W, W[::-1]), "the other byte order": (W, W.astype(">f8")),
    "a subclass": (W, W.view(type("Mine", (np.ndarray,), {}))), "a mask": (W, np.ma.masked_array(W, mask=W > 0)),
    "not aligned": (np.zeros(25, np.uint8)[1:].view(float), W), "read only": (np.frombuffer(W.tobytes()), W),
}


def compiled(function: sg.Function) -> str:
    assert function.c_path is not None
    return function.c_path.read_text(encoding="utf-8")


def outcome(function, args):
    try:
        return function(*args)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def test_this_python_and_numpy_hold_arrays_as_c_reads_them():
    assert is_readable()
    function = sg.jit(pair)
    function(W, W)
    assert "pair_objects(" in compiled(function)
    assert "pair_objects" not in function.c_source  # nobody but Python needs it


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("fun", [pair, pair_of])
def test_what_c_does_not_take_is_checked_in_python(name, fun):
    function = sg.jit(fun)
    function(W, W)
    check_what_c_does_not_take(function, sg.jit(fun, options=sg.Options(compiler="none")), ARRAYS[name])


def check_what_c_does_not_take(function, interpreted, args) -> None:
    """Compare results or errors with the interpreter's, of a function whose next call is short, before and after."""
    expected = function(W, W)
    ours, theirs = outcome(function, args), outcome(interpreted, args)
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        for one, two in zip(leaves(ours), leaves(theirs), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6)
    for one, two in zip(leaves(function(W, W)), leaves(expected), strict=True):
        assert np.array_equal(one, two)


def test_ranks_constants_and_workspaces_in_c():
    table = rng.normal(size=(6, 700))

    def chain(x, M, s):
        y = np.cumsum(np.exp(0.1 * table @ np.repeat(x, 100)) * s)
        return np.sum(y[::-1] * M[0]) + np.sum(M), M.T @ M

    x, M, s = rng.normal(size=7), rng.normal(size=(2, 6)), np.array(0.5)
    function = sg.jit(chain)
    for _ in range(3):
        for one, two in zip(function(x, M, s), chain(x, M, s), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    (short,) = function._shorts
    assert short((x, M, s)) is not MISS


def test_a_failed_check_is_the_same_error_in_the_short_call():
    function = sg.jit(lambda x, i: x[i] * 2.0)
    assert function(W, np.array([0, 2])).tolist() == [2 * W[0], 2 * W[2]]
    for wrong in ([3, 0], [0, -4]):
        with pytest.raises(IndexOutOfBounds, match="size 3"):
            function(W, np.array(wrong))
    assert function(W, np.array([1, 1])).tolist() == [2 * W[1], 2 * W[1]]


def test_memory_that_is_not_as_expected_is_not_read(monkeypatch):
    monkeypatch.setattr(objects, "TYPE", objects.DATA)
    is_readable.cache_clear()
    try:
        assert not is_readable()
        function = sg.jit(lambda x: np.sum(x * x))
        assert function(W) == function(W) == pytest.approx(np.sum(W * W))
        assert "_objects(" not in compiled(function)
    finally:
        is_readable.cache_clear()


def test_threads_call_the_short_way_at_once():
    function = sg.value_and_grad(pair, argnums=(0, 1))
    inputs = [(rng.normal(size=3), rng.normal(size=3)) for _ in range(8)]
    expected = [function(*each) for each in inputs]

    def run(k):
        return all(
            np.array_equal(np.concatenate([np.ravel(v) for v in leaves(function(*inputs[k]))]),
                           np.concatenate([np.ravel(v) for v in leaves(expected[k])])) for _ in range(300)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


ROOMS = ("api.call.function", "api.call.arguments", "api.call.function", "build.call")
"""Where an argument is on its way to C, of a call in which the compilation is looked for and what C reads is copied."""


@pytest.mark.parametrize(("name", "args", "kwargs", "rooms"), [
    ("strides and a keyword", (np.arange(8.0)[::2],), {"y": Y[:4]}, ROOMS),
    ("a large array by columns", (np.asfortranarray(np.ones((100, 100))),), {"y": np.ones((100, 100))}, ROOMS),
    ("an integer", (np.arange(8.0)[::2],), {"y": 3}, ROOMS),
    ("open extents", (np.arange(10.0)[::2],), {"y": Y}, (*ROOMS[:3], "api.call.sizes", *ROOMS[2:])),
])
def test_the_way_of_an_argument_to_c_is_short(name, args, kwargs, rooms):
    """At most eight stops, and none on a floor above the one before: `api` is above `build`, and `trace` below both."""
    function = sg.jit(lambda x, y: np.sum(x * y))
    others = ((np.ones(3),), {"y": np.ones(3)}), ((np.ones(4),), {"y": np.ones(4)})
    for one, named in (*(others if name == "open extents" else ()), (args, kwargs), (args, kwargs)):
        function(*one, **named)
    given, seen = [*args, *kwargs.values()], []
    extents = tuple([d for one in given for d in np.shape(one)])

    def is_of_it(value: Any) -> bool:
        if isinstance(value, np.ndarray) or type(value) is int:
            return any(type(one) is type(value) and np.array_equal(one, value) for one in given)
        parts = value.values() if type(value) is dict else value if isinstance(value, (tuple, list)) else ()
        return repr(parts) == repr(extents) or any(map(is_of_it, parts))

    def look(frame: Any, event: str, _: Any) -> None:
        module = frame.f_globals["__name__"]
        if event == "call" and module.startswith("symgrad.") and any(map(is_of_it, [*frame.f_locals.values()])):
            seen.append(module.removeprefix("symgrad."))

    sys.setprofile(look)
    try:
        function(*args, **kwargs)
    finally:
        sys.setprofile(None)
    stops = tuple([one for one, before in zip(seen, ["", *seen], strict=False) if one != before])
    assert stops == rooms

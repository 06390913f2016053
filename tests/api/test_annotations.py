"""Annotations of jaxtyping's: names of axes, and checks of dtype and rank."""

# ruff: noqa: F722, F821, UP037 - the text in an annotation of jaxtyping's is no Python

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Bool, Float, Float32, Float64, Int64, Shaped

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError
from tests.programs import leaves

if typing.TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]

Array = np.ndarray
X = np.arange(12.0).reshape(4, 3)


def loss(w: Float64[Array, "d"], X: Float64[Array, "n d"], y: Float64[Array, "n"]):
    return np.sum((X @ w - y) ** 2)


def given(n: int, d: int) -> Any:
    return np.ones(d), np.ones((n, d)), np.zeros(n)


MODES: dict[str, Any] = {
    "jit": sg.jit, "grad": sg.grad, "value_and_grad": sg.value_and_grad, "jacrev": sg.jacrev, "hessian": sg.hessian,
    "of a jit": lambda f, **options: sg.grad(sg.jit(f), **options),
}


@pytest.mark.parametrize("name", MODES)
def test_names_are_open_from_the_first_call(name):
    function = MODES[name](loss)
    for n in (4, 0, 1, 9):
        args = given(n, 3)
        for one, two in zip(leaves(function(*args)), leaves(MODES[name](loss, dynamic=False)(*args)), strict=True):
            np.testing.assert_allclose(one, two)
    info = function.cache_info()
    assert info.compilations == 1
    assert "X: f64[n,d]" in info.signatures[0]


def test_what_cannot_be_open_stays_a_number():
    function = sg.jit(functools.partial(loss, np.ones(3)))
    for n in (4, 0, 1, 9):
        assert function(*given(n, 3)[1:]) == 9 * n
    info = function.cache_info()
    assert info.signatures == ("X: f64[4,3], y: f64[4]", "X: f64[n,3], y: f64[n]")
    assert info.refusals == ("(n, d, n): matmul: (n, d) @ (3,): the inner extents d and 3 differ",)


def test_they_are_checked():
    function = sg.jit(loss)
    with pytest.raises(ArgumentValueError, match=r"the extent d is 3 on axis 0 of w.*and 2 on axis 1 of X.*\(4, 2\)"):
        function(np.ones(3), np.ones((4, 2)), np.ones(4))
    function(*given(4, 3))
    with pytest.raises(ArgumentValueError, match=r"the extent n is 4 on axis 0 of X.*and 5 on axis 0 of y"):
        function(np.ones(3), np.ones((4, 3)), np.ones(5))
    with pytest.raises(ArgumentError, match=r"argument X is f32\[4,3\], and its .* to be Float64\[ndarray, 'n d'\]"):
        function(np.ones(3), np.ones((4, 3), np.float32), np.ones(4))
    with pytest.raises(ArgumentError, match=r"argument y is f64\[4,1\]"):
        function(np.ones(3), np.ones((4, 3)), np.ones((4, 1)))
    off = sg.jit(loss, dynamic=False)
    off(*given(4, 3))
    with pytest.raises(ArgumentValueError, match="the extent n is 4"):
        off(np.ones(3), np.ones((4, 3)), np.ones(5))
    off(*given(5, 3))
    assert off.cache_info().compilations == 2


def test_they_are_checked_inside_of_other_functions():
    inner = sg.jit(loss)
    with pytest.raises(ArgumentValueError, match="the extent n is 4"):
        sg.jit(lambda w, X: inner(w, X, np.ones(5)))(np.ones(3), X)


class Pair(NamedTuple):
    a: Float64[Array, "n"]
    b: Int64[Array, "n 2"]


@dataclass
class Layer:
    w: Float64[Array, "d k"]
    b: Float64[Array, "k"]


def of_dict(p: dict[str, Float64[Array, "n"]]):
    return p["a"] * p["b"]


def of_list(p: list[Float64[Array, "n"]]):
    return p[0] * p[1]


def of_tuple(p: tuple[Float64[Array, "n"], Float64[Array, "n k"]]):
    return p[0] @ p[1]


def of_many(p: tuple[Float64[Array, "n"], ...]):
    return p[0] * p[1]


def of_pair(p: Pair):
    return p.a * p.b[:, 0]


def of_tree(p):
    return p["a"][0] * p["b"]


def of_optional(x: Float64[Array, "n"], y: Float64[Array, "n"] | None = None):
    return x if y is None else x * y


def of_keywords(x: Float64[Array, "n"], **others: Float64[Array, "n"]):
    return x * others["y"]


def of_positions(*xs: Float64[Array, "n"]):
    return xs[0] * xs[1]


def vector(n: int) -> Any:
    return np.arange(float(n))


TREES: dict[str, tuple[Any, Any]] = {
    "a dict": (of_dict, lambda n: (({"a": vector(n), "b": vector(n)},), {})),
    "a list": (of_list, lambda n: (([vector(n), vector(n)],), {})),
    "a tuple": (of_tuple, lambda n: (((vector(n), np.ones((n, 2))),), {})),
    "a tuple of any length": (of_many, lambda n: (((vector(n), vector(n)),), {})),
    "a NamedTuple": (of_pair, lambda n: ((Pair(vector(n), np.ones((n, 2), np.int64)),), {})),
    "a PyTree": (of_tree, lambda n: (({"a": [vector(n)], "b": vector(n)},), {})),
    "an optional one": (of_optional, lambda n: ((vector(n), vector(n)), {})),
    "keywords": (of_keywords, lambda n: ((vector(n),), {"y": vector(n)})),
    "positions": (of_positions, lambda n: ((vector(n), vector(n)), {})),
}

try:
    of_tree.__annotations__["p"] = importlib.import_module("jaxtyping").PyTree[Float64[Array, "n"]]
except ImportError:  # jaxtyping's PyTree needs JAX
    del TREES["a PyTree"]


@pytest.mark.parametrize("name", TREES)
def test_parts_of_trees(name):
    fun, make = TREES[name]
    function = sg.jit(fun)
    for n in (3, 5, 1, 0):
        args, kwargs = make(n)
        np.testing.assert_allclose(function(*args, **kwargs), fun(*args, **kwargs))
    assert function.cache_info().compilations == 1


def others(
    a: Float[Array, "n"], b: Float32[Array, "... n"], c: Bool[Array, "*batch 2"], d: Shaped[Array, "#n _ k=3"],
    e: Float64[Array, ""], f: Float[Array, "n+1"],
):
    return np.sum(a) + np.sum(b) + np.sum(c) + np.sum(d) + e + np.sum(f)


def test_what_else_an_annotation_may_say():
    def args(n):
        return (
            np.ones(n, np.float32), np.ones((2, 5, n), np.float32), np.ones((7, 2), bool),
            np.ones((1, 4, 3), np.int32), 2.0, np.ones(n + 1),
        )

    function = sg.jit(others)
    for n in (4, 5, 6):
        assert function(*args(n)) == others(*args(n))
    assert "b: f32[2,5,n], c: bool[7,2], d: i32[1,4,3], e: f64[], f: f64[n+1]" in function.cache_info().signatures[0]
    assert function.cache_info().compilations == 1
    with pytest.raises(ArgumentError, match="argument a is i64"):
        function(np.ones(4, np.int64), *args(4)[1:])
    with pytest.raises(ArgumentValueError, match=r"the extent 5 on axis 2 of d.* is to be 3"):
        function(*args(4)[:3], np.ones((1, 4, 5)), *args(4)[4:])  # type: ignore[call-arg]


def needs_number(x: Float64[Array, "n"]):
    return sum(x[i] for i in range(x.shape[0]))


def test_code_that_needs_the_number_is_compiled_for_each():
    function = sg.jit(needs_number)
    assert [float(function(np.ones(n))) for n in (2, 3, 4)] == [2, 3, 4]
    assert function.cache_info().compilations == 3
    assert "(n): the extent n is not known" in function.cache_info().refusals[0]
    with pytest.raises(sg.SymgradError, match="the extent n is not known"):
        sg.jit(needs_number, dynamic={"x": "n"})(np.ones(2))


def test_dynamic_goes_before_them():
    function = sg.jit(loss, dynamic={"y": "m", "X": "m,_"})
    for n in (3, 4):
        function(*given(n, 3))
    assert function.cache_info().signatures == ("w: f64[d], X: f64[m,d], y: f64[m]",)


def test_vmap_does_not_read_them():
    function = sg.vmap(lambda w, x: loss(w, x, np.ones(4)), (None, 0))
    batch = sg.vmap(loss, (None, 0, None))
    for many in (2, 3):
        expected = [loss(np.ones(3), X * k, np.ones(4)) for k in range(many)]
        stacked = np.stack([X * k for k in range(many)])
        np.testing.assert_allclose(function(np.ones(3), stacked), expected)
        np.testing.assert_allclose(batch(np.ones(3), stacked, np.ones(4)), expected)


def unknown(x: Float64[Array, "n"], y: Unknown):
    return x * y


def test_names_that_are_not_there_are_no_matter():
    assert sg.jit(unknown)(np.ones(3), 2.0).shape == (3,)


def test_jaxtyping_is_not_imported():
    script = "import sys, symgrad as sg; print(sg.jit(lambda x: x + 1)(1.0), 'jaxtyping' in sys.modules)"
    root = str(Path(sg.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout == "2.0 False\n"

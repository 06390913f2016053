"""Extents that are always so much larger than another one: learnt, named, annotated, checked; and when they are not."""

# ruff: noqa: F821, UP037 - the text in an annotation of jaxtyping's is no Python

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import symgrad as sg
from symgrad.api.call.sizes import unify
from symgrad.cli.main import main
from symgrad.errors import ArgumentValueError
from tests.programs import leaves

Array = np.ndarray
SIZES = (5, 7, 100, 1, 0, 2, 65)


def cells(x, edges):
    return np.sum(x * np.diff(edges) * np.exp(-0.5 * (edges[1:] + edges[:-1])))


def annotated(edges: Float64[Array, "n+1"], x: Float64[Array, "n"]):
    return cells(x, edges)


def draw(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return rng.normal(size=n), np.sort(rng.normal(size=n + 1))


def same(found: Any, expected: Any) -> None:
    for one, two in zip(leaves(found), leaves(expected), strict=True):
        assert np.shape(one) == np.shape(two)
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-12)


MODES: dict[str, Any] = {
    "value": sg.jit,
    "value_and_grad": lambda f, **options: sg.value_and_grad(f, argnums=(0, 1), **options),
    "hessian": lambda f, **options: sg.hessian(f, argnums=1, **options),
    "jacrev": lambda f, **options: sg.jacrev(lambda x, e: f(x, e) * x, **options),
}


@pytest.mark.filterwarnings("ignore:.*was compiled 8 times")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dynamic", ["auto", {"x": "n", "edges": "n + 1"}], ids=["learnt", "named"])
def test_one_binary_for_cells_and_their_edges(mode, dynamic):
    if mode == "jacrev" and dynamic != "auto":
        dynamic = {"x": "n", "e": "n+1"}
    function = MODES[mode](cells, dynamic=dynamic)
    alone = MODES[mode](cells, dynamic=False, options=sg.Options(compiler="none"))
    for n in (*SIZES, *SIZES):
        same(function(*draw(n)), alone(*draw(n)))
    assert function.cache_info().compilations == 1 + (dynamic == "auto")
    assert "f64[n+1]" in function.cache_info().signatures[-1]


def test_annotations():
    function = sg.value_and_grad(annotated, argnums=(1, 0))
    for n in SIZES:
        x, edges = draw(n)
        same(function(edges, x), sg.value_and_grad(cells, argnums=(0, 1))(x, edges))
    assert function.cache_info().signatures == ("edges: f64[n+1], x: f64[n]",)
    with pytest.raises(ArgumentValueError, match=r"the extent n is 5 on axis 0 of x.*, and n\+1 is 5"):
        function(np.ones(5), np.ones(5))


def test_another_relation_is_another_compilation():
    function = sg.jit(lambda a, b: a.shape[0] * np.sum(b) + np.sum(a))
    for n, m in ((3, 4), (5, 6), (7, 7), (8, 2)):
        assert function(np.ones(n), np.ones(m)) == n * m + n
    assert function.cache_info().signatures == ("a: f64[3], b: f64[4]", "a: f64[n], b: f64[m]")
    joined = sg.jit(lambda a, b: np.sum(np.diff(b)[: a.shape[0]] * a) if b.ndim else a)
    for n in (3, 5, 9):
        assert joined(np.ones(n), np.arange(n + 1.0)) == n
    for n, m in ((4, 7), (6, 9)):  # shapes that do not fit: each an error of its own, or a compilation
        expected = np.sum(np.diff(np.arange(float(m)))[:n])
        assert joined(np.ones(n), np.arange(float(m))) == expected
    with pytest.raises(ValueError, match="broadcast"):
        joined(np.ones(5), np.arange(3.0))
    assert joined(np.ones(11), np.arange(12.0)) == 11


def test_they_are_bound_pickled_and_reported():
    function = sg.jit(cells)
    for n in (4, 6):
        function(*draw(n))
    again = pickle.loads(pickle.dumps(function))
    x, edges = draw(9)
    same(function.bind(x, edges)(), cells(x, edges))
    same(again(x, edges), cells(x, edges))
    text = function.report()
    assert "Extents that are not left open" in text
    assert "(n, m): shapes (n,), (Max(0, m - 1),) do not broadcast together" in text


def test_a_sum_of_a_name_that_is_nowhere_says_nothing():
    function = sg.jit(np.sum, dynamic={0: "n+1"})
    for n in (3, 4):
        assert function(np.ones(n)) == n
    assert function.cache_info().signatures == ("a: f64[3]", "a: f64[4]")


def test_patterns():
    assert unify(("n+1", "n"), (4, 3)) == {"n": 3}
    assert unify(("n+1", "n"), (3, 3)) is None
    assert unify(("n", "n+1"), ("n", "m")) is None
    assert unify(("n", "n+1"), ("m", "m+1")) == {"n": "m"}
    assert unify(("n", "m"), ("n", "n+1")) == {"n": "n", "m": "n+1"}


def test_halves_of_any_extents():
    """What one half hands to the other may have extents that are no sum of a name and a number."""

    def fun(x):
        steps = np.repeat(np.diff(x), 2)
        return np.sum(np.sin(steps) * np.exp(steps)) * np.tanh(np.concatenate([steps, x]))

    for n in (5, 6, 1, 0, 9):
        x = np.linspace(1.0, 2.0, n) ** 2
        y, pull = sg.vjp(fun, x)
        expected = sg.jacrev(fun, dynamic=False)(x).T @ np.ones_like(y)
        for _ in range(3):
            np.testing.assert_allclose(pull(np.ones_like(y))[0], expected, atol=1e-12)
    assert unify(("n", "2*n+1"), (3, 9)) == {"n": 3, "2*n+1": 9}
    assert unify(("m+1",), (3,)) == {}


def test_a_spec_may_be_one_longer_than_another():
    assert repr(sg.spec("f64[ n + 1 ,3]")) == "f64[n+1,3]"
    function = sg.grad(lambda edges, x: np.sum(np.diff(edges) * x), specs=("f64[n+1]", "f64[n]"))
    assert function(np.arange(4.0), np.ones(3)).tolist() == [-1, 0, 0, 1]
    assert function(np.arange(1.0), np.ones(0)).tolist() == [0]
    with pytest.raises(ValueError, match=r"argument 'edges' has extent 4 on axis 0, where n \+ 1 is 5"):
        function(np.ones(4), np.ones(4))
    with pytest.raises(ValueError, match=r"the extent of a is n \+ 1, and no argument has the extent n"):
        sg.jit(np.sum, specs=("f64[n+1]",))


def test_the_terminal_program_draws_arrays_one_longer(tmp_path, capsys):
    text = "import numpy as np\ndef f(edges, x):\n    return np.sum(np.diff(edges) ** 2 * x)\n"
    (tmp_path / "steps.py").write_text(text)
    assert main(["check", f"{tmp_path}/steps.py:f", "--arg", "edges=f64[n+1]", "--arg", "x=f64[n]"]) == 0
    assert "derivatives agree" in capsys.readouterr().out

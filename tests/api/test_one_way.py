"""A derivative is the same program wherever it stands: at the top, inside of `jit`, in a package, under other modes."""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from benchmarks.workloads import OTHERS, PROMISED
from symgrad.emit.derive import Specialization, derive
from symgrad.ir.node import Graph, Node
from symgrad.ir.text import as_text
from symgrad.options import Options
from symgrad.transforms.build import literal, make
from tests.programs import random_program

WORKS = {w.name: w for w in PROMISED + OTHERS if w.by is not None}
X, M = np.linspace(-1.0, 2.0, 5), np.linspace(-1.0, 2.0, 15).reshape(3, 5)


def text(function: Any, *args: Any) -> str:
    return as_text(function.lower(*args).program, lines=False)


def wrapped(fun: Any, make: Any) -> Any:
    """Give what calls a mode the name and the parameters of the function."""

    @functools.wraps(fun)
    def inside(*args: Any) -> Any:
        return make(fun)(*args)

    return sg.jit(inside)


def check(fun: Any, args: Any, by: Any) -> None:
    both = functools.partial(sg.value_and_grad, argnums=by)
    alone = text(both(fun), *args)
    assert text(wrapped(fun, both), *args) == alone
    assert text(wrapped(fun, lambda f: both(sg.jit(f))), *args) == alone
    assert text(sg.jit(sg.jit(both(fun))), *args) == alone
    packed = derive("value_and_grad", Specialization(fun, tuple(args)), by, Options()).lowered.program
    assert as_text(packed, lines=False) == alone
    gradient = text(sg.grad(fun, by), *args)
    assert text(sg.jacrev(fun, by), *args) == gradient
    assert text(wrapped(fun, lambda f: lambda *x: sg.value_and_grad(f, by)(*x)[1]), *args) == gradient


@pytest.mark.parametrize("name", WORKS)
def test_of_a_benchmark(name: str) -> None:
    work = WORKS[name]
    check(work.function, work.arguments(), work.by)


@pytest.mark.parametrize("seed", range(40))
def test_of_a_random_program(seed: int) -> None:
    written = random_program(seed)
    check(written.functions()[1], written.args, written.argnums)


def masked(z: Any, y: Any) -> Any:
    return np.where(y > 0, np.log1p(np.exp(-z)), np.log1p(np.exp(z)))


def calls(program: str) -> Counter[str]:
    """Count the functions of math.h that a program calls."""
    return Counter(word for word in ("np.exp(", "np.log", "np.sin(", "np.cos(", "expit(", "np.tanh(", "np.sqrt(")
                   for _ in range(program.count(word)))


def test_a_choice_is_hoisted_wherever_its_derivative_stands() -> None:
    def loss(z: Any) -> Any:
        return np.sum(masked(z, X))

    top = calls(text(sg.grad(loss), X))
    assert top["expit("] == 1
    for other in (wrapped(loss, sg.grad), sg.jacrev(loss), sg.jit(lambda z: sg.vjp(loss, z)[1](1.0)[0]),
                  sg.jit(lambda z: sg.gradients(loss(z), z)), sg.jacrev(lambda z: masked(z, X)),
                  sg.vmap(sg.grad(lambda z: masked(z, 1.0)))):
        assert calls(text(other, X)) == top


def relabelled(program: str) -> str:
    """Name the labels of every einsum in the order they come in."""
    def renamed(found: re.Match[str]) -> str:
        known = "".join(dict.fromkeys(re.findall(r"[a-z]", found[0])))
        return re.sub(r"[a-z]", lambda label: "abcdef"[known.index(label[0])], found[0])

    return re.sub(r'"[a-z,]*->[a-z]*"', renamed, program)


ROWS: dict[str, tuple[Any, Any]] = {
    "elementwise": (lambda x: np.sum(np.sin(x) * x), lambda x: np.sum(np.sin(x) * x)),
    "a norm": (lambda x: np.sqrt(1 + np.sum(x * x)), lambda x: np.sum(np.sqrt(1 + np.sum(x * x, axis=1)))),
    "logsumexp": (lambda x: np.log(np.sum(np.exp(x))), lambda x: np.sum(np.log(np.sum(np.exp(x), axis=1)))),
    "a product": (lambda x: np.tanh(x @ X), lambda x: np.sum(np.tanh(x @ X))),
    "a choice": (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0)), lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0))),
    "slices": (lambda x: np.sum(x[1:] * x[:-1] ** 2), lambda x: np.sum(x[:, 1:] * x[:, :-1] ** 2)),
}


@pytest.mark.parametrize("name", ROWS)
def test_under_vmap_it_is_that_of_the_batched_function(name: str) -> None:
    one, many = ROWS[name]
    batched, explicit = sg.vmap(sg.grad(one)), sg.grad(many)
    np.testing.assert_array_equal(batched(M), explicit(M))
    assert relabelled(text(batched, M)) == relabelled(text(explicit, M))


VECTORS: dict[str, Any] = {
    "elementwise": lambda x: np.exp(x) * np.sin(x),
    "a softmax": lambda x: np.exp(x) / np.sum(np.exp(x)),
    "a layer": lambda x: np.tanh(M @ x),
    "a choice": lambda x: masked(x, X),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_jacobian_computes_what_a_gradient_does_once(name: str) -> None:
    fun = VECTORS[name]
    weights = np.arange(1.0, 1 + fun(X).shape[0])
    gradient, jacobian = sg.grad(lambda x: np.sum(fun(x) * weights)), sg.jacrev(fun)
    assert calls(text(jacobian, X)) == calls(text(gradient, X))
    np.testing.assert_allclose(weights @ jacobian(X), gradient(X), rtol=1e-13)


DERIVATIVES: dict[str, Any] = {
    "grad": sg.grad, "value_and_grad": sg.value_and_grad, "jacfwd": sg.jacfwd, "jacrev": sg.jacrev,
    "hessian": sg.hessian, "grad of grad": lambda f: sg.grad(lambda x: np.sum(sg.grad(f)(x))),
    "jvp of grad": sg.hvp, "vmap of grad": lambda f: sg.vmap(sg.grad(f), in_axes=None, axis_size=2),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_first_stages_show_what_is_differentiated_innermost(name: str) -> None:
    def naive(x: Any) -> Any:
        return np.sum(np.log(1 + np.exp(x)))

    args = (X, X) if name == "jvp of grad" else (X,)
    lowered = DERIVATIVES[name](naive).lower(*args)
    alone = sg.jit(naive).lower(X)
    for stage in ("traced", "stable"):
        assert as_text(lowered.stages.of(stage), lines=False) == as_text(alone.stages.of(stage), lines=False)
    assert "logaddexp" in lowered.as_text("stable")
    assert lowered.as_text("derived") != lowered.as_text("stable")


def test_what_is_differentiated_inside_is_shown_with_what_it_reads_around() -> None:
    def outer(x: Any) -> Any:
        y = np.sin(x)
        return np.sum(sg.grad(lambda x: np.sum(x * x * y))(x))

    lowered = sg.grad(outer).lower(X)
    names: dict[str, Any] = {}
    exec(as_text(lowered.stages.of("stable")), names)
    assert names["lambda_"](X, 2 * X)[0] == np.sum(X * X * np.sin(2 * X))


def test_results_are_named_for_what_they_are() -> None:
    def loss(w: Any, b: Any) -> Any:
        return np.sum(w * b), b * 2

    one = sg.value_and_grad(loss, argnums=("w", "b"), has_aux=True)
    two = sg.grad(loss, argnums=("w", "b"), has_aux=True)
    for function, labels in ((one, ("value", "aux1", "w_bar", "b_bar")), (two, ("w_bar", "b_bar", "aux1"))):
        assert function.lower(X, X).program.labels == labels
        assert sg.jit(lambda w, b, f=function: f(w, b)).lower(X, X).program.labels == labels
    assert sg.jit(lambda w, b: sg.grad(loss, has_aux=True)(w, b)[0] + 1).lower(X, X).program.labels == ()


def test_a_compiled_function_is_traced_through_as_if_it_were_not() -> None:
    inner = sg.jit(lambda x, n: np.sum(x**2) * n, static_argnames="n")
    assert text(sg.jit(lambda x: inner(np.sin(x), 3) + 1), X) == text(
        sg.jit(lambda x: np.sum(np.sin(x) ** 2) * 3 + 1), X)


def test_deep_nests_grow_with_what_they_compute() -> None:
    """Each of many functions in each other adds its own operations, and no copies of those inside."""
    fun: Any = np.sin
    counts = []
    for _ in range(24):
        fun = sg.jit(lambda x, f=fun: np.sin(f(x)))
        lowered = sg.value_and_grad(fun).lower(1.0)
        counts.append(len(lowered.program.nodes()))
    steps = np.diff(counts)
    assert steps.max() <= steps[0] + 1, counts


def test_nodes_of_a_table_apart_are_others_and_come_later() -> None:
    graph = Graph()

    def one() -> Node:
        return make(graph, "square", literal(graph, 1.0, np.float64))

    before = one()
    with graph.apart():
        inside = one()
        assert one() is inside
        assert inside is not before
    assert one() is before
    assert inside.number > before.number
